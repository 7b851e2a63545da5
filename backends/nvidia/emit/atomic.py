"""Atomics at GPU scope, relaxed (PTX's default): `red` when the old value is not needed, else `atom`.

What the hardware of sm_80 has is in `_NATIVE`. Everything else (bf16 add, float min and max, 8- and 16-bit integers) is
a compare-and-swap loop on the 32- or 64-bit word that holds the element:

    again:  expected = old;  current = the element's bits in it;  new = kind(current, value)
            old = atom.cas [word], expected, expected with new in place
            if old != expected, again

The first guess is 0, so the loop needs no load: a wrong guess returns what is there.

Only `min` and `max` of f32 and f64 whose old value is not used need no loop: IEEE 754 numbers of one sign are in the
order of their bits, negative ones in the other, so that by the value's sign (which -0.0 has)

    max:  sign 0   red.max.s32      sign 1   red.min.u32         min:  sign 0   red.min.s32     sign 1   red.max.u32

A value that is NaN changes nothing; a NaN in memory may stay.

Several floats at once (an access wider than an element, whose old value is not used) are f16x2, on sm_90 also bf16x2,
and in global memory vectors of up to 16 bytes: each element is added atomically by itself.

Loads and stores are `ld.relaxed` and `st.relaxed`.

Sources: PTX ISA 8.3, 9.7.8.8 (ld), 9.7.8.11 (st), 9.7.12.5 (atom), 9.7.12.6 (red).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitile.backends.nvidia.emit.arith import MNEMONICS
from minitile.backends.nvidia.emit.emitter import Emitter
from minitile.backends.nvidia.emit.memory import addresses
from minitile.backends.nvidia.emit.ptx import braces, register_type
from minitile.ir.core import Op
from minitile.ir.diagnostics import TargetError
from minitile.ir.ops import arith, thread
from minitile.ir.types import DType

KINDS = ("add", "min", "max", "and", "or", "xor", "exch")

# (kind, dtype) -> the suffix of red and atom.
_NATIVE: dict[tuple[str, str], str] = {
    **{("add", d): f"add.{t}" for d, t in (("i32", "s32"), ("u32", "u32"), ("i64", "u64"), ("u64", "u64"))},
    **{("add", d): f"add.{d}" for d in ("f32", "f64")},
    ("add", "f16"): "add.noftz.f16",
    **{(k, d): f"{k}.{d.replace('i', 's')}" for k in ("min", "max") for d in ("i32", "u32", "i64", "u64")},
    **{(k, d): f"{k}.b{d[1:]}" for k in ("and", "or", "xor", "exch") for d in ("i32", "u32", "i64", "u64")},
    ("exch", "f32"): "exch.b32",
    ("exch", "f64"): "exch.b64",
}
_BY_SIGN = {
    "max": ("max.s", "min.u"),
    "min": ("min.s", "max.u"),
}  # for values whose sign is 0, and those whose sign is 1
_OPS = {"add": arith.Add, "min": arith.Min, "max": arith.Max, "and": arith.And, "or": arith.Or, "xor": arith.Xor}


def atomic(w: Emitter, op: thread.AtomicMem) -> None:
    dtype = op.value.dtype
    wanted = bool(op.results) and op.results[0] in w.plan.needed
    accesses = len(op.offsets)
    count = accesses * op.width
    guards = [g for g in w.guards(op.predicate, op.predicate_of, accesses) for _ in range(op.width)]
    if op.kind == "add" and op.width > 1 and not wanted and dtype.name in ("f16", "bf16", "f32"):
        _vectors(w, op, guards[:: op.width])
        return
    places = addresses(
        w,
        op.address,
        [a for a in op.address_of for _ in range(op.width)],
        [o + k * dtype.bytes for o in op.offsets for k in range(op.width)],
    )
    values = w.in_registers(op.value)
    values = values * count if len(values) == 1 else values
    targets = w.element_targets(op.results[0]) if wanted else [""] * count
    native = _NATIVE.get((op.kind, dtype.name))
    if native is None:
        _check(op, dtype)
    of_bits = f"{'b' if dtype.bits > 8 else 's' if dtype.kind == 'int' else 'u'}{dtype.bits}"
    for d, place, x, guard in zip(targets, places, values, guards, strict=True):
        if wanted and guard != "":
            w.emit(f"mov.{register_type(dtype)} {d}, {_zero(dtype)};")
        if guard is None:
            continue
        if op.kind == "load":
            if wanted:
                w.emit(f"{guard}ld.relaxed.gpu.{op.space}.{of_bits} {d}, {place};")
        elif op.kind == "store":
            w.emit(f"{guard}st.relaxed.gpu.{op.space}.{of_bits} {place}, {x};")
        elif native is None and not wanted and op.kind in _BY_SIGN and dtype.bits >= 32:
            _by_sign(w, op, place, x, guard)
        elif native is None:
            _swap_loop(w, op, d, place, x, guard)
        elif wanted or op.kind == "exch":  # there is no red.exch
            w.emit(f"{guard}atom.{op.space}.{native} {d or w.temp(register_type(dtype))}, {place}, {x};")
        else:
            w.emit(f"{guard}red.{op.space}.{native} {place}, {x};")
    if wanted:
        w.define(op.results[0], targets)


def _vectors(w: Emitter, op: thread.AtomicMem, guards: list[str | None]) -> None:
    """Up to 16 bytes at once: pairs of halves, floats, vectors of either."""
    places = addresses(w, op.address, op.address_of, op.offsets)
    halves = op.value.dtype.bits == 16
    words = w.words(op.value) if halves else w.in_registers(op.value)
    n = len(words) // len(places)
    kind = f"noftz.{{}}{op.value.dtype}x2" if halves else "{}f32"
    opcode = f"red.{op.space}.add.{kind.format(f'v{n}.' if n > 1 else '')}"
    for i, (place, guard) in enumerate(zip(places, guards, strict=True)):
        if guard is not None:
            w.emit(f"{guard}{opcode} {place}, {braces(words[i * n : i * n + n])};")


def _zero(dtype: DType) -> str:
    return {"f32": "0f00000000", "f64": "0d0000000000000000"}.get(dtype.name, "0")


def _check(op: thread.AtomicMem, dtype: DType) -> None:
    logic = op.kind in ("and", "or", "xor")
    if (
        op.kind not in (*KINDS, "load", "store")
        or dtype.kind == "bool"
        or (logic and dtype.is_float)
        or (dtype.is_float and dtype.bits == 8)
    ):
        raise TargetError(f"there is no atomic {op.kind} on {dtype}", op.loc)


def _by_sign(w: Emitter, op: thread.AtomicMem, place: str, x: str, guard: str) -> None:
    """min or max of floats as integers, for either sign of the value."""
    dtype = op.value.dtype
    bits, number = w.temp(f"b{dtype.bits}"), w.temp("pred")
    joined, also = (".and", f", {guard[1:].strip()}") if guard else ("", "")
    w.emit(f"mov.b{dtype.bits} {bits}, {x};")
    w.emit(f"setp.num{joined}.{dtype.name} {number}, {x}, {x}{also};")
    for test, reduce in zip(("ge", "lt"), _BY_SIGN[op.kind], strict=True):
        mine = w.temp("pred")
        w.emit(f"setp.{test}.and.s{dtype.bits} {mine}, {bits}, 0, {number};")
        w.emit(f"@{mine} red.{op.space}.{reduce}{dtype.bits} {place}, {bits};")


def _swap_loop(w: Emitter, op: thread.AtomicMem, d: str, place: str, x: str, guard: str) -> None:
    """d (if any) = the old element at `place`, which becomes kind(old, x)."""
    assert op.diverges()
    dtype = op.value.dtype
    wide = dtype.bits if dtype.bits >= 32 else 32
    word, shift = (place, "") if dtype.bits >= 32 else _containing_word(w, op, place)
    old, expected, desired = (w.temp(f"b{wide}") for _ in range(3))
    kind = register_type(dtype)
    current, new = d or w.temp(kind), w.temp(kind)
    failed = w.temp("pred")
    again, done = w.code.label("cas"), w.code.label("cas_done")
    if guard:
        w.emit(f"@!{guard[1:]}bra {done};")
    w.emit(f"mov.b{wide} {old}, 0;")
    w.code.place(again)
    w.emit(f"mov.b{wide} {expected}, {old};")
    if shift:
        _extract(w, current, expected, shift, dtype)
    else:
        w.emit(f"mov.b{wide} {current}, {expected};")
    _combine(w, op.kind, dtype, new, current, x)
    if shift:
        _insert(w, desired, expected, new, shift, dtype)
    else:
        w.emit(f"mov.b{wide} {desired}, {new};")
    w.emit(f"atom.{op.space}.cas.b{wide} {old}, {word}, {expected}, {desired};")
    w.emit(f"setp.ne.u{wide} {failed}, {old}, {expected};")
    w.emit(f"@{failed} bra {again};")
    w.code.place(done)


def _containing_word(w: Emitter, op: thread.AtomicMem, place: str) -> tuple[str, str]:
    """The aligned 32-bit word around a narrow element, and the element's first bit in it."""
    bits = op.address.dtype.bits
    address, aligned, byte, shift = w.temp(f"b{bits}"), w.temp(f"b{bits}"), w.temp("b32"), w.temp("b32")
    base, plus, offset = place[1:-1].partition("+")
    if not plus and "-" in base:
        base, _, offset = base.partition("-")
        offset = "-" + offset
    w.emit(f"add.s{bits} {address}, {base}, {offset or 0};")
    w.emit(f"and.b{bits} {aligned}, {address}, -4;")
    if bits == 64:
        w.emit(f"cvt.u32.u64 {byte}, {address};")
        w.emit(f"and.b32 {byte}, {byte}, 3;")
    else:
        w.emit(f"and.b32 {byte}, {address}, 3;")
    w.emit(f"shl.b32 {shift}, {byte}, 3;")
    return f"[{aligned}]", shift


def _extract(w: Emitter, element: str, word: str, shift: str, dtype: DType) -> None:
    bits = w.temp("b32")
    sign = "s" if dtype.kind == "int" else "u"
    w.emit(f"bfe.{sign}32 {bits}, {word}, {shift}, {dtype.bits};")
    w.emit(f"cvt.u16.u32 {element}, {bits};")


def _insert(w: Emitter, to: str, word: str, element: str, shift: str, dtype: DType) -> None:
    bits = w.temp("b32")
    w.emit(f"cvt.u32.u16 {bits}, {element};")
    w.emit(f"bfi.b32 {to}, {bits}, {word}, {shift}, {dtype.bits};")


def _combine(w: Emitter, kind: str, dtype: DType, d: str, a: str, b: str) -> None:
    if kind == "exch":
        w.emit(f"mov.{register_type(dtype)} {d}, {b};")
    elif dtype.name == "bf16" and kind == "add":
        one = w.temp("b16")
        w.emit(f"mov.b16 {one}, 0x3F80;")
        w.emit(f"fma.rn.bf16 {d}, {a}, {one}, {b};")
    elif dtype.is_int and dtype.bits < 32:
        # On 16-bit registers that hold the extended value; what overflows is cut off by the insertion.
        typed = "b16" if kind in ("and", "or", "xor") else f"{'s' if dtype.kind == 'int' else 'u'}16"
        w.emit(f"{kind}.{typed} {d}, {a}, {b};")
    else:
        w.emit(f"{MNEMONICS[_OPS[kind], dtype.name]} {d}, {a}, {b};")


EMIT: dict[type[Op], Callable[[Emitter, Any], None]] = {thread.AtomicMem: atomic}
