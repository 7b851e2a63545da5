"""Races between the async proxy and everything else in shared memory (PTX ISA 8.0, 8.2.4, 9.7.8.24, 9.7.14.3).

Copies by cp.async.bulk and the reads of wgmma are accesses in the async proxy. Per cell this module remembers the
last asynchronous write and the asynchronous reads since, each as (engine, step, site): the access is complete for a
thread that knows the engine to have done that step (`async_clocks.py`). The rules:

    generic, then async    ordered by synchronisation, and every thread that accessed the bytes has executed a proxy
                           fence between its access and that synchronisation; else `missing_barrier`, or
                           `missing_proxy_fence`. This holds for reads that are overwritten, too.
    async, then anything   its completion is known: by the mbarrier's phase, the bulk group, or the wgmma group;
                           else `missing_wait`. No fence.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

import numpy as np

from ...core.fixes import barrier_of, between, names
from ...core.report import HAZARDS, Finding
from ...core.scalars import Array, distinct, every, some
from .shadow import PENDING, WarpRecords

if TYPE_CHECKING:
    from ..machine import Machine
    from .shared_memory import SharedRaces

_CURES = {
    "mbarrier": "a wait for the mbarrier's phase (mbarrier.try_wait)",
    "st.async": "a wait for the mbarrier's phase in the cluster's scope (mbarrier.try_wait.parity.acquire.cluster)",
    "bulk": "cp.async.bulk.wait_group.read by the thread that issued the copy, and for the others then {barrier}",
    "tcgen05": "tcgen05.commit by the thread that issued the product, and a wait for the mbarrier's phase",
    "wgmma": "wgmma.wait_group, and for other threads then an arrival or {barrier}",
}


class AsyncRaces:
    """The asynchronous accesses to the shared memory of one batch."""

    def __init__(self, machine: Machine, shared: SharedRaces) -> None:
        self.machine = machine
        self.shared = shared
        self.clocks = shared.clocks
        assert self.clocks.async_clocks is not None
        self.async_clocks = self.clocks.async_clocks
        count = len(shared.written)
        self.active = False
        self.reserved = np.zeros(count, bool)  # where an mbarrier lies
        self.column = np.zeros(count, np.int32)  # of the engine that wrote last, 0: none
        self.step = np.zeros(count, np.int64)
        self.site = np.zeros(count, np.int32)
        self.readers: list[dict[int, int]] = [
            {} for _ in self.async_clocks.columns
        ]  # engine's column to an index below
        self.read_step = np.zeros((count, 2), np.int64)
        self.read_site = np.zeros((count, 2), np.int32)
        self.standing: dict[tuple[bytes, bool], tuple[Array, Array, Array]] = {}  # see `common`
        self.standing_at = (-1, -1)

    # -- what engines and threads do ---------------------------------------------------------------------------------

    def fence(self, threads: Array, memory: int) -> None:
        """fence.proxy.async of these threads for shared or global memory."""
        self.async_clocks.fence(threads, self.clocks.tick(), memory)

    def acquire(self, threads: Array) -> None:
        """The half of a proxy fence by which threads may access what those of other CTAs have fenced."""
        self.async_clocks.acquire(threads)

    def complete(self, threads: Array, key: Hashable, steps: int) -> None:
        """Threads of one CTA have waited until an async engine has done this many steps."""
        column = self.async_clocks.engine(int(threads[0]) // self.clocks.padded, key)
        self.async_clocks.complete(threads, column, steps)

    def load(
        self,
        thread: int,
        where: Array,
        site: int,
        key: Hashable,
        step: int,
        width: int = 16,
        generic: bool = False,
    ) -> int:
        """A copy writes pieces of `width` bytes; returns the column of the engine, the mbarrier, that completes it.
        `generic`: it does so in the generic proxy, as st.async does."""
        column = self.async_clocks.engine(thread // self.clocks.padded, key)
        cells = self.shared.cells(where, width)
        self.access(np.array([thread]), cells, site, column, step, writes=True, generic=generic)
        return column

    def read(self, issuers: Array, rows: Array, site: int, key: Hashable, step: int) -> None:
        """An async engine reads rows of 16 bytes for these threads: a store's source, a product's operands."""
        column = self.async_clocks.engine(int(issuers[0]) // self.clocks.padded, key)
        self.access(issuers, self.shared.cells(rows, 16), site, column, step, writes=False)

    # -- generic accesses ---------------------------------------------------------------------------------------------

    def generic(self, threads: Array, where: Array, site: int, writes: bool) -> None:
        """Threads access cells in the generic proxy."""
        if writes:
            self._check_reserved(int(threads[0]), where, site)
        if not self.active:
            return
        columns = self.column[where]
        touched = columns.nonzero()[0]
        if len(touched):
            me, place = threads[touched], where[touched]
            ok = self.async_clocks.matrix[me, columns[touched]] >= self.step[place]
            if not every(ok):
                bad = int(np.flatnonzero(~ok)[0])
                self._early(
                    "WAW" if writes else "RAW",
                    int(me[bad]),
                    int(place[bad]),
                    site,
                    int(columns[touched][bad]),
                    int(self.site[place[bad]]),
                )
        if not writes:
            return
        steps = self.read_step[where]
        if some(steps):
            domains = threads // self.clocks.padded
            for domain in distinct(domains):
                mine = domains == domain
                self._check_reads(domain, None, threads[mine], where[mine], site)
            self.read_step[where] = 0
        self.column[where] = 0

    def _check_reads(self, domain: int, known: Array | None, threads: Array, where: Array, site: int) -> None:
        """Report the first cell that is overwritten while an async engine may still read it. `known` is what all
        threads know; without it, each access is by the thread in its place."""
        steps = self.read_step[where]
        for column, index in self.readers[domain].items():
            late = steps[:, index] > (self.async_clocks.matrix[threads, column] if known is None else known[column])
            if some(late):
                bad = int(np.flatnonzero(late)[0])
                me = int(threads[min(bad, len(threads) - 1)])
                self._early("WAR", me, int(where[bad]), site, column, int(self.read_site[where[bad], index]))
                return

    # -- asynchronous accesses ------------------------------------------------------------------------------------

    def access(
        self,
        issuers: Array,
        where: Array,
        site: int,
        column: int,
        step: int,
        writes: bool,
        generic: bool = False,
    ) -> None:
        """An async engine accesses cells on behalf of threads of one CTA (or cluster), which all have to know of what
        was before; the access is over when the engine has done `step` steps. `generic`: no proxy is crossed."""
        domain = int(issuers[0]) // self.clocks.padded
        if writes:
            self._check_reserved(int(issuers[0]), where, site)
        known, aware, fenced = self.common(issuers, writes)
        if generic:
            fenced = known
        base = domain * self.clocks.padded
        self._against_writer(issuers, where, site, known, fenced, base, writes)
        past = [self.shared.updaters] if self.shared.updaters is not None else []
        for records in [*past, self.shared.readers] if writes else past:
            hazard = "WAR" if records is self.shared.readers else "WAW" if writes else "RAW"
            self._against_past(hazard, issuers, where, site, records, known, fenced, base)
        self._against_async(domain, issuers, where, site, column, aware, writes)
        if not writes and not every(self.shared.written[where]):
            self._unwritten(int(issuers[0]), int(where[~self.shared.written[where]][0]), site)
        self._record(domain, where, site, column, step, writes)

    def common(self, issuers: Array, writes: bool) -> tuple[Array, Array, Array]:
        """What all issuers of an access know: of threads, of engines, of fences. Often the next access of theirs comes
        before anybody has learnt anything."""
        now = self.clocks.changes, self.async_clocks.changes
        if now != self.standing_at:
            self.standing.clear()
            self.standing_at = now
        key = issuers.tobytes(), writes
        if key not in self.standing:
            self.standing[key] = (
                self.clocks.common(issuers),
                self.async_clocks.common(issuers, observed=writes),
                self.async_clocks.fences(issuers, self.machine.padded),
            )
        return self.standing[key]

    def _record(self, domain: int, where: Array, site: int, column: int, step: int, writes: bool) -> None:
        self.active = True
        if writes:
            self.column[where], self.step[where], self.site[where] = column, step, site
            self.read_step[where] = 0
            shared = self.shared
            shared.written[where] = True
            shared.writers.thread[where] = 0
            shared.writers.stamp[where] = 0
            shared.readers.forget(where)
            if shared.updaters is not None:
                shared.updaters.forget(where)
            return
        index = self.readers[domain].setdefault(column, len(self.readers[domain]))
        if index >= self.read_step.shape[1]:
            more = ((0, 0), (0, self.read_step.shape[1]))
            self.read_step, self.read_site = np.pad(self.read_step, more), np.pad(self.read_site, more)
        self.read_step[where, index] = step
        self.read_site[where, index] = site

    def postpone(self, where: Array, column: int, old: int, new: int) -> None:
        """A write that was to be complete with an async engine's step `old` is so with `new`."""
        mine = (self.column[where] == column) & (self.step[where] == old)
        self.step[where[mine]] = new

    def reserve(self, place: int, used: bool) -> None:
        """An mbarrier begins or ends at an arena offset."""
        self.reserved[self.shared.cells(np.array([place]), max(8, self.shared.cell_size))] = used

    # -- checks ---------------------------------------------------------------------------------------------------

    def _check_reserved(self, me: int, where: Array, site: int) -> None:
        hit = self.reserved[where]
        if some(hit):
            name, offset = self.shared.place(int(where[np.flatnonzero(hit)[0]]))
            message, cure = "this overwrites an mbarrier that is in use", "memory of its own, or mbarrier.inval first"
            access = self.machine.access("write", site, me)
            span = (offset, offset + self.shared.cell_size)
            self.machine.find(Finding("barrier_mismatch", message, access, None, None, "shared", name, span, cure))

    def _against_writer(
        self, issuers: Array, where: Array, site: int, known: Array, fenced: Array, base: int, writes: bool
    ) -> None:
        writers = self.shared.writers
        thread, stamp = writers.thread[where], writers.stamp[where]
        at = thread.nonzero()[0]
        if not len(at):
            return
        local, stamp, place = thread[at] - 1 - base, stamp[at], where[at]
        hazard = "WAW" if writes else "RAW"
        for ok, kind in (
            (stamp != PENDING, "missing_wait"),
            (stamp < known[local], "missing_barrier"),
            (stamp < fenced[local], "missing_proxy_fence"),
        ):
            if not every(ok):
                bad = int(np.flatnonzero(~ok)[0])
                other, other_site = int(local[bad]) + base, int(writers.site[place[bad]])
                self._report(kind, hazard, int(issuers[0]), int(place[bad]), site, other, other_site)
                return

    def _against_past(
        self,
        hazard: str,
        issuers: Array,
        where: Array,
        site: int,
        records: WarpRecords,
        known: Array,
        fenced: Array,
        base: int,
    ) -> None:
        """Check against the records of generic accesses."""
        past = records.since(where, np.minimum(known, fenced).reshape(-1, 32).min(axis=1))
        for reached, kind in ((known, "missing_barrier"), (fenced, "missing_proxy_fence")):
            late = past.stamp >= reached[past.thread]
            if some(late):
                bad = int(np.flatnonzero(late)[0])
                other, place = base + int(past.thread[bad]), int(where[past.at[bad]])
                self._report(kind, hazard, int(issuers[0]), place, site, other, int(past.site[bad]))
                return

    def _against_async(
        self, domain: int, issuers: Array, where: Array, site: int, column: int, aware: Array, writes: bool
    ) -> None:
        columns = self.column[where]
        late = (columns > 0) & (self.step[where] > aware[columns])
        if self.shared.sites.strong[site]:  # reductions do not conflict with each other
            late &= ~self.shared.sites.strong[self.site[where]]
        if some(late):
            bad = int(np.flatnonzero(late)[0])
            place = int(where[bad])
            hazard = "WAW" if writes else "RAW"
            self._early(hazard, int(issuers[0]), place, site, int(columns[bad]), int(self.site[place]))
        if writes:
            self._check_reads(domain, aware, issuers, where, site)

    # -- findings -------------------------------------------------------------------------------------------------

    def _engine(self, domain: int, column: int) -> tuple[str, int | None]:
        """The kind of engine of this column, and whose it is, if it is a thread's."""
        for key, each in self.async_clocks.columns[domain].items():
            if each == column and isinstance(key, tuple):
                return str(key[0]), key[1] if key[0] == "bulk" else None
        return "mbarrier", None

    def _early(self, hazard: str, me: int, where: int, site: int, column: int, other_site: int) -> None:
        """An access to what an async engine may still be working on."""
        kind, issuer = self._engine(me // self.clocks.padded, column)
        cure = _CURES[kind].format(barrier=barrier_of(self.machine, me, me if issuer is None else issuer))
        later, earlier = HAZARDS[hazard]
        does = "reads" if later == "read" else "overwrites"
        doing = "reading" if earlier == "read" else "writing"
        message = f"this {does} shared memory that an asynchronous operation may still be {doing}"
        self._add("missing_wait", message, cure, hazard, later, me, where, site, f"async {earlier}", None, other_site)

    def _report(self, kind: str, hazard: str, me: int, where: int, site: int, other: int, other_site: int) -> None:
        later, earlier = HAZARDS[hazard]
        does = "reads" if later == "read" else "overwrites"
        did = "read" if earlier == "read" else "written"
        _, thread = names(self.machine, me, other)
        what = f"an asynchronous operation {does} what {thread} has {did}"
        cure = {
            "missing_wait": f"cp.async.wait_group by {thread}, whose copy is still in flight,",
            "missing_barrier": "bar.sync, or an arrival at an mbarrier and a wait for it,",
            "missing_proxy_fence": f"fence.proxy.async by {thread}, before the barrier or arrival,",
        }[kind]
        far = other // self.machine.padded != me // self.machine.padded
        if kind == "missing_barrier" and far:
            cure = (
                "barrier.cluster, or an arrival at an mbarrier and a wait for it, both of them in the cluster's scope,"
            )
        if kind == "missing_proxy_fence" and far:
            cure = f"fence.proxy.async::generic.release… by {thread}, before the barrier or arrival, and the half "
            cure += "that acquires, behind it, by the issuing thread,"
        self._add(kind, what, cure, hazard, f"async {later}", me, where, site, earlier, other, other_site)

    def _add(
        self,
        kind: str,
        message: str,
        cure: str,
        hazard: str,
        later: str,
        me: int,
        where: int,
        site: int,
        earlier: str,
        other: int | None,
        other_site: int,
    ) -> None:
        machine = self.machine
        first, second = machine.access(later, site, me), machine.access(earlier, other_site, other)
        name, offset = self.shared.place(where)
        span = (offset, offset + self.shared.cell_size)
        cure = f"{cure} {between(machine, other_site, site)}"
        machine.find(Finding(kind, message, first, second, hazard, "shared", name, span, cure))

    def _unwritten(self, me: int, where: int, site: int) -> None:
        name, offset = self.shared.place(where)
        message = "an asynchronous operation reads shared memory that was never written"
        span = (offset, offset + self.shared.cell_size)
        access = self.machine.access("async read", site, me)
        self.machine.find(Finding("uninitialised", message, access, space="shared", buffer=name, bytes=span))
