"""What a warp or the CTA does together: mma, shuffles, barriers; and the pieces of vectors (pick, concat).

An mma updates its accumulator in place when the accumulator dies there (register_coalescing.py): the registers of c and
of the result are then the same names. Otherwise the first step along k reads c and writes the result.

Sources: PTX ISA 8.3, 9.7.13.4.14 (mma), 9.7.8.6 (shfl.sync), 9.7.12.1 (bar), 9.7.12.4
(fence.proxy); 8.4 for fp8 mma; 8.6 for the halves of a proxy fence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from minitile.backends.nvidia.emit.emitter import Emitter, fills_words
from minitile.backends.nvidia.emit.ptx import per_word, register_type
from minitile.ir.core import Op, Value
from minitile.ir.diagnostics import TargetError
from minitile.ir.ops import explicit, fences, thread, warp
from minitile.ir.types import DType


@dataclass(frozen=True, slots=True)
class _Mma:
    """A shape's registers in one lane: 32-bit words of a and b (f64: registers), elements of c; `types` are the
    (operand, accumulator) types that it takes."""

    shape: str
    a: int
    b: int
    c: int
    types: frozenset[tuple[str, str]]


_B8_INT = frozenset({("s8", "s32"), ("u8", "s32")})
_B8 = _B8_INT | {("e4m3", "f32"), ("e5m2", "f32")}
_B16 = frozenset({("f16", "f32"), ("f16", "f16"), ("bf16", "f32")})

# By the names in minitile/layout/atoms.py.
ATOMS: dict[str, _Mma] = {
    "m16n8k16": _Mma("m16n8k16", 4, 2, 4, _B16),
    "m16n8k8": _Mma("m16n8k8", 2, 1, 4, _B16),
    "m16n8k8.tf32": _Mma("m16n8k8", 4, 2, 4, frozenset({("tf32", "f32")})),
    "m16n8k32.b8": _Mma("m16n8k32", 4, 2, 4, _B8),
    "m16n8k16.b8": _Mma("m16n8k16", 2, 1, 4, _B8_INT),
    "m8n8k4.f64": _Mma("m8n8k4", 1, 1, 2, frozenset({("f64", "f64")})),
}
_OPERAND = {"f32": "tf32", "i8": "s8", "u8": "u8"}
_ACCUMULATOR = {"i32": "s32"}


def mma(w: Emitter, op: thread.MmaSync) -> None:
    atom = ATOMS[op.atom]
    a_type, b_type = (_OPERAND.get(v.dtype.name, v.dtype.name) for v in (op.a, op.b))
    c_type = _ACCUMULATOR.get(op.c.dtype.name, op.c.dtype.name)
    _check(w, op, atom, a_type, c_type)
    m_count, n_count, k_count = op.repeats
    a, b, c = _mma_words(w, op.a), _mma_words(w, op.b), _accumulator(w, op.c)
    d = w.targets(op.result)
    c_words = len(d) // (m_count * n_count)
    opcode = f"mma.sync.aligned.{atom.shape}.row.col.{c_type}.{a_type}.{b_type}.{c_type}"
    # The operands of each atom as text, once: they are used again along m and n.
    a_text = [braces_of(a, i, atom.a) for i in range(m_count * k_count)]
    b_text = [braces_of(b, i, atom.b) for i in range(n_count * k_count)]
    c_text = [braces_of(c, i, c_words) for i in range(m_count * n_count)]
    d_text = [braces_of(d, i, c_words) for i in range(m_count * n_count)]
    for k in range(k_count):
        for m in range(m_count):
            x = a_text[m * k_count + k]
            for n in range(n_count):
                to = d_text[m * n_count + n]
                w.emit(f"{opcode} {to}, {x}, {b_text[n * k_count + k]}, {c_text[m * n_count + n]};")
        c_text = d_text


def braces_of(registers: list[str], number: int, count: int) -> str:
    """Group `number` of `count` registers as a vector operand; braces even for one, as mma wants."""
    return "{" + ", ".join(registers[number * count : number * count + count]) + "}"


def _check(w: Emitter, op: thread.MmaSync, atom: _Mma, a_type: str, c_type: str) -> None:
    if (a_type, c_type) not in atom.types:
        raise TargetError(f"mma {op.atom} does not take {op.a.dtype} operands with a {op.c.dtype} accumulator", op.loc)
    if a_type in ("e4m3", "e5m2") and not w.target.has("mma_fp8"):
        raise TargetError(f"{w.target.name} has no fp8 mma", op.loc, "sm_89 has, or cast the operands to float16")


def _mma_words(w: Emitter, value: Value) -> list[str]:
    """Operand registers of a or b; mma takes f32 bits (tf32) in untyped registers only."""
    if register_type(value.dtype) != "f32":
        return w.words(value)

    def raw() -> list[str]:
        registers = [w.temp("b32") for _ in range(thread.count_of(value.type))]
        for d, x in zip(registers, w.elements(value), strict=True):
            w.emit(f"mov.b32 {d}, {x};")
        return registers

    return w.once((value, "tf32"), raw)  # type: ignore[no-any-return]


def round_tf32(w: Emitter, op: thread.RoundTf32) -> None:
    """cvt.rna.tf32 writes untyped registers, which mma can take as they are."""
    raw = []
    for x in w.in_registers(op.a):
        raw.append(w.temp("b32"))
        w.emit(f"cvt.rna.tf32.f32 {raw[-1]}, {x};")
    w.once((op.result, "tf32"), lambda: raw)
    w.define(op.result, raw)


def _accumulator(w: Emitter, value: Value) -> list[str]:
    return w.words(value) if per_word(value.dtype) > 1 else w.in_registers(value)


def shuffle_xor(w: Emitter, op: thread.ShuffleXor) -> None:
    _exchange(w, op, op.a, lambda d, x: w.emit(f"shfl.sync.bfly.b32 {d}, {x}, {op.mask}, 31, -1;"))


def shuffle(w: Emitter, op: explicit.Shuffle) -> None:
    """The last operand but one: the segments in bits 8-12, the last lane (the first, for "up") in bits 0-4."""
    clamp = (32 - op.width) << 8 | (0 if op.kind == "up" else 31)
    rest = f"{w.element(op.lane)}, {clamp:#x}, {op.mask:#010x}"
    _exchange(w, op, op.value, lambda d, x: w.emit(f"shfl.sync.{op.kind}.b32 {d}, {x}, {rest};"))


def warp_reduce(w: Emitter, op: thread.WarpReduce) -> None:
    """redux.sync, over all 32 lanes (PTX ISA 8.3, 9.7.12.8; sm_80)."""
    name, kind = _REDUX[op.kind], "b32" if op.kind in ("and", "or", "xor") else "us"[op.a.dtype.signed] + "32"
    targets = w.element_targets(op.result)
    for d, x in zip(targets, w.in_registers(op.a), strict=True):
        w.emit(f"redux.sync.{name}.{kind} {d}, {x}, -1;")
    w.define(op.result, targets)


_REDUX = {"sum": "add", **{kind: kind for kind in ("max", "min", "and", "or", "xor")}}


def some_in_warp(w: Emitter, op: warp.SomeInWarp) -> None:
    (target,) = w.targets(op.result)
    w.emit(f"vote.sync.any.pred {target}, {w.register(w.element(op.mask), 'pred')}, 0xffffffff;")


def _exchange(w: Emitter, op: Op, source: Value, move: Callable[[str, str], None]) -> None:
    """Every register through shfl.sync, which moves 32 bits: narrow elements go packed, 64-bit ones in halves."""
    result, dtype = op.results[0], source.dtype
    if fills_words(source):
        for d, x in zip(w.targets(result), w.words(source), strict=True):
            move(d, x)
        return
    targets = w.element_targets(result)
    for d, x in zip(targets, w.in_registers(source), strict=True):
        if dtype.bits == 32:
            move(d, x)
        elif dtype.bits == 64:
            low, high, new_low, new_high = (w.temp("b32") for _ in range(4))
            w.emit(f"mov.b64 {{{low}, {high}}}, {x};")
            move(new_low, low)
            move(new_high, high)
            w.emit(f"mov.b64 {d}, {{{new_low}, {new_high}}};")
        else:
            _shuffle_narrow(w, d, x, dtype, move)
    w.define(result, targets)


def _shuffle_narrow(w: Emitter, d: str, x: str, dtype: DType, move: Callable[[str, str], None]) -> None:
    wide, new = w.temp("b32"), w.temp("b32")
    if dtype.kind == "bool":
        w.emit(f"selp.b32 {wide}, 1, 0, {x};")
        move(new, wide)
        w.emit(f"setp.ne.u32 {d}, {new}, 0;")
    else:
        w.emit(f"cvt.u32.u16 {wide}, {x};")
        move(new, wide)
        w.emit(f"cvt.u16.u32 {d}, {new};")


def barrier(w: Emitter, op: thread.Barrier) -> None:
    if op.each and op.threads == 32:
        w.order("bar.warp.sync 0xffffffff;")
        return
    threads = "" if op.threads is None else f", {op.threads}"
    number = str(op.id)
    if op.each:
        assert op.threads is not None
        whole = op.threads & (op.threads - 1) == 0  # ptxas divides by a constant of this text as by any number
        part = (
            f"shr.u32 {{0}}, {{0}}, {op.threads.bit_length() - 1}" if whole else f"div.u32 {{0}}, {{0}}, {op.threads}"
        )
        group = f"mov.u32 {{0}}, %tid.x;\n  {part};\n  add.u32 {{0}}, {{0}}, {op.id};"
        number = w.at_top(("group", op.id, op.threads), "b32", "group", group)
    w.order(f"bar.sync {number}{threads};")


def named_barrier(w: Emitter, op: explicit.NumberedBarrier) -> None:
    w.order(f"bar.{'sync' if op.wait else 'arrive'} {op.id}, {op.threads};")


def warp_barrier(w: Emitter, op: explicit.WarpBarrier) -> None:
    w.order(f"bar.warp.sync {op.mask:#010x};")


_SPACES = {"shared": ".shared::cta", "global": ".global", "any": ""}
_FORMS = {"release": "release.sync_restrict::shared::cta", "acquire": "acquire.sync_restrict::shared::cluster"}


def proxy_fence(w: Emitter, op: fences.ProxyFence) -> None:
    if op.form:
        w.isa = max(w.isa, "8.6", key=float)
        w.order(f"fence.proxy.async::generic.{_FORMS[op.form]}.cluster;")
    else:
        w.order(f"fence.proxy.async{_SPACES[op.space]};")


def memory_fence(w: Emitter, op: fences.MemoryFence) -> None:
    w.order(f"fence.acq_rel.{op.scope};")


def grid_meet(w: Emitter, op: fences.GridMeet) -> None:
    """As cooperative groups do it: what the block has done is released by the first thread, which the barrier in front
    has told of it, and acquired by it for the others (PTX ISA 8.3, 8.8: causality order is transitive)."""
    symbol = "grid_barrier"
    w.globals[f".global .align 4 .u32 {symbol} = 0;"] = None
    threads = "" if op.threads is None else f", {op.threads}"
    first = w.register(w.element(op.first), "pred")
    old, now, again = w.temp("b32"), w.temp("b32"), w.temp("pred")
    wait, done = w.code.label("grid"), w.code.label("grid_end")
    w.order(f"bar.sync {op.id}{threads};")
    w.emit(f"@!{first} bra {done};")
    w.emit("fence.acq_rel.gpu;")
    w.emit(f"atom.global.add.u32 {old}, [{symbol}], {w.element(op.step)};")
    w.code.place(wait)
    w.emit(f"ld.relaxed.gpu.global.u32 {now}, [{symbol}];")
    w.emit(f"xor.b32 {now}, {now}, {old};")
    w.emit(f"setp.ge.s32 {again}, {now}, 0;")
    w.emit(f"@{again} bra {wait};")
    w.emit("fence.acq_rel.gpu;")
    w.code.place(done)
    w.order(f"bar.sync {op.id}{threads};")


def pdl_sync(w: Emitter, op: fences.PdlSync) -> None:
    """PTX ISA 8.3, 9.7.12.13 (griddepcontrol)."""
    w.order("griddepcontrol.wait;")


def pdl_trigger(w: Emitter, op: fences.PdlTrigger) -> None:
    w.order("griddepcontrol.launch_dependents;")


def trap(w: Emitter, op: thread.Trap) -> None:
    w.emit("trap;")


def pick(w: Emitter, op: thread.Pick) -> None:
    """Whole words stay words; bytes that stay in pairs change words by prmt (PTX ISA 8.3, 9.7.8.7)."""
    n = per_word(op.a.dtype)
    if n > 1 and w.has_words(op.a) and _whole_words(op.indices, n):
        words = w.words(op.a)
        w.define_words(op.result, [words[i // n] for i in op.indices[::n]])
        return
    if n == 4 and w.has_words(op.a) and len(op.indices) % 4 == 0 and _pairs(op.indices):
        halves = [i // 2 for i in op.indices[::2]]
        words = w.words(op.a)
        w.define_words(op.result, [_word_of(w, words, *halves[k : k + 2]) for k in range(0, len(halves), 2)])
        return
    elements = w.elements(op.a)
    w.define(op.result, [elements[i] for i in op.indices])


def _pairs(indices: tuple[int, ...]) -> bool:
    return all(i % 2 == 0 and k == i + 1 for i, k in zip(indices[::2], indices[1::2], strict=True))


def _word_of(w: Emitter, words: list[str], low: int, high: int) -> str:
    """The word made of two halves of words."""
    if low % 2 == 0 and high == low + 1:
        return words[low // 2]
    made = w.temp("b32")
    selector = 0x10 + 0x22 * (low % 2) | (0x54 + 0x22 * (high % 2)) << 8
    w.emit(f"prmt.b32 {made}, {words[low // 2]}, {words[high // 2]}, {selector:#06x};")
    return made


def _whole_words(indices: tuple[int, ...], n: int) -> bool:
    if len(indices) % n:
        return False
    return all(i % n == k % n and i // n == indices[k - k % n] // n for k, i in enumerate(indices))


def concat(w: Emitter, op: thread.Concat) -> None:
    if per_word(op.result.dtype) > 1 and all(w.has_words(v) for v in op.values):
        w.define_words(op.result, [word for v in op.values for word in w.words(v)])
        return
    w.define(op.result, [x for v in op.values for x in w.elements(v)])


def offsets(w: Emitter, op: thread.Offsets) -> None:
    a = w.element(op.a)
    bits = op.result.dtype.bits
    targets = w.element_targets(op.result)
    for d, constant in zip(targets, op.constants, strict=True):
        w.emit(f"add.s{bits} {d}, {a}, {constant};" if constant else f"mov.b{bits} {d}, {a};")
    w.define(op.result, targets)


def funnel(w: Emitter, op: thread.Funnel) -> None:
    """By words, in rounds of selects, then by bits (PTX ISA 8.3, 9.7.7.8 shf)."""
    per, bits = 32 // op.a.dtype.bits, op.a.dtype.bits
    words, count = op.width // per, thread.count_of(op.a.type) // op.width
    distances = w.in_registers(op.by)
    a, b = w.words(op.a), w.words(op.b)
    steps = [1 << n for n in reversed(range(words.bit_length() - 1))]
    made: list[str] = []
    for n in range(count):
        by = distances[n if len(distances) > 1 else 0]
        parts = [*a[n * words : (n + 1) * words], *b[n * words : (n + 1) * words]]
        for step in steps:
            flag = w.once((by, "bit", step * per), lambda by=by, step=step: _bit_set(w, by, step * per))
            left = words + step
            chosen = w.registers.many("b32", left)
            for d, near, far in zip(chosen, parts[:left], parts[step : step + left], strict=True):
                w.emit(f"selp.b32 {d}, {far}, {near}, {flag};")
            parts = chosen
        amount = w.once((by, "bits", bits), lambda by=by: _times(w, by, bits))
        made += (shifted := w.registers.many("b32", words))
        for d, low, high in zip(shifted, parts, parts[1:], strict=False):
            w.emit(f"shf.r.wrap.b32 {d}, {low}, {high}, {amount};")
    w.define_words(op.result, made)


def _bit_set(w: Emitter, value: str, bit: int) -> str:
    """Whether a bit of an integer is set."""
    masked, flag = w.temp("b32"), w.temp("pred")
    w.emit(f"and.b32 {masked}, {value}, {bit};")
    w.emit(f"setp.ne.s32 {flag}, {masked}, 0;")
    return flag


def _times(w: Emitter, value: str, factor: int) -> str:
    """By which power of two it is."""
    product = w.temp("b32")
    w.emit(f"shl.b32 {product}, {value}, {factor.bit_length() - 1};")
    return product


EMIT: dict[type[Op], Callable[[Emitter, Any], None]] = {
    thread.MmaSync: mma,
    thread.RoundTf32: round_tf32,
    thread.Funnel: funnel,
    thread.ShuffleXor: shuffle_xor,
    thread.WarpReduce: warp_reduce,
    thread.Barrier: barrier,
    explicit.NumberedBarrier: named_barrier,
    explicit.WarpBarrier: warp_barrier,
    explicit.Shuffle: shuffle,
    warp.SomeInWarp: some_in_warp,
    fences.ProxyFence: proxy_fence,
    fences.MemoryFence: memory_fence,
    fences.GridMeet: grid_meet,
    fences.PdlSync: pdl_sync,
    fences.PdlTrigger: pdl_trigger,
    thread.Trap: trap,
    thread.Pick: pick,
    thread.Concat: concat,
    thread.Offsets: offsets,
}
