"""Kernels that lean on the tile passes, compiled and run in the simulator, with copies landing late, early, randomly.

`test_random_kernels` compares with the tile interpreter; here the machine code must agree with NumPy.
"""

from __future__ import annotations

import numpy as np
import pytest

import minitile as mt
import minitile.language as T

pytestmark = pytest.mark.parametrize("schedule", ["lazy", "eager", "random"])
RANDOM = np.random.default_rng(5)


def run(kernel, arrays, schedule, *scalars, **constants):
    specs = [mt.spec(a.shape, a.dtype.name) for a in arrays]
    kernel.compile(*specs, target="sm_80", **constants).simulate(*arrays, *scalars, schedule=schedule, seed=1)


@mt.kernel
def attention(
    Q: T.Tensor(("S", 64), T.float16),
    K: T.Tensor(("S", 64), T.float16),
    V: T.Tensor(("S", 64), T.float16),
    O: T.Tensor(("S", 64), T.float16),  # noqa: E741
    rows=64,
    columns=32,
    stages=2,
):
    S = Q.shape[0]
    with T.Kernel(T.ceildiv(S, rows), threads=128) as bx:
        q = T.alloc_shared((rows, 64), T.float16)
        k_tile = T.alloc_shared((columns, 64), T.float16)
        v_tile = T.alloc_shared((columns, 64), T.float16)
        scores = T.alloc_fragment((rows, columns), T.float32)
        weights = T.alloc_fragment((rows, columns), T.float16)
        out = T.alloc_fragment((rows, 64), T.float32)
        before = T.alloc_fragment((rows,), T.float32)
        largest = T.alloc_fragment((rows,), T.float32)
        scale = T.alloc_fragment((rows,), T.float32)
        added = T.alloc_fragment((rows,), T.float32)
        total = T.alloc_fragment((rows,), T.float32)
        T.copy(Q[bx * rows, 0], q)
        T.clear(out)
        T.clear(total)
        T.fill(largest, -T.infinity(T.float32))
        for k in T.Pipelined(T.ceildiv((bx + 1) * rows, columns), num_stages=stages):
            T.copy(K[k * columns, 0], k_tile)
            for i, j in T.Parallel(rows, columns):
                scores[i, j] = T.if_then_else(bx * rows + i >= k * columns + j, 0, -T.infinity(T.float32))
            T.gemm(q, k_tile, scores, transpose_B=True)
            T.copy(V[k * columns, 0], v_tile)
            T.copy(largest, before)
            T.reduce_max(scores, largest, dim=1, clear=False)
            for i in T.Parallel(rows):
                scale[i] = T.exp2(before[i] - largest[i])
            for i, j in T.Parallel(rows, columns):
                scores[i, j] = T.exp2(scores[i, j] - largest[i])
            T.reduce_sum(scores, added, dim=1)
            for i in T.Parallel(rows):
                total[i] = total[i] * scale[i] + added[i]
            T.copy(scores, weights)
            for i, j in T.Parallel(rows, 64):
                out[i, j] *= scale[i]
            T.gemm(weights, v_tile, out)
        for i, j in T.Parallel(rows, 64):
            out[i, j] /= total[i]
        T.copy(out, O[bx * rows, 0])


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_causal_attention(schedule: str, stages: int) -> None:
    q, k, v = (RANDOM.normal(size=(150, 64)).astype(np.float16) for _ in range(3))
    o = np.zeros_like(q)
    run(attention, (q, k, v, o), schedule, stages=stages)
    scores = np.where(np.tri(150) > 0, q.astype(np.float64) @ k.T.astype(np.float64), -np.inf)
    p = np.exp2(scores - scores.max(1, keepdims=True))
    np.testing.assert_allclose(o, p / p.sum(1, keepdims=True) @ v, atol=2e-3)


@mt.kernel
def block_sparse(
    A: T.Tensor(("M", "K"), T.float16),
    B: T.Tensor(("K", 64), T.float16),
    Used: T.Tensor(("blocks",), T.int32),
    C: T.Tensor(("M", 64), T.float32),
    stages=3,
):
    with T.Kernel(T.ceildiv(A.shape[0], 64), threads=128) as bx:
        a = T.alloc_shared((64, 32), T.float16)
        b = T.alloc_shared((32, 64), T.float16)
        c = T.alloc_fragment((64, 64), T.float32)
        T.clear(c)
        for k in T.Pipelined(Used.shape[0], num_stages=stages):
            if Used[k] != 0:
                T.copy(A[bx * 64, k * 32], a)
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, c)
        T.copy(c, C[bx * 64, 0])


@pytest.mark.parametrize("blocks", [1, 2, 7])
def test_condition_in_a_pipelined_loop(schedule: str, blocks: int) -> None:
    a = RANDOM.normal(size=(100, 32 * blocks)).astype(np.float16)
    b = RANDOM.normal(size=(32 * blocks, 64)).astype(np.float16)
    used = (np.arange(blocks) % 3 != 1).astype(np.int32)
    c = np.zeros((100, 64), np.float32)
    run(block_sparse, (a, b, used, c), schedule)
    np.testing.assert_allclose(c, (a.astype(np.float64) * np.repeat(used, 32)) @ b, atol=1e-3)


@mt.kernel
def grouped(
    A: T.Tensor(("G", 64, "K"), T.float16),
    B: T.Tensor(("G", "K", 64), T.float16),
    C: T.Tensor(("G", 64, 64), T.float32),
    stages=3,
):
    G, _, K = A.shape
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((64, 32), T.float16)
        b = T.alloc_shared((32, 64), T.float16)
        c = T.alloc_fragment((64, 64), T.float32)
        for g in T.serial(G):
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, 32), num_stages=stages):
                T.copy(A[g, 0:64, k * 32 : k * 32 + 32], a)
                T.copy(B[g, k * 32 : k * 32 + 32, 0:64], b)
                T.gemm(a, b, c)
            T.copy(c, C[g, 0:64, 0:64])


@pytest.mark.parametrize("k", [20, 100])
def test_pipelined_loop_in_an_outer_loop(schedule: str, k: int) -> None:
    a = RANDOM.normal(size=(3, 64, k)).astype(np.float16)
    b = RANDOM.normal(size=(3, k, 64)).astype(np.float16)
    c = np.zeros((3, 64, 64), np.float32)
    run(grouped, (a, b, c), schedule)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), atol=1e-3)


@mt.kernel
def pieces(
    A: T.Tensor((32, 16), T.float32), C: T.Tensor((32, 16), T.float32), D: T.Tensor((32,), T.float32), n: T.int32
):
    with T.Kernel(1, threads=64):
        f = T.alloc_fragment((32, 16), T.float32)
        r = T.alloc_fragment((32,), T.float32)
        x = T.alloc_local((4,), T.float32)
        T.clear(f)
        T.copy(A[0:16, 0:16], f[16:32, 0:16])
        for u in T.unroll(4):
            x[u] = A[0, u]
        for i in T.Parallel(32):
            r[i] = f[i, n] + f[i, 3]
        f[2, 3] = x[1] + x[2]
        r[5] = f[20, 1]
        for i, j in T.Parallel(32, 16):
            if i > j:
                f[i, j] = -1.0
            if j == n and i < 2:
                r[i] = 9.0
        T.copy(f, C)
        T.copy(r, D)


def test_parts_of_fragments(schedule: str) -> None:
    a = RANDOM.normal(size=(32, 16)).astype(np.float32)
    c, d = np.zeros_like(a), np.zeros(32, np.float32)
    run(pieces, (a, c, d), schedule, 5)
    f = np.zeros_like(a)
    f[16:] = a[:16]
    r = f[:, 5] + f[:, 3]
    f[2, 3] = a[0, 1] + a[0, 2]
    r[5] = f[20, 1]
    i, j = np.indices(f.shape)
    f[i > j] = -1
    r[:2] = 9
    np.testing.assert_array_equal(c, f)
    np.testing.assert_array_equal(d, r)


@mt.kernel
def gather_rows(
    A: T.Tensor((64, 48), T.float32),
    P: T.Tensor((64,), T.int32),
    C: T.Tensor((64,), T.float32),
    Sum: T.Tensor((1,), T.float32),
):
    with T.Kernel(1, threads=64):
        for i in T.Parallel(64):
            total = T.alloc_var(T.float32, 0.0)
            for k in range(48):
                if A[P[i], k] > 0:
                    total = total + A[P[i], k]
            C[i] = total
            T.atomic_add(Sum[0], total)


def test_loop_and_guard_for_each_element(schedule: str) -> None:
    a = RANDOM.integers(-3, 4, size=(64, 48)).astype(np.float32)
    p = RANDOM.permutation(64).astype(np.int32)
    c, total = np.zeros(64, np.float32), np.zeros(1, np.float32)
    run(gather_rows, (a, p, c, total), schedule)
    expected = np.where(a > 0, a, 0).sum(1)[p]
    np.testing.assert_array_equal(c, expected)
    assert total[0] == expected.sum()


@mt.kernel
def turn(A: T.Tensor((4, 16, 32), T.float16), C: T.Tensor((32, 4, 16), T.float16), D: T.Tensor((16, 32), T.float32)):
    with T.Kernel(1, threads=64):
        a = T.alloc_fragment((4, 16, 32), T.float16)
        c = T.alloc_fragment((32, 4, 16), T.float16)
        d = T.alloc_fragment((16, 32), T.float32)
        T.copy(A, a)
        for i, j, k in T.Parallel(32, 4, 16):
            c[i, j, k] = a[j, k, i]
        T.copy(c, C)
        for i, j in T.Parallel(16, 32):
            d[i, j] = T.cast(a[2, i, j], T.float32)
        T.copy(d, D)


def test_rank_three_permuted_and_sliced(schedule: str) -> None:
    a = RANDOM.normal(size=(4, 16, 32)).astype(np.float16)
    c, d = np.zeros((32, 4, 16), np.float16), np.zeros((16, 32), np.float32)
    run(turn, (a, c, d), schedule)
    np.testing.assert_array_equal(c, a.transpose(2, 0, 1))
    np.testing.assert_array_equal(d, a[2].astype(np.float32))


@mt.kernel
def diagonal(A: T.Tensor((64, 32), T.float32), B: T.Tensor((64,), T.float32), C: T.Tensor((64, 32), T.float32)):
    with T.Kernel(1, threads=128):
        s = T.alloc_shared((64, 32), T.float32)
        f = T.alloc_fragment((64, 32), T.float32)
        for i, j in T.Parallel(64, 32):
            if i == j:
                B[i] = A[i, j]
        T.copy(A, s)
        for i, j in T.Parallel(64, 32):
            f[i, j] = 0.0
            if i + 1 < 64:
                f[i, j] = s[i + 1, j]
        T.copy(f, C)


def test_mask_picks_elements_and_protects_loads(schedule: str) -> None:
    a = RANDOM.normal(size=(64, 32)).astype(np.float32)
    b, c = np.zeros(64, np.float32), np.ones_like(a)
    run(diagonal, (a, b, c), schedule)
    np.testing.assert_array_equal(b, [*np.diag(a), *[0] * 32])
    np.testing.assert_array_equal(c, [*a[1:], np.zeros(32)])


@mt.kernel
def fixed_trips(
    A: T.Tensor((64, 128), T.float16),
    B: T.Tensor((128, 16), T.float16),
    C: T.Tensor((64, 16), T.float32),
    trips=2,
    stages=3,
):
    with T.Kernel(1, threads=128):
        A_shared = T.alloc_shared((64, 32), A.dtype)
        B_shared = T.alloc_shared((32, 16), A.dtype)
        acc = T.alloc_fragment((64, 16), T.float32)
        T.clear(acc)
        for k in T.Pipelined(trips, num_stages=stages):
            T.copy(A[0, k * 32], A_shared)
            T.copy(B[k * 32, 0], B_shared)
            T.gemm(A_shared, B_shared, acc)
        T.copy(acc, C)


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize("trips", range(5))
def test_trip_counts_known_at_compile_time(trips: int, stages: int, schedule: str) -> None:
    """With no more rounds than versions, the round's number is the version: nothing is read past the last."""
    a, b = (np.random.default_rng(trips).integers(-2, 3, s).astype(np.float16) for s in ((64, 128), (128, 16)))
    c = np.full((64, 16), np.nan, np.float32)
    run(fixed_trips, (a, b, c), schedule, trips=trips, stages=stages)
    used = 32 * trips
    np.testing.assert_array_equal(c, a[:, :used].astype(np.float32) @ b[:used].astype(np.float32))
