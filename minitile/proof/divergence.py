"""Branches that lanes of a warp take differently: which lanes go on, and where the others wait for them.

Only forms that are closed are known: if, if and else, and loops that lanes leave one by one. `Warp.stack` holds where
lanes wait, and which go on from there.
"""

from __future__ import annotations

from collections.abc import Sequence

from minitile.proof.state import Warp
from minitile.proof.text import Instruction, Refused


def diverge(code: Sequence[Instruction], warp: Warp, each: Instruction, taken: int) -> None:
    """Lanes part at a branch: those that are ahead in the text wait where they meet again."""
    if each.target <= each.pc:  # some go around again
        _closed(code, each, each.target, each.pc)
        if not (warp.stack and warp.stack[-1][0] == each.pc + 1):
            warp.stack += ((each.pc + 1, warp.mask),)
        warp.mask, warp.pc = taken, each.target
        return
    if leaves := _leaves(code, each):
        _closed(code, each, each.pc + 1, leaves.target, leaves)
        warp.stack += ((leaves.target, warp.mask), (each.target, taken))
    else:
        _closed(code, each, each.pc + 1, each.target)
        if not (warp.stack and warp.stack[-1][0] == each.target):
            warp.stack += ((each.target, warp.mask),)
    warp.mask &= ~taken
    warp.pc += 1


def is_closed(code: Sequence[Instruction], each: Instruction) -> bool:
    """Whether lanes of a warp may part at a forward branch."""
    leaves = _leaves(code, each)
    try:
        _closed(code, each, each.pc + 1, leaves.target if leaves else each.target, leaves)
    except Refused:
        return False
    return True


def _leaves(code: Sequence[Instruction], each: Instruction) -> Instruction | None:
    """The jump that ends the first way of a forward branch, where there is a second one behind it."""
    last = code[each.target - 1]
    both = last.pc > each.pc and last.base == "bra" and not last.guard and last.target > each.target
    return last if both else None


def _closed(
    code: Sequence[Instruction], each: Instruction, begin: int, end: int, leaves: Instruction | None = None
) -> None:
    """Refused unless what lies between is entered by this branch only, and left at its end only; if both ways of a
    branch lie between, none leads into the other."""
    middle = leaves.pc + 1 if leaves else end
    for i in code:
        if i.op == "ret" and begin <= i.pc < end:
            raise Refused(each.line, "lanes of a warp part here, in a form that is not known")
        if i.base != "bra" or i is each or i is leaves:
            continue
        inside, into = begin <= i.pc < end, begin < i.target < end
        crosses = i.target >= middle if i.pc < middle else i.target < middle
        if inside and (not begin <= i.target <= end or (leaves and crosses)):
            raise Refused(each.line, "lanes of a warp part here, in a form that is not known")
        if not inside and into:
            raise Refused(each.line, "a label inside of a branch that lanes of a warp take differently")


__all__ = ["diverge", "is_closed"]
