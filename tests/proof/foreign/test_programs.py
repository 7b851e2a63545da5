"""The programs by hand: the sound ones are proved, none of the broken ones is; what the simulator, and
all schedules of small sizes, show of both."""

from __future__ import annotations

import numpy as np
import pytest

from minitile.proof import Launch, answer, check, prove
from minitile.runtime.sim import TensorMap, run_ptx
from tests.proof.foreign.broken import BROKEN, TWIN
from tests.proof.foreign.schedules import some_schedule
from tests.proof.foreign.sound import SOUND, Text

# Sound ones that are refused, with the reason.
REFUSED: dict[str, str] = {}
# Broken ones that the simulator does not see, and why.
UNSEEN = {
    "bins beyond those that are cleared": "data that keeps within them",
    "an index beyond the table": "data that keeps within it",
    "warps that exit before a barrier of all": "it waits for warps that have not ended",
    "a tile fetched before all know the last": "tiles that end at once",
    "a vote that each warp takes for itself": "data that changes in no warp alone",
    "volatile is no barrier": "it takes volatile accesses for ordered",
    "the last product not waited for": "nothing reads its result, and it is done before the block ends",
}
# Those whose schedules are not all run, and why (tests/proof/concrete.py).
DATA, FORM = "a branch or an address by data that differs", "an instruction that is not read there"
NOT_RUN = {
    "relax_until_still": DATA,
    "generic_addresses": FORM,
    "mbarrier_by_tokens": FORM,
    "cp_async_into_a_ring": FORM,
    "st_async": FORM,
    "bins beyond those that are cleared": DATA,
    "an index beyond the table": DATA,
    "a barrier in one way of a branch": DATA,
    "a tile fetched before all know the last": DATA,
    "a vote that each warp takes for itself": DATA,
    "a step before all have compared": DATA,
    "generic stores without a barrier": FORM,
    "a token of an arrival that is not made": FORM,
    "copies over what is read": FORM,
    "bytes of one warp too few": FORM,
}
BOXES = {512: (4, 64), 1024: (8, 64), 2048: (16, 64), 9216: (72, 64)}


def asked(text: Text):
    launch = Launch(text.boxes, threads=text.threads, shared=text.shared)
    return answer(text.ptx, launch, most_states=1000, seconds=30), launch


def simulated(text: Text, n: int, schedule: str) -> set[str]:
    maps = [TensorMap(np.ones((256, 512), np.uint16), box=BOXES[text.boxes.get(name, 1024)]) for name in ("ma", "mb")]
    data = np.random.default_rng(0).integers(0, 40, 1 << 16, dtype=np.int32)
    arguments = [data, np.zeros(1 << 16, np.int32), np.uint32(n), *maps]
    report = run_ptx(
        text.ptx,
        "kernel",
        (1, 1, 1),
        (text.threads, 1, 1),
        arguments,
        dynamic_shared=text.shared,
        schedule=schedule,
        seed=n,
    )
    return {each.kind for each in report.findings}


@pytest.mark.parametrize("name", SOUND)
def test_sound(name):
    found, launch = asked(SOUND[name])
    assert found.reason == REFUSED.get(name, "")
    if found:
        assert check(found.certificate, SOUND[name].ptx, launch) == found.states


def test_shares():
    assert len(SOUND) >= 40
    assert len(BROKEN) >= 40
    assert set(TWIN.values()) <= set(SOUND)
    assert len(REFUSED) <= 0.3 * len(SOUND)


@pytest.mark.parametrize("name", BROKEN)
def test_broken(name):
    found, _ = asked(BROKEN[name])
    assert found.verdict != "proved"
    assert found.line or "more than" in found.reason


@pytest.mark.parametrize("name", SOUND)
def test_no_schedule_has_a_fault(name):
    text = SOUND[name]
    launch = Launch(text.boxes, threads=text.threads, shared=text.shared)
    together = prove(text.ptx, launch, most_states=1000, seconds=30).together
    found = [some_schedule(text.ptx, launch, n, together) for n in (0, 1, 2, 5, 9)]
    assert not any(found)
    assert ("" in found[1:]) == (name not in NOT_RUN)


@pytest.mark.parametrize("name", BROKEN)
def test_some_schedule_has_a_fault(name):
    text = BROKEN[name]
    launch = Launch(text.boxes, threads=text.threads, shared=text.shared)
    assert any(some_schedule(text.ptx, launch, n) for n in (1, 2, 5, 9)) == (name not in NOT_RUN)


@pytest.mark.parametrize("name", SOUND)
def test_the_simulator_finds_nothing(name):
    assert simulated(SOUND[name], 5, "random") == set()


@pytest.mark.slow
@pytest.mark.parametrize("name", SOUND)
def test_the_simulator_finds_nothing_in_more_schedules(name):
    for n in (0, 1, 2, 9):
        for schedule in ("eager", "lazy", "random"):
            assert simulated(SOUND[name], n, schedule) == set(), (n, schedule)


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_the_simulator_finds_most_faults(name):
    found = {
        kind for n in (1, 2, 5, 9) for how in ("eager", "lazy", "random") for kind in simulated(BROKEN[name], n, how)
    }
    assert bool(found) == (name not in UNSEEN)
