"""Kernels written thread by thread: T.vectorized and small loops over T.alloc_local. Results on every target, checked
for races, beside NumPy; how many accesses of which width they make, and that nothing is in local memory."""

from __future__ import annotations

import re

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from tests.language.by_threads import DTYPES, NVIDIA, RNG, run, text

# What the accesses of 16, 8 and 4 bytes are called; of registers spilled, or arrays in memory.
WIDE = {
    "load": {16: r"ld.global.v4.b32", 8: "ld.global.v2.b32", 4: "ld.global.b32"},
    "store": {16: "st.global.v4.b32"},
    "shared load": {16: "ld.shared.v4.b32"},
    "shared store": {16: "st.shared.v4.b32"},
}
WIDE_AMD = {
    "load": {16: "global_load_dwordx4", 8: "global_load_dwordx2", 4: "global_load_dword "},
    "store": {16: "global_store_dwordx4"},
    "shared load": {16: "ds_read_b128"},
    "shared store": {16: "ds_write_b128"},
}


def values(shape, dtype):
    if dtype == "int8":
        return RNG.integers(-100, 100, shape, np.int8)
    return RNG.uniform(-1, 1, shape).astype(DTYPES[dtype])


def count(compiled, what, size):
    table = WIDE if "ptx" in compiled.asm else WIDE_AMD
    return sum(table[what][size] in line for line in text(compiled).splitlines())


def in_registers(compiled):
    return not any(word in text(compiled) for word in (".local", "scratch_load", "scratch_store"))


# A product of a matrix and a vector ----------------------------------------------------------------------------------


def gemv(dtype, rows=4, lanes=32):
    width = 16 // np.dtype(DTYPES[dtype]).itemsize

    @mt.kernel
    def product(X: T.Tensor(("K",), dtype), W: T.Tensor(("N", "K"), dtype), Y: T.Tensor(("N",), T.float32)):
        with T.Kernel(T.ceildiv(Y.shape[0], rows), threads=(lanes, rows)) as bx:
            lane = T.get_thread_binding(0)
            row = bx * rows + T.get_thread_binding(1)
            x = T.alloc_local((width,), dtype)
            w = T.alloc_local((width,), dtype)
            total = T.alloc_local((1,), T.float32)
            T.clear(total)
            for step in T.serial(T.ceildiv(X.shape[0], lanes * width)):
                at = (step * lanes + lane) * width
                for k in T.vectorized(width):
                    x[k] = X[at + k]
                    w[k] = W[row, at + k]
                for k in T.serial(width):
                    total[0] += T.cast(x[k], T.float32) * T.cast(w[k], T.float32)
            sum_ = T.warp_reduce_sum(total[0])
            if lane == 0:
                Y[row] = sum_

    return product


def check_gemv(target, dtype, n, k):
    x, w, y = values((k,), dtype), values((n, k), dtype), np.full(n, np.nan, np.float32)
    compiled = run(gemv(dtype), target, x, w, y)
    expected = w.astype(np.float64) @ x.astype(np.float64)
    np.testing.assert_allclose(
        y, expected, rtol=1e-5, atol=1e-5 * max(k, 1) ** 0.5 * (100**2 if dtype == "int8" else 1)
    )
    return compiled


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8"])
def test_gemv(target, dtype):
    """One access of 16 bytes for each of the two arrays, both in registers, and the same of the rows' remainders: only
    those ask for bounds."""
    compiled = check_gemv(target, dtype, 8, 1024)
    assert count(compiled, "load", 16) == 4
    assert target not in NVIDIA or len(re.findall(r"@%p\d+ ld\.global", text(compiled))) == 2
    assert count(compiled, "load", 8) == count(compiled, "load", 4) == 0
    assert in_registers(compiled)


@pytest.mark.parametrize(("n", "k"), [(5, 1000), (1, 17), (3, 1), (2, 0), (7, 1021), (4, 300)])
def test_sizes(target, n, k):
    """Rows at multiples of 16, 8 and 2 bytes, shorter than a warp's accesses, and none. Whole pieces of the vector are
    aligned whatever the rows are."""
    compiled = check_gemv(target, "float16", n, k)
    if target in NVIDIA:  # LLVM joins what is not aligned, too
        assert count(compiled, "load", 16) == (4 if k in (1000, 0) else 1)
        assert count(compiled, "load", 8) == (6 if k == 300 else 0)
    assert in_registers(compiled)


@mt.kernel
def up_to(X: T.Tensor(("K",), T.float16), Y: T.Tensor((32,), T.float32), n: T.int32):
    with T.Kernel(1, threads=32):
        t = T.get_thread_binding()
        x = T.alloc_local((8,), T.float16)
        total = T.alloc_local((1,), T.float32)
        T.clear(total)
        for step in T.serial(T.ceildiv(T.min(X.shape[0], n), 256)):
            for k in T.vectorized(8):
                x[k] = X[step * 256 + t * 8 + k]
            for k in T.serial(8):
                total[0] += T.cast(x[k], T.float32) + 1.0
        Y[t] = total[0]


@pytest.mark.parametrize("n", [-300, -256, -1, 0, 1, 300, 1000])
def test_rounds_to_an_end_that_may_be_negative(n):
    """The loop of whole pieces and that of the rest have as many rounds together as the one that they were."""
    x, y = values((600,), "float16"), np.full(32, np.nan, np.float32)
    run(up_to, "sm_90a", x, y, n)
    pieces = np.zeros((3, 32, 8))
    pieces.reshape(-1)[:600] = x
    np.testing.assert_allclose(y, (pieces + 1)[: max(0, -(-min(600, n) // 256))].sum((0, 2)), rtol=1e-5, atol=1e-5)


# Stores, shared memory, masks ----------------------------------------------------------------------------------------


def through_shared(dtype, width):
    @mt.kernel
    def move(A: T.Tensor((4, 32 * width), dtype), B: T.Tensor((4, 32 * width), dtype)):
        with T.Kernel(1, threads=128):
            t = T.get_thread_binding()
            row, at = t // 32, t % 32 * width
            tile = T.alloc_shared((4, 32 * width), dtype)
            a = T.alloc_local((width,), dtype)
            for k in T.vectorized(width):
                a[k] = A[row, at + k]
            for k in T.vectorized(width):
                tile[row, at + k] = a[k]
            T.sync_threads()
            for k in T.vectorized(width):
                a[k] = tile[3 - row, at + k]
            for k in T.vectorized(width):
                B[row, at + k] = a[k]

    return move


@pytest.mark.parametrize(("dtype", "width"), [("float16", 8), ("bfloat16", 16), ("float32", 4), ("int8", 32)])
def test_stores_and_shared_memory(target, dtype, width):
    a = values((4, 32 * width), dtype)
    b = np.zeros_like(a)
    compiled = run(through_shared(dtype, width), target, a, b)
    np.testing.assert_array_equal(b, a[::-1])
    accesses = width * np.dtype(DTYPES[dtype]).itemsize // 16
    if not (dtype == "float32" and target in NVIDIA):  # there the instruction is called .f32
        assert [count(compiled, what, 16) for what in WIDE] == [accesses] * 4
    else:
        assert text(compiled).count(".v4.f32") == 4
    assert in_registers(compiled)


@mt.kernel
def under_masks(A: T.Tensor(("N",), T.float16), B: T.Tensor(("N",), T.float16), limit: T.int32):
    with T.Kernel(1, threads=64):
        t = T.get_thread_binding()
        a = T.alloc_local((8,), T.float16)
        for k in T.vectorized(8):
            a[k] = 1.0
        if t < limit:
            for k in T.vectorized(8):
                a[k] = A[t * 8 + k]
        for k in T.serial(8):
            if k % 2 == 0:
                a[k] = a[k] * 2.0
        for k in T.vectorized(8):
            if t * 8 + k < A.shape[0]:
                B[t * 8 + k] = a[k]


@pytest.mark.parametrize("size", [512, 200, 13])
def test_conditions(target, size):
    """A branch on the thread keeps its accesses wide; one on the element is decided for each element."""
    a, b = values((size,), "float16"), np.full(size, np.nan, np.float16)
    compiled = run(under_masks, target, a, b, 11)
    at = np.arange(size)
    expected = np.where(at // 8 < 11, a, np.float16(1)) * np.where(at % 2 == 0, np.float16(2), np.float16(1))
    np.testing.assert_array_equal(b, expected)
    assert count(compiled, "load", 16) == (1 if size % 8 == 0 else 0)
    assert in_registers(compiled)


@mt.kernel
def without_arrays(A: T.Tensor((512,), T.float16), B: T.Tensor((512,), T.float16), C: T.Tensor((512,), T.float16)):
    with T.Kernel(1, threads=64):
        t = T.get_thread_binding()
        for k in T.vectorized(8):
            C[t * 8 + k] = A[t * 8 + k] + B[t * 8 + k]


def test_tensors_alone(target):
    a, b = values((512,), "float16"), values((512,), "float16")
    c = np.full(512, np.nan, np.float16)
    compiled = run(without_arrays, target, a, b, c)
    np.testing.assert_array_equal(c, a + b)
    assert (count(compiled, "load", 16), count(compiled, "store", 16)) == (2, 1)


@mt.kernel
def in_place(A: T.Tensor((64, 16), T.float16), s: T.float16):
    with T.Kernel(1, threads=64):
        t = T.get_thread_binding()
        for k in T.vectorized(8):
            A[t, k] = A[t, k] * s
            A[t, 15 - k] = A[t, 15 - k] + s


def test_elements_in_place(target):
    a = values((64, 16), "float16")
    expected = np.concatenate([a[:, :8] * np.float16(3), a[:, 8:] + np.float16(3)], 1)
    compiled = run(in_place, target, a, 3.0)
    np.testing.assert_array_equal(a, expected)
    assert (count(compiled, "load", 16), count(compiled, "store", 16)) == (2, 2)


@mt.kernel
def rows_by_number(N: T.Tensor((256,), T.int32), A: T.Tensor((64, 8), T.float16), B: T.Tensor((256, 8), T.float16)):
    with T.Kernel(1, threads=64):
        t = T.get_thread_binding()
        rows = T.alloc_local((4,), T.int32)
        a = T.alloc_local((4, 8), T.float16)
        for n in T.vectorized(4):
            rows[n] = N[t * 4 + n]
        for n in T.unroll(4):
            for k in T.vectorized(8):
                a[n, k] = A[rows[n], k]
        for n in T.unroll(4):
            for k in T.vectorized(8):
                B[t * 4 + n, k] = a[n, k]


def test_rows_by_numbers_that_were_loaded_together(target):
    numbers, a = RNG.integers(0, 64, 256, np.int32), values((64, 8), "float16")
    b = np.full((256, 8), np.nan, np.float16)
    compiled = run(rows_by_number, target, numbers, a, b)
    np.testing.assert_array_equal(b, a[numbers])
    assert (count(compiled, "load", 16), count(compiled, "store", 16)) == (5, 4)


# What keeps accesses apart --------------------------------------------------------------------------------------------


@mt.kernel
def recurrence(A: T.Tensor((520,), T.float32)):
    with T.Kernel(1, threads=64):
        t = T.get_thread_binding()
        for k in T.vectorized(7):
            A[t * 8 + k + 1] = A[t * 8 + k] + 1.0


def test_what_a_round_writes_the_next_one_reads(target):
    a = np.zeros(520, np.float32)
    run(recurrence, target, a)
    np.testing.assert_array_equal(a[:512].reshape(64, 8), np.tile(np.arange(8.0), (64, 1)))


@mt.kernel
def twice(A: T.Tensor((256,), T.float32), B: T.Tensor((64, 4), T.float32)):
    with T.Kernel(1, threads=64):
        t = T.get_thread_binding()
        b = T.alloc_local((4,), T.float32)
        for k in T.serial(4):
            A[t * 4 + k] = T.cast(k, T.float32)
            A[t * 4 + 3 - k] = T.cast(t, T.float32)
        for k in T.serial(4):
            b[k] = A[t * 4 + k]
            A[t * 4 + 3] = 9.0
        for k in T.serial(4):
            B[t, k] = b[k]


def test_places_that_are_written_twice(target):
    a, b = np.zeros(256, np.float32), np.zeros((64, 4), np.float32)
    run(twice, target, a, b)
    t = np.arange(64.0)
    np.testing.assert_array_equal(b, np.stack([t, t, np.full(64, 2.0), np.full(64, 9.0)], 1))
    np.testing.assert_array_equal(a.reshape(64, 4), np.stack([t, t, np.full(64, 2.0), np.full(64, 9.0)], 1))


@mt.kernel
def by_run_time(A: T.Tensor((8,), T.int32), B: T.Tensor((64,), T.float32), C: T.Tensor((64, 4), T.float32)):
    with T.Kernel(1, threads=64):
        t = T.get_thread_binding()
        a = T.alloc_local((4,), T.float32)
        c = T.alloc_local((4,), T.float32)
        for k in T.serial(4):
            a[k] = B[t] * T.cast(k, T.float32)
            c[k] = 0.0
        for k in T.serial(4):
            c[k] += a[A[k]]
        for k in T.vectorized(4):
            C[t, k] = c[k]


def test_an_index_of_run_time_keeps_its_array_in_memory():
    index, b = np.array([2, 0, 3, 3, 0, 0, 0, 0], np.int32), values((64,), "float32")
    c = np.zeros((64, 4), np.float32)
    compiled = run(by_run_time, "sm_90a", index, b, c)
    np.testing.assert_array_equal(c, b[:, None] * index[:4].astype(np.float32))
    assert "local_0_a[16]" in text(compiled)
    assert "_c[" not in text(compiled)


@mt.kernel
def outside(C: T.Tensor((64, 4), T.float32), n: T.int32):
    with T.Kernel(1, threads=64):
        t = T.get_thread_binding()
        a = T.alloc_local((4,), T.float32)
        for k in T.serial(6):
            if k < n:
                a[k] = T.cast(k, T.float32)
        for k in T.serial(4):
            C[t, k] = a[k]


def test_indices_that_only_a_condition_keeps_inside():
    c = np.zeros((64, 4), np.float32)
    run(outside, "sm_80", c, 4)
    np.testing.assert_array_equal(c, np.tile(np.arange(4.0), (64, 1)))


@mt.kernel
def large(C: T.Tensor((64,), T.float32)):
    with T.Kernel(1, threads=64):
        t = T.get_thread_binding()
        a = T.alloc_local((64,), T.float32)
        b = T.alloc_local((200,), T.float32)
        for k in T.serial(64):
            a[k] = T.cast(k, T.float32)
        for k in T.serial(200):
            b[k] = T.cast(k, T.float32)
        total = T.alloc_local((1,), T.float32)
        total[0] = 0.0
        for i in T.serial(64):
            total[0] += a[i]
        for i in T.serial(200):
            total[0] += b[i]
        C[t] = total[0]


def test_loops_of_many_rounds_stay():
    c = np.zeros(64, np.float32)
    compiled = run(large, "sm_90a", c)
    np.testing.assert_array_equal(c, 64 * 63 / 2 + 200 * 199 / 2)
    assert "_b[800]" in text(compiled)
    assert "_a[" not in text(compiled)


@mt.kernel
def products(A: T.Tensor((8, 16), T.float32), B: T.Tensor((16, 8), T.float32), C: T.Tensor((8, 8), T.float32)):
    with T.Kernel(1, threads=64):
        t = T.get_thread_binding()
        a = T.alloc_local((8,), T.float32)
        b = T.alloc_local((8,), T.float32)
        c = T.alloc_local((8, 8), T.float32)
        T.clear(c)
        for k in T.serial(16):
            for i in T.serial(8):
                a[i] = A[i, k]
            for j in T.vectorized(8):
                b[j] = B[k, j]
            for i in T.serial(8):
                for j in T.serial(8):
                    c[i, j] += a[i] * b[j]
        if t == 0:
            for i in T.serial(8):
                for j in T.vectorized(8):
                    C[i, j] = c[i, j]


def test_loops_in_loops(target):
    """A tile of products in each thread's registers; the loop that counts only tensors' indices stays."""
    a, b, c = values((8, 16), "float32"), values((16, 8), "float32"), np.zeros((8, 8), np.float32)
    compiled = run(products, target, a, b, c)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b, rtol=1e-5, atol=1e-5)
    assert in_registers(compiled)
    assert compiled.asm["thread_ir"].count(" for ") <= 1


@mt.kernel
def neighbours(A: T.Tensor((65,), T.float32), B: T.Tensor((64, 2), T.float32)):
    with T.Kernel(1, threads=64):
        t = T.get_thread_binding()
        s = T.alloc_shared((72,), T.float32)
        b = T.alloc_local((2,), T.float32)
        for k in T.vectorized(2):
            s[t + k] = T.cast(t, T.float32)
        b[0] = s[t]
        s[t + 8] = 0.5
        b[1] = s[t + 1]
        for k in T.vectorized(2):
            A[t + k] = b[k]
            B[t, k] = b[k]


def test_runs_of_threads_that_meet_keep_their_barriers(target):
    """Every round of a loop is done by all threads before the next one where they write each other's places."""
    a, b = np.zeros(65, np.float32), np.zeros((64, 2), np.float32)
    compiled = run(neighbours, target, a, b)
    t = np.arange(64)
    s = np.maximum(np.arange(65) - 1, 0).astype(np.float32)
    first = s[t]
    second = np.where(t + 1 < 8, s[t + 1], 0.5)
    np.testing.assert_array_equal(b, np.stack([first, second], 1))
    np.testing.assert_array_equal(a, np.append(first[0], second))
    assert compiled.asm["thread_ir"].count("  barrier") >= 4


@pytest.mark.parametrize("off", ["unroll_local_arrays", "join_accesses", "pack_scalars", "peel_remainder"])
def test_each_pass_may_be_left_out(off):
    x, w, y = values((1000,), "bfloat16"), values((5, 1000), "bfloat16"), np.full(5, np.nan, np.float32)
    compiled = run(gemv("bfloat16"), "sm_90a", x, w, y, passes={off: False})
    np.testing.assert_allclose(y, w.astype(np.float64) @ x.astype(np.float64), rtol=1e-5, atol=1e-4)
    assert in_registers(compiled) == (off != "unroll_local_arrays")
