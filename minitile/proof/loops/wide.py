"""Counters of 64 bits: sizes, and pointers that are moved on.

before                                        after, with a counter j of 32 bits that nothing else has
`t += k; …; t < n`                            `j += k; t = start + j; …; j < n - start`, where j starts at 0
"""

from __future__ import annotations

import re
from dataclasses import replace

from minitile.proof.loops.counters import own_sums
from minitile.proof.loops.flow import ALIASES, INTEGER, NEGATED, SWAPPED, Flow, made, synchronises
from minitile.proof.reading import Statement

_STEP = re.compile(r"add\.[su]64")


def narrow(flow: Flow) -> None:
    """Loops that are tested by numbers of 64 bits are tested by their differences from the start, of 32 bits.

    Precondition: in the loop t is written by its step only, and neither k nor n; each round comes past the step and the
    test, and past the sum with a number that is tested. That t, n and their differences do not wrap around is assumed
    (docs/proof.md), so t < n just if j < n - start, without a sign too; a t that goes down is left alone then, since it
    may never be below n. So are loops that do not synchronise. Numbers for which this is not so come to `~beyond`.
    """
    for branch in [flow.items[back] for _, back in flow.loops()]:
        if (loop := flow.loop_of(branch)) is not None and synchronises(flow, *loop):
            own_sums(flow, *loop, "64", _sum)
            _narrowed(flow, *loop)


def _sum(each: Statement) -> tuple[str, str] | None:
    """(x, k) of x + k, of 64 bits, where k is a number of 30 bits or a register; None: it is none."""
    if each.guard or not _STEP.fullmatch(each.op) or len(each.args) != 3:
        return None
    _, a, b = each.args
    if INTEGER.fullmatch(b) and abs(int(b, 0)) >= 1 << 30:
        return None
    return (a, b) if a.startswith("%") else None


def _narrowed(flow: Flow, head: int, back: int) -> None:
    branch = flow.items[back]
    written = flow.defined(branch.guard, head, back - 1)
    if not written or not flow.is_always(written[-1], head, back):
        return
    place = written[-1]
    test = flow.items[place]
    match = re.fullmatch(r"setp\.(\w\w)\.([sub])64", test.op)
    if test.guard or not match or len(test.args) != 3 or test.args[0] != branch.guard:
        return
    name = ALIASES.get(match[1], match[1])
    goes_on = NEGATED.get(name, "") if branch.negated else name
    for tested, bound, how in ((*test.args[1:], goes_on), (*reversed(test.args[1:]), SWAPPED.get(goes_on, ""))):
        if flow.defined(bound, head, back) or not (bound.startswith("%") or INTEGER.fullmatch(bound)):
            continue
        t, more, at = tested, "0", place
        derived = flow.defined(tested, head, back)
        made_of = _sum(flow.items[derived[0]]) if len(derived) == 1 else None
        if made_of and made_of[0] != tested and INTEGER.fullmatch(made_of[1]):
            t, more, at = *made_of, derived[0]
        steps = flow.defined(t, head, back) if t.startswith("%") else []
        step = _sum(flow.items[steps[0]]) if len(steps) == 1 else None
        if match[2] == "u" and how != "ne" and int(more, 0) < 0:
            continue  # a sum below 0 is no number without a sign
        if not step or step[0] != t or at > place or flow.defined(step[1], head, back):
            continue
        if not all(flow.is_always(n, head, back) for n in (steps[0], at)):
            continue
        down = INTEGER.fullmatch(step[1]) and int(step[1], 0) < 0
        if how == "ne" or (how in ("lt", "le") and not down) or (how in ("gt", "ge") and down and match[2] == "s"):
            _write(flow, (head, back), (t, step[1], steps[0]), (more, at), place, bound)
            return


def _write(
    flow: Flow, loop: tuple[int, int], step: tuple[str, str, int], sum_at: tuple[str, int], place: int, bound: str
) -> None:
    """step: t, k and where it is; sum_at: what is added to t before it is tested, and where."""
    (head, back), (t, k, at), (more, more_at) = loop, step, sum_at
    line, test = flow.items[back].line, flow.items[place]
    start, j, limit, tested, wide = (flow.register() for _ in range(5))
    by, before = k, [made(line, "mov.b64", start, t), made(line, "sub.s64", limit, bound, start)]
    bound_by = flow.register()
    truth, unsigned = flow.register(), bool(re.search(r"(?:lt|le|gt|ge|lo|ls|hi|hs)\.u64$", test.op))
    few = [(name, of, n) for of in (limit, k) for name, n in (("lt", str(-1 << 31)), ("ge", str(1 << 31)))]
    few += [("lt", name, "0") for name in (start, bound)] if unsigned else []
    for name, value, most in few:
        before += [made(line, f"setp.{name}.s64", truth, value, most), Statement(line, (), truth, False, "~beyond", ())]
    before.append(made(line, "mov.b32", bound_by, limit))
    if not INTEGER.fullmatch(k):
        by = flow.register()
        before.append(made(line, "mov.b32", by, k))
    before.append(made(line, "mov.b32", j, "0"))
    stepped = [
        made(line, "add.s32", j, j, by),
        made(line, "cvt.s64.s32", wide, j),
        made(line, "add.s64", t, start, wide),
    ]
    operand = tested if more != "0" else j
    goes = re.sub(r"[sub]64$", "s32", test.op)
    first = test.args[1] == t or (more_at != place and test.args[1] in flow.writes(flow.items[more_at]))
    new_test = replace(test, op=goes, args=(test.args[0], *((operand, bound_by) if first else (bound_by, operand))))
    edits = [(place, [replace(new_test, labels=())]), (at, stepped)]
    if more != "0":
        edits.append((more_at, [replace(flow.items[more_at], labels=()), made(line, "add.s32", tested, j, more)]))
    grown = 0
    for n, new in sorted(edits, key=lambda each: -each[0]):
        flow.exchange(n, new)
        grown += len(new) - 1
    flow.before_loop(head, back + grown, before)


__all__ = ["narrow"]
