"""Warp roles through all kinds of control flow, against float64: persistent and dynamic loops, `while`, branches,
several pipelined loops, gemms that share operands or an accumulator, trip counts from 0; operands that the consumers
write, and copies that TMA cannot make. All of it in one role as well (warp_specialize=False). In the simulator under
each schedule, or with MINITILE_GPU=1 on the GPU."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from schedules import SCHEDULES, each_schedule, schedules
from support import USE_GPU, error, on_device, poisoned, random

import minitile as mt
import minitile.language as T

BF16 = ml_dtypes.bfloat16


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A · Bᵀ in float64."""
    return a.astype(np.float64) @ b.astype(np.float64).T


def check(kernel, arrays, expected, bound=4e-3, tma_multistage=True, **constants) -> mt.CompiledKernel:
    """Compile for sm_90a, with roles and (if asked) in one role, run under the `schedules` or on the GPU, compare the
    last array. The compiled kernel with roles."""
    compiled = kernel.compile(*arrays, target="sm_90a", **constants)
    forms = [compiled]
    if tma_multistage:
        forms.append(kernel.compile(*arrays, target="sm_90a", warp_specialize=False, **constants))
        assert forms[1].launch_info.block[0] == compiled.launch_info.block[0] - 128
    for each in forms:
        text = each.asm["ptx"]
        assert all(word in text for word in ("mbarrier.try_wait", "cp.async.bulk.tensor", "wgmma")), each.notes
        if USE_GPU:
            there = [on_device(array) for array in arrays]
            each(*there)
            assert error(there[-1], expected) < bound
            continue
        for schedule in schedules():
            arrays[-1][...] = np.nan
            each.simulate(*arrays, schedule=schedule, seed=3)
            assert error(arrays[-1], expected) < bound, (schedule, each is compiled)
    return compiled


def inputs(m: int, n: int, k: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return random(rng, (m, k), BF16), random(rng, (n, k), BF16), poisoned((m, n), np.float32)


@mt.kernel
def persistent(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.float32),
    blocks=2,
    block_K=32,
    stages=3,
):
    """A few blocks go over all tiles; slots and phases go on from tile to tile."""
    M, K = A.shape
    N = B.shape[0]
    with T.Kernel(blocks, threads=128) as bx:
        A_shared = T.alloc_shared((64, block_K), A.dtype)
        B_shared = T.alloc_shared((64, block_K), B.dtype)
        C_local = T.alloc_fragment((64, 64), T.float32)
        across = T.ceildiv(N, 64)
        for t in T.serial(bx, across * T.ceildiv(M, 64), blocks):
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
                T.copy(A[t // across * 64, k * block_K], A_shared)
                T.copy(B[t % across * 64, k * block_K], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            T.copy(C_local, C[t // across * 64, t % across * 64])


@each_schedule
@pytest.mark.parametrize(("m", "n", "k", "stages"), [(192, 128, 160, 3), (64, 64, 32, 2), (130, 72, 24, 4)])
def test_persistent(m: int, n: int, k: int, stages: int) -> None:
    a, b, c = inputs(m, n, k)
    check(persistent, (a, b, c), product(a, b), stages=stages)


@mt.kernel
def in_while(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.float32),
):
    M, K = A.shape
    with T.Kernel(1, threads=128):
        A_shared = T.alloc_shared((64, 32), A.dtype)
        B_shared = T.alloc_shared((64, 32), B.dtype)
        C_local = T.alloc_fragment((64, 64), T.float32)
        t = 0
        while t * 64 < M:
            if t % 2 == 0 or K > 32:  # a branch that both roles take
                T.clear(C_local)
                for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
                    T.copy(A[t * 64, k * 32], A_shared)
                    T.copy(B[0, k * 32], B_shared)
                    T.gemm(A_shared, B_shared, C_local, transpose_B=True)
                T.copy(C_local, C[t * 64, 0])
            else:
                T.fill(C_local, 7.0)
                T.copy(C_local, C[t * 64, 0])
            t = t + 1


@each_schedule
@pytest.mark.parametrize("k", [96, 32])
def test_while_and_branches(k: int) -> None:
    a, b, c = inputs(200, 64, k)
    expected = product(a, b)
    if k == 32:
        expected[64:128] = expected[192:] = 7.0
    check(in_while, (a, b, c), expected)


@mt.kernel
def left_behind(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor((64, "N"), T.float32),
):
    """What the turns of a `while` only leave behind, the producer needs after it."""
    M, K = A.shape
    with T.Kernel(1, threads=128):
        A_shared = T.alloc_shared((64, 32), A.dtype)
        B_shared = T.alloc_shared((64, 32), B.dtype)
        last_A = T.alloc_shared((64, 32), A.dtype)
        last_B = T.alloc_shared((64, 32), B.dtype)
        C_local = T.alloc_fragment((64, 64), T.float32)
        t, last = 0, 64
        T.clear(C_local)
        while t * 64 < M:
            for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
                T.copy(A[t * 64, k * 32], A_shared)
                T.copy(B[0, k * 32], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            last = t * 64
            t = t + 1
        for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
            T.copy(A[last, k * 32], last_A)
            T.copy(B[0, k * 32], last_B)
            T.gemm(last_A, last_B, C_local, transpose_B=True)
        T.copy(C_local, C[0, 0])


def test_left_behind() -> None:
    a, b, c = inputs(192, 64, 96)
    rows = a.reshape(3, 64, 96)
    check(left_behind, (a, b, c[:64]), sum(product(r, b) for r in (*rows, rows[2])))


@mt.kernel
def two_loops(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    D: T.Tensor(("M", "L"), T.bfloat16),
    E: T.Tensor(("N", "L"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.float32),
):
    """C = A · Bᵀ + D · Eᵀ, one accumulator through two pipelined loops."""
    with T.Kernel(T.ceildiv(C.shape[1], 64), T.ceildiv(C.shape[0], 64), threads=128) as (bx, by):
        A_shared = T.alloc_shared((64, 32), A.dtype)
        B_shared = T.alloc_shared((64, 32), B.dtype)
        D_shared = T.alloc_shared((64, 64), A.dtype)
        E_shared = T.alloc_shared((64, 64), B.dtype)
        C_local = T.alloc_fragment((64, 64), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(A.shape[1], 32), num_stages=3):
            T.copy(A[by * 64, k * 32], A_shared)
            T.copy(B[bx * 64, k * 32], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
        for k in T.Pipelined(T.ceildiv(D.shape[1], 64), num_stages=2):
            T.copy(D[by * 64, k * 64], D_shared)
            T.copy(E[bx * 64, k * 64], E_shared)
            T.gemm(D_shared, E_shared, C_local, transpose_B=True)
        T.copy(C_local, C[by * 64, bx * 64])


@each_schedule
@pytest.mark.parametrize(("k", "l"), [(96, 128), (32, 200), (8, 8), (160, 0)])
def test_two_pipelined_loops(k: int, l: int) -> None:  # noqa: E741
    a, b, c = inputs(64, 128, k)
    d, e, _ = inputs(64, 128, l, seed=1)
    check(two_loops, (a, b, d, e, c), product(a, b) + product(d, e))


@mt.kernel
def one_accumulator(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    D: T.Tensor(("M", "K"), T.bfloat16),
    E: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.float32),
):
    """C = A · Bᵀ + D · Eᵀ, two gemms of each iteration into one accumulator."""
    with T.Kernel(T.ceildiv(C.shape[1], 64), T.ceildiv(C.shape[0], 128), threads=256) as (bx, by):
        A_shared = T.alloc_shared((128, 32), A.dtype)
        B_shared = T.alloc_shared((64, 32), B.dtype)
        D_shared = T.alloc_shared((128, 32), A.dtype)
        E_shared = T.alloc_shared((64, 32), B.dtype)
        C_local = T.alloc_fragment((128, 64), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(A.shape[1], 32), num_stages=2):
            T.copy(A[by * 128, k * 32], A_shared)
            T.copy(B[bx * 64, k * 32], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            T.copy(D[by * 128, k * 32], D_shared)
            T.copy(E[bx * 64, k * 32], E_shared)
            T.gemm(D_shared, E_shared, C_local, transpose_B=True)
        T.copy(C_local, C[by * 128, bx * 64])


@each_schedule
@pytest.mark.parametrize("k", [160, 32, 8])
def test_two_gemms_into_one_accumulator(k: int) -> None:
    a, b, c = inputs(200, 64, k)
    d, e, _ = inputs(200, 64, k, seed=1)
    check(one_accumulator, (a, b, d, e, c), product(a, b) + product(d, e))


@mt.kernel
def gated(
    X: T.Tensor(("M", "K"), T.bfloat16),
    W: T.Tensor(("N", "K"), T.bfloat16),
    G: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.float32),
):
    """max(X · Gᵀ, 0) times X · Wᵀ: two gemms share an operand."""
    with T.Kernel(T.ceildiv(C.shape[1], 64), T.ceildiv(C.shape[0], 64), threads=128) as (bx, by):
        X_shared = T.alloc_shared((64, 32), X.dtype)
        W_shared = T.alloc_shared((64, 32), X.dtype)
        G_shared = T.alloc_shared((64, 32), X.dtype)
        up = T.alloc_fragment((64, 64), T.float32)
        gate = T.alloc_fragment((64, 64), T.float32)
        T.clear(up)
        T.clear(gate)
        for k in T.Pipelined(T.ceildiv(X.shape[1], 32), num_stages=3):
            T.copy(X[by * 64, k * 32], X_shared)
            T.copy(W[bx * 64, k * 32], W_shared)
            T.copy(G[bx * 64, k * 32], G_shared)
            T.gemm(X_shared, W_shared, up, transpose_B=True)
            T.gemm(X_shared, G_shared, gate, transpose_B=True)
        for i, j in T.Parallel(64, 64):
            up[i, j] = up[i, j] * T.max(gate[i, j], 0.0)
        T.copy(up, C[by * 64, bx * 64])


@each_schedule
@pytest.mark.parametrize("k", [160, 32, 8])
def test_shared_operand(k: int) -> None:
    x, w, c = inputs(100, 72, k)
    g = inputs(100, 72, k, seed=1)[1]
    check(gated, (x, w, g, c), product(x, w) * np.maximum(product(x, g), 0))


@mt.kernel
def latent_attention(
    Q: T.Tensor(("M", 64), T.bfloat16),
    KV: T.Tensor(("S", 64), T.bfloat16),
    O: T.Tensor(("M", 64), T.float32),  # noqa: E741
    stages=2,
):
    """Unnormalised: exp2(Q · KVᵀ / 8) · KV. Keys and values are one buffer, whose slot both gemms hold."""
    with T.Kernel(T.ceildiv(Q.shape[0], 64), threads=128) as bx:
        Q_shared = T.alloc_shared((64, 64), Q.dtype)
        KV_shared = T.alloc_shared((64, 64), Q.dtype)
        scores = T.alloc_fragment((64, 64), T.float32)
        weights = T.alloc_fragment((64, 64), T.bfloat16)
        out = T.alloc_fragment((64, 64), T.float32)
        T.copy(Q[bx * 64, 0], Q_shared)
        T.clear(out)
        for k in T.Pipelined(T.ceildiv(KV.shape[0], 64), num_stages=stages):
            T.copy(KV[k * 64, 0], KV_shared)
            T.clear(scores)
            T.gemm(Q_shared, KV_shared, scores, transpose_B=True)
            for i, j in T.Parallel(64, 64):
                weights[i, j] = T.exp2(scores[i, j] * 0.125)
            T.gemm(weights, KV_shared, out)
        T.copy(out, O[bx * 64, 0])


@each_schedule
@pytest.mark.parametrize(("s", "stages"), [(64, 2), (192, 2), (320, 3), (128, 4)])
def test_a_slot_held_by_two_gemms(s: int, stages: int) -> None:
    rng = np.random.default_rng(2)
    q, kv = random(rng, (64, 64), BF16), random(rng, (s, 64), BF16)
    o = poisoned((64, 64), np.float32)
    scores = product(q, kv)
    expected = np.exp2(scores / 8) @ kv.astype(np.float64)
    check(latent_attention, (q, kv, o), expected, stages=stages)


@mt.kernel
def ragged(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    Lengths: T.Tensor(("G",), T.int32),
    C: T.Tensor(("M", "N"), T.float32),
):
    """Row block g uses the first Lengths[g] blocks of K: trip counts that both roles read from memory."""
    with T.Kernel(Lengths.shape[0], threads=128) as bx:
        A_shared = T.alloc_shared((64, 32), A.dtype)
        B_shared = T.alloc_shared((64, 32), B.dtype)
        C_local = T.alloc_fragment((64, 64), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(Lengths[bx], num_stages=3):
            T.copy(A[bx * 64, k * 32], A_shared)
            T.copy(B[0, k * 32], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
        T.copy(C_local, C[bx * 64, 0])


def test_trip_counts_from_memory() -> None:
    lengths = np.array([0, 1, 2, 5], np.int32)
    a, b, c = inputs(256, 64, 160)
    expected = np.concatenate(
        [product(a[64 * g : 64 * g + 64, : 32 * n], b[:, : 32 * n]) for g, n in enumerate(lengths)]
    )
    check(ragged, (a, b, lengths, c), expected)


@mt.kernel
def scaled(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.float32),
    stages=3,
):
    """The rows of A are doubled on their way: through registers and a buffer that the consumers write themselves."""
    with T.Kernel(T.ceildiv(C.shape[1], 64), T.ceildiv(C.shape[0], 64), threads=128) as (bx, by):
        A_shared = T.alloc_shared((64, 32), A.dtype)
        B_shared = T.alloc_shared((64, 32), A.dtype)
        twice = T.alloc_shared((64, 32), A.dtype)
        A_local = T.alloc_fragment((64, 32), A.dtype)
        C_local = T.alloc_fragment((64, 64), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(A.shape[1], 32), num_stages=stages):
            T.copy(A[by * 64, k * 32], A_shared)
            T.copy(B[bx * 64, k * 32], B_shared)
            T.copy(A_shared, A_local)
            for i, j in T.Parallel(64, 32):
                A_local[i, j] = A_local[i, j] * 2
            T.copy(A_local, twice)
            T.gemm(twice, B_shared, C_local, transpose_B=True)
        T.copy(C_local, C[by * 64, bx * 64])


@each_schedule
@pytest.mark.parametrize("k", [160, 32, 8])
def test_operand_that_the_consumers_write(k: int) -> None:
    a, b, c = inputs(100, 72, k)
    compiled = check(scaled, (a, b, c), 2 * product(a, b))
    assert "fence.proxy.async" in compiled.asm["ptx"]


@mt.kernel
def mixed(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("K", "N"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.float32),
    stages=3,
):
    with T.Kernel(T.ceildiv(C.shape[1], 64), T.ceildiv(C.shape[0], 64), threads=128) as (bx, by):
        A_shared = T.alloc_shared((64, 32), A.dtype)
        B_shared = T.alloc_shared((32, 64), A.dtype)
        C_local = T.alloc_fragment((64, 64), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(A.shape[1], 32), num_stages=stages):
            T.copy(A[by * 64, k * 32], A_shared)
            T.copy(B[k * 32, bx * 64], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.copy(C_local, C[by * 64, bx * 64])


@each_schedule
@pytest.mark.parametrize(("n", "k", "stages"), [(67, 160, 3), (66, 96, 2), (4, 32, 4), (3, 8, 2)])
def test_what_tma_cannot_copy_stays_with_the_consumers(n: int, k: int, stages: int) -> None:
    a, b, c = inputs(100, n, k)
    b = np.ascontiguousarray(b.T)
    compiled = check(mixed, (a, b, c), product(a, b.T), stages=stages)
    assert any("copied by the consumers: the rows of B" in note for note in compiled.notes), compiled.notes


@mt.kernel
def shifted(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.float32),
    first=1,
):
    """Without the first columns of A: its rows start off 16 bytes, where TMA may not."""
    with T.Kernel(1, threads=128):
        A_shared = T.alloc_shared((64, 32), A.dtype)
        B_shared = T.alloc_shared((64, 32), A.dtype)
        C_local = T.alloc_fragment((64, 64), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(A.shape[1], 32), num_stages=2):
            T.copy(A[0, k * 32 + first], A_shared)
            T.copy(B[0, k * 32], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
        T.copy(C_local, C[0, 0])


@each_schedule
@pytest.mark.parametrize("first", [1, 8])
def test_where_rows_start(first: int) -> None:
    a, b, c = inputs(64, 64, 96)
    left = np.zeros_like(a)
    left[:, : 96 - first] = a[:, first:]
    compiled = check(shifted, (a, b, c), product(left, b), first=first)
    assert any("16 bytes in a row" in note for note in compiled.notes) == (first == 1), compiled.notes


@mt.kernel
def block_scaled(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    Scale: T.Tensor(("S", 2, "M"), T.float32),
    C: T.Tensor(("M", "N"), T.float32),
):
    """Each 32 of K count by the sum of two factors for each row of A; the factors come by TMA, a vector of one and a
    box of three dimensions of both."""
    with T.Kernel(T.ceildiv(C.shape[1], 64), T.ceildiv(C.shape[0], 64), threads=128) as (bx, by):
        A_shared = T.alloc_shared((64, 32), A.dtype)
        B_shared = T.alloc_shared((64, 32), A.dtype)
        one = T.alloc_shared((64,), T.float32)
        both = T.alloc_shared((1, 2, 64), T.float32)
        part = T.alloc_fragment((64, 64), T.float32)
        C_local = T.alloc_fragment((64, 64), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(A.shape[1], 32), num_stages=3):
            T.copy(A[by * 64, k * 32], A_shared)
            T.copy(B[bx * 64, k * 32], B_shared)
            T.copy(Scale[k, 0, by * 64], one)
            T.copy(Scale[k, 0, by * 64], both)
            T.clear(part)
            T.gemm(A_shared, B_shared, part, transpose_B=True)
            for i, j in T.Parallel(64, 64):
                C_local[i, j] += part[i, j] * (one[i] + both[0, 1, i])
        T.copy(C_local, C[by * 64, bx * 64])


@each_schedule
@pytest.mark.parametrize(("m", "k"), [(64, 96), (128, 160), (132, 32)])
def test_vectors_and_boxes_by_tma(m: int, k: int) -> None:
    a, b, c = inputs(m, 72, k)
    scale = random(np.random.default_rng(5), (k // 32, 2, m), np.float32)
    expected = sum(
        product(a[:, 32 * n : 32 * n + 32], b[:, 32 * n : 32 * n + 32]) * (scale[n, 0] + scale[n, 1])[:, None]
        for n in range(k // 32)
    )
    compiled = check(block_scaled, (a, b, scale, c), expected)
    assert compiled.asm["ptx"].count("cp.async.bulk.tensor.3d.shared") == 2, compiled.notes


@mt.kernel
def written_before(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    Seen: T.Tensor((4,), T.int32),
    C: T.Tensor(("M", "N"), T.float32),
    shared=False,
):
    """A factor that is stored before the loop and loaded again, by who stored it."""
    with T.Kernel(1, threads=128):
        A_shared = T.alloc_shared((64, 32), A.dtype)
        B_shared = T.alloc_shared((64, 32), B.dtype)
        noted = T.alloc_shared((4,), T.int32)
        C_local = T.alloc_fragment((64, 64), T.float32)
        T.clear(C_local)
        if shared:
            for i in T.Parallel(4):
                noted[i] = Seen[i] + 2
            factor = noted[1]
        else:
            Seen[1] = 7
            factor = Seen[1]
        for k in T.Pipelined(T.ceildiv(A.shape[1], 32), num_stages=3):
            T.copy(A[0, k * 32], A_shared)
            T.copy(B[0, k * 32], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
        for i, j in T.Parallel(64, 64):
            C_local[i, j] = C_local[i, j] * T.cast(factor, T.float32)
        T.copy(C_local, C)


@each_schedule
@pytest.mark.parametrize("shared", [False, True])
def test_what_is_stored_before_the_loop_is_read_behind_it(shared: bool) -> None:
    a, b, c = inputs(64, 64, 96)
    compiled = check(written_before, (a, b, np.full(4, 5, np.int32), c), 7 * product(a, b), shared=shared)
    assert compiled.launch_info.block == (256, 1, 1)


@mt.kernel
def of_the_other_block(
    A: T.Tensor((64, "K"), T.bfloat16),
    B: T.Tensor((64, "K"), T.bfloat16),
    Factors: T.Tensor((2, 64), T.float32),
    C: T.Tensor((2, 64, 64), T.float32),
):
    """Each block of a cluster has factors for the other one, which they send before the loop."""
    with T.Kernel(2, threads=128, cluster=2) as bx:
        A_shared = T.alloc_shared((64, 32), A.dtype)
        B_shared = T.alloc_shared((64, 32), B.dtype)
        sent = T.alloc_shared((64,), T.float32)
        C_local = T.alloc_fragment((64, 64), T.float32)
        T.clear(C_local)
        there = T.map_shared_rank(sent, 1 - bx)
        for i in T.Parallel(64):
            there[i] = Factors[bx, i]
        T.cluster_sync()
        for k in T.Pipelined(T.ceildiv(A.shape[1], 32), num_stages=3):
            T.copy(A[0, k * 32], A_shared)
            T.copy(B[0, k * 32], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
        for i, j in T.Parallel(64, 64):
            C[bx, i, j] = C_local[i, j] * sent[j]
        T.cluster_sync()


@pytest.mark.parametrize("options", [{}, {"warp_specialize": False}], ids=["roles", "one role"])
def test_who_meets_before_the_loop_does_so_behind_what_it_stored(options: dict) -> None:
    """The threads that only copy would meet in front of it: so there are none."""
    a, b, _ = inputs(64, 64, 96)
    factors, c = np.arange(128, dtype=np.float32).reshape(2, 64), poisoned((2, 64, 64), np.float32)
    compiled = of_the_other_block.compile(a, b, factors, c, target="sm_90a", **options)
    assert any("the cluster meets before the first copy" in note for note in compiled.notes)
    expected = product(a, b) * factors[::-1, None, :]
    if USE_GPU:
        there = [on_device(array) for array in (a, b, factors, c)]
        compiled(*there)
        assert error(there[-1], expected) < 4e-3
        return
    for schedule in SCHEDULES:
        c[...] = np.nan
        compiled.simulate(a, b, factors, c, schedule=schedule, seed=3)
        assert error(c, expected) < 4e-3
