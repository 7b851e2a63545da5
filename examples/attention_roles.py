"""Attention forward on sm_100a and sm_103a with roles that the program names: softmax of two blocks of queries in
ping-pong, a warpgroup that corrects the output, one that issues products, one that copies (docs/blackwell.md).

    warpgroups 0, 1   scores of their 128 queries from tensor memory, weights back into the same columns
    warpgroup 2       scales the output in tensor memory where a maximum has moved much; at the end divides and stores
    warpgroup 3       issues products: scores = Q · Kᵀ, output += weights · V
    warpgroup 4       copies by TMA: Q once for each tile, K and V through one ring

Blocks stay, and take one tile of 256 queries after the other: the output of a tile is stored while the scores of the
next one are computed. Causal: a query sees the keys up to its own, counted from the end of both; one that sees none has
zeros. `share`: of the exponentials, how many are computed by a polynomial (T.exp2); `headroom`: the output is scaled
where a maximum has grown by more than 2 to the power of that.
"""

import math

import ml_dtypes
import numpy as np
from support import error, has_form, on_device, poisoned, random, report

import minitile as mt
import minitile.language as T

ROWS, KEYS = 128, 128  # of a block of scores
NONE, LEAST = -(2.0**99), -(2.0**60)  # the score of what is not seen, and a maximum below all others
CHUNK, PART = 32, 16  # columns of weights that are stored, and of the output that are scaled, at once
BOTH = (0, 1)  # the blocks of queries of a tile


@mt.kernel
def attention_roles(
    Q: T.Tensor(("B", "H", "M", "D"), T.bfloat16),
    K: T.Tensor(("B", "H", "N", "D"), T.bfloat16),
    V: T.Tensor(("B", "H", "N", "D"), T.bfloat16),
    O: T.Tensor(("B", "H", "M", "D"), T.bfloat16),  # noqa: E741 - its name in every paper
    D=128,
    causal=False,
    blocks=148,
    slots=3,
    share=0.0,
    headroom=8.0,
):
    B, H, M, _ = Q.shape
    N = K.shape[2]
    scale = math.log2(math.e) / math.sqrt(D)  # exponentials are powers of two
    rows_of_tiles = T.ceildiv(M, 2 * ROWS)
    tiles = rows_of_tiles * H * B
    with T.Kernel(blocks, threads=640) as block:
        Q_shared = T.alloc_shared((2, ROWS, D), T.bfloat16)
        KV_shared = T.alloc_shared((slots, KEYS, D), T.bfloat16)
        O_shared = T.alloc_shared((2, ROWS, D), T.bfloat16)
        factors = T.alloc_shared((2, ROWS), T.float32)
        scores = [T.alloc_tmem((ROWS, KEYS), T.float32) for _ in BOTH]
        weights = [T.view(each, dtype=T.bfloat16) for each in scores]
        out = [T.alloc_tmem((ROWS, D), T.float32) for _ in BOTH]
        # Who waits: for what
        q_full = T.alloc_barrier([ROWS] * 2)  # products: Q has come
        q_free = T.alloc_barrier(1)  # copies: all scores of the tile are made
        kv_full = T.alloc_barrier([ROWS] * slots)
        kv_free = T.alloc_barrier([1] * slots)
        scored = T.alloc_barrier([1] * 2)  # softmax: scores are there
        told = T.alloc_barrier([ROWS] * 2)  # correction: factors are there
        heard = T.alloc_barrier([ROWS] * 2)  # softmax: they have been read
        ready = T.alloc_barrier([2 * ROWS] * 2)  # products: weights are there, and the output is scaled
        added = T.alloc_barrier([1] * 2)  # correction: the output is complete so far

        def place(turn):
            """The first query of a tile, its head and batch; the longest rows first."""
            tile = tiles - 1 - turn
            return tile // (H * B) * 2 * ROWS, tile % (H * B) % H, tile % (H * B) // H

        def count(first):
            """How many blocks of keys the queries of a tile see."""
            seen = N
            if causal:
                seen = T.max(T.min(seen, first + 2 * ROWS + N - M), 0)
            return T.ceildiv(seen, KEYS)

        def softmax(h):
            s = T.alloc_fragment((ROWS, KEYS), T.float32)
            parts = [T.alloc_fragment((ROWS, CHUNK), T.float32) for _ in range(KEYS // CHUNK)]
            w = T.alloc_fragment((ROWS, CHUNK), T.bfloat16)
            largest = T.alloc_fragment((ROWS,), T.float32)
            found = T.alloc_fragment((ROWS,), T.float32)
            shrink = T.alloc_fragment((ROWS,), T.float32)
            row_sum = T.alloc_fragment((ROWS,), T.float32)
            total = T.alloc_fragment((ROWS,), T.float32)

            def step(k, last, turn, message):
                """One block of keys, and a message to the correction. last: how many keys a query sees, where it does
                not see all of the block."""
                T.mbarrier_wait_parity(scored[h], turn % 2)
                T.copy(scores[h], s)
                if last is not None:
                    for i, j in T.Parallel(ROWS, KEYS):
                        seen = k * KEYS + j < N
                        if causal:
                            seen = seen and k * KEYS + j <= last + i
                        s[i, j] = T.if_then_else(seen, s[i, j], NONE)
                T.reduce_max(s, found, dim=1)
                for i in T.Parallel(ROWS):
                    moved = (found[i] - largest[i]) * scale > headroom
                    new = T.if_then_else(moved, found[i], largest[i])
                    shrink[i] = T.exp2((largest[i] - new) * scale)
                    largest[i] = new
                T.mbarrier_wait_parity(heard[h], (message + 1) % 2)
                T.copy(shrink, factors[h, :])
                T.mbarrier_arrive(told[h])
                T.clear(row_sum)
                for c, part in enumerate(parts):
                    for i, j in T.Parallel(ROWS, CHUNK):
                        part[i, j] = T.exp2(s[i, c * CHUNK + j] * scale - largest[i] * scale, polynomial=share)
                    T.copy(part, w)
                    T.copy(w, weights[h][:, c * CHUNK : c * CHUNK + CHUNK])
                    T.reduce_sum(part, row_sum, dim=1, clear=False)
                T.mbarrier_arrive(ready[h])
                for i in T.Parallel(ROWS):
                    total[i] = total[i] * shrink[i] + row_sum[i]

            turn, message = 0, 0
            for tile in range(block, tiles, blocks):
                first, _, _ = place(tile)
                n, last = count(first), first + h * ROWS + N - M
                whole = N // KEYS
                if causal:
                    whole = T.min(T.max(T.min(whole, (last + 1) // KEYS), 0), n)
                T.fill(largest, LEAST)
                T.clear(total)
                for k in range(whole):
                    step(k, None, turn + k, message + k)
                for k in range(whole, n):
                    step(k, last, turn + k, message + k)
                turn += n
                message += n + 1
                T.mbarrier_wait_parity(heard[h], message % 2)
                T.copy(total, factors[h, :])
                T.mbarrier_arrive(told[h])

        def correction():
            part = T.alloc_fragment((ROWS, PART), T.float32)
            factor = T.alloc_fragment((ROWS,), T.float32)
            least = T.alloc_fragment((1,), T.float32)
            message, done = 0, 0
            for tile in range(block, tiles, blocks):
                first, head, batch = place(tile)
                n = count(first)
                if n > 0:
                    for h in BOTH:  # there is no output yet
                        T.mbarrier_wait_parity(told[h], message % 2)
                        T.mbarrier_arrive(heard[h])
                        T.mbarrier_arrive(ready[h])
                for k in range(1, n):
                    for h in BOTH:
                        T.mbarrier_wait_parity(told[h], (message + k) % 2)
                        T.copy(factors[h, :], factor)
                        T.mbarrier_arrive(heard[h])
                        T.reduce_min(factor, least, dim=0)
                        if least[0] < 1:  # scores of this turn are behind the products of the one before
                            for c in T.unroll(D // PART):
                                T.copy(out[h][:, c * PART : c * PART + PART], part)
                                for i, j in T.Parallel(ROWS, PART):
                                    part[i, j] *= factor[i]
                                T.copy(part, out[h][:, c * PART : c * PART + PART])
                        T.mbarrier_arrive(ready[h])
                message += n
                T.tma_store_wait()
                for h in BOTH:
                    T.mbarrier_wait_parity(told[h], message % 2)
                    T.copy(factors[h, :], factor)
                    T.mbarrier_arrive(heard[h])
                    for i in T.Parallel(ROWS):
                        factor[i] = T.if_then_else(factor[i] > 0, 1 / factor[i], 0)
                    if n > 0:
                        T.mbarrier_wait_parity(added[h], done % 2)
                    for c in T.unroll(D // PART):
                        if n > 0:
                            T.copy(out[h][:, c * PART : c * PART + PART], part)
                        else:
                            T.clear(part)
                        for i, j in T.Parallel(ROWS, PART):
                            part[i, j] *= factor[i]
                        T.copy(part, O_shared[h, 0, c * PART])
                    T.tma_copy(O_shared[h, :, :], O[batch, head, first + h * ROWS, 0])
                message += 1
                done = T.if_then_else(n > 0, done + 1, done)
            T.tma_store_wait(0, read=False)

        def products():
            item, turn, done = 0, 0, 0
            for tile in range(block, tiles, blocks):
                first, _, _ = place(tile)
                n = count(first)
                if n > 0:
                    T.mbarrier_wait_parity(kv_full[item % slots], item // slots % 2)
                    for h in BOTH:
                        T.mbarrier_wait_parity(q_full[h], done % 2)
                        T.tcgen05_gemm(
                            Q_shared[h, :, :],
                            KV_shared[item % slots, :, :],
                            scores[h],
                            transpose_B=True,
                            mbar=scored[h],
                            clear_accum=True,
                        )
                    T.tcgen05_mma_arrive(kv_free[item % slots])
                    item += 1
                    for k in range(n):
                        v, more = item % slots, item + 1
                        if k + 1 == n:
                            T.tcgen05_mma_arrive(q_free)
                        T.mbarrier_wait_parity(kv_full[v], item // slots % 2)
                        if k + 1 < n:
                            T.mbarrier_wait_parity(kv_full[more % slots], more // slots % 2)
                        for h in BOTH:
                            T.mbarrier_wait_parity(ready[h], turn % 2)
                            T.tcgen05_gemm(
                                weights[h][:, 0:KEYS], KV_shared[v, :, :], out[h], mbar=None, clear_accum=k == 0
                            )
                            if k + 1 < n:
                                T.tcgen05_gemm(
                                    Q_shared[h, :, :],
                                    KV_shared[more % slots, :, :],
                                    scores[h],
                                    transpose_B=True,
                                    mbar=scored[h],
                                    clear_accum=True,
                                )
                            else:
                                T.tcgen05_mma_arrive(added[h])
                        T.tcgen05_mma_arrive(kv_free[v])
                        if k + 1 < n:
                            T.tcgen05_mma_arrive(kv_free[more % slots])
                        item = T.if_then_else(k + 1 < n, item + 2, item + 1)
                        turn += 1
                    done += 1

        def copies():
            item, done = 0, 0
            for tile in range(block, tiles, blocks):
                first, head, batch = place(tile)
                n = count(first)
                if n > 0:
                    T.mbarrier_wait_parity(q_free, (done + 1) % 2)
                    for h in BOTH:
                        T.tma_copy(Q[batch, head, first + h * ROWS, 0], Q_shared[h, :, :], barrier=q_full[h])
                        T.mbarrier_arrive(q_full[h])
                    done += 1
                    for k in range(n + 1):
                        if k > 0:
                            T.mbarrier_wait_parity(kv_free[item % slots], (item // slots + 1) % 2)
                            T.tma_copy(
                                V[batch, head, (k - 1) * KEYS, 0],
                                KV_shared[item % slots, :, :],
                                barrier=kv_full[item % slots],
                            )
                            T.mbarrier_arrive(kv_full[item % slots])
                            item += 1
                        if k < n:
                            T.mbarrier_wait_parity(kv_free[item % slots], (item // slots + 1) % 2)
                            T.tma_copy(
                                K[batch, head, k * KEYS, 0],
                                KV_shared[item % slots, :, :],
                                barrier=kv_full[item % slots],
                            )
                            T.mbarrier_arrive(kv_full[item % slots])
                            item += 1

        for h in BOTH:
            with T.ws(h):
                T.set_max_nreg(176, 1)
                softmax(h)
        with T.ws(2):
            T.set_max_nreg(72, 0)
            correction()
        with T.ws(3):
            T.set_max_nreg(32, 0)
            products()
        with T.ws(4):
            T.set_max_nreg(24, 0)
            copies()


def reference(q, k, v, causal: bool):
    """In float64; queries that see no key have zeros."""
    (m, d), n = q.shape[-2:], k.shape[-2]
    scores = np.einsum("bhmd,bhnd->bhmn", q.astype(np.float64), k.astype(np.float64)) / math.sqrt(d)
    seen = np.tri(m, n, n - m, dtype=bool) if causal else np.ones((m, n), dtype=bool)
    scores = np.where(seen, scores, -np.inf)
    weights = np.exp(scores - np.maximum(scores.max(axis=-1, keepdims=True, initial=-1e30), -1e30))
    weights /= np.maximum(weights.sum(axis=-1, keepdims=True), 1e-300)
    return np.einsum("bhmn,bhnd->bhmd", weights, v.astype(np.float64))


def arguments(b: int, h: int, m: int, n: int, d: int, seed: int = 0):
    """Random queries, keys and values, and a poisoned output."""
    rng = np.random.default_rng(seed)
    q = random(rng, (b, h, m, d), ml_dtypes.bfloat16)
    k, v = (random(rng, (b, h, n, d), ml_dtypes.bfloat16) for _ in range(2))
    return q, k, v, poisoned((b, h, m, d), ml_dtypes.bfloat16)


def run(b: int, h: int, m: int, n: int, d: int, causal: bool, **given) -> float:
    """The relative error on random queries, keys and values."""
    q, k, v, o = map(on_device, arguments(b, h, m, n, d))
    attention_roles(q, k, v, o, D=d, causal=causal, **given)
    return error(o, reference(q, k, v, causal))


if __name__ == "__main__" and has_form("tcgen05", "tensor memory"):
    for d, causal, share in ((128, False, 0.0), (64, True, 0.0), (128, True, 0.125)):
        shown = f"{' causal' if causal else ''}{f', {share} of exp2 by polynomial' if share else ''}"
        report(f"attention 1x2x300x{d}{shown}", run(1, 2, 300, 300, d, causal, blocks=2, share=share), 8e-3)
