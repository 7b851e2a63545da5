"""mt.ops.attention on tensors of a torch made here, with a driver made of Python: repeated calls are one launch."""

from __future__ import annotations

import pytest

from minitile.ops import attention_op
from minitile.ops.attention_op import attention
from minitile.runtime.arrays import readers, row_major
from tests.ops.test_grouped_launch import Array, torch
from tests.ops.test_matmul_launch import Tensor, gpu

__all__ = ["gpu", "torch"]  # the fixtures


class Heads(Array):
    """With the views that attention takes."""

    def swapaxes(self, one, other):
        turned = self.transpose(one, other)
        return Heads(turned.shape, self.dtype.name, turned.strides, self.pointer, self.device.index)

    def view(self, shape):
        """One dimension as two, or a dense array as another."""
        if self.is_contiguous():
            return Heads(shape, self.dtype.name, row_major(shape), self.pointer, self.device.index)
        n = next(n for n, (old, new) in enumerate(zip(self.shape, shape, strict=False)) if old != new or n == 1)
        strides = (*self.strides[:n], self.strides[n] * shape[n + 1], *self.strides[n:])
        return Heads(shape, self.dtype.name, strides, self.pointer, self.device.index)


@pytest.fixture
def driver(torch, monkeypatch):
    import sys

    def empty(shape, *, dtype, device):
        Tensor.made += 1
        return Heads(shape, dtype.name, device=device.index)

    monkeypatch.setattr(sys.modules["torch"], "empty", empty)
    attention_op.known.clear()
    yield torch
    attention_op.known.clear()
    readers.pop(Heads, None)


@pytest.mark.parametrize(("layout", "more"), [("bshd", True), ("bhsd", False)])
def test_repeated_calls(driver, layout, more):
    def shape(length, heads):
        return (2, length, heads, 64) if layout == "bshd" else (2, heads, length, 64)

    def arrays():
        return Heads(shape(256, 8)), Heads(shape(400, 2)), Heads(shape(400, 2))

    def options():
        lengths = {"k_lengths": Heads((2,), "int32"), "return_lse": True, "window": (100, 5)}
        return {"layout": layout, "sinks": Heads((8,), "float32"), **(lengths if more else {})}

    found = []
    for turn in range(3):
        q, k, v = arrays()
        named = options()
        made, before = attention(q, k, v, **named), len(driver.maps)
        o, lse = made if more else (made, None)
        assert o.shape == q.shape
        assert lse is None or (lse.shape, lse.dtype.name) == ((2, 8, 256), "float32")
        given = [x for x in (q, k, v, o, lse, *named.values()) if isinstance(x, Heads)]
        found.append((driver.launches[-1], [x.data_ptr() for x in given]))
        assert len(attention_op.known) == 1
        assert {m.address for m in driver.maps[-4:]} == {x.data_ptr() for x in (q, k, v, o)}
        assert turn == 0 or before > 4
    one, *others = [launch for launch, _ in found]
    assert len(driver.launches) == 3
    assert {(x.grid, x.block, x.function) for x in others} == {(one.grid, one.block, one.function)}
    out = Heads(shape(256, 8))
    back = attention(*arrays(), out=out, **options())
    assert (back[0] if more else back) is out
    assert out.data_ptr() in {m.address for m in driver.maps[-4:]}
    attention(*arrays(), causal=True, **options())
    assert len(attention_op.known) == 2


def test_a_repeated_call_passes_what_a_first_one_does(driver, monkeypatch):
    """Each array in its slot, and the same numbers."""
    q, k, v = Heads((2, 256, 8, 64)), Heads((2, 400, 2, 64)), Heads((2, 400, 2, 64))
    lengths = Heads((2,), "int32"), Heads((2,), "int32")
    options = {"sinks": Heads((8,), "float32"), "q_lengths": lengths[0], "k_lengths": lengths[1], "softcap": 2.0}

    def call():
        return attention(q, k, v, causal=True, return_lse=True, **options)

    call()
    ((key, ready),) = attention_op.known.items()
    passed, bound = [], []
    attention_op.known[key] = ready._replace(launch=lambda values, place: passed.append(values))
    o, lse = call()
    attention_op.known.clear()
    forward = attention_op.attention_forward

    def first(*args, **constants):
        there = [x for x in args if x is not None]
        bound.append(forward.executable(*args, **constants).bind(*there)[0])

    monkeypatch.setattr(attention_op, "attention_forward", first)
    monkeypatch.setattr(attention_op, "_remember", lambda *args: None)
    o2, lse2 = call()
    new = {o2.data_ptr(): o.data_ptr(), lse2.data_ptr(): lse.data_ptr()}
    assert [new.get(value, value) for value in bound[0]] == [*passed[0]]
    assert len(set(passed[0][:8])) == 8
