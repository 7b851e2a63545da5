"""sm_90a in the simulator: TMA, mbarriers, warp roles and wgmma, against float64, with every access checked.

Small sizes on purpose: fewer K blocks than stages, none at all, tails in every dimension. Each synchronising
instruction of the emitted GEMM is deleted in turn: the simulator must miss it.
"""

from __future__ import annotations

import attention
import gemm
import ml_dtypes
import numpy as np
import pytest
from mutation_testing import surviving_mutants
from support import poisoned, random

import minitile as mt
import minitile.language as T
from minitile.backends.nvidia.assemble import find_ptxas
from minitile.layout.shared import row_major, swizzled

TILES = {"block_M": 128, "block_N": 128, "block_K": 64, "num_stages": 3, "threads": 256}


def simulated(
    m, n, k, name="bf16", ta=False, tb=True, schedule="lazy", seed=0, **tiles
) -> tuple[float, mt.CompiledKernel]:
    """The relative error of a GEMM compiled for sm_90a, and the kernel."""
    dtype, accumulate, element, _ = gemm.DTYPES[name]
    rng = np.random.default_rng(seed)
    a, b = random(rng, (k, m) if ta else (m, k), element), random(rng, (n, k) if tb else (k, n), element)
    c = poisoned((m, n), element)
    kernel = gemm.make_gemm(dtype, accumulate, dtype, ta, tb).compile(a, b, c, target="sm_90a", **{**TILES, **tiles})
    kernel.simulate(a, b, c, schedule=schedule, seed=seed)
    exact = (a.T if ta else a).astype(np.float64) @ (b.T if tb else b).astype(np.float64)
    difference = np.linalg.norm(c.astype(np.float64) - exact)
    return float(difference / max(np.linalg.norm(exact), 1e-30)), kernel


@pytest.mark.parametrize(
    "size", [(128, 128, 64), (256, 128, 192), (200, 136, 104), (1, 8, 8), (17, 40, 1000), (129, 8, 72)]
)
def test_sizes(size):
    error, kernel = simulated(*size)
    assert error < 4e-3
    assert "wgmma.mma_async" in kernel.asm["ptx"]


@pytest.mark.parametrize("k", [0, 8, 64, 72, 128, 192, 256])
def test_trip_counts(k):
    """None, one, fewer than the stages, as many, more."""
    error, _ = simulated(128, 128, k)
    assert error < 4e-3


def test_accumulators_beyond_an_equal_share():
    """256×192 by two warpgroups: 192 accumulators a thread want setmaxnreg, and an assembler that honours it."""
    error, kernel = simulated(256, 192, 128, block_M=256, block_N=192)
    assert error < 4e-3
    assert "setmaxnreg.inc" in kernel.asm["ptx"]
    if find_ptxas(kernel.asm["ptx"]) is None:
        pytest.skip("needs a ptxas")
    assert kernel.spills == 0
    assert kernel.assembled.warnings == ()


@pytest.mark.parametrize("tb", [False, True])
@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("name", ["bf16", "f16"])
def test_forms(name, ta, tb):
    error, kernel = simulated(136, 72, 96, name, ta, tb)
    assert error < gemm.DTYPES[name][3]
    assert "wgmma.mma_async" in kernel.asm["ptx"]


@pytest.mark.parametrize(
    "tiles",
    [
        {"block_M": 64, "block_N": 32, "threads": 128},
        {"block_M": 128, "block_N": 256, "num_stages": 4},
        {"block_M": 256, "block_N": 64, "num_stages": 2},
        {"block_M": 128, "block_N": 64, "block_K": 128, "num_stages": 2, "threads": 128},
        {"block_M": 192, "block_N": 128, "threads": 384, "num_stages": 2},
        {"block_N": 96, "block_K": 32},
    ],
)
def test_tiles(tiles):
    error, kernel = simulated(200, 264, 200, **tiles)
    assert error < 4e-3
    assert "wgmma.mma_async" in kernel.asm["ptx"]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("schedule", ["eager", "random"])
def test_schedules(schedule, seed):
    error, _ = simulated(160, 136, 264, schedule=schedule, seed=seed)
    assert error < 4e-3


def test_falls_back():
    """Rows that are no multiple of 16 bytes are not for TMA: the same kernel without roles, and the reason. Its gemms
    are wgmma all the same."""
    error, kernel = simulated(77, 45, 51)
    assert error < 4e-3
    assert "wgmma.mma_async" in kernel.asm["ptx"]
    assert "cp.async.bulk" not in kernel.asm["ptx"]
    assert "mbarrier" not in kernel.asm["ptx"]
    assert any("16 bytes" in note for note in kernel.notes)


@pytest.mark.parametrize(("layout", "wgmma"), [(row_major, False), (swizzled, True)])
def test_operands_that_lie_as_the_program_says(layout, wgmma):
    """Rows as they are, which no descriptor says, are left to mma.sync."""

    @mt.kernel
    def product(
        A: T.Tensor((64, 128), T.bfloat16), B: T.Tensor((64, 128), T.bfloat16), C: T.Tensor((64, 64), T.float32)
    ):
        with T.Kernel(1, threads=128):
            A_shared = T.alloc_shared((64, 64), T.bfloat16)
            B_shared = T.alloc_shared((64, 64), T.bfloat16)
            C_local = T.alloc_fragment((64, 64), T.float32)
            T.annotate_layout({B_shared: layout((64, 64), 16)})
            T.clear(C_local)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[0, k * 64], A_shared)
                T.copy(B[0, k * 64], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            T.copy(C_local, C)

    rng = np.random.default_rng(0)
    a, b = random(rng, (64, 128), ml_dtypes.bfloat16), random(rng, (64, 128), ml_dtypes.bfloat16)
    c = poisoned((64, 64), np.float32)
    kernel = product.compile(a, b, c, target="sm_90a")
    assert ("wgmma.mma_async" in kernel.asm["ptx"]) == wgmma
    kernel.simulate(a, b, c)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64).T, rtol=1e-5, atol=1e-4)


def test_every_mutant_is_killed():
    """Each instruction that synchronises, deleted: a finding, a refusal or a wrong result in some schedule."""
    rng = np.random.default_rng(0)
    a, b = random(rng, (128, 256), ml_dtypes.bfloat16), random(rng, (192, 256), ml_dtypes.bfloat16)
    c = poisoned((128, 192), ml_dtypes.bfloat16)
    tiles = {**TILES, "block_N": 192, "num_stages": 2}  # three parts go through two versions of the staging buffer
    kernel = gemm.gemm_nt_bf16().compile(a, b, c, target="sm_90a", **tiles)
    found, tried = surviving_mutants(kernel, (a, b, c))
    assert tried >= 24
    assert found == []


@mt.kernel
def gemm_with_sums(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.bfloat16),
    S: T.Tensor(("M",), T.float32),
):
    """Row sums of the accumulator and a result that goes through shared memory: the consumers meet among themselves."""
    M, K = A.shape
    N = B.shape[0]
    with T.Kernel(T.ceildiv(N, 128), T.ceildiv(M, 128), threads=256) as (bx, by):
        A_shared = T.alloc_shared((128, 64), A.dtype)
        B_shared = T.alloc_shared((128, 64), A.dtype)
        C_shared = T.alloc_shared((128, 128), A.dtype)
        C_local = T.alloc_fragment((128, 128), T.float32)
        sums = T.alloc_fragment((128,), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, 64), num_stages=3):
            T.copy(A[by * 128, k * 64], A_shared)
            T.copy(B[bx * 128, k * 64], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
        T.reduce_sum(C_local, sums, dim=1)
        for i in T.Parallel(128):
            S[by * 128 + i] = sums[i]
        T.copy(C_local, C_shared)
        T.copy(C_shared, C[by * 128, bx * 128])


@pytest.mark.parametrize("schedule", ["lazy", "eager", "random"])
def test_consumers_meet(schedule):
    rng = np.random.default_rng(0)
    a, b = random(rng, (256, 192), ml_dtypes.bfloat16), random(rng, (128, 192), ml_dtypes.bfloat16)
    c, s = poisoned((256, 128), ml_dtypes.bfloat16), poisoned((256,))
    kernel = gemm_with_sums.compile(a, b, c, s, target="sm_90a")
    kernel.simulate(a, b, c, s, schedule=schedule)
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    assert "bar.sync 1, 256" in kernel.asm["ptx"]
    assert np.linalg.norm(c.astype(np.float64) - exact) <= 4e-3 * np.linalg.norm(exact)
    assert np.allclose(s, exact.sum(axis=1), atol=1e-3)


@pytest.mark.parametrize(
    ("shape", "causal", "tiles"),
    [
        ((1, 1, 256, 128), False, {}),
        ((1, 2, 136, 64), True, {}),
        ((1, 1, 77, 96), False, {"block_N": 64}),
        ((1, 1, 200, 128), True, {"num_stages": 3, "block_N": 64}),
        ((1, 1, 1, 128), True, {}),
    ],
)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_attention(target, shape, causal, tiles):
    rng = np.random.default_rng(0)
    q, k, v = (random(rng, shape, ml_dtypes.bfloat16) for _ in range(3))
    o = poisoned(shape, ml_dtypes.bfloat16)
    if target == "sm_80" and not tiles:
        tiles = {"block_N": 64}
    kernel = attention.attention.compile(q, k, v, o, D=shape[3], causal=causal, target=target, **tiles)
    kernel.simulate(q, k, v, o, schedule="random", seed=1)
    assert ("wgmma.mma_async" in kernel.asm["ptx"]) == (target == "sm_90a")
    assert kernel.spills == 0
    difference = o.astype(np.float64) - attention.reference(q, k, v, causal)
    assert np.linalg.norm(difference) <= 8e-3 * np.linalg.norm(attention.reference(q, k, v, causal))


@mt.kernel
def one_operand_a_round(
    A: T.Tensor(("M", "K"), T.bfloat16), B: T.Tensor(("N", "K"), T.bfloat16), C: T.Tensor(("M", "N"), T.float32)
):
    """A is copied once for several gemms: the ring that it comes by has one slot."""
    with T.Kernel(1, threads=128):
        A_shared = T.alloc_shared((64, 64), A.dtype)
        B_shared = T.alloc_shared((64, 64), A.dtype)
        C_local = T.alloc_fragment((64, 64), T.float32)
        T.clear(C_local)
        for t in T.serial(3):
            T.copy(A[0, t * 64], A_shared)
            for k in T.Pipelined(2, num_stages=3):
                T.copy(B[0, k * 64], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
        T.copy(C_local, C)


@pytest.mark.parametrize("schedule", ["lazy", "eager", "random"])
def test_a_slot_is_released_before_its_next_filling_is_waited_for(schedule):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, (64, 192)).astype(ml_dtypes.bfloat16) for _ in range(2))
    c = poisoned((64, 64))
    kernel = one_operand_a_round.compile(a, b, c, target="sm_90a")
    assert "wgmma.mma_async" in kernel.asm["ptx"]
    kernel.simulate(a, b, c, schedule=schedule)
    wide_a, wide_b = a.astype(np.float32), b.astype(np.float32)
    sums = (wide_a[:, t * 64 : t * 64 + 64] @ wide_b[:, k * 64 : k * 64 + 64].T for t in range(3) for k in range(2))
    np.testing.assert_array_equal(c, sum(sums))


@mt.kernel
def sums_that_start_anew(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.float32),
    rounds: T.int32,
):
    """Only the sums of the last round are used: their gemms may be in flight for long, but not hold their slots."""
    with T.Kernel(1, threads=128):
        A_shared = T.alloc_shared((64, 64), A.dtype)
        B_shared = T.alloc_shared((64, 64), A.dtype)
        C_local = T.alloc_fragment((64, 64), T.float32)
        T.clear(C_local)
        for _ in T.serial(rounds):
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(A.shape[1], 64), num_stages=2):
                T.copy(A[0, k * 64], A_shared)
                T.copy(B[0, k * 64], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
        T.copy(C_local, C)


@pytest.mark.parametrize("schedule", ["lazy", "eager", "random"])
@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_slots_are_released_before_the_ring_goes_round(rounds, schedule):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, (64, 320)).astype(ml_dtypes.bfloat16) for _ in range(2))
    c = poisoned((64, 64))
    kernel = sums_that_start_anew.compile(a, b, c, target="sm_90a")
    assert "wgmma.mma_async" in kernel.asm["ptx"]
    kernel.simulate(a, b, c, rounds, schedule=schedule)
    expected = a.astype(np.float32) @ b.astype(np.float32).T if rounds else np.zeros((64, 64), np.float32)
    np.testing.assert_array_equal(c, expected)
