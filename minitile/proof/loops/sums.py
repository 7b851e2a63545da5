"""Numbers that are moved on, registers that grow with a counter, and counters' starts.

before                                       after
`x = 5; …; y = x`                            `x = 5; …; y = 5`
`r = r + k` once a round of a counted loop   `r = first + j·(k / step)`, of the loop's counter j
`c = a - b` in front of a loop by c          `x = a - b; c = x`
"""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction

from minitile.proof.loops.counters import Test, form_of, renamed, start_of, step_of, tested
from minitile.proof.loops.flow import INTEGER, Flow, added, made, number
from minitile.proof.reading import Statement


def numbers(flow: Flow) -> None:
    """`x = 5; …; y = x` is `y = 5`. Precondition: no label stands between, and nothing there writes x."""
    known: dict[str, str] = {}
    for n, each in enumerate(flow.items):
        if each.labels:
            known = {}
        moves = re.fullmatch(r"mov\.[bsu]32", each.op) is not None and len(each.args) == 2
        if moves and not each.guard and each.args[1] in known:
            each = flow.items[n] = replace(each, args=(each.args[0], known[each.args[1]]))
        for name in flow.writes(each):
            known.pop(name, None)
        if moves and not each.guard and INTEGER.fullmatch(each.args[1]):
            known[each.args[0]] = each.args[1]


_FIXED = re.compile(r"ld\.param\.[bsu](?:32|64)|mov\.[bsu]32")
_PLACE = re.compile(r"\[\w+\]|%n?ctaid\.[xyz]")


def bounds(flow: Flow) -> None:
    """A parameter that is loaded again in each round, and then tested, is loaded in front of all.

    Precondition: the loop writes the register there only, and each round comes past it before the test.
    """
    for branch in [flow.items[back] for _, back in flow.loops()]:
        if (loop := flow.loop_of(branch)) is None or not (tests := flow.defined(branch.guard, loop[0], loop[1] - 1)):
            continue
        test = flow.items[tests[-1]]
        for arg in test.args[1:] if test.op.startswith("setp.") else ():
            written = flow.defined(arg, *loop) if arg.startswith("%") else []
            each = flow.items[written[0]] if len(written) == 1 else test
            always = each is not test and written[0] < tests[-1] and flow.is_always(written[0], *loop)
            if always and not each.guard and _FIXED.fullmatch(each.op) and _PLACE.fullmatch(each.args[-1]):
                own = flow.register()
                args = tuple(own if a == arg else a for a in test.args)
                flow.items[tests[-1]] = replace(test, args=args)
                flow.insert(0, [replace(each, labels=(), args=(own, each.args[1]))])
                break


def follow(flow: Flow) -> None:
    """In counted loops that do more than to compute, `r = r + k` is computed from the counter, so that what r holds
    repeats when the counter's value does not matter.

    Precondition: nothing else of the loop writes r, each round comes past the statement, and the counter's step divides
    k, or the counter starts at a number: r is computed from j / d then, d what the step has more than k. What holds at
    the head, r = base + (j - start)·(k / step), holds after each round.
    """
    for branch in [flow.items[back] for _, back in flow.loops()]:
        if (loop := flow.loop_of(branch)) is None or not (form := form_of(flow, *loop)) or not form.direct:
            continue
        head, back = loop
        if all(each.op.startswith("bra") or flow.only_computes(each) for each in flow.items[head:back]):
            continue
        grown = [(n, new) for n in range(head, back) if n != form.at and (new := _grown(flow, n, head, back, form))]
        before: list[Statement] = []
        for n, (ahead, within) in reversed(grown):
            before += ahead
            flow.exchange(n, within)
        if before:
            flow.before_loop(head, back + sum(len(within) - 1 for _, (_, within) in grown), before)


def _grown(flow: Flow, n: int, head: int, back: int, form: Test) -> tuple[list[Statement], list[Statement]] | None:
    """(what is done before the loop, what stands for the statement) for `r = r + k`; None: it is none."""
    each, j = flow.items[n], form.counter
    match = re.fullmatch(r"(add|sub)\.[su](32|64)", each.op)
    if not match or each.guard or len(each.args) != 3 or each.args[0] != each.args[1] or each.args[0] == j:
        return None
    r, step = each.args[1], _constant(each.args[2], int(match[2]))
    if step is None or step == 0 or flow.defined(r, head, back) != [n] or not flow.is_always(n, head, back):
        return None
    step = -step if match[1] == "sub" else step
    times, line, start = Fraction(step, form.by), each.line, start_of(flow, j, head, back)
    known = number(start)
    if times.denominator > 1 and (known is None or known < 0):
        return None
    bits, wide = ("s32", "mul.lo.s32") if match[2] == "32" else ("s64", "mul.wide.s32")
    base, first, whole = flow.register(), flow.register(), int(times) if times.denominator == 1 else 0
    before = [made(line, f"add.{bits}", base, r, str(-known * whole if known is not None else 0))]
    if known is None:
        moved = flow.register()
        before += [made(line, wide, moved, start, str(whole)), made(line, f"sub.{bits}", base, base, moved)]
    before.append(made(line, f"add.{bits}", first, base, str(step if n < form.at else 0)))
    counted: list[Statement] = []
    if not whole:  # what has been counted since the start is a multiple of the step
        since, j, whole = flow.register(), flow.register(), times.numerator
        counted = [made(line, "sub.s32", since, form.counter, start)] if known else []
        counted.append(made(line, "div.u32", j, since if known else form.counter, str(times.denominator)))
    if bits == "s64":
        product = flow.register()
        return before, [*counted, made(line, wide, product, j, str(whole)), made(line, "add.s64", r, first, product)]
    if whole == 1:
        return [*before, *counted, made(line, "add.s32", r, j, base)], [*counted, made(line, "add.s32", r, j, first)]
    return (
        [*before, *counted, made(line, "mad.lo.s32", r, j, str(whole), base)],
        [*counted, made(line, "mad.lo.s32", r, j, str(whole), first)],
    )


def _constant(arg: str, width: int) -> int | None:
    value = int(arg, 0) if INTEGER.fullmatch(arg) else None
    if value is not None and width == 32 and 1 << 31 <= value < 1 << 32:
        value -= 1 << 32
    return value if value is not None and abs(value) < 1 << 31 else None


def starts(flow: Flow) -> None:
    """Counters are set by `mov` only, each time from a register of its own, which is read for them in front of the
    loop. Precondition: the statement only computes,
    writes nothing else, has no guard, and is no step."""
    counters = set()
    for head, back in flow.loops():
        test = tested(flow, head, back)
        name = flow.items[test[0]].args[1] if test else ""
        if name and step_of(flow, name, head, back):
            counters.add(name)
    out: list[Statement] = []
    owned: list[tuple[str, str]] = []
    for each in flow.items:
        name = each.args[0] if each.args else ""
        alone = flow.writes(each) == (name,) and not each.guard and each.op.partition(".")[0] in flow.plain
        found = added(each)
        steps = found is not None and found[0] == name
        if name in counters and alone and not steps and not each.op.startswith(("mov.", "ld.global")):
            own = flow.register()
            out += [replace(each, args=(own, *each.args[1:])), made(each.line, "mov.b32", name, own)]
            owned.append((name, own))
        else:
            out.append(each)
    flow.items = out
    for name, own in owned:
        _pass_on(flow, name, own)


def _pass_on(flow: Flow, name: str, own: str) -> None:
    """What reads a counter that has only been set, to what `own` has, reads `own`. Precondition: nothing writes `own`
    but the statement right before."""
    written = flow.defined(name, 0, len(flow.items) - 1)
    place = next(n for n in written if flow.items[n].args == (name, own))
    others = flow.readers(name, [0, *(n + 1 for n in written if n != place)])
    for n in flow.readers(name, [place + 1]) - others:
        each = flow.items[n]
        if name not in flow.writes(each):
            flow.items[n] = renamed(each, name, own)


__all__ = ["bounds", "follow", "numbers", "starts"]
