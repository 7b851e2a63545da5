"""Plans for few rows by a large matrix: they fit, do not spill, and are right for any number of rows."""

from __future__ import annotations

import random
import warnings

import pytest

import minitile as mt
import minitile.language as T
from minitile.ops import matmul
from minitile.ops.choice import choose
from minitile.ops.machine import H200
from minitile.ops.multiply import _kernel, assembled
from minitile.ops.plan import Plan, Problem
from minitile.ops.thin import thin_plans
from tests.ops.test_matmul import BOUND, bf16, error, operands, poisoned

SHARED = 227 * 1024
LAYERS = [(6144, 4096), (28672, 4096), (8192, 28672), (24576, 1536), (32768, 512)]
ROWS = [1, 9, 48, 65, 96, 104, 128, 160, 200, 232, 256, 300, 512]


def some(count, seed, rows=ROWS, results=(2,)):
    """Problems of all forms, each with one of its plans, at random."""
    rng = random.Random(seed)
    while count:
        m, (n, k), form = rng.choice(rows), rng.choice(LAYERS), rng.randrange(4)
        m = m if form & 1 == 0 else -(-m // 8) * 8  # ragged operands are padded first
        problem = Problem(m, n, k, bool(form & 1), bool(form & 2), 2, rng.choice(results))
        plans = list(thin_plans(problem, H200, SHARED))  # none of many rows in f32, where registers are few
        if plans:
            yield problem, rng.choice(plans)
            count -= 1


def compiled(problem, plan):
    m, n, k, transpose_a, transpose_b, *_ = problem
    result = T.bfloat16 if problem.result == 2 else T.float32
    shapes = (k, m) if transpose_a else (m, k), (n, k) if transpose_b else (k, n), (m, n)
    specs = [mt.spec(shape, dtype) for shape, dtype in zip(shapes, (T.bfloat16, T.bfloat16, result), strict=True)]
    return _kernel(T.bfloat16, result, transpose_a, transpose_b, plan).compile(*specs, target="sm_90a")


def test_which_problems_are_few_rows():
    assert [Problem(m, n, 4096).few for m, n in ((1, 4096), (512, 4096), (513, 4096), (16, 512))] == [
        True,
        True,
        False,
        False,
    ]


def test_plans_fit_into_a_multiprocessor():
    for m in ROWS:
        for n, k in LAYERS:
            for plan in thin_plans(Problem(m, n, k), H200, SHARED):
                assert plan.stages * (plan.block_M + plan.block_N) * plan.block_K * 2 < SHARED
                assert plan.cluster <= 8
                assert plan.block_M % (8 * plan.share) == 0
                assert plan.block_M * plan.block_N <= 128 * 256 or plan.block_N == 192


@pytest.mark.parametrize(
    ("problem", "plan"),
    [
        *some(4, 1, (200, 256), (2, 4)),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in some(60, 2, ROWS, (2, 2, 4))),
    ],
    ids=str,
)
def test_no_plan_spills(problem, plan):
    kernel = compiled(problem, plan)
    assert kernel.spills == 0
    assert kernel.launch_info.dynamic_shared <= SHARED
    assert kernel.launch_info.block[0] == plan.threads + 128


CHOSEN = [(m, n, k) for m in (1, 8, 32, 64, 96, 128, 160, 200, 256, 512) for n, k in [*LAYERS, (4099, 4097)]]


@pytest.mark.parametrize(
    "size",
    [
        (200, 28672, 4096),
        *(pytest.param(size, marks=pytest.mark.slow) for size in CHOSEN if size != (200, 28672, 4096)),
    ],
    ids=str,
)
def test_what_is_chosen_does_not_spill(size):
    """A kernel that the assembler warns of has registers that do not do."""
    problem = Problem(*size, False, True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assembled(problem, T.bfloat16, T.bfloat16, choose(problem, H200, True, SHARED))


def test_one_stage_more_is_worth_room_for_results():
    """Where there are few; boxes of results have room still."""
    for m, high, wide in ((200, 200, 128), (160, 80, 256)):
        plans = thin_plans(Problem(m, 28672, 4096, False, True), H200, SHARED)
        deepest = max(plan.stages for plan in plans if plan[:2] == (high, wide) and plan.blocks and plan.share == 1)
        assert deepest == 5
        assert SHARED - deepest * (high + wide) * 64 * 2 >= 64 * 256


@pytest.mark.parametrize("size", [(200, 128, 64, 4, 256), (128, 192, 64, 5, 384), (120, 256, 64, 4, 256)], ids=str)
def test_parts_stored_across_a_tile_do_not_spill(size):
    """Many rows of a thread, each with an address of its own: consumers take registers from the role that copies."""
    plan = Plan(*size, split=2, swap=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assembled(Problem(plan.block_M * 2, 10240, 8192, False, True), T.bfloat16, T.bfloat16, plan)


@pytest.mark.slow
@pytest.mark.parametrize(
    "m", [9, 96, *(pytest.param(m, marks=pytest.mark.slow) for m in (1, 7, 8, 65, 127, 160, 200, 255, 256))]
)
def test_right_for_any_number_of_rows(m, monkeypatch):
    """Two plans of each, on a smaller matrix, whose size is no multiple of anything."""
    monkeypatch.setenv("MINITILE_TARGET", "sm_90a")
    rng = random.Random(m)
    plans = [plan for plan in thin_plans(Problem(m, 6144, 4096, False, True), H200, SHARED) if plan.block_N <= 128]
    a, b = operands(m, 133, 200, "NT", seed=m)
    for plan in rng.sample(plans, 2):
        out = poisoned(m, 133)
        matmul(a, b, out=out, plan=plan._replace(blocks=min(plan.blocks, 4)))
        assert error(out, a, b) < BOUND[bf16]


@pytest.mark.parametrize(
    ("wide", "split", "m"),
    [(256, 4, 9), *(pytest.param(256, split, m, marks=pytest.mark.slow) for split, m in ((2, 9), (8, 9), (4, 96)))]
    + [pytest.param(wide, split, 40, marks=pytest.mark.slow) for wide in (64, 128, 192) for split in (2, 4, 8)],
)
def test_parts_that_are_added_together_are_right_in_tiles_of_any_width(wide, split, m, monkeypatch):
    """A warpgroup has two times 64 columns of a tile of 256, and a share of it may be one of these."""
    monkeypatch.setenv("MINITILE_TARGET", "sm_90a")
    plans = thin_plans(Problem(m, wide * 128 // split, 4096, False, True), H200, SHARED, every=True)
    plan = next((plan for plan in plans if (plan.block_N, plan.split) == (wide, split)), None)
    if plan is None:
        pytest.skip("no share of whole 8 columns")
    n, k = wide + 5, 64 * split + 8
    a, b = operands(m, n, k, "NT", seed=wide)
    out = poisoned(m, n)
    matmul(a, b, out=out, plan=plan)
    assert error(out, a, b) < BOUND[bf16]


def test_what_is_chosen_for_layers_does_not_spill():
    """Of every form that serving has: all rows in few tiles, and many multiprocessors at work."""
    for m in (1, 16, 64, 200):
        problem = Problem(m, 4096, 4096, False, True)
        plan = choose(problem, H200, True, SHARED)
        tiles = -(-m // plan.block_M) * -(-4096 // plan.block_N) * plan.split
        assert plan.dots or tiles >= 60, plan
