"""Loops that are tested at their head, or left by a branch around a jump.

before                               after
`@p bra X; bra Y; X:`                `@!p bra Y; X:`
`H: head; @p bra X; body; bra H; X:` `H: head; @p bra X; B: body; head; @!p bra B; X:`
"""

from __future__ import annotations

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


__all__ = ["rotate", "straighten"]
