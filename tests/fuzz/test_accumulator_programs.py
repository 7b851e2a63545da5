"""Products and elementwise operations on the same accumulators: none is serialised, and the results are sm_80's."""

from __future__ import annotations

import pytest

from minitile.backends.nvidia.assemble import find_ptxas
from tests.fuzz import accumulator_programs

pytestmark = pytest.mark.skipif(find_ptxas("wgmma") is None, reason="needs a ptxas")


@pytest.mark.parametrize(("seed", "mode"), list(zip((3, 4), accumulator_programs.MODES, strict=True)))
def test_a_few(seed: int, mode: str) -> None:
    accumulator_programs.check(seed, mode)


@pytest.mark.slow
@pytest.mark.parametrize("mode", accumulator_programs.MODES)
@pytest.mark.parametrize("start", range(100, 160, 10))
def test_more(start: int, mode: str) -> None:
    for seed in range(start, start + 10):
        accumulator_programs.check(seed, mode)
