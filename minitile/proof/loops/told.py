"""Loops whose end is told: by shared memory, or by what an atomic operation on global memory gives.

before                                   after, with a counter v that nothing else has
`H: t = take(); …; @p bra H`             `v = 0; H: ~round v; v = v + 1; t = take(); …; @p bra H`
"""

from __future__ import annotations

import re

from minitile.proof.loops.counters import form_of
from minitile.proof.loops.flow import Flow, made, synchronises
from minitile.proof.reading import Statement

_TELLS = re.compile(r"ld\.shared.*|atom(?:\.\w+)*\.global.*")


def tell(flow: Flow) -> None:
    """Rounds are counted, so that loops within have an instance for each round, and what the loop is told is a number
    of its round. Precondition: no other branch goes back to the head; the loop synchronises; it has a loop within,
    or draws what it is told from global memory."""
    for branch in [flow.items[back] for _, back in flow.loops()]:
        if (loop := flow.loop_of(branch)) is None:
            continue
        head, back = loop
        ways = [n for n, each in enumerate(flow.items) if n >= head and flow.target(each) == head]
        counted = form_of(flow, head, back)
        if (
            ways != [back]
            or (counted and counted.direct)
            or not _is_told(flow, head, back)
            or not synchronises(flow, head, back)
        ):
            continue
        v, line = flow.register(), flow.items[head].line
        flow.insert(head, [Statement(line, (), "", False, "~round", (v,)), made(line, "add.s32", v, v, "1")])
        flow.before_loop(head, back + 2, [made(line, "mov.b32", v, "0")])


def _is_told(flow: Flow, head: int, back: int) -> bool:
    inside = flow.items[head:back]
    within = any(
        head <= flow.target(each) <= n + head and each.guard
        for n, each in enumerate(inside)
        if not _waits(flow, n + head)
    )
    names, grown = {flow.items[back].guard}, True
    while grown:
        size = len(names)
        for each in inside:
            if not names.isdisjoint(flow.writes(each)):
                names.update(word for arg in each.args for word in re.findall(r"%\w+", arg))
        grown = len(names) > size
    tells = [each for each in inside if _TELLS.fullmatch(each.op) and not names.isdisjoint(flow.writes(each))]
    return any(within or each.op.startswith("atom") for each in tells)


def _waits(flow: Flow, n: int) -> bool:
    """Whether a statement is the branch back of a wait."""
    return n > 0 and flow.items[n - 1].op.startswith("mbarrier.try_wait")


__all__ = ["tell"]
