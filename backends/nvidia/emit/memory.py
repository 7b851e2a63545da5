"""Loads, stores, asynchronous copies, ldmatrix: one instruction an access, constant offsets in the address operand.

The instruction's vector form follows from width × element bits: up to four registers and 128 bits. Narrow elements
travel in words where an access is at least 32 bits wide. A load under a predicate writes zeros first, then loads if it
holds.

Sources: PTX ISA 8.3, 9.7.8.8 (ld), 9.7.8.11 (st), 9.7.8.24.3 (cp.async),
9.7.8.24.12, .13 (cp.async.bulk groups), 9.7.13.4.15 (ldmatrix), .16 (stmatrix).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minitile.backends.nvidia.emit.emitter import Emitter
from minitile.backends.nvidia.emit.ptx import at, braces, identifier, is_register, ptx_type, register_type
from minitile.backends.nvidia.emit.register_coalescing import fold_address
from minitile.ir.core import Op, Value
from minitile.ir.diagnostics import InternalError
from minitile.ir.ops import thread, tile
from minitile.ir.types import DType, ScalarType

_MAX_OFFSET = 1 << 31


def addresses(w: Emitter, address: Value, address_of: Sequence[int], offsets: Sequence[int]) -> list[str]:
    """The address operand of each access, constant parts folded into it."""
    base, by_register, offset = fold_address(address)
    registers = w.elements(base)
    operands: list[str] = []
    for number, extra in zip(address_of, offsets, strict=True):
        total = offset + extra + (by_register[number] if by_register else 0)
        if not -_MAX_OFFSET <= total < _MAX_OFFSET:
            raise InternalError(f"address offset {total} does not fit 32 bits")
        operands.append(at(registers[0 if len(registers) == 1 else number], total))
    return operands


def _instruction_type(dtype: DType, bits: int) -> str:
    """The type in a load or store of `bits` a register."""
    if dtype.is_float and dtype.bits >= 32:
        return ptx_type(dtype)
    return f"b{bits}"


def cache_hint(w: Emitter, evict: str) -> tuple[str, str]:
    """What an instruction's name and its operands end in, for L2 to treat the lines so (PTX ISA 8.3, 9.7.8.17
    createpolicy)."""
    if not evict:
        return "", ""
    policy = w.at_top(("policy", evict), "b64", evict, f"createpolicy.fractional.L2::{evict}.b64 {{}}, 1.0;")
    return ".L2::cache_hint", f", {policy}"


def load(w: Emitter, op: thread.LoadMem) -> None:
    dtype, result = op.dtype, op.result
    accesses = op.count // op.width
    places = addresses(w, op.address, op.address_of, op.offsets)
    guards = w.guards(op.predicate, op.predicate_of, accesses)
    hint, policy = cache_hint(w, "" if dtype.kind == "bool" else op.evict)
    opcode = f"ld.{op.space}{hint}"
    places = [place + policy for place in places]
    bits = op.width * dtype.bits
    if dtype.bits >= 32:
        targets = w.element_targets(result)
        _load_vectors(w, opcode, _instruction_type(dtype, dtype.bits), targets, places, guards)
        w.define(result, targets)
    elif dtype.kind == "bool":
        _load_bools(w, op, opcode, places, guards)
    elif bits >= 32:
        # The words of all accesses together are the value's.
        targets = w.targets(result)
        _load_vectors(w, opcode, "b32", targets, places, guards)
    elif op.width == 1:
        kind = "b16" if dtype.bits == 16 else ("s8" if dtype.kind == "int" else "u8")
        targets = w.element_targets(result)
        _load_vectors(w, opcode, kind, targets, places, guards)
        w.define(result, targets)
    else:  # two bytes at a time
        pairs = w.registers.many("b16", accesses)
        _load_vectors(w, opcode, "b16", pairs, places, guards)
        w.define(result, _split_pairs(w, pairs, dtype))


def _load_vectors(
    w: Emitter, opcode: str, kind: str, targets: list[str], places: list[str], guards: list[str | None]
) -> None:
    """One load an access, the targets shared out evenly in order."""
    n = len(targets) // len(places)
    suffix = f".v{n}" if n > 1 else ""
    zero_kind = "b16" if kind in ("s8", "u8") else kind
    zero = {"f32": "0f00000000", "f64": "0d0000000000000000"}.get(kind, "0")
    for i, (place, guard) in enumerate(zip(places, guards, strict=True)):
        group = targets[i * n : i * n + n]
        if guard != "":
            for d in group:
                w.emit(f"mov.{zero_kind} {d}, {zero};")
        if guard is not None:
            w.emit(f"{guard}{opcode}{suffix}.{kind} {braces(group)}, {place};")


def _split_pairs(w: Emitter, pairs: list[str], dtype: DType) -> list[str]:
    """Two bytes in a 16-bit register as two elements, extended."""
    elements = w.registers.many("b16", 2 * len(pairs))
    sign = "s" if dtype.kind == "int" else "u"
    for n, pair in enumerate(pairs):
        w.emit(f"cvt.{sign}16.{sign}8 {elements[2 * n]}, {pair};")
        w.emit(f"shr.{sign}16 {elements[2 * n + 1]}, {pair}, 8;")
    return elements


def _load_bools(w: Emitter, op: thread.LoadMem, opcode: str, places: list[str], guards: list[str | None]) -> None:
    """A bool in memory is a byte; wider accesses go byte by byte."""
    bytes_ = w.registers.many("b16", op.count)
    for i, (place, guard) in enumerate(zip(places, guards, strict=True)):
        for k, d in enumerate(bytes_[i * op.width : (i + 1) * op.width]):
            _load_vectors(w, opcode, "u8", [d], [_moved(place, k)], [guard])
    targets = w.element_targets(op.result)
    for d, byte in zip(targets, bytes_, strict=True):
        w.emit(f"setp.ne.u16 {d}, {byte}, 0;")
    w.define(op.result, targets)


def _moved(place: str, by: int) -> str:
    """An address operand, some bytes further on."""
    base, _, offset = place[1:-1].partition("+")
    return at(base, int(offset or 0) + by)


def store(w: Emitter, op: thread.StoreMem) -> None:
    dtype = op.value.dtype
    accesses = len(op.offsets)
    places = addresses(w, op.address, op.address_of, op.offsets)
    guards = w.guards(op.predicate, op.predicate_of, accesses)
    hint, policy = cache_hint(w, "" if dtype.kind == "bool" else op.evict)
    opcode = f"st.{op.space}{hint}"
    count, bits = accesses * op.width, op.width * dtype.bits
    if dtype.kind == "bool":
        _store_bools(w, op, opcode, places, guards)
    elif dtype.bits >= 32:
        sources = w.in_registers(op.value)
        _store_vectors(w, opcode, _instruction_type(dtype, dtype.bits), _repeat(sources, count), places, guards, policy)
    elif bits >= 32 and isinstance(op.value.type, ScalarType):
        word = w.splat(op.value) if dtype.bits == 16 else _splat_byte(w, op.value)
        _store_vectors(w, opcode, "b32", [word] * (count * dtype.bits // 32), places, guards, policy)
    elif bits >= 32:
        _store_vectors(w, opcode, "b32", w.words(op.value), places, guards, policy)
    elif op.width == 1:
        kind = "b16" if dtype.bits == 16 else "u8"
        _store_vectors(w, opcode, kind, _repeat(w.in_registers(op.value), count), places, guards, policy)
    else:
        pairs = _join_pairs(w, _repeat(w.in_registers(op.value), count))
        _store_vectors(w, opcode, "b16", pairs, places, guards, policy)


def _repeat(operands: list[str], count: int) -> list[str]:
    return operands * count if len(operands) == 1 else operands


def _store_vectors(
    w: Emitter,
    opcode: str,
    kind: str,
    sources: list[str],
    places: list[str],
    guards: list[str | None],
    policy: str = "",
) -> None:
    n = len(sources) // len(places)
    suffix = f".v{n}" if n > 1 else ""
    for i, (place, guard) in enumerate(zip(places, guards, strict=True)):
        if guard is not None:
            w.emit(f"{guard}{opcode}{suffix}.{kind} {place}, {braces(sources[i * n : i * n + n])}{policy};")


def _splat_byte(w: Emitter, value: Value) -> str:
    """A word of four copies of an 8-bit scalar."""
    operand = w.element(value)
    if not is_register(operand):
        return w.register(f"0x{(int(operand, 0) & 0xFF) * 0x01010101:08X}", "b32")
    wide, word = w.widen(operand), w.temp("b32")
    w.emit(f"prmt.b32 {word}, {wide}, {wide}, 0x0000;")
    return word


def _join_pairs(w: Emitter, elements: list[str]) -> list[str]:
    """Two bytes into one 16-bit register."""
    pairs: list[str] = []
    for low, high in zip(elements[::2], elements[1::2], strict=True):
        byte, shifted, pair = w.temp("b16"), w.temp("b16"), w.temp("b16")
        w.emit(f"and.b16 {byte}, {low}, 0xFF;")
        w.emit(f"shl.b16 {shifted}, {high}, 8;")
        w.emit(f"or.b16 {pair}, {byte}, {shifted};")
        pairs.append(pair)
    return pairs


def _store_bools(w: Emitter, op: thread.StoreMem, opcode: str, places: list[str], guards: list[str | None]) -> None:
    predicates = _repeat(w.in_registers(op.value), len(places) * op.width)
    for i, (place, guard) in enumerate(zip(places, guards, strict=True)):
        for k, p in enumerate(predicates[i * op.width : (i + 1) * op.width]):
            byte = w.temp("b16")
            w.emit(f"selp.b16 {byte}, 1, 0, {p};")
            _store_vectors(w, opcode, "u8", [byte], [_moved(place, k)], [guard])


def cp_async(w: Emitter, op: thread.CpAsync) -> None:
    """16 bytes go past L1 (.cg), 4 and 8 through it (.ca). The source size operand is 0 where the predicate is false:
    all of the destination becomes zeros and nothing is read. Where `enable` is false the instruction is skipped."""
    hint, policy = cache_hint(w, op.evict)
    form = f"cp.async.{'cg' if op.bytes == 16 else 'ca'}.shared.global{hint}"
    to = addresses(w, op.dst, op.dst_of, op.dst_offsets)
    source = addresses(w, op.src, op.src_of, op.src_offsets)
    sizes = _source_sizes(w, op)
    enabled = w.guards(op.enable, op.enable_of, len(to))
    for d, s, size, guard in zip(to, source, sizes, enabled, strict=True):
        if guard is not None:
            w.emit(f"{guard}{form} {d}, {s}, {op.bytes}{size}{policy};")


def _source_sizes(w: Emitter, op: thread.CpAsync) -> list[str]:
    """The last operand of each copy: none when nothing guards it."""
    predicate, count = op.predicate, len(op.dst_offsets)
    if predicate is None:
        return [""] * count

    def sizes() -> list[str]:
        found: list[str] = []
        for p in w.elements(predicate):
            if not is_register(p):
                found.append("" if p != "0" else ", 0")
                continue
            size = w.temp("b32")
            w.emit(f"selp.b32 {size}, {op.bytes}, 0, {p};")
            found.append(f", {size}")
        return found

    each: list[str] = w.once((predicate, "source size", op.bytes), sizes)
    if op.predicate_of:
        return [each[n] for n in op.predicate_of]
    return each * count if len(each) == 1 else each


_COMMIT = {"": "cp.async.commit_group", "bulk": "cp.async.bulk.commit_group"}
_WAIT = {"": "cp.async.wait_group", "wgmma": "wgmma.wait_group.sync.aligned", "bulk": "cp.async.bulk.wait_group"}


def join(w: Emitter, op: tile.Join) -> None:
    """By all threads, whether they have issued something or not: so the groups that the compiler counts are each
    thread's own."""
    w.emit(f"{_COMMIT[op.result.type.counter]};")  # type: ignore[attr-defined]


def wait(w: Emitter, op: tile.Wait) -> None:
    counter = op.token.type.counter  # type: ignore[attr-defined]
    w.order(f"{_WAIT[counter]}{'.read' if op.reads else ''} {op.pending or 0};")


def ldmatrix(w: Emitter, op: thread.LdMatrix) -> None:
    targets = w.targets(op.result)
    transpose = ".trans" if op.transpose else ""
    opcode = f"ldmatrix.sync.aligned.m8n8.x{op.number}{transpose}.shared.b16"
    typed = register_type(op.dtype) == "f32"  # the instruction wants untyped registers
    raw = w.registers.many("b32", len(targets)) if typed else targets
    n = op.number
    for i, place in enumerate(addresses(w, op.address, op.address_of, op.offsets)):
        w.emit(f"{opcode} {{{', '.join(raw[i * n : i * n + n])}}}, {place};")
    if raw is not targets:
        for d, word in zip(targets, raw, strict=True):
            w.emit(f"mov.b32 {d}, {word};")


def stmatrix(w: Emitter, op: thread.StMatrix) -> None:
    transpose = ".trans" if op.transpose else ""
    opcode = f"stmatrix.sync.aligned.m8n8.x{op.number}{transpose}.shared.b16"
    words = w.words(op.value) if op.value.dtype.bits < 32 else [_untyped(w, op, r) for r in w.in_registers(op.value)]
    n = op.number
    for i, place in enumerate(addresses(w, op.address, op.address_of, op.offsets)):
        w.emit(f"{opcode} {place}, {{{', '.join(words[i * n : i * n + n])}}};")


def _untyped(w: Emitter, op: thread.StMatrix, register: str) -> str:
    """The instruction wants registers without a type."""
    if register_type(op.value.dtype) != "f32":
        return register
    word = w.temp("b32")
    w.emit(f"mov.b32 {word}, {register};")
    return word


# Names for registers that hold a special register, when the value has none.
_HINTS = {"tid.x": "thread", "laneid": "lane", "ctaid.x": "bx", "ctaid.y": "by", "ctaid.z": "bz"}


def special(w: Emitter, op: thread.Special) -> None:
    hint = op.result.name or _HINTS.get(op.register, op.register.replace(".", "_"))
    register = w.at_top(op.register, "b32", hint, f"mov.u32 {{}}, %{op.register};")
    w.define(op.result, [register])


def global_address(w: Emitter, op: thread.GlobalAddress) -> None:
    w.define(op.result, w.elements(op.tensor))


def buffer_address(w: Emitter, op: thread.BufferAddress) -> None:
    """Shared buffers lie at their offset in the CTA's one array, local ones are arrays of their own."""
    alloc = op.buffer.op
    assert isinstance(alloc, tile.Alloc)
    name = alloc.result.name
    if alloc.type_.space == "local":
        symbol = local_array(w, alloc, name, alloc.version_bytes * alloc.type_.versions)
        register = w.at_top(("address", alloc), "b64", name, f"mov.u64 {{}}, {symbol};")
    else:
        smem = w.at_top("smem", "b32", "smem", "mov.u32 {}, smem;")
        offset = alloc.offset or 0
        versions = f", {alloc.type_.versions} versions" if alloc.type_.versions > 1 else ""
        w.shared[offset, offset + alloc.version_bytes * alloc.type_.versions] = f"{name or 'scratch'}{versions}"
        register = (
            w.at_top(("smem", offset), "b32", name or "buffer", f"add.u32 {{}}, {smem}, {offset};") if offset else smem
        )
    w.define(op.result, [register])


def local_array(w: Emitter, key: object, name: str, size: int) -> str:
    """The symbol of an array of `size` bytes in local memory, declared once for each key."""
    if key not in w.locals:
        w.locals[key] = (f"local_{len(w.locals)}_{identifier(name, 'buffer')}", size)
    return w.locals[key][0]


def nothing(w: Emitter, op: Op) -> None:
    """No code."""


EMIT: dict[type[Op], Callable[[Emitter, Any], None]] = {
    thread.LoadMem: load,
    thread.StoreMem: store,
    thread.CpAsync: cp_async,
    thread.LdMatrix: ldmatrix,
    thread.StMatrix: stmatrix,
    thread.Special: special,
    thread.GlobalAddress: global_address,
    thread.BufferAddress: buffer_address,
    tile.Join: join,
    tile.Wait: wait,
    tile.Alloc: nothing,
    tile.NoToken: nothing,
}
