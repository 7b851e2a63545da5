"""Staged scalars: `Expr` is a number that will be known when the kernel runs.

Arithmetic follows Python and NumPy, with these rules (tests/language/test_scalars.py):

* a Python literal is weak: it takes the dtype of the other side (a float literal beside an integer makes f32);
* an integer beside a float takes the float's dtype; the wider float wins; f16 with bf16 is an error;
* integers of different widths promote to the wider, mixed signs to the next wider signed one, as in NumPy;
* `/` is for floats; `//` and `%` floor; bool counts as i32 in arithmetic;
* fp8 is for storage: cast it first.
"""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np

from minitile.ir.builder import constant_of
from minitile.ir.core import Op, Value
from minitile.ir.diagnostics import LanguageError, TypeMismatchError, shown
from minitile.ir.ops import arith
from minitile.ir.types import DTYPES, DType, bool_, dtype_of, f32, i32, i64
from minitile.language.tracing.context import current

Number = bool | int | float


def is_number(value: object) -> bool:
    """A Python or NumPy number, i.e. a weak literal."""
    return isinstance(value, (bool, int, float, np.number, np.bool_))


def is_scalar(value: object) -> bool:
    return isinstance(value, Expr) or is_number(value)


def python_number(value: Any) -> Number:
    """A weak literal as a Python number."""
    return value.item() if isinstance(value, (np.number, np.bool_)) else value  # type: ignore[no-any-return]


def entry_dtype(value: Any) -> DType:
    """The dtype with which a scalar becomes a run-time value: a literal is bool, i32 (i64 if it needs to be) or f32."""
    if isinstance(value, Expr):
        return value.dtype
    number = python_number(value)
    if isinstance(number, bool):
        return bool_
    if isinstance(number, int):
        return i32 if -(1 << 31) <= number < 1 << 31 else i64
    return f32


def promote(a: DType, b: DType) -> DType:
    """The dtype in which `a` and `b` meet."""
    if a is b:
        return a
    if a.kind == "bool" or b.kind == "bool":
        return b if a.kind == "bool" else a
    if a.is_float != b.is_float:
        return a if a.is_float else b
    narrow, wide = (a, b) if a.bits <= b.bits else (b, a)
    if a.is_float:
        if a.bits == b.bits:
            raise TypeMismatchError(
                f"{a} and {b} do not mix: neither holds the other", hint="cast both to T.float32 (or one to the other)"
            )
        return wide
    if a.kind == b.kind or (wide.kind == "int" and narrow.bits < wide.bits):
        return wide
    if wide.bits == 64:
        raise TypeMismatchError(f"no integer dtype holds both {a} and {b}", hint="cast one of them with T.cast")
    return DTYPES[f"i{wide.bits * 2}"]


def literal(number: Any, dtype: DType) -> Value:
    """A weak literal as a constant of `dtype`."""
    number = python_number(number)
    if dtype.kind == "bool":
        return current().b.constant(bool(number), dtype)
    if dtype.is_float:
        return current().b.constant(_held(float(number), dtype), dtype)
    if isinstance(number, float):
        raise TypeMismatchError(
            f"the literal {number!r} is no {dtype}", hint="cast it, or give the other side a float dtype"
        )
    held = dtype.integers
    if int(number) not in held:
        raise TypeMismatchError(f"{number} does not fit {dtype} ({held[0]} … {held[-1]})", hint="cast to a wider dtype")
    return current().b.constant(int(number), dtype)


def _held(number: float, dtype: DType) -> float:
    """The number itself. Raises TypeMismatchError for a finite one that no finite number of the dtype is near."""
    if math.isfinite(number) and abs(number) > 240:  # which every float dtype holds
        with np.errstate(over="ignore"):
            kept = np.asarray(number).astype(dtype.numpy).astype(np.float64)
        if not np.isfinite(kept):
            raise TypeMismatchError(
                f"{number:g} is too large for {dtype}",
                hint="use a wider dtype; infinity is T.infinity(dtype), or float('inf')",
            )
    return number


def _weak_dtype(number: Any, other: DType) -> DType:
    number = python_number(number)
    if isinstance(number, float):
        return other if other.is_float else f32
    if other.kind == "bool" and not isinstance(number, bool):
        return i32
    return other


def operand_value(x: Any) -> Value:
    """The IR value of a scalar; LanguageError for anything else."""
    if isinstance(x, Expr):
        return x.value
    if is_number(x):
        return literal(x, entry_dtype(x))
    raise _no_scalar(x)


def _no_scalar(x: Any) -> LanguageError:
    name = getattr(x, "describe", None)
    what = name() if callable(name) else f"{type(x).__name__} {shown(x)}"
    hint = "index it, or use T.Parallel for all its elements" if callable(name) else ""
    return TypeMismatchError(f"a scalar is needed here, not {what}", hint=hint)


def coerce(x: Any, dtype: DType, what: str = "the value") -> Value:
    """The scalar as a value of `dtype`, where a literal may adapt but nothing else is cast silently."""
    if isinstance(x, Expr):
        if x.dtype is not dtype:
            raise TypeMismatchError(
                f"{what} is {x.dtype}, not {dtype}", hint=f"cast it: T.cast(…, T.{dtype_name(dtype)})"
            )
        return x.value
    if is_number(x):
        return literal(x, dtype)
    raise _no_scalar(x)


def dtype_name(dtype: DType) -> str:
    """As users spell it after `T.`."""
    prefixes = {"f": "float", "i": "int", "u": "uint"}
    special = {"bf16": "bfloat16", "e4m3": "float8_e4m3fn", "bool": "bool"}
    if dtype.name[0] == "e":
        return special.get(dtype.name, f"float8_{dtype.name}")
    return special.get(dtype.name) or prefixes[dtype.name[0]] + dtype.name[1:]


def convert(x: Any, dtype: DType) -> Expr:
    """An explicit cast."""
    if is_number(x):
        number = python_number(x)
        if dtype.is_int and isinstance(number, float) and number == int(number):
            number = int(number)
        return Expr(literal(number, dtype))
    return Expr(current().b.cast(operand_value(x), dtype))


def assign_cast(x: Any, dtype: DType, what: str) -> Value:
    """The scalar as it is stored to memory of `dtype`: casts within floats or within integers, and from an integer to
    a float; from a float to an integer only by an explicit cast."""
    if is_number(x):
        return literal(x, dtype)
    value = operand_value(x)
    check_store_cast(value.dtype, dtype, what)
    return current().b.cast(value, dtype)


def check_store_cast(source: DType, to: DType, what: str) -> None:
    order = ("bool", "int", "float")
    kinds = [order.index("int" if d.kind == "uint" else d.kind) for d in (source, to)]
    if kinds[0] > kinds[1]:
        raise TypeMismatchError(
            f"{what}: {source} is not cast to {to} silently", hint=f"say so: T.cast(…, T.{dtype_name(to)})"
        )


def unify(a: Any, b: Any) -> tuple[Value, Value]:
    """Both sides of an operator as values of one dtype."""
    if not isinstance(a, Expr) and not isinstance(b, Expr):
        d = promote(entry_dtype(a), entry_dtype(b))
        return literal(a, d), literal(b, d)
    if not isinstance(a, Expr):
        if not is_number(a):
            raise _no_scalar(a)
        a = Expr(literal(a, _weak_dtype(a, b.dtype)))
    elif not isinstance(b, Expr):
        if not is_number(b):
            raise _no_scalar(b)
        b = Expr(literal(b, _weak_dtype(b, a.dtype)))
    d = promote(a.dtype, b.dtype)
    builder = current().b
    return builder.cast(a.value, d), builder.cast(b.value, d)


def _arithmetic_operands(a: Any, b: Any) -> tuple[Value, Value]:
    x, y = unify(a, b)
    if x.dtype.kind == "bool":
        builder = current().b
        x, y = builder.cast(x, i32), builder.cast(y, i32)
    _no_fp8(x.dtype)
    return x, y


def _no_fp8(dtype: DType) -> None:
    if dtype.is_float and dtype.bits == 8:
        raise TypeMismatchError(f"{dtype} is for storage; there is no arithmetic on it", hint="cast to T.float32 first")


def binary(kind: type[arith.Binary], a: Any, b: Any) -> Expr:
    """An arithmetic operation on two scalars, at least one of them staged."""
    x, y = _arithmetic_operands(a, b)
    return Expr(current().b.value(kind(x, y)))


def integer_binary(kind: type[arith.Binary], sign: str, a: Any, b: Any) -> Expr:
    x, y = _arithmetic_operands(a, b)
    if x.dtype.is_float:
        raise TypeMismatchError(f"`{sign}` is for integers, not {x.dtype}")
    if kind in (arith.Shl, arith.Shr):
        by = constant_of(y)
        if by is not None and not 0 <= by < x.dtype.bits:
            raise TypeMismatchError(
                f"`{sign}` of {x.dtype} by {by} places: {x.dtype} has {x.dtype.bits} bits", hint="cast to a wider dtype"
            )
    else:
        _not_zero(sign, y)
    return Expr(current().b.value(kind(x, y)))


def _not_zero(sign: str, divisor: Value) -> None:
    if constant_of(divisor) == 0:
        raise TypeMismatchError(f"`{sign}` by zero")


def bitwise(kind: type[arith.Binary], sign: str, a: Any, b: Any) -> Expr:
    """`&`, `|`, `^`: of two bools a bool."""
    x, y = unify(a, b)
    if x.dtype.is_float:
        raise TypeMismatchError(f"`{sign}` is for integers and bools, not {x.dtype}")
    return Expr(current().b.value(kind(x, y)))


def divide(a: Any, b: Any) -> Expr:
    x, y = _arithmetic_operands(a, b)
    if not x.dtype.is_float:
        raise TypeMismatchError(
            f"`/` on integers ({x.dtype})",
            hint="use `//` (floors), T.truncdiv (towards zero), or cast one side to a float dtype",
        )
    return Expr(current().b.value(arith.Div(x, y)))


def floor_divide(a: Any, b: Any) -> Expr:
    x, y = _arithmetic_operands(a, b)
    b_ = current().b
    if x.dtype.is_float:
        return Expr(b_.value(arith.Floor(b_.value(arith.Div(x, y)))))
    _not_zero("//", y)
    return Expr(b_.value(arith.FloorDiv(x, y)))


def floor_modulo(a: Any, b: Any) -> Expr:
    x, y = _arithmetic_operands(a, b)
    b_ = current().b
    if x.dtype.is_float:
        quotient = b_.value(arith.Floor(b_.value(arith.Div(x, y))))
        return Expr(b_.value(arith.Sub(x, b_.value(arith.Mul(quotient, y)))))
    _not_zero("%", y)
    return Expr(b_.value(arith.FloorMod(x, y)))


def power(a: Any, b: Any) -> Expr:
    """Small whole exponents by multiplication, others as 2^(b·log2 a)."""
    if is_number(b):
        n = python_number(b)
        if n == 0.5 and isinstance(a, Expr) and a.dtype.is_float:
            return unary(arith.Sqrt, a)
        if n == int(n) and 0 <= n <= 16:
            base = a if isinstance(a, Expr) else Expr(operand_value(a))
            result = convert(1, base.dtype)
            square = base
            n = int(n)
            first = True
            while n:
                if n & 1:
                    result = square if first else result * square
                    first = False
                n >>= 1
                if n:
                    square = square * square
            return result
    x, y = _arithmetic_operands(a, b)
    if not x.dtype.is_float:
        raise TypeMismatchError(f"`**` of {x.dtype} needs a constant exponent from 0 to 16")
    return unary(arith.Exp2, Expr(y) * unary(arith.Log2, Expr(x)))


def compare(predicate: str, a: Any, b: Any) -> Expr:
    x, y = unify(a, b)
    _no_fp8(x.dtype)
    return Expr(current().b.compare(predicate, x, y))


def negate(a: Expr) -> Expr:
    value = a.value if a.dtype.kind != "bool" else current().b.cast(a.value, i32)
    _no_fp8(value.dtype)
    return Expr(current().b.value(arith.Neg(value)))


def invert(a: Expr) -> Expr:
    if a.dtype.is_float:
        raise TypeMismatchError(f"`~` is for integers and bools, not {a.dtype}")
    return Expr(current().b.value(arith.Not(a.value)))


def absolute(a: Expr) -> Expr:
    if a.dtype.kind in ("uint", "bool"):
        return a
    _no_fp8(a.dtype)
    return Expr(current().b.value(arith.Abs(a.value)))


def unary(kind: type[arith.Unary], a: Any) -> Expr:
    """A float function. Integers are taken as f32; 16-bit floats go through f32, which the hardware has it for."""
    value = operand_value(a)
    b = current().b
    given = value.dtype
    if not given.is_float:
        value = b.cast(value, f32)
        given = f32
    _no_fp8(given)
    if given.bits == 16:
        value = b.cast(value, f32)
    return Expr(b.cast(b.value(kind(value)), given))


def truth(a: Any) -> Value:
    """A scalar as a condition: a number is true when it is not zero."""
    value = operand_value(a)
    return value if value.dtype.kind == "bool" else current().b.cast(value, bool_)


def constant_value(x: Any) -> Any:
    """The Python number of a compile-time scalar; None for a run-time value."""
    if isinstance(x, Expr):
        return constant_of(x.value)
    return python_number(x) if is_number(x) else None


def constant_int(x: Any, what: str) -> int:
    """A compile-time integer; LanguageError naming `what` otherwise."""
    number = constant_value(x)
    if number is None and isinstance(x, Expr):
        raise LanguageError(
            f"{what} must be known at compile time, but depends on run-time values",
            current().loc,
            "use a constant, or a parameter of the kernel that has a plain default (it is compile-time)",
        )
    if number is None or isinstance(number, bool) or number != int(number):
        raise LanguageError(f"{what} must be an integer, not {shown(x)}", current().loc)
    return int(number)


Scalar = Any
"""What functions of scalars give, for type checkers: the tracer makes an Expr, but in a kernel's text `acc = 0.0` may
become `acc * T.exp(x)`, as between Python's numbers."""


class Expr:
    """A staged scalar: wraps an IR value; operators on it append operations to the kernel."""

    __slots__ = ("value",)
    __array_ufunc__ = None  # NumPy scalars on the left defer to us
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: Value) -> None:
        self.value = value

    @property
    def dtype(self) -> DType:
        return dtype_of(self.value.type)

    def __repr__(self) -> str:
        return f"<run-time {self.dtype}{' ' + self.value.name if self.value.name else ''}>"

    def astype(self, dtype: DType | str) -> Expr:
        from minitile.ir.types import dtype as lookup

        return convert(self, lookup(dtype))

    # Arithmetic. A tensor or a buffer as the other side is refused by `unify`, with its name.
    def __add__(self, o: Any) -> Expr:
        return binary(arith.Add, self, o)

    def __radd__(self, o: Any) -> Expr:
        return binary(arith.Add, o, self)

    def __sub__(self, o: Any) -> Expr:
        return binary(arith.Sub, self, o)

    def __rsub__(self, o: Any) -> Expr:
        return binary(arith.Sub, o, self)

    def __mul__(self, o: Any) -> Expr:
        return binary(arith.Mul, self, o)

    def __rmul__(self, o: Any) -> Expr:
        return binary(arith.Mul, o, self)

    def __truediv__(self, o: Any) -> Expr:
        return divide(self, o)

    def __rtruediv__(self, o: Any) -> Expr:
        return divide(o, self)

    def __floordiv__(self, o: Any) -> Expr:
        return floor_divide(self, o)

    def __rfloordiv__(self, o: Any) -> Expr:
        return floor_divide(o, self)

    def __mod__(self, o: Any) -> Expr:
        return floor_modulo(self, o)

    def __rmod__(self, o: Any) -> Expr:
        return floor_modulo(o, self)

    def __divmod__(self, o: Any) -> tuple[Expr, Expr]:
        return floor_divide(self, o), floor_modulo(self, o)

    def __pow__(self, o: Any) -> Expr:
        return power(self, o)

    def __rpow__(self, o: Any) -> Expr:
        return power(o, self)

    def __lshift__(self, o: Any) -> Expr:
        return integer_binary(arith.Shl, "<<", self, o)

    def __rlshift__(self, o: Any) -> Expr:
        return integer_binary(arith.Shl, "<<", o, self)

    def __rshift__(self, o: Any) -> Expr:
        return integer_binary(arith.Shr, ">>", self, o)

    def __rrshift__(self, o: Any) -> Expr:
        return integer_binary(arith.Shr, ">>", o, self)

    def __and__(self, o: Any) -> Expr:
        return bitwise(arith.And, "&", self, o)

    def __rand__(self, o: Any) -> Expr:
        return bitwise(arith.And, "&", o, self)

    def __or__(self, o: Any) -> Expr:
        return bitwise(arith.Or, "|", self, o)

    def __ror__(self, o: Any) -> Expr:
        return bitwise(arith.Or, "|", o, self)

    def __xor__(self, o: Any) -> Expr:
        return bitwise(arith.Xor, "^", self, o)

    def __rxor__(self, o: Any) -> Expr:
        return bitwise(arith.Xor, "^", o, self)

    def __matmul__(self, o: Any) -> NoReturn:
        raise current().error("`@` has no meaning on scalars", "a product of tiles is T.gemm(A, B, C)")

    def __neg__(self) -> Expr:
        return negate(self)

    def __pos__(self) -> Expr:
        return self

    def __invert__(self) -> Expr:
        return invert(self)

    def __abs__(self) -> Expr:
        return absolute(self)

    # Comparisons
    def __lt__(self, o: Any) -> Expr:
        return compare("lt", self, o)

    def __le__(self, o: Any) -> Expr:
        return compare("le", self, o)

    def __gt__(self, o: Any) -> Expr:
        return compare("gt", self, o)

    def __ge__(self, o: Any) -> Expr:
        return compare("ge", self, o)

    def __eq__(self, o: Any) -> Expr:  # type: ignore[override]
        return compare("eq", self, o)

    def __ne__(self, o: Any) -> Expr:  # type: ignore[override]
        return compare("ne", self, o)

    # Where Python itself wants the number
    def _needed(self, where: str, hint: str) -> NoReturn:
        raise current().error(f"a run-time value ({self!r}) where {where}", hint)

    def __bool__(self) -> bool:
        self._needed(
            "Python must know at once whether it is true",
            "`if`, `while`, `and`, `or`, `not` and the ternary are staged in kernels and their helper functions, "
            "but not inside library code that is called with the value",
        )

    def __index__(self) -> int:
        self._needed(
            "Python needs a constant integer",
            "index a buffer, or loop with T.unroll to have compile-time indices; `range` has run-time bounds where a "
            "statement says `for i in range(…):`",
        )

    def __int__(self) -> int:
        self._needed("Python needs a constant integer", "cast with T.cast(x, T.int32)")

    def __float__(self) -> float:
        self._needed("Python needs a constant float", "use the T.* function, or cast with T.cast(x, T.float32)")

    def __iter__(self) -> NoReturn:
        self._needed("Python needs a sequence", "")


def _cast_hook(dtype: DType, value: object) -> object:
    from minitile.language.math import dtype_of_name

    return convert(value, dtype_of_name(dtype))


DType.cast_hook = _cast_hook


def emit_value(op: Op) -> Expr:
    """Append a pure operation; its result as a staged scalar."""
    return Expr(current().b.value(op))
