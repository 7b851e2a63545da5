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

from functools import lru_cache
from typing import Any

from minitile.backends.amd.dma import copies_itself, dma
from minitile.ir.core import Op, Value
from minitile.ir.diagnostics import ResourceError, TypeMismatchError
from minitile.ir.ops import thread, tile
from minitile.ir.types import TileType
from minitile.layout import (
    MFMA_ATOMS,
    MFMA_CHAINED,
    MFMA_OF_DTYPE,
    LayoutError,
    MmaAtom,
    coalesced,
    mma_accumulator,
    mma_operand_a,
    mma_operand_b,
    warp_partition,
)
from minitile.passes.expand_fp8 import FP8
from minitile.passes.lower import Lowering
from minitile.passes.lower_gemm import fragments
from minitile.passes.lower_memory import move_through_registers
from minitile.passes.rules import GemmPlan, Rules
from minitile.target import Target

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
    """Raises TypeMismatchError or ResourceError where the dtypes, or the shapes and waves, fit no mfma."""
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
            hint="make block_M and block_N multiples of what the waves need, or use fewer threads",
        ) from None


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
    return GemmPlan(
        atom.name,
        (m, n, k),
        (m // split[0] // atom.m, n // split[1] // atom.n, k // atom.k),
        split,
        atom.k,
        mma_operand_a((m, k), atom, split),
        mma_operand_b((k, n), atom, split),
        mma_accumulator((m, n), atom, split),
    )


def lower_gemm(low: Lowering, op: tile.Gemm, plan: GemmPlan) -> Value:
    atom = MFMA_ATOMS[plan.atom]
    m, n, _ = plan.shape
    a_step = mma_operand_a((m, atom.k), atom, plan.warps)
    b_step = mma_operand_b((atom.k, n), atom, plan.warps)
    a = fragments(low, op.a, op.a_indices, op.a_dims, op.a_slot, a_step, plan.a, op.transpose_a, 1)
    b = fragments(low, op.b, op.b_indices, op.b_dims, op.b_slot, b_step, plan.b, op.transpose_b, 0)
    c = low.get(op.c)
    once = (*plan.repeats[:2], 1)
    for step in range(plan.repeats[2]):
        operands = a.step(step), b.step(step), c
        c = low.b.emit(thread.MmaSync(*operands, plan.atom, once, origin=(0, 0, step))).result
    return c


# copies ---------------------------------------------------------------------------------------------------------------


def copy(low: Lowering, op: tile.Copy) -> None:
    token = dma(low, op)
    if token is not None:
        low.b.emit(tile.Wait(token))
        return
    move_through_registers(low, op, coalesced(op.shape, low.threads, op.src.dtype.bits, low.target.lanes))


def async_copy(low: Lowering, op: tile.AsyncCopy) -> Value:
    token = dma(low, op)
    if token is not None:
        return token
    copy(low, op)
    return low.b.emit(tile.NoToken()).result
