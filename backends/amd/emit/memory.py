"""Loads and stores: addresses are byte offsets within an object, to which each access adds the object's pointer.

A guarded access is a branch; accesses of one operation that share a predicate share the branch. A load whose predicate
is false gives zeros:

      br i1 %p, label %load.1, label %loaded.2
    load.1:
      %v = load <4 x float>, …
      br label %loaded.2
    loaded.2:
      %x = phi <4 x float> [zeroinitializer, %before], [%v, %load.1]

Source: LLVM 22, "User Guide for AMDGPU Backend", "Address Spaces".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minitile.backends.amd.emit.emitter import Emitter
from minitile.backends.amd.emit.llvm import SPACES, type_of, vector
from minitile.backends.amd.emit.uniform import scalar
from minitile.ir.core import Op, Value
from minitile.ir.diagnostics import InternalError
from minitile.ir.ops import thread, tile
from minitile.ir.types import DType

Group = tuple[str, list[int]]  # a predicate ("" for none) and the numbers of the accesses that it guards


def groups(w: Emitter, predicate: Value | None, predicate_of: Sequence[int], count: int) -> list[Group]:
    """The accesses by predicate, those that never happen left out."""
    if predicate is None:
        return [("", list(range(count)))]
    registers = w.parts(predicate)
    found: dict[str, list[int]] = {}
    for n in range(count):
        p = registers[predicate_of[n] if predicate_of else 0]
        if p != "false":
            found.setdefault("" if p == "true" else p, []).append(n)
    return list(found.items())


class Pointers:
    """The pointer of each access of an operation, made where it is asked for."""

    def __init__(self, w: Emitter, op: Any, space: str) -> None:
        self.w, self.op, self.space = w, op, SPACES[space]
        self.kind = f"i{op.address.dtype.bits}"
        self.addresses = w.parts(op.address)
        self.symbol = w.symbols[op.mem]

    def split(self, number: int, more: int = 0) -> tuple[str, int]:
        """The offset within the object as a register ("" for none) and a constant."""
        op = self.op
        register = self.addresses[op.address_of[number] if len(self.addresses) > 1 else 0]
        offset = op.offsets[number] + more
        return ("", offset + int(register)) if register.lstrip("-").isdigit() else (register, offset)

    def of(self, number: int, more: int = 0) -> str:
        return self.at(*self.split(number, more))

    def at(self, register: str, offset: int) -> str:
        """The pointer to a place in the object, with its type."""
        w, pointer = self.w, self.symbol
        if register:
            pointer = w.let(f"getelementptr i8, ptr addrspace({self.space}) {pointer}, {self.kind} {register}", "p")
        if offset:
            pointer = w.let(f"getelementptr i8, ptr addrspace({self.space}) {pointer}, {self.kind} {offset}", "p")
        return f"ptr addrspace({self.space}) {pointer}"


def in_memory(dtype: DType, width: int) -> str:
    """The type of one access."""
    if dtype.kind == "bool":
        return vector("i8", width)
    return type_of(dtype, width)


def alignment(op: Any, dtype: DType) -> int:
    return dtype.bytes if op.space == "local" else dtype.bytes * op.width


def load(w: Emitter, op: thread.LoadMem) -> None:
    dtype, count = op.dtype, len(op.offsets)
    kind, aligned = in_memory(dtype, op.width), alignment(op, dtype)
    pointers = Pointers(w, op, op.space)
    zero = "zeroinitializer" if kind.startswith("<") else "0" if kind[0] == "i" else type_zero(dtype)
    parts = [zero] * count
    # LDS-DMA under way goes to other versions; LLVM would wait for all of it before any read of the same object.
    apart = ", !noalias !6" if op.mem in w.filled_by_dma else ""
    for predicate, numbers in groups(w, op.predicate, op.predicate_of, count):

        def read(numbers: list[int] = numbers) -> list[str]:
            return [w.let(f"load {kind}, {pointers.of(n)}, align {aligned}{apart}", "l") for n in numbers]

        found = read() if not predicate else guarded(w, predicate, read, kind, zero)
        for n, part in zip(numbers, found, strict=True):
            parts[n] = part
    if dtype.kind == "bool":
        parts = [bit for part in parts for bit in bools(w, part, op.width)]
        w.define(op.result, parts)
        return
    w.define(op.result, parts, op.width)


def load_transposed(w: Emitter, op: thread.LoadTransposed) -> None:
    """Transposing reads. bf16 goes as bits, bytes as words."""
    bits = op.dtype.bits
    width = 64 // bits
    raw, kind = ("<4 x i16>" if bits == 16 else "<2 x i32>"), type_of(op.dtype, width)
    name = f"llvm.amdgcn.ds.read.tr{bits}.b64.v{raw[1:-1].replace(' x ', '')}"
    apart = ", !noalias !6" if op.mem in w.filled_by_dma else ""
    pointers = Pointers(w, op, "shared")
    parts = []
    for n in range(len(op.offsets)):
        space, pointer = pointers.of(n).rsplit(" ", 1)
        part = w.call(name, raw, [(space, pointer)], "l", apart)
        parts.append(part if kind == raw else w.let(f"bitcast {raw} {part} to {kind}", "l"))
    w.define(op.result, parts, width)


def type_zero(dtype: DType) -> str:
    return {"f16": "0xH0000", "bf16": "0xR0000"}.get(dtype.name, "0.0")


def guarded(w: Emitter, predicate: str, read: Callable[[], list[str]], kind: str, zero: str) -> list[str]:
    """What `read` gives where the predicate holds, else zeros."""
    before, inside, after = w.label, w.new_label("load"), w.new_label("loaded")
    w.do(f"br i1 {predicate}, label %{inside}, label %{after}")
    w.place(inside)
    with w.scope():
        parts = read()
    w.do(f"br label %{after}")
    inside = w.label
    w.place(after)
    return [w.let(f"phi {kind} [{zero}, %{before}], [{x}, %{inside}]", "l") for x in parts]


def bools(w: Emitter, part: str, width: int) -> list[str]:
    if width == 1:
        return [w.let(f"icmp ne i8 {part}, 0")]
    found = [w.let(f"extractelement <{width} x i8> {part}, i64 {n}") for n in range(width)]
    return [w.let(f"icmp ne i8 {x}, 0") for x in found]


def when(w: Emitter, predicate: str, do: Callable[[], None]) -> None:
    """`do` under a predicate; "" for always."""
    if not predicate:
        do()
        return
    inside, after = w.new_label("do"), w.new_label("done")
    w.do(f"br i1 {predicate}, label %{inside}, label %{after}")
    w.place(inside)
    with w.scope():
        do()
    w.do(f"br label %{after}")
    w.place(after)


def store(w: Emitter, op: thread.StoreMem) -> None:
    dtype, count = op.value.dtype, len(op.offsets)
    kind, aligned = in_memory(dtype, op.width), alignment(op, dtype)
    pointers = Pointers(w, op, op.space)
    if dtype.kind == "bool":
        bits = w.spread(op.value, count * op.width)
        parts = [bytes_of_bools(w, bits[i : i + op.width]) for i in range(0, len(bits), op.width)]
    else:
        parts = w.spread(op.value, count, op.width)
    for predicate, numbers in groups(w, op.predicate, op.predicate_of, count):

        def put(numbers: list[int] = numbers) -> None:
            for n in numbers:
                w.do(f"store {kind} {parts[n]}, {pointers.of(n)}, align {aligned}")

        when(w, predicate, put)


def bytes_of_bools(w: Emitter, bits: Sequence[str]) -> str:
    wide = [w.let(f"zext i1 {x} to i8") for x in bits]
    if len(wide) == 1:
        return wide[0]
    made = "poison"
    for n, x in enumerate(wide):
        made = w.let(f"insertelement <{len(wide)} x i8> {made}, i8 {x}, i64 {n}")
    return made


RECORDS = "2147483648"  # bytes of a descriptor
OUTSIDE = "-2147483648"  # as an unsigned offset, beyond all of the descriptor's bytes
RAW = "159744"  # 32-bit data without a format


def copy_by_dma(w: Emitter, op: thread.CpAsync) -> None:
    """LDS-DMA: a lane outside the bounds asks for what the descriptor does not have, and writes zeros. A copy that is
    not to be made has a descriptor of no bytes."""
    if not op.wave or op.base is None:
        raise InternalError(f"an asynchronous copy that {w.target} does not have", op.loc)
    base = w.let(f"getelementptr i8, ptr addrspace(1) {w.symbols[op.src_mem]}, i64 {scalar(w, op.base)}", "base")
    records = RECORDS
    if op.enable is not None:
        records = w.let(f"select i1 {scalar(w, op.enable)}, i64 {RECORDS}, i64 0", "bytes")
    arguments = [("ptr addrspace(1)", base), ("i16", "0"), ("i64", records), ("i32", RAW)]
    rsrc = w.call("llvm.amdgcn.make.buffer.rsrc.p8.p1", "ptr addrspace(8)", arguments, "rsrc")
    to, object_ = scalar(w, op.dst), w.symbols[op.dst_mem]
    sources = w.parts(op.src)
    count = len(op.dst_of)
    holds = w.parts(op.predicate) if op.predicate is not None else []
    for n in range(count):
        place = w.let(f"getelementptr i8, ptr addrspace(3) {object_}, i32 {to}", "p")
        if op.dst_offsets[n]:
            place = w.let(f"getelementptr i8, ptr addrspace(3) {place}, i32 {op.dst_offsets[n]}", "p")
        offset = sources[op.src_of[n] if len(sources) > 1 else 0]
        if op.src_offsets[n]:
            offset = w.let(f"add i32 {offset}, {op.src_offsets[n]}")
        if holds:
            here = holds[op.predicate_of[n] if len(holds) > 1 else 0]
            offset = w.let(f"select i1 {here}, i32 {offset}, i32 {OUTSIDE}")
        given = [("ptr addrspace(8)", rsrc), ("ptr addrspace(3)", place), ("i32", str(op.bytes)), ("i32", offset)]
        w.call(DMA, "void", [*given, ("i32", "0"), ("i32", "0"), ("i32", "0")], more=", !alias.scope !6")


def wait(w: Emitter, op: tile.Wait) -> None:
    """Until at most `pending` of the younger instructions are under way. The count has 6 bits, and those of the other
    counters are at "no wait"."""
    pending = min(op.pending or 0, 63)
    w.call("llvm.amdgcn.s.waitcnt", "void", [("i32", str(pending & 15 | pending >> 4 << 14 | 0xF70))])


DMA = "llvm.amdgcn.raw.ptr.buffer.load.lds"


def global_address(w: Emitter, op: thread.GlobalAddress) -> None:
    """Accesses add the tensor's pointer themselves."""
    w.define(op.result, ["0"])


def buffer_address(w: Emitter, op: thread.BufferAddress) -> None:
    """Where the buffer begins in its object, which holds the buffers that share its bytes, too."""
    w.define(op.result, [str(w.starts.get(op.buffer, 0))])


def nothing(w: Emitter, op: Op) -> None:
    """No code."""


EMIT: dict[type[Op], Callable[[Emitter, Any], None]] = {
    thread.LoadMem: load,
    thread.LoadTransposed: load_transposed,
    thread.StoreMem: store,
    thread.GlobalAddress: global_address,
    thread.BufferAddress: buffer_address,
    tile.Alloc: nothing,
    tile.Join: nothing,
    tile.Wait: wait,
    thread.CpAsync: copy_by_dma,
    tile.NoToken: nothing,
}
