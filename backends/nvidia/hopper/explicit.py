"""Lowering rules for programs with explicit roles, barriers and copies (ir/ops/explicit.py), for sm_90a.

A role of warpgroups is a branch by the warp's number; its threads count from 0 among themselves and meet at a named
barrier of their own, one that the program does not use. Barriers are initialised by the first thread of the block.

A copy of the copy engine announces its own bytes on the barrier (expect_tx) right before it is issued, by one thread:
so the phase cannot complete between the two, for that thread's own arrival is still to come (PTX ISA 8.3, 9.7.12.15.8
"expect-tx operation").
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from minitile.analysis.affine import Affine
from minitile.analysis.strides import why_no_tma
from minitile.backends.nvidia.hopper.pipelines import WORD, tensor_map
from minitile.backends.nvidia.hopper.tma_store import bulk_store
from minitile.backends.nvidia.hopper.wgmma import panels_of
from minitile.hardware import NAMED_BARRIERS, TMA_BOX, TMA_LINE, WARPGROUP
from minitile.ir.core import Block, Op, Value
from minitile.ir.diagnostics import LanguageError, ResourceError
from minitile.ir.ops import explicit, hopper, roles, thread, tile
from minitile.ir.origin import MBARRIER_FENCE, MBARRIER_INIT, MBARRIER_MEET, Origin, by_program, places
from minitile.ir.types import BufferType, u64
from minitile.layout.shared import SharedLayout, row_major
from minitile.lowering.context import Lowering
from minitile.lowering.memory import coordinate, shared_layout
from minitile.lowering.runs import copied_run, plans_of_copy

# Roles -------------------------------------------------------------------------------------------------------------


def in_groups(low: Lowering, op: explicit.InGroups) -> Value:
    """Where it is more than the condition of a branch between roles."""
    b, first = low.b, op.first * WARPGROUP // 32
    warp = low.in_entry("warp", lambda b: b.emit(hopper.WarpIndex()).result)
    end = first + op.count * WARPGROUP // 32
    start, threads = low.team or (0, low.threads)
    if first == start // 32:
        return b.compare("lt", warp, end)
    above = b.compare("ge", warp, first)
    return above if end == (start + threads) // 32 else b.and_(above, b.compare("lt", warp, end))


def warp_groups(low: Lowering, op: explicit.WarpGroups) -> tuple[Value, ...]:
    start, threads = low.team or (0, low.threads)
    first, count = op.first * WARPGROUP, op.count * WARPGROUP
    rest = (first + count, threads - count) if first == start else (start, threads - count)
    condition = in_groups(low, explicit.InGroups(op.first, op.count))
    blocks, meetings = [], []
    for region, (begin, number) in ((op.then, (first, count)), (op.orelse, rest)):
        barrier = _named_barrier(low, op, begin, number)
        with low.role((begin, number), (barrier, number)):
            blocks.append(low.block(region, Block()))
        meetings.append((barrier, number))
    then, orelse = blocks
    teams = tuple(meetings)
    return low.b.emit(
        roles.ByRole(condition, independent=op.independent, then=then, orelse=orelse, teams=teams)
    ).results


def _named_barrier(low: Lowering, op: explicit.WarpGroups, first: int, threads: int) -> int:
    """The barrier of a role: the first one that the program does not use."""
    taken = low.once.setdefault(
        "named barriers", {o.id for o in low.kernel.walk() if isinstance(o, explicit.NumberedBarrier)}
    )
    key = "named barrier", first, threads
    if key not in low.once:
        free = [n for n in range(1, NAMED_BARRIERS) if n not in taken]
        if not free:
            raise ResourceError("no named barrier is left for a role", op.loc, "there are 16, and 0 is for all threads")
        low.once[key] = free[0]
        taken.add(free[0])
    return int(low.once[key])


def set_max_registers(low: Lowering, op: hopper.SetMaxRegisters) -> None:
    low.b.emit(hopper.SetMaxRegisters(op.count, increase=op.increase))
    low.kernel.attrs.setdefault("min_ctas", 1)  # without it the assembler ignores setmaxnreg (C7508)


def named_barrier(low: Lowering, op: explicit.NumberedBarrier) -> None:
    if op.wait and not low.divergent:
        low.b.emit(thread.Barrier(id=op.id, threads=op.threads))
    else:
        low.b.emit(explicit.NumberedBarrier(op.id, op.threads, wait=op.wait))


# Barriers ----------------------------------------------------------------------------------------------------------


def barriers(low: Lowering, op: explicit.Barriers) -> Value:
    """The last of them initialises all: they stand together, in front of everything else (`partition_warpgroups`)."""
    words = len(op.counts)
    alloc = tile.Alloc(BufferType("shared", (words,), u64), layout=row_major((words,), 64), bytes=words * WORD)
    alloc.loc, alloc.result.name = op.loc, op.result.name or "barriers"
    if op.cluster:
        low.once.setdefault("cluster barriers", set()).add(alloc.result)
    low.entry.ops.append(alloc)
    known = low.once.setdefault("barriers", [])
    known.append((alloc.result, op.counts))
    if len(known) == sum(isinstance(o, explicit.Barriers) for o in low.kernel.walk()):
        _initialise(low, known)
    return alloc.result


def _initialise(low: Lowering, known: list[tuple[Value, tuple[int, ...]]]) -> None:
    b = low.b
    asked_for = places(ring.op.loc for ring, _ in known if ring.op is not None)
    with b.when(low.first_thread()):
        for ring, counts in known:
            for n, count in enumerate(counts):
                with b.because(Origin("lower", MBARRIER_INIT, places([ring.op.loc if ring.op else None]))):
                    b.emit(hopper.MbarrierInit(barrier_word(low, ring, b.constant(n)), ring, count))
        with b.because(Origin("lower", MBARRIER_FENCE, asked_for)):
            b.emit(hopper.MbarrierInitFence())
    with b.because(Origin("lower", MBARRIER_MEET, asked_for)):
        b.emit(hopper.ClusterBarrier() if low.once.get("cluster barriers") else thread.Barrier())


def barrier_word(low: Lowering, ring: Value, index: Value) -> Value:
    """The address of one of a program's barriers."""
    base = low.in_entry(("buffer", ring), lambda b: b.emit(thread.BufferAddress(ring)).result)
    return low.b.add(base, low.b.mul(index, WORD))


def _place(low: Lowering, op: explicit.BarrierOp | explicit.BulkLoad) -> tuple[Value, Value]:
    ring = low.get(op.barriers)
    return barrier_word(low, ring, low.get(op.index)), ring


def barrier_arrive(low: Lowering, op: explicit.BarrierArrive) -> None:
    """Copies are waited for by their thread, not by the barrier (cp.async.mbarrier.arrive): what reads them may be in
    the async proxy, and the fence in between is that thread's (PTX ISA 8.3, 8.6 "Proxies")."""
    where, ring = _place(low, op)
    if op.copies:
        with low.b.because(by_program(op.loc)):
            low.b.emit(hopper.CpAsyncWaitAll())
    if op.bytes:
        low.b.emit(hopper.MbarrierExpect(where, ring, op.bytes))
    elif op.rank is None:
        low.b.emit(hopper.MbarrierArrive(where, ring))
    else:
        low.b.emit(hopper.MbarrierArrive(where, ring, rank=low.get(op.rank), cluster=True))


def barrier_expect(low: Lowering, op: explicit.BarrierExpect) -> None:
    where, ring = _place(low, op)
    low.b.emit(hopper.MbarrierAnnounce(where, ring, op.bytes))


def barrier_wait(low: Lowering, op: explicit.BarrierWait) -> None:
    where, ring = _place(low, op)
    shared = ring in low.once.get("cluster barriers", ())
    low.b.emit(hopper.MbarrierWait(where, ring, low.get(op.parity), cluster=shared))


# Copies ------------------------------------------------------------------------------------------------------------


def element_copy(low: Lowering, op: explicit.ElementCopy) -> None:
    source, dest = plans_of_copy(low, op)
    bytes_ = source.width * op.dst.dtype.bytes
    if op.barriers is None or bytes_ < 4:
        copied_run(low, op)
        return
    low.b.emit(
        hopper.UngroupedCpAsync(
            dest.addresses.value,
            source.addresses.value,
            low.get(op.dst),
            low.get(op.src),
            low.get(op.barriers),
            bytes=bytes_,
            dst_of=dest.addresses.index,
            dst_offsets=dest.addresses.offsets,
            src_of=source.addresses.index,
            src_offsets=source.addresses.offsets,
            predicate=source.guards.value,
            predicate_of=source.guards.index,
            dst_slot=None if op.dst_slot is None else low.get(op.dst_slot),
        )
    )


def bulk_load(low: Lowering, op: explicit.BulkLoad) -> None:
    b, shared = low.b, shared_layout(op.dst)
    _check_source(low, op)
    rows, width, columns = _check_region(low, op, shared)
    where, ring = _place(low, op)
    leader = _leader(low, op.leader)
    total = math.prod(op.shape) * op.dst.dtype.bytes
    with b.because(by_program(op.loc)):  # the copy's own part of the handshake
        b.emit(hopper.MbarrierAnnounce(where, ring, total, predicate=leader))
    base = low.in_entry(("buffer", op.dst), lambda b: b.emit(thread.BufferAddress(low.get(op.dst))).result)
    start = b.add(base, low.emit(_offset(low, op, shared)))
    if op.dst_slot is not None:
        start = b.add(start, b.mul(low.get(op.dst_slot), shared.stage_bytes))
    at = [
        coordinate(low, op.src, d, low.facts.affine(v), 1 if t is None else op.shape[t])
        for d, (v, t) in enumerate(zip(op.src_indices, op.src_dims, strict=True))
    ]
    for row, column, height in _boxes(rows, columns, width):
        box = _box(op, height, width)
        coordinates = list(at)
        for d, t in enumerate(op.src_dims):
            moved = {len(op.shape) - 1: column, len(op.shape) - 2: row}.get(t, 0) if t is not None else 0
            coordinates[d] = b.add(coordinates[d], moved)
        offset = shared.affine_bits((*(0,) * (shared.rank - 2), row, column) if shared.rank > 1 else (column,)) // 8
        b.emit(
            hopper.TmaLoad(
                b.add(start, offset),
                where,
                tuple(coordinates[::-1]),
                low.get(op.dst),
                low.b.constant(0) if op.dst_slot is None else low.get(op.dst_slot),
                ring,
                tensor_map(low, op.src, box, shared.swizzle.width, op.tf32),
                tensor=low.get(op.src),
                predicate=leader,
                box=box,
            )
        )


def _leader(low: Lowering, threads: int) -> Value:
    if not threads:
        return low.first_thread()
    rank = low.tid
    first: Value = low.in_entry(("leader", threads), lambda b: b.compare("eq", b.floormod(rank, threads), 0))
    return first


def _boxes(rows: int, columns: int, width: int) -> Iterator[tuple[int, int, int]]:
    """Row, column and height of each box: as wide as a panel, at most TMA_BOX high."""
    for column in range(0, columns, width):
        for row in range(0, rows, TMA_BOX):
            yield row, column, min(TMA_BOX, rows - row)


def _box(op: explicit.BulkLoad, height: int, width: int) -> tuple[int, ...]:
    last = len(op.shape) - 1
    return tuple({last: width, last - 1: height}.get(t, 1) if t is not None else 1 for t in op.src_dims)


def _check_source(low: Lowering, op: explicit.BulkLoad) -> None:
    order = [t for t in op.src_dims if t is not None]
    if order != sorted(order) or op.src_dims[-1] is None or len(op.src.shape) > 5:
        raise _refused(op, "the copy engine keeps the order of dimensions, the last one last, and knows at most 5")
    if not all(low.facts.short(low.facts.size(op.src, d)) for d in range(len(op.src.shape))):
        raise _refused(op, f"{op.src.name!r} has a dimension that its coordinates of 32 bits do not hold")
    if reason := why_no_tma(low.facts, op.src):
        raise _refused(op, reason)


def _check_region(low: Lowering, op: explicit.BulkLoad, shared: SharedLayout) -> tuple[int, int, int]:
    """Rows of the region, columns of a box, columns of the region. Raises LanguageError for what no box is."""
    last = len(op.shape) - 1
    rows = op.shape[last - 1] if last else 1
    columns, size = op.shape[last], op.dst.dtype.bytes
    order = [t for t in op.dst_dims if t is not None]
    if order != list(range(len(op.shape))) or op.dst_dims[-1] is None or math.prod(op.shape[: max(0, last - 1)]) > 1:
        raise _refused(op, "the region in shared memory is no matrix of whole rows")
    panel, _, _ = panels_of(shared)
    start = low.facts.affine(op.dst_indices[-1])
    if rows == 1 and not shared.swizzle.width:
        width = math.gcd(columns, TMA_BOX)
    else:
        width = panel
        if columns % panel or low.facts.multiple(start) % panel:
            raise _refused(op, f"{columns} columns of a buffer that lies in panels of {panel} are not whole panels")
        if last and op.dst_dims[-2] is not None and _stride(shared, shared.rank - 2) != panel * size:
            raise _refused(op, f"the rows of the buffer {op.dst.name!r} are padded")
    if width > TMA_BOX:
        raise _refused(op, f"a box has at most {TMA_BOX} columns, and the rows of {op.dst.name!r} have {width}")
    if width * size % 16:
        raise _refused(op, f"rows of {width * size} bytes are not multiples of 16")
    if op.dst_slot is not None and shared.stage_bytes % TMA_LINE:
        raise _refused(op, f"versions of {shared.stage_bytes} bytes do not all begin at multiples of {TMA_LINE}")
    align, wanted = low.facts.multiple(_offset(low, op, shared)), max(TMA_LINE, shared.swizzle.period)
    if align % wanted or (rows > TMA_BOX and TMA_BOX * panel * size % TMA_LINE):
        raise _refused(op, f"the region starts at a multiple of {align} bytes, not of {wanted}")
    return rows, width, columns


def _stride(shared: SharedLayout, dim: int) -> int:
    """Bytes from one index of a dimension to the next."""
    digits = shared.dims[dim]
    return digits[0].stride // 8 if digits else 0


def _offset(low: Lowering, op: explicit.BulkLoad, shared: SharedLayout) -> Affine:
    """Where the region begins in the buffer, in bytes before the swizzle."""
    total = Affine()
    for d, index in enumerate(op.dst_indices):
        digits = shared.dims[d]
        at = low.facts.affine(index)
        if len(digits) < 2:
            total += at * _stride(shared, d)
        elif at.is_constant:
            where = [0] * shared.rank
            where[d] = at.const
            total += shared.affine_bits(where) // 8
        else:
            raise _refused(
                op, f"dimension {d} of the buffer {op.dst.name!r} lies in panels: its index is to be constant"
            )
    return total


def _refused(op: Op, why: str) -> LanguageError:
    return LanguageError(f"T.tma_copy: {why}", op.loc, "T.copy takes any region")


EXPLICIT_RULES: dict[type[Op], object] = {
    explicit.InGroups: in_groups,
    explicit.WarpGroups: warp_groups,
    explicit.NumberedBarrier: named_barrier,
    explicit.Barriers: barriers,
    explicit.BarrierArrive: barrier_arrive,
    explicit.BarrierExpect: barrier_expect,
    explicit.BarrierWait: barrier_wait,
    explicit.BulkLoad: bulk_load,
    explicit.ElementCopy: element_copy,
    explicit.BulkStore: bulk_store,
    hopper.SetMaxRegisters: set_max_registers,
}
