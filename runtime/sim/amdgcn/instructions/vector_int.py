"""Integer and bit instructions of the vector unit (CDNA3 ISA, 12.8 to 12.12)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...core.bits import count_ones, reverse_bits, without_sign, zeros_above, zeros_below
from ...core.scalars import Array, Sel
from ..decode import Decoder
from ..syntax import Instruction, Reg
from ..table import Handler, instruction
from .vector_alu import destination, dpp_valid, source, valu

if TYPE_CHECKING:
    from ..machine import Machine


def _u(value: int) -> np.uint32:
    return np.uint32(value)


def _high(a: Array, b: Array) -> Array:
    wide = np.int64 if a.dtype.kind == "i" else np.uint64
    return (a.astype(wide) * b.astype(wide) >> wide(32)).astype(a.dtype)


def _bfe_u(a: Array, b: Array, c: Array) -> Array:
    width = c & _u(31)
    result: Array = a >> (b & _u(31)) & ((_u(1) << width) - _u(1))
    return result


def _bfe_i(a: Array, b: Array, c: Array) -> Array:
    low, width = b & np.int32(31), c & np.int32(31)
    room = np.maximum(32 - low - width, 0)
    field = (a << room) >> np.minimum(room + low, 31)
    plain = a >> low
    return np.where(width == 0, 0, np.where(low + width >= 32, plain, field)).astype(np.int32)


def _perm(a: Array, b: Array, selector: Array) -> Array:
    """v_perm_b32: byte i of the result is byte `selector[i]` of (a, b), b being bytes 0 to 3."""
    both = a.astype(np.uint64) << np.uint64(32) | b.astype(np.uint64)
    result = np.zeros(np.broadcast_shapes(a.shape, b.shape, selector.shape), np.uint32)
    for byte in range(4):
        which = selector >> _u(8 * byte) & _u(0xFF)
        picked = (both >> (np.minimum(which, _u(7)).astype(np.uint64) * np.uint64(8)) & np.uint64(0xFF)).astype(
            np.uint32
        )
        signs = np.minimum(which - _u(8), _u(3)).astype(np.uint64) * np.uint64(16) + np.uint64(15)
        filled = ((both >> signs & np.uint64(1)) * np.uint64(0xFF)).astype(np.uint32)
        picked = np.where(which >= 8, filled, picked)
        picked = np.where(which == 12, _u(0), np.where(which > 12, _u(0xFF), picked))
        result |= picked << _u(8 * byte)
    return result


def _sad(a: Array, b: Array, c: Array) -> Array:
    return np.maximum(a, b) - np.minimum(a, b) + c


def _med(a: Array, b: Array, c: Array) -> Array:
    return np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c))


def _align(a: Array, b: Array, shift: Array, scale: int) -> Array:
    both = a.astype(np.uint64) << np.uint64(32) | b.astype(np.uint64)
    return (both >> (shift & _u(31 // scale)).astype(np.uint64) * np.uint64(scale)).astype(np.uint32)


def _i24(a: Array) -> Array:
    return (a << np.int32(8)) >> np.int32(8)


def _u24(a: Array) -> Array:
    return a & _u(0xFFFFFF)


def _bfm(a: Array, b: Array) -> Array:
    return ((_u(1) << (a & _u(31))) - _u(1)) << (b & _u(31))


valu("v_mov_b32 v_accvgpr_read_b32 v_accvgpr_write_b32 v_accvgpr_mov_b32", "b32", "b32", lambda a: a)
valu("v_mov_b64", "b64", "b64", lambda a: a)
valu("v_not_b32", "b32", "b32", np.invert)
valu("v_and_b32", "b32", "b32 b32", np.bitwise_and)
valu("v_or_b32", "b32", "b32 b32", np.bitwise_or)
valu("v_xor_b32", "b32", "b32 b32", np.bitwise_xor)
valu("v_xnor_b32", "b32", "b32 b32", lambda a, b: ~(a ^ b))
valu("v_and_or_b32", "b32", "b32 b32 b32", lambda a, b, c: a & b | c)
valu("v_or3_b32", "b32", "b32 b32 b32", lambda a, b, c: a | b | c)
valu("v_bfi_b32", "b32", "b32 b32 b32", lambda a, b, c: a & b | ~a & c)
valu("v_bfe_u32", "u32", "u32 u32 u32", _bfe_u)
valu("v_bfe_i32", "i32", "i32 i32 i32", _bfe_i)
valu("v_bfm_b32", "b32", "b32 b32", _bfm)
valu("v_bfrev_b32", "b32", "b32", reverse_bits)
valu("v_bcnt_u32_b32", "u32", "u32 u32", lambda a, b: count_ones(a) + b)
valu("v_ffbh_u32", "u32", "u32", zeros_above)
valu("v_ffbh_i32", "u32", "i32", lambda a: zeros_above(without_sign(a)))
valu("v_ffbl_b32", "u32", "u32", zeros_below)
valu("v_perm_b32", "b32", "b32 b32 b32", _perm)
valu("v_alignbit_b32", "b32", "b32 b32 b32", lambda a, b, c: _align(a, b, c, 1))
valu("v_alignbyte_b32", "b32", "b32 b32 b32", lambda a, b, c: _align(a, b, c, 8))
valu("v_add_u32", "u32", "u32 u32", np.add, wide=np.add)
valu("v_sub_u32", "u32", "u32 u32", np.subtract, wide=np.subtract)
valu("v_subrev_u32", "u32", "u32 u32", lambda a, b: b - a, wide=lambda a, b: b - a)
valu("v_add_i32", "i32", "i32 i32", np.add, wide=np.add)
valu("v_sub_i32", "i32", "i32 i32", np.subtract, wide=np.subtract)
valu("v_add3_u32", "u32", "u32 u32 u32", lambda a, b, c: a + b + c)
valu("v_lshl_add_u32", "u32", "u32 u32 u32", lambda a, b, c: (a << (b & _u(31))) + c)
valu("v_add_lshl_u32", "u32", "u32 u32 u32", lambda a, b, c: (a + b) << (c & _u(31)))
valu("v_lshl_or_b32", "u32", "u32 u32 u32", lambda a, b, c: (a << (b & _u(31))) | c)
valu("v_xad_u32", "u32", "u32 u32 u32", lambda a, b, c: (a ^ b) + c)
valu("v_lshl_add_u64", "u64", "u64 u32 u64", lambda a, b, c: (a << (b & _u(7)).astype(np.uint64)) + c)
valu("v_lshlrev_b32", "b32", "b32 b32", lambda a, b: b << (a & _u(31)))
valu("v_lshrrev_b32", "b32", "b32 b32", lambda a, b: b >> (a & _u(31)))
valu("v_ashrrev_i32", "i32", "i32 i32", lambda a, b: b >> (a & np.int32(31)))
valu("v_lshlrev_b64", "b64", "b32 b64", lambda a, b: b << (a & _u(63)).astype(np.uint64))
valu("v_lshrrev_b64", "b64", "b32 b64", lambda a, b: b >> (a & _u(63)).astype(np.uint64))
valu("v_ashrrev_i64", "i64", "b32 i64", lambda a, b: b >> (a & _u(63)).astype(np.int64))
valu("v_mul_lo_u32", "u32", "u32 u32", np.multiply)
valu("v_mul_hi_u32", "u32", "u32 u32", _high)
valu("v_mul_hi_i32", "i32", "i32 i32", _high)
valu("v_mul_u32_u24", "u32", "u32 u32", lambda a, b: _u24(a) * _u24(b))
valu("v_mul_i32_i24", "i32", "i32 i32", lambda a, b: _i24(a) * _i24(b))
valu("v_mul_hi_u32_u24", "u32", "u32 u32", lambda a, b: _high(_u24(a), _u24(b)))
valu("v_mul_hi_i32_i24", "i32", "i32 i32", lambda a, b: _high(_i24(a), _i24(b)))
valu("v_mad_u32_u24", "u32", "u32 u32 u32", lambda a, b, c: _u24(a) * _u24(b) + c)
valu("v_mad_i32_i24", "i32", "i32 i32 i32", lambda a, b, c: _i24(a) * _i24(b) + c)
valu("v_mad_u32_u16", "u32", "u16 u16 u32", lambda a, b, c: a.astype(np.uint32) * b.astype(np.uint32) + c)
valu("v_mad_i32_i16", "i32", "i16 i16 i32", lambda a, b, c: a.astype(np.int32) * b.astype(np.int32) + c)
valu("v_min_u32", "u32", "u32 u32", np.minimum)
valu("v_max_u32", "u32", "u32 u32", np.maximum)
valu("v_min_i32", "i32", "i32 i32", np.minimum)
valu("v_max_i32", "i32", "i32 i32", np.maximum)
for _name, _of_three in (
    ("min3", lambda a, b, c: np.minimum(np.minimum(a, b), c)),
    ("max3", lambda a, b, c: np.maximum(np.maximum(a, b), c)),
    ("med3", _med),
):
    for _kind in ("u32", "i32", "u16", "i16"):
        valu(f"v_{_name}_{_kind}", _kind, f"{_kind} {_kind} {_kind}", _of_three, keeps_high=True)
valu("v_sad_u32", "u32", "u32 u32 u32", _sad)
for _kind in ("u16", "i16"):
    valu(f"v_min_{_kind}", _kind, f"{_kind} {_kind}", np.minimum)
    valu(f"v_max_{_kind}", _kind, f"{_kind} {_kind}", np.maximum)
    valu(f"v_add_{_kind}", _kind, f"{_kind} {_kind}", np.add, keeps_high=_kind == "i16", wide=np.add)
    valu(f"v_sub_{_kind}", _kind, f"{_kind} {_kind}", np.subtract, keeps_high=_kind == "i16", wide=np.subtract)
    valu(f"v_mad_{_kind}", _kind, f"{_kind} {_kind} {_kind}", lambda a, b, c: a * b + c, keeps_high=True)
valu("v_subrev_u16", "u16", "u16 u16", lambda a, b: b - a, wide=lambda a, b: b - a)
valu("v_mad_legacy_u16 v_mad_legacy_i16", "u16", "u16 u16 u16", lambda a, b, c: a * b + c)
valu("v_mul_lo_u16", "u16", "u16 u16", np.multiply)
valu("v_lshlrev_b16", "u16", "u16 u16", lambda a, b: b << (a & np.uint16(15)))
valu("v_lshrrev_b16", "u16", "u16 u16", lambda a, b: b >> (a & np.uint16(15)))
valu("v_ashrrev_i16", "i16", "i16 i16", lambda a, b: b >> (a & np.int16(15)))
valu("v_sat_pk_u8_i16", "u16", "i32", lambda a: _sat_pk(a))


def _sat_pk(a: Array) -> Array:
    low = np.clip((a << np.int32(16)) >> np.int32(16), 0, 255)
    high = np.clip(a >> np.int32(16), 0, 255)
    result: Array = (low | high << np.int32(8)).astype(np.uint16)
    return result


@instruction("v_bitop3_b32", "v_bitop3_b16", takes="v V V V", mods="bitop3")
def _bitop3(ins: Instruction, d: Decoder) -> Handler:
    """Any function of three bits: bit 4a + 2b + c of the table (CDNA4 ISA, V_BITOP3_B32, V_BITOP3_B16)."""
    table, kind = d.number("bitop3"), ins.name[-3:]
    reads = [source(d, ins.operands[index + 1], kind, index) for index in range(3)]
    write = destination(d, kind)

    def run(m: Machine, sel: Sel) -> None:
        a, b, c = (read(m, sel) for read in reads)
        result = np.zeros(np.broadcast_shapes(a.shape, b.shape, c.shape), a.dtype)
        for row in range(8):
            if table >> row & 1:
                result |= (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
        write(m, sel, result, None)

    return run


_CARRY = ("v_add_co_u32", "v_sub_co_u32", "v_subrev_co_u32", "v_addc_co_u32", "v_subb_co_u32", "v_subbrev_co_u32")


def _takes_carry(name: str) -> str:
    return "v s2 V V s2" if "addc" in name or "subb" in name else "v s2 V V"


@instruction(*_CARRY, takes=_takes_carry, mods="vop")
def _carry(ins: Instruction, d: Decoder) -> Handler:
    """Addition and subtraction with carry out in a lane mask, and in, for the addc and subb forms."""
    first, second = (source(d, ins.operands[index], "u32", index - 2) for index in (2, 3))
    carry_in = d.mask(ins.operands[4]) if "addc" in ins.name or "subb" in ins.name else None
    carry_out = d.mask_result(ins.operands[1])
    write = destination(d, "u32")
    valid = dpp_valid(d)
    reverse, subtract = "rev" in ins.name, "sub" in ins.name

    def run(m: Machine, sel: Sel) -> None:
        a, b = first(m, sel).astype(np.int64), second(m, sel).astype(np.int64)
        if reverse:
            a, b = b, a
        carry: Array | int = 0 if carry_in is None else carry_in(m, sel).astype(np.int64)
        total = a - b - carry if subtract else a + b + carry
        out = np.broadcast_to((total < 0) | (total > 0xFFFFFFFF), m.lanes(sel).shape)
        active = m.lanes(sel)
        enabled = None if valid is None else valid(m, sel)
        write(m, sel, (total & 0xFFFFFFFF).astype(np.uint32), enabled)
        carry_out(m, sel, out & active)

    return run


@instruction("v_mad_u64_u32", "v_mad_i64_i32", takes="v2 s2 V V V2", mods="vop")
def _mad64(ins: Instruction, d: Decoder) -> Handler:
    """A 64-bit sum of a 32-bit product, with carry out."""
    signed = "i64" in ins.name
    first, second = (source(d, ins.operands[index], "i32" if signed else "u32", index - 2) for index in (2, 3))
    third = source(d, ins.operands[4], "u64", 2)
    carry_out = d.mask_result(ins.operands[1])
    write = destination(d, "u64")

    def run(m: Machine, sel: Sel) -> None:
        wide = np.int64 if signed else np.uint64
        product = (first(m, sel).astype(wide) * second(m, sel).astype(wide)).view(np.uint64)
        addend = third(m, sel)
        total = product + addend
        active = m.lanes(sel)
        over = np.broadcast_to(total < addend, active.shape)
        write(m, sel, total, None)
        carry_out(m, sel, over & active)

    return run


@instruction("v_cndmask_b32", takes="v V V S2?", mods="vop")
def _cndmask(ins: Instruction, d: Decoder) -> Handler:
    """The second source where the lane's bit is set, else the first."""
    first, second = (source(d, ins.operands[index], "b32", index - 1) for index in (1, 2))
    choose = d.mask(ins.operands[3] if len(ins.operands) > 3 else Reg("s", 106, 2))
    write = destination(d, "b32")
    valid = dpp_valid(d)

    def run(m: Machine, sel: Sel) -> None:
        value = np.where(choose(m, sel), second(m, sel), first(m, sel))
        write(m, sel, value, None if valid is None else valid(m, sel))

    return run
