"""Kernels with schedules of the user's own, through to assembly: TileLang's numbering of a GEMM's stages, attention
without softmax in all trip counts, products that share copies; and what a target has too few versions for."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from support import error, poisoned, random
from targets import AMD
from thinned import thinned

import minitile as mt
import minitile.language as T

BF16 = ml_dtypes.bfloat16
TARGETS = ("sm_80", "sm_90a", *AMD)


def run(kernel, arrays, target, **constants):
    """Compiled for the target and run under each schedule of the simulator; the last array as each leaves it."""
    if target in AMD:
        pytest.importorskip("llvmlite")
    compiled = kernel.compile(*arrays, target=target, **constants)
    for how in ("lazy", "eager", "random"):
        arrays[-1][...] = np.nan
        compiled.simulate(*arrays, schedule=how, seed=3)
        yield arrays[-1]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("order", "stage"),
    [([0, 1, 2], [0, 0, 1]), ([0, 1, 2], [0, 0, 2]), ([1, 2, 0], [0, 0, 2]), ([-1, -1, 0], [-1, -1, 0])],
)
def test_gemm(target, order, stage):
    @mt.kernel
    def gemm(A: T.Tensor((64, 160), T.bfloat16), B: T.Tensor((64, 160), T.bfloat16), C: T.Tensor((64, 64), T.float32)):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 32), T.bfloat16)
            b = T.alloc_shared((64, 32), T.bfloat16)
            c = T.alloc_fragment((64, 64), T.float32)
            T.clear(c)
            for k in T.Pipelined(5, order=order, stage=stage):
                at = k * 32
                T.copy(A[0, at], a)
                T.copy(B[0, at], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C)

    rng = np.random.default_rng(1)
    a, b = (random(rng, (64, 160), BF16) for _ in range(2))
    for result in run(gemm, [a, b, poisoned((64, 64), np.float32)], target):
        assert error(result, a.astype(np.float64) @ b.astype(np.float64).T) < 1e-5


@mt.kernel
def linear(
    Q: T.Tensor((64, 64), T.bfloat16),
    K: T.Tensor(("N", 64), T.bfloat16),
    V: T.Tensor(("N", 64), T.bfloat16),
    O: T.Tensor((64, 64), T.float32),  # noqa: E741
    shared=False,
    late=True,
):
    """Sum over blocks of 32 rows of bf16(Q Kᵀ) V, the second product an iteration behind, by registers or through a
    buffer; V is copied first."""
    with T.Kernel(1, threads=128):
        q = T.alloc_shared((64, 64), T.bfloat16)
        k = T.alloc_shared((32, 64), T.bfloat16)
        v = T.alloc_shared((32, 64), T.bfloat16)
        p = T.alloc_shared((64, 32), T.bfloat16) if shared else T.alloc_fragment((64, 32), T.bfloat16)
        s = T.alloc_fragment((64, 32), T.float32)
        o = T.alloc_fragment((64, 64), T.float32)
        T.clear(o)
        T.copy(Q, q)
        stage = [-1, -1, 0, 0, 1] if late else [-1, -1, 0, 0, 0]
        order = [-1, -1, 0, 2, 1] if late else [-1, -1, 0, 1, 2]
        for n in T.Pipelined(T.ceildiv(K.shape[0], 32), num_stages=2, order=order, stage=stage):
            T.copy(V[n * 32, 0], v)
            T.copy(K[n * 32, 0], k)
            T.gemm(q, k, s, transpose_B=True, clear_accum=True)
            T.copy(s, p)
            T.gemm(p, v, o)
        T.copy(o, O)


@pytest.mark.parametrize(("target", "shared", "rows"), thinned(TARGETS, [False, True], [0, 32, 33, 160]))
def test_trip_counts(target, shared, rows):
    rng = np.random.default_rng(rows)
    q, k, v = (random(rng, (n, 64), BF16) for n in (64, rows, rows))
    weights = (q.astype(np.float32) @ k.astype(np.float32).T).astype(BF16).astype(np.float64)
    for late in (True, False):
        for result in run(linear, [q, k, v, poisoned((64, 64), np.float32)], target, shared=shared, late=late):
            if rows == 0:
                assert not result.any()
            else:
                assert error(result, weights @ v.astype(np.float64)) < 5e-3  # bf16 rounds some sums the other way


@mt.kernel
def deep(
    A: T.Tensor(("N", 32), T.bfloat16),
    B: T.Tensor((32, 64), T.bfloat16),
    W: T.Tensor((64, 64), T.bfloat16),
    V: T.Tensor(("N", 64), T.bfloat16),
    O: T.Tensor((64, 64), T.float32),  # noqa: E741
    order: tuple,
    stage: tuple,
):
    """Sum over blocks of 64 rows of bf16(bf16(A B) W) V: three products in a row, with steps between."""
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((64, 32), T.bfloat16)
        b = T.alloc_shared((32, 64), T.bfloat16)
        w = T.alloc_shared((64, 64), T.bfloat16)
        v = T.alloc_shared((64, 64), T.bfloat16)
        x = T.alloc_fragment((64, 64), T.float32)
        p = T.alloc_fragment((64, 64), T.bfloat16)
        y = T.alloc_fragment((64, 64), T.float32)
        q = T.alloc_fragment((64, 64), T.bfloat16)
        o = T.alloc_fragment((64, 64), T.float32)
        T.clear(o)
        T.copy(B, b)
        T.copy(W, w)
        for n in T.Pipelined(T.ceildiv(A.shape[0], 64), order=order, stage=stage):
            T.copy(A[n * 64, 0], a)
            T.copy(V[n * 64, 0], v)
            T.gemm(a, b, x, clear_accum=True)
            T.copy(x, p)
            T.gemm(p, w, y, clear_accum=True)
            T.copy(y, q)
            T.gemm(q, v, o)
        T.copy(o, O)


STAGES = {
    "two": ((0, 1, 3, 4, 2), (0, 0, 0, 0, 1)),
    "three": ((0, 4, 1, 3, 2), (0, 0, 1, 1, 2)),
    "three, each behind the one before": ((3, 4, 1, 2, 0), (0, 0, 1, 1, 2)),
    "four": ((4, 3, 1, 2, 0), (0, 1, 2, 2, 3)),
    "four, in order": ((0, 1, 2, 3, 4), (0, 0, 1, 2, 3)),
}


def check_deep(target, order, stage, rows):
    rng = np.random.default_rng(rows)
    a, b, w, v = (rng.integers(-1, 2, shape).astype(BF16) for shape in ((rows, 32), (32, 64), (64, 64), (rows, 64)))
    expected = np.zeros((64, 64))
    for at in range(0, rows, 64):
        block, other = (np.zeros((64, x.shape[1]), np.float32) for x in (a, v))
        block[: len(a[at : at + 64])], other[: len(a[at : at + 64])] = a[at : at + 64], v[at : at + 64]
        p = (block @ b.astype(np.float32)).astype(BF16).astype(np.float32)
        expected += (p @ w.astype(np.float32)).astype(BF16).astype(np.float64) @ other
    places = {"order": (-1, -1, *order), "stage": (-1, -1, *stage)}
    for result in run(deep, [a, b, w, v, poisoned((64, 64), np.float32)], target, **places):
        np.testing.assert_allclose(result, expected, rtol=1e-5)


@pytest.mark.parametrize(("target", "name", "rows"), thinned(TARGETS, list(STAGES), [0, 64, 128, 256, 300], every=5))
def test_two_three_and_four_stages(target, name, rows):
    """With fewer iterations than stages, as many, and more."""
    check_deep(target, *STAGES[name], rows)


@pytest.mark.parametrize(
    ("target", "seed"),
    [pytest.param(t, n, marks=() if n == m else pytest.mark.slow) for n in range(12) for m, t in enumerate(TARGETS)],
)
def test_random_schedules(target, seed):
    """A legal one: each entry in the stage of the one before or a later one; in an order that keeps what they need."""
    rng = np.random.default_rng(seed)
    stage = np.minimum(np.cumsum(rng.integers(0, 2, 5) * (rng.random(5) < 0.8)), 3).tolist()
    late = sorted(range(5), key=lambda n: (-stage[n], n)) if seed % 2 else list(range(5))
    order = [late.index(n) for n in range(5)]
    check_deep(target, tuple(order), tuple(stage), 64 * int(rng.integers(0, 6)))


def two_products(order, stage, stages=2, common=True):
    """A Bᵀ − C Bᵀ, or − C Dᵀ: two sums that do not need each other."""

    @mt.kernel
    def kernel(
        A: T.Tensor((64, 160), T.bfloat16),
        B: T.Tensor((64, 160), T.bfloat16),
        C: T.Tensor((64, 160), T.bfloat16),
        D: T.Tensor((64, 160), T.bfloat16),
        E: T.Tensor((64, 64), T.float32),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 32), T.bfloat16)
            b = T.alloc_shared((64, 32), T.bfloat16)
            c = T.alloc_shared((64, 32), T.bfloat16)
            d = T.alloc_shared((64, 32), T.bfloat16)
            x = T.alloc_fragment((64, 64), T.float32)
            y = T.alloc_fragment((64, 64), T.float32)
            T.clear(x)
            T.clear(y)
            for k in T.Pipelined(5, num_stages=stages, order=order, stage=stage):
                T.copy(A[0, k * 32], a)
                T.copy(B[0, k * 32], b)
                T.copy(C[0, k * 32], c)
                if not common:
                    T.copy(D[0, k * 32], d)
                T.gemm(a, b, x, transpose_B=True)
                T.gemm(c, b if common else d, y, transpose_B=True)
            for i, j in T.Parallel(64, 64):
                x[i, j] = x[i, j] - y[i, j]
            T.copy(x, E)

    return kernel


def check_products(kernel, target, common):
    rng = np.random.default_rng(2)
    arrays = [random(rng, (64, 160), BF16) for _ in range(4)]
    a, b, c, d = (x.astype(np.float64) for x in arrays)
    for result in run(kernel, [*arrays, poisoned((64, 64), np.float32)], target):
        assert error(result, a @ b.T - c @ (b if common else d).T) < 1e-5


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("order", "stage"), [((1, 0), (1, 0)), ((0, 1), (0, 1)), ((0, 1), (1, 0)), ((1, 0), (0, 0))])
def test_whoever_is_late_is_fed_last(target, order, stage):
    kernel = two_products([-1] * 4 + list(order), [-1] * 4 + list(stage), common=False)
    check_products(kernel, target, common=False)


@pytest.mark.parametrize(
    ("target", "order", "stage", "stages"),
    [
        ("sm_90a", (1, 0), (1, 0), 3),
        ("sm_90a", (0, 1), (0, 1), 3),
        ("sm_90a", (0, 1), (1, 0), 2),
        ("sm_80", (0, 1), (1, 0), 2),
    ],
)
def test_a_copy_for_both_stages(target, order, stage, stages):
    check_products(two_products([-1] * 3 + list(order), [-1] * 3 + list(stage), stages), target, common=True)


@pytest.mark.parametrize(
    ("target", "text"),
    [("sm_90a", "two versions are too few"), ("sm_80", "when the next copy has overwritten it")],
)
def test_too_few_versions(target, text):
    kernel = two_products([-1, -1, -1, 1, 0], [-1, -1, -1, 1, 0])
    specs = [mt.spec((64, 160), "bfloat16")] * 4
    with pytest.raises(mt.MinitileError, match=text) as caught:
        kernel.compile(*specs, mt.spec((64, 64), "float32"), target=target)
    assert "T.gemm(" in str(caught.value)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("rows", "order", "stage"),
    [
        (1, [-1, 1, 2, 0], [-1, 0, 0, 1]),
        (70, [-1, 1, 2, 0], [-1, 0, 0, 1]),
        (128, [-1, 1, 2, 0], [-1, 0, 0, 1]),
        (70, [-1, 2, 1, 0], [-1, 0, 1, 2]),
        pytest.param(33, [-1, 2, 1, 0], [-1, 0, 1, 3], marks=pytest.mark.slow),
    ],
)
def test_in_other_control_flow(target, rows, order, stage):
    """In a loop over tiles, with a branch as an entry, a number that is counted from turn to turn, and one that is read
    from a tensor for both stages."""

    @mt.kernel
    def kernel(
        X: T.Tensor((96, "R"), T.float32), P: T.Tensor((96,), T.int32), Y: T.Tensor((3, "R"), T.float32), tile=32
    ):
        with T.Kernel(1, threads=64):
            x = T.alloc_shared((8, tile), T.float32)
            s = T.alloc_fragment((tile,), T.float32)
            total = T.alloc_fragment((tile,), T.float32)
            for t in T.serial(T.ceildiv(X.shape[1], tile)):
                for which in T.serial(3):
                    T.clear(total)
                    weight = 1.0
                    trips = which * 2  # 0, 2, 4
                    for k in T.Pipelined(trips, num_stages=3, order=order, stage=stage):
                        first = P[which * 4 + k]
                        T.copy(X[first * 8, t * tile], x)
                        T.reduce_sum(x, s, dim=0)
                        if k % 2 == 1:
                            for i in T.Parallel(tile):
                                s[i] = -s[i]
                        for i in T.Parallel(tile):
                            total[i] = total[i] + s[i] * weight + T.cast(first + k, T.float32)
                        weight = weight + 1.0
                    T.copy(total, Y[which, t * tile])

    rng = np.random.default_rng(rows)
    x, p = rng.integers(-4, 5, (96, rows)).astype(np.float32), rng.integers(0, 12, 96).astype(np.int32)
    expected = np.zeros((3, rows))
    for which in range(3):
        for k in range(which * 2):
            at = p[which * 4 + k]
            s = x[at * 8 : at * 8 + 8].astype(np.float64).sum(0)
            expected[which] += (-s if k % 2 else s) * (k + 1) + at + k
    for result in run(kernel, [x, p, poisoned((3, rows), np.float32)], target):
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("without", ["skew", "warp_specialize", "software_pipeline"])
def test_without_passes(without):
    """A schedule says when, never what: leaving out a pass that it works through changes no result."""
    rng = np.random.default_rng(5)
    arrays = [random(rng, (n, 64), BF16) for n in (64, 96, 96)]
    results = []
    for passes in ({}, {without: False}):
        result = poisoned((64, 64), np.float32)
        linear.compile(*arrays, result, target="sm_90a", passes=passes).simulate(*arrays, result)
        results.append(result)
    np.testing.assert_allclose(results[1], results[0], rtol=1e-5, atol=1e-5)
