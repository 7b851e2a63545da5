"""LaunchInfo and its expressions: evaluation, JSON, the packed parameters."""

from __future__ import annotations

import json
import struct

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitile.runtime.launch_info import (
    LaunchInfo,
    Param,
    ScalarArg,
    TensorArg,
    bf16_bits,
    compile_exprs,
    param_layout,
    show_expr,
    slots_of,
)

ARGS = (TensorArg("A", "bf16", ("M", "K")), ScalarArg("alpha", "f32"), TensorArg("C", "f32", ("M", 128)))


def test_slots_are_pointers_then_dims_then_scalars():
    assert slots_of(ARGS) == (("pointer", "A"), ("pointer", "C"), ("dim", "M"), ("dim", "K"), ("scalar", "alpha"))


@pytest.mark.parametrize(
    ("expr", "value"),
    [
        (7, 7),
        (("ceildiv", ("dim", "M"), 128), 3),
        (("mul", ("add", ("dim", "M"), 1), ("sub", ("dim", "K"), 60)), 302 * 4),
        (("floordiv", ("dim", "M"), 2), 150),
        (("mod", ("dim", "M"), 8), 5),
        (("min", ("dim", "M"), ("dim", "K")), 64),
        (("max", ("dim", "M"), ("dim", "K")), 301),
        (("divides", ("pointer", "A"), 16), True),
        (("divides", ("dim", "M"), 16), False),
        (("less", ("dim", "M"), 302), True),
    ],
)
def test_expressions(expr, value):
    evaluate = compile_exprs([expr], slots_of(ARGS))
    assert evaluate((4096, 8192, 301, 64, 1.5)) == (value,)


@given(st.integers(0, 10**12), st.integers(1, 10**6))
def test_ceildiv_is_exact(a, b):
    assert compile_exprs([("ceildiv", ("dim", "n"), b)], [("dim", "n")])((a,)) == ((a + b - 1) // b,)


@pytest.mark.parametrize("expr", [("dim", "Z"), ("pow", 1, 2), ("add", 1), 1.5, "1", True])
def test_unknown_expressions_are_refused(expr):
    with pytest.raises(ValueError, match="no expression"):
        compile_exprs([expr], slots_of(ARGS))


def test_json_round_trip():
    info = LaunchInfo(
        "gemm",
        ARGS,
        (Param("A", "pointer", ("pointer", "A")), Param("n", "i64", ("mul", ("dim", "M"), ("dim", "K")))),
        (("ceildiv", ("dim", "M"), 128), 1, 1),
        (256, 1, 1),
        (2, 1, 1),
        65536,
        (("divides", ("dim", "K"), 16),),
    )
    assert LaunchInfo.from_json(json.loads(json.dumps(info.to_json()))) == info


def test_parameters_are_naturally_aligned():
    params = [Param(d, d, 0) for d in ("i8", "pointer", "bf16", "i32", "bool", "f64")]
    form, offsets = param_layout(params, start=56)
    assert offsets == (56, 64, 72, 76, 80, 88)
    assert struct.calcsize("<" + form) == 96 - 56


@given(st.floats(width=32))
def test_bf16_bits_round_as_ml_dtypes_does(value):
    want = int(np.float32(value).astype(ml_dtypes.bfloat16).view(np.uint16))
    assert bf16_bits(value) == want or value != value


def test_expressions_read_well():
    assert show_expr(("divides", ("pointer", "A"), 16)) == "address of A divisible by 16"
    assert show_expr(("ceildiv", ("dim", "M"), 128)) == "ceildiv(M, 128)"
