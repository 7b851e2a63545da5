"""What the simulators of both instruction sets do with a call's arguments: sizes, schedules, arrays in and out."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from .errors import SimulationError
from .scalars import Array
from .sparse import copy_back

Dim = tuple[int, int, int]


@dataclass(frozen=True)
class Within:
    """The argument for a pointer into the middle of an array: `offset` bytes from its first one. `root` is what is laid
    out in memory."""

    root: Array
    offset: int

    @staticmethod
    def of(array: Array) -> Within:
        """To the first element of an array of any strides; the root is the memory from its lowest to its highest byte,
        what is in gaps included."""
        turned = array[tuple(slice(None, None, -1 if s < 0 else 1) for s in array.strides)]
        reach = sum(s * (n - 1) for s, n in zip(turned.strides, turned.shape, strict=True)) if array.size else -1
        count = reach // array.itemsize + 1 if array.size else 0
        with warnings.catch_warnings():  # of arrays that NumPy would rather hold read-only
            warnings.simplefilter("ignore", DeprecationWarning)
            root = as_strided(turned, (count,), (array.itemsize,), writeable=array.flags.writeable)
        return Within(root, address_of(array) - address_of(root) if array.size else 0)

    def copy(self) -> Within:
        """The same of a copy of the memory."""
        return Within(self.root.copy(), self.offset)

    def view(self, like: Array) -> Array:
        """The array of the shape and strides of `like` that begins here."""
        found: Array = np.ndarray(like.shape, like.dtype, self.root.view(np.uint8), self.offset, like.strides)
        return found


def address_of(array: Array) -> int:
    """Of an array's first element."""
    found: int = array.__array_interface__["data"][0]
    return found


def array_of(argument: Any) -> Any:
    """The array that an argument's memory is laid out from; the argument itself where it is of another kind."""
    return argument.root if isinstance(argument, Within) else argument


def sizes_of(values: Sequence[int]) -> Dim:
    """Of a grid, a block or a cluster; those that are not given are 1."""
    padded = [int(value) for value in values] + [1] * (3 - len(values))
    if len(padded) != 3 or min(padded) < 1:
        raise SimulationError(f"a grid, block or cluster has up to three positive sizes, not {tuple(values)}")
    return padded[0], padded[1], padded[2]


def check_schedule(schedule: str) -> None:
    if schedule not in ("eager", "lazy", "random"):
        raise SimulationError(f"schedule must be 'eager', 'lazy' or 'random', not {schedule!r}")


def check_contiguous(index: int, array: Array) -> None:
    if not array.flags.c_contiguous:
        raise SimulationError(f"argument {index} is not contiguous")


def skew_of(array: Array) -> int:
    """How far behind a multiple of 16 bytes an array begins in the caller's memory, and so in the simulation."""
    return address_of(array) % 16


def allocations_of(arrays: Sequence[Array]) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The allocations of a launch, each as the number of the array that it begins with and its bytes; and where the
    arrays lie: in which allocation, from which byte on. Arrays that share memory (the same array passed twice, views of
    one base) share their allocation too."""
    spans = [(array.__array_interface__["data"][0], array.nbytes) for array in arrays]
    allocations: list[tuple[int, int]] = []
    places = [(0, 0)] * len(arrays)
    here, base, top = -1, 0, 0  # the allocation that may be shared, and its bytes in the caller's memory
    for index in sorted(range(len(arrays)), key=lambda each: (spans[each][0], -spans[each][1])):
        begin, size = spans[index]
        if size and here >= 0 and begin < top:
            top = max(top, begin + size)
            allocations[here] = allocations[here][0], top - base
            places[index] = here, begin - base
            continue
        places[index] = len(allocations), 0
        if size:
            here, base, top = len(allocations), begin, begin + size
        allocations.append((index, size))
    return allocations, places


def write_back(results: Sequence[tuple[Array, Array]], entry: str) -> None:
    """The bytes that a launch has left, the second of each pair, go to the caller's array, the first. Raises
    SimulationError where they may not: in a read-only array that is no view of a writable one among them."""
    for array, result in results:
        if array.flags.writeable:
            copy_back(array.reshape(-1).view(np.uint8), result)
    for array, result in results:
        if not array.flags.writeable and not np.array_equal(array.reshape(-1).view(np.uint8), result):
            raise SimulationError(f"{entry} writes into an array that NumPy holds read-only (flags.writeable)")
