"""Integers that wrap, and indices that 32 bits do not hold: what each target's code does, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import minitile as mt
import minitile.language as T


@pytest.fixture(params=["sm_80", "sm_90a", "gfx942", "gfx950"])
def run(request):
    def launch(kernel, *arrays):
        """What the kernel leaves in its last array."""
        kernel.compile(*arrays, target=request.param).simulate(*arrays)
        return arrays[-1]

    return launch


# Counters and indices of T.Parallel, as unsigned numbers --------------------------------------------------------------

COUNTER = np.arange(20, dtype=np.uint32)


def test_a_remainder_of_what_wraps_below_zero(run):
    @mt.kernel
    def kernel(C: T.Tensor((2, 20), T.uint32)):
        with T.Kernel(1, threads=128):
            for k in T.serial(20):
                C[0, k] = (T.uint32(k) - T.uint32(1)) % T.uint32(7)
                C[1, k] = T.uint32(k - 3) % T.uint32(7)

    with np.errstate(over="ignore"):
        expected = [(COUNTER - np.uint32(1)) % 7, (COUNTER - np.uint32(3)) % 7]
    np.testing.assert_array_equal(run(kernel, np.zeros((2, 20), np.uint32)), expected)


def test_a_sum_with_a_product_that_wraps(run):
    @mt.kernel
    def kernel(Z: T.Tensor((1,), T.int64), C: T.Tensor((2, 20), T.int64)):
        with T.Kernel(1, threads=128):
            base = Z[0]
            for k in T.serial(20):
                C[0, k] = base + T.int64(T.uint32(k) * T.uint32(2654435761))
                C[1, k] = base + T.int64(T.uint32(k - 4))

    got = run(kernel, np.array([5], np.int64), np.zeros((2, 20), np.int64))
    with np.errstate(over="ignore"):
        expected = [COUNTER * np.uint32(2654435761), COUNTER - np.uint32(4)]
    np.testing.assert_array_equal(got, np.array(expected).astype(np.int64) + 5)


def test_indices_that_wrap_element_by_element(run):
    @mt.kernel
    def kernel(A: T.Tensor((64,), T.float32), C: T.Tensor((4, 64), T.float32)):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(64):
                C[0, i] = A[T.uint32(i) - T.uint32(5)]
                C[1, i] = A[T.uint32(i + 60)]
                C[2, i] = A[T.uint32(i - 5)]
                C[3, i] = A[T.int64(T.uint32(i) - T.uint32(5)) + T.int64(5)]

    values = np.arange(1, 65, dtype=np.float32)
    got = run(kernel, values, np.full((4, 64), -1, np.float32))
    later = np.r_[np.zeros(5), values[:-5]]
    far = np.r_[np.zeros(5), values[5:]]  # the first five are 2**32 and more
    np.testing.assert_array_equal(got, [later, np.r_[values[60:], np.zeros(60)], later, far])


# Indices that 32 bits do not hold -------------------------------------------------------------------------------------

NONE = 0xFFFFFFFF  # of a page table
VALUES = np.arange(1, 65, dtype=np.float32)


def expected_of(values: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """What is read at indices: 0 outside."""
    inside = [0 <= int(at) < len(values) for at in indices]
    return np.where(inside, values[np.where(inside, indices, 0).astype(np.int64)], 0)


INDICES = {
    "u32": (T.uint32, np.array([NONE, 5, NONE - 4, 63, 64, 1 << 31, (1 << 31) - 1, 0], np.uint32)),
    "i32": (T.int32, np.array([-1, 5, -5, 63, 64, -(1 << 31), (1 << 31) - 1, 0], np.int32)),
    "i64": (
        T.int64,
        np.array([-1, 5, (1 << 32) + 5, 63, -(1 << 63), 1 << 31, (1 << 63) - 1, (-1 << 32) + 3], np.int64),
    ),
    "u64": (
        T.uint64,
        np.array([(1 << 64) - 1, 5, (1 << 32) + 5, 63, 1 << 63, 1 << 31, (1 << 63) + 7, 0], np.uint64),
    ),
    "u8": (T.uint8, np.array([255, 5, 44, 63, 64, 128, 127, 0], np.uint8)),
    "i8": (T.int8, np.array([-1, 5, 44, 63, 64, -128, 127, 0], np.int8)),
}
WIDE = ("u32", "i32", "i64", "u64")


@pytest.mark.parametrize("dtype", INDICES)
def test_one_element_is_read_and_written(run, dtype):
    index, numbers = INDICES[dtype]

    @mt.kernel
    def kernel(
        A: T.Tensor((64,), T.float32),
        At: T.Tensor((8,), index),
        R: T.Tensor((8,), T.float32),
        C: T.Tensor((64,), T.float32),
    ):
        with T.Kernel(1, threads=128):
            for k in range(8):
                R[k] = A[At[k]]
                C[At[k]] = A[k]
                T.atomic_add(C[At[k]], 100.0)

    read = np.full(8, -1, np.float32)
    wanted = np.zeros(64, np.float32)
    for k, at in enumerate(numbers.tolist()):
        if 0 <= at < 64:
            wanted[at] = VALUES[k] + 100 * 128  # of each thread
    np.testing.assert_array_equal(run(kernel, VALUES, numbers, read, np.zeros(64, np.float32)), wanted)
    np.testing.assert_array_equal(read, expected_of(VALUES, numbers))


@pytest.mark.parametrize("size", [64, 300])
@pytest.mark.parametrize("dtype", INDICES)
def test_elements_are_gathered_and_scattered(run, dtype, size):
    index, numbers = INDICES[dtype]

    @mt.kernel
    def kernel(
        A: T.Tensor((size,), T.float32),
        At: T.Tensor((8,), index),
        R: T.Tensor((8,), T.float32),
        C: T.Tensor((size,), T.float32),
    ):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(8):
                R[i] = A[At[i]]
                C[At[i]] = 1.0 + i

    values, read = np.arange(1, size + 1, dtype=np.float32), np.full(8, -1, np.float32)
    wanted = np.zeros(size, np.float32)
    for k, at in enumerate(numbers.tolist()):
        if 0 <= at < size:
            wanted[at] = k + 1
    np.testing.assert_array_equal(run(kernel, values, numbers, read, np.zeros(size, np.float32)), wanted)
    np.testing.assert_array_equal(read, expected_of(values, numbers))


ROWS = np.arange(1, 64 * 64 + 1, dtype=np.float32).reshape(64, 64)


def expected_rows(at: int, count: int) -> np.ndarray:
    """So many rows of ROWS from one on: zeros outside."""
    every = expected_of(np.arange(1, 65), np.array([at + n for n in range(count)], object))
    return np.where(every[:, None] > 0, ROWS[every.astype(int) - 1], 0).astype(np.float32)


@pytest.mark.parametrize("dtype", WIDE)
def test_tiles_are_copied(run, dtype):
    """To and from shared memory, and from fragments."""
    index, numbers = INDICES[dtype]

    @mt.kernel
    def kernel(
        A: T.Tensor((64, 64), T.float32),
        At: T.Tensor((8,), index),
        R: T.Tensor((8, 32, 64), T.float32),
        C: T.Tensor((8, 64, 64), T.float32),
    ):
        with T.Kernel(8, threads=128) as k:
            S = T.alloc_shared((32, 64), T.float32)
            f = T.alloc_fragment((32, 64), T.float32)
            T.copy(A[At[k], 0], S)
            T.copy(S, R[k, 0, 0])
            if k % 2 == 0:
                T.copy(S, C[k, At[k], 0])
            else:
                T.copy(S, f)
                T.copy(f, C[k, At[k], 0])

    read, c = np.full((8, 32, 64), -1, np.float32), np.zeros((8, 64, 64), np.float32)
    run(kernel, ROWS, numbers, read, c)
    for k, at in enumerate(numbers.tolist()):
        np.testing.assert_array_equal(read[k], expected_rows(at, 32), err_msg=str(at))
        wanted = np.zeros((64, 64), np.float32)
        for n in range(32):
            if 0 <= at + n < 64:
                wanted[at + n] = read[k, n]
        np.testing.assert_array_equal(c[k], wanted, err_msg=str(at))


@pytest.mark.parametrize("dtype", WIDE)
def test_pages_of_a_pipelined_product(run, dtype):
    """By TMA on sm_90a, by LDS-DMA on gfx950."""
    index, numbers = INDICES[dtype]

    @mt.kernel
    def kernel(
        A: T.Tensor((64, 192), T.float16),
        B: T.Tensor((64, 192), T.float16),
        At: T.Tensor((8,), index),
        C: T.Tensor((8, 64, 64), T.float32),
    ):
        with T.Kernel(8, threads=128) as page:
            a = T.alloc_shared((64, 64), T.float16)
            b = T.alloc_shared((64, 64), T.float16)
            c = T.alloc_fragment((64, 64), T.float32)
            T.clear(c)
            row = At[page]
            for k in T.Pipelined(3, num_stages=2):
                T.copy(A[0, k * 64], a)
                T.copy(B[row, k * 64], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C[page, 0, 0])

    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (64, 192)).astype(np.float16) for _ in range(2))
    got = run(kernel, a, b, numbers, np.full((8, 64, 64), -1, np.float32))
    for k, at in enumerate(numbers.tolist()):
        page = np.array([b[at + n] if 0 <= at + n < 64 else np.zeros(192) for n in range(64)])
        np.testing.assert_array_equal(got[k], a.astype(np.float64) @ page.T, err_msg=str(at))


def test_along_a_dimension_beside_a_gathered_one(run):
    @mt.kernel
    def kernel(
        A: T.Tensor((16, 16), T.float32),
        At: T.Tensor((4,), T.int64),
        U: T.Tensor((4,), T.uint32),
        P: T.Tensor((16,), T.int32),
        C: T.Tensor((8, 16, 16), T.float32),
    ):
        with T.Kernel(1, threads=128):
            for k in range(4):
                for i, j in T.Parallel(16, 16):
                    C[k, i, j] = A[At[k] + i, P[j]]
                for i, j in T.Parallel(16, 16):
                    C[4 + k, i, j] = A[T.int64(U[k]) + i, P[j]]

    a = np.arange(1, 257, dtype=np.float32).reshape(16, 16)
    i, u = np.array([(1 << 32) + 5, -3, 4, -1 << 40], np.int64), np.array([NONE, 3, NONE - 7, 1 << 31], np.uint32)
    p = np.arange(16, dtype=np.int32)[::-1].copy()
    got = run(kernel, a, i, u, p, np.full((8, 16, 16), -1, np.float32))
    for k, start in enumerate([*i.tolist(), *u.tolist()]):
        for n in range(16):
            wanted = a[start + n, p] if 0 <= start + n < 16 else np.zeros(16)
            np.testing.assert_array_equal(got[k, n], wanted, err_msg=f"{start} + {n}")


def test_sums_in_64_bits(run):
    """Every part fits 32 bits or less, what they come to does not; or the other way round."""

    @mt.kernel
    def kernel(
        A: T.Tensor((64,), T.float32),
        At: T.Tensor((4,), T.int32),
        U: T.Tensor((4,), T.uint32),
        L: T.Tensor((4,), T.int64),
        C: T.Tensor((5, 8), T.float32),
    ):
        with T.Kernel(1, threads=128):
            for k in T.serial(8):
                C[0, k] = A[T.int64(k) * 4294967296 + 3]
                C[1, k] = A[T.int64(At[0]) * 4 + k]
                C[2, k] = A[T.int64(U[0]) - 4294967290 + k]
                C[3, k] = A[L[0] - T.int64(k) * 2147483648]
                C[4, k] = A[T.int64(At[1]) * T.int64(At[2]) + k]

    i = np.array([(1 << 30) + 1, 1 << 16, 1 << 16, 0], np.int32)
    u, long = np.array([NONE, 0, 0, 0], np.uint32), np.array([(1 << 32) + 7, 0, 0, 0], np.int64)
    got = run(kernel, VALUES, i, u, long, np.full((5, 8), -1, np.float32))
    wanted = np.zeros((5, 8))
    wanted[0, 0] = VALUES[3]
    wanted[2] = VALUES[5:13]
    wanted[3, 2] = VALUES[7]
    np.testing.assert_array_equal(got, wanted)


# What is known of numbers that are cut off or wrap -------------------------------------------------------------------


def test_casts_that_change_numbers(run):
    """Neither the sign nor a divisor of a number is one of what it becomes in another type."""

    @mt.kernel
    def kernel(
        A: T.Tensor((64,), T.int8),
        B: T.Tensor((64,), T.int32),
        L: T.Tensor((64,), T.int64),
        C: T.Tensor((8, 64), T.int64),
    ):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(64):
                C[0, i] = T.int64(T.uint32(A[i]) < T.uint32(1000))
                C[1, i] = T.int64(T.min(T.uint32(A[i]), T.uint32(128)))
                C[2, i] = T.int64(T.uint64(A[i]) // T.uint64(1000))
                C[3, i] = T.int64(T.int32(T.cast(i * 9, T.uint8)) % 3)
                C[4, i] = T.int64(T.int32(T.cast(i * 9 - 300, T.int8)) % 3)
                C[5, i] = T.int64(T.uint32(i * 3 - 6)) % 3
                C[6, i] = T.int64(T.int32(L[i] * 3) % 3)
                C[7, i] = T.int64(T.uint32(B[i]) < T.uint32(1000))

    n = np.arange(64)
    a, b = (n * 7 % 256 - 128).astype(np.int8), (n * 40 - 300).astype(np.int32)
    wide = n.astype(np.int64) * 1234567891
    got = run(kernel, a, b, wide, np.full((8, 64), -1, np.int64))
    as32 = a.astype(np.int64) % (1 << 32)
    wanted = [
        as32 < 1000,
        np.minimum(as32, 128),
        (a.astype(np.int64).astype(np.uint64) // np.uint64(1000)).astype(np.int64),
        (n * 9).astype(np.uint8).astype(int) % 3,
        (n * 9 - 300).astype(np.int8).astype(int) % 3,
        (n * 3 - 6) % (1 << 32) % 3,
        (wide * 3).astype(np.int32).astype(int) % 3,
        b.astype(np.int64) % (1 << 32) < 1000,
    ]
    for row, want in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(row, want)


def test_counters_that_change_in_casts(run):
    """The same of scalars in a loop."""

    @mt.kernel
    def kernel(C: T.Tensor((8, 40), T.int64)):
        with T.Kernel(1, threads=128):
            for k in T.serial(40):
                hashed = T.uint32(k) * T.uint32(2654435761)
                C[0, k] = T.int64(T.int32(T.cast(k * 9, T.uint8)) % 3)
                C[1, k] = T.int64(T.int32(T.cast(k * 9 - 100, T.int8)) % 3)
                C[2, k] = T.int64(T.uint32(k * 3 - 6)) % 3
                C[3, k] = T.int64(T.uint32(T.cast(k * 5 - 100, T.int8)) < T.uint32(1000))
                C[4, k] = T.int64(T.int32(hashed) * 4 // 4)
                C[5, k] = T.int64(T.int32(hashed) + 1000000000 > T.int32(hashed))
                C[6, k] = T.int64(T.uint32(k) - T.uint32(5) < T.uint32(k))
                C[7, k] = T.int64(T.int32(T.int64(k) * 2654435761) % 7)

    k = np.arange(40)
    hashed = (k * 2654435761).astype(np.uint32).view(np.int32)
    with np.errstate(over="ignore"):
        wanted = [
            (k * 9).astype(np.uint8).astype(int) % 3,
            (k * 9 - 100).astype(np.int8).astype(int) % 3,
            (k * 3 - 6) % (1 << 32) % 3,
            (k * 5 - 100).astype(np.int8).astype(int) % (1 << 32) < 1000,
            hashed * np.int32(4) // 4,
            hashed + np.int32(1000000000) > hashed,
            (k - 5) % (1 << 32) < k,
            (k * 2654435761).astype(np.int32).astype(int) % 7,
        ]
    got = run(kernel, np.full((8, 40), -1, np.int64))
    for row, want in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(row, want)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942"])
def test_what_a_branch_knows_of_a_divisor_ends_with_it(target: str) -> None:
    """Where x is even, x // 2 * 2 is x; behind the branch it is not."""

    @mt.kernel
    def kernel(X: T.Tensor(("tiles", 64), T.int32), n: T.int32):
        with T.Kernel(1, threads=64) as block:
            for x in range(block, 4):
                high, low = x // 2, x % 2
                tile = high * 2 + low
                if low % 2 == 0:
                    X[tile, 8] = X[tile, 8] + 1
                X[tile, 63] = n

    x = np.zeros((4, 64), np.int32)
    kernel.compile(mt.spec(("tiles", 64), "int32"), target=target).simulate(x, 7)
    assert x[:, 63].tolist() == [7] * 4
    assert x[:, 8].tolist() == [1, 0, 1, 0]
