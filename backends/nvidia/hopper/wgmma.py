"""Gemms by wgmma: what it takes, the plan of one, its lowering.

An instruction multiplies 64 rows by N columns by 32 bytes of K (PTX ISA 8.3, 9.7.14.2 "Asynchronous Warpgroup Level
Matrix Multiply-Accumulate Operation": shapes and types). A gemm is one thread operation: for each block of 64 rows and
strip of N columns that the warpgroup has, all steps of K.

    operands               accumulator   N                                  K-major only
    f16 × f16              f32, f16      8, 16, …, 256
    bf16 × bf16            f32           8, 16, …, 256
    f32 × f32 (as tf32)    f32           8, 16, …, 256                      yes
    e4m3, e5m2, mixed      f32, f16      8, 16, …, 256                      yes
    i8, u8, mixed          i32           8, 16, 24, 32, 48, 64, …, 256      yes

A matrix is K-major where K runs along the rows of its buffer. Warpgroups share the accumulator's rows as far as there
are blocks of 64 for them, then its columns; with the policy "full_col" columns first. Each block reads all columns of B
that its warpgroup has, so that splitting rows reads least.

Descriptors say where an operand starts and how its 8-row groups lie (PTX ISA 8.3, 9.7.14.5.1 "Matrix Descriptor"):
start address >> 4 in bits 0-13, leading byte offset >> 4 in 16-29, stride byte offset >> 4 in 32-45, swizzle mode in
62-63 (1: 128 B, 2: 64 B, 3: 32 B, 0: none). K-major: the stride offset is that of 8 rows, the leading one is not used.
MN-major: the stride offset is that of 8 rows of K, the leading one that of the next panel; the other way round where
panels of 16 bytes are not swizzled. Steps along K, blocks along M and the warpgroup's part move the start address,
before the swizzle: by whole patterns of 8 rows, whole panels, or 32 bytes inside a row."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from minitile.analysis.register_budget import ACCUMULATOR_ROOM, BUDGETS, PRODUCER_THREADS, equal_share
from minitile.backends.base import GemmPlan
from minitile.hardware import THREAD_REGISTERS, WARPGROUP
from minitile.ir.builder import Builder, constant_of
from minitile.ir.core import Value
from minitile.ir.diagnostics import MinitileError
from minitile.ir.ops import arith, hopper, roles, thread, tile
from minitile.ir.types import DTYPES, BufferType, TileType, f32, i32, i64
from minitile.layout import LayoutError, boxed, wgmma_accumulator, wgmma_operand_a
from minitile.layout.shared import CHUNK_BITS, SharedLayout
from minitile.lowering.context import Lowering, layout_of
from minitile.lowering.memory import shared_layout

ROWS = 64  # of the accumulator in one instruction
ATOM_K_BYTES = 32  # of K in one instruction
MOST_COLUMNS = 256
MOST_GROUPS = 4  # with the producer's 640 threads; five consumers would have too few registers for any accumulator
MODE = {128: 1, 64: 2, 32: 3, 0: 0}


@dataclass(frozen=True, slots=True)
class _Kind:
    """What multiplies with an operand of one dtype, into what; whether M or N may be contiguous; the step of N above
    32 columns."""

    partners: tuple[str, ...]
    accumulators: tuple[str, ...]
    mn_major: bool = False
    step: int = 8


_FP8, _INT8 = ("e4m3", "e5m2"), ("i8", "u8")
KINDS = {
    "f16": _Kind(("f16",), ("f32", "f16"), mn_major=True),
    "bf16": _Kind(("bf16",), ("f32",), mn_major=True),
    "f32": _Kind(("f32",), ("f32",)),
    **dict.fromkeys(_FP8, _Kind(_FP8, ("f32", "f16"))),
    **dict.fromkeys(_INT8, _Kind(_INT8, ("i32",), step=16)),
}


# What it takes -------------------------------------------------------------------------------------------------------


def plan_wgmma(op: tile.Gemm, threads: int, total: int | None = None) -> GemmPlan:
    """The layouts of a gemm over the warpgroups, and its instructions in a kernel of `total` threads (None: these and a
    producer). Raises MinitileError with the reason where wgmma can't do it."""
    try:
        return _plan_of(op, threads, total)
    except LayoutError as reason:
        raise MinitileError(f"no wgmma for this gemm: {reason}", op.loc) from None


def refusal(op: tile.Gemm, threads: int) -> str:
    """Why wgmma can't do a gemm whose shared operands begin where the swizzle does; "" where it can."""
    try:
        _plan_of(op, threads)
    except LayoutError as reason:
        return f"wgmma: {reason}"
    return ""


def _plan_of(op: tile.Gemm, threads: int, total: int | None = None) -> GemmPlan:
    m, n = op.c.shape
    k = op.depth
    _check_types(op)
    if isinstance(op.b.type, TileType):
        raise LayoutError("B is in registers, and is read from shared memory only")
    groups, rest = divmod(threads, WARPGROUP)
    if rest or not groups:
        raise LayoutError(f"{threads} threads are not whole warpgroups of {WARPGROUP}")
    if groups > MOST_GROUPS:
        raise LayoutError(f"{threads} threads are more than {MOST_GROUPS} warpgroups that multiply")
    step = ATOM_K_BYTES * 8 // op.a.dtype.bits
    if k % step:
        raise LayoutError(f"K = {k} is not a multiple of {step}, which one instruction of {op.a.dtype} takes")
    for name, value, k_dim in (("A", op.a, 0 if op.transpose_a else 1), ("B", op.b, 1 if op.transpose_b else 0)):
        if not isinstance(value.type, BufferType):
            continue
        layout = value.op.layout if isinstance(value.op, tile.Alloc) else None
        if not readable(
            layout or boxed(value.shape[-2:], value.dtype.bits), k_dim
        ):  # what select_shared_layout will choose
            where = f"as {layout}" if layout else f"in rows of {value.shape[-1] * value.dtype.bytes} bytes"
            raise LayoutError(f"{name} lies in shared memory {where}, which no descriptor says")
    # A panel is as many columns as a row of the swizzle has; several are not neighbours.
    panel = 1 if op.transpose_b else boxed(op.b.shape[-2:], op.b.dtype.bits).dims[-1][0].size
    # ptxas gives the whole kernel an equal share of the registers, whatever setmaxnreg says (C7602), and an
    # instruction's accumulators must fit.
    share = min(equal_share(total or threads + PRODUCER_THREADS), THREAD_REGISTERS)
    most = min(MOST_COLUMNS, (share - ACCUMULATOR_ROOM) * 2 * 32 // op.c.dtype.bits)
    return _plan(m, n, k, op.a.dtype.name, op.c.dtype.bits, groups, op.policy, panel, most)


def _check_types(op: tile.Gemm) -> None:
    if op.scaled:
        raise LayoutError("it has no scales of blocks")
    a, b, c = op.a.dtype, op.b.dtype, op.c.dtype
    kind = KINDS.get(a.name)
    if kind is None or b.name not in kind.partners or c.name not in kind.accumulators:
        raise LayoutError(f"{a} by {b} into {c} is not among its types")
    if kind.mn_major:
        return
    in_shared = isinstance(op.a.type, BufferType)
    for name, contiguous in (("A", not (in_shared and op.transpose_a)), ("B", op.transpose_b)):
        if not contiguous:
            rows = "K×M" if name == "A" else "K×N"
            raise LayoutError(f"{name} is {rows} in shared memory; K must be contiguous for {a}")


@lru_cache(maxsize=64)
def _plan(
    m: int, n: int, k: int, kind: str, accumulator_bits: int, groups: int, policy: str, panel: int, most: int
) -> GemmPlan:
    """`panel`: the columns of B that stay together. `most`: the columns that an instruction may have."""
    fits, reasons = [], []
    for gn in range(1, groups + 1):
        gm, rest = divmod(groups, gn)
        if rest:
            continue
        reason = _misfit(m / gm, n / gn, panel if gn > 1 else 1)
        if not reason and not _columns(n // gn, KINDS[kind], panel, most):
            reason = f"and an instruction has {most} columns at most"
        words = m * n * accumulator_bits // (32 * WARPGROUP * groups)
        if not reason and words + ACCUMULATOR_ROOM > BUDGETS[groups][1]:
            reason = f"which takes {words} of a thread's {BUDGETS[groups][1]} registers"
        reasons.append(f"{gm}x{gn} leaves each {m / gm:g}x{n / gn:g}, {reason}")
        if not reason:
            fits.append((gm, gn))
    if not fits:
        raise LayoutError(f"{m}x{n} over {groups} warpgroup{'s' * (groups > 1)}: {'; '.join(reasons)}")
    gm, gn = fits[-1] if policy == "full_col" else fits[0]
    bits = DTYPES[kind].bits
    step = ATOM_K_BYTES * 8 // bits
    c = wgmma_accumulator((m, n), (gm, gn))
    a = wgmma_operand_a((m, k), bits, (gm, gn))
    columns = _columns(n // gn, KINDS[kind], panel, most)
    repeats = (m // gm // ROWS, n // gn // columns, k // step)
    return GemmPlan(f"m64n{columns}k{step}", (m, n, k), repeats, (gm, gn), step, a, a, c)


def _misfit(m: float, n: float, panel: int) -> str:
    """Why a warpgroup can't have m×n of the accumulator; "" if it can."""
    if m % ROWS:
        return f"and rows come in blocks of {ROWS}"
    if n % 8:
        return "and columns come in steps of 8"
    if n % panel and panel % n:
        return f"which is neither whole panels of {panel} columns nor one of several equal parts of a panel"
    return ""


def _columns(n: int, kind: _Kind, panel: int, most: int) -> int:
    """Of each of the equal instructions that share n columns, as few as possible; 0 if there are none."""
    for count in range(-(-n // most), n // 8 + 1):
        columns = n // count
        exists = n % count == 0 and columns % (8 if columns <= 32 else kind.step) == 0
        if exists and not _misfit(ROWS, columns, panel if count > 1 else 1):
            return columns
    return 0


# Lowering ------------------------------------------------------------------------------------------------------------


def async_gemm(low: Lowering, op: roles.AsyncGemm) -> tuple[Value, ...]:
    """The one thread operation."""
    attrs = low.kernel.attrs
    plan = plan_wgmma(op, low.threads, attrs["threads"] + attrs.get("producer_threads", 0))
    (m, n, _), (blocks, strips, steps), (gm, gn), step = plan.shape, plan.repeats, plan.warps, plan.step
    columns = n // gn // strips
    group = warpgroup(low)
    b = _Operand(low, op.b, op.b_slot, op.b_indices, k_dim=1 if op.transpose_b else 0)
    b_part = low.b.floordiv(group, gm) if gn > 1 else None
    if isinstance(op.a.type, TileType):
        first, a_offsets, transpose_a = low.get(op.a), (0,) * (blocks * steps), False
    else:
        a = _Operand(low, op.a, op.a_slot, op.a_indices, k_dim=0 if op.transpose_a else 1)
        a_part = (low.b.floormod(group, gm) if gn > 1 else group) if gm > 1 else None
        first = a.descriptor(a_part, m // gm)
        a_offsets = tuple(a.at(ROWS * block, step * k) >> 4 for block in range(blocks) for k in range(steps))
        transpose_a = not a.k_major
    # A cleared accumulator is none at all: the first step of K writes it (scale-d), and no register is filled.
    scale_d = None if op.scale_d is None else low.get(op.scale_d)
    never = scale_d is not None and constant_of(scale_d) is False
    cleared = never or (isinstance(op.c.op, tile.Splat) and constant_of(op.c.op.value) == 0)
    new = hopper.Wgmma(
        first,
        b.descriptor(b_part, n // gn),
        tuple(low.get(v) for v in (op.a, op.b) if isinstance(v.type, BufferType)),
        (op.a.dtype, op.b.dtype),
        op.c.dtype,
        columns,
        step,
        a_offsets,
        tuple(b.at(columns * strip, step * k) >> 4 for strip in range(strips) for k in range(steps)),
        strips=strips,
        c=None if cleared else low.get(op.c),
        scale_d=None if cleared else scale_d,
        behind=None if op.behind is None else low.get(op.behind),
        transpose_a=transpose_a,
        transpose_b=not b.k_major,
    )
    return low.b.emit(new).results


def unset(low: Lowering, op: roles.Unset) -> Value:
    return low.b.emit(hopper.UnsetRegisters(layout_of(op.result).num_regs, op.dtype)).result


def warpgroup(low: Lowering) -> Value:
    """The number of the thread's warpgroup among those at hand."""

    def make(b: Builder) -> Value:
        group = b.floordiv(b.emit(hopper.WarpIndex()).result, 4)
        return group if low.team is None else b.sub(group, low.team[0] // 128)

    group: Value = low.in_entry("group", make)
    return group


def fragment(low: Lowering, op: roles.Fragment) -> Value:
    """What the tensor cores would truncate is rounded, as for mma.sync."""
    value = low.get(op.a)
    return low.b.value(thread.RoundTf32(value) if op.a.dtype is f32 else roles.Fragment(value))


class _Operand:
    """A shared matrix, or the part of one from `start` on, as wgmma sees it; offsets in bytes, before the swizzle."""

    def __init__(self, low: Lowering, buffer: Value, slot: Value | None, start: tuple[Value, ...], k_dim: int) -> None:
        self.low, self.buffer, self.slot, self.k_dim = low, buffer, slot, k_dim
        self.begins = start
        self.start = [int(constant_of(v) or 0) for v in start]  # what run time knows is added to the descriptor
        self.shared = shared_layout(buffer)
        self.k_major = self.shared.contiguous_dim == k_dim
        assert readable(self.shared, k_dim), f"no descriptor says how this lies: {self.shared}"

    def offset(self, mn: int, k: int) -> int:
        at = (mn, k) if self.k_dim == 1 else (k, mn)
        return self.shared.affine_bits(at) // 8

    def at(self, mn: int, k: int) -> int:
        """The offset in the buffer of an element of the operand, which begins somewhere in there."""
        row, column = (mn, k) if self.k_dim == 1 else (k, mn)
        return self.shared.affine_bits((self.start[0] + row, self.start[1] + column)) // 8

    def descriptor(self, part: Value | None, rows: int) -> Value:
        """Of the warpgroup's part, `rows` of M or N, if there are several. The version is added to the descriptor:
        addresses in shared memory stay below 2^18, so that nothing is carried out of its first field."""
        low, b, shared = self.low, self.low.b, self.shared
        buffer = low.get(self.buffer)
        start = low.in_entry(("buffer", self.buffer), lambda b: b.emit(thread.BufferAddress(buffer)).result)
        if part is not None:
            start = b.add(start, self.moved(part, rows))
        low_bits = b.value(arith.Shr(b.and_(start, b.constant(0x3FFFF)), b.constant(4)))
        first = b.value(arith.Or(b.cast(low_bits, i64), b.constant(self.constant_bits(), i64)))
        if any(constant_of(v) is None for v in self.begins):
            first = b.add(first, b.cast(b.value(arith.Shr(self.bytes_in(), b.constant(4))), i64))
        if self.slot is None:
            return first
        return b.add(first, b.mul(b.cast(low.get(self.slot), i64), shared.stage_bytes >> 4))

    def bytes_in(self) -> Value:
        """Where in the buffer the operand begins, as far as only run time knows."""
        b, total = self.low.b, self.low.b.constant(0)
        for dim, divisor, size, stride in self.shared.address_terms():
            if constant_of(self.begins[dim]) is None:
                at = b.floordiv(b.cast(self.low.get(self.begins[dim]), i32), divisor)
                total = b.add(total, b.mul(at if size is None else b.floormod(at, size), stride))
        return total

    def moved(self, part: Value, rows: int) -> Value:
        """Bytes to the warpgroup's part: several may lie in one panel."""
        b = self.low.b
        columns, _, panel_bytes = panels_of(self.shared)
        if self.k_major or rows >= columns:
            return b.mul(part, self.offset(rows, 0))
        inside = b.mul(b.floormod(part, columns // rows), self.offset(rows, 0))
        return b.add(inside, b.mul(b.floordiv(part, columns // rows), panel_bytes))

    def constant_bits(self) -> int:
        """All of the descriptor but the start address, as a signed number."""
        width = self.shared.swizzle.width
        if self.k_major:
            leading, stride = 1, 8 * width >> 4
        else:
            _, panels, panel_bytes = panels_of(self.shared)
            leading, stride = (panel_bytes >> 4 if panels > 1 else 1), 8 * (width or 16) >> 4
            if not width:
                leading, stride = stride, leading
        bits = leading << 16 | stride << 32 | MODE[width] << 62
        return bits - (1 << 64) if bits >> 63 else bits


def readable(shared: SharedLayout, k_dim: int) -> bool:
    """Whether a descriptor can say how an operand lies: swizzled, or unswizzled in panels of 16 bytes across K."""
    in_panels = panels_of(shared)[0] * shared.element_bits == CHUNK_BITS and shared.contiguous_dim != k_dim
    return shared.swizzle.width > 0 or in_panels


def panels_of(shared: SharedLayout) -> tuple[int, int, int]:
    """Columns of a panel, how many panels, bytes from one to the next."""
    digits = shared.dims[-1]
    if len(digits) < 2:  # one column has no digit
        return shared.shape[-1], 1, 0
    return digits[0].size, digits[1].size, digits[1].stride // 8
