"""From a compiled kernel to a running one: picks the device, assembles for it, launches; NumPy goes to the simulator.

`Executable` is one specialisation; `Dispatcher` stands before all specialisations of a kernel and picks by the facts
that hold for a call (such as "K is divisible by 16"). Both turn the runtime's errors into MinitileErrors that show the
line of the call. Neither knows of the language: `jit` gives them PTX text, a LaunchInfo and a function that simulates.
"""

from __future__ import annotations

import json
import operator
import os
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import wraps
from itertools import islice
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NoReturn, ParamSpec, TypeVar

from minitile.backends.nvidia.assemble import (
    Assembled,
    AssembleOptions,
    AssemblerMissing,
    AssemblerWarning,
    assemble,
    assembler_for,
    assembler_identity,
    by_driver,
    remarks,
)
from minitile.driver import cache
from minitile.driver.cache import Entry, Kind, default_cache, make_key
from minitile.driver.elf import is_whole
from minitile.ir.diagnostics import InternalError, LaunchArgumentError, Location, MinitileError
from minitile.runtime import cuda, hip
from minitile.runtime.arrays import Place
from minitile.runtime.bind import Launch, compile_binder, compile_dispatch, compile_selector
from minitile.runtime.errors import ArgumentError, LaunchError
from minitile.runtime.launch_info import Expr, LaunchInfo, ScalarArg, TensorArg, Values, compile_exprs, slots_of
from minitile.runtime.launcher_base import Prepared

Simulate = Callable[[tuple[Any, ...]], None]
P = ParamSpec("P")
R = TypeVar("R")


class DeviceError(MinitileError):
    """The GPU's driver refused, or there is no driver to ask."""


class Executable:
    """One compiled kernel, callable on GPU arrays and, through `simulate`, on NumPy arrays.

    `fits` are the facts of `info` that a dispatcher's key does not say: of indices that 32 bits hold.
    `simulate` gets the caller's arguments (NumPy arrays and Python scalars, already checked) and writes the results
    into the arrays. `ptx` may be AMD's assembly instead; then `code_object` gives what is loaded. `assembled` fills
    with what ptxas said for each architecture that the kernel was assembled for, `running` with what was launched, and
    `remarks` with what there is to know of either.
    """

    def __init__(
        self,
        info: LaunchInfo,
        ptx: str,
        simulate: Simulate | None = None,
        options: AssembleOptions | None = None,
        code_object: Callable[[], bytes] | None = None,
        fits: Sequence[Expr] = (),
    ) -> None:
        self.info = info
        self.fits = compile_exprs(fits, slots_of(info.args)) if fits else None
        self.ptx = ptx
        self.code_object = code_object
        self.options = options or AssembleOptions()
        self.assembled: dict[str, Assembled] = {}
        self.running: dict[str, Assembled] = {}
        self.remarks: list[str] = []
        self._simulate = simulate
        self._bind = compile_binder(info.args)
        self._launcher: cuda.Launcher | hip.Launcher | None = None

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
    def launcher(self) -> cuda.Launcher | hip.Launcher:
        """The kernel on the GPUs of its vendor, made on first use. Raises UnavailableError where there are none."""
        if self._launcher is None:
            if amd_arch(self.ptx):
                self._launcher = hip.Launcher(self.info, self._code_object)
            else:
                o = self.options
                jit = cuda.JitOptions(4 if o.opt_level == 3 else o.opt_level, o.line_info, o.max_registers)
                self._launcher = cuda.Launcher(self.info, self._image, jit, self._compiled_by_driver)
        return self._launcher

    def _code_object(self, device: hip.DeviceInfo) -> bytes:
        """AMD's code runs on the one processor that it was compiled for."""
        arch = amd_arch(self.ptx)
        if device.arch != arch:
            raise ArgumentError(
                f"{self.info.entry} was compiled for {arch}, and GPU {device.index} is {device.arch}",
                "call the kernel function itself: it compiles what a call needs",
            )
        assert self.code_object is not None
        return self.code_object()

    def assemble(self, arch: str) -> Assembled:
        """The cubin for `arch` with its costs, from the cache or by the assembler that the text needs. Warns of what
        costs speed, or raises AssembleError; see `backends.nvidia.assemble`."""
        if arch not in self.assembled:
            done = assemble_cached(self.ptx, arch, self.options)
            self._remark(done)
            self.assembled[arch] = done
        return self.assembled[arch]

    def costs(self, arch: str) -> Assembled:
        """What runs on `arch`, or would: the driver's code where it has compiled the kernel, else the cubin."""
        return self.running.get(arch) or self.assemble(arch)

    def _image(self, device: cuda.DeviceInfo) -> bytes:
        """The cubin; the text, for the driver's JIT, where there is no assembler that does all that the text asks."""
        arch = device_arch(self.ptx, device.arch)
        try:
            if assembler_for(self.ptx).honours(self.ptx):
                done = self.running[arch] = self.assemble(arch)
                return done.cubin
        except AssemblerMissing:
            pass
        return self.ptx.encode()

    def _compiled_by_driver(self, device: cuda.DeviceInfo, info: cuda.FunctionInfo, log: str) -> None:
        arch = device_arch(self.ptx, device.arch)
        log = remembered_log(self.ptx, arch, self.options, log)
        done = by_driver(arch, info.registers, info.local, info.shared, log)
        self._remark(done)
        self.running[arch] = done

    def _remark(self, done: Assembled) -> None:
        """Warns, at the line of the call."""
        for text in remarks(done, self.ptx):
            if text not in self.remarks:
                self.remarks.append(text)
                at = caller_location() or Location("<minitile>", 1)
                warnings.warn_explicit(f"{self.info.entry}: {text}", AssemblerWarning, at.file, at.line)


class Dispatcher:
    """All specialisations of one kernel. `compile`, which keeps what it makes, is asked for the Executable of a place
    and values of the `facts` (expressions over the arguments' slots; see minitile.runtime.launch_info); for those that
    have been on a GPU, once. Its third argument: whether that has to be right for all numbers for which the facts are
    so (`Executable.fits` says for which the other one is)."""

    def __init__(
        self,
        args: Sequence[TensorArg | ScalarArg],
        facts: Sequence[Expr],
        compile: Callable[[Place, tuple[int, ...], bool], Executable],
    ) -> None:
        self._select = compile_selector(args, facts)
        self._compile = compile
        self._launches: dict[Values, Launch] = {}  # of those that have been on a GPU, by the key of `_pick`
        self.call = compile_dispatch(args, facts, self._launches, self._first_call, raise_for_caller)

    def __call__(self, *args: Any) -> None:
        """As `call`, which is quicker: a function, not a method."""
        self.call(*args)

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
        fits = executable.fits
        if fits is None:
            return executable.launcher.launch

        def launch(values: Values, place: Place) -> None:
            chosen = self._compile(place, key[2:], True) if False in fits(values) else executable
            chosen.launcher.launch(values, place)

        return launch

    def executable(self, *args: Any) -> Executable:
        """The specialisation that a call with these arguments would run; compiled now if need be."""
        try:
            values, place, key = self._select(*args)
            return self._pick(place, key, values)
        except LaunchError as error:
            raise_for_caller(error)

    def _pick(self, place: Place, key: Values, values: Values) -> Executable:
        """The key is the place's kind and index and then the facts' values."""
        found = self._compile(place, key[2:], False)
        return self._compile(place, key[2:], True) if found.fits is not None and False in found.fits(values) else found


def amd_arch(text: str) -> str:
    """The processor that AMD assembly is for; empty for other text."""
    found = re.match(r'\s*\.amdgcn_target "amdgcn-amd-amdhsa--(\w+)', text)
    return found.group(1) if found else ""


def device_arch(ptx: str, arch: str) -> str:
    """What to assemble `ptx` for on a device of architecture `arch`: that, except where the text is for one
    architecture alone (sm_90a)."""
    found = re.search(r"^\s*\.target\s+(sm_\d+[af])\b", ptx, re.MULTILINE)
    return found.group(1) if found else arch


_COSTS = ("registers", "spill_stores", "spill_loads", "stack", "shared")
CUBIN = Kind(
    "cubin",
    {
        "arch": cache.text,
        "assembler": cache.text,
        "honoured": cache.flag,
        **dict.fromkeys(_COSTS, cache.count),
        "warnings": cache.texts,
        "log": cache.text,
        "seconds": cache.positive,
    },
    is_whole,
)
DRIVERS_LOG = Kind("driver's log", {"log": cache.text}, operator.not_)


def assemble_cached(ptx: str, arch: str, options: AssembleOptions) -> Assembled:
    """As `assemble`, kept on disk: by the text, the architecture, the options and the assembler with its version."""
    store = default_cache()
    if store is None:
        return assemble(ptx, arch, options)
    key = make_key(
        CUBIN, ptx=ptx, arch=arch, options=json.dumps(asdict(options)), assembler=assembler_identity(ptx) or ""
    )
    entry = store.load(key)
    if entry is not None:
        return Assembled(cubin=entry.blob, **{**entry.meta, "warnings": tuple(entry.meta["warnings"])})
    assembled = assemble(ptx, arch, options)
    meta = {name: value for name, value in asdict(assembled).items() if name != "cubin"}
    store.store(key, Entry({**meta, "warnings": list(assembled.warnings)}, assembled.cubin))
    return assembled


def remembered_log(ptx: str, arch: str, options: AssembleOptions, log: str) -> str:
    """What the driver said when it compiled this text: it has a cache of its own, and is silent when it finds a text
    there. So its words are kept on disk as well."""
    store = default_cache()
    if store is None:
        return log
    version = int(cuda.call("cuDriverGetVersion"))
    key = make_key(DRIVERS_LOG, ptx=ptx, arch=arch, options=json.dumps(asdict(options)), driver=str(version))
    if log:
        store.store(key, Entry({"log": log}, b""))
        return log
    entry = store.load(key)
    return str(entry.meta["log"]) if entry is not None else ""


def raise_for_caller(error: LaunchError) -> NoReturn:
    """The runtime's error as a MinitileError at the user's line."""
    kind = LaunchArgumentError if isinstance(error, ArgumentError) else DeviceError
    raise kind(error.message, caller_location(), error.hint) from None


def shorten(error: MinitileError) -> None:
    """Makes an error ready for its user: it shows their line, and a traceback leaves out our own frames. Its cause, if
    it has one, is an exception of the user's code. An InternalError keeps everything, being for a report, and so does
    every error with MINITILE_TRACEBACK=1."""
    if error.loc is None:
        error.loc = caller_location()
    if not isinstance(error, InternalError) and os.environ.get("MINITILE_TRACEBACK") != "1":
        error.__traceback__ = None
        if error.__cause__ is not None:
            error.__cause__.__traceback__ = _without_ours(error.__cause__.__traceback__)


def _without_ours(trace: TracebackType | None) -> TracebackType | None:
    kept = []
    while trace is not None:
        if not _is_ours(trace.tb_frame.f_code.co_filename):
            kept.append(trace)
        trace = trace.tb_next
    rest: TracebackType | None = None
    for each in reversed(kept):
        rest = TracebackType(rest, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return rest


_HERE = Path(__file__).parents[1]
_OURS = tuple(f"{f}{os.sep}" for f in (_HERE, (_HERE / "backends").resolve(), (_HERE / "runtime").resolve()))


def _is_ours(file: str) -> bool:
    """Whether a file of code is minitile's own, or made up by it."""
    return file.startswith((*_OURS, "<"))


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


def caller_location() -> Location | None:
    """The innermost expression outside minitile that is being evaluated."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not _is_ours(code.co_filename):
            positions = next(islice(code.co_positions(), frame.f_lasti // 2, None))
            line, end_line, column, end_column = positions
            if line is None or end_line != line:
                return Location(code.co_filename, frame.f_lineno, function=code.co_name)
            return Location(code.co_filename, line, column or 0, end_column or 0, code.co_name)
        frame = frame.f_back
    return None
