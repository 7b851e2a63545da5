"""Every schedule of a block whose warps' events are given (`concrete`), by dynamic partial order reduction.

It tests the theorem of docs/proof.md, so it takes nothing from it: an mbarrier is a count, a number of bytes and a
parity, waits go by the parity, and schedules that differ in the order of events that do not commute are all run
(Flanagan and Godefroid, POPL 2005, with sleep sets). In each schedule races are found by what agents know.

An agent is a set of lanes of a warp that take part in the same synchronisation, or the completion of a bulk copy. What
happens before is kept as sets of bits, twice: `known`, accesses and fences that are ordered before an agent's next step
(memory); and `past`, the scheduled events that lead to it (for the reduction).
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tests.proof.concrete import ALL, HOME, Block, Broken, Event, Unsupported

LOCAL = ("access", "fence", "mbarrier_init", "mbarrier_fence", "load", "store", "commit", "wait", "cp", "cp_commit")
SCHEDULED = ("arrive", "expect", "try_wait", "bar", "passed", "meet", "product_wait", "complete")


class Fault(Exception):
    """In some schedule a rule of the memory model is broken, or agents wait for ever."""


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
    agent: int
    line: int


@dataclass(slots=True)
class Step:
    """An event of an agent with its footprint in cells."""

    kind: str
    event: Event
    cells: int = 0
    lanes: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class Agent:
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
    """An mbarrier: `index` phases are complete. `phases[n]`: (event, agent, past before) of arrivals in phase n;
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


def agents_of(block: Block) -> list[Agent]:
    cells = Cells(block)
    agents: list[Agent] = []
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
            agents.append(Agent(len(agents), number, lanes.bit_count(), steps))
    for agent in agents:
        if sum(each.warp == agent.warp for each in agents) == 1:
            agent.steps = [each for each in agent.steps if each.kind != "meet" or each.event.write]
    return agents


def _classes(events: list[Event]) -> list[int]:
    """Sets of lanes that take part in the same events, but for accesses, whose lanes are told apart anyway."""
    out = [ALL]
    for mask in {event.lanes for event in events if event.kind not in ("access", "cp")}:
        out = [part for each in out for part in (each & mask, each & ~mask) if part]
    return out


class Schedule:
    """One schedule, step by step. `found`: (event, agent) pairs: before that event this agent should be tried."""

    def __init__(self, block: Block, templates: list[Agent], around: dict[int, int]) -> None:
        self.agents = [Agent(a.number, a.warp, a.size, a.steps) for a in templates]
        self.around, self.size = around, block.program.shared
        self.barriers: dict[int, Barrier] = {}
        self.named: dict[int, Named] = {}
        self.meeting: dict[int, tuple[int, int, int]] = {}  # of a warp: meetings begun, bits, pasts
        self.met: dict[tuple[int, int], tuple[int, int]] = {}
        self.products: dict[tuple[int, int], list[Any]] = {}
        self.records: list[Record] = []
        self.bits = self.written = self.events = 0
        self.found: set[int] = set()
        self.pasts: dict[int, int] = {}  # of each event, with itself
        self.phases: dict[tuple[int, int], int] = {}  # in which phase an agent's step came
        self.of_warp = {a.warp: sum(b.warp == a.warp for b in self.agents) for a in self.agents}
        self.has_async = any(s.kind in ("load", "store", "product") for a in self.agents for s in a.steps)
        for agent in list(self.agents):
            self._local(agent)

    def bit(self) -> int:
        self.bits += 1
        return 1 << (self.bits - 1)

    # -- what agents do by themselves, at once

    def _local(self, agent: Agent) -> None:
        while not agent.done:
            step = agent.steps[agent.at]
            if step.kind in SCHEDULED:
                return
            getattr(self, f"_{step.kind}")(agent, step)
            agent.at += 1
        agent.known |= agent.own

    def _access(self, agent: Agent, step: Step, bit: int = 0, **how: bool) -> Record:
        asynchronous, copy = how.get("asynchronous", False), how.get("copy", False)
        cells, write, line = step.cells, step.event.write, step.event.line
        if write:
            own = 0
            for mine in step.lanes.values():
                if own & mine:
                    raise Fault(f"line {line}: two lanes write the same bytes")
                own |= mine
        for at, size in ((at, size) for _, at, size in step.event.share):
            if not HOME <= at <= at + size <= HOME + self.size:
                raise Fault(f"line {line}: out of bounds")
        if any(cells & self.around[at] for at in self.barriers if at in self.around):
            raise Fault(f"line {line}: touches an mbarrier")
        if not write and cells & ~self.written:
            raise Fault(f"line {line}: nothing has written this")
        for each in self.records:
            if (write or each.write) and cells & each.cells:
                self._ordered(agent, each, step, asynchronous)
        if write:
            self.written |= cells
        new = Record(
            bit or self.bit(),
            0 if asynchronous else self.bit(),
            write,
            asynchronous,
            cells,
            step.lanes,
            agent.number,
            line,
        )
        self.records = [each for each in self.records if not self._hidden(agent, each, new)]
        self.records.append(new)
        if not asynchronous and not copy:
            if agent.size == 1:
                agent.known |= new.bit
            else:
                agent.own |= new.bit
        if len(self.records) % 64 == 0:
            self._forget()
        return new

    def _ordered(self, agent: Agent, each: Record, step: Step, asynchronous: bool) -> None:
        if not each.bit & agent.known:
            if asynchronous or not each.bit & agent.own:
                raise Fault(f"line {step.event.line}: races with line {each.line}")
            for lane, mine in step.lanes.items():
                if any(lane != other and mine & theirs for other, theirs in each.lanes.items()):
                    raise Fault(f"line {step.event.line}: races with line {each.line} of another lane")
        if asynchronous and not each.asynchronous and not each.fence & agent.known:
            raise Fault(f"line {step.event.line}: no proxy fence since line {each.line}")

    @staticmethod
    def _hidden(agent: Agent, old: Record, new: Record) -> bool:
        """Whether what conflicts with the old access conflicts with the new one, which is ordered behind it."""
        if old.cells & ~new.cells or not old.bit & (agent.known | agent.own):
            return False
        if new.write and (new.asynchronous or old.asynchronous):
            return True
        if old.asynchronous or new.asynchronous or old.agent != new.agent or old.write > new.write:
            return False
        return all(not cells & ~new.lanes.get(lane, 0) for lane, cells in old.lanes.items())

    def _forget(self) -> None:
        """Accesses that all know of, with their fences."""
        common = -1
        for agent in self.agents:
            if not agent.done:
                common &= agent.known
        self.records = [
            each
            for each in self.records
            if not (each.bit & common and (each.asynchronous or not self.has_async or each.fence & common))
        ]

    def _fence(self, agent: Agent, step: Step) -> None:
        for each in self.records:
            if each.agent == agent.number and not each.asynchronous and each.bit & (agent.known | agent.own):
                if agent.size == 1:
                    agent.known |= each.fence
                else:
                    agent.own |= each.fence

    def _mbarrier_init(self, agent: Agent, step: Step) -> None:
        at = step.event.at
        if at in self.barriers:
            raise Fault(f"line {step.event.line}: an mbarrier initialised twice")
        bit, fence = self.bit(), self.bit()
        agent.known |= bit
        self.barriers[at] = Barrier(step.event.number, step.event.number, bit, fence)

    def _mbarrier_fence(self, agent: Agent, step: Step) -> None:
        for each in self.barriers.values():
            if each.bit & agent.known:
                agent.known |= each.fence

    def _load(self, agent: Agent, step: Step) -> None:
        record = self._access(agent, step, asynchronous=True)
        barrier = self._barrier(agent, step)
        if not barrier.fence & agent.known:
            raise Fault(f"line {step.event.line}: no fence.mbarrier_init")
        copy = Agent(len(self.agents), -1, 1, [Step("complete", step.event)], known=record.bit, past=agent.past)
        self.agents.append(copy)

    def _store(self, agent: Agent, step: Step) -> None:
        agent.stores[-1] |= self._access(agent, step, asynchronous=True).bit

    def _commit(self, agent: Agent, step: Step) -> None:
        agent.stores.append(0)

    def _wait(self, agent: Agent, step: Step) -> None:
        done = max(len(agent.stores) - 1 - step.event.number, 0)
        for n in range(done):
            agent.known |= agent.stores[n]
            agent.stores[n] = 0

    def _cp(self, agent: Agent, step: Step) -> None:
        agent.groups[-1] |= self._access(agent, step, copy=True).bit

    def _cp_commit(self, agent: Agent, step: Step) -> None:
        agent.groups.append(0)

    def _cp_wait(self, agent: Agent, step: Step) -> None:
        for n in range(max(len(agent.groups) - 1 - step.event.number, 0)):
            agent.own |= agent.groups[n]
            agent.groups[n] = 0

    def _product(self, agent: Agent, step: Step) -> None:
        key = agent.warp // 4, step.event.number
        lanes = sum(a.size for a in self.agents if a.warp // 4 == key[0])
        if lanes < 128:
            raise Fault("a product by less than four warps")
        found = self.products.setdefault(key, [step.event.what, self.bit(), 0, 0])
        if found[0] != step.event.what:
            raise Fault(f"line {step.event.line}: different products")
        for each in self.records:
            if each.write and step.cells & each.cells:
                self._ordered(agent, each, step, True)
        if not found[2]:
            self._access(agent, step, found[1], asynchronous=True)
        found[2] += agent.size
        found[3] |= agent.past
        agent.issued = step.event.number

    # -- what is scheduled

    def _barrier(self, agent: Agent, step: Step) -> Barrier:
        barrier = self.barriers.get(step.event.at)
        if barrier is None:
            raise Fault(f"line {step.event.line}: no mbarrier")
        if agent.warp >= 0 and not barrier.bit & agent.known:
            raise Fault(f"line {step.event.line}: the mbarrier's initialisation is not known")
        return barrier

    def enabled(self, agent: Agent) -> bool:
        if agent.done:
            return False
        step = agent.steps[agent.at]
        if step.kind == "try_wait":
            return self._barrier(agent, step).index % 2 != step.event.number
        if step.kind == "passed":
            return self.named[step.event.at].index > agent.waits_for
        if step.kind == "meet":
            return agent.waits_for < 0 or (agent.warp, agent.waits_for) in self.met
        if step.kind == "product_wait":
            found = self.products[agent.warp // 4, step.event.number]
            return bool(found[2] == 128)
        return True

    def run(self, number: int) -> None:
        """An agent's next scheduled event, and what it does by itself then."""
        agent = self.agents[number]
        step = agent.steps[agent.at]
        event, before = 1 << self.events, agent.past
        self.events += 1
        agent.past |= event
        moved = getattr(self, f"_do_{step.kind}")(agent, step, event, before)
        self.pasts[event] = agent.past
        if moved is not False:
            agent.at += 1
            self._local(agent)

    def _release(self, agent: Agent) -> int:
        return agent.known | agent.own

    def _do_arrive(self, agent: Agent, step: Step, event: int, before: int) -> None:
        barrier = self._barrier(agent, step)
        count = step.event.number * agent.size
        if count > barrier.pending:
            raise Fault(f"line {step.event.line}: more arrivals than are counted")
        barrier.pending -= count
        barrier.bytes += step.event.bytes * agent.size
        barrier.released |= self._release(agent)
        self._arrived(agent, barrier, event, before)

    def _do_expect(self, agent: Agent, step: Step, event: int, before: int) -> None:
        barrier = self._barrier(agent, step)
        barrier.bytes += step.event.bytes * agent.size
        barrier.expects |= event
        self._arrived(agent, barrier, event, before)

    def _do_complete(self, agent: Agent, step: Step, event: int, before: int) -> None:
        barrier = self._barrier(agent, step)
        barrier.bytes -= step.event.bytes
        barrier.completes |= event
        barrier.negative |= barrier.bytes < 0
        barrier.released |= agent.known
        self._arrived(agent, barrier, event, before)

    def _arrived(self, agent: Agent, barrier: Barrier, event: int, before: int) -> None:
        self.phases[agent.number, agent.at] = barrier.index
        for phase in barrier.phases[:-1]:  # might have come in one of these
            for x, who, _ in phase:
                if who != agent.number and not x & before:
                    self.found.add(x)
        agent.past |= barrier.flip
        now = barrier.phases[-1]
        now.append((event, agent.number, before))
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

    def _do_try_wait(self, agent: Agent, step: Step, event: int, before: int) -> None:
        barrier = self._barrier(agent, step)
        self.phases[agent.number, agent.at] = barrier.index
        for n in range(barrier.index - 2, -1, -2):  # might have passed before phase n was complete
            for x, who, _ in barrier.phases[n]:
                if who != agent.number and not x & before:
                    self.found.add(x)
        agent.past |= barrier.flip
        barrier.waits[-1].append((event, agent.number))
        agent.known |= barrier.done

    def _do_bar(self, agent: Agent, step: Step, event: int, before: int) -> None:
        number, threads = step.event.at, step.event.number
        total = sum(a.size for a in self.agents if a.warp >= 0)
        if threads % 32 or not 0 < threads <= total or not 0 <= number < 16:
            raise Fault(f"line {step.event.line}: barrier {number} of {threads}")
        named = self.named.setdefault(number, Named())
        self.phases[agent.number, agent.at] = named.index
        for use in named.uses[:-1]:
            for x, who in use:
                if who != agent.number and not x & before:
                    self.found.add(x)
        if named.arrived and named.threads != threads:
            raise Fault(f"line {step.event.line}: different numbers of threads")
        if agent.number in [who for _, who in named.uses[-1]]:
            raise Fault(f"line {step.event.line}: arrives twice")
        if named.done:
            agent.past |= named.done[-1][1]
        named.threads, named.arrived = threads, named.arrived + agent.size
        if named.arrived > threads:
            raise Fault(f"line {step.event.line}: more threads than the barrier is for")
        named.released |= self._release(agent)
        named.past |= agent.past
        named.uses[-1].append((event, agent.number))
        agent.waits_for = named.index if step.event.write else -1
        if named.arrived == threads:
            named.done.append((named.released, named.past | (named.done[-1][1] if named.done else 0)))
            named.index += 1
            named.arrived = named.released = named.past = 0
            named.uses.append([])

    def _do_passed(self, agent: Agent, step: Step, event: int, before: int) -> None:
        released, past = self.named[step.event.at].done[agent.waits_for]
        agent.known |= released
        agent.past |= past
        agent.waits_for = -1

    def _do_meet(self, agent: Agent, step: Step, event: int, before: int) -> bool:
        """The lanes of a warp, in two steps: arrives, then goes on."""
        if agent.waits_for >= 0:
            known, past = self.met[agent.warp, agent.waits_for]
            if step.event.write:
                agent.known |= known
            agent.past |= past
            agent.waits_for = -1
            return True
        begun, known, past = self.meeting.get(agent.warp, (0, 0, 0))
        arrived, begun = begun % 64 + 1, begun // 64
        known, past = known | self._release(agent), past | agent.past
        agent.waits_for = begun
        if arrived == self.of_warp[agent.warp]:
            self.met[agent.warp, begun] = known, past
            self.meeting[agent.warp] = (begun + 1) * 64, 0, 0
        else:
            self.meeting[agent.warp] = begun * 64 + arrived, known, past
        return False

    def _do_product_wait(self, agent: Agent, step: Step, event: int, before: int) -> None:
        for n in range(1, step.event.number + 1):
            found = self.products[agent.warp // 4, n]
            agent.known |= found[1]
            agent.past |= found[3]

    # -- the reduction's questions

    def commute(self, a: int, b: int) -> bool:
        """Whether the next events of two agents may change places here."""
        x, y = (self.agents[n].steps[self.agents[n].at] for n in (a, b))
        on = ("arrive", "expect", "complete", "try_wait")
        if x.kind in on and y.kind in on and x.event.at == y.event.at:
            barrier = self.barriers[x.event.at]
            return not any(self._completes(n, s, barrier) for n, s in ((a, x), (b, y)))
        if x.kind == y.kind == "bar" and x.event.at == y.event.at:
            named = self.named.get(x.event.at, Named())
            return all(named.arrived + self.agents[n].size < x.event.number for n in (a, b))
        return True

    def _completes(self, number: int, step: Step, barrier: Barrier) -> bool:
        size = self.agents[number].size
        if step.kind == "try_wait":
            return False
        pending = barrier.pending - (step.event.number * size if step.kind == "arrive" else 0)
        more = -step.event.bytes if step.kind == "complete" else step.event.bytes * size
        return pending <= 0 and barrier.bytes + more == 0

    def look_ahead(self) -> None:
        """Where a schedule is not followed further: what the next event of each agent might have come before."""
        for agent in self.agents:
            step = None if agent.done else agent.steps[agent.at]
            if step is None:
                continue
            if step.kind in ("arrive", "expect", "complete", "try_wait"):
                barrier = self._barrier(agent, step)
                for n, phase in enumerate(barrier.phases[:-1]):
                    if step.kind != "try_wait" or n % 2 != step.event.number:
                        self.found |= {x for x, who, _ in phase if who != agent.number and not x & agent.past}
            elif step.kind == "bar" and step.event.at in self.named:
                for use in self.named[step.event.at].uses[:-1]:
                    self.found |= {x for x, who in use if who != agent.number and not x & agent.past}

    def check_end(self) -> None:
        for agent in self.agents:
            if not agent.done:
                step = agent.steps[agent.at]
                raise Fault(f"line {step.event.line}: stuck: {step.kind}")
        ended = 0
        for agent in self.agents:
            if agent.warp >= 0:
                ended |= agent.known
        for each in self.records:
            if not each.bit & ended:
                raise Fault(f"line {each.line}: under way when the block ends")


Outcome: TypeAlias = "frozenset[tuple[tuple[int, int], int]]"


def explore(block: Block, most: int = 2000, *, every: bool = False) -> tuple[int, set[Outcome]]:
    """Runs every schedule, up to the order of events that commute (`every`: each one); how many, and in which phases
    the agents' events come. Raises Fault, TooMany."""
    templates = agents_of(block)
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
        enabled = [a.number for a in schedule.agents if schedule.enabled(a)]
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
    """Some schedules by chance: the agent that runs is the first of an order, which changes now and then."""
    templates, rng = agents_of(block), random.Random(seed)
    for _ in range(tries):
        schedule = Schedule(block, templates, {})
        order: dict[int, float] = {}
        while enabled := [a.number for a in schedule.agents if schedule.enabled(a)]:
            chosen = max(enabled, key=lambda n: order.setdefault(n, rng.random()))
            if rng.random() < 0.03:
                order[chosen] = -rng.random()
            schedule.run(chosen)
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
