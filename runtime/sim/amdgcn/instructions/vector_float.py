"""Floating-point instructions of the vector unit (CDNA3 ISA, 12.8 to 12.12).

Arithmetic is rounded to nearest even with subnormal numbers kept, as kernels ask for it. The transcendental
instructions are computed in doubles and rounded once: better than the hardware's 1 ulp, but like it they treat
subnormal numbers as zero (f32). Division comes as its parts: v_div_scale, v_div_fmas, v_div_fixup.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.formats import flush, fma_to_odd, sum_to_odd
from ...core.scalars import Array, Sel, some
from ...core.updates import greatest, least, maximum, minimum
from ..decode import Decoder
from ..syntax import VCC, Instruction, Reg
from ..table import Handler, instruction
from .vector_alu import destination, source, takes, valu

if TYPE_CHECKING:
    from ..machine import Machine


def fma(a: Array, b: Array, c: Array) -> Array:
    """a * b + c, rounded once."""
    if a.dtype == np.float64:
        return fma_double(a, b, c)
    exact = fma_to_odd(a, b, c)
    return exact.astype(a.dtype)


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """A sum and its rounding error (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """A product and its rounding error (Dekker), of factors of moderate size."""
    product, split = a * b, 134217729.0
    ah, bh = a * split - (a * split - a), b * split - (b * split - b)
    al, bl = a - ah, b - bh
    return product, ((ah * bh - product) + ah * bl + al * bh) + al * bl


def fma_double(a: Array, b: Array, c: Array, scale: Array | int = 0) -> Array:
    """(a * b + c) * 2**scale in doubles, rounded once (Boldo and Melquiond, "Emulation of FMA")."""
    a, b, c = np.broadcast_arrays(a, b, c)
    plain = np.ldexp(a * b + c, scale)
    (ma, ea), (mb, eb), (mc, ec) = np.frexp(a), np.frexp(b), np.frexp(c)
    exponent = ea + eb
    # A summand beyond 200 bits from the other matters only as being there.
    near = np.ldexp(mc, np.clip(ec - exponent, -200, 200))
    high, low = _two_product(ma, mb)
    top, rest = _two_sum(near, low)
    total, error = _two_sum(high, top)
    tail = sum_to_odd(rest, error)
    exponent = np.where(ec - exponent > 200, ec - 200, exponent) + scale
    value = np.ldexp(total + tail, exponent)
    # A subnormal result is rounded to a multiple of the smallest number; only in a tie does the tail matter.
    units = np.ldexp(total, exponent + 1074)
    tie = units - np.floor(units) == 0.5
    whole = np.where(tie & (tail != 0), np.where(tail > 0, np.ceil(units), np.floor(units)), np.rint(units))
    value = np.where(np.abs(value) < 2.3e-308, np.ldexp(whole, -1074), value)
    usual = np.isfinite(a) & np.isfinite(b) & np.isfinite(c) & (a != 0) & (b != 0)
    result: Array = np.where(usual, value, plain)
    return result


def _med(a: Array, b: Array, c: Array) -> Array:
    """The larger of the two that are left without the first that is the largest of all (CDNA3 ISA, V_MED3_F32): of
    -0, -0 and +0 that is +0."""
    top = maximum(maximum(a, b), c)
    middle = np.where(top == a, maximum(b, c), np.where(top == b, maximum(a, c), maximum(a, b)))
    nan = np.isnan(a) | np.isnan(b) | np.isnan(c)
    return np.where(nan, minimum(minimum(a, b), c), middle).astype(a.dtype)


def _special(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """A transcendental instruction of f32: computed in doubles; subnormal numbers are zeros."""

    def apply(a: Array) -> Array:
        return flush(function(flush(a).astype(np.float64)).astype(np.float32))

    return apply


def _half(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda a: function(a.astype(np.float64)).astype(np.float16)


def _ldexp(a: Array, b: Array) -> Array:
    exact = np.ldexp(a.astype(np.float64), np.clip(b, -2200, 2200).astype(np.int32))
    return exact.astype(a.dtype)


def _fract(a: Array) -> Array:
    below = np.nextafter(a.dtype.type(1), a.dtype.type(0))
    result: Array = np.minimum(a - np.floor(a), below)
    return result


def _frexp_exp(a: Array) -> Array:
    _, exponent = np.frexp(a)
    return np.where(np.isfinite(a), exponent, 0).astype(np.int32)


def _frexp_mant(a: Array) -> Array:
    mantissa, _ = np.frexp(a)
    return np.where(np.isfinite(a), mantissa, a).astype(a.dtype)


for _kind in ("f16", "f32", "f64"):
    _two = f"{_kind} {_kind}"
    valu(f"v_add_{_kind}", _kind, _two, np.add)
    valu(f"v_mul_{_kind}", _kind, _two, np.multiply)
    valu(f"v_min_{_kind}", _kind, _two, minimum)
    valu(f"v_max_{_kind}", _kind, _two, maximum)
    valu(f"v_fma_{_kind}", _kind, f"{_two} {_kind}", fma, keeps_high=True)
    valu(f"v_floor_{_kind}", _kind, _kind, np.floor)
    valu(f"v_ceil_{_kind}", _kind, _kind, np.ceil)
    valu(f"v_trunc_{_kind}", _kind, _kind, np.trunc)
    valu(f"v_rndne_{_kind}", _kind, _kind, np.rint)
    valu(f"v_fract_{_kind}", _kind, _kind, _fract)
    valu(f"v_frexp_mant_{_kind}", _kind, _kind, _frexp_mant)
    if _kind != "f64":
        valu(f"v_sub_{_kind}", _kind, _two, np.subtract)
        valu(f"v_subrev_{_kind}", _kind, _two, lambda a, b: b - a)
        valu(f"v_min3_{_kind}", _kind, f"{_two} {_kind}", lambda a, b, c: minimum(minimum(a, b), c), keeps_high=True)
        valu(f"v_max3_{_kind}", _kind, f"{_two} {_kind}", lambda a, b, c: maximum(maximum(a, b), c), keeps_high=True)
        valu(f"v_med3_{_kind}", _kind, f"{_two} {_kind}", _med, keeps_high=True)
valu("v_minimum3_f32", "f32", "f32 f32 f32", lambda a, b, c: least(least(a, b), c))
valu("v_maximum3_f32", "f32", "f32 f32 f32", lambda a, b, c: greatest(greatest(a, b), c))
valu("v_mul_legacy_f32", "f32", "f32 f32", lambda a, b: np.where((a == 0) | (b == 0), np.float32(0), a * b))
valu("v_ldexp_f16", "f16", "f16 i16", _ldexp)
valu("v_ldexp_f32", "f32", "f32 i32", _ldexp)
valu("v_ldexp_f64", "f64", "f64 i32", _ldexp)
valu("v_frexp_exp_i32_f32", "i32", "f32", _frexp_exp)
valu("v_frexp_exp_i32_f64", "i32", "f64", _frexp_exp)
valu("v_frexp_exp_i16_f16", "i16", "f16", lambda a: _frexp_exp(a).astype(np.int16))
valu("v_exp_f32", "f32", "f32", _special(np.exp2))
valu("v_log_f32", "f32", "f32", _special(np.log2))
valu("v_rcp_f32 v_rcp_iflag_f32", "f32", "f32", _special(lambda a: 1 / a))
valu("v_rsq_f32", "f32", "f32", _special(lambda a: 1 / np.sqrt(a)))
valu("v_sqrt_f32", "f32", "f32", _special(np.sqrt))
valu("v_sin_f32", "f32", "f32", _special(lambda a: np.sin(a * (2 * np.pi))))
valu("v_cos_f32", "f32", "f32", _special(lambda a: np.cos(a * (2 * np.pi))))
valu("v_exp_f16", "f16", "f16", _half(np.exp2))
valu("v_log_f16", "f16", "f16", _half(np.log2))
valu("v_rcp_f16", "f16", "f16", _half(lambda a: 1 / a))
valu("v_rsq_f16", "f16", "f16", _half(lambda a: 1 / np.sqrt(a)))
valu("v_sqrt_f16", "f16", "f16", _half(np.sqrt))
valu("v_sin_f16", "f16", "f16", _half(lambda a: np.sin(a * (2 * np.pi))))
valu("v_cos_f16", "f16", "f16", _half(lambda a: np.cos(a * (2 * np.pi))))
valu("v_rcp_f64", "f64", "f64", lambda a: 1 / a)
valu("v_rsq_f64", "f64", "f64", lambda a: 1 / np.sqrt(a))
valu("v_sqrt_f64", "f64", "f64", np.sqrt)


def _takes(sources: int, flag: str = "") -> Callable[[str], str]:
    """The form of an instruction whose name ends with the type of everything."""
    return lambda name: takes(name[-3:], *[name[-3:]] * sources).replace(" ", flag + " ", 1)


@instruction("v_fmac_f32", "v_fmac_f16", "v_fmac_f64", "v_pk_fmac_f16", takes=_takes(2), mods="vop")
def _fmac(ins: Instruction, d: Decoder) -> Handler:
    """The destination is the addend."""
    if ins.name.startswith("v_pk"):
        raise d.error("the simulator does not know v_pk_fmac_f16")
    kind = ins.name[-3:]
    first, second = (source(d, ins.operands[index], kind, index - 1) for index in (1, 2))
    addend = source(d, ins.operands[0], kind, 2)
    from .vector_alu import compute

    return compute(d, kind, [first, second, addend], fma, keeps_high=True)


@instruction("v_fmamk_f32", "v_fmaak_f32", "v_fmamk_f16", "v_fmaak_f16", takes=_takes(3), mods="vop")
def _fma_literal(ins: Instruction, d: Decoder) -> Handler:
    """fmamk: a * literal + b; fmaak: a * b + literal. The text gives the operands in this order."""
    kind = ins.name[-3:]
    reads = [source(d, ins.operands[index + 1], kind, index) for index in range(3)]
    write = destination(d, kind)
    return lambda m, sel: write(m, sel, fma(*(read(m, sel) for read in reads)), None)


# -- division (CDNA3 ISA, V_DIV_SCALE_F32, V_DIV_FMAS_F32, V_DIV_FIXUP_F32) -----------------------------------------


class _Format:
    def __init__(self, dtype: type[Any], mantissa: int, bias: int, far: int, scale: int, low: int) -> None:
        self.dtype, self.mantissa, self.bias = dtype, mantissa, bias
        self.far, self.scale, self.low = far, scale, low
        self.word = np.dtype(f"u{np.dtype(dtype).itemsize}")
        self.top = 2 * bias + 1

    def exponent(self, value: Array) -> Array:
        bits = value.view(self.word) >> self.word.type(self.mantissa)
        result: Array = (bits & self.word.type(self.top)).astype(np.int64)
        return result

    def subnormal(self, value: Array) -> Array:
        result: Array = (self.exponent(value) == 0) & (value != 0)
        return result


_FORMATS = {"f32": _Format(np.float32, 23, 127, 96, 64, 23), "f64": _Format(np.float64, 52, 1023, 768, 128, 53)}


@instruction("v_div_scale_f32", "v_div_scale_f64", takes=_takes(3, " s2"), mods="vop")
def _div_scale(ins: Instruction, d: Decoder) -> Handler:
    """Scale source 0 (denominator or numerator) so that the division's steps neither overflow nor lose bits."""
    kind = ins.name[-3:]
    form = _FORMATS[kind]
    reads = [source(d, ins.operands[index + 2], kind, index) for index in range(3)]
    flag = d.mask_result(ins.operands[1])
    write = destination(d, kind)

    def run(m: Machine, sel: Sel) -> None:
        value, denominator, numerator = np.broadcast_arrays(*(read(m, sel) for read in reads))
        value, denominator, numerator = (np.ascontiguousarray(x) for x in (value, denominator, numerator))
        up = np.ldexp(value, form.scale)
        is_denominator = value == denominator
        zero = (numerator == 0) | (denominator == 0)
        far = form.exponent(numerator) - form.exponent(denominator) >= form.far
        tiny_denominator = form.subnormal(denominator)
        inverse = form.subnormal((1 / denominator.astype(np.float64)).astype(form.dtype))
        if kind == "f64":
            inverse = form.subnormal(1 / denominator)
        quotient = form.subnormal(numerator / denominator)
        small = form.exponent(numerator) <= form.low
        cases = [
            (zero, np.full_like(value, np.nan), False),
            (far, np.where(is_denominator, up, value), True),
            (tiny_denominator, up, False),
            # The document scales the denominator up here too, which would overflow: it is at least 2**126.
            (inverse & quotient, np.where(is_denominator, np.ldexp(value, -form.scale), value), True),
            (inverse, np.ldexp(value, -form.scale), False),
            (quotient, np.where(value == numerator, up, value), True),
            (small, up, False),
        ]
        result = np.select([case for case, _, _ in cases], [new for _, new, _ in cases], value)
        marks = np.select([case for case, _, _ in cases], [mark for _, _, mark in cases], False)
        active = m.lanes(sel)
        write(m, sel, result.astype(form.dtype), None)
        flag(m, sel, np.broadcast_to(marks, active.shape) & active)

    return run


@instruction("v_div_fmas_f32", "v_div_fmas_f64", takes=_takes(3), mods="vop")
def _div_fmas(ins: Instruction, d: Decoder) -> Handler:
    """fma, scaled back in the lanes whose vcc bit is set: up if the quotient is large, else down."""
    kind = ins.name[-3:]
    form = _FORMATS[kind]
    reads = [source(d, ins.operands[index + 1], kind, index) for index in range(3)]
    marks = d.mask(Reg("s", VCC, 2))
    write = destination(d, kind)

    def run(m: Machine, sel: Sel) -> None:
        a, b, c = np.broadcast_arrays(*(read(m, sel) for read in reads))
        plain = fma(a, b, c)
        marked = marks(m, sel)
        if some(marked):
            # The scaling down must be rounded once, so it is done before rounding to the format.
            steps = np.where(form.exponent(np.ascontiguousarray(c)) > form.bias, form.scale, -form.scale)
            if kind == "f32":
                scaled = np.ldexp(fma_to_odd(a, b, c), steps).astype(np.float32)
            else:
                scaled = fma_double(a, b, c, steps)
            plain = np.where(marked, scaled, plain)
        write(m, sel, plain, None)

    return run


def div_fixup(quotient: Array, denominator: Array, numerator: Array) -> Array:
    """The special cases of a division: NaN, zero, infinity; else the quotient with its sign."""
    dtype = quotient.dtype
    quotient, denominator, numerator = np.broadcast_arrays(quotient, denominator, numerator)
    sign = np.signbit(denominator) ^ np.signbit(numerator)
    zero, infinity, nan = dtype.type(0), dtype.type(np.inf), dtype.type(np.nan)
    form = _FORMATS.get(f"f{8 * dtype.itemsize}")
    vanishes = np.zeros(quotient.shape, bool)
    if form is not None:  # the quotient is below the smallest number
        gap = form.exponent(np.ascontiguousarray(numerator)) - form.exponent(np.ascontiguousarray(denominator))
        vanishes = np.broadcast_to(gap < -(form.bias + form.mantissa), quotient.shape)
    both_zero = (denominator == 0) & (numerator == 0)
    both_infinite = np.isinf(denominator) & np.isinf(numerator)
    result = np.select(
        [
            np.isnan(numerator),
            np.isnan(denominator),
            both_zero | both_infinite,
            (denominator == 0) | np.isinf(numerator),
            np.isinf(denominator) | (numerator == 0),
            vanishes,
            np.isnan(quotient),
        ],
        [numerator, denominator, nan, infinity, zero, zero, infinity],
        np.abs(quotient),
    )
    given = np.isnan(numerator) | np.isnan(denominator) | both_zero | both_infinite
    final: Array = np.where(given, result, np.where(sign, -np.abs(result), np.abs(result))).astype(dtype)
    return final


for _kind in ("f16", "f32", "f64"):
    valu(f"v_div_fixup_{_kind}", _kind, f"{_kind} {_kind} {_kind}", div_fixup, keeps_high=True)
