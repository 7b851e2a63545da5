"""Waits, barriers, the end of a wave, and scalar loads (CDNA3 ISA, 4.4, chapter 7)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from ...core.report import Finding
from ...core.scalars import Array, Sel
from ..decode import Decoder, fixed
from ..memory import GLOBAL_BASE, load
from ..queue import SMEM
from ..syntax import Instruction, Literal, Reg, Word
from ..table import Control, Handler, Outcome, instruction

if TYPE_CHECKING:
    from ..machine import Machine


_COUNT = re.compile(r"(vmcnt|lgkmcnt|expcnt)\((0x[0-9a-fA-F]{1,4}|[1-9]\d{0,4}|0)\)")
_COUNTS = re.compile(rf"{_COUNT.pattern}(?:\s*[&,]?\s*{_COUNT.pattern}){{0,2}}")
_ENCODED = re.compile(r"0x[0-9a-fA-F]{1,4}|[1-9]\d{0,4}|0")


def counters(text: str) -> tuple[int | None, int | None]:
    """(vmcnt, lgkmcnt) that an s_waitcnt waits for, None where it does not. A number is the encoding of GFX9.
    ValueError where the text is neither."""
    if _ENCODED.fullmatch(text):
        word = int(text, 0)
        vm, lgkm = word & 15 | (word >> 14 & 3) << 4, word >> 8 & 15
        return None if vm == 63 else vm, None if lgkm == 15 else lgkm
    if not _COUNTS.fullmatch(text):
        raise ValueError(f"{text[:60]!r} are no counters to wait for")
    found = {name: int(value, 0) for name, value in _COUNT.findall(text)}
    return found.get("vmcnt"), found.get("lgkmcnt")


@instruction("s_waitcnt", takes="W")
def _waitcnt(ins: Instruction, d: Decoder) -> Handler:
    text = ins.operands[0]
    assert isinstance(text, Word)
    try:
        vm, lgkm = counters(text.text)
    except ValueError as problem:
        raise d.error(str(problem)) from None
    return lambda m, sel: m.queue.wait(sel, vm, lgkm)


@instruction("s_barrier", takes="")
def _barrier(ins: Instruction, d: Decoder) -> Control:
    """Waits until every wave of the workgroup that has not ended has come. It waits for no memory operation."""

    def run(m: Machine, sel: Sel, following: int) -> Outcome:
        m.waiting[sel] = True
        m.passed[sel] += 1
        m.resume[sel] = following
        settle(m, np.unique(m.group[sel]))
        return []

    return Control(run)


def settle(m: Machine, groups: Array) -> None:
    """Release the workgroups all of whose living waves wait at a barrier."""
    for group in groups.tolist():
        waves = np.arange(group * m.per_group, (group + 1) * m.per_group)
        living = waves[~m.ended[waves]]
        if len(living) and m.waiting[living].all():
            m.waiting[living] = False
            if m.global_race is not None:
                m.global_race.sight.barrier(living)
            for at in np.unique(m.resume[living]).tolist():
                m.released.append((at, living[m.resume[living] == at]))


@instruction("s_endpgm", takes="")
def _end(ins: Instruction, d: Decoder) -> Control:
    def run(m: Machine, sel: Sel, following: int) -> Outcome:
        m.queue.end(sel)
        m.ended[sel] = True
        groups = np.unique(m.group[sel])
        if m.launch.check:
            _check_barriers(m, groups)
        settle(m, groups)
        return []

    return Control(run)


def _check_barriers(m: Machine, groups: Array) -> None:
    """Every wave of a workgroup must have met the same number of barriers."""
    for group in groups.tolist():
        waves = np.arange(group * m.per_group, (group + 1) * m.per_group)
        if not m.ended[waves].all():
            continue
        met = m.passed[waves]
        if met.min() != met.max():
            few, many = int(waves[met.argmin()]), int(waves[met.argmax()])
            message = (
                f"wave {few - waves[0]} of workgroup {m.position(few)[1]} met {met.min()} barriers and wave "
                f"{many - waves[0]} met {met.max()}; all waves must meet the same number"
            )
            m.find(Finding("barrier_mismatch", message, m.access("end", m.site, few)))


@instruction("s_trap", takes="I")
def _trap(ins: Instruction, d: Decoder) -> Control:
    def run(m: Machine, sel: Sel, following: int) -> Outcome:
        wave = int(m.wave[sel][0])
        m.find(Finding("trap", "the program stopped itself", m.access("trap", m.site, wave)), stop=True)
        return []

    return Control(run)


_DWORDS = ("", "x2", "x3", "x4", "x8", "x16")


def _loads(name: str) -> str:
    return f"s{name.partition('x')[2] or 1} S2 S?"


@instruction(*(f"s_load_dword{count}" for count in _DWORDS), takes=_loads, mods="scalar")
def _scalar_load(ins: Instruction, d: Decoder) -> Handler:
    """Loads dwords at base + offset into consecutive scalar registers."""
    count = int(ins.name.partition("x")[2] or 1)
    base = d.scalar(ins.operands[1], 8)
    offset = d.scalar(ins.operands[2]) if len(ins.operands) > 2 else None
    if len(ins.operands) > 2 and isinstance(ins.operands[2], Literal):
        number = ins.operands[2].value
        if not isinstance(number, int) or not -(1 << 20) <= number < 1 << 21:
            raise d.error(f"{number} is no offset of a scalar load")
        offset = fixed(np.array([number], np.int64))

    immediate = d.number("offset")
    target = ins.operands[0]
    if not isinstance(target, Reg) or target.file != "s":
        raise d.error("a scalar load needs scalar registers")
    rows = tuple(range(target.first, target.first + count))
    d.writes.update(rows)

    def run(m: Machine, sel: Sel) -> None:
        where = base(m, sel).astype(np.int64) - GLOBAL_BASE + immediate
        if offset is not None:
            where = where + offset(m, sel).astype(np.int64)
        where = np.broadcast_to(where & ~np.int64(3), m.wave[sel].shape)
        bad = m.globals.outside(where, 4 * count)
        if bad.any():
            worst = int(np.flatnonzero(bad)[0])
            name, at, size = m.globals.owner(int(where[worst]))
            message = f"scalar load of {4 * count} bytes outside every buffer; nearest is {name}, byte {at} of {size}"
            access = m.access("read", m.site, int(m.wave[sel][worst]))
            span = (at, at + 4 * count)
            m.find(Finding("out_of_bounds", message, access, None, None, "global", name, span), stop=True)
        waves = m.wave[sel]

        def land(place: Array) -> None:
            m.s[np.array(rows)[:, None], waves[place]] = load(m.globals.arena, where[place], 4, count).T

        if m.queue.lazy:
            m.s[np.array(rows)[:, None], waves] = 0xA5A5A5A5
        m.queue.issue(sel, SMEM, land, rows, what="scalar load")

    return run
