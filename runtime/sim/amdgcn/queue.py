"""Memory operations in flight, and the counters that wait for them (CDNA3 ISA, 4.4).

An `Entry` is one memory instruction issued by some waves together. Its effect, `land`, happens at some time between
issue and the wait that covers it: at once (schedule "eager"), not before that wait ("lazy"), or anywhere between
("random"). Until a wait covers it, the registers it writes may be neither read nor written, whenever it lands.

    vmcnt    loads, stores, atomics and LDS-DMA of vector memory, in order
    lgkmcnt  LDS operations, in order among themselves, and scalar loads, in any order

With scalar loads in flight a wait for lgkmcnt(N > 0) covers no scalar load; LDS operations it covers as if they were
alone, since at most N can be left of either kind. FLAT operations count in both. A full counter (63 or 15) makes
the wave wait for its oldest operation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..core.report import Finding
from ..core.scalars import Array, Sel, every, some

if TYPE_CHECKING:
    from .machine import Machine

VM, DS, SMEM = 0, 1, 2  # the queues
_LIMIT = (63, 15)


# What returns in the order of issue (LLVM 22, SIInsertWaitcnts: no wait between two of the same type that write the
# same register). FLAT instructions do not.
_IN_ORDER = ("global_load", "buffer_load", "scratch_load")


@dataclass(slots=True, eq=False)
class Entry:
    """One issued memory instruction. `place` maps a wave of the batch to its position in `waves`, or -1. So do `number`
    and `left` go by the waves of the batch."""

    site: int
    queue: int
    waves: Array
    place: Array
    number: Array  # the how-manieth operation of its queue it is
    left: Array  # whether the wave has still to wait for it
    land: Callable[[Array], None] | None  # takes positions in `waves`
    rows: tuple[int, ...]
    lanes: Array | None  # [waves, 64]: which lanes of the registers it writes; None for scalar registers
    landed: Array  # per position
    finish: Callable[[Array], None] | None = None
    what: str = "load"


class Queue:
    """The operations in flight of one batch."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.entries: list[Entry] = []
        self.busy: dict[int, int] = {}  # register code: how many entries will write it
        self.issued = np.zeros((3, self.machine.waves), np.int64)
        self.covered = np.zeros((3, self.machine.waves), np.int64)  # operations that waits have covered (VM, DS)
        self.flying: list[Entry] = []  # under schedule "random": those that have not landed for all waves
        self.random = self.machine.launch.schedule == "random"
        self.lazy = self.machine.launch.schedule != "eager"

    def issue(
        self,
        sel: Sel,
        queue: int,
        land: Callable[[Array], None] | None,
        rows: tuple[int, ...] = (),
        lanes: Array | None = None,
        finish: Callable[[Array], None] | None = None,
        what: str = "load",
    ) -> Entry:
        """Waves issue a memory operation."""
        m = self.machine
        waves = m.wave[sel]
        if queue != SMEM:
            limit = _LIMIT[queue]
            if some(self.issued[queue, sel] - self.covered[queue, sel] >= limit):
                self.wait(sel, limit - 1 if queue == VM else None, limit - 1 if queue == DS else None)
        self.issued[queue, sel] += 1
        place = np.full(m.waves, -1)
        place[sel] = np.arange(len(waves))
        left = place >= 0
        landed = np.zeros(len(waves), bool)
        entry = Entry(
            m.site, queue, waves, place, self.issued[queue].copy(), left, land, rows, lanes, landed, finish, what
        )
        self.entries.append(entry)
        if self.random:
            self.flying.append(entry)
        for row in rows:
            self.busy[row] = self.busy.get(row, 0) + 1
        if not self.lazy:
            self._land(entry, np.arange(len(waves)))
        return entry

    def wait(self, sel: Sel, vm: int | None, lgkm: int | None) -> None:
        """s_waitcnt for these waves; None is no wait."""
        limits: list[Array | None] = [None, None, None]  # the last operation of each queue that is waited for
        for queue, count in ((VM, vm), (DS, lgkm)):
            if count is not None:
                limits[queue] = self.issued[queue, sel] - count
        if lgkm == 0:
            limits[SMEM] = self.issued[SMEM, sel]
        finished = False
        for entry in self.entries:
            limit = limits[entry.queue]
            if limit is None:
                continue
            covered = entry.left[sel] & (entry.number[sel] <= limit)
            if not some(covered):
                continue
            place = entry.place[sel][covered]
            self._land(entry, place)
            entry.left[entry.waves[place]] = False
            if entry.finish is not None:
                entry.finish(place)
            if not some(entry.left):
                finished = True
                self._release(entry)
        if finished:
            self.entries = [entry for entry in self.entries if some(entry.left)]
        for queue in (VM, DS):
            limit = limits[queue]
            if limit is not None:
                self.covered[queue, sel] = np.maximum(self.covered[queue, sel], limit)

    def end(self, sel: Sel) -> None:
        """These waves end: what they have in flight lands without a wait."""
        self.wait(sel, 0, 0)

    def drift(self) -> None:
        """Under schedule "random": some operations land, each queue of a wave in order."""
        m = self.machine
        rng = m.launch.rng
        stopped = np.zeros((3, m.waves), bool)
        self.flying = [entry for entry in self.flying if not every(entry.landed)]
        for entry in self.flying:
            place = (~entry.landed).nonzero()[0]
            waves = entry.waves[place]
            go = rng.random(len(place)) < 0.5
            if entry.queue != SMEM:
                go &= ~stopped[entry.queue, waves]
                stopped[entry.queue, waves[~go]] = True
            if some(go):
                self._land(entry, place[go])

    def _land(self, entry: Entry, place: Array) -> None:
        place = place[~entry.landed[place]]
        if len(place):
            entry.landed[place] = True
            if entry.land is not None:
                entry.land(place)

    def _release(self, entry: Entry) -> None:
        for row in entry.rows:
            self.busy[row] -= 1
            if not self.busy[row]:
                del self.busy[row]

    def outstanding(self, queue: int, wave: int) -> int:
        """How many operations of a queue a wave has not waited for."""
        return sum(entry.queue == queue and bool(entry.left[wave]) for entry in self.entries)

    def touch(self, sel: Sel, site: int, reads: frozenset[int], writes: frozenset[int]) -> None:
        """Report registers that an instruction reads or writes although a load into them is in flight. A load from
        memory may follow another one into the same register: they return in order."""
        m = self.machine
        loads = m.program.code[site].ins.name.startswith(_IN_ORDER)
        for entry in self.entries:
            later = loads and entry.queue == VM
            rows = [row for row in entry.rows if row in reads or (row in writes and not later)]
            if not rows:
                continue
            place = entry.place[sel]
            mine = entry.left[sel].nonzero()[0]
            if not len(mine):
                continue
            wave, lane = int(m.wave[sel][mine[0]]), 0
            if entry.lanes is not None:
                both = entry.lanes[place[mine]]
                if not any(row in reads and row in m.program.code[site].whole for row in rows):
                    both = both & m.active[sel][mine]
                if not some(both):
                    continue
                first = int(np.flatnonzero(both.any(axis=1))[0])
                wave, lane = int(m.wave[sel][mine[first]]), int(np.flatnonzero(both[first])[0])
            row = rows[0]
            read = row in reads
            counter = "vmcnt" if entry.queue == VM else "lgkmcnt"
            message = (
                f"{m.program.row_name(row)} is {'read' if read else 'written'} while a {entry.what} into it is in "
                "flight"
            )
            cure = f"s_waitcnt {counter}({self._needed(entry, wave)}) between them, or less"
            first_access = m.access("read" if read else "write", site, wave, lane)
            second = m.access(entry.what, entry.site, wave, lane)
            hazard = "RAW" if read else "WAW"
            name = m.program.row_name(row)
            m.find(Finding("missing_wait", message, first_access, second, hazard, "register", name, cure=cure))

    def _needed(self, entry: Entry, wave: int) -> int:
        """The counter value that covers an entry."""
        if entry.queue == SMEM or (entry.queue == DS and self.outstanding(SMEM, wave)):
            return 0
        return int(self.issued[entry.queue, wave] - entry.number[wave])
