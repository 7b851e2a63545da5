"""Value conversions that PTX has an instruction for; `legalize` has made every cast a chain of these.

Narrow results are made in pairs or by bytes where they fill words, and narrow sources are taken from words as they are,
so that a cast needs no unpacking of its own:

    f32 -> f16, bf16    cvt.rn.f16x2.f32 d, high, low        f32 -> e4m3, e5m2    cvt.rn.satfinite.e4m3x2.f32 (sm_89)
    bf16 -> f32         the bits, shifted up                 f16 -> f32           cvt.f32.f16 of each half
    i32 -> i16, i8      prmt                                 i8, i16 -> i32       bfe of each byte, cvt of each half

Source: PTX ISA 8.3, 9.7.8.20 (cvt), 9.7.8.7 (prmt).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitile.backends.nvidia.emit.emitter import Emitter, fills_words
from minitile.backends.nvidia.emit.ptx import literal, ptx_type, register_type
from minitile.ir.core import Op, Value
from minitile.ir.ops import arith
from minitile.ir.types import DType, f32

_WIDE_INTS = ("i32", "u32", "i64", "u64")
_WIDE_FLOATS = ("f32", "f64")
_FP8 = ("e4m3", "e5m2")


def cast(w: Emitter, op: arith.Cast) -> None:
    source, result = op.a, op.result
    pair = (source.dtype.name, result.dtype.name)
    special = _SPECIAL.get(pair)
    if special is not None:
        special(w, source, result)
    elif source.dtype.kind == "bool":
        _from_bool(w, source, result)
    elif result.dtype.kind == "bool":
        _to_bool(w, source, result)
    elif source.dtype.is_int and result.dtype.is_int and source.dtype.bits == result.dtype.bits:
        w.define(result, w.elements(source))
    else:
        mnemonic = _mnemonic(source.dtype, result.dtype)
        targets = w.element_targets(result)
        for d, x in zip(targets, w.in_registers(source), strict=True):
            w.emit(f"{mnemonic} {d}, {x};")
        w.define(result, targets)


def _mnemonic(source: DType, to: DType) -> str:
    """cvt with the rounding the IR's cast asks for: to nearest even, truncation from float to integer."""
    if source.is_int and to.is_int:
        # Widening extends by the source's sign, narrowing drops the high half.
        sign = "s" if source.kind == "int" and to.bits > source.bits else "u"
        return f"cvt.{sign}{to.bits}.{sign}{source.bits}"
    if to.is_int:
        rounding = ".rzi"
    elif source.is_int or to.bits < source.bits:
        rounding = ".rn"
    else:
        rounding = ""
    return f"cvt{rounding}.{ptx_type(to)}.{ptx_type(source)}"


def _from_bool(w: Emitter, source: Value, result: Value) -> None:
    one, zero = literal(1, result.dtype), literal(0, result.dtype)
    kind = register_type(result.dtype)
    targets = w.element_targets(result)
    for d, p in zip(targets, w.in_registers(source), strict=True):
        w.emit(f"selp.{kind} {d}, {one}, {zero}, {p};")
    w.define(result, targets)


def _to_bool(w: Emitter, source: Value, result: Value) -> None:
    unequal = "neu" if source.dtype.is_float else "ne"
    targets = w.element_targets(result)
    for d, x in zip(targets, w.elements(source), strict=True):
        w.emit(f"setp.{unequal}.{ptx_type(source.dtype)} {d}, {x}, {literal(0, source.dtype)};")
    w.define(result, targets)


def _f32_to_half(w: Emitter, source: Value, result: Value) -> None:
    kind = ptx_type(result.dtype)
    xs = w.in_registers(source)
    targets = w.targets(result)
    if fills_words(result):
        for n, d in enumerate(targets):
            w.emit(f"cvt.rn.{kind}x2.f32 {d}, {xs[2 * n + 1]}, {xs[2 * n]};")
        return
    for d, x in zip(targets, xs, strict=True):
        w.emit(f"cvt.rn.{kind}.f32 {d}, {x};")


def _f16_to_f32(w: Emitter, source: Value, result: Value) -> None:
    targets = w.element_targets(result)
    for d, x in zip(targets, w.in_registers(source), strict=True):
        w.emit(f"cvt.f32.f16 {d}, {x};")
    w.define(result, targets)


def _bf16_to_f32(w: Emitter, source: Value, result: Value) -> None:
    """A bf16 is the upper half of the f32 (sm_80 has no cvt for it)."""
    targets = w.element_targets(result)
    if w.has_words(source):
        for n, word in enumerate(w.words(source)):
            w.emit(f"shl.b32 {targets[2 * n]}, {word}, 16;")
            w.emit(f"and.b32 {targets[2 * n + 1]}, {word}, 0xFFFF0000;")
    else:
        zero = w.register("0", "b16")
        for d, x in zip(targets, w.in_registers(source), strict=True):
            w.emit(f"mov.b32 {d}, {{{zero}, {x}}};")
    w.define(result, targets)


def _narrow_int(w: Emitter, source: Value, result: Value) -> None:
    """32 to 16 or 8 bits; the result wraps."""
    xs = w.elements(source)
    if fills_words(result):
        xs = [w.register(x, "b32") for x in xs]
        for n, d in enumerate(w.targets(result)):
            if result.dtype.bits == 16:
                w.emit(f"prmt.b32 {d}, {xs[2 * n]}, {xs[2 * n + 1]}, 0x5410;")
            else:
                w.pack_bytes(d, xs[4 * n : 4 * n + 4])
        return
    targets = w.targets(result)
    for d, x in zip(targets, xs, strict=True):
        w.emit(f"cvt.{ptx_type(result.dtype)}.u32 {d}, {w.register(x, 'b32')};")


def _widen_int(w: Emitter, source: Value, result: Value) -> None:
    """8 or 16 to 32 bits, from words or elements, whichever are there."""
    dtype = source.dtype
    targets = w.element_targets(result)
    sign = "s" if dtype.kind == "int" else "u"
    if w.has_words(source) and dtype.bits == 8:
        for n, d in enumerate(targets):
            w.emit(f"bfe.{sign}32 {d}, {w.words(source)[n // 4]}, {8 * (n % 4)}, 8;")
    else:
        for d, x in zip(targets, w.in_registers(source), strict=True):
            w.emit(f"cvt.{sign}32.{sign}16 {d}, {x};")
    w.define(result, targets)


def _fp8_to_f16(w: Emitter, source: Value, result: Value) -> None:
    """Two at a time; the pair is a 16-bit register."""
    name = source.dtype.name
    words: list[str] = []
    if w.has_words(source):
        pairs: list[str] = []
        for word in w.words(source):
            low, high = w.temp("b16"), w.temp("b16")
            w.emit(f"mov.b32 {{{low}, {high}}}, {word};")
            pairs += [low, high]
        for pair in pairs:
            words.append(w.temp("b32"))
            w.emit(f"cvt.rn.f16x2.{name}x2 {words[-1]}, {pair};")
        w.define_words(result, words)
        return
    elements: list[str] = []
    for x in w.in_registers(source):
        word, low, high = w.temp("b32"), w.temp("b16"), w.temp("b16")
        w.emit(f"cvt.rn.f16x2.{name}x2 {word}, {x};")
        w.emit(f"mov.b32 {{{low}, {high}}}, {word};")
        elements.append(low)
    w.define(result, elements)


def _f32_to_fp8(w: Emitter, source: Value, result: Value) -> None:
    mnemonic = f"cvt.rn.satfinite.{result.dtype.name}x2.f32"
    xs = w.in_registers(source)
    if fills_words(result):
        for n, d in enumerate(w.targets(result)):
            low, high = w.temp("b16"), w.temp("b16")
            w.emit(f"{mnemonic} {low}, {xs[4 * n + 1]}, {xs[4 * n]};")
            w.emit(f"{mnemonic} {high}, {xs[4 * n + 3]}, {xs[4 * n + 2]};")
            w.emit(f"mov.b32 {d}, {{{low}, {high}}};")
        return
    zero = w.register(literal(0.0, f32), "f32")
    for d, x in zip(w.targets(result), xs, strict=True):
        w.emit(f"{mnemonic} {d}, {zero}, {x};")


_SPECIAL: dict[tuple[str, str], Callable[[Emitter, Value, Value], None]] = {
    ("f32", "f16"): _f32_to_half,
    ("f32", "bf16"): _f32_to_half,
    ("f16", "f32"): _f16_to_f32,
    ("bf16", "f32"): _bf16_to_f32,
    **{(a, b): _narrow_int for a in ("i32", "u32") for b in ("i8", "u8", "i16", "u16")},
    **{(a, b): _widen_int for a in ("i8", "u8", "i16", "u16") for b in ("i32", "u32")},
    **{(a, "f16"): _fp8_to_f16 for a in _FP8},
    **{("f32", a): _f32_to_fp8 for a in _FP8},
}

# The casts that this file knows; `legalize` routes all others through these.
DIRECT: frozenset[tuple[str, str]] = frozenset(
    {
        *_SPECIAL,
        *((a, b) for a in _WIDE_INTS + _WIDE_FLOATS for b in _WIDE_INTS + _WIDE_FLOATS),
        *((a, "f16") for a in (*_WIDE_INTS, "f64")),
        ("f16", "f64"),
        *((a, "bool") for a in _WIDE_INTS + _WIDE_FLOATS),
        *(("bool", b) for b in (*_WIDE_INTS, *_WIDE_FLOATS, "f16", "bf16", "i16", "u16", "i8", "u8", *_FP8)),
    }
)

EMIT: dict[type[Op], Callable[[Emitter, Any], None]] = {arith.Cast: cast}
