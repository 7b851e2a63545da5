"""mt.ops.attention on tensors of torch: against its scaled_dot_product_attention, as an operator, captured in a graph.
Skipped without torch."""

from __future__ import annotations

import os

import pytest

import minitile as mt
from minitile.ops import torch_ops

torch = pytest.importorskip("torch")

GPU = os.environ.get("MINITILE_GPU") == "1" and torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"


def drawn(*shape):
    torch.manual_seed(sum(shape))
    return torch.randn(*shape, device=DEVICE).to(torch.bfloat16)


def operands():
    """[batch, S, heads, d], of which q is a part of a larger array."""
    return drawn(2, 33, 6, 64)[:, :, :4], drawn(2, 33, 2, 64), drawn(2, 33, 2, 64)


def torchs(q, k, v, **options):
    q, k, v = (x.double().transpose(1, 2) for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, **options).transpose(1, 2)


def close(found, wanted):
    assert ((found.double() - wanted).abs() / wanted.abs().clamp(min=1)).max() <= 2**-7


def test_tensors():
    q, k, v = operands()
    o, lse = mt.ops.attention(q, k, v, causal=True, return_lse=True)
    close(o, torchs(q, k, v, is_causal=True))
    assert (o.dtype, o.device, lse.dtype, lse.shape) == (q.dtype, q.device, torch.float32, (2, 4, 33))
    turned = (x.transpose(1, 2) for x in (q, k, v))
    assert torch.equal(mt.ops.attention(*turned, causal=True, layout="bhsd").transpose(1, 2), o)


@pytest.mark.parametrize("window", [None, (5, -1)])
def test_compiled_whole(window):
    q, k, v = operands()
    sinks = torch.tensor([0.5, -1.0, 2.0, 0.0], device=DEVICE)

    def call(q, k, v, sinks):
        return mt.ops.attention(q * 2, k, v, window=window, sinks=sinks, softcap=10.0) + 1

    compiled = torch.compile(call, fullgraph=True, backend="inductor" if GPU else "aot_eager")
    assert torch.equal(compiled(q, k, v, sinks), call(q, k, v, sinks))


def test_opcheck():
    torch_ops.register("attention")
    q, k, v = operands()
    lengths = torch.tensor([33, 7], dtype=torch.int32, device=DEVICE)
    for layout in ("bshd", "bhsd"):
        given = [x if layout == "bshd" else x.transpose(1, 2) for x in (q, k, v)]
        options = {"causal": True, "k_lengths": lengths, "layout": layout}
        torch.library.opcheck(torch_ops._OPERATORS["attention"]["attention"], tuple(given), options)


def test_no_gradient_goes_through():
    q, k, v = operands()
    o = mt.ops.attention(q.detach().requires_grad_(), k, v)
    with pytest.raises(RuntimeError, match="no autograd formula"):
        o.sum().backward()


@pytest.mark.gpu
def test_graph_capture():
    q, k, v = operands()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        mt.ops.attention(q, k, v, causal=True)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o = mt.ops.attention(q, k, v, causal=True)
    q.copy_(torch.randn(q.shape, device=DEVICE))
    graph.replay()
    close(o, torchs(q, k, v, is_causal=True))
