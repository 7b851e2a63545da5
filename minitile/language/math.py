"""Functions of scalars: T.exp, T.max, T.ceildiv, T.cast, ….

Of Python numbers they give Python numbers, so that compile-time arithmetic stays compile-time; of staged values, staged
values. For type checkers they give what they are given (`S`): a number for a number, as a kernel's text has them.
"""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeVar, overload

from minitile.ir.diagnostics import LanguageError, TypeMismatchError
from minitile.ir.ops import arith
from minitile.ir.types import NIBBLES, PACKED, DType
from minitile.ir.types import dtype as lookup_dtype
from minitile.language import scalars
from minitile.language.scalars import Expr, Scalar, constant_value, is_number, is_scalar, python_number, unify
from minitile.language.tracing.context import active, current


def dtype_of_name(name: Any) -> DType:
    """A DType from itself, its name, or NumPy's or torch's dtype of that name; LanguageError if there is none, or it is
    one that only packed bytes hold."""
    trace = active()
    if isinstance(name, str):
        name = NIBBLES.get({"int4": "i4", "uint4": "u4"}.get(name, name), name)
    if isinstance(name, DType):
        if name.name in NIBBLES:
            raise LanguageError(
                f"there are no values of {name} ({name.bits} bits) here",
                None if trace is None else trace.loc,
                "T.Tensor and T.alloc_* take it; elements are read as int8 or uint8",
            )
        if name.name in PACKED:
            raise LanguageError(
                f"{name} ({name.bits} bits) is no dtype of tensors, buffers or values",
                None if trace is None else trace.loc,
                "keep its packed bytes as uint8; T.gemm_blockscaled(…, a_format=…) takes it for their format",
            )
        return name
    try:
        text = name if isinstance(name, str) else str(getattr(name, "__name__", name))
        return lookup_dtype(text.removeprefix("torch."))
    except KeyError:
        raise LanguageError(
            f"unknown dtype {name!r}",
            None if trace is None else trace.loc,
            "dtypes are T.float32, T.bfloat16, T.int8, …",
        ) from None


S = TypeVar("S", bound=Scalar)


class FloatFunction(Protocol):
    """T.exp and its like."""

    def __call__(self, x: S) -> S: ...


def _float_function(
    kind: type[arith.Unary], compute: Callable[[float], float], what: str, double: bool = False
) -> FloatFunction:
    """`double`: whether the targets have it in float64, for the text."""

    def function(x: Any) -> Scalar:
        return compute(python_number(x)) if is_number(x) else scalars.unary(kind, x)

    name, does = what.split(": ")
    dtypes = f"float16, bfloat16{', float32 or float64' if double else ' or float32'}"
    refused = "" if double else "\n    TargetError: float64, on every target: cast it to float32."
    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    function.__doc__ = f"""{does[0].upper()}{does[1:]}.

Args:
    x: a scalar of {dtypes} (of 16 bits it is computed in f32 and rounded once), or
        a Python number.

Raises:
    TypeMismatchError: an integer or an fp8 scalar: cast it first.{refused}

Example:
    ```py
    V[tx] = T.{name}(V[tx])
    ```
"""
    return function


exp = _float_function(arith.Exp, math.exp, "exp: e to the x")
log = _float_function(arith.Log, math.log, "log: the natural logarithm")
log2 = _float_function(arith.Log2, math.log2, "log2: the logarithm to base 2")
sqrt = _float_function(arith.Sqrt, math.sqrt, "sqrt: the square root", double=True)
rsqrt = _float_function(arith.Rsqrt, lambda x: 1 / math.sqrt(x), "rsqrt: one over the square root")
rcp = _float_function(
    arith.Rcp,
    lambda x: 1 / x,
    "rcp: one over x, up to 2^-23 of it, by one instruction; `1 / x` is rounded correctly and takes some ten. 0 where "
    "x is beyond ±2^126, and infinite where it is within ±2^-126",
)
sin = _float_function(arith.Sin, math.sin, "sin: the sine of x in radians")
cos = _float_function(arith.Cos, math.cos, "cos: the cosine of x in radians")
tanh = _float_function(arith.Tanh, math.tanh, "tanh: the hyperbolic tangent")
erf = _float_function(arith.Erf, math.erf, "erf: the error function")
floor = _float_function(arith.Floor, math.floor, "floor: rounded down", double=True)
ceil = _float_function(arith.Ceil, math.ceil, "ceil: rounded up", double=True)
trunc = _float_function(arith.Trunc, math.trunc, "trunc: rounded towards zero", double=True)
round = _float_function(arith.Round, builtins.round, "round: to the nearest integer, ties to even", double=True)


def exp2(x: S, polynomial: float = 0.0) -> S:
    """2 to the x.

    Args:
        x: a scalar of float16, bfloat16 or float32 (of 16 bits it is computed in f32 and rounded once), or
            a Python number.
        polynomial: from 0 to 1, the share of a thread's elements in a T.Parallel loop that a polynomial on the units
            for fused multiply-adds computes, rather than the special function unit: for loops in which that unit is
            the limit, as in attention with heads of 64. Its results are up to 7.5e-5 off, relative (2^-13.7: much less
            than bfloat16 rounds), 0 below -126.5; x is at most 127 there, and greater ones give no meaningful result.

    Raises:
        TypeMismatchError: an integer or an fp8 scalar: cast it first.
        LanguageError: a share that is no number from 0 to 1.
        TargetError: float64, on every target: cast it to float32.

    Example:
        ```py
        V[tx] = T.exp2(V[tx], polynomial=1 / 8)
        ```
    """
    share = constant_value(polynomial)
    if isinstance(share, builtins.bool) or not isinstance(share, (int, float)) or not 0 <= share <= 1:
        trace = active()
        raise LanguageError(
            f"polynomial is {share!r}" if share is not None else "polynomial is a value of run time",
            None if trace is None else trace.loc,
            "a number from 0 to 1, known when the kernel is compiled",
        )
    kind: Any = partial(arith.Exp2, polynomial=float(share))
    result: Any = 2.0 ** python_number(x) if is_number(x) else scalars.unary(kind, x)
    return result


def sigmoid(x: S) -> S:
    """1 / (1 + e^-x).

    Args:
        x: a scalar of float16, bfloat16 or float32, or a Python number.

    Raises:
        TypeMismatchError: an integer or an fp8 scalar: cast it first.
        TargetError: float64, on every target: cast it to float32.

    Example:
        ```py
        V[tx] = T.sigmoid(V[tx])
        ```
    """
    return rcp(1.0 + exp(-x))


def abs(x: S) -> S:
    """The absolute value. `T.fabs` is the same.

    Args:
        x: a number; of the least signed integer it is that integer.

    Example:
        ```py
        V[tx] = T.abs(V[tx])
        ```
    """
    return builtins.abs(x)


fabs = abs


def _extremum(kind: type[arith.Binary], pick: Callable[..., Any], values: tuple[Any, ...]) -> Any:
    if len(values) == 1 and isinstance(values[0], (tuple, list)):
        values = tuple(values[0])
    result = values[0]
    for v in values[1:]:
        known = is_number(result) and is_number(v)
        result = pick(result, v) if known else scalars.binary(kind, result, v)
    return result


def max(*values: S) -> S:
    """The greatest; of a number and a NaN, the number. Python's `max` works too.

    Args:
        values: two or more numbers of one dtype (Python numbers take it), or one tuple or list of them.

    Raises:
        TypeMismatchError: dtypes that do not go together.

    Example:
        ```py
        V[tx] = T.max(V[tx], 0.0)
        ```
    """
    return _extremum(arith.Max, builtins.max, values)


def min(*values: S) -> S:
    """The least; of a number and a NaN, the number. Python's `min` works too.

    Args:
        values: two or more numbers of one dtype (Python numbers take it), or one tuple or list of them.

    Raises:
        TypeMismatchError: dtypes that do not go together.

    Example:
        ```py
        V[tx] = T.min(V[tx], V[tx + 128])
        ```
    """
    return _extremum(arith.Min, builtins.min, values)


def clamp(x: S, low: Any, high: Any) -> S:
    """x, but at least `low` and at most `high`.

    Args:
        x: a number.
        low: a number of the same dtype, or a Python number.
        high: likewise.

    Raises:
        TypeMismatchError: dtypes that do not go together.

    Example:
        ```py
        V[tx] = T.clamp(V[tx], -1.0, 1.0)
        ```
    """
    return min(max(x, low), high)


def ceildiv(a: S, b: Any) -> S:
    """a / b rounded up. Of Python ints a Python int.

    Args:
        a: an integer.
        b: an integer over 0; below 0 too where it is known at compile time.

    Raises:
        TypeMismatchError: floats, or dtypes that do not go together.

    Example:
        ```py
        blocks = T.ceildiv(N, 128)
        ```
    """
    if is_number(a) and is_number(b):
        return -(-a // b)
    if (constant_value(b) or 0) < 0:
        return -(a // -b)
    return (a + (b - 1)) // b


def floordiv(a: S, b: Any) -> S:
    """a / b rounded down: `a // b`, as in Python.

    Args:
        a: an integer.
        b: an integer.

    Raises:
        TypeMismatchError: floats, or dtypes that do not go together.

    Example:
        ```py
        I[tx] = T.floordiv(I[tx], 3)
        ```
    """
    return a // b


def floormod(a: S, b: Any) -> S:
    """`a % b`, as in Python: it has the sign of b.

    Args:
        a: an integer.
        b: an integer.

    Raises:
        TypeMismatchError: floats, or dtypes that do not go together.

    Example:
        ```py
        I[tx] = T.floormod(I[tx], 3)
        ```
    """
    return a % b


def truncdiv(a: S, b: Any) -> S:
    """a / b rounded towards zero, as in C.

    Args:
        a: an integer.
        b: an integer.

    Raises:
        TypeMismatchError: floats, or dtypes that do not go together.

    Example:
        ```py
        I[tx] = T.truncdiv(I[tx], 3)
        ```
    """
    if is_number(a) and is_number(b):
        quotient = builtins.abs(a) // builtins.abs(b)
        return quotient if (a < 0) == (b < 0) else -quotient
    result: Scalar = scalars.integer_binary(arith.TruncDiv, "truncdiv", a, b)
    return result


def truncmod(a: S, b: Any) -> S:
    """a - b·truncdiv(a, b), as `%` in C: it has the sign of a.

    Args:
        a: an integer.
        b: an integer.

    Raises:
        TypeMismatchError: floats, or dtypes that do not go together.

    Example:
        ```py
        I[tx] = T.truncmod(I[tx], 3)
        ```
    """
    if is_number(a) and is_number(b):
        return a - b * truncdiv(a, b)
    result: Scalar = scalars.integer_binary(arith.TruncMod, "truncmod", a, b)
    return result


def pow(x: S, y: Any) -> S:
    """x to the power of y: `x ** y`.

    Args:
        x: a float, or an integer where y is a Python int of at least 0.
        y: a number of the same dtype, or a Python number.

    Raises:
        TypeMismatchError: dtypes that do not go together.
        TargetError: float64, on every target, unless y is a small Python int: cast it to float32.

    Example:
        ```py
        V[tx] = T.pow(V[tx], 3)
        ```
    """
    return x**y


def shift_left(a: S, b: Any) -> S:
    """`a << b`.

    Args:
        a: an integer.
        b: an integer, from 0 to one less than a's bits.

    Raises:
        TypeMismatchError: floats, or dtypes that do not go together.

    Example:
        ```py
        I[tx] = T.shift_left(I[tx], 2)
        ```
    """
    return a << b


def shift_right(a: S, b: Any) -> S:
    """`a >> b`: arithmetic for signed dtypes, logical for unsigned ones.

    Args:
        a: an integer.
        b: an integer, from 0 to one less than a's bits.

    Raises:
        TypeMismatchError: floats, or dtypes that do not go together.

    Example:
        ```py
        I[tx] = T.shift_right(I[tx], 2)
        ```
    """
    return a >> b


def bitwise_and(a: S, b: Any) -> S:
    """`a & b`.

    Args:
        a: an integer or bool.
        b: an integer or bool.

    Raises:
        TypeMismatchError: floats, or dtypes that do not go together.

    Example:
        ```py
        I[tx] = T.bitwise_and(I[tx], 0xFF)
        ```
    """
    return a & b


def bitwise_or(a: S, b: Any) -> S:
    """`a | b`.

    Args:
        a: an integer or bool.
        b: an integer or bool.

    Raises:
        TypeMismatchError: floats, or dtypes that do not go together.

    Example:
        ```py
        I[tx] = T.bitwise_or(I[tx], 1)
        ```
    """
    return a | b


def bitwise_xor(a: S, b: Any) -> S:
    """`a ^ b`.

    Args:
        a: an integer or bool.
        b: an integer or bool.

    Raises:
        TypeMismatchError: floats, or dtypes that do not go together.

    Example:
        ```py
        I[tx] = T.bitwise_xor(I[tx], tx)
        ```
    """
    return a ^ b


def bitwise_not(a: S) -> S:
    """`~a`.

    Args:
        a: an integer, or a bool, which it negates.

    Raises:
        TypeMismatchError: a float.

    Example:
        ```py
        I[tx] = T.bitwise_not(I[tx])
        ```
    """
    return ~a


def isnan(x: Any) -> Scalar:
    """Whether a number is NaN.

    Args:
        x: a float scalar.

    Returns:
        A bool.

    Example:
        ```py
        V[tx] = T.if_then_else(T.isnan(V[tx]), 0.0, V[tx])
        ```
    """
    return x != x


def _value_and_dtype(a: Any, b: Any) -> tuple[Any, DType]:
    """Both argument orders are in use: (value, dtype) and (dtype, value)."""
    if isinstance(a, (DType, str)) and not isinstance(b, (DType, str)):
        a, b = b, a
    return a, dtype_of_name(b)


@overload
def cast(value: Any, dtype: type[S]) -> S: ...
@overload
def cast(value: Any, dtype: Any) -> Scalar: ...


def cast(value: Any, dtype: Any) -> Scalar:
    """The value in another dtype: also `T.float32(x)` and `x.astype(dtype)`. `T.Cast` is the same.

    Float to integer truncates and saturates; to bool is `!= 0`; to a narrower float rounds to nearest, ties to even.

    Args:
        value: a scalar. The arguments may come in either order.
        dtype: a dtype, or its name.

    Raises:
        LanguageError: an unknown dtype, or one that only packed bytes hold.

    Example:
        ```py
        I[tx] = T.cast(V[tx], T.int32)
        ```
    """
    x, d = _value_and_dtype(value, dtype)
    return scalars.convert(x, d)


@overload
def reinterpret(value: Any, dtype: type[S]) -> S: ...
@overload
def reinterpret(value: Any, dtype: Any) -> Scalar: ...


def reinterpret(value: Any, dtype: Any) -> Scalar:
    """The same bits as another dtype of the same width.

    Args:
        value: a scalar. The arguments may come in either order.
        dtype: a dtype of as many bits, or its name.

    Raises:
        TypeMismatchError: another width.

    Example:
        ```py
        I[tx] = T.reinterpret(V[tx], T.int32)
        ```
    """
    x, d = _value_and_dtype(value, dtype)
    v = scalars.operand_value(x)
    if v.dtype.bits != d.bits:
        raise TypeMismatchError(
            f"{v.dtype} has {v.dtype.bits} bits, {d} has {d.bits}: no reinterpretation", current().loc
        )
    return scalars.emit_value(arith.Reinterpret(v, d))


def infinity(dtype: Any = "float32") -> Scalar:
    """Positive infinity.

    Args:
        dtype: a float of 16 bits or more, or its name.

    Raises:
        TypeMismatchError: a dtype without infinity; T.max_value has the greatest finite value.

    Example:
        ```py
        T.fill(row, -T.infinity(T.float32))
        ```
    """
    d = dtype_of_name(dtype)
    if not d.is_float or d.bits == 8:
        raise TypeMismatchError(f"{d} has no infinity", current().loc, "use T.max_value(dtype)")
    return scalars.convert(math.inf, d)


def max_value(dtype: Any) -> Scalar:
    """The greatest finite value of a dtype.

    Args:
        dtype: any number, or its name.

    Example:
        ```py
        I[tx] = T.max_value(T.int32)
        ```
    """
    return scalars.convert(_limits(dtype_of_name(dtype))[1], dtype_of_name(dtype))


def min_value(dtype: Any) -> Scalar:
    """The least finite value of a dtype.

    Args:
        dtype: any number, or its name.

    Example:
        ```py
        I[tx] = T.min_value(T.int32)
        ```
    """
    return scalars.convert(_limits(dtype_of_name(dtype))[0], dtype_of_name(dtype))


def _limits(d: DType) -> tuple[float, float]:
    return (-d.largest, d.largest) if d.is_float else (d.integers[0], d.integers[-1])


def if_then_else(condition: Any, a: S, b: S) -> S:
    """`a if condition else b`, which is the same. `T.Select` is another name.

    In a kernel it is lazy: only the chosen side is evaluated, so that the condition protects a load.

    Args:
        condition: a bool, or a number, which is compared with 0.
        a: a scalar.
        b: a scalar of the same dtype, or a Python number.

    Raises:
        TypeMismatchError: sides that are no scalars of one dtype.

    Example:
        ```py
        for i, j in T.Parallel(32, 128):
            x[i, j] = T.if_then_else(j < N, X[bx * 32 + i, j], -T.infinity(T.float32))
        T.copy(x, Y[bx * 32, 0])
        ```
    """
    if is_number(condition):
        return a if condition else b
    if not (is_scalar(a) and is_scalar(b)):
        raise TypeMismatchError("both sides of a run-time choice must be scalars", current().loc)
    x, y = unify(a, b)
    chosen: Scalar = Expr(current().b.select(scalars.truth(condition), x, y))
    return chosen


Select = if_then_else
