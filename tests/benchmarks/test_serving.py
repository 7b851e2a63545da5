"""benchmarks/serving.py and serving_plans.py: which cells there are, and which plans are measured."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import bars
import fit_matmul
import serving
import serving_plans
from serving_operations import Packed

import minitile.language as T
from minitile.ops.choice import choose
from minitile.ops.machine import H200
from minitile.ops.multiply import assembled
from minitile.ops.plan import Plan, Problem
from minitile.ops.quantised.cost import KINDS
from minitile.ops.quantised.pack import QuantisedWeights
from minitile.ops.quantised.plans import quantised_plans
from tests.ops.test_grouped_launch import Array, gpu, torch

__all__ = ["gpu", "torch"]  # fixtures


def test_the_suite_has_the_bars_of_serving():
    rows = {row.name: row for row in serving.ROWS}
    assert len(rows["cublas-200"].cells) == len(serving.LAYERS) == 10
    assert [rows[f"cublas-{m}"].least for m in (1, 4096)] == [0.94, 0.94]
    assert len(rows["memory-large"].cells) + len(rows["memory-small"].cells) == 40
    assert all(case in serving.CASES or case.startswith("random ") for row in serving.ROWS for case, _ in row.cells)
    assert {len(rows[f"random-{seed}"].cells) for seed in (1, 2)} == {30}


def test_a_cell_may_have_a_bar_of_its_own():
    row = bars.Row("r", "r", 1.05, 1.12, (("a", "x"), ("b", "x")), least=0.94)
    known = {"a": {"x": [1.3, 0.0]}, "b": {"x": [0.95, 0.0]}}
    assert bars.judge(row, known).word == "pass"
    assert bars.judge(row, {**known, "b": {"x": [0.93, 0.0]}}).word == "FAIL"


@pytest.mark.parametrize("case", serving_plans.cases(4, 1)[::17], ids=str)
def test_measured_plans_fit(case):
    """Into shared memory and clusters; they are read as they are written."""
    found = serving_plans.plans_of(case.problem)
    assert 10 < len(found) <= serving_plans.MOST
    for plan in found:
        assert fit_matmul.plan_of(str(plan)) == plan
        assert plan.cluster <= 8
        assert plan.stages >= 3 or plan.dots
        room = serving_plans.SHARED - 1024
        assert plan.stages * (plan.block_M + plan.block_N) * plan.block_K * 2 <= room


def test_some_of_the_plans_compile():
    """A tile of 200 rows of A, in a cluster."""
    case = serving_plans.Case(200, 6144, 4096, "NT")
    plan = Plan(208, 128, 64, 3, 256, split=2, swap=True, together=True, share=2)
    assert plan in [*serving_plans.swapped(case.problem)]
    assembled(case.problem, T.bfloat16, T.bfloat16, plan)


def test_what_is_measured_again_ahead():
    times = {"cublas": 9.0, **{str(Plan(64, 64, 64, n, 128)): float(n) for n in (5, 4, 3, 6)}}
    found = serving_plans.ahead_of(times)
    assert [(p.stages, p.ahead) for p in found] == [(s, a) for s in (3, 4, 5) for a in (False, True)]


def test_a_line_for_each_problem():
    """Also where none of its plans could be timed: the sweep goes on."""
    case = serving_plans.Case(8, 4096, 4096, "NT")
    slow, fast = str(serving_plans.choose(case.problem, H200, True, serving_plans.SHARED)), str(Plan(8, 64, 64, 3, 128))
    line = serving_plans.told(case, {"cublas": 6.0, slow: 4.0, fast: 3.0})
    assert "today's 1.500, best 2.000 of cuBLAS' 6.0 µs" in line
    assert line.endswith(fast)
    assert serving_plans.told(case, {"cublas": 6.0}).endswith("no plan")


def test_the_weakest_cells_come_first(tmp_path):
    """Each by the least that its bar allows; those against a copy's rate, too. A product of other weights is none."""
    file = tmp_path / "bars.json"
    words = {"cublas": [0.94, 0.01]}, {"cublas": [1.3, 0.01], "copy": [0.355, 0.01]}, {"cublas": [1.3, 0.01]}
    names = "200 × 6144x4096", "4 × 4099x4097", "256 × 6144x4096"
    found = {**dict(zip(names, words, strict=True)), "fp8 64 × 6144x4096": {"bf16": [0.1, 0.01]}}
    file.write_text(json.dumps(found), encoding="utf-8")
    cells = serving_plans.weak(file, 1.1)
    assert [str(case) for case, _ in cells] == ["NT 4x4099x4097", "NT 200x6144x4096"]
    assert [round(share, 3) for _, share in cells] == [0.5, 1.0]


def test_promising_plans_are_of_all_mechanisms():
    """Today's choice and the fastest so far come first; what was measured is not measured again."""
    problem = serving_plans.Case(200, 10240, 8192, "NT").problem
    today = serving_plans.choose(problem, H200, True, serving_plans.SHARED)
    known = {str(plan): 60.0 + n for n, plan in enumerate([Plan(200, 64, 64, 5, 128, swap=True), *PLANS_200])}
    found = serving_plans.promising(problem, known, serving_plans.WEAK_PLANS)
    assert [str(plan) for plan in found[:3]] == [str(today), *[*known][:2]]
    assert not {str(plan) for plan in found[3:]} & {*known}
    assert len(found) == len({*found}) == serving_plans.WEAK_PLANS
    assert any(plan.blocks for plan in found)
    for mechanism in ("split", "share", "share_rows"):
        assert any(getattr(plan, mechanism) > 1 for plan in found), mechanism
    assert found[:8] == serving_plans.promising(problem, known, 8)


PLANS_200 = [Plan(200, 128, 64, stages, 256, swap=True) for stages in (3, 4)]


def test_a_plan_in_which_a_process_hung_is_left_out(tmp_path):
    out = tmp_path / "times.json"
    assert serving_plans.hung(out) == set()
    with serving_plans.noted("one", out.with_suffix(".running")):
        assert out.with_suffix(".running").read_text(encoding="utf-8") == "one"
    assert serving_plans.hung(out) == set()
    for words in ("two", "three"):
        out.with_suffix(".running").write_text(words, encoding="utf-8")
        found = serving_plans.hung(out)
    assert found == serving_plans.hung(out) == {"two", "three"}


def test_times_are_read_as_they_are_written(tmp_path):
    times = {"NT 8x512x512": {"cublas": 6.0}}
    for name in ("times.json", "times.json.xz"):
        serving_plans.write(tmp_path / name, times)
        assert serving_plans.read(tmp_path / name) == times
    assert serving_plans.together([tmp_path / "times.json", tmp_path / "none.json"]) == times


def test_weights_of_4_and_8_bits_have_bars():
    """The rows that are worth most come first; each is held against our bf16."""
    rows = {row.name: row for row in serving.ROWS}
    assert [rows[name].bar for name in ("w4a16", "fp8")] == [2.2, 1.5]
    first = [str(serving.Case("w4a16", 1, n, k)) for n, k in serving.LAYERS]
    assert [case for case, other in rows["w4a16"].cells if other == "bf16"][:10] == first
    assert len(rows["fp8"].cells) == 50
    assert serving.CONTENDERS["fp8 64 × 4099x4097"] == ["bf16"]
    assert serving.CONTENDERS["16 × 4096x4096"] == ["cublas"]


@pytest.mark.parametrize("operation", ["w4a16", "fp8"])
@pytest.mark.parametrize(("m", "n", "k"), [(16, 4096, 4096), (1, 4099, 4097)])
def test_operations_compile_ahead(operation, m, n, k):
    assert serving.compile_one(operation, m, n, k, H200) == ""


@pytest.mark.parametrize("rows", [8, 16])
@pytest.mark.parametrize("weights", [Packed(group=64, zeros=True), Packed("int8"), Packed("e4m3", 64)], ids=str)
def test_registers_do_for_as_many_blocks_as_plans_want(weights, rows):
    """ptxas refuses those that would serialise products. Of groups of 128 those are meant that may be chosen."""
    found = [weights.plan(rows, 6144, 4096, H200)]
    if weights.group == 128:
        plans = quantised_plans(rows, 6144, 4096, 132, KINDS[weights.format])
        found += [p for p in plans if p.together and p.stages <= 3 and p.parts == 4]
    assert any(plan.together > 1 for plan in found)
    for plan in found:
        assert weights.compile(rows, 6144, 4096, plan) == ""


@pytest.mark.parametrize("operation", ["w4a16", "fp8"])
def test_a_call_finds_what_was_compiled_ahead(operation, torch, tmp_path, monkeypatch):
    monkeypatch.setenv("MINITILE_CACHE_DIR", str(tmp_path))
    assert serving.compile_one(operation, 24, 192, 512, H200) == ""
    there = set(tmp_path.rglob("*"))
    assert there
    made, out = serving.OPERATIONS[operation], Array((24, 192))
    if operation == "fp8":
        x = Array((24, 512), "float8_e4m3fn"), Array((4, 24), "float32").t()
        weights = Array((192, 512), "float8_e4m3fn"), Array((2, 4), "float32")
    else:
        x = Array((24, 512))
        weights = (QuantisedWeights("int4", 192, 512, 128, Array((3, 32, 128), "int32"), Array((4, 192))),)
    for _ in range(2):
        made.launch(x, weights, out)
    assert len(torch.launches) == 2
    assert set(tmp_path.rglob("*")) == there


@pytest.mark.parametrize("words", [["--write", "H200"], ["--write", "H200", "--few"], ["--write", "H200", "--fit"]])
def test_only_what_is_fitted_to_few_rows_is_written(words, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["fit_matmul.py", *words])
    monkeypatch.setattr(fit_matmul, "write_few", lambda *_: pytest.fail("written"))
    with pytest.raises(SystemExit):
        fit_matmul.main()
    assert "--write is for what --few --fit finds" in capsys.readouterr().err


def test_a_measurement_holds_as_long_as_its_plan_is_chosen():
    """Of products, of weights of 4 bits, and of random problems."""
    case = serving.CASES["200 × 6144x4096"]
    plan = choose(Problem(200, 6144, 4096, False, True), H200, True, serving_plans.SHARED)
    for words, holds in ((str(plan), True), (str(plan._replace(stages=plan.stages - 1)), False)):
        note = f"20.6 µs, 2000 GB/s, {words}, error 2e-03"
        assert serving.unchanged(str(case), {"note": note}, H200) == holds
    quantised = str(serving.OPERATIONS["w4a16"].plan(16, 6144, 4096, H200))
    name = "w4a16 16 × 6144x4096"
    assert serving.unchanged(name, {"note": f"8.0 µs, 2000 GB/s, {quantised}, error 2e-03"}, H200)
    assert not serving.unchanged(name, {"note": f"8.0 µs, 2000 GB/s, {plan}, error 2e-03"}, H200)
    name = serving.RANDOM["random-1"][0]
    random_plan = choose(
        serving_plans.Case.of(name.split(": ")[1].replace(" ", ":")).problem, H200, True, serving_plans.SHARED
    )
    assert serving.unchanged(name, {"note": f"{random_plan}; tuned {random_plan}"}, H200)
    assert not serving.unchanged(name, {"note": f"1x1x1; tuned {random_plan}"}, H200)
    assert not serving.unchanged("a case that is no more", {"note": ""}, H200)
