"""What a program with explicit roles of warpgroups is made of (`T.ws`, `T.alloc_barrier`, `T.tma_copy`, …).

    %bars = barriers {counts = (128, 128)}                  // words of mbarriers, initialised before any thread goes on
    for … (%k) {
      warp_groups %first {first = 1, count = 1} {           // the other side of the branch: all other warpgroups
        barrier_wait %bars, 1, %parity
        bulk_load %A[…], %As, %bars, 0                      // announces its bytes on the barrier, and copies
        barrier_arrive %bars, 0                             // each thread that comes here
      } {}
      warp_groups %second {first = 0, count = 1} {
        barrier_wait %bars, 0, %other ; %c1 = gemm %As, %Bs, %c ; barrier_arrive %bars, 1
        yield %c1
      } { yield %c }
    }

The barriers order what the program says they order: an arrive releases what its thread has done, a wait acquires. No
pass adds order between roles. Among the threads of one role barriers are inserted as anywhere else (named ones).

Legal in the tile stage; what has no operands of memory is an instruction, and legal in both.
"""

from __future__ import annotations

from minitile.hardware import WARPGROUP
from minitile.ir.core import Op, Value, attr, maybe, operand, operands
from minitile.ir.effects import Access, Footprint, Sync
from minitile.ir.ops.checks import require, require_one_of, require_region, require_scalar
from minitile.ir.ops.control import If
from minitile.ir.ops.tile import Copy, Dims
from minitile.ir.types import BOOL, BufferType, Type, u64

ALL_LANES = 0xFFFFFFFF  # of a warp of 32


class InGroups(Op, name="in_groups", stage="tile", pure=True):
    """Is this thread in one of the `count` warpgroups from `first` on?"""

    first: int = attr()
    count: int = attr()

    def infer(self) -> tuple[Type, ...]:
        return (BOOL,)


class WarpGroups(If, name="warp_groups", stage="tile"):
    """The `count` warpgroups from `first` on take the first side, the others at hand the second one. Each side's tiles
    are spread over its own threads only. The condition is the `in_groups` of the same warpgroups. `independent`: what
    one side does to tensors needs no order with what the other one does."""

    needs = "T.ws", "tma"

    by_role = True
    first: int = attr()
    count: int = attr()
    independent: bool = attr(False)

    def varies(self) -> bool:
        return True


class Barriers(Op, name="barriers", stage="tile", orders=True):
    """Mbarriers, one for each of `counts`: how many arrivals complete a phase. All are initialised, and known to all
    threads, before any thread goes on. `cluster`: other blocks of the cluster arrive there, too."""

    needs = "T.alloc_barrier", "tma"

    counts: tuple[int, ...] = attr()
    cluster: bool = attr(False)

    def infer(self) -> tuple[Type, ...]:
        return (BufferType("shared", (len(self.counts),), u64),)

    def verify(self) -> None:
        require(all(0 < c < 1 << 20 for c in self.counts), f"counts {self.counts} are not from 1 to 2^20 - 1")

    def accesses(self) -> tuple[Access, ...]:
        return ()


class BarrierOp(Op, orders=True):
    barriers: Value = operand()
    index: Value = operand()

    def verify(self) -> None:
        require_scalar(self.index, "the barrier's number")

    def accesses(self) -> tuple[Access, ...]:
        return (Access("atomic", self.barriers, pipeline=self.barriers),)


class BarrierArrive(BarrierOp, name="barrier_arrive", stage="tile"):
    """Each thread that comes here arrives. `bytes` more are announced at once, unless 0. `rank`: at the barrier of that
    block of the cluster. `copies`: not before the thread's copies by `element_copy` have come."""

    rank: Value | None = maybe()
    bytes: int = attr(0)
    copies: bool = attr(False)

    def verify(self) -> None:
        super().verify()
        require(self.rank is None or not self.bytes, "bytes are announced at the own barrier")

    def syncs(self) -> tuple[Sync, ...]:
        return (Sync("release", self.barriers),)


class BarrierExpect(BarrierOp, name="barrier_expect", stage="tile"):
    """Each thread that comes here announces `bytes`, without arriving."""

    bytes: int = attr()


class BarrierWait(BarrierOp, name="barrier_wait", stage="tile"):
    """Wait until the phase of this parity is complete."""

    parity: Value = operand()

    def syncs(self) -> tuple[Sync, ...]:
        return (Sync("acquire", self.barriers),)


class ElementCopy(Op, name="element_copy", stage="tile"):
    """Each thread copies `count` neighbours, along the last dimension, from a tensor to a shared buffer; zeros where
    `enable` is false or the tensor has none. With `barriers` it is in flight until the thread's next arrival of copies
    at one of them; without, it is over at once."""

    src: Value = operand()
    src_indices: tuple[Value, ...] = operands()
    dst: Value = operand()
    dst_indices: tuple[Value, ...] = operands()
    barriers: Value | None = maybe()
    enable: Value | None = maybe()
    dst_slot: Value | None = maybe()
    count: int = attr()
    src_dims: Dims = attr()
    dst_dims: Dims = attr()

    def verify(self) -> None:
        require_region(self.src, self.src_indices, self.src_dims, ())
        require_region(self.dst, self.dst_indices, self.dst_dims, (), self.dst_slot)
        require(self.src.dtype is self.dst.dtype, f"{self.src.type} and {self.dst.type}: no cast on the way")

    def accesses(self) -> tuple[Access, ...]:
        return (Access("read", self.src), Access("write", self.dst, self.dst_slot, pipeline=self.barriers))


class BulkLoad(Op, name="bulk_load", stage="tile", uniform=True):
    """A region of `shape` of a tensor into a region of a shared buffer, by the copy engine. The first thread in each
    `leader` threads (0: of the role) announces the bytes on the barrier and issues the copy. `tf32`: f32 is rounded to
    tf32 on its way."""

    needs = "T.tma_copy", "tma"

    src: Value = operand()
    src_indices: tuple[Value, ...] = operands()
    dst: Value = operand()
    dst_indices: tuple[Value, ...] = operands()
    barriers: Value = operand()
    index: Value = operand()
    dst_slot: Value | None = maybe()
    shape: tuple[int, ...] = attr()
    src_dims: Dims = attr()
    dst_dims: Dims = attr()
    leader: int = attr(0)
    tf32: bool = attr(False)

    def verify(self) -> None:
        require_region(self.src, self.src_indices, self.src_dims, self.shape)
        require_region(self.dst, self.dst_indices, self.dst_dims, self.shape, self.dst_slot)
        require(self.src.dtype is self.dst.dtype, f"{self.src.type} and {self.dst.type}: no cast on the way")

    def accesses(self) -> tuple[Access, ...]:
        return (
            Access("read", self.src, proxy="async", threads="one"),
            Access("write", self.dst, self.dst_slot, proxy="async", pipeline=self.barriers, threads="one"),
        )

    def footprints(self) -> tuple[Footprint, ...]:
        return (
            Footprint("read", self.src, self.src_indices, self.src_dims, self.shape),
            Footprint("write", self.dst, self.dst_indices, self.dst_dims, self.shape),
        )


class BulkStore(Copy, name="bulk_store", stage="tile", uniform=True):
    """As copy, from shared memory to a tensor by the copy engine, in flight: one thread issues it, and its group is
    committed. The program waits (`wait_stores`)."""

    needs = "T.tma_copy", "tma"
    in_flight = True

    def verify(self) -> None:
        super().verify()
        require(self.src.dtype is self.dst.dtype, f"{self.src.type} and {self.dst.type}: no cast on the way")

    def accesses(self) -> tuple[Access, ...]:
        return (
            Access("read", self.src, self.src_slot, proxy="async", threads="one"),
            Access("write", self.dst, proxy="async", threads="one"),
        )


class CommitStores(Op, name="commit_stores", stage="both"):
    """One more group of stores by the copy engine, an empty one: each bulk_store is a group of its own."""

    needs = "T.tma_store_arrive", "tma"

    def accesses(self) -> tuple[Access, ...]:
        return ()


class WaitStores(Op, name="wait_stores", stage="both", orders=True):
    """Until at most `pending` groups of stores that this thread issued are in flight; with `reads`, until the shared
    memory of all others has been read."""

    needs = "T.tma_store_wait", "tma"

    pending: int = attr()
    reads: bool = attr(True)

    def verify(self) -> None:
        require(self.pending >= 0, f"{self.pending} groups")

    def accesses(self) -> tuple[Access, ...]:
        return ()


class NumberedBarrier(Op, name="numbered_barrier", stage="both", orders=True):
    """`threads` threads meet at barrier `id`: those here, and others elsewhere. Without `wait` the threads here only
    say that they have come (bar.arrive)."""

    id: int = attr()
    threads: int = attr()
    wait: bool = attr(True)

    def verify(self) -> None:
        require(0 <= self.id < 16, f"barrier {self.id} is not one of 0 to 15")
        require(self.threads % 32 == 0 and self.threads > 0, f"{self.threads} threads are no whole warps")

    def accesses(self) -> tuple[Access, ...]:
        return ()

    def syncs(self) -> tuple[Sync, ...]:
        return (Sync("meet" if self.wait else "release", self.id, count=self.threads),)

    def reconverges(self) -> bool:
        return True


class WarpBarrier(Op, name="warp_barrier", stage="both", orders=True):
    """The warp's threads in `mask` meet; what they have accessed is in order."""

    mask: int = attr(ALL_LANES)

    def accesses(self) -> tuple[Access, ...]:
        return ()

    def syncs(self) -> tuple[Sync, ...]:
        return (Sync("meet", None, count=32),)

    def reconverges(self) -> bool:
        return self.mask == ALL_LANES


SHUFFLES = ("idx", "up", "down", "bfly")


class Shuffle(Op, name="shuffle", stage="both"):
    """A scalar from another lane of the warp: lane `lane` ("idx"), `lane` below ("up") or above ("down") this one, or
    this one xor `lane` ("bfly"), within segments of `width` lanes. Lanes outside the segment give the thread's own. A
    warp has 32 threads; 64 where the segments have, on targets whose warps do."""

    value: Value = operand()
    lane: Value = operand()
    kind: str = attr()
    width: int = attr(32)
    mask: int = attr(ALL_LANES)

    def infer(self) -> tuple[Type, ...]:
        return (self.value.type,)

    def varies(self) -> bool:
        return True

    def verify(self) -> None:
        require_one_of(self.kind, SHUFFLES, "shuffle")
        require(self.width in (1, 2, 4, 8, 16, 32, 64), f"segments of {self.width} lanes")
        require_scalar(self.value, "the value")

    def accesses(self) -> tuple[Access, ...]:
        return ()

    def reconverges(self) -> bool:
        return self.mask == ALL_LANES


class CommitGemms(Op, name="commit_gemms", stage="both"):
    """One more group of wgmma, an empty one: each gemm is a group of its own."""

    needs = "T.warpgroup_commit_batch", "wgmma"

    def accesses(self) -> tuple[Access, ...]:
        return ()

    def reconverges(self) -> bool:
        return True


class WaitGemms(Op, name="wait_gemms", stage="both", orders=True):
    """Until at most `pending` groups of wgmma that this thread issued are in flight."""

    needs = "T.wait_wgmma", "wgmma"

    pending: int = attr()

    def verify(self) -> None:
        require(0 <= self.pending < 8, f"{self.pending} groups are not 0 to 7")

    def accesses(self) -> tuple[Access, ...]:
        return ()

    def reconverges(self) -> bool:
        return True


def sides(op: Op, threads: int) -> list[int]:
    """How many of `threads` execute each region of an operation."""
    if not isinstance(op, WarpGroups):
        return [threads] * len(op.regions)
    inside = op.count * WARPGROUP
    return [inside, max(threads - inside, WARPGROUP)]


__all__ = [
    "SHUFFLES",
    "BarrierArrive",
    "BarrierExpect",
    "BarrierWait",
    "Barriers",
    "BulkLoad",
    "BulkStore",
    "CommitGemms",
    "CommitStores",
    "ElementCopy",
    "InGroups",
    "NumberedBarrier",
    "Shuffle",
    "WaitGemms",
    "WaitStores",
    "WarpBarrier",
    "WarpGroups",
    "sides",
]
