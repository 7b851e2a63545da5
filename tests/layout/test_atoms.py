"""Instruction fragments against values read off the figures of the PTX ISA, and whole tiles made of them.

Lane 5 is groupID 1, threadID_in_group 1; lane 31 is groupID 7, threadID_in_group 3.
"""

from __future__ import annotations

import pytest

from minitile.layout import (
    MMA_ATOMS,
    Layout,
    LayoutError,
    MmaAtom,
    conversion,
    mma_accumulator,
    mma_operand_a,
    mma_operand_b,
    warp_partition,
    wgmma_accumulator,
    wgmma_operand_a,
)

M16N8K16 = MMA_ATOMS["m16n8k16"]

# atom, operand, lane, the (row, column) of each element that the lane holds, in register order
FIGURES = [
    ("m16n8k16", "a", 5, [(1, 2), (1, 3), (9, 2), (9, 3), (1, 10), (1, 11), (9, 10), (9, 11)]),
    ("m16n8k16", "a", 31, [(7, 6), (7, 7), (15, 6), (15, 7), (7, 14), (7, 15), (15, 14), (15, 15)]),
    ("m16n8k16", "b", 5, [(2, 1), (3, 1), (10, 1), (11, 1)]),
    ("m16n8k16", "b", 31, [(6, 7), (7, 7), (14, 7), (15, 7)]),
    ("m16n8k16", "c", 5, [(1, 2), (1, 3), (9, 2), (9, 3)]),
    ("m16n8k16", "c", 31, [(7, 6), (7, 7), (15, 6), (15, 7)]),
    ("m16n8k8", "a", 5, [(1, 2), (1, 3), (9, 2), (9, 3)]),
    ("m16n8k8", "b", 5, [(2, 1), (3, 1)]),
    ("m16n8k8.tf32", "a", 5, [(1, 1), (9, 1), (1, 5), (9, 5)]),
    ("m16n8k8.tf32", "a", 30, [(7, 2), (15, 2), (7, 6), (15, 6)]),
    ("m16n8k8.tf32", "b", 5, [(1, 1), (5, 1)]),
    ("m16n8k8.tf32", "c", 31, [(7, 6), (7, 7), (15, 6), (15, 7)]),
    ("m16n8k32.b8", "a", 5, [(r, c + i) for c in (4, 20) for r in (1, 9) for i in range(4)]),
    ("m16n8k32.b8", "a", 31, [(r, c + i) for c in (12, 28) for r in (7, 15) for i in range(4)]),
    ("m16n8k32.b8", "b", 5, [(4, 1), (5, 1), (6, 1), (7, 1), (20, 1), (21, 1), (22, 1), (23, 1)]),
    ("m16n8k16.b8", "a", 5, [(1, 4), (1, 5), (1, 6), (1, 7), (9, 4), (9, 5), (9, 6), (9, 7)]),
    ("m16n8k16.b8", "b", 31, [(12, 7), (13, 7), (14, 7), (15, 7)]),
    ("m8n8k4.f64", "a", 5, [(1, 1)]),
    ("m8n8k4.f64", "b", 30, [(2, 7)]),
    ("m8n8k4.f64", "c", 5, [(1, 2), (1, 3)]),
]


@pytest.mark.parametrize(("name", "operand", "lane", "elements"), FIGURES)
def test_fragments_are_those_of_the_figures(
    name: str, operand: str, lane: int, elements: list[tuple[int, int]]
) -> None:
    fragment: Layout = getattr(MMA_ATOMS[name], operand)
    assert [fragment.coords(reg, lane, 0) for reg in range(fragment.num_regs)] == elements


@pytest.mark.parametrize("atom", MMA_ATOMS.values(), ids=str)
def test_a_warp_holds_each_element_of_an_atom_once(atom: MmaAtom) -> None:
    for fragment, shape in ((atom.a, (atom.m, atom.k)), (atom.b, (atom.k, atom.n)), (atom.c, (atom.m, atom.n))):
        assert fragment.shape == shape
        assert fragment.covers_exactly()
        assert not fragment.is_replicated()
        assert fragment.threads == 32


def test_tiles_give_each_warp_a_contiguous_part() -> None:
    c = mma_accumulator((128, 64), M16N8K16, (2, 2))
    assert str(c) == "layout<128x64; reg 2:1@1, 2:8@0, 4:8@1, 4:16@0; lane 4:2@1, 8:1@0; warp 2:64@0, 2:32@1>"
    a = mma_operand_a((128, 32), M16N8K16, (2, 2))
    assert str(a) == "layout<128x32; reg 2:1@1, 2:8@0, 4:8@1, 4:16@0; lane 4:2@1, 8:1@0; warp 2:64@0, 2:*>"
    b = mma_operand_b((32, 64), M16N8K16, (2, 2))
    assert str(b) == "layout<32x64; reg 2:1@0, 4:8@0, 4:8@1; lane 4:2@0, 8:1@1; warp 2:*, 2:32@1>"
    # Warp 3 is the second along m and the second along n.
    assert c.coords(0, 0, 3) == (64, 32)
    assert a.coords(0, 0, 3) == (64, 0)
    assert b.coords(0, 0, 3) == (0, 32)


def test_operands_and_accumulator_agree_on_who_owns_which_rows_and_columns() -> None:
    warps = (2, 4)
    c, a, b = (
        mma_accumulator((64, 128), M16N8K16, warps),
        mma_operand_a((64, 48), M16N8K16, warps),
        mma_operand_b((48, 128), M16N8K16, warps),
    )
    for warp in range(8):
        rows = {c.coords(r, lane, warp)[0] for r in range(c.num_regs) for lane in range(32)}
        columns = {c.coords(r, lane, warp)[1] for r in range(c.num_regs) for lane in range(32)}
        assert rows == {a.coords(r, lane, warp)[0] for r in range(a.num_regs) for lane in range(32)}
        assert columns == {b.coords(r, lane, warp)[1] for r in range(b.num_regs) for lane in range(32)}


def test_an_accumulator_is_the_next_a_operand_as_it_lies() -> None:
    for rows, columns, warps in ((128, 64, 4), (64, 128, 4), (128, 128, 8)):
        c = mma_accumulator((rows, columns), M16N8K16, (warps, 1))
        assert conversion(c, mma_operand_a((rows, columns), M16N8K16, (warps, 1))) == "identity"
    narrow = MMA_ATOMS["m16n8k8"]
    assert conversion(mma_accumulator((64, 32), narrow, (4, 1)), mma_operand_a((64, 32), narrow, (4, 1))) == "identity"
    # Columns spread over warps have to cross them.
    assert (
        conversion(mma_accumulator((64, 64), M16N8K16, (2, 2)), mma_operand_a((64, 64), M16N8K16, (2, 2))) == "shared"
    )
    assert conversion(wgmma_accumulator((64, 128)), wgmma_operand_a((64, 128), 16)) == "identity"


def test_wgmma_accumulator() -> None:
    acc = wgmma_accumulator((64, 256))
    assert acc.num_regs == 128
    assert acc.coords(0, 5, 2) == (33, 2)
    assert acc.coords(3, 5, 2) == (41, 3)
    assert acc.coords(4, 5, 2) == (33, 10)
    two = wgmma_accumulator((128, 256), (2, 1))
    assert two.coords(0, 0, 4) == (64, 0)
    with pytest.raises(LayoutError, match="not made of 64x8 blocks"):
        wgmma_accumulator((96, 64))


@pytest.mark.parametrize(
    ("policy", "m", "n", "warps", "split"),
    [
        ("square", 128, 128, 4, (2, 2)),
        ("square", 128, 256, 8, (2, 4)),
        ("square", 256, 64, 4, (4, 1)),
        ("square", 16, 128, 4, (1, 4)),
        ("full_row", 128, 128, 4, (4, 1)),
        ("full_row", 32, 128, 4, (2, 2)),
        ("full_col", 128, 128, 4, (1, 4)),
        ("full_col", 128, 8, 4, (4, 1)),
        ("square", 48, 64, 3, (3, 1)),
    ],
)
def test_warp_partition(policy: str, m: int, n: int, warps: int, split: tuple[int, int]) -> None:
    assert warp_partition(policy, m, n, warps, M16N8K16) == split


def test_what_does_not_divide_is_explained() -> None:
    with pytest.raises(LayoutError, match=r"2x4 leaves each warp 24x6; 4x2 leaves each warp 12x12"):
        warp_partition("square", 48, 24, 8, M16N8K16)
    with pytest.raises(LayoutError, match="one of square, full_row, full_col"):
        warp_partition("round", 64, 64, 4, M16N8K16)
    with pytest.raises(LayoutError, match=r"M = 96 over 4 warps is not a multiple of 64, as mma m16n8k16 needs"):
        mma_accumulator((96, 64), M16N8K16, (4, 1))
    with pytest.raises(LayoutError, match=r"K = 24 is not a multiple of 16"):
        mma_operand_b((24, 64), M16N8K16, (1, 1))
