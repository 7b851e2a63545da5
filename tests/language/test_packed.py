"""int4 and uint4: two elements in a byte of tensors and buffers; unpacked, packed, multiplied."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.ir.diagnostics import LanguageError

TARGETS = ("sm_80", "sm_90a", "gfx942", "gfx950")
RNG = np.random.default_rng()
LIMITS = {"int4": (-8, 8, np.int8), "uint4": (0, 16, np.uint8)}


@pytest.fixture(params=TARGETS)
def target(request):
    if request.param.startswith("gfx"):
        pytest.importorskip("llvmlite")
    return request.param


def numbers(kind, *shape):
    low, high, dtype = LIMITS[kind]
    return RNG.integers(low, high, shape, dtype)


def pack(x):
    """The first of two is in the low half."""
    low, high = x[..., ::2].astype(np.uint8) & 15, x[..., 1::2].astype(np.uint8) & 15
    return (low | high << 4).view(x.dtype)


def run(kernel, target, *args, **constants):
    compiled = kernel.compile(*args, target=target, **constants)
    compiled.simulate(*args, schedule="random", seed=2)
    return compiled


def kernel_of(kind):
    """From global memory by shared memory to registers; back by shared memory; element by element."""

    @mt.kernel
    def packed(
        Q: T.Tensor(("M", "K"), kind),
        H: T.Tensor(("M", "K"), None),
        B: T.Tensor(("M", "K"), kind),
        E: T.Tensor(("M", "K"), T.int32),
        K=64,
    ):
        M = Q.shape[0]
        with T.Kernel(T.ceildiv(M, 32), threads=128) as bx:
            q, r = T.alloc_shared((32, K), kind), T.alloc_shared((32, K), kind)
            h, n = T.alloc_fragment((32, K), H.dtype), T.alloc_fragment((32, K), T.int32)
            T.copy(Q[bx * 32, 0], q)
            T.copy(q, h)
            T.copy(h, H[bx * 32, 0])
            T.copy(Q[bx * 32, 0], n)
            for i, j in T.Parallel(32, K):
                n[i, j] = n[i, j] * 3 + 1
            T.copy(n, r)
            T.copy(r, B[bx * 32, 0])
            for i, j in T.Parallel(32, K):
                E[bx * 32 + i, j] = q[i, K - 1 - j] + 100

    return packed


@pytest.mark.parametrize(
    ("kind", "dtype", "columns", "rows"),
    [
        ("int4", np.float16, 64, 17),
        ("int4", ml_dtypes.bfloat16, 2, 101),
        ("uint4", np.int8, 46, 1),
        ("int4", np.float32, 8, 0),
    ],
)
def test_through_all_memory(target, kind, dtype, columns, rows):
    x = numbers(kind, rows, columns)
    h, b, e = np.full(x.shape, 7, dtype), np.full((rows, columns // 2), 7, x.dtype), np.zeros(x.shape, np.int32)
    run(kernel_of(kind), target, pack(x), h, b, e, K=columns)
    np.testing.assert_array_equal(h.astype(np.float32), x)
    np.testing.assert_array_equal(b, pack((x.astype(np.int32) * 3 + 1).astype(x.dtype)))
    np.testing.assert_array_equal(e, x[:, ::-1].astype(np.int32) + 100)


@mt.kernel
def product(A: T.Tensor(("M", "K"), T.int4), B: T.Tensor(("N", "K"), T.int4), C: T.Tensor(("M", "N"), T.int32), K=256):
    (M, _), N = A.shape, B.shape[0]
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (bx, by):
        a, b = T.alloc_shared((64, 64), T.int4), T.alloc_shared((64, 64), T.int4)
        c = T.alloc_fragment((64, 64), T.int32)
        T.clear(c)
        for k in T.Pipelined(K // 64, num_stages=2):
            T.copy(A[by * 64, k * 64], a)
            T.copy(B[bx * 64, k * 64], b)
            T.gemm(a, b, c, transpose_B=True)
        T.copy(c, C[by * 64, bx * 64])


def test_product(target):
    a, b = numbers("int4", 70, 256), numbers("int4", 64, 256)
    c = np.zeros((70, 64), np.int32)
    compiled = run(product, target, pack(a), pack(b), c)
    np.testing.assert_array_equal(c, a.astype(np.int64) @ b.astype(np.int64).T)
    if target == "sm_80":
        assert "cp.async" in compiled.asm["ptx"], "bytes are copied ahead"


@mt.kernel
def halves(
    A: T.Tensor(("M", "K"), T.float16), W: T.Tensor(("N", "K"), T.uint4), C: T.Tensor(("M", "N"), T.float32), K=128
):
    """A dequantising product: weights are unpacked in registers, moved by a zero point, and multiplied."""
    (M, _), N = A.shape, W.shape[0]
    with T.Kernel(T.ceildiv(N, 32), T.ceildiv(M, 32), threads=128) as (bx, by):
        a, w = T.alloc_shared((32, 64), T.float16), T.alloc_shared((32, 64), T.uint4)
        x, wide = T.alloc_fragment((32, 64), T.float16), T.alloc_shared((32, 64), T.float16)
        c = T.alloc_fragment((32, 32), T.float32)
        T.clear(c)
        for k in T.Pipelined(K // 64, num_stages=2):
            T.copy(A[by * 32, k * 64], a)
            T.copy(W[bx * 32, k * 64], w)
            T.copy(w, x)
            for i, j in T.Parallel(32, 64):
                x[i, j] = (x[i, j] - 8) * 0.25
            T.copy(x, wide)
            T.gemm(a, wide, c, transpose_B=True)
        T.copy(c, C[by * 32, bx * 32])


def test_dequantising_product(target):
    a, w = RNG.standard_normal((40, 128)).astype(np.float16), numbers("uint4", 32, 128)
    c = np.zeros((40, 32), np.float32)
    run(halves, target, a, pack(w), c)
    np.testing.assert_allclose(c, a.astype(np.float64) @ ((w.astype(np.float64) - 8) / 4).T, rtol=1e-5, atol=1e-4)


@mt.kernel
def filled(Q: T.Tensor((8, 16), T.int4), R: T.Tensor((8, 16), T.uint4), first=-3):
    with T.Kernel(1, threads=64):
        q, r = T.alloc_shared((8, 16), T.int4), T.alloc_shared((8, 16), T.uint4)
        T.fill(q, first)
        T.fill(q[2:4, 4:8], 7)
        T.clear(r)
        T.fill(r[:, 0:2], 15)
        T.copy(q, Q)
        T.copy(r, R)


def test_fill(target):
    q, r = np.zeros((8, 8), np.int8), np.zeros((8, 8), np.uint8)
    run(filled, target, q, r)
    x, y = np.full((8, 16), -3, np.int8), np.zeros((8, 16), np.uint8)
    x[2:4, 4:8], y[:, :2] = 7, 15
    np.testing.assert_array_equal(q, pack(x))
    np.testing.assert_array_equal(r, pack(y))


@mt.kernel
def quantised(X: T.Tensor((40, 32), T.float32), zero=1):
    """Computed element by element in registers, where each has a byte; returned packed."""
    q = T.empty((40, 32), T.int4)
    with T.Kernel(T.ceildiv(40, 16), threads=64) as bx:
        n, s = T.alloc_fragment((16, 32), T.int4), T.alloc_shared((16, 32), T.int4)
        for i, j in T.Parallel(16, 32):
            n[i, j] = T.cast(T.clamp(T.round(X[bx * 16 + i, j]), -8, 7), T.int8) - zero
        T.copy(n, s)
        T.copy(s, q[bx * 16, 0])
    return q


def test_elements_in_registers(target, monkeypatch):
    """What is stored wraps when it is packed."""
    monkeypatch.setenv("MINITILE_TARGET", target)
    x = RNG.uniform(-9, 9, (40, 32)).astype(np.float32)
    whole = np.clip(np.rint(x), -8, 7).astype(np.int8) - 1
    np.testing.assert_array_equal(quantised(x), pack(whole))


def _one(body):
    def kernel(Q: T.Tensor((8, 16), T.int4), X: T.Tensor((8, 16), T.int8), n: T.int32):
        with T.Kernel(1, threads=32):
            q = T.alloc_shared((8, 16), T.int4)
            body(Q, X, q, n)

    return kernel


def _store(Q, X, q, n):
    q[0, 0] = 1


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (_store, "a store of one element of the shared buffer"),
        (lambda Q, X, q, n: T.copy(Q[0, n], q[0:8, 0:8]), "may begin inside a byte"),
        (lambda Q, X, q, n: T.copy(Q[0:8, 0:7], q[0:8, 0:7]), "7 elements of the tensor"),
        (lambda Q, X, q, n: T.copy(q[0:8, 1], X[0:8, 1]), "of single halves of bytes"),
        (lambda Q, X, q, n: T.fill(q, 8), "-8 … 7"),
        (lambda Q, X, q, n: T.fill(q, n), "a compile-time"),
        (lambda Q, X, q, n: T.atomic_add(q[0, 0], 1), "T.copy it to a fragment of int8 first"),
        (lambda Q, X, q, n: T.reshape(q, (16, 8)), "copy it to a buffer of int8"),
        (lambda Q, X, q, n: T.alloc_shared((8, 15), T.int4), "is 15"),
        (lambda Q, X, q, n: T.alloc_var(T.int4), "there are no values of i4"),
        (lambda Q, X, q, n: T.cast(n, "uint4"), "there are no values of u4"),
        (lambda Q, X, q, n: T.copy(q, T.alloc_shared((8, 16), T.uint4)), "through a fragment of int8"),
    ],
)
def test_what_is_refused(body, says, refuses):
    refuses(_one(body), says)


def test_the_last_dimension_is_known():
    def kernel(Q: T.Tensor((8, "K"), T.int4)):
        with T.Kernel(1, threads=32):
            Q[0, 0]

    with pytest.raises(LanguageError, match="the last dimension of Q, of i4, is 'K'"):
        mt.kernel(kernel).trace()


def test_an_array_of_single_elements():
    """An array of a byte for each element has twice the bytes; the error says what is wanted."""

    @mt.kernel
    def kernel(X: T.Tensor((2, 64), T.int4), Y: T.Tensor((2, 64), T.int8)):
        with T.Kernel(1, threads=64):
            for i, j in T.Parallel(2, 64):
                Y[i, j] = X[i, j]

    y = np.zeros((2, 64), np.int8)
    with pytest.raises(mt.MinitileError, match=r"X\.shape\[1\] is 64, the kernel takes 32") as caught:
        kernel(y, y.copy())
    assert "two in a byte" in caught.value.hint
    with pytest.raises(mt.MinitileError) as caught:
        kernel(y[:, :32].copy(), y[:, :63].copy())
    assert not caught.value.hint
