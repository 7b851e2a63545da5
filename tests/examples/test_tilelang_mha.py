"""Attention as TileLang's users write it, with TileLang's schedule for Hopper: the next scores are multiplied while the
softmax of the ones before goes on. Against float64, and against the same kernel without a schedule."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from support import error, poisoned, random
from targets import AMD, TARGETS
from thinned import thinned

import minitile as mt
import minitile.language as T

# Entries: K's copy; mask and scores; softmax; scaling the sum so far; V's copy; the second gemm.
GROUPS = [[0], [1, 2], [3, 4, 5, 6, 7, 8, 9, 10, 11], [12], [13], [14]]
ORDER = [-1, 0, 3, 1, -1, 2]
STAGE = [-1, 0, 0, 1, -1, 1]
SCHEDULE = {"order": ORDER, "stage": STAGE, "group": GROUPS}


def attention(batch, heads, rows, dim, causal, dtype, block_M=64, block_N=32, stages=2, threads=128, schedule=None):
    """softmax(Q Kᵀ / √dim) V over [batch, rows, heads, dim]."""
    shape = (batch, rows, heads, dim)
    scale = math.log2(math.e) / math.sqrt(dim)

    @mt.kernel
    def forward(
        Q: T.Tensor(shape, dtype), K: T.Tensor(shape, dtype), V: T.Tensor(shape, dtype), Out: T.Tensor(shape, dtype)
    ):
        with T.Kernel(T.ceildiv(rows, block_M), heads, batch, threads=threads) as (bx, by, bz):
            q = T.alloc_shared((block_M, dim), dtype)
            k = T.alloc_shared((block_N, dim), dtype)
            v = T.alloc_shared((block_N, dim), dtype)
            o = T.alloc_shared((block_M, dim), dtype)
            scores = T.alloc_fragment((block_M, block_N), T.float32)
            weights = T.alloc_fragment((block_M, block_N), dtype)
            total = T.alloc_fragment((block_M, dim), T.float32)
            largest = T.alloc_fragment((block_M,), T.float32)
            before = T.alloc_fragment((block_M,), T.float32)
            factor = T.alloc_fragment((block_M,), T.float32)
            sums = T.alloc_fragment((block_M,), T.float32)
            norm = T.alloc_fragment((block_M,), T.float32)
            T.copy(Q[bz, bx * block_M : (bx + 1) * block_M, by, :], q)
            T.clear(total)
            T.clear(norm)
            T.fill(largest, -T.infinity(T.float32))
            blocks = T.ceildiv(rows, block_N)
            if causal:
                blocks = T.min(blocks, T.ceildiv((bx + 1) * block_M, block_N))
            for n in T.Pipelined(blocks, num_stages=stages, **(schedule or {})):
                T.copy(K[bz, n * block_N : (n + 1) * block_N, by, :], k)
                if causal:
                    for i, j in T.Parallel(block_M, block_N):
                        scores[i, j] = T.if_then_else(bx * block_M + i >= n * block_N + j, 0, -T.infinity(T.float32))
                else:
                    for i, j in T.Parallel(block_M, block_N):
                        scores[i, j] = T.if_then_else(n * block_N + j < rows, 0, -T.infinity(T.float32))
                T.gemm(q, k, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(largest, before)
                T.fill(largest, -T.infinity(T.float32))
                T.reduce_max(scores, largest, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    largest[i] = T.max(largest[i], before[i])
                for i in T.Parallel(block_M):
                    factor[i] = T.exp2((before[i] - largest[i]) * scale)
                for i, j in T.Parallel(block_M, block_N):
                    scores[i, j] = T.exp2((scores[i, j] - largest[i]) * scale)
                T.reduce_sum(scores, sums, dim=1)
                for i in T.Parallel(block_M):
                    norm[i] = norm[i] * factor[i] + sums[i]
                T.copy(scores, weights)
                for i, j in T.Parallel(block_M, dim):
                    total[i, j] *= factor[i]
                T.copy(V[bz, n * block_N : (n + 1) * block_N, by, :], v)
                T.gemm(weights, v, total, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_M, dim):
                total[i, j] /= norm[i]
            T.copy(total, o)
            T.copy(o, Out[bz, bx * block_M : (bx + 1) * block_M, by, :])

    return forward


def reference(q, k, v, causal):
    q, k, v = (x.astype(np.float64).transpose(0, 2, 1, 3) for x in (q, k, v))
    scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.tri(q.shape[2], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return ((weights / weights.sum(-1, keepdims=True)) @ v).transpose(0, 2, 1, 3)


def inputs(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    return [*(random(rng, shape, dtype) for _ in range(3)), poisoned(shape, dtype)]


def run(kernel, arrays, target, **how):
    result = arrays[-1]
    result[...] = np.nan
    compiled = kernel.compile(*arrays, target=target)
    compiled.simulate(*arrays, **how)
    return compiled, result.copy()


FORMS = [  # dim, causal, rows, threads
    (64, False, 97, 128),
    (64, True, 160, 256),
    (96, True, 65, 128),
    (96, False, 33, 128),
    (128, False, 64, 128),
    (128, True, 130, 256),
]


@pytest.mark.parametrize(
    ("target", "form", "dtype"), thinned(["sm_80", "sm_90a"], FORMS, ["float16", "bfloat16"]), ids=str
)
def test_attention(target, form, dtype):
    dim, causal, rows, threads = form
    numpy = np.float16 if dtype == "float16" else ml_dtypes.bfloat16
    arrays = inputs((1, rows, 1, dim), numpy)
    expected = reference(*arrays[:3], causal)
    bound = 1e-3 if dtype == "float16" else 8e-3
    results = []
    for schedule in (SCHEDULE, None):
        kernel = attention(1, 1, rows, dim, causal, dtype, threads // 2, threads=threads, schedule=schedule)
        compiled, result = run(kernel, arrays, target)
        assert error(result, expected) < bound
        assert ("wgmma.mma_async" in compiled.asm["ptx"]) == (target == "sm_90a"), compiled.notes
        results.append(result)
    assert error(results[0], results[1].astype(np.float64)) < bound / 4


DEEPER = {"order": [-1, 3, 2, 0, -1, 1], "stage": [-1, 0, 1, 2, -1, 2], "group": GROUPS}  # softmax a stage of its own


@pytest.mark.parametrize(
    ("target", "schedule", "rows"),
    thinned([*TARGETS, "sm_100a", *AMD], ["TileLang's", "three stages"], [33, 97], every=4),
)
def test_every_target(target, schedule, rows):
    """Two blocks of keys, fewer than the stages and as many, and four."""
    if target in AMD:
        pytest.importorskip("llvmlite")
    arrays = inputs((1, rows, 1, 64), np.float16)
    given = SCHEDULE if schedule == "TileLang's" else DEEPER
    kernel = attention(1, 1, rows, 64, False, "float16", 64, threads=128, stages=3, schedule=given)
    _, result = run(kernel, arrays, target)
    assert error(result, reference(*arrays[:3], False)) < 1e-3


@pytest.mark.parametrize("how", ["eager", "random"])
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_whatever_lands_first(target, how):
    """Two ping-pong warpgroups, and copies that land early, or whenever."""
    arrays = inputs((1, 130, 2, 64), np.float16)
    expected = reference(*arrays[:3], True)
    kernel = attention(1, 2, 130, 64, True, "float16", 128, threads=256, schedule=SCHEDULE)
    _, result = run(kernel, arrays, target, schedule=how, seed=11)
    assert error(result, expected) < 1e-3
