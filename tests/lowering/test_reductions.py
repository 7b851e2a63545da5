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


NANS = {
    "reduce_max": (np.fmax, np.maximum, lambda a: a),
    "reduce_min": (np.fmin, np.minimum, lambda a: a),
    "reduce_absmax": (np.fmax, np.maximum, abs),
}


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942"])
@pytest.mark.parametrize("name", NANS)
def test_nan(name, target, monkeypatch):
    """One NaN in a row, in any place; what the result held before is one more element."""
    pytest.importorskip("llvmlite") if target.startswith("gfx") else None
    monkeypatch.setenv("MINITILE_TARGET", target)
    number_first, nan_first, of = NANS[name]
    rng = np.random.default_rng(3)
    for element in (np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)):
        dtype = element.name

        @mt.kernel
        def kernel(
            A: T.Tensor((16, 48), dtype),
            B: T.Tensor((16,), dtype),
            C: T.Tensor((16,), dtype),
            D: T.Tensor((16,), dtype),
        ):
            with T.Kernel(1, threads=128):
                F, R = T.alloc_fragment((16, 48), dtype), T.alloc_fragment((16,), dtype)  # noqa: B023
                T.copy(A, F)
                getattr(T, name)(F, R, dim=1)
                T.copy(R, B)
                getattr(T, name)(F, R, dim=1, nan_propagate=True)
                T.copy(R, C)
                T.copy(D, R)
                getattr(T, name)(F, R, dim=1, clear=False, nan_propagate=True)
                T.copy(R, D)

        a = rng.standard_normal((16, 48)).astype(element)
        a[np.arange(12), rng.permutation(48)[:12]] = np.nan
        a[12, :] = np.nan
        before = rng.standard_normal(16).astype(element)
        before[14] = np.nan
        b, c, d = np.full(16, 99, element), np.full(16, 99, element), before.copy()
        kernel(a, b, c, d)
        exact = of(a.astype(np.float64))
        np.testing.assert_array_equal(b.astype(np.float64), number_first.reduce(exact, 1))
        np.testing.assert_array_equal(c.astype(np.float64), nan_first.reduce(exact, 1))
        np.testing.assert_array_equal(
            d.astype(np.float64), nan_first(nan_first.reduce(exact, 1), before.astype(np.float64))
        )


@mt.kernel
def whole_rows(A: T.Tensor((4, 256), None), B: T.Tensor((4,), None), kind="max"):
    with T.Kernel(1, threads=128):
        F, R = T.alloc_fragment((4, 256), A.dtype), T.alloc_fragment((4,), A.dtype)
        T.copy(A, F)
        T.reduce(F, R, kind, dim=1)
        T.copy(R, B)


def text_of(dtype, kind="max"):
    return whole_rows.compile(mt.spec((4, 256), dtype), mt.spec((4,), dtype), target="sm_80", kind=kind).asm["ptx"]


def test_halves_stay_in_pairs():
    """The greatest of 16-bit floats is exact in 16 bits; a sum is not."""
    for dtype, pairs in (("bfloat16", "max.bf16x2"), ("float16", "max.f16x2")):
        text = text_of(dtype)
        assert text.count(pairs) == 3  # 8 elements in 4 words, then lower against upper half alone
        assert "prmt" not in text
    assert "add.rn.f16x2" not in text_of("float16", "sum")


@pytest.mark.parametrize("kind", ["sum", "max", "min", "bitand", "bitor", "bitxor"])
def test_integers_of_a_warp(kind):
    """One instruction in the place of five shuffles, where all lanes have parts of one result."""
    for dtype in ("int32", "uint32"):
        assert "redux.sync" in text_of(dtype, kind)
        x = np.random.default_rng(4).integers(0, 2**31, (4, 256)).astype(dtype)
        found = np.zeros(4, dtype)
        whole_rows(x, found, kind=kind)
        ufunc = {"sum": np.add, "max": np.maximum, "min": np.minimum, "bitand": np.bitwise_and}.get(
            kind, np.bitwise_or if kind == "bitor" else np.bitwise_xor
        )
        np.testing.assert_array_equal(found, ufunc.reduce(x, 1, dtype=dtype))
    assert "redux" not in text_of("float32", kind if kind in ("sum", "max", "min") else "max")
