"""Atomics: relaxed, at agent (device) scope; LLVM's atomicrmw for elements of 32 and 64 bits.

The metadata says that memory is the device's own and that subnormal sums may be flushed, without which LLVM makes a
compare-and-swap loop of every float atomic. Elements of 8 and 16 bits are such a loop on the word around them, written
here: LLVM 22.1's own (AtomicExpand) adds to the first value that it loaded for ever, when it can see that the pointer
is aligned to the word although the access is not.

    again:  %old = phi [0, …], [%got, %again]        a wrong first guess brings what is there
            %new = kind(element of %old, value)
            %got, %ok = cmpxchg word, %old, %old with %new in place
            br %ok, done, again

Nor is there a min or max of f32 in global memory: LLVM would make a loop that begins with a plain load. IEEE 754
numbers of one sign are in the order of their bits, negative ones in the other, so that by the value's sign

    max:  sign 0   signed max      sign 1   unsigned min         min:  sign 0   signed min      sign 1   unsigned max

A value that is NaN changes nothing; a NaN in memory may stay. By their bits -0 is less than +0, and so it is in the
loops (V_MIN_F32). But f64, and f32 in LDS, have instructions that compare numbers, so that memory becomes
`value < old ? value : old`: where that has a zero of either sign, a value that is the other zero changes nothing.

Pairs of f16 and of bf16 whose old values are not used are one instruction.

Sources: LLVM 22, "User Guide for AMDGPU Backend", "LLVM IR Metadata" (amdgpu.no.fine.grained.memory and its like);
CDNA3 ISA, V_MIN_F32, DS_MIN_RTN_F32 and GLOBAL_ATOMIC_MIN_F64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitile.backends.amd.emit.emitter import Emitter
from minitile.backends.amd.emit.llvm import memory_type, vector
from minitile.backends.amd.emit.memory import Pointers, groups, guarded, type_zero, when
from minitile.ir.core import Op
from minitile.ir.diagnostics import TargetError
from minitile.ir.ops import thread
from minitile.ir.types import DType

METADATA = ", !amdgpu.no.fine.grained.memory !1, !amdgpu.no.remote.memory !1, !amdgpu.ignore.denormal.mode !1"

# kind: for signed integers, unsigned ones, floats; "" where there is none
_ATOMICS = {
    "add": ("add", "add", "fadd"),
    "min": ("min", "umin", "fmin"),
    "max": ("max", "umax", "fmax"),
    "and": ("and", "and", ""),
    "or": ("or", "or", ""),
    "xor": ("xor", "xor", ""),
    "exch": ("xchg", "xchg", "xchg"),
}
# For values whose sign is 0, and those whose sign is 1; and the bits that change nothing, for a NaN
_BY_SIGN = {"max": ("max", "umin", -1), "min": ("min", "umax", 0x7FFFFFFF)}


def atomic(w: Emitter, op: thread.AtomicMem) -> None:
    dtype, count = op.value.dtype, len(op.offsets)
    form = 2 if dtype.is_float else 0 if dtype.kind == "int" else 1
    opcode = op.kind if op.kind in ("load", "store") else _ATOMICS.get(op.kind, ("", "", ""))[form]
    if not opcode or dtype.kind == "bool" or (dtype.is_float and dtype.bits == 8):
        raise TargetError(f"there is no atomic {op.kind} on {dtype}", op.loc)
    if op.kind == "add" and dtype.name in ("f16", "bf16") and op.width == 2 and not op.results:
        _pairs(w, op)
        return
    kind = memory_type(dtype)
    pointers = Pointers(w, op, op.space)
    values = w.spread(op.value, count * op.width)
    more = METADATA if op.space == "global" else ""
    results = ["0" if kind[0] == "i" else type_zero(dtype)] * (count * op.width)
    zero = results[0]
    for predicate, numbers in groups(w, op.predicate, op.predicate_of, count):

        def one(n: int, k: int) -> str:
            value = values[n * op.width + k]
            if opcode in ("load", "store"):
                return _moved(w, opcode, pointers.of(n, k * dtype.bytes), kind, value, dtype.bytes)
            if dtype.bits < 32:
                return _word_loop(w, pointers, n, k * dtype.bytes, op, value)
            place = pointers.of(n, k * dtype.bytes)
            how = f'syncscope("agent") monotonic, align {dtype.bytes}{more}'
            if dtype.name == "f32" and op.space == "global" and op.kind in _BY_SIGN:
                return _by_sign(w, op.kind, place, value, how)
            return w.let(f"atomicrmw {opcode} {place}, {kind} {value} {how}")

        def update(numbers: list[int] = numbers) -> list[str]:
            return [one(n, k) for n in numbers for k in range(op.width)]

        found = update() if not predicate else guarded(w, predicate, update, kind, zero)
        places = [n * op.width + k for n in numbers for k in range(op.width)]
        for at, x in zip(places, found, strict=True):
            results[at] = x
    if op.results:
        w.define(op.result, results)


def _pairs(w: Emitter, op: thread.AtomicMem) -> None:
    """Two halves at once, whose old values are not asked for: GLOBAL_ATOMIC_PK_ADD_F16, DS_PK_ADD_F16, and of BF16."""
    count, kind = len(op.offsets), vector(memory_type(op.value.dtype), 2)
    pointers, parts = Pointers(w, op, op.space), w.spread(op.value, count, 2)
    more = METADATA if op.space == "global" else ""
    for predicate, numbers in groups(w, op.predicate, op.predicate_of, count):

        def put(numbers: list[int] = numbers) -> None:
            for n in numbers:
                place, how = pointers.of(n), f'syncscope("agent") monotonic, align 4{more}'
                w.let(f"atomicrmw fadd {place}, {kind} {parts[n]} {how}")

        when(w, predicate, put)


def _moved(w: Emitter, opcode: str, place: str, kind: str, value: str, size: int) -> str:
    """A load or a store as one access, of bits: LLVM 22, "LLVM Language Reference", takes a float in either."""
    how = f'syncscope("agent") monotonic, align {size}'
    if opcode == "load":
        return w.let(f"load atomic {kind}, {place} {how}")
    w.do(f"store atomic {kind} {value}, {place} {how}")
    return value


def _by_sign(w: Emitter, kind: str, place: str, value: str, how: str) -> str:
    """The old f32, which becomes the min or max with the value."""
    plus, minus, neutral = _BY_SIGN[kind]
    number = w.let(f"fcmp ord float {value}, 0.0")
    own = w.let(f"bitcast float {value} to i32")
    bits = w.let(f"select i1 {number}, i32 {own}, i32 {neutral}")
    sign = w.let(f"icmp slt i32 {bits}, 0")
    labels, done = (w.new_label("plus"), w.new_label("minus")), w.new_label("combined")
    w.do(f"br i1 {sign}, label %{labels[1]}, label %{labels[0]}")
    olds = []
    for label, opcode in zip(labels, (plus, minus), strict=True):
        w.place(label)
        olds.append(w.let(f"atomicrmw {opcode} {place}, i32 {bits} {how}"))
        w.do(f"br label %{done}")
    w.place(done)
    old = w.let("phi i32 " + ", ".join(f"[{x}, %{label}]" for x, label in zip(olds, labels, strict=True)))
    return w.let(f"bitcast i32 {old} to float")


def _word_loop(w: Emitter, pointers: Pointers, number: int, more: int, op: thread.AtomicMem, value: str) -> str:
    """The old element of 8 or 16 bits; the word is at the offset without its last two bits."""
    dtype, kind = op.value.dtype, memory_type(op.value.dtype)
    integer = f"i{dtype.bits}"
    register, constant = pointers.split(number, more)
    if register:
        if constant:
            register = w.let(f"add {pointers.kind} {register}, {constant}")
        aligned = w.let(f"and {pointers.kind} {register}, -4")
        byte = w.let(f"and {pointers.kind} {register}, 3")
        low = byte if pointers.kind == "i32" else w.let(f"trunc i64 {byte} to i32")
        shift = w.let(f"shl i32 {low}, 3")
        word = pointers.at(aligned, 0)
    else:
        shift, word = str(constant % 4 * 8), pointers.at("", constant // 4 * 4)
    ones = (1 << dtype.bits) - 1
    mask = w.let(f"shl i32 {ones}, {shift}")
    others = w.let(f"xor i32 {mask}, -1")
    before, again, done = w.label, w.new_label("swap"), w.new_label("swapped")
    w.do(f"br label %{again}")
    w.place(again)
    old, got = w.name("old"), w.name("got")
    w.lines.append(f"  {old} = phi i32 [0, %{before}], [{got}, %{again}]{w.attachment}")
    moved = w.let(f"lshr i32 {old}, {shift}")
    bits = w.let(f"trunc i32 {moved} to {integer}")
    current = bits if kind == integer else w.let(f"bitcast {integer} {bits} to {kind}")
    new = _combined(w, op.kind, dtype, kind, current, value)
    new_bits = new if kind == integer else w.let(f"bitcast {kind} {new} to {integer}")
    wide = w.let(f"zext {integer} {new_bits} to i32")
    placed = w.let(f"shl i32 {wide}, {shift}")
    kept = w.let(f"and i32 {old}, {others}")
    wanted = w.let(f"or i32 {kept}, {placed}")
    found = w.let(f'cmpxchg {word}, i32 {old}, i32 {wanted} syncscope("agent") monotonic monotonic, align 4')
    w.lines.append(f"  {got} = extractvalue {{i32, i1}} {found}, 0{w.attachment}")
    swapped = w.let(f"extractvalue {{i32, i1}} {found}, 1")
    w.do(f"br i1 {swapped}, label %{done}, label %{again}")
    w.place(done)
    return current


def _combined(w: Emitter, kind: str, dtype: DType, type_: str, a: str, b: str) -> str:
    """kind(a, b) on elements of 8 or 16 bits; floats through f32, rounded once."""
    if kind == "exch":
        return b
    if dtype.is_float:
        x, y = (w.let(f"fpext {type_} {v} to float") for v in (a, b))
        name = {"min": "llvm.minnum.f32", "max": "llvm.maxnum.f32"}.get(kind)
        total = w.call(name, "float", [("float", x), ("float", y)]) if name else w.let(f"fadd float {x}, {y}")
        return w.let(f"fptrunc float {total} to {type_}")
    if kind in ("min", "max"):
        sign = "s" if dtype.kind == "int" else "u"
        less = w.let(f"icmp {sign}lt {type_} {a}, {b}")
        first, second = (a, b) if kind == "min" else (b, a)
        return w.let(f"select i1 {less}, {type_} {first}, {type_} {second}")
    return w.let(f"{kind} {type_} {a}, {b}")


EMIT: dict[type[Op], Callable[[Emitter, Any], None]] = {thread.AtomicMem: atomic}
