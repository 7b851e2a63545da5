"""Who knows of whose past: the happens-before order among the threads of a batch.

Time is one counter `now` for the launch; it steps at every synchronisation. An access is stamped with `now`. A thread
"knows" another's accesses up to (not including) some stamp. These vector clocks are kept in three layers, so that the
common case costs nothing:

    floor[cta]         every thread of the CTA knows all of the CTA before this stamp (a barrier of all threads)
    lane[thread, l]    what it knows of lane l of the own warp (bar.warp.sync)
    peer[cta][t, u]    what t knows of thread u of the CTA (barriers of some threads, release/acquire); made when needed

A release (an arrival) puts what the arriving threads know, and their own past, into a `Row`; an acquire takes it over.
Rows also travel between CTAs (`far`): clocks of another CTA's threads, kept per thread that has acquired some.
CTAs of one cluster share a matrix: where this module says CTA, it means a cluster then, and `padded` counts all its
threads. Programs that use the async proxy have `async_clocks` of it too, which travels with the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ...core.scalars import Array, every, lanes_of, select, some
from .async_clocks import FOREVER, AsyncClocks, joined, learn

Far = dict[int, Array]  # CTA (number in the grid) to the stamps up to which its threads are known


@dataclass(slots=True)
class Row:
    """AsyncClocks on its way from releasing to acquiring threads: of the own CTA, and of others."""

    cta: int
    near: Array
    far: Far = field(default_factory=dict)
    extra: Array | None = None  # of the async proxy, for threads of the same CTA

    def copy(self) -> Row:
        """A row that merges without changing this one."""
        return Row(self.cta, self.near.copy(), dict(self.far), self.extra)

    def merge(self, other: Row) -> None:
        """Take in another release."""
        _merge(self.far, other.far)
        if other.cta == self.cta:
            self.near = np.maximum(self.near, other.near)
            if other.extra is not None:
                self.extra = other.extra if self.extra is None else joined(self.extra, other.extra)
        else:
            _merge(self.far, {other.cta: other.near})


def _merge(far: Far, more: Far) -> None:
    for cta, stamps in more.items():
        far[cta] = np.maximum(far[cta], stamps) if cta in far else stamps.copy()


class Clocks:
    """The vector clocks of all threads of one batch. CTAs are numbered within the batch, `first` is the first one."""

    def __init__(self, first: int, ctas: int, padded: int, now: int, async_clocks: AsyncClocks | None = None) -> None:
        self.first = first
        self.padded = padded
        self.now = now
        self.floor = np.zeros(ctas, np.int64)
        self.lane = np.zeros((ctas * padded, 32), np.int64)
        self.peer: dict[int, Array] = {}
        self.far: dict[int, Far] = {}
        self.async_clocks = async_clocks
        self.changes = 0  # so often has anybody come to know more

    def tick(self) -> int:
        """Time steps: later accesses get a later stamp."""
        self.now += 1
        return self.now

    def knows(self, me: Array, other: Array, stamp: Array) -> Array:
        """Whether each thread `me` knows the access that `other`, a thread of the same CTA, made at `stamp`."""
        cta = me // self.padded
        ok: Array = (me == other) | (stamp < self.floor[cta])
        if every(ok):
            return ok
        ok |= (me // 32 == other // 32) & (stamp < self.lane[me, other % 32])
        for each, matrix in self.peer.items():
            mine = (cta == each) & ~ok
            if some(mine):
                ok[mine] = stamp[mine] < matrix[me[mine] % self.padded, other[mine] % self.padded]
        return ok

    def knows_one(self, me: int, other: int, stamp: int) -> bool:
        """The same of one thread."""
        if me == other or stamp < self.floor[me // self.padded]:
            return True
        return bool(self.knows(np.array([me]), np.array([other]), np.array([stamp])).all())

    def covers(self, me: Array, lanes: Array, stamp: Array, memory: int) -> Array:
        """Whether an access of each thread stands for those that lanes of its own warp, a mask of them, have made to
        the same place at `stamp`: it knows of them, and of proxy fences behind them (`fenced`)."""
        ok: Array = stamp < self.floor[me // self.padded]
        doubtful = np.flatnonzero(~ok) if self.async_clocks is None else np.arange(len(ok))
        if len(doubtful):
            position, lane = lanes_of(lanes[doubtful])
            position = doubtful[position]
            each, other, when = me[position], me[position] // 32 * 32 + lane, stamp[position]
            known = self.knows(each, other, when) & self.fenced(each, other, when, memory)
            ok[doubtful] = True
            ok[position[~known]] = False
        return ok

    def fenced(self, me: Array, other: Array, stamp: Array, memory: int) -> Array:
        """Whether each thread knows that `other`, a thread of the same CTA, has fenced its access at `stamp` to this
        memory (`async_clocks.py`); so it is where nothing uses the async proxy."""
        if self.async_clocks is None:
            return np.ones(len(me), bool)
        fences = self.async_clocks.matrix[me, memory * self.padded + other % self.padded]
        ok: Array = stamp < fences
        return ok

    def knows_far(self, me: int, cta: int, thread: int, stamp: int) -> bool:
        """Whether a thread knows an access of thread `thread` of another CTA (numbered in the grid)."""
        stamps = self.far.get(me, {}).get(cta)
        return stamps is not None and stamp < int(stamps[thread])

    # -- synchronisation -----------------------------------------------------------------------------------------------

    def all_of(self, ctas: Array) -> None:
        """All threads of these CTAs have met."""
        self.changes += 1
        self.floor[ctas] = self.tick()
        if self.async_clocks is not None:
            for cta in ctas:
                self.async_clocks.meet(np.arange(cta * self.padded, (cta + 1) * self.padded))
        if self.far:
            for cta in ctas:
                self._share_far(np.arange(cta * self.padded, (cta + 1) * self.padded))

    def warp(self, threads: Array, masks: Array) -> None:
        """Lanes of a warp have met: each thread with the lanes of its mask."""
        self.changes += 1
        now = self.tick()
        named = (masks[:, None] >> np.arange(32, dtype=np.uint32) & np.uint32(1)) != 0
        self.lane[threads] = np.where(named, now, self.lane[threads])
        if not self.peer and not self.far and self.async_clocks is None:
            return
        for warp in np.unique(threads // 32):
            for mask in np.unique(masks[threads // 32 == warp]):
                group = threads[(threads // 32 == warp) & (masks == mask)]
                matrix = self.peer.get(int(group[0]) // self.padded)
                if matrix is not None:
                    rows = group % self.padded
                    matrix[rows] = matrix[rows].max(axis=0)
                if self.async_clocks is not None:
                    self.async_clocks.meet(group)
                self._share_far(group)

    def _share_far(self, threads: Array) -> None:
        """Threads that have met know what each of them knows of other CTAs."""
        known: Far = {}
        for thread in threads:
            _merge(known, self.far.get(int(thread), {}))
        if known:
            for thread in threads:
                self.far[int(thread)] = dict(known)

    def known(self, threads: Array) -> Array:
        """Per thread of the CTA: the stamp up to which one of these threads (of one CTA) knows it."""
        cta = int(threads[0]) // self.padded
        matrix = self.peer.get(cta)
        local = threads % self.padded
        near = np.full(self.padded, self.floor[cta], np.int64)
        if matrix is not None:
            np.maximum(near, matrix[select(local)].max(axis=0), out=near)
        lanes, warp = self.lane[select(threads)], local // 32
        first = np.flatnonzero(np.concatenate([[True], warp[1:] != warp[:-1]]))
        part = near.reshape(-1, 32)
        part[warp[first]] = np.maximum(part[warp[first]], np.maximum.reduceat(lanes, first, axis=0))
        return near

    def release(self, threads: Array) -> Row:
        """What these threads (of one CTA) know, themselves included. Steps time."""
        now = self.tick()
        cta = int(threads[0]) // self.padded
        near = self.known(threads)
        near[threads % self.padded] = now
        far: Far = {}
        if self.far:
            for thread in threads:
                _merge(far, self.far.get(int(thread), {}))
        extra = None if self.async_clocks is None else self.async_clocks.take(threads)
        return Row(self.first + cta, near, far, extra)

    def acquire(self, threads: Array, row: Row) -> None:
        """These threads (of one CTA) now know what the row says."""
        self.changes += 1
        cta = int(threads[0]) // self.padded
        far = dict(row.far)
        if row.cta == self.first + cta:
            matrix = self.peer.get(cta)
            if matrix is None:
                matrix = self.peer[cta] = np.zeros((self.padded, self.padded), np.int64)
            learn(matrix, threads % self.padded, row.near)
            if self.async_clocks is not None and row.extra is not None:
                self.async_clocks.give(threads, row.extra)
        else:
            _merge(far, {row.cta: row.near})
        if far:
            for thread in threads:
                _merge(self.far.setdefault(int(thread), {}), far)

    def common(self, threads: Array) -> Array:
        """Per thread of the CTA: the stamp up to which every one of these threads knows it; their own past is known
        to each of them alone."""
        cta, local = int(threads[0]) // self.padded, threads % self.padded
        matrix = self.peer.get(cta)
        known = np.zeros((len(threads), self.padded), np.int64) if matrix is None else matrix[local]
        lanes = (local // 32 * 32)[:, None] + np.arange(32)
        rows = np.arange(len(threads))[:, None]
        known[rows, lanes] = np.maximum(known[rows, lanes], self.lane[threads])
        known[rows[:, 0], local] = FOREVER
        row: Array = np.maximum(known.min(axis=0), self.floor[cta])
        return row
