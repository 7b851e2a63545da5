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
    from attention_peers import Attention

    from minitile import target

    monkeypatch.setattr(target, "parse_target", lambda name: target.TARGETS["sm_90a"])
    found = [*attention_plans.variants(Attention(1, 1, 4096, 128), kinds, ["128x128"])]
    assert len(found) == len(set(found)) == 2 ** len(kinds)
    assert found[0] == (AttentionPlan(128, 128), True)
