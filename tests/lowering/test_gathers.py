"""Accesses at indices that are tiles: neighbours in memory go in one access, where that is known; atomics of tiles."""

from __future__ import annotations

import re

import numpy as np
import pytest

import minitile as mt
import minitile.language as T

TARGETS = ("sm_80", "sm_90a", "gfx942")
RNG = np.random.default_rng(3)


@mt.kernel
def windows(X: T.Tensor(("H", 64), T.float16), Y: T.Tensor(("M", 128), T.float16), shift=0, wrap=64, up=8):
    """Rows of two neighbouring rows of X, of columns that wrap, some of them outside of X."""
    M, _ = Y.shape
    with T.Kernel(T.ceildiv(M, 16), threads=64) as bx:
        for i, j in T.Parallel(16, 128):
            k = j + shift
            Y[bx * 16 + i, j] = X[(bx * 16 + i) * 2 + k // wrap - up, k % wrap]


@mt.kernel
def rows_of(X: T.Tensor(("H", 64), T.float16), At: T.Tensor(("M",), T.int32), Y: T.Tensor(("M", 64), T.float16)):
    (M,) = At.shape
    with T.Kernel(T.ceildiv(M, 16), threads=64) as bx:
        for i, j in T.Parallel(16, 64):
            Y[bx * 16 + i, j] = X[At[bx * 16 + i], j]


@mt.kernel
def scattered(X: T.Tensor(("M", 64), T.float16), At: T.Tensor(("M",), T.int32), Y: T.Tensor(("H", 64), T.float16)):
    (M,) = At.shape
    with T.Kernel(T.ceildiv(M, 16), threads=64) as bx:
        for i, j in T.Parallel(16, 64):
            if bx * 16 + i < M:
                Y[At[bx * 16 + i], j] = X[bx * 16 + i, j]


def widest(text: str) -> int:
    """Bytes of the widest load of a tensor."""
    if ".visible .entry" in text:
        found = re.findall(r"ld\.global(?:\.L\w+::\w+)*\.?(v\d)?\.?[bf](\d+)", text)
        return max(int(v[1:] or 1) if v else 1 for v, _ in found) * 4 if found else 0
    sizes = {"dwordx4": 16, "dwordx2": 8, "dword": 4, "ushort": 2, "short_d16": 2, "short_d16_hi": 2}
    return max(sizes.get(s, 0) for s in re.findall(r"(?:global|buffer)_load_(\w+)", text))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("shift", "wrap", "wide"), [(0, 64, True), (1, 64, False), (0, 36, False)])
def test_windows(target: str, shift: int, wrap: int, wide: bool) -> None:
    x = RNG.standard_normal((17, 64)).astype(np.float16)
    y = np.full((17, 128), np.nan, np.float16)
    compiled = windows.compile(x, y, target=target, shift=shift, wrap=wrap)
    compiled.simulate(x, y)
    k = np.arange(128) + shift
    row = np.arange(17)[:, None] * 2 + k // wrap - 8
    inside = (row >= 0) & (row < 17)
    np.testing.assert_array_equal(y, np.where(inside, x[row.clip(0, 16), k % wrap], 0))
    assert (widest(compiled.text) == 16) == wide


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("rows", [1, 16, 37])
def test_rows_by_number(target: str, rows: int) -> None:
    x = RNG.standard_normal((50, 64)).astype(np.float16)
    order = RNG.permutation(60)[:rows].astype(np.int32) - 5  # some are outside
    y = np.full((rows, 64), np.nan, np.float16)
    compiled = rows_of.compile(x, order, y, target=target)
    compiled.simulate(x, order, y)
    inside = (order >= 0) & (order < 50)
    np.testing.assert_array_equal(y, np.where(inside[:, None], x[order.clip(0, 49)], 0))
    assert widest(compiled.text) == 16
    back = np.full((50, 64), np.nan, np.float16)
    scattered.compile(y, order, back, target=target).simulate(y, order, back)
    want = np.full((50, 64), np.nan, np.float16)
    want[order[inside]] = y[inside]
    np.testing.assert_array_equal(back, want)


@mt.kernel
def added(A: T.Tensor((64, "K"), T.float16), B: T.Tensor(("K", "N"), T.float16), C: T.Tensor((64, "N"), T.float32)):
    """Split-K: products are added up in C."""
    _, K = A.shape
    _, N = B.shape
    with T.Kernel(T.ceildiv(N, 32), T.ceildiv(K, 32), threads=128) as (bx, by):
        a = T.alloc_shared((64, 32), T.float16)
        b = T.alloc_shared((32, 32), T.float16)
        c = T.alloc_fragment((64, 32), T.float32)
        T.copy(A[0, by * 32], a)
        T.copy(B[by * 32, bx * 32], b)
        T.clear(c)
        T.gemm(a, b, c)
        T.atomic_add(C[0, bx * 32], c)


@pytest.mark.parametrize(
    ("target", "columns", "by"),
    [
        ("sm_90a", 40, "cp.reduce.async.bulk.tensor"),
        ("sm_90a", 42, "red.global.add.v2.f32"),
        ("sm_90a", 41, "red.global.add.f32"),
        ("sm_80", 40, "red.global.add.f32"),
        ("gfx942", 40, "global_atomic_add_f32"),
    ],
)
def test_atomics_of_a_product(target: str, columns: int, by: str) -> None:
    a, b = (RNG.standard_normal(s).astype(np.float16) for s in ((64, 48), (48, columns)))
    c = np.ones((64, columns), np.float32)
    compiled = added.compile(a, b, c, target=target)
    compiled.simulate(a, b, c)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64) + 1, rtol=1e-4, atol=1e-4)
    assert by in compiled.text
    assert ("red.global.add.f32" in compiled.text) == (by == "red.global.add.f32")
