"""Writes operations into a block, folding what is constant on the way.

The front end and the passes make operations through a `Builder`, so that `x * 1`, `0 + x`, `3 < 5` never come into
being; `simplify` catches what becomes constant later with the same rules (`fold`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from minitile.ir.core import Block, Op, Value
from minitile.ir.diagnostics import Location
from minitile.ir.ops import arith, control, thread
from minitile.ir.origin import Origin
from minitile.ir.types import DType, ScalarType, dtype_of, i32

OpT = TypeVar("OpT", bound=Op)


def known_trips(op: control.For) -> int | None:
    """0 or 1 (at least one) when the bounds of a loop are constants, else None."""
    lower, upper = constant_of(op.lower), constant_of(op.upper)
    return None if lower is None or upper is None else int(lower < upper)


def constant_of(value: Value) -> Any:
    """The Python number of a constant scalar; None if it is not one."""
    op = value.owner
    return op.value if isinstance(op, arith.Constant) else None


def register_constants(value: Value) -> list[Any] | None:
    """The numbers of registers that are constants, each its own; of a scalar its one. None if they are not."""
    op = value.op
    if isinstance(op, thread.Pick):
        every = register_constants(op.a)
        return None if every is None else [every[n] for n in op.indices]
    if not isinstance(op, thread.Concat):
        number = constant_of(value)
        return None if number is None else [number]
    numbers: list[Any] = []
    for part in op.values:
        found = register_constants(part)
        if found is None:
            return None
        numbers += found
    return numbers


def exact(attribute: Any) -> Any:
    """An attribute in a key: 0.0 == -0.0 == False and 1 == 1.0 == True, but they are not the same constant."""
    return (type(attribute), repr(attribute)) if isinstance(attribute, (bool, float)) else attribute


def wrap(number: int, dtype: DType) -> int:
    """An integer as `dtype` holds it (two's complement)."""
    number &= (1 << dtype.bits) - 1
    return number - (1 << dtype.bits) if dtype.kind == "int" and number >> (dtype.bits - 1) else number


def _held(value: Value) -> Any:
    """The number of a constant as a register holds it: a float rounded to its dtype. None if it is not one."""
    number = constant_of(value)
    if number is None or not value.dtype.is_float:
        return number
    with np.errstate(over="ignore"):
        return float(np.asarray(number, value.dtype.numpy))


def _truncdiv(a: int, b: int) -> int:
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


INTEGER: dict[type[Op], Callable[[int, int], int]] = {
    arith.Add: lambda a, b: a + b,
    arith.Sub: lambda a, b: a - b,
    arith.Mul: lambda a, b: a * b,
    arith.FloorDiv: lambda a, b: a // b,
    arith.FloorMod: lambda a, b: a % b,
    arith.TruncDiv: _truncdiv,
    arith.TruncMod: lambda a, b: a - b * _truncdiv(a, b),
    arith.Min: min,
    arith.Max: max,
    arith.And: lambda a, b: a & b,
    arith.Or: lambda a, b: a | b,
    arith.Xor: lambda a, b: a ^ b,
    arith.Shl: lambda a, b: a << b,
    arith.Shr: lambda a, b: a >> b,
}
# The same of NumPy arrays; what truncates only of numbers that are not negative.
ARRAYS: dict[type[Op], Callable[[Any, Any], Any]] = {
    **INTEGER,
    arith.TruncDiv: INTEGER[arith.FloorDiv],
    arith.TruncMod: INTEGER[arith.FloorMod],
    arith.Min: np.minimum,
    arith.Max: np.maximum,
}
DIVISIONS = (arith.FloorDiv, arith.FloorMod, arith.TruncDiv, arith.TruncMod)
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}
# operand that leaves the other one unchanged, when it is the right (True) or also the left one
_NEUTRAL: dict[type[Op], tuple[int, bool]] = {
    arith.Add: (0, True),
    arith.Sub: (0, False),
    arith.Mul: (1, True),
    arith.FloorDiv: (1, False),
    arith.TruncDiv: (1, False),
    arith.Shl: (0, False),
    arith.Shr: (0, False),
    arith.Or: (0, True),
    arith.Xor: (0, True),
}


def fold(op: Op) -> Value | Any | None:
    """What a pure scalar operation comes to: an existing Value, a Python number (of the result's dtype), or None.

    Floats are folded only where the result is exact (casts of literals, comparisons), so that no rounding differs from
    the hardware's.
    """
    rule = _FOLD.get(type(op))
    return None if rule is None else rule(op)


def _fold_cmp(op: arith.Cmp) -> bool | None:
    a, b = _held(op.a), _held(op.b)
    if a is not None and b is not None:
        return COMPARE[op.predicate](a, b)
    if op.a is op.b and not op.a.dtype.is_float and isinstance(op.a.type, ScalarType):
        return op.predicate in ("le", "ge", "eq")
    return None


def _fold_select(op: arith.Select) -> Value | None:
    condition = constant_of(op.condition)
    if condition is not None:
        chosen = op.a if condition else op.b
        return chosen if chosen.type == op.result.type else None
    return op.a if op.a is op.b and op.a.type == op.result.type else None


def _fold_not(op: arith.Not) -> Any | None:
    a = constant_of(op.a)
    if a is None:
        return None
    return not a if op.a.dtype.kind == "bool" else wrap(~a, op.a.dtype)


def _fold_neg(op: arith.Neg) -> Any | None:
    a = constant_of(op.a)
    if a is None:
        return None
    return -a if op.a.dtype.is_float else wrap(-a, op.a.dtype)


def _fold_binary(op: arith.Binary) -> Value | Any | None:
    kind, t = type(op), op.result.type
    d = dtype_of(t)
    a, b = constant_of(op.a), constant_of(op.b)
    if d.is_float or (a is None and b is None and op.a is not op.b):
        return None
    if d.kind == "bool":
        for x, other in ((a, op.b), (b, op.a)):
            if x is None or other.type != t:
                continue
            if kind is arith.And:
                return other if x else False
            if kind is arith.Or:
                return True if x else other
        return None
    if a is not None and b is not None:
        if kind in DIVISIONS and b == 0:
            return None
        if kind in (arith.Shl, arith.Shr) and not 0 <= b < d.bits:
            return None
        return wrap(INTEGER[kind](a, b), d)
    if kind in _NEUTRAL:
        neutral, commutes = _NEUTRAL[kind]
        if b == neutral and op.a.type == t:
            return op.a
        if commutes and a == neutral and op.b.type == t:
            return op.b
    if isinstance(t, ScalarType):
        if kind in (arith.Mul, arith.And) and (a == 0 or b == 0):
            return 0
        if kind in (arith.FloorMod, arith.TruncMod) and b == 1:
            return 0
        if kind is arith.Sub and op.a is op.b:
            return 0
        if kind in (arith.Min, arith.Max) and op.a is op.b:
            return op.a
    return None


def _fold_cast(op: arith.Cast) -> Value | Any | None:
    source, to = op.a.dtype, op.to
    if source is to:
        return op.a
    a = _held(op.a)
    if a is None:
        return None
    if to.kind == "bool":
        return bool(a)
    if to.is_int:
        if source.is_float:
            return int(a) if math.isfinite(a) and wrap(int(a), to) == int(a) else None
        return wrap(int(a), to)
    if to.name == "f64" or (to.name == "f32" and not source.is_float and abs(a) <= 1 << 24):
        return float(a)
    return None


_FOLD: dict[type[Op], Callable[[Any], Value | Any | None]] = {
    **{
        kind: _fold_binary for kind in vars(arith).values() if isinstance(kind, type) and issubclass(kind, arith.Binary)
    },
    arith.Cmp: _fold_cmp,
    arith.Select: _fold_select,
    arith.Cast: _fold_cast,
    arith.Not: _fold_not,
    arith.Neg: _fold_neg,
}


class Builder:
    """Appends to `block`; new operations get the location `loc`, those that order accesses the origin `why`. `emitted`:
    how many it has appended to any block."""

    def __init__(self, block: Block, loc: Location | None = None) -> None:
        self.block = block
        self.loc = loc
        self.why: Origin | None = None
        self.emitted = 0

    def emit(self, op: OpT) -> OpT:
        """Append an operation as it is."""
        if op.loc is None:
            op.loc = self.loc
        if self.why is not None and op.orders and op.why is None:
            op.why = self.why
        self.block.ops.append(op)
        self.emitted += 1
        return op

    def value(self, op: Op, name: str = "") -> Value:
        """Append a pure operation, or find what it folds to; its value."""
        folded = fold(op)
        if folded is None:
            result = self.emit(op).result
            result.name = result.name or name
            return result
        return folded if isinstance(folded, Value) else self.constant(folded, dtype_of(op.result.type))

    @contextmanager
    def inside(self, block: Block) -> Iterator[Block]:
        """Append to another block for the time of a `with`."""
        outer, self.block = self.block, block
        try:
            yield block
        finally:
            self.block = outer

    @contextmanager
    def because(self, why: Origin) -> Iterator[None]:
        """What is appended for the time of a `with`, and orders accesses, is there for this."""
        outer, self.why = self.why, why
        try:
            yield
        finally:
            self.why = outer

    @contextmanager
    def when(self, condition: Value) -> Iterator[control.If]:
        """What is appended for the time of a `with` happens under a condition; the branch, which is appended then."""
        branch = control.If(condition, then=Block(), orelse=Block())
        branch.loc = self.loc
        with self.inside(branch.then):
            yield branch
            self.emit(control.Yield(()))
        with self.inside(branch.orelse):
            self.emit(control.Yield(()))
        self.emit(branch)

    def constant(self, value: bool | int | float, dtype: DType = i32) -> Value:
        return self.emit(arith.Constant(value, dtype)).result

    def _other(self, a: Value, b: Value | int | float) -> Value:
        return b if isinstance(b, Value) else self.constant(b, a.dtype)

    def add(self, a: Value, b: Value | int) -> Value:
        return self.value(arith.Add(a, self._other(a, b)))

    def sub(self, a: Value, b: Value | int) -> Value:
        return self.value(arith.Sub(a, self._other(a, b)))

    def mul(self, a: Value, b: Value | int) -> Value:
        return self.value(arith.Mul(a, self._other(a, b)))

    def floordiv(self, a: Value, b: Value | int) -> Value:
        return self.value(arith.FloorDiv(a, self._other(a, b)))

    def floormod(self, a: Value, b: Value | int) -> Value:
        return self.value(arith.FloorMod(a, self._other(a, b)))

    def min(self, a: Value, b: Value | int) -> Value:
        return self.value(arith.Min(a, self._other(a, b)))

    def max(self, a: Value, b: Value | int) -> Value:
        return self.value(arith.Max(a, self._other(a, b)))

    def xor(self, a: Value, b: Value | int) -> Value:
        return self.value(arith.Xor(a, self._other(a, b)))

    def and_(self, a: Value, b: Value | int) -> Value:
        return self.value(arith.And(a, self._other(a, b)))

    def compare(self, predicate: str, a: Value, b: Value | int) -> Value:
        return self.value(arith.Cmp(a, self._other(a, b), predicate))

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        return self.value(arith.Select(condition, a, b))

    def cast(self, a: Value, to: DType) -> Value:
        return a if a.dtype is to else self.value(arith.Cast(a, to))
