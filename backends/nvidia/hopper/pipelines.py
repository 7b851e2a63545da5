"""Lowering rules of sm_90a: pipelines on mbarriers, copies by TMA, roles. Gemms are in wgmma.py.

MbarrierPipeline. A ring of S slots is 2·S barrier words: `full[i]` completes when the slot's bytes have landed (one
arrival, with the bytes announced), `empty[i]` when every consumer warp has released it. Consumers wait for full with
the slot's own phase, the producer for empty with the other one: a barrier that never completed counts as having
completed the phase before (PTX ISA 8.3, 9.7.12.15 "mbarrier").

TMA. A shared matrix whose swizzled rows are wider than 128 bytes lies in panels of [rows][128 B]; each is one box of
the tensor map (PTX ISA 8.3, 5.5). The map's swizzle is the layout's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product

from minitile.analysis.register_budget import TILE_ROOM, equal_share
from minitile.analysis.register_pressure import tile_registers
from minitile.backends.nvidia.hopper.wgmma import async_gemm, fragment, panels_of, unset, warpgroup
from minitile.hardware import NAMED_BARRIERS, TMA_BOX, WARPGROUP
from minitile.ir.core import Block, Op, Value
from minitile.ir.ops import arith, control, explicit, hopper, roles, thread, tile
from minitile.ir.origin import MBARRIER_FENCE, MBARRIER_INIT, MBARRIER_MEET, Origin, places
from minitile.ir.types import BufferType, TensorType, TileType, u64
from minitile.layout.shared import row_major
from minitile.lowering.context import Lowering, layout_of
from minitile.lowering.memory import coordinate, shared_layout

WORD = 8  # bytes of an mbarrier
WARP = 32
CONSUMERS = 1  # the named barrier at which the consumers of a specialised kernel meet
GROUP_ORDER = 10  # the order barrier of the first warpgroup (a named barrier); the others have those behind it
TEAM_ORDER = 12  # the same of the first team; where there are teams, warpgroups have none
ROWS_IN_ROOM = 8  # of a stored tile, whose addresses TILE_ROOM has room for
MOST = {(40, 232): (24, 240)}  # of a thread (producer, consumers), where the consumers take more than is usual


# Pipelines and roles --------------------------------------------------------------------------------------------------


def pipeline(low: Lowering, op: roles.MbarrierPipeline) -> Value:
    """The barrier words. The first thread initialises those of all pipelines, and they are known to all threads before
    any goes on. Where no role acquires a slot (one that is filled once), no barrier says that it is empty."""
    uses = [o for o in low.kernel.walk() if op.result in o.operands]
    acquired = any(isinstance(o, roles.ProducerAcquire) for o in uses) and not _known_empty(low, op, uses)
    ctas = _ranks(low, op.common)
    words = (2 if acquired else 1) * op.slots
    layout = row_major((words,), 64)
    alloc = tile.Alloc(BufferType("shared", (words,), u64), layout=layout, bytes=words * WORD)
    alloc.loc, alloc.result.name = op.loc, "ring"
    ring = alloc.result
    if "pipelines" not in low.once:
        low.once["pipelines"] = _initialised(low)
    branch = low.once["pipelines"]
    low.entry.ops.insert(low.entry.ops.index(branch), alloc)
    with initialising(low, branch):
        start = low.b.emit(thread.BufferAddress(ring)).result
        for word in range(words):
            count = 1 if word < op.slots else op.consumers // WARP * len(ctas)
            with low.b.because(_of_init([op], MBARRIER_INIT)):
                low.b.emit(hopper.MbarrierInit(low.b.add(start, word * WORD), ring, count))
    low.once["payload", ring] = sum(math.prod(v.shape) * v.dtype.bytes for v in op.payload)
    low.once["slots", ring] = op.slots
    low.once["common", ring] = op.common
    releases = (o for o in low.kernel.walk() if isinstance(o, roles.ConsumerRelease) and o.pipeline is op.result)
    low.once["far", ring] = leads_others(low, op) or (bool(op.common) and any(o.generic for o in releases))
    low.once["leader", ring] = low.once["told first", ring] = leads_others(low, op)
    low.once["acquired", ring] = acquired
    return ring


def _known_empty(low: Lowering, op: roles.MbarrierPipeline, uses: list[Op]) -> bool:
    """Whether the warp that acquires a slot knows by itself that it is empty: where one warpgroup is all there is, only
    its gemms read the slot, and one does whenever it has been received, the warp has waited for that gemm. A group of
    wgmma is the warpgroup's, and complete for all of its warps (PTX ISA 8.3, 9.7.14.7.3 "wgmma.wait_group"), which have
    issued it behind their receives; and so is what else is asynchronous, complete when all of them have come to it. A
    turn without a gemm would leave the others behind, by any number of phases."""
    tma_multistage = any(isinstance(o, roles.WarpSpecialized) and not o.producer_threads for o in low.kernel.walk())
    if (
        not tma_multistage
        or op.consumers != WARPGROUP
        or any(isinstance(o, roles.ConsumerRelease) and o.generic for o in uses)
    ):
        return False
    received = sum(isinstance(o, roles.ConsumerWait) for o in uses)
    return received == _multiplied(low, low.kernel.body, op)


def _multiplied(low: Lowering, block: Block, pipeline: roles.MbarrierPipeline) -> int:
    """How many of the places in a block, or inside, that receive from a pipeline have a gemm behind them on every way
    to the block's end that reads what has been received."""
    found, certain = 0, False
    for op in reversed(block.ops):
        certain = certain or _multiplies(low, op, pipeline)
        found += certain and isinstance(op, roles.ConsumerWait) and op.pipeline is pipeline.result
        found += sum(_multiplied(low, region, pipeline) for region in op.regions)
    return found


def _multiplies(low: Lowering, op: Op, pipeline: roles.MbarrierPipeline) -> bool:
    """Whether an operation, whichever way it runs, issues a gemm that reads a pipeline's payload."""
    if op.factors():
        return any(v in pipeline.payload for v in op.factors())
    if isinstance(op, control.For):
        always = low.facts.less(low.facts.affine(op.lower), low.facts.affine(op.upper))
        return always and any(_multiplies(low, inner, pipeline) for inner in op.body.ops)
    if isinstance(op, control.If):
        return all(any(_multiplies(low, inner, pipeline) for inner in region.ops) for region in op.regions)
    return False


def _initialised(low: Lowering) -> control.If:
    """The branch in which the first thread initialises barriers; it ends with their fence, and all threads meet."""
    rings = [o for o in low.kernel.walk() if isinstance(o, roles.MbarrierPipeline)]
    with low.b.when(low.first_thread()) as branch, low.b.because(_of_init(rings, MBARRIER_FENCE)):
        low.b.emit(hopper.MbarrierInitFence())
    if not _meets_next(low):
        with low.b.because(_of_init(rings, MBARRIER_MEET)):
            low.b.emit(hopper.ClusterBarrier() if _in_common(low) else thread.Barrier())
    return branch


@contextmanager
def initialising(low: Lowering, branch: control.If) -> Iterator[None]:
    """What is emitted inside stands in the branch of `_initialised`, in front of its fence."""
    fence = branch.then.ops[-2:]
    del branch.then.ops[-2:]
    with low.b.inside(branch.then):
        yield
    branch.then.ops += fence


def take_meeting(low: Lowering) -> tuple[control.If, Op] | None:
    """The branch that initialises barriers, and what all threads meet at behind it, which goes: the caller puts it
    behind what else is to be known to all. None where there is no such branch, or something has relied on it since."""
    branch = low.once.get("pipelines")
    if branch is None or low.b.block is not low.entry:
        return None
    at = low.entry.ops.index(branch) + 1
    behind = low.entry.ops[at:]
    if not behind or not isinstance(behind[0], thread.Barrier | hopper.ClusterBarrier):
        return None
    if any(op.region_fields or op.syncs() or op.accesses() for op in behind[1:]):
        return None
    return branch, low.entry.ops.pop(at)


def _of_init(rings: Sequence[roles.MbarrierPipeline], reason: str) -> Origin:
    """Of what makes the words of pipelines fit for use: before are the pipelines, after the copies that arrive
    there."""
    whys = [op.why for op in rings if op.why is not None]
    name = whys[0].pass_name if whys else "lower"
    return Origin(name, reason, places(op.loc for op in rings), places(at for why in whys for at in why.before))


def _meets_next(low: Lowering) -> bool:
    """Whether all threads of the cluster meet anyway, before roles part."""
    launch = control.find_launch(low.kernel)
    waits = (op for op in launch.body.ops if op.region_fields or op.syncs())
    return any(sync.on == "cluster" for sync in next(waits).syncs())


def _in_common(low: Lowering) -> bool:
    """Whether blocks of a cluster fill each other's slots, or the same ones."""
    return any(isinstance(op, roles.MbarrierPipeline) and _by_others(low, op) for op in low.kernel.walk())


def _by_others(low: Lowering, op: roles.MbarrierPipeline) -> bool:
    """Whether other blocks of the cluster arrive at a pipeline's barriers."""
    return op.by_others() or leads_others(low, op)


def leads_others(low: Lowering, op: roles.MbarrierPipeline) -> bool:
    """Whether the first block of a cluster fills a pipeline's slots for others, too."""
    return op.leader and math.prod(cluster_of(low)) > 1


def _word(low: Lowering, ring: Value, index: Value, first: int) -> Value:
    base = low.in_entry(("buffer", ring), lambda b: b.emit(thread.BufferAddress(ring)).result)
    return low.b.add(low.b.add(base, first * WORD), low.b.mul(low.get(index), WORD))


def full(low: Lowering, op: roles.SlotOp | roles.TmaCopy) -> Value:
    return _word(low, low.get(op.pipeline), op.index, 0)


def empty(low: Lowering, op: roles.SlotOp) -> Value:
    ring = low.get(op.pipeline)
    return _word(low, ring, op.index, low.once["slots", ring])


def acquire(low: Lowering, op: roles.ProducerAcquire) -> None:
    ring = low.get(op.pipeline)
    if low.once["acquired", ring]:
        other = low.b.xor(low.get(op.phase), 1)
        wait = hopper.MbarrierWait(empty(low, op), ring, other, cluster=low.once["far", ring])
        if not low.once["leader", ring]:
            low.b.emit(wait)
            return
        with low.b.when(is_first(low)):
            low.b.emit(wait)


def cluster_of(low: Lowering) -> tuple[int, int, int]:
    cluster: tuple[int, int, int] = low.kernel.attrs.get("cluster", (1, 1, 1))
    return cluster


def _ranks(low: Lowering, common: tuple[int, ...]) -> list[Value]:
    """The ranks in the cluster of the blocks that are where this one is in all dimensions but `common`."""
    sizes = cluster_of(low)
    strides = (1, sizes[0], sizes[0] * sizes[1])
    b = low.b
    fixed = b.constant(0)
    for d in range(3):
        if d not in common and sizes[d] > 1:
            fixed = b.add(fixed, b.mul(place(low, d), strides[d]))
    return [
        b.add(fixed, sum(n * strides[d] for n, d in zip(at, common, strict=True)))
        for at in product(*(range(sizes[d]) for d in common))
    ]


def _share(low: Lowering, common: tuple[int, ...]) -> tuple[Value, Value]:
    """Which of them this block is, and a bit for each."""
    b = low.b
    ctas = _ranks(low, common)
    mask = share = b.constant(0)
    for rank in ctas:
        mask = b.add(mask, b.value(arith.Shl(b.constant(1), rank)))
    for d in common:
        share = b.add(b.mul(share, cluster_of(low)[d]), place(low, d))
    return share, mask


def place(low: Lowering, dim: int) -> Value:
    """Where in its cluster the block is, along a dimension."""
    size = cluster_of(low)[dim]
    place: Value = low.in_entry(("place", dim), lambda b: b.floormod(low.special(f"ctaid.{'xyz'[dim]}"), size))
    return place


def is_first(low: Lowering) -> Value:
    """Whether the block is the first one of its cluster."""
    first: Value = low.in_entry(
        "first of cluster", lambda b: b.compare("eq", low.special("cluster_ctarank", "rank"), 0)
    )
    return first


def receive(low: Lowering, op: roles.ConsumerWait) -> None:
    low.b.emit(hopper.MbarrierWait(full(low, op), low.get(op.pipeline), low.get(op.phase)))


def expect(low: Lowering, op: roles.ProducerExpectTx) -> None:
    ring = low.get(op.pipeline)
    elected, announces = low.once["elected"], low.once.get(("announces", ring))
    if announces is not None:
        elected = low.b.and_(elected, announces)
    low.b.emit(hopper.MbarrierExpect(full(low, op), ring, low.once["payload", ring], predicate=elected))


def release(low: Lowering, op: roles.ConsumerRelease) -> None:
    """By one lane of each warp; by one more for each other block that fills the slot, at its barrier. Of one that the
    first block fills for all at that block's."""
    if not low.once["acquired", low.get(op.pipeline)]:
        return
    if op.generic and not op.alone:
        low.b.emit(explicit.WarpBarrier())
    common = low.once["common", low.get(op.pipeline)]
    if common:
        _release_to_all(low, op, common)
        return
    lane = None
    if not op.alone:
        lane = low.in_entry("lane 0", lambda b: b.compare("eq", b.floormod(low.tid, WARP), 0))
        if op.condition is not None:
            lane = low.b.and_(lane, low.get(op.condition))
    there = low.once["told first", low.get(op.pipeline)]
    rank = low.b.constant(0) if there else None
    low.b.emit(hopper.MbarrierArrive(empty(low, op), low.get(op.pipeline), predicate=lane, rank=rank, cluster=there))


def _release_to_all(low: Lowering, op: roles.ConsumerRelease, common: tuple[int, ...]) -> None:
    b, sizes = low.b, cluster_of(low)
    count = math.prod(sizes[d] for d in common)
    lane = low.in_entry("lane", lambda b: b.floormod(low.tid, 32))
    left, offset = b.floormod(lane, count), b.constant(0)
    for d in reversed(common):
        offset = b.add(offset, b.mul(b.floormod(left, sizes[d]), math.prod(sizes[:d])))
        left = b.floordiv(left, sizes[d])
    mine = b.compare("lt", lane, count)
    if op.condition is not None:
        mine = b.and_(mine, low.get(op.condition))
    rank = b.add(_ranks(low, common)[0], offset)
    b.emit(hopper.MbarrierArrive(empty(low, op), low.get(op.pipeline), predicate=mine, rank=rank, cluster=op.generic))


def feed(low: Lowering, op: roles.PipelinePrologue) -> None:
    _by_one_warp(low, op.body, None)


def refill(low: Lowering, op: roles.Refill) -> None:
    release(low, op)
    more = low.b.compare("lt", low.get(op.following), low.get(op.end))
    if op.condition is not None:
        more = low.b.and_(low.get(op.condition), more)
    low.map.update({arg: low.get(v) for arg, v in zip(op.body.args, op.turn, strict=True)})
    _by_one_warp(low, op.body, more)


def _by_one_warp(low: Lowering, body: Block, condition: Value | None) -> None:
    """The first warp of the last warpgroup, which is the last one in an order barrier's order (`tma_multistage`)."""
    b = low.b
    warp = low.in_entry("warp", lambda b: b.emit(hopper.WarpIndex()).result)
    mine = b.compare("eq", warp, max(low.threads // WARPGROUP - 1, 0) * 4)
    with b.when(mine if condition is None else b.and_(mine, condition)):
        low.once["elected"] = b.emit(hopper.Elect()).result
        low.ops(body)


def specialised(low: Lowering, op: roles.WarpSpecialized, beside: Callable[[Value], None] | None = None) -> None:
    """One branch a role, by the warp's number. Where an equal share of the registers would not do for the consumers,
    each role takes its own number first (PTX ISA 8.3, 9.7.17.5 "setmaxnreg"). One role is the program as it is.
    `beside`: what the producer's second warp does, for which its operand holds."""
    if not op.producer_threads:
        low.meeting = (0, low.threads)
        low.ops(op.consumer)
        return
    b = low.b
    share = equal_share(low.threads + op.producer_threads)
    needed = tile_registers(op.consumer, _registers) + TILE_ROOM
    if needed <= share:
        needed += _addresses(op.consumer)
    whole = op.producer_threads % WARPGROUP == 0  # setmaxnreg is a warpgroup's
    budget = needed > share and whole and not low.kernel.attrs.get("no_set_max_nreg")
    producer_has, consumer_has = MOST.get(op.registers, op.registers) if needed > op.registers[1] else op.registers
    warp = low.in_entry("warp", lambda b: b.emit(hopper.WarpIndex()).result)
    first = low.threads // 32
    producer, consumer = Block(), Block()
    with b.inside(producer):
        if budget:
            b.emit(hopper.SetMaxRegisters(producer_has, increase=False))
        with b.when(b.compare("eq", warp, first)):
            low.once["elected"] = b.emit(hopper.Elect()).result
            low.ops(op.producer)
        if beside is not None:
            beside(b.compare("eq", warp, first + 1))
        b.emit(control.Yield(()))
    with b.inside(consumer):
        if budget:
            b.emit(hopper.SetMaxRegisters(consumer_has, increase=True))
        low.meeting = (CONSUMERS, low.threads)
        taken = {CONSUMERS, *range(TEAM_ORDER, NAMED_BARRIERS)}  # not for teams to meet at
        low.once.setdefault("named barriers", taken)
        low.ops(op.consumer)
        b.emit(control.Yield(()))
    teams = ((0, None), (CONSUMERS, low.threads))
    b.emit(roles.ByRole(b.compare("ge", warp, first), then=producer, orelse=consumer, teams=teams))
    if _in_common(low):  # no block leaves while others may still arrive at its barriers
        rings = (o for o in low.kernel.walk() if isinstance(o, roles.MbarrierPipeline) and _by_others(low, o))
        arrivals = places(at for o in rings if o.why is not None for at in o.why.after)
        with b.because(Origin("lower", "blocks of the cluster still arrive at this one's mbarriers", arrivals)):
            b.emit(hopper.ClusterBarrier())
    low.kernel.attrs.setdefault("min_ctas", 1)  # without it the assembler ignores setmaxnreg (C7508)


def _addresses(block: Block) -> int:
    """32-bit registers for where a thread's rows begin, where a tile of 32-bit elements is stored across its layout:
    their distance is known at run time alone, and ptxas computes the addresses of all rows, of 64 bits, first."""
    rows = [0]
    for op in block.walk():
        if not isinstance(op, tile.Store) or not isinstance(op.mem.type, TensorType):
            continue
        if isinstance(op.value.type, TileType) and op.value.dtype.bits == 32:
            rows.append(math.prod(digit.size for digit in layout_of(op.value).reg if digit.dim != op.dims[-1]))
    return 2 * max(rows) if max(rows) > ROWS_IN_ROOM else 0


def _registers(value: Value) -> int:
    return layout_of(value).num_regs * value.dtype.bits // 32


def order_barrier_init(low: Lowering, op: roles.OrderBarrierInit) -> None:
    """The last warpgroup arrives at the first one's order barrier without having waited."""
    with low.b.when(low.b.compare("eq", warpgroup(low), low.threads // 128 - 1)):
        _pass(low)


def order_barrier_wait(low: Lowering, op: roles.OrderBarrierWait) -> None:
    low.b.emit(hopper.NamedBarrier(low.b.add(warpgroup(low), GROUP_ORDER), 256))


def order_barrier_arrive(low: Lowering, op: roles.OrderBarrierArrive) -> None:
    _pass(low)


def _pass(low: Lowering) -> None:
    following = low.b.add(warpgroup(low), 1)
    wraps = low.b.compare("eq", following, low.threads // 128)
    id = low.b.add(low.b.select(wraps, low.b.constant(0), following), GROUP_ORDER)
    low.b.emit(hopper.NamedBarrier(id, 256, arrive=True))


def ping_pong_wait(low: Lowering, op: roles.PingPongWait) -> None:
    low.b.emit(hopper.NamedBarrier(low.b.add(low.get(op.to), TEAM_ORDER), 2 * low.threads, needed=True))


def ping_pong_arrive(low: Lowering, op: roles.PingPongArrive) -> None:
    low.b.emit(hopper.NamedBarrier(low.b.add(low.get(op.to), TEAM_ORDER), 2 * low.threads, arrive=True, needed=True))


# Copies --------------------------------------------------------------------------------------------------------------


def tma_copy(
    low: Lowering,
    op: roles.TmaCopy,
    shift: tuple[int, Value] | None = None,
    load: type[hopper.TmaLoad] = hopper.TmaLoad,
) -> None:
    """A box for each panel and, where there are more rows than a box may have, for each part of them. Of a copy that
    blocks of a cluster make together, this block's share of the rows. `shift`: along which dimension of the buffer, and
    how far, the block's part lies behind where the operation says; `load`: what brings a box."""
    b, shared = low.b, shared_layout(op.dst)
    columns, panels, panel_bytes = panels_of(shared)
    start = low.in_entry(("buffer", op.dst), lambda b: b.emit(thread.BufferAddress(low.get(op.dst))).result)
    address = b.add(start, b.mul(low.get(op.index), shared.stage_bytes))
    ctas = _ranks(low, op.common)
    rows = shared.shape[0] // len(ctas)
    parts = -(-rows // TMA_BOX)
    sides = [*shared.shape[:-1], columns]
    sides[0] //= parts * len(ctas)
    box = tuple([1 if t is None else sides[t] for t in op.src_dims])
    along = op.src_dims.index(0)
    name = tensor_map(low, op.src, box, shared.swizzle.width, op.tf32)
    at = [
        coordinate(low, op.src, d, low.facts.affine(v), 1 if t is None else op.dst.shape[t])
        for d, (v, t) in enumerate(zip(op.src_indices, op.src_dims, strict=True))
    ]
    mask = None
    if shift is not None:
        dim = op.src_dims.index(shift[0])
        at[dim] = b.add(at[dim], shift[1])
    if len(ctas) > 1:
        share, mask = _share(low, op.common)
        at[along] = b.add(at[along], b.mul(share, rows))
        address = b.add(address, b.mul(share, rows * math.prod(sides[1:]) * op.dst.dtype.bytes))
    for panel, part in product(range(panels), range(parts)):
        coordinates = [*at[:-1], b.add(at[-1], panel * columns)]
        coordinates[along] = b.add(coordinates[along], part * sides[0])
        b.emit(
            load(
                b.add(address, panel * panel_bytes + part * math.prod(sides) * op.dst.dtype.bytes),
                full(low, op),
                tuple(coordinates[::-1]),
                low.get(op.dst),
                low.get(op.index),
                low.get(op.pipeline),
                name,
                tensor=low.get(op.src),
                predicate=low.once["elected"],
                multicast=mask,
                evict=op.evict,
                free=True,
            )
        )


def tensor_map(low: Lowering, tensor: Value, box: tuple[int, ...], swizzle: int, tf32: bool = False) -> str:
    """The name of the kernel parameter that holds the map; equal ones are shared."""
    maps: tuple[tuple[str, str, tuple[int, ...], int, bool], ...] = low.kernel.attrs.get("tensor_maps", ())
    wanted = tensor.name, box, swizzle, tf32
    for name, *known in maps:
        if tuple(known) == wanted:
            return name
    name = f"{tensor.name}_map{len(maps)}"
    low.kernel.attrs["tensor_maps"] = (*maps, (name, *wanted))
    return name


HOPPER_RULES: dict[type[Op], object] = {
    roles.MbarrierPipeline: pipeline,
    roles.ProducerAcquire: acquire,
    roles.ConsumerWait: receive,
    roles.ProducerExpectTx: expect,
    roles.ConsumerRelease: release,
    roles.PipelinePrologue: feed,
    roles.Refill: refill,
    roles.OrderBarrierInit: order_barrier_init,
    roles.OrderBarrierWait: order_barrier_wait,
    roles.OrderBarrierArrive: order_barrier_arrive,
    roles.PingPongWait: ping_pong_wait,
    roles.PingPongArrive: ping_pong_arrive,
    roles.WarpSpecialized: specialised,
    roles.TmaCopy: tma_copy,
    roles.AsyncGemm: async_gemm,
    roles.Unset: unset,
    roles.Fragment: fragment,
}
