"""Free layouts: what comes out for ordinary, odd and small tiles."""

from __future__ import annotations

import pytest

from minitile.layout import LayoutError, blocked, coalesced, crossed, row_blocked


@pytest.mark.parametrize(
    ("shape", "threads", "vec", "digits"),
    [
        ((128, 64), 128, 8, "128x64; reg 8:1@1, 8:16@0; lane 8:8@1, 4:1@0; warp 4:4@0"),
        ((1024,), 128, 4, "1024; reg 4:1@0, 2:512@0; lane 32:4@0; warp 4:128@0"),
        ((100,), 128, 1, "100; lane 32:1@0; warp 4:32@0"),
        ((64, 96), 384, 8, "64x96; reg 8:1@1, 2:32@0; lane 4:8@1, 8:1@0; warp 3:32@1, 4:8@0"),
        ((8, 8), 128, 1, "8x8; lane 8:1@1, 4:1@0; warp 2:4@0, 2:*"),
        ((1,), 64, 1, "1; lane 32:*; warp 2:*"),
        ((), 128, 1, "scalar; lane 32:*; warp 4:*"),
        ((3,), 32, 4, "3; reg 3:1@0; lane 32:*"),
    ],
)
def test_blocked(shape: tuple[int, ...], threads: int, vec: int, digits: str) -> None:
    assert str(blocked(shape, threads, vec)) == f"layout<{digits}>"


def test_row_blocked_keeps_a_row_in_a_warp() -> None:
    assert str(row_blocked((16, 1024), 128, 8)) == "layout<16x1024; reg 8:1@1, 4:256@1, 4:4@0; lane 32:8@1; warp 4:1@0>"
    assert str(blocked((16, 1024), 128, 8)) == "layout<16x1024; reg 8:1@1, 16:1@0; lane 32:8@1; warp 4:256@1>"


def test_order_chooses_the_fastest_dimension() -> None:
    assert str(blocked((64, 32), 64, 2, order=(0, 1))) == "layout<64x32; reg 2:1@0, 16:2@1; lane 32:2@0; warp 2:1@1>"
    with pytest.raises(LayoutError, match=r"order \(0, 0\)"):
        blocked((64, 32), 64, 2, order=(0, 0))


@pytest.mark.parametrize(
    ("shape", "threads", "vec", "order", "lanes", "digits"),
    [
        ((64, 256), 256, 8, None, 32, "64x256; reg 8:1@1, 8:1@0; lane 8:8@1, 4:8@0; warp 2:32@0, 4:64@1"),
        ((64, 128), 64, 4, (0, 1), 32, "64x128; reg 4:1@0, 4:1@1, 2:32@0, 4:32@1; lane 8:4@0, 4:4@1; warp 2:16@1"),
        ((32, 16), 32, 4, None, 32, "32x16; reg 4:1@1, 4:1@0; lane 4:4@1, 8:4@0"),
        ((128, 128), 64, 4, None, 64, "128x128; reg 4:1@1, 4:1@0, 4:32@1, 4:32@0; lane 8:4@1, 8:4@0"),
    ],
)
def test_crossed_has_vectors_both_ways(shape, threads, vec, order, lanes, digits):
    assert str(crossed(shape, threads, vec, vec, order, lanes)) == f"layout<{digits}>"


@pytest.mark.parametrize(
    ("shape", "threads", "bits", "vec"),
    [((128, 64), 128, 16, 8), ((128, 64), 128, 32, 4), ((1024,), 256, 16, 4), ((64, 10), 64, 16, 2), ((3,), 32, 8, 1)],
)
def test_coalesced_picks_the_vector(shape: tuple[int, ...], threads: int, bits: int, vec: int) -> None:
    assert coalesced(shape, threads, bits).vector_width() == vec


def test_threads_come_in_whole_warps() -> None:
    with pytest.raises(LayoutError, match="100 threads are not a positive multiple of 32"):
        blocked((128,), 100)
    with pytest.raises(LayoutError, match="at least 1 element, not 0"):
        blocked((128,), 128, 0)
