"""Where 32 bits end: what is proved, what the launch checks, what is compiled once more, and what code then holds."""

from __future__ import annotations

import operator
from pathlib import Path

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.runtime.sim.core.sparse import zeros

EXAMPLES = Path(__file__).parents[2] / "examples"
TARGETS = ["sm_80", "sm_90a", "gfx942", "gfx950"]


def near(C):
    """What is written, and where."""
    places = np.flatnonzero(C)
    return dict(zip(places.tolist(), C[places].tolist(), strict=True))


@pytest.mark.parametrize("target", TARGETS)
def test_a_loaded_index_and_the_place_in_the_tile(target):
    """2^31 - 1 and the thread's number are a negative number in 32 bits."""

    @mt.kernel
    def kernel(At: T.Tensor((1,), T.int32), A: T.Tensor((16,), T.float32), C: T.Tensor((256,), T.float32)):
        with T.Kernel(1, threads=128):
            at = T.max(At[0], 0)
            staged = T.alloc_fragment((256,), T.float32)
            T.copy(A[at], staged)
            for i in T.Parallel(256):
                C[i] = staged[i]
                A[at + i] = 5.0

    for start in ((1 << 31) - 1, (1 << 31) - 100, 3):
        A, C = np.arange(1, 17, dtype=np.float32), np.full(256, -1, np.float32)
        wanted = np.zeros(256, np.float32)
        wanted[: max(0, 16 - start)] = A[start:]
        kernel.compile(target=target).simulate(np.array([start], np.int32), A, C)
        np.testing.assert_array_equal(C, wanted)
        assert (A[start:] == 5).all()
        assert (A[: min(start, 16)] == np.arange(1, min(start, 16) + 1)).all()


@pytest.mark.parametrize("target", TARGETS)
def test_products_in_64_bits(target):
    """Of block indices: an index far outside is not cut off to one inside."""

    @mt.kernel
    def kernel(A: T.Tensor((64,), T.uint8), n: T.int32):
        with T.Kernel(3, threads=64) as b:
            A[T.int64(b) * (1 << 31) * 2] = T.cast(b + 1, T.uint8)
            A[T.int64(b) * T.int64(n) + 1] = T.cast(b + 1, T.uint8)
            A[b * n + 2] = T.cast(b + 1, T.uint8)

    A = np.zeros(64, np.uint8)
    compiled = mt.kernel(target=target)(kernel.function)
    compiled(A, 1 << 30)
    assert near(A) == {0: 1, 1: 1, 2: 1}
    A = np.zeros(64, np.uint8)
    compiled(A, 10)
    assert near(A) == {0: 1, 1: 1, 2: 1, 11: 2, 12: 2, 21: 3, 22: 3}


@pytest.mark.parametrize("target", TARGETS)
def test_counters_near_the_end(target):
    """The step leads over the end of 32 bits."""

    @mt.kernel
    def kernel(C: T.Tensor((32,), T.int64), n: T.int32):
        with T.Kernel(1, threads=64):
            for i in range((1 << 31) - 9, (1 << 31) - 1, 3):
                C[i - ((1 << 31) - 9)] = T.int64(i)
            for i in range(n - 8, n, 5):
                C[i - n + 20] = T.int64(i)
            for i in T.serial(0, 1 << 31, 1 << 30):
                C[i // (1 << 30) + 30] = T.int64(i) + 1

    C = np.zeros(32, np.int64)
    n = (1 << 31) - 1
    mt.kernel(target=target)(kernel.function)(C, n)
    last = (1 << 31) - 9
    assert near(C) == {0: last, 3: last + 3, 6: last + 6, 12: n - 8, 17: n - 3, 30: 1, 31: (1 << 30) + 1}


@mt.kernel
def flat(A: T.Tensor(("P",), T.uint8), X: T.Tensor(("M", "N"), T.uint8)):
    """Marks the rows' first elements in a flat tensor."""
    M, N = X.shape
    with T.Kernel(M, threads=64) as b:
        A[b * N] = T.cast(b + 1, T.uint8)


def test_the_launch_checks_products():
    compiled = flat.compile(target="sm_80")
    facts = compiled.launch_info.facts
    assert ("less", ("dim", "P"), 1 << 30) in facts
    assert ("less", ("mul", ("dim", "N"), ("sub", ("dim", "M"), 1)), 1609564161) in facts
    assert "s64 %rd" not in "".join(x for x in compiled.asm["ptx"].splitlines() if "mul.lo.s64" in x)
    A, X = zeros(1 << 12, np.uint8), zeros(3 << 29, np.uint8).reshape(3, 1 << 29)
    compiled.simulate(A, X)
    X = zeros(7 << 28, np.uint8).reshape(7, 1 << 28)
    with pytest.raises(mt.MinitileError, match=r"compiled for .*N \* \(M - 1\).*but .*M is 7") as caught:
        compiled.simulate(A, X)
    assert "call the kernel function itself" in str(caught.value)
    with pytest.raises(mt.MinitileError, match=f"compiled for P < {1 << 30}, but P is"):
        compiled.simulate(zeros(1 << 31, np.uint8), X)


@pytest.mark.parametrize("target", TARGETS)
def test_a_call_finds_the_right_compilation(target):
    kernel = mt.kernel(target=target)(flat.function)
    for rows, columns, size in ((5, 3, 1 << 12), (7, 1 << 28, 1 << 12), (9, 1 << 28, (9 << 28) + 3)):
        A, X = zeros(size, np.uint8), zeros(rows * columns, np.uint8).reshape(rows, columns)
        chosen = kernel.executable(A, X)
        assert chosen is kernel.executable(A, X)
        kernel(A, X)
        for b in range(rows):
            at = b * columns
            assert at >= size or A[at] == b + 1
        assert not A[columns * (rows - 1) + 1 :][:4096].any()


def test_a_grid_that_nothing_launches():
    @mt.kernel(target="sm_80")
    def kernel(A: T.Tensor(("N",), T.uint8)):
        with T.Kernel(A.shape[0], threads=32) as b:
            A[b] = T.cast(1, T.uint8)

    with pytest.raises(mt.MinitileError, match="at most 2147483647 blocks"):
        kernel(zeros(1 << 31, np.uint8))


@pytest.mark.parametrize(("dims", "kind"), [((1 << 12, 1 << 10), "lds"), ((4, 1 << 28), "plain")])
def test_lds_dma_reaches_2_gb(dims, kind):
    """A lane's offset from the tile's start has 32 bits: where rows are so long, copies go through registers."""

    @mt.kernel(target="gfx950")
    def kernel(A: T.Tensor(("M", "K"), T.float32), C: T.Tensor((64, 64), T.float32)):
        with T.Kernel(1, threads=256):
            staged = T.alloc_shared((64, 64), T.float32)
            value = T.alloc_fragment((64, 64), T.float32)
            T.clear(value)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[0, A.shape[1] - 128 + k * 64], staged)
                for i, j in T.Parallel(64, 64):
                    value[i, j] += staged[i, j]
            T.copy(value, C)

    A = zeros(dims[0] * dims[1], np.float32).reshape(dims)
    A[:64, -128:] = np.arange(min(64, dims[0]) * 128).reshape(-1, 128)
    C = np.zeros((64, 64), np.float32)
    kernel(A, C)
    rows = A[:64, -128:]
    wanted = np.zeros((64, 64), np.float32)
    wanted[: len(rows)] = rows[:, :64] + rows[:, 64:]
    np.testing.assert_array_equal(C, wanted)
    assert ("buffer_load_dwordx4" in kernel.executable(A, C).text) == (kind == "lds")


def test_stream_k_needs_neither_64_bits_nor_more_than_the_product_of_its_sizes(monkeypatch):
    """Quotients by values: the launch's conditions are no looser than blocks * tiles * steps."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    from gemm_stream_k import gemm_stream_k

    tiles, bf16 = 64 * 64, "bfloat16"
    square = mt.spec((8192, 8192), bf16)
    slots = mt.spec((tiles + 132, 128, 128), "float32")
    compiled = gemm_stream_k.compile(square, square, square, slots, mt.spec((tiles,), "int32"), target="sm_90a")
    dims = {"M": 8192, "N": 8192, "K": 8192, "slots": tiles + 132, "tiles": tiles}
    limits = [(fact, evaluate(fact[1], dims)) for fact in compiled.launch_info.facts if fact[0] == "less"]
    assert len(limits) > 5
    assert all(number < fact[2] for fact, number in limits)
    dims |= dict.fromkeys("MNK", 1 << 15)  # 2^32 steps and more of all blocks together
    assert any(evaluate(fact[1], dims) >= fact[2] for fact, _ in limits)


def evaluate(e, dims):
    if isinstance(e, int) or e[0] == "dim":
        return e if isinstance(e, int) else dims[e[1]]
    operations = {
        "add": operator.add, "sub": operator.sub, "mul": operator.mul, "floordiv": operator.floordiv,
        "min": min, "max": max,
    }  # fmt: skip
    return operations[e[0]](evaluate(e[1], dims), evaluate(e[2], dims))
