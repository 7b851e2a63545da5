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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from minitile.backends.nvidia.hopper import HOPPER_RULES
from minitile.backends.nvidia.tma_store import STORE_RULES
from minitile.backends.nvidia.wgmma import plan_wgmma, refusal
from minitile.ir.core import Op, Value
from minitile.ir.diagnostics import ResourceError, TypeMismatchError
from minitile.ir.ops import roles, thread, tile
from minitile.ir.types import BufferType, DType, TensorType, TileType, f32
from minitile.layout import (
    ATOMS_OF_DTYPE,
    MMA_ATOMS,
    Layout,
    LayoutError,
    MmaAtom,
    blocked,
    coalesced,
    mma_accumulator,
    mma_operand_a,
    mma_operand_b,
    warp_partition,
)
from minitile.layout.access import bits_of_digits, vector_runs
from minitile.layout.access import vector_width as shared_width
from minitile.layout.ldmatrix import ldmatrix_plan
from minitile.layout.shared import add_maybe_bits
from minitile.passes.affine import Affine
from minitile.passes.lower import Lowering
from minitile.passes.lower_memory import (
    MEMORY_RULES,
    GuardBuilder,
    Place,
    access_width,
    bits_of_start,
    global_addresses,
    in_memory,
    move_through_registers,
    places,
    shared_addresses,
    shared_layout,
)
from minitile.passes.rules import GemmPlan, Rules
from minitile.target import Target

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
        return plan_wgmma(op, threads) if isinstance(op, roles.AsyncGemm) else plan_gemm(op, threads, target)

    def gemm(low: Lowering, op: tile.Gemm) -> Value:
        return lower_gemm(low, op, plan_gemm(op, low.threads, target))

    rules: dict[type[Op], Any] = {tile.Gemm: gemm, tile.Copy: copy, tile.AsyncCopy: async_copy}
    if not target.has("wgmma"):
        return Rules(gemm_plan, rules)
    rules |= HOPPER_RULES
    rules |= {kind: _first(rule, rules.get(kind, MEMORY_RULES.get(kind))) for kind, rule in STORE_RULES.items()}
    return Rules(gemm_plan, rules, refusal)


def _first(attempt: Callable[..., bool], ordinary: Any) -> Any:
    """The rule that leaves to the ordinary one what it cannot do. Nobody wants the results of what it can."""

    def rule(low: Lowering, op: Any) -> Any:
        return tuple(low.get(op.value) for _ in op.results) if attempt(low, op) else ordinary(low, op)

    return rule


# gemm -----------------------------------------------------------------------------------------------------------------


def extents(operand: Value, dims: tile.Dims) -> tuple[int, ...]:
    """The shape of a gemm operand as a tile."""
    if isinstance(operand.type, TileType):
        return operand.shape
    sized = [(t, operand.shape[m]) for m, t in enumerate(dims) if t is not None]
    return tuple(size for _, size in sorted(sized))


def plan_gemm(op: tile.Gemm, threads: int, target: Target) -> GemmPlan:
    """Raises TypeMismatchError or ResourceError where the dtypes, or the shapes and warps, fit no mma."""
    a, b = extents(op.a, op.a_dims), extents(op.b, op.b_dims)
    (m, k) = a[::-1] if op.transpose_a else a
    n = b[0] if op.transpose_b else b[1]
    dtype, accumulator = op.a.dtype, op.c.dtype
    if accumulator.name not in ACCUMULATORS.get(dtype.name, ()) or FEATURE.get(dtype.name, "") not in (
        "",
        *target.features,
    ):
        raise TypeMismatchError(
            f"no mma on {target} multiplies {dtype} by {op.b.dtype} into {accumulator}",
            op.loc,
            hint=f"accumulators for {dtype}: {', '.join(ACCUMULATORS.get(dtype.name, ())) or 'none'}",
        )
    try:
        return make_plan(m, n, k, dtype, threads // 32, op.policy)
    except LayoutError as error:
        raise ResourceError(
            f"gemm of {m}x{n}x{k} {dtype} over {threads} threads: {error}",
            op.loc,
            hint="make block_M and block_N multiples of what the warps need, or use fewer threads",
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
    once = (*plan.repeats[:2], 1)
    for step in range(plan.repeats[2]):
        c = low.b.emit(
            thread.MmaSync(rounded(low, a.step(step), atom), rounded(low, b.step(step), atom), c, plan.atom, once)
        ).result
    return c


def rounded(low: Lowering, value: Value, atom: MmaAtom) -> Value:
    return low.b.emit(thread.RoundTf32(value)).result if value.dtype is f32 and atom.bits == 32 else value


class Fragments:
    """A gemm operand, one step of K at a time."""

    def step(self, number: int) -> Value:
        raise NotImplementedError


def fragments(
    low: Lowering,
    operand: Value,
    indices: Sequence[Value],
    dims: tile.Dims,
    slot: Value | None,
    layout: Layout,
    whole: Layout,
    transposed: bool,
    k_dim: int,
) -> Fragments:
    """`layout` is one step's, `whole` all of K's; both in the order of the multiplication, K along `k_dim`."""
    if transposed:
        layout, whole, k_dim = layout.permute_dims((1, 0)), whole.permute_dims((1, 0)), 1 - k_dim
    if isinstance(operand.type, TileType):
        return RegisterFragments(low, low.get(operand), layout, whole, k_dim)
    steps = whole.shape[k_dim] // layout.shape[k_dim]
    return SharedFragments(low, operand, indices, dims, slot, layout, k_dim, steps)


class RegisterFragments(Fragments):
    def __init__(self, low: Lowering, value: Value, layout: Layout, whole: Layout, k_dim: int) -> None:
        self.low, self.value, self.layout, self.k_dim = low, value, layout, k_dim
        self.where = {at: reg for reg, at in enumerate(whole.register_offsets())}

    def step(self, number: int) -> Value:
        moved = number * self.layout.shape[self.k_dim]
        wanted = [list(at) for at in self.layout.register_offsets()]
        for at in wanted:
            at[self.k_dim] += moved
        return self.low.pick(self.value, [self.where[tuple(at)] for at in wanted])


@dataclass(frozen=True, slots=True)
class _Access:
    registers: tuple[int, ...]
    offset: tuple[int, ...]


class SharedFragments(Fragments):
    """Addresses of all steps are made at once; each step then loads with its share of them."""

    def __init__(
        self,
        low: Lowering,
        buffer: Value,
        indices: Sequence[Value],
        dims: tile.Dims,
        slot: Value | None,
        layout: Layout,
        k_dim: int,
        steps: int,
    ) -> None:
        self.low, self.buffer, self.slot, self.layout = low, buffer, slot, layout
        shared = shared_layout(buffer)
        starts = [low.facts.affine(v) for v in indices] if indices else [Affine(0)] * len(buffer.shape)
        inside = in_memory(layout, dims)
        start_bits = tuple(bits_of_start(low, s) for s in starts)
        self.matrix = ldmatrix_plan(inside, shared, 4, start_bits)
        if self.matrix is not None:
            bits = bits_of_digits(self.matrix.lane_digits + inside.warp, inside.rank)
            rows = [tuple(d for d in self.matrix.rows if d.dim == m) for m in range(inside.rank)]
            where = [
                Place(start, low.digits_value(row), 0, add_maybe_bits(mine, base))
                for start, row, mine, base in zip(starts, rows, bits, start_bits, strict=True)
            ]
            self.width = 1
            self.accesses = [_Access(sum(x.registers, ()), x.offset) for x in self.matrix.accesses]
        else:
            where = places(low, starts, inside)
            self.width = shared_width(inside, shared)
            runs = vector_runs(inside, self.width, shared.contiguous_dim)
            self.accesses = [_Access(registers, at) for registers, at in runs]
        k_memory = dims.index(k_dim)
        size = layout.shape[k_dim]
        offsets = [moved(x.offset, k_memory, step * size) for step in range(steps) for x in self.accesses]
        self.addresses = shared_addresses(low, buffer, slot, where, offsets)

    def step(self, number: int) -> Value:
        low, count = self.low, len(self.accesses)
        mine = slice(number * count, (number + 1) * count)
        order = [r for x in self.accesses for r in x.registers]
        common = {
            "mem": low.get(self.buffer),
            "slot": None if self.slot is None else low.get(self.slot),
            "address_of": self.addresses.index[mine],
            "offsets": self.addresses.offsets[mine],
        }
        if self.matrix is not None:
            words = count * self.matrix.count
            op: Op = thread.LdMatrix(
                self.addresses.value,
                dtype=self.buffer.dtype,
                words=words,
                number=self.matrix.count,
                transpose=self.matrix.trans,
                **common,
            )
        else:
            op = thread.LoadMem(
                self.addresses.value,
                space="shared",
                dtype=self.buffer.dtype,
                count=len(order),
                width=self.width,
                **common,
            )
        back = [0] * len(order)
        for n, register in enumerate(order):
            back[register] = n
        return low.pick(low.b.emit(op).result, back)


def moved(at: tuple[int, ...], dim: int, by: int) -> tuple[int, ...]:
    return (*at[:dim], at[dim] + by, *at[dim + 1 :])


# copies ---------------------------------------------------------------------------------------------------------------


def async_copy(low: Lowering, op: tile.AsyncCopy) -> Value:
    """The token of the copy; of one that cp.async can't do, a finished one."""
    token = cp_async(low, op)
    if token is None:
        copy(low, op)
        return low.b.emit(tile.NoToken()).result
    return token


def copy(low: Lowering, op: tile.Copy) -> None:
    token = None if isinstance(op, tile.AsyncCopy) else cp_async(low, op)
    if token is not None:
        low.b.emit(tile.Wait(low.b.emit(tile.Join((token,))).result))
        return
    move_through_registers(low, op, coalesced(op.shape, low.threads, op.src.dtype.bits))


def cp_async(low: Lowering, op: tile.Copy) -> Value | None:
    """The token of cp.async instructions for the copy, None where they can't do it."""
    global_to_shared = isinstance(op.src.type, TensorType) and isinstance(op.dst.type, BufferType)
    if not low.target.has("cp_async") or not global_to_shared or op.dst.type.space != "shared":  # type: ignore[attr-defined]
        return None
    element = op.src.dtype.bytes
    layout = coalesced(op.shape, low.threads, op.src.dtype.bits)
    src_starts = [low.facts.affine(v) for v in op.src_indices]
    dst_starts = [low.facts.affine(v) for v in op.dst_indices]
    src_layout, dst_layout = in_memory(layout, op.src_dims), in_memory(layout, op.dst_dims)
    width = min(
        access_width(low, op.src, places(low, src_starts, src_layout), src_layout),
        access_width(low, op.dst, places(low, dst_starts, dst_layout), dst_layout),
    )
    if op.src_dims[-1] != op.dst_dims[shared_layout(op.dst).contiguous_dim or 0]:
        width = 1
    if width * element not in (4, 8, 16):
        return None
    if layout.vector_width(op.src_dims[-1] or 0) != width:
        layout = blocked(op.shape, low.threads, width)
        src_layout, dst_layout = in_memory(layout, op.src_dims), in_memory(layout, op.dst_dims)
    src_places, dst_places = places(low, src_starts, src_layout), places(low, dst_starts, dst_layout)
    fast = len(op.src_dims) - 1
    at_src = [at for _, at in vector_runs(src_layout, width, fast)]
    at_dst = [renumber(at, op.src_dims, op.dst_dims) for at in at_src]
    zeros, skip = GuardBuilder(low), GuardBuilder(low)
    zeros.bounds(op.src, src_places, src_layout)
    skip.overhang(src_layout)
    owner = low.owner(layout)
    if owner is not None:
        skip.always.append(owner)
    zeros_found, skip_found = zeros.finish(at_src), skip.finish(at_src)
    src = global_addresses(low, op.src, src_places, at_src)
    dst = shared_addresses(low, op.dst, op.dst_slot, dst_places, at_dst)
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
        )
    ).result


def renumber(at: tuple[int, ...], source: tile.Dims, target: tile.Dims) -> tuple[int, ...]:
    """An offset in one memory's dimensions, in those of the other."""
    of_tile = {t: at[m] for m, t in enumerate(source) if t is not None}
    return tuple(0 if t is None else of_tile[t] for t in target)
