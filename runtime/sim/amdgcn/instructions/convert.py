"""Conversions between number formats (CDNA3 ISA, 12.8 to 12.11; CDNA4 ISA for the bf16 ones).

Float to integer saturates, NaN becomes 0. 8-bit floats are e4m3fnuz and e5m2fnuz on gfx942, the OCP formats e4m3fn and
e5m2 on gfx950 (CDNA4 ISA, "FP8 and BF8 formats").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from ...core.scalars import Array, Sel
from ..decode import Decoder, Read
from ..syntax import Instruction
from ..table import Handler, instruction
from .vector_alu import VIEWS, destination, dpp_valid, source, valu

if TYPE_CHECKING:
    from ..machine import Machine

FP8: dict[str, dict[str, Any]] = {
    "gfx942": {"fp8": ml_dtypes.float8_e4m3fnuz, "bf8": ml_dtypes.float8_e5m2fnuz},
    "gfx950": {"fp8": ml_dtypes.float8_e4m3fn, "bf8": ml_dtypes.float8_e5m2},
}
LARGEST = {"gfx942": {"fp8": 240.0, "bf8": 57344.0}, "gfx950": {"fp8": 448.0, "bf8": 57344.0}}


def to_integer(value: Array, kind: str) -> Array:
    """Toward zero, saturating; NaN becomes 0."""
    view = VIEWS[kind]
    limits = np.iinfo(view)
    exact = np.nan_to_num(np.trunc(value.astype(np.float64)), nan=0.0, posinf=1e300, neginf=-1e300)
    clipped = np.clip(exact, limits.min, limits.max)
    result: Array = clipped.astype(np.int64).astype(view)
    return result


def _narrow(value: Array) -> Array:
    return value.astype(np.float16)


def _byte(value: Array, number: int) -> Array:
    return (value >> np.uint32(8 * number) & np.uint32(0xFF)).astype(np.float32)


def _rtz_half(value: Array) -> Array:
    rounded = value.astype(np.float16)
    over = np.abs(rounded.astype(np.float64)) > np.abs(value.astype(np.float64))
    return np.where(over & np.isfinite(value), np.nextafter(rounded, np.float16(0)), rounded)


def to_bfloat16(value: Array) -> Array:
    """The bits of f32 values rounded to bf16, as uint32."""
    return value.astype(ml_dtypes.bfloat16).view(np.uint16).astype(np.uint32)


def _pack(low: Array, high: Array) -> Array:
    return low.astype(np.uint32) | high.astype(np.uint32) << np.uint32(16)


def _half_bits(value: Array) -> Array:
    return value.view(np.uint16)


for _kind in ("u32", "i32"):
    valu(f"v_cvt_f32_{_kind}", "f32", _kind, lambda a: a.astype(np.float64).astype(np.float32))
    valu(f"v_cvt_f64_{_kind}", "f64", _kind, lambda a: a.astype(np.float64))
for _kind in ("u16", "i16"):
    valu(f"v_cvt_f16_{_kind}", "f16", _kind, lambda a: a.astype(np.float32).astype(np.float16))
valu("v_cvt_u32_f32", "u32", "f32", lambda a: to_integer(a, "u32"))
valu("v_cvt_i32_f32", "i32", "f32", lambda a: to_integer(a, "i32"))
valu("v_cvt_u32_f64", "u32", "f64", lambda a: to_integer(a, "u32"))
valu("v_cvt_i32_f64", "i32", "f64", lambda a: to_integer(a, "i32"))
valu("v_cvt_u16_f16", "u16", "f16", lambda a: to_integer(a, "u16"))
valu("v_cvt_i16_f16", "i16", "f16", lambda a: to_integer(a, "i16"))
valu("v_cvt_rpi_i32_f32", "i32", "f32", lambda a: to_integer(np.floor(a + np.float32(0.5)), "i32"))
valu("v_cvt_flr_i32_f32", "i32", "f32", lambda a: to_integer(np.floor(a), "i32"))
valu("v_cvt_f16_f32", "f16", "f32", _narrow)
valu("v_cvt_f32_f16", "f32", "f16", lambda a: a.astype(np.float32))
valu("v_cvt_f64_f32", "f64", "f32", lambda a: a.astype(np.float64))
valu("v_cvt_f32_f64", "f32", "f64", lambda a: a.astype(np.float32))
valu("v_cvt_f32_bf16", "f32", "u16", lambda a: (a.astype(np.uint32) << np.uint32(16)).view(np.float32))
for _number in range(4):
    valu(f"v_cvt_f32_ubyte{_number}", "f32", "u32", lambda a, n=_number: _byte(a, n))
valu("v_cvt_pkrtz_f16_f32", "b32", "f32 f32", lambda a, b: _pack(_half_bits(_rtz_half(a)), _half_bits(_rtz_half(b))))
valu("v_cvt_pk_f16_f32", "b32", "f32 f32", lambda a, b: _pack(_half_bits(_narrow(a)), _half_bits(_narrow(b))))
valu("v_cvt_pk_bf16_f32", "b32", "f32 f32", lambda a, b: to_bfloat16(a) | to_bfloat16(b) << np.uint32(16))
valu("v_pack_b32_f16", "b32", "b16 b16", _pack)
valu(
    "v_cvt_pk_i16_i32",
    "b32",
    "i32 i32",
    lambda a, b: _pack(*(np.clip(x, -32768, 32767).astype(np.int16).view(np.uint16) for x in (a, b))),
)
valu(
    "v_cvt_pk_u16_u32",
    "b32",
    "u32 u32",
    lambda a, b: _pack(np.minimum(a, np.uint32(65535)), np.minimum(b, np.uint32(65535))),
)
valu(
    "v_cvt_pknorm_i16_f32",
    "b32",
    "f32 f32",
    lambda a, b: _pack(*(np.rint(np.clip(x, -1, 1) * 32767).astype(np.int16).view(np.uint16) for x in (a, b))),
)


@instruction("v_cvt_pk_u8_f32", takes="v V V V", mods="vop")
def _pack_byte(ins: Instruction, d: Decoder) -> Handler:
    """Put one float, as an unsigned byte, into byte `b & 3` of c."""
    value, where, old = (
        source(d, ins.operands[index + 1], kind, index) for index, kind in enumerate(("f32", "u32", "u32"))
    )
    write = destination(d, "u32")

    def run(m: Machine, sel: Sel) -> None:
        byte = np.rint(np.clip(np.nan_to_num(value(m, sel), nan=0.0), 0, 255)).astype(np.uint32)
        shift = (where(m, sel) & np.uint32(3)) * np.uint32(8)
        write(m, sel, old(m, sel) & ~(np.uint32(0xFF) << shift) | byte << shift, None)

    return run


# -- 8-bit floats ------------------------------------------------------------------------------------------------------


def small_float(d: Decoder, name: str) -> Any:
    """The NumPy type of "fp8" or "bf8" on the program's target."""
    return FP8[d.program.arch][name]


def encode_small(d: Decoder, value: Array, name: str) -> Array:
    """f32 values as bytes of an 8-bit format, saturating (FP16_OVFL is 0: out of range is NaN or infinity)."""
    return value.astype(small_float(d, name)).view(np.uint8)


@instruction("v_cvt_f32_fp8", "v_cvt_f32_bf8", takes="v V", mods="vop")
def _widen(ins: Instruction, d: Decoder) -> Handler:
    """One byte, chosen by SDWA (or byte_sel), to f32."""
    dtype = small_float(d, ins.name[-3:])
    if ins.encoding == "sdwa":
        read: Read = source(d, ins.operands[1], "b32", 0)
        shift = np.uint32(0)
    else:
        read = source(d, ins.operands[1], "b32", 0)
        shift = np.uint32(8 * d.number("byte_sel"))
    write = d.vector_result(ins.operands[0])
    valid = dpp_valid(d)

    def run(m: Machine, sel: Sel) -> None:
        byte = (read(m, sel) >> shift & np.uint32(0xFF)).astype(np.uint8)
        value = byte.view(dtype).astype(np.float32).view(np.uint32)
        write(m, sel, value, None if valid is None else valid(m, sel))

    return run


@instruction("v_cvt_pk_f32_fp8", "v_cvt_pk_f32_bf8", takes="v2 V", mods="vop")
def _widen_two(ins: Instruction, d: Decoder) -> Handler:
    """Two bytes, of the low or (SDWA's WORD_1, op_sel) the high half, to two f32."""
    dtype = small_float(d, ins.name[-3:])
    high = ins.mods.get("src0_sel") == "WORD_1" or bool(d.bits("op_sel", 2)[0])
    read = d.vector(ins.operands[1])
    rows = d.result_words(ins.operands[0], 2)

    def run(m: Machine, sel: Sel) -> None:
        word = read(m, sel) >> np.uint32(16 if high else 0)
        values = [
            (word >> np.uint32(8 * index) & np.uint32(0xFF)).astype(np.uint8).view(dtype).astype(np.float32)
            for index in range(2)
        ]
        for row, value in zip(rows, values, strict=True):
            m.put(row, sel, value.view(np.uint32))

    return run


@instruction("v_cvt_pk_fp8_f32", "v_cvt_pk_bf8_f32", takes="v V V", mods="vop")
def _narrow_two(ins: Instruction, d: Decoder) -> Handler:
    """Two f32 to two bytes in the low or (op_sel) high half of the destination, whose other half stays."""
    name = ins.name[9:12]
    reads = [source(d, ins.operands[index + 1], "f32", 9) for index in range(2)]
    high = bool(d.bits("op_sel", 4)[3]) if len(d.bits("op_sel", 4)) > 3 else False
    high = high or (isinstance(ins.mods.get("op_sel"), tuple) and bool(d.bits("op_sel", 3)[-1]))
    write = d.vector_result(ins.operands[0])
    (row,) = d.words(ins.operands[0], 1)

    def run(m: Machine, sel: Sel) -> None:
        low, upper = (encode_small(d, read(m, sel), name).astype(np.uint32) for read in reads)
        pair, held = low | upper << np.uint32(8), m.v[row, sel]
        new = held & np.uint32(0xFFFF) | pair << np.uint32(16) if high else held & np.uint32(0xFFFF0000) | pair
        write(m, sel, new, None)

    return run
