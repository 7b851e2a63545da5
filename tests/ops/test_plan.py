"""The model behind matmul: near to what was measured, quick, and its plans can be compiled."""

from __future__ import annotations

import cProfile
import itertools
import math
import pstats
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import fit_matmul
from serving import LAYERS

import minitile as mt
import minitile.language as T
from minitile.backends.nvidia.hopper.tma_store import widths
from minitile.ops.choice import AMPERE, candidates, choose, hopper_tiles
from minitile.ops.gemm import gemm
from minitile.ops.machine import H200, machine_for
from minitile.ops.model import _across, estimate
from minitile.ops.plan import HILBERT, Plan, Problem

SHARED = 227 * 1024
LARGE = fit_matmul.RESULTS.with_name("gemm_one_team_h200.json")
SHAPES = [(8192, 8192, 8192), (128, 8192, 8192), (1, 4096, 4096), (512, 512, 8192), (300, 5000, 700), (4097, 33, 65)]


@pytest.fixture(scope="module")
def measured():
    """Large GEMMs, which the numbers are not fitted to. Not of few rows: here the matrix was in L2."""
    return [e for e in fit_matmul.read([LARGE]) if not e.problem.few]


@pytest.fixture(scope="module")
def plans():
    """Random problems, which the numbers are fitted to; every third one. Not few rows by a large matrix, which have
    numbers of their own: here the matrix was in L2."""
    cases = fit_matmul.by_problem(e for e in fit_matmul.read([fit_matmul.RESULTS]) if not e.problem.few)
    return [entry for entries in list(cases.values())[::3] for entry in entries]


def test_what_was_measured_is_read(measured, plans):
    assert len(measured) >= 54
    assert {len({e.plan for e in measured if e.problem == p}) for p in {e.problem for e in measured}} == {3, 6}
    assert len({e.problem for e in plans}) > 270  # a third of 829
    assert {e.plan.together for e in plans} == {e.plan.swap for e in plans} == {True, False}


def test_the_choice_is_near_the_fastest_that_was_measured(measured):
    shares = fit_matmul.regrets(measured, H200)
    assert fit_matmul.geometric_mean(shares.values()) > 0.98
    assert min(shares.values()) > 0.92


def chosen(plans, machine):
    """The speed of what the model chooses from the candidates, as a share of that of the fastest of all plans."""
    shares = []
    for problem, entries in fit_matmul.by_problem(plans).items():
        known = set(candidates(problem, H200, True, SHARED))
        offered = [e for e in entries if e.plan in known]
        if offered:
            choice = min(offered, key=lambda e: estimate(problem, e.plan, machine))
            shares.append(min(e.time for e in entries) / choice.time)
    return fit_matmul.geometric_mean(shares)


def test_the_choice_among_the_plans_of_random_problems(plans):
    """0.96 by the numbers as they are, 0.955 by numbers that are fitted to other problems."""
    assert chosen(plans, H200) > 0.95


def test_estimates_are_near_what_was_measured(measured):
    """The numbers are fitted to choices among plans of all sizes, not to these estimates."""
    off = [abs(math.log(estimate(e.problem, e.plan, H200) / e.time)) for e in measured]
    assert sorted(off)[len(off) // 2] < 0.08
    assert sorted(off)[len(off) * 9 // 10] < 0.12


WRONG = [
    {"line": 2},
    {"multiprocessors": 1.2},
    {"latency": 4},
    {"after": 4},
    {"meet": 8},
    {"chunk": 0.1, "element": 0.1},
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_a_wrong_model_would_be_noticed(plans, wrong):
    """Numbers that are off break the bound on choices."""
    machine = replace(H200, **{name: type(getattr(H200, name))(getattr(H200, name) * x) for name, x in wrong.items()})
    assert chosen(plans, machine) < 0.95


def test_plans_say_what_they_are():
    plan = Plan(128, 256, 64, 4, 256, 132, 16, 2, (True, False), 2, True)
    words = "128x256x64, 4 stages, 256 threads, 132 blocks, panels of 16, split-K by 2, A padded, 2 teams, A/B swapped"
    assert str(plan) == words
    assert fit_matmul.plan_of(words) == plan
    for plan in (
        Plan(64, 80, 64, 8, 128, panel=HILBERT),
        Plan(16, 64, 128, 8, 128, split=3, swap=True, together=True),
        Plan(16, 64, 128, 8, 128, split=2, swap=True, together=True, share=2, ahead=True),
        Plan(104, 64, 64, 8, 128, panel=8, swap=True, share=2, share_rows=2),
        Plan(128, 64, 64, 8, 256, panel=8, share_rows=4),
    ):
        assert fit_matmul.plan_of(str(plan)) == plan


@pytest.mark.parametrize("wgmma", [True, False])
def test_a_plan_is_chosen_in_few_calls(wgmma):
    """Calls do not depend on the machine; those of 512×512×8192, for 52 candidates, take 0.6 ms on a slow one."""
    for shape in SHAPES:
        problem = Problem(*shape, False, True)
        choose(problem, H200, wgmma, SHARED)
        with cProfile.Profile() as profile:
            choose(problem, H200, wgmma, SHARED)
        count = len(list(candidates(problem, H200, wgmma, SHARED)))
        assert count <= 60, shape
        assert pstats.Stats(profile).total_calls < 34 * count + 100, shape  # type: ignore[attr-defined]


def test_multiprocessors_are_kept_busy():
    """Few rows: more tiles or slices of split-K than half of the multiprocessors; many: persistent kernels."""
    for shape in ((128, 8192, 8192), (64, 7168, 18432), (512, 512, 8192)):
        problem = Problem(*shape)
        plan = choose(problem, H200, True, SHARED)
        tiles = -(-shape[0] // plan.block_M) * -(-shape[1] // plan.block_N) * plan.split
        assert tiles > 66, plan
    assert choose(Problem(8192, 8192, 8192), H200, True, SHARED).blocks == 132


def test_ragged_operands_are_padded_where_it_pays():
    assert choose(Problem(4096, 4096, 4095), H200, True, SHARED).pad == (True, False)
    assert choose(Problem(4096, 4095, 4096), H200, True, SHARED).pad == (False, True)
    assert choose(Problem(4095, 4096, 4095, True, True), H200, True, SHARED).pad == (True, True)
    assert choose(Problem(16, 16, 15), H200, True, SHARED).pad == (False, False)


def test_any_problem_has_a_plan_on_any_target():
    for target in map(mt.target.parse_target, ("sm_80", "sm_89", "sm_90a", "gfx942", "gfx950")):
        for shape in (*SHAPES, (1, 1, 1), (0, 3, 0), (16384, 1, 1), (1, 16384, 16384)):
            plans = list(candidates(Problem(*shape), H200, target.has("wgmma"), target.max_shared))
            assert plans, (target, shape)
            assert all(estimate(Problem(*shape), p, H200) > 0 for p in plans)


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 16, 17, 32, 33, 64, 65])
def test_a_long_and_narrow_problem_has_a_plan(n):
    for m, k, form in itertools.product((8449, 20_000, 300_000, 40_000_000), (1, 5000), range(4)):
        for tall in (
            Problem(m, n, k, bool(form & 1), bool(form & 2)),
            Problem(n, m, k, bool(form & 1), bool(form & 2)),
        ):
            plan = choose(tall, H200, True, SHARED)
            assert estimate(tall, plan, H200) > 0
            assert min(plan.block_M / 64, plan.block_N / 64) <= max(1, min(tall.m, tall.n) / 32), (tall, plan)


def test_results_are_stored_as_wide_as_the_backend_does():
    """What the model takes for the columns that leave together is what the compiler makes of tiles that are chosen."""
    chosen = {
        tile.n
        for m, n in itertools.product((1, 40, 300, 5000), (8, 56, 64, 100, 176, 1000, 1104, 5000))
        for form in (False, True)
        for tile in hopper_tiles(Problem(m, n, 1000, False, form), 132, SHARED)
        if not tile.swap
    }
    assert len(chosen) > 15
    for columns in chosen:
        assert _across(columns) == next(widths(columns, 16))[0]


def kinds() -> dict[tuple[int, ...], Plan]:
    """Plans for Hopper of all kinds that there are: by rows, columns, and what else decides on a kernel's form."""
    found: dict[tuple[int, ...], Plan] = {}
    for shape in ((1024, 1024, 1024), (5640, 528, 952), (104, 13392, 4192), (40, 8192, 4096), (512, 264, 8192)):
        for plan in candidates(Problem(*shape, False, True), H200, True, SHARED):
            width = plan.block_N if plan.block_N % 64 == 0 else plan.block_N // 16 % 4
            found[plan.block_M, width, bool(plan.blocks), plan.teams, plan.split > 1, plan.swap] = plan
    return found


def test_kinds_of_tiles():
    """Each number of rows, usual columns and others, persistent kernels, teams, split-K, and few rows swapped."""
    found = kinds().values()
    assert {64, 128, 192, 256, 40} <= {p.block_M for p in found}
    assert {64, 128, 192, 256} < {p.block_N for p in found}
    assert {bool(p.blocks) for p in found} == {p.swap for p in found} == {p.split > 1 for p in found} == {True, False}
    assert {p.teams for p in found} == {1, 2}


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in (1, 2))])
def test_each_kind_of_tile_compiles_into_the_form_that_it_is_for(part):
    """On Hopper by roles, TMA and wgmma, without a note (but swapped ones' stores, some of which no box divides), and
    nowhere more shared memory than there is."""
    for plan in [p for p in kinds().values() if p.split == 1][part::3]:
        kernel = gemm(T.bfloat16, T.bfloat16, False, True, False, False)
        specs = [mt.spec(s, "bfloat16") for s in ((8192, 8192), (8192, 8192), (8192, 8192))]
        compiled = kernel.compile(*specs, target="sm_90a", **plan.constants)
        assert plan.swap or compiled.notes == (), (plan, compiled.notes)
        assert all(note.startswith("not stored by TMA (C") for note in compiled.notes)
        assert compiled.launch_info.block[0] == plan.threads + 128
        assert compiled.launch_info.dynamic_shared <= SHARED
    for tile in AMPERE[part::3]:
        plan = Plan(tile.m, tile.n, tile.k, tile.stages, tile.threads)
        kernel = gemm(T.bfloat16, T.bfloat16, False, False, False, False)
        specs = [mt.spec(s, "bfloat16") for s in ((1024, 1024), (1024, 1024), (1024, 1024))]
        assert kernel.compile(*specs, target="sm_80", **plan.constants).launch_info.dynamic_shared <= 163 * 1024


@pytest.mark.parametrize("form", ["NN", "NT", "TN", "TT"])
def test_columns_divide_what_there_is(form):
    """Tiles of 288 columns that waste none, and of 1500 that fit one round; where rows of B are contiguous,
    columns by 32."""
    by_rows = form[1] == "N"
    few = [t.n for t in hopper_tiles(Problem(9848, 288, 9168, form[0] == "T", not by_rows), 132, SHARED)]
    assert {96, 288 // 3} <= set(few)
    assert (144 in few) != by_rows
    one_round = [t for t in hopper_tiles(Problem(128, 13392, 4192, False, not by_rows), 132, SHARED) if t.m == 128]
    assert any(-(-13392 // t.n) <= 132 < -(-13392 // (t.n - (32 if by_rows else 16))) for t in one_round)
    assert all(t.n % 32 == 0 for t in one_round) or not by_rows


@pytest.mark.parametrize("columns", [128, 192])
def test_teams_compile_without_spills(columns):
    plan = Plan(128, columns, 64, 5, 256, 132, 8, teams=2)
    kernel = gemm(T.bfloat16, T.bfloat16, False, True, False, False)
    compiled = kernel.compile(*[mt.spec((8192, 8192), "bfloat16")] * 3, target="sm_90a", **plan.constants)
    assert compiled.notes == ()
    assert compiled.launch_info.block[0] == 384


@pytest.mark.parametrize("form", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("result", ["bfloat16", "float32"])
def test_the_tiles_with_teams_compile_for_every_form_and_result(form, result):
    for rows, columns, stages in ((128, 192, 5), (128, 128, 6), (64, 128, 8)):
        plan = Plan(rows, columns, 64, stages, 256, 132, 8, teams=2)
        kernel = gemm(T.bfloat16, getattr(T, result), *form, False, True)
        specs = [mt.spec((4096, 4096), name) for name in ("bfloat16", "bfloat16", result)]
        compiled = kernel.compile(*specs, target="sm_90a", **plan.constants)
        assert compiled.notes == (), (plan, compiled.notes)
        assert compiled.launch_info.block[0] == 384


def test_teams_alternate_in_persistent_kernels():
    """Many tiles: two teams, unless threads copy element by element; one team in a block for each tile."""
    many = list(candidates(Problem(8192, 8192, 8192), H200, True, SHARED))
    assert {(128, 128), (128, 192)} <= {(p.block_M, p.block_N) for p in many if p.teams == 2}
    assert not any(p.block_M * p.block_N > 128 * 192 for p in many if p.teams == 2)
    assert all(p.blocks for p in many if p.teams == 2)
    few = candidates(Problem(512, 512, 8192), H200, True, SHARED)
    ragged = candidates(Problem(5000, 1000, 17), H200, True, SHARED)
    assert {p.teams for p in (*few, *ragged)} == {1}
    assert choose(Problem(8192, 8192, 8192, False, True), H200, True, SHARED).teams == 2


def test_fitting_leaves_out_what_it_is_judged_by(measured, monkeypatch):
    """Each problem is judged once, by numbers in whose making it had no part."""
    fitted = []

    def noted(entries, machine, steps):
        fitted.append({e.problem for e in entries})
        return machine

    monkeypatch.setattr(fit_matmul, "fit", noted)
    found = fit_matmul.cross_validated(measured, H200, folds=4)
    assert found == fit_matmul.regrets(measured, H200)
    everything = {e.problem for e in measured}
    left_out = [everything - kept for kept in fitted]
    assert sum(map(len, left_out)) == len(everything) == len(set().union(*left_out))


@pytest.fixture(scope="module")
def few_rows():
    """What the numbers for few rows are fitted to, and the problems that were kept aside."""
    measured, kept, count = fit_matmul.of_few_rows()
    return [e for e in measured if count(e.problem) >= 1], kept


FEW_ROWS = {  # rows: the choices' speed as a share of the fastest measured plans', mean and least, by the layers
    (1, 8): (0.99, 0.95),
    (16, 64): (0.99, 0.965),
    (96, 256): (0.985, 0.94),
    (512, 512): (0.99, 0.97),
}


@pytest.mark.parametrize("rows", FEW_ROWS, ids=str)
def test_choices_for_the_layers(few_rows, rows):
    least, most = rows
    of_layers = [e for e in few_rows[0] if least <= e.problem.m <= most and (e.problem.n, e.problem.k) in LAYERS]
    found = fit_matmul.regrets(of_layers, H200.few)
    mean, worst = FEW_ROWS[rows]
    assert len(found) >= 10
    assert fit_matmul.geometric_mean(found.values()) > mean
    assert min(found.values()) > worst


def test_choices_for_problems_that_were_kept_aside(few_rows):
    fitted, kept = few_rows
    found = fit_matmul.regrets(kept, H200.few)
    assert len(found) >= 19
    assert not {e.problem for e in fitted} & set(found)
    assert fit_matmul.geometric_mean(found.values()) > 0.97  # of the others 0.990
    assert sum(share > 0.93 for share in found.values()) >= len(found) - 1  # but one, 0.79


def test_the_slope_of_the_loss(measured):
    cases = fit_matmul.Cases.of(measured, lambda problem: 0.5 if problem.m > 4000 else 2.0)
    estimates = cases.estimates(H200)
    value, slope = fit_matmul.loss(cases, estimates)
    for n in range(0, len(estimates), 5):
        beside = estimates.copy()
        beside[n] += 1e-6
        assert (fit_matmul.loss(cases, beside)[0] - value) / 1e-6 == pytest.approx(slope[n], abs=1e-6)


def test_a_fit_finds_the_way_back(measured, monkeypatch):
    """From numbers that are off towards those by which the times were made: other numbers may do as well."""
    monkeypatch.setattr(fit_matmul, "unmeasured", lambda problem, entries: ())
    exact = [e._replace(time=estimate(e.problem, e.plan, H200)) for e in measured]
    off = replace(H200, flops=H200.flops * 1.2, latency=H200.latency * 0.7)
    cases = fit_matmul.Cases.of(exact)
    before, found = fit_matmul.loss(cases, cases.estimates(off))[0], fit_matmul.fit(exact, off, 3)
    assert fit_matmul.loss(cases, cases.estimates(found))[0] < before / 2


def test_what_was_not_measured_is_no_good_choice(measured):
    """A fit takes it to be slower than the fastest entry, and does not ask how far its estimate is off."""
    cases = fit_matmul.Cases.of(measured)
    guessed = [e for e in cases.entries if e.guessed]
    assert len(guessed) > len(measured) / 2
    fastest = {problem: min(e.time for e in found) for problem, found in fit_matmul.by_problem(measured).items()}
    assert all(e.time > fastest[e.problem] for e in guessed)
    assert not {(e.problem, e.plan._replace(stages=0)) for e in guessed} & {
        (e.problem, e.plan._replace(stages=0)) for e in measured
    }


def test_a_plan_measured_twice_is_one_plan():
    problem, plan = Problem(64, 64, 64), Plan(64, 64, 64, 4, 128)
    twice = [fit_matmul.Measured(problem, plan, 3.0), fit_matmul.Measured(problem, plan, 2.0)]
    assert fit_matmul.by_problem(twice) == {problem: twice[1:]}
    assert fit_matmul.regrets(twice, H200) == {problem: 1.0}


def test_few_rows_have_numbers_of_their_own(tmp_path, monkeypatch):
    """Written as they are read; a choice among them takes few calls, and offers what is for few rows alone."""
    monkeypatch.setattr(fit_matmul, "FITTED_FILE", tmp_path / "fitted.py")
    monkeypatch.setattr(fit_matmul, "FEW", {"H100": {"dram": 1.0}})
    (tmp_path / "fitted.py").write_text('"""Numbers."""\n\nFEW: dict = {}\n', encoding="utf-8")
    fit_matmul.write_few("H200", replace(H200, dram=2.5e6))
    found: dict = {}
    exec((tmp_path / "fitted.py").read_text(encoding="utf-8"), found)
    assert found["FEW"]["H100"] == {"dram": 1.0}
    assert found["FEW"]["H200"]["dram"] == 2.5e6
    assert set(found["FEW"]["H200"]) == set(fit_matmul.FITTED)
    machine = replace(H200, few=replace(H200, cold=True, few=None))
    for shape in ((1, 4096, 4096), (96, 4096, 14336), (200, 28672, 4096), (8, 4099, 4097)):
        problem = Problem(*shape, False, True)
        found_plans = list(candidates(problem, machine, True, SHARED))
        assert len(found_plans) < 90  # ragged ones as they lie, and padded
        assert any(plan.swap and plan.block_M >= min(shape[0], 200) for plan in found_plans)
        assert any(plan.dots for plan in found_plans) == (shape[0] <= 8)
        assert estimate(problem, found_plans[-1], machine) > 0


def test_tiles_of_rows_are_neighbours_where_weights_come_from_memory():
    """Where they are full: with 200 rows the second of two would be half outside."""
    for m, panel in ((256, 8), (200, 0)):
        found = [p for p in candidates(Problem(m, 6144, 4096, False, True), H200, True, SHARED) if p.block_M == 128]
        assert {p.panel for p in found if not (p.together or p.swap or p.blocks)} == {panel}
    assert choose(Problem(256, 6144, 4096, False, True), H200, True, SHARED).panel == 8


def test_odd_rows_of_a_matrix():
    """As measured of 4099×4097: by classes of rows 12.3 µs for 1 vector, 12.0 for 2, 12.2 for 4, 12.3 for 8, 13.5 for
    16 and 21.2 for 64; by threads 12.5 for 1, 14.1 for 2, 17.9 for 4; split-K 19.6 for 8, 20.3 for 16 and 25.9 for 64;
    of 128 33 by classes, and 31 as padded plans."""
    rows = 1, 2, 4, 8, 16, 32, 64
    found = {m: choose(Problem(m, 4099, 4097, False, True), H200, True, SHARED) for m in rows}
    for m in (2, 4, 8, 16, 32):
        assert found[m] == Plan(max(m, 8), 64, 128, 8, 128, swap=True, by_class=True)
    assert found[1].dots or found[1].by_class
    assert found[64].by_class
    assert not choose(Problem(128, 4099, 4097, False, True), H200, True, SHARED).by_class
    for other in (Problem(8, 4099, 4096, False, True), Problem(8, 4100, 4097), Problem(8, 4099, 4097, True, True)):
        assert not choose(other, H200, True, SHARED).by_class


def test_machines():
    assert machine_for("NVIDIA H200", 132, (9, 0)).flops == H200.flops
    h100 = machine_for("NVIDIA H100 80GB HBM3", 132, (9, 0))
    assert h100.dram < H200.dram
    assert machine_for("NVIDIA GeForce RTX 4090", 128, (8, 9)).multiprocessors == 128


def test_what_passes_through_shared_memory_bounds_a_step():
    """A tile's step takes as long as its copies in and the reads of its products: 384 lines of 128×256, and 2 × 320."""
    problem, plan = Problem(128, 132 * 256, 1 << 16, False, True), Plan(128, 256, 64, 4, 256)
    slow = replace(H200, few=None, port=1e4, power=1e12, l2=1e12, fresh=1e12, dram=1e12)
    steps = (1 << 16) / 64
    assert estimate(problem, plan, slow) == pytest.approx(steps * (384 + 640) * 128 / 1e4, rel=0.01)
    swapped = Plan(200, 128, 64, 5, 256, swap=True)  # wgmma of 64 columns of C by 200 rows, twice
    problem = Problem(200, 132 * 128, 1 << 16, False, True)
    assert estimate(problem, swapped, slow) == pytest.approx(steps * (328 + 528) * 128 / 1e4, rel=0.01)


def test_an_h100_has_its_own_memory():
    """Fewer bytes a second, for few rows as well; its multiprocessors are the same."""
    h100, h200 = (machine_for(name, 132, (9, 0)) for name in ("NVIDIA H100 80GB HBM3", "NVIDIA H200"))
    for one, other in ((h100, h200), (h100.few, h200.few)):
        assert one.dram / other.dram == pytest.approx(0.735, abs=0.001)
        assert (one.flops, one.port, one.l2) == (other.flops, other.port, other.l2)


def test_few_rows_by_weights_that_only_some_plans_suit():
    """As measured on an H200. 88×14190×7764, weights with rows of no whole 16 bytes: 73 µs as they lie, 168 padded.
    32×1880×5344: 0.74 of the speed in a cluster. 49×22×14941: 7.9 µs in 32 parts, 9.9 in 16."""
    for shape, form, check in (
        ((88, 14190, 7764), (True, True), lambda plan: plan.pad == (False, False)),
        ((32, 1880, 5344), (False, True), lambda plan: plan.apart),
        ((49, 22, 14941), (True, False), lambda plan: plan.split > 16),
    ):
        plan = choose(Problem(*shape, *form), H200, True, SHARED)
        assert check(plan), plan
