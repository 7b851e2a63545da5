"""T.Persistent: every tile once, in which order, and which block takes it."""

from __future__ import annotations

import numpy as np
import pytest

import minitile as mt
import minitile.language as T


@mt.kernel
def visits(Out: T.Tensor(("N",), T.int32), rows: T.int32, columns: T.int32, group=3):
    with T.Kernel(5, threads=32) as block:
        for i, j in T.Persistent([rows, columns], 5, block, group_size=group):
            T.atomic_add(Out[i * columns + j], 1)
        for z, i, j in T.Persistent((2, rows, columns), 5, block):
            T.atomic_add(Out[rows * columns + (z * rows + i) * columns + j], 1)
        for (i,) in T.Persistent([rows], 5, block):
            T.atomic_add(Out[3 * rows * columns + i], 1)


@pytest.mark.parametrize(("rows", "columns"), [(7, 5), (1, 1), (3, 8), (0, 4), (6, 2)])
def test_persistent_visits_each_tile_once(rows: int, columns: int) -> None:
    counts = np.zeros(3 * rows * columns + rows, np.int32)
    visits(counts, rows, columns)
    assert (counts == 32).all()  # by each thread


def tiles_of_blocks(rows: int, columns: int, blocks: int, xcds: int) -> list[list[int]]:
    """The numbers of the tiles that each block takes, in order: in panels of one row, row by row."""

    @mt.kernel
    def taken(Out: T.Tensor((blocks, 16), T.int32)):
        with T.Kernel(blocks, threads=32) as block:
            turn = 0
            for i, j in T.Persistent([rows, columns], blocks, block, group_size=1, num_xcds=xcds):
                Out[block, turn] = i * columns + j
                turn = turn + 1

    found = np.full((blocks, 16), -1, np.int32)
    taken(found)
    return [[int(t) for t in row if t >= 0] for row in found]


@pytest.mark.parametrize("xcds", [2, 8])
@pytest.mark.parametrize(
    ("rows", "columns", "blocks"), [(7, 11, 19), (5, 8, 8), (3, 5, 16), (1, 1, 3), (9, 9, 7), (4, 19, 19), (0, 3, 5)]
)
def test_persistent_over_xcds(rows: int, columns: int, blocks: int, xcds: int) -> None:
    """Every tile once, by any number of blocks; in a whole turn the tiles of an XCD are neighbours, one for each of its
    blocks, and the XCDs follow each other; in the last one block n has tile n."""
    tiles = tiles_of_blocks(rows, columns, blocks, xcds)
    total = rows * columns
    assert sorted(t for mine in tiles for t in mine) == list(range(total))
    for turn in range(total // blocks):
        order = [tiles[block][turn] for xcd in range(xcds) for block in range(xcd, blocks, xcds)]
        assert order == list(range(turn * blocks, (turn + 1) * blocks))
    whole = total // blocks
    assert [mine[whole] for mine in tiles if len(mine) > whole] == list(range(whole * blocks, total))


def test_clusters_are_not_dealt_out() -> None:
    @mt.kernel
    def kernel(Out: T.Tensor((4,), T.int32), xcds=8):
        with T.Kernel(4, threads=32, cluster=2) as block:
            for i, _ in T.Persistent([4, 1], 4, block, num_xcds=xcds):
                Out[i] = 1

    for xcds in (8, 0):
        with pytest.raises(mt.MinitileError, match=f"num_xcds is {xcds}"):
            kernel.compile(target="sm_90a", xcds=xcds)


def test_persistent_goes_down_panels() -> None:
    @mt.kernel
    def order(Out: T.Tensor(("N",), T.int32)):
        with T.Kernel(1, threads=32):
            number = 0
            for i, j in T.Persistent([5, 3], 1, 0, group_size=2):
                Out[number] = 10 * i + j
                number = number + 1

    tiles = np.zeros(15, np.int32)
    order(tiles)
    assert tiles.tolist() == [0, 10, 1, 11, 2, 12, 20, 30, 21, 31, 22, 32, 40, 41, 42]
