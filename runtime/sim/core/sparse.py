"""Memory of which only what is touched takes space: a launch may have tensors larger than the machine's memory.

The system gives a page of zeros when a page is first written. So arrays are made of zeros, and what comes from a caller
and goes back is moved page by page: those that were never touched are zeros, and need not be looked at.

Sources: Linux, mmap(2): MAP_NORESERVE, without which the system refuses what is obviously more than it has; "Examining
Process Page Tables" (pagemap: a page's bits 63 and 62: present, swapped); proc(5) (maps).
"""

from __future__ import annotations

import mmap
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from .scalars import Array

LARGE = 1 << 26  # bytes from which on it is worth looking at pages
_PAGE = mmap.PAGESIZE
_MANY = 1 << 18  # pages whose entries are read together
_PIECE = 1 << 22  # bytes that are looked at together
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
    for part in _touched(source):
        if source[part].any():
            to[part] = source[part]


def copy_back(to: Array, result: Array) -> None:
    """Puts the bytes that `copy_in` has put into other memory, and what has become of them, where they differ."""
    if result.nbytes < LARGE:
        to[:] = result
        return
    for part in _touched(result):
        if not np.array_equal(to[part], result[part]):
            to[part] = result[part]


def _touched(array: Array) -> Iterator[slice]:
    """The parts of an array of bytes that may be other than 0: pages, as far as they lie inside."""
    address, size = array.__array_interface__["data"][0], len(array)
    first, last = address // _PAGE, -(-(address + size) // _PAGE)
    try:
        if _anonymous(address, address + size):
            with open("/proc/self/pagemap", "rb", buffering=0) as file:
                for at in range(first, last, _MANY):
                    file.seek(at * 8)
                    data = file.read(min(_MANY, last - at) * 8)
                    for page in np.flatnonzero(np.frombuffer(data, np.uint64) >> np.uint64(62)).tolist():
                        start = (at + page) * _PAGE - address
                        yield slice(max(0, start), min(size, start + _PAGE))
            return
    except OSError:
        pass
    yield from (slice(at, at + _PIECE) for at in range(0, size, _PIECE))


def _anonymous(start: int, end: int) -> bool:
    """Whether the addresses are the process's own memory, which is not a file's."""
    with open("/proc/self/maps", encoding="ascii", errors="replace") as file:
        for line in file:
            span, mode, _, _, inode, *_ = line.split()
            low, high = (int(each, 16) for each in span.split("-"))
            if low <= start < high:
                if mode[3] != "p" or inode != "0":
                    return False
                start = high
            if start >= end:
                return True
    return False
