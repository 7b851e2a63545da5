"""Who executes what, when: groups of waves at one instruction.

A *group* is a set of waves, of any workgroups of the batch, that stand at the same instruction. The group with the
smallest program counter runs in straight lines until it branches, waits at a barrier, ends, or comes to where another
group stands, which it joins. This keeps waves together as long as they agree, which is what makes the simulation fast,
and is one legal order. A group that keeps branching backwards while others could run must let them, so that waves may
wait for each other in loops. Under schedule "random" random parts of random groups run for random whiles.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ..core.endless import LoopWatch, State, most_loops
from ..core.report import Finding
from ..core.scalars import Sel, select
from .table import Control, Outcome

if TYPE_CHECKING:
    from .machine import Machine

_PATIENCE = 256  # backward branches that a group may take while others could run
_MAX_IDLE = 200_000  # backward branches without anybody passing a barrier or ending, with others left to run


@dataclass(slots=True, eq=False)
class Group:
    """Waves `sel` that continue at `pc`. `rank` is how often they had to let others run; smaller goes first."""

    pc: int
    sel: Sel
    rank: int = 0


class Scheduler:
    """Runs one batch to its end."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.code = machine.program.code
        self.random = machine.launch.schedule == "random"
        self.rng = machine.launch.rng
        self.groups: list[Group] = []
        self.standing: dict[int, Group] = {}
        self.loops = 0
        self.idle = 0
        self.counts = np.zeros(len(self.code), np.int64)
        self.watch = LoopWatch()
        self.most_loops = most_loops()

    def run(self) -> None:
        """Run all waves until they end or fault (`Fault` escapes)."""
        m = self.machine
        self.add(m.program.start, slice(0, m.waves))
        while True:
            if self.random:
                m.queue.drift()
            for pc, waves in m.released:
                self.idle = 0
                self.add(pc, select(waves))
            m.released.clear()
            if not self.groups:
                break
            self.advance(self.pick())
        if m.waiting.any():
            self.stuck()

    def add(self, pc: int, sel: Sel, rank: int = 0) -> None:
        """Waves continue at `pc`, together with those that already stand there."""
        other = self.standing.get(pc)
        if other is not None:
            merged = np.concatenate([self.machine.wave[other.sel], self.machine.wave[sel]])
            merged.sort()
            other.sel = select(merged)
            other.rank = min(other.rank, rank)
            return
        group = Group(pc, sel, rank)
        self.groups.append(group)
        self.standing[pc] = group

    def pick(self) -> Group:
        """The group to run next, removed from the list."""
        if self.random:
            group = self.groups[int(self.rng.integers(len(self.groups)))]
            waves = self.machine.wave[group.sel]
            if len(waves) > 1 and self.rng.random() < 0.5:
                chosen = self.rng.random(len(waves)) < 0.5
                if chosen.any() and not chosen.all():
                    group.sel = select(waves[~chosen])
                    return Group(group.pc, select(waves[chosen]), group.rank)
        else:
            group = min(self.groups, key=lambda each: (each.rank, each.pc))
        self.groups.remove(group)
        del self.standing[group.pc]
        return group

    def advance(self, group: Group) -> None:
        """Execute a group until it stops, splits, or must let others run."""
        m, code, standing, busy = self.machine, self.code, self.standing, self.machine.queue.busy
        pc, sel = group.pc, group.sel
        count = sel.stop - sel.start if isinstance(sel, slice) else len(sel)
        m.refresh(sel)
        patience = _PATIENCE
        left = int(self.rng.integers(1, 40)) if self.random else -1
        while True:
            step = code[pc]
            m.site = pc
            self.counts[pc] += count
            if busy and not step.touched.isdisjoint(busy):
                m.queue.touch(sel, pc, step.reads, step.writes)
            run = step.run
            if isinstance(run, Control):
                if m.trace is not None:
                    m.trace.record(pc, m.wave[sel])
                outcome = run.run(m, sel, pc + 1)
                if len(outcome) != 1:
                    self.split(outcome, group.rank)
                    return
                target, sel = outcome[0]
                if target <= pc:
                    self.loops += 1
                    self.idle += 1
                    patience -= 1
                    if self.idle > _MAX_IDLE and self.blocked():
                        self.endless(pc, sel, "what its waves wait for never comes")
                    if not self.random and self.watch.repeats((pc, target), partial(self.state, sel)):
                        self.endless(
                            pc, sel, "a round of it leaves every register as it was, and nothing else can change"
                        )
                    if self.loops > self.most_loops:
                        hint = "MINITILE_SIMULATED_LOOPS sets another limit"
                        self.endless(pc, sel, f"{self.most_loops} backward branches, the last one here; {hint}")
                pc = target
                if (self.groups and not self.random and self.must_yield(pc, group, patience)) or m.released:
                    self.add(pc, sel, group.rank + (patience <= 0))
                    return
            else:
                run(m, sel)
                if step.loud:
                    self.watch.loud()
                if m.trace is not None:
                    m.trace.record(pc, m.wave[sel])
                pc += 1
            left -= 1
            if pc in standing or left == 0:
                self.add(pc, sel, group.rank)
                return

    def must_yield(self, pc: int, group: Group, patience: int) -> bool:
        """Whether another group goes first now."""
        if patience <= 0:
            return True
        return any((other.rank, other.pc) < (group.rank, pc) for other in self.groups)

    def split(self, outcome: Outcome, rank: int) -> None:
        if not outcome:
            self.idle = 0
        for pc, sel in outcome:
            self.add(pc, sel, rank)

    def blocked(self) -> bool:
        """Whether some waves wait at a barrier, or have ended, while others spin."""
        return bool(self.machine.waiting.any() or self.machine.ended.any() or self.groups)

    def state(self, sel: Sel) -> State | None:
        """All that decides what these waves do next, if no other wave can do anything before them."""
        m = self.machine
        if self.groups or m.released or m.queue.entries:
            return None
        waves = (sel.start, sel.stop) if isinstance(sel, slice) else tuple(sel.tolist())
        return (waves, m.clock), [m.s.copy(), m.v.copy(), m.scc.copy(), m.active.copy()]

    def endless(self, pc: int, sel: Sel, why: str) -> None:
        m = self.machine
        wave = int(m.wave[sel][0])
        message = f"a loop does not end: {why}"
        m.find(Finding("deadlock", message, m.access("loop", pc, wave)), stop=True)

    def stuck(self) -> None:
        """Waves wait at a barrier that the others never reach."""
        m = self.machine
        wave = int(np.flatnonzero(m.waiting)[0])
        site = int(m.resume[wave]) - 1
        message = f"wave {m.position(wave)[0]} waits at a barrier that other waves of its workgroup never reach"
        m.find(Finding("deadlock", message, m.access("wait", site, wave)), stop=True)
