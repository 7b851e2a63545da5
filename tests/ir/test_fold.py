"""What the builder folds is what NumPy computes in the same dtype, wrapping around as the hardware does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitile.ir.builder import Builder, constant_of, fold, wrap
from minitile.ir.core import Block, Op, Value
from minitile.ir.ops import arith
from minitile.ir.types import (
    DTYPES,
    BufferType,
    DType,
    ScalarType,
    TileType,
    bool_,
    f16,
    f32,
    f64,
    i8,
    i32,
    i64,
    u8,
    u32,
)

INTEGERS = [d for d in DTYPES.values() if d.is_int]


def truncdiv(a: Any, b: Any) -> Any:
    return np.floor_divide(a - np.fmod(a, b), b)


NUMPY: dict[type[arith.Binary], Any] = {
    arith.Add: np.add,
    arith.Sub: np.subtract,
    arith.Mul: np.multiply,
    arith.FloorDiv: np.floor_divide,
    arith.FloorMod: np.mod,
    arith.TruncDiv: truncdiv,
    arith.TruncMod: np.fmod,
    arith.Min: np.minimum,
    arith.Max: np.maximum,
    arith.And: np.bitwise_and,
    arith.Or: np.bitwise_or,
    arith.Xor: np.bitwise_xor,
    arith.Shl: np.left_shift,
    arith.Shr: np.right_shift,
}
DIVISIONS = (arith.FloorDiv, arith.FloorMod, arith.TruncDiv, arith.TruncMod)
SHIFTS = (arith.Shl, arith.Shr)
PREDICATES = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}


def const(value: bool | int | float, dtype: DType) -> Value:
    return arith.Constant(value, dtype).result


def integers(dtype: DType) -> st.SearchStrategy[int]:
    info = np.iinfo(dtype.numpy)
    low, high = int(info.min), int(info.max)
    return st.sampled_from([low, low + 1, 0, 1, 2, high - 1, high, high // 2]) | st.integers(low, high)


def compute(function: Any, *values: Any) -> Any:
    with np.errstate(all="ignore"):
        return function(*values)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("kind", NUMPY, ids=lambda kind: kind.mnemonic)
def test_integer_constants(kind: type[arith.Binary], dtype: DType) -> None:
    right = st.integers(0, dtype.bits - 1) if kind in SHIFTS else integers(dtype)

    @settings(max_examples=25)
    @given(integers(dtype), right)
    def check(a: int, b: int) -> None:
        found = fold(kind(const(a, dtype), const(b, dtype)))
        if kind in DIVISIONS and b == 0:
            assert found is None
            return
        held = dtype.numpy.type
        assert found == int(compute(NUMPY[kind], held(a), held(b)))

    check()


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("kind", NUMPY, ids=lambda kind: kind.mnemonic)
@pytest.mark.parametrize("swapped", [False, True])
def test_one_constant(kind: type[arith.Binary], dtype: DType, swapped: bool) -> None:
    """`x + 0` is x, `x * 0` is 0, …: if it folds, then rightly for every x; and what ought to fold does."""
    x = Value(ScalarType(dtype), name="x")
    samples = np.array([3, 1, 0, np.iinfo(dtype.numpy).min, np.iinfo(dtype.numpy).max], dtype.numpy)
    for number in (0, 1, 2, -1):
        if number < 0 and not dtype.signed:
            continue
        c = const(number, dtype)
        a, b = (c, x) if swapped else (x, c)
        found = fold(kind(a, b))
        if found is None:
            continue
        left, right = (dtype.numpy.type(number), samples) if swapped else (samples, dtype.numpy.type(number))
        defined = right != 0 if kind in DIVISIONS else (right >= 0) & (right < dtype.bits) if kind in SHIFTS else True
        expected = compute(NUMPY[kind], left, right)
        actual = samples if found is x else np.full_like(samples, found)
        assert np.all((expected == actual) | ~np.asarray(defined)), number
    assert fold(arith.Add(x, const(0, dtype))) is x
    assert fold(arith.Mul(const(1, dtype), x)) is x
    assert fold(arith.Sub(x, x)) == 0


@pytest.mark.parametrize("dtype", [*INTEGERS, f32, f64], ids=str)
def test_comparisons(dtype: DType) -> None:
    numbers: st.SearchStrategy[Any] = st.floats() if dtype.is_float else integers(dtype)

    @given(numbers, numbers, st.sampled_from(sorted(PREDICATES)))
    def check(a: Any, b: Any, predicate: str) -> None:
        held = dtype.numpy.type
        found = fold(arith.Cmp(const(a, dtype), const(b, dtype), predicate))
        assert found == bool(compute(lambda: PREDICATES[predicate](held(a), held(b))))

    check()


def test_a_float_is_not_always_equal_to_itself() -> None:
    x, n = Value(ScalarType(f32)), Value(ScalarType(i32))
    assert fold(arith.Cmp(x, x, "eq")) is None
    assert fold(arith.Cmp(n, n, "eq")) is True
    assert fold(arith.Cmp(n, n, "lt")) is False


@pytest.mark.parametrize("source", [*INTEGERS, f32, f64, bool_], ids=str)
@pytest.mark.parametrize("to", [*INTEGERS, f32, f64, f16, bool_], ids=str)
def test_casts(source: DType, to: DType) -> None:
    numbers: st.SearchStrategy[Any]
    numbers = st.booleans() if source is bool_ else st.floats() if source.is_float else integers(source)

    @settings(max_examples=25)
    @given(numbers)
    def check(a: Any) -> None:
        value = const(a, source)
        found = fold(arith.Cast(value, to))
        if source is to:
            assert found is value
        elif found is not None:
            expected = compute(lambda: source.numpy.type(a).astype(to.numpy))
            assert found == expected.item() or (found != found and np.isnan(expected))

    check()


@given(st.sampled_from(INTEGERS), st.data())
def test_unary(dtype: DType, data: st.DataObject) -> None:
    a = data.draw(integers(dtype))
    held = dtype.numpy.type(a)
    assert fold(arith.Not(const(a, dtype))) == int(~held)
    assert fold(arith.Neg(const(a, dtype))) == int(compute(np.negative, held))


def test_bool() -> None:
    x, yes, no = Value(ScalarType(bool_)), const(True, bool_), const(False, bool_)
    assert fold(arith.And(x, yes)) is x
    assert fold(arith.And(no, x)) is False
    assert fold(arith.Or(x, no)) is x
    assert fold(arith.Or(yes, x)) is True
    assert fold(arith.Not(yes)) is False


def test_select() -> None:
    a, b, condition = (Value(ScalarType(d)) for d in (i32, i32, bool_))
    assert fold(arith.Select(const(True, bool_), a, b)) is a
    assert fold(arith.Select(const(False, bool_), a, b)) is b
    assert fold(arith.Select(condition, a, a)) is a
    assert fold(arith.Select(condition, a, b)) is None


def test_floats_are_left_to_the_hardware() -> None:
    assert fold(arith.Add(const(0.5, f32), const(0.25, f32))) is None
    assert fold(arith.Add(Value(ScalarType(f32)), const(0.0, f32))) is None  # -0.0 + 0.0 is 0.0


def test_shapes_are_kept() -> None:
    """A scalar that goes with every element of a tile is no substitute for the tile."""
    tile, scalar = Value(TileType((4,), i32)), Value(ScalarType(i32))
    assert fold(arith.Add(tile, const(0, i32))) is tile
    assert fold(arith.Mul(tile, const(0, i32))) is None
    assert fold(arith.Select(const(True, bool_), scalar, tile)) is None
    assert fold(arith.Sub(tile, tile)) is None


@given(st.sampled_from(INTEGERS), st.integers(-(1 << 70), 1 << 70))
def test_wrap(dtype: DType, number: int) -> None:
    info = np.iinfo(dtype.numpy)
    wrapped = wrap(number, dtype)
    assert info.min <= wrapped <= info.max
    assert (wrapped - number) % (1 << dtype.bits) == 0


def test_builder_emits_only_what_does_not_fold() -> None:
    block = Block()
    b = Builder(block)
    x = Value(ScalarType(i32), name="x")
    assert b.add(x, 0) is x
    assert constant_of(b.mul(b.constant(6), 7)) == 42
    y = b.add(x, 1)
    ops: list[Op] = [op for op in block.ops if not isinstance(op, arith.Constant)]
    assert ops == [y.op]
    assert constant_of(b.cast(b.constant(-1), u8)) == 255
    assert b.cast(y, i32) is y
    assert constant_of(y) is None


def test_builder_nests() -> None:
    outer, inner = Block(), Block()
    b = Builder(outer)
    with b.inside(inner):
        b.constant(1)
    b.constant(2)
    assert [op.value for op in inner.ops] == [1]
    assert [op.value for op in outer.ops] == [2]


def test_dtypes_of_results() -> None:
    assert arith.Cmp(Value(TileType((4,), i8)), Value(ScalarType(i8)), "lt").result.type == TileType((4,), bool_)
    assert arith.Add(Value(ScalarType(i64)), Value(TileType((4,), i64))).result.type == TileType((4,), i64)
    assert constant_of(Value(BufferType("shared", (4,), u32))) is None
