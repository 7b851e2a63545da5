"""Proxy fences in whole kernels on sm_90a: operands that threads have written, slots that threads have read, results
that leave by TMA. In the simulator, against float64; without any one of the fences it reports a missing one."""

from __future__ import annotations

import re

import numpy as np
import pytest
from support import poisoned, random

import minitile as mt
import minitile.language as T
from minitile.simulate import simulate

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


def test_each_fence_is_needed():
    """One before the consumers' barrier for what they write and have read, one for the result's way out."""
    found, a, b, c = compiled(scaled, 64, 64, 200)
    lines = found.asm["ptx"].splitlines()
    places = fences(found.asm["ptx"])
    assert len(places) == 2
    for place in places:
        text = "\n".join(lines[:place] + lines[place + 1 :])
        kinds = set()
        for schedule in SCHEDULES:
            with pytest.raises(mt.RaceError) as caught:
                simulate(found.launch_info, text, [a, b, c.copy()], schedule=schedule)
            kinds |= {f.kind for f in caught.value.findings}
        assert kinds == {"missing_proxy_fence"}


def test_a_fence_of_the_program_is_enough():
    found, *_ = compiled(scaled, 64, 64, 200, fenced=True)
    assert len(fences(found.asm["ptx"])) == 2


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
