"""Packed arithmetic (VOP3P): two 16-bit or two f32 results per lane (CDNA3 ISA, 6.7, 12.12).

op_sel says which half each source gives to the low result, op_sel_hi which to the high one (the high half unless
said otherwise); neg_lo and neg_hi negate. In v_fma_mix, op_sel_hi marks f16 sources and op_sel their half.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...core.scalars import Array, Sel
from ...core.updates import greatest, least, maximum, minimum
from ..decode import Decoder, Read
from ..syntax import Instruction, Literal, Operand, Reg
from ..table import Handler, instruction
from .vector_alu import VIEWS, Function, source
from .vector_float import fma

if TYPE_CHECKING:
    from ..machine import Machine


def _half(d: Decoder, operand: Operand, kind: str, high: int, negative: int) -> Read:
    """One half of a source of two 16-bit numbers."""
    view = VIEWS[kind]
    if isinstance(operand, Literal):
        inline = isinstance(operand.value, float) or -16 <= operand.value <= 64
        size = 2 if isinstance(operand.value, float) else 4
        value = d.constant(operand, size) or 0
        # An inline constant fills the low half only; a literal has both (LLVM, AMDGPUOperandSyntax).
        bits = (0 if inline and isinstance(operand.value, float) else value >> 16) if high else value
        fixed = np.array([[bits & 0xFFFF ^ (0x8000 if negative else 0)]], np.uint16).view(view)
        return lambda m, sel: fixed
    read = d.vector(operand)
    shift, flip = np.uint32(16 if high else 0), np.uint16(0x8000 if negative else 0)
    return lambda m, sel: ((read(m, sel) >> shift).astype(np.uint16) ^ flip).view(view)


def _packed(names: str, kind: str, count: int, function: Function) -> None:
    def factory(ins: Instruction, d: Decoder) -> Handler:
        low, high = (d.bits("op_sel", count, 0), d.bits("op_sel_hi", count, 1))
        flips = (d.bits("neg_lo", count), d.bits("neg_hi", count))
        halves = [
            [_half(d, ins.operands[index + 1], kind, chosen[index], flip[index]) for index in range(count)]
            for chosen, flip in ((low, flips[0]), (high, flips[1]))
        ]
        write = d.vector_result(ins.operands[0])
        clamp = d.flag("clamp")

        def run(m: Machine, sel: Sel) -> None:
            results = []
            for reads in halves:
                value = function(*(read(m, sel) for read in reads))
                if clamp:
                    if kind != "f16":
                        raise d.error(f"clamp is not known for {ins.name}")
                    value = np.where(np.isnan(value), np.float16(0), np.clip(value, 0, 1)).astype(np.float16)
                results.append(value.view(np.uint16).astype(np.uint32))
            write(m, sel, results[0] | results[1] << np.uint32(16), None)

        return run

    instruction(*names.split(), takes="v" + " V" * count, mods="vop3p")(factory)


_packed("v_pk_add_f16", "f16", 2, np.add)
_packed("v_pk_mul_f16", "f16", 2, np.multiply)
_packed("v_pk_min_f16", "f16", 2, minimum)
_packed("v_pk_max_f16", "f16", 2, maximum)
_packed("v_pk_fma_f16", "f16", 3, fma)
_packed("v_pk_minimum3_f16", "f16", 3, lambda a, b, c: least(least(a, b), c))
_packed("v_pk_maximum3_f16", "f16", 3, lambda a, b, c: greatest(greatest(a, b), c))
for _kind in ("u16", "i16"):
    _packed(f"v_pk_add_{_kind}", _kind, 2, np.add)
    _packed(f"v_pk_sub_{_kind}", _kind, 2, np.subtract)
    _packed(f"v_pk_min_{_kind}", _kind, 2, np.minimum)
    _packed(f"v_pk_max_{_kind}", _kind, 2, np.maximum)
    _packed(f"v_pk_mad_{_kind}", _kind, 3, lambda a, b, c: a * b + c)
_packed("v_pk_mul_lo_u16", "u16", 2, np.multiply)
_packed("v_pk_lshlrev_b16", "u16", 2, lambda a, b: b << (a & np.uint16(15)))
_packed("v_pk_lshrrev_b16", "u16", 2, lambda a, b: b >> (a & np.uint16(15)))
_packed("v_pk_ashrrev_i16", "i16", 2, lambda a, b: b >> (a & np.int16(15)))


def _single(d: Decoder, operand: Operand, high: int, negative: int, dtype: str) -> Read:
    """One of the two f32 of a source."""
    view = VIEWS[dtype]
    if isinstance(operand, Reg):
        one = Reg(operand.file, operand.first + (high if operand.count > 1 else 0), 1)
        read = d.vector(one)
    else:
        read = d.vector(operand)
    flip = np.uint32(0x80000000 if negative else 0)
    return lambda m, sel: (read(m, sel) ^ flip).view(view)


def _packed_single(name: str, count: int, function: Function, dtype: str = "f32") -> None:
    @instruction(name, takes="v2" + " V2" * count, mods="vop3p")
    def factory(ins: Instruction, d: Decoder) -> Handler:
        low, high = (d.bits("op_sel", count, 0), d.bits("op_sel_hi", count, 1))
        flips = (d.bits("neg_lo", count), d.bits("neg_hi", count))
        halves = [
            [_single(d, ins.operands[index + 1], chosen[index], flip[index], dtype) for index in range(count)]
            for chosen, flip in ((low, flips[0]), (high, flips[1]))
        ]
        rows = d.result_words(ins.operands[0], 2)

        def run(m: Machine, sel: Sel) -> None:
            results = [function(*(read(m, sel) for read in reads)).view(np.uint32) for reads in halves]
            for row, result in zip(rows, results, strict=True):
                m.put(row, sel, result)

        return run


_packed_single("v_pk_add_f32", 2, np.add)
_packed_single("v_pk_mul_f32", 2, np.multiply)
_packed_single("v_pk_fma_f32", 3, fma)


@instruction("v_pk_mov_b32", takes="v2 V2 V2", mods="vop3p")
def _pk_mov(ins: Instruction, d: Decoder) -> Handler:
    """Low result: a half of the first source; high result: a half of the second."""
    chosen = d.bits("op_sel", 2, 0)
    reads = [_single(d, ins.operands[index + 1], chosen[index], 0, "b32") for index in range(2)]
    rows = d.result_words(ins.operands[0], 2)

    def run(m: Machine, sel: Sel) -> None:
        values = [read(m, sel) for read in reads]
        for row, value in zip(rows, values, strict=True):
            m.put(row, sel, value)

    return run


@instruction("v_fma_mix_f32", "v_fma_mixlo_f16", "v_fma_mixhi_f16", "v_mad_mix_f32", takes="v V V V", mods="vop3p")
def _mix(ins: Instruction, d: Decoder) -> Handler:
    """fma in f32 of sources that are f32 or f16; the 16-bit forms write one half and keep the other."""
    chosen, halves = d.bits("op_sel", 3, 0), d.bits("op_sel_hi", 3, 0)
    reads = [_mixed(d, ins.operands[index + 1], halves[index], chosen[index], index) for index in range(3)]
    write = d.vector_result(ins.operands[0])
    clamp = d.flag("clamp")
    shift = {"o": np.uint32(0), "i": np.uint32(16)}.get(ins.name[-5] if ins.name.endswith("_f16") else "")
    (row,) = d.rows(ins.operands[0], 1)

    def run(m: Machine, sel: Sel) -> None:
        value: Array = fma(*(read(m, sel) for read in reads))
        if clamp:
            value = np.where(np.isnan(value), np.float32(0), np.clip(value, 0, 1)).astype(np.float32)
        if shift is None:
            write(m, sel, value.view(np.uint32), None)
            return
        bits = value.astype(np.float16).view(np.uint16).astype(np.uint32)
        write(m, sel, m.v[row, sel] & ~(np.uint32(0xFFFF) << shift) | bits << shift, None)

    return run


def _mixed(d: Decoder, operand: Operand, is_half: int, high: int, index: int) -> Read:
    if not is_half:
        return source(d, operand, "f32", index + 9)
    if isinstance(operand, Literal):
        return source(d, operand, "f16", index)
    negative = isinstance(operand, Reg) and operand.neg
    absolute = isinstance(operand, Reg) and operand.abs
    read = _half(d, operand, "f16", high, 0)

    def widen(m: Machine, sel: Sel) -> Array:
        value = read(m, sel).astype(np.float32)
        value = np.abs(value) if absolute else value
        return -value if negative else value

    return widen


def _dot(names: str, kinds: tuple[str, int, str], integer: bool) -> None:
    """Sums of products of the parts of two words, plus an addend."""

    @instruction(*names.split(), takes=lambda name: "v V V" if "c_" in name else "v V V V", mods="vop3p")
    def factory(ins: Instruction, d: Decoder) -> Handler:
        part, count, wide = kinds
        accumulate = ins.name.startswith("v_dot2c") or ins.name.startswith("v_dot4c")
        words = [d.vector(ins.operands[index + 1]) for index in range(2)]
        addend = source(d, ins.operands[0 if accumulate else 3], wide, 2)
        write = d.vector_result(ins.operands[0])
        bits = 32 // count

        def run(m: Machine, sel: Sel) -> None:
            a, b = (read(m, sel) for read in words)
            total = addend(m, sel).astype(np.int64 if integer else np.float64)
            for index in range(count):
                x, y = (_part(word >> np.uint32(index * bits), part) for word in (a, b))
                total = total + x * y
            if integer:
                write(m, sel, total.astype(np.uint32), None)
            else:
                write(m, sel, total.astype(np.float32).view(np.uint32), None)

        return run


def _part(word: Array, kind: str) -> Array:
    if kind == "bf16":
        return (word << np.uint32(16)).view(np.float32).astype(np.float64)
    if kind == "f16":
        return word.astype(np.uint16).view(np.float16).astype(np.float64)
    unsigned = word.astype(np.dtype(f"u{2 if kind.endswith('16') else 1}"))
    return (unsigned.view(np.dtype(f"i{unsigned.dtype.itemsize}")) if kind[0] == "i" else unsigned).astype(np.int64)


_dot("v_dot2_f32_f16 v_dot2c_f32_f16", ("f16", 2, "f32"), integer=False)
_dot("v_dot2_f32_bf16 v_dot2c_f32_bf16", ("bf16", 2, "f32"), integer=False)
_dot("v_dot2_i32_i16 v_dot2c_i32_i16", ("i16", 2, "i32"), integer=True)
_dot("v_dot2_u32_u16", ("u16", 2, "u32"), integer=True)
_dot("v_dot4_i32_i8 v_dot4c_i32_i8", ("i8", 4, "i32"), integer=True)
_dot("v_dot4_u32_u8", ("u8", 4, "u32"), integer=True)
