"""No mutant of a proved kernel that the simulator finds faulty is proved: a sample (escapes.py has them all)."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.proof.escapes import every, filled, summary, verdicts


def test_a_summary():
    where = "line 3: missing_wait (RAW): {} memory: a bulk copy may still be writing this"
    found = [("fault: A", ""), ("refused: b", ""), ("", ""), ("", where.format("global")), ("", where.format("shared"))]
    said = summary([{"prover": why, "simulator": seen} for why, seen in found])
    assert said == (
        "5 mutants: 1 fault, 3 proved, 1 refused; of the proved ones 1 have faults of global memory, 1 escaped"
    )


def test_arguments_of_zeros_are_filled():
    """Results cannot tell a fault on zeros. Sizes, indices and what holds numbers already stay."""
    found = filled(np.zeros((64, 8), ml_dtypes.bfloat16))
    assert set(np.unique(found.astype(np.float32))) == {-2, -1, 0, 1, 2}
    assert found.dtype == ml_dtypes.bfloat16
    for value in (7, np.zeros(4, np.int32), np.ones(4, np.float32)):
        assert filled(value) is value


@pytest.mark.slow
def test_none_escapes():
    pairs = every()
    assert len(pairs) >= 3000
    found = [verdicts(subject, mutant) for subject, mutant in pairs[:200]]
    assert summary(found).endswith(" 0 escaped")
    assert sum(bool(each["prover"]) for each in found) > 150
