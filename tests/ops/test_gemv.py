"""Plans by threads: few vectors by a matrix, in all forms, of sizes that are whole vectors and not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.backends.base import AssemblerWarning
from minitile.ops import matmul
from minitile.ops.choice import candidates
from minitile.ops.gemv import by_threads, gemv
from minitile.ops.machine import H200
from minitile.ops.multiply import assembled
from minitile.ops.plan import Plan, Problem, classes_of
from tests.ops.test_matmul import BOUND, bf16, error, f16, operands, poisoned

PLAN = Plan(2, 4, 256, 1, 128, dots=True)


def test_classes_of_rows():
    assert [classes_of(k) for k in (0, 1, 2, 3, 4, 6, 8, 12, 4096, 4097)] == [1, 8, 4, 8, 2, 4, 1, 2, 1, 8]


def test_which_problems_are_for_it():
    forms = {
        (8, 100, True, True): (True, False),
        (1, 100, False, True): (False, False),
        (100, 8, False, False): (True, True),
        (100, 3, False, True): (False, True),
        (9, 9, False, True): None,
        (1, 100, False, False): None,
        (100, 1, True, False): None,
    }
    for (m, n, *transposed), form in forms.items():
        assert by_threads(Problem(m, n, 50, *transposed)) == form


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942", "gfx950"])
@pytest.mark.parametrize("size", [(1, 43, 1001), (3, 13, 998)], ids=str)
def test_each_form(target, size, monkeypatch):
    """More vectors than a block has, rows that are no whole classes, the last ones fewer than a block's."""
    monkeypatch.setenv("MINITILE_TARGET", target)
    few, many, k = size
    for form in ("NT", "TT"):
        a, b = operands(few, many, k, form)
        out = poisoned(few, many)
        matmul(a, b, out=out, plan=PLAN)
        assert error(out, a, b) < BOUND[bf16]
    for form in ("NN", "NT"):
        a, b = operands(many, few, k, form, f16)
        out = poisoned(many, few, f16)
        matmul(a, b, out=out, plan=PLAN)
        assert error(out, a, b) < BOUND[f16]


@pytest.mark.parametrize("size", [(1, 1, 1), (8, 64, 512), (2, 5, 77), (5, 9, 4), (1, 8, 0), (2, 17, 8)], ids=str)
def test_sizes(size, monkeypatch):
    monkeypatch.setenv("MINITILE_TARGET", "sm_90a")
    a, b = operands(*size, "NT")
    out = poisoned(*size[:2], np.float32)
    matmul(a, b, out=out, plan=PLAN)
    assert error(out, a, b) < BOUND[np.float32]


def test_neighbours_of_a_row_do_not_spoil_it(monkeypatch):
    """What is read in front of a row and behind it counts as zeros, infinities too."""
    monkeypatch.setenv("MINITILE_TARGET", "sm_90a")
    a, b = operands(1, 19, 45, "NT")
    b[:, 7] = np.inf
    b[:, 17] = np.nan
    out = poisoned(1, 19)
    matmul(a, b, out=out, plan=PLAN)
    kept = [n for n in range(19) if n not in (7, 17)]
    assert error(out[:, kept], a, b[:, kept]) < BOUND[bf16]
    assert not np.isfinite(out[0, [7, 17]].astype(np.float32)).any()


@pytest.mark.parametrize("k", [97, 1025])
def test_neighbours_of_a_vector_do_not_spoil_it(k, monkeypatch):
    """Vectors are read in pairs of 16 bytes, which have numbers of the vectors beside them."""
    monkeypatch.setenv("MINITILE_TARGET", "sm_90a")
    a, b = operands(4, 30, k, "NT", seed=k)
    a[0], a[2] = np.inf, np.nan
    out = poisoned(4, 30)
    matmul(a, b, out=out, plan=PLAN._replace(block_M=2))
    assert error(out[1::2], a[1::2], b) < BOUND[bf16]
    assert np.isnan(out[2].astype(np.float32)).all()


def test_with_an_epilogue(monkeypatch):
    monkeypatch.setenv("MINITILE_TARGET", "sm_90a")
    a, b = operands(3, 21, 99, "NT")
    bias = np.random.default_rng(1).standard_normal(21).astype(np.float32)
    c = matmul(a, b, dtype="float32", plan=PLAN, epilogue=lambda x, y: T.max(x, 0.0) + y, args=(bias,))
    assert np.abs(c - np.maximum(a.astype(np.float64) @ b.astype(np.float64), 0) - bias).max() < 1e-4
    a, b = operands(21, 3, 99, "NT")
    c = matmul(a, b, dtype="float32", plan=PLAN, epilogue=lambda x, y: x + y, args=(bias.reshape(21, 1),))
    assert np.abs(c - a.astype(np.float64) @ b.astype(np.float64) - bias[:, None]).max() < 1e-4


@pytest.mark.parametrize("vectors", [1, 2, 3, 4])
def test_candidates_of_odd_rows_do_not_spill(vectors):
    """Vectors in pairs: more at once take more registers than the matrix's second way through L2 takes time."""
    problem = Problem(vectors, 4099, 4097, False, True)
    plan = next(plan for plan in candidates(problem, H200, True, 227 << 10) if plan.dots)
    assert plan.block_M == min(vectors, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error", AssemblerWarning)
        assembled(problem, T.bfloat16, T.bfloat16, plan)


@pytest.mark.parametrize("k", [4096, 4097])
def test_registers_do_for_eight_vectors(k):
    """A sum for each vector and row, not for each element: nothing spills, and two blocks find room."""
    from minitile.ops.gemv import gemv

    plan, classes = Plan(8, 8, 512, 1, 128, dots=True), classes_of(k)
    specs = [mt.spec((8, k), "bfloat16"), mt.spec((4096 // classes, classes * k), "bfloat16")]
    specs.append(mt.spec((8, 4096), "bfloat16"))
    more = [mt.spec((4096, k), "bfloat16"), mt.spec((8 * k,), "bfloat16")] if classes > 1 else [None, None]
    kernel = gemv(T.bfloat16, T.bfloat16, False, False).configured(**plan.constants, classes=classes)
    made = kernel.compile(*specs, *more, target="sm_90a").executable.program.assembled
    assert made.spill_stores == 0
    assert made.registers <= 65536 // (2 * plan.threads)


def test_what_it_is_not_for():
    with pytest.raises(mt.MinitileError, match="few rows by a matrix that lies along K"):
        matmul(*operands(1, 40, 50, "NN"), plan=PLAN)


@pytest.mark.parametrize("k", [4096, 4097])
def test_matrices_are_read_in_vectors(k):
    """Of 16 bytes, also where rows begin anywhere."""
    from minitile.ops.gemv import gemv

    classes = classes_of(k)
    w = mt.spec((4096 // classes, classes * k), "bfloat16")
    specs = [mt.spec((1, k), "bfloat16"), w, mt.spec((1, 4096), "bfloat16")]
    more = [mt.spec((4096, k), "bfloat16"), mt.spec((k,), "bfloat16")] if classes > 1 else [None, None]
    kernel = gemv(T.bfloat16, T.bfloat16, False, False).configured(
        **PLAN._replace(block_M=1).constants, classes=classes
    )
    text = kernel.compile(*specs, *more, target="sm_90a").asm["ptx"]
    matrix, vector = PLAN.block_N * PLAN.block_K // 8 // PLAN.threads, PLAN.block_K // 8 // PLAN.threads or 1
    assert text.count("ld.global.v4.b32") >= matrix + vector * (2 if classes > 1 else 1)


def test_a_product_is_one_addition():
    """Of 4 rows by 8 elements of a thread: picking elements of a vector by sums over masks took 25 µs a vector."""

    def additions(vectors):
        k, n = 4097, 4099
        shapes = (vectors, k), (n // 8, 8 * k), (vectors, n), (n, k), (vectors * k,)
        made = gemv(T.bfloat16, T.bfloat16, False, False).configured(
            block_M=vectors, block_N=8, block_K=512, threads=64, classes=8
        )
        text = made.compile(*(mt.spec(shape, T.bfloat16) for shape in shapes), target="sm_90a").asm["ptx"]
        return text.count("add.f32"), text.count("mul.f32")

    (adds_of_2, products_of_2), (adds_of_4, products_of_4) = additions(2), additions(4)
    assert products_of_4 - products_of_2 >= 2 * (32 + 32)  # of whole classes and of the rows behind them
    assert adds_of_4 - adds_of_2 < 2 * (products_of_4 - products_of_2)  # and sums of a block's threads
