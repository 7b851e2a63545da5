"""Loops that load tiles of tensors go several rounds at once, the loads of all of them first.

    for 0, 16, 1, [%s] (%k, %a) {              for 0, 16, 4, [%s] (%k, %a) {
      %x = load %X[%k*512]                       %x = load %X[%k*512] ; … ; %x3 = load %X[%k*512 + 1536]
      %b = add %a, %x                     →      %b = add %a, %x ; … ; %b3 = add %b2, %x3
      yield %b }                                 yield %b3 }

For programs of minitile.tilelang (`resources_are_hints`), as `unroll_loads` does for loops of single elements: nvcc
unrolls such loops, ptxas does not, and a turn ahead (`hoist_loads`) has no more than one round's bytes under way while
another is used. Unrolled are loops of a constant number of rounds in which nothing multiplies tiles, synchronises or
writes shared memory; where they write tensors, the kernel writes none of those they load. What is loaded at once takes
at most LOADED registers of a thread, and leaves room beside the kernel's largest tile; so many rounds go together as
that allows and divide the loop's.
"""

from __future__ import annotations

import math
from functools import partial

from minitile.analysis.register_budget import TILE_ROOM, equal_share
from minitile.ir.builder import constant_of
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import control, tile
from minitile.ir.rewrite import made_by, rewrite_loops
from minitile.ir.types import TensorType, TileType
from minitile.transforms.manager import PassContext
from minitile.transforms.tile.unroll_loads import several

ROUNDS = 16  # at once
MOST = 256  # operations of all rounds
LOADED = 64  # registers


def unroll_rows(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    if not kernel.attrs.get("resources_are_hints"):
        return
    tiles = (v for op in kernel.body.walk() for v in op.results if isinstance(v.type, TileType))
    largest = max((_registers(v, kernel.threads) for v in tiles), default=0)
    room = min(LOADED, equal_share(kernel.threads) - TILE_ROOM - largest)
    written = {a.mem for op in kernel.walk() for a in op.accesses() if a.writes}
    rewrite_loops(kernel.body, partial(_unroll, threads=kernel.threads, room=room, written=written))


def _unroll(loop: control.For, before: Block, threads: int, room: int, written: set[Value | None]) -> None:
    ops = loop.body.before_end
    bounds = [constant_of(v) for v in (loop.lower, loop.upper, loop.step)]
    if loop.kind != "serial" or None in bounds or not all(_is_plain(op) for op in ops):
        return
    stores = any(isinstance(op, tile.Store) for op in ops)
    rows = [op for op in ops if _is_row(op)]
    if not rows or not all(_is_early(op, loop, {*ops}) for op in rows):
        return
    if stores and any(op.mem in written or None in written for op in ops if isinstance(op, tile.Load)):
        return
    lower, upper, step = (int(n) for n in bounds if n is not None)
    rounds = len(range(lower, upper, step))
    each = sum(_registers(op.results[0], threads) for op in rows)
    most = min(ROUNDS, room // each, MOST // len(ops))
    count = max((n for n in range(1, most + 1) if rounds % n == 0), default=1)
    if count > 1 and rounds >= count:
        several(loop, count, before)


def _is_plain(op: Op) -> bool:
    if isinstance(op, tile.Load | tile.Store):
        return isinstance(op.mem.type, TensorType)
    return op.pure and not op.region_fields and "gemm" not in op.mnemonic


def _is_row(op: Op) -> bool:
    """Whether an operation loads a tile."""
    return isinstance(op, tile.Load) and isinstance(op.result.type, TileType)


def _is_early(op: Op, loop: control.For, inside: set[Op]) -> bool:
    """Whether a load's place depends on the loop's number, and on nothing that the loop carries or loads."""
    needed = made_by(op, inside)
    used = {v for one in (*(needed or ()), op) for v in one.operands}
    return needed is not None and loop.iv in used and used.isdisjoint(loop.carried)


def _registers(value: Value, threads: int) -> int:
    return -(-math.prod(value.shape) * value.dtype.bits // (32 * threads))
