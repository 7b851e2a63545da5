"""Accumulators in tensor memory, as `tensor_memory` finds them: values of tile IR that are handed on."""

from __future__ import annotations

from dataclasses import dataclass, field

from minitile.ir.builder import constant_of
from minitile.ir.core import Block, Op, Value
from minitile.ir.ops import control, tile
from minitile.ir.types import TileType


@dataclass(eq=False)
class Accumulator:
    """Values that are one accumulator, the gemms that add to it, the loops that carry it, and why it stays in
    registers, if it does."""

    members: set[Value] = field(default_factory=set)
    gemms: list[tile.Gemm] = field(default_factory=list)
    loops: list[control.For] = field(default_factory=list)
    read: set[Value] = field(default_factory=set)
    reason: str = ""
    buffer: Value | None = None

    def is_reused(self, gemm: tile.Gemm, around: dict[Op, tuple[control.For, ...]]) -> bool:
        """Whether a product follows loads or stores of the buffer, in some loop, or one of another kind."""
        loads = {v.owner for v in self.read if isinstance(v.owner, Op)}
        kinds = {(g.a.dtype.name, g.b.dtype.name, g.transpose_a, g.transpose_b) for g in self.gemms}
        stored = gemm.c not in self.members and not is_zeros(gemm.c)
        handed = any(isinstance(v.owner, Block) for v in self.read)
        loaded = any(set(around[op]) & set(around[gemm]) for op in loads)
        return stored or handed or loaded or len(kinds) > 1 or is_tile(gemm.a)

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.gemms[0].c.shape
        return rows, columns


def is_tile(value: Value) -> bool:
    return isinstance(value.type, TileType)


def is_zeros(value: Value) -> bool:
    return isinstance(value.op, tile.Splat) and constant_of(value.op.value) == 0
