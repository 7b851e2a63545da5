"""How the calls of memory-bound kernels are read: arrays of torch, CuPy or NumPy, of which kernels get plain views."""

from __future__ import annotations

import operator
import sys
from typing import Any, NamedTuple

from minitile.driver.dispatch import raise_for_caller
from minitile.ir.types import DType
from minitile.language.math import dtype_of_name
from minitile.ops.array_adapters import Frame, frame_of
from minitile.ops.multiply import hardware
from minitile.ops.operands import refused
from minitile.runtime.arrays import ArrayInfo, describe
from minitile.runtime.errors import LaunchError

FLOATS = ("f32", "bf16", "f16")
INDICES = ("i32", "i64")
VECTOR = 16  # bytes of a thread's access


class Argument(NamedTuple):
    """An array as it was given; strides in elements."""

    name: str
    given: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType
    device: tuple[str, int]
    contiguous: bool
    frame: Frame

    def view(self, *shape: int) -> Any:
        """In another shape; a copy only where strides do not let it be seen so."""
        return self.given.reshape(shape)

    def empty(self, shape: tuple[int, ...], dtype: DType | None = None) -> Any:
        """A new array where this one is."""
        return self.frame.empty(shape, dtype or self.dtype, self.given)

    def zeros(self, shape: tuple[int, ...], dtype: DType | None = None) -> Any:
        """A new array of zeros where this one is."""
        return self.frame.zeros(shape, dtype or self.dtype, self.given)

    def result(self, out: Any, shape: tuple[int, ...], dtype: DType | None = None, name: str = "out") -> Any:
        """Where a result goes: `out`, or a new array. Raises LaunchArgumentError for an `out` that does not fit."""
        dtype = dtype or self.dtype
        if out is None:
            return self.empty(shape, dtype)
        info = fitting(name, out, shape, dtype)
        self.together(name, (info.device_kind, info.device_index))
        return out

    def together(self, name: str, device: tuple[str, int]) -> None:
        """Raises LaunchArgumentError where another argument is on another device."""
        if device != self.device:
            raise refused(f"{self.name} and {name} are not on one device")

    def like(self, name: str, x: Any, shape: tuple[int, ...] | None = None) -> Argument:
        """Another argument of the same dtype on the same device, of this shape or the one given."""
        other = argument(name, x, (self.dtype.name,))
        self.together(name, other.device)
        if other.shape != (self.shape if shape is None else shape):
            raise refused(f"{name} has shape {other.shape}; it must be {self.shape if shape is None else shape}")
        return other


def argument(name: str, x: Any, dtypes: tuple[str, ...] | None = FLOATS) -> Argument:
    """An argument of one of these dtypes (None: any). Raises LaunchArgumentError for others."""
    info = described(name, x)
    frame = frame_of(x)
    if frame is None:
        raise refused(f"{name} is no array of torch, CuPy or NumPy")
    if dtypes is not None and info.dtype not in dtypes:
        raise refused(f"{name} is {info.dtype}", f"it may be {', '.join(dtypes)}")
    device = info.device_kind, info.device_index
    dtype = dtype_of_name(info.dtype)
    return Argument(name, x, tuple(info.shape), info.strides, dtype, device, info.contiguous, frame)


_multiprocessors: dict[tuple[str, int], int] = {}  # of devices that have been asked


def multiprocessors(x: Argument) -> int:
    """Of the GPU that an argument is on; the simulator plays an H200."""
    if x.device not in _multiprocessors:
        _multiprocessors[x.device] = hardware(describe(x.given))[0].multiprocessors
    return _multiprocessors[x.device]


def fitting(name: str, out: Any, shape: tuple[int, ...], dtype: DType) -> ArrayInfo:
    """What there is to know of an array that a result goes to. Raises LaunchArgumentError where it does not fit."""
    info = described(name, out)
    if tuple(info.shape) != shape or info.dtype != dtype.name or not info.contiguous:
        gaps = ", with gaps or in another order" if not info.contiguous else ""
        raise refused(
            f"{name} is {info.dtype} of shape {tuple(info.shape)}{gaps}",
            f"pass {dtype} of shape {shape}, row-major without gaps",
        )
    return info


def whole(name: str, value: Any, low: int, high: int, more: str = "") -> int:
    """A whole number in these bounds, as a Python int. Raises LaunchArgumentError for others."""
    try:
        number = operator.index(value)
    except TypeError:
        number = low - 1
    if not low <= number <= high:
        bounds = f"a whole number from {low} to {high}" if low <= high else "there is none that fits"
        raise refused(f"{name} is {value!r}", f"{bounds}{more}")
    return number


def described(name: str, x: Any) -> ArrayInfo:
    """What there is to know of an array. Raises LaunchArgumentError for what is none."""
    try:
        return describe(x)
    except LaunchError as error:
        raise_for_caller(error, name)


class Tile(NamedTuple):
    """What a block of `threads` works on: `rows` of a matrix, and `columns` of them."""

    rows: int
    columns: int
    threads: int

    @property
    def constants(self) -> dict[str, Any]:
        """As a kernel's compile-time arguments."""
        return self._asdict()


def tile_for(n: int, elements: int, threads: int, least: int) -> Tile:
    """A tile of about so many elements for rows of n. Its columns are a power of two, at least `least`, of which few
    lie behind the row's end: the most of those that leave an eighth idle, else those that leave the least."""
    widths = [w for w in (least << shift for shift in range(32)) if w <= elements] or [least]
    idle = {w: -n % w / (n + -n % w) if n else 0.0 for w in widths}
    columns = max((w for w in widths if idle[w] <= 1 / 8), default=min(widths, key=lambda w: (idle[w], -w)))
    return Tile(max(1, elements // columns), columns, threads)


def order_of(x: Any) -> Any:
    """The places of a vector's elements in ascending order of these; of equal ones, as they stand."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        return torch.argsort(x, stable=True)
    return x.argsort(kind="stable")
