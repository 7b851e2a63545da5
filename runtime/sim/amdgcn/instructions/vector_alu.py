"""What vector instructions have in common: operand types, modifiers, and how they are written as one line each.

`valu("v_add_f32", "f32", "f32 f32", np.add)` says: result type, source types, function of typed arrays. All encodings
of an instruction come from that line: VOP1/2/3 with `-`, `| |`, clamp, omod and op_sel; DPP, which moves source 0
between lanes; SDWA, which selects bytes and words (CDNA3 ISA, chapters 6 and 12).

A 16-bit result clears the upper half of its register, except where the instruction keeps it (`keeps_high`): GFX9 made
that change for the three-operand instructions only (LLVM, GCNSubtarget::zeroesHigh16BitsOfDest).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.scalars import Array, Sel, every
from ..decode import Decoder, Read
from ..syntax import Instruction, Literal, Operand, Reg
from ..table import Handler, instruction

if TYPE_CHECKING:
    from ..machine import Machine

Function = Callable[..., Array]
SIZES = {"f16": 2, "u16": 2, "i16": 2, "b16": 2, "f64": 8, "u64": 8, "i64": 8, "b64": 8}
VIEWS: dict[str, np.dtype[Any]] = {
    "f16": np.dtype(np.float16),
    "i16": np.dtype(np.int16),
    "f32": np.dtype(np.float32),
    "i32": np.dtype(np.int32),
    "f64": np.dtype(np.float64),
    "i64": np.dtype(np.int64),
    "u16": np.dtype(np.uint16),
    "b16": np.dtype(np.uint16),
    "u32": np.dtype(np.uint32),
    "b32": np.dtype(np.uint32),
    "u64": np.dtype(np.uint64),
    "b64": np.dtype(np.uint64),
}
_SELECT = {  # SDWA selections: (shift, bits)
    "DWORD": (0, 32),
    "WORD_0": (0, 16),
    "WORD_1": (16, 16),
    "BYTE_0": (0, 8),
    "BYTE_1": (8, 8),
    "BYTE_2": (16, 8),
    "BYTE_3": (24, 8),
}
_OMOD = {("mul", 2): 2.0, ("mul", 4): 4.0, ("div", 2): 0.5}
_LANE = np.arange(64)


def valu(
    names: str, result: str, sources: str, function: Function, keeps_high: bool = False, wide: Function | None = None
) -> None:
    """Register vector instructions. `wide` computes an integer result without overflow, for clamp."""
    kinds = sources.split()

    def factory(ins: Instruction, d: Decoder) -> Handler:
        reads = [source(d, ins.operands[index + 1], kind, index) for index, kind in enumerate(kinds)]
        return compute(d, result, reads, function, keeps_high, wide)

    instruction(*names.split(), takes=takes(result, *kinds), mods="vop")(factory)


def takes(result: str, *kinds: str) -> str:
    """The form (forms.py) of an instruction with a result and sources of these types."""
    words = {kind: "2" if SIZES.get(kind) == 8 else "" for kind in (result, *kinds)}
    return " ".join([f"v{words[result]}", *(f"V{words[kind]}" for kind in kinds)])


def compute(
    d: Decoder,
    result: str,
    reads: list[Read],
    function: Function,
    keeps_high: bool = False,
    wide: Function | None = None,
) -> Handler:
    """The handler that applies a function to read sources and writes operand 0."""
    write = destination(d, result, keeps_high)
    finish = _output_modifiers(d, result)
    valid = dpp_valid(d)
    if d.flag("clamp") and result[0] in "iu":
        if wide is None:
            raise d.error(f"clamp is not known for {d.ins.name}")
        limits = np.iinfo(VIEWS[result])
        exact = wide

        def function(*values: Array) -> Array:
            clipped = np.clip(exact(*(value.astype(np.int64) for value in values)), limits.min, limits.max)
            return clipped.astype(VIEWS[result])

    if len(reads) == 2 and finish is None and valid is None:
        first, second = reads
        return lambda m, sel: write(m, sel, function(first(m, sel), second(m, sel)), None)

    def run(m: Machine, sel: Sel) -> None:
        value = function(*(read(m, sel) for read in reads))
        write(m, sel, value if finish is None else finish(value), None if valid is None else valid(m, sel))

    return run


def source(d: Decoder, operand: Operand, kind: str, index: int) -> Read:
    """A source of the given type with its modifiers applied: a typed array."""
    size = SIZES.get(kind, 4)
    view = VIEWS[kind]
    if isinstance(operand, Literal):
        plain = d.vector(operand, size, kind[0] == "f")
        return lambda m, sel: plain(m, sel).view(view)
    read = raw_source(d, operand, size, index)
    word = np.dtype(f"u{size}")
    sign = 1 << (8 * size - 1)
    if isinstance(operand, Reg) and (operand.abs or operand.neg):
        keep = word.type(sign - 1 if operand.abs else 2 * sign - 1)
        flip = word.type(sign if operand.neg else 0)
        return lambda m, sel: (read(m, sel) & keep ^ flip).view(view)
    if view == word:
        return read
    return lambda m, sel: read(m, sel).view(view)


def raw_source(d: Decoder, operand: Operand, size: int, index: int) -> Read:
    """A source as unsigned words, with DPP, SDWA or op_sel applied."""
    ins = d.ins
    if ins.encoding == "sdwa" and index < 2:
        return _sdwa_source(d, operand, size, index)
    dpp = ins.encoding == "dpp" and index == 0
    if size == 2 and "op_sel" in ins.mods and d.bits("op_sel", 4)[index]:
        whole = d.vector(operand, 4)
        return lambda m, sel: (whole(m, sel) >> np.uint32(16)).astype(np.uint16)
    read = d.vector(operand, size, whole=dpp)
    return dpp_move(d, read) if dpp else read


def _sdwa_source(d: Decoder, operand: Operand, size: int, index: int) -> Read:
    shift, bits = _SELECT[str(d.ins.mods.get(f"src{index}_sel", "DWORD"))]
    read = d.vector(operand, 4)
    word = np.dtype(f"u{size}")
    if isinstance(operand, Reg) and operand.sext:
        signed = np.dtype(f"i{size}")
        left = np.uint32(32 - shift - bits)
        right = np.int32(32 - bits)
        return lambda m, sel: ((read(m, sel) << left).view(np.int32) >> right).astype(signed).view(word)
    keep = np.uint32((1 << bits) - 1)
    return lambda m, sel: (read(m, sel) >> np.uint32(shift) & keep).astype(word)


# -- DPP ---------------------------------------------------------------------------------------------------------------


def dpp_source(mods: dict[str, Any]) -> Array:
    """For each lane the lane that it reads, -1 where there is none (CDNA3 ISA, 6.6.1)."""
    lane, row, at = _LANE, _LANE // 16 * 16, _LANE % 16
    result: Array = lane
    for name, value in mods.items():
        if name == "quad_perm":
            result = lane // 4 * 4 + np.asarray(value)[lane % 4]
        elif name in ("row_shl", "row_shr"):
            moved = at + value if name == "row_shl" else at - value
            result = np.where((moved >= 0) & (moved < 16), row + moved, -1)
        elif name == "row_ror":
            result = row + (at - value) % 16
        elif name == "row_mirror":
            result = row + 15 - at
        elif name == "row_half_mirror":
            result = lane // 8 * 8 + 7 - lane % 8
        elif name in ("row_newbcast", "row_share"):
            result = row + value
        elif name == "row_bcast":
            result = np.where(row >= 16, row - 1, -1) if value == 15 else np.where(lane >= 32, 31, -1)
        elif name in ("wave_shl", "wave_shr"):
            moved = lane + 1 if name == "wave_shl" else lane - 1
            result = np.where((moved >= 0) & (moved < 64), moved, -1)
        elif name in ("wave_rol", "wave_ror"):
            result = (lane + (1 if name == "wave_rol" else -1)) % 64
    return result


def dpp_move(d: Decoder, read: Read) -> Read:
    """The source as DPP moves it; 0 from lanes that do not exist or are inactive."""
    lanes = dpp_source(d.ins.mods)
    clipped, there = np.maximum(lanes, 0), lanes >= 0

    def moved(m: Machine, sel: Sel) -> Array:
        value = read(m, sel)
        if value.shape[1] == 1:
            return value
        result = value[:, clipped]
        valid = there if m.mask is None else there & m.mask[:, clipped]
        return result if every(valid) else np.where(valid, result, result.dtype.type(0))

    return moved


def dpp_valid(d: Decoder) -> Callable[[Machine, Sel], Array | None] | None:
    """The lanes that a DPP instruction writes: row and bank masks; without bound_ctrl only lanes with a source."""
    if d.ins.encoding != "dpp":
        return None
    lanes = dpp_source(d.ins.mods)
    rows, banks = d.number("row_mask", 15), d.number("bank_mask", 15)
    fixed = ((rows >> _LANE // 16 & 1) & (banks >> _LANE // 4 % 4 & 1)).astype(bool)
    bound = d.flag("bound_ctrl")
    if not bound:
        fixed &= lanes >= 0
    clipped = np.maximum(lanes, 0)

    def valid(m: Machine, sel: Sel) -> Array | None:
        if bound or m.mask is None:
            return None if every(fixed) else fixed[None, :]
        return fixed & m.mask[:, clipped]

    return valid


# -- results -----------------------------------------------------------------------------------------------------------


def destination(d: Decoder, kind: str, keeps_high: bool = False) -> Callable[[Machine, Sel, Array, Array | None], None]:
    """Writes operand 0 with a typed array."""
    size = SIZES.get(kind, 4)
    operand = d.operand(0)
    if d.ins.encoding == "sdwa" and size < 8:
        return _sdwa_destination(d, operand)
    write = d.vector_result(operand, max(size, 4))
    if size != 2:
        word = np.dtype(f"u{size}")
        return lambda m, sel, value, enabled: write(m, sel, value.view(word), enabled)
    (row,) = d.rows(operand, 1)
    high = "op_sel" in d.ins.mods and bool(d.bits("op_sel", 4)[3])
    if not high and not keeps_high:
        return lambda m, sel, value, enabled: write(m, sel, value.view(np.uint16).astype(np.uint32), enabled)

    def half(m: Machine, sel: Sel, value: Array, enabled: Array | None) -> None:
        bits, held = value.view(np.uint16).astype(np.uint32), m.v[row, sel]
        new = held & 0xFFFF | bits << np.uint32(16) if high else held & 0xFFFF0000 | bits
        write(m, sel, new, enabled)

    return half


def _sdwa_destination(d: Decoder, operand: Operand) -> Callable[[Machine, Sel, Array, Array | None], None]:
    write = d.vector_result(operand)
    (row,) = d.rows(operand, 1)
    shift, bits = _SELECT[str(d.ins.mods.get("dst_sel", "DWORD"))]
    unused = d.ins.mods.get("dst_unused", "UNUSED_PAD")
    keep = np.uint32(((1 << bits) - 1) << shift)

    def narrow(m: Machine, sel: Sel, value: Array, enabled: Array | None) -> None:
        wide = value.view(np.dtype(f"u{value.dtype.itemsize}")).astype(np.uint32)
        placed = wide << np.uint32(shift) & keep
        if unused == "UNUSED_PRESERVE":
            placed = placed | m.v[row, sel] & ~keep
        elif unused == "UNUSED_SEXT":
            left = np.uint32(32 - shift - bits)
            placed = ((placed << left).view(np.int32) >> left.view(np.int32)).view(np.uint32)
        write(m, sel, placed, enabled)

    return narrow


def _output_modifiers(d: Decoder, kind: str) -> Callable[[Array], Array] | None:
    """omod and clamp of a floating-point result."""
    if kind[0] != "f":
        return None
    factor = next((f for (name, value), f in _OMOD.items() if d.ins.mods.get(name) == value), None)
    clamp = d.flag("clamp")
    if factor is None and not clamp:
        return None

    def finish(value: Array) -> Array:
        if factor is not None:
            value = value * value.dtype.type(factor)
        if clamp:  # NaN becomes 0 (DX10_CLAMP)
            value = np.where(np.isnan(value), value.dtype.type(0), np.clip(value, 0, 1)).astype(value.dtype)
        return value

    return finish
