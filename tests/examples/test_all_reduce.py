"""Reductions over the blocks of a cluster against NumPy in float64: kinds, dtypes, shapes, loops and branches around
them; the same bits in all blocks; each of their waits, fences and barriers taken away or weakened in turn. In the
simulator under each schedule, or with MINITILE_GPU=1 on the GPU."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from mutation_testing import surviving_mutants
from support import USE_GPU, on_device, on_host, poisoned, random

import minitile as mt
import minitile.language as T
from minitile.runtime.sim.mutate.ptx_weaken import weaker_mutants

SCHEDULES = ("eager", "lazy", "random")


def run(kernel: Any, *arrays: np.ndarray, schedules: tuple[str, ...] = SCHEDULES, **constants: Any) -> np.ndarray:
    """The last array as the kernel leaves it, the same bits under each schedule."""
    compiled = kernel.compile(*arrays, target="sm_90a", **constants)
    assert ("st.async" in compiled.asm["ptx"]) == (constants["cluster"] > 1)
    found: list[np.ndarray] = []
    for schedule in schedules[: 1 if USE_GPU else None]:
        there = [on_device(array.copy()) for array in arrays]
        if USE_GPU:
            compiled(*there)
        else:
            compiled.simulate(*there, schedule=schedule, seed=5)
        found.append(on_host(there[-1]))
    assert all(each.tobytes() == found[0].tobytes() for each in found)
    return found[0]


@mt.kernel
def rows(
    X: T.Tensor(("M", "N"), None),
    Y: T.Tensor(("C", "M"), None),
    kind="sum",
    cluster=4,
    columns=64,
    high=1,
    threads=64,
):
    """Y[c, i] = X's row i reduced, as block c of the cluster has it."""
    M, _ = X.shape
    with T.Kernel(cluster, T.ceildiv(M, high), cluster=(cluster, 1), threads=threads) as (part, by):
        x = T.alloc_fragment((high, columns), X.dtype)
        s = T.alloc_fragment((high,), Y.dtype)
        T.copy(X[by * high, part * columns], x)
        T.reduce(x, s, kind, dim=1, scope="cluster")
        T.copy(s, Y[part, by * high])


KINDS = {
    "sum": np.sum,
    "max": np.max,
    "min": np.min,
    "abssum": lambda x, axis: np.abs(x).sum(axis),
    "absmax": lambda x, axis: np.abs(x).max(axis),
    "and": np.bitwise_and.reduce,
    "or": np.bitwise_or.reduce,
    "xor": np.bitwise_xor.reduce,
}


def dtype_of(name: str) -> Any:
    return {"bf16": ml_dtypes.bfloat16}.get(name, name)


@pytest.mark.parametrize(
    ("kind", "dtype", "cluster", "high"),
    [
        ("sum", "float32", 4, 1),
        ("sum", "float32", 1, 1),
        ("sum", "float32", 16, 1),
        ("max", "float32", 3, 5),
        ("min", "bf16", 5, 1),
        ("abssum", "float64", 2, 1),
        ("absmax", "float16", 8, 2),
        ("sum", "int64", 7, 3),
        ("xor", "int32", 4, 1),
        ("and", "uint8", 2, 17),
        ("or", "int16", 2, 1),
    ],
)
def test_kinds_and_dtypes(kind: str, dtype: str, cluster: int, high: int) -> None:
    x = random(np.random.default_rng(1), (2 * high - 1, 64 * cluster), dtype_of(dtype))
    y = poisoned((cluster, len(x)), x.dtype)
    found = run(rows, x, y, kind=kind, cluster=cluster, high=high)
    exact = x.astype(np.float64) if x.dtype.kind not in "iu" else x
    expected = np.broadcast_to(KINDS[kind](exact, axis=1).astype(x.dtype), found.shape)
    bound = 0 if kind not in ("sum", "abssum") or x.dtype.kind in "iu" else 1e-5
    np.testing.assert_allclose(found.astype(np.float64), expected.astype(np.float64), rtol=bound, atol=bound)
    assert (found == found[0]).all()


@pytest.mark.parametrize(
    ("high", "threads", "columns"), [(16, 128, 32), (100, 128, 4), (64, 64, 1), (1, 32, 8), (5, 512, 96)]
)
def test_rows_of_a_tile(high: int, threads: int, columns: int) -> None:
    """Each thread has some of them, in some layouts, not all threads have one."""
    x = random(np.random.default_rng(2), (high + 3, 2 * columns))
    found = run(rows, x, poisoned((2, len(x))), cluster=2, high=high, columns=columns, threads=threads)
    np.testing.assert_allclose(found, np.broadcast_to(x.sum(1, dtype=np.float64), found.shape), rtol=1e-4, atol=1e-5)


@mt.kernel
def standardised(
    X: T.Tensor(("M", "N"), T.float32), Y: T.Tensor(("M", "N"), T.float32), cluster=2, columns=64, blocks=2
):
    """(x - mean) / deviation, row after row: reductions one after the other, in a loop; some rows are left out, and
    others reduced once more."""
    M, N = X.shape
    with T.Kernel(cluster, blocks, cluster=(cluster, 1), threads=64) as (part, by):
        x = T.alloc_fragment((columns,), T.float32)
        squares = T.alloc_fragment((columns,), T.float32)
        mean = T.alloc_fragment((1,), T.float32)
        variance = T.alloc_fragment((1,), T.float32)
        for turn in range(T.ceildiv(M - by, blocks)):
            row = by + turn * blocks
            T.copy(X[row, part * columns], x)
            if row % 3 != 2:
                T.reduce_sum(x, mean, dim=0, scope="cluster")
                for j in T.Parallel(columns):
                    x[j] = x[j] - mean[0] / N
                    squares[j] = x[j] * x[j]
                T.reduce_sum(squares, variance, dim=0, scope="cluster")
                if row % 3 == 1:
                    T.all_reduce(variance, "max")
                for j in T.Parallel(columns):
                    x[j] = x[j] * T.rsqrt(variance[0] / N)
            T.copy(x, Y[row, part * columns])


@pytest.mark.parametrize(("height", "cluster"), [(1, 2), (2, 4), (7, 2), (10, 3)])
def test_loops_and_branches(height: int, cluster: int) -> None:
    """No, one and several rounds."""
    x = random(np.random.default_rng(3), (height, 64 * cluster))
    found = run(standardised, x, poisoned(x.shape), cluster=cluster)
    exact = x.astype(np.float64)
    expected = (exact - exact.mean(1, keepdims=True)) / exact.std(1, keepdims=True)
    expected[2::3] = x[2::3]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@mt.kernel
def extremes(
    X: T.Tensor(("M",), T.float32), Low: T.Tensor((2,), T.float32), High: T.Tensor((2, 2), T.float32), cluster=2
):
    """One element a block, which every thread has; a result that goes elsewhere, to shared memory, or on top."""
    with T.Kernel(cluster, cluster=cluster, threads=96) as part:
        x = T.alloc_fragment((1,), T.float32)
        low = T.alloc_shared((1,), T.float32)
        high = T.alloc_fragment((1,), T.float32)
        x[0] = X[part]
        T.all_reduce(x, "min", out=low)
        T.fill(high, 5.0)
        T.reduce_max(x, high, clear=False, scope="cluster")
        T.copy(low, Low[part])
        High[part, 0] = x[0]
        High[part, 1] = high[0]


@pytest.mark.parametrize("cluster", [1, 2])
def test_where_results_go(cluster: int) -> None:
    x = np.array([7, 6.5], np.float32)
    low, high = poisoned((2,)), poisoned((2, 2))
    compiled = extremes.compile(x, low, high, target="sm_90a", cluster=cluster)
    arrays = [on_device(each) for each in (x, low, high)]
    compiled(*arrays) if USE_GPU else compiled.simulate(*arrays)
    low, high = on_host(arrays[1])[:cluster], on_host(arrays[2])[:cluster]
    assert low.tolist() == [x[:cluster].min()] * cluster
    assert high[:, 0].tolist() == x[:cluster].tolist()
    assert high[:, 1].tolist() == [x[:cluster].max()] * cluster


@mt.kernel
def of_a_role(X: T.Tensor((2, 64), T.float32), Y: T.Tensor((2, 64), T.float32), cluster=2):
    """Only the second warpgroup reduces."""
    with T.Kernel(cluster, cluster=cluster, threads=256) as part:
        x = T.alloc_fragment((64,), T.float32)
        s = T.alloc_fragment((1,), T.float32)
        with T.ws(1):
            for _ in range(3):
                T.copy(X[part, 0], x)
                T.reduce_sum(x, s, scope="cluster")
            for j in T.Parallel(64):
                Y[part, j] = x[j] / s[0]


def test_by_one_role() -> None:
    x = np.abs(random(np.random.default_rng(4), (2, 64))) + 1
    np.testing.assert_allclose(run(of_a_role, x, poisoned(x.shape), cluster=2), x / x.sum(), rtol=1e-5)


@mt.kernel
def softmax_of_products(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.float32),
    cluster=2,
    blocks=1,
):
    """Blocks of a cluster have the columns of a row of tiles, and one tile after the other."""
    M, K = A.shape
    with T.Kernel(cluster * blocks, threads=128, cluster=cluster) as block:
        A_shared = T.alloc_shared((64, 64), A.dtype)
        B_shared = T.alloc_shared((64, 64), B.dtype)
        C_local = T.alloc_fragment((64, 64), T.float32)
        top = T.alloc_fragment((64,), T.float32)
        total = T.alloc_fragment((64,), T.float32)
        column = block % cluster * 64
        for turn in range(T.ceildiv(T.ceildiv(M, 64) - block // cluster, blocks)):
            row = (block // cluster + turn * blocks) * 64
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, 64), num_stages=2):
                T.copy(A[row, k * 64], A_shared)
                T.copy(B[column, k * 64], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            T.reduce_max(C_local, top, dim=1, scope="cluster")
            for i, j in T.Parallel(64, 64):
                C_local[i, j] = T.exp(C_local[i, j] - top[i])
            T.reduce_sum(C_local, total, dim=1, scope="cluster")
            for i, j in T.Parallel(64, 64):
                C[row + i, column + j] = C_local[i, j] / total[i]


@pytest.mark.parametrize("warp_specialize", [True, False])
def test_behind_products(warp_specialize: bool) -> None:
    """Rows that threads have a few each; only consumers reduce."""
    rng = np.random.default_rng(5)
    a, b = random(rng, (136, 72), ml_dtypes.bfloat16), random(rng, (128, 72), ml_dtypes.bfloat16)
    found = run(softmax_of_products, a, b, poisoned((136, 128)), cluster=2, warp_specialize=warp_specialize)
    scores = a.astype(np.float64) @ b.astype(np.float64).T
    powers = np.exp(scores - scores.max(1, keepdims=True))
    np.testing.assert_allclose(found, powers / powers.sum(1, keepdims=True), rtol=1e-4, atol=1e-6)


@pytest.mark.skipif(USE_GPU, reason="looks for races, which the GPU does not report")
@pytest.mark.parametrize("candidates", ["taken away", "weaker"])
def test_every_mutant_is_killed(candidates: str) -> None:
    x = random(np.random.default_rng(0), (4, 128))
    compiled = standardised.compile(x, poisoned(x.shape), target="sm_90a", blocks=1)
    more = {} if candidates == "taken away" else {"candidates": weaker_mutants}
    found, count = surviving_mutants(compiled, [x, poisoned(x.shape)], **more)
    assert found == []
    assert count > 10


def test_one_block_on_every_target() -> None:
    x = random(np.random.default_rng(6), (2, 64))
    for target in ("sm_80", "gfx942"):
        y = poisoned((1, 2))
        rows.compile(x, y, target=target, cluster=1).simulate(x, y)
        np.testing.assert_allclose(y[0], x.sum(1, dtype=np.float64), rtol=1e-5)


@pytest.mark.parametrize("target", ["sm_80", "gfx950"])
def test_targets_without_clusters(target: str) -> None:
    with pytest.raises(mt.MinitileError, match=f"{target} has no clusters"):
        rows.compile(np.zeros((1, 128), np.float32), np.zeros((2, 1), np.float32), target=target, cluster=2)


@mt.kernel
def wrong(X: T.Tensor((2, 64), T.float32), what="scope"):
    with T.Kernel(2, cluster=2, threads=64) as part:
        x = T.alloc_fragment((64,), T.float32)
        s = T.alloc_fragment((1,), T.float32)
        i = T.alloc_fragment((1,), T.int32)
        T.copy(X[part, 0], x)
        if what == "scope":
            T.reduce_sum(x, s, scope="grid")
        if what == "kind":
            T.all_reduce(s, "mean")
        if what == "bits":
            T.all_reduce(s, "xor")
        if what == "dtype":
            T.all_reduce(s, "sum", out=i)
        if what == "part":
            T.all_reduce(x[0:4], "sum")
        T.copy(s, X[part, 0])


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("scope", "a scope is one of: 'block', 'cluster'"),
        ("kind", "it knows: 'sum'"),
        ("bits", "bitwise reductions are for integers"),
        ("dtype", "the same shape and dtype"),
        ("part", "a whole fragment"),
    ],
)
def test_what_is_wrong(what: str, message: str) -> None:
    with pytest.raises(mt.MinitileError, match=message) as found:
        wrong.compile(np.zeros((2, 64), np.float32), target="sm_90a", what=what)
    assert "test_all_reduce.py" in str(found.value)
