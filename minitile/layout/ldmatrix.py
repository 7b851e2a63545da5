"""ldmatrix (and stmatrix, its mirror): which fragments it can load, which row each lane addresses.

An instruction moves 1, 2 or 4 matrices of 8 rows x 16 bytes. Lane l supplies the address of row `l % 8` of matrix
`l / 8`; thread l receives in result register i, from matrix i, bytes 4 * (l % 4) .. + 3 of row l / 4. With `.trans`
(16-bit elements only) it is elements (2 * (l % 4), l / 4) and (2 * (l % 4) + 1, l / 4): the stored matrix transposed.
stmatrix takes its words from where ldmatrix puts them. Facts: PTX ISA 8.3, 9.7.13.4.15 "ldmatrix", 9.7.13.4.16
"stmatrix".

A layout qualifies when its lanes are those of an mma fragment: `4:e@c, 8:1@r` with e elements in 4 bytes, c the
contiguous dimension of shared memory; or, for .trans, `4:2@r, 8:1@c`. What matrices make up an instruction follows
from the layout's register order, so results land where mma wants them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from minitile.layout.access import bits_of_digits, phase_conflicts
from minitile.layout.register import Coord, Digit, Layout, ThreadDigit, offsets, thread_digits_of
from minitile.layout.shared import ConstantSplit, SharedLayout, add_maybe_bits

ROW_BYTES = 16


@dataclass(frozen=True, slots=True)
class MatrixAccess:
    """One instruction: rows start at the lane's row coordinate + `offset`.

    `registers` has per 32-bit result register the layout's registers that are packed in it, low bits first. `split`
    leads from the address of the lane's row to this one; None: compute it anew.
    """

    registers: tuple[tuple[int, ...], ...]
    offset: Coord
    split: ConstantSplit | None


@dataclass(frozen=True, slots=True)
class MatrixPlan:
    """A whole tile by ldmatrix. `rows`: base coordinates of the row that a thread addresses, as digits of its id.

    Lanes from `8 * count` on are not read.
    """

    count: int
    trans: bool
    rows: tuple[ThreadDigit, ...]
    lane_digits: tuple[Digit, ...]
    accesses: tuple[MatrixAccess, ...]


def stmatrix_plan(
    layout: Layout, shared: SharedLayout, max_count: int = 4, base_bits: tuple[int, ...] | None = None
) -> MatrixPlan | None:
    """As `ldmatrix_plan`, for stmatrix: each element must be one thread's to store."""
    return None if layout.is_replicated() else ldmatrix_plan(layout, shared, max_count, base_bits)


@lru_cache(maxsize=1024)
def ldmatrix_plan(
    layout: Layout, shared: SharedLayout, max_count: int = 4, base_bits: tuple[int, ...] | None = None
) -> MatrixPlan | None:
    """How to move the tile between `layout` and shared memory by ldmatrix, None if it can't be.

    `base_bits`: as in `access.accesses`.
    """
    bits, column = shared.element_bits, shared.contiguous_dim
    if column is None or not ldmatrix_legal(layout, shared):
        return None
    packed = 32 // bits
    first, second = layout.lane
    trans = first.dim != column
    pack_dim, row_dim = first.dim, first.dim if trans else second.dim
    assert pack_dim is not None  # ldmatrix_legal has looked at both
    assert row_dim is not None
    group, rest = _group(without_neighbours(layout, pack_dim, packed), max_count)
    count = 2 ** len(group)
    lane = (Digit(8, row_dim, 1), *group, Digit(4 // count, None, 0))
    base = bits_of_digits(lane + layout.warp, layout.rank)
    if base_bits is not None:
        base = tuple(add_maybe_bits(a, b) for a, b in zip(base, base_bits, strict=True))

    where = {offset: reg for reg, offset in enumerate(layout.register_offsets())}
    matrices = offsets(group, layout.rank)
    elements = offsets((Digit(packed, pack_dim, 1),), layout.rank)
    accesses = []
    for at in offsets(rest, layout.rank):
        registers = tuple(tuple(where[_sum(at, matrix, element)] for element in elements) for matrix in matrices)
        accesses.append(MatrixAccess(registers, at, shared.split_constant(at, base)))
    rows, _ = thread_digits_of(lane + layout.warp)
    return MatrixPlan(count, trans, rows, lane, tuple(accesses))


def ldmatrix_legal(layout: Layout, shared: SharedLayout) -> bool:
    """Are the fragments those of ldmatrix, and the rows whole aligned 16-byte chunks of shared memory?"""
    bits, column = shared.element_bits, shared.contiguous_dim
    if bits not in (8, 16, 32) or column is None or layout.rank != shared.rank or not layout.covers_exactly():
        return False
    packed, chunk = 32 // bits, ROW_BYTES * 8 // bits
    if len(layout.lane) != 2 or (layout.lane[0].size, layout.lane[1].size) != (4, 8):
        return False
    first, second = layout.lane
    if first.dim is None or second.dim is None or first.dim == second.dim:
        return False
    if (first.stride, second.stride) != (packed, 1) or layout.register_run(first.dim) % packed:
        return False
    if first.dim != column and (second.dim != column or bits != 16):
        return False
    return shared.contiguous_elems(column) % chunk == 0 and shared.row_alignment(column, chunk) % ROW_BYTES == 0


def ldmatrix_conflicts(plan: MatrixPlan, shared: SharedLayout) -> int:
    """The most cycles that any 8 rows take which one matrix reads together; 1 is free of conflicts."""
    rank = shared.rank
    lanes = offsets(plan.lane_digits, rank)[: 8 * plan.count]
    return max(
        phase_conflicts([shared.offset(_sum(lane, access.offset)) for lane in lanes], ROW_BYTES)
        for i, access in enumerate(plan.accesses)
        if i == 0 or access.split is None  # the others are the first one, shifted or with banks renamed
    )


def without_neighbours(layout: Layout, pack_dim: int, packed: int) -> tuple[Digit, ...]:
    """The register digits that are left when `packed` neighbours along `pack_dim` are taken together."""
    out = []
    for digit in layout.reg:
        if digit.dim != pack_dim or digit.stride >= packed:
            out.append(digit)
        elif digit.size * digit.stride > packed:
            out.append(Digit(digit.size * digit.stride // packed, pack_dim, packed))
    return tuple(out)


def _group(digits: tuple[Digit, ...], max_count: int) -> tuple[tuple[Digit, ...], tuple[Digit, ...]]:
    """Splits the first factors of two off, for the matrices of one instruction."""
    group: list[Digit] = []
    rest: list[Digit] = []
    for digit in digits:
        size, stride = digit.size, digit.stride
        while size % 2 == 0 and 2 ** (len(group) + 1) <= max_count:
            group.append(Digit(2, digit.dim, stride))
            size, stride = size // 2, stride * 2
        if size > 1:
            rest.append(Digit(size, digit.dim, stride))
    return tuple(group), tuple(rest)


def _sum(*coords: Coord) -> Coord:
    return tuple(map(sum, zip(*coords, strict=True)))
