"""mt.ops.cross_entropy against float64: sizes, ignored rows, NaN and infinities, wrong use."""

from __future__ import annotations

import re

import numpy as np
import pytest

import minitile as mt
from minitile.ops import cross_entropy, cross_entropy_backward, cross_entropy_gradient
from minitile.ops.memory_bound.pieces import PiecePlan
from tests.ops.memory_bound.frames import bf16, close, exact, f16, f32, given, random


def expected(x, labels, ignored=-100):
    x = exact(x)
    top = x.max(-1)
    lse = np.log(np.exp(x - top[..., None]).sum(-1)) + top
    chosen = np.take_along_axis(x, np.where(labels == ignored, 0, labels)[..., None], -1)[..., 0]
    return np.where(labels == ignored, 0.0, lse - chosen), lse


def labels_for(shape, seed=0, dtype=np.int64):
    return np.random.default_rng(seed).integers(0, shape[-1], shape[:-1]).astype(dtype)


@pytest.mark.parametrize("dtype", [bf16, f16, f32])
@pytest.mark.parametrize("shape", [(3, 1), (5, 17), (2, 3, 1000), (3, 2047), (2, 32000), (1, 50257)])
def test_sizes(shape, dtype):
    x, labels = random(1, *shape, dtype=dtype), labels_for(shape)
    loss, lse = cross_entropy(given(x), given(labels), return_lse=True)
    for found, right in zip((loss, lse), expected(x, labels), strict=True):
        close(found, right, f32, 10.0)


@pytest.mark.parametrize("plan", [PiecePlan(1, 32), PiecePlan(4, 64), PiecePlan(2, 128)])
def test_plans(plan):
    x, labels = random(2, 3, 5000, dtype=bf16), labels_for((3, 5000))
    close(cross_entropy(given(x), given(labels), plan=plan), expected(x, labels)[0], f32, 10.0)


@pytest.mark.parametrize("ignored", [-100, 3])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_ignored(ignored, dtype):
    x = random(3, 6, 40)
    labels = labels_for((6, 40), dtype=dtype)
    labels[1] = labels[4] = ignored
    loss = cross_entropy(given(x), given(labels), ignore_index=ignored)
    close(loss, expected(x, labels, ignored)[0], f32, 10.0)
    assert exact(loss)[1] == 0


@pytest.mark.parametrize("dtype", [bf16, f16, f32])
@pytest.mark.parametrize("shape", [(3, 1), (5, 17), (2, 3, 1000), (3, 2047), (2, 32000), (1, 70000)])
def test_backward(shape, dtype):
    x, labels = random(1, *shape, dtype=dtype), labels_for(shape)
    labels.reshape(-1)[0] = -100
    dloss = random(2, *shape[:-1])
    loss, lse = expected(x, labels)
    right = np.exp(exact(x) - lse[..., None])
    right -= np.arange(shape[-1]) == labels[..., None]
    right = np.where(labels[..., None] == -100, 0, right * exact(dloss)[..., None])
    logits = given(x.copy())
    out = given(np.zeros_like(x))
    saved = given(lse.astype(f32))
    assert cross_entropy_backward(given(dloss), logits, given(labels), saved, out=out) is out
    close(out, right, dtype, 0.03)  # exp(logit - lse) has what rounding lse to f32 leaves of it
    found = cross_entropy_gradient(logits, given(labels), given(dloss))
    close(found, loss, f32, 10.0)
    close(logits, right, dtype, 0.03)
    logits = given(x.copy())
    assert cross_entropy_backward(given(dloss), logits, given(labels), saved) is logits
    assert (exact(logits) == exact(out)).all()


@pytest.mark.parametrize("dtype", [bf16, f32])
@pytest.mark.parametrize("shape", [(3, 1), (2, 3, 1009)])
def test_backward_through_lse(shape, dtype):
    x, labels = random(1, *shape, dtype=dtype), labels_for(shape)
    labels.reshape(-1)[0] = -100
    dloss, dlse = random(2, *shape[:-1]), random(3, *shape[:-1])
    _, lse = expected(x, labels)
    share = np.exp(exact(x) - lse[..., None])
    slope = share - (np.arange(shape[-1]) == labels[..., None])
    right = np.where(labels[..., None] == -100, 0, slope * exact(dloss)[..., None]) + share * exact(dlse)[..., None]
    out = given(np.full_like(x, 7))
    numbers = given(dloss), given(x), given(labels), given(lse.astype(f32))
    cross_entropy_backward(*numbers, dlse=given(dlse), out=out)
    close(out, right, dtype, 0.03)


@pytest.mark.parametrize("n", [17, 64, 5000])  # by registers, by pieces and by shared memory
@pytest.mark.parametrize("bad", [-1, 0, 1 << 33])
def test_labels_that_are_no_classes(n, bad):
    """Their logit counts as 0, whatever lies around the row; with `check_labels` the launch stops."""
    x, labels, ones = random(1, 4, n), labels_for((4, n)), np.ones(4, f32)
    labels[1], labels[2] = bad or n, -100
    losses, lse = expected(x, np.where(labels == (bad or n), 0, labels))
    losses[1], share = lse[1], np.exp(exact(x) - lse[:, None])
    share[[0, 3], labels[[0, 3]]] -= 1
    share[2] = 0
    close(cross_entropy(given(x), given(labels)), losses, f32, 10.0)
    logits = given(x.copy())
    close(cross_entropy_gradient(logits, given(labels), given(ones)), losses, f32, 10.0)
    close(logits, share, f32, 10.0)
    for call in (
        lambda labels: cross_entropy(x, labels, check_labels=True),
        lambda labels: cross_entropy_gradient(x.copy(), labels, ones, check_labels=True),
    ):
        with pytest.raises(mt.MinitileError, match="a label is neither a class nor ignore_index"):
            call(labels)
        call(np.where(labels == (bad or n), n - 1, labels))


def test_extremes():
    x = np.zeros((5, 300), f32)
    x[0, 7], x[1, 9], x[2, 3], x[3] = np.nan, np.inf, -np.inf, -np.inf
    x[4] = np.linspace(-3e38, 3e38, 300)
    labels = np.array([1, 2, 3, 4, 299])
    loss, lse = map(exact, cross_entropy(given(x), given(labels), return_lse=True))
    assert np.isnan(loss[[0, 1, 3]]).all()
    assert (loss[2], loss[4]) == (np.inf, 0)
    assert lse[[2, 4]] == pytest.approx([np.log(299), 3e38])


def test_no_rows():
    assert cross_entropy(given(random(1, 0, 8)), given(np.zeros(0, np.int64))).shape == (0,)


def test_waves_of_64_lanes(monkeypatch):
    monkeypatch.setenv("MINITILE_TARGET", "gfx942")
    x, labels = random(9, 3, 100, dtype=bf16), labels_for((3, 100))
    close(cross_entropy(x, labels), expected(x, labels)[0], f32, 10.0)


def test_wrong_use():
    x = random(8, 4, 8)
    for call, message in (
        (lambda: cross_entropy(x, np.zeros(3, np.int64)), r"labels is i64 of shape \(3,\)"),
        (lambda: cross_entropy(x, np.zeros(4, f32)), "labels is f32"),
        (lambda: cross_entropy(x[:, :0], np.zeros(4, np.int64)), "no classes"),
    ):
        with pytest.raises(mt.MinitileError) as error:
            call()
        assert re.search(message, f"{error.value.message} {error.value.hint}")  # its text shows this line too
        assert "test_cross_entropy.py" in str(error.value)
