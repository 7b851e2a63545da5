"""Thread operations of sm_90a: mbarriers, the copy engine (TMA), warpgroup multiplication, register budgets.

Barrier words lie in a shared buffer of their own, `ring`; their accesses are ordered by what they are.
"""

from __future__ import annotations

from minitile.ir.core import Op, Value, attr, maybe, maybe_operands, operand, operands
from minitile.ir.effects import Access, Sync, box_at
from minitile.ir.ops.checks import require, require_one_of, require_range
from minitile.ir.types import BOOL, BULK_TOKEN, I32, WGMMA_TOKEN, DType, RegsType, Type


class WarpIndex(Op, name="warp_index", stage="thread", pure=True):
    """The warp's number in the block, in a register that the assembler knows to be the same in all lanes."""

    def infer(self) -> tuple[Type, ...]:
        return (I32,)

    def varies(self) -> bool:
        return True

    def counts_threads(self) -> int | None:
        return 32


class Elect(Op, name="elect", stage="thread"):
    """True in one lane of the warp, the same one each time."""

    def infer(self) -> tuple[Type, ...]:
        return (BOOL,)

    def varies(self) -> bool:
        return True

    def reconverges(self) -> bool:
        return True

    def accesses(self) -> tuple[Access, ...]:
        return ()


class _BarrierOp(Op, orders=True):
    address: Value = operand()
    ring: Value = operand()

    def accesses(self) -> tuple[Access, ...]:
        return (Access("atomic", self.ring, pipeline=self.ring),)


class MbarrierInit(_BarrierOp, name="mbarrier_init", stage="thread"):
    """The barrier's phase completes after `count` arrivals (and the bytes that were announced)."""

    count: int = attr()


class MbarrierInitFence(Op, name="mbarrier_init_fence", stage="thread", orders=True):
    """Initialised barriers become visible to the copy engine."""

    def accesses(self) -> tuple[Access, ...]:
        return ()


class Arrival(_BarrierOp):
    """With a predicate, one lane arrives for others."""

    predicate: Value | None = maybe()

    def syncs(self) -> tuple[Sync, ...]:
        return (Sync("release", self.ring, self.address, "all" if self.predicate is None else "one"),)


class MbarrierArrive(Arrival, name="mbarrier_arrive", stage="thread"):
    """What the thread has done is known to those who wait. `rank`: at the barrier of that CTA of the cluster. There,
    only what it knows to be complete is; with `cluster`, what it has done by itself as well."""

    rank: Value | None = maybe()
    cluster: bool = attr(False)


class CpAsyncWaitAll(Op, name="cp_async_wait_all", stage="thread", orders=True):
    """Until the thread's copies by `cp_async_ungrouped` have come."""

    def accesses(self) -> tuple[Access, ...]:
        return ()


class UngroupedCpAsync(Op, name="cp_async_ungrouped", stage="thread"):
    """As cp_async, of no group: in flight until the thread's next `cp_async_wait_all`, behind which it arrives at
    `ring`."""

    dst: Value = operand()
    src: Value = operand()
    predicate: Value | None = maybe()
    dst_mem: Value = operand()
    dst_slot: Value | None = maybe()
    src_mem: Value = operand()
    ring: Value = operand()
    bytes: int = attr()
    dst_of: tuple[int, ...] = attr()
    dst_offsets: tuple[int, ...] = attr()
    src_of: tuple[int, ...] = attr()
    src_offsets: tuple[int, ...] = attr()
    predicate_of: tuple[int, ...] = attr(())

    enable, enable_of, evict = None, (), ""

    def accesses(self) -> tuple[Access, ...]:
        return Access("read", self.src_mem), Access("write", self.dst_mem, self.dst_slot, pipeline=self.ring)


class MbarrierExpect(Arrival, name="mbarrier_expect", stage="thread"):
    """Arrive and announce `bytes`."""

    bytes: int = attr()


class MbarrierAnnounce(_BarrierOp, name="mbarrier_announce", stage="thread"):
    """Announce `bytes` for the phase, without arriving (expect_tx)."""

    bytes: int = attr()
    predicate: Value | None = maybe()


class MbarrierWait(_BarrierOp, name="mbarrier_wait", stage="thread"):
    """Wait until the phase of this parity is complete. `cluster`: other CTAs of the cluster arrive there, too."""

    parity: Value = operand()
    cluster: bool = attr(False)

    def syncs(self) -> tuple[Sync, ...]:
        return (Sync("acquire", self.ring, self.address),)


class TmaLoad(Op, name="tma_load", stage="thread"):
    """A box of the tensor map at `coordinates` (innermost first) to shared memory; completes on a barrier by bytes.

    `multicast`: a bit for each CTA of the cluster that gets the box, at the same place as here, and the bytes on its
    own barrier at that place; None: this CTA alone. `free`: the threads that have used the buffer there have let the
    issuing thread know that they are done. `box`: its extents, in the tensor's order of dimensions.
    """

    address: Value = operand()
    barrier: Value = operand()
    coordinates: tuple[Value, ...] = operands()
    mem: Value = operand()
    slot: Value = operand()
    ring: Value = operand()
    tensor: Value | None = maybe()
    map: str = attr()
    predicate: Value | None = maybe()
    multicast: Value | None = maybe()
    evict: str = attr("")
    free: bool = attr(False)
    box: tuple[int, ...] = attr(())

    def accesses(self) -> tuple[Access, ...]:
        ctas = "own" if self.multicast is None else "cluster"
        write = Access(
            "write", self.mem, self.slot, proxy="async", pipeline=self.ring, threads="one", ctas=ctas, free=self.free
        )
        if self.tensor is None:
            return (write,)
        box = box_at(self.coordinates[::-1], self.box) if self.box else None
        return Access("read", self.tensor, proxy="async", pipeline=self.ring, threads="one", box=box), write


class TmaStore(Op, name="tma_store", stage="thread"):
    """A box of the tensor map at `coordinates` (innermost first) from shared memory. What lies outside the tensor is
    left out; coordinates are not negative.

    One thread issues it; with `box`, each one for which the predicate holds, and each a box of its own, of these
    extents (in the tensor's order of dimensions). The token joins a bulk group of the issuing thread (`join` commits
    it), so that the same thread must issue, commit and wait; a thread that has issued nothing waits for nothing. A wait
    with `reads` gives the shared memory back, one without also makes the tensor's new contents visible to the thread.
    `span`: the bytes of the version that the box is taken from. `start` and `extent` as of store_mem: all boxes lie in
    that part of the tensor.
    """

    address: Value = operand()
    coordinates: tuple[Value, ...] = operands()
    mem: Value = operand()
    tensor: Value = operand()
    start: tuple[Value, ...] = maybe_operands()
    slot: Value | None = maybe()
    predicate: Value | None = maybe()
    map: str = attr()
    span: tuple[int, int] | None = attr(None)
    evict: str = attr("")
    extent: tuple[int, ...] = attr(())
    box: tuple[int, ...] = attr(())

    def infer(self) -> tuple[Type, ...]:
        return (BULK_TOKEN,)

    def verify(self) -> None:
        rank = len(self.tensor.shape)
        require(len(self.coordinates) == rank, f"{len(self.coordinates)} coordinates for {self.tensor.type}")
        require(self.mem.dtype is self.tensor.dtype, f"{self.mem.type} to {self.tensor.type}")
        require_range(self.start, self.extent, rank)
        require(len(self.box) in (0, rank), f"a box of {len(self.box)} dimensions for {self.tensor.type}")

    def accesses(self) -> tuple[Access, ...]:
        token, box = self.result, box_at(self.start, self.extent)
        threads, part = ("some", box_at(self.coordinates[::-1], self.box)) if self.box else ("one", None)
        return (
            Access("read", self.mem, self.slot, self.span, proxy="async", token=token, threads=threads),
            Access(self.effect, self.tensor, proxy="async", token=token, threads=threads, box=box, part=part),
        )

    @property
    def effect(self) -> str:
        return "write"


REDUCES = {
    "add": ("f16", "bf16", "f32", "i32", "u32", "u64"),
    "min": ("f16", "bf16", "i32", "u32", "i64", "u64"),
    "max": ("f16", "bf16", "i32", "u32", "i64", "u64"),
    "and": ("i32", "u32", "i64", "u64"),
    "or": ("i32", "u32", "i64", "u64"),
    "xor": ("i32", "u32", "i64", "u64"),
}
"""What cp.reduce.async.bulk combines in global memory, by dtype (PTX ISA 8.3, 9.7.8.24.8, 9.7.8.24.10)."""


class TmaReduce(TmaStore, name="tma_reduce", stage="thread"):
    """As tma_store, but each element of the tensor becomes kind(element, new one), atomically at GPU scope, relaxed."""

    kind: str = attr()

    def verify(self) -> None:
        super().verify()
        require_one_of(self.kind, REDUCES, "reduction by TMA")
        known = REDUCES[self.kind]
        require(self.mem.dtype.name in known, f"TMA has no {self.kind} of {self.mem.dtype}, only of {', '.join(known)}")

    @property
    def effect(self) -> str:
        return "atomic"


class NamedBarrier(Op, name="named_barrier", stage="thread", orders=True):
    """bar.sync id, threads; or bar.arrive, which counts and does not wait. The warps of a warpgroup have one id.
    `needed`: not for speed alone."""

    id: Value = operand()
    threads: int = attr()
    arrive: bool = attr(False)
    needed: bool = attr(False)

    def accesses(self) -> tuple[Access, ...]:
        return ()

    def reconverges(self) -> bool:
        return True


class ClusterBarrier(Op, name="cluster_barrier", stage="both", uniform=True, orders=True):
    """All threads of all CTAs of the cluster meet; shared memory accessed before, anywhere in the cluster, is ordered
    before what comes after."""

    def accesses(self) -> tuple[Access, ...]:
        return ()

    def syncs(self) -> tuple[Sync, ...]:
        return (Sync("meet", "cluster"),)

    def reconverges(self) -> bool:
        return True


class ClusterArrive(Op, name="cluster_arrive", stage="both", uniform=True, orders=True):
    """The first half of cluster_barrier: the thread has come. What stands between the halves need not wait."""

    def accesses(self) -> tuple[Access, ...]:
        return ()

    def syncs(self) -> tuple[Sync, ...]:
        return (Sync("release", "cluster"),)


class ClusterWait(Op, name="cluster_wait", stage="both", uniform=True, orders=True):
    """The second half: until all threads of the cluster have come."""

    def accesses(self) -> tuple[Access, ...]:
        return ()

    def syncs(self) -> tuple[Sync, ...]:
        return (Sync("acquire", "cluster"),)


class SetMaxRegisters(Op, name="set_max_registers", stage="both", uniform=True):
    """The warpgroup's register budget; `increase` says which way it goes."""

    needs = "T.set_max_nreg", "tma"

    count: int = attr()
    increase: bool = attr()

    def accesses(self) -> tuple[Access, ...]:
        return ()

    def reconverges(self) -> bool:
        return True


class UnsetRegisters(Op, name="unset_registers", stage="thread"):
    """Registers of no values, for a wgmma to write."""

    count: int = attr()
    dtype: DType = attr()

    def infer(self) -> tuple[Type, ...]:
        return (RegsType(self.count, self.dtype),)

    def accesses(self) -> tuple[Access, ...]:
        return ()


class FakeUse(Op, name="fake_use", stage="thread"):
    """Registers with these values are in use until here, for all that the assembler knows; nothing is executed."""

    values: tuple[Value, ...] = operands()

    def accesses(self) -> tuple[Access, ...]:
        return ()


class Wgmma(Op, name="wgmma", stage="thread"):
    """One commit group: for each block of 64 rows, strip of n columns and step of K,  c += a · b  by the warpgroup.

    a and b are shared-memory descriptors (i64); step k reads a + a_offsets[block * steps + k] and
    b + b_offsets[strip * steps + k], in units of 16 bytes. Or a is registers: the fragments by block and step, which
    must stay as they are until the token is awaited. `dtypes` are those of a and b.

    c holds n/2 elements of dtype `into` by block and strip; without c, or where `scale_d` is false, the first step of K
    replaces what the registers hold. The first result is in flight until the token is awaited, which then stands for
    the token `behind` which the group is issued as well: groups complete in order. The group is the
    warpgroup's: all of its warps issue it, and it is complete for all of them (PTX ISA 8.3, 9.7.14.7.3
    "wgmma.wait_group").
    """

    a: Value = operand()
    b: Value = operand()
    reads: tuple[Value, ...] = operands()
    c: Value | None = maybe()
    scale_d: Value | None = maybe()
    behind: Value | None = maybe()
    dtypes: tuple[DType, DType] = attr()
    into: DType = attr()
    n: int = attr()
    k: int = attr()
    a_offsets: tuple[int, ...] = attr()
    b_offsets: tuple[int, ...] = attr()
    strips: int = attr(1)
    transpose_a: bool = attr(False)
    transpose_b: bool = attr(False)

    def infer(self) -> tuple[Type, ...]:
        return (RegsType(self.blocks * self.strips * self.n // 2, self.into), WGMMA_TOKEN)

    @property
    def steps(self) -> int:
        return len(self.b_offsets) // self.strips

    @property
    def blocks(self) -> int:
        return len(self.a_offsets) // self.steps

    def verify(self) -> None:
        if self.c is not None and self.c.type != self.results[0].type:
            raise ValueError(f"the accumulator is {self.c.type}, the result {self.results[0].type}")
        if self.scale_d is not None and self.c is None:
            raise ValueError("scale_d needs an accumulator to keep")

    def accesses(self) -> tuple[Access, ...]:
        token = self.results[1] if len(self.results) > 1 else None
        return tuple(Access("read", mem, proxy="async", token=token, threads="group") for mem in self.reads)

    def stands_for(self) -> tuple[Value, ...]:
        return () if self.behind is None else (self.behind,)

    def reconverges(self) -> bool:
        return True
