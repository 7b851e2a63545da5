"""The types of the IR.

A value is one of

* a scalar (`f32`, `i32`, `bool`): one number per thread;
* a tile (`tile<128x64xf32>`): a whole tile in registers, spread over the threads by its layout (tile stage);
* registers (`regs<64xf32>`): one thread's share of a tile (thread stage);
* a tensor (`tensor<MxKxbf16>`): global memory handed in by the caller; a dimension is an int or the name of a run-time
  dimension. It is row-major without gaps, or has `strides` (`tensor<MxKxbf16, strides (lda, 1)>`): see TensorType;
* a buffer (`shared<128x64xbf16>`, `local<8xf32>`, `fragment<128x64xf32>`): memory that the kernel owns; `versions` is
  the number of copies that software pipelining made of it; fragments exist only until `mem2reg`;
* a token (`token`): an asynchronous operation's completion; a future (`future<tile<…>>`): a tile that is still being
  computed; a pipeline and its slots: the ring between warp roles. What needs the effect waits for it.

Types are frozen, hashable and print as they are written in IR text.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

if TYPE_CHECKING:
    from minitile.layout import Layout


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """An element type: `kind` is "float", "int", "uint" or "bool"; `bits` its size in memory. It equals its names
    ("float16"), which are no keys for it: their hashes differ."""

    name: str
    bits: int
    kind: str
    cast_hook: ClassVar[Callable[[DType, object], object] | None] = None

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"minitile.{self.name}"

    def __reduce__(self) -> tuple[Callable[[str], DType], tuple[str]]:
        return _same_dtype, (self.name,)  # dtypes are compared by identity: there is one object for each

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return _ALIASES.get(other, other) == self.name
        if not isinstance(other, DType):
            return NotImplemented
        return (self.name, self.bits, self.kind) == (other.name, other.bits, other.kind)

    def __hash__(self) -> int:
        return hash((self.name, self.bits, self.kind))

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_int(self) -> bool:
        """Integers proper: signed or unsigned, not bool."""
        return self.kind in ("int", "uint")

    @property
    def signed(self) -> bool:
        return self.kind in ("int", "float")

    @property
    def bytes(self) -> int:
        return (self.bits + 7) // 8

    @property
    def integers(self) -> range:
        """The numbers that an integer dtype holds. (Ask for plain ints: of others `in` tries all.)"""
        return range(-(1 << self.bits - 1), 1 << self.bits - 1) if self.kind == "int" else range(1 << self.bits)

    @property
    def largest(self) -> float:
        """The largest finite number of a float dtype."""
        return _LARGEST[self.name]

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """The NumPy dtype of the same bytes (ml_dtypes for bf16, fp8 and, one a byte, what is narrower)."""
        if self.name in _ML_NAMES:
            import ml_dtypes

            found: np.dtype[np.generic] = np.dtype(getattr(ml_dtypes, _ML_NAMES[self.name]))
            return found
        return np.dtype(_NUMPY_NAMES[self.name])

    def as_torch(self) -> object:
        """torch's dtype of the same bytes. Raises AttributeError where torch has none."""
        return getattr(importlib.import_module("torch"), str(self.numpy))

    def __call__(self, value: object) -> object:
        """`T.float32(x)`: the language's cast; bound when `minitile.language` is imported."""
        if DType.cast_hook is None:
            raise TypeError(f"{self.name}(...) has a meaning only inside a kernel")
        return DType.cast_hook(self, value)


@cache
def limits(dtype: DType) -> tuple[int, int]:
    """The least and the greatest number of an integer dtype."""
    return dtype.integers[0], dtype.integers[-1]


_LARGEST = {  # IEEE 754; bf16 has f32's exponent; fp8 as in OCP 8-bit Floating Point Specification, table 1
    "f64": (2 - 2.0**-52) * 2.0**1023,
    "f32": (2 - 2.0**-23) * 2.0**127,
    "f16": 65504.0,
    "bf16": (2 - 2.0**-7) * 2.0**127,
    "e4m3": 448.0,
    "e5m2": 57344.0,
    "e4m3fnuz": 240.0,
    "e5m2fnuz": 57344.0,
}
_ML_NAMES = {
    "bf16": "bfloat16",
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "e4m3fnuz": "float8_e4m3fnuz",
    "e5m2fnuz": "float8_e5m2fnuz",
    "e2m1": "float4_e2m1fn",
    "e2m3": "float6_e2m3fn",
    "e3m2": "float6_e3m2fn",
    "i4": "int4",
    "u4": "uint4",
}
_NUMPY_NAMES = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "bool": "bool",
}

f64, f32, f16, bf16 = (DType(n, b, "float") for n, b in (("f64", 64), ("f32", 32), ("f16", 16), ("bf16", 16)))
e4m3, e5m2 = DType("e4m3", 8, "float"), DType("e5m2", 8, "float")
# gfx942's fp8: no infinities, no negative zero (its bits are the NaN), the exponent's bias one more.
e4m3fnuz, e5m2fnuz = DType("e4m3fnuz", 8, "float"), DType("e5m2fnuz", 8, "float")
i8, i16, i32, i64 = (DType(f"i{b}", b, "int") for b in (8, 16, 32, 64))
u8, u16, u32, u64 = (DType(f"u{b}", b, "uint") for b in (8, 16, 32, 64))
bool_ = DType("bool", 8, "bool")
# Formats below a byte: no dtypes of memory or values, but of what a byte tensor holds packed, the first element lowest
# (OCP Microscaling Formats, 5.3).
e2m1, e2m3, e3m2 = DType("e2m1", 4, "float"), DType("e2m3", 6, "float"), DType("e3m2", 6, "float")
PACKED: dict[str, DType] = {d.name: d for d in (e2m1, e2m3, e3m2)}
# Of the language alone, whose tensors and buffers of them are bytes in the IR (language/storage/packed.py).
i4, u4 = DType("i4", 4, "int"), DType("u4", 4, "uint")
NIBBLES: dict[str, DType] = {d.name: d for d in (i4, u4)}

DTYPES: dict[str, DType] = {
    d.name: d
    for d in (f64, f32, f16, bf16, e4m3, e5m2, e4m3fnuz, e5m2fnuz, i8, i16, i32, i64, u8, u16, u32, u64, bool_)
}


def _same_dtype(name: str) -> DType:
    return PACKED.get(name) or NIBBLES.get(name) or DTYPES[name]


_ALIASES = {
    "float64": "f64",
    "float32": "f32",
    "float": "f32",
    "float16": "f16",
    "half": "f16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "e4m3",
    "float8_e4m3": "e4m3",
    "float8_e5m2": "e5m2",
    "float8_e4m3fnuz": "e4m3fnuz",
    "float8_e5m2fnuz": "e5m2fnuz",
    "int": "i32",
    "bool_": "bool",
    **{f"int{b}": f"i{b}" for b in (4, 8, 16, 32, 64)},
    **{f"uint{b}": f"u{b}" for b in (4, 8, 16, 32, 64)},
}


def dtype(name: str | DType) -> DType:
    """The DType of a name in any of the usual spellings (`bfloat16`, `bf16`, `int32`, …); KeyError if there is none."""
    if isinstance(name, DType):
        return name
    return DTYPES[_ALIASES.get(name, name)]


Dim = int | str
ALIGNMENT = 16  # bytes: what the widest access wants, and TMA


class Type:
    """Base of all types."""

    __slots__ = ()


def _dims(shape: tuple[Dim, ...], last: object) -> str:
    """`MxKxf32`; a name with an x in it stands in quotes."""
    return "x".join([*(f'"{d}"' if "x" in str(d) else str(d) for d in shape), str(last)])


@dataclass(frozen=True, slots=True)
class ScalarType(Type):
    dtype: DType

    def __str__(self) -> str:
        return self.dtype.name


@dataclass(frozen=True, slots=True)
class TileType(Type):
    """A tile in registers; `layout` is None until layouts are inferred."""

    shape: tuple[int, ...]
    dtype: DType
    layout: Layout | None = None

    def __str__(self) -> str:
        layout = "" if self.layout is None else f", {self.layout}"
        return f"tile<{_dims(self.shape, self.dtype)}{layout}>"


@dataclass(frozen=True, slots=True)
class RegsType(Type):
    """`count` registers' worth of elements in one thread. Elements narrower than 32 bits are packed when emitted."""

    count: int
    dtype: DType

    def __str__(self) -> str:
        return f"regs<{self.count}x{self.dtype}>"


@dataclass(frozen=True, slots=True)
class TensorType(Type):
    """Global memory of the caller's: element (i, j, …) is `strides[0]*i + strides[1]*j + …` elements behind the first.

    There is one normal form: `strides` is None for row-major memory without gaps, whose strides follow from the shape;
    otherwise one int or name for each dimension, in elements, names as in `shape`: run-time values in `Kernel.dims`,
    with what divides them in `Kernel.facts`. What code is made differently for is a constant: a stride of 1 (vectors
    run along the last such dimension, `contiguous_dim`; TMA wants that to be the last one) and one of 0 (repeated
    elements). A name stands for any other number; one that may be negative has no fact. `align`: the bytes that the
    first element's address is known to be a multiple of, ALIGNMENT at most.
    """

    shape: tuple[Dim, ...]
    dtype: DType
    strides: tuple[Dim, ...] | None = None
    align: int = ALIGNMENT

    def __str__(self) -> str:
        more = "" if self.strides is None else f", strides ({', '.join(map(str, self.strides))})"
        more += "" if self.align == ALIGNMENT else f", align {self.align}"
        return f"tensor<{_dims(self.shape, self.dtype)}{more}>"

    @property
    def contiguous_dim(self) -> int | None:
        """The dimension whose neighbours are neighbours in memory; the last one where there are several."""
        if self.strides is None:
            return len(self.shape) - 1 if self.shape else None
        return max((d for d, s in enumerate(self.strides) if s == 1), default=None)


def tensor_type(
    shape: tuple[Dim, ...], dtype: DType, strides: tuple[Dim, ...] | None = None, align: int = ALIGNMENT
) -> TensorType:
    """The normal form of a tensor's type: strides that are those of row-major memory without gaps are None."""
    step: Dim | None = 1
    natural: list[Dim | None] = []  # None: a product that has no name
    for extent in reversed(shape):
        natural.append(step)
        if step == 1:
            step = extent
        elif extent != 1:
            step = step * extent if isinstance(step, int) and isinstance(extent, int) else None
    return TensorType(shape, dtype, None if strides == tuple(reversed(natural)) else strides, align)


SPACES = {"shared": "shared buffer", "local": "local", "fragment": "fragment", "tmem": "tensor memory"}  # and in words


@dataclass(frozen=True, slots=True)
class BufferType(Type):
    """Memory that the kernel owns, in one of SPACES."""

    space: str
    shape: tuple[int, ...]
    dtype: DType
    versions: int = 1

    def __str__(self) -> str:
        versions = "" if self.versions == 1 else f"{self.versions} versions x "
        return f"{self.space}<{versions}{_dims(self.shape, self.dtype)}>"


@dataclass(frozen=True, slots=True)
class TokenType(Type):
    """`counter`: the hardware's way to count completions: "" cp.async groups, "wgmma" its groups, "bulk" those of TMA's
    copies out of shared memory."""

    counter: str = ""

    def __str__(self) -> str:
        return f"token<{self.counter}>" if self.counter else "token"


@dataclass(frozen=True, slots=True)
class FutureType(Type):
    of: Type

    def __str__(self) -> str:
        return f"future<{self.of}>"


@dataclass(frozen=True, slots=True)
class PipelineType(Type):
    """A ring of `slots` slots between roles; the payload is one buffer type per name."""

    slots: int
    payload: tuple[tuple[str, BufferType], ...] = ()

    def __str__(self) -> str:
        fields = ", ".join(f"{n}: {t}" for n, t in self.payload)
        return f"mbarrier_pipeline<{self.slots}; {fields}>"


@dataclass(frozen=True, slots=True)
class SlotType(Type):
    """One slot of a pipeline: a linear value, acquired or received once and sent or released once on every path."""

    pipeline: PipelineType

    def __str__(self) -> str:
        return f"slot<{self.pipeline}>"


I32 = ScalarType(i32)
I64 = ScalarType(i64)
F32 = ScalarType(f32)
BOOL = ScalarType(bool_)
TOKEN = TokenType()
WGMMA_TOKEN = TokenType("wgmma")
BULK_TOKEN = TokenType("bulk")
COUNTERS = ("", "wgmma", "bulk")


def dtype_of(t: Type) -> DType:
    """The element type of a scalar, tile, registers, tensor or buffer type."""
    return t.dtype  # type: ignore[attr-defined,no-any-return]


def with_dtype(t: Type, d: DType) -> Type:
    """The same scalar, tile or registers type with another element type."""
    if isinstance(t, TileType):
        return TileType(t.shape, d, t.layout)
    if isinstance(t, RegsType):
        return RegsType(t.count, d)
    return ScalarType(d)
