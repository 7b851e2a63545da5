"""Scans of tiles: each element becomes the reduction of all up to it."""

from __future__ import annotations

import math

from minitile.ir.core import Op, Value, attr, operand
from minitile.ir.ops.checks import require, require_dim, require_one_of
from minitile.ir.types import Type, bool_

SCANS = ("sum", "max", "min")


class Scan(Op, name="scan", stage="tile", pure=True, uniform=True):
    """The inclusive scan along `dim` by `kind`: sum, max, min. `reverse`: from the last element on."""

    a: Value = operand()
    dim: int = attr()
    kind: str = attr()
    reverse: bool = attr(False)

    def infer(self) -> tuple[Type, ...]:
        return (self.a.type,)

    def meets_along(self) -> tuple[tuple[Value, int, bool], ...]:
        return ((self.a, self.dim, True),)

    def exchange_bytes(self) -> int:
        """What warps have in all, each time that they join, with room for padding."""
        layout = self.a.type.layout  # type: ignore[attr-defined]
        strides = [digit.stride for digit in layout.warp if digit.dim == self.dim]
        return sum(2 * max(self.a.dtype.bytes, 4) * math.prod(layout.extents) // stride for stride in strides)

    def verify(self) -> None:
        require_dim(self.dim, len(self.a.shape))
        require_one_of(self.kind, SCANS, "scan")
        require(self.a.dtype is not bool_, "a scan of bool")
