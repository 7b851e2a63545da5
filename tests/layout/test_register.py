"""Register layouts: rules, normal form, text, and what follows from one layout, on worked examples."""

from __future__ import annotations

import pytest

from minitile.layout import Digit, Layout, LayoutError, blocked, replicated
from minitile.layout.register import Slot

ACCUMULATOR = Layout.parse("layout<64x32; reg 2:1@1, 2:8@0, 4:8@1; lane 4:2@1, 8:1@0; warp 4:16@0>")


def layout(text: str) -> Layout:
    return Layout.parse(f"layout<{text}>")


def test_coordinates_of_an_accumulator() -> None:
    # Lane 5 is row 1, columns 2 and 3 of its 16x8 block; register 2 is 8 rows down, register 4 is 8 columns right.
    assert ACCUMULATOR.coords(0, 5, 0) == (1, 2)
    assert ACCUMULATOR.coords(1, 5, 0) == (1, 3)
    assert ACCUMULATOR.coords(2, 5, 0) == (9, 2)
    assert ACCUMULATOR.coords(4, 5, 3) == (49, 10)
    assert ACCUMULATOR.owner((49, 10)) == Slot(4, 5, 3)
    assert (ACCUMULATOR.num_regs, ACCUMULATOR.num_lanes, ACCUMULATOR.num_warps) == (16, 32, 4)
    assert (ACCUMULATOR.threads, ACCUMULATOR.rank, ACCUMULATOR.replication) == (128, 2, 1)
    assert ACCUMULATOR.covers_exactly()
    assert not ACCUMULATOR.is_replicated()


def test_register_offsets_are_in_register_order() -> None:
    assert ACCUMULATOR.register_offsets()[:6] == ((0, 0), (0, 1), (8, 0), (8, 1), (0, 8), (0, 9))


def test_thread_digits_merge_across_lanes_and_warps() -> None:
    assert layout("256; reg 2:1@0; lane 32:2@0; warp 4:64@0").thread_digits() == ((1, 128, 0, 2),)
    assert ACCUMULATOR.thread_digits() == ((1, 4, 1, 2), (4, 8, 0, 1), (32, 4, 0, 16))


def test_quotient_of_an_accumulator_is_a_row_vector() -> None:
    rows = ACCUMULATOR.quotient(1)
    assert str(rows) == "layout<64; reg 2:8@0; lane 4:*, 8:1@0; warp 4:16@0>"
    assert rows.replica_digits() == ((1, 4, None, 0),)
    assert rows.thread_digits() == ((4, 8, 0, 1), (32, 4, 0, 16))
    assert rows.owner((57,)) == Slot(reg=1, lane=4, warp=3)
    columns = ACCUMULATOR.quotient(0)
    assert str(columns) == "layout<32; reg 2:1@0, 4:8@0; lane 4:2@0, 8:*; warp 4:*>"
    assert columns.replica_digits() == ((4, 32, None, 0),)
    assert str(rows.quotient(0)) == "layout<scalar; lane 32:*; warp 4:*>"


def test_broadcast_source_keeps_the_rank() -> None:
    assert str(ACCUMULATOR.broadcast_source([1])) == "layout<64x1; reg 2:8@0; lane 4:*, 8:1@0; warp 4:16@0>"
    assert ACCUMULATOR.broadcast_source([]) == ACCUMULATOR


def test_expand_undoes_quotient() -> None:
    rows = ACCUMULATOR.quotient(1)
    assert rows.expand(1, 32, like=ACCUMULATOR) is ACCUMULATOR
    made = rows.expand(1, 32, vec=2)
    assert str(made) == "layout<64x32; reg 2:1@1, 2:8@0, 4:8@1; lane 4:2@1, 8:1@0; warp 4:16@0>"
    assert rows.expand(0, 5, like=ACCUMULATOR).quotient(0) == rows


def test_normal_form_64x8_twelve_times_is_64x16_six_times() -> None:
    def repeated(columns: int, count: int) -> Layout:
        reg = (Digit(2, 1, 1), Digit(2, 0, 8), Digit(columns // 8, 1, 8), Digit(count, 1, columns))
        return Layout((64, 96), reg, (Digit(4, 1, 2), Digit(8, 0, 1)), (Digit(4, 0, 16),))

    assert repeated(8, 12) == repeated(16, 6)
    assert hash(repeated(8, 12)) == hash(repeated(16, 6))
    assert repeated(8, 12).reg[-1] == Digit(12, 1, 8)
    assert repeated(8, 12) != repeated(8, 12).with_shape((64, 90))


def test_normal_form_drops_ones_and_merges_replicas() -> None:
    given = Layout((4,), (Digit(1, 0, 1),), (Digit(2, None, 0), Digit(16, None, 0)), (Digit(4, 0, 1), Digit(1, 0, 99)))
    assert str(given) == "layout<4; lane 32:*; warp 4:1@0>"


def test_partial_cover() -> None:
    assert not layout("100; lane 32:1@0; warp 4:32@0").covers_exactly()
    assert layout("100; lane 32:1@0; warp 4:32@0").extents == (128,)
    over_384 = layout("100x3; lane 32:1@0; warp 4:32@0, 3:1@1")
    assert over_384.threads == 384
    assert over_384.thread_base(383) == (127, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("64; lane 32:1@0", r"digits of dimension 0 cover 32 of its 64"),
        ("64; reg 2:1@0; lane 32:1@0", r"digit 32:1@0 overlaps .* cover 0\.\.1"),
        ("64; reg 2:1@0; lane 32:4@0", r"digit 32:4@0 leaves a gap after .* cover 0\.\.1"),
        ("16; lane 16:1@0", r"lanes 16:1@0 multiply to 16"),
        ("64; reg 2:*; lane 32:1@0; warp 2:32@0", r"registers do not replicate"),
        ("32; lane 32:1@1", r"names dimension 1 of a tile of rank 1"),
        ("0; lane 32:*", r"sizes are at least 1"),
        ("4; reg 4=1; lane 32:*", r"not a digit: '4=1'"),
        ("4: lane", r"not a layout"),
    ],
)
def test_what_breaks_a_rule_is_refused(text: str, message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        layout(text)


def test_a_replicated_digit_has_no_stride() -> None:
    with pytest.raises(LayoutError, match="stride 0, not 4"):
        Layout((1,), (), (Digit(32, None, 4),), ())
    with pytest.raises(LayoutError, match="size is at least 1"):
        Layout((1,), (Digit(0, 0, 1),), (Digit(32, None, 0),), ())


def test_wavefronts_have_64_lanes() -> None:
    assert layout("64; lane 64:1@0").num_lanes == 64
    assert blocked((256, 64), 256, 8, lanes=64).num_lanes == 64


def test_permute_dims() -> None:
    transposed = ACCUMULATOR.permute_dims((1, 0))
    assert transposed.shape == (32, 64)
    assert transposed.coords(4, 5, 3) == (10, 49)
    assert transposed.permute_dims((1, 0)) == ACCUMULATOR
    with pytest.raises(LayoutError, match="not a permutation of the 2 dimensions"):
        ACCUMULATOR.permute_dims((0, 0))


@pytest.mark.parametrize(
    ("text", "dim", "most", "width"),
    [
        ("128x64; reg 8:1@1, 8:16@0; lane 8:8@1, 4:1@0; warp 4:4@0", -1, 16, 8),
        ("128x64; reg 8:1@1, 8:16@0; lane 8:8@1, 4:1@0; warp 4:4@0", -1, 4, 4),
        ("128x64; reg 8:1@1, 8:16@0; lane 8:8@1, 4:1@0; warp 4:4@0", 0, 16, 1),
        ("64x32; reg 2:8@0, 2:1@1, 4:8@1; lane 4:2@1, 8:1@0; warp 4:16@0", 1, 16, 2),  # not the fastest register
        ("32x4; reg 2:2@1, 2:1@1; lane 32:1@0", 1, 16, 4),  # in the wrong order
        ("32x12; reg 12:1@1; lane 32:1@0", 1, 16, 4),
        ("32x10; reg 12:1@1; lane 32:1@0", 1, 16, 2),  # a wider one would straddle the edge
        ("32x6; reg 3:1@1, 2:3@1; lane 32:1@0", 1, 16, 2),
        ("scalar; lane 32:*", -1, 16, 1),
    ],
)
def test_vector_width(text: str, dim: int, most: int, width: int) -> None:
    assert layout(text).vector_width(dim, most) == width


def test_register_orders() -> None:
    mixed = layout("64x32; reg 2:8@0, 4:8@1, 2:1@1; lane 4:2@1, 8:1@0; warp 4:16@0")
    assert mixed.same_threads(ACCUMULATOR)
    assert mixed != ACCUMULATOR
    assert mixed.sorted_registers(1).reg == (Digit(2, 1, 1), Digit(4, 1, 8), Digit(2, 0, 8))
    assert mixed.sorted_registers(0).reg == (Digit(2, 0, 8), Digit(2, 1, 1), Digit(4, 1, 8))
    assert mixed.with_register_order(ACCUMULATOR.reg) == ACCUMULATOR
    with pytest.raises(LayoutError, match="no reordering"):
        layout("32x8; reg 8:1@1; lane 32:1@0").with_register_order((Digit(16, 1, 1),))


def test_replicated() -> None:
    assert str(replicated((2, 3), 64)) == "layout<2x3; reg 3:1@1, 2:1@0; lane 32:*; warp 2:*>"


def test_dimensions_out_of_range_are_named() -> None:
    with pytest.raises(LayoutError, match="dimension 2 of a tile of rank 2"):
        ACCUMULATOR.quotient(2)
    with pytest.raises(LayoutError, match="insert dimension 3"):
        ACCUMULATOR.expand(3, 4)
