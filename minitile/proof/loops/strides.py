"""Registers that grow by a register.

before                                    after
`t = X; while (t < n) { …; t = t + S; }`  `t = X; v = 0; while (v < (n - X + S - 1) / S) { …; v += 1; t = X + v·S; }`

`strided` does so in the whole text, so that all tests of t agree; `stepped` in one loop, whatever is done with t
elsewhere.
"""

from __future__ import annotations

import re
from dataclasses import replace

from minitile.proof.loops.counters import tested
from minitile.proof.loops.flow import ALIASES, SWAPPED, Flow, made, near, synchronises
from minitile.proof.reading import Statement

_COMPARISON = re.compile(r"setp\.(\w\w)\.([sub]32)")
_GRID = re.compile(r"%n?ctaid\.[xyz]")


def strided(flow: Flow) -> None:
    """What compares t with an n that is known before compares v, which says how often t has grown.

    Precondition: in the whole text t is only set to X and grown by S; X, S and n are registers that one statement
    writes, on every way, before t is set, and not again before t is set again. That S is above 0, and that X and n are
    not below it where they are compared without a sign, is put in front as `~beyond`.
    """
    names: set[str] = set()
    for loop in flow.loops():
        if (test := tested(flow, *loop)) is not None:
            names |= {arg for arg in flow.items[test[0]].args[1:] if arg.startswith("%")}
    for t in sorted(names):
        if (stride := _stride(flow, t)) is not None and (bounds := _bounds(flow, t, *stride)):
            _recount(flow, t, *stride, bounds)


def _is_fixed(flow: Flow, name: str) -> bool:
    return bool(_GRID.fullmatch(name)) or len(flow.defined(name, 0, len(flow.items) - 1)) == 1


def _stride(flow: Flow, t: str) -> tuple[str, str] | None:
    """(X, S) of a register that is only set to X and grown by S."""
    start = step = ""
    for n in flow.defined(t, 0, len(flow.items) - 1):
        each = flow.items[n]
        if each.guard:
            return None
        if re.fullmatch(r"mov\.[bsu]32", each.op) and start in ("", each.args[1]):
            start = each.args[1]
        elif re.fullmatch(r"add\.[su]32", each.op) and each.args[1] == t and step in ("", each.args[2]):
            step = each.args[2]
        else:
            return None
    start, step = (_special(flow, name, t) for name in (start, step))
    good = start and step.startswith("%") and step != t and start.startswith("%") and _is_fixed(flow, start)
    return (start, step) if good and _is_fixed(flow, step) else None


def _special(flow: Flow, name: str, t: str) -> str:
    """The special register that a register is moved from once, on every way before t grows or is set; else itself."""
    written = flow.defined(name, 0, len(flow.items) - 1) if name.startswith("%") else []
    each = flow.items[written[0]] if len(written) == 1 else None
    if each is None or each.guard or not re.fullmatch(r"mov\.[bsu]32", each.op) or not _GRID.fullmatch(each.args[1]):
        return name
    uses = [n for n in flow.defined(t, 0, len(flow.items) - 1) if name in flow.items[n].args]
    return name if any(flow.is_reached(n, written[0]) for n in uses) else each.args[1]


def _behind(flow: Flow, names: list[str]) -> int:
    """Where all of these registers, written once each, are known to have been written; -1: nowhere for sure."""
    places = [n for name in names for n in flow.defined(name, 0, len(flow.items) - 1)]
    last = max(places, default=-1)
    branches = any(each.labels or each.op.startswith("bra") for each in flow.items[: last + 1])
    return -1 if branches or any(flow.items[n].guard for n in places) else last + 1


def _place(flow: Flow, t: str, names: list[str]) -> int:
    """Where all of these are known to have been written: in front of all branches, else in front of the only statement
    that sets t, if each way there leads past those that write them, and each way from these to where t grows or is
    compared leads past it; -1: nowhere for sure. Special registers always are."""
    names = [name for name in names if not _GRID.fullmatch(name)]
    if (place := _behind(flow, names)) >= 0:
        return place
    starts = [n for n in flow.defined(t, 0, len(flow.items) - 1) if flow.items[n].op.startswith("mov")]
    if len(starts) != 1:
        return -1
    start = starts[0]
    uses = [n for n, each in enumerate(flow.items) if n != start and (t in flow.writes(each) or _compared(each, t))]
    for name in names:
        (written,) = flow.defined(name, 0, len(flow.items) - 1)
        if flow.items[written].guard or flow.is_reached(start, written):
            return -1
        if any(flow.is_reached(n, start, written + 1) for n in uses):  # it is written again while t grows
            return -1
    return start


def _compared(each: Statement, t: str) -> tuple[str, str, str] | None:
    """(comparison, with what, type) of a test of t; None: it is none."""
    match = _COMPARISON.fullmatch(each.op)
    if not match or len(each.args) != 3 or t not in each.args[1:]:
        return None
    how = ALIASES.get(match[1], match[1])
    return (how, each.args[2], match[2]) if each.args[1] == t else (SWAPPED.get(how, ""), each.args[1], match[2])


def _bounds(flow: Flow, t: str, start: str, step: str) -> dict[str, tuple[str, bool]]:
    """What t is compared with by `<` or `>=`, by name: a register for the limit of v; whether without a sign."""
    found: dict[str, tuple[str, bool]] = {}
    for each in flow.items:
        how, other, kind = _compared(each, t) or ("", "", "")
        fixed = how in ("lt", "ge") and other.startswith("%") and _is_fixed(flow, other)
        if fixed and _place(flow, t, [other, start, step]) >= 0:
            limit, unsigned = found.get(other) or (flow.register(), False)
            found[other] = limit, unsigned or kind == "u32"
    return found


def _recount(flow: Flow, t: str, start: str, step: str, bounds: dict[str, tuple[str, bool]]) -> None:
    v = flow.register()
    out: list[Statement] = []
    for each in flow.items:
        how, other, _ = _compared(each, t) or ("", "", "")
        if t in flow.writes(each):
            if each.op.startswith("mov"):
                out += [each, made(each.line, "mov.b32", v, "0")]
            elif out and not each.labels and out[-1].op == "mad.lo.s32" and out[-1].args[:2] == (t, v):
                count = out[-2]  # two steps in a row are one
                out[-2] = replace(count, args=(v, v, str(int(count.args[2]) + 1)))
            else:
                out.append(replace(each, op="add.s32", args=(v, v, "1")))
                out.append(made(each.line, "mad.lo.s32", t, v, step, start))
        elif how in ("lt", "ge") and other in bounds:
            out.append(replace(each, op=f"setp.{how}.s32", args=(each.args[0], v, bounds[other][0])))
        else:
            out.append(each)
    flow.items = out
    unsigned = any(each for _, each in bounds.values())
    for other, (limit, _) in bounds.items():
        place = max(_place(flow, t, [other, start, step]), 0)
        line = flow.items[place - 1].line if place else 0
        found = flow.register()
        few = [(step, "1", "~beyond.asked"), *((each, "0", "~beyond.sign") for each in (start, other) if unsigned)]
        new = near(flow, line, other, start, step)
        for name, least, op in few:
            new += [made(line, "setp.lt.s32", found, name, least), Statement(line, (), found, False, op, ())]
        new += [
            made(line, "sub.s32", limit, other, start),
            made(line, "add.s32", limit, limit, step),
            made(line, "sub.s32", limit, limit, "1"),
            made(line, "div.s32", limit, limit, step),
        ]
        flow.insert(place, new)


def stepped(flow: Flow) -> None:
    """A loop whose test is `t < n` or `t <= n`, where t grows by S, is tested by how often t has grown.

    Precondition: in the loop t is written by its step only, S and n are not, and each round comes past the step and the
    test, which stands behind it; it synchronises (else lanes may go around it by themselves). What must hold of S, t
    and n is put in front as for `strided`.
    """
    for branch in [flow.items[back] for _, back in flow.loops()]:
        if (
            (loop := flow.loop_of(branch)) is None
            or (test := tested(flow, *loop)) is None
            or not synchronises(flow, *loop)
        ):
            continue
        place, how, kind = test
        t, n = flow.items[place].args[1:]
        if how in ("gt", "ge"):
            t, n, how = n, t, SWAPPED[how]
        steps = flow.defined(t, *loop) if t.startswith("%") else []
        each = flow.items[steps[0]] if len(steps) == 1 else None
        if each is None or each.guard or not re.fullmatch(r"add\.[su]32", each.op) or len(each.args) != 3:
            continue
        by = each.args[2] if each.args[1] == t else each.args[1]
        fixed = by.startswith("%") and by != t and t in each.args[1:] and n[:1] in "%-0123456789"
        fixed = fixed and not flow.defined(by, *loop) and not flow.defined(n, *loop)
        if fixed and how in ("lt", "le") and steps[0] < place and flow.is_always(steps[0], *loop):
            _count_steps(flow, *loop, (t, by, n), steps[0], place, (how, kind))


def _count_steps(
    flow: Flow, head: int, back: int, names: tuple[str, str, str], at: int, place: int, test: tuple[str, str]
) -> None:
    (t, by, n), (how, kind), line = names, test, flow.items[back].line
    start, v, limit, found, truth = (flow.register() for _ in range(5))
    new = [made(line, "mov.b32", start, t)]
    few = [(by, "1", "~beyond.asked"), *((each, "0", "~beyond.sign") for each in (start, n) if kind == "u32")]
    new += near(flow, line, n, t, by)
    for name, least, op in few:
        new += [made(line, "setp.lt.s32", found, name, least), Statement(line, (), found, False, op, ())]
    new += [made(line, "sub.s32", limit, n, start), made(line, "add.s32", limit, limit, by)]
    new += [made(line, "sub.s32", limit, limit, "1")] if how == "lt" else []
    new += [made(line, "div.s32", limit, limit, by), made(line, "mov.b32", v, "0")]
    guard = flow.items[back]
    flow.items[back] = replace(guard, guard=truth, negated=False)
    flow.exchange(place, [flow.items[place], made(line, "setp.lt.s32", truth, v, limit)])
    flow.exchange(at, [made(line, "add.s32", v, v, "1"), made(line, "mad.lo.s32", t, v, by, start)])
    flow.before_loop(head, back + 2, new)


__all__ = ["stepped", "strided"]
