"""Waits that are tried again behind some arithmetic of their predicate.

before                                                          after
`L: try_wait p, …; selp r, 1, 0, p; setp.eq q, r, 0; @q bra L`  `L: try_wait p, …; @!p bra L; selp …; setp …`
`try_wait p, …; …; @p bra X; R; X:`                              `L: try_wait p, …; @!p bra L; …; X:`
  where R waits a while and tries again until it is complete
"""

from __future__ import annotations

import re
from dataclasses import replace

from minitile.proof.loops.flow import INTEGER, Flow
from minitile.proof.reading import Statement

_INSIDE = ("selp", "setp", "mov", "not", "and", "or", "xor", "nanosleep")


def waits(flow: Flow) -> None:
    """A wait is tried again at once, and what is computed of its predicate stands behind it.

    Precondition: the branch is taken just if the phase was not complete (both values of the predicate are tried out);
    the statements between, and those ahead of the try that are executed again with it, compute the same each time: they
    read what the try has found, or what none of them writes.
    """
    n = 0
    while n < len(flow.items):
        if _is_try(flow.items[n]):
            _wait(flow, n)
        n += 1


def polls(flow: Flow) -> None:
    """A try whose success leads around what waits a while and tries again (a back-off) is tried again at once.

    Precondition: success leads right behind what is left out (R). R is entered from the try only and is left just if
    a try of the same phase has succeeded: at its end, by a branch back behind such a try, or to the first try. But for
    that branch it goes forward only, so each way through it comes to a try. It has no effect but on registers that
    nothing reads behind it, and does not write what the first try reads.
    """
    n = 0
    while n < len(flow.items):
        if _is_try(flow.items[n]):
            _polled(flow, n)
        n += 1


def _polled(flow: Flow, at: int) -> None:
    each, inside, out = _behind_try(flow, at)
    if out < 0 or not flow.items[out].guard or any(i.op.partition(".")[0] not in _INSIDE or i.guard for i in inside):
        return
    branch, end = flow.items[out], flow.target(flow.items[out])
    back = end - 1
    if not out + 1 < end < len(flow.items) or any(i.labels for i in (*inside, branch)):
        return
    if _truth(flow, each, inside, branch, 1) is not True or _truth(flow, each, inside, branch, 0) is not False:
        return
    last, head = flow.items[back], flow.target(flow.items[back])
    if last.guard:
        if not out < head < back or not _ends_by_a_try(flow, at, out, back):
            return
    elif head != at or any(_is_try(i) for i in flow.items[out + 1 : end]):
        return
    for n in range(out + 1, back):
        i = flow.items[n]
        forward = i.op in ("bra", "bra.uni") and n < flow.target(i) <= back
        idle = i.op.startswith(("nanosleep", "mov.")) or _is_same(flow, n, at)
        if not (forward or idle or flow.only_computes(i)) or i.op.startswith(("ld", "st", "vote", "shfl", "elect")):
            return
    outside = [flow.target(i) for n, i in enumerate(flow.items) if not out < n <= back]
    written = {name for i in flow.items[out + 1 : end] for name in flow.writes(i)}
    again = {name for i in inside for name in flow.writes(i)} | set(flow.writes(each))
    first = flow.items[at]
    if any(out < n <= back for n in outside) or not written.isdisjoint(
        re.findall(r"%[\w.]+", " ".join(first.args[1:]))
    ):
        return
    if any(flow.is_read_from(name, [end]) for name in written | again):
        return
    name = flow.label()
    retry = Statement(branch.line, (), each.args[0], True, "bra", (name,))
    flow.items[at : back + 1] = [replace(each, labels=(*each.labels, name)), retry]


def _behind_try(flow: Flow, at: int) -> tuple[Statement, list[Statement], int]:
    """A try, what stands between it and the next branch, and where that is; -1: there is none."""
    out = next((n for n in range(at + 1, len(flow.items)) if flow.items[n].op.startswith("bra")), -1)
    return flow.items[at], flow.items[at + 1 : max(out, at + 1)], out


def _is_same(flow: Flow, n: int, at: int) -> bool:
    """Whether a statement tries the phase that another does."""
    i, each = flow.items[n], flow.items[at]
    ops = {x.op.replace("test_wait", "try_wait") for x in (i, each)}
    if not _is_try(i) or len(ops) != 1:
        return False
    tried = zip(i.args[1:3], each.args[1:3], strict=True)
    return all(a == b or _literal(flow, a, n) == _literal(flow, b, at) for a, b in tried)


def _literal(flow: Flow, arg: str, at: int) -> str:
    """What an operand is: the number that its register is moved from, once and on each way to the statement."""
    written = flow.defined(arg, 0, len(flow.items) - 1) if arg.startswith("%") else []
    each = flow.items[written[0]] if len(written) == 1 else None
    if each is None or each.guard or not re.fullmatch(r"mov\.[bsu]32", each.op) or flow.is_reached(at, written[0]):
        return arg
    return each.args[1] if INTEGER.fullmatch(each.args[1]) else arg


def _ends_by_a_try(flow: Flow, first: int, out: int, back: int) -> bool:
    """Whether the branch at `back` is taken just if a try of the same phase, right before it, has not succeeded."""
    at = next((n for n in range(back - 1, out, -1) if _is_try(flow.items[n])), -1)
    if at < 0 or not _is_same(flow, at, first):
        return False
    again, inside, branch = flow.items[at], flow.items[at + 1 : back], flow.items[back]
    if any(i.labels for i in (*inside, branch)) or any(
        i.op.partition(".")[0] not in _INSIDE or i.guard for i in inside
    ):
        return False
    return _truth(flow, again, inside, branch, 1) is False and _truth(flow, again, inside, branch, 0) is True


def _is_try(each: Statement) -> bool:
    return each.op.startswith(("mbarrier.try_wait", "mbarrier.test_wait")) and not each.guard and len(each.args) >= 3


def _wait(flow: Flow, at: int) -> None:
    each = flow.items[at]
    back = next((n for n in range(at + 1, len(flow.items)) if flow.items[n].op.startswith("bra")), -1)
    if back < 0:
        return
    branch = flow.items[back]
    head = flow.target(branch)
    inside, ahead = flow.items[at + 1 : back], flow.items[max(head, 0) : at]
    if not (0 <= head <= at) or not branch.guard or any(i.labels for i in (*inside, branch)):
        return
    if back == at + 1 and head == at and branch.guard == each.args[0] and branch.negated:
        return
    if any(i.op.partition(".")[0] not in _INSIDE or i.guard for i in inside):
        return
    if any(i.labels for i in (*ahead[1:], *((each,) if ahead else ()))):
        return
    if any(map(_is_try, ahead)) or not _is_repeatable(flow, [*ahead, each, *inside]):
        return
    if _truth(flow, each, inside, branch, 0) is True and _truth(flow, each, inside, branch, 1) is False:
        name = flow.label()
        again = Statement(branch.line, (), each.args[0], True, "bra", (name,))
        flow.items[at : back + 1] = [replace(each, labels=(*each.labels, name)), again, *inside]


def _is_repeatable(flow: Flow, found: list[Statement]) -> bool:
    """Whether statements around a try compute the same each time, of what the try has found and of registers that none
    of them writes."""
    written = {name for i in found for name in flow.writes(i)}
    before: set[str] = set()
    for each in found:
        op = each.op.partition(".")[0]
        idle = _is_try(each) or op == "nanosleep"
        if not idle and (op not in flow.plain or op in ("ld", "shfl", "elect", "vote") or each.guard):
            return False
        read = {word for arg in each.args[1:] for word in re.findall(r"%[\w.]+", arg)}
        if read & written - before:
            return False
        before |= set(flow.writes(each))
    return True


def _truth(flow: Flow, each: Statement, inside: list[Statement], branch: Statement, done: int) -> bool | None:
    """Whether the branch is taken, where the wait has found `done`; None: not known."""
    known: dict[str, int] = {each.args[0]: done}

    def value(arg: str) -> int | None:
        return int(arg, 0) if INTEGER.fullmatch(arg) else known.get(arg)

    for i in inside:
        if i.op.startswith("nanosleep"):
            continue
        a = [value(arg) for arg in i.args[1:]]
        out: int | None = None
        if i.op.startswith("selp.") and len(a) == 3 and a[2] is not None:
            out = a[0] if a[2] else a[1]
        elif i.op.startswith("mov.") and len(a) == 1:
            out = a[0]
        elif i.op == "not.pred" and a[0] is not None:
            out = 1 - a[0]
        elif (match := re.fullmatch(r"setp\.(eq|ne)\.[bsu](?:16|32)", i.op)) and None not in a and len(a) == 2:
            out = int((a[0] == a[1]) == (match[1] == "eq"))
        elif (match := re.fullmatch(r"(and|or|xor)\.(?:pred|b32)", i.op)) and a[0] is not None and a[1] is not None:
            out = {"and": a[0] & a[1], "or": a[0] | a[1], "xor": a[0] ^ a[1]}[match[1]]
        for name in flow.writes(i):
            known.pop(name, None)
        if out is not None and len(flow.writes(i)) == 1:
            known[i.args[0]] = out
    found = known.get(branch.guard)
    return None if found is None else bool(found) != branch.negated


__all__ = ["polls", "waits"]
