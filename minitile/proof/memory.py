"""Accesses to shared memory: bytes as bit masks, conflicts with accesses before, and which of those they supersede.

A mask has one bit for each `unit` bytes. The unit divides the size of every access of the text, and every access is
aligned to its size (else it is refused), so masks are exact.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import Any

from minitile.proof.arithmetic.values import Among
from minitile.proof.events import Access, Footprint
from minitile.proof.state import ALL, State, Warp, lanes_in
from minitile.proof.text import Fault, Refused
from minitile.proof.tickets import Tickets, apart, spoil, superseded


class _Meeting(dict[int, bool]):
    """Whether a footprint of these units shares one with the footprint of a number, of those that there are."""

    def __init__(self, units: int, feet: list[Footprint]) -> None:
        super().__init__()
        self.units, self.feet = units, feet

    def __missing__(self, number: int) -> bool:
        found = self[number] = bool(self.feet[number].units & self.units)
        return found


class Memory:
    """Footprints by content, so that they compare by identity. `arrays`: where they begin, and their bytes. `outside`:
    units that are of none. `draws`: registers that may hold tickets."""

    def __init__(self, unit: int, arrays: Iterable[tuple[int, int]], draws: frozenset[str] = frozenset()) -> None:
        self.unit, self.draws = unit, draws
        self.outside, self.end = -1, 0
        for begin, size in arrays:
            self.end = max(self.end, begin + size)
            first, last = -(-begin // unit), (begin + size) // unit
            self.outside &= ~(((1 << max(last - first, 0)) - 1) << first)
        self.known: dict[tuple[tuple[int, int], ...], Footprint] = {}
        self.feet: list[Footprint] = []  # by number
        self.unions: dict[tuple[int, int], Footprint] = {}
        self.made: dict[tuple[tuple[int, ...], int, int, str], Footprint] = {}
        self.places: dict[tuple[Among, int], int] = {}
        self.guesses: dict[tuple[Any, int, int, int], Footprint] = {}  # by value, offset, size and lanes
        self.met: dict[int, _Meeting] = {}
        self.barriers: dict[tuple[int, ...], int] = {}

    def span(self, start: int, size: int, line: int, align: int = 0) -> int:
        """The units of `size` bytes at `start`."""
        align = align or size
        if start % align or size % self.unit or start % self.unit:
            raise Fault(line, f"misaligned: {size} bytes at {start}, by {align}")
        if start + size > self.end:
            raise Fault(line, "out of bounds of shared memory")
        return ((1 << size // self.unit) - 1) << start // self.unit

    def anywhere(self, places: Among, size: int, line: int) -> int:
        """The units of `size` bytes at each of these addresses, of 32 bits."""
        units = self.places.get((places, size))
        if units is None:
            units = 0
            for n in range(places.count):
                units |= self.span((places.low + n * places.step) % (1 << 32), size, line)
            self.places[places, size] = units
        return units

    def of(self, shares: tuple[tuple[int, int], ...]) -> Footprint:
        """The footprint in which each lane has its units."""
        if shares not in self.known:
            units, lanes, clash = 0, 0, False
            for lane, mine in shares:
                clash |= bool(units & mine)
                units |= mine
                lanes |= 1 << lane
            one = {mine for _, mine in shares} == {units}
            self.known[shares] = Footprint(units, lanes, shares, clash, len(self.feet), one)
            self.feet.append(self.known[shares])
        return self.known[shares]

    def by_lane(self, addresses: tuple[int, ...], size: int, lanes: int, line: int, rows: str = "") -> Footprint:
        """`size` bytes by each of these lanes. `rows`: of matrices, which these lanes name: "read": each lane of the
        warp reads them all; "parts", "columns": each lane writes its elements, along a row or down a column."""
        key = addresses, size, lanes, rows
        if key not in self.made:
            shares = tuple((n, self.span(addresses[n], size, line)) for n in lanes_in(lanes))
            self.made[key] = self.of(self._of_matrices(shares, line, rows) if rows else shares)
        return self.made[key]

    def _of_matrices(self, named: tuple[tuple[int, int], ...], line: int, rows: str) -> tuple[tuple[int, int], ...]:
        """What each lane accesses of rows of 16 bytes (PTX ISA, "stmatrix"): of row r of a matrix, lanes 4·r to 4·r + 3
        write 4 bytes each; of a transposed one, lanes r / 2, r / 2 + 4, … 2 bytes each."""
        total = reduce(or_, (row for _, row in named), 0)
        if rows == "read":
            return tuple((n, total) for n in range(32))
        if total.bit_count() < sum(row.bit_count() for _, row in named):
            raise Fault(line, "two lanes write the same bytes")
        shares, size = [0] * 32, 4 if rows == "parts" else 2
        for name, row in named:
            begin, mine = (row & -row).bit_length() - 1, (1 << size // self.unit) - 1
            for n in range(16 // size):
                lane = 4 * (name % 8) + n if rows == "parts" else 4 * n + name % 8 // 2
                shares[lane] |= mine << begin + n * size // self.unit
        return tuple(enumerate(shares))

    def union(self, a: Footprint, b: Footprint) -> Footprint:
        key = a.number, b.number
        found = self.unions.get(key)
        if found is None:
            other = dict(b.shares)
            found = self.unions[key] = self.of(tuple((lane, mine | other[lane]) for lane, mine in a.shares))
        return found

    def meeting(self, accesses: list[Access], foot: Footprint) -> list[Access]:
        """Those of the accesses that share a unit with a footprint."""
        known = self.met.get(foot.number)
        if known is None:
            known = self.met[foot.number] = _Meeting(foot.units, self.feet)
        return [each for each in accesses if known[each.foot.number]]

    def of_barriers(self, addresses: tuple[int, ...]) -> int:
        """The units of mbarriers at these addresses."""
        if addresses not in self.barriers:
            total = 0
            for at in addresses:
                total |= ((1 << 8 // self.unit) - 1) << at // self.unit
            self.barriers[addresses] = total
        return self.barriers[addresses]

    def access(
        self,
        state: State,
        warp: Warp,
        line: int,
        foot: Footprint,
        *,
        write: bool,
        asynchronous: bool = False,
        either: bool = False,
        copy: bool = False,
        begun: int = -1,
        same: bool = False,
        atomic: bool = False,
        adds: int = 0,
        ticket: Tickets | None = None,
    ) -> int:
        """Records an access; gives its id. Refused if anything that conflicts need not be complete.

        `asynchronous`: by the async proxy. `either`: by that or the generic proxy, whichever asks for more.
        `copy`: by cp.async: of the generic proxy, but not complete at once.
        `begun`: for a product of a warpgroup, its id if another warp of it has recorded it, else 0. `same`: what lanes
        write to the same bytes is the same. `atomic`: two such do not conflict; `adds`, `ticket`: as in Access.
        """
        units, lanes = foot.units, ALL if begun >= 0 else foot.lanes
        if ticket and any(word & units for word, _, _ in ticket[3]):
            ticket = None
        if write and foot.clash and not same and not atomic and not apart(ticket, ticket):
            raise Fault(line, "two lanes write the same bytes")
        if state.mbarriers and units & self.of_barriers(tuple(state.mbarriers)):
            raise Fault(line, "touches an mbarrier")
        if units & self.outside:
            raise Fault(line, "out of bounds of shared memory")
        if not write and units & ~state.written:
            raise Fault(line, "reads bytes that nothing has written")
        knows, by = warp.knows(lanes), (warp.number // 4 * 4 if begun >= 0 else warp.number, warp.pc)
        near = self.meeting(state.accesses, foot)
        for each in near:
            if (write or each.write) and not (atomic and each.atomic):
                unordered = each.id & ~knows or (asynchronous and each.fence & ~knows)
                if unordered and not (ticket and apart(ticket, each.ticket)):
                    _ordered(each, warp, line, knows, foot, asynchronous)
            elif atomic and each.adds not in (0, adds) and each.id & ~knows:
                raise Refused(line, f"changes a word while line {each.line} need not have drawn from it")
        if write:
            if self.draws:
                spoil(state, self.draws, units, adds)
                near = self.meeting(state.accesses, foot)  # some of which are without tickets now
            state.written |= units
            if state.contents:
                state.contents = {at: value for at, value in state.contents.items() if not at & units}
        if begun > 0:
            return begun
        # Accesses of one kind between which the warp hands nothing on are one event.
        kind = (write, copy, lanes)
        event = (
            0 if asynchronous or atomic or ticket else next((event for each, event in warp.fresh if each == kind), 0)
        )
        old = next((each for each in reversed(state.accesses) if each.id == event), None) if event else None
        if old is not None:
            new = old.over(self.union(old.foot, foot))
            near = near if new.foot is foot else self.meeting(state.accesses, new.foot)
        else:
            event = state.new()
            new = Access(
                event,
                0 if asynchronous and not either else state.new(),
                write,
                asynchronous,
                foot,
                by,
                line,
                atomic,
                adds,
                ticket,
            )
            if not asynchronous and not atomic and not ticket:
                warp.fresh = (*(each for each in warp.fresh if each[0] != kind), (kind, event))
        gone = [
            each
            for each in near
            if each is old
            or (
                (each.by == new.by or (write and (asynchronous or each.asynchronous))) and _superseded(each, knows, new)
            )
        ]
        place = 0
        for each in gone:  # in their order
            while state.accesses[place] is not each:
                place += 1
            del state.accesses[place]
        state.accesses.append(new)
        return event


def _ordered(each: Access, warp: Warp, line: int, knows: int, foot: Footprint, asynchronous: bool) -> None:
    if each.id & ~knows:
        if asynchronous or not any(each.id == event for event, _ in warp.own):
            raise Fault(line, f"races with line {each.line}: that need not be complete")
        for lane, mine in foot.shares:
            for other, theirs in each.foot.shares:
                if lane != other and mine & theirs:
                    raise Fault(line, f"races with line {each.line}: lanes {lane} and {other} have not met")
    if asynchronous:  # else it is known with its fence
        raise Fault(line, f"no proxy fence since line {each.line}")


def _superseded(each: Access, knows: int, new: Access) -> bool:
    """Whether all that must be ordered behind `each` must be ordered behind the new access, and then is behind both."""
    if (new.atomic and not (each.atomic and each.by == new.by)) or not superseded(each, new):
        return False  # other atomics conflict with `each`, not with the new one
    fenced = each.asynchronous and not each.fence  # it asks for no fence
    same = each.by == new.by and (new.asynchronous or each.foot.lanes == new.foot.lanes)
    if (
        new.write
    ):  # it is ordered behind `each`, as _ordered has checked; a generic one needs its own thread's fence still
        if not (new.asynchronous or fenced or same):
            return False
    elif not same or each.write or (new.asynchronous and each.id & ~knows):
        return False
    if each.foot.units & ~new.foot.units:
        return False
    return new.asynchronous or each.asynchronous or _each_share(each.foot, new.foot)


def _each_share(old: Footprint, new: Footprint) -> bool:
    """Whether each lane's share is within the same lane's new one."""
    shares = dict(new.shares)
    return old is new or all(not mine & ~shares.get(lane, 0) for lane, mine in old.shares)


def fence(state: State, warp: Warp, lanes: int) -> None:
    """fence.proxy.async by these lanes: for their own generic accesses up to here that are complete."""
    for each in state.accesses:
        if each.by[0] == warp.number and each.fence:
            whose = each.foot.lanes
            done = not each.id & ~warp.knows(whose) or any(event == each.id for event, _ in warp.own)
            if done and not whose & ~lanes and each.fence & ~warp.known and (each.fence, whose) not in warp.own:
                warp.did(each.fence, whose)
