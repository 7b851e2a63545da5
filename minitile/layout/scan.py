"""How a scan along a dimension goes up through a layout: digit by digit, from the elements that are next to each other.

The digits of a dimension, by stride, are the levels of a tree over its coordinates. Each level joins `size` neighbours,
each of which stands for all that the levels before have joined, in registers, in lanes or in warps:

    levels(layout<1x1024; reg 4:1@1, 2:512@1; lane 32:4@1; warp 4:128@1>, 1)
        4 in registers, 32 in lanes, 4 in warps, 2 in registers
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from minitile.layout.register import Digit, Layout


class Level(NamedTuple):
    """`size` neighbours at `place` ("reg", "lane" or "warp") become one. `before` and `after` are the layouts of the
    tile in which a coordinate along the dimension is one neighbour, and one of what they become; a thread's part of a
    level in lanes or warps is `(tid // divisor) % size`. `gathered`: `before`, with all neighbours in each thread's
    registers."""

    place: str
    size: int
    divisor: int
    before: Layout
    after: Layout

    @property
    def gathered(self) -> Layout:
        dim = next(d for d in range(self.before.rank) if self.before.shape[d] != self.after.shape[d])
        rest = (Digit(d.size, d.dim, d.stride * (self.size if d.dim == dim else 1)) for d in self.after.reg)
        lane, warp = (
            tuple(Digit(d.size, d.dim, d.stride * (self.size if d.dim == dim else 1)) for d in digits)
            for digits in (self.after.lane, self.after.warp)
        )
        return Layout(self.before.shape, (Digit(self.size, dim, 1), *rest), lane, warp)


def scan_levels(layout: Layout, dim: int) -> list[Level]:
    """The levels of a scan along `dim`, the nearest neighbours first; slots outside of the tile count as in it."""
    digits: list[tuple[int, str, int, int]] = [(d.stride, "reg", d.size, 0) for d in layout.reg if d.dim == dim]
    for place, of, divisor in (("lane", layout.lane, 1), ("warp", layout.warp, layout.num_lanes)):
        for digit in of:
            if digit.dim == dim:
                digits.append((digit.stride, place, digit.size, divisor))
            divisor *= digit.size
    found = []
    whole = layout.with_shape(layout.extents)
    for stride, place, size, divisor in sorted(digits):
        found.append(Level(place, size, divisor, _coarse(whole, dim, stride), _coarse(whole, dim, stride * size)))
    return found


def _coarse(layout: Layout, dim: int, reach: int) -> Layout:
    """The layout of the tile in which `reach` neighbours along `dim` are one: the same in all threads that had some."""

    def coarser(digits: Iterable[Digit]) -> tuple[Digit, ...]:
        return tuple(
            d if d.dim != dim else Digit(d.size, None, 0) if d.stride < reach else Digit(d.size, dim, d.stride // reach)
            for d in digits
        )

    registers = [d for d in layout.reg if d.dim != dim or d.stride >= reach]
    shape = (*layout.shape[:dim], layout.shape[dim] // reach, *layout.shape[dim + 1 :])
    return Layout(shape, coarser(registers), coarser(layout.lane), coarser(layout.warp))
