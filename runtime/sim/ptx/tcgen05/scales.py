"""Scale factors of blocks, in tensor memory (PTX ISA 8.8, 9.7.16.10.7; CUTLASS,
include/cute/atom/mma_traits_sm100_frag.hpp, tmem_sf_frg).

The factors of row r of A (of column r of B) are bytes of the word at lane r % 32 and column r / 32 behind the address,
from the byte on that the instruction descriptor names, one for each block of K. They lie there in each 32 lanes, so
that each part of the data path finds its own; where M = 128 of a pair, the upper 64 lanes have the factors of those
columns that they compute.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...core.report import Finding
from ...core.scalars import Array
from .datapaths import Part
from .descriptors import Product
from .elements import scales
from .order import GROUP, Engine

if TYPE_CHECKING:
    from ..machine import Machine

_SPAN = 32  # lanes of a part of the data path


@dataclass(frozen=True, slots=True)
class Factors:
    """The factors of one operand for one part of a product: `count` rows (or columns) from this column on."""

    part: Part
    column: int
    count: int

    @property
    def columns(self) -> slice:
        return slice(self.column, self.column - -self.count // _SPAN)

    @property
    def spans(self) -> Array:
        """The first lanes of those 32 that have them."""
        first: Array = np.unique(self.part.lanes // _SPAN) * _SPAN
        return first

    @property
    def groups(self) -> Array:
        """Where they are, in groups of lanes (order.py)."""
        lanes = self.spans[:, None] + np.arange(min(self.count, _SPAN))
        found: Array = np.unique(lanes // GROUP)
        return found


def read_factors(
    machine: Machine, thread: int, step: int, chain: int, address: int, part: Part, count: int, site: int
) -> Factors:
    """A product reads the factors of `count` rows at an address of tensor memory."""
    memory = machine.tensor
    if address >> 16:
        memory.fault("lane_access", f"scale factors begin at lane {address >> 16}, not 0", site, thread, "mma")
    found = Factors(part, address & 0xFFFF, count)
    span = found.columns
    memory.locate(part.cta, span.start, span.stop - span.start, site, thread, "mma")
    engine, issuer = Engine("mma", thread), np.array([thread])
    memory.order.access(engine, step, issuer, part.cta, found.groups, span, site, writes=False, chain=chain)
    memory.check_written(part.cta, found.groups, span, site, thread, everywhere=True)
    return found


def load_factors(machine: Machine, found: Factors, shape: Product, first: int, thread: int, site: int) -> Array:
    """[count, blocks of K] in double precision, from byte `first` of each word on."""
    assert shape.scaling is not None
    rows = np.arange(found.count)
    cells = machine.tensor.cells[found.part.cta]
    words = np.stack([cells[start + rows % _SPAN, found.column + rows // _SPAN] for start in found.spans])
    if (words != words[0]).any():
        message = "scale factors differ between the parts of 32 lanes; each must have them (tcgen05.cp … .warpx4)"
        access = machine.access("mma", site, thread)
        machine.find(Finding("scales_not_duplicated", message, access, space="tensor"))
    small = np.ascontiguousarray(words[0]).view(np.uint8).reshape(-1, 4)
    return scales(small[:, first : first + shape.scaling.number], shape.scaling.kind)


def scaled(values: Array, factors: Array) -> Array:
    """Elements [rows, K], each times the factor of its block."""
    result: Array = values.astype(np.float64) * np.repeat(factors, values.shape[1] // factors.shape[1], axis=1)
    return result
