"""Scalars in global and shared memory that a kernel loads, changes and stores again: what the program means once is
done once, and its next reader reads what was stored. For each target, in the simulator under each schedule or on
the GPU."""

from __future__ import annotations

import numpy as np
import pytest
from support import USE_GPU, on_device, on_host
from targets import EVERY

import minitile as mt
import minitile.language as T

pytestmark = [
    pytest.mark.usefixtures("target"),
    pytest.mark.parametrize("target", EVERY, indirect=True, scope="module"),
]
SCHEDULES = ("auto",) if USE_GPU else ("lazy", "eager", "random")


def check(kernel: mt.Kernel, array: np.ndarray, expected: np.ndarray) -> None:
    for schedule in SCHEDULES:
        if USE_GPU:
            there = on_device(array)
            kernel(there)
            result = on_host(there)
        else:
            result = array.copy()
            kernel.compile(result).simulate(result, schedule=schedule, seed=1)
        np.testing.assert_array_equal(result, expected)


@mt.kernel
def in_place(X: T.Tensor((8,), T.int32)):
    with T.Kernel(3, threads=256) as bx:
        X[bx] = X[bx] + 5


@mt.kernel
def one_after_another(X: T.Tensor((8,), T.int32)):
    with T.Kernel(1, threads=256):
        X[1] = X[0] + 5
        X[2] = X[1] * 3


@mt.kernel
def in_a_loop(X: T.Tensor((8,), T.int32)):
    with T.Kernel(1, threads=256):
        for k in T.serial(7):
            X[k + 1] = X[k] + k


@mt.kernel
def at_what_is_loaded(X: T.Tensor((8,), T.int32)):
    """A linked list, followed and turned around."""
    with T.Kernel(1, threads=256):
        before = T.int32(7)
        at = T.int32(0)
        for _ in T.serial(4):
            following = X[at]
            X[at] = before
            before = at
            at = following


@mt.kernel
def on_a_condition(X: T.Tensor((8,), T.int32)):
    with T.Kernel(1, threads=256):
        for k in T.serial(8):
            if X[k] > 3:
                X[7 - k] = 10


@mt.kernel
def by_way_of_shared_memory(X: T.Tensor((8,), T.int32)):
    with T.Kernel(1, threads=256):
        count = T.alloc_shared((2,), T.int32)
        count[0] = X[0]
        for k in T.serial(1, 8):
            count[0] = count[0] + X[k]
            X[k] = count[0]


def test_each_block_changes_its_own() -> None:
    check(in_place, np.arange(8, dtype=np.int32), np.array([5, 6, 7, 3, 4, 5, 6, 7], np.int32))


def test_what_was_stored_is_loaded_next() -> None:
    check(one_after_another, np.arange(8, dtype=np.int32), np.array([0, 5, 15, 3, 4, 5, 6, 7], np.int32))
    check(in_a_loop, np.full(8, 2, np.int32), np.array([2, 2, 3, 5, 8, 12, 17, 23], np.int32))


def test_where_it_goes_is_loaded_too() -> None:
    check(at_what_is_loaded, np.array([3, 0, 6, 5, 0, 2, 1, 9], np.int32), np.array([7, 0, 5, 0, 0, 3, 1, 9], np.int32))


def test_whether_it_goes_is_loaded_too() -> None:
    numbers = np.array([1, 9, 3, 4, 0, 5, 2, 3], np.int32)
    expected = numbers.copy()
    for k in range(8):
        if expected[k] > 3:
            expected[7 - k] = 10
    check(on_a_condition, numbers, expected)


def test_running_sums() -> None:
    numbers = np.array([1, 9, 3, 4, 0, 5, 2, 3], np.int32)
    check(by_way_of_shared_memory, numbers, np.concatenate([numbers[:1], np.cumsum(numbers)[1:]]).astype(np.int32))
