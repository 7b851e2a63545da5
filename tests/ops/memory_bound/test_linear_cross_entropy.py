"""mt.ops.linear_cross_entropy against float64: several chunks, ignored rows, wrong use."""

from __future__ import annotations

import re

import numpy as np
import pytest

import minitile as mt
from minitile.ops import linear_cross_entropy, linear_cross_entropy_backward
from tests.ops.memory_bound.frames import bf16, exact, f16, f32, given, random


@pytest.mark.parametrize("dtype", [bf16, f16])
@pytest.mark.parametrize("chunk", [None, 8])
def test_losses_and_gradients(dtype, chunk):
    x, w = random(1, 2, 9, 64, dtype=dtype), random(2, 200, 64, dtype=dtype)
    labels = np.random.default_rng(3).integers(0, 200, (2, 9))
    labels[0, 2] = -100
    losses, dx, dw = linear_cross_entropy(given(x), given(w), given(labels), gradient=True, chunk=chunk)
    flat, head, chosen = exact(x).reshape(18, 64), exact(w), labels.reshape(18)
    logits = flat @ head.T
    top = logits.max(-1, keepdims=True)
    lse = np.log(np.exp(logits - top).sum(-1, keepdims=True)) + top
    counts = chosen != -100
    right = np.where(counts, lse[:, 0] - logits[np.arange(18), chosen], 0)
    d = (np.exp(logits - lse) - (np.arange(200) == chosen[:, None])) * counts[:, None] / counts.sum()
    near = 40 * 2.0**-8 if dtype == bf16 else 40 * 2.0**-11  # logits up to 40 are rounded
    assert np.abs(exact(losses).reshape(18) - right).max() < near
    for found, values in ((dx, d @ head), (dw, d.T @ flat)):
        assert np.linalg.norm(exact(found).reshape(values.shape) - values) < near / 4 * np.linalg.norm(values)
    only = linear_cross_entropy(given(x), given(w), given(labels), chunk=chunk)
    assert (exact(only) == exact(losses)).all()
    dloss = np.random.default_rng(4).standard_normal((2, 9)).astype(f32)
    d = (np.exp(logits - lse) - (np.arange(200) == chosen[:, None])) * (counts * dloss.reshape(18))[:, None]
    back = linear_cross_entropy_backward(given(dloss), given(x), given(w), given(labels), chunk=chunk)
    for found, like, values in zip(back, (x, w), (d @ head, d.T @ flat), strict=True):
        assert found.shape == like.shape
        assert np.linalg.norm(exact(found).reshape(values.shape) - values) < near / 4 * np.linalg.norm(values)


def test_no_rows():
    losses, dx, dw = linear_cross_entropy(
        given(random(1, 0, 64, dtype=bf16)), given(random(2, 40, 64, dtype=bf16)), given(np.zeros(0, np.int64)),
        gradient=True,
    )  # fmt: skip
    assert (exact(losses).shape, exact(dx).shape) == ((0,), (0, 64))
    assert (exact(dw) == 0).all()


def test_wrong_use():
    x, labels = random(1, 4, 64, dtype=bf16), np.zeros(4, np.int64)
    for call, message in (
        (lambda: linear_cross_entropy(x, x[:, :32], labels), r"weight bf16 of shape \(4, 32\)"),
        (lambda: linear_cross_entropy(x.astype(f32), x.astype(f32), labels), "x is f32"),
        (lambda: linear_cross_entropy(x, x, labels, chunk=12), "chunk is 12"),
    ):
        with pytest.raises(mt.MinitileError) as error:
            call()
        assert re.search(message, f"{error.value.message} {error.value.hint}")  # its text shows this line too
        assert "test_linear_cross_entropy.py" in str(error.value)


@pytest.mark.parametrize("gradient", [False, True])
def test_labels_that_are_no_classes(gradient):
    x, labels = random(1, 4, 64, dtype=bf16), np.array([0, 3, -100, 4])
    with pytest.raises(mt.MinitileError, match="a label is neither a class nor ignore_index"):
        linear_cross_entropy(x, x, labels, gradient=gradient, check_labels=True)
    linear_cross_entropy(x, x, labels - (labels == 4), gradient=gradient, check_labels=True)
