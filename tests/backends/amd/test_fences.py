"""T.fence("gpu") and ("sys") between blocks: what comes of them, that examples which hand data on run, and that each
part of a fence and of what stands around it is needed."""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.driver.simulate import launch_of
from minitile.runtime.sim import run_gcn
from minitile.runtime.sim.mutate.amdgcn import removals

pytest.importorskip("llvmlite")
sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))

from gemm_split_k import gemm_split_k
from gemm_stream_k import gemm_stream_k

from tests.examples.thinned import thinned

BOTH = ("gfx942", "gfx950")
SCHEDULES = ("lazy", "eager", "random")
BF16 = ml_dtypes.bfloat16
N = 256


@mt.kernel
def handed_on(
    x: T.Tensor((N,), T.int32),
    y: T.Tensor((N,), T.int32),
    z: T.Tensor((N,), T.int32),
    flag: T.Tensor((1,), T.int32),
    scope="gpu",
):
    """Block 0 writes y backwards, block 1 waits for it and reads it."""
    with T.Kernel(2, threads=128) as b:
        t = T.get_thread_binding()
        if b == 0:
            for i in T.Parallel(N):
                y[i] = x[N - 1 - i]
            T.sync_threads()
            if t == 0:
                T.fence(scope)
                T.atomic_add(flag[0], 1)
        else:
            if t == 0:
                while T.atomic_add(flag[0], 0, return_prev=True) < 1:
                    pass
                T.fence(scope)
            T.sync_threads()
            for i in T.Parallel(N):
                z[i] = y[i] + 1


def arguments():
    x = np.random.default_rng(0).integers(0, 1000, N).astype(np.int32)
    return [x, np.zeros(N, np.int32), np.zeros(N, np.int32), np.zeros(1, np.int32)]


@cache
def compiled(target, scope):
    return handed_on.compile(*arguments(), target=target, scope=scope)


@pytest.mark.parametrize("scope", ["gpu", "sys"])
@pytest.mark.parametrize("target", BOTH)
def test_between_blocks(target, scope):
    kernel = compiled(target, scope)
    bits = {"gpu": "sc1", "sys": "sc0 sc1"}[scope]
    for schedule in SCHEDULES:
        args = arguments()
        kernel.simulate(*args, schedule=schedule, seed=2)
        assert np.array_equal(args[2], args[0][::-1] + 1)
    fences = re.findall(
        r"(buffer_wbl2.*)\n(?:\s*\.loc.*\n)*\s*(s_waitcnt.*)\n(?:\s*\.loc.*\n)*\s*(buffer_inv.*)", kernel.text
    )
    assert len(fences) == kernel.text.count("buffer_wbl2") == 2
    for write_back, wait, invalidate in fences:
        assert (write_back, invalidate) == (f"buffer_wbl2 {bits}", f"buffer_inv {bits}")
        assert "vmcnt(0)" in wait  # also where LLVM thinks that nothing is under way


@pytest.mark.parametrize("target", BOTH)
def test_each_part_is_needed(target):
    kernel = compiled(target, "gpu")
    info, text = kernel.launch_info, kernel.text
    lines = text.splitlines()
    found = {}
    for mutant in removals(text, info.entry):
        if re.search("buffer_|vmcnt|s_barrier", mutant.instruction):
            args = arguments()
            grid, given = launch_of(info, args)
            report = run_gcn(mutant.text, info.entry, grid, info.block, given, schedule="random", seed=1)
            found[mutant.line, mutant.instruction.split()[0]] = bool(report.findings)
    # A fence releases and acquires in one: who tells needs no acquire, who hears no release.
    tells = next(n for n, line in enumerate(lines, 1) if re.match(r"\s+global_atomic_add (\S+ ){2}\S+$", line))
    fences = {name: [n for n, line in enumerate(lines, 1) if name in line] for name in ("buffer_wbl2", "buffer_inv")}
    of_who_tells = {name: max(n for n in at if n < tells) for name, at in fences.items()}
    needed = {
        (n, name): (n == of_who_tells[name]) == (name == "buffer_wbl2") for name, at in fences.items() for n in at
    }
    assert len(needed) == 4
    assert {key: found[key] for key in needed} == needed
    # Each wave's own stores are done at the barrier in front of the fence.
    (barrier,) = (
        n for n, line in enumerate(lines, 1) if "s_barrier" in line and of_who_tells["buffer_wbl2"] - 30 < n < tells
    )
    assert found[max(n for n, name in found if name == "vmcnt(0)" and n < barrier), "vmcnt(0)"]
    assert [key for key, was_found in found.items() if key[1] == "s_barrier" and not was_found] == []


@mt.kernel
def sums_so_far(
    A: T.Tensor((4, 64), T.int32),
    B: T.Tensor((4, 64), T.int32),
    S: T.Tensor((4,), T.int32),
    flag: T.Tensor((4,), T.int32),
):
    """Each block waits for the one in front."""
    with T.Kernel(4, threads=64) as b:
        t, base = T.get_thread_binding(), T.alloc_shared((1,), T.int32)
        v = A[b, t]
        for d in (1, 2, 4, 8, 16, 32):
            below = T.shfl_up(v, d, 64)
            v = v + T.if_then_else(t >= d, below, 0)
        if t == 63:
            before = T.int32(0)
            if b > 0:
                while T.atomic_add(flag[b - 1], 0, return_prev=True) == 0:
                    pass
                T.fence("gpu")
                before = S[b - 1]
            S[b] = before + v
            T.fence("gpu")
            T.atomic_add(flag[b], 1)
            base[0] = before
        B[b, t] = v + base[0]


@mt.kernel
def last_adds(
    A: T.Tensor(("N",), T.int32),
    P: T.Tensor((4,), T.int32),
    arrived: T.Tensor((1,), T.int32),
    total: T.Tensor((1,), T.int32),
):
    """The last block to arrive adds the sums of all."""
    with T.Kernel(4, threads=128) as b:
        t = T.get_thread_binding()
        s, before = T.alloc_shared((4,), T.int32), T.alloc_shared((1,), T.int32)
        i = b * 128 + t
        v = T.warp_reduce_sum(T.if_then_else(i < A.shape[0], A[T.min(i, A.shape[0] - 1)], 0))
        if T.get_lane_idx() == 0:
            s[T.get_warp_idx()] = v
        T.sync_threads()
        if t == 0:
            P[b] = s[0] + s[1] + s[2] + s[3]
            T.fence("gpu")
            before[0] = T.atomic_add(arrived[0], 1, return_prev=True)
            T.fence("gpu")
        if before[0] == 3:
            f, r = T.alloc_fragment((4,), T.int32), T.alloc_fragment((1,), T.int32)
            T.copy(P, f)
            T.reduce_sum(f, r, dim=0)
            total[0] = r[0]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("target", BOTH)
def test_programs_that_wait_for_each_other(target, schedule):
    rng = np.random.default_rng(4)
    a, b = rng.integers(-99, 99, (4, 64)).astype(np.int32), np.zeros((4, 64), np.int32)
    sums_so_far.compile(target=target).simulate(a, b, np.zeros(4, np.int32), np.zeros(4, np.int32), schedule=schedule)
    assert np.array_equal(b, np.cumsum(a).reshape(4, 64))
    x, parts, arrived, total = rng.integers(-99, 99, 500).astype(np.int32), *(np.zeros(n, np.int32) for n in (4, 1, 1))
    last_adds.compile(x, parts, arrived, total, target=target).simulate(x, parts, arrived, total, schedule=schedule)
    assert total[0] == x.sum()


def integers(*shapes):
    rng = np.random.default_rng(1)
    return [rng.integers(-2, 3, shape).astype(BF16) for shape in shapes]


@pytest.mark.parametrize(("target", "share"), thinned(BOTH, [False, True]))
def test_split_k(target, share):
    m, n, k, splits = 70, 64, 200, 4
    a, b = integers((m, k), (n, k))
    c, parts, arrived = np.zeros((m, n), BF16), np.full((splits, m, n), np.nan, np.float32), np.zeros(4, np.int32)
    kernel = gemm_split_k.compile(a, b, c, parts, arrived, target=target, splits=splits, share=share, num_stages=2)
    for schedule in ("random",) if target == "gfx942" else ("lazy", "random"):
        c[:], parts[:] = np.nan, np.nan
        kernel.simulate(a, b, c, parts, arrived, schedule=schedule)
        assert np.array_equal(c, (a.astype(np.float32) @ b.astype(np.float32).T).astype(BF16))
        assert not arrived.any()


@pytest.mark.slow
@pytest.mark.parametrize("target", BOTH)
def test_stream_k(target, monkeypatch):
    """By a call, which is simulated and checked for races as well."""
    monkeypatch.setenv("MINITILE_TARGET", target)
    m, n, k, blocks, size = 64, 64, 200, 3, 64
    a, b = integers((m, k), (n, k))
    c, parts = np.zeros((m, n), BF16), np.full((4 + blocks, size, size), np.nan, np.float32)
    arrived = np.zeros(4, np.int32)
    gemm_stream_k(a, b, c, parts, arrived, block_M=size, block_N=size, num_stages=2, threads=128, blocks=blocks)
    assert np.array_equal(c, (a.astype(np.float32) @ b.astype(np.float32).T).astype(BF16))
    assert not arrived.any()
