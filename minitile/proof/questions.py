"""What a launch is asked: bounds of loops, tests of sizes and of counters, which lanes a guard lets go on; and what the
answers so far tell of it.

`Fork` is raised, before any change, where the answer of an oracle is needed; `Residue` where a value would be known if
a symbol's residue were.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import gcd, lcm
from typing import Any

from minitile.proof.arithmetic.lanes import truths_of
from minitile.proof.arithmetic.values import (
    NEAR,
    SMALL,
    TOP,
    UNIFORM,
    Affine,
    Counter,
    Predicate,
    Value,
    compare,
    counters_in,
    lanes_of,
    launch_wide,
    logic,
    negate,
    not_negative,
    plus,
    rounds,
    signed,
    symbol,
    uniform,
    unknown,
    variables_in,
)
from minitile.proof.constants import constants, counted_anew, generations, growing, subtracted
from minitile.proof.launches import implied as consequences
from minitile.proof.state import State, Warp
from minitile.proof.text import Instruction, Launch, Loop, Program, Refused

FAR = -(1 << 40)  # below all that is asked
LAUNCH = -1  # stands in a base for the number of loops before, in questions that no instance of a loop asks alone
ONE = symbol("one")
WORTHWHILE = 32  # smaller divisors of parameters are not made use of


@dataclass(frozen=True)
class Question:
    """kind "bound": whether the bound is above `value`, key (base, bound); "fact": key a Predicate; "warp": key (warp,
    register, lane; -1 for all). `order`: the lowest question is answered first, so that roles stay together."""

    kind: str
    key: Any
    value: int = 0
    order: tuple[int, ...] = ()


class Fork(Exception):
    def __init__(self, question: Question) -> None:
        super().__init__(question)
        self.question = question


def is_symbol(key: Any) -> bool:
    """Whether residues of a key are those of a symbol; else they are of counters, and make no cases."""
    return bool(key) and key[0] != "since"


class Residue(Refused):
    """A value that would be known if the residue of `key`, a symbol, by `modulus` were; None: that of counters."""

    def __init__(self, line: int, reason: str, key: Any, modulus: int) -> None:
        super().__init__(line, reason)
        self.key, self.modulus = key, modulus


class Questions:
    """`residues`: symbol to (modulus, residue): the case that is looked at."""

    def __init__(self, program: Program, launch: Launch, residues: Mapping[Any, tuple[int, int]]) -> None:
        self.program, self.launch = program, launch
        self.asked = False  # whether an answer was made use of
        self.rounds_of: dict[int, tuple[Loop, ...] | None] = {}
        self.in_grid = consequences.least_by_grid(launch.grid)
        given = {("param", name): (n, 0) for name, n in launch.divides.items() if n >= WORTHWHILE}
        self.residues = given | {key: each for key, each in residues.items() if is_symbol(key)}
        self.least = consequences.least_of_sizes(launch.least, self.residues)
        self.since = {key[1] for key in residues if key and not is_symbol(key)}
        self.modulus = lcm(*(modulus for modulus, _ in residues.values()), 2 if given else 1)
        self.small = 1 + max((abs(n) for n in constants(program) if abs(n) < SMALL), default=0)
        self.loops = {each.counter: each for each in program.loops}
        self.room, self.growing = subtracted(program), growing(program)
        outer = [a for a in program.loops if any(a is not b and a.head <= b.head <= a.back for b in program.loops)]
        self.around = [tuple(a for a in outer if a.head <= pc <= a.back) for pc in range(len(program.code))]
        self.generation = generations(program, self.around)

    def constants(self, base: Any) -> int:
        """Questions on a base that no counter asks are for values below this; counters from 0 may be compared with
        constants below `small`."""
        return self.small + NEAR if self.is_number(base) else NEAR

    def is_number(self, base: Any) -> bool:
        """Whether the counters of a base, or what they have counted since their start, are looked at as numbers."""
        return not base[0] or base[0] in self.since

    def near(self, base: Any) -> int:
        """Counters may be compared with a bound plus at most this; one that is m·q + r has an r of its own."""
        return NEAR + self.modulus_of(base) - 1

    def modulus_of(self, base: Any) -> int:
        """What shifts of the counters of a base are multiples of: what is known of their residues."""
        return self.modulus if self.is_number(base) else 1

    def floor(self, base: Any) -> int:
        """A counter that has been shifted is at this or above, and so is what is computed from it."""
        return self.constants(base) + self.near(base) + self.modulus_of(base)

    def stepped(self, result: Value, *operands: Value, room: int = 0) -> Value:
        """A sum. A counter that is at the floor may have been shifted: what is below the floor is not known then. A
        loop's own counter has not before it is above it by `room`."""
        if not isinstance(result, Counter) or result.value >= self.floor(result.base):
            return result
        shifted = any(isinstance(v, Counter) and v.value >= self.floor(v.base) + room for v in operands)
        return UNIFORM if shifted else result

    def truth(self, state: State, value: Value, ask: bool = True) -> Value:
        """A predicate as 0, 1, UNIFORM or TOP; asks for facts."""
        if not isinstance(value, Predicate):
            return value if value in (0, 1) or value is UNIFORM else TOP
        found = state.truths.get(value)
        if found is None:
            found = state.truths[value] = self._truth(state, value, False)
        return found if not ask or found in (0, 1) else self._truth(state, value, True)

    def _truth(self, state: State, value: Predicate, ask: bool) -> Value:
        operation, *rest = value.expression
        if operation == "above":
            try:
                return self.above(state, *rest)
            except Fork:
                if ask:
                    raise
                return UNIFORM
        if operation == "not":
            return negate(self.truth(state, rest[0], ask))
        if operation in ("and", "or"):
            ends = 0 if operation == "and" else 1
            if ask and any(self.truth(state, part, False) == ends for part in rest):
                return ends  # the part that is known, whichever comes first
            first = self.truth(state, rest[0], ask)
            if first == ends:
                return first
            second = self.truth(state, rest[1], ask)
            return second if first in (0, 1) or second == ends else UNIFORM
        if value in state.facts:
            return state.facts[value]
        said = consequences.from_facts(state.facts, value), consequences.from_least(self.least, value)
        for implied in (*said, consequences.from_quotients(state.oracle, LAUNCH, value)):
            if implied is not None:
                return implied
        about = (consequences.equality(value) or (None,))[0] or (consequences.below(value) or (None, None))[1]
        if about and (implied := consequences.from_ends(*self.ends(state, about.terms), value)) is not None:
            return implied
        if ask:
            order = tuple(sorted({v.value for v in counters_in(value)}, reverse=True)[:1])
            raise Fork(Question("fact", value, 0, order))
        return UNIFORM

    def known(self, state: State, value: Value, mask: int) -> tuple[int, int]:
        """Of these lanes, those in which a predicate is known to be false, and to be true; asks nothing."""
        if not isinstance(value, tuple):
            truth = self.truth(state, value, False)
            return mask * (truth == 0), mask * (truth == 1)
        false, true, asked = truths_of(value)
        for each, whose in asked:
            truth = self.truth(state, each, False) if whose & mask else TOP
            false, true = false | whose * (truth == 0), true | whose * (truth == 1)
        return mask & false, mask & true

    def sides(self, state: State, warp: Warp, each: Instruction) -> tuple[int, int]:
        """The lanes that may execute an instruction, and those that may not; asks nothing."""
        if not each.guard:
            return warp.mask, 0
        false, true = self.known(state, warp.registers.get(each.guard, TOP), warp.mask)
        return (warp.mask & ~true, warp.mask & ~false) if each.negated else (warp.mask & ~false, warp.mask & ~true)

    def possible(self, state: State, warp: Warp, each: Instruction) -> tuple[int, bool]:
        """The lanes that may execute an instruction, and whether they are known to; asks nothing."""
        may, need_not = self.sides(state, warp, each)
        return may, not may & need_not

    def lanes(self, state: State, warp: Warp, each: Instruction) -> int:
        """The lanes that execute an instruction; Fork or Refused if that is not known."""
        may, need_not = self.sides(state, warp, each)
        if not may & need_not:
            return may
        value = warp.registers.get(each.guard, TOP)
        if not isinstance(value, tuple) and (truth := self.truth(state, value)) in (0, 1):
            return warp.mask if truth != each.negated else 0
        truths = tuple(self.truth(state, v) if warp.mask >> n & 1 else 0 for n, v in enumerate(lanes_of(value)))
        unknowns = [n for n, v in enumerate(truths) if v not in (0, 1)]
        if value is UNIFORM or len(unknowns) == 1:
            lane = -1 if value is UNIFORM else unknowns[0]
            raise Fork(Question("warp", (warp.number, each.guard, lane)))
        if unknowns:
            raise Refused(each.line, f"{each.guard} is not known, and may differ in the warp")
        yes = sum(1 << n for n, v in enumerate(truths) if v == 1)
        return warp.mask & ~yes if each.negated else warp.mask & yes

    def enclosing(self, pc: int) -> tuple[Loop, ...] | None:
        """Loops around an instruction, if it is come to again only with one of their counters grown; else None."""
        if pc not in self.rounds_of:
            loops = [loop for loop in self.program.loops if loop.head <= pc <= loop.back]
            self.rounds_of[pc] = counted_anew(self.program.code, loops, pc)
        return self.rounds_of[pc]

    def instance(self, warp: Warp, pc: int) -> tuple[Any, ...]:
        """The values of the counters of the loops around an instruction, of those that have loops within."""
        return tuple(warp.registers.get(loop.counter, TOP) for loop in self.around[pc])

    def above(self, state: State, base: Any, value: int, bound: Affine, is_counter: bool = True) -> Value:
        """Whether base + value < bound. `is_counter`: the value may be one that has been shifted."""
        difference = _difference(bound.terms, base[0])
        exact = not is_counter or value < self.floor(base)
        value -= bound.const
        if not difference:
            return int(value < 0)
        scale = self.divisor(base, difference)
        value //= scale
        # No counter that may have been shifted asks for values below `constants`: these are one truth for the launch.
        small = not is_counter or value <= (self.constants(base) - 1) // scale
        begin = () if self.is_number(base) else base[0]
        for key in (((begin, (), LAUNCH), difference), (base, difference)):
            if any(v is TOP or v is UNIFORM for v in key[0][1]):
                return UNIFORM
            low, high = state.oracle.get(key) or (self.lowest(key), None)
            if value <= low and (exact or key[0] == base):
                return 1
            if high is not None and value >= high:
                return 0
            implied = consequences.above_of_quotient(state.facts, difference, value)
            if implied == 0 or (implied is not None and small):
                return implied  # a counter that was shifted stands for more: what is not above it is not above that
            if small:
                break
        least, most = self.ends(state, difference)
        if most is not None and most <= value * scale:
            return 0
        if small and least is not None and least > value * scale:
            return 1
        order = tuple(v.value if isinstance(v, Counter) else v for v in base[1] if v is not TOP and v is not UNIFORM)
        raise Fork(Question("bound", key, value, (*order, value)))

    def ends(self, state: State, difference: Any) -> consequences.Ends:
        """What answers for numbers of the launch say that a difference is at least and at most."""
        if counters_in(Affine(difference, 0)):
            return None, None

        def asked() -> Iterator[tuple[Any, int | None, int | None]]:
            for (base, other), (low, high) in state.oracle.items():
                if base[2] == LAUNCH:
                    unit = self.divisor(base, other)
                    yield other, unit * (low + 1) if low > FAR else None, None if high is None else unit * high

        return consequences.ends(asked(), state.facts, difference)

    def divisor(self, base: Any, difference: Any) -> int:
        """What a difference is known to be a multiple of; questions ask for the quotient. It divides all shifts."""
        return gcd(self.modulus_of(base), *(c for _, c in difference))

    def later(self, state: State, base: Any, value: int, bound: Affine) -> Value:
        """`above`, which asks only when the answer is used."""
        return self.above(state, base, value, bound) if base[1] else Predicate(("above", base, value, bound))

    def lowest(self, key: Any) -> int:
        """A value that a bound is above at any rate, for true numbers: a shifted counter stands for more."""
        if key[0][2] != LAUNCH:
            return FAR
        if not key[0][0] and key[1] in self.in_grid:
            return self.in_grid[key[1]]
        if key[0][0] or not not_negative(Affine(key[1], 0)):
            return FAR
        least: int = sum(c * self.least.get(name, 0) for name, c in key[1])
        return least // self.divisor(key[0], key[1]) - 1

    def tested(self, state: State, warp: Warp, pc: int, name: str, kind: str, a: Value, b: Value) -> Value:
        """`test`, worked out once for each content as long as no answer changes."""
        if name in ("eq", "ne") or (isinstance(a, int) and isinstance(b, int)):
            return self.test(state, warp, pc, name, kind, a, b)
        key = pc, a, b, self.instance(warp, pc)
        found = state.truths.get(key)
        if found is None:
            try:
                found = self.test(state, warp, pc, name, kind, a, b)
            except Fork as fork:
                found = fork.question
            state.truths[key] = found
        if isinstance(found, Question):
            raise Fork(found)
        return found

    def test(self, state: State, warp: Warp, pc: int, name: str, kind: str, a: Value, b: Value) -> Value:
        """`setp`, of scalars."""
        if isinstance(a, int) and isinstance(b, int):
            return compare(name, kind, a, b)
        if kind not in ("s32", "u32", "b32") or not (uniform(a) and uniform(b)):
            return unknown(a, b) if isinstance(a, Counter) or isinstance(b, Counter) else compare(name, kind, a, b)
        if kind == "s32":
            a, b = (signed(v, 32) if isinstance(v, int) else v for v in (a, b))
        elif name not in ("eq", "ne") and any(isinstance(v, Counter) and v.value < 0 for v in (a, b)):
            return UNIFORM
        if name in ("eq", "ne"):
            if isinstance(b, Counter):
                a, b = b, a
            if not isinstance(a, Counter):
                return self.equal(state, self.instance(warp, pc), name, kind, a, b)
            if (
                not self.is_small(a)
                or not isinstance(b, int)
                or not -self.small < signed(b % (1 << 32), 32) < self.small
            ):
                return UNIFORM
            return int((a.value == signed(b % (1 << 32), 32)) == (name == "eq"))
        if name in ("gt", "le"):
            a, b = b, a
        holds = self.less(state, self.instance(warp, pc), kind, a, b)
        return negate(holds) if name in ("ge", "le") else holds

    def equal(self, state: State, instance: tuple[Any, ...], name: str, kind: str, a: Value, b: Value) -> Value:
        """a = b, or a != b, of scalars that are no counters: a size against a small number by how large it is, so that
        it agrees with the tests of loops."""
        a, b = (b, a) if isinstance(a, int) else (a, b)
        number = signed(b % (1 << 32), 32) if isinstance(b, int) else self.small
        base: Any = ((), instance, 0)
        known = isinstance(a, Affine) and not variables_in(a) and abs(number) < self.small
        if not known or not FAR < number - 1 - a.const <= number - a.const < self.constants(base):
            return compare(name, kind, a, b)
        self.asked = True
        above = [self.later(state, base, number + n - a.const, Affine(a.terms, 0)) for n in (-1, 0)]
        found = logic("and", above[0], negate(above[1]))
        return negate(found) if name == "ne" else found

    def is_small(self, a: Counter) -> bool:
        """Whether a counter may be compared with small constants."""
        return not a.terms and self.is_number(a.base)

    def less(self, state: State, instance: tuple[Any, ...], kind: str, a: Value, b: Value) -> Value:
        """a < b, of scalars that are uniform; not both are integers."""
        if kind[0] != "s" and not all(map(_without_sign, (a, b))):
            # A sum that may be negative, against a number that is not: a < n just if 0 <= a < n.
            for one, other in ((a, b), (b, a)):
                if isinstance(one, Affine) and isinstance(other, int) and 0 < other < self.small:
                    negative = self.less(state, instance, "s32", one, 0)
                    if one is a:
                        return logic("and", negate(negative), self.less(state, instance, "s32", a, b))
                    return logic("or", negative, self.less(state, instance, "s32", a, b))
            return compare("lt", kind, *map(rounds, (a, b)))
        if isinstance(a, Counter) and isinstance(b, Counter):
            return UNIFORM
        for one, other, swapped in ((a, b, False), (b, a, True)):
            if not isinstance(one, Counter):
                continue
            if isinstance(other, int):
                if not self.is_small(one) or not -self.small < other < self.small:
                    return UNIFORM
                return int(other < one.value if swapped else one.value < other)
            if not isinstance(other, Affine):
                return UNIFORM
            if abs(other.const) > self.near(one.base):  # another bound than the one without it
                other = plus(Affine(other.terms, 0), ONE, other.const)
            other = plus(other, Affine(one.base[0] if one.since else (), 0))
            if swapped:  # other < one unless one < other + 1
                return negate(self.above(state, one.base, one.value, Affine(other.terms, other.const + 1)))
            return self.above(state, one.base, one.value, other)
        if not (launch_wide(a) and launch_wide(b)):
            return unknown(a, b)
        if variables_in(a) or variables_in(b):
            instance = ()  # which the value says itself
        if isinstance(a, Affine) and isinstance(b, int):
            base: Any = ((), instance, 0)
            if FAR < b - 1 - a.const < self.constants(base):
                return negate(self.later(state, base, b - 1, a))
        elif isinstance(b, Affine):
            start = a if isinstance(a, Affine) else Affine((), a)
            base = (start.terms, instance, 0)
            if FAR < start.const - b.const < self.constants(base):
                return self.later(state, base, start.const, b)
        x, y = (v % (1 << 32) if isinstance(v, int) else v for v in (a, b))
        return compare("lt", kind, x, y)

    def minimum(self, state: State, warp: Warp, pc: int, a: Value, b: Value) -> Value | None:
        """min of a bound and a small constant, by asking for the bound; None: some other one."""
        bound, limit = (a, b) if isinstance(a, Affine) else (b, a)
        if not isinstance(limit, int) or not 0 < limit <= self.small or variables_in(bound):
            return None
        for n in range(-1, limit):
            above = self.above(state, ((), self.instance(warp, pc), 0), n, bound, False)
            if above not in (0, 1):
                return None  # within rounds of which it is not known which
            if not above:
                return n if n >= 0 else bound
        return limit


def _without_sign(value: Value) -> bool:
    """Whether a test without a sign sees the number that it is, if it is one of a launch or a counter."""
    if isinstance(value, Counter):
        return value.value >= 0 and not_negative(Affine(value.terms, 0))
    return not isinstance(value, Affine) or not_negative(value)


@lru_cache(maxsize=1 << 16)
def _difference(bound: Any, start: Any) -> Any:
    return plus(Affine(bound, 0), Affine(start, 0), -1).terms


__all__ = ["FAR", "LAUNCH", "Fork", "Question", "Questions", "Residue", "is_symbol"]
