"""Shared-memory layouts: from coordinates of a tile to bytes.

Each dimension is a list of digits `(size, stride)`, fastest first, strides in bits; the bit offset of an
element is the sum of `digit_value * stride`: the *affine part*. Then the swizzle, on the byte offset from an
aligned base:

    offset ^ ((offset >> 3) & mask)      128B: mask 0x70, bits 4-6 ^= bits 7-9   (CUTLASS Swizzle<3,4,3>)
                                          64B: mask 0x30, bits 4-5 ^= bits 7-8
                                          32B: mask 0x10, bit 4 ^= bit 7

as TMA and wgmma define it (PTX ISA 8.3, 5.5.6 "Swizzling modes"). It permutes the 16-byte chunks of each 128
bytes, is its own inverse and linear over xor, and repeats every 1024, 512 or 256 bytes: the alignment that a
base needs.

    swizzled((64, 96), 16)       a row is 192 B, which 128 does not divide: three panels of [64 rows][64 B]
        shared<64x96xb16; 64:512; 32:16, 3:32768; swizzle 64>
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from minitile.layout.lazy import cached_property
from minitile.layout.register import MAX_SIZE, Coord, LayoutError, size_of

CHUNK_BITS = 128
"""What a swizzle keeps together: 16 bytes."""

_ALL_BITS = (1 << 48) - 1


@dataclass(frozen=True, slots=True)
class Swizzle:
    """The xor of 16-byte chunk index bits with row bits; `width` is 128, 64 or 32 bytes, or 0 for none."""

    width: int

    def __post_init__(self) -> None:
        if self.width not in (0, 32, 64, 128):
            raise LayoutError(f"a swizzle is 0, 32, 64 or 128 bytes wide, not {self.width}")

    @property
    def mask(self) -> int:
        """The offset bits that change."""
        return max(self.width - 16, 0)

    @property
    def period(self) -> int:
        """Bytes after which the pattern repeats; adding a multiple of it commutes with the swizzle."""
        return self.width * 8 or 1

    def __call__(self, offset: int) -> int:
        return offset ^ (offset >> 3 & self.mask)


class AddressDigit(NamedTuple):
    """`size` coordinates, `stride` bits apart."""

    size: int
    stride: int


class AddressTerm(NamedTuple):
    """Adds `((coord[dim] // divisor) % size) * stride` bytes; `size` is None where no `%` is needed."""

    dim: int
    divisor: int
    size: int | None
    stride: int


class ConstantSplit(NamedTuple):
    """How a constant enters an address: offset(base + constant) = (offset(base) ^ xor) + add, in bytes."""

    xor: int
    add: int


@dataclass(frozen=True)
class SharedLayout:
    """The layout of a tile of `shape` in shared memory; see the module's docstring.

    `dims` has the digits of each dimension. Raises LayoutError when two elements would share bytes, a
    dimension is not covered, or the swizzle would tear elements apart.
    """

    shape: tuple[int, ...]
    element_bits: int
    dims: tuple[tuple[AddressDigit, ...], ...]
    swizzle: Swizzle = Swizzle(0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(self.shape))
        object.__setattr__(self, "dims", tuple(_normal(digits) for digits in self.dims))
        self._validate()

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.shape, self.element_bits, self.dims, self.swizzle))

    @property
    def rank(self) -> int:
        return len(self.shape)

    # --- sizes ---

    @cached_property
    def size_bytes(self) -> int:
        """From the first to behind the last byte, padding between included; 0-based offsets stay below it."""
        reach = self.element_bits + sum((d.size - 1) * d.stride for digits in self.dims for d in digits)
        size = -(-reach // 8)
        return -(-size // 128) * 128 if self.swizzle.width else size

    @property
    def alignment(self) -> int:
        """Bytes that a base address must be a multiple of: the swizzle's period, 128 for what TMA may move."""
        return max(self.swizzle.period, 128 if self.size_bytes >= 128 else 16)

    @property
    def stage_bytes(self) -> int:
        """The distance between versions of the buffer: the size, rounded up to the alignment."""
        return -(-self.size_bytes // self.alignment) * self.alignment

    # --- the map and its inverse ---

    def offset(self, coords: Sequence[int]) -> int:
        """Byte offset of an element (of the byte that holds it, for elements below a byte)."""
        return self.swizzle(self.affine_bits(coords) >> 3)

    def affine_bits(self, coords: Sequence[int]) -> int:
        """Bit offset before the swizzle."""
        bits = 0
        for value, digits in zip(coords, self.dims, strict=True):
            for size, stride in digits[:-1]:
                value, digit = divmod(value, size)
                bits += digit * stride
            if digits:
                bits += value * digits[-1].stride
        return bits

    def inverse(self, offset: int) -> Coord | None:
        """Coordinates of the element that starts at this byte offset, None for padding or the middle of one."""
        rest = self.swizzle(offset) * 8
        coords = [0] * self.rank
        for dim, divisor, digit in self._by_stride:
            value, rest = divmod(rest, digit.stride)
            if value >= digit.size:
                return None
            coords[dim] += value * divisor
        inside = all(c < size for c, size in zip(coords, self.shape, strict=True))
        return tuple(coords) if inside and not rest else None

    # --- what lowering needs ---

    def address_terms(self) -> tuple[AddressTerm, ...]:
        """The affine part in bytes, as terms of the coordinates. LayoutError for elements below a byte."""
        return self._address_terms

    @cached_property
    def _address_terms(self) -> tuple[AddressTerm, ...]:
        terms = []
        for dim, digits in enumerate(self.dims):
            divisor = 1
            for i, digit in enumerate(digits):
                if digit.stride % 8:
                    raise LayoutError(f"dimension {dim} moves by {digit.stride} bits, not by whole bytes")
                last = i == len(digits) - 1
                terms.append(AddressTerm(dim, divisor, None if last else digit.size, digit.stride // 8))
                divisor *= digit.size
        return tuple(terms)

    def xor_terms(self) -> tuple[int, int] | None:
        """(shift, mask) of `offset ^ ((offset >> shift) & mask)`, None without a swizzle."""
        return (3, self.swizzle.mask) if self.swizzle.mask else None

    def split_constant(
        self, constant: Sequence[int], base_bits: Sequence[int], below: Sequence[bool] = ()
    ) -> ConstantSplit | None:
        """How to get from the address of a base to that of base + constant with an immediate, or None if not.

        `base_bits` says per dimension which bits of the base coordinate may be set (see `bits_of_multiple`,
        `access.thread_bits`). The constant is not negative and the sum is inside the tile; the base is not negative,
        but in dimensions that are `below`: there it has no bounds, and the bits are those of two's complement.
        """
        for value, bits, digits in zip(constant, base_bits, self.dims, strict=True):
            if not _splits(value, bits, digits):
                return None
        total = self.affine_bits(constant)
        if total % 8:
            return None
        high, low = divmod(total // 8, self.swizzle.period)
        maybe = _maybe_set(self, tuple(base_bits), tuple(below) if any(below) else ())
        if low & maybe:
            return None  # a carry could reach the bits that the swizzle reads
        # The swizzle is linear over xor, so it may be taken of base and constant apart. Where the swizzled
        # base has zeros for sure, xor is addition and can join the immediate.
        moved = self.swizzle(low)
        maybe_swizzled = maybe | (maybe >> 3 & self.swizzle.mask)
        return ConstantSplit(xor=moved & maybe_swizzled, add=(moved & ~maybe_swizzled) + high * self.swizzle.period)

    @cached_property
    def contiguous_dim(self) -> int | None:
        """The dimension whose neighbours lie next to each other; None if there is none."""
        for dim, digits in enumerate(self.dims):
            if digits and digits[0].stride == self.element_bits:
                return dim
        return None

    def contiguous_elems(self, dim: int) -> int:
        """How many elements along `dim`, from an aligned start, lie next to each other (16 B with a swizzle)."""
        digits = self.dims[dim]
        if not digits or digits[0].stride != self.element_bits:
            return 1
        if self.swizzle.width:
            return math.gcd(digits[0].size, CHUNK_BITS // self.element_bits)
        return digits[0].size

    def row_alignment(self, dim: int, elems: int) -> int:
        """What every run of `elems` aligned elements along `dim` starts at a multiple of, in bytes."""
        align = self.element_bits * elems
        for other, divisor, digit in self._by_stride:
            if other != dim or divisor >= elems:
                align = math.gcd(align, digit.stride)
        return align // 8

    # --- other layouts from this one ---

    def permute_dims(self, order: Sequence[int]) -> SharedLayout:
        """The same bytes seen as a transposed tile: dimension i of the result is dimension `order[i]`."""
        if sorted(order) != list(range(self.rank)):
            raise LayoutError(f"{tuple(order)} is not a permutation of the {self.rank} dimensions")
        shape, dims = tuple(self.shape[i] for i in order), tuple(self.dims[i] for i in order)
        return SharedLayout(shape, self.element_bits, dims, self.swizzle)

    # --- text ---

    def __str__(self) -> str:
        dims = "; ".join(", ".join(f"{d.size}:{d.stride}" for d in digits) or "1" for digits in self.dims)
        shape = "".join(f"{size}x" for size in self.shape)
        swizzle = f"; swizzle {self.swizzle.width}" if self.swizzle.width else ""
        return f"shared<{shape}b{self.element_bits}; {dims}{swizzle}>"

    @staticmethod
    def parse(text: str) -> SharedLayout:
        """Reads what `str` prints. LayoutError if it can't."""
        return _parse(text)

    # --- inside ---

    @cached_property
    def _by_stride(self) -> tuple[tuple[int, int, AddressDigit], ...]:
        """(dim, divisor, digit), the largest stride first."""
        out = []
        for dim, digits in enumerate(self.dims):
            divisor = 1
            for digit in digits:
                out.append((dim, divisor, digit))
                divisor *= digit.size
        return tuple(sorted(out, key=lambda item: -item[2].stride))

    def _validate(self) -> None:
        if len(self.dims) != self.rank:
            raise LayoutError(f"{len(self.dims)} lists of digits for the shape {self.shape}")
        for dim, (size, digits) in enumerate(zip(self.shape, self.dims, strict=True)):
            if size < 1 or math.prod(d.size for d in digits) < size:
                raise LayoutError(f"the digits {digits} do not cover {size} coordinates of dimension {dim}")
        if self.element_bits < 1 or math.prod(self.shape) > MAX_SIZE << 12:
            raise LayoutError(f"{self.shape} elements of {self.element_bits} bits are no shared memory's")
        reach = self.element_bits
        for dim, _, digit in reversed(self._by_stride):
            if digit.stride < reach:
                raise LayoutError(
                    f"dimension {dim} moves by {digit.stride} bits, into the {reach} bits of smaller strides"
                )
            reach = digit.stride * digit.size
        if self.swizzle.width:
            if CHUNK_BITS % self.element_bits:
                raise LayoutError(f"a swizzle moves 128-bit chunks; elements have {self.element_bits} bits")
            torn = [d for _, _, d in self._by_stride if d.stride % CHUNK_BITS and CHUNK_BITS % d.stride]
            if torn:
                raise LayoutError(f"strides of {torn[0].stride} bits straddle the swizzle's 128-bit chunks")


def row_major(shape: Sequence[int], element_bits: int, pad: int = 0) -> SharedLayout:
    """Last dimension contiguous, each row followed by `pad` unused elements."""
    dims, stride = [], element_bits
    for i, size in enumerate(reversed(shape)):
        dims.append((AddressDigit(size, stride),))
        stride *= size + (pad if i == 0 else 0)
    return SharedLayout(tuple(shape), element_bits, tuple(reversed(dims)))


@lru_cache(maxsize=512)
def swizzled(shape: tuple[int, ...], element_bits: int, width: int | None = None) -> SharedLayout:
    """Rows of the last dimension with the widest swizzle that divides them (or `width`), in column panels.

    Each panel is a [rows][width] box, which TMA, wgmma and ldmatrix take as it is; panels start at multiples
    of the swizzle's period. Falls back to `row_major` for rank < 2 and for rows that 32 bytes do not divide.
    Raises LayoutError when a `width` asked for does not divide the row.
    """
    row_bits = shape[-1] * element_bits if shape else 0
    if width is None:
        width = next((w for w in (128, 64, 32) if row_bits % (8 * w) == 0), 0) if len(shape) > 1 else 0
    if not width:
        return row_major(shape, element_bits)
    swizzle = Swizzle(width)
    if len(shape) < 2 or row_bits % (8 * width):
        raise LayoutError(f"a {width}-byte swizzle does not divide the {row_bits / 8:g}-byte rows of {shape}")
    columns, rows = 8 * width // element_bits, shape[-2]
    panel = -(-rows * width // swizzle.period) * swizzle.period * 8
    panels = shape[-1] // columns
    dims = [
        (AddressDigit(columns, element_bits), AddressDigit(panels, panel)),
        (AddressDigit(rows, width * 8),),
    ]
    stride = panels * panel
    for size in reversed(shape[:-2]):
        dims.append((AddressDigit(size, stride),))
        stride *= size
    return SharedLayout(shape, element_bits, tuple(reversed(dims)), swizzle)


def boxed(shape: tuple[int, ...], element_bits: int) -> SharedLayout:
    """A matrix as boxes of TMA that wgmma reads: `swizzled`, and where no swizzle divides the rows, panels of 16 bytes
    as they are.

    boxed((64, 24), 16)          a row is 48 B: three panels of [64 rows][16 B]
        shared<64x24xb16; 64:128; 8:16, 3:8192>
    """
    row_bits = shape[-1] * element_bits
    if len(shape) != 2 or row_bits % 256 == 0 or row_bits % CHUNK_BITS:
        return swizzled(shape, element_bits)
    rows, columns = shape[0], CHUNK_BITS // element_bits
    across = (AddressDigit(columns, element_bits), AddressDigit(shape[1] // columns, rows * CHUNK_BITS))
    return SharedLayout(shape, element_bits, ((AddressDigit(rows, CHUNK_BITS),), across))


# --- which bits of a number may be set ---


def is_power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


def bits_of_multiple(multiple: int) -> int:
    """The bits that may be set in an unknown multiple of `multiple` (0: the number is zero)."""
    return _spread(multiple)


def add_maybe_bits(a: int, b: int) -> int:
    """The bits that may be set in a sum, given those of its terms: a carry starts where both have one."""
    both = a & b
    return a | b | (_spread(both) if both else 0)


def _spread(value: int) -> int:
    """All bits from the lowest one set in `value` up."""
    return _ALL_BITS & -(value & -value) if value else 0


@lru_cache(maxsize=512)
def _maybe_set(layout: SharedLayout, base_bits: tuple[int, ...], below: tuple[bool, ...]) -> int:
    """Bits of the base's affine byte offset that may be set, given those of its coordinates."""
    out = 0
    for bits, digits, unbounded in zip(base_bits, layout.dims, below or (False,) * layout.rank, strict=True):
        divisor = 1
        for i, (size, stride) in enumerate(digits):
            last = i == len(digits) - 1
            reachable = _ALL_BITS if unbounded and last else (1 << (size - 1).bit_length()) - 1
            simple = is_power_of_two(divisor) and (is_power_of_two(size) or last)
            digit = bits // divisor & reachable if simple else reachable
            while digit:
                out = add_maybe_bits(out, (digit & -digit) * stride)
                digit &= digit - 1
            divisor *= size
    return out >> 3


def _splits(constant: int, base_bits: int, digits: Sequence[AddressDigit]) -> bool:
    """Is the affine part of base + constant the sum of the two parts, for every base?"""
    if len(digits) < 2 or not constant:
        return True
    divisors = math.prod(d.size for d in digits[:-1])
    low = constant % divisors
    return low == 0 or (all(is_power_of_two(d.size) for d in digits[:-1]) and not low & base_bits)


def _normal(digits: Sequence[AddressDigit]) -> tuple[AddressDigit, ...]:
    out: list[AddressDigit] = []
    for size, stride in digits:
        if out and stride == out[-1].size * out[-1].stride:
            out[-1] = AddressDigit(out[-1].size * size, out[-1].stride)
        elif size > 1:
            out.append(AddressDigit(size, stride))
    return tuple(out)


_TEXT = re.compile(r"shared<((?:\d+x)*)b(\d+);([^>]*?)(?:;\s*swizzle (\d+))?>")


@lru_cache(maxsize=1024)
def _parse(text: str) -> SharedLayout:
    match = _TEXT.fullmatch(text.strip())
    if match is None:
        raise LayoutError(f"not a shared layout: {text!r}")
    shape = tuple(size_of(size) for size in match[1].split("x") if size)
    parts = [part.strip() for part in match[3].split(";")] if shape else []
    dims = []
    for part in parts:
        items = () if part == "1" else tuple(part.split(","))
        if not all(re.fullmatch(r"\s*\d+:\d+\s*", item) for item in items):
            raise LayoutError(f"not digits: {part!r} in {text!r}")
        dims.append(tuple(AddressDigit(*map(size_of, item.split(":"))) for item in items))
    return SharedLayout(shape, size_of(match[2]), tuple(dims), Swizzle(size_of(match[4] or "0")))
