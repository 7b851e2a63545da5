"""What a workgroup knows of others: releases, atomics that carry them, acquires (LLVM, "User Guide for AMDGPU Backend",
"Memory Model gfx942", of which gfx950 has the same; CDNA3 ISA, BUFFER_WBL2 and BUFFER_INV).

    release   a wave's `buffer_wbl2 sc1`, once it has been waited for (vmcnt): what the wave has issued before it, and
              what other waves had done when they passed a barrier that this one has passed
    publish   an atomic, or a store with sc1, leaves in its place all that its wave knew to be released when it was
              issued
    hear      an atomic, or a load with sc1, that comes to such a place later, once it has been waited for
    acquire   `buffer_inv sc1` behind that: what was heard is known
    barrier   what one wave of the workgroup knows, or has released, all know

Who has heard at a place has also come there behind the operations that it found, whatever it has acquired: they are
over, in this one place.

Without sc1 both instructions are for the workgroup alone and do nothing here. The releases of a workgroup are numbered;
knowing the nth is knowing all in front of it. What a wave knows is the number of releases of each other workgroup.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...core.scalars import Array, Sel

if TYPE_CHECKING:
    from ..machine import Machine

VectorClock = dict[int, int]  # of each workgroup of the grid, how many of its releases


class Release(NamedTuple):
    """By wave `who` (of the grid, + 1) when it had arrived at `passed` barriers, and issued what has a smaller
    `ticket`."""

    who: int
    passed: int
    ticket: int


class Visibility:
    """The workgroups of one launch. `used`: whether the program releases anything at all."""

    def __init__(self, used: bool) -> None:
        self.used = used
        self.releases: defaultdict[int, list[Release]] = defaultdict(list)
        self.places: dict[int, VectorClock] = {}  # by address, what atomics have left there
        # By address and wave (of the grid, + 1): how many operations are under way there, and when the last one came.
        self.under_way: Counter[tuple[int, int]] = Counter()
        self.landed: dict[tuple[int, int], int] = {}
        self.time = 0

    def start_batch(self, machine: Machine) -> None:
        """New workgroups, which know nothing."""
        self.machine = machine
        self.known: list[VectorClock] = [{} for _ in range(machine.waves)]
        self.heard: list[VectorClock] = [{} for _ in range(machine.waves)]
        self.released: list[VectorClock] = [{} for _ in range(machine.waves)]
        # By address, when what it has heard of came there.
        self.came: list[VectorClock] = [{} for _ in range(machine.waves)]

    def group(self, wave: int) -> int:
        """The workgroup of the grid that a wave of the batch is of."""
        return self.machine.first + int(self.machine.group[wave])

    # -- what happens --------------------------------------------------------------------------------------------------

    def release(self, sel: Sel, ticket: int) -> list[Release]:
        """Waves write back: a release of each, to be completed when it has been waited for."""
        m = self.machine
        first = m.first * m.per_group + 1
        return [Release(first + wave, int(m.passed[wave]), ticket) for wave in m.wave[sel].tolist()]

    def complete(self, release: Release) -> None:
        """A wave has waited for its release."""
        wave = release.who - 1 - self.machine.first * self.machine.per_group
        group = self.group(wave)
        self.releases[group].append(release)
        join(self.released[wave], self.known[wave])
        join(self.released[wave], {group: len(self.releases[group])})

    def issue(self, wave: int, addresses: list[int], tells: bool) -> VectorClock:
        """A wave issues an operation; what it will leave in these places if it `tells`."""
        who = self.machine.first * self.machine.per_group + wave + 1
        self.under_way.update((address, who) for address in addresses)
        return dict(self.released[wave]) if tells else {}

    def meet_at(self, wave: int, address: int, clock: VectorClock, replaces: bool) -> VectorClock:
        """An operation comes to a place: what it finds there, and leaves its own; a store `replaces` it."""
        self.time += 1
        key = address, self.machine.first * self.machine.per_group + wave + 1
        self.landed[key] = self.time
        self.under_way[key] -= 1
        found = self.places.get(address, {})
        if clock or (replaces and found):
            self.places[address] = clock if replaces else joined(found, clock)
        return found

    def hear(self, wave: int, clock: VectorClock, came: VectorClock) -> None:
        """A wave has waited for an operation that found this, in places to which it came at these times."""
        join(self.heard[wave], clock)
        join(self.came[wave], came)

    def acquire(self, sel: Sel) -> None:
        """Waves drop what their caches hold."""
        for wave in self.machine.wave[sel].tolist() if self.used else ():
            join(self.known[wave], self.heard[wave])

    def barrier(self, waves: Array) -> None:
        """Waves of a workgroup have met."""
        if not self.used:
            return
        for clocks in (self.known, self.released, self.came):
            together: VectorClock = {}
            for wave in waves.tolist():
                join(together, clocks[wave])
            for wave in waves.tolist() if together else ():
                clocks[wave] = dict(together)

    # -- what is known -------------------------------------------------------------------------------------------------

    def knows(self, waves: Array, who: Array, marks: Array, tickets: Array, pending: int) -> Array:
        """Of accesses by waves `who` (of the grid, + 1), with their marks and tickets: which are known to `waves`."""
        result = np.zeros(len(waves), bool)
        if not self.used:
            return result
        per_group = self.machine.per_group
        pairs, inverse = np.unique(np.stack([waves, who], 1), axis=0, return_inverse=True)
        inverse = inverse.ravel()
        for number, (wave, other) in enumerate(pairs.tolist()):
            group = (other - 1) // per_group
            count = self.known[wave].get(group, 0) if other else 0
            if not count:
                continue
            told = self.releases[group][:count]
            passed = max(each.passed for each in told)
            ticket = max((each.ticket for each in told if each.who == other), default=-1)
            mine = inverse == number
            result[mine] = (marks[mine] != pending) & ((marks[mine] <= passed) | (tickets[mine] < ticket))
        return result

    def came_behind(self, waves: Array, addresses: Array, who: Array) -> Array:
        """Of operations that carry releases, by waves `who` (of the grid, + 1) at these addresses: behind which of them
        `waves` have come there."""
        keys = [*zip(addresses.tolist(), who.tolist(), strict=True)]
        came = [self.came[wave].get(at, 0) for wave, (at, _) in zip(waves.tolist(), keys, strict=True)]
        behind = [0 < self.landed.get(key, 0) <= mine for key, mine in zip(keys, came, strict=True)]
        return np.array(
            [is_behind and not self.under_way[key] for is_behind, key in zip(behind, keys, strict=True)], bool
        )


def join(clock: VectorClock, other: VectorClock) -> None:
    """`clock` knows what `other` does, too."""
    for group, count in other.items():
        if clock.get(group, 0) < count:
            clock[group] = count


def joined(a: VectorClock, b: VectorClock) -> VectorClock:
    both = dict(a)
    join(both, b)
    return both
