"""One role, one warpgroup: the wait for a gemm stands for a slot's empty barrier only where every turn has one."""

from __future__ import annotations

import numpy as np
import pytest

import minitile as mt
import minitile.language as T

TURNS = np.array([1, 0, 2, 1, 0], np.int32)


def always(q, k, sums, turns):
    T.gemm(q, k, sums, transpose_B=True)


def under_if(q, k, sums, turns):
    if turns > 0:
        T.gemm(q, k, sums, transpose_B=True)


def in_a_loop(q, k, sums, turns):
    for _ in range(turns):
        T.gemm(q, k, sums, transpose_B=True)


def in_a_loop_with_turns(q, k, sums, turns):
    for _ in range(T.max(turns, 1)):
        T.gemm(q, k, sums, transpose_B=True)


def in_one_branch(q, k, sums, turns):
    if turns == 0:
        for i, j in T.Parallel(64, 32):
            sums[i, j] = sums[i, j] + 1.0
    else:
        T.gemm(q, k, sums, transpose_B=True)


def in_both_branches(q, k, sums, turns):
    if turns > 0:
        T.gemm(q, k, sums, transpose_B=True)
    else:
        for _ in range(2):
            T.gemm(q, k, sums, transpose_B=True)


def behind_continue(q, k, sums, turns):
    for n in range(2):
        if n >= turns:
            continue
        T.gemm(q, k, sums, transpose_B=True)


def behind_break(q, k, sums, turns):
    for n in range(4):
        if n >= turns:
            break
        T.gemm(q, k, sums, transpose_B=True)


# How often a turn multiplies, by its number in TURNS; whether every turn does.
FORMS = {
    always: ((1, 1, 1), True),
    under_if: ((0, 1, 1), False),
    in_a_loop: ((0, 1, 2), False),
    in_a_loop_with_turns: ((1, 1, 2), True),
    in_one_branch: ((0, 1, 1), False),
    in_both_branches: ((2, 1, 1), True),
    behind_continue: ((0, 1, 2), False),
    behind_break: ((0, 1, 2), False),
}


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_elided(form):
    @mt.kernel
    def kernel(
        Q: T.Tensor((64, 64), T.float16),
        K: T.Tensor((160, 64), T.float16),
        turns: T.Tensor((5,), T.int32),
        Out: T.Tensor((64, 32), T.float32),
    ):
        with T.Kernel(1, threads=128):
            q, k = T.alloc_shared((64, 64), T.float16), T.alloc_shared((32, 64), T.float16)
            sums = T.alloc_fragment((64, 32), T.float32)
            T.copy(Q, q)
            T.clear(sums)
            for n in T.Pipelined(5, num_stages=2):
                T.copy(K[n * 32, 0], k)
                form(q, k, sums, turns[n])
            T.copy(sums, Out)

    random = np.random.default_rng(0)
    q, k = ((random.integers(-4, 5, s) / 4).astype(np.float16) for s in ((64, 64), (160, 64)))
    times, certain = FORMS[form]
    wanted = sum(times[t] * (q.astype(np.float32) @ k[32 * n : 32 * n + 32].T) for n, t in enumerate(TURNS))
    wanted += 2.0 * (form is in_one_branch)
    out = np.zeros((64, 32), np.float32)
    compiled = kernel.compile(q, k, TURNS, out, target="sm_90a", warp_specialize=False)
    ptx = compiled.asm["ptx"]
    assert "wgmma" in ptx
    assert ("mbarrier.arrive.shared" not in ptx) == certain
    for seed in range(3):
        compiled.simulate(q, k, TURNS, out, schedule="random", seed=seed)
        np.testing.assert_allclose(out, wanted, atol=1e-3)
