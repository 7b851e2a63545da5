"""A policy: of two gemms of which one needs the other's result the second one runs an iteration behind.

    for lower … (%k, %o) {            turns:   %s = Q · K[k]
      %s = Q · K[k]                            %o'' = %o' + %p · V[k - step]        stage 1
      %p = f(%s) ; %o' = g(%o, %s)      →      %p = f(%s) ; %o' = g(%o'', %s)
      %o'' = %o' + %p · V[k]
    }

The tensor cores work on the second gemm of one iteration while the other units compute f of the next: attention's
shape. The late part is the second gemm with its receives, awaits and releases. A slot that is received early and
released late, since both gemms read it, is held for two iterations: a ring of three slots or more has one that is
filled meanwhile. With two, each iteration would begin with the whole time of its copy, which costs more than the other
units' work beside the tensor cores is worth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from minitile.analysis.register_budget import LOOP_ROOM, TILE_ROOM
from minitile.hardware import THREAD_REGISTERS, WARPGROUP
from minitile.ir.core import Op, Value
from minitile.ir.ops import control, roles
from minitile.ir.types import PipelineType, TileType
from minitile.transforms.schedule.graph import RING, Body, used
from minitile.transforms.schedule.schedule import Place, Schedule
from minitile.transforms.schedule.verify import ScheduleError, verify

SHARED_SLOTS = 3  # of a ring that both gemms read
LIMIT = {
    1: THREAD_REGISTERS,
    2: 240,
    3: 160,
    4: 112,
}  # registers of a consumer thread, by warpgroups: setmaxnreg's sum over all must fit


def side_by_side(loop: control.For, threads: int, consumers: int) -> Schedule | None:
    """The schedule of a loop that `threads` of all `consumers` run, each operation an entry of its own; None where it
    has no such gemms, registers do not suffice, or operations would pass others that access the same memory."""
    ops = [op for op in loop.body.ops if not op.terminator]
    gemms = [op for op in ops if isinstance(op, roles.AsyncGemm)]
    if len(gemms) < 2 or not _fits(_registers(gemms, threads), consumers):
        return None
    late = _late(ops, gemms[-1])
    if late is None or gemms[-1] not in depending(ops, {r for g in gemms[:-1] for r in g.results}):
        return None
    issued = max(n for n, op in enumerate(ops) if op in gemms[:-1])
    rest = [op for op in ops if op not in late]
    turn = [*(op for op in ops[: issued + 1] if op not in late), *(op for op in ops if op in late)]
    turn += [op for op in ops[issued + 1 :] if op not in late]
    at = {op: n for n, op in enumerate(turn)}
    body = Body(loop, each=True)
    schedule = Schedule(tuple([Place(int(op in late), at[op]) for op in body.unit]))
    try:
        verify(body, schedule)
    except ScheduleError:
        return None
    return schedule if rest else None


def depending(ops: Sequence[Op], values: set[Value]) -> set[Op]:
    """The operations that need some of the values, directly or through others."""
    known, found = set(values), set()
    for op in ops:
        if not known.isdisjoint(used(op)):
            found.add(op)
            known.update(op.results)
    return found


def _registers(gemms: Sequence[roles.AsyncGemm], threads: int) -> int:
    """Of a thread: for the tiles that gemms read or make, each in registers of its own."""
    tiles = [v for g in gemms for v in (g.a, g.c) if isinstance(v.type, TileType)]
    return sum(math.prod(t.shape) * t.dtype.bits // 32 for t in tiles) // threads


def _fits(registers: int, consumers: int) -> bool:
    """Whether a thread of so many consumers has room for tiles of so many registers and what it needs besides."""
    groups = consumers // WARPGROUP
    return registers + (TILE_ROOM if groups < 3 else LOOP_ROOM) <= LIMIT.get(groups, 0)


def _late(ops: Sequence[Op], gemm: roles.AsyncGemm) -> set[Op] | None:
    """The gemm, what depends on it, and the receives and releases of the rings that only it reads."""
    late = depending(ops, set(gemm.results)) | {gemm}
    if any(op is not gemm and isinstance(op, roles.AsyncGemm) for op in late):
        return None
    early = {v for op in ops if isinstance(op, roles.AsyncGemm) and op is not gemm for v in op.operands}
    early |= {v for op in ops if op not in late and not isinstance(op, roles.AsyncGemm) for v in op.operands}
    for op in ops:
        if not isinstance(op, RING):
            continue
        ring = op.pipeline.op
        assert ring is not None
        assert isinstance(op.pipeline.type, PipelineType)
        reads = [v for v in ring.operands if v in (gemm.a, gemm.b)]
        if not reads:
            continue
        shared = any(v in early for v in ring.operands)
        if shared and op.pipeline.type.slots < SHARED_SLOTS:
            return None
        if isinstance(op, roles.ConsumerRelease) or not shared:
            late.add(op)
    return late
