"""`continue` in T.Pipelined and T.Persistent: what follows is left out, what is copied ahead is copied all the same."""

from __future__ import annotations

import numpy as np
import pytest

import minitile as mt
import minitile.language as T


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("steps", [0, 1, 4])
def test_continue_in_a_pipelined_and_a_persistent_loop(target: str, steps: int) -> None:
    """What follows is left out; copies in front go ahead all the same."""

    @mt.kernel
    def kernel(
        A: T.Tensor(("M", "K"), T.float16),
        B: T.Tensor(("K", 64), T.float16),
        skip: T.Tensor(("tiles", "steps"), T.int8),
        C: T.Tensor(("M", 64), T.float32),
    ):
        M, K = A.shape
        with T.Kernel(2, threads=128) as block:
            A_shared, B_shared = T.alloc_shared((64, 32), T.float16), T.alloc_shared((32, 64), T.float16)
            total = T.alloc_fragment((64, 64), T.float32)
            for (tile,) in T.Persistent([T.ceildiv(M, 64)], 2, block):
                if skip[tile, 0] == 2:
                    continue
                T.clear(total)
                for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
                    T.copy(A[tile * 64, k * 32], A_shared)
                    T.copy(B[k * 32, 0], B_shared)
                    if skip[tile, k] == 1:
                        continue
                    T.gemm(A_shared, B_shared, total)
                T.copy(total, C[tile * 64, 0])

    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((256, 32 * steps), (32 * steps, 64)))
    skip = np.array([[2, 0, 0, 0], [0, 1, 0, 1], [0, 0, 0, 0], [1, 1, 1, 1]], np.int8)[:, : max(steps, 1)].copy()
    c = np.full((256, 64), np.nan, np.float32)
    kernel.compile(a, b, skip, c, target=target).simulate(a, b, skip, c)
    used = np.kron(skip[:, :steps] == 0, np.ones((64, 32))) if steps else np.zeros((256, 0))
    exact = (a * used).astype(np.float32) @ b.astype(np.float32)
    exact[:64] = np.nan
    np.testing.assert_array_equal(c, exact)


def test_continue_beside_a_schedule_is_refused() -> None:
    """Its statements are counted as they are written."""

    @mt.kernel
    def kernel(A: T.Tensor((64,), T.float32)):
        with T.Kernel(1, threads=64):
            for k in T.Pipelined(4, order=[0], stage=[0]):
                if A[k] > 0:
                    continue
                A[k] = 1.0

    with pytest.raises(mt.MinitileError, match=r"`continue` in T\.Pipelined with a schedule"):
        kernel.compile(target="sm_80")
