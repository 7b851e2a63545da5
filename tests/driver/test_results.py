"""What calls return: tensors of T.empty and of `out_idx`; optional tensors; arguments by name."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.driver import jit
from tests.auto_target import auto_target

target = auto_target("sm_80", "sm_90a", "gfx950")


@mt.kernel
def linear(
    X: T.Tensor(("M", "N"), T.float32),
    scale: T.float32,
    bias: T.Tensor(("N",), T.float32) | None = None,
    rows=4,
):
    """X * scale + bias, and the number of each block."""
    M, N = X.shape
    Y = T.empty((M, N), T.float32)
    numbers = T.empty(T.ceildiv(M, rows), T.int32)
    with T.Kernel(T.ceildiv(M, rows), threads=128) as bx:
        for i, j in T.Parallel(rows, 64):
            if j < N:
                y = X[bx * rows + i, j] * scale
                if bias is not None:
                    y = y + bias[j]
                Y[bx * rows + i, j] = y
        numbers[bx] = bx
    return Y, numbers


@mt.kernel(out_idx=-1)
def doubled(X: T.Tensor(("M", 32), T.float32), Y: T.Tensor(("M", 32), T.float32), rows=4):
    with T.Kernel(T.ceildiv(X.shape[0], rows), threads=128) as bx:
        for i, j in T.Parallel(rows, 32):
            Y[bx * rows + i, j] = X[bx * rows + i, j] * 2


def arrays(m=7, n=40):
    return np.arange(m * n, dtype=np.float32).reshape(m, n), np.arange(n, dtype=np.float32)


def test_several_results(target):
    x, bias = arrays()
    for _ in range(2):  # the second time by the short way
        y, numbers = linear(x, 3.0, bias)
        np.testing.assert_array_equal(y, 3 * x + bias)
        assert numbers.tolist() == [0, 1]
        y, _ = linear(x, 3.0)
        np.testing.assert_array_equal(y, 3 * x)
    y, _ = linear(x[:, 4:20], 1.0, bias=bias[:16])
    np.testing.assert_array_equal(y, x[:, 4:20] + bias[:16])
    y, numbers = linear(x[:0], 1.0, None)
    assert y.shape == (0, 40)
    assert numbers.shape == (0,)


def test_one_result(target):
    x = arrays(7, 32)[0]
    for _ in range(2):
        np.testing.assert_array_equal(doubled(x), 2 * x)


def test_calls_by_name():
    x, bias = arrays()
    for call in (
        lambda: linear(X=x, scale=2.0, bias=bias),
        lambda: linear(x, scale=2.0, bias=bias, rows=2),
        lambda: linear(bias=bias, scale=2, X=x),
    ):
        np.testing.assert_array_equal(call()[0], 2 * x + bias)


def test_results_that_are_passed():
    x = arrays(7, 32)[0]
    y, wide = np.zeros_like(x), np.zeros((7, 64), np.float32)
    assert doubled(x, Y=y) is y
    np.testing.assert_array_equal(y, 2 * x)
    doubled(x, Y=wide[:, ::2])
    np.testing.assert_array_equal(wide[:, ::2], 2 * x)
    assert not wide[:, 1::2].any()
    assert linear(x, 2.0, Y=y)[0] is y
    with pytest.raises(mt.MinitileError, match=r"makes Y with the shape \(7, 32\), and \(6, 32\) is passed"):
        linear(x, 2.0, Y=y[:6])


def test_nothing_is_compiled_twice(monkeypatch):
    made = []
    real = jit.CompiledKernel
    monkeypatch.setattr(jit, "CompiledKernel", lambda *args: made.append(args) or real(*args))
    kernel = linear.configured(rows=2)
    x, bias = arrays()
    for given in ((x, 1.0), (x, 2.0, None), (x, 1.0, bias), (x, 3.0)):
        kernel(*given)
    assert len(made) == 2


def test_the_short_way_knows_absent_tensors():
    x, bias = arrays()
    for _ in range(3):
        for given in ((x, 2.0), (x, 2.0, None), (x, 2.0, bias)):
            want = 2 * x + (bias if given[-1] is bias else 0)
            np.testing.assert_array_equal(linear(*given)[0], want)
    assert set(linear._plain) >= {2, 3}


def test_workspaces_and_passed_tensors():
    """What is not returned ends with the call; a tensor that is passed may be returned."""

    @mt.kernel
    def kernel(X: T.Tensor(("N",), T.float32), n: T.int32, Y: T.Tensor((2,), T.float32)):
        work = T.empty((X.shape[0] * 2 + n, 4), "float32")
        with T.Kernel(1, threads=32):
            Y[0], Y[1] = T.float32(work.shape[0]), X[0]
        return Y

    y = np.zeros(2, np.float32)
    for _ in range(2):
        assert kernel(np.full(5, 7, np.float32), 3, y) is y
    assert y.tolist() == [13, 7]


def test_compiled():
    x, bias = arrays(8, 64)
    with_bias = linear.compile(mt.spec((8, 64), "float32"), bias=mt.spec((64,), "float32"), rows=2, target="sm_80")
    assert [a.name for a in with_bias.launch_info.args] == ["X", "scale", "bias", "Y", "numbers"]
    facts = with_bias.launch_info.facts
    assert ("divides", ("dim", "result1_size0"), 4) in facts  # 8 rows, 2 a block
    without = linear.compile(mt.spec((8, 64), "float32"), target="sm_80")
    assert [a.name for a in without.launch_info.args] == ["X", "scale", "Y", "numbers"]
    np.testing.assert_array_equal(with_bias(x, 2.0, bias)[0], 2 * x + bias)
    np.testing.assert_array_equal(without(x, scale=2.0)[0], 2 * x)
    np.testing.assert_array_equal(without.simulate(scale=2.0, X=x).results[0], 2 * x)
    y, numbers = np.zeros_like(x), np.zeros(2, np.int32)
    without.simulate(x, 2.0, y, numbers)
    np.testing.assert_array_equal(y, 2 * x)
    with pytest.raises(mt.MinitileError, match="is given 'bias' which is none of X, scale"):
        without(x, 2.0, bias=bias)
    with pytest.raises(mt.MinitileError, match="got 'X' twice"):
        linear.compile(mt.spec((8, 64), "float32"), X=mt.spec((8, 64), "float32"))


def test_compiled_without_an_optional_tensor():
    """The None that it was compiled with may be passed or left out."""
    x, bias = arrays()
    k = linear.compile(x, None, target="sm_80")
    for y, _ in (k(x, 3.0), k(x, 3.0, None), k(x, scale=3.0, bias=None), k.simulate(x, 3.0, None).results):
        np.testing.assert_array_equal(y, 3 * x)
    with pytest.raises(mt.MinitileError, match="takes 2 arguments"):
        k(x, 3.0, bias)


def test_shapes_alone():
    x, bias = arrays()
    assert linear.result_shapes(x, 1.0, bias) == [((7, 40), T.float32), ((2,), T.int32)]
    assert doubled.result_shapes(X=x[:, :32]) == [((7, 32), T.float32)]


def test_annotated_optional():
    @mt.kernel
    def kernel(
        X: Annotated[T.Tensor, (32,), T.float32],
        Y: Annotated[T.Tensor | None, (32,), T.float32] = None,
    ):
        Z = T.empty(32)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                Z[i] = X[i] if Y is None else X[i] + Y[i]
        return Z

    x = np.arange(32, dtype=np.float32)
    np.testing.assert_array_equal(kernel(x), x)
    np.testing.assert_array_equal(kernel(x, x), 2 * x)


class TestErrors:
    def refuses(self, text, call, *args, **kwargs):
        with pytest.raises(mt.MinitileError, match=text) as caught:
            call(*args, **kwargs)
        assert caught.value.loc is not None

    def test_arguments(self):
        x, bias = arrays()
        self.refuses("no array that minitile knows", linear, x.tolist(), 1.0)
        self.refuses("X has rank 1, the kernel takes 2", linear, x[0], 1.0)
        self.refuses("N is 40 in X.shape.1., but 3 in bias.shape.0.", linear, x, 1.0, bias[:3])
        self.refuses("has no parameter 'Z'; |has no parameter 'Z'", linear, x, 1.0, Z=x)
        self.refuses("scale is a f32 scalar", linear, x, "a")

    def test_out_idx(self):
        def kernel(X: T.Tensor(("M",), T.float32), n: T.int32, Y: T.Tensor(("K",), T.float32)):
            with T.Kernel(1, threads=32):
                Y[0] = X[0]

        self.refuses("3 is no place among 3 tensors and scalars", mt.kernel(out_idx=[3]), kernel)
        self.refuses("n is no tensor that a call could make", mt.kernel(out_idx=1), kernel)
        self.refuses(
            "makes Y, of which no tensor that is passed has the dimension K", mt.kernel(out_idx=2)(kernel), 1, 1
        )

    def test_what_is_returned(self):
        @mt.kernel
        def number(X: T.Tensor((32,), T.float32)):
            with T.Kernel(1, threads=32):
                X[0] = 1
            return 3

        @mt.kernel
        def sometimes(X: T.Tensor(("N",), T.float32)):
            Y = T.empty(32)
            with T.Kernel(1, threads=32) as bx:
                Y[0] = X[0] + bx
                if X.shape[0] > 3:
                    return Y
            return Y

        @mt.kernel
        def inside(X: T.Tensor(("N",), T.float32)):
            with T.Kernel(1, threads=32):
                Y = T.empty(32)
                Y[0] = X[0]
            return Y

        @mt.kernel
        def loaded(X: T.Tensor((32,), T.float32)):
            with T.Kernel(1, threads=32):
                X[0] = 1
                a = T.alloc_shared((32,), T.float32)
                T.clear(a)
            return a

        @mt.kernel
        def half(X: T.Tensor(("N",), T.float32)):
            Y = T.empty(2.5)
            with T.Kernel(1, threads=32):
                Y[0] = X[0]
            return Y

        x = np.zeros(32, np.float32)
        self.refuses("a kernel returns tensors, not 3", number, x)
        self.refuses("a kernel returns a tensor in", sometimes, x)
        self.refuses("T.empty stands before T.Kernel", inside, x)
        self.refuses("a kernel returns tensors, not", loaded, x)
        self.refuses("a size of T.empty is 2.5", half, x)

    def test_no_framework(self):
        @mt.kernel
        def kernel(n: T.int32):
            Y = T.empty(32)
            with T.Kernel(1, threads=32):
                Y[0] = T.float32(n)
            return Y

        self.refuses("minitile makes no arrays beside no tensor", kernel, 3)

    def test_an_argument_of_any_dtype(self):
        @mt.kernel
        def first(X: T.Tensor(("M",), None)):
            with T.Kernel(1, threads=32):
                X[0] = 1

        self.refuses("X: NoneType is no array", first, None)

    def test_too_few(self):
        x, bias = arrays()
        k = linear.compile(x, bias, target="sm_80")
        with pytest.raises(mt.MinitileError, match=r"takes 3 arguments \(X, scale, bias\), and 1 are given"):
            k(x)
        with pytest.raises(mt.MinitileError, match=r"takes 3 arguments .* and 2 are given"):
            k.simulate(x, bias=bias)

    def test_sizes_below_zero(self):
        @mt.kernel
        def cut(X: T.Tensor(("M",), T.float32), p: T.int32, q: T.int32):
            Y = T.empty((X.shape[0] // q - p,), T.float32)
            with T.Kernel(1, threads=32):
                Y[0] = X[0]
            return Y

        x = np.ones(4, np.float32)
        assert cut(x, 4, 1).shape == (0,)
        with pytest.raises(mt.MinitileError, match=r"makes Y with the shape \(-1,\)"):
            cut(x, 5, 1)
        with pytest.raises(mt.MinitileError, match=r"the sizes of what the call makes: integer .* zero"):
            cut(x, 5, 0)

    def test_defaults(self):
        with pytest.raises(mt.MinitileError, match="the tensor X has a default value"):

            @mt.kernel
            def kernel(X: T.Tensor((32,), T.float32) = None):
                pass


class TestFrameworks:
    """Arrays of the CPU of other frameworks: read and written in place, results made by the framework."""

    @staticmethod
    def kernel():
        @mt.kernel
        def both(X: T.Tensor(("M", 64), None), Y: T.Tensor(("M", 64), None) | None = None, rows=4):
            Z = T.empty((X.shape[0], 64), X.dtype)
            with T.Kernel(T.ceildiv(X.shape[0], rows), threads=128) as bx:
                for i, j in T.Parallel(rows, 64):
                    x = T.float32(X[bx * rows + i, j])
                    Z[bx * rows + i, j] = x + 1
                    if Y is not None:
                        Y[bx * rows + i, j] = x + 2
            return Z

        return both

    def test_torch(self):
        torch = pytest.importorskip("torch")
        kernel = self.kernel()
        for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn):
            x = torch.arange(5 * 64).reshape(5, 64).remainder(7).to(dtype)
            y = torch.zeros(5, 128, dtype=dtype)
            z = kernel(x, y[:, ::2])
            assert isinstance(z, torch.Tensor)
            assert z.dtype is dtype
            assert torch.equal(z.float(), x.float() + 1)
            assert torch.equal(y[:, ::2].float(), x.float() + 2)
            assert not y[:, 1::2].float().any()
            assert torch.equal(kernel(x.t().contiguous().t()).float(), x.float() + 1)

    def test_jax(self):
        jnp = pytest.importorskip("jax.numpy")
        kernel = self.kernel()
        for dtype in (jnp.float32, jnp.bfloat16):
            x = jnp.arange(5 * 64).reshape(5, 64).astype(dtype)
            z = kernel(x)
            assert type(z) is type(x)
            assert z.dtype == dtype
            assert (z == x + jnp.ones((), dtype)).all()
        with pytest.raises(mt.MinitileError, match="writes Y, and this array is read-only"):
            kernel(x, x + 1)

    def test_dlpack(self):
        """A framework that minitile does not know, by DLPack: it gets back what it passes, and no new results."""

        class Held:
            def __init__(self, array):
                self.array = array

            def __dlpack__(self, **how):
                return self.array.__dlpack__(**how)

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()

        @mt.kernel
        def add(X: T.Tensor(("M", 64), T.float32), Y: T.Tensor(("M", 64), T.float32)):
            with T.Kernel(T.ceildiv(X.shape[0], 4), threads=128) as bx:
                for i, j in T.Parallel(4, 64):
                    Y[bx * 4 + i, j] += X[bx * 4 + i, j]
            return Y

        x, y = np.ones((5, 64), np.float32), np.zeros((5, 80), np.float32)
        held = Held(y[:, :64])
        assert add(Held(x), held) is held
        add.compile(Held(x), Held(y[:, :64]), target="sm_80").simulate(Held(x), Held(y[:, :64]))
        assert (y[:, :64] == 2).all()
        assert not y[:, 64:].any()
        with pytest.raises(mt.MinitileError, match="minitile makes no arrays beside"):
            self.kernel()(Held(np.ones((5, 64), np.float32)))
