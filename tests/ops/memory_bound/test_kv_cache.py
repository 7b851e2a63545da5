"""mt.ops.kv_cache_append: slots and page tables, tokens without a slot, odd sizes, wrong use."""

from __future__ import annotations

import numpy as np
import pytest

import minitile as mt
from minitile.ops import kv_cache_append
from minitile.ops.memory_bound.arguments import Tile
from tests.ops.memory_bound.frames import bf16, exact, f16, f32, given, random


def caches(pages, page_size, heads, d, dtype):
    return (random(7, pages, page_size, heads, d, dtype=dtype), random(8, pages, page_size, heads, d, dtype=dtype))


def check(shape, places, dtype, pages, page_size, **how):
    """`shape` of k; `places` are where its tokens belong, -1 for nowhere."""
    new = random(1, *shape, dtype=dtype), random(2, *shape, dtype=dtype)
    old = caches(pages, page_size, *shape[-2:], dtype)
    device = [given(x.copy()) for x in old]
    kv_cache_append(*map(given, new), *device, **{name: given(x) if name != "plan" else x for name, x in how.items()})
    for after, before, added in zip(device, old, new, strict=True):
        expected = exact(before).reshape(-1, *shape[-2:])
        inside = (places >= 0) & (places < pages * page_size)
        expected[places[inside]] = exact(added)[inside]
        np.testing.assert_array_equal(exact(after), expected.reshape(before.shape))


@pytest.mark.parametrize("integer", [np.int32, np.int64])
@pytest.mark.parametrize(
    ("shape", "pages", "page_size", "dtype"),
    [((1, 1, 1), 1, 1, f32), ((17, 2, 9), 5, 7, f32), ((2, 9, 4, 64), 3, 16, bf16), ((0, 2, 8), 2, 4, f16)],
)
def test_slots(shape, pages, page_size, dtype, integer):
    tokens = shape[:-2]
    places = np.random.default_rng(3).permutation(pages * page_size)[: int(np.prod(tokens))]
    slots = places.reshape(tokens).astype(integer)
    check(shape, slots, dtype, pages, page_size, slots=slots)


def test_tokens_without_a_slot():
    slots = np.array([3, -1, 12, 0, 1 << 20, -40], np.int64)
    check((6, 2, 16), slots, bf16, 3, 4, slots=slots)


def test_keys_and_values_in_one_tensor():
    """Pages that hold keys and behind them values: each cache has gaps between its pages."""
    both = random(9, 5, 2, 4, 3, 16, dtype=bf16)
    new = random(1, 6, 2, 3, 16, dtype=bf16)
    slots = np.array([3, 19, 4, -1, 7, 12], np.int32)
    device, tokens = given(both.copy()), given(new)
    kv_cache_append(tokens[:, 0], tokens[:, 1], device[:, 0], device[:, 1], given(slots))
    expected = exact(both)
    for token in np.flatnonzero(slots >= 0):
        expected[slots[token] // 4, :, slots[token] % 4] = exact(new)[token]
    np.testing.assert_array_equal(exact(device), expected)


@pytest.mark.parametrize("plan", [Tile(1, 8, 64), Tile(4, 32, 64)], ids=str)
def test_plans(plan):
    slots = np.random.default_rng(3).permutation(24)[:21]
    check((21, 3, 8), slots, bf16, 6, 4, slots=slots, plan=plan)


@pytest.mark.parametrize("integer", [np.int32, np.int64])
def test_page_table(integer):
    """Three sequences of different lengths, whose pages are anywhere; the second's last token lies on a new page."""
    page_size, table = 4, np.array([[5, 2, 0], [1, 6, 3], [4, -1, -1]], integer)
    sequences = np.array([0, 0, 1, 1, 2], integer)
    positions = np.array([6, 7, 3, 4, 0], integer)
    slots = table[sequences, positions // page_size] * page_size + positions % page_size
    check((5, 2, 16), slots, bf16, 7, page_size, page_table=table, positions=positions, sequences=sequences)


def test_positions_that_the_table_has_not():
    """Neither a page of -1 nor what lies behind the table or in front of it is written anywhere."""
    table = np.array([[1, -1], [2, 3]], np.int32)
    sequences = np.array([0, 0, 1, 1, 2, -1, 1], np.int32)
    positions = np.array([1, 5, 8, -1, 0, 0, 6], np.int32)
    slots = np.array([5, -1, -1, -1, -1, -1, 14])
    check((7, 1, 24), slots, f32, 4, 4, page_table=table, positions=positions, sequences=sequences)


def zeros(*shape, dtype=f32):
    return np.zeros(shape, dtype)


@pytest.mark.parametrize(
    ("args", "options", "said"),
    [
        ((zeros(3, 4), zeros(3, 4), zeros(1, 4, 3, 4), zeros(1, 4, 3, 4)), {}, "leading dimensions are tokens"),
        ((zeros(2, 3, 4), zeros(2, 3, 4), zeros(1, 4, 3, 5), zeros(1, 4, 3, 4)), {}, "k_cache has shape"),
        ((zeros(2, 3, 4), zeros(2, 3, 4), zeros(1, 4, 3, 4), zeros(2, 4, 3, 4)), {}, "v_cache"),
        ((zeros(2, 3, 4), zeros(2, 3, 4), zeros(1, 4, 3, 4), zeros(1, 4, 3, 4)), {}, "slots, or page_table"),
        ((zeros(2, 3, 4), zeros(2, 3, 4), zeros(1, 4, 3, 8)[..., ::2], zeros(1, 4, 3, 4)), {}, "has gaps"),
        ((zeros(2, 3, 4), zeros(2, 3, 4), *[zeros(1, 4, 3, 4)] * 2, zeros(2, dtype=np.int32)), {}, "are one array"),
        (
            (zeros(2, 3, 4), zeros(2, 3, 4), zeros(1, 4, 3, 4), zeros(1, 4, 3, 4), zeros(3, dtype=np.int32)),
            {},
            "slots has shape",
        ),
        (
            (zeros(2, 3, 4), zeros(2, 3, 4), zeros(1, 4, 3, 4), zeros(1, 4, 3, 4), zeros(2, dtype=np.int32)),
            {"positions": zeros(2, dtype=np.int32)},
            "slots, and more",
        ),
    ],
)
def test_wrong_use(args, options, said):
    with pytest.raises(mt.MinitileError, match=said):
        kv_cache_append(*args, **options)
