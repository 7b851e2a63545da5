"""Memory of which only what is touched takes space: a launch may have tensors larger than the machine's memory.

The system gives a page of zeros when a page is first written. So arrays are made of zeros, and what comes from a caller
and goes back is moved by pieces, those of zeros and those that have not changed left out.

Source: Linux, mmap(2): MAP_NORESERVE; without it the system refuses what is obviously more than it has.
"""

from __future__ import annotations

import mmap
import sys
from typing import Any

import numpy as np

from .scalars import Array

LARGE = 1 << 26  # bytes from which on it is worth looking at them
_PIECE = 1 << 22
_NORESERVE = 0x4000  # MAP_NORESERVE of asm-generic/mman.h; Python names it from 3.13 on


def zeros(count: int, dtype: Any) -> Array:
    """As np.zeros of one dimension."""
    size = count * np.dtype(dtype).itemsize
    if size < LARGE or sys.platform != "linux":
        return np.zeros(count, dtype)
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE)
    return np.frombuffer(pages, dtype, count)


def copy_in(to: Array, source: Array) -> None:
    """Puts bytes into fresh zeros."""
    if source.nbytes < LARGE:
        to[:] = source
        return
    for at in range(0, len(source), _PIECE):
        piece = source[at : at + _PIECE]
        if piece.any():
            _copy(to[at : at + _PIECE], piece, piece)


def copy_back(to: Array, result: Array) -> None:
    """Puts bytes where they differ."""
    if result.nbytes < LARGE:
        to[:] = result
        return
    for at in range(0, len(result), _PIECE):
        piece, before = result[at : at + _PIECE], to[at : at + _PIECE]
        if not np.array_equal(before, piece):
            _copy(before, piece, before ^ piece)


def _copy(to: Array, source: Array, changed: Array) -> None:
    """The pages of which something is not 0 in `changed`."""
    whole = len(changed) // mmap.PAGESIZE * mmap.PAGESIZE
    for page in np.flatnonzero(changed[:whole].reshape(-1, mmap.PAGESIZE).any(axis=1)).tolist():
        part = slice(page * mmap.PAGESIZE, (page + 1) * mmap.PAGESIZE)
        to[part] = source[part]
    to[whole:] = source[whole:]
