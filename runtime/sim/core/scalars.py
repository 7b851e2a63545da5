"""What both simulators compute with: arrays and selections of them; and PTX's fundamental types with how registers of
them are stored (PTX ISA 8.0, 5.2).

A register of PTX is an array over threads of unsigned words of its width (predicates: bool), so that one register may
be read as any type of that width. `DTYPES` gives the NumPy type in which an instruction type computes; packed types
(f16x2) have the word's type here and are split where they are used.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Sel = slice | Array  # the threads or waves an instruction runs for: a contiguous range or sorted indices


def select(threads: Array) -> Sel:
    """Sorted slots, of threads or waves, as a selection: a slice where they are contiguous."""
    first, last = int(threads[0]), int(threads[-1])
    return slice(first, last + 1) if last - first + 1 == len(threads) else threads


def distinct(values: Array) -> list[int]:
    """Which integers there are, sorted: `np.unique`, which costs more than all else for arrays as small as ours."""
    return sorted(set(values.tolist()))


def some(flags: Array) -> bool:
    """Whether any of these is not zero: as `any()`, which takes four times as long for arrays as small as ours."""
    return bool(np.count_nonzero(flags))


def every(flags: Array) -> bool:
    """Whether none of these is zero, as `all()`."""
    return bool(np.count_nonzero(flags) == flags.size)


DTYPES: dict[str, np.dtype[Any]] = {
    **{f"{kind}{bits}": np.dtype(f"u{bits // 8}") for kind in "ub" for bits in (8, 16, 32, 64)},
    **{f"s{bits}": np.dtype(f"i{bits // 8}") for bits in (8, 16, 32, 64)},
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "tf32": np.dtype(np.float32),
    "f16x2": np.dtype(np.uint32),
    "bf16x2": np.dtype(np.uint32),
    "e4m3x2": np.dtype(np.uint16),
    "e5m2x2": np.dtype(np.uint16),
    "u16x2": np.dtype(np.uint32),
    "s16x2": np.dtype(np.uint32),
    "pred": np.dtype(np.bool_),
    "b128": np.dtype("V16"),  # what is only moved
}

UNSIGNED: dict[int, np.dtype[Any]] = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}
SIGNED: dict[int, np.dtype[Any]] = {size: np.dtype(f"i{size}") for size in (1, 2, 4, 8)}
FLOATS = frozenset({"f16", "bf16", "f32", "f64", "tf32"})
SIZES: dict[str, int] = {name: dtype.itemsize for name, dtype in DTYPES.items()}


def where(condition: Any, yes: Any, no: Any) -> Array:
    """np.where with the type that this package uses for arrays."""
    chosen: Array = np.where(condition, yes, no)
    return chosen


def lanes_of(masks: Array) -> tuple[Array, Array]:
    """(position, lane) of each bit that is set in masks of a warp's lanes."""
    bits = np.unpackbits(masks.astype("<u4").view(np.uint8).reshape(-1, 4), axis=1, bitorder="little")
    position, lane = np.nonzero(bits)
    return position, lane


def spread(values: Array, shape: tuple[int, ...]) -> Array:
    """`np.broadcast_to`, for what mostly has this shape already."""
    return values if values.shape == shape else np.broadcast_to(values, shape)


def is_signed(name: str) -> bool:
    """Whether integers of this type are sign-extended when they are widened."""
    return name[0] == "s" and name[1].isdigit()


REDUCTIONS: dict[str, np.ufunc] = {  # of integers
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
