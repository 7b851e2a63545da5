"""tcgen05 products with block scales, and tcgen05.cp, in the simulator against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sim.ptx import blackwell, blackwell_pair
from tests.sim.ptx.blackwell_scaled import Format, Problem, one, pair
from tests.sim.ptx.test_tcgen05 import SCHEDULES

FORMATS = [
    Format("mxf8f6f4", "", "e4m3", "e4m3", "ue8m0", 1),
    Format("mxf8f6f4", ".scale_vec::1X", "e5m2", "e4m3", "ue8m0", 1),
    Format("mxf8f6f4", ".block32", "e4m3", "e5m2", "ue8m0", 1),
    Format("mxf4", ".scale_vec::2X", "e2m1", "e2m1", "ue8m0", 2),
    Format("mxf4", "", "e2m1", "e2m1", "ue8m0", 2),
    Format("mxf4nvf4", ".block32", "e2m1", "e2m1", "ue8m0", 2),
    Format("mxf4nvf4", ".scale_vec::4X", "e2m1", "e2m1", "ue4m3", 4),
    Format("mxf4nvf4", ".block16", "e2m1", "e2m1", "ue8m0", 4),
]
NAMES = [f"{each.kind}{each.vector or '.default'}.{each.scale}" for each in FORMATS]


@pytest.mark.parametrize("form", FORMATS, ids=NAMES)
def test_formats(form: Format) -> None:
    problem = Problem(form, 128, 64, 3)
    program, args = one(problem)
    text = blackwell.text_of(program, pointers=4)
    blackwell.assembles(text)
    report = blackwell.simulate(text, args)
    assert not report.findings, str(report.findings[0])
    np.testing.assert_allclose(args[2], problem.exact, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("n", [8, 40, 64])
def test_columns_of_b(n: int, schedule: str) -> None:
    problem = Problem(FORMATS[0], 128, n, n)
    program, args = one(problem)
    report = blackwell.simulate(blackwell.text_of(program, pointers=4), args, schedule=schedule, seed=n)
    assert not report.findings, str(report.findings[0])
    np.testing.assert_allclose(args[2], problem.exact, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("form", [FORMATS[0], FORMATS[6]], ids=["mxf8", "nvf4"])
@pytest.mark.parametrize("m", [128, 256])
def test_pairs(m: int, form: Format, schedule: str) -> None:
    problem = Problem(form, m, 64, m)
    program, args = pair(problem)
    text = blackwell_pair.text_of(program, pointers=4)
    blackwell.assembles(text)
    report = blackwell_pair.simulate(text, args, schedule=schedule, seed=2)
    assert not report.findings, str(report.findings[0])
    np.testing.assert_allclose(blackwell_pair.rows_of(args[2], m), problem.exact, rtol=1e-5, atol=1e-4)
