"""From a compiled kernel to a running one: picks the device, assembles for it, launches; NumPy goes to the simulator.

`Executable` is one specialisation; `Dispatcher` stands before all specialisations of a kernel and picks by the facts
that hold for a call (such as "K is divisible by 16"). Both turn the runtime's errors into MinitileErrors that show the
line of the call. Neither knows of the language: `jit` gives them a Program, a LaunchInfo and a function that simulates.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from itertools import islice
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NoReturn, ParamSpec, TypeVar

from minitile.backends.base import AssemblerWarning, Program
from minitile.backends.registry import backend_of_text
from minitile.ir.diagnostics import InternalError, LaunchArgumentError, Location, MinitileError
from minitile.runtime.arrays import Place
from minitile.runtime.bind import Launch, compile_binder, compile_dispatch, compile_selector
from minitile.runtime.errors import ArgumentError, LaunchError
from minitile.runtime.launch_info import Expr, LaunchInfo, ScalarArg, TensorArg, Values, compile_exprs, slots_of
from minitile.runtime.launcher_base import BaseLauncher, Prepared

Simulate = Callable[[tuple[Any, ...]], None]
P = ParamSpec("P")
R = TypeVar("R")


class DeviceError(MinitileError):
    """The GPU's driver refused, or there is no driver to ask."""


class Executable:
    """One compiled kernel, callable on GPU arrays and, through `simulate`, on NumPy arrays.

    `program` is its text and what becomes of it on GPUs; a text alone finds the backend whose assembly it is. `fits`
    are the facts of `info` that a dispatcher's key does not say: of indices that 32 bits hold. `simulate` gets the
    caller's arguments (NumPy arrays and Python scalars, already checked) and writes the results into the arrays.
    `remarks` fills with what there is to know of the program once it has been assembled.
    """

    def __init__(
        self,
        info: LaunchInfo,
        program: Program | str,
        simulate: Simulate | None = None,
        fits: Sequence[Expr] = (),
    ) -> None:
        self.info = info
        self.fits = compile_exprs(fits, slots_of(info.args)) if fits else None
        self.program = backend_of_text(program).program_of_text(program) if isinstance(program, str) else program
        self.program.remark = self._remark
        self.text = self.program.text
        self.remarks: list[str] = []
        self._simulate = simulate
        self._bind = compile_binder(info.args)
        self._launcher: BaseLauncher | None = None

    def __call__(self, *args: Any) -> None:
        """Runs on the arguments: on their GPU, on its framework's current stream; in the simulator for NumPy arrays."""
        try:
            values, place = self._bind(*args)
            if place.kind == "cpu":
                self.run_on_cpu(args)
            else:
                (self._launcher or self.launcher).launch_checked(values, place)
        except LaunchError as error:
            raise_for_caller(error)

    def bind(self, *args: Any) -> tuple[Values, Place]:
        """The values of the slots for these arguments, and where they are. Raises LaunchErrors."""
        bound: tuple[Values, Place] = self._bind(*args)
        return bound

    def run_on_cpu(self, args: tuple[Any, ...]) -> None:
        """Simulates a call with arguments that are bound. Raises LaunchErrors."""
        if self._simulate is None:
            raise ArgumentError("the arguments are on the CPU and this kernel has no simulator")
        self._simulate(args)

    def prepare(self, *args: Any) -> Prepared:
        """A launch on these very arrays, ready to be repeated by calling it (optionally with a raw stream)."""
        try:
            return self.launcher.prepare(*args)
        except LaunchError as error:
            raise_for_caller(error)

    @property
    def launcher(self) -> BaseLauncher:
        """The kernel on the GPUs that it is for, made on first use. Raises UnavailableError where there are none."""
        if self._launcher is None:
            self._launcher = self.program.launcher(self.info)
        return self._launcher

    def _remark(self, text: str) -> None:
        """Warns, at the line of the call."""
        self.remarks.append(text)
        at = caller_location() or Location("<minitile>", 1)
        warnings.warn_explicit(f"{self.info.entry}: {text}", AssemblerWarning, at.file, at.line)


class Dispatcher:
    """All specialisations of one kernel. `compile`, which keeps what it makes, is asked for the Executable of a place
    and values of the `facts` (expressions over the arguments' slots; see minitile.runtime.launch_info); for those that
    have been on a GPU, once. Its third argument: whether that has to be right for all numbers for which the facts are
    so (`Executable.fits` says for which the other one is). `elsewhere` is asked for the dispatcher of arguments that
    do not fit this one, None where none would take them."""

    def __init__(
        self,
        args: Sequence[TensorArg | ScalarArg],
        facts: Sequence[Expr],
        compile: Callable[[Place, tuple[int, ...], bool], Executable],
        elsewhere: Callable[[tuple[Any, ...]], Dispatcher | None] = lambda args: None,
    ) -> None:
        self._select = compile_selector(args, facts)
        self._compile = compile
        self._count = len(args)
        self._elsewhere = elsewhere
        self._slots = slots_of(args)
        self._launches: dict[Values, Launch] = {}  # of those that have been on a GPU, by the key of `_pick`
        self.call = compile_dispatch(args, facts, self._launches, self._first_call, raise_for_caller, self._other_call)

    def __call__(self, *args: Any) -> None:
        """As `call`, which is quicker: a function, not a method."""
        self.call(*args)

    def _other_call(self, args: tuple[Any, ...]) -> Callable[..., None] | None:
        other = self._elsewhere(args)
        return None if other is None else other.call

    def _first_call(self, values: Values, place: Place, key: Values, args: tuple[Any, ...]) -> None:
        """A call of a specialisation that has not been on a GPU yet."""
        if place.kind == "cpu":
            self._pick(place, key, values).run_on_cpu(args)
        else:
            launch = self._launches[key] = self._launch(place, key)
            launch(values, place)

    def _launch(self, place: Place, key: Values) -> Launch:
        """What launches all calls of a key."""
        executable = self._compile(place, key[2:], False)
        taken = self._taken(executable)
        fits = executable.fits
        if fits is None and taken is None:
            return executable.launcher.launch

        def launch(values: Values, place: Place) -> None:
            own = values if taken is None else taken(values)
            chosen = self._compile(place, key[2:], True) if fits is not None and False in fits(own) else executable
            chosen.launcher.launch(own, place)

        return launch

    def _taken(self, executable: Executable) -> Callable[[Values], Values] | None:
        """Of a call's values those that a specialisation takes, None where it takes all: a stride that it knows is a
        number to it, and none of its slots."""
        numbers = {slot: n for n, slot in enumerate(self._slots)}
        kept = [numbers[slot] for slot in slots_of(executable.info.args)]
        return None if kept == list(range(len(numbers))) else lambda values: tuple([values[n] for n in kept])

    def executable(self, *args: Any) -> Executable:
        """The specialisation that a call with these arguments would run; compiled now if need be."""
        other = self._elsewhere(args) if len(args) == self._count else None
        if other is not None:
            return other.executable(*args)
        try:
            values, place, key = self._select(*args)
            return self._pick(place, key, values)
        except LaunchError as error:
            raise_for_caller(error)

    def _pick(self, place: Place, key: Values, values: Values) -> Executable:
        """The key is the place's kind and index and then the facts' values."""
        found = self._compile(place, key[2:], False)
        if found.fits is None:
            return found
        taken = self._taken(found)
        fits = found.fits(values if taken is None else taken(values))
        return self._compile(place, key[2:], True) if False in fits else found


def raise_for_caller(error: LaunchError, name: str = "") -> NoReturn:
    """The runtime's error as a MinitileError at the user's line. name: the argument that it is about."""
    kind = LaunchArgumentError if isinstance(error, ArgumentError) else DeviceError
    raise kind(f"{name}: {error.message}" if name else error.message, caller_location(), error.hint) from None


def shorten(error: MinitileError) -> None:
    """Makes an error ready for its user: it shows their line, also where a kernel of ours is at fault, and a traceback
    leaves out our own frames. Its cause, if it has one, is an exception of the user's code. An InternalError keeps
    everything, being for a report, and so does every error with MINITILE_TRACEBACK=1."""
    short = not isinstance(error, InternalError) and os.environ.get("MINITILE_TRACEBACK") != "1"
    if short:
        error.loc = _of_users(error.loc)
    if error.loc is None:
        error.loc = caller_location()
    if short:
        error.__traceback__ = None
        if error.__cause__ is not None:
            error.__cause__.__traceback__ = _without_ours(error.__cause__.__traceback__)


def _of_users(loc: Location | None) -> Location | None:
    """Of a place and its callers those in the user's own source."""
    if loc is None:
        return None
    caller = _of_users(loc.caller)
    return caller if loc.file.startswith(_OURS) else replace(loc, caller=caller)


def _without_ours(trace: TracebackType | None) -> TracebackType | None:
    kept = []
    while trace is not None:
        if not _is_ours(trace.tb_frame):
            kept.append(trace)
        trace = trace.tb_next
    rest: TracebackType | None = None
    for each in reversed(kept):
        rest = TracebackType(rest, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return rest


_HERE = Path(__file__).parents[1]
_OURS = tuple(f"{f}{os.sep}" for f in (_HERE, (_HERE / "backends").resolve(), (_HERE / "runtime").resolve()))


def _is_ours(frame: FrameType) -> bool:
    """Whether code in progress is minitile's own, or made up. What we make has globals of no module, or of one of ours;
    what dataclasses make for a user has a name with two underscores. Other code without a file is the user's."""
    file = frame.f_code.co_filename
    if file.startswith("<"):
        module = str(frame.f_globals.get("__name__", "minitile"))
        return module.partition(".")[0] == "minitile" or frame.f_code.co_name.startswith("__")
    return file.startswith(_OURS)


def for_users(function: Callable[P, R]) -> Callable[P, R]:
    """Marks a function that users call themselves: its errors are shortened."""

    @wraps(function)
    def shortened(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except MinitileError as error:
            shorten(error)
            raise

    return shortened


# Frameworks that call back what their users pass to them: where there is a line of a user's, it is none of theirs.
_COMMANDS = str(_HERE / "tools" / "cli.py")
_FRAMEWORKS = tuple(os.path.join("site-packages", name, "") for name in ("jax", "torch"))


def caller_location() -> Location | None:
    """The innermost expression outside minitile that is being evaluated; in a framework's code only if there is no
    other. What has called minitile's command line is none of the user's."""
    frame: FrameType | None = sys._getframe(1)
    last: FrameType | None = None
    while frame is not None:
        file = frame.f_code.co_filename
        if file == _COMMANDS:
            break
        if not _is_ours(frame):
            if not any(each in file for each in _FRAMEWORKS):
                return _location(frame)
            last = last or frame
        frame = frame.f_back
    return None if last is None else _location(last)


def _location(frame: FrameType) -> Location:
    code = frame.f_code
    line, end_line, column, end_column = next(islice(code.co_positions(), frame.f_lasti // 2, None))
    if line is None or end_line != line:
        return Location(code.co_filename, frame.f_lineno, function=code.co_name)
    return Location(code.co_filename, line, column or 0, end_column or 0, code.co_name)
