"""The plans that benchmarks/sweep_memory.py compares: no sweep and no plan twice, and kernels that exist."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.memory_bound.frames import bf16, exact, random


@pytest.fixture
def sweeps():
    import sweep_memory

    return {sweep.name: sweep for sweep in sweep_memory.sweeps()}


def test_names_and_plans(sweeps):
    import sweep_memory

    assert len(sweeps) == len(list(sweep_memory.sweeps()))
    for sweep in sweeps.values():
        assert len(set(sweep.plans)) == len(sweep.plans) > 1


@pytest.mark.parametrize("name", ["transpose 4096x16384", "column_sums 16384x4096", "cumsum 4096x16384"])
def test_plans_of_other_sizes(sweeps, name):
    """Plans are right for what they were not made for, too."""
    sweep, x = sweeps[name], random(1, 17, 72, dtype=bf16)
    if name.startswith("cumsum"):
        x = random(1, 2, 16384, dtype=bf16)
    right = {"transpose": np.transpose, "column_sums": lambda x: x.sum(0), "cumsum": lambda x: x.cumsum(-1)}
    for plan in (sweep.plans[0], sweep.plans[-1]):
        found = exact(sweep.call(x, plan))
        np.testing.assert_allclose(found, right[name.split()[0]](exact(x)), rtol=1e-2, atol=1e-2)
