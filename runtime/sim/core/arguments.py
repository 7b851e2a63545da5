"""What the simulators of both instruction sets do with a call's arguments: sizes, schedules, arrays in and out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .errors import SimulationError
from .scalars import Array
from .sparse import copy_back

Dim = tuple[int, int, int]


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
