"""What one instruction does to the abstract state. What is not known here is refused.

`Machine.step` executes the next instruction of a warp and says whether it could; it raises `Fork` before any change
where the answer of an oracle is needed: a test of a loop, a truth of the launch, or an unknown of a whole warp.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from minitile.proof import barriers
from minitile.proof.arithmetic.values import (
    TOP,
    UNIFORM,
    Affine,
    Among,
    Counter,
    Predicate,
    Stored,
    Ticket,
    Token,
    Value,
    by_lane,
    lanes_of,
    launch_wide,
    not_negative,
    rounds,
    symbol,
    symbols_in,
    unknown,
    variables_in,
    without_sign,
)
from minitile.proof.branches import ATOMIC_OF_SHARED, CP_ASYNC, IDLE_FENCES, SHARED, TENSOR_STORES, Branches, is_access
from minitile.proof.divergence import meet
from minitile.proof.events import Footprint, MBarrier, replace
from minitile.proof.memory import Memory, fence
from minitile.proof.questions import Fork, Question, Residue
from minitile.proof.registers import WINDOW
from minitile.proof.shortcuts.blocks import blocks, names_truth
from minitile.proof.shortcuts.bursts import Burst, bursts, form, piece
from minitile.proof.state import ALL, State, Warp, bits, committed, lanes_in, without_empty
from minitile.proof.text import (
    ARITHMETIC,
    ATOMIC,
    DRAW,
    EVENTS,
    INTEGER,
    LOADED,
    STORES,
    Fault,
    Instruction,
    Launch,
    Program,
    Refused,
    Region,
    is_wait,
)
from minitile.proof.tickets import Tickets, drawn, draws, name_truth, of_tickets, placed

_IDLE = (
    "griddepcontrol.",
    "prefetch",
    "nanosleep",
    *STORES,
    "red.global",
    "red.relaxed.gpu.global",
)
_LOAD = "cp.async.bulk.tensor.{}d.shared::{}.global.mbarrier::complete_tx::bytes"
_LOADS = {_LOAD.format(n, where) for n in range(1, 6) for where in ("cluster", "cta")}
_COPY_OF_BYTES = re.compile(r"cp\.async\.bulk\.shared::(?:cluster|cta)\.global\.mbarrier::complete_tx::bytes")
_STORE_OF_BYTES = re.compile(
    r"cp\.(?:reduce\.)?async\.bulk\.global\.shared::cta\.bulk_group(?:\.\w+\.\w+)?(?:\.noftz)?"
)
_ST_ASYNC = re.compile(
    r"st\.async(?:\.weak)?\.shared::cluster\.mbarrier::complete_tx::bytes(?:\.v([24]))?\.[busf](32|64)"
)
_GENERIC = re.compile(r"(ld|st)\.shared::any((?:\.v[24])?\.[busf](?:8|16|32|64|128))")
_ARRIVES_LATER = {f"cp.async.mbarrier.arrive.noinc.shared{where}.b64" for where in ("", "::cta")}
_INIT = re.compile(r"mbarrier\.init\.shared(::cta)?\.b64")
_ARRIVE = re.compile(r"mbarrier\.arrive(\.expect_tx)?(\.release)?(\.cta)?\.shared(::cta)?\.b64")
_EXPECT = re.compile(r"mbarrier\.expect_tx(\.relaxed\.cta)?\.shared(::cta)?\.b64")
_WAIT = re.compile(r"mbarrier\.try_wait(?:\.parity)?(\.acquire)?(\.cta)?\.shared(::cta)?\.b64")
_REGISTERS = re.compile(r"setmaxnreg\.(?:inc|dec)\.sync\.aligned\.u32")
_BAR_RED = re.compile(r"(?:bar|barrier)\.red(?:\.aligned)?\.(?:popc\.u32|(?:and|or)\.pred)")
_ACCESSES = ("st", "ld", "stmatrix", "ldmatrix")
NOWHERE = Footprint(0, 0, (), False, -1)  # stands for what has not been looked for
COUNTED = -1000  # names what counters hold, by their places


class Machine(Branches):
    """`together`: instructions at which all lanes of a warp leave a wait together (an assumption, docs/proof.md).
    `tokens`: whether arrivals give some; nothing else does."""

    def __init__(
        self,
        program: Program,
        launch: Launch,
        residues: Mapping[Any, tuple[int, int]] | None = None,
        together: frozenset[int] = frozenset(),
    ) -> None:
        super().__init__(program, launch, residues or {})
        self.together = together
        self.unit = min((piece(each.op) for each in program.code), default=4)
        self.memory = Memory(self.unit, program.arrays.values(), draws(program))
        self.covered: dict[tuple[tuple[int, int, int, int], ...], Footprint] = {}
        for each in program.code:
            if each.op.startswith("mbarrier.try_wait") and not is_wait(program.code, each.pc):
                raise Refused(each.line, "a wait that is not tried again at once")
        self.tokens = any(each.writes and each.op.startswith("mbarrier.arrive") for each in program.code)
        self.named = [self._named(each) for each in program.code]
        self.draws = bool(self.memory.draws)
        self.blocks = blocks(program, self.touches, self.draws)
        self.bursts = [None] * len(program.code) if self.draws else bursts(program, self.touches)
        self.spread: dict[tuple[Any, ...], Footprint | None] = {}  # what bursts cover, by place and addresses

    # -- one instruction

    def step(self, state: State, warp: Warp) -> bool:
        """Executes an instruction; False: the warp is blocked. Raises Refused and Fork."""
        if warp.at >= 0 or warp.done:
            return False
        meet(warp)
        each = self.program.code[warp.pc]
        block = self.blocks[warp.pc]
        if block and warp.mask == ALL:
            self.pass_block(state, warp, block)
            warp.pc = block.end
            return True
        burst = self.bursts[warp.pc]
        if burst and warp.mask == ALL and self.burst(state, warp, burst):
            warp.pc = burst.end
            return True
        if warp.pc in self.program.regions:
            self.pass_region(warp, self.program.regions[warp.pc])
            return True
        if each.base == "bra":
            self.branch(state, warp, each)
            return True
        if each.base == "~round":
            warp.pc += 1
            return True
        if each.base == "~beyond":
            self.beyond(state, warp, each)
            return True
        lanes, sure = ALL, True
        if each.guard or warp.mask != ALL:
            lanes, known = self.possible(state, warp, each)
            if not known and self.plain[each.pc]:
                self._perhaps(warp, each, lanes)
                warp.pc += 1
                return True
            if not known and (self._is_asked(warp, each) or not is_access(each)):
                lanes = self.lanes(state, warp, each)
            elif not known:
                self.guessed, sure = True, False
        if lanes and not self.execute(state, warp, each, lanes, sure):
            return False
        warp.pc += 1
        return True

    def beyond(self, state: State, warp: Warp, each: Instruction) -> None:
        """What minitile.proof.loops puts where no run may come. `asked`, `sign`: of sizes alone it is asked for. Of
        what is computed of them it is taken for granted (docs/proof.md), if nothing is known to the contrary. `sign`:
        it must be known, since a number that may be below 0 is compared without a sign."""
        value = warp.registers.get(each.guard, TOP)
        values, made = lanes_of(value), {key[0] for key in symbols_in(value)}
        asked = each.op.endswith((".asked", ".sign")) and made <= {"param", "above", "not", "lt"}
        truths = [self.truth(state, values[lane], asked) for lane in bits(warp.mask)]
        if 1 - each.negated in truths:
            raise Refused(each.line, "a loop that passes by its bound")
        if each.op.endswith(".sign") and any(truth != int(each.negated) for truth in truths):
            raise Refused(each.line, "a loop tests without a sign what may be below 0")
        warp.pc += 1

    def pass_region(self, warp: Warp, region: Region) -> None:
        """Some number of rounds of a loop that only computes. Where all that it reads is one for the launch, so is what
        it leaves: a symbol for each register."""
        for each in self.program.code[warp.pc : region.end]:
            self._touch(warp, each)
        read = tuple(rounds(self.value(warp, name)) for name in region.inputs)
        left: Value = TOP
        if region.loads & self.program.pointers <= self.program.only_read and LOADED not in region.loads:
            one = all(launch_wide(value) or isinstance(value, Predicate) for value in read)
            again = any(key[0] == "region" and key[1][0] == region.text for value in read for key in symbols_in(value))
            left = None if one and not again else unknown(*read)
        for name, place in region.outputs.items():
            self.put(warp, name, symbol("region", (region.text, place), read) if left is None else left, warp.mask)
        warp.pc = region.end

    def execute(self, state: State, warp: Warp, each: Instruction, lanes: int, sure: bool = True) -> bool:
        """`sure`: whether it is known that these lanes execute it, and not only that they may."""
        op = each.op
        if each.base != "wgmma":
            self._touch(warp, each)
        if warp.fresh and each.base in EVENTS and each.base not in _ACCESSES and not CP_ASYNC.fullmatch(op):
            warp.fresh = ()
        if each.base in ARITHMETIC and not op.startswith("ld.shared"):
            if each.base in ("elect", "shfl", "vote", "redux", "match"):
                # The mask must name those that execute it; elect is known for whole warps only.
                mask = self.value(warp, each.args[-1])
                named = isinstance(mask, int) and mask % (1 << 32) == lanes and ".sync" in each.op
                absent = op.startswith("shfl.sync.idx") and self.operand(warp, each.args[2], 32) == 0 and not lanes & 1
                if not named or absent or (each.base == "elect" and lanes != ALL):
                    raise Refused(each.line, f"by some lanes of a warp: {each.text}")
            if each.base == "mma" and lanes != ALL:
                raise Refused(each.line, "a product by some lanes of a warp")
            if each.base == "ld" and not op.startswith(
                ("ld.param.", "ld.global.", "ld.volatile.global.", "ld.const.", "ld.local.", *ATOMIC)
            ):
                raise Refused(each.line, f"not known: {each.op}")
            self.arithmetic(state, warp, each, lanes)
            if self.draws and names_truth(each):
                self.renew(warp, each.pc)
                name_truth(warp, each, lanes, *(self.value(warp, arg) for arg in (*each.args[1:3], "")[:2]))
        elif each.base == "mbarrier":
            return self.mbarrier(state, warp, each, lanes)
        elif each.base in ("bar", "barrier"):
            return self.bar(state, warp, each, lanes)
        elif each.base == "wgmma":
            return self.wgmma(state, warp, each, lanes)
        elif each.base == "cp":
            self.copy(state, warp, each, lanes)
        elif each.base in ("fence", "membar"):
            self.fence(state, warp, each, lanes)
        elif op == "ret":
            self.ret(state, warp, each, lanes)
        elif ATOMIC_OF_SHARED.fullmatch(op):
            self.atomic(state, warp, each, lanes)
        elif _ST_ASYNC.fullmatch(op):
            self.stored_asynchronously(state, warp, each, lanes)
        elif match := _GENERIC.fullmatch(op):
            return self.anywhere(state, warp, each, lanes, sure, f"{match[1]}.shared{match[2]}")
        elif op.startswith(ATOMIC):
            for name in each.writes:
                self.put(warp, name, self.given(warp, each, lanes) if sure else TOP, lanes)
        elif _REGISTERS.fullmatch(op) and len(each.args) == 1:
            if lanes != ALL:
                raise Refused(each.line, f"by some lanes of a warp: {each.text}")
            self.by_warpgroup(state, warp, each)
        elif op.startswith(_IDLE):
            pass
        else:
            self.generic(state, warp, each, lanes, sure)
        return True

    def given(self, warp: Warp, each: Instruction, lanes: int) -> Value:
        """What an atomic operation on global memory gives one lane: a number of its own for each round of the loops
        around; unknown, if not each way to come to the instruction again counts rounds."""
        loops, kind = self.enclosing(each.pc), re.fullmatch(r"atom(?:\.\w+)*\.global.*\.([bsu])32", each.op)
        if loops is None or kind is None or lanes & (lanes - 1) or self.passing or len(each.writes) != 1:
            return TOP
        counters = tuple(self.value(warp, loop.counter) for loop in loops)
        if not all(isinstance(each, Counter) for each in counters):
            return TOP
        value = symbol("given", each.pc, warp.number, lanes.bit_length() - 1, counters)
        return without_sign(value) if each.args[0] in self.wide and kind[1] != "s" else value

    # -- synchronisation

    def mbarrier(self, state: State, warp: Warp, each: Instruction, lanes: int) -> bool:
        op, args, line = each.op, each.args, each.line
        if _INIT.fullmatch(op) and len(args) == 2:
            self.initialise(state, warp, each, lanes)
            return True
        if _EXPECT.fullmatch(op) and len(args) == 2:
            at, size = self.mbarrier_at(state, warp, args[0], lanes, line), self.number(warp, args[1], line, lanes)
            barriers.expect(state, warp, at, lanes, line, size)
            return True
        if len(args) < 2 or not (_ARRIVE.fullmatch(op) or _WAIT.fullmatch(op)):
            raise Refused(line, f"not known: {each.text}")
        at = self.mbarrier_at(state, warp, args[1], lanes, line)
        if (match := _ARRIVE.fullmatch(op)) and (args[0] == "_" or re.fullmatch(r"%\w+", args[0])):
            token = self.token(state, at)
            if match[1] and len(args) == 3:
                barriers.arrive(state, warp, at, lanes, line, 1, self.number(warp, args[2], line, lanes))
            elif not match[1] and len(args) in (2, 3):
                times = self.number(warp, args[2], line, lanes) if len(args) == 3 else 1
                barriers.arrive(state, warp, at, lanes, line, times, 0)
            else:
                raise Refused(line, f"not known: {each.text}")
            for name in each.writes:
                self.put(warp, name, token, lanes)
            return True
        if _WAIT.fullmatch(op) and len(args) == 3:
            if ".parity" in op:
                parity = self.number(warp, args[2], line, lanes)
            else:
                parity = self.of_token(state, warp, args[2], at, lanes, line)
            if parity not in (0, 1):
                raise Refused(line, f"a parity of {parity}")
            if not barriers.wait(state, warp, at, lanes, each, parity, each.pc in self.together):
                return False
            self.put(warp, args[0], 1, lanes)
            return True
        raise Refused(line, f"not known: {each.text}")

    def token(self, state: State, at: int) -> Token:
        """What an arrival gives: a token of the phase that is not complete. Older ones of this parity are void."""
        barrier = state.mbarriers[at]
        token = Token(at, barrier.index % 2)
        if barrier.pending == barrier.count and self.tokens:
            for warp in state.warps:
                for name, value in warp.registers.items():
                    if value == token:
                        warp.registers[name] = TOP
                    elif isinstance(value, tuple) and Token in map(type, value):
                        warp.registers[name] = tuple(TOP if v == token else v for v in value)
        return token

    def of_token(self, state: State, warp: Warp, arg: str, at: int, lanes: int, line: int) -> int:
        """The parity of a wait for the phase of a token: of the phase that is not complete, or the one before."""
        values = lanes_of(self.value(warp, arg))
        found = {values[lane] for lane in bits(lanes)}
        token = found.pop() if len(found) == 1 else None
        barrier = state.mbarriers[at]
        if not isinstance(token, Token) or token.at != at:
            raise Refused(line, f"not a token of this mbarrier: {arg}")
        if token.parity == barrier.index % 2 and barrier.pending == barrier.count:
            raise Fault(line, "waits by a token of a phase that is over")
        return token.parity

    def mbarrier_at(self, state: State, warp: Warp, arg: str, lanes: int, line: int) -> int:
        at = self.one_address(warp, arg, lanes, line)
        if at not in state.mbarriers:
            raise Fault(line, "no mbarrier has been initialised at this address")
        return at

    def initialise(self, state: State, warp: Warp, each: Instruction, lanes: int) -> None:
        if lanes & (lanes - 1):
            raise Fault(each.line, "an mbarrier initialised by several lanes")
        at = self.one_address(warp, each.args[0], lanes, each.line)
        count = self.number(warp, each.args[1], each.line, lanes)
        if not 0 < count < 1 << 20:
            raise Refused(each.line, f"an mbarrier of {count} arrivals")
        if any(abs(at - other) < 8 for other in state.mbarriers):
            raise Fault(each.line, "an mbarrier initialised twice")
        foot = self.memory.of(((lanes.bit_length() - 1, self.memory.span(at, 8, each.line)),))
        warp.fresh = ()
        event = self.memory.access(state, warp, each.line, foot, write=True)
        warp.fresh = ()
        fence = state.accesses.pop().fence
        warp.learn(event, lanes)
        by = warp.number * 32 + lanes.bit_length() - 1
        state.mbarriers[at] = MBarrier(count, count, event, event, fence, by=by)

    def fence(self, state: State, warp: Warp, each: Instruction, lanes: int) -> None:
        if each.op == "fence.mbarrier_init.release.cluster":
            barriers.initialised(state, warp, lanes)
        elif each.op in ("fence.proxy.async", "fence.proxy.async.shared::cta"):
            fence(state, warp, lanes)
            barriers.initialised(state, warp, lanes)
        elif not each.op.startswith(IDLE_FENCES):
            raise Refused(each.line, f"not known: {each.op}")

    def bar(self, state: State, warp: Warp, each: Instruction, lanes: int) -> bool:
        if lanes != ALL:
            raise Refused(each.line, "a barrier by some lanes of a warp")
        if each.op == "bar.warp.sync" and each.args in (("0xffffffff",), ("-1",), ("4294967295",)):
            warp.synchronise()
        elif _BAR_RED.fullmatch(each.op) and len(each.args) in (3, 4):
            number = self.number(warp, each.args[1], each.line)
            threads = self.number(warp, each.args[2], each.line) if len(each.args) > 3 else self.program.threads
            for name in each.writes:
                warp.registers[name] = UNIFORM
            came = state.named[number].waiting if number in state.named else 0
            barriers.meet(state, warp, number, threads, each.line, True, each.op)
            if warp.at < 0:
                self.reduced(state, warp, each, number, came)
        elif each.op in ("bar.sync", "barrier.sync", "bar.arrive", "barrier.arrive"):
            number = self.number(warp, each.args[0], each.line)
            threads = self.number(warp, each.args[1], each.line) if len(each.args) > 1 else self.program.threads
            barriers.meet(state, warp, number, threads, each.line, "sync" in each.op)
        else:
            raise Refused(each.line, f"not known: {each.op}")
        return True

    def reduced(self, state: State, warp: Warp, each: Instruction, number: int, came: int) -> None:
        """The result of a reduction by a barrier is one for all who were at it: known until the barrier's next one."""
        others = [(other, self.program.code[other.pc - 1]) for other in state.warps if came >> other.number & 1]
        state.forget(Stored(-1 - number))
        if all(i.op == each.op and len(i.writes) == 1 for _, i in (*others, (warp, each))):
            value: Value = symbol("stored", Stored(-1 - number))
            if each.op.endswith(".pred"):
                value = Predicate(("eq", "u32", value, 1))
            for other, i in (*others, (warp, each)):
                other.registers[i.writes[0]] = value

    def ret(self, state: State, warp: Warp, each: Instruction, lanes: int) -> None:
        if lanes != ALL or warp.stack:
            raise Refused(each.line, "some lanes of a warp end before others")
        if warp.open or warp.groups or any(now or groups for now, groups in warp.bulk.values()):
            raise Fault(each.line, "ends while operations that it has started use shared memory")
        warp.done = True
        warp.synchronise()
        state.ended |= warp.known

    # -- accesses

    def generic(self, state: State, warp: Warp, each: Instruction, lanes: int, sure: bool = True) -> None:
        known = form(each.op)
        if known is None:
            raise Refused(each.line, f"not known: {each.op}")
        load, size, lane_mask = known.load, known.size, lanes & known.lanes
        if known.rows:
            warp.converge()
            if lanes != ALL:
                raise Refused(each.line, "a matrix by some lanes of a warp")
        place = each.args[1 if load else 0]
        foot, exact, ticket = self.footprint(warp, each, place, size, lane_mask, known.rows)
        if not exact and not load and foot.units & ~state.written:
            raise Refused(each.line, f"not known where, among bytes that nothing has written: {each.text}")
        same = each.pc in self.program.same or bool(INTEGER.fullmatch(each.args[-1]))
        event = self.memory.access(state, warp, each.line, foot, write=not load, same=same and exact, ticket=ticket)
        warp.did(event, foot.lanes)
        if (
            not load
            and size in (4, 8)
            and not lanes & (lanes - 1)
            and sure
            and exact
            and each.base == "st"
            and "{" not in each.args[1]
        ):
            state.contents[foot.units] = self.stored(state, warp, each, lanes.bit_length() - 1)
        elif self.draws and not load and size == 4 and sure and exact and not foot.clash and "{" not in each.args[1]:
            name = each.args[1]
            is_known = not name.startswith("%") or name in self.program.needed
            number = self.operand(warp, name, 32) if is_known else TOP
            if isinstance(number, int) and number < 1 << 31:
                state.contents.update((word, number) for _, word in foot.shares)
        for name in each.writes:
            value: Value = TOP
            whole = "{" not in each.args[0] and size in (4, 8) and foot.one
            if sure and whole and exact:
                value = state.contents.get(foot.units, UNIFORM)
            elif self.draws and sure and exact and size == 4 and "{" not in each.args[0]:
                words = dict(foot.shares)
                value = tuple(state.contents.get(words.get(n, 0), TOP) for n in range(32))
            if isinstance(value, tuple) or (sure and whole and exact):
                told = not each.op.endswith(".s32") and (isinstance(value, int) or _is_told(value))
                if size == 4 and not told and not not_negative(value):
                    value = unknown(value)  # the register may be of 64 bits
                if size == 4 and told and name in self.wide:
                    value = by_lane(without_sign, value)
            self.put(warp, name, value, lanes)

    def burst(self, state: State, warp: Warp, burst: Burst) -> bool:
        """Executes a burst by all lanes of a warp as one access, if it is one; False: nothing has been done."""
        groups = (*warp.groups, warp.open) if burst.touched else ()
        if groups and any(burst.touched & (each.accumulators | each.fragments) for group in groups for each in group):
            return False
        key = (burst.begin, *[self.value(warp, name) for name in burst.reads])
        foot = self.spread.get(key, NOWHERE)
        if foot is NOWHERE:
            foot = self.spread[key] = self.whole(warp, burst)
        if foot is None:
            return False
        if burst.matrix:
            warp.converge()
        try:
            event = self.memory.access(state, warp, burst.parts[0].line, foot, write=burst.write, copy=burst.copy)
        except Fault:
            return False
        warp.dirty |= burst.touched
        if not burst.copy:
            warp.did(event, foot.lanes)
        elif (event, foot.lanes) not in warp.cp_open:
            warp.cp_open += ((event, foot.lanes),)
        if burst.writes:
            warp.registers.update(dict.fromkeys(burst.writes, TOP))
        return True

    def whole(self, warp: Warp, burst: Burst) -> Footprint | None:
        """What all accesses of a burst touch, if that is known and they neither conflict with each other nor load what
        is one for all."""
        total: Footprint | None = None
        for each in burst.parts:
            addresses, *_ = self.located(warp, each.place, each.lanes)
            if addresses is None:
                return None
            try:
                foot = self.memory.by_lane(addresses, each.size, each.lanes, each.line, each.rows)
            except Fault:
                return None
            met = total is not None and total.units & foot.units
            if (total and total.lanes != foot.lanes) or (each.scalar and foot.one) or (burst.copy and met):
                return None
            total = self.memory.union(total, foot) if total else foot
        return total

    def footprint(
        self, warp: Warp, each: Instruction, arg: str, size: int, lanes: int, rows: str = ""
    ) -> tuple[Footprint, bool, Tickets | None]:
        """What lanes access, and whether they access all of it; else each some place of its share, not known which, but
        by tickets perhaps a place of its own."""
        addresses, offset, value = self.located(warp, arg, lanes)
        values = lanes_of(value)
        if addresses is None and (rows or not any(isinstance(values[n], (Among, Ticket)) for n in lanes_in(lanes))):
            addresses = self.address(warp, arg, lanes, each.line)
        if addresses is not None:
            return self.memory.by_lane(addresses, size, lanes, each.line, rows), True, None
        key = value, offset, size, lanes
        if key in self.memory.guesses:
            self.guessed = True
            return self.memory.guesses[key], False, None
        shares, by_ticket = [], []
        for lane in lanes_in(lanes):
            value = values[lane]
            if isinstance(value, int) and not value >> 32:
                value = Among(value, 1, 1)
            if isinstance(value, Ticket):
                value = placed(value, offset, self.implied(warp, each, lane), each.line, arg)
                by_ticket.append((values[lane], value))
            elif isinstance(value, Among):
                value = Among(value.low + offset, value.step, value.count)
            else:
                raise self.unknown_number(warp, each.line, arg, value)
            units = self.memory.anywhere(value, size, each.line)
            shares.append((lane, units))
        self.guessed = True  # an access anywhere in its share is taken for done
        foot = self.memory.of(tuple(shares))
        if not by_ticket:
            self.memory.guesses[key] = foot
        return foot, False, of_tickets(by_ticket, size) if len(by_ticket) == len(shares) else None

    def atomic(self, state: State, warp: Warp, each: Instruction, lanes: int) -> None:
        """Each of these lanes reads and writes as one; two such accesses do not conflict."""
        size = 8 if re.search(r"\.[busf]64$", each.op) else 4
        foot, exact, _ = self.footprint(warp, each, each.args[1 if each.base == "atom" else 0], size, lanes)
        if foot.units & ~state.written:
            raise Fault(each.line, "reads bytes that nothing has written")
        given: Value = TOP
        counts: list[int] = []
        number = self.value(warp, each.args[2]) if self.draws and exact and DRAW.fullmatch(each.op) else 0
        adds = number if isinstance(number, int) and 0 < number < 1 << 16 else 0
        if adds:
            self.renew(warp, each.pc)
            words = [(lane, word, self.needs(warp, each, lane)) for lane, word in foot.shares]
            given = drawn(state, warp, each, words, adds)
            held = {word for _, word in foot.shares}
            counts = sorted(word for word in held if not_negative(state.contents.get(word, TOP)))
        event = self.memory.access(state, warp, each.line, foot, write=True, atomic=True, adds=adds)
        for word in counts:  # it holds some number, one for all who load it before it is written again
            state.forget(Stored(COUNTED - word.bit_length()))
            state.contents[word] = symbol("count", Stored(COUNTED - word.bit_length()))
        warp.did(event, foot.lanes)
        for name in each.writes:
            self.put(warp, name, given, lanes)

    def stored_asynchronously(self, state: State, warp: Warp, each: Instruction, lanes: int) -> None:
        """st.async within the block: each of these lanes writes, and counts its bytes at an mbarrier. The PTX ISA does
        not say by which proxy, so what either demands is demanded."""
        match = _ST_ASYNC.fullmatch(each.op)
        assert match
        size = int(match[1] or 1) * int(match[2]) // 8
        barrier = self.mbarrier_at(state, warp, each.args[2], lanes, each.line)
        foot, exact, _ = self.footprint(warp, each, each.args[0], size, lanes)
        if not exact:
            raise Refused(each.line, f"not known: {each.args[0]}")
        event = self.memory.access(state, warp, each.line, foot, write=True, asynchronous=True, either=True)
        barriers.copied(state, warp, barrier, lanes, each.line, size * lanes.bit_count(), event)

    def anywhere(self, state: State, warp: Warp, each: Instruction, lanes: int, sure: bool, op: str) -> bool:
        """An access by a generic address, which must be known to be of shared or of global memory."""
        load = each.base == "ld"
        match = re.fullmatch(r"\[(%\w+)((?:\+-?\d+)?)\]", each.args[1 if load else 0])
        values = lanes_of(self.value(warp, match[1]) if match else TOP)
        terms = {v.terms if isinstance(v, Affine) else None for n, v in enumerate(values) if lanes >> n & 1}
        if match and terms == {WINDOW.terms}:
            shared = tuple(v.const % (1 << 64) if isinstance(v, Affine) else 0 for v in values)
            name = "%~generic"
            warp.registers[name] = shared
            place = f"[{name}{match[2]}]"
            args = (each.args[0], place) if load else (place, each.args[1])
            self.generic(state, warp, replace(each, op=op, args=args), lanes, sure)
            del warp.registers[name]
            return True
        if not all(each_terms is not None and self._is_pointer(each_terms) for each_terms in terms):
            raise Refused(each.line, f"not known whether of shared or of global memory: {each.text}")
        for written in each.writes:
            self.put(warp, written, TOP, lanes)
        return True

    def _is_pointer(self, terms: tuple[Any, ...]) -> bool:
        """Whether a sum is an address of global memory: a parameter's, and no other's."""
        names = [
            key for key, _ in terms if key[0] == "window" or (key[0] == "param" and key[1] in self.program.pointers)
        ]
        return len(names) == 1 and names[0][0] == "param" and (names[0], 1) in terms

    def stored(self, state: State, warp: Warp, each: Instruction, lane: int) -> Value:
        """What a lane stores: a number that is one for the launch, or else the last that is stored here."""
        arg, form = each.args[1], SHARED.fullmatch(each.op)
        assert form
        value = rounds(lanes_of(self.operand(warp, arg, int(form[2])))[lane])
        half = form[2] == "32" and arg in self.wide and not isinstance(value, int)
        if launch_wide(value) and not half and (not arg.startswith("%") or arg in self.program.needed):
            return value
        state.forget(Stored(each.pc))
        return symbol("stored", Stored(each.pc))

    def box(self, warp: Warp, arg: str, line: int) -> int:
        match = re.match(r"\[(%\w+)\s*,", arg)
        value = self.value(warp, match[1]) if match else TOP
        for name, size in self.launch.boxes.items():
            if value == symbol("address", name):
                return size
        raise Refused(line, f"a copy by a tensor map that is not known: {arg}")

    def copy(self, state: State, warp: Warp, each: Instruction, lanes: int) -> None:
        op, args, line = each.op, each.args, each.line
        if op in _LOADS and len(args) == 3:
            self._one(lanes, each)
            at, size = self.one_address(warp, args[0], lanes, line), self.box(warp, args[1], line)
            barrier = self.mbarrier_at(state, warp, args[2], lanes, line)
            event = self._bulk(state, warp, each, lanes, at, size, write=True)
            barriers.copied(state, warp, barrier, lanes, line, size, event)
        elif _COPY_OF_BYTES.fullmatch(op) and len(args) == 4:
            self._one(lanes, each)
            at, size = self.one_address(warp, args[0], lanes, line), self.number(warp, args[2], line, lanes)
            barrier = self.mbarrier_at(state, warp, args[3], lanes, line)
            event = self._bulk(state, warp, each, lanes, at, size, write=True, align=16)
            barriers.copied(state, warp, barrier, lanes, line, size, event)
        elif _STORE_OF_BYTES.fullmatch(op) and len(args) == 3:
            self._one(lanes, each)
            at, size = self.one_address(warp, args[1], lanes, line), self.number(warp, args[2], line, lanes)
            event = self._bulk(state, warp, each, lanes, at, size, write=False, align=16)
            lane = lanes.bit_length() - 1
            now, groups = warp.bulk.get(lane, (0, ()))
            warp.bulk[lane] = now | event, groups
        elif op.startswith("cp.async.bulk.prefetch."):
            pass
        elif op in _ARRIVES_LATER and len(args) == 1:
            self.arrives_later(state, warp, each, lanes)
        elif CP_ASYNC.fullmatch(op) and len(args) in (3, 4) and args[2] in ("4", "8", "16"):
            self.cp_async(state, warp, each, lanes)
        elif op == "cp.async.commit_group" and not args:
            self._whole(warp, lanes, each)
            warp.cp_groups, warp.cp_open = committed(warp.cp_groups, warp.cp_open), ()
        elif op in ("cp.async.wait_group", "cp.async.wait_all") and len(args) == (op[-1] == "p"):
            self._whole(warp, lanes, each)
            if not args:
                warp.cp_groups, warp.cp_open = committed(warp.cp_groups, warp.cp_open), ()
            cut = max(len(warp.cp_groups) - (self.number(warp, args[0], line) if args else 0), 0)
            for event, whose in (each for group in warp.cp_groups[:cut] for each in group):
                warp.did(event, whose)
            warp.cp_groups = without_empty(warp.cp_groups[cut:])
        elif TENSOR_STORES.fullmatch(op) and len(args) == 2:
            self._one(lanes, each)
            at, size = self.one_address(warp, args[1], lanes, line), self.box(warp, args[0], line)
            event = self._bulk(state, warp, each, lanes, at, size, write=False)
            lane = lanes.bit_length() - 1
            now, groups = warp.bulk.get(lane, (0, ()))
            warp.bulk[lane] = now | event, groups
        elif op == "cp.async.bulk.commit_group" and not args:
            for lane in [lane for lane in warp.bulk if lanes >> lane & 1]:
                now, groups = warp.bulk[lane]
                warp.bulk[lane] = 0, committed(groups, now)
        elif op in ("cp.async.bulk.wait_group", "cp.async.bulk.wait_group.read") and len(args) == 1:
            left = self.number(warp, args[0], line, lanes)
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

    def cp_async(self, state: State, warp: Warp, each: Instruction, lanes: int) -> None:
        """Each of these lanes starts a copy of some bytes; a share of 0 bytes is filled with zeros all the same."""
        size = int(each.args[2])
        value = self.address(warp, each.args[0], lanes, each.line)
        foot = self.memory.by_lane(value, size, lanes, each.line)
        event = self.memory.access(state, warp, each.line, foot, write=True, copy=True)
        if (event, lanes) not in warp.cp_open:
            warp.cp_open += ((event, lanes),)

    @staticmethod
    def _whole(warp: Warp, lanes: int, each: Instruction) -> None:
        if lanes != ALL:
            raise Refused(each.line, f"by some lanes of a warp: {each.text}")

    @staticmethod
    def _one(lanes: int, each: Instruction) -> None:
        if lanes & (lanes - 1):
            raise Refused(each.line, "a bulk copy by several lanes")

    def arrives_later(self, state: State, warp: Warp, each: Instruction, lanes: int) -> None:
        """cp.async.mbarrier.arrive.noinc: once the copies that these lanes have started are complete, each arrives. It
        brings that, and what barriers have told before; of accesses nothing else."""
        at = self.mbarrier_at(state, warp, each.args[0], lanes, each.line)
        self.token(state, at)  # older ones of this parity are void
        accesses = 0
        for access in state.accesses:
            accesses |= access.id | access.fence
        started = (copy for group in (warp.cp_open, *warp.cp_groups) for copy in group)
        done = sum({event for event, whose in started if not whose & ~lanes})
        brings = warp.copy()
        brings.known = warp.known & ~accesses | done
        brings.extra = {lane: ids & ~accesses for lane, ids in warp.extra.items()}
        brings.own = ()
        barriers.arrive(state, brings, at, lanes, each.line, 1, 0)

    def _bulk(
        self,
        state: State,
        warp: Warp,
        each: Instruction,
        lanes: int,
        at: int,
        size: int,
        *,
        write: bool,
        align: int = 128,
    ) -> int:
        if size <= 0 or size % 16 or at % align:
            raise Fault(each.line, f"misaligned: {size} bytes at {at}, by {align}")
        foot = self.memory.of(((lanes.bit_length() - 1, self.memory.span(at, size, each.line, align)),))
        return self.memory.access(state, warp, each.line, foot, write=write, asynchronous=True)


def _is_told(value: Value) -> bool:
    """Whether a value is made of what shared memory or global memory has told."""
    return bool(variables_in(value)) or any(key[0] == "given" for key in symbols_in(value))


__all__ = ["Fork", "Machine", "Question", "Residue"]
