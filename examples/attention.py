"""O = softmax(Q · Kᵀ / √d) · V, blockwise, with running maxima and sums; causal or not.

One block holds 128 rows of Q; K and V pass by in blocks of 128. Scores, maxima and sums are fragments; the
probabilities go into the second multiplication from registers. Causal: the loop ends at the diagonal, and what is right
of it counts as −∞.
"""

import math

import ml_dtypes
import numpy as np
from support import error, on_device, poisoned, random, report

import minitile as mt
import minitile.language as T


@mt.kernel
def attention(
    Q: T.Tensor(("B", "H", "S", "D"), T.bfloat16),
    K: T.Tensor(("B", "H", "S", "D"), T.bfloat16),
    V: T.Tensor(("B", "H", "S", "D"), T.bfloat16),
    O: T.Tensor(("B", "H", "S", "D"), T.bfloat16),  # noqa: E741 - its name in every paper
    D=128,
    causal=False,
    block_M=128,
    block_N=128,
    num_stages=2,
    threads=256,
):
    B, H, S, _ = Q.shape
    scale = math.log2(math.e) / math.sqrt(D)  # exponentials are powers of two
    with T.Kernel(T.ceildiv(S, block_M), H, B, threads=threads) as (bx, by, bz):
        if causal:  # the longest rows of blocks first, so that the short ones fill the gaps at the end
            bx = T.ceildiv(S, block_M) - 1 - bx
        Q_shared = T.alloc_shared((block_M, D), T.bfloat16)
        K_shared = T.alloc_shared((block_N, D), T.bfloat16)
        V_shared = T.alloc_shared((block_N, D), T.bfloat16)
        scores = T.alloc_fragment((block_M, block_N), T.float32)
        weights = T.alloc_fragment((block_M, block_N), T.bfloat16)
        out = T.alloc_fragment((block_M, D), T.float32)
        largest = T.alloc_fragment((block_M,), T.float32)
        before = T.alloc_fragment((block_M,), T.float32)
        shrink = T.alloc_fragment((block_M,), T.float32)
        row_sum = T.alloc_fragment((block_M,), T.float32)
        total = T.alloc_fragment((block_M,), T.float32)
        T.copy(Q[bz, by, bx * block_M, 0], Q_shared)
        T.clear(out)
        T.clear(total)
        T.fill(largest, -(2.0**99))
        blocks = T.ceildiv(S, block_N)
        if causal:
            blocks = T.min(blocks, T.ceildiv((bx + 1) * block_M, block_N))
        for k in T.Pipelined(blocks, num_stages=num_stages):
            T.copy(K[bz, by, k * block_N, 0], K_shared)
            T.clear(scores)
            T.gemm(Q_shared, K_shared, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_M, block_N):
                column = k * block_N + j
                seen = column < S
                if causal:
                    seen = seen and column <= bx * block_M + i
                scores[i, j] = T.if_then_else(seen, scores[i, j], -(2.0**99))
            T.copy(largest, before)
            T.reduce_max(scores, largest, dim=1, clear=False)
            for i in T.Parallel(block_M):
                shrink[i] = T.exp2((before[i] - largest[i]) * scale)
            for i, j in T.Parallel(block_M, block_N):
                scores[i, j] = T.exp2(scores[i, j] * scale - largest[i] * scale)
            T.reduce_sum(scores, row_sum, dim=1)
            for i in T.Parallel(block_M):
                total[i] = total[i] * shrink[i] + row_sum[i]
            T.copy(scores, weights)
            for i, j in T.Parallel(block_M, D):
                out[i, j] *= shrink[i]
            T.copy(V[bz, by, k * block_N, 0], V_shared)
            T.gemm(weights, V_shared, out, policy=T.GemmWarpPolicy.FullRow)
        for i in T.Parallel(block_M):
            total[i] = 1 / total[i]
        for i, j in T.Parallel(block_M, D):
            out[i, j] *= total[i]
        T.copy(out, O[bz, by, bx * block_M, 0])


def reference(q, k, v, causal: bool):
    """In float64."""
    s, d = q.shape[-2:]
    scores = np.einsum("bhmd,bhnd->bhmn", q.astype(np.float64), k.astype(np.float64)) / math.sqrt(d)
    if causal:
        scores = np.where(np.tri(s, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return np.einsum("bhmn,bhnd->bhmd", weights, v.astype(np.float64))


def run(b: int, h: int, s: int, d: int, causal: bool, seed: int = 0, **tiles) -> float:
    """The relative error on random queries, keys and values."""
    rng = np.random.default_rng(seed)
    q, k, v = (random(rng, (b, h, s, d), ml_dtypes.bfloat16) for _ in range(3))
    o = on_device(poisoned((b, h, s, d), ml_dtypes.bfloat16))
    attention(on_device(q), on_device(k), on_device(v), o, D=d, causal=causal, **tiles)
    return error(o, reference(q, k, v, causal))


if __name__ == "__main__":
    for b, h, s, d, causal in ((1, 2, 256, 128, False), (1, 2, 200, 64, True), (2, 1, 77, 128, True)):
        report(f"attention {b}x{h}x{s}x{d}{' causal' if causal else ''}", run(b, h, s, d, causal), 8e-3)
