"""mt.ops.embedding and its gradients: dtypes, odd sizes, numbers that repeat or are outside, wrong use."""

from __future__ import annotations

import numpy as np
import pytest

import minitile as mt
from minitile.ops import embedding, embedding_backward
from minitile.ops.memory_bound.arguments import Tile
from tests.ops.memory_bound.frames import HALF_ULP, bf16, exact, f16, f32, given, random


def numbers(seed, rows, *shape, integer=np.int64):
    return np.random.default_rng(seed).integers(0, rows, shape).astype(integer)


@pytest.mark.parametrize(
    ("rows", "d", "shape", "dtype", "integer"),
    [
        (5, 1, (1,), f32, np.int32),
        (17, 33, (2, 9), bf16, np.int64),
        (40, 200, (67,), f32, np.int32),
        (40, 1000, (3, 5), bf16, np.int32),
        (9, 64, (31,), np.int8, np.int64),
        (9, 64, (0, 4), f16, np.int64),
    ],
)
def test_rows(rows, d, shape, dtype, integer):
    table = (random(1, rows, d) * 10).astype(dtype)
    index = numbers(2, rows, *shape, integer=integer)
    y = embedding(given(table), given(index))
    np.testing.assert_array_equal(exact(y), exact(table)[index])


def test_numbers_that_the_table_has_not():
    table, index = random(1, 5, 24, dtype=bf16), np.array([4, -1, 5, 0, 1 << 20], np.int64)
    y = exact(embedding(given(table), given(index)))
    np.testing.assert_array_equal(y, np.concatenate([exact(table), np.zeros((1, 24))])[[4, 5, 5, 0, 5]])


def test_rows_with_gaps():
    table, index = random(1, 20, 96, dtype=bf16), numbers(2, 20, 7, 3)
    y = embedding(given(table)[:, 16:80], given(index)[:, 1])
    np.testing.assert_array_equal(exact(y), exact(table)[index[:, 1], 16:80])


@pytest.mark.parametrize("plan", [Tile(1, 64, 64), Tile(8, 32, 64), Tile(2, 512, 64)], ids=str)
def test_plans(plan):
    table, index = random(1, 30, 136, dtype=bf16), numbers(2, 30, 45)
    np.testing.assert_array_equal(exact(embedding(given(table), given(index), plan=plan)), exact(table)[index])


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize(
    ("rows", "d", "shape", "dtype"),
    [(5, 1, (1,), f32), (7, 33, (2, 29), bf16), (40, 264, (67,), f32), (6, 64, (0, 3), bf16), (300, 40, (20,), f16)],
)
def test_gradient(rows, d, shape, dtype, deterministic):
    dy, index = random(3, *shape, d, dtype=dtype), numbers(4, rows, *shape)
    dw = embedding_backward(given(dy), given(index), rows, deterministic=deterministic)
    expected, size = np.zeros((rows, d)), np.zeros((rows, d))
    np.add.at(expected, index.reshape(-1), exact(dy).reshape(-1, d))
    np.add.at(size, index.reshape(-1), np.abs(exact(dy)).reshape(-1, d))
    ulp = HALF_ULP[dtype] if deterministic else 0
    assert np.all(np.abs(exact(dw) - expected) <= 1.01 * ulp * np.abs(expected) + 2.0**-20 * size)


@pytest.mark.parametrize("deterministic", [False, True])
def test_gradient_of_numbers_that_the_table_has_not(deterministic):
    dy, index = random(3, 5, 16), np.array([2, -1, 7, 2, 3], np.int32)
    dw = exact(embedding_backward(given(dy), given(index), 3, deterministic=deterministic))
    assert not dw[:2].any()
    np.testing.assert_allclose(dw[2], exact(dy)[[0, 3]].sum(0), rtol=1e-6)


def test_gradient_adds_to_what_is_given():
    dy, index = random(3, 4, 16), np.array([2, 0, 2, 2], np.int64)
    sums = given(np.ones((3, 16), f32))
    assert embedding_backward(given(dy), given(index), 3, out=sums) is sums
    np.testing.assert_allclose(exact(sums)[0], 1 + exact(dy)[1], rtol=1e-6)
    np.testing.assert_array_equal(exact(sums)[1], 1)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: embedding(np.zeros(3, f32), np.zeros(2, np.int32)), "it is a matrix"),
        (lambda: embedding(np.zeros((3, 4), f32), np.zeros(2, f32)), "indices is f32"),
        (lambda: embedding_backward(np.zeros((3, 4), f32), np.zeros(2, np.int32), 5), "dy has shape"),
        (
            lambda: embedding_backward(
                np.zeros((2, 4), f32), np.zeros(2, np.int32), 5, deterministic=True, out=np.zeros((5, 4), f32)
            ),
            "is a new array",
        ),
        (lambda: embedding_backward(np.zeros((2, 4), f32), np.zeros(2, np.int32), -1), "rows is -1"),
        (lambda: embedding_backward(np.zeros((2, 4), f32), np.zeros(2, np.int32), 5.0), r"rows is 5\.0"),
    ],
)
def test_wrong_use(call, said):
    with pytest.raises(mt.MinitileError, match=said):
        call()
