"""The schedules of a gemm for CDNA 4: reads, copies and multiplications in stages that run into one another.

    for %k (%c, %t) {                            wait, barrier; copies of tile 1, first half; read stage 0 of tile 0
      wait %t                                    for %k (%c, %t', %f) {                                      stage
      barrier                                      read 1; copies of tile %k+1, second half; multiply 0    0: kp 0, low
      copies of tile %k+1                          read 2; multiply 1                                      1: kp 0, high
      read; multiply kp 0               ->         read 3; multiply 2                                      2: kp 1, low
      read; multiply kp 1                          wait, barrier; read 0 of tile %k+1;
    }                                                copies of tile %k+2, first half; multiply 3           3: kp 1, high
                                                 }

Each stage multiplies a part of the wave's tile: of one kp the lower or the upper half of the i or j. What a stage needs
for the first time is read while the stage before multiplies, so that no multiplication waits for LDS that was asked for
just now; what stage 0 needs is carried round. The wait for copies and the barrier stand where the last reads of a tile
are done, in front of the last multiplications: those cover the time until all waves have come. Copies go to the first
half of the stages behind the barrier, so that they have the other half to land.

`cdna4_half_tiles` is the same with other stages and finer copies. A stage is a quarter of the tile, all kp:
(low, low), (low, high), (high, high), (high, low); so each half of A or B is read at one place, and may be overwritten
one stage later. Each half is copied, and awaited, by itself, two tiles ahead in two versions: what is under way never
runs out. (The idea is HipKittens' 8-wave schedule, where the wait for a half stands behind its first read.)

In each stage stand, with scheduling barriers around, what LLVM must not move:

    wait %t; read; copy; lds_wait; set_priority 1; multiply; set_priority 0

Which barriers that takes is not decided here: `thread_barriers` puts them where reads meet what has landed and copies
meet what was read, and `resolve_wait_counts` makes vmcnt of the waits. `lds_wait` leaves the reads of its own stage
under way; where a barrier stands, nothing is under way but those.

The last iteration reads ahead as well, from the version that has its turn, what nothing multiplies. A loop that is
known to have as many iterations as versions has come to call them %k instead of %k % versions, so that behind the last
one there is none: it stays as it is.

Stages and reads are known by the tags of the operations (mfma_loop.py). A loop of another form stays as it is, with a
note that says why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter

from minitile.analysis.affine import Affine, Facts, divisor_of
from minitile.ir.builder import Builder
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import arith, cdna, control, thread, tile
from minitile.ir.origin import LANDED, Origin, places
from minitile.ir.rewrite import remake
from minitile.ir.types import TOKEN, BufferType
from minitile.transforms.manager import PassContext
from minitile.transforms.pipeline.mfma_loop import (
    Access,
    Fragment,
    Loop,
    Refusal,
    Register,
    elements_of,
    find_loop,
    only,
    words_of,
)
from minitile.transforms.sync.reasons import names

_REMAINDERS = (arith.FloorMod, arith.TruncMod, arith.And)
FEW = 24  # registers for addresses and what else there is


@dataclass(frozen=True, slots=True)
class Stage:
    """The products of one stage: ranges of i, j and kp."""

    i: range
    j: range
    kp: range

    @property
    def products(self) -> list[tuple[int, int, int]]:
        """(kp, i, j) of each, in order."""
        return [(kp, i, j) for kp in self.kp for i in self.i for j in self.j]

    @property
    def fragments(self) -> list[Fragment]:
        a = [("a", i, kp) for kp in self.kp for i in self.i]
        return a + [("b", j, kp) for kp in self.kp for j in self.j]


@dataclass(frozen=True, slots=True)
class Fetch:
    """What is read in stage `at`; `ahead`: for the next iteration."""

    at: int
    fragments: list[Fragment]
    ahead: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """Copies that are awaited together. `places`: for each stage the numbers of the copies issued there; `ahead`: they
    are those of the next iteration (they fill what this one has read). `awaited`: at which stage; `early`: there it is
    the next iteration's tile that is awaited."""

    places: dict[int, list[int]]
    ahead: bool
    awaited: int
    early: bool

    @property
    def numbers(self) -> list[int]:
        return [n for numbers in self.places.values() for n in numbers]


@dataclass(frozen=True, slots=True)
class Schedule:
    stages: list[Stage]
    fetches: list[Fetch]
    groups: list[Group]


def cdna4_interleave(kernel: Kernel, context: PassContext) -> None:
    """The pass: stages by kp and half."""
    _run(kernel, context, "cdna4_interleave", by_depth, "interleaved")


def cdna4_half_tiles(kernel: Kernel, context: PassContext) -> None:
    """The pass: stages by halves of both operands."""
    _run(kernel, context, "cdna4_half_tiles", by_halves, "scheduled by half tiles")


def _run(kernel: Kernel, context: PassContext, name: str, make: Callable[[Loop], Schedule], what: str) -> None:
    if not context.target.has("lds_dma_128"):
        return
    limit = min(256, context.target.block_registers // max(kernel.attrs.get("threads", 0), 256))
    notes: dict[str, None] = {}
    for block in [kernel.body, *(region for op in kernel.walk() for region in op.regions)]:
        for op in list(block.ops):
            if not isinstance(op, control.For):
                continue
            try:
                loop = find_loop(op, block)
                if loop is not None:
                    _check_slots(loop, kernel)
                    schedule = make(loop)
                    _check_registers(loop, schedule, limit)
                    _Rewriting(loop, schedule, block, name).run()
                    # What another schedule has said of the loop no longer matters.
                    context.notes[:] = [note for note in context.notes if not note.startswith(_about(op))]
            except Refusal as reason:
                notes[f"{_about(op)}{what}: {reason}"] = None
    context.notes += list(notes)


def _check_slots(loop: Loop, kernel: Kernel) -> None:
    """Raises Refusal where the version that the last iteration reads ahead may be behind the others."""
    for load in loop.loads.values():
        assert isinstance(load.mem.type, BufferType)
        slot, versions = load.slot, load.mem.type.versions
        while slot is not None and isinstance(slot.op, arith.Cast):
            slot = slot.op.a
        if slot is None or (isinstance(slot.op, _REMAINDERS) and divisor_of(slot.op) == versions):
            continue
        facts = Facts(kernel)
        if not facts.less(facts.affine(slot) + facts.affine(loop.op.step), Affine(versions)):
            raise Refusal(
                f"it has as many iterations as its buffers have versions ({versions}), so that the last one would read "
                "ahead behind them"
            )


def _about(op: control.For) -> str:
    """How a note on the loop begins."""
    return f"the loop (line {op.loc.line}) is not " if op.loc is not None else "the loop is not "


# Schedules ------------------------------------------------------------------------------------------------------------


def by_depth(loop: Loop) -> Schedule:
    """Stages by kp and half of the larger side; all copies awaited at once."""
    m, n, depth = loop.counts
    low, high = (range(n // 2), range(n // 2, n)) if n % 2 == 0 and n >= m else (range(n), range(0))
    rows = [range(m)]
    if not high and m % 2 == 0:
        rows = [range(m // 2), range(m // 2, m)]
    columns = [low, high] if high else [low]
    stages = [Stage(i, j, range(kp, kp + 1)) for kp in range(depth) for i in rows for j in columns]
    last = len(stages) - 1
    if not last:
        raise Refusal("a wave multiplies once a tile; there is nothing to interleave")
    fetches = [Fetch((s - 1) % len(stages), stage.fragments, s == 0) for s, stage in enumerate(stages)]
    total = sum(len(c.dst_offsets) for c in loop.copies)
    stretch = [last, *range((len(stages) + 1) // 2 - 1)]
    shares = {s: list(range(total * n // len(stretch), total * (n + 1) // len(stretch))) for n, s in enumerate(stretch)}
    behind = {s: numbers for s, numbers in shares.items() if s != last and numbers}
    groups = [Group({last: shares[last]}, True, last, True)]
    return Schedule(stages, fetches, groups + ([Group(behind, False, last, True)] if behind else []))


def by_halves(loop: Loop) -> Schedule:
    """Stages by halves of i and j; the halves that a tile begins with and the others are copied and awaited apart."""
    m, n, depth = loop.counts
    if m % 2 or n % 2:
        raise Refusal(f"the {m} x {n} products of a wave have no halves")
    numbered = [(c, half) for c in loop.copies for half in c.halves]
    if any(not c.halves for c in loop.copies):
        raise Refusal("a copy fills parts of both halves of what the waves read")
    every = range(depth)
    halves = {"a": (range(m // 2), range(m // 2, m)), "b": (range(n // 2), range(n // 2, n))}
    stages = [Stage(halves["a"][x], halves["b"][y], every) for x, y in ((0, 0), (1, 0), (1, 1), (0, 1))]

    def fragments(operand: str, half: int, depth: range) -> list[Fragment]:
        return [(operand, row, kp) for kp in depth for row in halves[operand][half]]

    def copies(half: int) -> list[int]:
        return [n for n, (_, h) in enumerate(numbered) if h == half]

    middle = (depth + 1) // 2
    fetches = [
        Fetch(2, fragments("b", 0, every), True),
        Fetch(3, fragments("a", 0, every), True),
        Fetch(0, fragments("a", 1, every) + fragments("b", 1, range(middle))),
        Fetch(1, fragments("b", 1, range(middle, depth))),
    ]
    high = copies(1)
    groups = [
        Group({0: copies(0)}, True, 2, True),
        Group({2: high[: len(high) // 2], 3: high[len(high) // 2 :]}, True, 0, False),
    ]
    return Schedule(stages, fetches, groups)


def _check_registers(loop: Loop, schedule: Schedule, limit: int) -> None:
    """Raises Refusal where accumulators and fragments in registers at once are more than a wave has."""
    count = len(schedule.stages)
    most = [0] * count
    for fetch in schedule.fetches:
        for access in loop.accesses(fetch.fragments):
            uses = [s for s, stage in enumerate(schedule.stages) if access in loop.accesses(stage.fragments)]
            alive = [*range(fetch.at, count), *range(max(uses) + 1)] if fetch.ahead else range(fetch.at, max(uses) + 1)
            for s in set(alive):
                most[s] += words_of(access[0])
    c = loop.products[0].c
    total = thread.count_of(c.type) * c.dtype.bits // 32 + max(most) + FEW
    if total > limit:
        raise Refusal(f"it takes {total} registers; a lane has {limit}")


# Rewriting ------------------------------------------------------------------------------------------------------------

Item = tuple[int, Callable[[], None]]  # after how many products at the earliest; writes a read or copy
Place = tuple[int, int]  # i, j


class _Rewriting:
    """One loop of the block `outside`, by a schedule, in place."""

    def __init__(self, loop: Loop, schedule: Schedule, outside: Block, pass_name: str) -> None:
        self.landed = Origin(pass_name, LANDED)
        self.loop, self.groups, self.stages, self.outside = loop, schedule.groups, schedule.stages, outside
        self.last = len(self.stages) - 1
        self.copies = [(c, n) for c in loop.copies for n in range(len(c.dst_offsets))]
        self.first_copies = [[(c, n) for c in copies for n in range(len(c.dst_offsets))] for _, copies in loop.before]
        self.reads: dict[int, list[Access]] = {}  # by the stage that reads
        self.ahead: list[Access] = []  # those for the next iteration
        known: set[Access] = set()
        for fetch in sorted(schedule.fetches, key=lambda f: not f.ahead):
            mine = [x for x in loop.accesses(fetch.fragments) if x not in known]
            known.update(mine)
            self.reads[fetch.at] = mine
            self.ahead += mine if fetch.ahead else []
        m, n, _ = loop.counts
        c = loop.products[0].c
        self.c_width = thread.count_of(c.type) // (m * n)
        self.held: dict[Access, Value] = {}  # what an instruction has read
        self.sums: dict[Place, Register] = {}  # where the parts of the accumulator begin

    def run(self) -> None:
        """Raises Refusal before anything is changed."""
        loop, op = self.loop, self.loop.op
        self.check_copies()
        place = self.outside.ops.index(op)
        behind = self.outside.ops[place + 1 :]
        number = {arg: n for n, arg in enumerate(op.carried)}
        landed = {op.results[number[flight]] for flight in loop.flights}
        waits = {o for o in behind if isinstance(o, tile.Wait) and o.token in landed}
        if any(v in landed for o in behind if o not in waits for v in o.operands):
            raise Refusal("the tokens that it hands on are used for more than a wait")
        before = Block()
        started = self.prologue(Builder(before, op.loc))
        in_flight = self.rebuild(started)
        after = Block()
        b = Builder(after, op.loc)
        with b.because(self.landed):
            b.emit(tile.Wait(self.join(b, in_flight)))
        gone: set[Op] = {*waits, *(o for join, copies in loop.before for o in (join, *copies))}
        ops = [*self.outside.ops[:place], *before.ops, op, *after.ops, *behind]
        self.outside.ops = [o for o in ops if o not in gone]

    def check_copies(self) -> None:
        """The tiles in front of the loop are copied by the same instructions."""
        want = [(c.dst_mem, c.dst_offsets[n]) for c, n in self.copies]
        if any([(c.dst_mem, c.dst_offsets[n]) for c, n in mine] != want for mine in self.first_copies):
            raise Refusal("what is under way before it was copied in another order")

    def prologue(self, b: Builder) -> tuple[list[list[Value]], list[Value]]:
        """The copies that are under way when the first iteration starts, and what its stage 0 needs. For each group the
        tokens that are left, the oldest first; and what has been read."""
        op, groups = self.loop.op, self.groups
        names = {**dict(zip(op.carried, op.init, strict=True)), op.iv: op.lower}
        self.compute(b, self.needed_ahead(), names, everything=True)
        queues: list[list[Value]] = [[] for _ in groups]
        for copies in self.first_copies:
            for group, queue in zip(groups, queues, strict=True):
                queue.append(self.join(b, [self.copy(b, copies[n], {}) for n in group.numbers]))
        for group, queue in zip(groups, queues, strict=True):
            if group.ahead:
                queue.append(self.join(b, [self.copy(b, self.copies[n], names) for n in group.numbers]))
        landed = [queue.pop(0) for group, queue in zip(groups, queues, strict=True) if group.early]
        with b.because(self.landed):
            b.emit(tile.Wait(self.join(b, landed)))
        return queues, [self.read(b, access, names) for access in self.ahead]

    def rebuild(self, started: tuple[list[list[Value]], list[Value]]) -> list[Value]:
        """The loop with its new body. The tokens that are under way behind it."""
        loop, op = self.loop, self.loop.op
        queues, read = started
        kept = [n for n, arg in enumerate(op.carried) if arg not in loop.flights]
        handed = [op.body.yielded[n] for n in kept]
        results = [op.results[n] for n in kept]
        next_of = loop.next_of
        body = Block((op.iv, *(op.carried[n] for n in kept)))
        flights = [[body.add_arg(TOKEN, "flight") for _ in queue] for queue in queues]
        for access, value in zip(self.ahead, read, strict=True):
            self.held[access] = body.add_arg(value.type, "fragment")
        b = Builder(body, op.loc)
        total, following = self.body(b, flights, next_of)
        old_total = loop.products[-1].result
        tokens = [token for queue in self.queues for token in queue]
        b.emit(control.Yield((*(total if v is old_total else v for v in handed), *tokens, *following)))
        op.init = (*(op.init[n] for n in kept), *(token for queue in queues for token in queue), *read)
        op.body = body
        more = [Value(v.type, op, 0, v.name) for v in body.args[1 + len(kept) :]]
        op.results = (*results, *more)
        for n, value in enumerate(op.results):
            value.index = n
        return more[: len(tokens)]

    def body(self, b: Builder, flights: list[list[Value]], next_of: dict[Value, Value]) -> tuple[Value, list[Value]]:
        """The stages. What the accumulator has become, and what was read for the next iteration's first one."""
        op, loop, groups = self.loop.op, self.loop, self.groups
        m, n, _ = loop.counts
        every = [(i, j) for i in range(m) for j in range(n)]
        carried = loop.products[0].c
        self.sums = {place: (carried, at * self.c_width) for at, place in enumerate(every)}
        self.queues = [list(queue) for queue in flights]
        self.placed: set[Op] = set()
        later = {**next_of, op.iv: b.add(op.iv, op.step)}
        issued: list[list[Value]] = [[] for _ in groups]
        following: dict[Access, Value] = {}
        fresh = set(self.ahead)  # what may still be on its way into registers
        roots = [value for registers in loop.fragments.values() for value, _ in registers if value not in loop.loads]
        self.compute(b, [carried, *roots], {})  # what the loop itself makes of the accumulator, or multiplies

        def fetch(access: Access) -> None:
            if access in self.ahead:
                following[access] = self.read(b, access, later)
            else:
                self.held[access] = self.read(b, access, {})
                fresh.add(access)

        def issue(number: int, which: int) -> None:
            group, mine = groups[which], issued[which]
            mine.append(self.copy(b, self.copies[number], later if group.ahead else {}))
            if len(mine) == len(group.numbers):
                self.queues[which].append(self.join(b, mine))

        for s, stage in enumerate(self.stages):
            reads = self.reads.get(s, [])
            b.emit(cdna.SchedBarrier())
            waits = [queue for group, queue in zip(groups, self.queues, strict=True) if group.awaited == s]
            if waits:
                with b.because(self.landed):
                    b.emit(tile.Wait(self.join(b, [queue.pop(0) for queue in waits])))
                fresh.clear()  # there will be a barrier here, in front of which no read stays under way
            elif fresh & set(loop.accesses(stage.fragments)):
                with b.because(self.arrived(fresh)):
                    b.emit(cdna.LdsWait(0))
                fresh.clear()
            items: list[Item] = [(self.last_use(stage, access), partial(fetch, access)) for access in reads]
            for which, group in enumerate(groups):
                copies: list[Item] = [(0, partial(issue, number, which)) for number in group.places.get(s, [])]
                # What fills the version that is read here, in other places, stands in front: one barrier is for both.
                same = group.ahead and any(access not in self.ahead for access in reads)
                items = [*copies, *items] if same else [*items, *copies]
            self.multiply(b, stage, items)
        b.emit(cdna.SchedBarrier())
        b.block.ops += [o for o in loop.pure if o not in self.placed]
        total = self.gather(b, self.parts_of(every))
        total.name = total.name or loop.products[-1].result.name
        return total, [following[access] for access in self.ahead]

    def arrived(self, fresh: set[Access]) -> Origin:
        """Of a wait for what has been read to be in registers."""
        reads = sorted({load for load, _ in fresh}, key=lambda op: op.result.serial)
        what = names(load.mem for load in reads)
        return Origin(
            self.landed.pass_name,
            f"RAW registers: fragments of {what} before they are multiplied",
            places(op.loc for op in reads),
            places(op.loc for op in self.loop.products),
        )

    def multiply(self, b: Builder, stage: Stage, items: Sequence[Item]) -> None:
        """A stage's products, with reads and copies spread between them, the first one in front."""
        order = stage.products
        behind: list[list[Callable[[], None]]] = [[] for _ in range(len(order) + 1)]
        for n, (earliest, write) in enumerate(sorted(items, key=itemgetter(0))):
            behind[max(earliest, n * len(order) // max(len(items), len(order)))].append(write)
        for write in behind[0]:
            write()
        b.emit(cdna.SetPriority(1))
        start = 0
        for n in range(1, len(order) + 1):
            if behind[n] or n == len(order) or order[n][:2] != order[start][:2]:
                self.multiply_some(b, order[start:n])
                start = n
            for write in behind[n]:
                write()
        b.emit(cdna.SetPriority(0))

    def last_use(self, stage: Stage, access: Access) -> int:
        """After how many products of the stage nothing needs any more what the instruction has read before: then its
        registers are free for what it reads next."""
        load, number = access
        uses = [
            n
            for n, (kp, i, j) in enumerate(stage.products)
            for fragment in (("a", i, kp), ("b", j, kp))
            if any(v is load.result and r // elements_of(load) == number for v, r in self.loop.fragments[fragment])
        ]
        return max(uses, default=-1) + 1

    def multiply_some(self, b: Builder, some: list[tuple[int, int, int]]) -> None:
        """Neighbours along j, of one i and kp."""
        kp, i, first = some[0]
        product = next(p for p in self.loop.products if p.origin[2] == kp)
        b.loc = product.loc
        fragments = self.loop.fragments
        x = self.gather(b, [self.now(r) for r in fragments["a", i, kp]])
        y = self.gather(b, [self.now(r) for _, _, j in some for r in fragments["b", j, kp]])
        places = [(i, j) for _, _, j in some]
        c = self.gather(b, self.parts_of(places))
        b.emit(cdna.SchedBarrier())
        done = b.emit(thread.MmaSync(x, y, c, product.atom, (1, len(some), 1), origin=(i, first, kp))).result
        b.emit(cdna.SchedBarrier())
        self.sums.update({place: (done, n * self.c_width) for n, place in enumerate(places)})

    # Parts ----------------------------------------------------------------------------------------------------------

    def needed_ahead(self) -> list[Value]:
        """The operands of what is done for the next iteration."""
        ahead: list[Op] = [self.copies[n][0] for group in self.groups if group.ahead for n in group.numbers]
        return [v for op in (*ahead, *(load for load, _ in self.ahead)) for v in op.operands]

    def compute(self, b: Builder, wanted: list[Value], names: dict[Value, Value], everything: bool = False) -> None:
        """Compute what `wanted` is made of: as the loop does it, unless it depends on other `names`, which learn the
        results; `everything` is computed anew."""
        missing: set[Value] = set(wanted)
        parts: list[Op] = []
        for op in reversed(self.loop.pure):
            if not missing.isdisjoint(op.results):
                parts.append(op)
                missing.update(op.operands)
        for op in reversed(parts):
            if op.result in names:
                continue
            if everything or any(v in names for v in op.operands):
                b.loc = op.loc
                names[op.result] = b.value(remake(op, lambda v: names.get(v, v)))
            elif op not in self.placed:
                self.placed.add(op)
                b.emit(op)

    def read(self, b: Builder, access: Access, names: dict[Value, Value]) -> Value:
        """What one instruction of a load reads."""
        load, n = access
        self.compute(b, load.operands, names)
        b.loc = load.loc
        return b.emit(only(load, n, lambda v: names.get(v, v))).result

    def copy(self, b: Builder, copy: tuple[thread.CpAsync, int], names: dict[Value, Value]) -> Value:
        """One instruction of a copy; its token."""
        old, n = copy
        self.compute(b, old.operands, names)
        b.loc = old.loc
        new = remake(old, lambda v: names.get(v, v))
        for name in ("dst_of", "dst_offsets", "src_of", "src_offsets", "predicate_of", "enable_of", "halves"):
            every = getattr(old, name)
            setattr(new, name, every and (every[n],))
        return b.emit(new).result

    @staticmethod
    def join(b: Builder, tokens: Sequence[Value]) -> Value:
        """One token for several."""
        return tokens[0] if len(tokens) == 1 else b.emit(tile.Join(tuple(tokens))).result

    def parts_of(self, places: Sequence[Place]) -> list[Register]:
        """The accumulator's registers there."""
        return [(value, at + r) for place in places for value, at in [self.sums[place]] for r in range(self.c_width)]

    def now(self, register: Register) -> Register:
        """Where a register of a fragment is at this point."""
        value, number = register
        load = self.loop.loads.get(value)
        if load is None:
            return register
        each = elements_of(load)
        return self.held[load, number // each], number % each

    @staticmethod
    def gather(b: Builder, registers: list[Register]) -> Value:
        """A value of these registers."""
        parts: list[tuple[Value, list[int]]] = []
        for value, number in registers:
            if not parts or parts[-1][0] is not value:
                parts.append((value, []))
            parts[-1][1].append(number)
        values = [
            value
            if numbers == list(range(thread.count_of(value.type)))
            else b.emit(thread.Pick(value, tuple(numbers))).result
            for value, numbers in parts
        ]
        return values[0] if len(values) == 1 else b.emit(thread.Concat(tuple(values))).result
