"""Bulk copies: what cp.async.bulk and TMA have in flight (PTX ISA 8.0, 9.7.8.24 and 9.7.8.25).

Copies into shared memory complete on an mbarrier, copies out of it in bulk groups of the issuing thread. A `Load` has
taken its bytes when it was issued, and lands in one step: bytes into memory, then the count to the barrier. A `Store`
reads shared memory late, when a wait of its thread forces it to, and writes global memory later still; so a thread
that overwrites the source too early changes the result. When things happen depends on the launch's schedule: at once
(eager), when no thread can run or a wait forces it (lazy), or at any time between (random).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np

from ...core.report import Finding
from ...core.scalars import Array
from ...core.updates import UPDATES
from ..race.clocks import Row
from ..race.scopes import CLUSTER
from .mbarrier import MBarrier

if TYPE_CHECKING:
    from ..machine import Machine

Combine = Callable[[Array, Array], Array]


def combine_by(name: str, dtype: np.dtype[np.generic]) -> Combine:
    """old, new -> result on arrays of unsigned words that hold elements of `dtype`; 16-bit floats add in single."""
    function = UPDATES[name]
    half = dtype in (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))

    def combine(old: Array, new: Array) -> Array:
        a, b = np.ascontiguousarray(old).view(dtype), np.ascontiguousarray(new).view(dtype)
        if half:
            return function(a.astype(np.float32), b.astype(np.float32)).astype(dtype).view(old.dtype)
        return function(a, b).astype(dtype).view(old.dtype)

    return combine


@dataclass(slots=True, eq=False)
class Load:
    """Bytes on their way to shared memory: pieces of `width` at arena offsets `where`; `size` counts on `barrier`.

    A load without bytes is an arrival that waits for something (`action`), as cp.async.mbarrier.arrive does. `release`:
    the issuing thread's CTA and what it knew then, of which those hear who wait for the barrier (st.async).
    """

    barrier: MBarrier
    where: Array
    data: Array
    size: int
    thread: int
    site: int
    column: int = 0
    step: int = 0
    combine: Combine | None = None
    action: Callable[[], None] | None = None
    ready: Callable[[], bool] | None = None
    width: int = 16
    release: tuple[int, Row] | None = None


@dataclass(slots=True, eq=False)
class Store:
    """Rows of shared memory at `where` on their way to global memory: elements of `item` bytes at offsets `target`."""

    thread: int
    group: int
    site: int
    where: Array
    target: Array
    inside: Array
    item: int
    combine: Combine | None = None
    data: Array = field(default_factory=lambda: np.zeros(0, np.uint8))
    taken: bool = False
    landed: bool = False


class BulkCopies:
    """The bulk copies in flight of a batch."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.schedule = machine.launch.schedule
        self.loads: list[Load] = []
        self.stores: list[Store] = []
        self.commits: dict[int, int] = {}  # per thread: its committed groups

    # -- copies that complete on an mbarrier ----------------------------------------------------------------------

    def load(self, load: Load) -> None:
        """A copy is on its way."""
        self.loads.append(load)
        if self.schedule == "eager":
            self.land([load])

    def land(self, loads: list[Load]) -> None:
        """These copies arrive, and their barriers count it."""
        machine = self.machine
        for load in loads:
            self.loads.remove(load)
            if len(load.where):
                word, lanes = min(load.width, 8), max(load.width // 8, 1)
                rows, view = load.where // load.width, machine.spaces["shared"].arena.view(word, lanes)
                new = load.data.view(f"u{word}").reshape(-1, lanes)
                view[rows] = new if load.combine is None else load.combine(view[rows], new)
            if load.action is not None:
                load.action()
            if load.release is not None:
                load.barrier.current.add(load.release[0], CLUSTER, load.release[1])
            if load.size:
                load.barrier.transactions -= load.size
                machine.mbarriers.settle(load.barrier)

    def force(self, keys: set[Hashable]) -> bool:
        """No thread can run: land what the waiting threads wait for, else anything. Whether there was something."""
        wanted = [load for load in self.loads if load.barrier.key in keys] or self.loads
        chosen = [load for load in wanted if load.ready is None or load.ready()] or wanted
        if self.schedule == "random" and len(chosen) > 1:
            kept = self.machine.launch.rng.random(len(chosen)) < 0.5
            chosen = [load for load, keep in zip(chosen, kept, strict=True) if keep] or chosen[:1]
        self.land(list(chosen))
        return bool(chosen)

    def postpone(self, barrier: MBarrier) -> None:
        """The barrier's phase has completed without some copies that were to complete in it: they do so later."""
        race = self.machine.race
        for load in self.loads:
            if load.barrier is barrier and load.step == barrier.serial and race is not None:
                load.step += 1
                assert race.shared.async_proxy is not None
                cells = race.shared.cells(load.where, load.width)
                race.shared.async_proxy.postpone(cells, load.column, load.step - 1, load.step)

    # -- copies in bulk groups --------------------------------------------------------------------------------------

    def store(self, store: Store) -> None:
        """A copy out of shared memory has been issued."""
        self.stores.append(store)
        if self.schedule == "eager":
            self.finish(store)

    def take(self, store: Store) -> None:
        """A store reads its source."""
        if not store.taken:
            store.data = self.machine.spaces["shared"].arena.view(8, 2)[store.where // 16].view(np.uint8).ravel()
            store.taken = True

    def finish(self, store: Store) -> None:
        """A store writes its destination."""
        self.take(store)
        if store.landed:
            return
        store.landed = True
        values = store.data.view(f"u{store.item}")[store.inside]
        rows = store.target[store.inside] // store.item
        view = self.machine.spaces["global"].arena.view(store.item, 1)[:, 0]
        view[rows] = values if store.combine is None else store.combine(view[rows], values)

    def group(self, thread: int) -> int:
        """The number of a thread's open group."""
        return self.commits.get(thread, 0)

    def commit(self, threads: Array) -> None:
        """Close the current group of each thread."""
        for thread in threads.tolist():
            self.commits[thread] = self.commits.get(thread, 0) + 1

    def wait(self, threads: Array, keep: int, only_read: bool) -> None:
        """Threads wait for all of their groups but the latest `keep`, or for these groups' reads of shared memory."""
        race = self.machine.race
        for thread in threads.tolist():
            limit = self.commits.get(thread, 0) - keep
            for store in self.stores:
                if store.thread == thread and store.group < limit:
                    self.take(store)
                    if not only_read:
                        self.finish(store)
                        self._visible(store)
            if race is not None and limit > 0:
                async_clocks = race.clocks.async_clocks
                assert async_clocks is not None
                column = async_clocks.engine(thread // race.clocks.padded, ("bulk", thread))
                async_clocks.complete(np.array([thread]), column, limit)
        self.stores = [store for store in self.stores if not (store.landed and self._is_visible(store))]

    def _visible(self, store: Store) -> None:
        """The issuing thread has waited: what the store wrote counts as written by it now."""
        race = self.machine.race
        if race is None:
            return
        if store.inside.any():
            race.globals.finish(store.thread, store.target[store.inside], store.site, store.combine is not None)
        store.group = -1

    def _is_visible(self, store: Store) -> bool:
        return self.machine.race is None or store.group < 0

    def reducing(self, place: int, cell_size: int) -> Store:
        """A reduction without a wait so far, which updates this cell of global memory."""
        return next(
            store
            for store in self.stores
            if store.combine is not None and (store.target[store.inside] // cell_size == place).any()
        )

    # -- time -------------------------------------------------------------------------------------------------------

    def drift(self) -> None:
        """Under schedule "random": some of what is in flight happens now."""
        rng = self.machine.launch.rng
        for load in [each for each in self.loads if each.ready is None or each.ready()]:
            if load in self.loads and rng.random() < 0.1:
                self.land([load])
        for store in self.stores:
            if not store.landed and rng.random() < 0.1:
                self.take(store)
                if rng.random() < 0.5:
                    self.finish(store)

    def exit_threads(self, threads: Array) -> None:
        """Threads end: stores of theirs that may still read shared memory are an error, since it may be gone."""
        who = set(threads.tolist()) if self.stores else set()
        for store in self.stores:
            if store.thread not in who or self.machine.race is None or store.group < 0:
                continue
            async_clocks = self.machine.race.clocks.async_clocks
            assert async_clocks is not None
            column = async_clocks.engine(store.thread // self.machine.race.clocks.padded, ("bulk", store.thread))
            if async_clocks.matrix[store.thread, column] <= store.group:
                message = "the thread ends while this copy may still read its shared memory"
                cure = "cp.async.bulk.wait_group.read 0 by the thread before it ends"
                access = self.machine.access("async read", store.site, store.thread)
                self.machine.find(Finding("missing_wait", message, access, space="shared", cure=cure))

    def end(self) -> None:
        """The batch is over: everything lands. A load without a wait may land in memory of others."""
        for load in self.loads:
            if load.size:
                message = "the CTA has ended while this copy into its shared memory is in flight"
                cure = "a wait for the phase of its mbarrier (mbarrier.try_wait) before the CTA ends"
                access = self.machine.access("async write", load.site, load.thread)
                self.machine.find(Finding("missing_wait", message, access, space="shared", cure=cure))
        for store in self.stores:
            self.finish(store)
            self._visible(store)
        self.stores = []
