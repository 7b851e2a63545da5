"""Stream-K plans of mt.ops.matmul: right for any sizes, the same bits in any order of events, no fence to spare."""

from __future__ import annotations

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.ir.diagnostics import LaunchArgumentError
from minitile.ops import Plan, matmul
from minitile.ops.multiply import _kernel
from minitile.ops.split.stream import TAG, workspace_of
from tests.examples.mutation_testing import surviving_mutants
from tests.ops.test_matmul import BOUND, bf16, error, operands, poisoned

SMALL = Plan(32, 64, 64, 3, 128, blocks=5, swap=True, stream=True)
SIZES = [
    (1, 1, 1),  # more blocks than steps
    (0, 72, 8),
    (8, 0, 8),
    (17, 131, 0),
    (32, 320, 70),  # as many tiles as blocks: none is cut
    (31, 131, 1000),  # several blocks for a tile
    (70, 200, 200),  # three tiles of rows: one group of blocks
    (40, 700, 330),  # whole tiles within a piece
]


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_any_size(size, monkeypatch):
    monkeypatch.setenv("MINITILE_TARGET", "sm_90a")
    m, n, k = size
    for form in ("NT", "TN") if m * n < 5000 else ("NT",):
        a, b = operands(m, n, k, form, seed=m)
        out = poisoned(m, n)
        matmul(a, b, out=out, plan=SMALL)
        assert error(out, a, b) < BOUND[bf16]


@pytest.mark.parametrize(
    "plan",
    [
        SMALL._replace(swap=False, block_M=64, block_N=32, blocks=4),
        SMALL._replace(share_rows=2, blocks=6, ahead=True),
        SMALL._replace(pad=(True, True), blocks=7),
        pytest.param(SMALL._replace(block_N=128, threads=256, blocks=13), marks=pytest.mark.slow),
        pytest.param(SMALL._replace(block_N=192, threads=384, blocks=2, stages=4), marks=pytest.mark.slow),
        pytest.param(SMALL._replace(block_M=200, block_N=128, threads=256, blocks=3), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_other_plans(plan, monkeypatch):
    """Two tiles of rows at least of most; results in f32 as well."""
    monkeypatch.setenv("MINITILE_TARGET", "sm_90a")
    for dtype in (bf16, np.float32):
        a, b = operands(45, 267, 333, "NT", seed=1)
        out = poisoned(45, 267, dtype)
        matmul(a, b, out=out, plan=plan)
        assert error(out, a, b) < BOUND[dtype]


def test_an_epilogue_sees_whole_sums(monkeypatch):
    monkeypatch.setenv("MINITILE_TARGET", "sm_90a")
    a, b = operands(20, 131, 400, "NT", seed=1)
    bias = np.linspace(-20, 20, 131, dtype=np.float32)

    def relu(x, bias):
        return T.max(x + bias, 0.0)

    out = matmul(a, b, plan=SMALL, epilogue=relu, args=(bias,))
    exact = np.maximum(a.astype(np.float64) @ b.astype(np.float64) + bias, 0)
    assert np.abs(out.astype(np.float64) - exact).max() < 0.01 * np.abs(exact).max()


def case(plan=SMALL, size=(30, 200, 456), integers=False, target="sm_90a"):
    """A compiled kernel with its arrays; the product of 30 × 200 × 456 has pieces of 6 steps of tiles of 8."""
    m, n, k = size
    a, b = operands(m, n, k, "NT")
    if integers:
        rng = np.random.default_rng(0)
        a, b = (rng.integers(-3, 4, x.shape).astype(bf16) for x in (a, b.T))
    else:
        b = b.T
    (parts, _), (flags, _) = workspace_of(plan)
    arrays = [a, b, poisoned(m, n), np.full(parts, np.nan, np.float32), np.arange(*flags, dtype=np.uint64), TAG]
    kernel = _kernel(T.bfloat16, T.bfloat16, False, True, plan)
    return kernel.compile(*arrays, target=target), arrays


@pytest.mark.parametrize("target", ["sm_90a", pytest.param("sm_80", marks=pytest.mark.slow)])
def test_the_same_bits_each_time(target):
    """The workspace and the flags of one launch do for the next one, as where a graph is replayed."""
    compiled, arrays = case(target=target)
    found = []
    for schedule, seed in (("lazy", 0), ("eager", 0), ("random", 1)):
        arrays[2].fill(np.nan)
        compiled.simulate(*arrays, schedule=schedule, seed=seed)
        assert error(arrays[2], arrays[0], arrays[1].T) < BOUND[bf16]
        assert (arrays[4] != TAG).all()
        found.append(arrays[2].view(np.int16).copy())
    assert all(np.array_equal(each, found[0]) for each in found)


def test_blocks_wait_for_earlier_ones_only():
    """More blocks than the GPU has room for at one time end all the same."""
    plan = SMALL._replace(blocks=40)
    compiled, arrays = case(plan, (8, 128, 64 * 20))
    compiled.simulate(*arrays)
    assert error(arrays[2], arrays[0], arrays[1].T) < BOUND[bf16]


def test_a_cluster_brings_the_weights_of_two_tiles_of_rows_once():
    compiled, _ = case(SMALL._replace(share_rows=2, blocks=6), (64, 200, 456))
    copies = [line for line in compiled.text.splitlines() if "cp.async.bulk.tensor" in line and "mbarrier" in line]
    assert [("multicast" in line, "B_map" in line) for line in copies] == [(False, False), (True, True)]


def test_parts_go_and_come_in_vectors():
    """16 bytes of each thread."""
    text = case()[0].text
    assert text.count("st.global.v4.f32") == text.count("ld.global.v4.f32") == 32 // 8
    assert "ld.global.f32" not in text


@pytest.mark.slow
def test_every_mutant_is_killed():
    """By tiles that are cut twice, or by pieces with several whole ones."""
    plan = SMALL._replace(blocks=4)
    compiled, arrays = case(plan, (30, 336, 456), integers=True)
    first, tried = surviving_mutants(compiled, arrays)
    assert tried >= 20
    second, _ = surviving_mutants(compiled, case(plan, (30, 896, 120), integers=True)[1])
    assert {*first} & {*second} == set()


@pytest.mark.parametrize(
    "wrong",
    [{"split": 2}, {"teams": 2, "threads": 256}, {"share": 2}, {"blocks": 0}, {"blocks": 1, "block_M": 16}],
    ids=str,
)
def test_what_is_no_stream(wrong, monkeypatch):
    monkeypatch.setenv("MINITILE_TARGET", "sm_90a")
    with pytest.raises(LaunchArgumentError, match="stream-K"):
        matmul(*operands(30, 64, 64, "NT"), plan=SMALL._replace(**wrong))


@pytest.mark.parametrize(
    ("rows", "columns", "share"),
    [(256, 128, 1), (200, 192, 1), (104, 256, 2), *(pytest.param(160, 192, 1, marks=pytest.mark.slow) for _ in "1")],
)
def test_no_plan_spills(rows, columns, share):
    plan = Plan(rows, columns, 64, 4, 2 * columns if columns < 256 else 256, 132, swap=True, share_rows=share)
    shapes = (rows * share, 8192), (10240, 8192), (rows * share, 10240)
    plan = plan._replace(stream=True)
    specs = [*(mt.spec(shape, T.bfloat16) for shape in shapes), *(mt.spec(*each) for each in workspace_of(plan))]
    made = _kernel(T.bfloat16, T.bfloat16, False, True, plan).compile(*specs, target="sm_90a")
    assert made.spills == 0
