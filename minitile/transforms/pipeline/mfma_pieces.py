"""A pipelined loop of one gemm (mfma_loop.py) in pieces of an instruction each: what schedules for CDNA put in order.

    wait %t                                      wait join %t0, %t1                  one token a group of copies
    %u = cp_async … {8 instructions}             %a0 = cp_async … ; … ; %u0 = join %a0, …
    %j = join %u                          →      %b0 = cp_async … ; … ; %u1 = join %b0, …
    %f = load_mem … {12 instructions}            %f0 = load_mem … ; %f1 = load_mem … ; …
    %c1 = mma_sync %f, … {repeats = (4, 8, 1)}   %x = mma_sync %f0, %f1, … {repeats = (1, 2, 1)} ; …

A policy appends pieces in the order of a turn, each with its stage: -1 is one iteration ahead. `write` makes the loop
what they say one iteration after the other, has the schedule verified, and has it written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from minitile.ir.builder import Builder
from minitile.ir.core import Block, Op, Value
from minitile.ir.ops import cdna, control, thread, tile
from minitile.ir.origin import LANDED, Origin, places
from minitile.ir.rewrite import remake
from minitile.ir.types import TOKEN
from minitile.transforms.pipeline.mfma_loop import Access, Loop, Refusal, Register, only
from minitile.transforms.schedule.expand import Expansion
from minitile.transforms.schedule.schedule import Line, Step
from minitile.transforms.schedule.verify import ScheduleError, verify_line
from minitile.transforms.sync.reasons import names

Place = tuple[int, int]  # i, j
FRONT = {"copy": 0, "wait": 1, "read": 2}  # the order of an iteration's pieces, were there no others: ahead,
HERE = {"wait": 0, "read": 1, "copy": 2, "product": 3}  # and in it
Half = Callable[[Access], int | None]


@dataclass(frozen=True, slots=True)
class Group:
    """Copies that are awaited together. `places`: for each part of the turn the numbers of the copies issued there;
    `ahead`: they are those of the next iteration (they fill what this one has read). `awaited`: in which part; `early`:
    there it is the next iteration's tile that is awaited."""

    places: dict[int, list[int]]
    ahead: bool
    awaited: int
    early: bool

    @property
    def numbers(self) -> list[int]:
        return [n for numbers in self.places.values() for n in numbers]

    @property
    def stage(self) -> int:
        return -1 if self.ahead else 0


class Pieces:
    """One loop of the block `outside`. `half`: of which half of its buffer a read is, where a copy fills one only.
    Raises Refusal before anything is changed."""

    def __init__(self, loop: Loop, groups: Sequence[Group], outside: Block, name: str, half: Half) -> None:
        self.loop, self.groups, self.outside, self.half = loop, groups, outside, half
        self.landed = Origin(name, LANDED)
        self.copies = [(c, n) for c in loop.copies for n in range(len(c.dst_offsets))]
        self.first = [[(c, n) for c in copies for n in range(len(c.dst_offsets))] for _, copies in loop.before]
        want = [(c.dst_mem, c.dst_offsets[n]) for c, n in self.copies]
        if any([(c.dst_mem, c.dst_offsets[n]) for c, n in mine] != want for mine in self.first):
            raise Refusal("what is under way before it was copied in another order")
        op, number = loop.op, {arg: n for n, arg in enumerate(loop.op.carried)}
        landed = {op.results[number[flight]] for flight in loop.flights}
        behind = outside.ops[outside.ops.index(op) + 1 :]
        self.waits = {o for o in behind if isinstance(o, tile.Wait) and o.token in landed}
        if any(v in landed for o in behind if o not in self.waits for v in o.operands):
            raise Refusal("the tokens that it hands on are used for more than a wait")
        self.kept = [n for n, arg in enumerate(op.carried) if arg not in loop.flights]
        own = Block()
        self.flights = [[own.add_arg(TOKEN, "flight") for _ in loop.flights] for _ in groups]
        self.b = Builder(Block(), op.loc)
        self.line: Line = []
        self.reads: dict[Access, Op] = {}
        self.made: set[Op] = set()  # copies
        self.kind: dict[Op, str] = {}
        self.half_of: dict[Op, int | None] = {}
        self.landing: list[list[Value]] = [[] for _ in groups]
        self.landed_in: dict[int, Value] = {}  # group -> the token of all
        m, n, _ = loop.counts
        product = loop.products[0]
        self.c_width = thread.count_of(product.c.type) // (m * n)
        self.every = [(i, j) for i in range(m) for j in range(n)]
        self.sums = {place: (product.c, at * self.c_width) for at, place in enumerate(self.every)}
        roots = [v for registers in loop.fragments.values() for v, _ in registers if v not in loop.loads]
        for o in self.needed([product.c, *roots]):
            self.put(o)

    # Pieces, in the order of a turn -----------------------------------------------------------------------------------

    def put(self, op: Op, stage: int = 0, kind: str = "product") -> Op:
        """One operation more, behind the others."""
        self.b.emit(op)
        self.kind[op] = kind
        self.line.append(Step(op, stage, "kept" if stage else "peeled"))
        return op

    def read(self, access: Access, stage: int) -> None:
        load, n = access
        self.b.loc = load.loc
        read = self.put(self.reads.setdefault(access, only(load, n, lambda v: v)), stage, "read")
        self.half_of[read] = self.half(access)

    def copy(self, number: int, which: int) -> None:
        """One of a group's copies; the last one joins their tokens."""
        group = self.groups[which]
        copy = self.put(self.piece(*self.copies[number]), group.stage, "copy")
        self.made.add(copy)
        self.landing[which].append(copy.results[0])
        if len(self.landing[which]) == len(group.numbers):
            self.landed_in[which] = self.join(self.landing[which], group.stage, "copy")

    def wait(self, groups: Sequence[int]) -> None:
        """For the tile, this iteration's or the next one's, of groups that are awaited together."""
        early = -1 if self.groups[groups[0]].early else 0
        with self.b.because(self.landed):
            self.put(tile.Wait(self.join([self.flights[which][0] for which in groups], early, "wait")), early, "wait")

    def lds_wait(self, fresh: set[Access]) -> None:
        """For what has been read to be in registers."""
        reads = sorted({load for load, _ in fresh}, key=lambda op: op.result.serial)
        what = names(load.mem for load in reads)
        why = Origin(
            self.landed.pass_name,
            f"RAW registers: fragments of {what} before they are multiplied",
            places(op.loc for op in reads),
            places(op.loc for op in self.loop.products),
        )
        with self.b.because(why):
            self.put(cdna.LdsWait(0))

    def multiply(self, some: Sequence[tuple[int, int, int]]) -> Op:
        """Neighbours along j, of one i and kp. What they read must be there."""
        kp, i, first = some[0]
        product = next(p for p in self.loop.products if p.origin[2] == kp)
        self.b.loc = product.loc
        fragments = self.loop.fragments
        x = self.gather([self.now(r) for r in fragments["a", i, kp]])
        y = self.gather([self.now(r) for _, _, j in some for r in fragments["b", j, kp]])
        at = [(i, j) for _, _, j in some]
        c = self.gather(self.parts_of(at))
        self.put(cdna.SchedBarrier())
        done = self.put(thread.MmaSync(x, y, c, product.atom, (1, len(some), 1), origin=(i, first, kp)))
        self.put(cdna.SchedBarrier())
        self.sums.update({place: (done.results[0], n * self.c_width) for n, place in enumerate(at)})
        return done

    # Parts of pieces --------------------------------------------------------------------------------------------------

    def piece(self, old: thread.CpAsync, n: int) -> thread.CpAsync:
        self.b.loc = old.loc
        new = remake(old, lambda v: v)
        for name in ("dst_of", "dst_offsets", "src_of", "src_offsets", "predicate_of", "enable_of", "halves"):
            every = getattr(old, name)
            setattr(new, name, every and (every[n],))
        return new

    def join(self, tokens: Sequence[Value], stage: int, kind: str) -> Value:
        return tokens[0] if len(tokens) == 1 else self.put(tile.Join(tuple(tokens)), stage, kind).results[0]

    def parts_of(self, some: Sequence[Place]) -> list[Register]:
        """The accumulator's registers there."""
        return [(value, at + r) for place in some for value, at in [self.sums[place]] for r in range(self.c_width)]

    def now(self, register: Register) -> Register:
        """Where a register of a fragment is."""
        access = self.loop.access_of.get(register)
        if access is None:
            return register
        if access not in self.reads:
            self.reads[access] = only(*access, lambda v: v)
        return self.reads[access].results[0], register[1] % self.loop.elements[access[0]]

    def gather(self, registers: list[Register]) -> Value:
        """A value of these registers."""
        parts: list[tuple[Value, list[int]]] = []
        for value, number in registers:
            if not parts or parts[-1][0] is not value:
                parts.append((value, []))
            parts[-1][1].append(number)
        values = [
            value
            if numbers == list(range(thread.count_of(value.type)))
            else self.put(thread.Pick(value, tuple(numbers))).results[0]
            for value, numbers in parts
        ]
        return values[0] if len(values) == 1 else self.put(thread.Concat(tuple(values))).results[0]

    def needed(self, wanted: Sequence[Value]) -> list[Op]:
        """The operations of the loop that compute values."""
        missing, found = set(wanted), list[Op]()
        for op in reversed(self.loop.pure):
            if not missing.isdisjoint(op.results):
                found.append(op)
                missing.update(op.operands)
        return found[::-1]

    # The loop --------------------------------------------------------------------------------------------------------

    def write(self) -> None:
        """The loop in this order. Raises ScheduleError where that is none; then the loop is as it was."""
        op, old = self.loop.op, self.loop.op.body
        total = self.gather(self.parts_of(self.every))
        total.name = total.name or self.loop.products[-1].result.name
        handed = [total if v is self.loop.products[-1].result else v for v in (old.yielded[n] for n in self.kept)]
        handed += [each for which, mine in enumerate(self.flights) for each in (*mine[1:], self.landed_in[which])]
        front = sorted([step.op for step in self.line if step.stage], key=lambda o: FRONT[self.kind[o]])
        here = sorted([step.op for step in self.line if not step.stage], key=lambda o: HERE[self.kind[o]])
        tokens = [arg for mine in self.flights for arg in mine]
        op.body = Block((op.iv, *(op.carried[n] for n in self.kept), *tokens))
        op.body.ops = [*(o for o in self.loop.pure if o not in here), *front, *here, control.Yield(tuple(handed))]
        try:
            verify_line(op, self.line, apart=self.apart)
        except ScheduleError:
            op.body = Block(old.args)
            op.body.ops = old.ops
            raise
        self.place(len(handed))

    def apart(self, a: Op, b: Op) -> bool:
        """Whether one copies to the half of a buffer of which the other does not read."""
        copy, read = (a, b) if a in self.made else (b, a)
        half = self.half_of.get(read)
        return isinstance(copy, thread.CpAsync) and half is not None and copy.halves not in ((), (half,))

    def place(self, handed: int) -> None:
        """The loop among the operations around it: what is under way before is copied in groups, what is behind is
        awaited."""
        op, before, after = self.loop.op, Block(), Block()
        b = Builder(before, op.loc)
        queues: list[list[Value]] = [[] for _ in self.groups]
        for copies in self.first:
            for group, queue in zip(self.groups, queues, strict=True):
                queue.append(_join(b, [b.emit(self.piece(*copies[n])).result for n in group.numbers]))
        op.init = (*(op.init[n] for n in self.kept), *(token for queue in queues for token in queue))
        tokens = [Value(TOKEN, op, n, "flight") for n in range(len(self.kept), handed)]
        op.results = (*(op.results[n] for n in self.kept), *tokens)
        for n, value in enumerate(op.results):
            value.index = n
        tokens += [v for v in Expansion(b, op, self.line).run() if v.type == TOKEN]
        b = Builder(after, op.loc)
        with b.because(self.landed):
            b.emit(tile.Wait(_join(b, tokens)))
        gone: set[Op] = {*self.waits, *(o for join, copies in self.loop.before for o in (join, *copies))}
        at = self.outside.ops.index(op)
        ops = [*self.outside.ops[:at], *before.ops, op, *after.ops, *self.outside.ops[at + 1 :]]
        self.outside.ops = [o for o in ops if o not in gone]


def _join(b: Builder, tokens: Sequence[Value]) -> Value:
    return tokens[0] if len(tokens) == 1 else b.emit(tile.Join(tuple(tokens))).result
