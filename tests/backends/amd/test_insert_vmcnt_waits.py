"""What waves hand to each other through global memory is awaited at the barrier between, and only there."""

from __future__ import annotations

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.driver import pipeline
from minitile.driver.simulate import RaceError

pytest.importorskip("llvmlite")

TARGETS = ["gfx942", "gfx950"]
SCHEDULES = [("eager", 0), ("lazy", 0), ("random", 0), ("random", 1)]
DRAINING = "@llvm.amdgcn.s.waitcnt(i32 112)"  # vmcnt(0) lgkmcnt(0)


@mt.kernel
def doubled_first(
    A: T.Tensor((64, "K"), T.float16),
    B: T.Tensor((64, "K"), T.float16),
    W: T.Tensor((64, "K"), T.float16),
    C: T.Tensor((64, 64), T.float32),
):
    with T.Kernel(1, threads=128):
        A_shared = T.alloc_shared((64, 32), T.float16)
        B_shared = T.alloc_shared((64, 32), T.float16)
        total = T.alloc_fragment((64, 64), T.float32)
        T.clear(total)
        for k in T.serial(T.ceildiv(A.shape[1], 32)):
            for i, j in T.Parallel(64, 32):
                W[i, k * 32 + j] = A[i, k * 32 + j] * 2
        for k in T.Pipelined(T.ceildiv(A.shape[1], 32), num_stages=3):
            T.copy(W[0, k * 32], A_shared)
            T.copy(B[0, k * 32], B_shared)
            T.gemm(A_shared, B_shared, total, transpose_B=True)
        T.copy(total, C)


@mt.kernel
def two_products(
    A: T.Tensor((64, "K"), T.float16),
    B: T.Tensor((64, "K"), T.float16),
    W: T.Tensor((64, 64), T.float16),
    C: T.Tensor((64, 64), T.float32),
):
    with T.Kernel(1, threads=128):
        A_shared = T.alloc_shared((64, 32), T.float16)
        B_shared = T.alloc_shared((64, 32), T.float16)
        W_shared = T.alloc_shared((64, 64), T.float16)
        total = T.alloc_fragment((64, 64), T.float32)
        T.clear(total)
        for k in T.Pipelined(T.ceildiv(A.shape[1], 32), num_stages=3):
            T.copy(A[0, k * 32], A_shared)
            T.copy(B[0, k * 32], B_shared)
            T.gemm(A_shared, B_shared, total, transpose_B=True)
        for i, j in T.Parallel(64, 64):
            W_shared[i, j] = T.cast(T.cast(total[i, j], T.int32) % 8, T.float16)
        T.copy(W_shared, W)
        T.clear(total)
        for k in T.Pipelined(2, num_stages=2):
            T.copy(W[0, k * 32], A_shared)
            T.copy(B[0, k * 32], B_shared)
            T.gemm(A_shared, B_shared, total, transpose_B=True)
        T.copy(total, C)


@mt.kernel
def iterated(B: T.Tensor((64, 64), T.float16), X: T.Tensor((64, 64), T.float16)):
    with T.Kernel(1, threads=128):
        X_shared = T.alloc_shared((64, 32), T.float16)
        B_shared = T.alloc_shared((64, 32), T.float16)
        total = T.alloc_fragment((64, 64), T.float32)
        for _ in T.serial(3):
            T.clear(total)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(X[0, k * 32], X_shared)
                T.copy(B[0, k * 32], B_shared)
                T.gemm(X_shared, B_shared, total, transpose_B=True)
            for i, j in T.Parallel(64, 64):
                X[i, j] = T.cast(T.cast(total[i, j], T.int32) % 5 - 2, T.float16)


@mt.kernel
def rows_of_c(A: T.Tensor(("M", "K"), T.float16), B: T.Tensor((64, "K"), T.float16), C: T.Tensor(("M", 64), T.float32)):
    with T.Kernel(1, threads=128):
        A_shared = T.alloc_shared((64, 32), T.float16)
        B_shared = T.alloc_shared((64, 32), T.float16)
        total = T.alloc_fragment((64, 64), T.float32)
        for m in T.serial(T.ceildiv(A.shape[0], 64)):
            T.clear(total)
            for k in T.Pipelined(T.ceildiv(A.shape[1], 32), num_stages=3):
                T.copy(A[m * 64, k * 32], A_shared)
                T.copy(B[0, k * 32], B_shared)
                T.gemm(A_shared, B_shared, total, transpose_B=True)
            T.copy(total, C[m * 64, 0])


def integers(*shape):
    return np.random.default_rng(sum(shape)).integers(-3, 4, shape).astype(np.float16)


def case(kernel):
    """Arguments, and what the last one is to become."""
    a, b, c = integers(64, 96), integers(64, 96)[::-1].copy(), np.zeros((64, 64), np.float32)
    product = a.astype(np.int64) @ b.astype(np.int64).T
    if kernel is doubled_first:
        return [a, b, np.zeros_like(a), c], 2 * product
    if kernel is two_products:
        return [a, b, np.zeros((64, 64), np.float16), c], product % 8 @ b[:, :64].astype(np.int64).T
    if kernel is rows_of_c:
        tall = integers(192, 96)
        return [tall, b, np.zeros((192, 64), np.float32)], tall.astype(np.int64) @ b.astype(np.int64).T
    x, square = integers(64, 64), integers(64, 64).T.copy()
    want = x.astype(np.int64)
    for _ in range(3):
        want = want @ square.astype(np.int64).T % 5 - 2
    return [square, x], want


def simulate(kernel, target):
    arrays, want = case(kernel)
    program = kernel.compile(*arrays, target=target)
    for schedule, seed in SCHEDULES:
        mine = [array.copy() for array in arrays]
        program.simulate(*mine, schedule=schedule, seed=seed)
        assert np.array_equal(mine[-1], want)
    return program


def draining(program):
    """How many barriers wait for vmcnt(0)."""
    return program.asm["llvm"].count(DRAINING)


@pytest.mark.parametrize(
    ("kernel", "target"), [(two_products, "gfx942"), (two_products, "gfx950"), (iterated, "gfx942")]
)
def test_stores_that_a_loop_copies(kernel, target, monkeypatch):
    """Other waves have made them. Without these waits they are still under way."""
    assert draining(simulate(kernel, target))
    others = [one for one in pipeline.THREAD_PASSES if one[0] != "insert_vmcnt_waits"]
    monkeypatch.setattr(pipeline, "THREAD_PASSES", others)
    monkeypatch.setenv("MINITILE_CACHE", "0")
    with pytest.raises(RaceError, match="missing_wait"):
        simulate(kernel, target)


@pytest.mark.parametrize(
    ("kernel", "count"),
    [(doubled_first, 1), (two_products, 1), (rows_of_c, 0)],
    ids=lambda k: getattr(k, "__name__", ""),
)
@pytest.mark.parametrize("target", TARGETS)
def test_pipelines_keep_their_copies_under_way(kernel, count, target):
    """Only the barrier behind the stores waits for all; no wave meets what another one has stored into C, and no wait
    in a loop has become one for everything."""
    program = simulate(kernel, target)
    assert draining(program) == count
