"""matmul with an epilogue: right for every kind of plan and argument, on each kind of target; wrong use is refused."""

from __future__ import annotations

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.ops import matmul
from minitile.ops.epilogue import Epilogue, Extra, same
from minitile.ops.gemm import gemm
from tests.ops.test_matmul import BOUND, SMALL, bf16, f16, operands, poisoned

PLANS = [
    SMALL,
    SMALL._replace(block_M=16, swap=True),
    SMALL._replace(split=3),
    SMALL._replace(pad=(True, True), split=2),
    SMALL._replace(blocks=2, panel=2, teams=2, threads=256),
    SMALL._replace(split=4, together=True),
    SMALL._replace(split=2, together=True, share=2, block_M=32, swap=True),
]


def error(c, expected):
    return np.linalg.norm(c.astype(np.float64) - expected) / np.linalg.norm(expected)


def arguments(m, n, seed=3):
    """A scale for each row, a bias, a residual, and one number."""
    rng = np.random.default_rng(seed)
    return (
        rng.standard_normal((m, 1)).astype(f16),
        rng.standard_normal(n).astype(np.float32),
        rng.standard_normal((m, n)).astype(bf16),
        rng.standard_normal(1).astype(np.float32),
    )


def of_all(x, scale, bias, half, residual, one):
    return (T.max(x * scale + bias, 0.0) * half + residual) * one


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_each_kind_of_argument_and_plan(plan, monkeypatch):
    monkeypatch.setenv("MINITILE_TARGET", "sm_90a")
    a, b = operands(37, 133, 103, "NT", seed=1)
    scale, bias, residual, one = arguments(37, 133)
    out = poisoned(37, 133)
    assert matmul(a, b, out=out, plan=plan, epilogue=of_all, args=(scale, bias, 0.5, residual, one)) is out
    sums = a.astype(np.float64) @ b.astype(np.float64)
    expected = (np.maximum(sums * scale.astype(np.float64) + bias, 0) * 0.5 + residual.astype(np.float64)) * one
    assert error(out, expected) < BOUND[bf16]


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942", "gfx950"])
@pytest.mark.parametrize("m", [1, 20])
def test_each_target(target, m, monkeypatch):
    """One row: (1, N) may be either, and the residual is a bias."""
    monkeypatch.setenv("MINITILE_TARGET", target)
    a, b = operands(m, 40, 56)
    _, bias, residual, _ = arguments(m, 40)
    c = matmul(a, b, dtype="float32", epilogue=lambda x, bias, r: x + bias - r, args=(bias.reshape(1, 40), residual))
    expected = a.astype(np.float64) @ b.astype(np.float64) + bias - residual.astype(np.float64)
    assert c.dtype == np.float32
    assert error(c, expected) < 1e-6


def test_without_arguments_and_nothing_to_add():
    a, b = operands(5, 6, 0)
    assert (matmul(a, b, epilogue=lambda x: x + 2.0) == 2).all()


def test_what_a_function_refers_to_may_change():
    a, b = operands(20, 24, 40)
    plain = a.astype(np.float64) @ b.astype(np.float64)
    for factor in (2.0, 3.0):
        c = matmul(a, b, dtype="float32", epilogue=lambda x, by=factor: x * by)
        assert error(c, plain * factor) < 1e-6


def test_a_lambda_in_a_loop_is_one_function():
    made = [same(lambda x, by=factor: x * by) for factor in (1.0, 1.0, 2.0, 1)]
    assert made[0] is made[1]
    assert len({*made}) == 3
    assert len({same(lambda x, by=zero: x * by) for zero in (0.0, -0.0, (0.0,), (-0.0,))}) == 4
    things = [[1.0], [1.0]]
    captured = [same(lambda x, thing=thing: x * thing[0]) for thing in things]
    assert captured[0] is not captured[1]


@pytest.mark.parametrize("plan", [SMALL, SMALL._replace(swap=True)], ids=["same_plan", "another_plan"])
def test_a_variable_of_an_equal_function_may_change(plan):
    """The first of two equal functions has captured another number when the second one is called."""

    def scaled(number):
        def times(x):
            return x * number

        def change(to):
            nonlocal number
            number = to

        return times, change

    a, b = operands(20, 24, 40)
    plain = a.astype(np.float64) @ b.astype(np.float64)
    first, change = scaled(5.0)
    assert error(matmul(a, b, dtype="float32", epilogue=first, plan=SMALL), plain * 5) < 1e-6
    change(7.0)
    second, _ = scaled(5.0)
    assert error(matmul(a, b, dtype="float32", epilogue=second, plan=plan), plain * 5) < 1e-6
    assert error(matmul(a, b, dtype="float32", epilogue=first, plan=plan), plain * 7) < 1e-6


def test_rows_with_gaps_are_taken_as_they_lie():
    a, b = operands(20, 24, 40)
    wide = np.random.default_rng(2).standard_normal((20, 50)).astype(np.float32)
    c = matmul(a, b, dtype="float32", epilogue=lambda x, r: x + r, args=(wide[:, 3:27],))
    assert error(c, a.astype(np.float64) @ b.astype(np.float64) + wide[:, 3:27]) < 1e-6


def test_kernels_have_the_tensors_of_their_epilogue_alone():
    """And a name that tells profilers."""
    epilogue = Epilogue(lambda x, bias: x + bias, (Extra((1, "N"), T.float32),), (None,))
    a, bias = mt.spec((64, 64), "bfloat16"), mt.spec((1, 64), "float32")
    for made in (None, epilogue):
        kernel = gemm(T.bfloat16, T.bfloat16, False, False, False, False, made)
        compiled = kernel.compile(
            a, a, a, *[bias] * (made is not None), block_M=64, block_N=64, stages=2, target="sm_80"
        )
        assert kernel.__name__ == ("gemm" if made is None else "gemm_epilogue")
        assert compiled.launch_info.entry.startswith(kernel.__name__ + "__")
        assert [arg.name for arg in compiled.launch_info.args] == ["A", "B", "C", *["E0"] * (made is not None)]


@pytest.mark.parametrize("number", [np.float32(0.5), np.float64(0.5), np.float16(0.5), np.int32(3)])
def test_numpys_scalars_are_numbers(number):
    a, b = operands(8, 16, 16)
    plain = matmul(a, b, dtype="float32")
    found = matmul(a, b, epilogue=lambda x, y: x * y, args=(number,), dtype="float32")
    assert (found == plain * np.float32(number)).all()


def test_numpys_functions_name_those_of_the_language():
    """Also where the source of a function is not found, since two stand on one line."""
    a, b = operands(8, 16, 16)
    with pytest.raises(mt.MinitileError, match=r"use the T\.\* function"):
        (lambda f: matmul(a, b, epilogue=f))(lambda x: np.exp(x))


def test_what_is_refused():
    a, b = operands(8, 16, 24)
    bias = np.zeros(16, np.float32)
    cases = [
        (a, {"args": (bias,)}, "no epilogue"),
        (a, {"epilogue": 3}, "epilogue is a int"),
        (a, {"epilogue": of_all, "args": bias}, "args is a ndarray"),
        (a, {"args": bias}, "args is a ndarray"),
        (a, {"epilogue": of_all, "args": (np.zeros(15, np.float32),)}, r"args\[0\] has shape \(15,\)"),
        (a, {"epilogue": of_all, "args": (2.0, np.zeros((16, 8), np.float32))}, r"args\[1\] has shape \(16, 8\)"),
        (a, {"epilogue": of_all, "args": (np.zeros((1, 8, 16), np.float32),)}, "has shape"),
        (a, {"epilogue": of_all, "args": (np.zeros(16, np.int32),)}, "is i32"),
        (a, {"epilogue": of_all, "args": ("bias",)}, "no array"),
        (a, {"epilogue": of_all, "args": (bias,) * 5}, "at most 4"),
        (a[None], {"epilogue": lambda x: x}, "batch"),
    ]
    for left, more, words in cases:
        with pytest.raises(mt.MinitileError, match=words) as caught:
            matmul(left, b, **more)
        assert caught.value.loc is not None
        assert caught.value.loc.file == __file__


@pytest.mark.parametrize(
    ("function", "args", "words"),
    [
        (lambda x, y: x, (), r"epilogue\(x, y\) is called with the sum alone.*'y'"),
        (lambda x: x, (2.0,), r"epilogue\(x\) is called with the sum and an element of each of 1 args"),
        (lambda x, *, y: x, (), "'y'"),
    ],
)
def test_a_function_with_other_parameters_is_an_error_of_the_caller(function, args, words):
    a, b = operands(8, 16, 24)
    for _ in range(2):
        with pytest.raises(mt.MinitileError, match=words) as caught:
            matmul(a, b, epilogue=function, args=args)
        assert caught.value.loc is not None
        assert caught.value.loc.file == __file__


@pytest.mark.parametrize(
    ("function", "at", "words"),
    [
        (lambda x: T.relu(x), "<lambda>", "there is no T.relu"),
        (lambda x: None, "test_an_error_shows", "the epilogue gives None"),
    ],
)
def test_an_error_shows_the_users_lines_alone(function, at, words, monkeypatch):
    a, b = operands(8, 16, 24)
    with pytest.raises(mt.MinitileError, match=words) as caught:
        matmul(a, b, epilogue=function)
    loc = caught.value.loc
    assert loc is not None
    assert loc.function.startswith(at)
    assert (loc.file, loc.caller) == (__file__, None)
    monkeypatch.setenv("MINITILE_TRACEBACK", "1")
    with pytest.raises(mt.MinitileError, match=words) as caught:
        matmul(a, b, epilogue=function)
    assert "gemm.py" in str(caught.value)


def test_equal_numbers_of_other_meaning_are_other_functions():
    """1 and 1.0, 0.0 and -0.0 are equal in Python, also in a tuple."""
    made = [same(lambda x, pair=pair: x / pair[0]) for pair in ((0.0, 1), (-0.0, 1), (0.0, 1.0), (0.0, True))]
    assert len({id(f) for f in made}) == 4
    a, b = (np.ones((8, 8), bf16) for _ in range(2))
    for zero in (0.0, -0.0):
        c = matmul(a, b, epilogue=lambda x, zero=zero: x / zero)
        assert (c.astype(np.float32) == (np.inf if np.copysign(1, zero) > 0 else -np.inf)).all()
