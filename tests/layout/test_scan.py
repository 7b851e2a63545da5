"""The levels of scans: each joins whole neighbours, and all of them together the whole dimension."""

from __future__ import annotations

import math

import pytest

from minitile.layout import Layout, blocked, row_blocked, scan_blocked, scan_levels


@pytest.mark.parametrize("shape", [(1024,), (3, 1000), (64, 24), (5, 7, 9), (1, 1)])
@pytest.mark.parametrize(("threads", "lanes"), [(64, 32), (384, 32), (256, 64)])
@pytest.mark.parametrize("make", [blocked, row_blocked, scan_blocked])
def test_levels(shape, threads, lanes, make):
    layout = make(shape, threads, 4, None, lanes)
    for dim in range(len(shape)):
        levels = scan_levels(layout, dim)
        assert math.prod(level.size for level in levels) == layout.extents[dim]
        reached = 1
        for level in levels:
            for of, unit in ((level.before, reached), (level.after, reached * level.size)):
                assert of.shape == of.extents
                assert of.shape[dim] * unit == layout.extents[dim]
                for warp in range(of.num_warps):
                    for lane in (0, 1, of.num_lanes - 1):
                        there = {layout.coords(reg, lane, warp)[dim] // unit for reg in range(layout.num_regs)}
                        assert {of.coords(reg, lane, warp)[dim] for reg in range(of.num_regs)} == there
            reached *= level.size


def test_what_is_gathered():
    layout = Layout.parse("layout<1x1024; reg 4:1@1, 2:512@1; lane 32:4@1; warp 4:128@1>")
    levels = scan_levels(layout, 1)
    assert [(level.place, level.size, level.divisor) for level in levels] == [
        ("reg", 4, 0),
        ("lane", 32, 1),
        ("warp", 4, 32),
        ("reg", 2, 0),
    ]
    assert str(levels[2].before) == "layout<1x8; reg 2:4@1; lane 32:*; warp 4:1@1>"
    assert str(levels[2].gathered) == "layout<1x8; reg 8:1@1; lane 32:*; warp 4:*>"


@pytest.mark.parametrize("shape", [(8192,), (3, 1000), (64, 24), (1, 5000)])
def test_warps_have_neighbours(shape):
    layout = scan_blocked(shape, 256, 4)
    assert {d.dim: d.size for d in layout.warp} == {d.dim: d.size for d in row_blocked(shape, 256, 4).warp}
    places = [level.place for level in scan_levels(layout, len(shape) - 1)]
    assert "warp" not in places[:-1]
    if shape == (8192,):
        assert str(layout) == "layout<8192; reg 4:1@0, 8:128@0; lane 32:4@0; warp 8:1024@0>"
