"""Integers that wrap, and indices that 32 bits do not hold: what each target's code does, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import minitile as mt
import minitile.language as T


@pytest.fixture(params=["sm_80", "sm_90a", "gfx942", "gfx950"])
def run(request):
    def launch(kernel, *arrays):
        """What the kernel leaves in its last array."""
        kernel.compile(*arrays, target=request.param).simulate(*arrays)
        return arrays[-1]

    return launch


# Counters and indices of T.Parallel, as unsigned numbers --------------------------------------------------------------

COUNTER = np.arange(20, dtype=np.uint32)


def test_a_remainder_of_what_wraps_below_zero(run):
    @mt.kernel
    def kernel(C: T.Tensor((2, 20), T.uint32)):
        with T.Kernel(1, threads=128):
            for k in T.serial(20):
                C[0, k] = (T.uint32(k) - T.uint32(1)) % T.uint32(7)
                C[1, k] = T.uint32(k - 3) % T.uint32(7)

    with np.errstate(over="ignore"):
        expected = [(COUNTER - np.uint32(1)) % 7, (COUNTER - np.uint32(3)) % 7]
    np.testing.assert_array_equal(run(kernel, np.zeros((2, 20), np.uint32)), expected)


def test_a_sum_with_a_product_that_wraps(run):
    @mt.kernel
    def kernel(Z: T.Tensor((1,), T.int64), C: T.Tensor((2, 20), T.int64)):
        with T.Kernel(1, threads=128):
            base = Z[0]
            for k in T.serial(20):
                C[0, k] = base + T.int64(T.uint32(k) * T.uint32(2654435761))
                C[1, k] = base + T.int64(T.uint32(k - 4))

    got = run(kernel, np.array([5], np.int64), np.zeros((2, 20), np.int64))
    with np.errstate(over="ignore"):
        expected = [COUNTER * np.uint32(2654435761), COUNTER - np.uint32(4)]
    np.testing.assert_array_equal(got, np.array(expected).astype(np.int64) + 5)


def test_indices_that_wrap_element_by_element(run):
    @mt.kernel
    def kernel(A: T.Tensor((64,), T.float32), C: T.Tensor((4, 64), T.float32)):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(64):
                C[0, i] = A[T.uint32(i) - T.uint32(5)]
                C[1, i] = A[T.uint32(i + 60)]
                C[2, i] = A[T.uint32(i - 5)]
                C[3, i] = A[T.int64(T.uint32(i) - T.uint32(5)) + T.int64(5)]

    values = np.arange(1, 65, dtype=np.float32)
    got = run(kernel, values, np.full((4, 64), -1, np.float32))
    later = np.r_[np.zeros(5), values[:-5]]
    far = np.r_[np.zeros(5), values[5:]]  # the first five are 2**32 and more
    np.testing.assert_array_equal(got, [later, np.r_[values[60:], np.zeros(60)], later, far])
