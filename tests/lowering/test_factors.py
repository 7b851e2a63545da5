"""Factors of gemms that are computed in registers have the layout that the instruction reads, from the start."""

from __future__ import annotations

import re

import numpy as np
import pytest

import minitile as mt
import minitile.language as T

RNG = np.random.default_rng(8)


@mt.kernel
def unpacked(
    A: T.Tensor(("N", "K"), T.float16),
    B: T.Tensor(("M", "P"), T.uint8),
    C: T.Tensor(("M", "N"), T.float32),
):
    """B's numbers of 4 bits, two in a byte, times A's rows."""
    M, N = C.shape
    _, K = A.shape
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (bx, by):
        a = T.alloc_shared((64, 64), T.float16)
        packed = T.alloc_shared((64, 32), T.uint8)
        bytes_ = T.alloc_fragment((64, 32), T.uint8)
        b = T.alloc_fragment((64, 64), T.float16)
        c = T.alloc_fragment((64, 64), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, 64), num_stages=2):
            T.copy(A[bx * 64, k * 64], a)
            T.copy(B[by * 64, k * 32], packed)
            T.copy(packed, bytes_)
            for i, j in T.Parallel(64, 64):
                shift = T.cast(j % 2 * 4, T.uint8)
                b[i, j] = T.cast((bytes_[i, j // 2] >> shift) & T.cast(15, T.uint8), T.float16)
            T.gemm(b, a, c, transpose_B=True)
        T.copy(c, C[by * 64, bx * 64])


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942"])
@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 128), (72, 40, 80)])
def test_unpacked_numbers(target: str, m: int, n: int, k: int) -> None:
    a = RNG.integers(-3, 4, (n, k)).astype(np.float16)
    b = RNG.integers(0, 256, (m, k // 2)).astype(np.uint8)
    c = np.full((m, n), np.nan, np.float32)
    compiled = unpacked.compile(a, b, c, target=target)
    compiled.simulate(a, b, c)
    numbers = np.stack((b & 15, b >> 4), -1).reshape(m, k).astype(np.float64)
    np.testing.assert_array_equal(c, numbers @ a.T.astype(np.float64))
    loop = compiled.asm["tile_ir"]
    assert "convert_layout" not in loop[loop.index("consumer {") if "consumer {" in loop else 0 :]


def changed_products(A, B, C, change):
    """C = A · B, A's tiles as `change(part, by, k)` makes them in registers."""
    M, N = C.shape
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (bx, by):
        a = T.alloc_shared((64, 64), T.float16)
        b = T.alloc_shared((64, 64), T.float16)
        part = T.alloc_fragment((64, 64), T.float16)
        c = T.alloc_fragment((64, 64), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(A.shape[1], 64), num_stages=2):
            T.copy(A[by * 64, k * 64], a)
            T.copy(a, part)
            change(part, by, k)
            T.copy(B[k * 64, bx * 64], b)
            T.gemm(part, b, c)
        T.copy(c, C[by * 64, bx * 64])


@mt.kernel
def weighted(
    A: T.Tensor(("M", "K"), T.float16),
    W: T.Tensor(("K",), T.float32),
    B: T.Tensor(("K", "N"), T.float16),
    C: T.Tensor(("M", "N"), T.float32),
):
    """A, its columns weighted, times B."""

    def change(part, by, k):
        for i, j in T.Parallel(64, 64):
            part[i, j] = part[i, j] * T.if_then_else(k * 64 + j < A.shape[1], W[k * 64 + j], 0.0)

    changed_products(A, B, C, change)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942"])
def test_weighted_columns(target: str) -> None:
    a, w, b = (RNG.standard_normal(s).astype(np.float16) for s in ((70, 136), (136,), (136, 72)))
    c = np.full((70, 72), np.nan, np.float32)
    compiled = weighted.compile(a, w.astype(np.float32), b, c, target=target)
    compiled.simulate(a, w.astype(np.float32), b, c)
    want = (a * w.astype(np.float32)).astype(np.float16).astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(c, want, rtol=1e-5, atol=1e-4)
    assert "convert_layout" not in compiled.asm["tile_ir"]


@mt.kernel
def masked(
    A: T.Tensor(("M", "K"), T.float16),
    B: T.Tensor(("K", "N"), T.float16),
    C: T.Tensor(("M", "N"), T.float32),
):
    """The lower triangle of A, its diagonal included, times B."""

    def change(part, by, k):
        for i, j in T.Parallel(64, 64):
            part[i, j] = part[i, j] * 2
        if by < k:
            T.clear(part)
        if by == k:
            for i, j in T.Parallel(64, 64):
                part[i, j] = T.if_then_else(i >= j, part[i, j], 0)

    changed_products(A, B, C, change)


def test_a_factor_that_a_branch_hands_on_has_registers_of_its_own() -> None:
    """Those that it comes from are written while the gemm before may still read."""
    a, b = (RNG.standard_normal(s).astype(np.float16) for s in ((130, 192), (192, 64)))
    c = np.full((130, 64), np.nan, np.float32)
    compiled = masked.compile(a, b, c, target="sm_90a")
    compiled.simulate(a, b, c)
    np.testing.assert_allclose(c, 2 * np.tril(a).astype(np.float64) @ b.astype(np.float64), rtol=1e-5, atol=1e-4)
    lines = [line.split("//")[0].strip() for line in compiled.text.splitlines()]
    loop = lines[lines.index(next(x for x in lines if x.startswith("wgmma.wait_group"))) :]
    first = next(x for x in lines if x.startswith("wgmma.mma_async") and x.count("{") == 2)
    factor = re.findall(r"\{([^}]*)\}", first)[1].split(", ")
    before = lines[: lines.index(loop[0])]
    written = {x.split()[1].rstrip(",") for x in before if x.startswith(("cvt.rn.f16x2", "mul.rn.f16x2", "mov.b32"))}
    assert len(factor) == 4
    assert not written & set(factor)
