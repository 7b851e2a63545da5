"""Every schedule of a block whose warps' events are given (`concrete`), by dynamic partial order reduction.

It tests the theorem of docs/proof.md, so it takes nothing from it: an mbarrier is a count, a number of bytes and a
parity, waits go by the parity, and schedules that differ in the order of events that do not commute are all run
(Flanagan and Godefroid, POPL 2005, with sleep sets). In each schedule races are found by what processes know.

A process is a set of lanes of a warp that take part in the same synchronisation, or the completion of a bulk copy. What
happens before is kept as sets of bits, twice: `known`, accesses and fences that are ordered before its next step
(memory); and `past`, the scheduled events that lead to it (for the reduction).
"""

from __future__ import annotations

import random
from bisect import insort
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tests.proof.concrete import ALL, Block, Broken, Event, Unsupported

LOCAL = ("access", "fence", "mbarrier_init", "mbarrier_fence", "load", "store", "commit", "wait", "cp", "cp_commit")
SCHEDULED = ("arrive", "expect", "try_wait", "bar", "passed", "meet", "product_wait", "complete")


class Fault(Exception):
    """In some schedule a rule of the memory model is broken, or processes wait for ever."""


class TooMany(Exception):
    """More schedules than are allowed."""


@dataclass(eq=False, slots=True)
class Record:
    """An access that later ones may conflict with. `bit`: its completion; `fence`: a proxy fence behind it."""

    bit: int
    fence: int
    write: bool
    asynchronous: bool
    cells: int
    lanes: dict[int, int]
    process: int
    line: int
    atomic: bool = False


@dataclass(slots=True)
class Step:
    """An event of a process with its footprint in cells."""

    kind: str
    event: Event
    cells: int = 0
    lanes: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class Process:
    """`own`: bits of which each lane knows its own share only. `copies`: of cp.async, and of bulk stores, by group."""

    number: int
    warp: int
    size: int  # lanes
    steps: list[Step]
    at: int = 0
    known: int = 0
    own: int = 0
    past: int = 0
    groups: list[int] = field(default_factory=lambda: [0])
    stores: list[int] = field(default_factory=lambda: [0])
    issued: int = 0
    waits_for: int = -1  # the use of a named barrier that it waits for

    @property
    def done(self) -> bool:
        return self.at >= len(self.steps)


@dataclass(slots=True)
class Barrier:
    """An mbarrier: `index` phases are complete. `phases[n]`: (event, process, past before) of arrivals in phase n;
    `waits[n]`: of waits that passed when n phases were complete."""

    count: int
    pending: int
    bit: int
    fence: int
    bytes: int = 0
    index: int = 0
    released: int = 0
    done: int = 0
    flip: int = 0  # what the completion of the last phase comes behind
    phases: list[list[tuple[int, int, int]]] = field(default_factory=lambda: [[]])
    waits: list[list[tuple[int, int]]] = field(default_factory=lambda: [[]])
    expects: int = 0  # of this phase, those that are no arrivals
    completes: int = 0
    negative: bool = False  # more bytes have been completed than were expected


@dataclass(slots=True)
class Named:
    threads: int = 0
    arrived: int = 0
    released: int = 0
    index: int = 0
    past: int = 0
    uses: list[list[tuple[int, int]]] = field(default_factory=lambda: [[]])
    done: list[tuple[int, int]] = field(default_factory=list)  # (released, past) of each use


@dataclass(slots=True)
class Node:
    """Before an event of a schedule: who can run; who has to be tried, is tried, and need not be."""

    enabled: list[int]
    chosen: int
    todo: set[int]
    sleep: set[int]


class Cells:
    """Bytes of shared memory that all accesses touch together or not at all."""

    def __init__(self, block: Block) -> None:
        shares = {s[1:] for warp in block.events for event in warp for s in event.share}
        ends = sorted({at for at, _ in shares} | {at + size for at, size in shares})
        self.places = {at: n for n, at in enumerate(ends)}
        self.masks: dict[tuple[int, int], int] = {
            (at, size): (1 << self.places[at + size]) - (1 << self.places[at]) for at, size in shares
        }
        self.ends = ends

    def around(self, at: int, size: int) -> int:
        """The cells that any of these bytes are in."""
        return sum(
            1 << n for n, (a, b) in enumerate(zip(self.ends, self.ends[1:], strict=False)) if a < at + size and at < b
        )


def processes_of(block: Block) -> list[Process]:
    cells = Cells(block)
    processes: list[Process] = []
    seen: dict[Any, tuple[int, dict[int, int]]] = {}
    for number, events in enumerate(block.events):
        for lanes in _classes(events):
            steps = []
            for event in events:
                if not event.lanes & lanes:
                    continue
                key = (event.share, lanes, event.kind)
                if key not in seen:
                    shares: dict[int, int] = {}
                    for lane, at, size in event.share:
                        if lanes >> lane & 1 or event.kind == "product":
                            shares[lane] = shares.get(lane, 0) | cells.masks[at, size]
                    total = 0
                    for each in shares.values():
                        total |= each
                    seen[key] = total, shares
                if event.kind != "access" or seen[key][0]:
                    steps.append(Step(event.kind, event, *seen[key]))
                if event.kind == "bar" and event.write:
                    steps.append(Step("passed", event))
            processes.append(Process(len(processes), number, lanes.bit_count(), steps))
    for process in processes:
        if sum(each.warp == process.warp for each in processes) == 1:
            process.steps = [each for each in process.steps if each.kind != "meet" or each.event.write]
    return processes


def _classes(events: list[Event]) -> list[int]:
    """Sets of lanes that take part in the same events, but for accesses, whose lanes are told apart anyway."""
    out = [ALL]
    for mask in {event.lanes for event in events if event.kind not in ("access", "cp")}:
        out = [part for each in out for part in (each & mask, each & ~mask) if part]
    return out


class Schedule:
    """One schedule, step by step. `found`: (event, process) pairs: before that event this process should be tried."""

    def __init__(self, block: Block, templates: list[Process], around: dict[int, int]) -> None:
        self.processes = [Process(a.number, a.warp, a.size, a.steps) for a in templates]
        self.around = around
        self.arrays = tuple((at, at + size) for at, size in block.program.arrays.values())
        self.barriers: dict[int, Barrier] = {}
        self.named: dict[int, Named] = {}
        self.meeting: dict[int, tuple[int, int, int]] = {}  # of a warp: meetings begun, bits, pasts
        self.met: dict[tuple[int, int], tuple[int, int]] = {}
        self.products: dict[tuple[int, int], list[Any]] = {}
        self.records: list[Record] = []
        self.bits = self.written = self.events = 0
        self.found: set[int] = set()
        self.pasts: dict[int, int] = {}  # of each event, with itself
        self.phases: dict[tuple[int, int], int] = {}  # in which phase a process's step came
        self.of_warp = {a.warp: sum(b.warp == a.warp for b in self.processes) for a in self.processes}
        self.has_async = any(s.kind in ("load", "store", "product") for a in self.processes for s in a.steps)
        for process in list(self.processes):
            self._local(process)

    def bit(self) -> int:
        self.bits += 1
        return 1 << (self.bits - 1)

    # -- what processes do by themselves, at once

    def _local(self, process: Process) -> None:
        while not process.done:
            step = process.steps[process.at]
            if step.kind in SCHEDULED:
                return
            getattr(self, f"_{step.kind}")(process, step)
            process.at += 1
        process.known |= process.own

    def _access(self, process: Process, step: Step, bit: int = 0, **how: bool) -> Record:
        asynchronous, copy = how.get("asynchronous", False), how.get("copy", False)
        cells, write, line, atomic = step.cells, step.event.write, step.event.line, step.event.atomic
        if write and not atomic:
            own = 0
            for mine in step.lanes.values():
                if own & mine:
                    raise Fault(f"line {line}: two lanes write the same bytes")
                own |= mine
        for at, size in {(at, size) for _, at, size in step.event.share}:
            if not any(begin <= at <= at + size <= end for begin, end in self.arrays):
                raise Fault(f"line {line}: out of bounds")
        if any(cells & self.around[at] for at in self.barriers if at in self.around):
            raise Fault(f"line {line}: touches an mbarrier")
        if (atomic or not write) and cells & ~self.written:
            raise Fault(f"line {line}: nothing has written this")
        for each in self.records:
            if (write or each.write) and cells & each.cells and not (atomic and each.atomic):
                self._ordered(process, each, step, asynchronous)
        if write:
            self.written |= cells
        new = Record(
            bit or self.bit(),
            0 if asynchronous else self.bit(),
            write,
            asynchronous,
            cells,
            step.lanes,
            process.number,
            line,
            atomic,
        )
        self.records = [each for each in self.records if not self._hidden(process, each, new)]
        self.records.append(new)
        if not asynchronous and not copy:
            if process.size == 1:
                process.known |= new.bit
            else:
                process.own |= new.bit
        if len(self.records) % 64 == 0:
            self._forget()
        return new

    def _ordered(self, process: Process, each: Record, step: Step, asynchronous: bool) -> None:
        if not each.bit & process.known:
            if asynchronous or not each.bit & process.own:
                raise Fault(f"line {step.event.line}: races with line {each.line}")
            for lane, mine in step.lanes.items():
                if any(lane != other and mine & theirs for other, theirs in each.lanes.items()):
                    raise Fault(f"line {step.event.line}: races with line {each.line} of another lane")
        if asynchronous and not each.asynchronous and not each.fence & process.known:
            raise Fault(f"line {step.event.line}: no proxy fence since line {each.line}")

    @staticmethod
    def _hidden(process: Process, old: Record, new: Record) -> bool:
        """Whether what conflicts with the old access conflicts with the new one, which is ordered behind it."""
        if new.atomic and not old.atomic:
            return False
        if old.cells & ~new.cells or not old.bit & (process.known | process.own):
            return False
        if new.write and (new.asynchronous or old.asynchronous):
            return True
        if old.asynchronous or new.asynchronous or old.process != new.process or old.write > new.write:
            return False
        return all(not cells & ~new.lanes.get(lane, 0) for lane, cells in old.lanes.items())

    def _forget(self) -> None:
        """Accesses that all know of, with their fences."""
        common = -1
        for process in self.processes:
            if not process.done:
                common &= process.known
        self.records = [
            each
            for each in self.records
            if not (each.bit & common and (each.asynchronous or not self.has_async or each.fence & common))
        ]

    def _fence(self, process: Process, step: Step) -> None:
        for each in self.records:
            if each.process == process.number and not each.asynchronous and each.bit & (process.known | process.own):
                if process.size == 1:
                    process.known |= each.fence
                else:
                    process.own |= each.fence

    def _mbarrier_init(self, process: Process, step: Step) -> None:
        at = step.event.at
        if at in self.barriers:
            raise Fault(f"line {step.event.line}: an mbarrier initialised twice")
        bit, fence = self.bit(), self.bit()
        process.known |= bit
        self.barriers[at] = Barrier(step.event.number, step.event.number, bit, fence)

    def _mbarrier_fence(self, process: Process, step: Step) -> None:
        for each in self.barriers.values():
            if each.bit & process.known:
                process.known |= each.fence

    def _load(self, process: Process, step: Step) -> None:
        record = self._access(process, step, asynchronous=True)
        barrier = self._barrier(process, step)
        if not barrier.fence & process.known:
            raise Fault(f"line {step.event.line}: no fence.mbarrier_init")
        copy = Process(len(self.processes), -1, 1, [Step("complete", step.event)], known=record.bit, past=process.past)
        self.processes.append(copy)

    def _store(self, process: Process, step: Step) -> None:
        process.stores[-1] |= self._access(process, step, asynchronous=True).bit

    def _commit(self, process: Process, step: Step) -> None:
        process.stores.append(0)

    def _wait(self, process: Process, step: Step) -> None:
        done = max(len(process.stores) - 1 - step.event.number, 0)
        for n in range(done):
            process.known |= process.stores[n]
            process.stores[n] = 0

    def _cp(self, process: Process, step: Step) -> None:
        process.groups[-1] |= self._access(process, step, copy=True).bit

    def _cp_commit(self, process: Process, step: Step) -> None:
        process.groups.append(0)

    def _cp_wait(self, process: Process, step: Step) -> None:
        for n in range(max(len(process.groups) - 1 - step.event.number, 0)):
            process.own |= process.groups[n]
            process.groups[n] = 0

    def _product(self, process: Process, step: Step) -> None:
        key = process.warp // 4, step.event.number
        lanes = sum(a.size for a in self.processes if a.warp // 4 == key[0])
        if lanes < 128:
            raise Fault("a product by less than four warps")
        found = self.products.setdefault(key, [step.event.what, self.bit(), 0, 0])
        if found[0] != step.event.what:
            raise Fault(f"line {step.event.line}: different products")
        for each in self.records:
            if each.write and step.cells & each.cells:
                self._ordered(process, each, step, True)
        if not found[2]:
            self._access(process, step, found[1], asynchronous=True)
        found[2] += process.size
        found[3] |= process.past
        process.issued = step.event.number

    # -- what is scheduled

    def _barrier(self, process: Process, step: Step) -> Barrier:
        barrier = self.barriers.get(step.event.at)
        if barrier is None:
            raise Fault(f"line {step.event.line}: no mbarrier")
        if process.warp >= 0 and not barrier.bit & process.known:
            raise Fault(f"line {step.event.line}: the mbarrier's initialisation is not known")
        return barrier

    def enabled(self, process: Process) -> bool:
        if process.done:
            return False
        step = process.steps[process.at]
        if step.kind == "try_wait":
            return self._barrier(process, step).index % 2 != step.event.number
        if step.kind == "passed":
            return self.named[step.event.at].index > process.waits_for
        if step.kind == "meet":
            return process.waits_for < 0 or (process.warp, process.waits_for) in self.met
        if step.kind == "product_wait":
            found = self.products[process.warp // 4, step.event.number]
            return bool(found[2] == 128)
        return True

    def run(self, number: int) -> None:
        """A process's next scheduled event, and what it does by itself then."""
        process = self.processes[number]
        step = process.steps[process.at]
        event, before = 1 << self.events, process.past
        self.events += 1
        process.past |= event
        moved = getattr(self, f"_do_{step.kind}")(process, step, event, before)
        self.pasts[event] = process.past
        if moved is not False:
            process.at += 1
            self._local(process)

    def _release(self, process: Process) -> int:
        return process.known | process.own

    def _do_arrive(self, process: Process, step: Step, event: int, before: int) -> None:
        barrier = self._barrier(process, step)
        count = step.event.number * process.size
        if count > barrier.pending:
            raise Fault(f"line {step.event.line}: more arrivals than are counted")
        barrier.pending -= count
        barrier.bytes += step.event.bytes * process.size
        barrier.released |= self._release(process)
        self._arrived(process, barrier, event, before)

    def _do_expect(self, process: Process, step: Step, event: int, before: int) -> None:
        barrier = self._barrier(process, step)
        barrier.bytes += step.event.bytes * process.size
        barrier.expects |= event
        self._arrived(process, barrier, event, before)

    def _do_complete(self, process: Process, step: Step, event: int, before: int) -> None:
        barrier = self._barrier(process, step)
        barrier.bytes -= step.event.bytes
        barrier.completes |= event
        barrier.negative |= barrier.bytes < 0
        barrier.released |= process.known
        self._arrived(process, barrier, event, before)

    def _arrived(self, process: Process, barrier: Barrier, event: int, before: int) -> None:
        self.phases[process.number, process.at] = barrier.index
        for phase in barrier.phases[:-1]:  # might have come in one of these
            for x, who, _ in phase:
                if who != process.number and not x & before:
                    self.found.add(x)
        process.past |= barrier.flip
        now = barrier.phases[-1]
        now.append((event, process.number, before))
        if barrier.pending:
            return
        # The phase might be complete without bytes that are not announced, or are not by what arrives.
        loose, arrivals = barrier.expects | (barrier.completes if barrier.negative else 0), 0
        for x, _, before in now:
            arrivals |= 0 if x & (barrier.expects | barrier.completes) else before
        for x, _, _ in now:
            if x & loose & ~arrivals:
                self.found.add(x)
        if barrier.bytes == 0:
            self._flip(barrier)

    def _flip(self, barrier: Barrier) -> None:
        causes, flip = 0, barrier.flip
        for x, _, before in barrier.phases[-1]:
            causes |= before
            flip |= x | before
        for x, _ in barrier.waits[-1]:  # might come after this
            if not x & causes:
                self.found.add(x)
            flip |= self.pasts[x]
        barrier.flip = flip
        barrier.index += 1
        barrier.pending, barrier.done, barrier.released = barrier.count, barrier.released, 0
        barrier.expects = barrier.completes = 0
        barrier.negative = False
        barrier.phases.append([])
        barrier.waits.append([])

    def _do_try_wait(self, process: Process, step: Step, event: int, before: int) -> None:
        barrier = self._barrier(process, step)
        self.phases[process.number, process.at] = barrier.index
        for n in range(barrier.index - 2, -1, -2):  # might have passed before phase n was complete
            for x, who, _ in barrier.phases[n]:
                if who != process.number and not x & before:
                    self.found.add(x)
        process.past |= barrier.flip
        barrier.waits[-1].append((event, process.number))
        process.known |= barrier.done

    def _do_bar(self, process: Process, step: Step, event: int, before: int) -> None:
        number, threads = step.event.at, step.event.number
        total = sum(a.size for a in self.processes if a.warp >= 0)
        if threads % 32 or not 0 < threads <= total or not 0 <= number < 16:
            raise Fault(f"line {step.event.line}: barrier {number} of {threads}")
        named = self.named.setdefault(number, Named())
        self.phases[process.number, process.at] = named.index
        for use in named.uses[:-1]:
            for x, who in use:
                if who != process.number and not x & before:
                    self.found.add(x)
        if named.arrived and named.threads != threads:
            raise Fault(f"line {step.event.line}: different numbers of threads")
        if process.number in [who for _, who in named.uses[-1]]:
            raise Fault(f"line {step.event.line}: arrives twice")
        if named.done:
            process.past |= named.done[-1][1]
        named.threads, named.arrived = threads, named.arrived + process.size
        if named.arrived > threads:
            raise Fault(f"line {step.event.line}: more threads than the barrier is for")
        named.released |= self._release(process)
        named.past |= process.past
        named.uses[-1].append((event, process.number))
        process.waits_for = named.index if step.event.write else -1
        if named.arrived == threads:
            named.done.append((named.released, named.past | (named.done[-1][1] if named.done else 0)))
            named.index += 1
            named.arrived = named.released = named.past = 0
            named.uses.append([])

    def _do_passed(self, process: Process, step: Step, event: int, before: int) -> None:
        released, past = self.named[step.event.at].done[process.waits_for]
        process.known |= released
        process.past |= past
        process.waits_for = -1

    def _do_meet(self, process: Process, step: Step, event: int, before: int) -> bool:
        """The lanes of a warp, in two steps: arrives, then goes on."""
        if process.waits_for >= 0:
            known, past = self.met[process.warp, process.waits_for]
            if step.event.write:
                process.known |= known
            process.past |= past
            process.waits_for = -1
            return True
        begun, known, past = self.meeting.get(process.warp, (0, 0, 0))
        arrived, begun = begun % 64 + 1, begun // 64
        known, past = known | self._release(process), past | process.past
        process.waits_for = begun
        if arrived == self.of_warp[process.warp]:
            self.met[process.warp, begun] = known, past
            self.meeting[process.warp] = (begun + 1) * 64, 0, 0
        else:
            self.meeting[process.warp] = begun * 64 + arrived, known, past
        return False

    def _do_product_wait(self, process: Process, step: Step, event: int, before: int) -> None:
        for n in range(1, step.event.number + 1):
            found = self.products[process.warp // 4, n]
            process.known |= found[1]
            process.past |= found[3]

    # -- the reduction's questions

    def commute(self, a: int, b: int) -> bool:
        """Whether the next events of two processes may be exchanged here."""
        x, y = (self.processes[n].steps[self.processes[n].at] for n in (a, b))
        on = ("arrive", "expect", "complete", "try_wait")
        if x.kind in on and y.kind in on and x.event.at == y.event.at:
            barrier = self.barriers[x.event.at]
            return not any(self._completes(n, s, barrier) for n, s in ((a, x), (b, y)))
        if x.kind == y.kind == "bar" and x.event.at == y.event.at:
            named = self.named.get(x.event.at, Named())
            return all(named.arrived + self.processes[n].size < x.event.number for n in (a, b))
        return True

    def _completes(self, number: int, step: Step, barrier: Barrier) -> bool:
        size = self.processes[number].size
        if step.kind == "try_wait":
            return False
        pending = barrier.pending - (step.event.number * size if step.kind == "arrive" else 0)
        more = -step.event.bytes if step.kind == "complete" else step.event.bytes * size
        return pending <= 0 and barrier.bytes + more == 0

    def look_ahead(self) -> None:
        """Where a schedule is not followed further: what the next event of each process might have come before."""
        for process in self.processes:
            step = None if process.done else process.steps[process.at]
            if step is None:
                continue
            if step.kind in ("arrive", "expect", "complete", "try_wait"):
                barrier = self._barrier(process, step)
                for n, phase in enumerate(barrier.phases[:-1]):
                    if step.kind != "try_wait" or n % 2 != step.event.number:
                        self.found |= {x for x, who, _ in phase if who != process.number and not x & process.past}
            elif step.kind == "bar" and step.event.at in self.named:
                for use in self.named[step.event.at].uses[:-1]:
                    self.found |= {x for x, who in use if who != process.number and not x & process.past}

    def check_end(self) -> None:
        for process in self.processes:
            if not process.done:
                step = process.steps[process.at]
                raise Fault(f"line {step.event.line}: stuck: {step.kind}")
        ended = 0
        for process in self.processes:
            if process.warp >= 0:
                ended |= process.known
        for each in self.records:
            if not each.bit & ended:
                raise Fault(f"line {each.line}: under way when the block ends")


Outcome: TypeAlias = "frozenset[tuple[tuple[int, int], int]]"


def explore(block: Block, most: int = 2000, *, every: bool = False) -> tuple[int, set[Outcome]]:
    """Runs every schedule, up to the order of events that commute (`every`: each one); how many, and in which phases
    the processes' events come. Raises Fault, TooMany."""
    templates = processes_of(block)
    cells = Cells(block)
    inits = {event.at for warp in block.events for event in warp if event.kind == "mbarrier_init"}
    around = {at: cells.around(at, 8) for at in inits}
    nodes: list[Node] = []
    outcomes: set[Outcome] = set()
    runs = 0
    while True:
        runs += 1
        if runs > most:
            raise TooMany
        schedule = Schedule(block, templates, around)
        if _one(schedule, nodes, every):
            outcomes.add(frozenset(schedule.phases.items()))
        while nodes and not nodes[-1].todo - nodes[-1].sleep:
            nodes.pop()
        if not nodes:
            return runs, outcomes
        node = nodes[-1]
        node.chosen = min(node.todo - node.sleep)


def _one(schedule: Schedule, nodes: list[Node], every: bool) -> bool:
    """A schedule that begins as the nodes say; adds its nodes, and to each what has to be tried there. Whether it comes
    to the end, and is not one of those before."""
    given, asleep = len(nodes), set[int]()
    for number in range(1 << 30):
        enabled = [a.number for a in schedule.processes if schedule.enabled(a)]
        choices = [n for n in enabled if n not in asleep]
        if number < given:
            node = nodes[number]
        elif not enabled:
            schedule.check_end()
            return True
        elif not choices:
            schedule.look_ahead()
            _try_before(schedule, nodes)
            return False
        else:
            last = nodes[-1].chosen if nodes else -1
            chosen = last if last in choices else choices[0]
            node = Node(enabled, chosen, set(enabled) if every else {chosen}, set(asleep))
            nodes.append(node)
        asleep = {n for n in node.sleep if n != node.chosen and not every and schedule.commute(n, node.chosen)}
        node.sleep = node.sleep | {node.chosen}
        schedule.run(node.chosen)
        _try_before(schedule, nodes)
    return False


def _try_before(schedule: Schedule, nodes: list[Node]) -> None:
    """Before each event that was found, all that are enabled are to be tried."""
    for event in schedule.found:
        node = nodes[event.bit_length() - 1]
        node.todo |= set(node.enabled)
    schedule.found.clear()


def sample(block: Block, tries: int, seed: int = 0) -> None:
    """Some schedules by chance: the process that runs is the first of an order, which changes now and then."""
    templates, rng = processes_of(block), random.Random(seed)
    for _ in range(tries):
        schedule = Schedule(block, templates, {})
        order: list[tuple[float, int]] = []  # of those that could run already
        fresh, known = list(schedule.processes), len(schedule.processes)
        while True:
            for each in [a for a in fresh if schedule.enabled(a)]:
                fresh.remove(each)
                insort(order, (-rng.random(), each.number))
            place = next((k for k, (_, n) in enumerate(order) if schedule.enabled(schedule.processes[n])), -1)
            if place < 0:
                break
            rank, chosen = order.pop(place)
            if rng.random() < 0.03:
                rank = rng.random()
            schedule.run(chosen)
            if not schedule.processes[chosen].done:
                insort(order, (rank, chosen))
            fresh += schedule.processes[known:]
            known = len(schedule.processes)
        schedule.check_end()


def verdict(block: Block, most: int = 2000) -> str:
    """ "" or what goes wrong in some schedule."""
    try:
        explore(block, most)
    except Fault as fault:
        return str(fault)
    return ""


def chance(block: Block, tries: int) -> str:
    """ "" or what goes wrong in one of these schedules."""
    try:
        sample(block, tries)
    except Fault as fault:
        return str(fault)
    return ""


__all__ = ["Broken", "Fault", "TooMany", "Unsupported", "chance", "explore", "sample", "verdict"]
