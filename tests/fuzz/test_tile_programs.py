"""A few of the random programs; `make fuzz` runs them by the thousand."""

from __future__ import annotations

import pytest

from tests.fuzz import role_programs
from tests.fuzz.tile_programs import SCHEDULES, Writer, check, write

QUICK = (2, 6, 7, 9, 20, 37)


@pytest.mark.few_cases
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("seed", QUICK)
def test_a_few(seed: int, target: str) -> None:
    check(write(seed), target, SCHEDULES[seed % 3 :][:1])


@pytest.mark.parametrize("seed", [66, 104])
def test_stores_to_tensor_memory(seed: int) -> None:
    """Over another store; and to what the issuer would multiply into, which then is not the issuer's."""
    check(write(seed), "sm_100a", SCHEDULES[:1])


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("start", range(100, 160, 10))
def test_more(start: int, target: str) -> None:
    for seed in range(start, start + 10):
        check(write(seed), target)


@pytest.mark.parametrize("seed", range(6))
def test_explicit_roles(seed: int) -> None:
    role_programs.check(role_programs.write(seed), SCHEDULES[seed % 3 :][:1])


def test_the_generators_vary() -> None:
    """What the handovers of roles can be, and persistent kernels."""
    texts = [role_programs.write(seed).text for seed in range(60)]
    for part in ("wait_wgmma(1)", "T.Parallel(BM, BK)", "shuffle_elect", "first = t * trips", "tma_store_wait"):
        assert any(part in text for text in texts), part
    writers = [Writer(seed) for seed in range(60)]
    assert any(w.blocks is not None and w.tame for w in writers)


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
