"""Parts of a tile: what a group of warps has of it, and the blocks in which it is moved one after the other.

layout<128x256; reg 2:1@1, 2:8@0, 32:8@1; lane 4:2@1, 8:1@0; warp 8:16@0>

warp_groups(…, 4)       2 groups, each of them    layout<64x256; …; warp 4:16@0>
block(…, (64, 64))      of one group's registers  layout<64x64; reg 2:1@1, 2:8@0, 8:8@1; …; warp 4:16@0>
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import lru_cache

from minitile.layout.register import Coord, Digit, Layout, LayoutError


@lru_cache(maxsize=256)
def warp_groups(layout: Layout, warps: int) -> tuple[Layout, tuple[Digit, ...]] | None:
    """Where each `warps` consecutive warps have one block of the tile, all of it and nobody else's: the layout of a
    block, and where the blocks of the groups lie, as digits of the group's number. None where they have not."""
    inner: list[Digit] = []
    outer: list[Digit] = []
    left = warps
    for digit in layout.warp:
        here = min(digit.size, left)
        if digit.size % here or left % here:
            return None
        if here > 1:
            inner.append(Digit(here, digit.dim, digit.stride))
        if digit.size > here:
            outer.append(Digit(digit.size // here, digit.dim, digit.stride * here))
        left //= here
    shape = list(layout.shape)
    for digit in reversed(outer):
        if digit.dim is None or digit.size * digit.stride != shape[digit.dim]:
            return None
        shape[digit.dim] = digit.stride
    found = _exact(tuple(shape), layout.reg, layout.lane, inner) if left == 1 else None
    return None if found is None else (found, tuple(outer))


@lru_cache(maxsize=256)
def block(layout: Layout, shape: tuple[int, ...]) -> tuple[Layout, tuple[tuple[Coord, tuple[int, ...]], ...]] | None:
    """Blocks of `shape` that differ in registers only: the layout of each, and of all of them the place of the first
    element and the registers in the order of that layout. None where threads would have to take turns."""
    if any(whole % part for whole, part in zip(layout.shape, shape, strict=True)):
        return None
    kept: list[Digit] = []
    for digit in layout.reg:
        assert digit.dim is not None
        size = min(digit.size, shape[digit.dim] // digit.stride)
        if size > 1:
            kept.append(Digit(size, digit.dim, digit.stride))
    part = _exact(shape, kept, layout.lane, layout.warp)
    if part is None:
        return None
    where = {at: register for register, at in enumerate(layout.register_offsets())}
    starts = itertools.product(*(range(0, whole, size) for whole, size in zip(layout.shape, shape, strict=True)))
    found = []
    for start in starts:
        wanted = [tuple(a + o for a, o in zip(start, offset, strict=True)) for offset in part.register_offsets()]
        if any(w not in where for w in wanted):
            return None
        found.append((start, tuple(where[w] for w in wanted)))
    return part, tuple(found)


def _exact(shape: tuple[int, ...], reg: Sequence[Digit], lane: Sequence[Digit], warp: Sequence[Digit]) -> Layout | None:
    """The layout, if there is such a one and every slot of it is an element of its own."""
    try:
        layout = Layout(shape, tuple(reg), tuple(lane), tuple(warp))
    except LayoutError:
        return None
    return layout if layout.covers_exactly() and not layout.is_replicated() else None
