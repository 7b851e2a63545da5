"""What arithmetic does to the abstract registers of a warp."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from math import gcd, lcm
from typing import Any

from minitile.proof.arithmetic.lanes import (
    compared,
    extended,
    half,
    located,
    lower_half,
    operand_of_address,
    select,
    threads,
    zero_extended,
)
from minitile.proof.arithmetic.operations import computed, is_real
from minitile.proof.arithmetic.values import (
    SMALL,
    TOP,
    UNIFORM,
    Affine,
    Counter,
    Ticket,
    Value,
    affine,
    binary,
    by_lane,
    counter_in,
    counters_in,
    divided_round,
    join,
    lanes_of,
    launch_wide,
    logic,
    negate,
    of_a_lane,
    plus,
    quotient_in,
    residue_asked,
    symbol,
    uniform,
    with_residues,
    without_sign,
)
from minitile.proof.questions import Fork, Questions, Residue
from minitile.proof.shortcuts.blocks import Block, functions
from minitile.proof.state import ALL, State, Warp, lanes_in
from minitile.proof.text import INTEGER, Instruction, Launch, Program, Refused, wide

WINDOW = symbol("window")  # where shared memory lies among generic addresses
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


class Registers(Questions):
    def __init__(self, program: Program, launch: Launch, residues: Mapping[Any, tuple[int, int]]) -> None:
        super().__init__(program, launch, residues)
        self.passing = False  # whether loops are passed in any number of rounds (branches.py)
        self.left: dict[tuple[Any, ...], tuple[Value, ...]] = {}  # what blocks leave, by place and what they read
        self.meets = [each.op.startswith(("elect", "shfl", "vote", "redux", "match", "mma")) for each in program.code]
        self.functions, self.results = functions(program), dict[tuple[Any, ...], Value]()  # the same of instructions
        self.literals: dict[str, Value] = {}
        self.wide = {name for each in program.code for name in wide(each)}
        self.wanted: dict[Any, int] = {}  # moduli by which counters would have to be known

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


__all__ = ["WINDOW", "Registers"]
