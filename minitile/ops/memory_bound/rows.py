"""What kernels along the rows of a matrix have in common: how rows are spread over blocks, and how calls are read.

A row stays in registers. A short one has a warp, or its share of one's registers, so that it is reduced by shuffles
alone; a longer one has as many warps as give each thread HELD elements. Bytes on their way, not arithmetic, decide how
fast that is: a multiprocessor wants 32 to 48 KB of them.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

from minitile.driver.dispatch import caller_location, raise_for_caller
from minitile.ir.diagnostics import LaunchArgumentError
from minitile.ir.types import DType
from minitile.language.math import dtype_of_name
from minitile.ops.array_adapters import Frame, frame_of
from minitile.runtime.arrays import describe
from minitile.runtime.errors import LaunchError

DTYPES = ("f32", "bf16", "f16")
INDICES = ("i64", "i32")
VECTOR = 16  # bytes
LANES = 32
HELD = 32  # elements of a thread, if the row does not give it less
MOST_HELD = 64
WARPS = 4  # of a block, where rows do not need more
MOST_WARPS = 32


class RowPlan(NamedTuple):
    """A block of `threads` has `rows` rows at a time, each in a fragment of `columns`, at least as many as it has
    elements."""

    rows: int
    columns: int
    threads: int

    def constants(self, n: int) -> dict[str, Any]:
        """Compile-time arguments of a kernel along rows of n elements. exact: the fragment has no columns behind the
        row, and the kernel no masks."""
        return {"rows": self.rows, "columns": self.columns, "threads": self.threads, "exact": self.columns == n}


@lru_cache
def row_plan(n: int, dtype: DType) -> RowPlan | None:
    """The plan for rows of n elements; None where registers do not hold them."""
    vector = VECTOR // dtype.bytes
    grain = LANES * vector  # elements that a warp loads at once
    grains = max(1, math.ceil(n / grain))
    deep = HELD // vector  # loads of a thread
    if grains <= deep:
        return RowPlan(WARPS * (deep // grains), grains * grain, WARPS * LANES)
    most = MOST_HELD // vector
    if grains > MOST_WARPS * most:
        return None
    if grains > MOST_WARPS * deep:
        deep = math.ceil(grains / MOST_WARPS)
    warps = math.ceil(grains / deep)
    deep = math.ceil(grains / warps)
    return RowPlan(1, deep * warps * grain, warps * LANES)


def refused(what: str, hint: str = "") -> LaunchArgumentError:
    return LaunchArgumentError(what, caller_location(), hint)


class Rows(NamedTuple):
    """An argument as a matrix: leading dimensions are rows."""

    matrix: Any
    given: Any
    shape: tuple[int, ...]  # as given
    m: int
    n: int
    dtype: DType
    frame: Frame

    def empty(self, shape: tuple[int, ...], dtype: DType) -> Any:
        """A new array where the argument is."""
        return self.frame.empty(shape, dtype, self.given)

    def like(self, what: str, x: Any) -> Any:
        """Another array of this shape as a matrix."""
        other = rows_of(what, x)
        if other.shape != self.shape:
            raise refused(f"{what} has shape {other.shape}; it must be {self.shape}")
        return other.matrix

    def result(self, out: Any, dtype: DType | None = None, what: str = "out") -> tuple[Any, Any]:
        """An array of this shape for a result, new or given, and the same as a matrix."""
        dtype = dtype or self.dtype
        if out is None:
            out = self.empty(self.shape, dtype)
            return out, out.reshape(self.m, self.n)
        info = _described(what, out)
        if tuple(info.shape) != self.shape or info.dtype != dtype.name or not info.contiguous:
            raise refused(
                f"{what} is {info.dtype} of shape {tuple(info.shape)}",
                f"pass {dtype} of shape {self.shape}, row-major without gaps",
            )
        return out, out.reshape(self.m, self.n)


def rows_of(what: str, x: Any) -> Rows:
    """An argument of f32, bf16 or f16 as rows. Raises LaunchArgumentError for others."""
    info = _described(what, x)
    frame = frame_of(x)
    if frame is None:
        raise refused(f"{what} is no array of torch, CuPy or NumPy")
    if info.dtype not in DTYPES:
        raise refused(f"{what} is {info.dtype}", f"it may be {', '.join(DTYPES)}")
    if not info.shape:
        raise refused(f"{what} has no dimensions", "give it one row: x.reshape(1)")
    shape = tuple(info.shape)
    m, n = math.prod(shape[:-1]), shape[-1]
    matrix = (x if info.contiguous else frame.whole(x)).reshape(m, n)
    return Rows(matrix, x, shape, m, n, dtype_of_name(info.dtype), frame)


def vector_of(what: str, x: Any, n: int) -> Any:
    """A weight or a bias: one element for each column. Raises LaunchArgumentError for others."""
    info = _described(what, x)
    if tuple(info.shape) != (n,) or info.dtype not in DTYPES:
        raise refused(
            f"{what} is {info.dtype} of shape {tuple(info.shape)}", f"it has a number for each of {n} columns"
        )
    frame = frame_of(x)
    return x if info.contiguous or frame is None else frame.whole(x)


def indices_of(what: str, x: Any, shape: tuple[int, ...]) -> Any:
    """i64 or i32 numbers, one for each row, as a vector. Raises LaunchArgumentError for others."""
    info = _described(what, x)
    if tuple(info.shape) != shape or info.dtype not in INDICES:
        raise refused(
            f"{what} is {info.dtype} of shape {tuple(info.shape)}", f"pass {' or '.join(INDICES)} of shape {shape}"
        )
    frame = frame_of(x)
    return (x if info.contiguous or frame is None else frame.whole(x)).reshape(-1)


def _described(what: str, x: Any) -> Any:
    try:
        return describe(x)
    except LaunchError as error:
        raise_for_caller(error)
