"""benchmarks/bars.py judges what was measured as the rows say, and goes on where it stopped."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from types import SimpleNamespace

import pytest


@pytest.fixture
def bars(monkeypatch):
    import bars

    monkeypatch.setattr(bars.timing, "place", lambda: "gpu")
    return bars


def row(bars, *cases, bar=0.95, at_most=False):
    return bars.Row("r", "title", bar, 1.0, tuple((case, "copy") for case in cases), at_most)


@pytest.mark.parametrize(
    ("values", "word"),
    [((0.96, 0.95), "pass"), ((1.0, 0.9), "FAIL"), ((0.94, 0.95), "FAIL"), ((0.92, 1.0), "pass")],
)
def test_geometric_mean_and_worst_cell(bars, values, word):
    known = {str(n): {"copy": [value, 0.01]} for n, value in enumerate(values)}
    verdict = bars.judge(row(bars, "0", "1"), known)
    assert verdict.word == word
    assert verdict.value == pytest.approx(math.sqrt(values[0] * values[1]))


def test_times_are_at_most(bars):
    known = {"a": {"copy": [0.1, 0.0]}, "b": {"copy": [0.13, 0.0]}}
    assert bars.judge(row(bars, "a", bar=0.12, at_most=True), known).word == "pass"
    verdict = bars.judge(row(bars, "a", "b", bar=0.12, at_most=True), known)
    assert (verdict.word, verdict.worst_case) == ("FAIL", "b")


def test_failed_and_missing_cases(bars):
    known = {"a": {"copy": [1.0, 0.0]}, "b": {"error": "Wrong: 1"}}
    assert bars.judge(row(bars, "a", "b"), known).word == "FAIL"
    assert bars.judge(row(bars, "a", "c"), known).word == "unfinished"
    assert bars.judge(row(bars, "c"), known).word == "unmeasured"


def test_measurements_are_kept(bars, tmp_path):
    measured = []

    def measure(case, against):
        measured.append(case)
        if case == "bad":
            raise ValueError("why")
        return {other: [1.0, 0.0] for other in against}

    suite = SimpleNamespace(measure=measure)
    path = tmp_path / "bars.json"
    for _ in range(2):
        bars.run(suite, [row(bars, "a", "bad")], bars.State(str(path)), 10.0, again=False)
    assert measured == ["a", "bad", "bad"]
    kept = json.loads(path.read_text())["gpu"]
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", kept["a"].pop("date"))
    assert kept == {"a": {"copy": [1.0, 0.0]}, "bad": {"error": "ValueError: why"}}


def test_cells_have_the_day_of_their_measurement(bars):
    """Where results of several days are in one table, and in no other one."""
    known = {"a": {"copy": [1.0, 0.0], "note": "n", "date": "2026-11-28"}, "b": {"copy": [0.5, 0.0]}}
    lines = bars.cells_table([row(bars, "a", "b")], known)
    assert lines == [
        "| case | copy | | date |",
        "|---|---:|---|---|",
        "| a | 1.000 | n | 2026-11-28 |",
        "| b | 0.500 |  |  |",
    ]
    assert bars.cells_table([row(bars, "b")], known)[0] == "| case | copy | |"


def test_of_an_earlier_run_what_still_holds_is_kept(bars, tmp_path):
    path = tmp_path / "earlier.json"
    path.write_text(json.dumps({"a": {"copy": [1.0, 0.0]}, "b": {"copy": [0.5, 0.0]}, "c": {"error": "why"}}))
    suite = SimpleNamespace(unchanged=lambda case, found: case != "b")
    assert bars.kept(suite, path) == {"a": {"copy": [1.0, 0.0]}}


def test_rows_of_the_memory_suite_have_cells():
    import memory

    assert all(row.cells for row in memory.ROWS)
    assert len({row.name for row in memory.ROWS}) == len(memory.ROWS)


def test_a_row_has_its_own_least(bars):
    known = {"a": {"copy": [1.6, 0.0]}, "b": {"copy": [0.96, 0.0]}, "c": {"copy": [0.94, 0.0]}}
    own = dataclasses.replace(row(bars, "a", "b", bar=1.15), least=0.95)
    assert bars.judge(own, known).word == "pass"
    assert bars.judge(row(bars, "a", "b", bar=1.15), known).word == "FAIL"
    assert bars.judge(dataclasses.replace(own, cells=(("a", "copy"), ("c", "copy"))), known).word == "FAIL"


def test_a_suite_knows_what_comes_and_may_have_no_time_or_contender(bars, tmp_path):
    import contest

    told = []

    def measure(case, against):
        if case == "late":
            raise TimeoutError("no time left")
        if case == "alone":
            raise contest.Missing("no contender is installed")
        return {other: [1.0, 0.0] for other in against}

    suite = SimpleNamespace(measure=measure, ahead=lambda cases, seconds: told.append((cases, seconds)))
    state = bars.State(str(tmp_path / "bars.json"))
    for _ in range(2):
        bars.run(suite, [row(bars, "a", "late", "alone")], state, 10.0, again=False)
    assert told == [(["a", "late", "alone"], 10.0), (["late", "alone"], 10.0)]
    assert state.of("gpu").keys() == {"a"}
