"""benchmarks/attention_bars.py: which cells there are; benchmarks/attention_plans.py: which variants."""

from __future__ import annotations

import pytest

from minitile.ops.attention_plans import AttentionPlan


def test_the_suite_has_the_bars_of_attention():
    import attention_bars

    rows = {row.name: row for row in attention_bars.ROWS}
    assert {name: row.bar for name, row in rows.items()} == {
        "d128": 1.08, "d128-causal": 1.20, "d128-stale": 1.14, "d128-stale-causal": 1.28, "d64": 1.08,
        "d64-causal": 1.08, "d96": 1.15, "d256": 1.06, "d256-causal": 1.12, "latent": 1.10, "groups": 1.15, "cold": 0.5,
    }  # fmt: skip
    assert rows["d128-causal"].cells[0][0] == "8x16x2048x128 causal exact"
    assert "16x16x1024x64 full" in dict(rows["d64"].cells)
    cases = {case for row in attention_bars.ROWS for case, _ in row.cells}
    assert cases == {*attention_bars.CASES, attention_bars.COLD}


def test_work_of_a_case():
    import attention_bars

    case = attention_bars.CASES["4x16x4096x192/128 causal"]
    assert case.flops == 4 * 16 * 4096 * 4096 * (192 + 128)


@pytest.mark.parametrize("kinds", [[], ["held", "growth"], ["persistent", "unpinned"]])
def test_variants(kinds, monkeypatch):
    import attention_plans

    from minitile import target

    monkeypatch.setattr(target, "parse_target", lambda name: target.TARGETS["sm_90a"])
    found = [*attention_plans.variants(attention_plans.parse_case("1x1x4096x128"), kinds, ["128x128"])]
    assert len(found) == len(set(found)) == 2 ** len(kinds)
    assert found[0] == (AttentionPlan(128, 128), True)


def test_shares_of_weights_by_polynomial(monkeypatch):
    import attention_plans

    from minitile import target

    monkeypatch.setattr(target, "parse_target", lambda name: target.TARGETS["sm_90a"])
    found = attention_plans.variants(attention_plans.parse_case("1x1x4096x64"), ["polynomial"], ["192x128"])
    assert [plan.polynomial for plan, _ in found] == [0, 1 / 8, 1 / 4]


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
