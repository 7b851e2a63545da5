"""Warp roles and the pipelines between them (tile stage).

A pipeline is a ring of slots: the producer fills slot after slot, the consumers use and release them. Which slot, and
which turn of the ring, is carried by each role's own loop as two i32 values, `index` and `phase`:

    %ring = mbarrier_pipeline %As, %Bs {slots = 4}
    warp_specialized producer {
      for … [0, 0] (%k, %i, %p) {
        producer_acquire %ring, %i, %p                         // wait until the slot is free
        producer_expect_tx %ring, %i                              // its bytes are on their way
        tma_copy %A[…], %As, %ring, %i ; tma_copy %B[…], %Bs, %ring, %i
        %i1, %p1 = … the next slot ; yield %i1, %p1
    } } consumer {
      for … (%k, %c, %t, %last, %i, %p) {
        consumer_wait %ring, %i, %p                         // wait until the slot is full
        %c1, %t1 = async_gemm %As, %Bs, %c {slot %i}
        wait %t ; consumer_release %ring, %last                // the gemm before this one is done with its slot
        …

A producer without threads does nothing: there is one role. Then one warp of the consumers issues the copies, what
`feed` says; and where a slot is released whose next copies are known, `refill` issues them as soon as all have.
"""

from __future__ import annotations

from typing import ClassVar

from minitile.hardware import WARPGROUP
from minitile.ir.core import Block, Op, Value, attr, maybe, operand, operands, region
from minitile.ir.effects import Access
from minitile.ir.ops.control import If
from minitile.ir.ops.tile import Dims, Gemm
from minitile.ir.types import WGMMA_TOKEN, BufferType, DType, PipelineType, TileType, Type


class MbarrierPipeline(Op, name="mbarrier_pipeline", stage="tile", orders=True):
    """A ring of `slots` versions of the payload buffers, all free at first. `consumers`: threads that release.
    `common`: the dimensions of the cluster along which blocks fill each other's slots; they move on together, then.
    `leader`: the first block of the cluster fills a slot of all blocks at once, when the `consumers` of all blocks have
    released it; each block announces its own bytes."""

    payload: tuple[Value, ...] = operands()
    slots: int = attr()
    consumers: int = attr()
    common: tuple[int, ...] = attr(())
    leader: bool = attr(False)

    def by_others(self) -> bool:
        """Whether blocks of the cluster arrive at each other's barriers, however many there are."""
        return bool(self.common)

    def infer(self) -> tuple[Type, ...]:
        named = tuple((v.name or f"buffer{n}", v.type) for n, v in enumerate(self.payload))
        return (PipelineType(self.slots, tuple((n, t) for n, t in named if isinstance(t, BufferType))),)

    def accesses(self) -> tuple[Access, ...]:
        return ()


class WarpSpecialized(Op, name="warp_specialized", stage="tile"):
    """Two roles: `producer` by one warp of `producer_threads` that come on top, `consumer` by the threads that compute.
    `registers`: how many each thread of either role may use. Without producer threads the consumer is the only role."""

    producer_threads: int = attr(WARPGROUP)
    registers: tuple[int, int] = attr((40, 232))
    producer: Block = region()
    consumer: Block = region()

    @property
    def programs(self) -> dict[str, Block]:
        """What runs at the same time, by who runs it."""
        return {"producer": self.producer, "consumers": self.consumer}


class ByRole(If, name="by_role", stage="thread"):
    """The roles in thread IR: the warps for which the condition holds take the first branch, the others the second one.
    The two never meet inside; the threads of each do among themselves: `teams` has for either the number of its named
    barrier, and of its threads (None: they never meet). `independent`: what one side does to tensors needs no order
    with what the other one does."""

    by_role = True
    independent: bool = attr(False)
    teams: tuple[tuple[int, int | None], tuple[int, int | None]] = attr(((0, None), (0, None)))

    def varies(self) -> bool:
        return bool(self.results)


class SlotOp(Op, orders=True):
    """`wants`: what state the slot is in before it; `fills`: the slot is full behind it."""

    wants: ClassVar[str] = "free"
    fills: ClassVar[bool] = False
    pipeline: Value = operand()
    index: Value = operand()

    def accesses(self) -> tuple[Access, ...]:
        return ()


class ProducerAcquire(SlotOp, name="producer_acquire", stage="tile"):
    """Wait until the consumers have released the slot. `phase` counts the ring's turns, modulo 2, from 0."""

    phase: Value = operand()


class ConsumerWait(SlotOp, name="consumer_wait", stage="tile"):
    """Wait until the slot's copies have landed."""

    wants = "full"
    phase: Value = operand()


class ProducerExpectTx(SlotOp, name="producer_expect_tx", stage="tile"):
    """The producer announces the payload's bytes; stands before the copies."""


class ConsumerRelease(SlotOp, name="consumer_release", stage="tile"):
    """This consumer will not touch the slot again. Where `condition` is false there is nothing to release. `generic`:
    threads have read it by themselves, so that a warp meets before one of them speaks for all. `alone`: the consumer
    is one thread."""

    wants = "held"
    generic: bool = attr(False)
    alone: bool = attr(False)
    condition: Value | None = maybe()

    @property
    def turn(self) -> tuple[Value, ...]:
        """What it takes from the turn that the slot was received in; the index comes first."""
        return (self.index,)

    def later(self, turn: tuple[Value, ...], condition: Value | None) -> ConsumerRelease:
        """The same for another turn."""
        release = ConsumerRelease(self.pipeline, turn[0], condition=condition, generic=self.generic)
        release.why = self.why
        return release

    def last(self) -> ConsumerRelease:
        """The same where no further iteration follows."""
        return self


class PipelinePrologue(Op, name="pipeline_prologue", stage="tile"):
    """In one role: what one warp does, acquire slots, announce bytes and issue copies, while the others go on."""

    body: Block = region()


class Refill(ConsumerRelease, name="refill"):
    """In one role: release the slot; then, if `following` is less than `end`, one warp fills it anew. The arguments of
    `body` are the slot's index, `phase`, that of its next turn, and `following`, the iteration whose copies come."""

    phase: Value = operand()
    following: Value = operand()
    end: Value = operand()
    body: Block = region()

    @property
    def turn(self) -> tuple[Value, ...]:
        return (self.index, self.phase, self.following)

    def later(self, turn: tuple[Value, ...], condition: Value | None) -> ConsumerRelease:
        index, phase, following = turn
        fields = {"condition": condition, "generic": self.generic, "body": self.body}
        refill = Refill(self.pipeline, index, phase, following, self.end, **fields)
        refill.why = self.why
        return refill

    def last(self) -> ConsumerRelease:
        release = ConsumerRelease(self.pipeline, self.index, condition=self.condition, generic=self.generic)
        release.loc, release.why = self.loc, self.why
        return release

    def verify(self) -> None:
        wanted = [self.index.type, self.phase.type, self.following.type]
        if [a.type for a in self.body.args] != wanted or self.end.type != self.following.type:
            raise ValueError(f"the body wants {', '.join(map(str, wanted))}, and the end is of the last one's type")


class TmaCopy(Op, name="tma_copy", stage="tile"):
    """A region of a tensor into a whole version of a shared buffer, by the copy engine; lands on the slot's barrier.
    What lies outside the tensor becomes zeros. `tf32`: f32 is rounded to tf32 on its way. `common`: the dimensions of
    the cluster along which all blocks make this copy: each brings its part of the rows, to all."""

    wants: ClassVar[str] = "filling"
    src: Value = operand()
    src_indices: tuple[Value, ...] = operands()
    dst: Value = operand()
    pipeline: Value = operand()
    index: Value = operand()
    src_dims: Dims = attr()
    tf32: bool = attr(False)
    common: tuple[int, ...] = attr(())
    evict: str = attr("")

    def accesses(self) -> tuple[Access, ...]:
        ctas = "cluster" if self.common else "own"
        return (
            Access("read", self.src, proxy="async", threads="one"),
            Access("write", self.dst, self.index, proxy="async", pipeline=self.pipeline, threads="one", ctas=ctas),
        )


class AsyncGemm(Gemm, name="async_gemm", stage="tile"):
    """A gemm in flight: its result may feed the next one, everything else awaits it. The token is its completion, and
    that of the gemm `behind` whose token it is issued: groups complete in order."""

    behind: Value | None = maybe()

    def infer(self) -> tuple[Type, ...]:
        return (self.c.type, WGMMA_TOKEN)


class Unset(Op, name="unset", stage="tile"):
    """A tile of no values, for a gemm to write. Each has registers of its own."""

    shape: tuple[int, ...] = attr()
    dtype: DType = attr()

    def infer(self) -> tuple[Type, ...]:
        return (TileType(self.shape, self.dtype),)

    def accesses(self) -> tuple[Access, ...]:
        return ()


class Fragment(Op, name="fragment", pure=True):
    """The tile in the registers from which an asynchronous gemm reads it: whole words, f32 rounded to tf32. They must
    not be written again before the gemm is complete; so this stands where the tile comes from, outside of loops that
    only use it."""

    a: Value = operand()

    def infer(self) -> tuple[Type, ...]:
        return (self.a.type,)


class Await(Op, name="await", orders=True):
    """The tile when the token is complete; where `written`, a bool, is false, no gemm has written it: zeros."""

    a: Value = operand()
    token: Value = operand()
    written: Value | None = maybe()
    pending: int | None = attr(None)

    def infer(self) -> tuple[Type, ...]:
        return (self.a.type,)

    def accesses(self) -> tuple[Access, ...]:
        return ()

    def reconverges(self) -> bool:
        return self.pending is not None


class _OrderBarrierOp(Op, orders=True):
    """The consumers' warpgroups alternate in giving work to the tensor cores, so that one computes while the other's
    gemms run: `order_barrier_init` once, then `order_barrier_wait` and `order_barrier_arrive` by each group in the same
    order."""

    def accesses(self) -> tuple[Access, ...]:
        return ()


class OrderBarrierInit(_OrderBarrierOp, name="order_barrier_init", stage="tile"):
    """The first turn is the first warpgroup's."""


class OrderBarrierWait(_OrderBarrierOp, name="order_barrier_wait", stage="tile"):
    """Wait until it is this warpgroup's turn."""


class OrderBarrierArrive(_OrderBarrierOp, name="order_barrier_arrive", stage="tile"):
    """It is the next warpgroup's turn, behind the last one the first one's."""


class _PingPongOp(Op, orders=True):
    """The order barrier of teams of consumers (transforms/warp_specialize/ping_pong.py): the team that it has let pass
    receives what the producer sends."""

    to: Value = operand()

    def accesses(self) -> tuple[Access, ...]:
        return ()


class PingPongWait(_PingPongOp, name="ping_pong_wait", stage="tile"):
    """Team number `to` waits until the order barrier lets it pass."""


class PingPongArrive(_PingPongOp, name="ping_pong_arrive", stage="tile"):
    """Let team number `to` pass the order barrier."""
