"""Proxy fences in whole kernels on sm_90a: operands that threads have written, slots that threads have read, results
that leave by TMA. In the simulator, against float64; without any one of the fences it reports a missing one."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest
from support import poisoned, random

import minitile as mt
import minitile.language as T
from minitile.driver.simulate import simulate
from tests.comments import bare

SCHEDULES = ["lazy", "eager", "random"]


@mt.kernel
def scaled(
    A: T.Tensor(("M", "K"), T.float16),
    B: T.Tensor(("K", "N"), T.float16),
    C: T.Tensor(("M", "N"), T.float16),
    fenced=False,
):
    """C = 2·A·B, where A goes through registers: threads read what TMA has loaded, and write what wgmma reads."""
    M, K = A.shape
    N = B.shape[1]
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=256) as (bx, by):
        A_shared = T.alloc_shared((64, 64), A.dtype)
        B_shared = T.alloc_shared((64, 64), A.dtype)
        P_shared = T.alloc_shared((64, 64), A.dtype)
        A_local = T.alloc_fragment((64, 64), A.dtype)
        C_local = T.alloc_fragment((64, 64), T.float32)
        full = T.alloc_barrier(arrive_count=128)
        free = T.alloc_barrier(arrive_count=128)
        with T.ws(0):
            T.clear(C_local)
        for ko in range(T.ceildiv(K, 64)):
            with T.ws(1):
                T.barrier_wait(free, (ko + 1) % 2)
                T.tma_copy(A[by * 64, ko * 64], A_shared, barrier=full)
                T.tma_copy(B[ko * 64, bx * 64], B_shared, barrier=full)
                T.barrier_arrive(full)
            with T.ws(0):
                T.barrier_wait(full, ko % 2)
                T.copy(A_shared, A_local)
                for i, j in T.Parallel(64, 64):
                    A_local[i, j] = A_local[i, j] * 2.0
                T.copy(A_local, P_shared)
                if fenced:
                    T.fence("async_shared")
                T.gemm(P_shared, B_shared, C_local)
                T.barrier_arrive(free)
        with T.ws(0):
            T.copy(C_local, C[by * 64, bx * 64])


def fences(text: str) -> list[int]:
    return [n for n, line in enumerate(text.splitlines()) if "fence.proxy.async" in line]


def compiled(kernel, m, n, k, **options):
    rng = np.random.default_rng(0)
    a, b = random(rng, (m, k), np.float16), random(rng, (k, n), np.float16)
    c = poisoned((m, n), np.float16)
    return kernel.compile(a, b, c, target="sm_90a", **options), a, b, c


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("k", [8, 64, 200])
def test_operands_that_threads_write(k, schedule):
    found, a, b, c = compiled(scaled, 72, 64, k)
    assert "wgmma" in found.asm["ptx"]
    found.simulate(a, b, c, schedule=schedule)
    exact = 2 * a.astype(np.float64) @ b.astype(np.float64)
    assert np.linalg.norm(c.astype(np.float64) - exact) <= 2e-3 * np.linalg.norm(exact)


def without(kernel, place, arrays) -> set[str]:
    """What the simulator finds when a line of the PTX is not there."""
    lines = kernel.asm["ptx"].splitlines()
    text = "\n".join(lines[:place] + lines[place + 1 :])
    kinds = set()
    for schedule in SCHEDULES:
        try:
            simulate(kernel.launch_info, text, [array.copy() for array in arrays], schedule=schedule, seed=1)
        except mt.RaceError as error:
            kinds |= {f.kind for f in error.findings}
    return kinds


def test_each_fence_is_needed():
    """One before the consumers' barrier for what they write and have read, one for the result's way out."""
    found, a, b, c = compiled(scaled, 64, 64, 200)
    places = fences(found.asm["ptx"])
    assert len(places) == 2
    for place in places:
        assert without(found, place, [a, b, c]) == {"missing_proxy_fence"}


def test_a_fence_of_the_program_is_enough():
    found, *_ = compiled(scaled, 64, 64, 200, fenced=True)
    assert len(fences(found.asm["ptx"])) == 2


@mt.kernel
def pipelined(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.float32),
    through_shared=True,
):
    """The same in a pipeline whose roles the compiler finds; A goes back to shared memory, or stays in registers."""
    M, K = A.shape
    N = B.shape[0]
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (bx, by):
        A_shared = T.alloc_shared((64, 64), A.dtype)
        B_shared = T.alloc_shared((64, 64), A.dtype)
        P_shared = T.alloc_shared((64, 64), A.dtype)
        A_local = T.alloc_fragment((64, 64), A.dtype)
        C_local = T.alloc_fragment((64, 64), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, 64), num_stages=2):
            T.copy(A[by * 64, k * 64], A_shared)
            T.copy(B[bx * 64, k * 64], B_shared)
            T.copy(A_shared, A_local)
            for i, j in T.Parallel(64, 64):
                A_local[i, j] = A_local[i, j] * 2.0
            if through_shared:
                T.copy(A_local, P_shared)
                T.gemm(P_shared, B_shared, C_local, transpose_B=True)
            else:
                T.gemm(A_local, B_shared, C_local, transpose_B=True)
        T.copy(C_local, C[by * 64, bx * 64])


@pytest.mark.parametrize("through_shared", [False, True])
def test_a_pipeline_whose_slots_threads_read(through_shared):
    """Each thread fences before its warp meets and one lane releases the slot; and before what it has written is
    multiplied."""
    rng = np.random.default_rng(0)
    a, b = random(rng, (64, 320), ml_dtypes.bfloat16), random(rng, (64, 320), ml_dtypes.bfloat16)
    c = poisoned((64, 64))
    found = pipelined.compile(a, b, c, target="sm_90a", through_shared=through_shared)
    text = found.asm["ptx"]
    assert "wgmma" in text
    assert re.search(r"fence\.proxy\.async\.shared::cta;\n\s*(\.loc.*\n\s*)*bar\.warp\.sync", bare(text))
    assert len(fences(text)) == (4 if through_shared else 3)
    found.simulate(a, b, c)
    exact = 2 * a.astype(np.float64) @ b.astype(np.float64).T
    assert np.linalg.norm(c - exact) <= 4e-3 * np.linalg.norm(exact)
    for place in fences(text):
        assert without(found, place, [a, b, c]) == {"missing_proxy_fence"}
    (meeting,) = (n for n, line in enumerate(text.splitlines()) if "bar.warp.sync" in line)
    assert without(found, meeting, [a, b, c]) == {"missing_barrier"}


@mt.kernel
def told(A: T.Tensor((64,), T.float32), B: T.Tensor((64,), T.float32)):
    with T.Kernel(1, threads=64):
        x = T.alloc_shared((64,), T.float32)
        T.copy(A, x)
        T.fence("async_shared")
        T.fence_proxy_async()
        with T.proxy_hint("neutral"):
            T.copy(x, B)
        T.fence("gpu")
        T.fence("sys")


@pytest.mark.parametrize(("target", "count"), [("sm_80", 0), ("sm_89", 0), ("sm_90a", 2)])
def test_fences_by_hand(target, count):
    a, b = np.arange(64, dtype=np.float32), poisoned((64,))
    found = told.compile(a, b, target=target)
    found.simulate(a, b)
    text = found.asm["ptx"]
    assert np.array_equal(a, b)
    assert len(fences(text)) == count
    assert re.findall(r"fence\.acq_rel\.(\w+);", text) == ["gpu", "sys"]


def test_scopes_that_there_are_not():
    @mt.kernel
    def wrong(A: T.Tensor((64,), T.float32), hint: int = 0):
        with T.Kernel(1, threads=64):
            if hint:
                with T.proxy_hint("acquire"):
                    T.sync_threads()
            else:
                T.fence("cta")

    with pytest.raises(mt.MinitileError, match="scopes are async_shared, gpu, sys"):
        wrong.compile(mt.spec((64,), "float32"))
    with pytest.raises(mt.MinitileError, match="scopes are generic, async, neutral"):
        wrong.compile(mt.spec((64,), "float32"), hint=1)
