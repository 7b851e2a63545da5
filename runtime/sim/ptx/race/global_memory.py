"""Races in global memory, within a CTA and between CTAs (see shadow.py for what is remembered).

The shadow lives as long as the launch; threads are numbered through the grid. CTAs are unordered but for what
release and acquire order (`Clocks.far`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...core.fixes import CLUSTER_BARRIER, ONE_THREAD, order
from ...core.report import HAZARDS, Finding
from ...core.scalars import Array
from ...core.sparse import zeros
from .async_clocks import GLOBAL
from .clocks import Clocks
from .scopes import CTA, GPU, distances
from .shadow import PENDING, SEVERAL, GridRecords, PastAccesses, Writers
from .tensor_map import TensorMapRaces

if TYPE_CHECKING:
    from ..machine import Machine
    from .model import Sites


class GlobalRaces:
    """The global memory of one launch."""

    machine: Machine
    clocks: Clocks
    readers: GridRecords

    def __init__(self, size: int, cell_size: int, sites: Sites, bulky: Array) -> None:
        self.cell_size = cell_size
        self.sites = sites
        self.bulky = bulky  # per instruction: whether it is a bulk copy
        self.count = size // cell_size
        self.writers = Writers(self.count)
        self.copies: GridRecords | None = None  # what bulk copies read; made for the first one
        self.updaters: GridRecords | None = None  # strong writers; made for the first one
        self.reductions: GridRecords | None = None  # by bulk copies; made for the first one
        self.unfinished = np.zeros(0, np.int32)  # how many of these may still be writing; made with them
        self.base = 0  # the grid's number of the batch's first thread
        self.tensor_maps = TensorMapRaces(self)

    def start_batch(self, machine: Machine, clocks: Clocks) -> None:
        """Accesses come from the threads of this machine now."""
        self.machine = machine
        self.clocks = clocks
        self.base = clocks.first * clocks.padded
        if not hasattr(self, "readers"):
            self.readers = GridRecords(self.count, clocks.padded)

    def read(self, threads: Array, where: Array, site: int, strong: bool) -> None:
        """Threads read cells."""
        self._check_read(threads, where, site, strong)
        self._record(self.readers, threads, where, site)

    def write(self, threads: Array, where: Array, site: int) -> None:
        """Threads write cells."""
        writers = self.writers
        self._check_writer("WAW", threads, where, site)
        for past, hazard in ((self.readers, "WAR"), (self.copies, "WAR"), (self.updaters, "WAW")):
            if past is not None:
                self._check_past(past, hazard, threads, where, site)
                past.forget(where)
        if self.reductions is not None:
            self._check_reductions("WAW", threads, where, site)
            self.reductions.forget(where)
        me = (threads + self.base + 1).astype(np.int32)
        writers.thread[where] = me
        writers.stamp[where] = self.clocks.now
        writers.site[where] = site
        clash = writers.thread[where] != me
        if clash.any():
            other = int(writers.thread[where[clash][0]]) - 1
            message = "two threads write the same bytes with one instruction"
            loser, place = int(threads[clash][0]), int(where[clash][0])
            self._report("WAW", message, loser, place, site, other, site, cure=ONE_THREAD)

    def update(self, threads: Array, where: Array, site: int) -> None:
        """Threads write cells strongly: atomically, or with a volatile or relaxed store."""
        self._check_update(threads, where, site)
        if self.updaters is None:
            self.updaters = GridRecords(self.count, self.clocks.padded)
        self._record(self.updaters, threads, where, site)

    def _reduce(self, threads: Array, where: Array, site: int) -> None:
        """A bulk copy updates cells. Its records are apart from those of its thread's own atomics, which need a
        proxy fence of their own."""
        self._check_update(threads, where, site)
        if self.reductions is None:
            self.reductions = GridRecords(self.count, self.clocks.padded)
            self.unfinished = zeros(self.count, np.int32)
        self._record(self.reductions, threads, where, site)
        self.unfinished[where] += 1  # by one, also where the copy has several elements

    def bulk(self, thread: int, offsets: Array, site: int, writes: bool, atomic: bool = False) -> None:
        """A bulk copy of a thread accesses elements at arena offsets, in the async proxy. Writes are pending until the
        thread has waited for them (`finish`)."""
        where = self._cells(offsets)
        threads = np.full(len(where), thread)
        before = "WAW" if writes else "RAW"
        self._check_fences(before, thread, where, site, self.writers.accesses(where))
        if self.updaters is not None and not atomic:
            self._check_fences(before, thread, where, site, self.updaters.accesses(where))
        if not writes:
            self._check_read(threads, where, site, False)
            if self.copies is None:
                self.copies = GridRecords(self.count, self.clocks.padded)
            self._record(self.copies, threads, where, site)
            return
        self._check_fences("WAR", thread, where, site, self.readers.accesses(where))
        if atomic:
            self._reduce(threads, where, site)
        else:
            where = np.unique(where)
            self.write(threads[: len(where)], where, site)
            self.writers.stamp[where] = PENDING

    def finish(self, thread: int, offsets: Array, site: int, atomic: bool) -> None:
        """The thread of a bulk copy has waited: what this wrote there counts as written by the thread now."""
        where = self._cells(offsets)
        if not atomic:
            mine = self.writers.stamp[where] == PENDING
            self.writers.stamp[where[mine]] = self.clocks.now
        elif self.reductions is not None:
            self.unfinished[where] -= 1
            if self.reductions.only(where, thread + self.base):
                self.reductions.stamp[where] = self.clocks.now
            else:
                self._record(self.reductions, np.full(len(where), thread), where, site)

    def _cells(self, offsets: Array) -> Array:
        """Those of a bulk copy's elements; neighbours in one cell count once."""
        cells = offsets // self.cell_size
        where: Array = cells[np.r_[True, cells[1:] != cells[:-1]]]
        return where

    def _check_fences(self, hazard: str, thread: int, where: Array, site: int, past: PastAccesses) -> None:
        """Generic accesses to cells `where` by threads of the own CTA, before a bulk copy, need a proxy fence of
        each. Of those that nothing orders other checks tell."""
        padded = self.clocks.padded
        local = past.thread - self.base
        near = np.flatnonzero((local // padded == thread // padded) & ~self.bulky[past.site])
        if not len(near):
            return
        me, local, stamp = np.full(len(near), thread), local[near], past.stamp[near]
        fenced = self.clocks.fenced(me, local, stamp, GLOBAL)
        late = near[self.clocks.knows(me, local, stamp) & ~fenced]
        if len(late):
            place, other, other_site = int(where[past.at[late[0]]]), int(past.thread[late[0]]), past.site[late[0]]
            later, earlier = HAZARDS[hazard]
            did, doing = {"read": ("read", "reading"), "write": ("written", "writing")}[earlier]
            does = {"read": "reads", "write": "overwrites"}[later]
            message = f"a bulk copy {does} global memory that a thread has {did}"
            cure = f"fence.proxy.async.global by the {doing} thread, behind its {earlier}, before the barrier"
            self._report(hazard, message, thread, place, site, other, int(other_site), "missing_proxy_fence", cure=cure)

    # -- checks ---------------------------------------------------------------------------------------------------

    def _check_read(self, threads: Array, where: Array, site: int, strong: bool) -> None:
        self._check_writer("RAW", threads, where, site)
        if self.updaters is not None and (not strong or self.sites.narrow):
            self._check_past(self.updaters, "RAW", threads, where, site)
        if self.reductions is not None:
            self._check_reductions("RAW", threads, where, site, strong and not self.sites.narrow)

    def _check_update(self, threads: Array, where: Array, site: int) -> None:
        self._check_writer("WAW", threads, where, site)
        self._check_past(self.readers, "WAR", threads, where, site)
        if self.copies is not None:
            self._check_past(self.copies, "WAR", threads, where, site)
        if self.sites.narrow:
            for past in (self.updaters, self.reductions):
                if past is not None:
                    self._check_past(past, "WAW", threads, where, site)

    def _check_reductions(self, hazard: str, threads: Array, where: Array, site: int, strong: bool = False) -> None:
        """Accesses that are no atomics, against what bulk copies have updated."""
        assert self.reductions is not None
        late = self.unfinished[where] > 0
        if late.any():
            me, place = int(threads[late][0]), int(where[late][0])
            store = self.machine.bulk.reducing(place, self.cell_size)
            self._pending(hazard, me, place, site, store.thread + self.base, store.site)
            threads, where = threads[~late], where[~late]
        if not strong:
            self._check_past(self.reductions, hazard, threads, where, site)

    def _record(self, records: GridRecords, threads: Array, where: Array, site: int) -> None:
        clocks = self.clocks

        def passed() -> Array:
            """All recorded accesses are by the own CTA, before its last barrier of all, and fenced, if generic."""
            same: Array = (records.thread[where] - 1 - self.base) // clocks.padded == threads // clocks.padded
            same &= records.stamp[where] < clocks.floor[threads // clocks.padded]
            same &= records.cta[where] != SEVERAL
            if clocks.async_clocks is not None and records not in (self.copies, self.reductions):
                at = np.flatnonzero(same)
                past = records.accesses(where[at])
                at = at[past.at]
                fenced = clocks.fenced(threads[at], past.thread - self.base, past.stamp, GLOBAL)
                same[at[~fenced & ~self.bulky[past.site]]] = False
            return same

        def known(positions: Array, lanes: Array, stamp: Array) -> Array:
            return clocks.covers(threads[positions], lanes, stamp, GLOBAL)

        records.record(where, threads + self.base, clocks.now, site, passed, known)

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

    def _check_past(self, records: GridRecords, hazard: str, threads: Array, where: Array, site: int) -> None:
        """Report the first access that is not ordered after those recorded. Where those are by several CTAs, knowing
        the last of them, and anything of another CTA, is taken to be enough: which the others are is not kept."""
        clocks, other, cta = self.clocks, records.thread[where], records.cta[where]
        doubtful = (other != 0) & ((other != threads + self.base + 1) | (cta != 0))
        if not doubtful.any():
            return
        near = (other - 1 - self.base) // clocks.padded == threads // clocks.padded
        passed = near & (cta != SEVERAL) & (records.stamp[where] < clocks.floor[threads // clocks.padded])
        doubtful = np.flatnonzero(doubtful & ~passed)
        past = records.accesses(where[doubtful])
        at = doubtful[past.at]
        known = self.ordered(threads[at], past.thread, past.stamp)
        ok = known & ((cta[at] != SEVERAL) | np.isin(threads[at], list(clocks.far)))
        ok |= self.sites.morally_strong(site, past.site, self._far(threads[at], past.thread))
        if not ok.all():
            bad = int(np.flatnonzero(~ok)[0])
            me, place = int(threads[at[bad]]), int(where[at[bad]])
            culprit = None if known[bad] else int(past.thread[bad])
            self._race(hazard, me, place, site, culprit, int(past.site[bad]))

    # -- findings ---------------------------------------------------------------------------------------------------

    def _race(self, hazard: str, me: int, where: int, site: int, other: int | None, other_site: int) -> None:
        """`other`: None for a thread of some other CTA."""
        if self.writers.stamp[where] == PENDING:
            self._pending(hazard, me, where, site, other, other_site)
            return
        far = GPU if other is None else self.distance(me, other)
        cure = order(self.machine, far, other_site, site, self.sites)
        later, earlier = HAZARDS[hazard]
        message = f"global memory: a {later} conflicts with an earlier {earlier}"
        self._report(hazard, message, me, where, site, other, other_site, cure=cure)

    def _pending(self, hazard: str, me: int, where: int, site: int, other: int | None, other_site: int) -> None:
        message = "global memory: a bulk copy may still be writing this"
        far = GPU if other is None else self.distance(me, other)
        barrier = {CTA: "bar.sync for the others"}.get(far, f"{CLUSTER_BARRIER} for the others")
        cure = f"cp.async.bulk.wait_group by the thread that issued the copy, then {barrier}"
        if far == GPU:
            cure = "two launches: CTAs of a launch are not ordered"
        self._report(hazard, message, me, where, site, other, other_site, "missing_wait", cure=cure)

    def _report(
        self,
        hazard: str,
        message: str,
        me: int,
        where: int,
        site: int,
        other: int | None,
        other_site: int,
        kind: str = "missing_barrier",
        *,
        cure: str,
    ) -> None:
        machine = self.machine
        name, offset = machine.launch.globals.owner(where * self.cell_size)
        later, earlier = HAZARDS[hazard]
        who = None if other is None else other - self.base
        first, second = machine.access(later, site, me), machine.access(earlier, other_site, who)
        span = (offset, offset + self.cell_size)
        machine.find(Finding(kind, message, first, second, hazard, "global", name, span, cure))
