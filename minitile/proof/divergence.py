"""Branches that lanes of a warp take differently: which lanes go on, and where the others wait for them.

Lanes meet where all ways from the branch come past first. If that is one of the two places that the branch leads
to, the lanes that go there wait there; else each way is taken up to there, one after the other.
`Warp.stack` holds where lanes wait, and which go on from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from minitile.proof.state import Warp
from minitile.proof.text import Instruction, Refused, successors_of


def joins(code: Sequence[Instruction]) -> tuple[int, ...]:
    """For each instruction the next one that all ways from it to the end come past; -1: there is none."""
    end = len(code)
    everything = (1 << (end + 1)) - 1
    ways = [(*successors_of(each), *((end,) if each.op == "ret" else ())) for each in code]
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


def _places(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


AGAIN = 0  # instead of a mask: where lanes come, others have yet to take their way from elsewhere


def diverge(join: int, warp: Warp, each: Instruction, taken: int) -> None:
    """Lanes part at a branch; `join`: where all ways from it come past. Those that pass the branch by go on; where they
    come to the join the others begin at the branch's target."""
    left = warp.mask & ~taken
    if join < 0:
        raise Refused(each.line, "lanes of a warp part here, and do not meet again")
    if not (warp.stack and warp.stack[-1][0] == join):
        warp.stack += ((join, warp.mask),)
    if join in (each.target, each.pc + 1):
        warp.mask, warp.pc = (left, each.pc + 1) if join == each.target else (taken, each.target)
        return
    warp.stack += ((each.target, taken), (join, AGAIN))
    warp.mask, warp.pc = left, each.pc + 1


def meet(warp: Warp) -> None:
    """Lanes that have come to where others wait for them go on with these, or wait for those that have yet to come."""
    while warp.stack and warp.stack[-1][0] == warp.pc:
        if warp.stack[-1][1] == AGAIN:
            (warp.pc, warp.mask), warp.stack = warp.stack[-2], warp.stack[:-2]
        else:
            warp.mask, warp.stack = warp.stack[-1][1], warp.stack[:-1]


__all__ = ["diverge", "joins", "meet"]
