"""What each warp of a block does, for sizes that are given: its events in order, by concrete execution of PTX text.

It shares the reading of statements with the prover, and nothing else: control flow is as it is written (the prover
rewrites it, minitile.proof.loops), no abstract values, no liveness, no slice. What is loaded (but for `LOADED`) and
what floats compute is unknown; if an event or a branch hangs on it, `Unsupported` is raised. Registers of products are
followed here too, since they are a warp's own. `dpor` explores the schedules.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from minitile.proof.reading import statements, without_block_comments, without_debug_sections
from minitile.proof.text import ARITHMETIC, Instruction, Launch, _arrays, _body, _instruction
from minitile.runtime.sim.ptx.instructions.wgmma_layout import Descriptor
from tests.proof.arithmetic import COMPARE, INTEGER

ALL = (1 << 32) - 1
POINTER = 1 << 40  # of the first pointer of the launch
MAP = 1 << 50  # of the first tensor map
HOME = 5 * 1024  # of a shared array that is aligned to 1024 bytes, as minitile.proof.text places it
MOST_STEPS = 200_000
LOADED = "loaded"  # among sizes: what 32 bits of memory hold that an event or a branch hangs on
Value: TypeAlias = "int | tuple[int | None, ...] | None"
Share: TypeAlias = "tuple[tuple[int, int, int], ...]"  # (lane, begin, bytes)


class Unsupported(Exception):
    """What is not looked at here."""


class Broken(Exception):
    """A fault that no schedule is needed for."""


@dataclass(frozen=True, eq=False)
class Event:
    """What these lanes of a warp do. `kind`: access, fence, mbarrier_init, mbarrier_fence, load, store, commit, wait
    (bulk groups), cp, cp_commit, cp_wait, arrive, expect, try_wait, bar, meet, product, product_wait. `atomic`: a write
    that reads as well."""

    kind: str
    lanes: int
    line: int
    at: int = 0
    number: int = 0
    bytes: int = 0
    write: bool = False
    share: tuple[tuple[int, int, int], ...] = ()
    what: Any = None
    atomic: bool = False


@dataclass
class Warp:
    number: int
    registers: dict[str, Value] = field(default_factory=dict)
    pcs: list[int] = field(default_factory=lambda: [0] * 32)
    events: list[Event] = field(default_factory=list)
    open: list[Any] = field(default_factory=list)  # products since the last commit: registers
    groups: list[list[Any]] = field(default_factory=list)
    dirty: set[str] | None = None  # None: all
    issued: int = 0
    committed: list[int] = field(default_factory=list)  # for each group, how many products had been issued
    bulk: int = 0


@dataclass(frozen=True)
class Code:
    """An entry as it is written. `arrays`: shared arrays as name to (offset, bytes); `shared`: their bytes together."""

    code: tuple[Instruction, ...]
    threads: int
    arrays: Mapping[str, tuple[int, int]]
    shared: int

    @staticmethod
    def of(text: str, launch: Launch) -> Code:
        _, header, body = _body(without_debug_sections(without_block_comments(text)))
        found, last = statements(body)
        labels = {name: n for n, each in enumerate(found) for name in each.labels} | dict.fromkeys(last, len(found))
        code = [_instruction(n, each) for n, each in enumerate(found)]
        code = [replace(each, target=labels[each.args[0]]) if each.base == "bra" else each for each in code]
        said = re.search(r"\.reqntid\s+(\d+)", re.sub(r"//[^\n]*", "", header))
        threads = int(said[1]) if said else launch.threads or math.prod(launch.block)
        if threads < 32:
            raise Unsupported("less than a warp")
        return Code(tuple(code), threads, *_arrays(header, body, launch))


def traces(
    text: str,
    launch: Launch,
    sizes: Mapping[str, int],
    together: tuple[int, ...] = (),
    block: tuple[int, int, int] = (0, 0, 0),
) -> Block:
    """The events of each warp of one block. `together`: lines of waits that all lanes of a warp leave together. Raises
    Unsupported, Broken, and what the parser refuses."""
    return Block(Code.of(text, launch), launch, sizes, together, block)


def _lanes(mask: int) -> Iterable[int]:
    return (n for n in range(32) if mask >> n & 1)


def _signed(value: int, width: int) -> int:
    return value - (1 << width) if value >> (width - 1) & 1 else value


def _over(function: Callable[..., int], *values: Value) -> Value:
    """A function of numbers, by lane; unknown of what is unknown."""
    if not any(isinstance(v, tuple) for v in values):
        return None if any(v is None for v in values) else function(*values)
    columns = [v if isinstance(v, tuple) else (v,) * 32 for v in values]
    out = tuple(None if None in each else function(*each) for each in zip(*columns, strict=True))
    return out[0] if all(v == out[0] for v in out) else out


_REGISTER = re.compile(r"%[A-Za-z_]\w*(?:\.[xyz])?")
_NUMBER = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|\d+)")
_INT_OP = re.compile(r"(add|sub|mul\.lo|and|or|xor|shl|shr|min|max|div|rem)\.([sub])(16|32|64)")
_PRODUCT = re.compile(r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k(\d+)\.\w+\.(\w+)\.\w+(?:\.satfinite)?")
_ITEM = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1}
_QUIET = ("griddepcontrol", "setmaxnreg", "prefetch", "nanosleep", "st.global", "red.global", "fence.acq_rel", "membar")
_LOADS = ("ld.global.", "ld.acquire.gpu.global.", "atom.global.", "atom.acq_rel.gpu.global.")
_SHARED = re.compile(r"(?:st|ld)\.shared(?:::cta)?(?:\.v([24]))?\.[busf](8|16|32|64|128)")
_ATOMIC = re.compile(r"(?:atom|red)(?:\.relaxed\.cta)?\.shared(?:::cta)?\.\w+\.[busf](32|64)")


class Block:
    """`events[w]`: of warp w, in its order."""

    def __init__(
        self,
        program: Code,
        launch: Launch,
        sizes: Mapping[str, int],
        together: tuple[int, ...],
        block: tuple[int, int, int],
    ) -> None:
        self.program, self.launch, self.sizes, self.together = program, launch, sizes, together
        self.special: dict[str, Value] = {
            "%laneid": tuple(range(32)),
            **{f"%ctaid.{axis}": n for axis, n in zip("xyz", block, strict=True)},
            **{f"%nctaid.{axis}": n + 1 for axis, n in zip("xyz", block, strict=True)},
        }
        self.extents = (*launch.block, 1, 1, 1)[:3] if launch.block else (program.threads, 1, 1)
        self.needed = self._needed()
        self.product_registers = {
            name
            for each in program.code
            if each.op.startswith("wgmma.mma_async")
            for arg in each.args[:2]
            if arg.startswith("{")
            for name in _REGISTER.findall(arg)
        }
        self.touched = [self.product_registers & {*each.writes, *each.reads} for each in program.code]
        self.warps = [Warp(n) for n in range(program.threads // 32)]
        for warp in self.warps:
            self._run(warp)
        self.events = [warp.events for warp in self.warps]

    def _needed(self) -> set[str]:
        """Registers that anything but values may hang on."""
        code, found = self.program.code, set()
        for each in code:
            if each.base in ("bra", "ret", "mbarrier", "bar", "barrier", "cp", "wgmma", "fence", "elect"):
                found |= set(each.reads)
            elif ".shared" in each.op:
                found |= set(_REGISTER.findall(" ".join(arg for arg in each.args if arg.startswith("["))))
            found |= {each.guard} if each.guard else set()
        size = -1
        while size != len(found):
            size = len(found)
            for each in code:
                if not found.isdisjoint(each.writes):
                    found |= set(each.reads)
        return found

    # -- control

    def _run(self, warp: Warp) -> None:
        """Lanes that are behind run first, so that they meet again where ways join."""
        code, end = self.program.code, len(self.program.code)
        for _ in range(MOST_STEPS):
            pc = min(warp.pcs)
            if pc >= end:
                self._end(warp)
                return
            mask = sum(1 << n for n in range(32) if warp.pcs[n] == pc)
            each = code[pc]
            lanes = self._active(warp, each, mask)
            if each.base == "bra":
                for n in _lanes(mask):
                    warp.pcs[n] = each.target if lanes is not None and lanes >> n & 1 else pc + 1
                if lanes is None:
                    raise Unsupported(f"line {each.line}: a branch on what is not known")
                continue
            if each.op == "ret":
                if lanes is None:
                    raise Unsupported(f"line {each.line}: ends by what is not known")
                for n in _lanes(mask):
                    warp.pcs[n] = end if lanes >> n & 1 else pc + 1
                continue
            if lanes != 0:
                self._execute(warp, each, lanes, mask)
            for n in _lanes(mask):
                warp.pcs[n] = pc + 1
        raise Unsupported("too many steps")

    def _end(self, warp: Warp) -> None:
        if warp.open or any(warp.groups):
            raise Broken("ends with products under way")
        if warp.bulk:
            raise Broken("ends with bulk stores under way")

    def _active(self, warp: Warp, each: Instruction, mask: int) -> int | None:
        """The lanes that execute; None: not known."""
        if not each.guard:
            return mask
        value = warp.registers.get(each.guard)
        out = 0
        for n in _lanes(mask):
            truth = value[n] if isinstance(value, tuple) else value
            if truth is None:
                return None
            out |= (bool(truth) != each.negated) << n
        return out

    # -- values

    def _value(self, warp: Warp, arg: str) -> Value:
        if arg in warp.registers:
            return warp.registers[arg]
        if _NUMBER.fullmatch(arg):
            return int(arg, 0)
        if arg.startswith(("%tid.", "%ntid.")):
            axis, (x, y, _) = "xyz".index(arg[-1]), self.extents
            if arg.startswith("%n"):
                return self.extents[axis]
            lanes = range(warp.number * 32, warp.number * 32 + 32)
            found = tuple((n % x, n // x % y, n // x // y)[axis] for n in lanes)
            return found[0] if len({*found}) == 1 else found
        if arg in self.special:
            return self.special[arg]
        if arg in self.program.arrays:
            return self.program.arrays[arg][0]
        maps = list(self.launch.boxes)
        return MAP + maps.index(arg) if arg in maps else None

    def _put(self, warp: Warp, name: str, value: Value, lanes: int, width: int = 64) -> None:
        value = _over(lambda v: v % (1 << width), value)
        if lanes != ALL:
            old, new = (v if isinstance(v, tuple) else (v,) * 32 for v in (warp.registers.get(name), value))
            value = tuple(new[n] if lanes >> n & 1 else old[n] for n in range(32))
            value = value[0] if all(v == value[0] for v in value) else value
        warp.registers[name] = value

    def _number(self, warp: Warp, arg: str, lanes: int, line: int) -> int:
        value = self._value(warp, arg)
        found = {value[n] for n in _lanes(lanes)} if isinstance(value, tuple) else {value}
        if len(found) != 1 or None in found:
            raise Unsupported(f"line {line}: {arg} is not one number")
        return int(found.pop())  # type: ignore[arg-type]

    def _addresses(self, warp: Warp, arg: str, lanes: int, line: int) -> dict[int, int]:
        match = re.fullmatch(r"\[(%?\w+)(?:\+(-?\d+))?\]", arg)
        value = self._value(warp, match[1]) if match else None
        out = {n: value[n] if isinstance(value, tuple) else value for n in _lanes(lanes)}
        if not match or None in out.values():
            raise Unsupported(f"line {line}: an address that is not known: {arg}")
        return {n: (v + int(match[2] or 0)) % (1 << 32) for n, v in out.items()}  # type: ignore[operator]

    def _address(self, warp: Warp, arg: str, lanes: int, line: int) -> int:
        found = set(self._addresses(warp, arg, lanes, line).values())
        if len(found) != 1:
            raise Unsupported(f"line {line}: several addresses")
        return found.pop()

    def _arithmetic(self, warp: Warp, each: Instruction, lanes: int) -> None:
        if len(each.writes) != 1:
            for name in each.writes:
                warp.registers[name] = None
            return
        name, op, args = each.writes[0], each.op, each.args
        width, value = 64, None

        def get(n: int, kind: str = "u", bits: int = 64) -> Value:
            found = _over(lambda v: v % (1 << bits), self._value(warp, args[n]))
            return _over(lambda v: _signed(v, bits), found) if kind == "s" else found

        if op.startswith(("mov.", "cvta")):
            value = self._value(warp, args[1])
        elif match := re.fullmatch(r"cvt\.([su])(\d+)\.([su])(\d+)", op):
            value, width = get(1, match[3], int(match[4])), int(match[2])
        elif op.startswith("ld.param"):
            parameter = args[1].strip("[]")
            value = self.sizes.get(parameter, POINTER)
        elif op.startswith(_LOADS):
            value, width = self.sizes.get(LOADED), 32
        elif match := _INT_OP.fullmatch(op):
            width = int(match[3])
            second = "u" if match[1] in ("shl", "shr") else match[2]
            value = _over(INTEGER[match[1][:3]], get(1, match[2], width), get(2, second, width))
        elif match := re.fullmatch(r"mad\.lo\.([su])(32|64)", op):
            width = int(match[2])
            value = _over(lambda a, b, c: a * b + c, *(get(n, match[1], width) for n in (1, 2, 3)))
        elif op == "bfe.u32":
            value, width = _over(lambda a, b, c: a >> b % 256 & (1 << c % 256) - 1, get(1, "u", 32), get(2), get(3)), 32
        elif match := re.fullmatch(r"mul\.wide\.([su])32", op):
            value = _over(lambda a, b: a * b, get(1, match[1], 32), get(2, match[1], 32))
        elif match := re.fullmatch(r"(and|or|xor|not)\.pred", op):
            inverse = match[1] == "not"
            value = _over(lambda a: 1 - a, get(1)) if inverse else self._logic(match[1], get(1), get(2))
        elif match := re.fullmatch(r"setp\.(\w\w)\.([sub])(\d+)", op):
            compare, bits = COMPARE[match[1]], int(match[3])
            value = _over(lambda a, b: int(compare(a, b)), get(1, match[2], bits), get(2, match[2], bits))
        elif match := re.fullmatch(r"selp\.[busf](\d+)", op):
            a, b, p = (v if isinstance(v, tuple) else (v,) * 32 for v in (get(1), get(2), get(3)))
            value = _over(
                lambda v: v, tuple(None if q is None else x if q else y for x, y, q in zip(a, b, p, strict=True))
            )
            width = int(match[1])
        elif op.startswith("shfl.sync.idx") and args[2] == "0" and args[3] == "31":
            found = get(1)
            value = found[0] if isinstance(found, tuple) else found
        self._put(warp, name, value, lanes, width)

    @staticmethod
    def _logic(name: str, a: Value, b: Value) -> Value:
        """An unknown that does not matter is none."""
        x, y = (v if isinstance(v, tuple) else (v,) * 32 for v in (a, b))
        ends = {"and": 0, "or": 1}.get(name)

        def one(p: int | None, q: int | None) -> int | None:
            if ends is not None and ends in (p, q):
                return ends
            return None if p is None or q is None else {"and": p & q, "or": p | q, "xor": p ^ q}[name]

        out = tuple(one(p, q) for p, q in zip(x, y, strict=True))
        return out[0] if all(v == out[0] for v in out) else out

    # -- events

    def _execute(self, warp: Warp, each: Instruction, lanes: int | None, mask: int) -> None:
        op, base = each.op, each.base
        if self.touched[each.pc] and base != "wgmma":
            self._touch(warp, self.touched[each.pc])
        if op.startswith(_QUIET):
            return
        if base in ("atom", "red") and ".shared" in op:
            self._atomic(warp, each, lanes)
            return
        if base in ("shfl", "elect", "vote", "redux", "match") or op.startswith("mma."):
            if mask != ALL or lanes != ALL:
                raise Unsupported(f"line {each.line}: by some lanes of a warp")
            self._emit(warp, Event("meet", ALL, each.line))
        if base == "elect":
            warp.registers[each.args[0].partition("|")[2]] = (1, *(0,) * 31)
            return
        plain = base not in ("bar", "barrier", "fence", "mbarrier", "cp", "wgmma", "st", "stmatrix", "ldmatrix")
        if plain and not op.startswith("ld.shared"):
            if lanes is None:
                for name in each.writes:
                    warp.registers[name] = None
            elif not self.needed.isdisjoint(each.writes):
                self._arithmetic(warp, each, lanes)
            return
        if lanes is None:
            raise Unsupported(f"line {each.line}: an event by what is not known")
        getattr(self, f"_{base}" if base != "barrier" else "_bar")(warp, each, lanes)

    def _emit(self, warp: Warp, event: Event) -> None:
        warp.events.append(event)

    def _touch(self, warp: Warp, names: set[str]) -> None:
        for product in (p for group in (*warp.groups, warp.open) for p in group):
            if names & product[0]:
                raise Broken("a register of a product under way")
        if warp.dirty is not None:
            warp.dirty |= names

    def _bar(self, warp: Warp, each: Instruction, lanes: int) -> None:
        if lanes != ALL:
            raise Unsupported(f"line {each.line}: a barrier by some lanes")
        if each.op == "bar.warp.sync":
            self._emit(warp, Event("meet", ALL, each.line, write=True))
            return
        args = each.args[1:] if ".red" in each.op else each.args
        for name in each.writes:
            warp.registers[name] = None
        number = self._number(warp, args[0], lanes, each.line)
        counts = args[1:] if ".red" not in each.op else args[1:-1]
        threads = self._number(warp, counts[0], lanes, each.line) if counts else self.program.threads
        self._emit(warp, Event("meet", ALL, each.line))
        waits = "arrive" not in each.op
        self._emit(warp, Event("bar", ALL, each.line, number, threads, write=waits))

    def _fence(self, warp: Warp, each: Instruction, lanes: int) -> None:
        if each.op == "fence.mbarrier_init.release.cluster":
            self._emit(warp, Event("mbarrier_fence", lanes, each.line))
        elif each.op in ("fence.proxy.async", "fence.proxy.async.shared::cta"):
            self._emit(warp, Event("fence", lanes, each.line))
            self._emit(warp, Event("mbarrier_fence", lanes, each.line))  # of initialisations too

    def _mbarrier(self, warp: Warp, each: Instruction, lanes: int) -> None:
        op, args, line = each.op, each.args, each.line
        if op.startswith("mbarrier.init"):
            at, count = self._address(warp, args[0], lanes, line), self._number(warp, args[1], lanes, line)
            if lanes & (lanes - 1):
                raise Broken("an mbarrier initialised by several lanes")
            self._emit(warp, Event("mbarrier_init", lanes, line, at, count))
        elif op.startswith("mbarrier.arrive"):
            at, last = self._address(warp, args[1], lanes, line), 1
            if len(args) > 2:
                last = self._number(warp, args[2], lanes, line)
            expects = "expect_tx" in op
            self._emit(warp, Event("arrive", lanes, line, at, 1 if expects else last, last if expects else 0))
        elif op.startswith("mbarrier.expect_tx"):
            at = self._address(warp, args[0], lanes, line)
            self._emit(warp, Event("expect", lanes, line, at, 0, self._number(warp, args[1], lanes, line)))
        elif op.startswith("mbarrier.try_wait.parity"):
            if not self._is_tried_again(warp, each, lanes):
                raise Unsupported(f"line {line}: a wait that is not tried again for the same phase")
            at, parity = self._address(warp, args[1], lanes, line), self._number(warp, args[2], lanes, line)
            meets = [Event("meet", ALL, line)] if line in self.together and lanes == ALL else []
            warp.events += [*meets, Event("try_wait", lanes, line, at, parity), *meets]
            self._put(warp, args[0], 1, lanes)
        else:
            raise Unsupported(f"line {line}: {op}")

    def _is_tried_again(self, warp: Warp, each: Instruction, lanes: int) -> bool:
        """Whether a wait that finds its phase not complete is tried again, with nothing but arithmetic between. (How
        often is not counted.)"""
        trial, tried, pc = Warp(warp.number, dict(warp.registers)), set[int](), each.pc

        def phase(now: Instruction) -> tuple[int, int]:
            return self._address(trial, now.args[1], lanes, now.line), self._number(trial, now.args[2], lanes, now.line)

        what = phase(each)
        for _ in range(100):
            now = self.program.code[pc]
            active = self._active(trial, now, lanes)
            if active not in (0, lanes):
                return False
            if active and now.op.startswith("mbarrier.try_wait.parity"):
                if phase(now) != what or pc in tried:
                    return pc in tried and phase(now) == what
                tried.add(pc)
                self._put(trial, now.args[0], 0, lanes)
            elif active and now.base in ARITHMETIC and not now.op.startswith("ld.shared"):
                self._arithmetic(trial, now, lanes)
            elif active and now.base != "bra" and not now.op.startswith(_QUIET):
                return False
            pc = now.target if active and now.base == "bra" else pc + 1
        return False

    def _cp(self, warp: Warp, each: Instruction, lanes: int) -> None:
        op, args, line = each.op, each.args, each.line
        if re.match(r"cp\.async\.c[ag]\.shared", op):
            size = int(args[2])
            share = tuple((n, at, size) for n, at in self._addresses(warp, args[0], lanes, line).items())
            self._emit(warp, Event("cp", lanes, line, write=True, share=share))
        elif op in ("cp.async.commit_group", "cp.async.wait_all", "cp.async.wait_group"):
            if op != "cp.async.wait_group":
                self._emit(warp, Event("cp_commit", lanes, line))
            if "wait" in op:
                self._emit(warp, Event("cp_wait", lanes, line, number=int(args[0]) if args else 0))
        elif op.startswith("cp.async.bulk.") and ".mbarrier::complete_tx" in op:
            at, size = self._address(warp, args[0], lanes, line), self._moved(warp, each, 1, lanes)
            bar = self._address(warp, args[-1], lanes, line)
            share = ((lanes.bit_length() - 1, at, size),)
            self._emit(warp, Event("load", lanes, line, bar, 0, size, True, share))
        elif ".async.bulk." in op and ".bulk_group" in op:
            at, size = self._address(warp, args[1], lanes, line), self._moved(warp, each, 0, lanes)
            warp.bulk = 1
            self._emit(warp, Event("store", lanes, line, share=((lanes.bit_length() - 1, at, size),)))
        elif op == "cp.async.bulk.commit_group":
            warp.bulk = 2 * bool(warp.bulk)
            self._emit(warp, Event("commit", lanes, line))
        elif op.startswith("cp.async.bulk.wait_group"):
            warp.bulk = warp.bulk if int(args[0]) or warp.bulk == 1 else 0
            self._emit(warp, Event("wait", lanes, line, number=int(args[0])))
        else:
            raise Unsupported(f"line {line}: {op}")

    def _moved(self, warp: Warp, each: Instruction, place: int, lanes: int) -> int:
        """Bytes of a bulk copy: of a box of the map at `place`, or as it says."""
        if ".tensor" in each.op:
            return self._box(warp, each.args[place], lanes, each.line)
        if lanes & (lanes - 1):
            raise Unsupported(f"line {each.line}: a bulk copy by several lanes")
        return self._number(warp, each.args[2], lanes, each.line)

    def _box(self, warp: Warp, arg: str, lanes: int, line: int) -> int:
        if lanes & (lanes - 1):
            raise Unsupported(f"line {line}: a bulk copy by several lanes")
        match = re.match(r"\[(%\w+)\s*,", arg)
        value = self._number(warp, match[1], lanes, line) if match else 0
        boxes = list(self.launch.boxes.values())
        if not 0 <= value - MAP < len(boxes):
            raise Unsupported(f"line {line}: a map that is not known")
        return boxes[value - MAP]

    def _st(self, warp: Warp, each: Instruction, lanes: int) -> None:
        match = _SHARED.fullmatch(each.op)
        if not match:
            raise Unsupported(f"line {each.line}: {each.op}")
        size, load = int(match[1] or 1) * int(match[2]) // 8, each.base == "ld"
        addresses = self._addresses(warp, each.args[1 if load else 0], lanes, each.line)
        share = tuple((n, at, size) for n, at in addresses.items())
        self._emit(warp, Event("access", lanes, each.line, write=not load, share=share))
        known = self.sizes.get(LOADED) if len(each.writes) == 1 and size == 4 else None
        for name in each.writes if load else ():
            self._put(warp, name, known, lanes)

    _ld = _st

    def _atomic(self, warp: Warp, each: Instruction, lanes: int | None) -> None:
        match = _ATOMIC.fullmatch(each.op)
        if not match or lanes is None:
            raise Unsupported(f"line {each.line}: {each.op}")
        addresses = self._addresses(warp, each.args[1 if each.base == "atom" else 0], lanes, each.line)
        share = tuple((n, at, int(match[1]) // 8) for n, at in addresses.items())
        self._emit(warp, Event("access", lanes, each.line, write=True, share=share, atomic=True))
        for name in each.writes:
            self._put(warp, name, None, lanes)

    def _stmatrix(self, warp: Warp, each: Instruction, lanes: int) -> None:
        if lanes != ALL:
            raise Unsupported(f"line {each.line}: a matrix by some lanes")
        load = each.base == "ldmatrix"
        count = int(re.search(r"\.x([124])\b", each.op)[1])  # type: ignore[index]
        self._emit(warp, Event("meet", ALL, each.line))
        rows = self._addresses(warp, each.args[1 if load else 0], (1 << 8 * count) - 1, each.line)
        if load:  # all lanes read all rows
            share: Any = tuple((n, at, 16) for n in range(32) for at in rows.values())
        elif ".trans" in each.op:  # lane n has two elements of column n / 4
            share = tuple(
                (4 * column + n % 8 // 2, at + 2 * column, 2) for n, at in rows.items() for column in range(8)
            )
        else:  # lane n has two elements of row n / 4
            share = tuple((4 * (n % 8) + part, at + 4 * part, 4) for n, at in rows.items() for part in range(4))
        self._emit(warp, Event("access", ALL, each.line, write=not load, share=share))
        for name in each.writes:
            self._put(warp, name, None, lanes)

    _ldmatrix = _stmatrix

    def _wgmma(self, warp: Warp, each: Instruction, lanes: int) -> None:
        if lanes != ALL:
            raise Unsupported(f"line {each.line}: wgmma by some lanes")
        self._emit(warp, Event("meet", ALL, each.line))
        if "wgmma.fence" in each.op:
            warp.dirty = set()
        elif "commit_group" in each.op:
            warp.groups.append(warp.open)
            warp.committed.append(warp.issued)
            warp.open = []
        elif "wait_group" in each.op:
            done = max(len(warp.groups) - int(each.args[0]), 0)
            if done:
                warp.groups[:done] = [[] for _ in range(done)]
                self._emit(warp, Event("product_wait", ALL, each.line, number=warp.committed[done - 1]))
        else:
            self._product(warp, each)

    def _product(self, warp: Warp, each: Instruction) -> None:
        match, args = _PRODUCT.fullmatch(each.op), each.args
        if not match:
            raise Unsupported(f"line {each.line}: {each.op}")
        item, (columns, depth) = _ITEM[match[3]], (int(match[1]), int(match[2]))
        own = set(_REGISTER.findall(args[0]))
        fragment = set(_REGISTER.findall(args[1])) if args[1].startswith("{") else set()
        if warp.dirty is None or warp.dirty & (own | fragment):
            raise Broken("no wgmma.fence")
        for names, accumulators, form in (p for group in (*warp.groups, warp.open) for p in group):
            chained = form == (columns, depth, args[0])
            if (own & names and not (chained and own == accumulators)) or fragment & accumulators:
                raise Broken("a register of a product under way")
            if own & (names - accumulators):
                raise Broken("a register of a product under way")
        majors = [int(arg) for arg in args[6:]] if item == 2 else []
        operands = [] if fragment else [(args[1], 64, majors[0] if majors else 0)]
        operands.append((args[2], columns, majors[-1] if majors else 0))
        share = []
        words = []
        for arg, outer, major in operands:
            words.append(self._number(warp, arg, ALL, each.line))
            layout = Descriptor.decode(words[-1])
            pieces = layout.mn_major(depth, outer * item // 16) if major else layout.k_major(outer, depth * item // 16)
            share += sorted({int(at) for at in pieces.ravel()})
        warp.open.append((own | fragment, own, (columns, depth, args[0])))
        warp.issued += 1
        what = (each.pc, *words)
        reads = tuple((0, at, 16) for at in share)
        self._emit(warp, Event("product", ALL, each.line, 0, warp.issued, share=reads, what=what))


__all__ = ["ALL", "HOME", "Block", "Broken", "Event", "Unsupported", "traces"]
