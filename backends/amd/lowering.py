"""Lowering rules for gfx942 and gfx950: gemm by mfma, fed from shared memory by the widest reads there are.

    %c1 = gemm %As, %Bs, %c : tile<128x128xf32, …>
    →
    %a = load_mem … : regs<32xbf16>     %b = load_mem … : regs<32xbf16>
    %c1 = mma_sync %a, %b, %c {atom = "mfma16x16x32", repeats = (4, 4, 1)}     once for every 32 of K

A lane's part of a row is 8 neighbours along K, 16 bytes: one ds_read_b128. gfx950 multiplies them by one instruction,
gfx942 by two, with 4 neighbours each. Where the neighbours in memory lie along M or N, gfx950 reads them by
ds_read_b64_tr (layout/transposed.py), gfx942 one by one. An operand that is a tile in registers and was an accumulator
before (attention's P) has its neighbours 16 apart; the other operand is then read in the same order
(`mfma16x16x32.chained`).

Copies go through registers, on gfx950 by LDS-DMA where that can do them (dma.py). An asynchronous one that goes through
registers is done at once: its token is complete.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from minitile.backends.amd.dma import copies_itself, dma
from minitile.backends.base import GemmPlan, Rules, refuse_scales
from minitile.hardware import Target
from minitile.ir.core import Op, Value
from minitile.ir.diagnostics import ResourceError, TypeMismatchError
from minitile.ir.ops import thread, tile
from minitile.ir.origin import LANDED, Origin
from minitile.ir.types import PACKED, TileType, e4m3, e5m2, f32, u8
from minitile.layout import (
    CDNA3_ATOMS,
    CDNA4_ATOMS,
    MFMA_ATOMS,
    MFMA_CHAINED,
    MFMA_SCALED,
    SCALE_BLOCK,
    LayoutError,
    MmaAtom,
    mfma_scales_a,
    mfma_scales_b,
    mma_accumulator,
    mma_operand_a,
    mma_operand_b,
    sizes_that_fit,
    warp_partition,
)
from minitile.lowering.context import Lowering
from minitile.lowering.expand_fp8 import FP8
from minitile.lowering.gemm import fragments
from minitile.lowering.memory_rules import move_through_registers

SCALED_FORMATS = {"e4m3": e4m3, "e5m2": e5m2, **PACKED}  # what f8f6f4 multiplies
MFMA_OF_DTYPE = {"gfx942": CDNA3_ATOMS, "gfx950": CDNA4_ATOMS}  # by lowering, then by the operands' dtype
_FP8 = {"gfx942": ("e4m3fnuz", "e5m2fnuz"), "gfx950": ("e4m3", "e5m2")}


@lru_cache(maxsize=8)
def rules_for(target: Target) -> Rules:
    def gemm_plan(op: tile.Gemm, threads: int) -> GemmPlan:
        return plan_gemm(op, threads, target)

    def gemm(low: Lowering, op: tile.Gemm) -> Value:
        return lower_gemm(low, op, plan_gemm(op, low.threads, target))

    rules: dict[type[Op], Any] = {tile.Gemm: gemm, tile.Copy: copy, tile.AsyncCopy: async_copy}
    if target.has("lds_dma_128"):
        return Rules(gemm_plan, rules, copies_itself=copies_itself)
    return Rules(gemm_plan, rules)


# gemm -----------------------------------------------------------------------------------------------------------------


def plan_gemm(op: tile.Gemm, threads: int, target: Target) -> GemmPlan:
    """Raises TargetError, TypeMismatchError or ResourceError where scales, the dtypes, or the shapes and waves, fit no
    mfma."""
    if op.scaled and target.has("mfma_scale"):
        return plan_scaled(op, threads, target)
    refuse_scales(op, target)
    (m, n), k = op.c.shape, op.depth
    dtype, other, accumulator = op.a.dtype, op.b.dtype, op.c.dtype
    fp8, known = _FP8[target.lowering], MFMA_OF_DTYPE[target.lowering]
    takes = "i32" if dtype.is_int else "f32"
    if (
        accumulator.name != takes
        or dtype.name not in known
        or (other is not dtype and {dtype.name, other.name} != {*fp8})
    ):
        foreign = dtype in FP8 and dtype.name not in fp8
        formats = " and ".join(f"float8_{name}{'fn' if name == 'e4m3' else ''}" for name in fp8)
        raise TypeMismatchError(
            f"no mfma on {target} multiplies {dtype} by {other} into {accumulator}",
            op.loc,
            hint=f"its fp8 formats are {formats}; or cast to float16"
            if foreign
            else f"it multiplies {', '.join(known)}; into i32 what is i8, else into f32",
        )
    in_registers = isinstance(op.a.type, TileType) or isinstance(op.b.type, TileType)
    try:
        return make_plan(m, n, k, known[dtype.name], threads // target.lanes, op.policy, in_registers)
    except LayoutError as error:
        raise ResourceError(
            f"gemm of {m}x{n}x{k} {dtype} over {threads} threads: {error}",
            op.loc,
            hint=sizes_that_fit((m, n, k), known[dtype.name], threads, target.lanes),
        ) from None


def plan_scaled(op: tile.Gemm, threads: int, target: Target) -> GemmPlan:
    """The plan of a gemm with scales of blocks: by the f8f6f4 of its formats. Raises as plan_gemm does."""
    (m, n), k = op.c.shape, op.depth
    a, b = op.formats
    sixteen = op.a_scale is not None and op.a_scale.dtype is not u8
    if not {a, b} <= {*SCALED_FORMATS} or op.c.dtype is not f32 or sixteen:
        raise TypeMismatchError(
            f"no mfma on {target} multiplies {a} by {b} with scales{' of 16 elements' * sixteen} into {op.c.dtype}",
            op.loc,
            hint="float8_e4m3fn, float8_e5m2 and bytes of float4_e2m1fn, float6_e2m3fn, float6_e3m2fn, into float32",
        )
    bits = SCALED_FORMATS[a].bits, SCALED_FORMATS[b].bits
    try:
        plan = make_plan(m, n, k, tuple(MFMA_SCALED[size, *bits] for size in (16, 32)), threads // 64, op.policy, False)
    except LayoutError as error:
        raise ResourceError(f"gemm of {m}x{n}x{k} {a} by {b} over {threads} threads: {error}", op.loc) from None
    atom, blocks = MFMA_ATOMS[plan.atom], k // SCALE_BLOCK
    return replace(
        plan,
        a_scale=mfma_scales_a((m, blocks), atom, plan.warps),
        b_scale=mfma_scales_b((n, blocks), atom, plan.warps),
    )


@lru_cache(maxsize=256)
def make_plan(
    m: int, n: int, k: int, atoms: tuple[MmaAtom, ...], waves: int, policy: str, in_registers: bool
) -> GemmPlan:
    """By the first of `atoms` that fits K and the waves' shares of the tile. Raises LayoutError where none does. What
    is in registers was an accumulator, of 16×16 if that fitted: another shape would cost more to get than it brings."""
    why: LayoutError | None = None
    for atom in sorted(atoms, key=lambda atom: atom.m) if in_registers else atoms:
        if k % atom.k:
            continue
        try:
            split = warp_partition(policy, m, n, waves, atom)
        except LayoutError as error:
            why = why or error
            continue
        return plan_of(m, n, k, MFMA_CHAINED.get(atom, atom) if in_registers else atom, split)
    least = min(atoms, key=lambda atom: atom.k)
    raise why or LayoutError(f"K = {k} is not a multiple of {least.k}, the k of {least}")


def plan_of(m: int, n: int, k: int, atom: MmaAtom, split: tuple[int, int]) -> GemmPlan:
    steps = k // atom.k
    return GemmPlan(
        atom.name,
        (m, n, k),
        (m // split[0] // atom.m, n // split[1] // atom.n, steps),
        split,
        atom.k,
        mma_operand_a((m, steps * atom.a.shape[1]), atom, split),
        mma_operand_b((steps * atom.b.shape[0], n), atom, split),
        mma_accumulator((m, n), atom, split),
    )


def lower_gemm(low: Lowering, op: tile.Gemm, plan: GemmPlan) -> Value:
    atom = MFMA_ATOMS[plan.atom]
    m, n, _ = plan.shape
    a_step = mma_operand_a((m, atom.a.shape[1]), atom, plan.warps)
    b_step = mma_operand_b((atom.b.shape[0], n), atom, plan.warps)
    a = fragments(low, op.a, op.a_indices, op.a_dims, op.a_slot, a_step, plan.a, op.transpose_a, 1)
    b = fragments(low, op.b, op.b_indices, op.b_dims, op.b_slot, b_step, plan.b, op.transpose_b, 0)
    c = low.get(op.c)
    if op.scale_d is not None:
        c = low.b.select(low.get(op.scale_d), c, low.b.constant(0, c.dtype))
    *once, steps = plan.repeats
    formats = op.formats if op.scaled else ("", "")
    for step in range(steps):
        scales = {
            name: low.pick(low.get(scale), range(step, rows * steps, steps))
            for name, scale, rows in zip(("a_scale", "b_scale"), (op.a_scale, op.b_scale), once, strict=True)
            if scale is not None
        }
        operands = a.step(step), b.step(step), c
        mma = thread.MmaSync(
            *operands, plan.atom, (once[0], once[1], 1), origin=(0, 0, step), formats=formats, **scales
        )
        c = low.b.emit(mma).result
    return c


# copies ---------------------------------------------------------------------------------------------------------------


def copy(low: Lowering, op: tile.Copy) -> None:
    token = dma(low, op)
    if token is not None:
        with low.b.because(Origin("lower", LANDED)):
            low.b.emit(tile.Wait(token))
        return
    move_through_registers(low, op)


def async_copy(low: Lowering, op: tile.AsyncCopy) -> Value:
    token = dma(low, op)
    if token is not None:
        return token
    copy(low, op)
    return low.b.emit(tile.NoToken()).result
