"""What the launchers of all vendors share: a call's arguments bound and checked, what is said of those that do not fit,
and the frame of the launch path. A launcher (cuda.py, hip.py) adds how code is loaded and what its driver wants; their
docstrings show the function that results."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NoReturn, Protocol

from .arrays import Place
from .bind import compile_binder
from .errors import ArgumentError
from .launch_info import (
    FUNCTIONS,
    LaunchInfo,
    Param,
    Slot,
    TensorMapParam,
    Values,
    bf16_bits,
    compile_exprs,
    expr_source,
    fits,
    mentioned,
    misfit,
    show_expr,
    slots_of,
)
from .overlap import check_text, explain


class Prepared(Protocol):
    """One launch with everything fixed: call it to launch again on the same arrays, which it does not keep alive, on
    `stream` (a raw handle) or by default on the one that the arrays' framework uses at the time.

    It belongs to the context that was current when it was prepared (or to the tensors' device's primary context, if
    that was on another device; with HIP, to that device) and launches there only; it is not for several threads at
    once.
    """

    def __call__(self, stream: int | None = None) -> None: ...


def nothing(stream: int | None = None) -> None:
    """The launch of an empty grid."""


# The launch path, and a function from slot values, a stream, a frame and the place to what it packs.
_PATH = """
def launch(values, place):
    {values} = values
    g0, g1, g2 = {grid}
    if not (g0 and g1 and g2):
        return
    {check}
    try:
        frame = pop()
    except IndexError:
        frame = new_frame()
    {find}
    if {missing}:
        return first_launch(values, place)
    stream = place.stream()
    {before}
    try:
        pack(frame.buffer, 0, {packed})
    except (error, OverflowError) as reason:
        explain_pack(values, reason)
    status = {call}
    push(frame)
    if status:
        explain_launch(status, (g0, g1, g2))

def fields(values, stream, frame, place):
    {values} = values
    g0, g1, g2 = {grid}
    {before}
    return ({packed})
"""


class BaseLauncher:
    """One compiled kernel with its signature. `launch(values, place)` takes slot values that a binder has checked, in
    the order of `slots`, and the place of their tensors."""

    launch: Callable[[Values, Place], None]
    _fields: Callable[..., Values]  # (values, stream, frame, place): what is packed

    def __init__(self, info: LaunchInfo) -> None:
        self.info = info
        self.slots = slots_of(info.args)
        self._bind = compile_binder(info.args)
        self._facts = compile_exprs(info.facts, self.slots)

    def __call__(self, *args: Any) -> None:
        """Checks the arguments and launches on their framework's current stream. Raises ArgumentError, DriverError."""
        self.launch(*self.bind(*args))

    def bind(self, *args: Any) -> tuple[Values, Place]:
        """The arguments' slot values and place, checked against the signature and the facts compiled for."""
        values, place = self._bind(*args)
        if False in self._facts(values):
            self._explain_facts(values)
        return values, place

    def launch_checked(self, values: Values, place: Place) -> None:
        """As `launch`, with the facts compiled for checked first."""
        if False in self._facts(values):
            self._explain_facts(values)
        self.launch(values, place)

    def _compile(
        self,
        pack: Callable[..., None],
        scope: dict[str, Any],
        *,
        find: Sequence[str],
        missing: str,
        call: str,
        before: str = "pass",
        head: Sequence[str] = (),
    ) -> None:
        """Makes `launch` and `_fields` from the vendor's parts, all Python text on names of `scope`, of `_PATH` and of
        the slots. find: statements that look up the loaded kernel; missing: whether it is not there, or another device
        is current; before: what is packed aside; head: what `pack` takes in front of the parameters; call: the launch,
        of which 0 means success."""
        frames: list[Any] = []
        names = self._names()
        scope |= {
            **FUNCTIONS,
            "bf16_bits": bf16_bits,
            "error": struct.error,
            "check_memory": self.check_memory,
            "explain_launch": self._explain_launch,
            "explain_pack": self._explain_pack,
            "first_launch": self._first_launch,
            "new_frame": self._new_frame,
            "pack": pack,
            "pop": frames.pop,
            "push": frames.append,
        }
        params = [self._param_text(i, param, names, scope) for i, param in enumerate(self.info.params)]
        text = _PATH.format(
            values="".join(f"{name}, " for name in names.values()) or "()",
            grid=", ".join(expr_source(extent, names) for extent in self.info.grid),
            check=self._check_text(names),
            find="\n    ".join(find),
            missing=missing,
            before=before,
            packed="".join(f"{each}, " for each in (*head, *params)),
            call=call,
        )
        exec(text, scope)
        self.launch, self._fields = scope["launch"], scope["fields"]

    def prepare(self, *args: Any) -> Prepared:
        """A launch on these very arrays, ready to be repeated by calling it. Raises LaunchErrors."""
        raise NotImplementedError

    def check_memory(self, values: Values) -> None:
        """Raises ArgumentError for arrays that overlap though one of them is written, and for null pointers."""
        explain(self.info, self.slots, values)

    def _check_text(self, names: Mapping[Slot, str]) -> str:
        test = check_text(self.info, names)
        return f"if {test}: check_memory(values)" if test else "pass"

    def _names(self) -> dict[Slot, str]:
        """The slots' names in the launch path."""
        return {slot: f"v{i}" for i, slot in enumerate(self.slots)}

    def _param_text(
        self, i: int, param: Param | TensorMapParam, names: Mapping[Slot, str], scope: dict[str, Any]
    ) -> str:
        """Parameter i's value as Python text: a bf16 as its bits."""
        assert isinstance(param, Param), "only NVIDIA's GPUs have tensor maps"
        text = expr_source(param.source, names)
        return f"bf16_bits({text})" if param.dtype == "bf16" else text

    def _new_frame(self) -> Any:
        """The memory of one launch in progress; its `buffer` is what is packed into."""
        raise NotImplementedError

    def _load(self, place: Place) -> Any:
        """Loads the kernel for the current device, which is the place's, if it is not loaded."""
        raise NotImplementedError

    def _on_device(self, place: Place) -> AbstractContextManager[None]:
        """The place's device is the current one for the while."""
        raise NotImplementedError

    def _explain_launch(self, status: int, grid: Values) -> NoReturn:
        """Raises what a launch's status means."""
        raise NotImplementedError

    def _first_launch(self, values: Values, place: Place) -> None:
        """A launch where the kernel is not loaded yet, or another device is current."""
        with self._on_device(place):
            self._load(place)
            self.launch(values, place)

    def _explain_facts(self, values: Values) -> None:
        for fact, true in zip(self.info.facts, self._facts(values), strict=True):
            if not true:
                having = ", ".join(
                    f"the address of {name} is {value:#x}" if kind == "pointer" else f"{name} is {value}"
                    for (kind, name), value in zip(self.slots, values, strict=True)
                    if (kind, name) in mentioned(fact)
                )
                raise ArgumentError(
                    f"this kernel was compiled for {show_expr(fact)}, but {having}",
                    "call the kernel function itself: it compiles what a call needs",
                )

    def _explain_pack(self, values: Values, error: Exception) -> NoReturn:
        for axis, blocks in zip("xyz", compile_exprs(self.info.grid, self.slots)(values), strict=True):
            if not 0 <= blocks < 2**32:
                raise ArgumentError(f"the grid's {axis} is {blocks}, which no GPU can launch") from None
        for param in self.info.params:
            if isinstance(param, TensorMapParam):
                continue
            (value,) = compile_exprs([param.source], self.slots)(values)
            if not fits(param, value):
                raise ArgumentError(misfit(param, value)) from None
        raise ArgumentError(f"the launch parameters cannot be packed: {error}") from None


def check_clusters(grid: Sequence[int], cluster: Sequence[int]) -> None:
    """Raises ArgumentError for a grid that is not of whole clusters."""
    for axis, blocks, size in zip("xyz", grid, cluster, strict=True):
        if blocks % size:
            raise ArgumentError(
                f"the grid is {tuple(grid)}: clusters of {tuple(cluster)} blocks do not divide it in {axis}",
                f"round the grid up, T.ceildiv(n, {size}) * {size}, and let blocks behind the end do nothing",
            )
