"""The same elements in another shape, row by row: of buffers, and of tiles; the indices of rotated tiles."""

from __future__ import annotations

import math
from typing import ClassVar

from minitile.ir.core import Op, Value, attr, operand, operands
from minitile.ir.ops import thread
from minitile.ir.ops.checks import require, require_dim, require_shift
from minitile.ir.relations import Quotient, Relation, Repeated, Reshaped
from minitile.ir.types import BufferType, DType, TileType, Type, i32


class View(Op, name="view", stage="traced", pure=True):
    """A fragment or a shared buffer under another shape, or as elements of another dtype, of a fragment also of another
    width (`recasts`): what is written to either is read from both. `mem2reg` makes `reshape` of its accesses."""

    mem: Value = operand()
    shape: tuple[int, ...] = attr()
    dtype: DType = attr()
    rows_stay: ClassVar[bool] = False

    def infer(self) -> tuple[Type, ...]:
        space = self.mem.type.space  # type: ignore[attr-defined]
        return (BufferType(space, self.shape, self.dtype),)

    def verify(self) -> None:
        bits = [
            math.prod(shape) * dtype.bits
            for shape, dtype in ((self.shape, self.dtype), (self.mem.shape, self.mem.dtype))
        ]
        require(bits[0] == bits[1], f"{self.shape} of {self.dtype} is no view of {self.mem.type}")
        same = self.dtype.bits == self.mem.dtype.bits
        recast = self.mem.type.space == "fragment" and recasts(self.mem.dtype, self.dtype)  # type: ignore[attr-defined]
        require(same or recast, f"{self.dtype} is not as wide as {self.mem.type}")


# What makes a view of a buffer, by its space; where rows are lanes, a view has as many (`rows_stay`).
VIEWS: dict[str, type[Op]] = {"fragment": View, "shared": View}


def viewed(mem: Value) -> Value:
    """The buffer that a view is of; any other value itself."""
    while isinstance(mem.op, View):
        mem = mem.op.mem
    return mem


class Reshape(Op, name="reshape", stage="tile", pure=True, uniform=True):
    """The tile under another shape: element n, counted row by row, is element n of the operand."""

    a: Value = operand()
    shape: tuple[int, ...] = attr()

    def infer(self) -> tuple[Type, ...]:
        return (TileType(self.shape, self.a.dtype),)

    def relations(self) -> list[Relation]:
        return [Reshaped(self.a, self.result)]

    def exchange_bytes(self) -> int:
        return math.prod(self.shape) * max(self.a.dtype.bytes, 1)

    def verify(self) -> None:
        require(math.prod(self.shape) == math.prod(self.a.shape), f"{self.shape} is no shape of {self.a.type}")


class Recast(Op, name="recast", pure=True, uniform=True):
    """The bits of a tile as elements of another width: an element of 32 bits is two of 16 or four of 8, the lowest bits
    first, side by side along the last dimension; or the other way round. Of registers (thread stage) likewise."""

    a: Value = operand()
    to: DType = attr()

    def infer(self) -> tuple[Type, ...]:
        if isinstance(self.a.type, TileType):
            *outer, last = self.a.shape
            return (TileType((*outer, last * self.a.dtype.bits // self.to.bits), self.to),)
        return (thread.regs(thread.count_of(self.a.type) * self.a.dtype.bits // self.to.bits, self.to),)

    def relations(self) -> list[Relation]:
        if not isinstance(self.a.type, TileType):
            return []
        dim, times = len(self.a.shape) - 1, self.a.dtype.bits // self.to.bits
        if times:
            return [Repeated(self.a, dim, times, self.result)]
        return [Repeated(self.result, dim, self.to.bits // self.a.dtype.bits, self.a)]

    def verify(self) -> None:
        require_recast(self.a.dtype, self.to)
        count = self.a.shape[-1] if isinstance(self.a.type, TileType) else thread.count_of(self.a.type)
        require(count * self.a.dtype.bits % self.to.bits == 0, f"{self.a.type} is no whole number of {self.to}")


def recasts(source: DType, to: DType) -> bool:
    """Whether elements of one dtype may be seen as fewer or more of another: 32 bits as 8 or 16, and the other way."""
    return {source.bits, to.bits} in ({8, 32}, {16, 32}) and "bool" not in (source.kind, to.kind)


def require_recast(source: DType, to: DType) -> None:
    require(recasts(source, to), f"no recast of {source} to {to}")


class RotatedIota(Op, name="rotated_iota", stage="tile", pure=True):
    """As `iota` of a tile that is rotated along `dim`: (p - shift) mod size at position p. `shift`: an i32, or a tile
    of the other dimensions, from 0 to below the size."""

    shift: Value = operand()
    shape: tuple[int, ...] = attr()
    dim: int = attr()

    def infer(self) -> tuple[Type, ...]:
        return (TileType(self.shape, i32),)

    def relations(self) -> list[Relation]:
        return [Quotient(self.result, self.dim, self.shift)]

    def verify(self) -> None:
        require_dim(self.dim, len(self.shape))
        require_shift(self.shift, self.shape, self.dim)


class Interleave(Op, name="interleave", stage="tile", pure=True):
    """Tiles of one shape, interleaved along `dim`: element n is element n // count of part n % count."""

    parts: tuple[Value, ...] = operands()
    dim: int = attr()

    def infer(self) -> tuple[Type, ...]:
        s = self.parts[0].shape
        wide = (*s[: self.dim], s[self.dim] * len(self.parts), *s[self.dim + 1 :])
        return (TileType(wide, self.parts[0].dtype),)

    def relations(self) -> list[Relation]:
        return [Repeated(part, self.dim, len(self.parts), self.result) for part in self.parts]

    def verify(self) -> None:
        require_dim(self.dim, len(self.parts[0].shape))
        require(len({part.type for part in self.parts}) == 1, "the parts are of different types")
