"""Branches of which it is not known whether a warp takes them: what lies behind them is taken for done, as far as it
only computes and accesses shared memory (docs/proof.md).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from minitile.proof.arithmetic.values import (
    TOP,
    UNIFORM,
    Counter,
    Perhaps,
    Predicate,
    Value,
    by_lane,
    join,
    lanes_of,
    not_negative,
    of_a_lane,
    uniform,
    variables_in,
)
from minitile.proof.divergence import diverge, joins
from minitile.proof.products import Products
from minitile.proof.questions import Fork
from minitile.proof.shortcuts.blocks import Block
from minitile.proof.state import ALL, State, Warp, bits
from minitile.proof.text import ATOMIC, Fault, Instruction, Launch, Loop, Program, Refused, is_plain
from minitile.proof.tickets import computed_from, counted, counts_up, highest, renew, truths, without

SHARED = re.compile(r"(?:st|ld)\.shared(?:::cta)?(?:\.v([24]))?\.[busf](8|16|32|64|128)")
ATOMIC_OF_SHARED = re.compile(
    r"(?:atom|red)(?:\.\w+\.(?:cta|cluster|gpu|sys))?\.shared(?:::cta)?\.(?:add|min|max|inc|dec|and|or|xor|exch|cas)"
    r"(?:\.noftz)?\.(?:[busf](?:32|64)|f16x2|bf16x2)"
)
CP_ASYNC = re.compile(r"cp\.async\.c[ag]\.shared(?:::cta)?\.global(?:\.L2::\w+)?")
TENSOR_STORES = re.compile(
    r"cp\.async\.bulk\.tensor\.[1-5]d\.global\.shared::cta\.bulk_group|"
    r"cp\.reduce\.async\.bulk\.tensor\.[1-5]d\.global\.shared::cta\.\w+\.bulk_group"
)
IDLE_FENCES = ("fence.acq_rel.", "fence.sc.", "fence.proxy.async.global", "fence.proxy.tensormap", "membar.")


def is_access(each: Instruction) -> bool:
    """Whether an instruction does no more than to access shared memory; it may be taken for executed then."""
    return bool(
        SHARED.fullmatch(each.op)
        or ATOMIC_OF_SHARED.fullmatch(each.op)
        or CP_ASYNC.fullmatch(each.op)
        or TENSOR_STORES.fullmatch(each.op)
    )


def is_of_global(each: Instruction) -> bool:
    """Whether an instruction is an atomic or a fence for global memory only."""
    return each.op.startswith((*ATOMIC, *IDLE_FENCES))


class Branches(Products):
    """`open`: where the ways of a branch join again, with only accesses and arithmetic between; `loose`: with loops of
    these too; `rounds`: backward branches of such loops. `backs`: where the loop that begins there ends. `path`: of the
    branches that have been passed, (where, to where, what was true)."""

    guessed: bool
    blocks: list[Block | None]
    bursts: list[Any]

    def __init__(self, program: Program, launch: Launch, residues: Mapping[Any, tuple[int, int]]) -> None:
        super().__init__(program, launch, residues)
        self.guessed = False  # whether an access was taken for executed of which that is not known
        self.path: list[tuple[int, int, Value]] = []
        self.computed: dict[int, frozenset[str]] = {}  # what is computed from the result of an instruction
        self.labels = {each.target for each in program.code}
        self.products = self._product_registers()
        self.touches = [self._bits({*each.reads, *each.writes}) for each in program.code]
        self.plain = [is_plain(each) for each in program.code]
        backward = [each for each in program.code if each.base == "bra" and 0 <= each.target <= each.pc]
        self.backs = {each.target: each.pc for each in backward}
        self.rounds = {each.pc for each in backward if each.pc not in program.spins and self._is_passed(each, True)}
        self.open = [self._open(each) for each in program.code]
        self.arms = [any(i.base == "bra" for i in program.code[n + 1 : end]) for n, end in enumerate(self.open)]
        self.entries: dict[tuple[int, int], int] = {}
        self.counting: dict[tuple[Loop, bool], bool] = {}
        self.loose = [self._open(each, True) for each in program.code]
        self.computes = [  # whether nothing that matters lies between an open branch and its end
            all(
                program.code[i].base == "bra"
                or (self.plain[i] and program.live[end].isdisjoint(program.code[i].writes))
                for i in range(pc + 1, end)
            )
            for pc, end in enumerate(self.open)
        ]
        self.decides = [  # whether only what is computed hangs on the branch, and matters; or copies do
            end > 0
            and not self.computes[pc]
            and (
                all(self.plain[i] or program.code[i].base == "bra" for i in range(pc + 1, end))
                or any(program.code[i].base == "cp" for i in range(pc + 1, end))
            )
            for pc, end in enumerate(self.open)
        ]
        self.alike = [self._alike(each) for each in program.code]

    @cached_property
    def joins(self) -> tuple[int, ...]:
        return joins(self.program.code)

    def execute(self, state: State, warp: Warp, each: Instruction, lanes: int, sure: bool = True) -> bool:
        raise NotImplementedError

    def burst(self, state: State, warp: Warp, burst: Any) -> bool:
        raise NotImplementedError

    def _alike(self, each: Instruction) -> bool:
        """Whether both arms of a branch do the same but for arithmetic, of which the jump's own arm has none on
        products' registers, and whose results neither they nor what is behind them needs: one arm stands for both."""
        code, other = self.program.code, each.target
        if each.base != "bra" or not each.guard or other <= each.pc or code[other - 1].base != "bra":
            return False
        leaves = code[other - 1]
        if leaves.guard or leaves.target <= other:
            return False
        end = leaves.target
        arms = code[each.pc + 1 : other - 1], code[other:end]
        if any(i.base == "bra" or (self.plain[i.pc] and i.writes and i.guard) for arm in arms for i in arm):
            return False
        if any(each.pc < i.target < end and i.pc != each.pc for i in code):
            return False
        first, second = ([i for i in arm if not self.plain[i.pc]] for arm in arms)
        computed = {name for arm in arms for i in arm if self.plain[i.pc] for name in i.writes}
        quiet = not any(self.plain[i.pc] and self.touches[i.pc] for i in arms[1])
        same = [i.text for i in first] == [i.text for i in second] and all(computed.isdisjoint(i.reads) for i in first)
        return same and quiet and self.program.live[end].isdisjoint(computed)

    def _perhaps(self, warp: Warp, each: Instruction, lanes: int) -> None:
        """It is not known which of these lanes execute an instruction of arithmetic."""
        self._touch(warp, each)
        self._lose(warp, each, lanes)

    @staticmethod
    def _lose(warp: Warp, each: Instruction, lanes: int) -> None:
        """Nothing is known of what these lanes have in the registers that an instruction writes. Others keep theirs:
        where a guard is known, what it skips must not be taken for done."""
        for name in each.writes:
            if lanes == ALL:
                warp.registers[name] = TOP
            else:
                old = map(of_a_lane, lanes_of(warp.registers.get(name, TOP)))
                warp.registers[name] = join(tuple(TOP if lanes >> n & 1 else v for n, v in enumerate(old)))

    @staticmethod
    def _is_asked(warp: Warp, each: Instruction) -> bool:
        """Whether a guard is one truth of the launch."""
        value = warp.registers.get(each.guard)
        return isinstance(value, Predicate) and not variables_in(value)

    def _open(self, each: Instruction, rounds: bool = False) -> int:
        """Where the ways of a forward branch join again, if what lies between computes and accesses only; else 0.
        `rounds`: loops that do no more may be among it; without, only those that are quiet."""
        code, end = self.program.code, each.target
        if each.base != "bra" or not each.guard or end <= each.pc:
            return 0
        now = each.pc + 1
        while now < end:
            inner = code[now]
            if inner.base == "bra":
                if inner.target <= inner.pc and (inner.target <= each.pc or not self._is_passed(inner, rounds)):
                    return 0
                end = max(end, inner.target)
            elif not is_plain(inner) and not is_access(inner) and not is_of_global(inner):
                return 0
            now += 1
        inside = any(each.pc < i.target < end and not each.pc <= i.pc < end for i in code if i.base == "bra")
        return 0 if end >= len(code) or inside else end

    def _is_passed(self, back: Instruction, rounds: bool) -> bool:
        """Whether any number of rounds may be taken for done of the loop of a backward branch."""
        if back.pc in self.program.spins or not rounds:
            return back.pc in self.program.spins
        if any(i.target == back.target <= i.pc != back.pc for i in self.program.code):
            return False  # another way around
        for each in self.program.code:
            inside, into = back.target <= each.pc <= back.pc, back.target <= each.target <= back.pc + 1
            if each.base == "bra" and inside and not into:
                return False
            if (
                inside
                and each.base != "bra"
                and not (
                    self.plain[each.pc]
                    or SHARED.fullmatch(each.op)
                    or ATOMIC_OF_SHARED.fullmatch(each.op)
                    or is_of_global(each)
                )
            ):
                return False
        return True

    def perhaps(self, state: State, warp: Warp, pc: int, end: int) -> None:
        """Executes what lies behind a branch up to where all ways join, each access as if it were executed; at a label
        nothing is known of what lies between it and a branch to it. The rounds of a loop are twice any round: so each
        access meets those of other rounds."""
        code, backs, kept = self.program.code, self.backs, self.program.next_kept
        again: dict[
            int, dict[str, Value]
        ] = {}  # counters of loops that are executed for the second time, by their ends
        first: dict[int, dict[str, Value]] = {}
        self.passing = True
        taken = warp.pc == pc and code[pc].target > pc  # else a loop's rounds are passed, from its end
        self.path = [self._passed(warp, code[pc])] if taken else []
        now, whole = pc + 1, warp.mask
        coming: dict[int, int] = {}  # lanes that may come from branches, by where to; the mask has those that are here
        heads: dict[int, int] = {}  # lanes that may begin a loop's rounds
        if taken:
            coming[code[pc].target], warp.mask = self.sides(state, warp, code[pc])
        while (now := kept[now]) < end:
            for place in [place for place in coming if place <= now]:
                warp.mask |= coming.pop(place)
            if now in self.labels:
                self._forget(warp, pc, now)
            each = code[now]
            back = backs.get(now, end)
            if back < end and back not in self.program.spins:
                warp.mask = heads[now] = warp.mask | heads.get(now, 0)
                counters = first[back] = again.get(back) or self._counters(warp, now, back)
                self._any_round(warp, min(self.entered(now, back), now), back)
                warp.registers.update(counters)
            if each.base == "bra":
                if now in self.program.spins:
                    self._spun(warp, each)
                elif each.target <= now:
                    if again.pop(now, None) is None:
                        again[now] = first.pop(now)
                        self.path = [known for known in self.path if known[0] < each.target]
                        now = each.target
                        continue
                    self._any_round(warp, each.target, now)
                    warp.mask = self.sides(state, warp, each)[1]
                else:
                    self.path.append(self._passed(warp, each))
                    go, warp.mask = self.sides(state, warp, each)
                    coming[each.target] = coming.get(each.target, 0) | go
                now += 1
                continue
            if (block := self.blocks[now]) and warp.mask == ALL:
                try:
                    self.pass_block(state, warp, block)
                    now = block.end
                    continue
                except Fork:
                    pass  # then one instruction after the other
            if (burst := self.bursts[now]) and warp.mask == ALL and self.burst(state, warp, burst):
                self.guessed, now = True, burst.end
                continue
            now += 1
            lanes, known = self.possible(state, warp, each)
            if not self.plain[each.pc]:
                self.guessed = True
                if lanes:
                    self.execute(state, warp, each, lanes, sure=False)
                continue
            try:
                if known and lanes:
                    self.execute(state, warp, each, lanes)
                elif not known:
                    self._perhaps(warp, each, lanes)
            except Fork:
                self._perhaps(warp, each, lanes)
        warp.mask = whole
        self._forget(warp, pc, end)
        self.path, self.passing = [], False
        warp.pc = end

    @staticmethod
    def _passed(warp: Warp, each: Instruction) -> tuple[int, int, Value]:
        """A branch that is not taken: where it is, where to, and a truth that then holds."""
        return each.pc, each.target, warp.registers.get(each.guard, TOP) if each.negated else TOP

    def implied(self, warp: Warp, each: Instruction, lane: int) -> tuple[tuple[int, ...], ...]:
        """What is true where a lane executes an instruction: by its guard, and by branches that are not taken, behind
        which no other way comes in."""
        guard = warp.registers.get(each.guard, TOP) if each.guard and not each.negated else TOP
        known = truths(lanes_of(guard)[lane])
        for begin, end, value in self.path:
            if begin < each.pc < end and not any(begin < label <= each.pc for label in self.labels):
                known += truths(lanes_of(value)[lane])
        return known

    @staticmethod
    def needs(warp: Warp, each: Instruction, lane: int) -> tuple[tuple[int, ...], ...] | None:
        """What must be true for a lane to execute an instruction that it comes to; None: not known."""
        value = lanes_of(warp.registers.get(each.guard, TOP))[lane] if each.guard else 1
        if isinstance(value, Perhaps) and not each.negated:
            return value.needs or None
        return () if isinstance(value, int) and value != each.negated else None

    def renew(self, warp: Warp, pc: int) -> None:
        """An instruction is executed again: what names its last result is unknown."""
        if pc not in self.computed:
            self.computed[pc] = computed_from(self.program, {*self.program.code[pc].writes})
        renew(warp, self.computed[pc], pc)
        self.path = [each if each[2] is TOP else (*each[:2], without(each[2], pc)) for each in self.path]

    def entered(self, head: int, back: int) -> int:
        """The first branch to what lies behind the head of a loop, from outside of it."""
        if (head, back) not in self.entries:
            jumps = (i.pc for i in self.program.code if head < i.target <= back and not head <= i.pc <= back)
            self.entries[head, back] = min(jumps, default=len(self.program.code))
        return self.entries[head, back]

    def _any_round(self, warp: Warp, head: int, back: int) -> None:
        """Nothing is known of what a loop writes, before some round of it and behind it."""
        for each in self.program.code[head : back + 1]:
            self._touch(warp, each)
            self._lose(warp, each, warp.mask)

    def _counters(self, warp: Warp, head: int, back: int) -> dict[str, Value]:
        """What a counter from numbers is, that the loop tests, where a round begins."""
        found: dict[str, Value] = {}
        for loop in self.program.loops:
            alone = loop.head == head and loop.back == back and self.entered(head, back) > back
            if alone and self._counts_up(loop, not_negative(self.value(warp, loop.bound))):
                most, start = highest(self.value(warp, loop.bound)), self.value(warp, loop.counter)
                if isinstance(start, Counter) and not start.terms and start.value < self.floor(start.base):
                    start = start.value
                if most is not None:
                    found[loop.counter] = by_lane(lambda v, by=loop.step, most=most: counted(v, by, most), start)
        return found

    def _counts_up(self, loop: Loop, not_below_0: bool) -> bool:
        if (loop, not_below_0) not in self.counting:
            self.counting[loop, not_below_0] = counts_up(self.program.code, loop, not_below_0)
        return self.counting[loop, not_below_0]

    def _forget(self, warp: Warp, begin: int, label: int) -> None:
        code = self.program.code
        first = min((i.pc for i in code[begin:label] if i.base == "bra" and i.target == label), default=label)
        for each in code[first:label]:
            self._lose(warp, each, warp.mask)

    def branch(self, state: State, warp: Warp, each: Instruction) -> None:
        if each.pc in self.program.spins:
            self._spun(warp, each)
            warp.pc += 1
            return
        if each.guard and self.open[each.pc]:
            taken, known = self.possible(state, warp, each)
            arms = self.arms[each.pc]
            asked = self._is_asked(warp, each) or (
                self.decides[each.pc] and isinstance(warp.registers.get(each.guard), Predicate)
            )
            if not known and asked and not self.computes[each.pc]:
                taken, known = self.lanes(state, warp, each), True
            parts = known and arms and taken not in (0, warp.mask)
            if not known or (parts and self.joins[each.pc] < 0):
                whole = warp.mask
                if each.target == self.open[each.pc]:  # those that are known to be there execute nothing of it
                    warp.mask = self.sides(state, warp, each)[1]
                self.perhaps(state, warp, each.pc, self.open[each.pc])
                warp.mask = whole
                return
        if each.guard and (self.loose[each.pc] or each.pc in self.rounds) and not self.possible(state, warp, each)[1]:
            value = warp.registers.get(each.guard, TOP)
            if isinstance(value, tuple) or not uniform(value):
                if each.pc in self.rounds:
                    self.perhaps(state, warp, each.target - 1, each.pc + 1)
                else:
                    self.perhaps(state, warp, each.pc, self.loose[each.pc])
                return
        if each.pc in self.program.stepped:
            values = lanes_of(warp.registers.get(each.guard, TOP))
            if not all(isinstance(values[lane], int) for lane in bits(warp.mask)):
                raise Refused(each.line, self.program.stepped[each.pc])
        if self.alike[each.pc] and warp.registers.get(each.guard) is UNIFORM:
            warp.pc += 1
            return
        taken = self.lanes(state, warp, each)
        if taken == warp.mask:
            warp.pc = each.target
        elif not taken:
            warp.pc += 1
        else:
            diverge(self.joins[each.pc], warp, each, taken)

    def _spun(self, warp: Warp, each: Instruction) -> None:
        """Some number of rounds of a quiet loop: nothing is known of what they compute."""
        for inner in self.program.code[each.target : each.pc]:
            self._touch(warp, inner)
            self._lose(warp, inner, warp.mask)

    def _touch(self, warp: Warp, each: Instruction) -> None:
        """Registers that an instruction accesses, against products that are under way."""
        touched = self.touches[each.pc]
        if touched:
            for product in (p for group in (*warp.groups, warp.open) for p in group):
                if touched & (product.accumulators | product.fragments):
                    raise Fault(each.line, "accesses registers of a product that need not be complete")
            warp.dirty |= touched


__all__ = ["Branches", "is_access", "is_of_global"]
