"""What arithmetic does to the abstract registers of a warp, and the questions that tests of loops ask.

`Fork` is raised, before any change, where the answer of an oracle is needed; `Residue` where a value would be known if
a symbol's residue were.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import gcd, lcm
from typing import Any

from minitile.proof.constants import always_grows, constants, generations, growing, subtracted
from minitile.proof.lanes import (
    compared,
    extended,
    half,
    located,
    lower_half,
    operand_of_address,
    select,
    threads,
    truths_of,
    zero_extended,
)
from minitile.proof.launches import implied as consequences
from minitile.proof.operations import computed, is_real
from minitile.proof.shortcuts.blocks import Block, functions
from minitile.proof.state import ALL, State, Warp, lanes_in
from minitile.proof.text import INTEGER, Instruction, Launch, Loop, Program, Refused, wide
from minitile.proof.values import (
    NEAR,
    SMALL,
    TOP,
    UNIFORM,
    Affine,
    Counter,
    Predicate,
    Ticket,
    Value,
    affine,
    binary,
    by_lane,
    compare,
    counter_in,
    counters_in,
    divided_round,
    join,
    lanes_of,
    launch_wide,
    logic,
    negate,
    not_negative,
    of_a_lane,
    plus,
    quotient_in,
    residue_asked,
    rounds,
    signed,
    symbol,
    uniform,
    unknown,
    variables_in,
    with_residues,
    without_sign,
)

FAR = -(1 << 40)  # below all that is asked
LAUNCH = -1  # stands in a base for the number of loops before, in questions that no instance of a loop asks alone
ONE = symbol("one")
WINDOW = symbol("window")  # where shared memory lies among generic addresses
WORTHWHILE = 32  # smaller divisors of parameters are not made use of
MOST_ROUNDS = 32  # counters may be taken modulo this, where they are divided first
_THREAD, _EXTENT = (tuple(f"%{name}.{axis}" for axis in "xyz") for name in ("tid", "ntid"))
_FORMS = {
    name: re.compile(form)
    for name, form in {
        "mov": r"mov\.[busf](32|64)",
        "truth": r"mov\.pred",
        "cvt": r"cvta\..*|cvt\.s64\.s32|cvt\.u64\.u32|cvt\.s32\.s64|cvt\.u32\.u64",
        "param": r"ld\.param\.[sub](32|64)",
        "integer": r"(add|sub|mul\.lo|and|or|xor|shl|shr|min|max|div|rem)\.([sub](?:32|64))",
        "loaded": r"ld\.global(?:\.nc)?(?:\.L1::\w+)?\.([bsu](?:32|64))",
        "mad": r"mad\.lo\.([su]32)",
        "not": r"(not\.b|neg\.s)32",
        "wide16": r"mul\.wide\.([su])16",
        "wide": r"mul\.wide\.([su])32",
        "logic": r"(and|or|xor|not)\.pred",
        "setp": r"setp\.(lt|le|gt|ge|eq|ne|lo|ls|hi|hs)\.([sub](?:32|64))",
        "selp": r"selp\.[subf](32|64)",
        "shfl": r"shfl\.sync\.idx\.b32",
        "bfly": r"shfl\.sync\.bfly\.b32",
        "redux": r"redux\.sync\.add\.[su]32",
        "vote": r"vote\.sync\.(?:(?:any|all)\.pred|ballot\.b32)",
    }.items()
}


@lru_cache(maxsize=4096)
def _form(op: str) -> tuple[str, ...]:
    """The form of an operation that is known, and what its text says of it; of others ("",)."""
    for name, form in _FORMS.items():
        if match := form.fullmatch(op):
            return (name, *match.groups())
    return ("",)


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


class Registers:
    """`residues`: symbol to (modulus, residue): the case that is looked at."""

    def __init__(self, program: Program, launch: Launch, residues: Mapping[Any, tuple[int, int]]) -> None:
        self.program, self.launch = program, launch
        self.passing = False  # whether loops are passed in any number of rounds (branches.py)
        self.asked = False  # whether an answer was made use of
        self.left: dict[tuple[Any, ...], tuple[Value, ...]] = {}  # what blocks leave, by place and what they read
        self.meets = [each.op.startswith(("elect", "shfl", "vote", "redux", "match", "mma")) for each in program.code]
        self.functions, self.results = functions(program), dict[tuple[Any, ...], Value]()  # the same of instructions
        self.literals: dict[str, Value] = {}
        self.rounds_of: dict[int, tuple[Loop, ...] | None] = {}
        self.in_grid = consequences.least_by_grid(launch.grid)
        self.wide = {name for each in program.code for name in wide(each)}
        self.wanted: dict[Any, int] = {}  # moduli by which counters would have to be known
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

    # -- operands

    def value(self, warp: Warp, arg: str) -> Value:
        found = warp.registers.get(arg)
        if found is not None:
            return found
        if not arg.startswith("%"):
            if arg not in self.literals:
                self.literals[arg] = self.literal(arg)
            return self.literals[arg]
        if arg in _THREAD:
            return threads(warp.number, self.program.shape, _THREAD.index(arg))
        if re.fullmatch(r"%n?ctaid\.[xyz]", arg):
            return symbol(arg)
        if arg in _EXTENT:
            return self.program.shape[_EXTENT.index(arg)]
        if arg == "%cluster_ctarank":
            return 0
        return tuple(range(32)) if arg == "%laneid" else TOP

    def literal(self, arg: str) -> Value:
        """What an operand is that is no register."""
        if INTEGER.fullmatch(arg):
            return int(arg, 0)
        if arg in self.program.arrays:
            return self.program.arrays[arg][0]
        return symbol("address", arg) if arg in self.program.parameters else TOP

    def operand(self, warp: Warp, arg: str, width: int) -> Value:
        value = self.value(warp, arg)
        return value % (1 << width) if isinstance(value, int) else value

    def unknown_number(self, warp: Warp, line: int, arg: str, value: Value) -> Refused:
        found = residue_asked(value) or next(iter(self.wanted.items()), None) or self.few_rounds(warp, value)
        return Residue(line, f"not known: {arg}", *found) if found else Refused(line, f"not known: {arg}")

    def few_rounds(self, warp: Warp, value: Value) -> tuple[Any, int] | None:
        """A symbol and a modulus by which a loop that a value counts has a number of rounds: what an unrolled loop
        leaves over."""
        bases = {each.base for each in counters_in(value)}
        for loop in self.program.loops:
            counter = self.value(warp, loop.counter)
            counts = any(each.base in bases for each in counters_in(counter))
            if counts and (found := residue_asked(self.value(warp, loop.bound))):
                return found
        return None

    def address(self, warp: Warp, arg: str, lanes: int, line: int) -> tuple[int, ...]:
        """An address for each lane; of lanes that do not take part, 0."""
        found, _, value = self.located(warp, arg, lanes)
        if found is None:
            values = [lanes_of(value)[n] for n in lanes_in(lanes)]
            raise self.unknown_number(warp, line, arg, next((v for v in values if not isinstance(v, int)), values[0]))
        return found

    def located(self, warp: Warp, arg: str, lanes: int) -> tuple[tuple[int, ...] | None, int, Value]:
        """As `address`, None where not all are known; with the operand's offset and the value that it is added to."""
        name, offset = operand_of_address(arg)
        value = self.value(warp, name) if name else TOP
        return located(value, offset, lanes), offset, value

    def one_address(self, warp: Warp, arg: str, lanes: int, line: int) -> int:
        value = self.address(warp, arg, lanes, line)
        found = {value[lane] for lane in lanes_in(lanes)}
        if len(found) != 1:
            raise Refused(line, f"addresses that differ in the warp: {arg}")
        return found.pop()

    def number(self, warp: Warp, arg: str, line: int, lanes: int = ALL) -> int:
        """A number that is one for these lanes: what others have in the register, they do not give."""
        value = self.value(warp, arg)
        if isinstance(value, tuple) and lanes:
            value = join(tuple(value[n] for n in lanes_in(lanes)))
        if not isinstance(value, int):
            raise self.unknown_number(warp, line, arg, value)
        return value

    def put(self, warp: Warp, name: str, value: Value, lanes: int) -> None:
        """What these lanes have in a register from now on. If lanes that wait elsewhere do not need theirs any more, it
        is looked at as if it were one for the warp: so a loop that some lanes go around has a counter."""
        alone = lanes == warp.mask != ALL and warp.stack and not self.passing
        if alone and all(name not in self.program.live[pc] for pc, _ in warp.stack):
            one = join(tuple(value[n] for n in lanes_in(lanes))) if isinstance(value, tuple) else value
            warp.registers[name] = value if isinstance(one, tuple) else one
            return
        if lanes != ALL:
            old = lanes_of(warp.registers.get(name, TOP))
            mixed = tuple(v if lanes >> n & 1 else old[n] for n, v in enumerate(lanes_of(value)))
            value = join(tuple(map(of_a_lane, mixed)))
        warp.registers[name] = value

    # -- truths

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
        """The loops around an instruction, if it is come to again only with one of their counters grown; else None."""
        if pc not in self.rounds_of:
            code = self.program.code
            ways = [each.pc for each in code if each.base == "bra" and 0 <= each.target <= pc <= each.pc]
            loops = tuple(loop for loop in self.program.loops if loop.back in ways)
            grow = all(always_grows(code, loop) for loop in loops)
            self.rounds_of[pc] = loops if grow and len(loops) == len(ways) else None
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

    # -- arithmetic

    def arithmetic(self, state: State, warp: Warp, each: Instruction, lanes: int) -> None:
        if (
            self.meets[each.pc]
            and lanes == ALL
            and (each.base == "mma" or self.value(warp, each.args[-1]) in (ALL, -1))
        ):
            warp.converge()
        if each.op == "elect.sync" and re.fullmatch(r"(_|%\w+)\|%\w+", each.args[0]):
            for name in each.writes:
                warp.registers[name] = TOP
            warp.registers[each.args[0].partition("|")[2]] = (1, *(0,) * 31)
            return
        result = self.evaluated(state, warp, each)
        if len(each.writes) == 1:
            self.put(warp, each.writes[0], result, lanes)
        else:
            for name in each.writes:
                self.put(warp, name, TOP, lanes)

    def evaluated(self, state: State, warp: Warp, each: Instruction) -> Value:
        """The result of an instruction, as registers hold it: once for each content, unless that hangs on answers."""
        if not self.functions[each.pc]:
            return self.kept(self.result(state, warp, each))
        key = (each.pc, *[self.value(warp, name) for name in each.reads])
        found = self.results.get(key)
        if found is None:
            before, self.asked = self.asked, False
            found = self.kept(self.result(state, warp, each))
            if not self.asked:
                self.results[key] = found
            self.asked |= before
        return found

    def kept(self, result: Value) -> Value:
        """A result as registers hold it."""
        if isinstance(result, Affine) or (isinstance(result, tuple) and Affine in map(type, result)):
            result = by_lane(self.folded, result)
            if self.residues:
                result = by_lane(lambda v: with_residues(v, self.residues), result)
        elif isinstance(result, tuple):
            result = join(tuple(map(of_a_lane, result)))
        return result

    def pass_block(self, state: State, warp: Warp, block: Block) -> None:
        """Executes a block by all lanes, or takes from before what it leaves, unless that hangs on answers."""
        key = (block.begin, *(self.value(warp, name) for name in block.reads))
        left = self.left.get(key)
        if left is None:
            before, self.asked = dict(warp.registers), False
            try:
                for each in block.code:
                    self.arithmetic(state, warp, each, ALL)
            except Fork:
                warp.registers = before
                raise
            if not self.asked:
                self.left[key] = tuple(warp.registers[name] for name in block.writes)
        else:
            warp.registers.update(zip(block.writes, left, strict=True))
            if block.meets:
                warp.converge()

    def folded(self, value: Value) -> Value:
        """a·C - a·n·((C + k) / n) of a counter C that counts from 0 is a·((C + k) mod n) - a·k."""
        while isinstance(value, Affine) and (found := quotient_in(value)):
            key, counter, offset, by, times = found
            if self.modulus_of(counter.base) % by:
                if by <= MOST_ROUNDS:
                    at = ("since", counter.base[0]) if counter.base[0] else None
                    self.wanted[at] = lcm(self.wanted.get(at, 1), by)
                break
            terms = plus(Affine(value.terms, 0), Affine(((key, by), (("counter", counter), -1)), 0), times)
            const = value.const + times * ((counter.value + offset) % by - offset)
            value = Affine(terms.terms, const) if terms.terms else const % (1 << 32)
        return value

    def result(self, state: State, warp: Warp, each: Instruction) -> Value:
        op, args = each.op, each.args
        if len(each.writes) != 1 or each.writes[0] != args[0]:
            return TOP
        form, *said = _form(op)
        if form == "mov":
            return self.moved(warp, each, int(said[0]))
        if form == "truth":
            return min(abs(int(args[1], 0)), 1) if INTEGER.fullmatch(args[1]) else self.value(warp, args[1])
        if form == "cvt":
            return self.converted(self.value(warp, args[1]), op)
        if form == "param":
            found = re.fullmatch(r"\[(\w+)\]", args[1])
            return symbol("param", found[1]) if found and self.program.parameters.get(found[1]) == int(said[0]) else TOP
        if form == "loaded":
            found_loaded = self.loaded(warp, args[1], said[0])
            extended = args[0] in self.wide and said[0] in ("u32", "b32")
            return without_sign(found_loaded) if extended else found_loaded
        if form == "integer":
            name, kind = said[0][:3], said[1]
            a, b = (self.operand(warp, arg, int(kind[1:])) for arg in args[1:3])
            if name == "and" and isinstance(a, int):
                a, b = b, a
            if name == "min" and kind == "s32" and (isinstance(a, Affine) or isinstance(b, Affine)):
                found_min = self.minimum(state, warp, each.pc, a, b)
                if found_min is not None:
                    return found_min
            divisor = b + (name == "and") if isinstance(b, int) and name in ("and", "rem") else 0
            if name == "and" and divisor & (divisor - 1):
                divisor = 0  # other masks leave no remainder
            modulus = self.modulus_of(a.base) if isinstance(a, Counter) else 1
            if isinstance(a, Counter) and not a.terms and 2 <= divisor <= SMALL and modulus % divisor:
                key = ("since", a.base[0]) if a.base[0] else None
                self.wanted[key] = lcm(self.wanted.get(key, 1), divisor)
            if divisor >= 2 and (found_round := divided_round(a)):
                counter, by, more = found_round
                if self.modulus_of(counter.base) % (by * divisor) == 0:
                    return (counter.value // by + more) % divisor
                if by * divisor <= MOST_ROUNDS:
                    key = ("since", counter.base[0]) if counter.base[0] else None
                    self.wanted[key] = lcm(self.wanted.get(key, 1), by * divisor)
            if name == "and":
                a, b = by_lane(self.masked, a, b), b
            if args[0] in self.growing and any(isinstance(v, int) and v >> 31 for v in (a, b)):
                return UNIFORM if uniform(a) and uniform(b) else TOP
            grown = all(arg in self.growing or not arg.startswith("%") for arg in args[1:3])
            room = self.room if grown else 0
            return by_lane(lambda x, y: self.stepped(binary(name, kind, x, y, modulus), x, y, room=room), a, b)
        if form == "mad":
            a, b, c = (self.operand(warp, arg, 32) for arg in args[1:4])
            kind = said[0]
            return by_lane(lambda x, y, z: self.stepped(binary("add", kind, binary("mul", kind, x, y), z), z), a, b, c)
        if form == "not":
            less = (1 << 32) - (said[0] == "not.b")  # ~v is -1 - v
            return by_lane(lambda v: binary("sub", "s32", less % (1 << 32), v), self.operand(warp, args[1], 32))
        if form == "wide16":
            a, b = (by_lane(lambda v: half(said[0], v), self.operand(warp, arg, 16)) for arg in args[1:3])
            return by_lane(lambda x, y: binary("mul", "s32", x, y), a, b)
        if form == "wide":
            a, b = (self.converted(self.operand(warp, arg, 32), f"cvt.{said[0]}64.{said[0]}32") for arg in args[1:3])
            return by_lane(lambda x, y: binary("mul", "s64", x, y), a, b)
        if form == "logic":
            values = [self.value(warp, arg) for arg in args[1:]]
            name = said[0]
            return by_lane(negate if name == "not" else lambda x, y: logic(name, x, y), *values)
        if form == "setp":
            name, kind = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}.get(said[0], said[0]), said[1]
            a, b = (self.operand(warp, arg, int(kind[1:])) for arg in args[1:3])
            if isinstance(a, tuple) or isinstance(b, tuple):
                return compared(name, kind, a, b)
            return self.tested(state, warp, each.pc, name, kind, a, b)
        if form == "selp":
            width = int(said[0])
            a, b = (self.operand(warp, arg, width) for arg in args[1:3])
            return by_lane(select, a, b, self.value(warp, args[3]))
        if form == "shfl" and args[2] == "0" and args[3] == "31":
            value = lanes_of(self.value(warp, args[1]))[0]
            return TOP if isinstance(value, Ticket) else value
        if form == "bfly" and args[3] == "31" and INTEGER.fullmatch(args[2]) and self.value(warp, args[4]) in (ALL, -1):
            lanes = lanes_of(self.value(warp, args[1]))
            if all(launch_wide(v) for v in lanes):
                return join(tuple(lanes[n ^ int(args[2], 0) & 31] for n in range(32)))
        if form == "redux" and self.value(warp, args[2]) in (ALL, -1):
            lanes = lanes_of(self.value(warp, args[1]))
            if all(launch_wide(v) for v in lanes):
                total: Value = 0
                for v in lanes:
                    total = binary("add", "u32", total, v)
                return total
        if form == "vote":
            return UNIFORM
        return computed(op, tuple(UNIFORM if is_real(arg) else self.operand(warp, arg, 64) for arg in args[1:]))

    def masked(self, a: Value, mask: Value) -> Value:
        """What a mask of a sum of counters leaves hangs on its lowest bits, up to the mask's highest: a number that has
        the same ones, if the counters' residues tell them; else the sum. (i << 10) & 1024, ~i & 1 are of i mod 2."""
        if not isinstance(mask, int) or not 0 < mask < 1 << 31 or not isinstance(a, (Counter, Affine)):
            return a
        if isinstance(a, Counter):
            if not mask & (mask + 1) or a.terms:
                return a  # as a remainder
            a = Affine(((("counter", a), 1),), 0)
        period, found = 1 << mask.bit_length(), a.const
        for key, c in a.terms:
            cycle = period // gcd(period, c)
            if cycle == 1:
                continue
            if (of_counter := counter_in(key)) is None:
                return a
            counter, more, by = of_counter
            if self.modulus_of(counter.base) % (cycle * by):
                if cycle * by <= MOST_ROUNDS:
                    at = ("since", counter.base[0]) if counter.base[0] else None
                    self.wanted[at] = lcm(self.wanted.get(at, 1), cycle * by)
                return a
            found += c * ((counter.value + more) % (cycle * by) // by)
        return found % period

    def loaded(self, warp: Warp, arg: str, width: str) -> Value:
        """What lies at an address that is one for the launch, by a pointer by which nothing is stored: a symbol."""
        match = re.fullmatch(r"\[(%\w+)(?:\+(-?\d+))?\]", arg)
        at = self.value(warp, match[1]) if match else TOP
        if not match or not isinstance(at, Affine):
            return TOP
        terms: list[tuple[Any, int]] = list(at.terms)
        pointers = [key for key, _ in terms if key[0] == "param" and key[1] in self.program.only_read]
        if len(pointers) != 1 or (pointers[0], 1) not in terms:
            return TOP
        return symbol("loaded", width, plus(at, Affine((), int(match[2] or 0))))

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

    def moved(self, warp: Warp, each: Instruction, width: int) -> Value:
        value = self.operand(warp, each.args[1], width)
        loop = self.loops.get(each.args[0])
        if loop and not self.passing and launch_wide(value) and not isinstance(self.value(warp, loop.bound), int):
            start = affine(value, 32)
            around = tuple(v for v in self.around[each.pc] if v is not loop)
            instance = tuple(warp.registers.get(v.counter, TOP) for v in around)
            if any(v is TOP or v is UNIFORM or isinstance(v, tuple) for v in instance):
                return UNIFORM
            return Counter((start.terms, instance, self.generation[loop.head]), start.const)
        return value

    @staticmethod
    def converted(value: Value, op: str) -> Value:
        if op.startswith("cvta."):
            into = -1 if op.startswith("cvta.to.shared") else 1 if op.startswith("cvta.shared") else 0
            return by_lane(lambda v: binary("add" if into > 0 else "sub", "s64", v, WINDOW), value) if into else value
        if op == "cvt.s64.s32":
            return by_lane(lambda v: extended(v), value)
        if op == "cvt.u64.u32":
            return by_lane(zero_extended, value)
        return by_lane(lower_half, value)


def _without_sign(value: Value) -> bool:
    """Whether a test without a sign sees the number that it is, if it is one of a launch or a counter."""
    if isinstance(value, Counter):
        return value.value >= 0 and not_negative(Affine(value.terms, 0))
    return not isinstance(value, Affine) or not_negative(value)


@lru_cache(maxsize=1 << 16)
def _difference(bound: Any, start: Any) -> Any:
    return plus(Affine(bound, 0), Affine(start, 0), -1).terms


__all__ = ["FAR", "Fork", "Question", "Registers", "Residue", "is_symbol"]
