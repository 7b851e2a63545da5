"""What the launchers of all vendors share: a call's arguments bound and checked, and what is said of those that do not
fit. A launcher (cuda.py, hip.py) adds how code is loaded, and `launch`, its launch path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, Protocol

from .arrays import Place
from .bind import compile_binder
from .errors import ArgumentError
from .launch import (
    LaunchInfo,
    TensorMapParam,
    Values,
    compile_exprs,
    fits,
    mentioned,
    misfit,
    show_expr,
    slots_of,
)


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


class BaseLauncher:
    """One compiled kernel with its signature. `launch(values, place)` takes slot values that a binder has checked, in
    the order of `slots`, and the place of their tensors."""

    launch: Callable[[Values, Place], None]

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
