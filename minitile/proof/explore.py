"""The prover: runs a text on abstract state until the state repeats, along both answers of every oracle.

Between two questions one schedule is run; that it stands for all is what the rules check (docs/proof.md). A state at a
question is brought to a normal form: dead registers dropped, counters shifted, events renamed. Where a value hangs on
the residue of a bound, each residue is a case of its own.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import lcm, prod
from typing import Any, TypeAlias

from minitile.proof.arithmetic.values import (
    TOP,
    UNIFORM,
    Affine,
    Counter,
    Value,
    affine,
    counters_in,
    join,
    lanes_of,
    moved,
    residue_asked,
    text_of,
)
from minitile.proof.barriers import Lap
from minitile.proof.constants import counted_anew
from minitile.proof.questions import LAUNCH, is_symbol
from minitile.proof.semantics import Fork, Machine, Question, Residue
from minitile.proof.state import ALL, State, Warp, bits, without_empty
from minitile.proof.text import ARITHMETIC, Fault, Launch, Program, Refused, parse

MOST_STATES = 5000
MOST_STEPS = 400_000  # between two questions
MOST_SECONDS = 60.0
MOST_CASES = 64
MANY_STATES = 300  # from so many states on, residues that bounds hang on are looked at apart
NO_COUNTER = Affine((("no counter", 1),), 0)  # stands for a start that lanes differ in
Held: TypeAlias = "list[dict[str, tuple[Counter, ...]]]"  # for each warp, the counters that registers are made of
Trail: TypeAlias = "tuple[Trail, bool] | None"  # the answers that led to a state, the last one outside


@dataclass(frozen=True)
class Proof:
    """What exploring took: states at questions, instructions executed, seconds; cases by residues. `together`: lines of
    waits that all lanes of a warp must leave together for the proof to hold (docs/proof.md)."""

    name: str
    states: int
    steps: int
    seconds: float
    cases: int = 1
    together: tuple[int, ...] = ()


@dataclass(frozen=True)
class Closed:
    """What a proof consists of: moduli of symbols, waits that warps leave together (as pcs), for each case of residues
    the states at questions in normal form."""

    moduli: tuple[tuple[Any, int], ...]
    together: frozenset[int]
    cases: tuple[tuple[State, ...], ...]


def prove(text: str, launch: Launch, *, most_states: int = MOST_STATES, seconds: float = MOST_SECONDS) -> Proof:
    """As `closed`; tells what it took."""
    return closed(text, launch, most_states=most_states, seconds=seconds)[0]


def closed(
    text: str, launch: Launch, *, most_states: int = MOST_STATES, seconds: float = MOST_SECONDS
) -> tuple[Proof, Closed]:
    """Proves the only entry of a PTX text for a launch (docs/proof.md says what), or raises Refused: at the latest
    after so many seconds of this thread, or states."""
    program = parse(text, launch)
    begin = time.thread_time()
    together: set[int] = set()
    moduli: dict[Any, int] = {}
    doubtful: Fault | None = None
    states = steps = 0
    while True:
        keys = sorted(moduli, key=repr)
        cases = [
            dict(zip(keys, each, strict=True))
            for each in product(*(range(moduli[key] if is_symbol(key) else 1) for key in keys))
        ]
        if len(cases) > MOST_CASES:
            raise Refused(0, f"more than {MOST_CASES} cases of residues")
        found, listed = 0, []
        try:
            for case in cases:
                residues = {key: (moduli[key], residue) for key, residue in case.items()}
                left = begin + seconds - time.thread_time()
                explorer = Explorer(program, launch, frozenset(together), residues, most_states, left, found)
                try:
                    listed.append(tuple(explorer.explore()))
                    found += len(listed[-1])
                except Fault as fault:
                    fault.residues, fault.together = residues, frozenset(together)
                    raise
                finally:
                    steps += explorer.steps
        except Lap as lap:
            if lap.pc in together:
                raise
            together.add(lap.pc)
            continue
        except Fault as fault:  # where answers were taken for independent that are not, it may be none
            if fault.hangs_on is None or not _added(moduli, launch, *fault.hangs_on, most=MOST_CASES):
                raise
            doubtful = fault
            continue
        except Refused as why:
            if not isinstance(why, Residue) or not _added(moduli, launch, why.key, why.modulus):
                raise doubtful or why from None
            continue
        states = found
        break
    lines = tuple(sorted(program.code[pc].line for pc in together))
    proof = Proof(program.name, states, steps, time.thread_time() - begin, len(cases), lines)
    return proof, Closed(tuple((key, moduli[key]) for key in keys), frozenset(together), tuple(listed))


def _added(moduli: dict[Any, int], launch: Launch, root: Any, modulus: int, most: int | None = None) -> bool:
    """Adds a residue to those that make the cases; False: it is there, or there would be more cases than `most`."""
    if root and root[0] == "quotient":  # by what makes the cases, or of a parameter by what the launch says
        root = root[1]
        modulus *= moduli.get(root) or launch.divides[root[1]]
    new = lcm(moduli.get(root, 1), modulus)
    cases = prod(n for key, n in {**moduli, root: new}.items() if is_symbol(key))
    if new == moduli.get(root, 1) or (most is not None and cases > most):
        return False
    moduli[root] = new
    return True


def cyclic(edges: Mapping[int, list[int]]) -> bool:
    """Whether a graph has a cycle: places to those that follow."""
    colour: dict[int, int] = {}
    for start in edges:
        stack = [(start, iter(edges[start]))] if start not in colour else []
        colour.setdefault(start, 1)
        while stack:
            node, rest = stack[-1]
            following = next(rest, None)
            if following is None:
                colour[node] = 2
                stack.pop()
            elif colour.get(following) == 1:
                return True
            elif following not in colour:
                colour[following] = 1
                stack.append((following, iter(edges.get(following, ()))))
    return False


class Explorer:
    """Explores one case, to a set of states at questions in normal form; `found`: states of other cases."""

    def __init__(
        self,
        program: Program,
        launch: Launch,
        together: frozenset[int],
        residues: Mapping[Any, tuple[int, int]],
        most_states: int,
        seconds: float,
        found: int = 0,
    ) -> None:
        self.program = program
        self.machine = Machine(program, launch, residues, together)
        self.most_states, self.found, self.steps = most_states, found, 0
        self.seconds, self.until = seconds, time.thread_time() + seconds
        self._foreseen: dict[tuple[int, str], Value] = {}
        self._lowered: dict[tuple[Any, int], dict[Any, Any]] = {}
        self.starts = self._starts()
        self.again = self._again()
        self.deepest = max((len(each) for each in self.machine.around), default=0)
        # Where counters are set before their loops, and where each register is written.
        self.sets = {
            loop.counter: sum(
                1 << each.pc
                for each in program.code
                if loop.counter in each.writes and not loop.head <= each.pc <= loop.back
            )
            for loop in program.loops
        }
        self.writers: dict[str, int] = {}
        for each in program.code:
            for name in each.writes:
                self.writers[name] = self.writers.get(name, 0) | 1 << each.pc

    def _starts(self) -> dict[str, list[tuple[int, str]]]:
        """Where each counter is set, and to what; "": to what is not known."""
        out: dict[str, list[tuple[int, str]]] = {each.counter: [] for each in self.program.loops}
        for each in self.program.code:
            for name in each.writes:
                if name in out and not (each.base == "add" and each.args[1] == name):
                    out[name].append((each.pc, each.args[1] if each.base == "mov" and not each.guard else ""))
        return out

    def _again(self) -> frozenset[int]:
        """Where counters are set that a warp may come to again with the same counters of the loops around, or where
        one of these need not only grow."""
        found = set()
        for loop in self.program.loops:
            for at, _ in self.starts[loop.counter]:
                around = self._around(loop, at)
                if counted_anew(self.program.code, around, at) != around[::-1]:
                    found.add(at)
        return frozenset(found)

    def _around(self, loop: Any, at: int) -> tuple[Any, ...]:
        """The loops whose counters make the instance of a loop's counter that is set at a place, the outermost last."""
        return tuple(each for each in self.machine.around[at] if each is not loop)

    def explore(self) -> list[State]:
        """The states at questions, in normal form."""
        todo: list[tuple[State, Trail, int]] = [(self.start(), None, -1)]
        seen: dict[Hashable, int] = {}
        listed: list[State] = []
        idle: dict[int, list[int]] = {}
        while todo:
            state, trail, before = todo.pop()
            if time.thread_time() > self.until:
                raise Refused(0, "more time than is allowed")
            try:
                question = self.run(state)
                if question is None:
                    self.check_end(state)
                    continue
            except Fault as fault:
                fault.answers, fault.hangs_on = _answers(trail), self._residue(state)
                raise
            key = self.normalise(state)
            place = seen.setdefault(key, len(seen))
            if before >= 0:
                idle.setdefault(before, []).append(place)
            if place < len(listed):
                continue
            listed.append(state.copy())
            if len(seen) == MANY_STATES and (found := self._residue(state)):
                raise Residue(0, "a bound that hangs on a residue", *found)
            if self.found + len(seen) > self.most_states:
                raise Refused(0, f"more than {self.most_states} states")
            question = self.run(state)  # asked again: counters may have been shifted
            if question is None:
                raise Refused(0, "a question that is not asked again")
            todo += [
                (self.answered(state, question, yes), (trail, yes), place if self.idles(state, question, yes) else -1)
                for yes in (False, True)
            ]
        if cyclic(idle):
            raise Refused(0, "a cycle in which no loop is known to come nearer to its end")
        return listed

    def idles(self, state: State, question: Question, yes: bool) -> bool:
        """Whether a step need not come nearer to the end of a loop; that some loops end is assumed (`whiles`)."""
        within = any(
            not warp.done and any(self.program.code[pc].target <= warp.pc <= pc for pc in self.program.whiles)
            for warp in state.warps
        )
        return not within and not (yes and question.kind == "bound")

    @staticmethod
    def _residue(state: State) -> tuple[Hashable, int] | None:
        """A symbol and a modulus, of which a bound that was asked for hangs on the residue: it may be the same number
        as another one."""
        asked = (residue_asked(Affine(difference, 0)) for _, difference in state.oracle)
        return next(filter(None, asked), None)

    def start(self) -> State:
        return State([Warp(n) for n in range(self.program.threads // 32)])

    def run(self, state: State, taken: list[tuple[int, int]] | None = None) -> Question | None:
        """Runs all warps until each is blocked, done, or asks; gives the first question. `taken` gets the warp and the
        pc of each step."""
        steps, moved, state.truths = 0, True, {}
        while moved:
            moved, question = False, None
            for warp in state.warps:
                try:
                    while not warp.done:
                        warp.pc = self.program.next_kept[warp.pc]
                        if taken is not None:
                            taken.append((warp.number, warp.pc))
                        if not self.machine.step(state, warp):
                            if taken is not None:
                                taken.pop()
                            break
                        moved, steps = True, steps + 1
                        if steps > MOST_STEPS:
                            raise Refused(self.program.code[warp.pc].line, "runs on without a question")
                        if steps % 1024 == 0 and time.thread_time() > self.until:
                            raise Refused(0, "more time than is allowed")
                except Fork as fork:
                    if taken is not None:
                        taken.pop()
                    if question is None or fork.question.order < question.order:
                        question = fork.question
        self.steps += steps
        return question

    def check_end(self, state: State) -> None:
        stuck = [warp for warp in state.warps if not warp.done]
        if stuck:
            code, pc = self.program.code, stuck[0].pc
            while stuck[0].at >= 0 and code[pc].base not in ("bar", "barrier"):
                pc -= 1  # it has gone on to what is executed next
            each = code[pc]
            raise Fault(each.line, f"stuck: warp {stuck[0].number} waits for ever: {each.text}")
        for access in state.accesses:
            if access.id & ~state.ended:
                raise Fault(access.line, "may be under way when the block ends")
        if any(state.products.values()):
            raise Fault(0, "a product, or setmaxnreg, by less than four warps")

    def answered(self, state: State, question: Question, yes: bool) -> State:
        new = state.copy()
        if question.kind == "bound":
            low, high = new.oracle.get(question.key, (self.machine.lowest(question.key), None))
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
            # Lanes that wait elsewhere need theirs: what is forgotten of a guard would be taken for done.
            places = () if warp.done else (warp.pc, *(pc for pc, _ in warp.stack))
            live = frozenset().union(*(self.program.live[pc] for pc in places))
            warp.registers = {r: v for r, v in warp.registers.items() if r in live}
        held = [
            {
                name: found
                for name, value in warp.registers.items()
                if value is not TOP and type(value) is not int and (found := counters_in(value))
            }
            for warp in state.warps
        ]
        self._drop_instances(state, held)
        for depth in range(1 + self.deepest):
            for base in self._bases(state):
                if len(base[1]) == depth:
                    self._shift(state, base, held)
        self._forget_common(state)
        return self.key(state)

    def key(self, state: State) -> Hashable:
        """Names the events anew; gives all that a state is."""
        self._rename(state)
        return self._key(state)

    @staticmethod
    def _forget_common(state: State) -> None:
        """Drops what every warp that runs knows: accesses and completions behind which all that they may yet do comes,
        and what they may yet be told. What a phase must have been told of (rules L and E) stays."""
        common = -1
        for warp in state.warps:
            common &= -1 if warp.done else warp.known
        if common <= 0:
            return
        under_way = {event for queue in state.products.values() for _, event, _, _ in queue}
        state.accesses = [each for each in state.accesses if (each.id | each.fence) & ~common or each.id in under_way]
        for at, barrier in state.mbarriers.items():
            asked = barrier.bare
            for event, _, _ in barrier.waits:
                asked |= event
            state.mbarriers[at] = replace(
                barrier,
                last=barrier.last & ~common,
                before=barrier.before & ~common,
                fence=barrier.fence & ~common,
                released=barrier.released & ~(common & ~asked),
                done=barrier.done & ~common,
            )
        for number, named in state.named.items():
            state.named[number] = replace(named, last=named.last & ~common, released=named.released & ~common)
        state.ended &= ~common

    def _bases(self, state: State) -> list[Any]:
        found = {v.base for warp in state.warps for v in warp.registers.values() if isinstance(v, Counter)}
        return sorted(found, key=lambda base: (len(base[1]), text_of(base))) if len(found) > 1 else [*found]

    def _may_start(self, warp: Warp, base: Any) -> bool:
        """Whether a warp may yet come to where a counter of this base is set, or lanes of it that wait elsewhere."""
        waiting = (replace(warp, pc=pc, stack=()) for pc, _ in warp.stack)
        if warp.stack and any(self._may_start(each, base) for each in waiting):
            return True
        if warp.done:
            return False
        ahead = self.program.ahead[warp.pc]
        for loop in self.program.loops:
            if self.machine.generation[loop.head] != base[2]:
                continue
            for at, arg in self.starts[loop.counter]:
                around = self._around(loop, at)
                if not ahead >> at & 1 or len(around) != len(base[1]):
                    continue
                if self._start_terms(warp, arg) not in (None, base[0]):
                    continue
                if at in self.again or self._may_reach(warp, at, around, base[1]):
                    return True
        return False

    def _may_reach(self, warp: Warp, at: int, around: tuple[Any, ...], instance: tuple[Any, ...]) -> bool:
        """Whether a warp may yet come to where a counter is set in an instance: with such values of the counters around
        it. They only grow, the inner ones within one round of the outer ones; a warp that is behind the place must go
        around an outer loop first."""
        for outer, then in zip(reversed(around), reversed(instance), strict=True):
            now = warp.registers.get(outer.counter)
            if warp.pc < outer.head and self.sets[outer.counter] & self.program.ahead[warp.pc]:
                return any(self._may_start_before(warp, outer, arg, then) for _, arg in self.starts[outer.counter])
            if warp.pc > outer.back:
                return True
            if isinstance(now, Counter) and isinstance(then, Counter) and now.base == then.base:
                now, then = now.value, then.value
            if not isinstance(now, int) or not isinstance(then, int):
                return True
            if now != then:
                return now < then and (then - now) % outer.step == 0
        return bool(warp.pc <= at)

    def _may_start_before(self, warp: Warp, outer: Any, arg: str, then: Any) -> bool:
        """Whether an outermost loop that is set to `arg` may come to a value."""
        start = self._start(warp, arg)
        if start is None or not isinstance(then, Counter) or then.base[1]:
            return True
        if (start.terms, self.machine.generation[outer.head]) != (then.base[0], then.base[2]):
            return True
        return start.const <= then.value and (then.value - start.const) % outer.step == 0

    def _start_terms(self, warp: Warp, arg: str) -> Any:
        start = self._start(warp, arg)
        return None if start is None else start.terms

    def _start(self, warp: Warp, arg: str) -> Affine | None:
        """What a counter will be set to by `arg`; None: that is not known now."""
        if not arg:
            return None
        if self.writers.get(arg, 0) & self.program.ahead[warp.pc]:
            value = self.foreseen(warp.number, arg)
        else:
            value = self.machine.value(warp, arg)
        if isinstance(value, tuple) and TOP not in value and UNIFORM not in value:
            return NO_COUNTER
        return affine(value, 32) if isinstance(value, (int, Affine)) else None

    def foreseen(self, number: int, arg: str) -> Value:
        """What a warp will have in a register that one instruction writes, by arithmetic on such registers; TOP: not
        known."""
        if not arg.startswith("%") or arg not in self.writers:
            return self.machine.value(Warp(number), arg)
        if (number, arg) not in self._foreseen:
            self._foreseen[number, arg] = TOP  # of what is computed from itself
            self._foreseen[number, arg] = self._computed(number, arg)
        return self._foreseen[number, arg]

    def _computed(self, number: int, arg: str) -> Value:
        at = self.writers[arg]
        each = self.program.code[at.bit_length() - 1]
        if at & (at - 1) or each.guard or each.base not in ARITHMETIC or each.op.startswith(("elect", "vote", "ld.g")):
            return TOP
        if any(head <= each.pc < region.end for head, region in self.program.regions.items()):
            return TOP  # what a region leaves is a symbol
        warp = Warp(number, each.pc, {name: self.foreseen(number, name) for name in each.reads})
        try:
            self.machine.arithmetic(State([]), warp, each, ALL)
        except (Fork, Refused):
            return TOP
        return warp.registers.get(arg, TOP)

    def _drop_instances(self, state: State, held: Held) -> None:
        """Forgets what oracles have answered for instances of loops that no warp can come to any more, and of loops
        that no warp is in or may yet start."""
        counted = {v.base for each in held for found in each.values() for v in found}
        over: dict[Any, bool] = {}
        for key in list(state.oracle):
            base = key[0]
            if base[2] != LAUNCH and base not in counted:
                if base not in over:
                    over[base] = not any(self._may_start(warp, base) for warp in state.warps)
                if over[base]:
                    del state.oracle[key]
        told = {each for value in state.contents.values() for each in counters_in(value)}
        gone: dict[Any, bool] = dict.fromkeys(told, False)  # what lies in shared memory may yet be loaded
        for answers in (state.oracle, state.facts):
            for key in [key for key in answers if counters_in(key)]:
                for each in counters_in(key):
                    if each not in gone:
                        warps = zip(state.warps, held, strict=True)
                        gone[each] = not any(self._may_come(warp, each, of_warp) for warp, of_warp in warps)
                if any(gone[each] for each in counters_in(key)):
                    del answers[key]

    def _may_come(self, warp: Warp, counter: Counter, held: Mapping[str, tuple[Counter, ...]]) -> bool:
        """Whether a warp has, or may yet have, this value of a counter."""
        for name, found in held.items():
            value = warp.registers[name]
            if isinstance(value, Counter) and value.base == counter.base and value.value <= counter.value:
                return True
            if counter in found:
                return True
        return self._may_start(warp, counter.base)

    def _shift(self, state: State, base: Any, held: Held) -> None:
        """Lowers all counters of a base by one number, if all stay high enough and no warp can join anew."""
        values = [v.value for each in held for found in each.values() for v in found if v.base == base]
        modulus = self.machine.modulus_of(base)
        lowest = self.machine.floor(base) + self.machine.room
        by = (min(values) - lowest) // modulus * modulus
        if by <= 0 or any(self._may_start(warp, base) for warp in state.warps):
            return
        self._lower(state, base, by, held)

    def _lower(self, state: State, base: Any, by: int, held: Held) -> None:
        """Lowers all counters of a base, and the answers on them."""

        def lower(counter: Counter) -> Counter:
            return replace(counter, value=counter.value - by) if counter.base == base else counter

        known = self._lowered.setdefault((base, by), {})

        def lowered(value: Value) -> Value:
            if value not in known:
                known[value] = moved(value, lower)
            return known[value]

        for warp, each in zip(state.warps, held, strict=True):
            for name in each:
                warp.registers[name] = lowered(warp.registers[name])
                each[name] = counters_in(warp.registers[name])
        state.facts = {lowered(key): answer for key, answer in state.facts.items()}
        state.contents = {units: lowered(value) for units, value in state.contents.items()}
        old, state.oracle = state.oracle, {}
        for at, difference in list(old):
            low, high = old[(at, difference)]
            if at == base:
                low, high = _lowered(low, high, by, self.machine.divisor(at, difference), self.machine.constants(at))
            start, asked = lowered(Affine(at[0], 0)), lowered(Affine(difference, 0))  # with terms in their order
            state.oracle[(start.terms, *lowered(at)[1:]), asked.terms] = low, high

    def _rename(self, state: State) -> None:
        """Names events in the order in which a walk through the state meets them; forgets those nothing asks for."""
        state.accesses.sort(key=lambda each: (each.by, each.line, each.write, each.foot.number))
        names: dict[int, int] = {}

        def meet(mask: int) -> None:
            if mask & (mask - 1):
                for place in bits(mask):
                    names.setdefault(1 << place, 1 << len(names))
            elif mask and mask not in names:
                names[mask] = 1 << len(names)

        for each in state.accesses:
            meet(each.id)
            meet(each.fence)
        for _, barrier in sorted(state.mbarriers.items()):
            for mask in (barrier.last, barrier.before, barrier.fence, barrier.bare, *(i for i, _ in barrier.expects)):
                meet(mask)
        for _, named in sorted(state.named.items()):
            meet(named.last)
        order = sorted(
            (at, phase, pc, tuple(bool(w.known & event or w.passed & event) for w in state.warps), event)
            for at, barrier in state.mbarriers.items()
            for event, phase, pc in barrier.waits
        )
        for *_, event in order:
            meet(event)
        live, known = sum(names), {0: 0, **names}

        def renamed(mask: int) -> int:
            out = known.get(mask)
            if out is None:
                out, rest = 0, mask & live
                while rest:
                    low = rest & -rest
                    out |= names[low]
                    rest ^= low
                known[mask] = out
            return out

        self._apply(state, renamed)
        state.ids = len(names)

    def _apply(self, state: State, new: Any) -> None:
        for warp in state.warps:
            warp.known, warp.passed = (0, 0) if warp.done else (new(warp.known), new(warp.passed))
            warp.extra = {lane: ids for lane, old in sorted(warp.extra.items()) if (ids := new(old) & ~warp.known)}
            own = ((new(event), lanes) for event, lanes in warp.own)
            warp.own = tuple(sorted((event, lanes) for event, lanes in own if event & ~warp.known))
            warp.open = tuple(replace(each, ids=new(each.ids), waits=new(each.waits)) for each in warp.open)
            warp.groups = tuple(
                tuple(replace(each, ids=new(each.ids), waits=new(each.waits)) for each in group)
                for group in warp.groups
            )
            warp.fresh = tuple((kind, new(event)) for kind, event in warp.fresh if new(event))
            warp.cp_open, *cp_groups = (
                tuple((new(event), lanes) for event, lanes in group if new(event))
                for group in (warp.cp_open, *warp.cp_groups)
            )
            warp.cp_groups = without_empty(tuple(cp_groups))
            bulk = (
                (lane, new(now), without_empty(tuple(map(new, groups)))) for lane, (now, groups) in warp.bulk.items()
            )
            warp.bulk = {lane: (now, groups) for lane, now, groups in sorted(bulk) if now or groups}
        state.accesses = [each.named(new(each.id), new(each.fence)) for each in state.accesses]
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
                bare=new(barrier.bare),
                waits=tuple(sorted((new(event), phase - back, pc) for event, phase, pc in barrier.waits)),
            )
        for number, named in state.named.items():
            state.named[number] = replace(named, last=new(named.last), released=new(named.released))
        state.products = {
            group: tuple((what, new(event), warps, new(waits)) for what, event, warps, waits in queue)
            for group, queue in state.products.items()
            if queue
        }
        state.ended = new(state.ended)

    def _key(self, state: State) -> Hashable:
        warps = tuple(
            (
                *(w.pc, w.mask, w.stack, w.known, tuple(w.extra.items()), w.own, w.passed, w.at, w.done, w.open),
                *(
                    w.groups,
                    w.dirty,
                    tuple(w.bulk.items()),
                    w.cp_open,
                    w.cp_groups,
                    w.fresh,
                    tuple(sorted(w.registers.items())),
                ),
            )
            for w in state.warps
        )
        return (
            *(warps, tuple(sorted(state.mbarriers.items())), tuple(sorted(state.named.items()))),
            *(tuple(state.accesses), frozenset(state.oracle.items()), frozenset(state.facts.items())),
            *(tuple(sorted(state.products.items())), frozenset(state.contents.items()), state.written, state.ended),
        )


def _answers(trail: Trail) -> tuple[bool, ...]:
    out = []
    while trail is not None:
        trail, yes = trail
        out.append(yes)
    return tuple(reversed(out))


def _lowered(low: int, high: int | None, by: int, scale: int, constants: int) -> tuple[int, int | None]:
    """Answers for a bound that is lowered by `by`, a multiple of what they are divided by. Up to `last` lie questions
    of constants only: their answers stay."""
    last, by = (constants - 1) // scale, by // scale
    below = low - by if low - by >= last else min(low, last)
    above = None if high is None else high - by if high - by > last else min(high, last + 1)
    return below, above


__all__ = ["Closed", "Explorer", "Proof", "closed", "cyclic", "prove"]
