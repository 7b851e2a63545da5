"""Accesses to shared memory: bytes as bit masks, conflicts with accesses before, and which of those they supersede.

A mask has one bit for each `unit` bytes. The unit divides the size of every access of the text, and every access is
aligned to its size (else it is refused), so masks are exact.
"""

from __future__ import annotations

from minitile.proof.events import Access
from minitile.proof.state import State, Warp
from minitile.proof.text import Refused


def span(unit: int, start: int, size: int, line: int, align: int = 0) -> int:
    """The units of `size` bytes at `start`."""
    align = align or size
    if start % align or size % unit or start % unit:
        raise Refused(line, f"misaligned: {size} bytes at {start}, by {align}")
    return ((1 << size // unit) - 1) << start // unit


def access(
    state: State,
    warp: Warp,
    line: int,
    *,
    write: bool,
    asynchronous: bool,
    shares: tuple[tuple[int, int], ...],
    barriers: int,
    outside: int,
    group: bool = False,
    begun: int = 0,
) -> int:
    """Records an access by lanes of a warp, each with its units; gives its id. Refused if anything that conflicts need
    not be complete. `barriers`: units that hold mbarriers; `outside`: those that are not the block's shared memory.
    `group`: it is one access of a warpgroup; `begun`: its id if another warp of it has recorded it."""
    units, lanes = 0, 0
    for lane, mine in shares:
        if write and units & mine:
            raise Refused(line, "two lanes write the same bytes")
        units |= mine
        lanes |= 1 << lane
    if units & barriers:
        raise Refused(line, "touches an mbarrier")
    if units & outside:
        raise Refused(line, "out of bounds of shared memory")
    if not write and units & ~state.written:
        raise Refused(line, "reads bytes that nothing has written")
    knows, by = warp.knows(lanes), (warp.number // 4 * 4 if group else warp.number, warp.pc)
    own = {event for event, _ in warp.own}
    kept = []
    for each in state.accesses:
        if each.units & units and (write or each.write):
            _ordered(each, warp, line, knows, own, shares, asynchronous)
        if not _superseded(each, knows, write, asynchronous, units, by, shares):
            kept.append(each)
    if begun:
        return begun
    event, fence = state.new(), 0 if asynchronous else state.new()
    state.accesses = [
        *kept,
        Access(event, fence, write, asynchronous, units, by, () if asynchronous else shares, line),
    ]
    if write:
        state.written |= units
    return event


def _ordered(
    each: Access,
    warp: Warp,
    line: int,
    knows: int,
    own: set[int],
    shares: tuple[tuple[int, int], ...],
    asynchronous: bool,
) -> None:
    if each.id & ~knows:
        if each.id not in own or asynchronous:
            raise Refused(line, f"races with line {each.line}: that need not be complete")
        for lane, mine in shares:
            for other, theirs in each.lanes:
                if lane != other and mine & theirs:
                    raise Refused(line, f"races with line {each.line}: lanes {lane} and {other} have not met")
    if asynchronous and not each.asynchronous and each.fence & ~knows:
        raise Refused(line, f"no proxy fence since line {each.line}")


def _superseded(
    each: Access,
    knows: int,
    write: bool,
    asynchronous: bool,
    units: int,
    mine: tuple[int, int],
    shares: tuple[tuple[int, int], ...],
) -> bool:
    """Whether all that must be ordered behind `each` must be ordered behind the new access, and then is behind both."""
    if each.units & ~units:
        return False
    same = each.by == mine and (asynchronous or each.lanes == shares)
    if write:  # it is ordered behind `each`, as _ordered has checked; a generic one needs its own thread's fence still
        return asynchronous or each.asynchronous or same
    return same and not each.write and (not asynchronous or not each.id & ~knows)


def fence(state: State, warp: Warp, lanes: int) -> None:
    """fence.proxy.async by these lanes: for their own generic accesses up to here."""
    for each in state.accesses:
        if each.by[0] == warp.number and not each.asynchronous:
            whose = sum(1 << lane for lane, _ in each.lanes)
            done = not each.id & ~warp.knows(whose) or any(event == each.id for event, _ in warp.own)
            if done and not whose & ~lanes and each.fence & ~warp.known and (each.fence, whose) not in warp.own:
                warp.did(each.fence, whose)
