"""Plain kernels for sm_100a and sm_103a: they compile, ptxas assembles them without spill or warning, and they are
right in the simulator, on sizes that fit no tile.

All of sm_90a but wgmma is there: TMA, mbarriers, clusters, roles, stmatrix, register budgets.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import gemm
import gemm_fp8
import ml_dtypes
import numpy as np
import pytest
import rms_norm
import softmax
import support
import transpose
import vector_add
from mutation_testing import TAKEN_OR_WEAKER, surviving_mutants
from support import USE_GPU, error, on_device, on_host, poisoned, random

import minitile as mt
import minitile.language as T
from minitile.backends.nvidia.assemble import find_ptxas
from minitile.backends.nvidia.backend import BACKEND
from minitile.ir.diagnostics import TargetError
from minitile.runtime.sim.mutate.ptx import removals

TARGETS = (
    "sm_100a",
    pytest.param("sm_103a", marks=pytest.mark.slow),
)  # tests/backends/nvidia/blackwell has a quick one
BOTH = (False, True)
pytestmark = pytest.mark.parametrize("target", TARGETS)


def launch(kernel: Any, arrays: tuple[np.ndarray, ...], target: str, schedule: str = "lazy", **constants: Any) -> str:
    """Simulates, or runs on a GPU of the target if that is asked for; assembles where there is a ptxas. The PTX."""
    compiled = kernel.compile(*arrays, target=target, **constants)
    if USE_GPU and _this_gpu() == target:
        there = [on_device(each) for each in arrays]
        compiled(*there)
        for array, result in zip(arrays, there, strict=True):
            array[...] = on_host(result)
    else:
        compiled.simulate(*arrays, schedule=schedule, seed=3)
    ptx: str = compiled.asm["ptx"]
    assert f".target {target}\n" in ptx
    if find_ptxas(ptx) is not None:
        assert compiled.spills == 0
        assert compiled.assembled.warnings == ()
    return ptx


@cache
def _this_gpu() -> str:
    found = BACKEND.current_target()
    return "" if found is None else found.name


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
    monkeypatch.setattr(support, "USE_GPU", False)  # whatever GPU is there: it is not of this target
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


@pytest.mark.slow
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


# Products by tcgen05 -------------------------------------------------------------------------------------------------

TENSOR_FORMS = [("bf16", ta, tb) for ta in BOTH for tb in BOTH] + [
    ("f16", True, False),
    ("int8", True, True),
    ("e4m3", False, False),
    ("e5m2", False, True),
]


def multiplied(
    target: str,
    m: int,
    n: int,
    k: int,
    name: str = "bf16",
    ta: bool = False,
    tb: bool = True,
    schedule: str = "lazy",
    **tiles: Any,
) -> tuple[float, str]:
    """The relative error of a GEMM, and its PTX."""
    dtype, accumulate, element, _ = (gemm.DTYPES | gemm.FP8)[name]
    rng = np.random.default_rng(m + n + k)
    a, b = random(rng, (k, m) if ta else (m, k), element), random(rng, (n, k) if tb else (k, n), element)
    narrow = np.dtype(element).itemsize == 1
    c = poisoned((m, n), (np.int32 if name == "int8" else np.float32) if narrow else element)
    kernel = gemm.make_gemm(dtype, accumulate, accumulate if narrow else dtype, ta, tb)
    ptx = launch(kernel, (a, b, c), target, schedule, **{"block_N": 64, "block_K": 32, **tiles})
    exact = (a.T if ta else a).astype(np.float64) @ (b.T if tb else b).astype(np.float64)
    return error(c, exact), ptx


@pytest.mark.parametrize("size", [(128, 64, 32), (200, 72, 104), (1, 17, 264)])
@pytest.mark.parametrize(("name", "ta", "tb"), TENSOR_FORMS)
def test_tensor_gemm(target: str, name: str, ta: bool, tb: bool, size: tuple[int, int, int]) -> None:
    found, ptx = multiplied(target, *size, name, ta, tb)
    assert found <= (gemm.DTYPES | gemm.FP8)[name][3]
    assert ("tcgen05.mma" in ptx) == (name != "int8" or target == "sm_100a")  # ptxas refuses int8 for sm_103a
    assert ("mma.sync" in ptx) == (name == "int8" and target == "sm_103a")


@pytest.mark.parametrize("k", [0, 33, 96])
@pytest.mark.parametrize(
    "tiles",
    [
        {"block_N": 128, "block_K": 64},
        {"threads": 256},
        {"block_M": 256, "threads": 256},
        {"block_M": 256, "block_N": 32},
        {"block_N": 192, "threads": 256},
        {"block_K": 128, "num_stages": 2},
        {"num_stages": 0},
        {"persistent": 2},
    ],
)
def test_tensor_tiles(target: str, tiles: dict[str, int], k: int) -> None:
    found, ptx = multiplied(target, 129, 72, k, **tiles)
    assert found <= 4e-3
    assert "tcgen05.mma" in ptx


ONE_ROLE = {"warp_specialize": False}
BY_CP_ASYNC = {"passes": {"warp_specialize": False, "tma_multistage": False}}


@pytest.mark.parametrize("schedule", ["eager", "random"])
@pytest.mark.parametrize("tiles", [{}, {"persistent": 1, "threads": 256}, {"num_stages": 0}, ONE_ROLE, BY_CP_ASYNC])
def test_tensor_schedules(target: str, tiles: dict[str, Any], schedule: str) -> None:
    found, ptx = multiplied(target, 130, 72, 104, schedule=schedule, **tiles)
    assert found <= 4e-3
    assert ("cp.async.bulk.tensor.2d.shared" in ptx) == (tiles not in ({"num_stages": 0}, BY_CP_ASYNC))


@pytest.mark.parametrize("how", [ONE_ROLE, BY_CP_ASYNC])
def test_no_warp_lags_by_a_phase(target: str, how: dict[str, Any]) -> None:
    """A product's mbarrier takes the commit, and an arrival of each of the warps that wait: 4 for 128 threads."""
    _, ptx = multiplied(target, 128, 64, 264, num_stages=2, **how)
    assert re.search(r"mbarrier\.init\S+ \[[^\]]+\], 5;", ptx)


@TAKEN_OR_WEAKER
@pytest.mark.parametrize("tiles", [BY_CP_ASYNC, pytest.param(ONE_ROLE, marks=pytest.mark.slow)])
def test_tensor_mutants(target: str, tiles: dict[str, Any], candidates: Any) -> None:
    """Without any one of its waits, fences, barriers, commits, or its dealloc, or where one is weaker, the GEMM is at
    fault; but for the fence of the mbarriers' initialisation, where a proxy fence behind it does as well, and a warp's
    barrier in front of what one lane waits for."""
    rng = np.random.default_rng(5)
    rows, n = 129, 32
    a, b = (random(rng, (each, 136), ml_dtypes.bfloat16) for each in (rows, n))
    c = poisoned((rows, n), ml_dtypes.bfloat16)
    kernel = gemm.gemm_nt_bf16().compile(a, b, c, target=target, block_N=n, block_K=32, num_stages=2, **tiles)
    survivors, count = surviving_mutants(kernel, (a, b, c), candidates)
    assert count >= (16 if candidates is removals else 9)
    spare = "bar.warp.sync" if tiles == ONE_ROLE else "fence.mbarrier_init"
    assert [each for each in survivors if spare not in each] == []


@mt.kernel
def chains(
    A: T.Tensor((128, 64), T.bfloat16),
    B: T.Tensor((64, 64), T.bfloat16),
    S: T.Tensor((3, 128, 64), T.float32),
    rounds=3,
    columns=64,
    between=False,
    branch=False,
):
    """Two accumulators in one loop: `whole` adds up over the rounds, `each` begins anew and is read in every round."""
    with T.Kernel(1, threads=128) as _:
        A_shared = T.alloc_shared((128, 64), A.dtype)
        B_shared = T.alloc_shared((64, 64), A.dtype)
        whole = T.alloc_fragment((128, 64), T.float32)
        each = T.alloc_fragment((128, 64), T.float32)
        largest = T.alloc_fragment((128, 64), T.float32)
        T.copy(A, A_shared)
        T.copy(B, B_shared)
        T.clear(whole)
        T.clear(largest)
        for r in T.serial(rounds):
            T.gemm(A_shared, B_shared, each, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(128, 64):
                largest[i, j] = largest[i, j] + (r + 1) * each[i, j]
            if branch:
                if r > 0:
                    T.gemm(A_shared, B_shared, whole, transpose_B=True)
            else:
                T.gemm(A_shared, B_shared, whole, transpose_B=True)
            if between:
                for i, j in T.Parallel(128, 64):
                    whole[i, j] = whole[i, j] * 2
        T.copy(whole, S[0, 0, 0])
        T.copy(each, S[1, 0, 0])
        T.copy(largest, S[2, 0, 0])


@pytest.mark.parametrize("schedule", ["lazy", "random"])
@pytest.mark.parametrize(
    ("given", "times", "products", "why"),
    [
        ({}, 3, 8, ""),
        ({"rounds": 1}, 1, 8, ""),
        ({"between": True}, 14, 8, ""),
        ({"branch": True}, 2, 4, "its accumulator goes into a branch, or out of it"),
    ],
)
def test_accumulators(target: str, given: dict[str, Any], times: int, products: int, why: str, schedule: str) -> None:
    """What is computed between products is stored for the next; what stays in registers has a note that says why."""
    rng = np.random.default_rng(9)
    a, b = random(rng, (128, 64), ml_dtypes.bfloat16), random(rng, (64, 64), ml_dtypes.bfloat16)
    s = poisoned((3, 128, 64))
    compiled = chains.compile(a, b, s, target=target, **given)
    compiled.simulate(a, b, s, schedule=schedule, seed=1)
    exact, rounds = a.astype(np.float64) @ b.astype(np.float64).T, given.get("rounds", 3)
    assert error(s[0], times * exact) <= 1e-5
    assert error(s[1], exact) <= 1e-5
    assert error(s[2], rounds * (rounds + 1) / 2 * exact) <= 1e-5
    assert compiled.asm["ptx"].count("tcgen05.mma") == products
    assert [note.partition("tcgen05: ")[2] for note in compiled.notes if "tcgen05" in note] == ([why] if why else [])


@mt.kernel
def wide(
    A: T.Tensor((128, 32), T.bfloat16),
    B: T.Tensor((256, 32), T.bfloat16),
    S: T.Tensor((3, 128, 256), T.float32),
    together=False,
):
    """Three accumulators of 256 columns, of which tensor memory has 512, one after the other or at the same time."""
    with T.Kernel(1, threads=256):
        A_shared = T.alloc_shared((128, 32), A.dtype)
        B_shared = T.alloc_shared((256, 32), A.dtype)
        T.copy(A, A_shared)
        T.copy(B, B_shared)
        parts = [T.alloc_fragment((128, 256), T.float32) for _ in range(3)]
        if together:
            for c in parts:
                T.clear(c)
            for _ in T.serial(2):
                for c in parts:
                    T.gemm(A_shared, B_shared, c, transpose_B=True)
        for n, c in enumerate(parts):
            if not together:
                T.gemm(A_shared, B_shared, c, transpose_B=True, clear_accum=True)
            T.copy(c, S[n, 0, 0])


@pytest.mark.parametrize("schedule", ["lazy", "eager", "random"])
@pytest.mark.parametrize(("together", "products"), [(False, 6), (True, 4)])
def test_columns(target: str, together: bool, products: int, schedule: str) -> None:
    """An accumulator that has been loaded leaves its columns to the next one; else the third is in registers."""
    rng = np.random.default_rng(2)
    a, b = random(rng, (128, 32), ml_dtypes.bfloat16), random(rng, (256, 32), ml_dtypes.bfloat16)
    s = poisoned((3, 128, 256))
    compiled = wide.compile(a, b, s, target=target, together=together)
    compiled.simulate(a, b, s, schedule=schedule)
    exact = (1 + together) * (a.astype(np.float64) @ b.astype(np.float64).T)
    assert error(s, np.broadcast_to(exact, s.shape)) <= 1e-5
    assert compiled.asm["ptx"].count("tcgen05.mma") == products
    assert any("256 columns of tensor memory are not left" in note for note in compiled.notes) == together
