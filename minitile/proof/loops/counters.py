"""Tests of loops in one form: `counter < bound`, where the counter grows by a constant and belongs to one loop.

before                                       after, with a counter j that nothing else has
`y = c + k; …; c = y`                        `y = c + k; …; c = c + k`
`c = y; …; y = c + k`                        `c = y; …; y = y + k`
`y = c + r; …; y < e`                        `…; c < e - r`
`c += k; …; c <= e` (or `c + 1 < e`, `c < e` `j += k; c = j; …; j < e + 1`, where j starts as c does
 with a register that other loops have too)
`c += k; …; c < 5`, from what is no number    `j += k; c = start + j; …; j < 5 - start`, where j starts at 0
`c -= k; …; c > e`                           `j += k; c = start - j; …; j < start - e`, where j starts at 0
`c != e`                                     as by `<`, or as by `>` if c goes down

Counters and bounds do not wrap around (docs/proof.md), so a loop that ends at `!=` ends where one by `<` would, and one
without a sign where one with a sign would. Where that is known not to be so, the prover refuses: `~beyond` stands where
both tests differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from minitile.proof.loops.flow import ALIASES, INTEGER, NEGATED, SWAPPED, Flow, added, made, near, number, only_quiet
from minitile.proof.reading import Statement

SumOf = Callable[[Statement], tuple[str, str] | None]
FAR = 1 << 30  # a test against a constant beyond this may never fail


@dataclass(frozen=True)
class Test:
    """The test of a loop, at `place`: it goes on while counter + more `how` bound; the counter grows by `by` at `at`.
    `direct`: it is of the form that the prover reads."""

    place: int
    counter: str
    at: int
    by: int
    bound: str
    how: str
    more: int
    kind: str
    direct: bool


# -- what is read


def copies(flow: Flow) -> None:
    """Sums of 32 bits that are copied, as `own_sums` says."""

    def sum_of(each: Statement) -> tuple[str, str] | None:
        found = added(each)
        return found and (found[0], str(found[1]))

    for head, back in flow.loops():
        own_sums(flow, head, back, "32", sum_of)


def own_sums(flow: Flow, head: int, back: int, width: str, sum_of: SumOf) -> None:
    """`y = c + k; …; c = y` is `…; c = c + k`, and `c = y; …; y = c + k` is `c = y; …; y = y + k`.

    Precondition: in the loop, c is written there only, y once, as c + k, and k not; each round comes past both.
    `sum_of`: (x, k) of x + k.
    """
    for n in range(head, back):
        each = flow.items[n]
        if each.guard or not re.fullmatch(rf"mov\.[bsu]{width}", each.op) or len(each.args) != 2:
            continue
        name, source = each.args
        written = flow.defined(source, head, back) if source.startswith("%") else []
        if flow.defined(name, head, back) != [n] or len(written) != 1 or written[0] == n:
            continue
        found = sum_of(flow.items[written[0]])
        fixed = found is not None and found[0] == name and not flow.defined(found[1], head, back)
        if found and fixed and all(flow.is_always(at, head, back) for at in (n, written[0])):
            at, grows = (n, name) if written[0] < n else (written[0], source)
            flow.items[at] = replace(flow.items[at], op=f"add.s{width}", args=(grows, grows, found[1]))


def offsets(flow: Flow) -> None:
    """A test of `y = c + r` is one of c against what is computed in front of the loop: y < e just if c < e - r.
    Precondition: the loop writes c by its step only, and neither r nor e; each round comes past y and the test, with no
    step between; the test is one with a sign, or of whether they are equal."""
    for branch in [flow.items[back] for _, back in flow.loops()]:
        if (loop := flow.loop_of(branch)) is None or (test := tested(flow, *loop)) is None:
            continue
        (head, back), (place, goes_on, kind) = loop, test
        if kind[0] == "u" and goes_on not in ("eq", "ne"):
            continue  # a sum below 0 is no number without a sign
        y, bound = flow.items[place].args[1:]
        made_at = flow.defined(y, head, back)
        each = flow.items[made_at[0]] if len(made_at) == 1 else None
        fixed = number(bound) is not None or (bound.startswith("%") and not flow.defined(bound, head, back))
        if each is None or each.guard or not fixed or not re.fullmatch(r"add\.[su]32", each.op) or len(each.args) != 3:
            continue
        at = made_at[0]
        for c, r in ((each.args[1], each.args[2]), (each.args[2], each.args[1])):
            registers = c.startswith("%") and r.startswith("%") and c != y
            step = step_of(flow, c, head, back) if registers and not flow.defined(r, head, back) else None
            if step is None or at > place or at < step[0] < place or not flow.is_always(at, head, back):
                continue
            limit, old = flow.register(), flow.items[place]
            flow.items[place] = replace(old, args=(old.args[0], c, limit))
            less = made(old.line, f"sub.{kind.replace('b', 's')}", limit, bound, r)
            flow.before_loop(head, back, [*near(flow, old.line, bound, r), less])
            break


def tested(flow: Flow, head: int, back: int) -> tuple[int, str, str] | None:
    """(where, comparison that goes on, its type) of the test of a loop; None: no such. Each round comes past it, and
    nothing else writes what the branch tests behind it."""
    branch = flow.items[back]
    written = flow.defined(branch.guard, head, back - 1)
    if not written or not flow.is_always(written[-1], head, back):
        return None
    each = flow.items[written[-1]]
    match = re.fullmatch(r"setp\.(\w\w)\.([sub]32)", each.op)
    if each.guard or not match or len(each.args) != 3 or each.args[0] != branch.guard:
        return None
    name = ALIASES.get(match[1], match[1])
    return written[-1], NEGATED.get(name, "") if branch.negated else name, match[2]


def step_of(flow: Flow, name: str, head: int, back: int) -> tuple[int, int] | None:
    """(where, by how much) the only statement of a loop that writes a register adds a constant, once a round."""
    written = flow.defined(name, head, back)
    if len(written) != 1 or not (found := added(flow.items[written[0]])) or found[0] != name or not found[1]:
        return None
    return (written[0], found[1]) if flow.is_always(written[0], head, back) else None


def form_of(flow: Flow, head: int, back: int) -> Test | None:
    """The test of a loop, if it is of a register with such a step, or of it plus a constant, against what the loop does
    not write, in the direction of the step; else None."""
    if (test := tested(flow, head, back)) is None:
        return None
    place, goes_on, kind = test
    _, a, b = flow.items[place].args
    for name, bound, how in ((a, b, goes_on), (b, a, SWAPPED.get(goes_on, ""))):
        counter, more, derived = name, 0, flow.defined(name, head, back)
        if len(derived) == 1 and (found := added(flow.items[derived[0]])) and found[0] != name:
            counter, more = found
            if not flow.is_always(derived[0], head, back) or derived[0] > place:
                continue
        fixed = bound.startswith("%") or number(bound) is not None
        step = step_of(flow, counter, head, back) if counter.startswith("%") and fixed else None
        if step is None or flow.defined(bound, head, back) or not -FAR < (number(bound) or 0) < FAR:
            continue
        if kind == "u32" and (number(bound) or 0) < 0:
            continue
        at, by = step
        if counter != name and derived[0] < at < place:
            more -= by  # the test is of a value from before the step
        if how in (("lt", "le", "ne") if by > 0 else ("gt", "ge", "ne")):
            direct = by > 0 and how == "lt" and not flow.items[back].negated and name == a
            return Test(place, counter, at, by, bound, how, more, kind, direct)
    return None


def start_of(flow: Flow, counter: str, head: int, back: int) -> str:
    """What a counter is set to in front of a loop: a number, or the register that it is moved from, if that stands
    there and no other way leads into the loop; else the counter."""
    if any(flow.target(each) == head for n, each in enumerate(flow.items) if not head <= n <= back):
        return counter
    for n in range(head - 1, -1, -1):
        each = flow.items[n]
        if each.op.startswith("bra") and not each.guard:
            break
        if counter in flow.writes(each):
            if each.guard or not re.fullmatch(r"mov\.[bsu]32", each.op):
                break
            source = each.args[1]
            fixed = INTEGER.fullmatch(source) or not flow.defined(source, n, head - 1)
            return source if fixed else counter
        if each.labels:
            break
    return counter


# -- what is written


def count(flow: Flow) -> None:
    """Each loop whose test has a form (`form_of`) is tested by `j < limit`, j its own. Precondition: none beside that
    of the form; a loop that only computes is left alone if its test is by `!=` or without a sign, since it is passed
    without being counted, and `~beyond` could not stand in it."""
    names = [each.counter for loop in flow.loops() if (each := form_of(flow, *loop))]
    for branch in [flow.items[back] for _, back in flow.loops()]:
        if (loop := flow.loop_of(branch)) is None or (form := form_of(flow, *loop)) is None:
            continue
        computes = only_quiet(flow, *loop)
        if not (form.direct and names.count(form.counter) == 1) and not (computes and _is_doubtful(form)):
            _recount(flow, *loop, form)


def _is_doubtful(form: Test) -> bool:
    """Whether a loop may go on where one by `<`, with a sign, would end, or the other way round."""
    return form.how == "ne" or form.kind == "u32"


def _recount(flow: Flow, head: int, back: int, form: Test) -> None:
    line, branch = flow.items[back].line, flow.items[back]
    j, truth = flow.register(), flow.register()
    kind = "s32" if form.kind == "b32" or form.by < 0 else form.kind
    change = _from_zero if _starts_anywhere(flow, head, back, form) else _up if form.by > 0 else _down
    before, stepped, limit = change(flow, head, back, form, j)
    behind = [flow.items[form.place], made(line, f"setp.lt.{kind}", truth, j, limit)]
    first = [*near(flow, line, form.bound, form.counter if change is not _up else ""), *before[:-1]]
    if _is_doubtful(form):
        differs = flow.register()
        behind += [
            made(line, "xor.pred", differs, branch.guard, truth),
            Statement(line, (), differs, branch.negated, "~beyond", ()),
        ]
        first += _before_the_first(flow, form, line)
    flow.items[back] = replace(branch, guard=truth, negated=False)
    # Statements behind move: the later place is changed first.
    for place, new in sorted(((form.place, behind), (form.at, stepped)), key=lambda each: -each[0]):
        flow.exchange(place, new)
    flow.before_loop(head, back + len(behind) + len(stepped) - 2, [*first, before[-1]])


_Parts = tuple[list[Statement], list[Statement], str]  # before the loop, last j's start; instead of the step; the limit


def _up(flow: Flow, head: int, back: int, form: Test, j: str) -> _Parts:
    """j is what the counter is, so counter + more < bound just if j < bound - more."""
    line, step, counter = flow.items[back].line, flow.items[form.at], form.counter
    begin = made(line, "mov.b32", j, start_of(flow, counter, head, back))
    stepped = [made(step.line, "add.s32", j, j, str(form.by))]
    if flow.is_live(counter, head, back):
        stepped.append(made(step.line, "mov.b32", counter, j))
    else:
        for n in range(head, back + 1):
            if n != form.at:
                flow.items[n] = renamed(flow.items[n], counter, j)
    offset = int(form.how == "le") - form.more
    constant = number(form.bound)
    if constant is not None:
        return [begin], stepped, str(constant + offset)
    if not offset:
        return [begin], stepped, form.bound
    limit = flow.register()
    return [made(line, "add.s32", limit, form.bound, str(offset)), begin], stepped, limit


def _starts_anywhere(flow: Flow, head: int, back: int, form: Test) -> bool:
    """Whether a loop goes up, with a sign, from what is no number to a number."""
    ends = form.by > 0 and form.kind != "u32" and number(form.bound) is not None
    return ends and number(start_of(flow, form.counter, head, back)) is None


def _from_zero(flow: Flow, head: int, back: int, form: Test, j: str) -> _Parts:
    """j is counter - start, so counter + more < bound just if j < bound - more - start."""
    line, step, counter = flow.items[back].line, flow.items[form.at], form.counter
    start, left, limit = flow.register(), flow.register(), flow.register()
    end = (number(form.bound) or 0) - form.more + int(form.how == "le")
    before = [
        made(line, "mov.b32", start, counter),
        made(line, "sub.s32", left, "0", start),
        made(line, "add.s32", limit, left, str(end)),
        made(line, "mov.b32", j, "0"),
    ]
    return (
        before,
        [made(step.line, "add.s32", j, j, str(form.by)), made(step.line, "add.s32", counter, start, j)],
        limit,
    )


def _down(flow: Flow, head: int, back: int, form: Test, j: str) -> _Parts:
    """j is start - counter, so counter + more > bound just if j < start + more - bound."""
    line, step, counter = flow.items[back].line, flow.items[form.at], form.counter
    start, limit = flow.register(), flow.register()
    before = [made(line, "mov.b32", start, counter)]
    constant = number(form.bound)
    offset = form.more + int(form.how == "ge") - (constant or 0)
    if constant is None:
        before.append(made(line, "sub.s32", limit, start, form.bound))
    if offset:
        before.append(made(line, "add.s32", limit, start if constant is not None else limit, str(offset)))
    elif constant is not None:
        limit = start
    stepped = [made(step.line, "add.s32", j, j, str(-form.by)), made(step.line, "sub.s32", counter, start, j)]
    return [*before, made(line, "mov.b32", j, "0")], stepped, limit


def _before_the_first(flow: Flow, form: Test, line: int) -> list[Statement]:
    """What no run may come to: a loop to `!=` that is first tested beyond its bound; one that goes down to what an
    unsigned number is never below."""
    first, found = flow.register(), flow.register()
    offset = form.more + (form.by if form.at < form.place else 0)
    out = [made(line, "add.s32", first, form.counter, str(offset))]

    def never(how: str, a: str, b: str, what: str) -> Iterator[Statement]:
        yield made(line, f"setp.{how}.s32", found, a, b)
        yield Statement(line, (), found, False, f"~beyond.{what}", ())

    if form.how == "ne":
        out += never("gt" if form.by > 0 else "lt", first, form.bound, "asked")
    elif form.by < 0:
        out += never("lt", first, "0", "sign")
        least = -form.by - (form.how == "gt")
        out += [made(line, "mov.b32", first, form.bound), *never("lt", first, str(least), "sign")]
    return out


def renamed(each: Statement, old: str, new: str) -> Statement:
    form = re.compile(rf"{re.escape(old)}(?![\w.])")
    guard = new if each.guard == old else each.guard
    return replace(each, args=tuple(form.sub(new, arg) for arg in each.args), guard=guard)


__all__ = ["Test", "copies", "count", "form_of", "offsets", "own_sums", "renamed", "start_of", "step_of", "tested"]
