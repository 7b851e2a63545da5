"""`mt.torch_op`: kernels as operators of torch. Skipped without torch; on the CPU the simulator computes, with
MINITILE_GPU=1 a GPU, where torch.compile goes through inductor and CUDA graphs are captured."""

from __future__ import annotations

import os

import pytest

import minitile as mt
import minitile.language as T
from tests.driver.framework_kernels import affine, increment

torch = pytest.importorskip("torch")

GPU = os.environ.get("MINITILE_GPU") == "1" and torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
BACKEND = "inductor" if GPU else "aot_eager"


@mt.kernel
def squared(X: T.Tensor(("M", 64), T.float32), rows=4):
    Y = T.empty((X.shape[0], 64), T.float32)
    with T.Kernel(T.ceildiv(X.shape[0], rows), threads=128) as bx:
        for i, j in T.Parallel(rows, 64):
            x = X[bx * rows + i, j]
            Y[bx * rows + i, j] = x * x
    return Y


@mt.kernel(out_idx=-1)
def squared_backward(
    grad: T.Tensor(("M", 64), T.float32), X: T.Tensor(("M", 64), T.float32), D: T.Tensor(("M", 64), T.float32), rows=4
):
    with T.Kernel(T.ceildiv(X.shape[0], rows), threads=128) as bx:
        for i, j in T.Parallel(rows, 64):
            D[bx * rows + i, j] = 2 * X[bx * rows + i, j] * grad[bx * rows + i, j]


@pytest.fixture(scope="module")
def op():
    return mt.torch_op(affine, name="minitile_test::affine")


@pytest.fixture(scope="module")
def square():
    return mt.torch_op(squared, name="minitile_test::square", backward=squared_backward)


def tensor(*shape, dtype=torch.float32, **how):
    return torch.randn(*shape, device=DEVICE).to(dtype).requires_grad_(how.get("grad", False))


def test_schema(op):
    (schema,) = {str(torch.ops.minitile_test.affine.default._schema)}
    assert schema == "minitile_test::affine(Tensor X, float scale, Tensor? bias=None, int rows=4) -> Tensor"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_opcheck(op, dtype):
    x, bias = tensor(5, 96, dtype=dtype), tensor(96)
    torch.testing.assert_close(op(x, 2.0, bias), x.float() * 2 + bias)
    torch.testing.assert_close(op(x, scale=2.0), x.float() * 2)
    for given in ((x, 2.0, bias), (x, 3.0), (x[:, :32], 1.0), (x.t(), 1.0)):
        torch.library.opcheck(op, given)


def test_gradients(square):
    x = tensor(5, 64, grad=True)
    square(x).sum().backward()
    torch.testing.assert_close(x.grad, 2 * x.detach())
    torch.library.opcheck(square, (x,))


def test_compiled_whole(op, square):
    def model(x, bias):
        return square(op(x * 2, 0.5, bias)).sum()

    x, bias = tensor(5, 64), tensor(64)
    y = tensor(5, 64, grad=True)
    compiled = torch.compile(model, fullgraph=True, backend=BACKEND)
    torch.testing.assert_close(compiled(x, bias), model(x, bias))
    torch.testing.assert_close(compiled(tensor(7, 64), bias).shape, torch.Size([]))
    torch.compile(lambda y: square(y).sum(), fullgraph=True, backend=BACKEND)(y).backward()
    torch.testing.assert_close(y.grad, 2 * y.detach())


def test_kernels_in_compiled_functions():
    """Kernels themselves are whole to torch.compile too, called before or not."""
    x, bias, total = tensor(5, 64), tensor(64), tensor(64)
    expected = x * 4 + bias + 1

    def model(x, bias):
        return scaled(affine(x * 2, 2.0, bias, rows=8), 1.0) + 1

    scaled = affine.configured(rows=2)
    for _ in range(2):
        torch._dynamo.reset()
        compiled = torch.compile(model, fullgraph=True, backend=BACKEND)
        torch.testing.assert_close(compiled(x, bias), expected)
        torch.testing.assert_close(model(x, bias), expected)
    before = total.clone()
    torch.compile(lambda x, y: increment(x, y), fullgraph=True, backend=BACKEND)(bias, total)
    torch.testing.assert_close(total, before + bias)
    x.requires_grad_()
    y = torch.compile(model, fullgraph=True, backend=BACKEND)(x, bias)
    assert y.requires_grad == model(x, bias).requires_grad


def test_kernels_that_are_no_operators():
    """They are called between two graphs, and nothing of them is traced."""

    @mt.kernel
    def filled(X: T.Tensor((32,), T.float32), by):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                X[i] = by

    x = tensor(32)
    torch.compile(lambda x: filled(x.mul_(2), 3), backend=BACKEND)(x)
    assert (x == 3).all()
    y = torch.empty(5, 64, device=DEVICE)
    x = tensor(5, 64)
    back = torch.compile(lambda x: squared(x + 0, Y=y) + 0, backend=BACKEND)(x)
    torch.testing.assert_close(y, x * x)
    torch.testing.assert_close(back, y)


def test_mutated():
    op = mt.torch_op(increment, name="minitile_test::increment")
    x, y = tensor(300), tensor(300)
    expected = x + y
    assert op(x, y) is None
    torch.testing.assert_close(y, expected)
    torch.library.opcheck(op, (x, y))


def test_functions():
    """A function on tensors, with several results and a gradient for each of its arguments, of which one is absent."""

    def scaled(x, weight=None):
        y = squared(x)
        return (y.clone() if weight is None else y * weight), y

    def scaled_backward(grad, result1, x, weight):
        d = squared_backward(grad if weight is None else (grad * weight).contiguous(), x)
        return d, None if weight is None else (grad * result1).sum(0)

    op = mt.torch_op(
        scaled,
        name="minitile_test::scaled",
        schema="(Tensor x, Tensor? weight=None) -> (Tensor, Tensor)",
        fake=lambda x, weight=None: (torch.empty_like(x), torch.empty_like(x)),
        backward=scaled_backward,
        gradients=("x", "weight"),
    )
    x, weight = tensor(5, 64, grad=True), tensor(64, grad=True)
    op(x, weight)[0].sum().backward()
    torch.testing.assert_close(x.grad, 2 * x.detach() * weight.detach())
    torch.testing.assert_close(weight.grad, (x.detach() ** 2).sum(0))
    x.grad = None
    op(x)[0].sum().backward()
    torch.testing.assert_close(x.grad, 2 * x.detach())
    torch.library.opcheck(op, (x, weight), test_utils=("test_schema", "test_autograd_registration", "test_faketensor"))


@pytest.mark.gpu
def test_graph_capture(op):
    x, bias = tensor(5, 64), tensor(64)
    expected = op(x, 2.0, bias)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = op(x, 2.0, bias)
    y.zero_()
    graph.replay()
    torch.testing.assert_close(y, expected)


class TestErrors:
    def refuses(self, text, *args, **kwargs):
        with pytest.raises(mt.MinitileError, match=text):
            mt.torch_op(*args, **{"name": "minitile_test::refused", **kwargs})

    def test_all(self):
        self.refuses("a function has no schema of its own", lambda x: x)
        self.refuses("backward's parameter z is none of X, rows, Y, grad, grad_Y", squared, backward=lambda z: z)
        self.refuses("gradients: y is no tensor among X, rows", squared, backward=lambda grad: grad, gradients=("y",))

        @mt.kernel
        def passes_on(X: T.Tensor((32,), T.float32)):
            with T.Kernel(1, threads=32):
                X[0] = 1
            return X

        @mt.kernel
        def of_one(X: T.Tensor((32,), T.float32)):
            Y = T.empty(32)
            with T.Kernel(1, threads=32):
                Y[0] = X[0]
            return (Y,)

        self.refuses("of_one returns a tuple of one tensor", of_one)

        @mt.kernel
        def unknown(X: T.Tensor((32,), T.float32), n):
            with T.Kernel(1, threads=32):
                X[0] = n

        self.refuses("passes_on returns X, which it is passed", passes_on)
        self.refuses("the compile-time parameter n has no default", unknown)
