"""Operations of sm_100a: tensor memory and the products that accumulate there (PTX ISA 8.8, 9.7.16; docs/blackwell.md).

In tile IR an accumulator in tensor memory is a buffer of the space "tmem": products write it, `tensor_load` makes a
tile of it. In thread IR a product is all steps of K with their commit, a load all of its instructions with their wait;
that threads meet between accesses of a buffer is the business of the same passes as for shared memory.

Operations whose names begin with tcgen05 are single instructions: waits, fences, commits. Products read their operands,
and copies their source (scales of blocks), from shared memory in the async proxy. Tensor memory is a space of its own,
ordered by `tcgen05_wait` and `tcgen05_fence`, which no proxy fence is for.
"""

from __future__ import annotations

from typing import ClassVar

from minitile.ir.core import Block, Op, Value, attr, maybe, operand, operands, region
from minitile.ir.effects import Access, Sync
from minitile.ir.ops.checks import require, require_one_of
from minitile.ir.ops.explicit import BarrierOp
from minitile.ir.ops.hopper import Arrival, TmaLoad
from minitile.ir.ops.product import Product
from minitile.ir.ops.roles import (
    ConsumerRelease,
    MbarrierPipeline,
    ProducerAcquire,
    SlotOp,
    TmaCopy,
    WarpSpecialized,
)
from minitile.ir.ops.tile import Alloc, Dims
from minitile.ir.ops.views import VIEWS
from minitile.ir.relations import Relation
from minitile.ir.types import I32, BufferType, DType, RegsType, TileType, Type, bool_

OWN_LANES = 0  # of accesses (`whole`): each thread loads what it stores


def _proxy(mem: Value) -> str:
    """By which products read a buffer: tensor memory has fences of its own, not those of proxies."""
    return "generic" if isinstance(mem.type, BufferType) and mem.type.space == "tmem" else "async"


class TensorMemory(Op, name="tensor_memory", stage="tile", orders=True):
    """All tensor memory of the kernel, `columns` of it: allocated here, for all threads. Where its address is left.
    `pair`: by both blocks of a pair together, as it is given back."""

    columns: int = attr()
    pair: bool = attr(False)

    def infer(self) -> tuple[Type, ...]:
        return (I32,)

    def accesses(self) -> tuple[Access, ...]:
        return ()


class AllocTmem(Alloc, name="alloc_tmem"):
    """A buffer of tensor memory that the program asks for; `explicit` of the backend finds its columns."""

    needs = "T.alloc_tmem", "tcgen05"
    in_flight = True


class TensorAlloc(Op, name="tensor_alloc"):
    """A buffer of tensor memory from `column` on, with each block of 128 rows `stride` columns behind the one before;
    elements of 16 and 8 bits lie two and four in a column. `shared_by`: how many consecutive threads have a part of it
    for themselves."""

    memory: Value = operand()
    type_: BufferType = attr()
    column: int = attr()
    stride: int = attr()
    shared_by: int | None = attr(None)

    def infer(self) -> tuple[Type, ...]:
        return (self.type_,)

    def verify(self) -> None:
        require(self.type_.space == "tmem", f"{self.type_} is not in tensor memory")

    def accesses(self) -> tuple[Access, ...]:
        return ()


class TensorView(Op, name="tensor_view", stage="tile", pure=True):
    """A buffer of tensor memory whose columns are elements of another dtype: of a word of 32 bits two of 16 or four of
    8, the lowest bits first, side by side; or the other way round. What is written to either is read from both."""

    d: Value = operand()
    shape: tuple[int, ...] = attr()
    dtype: DType = attr()
    rows_stay: ClassVar[bool] = True

    def infer(self) -> tuple[Type, ...]:
        return (BufferType("tmem", self.shape, self.dtype),)

    def verify(self) -> None:
        of = self.d.type
        require(isinstance(of, BufferType) and of.space == "tmem", f"{of} is not in tensor memory")
        same = self.shape[1] * self.dtype.bits == self.d.shape[1] * self.d.dtype.bits
        require(self.shape[0] == self.d.shape[0] and same, f"{self.shape} of {self.dtype} is no view of {of}")

    def accesses(self) -> tuple[Access, ...]:
        return ()


VIEWS["tmem"] = TensorView


def viewed(mem: Value) -> Value:
    """The buffer that a view in tensor memory is of; any other value itself."""
    while isinstance(mem.op, TensorView):
        mem = mem.op.d
    return mem


class TensorGemm(Product, name="tensor_gemm", stage="tile", uniform=True):
    """d + a @ b, or where `accumulate` is false a @ b, into d. Operands as of gemm, in shared memory, or a in tensor
    memory. `phase`: the
    parity of the mbarrier's phase that the product ends; it is complete for all threads behind it, then. Without one it
    is in flight, and complete where a commit behind it arrives. `reused`: d has been loaded from before, maybe.
    `groups`: so many warpgroups multiply their own blocks of rows, and wait for those alone; 1: all do as one.
    `pair`: both blocks of a pair multiply, the even one for both: each has its rows of a and d, and half of b.
    `*_scale`, `*_format`: as of gemm, the scales in tensor memory; copied there before, `from` shared memory if given.
    `barriers`, `index`: the program's own barrier, where the product arrives when it is complete; without an index a
    `barrier_commit` behind it does."""

    needs = "T.tcgen05_gemm", "tcgen05"
    in_flight = True

    a: Value = operand()
    a_indices: tuple[Value, ...] = operands()
    b: Value = operand()
    b_indices: tuple[Value, ...] = operands()
    d: Value = operand()
    accumulate: Value = operand()
    phase: Value | None = maybe()
    a_slot: Value | None = maybe()
    b_slot: Value | None = maybe()
    d_slot: Value | None = maybe()
    barriers: Value | None = maybe()
    index: Value | None = maybe()
    a_scale: Value | None = maybe()
    b_scale: Value | None = maybe()
    a_scale_from: Value | None = maybe()
    a_scale_slot: Value | None = maybe()
    b_scale_from: Value | None = maybe()
    b_scale_slot: Value | None = maybe()
    transpose_a: bool = attr(False)
    transpose_b: bool = attr(False)
    a_dims: Dims = attr((0, 1))
    b_dims: Dims = attr((0, 1))
    k: int = attr()
    reused: bool = attr(False)
    groups: int = attr(1)
    pair: bool = attr(False)
    a_format: str = attr("")
    b_format: str = attr("")

    def relations(self) -> list[Relation]:
        return []

    def verify(self) -> None:
        require(self.accumulate.dtype is bool_, "accumulate is no bool")

    @property
    def accumulator(self) -> Value:
        return self.d

    def copied(self) -> dict[Value, Value]:
        """The scales that are copied to tensor memory in front of it, and from where."""
        pairs = (self.a_scale, self.a_scale_from), (self.b_scale, self.b_scale_from)
        return {scale: source for scale, source in pairs if scale is not None and source is not None}

    def shared(self) -> tuple[Value, ...]:
        """The operands that may lie in shared memory: factors, and what scales are copied from."""
        return (self.a, self.b, *self.copied().values())

    @property
    def depth(self) -> int:
        return self.k

    def accesses(self) -> tuple[Access, ...]:
        reads: tuple[tuple[Value, Value | None], ...] = ((self.a, self.a_slot), (self.b, self.b_slot))
        ring = self.barriers
        scales = (
            (self.a_scale, self.a_scale_from, self.a_scale_slot),
            (self.b_scale, self.b_scale_from, self.b_scale_slot),
        )
        for scale, source, slot in scales:
            reads += () if scale is None else ((scale, None),)
            reads += () if source is None else ((source, slot),)
        return (
            *(
                Access("read", viewed(mem), slot, proxy=_proxy(mem), threads="one", pipeline=ring)
                for mem, slot in reads
            ),
            Access("write", viewed(self.d), self.d_slot, threads="one", pipeline=ring),
        )


class TensorLoad(Op, name="tensor_load", stage="tile", uniform=True):
    """The tile in a buffer of tensor memory, or `count` columns of it from `column` on; where `written`, a bool, is
    false, no product has written it: zeros."""

    d: Value = operand()
    written: Value = operand()
    d_slot: Value | None = maybe()
    column: int = attr(0)
    count: int | None = attr(None)

    def infer(self) -> tuple[Type, ...]:
        rows, columns = self.d.shape
        return (TileType((rows, self.count or columns), self.d.dtype),)

    def fixed_tiles(self) -> tuple[Value, ...]:
        return (self.result,)

    def relations(self) -> list[Relation]:
        return []

    def accesses(self) -> tuple[Access, ...]:
        return (Access("read", viewed(self.d), self.d_slot),)


class TensorStore(Op, name="tensor_store", stage="tile", uniform=True):
    """A tile into a buffer of tensor memory, from `column` on: what products add to, or their a. `tf32`: f32 is rounded
    to tf32. `scales`: it is scales of blocks, which each warp stores in its lanes."""

    value: Value = operand()
    d: Value = operand()
    tf32: bool = attr(False)
    column: int = attr(0)
    scales: bool = attr(False)

    def verify(self) -> None:
        (rows, columns), (m, n) = self.value.shape, self.d.shape
        same = rows == m and self.column + columns <= n and self.value.dtype is self.d.dtype
        require(same, f"{self.value.type} does not go into {self.d.type} from column {self.column} on")

    def fixed_tiles(self) -> tuple[Value, ...]:
        return (self.value,)

    def relations(self) -> list[Relation]:
        return []

    def accesses(self) -> tuple[Access, ...]:
        return (Access("write", viewed(self.d)),)


class TensorFree(Op, name="tensor_free", stage="tile", orders=True):
    """The kernel's tensor memory is given back; `buffers` are all that lie there."""

    memory: Value = operand()
    buffers: tuple[Value, ...] = operands()
    columns: int = attr()
    pair: bool = attr(False)

    def accesses(self) -> tuple[Access, ...]:
        return tuple(Access("write", mem) for mem in self.buffers)


class IssuerSpecialized(WarpSpecialized, name="issuer_specialized"):
    """Three roles: of the producer's threads a second warp issues the products (`issuer`); of a `pair` of blocks, that
    of the even one."""

    issuer: Block = region()
    pair: bool = attr(False)

    @property
    def programs(self) -> dict[str, Block]:
        return {**super().programs, "issuer": self.issuer}


class PairPipeline(MbarrierPipeline, name="pair_pipeline", stage="tile", orders=True):
    """A pipeline whose slots are those of both blocks of a pair, the payload's halves in each: full in the even block,
    and released there by both."""

    def by_others(self) -> bool:
        return True


class PairCopy(TmaCopy, name="pair_copy", stage="tile"):
    """A copy to a slot of a pair: it lands on the barrier of the even block. `half`: the blocks' buffers are halves of
    the region, along this dimension."""

    half: int | None = attr(None)


class PairLoad(TmaLoad, name="pair_load", stage="thread"):
    """A load whose barrier is that of the even CTA of a pair, at the same place."""


class ProductsAcquire(ProducerAcquire, name="products_acquire", stage="tile"):
    """Wait until the accumulators of a slot have been loaded: products behind it may write them."""


class ProductsCommit(SlotOp, name="products_commit", stage="tile"):
    """The slot's accumulators are full when all products in flight are complete."""

    wants, fills = "free", True


class BarrierCommit(BarrierOp, name="barrier_commit", stage="tile"):
    """An arrival at a barrier of the program when all products in flight of this role's first thread are complete; of a
    `pair`, of the even block's, at the barriers of both."""

    pair: bool = attr(False)

    needs = "T.tcgen05_mma_arrive", "tcgen05"

    def syncs(self) -> tuple[Sync, ...]:
        return (Sync("release", self.barriers),)


class ProductsRelease(ConsumerRelease, name="products_release", stage="tile"):
    """The slot is released when all products in flight, which read it, are complete."""


class TensorMemoryAlloc(Op, name="tensor_memory_alloc", stage="thread", orders=True):
    """By one warp: `columns` of tensor memory, whose address goes to shared memory; others may allocate then."""

    address: Value = operand()
    mem: Value = operand()
    columns: int = attr()
    pair: bool = attr(False)

    def accesses(self) -> tuple[Access, ...]:
        return (Access("write", self.mem, threads="one"),)

    def reconverges(self) -> bool:
        return True


class TensorMemoryAddress(Op, name="tensor_memory_address", stage="thread"):
    """The address that an allocation has left in shared memory, the same in all threads."""

    address: Value = operand()
    mem: Value = operand()

    def infer(self) -> tuple[Type, ...]:
        return (I32,)

    def agrees(self) -> bool:
        return True

    def accesses(self) -> tuple[Access, ...]:
        return (Access("read", self.mem),)


class TensorProducts(Op, name="tensor_products", stage="thread", orders=True):
    """By one thread, or one of each warpgroup for itself (`by`: "one", "group"): for each part of d and step of K
    d += a · b, the first step of K only where `accumulate`. In flight until a commit to a barrier of `ring` arrives. a
    and b are shared-memory descriptors (i64); step k of a part reads a + a_offsets[part * steps + k] and
    b + b_offsets[part * steps + k], in units of 16 bytes, and adds to d + d_offsets[part]. Or a is an address in tensor
    memory (i32), the offsets columns. Step k has its own instruction descriptor; with scales, those of a lie at a_scale
    + a_scale_offsets[part * steps + k], of b at b_scale + b_scale_offsets[k]. `reused`: accesses of d by other threads
    before are in order by a synchronisation. `free`: a pipeline says that d is free."""

    a: Value = operand()
    b: Value = operand()
    d: Value = operand()
    accumulate: Value = operand()
    ring: Value = operand()
    mem: Value = operand()
    reads: tuple[Value, ...] = operands()
    slots: tuple[Value, ...] = operands()
    slot: Value | None = maybe()
    a_scale: Value | None = maybe()
    b_scale: Value | None = maybe()
    kind: str = attr()
    instructions: tuple[int, ...] = attr()
    d_offsets: tuple[int, ...] = attr()
    a_offsets: tuple[int, ...] = attr()
    b_offsets: tuple[int, ...] = attr()
    reused: bool = attr(False)
    free: bool = attr(False)
    a_in_tensor: bool = attr(False)
    by: str = attr("one")
    pair: bool = attr(False)
    a_scale_offsets: tuple[int, ...] = attr(())
    b_scale_offsets: tuple[int, ...] = attr(())

    def accesses(self) -> tuple[Access, ...]:
        slots, ring = (*self.slots, *(None,) * (len(self.reads) - len(self.slots))), self.ring
        ctas = "cluster" if self.pair else "own"
        reads = [
            Access("read", m, s, proxy=_proxy(m), pipeline=ring, threads=self.by, ctas=ctas)
            for m, s in zip(self.reads, slots, strict=True)
        ]
        return (*reads, Access("write", self.mem, self.slot, pipeline=ring, threads=self.by, free=self.free))


class TensorRegisters(Op, name="tensor_registers", stage="thread"):
    """Columns of the thread's lane: at each of `columns`, offsets from the address, as many words of 32 bits as its
    `counts` says, and so several elements of each where these are narrower; complete, all by one wait. `span`: as of
    tensor_write."""

    address: Value = operand()
    mem: Value = operand()
    slot: Value | None = maybe()
    dtype: DType = attr()
    columns: tuple[int, ...] = attr()
    counts: tuple[int, ...] = attr()
    span: tuple[int, int] | None = attr(None)

    def infer(self) -> tuple[Type, ...]:
        return (RegsType(sum(self.counts) * 32 // self.dtype.bits, self.dtype),)

    def accesses(self) -> tuple[Access, ...]:
        return (Access("read", self.mem, self.slot, box=(), whole=OWN_LANES),)

    def reconverges(self) -> bool:
        return True


class TensorWrite(Op, name="tensor_write", stage="thread"):
    """Registers to the thread's lane: at each of `columns`, offsets from the address, as many words as its `counts`
    says. `span`: the first column of the buffer that a thread touches, and one behind the last; None: any."""

    address: Value = operand()
    mem: Value = operand()
    value: Value = operand()
    columns: tuple[int, ...] = attr()
    counts: tuple[int, ...] = attr()
    span: tuple[int, int] | None = attr(None)

    def accesses(self) -> tuple[Access, ...]:
        return (Access("write", self.mem, box=(), whole=OWN_LANES),)

    def reconverges(self) -> bool:
        return True


class TensorMemoryFree(Op, name="tensor_memory_free", stage="thread", orders=True):
    """By one warp: gives an allocation back."""

    memory: Value = operand()
    buffers: tuple[Value, ...] = operands()
    columns: int = attr()
    pair: bool = attr(False)

    def accesses(self) -> tuple[Access, ...]:
        return tuple(Access("write", mem, threads="one") for mem in self.buffers)

    def reconverges(self) -> bool:
        return True


class TensorCopies(Op, name="tensor_copies", stage="thread", orders=True):
    """By one thread: 32 rows of 16 bytes of shared memory to four columns of each 32 lanes (32x128b.warpx4), for each
    of `offsets`, from the descriptor in units of 16 bytes, and of `columns`, from the address. In flight until a commit
    to a barrier of `ring` arrives; in order before the thread's products behind it. `pair`: in both blocks of a pair,
    each from its own."""

    address: Value = operand()
    descriptor: Value = operand()
    ring: Value = operand()
    mem: Value = operand()
    source: Value = operand()
    slot: Value | None = maybe()
    offsets: tuple[int, ...] = attr()
    columns: tuple[int, ...] = attr()
    pair: bool = attr(False)

    def accesses(self) -> tuple[Access, ...]:
        return (
            Access("read", self.source, self.slot, proxy="async", pipeline=self.ring, threads="one"),
            Access("write", self.mem, pipeline=self.ring, threads="one"),
        )


class _TensorMemoryOp(Op):
    """Touches tensor memory alone."""

    def accesses(self) -> tuple[Access, ...]:
        return ()


class Tcgen05Wait(_TensorMemoryOp, name="tcgen05_wait", stage="thread", orders=True):
    """Until this thread's loads ("ld") or stores ("st") are complete."""

    kind: str = attr()

    def verify(self) -> None:
        require_one_of(self.kind, ("ld", "st"), "wait")


class Tcgen05Fence(_TensorMemoryOp, name="tcgen05_fence", stage="thread", orders=True):
    """Orders accesses of tensor memory "before" or "after" a synchronisation of threads."""

    side: str = attr()

    def verify(self) -> None:
        require_one_of(self.side, ("before", "after"), "side")


class Tcgen05Commit(Arrival, name="tcgen05_commit", stage="thread"):
    """The barrier's phase gets an arrival when all that the thread has issued is complete; of a `pair`, those of both
    blocks at that place."""

    pair: bool = attr(False)
