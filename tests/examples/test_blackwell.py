"""Plain kernels for sm_100a and sm_103a: they compile, ptxas assembles them without spill or warning, and they are
right in the simulator, on sizes that fit no tile.

All of sm_90a but wgmma is there: TMA, mbarriers, clusters, roles, stmatrix, register budgets.
"""

from __future__ import annotations

from typing import Any

import gemm
import gemm_fp8
import ml_dtypes
import numpy as np
import pytest
import rms_norm
import softmax
import transpose
import vector_add
from support import error, poisoned, random

import minitile as mt
import minitile.language as T
from minitile.backends.nvidia.assemble import find_ptxas
from minitile.ir.diagnostics import TargetError

TARGETS = ("sm_100a", "sm_103a")
pytestmark = pytest.mark.parametrize("target", TARGETS)


def launch(kernel: Any, arrays: tuple[np.ndarray, ...], target: str, schedule: str = "lazy", **constants: Any) -> str:
    """Simulates, and assembles where there is a ptxas. The PTX."""
    compiled = kernel.compile(*arrays, target=target, **constants)
    compiled.simulate(*arrays, schedule=schedule, seed=3)
    ptx: str = compiled.asm["ptx"]
    assert f".target {target}\n" in ptx
    if find_ptxas(ptx) is not None:
        assert compiled.spills == 0
        assert compiled.assembled.warnings == ()
    return ptx


@pytest.mark.parametrize("n", [1, 17, 1000, 1025])
def test_vector_add(target: str, n: int) -> None:
    rng = np.random.default_rng(n)
    a, b, c = random(rng, (n,)), random(rng, (n,)), poisoned((n,))
    launch(vector_add.add, (a, b, c), target)
    assert error(c, a.astype(np.float64) + b) <= 1e-7


@pytest.mark.parametrize(
    "example", [(transpose, (65, 63), 0.0), (softmax, (5, 1023), 1e-6), (rms_norm, (3, 513), 4e-3)]
)
def test_rows(target: str, example: tuple[Any, tuple[int, int], float], monkeypatch: pytest.MonkeyPatch) -> None:
    module, shape, bound = example
    monkeypatch.setenv("MINITILE_TARGET", target)
    assert module.run(*shape) <= bound


FORMS = [("bf16", False, True), ("f16", True, False), ("tf32", False, False), ("int8", False, True)]


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (100, 72, 80), (17, 129, 65)])
@pytest.mark.parametrize(("name", "ta", "tb"), FORMS)
def test_gemm(target: str, name: str, ta: bool, tb: bool, m: int, n: int, k: int) -> None:
    dtype, accumulate, element, bound = gemm.DTYPES[name]
    rng = np.random.default_rng(k)
    a, b = random(rng, (k, m) if ta else (m, k), element), random(rng, (n, k) if tb else (k, n), element)
    narrow = np.dtype(element).itemsize == 1
    c = poisoned((m, n), np.int32 if narrow else element)
    kernel = gemm.make_gemm(dtype, accumulate, accumulate if narrow else dtype, ta, tb)
    launch(kernel, (a, b, c), target, block_M=64, block_N=64)
    exact = (a.T if ta else a).astype(np.float64) @ (b.T if tb else b).astype(np.float64)
    assert error(c, exact) <= bound


def test_gemm_fp8(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINITILE_TARGET", target)
    assert gemm_fp8.run(65, 72, 136) <= 4e-2


@mt.kernel
def ring(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("K", "N"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.bfloat16),
    slots=2,
):
    """One warpgroup copies by TMA, the other multiplies; the result leaves by TMA."""
    M, K = A.shape
    N = B.shape[1]
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=256) as (bx, by):
        A_shared = T.alloc_shared((slots, 64, 32), A.dtype)
        B_shared = T.alloc_shared((slots, 32, 64), A.dtype)
        C_shared = T.alloc_shared((64, 64), A.dtype)
        C_local = T.alloc_fragment((64, 64), T.float32)
        full = T.alloc_barrier([128] * slots)
        free = T.alloc_barrier([128] * slots)
        with T.ws(0):
            T.clear(C_local)
        for k in range(T.ceildiv(K, 32)):
            with T.ws(1):
                T.barrier_wait(free[k % slots], (k // slots + 1) % 2)
                T.tma_copy(A[by * 64, k * 32], A_shared[k % slots, :, :], barrier=full[k % slots])
                T.tma_copy(B[k * 32, bx * 64], B_shared[k % slots, :, :], barrier=full[k % slots])
                T.barrier_arrive(full[k % slots])
            with T.ws(0):
                T.barrier_wait(full[k % slots], k // slots % 2)
                T.gemm(A_shared[k % slots, :, :], B_shared[k % slots, :, :], C_local)
                T.barrier_arrive(free[k % slots])
        with T.ws(0):
            T.copy(C_local, C_shared)
            T.tma_copy(C_shared, C[by * 64, bx * 64])


@pytest.mark.parametrize("schedule", ["lazy", "eager", "random"])
@pytest.mark.parametrize("k", [8, 72, 200])
def test_roles(target: str, k: int, schedule: str) -> None:
    rng = np.random.default_rng(k)
    a, b = random(rng, (72, k), ml_dtypes.bfloat16), random(rng, (k, 80), ml_dtypes.bfloat16)
    c = poisoned((72, 80), ml_dtypes.bfloat16)
    ptx = launch(ring, (a, b, c), target, schedule)
    assert "cp.async.bulk.tensor" in ptx
    assert "wgmma." not in ptx
    assert error(c, a.astype(np.float64) @ b.astype(np.float64)) <= 4e-3


@mt.kernel
def row_sums(X: T.Tensor(("M", 256), T.float32), Y: T.Tensor((4, "M"), T.float32)):
    """Y[c, i] = the sum of X's row i, as block c of the cluster has it."""
    with T.Kernel(4, X.shape[0], cluster=(4, 1), threads=64) as (part, row):
        x = T.alloc_fragment((1, 64), X.dtype)
        s = T.alloc_fragment((1,), Y.dtype)
        T.copy(X[row, part * 64], x)
        T.reduce(x, s, "sum", dim=1, scope="cluster")
        T.copy(s, Y[part, row])


def test_clusters(target: str) -> None:
    x = random(np.random.default_rng(0), (5, 256))
    y = poisoned((4, 5))
    assert "st.async" in launch(row_sums, (x, y), target)
    assert error(y, np.broadcast_to(x.astype(np.float64).sum(1), (4, 5))) <= 1e-6


@mt.kernel
def products(A: T.Tensor((64, 64), T.bfloat16), C: T.Tensor((64, 64), T.float32)):
    with T.Kernel(1, threads=128):
        A_shared = T.alloc_shared((64, 64), A.dtype)
        C_local = T.alloc_fragment((64, 64), T.float32)
        T.clear(C_local)
        T.copy(A, A_shared)
        T.wgmma_gemm(A_shared, A_shared, C_local)
        T.wait_wgmma(0)
        T.copy(C_local, C)


def test_wgmma_is_refused(target: str) -> None:
    with pytest.raises(TargetError, match=f"{target} has no T.wait_wgmma"):
        products.compile(target=target)
