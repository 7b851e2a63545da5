"""How much work a simulation is, in calls of Python functions: on a busy machine time says nothing, calls do not vary.

The limits are a quarter above what was measured. A simulator that needs more goes over its threads where it went over
arrays of them, or looks for races more often than memory is accessed.
"""

from __future__ import annotations

import cProfile
import pstats

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
import minitile.language as T


@mt.kernel
def product(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.float32),
    tile=64,
    threads=128,
):
    with T.Kernel(T.ceildiv(C.shape[1], tile), T.ceildiv(C.shape[0], tile), threads=threads) as (bx, by):
        a, b = T.alloc_shared((tile, tile), A.dtype), T.alloc_shared((tile, tile), B.dtype)
        c = T.alloc_fragment((tile, tile), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(A.shape[1], tile), num_stages=2):
            T.copy(A[by * tile, k * tile], a)
            T.copy(B[bx * tile, k * tile], b)
            T.gemm(a, b, c, transpose_B=True)
        T.copy(c, C[by * tile, bx * tile])


@mt.kernel
def rows(A: T.Tensor(("M", 256), T.float32), B: T.Tensor(("M", 256), T.float32)):
    with T.Kernel(A.shape[0], threads=128) as bx:
        x, m = T.alloc_fragment((1, 256), T.float32), T.alloc_fragment((1,), T.float32)
        T.copy(A[bx : bx + 1, :], x)
        T.reduce_max(x, m, dim=1)
        for i, j in T.Parallel(1, 256):
            x[i, j] = T.exp(x[i, j] - m[i])
        T.copy(x, B[bx : bx + 1, :])


def matrices(m: int, n: int, k: int) -> list[np.ndarray]:
    a, b = (np.ones(shape, ml_dtypes.bfloat16) for shape in ((m, k), (n, k)))
    return [a, b, np.zeros((m, n), np.float32)]


def calls_of(compiled: mt.CompiledKernel, *args: np.ndarray) -> int:
    compiled.simulate(*args)  # imports, and what is computed once of a text
    profile = cProfile.Profile()
    profile.runcall(compiled.simulate, *args)
    return pstats.Stats(profile).total_calls


@pytest.mark.parametrize(
    ("target", "limit"), [("sm_80", 90_000), ("sm_90a", 82_500), ("gfx942", 112_500), ("gfx950", 109_500)]
)
def test_a_product(target: str, limit: int) -> None:
    args = matrices(128, 64, 256)
    threads = 256 if target.startswith("gfx") else 128
    calls = calls_of(product.compile(target=target, threads=threads), *args)
    assert (args[2] == 256).all()
    assert limit / 4 < calls <= limit, f"{calls} calls"


@pytest.mark.parametrize(("target", "limit"), [("sm_80", 4_300), ("gfx942", 5_700)])
def test_rows(target: str, limit: int) -> None:
    a = np.zeros((4, 256), np.float32)
    b = np.full_like(a, np.nan)
    calls = calls_of(rows.compile(target=target), a, b)
    assert (b == 1).all()
    assert limit / 4 < calls <= limit, f"{calls} calls"


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942"])
def test_work_grows_with_the_grid_and_no_faster(target: str) -> None:
    """Four times the blocks are at most four times the calls, and some."""
    compiled = product.compile(target=target, threads=256 if target.startswith("gfx") else 128)
    few, many = (calls_of(compiled, *matrices(64 * blocks, 64, 128)) for blocks in (1, 4))
    assert few < many <= 4.2 * few
