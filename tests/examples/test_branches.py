"""Copies under a condition in a pipelined loop: the producer goes ahead by so many iterations that are taken."""

from __future__ import annotations

import numpy as np
import pytest

import minitile as mt
import minitile.language as T

PATTERNS = {"none": "000000", "all": "111111", "last": "000001", "some": "101101", "other": "010010"}


@mt.kernel
def sparse(
    A: T.Tensor(("M", "K"), T.float16),
    B: T.Tensor(("K", "N"), T.float16),
    Taken: T.Tensor(("I", "P"), T.int32),
    C: T.Tensor(("M", "N"), T.float32),
    stages=2,
):
    """A @ B of those pieces of 32 along K that are taken for 64 rows of A."""
    M, K = A.shape
    _, N = B.shape
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (bx, by):
        a = T.alloc_shared((64, 32), T.float16)
        b = T.alloc_shared((32, 64), T.float16)
        c = T.alloc_fragment((64, 64), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, 32), num_stages=stages):
            if Taken[by, k] != 0:
                T.copy(A[by * 64, k * 32], a)
                T.copy(B[k * 32, bx * 64], b)
                T.gemm(a, b, c)
        T.copy(c, C[by * 64, bx * 64])


@pytest.mark.parametrize(
    ("target", "stages", "pieces"),
    [("sm_90a", 2, 6), ("sm_90a", 3, 6), ("sm_90a", 2, 1), ("sm_90a", 4, 0), ("sm_80", 2, 6), ("gfx942", 2, 6)],
)
def test_pieces_that_are_taken(target: str, stages: int, pieces: int) -> None:
    rng = np.random.default_rng(pieces)
    rows, columns, k = 64 * len(PATTERNS) - 24, 72, max(0, pieces * 32 - 8)
    a, b = rng.standard_normal((rows, k)).astype(np.float16), rng.standard_normal((k, columns)).astype(np.float16)
    taken = np.array([[int(t) for t in p[6 - pieces :]] for p in PATTERNS.values()], np.int32).reshape(
        len(PATTERNS), pieces
    )
    c = np.full((rows, columns), np.nan, np.float32)
    compiled = sparse.compile(a, b, taken, c, target=target, stages=stages)
    compiled.simulate(a, b, taken, c)
    want = np.zeros((rows, columns))
    for i in range(len(PATTERNS)):
        for p in range(pieces):
            if taken[i, p]:
                at = slice(i * 64, (i + 1) * 64)
                piece = slice(p * 32, (p + 1) * 32)
                want[at] += a[at, piece].astype(np.float64) @ b[piece].astype(np.float64)
    np.testing.assert_allclose(c, want, rtol=1e-4, atol=1e-3)
    assert ("warp_specialized" in compiled.asm["tile_ir"]) == (target == "sm_90a")
