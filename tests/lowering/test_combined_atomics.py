"""What lanes add to one place is added up in registers first."""

from __future__ import annotations

import numpy as np
import pytest

import minitile as mt
import minitile.language as T

TARGETS = ("sm_80", "sm_90a", "gfx942", "gfx950")


@mt.kernel
def adds(X: T.Tensor(("N",), T.float32), Y: T.Tensor((8,), T.float32), S: T.Tensor((4,), T.float32), threads=192):
    """To places of shared memory and of a tensor, by remainders, in a loop too, and where threads differ."""
    (N,) = X.shape
    with T.Kernel(1, threads=threads):
        tx = T.get_thread_binding()
        part = T.alloc_shared((4,), T.float32)
        if tx < 4:
            part[tx] = 0
        T.sync_threads()
        for k in T.serial(T.ceildiv(N, threads)):
            x = T.if_then_else(k * threads + tx < N, X[T.min(k * threads + tx, N - 1)], 0)
            T.atomic_add(part[tx % 4], x)
            T.atomic_add(Y[(tx + 1) % 2], x)
            T.atomic_add(Y[2], x)
            T.atomic_add(Y[3 + tx % 3], x)
            if tx < 17:
                T.atomic_add(Y[6 + tx % 2], x)
        T.sync_threads()
        if tx < 4:
            S[tx] = part[tx]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", [17, 1000])
def test_sums(target: str, size: int) -> None:
    x = np.random.default_rng(size).integers(-50, 50, size).astype(np.float32)  # exact in any order
    y, s = np.zeros(8, np.float32), np.full(4, np.nan, np.float32)
    compiled = adds.compile(x, y, s, target=target)
    if target.startswith("sm"):
        assert compiled.asm["ptx"].count("shfl.sync.bfly") == 3 + 4 + 5
    compiled.simulate(x, y, s)
    thread = np.arange(size) % 192
    few = np.where(thread < 17, x, 0)
    want = [x[thread % 2 == 1].sum(), x[thread % 2 == 0].sum(), x.sum(), *(x[thread % 3 == n].sum() for n in range(3))]
    np.testing.assert_array_equal(y, [*want, few[thread % 2 == 0].sum(), few[thread % 2 == 1].sum()])
    np.testing.assert_array_equal(s, [x[thread % 4 == n].sum() for n in range(4)])
