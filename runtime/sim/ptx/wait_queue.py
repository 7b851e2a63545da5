"""Threads that wait for something other than a CTA barrier: an mbarrier's phase, a cluster, a warpgroup's other warps.

A thread that would poll is put to sleep instead and woken when what it waits for has changed; so the simulator never
spins. When no thread can run, asynchronous copies land (`BulkCopies.force`); when that changes nothing either, sleeping
polls time out, as the hardware's may (PTX ISA 8.0, 9.7.12.15.16: try_wait waits for a system-dependent time), and the
program goes on with the answer "not yet". A program that does nothing else with that is deadlocked.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..core.scalars import Array

if TYPE_CHECKING:
    from .machine import Machine

_TIMEOUTS = 64  # rounds of polls without any progress that make a deadlock


@dataclass(slots=True, eq=False)
class Waiter:
    """Threads asleep at instruction `pc`. `check()` says whether they may go on, `wake(done)` gives them their result;
    `times_out` says that they may also go on without. `describe()` tells a deadlock report what they wait for."""

    pc: int
    threads: Array
    check: Callable[[], bool]
    wake: Callable[[bool], None]
    describe: Callable[[], str]
    times_out: bool = False


class WaitQueue:
    """All sleeping threads of a batch, by what they wait for."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.queued: dict[Hashable, list[Waiter]] = {}
        self.progress = 0  # grows with every change that a waiting thread could see
        self.seen = 0
        self.rounds = 0

    def __bool__(self) -> bool:
        return any(self.queued.values())

    def add(self, key: Hashable, waiter: Waiter) -> None:
        """Put threads to sleep until `changed(key)` finds them ready."""
        self.queued.setdefault(key, []).append(waiter)

    def changed(self, key: Hashable) -> None:
        """Something happened to what `key` names: wake those who are ready."""
        self.progress += 1
        waiters = self.queued.get(key)
        if not waiters:
            return
        ready = [each for each in waiters if each.check()]
        self.queued[key] = [each for each in waiters if each not in ready]
        for each in ready:
            self._release(each, True)

    def _release(self, waiter: Waiter, done: bool) -> None:
        waiter.wake(done)
        self.machine.barriers.released.append((waiter.pc + 1, waiter.threads))

    def stall(self) -> bool:
        """No thread can run. Whether something could be done about it."""
        if not self:
            return False
        if self.machine.bulk.force({key for key, waiters in self.queued.items() if waiters}):
            return True
        late = [each for waiters in self.queued.values() for each in waiters if each.times_out]
        if self.progress != self.seen:
            self.rounds, self.seen = 0, self.progress
        self.rounds += 1
        if not late or self.rounds > _TIMEOUTS:
            return False
        for key, waiters in self.queued.items():
            self.queued[key] = [each for each in waiters if not each.times_out]
        for each in late:
            self._release(each, False)
        return True

    def all(self) -> list[Waiter]:
        """Everybody, for a deadlock report."""
        return [each for waiters in self.queued.values() for each in waiters]


def one_domain(threads: Array, padded: int) -> list[Array]:
    """Sorted threads, split into those of each CTA (or cluster) of `padded` slots."""
    groups = threads // padded
    if groups[0] == groups[-1]:
        return [threads]
    return np.split(threads, np.flatnonzero(np.diff(groups)) + 1)
