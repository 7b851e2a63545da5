"""What several operations demand of their operands: the words that `verify()` methods are written in.

Each raises ValueError with the reason, naming the types or numbers involved.
"""

from __future__ import annotations

from collections.abc import Collection

from minitile.ir.core import Value
from minitile.ir.types import I32, BufferType, ScalarType, TensorType, bool_, i32

PROPAGATING = ("max_nan", "min_nan", "absmax_nan")  # of floats; NaN where some element is
REDUCTIONS = ("sum", "max", "min", "absmax", "abssum", "and", "or", "xor", *PROPAGATING)
ATOMICS = ("add", "min", "max", "and", "or", "xor", "exch", "load", "store")


def require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


def require_one_of(value: str, known: Collection[str], what: str) -> None:
    require(value in known, f"unknown {what} {value!r}; there are {', '.join(known)}")


def require_dim(dim: int, rank: int) -> None:
    require(0 <= dim < rank, f"dimension {dim} of rank {rank}")


def require_scalar(value: Value, what: str) -> None:
    require(isinstance(value.type, ScalarType), f"{what} is {value.type}, not a scalar")


def require_indices(indices: tuple[Value, ...], rank: int, shape: tuple[int, ...] = ()) -> None:
    """One integer per dimension; where `shape` is given, tiles of that shape will do as well."""
    require(len(indices) == rank, f"{len(indices)} indices for rank {rank}")
    for index in indices:
        require(index.dtype.is_int, f"an index is {index.type}, not an integer")
        require(index.shape in ((), shape), f"an index is {index.type}, a tile of another shape than {shape}")


def require_range(start: tuple[Value, ...], extent: tuple[int, ...], rank: int) -> None:
    """A part of a tensor of this rank, or nothing."""
    rank = rank if start else 0
    require(len(start) == len(extent) == rank, f"{len(start)} starts and {len(extent)} extents")


def require_shift(shift: Value, shape: tuple[int, ...], dim: int) -> None:
    """By how much a tile of `shape` is rotated along a dimension."""
    others = (*shape[:dim], *shape[dim + 1 :])
    require(shift.dtype is i32, f"the shift is {shift.type}, not i32")
    require(shift.shape in ((), others), f"the shift is {shift.type}, of another shape than {others}")


def require_region(
    mem: Value,
    indices: tuple[Value, ...],
    dims: tuple[int | None, ...],
    shape: tuple[int, ...],
    slot: Value | None = None,
    mask: Value | None = None,
) -> None:
    """A tile of `shape` at `indices` in memory, along `dims`."""
    require(isinstance(mem.type, TensorType | BufferType), f"{mem.type} is no memory")
    rank = len(mem.shape)
    require(len(dims) == rank, f"{len(dims)} dims for {mem.type}")
    require_indices(indices, rank, shape)
    along = [d for d in dims if d is not None]
    require(len(set(along)) == len(along), f"a tile's dimension lies along two of memory: dims {dims}")
    for d in along:
        require_dim(d, len(shape))
    if slot is not None:
        require(slot.type == I32, f"the slot is {slot.type}, not i32")
    if mask is not None:
        require(mask.dtype is bool_, f"the mask is {mask.type}, not bool")
        require(mask.shape in ((), shape), f"the mask is {mask.type}, of another shape than {shape}")
