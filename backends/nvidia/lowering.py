"""Lowering rules for sm_80 and its kin: mma.sync fed by ldmatrix, copies by cp.async.

A gemm is unrolled over K in steps of the mma's k. For each step the warp loads its fragments, by ldmatrix where the
shared layout has whole 16-byte rows for it, else element by element; a tile operand (attention's P) is in registers.
All addresses of all steps are computed together, so that steps differ by immediates or one xor.

    %c1 = gemm %As, %Bs, %c : tile<128x128xf32, …>
    →
    %a = ldmatrix … : regs<32xbf16>     %b = ldmatrix … : regs<16xbf16>
    %c1 = mma_sync %a, %b, %c {repeats = (4, 4, 1)}     once for every 16 of K

A copy from global to shared memory is cp.async of 16, 8 or 4 bytes where alignment allows (PTX ISA 8.3, 9.7.8.24.3),
else loads and stores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

from minitile.backends.base import GemmPlan, Rules, refuse_scales
from minitile.backends.nvidia.coalesced_store import store_rows
from minitile.backends.nvidia.hopper.cluster import CLUSTER_RULES
from minitile.backends.nvidia.hopper.explicit import EXPLICIT_RULES
from minitile.backends.nvidia.hopper.pipelines import HOPPER_RULES
from minitile.backends.nvidia.hopper.tma_store import STORE_RULES
from minitile.backends.nvidia.hopper.wgmma import plan_wgmma, refusal
from minitile.backends.nvidia.targets import TARGETS
from minitile.backends.nvidia.work import work_of
from minitile.hardware import Target
from minitile.ir.core import Op, Value
from minitile.ir.diagnostics import MinitileError, ResourceError, TypeMismatchError
from minitile.ir.ops import arith, roles, thread, tile
from minitile.ir.origin import LANDED, Origin
from minitile.ir.types import BufferType, DType, TensorType, f32
from minitile.layout import (
    ATOMS_OF_DTYPE,
    MMA_ATOMS,
    LayoutError,
    MmaAtom,
    blocked,
    coalesced,
    mma_accumulator,
    mma_operand_a,
    mma_operand_b,
    sizes_that_fit,
    warp_partition,
)
from minitile.layout.access import vector_runs
from minitile.lowering.accesses import Addresses, GuardBuilder, Guards
from minitile.lowering.context import Lowering
from minitile.lowering.cut_runs import Cut, Turn, chosen, cut_guards, in_turn
from minitile.lowering.gemm import fragments
from minitile.lowering.memory import (
    Plan,
    access_width,
    contiguous_dim,
    emit_load,
    emit_store,
    global_addresses,
    in_memory,
    moved_width,
    places,
    shared_addresses,
)
from minitile.lowering.memory_rules import MEMORY_RULES, move_through_registers

ACCUMULATORS = {
    "f16": ("f32", "f16"),
    "bf16": ("f32",),
    "f32": ("f32",),
    "i8": ("i32",),
    "u8": ("i32",),
    "e4m3": ("f32",),
    "e5m2": ("f32",),
    "f64": ("f64",),
}
FEATURE = {"e4m3": "mma_fp8", "e5m2": "mma_fp8"}


@lru_cache(maxsize=8)
def rules_for(target: Target) -> Rules:
    """The rules of an NVIDIA target: sm_80's, and those of sm_90a where the target has wgmma."""

    def gemm_plan(op: tile.Gemm, threads: int) -> GemmPlan:
        if isinstance(op, roles.AsyncGemm):
            return plan_wgmma(op, threads)
        try:
            return plan_gemm(op, threads, target)
        except MinitileError as error:
            if target.has("wgmma"):
                error.hint += (
                    f"; {refusal(op, threads) or 'wgmma does it; compile --explain says why it is not used here'}"
                )
            raise

    def gemm(low: Lowering, op: tile.Gemm) -> Value:
        return lower_gemm(low, op, plan_gemm(op, low.threads, target))

    rules: dict[type[Op], Any] = {tile.Gemm: gemm, tile.Copy: copy, tile.AsyncCopy: async_copy}
    rules[tile.Store] = _first(store_rows, MEMORY_RULES[tile.Store])
    if not target.has("tma"):
        return Rules(gemm_plan, rules)
    rules |= {**HOPPER_RULES, **EXPLICIT_RULES, **CLUSTER_RULES}
    rules |= {kind: _first(rule, rules.get(kind, MEMORY_RULES.get(kind))) for kind, rule in STORE_RULES.items()}
    return Rules(gemm_plan, rules, refusal, work=work_of)


def _first(attempt: Callable[..., bool], ordinary: Any) -> Any:
    """The rule that leaves to the ordinary one what it cannot do. The results of what it can are not used."""

    def rule(low: Lowering, op: Any) -> Any:
        return tuple(low.get(op.value) for _ in op.results) if attempt(low, op) else ordinary(low, op)

    return rule


# gemm -----------------------------------------------------------------------------------------------------------------


def plan_gemm(op: tile.Gemm, threads: int, target: Target) -> GemmPlan:
    """Raises TargetError, TypeMismatchError or ResourceError where scales, the dtypes, or the shapes and warps, fit no
    mma."""
    refuse_scales(op, target)
    (m, n), k = op.c.shape, op.depth
    dtype, accumulator = op.a.dtype, op.c.dtype
    feature = FEATURE.get(dtype.name, "")
    lacks = feature not in ("", *target.features)
    if accumulator.name not in ACCUMULATORS.get(dtype.name, ()) or lacks:
        able = [each.name for each in TARGETS if each.has(feature)]
        raise TypeMismatchError(
            f"no mma on {target} multiplies {dtype} by {op.b.dtype} into {accumulator}",
            op.loc,
            hint=f"fp8 products need {able[0]} or later (targets {', '.join(able)}); or cast to float16"
            if lacks
            else f"accumulators for {dtype}: {', '.join(ACCUMULATORS.get(dtype.name, ())) or 'none'}",
        )
    try:
        return make_plan(m, n, k, dtype, threads // 32, op.policy)
    except LayoutError as error:
        raise ResourceError(
            f"gemm of {m}x{n}x{k} {dtype} over {threads} threads: {error}",
            op.loc,
            hint=sizes_that_fit((m, n, k), ATOMS_OF_DTYPE[dtype.name], threads, 32),
        ) from None


@lru_cache(maxsize=256)
def make_plan(m: int, n: int, k: int, dtype: DType, warps: int, policy: str) -> GemmPlan:
    atoms = ATOMS_OF_DTYPE[dtype.name]
    atom = next((a for a in atoms if k % a.k == 0), None)
    if atom is None:
        raise LayoutError(f"K = {k} is not a multiple of {atoms[-1].k}, the k of mma {atoms[-1]}")
    split = warp_partition(policy, m, n, warps, atom)
    repeats = (m // split[0] // atom.m, n // split[1] // atom.n, k // atom.k)
    return GemmPlan(
        atom.name,
        (m, n, k),
        repeats,
        split,
        atom.k,
        mma_operand_a((m, k), atom, split),
        mma_operand_b((k, n), atom, split),
        mma_accumulator((m, n), atom, split),
    )


def lower_gemm(low: Lowering, op: tile.Gemm, plan: GemmPlan) -> Value:
    atom = MMA_ATOMS[plan.atom]
    m, n, _ = plan.shape
    a_step = mma_operand_a((m, atom.k), atom, plan.warps)
    b_step = mma_operand_b((atom.k, n), atom, plan.warps)
    a = fragments(low, op.a, op.a_indices, op.a_dims, op.a_slot, a_step, plan.a, op.transpose_a, 1)
    b = fragments(low, op.b, op.b_indices, op.b_dims, op.b_slot, b_step, plan.b, op.transpose_b, 0)
    c = low.get(op.c)
    if op.scale_d is not None:
        c = low.b.select(low.get(op.scale_d), c, low.b.constant(0, c.dtype))
    once = (*plan.repeats[:2], 1)
    for step in range(plan.repeats[2]):
        c = low.b.emit(
            thread.MmaSync(rounded(low, a.step(step), atom), rounded(low, b.step(step), atom), c, plan.atom, once)
        ).result
    return c


def rounded(low: Lowering, value: Value, atom: MmaAtom) -> Value:
    return low.b.emit(thread.RoundTf32(value)).result if value.dtype is f32 and atom.bits == 32 else value


# copies ---------------------------------------------------------------------------------------------------------------


def async_copy(low: Lowering, op: tile.AsyncCopy) -> Value:
    """The token of the copy; of one that cp.async can't do, a finished one."""
    token = cp_async(low, op)
    if token is None:
        copy(low, op)
        return low.b.emit(tile.NoToken()).result
    return token


def copy(low: Lowering, op: tile.Copy) -> None:
    token = None if isinstance(op, tile.AsyncCopy) or op.tf32 else cp_async(low, op)
    if token is not None:
        with low.b.because(Origin("lower", LANDED)):
            low.b.emit(tile.Wait(low.b.emit(tile.Join((token,))).result))
        return
    move_through_registers(low, op)


def cp_async(low: Lowering, op: tile.Copy) -> Value | None:
    """The token of cp.async instructions for the copy, None where they can't do it."""
    global_to_shared = isinstance(op.src.type, TensorType) and isinstance(op.dst.type, BufferType)
    if not low.target.has("cp_async") or not global_to_shared or op.dst.type.space != "shared":  # type: ignore[attr-defined]
        return None
    fast = contiguous_dim(op.src)
    if fast is not None and op.src_dims[fast] not in (None, len(op.shape) - 1):
        return None  # lanes go along a column of the tile: its rows would be accessed element by element
    element = op.src.dtype.bytes
    layout = coalesced(op.shape, low.threads, op.src.dtype.bits)
    src_starts = [low.facts.affine(v) for v in op.src_indices]
    dst_starts = [low.facts.affine(v) for v in op.dst_indices]
    src_layout, dst_layout = in_memory(layout, op.src_dims), in_memory(layout, op.dst_dims)
    whole = access_width(low, op.src, places(low, src_starts, src_layout), src_layout)
    width = min(
        moved_width(low, op.src, places(low, src_starts, src_layout), src_layout),
        access_width(low, op.dst, places(low, dst_starts, dst_layout), dst_layout),
    )
    if fast is None or op.src_dims[fast] != op.dst_dims[contiguous_dim(op.dst) or 0]:
        width = 1
    if width * element not in (4, 8, 16):
        return None
    if layout.vector_width((0 if fast is None else op.src_dims[fast]) or 0) != width:
        layout = blocked(op.shape, low.threads, width)
        src_layout, dst_layout = in_memory(layout, op.src_dims), in_memory(layout, op.dst_dims)
    src_places, dst_places = places(low, src_starts, src_layout), places(low, dst_starts, dst_layout)
    at_src = [at for _, at in vector_runs(src_layout, width, fast)]
    at_dst = [renumber(at, op.src_dims, op.dst_dims) for at in at_src]
    zeros, skip = GuardBuilder(low), GuardBuilder(low)
    zeros.bounds(op.src, src_places)
    skip.overhang(src_layout)
    owner = low.owner(layout)
    if owner is not None:
        skip.always.append(owner)
    cut: Cut | None = None
    if width > whole and fast is not None:
        zeros_found, cut = cut_guards(low, zeros, at_src, fast, width, None)
    else:
        zeros_found = zeros.finish(at_src)
    skip_found = skip.finish(at_src)
    if cut is not None and cut.ends is None:
        return None
    if cut is not None:
        skip_found, cut = _without_cut(low, skip_found, cut)
    src = global_addresses(low, op.src, src_places, at_src)
    dst = shared_addresses(low, op.dst, op.dst_slot, dst_places, at_dst)
    if cut is not None:
        _copy_cut(low, op, cut, src, dst, width)
    return low.b.emit(
        thread.CpAsync(
            dst.value,
            src.value,
            predicate=zeros_found.value,
            enable=skip_found.value,
            dst_mem=low.get(op.dst),
            dst_slot=None if op.dst_slot is None else low.get(op.dst_slot),
            src_mem=low.get(op.src),
            bytes=width * element,
            dst_of=dst.index,
            dst_offsets=dst.offsets,
            src_of=src.index,
            src_offsets=src.offsets,
            predicate_of=zeros_found.index,
            enable_of=skip_found.index,
            evict=op.evict,
        )
    ).result


def _without_cut(low: Lowering, enable: Guards, cut: Cut) -> tuple[Guards, Cut]:
    """What of enabled copies is copied as a whole, and what is cut."""
    b, runs = low.b, cut.runs
    whole = b.value(arith.Not(runs))
    if enable.value is not None:
        enabled = low.pick(enable.value, enable.index)
        runs, whole = b.value(arith.And(runs, enabled)), b.value(arith.And(whole, enabled))
    return Guards(whole, tuple(range(thread.count_of(runs.type)))), replace(cut, runs=runs)


def _copy_cut(low: Lowering, op: tile.Copy, cut: Cut, src: Addresses, dst: Addresses, width: int) -> None:
    """The vectors that are cut: element by element into registers, with zeros behind the end, and as a whole to shared
    memory."""
    bases, places = [low.pick(dst.value, (n,)) for n in dst.index], [low.b.constant(n) for n in dst.offsets]

    def visit(turn: Turn, now: tuple[Value, ...]) -> tuple[Value, ...]:
        part = Plan("global", 1, tuple(range(width)), turn.addresses, turn.guards)
        value = emit_load(low, part, op.src, None, width, op.evict)
        there = low.b.add(chosen(low, turn.mine, bases), chosen(low, turn.mine, places))
        to = Plan("shared", width, (), Addresses(there, (0,), (0,)), Guards(None, ()))
        emit_store(low, to, op.dst, op.dst_slot, value)
        return now

    in_turn(low, cut, src, width, op.src.dtype.bytes, (), visit)


def renumber(at: tuple[int, ...], source: tile.Dims, target: tile.Dims) -> tuple[int, ...]:
    """An offset in one memory's dimensions, in those of the other."""
    of_tile = {t: at[m] for m, t in enumerate(source) if t is not None}
    return tuple(0 if t is None else of_tile[t] for t in target)
