"""No mutant of a proved kernel that the simulator finds faulty is proved: a sample (escapes.py has them all)."""

from __future__ import annotations

import pytest

from tests.proof.escapes import every, summary, verdicts


def test_a_summary():
    where = "line 3: missing_wait (RAW): {} memory: a bulk copy may still be writing this"
    found = [("fault: A", ""), ("refused: b", ""), ("", ""), ("", where.format("global")), ("", where.format("shared"))]
    said = summary([{"prover": why, "simulator": seen} for why, seen in found])
    assert said == (
        "5 mutants: 1 fault, 3 proved, 1 refused; of the proved ones 1 have faults of global memory, 1 escaped"
    )


@pytest.mark.slow
def test_none_escapes():
    pairs = every()
    assert len(pairs) >= 3000
    found = [verdicts(subject, mutant) for subject, mutant in pairs[:200]]
    assert summary(found).endswith(" 0 escaped")
    assert sum(bool(each["prover"]) for each in found) > 150
