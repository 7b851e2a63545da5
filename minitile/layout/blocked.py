"""Layouts chosen freely, for copies and elementwise work: coalesced, any shape, any number of warps.

Digits are distributed from the fastest dimension: `vec` neighbours to registers, then lanes, then warps, then
the rest to registers. A size that does not fit is rounded up (masked slots); threads that a small tile does
not need hold copies (replication).

    blocked((128, 64), threads=128, vec=8)
        layout<128x64; reg 8:1@1, 8:16@0; lane 8:8@1, 4:1@0; warp 4:4@0>
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from minitile.layout.register import Digit, Layout, LayoutError, divisor_at_least


def blocked(
    shape: Sequence[int], threads: int, vec: int = 1, order: Sequence[int] | None = None, lanes: int = 32
) -> Layout:
    """Coalesced: lanes and warps both run along the fastest dimension first.

    `order` lists the dimensions from fastest to slowest (default: last to first). Raises LayoutError when
    `threads` is not a multiple of `lanes` or `order` no permutation.
    """
    return _distributed(tuple(shape), threads, vec, _order(shape, order), lanes, False)


def row_blocked(
    shape: Sequence[int], threads: int, vec: int = 1, order: Sequence[int] | None = None, lanes: int = 32
) -> Layout:
    """Lanes along the fastest dimension, warps along the others first: row reductions stay in a warp."""
    return _distributed(tuple(shape), threads, vec, _order(shape, order), lanes, True)


def crossed(
    shape: Sequence[int], threads: int, vec: int, across: int, order: Sequence[int] | None = None, lanes: int = 32
) -> Layout:
    """Vectors along two dimensions: `vec` elements along the fastest, `across` along the one behind it, so that a tile
    is loaded by rows and stored by columns without an exchange. Of 32 lanes 8 go along the fastest dimension and 4
    along the other, warps along the other first.

        crossed((64, 256), threads=256, vec=8, across=8)
            layout<64x256; reg 8:1@1, 8:1@0; lane 8:8@1, 4:8@0; warp 2:32@0, 4:64@1>
    """
    return _distributed(tuple(shape), threads, vec, _order(shape, order), lanes, True, across)


def scan_blocked(
    shape: Sequence[int], threads: int, vec: int = 1, order: Sequence[int] | None = None, lanes: int = 32
) -> Layout:
    """As `row_blocked`; warps that share a row have neighbours each, all registers of a lane: what a scan hands from
    warp to warp is one element of each, whatever the registers."""
    layout = row_blocked(shape, threads, vec, order, lanes)
    if not shape:
        return layout
    dim = _order(shape, order)[0]
    warps = [d for d in layout.warp if d.dim == dim]
    beyond = [d for d in layout.reg if d.dim == dim and warps and d.stride > warps[0].stride]
    if not beyond:
        return layout
    (warp,), (reg,) = warps, beyond
    moved = {warp: Digit(warp.size, dim, warp.stride * reg.size), reg: Digit(reg.size, dim, warp.stride)}
    return Layout(
        layout.shape,
        tuple(moved.get(d, d) for d in layout.reg),
        layout.lane,
        tuple(moved.get(d, d) for d in layout.warp),
    )


def coalesced(shape: Sequence[int], threads: int, element_bits: int, lanes: int = 32) -> Layout:
    """`blocked` with the widest vector, up to 16 bytes, that divides the rows and keeps all threads busy."""
    vec = max(1, 128 // element_bits)
    last = shape[-1] if shape else 1
    while vec > 1 and (last % vec or vec * threads > math.prod(shape)):
        vec //= 2
    return blocked(shape, threads, vec, None, lanes)


def replicated(shape: Sequence[int], threads: int, lanes: int = 32) -> Layout:
    """Every thread holds the whole tile, last dimension fastest."""
    _check_threads(threads, lanes)
    reg = tuple(Digit(shape[dim], dim, 1) for dim in reversed(range(len(shape))))
    return Layout(tuple(shape), reg, (Digit(lanes, None, 0),), (Digit(threads // lanes, None, 0),))


def _order(shape: Sequence[int], order: Sequence[int] | None) -> tuple[int, ...]:
    order = tuple(reversed(range(len(shape)))) if order is None else tuple(order)
    if sorted(order) != list(range(len(shape))):
        raise LayoutError(f"order {order} is not a permutation of the {len(shape)} dimensions")
    return order


def _check_threads(threads: int, lanes: int) -> None:
    if threads < 1 or threads % lanes:
        raise LayoutError(f"{threads} threads are not a positive multiple of {lanes} lanes")


@lru_cache(maxsize=1024)
def _distributed(
    shape: tuple[int, ...],
    threads: int,
    vec: int,
    order: tuple[int, ...],
    lanes: int,
    rows: bool,
    across: int = 1,
) -> Layout:
    _check_threads(threads, lanes)
    if vec < 1:
        raise LayoutError(f"a vector has at least 1 element, not {vec}")
    strides = [1] * len(shape)

    def take(dim: int, count: int) -> Digit:
        digit = Digit(count, dim, strides[dim])
        strides[dim] *= count
        return digit

    def left(dim: int) -> int:
        return -(-shape[dim] // strides[dim])

    def distribute(count: int, dims: Sequence[int]) -> tuple[Digit, ...]:
        out = []
        for i, dim in enumerate(dims):
            others = math.prod(left(d) for d in dims[i + 1 :])
            taken = _share(count, left(dim), others)
            out.append(take(dim, taken))
            count //= taken
        return (*out, Digit(count, None, 0))

    first = [take(order[0], min(vec, shape[order[0]]))] if shape else []
    if across > 1:
        first.append(take(order[1], min(across, shape[order[1]])))
        along = min(8, left(order[0]))
        lane = (take(order[0], along), *distribute(lanes // along, (*order[1:], order[0])))
    else:
        lane = distribute(lanes, order)
    warp = distribute(threads // lanes, order[1:] + order[:1] if rows else order)
    return Layout(shape, (*first, *(take(dim, left(dim)) for dim in order)), lane, warp)


def _share(count: int, need: int, others: int) -> int:
    """How many of `count` threads go along a dimension that needs `need`, when slower ones can use `others`.

    Rather than mask, take a common divisor, if that still makes a fair run (4 threads) and the slower
    dimensions can use all the threads that it leaves.
    """
    exact = math.gcd(count, need)
    if exact >= 4 and others >= count // exact:
        return exact
    return divisor_at_least(count, need)
