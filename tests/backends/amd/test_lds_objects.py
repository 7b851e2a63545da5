"""Buffers of different phases share bytes, and are still objects of their own to LLVM: what is apart, what is not, and
that the order between phases is kept."""

from __future__ import annotations

import re
from functools import cache

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.backends.amd.emit.llvm import DATA_LAYOUT
from minitile.driver.simulate import launch_of
from minitile.runtime.sim import run_gcn
from minitile.runtime.sim.mutate.amdgcn import removals

pytest.importorskip("llvmlite")
BF16 = ml_dtypes.bfloat16
BOTH = ("gfx942", "gfx950")
M, N, K = 64, 64, 32


@mt.kernel
def two_products(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    V: T.Tensor(("K", "N"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.float32),
    num_stages=2,
):
    """C = A Bᵀ, in one loop, + A V, in another one with buffers of its own."""
    with T.Kernel(T.ceildiv(C.shape[1], N), T.ceildiv(C.shape[0], M), threads=128) as (bx, by):
        A_shared = T.alloc_shared((M, K), A.dtype)
        B_shared = T.alloc_shared((N, K), A.dtype)
        A_again = T.alloc_shared((M, K), A.dtype)
        V_shared = T.alloc_shared((K, N), A.dtype)
        C_local = T.alloc_fragment((M, N), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(A.shape[1], K), num_stages=num_stages):
            T.copy(A[by * M, k * K], A_shared)
            T.copy(B[bx * N, k * K], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
        for k in T.Pipelined(T.ceildiv(A.shape[1], K), num_stages=num_stages):
            T.copy(A[by * M, k * K], A_again)
            T.copy(V[k * K, bx * N], V_shared)
            T.gemm(A_again, V_shared, C_local)
        T.copy(C_local, C[by * M, bx * N])


def arguments(m=72, n=64, k=136):
    rng = np.random.default_rng(5)
    a, b, v = (rng.integers(-3, 4, shape).astype(BF16) for shape in ((m, k), (n, k), (k, n)))
    want = a.astype(np.float32) @ b.astype(np.float32).T + a.astype(np.float32) @ v.astype(np.float32)
    return [a, b, v, np.full((m, n), np.nan, np.float32)], want


@cache
def compiled(target, stages):
    return two_products.compile(*arguments()[0], target=target, num_stages=stages)


def objects(kernel):
    """Name, bytes and address of each LDS object."""
    found = re.findall(r"^@lds\.\d+\.(\S+) = .*\[(\d+) x i8\].*absolute_symbol !\{i32 (\d+)", kernel.asm["llvm"], re.M)
    return {name: (int(address), int(address) + int(size)) for name, size, address in found}


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("target", BOTH)
def test_phases_share_bytes_and_no_object(target, stages):
    kernel = compiled(target, stages)
    found = objects(kernel)
    assert set(found) == {"A_shared", "B_shared", "A_again", "V_shared"}
    total = max(end for _, end in found.values())
    assert total == kernel.launch_info.dynamic_shared == sum(e - s for s, e in found.values()) // 2
    assert f".group_segment_fixed_size: {total}" in kernel.text
    first, second = ([found[name] for name in names] for names in (("A_shared", "B_shared"), ("A_again", "V_shared")))
    assert any(a < d and c < b for a, b in first for c, d in second)
    assert kernel.notes == ()


@pytest.mark.parametrize("schedule", ["lazy", "eager", "random"])
@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("target", BOTH)
def test_results(target, stages, schedule):
    given, want = arguments()
    for seed in range(2 if schedule == "random" else 1):
        given[3][:] = np.nan
        compiled(target, stages).simulate(*given, schedule=schedule, seed=seed)
        assert np.array_equal(given[3], want)


@pytest.mark.parametrize("target", BOTH)
def test_the_barrier_between_phases_is_needed(target):
    """Outside of the loops there is one barrier that stands between what shares bytes."""
    kernel = compiled(target, 2)
    given, _ = arguments()
    info = kernel.launch_info
    kinds = []
    for mutant in removals(kernel.text, info.entry):
        if mutant.instruction != "s_barrier":
            continue
        grid, args = launch_of(info, [x.copy() for x in given])
        report = run_gcn(mutant.text, info.entry, grid, info.block, args, schedule="random", seed=1)
        kinds.append({finding.hazard for finding in report.findings})
    assert len(kinds) >= 3
    assert all(kinds)


@mt.kernel
def by_turns(A: T.Tensor((64, 64), T.float32), B: T.Tensor((64, 64), T.float32), n: T.int32):
    """In a loop of both phases they stay one object, whatever bytes they share."""
    with T.Kernel(1, threads=128):
        for _ in range(n):
            S = T.alloc_shared((64, 64), T.float32)
            T.copy(A, S)
            R = T.alloc_shared((64, 64), T.float32)
            for i, j in T.Parallel(64, 64):
                R[i, j] = S[j, i] + 1.0
            T.copy(R, B)


def test_where_no_outermost_barrier_parts_them():
    """With one stage, the barrier between the phases is the one at the head of the second loop's body."""
    assert "absolute_symbol" not in compiled("gfx950", 1).asm["llvm"]
    kernel = by_turns.compile(target="gfx950")
    assert "absolute_symbol" not in kernel.asm["llvm"]
    a, b = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32), np.zeros((64, 64), np.float32)
    kernel.simulate(a, b, 2, schedule="random")
    assert np.array_equal(b, a.T + np.float32(1))


def test_the_data_layout_is_the_target_machines():
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    for target in BOTH:
        machine = llvm.Target.from_triple("amdgcn-amd-amdhsa").create_target_machine(cpu=target, opt=3)
        assert str(machine.target_data) == DATA_LAYOUT
        assert f'target datalayout = "{DATA_LAYOUT}"' in compiled(target, 2).asm["llvm"]


@mt.kernel
def phases(X: T.Tensor((1, "n"), T.float32), Y: T.Tensor((1, "n"), T.float32), m: T.int32, first=16, second=16):
    """Y = X backwards + each part of X backwards. A buffer of the first phase shares the bytes of two of the second,
    the other one of which begins at byte 4 · first."""
    n = first + second
    with T.Kernel(1, threads=512):
        whole = T.alloc_shared((1, n), T.float32)
        T.copy(X[0:1, 0:n], whole)
        for i in T.Parallel(n):
            Y[0, i] = whole[0, n - 1 - i]
        low, high = T.alloc_shared((1, first), T.float32), T.alloc_shared((1, second), T.float32)
        T.copy(X[0:1, 0:first], low)
        for _ in range(m):
            T.copy(X[0:1, first:n], high)
            for i in T.Parallel(first):
                Y[0, i] += low[0, first - 1 - i]
            for i in T.Parallel(second):
                Y[0, first + i] += high[0, second - 1 - i]


@pytest.mark.parametrize("start", [65408, 65536, *(pytest.param(n, marks=pytest.mark.slow) for n in (65664, 131072))])
def test_a_part_begins_at_any_byte(start):
    """Sums of a constant and an offset in one object: LLVM reasons about their bits."""
    first = start // 4
    second = min(first, 40960 - first)
    x = np.random.default_rng(1).standard_normal((1, first + second)).astype(np.float32)
    y = np.zeros_like(x)
    kernel = phases.compile(x, y, 1, target="gfx950", first=first, second=second)
    starts = [int(n) for n in re.findall(r"(?:i32 |, )(\d{5,6})\b", kernel.asm["llvm"].partition("define")[2])]
    assert start in starts
    kernel.simulate(x, y, 1)
    parts = np.concatenate([x[:, first - 1 :: -1], x[:, : first - 1 : -1]], axis=1)
    assert np.array_equal(y, x[:, ::-1] + parts)


@mt.kernel
def with_unused(A: T.Tensor((64, 64), T.float32), B: T.Tensor((64, 64), T.float32), unused=True):
    with T.Kernel(1, threads=128):
        if unused:
            T.alloc_shared((128, 96), T.float32)
        S = T.alloc_shared((64, 64), T.float32)
        if unused:
            T.alloc_shared((33, 7), T.int8)
        T.copy(A, S)
        for i, j in T.Parallel(64, 64):
            B[i, j] = S[j, i] + 1.0


@pytest.mark.parametrize("target", [*BOTH, "sm_80", "sm_90a"])
def test_what_nobody_uses_takes_no_place(target):
    """And joins no others to one object."""
    kernel = with_unused.compile(target=target)
    without = with_unused.compile(target=target, unused=False)
    assert 0 < kernel.launch_info.dynamic_shared == without.launch_info.dynamic_shared
    if target in BOTH:
        assert re.findall(r"^@(lds\S+)", kernel.asm["llvm"], re.M) == ["lds.0.S"]
    a, b = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32), np.zeros((64, 64), np.float32)
    kernel.simulate(a, b)
    assert np.array_equal(b, a.T + np.float32(1))
