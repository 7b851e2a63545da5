"""Which lanes and columns of tensor memory a product's rows and columns are (PTX ISA 8.8, 9.7.16.10.5 "Data Path Layout
Organization"; CUTLASS, include/cute/atom/mma_traits_sm100_frag.hpp, tmem_frg).

    M     CTAs  layout  rows of a CTA   lanes                                      columns
    128   1     D       0 … 127         row                                        all N
    64    1     F       0 … 63          32 · (row / 16) + row % 16, or 16 higher   all N
    256   2     A       128 each        row                                        all N
    128   2     B       64 each         row: the first N / 2; 64 + row: the rest   N / 2

The even CTA of a pair has the upper rows of A and D, and the first N / 2 rows of B (as columns of D) in shared memory;
the odd one has the others. A in tensor memory lies in the lanes that compute with it: in layout B, a CTA's 64 rows lie
twice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.scalars import Array


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """What lanes of one CTA compute: `rows` of the CTA's A by columns `n` of B, into `columns` of tensor memory."""

    cta: int
    lanes: Array
    rows: Array
    n: slice
    columns: slice


def parts(m: int, n: int, ctas: list[int], lane: int, column: int) -> list[Part]:
    """The parts of a product of m × n by these CTAs, whose accumulator begins at a lane and a column."""
    rows = np.arange(m // len(ctas))
    if len(ctas) == 2 and m == 128:
        half = n // 2
        return [
            Part(cta, rows + 64 * upper, rows, slice(upper * half, (upper + 1) * half), slice(column, column + half))
            for cta in ctas
            for upper in (0, 1)
        ]
    lanes = rows // 16 * 32 + rows % 16 + lane if m == 64 else rows
    return [Part(cta, lanes, rows, slice(0, n), slice(column, column + n)) for cta in ctas]


def width(m: int, n: int, ctas: int) -> int:
    """The columns of tensor memory that an accumulator has."""
    return n // 2 if ctas == 2 and m == 128 else n
