"""Threads on shared memory: widths, accesses, bank conflicts counted by hand and by brute force, ldmatrix executed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitile.layout import (
    MMA_ATOMS,
    Layout,
    LayoutError,
    RowAccess,
    SharedLayout,
    accesses,
    bank_conflicts,
    blocked,
    cheapest_vector,
    ldmatrix_conflicts,
    ldmatrix_legal,
    ldmatrix_plan,
    mma_accumulator,
    mma_operand_a,
    mma_operand_b,
    row_major,
    sectors,
    swizzled,
    thread_bits,
    vector_width,
)

M16N8K16 = MMA_ATOMS["m16n8k16"]
A_TILE = mma_operand_a((128, 64), M16N8K16, (2, 2))
B_TILE = mma_operand_b((64, 128), M16N8K16, (2, 2))


def one_warp(text: str) -> Layout:
    return Layout.parse(f"layout<{text}>")


@pytest.mark.parametrize(
    ("layout", "shared", "width"),
    [
        (blocked((128, 64), 128, 8), swizzled((128, 64), 16), 8),
        (blocked((128, 64), 128, 4), swizzled((128, 64), 16), 4),
        (blocked((128, 64), 128, 8), row_major((128, 64), 32), 4),  # 16 bytes at most
        (blocked((128, 64), 128, 8), row_major((128, 64), 16, pad=8), 8),
        (blocked((128, 64), 128, 8), row_major((128, 64), 16, pad=2), 2),  # rows start at multiples of 4 bytes
        (blocked((128, 64), 128, 8), row_major((128, 64), 16, pad=1), 1),
        (blocked((128, 64), 128, 8), swizzled((64, 128), 16).permute_dims((1, 0)), 1),
        (A_TILE, swizzled((128, 64), 16), 2),
    ],
)
def test_vector_width(layout: Layout, shared: SharedLayout, width: int) -> None:
    assert vector_width(layout, shared) == width


@pytest.mark.parametrize(
    ("layout", "shared", "vec_bytes", "cycles"),
    [
        # A warp reads a row of 32 words; a column of them; a column with one word of padding.
        (one_warp("32x32; reg 32:1@0; lane 32:1@1"), row_major((32, 32), 32), 4, 1),
        (one_warp("32x32; reg 32:1@1; lane 32:1@0"), row_major((32, 32), 32), 4, 32),
        (one_warp("32x32; reg 32:1@1; lane 32:1@0"), row_major((32, 32), 32, pad=1), 4, 1),
        # Halves of one word are one word.
        (one_warp("32x32; reg 32:1@0; lane 32:1@1"), row_major((32, 32), 16), 2, 1),
        # Everybody the same word.
        (one_warp("32; reg 32:1@0; lane 32:*"), row_major((32,), 32), 4, 1),
        # 8 lanes, 16 bytes each, one per row of 128 B: all in the same 4 banks, or spread by the swizzle.
        (one_warp("8x64; reg 8:1@1, 2:32@1; lane 8:1@0, 4:8@1"), row_major((8, 64), 16), 16, 8),
        (one_warp("8x64; reg 8:1@1, 2:32@1; lane 8:1@0, 4:8@1"), swizzled((8, 64), 16), 16, 1),
        # The same with rows of 64 B: two rows fill the banks.
        (one_warp("8x32; reg 8:1@1; lane 8:1@0, 4:8@1"), row_major((8, 32), 16), 16, 4),
        (one_warp("8x32; reg 8:1@1; lane 8:1@0, 4:8@1"), swizzled((8, 32), 16), 16, 1),
        # 8-byte accesses are served 16 lanes at a time: stride 16 B touches each second pair of banks.
        (one_warp("128x4; reg 2:1@1, 4:32@0, 2:2@1; lane 32:1@0"), row_major((128, 4), 32), 8, 2),
        (one_warp("128x2; reg 2:1@1, 4:32@0; lane 32:1@0"), row_major((128, 2), 32), 8, 1),
        # Columns 0 and 3 of a row are in neighbouring words, columns 1 and 4 two words apart: then the rows, 34 words
        # apart, meet. The worst register counts.
        (one_warp("16x6; reg 3:1@1; lane 2:3@1, 16:1@0"), row_major((16, 6), 16, pad=62), 2, 2),
        # An accumulator written in pairs of f32: rows of 64 words, so 8 rows share 8 banks; or 8 words of padding.
        (mma_accumulator((64, 64), M16N8K16, (4, 1)), row_major((64, 64), 32), 8, 4),
        (mma_accumulator((64, 64), M16N8K16, (4, 1)), row_major((64, 64), 32, pad=8), 8, 1),
    ],
)
def test_bank_conflicts_by_hand(layout: Layout, shared: SharedLayout, vec_bytes: int, cycles: int) -> None:
    assert bank_conflicts(layout, shared, vec_bytes) == cycles


SHARED = [
    swizzled((64, 64), 16),
    swizzled((64, 64), 16, 64),
    swizzled((64, 64), 16, 32),
    row_major((64, 64), 16),
    row_major((64, 64), 16, pad=8),
    row_major((64, 64), 16, pad=2),
    row_major((64, 64), 16, pad=1),
    SharedLayout.parse("shared<64x64xb16; 64:512; 32:16, 2:32896; swizzle 64>"),
    swizzled((64, 64), 16).permute_dims((1, 0)),
]


def brute_force(layout: Layout, shared: SharedLayout, width: int) -> int:
    """Straight from the definition, register by register and warp by warp."""
    dim, nbytes, worst = shared.contiguous_dim, width * 2, 0
    assert dim is not None
    lanes_per_phase = {16: 8, 8: 16}.get(nbytes, 32)
    for warp in range(layout.num_warps):
        for reg in range(layout.num_regs):
            start = layout.coords(reg, 0, 0)[dim]
            if start % width:
                continue
            for phase in range(0, 32, lanes_per_phase):
                words: dict[int, set[int]] = {}
                for lane in range(phase, phase + lanes_per_phase):
                    first = list(layout.coords(reg, lane, warp))
                    for i in range(width):
                        address = shared.offset([c + i * (d == dim) for d, c in enumerate(first)])
                        words.setdefault(address // 4 % 32, set()).add(address // 4)
                worst = max(worst, *map(len, words.values()))
    return worst


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(SHARED),
    st.sampled_from([(0, 1), (1, 0)]),
    st.sampled_from([1, 2, 4, 8]),
    st.permutations(range(3)),
    st.booleans(),
)
def test_bank_conflicts_against_brute_force(
    shared: SharedLayout, order: tuple[int, int], vec: int, lane_order: list[int], split: bool
) -> None:
    layout = blocked((64, 64), 128, vec, order=order)
    lane = [digit for digit in layout.lane if digit.size > 1]
    if split and len(lane) == 2:
        lane.reverse()
    layout = Layout(layout.shape, layout.reg, tuple(lane), layout.warp)
    width = vector_width(layout, shared)
    assert bank_conflicts(layout, shared, 2 * width) == brute_force(layout, shared, width)


@pytest.mark.parametrize("shared", SHARED, ids=str)
@pytest.mark.parametrize("vec", [1, 8])
def test_accesses_touch_every_register_at_its_address(shared: SharedLayout, vec: int) -> None:
    layout = blocked((64, 64), 128, vec)
    width = vector_width(layout, shared)
    plan = accesses(layout, shared, width)
    assert sorted(reg for access in plan for reg in access.registers) == list(range(layout.num_regs))
    for tid in (0, 1, 37, 127):
        base = layout.thread_base(tid)
        for access in plan:
            start = shared.offset([b + o for b, o in zip(base, access.offset, strict=True)])
            if access.split is not None:
                assert start == (shared.offset(base) ^ access.split.xor) + access.split.add
            assert start % (2 * width) == 0
            for i, reg in enumerate(access.registers):
                assert shared.offset(layout.coords(reg, tid % 32, tid // 32)) == start + 2 * i


def test_copies_need_no_address_arithmetic_in_the_loop() -> None:
    plan = accesses(blocked((128, 64), 128, 8), swizzled((128, 64), 16), 8)
    assert [access.split for access in plan] == [(0, 2048 * i) for i in range(8)]


def test_registers_must_come_in_runs() -> None:
    with pytest.raises(LayoutError, match="runs of 8 along dimension 1"):
        accesses(A_TILE, swizzled((128, 64), 16), 8)
    with pytest.raises(LayoutError, match="rank 2 in shared memory of rank 1"):
        vector_width(A_TILE, row_major((64,), 16))


def test_thread_bits() -> None:
    # Rows 0..7 of a block of 16, the second warp along m 64 further; columns 0, 2, 4, 6.
    assert thread_bits(A_TILE) == (0b1000111, 0b110)
    # Multiples of 3 up to 93, from unknown digits: any of the bits below 128.
    assert thread_bits(one_warp("96; reg 3:1@0; lane 32:3@0"))[0] & 127 == 127


@pytest.mark.parametrize(
    ("layout", "width", "element", "share"),
    [
        (mma_accumulator((64, 64), M16N8K16, (4, 1)), 2, 2, 2.0),  # 16 of 32 bytes of each of 8 rows
        (mma_accumulator((64, 64), M16N8K16, (4, 1)), 1, 2, 4.0),
        (mma_accumulator((64, 64), M16N8K16, (4, 1)), 2, 4, 1.0),
        (blocked((64, 64), 128, 8), 8, 2, 1.0),
        (blocked((64, 64), 128, 8), 1, 2, 8.0),
        (blocked((64, 64), 128, 1), 1, 2, 1.0),
    ],
)
def test_sectors(layout: Layout, width: int, element: int, share: float) -> None:
    assert sectors(layout, width, 1, element) == share


@pytest.mark.parametrize(
    ("uses", "vec"),
    [
        ([("load", 8, 2), ("store", 8, 2)], 8),
        ([("load", 1, 2), ("store", 8, 2)], 2),  # two loads from a line, one store of whole sectors
        ([("load", 8, 2), ("store", 1, 2)], 1),
        ([("load", 1, 2), ("shared", 8, 2)], 2),
        ([("load", 4, 2), ("shared", 8, 2)], 4),
        ([("load", 1, 4), ("store", 1, 4)], 1),
        ([("shared", 8, 2)], 8),
        ([("load", 1, 1), ("store", 16, 1)], 4),
        ([], 1),
    ],
)
def test_vectors_that_suit_all(uses: list[tuple[str, int, int]], vec: int) -> None:
    assert cheapest_vector([RowAccess(*use) for use in uses]) == vec


LDMATRIX = [
    pytest.param(A_TILE, swizzled((128, 64), 16), 4, False, 1, id="A"),
    pytest.param(A_TILE, row_major((128, 64), 16), 4, False, 8, id="A, no swizzle"),
    pytest.param(A_TILE, row_major((128, 64), 16, pad=8), 4, False, 1, id="A, padded"),
    pytest.param(A_TILE, swizzled((64, 128), 16).permute_dims((1, 0)), 4, True, 1, id="A stored K x M"),
    pytest.param(B_TILE, swizzled((64, 128), 16), 4, True, 1, id="B"),
    pytest.param(B_TILE, swizzled((128, 64), 16).permute_dims((1, 0)), 4, False, 1, id="B stored N x K"),
    pytest.param(mma_operand_a((64, 96), M16N8K16, (4, 1)), swizzled((64, 96), 16), 4, False, 1, id="A, d = 96"),
    pytest.param(
        mma_operand_b((16, 8), M16N8K16, (1, 1)), swizzled((8, 16), 16).permute_dims((1, 0)), 2, False, 1, id="x2"
    ),
    pytest.param(
        mma_operand_b((8, 8), MMA_ATOMS["m16n8k8"], (1, 1)), row_major((8, 8), 16), 1, True, 1, id="x1, 16-byte rows"
    ),
    pytest.param(
        mma_operand_a((64, 64), MMA_ATOMS["m16n8k32.b8"], (4, 1)), swizzled((64, 64), 8), 4, False, 1, id="A, 8 bits"
    ),
    pytest.param(
        mma_operand_a((64, 32), MMA_ATOMS["m16n8k8.tf32"], (2, 2)), swizzled((64, 32), 32), 4, False, 1, id="A, tf32"
    ),
    pytest.param(mma_accumulator((64, 64), M16N8K16, (4, 1)), swizzled((64, 64), 16), 4, False, 1, id="C, stmatrix"),
]


@pytest.mark.parametrize(("layout", "shared", "count", "trans", "cycles"), LDMATRIX)
def test_ldmatrix_delivers_the_fragments(
    layout: Layout, shared: SharedLayout, count: int, trans: bool, cycles: int
) -> None:
    """Executes the plan as the PTX ISA describes ldmatrix and looks at what lands in which register."""
    plan = ldmatrix_plan(layout, shared)
    assert plan is not None
    assert (plan.count, plan.trans, ldmatrix_conflicts(plan, shared)) == (count, trans, cycles)
    size = shared.element_bits // 8
    coords_at = np.full((shared.size_bytes // size, 2), -1)
    for row in range(shared.shape[0]):
        for column in range(shared.shape[1]):
            coords_at[shared.offset((row, column)) // size] = (row, column)
    filled = 0
    for warp in range(layout.num_warps):
        for access in plan.accesses:
            matrices = []
            for index in range(count):
                rows = []
                for lane in range(8 * index, 8 * index + 8):
                    at = list(access.offset)
                    for divisor, extent, dim, stride in plan.rows:
                        assert dim is not None
                        at[dim] += (lane + 32 * warp) // divisor % extent * stride
                    start = shared.offset(at)
                    assert start % 16 == 0
                    rows.append(coords_at[start // size : start // size + 16 // size])
                matrices.append(np.array(rows))
            for lane in range(32):
                for matrix, registers in zip(matrices, access.registers, strict=True):
                    if trans:
                        got = [matrix[2 * (lane % 4), lane // 4], matrix[2 * (lane % 4) + 1, lane // 4]]
                    else:
                        packed = 4 // size
                        got = list(matrix[lane // 4, packed * (lane % 4) : packed * (lane % 4) + packed])
                    assert [tuple(g) for g in got] == [layout.coords(reg, lane, warp) for reg in registers]
                    filled += len(registers)
    assert filled == layout.num_regs * layout.threads


def test_ldmatrix_rows_step_by_xor_along_k_and_immediates_along_m() -> None:
    plan = ldmatrix_plan(A_TILE, swizzled((128, 64), 16))
    assert plan is not None
    assert [access.split for access in plan.accesses[:5]] == [(0, 0), (32, 0), (64, 0), (96, 0), (0, 2048)]
    assert plan.accesses[0].registers == ((0, 1), (2, 3), (4, 5), (6, 7))


@pytest.mark.parametrize(
    ("layout", "shared"),
    [
        (blocked((128, 64), 128, 8), swizzled((128, 64), 16)),  # not a fragment's lanes
        (A_TILE, row_major((128, 64), 16, pad=4)),  # rows start at multiples of 8 bytes
        (mma_operand_a((64, 64), MMA_ATOMS["m16n8k32.b8"], (4, 1)), swizzled((64, 64), 8).permute_dims((1, 0))),
        (mma_operand_a((64, 32), MMA_ATOMS["m16n8k8.tf32"], (2, 2)), swizzled((32, 64), 32).permute_dims((1, 0))),
        (A_TILE.with_shape((120, 64)), swizzled((120, 64), 16)),  # masked rows
        (mma_operand_a((64, 32), MMA_ATOMS["m8n8k4.f64"], (4, 1)), swizzled((64, 32), 64)),
    ],
)
def test_what_ldmatrix_cannot_do(layout: Layout, shared: SharedLayout) -> None:
    assert not ldmatrix_legal(layout, shared)
    assert ldmatrix_plan(layout, shared) is None
