"""Mutants whose synchronisation is there but not enough are killed: scopes that are too narrow, fences for the other
memory or behind the barrier, counts of arrivals, bytes and groups that are off by one, a ring's other phase, another
team's barrier (`runtime/sim/mutate/ptx_weaken.py`).

A ring goes round often enough for a count that is off by one to add up to a phase.
"""

from __future__ import annotations

import gemm_grouped
import gemm_swapped
import numpy as np
import pytest
from mutation_testing import surviving_mutants
from support import USE_GPU, poisoned

from minitile.runtime.sim.mutate.ptx_weaken import weaker_mutants
from tests.examples.gemm_forms import BF16, GROUPED, HOPPER, TEAMS, of_persistent, of_split_k
from tests.examples.mutation_cases import Case, compiled_case
from tests.examples.test_clusters import also_read

pytestmark = pytest.mark.skipif(USE_GPU, reason="looks for races, which the GPU does not report")

LONG: Case = (
    lambda: gemm_grouped.gemm_masked,
    [((2, 64, 1288), BF16), ((2, 64, 1288), BF16), poisoned((2, 64, 64), BF16), np.array([0, 40], np.int32)],
    GROUPED,
)
CASES: dict[str, Case] = {
    "clusters": (
        lambda: gemm_swapped.gemm_swapped,
        [((24, 2568), BF16), ((128, 2568), BF16), ((24, 128), BF16)],
        {"cluster": 2, "num_stages": 2},
    ),
    "threads read what another block brings": (
        lambda: also_read,
        [((64, 2568), BF16), ((128, 2568), BF16), poisoned((64, 128))],
        {},
    ),
    "teams": of_persistent(136, 136, 264, **TEAMS),
    "blocks that wait for each other": of_split_k(32, 64, swap=True, share=True, block_M=32),
    "epilogues of teams": HOPPER["gemm_epilogues, linear, teams"],
}
# Of tiles that never overlap each waits for the one before (EXCEPTIONS of test_mutations.py). Four arrivals for a count
# of three make a phase too many in the fourth round only, and these tiles have fewer. What is stored before a signal is
# awaited, though C is not read here.
KNOWN = {
    "teams": ("cp.async.bulk.wait_group 0 ->",),
    "epilogues of teams": ("cp.async.bulk.wait_group 0 ->",),
    "blocks that wait for each other": ("], 4 -> mbarrier.init.shared.b64", "cp.async.bulk.wait_group 0 ->"),
}


def slips(case: Case) -> list[str]:
    found, count = surviving_mutants(*compiled_case(case, "sm_90a"), candidates=weaker_mutants)
    assert count > 12
    return found


def test_a_ring() -> None:
    assert slips(LONG) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_weakening_is_killed(name: str) -> None:
    assert [each for each in slips(CASES[name]) if not any(known in each for known in KNOWN.get(name, ()))] == []
