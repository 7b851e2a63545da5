"""What the text says of counters: constants that it compares with them or subtracts, where they start."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from minitile.proof.arithmetic.values import NEAR, SMALL
from minitile.proof.text import ATOMIC, INTEGER, Instruction, Loop, Program, successors_of

_KEEPS_COUNTER = ("mov", "add", "sub", "mad", "selp", "shfl", "cvt")


def constants(program: Program) -> list[int]:
    """Constants that the text compares counters or bounds with, or sums of them, and those of minima."""
    counted = {name for each in program.loops for name in (each.counter, each.bound)}
    grown = True
    while grown:
        more = {
            name
            for each in program.code
            if each.base in _KEEPS_COUNTER and not counted.isdisjoint(each.reads)
            for name in each.writes
        }
        grown, counted = not more <= counted, counted | more
    compared = [
        each
        for each in program.code
        if each.base == "min" or (each.base == "setp" and not counted.isdisjoint(each.args[1:]))
    ]
    less = {
        each.args[0] for each in program.code if re.fullmatch(r"add\.[su]32", each.op) and each.args[2].startswith("-")
    }
    compared += [i for i in program.code if i.op.startswith("setp") and i.op.endswith(".u32") and i.args[1] in less]
    names = {arg for each in compared for arg in each.args[1:]}
    moved = [each.args[1] for each in program.code if each.base == "mov" and each.args[0] in names]
    return [int(arg, 0) for arg in (*names, *moved) if INTEGER.fullmatch(arg)] + _of_quotients(program)


def _of_quotients(program: Program) -> list[int]:
    """Where X / c is a loop's bound, and X is compared with n: n / c, which is what the bound is compared with so."""
    bounds, found = {each.bound for each in program.loops}, []
    for each in program.code:
        shifts = each.base == "shr" and bool(re.fullmatch(r"\d", each.args[2]))
        if not bounds.isdisjoint(each.writes) and (shifts or (each.base == "div" and INTEGER.fullmatch(each.args[2]))):
            by = 1 << int(each.args[2]) if shifts else max(int(each.args[2], 0), 1)
            whole = {each.args[1]}
            for i in program.code:  # the sum that a signed division rounds by
                whole.update(i.reads if i.base == "add" and i.args[0] == each.args[1] else ())
            limits = [i.args[2] for i in program.code if i.base == "setp" and i.args[1] in whole]
            found += [int(n, 0) // by for n in limits if INTEGER.fullmatch(n) and int(n, 0) % by in (0, by - 1)]
    return found


def counted_anew(code: Sequence[Instruction], loops: Sequence[Loop], pc: int) -> tuple[Loop, ...] | None:
    """Of these loops those whose counters tell apart all times at which a thread executes an instruction; None: they do
    not. Each way from it back to it comes past the step of one of them, and on a way that comes past no step of those
    before it nothing else writes its counter: so from one time to the next the counters grow, the first one first.
    `loops`: the outermost last; of the result it is the first."""
    found, without = list[Loop](), set[int]()
    for loop in reversed(loops):
        if pc not in (around := _on_ways(code, pc, without)):
            break
        writes = {n for n in around if loop.counter in code[n].writes}
        if len(writes) == 1 and all(loop.head <= n < loop.back for n in writes):
            found.append(loop)
            without |= writes
    return None if pc in _on_ways(code, pc, without) else tuple(found)


def _on_ways(code: Sequence[Instruction], pc: int, without: Collection[int]) -> set[int]:
    """What lies on ways from an instruction back to it that do not come past some others."""
    ways = [() if n in without else successors_of(each) for n, each in enumerate(code)]
    before: list[list[int]] = [[] for _ in code]
    for n, each in enumerate(ways):
        for way in each:
            if way < len(code):
                before[way].append(n)
    return _reached(ways[pc], ways) & _reached(before[pc], before)


def _reached(start: Iterable[int], ways: Sequence[Sequence[int]]) -> set[int]:
    found, todo = set[int](), [*start]
    while todo:
        n = todo.pop()
        if n < len(ways) and n not in found:
            found.add(n)
            todo += ways[n]
    return found


def subtracted(program: Program) -> int:
    """What the text subtracts from counters, where it is little: shifted ones are to be above their floor by that."""
    counters = {each.counter for each in program.loops} | growing(program)
    found = [NEAR]
    for each in program.code:
        if each.base in ("add", "sub") and each.args[1] in counters and INTEGER.fullmatch(each.args[2]):
            less = int(each.args[2], 0) * (1 if each.base == "sub" else -1)
            found += [less] * (0 < less < SMALL)
    return max(found)


def growing(program: Program) -> frozenset[str]:
    """Registers into which nothing comes but numbers of the text, not negative, and sums and copies of such registers:
    counters from such numbers in them only grow (Registers.result adds nothing negative to them)."""
    writes: dict[str, list[Instruction]] = {}
    for each in program.code:
        for name in each.writes:
            writes.setdefault(name, []).append(each)
    found = set(writes)
    while True:
        kept = {name for name in found if all(_grows(each, found) for each in writes[name])}
        if kept == found:
            return frozenset(found)
        found = kept


def _grows(each: Instruction, among: set[str]) -> bool:
    sums = re.fullmatch(r"mov\.[bsu]32|add\.[su]32", each.op) is not None
    return sums and not each.guard and all(arg in among or re.fullmatch(r"\d+", arg) for arg in each.args[1:])


def remainders(program: Program) -> frozenset[str]:
    """Bounds of loops that are some number `and` less than 8: of the rounds that an unrolled loop leaves over."""
    found: set[str] = set()
    for name in {each.bound for each in program.loops}:
        source, seen = name, set[str]()
        while source not in seen:
            seen.add(source)
            # A loop that counts down computes what it counts from its start and its own counter.
            made = [each for each in program.code if source in each.writes and each.base != "sub"]
            source = made[0].args[1] if len(made) == 1 and made[0].base == "mov" else source
        if len(made) == 1 and made[0].base == "and" and re.fullmatch(r"[1-7]", made[0].args[2]):
            found.add(name)
    return frozenset(found)


def generations(program: Program, around: Sequence[Sequence[Loop]]) -> dict[int, int]:
    """A name for what loops count that are looked at apart, by their heads: how many loops with one start and bound
    come before (for the rounds that an unrolled loop leaves over: how many others), and whether a start is made of what
    is loaded. `around`: for each instruction the loops around it that have loops within."""
    starts: dict[str, list[str]] = {}
    counters = {each.counter for each in program.loops}
    for each in program.code:
        if each.base == "mov" and each.args[0] in counters:
            starts.setdefault(each.args[0], []).append(each.args[1])
    loaded, few = made_of_loaded(program), remainders(program)
    return {
        a.head: 2
        * sum(
            b.back < a.head
            and (b.bound == a.bound or (a.bound in few and b.bound not in few))
            and bool(program.ahead[b.back] >> a.head & 1)
            and starts.get(a.counter) == starts.get(b.counter)
            and [o for o in around[a.head] if o is not a] == [o for o in around[b.head] if o is not b]
            for b in program.loops
        )
        + (not loaded.isdisjoint(starts.get(a.counter, ())))
        for a in program.loops
    }


def made_of_loaded(program: Program) -> frozenset[str]:
    """Registers in which there may be what is computed of what is loaded from memory."""
    found: set[str] = set()
    while True:
        more = {
            name
            for each in program.code
            if each.op.startswith(("ld.global", "ld.shared", *ATOMIC)) or not found.isdisjoint(each.reads)
            for name in each.writes
        }
        if more <= found:
            return frozenset(found)
        found |= more


__all__ = ["constants", "counted_anew", "generations", "growing", "subtracted"]
