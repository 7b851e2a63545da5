"""Bursts: accesses to shared memory of one kind right after one another, which a whole warp executes as one.

Accesses of one kind between which a warp hands nothing on are one event (memory.Memory.access), so what they leave is
what one access of all their bytes leaves, wherever no rule is broken on the way: what they conflict with, what they
supersede and what they write are unions. Where an address is not known, lanes meet, or the access of all is at fault,
they are executed one after the other (semantics.Machine.burst).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from minitile.proof.branches import CP_ASYNC, SHARED
from minitile.proof.text import Instruction, Program

_STMATRIX = re.compile(r"stmatrix\.sync\.aligned\.m8n8\.x([124])(\.trans)?\.shared(::cta)?\.b(?:16|8)")
_LDMATRIX = re.compile(r"ldmatrix\.sync\.aligned\.m8n8\.x([124])(\.trans)?\.shared(::cta)?\.b16")


@dataclass(frozen=True, slots=True)
class Form:
    """A generic access by its operation: `load`; `size` in bytes of each lane's share; `lanes` that name one, as bits;
    `rows`: by all lanes of a warp together, matrices whose rows these lanes name (memory.Memory.by_lane)."""

    load: bool
    size: int
    lanes: int
    rows: str


@lru_cache(maxsize=4096)
def form(op: str) -> Form | None:
    """None: not known."""
    if match := (_STMATRIX.fullmatch(op) or _LDMATRIX.fullmatch(op)):
        load = op.startswith("ld")
        rows = "read" if load else "columns" if match[2] else "parts"
        return Form(load, 16, (1 << 8 * int(match[1])) - 1, rows)
    if match := SHARED.fullmatch(op):
        return Form(op.startswith("ld"), int(match[1] or 1) * int(match[2]) // 8, 0xFFFFFFFF, "")
    return None


def piece(op: str) -> int:
    """The bytes that what an operation accesses of shared memory is made of, at most 4."""
    if match := re.match(r"(?:st|ld)\.shared(?:::\w+)?(?:\.v[24])?\.[busf](8|16)$", op):
        return int(match[1]) // 8
    return 2 if op.startswith("stmatrix") and ".trans" in op else 4


@dataclass(frozen=True, slots=True)
class Part:
    """An instruction of a burst: its address, bytes of each lane, and lanes; `rows`: of matrices.
    `scalar`: a load by which numbers are told."""

    place: str
    line: int
    size: int
    lanes: int
    rows: str
    scalar: bool


@dataclass(frozen=True, slots=True)
class Burst:
    """`parts` from `begin` on; `end`: what is executed next. `reads`: registers of addresses. `writes`: registers that
    are loaded; `touched`: products' registers. `copy`: by cp.async; `matrix`: by matrices."""

    begin: int
    end: int
    parts: tuple[Part, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    touched: int
    write: bool
    copy: bool
    matrix: bool


def bursts(program: Program, touches: Sequence[int]) -> list[Burst | None]:
    """The burst that begins at each instruction, of two at least. `touches`: products' registers that each accesses."""
    code, targets = program.code, {each.target for each in program.code}
    kinds = [_kind(each) for each in code]
    found: list[Burst | None] = []
    for first in code:
        kind, now = kinds[first.pc], first.pc
        inside: list[Instruction] = []
        written: set[str] = set()
        while now < len(code) and kind and kinds[now] == kind and not (inside and now in targets):
            if not written.isdisjoint(code[now].reads):
                break
            inside.append(code[now])
            written.update(code[now].writes)
            now = program.next_kept[now + 1]
        found.append(_burst(first.pc, now, inside, touches) if len(inside) > 1 else None)
    return found


def _kind(each: Instruction) -> tuple[bool, bool, bool] | None:
    """(whether it loads, whether it is a copy, whether by matrices) of what may stand in a burst."""
    if each.guard:
        return None
    if CP_ASYNC.fullmatch(each.op):
        return (False, True, False) if len(each.args) in (3, 4) and each.args[2] in ("4", "8", "16") else None
    known = form(each.op)
    return (known.load, False, bool(known.rows)) if known else None


def _burst(begin: int, end: int, inside: list[Instruction], touches: Sequence[int]) -> Burst:
    parts, touched = [], 0
    for each in inside:
        known = form(each.op)
        place = each.args[1 if known and known.load else 0]
        size, lanes = (known.size, known.lanes) if known else (int(each.args[2]), 0xFFFFFFFF)
        scalar = bool(each.writes) and "{" not in each.args[0]
        parts.append(Part(place, each.line, size, lanes, known.rows if known else "", scalar))
        touched |= touches[each.pc]
    return Burst(
        begin,
        end,
        tuple(parts),
        tuple({name: None for each in parts for name in re.findall(r"%?~?\w+", each.place.partition("+")[0])}),
        tuple({name: None for each in inside for name in each.writes}),
        touched,
        not any(known.load for each in inside if (known := form(each.op))),
        any(form(each.op) is None for each in inside),
        any(known.rows for each in inside if (known := form(each.op))),
    )


__all__ = ["Burst", "Form", "bursts", "form", "piece"]
