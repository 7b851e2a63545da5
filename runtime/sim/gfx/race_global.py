"""Races in global memory: every access against the last write and the reads since, per granule, through the whole grid.

    waves of a workgroup        ordered as in LDS (see race.py): the first access is over (vmcnt) before a barrier
    different workgroups        not ordered, except by atomics: a workgroup that has acquired (buffer_inv, which follows
                                an atomic or a load of a flag) is taken to know all that is over

Vector memory operations of one wave are in order. Atomic operations, and loads and stores that pass the caches (sc1),
do not conflict with each other. Scalar loads are not checked: their cache is not coherent with stores of the same
kernel, and compilers use them for what nobody writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..report import HAZARDS, Finding
from ..scalars import Array, Sel
from .granules import Granules, Over
from .race import PENDING

if TYPE_CHECKING:
    from .machine import Machine

_ONE, _GROUP, _GRID = 0, 1, 2  # who has read a granule: one wave, several of a workgroup, several workgroups


class GlobalRaces(Granules):
    """The global memory of one launch. Waves are numbered through the grid."""

    names = (
        *("writer", "writer_mark", "writer_site", "writer_ticket", "strong"),
        *("reader", "reader_mark", "reader_site", "reader_ticket", "crowd"),
    )
    acquired: Array

    def __init__(self, size: int, granule: int) -> None:
        super().__init__(granule)
        count = -(-size // granule) + 1
        self.writer = np.zeros(count, np.int32)
        self.writer_mark = np.zeros(count, np.int32)
        self.writer_site = np.zeros(count, np.int32)
        self.writer_ticket = np.zeros(count, np.int32)
        self.strong = np.zeros(count, bool)
        self.reader = np.zeros(count, np.int32)
        self.reader_mark = np.zeros(count, np.int32)
        self.reader_site = np.zeros(count, np.int32)
        self.reader_ticket = np.zeros(count, np.int32)
        self.crowd = np.zeros(count, np.int8)

    def start_batch(self, machine: Machine) -> None:
        """New workgroups; memory remembers."""
        self.machine = machine
        self.acquired = np.zeros(machine.groups, bool)
        self.base = machine.first * machine.per_group

    def acquire(self, sel: Sel) -> None:
        """These waves have heard from others; a barrier lets their workgroups know."""
        self.acquired[self.machine.group[sel]] = True

    # -- accesses ------------------------------------------------------------------------------------------------------

    def read(self, sel: Sel, where: Array, size: int, lanes: Array | None, strong: bool = False) -> Over:
        """Waves read; returns what to call, with positions, when they have waited for it."""
        cells, waves, place = self.spread(sel, where, size, lanes)
        self._check_writer("RAW", cells, waves, strong)
        ticket = self.ticket()
        me = (waves + self.base + 1).astype(np.int32)
        before = self.reader[cells]
        same = (before == me) | (before == 0)
        if same.all():
            self.crowd[cells] = _ONE
        else:
            per = self.machine.per_group
            near = (before - 1) // per == (me - 1) // per
            wider = np.where(near, _GROUP, _GRID).astype(np.int8)
            self.crowd[cells] = np.where(before == 0, _ONE, np.maximum(self.crowd[cells], np.where(same, _ONE, wider)))
        self.reader[cells] = me
        clash = self.reader[cells] != me
        if clash.any():  # several waves of this instruction read the same
            per = self.machine.per_group
            near = (self.reader[cells[clash]] - 1) // per == (me[clash] - 1) // per
            wider = np.where(near, _GROUP, _GRID).astype(np.int8)
            np.maximum.at(self.crowd, cells[clash], wider)
        self.reader_mark[cells] = PENDING
        self.reader_site[cells] = self.machine.site
        self.reader_ticket[cells] = ticket

        return self.ending("reader", ticket, cells, waves, place)

    def write(self, sel: Sel, where: Array, size: int, lanes: Array | None, strong: bool = False) -> Over:
        """Waves write, or (`strong`) read and write in one step."""
        cells, waves, place = self.spread(sel, where, size, lanes)
        self._check_writer("WAW", cells, waves, strong)
        self._check_readers(cells, waves)
        ticket = self.ticket()
        me = (waves + self.base + 1).astype(np.int32)
        self.reader[cells] = 0
        self.crowd[cells] = _ONE
        self.writer[cells] = me
        self.writer_mark[cells] = PENDING
        self.writer_site[cells] = self.machine.site
        self.writer_ticket[cells] = ticket
        self.strong[cells] = strong
        if not strong:
            clash = np.flatnonzero(self.writer[cells] != me)
            if len(clash):
                at, wave = int(cells[clash[0]]), int(waves[clash[0]])
                self._report("WAW", at, wave, int(self.writer[at]) - 1, self.machine.site, 0)

        return self.ending("writer", ticket, cells, waves, place)

    # -- checks --------------------------------------------------------------------------------------------------------

    def _ordered(self, waves: Array, other: Array, mark: Array, crowd: Array | None = None) -> Array:
        """Whether the access of wave `other` - 1 of the grid is known to these waves of the batch."""
        per = self.machine.per_group
        me = waves + self.base + 1
        near = (other - 1) // per == (me - 1) // per
        known: Array = np.where(near, mark <= self.machine.passed[waves], False)
        if crowd is None:
            known |= other == me
        else:
            known |= (other == me) & (crowd == _ONE)
            known &= crowd != _GRID
        known |= self.acquired[self.machine.group[waves]] & (mark != PENDING)
        known |= other == 0
        return known

    def _check_writer(self, hazard: str, cells: Array, waves: Array, strong: bool) -> None:
        other = self.writer[cells]
        if not other.any():
            return
        mark = self.writer_mark[cells]
        ordered = self._ordered(waves, other, mark)
        if strong:
            ordered |= self.strong[cells]
        bad = np.flatnonzero(~ordered)
        if len(bad):
            at, wave = int(cells[bad[0]]), int(waves[bad[0]])
            self._report(hazard, at, wave, int(other[bad[0]]) - 1, int(self.writer_site[at]), int(mark[bad[0]]))

    def _check_readers(self, cells: Array, waves: Array) -> None:
        other = self.reader[cells]
        if not other.any():
            return
        mark = self.reader_mark[cells]
        bad = np.flatnonzero(~self._ordered(waves, other, mark, self.crowd[cells]))
        if len(bad):
            at, wave = int(cells[bad[0]]), int(waves[bad[0]])
            self._report("WAR", at, wave, int(other[bad[0]]) - 1, int(self.reader_site[at]), int(mark[bad[0]]))

    def _report(self, hazard: str, at: int, wave: int, other: int, site: int, mark: int) -> None:
        m = self.machine
        later, earlier = HAZARDS[hazard]
        name, offset, _ = m.globals.owner(at * self.granule)
        near = other // m.per_group == (wave + self.base) // m.per_group
        if not near:
            kind, cure = "missing_barrier", "workgroups of a launch are not ordered: use atomics, or two launches"
        elif mark == PENDING:
            kind = "missing_wait"
            cure = "wait for vmcnt in the wave that made the first, then let both pass a barrier"
        else:
            kind = "missing_barrier"
            cure = "put a barrier between them, behind the wait for vmcnt"
        message = f"global memory: a {later} conflicts with an earlier {earlier}"
        first = m.access(later, m.site, wave)
        second = m.access(earlier, site, other - self.base)
        m.find(Finding(kind, message, first, second, hazard, "global", name, (offset, offset + self.granule), cure))
