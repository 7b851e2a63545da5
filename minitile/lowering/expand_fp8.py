"""fp8 in integer arithmetic, for targets without its conversions (before sm_89; AMD): storage works everywhere.

    e5m2 -> f32    an f16 without its low byte
    e4m3 -> f32    exponent and mantissa moved to their places in an f32, times 2^120 for the difference of the biases;
                   the multiplication makes subnormals right as well
    f32 -> fp8     saturated, then rounded to nearest even: normal numbers by adding half of the last place to the bits,
                   subnormal ones by adding the power of two whose last place is theirs

Both follow `cvt.rn.satfinite.e4m3x2.f32` and `cvt.rn.f16x2.e4m3x2` bit for bit, NaN (0x7F) included.

The formats FNUZ (e4m3fnuz, e5m2fnuz) have another bias and neither infinities nor a negative zero: 0x80 is the one NaN.

Source: PTX ISA 8.3, 9.7.8.20 (cvt); Micikevicius et al., "FP8 Formats for Deep Learning", 2022 (the formats); Noune et
al., "8-bit Numerical Formats for Deep Neural Networks", 2022 (FNUZ).
"""

from __future__ import annotations

from dataclasses import dataclass

from minitile.ir.builder import Builder
from minitile.ir.core import Op, Value
from minitile.ir.ops import arith
from minitile.ir.types import DType, e4m3, e4m3fnuz, e5m2, e5m2fnuz, f16, f32, i32, u8, u16, u32


@dataclass(frozen=True, slots=True)
class _Format:
    mantissa: int  # bits
    bias: int
    nan: int = 0x7F  # with either sign, but 0x80 has one only

    @property
    def fnuz(self) -> bool:
        return self.nan == 0x80


_FORMATS = {
    e4m3: _Format(3, 7),
    e5m2: _Format(2, 15),
    e4m3fnuz: _Format(3, 8, 0x80),
    e5m2fnuz: _Format(2, 16, 0x80),
}
FP8 = tuple(_FORMATS)


class _Bits:
    """Shorthand: integers stand for constants of the other operand's dtype."""

    def __init__(self, b: Builder) -> None:
        self.b = b

    def op(self, kind: type[arith.Binary], a: Value, b: Value | float) -> Value:
        return self.emit(kind(a, b if isinstance(b, Value) else self.b.constant(b, a.dtype)))

    def emit(self, op: Op) -> Value:
        return self.b.emit(op).result

    def cast(self, a: Value, to: DType) -> Value:
        return self.emit(arith.Cast(a, to))

    def view(self, a: Value, to: DType) -> Value:
        return self.emit(arith.Reinterpret(a, to))

    def compare(self, a: Value, predicate: str, b: Value | float) -> Value:
        return self.emit(arith.Cmp(a, b if isinstance(b, Value) else self.b.constant(b, a.dtype), predicate))


def decode(b: Builder, x: Value) -> Value:
    """fp8 to f32."""
    t = _Bits(b)
    byte = t.cast(t.view(x, u8), u32)
    if x.dtype is e5m2:
        return t.cast(t.view(t.cast(t.op(arith.Shl, byte, 8), u16), f16), f32)
    form = _FORMATS[x.dtype]
    magnitude = t.op(arith.And, byte, 0x7F)
    number = t.op(arith.Mul, t.view(t.op(arith.Shl, magnitude, 23 - form.mantissa), f32), 2.0 ** (127 - form.bias))
    sign = t.op(arith.Shl, t.op(arith.And, byte, 0x80), 24)
    nan = t.compare(byte if form.fnuz else magnitude, "eq", form.nan)
    finite = t.op(arith.Or, t.view(number, u32), sign)
    return t.view(t.emit(arith.Select(nan, b.constant(0x7FFFFFFF, u32), finite)), f32)


def encode(b: Builder, x: Value, to: DType) -> Value:
    """f32 to fp8."""
    t, form = _Bits(b), _FORMATS[to]
    low = 23 - form.mantissa
    size = t.op(arith.Min, t.emit(arith.Abs(x)), to.largest)
    bits = t.view(size, i32)
    # Normal: half of the last place, less one, plus the last place's own bit rounds ties to even.
    last = t.op(arith.And, t.op(arith.Shr, bits, low), 1)
    rounded = t.op(arith.Add, t.op(arith.Add, bits, (1 << (low - 1)) - 1), last)
    normal = t.op(arith.Sub, t.op(arith.Shr, rounded, low), (127 - form.bias) << form.mantissa)
    # Subnormal: in the sum with 2^k the unit is the last bit, so the difference of the bits counts units.
    unit = 2.0 ** (23 + 1 - form.bias - form.mantissa)
    shifted = t.op(arith.Add, size, unit)
    subnormal = t.op(arith.Sub, t.view(shifted, i32), t.view(b.constant(unit, f32), i32))
    small = t.compare(size, "lt", 2.0 ** (1 - form.bias))
    magnitude = t.emit(arith.Select(small, subnormal, normal))
    sign = t.op(arith.And, t.op(arith.Shr, t.view(x, i32), 24), 0x80)
    is_nan = t.compare(x, "ne", x)
    if form.fnuz:  # zero has no sign, and neither has NaN
        signed = t.emit(arith.Select(t.compare(magnitude, "eq", 0), magnitude, t.op(arith.Or, magnitude, sign)))
        return t.view(t.cast(t.emit(arith.Select(is_nan, b.constant(form.nan, i32), signed)), u8), to)
    magnitude = t.emit(arith.Select(is_nan, b.constant(form.nan, i32), magnitude))
    return t.view(t.cast(t.op(arith.Or, magnitude, sign), u8), to)
