"""Races in global memory: every access against the last plain write and what has come since, through the whole grid.

    waves of a workgroup        ordered as in LDS (see lds.py): the first access is over (vmcnt) before a barrier
    anything else               not ordered, except by a release, an atomic that carries it and an acquire
                                (visibility.py)

Vector memory operations of one wave are in order. Atomic operations, and loads and stores that pass the caches (sc1),
do not conflict with each other. Scalar loads are not checked: their cache is not coherent with stores of the same
kernel, and compilers use them for what is never written.

Of plain writes the last is enough: whatever is in order behind it is so behind all that it was in order with. Accesses
that do not conflict with each other, of which each counts, are sets of past accesses: plain reads, atomic writes, sc1
reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...core.fixes import ONE_THREAD
from ...core.report import HAZARDS, Finding
from ...core.scalars import Array, Sel
from ...core.sparse import zeros
from .lds import PENDING
from .shadow_cells import Cells, Over
from .visibility import VectorClock, Visibility, join

if TYPE_CHECKING:
    from ..machine import Machine

_FAR = PENDING  # the mark of what another workgroup has done: no count of barriers reaches it


class Clash(NamedTuple):
    """An access that is not in order behind a recorded one: where in the list of accesses, and that of whom."""

    at: int
    who: int  # wave of the grid + 1
    site: int
    mark: int


@dataclass(slots=True, eq=False)
class Flight:
    """The accesses of one instruction that are not over, and that no plain write has followed."""

    cells: Array
    who: Array
    place: Array
    site: int
    ticket: int
    low: int  # no cell is below
    high: int  # or above

    def take(self, mine: Array) -> tuple[Array, Array]:
        """The cells and waves of some accesses, which are here no longer."""
        cells, who = self.cells, self.who
        if mine.all():
            self.cells = self.cells[:0]
            return cells, who
        cells, who, left = cells[mine], who[mine], ~mine
        self.cells, self.who, self.place = self.cells[left], self.who[left], self.place[left]
        return cells, who


def _span(cells: Array) -> tuple[int, int]:
    """The first and the last of these cells."""
    return (int(cells.min()), int(cells.max())) if len(cells) else (0, -1)


class PastAccesses:
    """Accesses since the last plain write that do not conflict with each other. Those in flight are a list. Those that
    are over are, for each cell, two: the one with the highest mark, and that with the highest mark of other waves.
    Who knows the highest mark knows all accesses; for the wave that made it itself, the other one decides. An access
    by a second workgroup counts as the highest mark of all, since who has not acquired does not know both."""

    who: Array
    mark: Array
    site: Array
    ticket: Array  # in the order of issue
    other: Array
    other_mark: Array
    other_site: Array
    other_ticket: Array
    other_over: Array  # its mark among its own workgroup
    names = ("who", "mark", "site", "ticket", "other", "other_mark", "other_site", "other_ticket", "other_over")

    def __init__(self, races: GlobalRaces, strong: bool = False) -> None:
        self.races = races
        self.strong = strong  # whether the accesses carry releases
        self.flights: list[Flight] = []
        self.used = False  # whether anything is recorded below, which is made for the first access that is over

    def _use(self) -> None:
        self.used = True
        count = len(self.races.writer)
        for name in self.names:
            setattr(self, name, zeros(count, np.int32))

    def split(self, factor: int) -> None:
        """Cells become smaller."""
        for name in self.names if self.used else ():
            setattr(self, name, np.repeat(getattr(self, name), factor))
        for flight in self.flights:
            flight.cells = (flight.cells[:, None] * factor + np.arange(factor)).ravel()
            flight.low, flight.high = flight.low * factor, flight.high * factor + factor - 1
            flight.who, flight.place = np.repeat(flight.who, factor), np.repeat(flight.place, factor)

    # -- what comes ----------------------------------------------------------------------------------------------------

    def begin(self, cells: Array, me: Array, place: Array) -> Over:
        """Waves `me` access cells; returns what to call, with positions, when they have waited for it."""
        flight = Flight(cells, me, place, self.races.machine.site, self.races.ticket(), *_span(cells))
        if len(cells):
            self.flights.append(flight)

        def over(done: Array) -> None:
            if not len(flight.cells):
                return
            chosen = np.zeros(max(int(flight.place.max()), int(done.max(initial=0))) + 1, bool)
            chosen[done] = True
            at, who = flight.take(chosen[flight.place])
            if not len(flight.cells):
                self.flights.remove(flight)
            if len(at):
                self._record(at, who, flight.site, flight.ticket)

        return over

    def _record(self, at: Array, who: Array, site: int, ticket: int) -> None:
        """These accesses are over."""
        if not self.used:
            self._use()
        races = self.races
        mark = races.machine.passed[who - 1 - races.base] + 1
        before = self.who[at]
        alone = (before == 0) | (before == who)
        if alone.all():
            self._lead(at, who, mark, site, ticket)
            alone = self.who[at] == who
            if alone.all():
                return
            left = np.flatnonzero(~alone)
        else:
            first = np.flatnonzero(alone)
            self._lead(at[first], who[first], mark[first], site, ticket)
            left = np.flatnonzero(self.who[at] != who)
        left = left[self.other_mark[at[left]] != _FAR]
        far = (self.who[at[left]] - 1) // races.per_group != (who[left] - 1) // races.per_group
        if far.any():
            some = left[far]
            self._follow(at[some], who[some], _FAR, site, ticket, mark[some])
            left = left[~far]
        left = left[self.other_mark[at[left]] < mark[left]]
        # Of what is left, a cell is accessed by waves of one workgroup: one after the other.
        local = who[left] % races.per_group
        for each in np.unique(local).tolist():
            some = left[local == each]
            self._join(at[some], who[some], mark[some], site, ticket)

    def _lead(self, at: Array, who: Array, mark: Array, site: int, ticket: int) -> None:
        self.who[at], self.mark[at], self.site[at], self.ticket[at] = who, mark, site, ticket

    def _follow(self, at: Array, who: Array, mark: Any, site: Any, ticket: Any, over: Array) -> None:
        self.other[at], self.other_mark[at], self.other_site[at] = who, mark, site
        self.other_ticket[at], self.other_over[at] = ticket, over

    def _join(self, at: Array, who: Array, mark: Array, site: int, ticket: int) -> None:
        """To each cell one wave comes, of the workgroup whose waves there are."""
        higher = mark >= self.mark[at]
        up = at[higher & (self.who[at] != who)]
        self._follow(up, self.who[up], self.mark[up], self.site[up], self.ticket[up], self.mark[up])
        self._lead(at[higher], who[higher], mark[higher], site, ticket)
        lower = ~higher & (mark > self.other_mark[at])
        self._follow(at[lower], who[lower], mark[lower], site, ticket, mark[lower])

    # -- what is checked -----------------------------------------------------------------------------------------------

    def clash(self, cells: Array, waves: Array, me: Array) -> Clash | None:
        """The first of these accesses that is not in order behind the past accesses."""
        found = self._landed(cells, waves, me) if self.used else None
        return found or self._flying(cells, me, forget=False)

    def forget(self, cells: Array, me: Array) -> None:
        """A plain write has ended these records."""
        if self.used:
            there = cells[self.who[cells] != 0]
            self.who[there] = 0
            self.other_mark[there] = 0
        self._flying(cells, me, forget=True)

    def _landed(self, cells: Array, waves: Array, me: Array) -> Clash | None:
        who = self.who[cells]
        if not who.any():
            return None
        races = self.races
        passed, mark, other_mark = races.machine.passed[waves], self.mark[cells], self.other_mark[cells]
        first = (who != me) & ((mark > passed) | ((who - 1) // races.per_group != (me - 1) // races.per_group))
        second = other_mark > passed
        bad = (first | second) & (who != 0)
        if not bad.any():
            return None
        sight = races.sight
        if sight.used:
            other, over = self.other[cells], self.other_over[cells]
            first &= ~sight.knows(waves, who, mark, self.ticket[cells], PENDING)
            apart = (other - 1) // races.per_group != (me - 1) // races.per_group
            second &= (other != me) & (apart | (over > passed))
            second &= ~sight.knows(waves, other, over, self.other_ticket[cells], PENDING)
            for each, by in ((first, who), (second, other)) if self.strong else ():
                at = np.flatnonzero(each)
                each[at] = ~self._behind(me[at], cells[at], by[at])
            bad = (first | second) & (who != 0)
            if not bad.any():
                return None
        index = int(bad.argmax())
        at = cells[index]
        if first[index]:
            return Clash(index, int(who[index]), int(self.site[at]), int(mark[index]))
        return Clash(index, int(self.other[at]), int(self.other_site[at]), int(other_mark[index]))

    def _behind(self, me: Array, cells: Array, who: Array) -> Array:
        """Whether waves `me` (-1: several, of whom that is not known) came to these cells behind the past accesses."""
        races = self.races
        result = me > 0
        at = np.flatnonzero(result)
        places = cells[at] * races.cell_size // 4 * 4
        result[at] = races.sight.came_behind(me[at] - 1 - races.base, places, who[at])
        return result

    def _flying(self, cells: Array, me: Array, forget: bool) -> Clash | None:
        """The first access that meets one of another wave in flight; or those to these cells are taken off the list."""
        if not self.flights or not len(cells):
            return None
        low, high = _span(cells)
        near = [each for each in self.flights if each.low <= high and each.high >= low]
        if not near:
            return None
        table = self.races.table()
        table[cells] = me
        table[cells[table[cells] != me]] = -1  # several waves
        found = None
        for flight in near:
            now = table[flight.cells]
            if forget:
                flight.take(now != 0)
                continue
            meets = np.flatnonzero((now != 0) & (now != flight.who))
            if self.strong and self.races.sight.used and len(meets):
                meets = meets[~self._behind(now[meets], flight.cells[meets], flight.who[meets])]
            if len(meets):
                at, who = flight.cells[meets[0]], flight.who[meets[0]]
                index = int(np.flatnonzero((cells == at) & (me != who))[0])
                found = Clash(index, int(who), flight.site, PENDING)
                break
        table[cells] = 0
        if forget:
            self.flights = [each for each in self.flights if len(each.cells)]
        return found


class GlobalRaces(Cells):
    """The global memory of one launch. Waves are numbered through the grid. `releases`: whether the program has any."""

    names = ("writer", "writer_mark", "writer_site", "writer_ticket")

    def __init__(self, size: int, cell_size: int, releases: bool = False) -> None:
        super().__init__(cell_size)
        self.sight = Visibility(releases)
        count = -(-size // cell_size) + 1
        self.writer = zeros(count, np.int32)
        self.writer_mark = zeros(count, np.int32)
        self.writer_site = zeros(count, np.int32)
        self.writer_ticket = zeros(count, np.int32)
        self.readers = PastAccesses(self)
        self.strong_writers, self.strong_readers = PastAccesses(self, strong=True), PastAccesses(self, strong=True)
        self.scratch: Array | None = None

    def start_batch(self, machine: Machine) -> None:
        """New workgroups; memory remembers."""
        self.machine = machine
        self.per_group = machine.per_group
        self.base = machine.first * machine.per_group
        self.sight.start_batch(machine)

    def write_back(self, sel: Sel) -> Over:
        """Waves release; what to call, with positions, when they have waited for it."""
        releases = self.sight.release(sel, self.ticket())

        def over(done: Array) -> None:
            for at in done.tolist():
                self.sight.complete(releases[at])

        return over

    def synchronises(self, sel: Sel, where: Array, size: int, lanes: Array | None, kind: str) -> tuple[Over, Over]:
        """Waves issue atomics ("update"), or loads and stores with sc1 ("load", "store"), that may carry a release;
        what to call, with positions, when they land and when they have been waited for."""
        sight, waves = self.sight, self.machine.wave[sel].tolist()
        places: list[list[int]] = []
        carried: list[VectorClock] = []
        for at, wave in enumerate(waves) if sight.used else ():
            mine = where[at] if lanes is None else where[at][lanes[at]]
            words = (mine.reshape(-1, 1) // 4 + np.arange(-(-size // 4))) * 4
            places.append(np.unique(words).tolist())
            carried.append(sight.issue(wave, places[at], kind != "load"))
        found: dict[int, VectorClock] = {}
        came: dict[int, VectorClock] = {}

        def land(done: Array) -> None:
            for at in done.tolist() if sight.used else ():
                for address in places[at]:
                    there = sight.meet_at(waves[at], address, carried[at], kind == "store")
                    if kind != "store":
                        join(found.setdefault(at, {}), there)
                        join(came.setdefault(at, {}), {address: sight.time})

        def over(done: Array) -> None:
            for at in done.tolist() if found else ():
                if at in found:
                    sight.hear(waves[at], found[at], came[at])

        return land, over

    def split(self, cell_size: int) -> None:
        """Make the cell smaller."""
        factor = self.cell_size // cell_size
        super().split(cell_size)
        self.scratch = None
        for past in (self.readers, self.strong_writers, self.strong_readers):
            past.split(factor)

    def table(self) -> Array:
        """A number for each cell, 0 between uses."""
        if self.scratch is None:
            self.scratch = zeros(len(self.writer), np.int32)
        return self.scratch

    # -- accesses ------------------------------------------------------------------------------------------------------

    def read(self, sel: Sel, where: Array, size: int, lanes: Array | None, strong: bool = False) -> Over:
        """Waves read; returns what to call, with positions, when they have waited for it."""
        cells, waves, place = self.spread(sel, where, size, lanes)
        me = (waves + self.base + 1).astype(np.int32)
        self._check_writer("RAW", cells, waves)
        if strong:
            return self.strong_readers.begin(cells, me, place)
        self._check(self.strong_writers, "RAW", cells, waves, me)
        return self.readers.begin(cells, me, place)

    def write(self, sel: Sel, where: Array, size: int, lanes: Array | None, strong: bool = False) -> Over:
        """Waves write, or (`strong`) read and write in one step."""
        cells, waves, place = self.spread(sel, where, size, lanes)
        me = (waves + self.base + 1).astype(np.int32)
        self._check_writer("WAW", cells, waves)
        self._check(self.readers, "WAR", cells, waves, me)
        if strong:
            return self.strong_writers.begin(cells, me, place)
        self._check(self.strong_readers, "WAR", cells, waves, me)
        self._check(self.strong_writers, "WAW", cells, waves, me)
        for past in (self.readers, self.strong_writers, self.strong_readers):
            past.forget(cells, me)
        ticket = self.ticket()
        lost = self.lost(cells)
        self.writer[cells] = me
        self.writer_mark[cells] = PENDING
        self.writer_site[cells] = self.machine.site
        self.writer_ticket[cells] = ticket
        if lost is not None:
            at = int(cells[lost[0]])
            self._report_lost(at, [(int(waves[n]), self.lane(n, where, size, lanes)) for n in lost])

        return self.ending("writer", ticket, cells, waves, place)

    # -- checks --------------------------------------------------------------------------------------------------------

    def _check_writer(self, hazard: str, cells: Array, waves: Array) -> None:
        other = self.writer[cells]
        if not other.any():
            return
        me, mark = waves + self.base + 1, self.writer_mark[cells]
        near = (other - 1) // self.per_group == (me - 1) // self.per_group
        ordered = near & (mark <= self.machine.passed[waves])
        ordered |= (other == me) | (other == 0)
        if self.sight.used and not ordered.all():
            ordered |= self.sight.knows(waves, other, mark, self.writer_ticket[cells], PENDING)
        bad = np.flatnonzero(~ordered)
        if len(bad):
            at, wave = int(cells[bad[0]]), int(waves[bad[0]])
            self._report(hazard, at, wave, int(other[bad[0]]) - 1, int(self.writer_site[at]), int(mark[bad[0]]))

    def _check(self, past: PastAccesses, hazard: str, cells: Array, waves: Array, me: Array) -> None:
        found = past.clash(cells, waves, me)
        if found:
            at, wave = int(cells[found.at]), int(waves[found.at])
            self._report(hazard, at, wave, found.who - 1, found.site, found.mark)

    def _report_lost(self, at: int, both: list[tuple[int, int]]) -> None:
        """Two lanes wrote one place with one instruction."""
        m = self.machine
        (wave, _), (other, _) = both
        if wave // m.per_group != other // m.per_group:
            self._report("WAW", at, wave, other + self.base, m.site, 0)
            return
        name, offset, _ = m.globals.owner(at * self.cell_size)
        message = "global memory: two threads write the same bytes with one instruction"
        one, second = (m.access("write", m.site, wave, lane) for wave, lane in both)
        span = (offset, offset + self.cell_size)
        m.find(Finding("missing_barrier", message, one, second, "WAW", "global", name, span, ONE_THREAD))

    def _report(self, hazard: str, at: int, wave: int, other: int, site: int, mark: int) -> None:
        m = self.machine
        later, earlier = HAZARDS[hazard]
        name, offset, _ = m.globals.owner(at * self.cell_size)
        near = other // m.per_group == (wave + self.base) // m.per_group
        if not near:
            kind = "missing_barrier"
            cure = (
                "workgroups of a launch are not ordered: by two launches, or a release (buffer_wbl2 sc1, waited for) "
                "and an atomic behind the first, an atomic that sees it and an acquire (buffer_inv sc1) there"
            )
        elif mark == PENDING:
            kind = "missing_wait"
            cure = "wait for vmcnt in the wave that made the first, then let both pass a barrier"
        else:
            kind = "missing_barrier"
            cure = "put a barrier between them, behind the wait for vmcnt"
        message = f"global memory: a {later} conflicts with an earlier {earlier}"
        first = m.access(later, m.site, wave)
        second = m.access(earlier, site, other - self.base)
        m.find(Finding(kind, message, first, second, hazard, "global", name, (offset, offset + self.cell_size), cure))
