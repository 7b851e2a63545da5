"""Hilbert order of a grid of any size: tiles that follow one another are neighbours, at all scales.

Panels (block_swizzle.py) want a height, good for one size of the L2 and of the tiles; here whatever fits into a cache
of any size is about square. The grid is cut into parts that are about square, in a row along its long side.
The halves of a part's sides make four quadrants, which are passed through in this order, and so on in each of them:

    | 1 2 |    the first one with rows and columns exchanged, so that it ends next to the second one,
    | 0 3 |    the last one turned so that it begins next to the third one

Halves need not be equal, and a quadrant may be empty: each level is a partition of the tiles in any case, and the
order is a permutation. (Where the sides are no powers of two it steps over a tile or two here and there.) Behind LEVELS
levels, what is left is passed through row by row: 1 tile for sides up to 32, 2 by 2 for 64. One tile takes some 40
operations a level, none of which is a division.

The curve is from D. Hilbert, "Über die stetige Abbildung einer Linie auf ein Flächenstück", Math. Ann. 38 (1891).
"""

from __future__ import annotations

from typing import Any

from minitile.language.math import if_then_else as where
from minitile.language.math import max as maximum
from minitile.language.math import min as minimum

LEVELS = 5


def place(number: Any, rows: Any, columns: Any) -> tuple[Any, Any]:
    """Row and column of tile `number` of a grid: run-time values of a kernel, or ints."""
    tall = rows > columns
    short, long = where(tall, columns, rows), where(tall, rows, columns)
    short, long = maximum(short, 1), maximum(long, 1)  # of an empty grid there is no tile
    parts = (long + (short >> 1)) // short
    wide = (long + parts - 1) // parts
    part = number // (wide * short)
    start = part * wide
    along, across = _in_part(number - start * short, minimum(long - start, wide), short)
    along = along + start
    along, across = maximum(along, 0), maximum(across, 0)  # as they are: a word to the proofs of bounds
    return where(tall, along, across), where(tall, across, along)


def _in_part(number: Any, wide: Any, high: Any) -> tuple[Any, Any]:
    """The point (u, v) of a curve from (0, 0) to (wide - 1, 0). The quadrant of quadrants in which it lies begins at
    (x, y) and has `wide` points in direction a, `high` points in direction b."""
    x, y = 0, 0
    ax, ay, bx, by = 1, 0, 0, 1
    for _ in range(LEVELS):
        left, low = (wide + 1) >> 1, (high + 1) >> 1
        right, top = wide - left, high - low
        first, second = left * low, left * high  # tiles in the first quadrant, in the first two
        third = second + right * top
        in_0, in_1, in_2 = number < first, number < second, number < third
        number = number - where(in_0, 0, where(in_1, first, where(in_2, second, third)))
        u = where(in_1, 0, where(in_2, left, wide - 1))
        v = where(in_0, 0, where(in_2, low, low - 1))
        x, y = x + u * ax + v * bx, y + u * ay + v * by
        outer = where(in_0, 1, where(in_2, 0, -1))  # whether a and b are exchanged, and with what sign
        ax, ay, bx, by = (
            where(outer == 0, ax, outer * bx), where(outer == 0, ay, outer * by),
            where(outer == 0, bx, outer * ax), where(outer == 0, by, outer * ay),
        )  # fmt: skip
        wide, high = (
            where(in_0, low, where(in_1, left, where(in_2, right, low))),
            where(in_0, left, where(in_2, top, right)),
        )
    v = number // wide
    u = number - v * wide
    return x + u * ax + v * bx, y + u * ay + v * by
