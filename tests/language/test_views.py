"""T.view and T.reshape against NumPy's reshape: fragments, shared buffers, elements, tiles, dtypes, errors."""

from __future__ import annotations

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.ir.diagnostics import MinitileError

TARGETS = ("sm_80", "sm_90a", "gfx942", "gfx950")


def has(target: str) -> None:
    if target.startswith("gfx"):
        pytest.importorskip("llvmlite")


def scaled(G, factor, column):
    """Each element by the factor, and `column` times its last index on top."""
    if len(G.shape) == 1:
        for i in T.Parallel(*G.shape):
            G[i] = G[i] * factor + column * i
    elif len(G.shape) == 2:
        for i, j in T.Parallel(*G.shape):
            G[i, j] = G[i, j] * factor + column * j
    else:
        for i, j, k in T.Parallel(*G.shape):
            G[i, j, k] = G[i, j, k] * factor + column * k


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("space", ["fragment", "shared"])
@pytest.mark.parametrize(
    ("shape", "to"),
    [
        ((32, 48), (32, 6, 8)),
        ((4, 8, 16), (32, 16)),
        ((3, 5, 8), (15, 8)),
        ((7, 6), (2, 21)),
        ((64,), (1, 64)),
        ((96, 1), (-1,)),
    ],
)
def test_shapes(target, space, shape, to):
    """Read and written under both shapes: element by element, and as a whole."""
    has(target)
    other = np.zeros(shape).reshape(to).shape

    @mt.kernel
    def kernel(A: T.Tensor(shape, T.float32), B: T.Tensor(other, T.float32), C: T.Tensor(shape, T.float32)):
        with T.Kernel(1, threads=64):
            F = getattr(T, f"alloc_{space}")(shape, T.float32)
            G = T.reshape(F, to)
            T.copy(A, F)
            scaled(G, 2, 1)
            T.copy(G, B)
            T.copy(F, C)
            T.copy(B, G)
            scaled(F, -1, 0)
            T.copy(F, C)

    a = np.random.default_rng(1).integers(-9, 9, shape).astype(np.float32)
    b, c = np.zeros(other, np.float32), np.zeros(shape, np.float32)
    kernel.compile(target=target).simulate(a, b, c)
    want = a.reshape(other) * 2 + np.arange(other[-1])
    np.testing.assert_array_equal(b, want)
    np.testing.assert_array_equal(c, -want.reshape(shape))


@pytest.mark.parametrize("target", TARGETS)
def test_sums_over_heads(target):
    """A view under a reduction; in a loop that carries the fragment; a view of a view."""
    has(target)

    @mt.kernel
    def kernel(A: T.Tensor((3, 32, 64), T.float32), B: T.Tensor((32, 8), T.float32), C: T.Tensor((32,), T.float32)):
        with T.Kernel(1, threads=128):
            F = T.alloc_fragment((32, 64), T.float32)
            R, S = T.alloc_fragment((32, 8), T.float32), T.alloc_fragment((32,), T.float32)
            heads = T.reshape(F, (32, 8, 8))
            T.clear(heads)
            for k in T.serial(3):
                for i, h, d in T.Parallel(32, 8, 8):
                    heads[i, h, d] = heads[i, h, d] + A[k, i, h * 8 + d]
            T.reduce_sum(heads, R, dim=2)
            T.copy(R, B)
            T.reduce_max(T.reshape(T.reshape(heads, -1), (32, -1)), S, dim=1)
            T.copy(S, C)

    a = np.random.default_rng(2).integers(-9, 9, (3, 32, 64)).astype(np.float32)
    b, c = np.zeros((32, 8), np.float32), np.zeros(32, np.float32)
    compiled = kernel.compile(target=target)
    compiled.simulate(a, b, c)
    np.testing.assert_array_equal(b, a.sum(0).reshape(32, 8, 8).sum(2))
    np.testing.assert_array_equal(c, a.sum(0).max(1))
    assert "%reshape" not in compiled.asm["thread_ir"]  # each thread has its elements under either shape


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("space", ["fragment", "shared"])
def test_dtypes(target, space):
    """The bits of floats as integers, and integers as floats."""
    has(target)

    @mt.kernel
    def kernel(A: T.Tensor((16, 32), T.float32), B: T.Tensor((512,), T.uint32), C: T.Tensor((16, 32), T.float32)):
        with T.Kernel(1, threads=64):
            F = getattr(T, f"alloc_{space}")((16, 32), T.float32)
            T.copy(A, F)
            bits = T.view(F, (512,), T.uint32)
            for i in T.Parallel(512):
                bits[i] = bits[i] ^ 0x80000000
            T.copy(bits, B)
            T.copy(F, C)

    a = np.random.default_rng(3).standard_normal((16, 32)).astype(np.float32)
    b, c = np.zeros(512, np.uint32), np.zeros((16, 32), np.float32)
    kernel.compile(target=target).simulate(a, b, c)
    np.testing.assert_array_equal(c, -a)
    np.testing.assert_array_equal(b, (-a).view(np.uint32).ravel())


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("wide", "narrow"), [("uint32", "float16"), ("int32", "bfloat16"), ("float32", "int16"), ("uint32", "uint8")]
)
def test_dtypes_of_other_widths(target, wide, narrow):
    """A fragment of words, read and written as halves or bytes, the lowest bits first; and one of those as words."""
    has(target)
    times = 2 if narrow != "uint8" else 4
    of_wide, of_narrow = getattr(T, wide), getattr(T, narrow)

    @mt.kernel
    def kernel(
        A: T.Tensor((16, 24), of_wide),
        B: T.Tensor((16, 24 * times), of_narrow),
        C: T.Tensor((16, 24), of_wide),
        D: T.Tensor((8, 48), of_wide),
    ):
        with T.Kernel(1, threads=64):
            F, G = T.alloc_fragment((16, 24), of_wide), T.alloc_fragment((16, 24 * times), of_narrow)
            parts = T.view(F, dtype=of_narrow)
            T.copy(A, F)
            T.copy(parts, B)
            for i, j in T.Parallel(16, 24 * times):
                G[i, j] = parts[i, 24 * times - 1 - j]
            T.copy(T.view(G, dtype=of_wide), C)
            T.copy(T.view(G, (8, 48), of_wide), D)

    a = np.random.default_rng(5).integers(0, 1 << 30, (16, 24)).astype(np.uint32)
    b, c, d = np.zeros((16, 24 * times), f"u{4 // times}"), np.zeros((16, 24), np.uint32), np.zeros((8, 48), np.uint32)
    kinds = of_wide.numpy, of_narrow.numpy
    kernel.compile(target=target).simulate(a.view(kinds[0]), b.view(kinds[1]), c.view(kinds[0]), d.view(kinds[0]))
    parts = a.view(b.dtype)
    np.testing.assert_array_equal(b, parts)
    turned = np.ascontiguousarray(parts[:, ::-1]).view(np.uint32)
    np.testing.assert_array_equal(c, turned)
    np.testing.assert_array_equal(d, turned.reshape(8, 48))


def test_shared_memory_is_in_order():
    """Threads write under one shape what others read under the other."""

    @mt.kernel
    def kernel(A: T.Tensor((16, 64), T.int32), B: T.Tensor((64, 16), T.int32)):
        with T.Kernel(1, threads=128):
            S = T.alloc_shared((16, 64), T.int32)
            V = T.view(S, (64, 16))
            for k in T.serial(3):
                T.copy(A, S)
                for i, j in T.Parallel(64, 16):
                    B[i, j] = V[63 - i, 15 - j] + k
                T.cumsum(V, dim=0)
                T.fill(S[0:1, 0:64], 0)

    a = np.random.default_rng(4).integers(-9, 9, (16, 64)).astype(np.int32)
    for target in ("sm_80", "sm_90a"):
        b = np.zeros((64, 16), np.int32)
        kernel.compile(target=target).simulate(a, b)
        np.testing.assert_array_equal(b, a.reshape(64, 16)[::-1, ::-1] + 2)


def test_what_does_not_fit():
    def traced(statement):
        @mt.kernel
        def kernel(A: T.Tensor((64, 32), T.float32)):
            with T.Kernel(1, threads=64):
                s = T.alloc_shared((64, 32), T.float32)
                f, own = T.alloc_fragment((64, 32), T.float32), T.alloc_local((8,), T.float32)
                T.copy(A, s)
                T.copy(A, f)
                statement(A, s, f, own)

        kernel.trace()

    for wrong, message in (
        (lambda A, s, f, own: T.reshape(T.reshape(A, (32, 64)), (64, 32)), "and of no view"),
        (lambda A, s, f, own: T.reshape(own, (2, 4)), "tensors and: fragment, shared buffer, tensor memory"),
        (lambda A, s, f, own: T.reshape(s, (32, 65)), "it has 2048 elements"),
        (lambda A, s, f, own: T.reshape(s, (-1, -1)), "it has 2048 elements"),
        (lambda A, s, f, own: T.reshape(s, (0, 2048)), "it has 2048 elements"),
        (lambda A, s, f, own: T.view(s, dtype=T.float16), "as many bits"),
        (lambda A, s, f, own: T.view(f, dtype=T.float64), "as many bits"),
        (lambda A, s, f, own: T.view(f, dtype=T.bool), "none of bool"),
        (lambda A, s, f, own: T.view(f, (64, 32), T.float16), "it has 4096 elements"),
        (lambda A, s, f, own: T.view(3, (1,)), "no whole buffer"),
        (lambda A, s, f, own: T.copy(T.reshape(s, (32, 64))[0:8, :], A[0:8, 0:64]), "all of it, or slices"),
        (lambda A, s, f, own: T.reshape(s, (32, 64))[32, 0], "outside dimension 0"),
        (lambda A, s, f, own: T.gemm(T.reshape(s, (32, 64)), s, f), "the buffer that it is of"),
    ):
        with pytest.raises(MinitileError) as caught:
            traced(wrong)
        assert message in f"{caught.value.message} ({caught.value.hint})"


@mt.kernel
def flattened(X: T.Tensor(("M", 4, 8), T.float32), Y: T.Tensor((6, "N"), T.float32)):
    """A tensor's view with a computed size is read, another one is written."""
    M = X.shape[0]
    flat = T.reshape(X, (M * 4, 8))
    N = Y.shape[1]
    out = T.view(Y, (6 * N,))
    with T.Kernel(T.ceildiv(M * 4, 16), threads=64) as bx:
        tile = T.alloc_shared((16, 8), T.float32)
        T.copy(flat[bx * 16, 0], tile)
        for i, j in T.Parallel(16, 8):
            if bx * 16 + i < M * 4:
                out[(bx * 16 + i) * 8 + j] = 2 * tile[i, j]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("rows", [1, 3, 7, 16])
def test_views_of_tensors(target, rows, monkeypatch):
    has(target)
    monkeypatch.setenv("MINITILE_TARGET", target)
    x = np.random.default_rng(rows).standard_normal((rows, 4, 8)).astype("f4")
    y = np.full((6, rows * 32 // 6 + 1), np.nan, "f4")
    flattened(x, y)
    np.testing.assert_array_equal(y.reshape(-1)[: rows * 32], 2 * x.reshape(-1))
    assert np.isnan(y.reshape(-1)[rows * 32 :]).all()


def test_a_view_of_a_result():
    @mt.kernel
    def doubled(X: T.Tensor(("M", 6), T.float32)):
        M = X.shape[0]
        Y = T.empty((M, 2, 3), T.float32)
        flat = T.reshape(Y, (M, 6))
        with T.Kernel(M, threads=32) as bx:
            for j in T.Parallel(6):
                flat[bx, j] = 2 * X[bx, j]
        return Y

    x = np.arange(30, dtype="f4").reshape(5, 6)
    np.testing.assert_array_equal(doubled(x), 2 * x.reshape(5, 2, 3))


def test_views_of_arrays_with_gaps_are_refused():
    with pytest.raises(MinitileError, match="a view is of a tensor without gaps"):
        flattened(np.zeros((4, 4, 16), "f4")[:, :, ::2], np.zeros((6, 40), "f4"))


@pytest.mark.parametrize("written", ["flat", "X"])
def test_a_tensor_and_its_view_are_one_memory(written):
    @mt.kernel
    def both(X: T.Tensor((8, 8), T.float32)):
        flat = T.reshape(X, (64,))
        with T.Kernel(1, threads=64):
            for i, j in T.Parallel(8, 8):
                if written == "flat":
                    flat[i * 8 + j] = X[j, i]
                else:
                    X[i, j] = flat[j * 8 + i]

    with pytest.raises(MinitileError, match="are one memory, both are accessed, and one is written"):
        both.compile(target="sm_80")


def test_views_of_another_size_or_dtype():
    def trace(shape, dtype=None):
        @mt.kernel
        def kernel(X: T.Tensor((8, 8), T.float32)):
            v = T.view(X, shape, dtype)
            with T.Kernel(1, threads=32):
                v[0] = 1.0

        kernel.compile(target="sm_80")

    trace((64,))
    with pytest.raises(MinitileError, match="it has 64 elements"):
        trace((65,))
    with pytest.raises(MinitileError, match="a view of a tensor has its dtype"):
        trace((64,), T.int32)


def test_contexts_in_one_with():
    @mt.kernel
    def marked(X: T.Tensor((32,), T.float32)):
        with T.Kernel(1, threads=32) as bx, T.proxy_hint("neutral"):
            X[bx + T.get_thread_binding()] = 1.0

    x = np.zeros(32, "f4")
    marked(x)
    assert (x == 1).all()


def flat_view(tensor):
    return T.reshape(tensor, (256,))


@mt.kernel
def through_a_helper(X: T.Tensor((4, 64), T.float32), Y: T.Tensor((256,), T.float32)):
    with T.Kernel(1, threads=64):
        flat = flat_view(X)
        for i in T.Parallel(256):
            Y[i] = flat[i] + 1


def test_a_view_that_a_helper_makes():
    """The call knows of it, though the kernel itself names nothing that makes tensors."""
    x, y = np.arange(256, dtype=np.float32).reshape(4, 64), np.zeros(256, np.float32)
    through_a_helper(x, y)
    np.testing.assert_array_equal(y, x.reshape(-1) + 1)


def test_loads_decide_the_layout_of_a_view():
    """The view has more dimensions, but only the tile itself is accessed in memory: by 16 bytes."""

    @mt.kernel
    def kernel(A: T.Tensor((4096,), T.float16), B: T.Tensor((4, 32), T.float32)):
        with T.Kernel(1, threads=128):
            F = T.alloc_fragment((4096,), T.float32)
            some, most = T.alloc_fragment((4, 4, 32), T.float32), T.alloc_fragment((4, 32), T.float32)
            for i in T.Parallel(4096):
                F[i] = T.cast(A[i], T.float32)
            T.reduce_max(T.reshape(F, (4, 4, 32, 8)), some, dim=3)
            T.reduce_max(some, most, dim=0)
            T.copy(most, B)

    compiled = kernel.compile(target="sm_90a")
    assert compiled.asm["ptx"].count("ld.global.v4.b32") == 4
    assert "shfl" not in compiled.asm["ptx"]
    a, b = np.random.default_rng(2).standard_normal(4096).astype(np.float16), np.zeros((4, 32), np.float32)
    compiled.simulate(a, b)
    np.testing.assert_array_equal(b, a.reshape(4, 4, 32, 8).max((0, 3)))
