"""A few of the random tile programs; `make fuzz` runs them by the thousand."""

from __future__ import annotations

import pytest

from tests.fuzz.tile_programs import SCHEDULES, check, write

QUICK = (2, 6, 7, 9, 20, 37)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("seed", QUICK)
def test_a_few(seed: int, target: str) -> None:
    check(write(seed), target, SCHEDULES[seed % 3 :][:1])


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("start", range(100, 160, 10))
def test_more(start: int, target: str) -> None:
    for seed in range(start, start + 10):
        check(write(seed), target)


def test_the_generator_reaches_tensor_cores_by_tma() -> None:
    """Enough of the programs are such that sm_90a takes roles, TMA and wgmma."""
    from pathlib import Path
    from tempfile import TemporaryDirectory

    import minitile as mt
    from tests.fuzz.tile_programs import arrays, load

    reached = 0
    for seed in range(20):
        program = write(seed)
        with TemporaryDirectory() as folder:
            specs = [mt.spec(array.shape, array.dtype.name) for array in arrays(program).values()]
            reached += "wgmma" in load(program, Path(folder)).compile(*specs, target="sm_90a").asm["ptx"]
    assert reached >= 5
