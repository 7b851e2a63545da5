"""Kernels of a row a block, their columns under a mask, as users write them: against NumPy in float64 for rows of any
length, on every target; and how wide their accesses are."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from targets import EVERY, ON_GPU

import minitile as mt
import minitile.language as T

BF16 = np.dtype(ml_dtypes.bfloat16)
ROWS = 3


@mt.kernel
def softmax(X: T.Tensor(("M", "N"), T.bfloat16), Y: T.Tensor(("M", "N"), T.bfloat16), columns=1024, threads=128):
    M, N = X.shape
    with T.Kernel(M, threads=threads) as bx:
        x = T.alloc_fragment((1, columns), T.float32)
        top = T.alloc_fragment((1,), T.float32)
        total = T.alloc_fragment((1,), T.float32)
        for i, j in T.Parallel(1, columns):
            x[i, j] = T.if_then_else(j < N, T.cast(X[bx + i, j], T.float32), -T.infinity(T.float32))
        T.reduce_max(x, top, dim=1)
        for i, j in T.Parallel(1, columns):
            x[i, j] = T.exp(x[i, j] - top[i])
        T.reduce_sum(x, total, dim=1)
        for i, j in T.Parallel(1, columns):
            Y[bx + i, j] = x[i, j] / total[i]


@mt.kernel
def rms_norm(
    X: T.Tensor(("M", "N"), T.bfloat16),
    W: T.Tensor(("N",), T.bfloat16),
    Y: T.Tensor(("M", "N"), T.bfloat16),
    columns=1024,
    threads=128,
):
    M, N = X.shape
    with T.Kernel(M, threads=threads) as bx:
        x = T.alloc_fragment((1, columns), T.float32)
        sq = T.alloc_fragment((1, columns), T.float32)
        s = T.alloc_fragment((1,), T.float32)
        for i, j in T.Parallel(1, columns):
            x[i, j] = T.if_then_else(j < N, T.cast(X[bx + i, j], T.float32), 0.0)
        for i, j in T.Parallel(1, columns):
            sq[i, j] = x[i, j] * x[i, j]
        T.reduce_sum(sq, s, dim=1)
        for i in T.Parallel(1):
            s[i] = T.rsqrt(s[i] / T.cast(N, T.float32) + 1e-5)
        for i, j in T.Parallel(1, columns):
            Y[bx + i, j] = x[i, j] * s[i] * T.cast(W[j], T.float32)


@mt.kernel
def log_sum(X: T.Tensor(("M", "N"), T.bfloat16), L: T.Tensor(("M",), T.float32), columns=512, threads=64):
    """The logarithm of the sum of exponentials, a piece of the row at a time."""
    M, N = X.shape
    with T.Kernel(M, threads=threads) as bx:
        x = T.alloc_fragment((1, columns), T.float32)
        m = T.alloc_fragment((1, columns), T.float32)
        s = T.alloc_fragment((1, columns), T.float32)
        top = T.alloc_fragment((1,), T.float32)
        total = T.alloc_fragment((1,), T.float32)
        T.fill(m, -1e30)
        T.clear(s)
        for k in T.serial(T.ceildiv(N, columns)):
            for i, j in T.Parallel(1, columns):
                x[i, j] = T.if_then_else(k * columns + j < N, T.cast(X[bx + i, k * columns + j], T.float32), -1e30)
            for i, j in T.Parallel(1, columns):
                new = T.max(m[i, j], x[i, j])
                s[i, j] = s[i, j] * T.exp(m[i, j] - new) + T.exp(x[i, j] - new)
                m[i, j] = new
        T.reduce_max(m, top, dim=1)
        for i, j in T.Parallel(1, columns):
            s[i, j] = s[i, j] * T.exp(m[i, j] - top[i])
        T.reduce_sum(s, total, dim=1)
        for i in T.Parallel(1):
            L[bx + i] = T.log(total[i]) + top[i]


@mt.kernel
def gated(X: T.Tensor(("M", "N2"), T.bfloat16), Y: T.Tensor(("M", "N"), T.bfloat16), columns=512, threads=64):
    M, N = Y.shape
    with T.Kernel(T.ceildiv(N, columns), M, threads=threads) as (bx, by):
        for j in T.Parallel(columns):
            g = T.cast(X[by, bx * columns + j], T.float32)
            u = T.cast(X[by, N + bx * columns + j], T.float32)
            if bx * columns + j < N:
                Y[by, bx * columns + j] = g / (1.0 + T.exp(-g)) * u


@mt.kernel
def between(
    X: T.Tensor(("M", "N"), T.bfloat16),
    Y: T.Tensor(("M", "N"), T.bfloat16),
    first: T.int32,
    last: T.int32,
    odd: T.int32,
    rows=4,
    columns=512,
    threads=64,
):
    """Y = X in columns first … last - 1, in rows before M - odd; -2 in the others of these rows."""
    M, N = X.shape
    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=threads) as (bx, by):
        for i, j in T.Parallel(rows, columns):
            r, c = by * rows + i, bx * columns + j
            if r < M - odd and c < N:
                Y[r, c] = T.if_then_else(first <= c and c < last, X[r, c], T.cast(-2.0, T.bfloat16))


def rows(n: int, m: int = ROWS, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal((m, n)).astype(BF16)


def close(got: Any, expected: Any) -> None:
    np.testing.assert_allclose(got.astype(np.float64), expected, rtol=2**-7, atol=1e-6)


def power_of_two(n: int, least: int = 128) -> int:
    return max(least, 1 << max(n - 1, 0).bit_length())


SIZES = [0, 1, 17, 96, 1000, 1001]


@pytest.mark.skipif(ON_GPU, reason="in the simulator")
@pytest.mark.parametrize("target", EVERY)
@pytest.mark.parametrize("n", SIZES)
def test_against_numpy(target: str, n: int) -> None:
    check(target, n)


@pytest.mark.slow
@pytest.mark.skipif(ON_GPU, reason="in the simulator")
@pytest.mark.parametrize("target", EVERY)
@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
@pytest.mark.parametrize("n", [5000, 4096, 2040])
def test_long_rows(target: str, schedule: str, n: int) -> None:
    check(target, n, schedule)


def check(target: str, n: int, schedule: str = "lazy") -> None:
    columns = power_of_two(n)
    x, w = rows(n), rows(n, 1, seed=1)[0]
    exact, weight = x.astype(np.float64), w.astype(np.float64)

    def run(kernel: Any, *args: Any, **constants: Any) -> None:
        specs = [
            mt.spec(a.shape, "bfloat16" if a.dtype == BF16 else str(a.dtype)) if hasattr(a, "shape") else a
            for a in args
        ]
        kernel.compile(*specs, target=target, **constants).simulate(*args, schedule=schedule, seed=n)

    y = np.full((ROWS, n), 7, BF16)
    run(softmax, x, y, columns=columns)
    e = np.exp(exact - exact.max(1, keepdims=True, initial=-np.inf))
    close(y, e / e.sum(1, keepdims=True))
    y = np.full((ROWS, n), 7, BF16)
    run(rms_norm, x, w, y, columns=columns)
    mean = (exact**2).sum(1, keepdims=True) / max(n, 1)
    close(y, exact / np.sqrt(mean + 1e-5) * weight)
    if n:
        found = np.zeros(ROWS, np.float32)
        run(log_sum, x, found)
        close(found, np.log(np.exp(exact).sum(1)))
    y = np.full((ROWS, n), 7, BF16)
    both = rows(2 * n, seed=2)
    run(gated, both, y)
    g, u = np.split(both.astype(np.float64), 2, axis=1)
    close(y, g / (1 + np.exp(-g)) * u)
    for first, last, odd in ((0, n, 0), (3, n - 5, 1), (8, max(n - 8, 0), 0)):
        y = np.full((ROWS, n), 7, BF16)
        run(between, x, y, first, last, odd)
        here = np.arange(n)[None, :]
        expected = np.where((here >= first) & (here < last), exact, -2.0)
        expected[ROWS - odd :] = 7
        close(y, expected)


def widths(kernel: Any, n: int, **constants: Any) -> Counter[str]:
    shapes = {"X": (64, n), "Y": (64, n), "W": (n,)}
    names = ["X", "W", "Y"] if kernel is rms_norm else ["X", "Y"]
    shapes["X"] = (64, 2 * n) if kernel is gated else (64, n)
    text = kernel.compile(*[mt.spec(shapes[name], "bfloat16") for name in names], target="sm_90a", **constants).asm[
        "ptx"
    ]
    return Counter(re.findall(r"((?:ld|st)\.global\S*)", text))


@pytest.mark.parametrize(
    ("n", "suffix"), [(4096, "v4.b32"), (5000, "v4.b32"), (4004, "v2.b32"), (4002, "b32"), (4001, "b16")]
)
def test_accesses_are_as_wide_as_the_rows_allow(n: int, suffix: str) -> None:
    """What divides N is known: 128, 8, 4, 2, 1. Where that is no vector, tiles are rotated onto vectors, and only those
    that a row's ends cut go by elements; the gated kernel's tensors begin apart from each other, and cannot share."""
    wide = {"ld.global.v4.b32", "st.global.v4.b32"}
    for kernel in (softmax, rms_norm, gated):
        constants = {} if kernel is gated else {"columns": 4096 if n <= 4096 else 8192, "threads": 256}
        found = widths(kernel, n, **constants)
        if suffix == "v4.b32":
            assert set(found) == wide, kernel
        elif kernel is gated:
            assert set(found) - {"ld.global.b16"} == {f"ld.global.{suffix}", f"st.global.{suffix}"} - {"ld.global.b16"}
        else:
            assert set(found) == wide | {"ld.global.b16", "st.global.b16"}, kernel
            assert found["st.global.b16"] == 8, "those of one vector"


def test_one_predicate_for_each_vector() -> None:
    text = softmax.compile(
        mt.spec((64, 4096), "bfloat16"), mt.spec((64, 4096), "bfloat16"), target="sm_90a", columns=4096
    ).asm
    loads = re.findall(r"@%p\d+ ld\.global\.v4\.b32", text["ptx"])
    assert len(loads) == 4096 // 128 // 8
    assert len(re.findall(r"setp\.lt", text["ptx"])) <= 2 * len(loads), "the load's and the store's"
