"""Selects under masks that cut rows at their ends: right wherever they cut, and no test of each element where they do
not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minitile as mt
import minitile.language as T

COLUMNS, THREADS = 1024, 64


@mt.kernel
def kept(X: T.Tensor((COLUMNS,), T.float32), Y: T.Tensor((COLUMNS,), T.float32), low: T.int32, high: T.int32):
    """Y[j] = X[j] for low <= j < high, else -1."""
    with T.Kernel(1, threads=THREADS):
        x = T.alloc_fragment((COLUMNS,), T.float32)
        T.copy(X, x)
        for j in T.Parallel(COLUMNS):
            x[j] = T.if_then_else((j >= low) & (j < high), x[j], -1.0)
        T.copy(x, Y)


@pytest.mark.parametrize("target", ["sm_80", "gfx942"])
@pytest.mark.parametrize(
    ("low", "high"),
    [
        (0, COLUMNS),
        (0, 0),
        (0, 1),
        (3, 1021),
        (17, 18),
        (-5, 2 * COLUMNS),
        (COLUMNS, 5),
        (-(2**31), 2**31 - 1),
        (2**31 - 1, -(2**31)),
        (-(2**31), -(2**31)),
    ],
)
def test_bounds(target: str, low: int, high: int) -> None:
    x = np.random.default_rng(1).standard_normal(COLUMNS).astype(np.float32)
    y = np.full_like(x, np.nan)
    kept.compile(x, y, low, high, target=target).simulate(x, y, low, high)
    j = np.arange(COLUMNS)
    np.testing.assert_array_equal(y, np.where((j >= low) & (j < high), x, np.float32(-1)))


@mt.kernel
def scaled(X: T.Tensor((8, 256), T.float32), Y: T.Tensor((8, 256), T.float32), n: T.int32, m: T.int32):
    """Masks with steps of two, downwards and in two dimensions."""
    with T.Kernel(1, threads=64):
        x = T.alloc_fragment((8, 256), T.float32)
        T.copy(X, x)
        for i, j in T.Parallel(8, 256):
            x[i, j] = T.if_then_else(2 * j < n, x[i, j], 0.0)
        for i, j in T.Parallel(8, 256):
            x[i, j] = T.if_then_else(n - j > 3, x[i, j], 1.0)
        for i, j in T.Parallel(8, 256):
            x[i, j] = T.if_then_else(i < m, x[i, j], 2.0)
        for i, j in T.Parallel(8, 256):
            x[i, j] = T.if_then_else(i + j < n + m, x[i, j], 3.0)
        T.copy(x, Y)


@pytest.mark.parametrize(("n", "m"), [(0, 0), (100, 3), (255, 8), (511, 1), (512, 8), (1000, 100)])
def test_steps_and_dimensions(n: int, m: int) -> None:
    x = np.random.default_rng(2).standard_normal((8, 256)).astype(np.float32)
    y = np.full_like(x, np.nan)
    scaled.compile(x, y, n, m, target="sm_80").simulate(x, y, n, m)
    i, j = np.arange(8)[:, None], np.arange(256)
    exact = np.where(2 * j < n, x, 0)
    exact = np.where(n - j > 3, exact, 1)
    exact = np.where(i < m, exact, 2)
    np.testing.assert_array_equal(y, np.where(i + j < n + m, exact, 3))


@mt.kernel
def spread(X: T.Tensor((COLUMNS,), T.float32), Y: T.Tensor((COLUMNS,), T.float32), n: T.int32, step=1):
    with T.Kernel(1, threads=THREADS):
        x = T.alloc_fragment((COLUMNS,), T.float32)
        T.copy(X, x)
        for j in T.Parallel(COLUMNS):
            x[j] = T.if_then_else(j * step < n, x[j], -1.0)
        T.copy(x, Y)


@pytest.mark.parametrize("step", [1 << 19, 1 << 20, -(1 << 20), 3_000_000, 100_000_000])
@pytest.mark.parametrize("n", [-(2**31), -5, 1, 10**9, 2**31 - 1])
def test_large_steps(step: int, n: int) -> None:
    """Products that 32 bits do not hold."""
    x = np.random.default_rng(3).standard_normal(COLUMNS).astype(np.float32)
    y = np.full_like(x, np.nan)
    spread.compile(x, y, n, step=step, target="sm_80").simulate(x, y, n)
    np.testing.assert_array_equal(y, np.where(np.arange(COLUMNS) * step < n, x, np.float32(-1)))


@mt.kernel
def between_sizes(
    X: T.Tensor((COLUMNS,), T.float32), Y: T.Tensor((COLUMNS,), T.float32), P: T.Tensor(("P",), T.int8),
    Q: T.Tensor(("Q",), T.int8)
):  # fmt: skip
    with T.Kernel(1, threads=THREADS):
        x = T.alloc_fragment((COLUMNS,), T.float32)
        T.copy(X, x)
        for j in T.Parallel(COLUMNS):
            x[j] = T.if_then_else(P.shape[0] * 3 - Q.shape[0] + j < 1000, x[j], -1.0)
        T.copy(x, Y)


@pytest.mark.parametrize("sizes", [(2**31 - 1, 2**31 - 1), (2 * 10**9, 2 * 10**9 - 500), (10**9, 10), (700, 2000)])
def test_large_sums(sizes: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of sizes that 32 bits do not hold, though the sizes are of 32 bits."""
    monkeypatch.setenv("MINITILE_TARGET", "sm_80")
    p, q = (np.broadcast_to(np.zeros(1, np.int8), (n,)) for n in sizes)
    x = np.random.default_rng(4).standard_normal(COLUMNS).astype(np.float32)
    y = np.full_like(x, np.nan)
    between_sizes(x, y, p, q)
    inside = sizes[0] * 3 - sizes[1] + np.arange(COLUMNS) < 1000
    np.testing.assert_array_equal(y, np.where(inside, x, np.float32(-1)))


def test_one_test_a_thread() -> None:
    """The elements' own tests lie behind a branch."""
    x: Any = mt.spec((COLUMNS,), "float32")
    ptx = kept.compile(x, x, 1, 2, target="sm_80").asm["ptx"]
    tests = [line for line in ptx.splitlines() if "setp." in line]
    before = ptx[: ptx.index("selp.f32")]
    assert ptx.count("selp.f32") == COLUMNS // THREADS
    assert before.count("bra ") >= 1
    assert len(tests) >= 2 * COLUMNS // THREADS  # in the branch
    straight = before[: before.rindex("bra ")]
    assert straight.count("setp.") <= 8
