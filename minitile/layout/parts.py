"""Parts of a tile: what a group of warps has of it, and the blocks in which it is moved one after the other.

layout<128x256; reg 2:1@1, 2:8@0, 32:8@1; lane 4:2@1, 8:1@0; warp 8:16@0>

warp_groups(…, 4)           2 groups, each of them    layout<64x256; …; warp 4:16@0>
block(…, (64, 64))          of one group's registers  layout<64x64; reg 2:1@1, 2:8@0, 8:8@1; …; warp 4:16@0>
interleaved_slice(…, 1, 8, 2)  every second 8 columns   layout<128x128; reg 2:1@1, 2:8@0, 16:8@1; …>
warp_box(…)                 what a warp has in one piece              (16, 256)
warp_block(…, (16, 64))     a part of it, the steps to the next   layout<16x64; reg 2:1@1, 2:8@0, 8:8@1; …; >, 4:64@1
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache

from minitile.layout.register import Coord, Digit, Layout, LayoutError


@lru_cache(maxsize=256)
def warp_groups(layout: Layout, warps: int) -> tuple[Layout, tuple[Digit, ...]] | None:
    """Where each `warps` consecutive warps have one block of the tile, all of it and no other warp's: the layout of a
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
    element and the registers in the order of that layout. None where threads would have to move in several steps."""
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


def interleaved_slice(layout: Layout, dim: int, run: int, count: int) -> Layout | None:
    """The layout of one of `count` interleaved slices of a tile along `dim`, `run` elements at a time, in the same
    threads. None where a thread has not the same of each."""
    if layout.extents[dim] != layout.shape[dim]:
        return None
    shape = tuple(n // count if d == dim else n for d, n in enumerate(layout.shape))
    places = [_split(digits, dim, (run, run * count)) for digits in (layout.reg, layout.lane, layout.warp)]
    if any(digits is None for digits in places):
        return None
    kept: list[list[Digit]] = []
    for digits in places:
        assert digits is not None
        kept.append([])
        for digit in digits:
            if digit.dim != dim or digit.stride < run:
                kept[-1].append(digit)
            elif digit.stride >= run * count:
                kept[-1].append(Digit(digit.size, dim, digit.stride // count))
            elif digits is not places[0]:
                return None
    try:
        return Layout(shape, *map(tuple, kept))
    except LayoutError:
        return None


def interleaved_source(layout: Layout, dim: int, run: int, count: int) -> Layout:
    """The layout of the whole tile of which `layout` is one interleaved slice: the other slices' elements are registers
    of the same threads. Raises LayoutError where a thread's elements are no runs."""
    shape = tuple(n * count if d == dim else n for d, n in enumerate(layout.shape))
    places = [_split(digits, dim, (run,)) for digits in (layout.reg, layout.lane, layout.warp)]
    wide: list[tuple[Digit, ...]] = []
    for digits in places:
        if digits is None:
            raise LayoutError(f"{layout} has no runs of {run} in dimension {dim}")
        spread = (Digit(d.size, dim, d.stride * count) if d.dim == dim and d.stride >= run else d for d in digits)
        wide.append(tuple(spread))
    return Layout(shape, (*wide[0], Digit(count, dim, run)), wide[1], wide[2])


def reshaped(layout: Layout, shape: Sequence[int]) -> Layout | None:
    """The layout of the tile under another shape, each element, counted row by row, where it is; None where that is no
    layout: with slots outside of the tile, or where a digit goes over the end of a row but not of a whole number of
    them."""
    if not layout.covers_exactly():
        return None
    behind = [math.prod(layout.shape[d + 1 :]) for d in range(layout.rank)]
    after = [math.prod(shape[d + 1 :]) for d in range(len(shape))]
    places: list[list[Digit]] = []
    for digits in (layout.reg, layout.lane, layout.warp):
        linear = [d if d.dim is None else Digit(d.size, 0, d.stride * behind[d.dim]) for d in digits]
        parts = _split(linear, 0, after)
        if parts is None:
            return None
        found = []
        for digit in parts:
            dim = next((d for d, unit in enumerate(after) if digit.stride >= unit), 0)
            if digit.dim is not None and digit.stride % after[dim]:
                return None
            found.append(digit if digit.dim is None else Digit(digit.size, dim, digit.stride // after[dim]))
        places.append(found)
    try:
        return Layout(tuple(shape), *map(tuple, places))
    except LayoutError:
        return None


def _split(digits: Sequence[Digit], dim: int, bounds: Sequence[int]) -> list[Digit] | None:
    """The digits, of those along `dim` none on both sides of a bound."""
    found = list(digits)
    for bound in bounds:
        parts: list[Digit] = []
        for digit in found:
            if digit.dim != dim or not digit.stride < bound < digit.stride * digit.size:
                parts.append(digit)
                continue
            below, rest = divmod(bound, digit.stride)
            if rest or digit.size % below:
                return None
            parts += [Digit(below, dim, digit.stride), Digit(digit.size // below, dim, bound)]
        found = parts
    return found


def warp_box(layout: Layout) -> tuple[int, ...]:
    """The largest block of which a warp has everything: up to where, in each dimension, the next warp's begins."""
    return tuple(
        min([layout.extents[d], *(digit.stride for digit in layout.warp if digit.dim == d)]) for d in range(layout.rank)
    )


@lru_cache(maxsize=256)
def warp_block(layout: Layout, shape: tuple[int, ...]) -> tuple[Layout, tuple[Digit, ...]] | None:
    """A block of `shape` as it lies in one warp, and the registers that lead from block to block, whatever other warps
    have between. None where one block does not fill each lane's share of registers alike."""
    kept: list[Digit] = []
    rest: list[Digit] = []
    for digit in layout.reg:
        assert digit.dim is not None
        size = max(1, min(digit.size, shape[digit.dim] // digit.stride))
        if digit.size % size:
            return None
        kept.append(Digit(size, digit.dim, digit.stride))
        rest.append(Digit(digit.size // size, digit.dim, digit.stride * size))
    part = _exact(shape, [d for d in kept if d.size > 1], layout.lane, ())
    return None if part is None else (part, tuple(d for d in rest if d.size > 1))


def _exact(shape: tuple[int, ...], reg: Sequence[Digit], lane: Sequence[Digit], warp: Sequence[Digit]) -> Layout | None:
    """The layout, if there is such a one and every slot of it is an element of its own."""
    try:
        layout = Layout(shape, tuple(reg), tuple(lane), tuple(warp))
    except LayoutError:
        return None
    return layout if layout.covers_exactly() and not layout.is_replicated() else None
