"""Reductions of every dtype, over widths that are no power of two and over several warps, against NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
import minitile.language as T

NUMPY = {
    "reduce_sum": lambda a: a.sum(1),
    "reduce_max": lambda a: a.max(1),
    "reduce_min": lambda a: a.min(1),
    "reduce_absmax": lambda a: abs(a).max(1),
    "reduce_abssum": lambda a: abs(a).sum(1),
}
DTYPES = ["float64", "float32", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "uint32", "uint64"]


@pytest.mark.parametrize("name", NUMPY)
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows(name, dtype):
    """Small whole numbers, so that every dtype is exact."""
    element = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    rng = np.random.default_rng(0)
    for rows, width, threads in ((16, 48, 64), (8, 40, 128), (32, 20, 32)):

        @mt.kernel
        def kernel(A: T.Tensor((rows, width), dtype), B: T.Tensor((rows,), dtype)):
            with T.Kernel(1, threads=threads):  # noqa: B023 - traced at once
                F = T.alloc_fragment((rows, width), dtype)  # noqa: B023
                R = T.alloc_fragment((rows,), dtype)  # noqa: B023
                T.copy(A, F)
                getattr(T, name)(F, R, dim=1)
                T.copy(R, B)

        wide = rng.integers(0 if dtype.startswith("u") else -2, 3, (rows, width))
        got = np.full(rows, 99, element)
        kernel(wide.astype(element), got)
        np.testing.assert_array_equal(got.astype(np.int64), NUMPY[name](wide))


def test_rows_and_columns_of_one_index_differ():
    """The same loaded numbers along both dimensions: i >= j is not i >= i."""

    @mt.kernel
    def kernel(A: T.Tensor((32,), T.int32), B: T.Tensor((32, 32), T.int32)):
        with T.Kernel(1, threads=64):
            F = T.alloc_fragment((32,), T.int32)
            T.copy(A, F)
            for i, j in T.Parallel(32, 32):
                B[i, j] = T.if_then_else(F[i] >= F[j], 1, 0) + 2 * max(F[i], F[j])

    a = np.random.default_rng(1).permutation(32).astype(np.int32)
    b = np.zeros((32, 32), np.int32)
    kernel(a, b)
    rows, columns = a[:, None], a[None, :]
    np.testing.assert_array_equal(b, (rows >= columns) + 2 * np.maximum(rows, columns))
