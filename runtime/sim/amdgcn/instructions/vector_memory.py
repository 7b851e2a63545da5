"""Global and buffer memory: loads, stores and LDS-DMA (CDNA3 ISA, chapters 9 and 10, 12.16, 12.17).

An instruction becomes addresses per lane and a `Shape` (element size, count, how the register looks); loads, stores and
DMA are then the same for both address forms. A buffer's descriptor (V#) holds base, stride and size: dwords beyond the
size load as 0 and are not stored; the comparison takes voffset, the immediate and soffset together. LDS-DMA (`lds`)
writes to M0 + immediate + lane * size, contiguous in lanes whatever their addresses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...core.memory import Arena
from ...core.report import Finding
from ...core.scalars import Array, Sel, every, some, spread
from ..decode import VECTOR, Decoder
from ..memory import GLOBAL_BASE, load, store
from ..queue import VM
from ..race.lds import DMA
from ..syntax import M0, Instruction, Literal, Operand, Reg, Word
from ..table import Handler, instruction
from .lds import all_of, consume, gather, locate, merge_half, poison, widen

if TYPE_CHECKING:
    from ..machine import Machine

Address = Callable[["Machine", Sel], tuple[Array, "Array | None"]]


@dataclass(frozen=True, slots=True)
class Shape:
    """Elements of `elem` bytes, `count` of them; `kind` for elements below a dword, `half` for d16 forms."""

    elem: int
    count: int
    kind: str = "u4"
    half: str = ""

    @property
    def size(self) -> int:
        """Bytes per lane."""
        return self.elem * self.count


_LOADS: dict[str, Shape] = {
    "dword": Shape(4, 1),
    "dwordx2": Shape(4, 2),
    "dwordx3": Shape(4, 3),
    "dwordx4": Shape(4, 4),
    "ubyte": Shape(1, 1, "u1"),
    "sbyte": Shape(1, 1, "i1"),
    "ushort": Shape(2, 1, "u2"),
    "sshort": Shape(2, 1, "i2"),
    **{
        f"{sign}byte_d16{hi}": Shape(1, 1, kind, f"d16{hi}")
        for sign, kind in (("u", "u1"), ("s", "i1"))
        for hi in ("", "_hi")
    },
    **{f"short_d16{hi}": Shape(2, 1, "u2", f"d16{hi}") for hi in ("", "_hi")},
}
_STORES: dict[str, Shape] = {
    "dword": Shape(4, 1),
    "dwordx2": Shape(4, 2),
    "dwordx3": Shape(4, 3),
    "dwordx4": Shape(4, 4),
    "byte": Shape(1, 1, "u1"),
    "short": Shape(2, 1, "u2"),
    "byte_d16_hi": Shape(1, 1, "u1", "d16_hi"),
    "short_d16_hi": Shape(2, 1, "u2", "d16_hi"),
}


# -- addresses ---------------------------------------------------------------------------------------------------------


def global_address(d: Decoder, address: Operand, base: Operand | None) -> Address:
    """The arena offsets of a global_ instruction: a 64-bit address, or a scalar base and a 32-bit offset."""
    offset = d.number("offset")
    if isinstance(base, Reg):
        scalar = d.scalar(base, 8)
        if isinstance(address, Word):
            vector, rows = d.vector(Literal(0)), []
        else:
            vector, rows = d.vector(address), d.words(address, 1)

        def from_scalar(m: Machine, sel: Sel) -> tuple[Array, Array | None]:
            if rows:
                consume(m, sel, rows)
            start = scalar(m, sel).astype(np.int64)[:, None] - GLOBAL_BASE + offset
            return start + vector(m, sel).astype(np.int64), None

        return from_scalar
    wide, pair = d.vector(address, 8), d.words(address, 2)

    def from_vector(m: Machine, sel: Sel) -> tuple[Array, Array | None]:
        consume(m, sel, pair)
        return wide(m, sel).view(np.int64) - GLOBAL_BASE + offset, None

    return from_vector


def buffer_address(d: Decoder, vector: Operand, descriptor: Operand, scalar: Operand, shape: Shape) -> Address:
    """The arena offsets of a buffer_ instruction, and which dwords (or whole elements) are inside the buffer."""
    if not isinstance(descriptor, Reg) or descriptor.count != 4:
        raise d.error("a buffer instruction needs four scalar registers as its descriptor")
    offset, row = d.number("offset"), descriptor.first
    d.reads.update(range(row, row + 4))
    soffset = d.scalar(scalar)
    offen, idxen = d.flag("offen"), d.flag("idxen")
    rows = d.words(vector) if isinstance(vector, Reg) else []
    if len(rows) != offen + idxen:
        raise d.error("the address register does not fit offen and idxen")

    def run(m: Machine, sel: Sel) -> tuple[Array, Array | None]:
        words = m.s[row : row + 4, sel].astype(np.int64)
        base = words[0] | (words[1] & 0xFFFF) << 32
        stride = words[1] >> 16 & 0x3FFF
        if some(words[1] >> 31 & 1) or some(words[3] >> 23 & 1):
            raise d.error("the simulator does not know swizzled buffers and buffers that add the thread number")
        if rows:
            consume(m, sel, rows)
        inside = np.full((1, 1), offset, np.int64)
        if offen:
            inside = inside + m.v[rows[-1], sel].astype(np.int64)
        index = m.v[rows[0], sel].astype(np.int64) if idxen else np.zeros((1, 1), np.int64)
        start = soffset(m, sel).astype(np.int64)[:, None]
        relative = inside + start + index * stride[:, None]
        records = words[2][:, None]
        parts = np.arange(shape.count) * shape.elem + shape.elem
        if some(stride):
            limit = stride[:, None, None]
            valid = (index[:, :, None] < records[:, :, None]) & (inside[:, :, None] + parts <= limit)
        else:
            valid = relative[:, :, None] + parts <= records[:, :, None]
        where = base[:, None] - GLOBAL_BASE + relative
        return where, None if every(valid) else np.broadcast_to(valid, (*_full(m, sel), shape.count))

    return run


def _full(m: Machine, sel: Sel) -> tuple[int, int]:
    return len(m.wave[sel]), 64


def check_bounds(m: Machine, sel: Sel, where: Array, valid: Array | None, shape: Shape, what: str) -> Array:
    """Addresses [waves, 64] of the active lanes; a finding, and the end, where one is outside every buffer."""
    where = spread(where, _full(m, sel))
    lanes: Array | None = m.mask
    if valid is not None:
        used: Array = valid.max(axis=2)
        lanes = used if lanes is None else lanes & used
        # With some dwords outside the descriptor's range, only those inside matter.
        size = shape.elem
    else:
        size = shape.size
    flat = where if lanes is None else where[lanes]
    bad = m.globals.outside(flat.ravel(), size)
    if some(bad):
        index = int(np.flatnonzero(bad)[0])
        at = int(flat.ravel()[index])
        wave, lane = divmod(index, 64) if lanes is None else (int(each[index]) for each in np.nonzero(lanes))
        name, offset, length = m.globals.owner(at)
        near = "no buffer is near" if name is None else f"nearest is {name}, at byte {offset} of {length}"
        message = f"{what} of {shape.size} bytes at address {at + GLOBAL_BASE:#x} outside every buffer; {near}"
        access = m.access(what, m.site, int(m.wave[sel][wave]), lane)
        span = (offset, offset + shape.size)
        m.find(Finding("out_of_bounds", message, access, None, None, "global", name, span), stop=True)
    if m.trace is not None:
        m.trace.memory(m.wave[sel], shape.size, lanes)
    return where if lanes is None else np.where(lanes, where, 0)


def fetch(arena: Arena, where: Array, lanes: Array | None, valid: Array | None, shape: Shape) -> Array:
    """Read memory: elements [n, count] for the flat offsets of the given lanes; 0 where not valid."""
    flat = where.ravel() if lanes is None else where[lanes]
    if valid is None:
        return load(arena, flat, shape.elem, shape.count)
    ok = valid.reshape(-1, shape.count) if lanes is None else valid[lanes]
    places = np.where(ok, flat[:, None] + np.arange(shape.count) * shape.elem, 0)
    values = load(arena, places.ravel(), shape.elem, 1).reshape(ok.shape)
    return np.where(ok, values, values.dtype.type(0))


# -- loads, stores, DMA ------------------------------------------------------------------------------------------------


def _load(d: Decoder, target: Operand, address: Address, shape: Shape, private: bool = False) -> Handler:
    rows = d.result_words(target, max(shape.size // 4, 1))
    codes = tuple(VECTOR + row for row in rows)
    strong = d.flag("sc1")

    def run(m: Machine, sel: Sel) -> None:
        places, valid = address(m, sel)
        where = places if private else check_bounds(m, sel, places, valid, shape, "read")
        waves, lanes = m.wave[sel], m.mask
        finish = None
        if m.global_race is not None and not private:
            touched = lanes if valid is None else m.lanes(sel) & valid.all(axis=2)
            finish = m.global_race.read(sel, where, shape.size, touched, strong)
        meets = None
        if strong and m.global_race is not None and not private:
            meets, hear = m.global_race.synchronises(sel, where, shape.size, touched, "load")
            assert finish is not None
            finish = all_of([finish, hear])
        held = m.v[rows[0], sel].copy() if shape.half else None
        poison(m, rows, sel)

        def land(done: Array) -> None:
            if meets is not None:
                meets(done)
            part = None if lanes is None else lanes[done]
            ok = None if valid is None else valid[done]
            values = fetch(m.scratch if private else m.globals.arena, where[done], part, ok, shape)
            words = [values[:, index] for index in range(shape.count)]
            if shape.elem < 4:
                words = [widen(words[0], shape.kind)] if held is None else words
            for row, word in zip(rows, words, strict=True):
                if held is not None:
                    old = held[done].ravel() if part is None else held[done][part]
                    word = merge_half(shape.kind, shape.half == "d16_hi", old, word)
                if part is None:
                    m.v[row, waves[done]] = word.reshape(len(done), 64)
                else:
                    now = m.v[row, waves[done]]
                    now[part] = word
                    m.v[row, waves[done]] = now

        m.queue.issue(sel, VM, land, codes, m.lanes(sel), finish)

    return run


def _store(d: Decoder, data: Operand, address: Address, shape: Shape, private: bool = False) -> Handler:
    rows = d.words(data, max(shape.size // 4, 1))
    shift = np.uint32(16 if shape.half else 0)
    strong = d.flag("sc1")

    def run(m: Machine, sel: Sel) -> None:
        consume(m, sel, rows)
        places, valid = address(m, sel)
        where = places if private else check_bounds(m, sel, places, valid, shape, "write")
        values = gather(m, sel, rows)
        if shape.elem < 4:
            values = (values >> shift).astype(np.dtype(shape.kind))
        lanes = m.mask
        finish = None
        if m.global_race is not None and not private:
            touched = lanes if valid is None else m.lanes(sel) & valid.all(axis=2)
            finish = m.global_race.write(sel, where, shape.size, touched, strong)
        meets = None
        if strong and m.global_race is not None and not private:
            meets, _ = m.global_race.synchronises(sel, where, shape.size, touched, "store")

        def land(done: Array) -> None:
            if meets is not None:
                meets(done)
            arena = m.scratch if private else m.globals.arena
            part = slice(None) if lanes is None else lanes[done]
            flat, value = where[done][part].ravel(), values[done][part].reshape(-1, shape.count)
            if valid is None:
                store(arena, flat, value)
                return
            ok = valid[done][part].reshape(-1, shape.count)
            for index in range(shape.count):
                inside = ok[:, index]
                store(arena, flat[inside] + index * shape.elem, value[inside, index : index + 1])

        m.queue.issue(sel, VM, land, finish=finish, what="store")

    return run


def _dma(d: Decoder, address: Address, shape: Shape) -> Handler:
    """From global memory to LDS without registers."""
    wide = d.program.arch == "gfx950"
    if shape.size not in ((1, 2, 4, 12, 16) if wide else (1, 2, 4)):
        raise d.error(f"{d.program.arch} has no LDS-DMA of {shape.size} bytes")
    d.reads.add(M0)
    offset = d.number("offset")
    unit = max(shape.size, 4)

    def run(m: Machine, sel: Sel) -> None:
        places, valid = address(m, sel)
        where = check_bounds(m, sel, places, valid, shape, "read")
        target = m.s[M0, sel].astype(np.int64)[:, None] + offset + np.arange(64) * unit
        lanes = m.mask
        into = locate(m, sel, target, unit, lanes, "write")
        overs = []
        if m.global_race is not None:
            touched = lanes if valid is None else m.lanes(sel) & valid.all(axis=2)
            overs.append(m.global_race.read(sel, where, shape.size, touched))
        if m.race is not None:
            overs.append(m.race.write(sel, into, unit, lanes, DMA))

        def land(done: Array) -> None:
            part = None if lanes is None else lanes[done]
            ok = None if valid is None else valid[done]
            values = fetch(m.globals.arena, where[done], part, ok, shape)
            if shape.elem < 4:
                values = widen(values, shape.kind)
            flat = into[done].ravel() if part is None else into[done][part]
            store(m.lds, flat, values)

        m.queue.issue(sel, VM, land, finish=all_of(overs), what="LDS-DMA")

    return run


# -- the forms of the instructions -----------------------------------------------------------------------------------

_ADDRESSES = ("v2 off?", "v s2", "off s2")  # of global memory: 64 bits, or a base and 32 bits, or the base alone
_BUFFERS = ("off s4 S", "v s4 S", "v2 s4 S")  # without an index or offset in registers, with one, with both
_PRIVATE = ("off s", "v off", "off off", "v s")


def _data(name: str) -> str:
    _, _, what = name.partition("_load_" if "_load_" in name else "_store_")
    shape = _LOADS.get(what) or _STORES[what]
    return f"v{max(shape.size // 4, 1)}"


def _reads(name: str) -> str:
    return " | ".join(f"{_data(name)} {address}" for address in _ADDRESSES)


def _writes(name: str) -> str:
    data = _data(name)
    return " | ".join(" ".join([address.split()[0], data, *address.split()[1:]]) for address in _ADDRESSES)


def _buffer_reads(name: str) -> str:
    return " | ".join([*(f"{_data(name)} {address}" for address in _BUFFERS), *_BUFFERS, "s4 S"])


def _buffer_writes(name: str) -> str:
    return " | ".join(f"{_data(name)} {address}" for address in _BUFFERS)


def _private_reads(name: str) -> str:
    return " | ".join(f"{_data(name)} {address}" for address in _PRIVATE)


def _private_writes(name: str) -> str:
    data = _data(name)
    return " | ".join(f"{address.split()[0]} {data} {address.split()[1]}" for address in _PRIVATE)


@instruction(*(f"{space}_load_{name}" for space in ("global", "flat") for name in _LOADS), takes=_reads, mods="global")
def _global_load(ins: Instruction, d: Decoder) -> Handler:
    shape = _LOADS[ins.name.partition("_load_")[2]]
    base = ins.operands[2] if len(ins.operands) > 2 else None
    return _load(d, ins.operands[0], global_address(d, ins.operands[1], base), shape)


@instruction(
    *(f"{space}_store_{name}" for space in ("global", "flat") for name in _STORES), takes=_writes, mods="global"
)
def _global_store(ins: Instruction, d: Decoder) -> Handler:
    shape = _STORES[ins.name.partition("_store_")[2]]
    base = ins.operands[2] if len(ins.operands) > 2 else None
    return _store(d, ins.operands[1], global_address(d, ins.operands[0], base), shape)


@instruction(*(f"global_load_lds_{name}" for name in _LOADS), takes="v2 off? | v s2 | off s2", mods="global")
def _global_dma(ins: Instruction, d: Decoder) -> Handler:
    shape = _LOADS[ins.name.partition("_lds_")[2]]
    base = ins.operands[1] if len(ins.operands) > 1 else None
    return _dma(d, global_address(d, ins.operands[0], base), shape)


@instruction(*(f"buffer_load_{name}" for name in _LOADS), takes=_buffer_reads, mods="buffer")
def _buffer_load(ins: Instruction, d: Decoder) -> Handler:
    shape = _LOADS[ins.name.partition("_load_")[2]]
    if d.flag("lds"):
        if len(ins.operands) > 3:
            raise d.error("LDS-DMA has no register as its result")
        vector, descriptor, scalar = ins.operands if len(ins.operands) == 3 else (Word("off"), *ins.operands)
        return _dma(d, buffer_address(d, vector, descriptor, scalar, shape), shape)
    if len(ins.operands) != 4:
        raise d.error(f"{ins.name} without lds needs a register as its result")
    target, vector, descriptor, scalar = ins.operands
    return _load(d, target, buffer_address(d, vector, descriptor, scalar, shape), shape)


@instruction(*(f"buffer_store_{name}" for name in _STORES), takes=_buffer_writes, mods="buffer")
def _buffer_store(ins: Instruction, d: Decoder) -> Handler:
    shape = _STORES[ins.name.partition("_store_")[2]]
    data, vector, descriptor, scalar = ins.operands
    return _store(d, data, buffer_address(d, vector, descriptor, scalar, shape), shape)


def scratch_address(d: Decoder, vector: Operand, scalar: Operand, shape: Shape, what: str) -> Address:
    """The arena offsets of a scratch_ instruction: each lane has private memory of its own (CDNA3 ISA, 10.1)."""
    offset = d.number("offset")
    rows = d.words(vector, 1) if isinstance(vector, Reg) else []
    start = d.scalar(scalar) if isinstance(scalar, Reg) else d.scalar(Literal(0))

    def run(m: Machine, sel: Sel) -> tuple[Array, Array | None]:
        inside = start(m, sel).astype(np.int64)[:, None] + offset
        if rows:
            consume(m, sel, rows)
            inside = inside + m.v[rows[0], sel].astype(np.int64)
        inside = spread(inside & 0xFFFFFFFF, _full(m, sel))
        bad = (inside + shape.size > m.private_size) & m.lanes(sel)
        if some(bad):
            wave, lane = (int(each[0]) for each in np.nonzero(bad))
            at = int(inside[wave, lane])
            message = f"{what} of {shape.size} bytes at {at} of {m.private_size} bytes of private memory"
            access = m.access(what, m.site, int(m.wave[sel][wave]), lane)
            m.find(Finding("out_of_bounds", message, access, space="local", bytes=(at, at + shape.size)), stop=True)
        place = (m.wave[sel][:, None] * 64 + np.arange(64)) * m.private_size + inside
        return np.where(m.lanes(sel), place, 0), None

    return run


@instruction(*(f"scratch_load_{name}" for name in _LOADS), takes=_private_reads, mods="global")
def _scratch_load(ins: Instruction, d: Decoder) -> Handler:
    shape = _LOADS[ins.name.partition("_load_")[2]]
    address = scratch_address(d, ins.operands[1], ins.operands[2], shape, "read")
    return _load(d, ins.operands[0], address, shape, private=True)


@instruction(*(f"scratch_store_{name}" for name in _STORES), takes=_private_writes, mods="global")
def _scratch_store(ins: Instruction, d: Decoder) -> Handler:
    shape = _STORES[ins.name.partition("_store_")[2]]
    address = scratch_address(d, ins.operands[0], ins.operands[2], shape, "write")
    return _store(d, ins.operands[1], address, shape, private=True)


@instruction("buffer_wbl2", "buffer_inv", "buffer_wbinvl1", "buffer_wbinvl1_vol", takes="", mods="cache")
def _cache(ins: Instruction, d: Decoder) -> Handler:
    """Caches are not modelled; a write-back counts in vmcnt like a store. With sc1, for other workgroups, it releases,
    and an invalidation acquires."""
    device = d.flag("sc1")
    d.flag("sc0")
    if ins.name == "buffer_wbl2":

        def write_back(m: Machine, sel: Sel) -> None:
            finish = m.global_race.write_back(sel) if device and m.global_race is not None else None
            m.queue.issue(sel, VM, None, finish=finish, what="write-back")

        return write_back

    def invalidate(m: Machine, sel: Sel) -> None:
        if device and m.global_race is not None:
            m.global_race.sight.acquire(sel)

    return invalidate
