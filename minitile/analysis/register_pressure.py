"""How many registers a thread's tiles take, where they take most.

    for … [%z] (%k, %c) {                                  live behind the gemm: %part, %c (of this iteration)
      %part, %t = async_gemm %As, %Bs, %zero               128x192 by 256 threads: 96 + 96 registers
      %p = await %part, %t
      yield add %c, %p }

What counts is live where an operation with effects stands: a gemm, whose registers cannot move, or a load. What is
computed element by element comes and goes a few registers at a time (chunk_epilogue); ptxas counts that itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from minitile.ir.core import Block, Op, Value
from minitile.ir.ops import control, roles, tile
from minitile.ir.rewrite import free_values
from minitile.ir.types import TileType

Size = Callable[[Value], int]  # 32-bit registers of a thread that a tile takes


def spread(threads: int) -> Size:
    """Registers of tiles that so many threads share evenly, before they have layouts."""
    return lambda value: -(-math.prod(value.shape) * value.dtype.bits // (32 * threads))


def tile_registers(block: Block, size: Size) -> int:
    """The most 32-bit registers of a thread that tiles take in a block (tile IR); 0 without any."""
    return _block(block, set(), size)[1]


def _block(block: Block, live: set[Value], size: Size) -> tuple[set[Value], int]:
    """A walk from the end, where `live` values are used later: what is live at the beginning; the most registers."""
    live, most = set(live), 0
    for op in reversed(block.ops):
        live -= set(op.results)
        after = live | _again(op)
        if not op.pure:
            most = max(most, _registers({*after, *op.results, *_read_late(op)}, size))
        for region in op.regions:
            before, inner = _block(region, after, size)
            most = max(most, inner)
            live |= before - set(region.args)
        live.update(_stored(v) for v in op.operands)
    return live, most


def _again(op: Op) -> set[Value]:
    """What the next iteration uses of what stands outside of a loop."""
    if not isinstance(op, control.Loop):
        return set()
    return {_stored(v) for region in op.regions for v in free_values(region)}


def _read_late(op: Op) -> list[Value]:
    """Register operands of a product in flight: they are read until it is complete."""
    return [op.a] if isinstance(op, roles.AsyncGemm | tile.Gemm) else []


def _stored(value: Value) -> Value:
    """The value whose registers it has: one that repeats along a dimension has those of its source."""
    while isinstance(value.op, tile.Expand):
        value = value.op.a
    return value


def _registers(values: Iterable[Value], size: Size) -> int:
    return sum(map(size, {_stored(v) for v in values if isinstance(v.type, TileType)}))
