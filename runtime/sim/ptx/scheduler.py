"""Who executes what, when: groups of threads at one instruction, divergence and reconvergence.

A *group* is a set of threads, from any warps of the batch, that stand at the same instruction. The group with the
smallest program counter runs, in straight lines, until it branches, blocks, or comes to where another group stands
and joins it. This min-PC rule reconverges structured code at its join points and executes warps and CTAs together as
long as they agree, which is what makes the simulation fast; it is one legal order under independent thread
scheduling. A group that keeps branching backwards while others could run must let them (`_PATIENCE`), so that threads
may wait for each other in loops. Under schedule "random" a random part of a random group runs a random while; groups
join where a warp meets only, and of the threads of a warp that part at a branch some are held back for a while, or
until it meets: nothing says how soon they go on.

Instructions that a warp executes together park the threads whose partners have not come yet.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from ..core import errors
from ..core.endless import LoopWatch, State, most_loops
from ..core.errors import SimulationError
from ..core.memory import Fault
from ..core.report import Finding
from ..core.scalars import DTYPES, Array, Sel, every, select, some
from .program import Step
from .table import Kind, Outcome

if TYPE_CHECKING:
    from .machine import Machine

_PATIENCE = 256  # backward branches that a group may take while others could run
_SPIN_COST = 64  # what a branch costs whose loop looks at memory that others may change
_MAX_IDLE = 10_000  # such branches until a thread passes a barrier or exits
_HELD = (4, 11)  # for how many turns of others threads are held back: from and to that power of two
_LEFT_BEHIND = (
    "where one lane arrives for its warp, the phase that its other threads wait for may be over before they come: "
    "bar.warp.sync before the lane arrives"
)


@dataclass(slots=True, eq=False)
class Group:
    """Threads `sel` that continue at instruction `pc`. A parked group waits for threads of the same warps."""

    pc: int
    sel: Sel
    whole: bool
    parked: bool = False
    rank: int = 0  # how often it had to let others run; smaller ranks go first


class Scheduler:
    """Runs one batch to its end."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.program = machine.program
        self.code = machine.program.code
        self.random = machine.launch.schedule == "random"
        self.rng = machine.launch.rng
        self.groups: list[Group] = []
        self.held = np.zeros(machine.slots, bool)  # the threads that are held back
        self.holding = 0  # for how many more turns
        self.loops = 0
        self.idle = 0
        self.executed: dict[tuple[int, int], int] = {}
        self.endless = LoopWatch()
        self.most_loops = most_loops()

    def run(self) -> None:
        """Run all threads until they exit, deadlock, or fault (`Fault` escapes)."""
        machine = self.machine
        threads = np.flatnonzero(machine.live)
        if len(threads):
            self.add(self.program.start, select(threads))
        while True:
            if self.random:
                for pending in (machine.copies, machine.bulk, machine.wgmma, machine.products):
                    pending.drift()
            self.collect()
            group = self.pick()
            if group is None:
                if machine.waiters.stall():
                    continue
                if self.groups or machine.barriers.waiting.any() or machine.waiters:
                    self.stuck()
                machine.end()
                return
            self.advance(group)

    # -- groups --------------------------------------------------------------------------------------------------------

    def add(self, pc: int, sel: Sel, rank: int = 0) -> None:
        """Threads continue at `pc`, together with those that already stand there."""
        for other in self.groups:
            if other.pc == pc and (not self.random or other.parked):
                merged = np.concatenate([self.machine.thread[other.sel], self.machine.thread[sel]])
                merged.sort()
                other.sel = select(merged)
                other.whole = self.is_whole(other.sel)
                other.parked = False
                other.rank = min(other.rank, rank)
                return
        self.groups.append(Group(pc, sel, self.is_whole(sel), rank=rank))

    def is_whole(self, sel: Sel) -> bool:
        """Whether these threads are all lanes of their warps, none missing or dead."""
        if isinstance(sel, slice):
            return bool(sel.start % 32 == 0 and sel.stop % 32 == 0)
        if len(sel) % 32:
            return False
        return bool((sel[::32] % 32 == 0).all() and (sel[31::32] - sel[::32] == 31).all())

    def collect(self) -> None:
        """Take in the threads that barriers have released."""
        for pc, threads in self.machine.barriers.take_released():
            self.add(pc, select(threads))

    def pick(self) -> Group | None:
        """The group to run next, removed from the list."""
        ready = [group for group in self.groups if not group.parked]
        if not ready:
            return None
        if self.holding:
            ready = self.prompt(ready)
        chosen = ready[int(self.rng.integers(len(ready)))] if self.random else min(ready, key=_urgency)
        self.groups.remove(chosen)
        return self.divide(chosen) if self.random else chosen

    def prompt(self, ready: list[Group]) -> list[Group]:
        """Those of the groups that are not held back, if there are any."""
        self.holding -= 1
        if not self.holding:
            self.held[:] = False
        return [group for group in ready if not every(self.held[group.sel])] or ready

    def hold_back(self, parts: Outcome) -> None:
        """Of the parts of a group that has split one, as far as it is threads whose warps have split."""
        threads = self.machine.thread[parts[int(self.rng.integers(len(parts)))][1]]
        here = np.bincount(threads // 32, minlength=self.machine.slots // 32)[threads // 32]
        if some(here < 32):
            self.held[threads[here < 32]] = True
            self.holding = int(2 ** self.rng.uniform(*_HELD))

    def divide(self, group: Group) -> Group:
        """Keep a random half of the group's warps, give the others back."""
        threads = self.machine.thread[group.sel]
        numbers = threads // 32
        warps = numbers[::32] if group.whole else np.unique(numbers)
        if len(warps) == 1 or self.rng.random() < 0.25:
            return group
        chosen = np.zeros(self.machine.slots // 32, bool)
        chosen[warps] = self.rng.random(len(warps)) < 0.5
        kept = chosen[numbers]
        if every(kept) or not some(kept):
            return group
        rest = select(threads[~kept])
        self.groups.append(Group(group.pc, rest, self.is_whole(rest)))
        mine = select(threads[kept])
        return Group(group.pc, mine, self.is_whole(mine))

    # -- execution -----------------------------------------------------------------------------------------------------

    def advance(self, group: Group) -> None:
        """Run a group until it splits, blocks, ends, meets another one, or has had its share."""
        pc, sel, whole = group.pc, group.sel, group.whole
        ends = self.program.whole_ends if whole else self.program.ragged_ends
        stop = min((other.pc for other in self.groups if other.pc > pc), default=-1)
        patience = _PATIENCE
        quantum = int(self.rng.integers(1, 24)) if self.random and len(self.groups) else 0
        while True:
            end = ends[pc]
            if pc < stop < end:
                end = stop
            if quantum:
                end = min(end, pc + quantum)
            if end > pc:
                self.straight(pc, end, sel, whole)
                pc = end
            if pc == stop or (quantum and pc < ends[pc]):
                self.add(pc, sel, group.rank)
                return
            outcome = self.control(self.code[pc], pc, sel)
            if self.code[pc].target is None:
                self.idle = 0
            if len(outcome) != 1 or outcome[0][1] is not sel:
                if self.random and len(outcome) > 1:
                    self.hold_back(outcome)
                for target, part in outcome:
                    self.add(target, part, group.rank)
                return
            target = outcome[0][0]
            if target <= pc:
                patience -= self.loop_cost(pc, target, sel)
            if self.groups:
                if patience <= 0:
                    self.add(target, sel, 1 + max(other.rank for other in self.groups))
                    return
                if target != pc + 1:
                    if self.must_yield(target, group.rank):
                        self.add(target, sel, group.rank)
                        return
                    stop = min((other.pc for other in self.groups if other.pc > target), default=-1)
            pc = target

    def must_yield(self, target: int, rank: int) -> bool:
        """Whether a group that jumps to `target` must let others run, or join them there."""
        return self.random or any(
            other.pc == target or (not other.parked and _urgency(other) < (rank, target)) for other in self.groups
        )

    def loop_cost(self, pc: int, target: int, sel: Sel) -> int:
        """What a backward branch takes from a group's patience. Endless loops end here."""
        self.loops += 1
        spins = (target, pc) in self.program.spins
        self.idle += spins
        if spins and self.idle % _PATIENCE == 0:
            self.machine.bulk.force(set())
        if self.idle > _MAX_IDLE:
            access = self.machine.access("wait", pc, int(self.machine.thread[sel][0]))
            message = "threads wait in a loop for memory to change, and no thread changes it"
            if self.machine.first + self.machine.ctas < math.prod(self.machine.launch.grid):
                message += " (later CTAs of this grid have not started)"
            self.machine.find(Finding("deadlock", message, access), stop=True)
        if not self.random and self.endless.repeats((pc, target), lambda: self.state(sel)):
            access = self.machine.access("loop", pc, int(self.machine.thread[sel][0]))
            message = (
                "this loop does not end: a round of it leaves every register as it was, "
                "and no thread changes what it reads"
            )
            self.machine.find(Finding("deadlock", message, access), stop=True)
        if self.loops > self.most_loops:
            ins = self.code[pc].ins
            message = f"an endless loop? {self.most_loops} backward branches, the last one here"
            source = f" ({ins.source})" if ins.source else ""
            hint = "; MINITILE_SIMULATED_LOOPS sets another limit"
            raise SimulationError(message + source + hint, ins.line, ins.text)
        return _SPIN_COST if spins else 1

    def state(self, sel: Sel) -> State | None:
        """All that decides what these threads do next, if no other thread can do anything before them."""
        machine = self.machine
        if self.groups or machine.bulk.loads:
            return None
        registers = [machine.regs[each.slot].copy() for each in self.program.registers if each.kind in DTYPES]
        whole = (sel.start, sel.stop) if isinstance(sel, slice) else tuple(sel.tolist())
        return (whole, machine.clock), [*registers, machine.carry.copy()]

    def straight(self, start: int, end: int, sel: Sel, whole: bool) -> None:
        """Execute instructions that never change where a thread continues."""
        machine, watch, products = self.machine, self.program.watch, self.program.products
        loads = self.program.loads
        self.executed[start, end] = self.executed.get((start, end), 0) + _warps(sel)
        if self.program.loud[end] > self.program.loud[start]:
            self.endless.loud()
        index = start
        try:
            for index in range(start, end):
                step = self.code[index]
                active = sel
                if step.guard is not None:
                    passed = self.guarded(step, sel, index)
                    if passed is None:
                        continue
                    active = passed
                if index in watch:
                    _watch(machine, active, index)
                if index in products:
                    machine.wgmma.check_registers(active, index, *products[index])
                if index in loads:
                    machine.tensor.check_registers(active, index, *loads[index])
                step.run(machine, active)
        except (Fault, SimulationError):
            raise
        except Exception as problem:
            if not errors.LAST_RESORT:
                raise
            ins = self.code[index].ins
            message = f"the simulator failed at this instruction: {type(problem).__name__}: {problem}"
            raise SimulationError(message, ins.line, ins.text) from problem

    def guarded(self, step: Step, sel: Sel, index: int) -> Sel | None:
        """The threads whose guard lets them execute, None if there are none."""
        machine = self.machine
        if step.guard in machine.defined:
            _check_defined(machine, sel, index, [step.guard])
        flags = machine.regs[step.guard][sel]  # type: ignore[index]
        if step.negated:
            flags = ~flags
        passed = np.count_nonzero(flags)
        if passed == len(flags):
            return sel
        if not passed:
            return None
        return machine.thread[sel][flags]

    def control(self, step: Step, pc: int, sel: Sel) -> Outcome:
        """Execute one instruction that needs the scheduler; returns who continues where."""
        self.executed[pc, pc + 1] = self.executed.get((pc, pc + 1), 0) + _warps(sel)
        if self.program.loud[pc + 1] > self.program.loud[pc]:
            self.endless.loud()
        outcome: Outcome = []
        active = sel
        if step.guard is not None:
            passed = self.guarded(step, sel, pc)
            if passed is None:
                return [(pc + 1, sel)]
            if passed is not sel:
                flags = np.ones(self.machine.slots, bool)
                flags[passed] = False
                outcome.append((pc + 1, select(self.machine.thread[sel][flags[sel]])))
                active = select(self.machine.thread[passed])
        if pc in self.program.watch:
            _watch(self.machine, active, pc)
        if pc in self.program.products:
            self.machine.wgmma.check_registers(active, pc, *self.program.products[pc])
        if pc in self.program.loads:
            self.machine.tensor.check_registers(active, pc, *self.program.loads[pc])
        if step.kind is Kind.WARP or step.members is not None:
            together = self.converge(step, pc, active)
            if together is None:
                return outcome
            active = together
        if step.control is None:
            step.run(self.machine, active)
            return [*outcome, (pc + 1, active)]
        outcome += step.control(self.machine, active, pc)
        if step.ins.name in ("exit", "ret", "trap"):
            self.wake()
        return outcome

    def converge(self, step: Step, pc: int, sel: Sel) -> Sel | None:
        """The threads whose partners are all here; the others are parked until they come."""
        machine = self.machine
        if self.is_whole(sel):
            return sel
        waiting = [group for group in self.groups if group.parked and group.pc == pc]
        if waiting:
            self.groups = [group for group in self.groups if group not in waiting]
            sel = select(
                np.sort(np.concatenate([machine.thread[group.sel] for group in waiting] + [machine.thread[sel]]))
            )
        threads = machine.thread[sel]
        present = np.zeros(machine.slots // 32, np.uint32)
        np.bitwise_or.at(present, threads // 32, np.uint32(1) << (threads % 32).astype(np.uint32))
        needed = machine.barriers.live_lanes()[threads // 32]
        if step.members is not None:
            needed = needed & step.members(machine, sel)
        missing = (needed & ~present[threads // 32]) != 0
        late = threads[missing]
        if len(late):
            self.groups.append(Group(pc, select(late), self.is_whole(late), parked=True))
        self.held[threads] = missing & self.held[threads]
        return None if missing.all() else select(threads[~missing]) if len(late) else sel

    def wake(self) -> None:
        """Threads have exited: those that waited for them may look again."""
        for group in self.groups:
            group.parked = False

    # -- the end -------------------------------------------------------------------------------------------------------

    def stuck(self) -> None:
        """No thread can run and some still wait: say which wait where for what."""
        machine = self.machine
        waits = [(group.pc, self.machine.thread[group.sel]) for group in self.groups]
        waits += machine.barriers.waiting_groups()
        waiters = machine.waiters.all()
        waits += [(each.pc, each.threads) for each in waiters]
        accesses = [(machine.access("wait", pc, int(threads[0])), len(threads)) for pc, threads in waits]
        divergent = self.apart(np.concatenate([np.zeros(0, np.int64), *(each.threads for each in waiters)]))
        listing = "; ".join(f"{number} threads wait at PTX line {each.line} ({each.text})" for each, number in accesses)
        details = "; ".join(
            dict.fromkeys(f"line {self.code[each.pc].ins.line} waits for {each.describe()}" for each in waiters)
        )
        kind = "divergent_barrier" if divergent else "deadlock"
        why = (
            "threads of a warp reached different instructions that they must execute together"
            if divergent
            else "every thread that has not exited waits"
        )
        first = accesses[0][0]
        second = accesses[1][0] if len(accesses) > 1 else None
        message = f"{why}: {listing}; {details or 'move the barrier where all threads pass'}"
        cure = _LEFT_BEHIND if any(self.parted(each.threads) for each in waiters) else ""
        machine.find(Finding(kind, message, first, second, cure=cure))
        raise Fault(kind)

    def apart(self, waiting: Array) -> bool:
        """Whether threads wait at an instruction for others of their warps which have come to another one that the warp
        executes together. Those that wait for an mbarrier (`waiting`) would come if that were complete."""
        for group in self.groups:
            step = self.code[group.pc]
            if step.kind is Kind.WARP or step.members is not None or step.ins.name in ("bar", "barrier"):
                here = np.zeros((self.machine.slots // 32, 32), bool)
                here.reshape(-1)[self.machine.thread[group.sel]] = True
                live: Array = (self.machine.barriers.live_lanes()[:, None] >> np.arange(32, dtype=np.uint32)) & 1
                awaited: Array = np.logical_and(live, ~here)
                awaited[~here.any(axis=1)] = False
                awaited.reshape(-1)[waiting] = False
                if awaited.any():
                    return True
        return False

    def parted(self, threads: Array) -> bool:
        """Whether others of their warps are elsewhere."""
        mine = np.zeros(self.machine.slots, bool)
        mine[threads] = True
        here = mine.reshape(-1, 32)
        return bool((here.any(axis=1) & ~here.all(axis=1)).any())

    def opcode_counts(self) -> dict[str, int]:
        """How often warps executed each opcode."""
        changes = [0] * (len(self.code) + 1)  # of how often, from one instruction to the next
        for (start, end), times in self.executed.items():
            changes[start] += times
            changes[end] -= times
        counts: dict[str, int] = {}
        for step, times in zip(self.code, accumulate(changes), strict=False):
            if times:
                name = ".".join((step.ins.name, *step.ins.mods[:1]))
                counts[name] = counts.get(name, 0) + times
        return counts


def _warps(sel: Sel) -> int:
    """How many warps these sorted threads belong to."""
    if isinstance(sel, slice):
        return int((sel.stop - 1) // 32 - sel.start // 32 + 1)
    changes = int(np.count_nonzero(np.diff(sel // 32)))
    return 1 + changes


def _urgency(group: Group) -> tuple[int, int]:
    return group.rank, group.pc


def _watch(machine: Machine, sel: Sel, site: int) -> None:
    """Check the watched registers that an instruction reads, note those it writes."""
    sources, results = machine.program.watch[site]
    _check_defined(machine, sel, site, sources)
    for slot in results:
        machine.defined[slot][sel] = True


def _check_defined(machine: Machine, sel: Sel, site: int, slots: list[int]) -> None:
    """Report registers that a thread reads and never wrote."""
    for slot in slots:
        known = machine.defined[slot][sel]
        if every(known):
            continue
        thread = int(machine.thread[sel][np.flatnonzero(~known)[0]])
        name = next(register.name for register in machine.program.registers if register.slot == slot)
        message = f"register {name} is read but was never written on this path; give it a value first"
        machine.find(
            Finding("uninitialised", message, machine.access("read", site, thread), space="register", buffer=name)
        )
