"""Thread operations: one op is one instruction, or the same instruction for several registers.

Addresses are i64 (global, generic) or i32 (shared). An operation that makes several accesses has few address values and
constant byte offsets: access n goes to  address[address_of[n]] + offsets[n]  and is guarded by
predicate[predicate_of[n]].
`address` and `predicate` are scalars or registers of as many. `mem`, `slot` and `span` say what memory that is, for the
passes that synchronise: `span` is the byte range of one version that the CTA's threads may touch together. Of a tensor
that is `extent[d]` indices of dimension d, from `start[d]` on; without a start, all of it. Once barriers and fences
are in place `drop_access_ranges` drops it.
"""

from __future__ import annotations

from copy import copy

from minitile.ir.core import Op, Value, attr, maybe, maybe_operands, operand, operands
from minitile.ir.effects import Access, Box, Place, Sync, box_at
from minitile.ir.ops.checks import ATOMICS, require, require_one_of, require_range, require_scalar
from minitile.ir.types import (
    I32,
    I64,
    TOKEN,
    BufferType,
    DType,
    RegsType,
    ScalarType,
    TensorType,
    Type,
    bool_,
    dtype_of,
    i32,
    i64,
    u32,
)

Span = tuple[int, int] | None


def regs(count: int, dtype: DType) -> Type:
    return ScalarType(dtype) if count == 1 else RegsType(count, dtype)


def _place(op: LoadMem | StoreMem | AtomicMem, element: DType) -> Place:
    return Place(op.address, op.address_of, op.offsets, op.width * element.bits)


def _box(op: LoadMem | StoreMem | AtomicMem) -> Box | None:
    return box_at(op.start, op.extent)


def _require_range(op: LoadMem | StoreMem | AtomicMem) -> None:
    require_range(op.start, op.extent, len(op.mem.shape))
    require(not op.start or op.space in ("global", "shared"), "only tensors and shared buffers have access ranges")


def count_of(t: Type) -> int:
    return t.count if isinstance(t, RegsType) else 1


def in_registers(value: Value) -> bool:
    """Tokens and the like are not."""
    return isinstance(value.type, (ScalarType, RegsType))


def _require_registers(value: Value, indices: tuple[int, ...]) -> None:
    """The indices are of registers that the value has."""
    count = count_of(value.type)
    require(all(0 <= i < count for i in indices), f"{value.type} has registers 0..{count - 1}, asked for {indices}")


def _require_accesses(
    elements: int, width: int, address: Value, address_of: tuple[int, ...], offsets: tuple[int, ...]
) -> None:
    """Every access, of `width` elements, has an address and an offset."""
    require(address.dtype in (i32, i64), f"the address is {address.type}, not i32 or i64")
    given = (len(address_of), len(offsets))
    require(given[0] == given[1], f"{given[0]} addresses and {given[1]} offsets")
    require(given[0] * width == elements, f"{given[0]} accesses of {width} elements do not make {elements}")
    _require_registers(address, address_of)


def _require_predicates(accesses: int, predicate: Value | None, predicate_of: tuple[int, ...]) -> None:
    if predicate is None:
        require(not predicate_of, f"predicates {predicate_of} of nothing")
        return
    require(predicate.dtype is bool_, f"the predicate is {predicate.type}, not bool")
    require(len(predicate_of) == accesses, f"{len(predicate_of)} predicates for {accesses} accesses")
    _require_registers(predicate, predicate_of)


class Special(Op, name="special", stage="thread", pure=True):
    """A special register: tid.x, ctaid.x, ctaid.y, ctaid.z, cluster_ctarank, laneid, … Only those of the grid, of the
    cluster and of the CTA's size are known to be the same in all threads."""

    register: str = attr()

    def infer(self) -> tuple[Type, ...]:
        return (I32,)

    def varies(self) -> bool:
        return not self.register.startswith(("ctaid", "nctaid", "ntid", "cluster_"))

    def counts_threads(self) -> int | None:
        return 1 if self.register == "tid.x" else None


class GlobalAddress(Op, name="global_address", stage="thread", pure=True):
    """The address of a tensor's first element."""

    tensor: Value = operand()

    def infer(self) -> tuple[Type, ...]:
        return (I64,)

    def verify(self) -> None:
        require(isinstance(self.tensor.type, TensorType), f"{self.tensor.type} is no tensor")


class BufferAddress(Op, name="buffer_address", stage="thread", pure=True):
    """The address of a buffer's version 0: shared (i32) or local (i64)."""

    buffer: Value = operand()

    def infer(self) -> tuple[Type, ...]:
        return (I32,) if self.buffer.type.space == "shared" else (I64,)  # type: ignore[attr-defined]

    def verify(self) -> None:
        require(isinstance(self.buffer.type, BufferType), f"{self.buffer.type} is no buffer")


class MapRank(Op, name="map_rank", stage="thread", pure=True):
    """Where the byte at a shared address lies in the block of this rank in the cluster, as an address of
    shared::cluster."""

    address: Value = operand()
    rank: Value = operand()

    def infer(self) -> tuple[Type, ...]:
        return (I32,)


class Pick(Op, name="pick", stage="thread", pure=True):
    """Registers of `a` by number: result[n] = a[indices[n]]. `same`: known to be the same in all threads, by what the
    program means or by how `a` was computed."""

    a: Value = operand()
    indices: tuple[int, ...] = attr()
    same: bool = attr(False)

    def infer(self) -> tuple[Type, ...]:
        return (regs(len(self.indices), dtype_of(self.a.type)),)

    def agrees(self) -> bool:
        return self.same

    def verify(self) -> None:
        _require_registers(self.a, self.indices)


class Concat(Op, name="concat", stage="thread", pure=True):
    """The registers of all operands in order."""

    values: tuple[Value, ...] = operands()

    def infer(self) -> tuple[Type, ...]:
        return (regs(sum(count_of(v.type) for v in self.values), dtype_of(self.values[0].type)),)

    def verify(self) -> None:
        require(len({v.dtype for v in self.values}) == 1, "the registers are of several dtypes")


class Offsets(Op, name="offsets", stage="thread", pure=True):
    """A constant per register: result[n] = a + constants[n], for a scalar integer a."""

    a: Value = operand()
    constants: tuple[int, ...] = attr()

    def infer(self) -> tuple[Type, ...]:
        return (regs(len(self.constants), dtype_of(self.a.type)),)

    def verify(self) -> None:
        require_scalar(self.a, "the base")
        require(self.a.dtype.is_int, f"the base is {self.a.type}, not an integer")


class LoadMem(Op, name="load_mem", stage="thread"):
    """`count` elements of `dtype` in count/width loads of `width` elements. Where the predicate is false: 0.

    space: "global", "shared", "local"; "shared::cluster": the shared memory of the block whose `map_rank` the address
    comes from."""

    address: Value = operand()
    predicate: Value | None = maybe()
    mem: Value = operand()
    start: tuple[Value, ...] = maybe_operands()
    slot: Value | None = maybe()
    space: str = attr()
    dtype: DType = attr()
    count: int = attr()
    width: int = attr(1)
    address_of: tuple[int, ...] = attr()
    offsets: tuple[int, ...] = attr()
    predicate_of: tuple[int, ...] = attr(())
    span: Span = attr(None)
    evict: str = attr("")
    extent: tuple[int, ...] = attr(())

    def infer(self) -> tuple[Type, ...]:
        return (regs(self.count, self.dtype),)

    def verify(self) -> None:
        _require_range(self)
        _require_accesses(self.count, self.width, self.address, self.address_of, self.offsets)
        _require_predicates(len(self.address_of), self.predicate, self.predicate_of)

    @property
    def grain(self) -> int:
        return self.width

    def part(self, start: int, stop: int) -> LoadMem:
        which, new = slice(start // self.width, stop // self.width), copy(self)
        new.count, new.address_of, new.offsets = stop - start, self.address_of[which], self.offsets[which]
        new.predicate_of = self.predicate_of[which]
        new.set_results(new.infer())
        return new

    def accesses(self) -> tuple[Access, ...]:
        place = _place(self, self.dtype)
        return (Access("read", self.mem, self.slot, self.span, ctas=_ctas(self), box=_box(self), place=place),)


class StoreMem(Op, name="store_mem", stage="thread"):
    stored = "value"

    address: Value = operand()
    predicate: Value | None = maybe()
    value: Value = operand()
    mem: Value = operand()
    start: tuple[Value, ...] = maybe_operands()
    slot: Value | None = maybe()
    space: str = attr()
    width: int = attr(1)
    address_of: tuple[int, ...] = attr()
    offsets: tuple[int, ...] = attr()
    predicate_of: tuple[int, ...] = attr(())
    span: Span = attr(None)
    evict: str = attr("")
    extent: tuple[int, ...] = attr(())
    whole: int | None = attr(None)

    def verify(self) -> None:
        _require_range(self)
        require(self.value.dtype is self.mem.dtype, f"the value is {self.value.type}, the memory {self.mem.type}")
        _require_accesses(count_of(self.value.type), self.width, self.address, self.address_of, self.offsets)
        _require_predicates(len(self.address_of), self.predicate, self.predicate_of)

    def accesses(self) -> tuple[Access, ...]:
        place = _place(self, self.value.dtype)
        return (
            Access(
                "write", self.mem, self.slot, self.span, ctas=_ctas(self), box=_box(self), place=place, whole=self.whole
            ),
        )


def _ctas(op: LoadMem | StoreMem) -> str:
    return "cluster" if op.space == "shared::cluster" else "own"


class AtomicMem(Op, name="atomic_mem", stage="thread"):
    """Atomics at GPU scope, relaxed; red instead of atom when the result is unused. kind: add, min, max, …; a load
    takes of its value the type alone."""

    stored = "value"

    address: Value = operand()
    predicate: Value | None = maybe()
    value: Value = operand()
    mem: Value = operand()
    start: tuple[Value, ...] = maybe_operands()
    space: str = attr()
    kind: str = attr()
    width: int = attr(1)
    address_of: tuple[int, ...] = attr()
    offsets: tuple[int, ...] = attr()
    predicate_of: tuple[int, ...] = attr(())
    extent: tuple[int, ...] = attr(())
    returns: bool = attr(True)

    def infer(self) -> tuple[Type, ...]:
        return (self.value.type,) if self.returns else ()

    def verify(self) -> None:
        _require_range(self)
        require_one_of(self.kind, ATOMICS, "atomic")
        _require_accesses(count_of(self.value.type), self.width, self.address, self.address_of, self.offsets)
        _require_predicates(len(self.address_of), self.predicate, self.predicate_of)

    def accesses(self) -> tuple[Access, ...]:
        return (Access("atomic", self.mem, box=_box(self), place=_place(self, self.value.dtype)),)

    def diverges(self) -> bool:
        """As a loop of compare-and-swap, which each thread leaves in a turn of its own: what some target lacks."""
        dtype = self.value.dtype
        if self.kind in ("load", "store") or (self.kind, dtype.name) == ("add", "f16"):
            return False
        return dtype.bits < 32 or (dtype.is_float and self.kind in ("min", "max"))


class CpAsync(Op, name="cp_async", stage="thread"):
    """Copies of `bytes` (4, 8 or 16) from global to shared memory; where the predicate is false, zeros are written,
    where `enable` is false, nothing.

    With `wave` (AMD's LDS-DMA), the lanes of a wave write one after the other from `dst` on, which is the same in all
    of them; `base` is what all sources have in common, the same in all threads; where `enable` is false, zeros are
    written; and it is instructions that are counted, not groups. `halves`: for each of them, which half (0 or 1) of the
    rows that a wave reads it fills, in all waves; () where that is not known."""

    dst: Value = operand()
    src: Value = operand()
    base: Value | None = maybe()
    predicate: Value | None = maybe()
    enable: Value | None = maybe()
    dst_mem: Value = operand()
    dst_slot: Value | None = maybe()
    src_mem: Value = operand()
    bytes: int = attr()
    dst_of: tuple[int, ...] = attr()
    dst_offsets: tuple[int, ...] = attr()
    src_of: tuple[int, ...] = attr()
    src_offsets: tuple[int, ...] = attr()
    predicate_of: tuple[int, ...] = attr(())
    enable_of: tuple[int, ...] = attr(())
    span: Span = attr(None)
    wave: bool = attr(False)
    evict: str = attr("")
    halves: tuple[int, ...] = attr(())

    def infer(self) -> tuple[Type, ...]:
        return (TOKEN,)

    def verify(self) -> None:
        require(self.bytes in (4, 8, 16), f"cp.async copies 4, 8 or 16 bytes, not {self.bytes}")
        copies = len(self.dst_of)
        _require_accesses(copies, 1, self.dst, self.dst_of, self.dst_offsets)
        _require_accesses(copies, 1, self.src, self.src_of, self.src_offsets)
        _require_predicates(copies, self.predicate, self.predicate_of)
        _require_predicates(copies, self.enable, self.enable_of)

    def accesses(self) -> tuple[Access, ...]:
        token = self.result
        return (
            Access("read", self.src_mem, token=token),
            Access("write", self.dst_mem, self.dst_slot, self.span, token=token),
        )


class LdMatrix(Op, name="ldmatrix", stage="thread"):
    """`words` 8×8 matrices of 16-bit elements, `number` (1, 2, 4) an instruction; each lands in one 32-bit word of the
    result, whose elements are of `dtype`. The lane's row address for instruction n is
    address[address_of[n]] + offsets[n]."""

    address: Value = operand()
    mem: Value = operand()
    slot: Value | None = maybe()
    dtype: DType = attr()
    words: int = attr()
    number: int = attr(4)
    transpose: bool = attr(False)
    address_of: tuple[int, ...] = attr()
    offsets: tuple[int, ...] = attr()
    span: Span = attr(None)

    def infer(self) -> tuple[Type, ...]:
        return (RegsType(self.words * 32 // self.dtype.bits, self.dtype),)

    def verify(self) -> None:
        require(self.number in (1, 2, 4), f"ldmatrix loads 1, 2 or 4 matrices, not {self.number}")
        _require_accesses(self.words, self.number, self.address, self.address_of, self.offsets)

    @property
    def grain(self) -> int:
        return self.number * 32 // self.dtype.bits

    def part(self, start: int, stop: int) -> LdMatrix:
        which, new = slice(start // self.grain, stop // self.grain), copy(self)
        new.words = (stop - start) * self.dtype.bits // 32
        new.address_of, new.offsets = self.address_of[which], self.offsets[which]
        new.set_results(new.infer())
        return new

    def accesses(self) -> tuple[Access, ...]:
        return (Access("read", self.mem, self.slot, self.span),)


class LoadTransposed(LdMatrix, name="load_transposed", stage="thread"):
    """As ldmatrix, by the transposing reads of LDS (layout/transposed.py): every lane's address is that of 8 bytes; of
    them, sixteen lanes get each other's, two words a lane (`number` is 2)."""

    transpose: bool = attr(True)

    def verify(self) -> None:
        super().verify()
        require(self.number == 2 and self.dtype.bits in (8, 16), "a transposing read gives two words of 8 or 16 bits")


class StMatrix(Op, name="stmatrix", stage="thread"):
    """ldmatrix's mirror: 8×8 matrices of 16-bit elements to shared memory, `number` (1, 2, 4) an instruction, for each
    one a 32-bit word of the value. The lane's row address for instruction n is address[address_of[n]] + offsets[n]."""

    stored = "value"

    address: Value = operand()
    value: Value = operand()
    mem: Value = operand()
    slot: Value | None = maybe()
    number: int = attr(4)
    transpose: bool = attr(False)
    address_of: tuple[int, ...] = attr()
    offsets: tuple[int, ...] = attr()
    span: Span = attr(None)

    @property
    def words(self) -> int:
        return count_of(self.value.type) * self.value.dtype.bits // 32

    def verify(self) -> None:
        require(self.number in (1, 2, 4), f"stmatrix stores 1, 2 or 4 matrices, not {self.number}")
        require(self.value.dtype is self.mem.dtype, f"the value is {self.value.type}, the memory {self.mem.type}")
        _require_accesses(self.words, self.number, self.address, self.address_of, self.offsets)

    def accesses(self) -> tuple[Access, ...]:
        return (Access("write", self.mem, self.slot, self.span),)

    def reconverges(self) -> bool:
        return True


class MmaSync(Op, name="mma_sync", stage="thread", pure=True):
    """m·n·k warp-level mma instructions. Registers are in the atom's order; c's atoms run along n, then m; a's along k,
    then m; b's along k, then n. `repeats` is (m, n, k). `origin`: the place of the first one in its gemm, counted in
    instructions along (m, n, k). a_scale and b_scale: a byte for each of a lane's fragments, in their order, where the
    atom scales blocks; `formats` says then what the elements of a and b are."""

    a: Value = operand()
    b: Value = operand()
    c: Value = operand()
    a_scale: Value | None = maybe()
    b_scale: Value | None = maybe()
    atom: str = attr()
    repeats: tuple[int, int, int] = attr()
    origin: tuple[int, int, int] = attr((0, 0, 0))
    formats: tuple[str, str] = attr(("", ""))

    def verify(self) -> None:
        m, n, k = self.repeats
        for scale, rows in ((self.a_scale, m), (self.b_scale, n)):
            if scale is not None:
                require(count_of(scale.type) == rows * k, f"{scale.type} scales {rows}x{k} fragments")
        require((self.a_scale is None) == (self.b_scale is None) == (not any(self.formats)), "scales without formats")

    def infer(self) -> tuple[Type, ...]:
        return (self.c.type,)


class RoundTf32(Op, name="round_tf32", stage="thread", pure=True, elementwise=True):
    """f32 rounded to the nearest tf32, ties away from zero, as the tensor cores take it."""

    a: Value = operand()

    def infer(self) -> tuple[Type, ...]:
        return (self.a.type,)


class Funnel(Op, name="funnel", stage="thread", pure=True):
    """Of each two runs of `width` registers, one of a and one of b behind it: the registers from number `by` on. `by`:
    from 0 to below the width, one for all runs or one for each. Registers are of 8 or 16 bits and fill words."""

    a: Value = operand()
    b: Value = operand()
    by: Value = operand()
    width: int = attr()

    def infer(self) -> tuple[Type, ...]:
        return (self.a.type,)

    def verify(self) -> None:
        count = count_of(self.a.type)
        require(self.a.type == self.b.type, f"{self.a.type} and {self.b.type}")
        require(self.a.dtype.bits in (8, 16) and self.width * self.a.dtype.bits % 32 == 0, f"runs of {self.width}")
        require(self.width & (self.width - 1) == 0 and count % self.width == 0, f"{count} registers by {self.width}")
        require(self.by.dtype is i32 and count_of(self.by.type) in (1, count // self.width), f"by {self.by.type}")


class ShuffleXor(Op, name="shuffle_xor", stage="thread", pure=True):
    """Each register from the lane whose number differs by the bits of `mask`. All lanes take part."""

    a: Value = operand()
    mask: int = attr()

    def infer(self) -> tuple[Type, ...]:
        return (self.a.type,)


WARP_REDUCTIONS = ("sum", "max", "min", "and", "or", "xor")


class WarpReduce(Op, name="warp_reduce", stage="thread", pure=True):
    """Each register, of 32-bit integers, combined over all lanes of the warp, which all take part and have the result
    (redux.sync)."""

    a: Value = operand()
    kind: str = attr()

    def infer(self) -> tuple[Type, ...]:
        return (self.a.type,)

    def verify(self) -> None:
        require(self.a.dtype in (i32, u32), f"a reduction by a warp of {self.a.type}")
        require(self.kind in WARP_REDUCTIONS, f"a reduction by a warp of kind {self.kind!r}")


class Barrier(Op, name="barrier", stage="thread", uniform=True, orders=True):
    """bar.sync id, threads. `threads` None: all of the CTA. `each`: every group of that many consecutive threads meets
    by itself, the first one at the barrier `id`, the next one at id + 1, …; warps without a number. `drains`: what has
    been done to global memory is over first, where a barrier does not see to that by itself (AMD)."""

    id: int = attr(0)
    threads: int | None = attr(None)
    each: bool = attr(False)
    drains: bool = attr(False)

    def accesses(self) -> tuple[Access, ...]:
        return ()

    def syncs(self) -> tuple[Sync, ...]:
        return (Sync("meet", self.id, count=self.threads),)

    def reconverges(self) -> bool:
        return True


class Printf(Op, name="printf", stage="thread"):
    values: tuple[Value, ...] = operands()
    text: str = attr()

    def accesses(self) -> tuple[Access, ...]:
        return ()


class Trap(Op, name="trap", stage="thread"):
    def accesses(self) -> tuple[Access, ...]:
        return ()
