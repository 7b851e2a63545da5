"""Branches that lanes of a warp take differently: which lanes go on, and where the others wait for them.

Lanes meet where all ways from the branch come past first. If that is one of the two places that the branch leads to,
the lanes that go there wait there; else only an if with an else is known, the else after the if in the text.
`Warp.stack` holds where lanes wait, and which go on from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from minitile.proof.state import Warp
from minitile.proof.text import Instruction, Refused


def joins(code: Sequence[Instruction]) -> tuple[int, ...]:
    """For each instruction the next one that all ways from it to the end come past; -1: there is none."""
    end = len(code)
    everything = (1 << (end + 1)) - 1
    ways = [_ways(each, end) for each in code]
    past = [everything] * end + [1 << end]
    changed = True
    while changed:
        changed = False
        for n in range(end - 1, -1, -1):
            new = everything
            for way in ways[n]:
                new &= past[way]
            new |= 1 << n
            if new != past[n]:
                past[n], changed = new, True
    found = []
    for n in range(end):
        # Of those that all ways come past, the first one has all others behind it.
        beyond = past[n] & ~(1 << n) & ~(1 << end)
        first = next((m for m in _places(beyond) if past[m] & beyond == beyond), -1)
        found.append(first)
    return tuple(found)


def _ways(each: Instruction, end: int) -> tuple[int, ...]:
    if each.op == "ret":
        return (end, each.pc + 1) if each.guard else (end,)
    if each.base == "bra":
        return (each.target, each.pc + 1) if each.guard else (each.target,)
    return (each.pc + 1,)


def _places(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def diverge(code: Sequence[Instruction], join: int, warp: Warp, each: Instruction, taken: int) -> None:
    """Lanes part at a branch; `join`: where all ways from it come past."""
    left = warp.mask & ~taken
    if join in (each.target, each.pc + 1):
        if not (warp.stack and warp.stack[-1][0] == join):
            warp.stack += ((join, warp.mask),)
        warp.mask, warp.pc = (left, each.pc + 1) if join == each.target else (taken, each.target)
        return
    leaves = _leaves(code, each)
    warp.stack += ((leaves.target, warp.mask), (each.target, taken))
    warp.mask, warp.pc = left, each.pc + 1


def is_known(code: Sequence[Instruction], join: int, each: Instruction) -> bool:
    """Whether lanes of a warp may part at a branch, of whose ways `join` is where all come past."""
    if join in (each.target, each.pc + 1):
        return True
    try:
        _leaves(code, each)
    except Refused:
        return False
    return True


def _leaves(code: Sequence[Instruction], each: Instruction) -> Instruction:
    """The jump that ends the first way of a forward branch, behind which the second one lies."""
    leaves = code[each.target - 1]
    if not (each.pc < leaves.pc < each.target < leaves.target and leaves.base == "bra" and not leaves.guard):
        raise Refused(each.line, "lanes of a warp part here, in a form that is not known")
    _closed(code, each, each.pc + 1, leaves.target, leaves)
    return leaves


def _closed(code: Sequence[Instruction], each: Instruction, begin: int, end: int, leaves: Instruction) -> None:
    """Refused unless what lies between is entered by this branch only, and left at its end only, and neither way
    leads into the other."""
    middle = leaves.pc + 1
    for i in code:
        if i.op == "ret" and begin <= i.pc < end:
            raise Refused(each.line, "lanes of a warp part here, in a form that is not known")
        if i.base != "bra" or i is each or i is leaves:
            continue
        inside, into = begin <= i.pc < end, begin < i.target < end
        crosses = i.target >= middle if i.pc < middle else i.target < middle
        if inside and (not begin <= i.target <= end or crosses):
            raise Refused(each.line, "lanes of a warp part here, in a form that is not known")
        if not inside and into:
            raise Refused(each.line, "a label inside of a branch that lanes of a warp take differently")


__all__ = ["diverge", "is_known", "joins"]
