"""tensormap.replace and tensormap.cp_fenceproxy: tensor maps that a program makes (PTX ISA 8.3, 9.7.8.26, 9.7.8.27).

Both are accesses of the generic proxy to the 128 bytes of a map. A copy into global memory releases it to the tensormap
proxy as well (`tensor_map.py`); all lanes of a warp make it together, eight of them 16 bytes each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...core.memory import split_generic
from ...core.scalars import Array, Sel
from ..operands import address, error, per_thread, read
from ..program import Linker
from ..race.scopes import scope_of
from ..syntax import Instruction, Integer
from ..table import Decoded, Handler, Kind, instruction, whole_warp
from ..tensor_map import FIELDS, MAP_SIZE, replaced
from .load_store import space_of

if TYPE_CHECKING:
    from ..machine import Machine

_ALIGNMENT = 64
_PIECE = 16  # bytes that a lane copies
_LANES = np.arange(MAP_SIZE // _PIECE)


@instruction("tensormap.replace", results=0)
def _replace(ins: Instruction, linker: Linker) -> Handler:
    """tensormap.replace.tile.FIELD{.space}.b1024.type [map], {ordinal,} value."""
    name = next((mod for mod in ins.mods if mod in FIELDS), None)
    if name is None or "tile" not in ins.mods:
        raise error(ins, f"unsupported instruction {ins.opcode}")
    most = FIELDS[name][2]
    ordinal = 0
    if most > 1:
        number = ins.operands[1]
        if not isinstance(number, Integer) or not 0 <= number.value < most:
            raise error(ins, f"which {name} must be a constant from 0 to {most - 1}")
        ordinal = number.value
    where, space = address(ins.operands[0], ins, linker), space_of(ins, ins.operands[0], linker)
    value = read(ins.operands[-1], f"u{ins.mods[-1][1:]}", ins, linker)
    site = linker.site(ins)

    def run(m: Machine, sel: Sel) -> None:
        values = per_thread(value(m, sel), sel)
        addr = where(m, sel)
        parts = split_generic(m, sel, addr) if space is None else [(m.spaces[space], sel, addr, None)]
        for part, threads, local, positions in parts:
            numbers = values if positions is None else values[positions]
            places = part.locate(m, threads, local, MAP_SIZE, site, "tensor map", align=_ALIGNMENT)
            if m.race is not None:
                who = m.thread[threads]
                m.race.read(part.name, who, places, MAP_SIZE, site, False)
                m.race.write(part.name, who, places, MAP_SIZE, site, False)
            for place, number in zip(places.tolist(), numbers.tolist(), strict=True):
                data = part.arena.data[place : place + MAP_SIZE]
                data[:] = replaced(data, name, ordinal, number)

    return run


@instruction("tensormap.cp_fenceproxy", kind=Kind.WARP, results=0)
def _copy(ins: Instruction, linker: Linker) -> Decoded:
    """tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.SCOPE.sync.aligned [to], [from], 128."""
    size = ins.operands[2]
    if not isinstance(size, Integer) or size.value != MAP_SIZE:
        raise error(ins, "a tensor map has 128 bytes")
    to, source = address(ins.operands[0], ins, linker), address(ins.operands[1], ins, linker)
    site, scope = linker.site(ins), scope_of(ins)

    def run(m: Machine, sel: Sel) -> None:
        threads = m.thread[sel]
        targets, sources = to(m, sel), source(m, sel)
        for start in range(0, len(threads), 32):
            _copy_map(m, threads[start : start + 32], int(targets[start]), int(sources[start]), site, scope)

    return Decoded(run, whole_warp)


def _copy_map(m: Machine, warp: Array, to: int, source: int, site: int, scope: int) -> None:
    first, lanes = warp[:1], warp[: len(_LANES)]
    begin, end = m.spaces["shared"], m.spaces["global"]
    at = begin.locate(m, first, np.array([source]), MAP_SIZE, site, "tensor map", align=_ALIGNMENT) + _PIECE * _LANES
    there = end.locate(m, first, np.array([to]), MAP_SIZE, site, "tensor map", align=_ALIGNMENT) + _PIECE * _LANES
    if m.race is not None:
        m.race.read("shared", lanes, at, _PIECE, site, False)
        m.race.write("global", lanes, there, _PIECE, site, False)
        m.race.globals.tensor_maps.release(warp, scope)
        m.race.clocks.warp(warp, np.full(len(warp), 0xFFFFFFFF, np.uint32))
    end.arena.view(8, 2)[there // _PIECE] = begin.arena.view(8, 2)[at // _PIECE]
