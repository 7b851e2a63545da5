"""Tensor maps: what a TMA copy knows about a tensor in global memory (PTX ISA 8.0, 5.5, and cuTensorMapEncodeTiled).

A `TensorMap` is given to `run_ptx` where the entry has a `.param .align 64 .b8 NAME[128]`. NumPy's order is outermost
dimension first; TMA's coordinates and box come innermost first, which only this module has to know. `Box` is one tile
of a tensor: for every element of the box, in the order in which it lies in shared memory, where it is in the tensor
and whether it is inside. Coordinates are signed; what is outside is filled when loading and dropped when storing.

Shared memory holds a box densely, innermost dimension first. A swizzle mode then exchanges 16-byte pieces: bits 4 and
up of the shared address are XORed with bits 7 and up, one, two or three of them for 32, 64 and 128 bytes (5.5.5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np

from .errors import SimulationError
from .scalars import Array

MAP_SIZE = 128  # bytes of the parameter
BOX_ALIGNMENT = 128  # of a box's shared address; a swizzle's pattern follows the address
_MAGIC = b"minitile"
_SWIZZLES = {0: 0, 32: 1, 64: 3, 128: 7}  # bytes to the mask of rows that take part
_NAN_FILLS = (np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64), np.dtype(ml_dtypes.bfloat16))


def swizzle_address(addr: Array, swizzle: int) -> Array:
    """Where the piece at a plain shared address lies under a swizzle of 0, 32, 64 or 128 bytes."""
    mask = _SWIZZLES[swizzle]
    return addr ^ ((addr >> 7 & mask) << 4) if mask else addr


@dataclass(frozen=True, slots=True)
class Box:
    """One tile: per element, its byte offset from the tensor's start (0 if outside) and whether it is inside."""

    offsets: Array
    inside: Array


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
    item: int = field(init=False)
    address: int = field(init=False, default=0)  # of the array in the simulated global memory, once placed

    def __post_init__(self) -> None:
        rank = self.array.ndim
        self.box = tuple(int(each) for each in self.box)
        steps = self.element_strides
        self.element_strides = (1,) * rank if steps is None else (*(int(each) for each in steps[:-1]), 1)
        self.item = self.array.dtype.itemsize
        problem = self._problem(rank)
        if problem:
            raise SimulationError(f"this tensor map is refused: {problem}")

    def _problem(self, rank: int) -> str:
        box, array = tuple(self.box), self.array
        if not 1 <= rank <= 5:
            return f"a tensor has one to five dimensions, not {rank}"
        if len(box) != rank or len(tuple(self.element_strides or ())) != rank:
            return f"box and element strides need {rank} numbers each"
        if self.swizzle not in _SWIZZLES:
            return f"a swizzle is 0, 32, 64 or 128 bytes, not {self.swizzle}"
        if self.interleave is not None:
            return "interleaved layouts are not supported"
        if self.oob_fill not in ("zeros", "nan"):
            return f'out-of-bounds fill is "zeros" or "nan", not {self.oob_fill!r}'
        if self.oob_fill == "nan" and array.dtype not in _NAN_FILLS:
            return f"{array.dtype} has no NaN to fill with"
        if self.tf32 and array.dtype != np.float32:
            return f"only f32 is rounded to tf32, not {array.dtype}"
        if min(box) < 1 or max(box) > 256:
            return f"each side of a box is 1 to 256, not {box}"
        if min(self.element_strides or (1,)) < 1 or max(self.element_strides or (1,)) > 8:
            return f"element strides are 1 to 8, not {self.element_strides}"
        inner = self.box_shape[-1] * self.item
        if inner % 16:
            return f"the innermost side of the box has {inner} bytes, which is not a multiple of 16"
        if self.swizzle and inner > self.swizzle:
            return f"the innermost side of the box has {inner} bytes, more than the swizzle's {self.swizzle}"
        if array.strides[-1] != self.item and array.shape[-1] > 1:
            return "the innermost dimension must be dense"
        if any(stride % 16 or stride <= 0 for stride in array.strides[:-1]):
            return f"strides must be positive multiples of 16 bytes, not {array.strides[:-1]}"
        if self.root_offset % 16:
            return f"the tensor starts {self.root_offset} bytes into its array, which is not a multiple of 16"
        return ""

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

    @property
    def box_shape(self) -> tuple[int, ...]:
        """Elements per dimension that a box has in shared memory."""
        steps = self.element_strides or (1,) * len(tuple(self.box))
        return tuple(-(-side // step) for side, step in zip(self.box, steps, strict=True))

    @property
    def box_bytes(self) -> int:
        """Bytes of a box in shared memory: what a load completes on its barrier, whatever lies outside."""
        return int(np.prod(self.box_shape)) * self.item

    def tile(self, coordinates: Sequence[int]) -> Box:
        """The box at these coordinates, innermost first."""
        array = self.array
        offsets: Array = np.zeros((), np.int64)
        inside: Array = np.ones((), bool)
        rank = array.ndim
        steps = self.element_strides or (1,) * rank
        for axis, (start, size) in enumerate(zip(reversed(list(coordinates)), self.box_shape, strict=True)):
            index = start + steps[axis] * np.arange(size, dtype=np.int64)
            shape = [1] * rank
            shape[axis] = size
            offsets = offsets + (index * array.strides[axis]).reshape(shape)
            inside = inside & ((index >= 0) & (index < array.shape[axis])).reshape(shape)
        inside = np.broadcast_to(inside, offsets.shape).ravel()
        return Box(np.where(inside, offsets.ravel(), 0), inside)

    def fill_bytes(self) -> Array:
        """The bytes of one element outside the tensor."""
        if self.oob_fill == "zeros":
            return np.zeros(self.item, np.uint8)
        return np.full(1, np.nan).astype(self.array.dtype).view(np.uint8)

    def converted(self, words: Array) -> Array:
        """What a load makes of the elements (as unsigned integers): the nearest tf32, ties to even, with the 13 low
        bits clear; infinities and NaNs stay as they are."""
        if not self.tf32:
            return words
        rounded = words + np.uint32(0xFFF) + (words >> np.uint32(13) & np.uint32(1)) & np.uint32(0xFFFFE000)
        finite = words & np.uint32(0x7F800000) != np.uint32(0x7F800000)
        return np.where(finite, rounded, words)

    def pack(self, number: int) -> bytes:
        """The parameter's bytes: opaque to programs; `number` says which of the launch's maps this is."""
        return (_MAGIC + number.to_bytes(8, "little")).ljust(MAP_SIZE, b"\0")


def unpack(data: bytes) -> int | None:
    """The number of the map whose bytes these are, None if they are none."""
    return int.from_bytes(data[8:16], "little") if data[:8] == _MAGIC else None
