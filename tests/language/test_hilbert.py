"""Hilbert order through grids of all sizes: as Python computes it, and as kernels do."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.language.tracing import hilbert

SIDES = (*range(1, 18), 31, 32, 33, 37, 64)


@pytest.mark.parametrize("rows", SIDES)
def test_every_tile_once(rows: int) -> None:
    """On sides that are powers of two, each tile is its predecessor's neighbour; elsewhere at most three steps away."""
    for columns in SIDES:
        found = [hilbert.place(n, rows, columns) for n in range(rows * columns)]
        assert sorted(found) == [(y, x) for y in range(rows) for x in range(columns)]
        steps = [abs(y - v) + abs(x - u) for (y, x), (v, u) in itertools.pairwise(found)]
        whole = max(rows, columns) <= 32 and all(n & (n - 1) == 0 for n in (rows, columns))
        assert max(steps, default=0) <= (1 if whole else 3), (rows, columns)


def test_neighbours_in_time_are_about_square() -> None:
    """Any 128 tiles in sequence lie in few rows and columns: 33 of them at most, where squares have 23 and
    panels of 4 rows have 36."""
    rows, columns = 45, 83
    found = [hilbert.place(n, rows, columns) for n in range(rows * columns)]
    for first in range(len(found) - 128):
        wave = found[first : first + 128]
        assert len({y for y, _ in wave}) + len({x for _, x in wave}) <= 33


@mt.kernel
def numbered(Out: T.Tensor(("R", "C"), T.int32), blocks=5):
    R, C = Out.shape
    with T.Kernel(blocks, threads=32) as block:
        number = block + 0
        for i, j in T.Persistent([R, C], blocks, block, order="hilbert"):
            Out[i, j] = number
            number = number + blocks


@pytest.mark.parametrize("shape", [(1, 1), (7, 5), (8, 8), (3, 40), (34, 2), (0, 4)], ids=str)
def test_blocks_that_stay(shape: tuple[int, int]) -> None:
    rows, columns = shape
    out = np.full(shape, -1, np.int32)
    numbered(out)
    expected = np.full(shape, -1, np.int32)
    for n in range(rows * columns):
        expected[hilbert.place(n, rows, columns)] = n
    np.testing.assert_array_equal(out, expected)


def test_orders_of_persistent_tiles_have_names() -> None:
    @mt.kernel
    def order(Out: T.Tensor(("N",), T.int32)):
        with T.Kernel(1, threads=32):
            for i, j in T.Persistent([5, 3], 1, 0, order="column"):
                Out[i * 3 + j] = 1

    with pytest.raises(mt.MinitileError, match="order='column'"):
        order.trace(mt.spec(15, "int32"))
