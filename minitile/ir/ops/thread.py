"""Thread operations: one op is one instruction, or the same instruction for several registers.

Addresses are i64 (global, generic) or i32 (shared). An operation that makes several accesses has few address values and
constant byte offsets: access n goes to  address[address_of[n]] + offsets[n]  and is guarded by
predicate[predicate_of[n]].
`address` and `predicate` are scalars or registers of as many. `mem`, `slot` and `span` say what memory that is, for the
passes that synchronise: `span` is the byte range of one version that the CTA's threads may touch together.
"""

from __future__ import annotations

from minitile.ir.core import Op, Value, attr, maybe, operand, operands
from minitile.ir.effects import Access
from minitile.ir.types import I32, I64, TOKEN, DType, RegsType, ScalarType, Type, dtype_of

Span = tuple[int, int] | None


def regs(count: int, dtype: DType) -> Type:
    return ScalarType(dtype) if count == 1 else RegsType(count, dtype)


def _place(op: LoadMem | StoreMem | AtomicMem, element: DType) -> object:
    return op.address, op.address_of, op.offsets, op.width * element.bits


def count_of(t: Type) -> int:
    return t.count if isinstance(t, RegsType) else 1


class Special(Op, name="special", stage="thread", pure=True):
    """A special register: tid.x, ctaid.x, ctaid.y, ctaid.z, laneid, …"""

    register: str = attr()

    def infer(self) -> tuple[Type, ...]:
        return (I32,)

    def varies(self) -> bool:
        return self.register.startswith(("tid", "laneid", "warpid"))


class GlobalAddress(Op, name="global_address", stage="thread", pure=True):
    """The address of a tensor's first element."""

    tensor: Value = operand()

    def infer(self) -> tuple[Type, ...]:
        return (I64,)


class BufferAddress(Op, name="buffer_address", stage="thread", pure=True):
    """The address of a buffer's version 0: shared (i32) or local (i64)."""

    buffer: Value = operand()

    def infer(self) -> tuple[Type, ...]:
        return (I32,) if self.buffer.type.space == "shared" else (I64,)  # type: ignore[attr-defined]


class Pick(Op, name="pick", stage="thread", pure=True):
    """Registers of `a` by number: result[n] = a[indices[n]]."""

    a: Value = operand()
    indices: tuple[int, ...] = attr()

    def infer(self) -> tuple[Type, ...]:
        return (regs(len(self.indices), dtype_of(self.a.type)),)


class Concat(Op, name="concat", stage="thread", pure=True):
    """The registers of all operands in order."""

    values: tuple[Value, ...] = operands()

    def infer(self) -> tuple[Type, ...]:
        return (regs(sum(count_of(v.type) for v in self.values), dtype_of(self.values[0].type)),)


class Offsets(Op, name="offsets", stage="thread", pure=True):
    """A constant per register: result[n] = a + constants[n], for a scalar integer a."""

    a: Value = operand()
    constants: tuple[int, ...] = attr()

    def infer(self) -> tuple[Type, ...]:
        return (regs(len(self.constants), dtype_of(self.a.type)),)


class LoadMem(Op, name="load_mem", stage="thread"):
    """`count` elements of `dtype` in count/width loads of `width` elements. Where the predicate is false: 0.

    space: "global", "shared", "local"; cache: "" or PTX's operator such as "nc"."""

    address: Value = operand()
    predicate: Value | None = maybe()
    mem: Value = operand()
    slot: Value | None = maybe()
    space: str = attr()
    dtype: DType = attr()
    count: int = attr()
    width: int = attr(1)
    address_of: tuple[int, ...] = attr()
    offsets: tuple[int, ...] = attr()
    predicate_of: tuple[int, ...] = attr(())
    span: Span = attr(None)
    cache: str = attr("")

    def infer(self) -> tuple[Type, ...]:
        return (regs(self.count, self.dtype),)

    def accesses(self) -> tuple[Access, ...]:
        return (Access("read", self.mem, self.slot, self.span, place=_place(self, self.dtype)),)


class StoreMem(Op, name="store_mem", stage="thread"):
    address: Value = operand()
    predicate: Value | None = maybe()
    value: Value = operand()
    mem: Value = operand()
    slot: Value | None = maybe()
    space: str = attr()
    width: int = attr(1)
    address_of: tuple[int, ...] = attr()
    offsets: tuple[int, ...] = attr()
    predicate_of: tuple[int, ...] = attr(())
    span: Span = attr(None)

    def accesses(self) -> tuple[Access, ...]:
        return (Access("write", self.mem, self.slot, self.span, place=_place(self, self.value.dtype)),)


class AtomicMem(Op, name="atomic_mem", stage="thread"):
    """Atomics at GPU scope, relaxed; red instead of atom when the result is unused. kind: add, min, max, …"""

    address: Value = operand()
    predicate: Value | None = maybe()
    value: Value = operand()
    mem: Value = operand()
    space: str = attr()
    kind: str = attr()
    width: int = attr(1)
    address_of: tuple[int, ...] = attr()
    offsets: tuple[int, ...] = attr()
    predicate_of: tuple[int, ...] = attr(())
    returns: bool = attr(True)

    def infer(self) -> tuple[Type, ...]:
        return (self.value.type,) if self.returns else ()

    def accesses(self) -> tuple[Access, ...]:
        return (Access("atomic", self.mem, place=_place(self, self.value.dtype)),)


class CpAsync(Op, name="cp_async", stage="thread"):
    """Copies of `bytes` (4, 8 or 16) from global to shared memory; where the predicate is false, zeros are written,
    where `enable` is false, nothing."""

    dst: Value = operand()
    src: Value = operand()
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

    def infer(self) -> tuple[Type, ...]:
        return (TOKEN,)

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

    def accesses(self) -> tuple[Access, ...]:
        return (Access("read", self.mem, self.slot, self.span),)


class MmaSync(Op, name="mma_sync", stage="thread", pure=True):
    """m·n·k warp-level mma instructions. Registers are in the atom's order; c's atoms run along n, then m; a's along k,
    then m; b's along k, then n. `repeats` is (m, n, k)."""

    a: Value = operand()
    b: Value = operand()
    c: Value = operand()
    atom: str = attr()
    repeats: tuple[int, int, int] = attr()

    def infer(self) -> tuple[Type, ...]:
        return (self.c.type,)


class RoundTf32(Op, name="round_tf32", stage="thread", pure=True):
    """f32 rounded to the nearest tf32, ties away from zero, as the tensor cores take it."""

    a: Value = operand()

    def infer(self) -> tuple[Type, ...]:
        return (self.a.type,)


class ShuffleXor(Op, name="shuffle_xor", stage="thread", pure=True):
    """Each register from the lane whose number differs by the bits of `mask`. All lanes take part."""

    a: Value = operand()
    mask: int = attr()

    def infer(self) -> tuple[Type, ...]:
        return (self.a.type,)


class Shuffle(Op, name="shuffle", stage="thread", pure=True):
    """Each register from the lane given by `lane` (i32)."""

    a: Value = operand()
    lane: Value = operand()

    def infer(self) -> tuple[Type, ...]:
        return (self.a.type,)


class Barrier(Op, name="barrier", stage="thread", uniform=True):
    """bar.sync id, threads. `threads` None: all of the CTA."""

    id: int = attr(0)
    threads: int | None = attr(None)

    def accesses(self) -> tuple[Access, ...]:
        return ()


class Printf(Op, name="printf", stage="thread"):
    values: tuple[Value, ...] = operands()
    text: str = attr()

    def accesses(self) -> tuple[Access, ...]:
        return ()


class Trap(Op, name="trap", stage="thread"):
    def accesses(self) -> tuple[Access, ...]:
        return ()


__all__ = [name for name in dir() if not name.startswith("_") and name not in ("Any", "annotations", "with_dtype")]
