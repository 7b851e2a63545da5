"""GEMM on both targets, as it is emitted: bf16 and f16, NT, NN and TN, sizes that no tile divides, one to five tiles
along K, whole and partial, under every schedule of memory. Always a few of each, all combinations in the slow test."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("llvmlite")
sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))

import gemm
from support import error

SCHEDULES = [("lazy", 0), ("eager", 0), ("random", 0), ("random", 1)]
TILE = {"block_M": 32, "block_N": 32, "block_K": 32, "num_stages": 2, "threads": 64}
FORMS = {"NT": (False, True), "NN": (False, False), "TN": (True, False)}
TARGETS = ("gfx942", "gfx950")
# Rows of whole 16 bytes, which gfx950 copies by LDS-DMA, and others; what a partial tile along K lacks of 32.
SIZES = [(40, 24, 0), (29, 37, 5)]
TILES = (1, 2, 3, 4, 5)
Schedules = Iterable[tuple[str, int]]


def check(target: str, name: str, form: str, size: tuple[int, int, int], tiles: int, schedules: Schedules) -> None:
    ta, tb = FORMS[form]
    dtype, accumulate, element, bound = gemm.DTYPES[name]
    m, n, lacking = size
    k = 32 * tiles - lacking
    rng = np.random.default_rng(tiles)
    a = rng.standard_normal((k, m) if ta else (m, k)).astype(element)
    b = rng.standard_normal((n, k) if tb else (k, n)).astype(element)
    exact = (a.T if ta else a).astype(np.float64) @ (b.T if tb else b).astype(np.float64)
    c = np.full((m, n), np.nan, element)
    kernel = gemm.make_gemm(dtype, accumulate, dtype, ta, tb).compile(a, b, c, target=target, **TILE)
    by_dma = any("buffer_load" in line and line.endswith("lds") for line in kernel.text.splitlines())
    assert by_dma == (target == "gfx950" and not lacking)
    for schedule, seed in schedules:
        c[:] = np.nan
        kernel.simulate(a, b, c, schedule=schedule, seed=seed)
        assert error(c, exact) <= bound


@pytest.mark.few_cases
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("target", TARGETS)
def test_some(target, form):
    for number, tiles in enumerate(TILES, len(form + target) + ord(form[0])):
        check(target, ("bf16", "f16")[number % 2], form, SIZES[number // 2 % 2], tiles, [SCHEDULES[number % 4]])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "form"), [*itertools.product(("bf16", "f16"), FORMS)])
@pytest.mark.parametrize("target", TARGETS)
def test_all(target, name, form):
    for size, tiles in itertools.product(SIZES, TILES):
        check(target, name, form, size, tiles, SCHEDULES)
