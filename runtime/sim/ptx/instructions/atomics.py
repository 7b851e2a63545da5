"""atom, red, fence and membar (PTX ISA 8.0, 9.7.12.3 to 9.7.12.6).

Threads of one instruction that hit the same address are applied in thread order: the accesses are sorted into rounds
in which each address occurs once. `red` on plain integer and float types needs no rounds and uses NumPy's ufunc.at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.memory import Space, split_generic
from ...core.scalars import DTYPES, REDUCTIONS, SIZES, UNSIGNED, Array, Sel, where
from ...core.updates import UPDATES
from ..operands import Read, address, count, error, read, write
from ..program import Linker
from ..race.scopes import scope_of
from ..syntax import Instruction, Vector
from ..table import Handler, instruction
from .load_store import bit_kind, space_of

if TYPE_CHECKING:
    from ..machine import Machine

Update = Callable[..., Array]
_HALVES = {"f16x2": "f16", "bf16x2": "bf16"}


_UPDATES: dict[str, Update] = {
    **UPDATES,
    "exch": lambda old, b: b,
    "cas": lambda old, b, c: where(old == b, c, old),
}


@instruction("atom")
def _atom(ins: Instruction, linker: Linker) -> Handler:
    return _atomic(ins, linker, 1)


@instruction("red", results=0)
def _red(ins: Instruction, linker: Linker) -> Handler:
    return _atomic(ins, linker, 0)


def _atomic(ins: Instruction, linker: Linker, results: int) -> Handler:
    name = next((mod for mod in ins.mods if mod in _UPDATES), None)
    kind = ins.mods[-1]
    if name is None or kind not in DTYPES:
        raise error(ins, f"unsupported instruction {ins.opcode}")
    where = address(ins.operands[results], ins, linker)
    operands = ins.operands[results + 1 : results + (3 if name == "cas" else 2)]
    lanes = len(operands[0].items) if isinstance(operands[0], Vector) else 1
    sources = [_lanes(operand, kind, ins, linker) for operand in operands]
    target = ins.operands[0] if results else None
    items = target.items if isinstance(target, Vector) and lanes > 1 else (target,)
    writers = [write(item, bit_kind(kind), ins, linker) for item in items if item is not None]
    space = space_of(ins, ins.operands[results], linker)
    site = linker.site(ins)
    elem = SIZES[kind]
    dtype = DTYPES[_HALVES.get(kind, kind)]
    word = UNSIGNED[elem]
    update = _UPDATES[name]
    known = name == "add" if dtype.kind == "f" else name in REDUCTIONS and dtype.kind in "iu"
    direct = known and not results and lanes == 1 and kind not in _HALVES

    def change(old: Array, *values: Array) -> Array:
        parts = [np.ascontiguousarray(each).view(dtype) for each in (old, *values)]
        return np.ascontiguousarray(update(*parts)).view(word).reshape(old.shape)

    def perform(m: Machine, part: Space, threads: Sel, addr: Array, values: list[Array]) -> Array:
        size = elem * lanes
        place = part.locate(m, threads, addr, size, site, "atomic")
        if m.race is not None:
            m.race.atomic(part.name, m.thread[threads], place, size, site)
        table = part.arena.view(elem, lanes)
        if direct:
            REDUCTIONS[name].at(table.view(dtype)[:, 0], place // size, values[0][:, 0].view(dtype))
            return values[0]
        old = np.empty_like(values[0])
        for turn in _rounds(place):
            rows = place[turn] // size
            old[turn] = table[rows]
            table[rows] = change(old[turn], *(each[turn] for each in values))
        return old

    def run(m: Machine, sel: Sel) -> None:
        addr = where(m, sel)
        values = [source(m, sel) for source in sources]
        if space is not None:
            old = perform(m, m.spaces[space], sel, addr, values)
        else:
            old = np.empty_like(values[0])
            for part, threads, local, positions in split_generic(m, sel, addr):
                chosen = values if positions is None else [each[positions] for each in values]
                old[slice(None) if positions is None else positions] = perform(m, part, threads, local, chosen)
        for lane, writer in enumerate(writers):
            writer(m, sel, np.ascontiguousarray(old[:, lane]).view(DTYPES[bit_kind(kind)]))

    return run


def _lanes(operand: Any, kind: str, ins: Instruction, linker: Linker) -> Read:
    """A reader of an operand or vector as unsigned words [threads, lanes]."""
    items = operand.items if isinstance(operand, Vector) else (operand,)
    readers = [read(item, bit_kind(kind) if SIZES[kind] > 2 else kind, ins, linker) for item in items]
    word = UNSIGNED[SIZES[kind]]

    def reader(m: Machine, sel: Sel) -> Array:
        table = np.empty((count(sel), len(readers)), word)
        for lane, each in enumerate(readers):
            table[:, lane] = each(m, sel).view(word)
        return table

    return reader


def _rounds(place: Array) -> list[Array]:
    """Positions by rounds: within a round every place occurs once, and rounds follow thread order."""
    order = np.argsort(place, kind="stable")
    ordered = place[order]
    first = np.r_[True, ordered[1:] != ordered[:-1]]
    if first.all():
        return [np.arange(len(place))]
    start = np.maximum.accumulate(np.where(first, np.arange(len(place)), 0))
    turn = np.arange(len(place)) - start
    by_turn = np.argsort(turn, kind="stable")
    edges = np.cumsum(np.bincount(turn))
    return [order[part] for part in np.split(by_turn, edges[:-1])]


@instruction("fence", "membar", results=0)
def _fence(ins: Instruction, linker: Linker) -> Handler:
    if "proxy" in ins.mods:
        raise error(ins, "proxy fences are not simulated for this target")

    scope = scope_of(ins)

    def run(m: Machine, sel: Sel) -> None:
        if m.race is not None:
            m.race.fence(m.thread[sel], scope)

    return run
