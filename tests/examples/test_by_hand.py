"""Roles of warpgroups by hand on sm_90a, against float64, in the simulator's schedules, with every access checked."""

from __future__ import annotations

import numpy as np
import pytest
from support import poisoned, random

import minitile as mt
import minitile.language as T

SCHEDULES = ["lazy", "eager", "random"]


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


def check(kernel, m, n, k, schedule="lazy", seed=0, **tiles):
    rng = np.random.default_rng(seed)
    a, b = random(rng, (m, k), np.float16), random(rng, (k, n), np.float16)
    c = poisoned((m, n), np.float16)
    compiled = kernel.compile(a, b, c, target="sm_90a", **tiles)
    compiled.simulate(a, b, c, schedule=schedule, seed=seed)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert np.linalg.norm(c.astype(np.float64) - exact) <= 2e-3 * max(np.linalg.norm(exact), 1e-30)
    return compiled


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("producer", "consumer", "num_stages"), [(1, 0, 0), (0, 1, 0), (1, 0, 2)])
def test_one_buffer(producer, consumer, num_stages, schedule):
    compiled = check(make_one_buffer(producer, consumer), 72, 80, 200, schedule, num_stages=num_stages)
    assert "wgmma" in compiled.asm["ptx"]
