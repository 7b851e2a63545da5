"""Reductions over the blocks of a cluster, each of which has a part of what is reduced (sm_90a).

    %x = all_reduce_buffer {shape = (4), dtype = f32, ranks = 8}   // slots and mbarriers, the same in every block
    for … (%k) {
      %s = all_reduce %part, %x, %k {kind = "sum"}                 // the same result in every block
    }

Every block stores its part into a slot of its own in the shared memory of every block, the own one included, and waits
until all parts have come. Slots have two versions, which the reductions of one buffer take in turn by their number: a
block that sends its part of reduction n+1 has read what came for n, and it sends that of n+2 into the version of n when
all parts of n+1 have come to it, hence when all blocks have read theirs of n. So no barrier of the cluster is needed
between them; within a block `thread_barriers` sees to it that its threads have read before one of them sends. Behind
the last reduction nothing is on its way to a block that has waited: no barrier is needed at the end, either.

In thread IR that is  mbarrier_expect ; async_store … ; await_stores ; load_mem …
"""

from __future__ import annotations

from minitile.ir.core import Op, Value, attr, maybe, operand
from minitile.ir.effects import Access, Sync
from minitile.ir.ops.checks import REDUCTIONS, require, require_dim, require_one_of
from minitile.ir.ops.hopper import MbarrierWait
from minitile.ir.ops.thread import count_of
from minitile.ir.ops.tile import ReduceInto
from minitile.ir.types import BufferType, DType, Type, i32

VERSIONS = 2  # of the slots: see above


class AllReduceBuffer(Op, name="all_reduce_buffer", stage="tile", orders=True):
    """A slot for each of the cluster's `ranks` blocks, each of `shape` elements, in two versions; and for each version
    the mbarrier on which it fills, initialised before any thread goes on."""

    shape: tuple[int, ...] = attr()
    dtype: DType = attr()
    ranks: int = attr()

    def infer(self) -> tuple[Type, ...]:
        return (BufferType("shared", (*self.shape, self.ranks), self.dtype, VERSIONS),)

    def accesses(self) -> tuple[Access, ...]:
        return ()


def _exchange(buffer: Value) -> tuple[Access, ...]:
    return (Access("write", buffer, pipeline=buffer, ctas="cluster"), Access("read", buffer))


class AllReduce(Op, name="all_reduce", stage="tile", uniform=True):
    """The blocks' tiles `a`, combined by `kind` in the order of their ranks: the same bits in all blocks.
    `number`: how many reductions of this buffer came before."""

    a: Value = operand()
    buffer: Value = operand()
    number: Value = operand()
    kind: str = attr()

    def infer(self) -> tuple[Type, ...]:
        return (self.a.type,)

    def accesses(self) -> tuple[Access, ...]:
        return _exchange(self.buffer)

    def verify(self) -> None:
        shape = tuple(self.a.shape)
        require(shape == self.buffer.shape[:-1], f"slots of {self.buffer.type} for {self.a.type}")
        require(self.number.dtype is i32, f"the number is {self.number.type}, not i32")
        require_one_of(self.kind, REDUCTIONS, "reduction")


class AllReduceInto(ReduceInto, name="all_reduce_into", stage="traced", uniform=True):
    """Traced reduction as reduce_into, and then over the blocks of the cluster. `dim` -1: over the blocks alone."""

    buffer: Value = operand()
    number: Value = operand()

    def verify(self) -> None:
        if self.dim >= 0:
            require_dim(self.dim, len(self.src.shape))
        require_one_of(self.kind, REDUCTIONS, "reduction")

    def accesses(self) -> tuple[Access, ...]:
        return (*super().accesses(), *_exchange(self.buffer))


class AsyncStore(Op, name="async_store", stage="thread"):
    """st.async: each register of `value` goes to shared memory of the block that its address, a `map_rank`, lies in,
    and its bytes count on the mbarrier at `barrier`, in the same block, when they have landed there. For threads
    that wait at that mbarrier in the cluster's scope what this one has done before is done, too: the completion
    releases (PTX ISA 8.3, 9.7.8.12 "st.async"), and comes behind the thread's earlier operations (8.9.1.1).

    It may overwrite every version, as far as the own block's threads are concerned: the others take it for the word
    that what came before has been read."""

    stored = "value"

    address: Value = operand()
    barrier: Value = operand()
    predicate: Value | None = maybe()
    value: Value = operand()
    mem: Value = operand()
    ring: Value = operand()
    address_of: tuple[int, ...] = attr()
    offsets: tuple[int, ...] = attr()
    predicate_of: tuple[int, ...] = attr(())

    def verify(self) -> None:
        count = count_of(self.value.type)
        require(len(self.address_of) == len(self.offsets) == count, f"{count} stores, {len(self.offsets)} places")
        require(self.value.dtype.bits in (32, 64), f"st.async takes 32 or 64 bits, not {self.value.type}")
        require(self.value.dtype is self.mem.dtype, f"the value is {self.value.type}, the memory {self.mem.type}")

    def accesses(self) -> tuple[Access, ...]:
        return (Access("write", self.mem, pipeline=self.ring, ctas="cluster"),)

    def syncs(self) -> tuple[Sync, ...]:
        return (Sync("release", self.ring, self.barrier, "one"),)


class AwaitStores(MbarrierWait, name="await_stores", stage="thread"):
    """mbarrier_wait for the stores of all blocks: behind it `mem` may be read, and until it is, no thread may send."""

    mem: Value = operand()

    def accesses(self) -> tuple[Access, ...]:
        return (*super().accesses(), Access("read", self.mem))
