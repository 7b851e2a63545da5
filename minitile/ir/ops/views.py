"""The same elements in another shape, row by row: of buffers, and of tiles; the indices of rotated tiles."""

from __future__ import annotations

import math

from minitile.ir.core import Op, Value, attr, operand, operands
from minitile.ir.ops.checks import require, require_dim, require_shift
from minitile.ir.relations import Quotient, Relation, Repeated, Reshaped
from minitile.ir.types import BufferType, DType, TileType, Type, i32


class View(Op, name="view", stage="traced", pure=True):
    """A fragment or a shared buffer under another shape, or as elements of another dtype of as many bits: what is
    written to either is read from both. `mem2reg` makes `reshape` of its accesses."""

    mem: Value = operand()
    shape: tuple[int, ...] = attr()
    dtype: DType = attr()

    def infer(self) -> tuple[Type, ...]:
        space = self.mem.type.space  # type: ignore[attr-defined]
        return (BufferType(space, self.shape, self.dtype),)

    def verify(self) -> None:
        require(math.prod(self.shape) == math.prod(self.mem.shape), f"{self.shape} is no shape of {self.mem.type}")
        require(self.dtype.bits == self.mem.dtype.bits, f"{self.dtype} is not as wide as {self.mem.type}")


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
