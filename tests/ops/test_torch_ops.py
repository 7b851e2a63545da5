"""The ready kernels as operators of torch: each row against torch's own gradients. Skipped without torch."""

from __future__ import annotations

import os

import numpy as np
import pytest

import minitile as mt
from minitile.ops import torch_ops

torch = pytest.importorskip("torch")
F = torch.nn.functional

GPU = os.environ.get("MINITILE_GPU") == "1" and torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"


def drawn(*shape, dtype=torch.float32):
    torch.manual_seed(sum(shape))
    return torch.randn(*shape, device=DEVICE).to(dtype).requires_grad_()


def normed(x, weight=None, bias=None, residual=None, centered=False):
    x = x if residual is None else x + residual
    shape = x.shape[-1:]
    y = F.layer_norm(x, shape, weight, bias, 1e-5) if centered else F.rms_norm(x, shape, weight, 1e-6)
    y = y if bias is None or centered else y + bias
    return y if residual is None else (y, x)


def gated(gate, up, approximate=None):
    return (F.silu(gate) if approximate is None else F.gelu(gate, approximate=approximate)) * up


def rotated(q, k, cos, sin):
    def turn(x):
        a, b = x.chunk(2, -1)
        c, s = cos[: x.shape[-3], None, :], sin[: x.shape[-3], None, :]
        return torch.cat((a * c - b * s, b * c + a * s), -1)

    return turn(q) if k is None else (turn(q), turn(k))


def rows(shape=(5, 64)):
    return drawn(*shape)


def table():
    angle = torch.arange(6 * 8, device=DEVICE).reshape(6, 8) / 10
    return angle.cos(), angle.sin()


# name of the row: the call of mt.ops, what torch computes, its arguments
CASES = {
    "rms_norm": (
        lambda x, w: mt.ops.rms_norm(x, w),
        lambda x, w: normed(x, w),
        lambda: (rows(), drawn(64)),
    ),
    "rms_norm_residual": (
        lambda x, r, w: mt.ops.rms_norm(x, w, residual=r),
        lambda x, r, w: normed(x, w, residual=r),
        lambda: (rows(), drawn(5, 64), drawn(64)),
    ),
    "layer_norm": (
        lambda x, w, b: mt.ops.layer_norm(x, w, b),
        lambda x, w, b: normed(x, w, b, centered=True),
        lambda: (rows(), drawn(64), drawn(64)),
    ),
    "layer_norm_residual": (
        lambda x, r, w, b: mt.ops.layer_norm(x, w, b, residual=r),
        lambda x, r, w, b: normed(x, w, b, r, centered=True),
        lambda: (rows(), drawn(5, 64), drawn(64), drawn(64)),
    ),
    "swiglu": (lambda x: mt.ops.swiglu(x), lambda x: gated(*x.chunk(2, -1)), lambda: (rows((5, 128)),)),
    "swiglu_pair": (lambda x, u: mt.ops.swiglu(x, u), gated, lambda: (rows(), drawn(5, 64))),
    "geglu": (
        lambda x: mt.ops.geglu(x, approximate="tanh"),
        lambda x: gated(*x.chunk(2, -1), "tanh"),
        lambda: (rows((5, 128)),),
    ),
    "geglu_pair": (lambda x, u: mt.ops.geglu(x, u), lambda x, u: gated(x, u, "none"), lambda: (rows(), drawn(5, 64))),
    "rotary": (
        lambda q, k: mt.ops.rotary(q, k, *table()),
        lambda q, k: rotated(q, k, *table()),
        lambda: (drawn(6, 4, 16), drawn(6, 2, 16)),
    ),
    "rotary_query": (
        lambda q: mt.ops.rotary(q, None, *table()),
        lambda q: rotated(q, None, *table()),
        lambda: (drawn(6, 4, 16),),
    ),
    "transpose": (lambda x: mt.ops.transpose(x), lambda x: x.mT.contiguous(), lambda: (drawn(2, 5, 33),)),
    "column_sums": (lambda x: mt.ops.column_sums(x), lambda x: x.sum(0), lambda: (rows(),)),
    "embedding": (
        lambda w: mt.ops.embedding(w, torch.tensor([[1, 4], [4, 0]], device=DEVICE)),
        lambda w: w[torch.tensor([[1, 4], [4, 0]], device=DEVICE)],
        lambda: (drawn(7, 64),),
    ),
    "cumsum": (lambda x: mt.ops.cumsum(x, reverse=True), lambda x: x.flip(-1).cumsum(-1).flip(-1), lambda: (rows(),)),
    "dropout": (
        lambda x: mt.ops.dropout(x, 0.25, 7),
        lambda x: x * mt.ops.dropout(torch.ones_like(x), 0.25, 7),
        lambda: (rows(),),
    ),
    "top_k": (
        lambda x: mt.ops.top_k(x, 3)[0],
        lambda x: x.topk(3).values,
        lambda: (rows(),),
    ),
}


def there(name):
    """Whether this tree has the functions of a row."""
    function = next(row.function for row in torch_ops.ROWS if row.name == name)
    return {function, function + "_backward" if "norm" in function else function} <= set(mt.ops._HOME)


ROWS = [name for name in CASES if there(name)]


def gradients(function, args):
    given = [x.detach().clone().requires_grad_() for x in args]
    back = function(*given)
    back = back if isinstance(back, tuple) else (back,)
    weights = [torch.linspace(-1, 1, y.numel(), device=DEVICE).reshape(y.shape) for y in back]
    sum((y * w).sum() for y, w in zip(back, weights, strict=True)).backward()
    return [y.detach() for y in back], [x.grad for x in given]


def test_each_row_has_a_case():
    assert set(CASES) == {row.name for row in torch_ops.ROWS}


@pytest.mark.parametrize("name", ROWS)
def test_gradients(name):
    call, reference, given = CASES[name]
    args = given()
    found, wanted = gradients(call, args), gradients(reference, args)
    for have, want in zip(found[0] + found[1], wanted[0] + wanted[1], strict=True):
        np.testing.assert_allclose(have.cpu(), want.cpu(), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", ROWS)
def test_compiled_whole(name):
    call, _, given = CASES[name]
    args = given()
    compiled = torch.compile(call, fullgraph=True, backend="inductor" if GPU else "aot_eager")
    found, wanted = gradients(compiled, args), gradients(call, args)
    for have, want in zip(found[0] + found[1], wanted[0] + wanted[1], strict=True):
        np.testing.assert_array_equal(have.cpu(), want.cpu())


@pytest.mark.skipif(not there("rms_norm"), reason="there is no rms_norm")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_opcheck(dtype):
    x, weight = drawn(5, 64, dtype=dtype), drawn(64)
    row = next(row for row in torch_ops.ROWS if row.name == "rms_norm")
    torch.library.opcheck(torch_ops.operator(row), (x, weight))


@pytest.mark.skipif(not there("rms_norm"), reason="there is no rms_norm")
def test_what_has_no_gradient():
    x = drawn(5, 64)
    with pytest.raises(mt.MinitileError, match=r"mt\.ops\.rms_norm: no gradient goes through a call with out="):
        mt.ops.rms_norm(x, out=torch.empty_like(x))
    with torch.no_grad():
        y = mt.ops.rms_norm(x, out=torch.empty_like(x))
    torch.testing.assert_close(y, normed(x.detach()), rtol=2e-5, atol=2e-5)
