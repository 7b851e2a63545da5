"""Which columns of tensor memory each buffer has: what is not alive at the same time may have the same ones.

    accumulators          one after the other, each as many columns as layouts.py says
    that do not fit       the buffer of one of the same shape whose lifetime does not overlap
    scales of blocks      columns of their own
    factors A of products the columns of an accumulator that has been loaded before: attention's weights those of the
                          scores that they are made of; each block of rows where the accumulator's is

Two lifetimes of one buffer are in order as all accesses of a buffer are: the passes that synchronise know it by name.
In other buffers' columns lie only factors, where nothing is left to order: a warp stores a factor to lanes which it
alone has loaded from, and all wait for the product that reads it before another one is issued.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from minitile.analysis.op_places import Places
from minitile.backends.nvidia.blackwell.accumulators import Accumulator, is_tile
from minitile.backends.nvidia.blackwell.layouts import scale_columns, words
from minitile.backends.nvidia.blackwell.shapes import COLUMNS, allocated
from minitile.ir.core import Block, Op
from minitile.ir.ops import tile


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a buffer begins, and the columns from one block of rows to the next; buffers of one `number` are one."""

    number: int
    column: int
    stride: int


@dataclass
class Layout:
    """The place of each accumulator, and of each gemm's factor A that is a tile."""

    spots: dict[Any, Spot] = field(default_factory=dict)
    used: int = 0

    @property
    def columns(self) -> int:
        return allocated(self.used)

    def shares(self, each: Accumulator) -> bool:
        """Whether other accumulators have the same buffer."""
        users = [key for key, spot in self.spots.items() if spot.number == self.spots[each].number]
        return len(users) > 1

    def new(self, key: Any, blocks: int, stride: int) -> bool:
        """Gives it columns of its own. False: there are too few."""
        if self.used + blocks * stride > COLUMNS:
            return False
        self.spots[key] = Spot(len(self.spots), self.used, stride)
        self.used += blocks * stride
        return True


def place(body: Block, found: Sequence[Accumulator]) -> Layout:
    """Places what fits; the others get a `reason`."""
    layout, places = Layout(), Places(body)
    placed: list[Accumulator] = []
    for each in found:
        before, spots = layout.used, dict(layout.spots)
        if _accumulator(layout, each, placed, places) and all(
            _operands(layout, gemm, [*placed, each], places) for gemm in each.gemms
        ):
            placed.append(each)
            continue
        layout.used, layout.spots = before, spots
        blocks, columns = words(each.shape)
        each.reason = f"{blocks * columns} columns of tensor memory are not left"
    return layout


def _accumulator(layout: Layout, each: Accumulator, placed: Sequence[Accumulator], places: Places) -> bool:
    if layout.new(each, *words(each.shape)):
        return True
    for other in placed:
        users = [one for one in placed if layout.spots[one] is layout.spots[other]]
        same = other.shape == each.shape and other.gemms[0].c.dtype is each.gemms[0].c.dtype
        if same and all(_apart(each, one, places) for one in users):
            layout.spots[each] = layout.spots[other]
            return True
    return False


def _operands(layout: Layout, gemm: tile.Gemm, placed: Sequence[Accumulator], places: Places) -> bool:
    """What of a product's operands goes to tensor memory: a factor, scales of blocks."""
    if is_tile(gemm.a) and not _factor(layout, gemm, placed, places):
        return False
    scales = {"a_scale": gemm.a_scale, "b_scale": gemm.b_scale}
    return all(v is None or layout.new((gemm, name), 1, scale_columns(v.shape)) for name, v in scales.items())


def _factor(layout: Layout, gemm: tile.Gemm, placed: Sequence[Accumulator], places: Places) -> bool:
    blocks, columns = words(gemm.a.shape, gemm.a.dtype.bits)
    for each in placed:
        if (
            gemm not in each.gemms
            and each.shape[0] == gemm.a.shape[0]
            and columns <= each.shape[1]
            and _dead(each, gemm, places)
        ):
            spot = layout.spots[each]
            layout.spots[gemm] = Spot(len(layout.spots) + COLUMNS, spot.column, spot.stride)
            return True
    return layout.new(gemm, blocks, columns)


def _dead(each: Accumulator, gemm: tile.Gemm, places: Places) -> bool:
    """Whether an accumulator of one block's turn has been loaded for good where a gemm of the block begins."""
    block, at = places.block[gemm], places.number[gemm]
    return not each.loops and all(places.block[op] is block and places.number[op] < at for op in each.gemms)


def _apart(one: Accumulator, other: Accumulator, places: Places) -> bool:
    """Whether the lifetimes do not overlap: of the operations that hold them, in the innermost block with both."""
    heads: list[list[Op]] = [[*each.gemms, *each.loops] for each in (one, other)]
    blocks = [places.block[heads[0][0]]]
    blocks += [places.block[around] for around in places.all_around(heads[0][0])]
    for block in blocks:
        spans = []
        for ops in heads:
            holders = [places.in_block(op, block) for op in ops]
            if None in holders:
                break
            numbers = [places.number[op] for op in holders if op is not None]
            spans.append((min(numbers), max(numbers)))
        if len(spans) == 2:
            return spans[0][1] < spans[1][0] or spans[1][1] < spans[0][0]
    return False
