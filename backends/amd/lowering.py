"""Lowering rules for gfx942 and gfx950: gemm by mfma, fed from shared memory by the widest reads there are.

    %c1 = gemm %As, %Bs, %c : tile<128x128xf32, …>
    →
    %a = load_mem … : regs<32xbf16>     %b = load_mem … : regs<32xbf16>
    %c1 = mma_sync %a, %b, %c {atom = "mfma16x16x32", repeats = (4, 4, 1)}     once for every 32 of K

A lane's part of a row is 8 neighbours along K, 16 bytes: one ds_read_b128. gfx950 multiplies them by one instruction,
gfx942 by two, with 4 neighbours each. An operand that is a tile in registers and was an accumulator before (attention's
P) has its neighbours 16 apart; the other operand is then read in the same order (`mfma16x16x32.chained`).

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
from minitile.ir.types import DType, TileType
from minitile.layout import (
    MFMA_ATOMS,
    MFMA_K32_CHAINED,
    MFMA_OF_DTYPE,
    LayoutError,
    coalesced,
    mma_accumulator,
    mma_operand_a,
    mma_operand_b,
    warp_partition,
)
from minitile.passes.lower import Lowering
from minitile.passes.lower_gemm import fragments
from minitile.passes.lower_memory import move_through_registers
from minitile.passes.rules import GemmPlan, Rules
from minitile.target import Target

_ACCUMULATOR = {"f16": "f32", "bf16": "f32", "f32": "f32", "i8": "i32", "e4m3": "f32", "e5m2": "f32"}
_OCP_FP8 = ("e4m3", "e5m2")  # what gfx942 calls fp8 and bf8 are other formats


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
    dtype, accumulator = op.a.dtype, op.c.dtype
    takes = _ACCUMULATOR.get(dtype.name)
    ocp = dtype.name in _OCP_FP8 and not target.has("mfma_fp8")
    if takes != accumulator.name or ocp:
        raise TypeMismatchError(
            f"no mfma on {target} multiplies {dtype} by {op.b.dtype} into {accumulator}",
            op.loc,
            hint="its fp8 formats are not the OCP ones: cast to float16" if ocp else f"accumulators: {takes or 'none'}",
        )
    in_registers = isinstance(op.a.type, TileType) or isinstance(op.b.type, TileType)
    try:
        return make_plan(m, n, k, dtype, threads // target.lanes, op.policy, in_registers)
    except LayoutError as error:
        raise ResourceError(
            f"gemm of {m}x{n}x{k} {dtype} over {threads} threads: {error}",
            op.loc,
            hint="make block_M and block_N multiples of what the waves need, or use fewer threads",
        ) from None


@lru_cache(maxsize=256)
def make_plan(m: int, n: int, k: int, dtype: DType, waves: int, policy: str, in_registers: bool) -> GemmPlan:
    atoms = MFMA_OF_DTYPE[dtype.name]
    if in_registers and dtype.bits == 16:
        atoms = (MFMA_K32_CHAINED, *atoms[1:])
    atom = next((a for a in atoms if k % a.k == 0), None)
    if atom is None:
        raise LayoutError(f"K = {k} is not a multiple of {atoms[-1].k}, the k of {atoms[-1]}")
    split = warp_partition(policy, m, n, waves, atom)
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
        c = low.b.emit(thread.MmaSync(a.step(step), b.step(step), c, plan.atom, once)).result
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
