"""Tensor-core instructions as data: the register layouts of their operands, and whole tiles made of them.

Tiles are A (M, K), B (K, N), C (M, N). Facts: PTX ISA 8.3, 9.7.13.4, "Matrix Fragments for mma.*", where
groupID = lane / 4 and threadID_in_group = lane % 4 appear here as the lane digits `8:1` and `4:...`; wgmma:
9.7.14.

Every warp owns one contiguous sub-tile. Registers count first inside the atom; then C: along n, along m; A:
along k, along m; B: along k, along n. So the accumulator of one mma is, as it lies, the A operand of the next
one (16-bit): both are `2:1@1, 2:8@0, n:8@1, m:16@0`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from minitile.layout.register import Digit, Layout, LayoutError


@dataclass(frozen=True, slots=True)
class MmaAtom:
    """One `mma.sync` shape: the fragments of a warp. `bits` is the width of an element of A and B."""

    name: str
    m: int
    n: int
    k: int
    bits: int
    a: Layout
    b: Layout
    c: Layout
    source: str

    def __str__(self) -> str:
        return self.name


def _atom(name: str, mnk: tuple[int, int, int], bits: int, a: str, b: str, c: str, source: str) -> MmaAtom:
    m, n, k = mnk

    def fragment(rows: int, columns: int, digits: str) -> Layout:
        return Layout.parse(f"layout<{rows}x{columns}; {digits}>")

    return MmaAtom(
        name, m, n, k, bits, fragment(m, k, a), fragment(k, n, b), fragment(m, n, c), f"PTX ISA 8.3, {source}"
    )


_C16 = "reg 2:1@1, 2:8@0; lane 4:2@1, 8:1@0"  # the accumulator of every m16n8

M16N8K16 = _atom(
    "m16n8k16",
    (16, 8, 16),
    16,
    "reg 2:1@1, 2:8@0, 2:8@1; lane 4:2@1, 8:1@0",
    "reg 2:1@0, 2:8@0; lane 4:2@0, 8:1@1",
    _C16,
    "9.7.13.4.8",
)
M16N8K8 = _atom(
    "m16n8k8",
    (16, 8, 8),
    16,
    "reg 2:1@1, 2:8@0; lane 4:2@1, 8:1@0",
    "reg 2:1@0; lane 4:2@0, 8:1@1",
    _C16,
    "9.7.13.4.7",
)
M16N8K8_TF32 = _atom(
    "m16n8k8.tf32",
    (16, 8, 8),
    32,
    "reg 2:8@0, 2:4@1; lane 4:1@1, 8:1@0",
    "reg 2:4@0; lane 4:1@0, 8:1@1",
    _C16,
    "9.7.13.4.7",
)
M16N8K32_B8 = _atom(
    "m16n8k32.b8",
    (16, 8, 32),
    8,
    "reg 4:1@1, 2:8@0, 2:16@1; lane 4:4@1, 8:1@0",
    "reg 4:1@0, 2:16@0; lane 4:4@0, 8:1@1",
    _C16,
    "9.7.13.4.10",
)
M16N8K16_B8 = _atom(
    "m16n8k16.b8",
    (16, 8, 16),
    8,
    "reg 4:1@1, 2:8@0; lane 4:4@1, 8:1@0",
    "reg 4:1@0; lane 4:4@0, 8:1@1",
    _C16,
    "9.7.13.4.9",
)
M8N8K4_F64 = _atom(
    "m8n8k4.f64",
    (8, 8, 4),
    64,
    "lane 4:1@1, 8:1@0",
    "lane 4:1@0, 8:1@1",
    "reg 2:1@1; lane 4:2@1, 8:1@0",
    "9.7.13.4.2",
)

MMA_ATOMS = {atom.name: atom for atom in (M16N8K16, M16N8K8, M16N8K8_TF32, M16N8K32_B8, M16N8K16_B8, M8N8K4_F64)}

# Which atoms suit operands of this dtype (as tile IR spells it), in order of preference (the widest k first).
ATOMS_OF_DTYPE: dict[str, tuple[MmaAtom, ...]] = {
    "f16": (M16N8K16, M16N8K8),
    "bf16": (M16N8K16, M16N8K8),
    "f32": (M16N8K8_TF32,),
    "i8": (M16N8K32_B8, M16N8K16_B8),
    "u8": (M16N8K32_B8, M16N8K16_B8),
    "e4m3": (M16N8K32_B8,),
    "e5m2": (M16N8K32_B8,),
    "f64": (M8N8K4_F64,),
}


def _mfma(name: str, mnk: tuple[int, int, int], bits: int, run: int, step: int = 0) -> MmaAtom:
    """A fragment in which lane l has row (or column) l % m and `run` neighbours of K from run·(l / m) on; with `step`,
    two such runs, `step` apart. m = n is 16 or 32. The accumulator: row l % m and four neighbouring columns from
    4·(l / m) on; with m = 32 four times that, 8 apart.

    That is the hardware's v_mfma_*_16x16x* and 32x32x* with A and B exchanged, so that it computes the transpose: its
    result has column l % m, and rows in registers. A k that is a multiple of the instruction's own means several of
    them, each with its part of every lane's run; the order of K is free as long as A and B agree.
    """
    m, n, k = mnk
    registers = f"reg {run}:1@{{0}}" + (f", 2:{step}@{{0}}" if step else "") if run > 1 else "reg"
    groups = 64 // m
    lanes = f"lane {m}:1@{{1}}, {groups}:{run}@{{0}}"
    digits = f"{registers}; {lanes}".replace("reg; ", "")
    blocks = f", {m // (4 * groups)}:{4 * groups}@1" if m > 4 * groups else ""
    return MmaAtom(
        name,
        m,
        n,
        k,
        bits,
        Layout.parse(f"layout<{m}x{k}; {digits.format(1, 0)}>"),
        Layout.parse(f"layout<{k}x{n}; {digits.format(0, 1)}>"),
        Layout.parse(f"layout<{m}x{n}; reg 4:1@1{blocks}; lane {m}:1@0, {groups}:4@1>"),
        "CDNA 3 and 4 ISA, Matrix Arithmetic Instructions; AMD matrix instruction calculator",
    )


MFMA_K32 = _mfma("mfma16x16x32", (16, 16, 32), 16, 8)
MFMA_K16 = _mfma("mfma16x16x16", (16, 16, 16), 16, 4)
MFMA32_K16 = _mfma("mfma32x32x16", (32, 32, 16), 16, 8)
MFMA32_K8 = _mfma("mfma32x32x8", (32, 32, 8), 16, 4)
# A is what two neighbouring accumulators are, as they lie.
MFMA_K32_CHAINED = _mfma("mfma16x16x32.chained", (16, 16, 32), 16, 4, 16)
MFMA32_K16_CHAINED = _mfma("mfma32x32x16.chained", (32, 32, 16), 16, 4, 8)
# Two runs of 16, as the hardware has them: neighbours of 32 would do as well, but lanes would then meet in LDS banks.
MFMA_K128_B8 = _mfma("mfma16x16x128.b8", (16, 16, 128), 8, 16, 64)
MFMA_K64_B8 = _mfma("mfma16x16x64.b8", (16, 16, 64), 8, 16)
MFMA_K32_B8 = _mfma("mfma16x16x32.b8", (16, 16, 32), 8, 8)
MFMA32_K64_B8 = _mfma("mfma32x32x64.b8", (32, 32, 64), 8, 32)
MFMA32_K32_B8 = _mfma("mfma32x32x32.b8", (32, 32, 32), 8, 16)
MFMA32_K16_B8 = _mfma("mfma32x32x16.b8", (32, 32, 16), 8, 8)
MFMA_K16_F32 = _mfma("mfma16x16x16.f32", (16, 16, 16), 32, 4)
MFMA_K4_F32 = _mfma("mfma16x16x4.f32", (16, 16, 4), 32, 1)
MFMA32_K2_F32 = _mfma("mfma32x32x2.f32", (32, 32, 2), 32, 1)

# With scales of blocks of 32 along K the order of K is no longer free: a scale is that of its block. The fragments are
# of bytes, since elements of 6 and 4 bits are packed: of 32 elements of a lane, 32, 24 or 16 bytes.
SCALE_BLOCK = 32
# Bits of an element: neighbouring bytes, distance of a second run. 6 as 4 is a belief: it takes as many passes.
_SCALED_RUNS = {8: (16, 64), 6: (24, 0), 4: (16, 0)}


def _scaled(m: int, k: int, bits: tuple[int, int]) -> MmaAtom:
    """The atom of f8f6f4 for elements of `bits` in A and B: k elements, k·bits/8 bytes a row."""
    a, b = (
        _mfma("", (m, m, k * width // 8), 8, run, step * 16 // m)
        for width in bits
        for run, step in (_SCALED_RUNS[width],)
    )
    return MmaAtom(f"mfma{m}x{m}x{k}.f{bits[0]}f{bits[1]}", m, m, k, 8, a.a, b.b, a.c, a.source)


MFMA_SCALED = {
    (m, a, b): _scaled(m, k, (a, b))
    for m, k in ((16, 128), (32, 64))
    for a, b in itertools.product((8, 6, 4), repeat=2)
}

MFMA_ATOMS = {
    atom.name: atom
    for atom in (
        *(MFMA_K32, MFMA_K16, MFMA32_K16, MFMA32_K8, MFMA_K32_CHAINED, MFMA32_K16_CHAINED),
        *(MFMA_K128_B8, MFMA_K64_B8, MFMA_K32_B8, MFMA32_K64_B8, MFMA32_K32_B8, MFMA32_K16_B8),
        *(MFMA_K16_F32, MFMA_K4_F32, MFMA32_K2_F32),
        *MFMA_SCALED.values(),
    )
}
# Which atoms suit operands of this dtype, in order of preference: what multiplies most in a cycle, then 16×16, which
# fits more tiles. CDNA4's wider instructions do twice what the same fragment fed to the narrower ones does.
_MFMA_F32 = (MFMA_K16_F32, MFMA_K4_F32, MFMA32_K2_F32)
_CDNA3_16 = (MFMA_K32, MFMA_K16, MFMA32_K8)
_CDNA3_8 = (MFMA_K64_B8, MFMA_K32_B8, MFMA32_K16_B8)
_CDNA4_16 = (MFMA_K32, MFMA32_K16, MFMA_K16, MFMA32_K8)
_CDNA4_INT8 = (MFMA_K64_B8, MFMA32_K32_B8, MFMA_K32_B8, MFMA32_K16_B8)
_CDNA4_FP8 = (MFMA_K128_B8, MFMA32_K64_B8, *_CDNA3_8)
CDNA3_ATOMS: dict[str, tuple[MmaAtom, ...]] = {
    **dict.fromkeys(("f16", "bf16"), _CDNA3_16),
    **dict.fromkeys(("i8", "e4m3fnuz", "e5m2fnuz"), _CDNA3_8),
    "f32": _MFMA_F32,
}
CDNA4_ATOMS: dict[str, tuple[MmaAtom, ...]] = {
    **dict.fromkeys(("f16", "bf16"), _CDNA4_16),
    "i8": _CDNA4_INT8,
    **dict.fromkeys(("e4m3", "e5m2"), _CDNA4_FP8),
    "f32": _MFMA_F32,
}
# What takes an accumulator of 16-bit elements as it lies for A, in the place of the atom that does not.
MFMA_CHAINED = {MFMA_K32: MFMA_K32_CHAINED, MFMA32_K16: MFMA32_K16_CHAINED}


@lru_cache(maxsize=512)
def mma_accumulator(shape: tuple[int, int], atom: MmaAtom, warps: tuple[int, int]) -> Layout:
    """C or D, `shape` = (M, N), over `warps` = (along m, along n), m counting fastest.

    Raises LayoutError when a warp's sub-tile is not made of whole atoms; so do the operands below.
    """
    wm, wn = warps
    m = _repeats(shape[0], atom.m, wm, "M", atom)
    n = _repeats(shape[1], atom.n, wn, "N", atom)
    return atom.c.compose(shape, [(1, n), (0, m)], [(0, wm), (1, wn)])


@lru_cache(maxsize=512)
def mma_operand_a(shape: tuple[int, int], atom: MmaAtom, warps: tuple[int, int]) -> Layout:
    """A, `shape` = (M, K); warps that differ along n hold copies."""
    wm, wn = warps
    m = _repeats(shape[0], atom.m, wm, "M", atom)
    k = _repeats(shape[1], atom.a.shape[1], 1, "K", atom)
    return atom.a.compose(shape, [(1, k), (0, m)], [(0, wm), (None, wn)])


@lru_cache(maxsize=512)
def mma_operand_b(shape: tuple[int, int], atom: MmaAtom, warps: tuple[int, int]) -> Layout:
    """B, `shape` = (K, N); warps that differ along m hold copies. For a tile (N, K): `.permute_dims((1, 0))`."""
    wm, wn = warps
    k = _repeats(shape[0], atom.b.shape[0], 1, "K", atom)
    n = _repeats(shape[1], atom.n, wn, "N", atom)
    return atom.b.compose(shape, [(0, k), (1, n)], [(None, wm), (1, wn)])


@lru_cache(maxsize=512)
def mfma_scales_a(shape: tuple[int, int], atom: MmaAtom, warps: tuple[int, int]) -> Layout:
    """The scales of A, `shape` = (M, K / 32): a lane has that of its row and, of the instruction's blocks of K, of the
    one whose number is the lane's among those of the row."""
    return _scales(shape, atom, (0, warps[0]), (None, warps[1]))


@lru_cache(maxsize=512)
def mfma_scales_b(shape: tuple[int, int], atom: MmaAtom, warps: tuple[int, int]) -> Layout:
    """The scales of B, `shape` = (N, K / 32)."""
    return _scales(shape, atom, (None, warps[0]), (0, warps[1]))


def _scales(shape: tuple[int, int], atom: MmaAtom, *warps: tuple[int | None, int]) -> Layout:
    blocks = atom.k // SCALE_BLOCK
    one = Layout((atom.m, blocks), (), (Digit(atom.m, 0, 1), Digit(blocks, 1, 1)), ())
    rows = _repeats(shape[0], atom.m, math.prod(count for dim, count in warps if dim == 0), "M or N", atom)
    k = _repeats(shape[1], blocks, 1, "K / 32", atom)
    return one.compose(shape, [(1, k), (0, rows)], list(warps))


def warp_partition(policy: str, m: int, n: int, num_warps: int, atom: MmaAtom) -> tuple[int, int]:
    """How many warps go along m and along n for an (m, n) accumulator.

    `policy`: "square" (least operand traffic: m/wm + n/wn small), "full_row" (as many as fit along m),
    "full_col" (as many as fit along n). Raises LayoutError, with each split's reason, if none leaves every
    warp whole atoms.
    """
    preference: dict[str, Callable[[int, int], tuple[int, int]]] = {
        "square": lambda wm, wn: (m // wm + n // wn, -wm),
        "full_row": lambda wm, wn: (-wm, 0),
        "full_col": lambda wm, wn: (-wn, 0),
    }
    if policy not in preference:
        raise LayoutError(f"warp policy {policy!r}: one of {', '.join(preference)}")
    fits, reasons = [], []
    for wm in range(1, num_warps + 1):
        wn, rest = divmod(num_warps, wm)
        if rest:
            continue
        if m % (wm * atom.m) == 0 and n % (wn * atom.n) == 0:
            fits.append((wm, wn))
        else:
            reasons.append(f"{wm}x{wn} leaves each warp {m / wm:g}x{n / wn:g}")
    if not fits:
        raise LayoutError(
            f"{num_warps} warps can't share a {m}x{n} accumulator in whole {atom.m}x{atom.n} blocks of mma "
            f"{atom}: {'; '.join(reasons)}"
        )
    return min(fits, key=lambda split: preference[policy](*split))


def sizes_that_fit(shape: tuple[int, int, int], atoms: Sequence[MmaAtom], threads: int, lanes: int) -> str:
    """The way out for a gemm of `shape` = (M, N, K) that `threads` in warps of `lanes` can't share in whole atoms: the
    next larger accumulator that they can, and the most threads that can share this one."""
    m, n, k = shape
    fitting = [atom for atom in atoms if k % atom.k == 0]
    if not fitting:
        return f"make K a multiple of {min(atom.k for atom in atoms)}"

    def larger(warps: int) -> tuple[int, int]:
        splits = [(wm, warps // wm) for wm in range(1, warps + 1) if warps % wm == 0]
        sizes = [(-(-m // s) * s, -(-n // t) * t) for a in fitting for s, t in ((x * a.m, y * a.n) for x, y in splits)]
        return min(sizes, key=lambda size: (size[0] * size[1], size))

    warps = threads // lanes
    way = "an accumulator of {}x{} fits these threads".format(*larger(warps))
    fewer = next((w * lanes for w in range(warps - 1, 0, -1) if larger(w) == (m, n)), None)
    return f"{way}; threads={fewer} fit this one" if fewer else way


@lru_cache(maxsize=512)
def wgmma_accumulator(shape: tuple[int, int], warpgroups: tuple[int, int] = (1, 1)) -> Layout:
    """The accumulator of wgmma.m64nN, `shape` = (M, N), over warpgroups (along m, along n).

    row = 16 * warp + lane / 4 (+ 8), column = 8 * j + 2 * (lane % 4): PTX ISA 8.3, 9.7.14 (fragments of D).
    Further blocks of 64 rows go to registers. Raises LayoutError when M or N does not divide.
    """
    gm, gn = warpgroups
    m, n = shape
    if m % (64 * gm) or n % (8 * gn):
        raise LayoutError(f"a {m}x{n} accumulator over {gm}x{gn} warpgroups is not made of 64x8 blocks")
    reg = (Digit(2, 1, 1), Digit(2, 0, 8), Digit(n // gn // 8, 1, 8), Digit(m // gm // 64, 0, 64))
    warp = (Digit(4, 0, 16), Digit(gm, 0, m // gm), Digit(gn, 1, n // gn))
    return Layout(shape, reg, (Digit(4, 1, 2), Digit(8, 0, 1)), warp)


@lru_cache(maxsize=512)
def wgmma_operand_a(shape: tuple[int, int], bits: int, warpgroups: tuple[int, int] = (1, 1)) -> Layout:
    """A of wgmma from registers, `shape` = (M, K), elements of 8, 16 or 32 bits; copies along n.

    Per warp the fragment of mma m16n8k(256/bits): PTX ISA 8.3, 9.7.14 (fragments of A).
    """
    atom = {8: M16N8K32_B8, 16: M16N8K16, 32: M16N8K8_TF32}[bits]
    gm, gn = warpgroups
    m, k = shape
    if m % (64 * gm) or k % atom.k:
        raise LayoutError(f"a {m}x{k} operand over {gm} warpgroups is not made of 64x{atom.k} blocks")
    reg = (*atom.a.reg, Digit(k // atom.k, 1, atom.k), Digit(m // gm // 64, 0, 64))
    warp = (Digit(4, 0, 16), Digit(gm, 0, m // gm), Digit(gn, None, 0))
    return Layout(shape, reg, atom.a.lane, warp)


def _repeats(size: int, atom_size: int, warps: int, axis: str, atom: MmaAtom) -> int:
    count, rest = divmod(size, atom_size * warps)
    if rest or not count:
        over = f" over {warps} warps" if warps > 1 else ""
        raise LayoutError(f"{axis} = {size}{over} is not a multiple of {atom_size * warps}, as mma {atom} needs")
    return count
