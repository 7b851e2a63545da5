"""Texts by schedules beside those before: benchmarks/schedule_bars.py."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def bars():
    import schedule_bars

    return schedule_bars


def test_every_case_has_a_text_before(bars) -> None:
    before = json.loads(bars.BEFORE.read_text(encoding="utf-8"))
    assert before.keys() == {**bars.CASES, **bars.AMD}.keys()
    assert all(set(it) == {"hash"} for it in before.values())


def test_where_code_comes_from_does_not_count(bars) -> None:
    text = "  .loc 1 2 3\n  add.s32 %a, %b, %c;\n  // here\n"
    assert bars.bare(text) == bars.bare(text.replace("1 2 3", "4 5 6").replace("here", "there"))
    assert bars.bare(text) != bars.bare(text.replace("%b", "%d"))
    assert "store i32 1" in bars.bare("  store i32 1, ptr %p, !dbg !12\n!12 = !DILocation(line: 3)\n")


def test_cases_compile(bars) -> None:
    some = {name: bars.CASES[name] for name in ("sm_80 gemm of odd sizes", "split-K 4", "fp8 blocks", "attention d64")}
    assert all(len(it["hash"]) == 16 for it in bars.texts(some).values())
