"""Memory of which only what is touched takes space: a launch may have tensors larger than the machine's memory.

The system gives a page of zeros when a page is first written. So arrays are made of zeros, and what comes from a caller
and goes back is moved page by page: those that nobody has touched are zeros, and need not be looked at.

Sources: Linux, mmap(2): MAP_NORESERVE, without which the system refuses what is obviously more than it has; "Examining
Process Page Tables" (pagemap: a page's bits 63 and 62: present, swapped); proc(5) (maps).
"""

from __future__ import annotations

import mmap
import sys
from typing import Any

import numpy as np

from .scalars import Array

LARGE = 1 << 26  # bytes from which on it is worth looking at pages
_PAGE = mmap.PAGESIZE
_PIECE = 1 << 10  # pages that are looked at together
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


def _touched(array: Array) -> list[slice]:
    """The parts of an array of bytes that may be other than 0: pages, as far as they lie inside."""
    address, size = array.__array_interface__["data"][0], len(array)
    first, last = address // _PAGE, -(-(address + size) // _PAGE)
    pages = np.arange(last - first)
    try:
        if _anonymous(address, address + size):
            with open("/proc/self/pagemap", "rb", buffering=0) as file:
                file.seek(first * 8)
                data = b"".join(iter(lambda: file.read(min(1 << 24, (last - file.tell() // 8) * 8)), b""))
            if len(data) == 8 * len(pages):
                pages = np.flatnonzero(np.frombuffer(data, np.uint64) >> np.uint64(62))
    except OSError:
        pass
    starts = (pages + first) * _PAGE - address
    ends = starts + _PAGE
    if len(pages) == last - first:  # all of them: in larger pieces
        starts, ends = starts[::_PIECE], starts[::_PIECE] + _PIECE * _PAGE
    return [slice(max(0, start), min(size, end)) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


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
