"""mt.ops.matmul in the simulator: right for every form, dtype and plan, at odd sizes; wrong use is refused."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.ops import Plan, matmul, plan_for
from minitile.ops import matmul as entry
from minitile.ops.multiply import _kernel
from minitile.ops.plan import HILBERT

bf16, f16 = ml_dtypes.bfloat16, np.float16
BOUND = {bf16: 4e-3, f16: 5e-4, np.float32: 1e-6}
SMALL = Plan(64, 64, 32, 3, 128)
FORMS = ["NN", "NT", "TN", "TT"]


def operands(m, n, k, form="NN", dtype=bf16, seed=0):
    """Random matrices a (m × k) and b (k × n); "T" is one that lies transposed."""
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
    return (np.ascontiguousarray(a.T).T if form[0] == "T" else a), (
        np.ascontiguousarray(b.T).T if form[1] == "T" else b
    )


def error(c, a, b):
    expected = a.astype(np.float64) @ b.astype(np.float64)
    return np.linalg.norm(c.astype(np.float64) - expected) / max(np.linalg.norm(expected), 1e-30)


def poisoned(m, n, dtype=bf16):
    return np.full((m, n), np.nan).astype(dtype)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [bf16, f16])
def test_each_form(target, form, dtype, monkeypatch):
    monkeypatch.setenv("MINITILE_TARGET", target)
    a, b = operands(72, 40, 56, form, dtype)
    assert plan_for(a, b).pad == (False, False)
    c = matmul(a, b)
    assert c.dtype == dtype
    assert error(c, a, b) < BOUND[dtype]


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 17, 31), (67, 1, 5), (13, 29, 101)])
def test_odd_sizes(target, shape, monkeypatch):
    monkeypatch.setenv("MINITILE_TARGET", target)
    m, n, k = shape
    for form in ("NN", "TT"):
        a, b = operands(m, n, k, form)
        out = poisoned(m, n)
        assert matmul(a, b, out=out) is out
        assert error(out, a, b) < BOUND[bf16]


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(
    "plan",
    [
        SMALL,
        SMALL._replace(blocks=2, panel=2),
        SMALL._replace(panel=2),
        SMALL._replace(panel=HILBERT),
        SMALL._replace(blocks=2, panel=HILBERT, teams=2, threads=256),
        SMALL._replace(split=3),
        SMALL._replace(split=2, blocks=3, panel=1),
        SMALL._replace(pad=(True, False)),
        SMALL._replace(pad=(True, True), split=2),
        SMALL._replace(blocks=2, panel=2, teams=2, threads=256),
        SMALL._replace(block_M=16, swap=True),
        SMALL._replace(block_M=16, swap=True, split=2),
    ],
    ids=str,
)
def test_each_kind_of_plan(target, plan, monkeypatch):
    """Sizes that are no multiples of anything, three tiles and more, the last one mostly outside."""
    monkeypatch.setenv("MINITILE_TARGET", target)
    for form in ("NT", "TN"):
        a, b = operands(133, 69, 103, form, seed=1)
        out = poisoned(133, 69)
        matmul(a, b, out=out, plan=plan)
        assert error(out, a, b) < BOUND[bf16]


@pytest.mark.parametrize(
    ("plan", "form"),
    [
        (Plan(192, 144, 64, 3, 384), "NT"),
        (Plan(256, 96, 64, 3, 256), "NN"),
        (Plan(128, 176, 64, 3, 256, 2, 8), "TT"),
        (Plan(64, 80, 128, 3, 128), "NT"),
        (Plan(64, 96, 64, 4, 256, 2, HILBERT, teams=2), "NN"),
        (Plan(40, 128, 64, 4, 256, swap=True), "TN"),
    ],
    ids=str,
)
def test_tiles_made_for_a_problem(plan, form, monkeypatch):
    """Rows and columns that are no powers of two, the last tile mostly outside."""
    monkeypatch.setenv("MINITILE_TARGET", "sm_90a")
    a, b = operands(plan.block_M + 8, plan.block_N + 24, 136, form)
    out = poisoned(plan.block_M + 8, plan.block_N + 24)
    matmul(a, b, out=out, plan=plan)
    assert error(out, a, b) < BOUND[bf16]


@pytest.mark.parametrize("width", range(8, 64, 8))
@pytest.mark.parametrize("ragged", [False, True])
def test_narrow_tiles_whose_k_lies_across(width, ragged, monkeypatch):
    """One operand by TMA; the other, of a few columns, by threads where its rows are no whole 16 bytes."""
    monkeypatch.setenv("MINITILE_TARGET", "sm_90a")
    columns = 58 if ragged else 56
    a, b = operands(70, columns, 136, "NN")
    assert error(matmul(a, b, plan=Plan(64, width, 64, 3, 128)), a, b) < BOUND[bf16]
    a, b = operands(columns, 70, 136, "TT")
    assert error(matmul(a, b, plan=Plan(width, 64, 64, 3, 128, swap=True)), a, b) < BOUND[bf16]


@pytest.mark.parametrize(
    "plan",
    [
        SMALL._replace(split=2, together=True),
        SMALL._replace(split=8, together=True, block_K=64),
        SMALL._replace(split=4, together=True, block_M=128, block_N=48, threads=256, pad=(True, True)),
        SMALL._replace(split=3, together=True, block_M=192, block_N=72, threads=384),
        SMALL._replace(split=2, together=True, block_M=24, swap=True),
        SMALL._replace(split=4, together=True, block_M=16, block_N=128, threads=256, swap=True),
    ],
    ids=str,
)
def test_parts_of_k_added_up_in_clusters(plan, monkeypatch):
    """Among them more parts than steps, and shares of rows that are all outside of C."""
    monkeypatch.setenv("MINITILE_TARGET", "sm_90a")
    a, b = operands(75, 69, 103, "TN" if plan.swap else "NT", seed=1)
    out = poisoned(75, 69)
    matmul(a, b, out=out, plan=plan)
    assert error(out, a, b) < BOUND[bf16]


@pytest.mark.parametrize(
    "plan",
    [
        SMALL._replace(share=2),
        SMALL._replace(block_M=32, swap=True, share=4, ahead=True),
        SMALL._replace(block_M=16, swap=True, share=2, blocks=4, panel=1),
        SMALL._replace(block_M=16, swap=True, share=2, blocks=4, panel=2, teams=2, threads=256),
        SMALL._replace(block_M=16, swap=True, share=2, split=2),
        SMALL._replace(block_M=16, swap=True, share=2, split=2, together=True, pad=(True, True)),
        SMALL._replace(share=2, split=4, together=True, ahead=True),
    ],
    ids=str,
)
def test_blocks_that_share_a(plan, monkeypatch):
    """Three tiles of columns: the last block of a cluster has none. More rows than a tile has, and fewer."""
    monkeypatch.setenv("MINITILE_TARGET", "sm_90a")
    for m, n, form in ((37, 133, "NT"), (plan.block_M + 5, 133, "TN")):
        a, b = operands(m, n, 104, form, seed=1)
        out = poisoned(m, n)
        matmul(a, b, out=out, plan=plan)
        assert error(out, a, b) < BOUND[bf16]


@pytest.mark.parametrize(
    "plan",
    [
        SMALL._replace(share_rows=2, block_N=32),
        SMALL._replace(block_M=24, swap=True, share_rows=2, panel=8, ahead=True),
        SMALL._replace(block_M=16, swap=True, share_rows=2, blocks=4, panel=8),
        SMALL._replace(block_M=16, swap=True, share_rows=2, blocks=4, panel=8, teams=2, threads=256),
        SMALL._replace(block_M=16, swap=True, share=2, share_rows=2),
        SMALL._replace(block_M=16, swap=True, share_rows=2, split=2, together=True),
        pytest.param(
            SMALL._replace(block_M=16, swap=True, share=2, share_rows=2, split=2, together=True), marks=pytest.mark.slow
        ),
        SMALL._replace(share_rows=2, split=2),
    ],
    ids=str,
)
def test_blocks_that_share_b(plan, monkeypatch):
    """Three tiles of rows, so that the last block of a cluster has none; three of columns."""
    monkeypatch.setenv("MINITILE_TARGET", "sm_90a")
    a, b = operands(3 * plan.block_M - 5, 133, 104, "NT", seed=1)
    out = poisoned(3 * plan.block_M - 5, 133)
    matmul(a, b, out=out, plan=plan)
    assert error(out, a, b) < BOUND[bf16]


def test_a_cluster_reads_the_columns_of_b_once():
    specs = [mt.spec(shape, T.bfloat16) for shape in ((256, 256), (128, 256), (256, 128))]
    plan = Plan(128, 64, 64, 4, 256, share_rows=2)
    text = _kernel(T.bfloat16, T.bfloat16, False, True, plan).compile(*specs, target="sm_90a").text
    copies = [line for line in text.splitlines() if "cp.async.bulk.tensor" in line and "mbarrier" in line]
    assert [("multicast" in line, "B_map" in line) for line in copies] == [(False, False), (True, True)]


@pytest.mark.parametrize(
    "plan",
    [
        Plan(200, 128, 64, 4, 256, swap=True),
        pytest.param(Plan(208, 192, 64, 4, 384, swap=True, share=2), marks=pytest.mark.slow),
        pytest.param(Plan(200, 64, 64, 3, 128, split=2, swap=True, together=True), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_two_hundred_rows_in_one_tile(plan, monkeypatch):
    monkeypatch.setenv("MINITILE_TARGET", "sm_90a")
    a, b = operands(195, 72, 100, "NT", seed=1)
    out = poisoned(195, 72)
    matmul(a, b, out=out, plan=plan)
    assert error(out, a, b) < BOUND[bf16]


@pytest.mark.parametrize(("schedule", "swap"), [("eager", False), ("random", False), ("random", True)])
def test_clusters_under_other_orders_of_landing(schedule, swap):
    """The same bits each time."""
    from minitile.ops.split.cluster import gemm_together

    a, b = operands(20, 40, 136)
    kernel = gemm_together(mt.language.bfloat16, mt.language.bfloat16, False, False, False)
    plan = SMALL._replace(split=4, together=True, swap=swap, block_M=16 if swap else 64)
    specs = [mt.spec(shape, "bfloat16") for shape in (a.shape, b.shape, (20, 40))]
    compiled = kernel.compile(*specs, target="sm_90a", **plan.constants)
    found = []
    for seed in range(2):
        c = poisoned(20, 40)
        compiled.simulate(a, b, c, schedule=schedule, seed=seed)
        assert error(c, a, b) < BOUND[bf16]
        found.append(c.view(np.uint16))
    assert np.array_equal(*found)


@pytest.mark.parametrize("schedule", ["eager", "random"])
def test_split_and_persistent_kernels_under_other_orders_of_landing(schedule):
    from minitile.ops.gemm import gemm

    a, b = operands(130, 70, 200)
    c = np.full((2, 130, 72), np.nan, np.float32)
    kernel = gemm(mt.language.bfloat16, mt.language.float32, False, False, True, True)
    specs = [mt.spec(x.shape, name) for x, name in ((a, "bfloat16"), (b, "bfloat16"), (c, "float32"))]
    compiled = kernel.compile(*specs, target="sm_90a", **SMALL._replace(blocks=3, panel=2, block_K=64).constants)
    compiled.simulate(a, b, c, schedule=schedule, seed=3)
    assert error(c.sum(0)[:, :70], a, b) < 1e-6
    assert not c[:, :, 70:].any()


def test_nothing_to_do():
    for m, n, k in ((0, 5, 3), (4, 0, 3), (0, 0, 0)):
        assert matmul(*operands(m, n, k)).shape == (m, n)
    c = matmul(*operands(5, 6, 0))
    assert c.shape == (5, 6)
    assert not c.any()


def test_result_dtypes():
    a, b = operands(20, 24, 40)
    for dtype, kind in (("float32", np.float32), (mt.language.float16, f16), (np.float32, np.float32), (bf16, bf16)):
        c = matmul(a, b, dtype=dtype)
        assert c.dtype == kind
        assert error(c, a, b) < BOUND[kind]
    out = poisoned(20, 24, np.float32)
    assert error(matmul(a, b, out=out), a, b) < BOUND[np.float32]


def test_operands_with_gaps_are_copied():
    a, b = operands(40, 48, 64)
    wide = np.zeros((40, 100), bf16)
    wide[:, 3:67] = a
    assert error(matmul(wide[:, 3:67], b[::1]), a, b) < BOUND[bf16]
    assert error(matmul(wide[::2, 3:67], b), a[::2], b) < BOUND[bf16]


def test_what_is_refused():
    a, b = operands(8, 16, 24)
    bad = [
        ((a, a), {}, "columns of a"),
        ((a, b.astype(f16)), {}, "convert one"),
        ((a.astype(np.float32), b.astype(np.float32)), {}, "matmul takes bf16 and f16"),
        ((a, b[0]), {}, "1 dimensions"),
        ((a, b), {"out": poisoned(8, 15)}, "it must be"),
        ((a, b), {"out": poisoned(16, 8).T}, "row-major"),
        ((a, b), {"out": poisoned(8, 16), "dtype": "float32"}, "and dtype is"),
        ((a, b), {"dtype": "int32"}, "the result is i32"),
        ((a, b), {"dtype": "bfloat"}, "dtype is 'bfloat'"),
        ((a, b), {"plan": "fast"}, "plan is 'fast'"),
        ((a, 3), {}, "no array"),
        ((a, b), {"plan": SMALL._replace(split=3, together=True)}, "no cluster adds up"),
        ((a, b), {"plan": SMALL._replace(split=16, together=True)}, "no cluster adds up"),
        ((a, b), {"plan": SMALL._replace(split=4, together=True, share=4)}, "no cluster adds up"),
    ]
    for args, kwargs, words in bad:
        with pytest.raises(mt.MinitileError, match=words) as caught:
            entry(*args, **kwargs)
        assert caught.value.loc is not None
        assert caught.value.loc.file == __file__


@pytest.mark.slow
def test_random_problems(monkeypatch):
    rng = np.random.default_rng(7)
    for target in ("sm_80", "sm_90a"):
        monkeypatch.setenv("MINITILE_TARGET", target)
        for _ in range(30):
            m, n, k = (int(x) for x in np.exp(rng.uniform(0, np.log(300), 3)))
            form, dtype = FORMS[rng.integers(4)], (bf16, f16)[rng.integers(2)]
            a, b = operands(m, n, k, form, dtype, seed=int(rng.integers(1000)))
            assert error(matmul(a, b), a, b) < BOUND[dtype], (target, m, n, k, form)
