"""T.any_of, T.all_of and T.transpose on every target: where operands lie, shapes, dtypes, what stands under them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.ir.diagnostics import MinitileError

TARGETS = ("sm_80", "sm_90a", "gfx942", "gfx950")


def has(target: str) -> None:
    if target.startswith("gfx"):
        pytest.importorskip("llvmlite")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("space", ["tensor", "fragment", "shared", "local"])
def test_rows(target, space):
    """Blocks whose rows are empty, full, or have one element that differs, at either end."""
    has(target)

    @mt.kernel
    def kernel(A: T.Tensor((6, 100), T.int32), B: T.Tensor((6, 2), T.int32)):
        with T.Kernel(6, threads=64) as bx:
            if space == "tensor":
                found, full = T.any_of(A[bx, :]), T.all_of(A[bx, 0:100])
            else:
                F = getattr(T, f"alloc_{space}")((100,), T.int32)
                if space == "local":
                    for i in T.serial(100):
                        F[i] = A[bx, i]
                else:
                    T.copy(A[bx, 0], F)
                found, full = T.any_of(F), T.all_of(F[0:100])
            B[bx, 0] = T.if_then_else(found, 1, 0)
            B[bx, 1] = T.if_then_else(full, 1, 0)

    a = np.zeros((6, 100), np.int32)
    a[0], a[1, 99], a[2, 0], a[4], a[5] = -1, 7, 1 << 31 - 1, 3, 3
    a[4, 99] = a[5, 0] = 0
    b = np.full((6, 2), 9, np.int32)
    kernel.compile(target=target).simulate(a, b)
    np.testing.assert_array_equal(b, np.stack([a.any(1), a.all(1)], 1))


@pytest.mark.parametrize("dtype", ["bool", "float32", "bfloat16", "uint8", "int64", "float16"])
def test_dtypes_and_dimensions(dtype):
    """NaN and -0, all elements of two dimensions, behind a tensor's end."""
    element = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)

    @mt.kernel
    def kernel(A: T.Tensor((5, 30), dtype), B: T.Tensor((3,), T.bool)):
        with T.Kernel(1, threads=64):
            B[0] = T.any_of(A)
            B[1] = T.all_of(A[0:2, 3:9])
            B[2] = T.all_of(A[3:6, 0:1])

    a = np.zeros((5, 30), element)
    a[0:2, 3:9] = a[3:, 0] = 1
    if np.issubdtype(element, np.floating) or dtype == "bfloat16":
        a[0, 4], a[2, 2] = np.nan, -0.0
    for target in ("sm_90a", "gfx950"):
        has(target)
        b = np.zeros(3, bool)
        kernel.compile(target=target).simulate(a, b)
        assert b.tolist() == [True, True, False]
        zeros = np.zeros_like(a)
        kernel.compile(target=target).simulate(zeros, b)
        assert b.tolist() == [False, False, False]


@pytest.mark.parametrize("target", TARGETS)
def test_block_sparse_gemm(target):
    """What is skipped is what a mask of blocks says: tile operations under the answer, in a pipelined loop."""
    has(target)

    @mt.kernel
    def kernel(
        A: T.Tensor((64, 256), T.float16),
        B: T.Tensor((256, 64), T.float16),
        mask: T.Tensor((4, 3), T.bool),
        C: T.Tensor((64, 64), T.float32),
    ):
        with T.Kernel(1, threads=128):
            A_shared, B_shared = T.alloc_shared((64, 64), T.float16), T.alloc_shared((64, 64), T.float16)
            C_local = T.alloc_fragment((64, 64), T.float32)
            T.clear(C_local)
            for k in T.Pipelined(4, num_stages=2):
                if T.any_of(mask[k, :]):
                    T.copy(A[0, k * 64], A_shared)
                    T.copy(B[k * 64, 0], B_shared)
                    T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C)

    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, s).astype(np.float16) for s in ((64, 256), (256, 64)))
    mask = np.array([[0, 0, 0], [0, 1, 0], [0, 0, 0], [1, 1, 1]], bool)
    c = np.zeros((64, 64), np.float32)
    kernel.compile(target=target).simulate(a, b, mask, c)
    kept = a.astype(np.float32).reshape(64, 4, 64) * mask.any(1)[:, None]
    np.testing.assert_array_equal(c, kept.reshape(64, 256) @ b.astype(np.float32))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(32, 48), (17, 5), (3, 8, 40), (1, 64)])
def test_transpose(target, shape):
    """Between tensors, shared buffers and fragments, with a cast, into a part."""
    has(target)
    rank = len(shape)
    over = (*shape[:-2], shape[-1], shape[-2])

    @mt.kernel
    def kernel(
        A: T.Tensor(shape, T.float16),
        B: T.Tensor(over, T.float32),
        C: T.Tensor(shape, T.float16),
        D: T.Tensor(over, T.float16),
    ):
        with T.Kernel(1, threads=64):
            S, R = T.alloc_shared(shape, T.float16), T.alloc_shared(over, T.float16)
            F, G = T.alloc_fragment(over, T.float16), T.alloc_fragment(shape, T.float16)
            T.copy(A, S)
            T.transpose(S, R)
            T.copy(R, B)
            T.transpose(A[(0,) * rank], F)
            T.transpose(F, G)
            T.copy(G, C)
            T.transpose(G, D[(0,) * rank])

    a = np.random.default_rng(1).standard_normal(shape).astype(np.float16)
    b, c, d = np.zeros(over, np.float32), np.zeros_like(a), np.zeros(over, np.float16)
    kernel.compile(target=target).simulate(a, b, c, d)
    for found in (b, d):
        np.testing.assert_array_equal(found, a.swapaxes(-1, -2))
    np.testing.assert_array_equal(c, a)


@pytest.mark.parametrize("target", TARGETS)
def test_transpose_in_a_pipeline(target):
    has(target)

    @mt.kernel
    def kernel(A: T.Tensor(("M", 64), T.float16), B: T.Tensor((64, "M"), T.float16)):
        with T.Kernel(1, threads=128):
            S, R = T.alloc_shared((32, 64), T.float16), T.alloc_shared((64, 32), T.float16)
            for k in T.Pipelined(T.ceildiv(A.shape[0], 32), num_stages=3):
                T.copy(A[k * 32, 0], S)
                T.transpose(S, R)
                T.copy(R, B[0, k * 32])

    for m in (0, 1, 100, 160):
        a = np.random.default_rng(2).standard_normal((m, 64)).astype(np.float16)
        b = np.zeros((64, m), np.float16)
        kernel.compile(mt.spec(a.shape, "float16"), mt.spec(b.shape, "float16"), target=target).simulate(a, b)
        np.testing.assert_array_equal(b, a.T)


def test_what_does_not_fit():
    def traced(statement):
        @mt.kernel
        def kernel(A: T.Tensor((64, "N"), T.int32)):
            with T.Kernel(1, threads=64):
                f, g = T.alloc_fragment((64, 32), T.float32), T.alloc_fragment((64,), T.int32)
                T.clear(f)
                T.clear(g)
                statement(A, f, g)

        kernel.trace()

    for wrong, message in (
        (lambda A, f, g: T.any_of(A), "run-time extent"),
        (lambda A, f, g: T.transpose(f, f), "64×32 from"),
        (lambda A, f, g: T.transpose(f, f), "the transpose is 32×64"),
        (lambda A, f, g: T.transpose(g, g), "1 dimensions"),
        (lambda A, f, g: T.transpose(f, A[0, 0]), "not cast"),
        (lambda A, f, g: T.any_of(3), "must be a tensor"),
    ):
        with pytest.raises(MinitileError) as caught:
            traced(wrong)
        assert message in f"{caught.value.message} ({caught.value.hint})"
