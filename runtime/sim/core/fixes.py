"""The words of a cure: which barrier or scope orders two accesses, where it has to stand, and who made them.

Which barrier depends on how far the two threads are apart: `bar.sync` orders threads of one CTA, `barrier.cluster`
those of one cluster, nothing those of two clusters. Where it has to stand follows from the flow of the program, not
from the order of its lines: a later access may stand further up because a loop comes round, or only because that thread
was slower.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ptx.race.scopes import CLUSTER, CTA, WEAK, distance

if TYPE_CHECKING:
    from ..ptx.machine import Machine
    from ..ptx.program import Step
    from ..ptx.race.model import Sites

ONE_THREAD = "let one of them do it, or each on bytes of its own: no barrier comes between threads at one instruction"
UNORDERED = "CTAs of a launch are not ordered: use atomics, or two launches"
CLUSTER_BARRIER = "barrier.cluster.arrive.release and barrier.cluster.wait.acquire"
_SCOPES = {CTA: (".cta", "warps"), CLUSTER: (".cluster", "CTAs")}  # by distance: the scope, and whose threads


def barrier_of(machine: Machine, one: int, other: int) -> str:
    """The barrier that two threads of one cluster meet at."""
    return "bar.sync" if one // machine.padded == other // machine.padded else CLUSTER_BARRIER


def names(machine: Machine, *slots: int) -> list[str]:
    """Threads by their number in the block, and with their CTA where these are of several."""
    several = len({slot // machine.padded for slot in slots}) > 1
    return [
        f"thread {slot % machine.padded}" + (f" of CTA {machine.thread_position(slot)[1]}" if several else "")
        for slot in slots
    ]


def order(machine: Machine, far: int, earlier: int, later: int, sites: Sites, barrier: str = "bar.sync") -> str:
    """What orders accesses at two instructions, by threads so far apart (see `scopes.py`). `barrier`: of one CTA's."""
    strong = sites.scope[earlier] != WEAK and sites.scope[later] != WEAK
    if strong and min(sites.reach[earlier], sites.reach[later]) < far:
        wide, parts = _SCOPES.get(far, (".gpu", "clusters"))
        return f"scope {wide} for both accesses: those of threads of different {parts} do not meet in a narrower one"
    if far > CLUSTER:
        return UNORDERED
    if earlier == later and not reaches(machine.program.code, earlier, later):
        return ONE_THREAD
    return f"{CLUSTER_BARRIER if far == CLUSTER else barrier} {between(machine, earlier, later)}"


def between(machine: Machine, earlier: int, later: int) -> str:
    """Where something has to stand to come between what happened at two instructions."""
    code = machine.program.code
    onward, back = reaches(code, earlier, later), reaches(code, later, earlier)
    a, b = code[earlier].ins.line, code[later].ins.line
    if onward and (not back or a < b):
        return f"between PTX line {a} and line {b}"
    if onward:
        again = "it" if a == b else f"line {b}"
        return f"behind PTX line {a}, before the next round of the loop comes to {again}"
    if back:  # the thread that came to it first was faster
        return f"between PTX line {b} and line {a}"
    return f"which all threads pass, between PTX line {a} and line {b}: they are on different branches"


def reaches(code: list[Step], start: int, end: int) -> bool:
    """Whether a path leads from behind an instruction to another one, or round to itself."""
    seen: set[int] = set()
    pending = _following(code, start)
    while pending:
        index = pending.pop()
        if index == end:
            return True
        if index < len(code) and index not in seen:
            seen.add(index)
            pending += _following(code, index)
    return False


def _following(code: list[Step], index: int) -> list[int]:
    step = code[index]
    leaves = step.guard is None and (step.target is not None or step.ins.name in ("exit", "ret", "trap"))
    found = [] if leaves else [index + 1]
    if step.ins.name == "brx":
        return list(range(len(code)))  # anywhere
    return found if step.target is None else [*found, step.target]


def distance_of(machine: Machine, one: int, other: int) -> int:
    """How far two threads of a batch are apart."""
    return distance(one // machine.padded, other // machine.padded, machine.launch.cluster_size)
