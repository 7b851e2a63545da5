"""Slots by tickets: what `atom.add` of one positive number to a shared word gives is another number each time.

    @p  atom.shared.add.u32 t, [c], 1      Ticket: this lane's draw at that place, if p was true
        setp.lt.s32 q, t, N                Perhaps: if it is true, the draw is below N
        and.pred r, p, q                   Perhaps: if it is true, both are
    @r  st.shared.u32 [base + 4·t], x      within N slots, and each lane's slot is its own

Draws differ as long as nothing but additions of that number changes the word: what else writes it, or may, makes all
that hangs on draws from it unknown (`spoil`), and what has been drawn while another addition was not complete is no
ticket. So of two draws each change of another kind comes before both. A word that was not negative when the draws began
gives none that is, since they are fewer than 2^31 (docs/proof.md). A ticket is a value of its lane: what moves between
lanes is none. `needs` and `truths` name instructions whose last result was true in this lane: ((pc,), …), or (pc, n): a
draw that is below n. Where such an instruction is executed again, what names it becomes unknown (`renew`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from minitile.proof.arithmetic.values import (
    MOST_AMONG,
    TOP,
    Affine,
    Among,
    Perhaps,
    Ticket,
    Value,
    by_lane,
    join,
    lanes_of,
    not_negative,
    signed,
)
from minitile.proof.events import Access
from minitile.proof.state import State, Warp
from minitile.proof.text import ARITHMETIC, DRAW, Instruction, Loop, Program, Refused

_TEST = re.compile(r"setp\.(lt|le|gt|ge|lo|ls|hi|hs)\.[us]32")
_SWAPPED = {"gt": "lt", "ge": "le", "lt": "gt", "le": "ge"}
_NAMES = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
Tickets = tuple[int, int, int, tuple[tuple[int, int, int], ...]]  # amount, scale, bytes, (word, offset, count)


def draws(program: Program) -> frozenset[str]:
    """Registers that may hold tickets; none where nothing hangs on draws."""
    given = {name for each in program.code if DRAW.fullmatch(each.op) for name in each.writes} & program.needed
    return computed_from(program, given)


def computed_from(program: Program, names: set[str]) -> frozenset[str]:
    """These registers, and those that are computed from them or drawn under their truths."""
    found, size = set(names), 0
    while size < len(found):
        size = len(found)
        for each in program.code:
            if (each.base in ARITHMETIC or DRAW.fullmatch(each.op)) and not found.isdisjoint(each.reads):
                found |= {*each.writes} & program.needed
    return frozenset(found)


# -- registers


@lru_cache(maxsize=1 << 14)
def without(value: Value, pc: int) -> Value:
    """A value, or what is left of it once the instruction at pc is executed again."""
    if isinstance(value, tuple):
        lanes = tuple(without(each, pc) for each in value)
        return value if lanes == value else join(lanes)
    if isinstance(value, Ticket) and (value.pc == pc or (pc,) in value.needs):
        return TOP
    return TOP if isinstance(value, Perhaps) and any(truth[0] == pc for truth in value.truths) else value


def renew(warp: Warp, names: frozenset[str], pc: int) -> None:
    """An instruction is executed again: what names its last result, among these registers, is unknown."""
    for name in names & warp.registers.keys():
        if isinstance(value := warp.registers[name], (tuple, Ticket, Perhaps)):
            warp.registers[name] = without(value, pc)


def name_truth(warp: Warp, each: Instruction, lanes: int, a: Value, b: Value) -> None:
    """Gives what a test or a logical operation of predicates has left unknown in these lanes its name. `a`, `b`: what
    it compares. The second result of a test is the contrary: it has none."""
    result = each.writes[0]
    if each.args[0].partition("|")[0] != result:
        return
    value = warp.registers.get(result, TOP)
    if isinstance(value, tuple) or value is TOP or isinstance(value, Perhaps):
        warp.registers[result] = _named(each.op, each.pc, value, a, b, lanes)


@lru_cache(maxsize=1 << 14)
def _named(op: str, pc: int, value: Value, a: Value, b: Value, lanes: int) -> Value:
    own = (pc,)

    def named(value: Value, x: Value, y: Value) -> Value:
        if value is TOP:
            return Perhaps(_union((own,), _below(op, x, y)), (own,))
        if isinstance(value, Perhaps) and not value.needs:
            return Perhaps(_union((own,), value.truths), (own,))
        return value

    found = zip(lanes_of(value), lanes_of(by_lane(named, value, a, b)), strict=True)
    return join(tuple(new if lanes >> n & 1 else old for n, (old, new) in enumerate(found)))


def _below(op: str, a: Value, b: Value) -> tuple[tuple[int, ...], ...]:
    match = _TEST.fullmatch(op)
    if not match:
        return ()
    name = _NAMES.get(match[1], match[1])
    if isinstance(b, Ticket):
        a, b, name = b, a, _SWAPPED[name]
    if not isinstance(a, Ticket) or (a.scale, a.offset) != (1, 0) or not isinstance(b, int) or name not in ("lt", "le"):
        return ()
    bound = signed(b % (1 << 32), 32) + (name == "le")
    return ((a.pc, bound),) if 0 < bound <= MOST_AMONG else ()


def _union(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(sorted({*a, *b}))


def truths(value: Value) -> tuple[tuple[int, ...], ...]:
    return value.truths if isinstance(value, Perhaps) else ()


# -- draws


def drawn(state: State, warp: Warp, each: Instruction, words: Sequence[tuple[int, int, Any]], amount: int) -> Value:
    """What lanes are given by an addition, before it is recorded. `words`: (lane, word, what must hold for it to have
    been executed; None: that is not known)."""
    lanes: list[Value] = [TOP] * 32
    others = [access for access in state.accesses if access.adds != amount]
    known: dict[tuple[int, int], bool] = {}
    for lane, word, needs in words:
        value, knows = state.contents.get(word, TOP), warp.knows(1 << lane)
        ordered = known.get((word, knows))
        if ordered is None:
            ordered = all(not access.id & ~knows or not access.foot.units & word for access in others)
            known[word, knows] = ordered
        if needs is not None and not_negative(value) and ordered:
            lanes[lane] = Ticket(each.pc, word, amount, 1, 0, needs)
    return join(tuple(lanes))


def spoil(state: State, draws: frozenset[str], units: int, adds: int) -> None:
    """These units are written, other than by the addition of `adds`: draws from them are tickets no more."""

    def kept(value: Value) -> Value:
        if isinstance(value, tuple):
            lanes = tuple(map(kept, value))
            return value if lanes == value else join(lanes)
        return TOP if isinstance(value, Ticket) and value.word & units and value.amount != adds else value

    for warp in state.warps:
        for name in draws & warp.registers.keys():
            if isinstance(value := warp.registers[name], (tuple, Ticket)):
                warp.registers[name] = kept(value)
    state.accesses = [
        replace(access, ticket=None)
        if access.ticket and access.ticket[0] != adds and any(word & units for word, _, _ in access.ticket[3])
        else access
        for access in state.accesses
    ]


# -- accesses


def placed(value: Ticket, offset: int, known: tuple[tuple[int, ...], ...], line: int, arg: str) -> Among:
    """Where an access by a ticket may be, of which `known` holds. Raises Refused."""
    bounds = [truth[1] for truth in known if len(truth) == 2 and truth[0] == value.pc]
    if not bounds or not {*value.needs} <= {*known} or not 0 < value.scale < 1 << 16:
        raise Refused(line, f"not known: {arg}")
    return Among((value.offset + offset) % (1 << 32), value.scale, min(bounds))


def of_tickets(found: list[tuple[Ticket, Among]], size: int) -> Tickets | None:
    """How an access hangs on tickets by which each lane has a place of its own; None: it may not."""
    forms = {(value.amount, value.scale) for value, _ in found}
    if len(forms) != 1:
        return None
    amount, scale = forms.pop()
    places = {(value.word, among.low, among.count) for value, among in found}
    return (amount, scale, size, tuple(sorted(places))) if scale * amount >= size else None


def apart(a: Tickets | None, b: Tickets | None) -> bool:
    """Whether no two lanes' accesses touch the same bytes: slots of one sequence of draws, or of other ranges."""
    if not a or not b or a[:3] != b[:3]:
        return False
    _, scale, size, _ = a
    for word, low, count in a[3]:
        for other, begin, number in b[3]:
            one = word == other and low == begin
            if not one and low < begin + scale * (number - 1) + size and begin < low + scale * (count - 1) + size:
                return False
    return True


def superseded(each: Access, new: Access) -> bool:
    """Whether all that conflicts with `each` conflicts with the new access."""
    return each.adds == new.adds and (not new.ticket or each.ticket == new.ticket)


# -- counters of loops that are passed in any number of rounds


def counts_up(code: Sequence[Instruction], loop: Loop, not_below_0: bool) -> bool:
    """Whether a counted loop tests its counter in each round, as it is after the step: so all but the first begin below
    the bound, also without a sign if that is `not_below_0`."""
    inside = code[loop.head : loop.back]
    tests = [i for i in inside if code[loop.back].guard in i.writes]
    steps = [i for i in inside if loop.counter in i.writes]
    return (
        len(tests) == 1
        and not any(i.base == "bra" and i.pc < tests[0].pc < i.target <= loop.back for i in inside)
        and tests[0].args[1] == loop.counter
        and steps[0].pc < tests[0].pc
        and (not_below_0 or tests[0].op == "setp.lt.s32")
    )


def counted(start: Value, step: int, bound: int) -> Value:
    """A counter from a number, when a round begins."""
    if not isinstance(start, int) or start >= 1 << 31:
        return TOP
    count = max(1, -(-(bound - start) // step))
    return start if count == 1 else Among(start, step, count) if count <= MOST_AMONG else TOP


def highest(value: Value) -> int | None:
    """What a value of the launch, as 32 bits with a sign, is not above; None: not known."""
    if isinstance(value, int):
        return signed(value % (1 << 32), 32)
    if not isinstance(value, Affine):
        return None
    total = value.const
    for key, times in value.terms:
        most = _highest_symbol(key)
        if most is None or times < 0:
            return None
        total += times * most
    return total


def _highest_symbol(key: Any) -> int | None:
    if key[0] == "min" and key[1] == "s32":
        found = [most for most in map(highest, key[2:4]) if most is not None]
        return min(found, default=None)
    if key[0] in ("shr", "div") and isinstance(key[3], int) and key[3] > 0:
        most = highest(key[2])
        by = 1 << min(key[3], 32) if key[0] == "shr" else key[3]
        return None if most is None or not not_negative(key[2]) else most // by
    return None
