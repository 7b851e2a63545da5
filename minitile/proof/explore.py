"""The prover: runs a text on abstract state until the state repeats, along both answers of every oracle.

Between two questions one schedule is run; that it stands for all is what the rules check (docs/proof.md). A state at a
question is brought to a normal form: dead registers dropped, counters shifted, events renamed.
"""

from __future__ import annotations

import time
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

from minitile.proof.semantics import Fork, Machine, Question
from minitile.proof.state import State, Warp, bits
from minitile.proof.text import Launch, Refused, parse
from minitile.proof.values import SMALL, TOP, Affine, Counter, Value, affine, join, lanes_of

MOST_STATES = 5000
MOST_STEPS = 400_000  # between two questions


@dataclass(frozen=True)
class Proof:
    """What exploring took: states at questions, instructions executed, seconds."""

    name: str
    states: int
    steps: int
    seconds: float


def prove(text: str, launch: Launch, *, most_states: int = MOST_STATES) -> Proof:
    """Proves the only entry of a PTX text for a launch (docs/proof.md says what), or raises Refused."""
    return Explorer(text, launch, most_states).prove()


class Explorer:
    def __init__(self, text: str, launch: Launch, most_states: int) -> None:
        self.program = parse(text, launch)
        self.machine = Machine(self.program, launch)
        self.most_states, self.steps = most_states, 0
        self.starts = self._starts()

    def _starts(self) -> dict[str, list[str]]:
        """What each counter is set to before its loop."""
        out: dict[str, list[str]] = {each.counter: [] for each in self.program.loops}
        for each in self.program.code:
            for name in each.writes:
                if name in out and not (each.base == "add" and each.args[1] == name):
                    out[name].append(each.args[1] if each.base == "mov" and not each.guard else "")
        return out

    def prove(self) -> Proof:
        begin = time.process_time()
        todo = [State([Warp(n) for n in range(self.program.threads // 32)])]
        seen: set[Hashable] = set()
        while todo:
            state = todo.pop()
            question = self.run(state)
            if question is None:
                self.check_end(state)
                continue
            key = self.normalise(state)
            if key in seen:
                continue
            seen.add(key)
            if len(seen) > self.most_states:
                raise Refused(0, f"more than {self.most_states} states")
            question = self.run(state)  # asked again: counters may have been shifted
            if question is None:
                raise Refused(0, "a question that is not asked again")
            todo += [self.answered(state, question, yes) for yes in (True, False)]
        return Proof(self.program.name, len(seen), self.steps, time.process_time() - begin)

    def run(self, state: State) -> Question | None:
        """Runs all warps until each is blocked, done, or asks; gives the first question."""
        steps, moved = 0, True
        while moved:
            moved, question = False, None
            for warp in state.warps:
                try:
                    while not warp.done:
                        warp.pc = self.program.next_kept[warp.pc]
                        if not self.machine.step(state, warp):
                            break
                        moved, steps = True, steps + 1
                        if steps > MOST_STEPS:
                            raise Refused(self.program.code[warp.pc].line, "runs on without a question")
                except Fork as fork:
                    question = question or fork.question
        self.steps += steps
        return question

    def check_end(self, state: State) -> None:
        stuck = [warp for warp in state.warps if not warp.done]
        if stuck:
            each = self.program.code[stuck[0].pc]
            raise Refused(each.line, f"stuck: warp {stuck[0].number} waits for ever: {each.text}")
        for access in state.accesses:
            if access.asynchronous and access.id & ~state.ended:
                raise Refused(access.line, "may be under way when the block ends")
        if any(queue for queues in state.products.values() for queue in queues):
            raise Refused(0, "a product by less than four warps")

    def answered(self, state: State, question: Question, yes: bool) -> State:
        new = state.copy()
        if question.kind == "bound":
            low, high = new.oracle.get(question.key, (-1, None))
            new.oracle[question.key] = (max(low, question.value), high) if yes else (low, question.value)
        elif question.kind == "fact":
            new.facts[question.key] = int(yes)
        else:
            number, name, lane = question.key
            registers = new.warps[number].registers
            lanes = lanes_of(registers.get(name, TOP))
            answers = tuple(int(yes) if lane in (-1, n) else v for n, v in enumerate(lanes))
            registers[name] = join(answers)
        return new

    # -- normal form

    def normalise(self, state: State) -> Hashable:
        for warp in state.warps:
            live = frozenset() if warp.done else self.program.live[warp.pc]
            warp.registers = {r: v for r, v in warp.registers.items() if r in live}
        for base in self._bases(state):
            self._shift(state, base)
        self._rename(state)
        return self._key(state)

    def _bases(self, state: State) -> list[Any]:
        found = {v.base for warp in state.warps for v in warp.registers.values() if isinstance(v, Counter)}
        return sorted(found, key=repr)

    def _loops_ahead(self, warp: Warp) -> list[Any]:
        if warp.done:
            return []
        ahead = self.program.ahead[warp.pc]
        return [loop for loop in self.program.loops if ahead >> loop.head & 1]

    def _may_start(self, warp: Warp, base: Any) -> bool:
        """Whether a warp may yet come to a counter of this base from outside."""
        for loop in self._loops_ahead(warp):
            now = warp.registers.get(loop.counter)
            inside = loop.head <= warp.pc <= loop.back and isinstance(now, Counter)
            if inside and not self._entered_again(loop.head):
                continue
            if any(self._start_base(warp, arg) in (None, base) for arg in self.starts[loop.counter]):
                return True
        return False

    def _entered_again(self, head: int) -> bool:
        """Whether a loop's start may be reached from within: it lies in another loop."""
        return any(loop.head < head <= loop.back for loop in self.program.loops)

    def _start_base(self, warp: Warp, arg: str) -> Any:
        value: Value = self.machine.value(warp, arg) if arg else None
        return affine(value, 32).terms if isinstance(value, (int, Affine)) else None

    def _shift(self, state: State, base: Any) -> None:
        """Lowers all counters of a base by one number, if all stay at SMALL or above and no warp can join anew."""
        values = [
            v.value for w in state.warps for v in w.registers.values() if isinstance(v, Counter) and v.base == base
        ]
        by = min(values) - SMALL
        if by <= 0 or any(self._may_start(warp, base) for warp in state.warps):
            return
        for warp in state.warps:
            for name, value in warp.registers.items():
                if isinstance(value, Counter) and value.base == base:
                    warp.registers[name] = Counter(base, value.value - by)
        for key, (low, high) in list(state.oracle.items()):
            if key[0] == base:  # type: ignore[index]
                # Below SMALL lie questions on constants only: their answers stay.
                below = low - by if low - by >= SMALL - 1 else min(low, SMALL - 1)
                above = None if high is None else high - by if high - by >= SMALL else min(high, SMALL)
                state.oracle[key] = below, above

    def _rename(self, state: State) -> None:
        """Names events in the order in which a walk through the state meets them; forgets those nothing asks for."""
        state.accesses.sort(key=lambda each: (each.by, each.line, each.write, each.units, each.lanes))
        names: dict[int, int] = {}

        def meet(mask: int) -> None:
            for place in bits(mask):
                names.setdefault(1 << place, 1 << len(names))

        for each in state.accesses:
            meet(each.id)
            meet(each.fence)
        for _, barrier in sorted(state.mbarriers.items()):
            for mask in (barrier.last, barrier.before, barrier.fence, *(i for i, _ in barrier.expects)):
                meet(mask)
        for _, named in sorted(state.named.items()):
            meet(named.last)
        order = sorted(
            (at, phase, tuple(bool(w.known & event or w.passed & event) for w in state.warps), event)
            for at, barrier in state.mbarriers.items()
            for event, phase in barrier.waits
        )
        for *_, event in order:
            meet(event)
        live = sum(names)

        def renamed(mask: int) -> int:
            out, mask = 0, mask & live
            while mask:
                low = mask & -mask
                out |= names[low]
                mask ^= low
            return out

        self._apply(state, renamed)
        state.ids = len(names)

    def _apply(self, state: State, new: Any) -> None:
        for warp in state.warps:
            warp.known, warp.passed = (0, 0) if warp.done else (new(warp.known), new(warp.passed))
            warp.extra = {lane: ids for lane, old in sorted(warp.extra.items()) if (ids := new(old) & ~warp.known)}
            own = ((new(event), lanes) for event, lanes in warp.own)
            warp.own = tuple(sorted((event, lanes) for event, lanes in own if event & ~warp.known))
            warp.open = tuple(replace(each, ids=new(each.ids)) for each in warp.open)
            warp.groups = tuple(tuple(replace(each, ids=new(each.ids)) for each in group) for group in warp.groups)
            warp.bulk = {
                lane: (new(now), tuple(new(each) for each in groups))
                for lane, (now, groups) in sorted(warp.bulk.items())
            }
        state.accesses = [replace(each, id=new(each.id), fence=new(each.fence)) for each in state.accesses]
        for at, barrier in state.mbarriers.items():
            back = max(barrier.index // 2 * 2 - 2, 0)
            state.mbarriers[at] = replace(
                barrier,
                last=new(barrier.last),
                before=new(barrier.before),
                fence=new(barrier.fence),
                index=barrier.index - back,
                expects=tuple((new(event), count) for event, count in barrier.expects),
                released=new(barrier.released),
                done=new(barrier.done),
                waits=tuple(sorted((new(event), phase - back) for event, phase in barrier.waits)),
            )
        for number, named in state.named.items():
            state.named[number] = replace(named, last=new(named.last), released=new(named.released))
        state.ended = new(state.ended)

    def _key(self, state: State) -> Hashable:
        warps = tuple(
            (
                *(w.pc, w.mask, w.stack, w.known, tuple(w.extra.items()), w.own, w.passed, w.at, w.done, w.open),
                *(w.groups, w.dirty, tuple(w.bulk.items()), tuple(sorted(w.registers.items()))),
            )
            for w in state.warps
        )
        return (
            *(warps, tuple(sorted(state.mbarriers.items())), tuple(sorted(state.named.items()))),
            *(tuple(state.accesses), frozenset(state.oracle.items()), frozenset(state.facts.items())),
            *(tuple(sorted(state.products.items())), state.written, state.ended),
        )


__all__ = ["Explorer", "Proof", "prove"]
