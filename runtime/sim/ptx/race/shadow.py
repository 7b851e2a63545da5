"""Shadow memory: who last wrote each cell of memory, and who has read it or updated it atomically since.

A cell is the smallest access size that the program uses in a space (1 to 16 bytes), so that no two accesses share
a cell without overlapping. Writers are (thread + 1, stamp, site), 0 meaning none. Strong writes (atomics,
volatile, relaxed) do not conflict with each other, so they are no "last writer" but past accesses, as readers are; a
plain write ends the past accesses. Of past accesses the last access of each thread is kept, since each is ordered, or
fenced, by itself:

  * in shared memory (`WarpRecords`) an entry per cell and warp with the lanes it stands for; lanes of different
    entries have a row, with one each;
  * in global memory (`GridRecords`) one thread; or, after unordered ones of one CTA, a row of such entries; or, after
    those of several CTAs, only the last of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...core.scalars import Array, every, lanes_of, some
from ...core.sparse import zeros

SEVERAL = -1  # in place of a CTA: several CTAs
PENDING = np.int64(1 << 40)  # the stamp of an asynchronous write without a wait so far
_LANE, _STAMP = 24, 32  # an entry's bits: the site, from here the lane, from here the stamp
_MANY = 63  # in place of a lane: several
_BITS = np.uint32(1) << np.arange(32, dtype=np.uint32)

Known = Callable[[Array, Array, Array], Array]  # (positions, lanes, stamps): `Clocks.covers` of those accesses


class PastAccesses(NamedTuple):
    """Accesses that are recorded of some cells: to which of them (the position), by which thread, when, by what."""

    at: Array
    thread: Array
    stamp: Array
    site: Array


NOBODY = PastAccesses(*(np.zeros(0, np.int64) for _ in PastAccesses._fields))


class Writers:
    """The last plain writer of each cell."""

    def __init__(self, cells: int) -> None:
        self.thread = zeros(cells, np.int32)
        self.stamp = zeros(cells, np.int64)
        self.site = zeros(cells, np.int32)

    def accesses(self, where: Array) -> PastAccesses:
        """Those to cells `where`."""
        at = np.flatnonzero(self.thread[where])
        place = where[at]
        return PastAccesses(at, self.thread[place].astype(np.int64) - 1, self.stamp[place], self.site[place])


class Rows:
    """Which rows of a growing table are in use. Row 0 belongs to none."""

    def __init__(self) -> None:
        self.count = 1
        self.free: list[int] = []

    def used(self) -> bool:
        """Whether any row is."""
        return self.count > 1 + len(self.free)

    def take(self, wanted: int) -> Array:
        """So many rows; the table must then have `count`."""
        if wanted > len(self.free):
            more = max(wanted, self.count)
            self.free.extend(range(self.count, self.count + more))
            self.count += more
        taken = np.array(self.free[len(self.free) - wanted :], np.int32)
        del self.free[len(self.free) - wanted :]
        return taken

    def give(self, rows: Array) -> None:
        """These are free again."""
        self.free.extend(rows.tolist())


def _grown(table: Array, rows: int) -> Array:
    """A table with zeros behind, so that it has this many rows."""
    return np.concatenate([table, np.zeros((rows - len(table), *table.shape[1:]), table.dtype)])


class WarpRecords:
    """The accesses to cells by each of the `warps` warps of a CTA since the last plain write, by cell and warp:
    the entry of the last one, 0 for none: stamp, site, and lane; or MANY lanes, of which there is a mask then. The
    entry is that of each of them, unless there is a row with their own ones."""

    def __init__(self, cells: int, warps: int) -> None:
        self.warps = warps
        self.entry = np.zeros(cells * warps, np.int64)
        self.lanes = np.zeros(cells * warps, np.uint32)
        self.row = np.zeros(cells * warps, np.int32)
        self.rows = Rows()
        self.own = np.zeros((1, 32), np.int64)

    def grow(self, cells: int) -> None:
        """Room for so many cells."""
        size = cells * self.warps
        self.entry, self.lanes, self.row = (_grown(table, size) for table in (self.entry, self.lanes, self.row))

    def record(self, where: Array, thread: Array, now: int, site: int, known: Known) -> None:
        """Remember accesses to cells `where` by threads of the CTA. What a warp has done before gives way if the
        new access stands for it (`known`)."""
        key, lane = where * self.warps + thread // 32, thread % 32
        entry = (now << _STAMP) + (lane << _LANE) + site
        old = self.entry[key]
        self.entry[key] = entry
        alone = ((old == 0) | (old >> _LANE & 0xFF == lane)) & (self.entry[key] == entry)
        if not every(alone):
            self._several(key, lane, old, (now << _STAMP) + (_MANY << _LANE) + site, known)

    def _several(self, key: Array, lane: Array, old: Array, entry: int, known: Known) -> None:
        """Several lanes have accessed some cells. `entry` is for where that is so, `old` what was there before."""
        before = self._lanes(key, old)
        self.lanes[key] = 0
        np.bitwise_or.at(self.lanes, key, _BITS[lane])
        left = before & ~self.lanes[key]
        alike = (left != 0) & ((old | _MANY << _LANE) == entry)
        if self.rows.used():
            alike &= self.row[key] == 0
        self.lanes[key[alike]] |= left[alike]
        stay = np.flatnonzero((left != 0) & ~alike)
        if len(stay):
            stay = stay[~known(stay, left[stay], old[stay] >> _STAMP)]
        if self.rows.used():
            self._drop(key[~np.isin(key, key[stay])])
        if len(stay):
            keys, first = np.unique(key[stay], return_index=True)
            self._apart(keys, left[stay[first]], old[stay[first]])
            row = self.row[key]
            self.own[row[row > 0], lane[row > 0]] = entry
        self.entry[key[self.lanes[key] != _BITS[lane]]] = entry

    def _apart(self, key: Array, left: Array, old: Array) -> None:
        """Give rows to those that have none, for lanes that were `left` with their old entries."""
        self.lanes[key] |= left
        fresh = self.row[key] == 0
        rows = self.row[key[fresh]] = self.rows.take(int(fresh.sum()))
        if len(self.own) < self.rows.count:
            self.own = _grown(self.own, self.rows.count)
        self.own[rows] = old[fresh, None]

    def _lanes(self, key: Array, entry: Array) -> Array:
        """The lanes, as masks, that entries stand for."""
        lane = entry >> _LANE & 0xFF
        masks: Array = np.where(lane == _MANY, self.lanes[key], _BITS[lane & 31] * (entry != 0))
        return masks

    def since(self, where: Array, reached: Array) -> PastAccesses:
        """The accesses to cells `where`, by threads of the CTA, but for those of warps whose last one was before
        `reached`, stamps that go with an array [cells, warps]."""
        entry = self.entry.reshape(-1, self.warps)[where]
        late = entry >= np.maximum(reached << _STAMP, 1)
        if not some(late):
            return NOBODY
        at, warp = np.nonzero(late)
        key = where[at] * self.warps + warp
        entry = entry[at, warp]
        index, lane = lanes_of(self._lanes(key, entry))
        each, key = entry[index], key[index]
        if self.rows.used():
            row = self.row[key]
            each = np.where(row > 0, self.own[row, lane], each)
        return PastAccesses(at[index], warp[index] * 32 + lane, each >> _STAMP, each & ((1 << _LANE) - 1))

    def forget(self, where: Array) -> None:
        """A plain write has ended these records."""
        if self.rows.used():
            self._drop((where[:, None] * self.warps + np.arange(self.warps)).ravel())
        self.entry.reshape(-1, self.warps)[where] = 0

    def _drop(self, key: Array) -> None:
        """Give the rows back."""
        key = np.unique(key[self.row[key] > 0])
        self.rows.give(self.row[key])
        self.row[key] = 0


class GridRecords:
    """The accesses to global memory since the last plain write; threads and CTAs are numbered through the grid. CTAs
    have `padded` threads."""

    def __init__(self, cells: int, padded: int) -> None:
        self.padded = padded
        self.thread = zeros(cells, np.int32)  # the last one, + 1
        self.stamp = zeros(cells, np.int64)
        self.site = zeros(cells, np.int32)
        self.cta = zeros(cells, np.int32)  # 0: one thread; else the CTA + 1 of several, or SEVERAL
        self.row = zeros(cells, np.int32)  # in `sets of past accesses`, of several threads of one CTA
        self.rows = Rows()
        self.past = WarpRecords(1, padded // 32)
        self.marks = zeros(cells, bool)

    def record(self, where: Array, me: Array, now: int, site: int, passed: Callable[[], Array], known: Known) -> None:
        """Remember accesses by grid threads `me`. `passed()` tells which of them stand for all recorded before."""
        entry = (me + 1).astype(np.int32)
        last, many = self.thread[where], self.cta[where]
        fresh = (last == 0) | ((last == entry) & (many == 0))
        if not every(fresh):
            fresh |= passed()
        self.thread[where] = entry
        alone = self.thread[where] == entry
        if not every(alone):  # several threads of one instruction: what is true of one cell is so for each of them
            fresh, alone = self._everywhere(where, fresh), self._everywhere(where, alone)
        if every(fresh & alone):
            self._drop(where)
            self.cta[where] = 0
        else:
            mine = self._several(where, me, last, many, fresh, alone)
            if some(mine):
                at = np.flatnonzero(mine)
                self.past.record(
                    self.row[where[at]], me[at] % self.padded, now, site, lambda some, *what: known(at[some], *what)
                )
        self.stamp[where] = now
        self.site[where] = site

    def _everywhere(self, where: Array, true: Array) -> Array:
        """What is true of all accesses to the same cell."""
        self.marks[where] = True
        self.marks[where[~true]] = False
        result: Array = self.marks[where]
        return result

    def _several(self, where: Array, me: Array, last: Array, many: Array, fresh: Array, alone: Array) -> Array:
        """Several threads have accessed some cells: by earlier instructions (not `fresh`) or by this one (not
        `alone`). Returns which accesses belong in a row, which is there then."""
        mine = (me // self.padded + 1).astype(np.int32)
        strange = (self.thread[where] - 1) // self.padded + 1 != mine
        strange |= ~fresh & ((many == SEVERAL) | ((last - 1) // self.padded + 1 != mine))
        self.cta[where] = np.where(fresh & alone, 0, mine)
        self.cta[where[strange]] = SEVERAL
        near = self.cta[where] > 0
        self._drop(where[~near | fresh])
        if not some(near):
            return near
        places, first = np.unique(where[near], return_index=True)
        bare = self.row[places] == 0
        places, first = places[bare], np.flatnonzero(near)[first[bare]]
        rows = self.row[places] = self.rows.take(len(places))
        if len(self.past.row) < self.rows.count * self.past.warps:
            self.past.grow(self.rows.count)
        old = ~fresh[first]
        places, rows, thread = places[old], rows[old], last[first[old]].astype(np.int64) - 1
        key = rows * self.past.warps + thread % self.padded // 32
        self.past.entry[key] = (self.stamp[places] << _STAMP) + (thread % 32 << _LANE) + self.site[places]
        return near

    def accesses(self, where: Array) -> PastAccesses:
        """Those to cells `where`; where they are by several CTAs, the last one."""
        last, row = self.thread[where].astype(np.int64), self.row[where]
        at = np.flatnonzero((last > 0) & (row == 0))
        place = where[at]
        single = PastAccesses(at, last[at] - 1, self.stamp[place], self.site[place])
        at = np.flatnonzero(row)
        if not len(at):
            return single
        past = self.past.since(row[at], np.zeros(1, np.int64))
        at = at[past.at]
        past = PastAccesses(at, (last[at] - 1) // self.padded * self.padded + past.thread, past.stamp, past.site)
        order = np.argsort(np.concatenate([single.at, past.at]), kind="stable")
        return PastAccesses(*(np.concatenate(pair)[order] for pair in zip(single, past, strict=True)))

    def only(self, where: Array, me: int) -> bool:
        """Whether all those to cells `where` are by one grid thread."""
        return bool(((self.thread[where] == me + 1) & (self.cta[where] == 0)).all())

    def forget(self, where: Array) -> None:
        """A plain write has ended these records."""
        self._drop(where)
        self.thread[where] = 0
        self.cta[where] = 0

    def _drop(self, where: Array) -> None:
        """Give the rows back."""
        if not self.rows.used():
            return
        where = np.unique(where[self.row[where] > 0])
        self.past.forget(self.row[where])
        self.rows.give(self.row[where])
        self.row[where] = 0
