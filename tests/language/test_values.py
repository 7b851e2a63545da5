"""Scalars run in the simulator: what each operator and function computes, against Python and NumPy."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
import minitile.language as T


def run(kernel, *arrays, **constants):
    kernel(*arrays, **constants)
    return arrays[-1]


INTS = np.array([-9, -7, -1, 0, 1, 5, 8, 100], np.int32)
DIVISORS = np.array([4, -3, 7, 5, -1, -5, 3, 32], np.int32)


def test_integer_operators():
    @mt.kernel
    def kernel(A: T.Tensor((8,), T.int32), B: T.Tensor((8,), T.int32), C: T.Tensor((16, 8), T.int32)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                a, b = A[i], B[i]
                C[0, i] = a + b
                C[1, i] = a - b
                C[2, i] = a * b
                C[3, i] = a // b
                C[4, i] = a % b
                C[5, i] = T.truncdiv(a, b)
                C[6, i] = T.truncmod(a, b)
                C[7, i] = a & b
                C[8, i] = a | b
                C[9, i] = a ^ b
                C[10, i] = ~a
                C[11, i] = a << 3
                C[12, i] = a >> 1
                C[13, i] = -a + abs(b)
                C[14, i] = min(a, b) * 1000 + max(a, b, 3)
                C[15, i] = 2 - a**3

    a, b = INTS, DIVISORS
    out = run(kernel, a, b, np.zeros((16, 8), np.int32))
    expected = [
        a + b, a - b, a * b, a // b, a % b, np.trunc(a / b), np.fmod(a, b), a & b, a | b, a ^ b, ~a, a << 3, a >> 1,
        abs(b) - a, np.minimum(a, b) * 1000 + np.maximum(np.maximum(a, b), 3), 2 - a**3,
    ]  # fmt: skip
    for row, want in zip(out, expected, strict=True):
        np.testing.assert_array_equal(row, want)


def test_ceildiv():
    """As Python's -(-a // b), also of a constant below 0."""

    @mt.kernel
    def kernel(A: T.Tensor((8,), T.int32), C: T.Tensor((4, 8), T.int32)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                C[0, i] = T.ceildiv(A[i], 4)
                C[1, i] = T.ceildiv(A[i], -2)
                C[2, i] = T.ceildiv(A[i], T.int32(-3))
                C[3, i] = T.cast(T.ceildiv(T.int64(A[i]), -1), T.int32)

    out = run(kernel, INTS, np.zeros((4, 8), np.int32))
    for row, b in zip(out, (4, -2, -3, -1), strict=True):
        np.testing.assert_array_equal(row, [-(-a // b) for a in INTS.tolist()])


def test_comparisons_chain():
    @mt.kernel
    def kernel(A: T.Tensor((8,), T.int32), C: T.Tensor((8,), T.int32)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                a = A[i]
                C[i] = T.cast(-7 <= a < 8 != a, T.int32) + 2 * T.int32(a == 5) + (4 if not a else 0)

    out = run(kernel, INTS, np.zeros(8, np.int32))
    np.testing.assert_array_equal(out, [int(-7 <= a < 8) + 2 * (a == 5) + 4 * (a == 0) for a in INTS.tolist()])


def test_float_functions():
    @mt.kernel
    def kernel(A: T.Tensor((8,), T.float32), C: T.Tensor((18, 8), T.float32)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                a = A[i]
                C[0, i] = T.exp(a)
                C[1, i] = T.exp2(a)
                C[2, i] = T.log(a)
                C[3, i] = T.log2(a)
                C[4, i] = T.sqrt(a)
                C[5, i] = T.rsqrt(a)
                C[6, i] = T.sin(a)
                C[7, i] = T.cos(a)
                C[8, i] = T.tanh(a)
                C[9, i] = T.erf(a)
                C[10, i] = T.floor(a)
                C[11, i] = T.ceil(a)
                C[12, i] = T.round(a)
                C[13, i] = T.trunc(-a)
                C[14, i] = T.sigmoid(a)
                C[15, i] = a**0.5 + a**2
                C[16, i] = a // 0.75
                C[17, i] = -a % 0.75

    a = np.array([0.25, 0.5, 1, 1.5, 2.5, 3.25, 4, 7.5], np.float32)
    out = run(kernel, a, np.zeros((18, 8), np.float32))
    x = a.astype(np.float64)
    expected = [
        np.exp(x), np.exp2(x), np.log(x), np.log2(x), np.sqrt(x), 1 / np.sqrt(x), np.sin(x), np.cos(x), np.tanh(x),
        np.vectorize(math.erf)(x), np.floor(x), np.ceil(x), np.round(x), np.trunc(-x), 1 / (1 + np.exp(-x)),
        np.sqrt(x) + x**2, x // 0.75, -x % 0.75,
    ]  # fmt: skip
    for row, want in zip(out, expected, strict=True):
        np.testing.assert_allclose(row, want, rtol=2e-6, atol=2e-6)


def test_weak_literals_keep_the_other_sides_dtype():
    @mt.kernel
    def kernel(A: T.Tensor((8,), T.bfloat16), C: T.Tensor((8,), T.float32)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                C[i] = A[i] + 0.001  # rounded to bf16

    a = np.ones(8, ml_dtypes.bfloat16)
    assert run(kernel, a, np.zeros(8, np.float32)).tolist() == [1.0] * 8


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        ("i32", "f32", "f32"),
        ("i64", "f16", "f16"),
        ("bf16", "f32", "f32"),
        ("f16", "f64", "f64"),
        ("i8", "i32", "i32"),
        ("u8", "i8", "i16"),
        ("u8", "i32", "i32"),
        ("u32", "i32", "i64"),
        ("u16", "u64", "u64"),
        ("bool", "f32", "f32"),
        ("bool", "bool", "i32"),
        ("e4m3", "f32", "f32"),
    ],
)
def test_promotion(left, right, result):
    found = []

    def see(x):
        found.append(x.dtype.name)

    def kernel(x: T.float32, y: T.float32, A: T.Tensor((1,), T.int32)):
        with T.Kernel(1):
            see(T.cast(x, left) + T.cast(y, right))
            see(T.cast(y, right) * T.cast(x, left))

    mt.kernel(kernel).trace()
    assert found == [result, result]


def test_literals_enter_as_i32_i64_f32_and_bool(ops):
    def kernel(n: T.int32, A: T.Tensor((1,), T.int32)):
        with T.Kernel(1):
            a = 0
            b = 1 << 40
            c = 0.5
            d = False
            for _ in range(n):
                a, b, c, d = 1, 1, 1.0, True  # noqa: F841

    (loop,) = ops(kernel, "for")
    assert [r.dtype.name for r in loop.results] == ["i32", "i64", "f32", "bool"]


def test_casts():
    @mt.kernel
    def kernel(A: T.Tensor((8,), T.float32), C: T.Tensor((5, 8), T.int32)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                C[0, i] = T.cast(A[i], "int32")
                C[1, i] = T.int8(T.int32(A[i]))
                C[2, i] = T.reinterpret(A[i], T.int32)
                C[3, i] = T.reinterpret(T.int32, T.float32(T.bool(A[i])))
                C[4, i] = T.cast(A[i], T.float16).astype(T.int32)

    a = np.array([-3.7, -1, 0, 0.5, 1, 127.9, 128, 300], np.float32)
    out = run(kernel, a, np.zeros((5, 8), np.int32))
    np.testing.assert_array_equal(out[0], a.astype(np.int32))
    np.testing.assert_array_equal(out[1], a.astype(np.int32).astype(np.int8))
    np.testing.assert_array_equal(out[2], a.view(np.int32))
    np.testing.assert_array_equal(out[3], (a != 0).astype(np.float32).view(np.int32))
    np.testing.assert_array_equal(out[4], a.astype(np.float16).astype(np.int32))


def test_limits():
    @mt.kernel
    def kernel(C: T.Tensor((6,), T.float32)):
        with T.Kernel(1, threads=32):
            C[0] = T.infinity(T.float32)
            C[1] = -T.infinity("float32")
            C[2] = T.max_value(T.float16)
            C[3] = T.min_value(T.int8)
            C[4] = T.clamp(T.max_value("uint8"), 3, 200)
            C[5] = T.cast(T.isnan(T.infinity(T.float32) - T.infinity(T.float32)), T.float32)

    out = run(kernel, np.zeros(6, np.float32))
    assert out.tolist() == [math.inf, -math.inf, 65504, -128, 200, 1]


def test_python_numbers_stay_python():
    assert T.ceildiv(7, 2) == 4
    assert T.truncdiv(-7, 2) == -3
    assert T.truncmod(-7, 2) == -1
    assert T.max(1, 2, 3) == 3
    assert T.min([4, 2]) == 2
    assert T.exp2(3) == 8
    assert T.if_then_else(False, 1, 2) == 2


class TestErrors:
    """What scalars refuse."""

    def test_f16_with_bf16(self, refuses):
        def kernel(x: T.float16, y: T.bfloat16, A: T.Tensor((1,), T.float32)):
            with T.Kernel(1):
                A[0] = x + y

        refuses(kernel, "f16 and bf16 do not mix", at="x + y")

    def test_integer_division(self, refuses):
        def kernel(n: T.int32, A: T.Tensor((1,), T.float32)):
            with T.Kernel(1):
                A[0] = n / 2

        error = refuses(kernel, "`/` on integers", at="n / 2")
        assert "T.truncdiv" in error.hint

    def test_a_bound_that_is_no_integer(self, refuses):
        def kernel(n: T.float32, A: T.Tensor((4,), T.int32)):
            with T.Kernel(1):
                for i in range(n):
                    A[i] = i

        assert "T.cast(x, T.int32)" in refuses(kernel, "a bound of T.serial is", at="range(n)").hint

    def test_a_dimension_that_no_tensor_has(self, refuses):
        K = T.dynamic("K")

        def outside(A: T.Tensor(("N",), T.int32)):
            with T.Kernel(T.ceildiv(K, 128)) as bx:
                A[bx] = 0

        def inside(A: T.Tensor(("N",), T.int32)):
            k = T.dynamic("K")
            with T.Kernel(T.ceildiv(k, 128)) as bx:
                A[bx] = 0

        for kernel, at in ((outside, "K"), (inside, 'T.dynamic("K")')):
            assert "A.shape[0]" in refuses(kernel, "no tensor of the signature has", at=at).hint

    def test_literal_out_of_range(self, refuses):
        def kernel(n: T.uint8, A: T.Tensor((1,), T.int32)):
            with T.Kernel(1):
                A[0] = n + 256

        refuses(kernel, "256 does not fit u8", at="n + 256")

    def test_no_common_integer(self, refuses):
        def kernel(n: T.uint64, m: T.int64, A: T.Tensor((1,), T.int32)):
            with T.Kernel(1):
                A[0] = n + m

        refuses(kernel, "no integer dtype holds both u64 and i64")

    def test_fp8_arithmetic(self, refuses):
        def kernel(n: T.Tensor((1,), T.float8_e4m3), A: T.Tensor((1,), T.float32)):
            with T.Kernel(1):
                A[0] = n[0] * n[0]

        refuses(kernel, "e4m3 is for storage")

    def test_float_to_integer_store(self, refuses):
        def kernel(x: T.float32, A: T.Tensor((1,), T.int32)):
            with T.Kernel(1):
                A[0] = x

        error = refuses(kernel, "f32 is not cast to i32 silently", at="A[0]")
        assert "T.cast(…, T.int32)" in error.hint

    def test_bitwise_on_floats(self, refuses):
        def kernel(x: T.float32, A: T.Tensor((1,), T.float32)):
            with T.Kernel(1):
                A[0] = x & 1

        refuses(kernel, "`&` is for integers and bools")

    @pytest.mark.parametrize("call", [int, float, math.exp, range])
    def test_python_needs_a_constant(self, refuses, call):
        def kernel(n: T.int32, A: T.Tensor((1,), T.float32)):
            with T.Kernel(1):
                x = [call(n)]
                A[0] = x[0]

        refuses(kernel, "run-time value", at="call(n)")

    def test_index_of_a_list(self, refuses):
        def kernel(n: T.int32, A: T.Tensor((1,), T.float32)):
            with T.Kernel(1):
                A[0] = [1.0, 2.0][n]

        refuses(kernel, "where Python needs a constant integer")

    def test_library_code_that_branches(self, refuses):
        def kernel(n: T.int32, A: T.Tensor((1,), T.int32)):
            with T.Kernel(1):
                A[0] = sorted([n, 3])[0]

        refuses(kernel, "where Python must know at once whether it is true", at="sorted")

    def test_unknown_dtype(self, refuses):
        def kernel(n: T.int32, A: T.Tensor((1,), T.int32)):
            with T.Kernel(1):
                A[0] = T.cast(n, "int33")

        refuses(kernel, "unknown dtype 'int33'")

    def test_reinterpret_of_another_width(self, refuses):
        def kernel(n: T.int32, A: T.Tensor((1,), T.int32)):
            with T.Kernel(1):
                A[0] = T.reinterpret(n, T.int64)

        refuses(kernel, "i32 has 32 bits, i64 has 64")

    def test_outside_a_kernel(self):
        with pytest.raises(mt.MinitileError, match="only while a kernel is traced"):
            T.alloc_shared((4,), T.float32)
        with pytest.raises(mt.MinitileError, match="only while a kernel is traced"):
            T.float32(1)
