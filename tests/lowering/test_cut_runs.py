"""Accesses whose runs a bound or a mask may cut: wide where they are whole, right at every place of the cut. Nothing
outside a tensor is touched (the simulator finds that)."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
import minitile.language as T

SIZES = (0, 1, 7, 17, 1000, 1001, 2047)
TARGETS = ("sm_80", "sm_90a", "gfx942", "gfx950")
BF16 = ml_dtypes.bfloat16


@mt.kernel
def add(A: T.Tensor(("M",), None), B: T.Tensor(("M",), None), C: T.Tensor(("M",), None), block=1024, threads=64):
    (M,) = A.shape
    with T.Kernel(T.ceildiv(M, block), threads=threads) as bx:
        for i in T.Parallel(block):
            C[bx * block + i] = A[bx * block + i] + B[bx * block + i]


@mt.kernel
def between(A: T.Tensor(("M",), None), C: T.Tensor(("M",), None), low: T.int32, high: T.int32, block=1024, threads=64):
    """C = 2 * A from `low` on and below `high`."""
    (M,) = A.shape
    with T.Kernel(T.ceildiv(M, block), threads=threads) as bx:
        for i in T.Parallel(block):
            j = bx * block + i
            if low <= j and j < high:
                C[j] = A[j] * 2


@mt.kernel
def through_shared(A: T.Tensor(("M",), T.bfloat16), C: T.Tensor(("M",), T.bfloat16), block=512, threads=64):
    (M,) = A.shape
    with T.Kernel(T.ceildiv(M, block), threads=threads) as bx:
        part = T.alloc_shared((block,), T.bfloat16)
        for i in T.Parallel(block):
            part[i] = A[bx * block + i]
        T.copy(part, C[bx * block])


def wide_accesses(ptx: str) -> list[str]:
    return re.findall(r"(?:ld|st)\.global\.v4\.b32", ptx)


@pytest.mark.parametrize("target", TARGETS)
def test_odd_sizes(target):
    odd = mt.spec((1001,), "bfloat16")
    sum_of, copied = (
        add.compile(odd, odd, odd, target=target),
        through_shared.compile(odd, odd, target=target),
    )
    for size in SIZES:
        rng = np.random.default_rng(size)
        a, b = (rng.standard_normal(size).astype(BF16) for _ in range(2))
        c = np.full(size, np.nan, BF16)
        sum_of.simulate(a, b, c)
        np.testing.assert_array_equal(c, a + b)
        c = np.full(size, np.nan, BF16)
        copied.simulate(a, c)
        np.testing.assert_array_equal(c, a)


@pytest.mark.parametrize("target", ["sm_90a", "gfx942"])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_dtypes(target, dtype):
    spec = mt.spec((1001,), dtype)
    kernel = add.compile(spec, spec, spec, target=target)
    for size in (3, 1001):
        rng = np.random.default_rng(size)
        a, b = (rng.integers(-50, 50, size).astype(dtype) for _ in range(2))
        c = np.zeros(size, dtype)
        kernel.simulate(a, b, c)
        np.testing.assert_array_equal(c, a + b)


@pytest.mark.parametrize("target", ["sm_80", "gfx950"])
@pytest.mark.parametrize("size", [17, 1001])
def test_masks_on_two_sides(target, size):
    """Each mask's ends in all places of a vector; also within one vector, and none between them."""
    spec = mt.spec((1001,), "bfloat16")
    kernel = between.compile(spec, spec, 1, 1, target=target)
    a, at = np.arange(1, size + 1).astype(BF16), np.arange(size)
    for low, high in ((0, size), (3, 4), (9, 15), (5, size - 3), (8, 16), (size, 0), (-5, size + 5), (7, 9)):
        c, expected = np.full(size, 7, BF16), np.full(size, 7, BF16)
        inside = (at >= low) & (at < high)
        expected[inside] = (2 * a)[inside]
        kernel.simulate(a, c, low, high)
        np.testing.assert_array_equal(c, expected)


def test_main_path_is_wide():
    """Two vectors of each tensor: all six accesses take 16 bytes; none of an even size has a branch."""
    odd, even = mt.spec((1001,), "bfloat16"), mt.spec((1024,), "bfloat16")
    text = add.compile(odd, odd, odd, target="sm_90a").asm["ptx"]
    assert len(wide_accesses(text)) == 6
    assert "bra" in text
    text = add.compile(even, even, even, target="sm_90a").asm["ptx"]
    assert len(wide_accesses(text)) == 6
    assert "bra" not in text
    text = between.compile(odd, odd, 1, 1, target="sm_90a").asm["ptx"]
    assert len(wide_accesses(text)) == 4


@mt.kernel
def sum_of_neighbours(A: T.Tensor(("M",), None), C: T.Tensor(("M",), None), d: T.int32, block=512, threads=64):
    (M,) = A.shape
    with T.Kernel(T.ceildiv(M, block), threads=threads) as bx:
        for i in T.Parallel(block):
            C[bx * block + i] = A[bx * block + i + d] + A[bx * block + i - 1]


@pytest.mark.parametrize("target", ["sm_80", "gfx942"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "int8", "float64"])
def test_vectors_between_two(target, dtype):
    """From an index that is no multiple of the vector: of two vectors each, none of them outside."""
    spec, kind = mt.spec((505,), dtype), BF16 if dtype == "bfloat16" else np.dtype(dtype)
    kernel = sum_of_neighbours.compile(spec, spec, 3, target=target)
    if target == "sm_80":
        assert len(re.findall(r"ld\.global\.(?:b16|u8|f32|f64|s8)", kernel.asm["ptx"])) <= 2 * 16
        assert len(re.findall(r"ld\.global\.v[24]", kernel.asm["ptx"])) >= 4
    for size in (1, 17, 505):
        a = (np.random.default_rng(size).standard_normal(size) * 10).astype(kind)
        at = np.arange(size)
        for d in (0, 1, -3, 8, -17, 500):
            there = np.where((at + d >= 0) & (at + d < size), a[np.clip(at + d, 0, size - 1)], np.zeros((), kind))
            before = np.where(at >= 1, a[at - 1], np.zeros((), kind))
            c = np.zeros(size, kind)
            kernel.simulate(a, c, d)
            np.testing.assert_array_equal(c, (there + before).astype(kind))


@mt.kernel
def staged_rows(X: T.Tensor(("M", "N"), T.bfloat16), Y: T.Tensor(("M", "N"), T.bfloat16), columns=512, stages=2):
    """Rows through shared memory, from the vector on in which each begins."""
    M, N = X.shape
    with T.Kernel(M, threads=64) as row:
        part = T.alloc_shared((columns,), T.bfloat16)
        first = row * N // 8 * 8 - row * N
        for k in T.Pipelined(T.ceildiv(N - first, columns), num_stages=stages):
            T.copy(X[row, first + k * columns], part)
            for j in T.Parallel(columns):
                Y[row, first + k * columns + j] = part[j] + 1


@pytest.mark.parametrize("target", ["sm_90a", "gfx950"])
@pytest.mark.parametrize("stages", [0, 2])
def test_copies_of_cut_vectors(target, stages):
    """Ends of a row are copied by elements, the rest by cp.async of 16 bytes; stores likewise."""
    spec = mt.spec((5, 505), "bfloat16")
    kernel = staged_rows.compile(spec, spec, target=target, stages=stages)
    if target == "sm_90a" and stages:
        assert "cp.async.cg.shared.global" in kernel.asm["ptx"]
        assert len(re.findall(r"st\.global\.v4", kernel.asm["ptx"])) == 1
    for size in (1, 17, 505, 1023):
        x = np.random.default_rng(size).standard_normal((5, size)).astype(BF16)
        y = np.full((5, size), np.nan, BF16)
        kernel.simulate(x, y)
        np.testing.assert_array_equal(y, (x + BF16(1)).astype(BF16))
