"""The race model: finds conflicting accesses that nothing orders (PTX ISA 8.0, chapter 8).

The machine reports every access and every synchronisation to `RaceModel`, which keeps the clocks (`clocks.py`) and
hands accesses on to `shared_memory.py` and `global_memory.py`; these remember them (`shadow.py`) and add findings. Two
accesses to the same bytes conflict if one writes; they race unless one happens before the other, or both are strong
(atomic, volatile, relaxed, ...). What orders accesses:

    program order               within a thread
    bar.sync, barrier, bar.red  among the threads that arrive
    bar.warp.sync               among the named lanes (shfl, vote and mma order no memory)
    release/acquire, fences     through a strong access to the same place, in scopes that reach each other (`scopes.py`)
    cp.async                    its write happens when the issuing thread has waited for its group, not before

    mbarrier, barrier.cluster   arrivals with those who have waited for the phase
    the async proxy             see `async_proxy.py`

Threads are slots of the current batch; in global memory they are numbered through the whole grid.
"""

from __future__ import annotations

from collections.abc import ItemsView
from typing import TYPE_CHECKING

import numpy as np

from ...core.memory import SharedSpace
from ...core.scalars import SIZES, Array
from ..program import Program
from ..syntax import Instruction, Integer
from .async_clocks import AsyncClocks
from .async_proxy import AsyncRaces
from .barriers import BarrierPhases
from .clocks import Clocks, Row
from .global_memory import GlobalRaces
from .scopes import GPU, WEAK, Releases, scope_of
from .shared_memory import SharedRaces

if TYPE_CHECKING:
    from ..machine import Machine


def _access_size(ins: Instruction) -> tuple[str | None, int] | None:
    """(space or None for any, bytes) of the smallest piece of memory that an instruction may touch."""
    name = ins.name
    if name in ("ldmatrix", "stmatrix"):
        return "shared", 2 if "trans" in ins.mods else 4
    if name == "tcgen05":
        return ("shared", 4) if ins.mods[0] == "alloc" else None
    if name == "cp" and ins.mods[:1] == ("async",):
        size = ins.operands[2] if len(ins.operands) > 2 else None
        return None, size.value if isinstance(size, Integer) else 16
    if name not in ("ld", "st", "ldu", "atom", "red"):
        return None
    lanes = next((int(mod[1:]) for mod in ins.mods if mod in ("v2", "v4", "v8")), 1)
    space = next(
        (mod for mod in ins.mods if mod in ("global", "const", "shared", "shared::cta", "local", "param")), None
    )
    space = {"shared::cta": "shared", "const": "global"}.get(space or "", space)
    return space, min(16, SIZES.get(ins.mods[-1], 1) * lanes)


def _is_async(ins: Instruction) -> bool:
    """Whether an instruction has to do with the async proxy, or with mbarriers."""
    return ins.name in ("wgmma", "mbarrier", "tcgen05") or "bulk" in ins.mods or "async" in ins.mods[1:]


def cells(program: Program) -> dict[str, int]:
    """The cell of shared and of global memory: the smallest access of the program."""
    smallest = {"shared": 16, "global": 16}
    for step in program.code:
        found = _access_size(step.ins)
        if found is not None:
            for space in smallest:
                if found[0] in (None, space):
                    smallest[space] = min(smallest[space], found[1])
    return smallest


class Sites:
    """What each instruction does, by its index: `scope` of its strong access (`WEAK`: none), whether it `releases` and
    `acquires` by itself. `narrow`: there are strong accesses that do not speak to all of the launch. `reach`: a scope
    as well, and .gpu for reductions by bulk copies, which are relaxed (PTX ISA 8.0, 9.7.8.24.7)."""

    def __init__(self, program: Program) -> None:
        code = [step.ins for step in program.code]
        self.strong = np.array([ins.is_strong for ins in code], bool)
        self.scope = np.array([scope_of(ins) if ins.is_strong else WEAK for ins in code], np.int8)
        bulk = np.array(["reduce" in ins.mods and "bulk" in ins.mods for ins in code], bool)
        self.reach = np.where(bulk, np.int8(GPU), self.scope)
        self.releases = np.array([not {"release", "acq_rel"}.isdisjoint(ins.mods) for ins in code], bool)
        self.acquires = np.array([not {"acquire", "acq_rel"}.isdisjoint(ins.mods) for ins in code], bool)
        accesses = np.array([ins.name in ("ld", "st", "atom", "red") for ins in code], bool)
        self.narrow = bool((self.strong & accesses & (self.scope < GPU)).any())

    def morally_strong(self, site: int, others: Array, far: Array) -> Array:
        """Whether a strong access and others so far away reach each other; False where one of them is weak."""
        result: Array = (far <= self.reach[others]) & (far <= self.reach[site])
        return result


class RaceModel:
    """One launch's race detection."""

    machine: Machine
    clocks: Clocks
    shared: SharedRaces
    phases: BarrierPhases

    def __init__(self, program: Program, global_size: int) -> None:
        self.sizes = cells(program)
        self.uses_async_proxy = any(_is_async(step.ins) for step in program.code)
        self.sites = Sites(program)
        bulky = np.array(["bulk" in step.ins.mods for step in program.code], bool)
        self.globals = GlobalRaces(global_size, self.sizes["global"], self.sites, bulky)
        self.now = 1
        self.rows: dict[object, Row] = {}
        self.flags: dict[tuple[str, int], Releases] = {}
        self.fenced: dict[int, dict[int, Row]] = {}  # per thread, by the scope of its fences
        self.heard: dict[int, dict[tuple[int, int], Row]] = {}  # per thread, by how far away it was released, and where

    def start_batch(self, machine: Machine, shared: SharedSpace) -> None:
        """New CTAs: fresh shared memory, fresh clocks; global memory remembers."""
        if hasattr(self, "clocks"):
            self.now = self.clocks.tick()
        self.machine = machine
        group = machine.launch.cluster_size
        domains, padded = machine.ctas // group, machine.padded * group
        async_clocks = AsyncClocks(domains, padded) if self.uses_async_proxy else None
        self.clocks = Clocks(machine.first // group, domains, padded, self.now, async_clocks)
        self.shared = SharedRaces(machine, shared, self.clocks, self.sizes["shared"], self.sites)
        self.phases = BarrierPhases(machine, self.clocks)
        self.globals.start_batch(machine, self.clocks)
        self.flags = {(space, place): all_ for (space, place), all_ in self.flags.items() if space == "global"}
        self.rows.clear()
        self.fenced.clear()
        self.heard.clear()

    # -- synchronisation -----------------------------------------------------------------------------------------------

    def barrier_all(self, ctas: Array) -> None:
        """All threads of these CTAs passed a barrier. What one of them has heard, a fence of any may now take up."""
        padded = self.machine.padded
        if padded == self.clocks.padded:
            self.clocks.all_of(ctas)
        else:  # a CTA of a cluster, whose other threads learn nothing
            for cta in ctas.tolist():
                everyone = np.arange(cta * padded, (cta + 1) * padded)
                self.clocks.acquire(everyone, self.clocks.release(everyone))
        if self.heard:
            for cta in ctas.tolist():
                threads = range(cta * padded, (cta + 1) * padded)
                rows: dict[tuple[int, int], Row] = {}
                for far, row in {id(row): (far, row) for t in threads for (far, _), row in self._heard(t)}.values():
                    _hear(rows, far, row)
                if rows:
                    self.heard.update({thread: dict(rows) for thread in threads})

    def warp_barrier(self, threads: Array, masks: Array) -> None:
        """bar.warp.sync."""
        self.clocks.warp(threads, masks)

    def arrive(self, key: object, threads: Array) -> None:
        """Threads of one CTA arrive at a synchronisation object (release)."""
        row = self.clocks.release(threads)
        if key in self.rows:
            self.rows[key].merge(row)
        else:
            self.rows[key] = row

    def join(self, key: object, threads: Array) -> None:
        """Threads of one CTA leave a completed synchronisation object (acquire), which starts afresh."""
        row = self.rows.pop(key, None)
        if row is not None and len(threads):
            self.clocks.acquire(threads, row)

    def fence(self, threads: Array, scope: int) -> None:
        """fence or membar: orders what was before it with strong accesses after it, and the reverse."""
        for thread in threads.tolist():
            one = np.array([thread])
            self.acquire(one, scope)
            self._fence(thread, scope, self.clocks.release(one))

    def acquire(self, threads: Array, scope: int) -> None:
        """What these threads heard through strong reads is acquired, where the scope reaches whom it is from."""
        if not self.heard:
            return
        for thread in threads.tolist():
            far = {}
            for (distance, domain), row in self.heard.pop(thread, {}).items():
                if distance <= scope:
                    self.clocks.acquire(np.array([thread]), row)
                else:
                    far[distance, domain] = row
            if far:
                self.heard[thread] = far

    def release(self, threads: Array, scope: int) -> None:
        """What these threads know goes with their next strong writes, wherever those are."""
        for thread in threads.tolist():
            self._fence(thread, scope, self.clocks.release(np.array([thread])))

    def _fence(self, thread: int, scope: int, row: Row) -> None:
        wider = {each: known for each, known in self.fenced.get(thread, {}).items() if each > scope}
        self.fenced[thread] = {scope: row, **wider}

    def cta(self, thread: int) -> int:
        """The position in the launch of a thread's CTA."""
        return self.machine.first + thread // self.machine.padded

    def published(self, thread: int, scope: int) -> list[tuple[int, Row]]:
        """(scope, row) of the thread's fences, as far as a strong write of this scope speaks of them."""
        return [(min(each, scope), row.copy()) for each, row in self.fenced.get(thread, {}).items()]

    def hear(self, thread: int, found: list[tuple[int, Row]]) -> None:
        """A thread has read what was released, so far away: an acquire of its may take that up."""
        known = self.heard.setdefault(thread, {})
        for far, row in found:
            _hear(known, far, row)

    def _heard(self, thread: int) -> ItemsView[tuple[int, int], Row]:
        return self.heard.get(thread, {}).items()

    def _strong_write(self, space: str, threads: Array, where: Array, site: int, replaces: bool) -> None:
        """Strong writes; `replaces` those that do not read what was there: it is not released any more, but for what
        the same thread has released there (PTX ISA: "observation order")."""
        releases, scope = self.sites.releases[site], int(self.sites.scope[site])
        if not (self.fenced or self.flags or releases):
            return
        for thread, place in zip(threads.tolist(), where.tolist(), strict=True):
            known = self.flags.get((space, place))
            me = thread + self.machine.first * self.machine.padded
            if known is not None and replaces and known.writer != me:
                del self.flags[space, place]
                known = None
            if known is None and not releases and thread not in self.fenced:
                continue
            if known is None:
                known = self.flags[space, place] = Releases()
            known.writer = me
            for each, row in self.published(thread, scope):
                known.add(self.cta(thread), each, row)
            if releases:
                known.add(self.cta(thread), scope, self.clocks.release(np.array([thread])))

    def _strong_read(self, space: str, threads: Array, where: Array, site: int) -> None:
        if not self.flags:
            return
        scope, cluster = int(self.sites.scope[site]), self.machine.launch.cluster_size
        for thread, place in zip(threads.tolist(), where.tolist(), strict=True):
            known = self.flags.get((space, place))
            if known is None:
                continue
            found = known.heard(self.cta(thread), scope, cluster)
            if self.sites.acquires[site]:
                for _, row in found:
                    self.clocks.acquire(np.array([thread]), row)
            else:
                self.hear(thread, [(far, row.copy()) for far, row in found])

    # -- accesses -----------------------------------------------------------------------------------------------------

    def read(self, space: str, threads: Array, where: Array, size: int, site: int, strong: bool) -> None:
        """Threads read `size` bytes at arena offsets `where`."""
        if space == "shared":
            self.machine.clusters.reach(where, threads, site)
            self.shared.read(*_spread(threads, where, size, self.shared.cell_size), site, strong)
        elif space == "global":
            self.globals.read(*_spread(threads, where, size, self.globals.cell_size), site, strong)
        if strong:
            self._strong_read(space, threads, where, site)

    def write(
        self, space: str, threads: Array, where: Array, size: int, site: int, strong: bool, pending: bool = False
    ) -> None:
        """Threads write; a pending write is made by an async engine and ends with `async_done`."""
        if space == "shared" and not pending:
            self.machine.clusters.reach(where, threads, site)
        if strong:
            self._strong_write(space, threads, where, site, replaces=True)
            self._update(space, threads, where, size, site, reads=False)
        elif space == "shared":
            self.shared.write(*_spread(threads, where, size, self.shared.cell_size), site, pending)
        elif space == "global":
            self.globals.write(*_spread(threads, where, size, self.globals.cell_size), site)

    def atomic(self, space: str, threads: Array, where: Array, size: int, site: int) -> None:
        """Threads read and write in one step."""
        if space == "shared":
            self.machine.clusters.reach(where, threads, site)
        if self.sites.releases[site] or self.fenced or self.flags:
            for index in range(len(threads)):  # one after the other: each may hear those before it
                one, place = threads[index : index + 1], where[index : index + 1]
                self._strong_read(space, one, place, site)
                self._strong_write(space, one, place, site, replaces=False)
        self._update(space, threads, where, size, site, reads=True)

    def _update(self, space: str, threads: Array, where: Array, size: int, site: int, reads: bool) -> None:
        ctas = threads // self.machine.padded
        if self.sites.narrow and ctas[0] != ctas[-1]:  # CTA by CTA, so that each meets those before it
            for cta in np.unique(ctas):
                self._update(space, threads[ctas == cta], where[ctas == cta], size, site, reads)
            return
        if space == "shared":
            self.shared.update(*_spread(threads, where, size, self.shared.cell_size), site, reads)
        elif space == "global":
            self.globals.update(*_spread(threads, where, size, self.globals.cell_size), site)

    @property
    def proxy(self) -> AsyncRaces:
        """The model of the async proxy, which is there if the program has such instructions."""
        assert self.shared.async_proxy is not None
        return self.shared.async_proxy

    def async_done(self, space: str, threads: Array, where: Array, size: int) -> None:
        """The issuing threads have waited: their pending writes count as made by them now."""
        self.shared.done(*_spread(threads, where, size, self.shared.cell_size))


def _hear(heard: dict[tuple[int, int], Row], far: int, row: Row) -> None:
    """Add a row to those by distance and CTA. Rows in there are shared between threads, and never change."""
    known = heard.get((far, row.cta))
    if known is None:
        heard[far, row.cta] = row
    elif known is not row:
        heard[far, row.cta] = known.copy()
        heard[far, row.cta].merge(row)


def _spread(threads: Array, where: Array, size: int, cell_size: int) -> tuple[Array, Array]:
    """Accesses of `size` bytes as accesses of single cells."""
    pieces = size // cell_size
    first = where // cell_size
    if pieces <= 1:
        return threads, first
    return np.repeat(threads, pieces), (first[:, None] + np.arange(pieces)).ravel()
