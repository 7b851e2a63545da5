"""benchmarks/attention_bars.py: which cells there are; attention_plans.py: which variants, compiled ahead, and what it
keeps; attention_check.py: which forms."""

from __future__ import annotations

import pickle
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from minitile.ops.attention_plans import AttentionPlan
from tests.ops.attention_cases import reference
from tests.ops.memory_bound.frames import bf16, exact, random


def test_the_suite_has_the_bars_of_attention():
    import attention_bars

    rows = {row.name: row for row in attention_bars.ROWS}
    assert {name: row.bar for name, row in rows.items()} == {
        "d128": 1.08, "d128-causal": 1.20, "d128-stale": 1.14, "d128-stale-causal": 1.28, "d64": 1.08,
        "d64-causal": 1.08, "d96": 1.15, "d256": 1.06, "d256-causal": 1.12, "latent": 1.10, "groups": 1.15,
        "tilelang": 1.30, "cold": 0.5,
    }  # fmt: skip
    assert rows["d128-causal"].cells[0][0] == "8x16x2048x128 causal exact"
    assert "16x16x1024x64 full" in dict(rows["d64"].cells)
    cases = {case for row in attention_bars.ROWS for case, _ in row.cells}
    assert cases == {*attention_bars.CASES, *attention_bars.PEERS, attention_bars.COLD}


def test_work_of_a_case():
    import attention_bars

    case = attention_bars.CASES["4x16x4096x192/128 causal"]
    assert case.flops == 4 * 16 * 4096 * 4096 * (192 + 128)


def test_variants_of_a_plan():
    """The table's choice first, then each tile with each combination of what is asked for."""
    import attention_plans

    case = attention_plans.parse_case("1x1x4096x128")
    for kinds in [], ["held", "growth"], ["persistent", "unpinned"]:
        first, *found = attention_plans.variants(case, kinds, ["128x112"])
        assert first == (attention_plans.chosen(case), True)
        assert len(found) == len(set(found)) == 2 ** len(kinds)
        assert found[0] == (AttentionPlan(128, 112, packed=1), True)


def test_blocks_together_have_the_shared_memory():
    import attention_plans

    case = attention_plans.parse_case("1x1x4096x64")
    for variant in attention_plans.variants(case, None, []):
        assert variant.plan.shared(64, 64) * variant.plan.together <= attention_plans.TARGET.max_shared


def test_the_sweep_has_every_case_of_the_bars_once():
    import attention_bars
    import attention_plans

    cases = [replace(case, maxima="") for case in attention_plans.parse([]).cases]
    assert {*cases} == {replace(case, maxima="") for case in attention_bars.CASES.values()}
    assert [str(case) for case in cases[:3]] == [
        "16x16x1024x64 causal", "1x32x16384x64 causal", "8x32x2048x64 causal",
    ]  # fmt: skip


CALLS = ("2x4x1024x64", True), ("1x4x2048x64", False), ("1x16/2x1024x128", True), ("1x4x1024x192/128", False)


@pytest.mark.parametrize(("shape", "causal"), CALLS)
def test_what_is_compiled_ahead_is_what_a_call_runs(shape, causal, monkeypatch):
    """The same text as for arrays of the case; also where the sweep has compiled it for another batch and length."""
    import attention_bars
    import attention_plans

    from minitile.ops import attention, attention_op

    monkeypatch.setenv("MINITILE_TARGET", "sm_90a")
    case = replace(attention_plans.parse_case(shape), causal=causal)
    plan = AttentionPlan(64, 32, threads=128, packed=1, persistent=True)
    texts = []

    def forward(*args, **constants):
        texts.append(attention_op.attention_forward.executable(*args, **constants).text)

    sizes = (case.h, case.d), (case.of_k or case.h, case.d), (case.of_k or case.h, case.e or case.d)
    q, k, v = (np.zeros((case.b, h, case.s, d), bf16) for h, d in sizes)
    monkeypatch.setattr(attention_op, "kernel_of", lambda plan: forward)
    attention(q, k, v, causal=causal, layout="bhsd", plan=plan)
    monkeypatch.undo()
    for other in case, replace(case, b=16, s=4 * case.s):
        assert attention_bars.compiled(other, plan).text == texts[0]


def test_a_compiled_plan_runs_as_the_public_call():
    import attention_bars
    import attention_plans

    from minitile.ops import attention

    case, plan = attention_plans.parse_case("1x2x128x64"), AttentionPlan(64, 32, threads=128, packed=1)
    made = attention_plans.make(case, attention_plans.Variant(plan))
    assert not made.failure
    q, k, v = (random(seed, 1, 2, 128, 64, dtype=bf16) for seed in range(3))
    out = np.full(q.shape, np.nan, bf16)
    with attention_plans.running(pickle.loads(pickle.dumps(made.kernel))):
        assert attention(q, k, v, layout="bhsd", plan=plan, out=out) is out
    wanted, _ = reference(*(x.swapaxes(1, 2) for x in (q, k, v)))
    assert np.abs(exact(out).swapaxes(1, 2) - wanted).max() < 0.02
    assert attention_bars.compiled(case, plan).text == made.kernel.text


def test_a_spilling_plan_is_left_out(monkeypatch):
    import attention_bars
    import attention_plans

    parts = {"binary": b"x", "spills": 8, "executable": SimpleNamespace(remarks=["too few"]), "registers": 96}
    kernel = SimpleNamespace(**parts)
    monkeypatch.setattr(attention_bars, "compiled", lambda *rest: kernel)
    made = attention_plans.make(None, attention_plans.Variant(AttentionPlan(128, 128)))
    assert made.kernel is None
    assert made.failure.startswith("8 bytes spilled")


def test_what_was_found_is_gone_on_from(tmp_path):
    """On the same GPU alone."""
    import attention_plans

    found = {"choice": "a", "best": {"b": [1.2, 600, 168], "a": [1.1, 550, 168]}, "others": {}, "failed": {"c": "no"}}
    state = attention_plans.State(str(tmp_path / "found.json"))
    state.begin({"gpu": "H200"})
    state.add(attention_plans.parse_case("1x1x4096x64"), found)
    again = attention_plans.State(str(tmp_path / "found.json"))
    again.begin({"gpu": "H200"})
    assert again.found == {"1x1x4096x64 full": found}
    other = attention_plans.State(str(tmp_path / "found.json"))
    other.begin({"gpu": "H100"})
    assert other.found == {}
    assert "1.100  1.200  b (1 failed)" in attention_plans.table(again.found)


def test_what_ended_the_process_is_not_launched_again(tmp_path):
    """It is known from what was being tried, and remembered with what was found."""
    import attention_plans

    path = str(tmp_path / "found.json")
    attention_plans.State(path).attempt("1x1x4096x64 full: 128x128")
    for _ in range(2):
        state = attention_plans.State(path)
        state.begin({"gpu": "H200"})
        assert "1x1x4096x64 full: 128x128" in state.ended
        state.attempt("")


def test_between_two_lengths_only_what_was_good_at_either_is_measured():
    import attention_plans

    case = attention_plans.parse_case("2x32x8192x64")
    every = attention_plans.variants(case, None, [])
    names = [str(variant) for variant in every]
    cut = attention_plans.KEPT

    def ranked(order):
        return {"best": dict.fromkeys(order[:5]), "others": dict.fromkeys(order[5:])}

    found = {"16x16x1024x64 full": ranked(names), "4x16x4096x128 full": ranked(names)}
    assert attention_plans.promising(case, every, found) == every
    found["1x32x16384x64 full"] = ranked(names[::-1])
    left = attention_plans.promising(case, every, found)
    assert {str(variant) for variant in left} == {*names[:cut], *names[-cut:]}
    assert left[0] == every[0]


def test_checked_forms_have_every_head_dim_of_the_bars():
    import attention_bars
    import attention_check

    forms = list(attention_check.forms())
    dims = {(case.d, case.e or case.d) for case in attention_bars.CASES.values()}
    for causal in False, True:
        assert dims <= {(form.d, form.e) for form in forms if form.causal == causal}
    assert {1, 17, 1000, 4097} <= {form.s for form in forms}
    assert any(form.n == 0 for form in forms)
    assert any(form.causal and form.n < form.s for form in forms)
    assert any(form.of_k < form.h for form in forms)


def test_cases_are_written_as_in_the_bars():
    import argparse

    import attention_bars
    import attention_plans

    for text in ("8x64/8x1024x128", "4x16x4096x192/128", "4x16x4096x96"):
        assert str(attention_plans.parse_case(text)) == f"{text} full"
        assert f"{text} full" in attention_bars.CASES or f"{text} causal" in attention_bars.CASES
    for text in ("1x2x3", "1/2x2x3x64", "1x2x3x64/2/1"):
        with pytest.raises(argparse.ArgumentTypeError):
            attention_plans.parse_case(text)
