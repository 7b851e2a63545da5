"""The same mistakes with torch tensors on a real GPU, and that the GPU goes on working after each."""

from __future__ import annotations

import inspect

import pytest

import minitile as mt
import minitile.language as T
from minitile.ir.diagnostics import LaunchArgumentError

pytestmark = pytest.mark.gpu


@mt.kernel
def double(A: T.Tensor(("N",), T.float32), B: T.Tensor(("N",), T.float32)):
    with T.Kernel(T.ceildiv(A.shape[0], 256)) as bx:
        for i in T.Parallel(256):
            B[bx * 256 + i] = A[bx * 256 + i] * 2


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def test_arguments(shows, torch):
    a = torch.ones(64, device="cuda")
    compiled = double.compile(mt.spec(64, "float32"), mt.spec(64, "float32"))
    apart, shifted = torch.zeros(128, device="cuda")[::2], torch.zeros(65, device="cuda")[1:]
    wrong = [
        (double, a.half(), "B is f16, the kernel takes f32", "convert it first"),
        (compiled, apart, "B is not row-major without gaps", "the kernel function"),
        (compiled, shifted, "compiled for address of B divisible by 16", "the kernel function"),
        (double, a.cpu(), "A is on cuda:0, B on cpu", ""),
        (double, a.reshape(8, 8), "B has rank 2, the kernel takes 1", ""),
        (double, a[:32], "N is 64 in A.shape[0], but 32 in B.shape[0]", ""),
    ]
    for kernel, b, text, hint in wrong:

        def call(kernel=kernel, b=b):
            kernel(a, b)

        line = inspect.getsource(call).splitlines()[-1].strip()
        shows(call, LaunchArgumentError, line, [text], hint)
    for b in (torch.zeros(64, device="cuda"), apart, shifted):
        double(a, b)
        assert (b == 2).all()


def test_zero_sizes(torch):
    empty = torch.empty(0, device="cuda")
    double(empty, empty)
    torch.cuda.synchronize()


def test_more_blocks_than_a_grid_has(shows, torch):
    @mt.kernel
    def tall(A: T.Tensor(("N",), T.float32), blocks: T.int32):
        with T.Kernel(1, blocks):
            A[0] = 1.0

    a = torch.zeros(4, device="cuda")

    def call():
        tall(a, 70000)

    line = inspect.getsource(call).splitlines()[-1].strip()
    with pytest.raises(mt.MinitileError) as caught:
        call()
    assert "70000" in str(caught.value)
    assert line in str(caught.value)
    tall(a, 3)
    assert a[0] == 1
