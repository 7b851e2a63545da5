"""The examples are clean under every schedule: copies that land at once, as late as they may, or at random times.

A finding on one of these would be an error of the compiler or a false alarm of the race model.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.examples.gemm_forms import FORMS, HOPPER, everywhere
from tests.examples.mutation_cases import CASES, MANY, compiled_case

SCHEDULES = [("eager", 0), ("lazy", 0), *(("random", seed) for seed in range(20))]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "target"), [*((name, target) for name in (*CASES, *MANY) for target in ("sm_80", "sm_90a")), *everywhere()]
)
def test_clean(name: str, target: str) -> None:
    compiled, values = compiled_case({**CASES, **MANY, **FORMS, **HOPPER}[name], target)
    expected: list[Any] | None = None
    for schedule, seed in SCHEDULES:
        given = [value.copy() if isinstance(value, np.ndarray) else value for value in values]
        compiled.simulate(*given, schedule=schedule, seed=seed)
        if expected is None:
            expected = given
        for found, want in zip(given, expected, strict=True):  # bytes: what is not written is still NaN
            assert np.asarray(found).tobytes() == np.asarray(want).tobytes(), (schedule, seed)
