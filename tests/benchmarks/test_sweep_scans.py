"""The candidates of benchmarks/sweep_scans.py are right, also of sizes that do not fit."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.memory_bound.frames import bf16, random

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
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("turn_squares", {"panel": 2, "beside": 8}),
        ("turn_squares", {"panel": 1 << 20, "load": "evict_first"}),
        ("turn_tile", {"panel": 1 << 20, "store": "evict_first"}),
        ("turn_tile", {"bulk": True}),
    ],
)
def test_transposes(variants, shape, name, options):
    m, n = shape
    x, y = random(1, 1, m, n, dtype=bf16), np.zeros((1, n, m), bf16)
    kernel = getattr(variants, name)
    found = simulated(kernel, (x, y), SCHEDULES, block_M=16, block_N=32, threads=32, **options)
    np.testing.assert_array_equal(found.view(np.int16), np.swapaxes(x, 1, 2).view(np.int16))


def test_contenders_are_made():
    """None of them twice."""
    import sweep_scans

    for make in sweep_scans.PROBLEMS.values():
        names = [contender.name for contender in make().contenders]
        assert len(set(names)) == len(names) > 1
