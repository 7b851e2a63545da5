"""Transposing reads of LDS (gfx950): fragments that want neighbours along the dimension which memory has not in a row.

    ds_read_b64_tr_b16    of sixteen lanes, four at a time read one row of 16 elements, 4 each; lane l gets column l of
                          the four rows
    ds_read_b64_tr_b8     two at a time read one row, 8 each; lane l gets column l of the eight rows

In layouts, with e = 4 or 8, c the dimension that is contiguous in memory and r the other one: the fragment's
`reg e:1@r; lane 16:1@c` is read by lanes `16/e:e@c, e:1@r`, 8 bytes at a time.

    A (K, M) in rows of M, for mfma16x16x32:   reg 8:1@K; lane 16:1@M, 4:8@K
    two reads, at K + 0 and K + 4, by lanes    4:4@M, 4:1@K, 4:8@K

Source: "CDNA 4" Instruction Set Architecture, 11.4, "Data Share Matrix Load Transpose".
"""

from __future__ import annotations

from functools import lru_cache

from minitile.layout.access import bits_of_digits
from minitile.layout.ldmatrix import MatrixAccess, MatrixPlan, without_neighbours
from minitile.layout.register import Digit, Layout, offsets, thread_digits_of
from minitile.layout.shared import SharedLayout, add_maybe_bits

_LANES = 16
BYTES = 8  # that a lane reads


@lru_cache(maxsize=1024)
def transposed_plan(layout: Layout, shared: SharedLayout, base_bits: tuple[int, ...]) -> MatrixPlan | None:
    """How to read the tile by transposing reads, two 32-bit words of a lane each; None if they can't.

    `base_bits`: as in `access.accesses`.
    """
    bits, column = shared.element_bits, shared.contiguous_dim
    if bits not in (8, 16) or column is None or layout.rank != shared.rank or not layout.covers_exactly():
        return None
    each, packed = BYTES * 8 // bits, 32 // bits
    first = layout.lane[0] if layout.lane else Digit(1, None, 0)
    row = next((d for d in range(layout.rank) if d != column and layout.register_run(d) % each == 0), None)
    if row is None or (first.dim, first.stride) != (column, 1) or first.size % _LANES:
        return None
    if shared.contiguous_elems(column) % each or shared.row_alignment(column, each) % BYTES:
        return None
    if base_bits[column] & (each - 1):
        return None
    rest = (Digit(first.size // _LANES, column, _LANES),) if first.size > _LANES else ()
    lane = (Digit(_LANES // each, column, each), Digit(each, row, 1), *rest, *layout.lane[1:])
    base = bits_of_digits(lane + layout.warp, layout.rank)
    base = tuple(add_maybe_bits(a, b) for a, b in zip(base, base_bits, strict=True))
    where = {offset: reg for reg, offset in enumerate(layout.register_offsets())}
    accesses = []
    for at in offsets(without_neighbours(layout, row, each), layout.rank):
        run = [where[(*at[:row], at[row] + n, *at[row + 1 :])] for n in range(each)]
        words = tuple(tuple(run[w : w + packed]) for w in range(0, each, packed))
        accesses.append(MatrixAccess(words, at, shared.split_constant(at, base)))
    rows, _ = thread_digits_of(lane + layout.warp)
    return MatrixPlan(len(accesses[0].registers), True, rows, lane, tuple(accesses))
