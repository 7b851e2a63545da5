"""mbarriers: phases, pending arrivals, transaction bytes (PTX ISA 8.0, 9.7.12.15).

An `MBarrier` lies in some CTA's shared memory and is kept here as an object; the eight bytes in memory stay as they
are, because programs may not look at them. Its phase completes when no arrivals are pending and the transaction count
is zero. Threads that wait sleep until then. `serial` counts the phases ever completed, over all initialisations.

For the race model an arrival releases what the arriving threads know into the current phase; who has waited acquires
all completed phases, as far as the scopes of both reach each other (`scopes.py`). The completion of asynchronous writes
is the barrier's own step (`async_clocks.py`), which each waiting thread learns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ...core.fixes import barrier_of, between
from ...core.memory import SharedSpace
from ...core.report import Finding
from ...core.scalars import Array, Sel, distinct
from ..operands import Read, address, error, per_thread, read, write
from ..program import SHARED_BASE, SHARED_WINDOW, Linker
from ..race.async_clocks import joined
from ..race.scopes import CLUSTER, Releases, scope_of
from ..syntax import Address, Instruction, Sink
from ..table import ControlHandler, Handler, Kind, Outcome, instruction
from ..wait_queue import Waiter, one_domain

if TYPE_CHECKING:
    from ..machine import Machine
    from ..race.model import RaceModel

MAX_COUNT = (1 << 20) - 1
_TRUNCATED = 2  # how many threads a report names


@dataclass(slots=True, eq=False)
class MBarrier:
    """One barrier: `cta` of the batch, `offset` in its shared memory, `count` arrivals per phase."""

    cta: int
    offset: int
    count: int
    origin: tuple[int, int, int]  # the initialising thread, the stamp, the instruction
    serial: int = 0
    phase: int = 0
    pending: int = 0
    transactions: int = 0
    fenced: bool = False  # the initialisation has been made visible to the async proxy
    current: Releases = field(default_factory=Releases)  # into the phase that is under way
    done: Releases = field(default_factory=Releases)  # into all phases before
    telling: Array | None = None  # what commits tell in this phase to be complete: a row of AsyncClocks
    told: Array | None = None  # and have told in all phases before
    arrived: dict[int, int] = field(default_factory=dict)  # in this phase: thread to instruction
    before: dict[int, int] = field(default_factory=dict)  # in the last phase
    introduced: set[int] = field(default_factory=set)  # threads that are known to know the initialisation

    @property
    def key(self) -> tuple[str, int, int]:
        """What its waiting threads wait for, and its name as an async engine."""
        return "mbarrier", self.cta, self.offset

    @property
    def sent(self) -> tuple[str, int, int]:
        """Its name as the engine of st.async from other CTAs, for those who wait in the cluster's scope."""
        return "st.async", self.cta, self.offset


@dataclass(frozen=True, slots=True)
class Semantics:
    """`.sem.scope` of an arrival or a wait. A relaxed one synchronises through fences only."""

    scope: int
    relaxed: bool

    @staticmethod
    def of(ins: Instruction) -> Semantics:
        """That of an instruction."""
        return Semantics(scope_of(ins), "relaxed" in ins.mods)


class MBarriers:
    """The mbarriers of a batch, by arena offset."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.at: dict[int, MBarrier] = {}

    # -- operations -------------------------------------------------------------------------------------------------

    def locate(self, sel: Sel, addr: Array, site: int) -> Array:
        """The arena offsets of barrier objects."""
        shared = self.machine.spaces["shared"]
        return shared.locate(self.machine, sel, addr, 8, site, "mbarrier")

    def get(self, place: int, thread: int, site: int) -> MBarrier:
        """The barrier at an arena offset; a finding that ends the run if there is none."""
        barrier = self.at.get(place)
        if barrier is None:
            cta, offset = self.split(place)
            where = self.machine.spaces["shared"].describe(self.machine, offset + SHARED_BASE)
            message = f"there is no mbarrier at {self.name(cta, offset)}: execute mbarrier.init first"
            self.machine.fault("uninitialised", message, site, "mbarrier", thread, "shared", where, 8)
        assert barrier is not None
        race = self.machine.race
        if race is not None and thread not in barrier.introduced:
            owner, stamp, origin = barrier.origin
            if not race.clocks.knows_one(thread, owner, stamp):
                message = "this mbarrier's initialisation by another thread is not known here"
                first, second = (
                    self.machine.access("mbarrier", site, thread),
                    self.machine.access("init", origin, owner),
                )
                name, offset = self.machine.spaces["shared"].describe(self.machine, barrier.offset + SHARED_BASE)
                meeting = barrier_of(self.machine, thread, owner)
                span, cure = (offset, offset + 8), f"{meeting} {between(self.machine, origin, site)}"
                self.machine.find(Finding("missing_barrier", message, first, second, "RAW", "shared", name, span, cure))
            barrier.introduced.add(thread)
        return barrier

    def split(self, place: int) -> tuple[int, int]:
        """(CTA, offset in its shared memory) of an arena offset."""
        shared = self.machine.spaces["shared"]
        assert isinstance(shared, SharedSpace)
        return place // shared.stride, place % shared.stride

    def name(self, cta: int, offset: int) -> str:
        """A barrier in words."""
        symbol, inside = self.machine.spaces["shared"].describe(self.machine, offset + SHARED_BASE)
        where = f"{symbol}+{inside}" if symbol else f"offset {offset}"
        position = self.machine.thread_position(cta * self.machine.padded)[1]
        return f"shared address {offset + SHARED_BASE:#x} ({where}) of CTA {position}"

    def init(self, place: int, count: int, thread: int, site: int) -> None:
        """mbarrier.init."""
        if not 1 <= count <= MAX_COUNT:
            self.complain(f"an mbarrier expects 1 to {MAX_COUNT} arrivals, not {count}", thread, site)
        cta, offset = self.split(place)
        old = self.at.get(place)
        now = self.machine.race.clocks.now if self.machine.race is not None else 0
        serial = 0 if old is None else old.serial
        barrier = MBarrier(cta, offset, count, (thread, now, site), serial=serial, pending=count)
        barrier.introduced.add(thread)
        self.at[place] = barrier
        if self.machine.race is not None:
            self.machine.race.proxy.reserve(place, True)

    def fence_init(self, threads: Array) -> None:
        """fence.mbarrier_init, or a proxy fence: what these threads have initialised is visible to the async proxy."""
        who = set(threads.tolist())
        for barrier in self.at.values():
            if barrier.origin[0] in who:
                barrier.fenced = True

    def check_fenced(self, barrier: MBarrier, thread: int, site: int) -> None:
        """A copy will complete on this barrier: its initialisation must be visible to the async proxy."""
        if barrier.fenced or self.machine.race is None:
            return
        owner, _, origin = barrier.origin
        message = "an asynchronous copy completes on this mbarrier, whose initialisation it need not see"
        first, second = self.machine.access("async mbarrier", site, thread), self.machine.access("init", origin, owner)
        name, offset = self.machine.spaces["shared"].describe(self.machine, barrier.offset + SHARED_BASE)
        self.machine.find(
            Finding(
                "missing_proxy_fence",
                message,
                first,
                second,
                "RAW",
                "shared",
                name,
                (offset, offset + 8),
                f"fence.mbarrier_init.release.cluster by the initialising thread {between(self.machine, origin, site)}",
            )
        )

    def arrive(
        self, barrier: MBarrier, threads: Array, count: int, site: int, sem: Semantics, drop: bool = False
    ) -> list[int]:
        """Each thread arrives `count` times; returns the phase that each arrived in."""
        race, phases = self.machine.race, []
        if len(threads) > 1 and len(threads) * count > barrier.pending:  # the phase ends between them
            return [
                phase
                for index in range(len(threads))
                for phase in self.arrive(barrier, threads[index : index + 1], count, site, sem, drop)
            ]
        if race is not None:
            self._release(race, barrier, threads, sem)
        for thread in threads.tolist():
            if count > barrier.pending:
                self.complain(
                    f"{count} arrivals where {barrier.pending} of {barrier.count} are pending, "
                    f"in phase {barrier.phase} of the mbarrier at {self.name(barrier.cta, barrier.offset)}",
                    thread,
                    site,
                )
            phases.append(barrier.phase)
            barrier.arrived[thread] = site
            barrier.pending -= count
            barrier.count -= count if drop else 0
            self.settle(barrier)
        return phases

    def _release(self, race: RaceModel, barrier: MBarrier, threads: Array, sem: Semantics) -> None:
        """What the threads know, or, where the arrival is relaxed, knew at their last fences."""
        for part in one_domain(threads, self.machine.padded):
            cta = race.cta(int(part[0]))
            if not sem.relaxed:
                barrier.current.add(cta, sem.scope, race.clocks.release(part))
                continue
            for thread in part.tolist():
                for scope, row in race.published(thread, sem.scope):
                    barrier.current.add(cta, scope, row)
                fenced = self.machine.tensor.order.fenced.get(thread)
                if fenced is not None:
                    barrier.current.add(cta, sem.scope, fenced.copy())

    def expect(self, barrier: MBarrier, amount: int, thread: int, site: int) -> None:
        """expect_tx."""
        barrier.transactions += amount
        if abs(barrier.transactions) > MAX_COUNT:
            self.complain(f"a transaction count of {barrier.transactions} is more than {MAX_COUNT}", thread, site)

    def settle(self, barrier: MBarrier) -> None:
        """Complete the phase if nothing is pending, and wake who waits for that."""
        self.machine.waiters.progress += 1
        if barrier.pending or barrier.transactions:
            return
        barrier.phase += 1
        barrier.serial += 1
        barrier.pending = barrier.count
        barrier.before, barrier.arrived = barrier.arrived, {}
        if self.machine.race is not None:
            barrier.done.take(barrier.current)
            barrier.current = Releases()
            if barrier.telling is not None:
                barrier.told = barrier.telling if barrier.told is None else joined(barrier.told, barrier.telling)
                barrier.telling = None
            self.machine.bulk.postpone(barrier)
        self.machine.waiters.changed(barrier.key)

    def observe(self, barrier: MBarrier, threads: Array, sem: Semantics) -> None:
        """These threads have seen a phase complete."""
        race = self.machine.race
        if race is None:
            return
        clocks, cluster = race.clocks, self.machine.launch.cluster_size
        async_clocks = clocks.async_clocks
        assert async_clocks is not None
        for part in one_domain(threads, self.machine.padded):
            cta, domain = race.cta(int(part[0])), int(part[0]) // clocks.padded
            if barrier.told is not None:  # in any scope: that operations are complete is no thread's access
                async_clocks.give(part, barrier.told)
            found = barrier.done.heard(cta, sem.scope, cluster)
            if sem.relaxed:
                for thread in part.tolist():
                    race.hear(thread, [(far, row.copy()) for far, row in found])
                continue
            for _, row in found:
                clocks.acquire(part, row)
            for row in barrier.done.unheard(cta, sem.scope, cluster):
                async_clocks.observe(part, row.extra)
            async_clocks.complete(part, async_clocks.engine(domain, barrier.key), barrier.serial)
            if sem.scope >= CLUSTER:
                async_clocks.complete(part, async_clocks.engine(domain, barrier.sent), barrier.serial)

    # -- words ------------------------------------------------------------------------------------------------------

    def complain(self, message: str, thread: int, site: int) -> None:
        """A misuse that ends the run."""
        self.machine.find(
            Finding("barrier_mismatch", message, self.machine.access("mbarrier", site, thread)), stop=True
        )

    def describe(self, barrier: MBarrier) -> str:
        """Where a barrier stands, for deadlock reports."""
        text = (
            f"the mbarrier at {self.name(barrier.cta, barrier.offset)} is in phase {barrier.phase}: "
            f"{barrier.pending} of {barrier.count} arrivals are pending and {barrier.transactions} bytes outstanding"
        )
        late = {thread: site for thread, site in barrier.before.items() if thread not in barrier.arrived}
        if barrier.pending and late:
            lines = sorted({self.machine.program.code[site].ins.line for site in late.values()})
            names = [self._who(thread) for thread in list(late)[:_TRUNCATED]]
            more = f" and {len(late) - _TRUNCATED} more" if len(late) > _TRUNCATED else ""
            text += f"; in the phase before, {', '.join(names)}{more} arrived at PTX line {_lines(lines)}"
        elif barrier.pending:
            text += "; no thread arrived in the phase before" if barrier.phase else "; no phase has completed yet"
            if barrier.arrived:
                text += f", but {', '.join(self._who(thread) for thread in list(barrier.arrived)[:_TRUNCATED])} arrived"
        if barrier.transactions > 0:
            text += "; the copies that should bring these bytes were never issued, or bring fewer"
        elif barrier.transactions < 0:
            text += "; copies brought more bytes than expect_tx announced"
        return text

    def _who(self, thread: int) -> str:
        position, _ = self.machine.thread_position(thread)
        if not self.machine.live[thread]:
            return f"thread {position} (which has exited)"
        return f"thread {position}"


def _lines(lines: list[int]) -> str:
    return ", ".join(str(line) for line in lines)


# -- instructions -----------------------------------------------------------------------------------------------------


def shared_address(operand: object, ins: Instruction, linker: Linker) -> Read:
    """An address in shared memory, whether the instruction names the space or takes a generic address."""
    if not isinstance(operand, Address):
        raise error(ins, "expected an address in brackets")
    where = address(operand, ins, linker)
    if any(mod.startswith("shared") for mod in ins.mods):
        return where
    return lambda m, sel: np.where(where(m, sel) >= SHARED_WINDOW, where(m, sel) - SHARED_WINDOW, where(m, sel))


def _each(m: Machine, sel: Sel, addr: Array, site: int) -> list[tuple[MBarrier, Array, Array]]:
    """The distinct barriers of an instruction, with the threads and their positions in the selection."""
    places, threads = m.mbarriers.locate(sel, addr, site), m.thread[sel]
    m.clusters.reach(places, threads, site)
    result = []
    for place in distinct(places):
        which = (places == place).nonzero()[0]
        for thread in threads[which].tolist():
            barrier = m.mbarriers.get(place, thread, site)
        result.append((barrier, threads[which], which))
    return result


@instruction("mbarrier.init", results=0)
def _init(ins: Instruction, linker: Linker) -> Handler:
    where, number = shared_address(ins.operands[0], ins, linker), read(ins.operands[1], "u32", ins, linker)
    site = linker.site(ins)

    def run(m: Machine, sel: Sel) -> None:
        places, counts = m.mbarriers.locate(sel, where(m, sel), site), per_thread(number(m, sel), sel)
        for place, count, thread in zip(places.tolist(), counts.tolist(), m.thread[sel].tolist(), strict=True):
            m.mbarriers.init(place, count, thread, site)

    return run


@instruction("mbarrier.inval", results=0)
def _invalidate(ins: Instruction, linker: Linker) -> Handler:
    where, site = shared_address(ins.operands[0], ins, linker), linker.site(ins)

    def run(m: Machine, sel: Sel) -> None:
        for place, thread in zip(
            m.mbarriers.locate(sel, where(m, sel), site).tolist(), m.thread[sel].tolist(), strict=True
        ):
            m.mbarriers.get(place, thread, site)
            del m.mbarriers.at[place]
            if m.race is not None:
                m.race.proxy.reserve(place, False)

    return run


def _state(phase: Array, pending: Array) -> Array:
    """The opaque state: the phase and the pending count."""
    return phase.astype(np.uint64) << np.uint64(32) | pending.astype(np.uint64)


@instruction("mbarrier.arrive", "mbarrier.arrive_drop")
def _arrive(ins: Instruction, linker: Linker) -> Handler:
    """mbarrier.arrive{.expect_tx | .noComplete}{.sem.scope}.b64 state, [addr]{, count or bytes}."""
    has_state = not isinstance(ins.operands[0], Address)
    operands = ins.operands[1:] if has_state else ins.operands
    where = shared_address(operands[0], ins, linker)
    target = ins.operands[0] if has_state else Sink()
    state = write(target, "b64", ins, linker)
    extra = read(operands[1], "u32", ins, linker) if len(operands) > 1 else None
    expects, partial = "expect_tx" in ins.mods, "noComplete" in ins.mods
    if (expects or partial) and extra is None:
        raise error(ins, "this form needs a count")
    site, sem, drop = linker.site(ins), Semantics.of(ins), ins.mods[0] == "arrive_drop"

    def run(m: Machine, sel: Sel) -> None:
        values = None if extra is None else per_thread(extra(m, sel), sel)
        phases, pending = np.zeros((2, len(m.thread[sel])), np.int64)
        for barrier, threads, which in _each(m, sel, where(m, sel), site):
            amounts = [1] * len(which) if values is None else values[which].tolist()
            if expects:
                for amount, thread in zip(amounts, threads.tolist(), strict=True):
                    m.mbarriers.expect(barrier, amount, thread, site)
            counts = [1] * len(which) if expects else amounts
            for count in sorted(set(counts)):
                part = [index for index, each in enumerate(counts) if each == count]
                if partial and len(part) * count >= barrier.pending:
                    m.mbarriers.complain("arrive.noComplete would complete the phase", int(threads[0]), site)
                phases[which[part]] = m.mbarriers.arrive(barrier, threads[part], count, site, sem, drop)
            pending[which] = barrier.pending
        if not isinstance(target, Sink):
            state(m, sel, _state(phases, pending))

    return run


@instruction("mbarrier.expect_tx", "mbarrier.complete_tx", results=0)
def _transactions(ins: Instruction, linker: Linker) -> Handler:
    where, amount = shared_address(ins.operands[0], ins, linker), read(ins.operands[1], "u32", ins, linker)
    site, sign = linker.site(ins), 1 if ins.mods[0] == "expect_tx" else -1

    def run(m: Machine, sel: Sel) -> None:
        amounts = per_thread(amount(m, sel), sel)
        for barrier, threads, which in _each(m, sel, where(m, sel), site):
            for each, thread in zip(amounts[which].tolist(), threads.tolist(), strict=True):
                m.mbarriers.expect(barrier, sign * each, thread, site)
            if sign < 0:
                m.mbarriers.settle(barrier)

    return run


@instruction("mbarrier.pending_count")
def _pending(ins: Instruction, linker: Linker) -> Handler:
    target, source = write(ins.operands[0], "b32", ins, linker), read(ins.operands[1], "b64", ins, linker)
    return lambda m, sel: target(m, sel, (source(m, sel) & np.uint64(MAX_COUNT)).astype(np.uint32))


@instruction("mbarrier.test_wait", "mbarrier.try_wait", kind=Kind.CONTROL)
def _wait(ins: Instruction, linker: Linker) -> ControlHandler:
    """Waits with a parity hold when the current phase has the other parity; those with a state, when its phase is over.

    try_wait sleeps until then. test_wait answers at once, but sleeps when it is asked again without any change.
    """
    target = write(ins.operands[0], "pred", ins, linker)
    where = shared_address(ins.operands[1], ins, linker)
    parity = "parity" in ins.mods
    wanted = read(ins.operands[2], "u32" if parity else "b64", ins, linker)
    site, sem, patient = linker.site(ins), Semantics.of(ins), ins.mods[0] == "try_wait"

    def answer(m: Machine, barrier: MBarrier, threads: Array, done: bool) -> None:
        target(m, threads, np.full(len(threads), done))
        if done:
            m.mbarriers.observe(barrier, threads, sem)

    def run(m: Machine, sel: Sel, pc: int) -> Outcome:
        wishes = per_thread(wanted(m, sel), sel)
        goes = np.zeros(len(m.thread[sel]), bool)
        for barrier, threads, which in _each(m, sel, where(m, sel), site):
            for wish in np.unique(wishes[which]):
                mine = wishes[which] == wish
                check = _condition(barrier, int(wish), parity)
                part = threads[mine]
                if check():
                    answer(m, barrier, part, True)
                elif _may_poll(m, barrier, part, patient):
                    answer(m, barrier, part, False)
                else:
                    _sleep(m, barrier, part, pc, check, answer, f"parity {int(wish)}" if parity else "its phase")
                    continue
                goes[which[mine]] = True
        if goes.all():
            return [(pc + 1, sel)]
        return [(pc + 1, m.thread[sel][goes])] if goes.any() else []

    return run


def _condition(barrier: MBarrier, wish: int, parity: bool) -> Callable[[], bool]:
    """Whether the wait is over."""
    if parity:
        return lambda: barrier.phase & 1 != wish & 1
    return lambda: barrier.phase > wish >> 32


def _may_poll(m: Machine, barrier: MBarrier, threads: Array, patient: bool) -> bool:
    """Whether a poll in vain returns at once: try_wait's by chance under "random", test_wait's the first time."""
    if patient:
        return m.launch.schedule == "random" and m.launch.rng.random() < 0.05
    key = (int(threads[0]), barrier.key)
    fresh = m.polls.get(key) != m.waiters.progress
    m.polls[key] = m.waiters.progress
    return fresh


def _sleep(
    m: Machine,
    barrier: MBarrier,
    threads: Array,
    pc: int,
    check: Callable[[], bool],
    answer: Callable[[Machine, MBarrier, Array, bool], None],
    wish: str,
) -> None:
    def wake(done: bool) -> None:
        answer(m, barrier, threads, done)

    def describe() -> str:
        return f"{wish}: {m.mbarriers.describe(barrier)}"

    m.waiters.add(barrier.key, Waiter(pc, threads, check, wake, describe, times_out=True))
