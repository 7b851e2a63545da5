"""What users of TileLang complained of about synchronisation, by the number of the issue (tile-ai/tilelang): each comes
out right here, in every schedule of the simulator and with every access checked, or is refused with the reason."""

from __future__ import annotations

import gemm
import ml_dtypes
import numpy as np
import pytest
from support import poisoned, random

import minitile as mt
import minitile.language as T
from minitile.driver.simulate import simulate

SCHEDULES = ["lazy", "eager", "random"]
TARGETS = ["sm_80", "sm_90a"]


def run(kernel, *args, target="sm_80", **options):
    """Compile, and run in all schedules; the arrays hold the results of the last run."""
    compiled = kernel.compile(*args, target=target, **options)
    for schedule in SCHEDULES:
        compiled.simulate(*args, schedule=schedule, seed=1)
    return compiled


# 2556: a barrier dropped where the number of threads is no multiple of 32 -------------------------------------------


@mt.kernel
def reversed_twice(A: T.Tensor(("N",), T.float32), B: T.Tensor(("N",), T.float32), n=40, threads=64):
    """`n` threads work, in `threads` of a block: those past the last whole warp as well."""
    with T.Kernel(1, threads=threads):
        S = T.alloc_shared((n,), T.float32)
        R = T.alloc_shared((n,), T.float32)
        for i in T.Parallel(n):
            S[i] = A[i]
        for i in T.Parallel(n):
            R[i] = S[n - 1 - i] * 2.0
        for i in T.Parallel(n):
            B[i] = R[n - 1 - i]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("n", "threads"), [(1, 32), (17, 32), (33, 64), (40, 64), (48, 96), (97, 96), (97, 160)])
def test_2556_any_number_of_threads(n, threads, target):
    a, b = np.arange(n, dtype=np.float32), poisoned((n,))
    compiled = run(reversed_twice, a, b, target=target, n=n, threads=threads)
    assert np.array_equal(b, 2 * a)
    assert compiled.asm["ptx"].count("bar.sync") >= 2


@mt.kernel
def some_of_them(out: T.Tensor((64,), T.float32)):
    with T.Kernel(1, threads=64):
        S = T.alloc_shared((64,), T.float32)
        tx = T.get_thread_binding()
        if tx < 48:
            S[tx] = T.float32(tx)
            out[tx] = S[47 - tx]


def test_2556_a_barrier_among_some_threads_is_refused():
    with pytest.raises(mt.MinitileError, match="no barrier can stand between") as caught:
        some_of_them.compile(poisoned((64,)))
    assert "out[tx] = S[47 - tx]" in str(caught.value)
    assert "end the branch between the two" in str(caught.value)


@mt.kernel
def all_meet(out: T.Tensor((64,), T.float32)):
    """As that error says."""
    with T.Kernel(1, threads=64):
        S = T.alloc_shared((64,), T.float32)
        tx = T.get_thread_binding()
        if tx < 48:
            S[tx] = T.float32(tx)
        if tx < 48:
            out[tx] = S[47 - tx]


def test_2556_in_two_branches_it_works():
    o = np.full(64, -1, np.float32)
    run(all_meet, o)
    assert np.array_equal(o, [*np.arange(48)[::-1], *[-1] * 16])


# 2612: a barrier hoisted out of a branch that threads decide differently ---------------------------------------------


@mt.kernel
def looped(M: T.Tensor((64,), T.int32), out: T.Tensor((64,), T.float32), by_element=True):
    with T.Kernel(1, threads=64):
        S = T.alloc_shared((64,), T.float32)
        tx = T.get_thread_binding()
        total = 0.0
        if M[tx if by_element else 0] != 0:
            for i in range(4):
                S[tx] = T.float32(tx + i)
                total = total + S[63 - tx]
        out[tx] = total


def test_2612_a_barrier_in_a_divergent_branch_is_refused():
    with pytest.raises(mt.MinitileError, match="no barrier can stand between"):
        looped.compile(np.ones(64, np.int32), poisoned((64,)))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("flag", [0, 1])
def test_2612_in_a_branch_of_all_threads_it_stays_inside(flag, target):
    o = poisoned((64,))
    compiled = run(looped, np.full(64, flag, np.int32), o, target=target, by_element=False)
    assert np.array_equal(o, flag * np.float32(4 * np.arange(64)[::-1] + 6))
    assert compiled.asm["ptx"].count("bar.sync") == 2  # before the write and before the read of each iteration


# 2668: a shared buffer that is read, then overwritten, in a pipelined loop -------------------------------------------


@mt.kernel
def read_then_overwritten(A: T.Tensor((5, 64), T.float32), B: T.Tensor((64,), T.float32), num_stages=2):
    with T.Kernel(1, threads=64):
        S = T.alloc_shared((64,), T.float32)
        sums = T.alloc_fragment((64,), T.float32)
        T.clear(sums)
        T.clear(S)
        for k in T.Pipelined(5, num_stages=num_stages):
            for i in T.Parallel(64):
                sums[i] += S[63 - i] * (k + 1)
            T.copy(A[k, 0:64], S)
        T.copy(sums, B)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("num_stages", [0, 1, 2, 3])
def test_2668_write_after_read_in_a_pipelined_loop(num_stages, target):
    rng = np.random.default_rng(0)
    a, b = random(rng, (5, 64), np.float32), poisoned((64,))
    run(read_then_overwritten, a, b, target=target, num_stages=num_stages)
    wanted = sum((k + 1) * a[k - 1, ::-1].astype(np.float64) for k in range(1, 5))
    assert np.allclose(b, wanted, atol=1e-5)


# 2595: a read moved past an atomic addition to the same buffer -------------------------------------------------------


@mt.kernel
def read_then_added(A: T.Tensor((64,), T.float32), B: T.Tensor((64,), T.float32), C: T.Tensor((64,), T.float32)):
    with T.Kernel(1, threads=64):
        S = T.alloc_shared((64,), T.float32)
        tx = T.get_thread_binding()
        T.copy(A, S)
        before = S[tx]
        for i in T.Parallel(64):
            T.atomic_add(S[63 - i], 100.0)
        B[tx] = before
        C[tx] = S[tx]


@pytest.mark.parametrize("target", TARGETS)
def test_2595_reads_stay_before_atomics(target):
    a, b, c = np.arange(64, dtype=np.float32), poisoned((64,)), poisoned((64,))
    run(read_then_added, a, b, c, target=target)
    assert np.array_equal(b, a)
    assert np.array_equal(c, a + 100)


# 2566: a specialised pipeline of one iteration deadlocks -------------------------------------------------------------


@pytest.mark.parametrize("num_stages", [2, 3, 4])
@pytest.mark.parametrize("k", [0, 8, 64])
def test_2566_one_iteration_or_none(k, num_stages):
    rng = np.random.default_rng(0)
    a, b = random(rng, (64, k), ml_dtypes.bfloat16), random(rng, (64, k), ml_dtypes.bfloat16)
    c = poisoned((64, 64), ml_dtypes.bfloat16)
    tiles = {"block_M": 64, "block_N": 64, "block_K": 64, "threads": 128, "num_stages": num_stages}
    compiled = run(gemm.gemm_nt_bf16(), a, b, c, target="sm_90a", **tiles)
    assert "wgmma.mma_async" in compiled.asm["ptx"]
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    assert np.linalg.norm(c.astype(np.float64) - exact) <= 4e-3 * max(np.linalg.norm(exact), 1e-30)


# 2634: a product reads what threads have written, without a fence ----------------------------------------------------


@mt.kernel
def expanded(A: T.Tensor((64, 32), T.float16), B: T.Tensor((64, 64), T.float16), C: T.Tensor((64, 64), T.float32)):
    """A product whose operand is expanded by threads (each element of A twice), as a sparse one's is."""
    with T.Kernel(1, threads=256):
        A_shared = T.alloc_shared((64, 64), A.dtype)
        B_shared = T.alloc_shared((64, 64), A.dtype)
        C_local = T.alloc_fragment((64, 64), T.float32)
        full = T.alloc_barrier(arrive_count=128)
        with T.ws(1):
            T.tma_copy(B, B_shared, barrier=full)
            T.barrier_arrive(full)
        with T.ws(0):
            T.clear(C_local)
            for i, j in T.Parallel(64, 64):
                A_shared[i, j] = A[i, j // 2]
            T.barrier_wait(full, 0)
            T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C)


def test_2634_operands_that_threads_expand_are_fenced():
    rng = np.random.default_rng(0)
    a, b, c = random(rng, (64, 32), np.float16), random(rng, (64, 64), np.float16), poisoned((64, 64))
    compiled = run(expanded, a, b, c, target="sm_90a")
    exact = np.repeat(a.astype(np.float64), 2, axis=1) @ b.astype(np.float64)
    assert np.linalg.norm(c - exact) <= 1e-3 * np.linalg.norm(exact)
    lines = compiled.asm["ptx"].splitlines()
    first = next(n for n, line in enumerate(lines) if "fence.proxy.async" in line)
    assert first < next(n for n, line in enumerate(lines) if "wgmma.mma_async" in line)
    text = "\n".join(lines[:first] + lines[first + 1 :])
    with pytest.raises(mt.RaceError, match=r"fence\.proxy\.async"):
        simulate(compiled.launch_info, text, [a, b, c])


# 2698: no barrier between a copy into a shared buffer and a fill of a part of it --------------------------------------


@mt.kernel
def copied_then_filled(A: T.Tensor((96,), T.float32), B: T.Tensor((96,), T.float32), start=40):
    with T.Kernel(1, threads=64):
        S = T.alloc_shared((96,), T.float32)
        T.copy(A, S)
        T.fill(S[start : start + 24], -1.0)
        T.copy(S, B)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("start", [0, 1, 40, 72])
def test_2698_a_fill_behind_a_copy(start, target):
    a, b = np.arange(96, dtype=np.float32), poisoned((96,))
    run(copied_then_filled, a, b, target=target, start=start)
    a[start : start + 24] = -1
    assert np.array_equal(a, b)


# 1841: barriers between atomic additions ------------------------------------------------------------------------------


@mt.kernel
def added_up(A: T.Tensor(("N",), T.int32), B: T.Tensor((1,), T.int32), rounds=4):
    with T.Kernel(1, threads=128):
        S = T.alloc_shared((1,), T.int32)
        T.clear(S)
        for k in range(rounds):
            for i in T.Parallel(128):
                T.atomic_add(S[0], A[k * 128 + i])
        for i in T.Parallel(1):
            B[i] = S[i]


def test_1841_atomics_need_no_barriers_among_them():
    a, b = np.arange(500, dtype=np.int32), np.full(1, -1, np.int32)
    compiled = run(added_up, a, b)
    assert b[0] == a.sum()
    assert compiled.asm["ptx"].count("bar.sync") == 2  # behind the clear, before the result


# 2613: two warpgroups multiply one shared operand that all threads fill, in a plain loop ------------------------------


@mt.kernel
def two_columns(
    A: T.Tensor(("M", "K"), T.float16), B: T.Tensor(("K", 128), T.float16), C: T.Tensor(("M", 128), T.float32)
):
    M, K = A.shape
    with T.Kernel(T.ceildiv(M, 64), threads=256) as by:
        A_shared = T.alloc_shared((64, 32), A.dtype)
        B_shared = T.alloc_shared((2, 32, 64), A.dtype)
        C_local = T.alloc_fragment((64, 64), T.float32)
        C_other = T.alloc_fragment((64, 64), T.float32)
        with T.ws(0):
            T.clear(C_local)
        with T.ws(1):
            T.clear(C_other)
        for ko in range(T.ceildiv(K, 32)):
            T.copy(A[by * 64, ko * 32], A_shared)
            T.copy(B[ko * 32 : (ko + 1) * 32, 0:64], B_shared[0, :, :])
            T.copy(B[ko * 32 : (ko + 1) * 32, 64:128], B_shared[1, :, :])
            with T.ws(0):
                T.gemm(A_shared, B_shared[0, :, :], C_local)
            with T.ws(1):
                T.gemm(A_shared, B_shared[1, :, :], C_other)
        with T.ws(0):
            T.copy(C_local, C[by * 64, 0])
        with T.ws(1):
            T.copy(C_other, C[by * 64, 64])


def test_2613_an_operand_of_two_warpgroups():
    rng = np.random.default_rng(0)
    a, b, c = random(rng, (64, 100), np.float16), random(rng, (100, 128), np.float16), poisoned((64, 128))
    run(two_columns, a, b, c, target="sm_90a")
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert np.linalg.norm(c - exact) <= 1e-3 * np.linalg.norm(exact)
