"""The candidates of benchmarks/sweep_scans.py are right: sizes that do not fit, and the same bits in any order."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.ops.memory_bound.frames import bf16, f32, random

SCHEDULES = (("lazy", 0), ("random", 1), ("random", 2), ("eager", 0))


@pytest.fixture
def variants():
    import scan_variants

    return scan_variants


def simulated(kernel, arrays, schedules=SCHEDULES[:1], zeros=(), target="sm_90a", **constants):
    """The last array, first full of NaN, as the kernel fills it on each of these schedules."""
    compiled = kernel.compile(*arrays, target=target, **constants)
    results = []
    for schedule, seed in schedules:
        arrays[-1][...] = np.nan
        for array in zeros:
            array[...] = 0
        compiled.simulate(*arrays, schedule=schedule, seed=seed)
        results.append(arrays[-1].copy())
    for result in results[1:]:
        np.testing.assert_array_equal(result.view(np.uint8), results[0].view(np.uint8))
    return results[0]


@pytest.mark.parametrize("shape", [(1, 1), (17, 67), (40, 72)])
@pytest.mark.parametrize("options", [{"panel": 2}, {"minimum": 8}, {"blocks": 3}])
def test_transposes(variants, shape, options):
    m, n = shape
    x, y = random(1, 1, m, n, dtype=bf16), np.zeros((1, n, m), bf16)
    found = simulated(variants.turn_squares, (x, y), block_M=16, block_N=32, threads=32, **options)
    np.testing.assert_array_equal(found.view(np.int16), np.swapaxes(x, 1, 2).view(np.int16))


def sums_are_right(y, x):
    """Of as many terms, by halves, and rounded to bf16 in the end."""
    right, size = np.cumsum(x.astype(float), -1), np.cumsum(np.abs(x.astype(float)), -1)
    assert (np.abs(y.astype(float) - right) <= 2.0**-8 * np.abs(right) + 2.0**-19 * size + 1e-30).all()


@pytest.mark.parametrize("n", [1, 17, 1000, 1009])
def test_rows(variants, n):
    x, y = random(2, 5, n, dtype=bf16), np.zeros((5, n), bf16)
    columns = 256 * math.ceil(n / 256)
    for minimum in (0, 4):
        constants = {"columns": columns, "threads": 64, "minimum": minimum}
        sums_are_right(simulated(variants.scan_rows, (x, y), **constants), x)
        sums_are_right(simulated(variants.scan_staged, (x, y), blocks=2, **constants), x)


@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 17), (2, 1000), (1, 2179)])
@pytest.mark.parametrize("form", ["ticket", "ahead"])
def test_pieces(variants, m, n, form):
    """More groups of pieces than one, in any order; more blocks than pieces."""
    piece, threads = 64, 32
    x, y = random(3, m, n, dtype=bf16), np.zeros((m, n), bf16)
    pieces = math.ceil(n / piece)
    state = np.zeros(1 + m * (pieces + math.ceil(pieces / threads)), np.int64)
    compiled = {"ticket": variants.scan_pieces, "ahead": variants.scan_ahead}[form].compile(
        x, y, state, target="sm_90a", piece=piece, threads=threads, **({"blocks": 3} if form == "ahead" else {})
    )
    results = []
    for schedule, seed in SCHEDULES:
        y[...], state[...] = np.nan, 0
        compiled.simulate(x, y, state, schedule=schedule, seed=seed)
        results.append(y.copy())
    sums_are_right(results[0], x)
    for result in results[1:]:
        np.testing.assert_array_equal(result.view(np.int16), results[0].view(np.int16))


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (17, 1000), (150, 136), (67, 17)])
def test_column_sums(variants, shape, staged):
    m, n = shape
    x, y, parts = random(4, m, n, dtype=bf16), np.zeros(n, f32), np.zeros((3, n), f32)
    constants = {"rows": 4, "columns": 64, "threads": 32, "minimum": 2}
    constants |= {"deep": 16, "stages": 2} if staged else {"ahead": 2}
    right = x.astype(float).sum(0)
    together = simulated(variants.sums_together, (x, y), SCHEDULES, cluster=4, **constants)
    np.testing.assert_allclose(together, right, rtol=1e-5, atol=1e-4)
    apart = simulated(variants.sums_apart, (x, parts), **constants)
    np.testing.assert_allclose(apart.astype(float).sum(0), right, rtol=1e-5, atol=1e-4)
    if not staged:
        done = np.zeros(math.ceil(n / 64), np.int32)
        last = simulated(variants.sums_last, (x, parts, done, y), SCHEDULES, split=3, **constants)
        np.testing.assert_allclose(last, right, rtol=1e-5, atol=1e-4)
        assert not done.any()


def test_constants_are_those_of_the_kernels():
    """All contenders are made, and none of them twice."""
    import sweep_scans

    for make in (
        lambda: sweep_scans.sums(64, 512),
        lambda: sweep_scans.rows(16384),
        lambda: sweep_scans.transposes(8, 8),
    ):
        names = [contender.name for contender in make().contenders]
        assert len(set(names)) == len(names) > 8
