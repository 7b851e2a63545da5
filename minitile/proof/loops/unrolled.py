"""Loops of a few rounds at most, whose end is another test besides: a prologue that fills a ring.

before                                                      after
`H: body; i < n && i < 3 into p; i = i + 1; @p bra H; X:`   `H: body; …; @!p bra X; body; …; @!p bra X; …; body; X:`
"""

from __future__ import annotations

from dataclasses import replace

from minitile.proof.loops.flow import Flow, added, number
from minitile.proof.reading import Statement

MOST_ROUNDS = 8
LONGEST_BODY = 64


def unroll(flow: Flow) -> None:
    """The rounds stand one after the other, as many as there may be; each but the last may be left.

    Precondition: the body has no branch and no label within; nothing but its one step writes what it counts by, in the
    loop, and numbers outside of it; it goes on only if that is below a number.
    """
    for at in reversed(range(len(flow.items))):
        each = flow.items[at]
        head = flow.target(each)
        if not (0 <= head < at < head + LONGEST_BODY) or not each.guard or each.negated or at + 1 >= len(flow.items):
            continue
        body = flow.items[head:at]
        if any(i.labels for i in (*body[1:], each)) or any(i.op.startswith(("bra", "ret", "trap")) for i in body):
            continue
        rounds = _rounds(flow, head, at)
        if 0 < rounds <= MOST_ROUNDS:
            name = flow.label()
            behind = flow.items[at + 1]
            flow.items[at + 1] = replace(behind, labels=(*behind.labels, name))
            leave = replace(each, negated=True, args=(name,))
            again = [replace(i, labels=()) for i in body]
            flow.items[head : at + 1] = body + (rounds - 1) * [leave, *again]


def _rounds(flow: Flow, head: int, back: int) -> int:
    """How many rounds a loop has at most, if a test besides the one for its end says it; else 0."""
    items, guard = flow.items, flow.items[back].guard
    test = _only(flow, guard, head, back)
    if test < 0:
        return 0
    both = items[test].op == "and.pred"
    found = [_most(flow, head, back, _only(flow, name, head, test - 1)) for name in items[test].args[1:] if both]
    found += [] if both else [_most(flow, head, back, test, minimum=True)]
    return min((n for n in found if n > 0), default=0)


def _only(flow: Flow, name: str, head: int, back: int) -> int:
    """The only statement head … back that writes a register, if it has no guard and the loop has no other; else -1."""
    found = flow.defined(name, head, back)
    return found[0] if len(found) == 1 and not flow.items[found[0]].guard else -1


def _most(flow: Flow, head: int, back: int, at: int, minimum: bool = False) -> int:
    """How often the test at `at` lets a loop begin a round, the first included; 0: not known."""
    each = flow.items[at] if at >= 0 else None
    if each is None or each.op not in ("setp.lt.s32", "setp.lt.u32") or len(each.args) != 3:
        return 0
    if len(flow.defined(each.args[0], head, back)) != 1:
        return 0
    counter, limit = each.args[1], number(each.args[2])
    if minimum:
        limit = _least_of(flow, each.args[2]) if each.op == "setp.lt.s32" else None
    step = _only(flow, counter, head, back)
    if limit is None or step < 0 or (added(flow.items[step]) or ("", 0))[0] != counter:
        return 0
    by = (added(flow.items[step]) or ("", 0))[1]
    outside = [i for n, i in enumerate(flow.items) if not head <= n <= back and counter in flow.writes(i)]
    starts = [number(i.args[1]) if _is_number(i) else None for i in outside]
    known = [n for n in starts if n is not None and n >= 0]
    if by != 1 or limit < 1 or not known or len(known) != len(starts):
        return 0
    return max(1, limit - min(known) + (at < step))


def _is_number(each: Statement) -> bool:
    return each.op.startswith("mov.") and not each.guard and len(each.args) == 2


def _least_of(flow: Flow, name: str) -> int | None:
    """A number that a register is at most: it is written once, as a minimum."""
    found = flow.defined(name, 0, len(flow.items) - 1)
    each = flow.items[found[0]] if len(found) == 1 else None
    if each is None or each.op != "min.s32" or each.guard:
        return None
    return min((n for n in map(number, each.args[1:]) if n is not None), default=None)


__all__ = ["unroll"]
