"""int4 and uint4: tensors and buffers of bytes that hold two elements each along the last dimension, the first one in
the low half.

    q = T.alloc_shared((64, 128), T.int4)     64×64 bytes
    T.copy(Q[by * 64, k * 128], q)            bytes, as they are
    T.copy(q, x)                              x of 64×128 float16: unpacked in registers
    q[i, j]                                   an int8

There is no such dtype in the IR: accesses become those of bytes here. Elements are not written one by one, since two
threads may have one byte. In registers (fragments, local arrays) an element has a byte of its own, and is an int8.
"""

from __future__ import annotations

from typing import Any

from minitile.ir.builder import constant_of
from minitile.ir.core import Value
from minitile.ir.diagnostics import LanguageError, TypeMismatchError
from minitile.ir.ops import arith, tile
from minitile.ir.ops.views import Interleave
from minitile.ir.types import NIBBLES, DType, i8, i32, u8
from minitile.language.math import dtype_of_name
from minitile.language.memory import Memory, Region, between
from minitile.language.scalars import Expr, Scalar, check_store_cast, constant_int, is_scalar
from minitile.language.tracing.context import Trace, active, current

EVEN = "two elements share a byte: write it as a multiple of 2, such as 2 * i or k * 64"


def nibble_of(dtype: Any) -> DType | None:
    """int4 or uint4, by itself or by its name; None for another dtype."""
    name = getattr(dtype, "ours", dtype)
    if isinstance(name, DType):
        return NIBBLES.get(name.name)
    return {"int4": NIBBLES["i4"], "uint4": NIBBLES["u4"]}.get(str(name)) if isinstance(name, str) else None


def stored(dtype: Any) -> DType:
    """The dtype of the bytes: int8 for int4, uint8 for uint4; any other dtype itself."""
    nibble = nibble_of(dtype)
    return dtype_of_name(dtype) if nibble is None else i8 if nibble.kind == "int" else u8


def stored_shape(shape: tuple[Any, ...], what: str) -> tuple[Any, ...]:
    """The shape in bytes. Raises LanguageError where the last size is odd, or known at run time only."""
    *outer, last = shape or (None,)
    if not isinstance(last, int) or last % 2:
        raise current_error(f"the last dimension of {what} is {last!r}", "two elements share a byte: an even number")
    return (*outer, last // 2)


def current_error(message: str, hint: str) -> Exception:
    """An error at the line that is traced, or without one."""
    trace = active()
    return LanguageError(message, None if trace is None else trace.loc, hint)


class PackedMemory(Memory):
    """A tensor or a buffer of int4 or uint4: `value` is its bytes; shape and indices are those of elements."""

    def __init__(self, value: Value, trace: Trace, packed: DType) -> None:
        super().__init__(value, trace)
        self.packed = packed
        self.shape = (*self.shape[:-1], 2 * constant_int(self.shape[-1], "the last dimension of packed elements"))

    @property
    def dtype(self) -> DType:
        assert self.packed is not None
        return self.packed

    @property
    def static_shape(self) -> tuple[int | str, ...]:
        *outer, last = super().static_shape
        assert isinstance(last, int)
        return (*outer, 2 * last)

    def place(self, index: Any) -> tuple[tuple[Value, ...], Value]:
        """Where the byte of an element is, and which half it is (0 or 1)."""
        b = current().b
        *outer, last = self.indices(index)
        return (*outer, b.floordiv(last, 2)), b.cast(b.floormod(last, 2), i32)

    def load(self, index: Any) -> Scalar:
        """The element, as an int8 or uint8."""
        b = current().b
        at, half = self.place(index)
        byte = b.emit(tile.Load(self.value, at, shape=(), dims=(None,) * self.ndim)).result
        wide, low = b.cast(byte, i32), b.mul(half, 4)
        if self.dtype.kind == "uint":
            found = b.and_(b.value(arith.Shr(wide, low)), b.constant(15))
        else:
            found = b.value(arith.Shr(b.value(arith.Shl(wide, b.sub(b.constant(28), low))), b.constant(28)))
        return Expr(b.cast(found, stored(self.dtype)))

    def store(self, index: Any, value: Any) -> None:
        raise current().error(
            f"a store of one element of {self.describe()}, which is half a byte",
            "T.copy a fragment or a shared buffer of int8 to it, or store bytes to a tensor of uint8",
        )


# Copies ---------------------------------------------------------------------------------------------------------------


def copy_packed(a: Region, b: Region, shape: tuple[int, ...], what: str, evict: str = "") -> None:
    """A copy of which one side, or both, holds packed elements."""
    trace = current()
    for region in (a, b):
        if region.memory.packed is not None:
            _check_whole_bytes(region, shape, what)
    if a.memory.packed is not None and b.memory.packed is not None:
        if a.memory.packed is not b.memory.packed:
            raise TypeMismatchError(
                f"{what} from {a.memory.describe()} to {b.memory.describe()}", trace.loc, "through a fragment of int8"
            )
        sides = (in_bytes(a, what), in_bytes(b, what))
        trace.b.emit(tile.Copy(**between(*sides, (*shape[:-1], shape[-1] // 2)), evict=evict))
        return
    other = b if a.memory.packed is not None else a
    here, there = (i8, other.memory.dtype) if other is b else (other.memory.dtype, i8)
    check_store_cast(here, there, f"{what} from {a.memory.describe()} to {b.memory.describe()}")
    if other is b:
        _unpack(in_bytes(a, what), other, shape, evict)
    else:
        _pack(other, in_bytes(b, what), shape, evict)


def _load(region: Region, shape: tuple[int, ...], evict: str) -> Value:
    mem = region.memory
    hint = evict if mem.space == "global" else ""
    load = tile.Load(mem.value, region.offsets, shape=shape, dims=region.dims(len(shape)), evict=hint)
    return current().b.emit(load).result


def _store(value: Value, region: Region, shape: tuple[int, ...], evict: str) -> None:
    mem = region.memory
    hint = evict if mem.space == "global" else ""
    current().b.emit(tile.Store(mem.value, region.offsets, value, dims=region.dims(len(shape)), evict=hint))


def _unpack(packed: Region, to: Region, shape: tuple[int, ...], evict: str) -> None:
    b = current().b
    wide = b.cast(_load(packed, (*shape[:-1], shape[-1] // 2), evict), i32)
    if packed.memory.dtype.kind == "uint":
        low, high = b.and_(wide, b.constant(15)), b.value(arith.Shr(wide, b.constant(4)))
    else:
        low = b.value(arith.Shr(b.value(arith.Shl(wide, b.constant(28))), b.constant(28)))
        high = b.value(arith.Shr(wide, b.constant(4)))
    parts = tuple(b.cast(half, to.memory.dtype) for half in (low, high))
    _store(b.value(Interleave(parts, len(shape) - 1)), to, shape, evict)


def _pack(source: Region, packed: Region, shape: tuple[int, ...], evict: str) -> None:
    b, last = current().b, len(shape) - 1
    whole = _load(source, shape, evict)
    low, high = (
        b.and_(b.cast(b.value(tile.InterleavedSlice(whole, last, 1, 2, n)), i32), b.constant(15)) for n in range(2)
    )
    both = b.value(arith.Or(low, b.value(arith.Shl(high, b.constant(4)))))
    _store(b.cast(both, stored(packed.memory.dtype)), packed, (*shape[:-1], shape[-1] // 2), evict)


def _check_whole_bytes(region: Region, shape: tuple[int, ...], what: str) -> None:
    if not shape or region.dims(len(shape))[-1] != len(shape) - 1:
        raise current().error(f"{what}: {region.describe()}, of single halves of bytes", "take neighbours, in pairs")
    if shape[-1] % 2:
        raise current().error(f"{what}: {shape[-1]} elements of {region.memory.describe()}", EVEN)


def in_bytes(region: Region, what: str) -> Region:
    """The same region in the bytes' own coordinates."""
    *outer, last = region.offsets
    half = halved(last)
    if half is None:
        raise current().error(f"{what}: {region.describe()} that may begin inside a byte", EVEN)
    *sizes, extent = region.extents
    return Region(region.memory, (*outer, half), (*sizes, None if extent is None else extent // 2), region.start)


def halved(v: Value) -> Value | None:
    """Half of an integer that is even by its form; None where that is not seen."""
    b, number, op = current().b, constant_of(v), v.op
    if number is not None:
        return None if number % 2 else b.constant(number // 2, v.dtype)
    if isinstance(op, (arith.Add, arith.Sub)):
        x, y = halved(op.a), halved(op.b)
        return None if x is None or y is None else b.value(type(op)(x, y))
    if isinstance(op, arith.Mul):
        for x, y in ((op.a, op.b), (op.b, op.a)):
            half = halved(x)
            if half is not None:
                return b.mul(half, y)
    if isinstance(op, arith.Cast) and op.a.dtype.is_int and op.to.bits >= op.a.dtype.bits:
        half = halved(op.a)
        return None if half is None else b.cast(half, op.to)
    return None


def fill_packed(region: Region, value: Any, what: str) -> None:
    """Every element becomes the same number, known at compile time."""
    trace = current()
    if region.start:
        raise trace.error(f"{what} of one element of {region.memory.describe()}", EVEN)
    shape = region.static(what)
    number = constant_int(value, f"the value of {what} of {region.memory.describe()}") if is_scalar(value) else None
    least, most = (-8, 7) if region.memory.dtype.kind == "int" else (0, 15)
    if number is None or not least <= number <= most:
        raise TypeMismatchError(f"{what} of {region.memory.describe()} with {value!r}", trace.loc, f"{least} … {most}")
    _check_whole_bytes(region, shape, what)
    bytes_ = in_bytes(region, what)
    both = (number & 15) * 17
    byte = trace.b.constant(both - 256 if both > 127 and least < 0 else both, stored(region.memory.dtype))
    small = (*shape[:-1], shape[-1] // 2)
    trace.b.emit(tile.Fill(bytes_.memory.value, bytes_.offsets, byte, shape=small, dims=bytes_.dims(len(small))))
