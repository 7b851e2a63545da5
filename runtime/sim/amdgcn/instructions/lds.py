"""LDS instructions: reads, writes, atomics, transposing reads, and moves between lanes (CDNA3 ISA, chapter 11, 12.15).

LDS instructions of a wave are carried out in order, at some time between issue and the wait for lgkmcnt. ds_bpermute,
ds_permute and ds_swizzle use the same unit and counter but no memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ...core.report import Finding
from ...core.scalars import Array, Sel, every, some, spread
from ..decode import VECTOR, Decoder
from ..memory import load, store
from ..queue import DS
from ..race.lds import LDS_UNIT
from ..syntax import Instruction
from ..table import Handler, instruction

if TYPE_CHECKING:
    from ..machine import Machine

Land = Callable[[Array], None]


def locate(m: Machine, sel: Sel, address: Array, size: int, lanes: Array | None, what: str) -> Array:
    """Arena offsets [waves, 64] of LDS addresses; a finding, and the end, where they leave the workgroup's LDS."""
    bad = address + size > m.launch.lds_size
    bad |= address < 0
    if lanes is not None:
        bad &= lanes
    if some(bad):
        wave, lane = (int(each[0]) for each in np.nonzero(bad))
        at = int(address[wave, lane])
        message = f"{what} of {size} bytes at LDS address {at:#x}; the workgroup has {m.launch.lds_size} bytes"
        access = m.access(what, m.site, int(m.wave[sel][wave]), lane)
        m.find(Finding("out_of_bounds", message, access, space="shared", bytes=(at, at + size)), stop=True)
    if m.trace is not None:
        m.trace.shared(m.wave[sel], address, size, lanes)
    place: Array = address + m.group[sel][:, None] * m.lds_stride
    return place if lanes is None else np.where(lanes, place, 0)


def consume(m: Machine, sel: Sel, rows: list[int] | Array) -> None:
    """These vector registers decide something (an address, a stored value): they must have been written."""
    written = m.written[rows][:, sel]
    if every(written):
        return
    index, wave = (int(each[0]) for each in np.nonzero(~written))
    name = m.program.row_name(VECTOR + int(rows[index]))
    message = f"register {name} is used but was never written on this path"
    m.find(
        Finding(
            "uninitialised",
            message,
            m.access("read", m.site, int(m.wave[sel][wave])),
            space="register",
            buffer=name,
        )
    )


def scatter(m: Machine, rows: list[int], waves: Array, lanes: Array | None, values: Array) -> None:
    """Put values [words, waves, 64] into vector registers, in the given lanes."""
    for row, value in zip(rows, values, strict=True):
        if lanes is None:
            m.v[row, waves] = value
        else:
            held = m.v[row, waves]
            np.copyto(held, value, where=lanes)
            m.v[row, waves] = held


def poison(m: Machine, rows: list[int], sel: Sel) -> None:
    """Registers into which a load is in flight hold nothing of use; they count as written."""
    for row in rows:
        m.written[row, sel] = True
        if m.queue.lazy:
            m.put(row, sel, np.array([[0xFFFFFFFF]], np.uint32))


def _address(d: Decoder, operand: int, offset: int) -> Callable[[Machine, Sel], Array]:
    read = d.vector(d.operand(operand))
    return lambda m, sel: spread(read(m, sel).astype(np.int64) + offset & 0xFFFFFFFF, (len(m.wave[sel]), 64))


# -- reads -------------------------------------------------------------------------------------------------------------


def read_instruction(
    m: Machine,
    sel: Sel,
    addresses: list[Array],
    elem: int,
    count: int,
    rows: list[int],
    shape: Callable[[list[Array], Array], list[Array]],
    what: str = "LDS read",
) -> None:
    """Issue a read of `count` elements at each address; `shape` turns them into the words of the result."""
    lanes = m.mask
    places = [locate(m, sel, address, elem * count, lanes, "read") for address in addresses]
    finish = None
    if m.race is not None:
        overs = [m.race.read(sel, place, elem * count, lanes) for place in places]
        finish = all_of(overs)
    waves = m.wave[sel]

    def land(done: Array) -> None:
        parts = []
        for place in places:
            flat = place[done].ravel()
            parts.append(load(m.lds, flat, elem, count).reshape(len(done), 64, count))
        part = None if lanes is None else lanes[done]
        scatter(m, rows, waves[done], part, np.stack(shape(parts, done)))

    poison(m, rows, sel)
    m.queue.issue(sel, DS, land, tuple(VECTOR + row for row in rows), m.lanes(sel), finish, what)


def all_of(overs: list[Land]) -> Land:
    """Calls all of these."""

    def finish(done: Array) -> None:
        for over in overs:
            over(done)

    return finish


def _words(parts: list[Array], done: Array) -> list[Array]:
    """Elements of 4 or 8 bytes as words."""
    words: list[Array] = []
    for part in parts:
        narrow = np.ascontiguousarray(part).view(np.uint32)
        words += [narrow[:, :, index] for index in range(narrow.shape[2])]
    return words


_READS = {"b32": 1, "b64": 2, "b96": 3, "b128": 4}


@instruction(*(f"ds_read_{name}" for name in _READS), takes=lambda name: f"v{_READS[name[8:]]} v", mods="ds")
def _read(ins: Instruction, d: Decoder) -> Handler:
    count = _READS[ins.name[8:]]
    address, rows = _address(d, 1, d.number("offset")), d.result_words(ins.operands[0], count)
    sources = d.words(ins.operands[1], 1)

    def run(m: Machine, sel: Sel) -> None:
        consume(m, sel, sources)
        read_instruction(m, sel, [address(m, sel)], 4, count, rows, _words)

    return run


_READ2 = ("ds_read2_b32", "ds_read2_b64", "ds_read2st64_b32", "ds_read2st64_b64")


@instruction(*_READ2, takes=lambda name: "v2 v" if name.endswith("32") else "v4 v", mods="ds2")
def _read2(ins: Instruction, d: Decoder) -> Handler:
    """Two elements; the offsets count elements, or 64 elements in the st64 forms."""
    words = 1 if ins.name.endswith("32") else 2
    scale = 4 * words * (64 if "st64" in ins.name else 1)
    addresses = [_address(d, 1, scale * d.number(f"offset{index}")) for index in (0, 1)]
    rows, sources = d.result_words(ins.operands[0], 2 * words), d.words(ins.operands[1], 1)

    def run(m: Machine, sel: Sel) -> None:
        consume(m, sel, sources)
        read_instruction(m, sel, [address(m, sel) for address in addresses], 4, words, rows, _words)

    return run


SMALL = {"u8": ("u1", False), "i8": ("i1", False), "u16": ("u2", False), "i16": ("i2", False)}


def widen(values: Array, kind: str) -> Array:
    """Elements of 1 or 2 bytes as words, signed or not."""
    return values.view(np.dtype(kind)).astype(np.dtype(f"{kind[0]}4")).view(np.uint32)


def merge_half(kind: str, high: bool, held: Array, values: Array) -> Array:
    """A d16 result: one half of the register gets the value, the other keeps."""
    narrow = widen(values, kind) & np.uint32(0xFFFF)
    if high:
        return held & np.uint32(0xFFFF) | narrow << np.uint32(16)
    return held & np.uint32(0xFFFF0000) | narrow


_HALVES = ("", "_d16", "_d16_hi")


@instruction(*(f"ds_read_{name}{form}" for name in SMALL for form in _HALVES), takes="v v", mods="ds")
def _read_small(ins: Instruction, d: Decoder) -> Handler:
    name, _, form = ins.name[8:].partition("_")
    kind = SMALL[name][0]
    size = int(kind[1])
    address, rows = _address(d, 1, d.number("offset")), d.result_words(ins.operands[0], 1)
    sources = d.words(ins.operands[1], 1)

    def run(m: Machine, sel: Sel) -> None:
        consume(m, sel, sources)
        # The other half is kept: it is as it was when the read was issued.
        held = m.v[rows[0], sel].copy()

        def shape(parts: list[Array], done: Array) -> list[Array]:
            values = parts[0][:, :, 0]
            if not form:
                return [widen(values, kind)]
            return [merge_half(kind, form == "d16_hi", held[done], values)]

        read_instruction(m, sel, [address(m, sel)], size, 1, rows, shape)

    return run


_TRANSPOSED = ("ds_read_b64_tr_b16", "ds_read_b64_tr_b8", "ds_read_b64_tr_b4", "ds_read_b96_tr_b6")


@instruction(*_TRANSPOSED, takes=lambda name: "v3 v" if "b96" in name else "v2 v", mods="ds")
def _read_transposed(ins: Instruction, d: Decoder) -> Handler:
    """Sixteen lanes read 16 x 8 bytes and get them transposed (CDNA4 ISA, 11.4).

    With elements of 2 bytes, four lanes hold one row of 16 elements; lane l of the sixteen gets column l, four rows.
    With 1 byte, two lanes hold a row and a lane gets eight rows.
    """
    bits = int(ins.name.rpartition("_b")[2])
    if bits not in (8, 16):
        raise d.error(f"the simulator does not know {ins.name}")
    size = bits // 8
    address, rows = _address(d, 1, d.number("offset")), d.result_words(ins.operands[0], 2)
    sources = d.words(ins.operands[1], 1)
    each = 8 // size  # elements of a lane, and rows of a block

    def shape(parts: list[Array], done: Array) -> list[Array]:
        block = parts[0].reshape(len(parts[0]), 4, each, 16)  # 16 lanes in row-major order are `each` rows of 16
        columns = np.ascontiguousarray(block.transpose(0, 1, 3, 2)).reshape(len(block), 64, each)
        return _words([columns], done)

    def run(m: Machine, sel: Sel) -> None:
        consume(m, sel, sources)
        if m.mask is not None:
            raise d.error(f"{ins.name} needs all lanes active")
        read_instruction(m, sel, [address(m, sel)], size, each, rows, shape)

    return run


# -- writes ------------------------------------------------------------------------------------------------------------


def _write_instruction(m: Machine, sel: Sel, pieces: list[tuple[Array, Array]]) -> None:
    """Issue writes of (addresses, values [waves, 64, elements])."""
    lanes = m.mask
    size = pieces[0][1].dtype.itemsize * pieces[0][1].shape[2]
    places = [locate(m, sel, address, size, lanes, "write") for address, _ in pieces]
    finish = None
    if m.race is not None:
        finish = all_of([m.race.write(sel, place, size, lanes, LDS_UNIT) for place in places])

    def land(done: Array) -> None:
        for place, (_, values) in zip(places, pieces, strict=True):
            where, value = place[done], values[done]
            if lanes is None:
                store(m.lds, where.ravel(), value.reshape(-1, value.shape[2]))
            else:
                store(m.lds, where[lanes[done]], value[lanes[done]])

    m.queue.issue(sel, DS, land, finish=finish, what="LDS write")


def gather(m: Machine, sel: Sel, rows: list[int]) -> Array:
    """The words of vector registers: [waves, 64, words], a copy."""
    return np.stack([m.v[row, sel] for row in rows], axis=2)


_WRITES = {"b8": (1, 1), "b16": (2, 1), "b32": (4, 1), "b64": (4, 2), "b96": (4, 3), "b128": (4, 4)}


_WRITE_NAMES = (*(f"ds_write_{name}" for name in _WRITES), "ds_write_b8_d16_hi", "ds_write_b16_d16_hi")


@instruction(*_WRITE_NAMES, takes=lambda name: f"v v{_WRITES[name.split('_')[2]][1]}", mods="ds")
def _write(ins: Instruction, d: Decoder) -> Handler:
    elem, count = _WRITES[ins.name.split("_")[2]]
    shift = np.uint32(16 if ins.name.endswith("hi") else 0)
    address, rows = _address(d, 0, d.number("offset")), d.words(ins.operands[1], count)
    sources = [*d.words(ins.operands[0], 1), *rows]

    def run(m: Machine, sel: Sel) -> None:
        consume(m, sel, sources)
        values = gather(m, sel, rows)
        if elem < 4:
            values = (values >> shift).astype(np.dtype(f"u{elem}"))
        _write_instruction(m, sel, [(address(m, sel), values)])

    return run


_WRITE2 = ("ds_write2_b32", "ds_write2_b64", "ds_write2st64_b32", "ds_write2st64_b64")


@instruction(*_WRITE2, takes=lambda name: "v v v" if name.endswith("32") else "v v2 v2", mods="ds2")
def _write2(ins: Instruction, d: Decoder) -> Handler:
    words = 1 if ins.name.endswith("32") else 2
    scale = 4 * words * (64 if "st64" in ins.name else 1)
    addresses = [_address(d, 0, scale * d.number(f"offset{index}")) for index in (0, 1)]
    data = [d.words(ins.operands[index], words) for index in (1, 2)]
    sources = [*d.words(ins.operands[0], 1), *data[0], *data[1]]

    def run(m: Machine, sel: Sel) -> None:
        consume(m, sel, sources)
        _write_instruction(
            m,
            sel,
            [(address(m, sel), gather(m, sel, rows)) for address, rows in zip(addresses, data, strict=True)],
        )

    return run


# -- between lanes -----------------------------------------------------------------------------------------------------


def _lane_instruction(m: Machine, sel: Sel, row: int, value: Array, enabled: Array) -> None:
    """A result that the LDS unit computes from registers: it lands like a read."""
    waves = m.wave[sel]
    poison(m, [row], sel)

    def land(done: Array) -> None:
        scatter(m, [row], waves[done], enabled[done], value[None, done])

    m.queue.issue(sel, DS, land, (VECTOR + row,), enabled, what="LDS lane operation")


@instruction("ds_bpermute_b32", "ds_permute_b32", takes="v v v", mods="ds")
def _permute(ins: Instruction, d: Decoder) -> Handler:
    """bpermute: lane l gets the value of lane address / 4; permute: lane address / 4 gets lane l's. 0 from inactive."""
    (row,) = d.result_words(ins.operands[0], 1)
    address = _address(d, 1, d.number("offset"))
    (data,) = d.words(ins.operands[2], 1)
    pull = ins.name == "ds_bpermute_b32"

    def run(m: Machine, sel: Sel) -> None:
        lane = address(m, sel) // 4 % 64
        active = m.lanes(sel)
        value = np.where(active, m.v[data, sel], 0).astype(np.uint32)
        if pull:
            result = np.take_along_axis(value, lane, 1)
        else:
            result = np.zeros_like(value)
            waves, lanes = np.nonzero(active)
            result[waves, lane[waves, lanes]] = value[waves, lanes]
        _lane_instruction(m, sel, row, result, active)

    return run


def swizzle_source(d: Decoder) -> Array:
    """The lane that each lane reads in ds_swizzle_b32 (CDNA3 ISA, DS_SWIZZLE_B32; LLVM, AMDGPUModifierSyntax)."""
    lane: Array = np.arange(64)
    within, base = lane % 32, lane // 32 * 32
    given = d.ins.mods.get("offset", 0)
    result: Array = lane
    if isinstance(given, str):
        inner = re.fullmatch(r"swizzle\((.*)\)", given)
        parts = [part.strip() for part in inner[1].split(",")] if inner else [""]
        mode, numbers = parts[0], [int(part, 0) for part in parts[1:] if part.lstrip("-").isdigit()]
        if mode == "QUAD_PERM":
            result = lane // 4 * 4 + np.array(numbers)[lane % 4]
        elif mode == "SWAP":
            result = base + (within ^ numbers[0])
        elif mode == "REVERSE":
            result = base + (within ^ (numbers[0] - 1))
        elif mode == "BROADCAST":
            result = base + within // numbers[0] * numbers[0] + numbers[1]
        elif mode == "BITMASK_PERM":
            result = base.copy()
            for bit, sign in zip((4, 3, 2, 1, 0), parts[1].strip('"'), strict=True):
                own = within >> bit & 1
                result |= {"0": own * 0, "1": own * 0 + 1, "p": own, "i": 1 - own}[sign] << bit
        else:
            raise d.error(f"the simulator does not know {given}")
        return result
    offset = d.number("offset")
    if offset & 0x8000:
        result = lane // 4 * 4 + np.array([offset >> 2 * index & 3 for index in range(4)])[lane % 4]
    else:
        result = base + ((within & offset & 31 | offset >> 5 & 31) ^ (offset >> 10 & 31))
    return result


@instruction("ds_swizzle_b32", takes="v v", mods="swizzle")
def _swizzle(ins: Instruction, d: Decoder) -> Handler:
    (row,), (data,) = d.result_words(ins.operands[0], 1), d.words(ins.operands[1], 1)
    lanes = swizzle_source(d)

    def run(m: Machine, sel: Sel) -> None:
        active = m.lanes(sel)
        value = np.where(active, m.v[data, sel], 0).astype(np.uint32)
        _lane_instruction(m, sel, row, value[:, lanes], active)

    return run
