"""TMA in one role: the warps that compute issue the copies themselves, as many iterations ahead as there are slots.

    for 0, %n, 1, [%z] {pipelined, 4 stages} (%k, %c) {      %ring = mbarrier_pipeline %As, %Bs {slots = 4}
      copy %A[…], %As                                         pipeline_prologue { for 0, min(%n, 4) (%j, %i, %p) {
      copy %B[…], %Bs                                                  producer_expect_tx %ring, %i
      %c1 = gemm %As, %Bs, %c                          →               tma_copy %A[…], … ; tma_copy %B[…], … } }
      yield %c1                                               for … [%z, 0, 0] (%k, %c, %i, %p) {
    }                                                           consumer_wait %ring, %i, %p
                                                                %f, %t = async_gemm %As, %Bs, %c   // slot %i
                                                                %c1 = await %f, %t
                                                                refill %ring, %i, %p ^ 1, %k + 4, %n (%i, %p, %j) {
                                                                  producer_acquire %ring, %i, %p ; producer_expect_tx
                                                                  %ring, %i tma_copy %A[…], … ; tma_copy %B[…], … }
                                                                yield %c1, next(%i, %p) }

The pass for `warp_specialize=False`, and what `warp_specialize` is when that is left out. Rings, pipelines and their
states are the same; there is no producer. Its slice of a pipelined loop is written twice instead: for the first
iterations in front of the loop, one for each slot, and for iteration k + slots where the slot of iteration k is
released. So a slot stands empty no longer than until all have released it. A loop begins and ends by itself, whatever
stands around it: trip counts of 0, or of fewer iterations than slots, make the first loop short and no refill, and in a
persistent kernel each tile fills the ring anew. A ring of one slot (operands that are copied outside of pipelined
loops) is filled where its copies stand.

`skew` and `sink_wgmma_waits` move a refill as they move the release that it is: with the values of its turn. What they
put behind the loop are releases only, since no iteration follows.

What waits. A slot's full barrier is what it is with roles. That all are done with the slot its empty barrier says, to
the warp that issues the copies alone: a barrier of the whole CTA in each iteration would do as well, but hold all
warpgroups back to the slowest one, and bring those in step that an order barrier keeps apart. The warp is the first one
of the *last* warpgroup: it passes the order barrier when all others have passed it and have released; any other warp
would wait, while it holds the others back, for those that it holds back. Where one warpgroup is all there is, its wait
for a gemm is that of all of its warps, and lowering leaves the empty barriers out of what only gemms read, whenever
they have received it: an iteration that multiplies on a condition needs them.

No deadlock: all warps run one program, in which whatever waits (receive, acquire) stands behind what it waits for. Of
all that wait somewhere, those at the earliest place go on.

What this pass cannot do is left to software pipelining (cp.async, mma.sync): copies that TMA cannot make, those whose
indices the iteration before computes, or that stand under a condition in a pipelined loop; `context.notes` says why.
"""

from __future__ import annotations

from collections.abc import Sequence

from minitile.analysis.op_places import Places
from minitile.ir.builder import Builder
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import control, roles, tile
from minitile.ir.rewrite import clone
from minitile.transforms.manager import PassContext
from minitile.transforms.pipeline.ahead import closure
from minitile.transforms.warp_specialize.producer_partition import Refused, Ring, Rings, find_rings
from minitile.transforms.warp_specialize.warp_specialize import Consumer, StateValues, check, rebuild


def tma_multistage(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    if not context.target.has("tma") or kernel.attrs.get("explicit_sync") or context.ran("warp_specialize"):
        return
    launch = control.find_launch(kernel)
    try:
        rings = find_rings(kernel, launch, _check_ahead)
        check(launch, rings, context.rules, launch.threads)
    except Refused as reason:
        context.notes.append(f"no TMA ahead in one role: {reason}")
        return
    context.notes.extend(f"copied by all threads: {note}" for note in rings.notes)

    def parts(body: Block, pipelines: dict[Ring, Value], b: Builder) -> roles.WarpSpecialized:
        return roles.WarpSpecialized(producer_threads=0, consumer=_OneRole(rings, pipelines).role(body))

    rebuild(launch, rings, parts, launch.threads, {}, "tma_multistage")


def _check_ahead(copy: tile.Copy, places: Places) -> None:
    """Raises Refused where a copy in a pipelined loop cannot be issued iterations ahead."""
    loop = places.pipelined(copy)
    if loop is None:
        return
    if loop is not places.around(copy):
        raise Refused(f"the copy of {copy.src.name} stands under a condition in a pipelined loop")
    if closure(loop, [copy]) is None:
        raise Refused(f"the copy of {copy.src.name} depends on what the iteration before it computes")


class _OneRole(Consumer):
    """The consumers' program, with the copies of later iterations in it."""

    pass_name = "tma_multistage"

    def __init__(self, rings: Rings, pipelines: dict[Ring, Value]) -> None:
        super().__init__(rings, pipelines)
        self.depth = 0  # of loops
        self.loops: dict[Block, control.For] = {}  # around those of multistage rings
        self.needed: dict[Ring, list[Op]] = {}  # what the copies of a multistage ring are computed by
        places = rings.slice.places
        for ring in rings.rings:
            loop = places.around(ring.copies[0])
            if ring.pipeline_state.multistage and isinstance(loop, control.For):
                inside = closure(loop, ring.copies) or set()
                self.loops[loop.body] = loop
                self.needed[ring] = [op for op in loop.body.ops if op in inside]

    def copied(self, op: tile.Copy, state: StateValues) -> None:
        """The only slot of a ring is filled here."""
        ring = self.rings.copies[op]
        if op is ring.copies[-1] and not ring.pipeline_state.multistage:
            feed = self.b.emit(roles.PipelinePrologue())
            with self.b.inside(feed.body):
                self.feed(ring, *state[ring.pipeline_state], {}, acquired=self.depth > 0)

    def holder(self, op: control.Structured, state: StateValues) -> None:
        if isinstance(op, control.For) and op.body in self.loops:
            self.first(op, state)
        self.depth += op.repeats
        super().holder(op, state)
        self.depth -= op.repeats

    def first(self, loop: control.For, state: StateValues) -> None:
        """The copies of a loop's first iterations, in front of it."""
        rings = [ring for ring in self.needed if ring.pipeline_state.block is loop.body]
        pipeline_state = rings[0].pipeline_state  # multistage rings of one block have as many slots
        feed, body = self.b.emit(roles.PipelinePrologue()), Block()
        iteration = body.add_arg(loop.iv.type, loop.iv.name)
        inner = self.arguments(body, state, [pipeline_state])
        with self.b.inside(body):
            self.copies(loop, rings, iteration, *inner[pipeline_state], acquired=self.depth > 0)
            self.advance(inner, loop.body)
            self.b.emit(control.Yield(tuple(self.carried(inner, [pipeline_state]))))
        with self.b.inside(feed.body):
            end = self.b.min(loop.upper, self.b.add(loop.lower, self.b.mul(loop.step, pipeline_state.slots)))
            init = tuple(self.carried(state, [pipeline_state]))
            self.b.emit(control.For(loop.lower, end, loop.step, init, body=body))

    def release(self, ring: Ring, index: Value, phase: Value) -> None:
        """A slot of several is filled again."""
        loop = self.loops.get(ring.pipeline_state.block)
        if ring not in self.needed or loop is None:
            super().release(ring, index, phase)
            return
        following = self.b.add(loop.iv, self.b.mul(loop.step, ring.pipeline_state.slots))
        turn = (index, self.b.xor(phase, 1), following)
        body = Block()
        index, phase, iteration = (
            body.add_arg(v.type, name) for v, name in zip(turn, ("slot", "phase", loop.iv.name), strict=True)
        )
        with self.b.inside(body):
            self.copies(loop, [ring], iteration, index, phase, acquired=True)
        generic = ring in self.generic
        with self.b.because(self.why[ring].release):
            self.b.emit(roles.Refill(self.pipelines[ring], *turn, loop.upper, generic=generic, body=body))

    def copies(
        self, loop: control.For, rings: Sequence[Ring], iteration: Value, index: Value, phase: Value, acquired: bool
    ) -> None:
        """The copies of an iteration, and what they need."""
        names = {loop.iv: iteration}
        for op in dict.fromkeys(op for ring in rings for op in self.needed[ring]):
            self.b.emit(clone(op, names))
        for ring in rings:
            self.feed(ring, index, phase, names, acquired)
