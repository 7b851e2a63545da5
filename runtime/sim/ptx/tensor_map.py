"""Tensor maps: what a TMA copy knows about a tensor in global memory (PTX ISA 8.0, 5.5, and cuTensorMapEncodeTiled).

A `TensorMap` is given to `run_ptx` where the entry has a `.param .align 64 .b8 NAME[128]`. NumPy's order is outermost
dimension first; TMA's coordinates and box come innermost first, which only this module has to know. `Box` is one tile
of a tensor: for every element of the box, in the order in which it lies in shared memory, where it is in the tensor
and whether it is inside. Coordinates are signed; what is outside is filled when loading and dropped when storing.

A `Descriptor` is the same as 128 bytes that programs can copy, change by tensormap.replace, and use from global memory.
The bytes are opaque to programs and are not the hardware's:

    0 "minitile"   8 address   16 strides (4 of 8 bytes)   48 dimensions, 68 box, 88 element strides (5 of 4 bytes each)
    108 rank - 1   109 element type, 110 interleave, 111 swizzle, 112 fill: numbers as tensormap.replace has them

Shared memory holds a box densely, innermost dimension first. A swizzle mode then exchanges 16-byte pieces: bits 4 and
up of the shared address are XORed with bits 7 and up, one, two or three of them for 32, 64 and 128 bytes (5.5.5).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import ml_dtypes
import numpy as np

from ..core.errors import SimulationError
from ..core.scalars import Array

MAP_SIZE = 128  # bytes of the parameter
BOX_ALIGNMENT = 128  # of a box's shared address; a swizzle's pattern follows the address
_MAGIC = b"minitile"
_SWIZZLES = {0: 0, 32: 1, 64: 3, 128: 7}  # bytes to the mask of rows that take part
_NAN_FILLS = (np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64), np.dtype(ml_dtypes.bfloat16))
_SWIZZLE_BYTES = (0, 32, 64, 128)  # by the number that tensormap.replace gives them
# Element types by the number that tensormap.replace gives them (PTX ISA 9.0, 9.7.9.28, table 33).
_TYPES = [
    np.dtype(t) for t in ("u1", "u2", "u4", "i4", "u8", "i8", "f2", "f4", "f4", "f8", ml_dtypes.bfloat16, "f4", "f4")
]
_TF32 = (11, 12)
_FORM = struct.Struct("<8sQ4Q5I5I5I5B")


def swizzle_address(addr: Array, swizzle: int) -> Array:
    """Where the piece at a plain shared address lies under a swizzle of 0, 32, 64 or 128 bytes."""
    mask = _SWIZZLES[swizzle]
    return addr ^ ((addr >> 7 & mask) << 4) if mask else addr


@dataclass(frozen=True, slots=True)
class Box:
    """One tile: per element, its byte offset from the tensor's start (0 if outside) and whether it is inside."""

    offsets: Array
    inside: Array


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A tensor in global memory at `address`, and how TMA cuts it: everything innermost dimension first. `strides` are
    the bytes from one index to the next of each dimension but the innermost."""

    address: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    steps: tuple[int, ...]
    element: int  # a number of _TYPES
    swizzle: int
    fills_nan: bool = False
    interleave: int = 0

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def dtype(self) -> np.dtype[np.generic]:
        return _TYPES[self.element]

    @property
    def item(self) -> int:
        return self.dtype.itemsize

    @property
    def problem(self) -> str:
        """Why the driver would refuse it, or the hardware not do what is meant; empty if there is no reason."""
        inner = self.box_shape[0] * self.item
        rules = (
            (self.interleave, "interleaved layouts are not supported"),
            (self.fills_nan and self.dtype not in _NAN_FILLS, f"{self.dtype} has no NaN to fill with"),
            (min(self.box) < 1 or max(self.box) > 256, f"each side of a box is 1 to 256, not {self.box[::-1]}"),
            (
                min(self.steps) < 1 or max(self.steps) > 8,
                f"element strides are 1 to 8, not {self.steps[::-1]}",
            ),
            (
                inner % 16,
                f"the innermost side of the box has {inner} bytes, which is not a multiple of 16",
            ),
            (
                self.swizzle and inner > self.swizzle,
                f"the innermost side of the box has {inner} bytes, more than the swizzle's {self.swizzle}",
            ),
            (
                any(stride % 16 or stride <= 0 for stride in self.strides),
                f"strides must be positive multiples of 16 bytes, not {self.strides[::-1]}",
            ),
            (self.address % 16, f"the tensor's address {self.address:#x} is not a multiple of 16"),
        )
        return next((text for broken, text in rules if broken), "")

    @property
    def box_shape(self) -> tuple[int, ...]:
        """Elements per dimension that a box has in shared memory."""
        return tuple(-(-side // step) for side, step in zip(self.box, self.steps, strict=True))

    @property
    def box_bytes(self) -> int:
        """Bytes of a box in shared memory: what a load completes on its barrier, whatever lies outside."""
        return int(np.prod(self.box_shape)) * self.item

    def tile(self, coordinates: Sequence[int]) -> Box:
        """The box at these coordinates."""
        offsets: Array = np.zeros((), np.int64)
        inside: Array = np.ones((), bool)
        strides = (self.item, *self.strides)
        for axis, (start, size) in enumerate(zip(coordinates, self.box_shape, strict=True)):
            index = start + self.steps[axis] * np.arange(size, dtype=np.int64)
            shape = [1] * self.rank
            shape[-1 - axis] = size
            offsets = offsets + (index * strides[axis]).reshape(shape)
            inside = inside & ((index >= 0) & (index < self.dims[axis])).reshape(shape)
        inside = np.broadcast_to(inside, offsets.shape).ravel()
        return Box(np.where(inside, offsets.ravel(), 0), inside)

    def fill_bytes(self) -> Array:
        """The bytes of one element outside the tensor."""
        if not self.fills_nan:
            return np.zeros(self.item, np.uint8)
        return np.full(1, np.nan).astype(self.dtype).view(np.uint8)

    def converted(self, words: Array) -> Array:
        """What a load makes of the elements (as unsigned integers): the nearest tf32, ties to even, with the 13 low
        bits clear; infinities and NaNs stay as they are."""
        if self.element not in _TF32:
            return words
        rounded = words + np.uint32(0xFFF) + (words >> np.uint32(13) & np.uint32(1)) & np.uint32(0xFFFFE000)
        finite = words & np.uint32(0x7F800000) != np.uint32(0x7F800000)
        return np.where(finite, rounded, words)

    def pack(self) -> bytes:
        """The bytes of it."""

        def five(values: tuple[int, ...]) -> tuple[int, ...]:
            return (*values, *(0,) * (5 - len(values)))

        strides = five(self.strides)[:4]
        kinds = (self.rank - 1, self.element, self.interleave, _SWIZZLE_BYTES.index(self.swizzle), self.fills_nan)
        raw = _FORM.pack(_MAGIC, self.address, *strides, *five(self.dims), *five(self.box), *five(self.steps), *kinds)
        return raw.ljust(MAP_SIZE, b"\0")


def unpack(data: bytes) -> Descriptor | None:
    """The descriptor whose bytes these are, None if they are none."""
    magic, address, *numbers = _FORM.unpack_from(data)
    rank, element, interleave, swizzle, fill = numbers[19:]
    if magic != _MAGIC or rank > 4 or element >= len(_TYPES) or swizzle >= len(_SWIZZLE_BYTES):
        return None
    strides, dims, box, steps = numbers[:4], numbers[4:9], numbers[9:14], numbers[14:19]
    return Descriptor(
        address,
        tuple(dims[: rank + 1]),
        tuple(strides[:rank]),
        tuple(box[: rank + 1]),
        (1, *steps[1 : rank + 1]),
        element,
        _SWIZZLE_BYTES[swizzle],
        fill == 1,
        interleave,
    )


# tensormap.replace's fields: where the number lies, its bytes, and how many of them there are.
FIELDS = {
    "global_address": (8, 8, 1),
    "global_stride": (16, 8, 4),
    "global_dim": (48, 4, 5),
    "box_dim": (68, 4, 5),
    "element_stride": (88, 4, 5),
    "rank": (108, 1, 1),
    "elemtype": (109, 1, 1),
    "interleave_layout": (110, 1, 1),
    "swizzle_mode": (111, 1, 1),
    "fill_mode": (112, 1, 1),
}


def replaced(data: Array, name: str, ordinal: int, value: int) -> Array:
    """The 128 bytes of a descriptor with one field changed. Bytes that are no descriptor yet begin one."""
    result = data.copy()
    start, size, _ = FIELDS[name]
    result[:8] = np.frombuffer(_MAGIC, np.uint8)
    at = start + size * ordinal
    result[at : at + size] = np.frombuffer(int(value).to_bytes(8, "little")[:size], np.uint8)
    return result


@dataclass(eq=False)
class TensorMap:
    """A tensor in global memory and how TMA cuts it.

    `array` is a NumPy array of one to five dimensions whose innermost one is dense; it may be a view. `box` has the
    size of a tile per dimension, in the array's order. `swizzle` is 0, 32, 64 or 128 bytes. `element_strides` (in the
    array's order) takes every n-th element; the hardware ignores the innermost one. `oob_fill` is "zeros" or "nan".
    `tf32`: loads round f32 to tf32 (CU_TENSOR_MAP_DATA_TYPE_TFLOAT32).
    Raises `SimulationError` for whatever the driver would refuse.
    """

    array: Array
    box: Sequence[int]
    swizzle: int = 0
    element_strides: Sequence[int] | None = None
    interleave: str | None = None
    oob_fill: str = "zeros"
    tf32: bool = False
    descriptor: Descriptor = field(init=False)

    def __post_init__(self) -> None:
        rank = self.array.ndim
        self.box = tuple(int(each) for each in self.box)
        steps = self.element_strides
        self.element_strides = (1,) * rank if steps is None else (*(int(each) for each in steps[:-1]), 1)
        problem = self._problem(rank)
        if not problem:
            self.descriptor = self._describe()
            problem = self.descriptor.problem
        if not problem and self.root_offset % 16:
            problem = f"the tensor starts {self.root_offset} bytes into its array, which is not a multiple of 16"
        if problem:
            raise SimulationError(f"this tensor map is refused: {problem}")

    def _problem(self, rank: int) -> str:
        array = self.array
        if not 1 <= rank <= 5:
            return f"a tensor has one to five dimensions, not {rank}"
        if len(tuple(self.box)) != rank or len(tuple(self.element_strides or ())) != rank:
            return f"box and element strides need {rank} numbers each"
        if self.swizzle not in _SWIZZLES:
            return f"a swizzle is 0, 32, 64 or 128 bytes, not {self.swizzle}"
        if self.interleave is not None:
            return "interleaved layouts are not supported"
        if self.oob_fill not in ("zeros", "nan"):
            return f'out-of-bounds fill is "zeros" or "nan", not {self.oob_fill!r}'
        if self.tf32 and array.dtype != np.float32:
            return f"only f32 is rounded to tf32, not {array.dtype}"
        if array.strides[-1] != array.dtype.itemsize and array.shape[-1] > 1:
            return "the innermost dimension must be dense"
        if any(not 0 <= stride < 1 << 64 for stride in array.strides[:-1]):
            return f"strides must be positive multiples of 16 bytes, not {array.strides[:-1]}"
        return ""

    def _describe(self) -> Descriptor:
        """The descriptor without an address."""
        array, item = self.array, self.array.dtype.itemsize
        element = _TF32[0] if self.tf32 else next((i for i, t in enumerate(_TYPES) if t == array.dtype), None)
        if element is None:  # what TMA only moves: the unsigned integer of the size
            element = next(i for i, t in enumerate(_TYPES) if t.kind == "u" and t.itemsize == item)
        return Descriptor(
            0,
            array.shape[::-1],
            array.strides[-2::-1] if array.ndim > 1 else (),
            tuple(self.box)[::-1],
            tuple(self.element_strides or ())[::-1],
            element,
            self.swizzle,
            self.oob_fill == "nan",
        )

    @property
    def root(self) -> Array:
        """The contiguous array whose memory this tensor lies in."""
        array = self.array
        while not array.flags.c_contiguous and isinstance(array.base, np.ndarray):
            array = array.base
        if not array.flags.c_contiguous:
            raise SimulationError("a tensor map's array must be contiguous, or a view of a contiguous array")
        return array

    @property
    def root_offset(self) -> int:
        """Bytes from the start of `root` to the tensor's first element."""
        here: int = self.array.__array_interface__["data"][0]
        there: int = self.root.__array_interface__["data"][0]
        return here - there

    def copy(self) -> TensorMap:
        """The same of a copy of the tensor, and of all that `root` holds."""
        array, root = self.array, self.root.copy()
        view = np.ndarray(array.shape, array.dtype, root.view(np.uint8), self.root_offset, array.strides)
        return TensorMap(view, self.box, self.swizzle, self.element_strides, None, self.oob_fill, self.tf32)

    def pack(self, root: int) -> bytes:
        """The parameter's bytes, with `root` at this address."""
        return replace(self.descriptor, address=root + self.root_offset).pack()
