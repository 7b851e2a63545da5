"""The ready kernels as operators of torch: each row against torch's own gradients in float64. Skipped without torch;
with MINITILE_GPU=1 on a GPU, where torch.compile goes through inductor and CUDA graphs are captured."""

from __future__ import annotations

import os
import sys

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


# Made here, since a graph that is captured cannot copy from the host.
LABELS = torch.tensor([3, 0, -100, 36, 7], device=DEVICE)
TOKENS = torch.tensor([[1, 4], [4, 0]], device=DEVICE)
ANGLES = torch.arange(6 * 8, device=DEVICE).reshape(6, 8) / 10
TABLE = ANGLES.cos(), ANGLES.sin()


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
        lambda q, k: mt.ops.rotary(q, k, *TABLE),
        lambda q, k: rotated(q, k, *TABLE),
        lambda: (drawn(6, 4, 16), drawn(6, 2, 16)),
    ),
    "rotary_query": (
        lambda q: mt.ops.rotary(q, None, *TABLE),
        lambda q: rotated(q, None, *TABLE),
        lambda: (drawn(6, 4, 16),),
    ),
    "transpose": (lambda x: mt.ops.transpose(x), lambda x: x.mT.contiguous(), lambda: (drawn(2, 5, 33),)),
    "column_sums": (lambda x: mt.ops.column_sums(x), lambda x: x.sum(0), lambda: (rows(),)),
    "embedding": (
        lambda w: mt.ops.embedding(w, TOKENS),
        lambda w: w[TOKENS],
        lambda: (drawn(7, 64),),
    ),
    "cumsum": (lambda x: mt.ops.cumsum(x, reverse=True), lambda x: x.flip(-1).cumsum(-1).flip(-1), lambda: (rows(),)),
    "dropout": (
        lambda x: mt.ops.dropout(x, 0.25, 7),
        lambda x: x * mt.ops.dropout(torch.ones(x.shape, device=DEVICE), 0.25, 7),
        lambda: (rows(),),
    ),
    "top_k": (
        lambda x: mt.ops.top_k(x, 3)[0],
        lambda x: x.topk(3).values,
        lambda: (rows(),),
    ),
    "softmax": (lambda x: mt.ops.softmax(x), lambda x: x.softmax(-1), lambda: (rows((2, 3, 37)),)),
    "log_softmax": (lambda x: mt.ops.log_softmax(x), lambda x: x.log_softmax(-1), lambda: (rows((2, 3, 37)),)),
    "cross_entropy": (
        lambda x: mt.ops.cross_entropy(x, LABELS, return_lse=True),
        lambda x: (F.cross_entropy(x, LABELS, reduction="none"), x.logsumexp(-1)),
        lambda: (rows((5, 37)),),
    ),
    "linear_cross_entropy": (
        lambda x, w: mt.ops.linear_cross_entropy(x, w, LABELS),
        lambda x, w: F.cross_entropy(x @ w.t(), LABELS, reduction="none"),
        lambda: (drawn(5, 64, dtype=torch.float16), drawn(40, 64, dtype=torch.float16)),
    ),
}


def there(name):
    """Whether this tree has the functions of a row."""
    function = next(row.function for row in torch_ops.ROWS if row.name == name)
    return {function, function + "_backward" if "norm" in function else function} <= set(mt.ops._HOME)


ROWS = [name for name in CASES if there(name)]


def gradients(function, args, dtype=None):
    """Results, and the gradients of the arguments; computed in `dtype`."""
    given = [x.detach().to(dtype or x.dtype, copy=True).requires_grad_() for x in args]
    back = function(*given)
    back = back if isinstance(back, tuple) else (back,)
    weights = [torch.linspace(-1, 1, y.numel(), device=DEVICE).reshape(y.shape) for y in back]
    sum((y * w).sum() for y, w in zip(back, weights, strict=True)).backward()
    return [y.detach() for y in back], [x.grad for x in given]


def close(found, wanted, args):
    """For f32 to 2e-5; for f16 to what rounding logits and their gradients to f16 leaves, of the greatest element."""
    for have, want in zip(found[0] + found[1], wanted[0] + wanted[1], strict=True):
        have, want = have.double().cpu().numpy(), want.double().cpu().numpy()
        if args[0].dtype is torch.float16:
            np.testing.assert_allclose(have, want, rtol=0, atol=2**-8 * np.abs(want).max())
        else:
            np.testing.assert_allclose(have, want, rtol=2e-5, atol=2e-5)


def test_each_row_has_a_case():
    """But `attention`, which has no gradient: test_attention_torch.py."""
    assert set(CASES) == {row.name for row in torch_ops.ROWS if row.backward}
    assert [row.name for row in torch_ops.ROWS if not row.backward] == ["attention"]


@pytest.mark.parametrize("name", ROWS)
def test_gradients(name):
    call, reference, given = CASES[name]
    args = given()
    close(gradients(call, args), gradients(reference, args, torch.float64), args)


@pytest.mark.parametrize("name", ROWS)
def test_compiled_whole(name):
    call, _, given = CASES[name]
    args = given()
    compiled = torch.compile(call, fullgraph=True, backend="inductor" if GPU else "aot_eager")
    found, wanted = gradients(compiled, args), gradients(call, args)
    for have, want in zip(found[0] + found[1], wanted[0] + wanted[1], strict=True):
        np.testing.assert_array_equal(have.cpu(), want.cpu())


@pytest.mark.parametrize("name", ROWS)
def test_opcheck(name, monkeypatch):
    """What torch itself wants of an operator: schema, fake results, autograd, all that under AOT with dynamic sizes."""
    call, _, given = CASES[name]
    call(*given())  # registers it
    (table,) = (torch_ops._OPERATORS[row.function] for row in torch_ops.ROWS if row.name == name)
    made, calls = table[name], []
    monkeypatch.setitem(table, name, lambda **named: calls.append(named) or made(**named))
    call(*given())
    torch.library.opcheck(made, (), calls[0])


def test_opcheck_of_16_bits():
    torch_ops.register("rms_norm")
    x, weight = drawn(5, 64, dtype=torch.bfloat16), drawn(64)
    torch.library.opcheck(torch_ops._OPERATORS["rms_norm"]["rms_norm"], (x, weight))


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "rms_norm", "swiglu", "cumsum", "cross_entropy"])
def test_no_rows(name):
    call, _, given = CASES[name]
    if name == "cross_entropy":
        call = lambda x: mt.ops.cross_entropy(x, LABELS[:0])  # noqa: E731
    args = [drawn(0, *given()[0].shape[1:]), *given()[1:]]
    _, grads = gradients(call, args)
    assert grads[0].shape == args[0].shape
    assert all(not g.any() for g in grads)


def test_losses_alone():
    """cross_entropy returns lse, which the operator has for its gradient, only where it is asked for."""
    x = rows((5, 37))
    found = gradients(lambda x: mt.ops.cross_entropy(x, LABELS), (x,))
    wanted = gradients(lambda x: F.cross_entropy(x, LABELS, reduction="none"), (x,), torch.float64)
    close(found, wanted, (x,))
    assert not found[1][0][2].any()  # the row that is ignored
    checked = gradients(lambda x: mt.ops.cross_entropy(x, LABELS, check_labels=True), (x,))
    assert torch.equal(checked[1][0], found[1][0])


def test_gradients_that_a_function_computes_itself():
    x, weight = drawn(5, 64, dtype=torch.float16), drawn(40, 64, dtype=torch.float16)
    losses, dx, dweight = mt.ops.linear_cross_entropy(x, weight, LABELS, gradient=True)
    assert losses.grad_fn is None
    found = gradients(lambda x, w: mt.ops.linear_cross_entropy(x, w, LABELS, gradient=False), (x, weight))
    assert torch.equal(losses, found[0][0])
    counted = (LABELS != -100).sum()
    mean = gradients(lambda x, w: -mt.ops.linear_cross_entropy(x, w, LABELS).sum() / counted, (x, weight))
    close(([], [dx, dweight]), ([], mean[1]), (x,))  # `gradients` gives a single number the weight -1


def test_torch_later_than_minitile(monkeypatch):
    """The first calls of functions that were looked up before torch was there are inside of one compiled function."""
    rows_ = {row.name: row for row in torch_ops.ROWS}
    late = [rows_[name]._replace(suffix="_later") for name in ("cumsum", "softmax")]
    monkeypatch.setattr(torch_ops, "ROWS", tuple(late))
    monkeypatch.setattr(torch_ops, "_OPERATORS", {row.function: {} for row in late})
    with monkeypatch.context() as before:
        before.delitem(sys.modules, "torch")
        cumsum, softmax = (torch_ops.differentiable(row.function, torch_ops.ready(row.function)) for row in late)
    assert not any(torch_ops._OPERATORS.values())
    compiled = torch.compile(lambda x: cumsum(softmax(x)), fullgraph=True, backend="inductor" if GPU else "aot_eager")
    x = rows()
    close(gradients(compiled, (x,)), gradients(lambda x: x.softmax(-1).cumsum(-1), (x,), torch.float64), (x,))


@pytest.mark.gpu
@pytest.mark.parametrize("name", ROWS)
def test_graph_capture(name):
    """A CUDA graph of the call and its gradients, replayed on other numbers."""
    call, reference, given = CASES[name]
    args = [x.detach().clone().requires_grad_() for x in given()]

    def step():
        back = call(*args)
        back = back if isinstance(back, tuple) else (back,)
        weights = [torch.linspace(-1, 1, y.numel(), device=DEVICE).reshape(y.shape) for y in back]
        total = sum((y * w).sum() for y, w in zip(back, weights, strict=True))
        return [y.detach() for y in back], list(torch.autograd.grad(total, args))

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = step()
    with torch.no_grad():
        for x in args:
            x.copy_(torch.randn(x.shape, device=DEVICE))
    graph.replay()
    close(found, gradients(reference, args, torch.float64), args)


@pytest.mark.skipif(not there("rms_norm"), reason="there is no rms_norm")
def test_what_has_no_gradient():
    x = drawn(5, 64)
    with pytest.raises(mt.MinitileError, match=r"mt\.ops\.rms_norm: no gradient goes through a call with out="):
        mt.ops.rms_norm(x, out=torch.empty_like(x))
    with torch.no_grad():
        y = mt.ops.rms_norm(x, out=torch.empty_like(x))
    torch.testing.assert_close(y, normed(x.detach()), rtol=2e-5, atol=2e-5)
