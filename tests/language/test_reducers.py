"""T.alloc_reducer and what goes with it, in the simulator against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import minitile as mt
import minitile.language as T

TARGETS = ["sm_80", "sm_90a"]
INTEGERS = np.random.default_rng(0).integers(-1000, 1000, (13, 300)).astype(np.int32)


def run(kernel, *arrays, target="sm_80", **constants):
    kernel.compile(*arrays, target=target, **constants).simulate(*arrays)


@mt.kernel
def rows(
    A: T.Tensor(("M", "K"), T.float32), B: T.Tensor(("M",), T.float32), block_M=16, block_K=32, op="sum", threads=64
):
    """Contributions of many tiles, put together once."""
    M, K = A.shape
    with T.Kernel(T.ceildiv(M, block_M), threads=threads) as by:
        acc = T.alloc_reducer((block_M,), T.float32, op=op)
        tile = T.alloc_fragment((block_M, block_K), T.float32)
        result = T.alloc_fragment((block_M,), T.float32)
        T.reducer_init(acc)
        for k in range(T.ceildiv(K, block_K)):
            T.copy(A[by * block_M, k * block_K], tile)
            for i, j in T.Parallel(block_M, block_K):
                if k * block_K + j < K:
                    T.reducer_update(acc[i], tile[i, j])
        T.finalize_reducer(acc, result)
        T.copy(result, B[by * block_M])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("op", ["sum", "max", "min"])
@pytest.mark.parametrize("tiles", [{}, {"block_M": 128, "block_K": 128, "threads": 32}])
def test_rows(target, op, tiles):
    a = -np.abs(INTEGERS).astype(np.float32) - 1
    b = np.full(13, np.nan, np.float32)
    run(rows, a, b, target=target, op=op, **tiles)
    assert np.array_equal(b, getattr(a, op)(axis=1))


def test_no_iteration():
    a, b = np.zeros((5, 0), np.float32), np.full(5, np.nan, np.float32)
    run(rows, a, b, op="sum")
    assert not b.any()


@mt.kernel
def one_number(A: T.Tensor((8,), T.int32), B: T.Tensor((1,), T.int32), op="sum", seed=0):
    """Fewer elements than threads, two places that contribute, a seed."""
    with T.Kernel(1, threads=128):
        a = T.alloc_fragment((8,), T.int32)
        result = T.alloc_fragment((1,), T.int32)
        T.copy(A, a)
        acc = T.alloc_reducer((1,), T.int32, op=op)
        T.reducer_init(acc, seed)
        for i in T.Parallel(8):
            T.reducer_update(acc[0], a[i])
        for i, j in T.Parallel(8, 3):
            if j < 2:
                T.reducer_update(acc[0], a[i])
        T.finalize_reducer(acc, result)
        T.copy(result, B)


@pytest.mark.parametrize(
    ("op", "seed", "exact"),
    [
        ("sum", 0, lambda a: 3 * a.sum()),
        ("sum", 100, lambda a: 3 * a.sum() + 100),
        ("max", -5, lambda a: max(a.max(), -5)),
        ("bitand", -1, lambda a: np.bitwise_and.reduce(a)),
        ("bitor", 0, lambda a: np.bitwise_or.reduce(a)),
        ("bitxor", 0, lambda a: np.bitwise_xor.reduce(a)),
    ],
)
def test_one_number(op, seed, exact):
    a, b = INTEGERS[0, :8].copy(), np.zeros(1, np.int32)
    run(one_number, a, b, op=op, seed=seed)
    assert b[0] == exact(a)


@mt.kernel
def older_form(A: T.Tensor((12, 64), T.float32), B: T.Tensor((12,), T.float32), C: T.Tensor((12,), T.float32)):
    with T.Kernel(1, threads=64):
        total = T.alloc_reducer((12,), T.float32, op="sum", replication="all")
        most = T.alloc_reducer((12,), T.float32, op="max", replication="all")
        T.fill(total, 1)
        T.fill(most, -T.infinity(T.float32))
        for i, j in T.Parallel(12, 64):
            total[i] += A[i, j]
            most[i] = T.max(A[i, j], most[i])
        T.finalize_reducer(total)
        T.finalize_reducer(most)
        for i in T.Parallel(12):
            B[i] = total[i] * 2
        T.copy(most, C)


def test_older_form():
    a = INTEGERS[:12, :64].astype(np.float32)
    b, c = np.zeros(12, np.float32), np.zeros(12, np.float32)
    run(older_form, a, b, c)
    assert np.array_equal(b, 2 * (a.sum(axis=1) + 1))
    assert np.array_equal(c, a.max(axis=1))


@mt.kernel
def twice(A: T.Tensor((4, 32), T.int32), B: T.Tensor((4, 2), T.int32)):
    """A reducer that is started anew, and one that goes on after it was finalised."""
    with T.Kernel(1, threads=32):
        fresh = T.alloc_reducer((1,), T.int32)
        running = T.alloc_reducer((1,), T.int32)
        T.reducer_init(running)
        for i in range(4):
            T.reducer_init(fresh)
            for j in T.Parallel(32):
                T.reducer_update(fresh[0], A[i, j])
                T.reducer_update(running[0], A[i, j])
            T.finalize_reducer(fresh)
            T.finalize_reducer(running)
            B[i, 0] = fresh[0]
            B[i, 1] = running[0]


def test_twice():
    a, b = INTEGERS[:4, :32].copy(), np.zeros((4, 2), np.int32)
    run(twice, a, b)
    sums = a.sum(axis=1)
    assert np.array_equal(b, np.stack([sums, np.cumsum(sums)], axis=1))


@mt.kernel
def moving(A: T.Tensor((4, 32), T.int32), B: T.Tensor((4, 3), T.int32)):
    """The place that is contributed to depends on the loop."""
    with T.Kernel(1, threads=32):
        acc = T.alloc_reducer((4, 3), T.int32)
        result = T.alloc_fragment((4, 3), T.int32)
        T.reducer_init(acc)
        for k in range(3):
            for i, j in T.Parallel(4, 32):
                if j % 3 == k:
                    T.reducer_update(acc[i, k], A[i, j])
        T.finalize_reducer(acc, result)
        T.copy(result, B)


def test_moving():
    a, b = INTEGERS[:4, :32].copy(), np.zeros((4, 3), np.int32)
    run(moving, a, b)
    assert np.array_equal(b, np.stack([a[:, k::3].sum(axis=1) for k in range(3)], axis=1))


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (['acc = T.alloc_reducer((4,), T.float32, op="mean")'], "op='mean'"),
        (['acc = T.alloc_reducer((4,), T.float32, op="bitor")'], "bitor of f32"),
        (["acc = T.alloc_reducer((4,), T.float32)", "acc[0] = 1.0"], "no update"),
        (["T.finalize_reducer(T.alloc_fragment((4,), T.float32))"], "T.finalize_reducer of"),
        (
            ["acc = T.alloc_reducer((4,), T.float32)", "T.finalize_reducer(acc, T.alloc_fragment((5,), T.float32))"],
            "same",
        ),
    ],
)
def test_refused(lines, text, refuses, tmp_path):
    file = tmp_path / "module.py"
    body = "\n".join("        " + line for line in lines)
    file.write_text(
        "import minitile.language as T\ndef kernel(A: T.Tensor((8,), T.float32)):\n    with T.Kernel(1):\n"
        + body
        + "\n"
    )
    names = {"__name__": "module", "__file__": str(file)}
    exec(compile(file.read_text(), str(file), "exec"), names)
    refuses(names["kernel"], text)


def test_odd_index():
    @mt.kernel
    def odd(A: T.Tensor((64,), T.float32)):
        with T.Kernel(1, threads=32):
            acc = T.alloc_reducer((4,), T.float32)
            T.reducer_init(acc)
            for i in T.Parallel(64):
                T.reducer_update(acc[i % 4], A[i])
            T.finalize_reducer(acc)

    with pytest.raises(mt.MinitileError, match="an index of the reducer 'acc'"):
        odd.compile(np.zeros(64, np.float32), target="sm_80")


@mt.kernel
def reduced(X: T.Tensor((7, 33), None), Y: T.Tensor((7,), None), kind="sum"):
    with T.Kernel(1, threads=64):
        x, y = T.alloc_fragment((7, 33), X.dtype), T.alloc_fragment((7,), X.dtype)
        T.copy(X, x)
        T.reduce(x, y, kind, dim=1)
        T.all_reduce(y, kind if kind[:3] != "abs" else "max")
        T.copy(y, Y)


@pytest.mark.parametrize("target", ["sm_80", "gfx942"])
@pytest.mark.parametrize(("kind", "exact"), [("bitand", "and"), ("bitor", "or"), ("bitxor", "xor"), ("xor", "xor")])
def test_kinds_have_the_names_of_the_functions(kind, exact, target):
    """T.reduce(x, y, "bitand") is T.reduce_bitand, as in T.alloc_reducer; the IR's names are taken as well."""
    x, y = INTEGERS[:7, :33].copy(), np.zeros(7, np.int32)
    reduced.compile(x, y, target=target, kind=kind).simulate(x, y)
    assert (y == getattr(np, f"bitwise_{exact}").reduce(x, axis=1)).all()


def test_a_kind_that_there_is_not():
    x = np.zeros((7, 33), np.float32)
    with pytest.raises(mt.MinitileError, match=r"T\.reduce by 'mean'(?s:.)*'sum', 'max'"):
        reduced.compile(x, x[:, 0].copy(), target="sm_80", kind="mean")
    with pytest.raises(mt.MinitileError, match=r"T\.reduce_bitor on f32"):
        reduced.compile(x, x[:, 0].copy(), target="sm_80", kind="bitor")
