"""Explicit roles of warpgroups on sm_90a, against float64: in the simulator's schedules, with every access checked, or
with MINITILE_GPU=1 on the GPU."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from mutation_testing import surviving_mutants
from support import USE_GPU, on_device, on_host, poisoned, random

import minitile as mt
import minitile.language as T
from tests.comments import bare

SCHEDULES = ["lazy", "eager", "random"]
needs_simulator = pytest.mark.skipif(USE_GPU, reason="looks for races")


def make_one_buffer(producer, consumer):
    """One version of each buffer, handed to and fro by two barriers."""

    @mt.kernel
    def gemm_one_buffer(
        A: T.Tensor(("M", "K"), T.float16),
        B: T.Tensor(("K", "N"), T.float16),
        C: T.Tensor(("M", "N"), T.float16),
        block_M=64,
        block_N=64,
        block_K=64,
        num_stages=0,
    ):
        M, K = A.shape
        N = B.shape[1]
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=256) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), A.dtype)
            B_shared = T.alloc_shared((block_K, block_N), A.dtype)
            C_local = T.alloc_fragment((block_M, block_N), T.float32)
            data_is_ready = T.alloc_barrier(arrive_count=128)
            compute_is_done = T.alloc_barrier(arrive_count=128)
            with T.ws(consumer):
                T.clear(C_local)
            for ko in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                with T.ws(producer):
                    T.barrier_wait(compute_is_done, (ko + 1) % 2)
                    T.tma_copy(A[by * block_M, ko * block_K], A_shared, barrier=data_is_ready)
                    T.tma_copy(B[ko * block_K, bx * block_N], B_shared, barrier=data_is_ready)
                    T.barrier_arrive(data_is_ready)
                with T.ws(consumer):
                    T.barrier_wait(data_is_ready, ko % 2)
                    T.gemm(A_shared, B_shared, C_local)
                    T.barrier_arrive(compute_is_done)
            with T.ws(consumer):
                T.copy(C_local, C[by * block_M, bx * block_N])

    return gemm_one_buffer


def launch(kernel, arrays, schedule="lazy", seed=0, **constants):
    """Run the kernel on the arrays, in the simulator or on the GPU. Its code for sm_90a."""
    compiled = kernel.compile(*arrays, target="sm_90a", **constants)
    if not USE_GPU:
        compiled.simulate(*arrays, schedule=schedule, seed=seed)
        return compiled
    if schedule != "lazy":
        pytest.skip("a GPU has a schedule of its own")
    there = [on_device(array) for array in arrays]
    kernel(*there, **constants)
    for array, result in zip(arrays, there, strict=True):
        array[...] = on_host(result)
    return compiled


def check(kernel, m, n, k, schedule="lazy", seed=0, **tiles):
    rng = np.random.default_rng(seed)
    a, b = random(rng, (m, k), np.float16), random(rng, (k, n), np.float16)
    c = poisoned((m, n), np.float16)
    compiled = launch(kernel, (a, b, c), schedule, seed, **tiles)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert np.linalg.norm(c.astype(np.float64) - exact) <= 2e-3 * max(np.linalg.norm(exact), 1e-30)
    return compiled


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("producer", "consumer", "num_stages"), [(1, 0, 0), (0, 1, 0), (1, 0, 2)])
def test_one_buffer(producer, consumer, num_stages, schedule):
    compiled = check(make_one_buffer(producer, consumer), 72, 80, 200, schedule, num_stages=num_stages)
    assert "wgmma.mma_async" in compiled.asm["ptx"]


@mt.kernel
def ring_of_two(
    A: T.Tensor(("M", "K"), T.float16),
    B: T.Tensor(("K", "N"), T.float16),
    C: T.Tensor(("M", "N"), T.float16),
    block_M=64,
    block_N=64,
    block_K=32,
    num_stages=2,
):
    """A ring of buffers, and the barriers of all its slots in one list: first those of full ones, then of free ones."""
    M, K = A.shape
    N = B.shape[1]
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=256) as (bx, by):
        A_shared = T.alloc_shared((num_stages, block_M, block_K), A.dtype)
        B_shared = T.alloc_shared((num_stages, block_K, block_N), A.dtype)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        mbars = T.alloc_barrier([128, 128] * num_stages)
        with T.ws(0):
            T.clear(C_local)
        for ko in range(T.ceildiv(K, block_K)):
            with T.ws(1):
                T.mbarrier_wait_parity(
                    mbarrier=mbars[ko % num_stages + num_stages], parity=((ko // num_stages) % 2) ^ 1
                )
                T.tma_copy(
                    A[by * block_M : (by + 1) * block_M, ko * block_K : (ko + 1) * block_K],
                    A_shared[ko % num_stages, :, :],
                    barrier=mbars[ko % num_stages],
                )
                T.tma_copy(
                    B[ko * block_K : (ko + 1) * block_K, bx * block_N : (bx + 1) * block_N],
                    B_shared[ko % num_stages, :, :],
                    barrier=mbars[ko % num_stages],
                )
                T.mbarrier_arrive(mbarrier=mbars[ko % num_stages])
            with T.ws(0):
                T.mbarrier_wait_parity(mbarrier=mbars[ko % num_stages], parity=(ko // num_stages) % 2)
                T.gemm(A_shared[ko % num_stages, :, :], B_shared[ko % num_stages, :, :], C_local)
                T.mbarrier_arrive(mbarrier=mbars[ko % num_stages + num_stages])
        with T.ws(0):
            T.copy(C_local, C[by * block_M, bx * block_N])


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("k", "stages"), [(8, 2), (200, 2), (200, 3)])
def test_ring(k, stages, schedule):
    compiled = check(ring_of_two, 72, 80, k, schedule, num_stages=stages)
    assert "wgmma.mma_async" in compiled.asm["ptx"]
    assert f"<{stages} versions" in compiled.asm["tile_ir"]


@mt.kernel
def two_products(
    A: T.Tensor(("M", "K"), T.float16),
    B: T.Tensor(("K", "N"), T.float16),
    C: T.Tensor(("M", "N"), T.float16),
    block_M=64,
    block_N=64,
    block_K=32,
):
    """Both warpgroups load A together, and each has its own half of B and C."""
    M, K = A.shape
    N = B.shape[1]
    half = block_N // 2
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=256) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), A.dtype)
        B_first = T.alloc_shared((block_K, half), A.dtype)
        B_second = T.alloc_shared((block_K, half), A.dtype)
        C_first = T.alloc_fragment((block_M, half), T.float32)
        C_second = T.alloc_fragment((block_M, half), T.float32)
        with T.ws(1):
            T.clear(C_second)
        with T.ws(0):
            T.clear(C_first)
        for ko in T.Pipelined(T.ceildiv(K, block_K), num_stages=0):
            T.copy(A[by * block_M, ko * block_K], A_shared)
            with T.ws(1):
                T.copy(B[ko * block_K, bx * block_N + half], B_second)
                T.gemm(A_shared, B_second, C_second)
            with T.ws(0):
                T.copy(B[ko * block_K, bx * block_N], B_first)
                T.gemm(A_shared, B_first, C_first)
        with T.ws(1):
            T.copy(C_second, C[by * block_M, bx * block_N + half])
        with T.ws(0):
            T.copy(C_first, C[by * block_M, bx * block_N])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_together_and_apart(schedule):
    compiled = check(two_products, 72, 80, 100, schedule)
    barriers = [line for line in bare(compiled.asm["ptx"]).splitlines() if "bar.sync" in line]
    assert any("128" in line for line in barriers)
    assert any("bar.sync 0" in line for line in barriers)


@mt.kernel
def in_flight(
    A: T.Tensor(("M", "K"), T.float16),
    B: T.Tensor(("K", "N"), T.float16),
    C: T.Tensor(("M", "N"), T.float16),
    block_M=128,
    block_N=64,
    block_K=32,
    num_stages=3,
):
    """One producer, two consumers that multiply together; one product stays in flight while the next one is issued."""
    M, K = A.shape
    N = B.shape[1]
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=384) as (bx, by):
        A_shared = T.alloc_shared((num_stages, block_M, block_K), A.dtype)
        B_shared = T.alloc_shared((num_stages, block_K, block_N), A.dtype)
        C_shared = T.alloc_shared((block_M, block_N), A.dtype)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        full = T.alloc_barrier([1] * num_stages)
        free = T.alloc_barrier([256] * num_stages)
        trips = T.ceildiv(K, block_K)
        with T.ws(0):
            T.dec_max_nreg(24)
            for ko in range(trips):
                T.barrier_wait(free[ko % num_stages], (ko // num_stages + 1) % 2)
                T.tma_copy(
                    A[by * block_M, ko * block_K], A_shared[ko % num_stages, :, :], barrier=full[ko % num_stages]
                )
                T.tma_copy(
                    B[ko * block_K, bx * block_N], B_shared[ko % num_stages, :, :], barrier=full[ko % num_stages]
                )
                T.sync_threads()  # a warp that waits here no more could miss a whole round of `free`
                if T.shuffle_elect(128):
                    T.barrier_arrive(full[ko % num_stages])
        with T.ws(1, 2):
            T.inc_max_nreg(240)
            T.clear(C_local)
            for ko in range(trips):
                T.barrier_wait(full[ko % num_stages], (ko // num_stages) % 2)
                T.wgmma_gemm(A_shared[ko % num_stages, :, :], B_shared[ko % num_stages, :, :], C_local)
                T.wait_wgmma(1)
                if ko > 0:
                    T.barrier_arrive(free[(ko - 1) % num_stages])
            T.copy(C_local, C_shared)
            T.copy(C_shared, C[by * block_M, bx * block_N])


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("k", [0, 8, 32, 200])
def test_in_flight(k, schedule):
    compiled = check(in_flight, 136, 72, k, schedule)
    ptx = compiled.asm["ptx"]
    assert "setmaxnreg.dec.sync.aligned.u32 24" in ptx
    assert "wgmma.wait_group.sync.aligned 1" in ptx


@mt.kernel
def in_slices(A: T.Tensor((64, 128), T.float16), B: T.Tensor((64, 128), T.float16), C: T.Tensor((64, 64), T.float16)):
    """Slices of K that land one by one, and are multiplied as soon as they are there; rows of scores go through shared
    memory as the operand of a second product, which threads write."""
    with T.Kernel(1, threads=256):
        A_shared = T.alloc_shared((64, 128), A.dtype)
        B_shared = T.alloc_shared((64, 128), A.dtype)
        P_shared = T.alloc_shared((64, 64), A.dtype)
        S = T.alloc_fragment((64, 64), T.float32)
        R = T.alloc_fragment((64, 64), T.float32)
        landed = T.alloc_barrier([128] * 2)
        for j in T.unroll(2):
            with T.ws(1):
                part = slice(j * 64, (j + 1) * 64)
                T.tma_copy(A[:, part], A_shared[:, part], barrier=landed[j])
                T.tma_copy(B[:, part], B_shared[:, part], barrier=landed[j])
                T.barrier_arrive(landed[j])
        with T.ws(0):
            for j in T.unroll(2):
                part = slice(j * 64, (j + 1) * 64)
                T.barrier_wait(landed[j], 0)
                T.wgmma_gemm(A_shared[:, part], B_shared[:, part], S, transpose_B=True, clear_accum=(j == 0))
            T.copy(S, P_shared)
            T.wgmma_gemm(P_shared, B_shared[:, 64:128], R, clear_accum=True)
            T.copy(R, C)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_slices(schedule):
    rng = np.random.default_rng(0)
    a, b = (random(rng, (64, 128), np.float16) for _ in range(2))
    c = poisoned((64, 64), np.float16)
    compiled = launch(in_slices, (a, b, c), schedule)
    wide = [x.astype(np.float64) for x in (a, b)]
    exact = (wide[0] @ wide[1].T).astype(np.float16).astype(np.float64) @ wide[1][:, 64:]
    assert np.linalg.norm(c.astype(np.float64) - exact) <= 3e-3 * np.linalg.norm(exact)
    assert "mma.sync.aligned.m16" not in compiled.asm["ptx"]


@mt.kernel
def stores_in_flight(A: T.Tensor(("M", 512), T.float16), C: T.Tensor(("M", 512), T.float16), together=False):
    """Each role has a ring of two buffers; the store of one tile is in flight while the next one is made."""
    M = A.shape[0]
    with T.Kernel(T.ceildiv(M, 64), threads=256) as bx:
        staged = T.alloc_shared((2, 64, 64), A.dtype)
        second = T.alloc_shared((2, 64, 64), A.dtype)
        total = T.alloc_fragment((64,), T.float32)
        for k in range(4):
            with T.ws(0):
                T.tma_store_wait(1)
                for i, j in T.Parallel(64, 64):
                    staged[k % 2, i, j] = A[bx * 64 + i, k * 64 + j] * 2
                T.tma_copy(staged[k % 2, :, :], C[bx * 64, k * 64])
                if together:
                    T.sync_threads()
            with T.ws(1):
                tile = T.alloc_fragment((64, 64), T.float16)
                T.tma_store_wait(1)
                T.copy(A[bx * 64, 256 + k * 64], tile)
                T.reduce_sum(tile, total, dim=1)
                for i, j in T.Parallel(64, 64):
                    tile[i, j] *= 2
                T.copy(tile, second[k % 2, :, :])
                T.tma_copy(second[k % 2, :, :], C[bx * 64, 256 + k * 64])
        with T.ws(0):
            T.tma_store_wait(0, read=False)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("m", [64, 100])
def test_stores_in_flight(m, together, schedule):
    a = random(np.random.default_rng(0), (m, 512), np.float16)
    c = poisoned((m, 512), np.float16)
    compiled = launch(stores_in_flight, (a, c), schedule, together=together)
    assert np.array_equal(c, 2 * a)
    assert "cp.async.bulk.wait_group.read 1" in compiled.asm["ptx"]


@mt.kernel
def one_buffer_stored(A: T.Tensor((64, 256), T.float16), C: T.Tensor((64, 256), T.float16), wait=True):
    with T.Kernel(1, threads=128):
        staged = T.alloc_shared((64, 64), A.dtype)
        scratch = T.alloc_shared((128,), T.float32)
        for k in range(4):
            if wait:
                T.tma_store_wait(0)
            for i, j in T.Parallel(64, 64):
                staged[i, j] = A[i, k * 64 + j]
            T.tma_copy(staged, C[0, k * 64])
            for i in T.Parallel(128):
                scratch[i] = k
            for i in T.Parallel(128):
                if scratch[127 - i] < 0:
                    C[0, 0] = 0


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_others_learn_of_a_wait(schedule):
    """A barrier between a store and the wait for it tells no thread that the store is done."""
    a = random(np.random.default_rng(0), (64, 256), np.float16)
    c = poisoned((64, 256), np.float16)
    launch(one_buffer_stored, (a, c), schedule)
    assert np.array_equal(c, a)


@needs_simulator
def test_stores_without_a_wait_race():
    a = random(np.random.default_rng(0), (64, 256), np.float16)
    with pytest.raises(mt.RaceError):
        one_buffer_stored.compile(a, a.copy(), target="sm_90a", wait=False).simulate(a, a.copy())


@needs_simulator
@pytest.mark.slow
@pytest.mark.parametrize("kernel", [ring_of_two, in_flight, two_products])
def test_mutants_are_killed(kernel):
    rng = np.random.default_rng(0)
    a, b = random(rng, (64, 160), np.float16), random(rng, (160, 64), np.float16)
    arrays = (a, b, poisoned((64, 64), np.float16))
    found, tried = surviving_mutants(kernel.compile(*arrays, target="sm_90a"), arrays)
    assert tried >= 8
    # T.sync_threads in `in_flight` is for a warp that is late by a whole round, which no schedule brings about.
    assert [each.partition("): ")[2] for each in found] == (["bar.sync 1, 128"] if kernel is in_flight else [])


@needs_simulator
@pytest.mark.slow
def test_mutants_around_stores_are_killed():
    a = random(np.random.default_rng(0), (64, 512), np.float16)
    compiled = stores_in_flight.compile(a, a.copy(), target="sm_90a")
    found, tried = surviving_mutants(compiled, (a, poisoned(a.shape, np.float16)))
    assert tried >= 8
    assert found == []


@mt.kernel
def attention_explicit(
    Q: T.Tensor(("N", 64), T.bfloat16),
    K: T.Tensor(("N", 64), T.bfloat16),
    V: T.Tensor(("N", 64), T.bfloat16),
    R: T.Tensor(("N", 64), T.bfloat16),
    block_M=64,
    block_N=64,
):
    """K and V by a producer, each with barriers of its own; the second product is in flight, from registers."""
    N = Q.shape[0]
    scale = 0.125 * 1.44269504
    with T.Kernel(T.ceildiv(N, block_M), threads=256) as bx:
        Q_shared = T.alloc_shared((block_M, 64), Q.dtype)
        K_shared = T.alloc_shared((2, block_N, 64), Q.dtype)
        V_shared = T.alloc_shared((2, block_N, 64), Q.dtype)
        S = T.alloc_fragment((block_M, block_N), T.float32)
        P = T.alloc_fragment((block_M, block_N), Q.dtype)
        acc = T.alloc_fragment((block_M, 64), T.float32)
        most = T.alloc_fragment((block_M,), T.float32)
        before = T.alloc_fragment((block_M,), T.float32)
        factor = T.alloc_fragment((block_M,), T.float32)
        part = T.alloc_fragment((block_M,), T.float32)
        total = T.alloc_fragment((block_M,), T.float32)
        q_full = T.alloc_barrier(128)
        k_full, k_free = T.alloc_barrier([128] * 2), T.alloc_barrier([128] * 2)
        v_full, v_free = T.alloc_barrier([128] * 2), T.alloc_barrier([128] * 2)
        trips = T.ceildiv(N, block_N)
        with T.ws(1):
            T.tma_copy(Q[bx * block_M, 0], Q_shared, barrier=q_full)
            T.barrier_arrive(q_full)
        with T.ws(0):
            T.fill(most, -T.infinity(T.float32))
            T.clear(acc)
            T.clear(total)
            T.barrier_wait(q_full, 0)
        for j in range(trips):
            slot = j % 2
            turn = j // 2 % 2
            with T.ws(1):
                T.barrier_wait(k_free[slot], turn ^ 1)
                T.tma_copy(K[j * block_N, 0], K_shared[slot, :, :], barrier=k_full[slot])
                T.barrier_arrive(k_full[slot])
                T.barrier_wait(v_free[slot], turn ^ 1)
                T.tma_copy(V[j * block_N, 0], V_shared[slot, :, :], barrier=v_full[slot])
                T.barrier_arrive(v_full[slot])
            with T.ws(0):
                T.barrier_wait(k_full[slot], turn)
                T.wgmma_gemm(Q_shared, K_shared[slot, :, :], S, transpose_B=True, clear_accum=True)
                T.wait_wgmma(0)
                T.barrier_arrive(k_free[slot])
                for i, n in T.Parallel(block_M, block_N):
                    S[i, n] = T.if_then_else(j * block_N + n < N, S[i, n], -T.infinity(T.float32))
                T.copy(most, before)
                T.reduce_max(S, most, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    factor[i] = T.exp2((before[i] - most[i]) * scale)
                for i, n in T.Parallel(block_M, block_N):
                    S[i, n] = T.exp2((S[i, n] - most[i]) * scale)
                T.reduce_sum(S, part, dim=1)
                for i in T.Parallel(block_M):
                    total[i] = total[i] * factor[i] + part[i]
                for i, n in T.Parallel(block_M, 64):
                    acc[i, n] *= factor[i]
                T.copy(S, P)
                T.barrier_wait(v_full[slot], turn)
                T.wgmma_gemm(P, V_shared[slot, :, :], acc)
                T.wait_wgmma(0)
                T.barrier_arrive(v_free[slot])
        with T.ws(0):
            for i, n in T.Parallel(block_M, 64):
                acc[i, n] /= total[i]
            T.copy(acc, R[bx * block_M, 0])


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("n", [1, 64, 200])
def test_attention(n, schedule):
    rng = np.random.default_rng(0)
    q, k, v = (random(rng, (n, 64), ml_dtypes.bfloat16) for _ in range(3))
    r = poisoned((n, 64), ml_dtypes.bfloat16)
    compiled = launch(attention_explicit, (q, k, v, r), schedule)
    wide = [x.astype(np.float64) for x in (q, k, v)]
    scores = wide[0] @ wide[1].T / 8
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    exact = weights / weights.sum(axis=1, keepdims=True) @ wide[2]
    assert np.linalg.norm(r.astype(np.float64) - exact) <= 1e-2 * np.linalg.norm(exact)
    assert "mma.sync.aligned.m16" not in compiled.asm["ptx"]


@mt.kernel
def pipelines_of_their_own(
    A: T.Tensor(("M", "K"), T.float16),
    B: T.Tensor(("K", "N"), T.float16),
    C: T.Tensor(("M", "N"), T.float16),
    block_M=64,
    block_N=64,
    block_K=32,
):
    """Each role is a whole pipelined gemm; two of them share a buffer for the results, one after the other."""
    M, K = A.shape
    N = B.shape[1]
    half = block_N // 2
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=384) as (bx, by):
        C_shared = T.alloc_shared((block_M, half), A.dtype)
        results = [T.alloc_fragment((block_M, half), T.float32) for _ in range(2)]
        with T.ws(1, 2):
            for g, c in enumerate(results):
                with T.ws(1 + g):
                    A_shared = T.alloc_shared((block_M, block_K), A.dtype)
                    B_shared = T.alloc_shared((block_K, half), A.dtype)
                    T.clear(c)
                    for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                        T.copy(A[by * block_M, k * block_K], A_shared)
                        T.copy(B[k * block_K, bx * block_N + g * half], B_shared)
                        T.gemm(A_shared, B_shared, c)
            for g, c in enumerate(results):
                T.sync_threads()
                with T.ws(1 + g):
                    T.copy(c, C_shared)
                T.copy(C_shared, C[by * block_M, bx * block_N + g * half])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_pipelines_in_roles(schedule):
    check(pipelines_of_their_own, 72, 80, 200, schedule)


@mt.kernel
def tma_multistage(
    A: T.Tensor(("M", "K"), T.float16),
    B: T.Tensor(("K", "N"), T.float16),
    C: T.Tensor(("M", "N"), T.float16),
    block_M=64,
    block_N=64,
    block_K=32,
    by_engine=True,
    threads=256,
):
    """All threads copy, wait and multiply; the result leaves by a copy that only the end waits for."""
    M, K = A.shape
    N = B.shape[1]
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), A.dtype)
        B_shared = T.alloc_shared((block_K, block_N), A.dtype)
        C_shared = T.alloc_shared((block_M, block_N), A.dtype)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        if by_engine:
            landed = T.alloc_barrier(threads)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
            if by_engine:
                T.tma_copy(A[by * block_M, k * block_K], A_shared, barrier=landed)
                T.tma_copy(B[k * block_K, bx * block_N], B_shared, barrier=landed)
                T.barrier_arrive(landed)
                T.barrier_wait(landed, k % 2)
                T.gemm(A_shared, B_shared, C_local)
            else:
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.wgmma_gemm(A_shared, B_shared, C_local)
                T.wait_wgmma(0)
        T.copy(C_local, C_shared)
        T.tma_copy(C_shared, C[by * block_M, bx * block_N])


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("threads", [128, 256])
@pytest.mark.parametrize("by_engine", [False, True])
def test_one_role(by_engine, threads, schedule):
    compiled = check(tma_multistage, 72, 80, 200, schedule, by_engine=by_engine, threads=threads)
    ptx = compiled.asm["ptx"]
    assert "wgmma.mma_async" in ptx
    loop = ptx[ptx.index("$L_for0:") : ptx.index("$L_for_end0:")]
    # No thread still multiplies what the next copy overwrites, which one warpgroup knows by its wait, and all know what
    # threads have copied: one barrier does for both.
    assert loop.count("bar.sync") == (not by_engine or threads > 128)
