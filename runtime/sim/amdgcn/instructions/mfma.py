"""Matrix instructions (CDNA3 ISA, chapter 7 and AMD's matrix instruction calculator; CDNA4 ISA for the wider ones).

v_mfma_f32_MxNxK[_Bb]_type computes D = A x B + C for B blocks, EXEC ignored. How lanes hold the matrices:

    A    row = lane % M; a lane holds K / groups elements of consecutive k, groups of M lanes follow each other in
         blocks first, then in k. B the same with its columns.
    C, D column = lane % N; registers come in fours of consecutive rows: row = 4 (lane / N) + r % 4 for N = 16,
         8 (r / 4) + 4 (lane / 32) + r % 4 for N = 32; a register group for each block

f64 has single rows instead of fours. The f8f6f4 forms take a format for A (cbsz) and B (blgp); their 8-bit elements lie
in two runs of 16 k, half the matrix apart; those of 4 bits (and, it is believed, of 6) in one of 32. Their scales are
e8m0 bytes, chosen by op_sel, one for 32 consecutive k: the scale of lane group g is that of block g
(composable_kernel, test/mx_mfma_op, has both as tables that AMD checks on the device). Of an SGPR or a constant the
hardware takes bits 30 to 23, whatever op_sel says ("hardware design defect": LLVM, VOP3PInstructions.td).

Sums are computed in doubles and rounded once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from ...core.scalars import Array, Sel
from ..decode import VECTOR, Decoder, Matrix
from ..syntax import Instruction, Literal, Operand, Reg
from ..table import Handler, instruction
from .convert import FP8
from .lds import consume

if TYPE_CHECKING:
    from ..machine import Machine

_NAME = re.compile(r"v_mfma_(scale_)?([fi]\d+)_(\d+)x(\d+)x(\d+)(?:_(\d+)b)?_(.+)")
_COMMON = """
    f32_32x32x1_2b_f32 f32_16x16x1_4b_f32 f32_4x4x1_16b_f32 f32_32x32x2_f32 f32_16x16x4_f32
    f32_32x32x4_2b_f16 f32_16x16x4_4b_f16 f32_4x4x4_16b_f16 f32_32x32x8_f16 f32_16x16x16_f16
    f32_32x32x4_2b_bf16 f32_16x16x4_4b_bf16 f32_4x4x4_16b_bf16 f32_32x32x8_bf16 f32_16x16x16_bf16
    i32_32x32x4_2b_i8 i32_16x16x4_4b_i8 i32_4x4x4_16b_i8 i32_32x32x16_i8 i32_16x16x32_i8
    f64_16x16x4_f64 f64_4x4x4_4b_f64
    f32_16x16x32_fp8_fp8 f32_16x16x32_fp8_bf8 f32_16x16x32_bf8_fp8 f32_16x16x32_bf8_bf8
    f32_32x32x16_fp8_fp8 f32_32x32x16_fp8_bf8 f32_32x32x16_bf8_fp8 f32_32x32x16_bf8_bf8
"""
_ONLY = {
    "gfx942": "f32_16x16x8_xf32 f32_32x32x4_xf32",
    "gfx950": """
        f32_16x16x32_f16 f32_32x32x16_f16 f32_16x16x32_bf16 f32_32x32x16_bf16 i32_16x16x64_i8 i32_32x32x32_i8
        f32_16x16x128_f8f6f4 f32_32x32x64_f8f6f4 scale_f32_16x16x128_f8f6f4 scale_f32_32x32x64_f8f6f4
    """,
}
_FORMATS = ("fp8", "bf8", "fp6", "bf6", "fp4")
_TYPES: dict[str, tuple[int, Any]] = {  # bits, NumPy type
    "f16": (16, np.float16),
    "bf16": (16, ml_dtypes.bfloat16),
    "f32": (32, np.float32),
    "xf32": (32, np.float32),
    "f64": (64, np.float64),
    "i8": (8, np.int8),
    "fp6": (6, ml_dtypes.float6_e2m3fn),
    "bf6": (6, ml_dtypes.float6_e3m2fn),
    "fp4": (4, ml_dtypes.float4_e2m1fn),
}


@dataclass(frozen=True, slots=True)
class Tile:
    """The shape of one matrix instruction."""

    m: int
    n: int
    k: int
    blocks: int
    result: str

    @property
    def groups(self) -> int:
        """Groups of lanes along k."""
        return 64 // (self.m * self.blocks)

    @property
    def each(self) -> int:
        """Elements of A that a lane holds."""
        return self.k // self.groups


def tile_of(name: str) -> tuple[Tile, str, bool]:
    """(shape, types, whether it has scales) from an instruction's name."""
    match = _NAME.fullmatch(name)
    assert match
    scaled, result, m, n, k, blocks, types = match.groups()
    return Tile(int(m), int(n), int(k), int(blocks or 1), result), types, bool(scaled)


def rows_of(tile: Tile) -> Array:
    """For each (register, lane) of the result: the position in a flat [block, row, column] array."""
    lane = np.arange(64)
    count = tile.m * tile.n * tile.blocks // 64
    register = np.arange(count)[:, None]
    column = lane % tile.n
    group = lane // tile.n
    if tile.result == "f64":
        if tile.m == 16:
            block, row = 0 * group, 4 * register + group
        else:
            block, row = group % 4, group // 4 + 0 * register
    elif tile.m == 4:
        block, row = group, register
    else:
        per_block = tile.m * tile.n // 64
        inside = register % per_block
        block = register // per_block
        row = 8 * (inside // 4) + 4 * group + inside % 4 if tile.m == 32 else 4 * group + inside
    flat: Array = (block * tile.m + row) * tile.n + column
    return np.broadcast_to(flat, (count, 64))


def unpack_elements(words: Array, bits: int, dtype: Any, count: int) -> Array:
    """Elements [waves, 64, count] from register words [waves, 64, words], as doubles (or int64)."""
    values: Array
    if bits == 4:
        raw = words.view(np.uint8)
        codes = np.stack([raw & 15, raw >> 4], axis=3).reshape(*raw.shape[:2], -1)[:, :, :count]
        values = codes.astype(np.uint8).view(dtype)
        return values.astype(np.float64)
    if bits == 6:
        stream = np.unpackbits(words.view(np.uint8), axis=2, bitorder="little")[:, :, : 6 * count]
        codes = np.packbits(stream.reshape(*stream.shape[:2], count, 6), axis=3, bitorder="little")[..., 0]
        values = codes.view(dtype)
        return values.astype(np.float64)
    values = words.view(dtype)[:, :, :count]
    return values.astype(np.int64 if dtype is np.int8 else np.float64)


def arrange(values: Array, tile: Tile, split: bool) -> Array:
    """Lane elements [waves, 64, each] as matrices [waves, blocks, M, K]; `split`: two runs of k per lane."""
    waves, size = len(values), tile.m
    if split:
        half = tile.each // 2
        pieces: Array = values.reshape(waves, tile.groups, tile.blocks, size, 2, half)
        return pieces.transpose(0, 2, 3, 4, 1, 5).reshape(waves, tile.blocks, size, tile.k)
    lanes: Array = values.reshape(waves, tile.groups, tile.blocks, size, tile.each)
    return lanes.transpose(0, 2, 3, 1, 4).reshape(waves, tile.blocks, size, tile.k)


def _element(d: Decoder, kind: str) -> tuple[int, Any]:
    return (8, FP8[d.program.arch][kind]) if kind in ("fp8", "bf8") else _TYPES[kind]


def _operand(d: Decoder, operand: Operand, tile: Tile, kind: str) -> tuple[Callable[[Machine, Sel], Array], list[int]]:
    """Reads A or B as matrices [waves, blocks, M, K]."""
    bits, dtype = _element(d, kind)
    rows = d.words(operand, None, whole=True)
    if len(rows) * 32 < bits * tile.each:
        raise d.error(f"{d.ins.name} needs {bits * tile.each // 32} registers here, not {len(rows)}")
    split = bits == 8 and tile.each == 32
    held = slice(rows[0], rows[-1] + 1)

    def read(m: Machine, sel: Sel) -> Array:
        words = np.ascontiguousarray(m.v[held, sel].transpose(1, 2, 0))
        values = unpack_elements(words, bits, dtype, tile.each)
        if kind == "xf32":  # 10 bits of mantissa are used
            values = (values.astype(np.float32).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32).astype(float)
        return arrange(values, tile, split)

    return read, rows


def _scale(d: Decoder, operand: Operand, tile: Tile, index: int) -> tuple[Callable[[Machine, Sel], Array], list[int]]:
    """Reads scales: doubles [waves, 1, M, K]."""
    in_vector = isinstance(operand, Reg) and operand.file != "s"
    byte = d.bits("op_sel", 2, 0)[index] + 2 * d.bits("op_sel_hi", 2, 0)[index]
    read = d.vector(operand, 4, whole=True)
    rows = d.words(operand, 1, whole=True) if in_vector else []
    shift = 8 * byte if in_vector else 23

    def scales(m: Machine, sel: Sel) -> Array:
        words = np.broadcast_to(read(m, sel), (len(m.wave[sel]), 64))
        code = (words >> np.uint32(shift) & np.uint32(0xFF)).astype(np.int32)
        value = np.where(code == 255, np.nan, np.ldexp(1.0, code - 127)).reshape(len(words), tile.groups, tile.m)
        return np.repeat(value.transpose(0, 2, 1)[:, None], tile.each, axis=3)

    return scales, rows


def _form(name: str) -> str:
    """Result, A, B, C and for scaled ones both scales. How wide A and B are depends on cbsz and blgp too."""
    tile, _, scaled = tile_of(name)
    words = tile.m * tile.n * tile.blocks // 64 * (2 if tile.result == "f64" else 1)
    return f"v{words} v* v* V{words}" + " V V" * scaled


@instruction(*(f"v_mfma_{name}" for name in " ".join((_COMMON, *_ONLY.values())).split()), takes=_form, mods="mfma")
def _mfma(ins: Instruction, d: Decoder) -> Handler:
    name = ins.name[len("v_mfma_") :]
    for arch, names in _ONLY.items():
        if name in names.split() and arch != d.program.arch:
            raise d.error(f"{d.program.arch} has no {ins.name}")
    tile, types, scaled = tile_of(ins.name)
    cbsz, blgp = d.number("cbsz"), d.number("blgp")
    if types == "f8f6f4":
        kinds = [_FORMATS[cbsz], _FORMATS[blgp]]
    else:
        if cbsz or blgp or d.number("abid"):
            raise d.error(f"the simulator does not know {ins.name} with cbsz, abid or blgp")
        kinds = types.split("_") if "_" in types else [types, types]
    first, rows_a = _operand(d, ins.operands[1], tile, kinds[0])
    second, rows_b = _operand(d, ins.operands[2], tile, kinds[1])
    used = [*rows_a, *rows_b]
    scales = []
    if scaled:
        for index in (0, 1):
            scale, rows = _scale(d, ins.operands[4 + index], tile, index)
            scales.append(scale)
            used += rows
    where = rows_of(tile)
    wide = 2 if tile.result == "f64" else 1
    results = d.result_words(ins.operands[0], len(where) * wide)
    addend, rows_c = _accumulator(d, ins.operands[3], where, tile)
    codes = [tuple(VECTOR + row for row in rows) for rows in (results, [*rows_a, *rows_b], rows_c)]
    d.matrix = Matrix(codes[0], codes[1], codes[2], tile.result == "f64")
    used += rows_c
    sources = np.array(used)
    dtype = {"f32": np.float32, "f64": np.float64, "i32": np.int32}[tile.result]
    held = slice(results[0], results[-1] + 1)

    def run(m: Machine, sel: Sel) -> None:
        consume(m, sel, sources)
        a, b = first(m, sel), second(m, sel)
        if scales:
            a, b = a * scales[0](m, sel), b * scales[1](m, sel)
        product = a @ b.transpose(0, 1, 3, 2)
        total = product.reshape(len(product), -1).take(where, axis=1) + addend(m, sel)
        words = np.ascontiguousarray(total.astype(dtype)).view(np.uint32)
        words = words.reshape(len(words), -1, 64, wide).transpose(1, 3, 0, 2)  # [register, half, wave, lane]
        m.v[held, sel] = words.reshape(len(results), -1, 64)
        m.written[held, sel] = True

    return run


def _accumulator(
    d: Decoder, operand: Operand, where: Array, tile: Tile
) -> tuple[Callable[[Machine, Sel], Array], list[int]]:
    """Reads C: an array [waves, registers, 64] of doubles or integers."""
    exact = np.dtype(np.int64 if tile.result == "i32" else np.float64)
    if isinstance(operand, Literal):
        size = 8 if tile.result == "f64" else 4
        view = {"f32": np.float32, "f64": np.float64, "i32": np.int32}[tile.result]
        bits = d.constant(operand, size, tile.result[0] == "f") or 0
        value = np.array([bits], np.dtype(f"u{size}")).view(view).astype(exact)
        return lambda m, sel: value, []
    wide = 2 if tile.result == "f64" else 1
    rows = d.words(operand, len(where) * wide, whole=True)
    held = slice(rows[0], rows[-1] + 1)

    def read(m: Machine, sel: Sel) -> Array:
        words = m.v[held, sel].transpose(1, 0, 2)
        if wide == 2:
            pairs = words.reshape(len(words), -1, 2, 64).transpose(0, 1, 3, 2)
            return np.ascontiguousarray(pairs).view(np.float64)[..., 0]
        return words.view(np.int32 if tile.result == "i32" else np.float32).astype(exact)

    return read, rows
