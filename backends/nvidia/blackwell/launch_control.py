"""Tiles by cluster launch control: a pass behind those that make roles, and the lowering rules of what it makes.

    for %own to %n step 1 [%z] {dynamic} (%t, %c) {      %ring = mbarrier_pipeline %tiles {slots = 3, leader}
      body                                               while [%own, true, %z, 0, 0] before (%t, %more, %c, %i, %p) {
      yield %d                                             condition %more, [%t, %c, %i, %p]
    }                                               →    } body (%t, %c, %i, %p) {
                                                           producer_acquire %ring, %i, %p          by the role that
                                                           producer_expect_tx %ring, %i            asks: one of them
                                                           request_tile %ring, %i, %tiles
                                                           body
                                                           consumer_wait %ring, %i, %p
                                                           %more, %next = given_tile %tiles[%i]
                                                           consumer_release %ring, %i
                                                           yield %next, %more, %d, next(%i, %p) }

The numbers of tiles are a pipeline like that of any copy, with the role that copies as its producer and each role that
has the loop as a consumer, that one too: all read all answers, in their order, and leave the loop at the same one. The
answer for the next tile is on its way while the warp copies for this one; there are as many slots as roles may be
apart (as in CUTLASS, include/cutlass/gemm/kernel/sm100_tile_scheduler.hpp). No request follows one that has failed:
each waits for the answer of the one before.

In a cluster the first block asks for all. It is told when every reader of every block has read a slot; a block
announces bytes of its own, behind its own wait for the slot before. A tile's blocks are those of a cluster, in order.

Where there are no roles, one warp asks while the others go on. Until here the loop is a `for`, so that no pass has to
know of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from minitile.backends.nvidia.hopper.pipelines import WARP, full, is_first
from minitile.ir.builder import Builder
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import arith, blackwell, control, hopper, roles, thread, tile
from minitile.ir.ops import launch_control as ops
from minitile.ir.origin import Origin, places
from minitile.ir.types import BOOL, I32, BufferType
from minitile.layout.shared import row_major
from minitile.lowering.context import Lowering

SLOTS = 3
BYTES = 16  # of an answer


@dataclass
class _Reader:
    """A role with the loop: its loop, the block that holds it, how many threads it has in all blocks of the cluster,
    and in one: "warp", "thread", "all" (that compute)."""

    loop: control.For
    block: Block
    threads: int
    by: str


def launch_control(kernel: Kernel, context: Any) -> None:
    """The pass."""
    launch = control.find_launch(kernel)
    together = math.prod(launch.cluster)
    apart = next((op for op in launch.body.ops if isinstance(op, roles.WarpSpecialized)), None)
    readers = list(_readers(launch, apart, together))
    if not readers:
        return
    asking = readers[0]
    b = Builder(launch.body, asking.loop.loc)
    holder = next(op for op in launch.body.ops if op is asking.loop or asking.block in op.regions)
    at = launch.body.ops.index(holder)
    rest, launch.body.ops = launch.body.ops[at:], launch.body.ops[:at]
    words = tile.Alloc(
        BufferType(ops.ANSWER.space, ops.ANSWER.shape, ops.ANSWER.dtype, SLOTS),
        layout=row_major(ops.ANSWER.shape, ops.ANSWER.dtype.bits),
        bytes=BYTES,
    )
    tiles = b.emit(words).result
    tiles.name = "tiles"
    with b.because(_why(asking.loop, "mbarriers of the ring of tiles")):
        ring = roles.MbarrierPipeline((tiles,), SLOTS, sum(r.threads for r in readers), leader=True)
        b.emit(ring).result.name = "tile_ring"
    launch.body.ops += rest
    for reader in readers:
        _Loop(ring.result, tiles, together).rewrite(reader, asks=reader is asking)
    if together > 1 and (apart is None or not apart.producer_threads):  # where roles end there is one anyway
        end = launch.body.ops.pop()
        with b.because(_why(asking.loop, "blocks of the cluster still arrive at this one's mbarriers")):
            b.emit(hopper.ClusterBarrier())
        launch.body.ops.append(end)


def _readers(launch: control.Launch, apart: roles.WarpSpecialized | None, together: int) -> Iterator[_Reader]:
    """The roles that have the loop, the one that asks first. `apart`: what has roles."""
    programs = [(launch.body if apart is None else apart.consumer, launch.threads * together, "all")]
    if apart is not None and apart.producer_threads:
        programs.insert(0, (apart.producer, WARP * together, "warp"))
    if isinstance(apart, blackwell.IssuerSpecialized):
        programs.append((apart.issuer, WARP * (1 if apart.pair else together), "thread"))
    for block, threads, by in programs:
        loop = next((op for op in block.ops if isinstance(op, control.For) and op.dynamic), None)
        if loop is not None:
            yield _Reader(loop, block, threads, by)


def _why(loop: control.For, reason: str) -> Origin:
    return Origin("launch_control", reason, places([loop.loc]))


class _Loop:
    """A role's loop over the tiles that a ring brings."""

    def __init__(self, ring: Value, tiles: Value, together: int) -> None:
        self.ring, self.tiles, self.together = ring, tiles, together
        self.b = Builder(Block())

    def rewrite(self, reader: _Reader, asks: bool) -> None:
        loop, b = reader.loop, self.b
        b.loc = loop.loc
        body, end = loop.body, loop.body.yielded
        if body.terminator is not None:
            body.ops.pop()
        index, phase = body.add_arg(I32, "slot"), body.add_arg(I32, "phase")
        old, body.ops = body.ops, []
        with b.inside(body):
            b.emit(arith.Assume(b.compare("ge", loop.iv, 0)))
            b.emit(arith.Assume(b.compare("lt", loop.iv, loop.upper)))
            if asks:
                self.ask(reader, index, phase)
            body.ops += old
            more, number = self.given(reader, index, phase)
            following = b.add(index, 1)
            wraps = b.compare("eq", following, SLOTS)
            turn = b.select(wraps, b.xor(phase, 1), phase)
            b.emit(control.Yield((number, more, *end, b.select(wraps, b.constant(0), following), turn)))
        with b.inside(Block()) as head:
            zero = b.constant(0)
            init = loop.lower, b.constant(True, BOOL.dtype), *loop.init, zero, zero
        before = Block()
        number, more, *carried = (before.add_arg(v.type, v.name) for v in init)
        before.ops = [control.Condition(more, (number, *carried))]
        made = control.While(init, apart=True, before=before, body=body)
        made.loc = loop.loc
        for value, known in zip(loop.results, made.results[1:], strict=False):  # users keep theirs
            value.owner, value.index = made, known.index
        made.results = made.results[0], *loop.results, *made.results[1 + len(loop.results) :]
        at = reader.block.ops.index(loop)
        reader.block.ops[at : at + 1] = [*head.ops, made]

    def ask(self, reader: _Reader, index: Value, phase: Value) -> None:
        """For the tile after this one."""
        b, feed = self.b, roles.PipelinePrologue()
        if reader.by != "warp":
            b.emit(feed)
        with b.inside(b.block if reader.by == "warp" else feed.body):
            with b.because(_why(reader.loop, "WAR tiles: slot free")):
                b.emit(roles.ProducerAcquire(self.ring, index, phase))
            with b.because(_why(reader.loop, "RAW tiles: bytes of the slot announced")):
                b.emit(roles.ProducerExpectTx(self.ring, index))
            with b.because(_why(reader.loop, "the next tile")):
                b.emit(ops.RequestTile(self.ring, index, self.tiles))

    def given(self, reader: _Reader, index: Value, phase: Value) -> tuple[Value, ...]:
        """Whether there is a next tile, and which."""
        b = self.b
        with b.because(_why(reader.loop, "RAW tiles: slot full")):
            b.emit(roles.ConsumerWait(self.ring, index, phase))
        given = b.emit(ops.GivenTile(self.tiles, index, together=self.together)).results
        with b.because(_why(reader.loop, "WAR tiles: slot read")):
            b.emit(roles.ConsumerRelease(self.ring, index, generic=True, alone=reader.by == "thread"))
        return given


# Lowering ------------------------------------------------------------------------------------------------------------


def request(low: Lowering, op: ops.RequestTile) -> None:
    """By the elected thread, of a cluster that of the first block."""
    ring, elected = low.get(op.pipeline), low.once["elected"]
    multicast = low.once["leader", ring]
    if multicast:
        elected = low.b.and_(elected, is_first(low))
    where, slot = _place(low, op.dst, op.index), low.get(op.index)
    operands = where, full(low, op), low.get(op.dst), slot, ring
    low.b.emit(ops.TryCancel(*operands, predicate=elected, multicast=multicast))


def given(low: Lowering, op: ops.GivenTile) -> tuple[Value, ...]:
    asked = ops.QueryCancel(_place(low, op.src, op.slot), low.get(op.src), low.get(op.slot))
    more, first = low.b.emit(asked).results
    return more, low.b.floordiv(first, op.together)


def _place(low: Lowering, tiles: Value, slot: Value) -> Value:
    start = low.in_entry(("buffer", tiles), lambda b: b.emit(thread.BufferAddress(low.get(tiles))).result)
    return low.b.add(start, low.b.mul(low.get(slot), BYTES))


RULES: dict[type[Op], Any] = {ops.RequestTile: request, ops.GivenTile: given}
