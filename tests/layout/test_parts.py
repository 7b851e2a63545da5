"""Parts of a tile: blocks of warps, blocks of registers, and who may use stmatrix."""

from __future__ import annotations

import math

import pytest

from minitile.layout import (
    MMA_ATOMS,
    Digit,
    Layout,
    block,
    blocked,
    interleaved_slice,
    interleaved_source,
    ldmatrix_plan,
    mma_accumulator,
    mma_operand_a,
    reshaped,
    stmatrix_plan,
    swizzled,
    warp_block,
    warp_box,
    warp_groups,
    wgmma_accumulator,
)
from minitile.layout.register import offsets

ATOM = MMA_ATOMS["m16n8k16"]


@pytest.mark.parametrize("groups", [1, 2, 3])
@pytest.mark.parametrize("blocks", [1, 2])
@pytest.mark.parametrize("columns", [8, 24, 256])
def test_warpgroups_have_rows_of_their_own(groups: int, blocks: int, columns: int) -> None:
    rows = 64 * blocks
    whole = wgmma_accumulator((groups * rows, columns), (groups, 1))
    found = warp_groups(whole, 4)
    assert found is not None
    mine, lie = found
    assert mine == wgmma_accumulator((rows, columns))
    assert lie == ((Digit(groups, 0, rows),) if groups > 1 else ())
    for warp in range(4 * groups):
        for lane in (0, 13, 31):
            for reg in range(0, whole.num_regs, 3):
                row, column = mine.coords(reg, lane, warp % 4)
                assert whole.coords(reg, lane, warp) == (row + rows * (warp // 4), column)


def test_warpgroups_along_columns() -> None:
    found = warp_groups(wgmma_accumulator((64, 128), (1, 2)), 4)
    assert found == (wgmma_accumulator((64, 64)), (Digit(2, 1, 64),))
    found = warp_groups(wgmma_accumulator((256, 128), (2, 2)), 4)
    assert found == (wgmma_accumulator((128, 64)), (Digit(2, 0, 128), Digit(2, 1, 64)))


@pytest.mark.parametrize(
    "layout",
    [
        mma_operand_a((128, 64), ATOM, (4, 2)),  # the second four warps hold copies
        mma_operand_a((32, 64), ATOM, (2, 2)),  # copies among four warps
        mma_accumulator((96, 64), ATOM, (6, 1)),  # six warps are not made of fours
        blocked((100, 64), 256, 8),  # masked slots
    ],
)
def test_what_is_not_made_of_groups(layout: Layout) -> None:
    assert warp_groups(layout, 4) is None


def test_groups_of_other_fragments() -> None:
    """The first four warps have rows 0 … 31 of columns 0 … 63, the others the columns behind."""
    whole = mma_accumulator((32, 128), ATOM, (2, 4))
    found = warp_groups(whole, 4)
    assert found is not None
    mine, lie = found
    assert lie == (Digit(2, 1, 64),)
    for warp in range(8):
        row, column = mine.coords(3, 17, warp % 4)
        assert whole.coords(3, 17, warp) == (row, column + 64 * (warp // 4))


@pytest.mark.parametrize(
    ("shape", "part"),
    [((64, 256), (64, 64)), ((128, 96), (64, 32)), ((128, 64), (64, 64)), ((64, 8), (64, 8)), ((192, 48), (64, 16))],
)
def test_blocks(shape: tuple[int, int], part: tuple[int, int]) -> None:
    """Together they are all registers, each at its place."""
    whole = wgmma_accumulator(shape)
    found = block(whole, part)
    assert found is not None
    layout, blocks = found
    assert layout == wgmma_accumulator(part)
    assert sorted(r for _, registers in blocks for r in registers) == list(range(whole.num_regs))
    for (row, column), registers in blocks:
        for reg, register in enumerate(registers):
            for lane, warp in ((0, 0), (31, 3), (7, 2)):
                r, c = layout.coords(reg, lane, warp)
                assert whole.coords(register, lane, warp) == (row + r, column + c)


@pytest.mark.parametrize("part", [(32, 64), (64, 4), (64, 48), (128, 64)])
def test_what_is_no_block(part: tuple[int, int]) -> None:
    """Rows of other warps, columns of other lanes, no divisor, too large."""
    assert block(wgmma_accumulator((64, 256)), part) is None


def test_only_one_thread_may_store_an_element() -> None:
    shared = swizzled((128, 64), 16)
    copies = mma_operand_a((128, 64), ATOM, (4, 2))
    assert ldmatrix_plan(copies, shared) is not None
    assert stmatrix_plan(copies, shared) is None
    alone = mma_operand_a((128, 64), ATOM, (8, 1))
    assert stmatrix_plan(alone, shared) == ldmatrix_plan(alone, shared)


def place(n: int, run: int, hands: int, hand: int) -> int:
    return (n // run * hands + hand) * run + n % run


@pytest.mark.parametrize("columns", [96, 192, 240])
@pytest.mark.parametrize(("run", "hands"), [(1, 2), (8, 2), (8, 3), (24, 2), (48, 2)])
def test_interleaved_slices(columns: int, run: int, hands: int) -> None:
    """Every thread has the same of each hand, where the run's bounds are between its registers."""
    whole = wgmma_accumulator((128, columns))
    if columns % (run * hands):
        return
    mine = interleaved_slice(whole, 1, run, hands)
    if columns // 8 % (run // 8 or 1):
        assert mine is None
        return
    assert mine is not None
    assert mine.num_regs * hands == whole.num_regs
    for lane, warp in ((0, 0), (5, 1), (31, 3)):
        theirs = {whole.coords(reg, lane, warp) for reg in range(whole.num_regs)}
        for reg in range(mine.num_regs):
            row, column = mine.coords(reg, lane, warp)
            assert all((row, place(column, run, hands, hand)) in theirs for hand in range(hands))
    back = interleaved_source(mine, 1, run, hands)
    assert interleaved_slice(back, 1, run, hands) == mine


def test_interleaved_slices_between_lanes() -> None:
    """Neighbours in fours are in other lanes; other registers can have them all."""
    whole = wgmma_accumulator((64, 64))
    assert interleaved_slice(whole, 1, 2, 2) is None
    assert interleaved_slice(whole, 1, 4, 2) is None
    mine = blocked((64, 32), 128, 4)
    assert interleaved_source(mine, 1, 4, 2).shape == (64, 64)
    assert interleaved_slice(interleaved_source(mine, 1, 4, 2), 1, 4, 2) == mine
    assert (
        interleaved_slice(blocked((64, 100), 128, 4), 1, 4, 5) is None
    )  # some of what threads could hold lies outside


@pytest.mark.parametrize(
    ("layout", "box"),
    [
        (wgmma_accumulator((128, 256), (2, 1)), (16, 256)),
        (wgmma_accumulator((128, 256)), (16, 256)),  # and 16 rows 64 further
        (mma_accumulator((128, 128), ATOM, (2, 2)), (64, 64)),
        (blocked((8, 1024), 128, 8), (8, 256)),
        (blocked((100, 64), 256, 8), (4, 64)),
    ],
)
def test_what_a_warp_has_in_one_piece(layout: Layout, box: tuple[int, ...]) -> None:
    assert warp_box(layout) == box
    held = {layout.coords(reg, lane, 0) for reg in range(layout.num_regs) for lane in range(32)}
    assert all((i, j) in held for i in range(box[0]) for j in range(box[1]))


@pytest.mark.parametrize("layout", [wgmma_accumulator((128, 192)), mma_accumulator((64, 96), ATOM, (2, 2))])
@pytest.mark.parametrize("shape", [(8, 8), (16, 48), (16, 16)])
def test_blocks_of_a_warp(layout: Layout, shape: tuple[int, ...]) -> None:
    """All blocks together are the warp's registers, each once."""
    found = warp_block(layout, shape)
    assert found is not None
    part, rest = found
    assert part.shape == shape
    seen = []
    for start in offsets(rest, 2):
        for reg in range(part.num_regs):
            seen.append(tuple(a + b for a, b in zip(part.coords(reg, 13, 0), start, strict=True)))
    assert sorted(seen) == sorted(layout.coords(reg, 13, 0) for reg in range(layout.num_regs))


def test_no_blocks_of_a_warp() -> None:
    layout = mma_accumulator((64, 96), ATOM, (2, 2))
    assert warp_block(layout, (4, 48)) is None  # the lanes have eight rows
    assert warp_block(layout, (32, 32)) is None  # does not divide 48 columns


@pytest.mark.parametrize(
    ("shape", "to"),
    [
        ((64, 128), (64, 8, 16)),
        ((64, 128), (8192,)),
        ((8, 8, 128), (64, 128)),
        ((32, 48), (32, 6, 8)),
        ((128, 64), (64, 128)),
    ],
)
@pytest.mark.parametrize("threads", [32, 128])
def test_reshaped_elements_stay(shape: tuple[int, ...], to: tuple[int, ...], threads: int) -> None:
    layout = blocked(shape, threads, 4)
    found = reshaped(layout, to)
    if found is None:  # a digit goes over the end of a row
        assert not layout.covers_exactly() or shape == (32, 48)
        return
    size = math.prod(shape)
    for of, one in ((layout, shape), (found, to)):
        assert of.covers_exactly()
        assert math.prod(one) == size
    linear = [
        sum(of.coord_array()[..., d] * math.prod(one[d + 1 :]) for d in range(len(one)))
        for of, one in ((layout, shape), (found, to))
    ]
    assert (linear[0] == linear[1]).all()
    assert reshaped(found, shape) == layout


def test_what_no_reshape_has() -> None:
    assert reshaped(blocked((3, 20), 32, 4), (5, 12)) is None  # slots outside of the tile
    assert reshaped(Layout.parse("layout<4x6; reg 3:1@1; lane 2:3@1, 4:1@0, 4:*>"), (3, 8)) is None
