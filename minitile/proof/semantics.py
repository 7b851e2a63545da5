"""What one instruction does to the abstract state. What is not known here is refused.

`Machine.step` executes the next instruction of a warp and says whether it could; it raises `Fork` before any change
where the answer of an oracle is needed: a test of a loop, a truth of the launch, or an unknown of a whole warp.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from minitile.proof import barriers, memory
from minitile.proof.descriptors import rows_of_16
from minitile.proof.events import MBarrier, Product
from minitile.proof.state import ALL, State, Warp, bits
from minitile.proof.text import ARITHMETIC, INTEGER, Instruction, Launch, Program, Refused, is_wait, registers
from minitile.proof.values import (
    SMALL,
    TOP,
    UNIFORM,
    Affine,
    Counter,
    Predicate,
    Value,
    affine,
    binary,
    by_lane,
    compare,
    join,
    lanes_of,
    launch_wide,
    logic,
    negate,
    of_a_lane,
    signed,
    symbol,
    uniform,
    unknown,
)

BASE = 5 * 1024  # where shared memory begins: one address that stands for all with the declared alignment
_IDLE = ("griddepcontrol.", "setmaxnreg.", "prefetch.tensormap", "nanosleep", "st.global.")
_LOAD = "cp.async.bulk.tensor.{}d.shared::{}.global.mbarrier::complete_tx::bytes"
_LOADS = {_LOAD.format(n, where) for n in range(1, 6) for where in ("cluster", "cta")}
_STORES = {f"cp.async.bulk.tensor.{n}d.global.shared::cta.bulk_group" for n in range(1, 6)}
_INIT = re.compile(r"mbarrier\.init\.shared(::cta)?\.b64")
_ARRIVE = re.compile(r"mbarrier\.arrive(\.expect_tx)?(\.release)?(\.cta)?\.shared(::cta)?\.b64")
_WAIT = re.compile(r"mbarrier\.try_wait\.parity(\.acquire)?(\.cta)?\.shared(::cta)?\.b64")
_PRODUCT = re.compile(r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k(\d+)\.\w+\.(\w+)\.(\w+)(\.satfinite)?")
_STMATRIX = re.compile(r"stmatrix\.sync\.aligned\.m8n8\.x([124])(\.trans)?\.shared(::cta)?\.b16")
_LDMATRIX = re.compile(r"ldmatrix\.sync\.aligned\.m8n8\.x([124])(\.trans)?\.shared(::cta)?\.b16")
_SHARED = re.compile(r"(?:st|ld)\.shared(?:::cta)?(?:\.v([24]))?\.[busf](8|16|32|64)")
_INTEGER_OP = re.compile(r"(add|sub|mul\.lo|and|or|xor|shl|shr|min|max|div|rem)\.([sub](?:32|64))")
_ITEM = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1}


@dataclass(frozen=True)
class Question:
    """kind "bound": whether value < bound, key (base, bound); "fact": key a Predicate; "warp": key (warp, register,
    lane; -1 for all)."""

    kind: str
    key: Any
    value: int = 0


class Fork(Exception):
    def __init__(self, question: Question) -> None:
        super().__init__(question)
        self.question = question


class Machine:
    def __init__(self, program: Program, launch: Launch) -> None:
        self.program, self.launch = program, launch
        sizes = [_SHARED.fullmatch(each.op) for each in program.code]
        self.unit = min([4, *(int(each[2]) // 8 for each in sizes if each)])
        self.outside = (-1 << -(-(BASE + program.shared) // self.unit)) | ((1 << BASE // self.unit) - 1)
        self.loops = {each.counter: each for each in program.loops}
        self.products = self._product_registers()
        for each in program.code:
            if each.op.startswith("mbarrier.try_wait") and not is_wait(program.code, each.pc):
                raise Refused(each.line, "a wait that is not tried again at once")
        self.quiet = [self._quiet(each) for each in program.code]
        self.touches = [self._bits({*each.reads, *each.writes}) for each in program.code]

    def _product_registers(self) -> dict[str, int]:
        names: dict[str, int] = {}
        for each in self.program.code:
            if each.op.startswith("wgmma.mma_async"):
                for arg in each.args[:2]:
                    for name in registers(arg) if arg.startswith("{") else ():
                        names.setdefault(name, len(names))
        return names

    def _bits(self, names: set[str]) -> int:
        return sum(1 << self.products[each] for each in names if each in self.products)

    # -- operands

    def value(self, warp: Warp, arg: str) -> Value:
        if arg == "%tid.x":
            return tuple(range(warp.number * 32, warp.number * 32 + 32))
        if re.fullmatch(r"%n?ctaid\.[xyz]", arg):
            return symbol(arg)
        if arg in ("%ntid.x",):
            return self.program.threads
        if arg == "%laneid":
            return tuple(range(32))
        if arg.startswith("%"):
            return warp.registers.get(arg, TOP)
        if INTEGER.fullmatch(arg):
            return int(arg, 0)
        if arg in self.program.arrays:
            return BASE + self.program.arrays[arg][0]
        return symbol("param", arg) if re.fullmatch(r"[A-Za-z_]\w*", arg) else TOP

    def operand(self, warp: Warp, arg: str, width: int) -> Value:
        value = self.value(warp, arg)
        return value % (1 << width) if isinstance(value, int) else value

    def address(self, warp: Warp, arg: str, line: int) -> Value:
        match = re.fullmatch(r"\[(%?\w+)(?:\+(-?\d+))?\]", arg)
        value = self.value(warp, match[1]) if match else TOP
        if not match or not all(isinstance(each, int) for each in lanes_of(value)):
            raise Refused(line, f"an address that is not known: {arg}")
        return by_lane(lambda each: (each + int(match[2] or 0)) % (1 << 32), value)

    def one_address(self, warp: Warp, arg: str, lanes: int, line: int) -> int:
        value = lanes_of(self.address(warp, arg, line))
        found = {value[lane] for lane in bits(lanes)}
        if len(found) != 1:
            raise Refused(line, f"addresses that differ in the warp: {arg}")
        return int(found.pop())

    def number(self, warp: Warp, arg: str, line: int) -> int:
        value = self.value(warp, arg)
        if not isinstance(value, int):
            raise Refused(line, f"not known: {arg}")
        return value

    # -- truths

    def truth(self, state: State, value: Value) -> Value:
        """A predicate as 0, 1, UNIFORM or TOP; asks for facts."""
        if not isinstance(value, Predicate):
            return value if value in (0, 1) or value is UNIFORM else TOP
        operation, *rest = value.expression
        if operation == "not":
            return negate(self.truth(state, rest[0]))
        if operation in ("and", "or"):
            first = self.truth(state, rest[0])
            if first == (0 if operation == "and" else 1):
                return first
            return self.truth(state, rest[1])
        if value not in state.facts:
            raise Fork(Question("fact", value))
        return state.facts[value]

    def lanes(self, state: State, warp: Warp, each: Instruction) -> int:
        """The lanes that execute an instruction."""
        if not each.guard:
            return warp.mask
        value = warp.registers.get(each.guard, TOP)
        truths = tuple(self.truth(state, v) if warp.mask >> n & 1 else 0 for n, v in enumerate(lanes_of(value)))
        unknowns = [n for n, v in enumerate(truths) if v not in (0, 1)]
        if value is UNIFORM or len(unknowns) == 1:
            lane = -1 if value is UNIFORM else unknowns[0]
            raise Fork(Question("warp", (warp.number, each.guard, lane)))
        if unknowns:
            raise Refused(each.line, f"{each.guard} is not known, and may differ in the warp")
        yes = sum(1 << n for n, v in enumerate(truths) if v == 1)
        return warp.mask & ~yes if each.negated else warp.mask & yes

    def below(self, state: State, a: Value, b: Value) -> Value:
        """a < b where a counter is on one side; b a bound of the launch, or a small constant."""
        if isinstance(a, int):
            a = Counter((), signed(a, 32))
        if isinstance(b, int):
            b = signed(b, 32)
            if a.base or not -SMALL < b < SMALL:
                return UNIFORM
            return int(a.value < b)
        if not isinstance(b, Affine) or (not a.base and a.value < 0):
            return UNIFORM
        key = (a.base, b)
        low, high = state.oracle.get(key, (-1, None))
        if a.value <= low:
            return 1
        if high is not None and a.value >= high:
            return 0
        raise Fork(Question("bound", key, a.value))

    def test(self, state: State, name: str, kind: str, a: Value, b: Value) -> Value:
        """`setp`, of scalars."""
        counted = isinstance(a, Counter) or isinstance(b, Counter)
        if not counted and kind[1:] == "32" and isinstance(a, int) and isinstance(b, Affine):
            counted = name in ("lt", "ge") and 0 <= a < SMALL
        if not counted and kind[1:] == "32" and isinstance(b, int) and isinstance(a, Affine):
            counted = name in ("gt", "le") and 0 <= b < SMALL
        if not counted:
            return compare(name, kind, a, b)
        if kind not in ("s32", "u32", "b32") or not (uniform(a) and uniform(b)):
            return unknown(a, b)
        if kind != "s32" and any(_below_zero(v) for v in (a, b)):
            return UNIFORM
        if name in ("eq", "ne"):
            if isinstance(b, Counter):
                a, b = b, a
            if a.base or not isinstance(b, int) or not -SMALL < signed(b, 32) < SMALL:
                return UNIFORM
            return int((a.value == signed(b, 32)) == (name == "eq"))
        if name in ("gt", "le"):
            a, b = b, a
        if isinstance(b, Counter):
            if not isinstance(a, int) or b.base or not -SMALL < signed(a, 32) < SMALL:
                return UNIFORM
            holds: Value = int(signed(a, 32) < b.value)
        else:
            holds = self.below(state, a, b) if isinstance(a, (int, Counter)) else UNIFORM
        return negate(holds) if name in ("ge", "le") else holds

    # -- one instruction

    def step(self, state: State, warp: Warp) -> bool:
        """Executes an instruction; False: the warp is blocked. Raises Refused and Fork."""
        if warp.at >= 0 or warp.done:
            return False
        while warp.stack and warp.stack[-1][0] == warp.pc:
            warp.mask, warp.stack = warp.stack[-1][1], warp.stack[:-1]
        each = self.program.code[warp.pc]
        if each.base == "bra":
            try:
                self.branch(state, warp, each)
            except (Fork, Refused):
                if not self.quiet[each.pc]:
                    raise
                self.skip(warp, each.pc, self.quiet[each.pc])
            return True
        lanes = ALL
        if each.guard or warp.mask != ALL:
            arithmetic = (each.base in ARITHMETIC and not self._is_event(each)) or each.op.startswith("st.global")
            try:
                lanes = self.lanes(state, warp, each)
            except (Fork, Refused):
                if not arithmetic:
                    raise
                self._touch(warp, each)
                for name in each.writes:
                    warp.registers[name] = TOP
                warp.pc += 1
                return True
        if lanes and not self.execute(state, warp, each, lanes):
            return False
        warp.pc = warp.pc + 1
        return True

    def _quiet(self, each: Instruction) -> int:
        """Where the ways of a branch join again, if on neither of them anything happens that counts; else 0."""
        code, end = self.program.code, each.target
        if each.base != "bra" or not each.guard or end <= each.pc:
            return 0
        if code[end - 1].base == "bra" and not code[end - 1].guard and code[end - 1].target > end:
            end = code[end - 1].target
        written: set[str] = set()
        for i in code[each.pc + 1 : end]:
            plain = (i.base in ARITHMETIC and not self._is_event(i)) or i.op.startswith("st.global")
            if not plain and not (i.base == "bra" and i.pc < i.target <= end):
                return 0
            written |= set(i.writes)
        return 0 if end >= len(code) or written & self.program.live[end] else end

    def skip(self, warp: Warp, pc: int, end: int) -> None:
        """Goes over a quiet part, whichever way through it is taken."""
        for each in self.program.code[pc + 1 : end]:
            self._touch(warp, each)
            for name in each.writes:
                warp.registers[name] = TOP
        warp.pc = end

    def _is_event(self, each: Instruction) -> bool:
        return each.op.startswith(("ld.shared", "elect", "shfl"))

    def branch(self, state: State, warp: Warp, each: Instruction) -> None:
        taken = self.lanes(state, warp, each)
        if taken == warp.mask:
            warp.pc = each.target
        elif not taken:
            warp.pc += 1
        else:
            inside = self.program.code[each.pc + 1 : each.target]
            if each.target <= each.pc or any(i.base in ("bra", "ret") for i in inside):
                raise Refused(each.line, "lanes of a warp part here, in a form that is not known")
            if any(each.pc < i.target < each.target for i in self.program.code):
                raise Refused(each.line, "a label inside of a branch that lanes of a warp take differently")
            warp.stack += ((each.target, warp.mask),)
            warp.mask &= ~taken
            warp.pc += 1

    def _touch(self, warp: Warp, each: Instruction) -> None:
        """Registers that an instruction accesses, against products that are under way."""
        touched = self.touches[each.pc]
        if touched:
            for product in (p for group in (*warp.groups, warp.open) for p in group):
                if touched & (product.accumulators | product.fragments):
                    raise Refused(each.line, "accesses registers of a product that need not be complete")
            warp.dirty |= touched

    def execute(self, state: State, warp: Warp, each: Instruction, lanes: int) -> bool:
        op = each.op
        if each.base != "wgmma":
            self._touch(warp, each)
        if each.base in ARITHMETIC and not op.startswith("ld.shared"):
            self.arithmetic(state, warp, each, lanes)
        elif each.base == "mbarrier":
            return self.mbarrier(state, warp, each, lanes)
        elif each.base in ("bar", "barrier"):
            return self.bar(state, warp, each, lanes)
        elif each.base == "wgmma":
            self.wgmma(state, warp, each, lanes)
        elif each.base == "cp":
            self.copy(state, warp, each, lanes)
        elif each.base == "fence":
            self.fence(state, warp, each, lanes)
        elif op == "ret":
            self.ret(state, warp, each, lanes)
        elif op.startswith(_IDLE):
            pass
        else:
            self.generic(state, warp, each, lanes)
        return True

    def put(self, warp: Warp, name: str, value: Value, lanes: int) -> None:
        if lanes != ALL:
            old = lanes_of(warp.registers.get(name, TOP))
            mixed = tuple(v if lanes >> n & 1 else old[n] for n, v in enumerate(lanes_of(value)))
            value = join(tuple(map(of_a_lane, mixed)))
        warp.registers[name] = value

    # -- registers

    def arithmetic(self, state: State, warp: Warp, each: Instruction, lanes: int) -> None:
        if each.op.startswith(("elect", "shfl")):
            if lanes != ALL or each.args[-1] not in ("0xffffffff", "-1", "4294967295"):
                raise Refused(each.line, f"by some lanes of a warp: {each.text}")
            warp.converge()
        if each.op == "elect.sync" and re.fullmatch(r"(_|%\w+)\|%\w+", each.args[0]):
            for name in each.writes:
                warp.registers[name] = TOP
            warp.registers[each.args[0].partition("|")[2]] = (1, *(0,) * 31)
            return
        if each.base == "ld" and not each.op.startswith(("ld.param.", "ld.global.", "ld.const.", "ld.local.")):
            raise Refused(each.line, f"not known: {each.op}")
        result = self.result(state, warp, each)
        if len(each.writes) == 1:
            self.put(warp, each.writes[0], result, lanes)
        else:
            for name in each.writes:
                self.put(warp, name, TOP, lanes)

    def result(self, state: State, warp: Warp, each: Instruction) -> Value:
        op, args = each.op, each.args
        if not each.writes or not re.fullmatch(r"%\w+", args[0]):
            return TOP
        if match := re.fullmatch(r"mov\.[busf](32|64)", op):
            return self.moved(warp, each, int(match[1]))
        if op.startswith("cvta.") or op in ("cvt.s64.s32", "cvt.u64.u32", "cvt.s32.s64", "cvt.u32.u64"):
            return self.converted(self.value(warp, args[1]), op)
        if match := re.fullmatch(r"ld\.param\.[sub](32|64)", op):
            found = re.fullmatch(r"\[(\w+)\]", args[1])
            return symbol("param", found[1]) if found else TOP
        if match := _INTEGER_OP.fullmatch(op):
            name, kind = match[1][:3], match[2]
            a, b = (self.operand(warp, arg, int(kind[1:])) for arg in args[1:3])
            return by_lane(lambda x, y: binary(name, kind, x, y), a, b)
        if match := re.fullmatch(r"mad\.lo\.([su]32)", op):
            a, b, c = (self.operand(warp, arg, 32) for arg in args[1:4])
            kind = match[1]
            return by_lane(lambda x, y, z: binary("add", kind, binary("mul", kind, x, y), z), a, b, c)
        if match := re.fullmatch(r"(and|or|xor|not)\.pred", op):
            values = [self.value(warp, arg) for arg in args[1:]]
            name = match[1]
            return by_lane(negate if name == "not" else lambda x, y: logic(name, x, y), *values)
        if match := re.fullmatch(r"setp\.(lt|le|gt|ge|eq|ne)\.([sub](?:32|64))", op):
            name, kind = match[1], match[2]
            a, b = (self.operand(warp, arg, int(kind[1:])) for arg in args[1:3])
            return by_lane(lambda x, y: self.test(state, name, kind, x, y), a, b)
        if re.fullmatch(r"selp\.[sub](32|64)", op):
            width = int(op[-2:])
            a, b = (self.operand(warp, arg, width) for arg in args[1:3])
            return by_lane(_select, a, b, self.value(warp, args[3]))
        if re.fullmatch(r"shfl\.sync\.idx\.b32", op) and args[2] == "0" and args[3] == "31":
            return lanes_of(self.value(warp, args[1]))[0]
        return TOP

    def moved(self, warp: Warp, each: Instruction, width: int) -> Value:
        value = self.operand(warp, each.args[1], width)
        loop = self.loops.get(each.args[0])
        if loop and launch_wide(value) and not isinstance(self.value(warp, loop.bound), int):
            start = affine(value, 32)
            return Counter(start.terms, start.const)
        return value

    @staticmethod
    def converted(value: Value, op: str) -> Value:
        if op.startswith("cvta."):
            return value
        if op == "cvt.s64.s32":
            return by_lane(lambda v: _extended(v), value)
        if op == "cvt.u64.u32":
            return value if not isinstance(value, Counter) else UNIFORM
        return by_lane(lambda v: v % (1 << 32) if isinstance(v, int) else unknown(v), value)

    # -- synchronisation

    def barrier_units(self, state: State) -> int:
        out = 0
        for at in state.mbarriers:
            out |= memory.span(self.unit, at, 8, 0)
        return out

    def mbarrier(self, state: State, warp: Warp, each: Instruction, lanes: int) -> bool:
        op, args, line = each.op, each.args, each.line
        if _INIT.fullmatch(op) and len(args) == 2:
            self.initialise(state, warp, each, lanes)
            return True
        if len(args) < 2:
            raise Refused(line, f"not known: {each.text}")
        at = self.one_address(warp, args[1], lanes, line)
        if at not in state.mbarriers:
            raise Refused(line, "no mbarrier has been initialised at this address")
        if (match := _ARRIVE.fullmatch(op)) and args[0] == "_":
            if match[1] and len(args) == 3:
                barriers.arrive(state, warp, at, lanes, line, 1, self.number(warp, args[2], line))
            elif not match[1] and len(args) in (2, 3):
                times = self.number(warp, args[2], line) if len(args) == 3 else 1
                barriers.arrive(state, warp, at, lanes, line, times, 0)
            else:
                raise Refused(line, f"not known: {each.text}")
            return True
        if _WAIT.fullmatch(op) and len(args) == 3:
            parity = self.number(warp, args[2], line)
            if parity not in (0, 1):
                raise Refused(line, f"a parity of {parity}")
            if not barriers.wait(state, warp, at, lanes, line, parity):
                return False
            self.put(warp, args[0], 1, lanes)
            return True
        raise Refused(line, f"not known: {each.text}")

    def initialise(self, state: State, warp: Warp, each: Instruction, lanes: int) -> None:
        if lanes & (lanes - 1):
            raise Refused(each.line, "an mbarrier initialised by several lanes")
        at, count = self.one_address(warp, each.args[0], lanes, each.line), self.number(warp, each.args[1], each.line)
        if not 0 < count < 1 << 20:
            raise Refused(each.line, f"an mbarrier of {count} arrivals")
        shares = ((lanes.bit_length() - 1, memory.span(self.unit, at, 8, each.line)),)
        units = self.barrier_units(state)
        if units & shares[0][1]:
            raise Refused(each.line, "an mbarrier initialised twice")
        event = memory.access(
            state, warp, each.line, write=True, asynchronous=False, shares=shares, barriers=units, outside=self.outside
        )
        fence = state.accesses.pop().fence
        warp.learn(event, lanes)
        state.mbarriers[at] = MBarrier(count, count, event, event, fence)

    def fence(self, state: State, warp: Warp, each: Instruction, lanes: int) -> None:
        if each.op == "fence.mbarrier_init.release.cluster":
            for at in state.mbarriers:
                if not state.mbarriers[at].last & ~warp.knows(lanes) and not state.mbarriers[at].index:
                    warp.learn(state.mbarriers[at].fence, lanes)
        elif each.op in ("fence.proxy.async", "fence.proxy.async.shared::cta"):
            memory.fence(state, warp, lanes)
        else:
            raise Refused(each.line, f"not known: {each.op}")

    def bar(self, state: State, warp: Warp, each: Instruction, lanes: int) -> bool:
        if lanes != ALL:
            raise Refused(each.line, "a barrier by some lanes of a warp")
        if each.op == "bar.warp.sync" and each.args in (("0xffffffff",), ("-1",), ("4294967295",)):
            warp.synchronise()
        elif each.op in ("bar.sync", "barrier.sync.aligned", "bar.arrive", "barrier.arrive.aligned"):
            number = self.number(warp, each.args[0], each.line)
            threads = self.number(warp, each.args[1], each.line) if len(each.args) > 1 else self.program.threads
            barriers.meet(state, warp, number, threads, each.line, "sync" in each.op)
        else:
            raise Refused(each.line, f"not known: {each.op}")
        return True

    def ret(self, state: State, warp: Warp, each: Instruction, lanes: int) -> None:
        if lanes != ALL or warp.stack:
            raise Refused(each.line, "some lanes of a warp end before others")
        if warp.open or warp.groups or any(now or groups for now, groups in warp.bulk.values()):
            raise Refused(each.line, "ends while operations that it has started use shared memory")
        warp.done = True
        warp.synchronise()
        state.ended |= warp.known

    # -- accesses

    def generic(self, state: State, warp: Warp, each: Instruction, lanes: int) -> None:
        load, sharers = each.base in ("ld", "ldmatrix"), 32
        if match := (_STMATRIX.fullmatch(each.op) or _LDMATRIX.fullmatch(each.op)):
            size, sharers = 16, 8 * int(match[1])
            warp.converge()
            if lanes != ALL:
                raise Refused(each.line, "a matrix by some lanes of a warp")
        elif match := _SHARED.fullmatch(each.op):
            size = int(match[1] or 1) * int(match[2]) // 8
        else:
            raise Refused(each.line, f"not known: {each.op}")
        value = lanes_of(self.address(warp, each.args[1 if load else 0], each.line))
        shares = tuple((n, memory.span(self.unit, value[n], size, each.line)) for n in bits(lanes) if n < sharers)
        if (load and sharers < 32) or (each.base.endswith("matrix") and load):
            # Rows that one lane names are given to all: each lane reads them all.
            total = 0
            for _, mine in shares:
                total |= mine
            shares = tuple((n, total) for n in range(32))
        event = memory.access(
            state,
            warp,
            each.line,
            write=not load,
            asynchronous=False,
            shares=shares,
            barriers=self.barrier_units(state),
            outside=self.outside,
        )
        warp.did(event, sum(1 << n for n, _ in shares))
        for name in each.writes:
            self.put(warp, name, TOP, lanes)

    def box(self, warp: Warp, arg: str, line: int) -> int:
        match = re.match(r"\[(%\w+)\s*,", arg)
        value = self.value(warp, match[1]) if match else TOP
        for name, size in self.launch.boxes.items():
            if value == symbol("param", name):
                return size
        raise Refused(line, f"a copy by a tensor map that is not known: {arg}")

    def copy(self, state: State, warp: Warp, each: Instruction, lanes: int) -> None:
        op, args, line = each.op, each.args, each.line
        if op in _LOADS and len(args) == 3:
            self._one(lanes, each)
            at, size = self.one_address(warp, args[0], lanes, line), self.box(warp, args[1], line)
            barrier = self.one_address(warp, args[2], lanes, line)
            if barrier not in state.mbarriers:
                raise Refused(line, "no mbarrier has been initialised at this address")
            event = self._bulk(state, warp, each, lanes, at, size, write=True)
            barriers.copied(state, warp, barrier, lanes, line, size, event)
        elif op in _STORES and len(args) == 2:
            self._one(lanes, each)
            at, size = self.one_address(warp, args[1], lanes, line), self.box(warp, args[0], line)
            event = self._bulk(state, warp, each, lanes, at, size, write=False)
            lane = lanes.bit_length() - 1
            now, groups = warp.bulk.get(lane, (0, ()))
            warp.bulk[lane] = now | event, groups
        elif op == "cp.async.bulk.commit_group" and not args:
            for lane in [lane for lane in warp.bulk if lanes >> lane & 1]:
                now, groups = warp.bulk[lane]
                warp.bulk[lane] = 0, (*groups, now) if groups or now else ()
        elif op in ("cp.async.bulk.wait_group", "cp.async.bulk.wait_group.read") and len(args) == 1:
            left = self.number(warp, args[0], line)
            for lane in [lane for lane in warp.bulk if lanes >> lane & 1]:
                now, groups = warp.bulk[lane]
                cut = max(len(groups) - left, 0)
                for ids in groups[:cut]:
                    warp.learn(ids, 1 << lane)
                warp.bulk[lane] = now, groups[cut:]
                if not now and not groups[cut:]:
                    del warp.bulk[lane]
        else:
            raise Refused(line, f"not known: {each.text}")

    @staticmethod
    def _one(lanes: int, each: Instruction) -> None:
        if lanes & (lanes - 1):
            raise Refused(each.line, "a bulk copy by several lanes")

    def _bulk(self, state: State, warp: Warp, each: Instruction, lanes: int, at: int, size: int, *, write: bool) -> int:
        return memory.access(
            state,
            warp,
            each.line,
            write=write,
            asynchronous=True,
            shares=((lanes.bit_length() - 1, memory.span(self.unit, at, size, each.line, 128)),),
            barriers=self.barrier_units(state),
            outside=self.outside,
        )

    def wgmma(self, state: State, warp: Warp, each: Instruction, lanes: int) -> None:
        if lanes != ALL:
            raise Refused(each.line, "wgmma by some lanes of a warp")
        warp.converge()
        if each.op == "wgmma.fence.sync.aligned":
            warp.dirty = 0
        elif each.op == "wgmma.commit_group.sync.aligned":
            warp.groups, warp.open = (*warp.groups, warp.open), ()
        elif each.op == "wgmma.wait_group.sync.aligned":
            cut = max(len(warp.groups) - self.number(warp, each.args[0], each.line), 0)
            for group in warp.groups[:cut]:
                for product in group:
                    warp.known |= product.ids
            warp.groups = warp.groups[cut:]
            while warp.groups and not warp.groups[0]:
                warp.groups = warp.groups[1:]
        elif match := _PRODUCT.fullmatch(each.op):
            self.product(state, warp, each, match)
        else:
            raise Refused(each.line, f"not known: {each.op}")

    def product(self, state: State, warp: Warp, each: Instruction, match: re.Match[str]) -> None:
        args, line = each.args, each.line
        if match[3] not in _ITEM or _ITEM[match[3]] * int(match[2]) != 32 or not args[0].startswith("{"):
            raise Refused(line, f"not known: {each.op}")
        fragment = args[1].startswith("{")
        accumulators = self._bits(set(registers(args[0])))
        fragments = self._bits(set(registers(args[1]))) if fragment else 0
        form = (f"n{match[1]}", args[0])
        if warp.dirty & (accumulators | fragments):
            raise Refused(line, "no wgmma.fence since an access to registers of this product")
        for other in (p for group in (*warp.groups, warp.open) for p in group):
            mixed = accumulators & other.accumulators and form != other.form
            if mixed or accumulators & other.fragments or fragments & other.accumulators:
                raise Refused(line, "accesses registers of a product that need not be complete")
        majors = [self.number(warp, arg, line) for arg in args[6:]]
        expected = (0 if _ITEM[match[3]] != 2 else 1 if fragment else 2) if match[3] not in ("s8", "u8") else 0
        if len(majors) != expected and not (match[3] in ("s8", "u8") and len(args) <= 6):
            raise Refused(line, f"not known: {each.text}")
        operands = [] if fragment else [(args[1], 64, majors[0] if majors else 0)]
        operands.append((args[2], int(match[1]), majors[-1] if majors else 0))
        units, words = 0, []
        for arg, outer, major in operands:
            word = self.number(warp, arg, line) % (1 << 64)
            shape = (int(match[2]), outer * _ITEM[match[3]]) if major else (outer, 32)
            pieces = rows_of_16(word, major, *shape)
            if pieces is None:
                raise Refused(line, f"a descriptor that is not known: {word:#x}")
            words.append(word)
            for address in pieces:
                units |= memory.span(self.unit, address, 16, line)
        event = memory.access(
            state,
            warp,
            line,
            write=False,
            asynchronous=True,
            shares=tuple((lane, units if lane == 0 else 0) for lane in range(32)),
            barriers=self.barrier_units(state),
            outside=self.outside,
        )
        warp.open += (Product(event, accumulators, fragments, form),)
        self.together(state, warp, (warp.pc, *words), line)

    def together(self, state: State, warp: Warp, what: tuple[Any, ...], line: int) -> None:
        """The four warps of a warpgroup execute the same products."""
        group, place = divmod(warp.number, 4)
        if (group + 1) * 4 > len(state.warps):
            raise Refused(line, "a product by less than four warps")
        queues = list(state.products.get(group, ((), (), (), ())))
        queues[place] += (what,)
        while all(queues):
            if len({queue[0] for queue in queues}) > 1:
                raise Refused(line, "warps of a warpgroup execute different products")
            queues = [queue[1:] for queue in queues]
        state.products[group] = tuple(queues)


def _below_zero(a: Value) -> bool:
    return a.value < 0 if isinstance(a, Counter) else isinstance(a, int) and signed(a, 32) < 0


def _select(a: Value, b: Value, p: Value) -> Value:
    if p in (0, 1):
        return a if p == 1 else b
    return unknown(a, b, p)


def _extended(value: Value) -> Value:
    if isinstance(value, int):
        return signed(value, 32) % (1 << 64)
    return value if isinstance(value, Affine) else unknown(value)


__all__ = ["BASE", "Fork", "Machine", "Question"]
