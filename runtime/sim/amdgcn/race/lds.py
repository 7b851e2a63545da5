"""Races in the data share (LDS): every access against the last plain write and each wave's last read and last atomic
operation since, per cell.

An access is made by a wave or, for LDS-DMA, by the vector memory unit on its behalf; it is *over* when the wave has
waited for it (vmcnt or lgkmcnt). What orders two accesses:

    same wave           the second was issued after the first was over; LDS instructions also follow each other in order
    different waves     the first was over when its wave arrived at a barrier that the second's wave has passed

The only order between waves of a workgroup is s_barrier, so a count of barriers does for a vector clock: an access that
is over after its wave has arrived n times gets the mark n + 1, and is known to each wave that has passed n + 1
barriers. An access in flight has the mark PENDING. So a wait that comes after the barrier is too late, as it is on the
device.

Atomic operations do not conflict with each other, but each of them does with plain accesses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...core.fixes import ONE_THREAD
from ...core.report import HAZARDS, Finding
from ...core.scalars import Array, Sel
from .shadow_cells import Cells, Over

if TYPE_CHECKING:
    from ..machine import Machine

PENDING = 1 << 30
LDS_UNIT, DMA = 0, 1


class LdsRaces(Cells):
    """The LDS of one batch. `cell` is the size of the smallest access of the program."""

    names = (
        *("written", "writer", "writer_mark", "writer_site", "writer_engine", "writer_ticket"),
        *("reader_mark", "reader_site", "reader_ticket", "atomic_mark", "atomic_site", "atomic_ticket"),
    )

    def __init__(self, machine: Machine, cell_size: int) -> None:
        super().__init__(cell_size)
        self.machine = machine
        count = machine.lds_stride * machine.groups // cell_size
        self.written = np.zeros(count, bool)
        self.writer = np.zeros(count, np.int32)  # wave + 1
        self.writer_mark = np.zeros(count, np.int32)
        self.writer_site = np.zeros(count, np.int32)
        self.writer_engine = np.zeros(count, np.int8)
        self.writer_ticket = np.zeros(count, np.int32)
        shape = (count, machine.per_group)
        self.reader_mark = np.zeros(shape, np.int32)
        self.reader_site = np.zeros(shape, np.int32)
        self.reader_ticket = np.zeros(shape, np.int32)
        self.atomic_mark = np.zeros(shape, np.int32)
        self.atomic_site = np.zeros(shape, np.int32)
        self.atomic_ticket = np.zeros(shape, np.int32)
        self.atomics = False  # whether there have been any

    # -- accesses ------------------------------------------------------------------------------------------------------

    def read(self, sel: Sel, where: Array, size: int, lanes: Array | None) -> Over:
        """Waves read; returns what to call, with positions, when they have waited for it."""
        cells, waves, place = self.spread(sel, where, size, lanes)
        self._check_written(cells, waves)
        self._check_writer("RAW", cells, waves, LDS_UNIT)
        if self.atomics:
            self._check_past("atomic", "RAW", cells, waves, LDS_UNIT)
        return self._join("reader", cells, waves, place)

    def write(self, sel: Sel, where: Array, size: int, lanes: Array | None, engine: int, atomic: bool = False) -> Over:
        """Waves write, or (`atomic`) read and write in one step."""
        cells, waves, place = self.spread(sel, where, size, lanes)
        if atomic:
            self._check_written(cells, waves)
            self.written[cells] = True
        self._check_writer("WAW", cells, waves, engine)
        self._check_past("reader", "WAR", cells, waves, engine)
        if atomic:
            self.atomics = True
            return self._join("atomic", cells, waves, place)
        if self.atomics:
            self._check_past("atomic", "WAW", cells, waves, engine)
            self.atomic_mark[cells] = 0
        ticket = self.ticket()
        self.reader_mark[cells] = 0
        lost = self.lost(cells)
        self.writer[cells] = waves + 1
        self.writer_mark[cells] = PENDING
        self.writer_site[cells] = self.machine.site
        self.writer_engine[cells] = engine
        self.writer_ticket[cells] = ticket
        self.written[cells] = True
        if lost is not None:
            at = int(cells[lost[0]])
            both = [(int(waves[n]), self.lane(n, where, size, lanes)) for n in lost]
            self._report_lost(at, both)

        return self.ending("writer", ticket, cells, waves, place)

    def _join(self, side: str, cells: Array, waves: Array, place: Array) -> Over:
        """The waves' last accesses of that side."""
        ticket, per_group = self.ticket(), self.machine.per_group
        where = cells, waves % per_group
        getattr(self, f"{side}_mark")[where] = PENDING
        getattr(self, f"{side}_site")[where] = self.machine.site
        getattr(self, f"{side}_ticket")[where] = ticket

        return self.ending(side, ticket, cells, waves, place, per_group)

    # -- checks --------------------------------------------------------------------------------------------------------

    def _check_written(self, cells: Array, waves: Array) -> None:
        missing = np.flatnonzero(~self.written[cells])
        if not len(missing):
            return
        m = self.machine
        at, wave = int(cells[missing[0]]), int(waves[missing[0]])
        offset = at * self.cell_size % m.lds_stride
        message = f"LDS byte {offset} is read but nothing has been written there"
        access = m.access("read", m.site, wave)
        m.find(Finding("uninitialised", message, access, space="shared", bytes=(offset, offset + self.cell_size)))

    def _check_writer(self, hazard: str, cells: Array, waves: Array, engine: int) -> None:
        other, mark = self.writer[cells], self.writer_mark[cells]
        if not other.any():
            return
        own = other == waves + 1
        ordered = np.where(own, mark != PENDING, mark <= self.machine.passed[waves])
        ordered |= other == 0
        if engine == LDS_UNIT:
            ordered |= own & (self.writer_engine[cells] == LDS_UNIT)
        bad = np.flatnonzero(~ordered)
        if len(bad):
            at, wave = int(cells[bad[0]]), int(waves[bad[0]])
            self._race(hazard, at, wave, int(other[bad[0]]) - 1, int(self.writer_site[at]), int(mark[bad[0]]))

    def _check_past(self, side: str, hazard: str, cells: Array, waves: Array, engine: int) -> None:
        """Against each wave's last access of that side, all of which the LDS made."""
        m = self.machine
        marks = getattr(self, f"{side}_mark")[cells]
        if not marks.any():
            return
        local = waves % m.per_group
        bad = marks > m.passed[waves][:, None]
        rows = np.arange(len(cells))
        bad[rows, local] = (marks[rows, local] == PENDING) & (engine != LDS_UNIT)
        if bad.any():
            row, column = (int(each[0]) for each in np.nonzero(bad))
            at, wave = int(cells[row]), int(waves[row])
            other = wave // m.per_group * m.per_group + column
            site = getattr(self, f"{side}_site")[at, column]
            self._race(hazard, at, wave, other, int(site), int(marks[row, column]))

    # -- findings ------------------------------------------------------------------------------------------------------

    def _race(self, hazard: str, at: int, wave: int, other: int, site: int, mark: int) -> None:
        dma = self.machine.program.code[site].ins.name.startswith(("buffer", "global"))
        counter = "vmcnt" if dma else "lgkmcnt"
        if mark == PENDING and wave == other:
            self._report(hazard, at, wave, other, site, "missing_wait", f"wait for {counter} between them")
        elif mark == PENDING:
            cure = f"the wave that made the first must wait for {counter}, then both pass a barrier"
            self._report(hazard, at, wave, other, site, "missing_wait", cure)
        else:
            cure = f"a barrier between them, behind the wait for {counter} of the wave that made the first"
            self._report(hazard, at, wave, other, site, "missing_barrier", cure)

    def _report_lost(self, at: int, both: list[tuple[int, int]]) -> None:
        """Two lanes wrote one place with one instruction."""
        m = self.machine
        offset = at * self.cell_size % m.lds_stride
        message = f"LDS byte {offset}: two threads write it with one instruction"
        one, other = (m.access("write", m.site, wave, lane) for wave, lane in both)
        span = (offset, offset + self.cell_size)
        m.find(Finding("missing_barrier", message, one, other, "WAW", "shared", None, span, ONE_THREAD))

    def _report(self, hazard: str, at: int, wave: int, other: int, site: int, kind: str, cure: str) -> None:
        m = self.machine
        later, earlier = HAZARDS[hazard]
        offset = at * self.cell_size % m.lds_stride
        first, second = m.position(wave)[0], m.position(other)[0]
        message = f"LDS byte {offset}: a {later} of wave {first} conflicts with an earlier {earlier} of wave {second}"
        accesses = m.access(later, m.site, wave), m.access(earlier, site, other)
        m.find(Finding(kind, message, *accesses, hazard, "shared", None, (offset, offset + self.cell_size), cure))
