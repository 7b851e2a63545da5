"""What the indices of a fragment ask for, where T.Parallel's own indices decide: the pattern of `mem2reg`.

j // run * (n * run) + j % run + m * run     every n-th run: `interleaved_by`
j // n + m                                   each element n times: `repeated_by`
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minitile.ir.builder import ARRAYS, constant_of
from minitile.ir.core import Value
from minitile.ir.ops import arith, tile


def interleaved_by(index: Value, extent: int) -> tuple[int, int, int, int] | None:
    """The T.Parallel dimension, and and the run, count and index of the interleaved slice of `extent` elements that an
    index, a tile, asks for; None where it is none."""
    places = numbers_of(index)
    for d, size in enumerate(index.shape):
        if places is None or extent % size:
            continue
        along = places[tuple(slice(None) if n == d else 0 for n in range(places.ndim))]
        run = next((n for n in range(1, size) if along[n] != along[0] + n), size)
        elements = tile.InterleavedSlice.place(np.arange(size), run, extent // size, int(along[0]) // run)
        whole = np.expand_dims(elements, tuple(n for n in range(places.ndim) if n != d))
        inside = size % run == 0 and 0 <= along[0] < extent // size * run
        if inside and np.array_equal(np.broadcast_to(whole, places.shape), places):
            return d, run, extent // size, int(along[0]) // run
    return None


def repeated_by(index: Value, extent: int) -> tuple[int, int, int] | None:
    """The T.Parallel dimension, the first element and how often each one comes, where an index, a tile, asks for
    neighbours of `extent` elements so; None where it does not."""
    places = numbers_of(index)
    for d, size in enumerate(index.shape):
        if places is None:
            continue
        along = places[tuple(slice(None) if n == d else 0 for n in range(places.ndim))]
        first, count = int(along[0]), int(along[-1]) - int(along[0]) + 1
        if count < 1 or size % count or first < 0 or first + count > extent:
            continue
        whole = np.expand_dims(
            np.arange(size) // (size // count) + first, tuple(n for n in range(places.ndim) if n != d)
        )
        if np.array_equal(np.broadcast_to(whole, places.shape), places):
            return d, first, size // count
    return None


_ARITHMETIC = (
    *(arith.Add, arith.Sub, arith.Mul, arith.FloorDiv, arith.FloorMod),
    *(arith.Min, arith.Max, arith.And, arith.Or, arith.Xor),
)


def numbers_of(value: Value) -> Any:
    """The elements of a tile of integers that only its own indices decide: an array, or a number for a scalar; else
    None."""
    op = value.op
    if op is None:
        return None
    if isinstance(op, tile.Iota):
        return np.indices(op.shape)[op.dim]
    if isinstance(op, tile.Expand):
        inner = numbers_of(op.a)
        return None if inner is None else np.repeat(np.expand_dims(inner, op.dim), op.size, op.dim)
    if isinstance(op, tile.Splat):
        number = constant_of(op.value)
        return np.full(op.shape, number) if isinstance(number, int) else None
    if isinstance(op, arith.Cast) and op.to.is_int:
        return numbers_of(op.a)
    if isinstance(op, _ARITHMETIC):
        parts = [numbers_of(v) for v in op.operands]
        return None if any(part is None for part in parts) else ARRAYS[type(op)](*parts)
    number = constant_of(value)
    return number if isinstance(number, int) else None
