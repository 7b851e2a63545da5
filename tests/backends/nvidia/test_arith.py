"""Every arithmetic operation on every dtype: written, assembled, simulated, compared with NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from minitile.backends.nvidia.emit.arith import MNEMONICS
from minitile.ir.builder import Builder
from minitile.ir.core import Op, Value
from minitile.ir.diagnostics import TargetError
from minitile.ir.ops import arith
from minitile.ir.types import dtype, f32
from minitile.target import Target
from tests.backends.nvidia.harness import SM80, Array, Make, elementwise, raw, run, width_of

pytestmark = pytest.mark.every_case  # an instruction for each dtype

SIGNED = ("i8", "i16", "i32", "i64")
UNSIGNED = ("u8", "u16", "u32", "u64")
INTS = SIGNED + UNSIGNED
HALVES = ("f16", "bf16")
FLOATS = ("f32", "f64", *HALVES)
THREADS = 32


def trunc_div(a: Array, b: Array) -> Array:
    quotient = np.abs(a.astype(object)) // np.abs(b.astype(object))
    return (quotient * (np.sign(a.astype(object)) * np.sign(b.astype(object)))).astype(a.dtype)


def trunc_mod(a: Array, b: Array) -> Array:
    return (a.astype(object) - b.astype(object) * trunc_div(a, b).astype(object)).astype(a.dtype)


def of_floats(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Integers are integers already; NumPy would take 64-bit ones through f64."""
    return lambda a: a if np.issubdtype(a.dtype, np.integer) else function(a)


# Operation -> (what NumPy says, the dtypes).
BINARY: dict[type[Op], tuple[Callable[[Array, Array], Array], tuple[str, ...]]] = {
    arith.Add: (np.add, INTS + FLOATS),
    arith.Sub: (np.subtract, INTS + FLOATS),
    arith.Mul: (np.multiply, INTS + FLOATS),
    arith.Div: (np.divide, FLOATS),
    arith.FloorDiv: (np.floor_divide, INTS),
    arith.FloorMod: (np.remainder, INTS),
    arith.TruncDiv: (trunc_div, INTS),
    arith.TruncMod: (trunc_mod, INTS),
    arith.Min: (np.fmin, INTS + FLOATS),
    arith.Max: (np.fmax, INTS + FLOATS),
    arith.And: (np.bitwise_and, (*INTS, "bool")),
    arith.Or: (np.bitwise_or, (*INTS, "bool")),
    arith.Xor: (np.bitwise_xor, (*INTS, "bool")),
}
UNARY: dict[type[Op], tuple[Callable[[Array], Array], tuple[str, ...]]] = {
    arith.Neg: (np.negative, INTS + FLOATS),
    arith.Abs: (np.abs, INTS + FLOATS),
    arith.Not: (np.invert, (*INTS, "bool")),
    arith.Sqrt: (lambda a: np.sqrt(np.abs(a)), FLOATS),
    arith.Floor: (of_floats(np.floor), FLOATS + INTS),
    arith.Ceil: (of_floats(np.ceil), FLOATS + INTS),
    arith.Round: (of_floats(np.rint), FLOATS + INTS),
    arith.Trunc: (of_floats(np.trunc), FLOATS + INTS),
}
COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}


def numbers(name: str, count: int, seed: int, nonzero: bool = False) -> Array:
    """Random numbers with the interesting ones among them."""
    rng = np.random.default_rng(seed)
    d = dtype(name)
    if d.kind == "bool":
        return rng.integers(0, 2, count).astype(bool)
    if d.is_int:
        low, high = np.iinfo(d.numpy).min, np.iinfo(d.numpy).max
        values = rng.integers(low, high, count, dtype=d.numpy, endpoint=True)
        small = rng.integers(-9 if d.kind == "int" else 0, 10, count)
        values = np.where(rng.random(count) < 0.5, values, small.astype(d.numpy))
        values[:3] = (high, 7, 1)
        if nonzero:
            values[values == 0] = 3
            values[values == np.array(-1).astype(d.numpy)] = 5  # the least integer over -1 is C's business
        return values
    values = rng.normal(size=count) * 8
    values[:6] = (0.0, -0.0, 2.5, -2.5, np.inf, np.nan)
    if nonzero:
        values = rng.normal(size=count) + np.where(rng.random(count) < 0.5, 3.0, -3.0)
    return values.astype(d.numpy)


def same(got: Array, want: Array) -> bool:
    """Equal, with NaN equal to NaN."""
    return bool(np.all((got == want) | ((got != got) & (want != want))))


def run_all(
    name: str,
    computed: dict[str, tuple[Callable[[Builder, Value, Value], Value], str]],
    a: Array,
    b: Array,
    count: int,
    target: Target = SM80,
) -> dict[str, Array]:
    """One kernel with an output for every operation: title -> (what to emit, dtype of the result)."""
    outs = {f"out{n}_": d for n, (_, d) in enumerate(computed.values())}
    threads = len(a) // count
    make = Make({"a": name, "b": name, **outs}, threads=threads)
    index = make.mul(make.thread(), count)
    x, y = make.load("a", index, count, width_of(name, count)), make.load("b", index, count, width_of(name, count))
    for out, (emit, _) in zip(outs, computed.values(), strict=True):
        make.store(out, index, emit(make, x, y), width_of(outs[out], count))
    results = [np.zeros(len(a), dtype(d).numpy) for d in outs.values()]
    run(make, raw(a), raw(b), *[raw(r) for r in results], target=target, threads=threads)
    return dict(zip(computed, results, strict=True))


@pytest.mark.parametrize("count", [1, 4, 3])
@pytest.mark.parametrize("name", INTS + FLOATS + ("bool",))
def test_arithmetic(name: str, count: int) -> None:
    """Packed where the count fills words, one by one where it does not."""
    total = THREADS * count
    a, b, c = numbers(name, total, 1), numbers(name, total, 2), numbers(name, total, 3, nonzero=True)
    with np.errstate(all="ignore"):
        plain: dict[str, Any] = {}
        dividing: dict[str, Any] = {}
        want: dict[str, Array] = {}
        for op, (reference, names) in BINARY.items():
            if name not in names:
                continue
            divides = "div" in op.mnemonic or "mod" in op.mnemonic
            (dividing if divides else plain)[op.mnemonic] = (_binary(op), name)
            want[op.mnemonic] = reference(a, c if divides else b).astype(dtype(name).numpy)
        for unary, (function, names) in UNARY.items():
            if name in names:
                plain[unary.mnemonic] = (_unary(unary), name)
                want[unary.mnemonic] = function(a).astype(dtype(name).numpy)
        for predicate, comparison in COMPARE.items():
            plain[predicate] = (_compare(predicate), "bool")
            want[predicate] = comparison(a, b)
        plain["select"] = (_select, name)
        want["select"] = np.where(a < b, a, b)
    got = run_all(name, plain, a, b, count)
    if dividing:
        got |= run_all(name, dividing, a, c, count)
    wrong = [title for title in want if not same(got[title], want[title])]
    assert not wrong, "\n".join(f"{t}: {a[:8]} {b[:8]} -> {got[t][:8]}, not {want[t][:8]}" for t in wrong)


def _binary(op: type[Op]) -> Callable[[Builder, Value, Value], Value]:
    return lambda m, x, y: m.emit(op(x, y)).result  # type: ignore[call-arg]


def _unary(op: type[Op]) -> Callable[[Builder, Value, Value], Value]:
    if op is arith.Sqrt:
        return lambda m, x, y: m.emit(arith.Sqrt(m.emit(arith.Abs(x)).result)).result
    return lambda m, x, y: m.emit(op(x)).result  # type: ignore[call-arg]


def _compare(predicate: str) -> Callable[[Builder, Value, Value], Value]:
    return lambda m, x, y: m.emit(arith.Cmp(x, y, predicate)).result


def _select(m: Builder, x: Value, y: Value) -> Value:
    return m.emit(arith.Select(m.emit(arith.Cmp(x, y, "lt")).result, x, y)).result


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("name", INTS)
def test_shifts(name: str, count: int) -> None:
    bits = dtype(name).bits
    a = numbers(name, THREADS * count, 4)
    by = np.random.default_rng(5).integers(0, bits, THREADS * count).astype(a.dtype)
    got = run_all(name, {"shl": (_binary(arith.Shl), name), "shr": (_binary(arith.Shr), name)}, a, by, count)
    assert same(got["shl"], np.left_shift(a, by))
    assert same(got["shr"], np.right_shift(a, by))


@pytest.mark.parametrize("divisor", [1, 2, 8, 7, 100, -3, -8])
@pytest.mark.parametrize("name", ["i32", "u32", "i64", "i8"])
def test_division_by_constants(name: str, divisor: int) -> None:
    if divisor < 0 and name == "u32":
        return
    a = numbers(name, THREADS, 6)
    divide: dict[str, Any] = {
        "floordiv": (lambda m, x, y: m.emit(arith.FloorDiv(x, m.constant(divisor, x.dtype))).result, name),
        "floormod": (lambda m, x, y: m.emit(arith.FloorMod(x, m.constant(divisor, x.dtype))).result, name),
    }
    got = run_all(name, divide, a, a, 1)
    assert same(got["floordiv"], a // np.array(divisor, a.dtype))
    assert same(got["floormod"], a % np.array(divisor, a.dtype))


def test_powers_of_two_need_no_division() -> None:
    make = Make({"a": "i32"})
    x = make.load("a", make.thread())
    quotient = make.emit(arith.FloorDiv(x, make.constant(8))).result
    remainder = make.emit(arith.FloorMod(x, make.constant(8))).result
    make.store("a", make.thread(), make.emit(arith.Add(quotient, remainder)).result)
    text = make.write().text
    assert "shr.s32" in text
    assert "and.b32" in text
    assert "div" not in text
    assert "rem" not in text


@pytest.mark.parametrize("name", ["f32", "f64", "f16", "bf16", "i32", "u64"])
def test_fma(name: str) -> None:
    a, b = numbers(name, 64, 7, nonzero=True), numbers(name, 64, 8, nonzero=True)
    got = elementwise(lambda m, x, y: m.emit(arith.Fma(x, y, x)).result, [(name, a), (name, b)], name, 2)
    if dtype(name).is_int:
        assert same(got, a * b + a)
    else:
        exact = [Fraction(float(x)) * Fraction(float(y)) + Fraction(float(x)) for x, y in zip(a, b, strict=True)]
        assert same(got, np.array([float(e) for e in exact]).astype(dtype(name).numpy))


def test_scalar_with_registers() -> None:
    """A scalar operand goes with every element, packed or not."""
    for name in ("f16", "bf16", "f32", "i8"):
        a = numbers(name, 128, 9)
        got = elementwise(lambda m, x: m.emit(arith.Max(x, m.constant(2, x.dtype))).result, [(name, a)], name, 4)
        with np.errstate(invalid="ignore"):
            assert same(got, np.fmax(a, np.array(2, a.dtype)))


# Functions: the greatest relative error in units of 2^-24, over the range, and the range.
FUNCTIONS: dict[type[Op], tuple[Callable[[float], float], float, tuple[float, float]]] = {
    arith.Exp: (math.exp, 8, (-87.0, 88.6)),
    arith.Exp2: (lambda x: 2.0**x, 4, (-125.0, 127.9)),
    arith.Log: (math.log, 4, (1e-30, 1e30)),
    arith.Log2: (math.log2, 8, (1e-30, 1e30)),
    arith.Rsqrt: (lambda x: 1 / math.sqrt(x), 4, (1e-30, 1e30)),
    arith.Rcp: (lambda x: 1 / x, 2, (1e-30, 1e30)),
    arith.Tanh: (math.tanh, 8, (-12.0, 12.0)),
    arith.Erf: (math.erf, 8, (-5.0, 5.0)),
    arith.Sin: (math.sin, 8, (-1e5, 1e5)),
    arith.Cos: (math.cos, 8, (-1e5, 1e5)),
}
ABSOLUTE = (arith.Sin, arith.Cos)


@pytest.mark.parametrize("op", FUNCTIONS, ids=lambda op: op.mnemonic)
def test_function_errors(op: type[Op]) -> None:
    """No greater than expand_math says, near 1 and 0 too."""
    reference, limit, (low, high) = FUNCTIONS[op]
    rng = np.random.default_rng(10)
    if low > 0:
        wide = np.exp(rng.uniform(math.log(low), math.log(high), 1024))
        near = 1 + rng.normal(size=1024) * 10.0 ** rng.uniform(-7, -1, 1024)
    else:
        wide = rng.uniform(low, high, 1024)
        near = rng.normal(size=1024) * 10.0 ** rng.uniform(-7, 0, 1024)
    x = np.concatenate([wide, near]).astype(np.float32)
    got = elementwise(lambda m, v: m.emit(op(v)).result, [("f32", x)], "f32", 4).astype(np.float64)  # type: ignore[call-arg]
    want = np.array([reference(float(v)) for v in x])
    error = np.abs(got - want)
    if op not in ABSOLUTE:
        error /= np.maximum(np.abs(want), 2.0**-126)
    worst = int(np.argmax(error))
    assert error[worst] <= limit * 2.0**-24, f"{op.mnemonic}({x[worst]}) = {got[worst]}, not {want[worst]}"


SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, 1e-40, 200.0, -200.0, 1.0] + [1.0] * 22, np.float32)


@pytest.mark.parametrize("op", [arith.Exp, arith.Exp2, arith.Log, arith.Log2, arith.Tanh, arith.Sqrt], ids=str)
def test_special_values(op: type[Op]) -> None:
    got = elementwise(lambda m, v: m.emit(op(v)).result, [("f32", SPECIAL)], "f32")  # type: ignore[call-arg]
    with np.errstate(all="ignore"):
        want = getattr(np, op.mnemonic)(SPECIAL)
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-45)


@pytest.mark.parametrize("name", HALVES)
def test_functions_of_halves(name: str) -> None:
    """Computed in f32 and rounded once."""
    x = np.random.default_rng(11).uniform(-8, 8, 64).astype(dtype(name).numpy)
    got = elementwise(lambda m, v: m.emit(arith.Exp(v)).result, [(name, x)], name, 2)
    np.testing.assert_allclose(
        got.astype(np.float64), np.exp(x.astype(np.float64)), rtol=2.0**-8 if name == "bf16" else 2.0**-10
    )


def test_functions_of_f64_are_refused() -> None:
    make = Make({"a": "f64"})
    make.store("a", make.thread(), make.emit(arith.Exp(make.load("a", make.thread()))).result)
    with pytest.raises(TargetError, match="exp is not available in float64"):
        make.write()


def test_the_table_has_only_known_operations() -> None:
    assert all(issubclass(op, Op) and name in ("bool", *INTS, *FLOATS) for op, name in MNEMONICS)
    assert (arith.Add, f32.name) in MNEMONICS
    assert SM80.name == "sm_80"
