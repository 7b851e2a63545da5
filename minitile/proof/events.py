"""What instructions leave behind: accesses to shared memory, products under way, barriers. An event's id is one bit.

A thread whose set of known ids has an access's `id` is ordered behind its completion. A generic access has a second id,
`fence`: known to threads that are ordered behind a proxy fence which the accessing thread has executed since
(docs/memory.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True, eq=False)
class Footprint:
    """Units of shared memory (memory.Memory), a bit for each; the share of each lane; `clash`: two lanes share a unit;
    `one`: all have the same share. Made once for each content, so compared by identity."""

    units: int
    lanes: int
    shares: tuple[tuple[int, int], ...]
    clash: bool
    number: int
    one: bool = False


@dataclass(frozen=True, slots=True)
class Access:
    """`fence`: 0 for one of the async proxy only. `foot`: what it covers. `by`: warp and pc. `atomic`: two such do not
    conflict; `adds`: what it adds to the word, if that is known. `ticket`: those by which each lane has a place of its
    own (tickets.py)."""

    id: int
    fence: int
    write: bool
    asynchronous: bool
    foot: Footprint
    by: tuple[int, int]
    line: int
    atomic: bool = False
    adds: int = 0
    ticket: tuple[int, int, int, tuple[tuple[int, int, int], ...]] | None = None

    def named(self, event: int, fence: int) -> Access:
        """The same under other names."""
        return self if event == self.id and fence == self.fence else Access(event, fence, *self._what(self.foot))

    def over(self, foot: Footprint) -> Access:
        """The same of other bytes."""
        return Access(self.id, self.fence, *self._what(foot))

    def _what(self, foot: Footprint) -> tuple[Any, ...]:
        """All that it is but for its names."""
        return (
            *(self.write, self.asynchronous, foot, self.by, self.line),
            *(self.atomic, self.adds, self.ticket),
        )


@dataclass(frozen=True, slots=True)
class Product:
    """A wgmma of a warp: id of its reads; registers as bits: accumulators, and fragments of A; shape and list of
    accumulators, within which products follow each other by themselves; `waits`: those that the warps of its warpgroup
    had passed."""

    ids: int
    accumulators: int
    fragments: int
    form: tuple[str, str]
    waits: int = 0


@dataclass(frozen=True, slots=True)
class MBarrier:
    """An mbarrier in phase `index`.

    last, before: ids of the completion of the phases index-1 and index-2 (of the initialisation at first). fence: id
    of fence.mbarrier_init. expects: (id, bytes) of expect_tx not yet drawn by copies. released: what the arrivals of
    this phase know; done: the same of the phase before. waits: (id, phase, pc) of waits that passed.
    bare: ids of this phase's expect_tx that were no arrivals. by: the thread that has initialised it.
    """

    count: int
    pending: int
    last: int
    before: int
    fence: int
    index: int = 0
    expects: tuple[tuple[int, int], ...] = ()
    released: int = 0
    done: int = 0
    waits: tuple[tuple[int, int, int], ...] = ()
    bare: int = 0
    by: int = 0


@dataclass(frozen=True, slots=True)
class NamedBarrier:
    """bar.sync and bar.arrive of one number: threads it is for, warps that have arrived and those of them that wait.
    `kind`: the reduction that it makes."""

    threads: int = 0
    arrived: int = 0
    waiting: int = 0
    released: int = 0
    last: int = 0
    kind: str = ""


__all__ = ["Access", "Footprint", "MBarrier", "NamedBarrier", "Product", "replace"]
