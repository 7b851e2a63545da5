"""Plans by classes of rows: few rows by a matrix whose rows are no whole 16 bytes, of all sizes and neighbours."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.backends.base import AssemblerWarning
from minitile.ops import matmul
from minitile.ops.multiply import _kernel_by_class, assembled
from minitile.ops.plan import Plan, Problem, classes_of
from minitile.ops.ragged import shifted_width
from tests.ops.test_matmul import BOUND, bf16, error, f16, operands, poisoned

PLAN = Plan(8, 64, 64, 3, 128, swap=True, by_class=True)


@pytest.fixture(autouse=True)
def _hopper(monkeypatch):
    monkeypatch.setenv("MINITILE_TARGET", "sm_90a")


@pytest.mark.parametrize(
    "size", [(8, 43, 201), (3, 520, 130), (1, 8, 3), (5, 18, 15), (2, 9, 17), (9, 30, 84), (4, 17, 255)], ids=str
)
def test_sizes(size):
    """Rows and steps that are whole and not; K shorter than what comes by threads at its beginning; rows behind whole
    classes; more rows than a tile has."""
    a, b = operands(*size, "NT", seed=size[2])
    out = poisoned(*size[:2], np.float32)
    matmul(a, b, out=out, plan=PLAN)
    assert error(out, a, b) < BOUND[np.float32]


@pytest.mark.slow
def test_tiles_and_types():
    a, b = operands(40, 300, 331, "NT", f16)
    out = poisoned(40, 300, f16)
    matmul(a, b, out=out, plan=PLAN._replace(block_M=24, block_N=128, threads=256))
    assert error(out, a, b) < BOUND[f16]
    a, b = operands(40, 300, 331, "NT")
    out = poisoned(40, 300)
    matmul(a, b, out=out, plan=PLAN._replace(block_M=40, block_K=128))
    assert error(out, a, b) < BOUND[bf16]


@pytest.mark.parametrize("k", [145, 98])
def test_neighbours_of_a_row_do_not_spoil_it(k):
    """What is in a box and belongs to other rows counts as zeros, infinities too; so does what is in other vectors."""
    a, b = operands(6, 45, k, "NT")
    b[:, 7::9] = np.inf
    b[:, 8] = np.nan
    a[2], a[4] = np.nan, np.inf
    out = poisoned(6, 45)
    matmul(a, b, out=out, plan=PLAN)
    kept = [n for n in range(45) if n % 9 != 7 and n != 8]
    rows = [0, 1, 3, 5]
    assert error(out[np.ix_(rows, kept)], a[rows], b[:, kept]) < BOUND[bf16]
    assert not np.isfinite(out[:, 7::9].astype(np.float32)).any()
    assert np.isnan(out[:, 8].astype(np.float32)).all()


def test_with_an_epilogue():
    a, b = operands(3, 45, 99, "NT")
    bias = np.random.default_rng(1).standard_normal(45).astype(np.float32)
    c = matmul(a, b, dtype="float32", plan=PLAN, epilogue=lambda x, y: T.max(x, 0.0) + y, args=(bias,))
    assert np.abs(c - np.maximum(a.astype(np.float64) @ b.astype(np.float64), 0) - bias).max() < 1e-4


def test_the_copy_engine_brings_the_steps():
    """And vectors of 16 bytes the rest; nothing spills."""
    problem, plan = Problem(8, 4099, 4097, False, True), PLAN._replace(block_K=128, stages=8)
    specs = [((8, 4097),), ((64, shifted_width(4097)),), ((512, 8 * 4097),), ((4099, 4097),), ((8, 4099),)]
    kernel = _kernel_by_class(T.bfloat16, T.bfloat16, plan, classes_of(4097))
    made = kernel.compile(*(mt.spec(*s, "bfloat16") for s in specs), target="sm_90a")
    text = made.executable.text
    assert len(re.findall(r"cp\.async\.bulk\.tensor.*W_map", text)) == 2
    assert "ld.global.v4.b32" in text
    with warnings.catch_warnings():
        warnings.simplefilter("error", AssemblerWarning)
        assembled(problem, T.bfloat16, T.bfloat16, plan)


@pytest.mark.parametrize(("form", "n", "k"), [("NN", 45, 45), ("TT", 45, 45), ("NT", 45, 48), ("NT", 7, 45)])
def test_what_it_is_not_for(form, n, k):
    with pytest.raises(mt.MinitileError, match="no whole 16 bytes") as raised:
        matmul(*operands(8, n, k, form), plan=PLAN)
    assert "without `plan` one is chosen" in raised.value.hint
