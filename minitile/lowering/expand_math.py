"""exp, log, tanh and their like on f32, as fused multiply-adds around the hardware's approximations.

A backend calls them while it legalises. Each function takes `Terms` (a builder and the target's own exp2, log2, rsqrt
and rcp) and an f32 value and returns the f32 result; all operations are legal. Errors are the largest ones over the
whole range with NVIDIA's approximations, relative unless said otherwise; inf, NaN, signed zeros and subnormals come out
as IEEE 754 has them, but for exp2 there, whose results below 2^-126 are 0.

    exp2   2^-22 (ex2.approx)          rsqrt   2^-22.9 (rsqrt.approx)
    exp2 by polynomial   2^-13.7
    exp    2^-21                       rcp     2^-23 (rcp.approx), and 0 beyond 2^126
    log    2^-22                       tanh    2^-21
    log2   2^-21                       erf     2^-21
    sin, cos  2^-22 absolute for |x| up to 1e5

Sources: PTX ISA 8.3, 9.7.3 (errors of ex2, rsqrt, lg2, rcp); coefficients: S. Moshier, Cephes Math Library 2.2, single
precision (logf.c, log2f.c, tanhf.c, sinf.c); erf: the rational approximation that Eigen (SpecialFunctionsImpl.h, up to
3.4) and XLA have.
"""

from __future__ import annotations

from collections.abc import Callable

from minitile.ir.builder import Builder
from minitile.ir.core import Op, Value
from minitile.ir.ops import arith
from minitile.ir.types import f32, i32

_LOG2E_HIGH, _LOG2E_LOW = 1.44269502162933349609375, 1.92596299112661746887e-08
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4
_SIGN = -(1 << 31)
_INFINITY = float("inf")


class Terms:
    """Shorthand: numbers stand for constants. `native(name, x)` is the target's own "exp2", "log2" or "rsqrt" of an
    f32, right for every x up to rounding: subnormals, infinities, NaN; or "rcp", 1/x up to 2^-23 of it, and 0 where x
    is beyond 2^126. (A quotient that is rounded correctly has a branch.)"""

    def __init__(self, b: Builder, native: Callable[[str, Value], Value]) -> None:
        self.b = b
        self.native = native

    def value(self, x: Value | float) -> Value:
        return x if isinstance(x, Value) else self.b.constant(float(x), f32)

    def integer(self, x: Value | int) -> Value:
        return x if isinstance(x, Value) else self.b.constant(x, i32)

    def op(self, op: Op) -> Value:
        return self.b.emit(op).result

    def add(self, a: Value | float, b: Value | float) -> Value:
        return self.op(arith.Add(self.value(a), self.value(b)))

    def sub(self, a: Value | float, b: Value | float) -> Value:
        return self.op(arith.Sub(self.value(a), self.value(b)))

    def mul(self, a: Value | float, b: Value | float) -> Value:
        return self.op(arith.Mul(self.value(a), self.value(b)))

    def fma(self, a: Value | float, b: Value | float, c: Value | float) -> Value:
        return self.op(arith.Fma(self.value(a), self.value(b), self.value(c)))

    def less(self, a: Value, b: float) -> Value:
        return self.op(arith.Cmp(a, self.value(b), "lt"))

    def select(self, condition: Value, a: Value | float, b: Value | float) -> Value:
        return self.op(arith.Select(condition, self.value(a), self.value(b)))

    def bits(self, a: Value) -> Value:
        return self.op(arith.Reinterpret(a, i32))

    def floats(self, a: Value) -> Value:
        return self.op(arith.Reinterpret(a, f32))

    def polynomial(self, x: Value, *coefficients: float) -> Value:
        """Horner's scheme, the highest power first."""
        result = self.value(coefficients[0])
        for c in coefficients[1:]:
            result = self.fma(result, x, c)
        return result

    def with_sign_of(self, x: Value, magnitude: Value) -> Value:
        sign = self.op(arith.And(self.bits(x), self.integer(_SIGN)))
        return self.floats(self.op(arith.Or(self.bits(magnitude), sign)))


def exp2(t: Terms, x: Value) -> Value:
    return t.native("exp2", x)


def exp2_polynomial(t: Terms, x: Value) -> Value:
    """2^n · 2^f for n the integer nearest x and f the rest, 2^f up to 7.5e-5 of it (2^-13.7) by a polynomial of degree
    3. For x from -127 to 127, and NaN; 0 below -126.5.

    Adding 1.5·2^23 + 127 leaves n + 127 in the low bits, which are 2^n's exponent. (Cody and Waite's reduction; that
    attention gains by it: FlashAttention-4, 2026. Coefficients: Remez's exchange for the least relative error.)"""
    magic = 12582912.0 + 127
    shifted = t.add(x, magic)
    f = t.sub(x, t.sub(shifted, magic))
    mantissa = t.polynomial(f, 0.05517166853, 0.2426111251, 0.6932609677, 0.9999280572)
    return t.mul(mantissa, t.floats(t.op(arith.Shl(t.bits(shifted), t.integer(23)))))


def rsqrt(t: Terms, x: Value) -> Value:
    return t.native("rsqrt", x)


def rcp(t: Terms, x: Value) -> Value:
    return t.native("rcp", x)


def exp(t: Terms, x: Value) -> Value:
    """2^n · 2^f for n the integer nearest x·log2(e), |n| at most 126, and f the rest with log2(e) in two parts.

    n comes from adding 1.5·2^23, which leaves it in the low bits; beyond ±126 the rest takes what is left, so that
    overflow, subnormals, infinities and NaN need no case of their own."""
    scaled = t.mul(x, _LOG2E_HIGH)
    clamped = t.op(arith.Max(t.op(arith.Min(scaled, t.value(126.0))), t.value(-126.0)))
    magic = 12582912.0
    shifted = t.add(clamped, magic)
    minus_n = t.sub(magic, shifted)
    f = t.fma(x, _LOG2E_LOW, t.fma(x, _LOG2E_HIGH, minus_n))
    exponent = t.op(arith.Shl(t.bits(shifted), t.integer(23)))
    power = t.floats(t.op(arith.Add(exponent, t.integer(0x3F800000))))
    return t.mul(t.native("exp2", f), power)


def _log_parts(t: Terms, x: Value) -> tuple[Value, Value, Value]:
    """(e, f, y): x = 2^e · (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), and y = log(1 + f) - f."""
    tiny = t.less(x, 2.0**-126)
    bits = t.bits(t.select(tiny, t.mul(x, 2.0**23), x))
    # Subtracting the bits of sqrt(1/2) makes the exponent field count from there.
    exponent = t.op(arith.Shr(t.op(arith.Sub(bits, t.integer(0x3F3504F3))), t.integer(23)))
    field = t.op(arith.Shl(exponent, t.integer(23)))
    f = t.sub(t.floats(t.op(arith.Sub(bits, field))), 1.0)
    e = t.add(t.op(arith.Cast(exponent, f32)), t.select(tiny, -23.0, 0.0))
    z = t.mul(f, f)
    p = t.polynomial(
        f,
        7.0376836292e-2,
        -1.1514610310e-1,
        1.1676998740e-1,
        -1.2420140846e-1,
        1.4249322787e-1,
        -1.6668057665e-1,
        2.0000714765e-1,
        -2.4999993993e-1,
        3.3333331174e-1,
    )
    return e, f, t.fma(z, -0.5, t.mul(t.mul(p, f), z))


def _unless_special(t: Terms, x: Value, result: Value) -> Value:
    """The native logarithm answers for zero, negative numbers, infinity and NaN."""
    positive = t.op(arith.Cmp(x, t.value(0.0), "gt"))
    ordinary = t.op(arith.And(positive, t.less(x, _INFINITY)))
    return t.select(ordinary, result, t.native("log2", x))


def log(t: Terms, x: Value) -> Value:
    e, f, y = _log_parts(t, x)
    small = t.add(f, t.fma(e, _LN2_LOW, y))
    return _unless_special(t, x, t.fma(e, _LN2_HIGH, small))


def log2(t: Terms, x: Value) -> Value:
    """(f + y)·log2(e) + e, with log2(e) = 1 + 0.4427…: the one is added without rounding of its own."""
    e, f, y = _log_parts(t, x)
    rest = 0.44269504088896340735992
    small = t.fma(f, rest, t.fma(y, rest, y))
    return _unless_special(t, x, t.add(t.add(small, f), e))


def tanh(t: Terms, x: Value) -> Value:
    """Below 0.625 an odd polynomial, above 1 - 2 / (exp(2|x|) + 1)."""
    a = t.op(arith.Abs(x))
    z = t.mul(x, x)
    p = t.polynomial(z, -5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1)
    inner = t.fma(t.mul(p, z), x, x)
    reciprocal = t.native("rcp", t.add(exp(t, t.add(a, a)), 1.0))
    outer = t.with_sign_of(x, t.fma(reciprocal, -2.0, 1.0))
    return t.select(t.less(a, 0.625), inner, outer)


def erf(t: Terms, x: Value) -> Value:
    """x · P(x²) / Q(x²); from 4 on, erf(4), which is 1 in f32."""
    far = t.op(arith.Cmp(t.op(arith.Abs(x)), t.value(4.0), "ge"))
    x = t.select(far, t.with_sign_of(x, t.value(4.0)), x)
    z = t.mul(x, x)
    p = t.polynomial(
        z,
        -2.72614225801306e-10,
        2.77068142495902e-08,
        -2.10102402082508e-06,
        -5.69250639462346e-05,
        -7.34990630326855e-04,
        -2.95459980854025e-03,
        -1.60960333262415e-02,
    )
    q = t.polynomial(
        z,
        -1.45660718464996e-05,
        -2.13374055278905e-04,
        -1.68282697438203e-03,
        -7.37332916720468e-03,
        -1.42647390514189e-02,
    )
    return t.mul(t.mul(x, p), t.native("rcp", q))


def _sin_quadrant(t: Terms, x: Value, turn: int) -> Value:
    """sin(x + turn · π/2): the rest r after the nearest multiple of π/2, which is subtracted in three parts."""
    j = t.op(arith.Round(t.mul(x, 0.636619772367581343)))
    minus_j = t.op(arith.Neg(j))
    r = t.fma(minus_j, 1.57079637050628662109375, x)
    r = t.fma(minus_j, -4.37113882867379114e-8, r)
    r = t.fma(minus_j, -1.71512451000588189e-15, r)
    z = t.mul(r, r)
    sine = t.fma(t.mul(t.polynomial(z, -1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1), z), r, r)
    p = t.polynomial(z, 2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
    cosine = t.fma(t.mul(z, z), p, t.fma(z, -0.5, 1.0))
    quadrant = t.op(arith.Cast(j, i32))
    if turn:
        quadrant = t.op(arith.Add(quadrant, t.integer(turn)))
    odd = t.op(arith.Cmp(t.op(arith.And(quadrant, t.integer(1))), t.integer(0), "ne"))
    lower = t.op(arith.Cmp(t.op(arith.And(quadrant, t.integer(2))), t.integer(0), "ne"))
    result = t.select(odd, cosine, sine)
    return t.select(lower, t.op(arith.Neg(result)), result)


def sin(t: Terms, x: Value) -> Value:
    return _sin_quadrant(t, x, 0)


def cos(t: Terms, x: Value) -> Value:
    return _sin_quadrant(t, x, 1)


FUNCTIONS: dict[type[Op], Callable[[Terms, Value], Value]] = {
    arith.Exp: exp,
    arith.Exp2: exp2,
    arith.Log: log,
    arith.Log2: log2,
    arith.Rsqrt: rsqrt,
    arith.Rcp: rcp,
    arith.Tanh: tanh,
    arith.Erf: erf,
    arith.Sin: sin,
    arith.Cos: cos,
}
