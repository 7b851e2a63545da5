"""Instructions that move data between lanes and between the scalar and the vector unit (CDNA3 ISA, 12.8, 12.11).

v_permlane16_swap and v_permlane32_swap are CDNA4's. They exchange the odd rows of the first register with the even
rows of the second (rows of 16 lanes), or its upper half with the second's lower half.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...core.bits import count_ones
from ...core.scalars import Sel
from ..decode import VECTOR, Decoder
from ..syntax import Instruction, Reg
from ..table import Handler, instruction

if TYPE_CHECKING:
    from ..machine import Machine


@instruction("v_readfirstlane_b32", takes="s v | s s")
def _readfirstlane(ins: Instruction, d: Decoder) -> Handler:
    """The value of the first active lane, of lane 0 if none is active."""
    operand = ins.operands[1]
    write = d.scalar_result(ins.operands[0])
    if isinstance(operand, Reg) and operand.file == "s":
        read = d.scalar(operand)
        return lambda m, sel: write(m, sel, read(m, sel))
    (row,) = d.words(operand, 1)

    def run(m: Machine, sel: Sel) -> None:
        value = m.v[row, sel]
        first = 0 if m.mask is None else np.argmax(m.mask, axis=1)
        write(m, sel, value[np.arange(len(value)), first])

    return run


@instruction("v_readlane_b32", takes="s v S")
def _readlane(ins: Instruction, d: Decoder) -> Handler:
    (row,) = d.words(ins.operands[1], 1, whole=True)
    lane = d.scalar(ins.operands[2])
    write = d.scalar_result(ins.operands[0])

    def run(m: Machine, sel: Sel) -> None:
        value = m.v[row, sel]
        write(m, sel, value[np.arange(len(value)), lane(m, sel) & np.uint32(63)])

    return run


@instruction("v_writelane_b32", takes="v S S")
def _writelane(ins: Instruction, d: Decoder) -> Handler:
    (row,) = d.result_words(ins.operands[0], 1)
    value, lane = d.scalar(ins.operands[1]), d.scalar(ins.operands[2])

    def run(m: Machine, sel: Sel) -> None:
        waves = m.wave[sel]
        m.v[row, waves, np.broadcast_to(lane(m, sel) & np.uint32(63), waves.shape)] = value(m, sel)
        m.written[row, sel] = True

    return run


@instruction("v_mbcnt_lo_u32_b32", "v_mbcnt_hi_u32_b32", takes="v V V")
def _mbcnt(ins: Instruction, d: Decoder) -> Handler:
    """The number of mask bits of lanes below this one, in one half of the wave, plus a number."""
    mask, addend = d.vector(ins.operands[1]), d.vector(ins.operands[2])
    write = d.vector_result(ins.operands[0])
    lanes = np.clip(np.arange(64) - (32 if "hi" in ins.name else 0), 0, 32).tolist()
    below = np.array([[(1 << lane) - 1 for lane in lanes]], np.uint32)
    return lambda m, sel: write(m, sel, count_ones(mask(m, sel) & below) + addend(m, sel), None)


@instruction("v_permlane16_swap_b32", "v_permlane32_swap_b32", takes="v v")
def _permlane_swap(ins: Instruction, d: Decoder) -> Handler:
    first, second = (d.words(ins.operands[index], 1, whole=True)[0] for index in (0, 1))
    d.writes.update((VECTOR + first, VECTOR + second))
    step = 16 if "16" in ins.name else 32
    lane = np.arange(64)
    odd = lane // step % 2 == 1

    def run(m: Machine, sel: Sel) -> None:
        a, b = m.v[first, sel].copy(), m.v[second, sel].copy()
        # In both registers a lane's partner is `step` lanes away: first's odd rows against second's even rows.
        m.put(first, sel, np.where(odd, b[:, (lane - step) % 64], a))
        m.put(second, sel, np.where(odd, b, a[:, (lane + step) % 64]))

    return run


@instruction("v_swap_b32", takes="v v")
def _swap(ins: Instruction, d: Decoder) -> Handler:
    first, second = (d.words(ins.operands[index], 1)[0] for index in (0, 1))
    d.writes.update((VECTOR + first, VECTOR + second))

    def run(m: Machine, sel: Sel) -> None:
        a, b = m.v[first, sel].copy(), m.v[second, sel].copy()
        m.put(first, sel, b)
        m.put(second, sel, a)

    return run


@instruction("v_nop", takes="")
def _nop(ins: Instruction, d: Decoder) -> Handler:
    return lambda m, sel: None
