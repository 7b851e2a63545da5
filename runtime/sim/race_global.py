"""Races in global memory, within a CTA and between CTAs (see shadow.py for what is remembered).

The shadow lives as long as the launch; threads are numbered through the grid. CTAs are unordered, unless knowledge
has travelled between them by release and acquire (`Clocks.far`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from .clocks import Clocks
from .knowledge import GLOBAL
from .race_shared import HAZARDS, ONE_WRITER
from .race_tensor_map import TensorMapRaces
from .report import Finding, between
from .scalars import Array
from .scopes import distances
from .shadow import PENDING, SEVERAL, GridRecords, Writers

if TYPE_CHECKING:
    from .machine import Machine
    from .race import Sites


class GlobalRaces:
    """The global memory of one launch."""

    machine: Machine
    clocks: Clocks
    knows_warp: Callable[[Array, Array, Array], Array]

    def __init__(self, size: int, granule: int, sites: Sites, bulky: Array) -> None:
        self.granule = granule
        self.sites = sites
        self.bulky = bulky  # per instruction: whether it is a bulk copy
        self.count = size // granule
        self.writers = Writers(self.count)
        self.readers = GridRecords(self.count)
        self.updaters: GridRecords | None = None  # strong writers; made for the first one
        self.base = 0  # the grid's number of the batch's first thread
        self.tensor_maps = TensorMapRaces(self)

    def start_batch(self, machine: Machine, clocks: Clocks, knows_warp: Callable[[Array, Array, Array], Array]) -> None:
        """Accesses come from the threads of this machine now."""
        self.machine = machine
        self.clocks = clocks
        self.knows_warp = knows_warp
        self.base = clocks.first * clocks.padded

    def read(self, threads: Array, where: Array, site: int, strong: bool) -> None:
        """Threads read granules."""
        self._check_writer("RAW", threads, where, site)
        if self.updaters is not None and (not strong or self.sites.narrow):
            self._check_crowd(self.updaters, "RAW", threads, where, site)
        self._record(self.readers, threads, where, site)

    def write(self, threads: Array, where: Array, site: int) -> None:
        """Threads write granules."""
        writers = self.writers
        self._check_writer("WAW", threads, where, site)
        for crowd, hazard in ((self.readers, "WAR"), (self.updaters, "WAW")):
            if crowd is not None:
                self._check_crowd(crowd, hazard, threads, where, site)
                crowd.forget(where)
        me = (threads + self.base + 1).astype(np.int32)
        writers.thread[where] = me
        writers.stamp[where] = self.clocks.now
        writers.site[where] = site
        clash = writers.thread[where] != me
        if clash.any():
            other = int(writers.thread[where[clash][0]]) - 1
            message = "two threads write the same bytes with one instruction"
            loser, place = int(threads[clash][0]), int(where[clash][0])
            self._report("WAW", message, loser, place, site, other, site, cure=ONE_WRITER)

    def update(self, threads: Array, where: Array, site: int) -> None:
        """Threads write granules strongly: atomically, or with a volatile or relaxed store."""
        self._check_writer("WAW", threads, where, site)
        self._check_crowd(self.readers, "WAR", threads, where, site)
        if self.updaters is None:
            self.updaters = GridRecords(self.count)
        elif self.sites.narrow:
            self._check_crowd(self.updaters, "WAW", threads, where, site)
        self._record(self.updaters, threads, where, site)

    def bulk(self, thread: int, offsets: Array, site: int, writes: bool, atomic: bool = False) -> None:
        """A bulk copy of a thread accesses elements at arena offsets, in the async proxy. Writes are pending until the
        thread has waited for them (`BulkCopies`)."""
        granules = offsets // self.granule
        where = granules[np.r_[True, granules[1:] != granules[:-1]]]
        threads = np.full(len(where), thread)
        self._check_fences("WAW" if writes else "RAW", thread, where, site)
        if writes:
            self._check_readers(thread, where, site)
        if not writes:
            self.read(threads, where, site, False)
        elif atomic:
            self.update(threads, where, site)
        else:
            where = np.unique(where)
            self.write(threads[: len(where)], where, site)
            self.writers.stamp[where] = PENDING

    def _check_fences(self, hazard: str, thread: int, where: Array, site: int) -> None:
        """Generic writes before a bulk copy need a proxy fence of the writing thread; those of bulk copies do not."""
        knowledge, padded = self.clocks.knowledge, self.clocks.padded
        assert knowledge is not None
        base = thread // padded * padded
        local = self.writers.thread[where] - 1 - self.base - base
        near = np.flatnonzero((local >= 0) & (local < padded) & ~self.bulky[self.writers.site[where]])
        if not len(near):
            return
        fenced = knowledge.matrix[thread, GLOBAL * padded : (GLOBAL + 1) * padded][local[near]]
        late = self.writers.stamp[where[near]] >= fenced
        known = self.ordered(
            np.full(len(near), thread), local[near] + base + self.base, self.writers.stamp[where[near]]
        )
        if (late & known).any():
            bad = int(where[near][np.flatnonzero(late & known)[0]])
            other = int(self.writers.thread[bad]) - 1
            message = "a bulk copy accesses global memory that a thread has written"
            cure = "fence.proxy.async.global by the writing thread, behind its write, before the barrier"
            other_site = int(self.writers.site[bad])
            self._report(hazard, message, thread, bad, site, other, other_site, "missing_proxy_fence", cure)

    def _check_readers(self, thread: int, where: Array, site: int) -> None:
        """Generic reads by threads of the own CTA, before a bulk copy writes, need a proxy fence of each as well."""
        knowledge, padded = self.clocks.knowledge, self.clocks.padded
        assert knowledge is not None
        records, mine = self.readers, (thread + self.base) // padded + 1
        base = thread // padded * padded
        local = records.thread[where] - 1 - self.base - base
        single = (records.cta[where] == 0) & (local >= 0) & (local < padded) & (records.thread[where] != 0)
        near = np.flatnonzero((single | (records.cta[where] == mine)) & ~self.bulky[records.site[where]])
        if not len(near):
            return
        fenced = knowledge.matrix[thread, GLOBAL * padded : (GLOBAL + 1) * padded]
        live = self.machine.live[base : base + padded]
        slowest = np.where(live | (fenced > 0), fenced, np.int64(1 << 60)).reshape(-1, 32).min(axis=1)
        for index in near:
            place = int(where[index])
            stamp, warps = records.stamp[place], int(records.warps[place])
            if single[index]:
                late = stamp >= fenced[local[index]]
                one = np.array([thread])
                known = bool(self.ordered(one, one * 0 + int(records.thread[place]) - 1, one * 0 + stamp)[0])
            else:
                late = any(stamp >= slowest[warp] for warp in range(len(slowest)) if warps >> warp & 1)
                known = self._knows_crowd(thread, 1, records, place)
            if late and known:
                message = "a bulk copy overwrites global memory that a thread has read"
                cure = "fence.proxy.async.global by the reading thread, behind its read, before the barrier"
                other, other_site = int(records.thread[place]) - 1, int(records.site[place])
                self._report("WAR", message, thread, place, site, other, other_site, "missing_proxy_fence", cure)
                return

    # -- checks ---------------------------------------------------------------------------------------------------

    def _record(self, records: GridRecords, threads: Array, where: Array, site: int) -> None:
        clocks = self.clocks

        def known() -> Array:
            """All recorded accesses are by the own CTA and before its last barrier of all."""
            same: Array = (records.thread[where] - 1 - self.base) // clocks.padded == threads // clocks.padded
            same &= records.stamp[where] < clocks.floor[threads // clocks.padded]
            same &= records.cta[where] != SEVERAL
            return same

        records.record(where, threads + self.base, clocks.now, site, clocks.padded, known)

    def ordered(self, threads: Array, other: Array, stamp: Array) -> Array:
        """Whether batch threads know accesses of single grid threads."""
        clocks = self.clocks
        local = other - self.base
        near = (local // clocks.padded == threads // clocks.padded) & (local >= 0)
        ok = np.zeros(len(threads), bool)
        if near.any():
            ok[near] = clocks.knows(threads[near], local[near], stamp[near])
        if clocks.far and not ok.all():
            for index in np.flatnonzero(~ok & ~near):
                cta, thread = divmod(int(other[index]), clocks.padded)
                ok[index] = clocks.knows_far(int(threads[index]), cta, thread, int(stamp[index]))
        return ok

    def _far(self, threads: Array, others: Array) -> Array:
        """The distances (`scopes.py`) of batch threads from grid threads."""
        padded = self.machine.padded
        return distances((threads + self.base) // padded, others // padded, self.machine.launch.cluster_size)

    def distance(self, thread: int, other: int) -> int:
        """That of one batch thread from one grid thread."""
        return int(self._far(np.array([thread]), np.array([other]))[0])

    def _check_writer(self, hazard: str, threads: Array, where: Array, site: int) -> None:
        other = self.writers.thread[where]
        doubtful = (other != 0) & ((other != threads + self.base + 1) | (self.writers.stamp[where] == PENDING))
        if not doubtful.any():
            return
        me, place = threads[doubtful], where[doubtful]
        writer = other[doubtful].astype(np.int64) - 1
        ok = self.ordered(me, writer, self.writers.stamp[place]) & (self.writers.stamp[place] != PENDING)
        if not ok.all():
            bad = int(np.flatnonzero(~ok)[0])
            self._race(
                hazard, int(me[bad]), int(place[bad]), site, int(writer[bad]), int(self.writers.site[place[bad]])
            )

    def _check_crowd(self, records: GridRecords, hazard: str, threads: Array, where: Array, site: int) -> None:
        """Report the first access that is not ordered after those recorded."""
        other = records.thread[where]
        doubtful = (other != 0) & ((other != threads + self.base + 1) | (records.cta[where] != 0))
        if not doubtful.any():
            return
        me, place = threads[doubtful], where[doubtful]
        last = other[doubtful].astype(np.int64) - 1
        stamp, cta = records.stamp[place], records.cta[place]
        single = cta == 0
        ok = np.zeros(len(me), bool)
        ok[single] = self.ordered(me[single], last[single], stamp[single])
        ok |= self.sites.morally_strong(site, records.site[place], self._far(me, last))
        mine = (me + self.base) // self.clocks.padded + 1
        ok |= (cta == mine) & (stamp < self.clocks.floor[me // self.clocks.padded])
        for index in np.flatnonzero(~ok & ~single):
            ok[index] = self._knows_crowd(int(me[index]), int(cta[index] == mine[index]), records, int(place[index]))
            if not ok[index]:
                break
        if not ok.all():
            bad = int(np.flatnonzero(~ok)[0])
            self._race(hazard, int(me[bad]), int(place[bad]), site, int(last[bad]), int(records.site[place[bad]]))

    def _knows_crowd(self, me: int, same_cta: int, records: GridRecords, where: int) -> bool:
        """Whether a thread knows all that several threads did. Across CTAs, knowing the last of them is taken to be
        enough: which the others are is not kept."""
        if not same_cta:
            last = records.thread[where : where + 1].astype(np.int64) - 1
            return bool(self.ordered(np.array([me]), last, records.stamp[where : where + 1])[0])
        warps, stamp = int(records.warps[where]), records.stamp[where : where + 1]
        start = me // self.clocks.padded * self.clocks.padded
        one = np.array([me])
        return all(
            bool(self.knows_warp(one, np.array([start + 32 * warp]), stamp)[0])
            for warp in range(32)
            if warps >> warp & 1
        )

    # -- findings ---------------------------------------------------------------------------------------------------

    def _race(self, hazard: str, me: int, where: int, site: int, other: int, other_site: int) -> None:
        near = (other - self.base) // self.clocks.padded == me // self.clocks.padded
        if self.writers.stamp[where] == PENDING:
            message = "global memory: a bulk copy may still be writing this"
            cure = "cp.async.bulk.wait_group by the thread that issued the copy, then bar.sync for the others"
            self._report(hazard, message, me, where, site, other, other_site, "missing_wait", cure)
            return
        cure = "" if near else "CTAs of a launch are not ordered: use atomics, or two launches"
        later, earlier = HAZARDS[hazard]
        message = f"global memory: a {later} conflicts with an earlier {earlier}"
        self._report(hazard, message, me, where, site, other, other_site, cure=cure)

    def _report(
        self,
        hazard: str,
        message: str,
        me: int,
        where: int,
        site: int,
        other: int,
        other_site: int,
        kind: str = "missing_barrier",
        cure: str = "",
    ) -> None:
        """`cure`: by default a barrier."""
        machine = self.machine
        name, offset = machine.launch.globals.owner(where * self.granule)
        later, earlier = HAZARDS[hazard]
        first, second = machine.access(later, site, me), machine.access(earlier, other_site, other - self.base)
        span = (offset, offset + self.granule)
        cure = cure or f"bar.sync {between(second, first)}"
        machine.find(Finding(kind, message, first, second, hazard, "global", name, span, cure))
