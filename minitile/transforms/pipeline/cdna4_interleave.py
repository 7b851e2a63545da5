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

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import itemgetter

from minitile.analysis.affine import Affine, Facts, divisor_of
from minitile.ir.core import Block, Kernel
from minitile.ir.ops import arith, cdna, control, thread
from minitile.ir.types import BufferType
from minitile.transforms.manager import PassContext
from minitile.transforms.pipeline.mfma_loop import Access, Fragment, Loop, Refusal, find_loop
from minitile.transforms.pipeline.mfma_pieces import Group, Pieces
from minitile.transforms.schedule.verify import ScheduleError

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
class Plan:
    stages: list[Stage]
    fetches: list[Fetch]
    groups: list[Group]


def cdna4_interleave(kernel: Kernel, context: PassContext) -> None:
    """The pass: stages by kp and half."""
    _run(kernel, context, "cdna4_interleave", by_depth, "interleaved")


def cdna4_half_tiles(kernel: Kernel, context: PassContext) -> None:
    """The pass: stages by halves of both operands."""
    _run(kernel, context, "cdna4_half_tiles", by_halves, "scheduled by half tiles")


def _run(kernel: Kernel, context: PassContext, name: str, make: Callable[[Loop], Plan], what: str) -> None:
    def write(loop: Loop, block: Block, limit: int) -> None:
        plan = make(loop)
        _check_registers(loop, plan, limit)
        pieces = Pieces(loop, plan.groups, block, name, partial(_half, loop, plan))
        _order(loop, plan, pieces)
        pieces.write()

    each_loop(kernel, context, what, write)


def each_loop(kernel: Kernel, context: PassContext, what: str, write: Callable[[Loop, Block, int], None]) -> None:
    """Write each loop of one gemm anew, in its block, with so many registers of a lane; where `write` raises Refusal or
    ScheduleError, a note says that the loop is not `what`, and why."""
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
                    write(loop, block, limit)
                    # What another schedule has said of the loop no longer matters.
                    context.notes[:] = [note for note in context.notes if not note.startswith(_about(op))]
            except (Refusal, ScheduleError) as reason:
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


def by_depth(loop: Loop) -> Plan:
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
    return Plan(stages, fetches, groups + ([Group(behind, False, last, True)] if behind else []))


def by_halves(loop: Loop) -> Plan:
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
    return Plan(stages, fetches, groups)


def _check_registers(loop: Loop, plan: Plan, limit: int) -> None:
    """Raises Refusal where accumulators and fragments in registers at once are more than a wave has."""
    count = len(plan.stages)
    most = [0] * count
    for fetch in plan.fetches:
        for access in loop.accesses(fetch.fragments):
            uses = [s for s, stage in enumerate(plan.stages) if access in loop.accesses(stage.fragments)]
            alive = [*range(fetch.at, count), *range(max(uses) + 1)] if fetch.ahead else range(fetch.at, max(uses) + 1)
            for s in set(alive):
                most[s] += loop.words(access[0])
    c = loop.products[0].c
    total = thread.count_of(c.type) * c.dtype.bits // 32 + max(most) + FEW
    if total > limit:
        raise Refusal(f"it takes {total} registers; a lane has {limit}")


# The turn -------------------------------------------------------------------------------------------------------------

Item = tuple[int, Callable[[], None]]  # after how many products at the earliest; puts a read or copy


def _half(loop: Loop, plan: Plan, access: Access) -> int | None:
    """Of which half of the rows that a wave reads an instruction is, where stages are halves of both."""
    if len({(s.i, s.j) for s in plan.stages}) < 4:
        return None
    for fragment in loop.fragments:
        if access in loop.accesses([fragment]):
            operand, row, _ = fragment
            return int(row >= loop.counts["ab".index(operand)] // 2)
    return None


def _order(loop: Loop, plan: Plan, pieces: Pieces) -> None:
    """The pieces of a turn in order, stage by stage."""
    reads: dict[int, list[Access]] = {}  # by the stage that reads
    known: set[Access] = set()
    for fetch in sorted(plan.fetches, key=lambda f: not f.ahead):
        reads[fetch.at] = [x for x in loop.accesses(fetch.fragments) if x not in known]
        known.update(reads[fetch.at])
    ahead = {x for fetch in plan.fetches if fetch.ahead for x in reads[fetch.at]}
    fresh = set(ahead)  # what may still be on its way into registers
    for s, stage in enumerate(plan.stages):
        mine = reads.get(s, [])
        pieces.put(cdna.SchedBarrier())
        awaited = [which for which, group in enumerate(plan.groups) if group.awaited == s]
        if awaited:
            pieces.wait(awaited)
            fresh.clear()  # there will be a barrier here, in front of which no read stays under way
        elif fresh & set(loop.accesses(stage.fragments)):
            pieces.lds_wait(fresh)
            fresh.clear()
        fresh |= set(mine) - ahead
        free = _free_after(loop, stage)
        items: list[Item] = [(free.get(x, 0), partial(pieces.read, x, -1 if x in ahead else 0)) for x in mine]
        for which, group in enumerate(plan.groups):
            copies: list[Item] = [(0, partial(pieces.copy, n, which)) for n in group.places.get(s, [])]
            # What fills the version that is read here, in other places, stands in front: one barrier is for both.
            same = group.ahead and any(x not in ahead for x in mine)
            items = [*copies, *items] if same else [*items, *copies]
        _multiply(pieces, stage, items)
    pieces.put(cdna.SchedBarrier())


def _multiply(pieces: Pieces, stage: Stage, items: list[Item]) -> None:
    """A stage's products, with reads and copies spread between them, the first one in front."""
    order = stage.products
    behind: list[list[Callable[[], None]]] = [[] for _ in range(len(order) + 1)]
    for n, (earliest, put) in enumerate(sorted(items, key=itemgetter(0))):
        behind[max(earliest, n * len(order) // max(len(items), len(order)))].append(put)
    for put in behind[0]:
        put()
    pieces.put(cdna.SetPriority(1))
    start = 0
    for n in range(1, len(order) + 1):
        if behind[n] or n == len(order) or order[n][:2] != order[start][:2]:
            pieces.multiply(order[start:n])
            start = n
        for put in behind[n]:
            put()
    pieces.put(cdna.SetPriority(0))


def _free_after(loop: Loop, stage: Stage) -> dict[Access, int]:
    """For what a stage multiplies, after how many products of it nothing needs it any more: then its registers are free
    for what the instruction reads next."""
    return {
        access: n + 1
        for n, (kp, i, j) in enumerate(stage.products)
        for access in loop.accesses([("a", i, kp), ("b", j, kp)])
    }
