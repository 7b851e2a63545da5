"""Loops that are tested at their head, or left by a branch around a jump.

before                               after
`@p bra X; bra Y; X:`                `@!p bra Y; X:`
`H: head; @p bra X; body; bra H; X:` `H: head; @p bra X; B: body; head; @!p bra B; X:`
`p = a && i < n; @p bra H; X:`       `p = …; @!a bra X; @(i < n) bra H; X:`
"""

from __future__ import annotations

import re
from dataclasses import replace

from minitile.proof.loops.flow import Flow

LONGEST_HEAD = 64  # statements that are copied to the end of a loop, at most


def straighten(flow: Flow) -> None:
    """A branch around a jump is one branch. Precondition: nothing else comes to the jump (it has no label)."""
    n = 0
    while n + 1 < len(flow.items):
        first, second = flow.items[n], flow.items[n + 1]
        jumps = flow.target(first) == n + 2 and first.guard and not second.guard and not second.labels
        if jumps and second.op in ("bra", "bra.uni"):
            flow.items[n] = replace(first, negated=not first.negated, args=second.args)
            del flow.items[n + 1]
        else:
            n += 1


def rotate(flow: Flow) -> None:
    """The head of a loop stands at its end once more: after each body the same statements run, and then the same test.

    Precondition: the head, up to the first branch out of the loop, is entered at its begin only, and the branches in it
    stay in it.
    """
    back = 0
    while back < len(flow.items):
        each = flow.items[back]
        head = flow.target(each)
        test = _leaving(flow, head, back) if not each.guard and 0 <= head <= back else -1
        back += 1 if test < 0 else _copy(flow, head, test, back)


def _copy(flow: Flow, head: int, test: int, back: int) -> int:
    """Puts a copy of head … test for the branch at `back`; gives how many statements stand for it."""
    each, leaves, name = flow.items[back], flow.items[test], flow.label()
    new_names = {old: flow.label() for i in flow.items[head + 1 : test + 1] for old in i.labels}
    new = []
    for i in flow.items[head:test]:
        args = tuple(new_names.get(arg, arg) for arg in i.args) if i.op.startswith("bra") else i.args
        new.append(replace(i, labels=tuple(new_names[old] for old in i.labels if old in new_names), args=args))
    labels = tuple(new_names[old] for old in leaves.labels if old in new_names)
    new.append(replace(leaves, labels=labels, negated=not leaves.negated, args=(name,)))
    if flow.target(leaves) != back + 1:
        new.append(replace(leaves, labels=(), guard="", negated=False))
    new[0] = replace(new[0], labels=(*each.labels, *new[0].labels))
    flow.items[back : back + 1] = new
    body = flow.items[test + 1]
    flow.items[test + 1] = replace(body, labels=(*body.labels, name))
    return len(new)


def _leaving(flow: Flow, head: int, back: int) -> int:
    """The first branch out of a loop, if what lies before it may be executed at the loop's end instead; else -1."""
    for n in range(head, min(back, head + LONGEST_HEAD)):
        each = flow.items[n]
        if each.op in ("ret", "trap"):
            return -1
        if each.op.startswith("bra"):
            if each.guard and flow.target(each) > back:
                inner = [i for i in range(head, n) if flow.items[i].op.startswith("bra")]
                closed = all(head < flow.target(flow.items[i]) <= n for i in inner)
                others = (i for i in range(len(flow.items)) if not head <= i <= n)
                entered = any(head < flow.target(flow.items[i]) <= n for i in others)
                return n if closed and not entered else -1
            if not each.guard and flow.target(each) <= n:
                return -1
    return -1


def part(flow: Flow) -> None:
    """A loop that goes on if two truths hold, one of them a test of a number that has grown, is left if the other does
    not hold, and then goes on by that test.

    Precondition: nothing writes these truths, or their conjunction, between that and the branch.
    """
    for branch in [flow.items[back] for _, back in flow.loops()]:
        if (loop := flow.loop_of(branch)) is None:
            continue
        head, back = loop
        written = flow.defined(branch.guard, head, back - 1)
        both = flow.items[written[-1]] if written else branch
        name = "or.pred" if branch.negated else "and.pred"
        if both.guard or both.op != name or len(both.args) != 3 or not flow.is_always(written[-1], head, back):
            continue
        truths = both.args[1:]
        kept = all(not flow.defined(truth, written[-1], back - 1) for truth in truths)
        tests = [truth for truth in truths if _is_test(flow, truth, head, written[-1] - 1, "lt|le|gt|ge")]
        tests = tests or [truth for truth in truths if _is_test(flow, truth, head, written[-1] - 1, "eq|ne")]
        if kept and len(tests) == 1 and back + 1 < len(flow.items) and branch.guard not in truths:
            other = truths[truths[0] == tests[0]]
            label, behind = flow.label(), flow.items[back + 1]
            flow.items[back + 1] = replace(behind, labels=(*behind.labels, label))
            leaves = replace(branch, guard=other, negated=not branch.negated, args=(label,))
            flow.items[back : back + 1] = [leaves, replace(branch, labels=(), guard=tests[0])]


def _is_test(flow: Flow, truth: str, head: int, end: int, how: str) -> bool:
    """Whether a truth is such a test, in each round, of numbers: of a sum made in the loop, and of a fixed one."""
    written = flow.defined(truth, head, end)
    each = flow.items[written[0]] if len(written) == 1 else None
    if (
        each is None
        or each.guard
        or not re.fullmatch(rf"setp\.(?:{how})\.[sub](32|64)", each.op)
        or len(each.args) != 3
    ):
        return False
    made = [flow.defined(arg, head, end) for arg in each.args[1:]]
    grown = [n for places in made for n in places if re.fullmatch(r"add\.[su](32|64)", flow.items[n].op)]
    return [] in made and len(grown) == 1


__all__ = ["part", "rotate", "straighten"]
