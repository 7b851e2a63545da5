"""Races of the tensormap proxy: tensor maps that a program makes itself (PTX ISA 8.3, 9.7.12.4 and 9.7.8.27).

A TMA copy reads its tensor map by a proxy of its own. A map in global memory that threads of the launch have written
may be used where these steps lie on the way, in this order:

    the write                 st, tensormap.replace; or tensormap.cp_fenceproxy, which is also the next step
    a fence of the writer     fence.proxy.tensormap::generic.release.SCOPE
    order                     a barrier, or a release and an acquire between CTAs
    a fence of the user       fence.proxy.tensormap::generic.acquire.SCOPE [map], 128; who uses it starts the copy

Missing order is `missing_barrier`, a missing fence `missing_proxy_fence`. Maps that are parameters, or that were in
memory before the launch, need nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...core.report import Finding
from ...core.scalars import Array
from ..tensor_map import MAP_SIZE

if TYPE_CHECKING:
    from .global_memory import GlobalRaces

Written = tuple[bytes, bytes]  # by which threads and when, cell by cell


class TensorMapRaces:
    """What is known of tensor maps in global memory. Threads are numbered through the grid."""

    def __init__(self, memory: GlobalRaces) -> None:
        self.memory = memory
        self.released: dict[int, dict[int, int]] = {}  # per thread and scope: the time of its last fence that releases
        self.acquired: dict[tuple[int, int], Written] = {}  # per thread and map: whose writes it has taken up

    def release(self, threads: Array, scope: int) -> None:
        """fence.proxy.tensormap::generic.release of these threads."""
        clocks = self.memory.clocks
        for thread in (threads + self.memory.base).tolist():
            self.released.setdefault(thread, {})[scope] = clocks.now
        clocks.tick()

    def acquire(self, thread: int, where: int, scope: int) -> None:
        """fence.proxy.tensormap::generic.acquire of a thread, for the map at an arena offset."""
        places, writers, stamps = self._written(where)
        late = any(self._late(thread, who, stamp) is not None for who, stamp in zip(writers, stamps, strict=True))
        if not late and all(self.memory.distance(thread, who) <= scope for who in writers):
            records = self.memory.writers
            key = thread + self.memory.base, where
            self.acquired[key] = records.thread[places].tobytes(), records.stamp[places].tobytes()

    def use(self, thread: int, where: int, site: int) -> None:
        """A copy of this thread uses the map at an arena offset."""
        places, writers, stamps = self._written(where)
        self.memory.read(np.full(len(places), thread), places, site, False)
        for who, stamp, place in zip(writers, stamps, self._changed(places), strict=True):
            late = self._late(thread, who, stamp)
            if late is not None:
                self._report(thread, place, site, who, late)
                return
        records = self.memory.writers
        written = records.thread[places].tobytes(), records.stamp[places].tobytes()
        if writers and self.acquired.get((thread + self.memory.base, where)) != written:
            fence = "fence.proxy.tensormap::generic.acquire.gpu [map], 128"
            cure = f"{fence} by the thread that starts the copy, behind what orders the two"
            self._report(thread, self._changed(places)[0], site, writers[0], cure)

    def _places(self, where: int) -> Array:
        cell_size = self.memory.cell_size
        places: Array = np.arange(where // cell_size, (where + MAP_SIZE) // cell_size)
        return places

    def _changed(self, places: Array) -> list[int]:
        changed: list[int] = places[self.memory.writers.thread[places] > 0].tolist()
        return changed

    def _written(self, where: int) -> tuple[Array, list[int], list[int]]:
        """The cells of a map, and the threads and times of those that have been written."""
        places = self._places(where)
        changed = self._changed(places)
        records = self.memory.writers
        return places, (records.thread[changed] - 1).tolist(), records.stamp[changed].tolist()

    def _late(self, thread: int, writer: int, stamp: int) -> str | None:
        """What a write lacks before this thread may use it in the tensormap proxy; None if it is order, of which the
        accesses themselves tell."""
        far = self.memory.distance(thread, writer)
        released = max((time for scope, time in self.released.get(writer, {}).items() if far <= scope), default=-1)
        behind = "" if released < 0 else " (its last one came before)"
        cure = f"fence.proxy.tensormap::generic.release.gpu by the writing thread{behind}, or tensormap.cp_fenceproxy"
        if released < stamp:
            return cure
        me, other = np.array([thread]), np.array([writer])
        if self.memory.ordered(me, other, np.array([released]))[0]:
            return None
        if self.memory.ordered(me, other, np.array([stamp]))[0]:
            return f"{cure}, before the order between the two"
        return "order behind the writing thread's fence: a barrier, or a release and an acquire"

    def _report(self, me: int, place: int, site: int, other: int, cure: str) -> None:
        memory = self.memory
        machine = memory.machine
        first = machine.access("read of a tensor map", site, me)
        second = machine.access("write", int(memory.writers.site[place]), other - memory.base)
        name, offset = machine.launch.globals.owner(place * memory.cell_size)
        message = "a copy uses a tensor map that a thread has written, and need not see it"
        span = (offset, offset + memory.cell_size)
        machine.find(Finding("missing_proxy_fence", message, first, second, "RAW", "global", name, span, cure))
