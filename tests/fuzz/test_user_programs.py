"""A few of the programs of users; `python -m tests.fuzz.campaign` runs them by the thousand."""

from __future__ import annotations

import json

import pytest

from tests.fuzz import campaign, explicit_programs, user_programs
from tests.fuzz.references import Program

# What failed once, each for a cause of its own, and others beside them.
QUICK = {
    "sm_80": (18,),
    "sm_90a": (7, 8, 60331),
    "sm_90a one role": (33,),
    "sm_90a explicit": (1, 8, 60444),
    "gfx942": (28,),
    "gfx950": (3,),
}


SLOW = {"sm_80": (10,), "sm_90a": (49,), "sm_90a one role": (8,), "sm_90a explicit": (5,), "gfx950": (0,)}


@pytest.mark.parametrize(
    ("seed", "mode"),
    [
        pytest.param(seed, mode, marks=marks)
        for some, marks in ((QUICK, ()), (SLOW, pytest.mark.slow))
        for mode, seeds in some.items()
        for seed in seeds
    ],
)
def test_a_few(seed: int, mode: str) -> None:
    outcome = campaign.one(seed, mode)
    assert outcome is not None
    assert outcome.kind == "fine", outcome.text


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(campaign.MODES))
@pytest.mark.parametrize("start", range(10_000, 10_100, 20))
def test_more(start: int, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MINITILE_STRICT")  # a large program may spill
    for seed in range(start, start + 20):
        outcome = campaign.one(seed, mode)
        assert outcome is not None
        assert outcome.kind == "fine", f"{seed}\n{outcome.text}"


def test_the_generators_reach_what_they_are_for() -> None:
    constructs = set[str]().union(*(user_programs.write(seed).constructs for seed in range(150)))
    for name in (
        *("if else", "while", "break", "continue", "early return", "allocation under control flow", "macro"),
        *("condition loaded in a loop", "condition block", "page number loaded in a loop, twice", "a size of 0"),
        *(
            "per thread: if else",
            "scalar unsigned",
            "index uint64",
            "shape persistent",
            "stages 4",
            "gemm outside a loop",
        ),
    ):
        assert name in constructs
    explicit = set[str]().union(*(explicit_programs.write(seed).constructs for seed in range(150)))
    assert explicit >= {"allocation behind an early return", "allocation under control flow", "3 slots", "while"}


def test_a_wrong_result_is_seen() -> None:
    """The comparison can fail: the program of one seed against the arrays of another reference."""
    program = user_programs.write(1)
    wrong = Program(**{**program.__dict__, "reference": program.reference.replace("X[tile, 63] = v", "")})
    with pytest.raises(AssertionError):
        campaign.check(wrong, "sm_80")


def test_the_record_goes_on(tmp_path, capsys) -> None:
    record = tmp_path / "record.jsonl"
    pairs = [(seed, "sm_80") for seed in range(2)]
    campaign.run(pairs, 1, 5.0, record, False)
    assert {(o.seed, o.mode, o.kind) for o in campaign.read(record)} == {(0, "sm_80", "fine"), (1, "sm_80", "fine")}
    assert campaign.report(campaign.read(record)) == 0
    assert "2 pairs, 0 failures" in capsys.readouterr().out


def test_an_older_record_is_read(tmp_path) -> None:
    """Modes that were called otherwise are the same pairs: a later line of either name is the pair's last."""
    outcome = campaign.Outcome(1, "sm_90a by hand", "wrong", "", (), 1.0)
    later = campaign.Outcome(1, "sm_90a explicit", "fine", "", (), 1.0)
    record = tmp_path / "record.jsonl"
    record.write_text(json.dumps(outcome.__dict__) + "\n")
    assert [(o.mode, o.kind) for o in campaign.read(record)] == [("sm_90a explicit", "wrong")]
    with record.open("a") as out:
        out.write(json.dumps(later.__dict__) + "\n")
    assert campaign.read(record) == [later]
