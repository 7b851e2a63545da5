"""benchmarks/quantised.py without a GPU: the plans that it measures, and what it makes of times."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import fit_quantised
import quantised
import serving
from serving_operations import OPERATIONS

from minitile.ops.machine import H200


@pytest.mark.parametrize("kind", [*quantised.ORDER, "mxfp4:16"])
def test_plans_are_possible(kind):
    """Each once, the default one first, in shared memory, with whole groups and steps for each block of a cluster."""
    for case in quantised.cases_of([kind], [f"{n}x{k}" for n, k in serving.LAYERS]):
        found = quantised.plans(case, H200)
        assert found[0] == OPERATIONS[case.kind].plan(case.m, case.n, case.k, H200)
        assert len(found) == len({str(plan) for plan in found}) < 70
        for plan in found:
            by_64 = plan.block_N if getattr(plan, "swap", True) else plan.block_M
            assert plan.threads in (by_64, by_64 * 2)
            assert by_64 % (plan.parts * 8) == 0
            if case.kind == "fp8":
                assert plan.share == 1 or (plan.parts == 1 and -(-case.m // plan.block_M) % plan.share == 0)
            else:
                assert plan.block_K % (32 if case.kind == "mxfp4" else quantised.GROUP) == 0
                assert plan.parts == 1 or case.k // plan.block_K >= 2 * plan.parts
        assert len(found) > 7 or kind == "mxfp4:16"


@pytest.mark.parametrize(("kind", "geometric"), [("w4a16", 0.95), ("fp8", 0.96)])
def test_choices_follow_what_was_measured(kind, geometric):
    """Of the measured plans; and most of what the op itself chooses was measured, and is as good."""
    (of_kind, rates), cases = fit_quantised.KINDS[kind], fit_quantised.read(kind)
    assert len(cases) > 38
    assert fit_quantised.geometric_mean(fit_quantised.shares(cases, of_kind, rates)) > geometric
    known = [(entries[0], {e.plan: e.time for e in entries}) for entries in cases if len(entries) > 1]
    chosen = [(OPERATIONS[kind].plan(e.m, e.n, e.k, H200), times) for e, times in known]
    found = [min(times.values()) / times[plan] for plan, times in chosen if plan in times]
    assert len(found) > len(chosen) / 2
    assert fit_quantised.geometric_mean(found) > geometric - 0.01


def test_a_fit_brings_numbers_nearer():
    of_kind, rates = fit_quantised.KINDS["fp8"]
    cases = fit_quantised.read("fp8")[:5]
    wrong = fit_quantised.replace(rates, memory=rates.memory / 2)
    fitted = fit_quantised.fit(cases, of_kind, wrong, 3)
    assert fit_quantised.loss(cases, of_kind, fitted) < fit_quantised.loss(cases, of_kind, wrong)


def test_measured_plans_are_read_as_they_are_written():
    for kind in fit_quantised.KINDS:
        for case in quantised.cases_of([f"{kind}:16"], ["4096x4096"]):
            for plan in quantised.plans(case, H200):
                if not plan.all_reduce:
                    assert fit_quantised.plan_of(kind, str(plan)) == plan


def test_measurements_are_added(tmp_path):
    """Of a state, which has remarks beside times, and of bars, which have notes; others stay."""
    case, plan = "fp8 16 × 4096x4096", "16x64x128, 4 stages, 128 threads"
    state, bars = tmp_path / "state.json", tmp_path / "bars.json"
    state.write_text(json.dumps({case: {"rows": [], "tried": {plan: 7.5, "hangs": "no kernel"}}, "fp8 8 × 1x1": {}}))
    note = "5.7 µs, 1527 GB/s, 24x64x128, 6 stages, 128 threads, cluster of 2 along K, error 2e-03"
    bars.write_text(json.dumps({"fp8 24 × 64x128": {"bf16": [1.0, 0.1], "note": note}, "1 × 64x128": {"note": note}}))
    before, found = fit_quantised.added([]), fit_quantised.added([state, bars])
    assert found[case] == before[case] | {plan: 7.5}
    assert found["fp8 24 × 64x128"] == {"24x64x128, 6 stages, 128 threads, cluster of 2 along K": 5.7}
    assert "1 × 64x128" not in found
    assert {name: times for name, times in found.items() if name in before and name != case} == {
        name: times for name, times in before.items() if name != case
    }


def test_what_is_worth_most_comes_first():
    first, *_, last = quantised.cases_of(quantised.ORDER, ["64x128", "128x256"])
    assert (str(first), str(last)) == ("fp8 256 × 64x128", "w4a16 64 × 128x256")
    assert quantised.cases_of(["w4a16 64 zeros:8"], ["64x128"])[0].kind in OPERATIONS


def test_what_cannot_be_compiled_says_so():
    plan = OPERATIONS["w4a16"].plan(16, 128, 256, H200)
    assert quantised.compile_one("w4a16", 16, 128, 256, plan) == ""
    wrong = quantised.compile_one("w4a16", 16, 128, 256, plan._replace(stages=200))  # at most 16
    assert wrong.startswith("LanguageError: num_stages is 200")


def row(plan, ratio, default=False):
    return {"plan": plan, "default": default, "of bf16": ratio, "us": 8 / ratio, "spread": 0.0, "error": 0.0}


def test_means():
    """Of the best plan of each case, which may be the default one; and of the default ones alone."""
    known = {
        "w4a16 16 × 64x128": {"rows": [row("a", 2.0), row("b", 1.0, True), row("bf16", 1.0)], "tried": {"c": "hangs"}},
        "w4a16 16 × 128x128": {"rows": [row("b", 4.0, True), row("bf16", 1.0)], "tried": {}},
        "fp8 16 × 64x128": {},
    }
    lines = quantised.means(known)
    assert f"| w4a16 16 | best | {math.sqrt(8):.3f} | 2.000 | 2 |" in lines
    assert "| w4a16 16 | default | 2.000 | 1.000 | 2 |" in lines
    assert len(lines) == 4
    assert quantised.line("x", known["w4a16 16 × 64x128"]) == (
        "x: bf16 8.00 µs | a 4.00 µs (2.00) | default b 8.00 µs (1.00) | 1 without a result"
    )
    assert len(quantised.table(known)) == 2 + 5 + 1 + 4
