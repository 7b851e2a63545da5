"""Races in shared memory: each access against the last plain write and against the past accesses since (see
shadow.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...core.fixes import ONE_THREAD, barrier_of, between, distance_of, names, order
from ...core.memory import SharedSpace
from ...core.report import HAZARDS, Finding
from ...core.scalars import Array, every, some
from ..program import SHARED_BASE
from .async_clocks import SHARED
from .async_proxy import AsyncRaces
from .clocks import Clocks
from .scopes import distances
from .shadow import PENDING, WarpRecords, Writers

if TYPE_CHECKING:
    from ..machine import Machine
    from .model import Sites


class SharedRaces:
    """The shared memory of one batch."""

    def __init__(self, machine: Machine, space: SharedSpace, clocks: Clocks, cell_size: int, sites: Sites) -> None:
        self.machine = machine
        self.space = space
        self.clocks = clocks
        self.cell_size = cell_size
        self.sites = sites
        count, self.warps = len(space.arena.data) // cell_size, clocks.padded // 32
        self.written = np.zeros(count, bool)
        self.writers = Writers(count)
        self.readers = WarpRecords(count, self.warps)
        self.updaters: WarpRecords | None = None  # strong writers; made for the first one
        self.async_proxy = None if clocks.async_clocks is None else AsyncRaces(machine, self)

    def read(self, threads: Array, where: Array, site: int, strong: bool) -> None:
        """Threads read cells."""
        if self.async_proxy is not None:
            self.async_proxy.generic(threads, where, site, writes=False)
        self._check_written(threads, where, site)
        self._check_writer("RAW", threads, where, site)
        if self.updaters is not None and (not strong or self.sites.narrow):
            self._check_past(self.updaters, "RAW", threads, where, site)
        self._record(self.readers, threads, where, site)

    def write(self, threads: Array, where: Array, site: int, pending: bool) -> None:
        """Threads write cells; a pending write is made later by an async engine."""
        if self.async_proxy is not None:
            self.async_proxy.generic(threads, where, site, writes=True)
        self._check_writer("WAW", threads, where, site)
        self._check_past(self.readers, "WAR", threads, where, site)
        self.readers.forget(where)
        if self.updaters is not None:
            self._check_past(self.updaters, "WAW", threads, where, site)
            self.updaters.forget(where)
        self.writers.thread[where] = threads + 1
        self.writers.stamp[where] = PENDING if pending else self.clocks.now
        self.writers.site[where] = site
        self.written[where] = True
        clash = self.writers.thread[where] != threads + 1
        if some(clash):
            self._same_instruction(threads[clash], where[clash], site)

    def update(self, threads: Array, where: Array, site: int, reads: bool) -> None:
        """Threads write cells strongly: atomically (`reads`), or with a volatile or relaxed store."""
        if self.async_proxy is not None:
            self.async_proxy.generic(threads, where, site, writes=True)
        if reads:
            self._check_written(threads, where, site)
        self._check_writer("WAW", threads, where, site)
        self._check_past(self.readers, "WAR", threads, where, site)
        if self.updaters is None:
            self.updaters = WarpRecords(len(self.written), self.warps)
        elif self.sites.narrow:
            self._check_past(self.updaters, "WAW", threads, where, site)
        self._record(self.updaters, threads, where, site)
        self.written[where] = True

    def done(self, threads: Array, where: Array) -> None:
        """The issuing threads have waited: their pending writes count as made by them now."""
        mine = (self.writers.stamp[where] == PENDING) & (self.writers.thread[where] == threads + 1)
        self.writers.stamp[where[mine]] = self.clocks.now

    def cells(self, where: Array, size: int) -> Array:
        """The cells of pieces of `size` bytes at arena offsets."""
        pieces = size // self.cell_size
        first = where // self.cell_size
        return first if pieces <= 1 else (first[:, None] + np.arange(pieces)).ravel()

    # -- checks ---------------------------------------------------------------------------------------------------

    def _record(self, records: WarpRecords, threads: Array, where: Array, site: int) -> None:
        clocks = self.clocks

        def known(positions: Array, lanes: Array, stamp: Array) -> Array:
            return clocks.covers(threads[positions], lanes, stamp, SHARED)

        records.record(where, threads % clocks.padded, clocks.now, site, known)

    def _check_writer(self, hazard: str, threads: Array, where: Array, site: int) -> None:
        """Report the first access that is not ordered after the cell's last plain write."""
        writers, clocks = self.writers, self.clocks
        doubtful = writers.stamp[where] >= clocks.floor[threads // clocks.padded]
        if not some(doubtful):
            return
        doubtful &= writers.thread[where] > 0
        me, place = threads[doubtful], where[doubtful]
        other, stamp = writers.thread[place].astype(np.int64) - 1, writers.stamp[place]
        ok = clocks.knows(me, other, stamp) & (stamp != PENDING)
        if not every(ok):
            bad = int(np.flatnonzero(~ok)[0])
            waits = bool(stamp[bad] == PENDING)
            self._report(
                hazard, int(me[bad]), int(place[bad]), site, int(other[bad]), int(writers.site[place[bad]]), waits
            )

    def _check_past(self, records: WarpRecords, hazard: str, threads: Array, where: Array, site: int) -> None:
        """Report the first access that is not ordered after those recorded."""
        clocks, padded = self.clocks, self.machine.padded
        past = records.since(where, clocks.floor[threads // clocks.padded][:, None])
        if not len(past.at):
            return
        me = threads[past.at]
        others = me // clocks.padded * clocks.padded + past.thread
        ok = clocks.knows(me, others, past.stamp)
        far = distances(me // padded, others // padded, self.machine.launch.cluster_size)
        ok |= self.sites.morally_strong(site, past.site, far)
        if not every(ok):
            bad = int(np.flatnonzero(~ok)[0])
            mates = ok[(past.at == past.at[bad]) & (others // 32 == others[bad] // 32)].any()
            place, other, other_site = int(where[past.at[bad]]), int(others[bad]), int(past.site[bad])
            self._report(hazard, int(me[bad]), place, site, other, other_site, False, bool(mates))

    def _check_written(self, threads: Array, where: Array, site: int) -> None:
        written = self.written[where]
        if every(written):
            return
        bad = int(np.flatnonzero(~written)[0])
        name, offset = self.place(int(where[bad]))
        message = "shared memory is read that no thread of this CTA has written"
        access = self.machine.access("read", site, int(threads[bad]))
        span = (offset, offset + self.cell_size)
        self.machine.find(Finding("uninitialised", message, access, space="shared", buffer=name, bytes=span))

    # -- findings ---------------------------------------------------------------------------------------------------

    def place(self, cell_size: int) -> tuple[str | None, int]:
        """The variable that a cell belongs to, and the byte offset in it."""
        return self.space.describe(self.machine, cell_size * self.cell_size % self.space.stride + SHARED_BASE)

    def _report(
        self,
        hazard: str,
        me: int,
        where: int,
        site: int,
        other: int,
        other_site: int,
        waits: bool,
        mates: bool = False,
    ) -> None:
        """`waits`: the earlier access is a copy in flight. `mates`: other lanes of the earlier warp did the same, and
        those are known."""
        kind = "missing_wait" if waits else "missing_barrier"
        later, earlier = HAZARDS[hazard]
        does = "reads" if later == "read" else "overwrites"
        did = "read" if earlier == "read" else "written"
        machine = self.machine
        mine, theirs = names(machine, me, other)
        message = f"{mine} {does} what {theirs} has {did}"
        first = self.machine.access(later, site, me)
        second = self.machine.access(f"async {earlier}" if waits else earlier, other_site, other)
        if waits:
            others = "" if me == other else f", and behind it {barrier_of(machine, me, other)}"
            where_to = between(machine, other_site, site)
            cure = f"cp.async.wait_group by {theirs}, which issued the copy{others}, {where_to}"
        else:
            barrier = "bar.sync"
            if me // 32 == other // 32:
                barrier = "bar.warp.sync (or bar.sync)"
            elif mates:
                barrier = "bar.warp.sync before the lane arrives that does so for its warp, or bar.sync,"
            cure = order(machine, distance_of(machine, me, other), other_site, site, self.sites, barrier)
        name, offset = self.place(where)
        span = (offset, offset + self.cell_size)
        self.machine.find(Finding(kind, message, first, second, hazard, "shared", name, span, cure))

    def _same_instruction(self, threads: Array, where: Array, site: int) -> None:
        """Several threads wrote one place with one instruction."""
        winner = int(self.writers.thread[where[0]]) - 1
        message = "two threads write the same bytes with one instruction"
        first = self.machine.access("write", site, int(threads[0]))
        second = self.machine.access("write", site, winner)
        name, offset = self.place(int(where[0]))
        span = (offset, offset + self.cell_size)
        self.machine.find(Finding("missing_barrier", message, first, second, "WAW", "shared", name, span, ONE_THREAD))
