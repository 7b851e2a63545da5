"""What the lanes of a warp find out together."""

from __future__ import annotations

from minitile.ir.core import Op, Value, operand
from minitile.ir.ops.checks import require
from minitile.ir.types import BOOL, Type, bool_


class SomeInWarp(Op, name="some_in_warp", stage="both", pure=True):
    """Whether any element of `mask` that the warp's threads hold is true: a shortcut, whose branch may as well be taken
    where none is. All threads of the warp must come. Warps have answers of their own; on AMD so have threads, for which
    the compiler's branches are no worse."""

    mask: Value = operand()

    def infer(self) -> tuple[Type, ...]:
        return (BOOL,)

    def verify(self) -> None:
        require(self.mask.dtype is bool_, f"the mask is {self.mask.type}, not of bool")

    def varies(self) -> bool:
        return True
