"""What a wave does together: mfma, barriers, fences, and renaming registers. Shuffles are in shuffle.py.

mfma is fed with A and B exchanged: the hardware's result has its rows in registers and its columns in lanes, so that
computing the transpose gives a lane neighbours of one row of C, which are stored together. minitile/layout/atoms.py has
the fragments as they are then.

Sources: LLVM 22, IntrinsicsAMDGPU.td (operand types of mfma); "User Guide for AMDGPU Backend", "Memory Model gfx942"
(what fences wait for, write back and invalidate); the bits of s_waitcnt: "CDNA 3" ISA, S_WAITCNT.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from minitile.backends.amd.emit.emitter import Emitter
from minitile.backends.amd.emit.llvm import scalar_type, type_of, vector
from minitile.ir.core import Op, Value
from minitile.ir.diagnostics import InternalError, TargetError
from minitile.ir.ops import explicit, fences, thread, warp
from minitile.layout import MFMA_ATOMS


@dataclass(frozen=True, slots=True)
class Mfma:
    """One instruction: `k` elements of each operand a lane takes at once, as the LLVM type `operand`; what follows the
    accumulator among its arguments."""

    name: str
    k: int
    operand: str
    rest: tuple[int, ...] = (0, 0, 0)


# By tile, dtypes of A and B, and target, the widest first. An atom's fragment may be fed to several instructions in
# turn, each with its part of K, which is the same part of both operands.
Key = tuple[str, str, str, str]


def _instructions() -> dict[Key, list[Mfma]]:
    found: dict[Key, list[Mfma]] = {}
    both = ("gfx942", "gfx950")

    def add(tile: str, dtypes: tuple[str, str], archs: Sequence[str], name: str, k: int, operand: str) -> None:
        for arch in archs:
            found.setdefault((tile, *dtypes, arch), []).append(Mfma(f"llvm.amdgcn.mfma.{name}", k, operand))

    for tile, wide, narrow, f32 in (("16x16", 32, 16, 4), ("32x32", 16, 8, 2)):
        for dtype, old, element in (("f16", "f16", "half"), ("bf16", "bf16.1k", "i16")):
            new = "bfloat" if dtype == "bf16" else element
            add(tile, (dtype, dtype), both[1:], f"f32.{tile}x{wide}.{dtype}", 8, f"<8 x {new}>")
            add(tile, (dtype, dtype), both, f"f32.{tile}x{narrow}{old}", 4, f"<4 x {element}>")
        add(tile, ("i8", "i8"), both[1:], f"i32.{tile}x{2 * wide}.i8", 16, "<4 x i32>")
        add(tile, ("i8", "i8"), both, f"i32.{tile}x{wide}.i8", 8, "i64")
        add(tile, ("f32", "f32"), both, f"f32.{tile}x{f32}f32", 1, "float")
        # What is called fp8 and bf8 are the formats FNUZ on gfx942, OCP on gfx950.
        for arch, suffix in (("gfx942", "fnuz"), ("gfx950", "")):
            for a, b in itertools.product((("e4m3", "fp8", 0), ("e5m2", "bf8", 1)), repeat=2):
                pair = a[0] + suffix, b[0] + suffix
                if arch == "gfx950":
                    # A is the hardware's B. The formats, and for each scale which byte of what: 0 is no scale at all.
                    name = f"llvm.amdgcn.mfma.scale.f32.{tile}x{4 * wide}.f8f6f4.v8i32.v8i32"
                    rest = (b[2], a[2], 0, 0, 0, 0)
                    found.setdefault((tile, *pair, arch), []).append(Mfma(name, 32, "<8 x i32>", rest))
                add(tile, pair, (arch,), f"f32.{tile}x{wide}.{b[1]}.{a[1]}", 8, "i64")
    return found


INSTRUCTIONS = _instructions()


def mma(w: Emitter, op: thread.MmaSync) -> None:
    if op.a_scale is not None:
        scaled_mma(w, op)
        return
    atom = MFMA_ATOMS[op.atom]
    tile = f"{atom.m}x{atom.n}"
    a_type, b_type, accumulator = op.a.dtype, op.b.dtype, op.c.dtype
    each, c_width = atom.a.num_regs, atom.c.num_regs
    fitting = INSTRUCTIONS.get((tile, a_type.name, b_type.name, w.target.lowering), [])
    form = next((form for form in fitting if each % form.k == 0), None)
    if form is None:
        raise TargetError(f"{w.target} has no mfma {tile} of {a_type} and {b_type}", op.loc)
    a, b = (_operands(w, v, form) for v in (op.a, op.b))
    c = list(w.spread(op.c, thread.count_of(op.result.type) // c_width, c_width))
    kind = type_of(accumulator, c_width)
    rest = [("i32", str(number)) for number in form.rest]
    m_count, n_count, k_count = op.repeats
    per_atom = each // form.k
    for k in range(k_count):
        for part in range(per_atom):
            for m in range(m_count):
                x = a[(m * k_count + k) * per_atom + part]
                for n in range(n_count):
                    y = b[(n * k_count + k) * per_atom + part]
                    at = m * n_count + n
                    c[at] = w.call(form.name, kind, [*_pair(form, y, x), (kind, c[at]), *rest], "acc")
    w.define(op.result, c, c_width)


# The formats of f8f6f4 (cbsz of A, blgp of B), and the operand that has 32 elements of each: LLVM 22,
# IntrinsicsAMDGPU.td, int_amdgcn_mfma_scale_*. "CDNA 4" ISA, "Matrix Arithmetic Instructions": a lane's scale is one
# byte of a register, chosen by op_sel; an SGPR or a constant is read wrongly (LLVM pull request 158117), and LLVM
# makes VGPRs of them.
FORMATS = {"e4m3": (0, 8), "e5m2": (1, 8), "e2m3": (2, 6), "e3m2": (3, 6), "e2m1": (4, 4)}


def scaled_mma(w: Emitter, op: thread.MmaSync) -> None:
    """A is the hardware's B here, too, and so are its format and its scales."""
    assert op.a_scale is not None
    assert op.b_scale is not None
    atom = MFMA_ATOMS[op.atom]
    (cbsz, b_words), (blgp, a_words) = FORMATS[op.formats[1]], FORMATS[op.formats[0]]
    c_width = atom.c.num_regs
    kind = type_of(op.c.dtype, c_width)
    name = f"llvm.amdgcn.mfma.scale.f32.{atom.m}x{atom.n}x{atom.k}.f8f6f4.v{b_words}i32.v{a_words}i32"
    a, b = w.parts(op.a, 4 * a_words), w.parts(op.b, 4 * b_words)
    a_scales, b_scales = scale_bytes(w, op.a_scale), scale_bytes(w, op.b_scale)
    c = list(w.spread(op.c, thread.count_of(op.result.type) // c_width, c_width))
    m_count, n_count, k_count = op.repeats
    for k in range(k_count):
        for m in range(m_count):
            x, (x_scale, x_byte) = a[m * k_count + k], a_scales[m * k_count + k]
            for n in range(n_count):
                y, (y_scale, y_byte) = b[n * k_count + k], b_scales[n * k_count + k]
                at = m * n_count + n
                operands = [(f"<{b_words} x i32>", y), (f"<{a_words} x i32>", x), (kind, c[at])]
                rest = [("i32", str(v)) for v in (cbsz, blgp, y_byte, y_scale, x_byte, x_scale)]
                c[at] = w.call(name, kind, [*operands, *rest], "acc")
    w.define(op.result, c, c_width)


def scale_bytes(w: Emitter, value: Value) -> list[tuple[str, int]]:
    """For each byte of a value the 32-bit register that has it, and which of its bytes it is: as the value lies, four
    in a register or two, else each by itself."""
    widths = w.forms(value)
    width = 4 if any(width % 4 == 0 for width in widths) else 2 if 2 in widths else 1
    words = w.parts(value, width)
    if width < 4:
        words = [w.let(f"zext i{8 * width} {word} to i32") for word in words]
    return [(word, byte) for word in words for byte in range(width)]


def _pair(form: Mfma, first: str, second: str) -> list[tuple[str, str]]:
    return [(form.operand, first), (form.operand, second)]


def _operands(w: Emitter, value: Any, form: Mfma) -> list[str]:
    kind = type_of(value.dtype, form.k)
    parts = w.parts(value, form.k)
    return parts if kind == form.operand else [w.let(f"bitcast {kind} {x} to {form.operand}") for x in parts]


# Barriers ------------------------------------------------------------------------------------------------------------


ALL_DONE = str(0x0070)  # vmcnt(0) lgkmcnt(0)
LDS_DONE = str(0xC07F)  # lgkmcnt(0), the other counters at "no wait"


def barrier(w: Emitter, op: thread.Barrier) -> None:
    """What other threads do with LDS behind the barrier must find this one's accesses done. Fences at workgroup scope
    would wait for LDS-DMA under way, too, whose waits are counted; those at the scope of the thread wait for nothing,
    and keep LLVM from moving accesses across. For global memory those wait that must."""
    if op.id or op.threads is not None:
        raise InternalError(f"a barrier of some threads alone on {w.target}", op.loc)
    _meet(w, op.drains)


def numbered_barrier(w: Emitter, op: explicit.NumberedBarrier) -> None:
    """All waves meet, each at a place of its own (named_barriers.py). The IR does not say of these whether they order
    global memory, so they do."""
    _meet(w, True)


def _meet(w: Emitter, drains: bool) -> None:
    scope = "workgroup" if w.shares_global else "singlethread"
    w.do(f'fence syncscope("{scope}") release')
    w.call("llvm.amdgcn.s.waitcnt", "void", [("i32", ALL_DONE if drains else LDS_DONE)])
    w.call("llvm.amdgcn.s.barrier", "void", [])
    w.do(f'fence syncscope("{scope}") acquire')


SCOPES = {"gpu": ' syncscope("agent")', "sys": ""}


def memory_fence(w: Emitter, op: fences.MemoryFence) -> None:
    """A write-back of the L2, whose lines other chiplets do not see (buffer_wbl2); a wait for that and for all accesses
    of this wave; and an invalidation, so that what is read behind it comes from where others have written it
    (buffer_inv). What other waves of the workgroup have stored is done at the barrier in front (insert_vmcnt_waits),
    and comes under the same write-back. LLVM does not count the write-back among what is under way, and leaves out the
    wait of its own fence where nothing else is: so the wait is ours."""
    scope = SCOPES[op.scope]
    w.do(f"fence{scope} release")
    w.call("llvm.amdgcn.s.waitcnt", "void", [("i32", ALL_DONE)])
    w.do(f"fence{scope} acquire")


def warp_barrier(w: Emitter, op: explicit.WarpBarrier) -> None:
    """The lanes of a wave go together, and its accesses are in order where LLVM keeps them so."""
    w.do('fence syncscope("wavefront") acq_rel')


def trap(w: Emitter, op: thread.Trap) -> None:
    w.call("llvm.trap", "void", [])


# Registers -----------------------------------------------------------------------------------------------------------


def special(w: Emitter, op: thread.Special) -> None:
    if op.register == "waveid":
        w.specials.add("tid.x")
        tid = w.call("llvm.amdgcn.workitem.id.x", "i32", [])
        mine = w.let(f"lshr i32 {tid}, 6")
        w.define(op.result, [w.call("llvm.amdgcn.readfirstlane.i32", "i32", [("i32", mine)], "wave")])
        return
    name, _, axis = op.register.partition(".")
    if name not in ("tid", "ctaid") or axis not in "xyz":
        raise InternalError(f"no special register {op.register} on {w.target}", op.loc)
    if name == "tid" and axis != "x":
        w.define(op.result, ["0"])
        return
    w.specials.add(op.register)
    kind = "workitem" if name == "tid" else "workgroup"
    w.define(op.result, [w.call(f"llvm.amdgcn.{kind}.id.{axis}", "i32", [], op.result.name or op.register)])


def some_in_warp(w: Emitter, op: warp.SomeInWarp) -> None:
    """Each thread's own: lanes that do not branch are masked, and a branch that none takes is jumped over."""
    w.define(op.result, [w.element(op.mask)])


def pick(w: Emitter, op: thread.Pick) -> None:
    """Whole parts stay whole."""
    count = thread.count_of(op.a.type)
    if count == 1:
        x = w.element(op.a)
        w.define(op.result, [x] * len(op.indices))
        return
    for width, parts in sorted(w.forms(op.a).items(), reverse=True):
        numbers = _whole_parts(op.indices, width)
        if numbers is not None:
            w.define(op.result, [parts[n] for n in numbers], width)
            return
    elements = w.parts(op.a)
    w.define(op.result, [elements[i] for i in op.indices])


def _whole_parts(indices: Sequence[int], width: int) -> list[int] | None:
    if len(indices) % width or any(i % width != n % width for n, i in enumerate(indices)):
        return None
    numbers = [indices[n] // width for n in range(0, len(indices), width)]
    return numbers if all(i // width == numbers[n // width] for n, i in enumerate(indices)) else None


def concat(w: Emitter, op: thread.Concat) -> None:
    common = set.intersection(*(set(w.forms(v)) for v in op.values))
    width = max(common, default=1)
    w.define(op.result, [part for v in op.values for part in w.parts(v, width)], width)


def offsets(w: Emitter, op: thread.Offsets) -> None:
    a, kind = w.element(op.a), vector(scalar_type(op.a.dtype), 1)
    w.define(op.result, [w.let(f"add {kind} {a}, {c}") if c else a for c in op.constants])


def funnel(w: Emitter, op: thread.Funnel) -> None:
    """By words, in rounds of selects, then by bits (llvm.fshr)."""
    per, bits = 32 // op.a.dtype.bits, op.a.dtype.bits
    words, count = op.width // per, thread.count_of(op.a.type) // op.width
    a, b, distances = w.words(op.a), w.words(op.b), w.parts(op.by)
    assert a is not None
    assert b is not None
    made: list[str] = []
    for n in range(count):
        by = distances[n if len(distances) > 1 else 0]
        parts = [*a[n * words : (n + 1) * words], *b[n * words : (n + 1) * words]]
        for step in [1 << k for k in reversed(range(words.bit_length() - 1))]:
            masked = w.let(f"and i32 {by}, {step * per}")
            far = w.let(f"icmp ne i32 {masked}, 0")
            pairs = zip(parts[step : 2 * step + words], parts[: words + step], strict=True)
            parts = [w.let(f"select i1 {far}, i32 {x}, i32 {y}") for x, y in pairs]
        amount = w.let(f"shl i32 {by}, {bits.bit_length() - 1}")
        for low, high in pairwise(parts[: words + 1]):
            made.append(w.call("llvm.fshr.i32", "i32", [("i32", high), ("i32", low), ("i32", amount)]))
    w.define_words(op.result, made)


EMIT: dict[type[Op], Callable[[Emitter, Any], None]] = {
    thread.MmaSync: mma,
    thread.Barrier: barrier,
    fences.MemoryFence: memory_fence,
    explicit.WarpBarrier: warp_barrier,
    explicit.NumberedBarrier: numbered_barrier,
    thread.Trap: trap,
    thread.Special: special,
    thread.Pick: pick,
    warp.SomeInWarp: some_in_warp,
    thread.Concat: concat,
    thread.Funnel: funnel,
    thread.Offsets: offsets,
}
