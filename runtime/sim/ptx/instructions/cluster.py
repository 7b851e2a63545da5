"""Clusters: barrier.cluster, mapa, getctarank (PTX ISA 8.0, 9.7.12.3, 9.7.8.22, 9.7.8.23).

The CTAs of a cluster stand next to each other in a batch. An address in `shared::cluster` carries the rank of its CTA
from bit 24 on. The window shared::cta of a CTA is that part of it: the address of a variable has the own rank in it
(Machine.window). That is how CUTLASS finds the even CTA of a pair (include/cute/arch/copy_sm100_tma.hpp,
Sm100MmaPeerBitMask clears bit 24); the ISA itself only has mapa.

A CTA's shared memory is there until its threads have ended. A thread that accesses that of another CTA must be known,
by one of that CTA's threads, to have done so before the last of them ends (CUDA C++ Programming Guide, "Distributed
Shared Memory").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...core.memory import SharedSpace
from ...core.report import Finding
from ...core.scalars import DTYPES, Array, Sel
from ..operands import address, error, per_thread, read, write
from ..program import RANK_SHIFT, SHARED_WINDOW, Linker
from ..syntax import Address, Instruction, Register, Symbol
from ..table import Decoded, Handler, Kind, Outcome, instruction, whole_warp
from ..wait_queue import Waiter

if TYPE_CHECKING:
    from ..machine import Machine


@dataclass(slots=True)
class Meeting:
    """The barrier of one cluster: its phase, and which of its threads have arrived in it."""

    arrived: Array
    phase: int = 0


class Clusters:
    """The cluster barriers of a batch, and the accesses to other CTAs' shared memory: `reached` has for each CTA the
    threads of others, with the stamp and the instruction of their last one."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.padded = machine.padded * machine.launch.cluster_size
        clusters = machine.slots // self.padded
        self.meetings = [Meeting(np.zeros(self.padded, bool)) for _ in range(clusters)]
        self.target = np.zeros(machine.slots, np.int64)  # the phase that each thread has arrived for, + 1
        self.inside = np.zeros(machine.slots, bool)  # has arrived and not waited yet
        self.reached: dict[int, dict[int, tuple[int, int]]] = {}

    def arrive(self, sel: Sel, site: int, release: bool) -> None:
        """barrier.cluster.arrive."""
        threads = self.machine.thread[sel]
        for cluster in np.unique(threads // self.padded):
            part = threads[threads // self.padded == cluster]
            meeting = self.meetings[cluster]
            again = self.inside[part]
            if again.any():
                thread = int(part[np.flatnonzero(again)[0]])
                message = "a thread arrives at the cluster's barrier twice without waiting between"
                access = self.machine.access("arrive", site, thread)
                self.machine.find(Finding("barrier_mismatch", message, access), stop=True)
            meeting.arrived[part % self.padded] = True
            self.inside[part] = True
            self.target[part] = meeting.phase + 1
            if self.machine.race is not None and release:
                self.machine.race.arrive(("cluster", int(cluster), meeting.phase), part)
            self.settle(int(cluster))

    def settle(self, cluster: int) -> None:
        """Complete the phase if all threads that have not exited have arrived."""
        meeting = self.meetings[cluster]
        live = self.machine.live[cluster * self.padded : (cluster + 1) * self.padded]
        if not meeting.arrived.any() or not (meeting.arrived | ~live).all():
            return
        meeting.arrived[:] = False
        meeting.phase += 1
        self.machine.waiters.changed(("cluster", cluster))

    def exit_threads(self, threads: Array) -> None:
        """Threads end; the others need not wait for them."""
        for cluster in np.unique(threads // self.padded):
            self.settle(int(cluster))
        for cta in np.unique(self.machine.cta[threads]).tolist() if self.reached else ():
            self._ends(cta)

    def reach(self, where: Array, threads: Array, site: int) -> None:
        """Threads access shared memory at arena offsets, that of other CTAs maybe. (What copies bring there is awaited
        at a barrier there.)"""
        race, shared = self.machine.race, self.machine.spaces["shared"]
        if race is None or self.padded == self.machine.padded:
            return
        assert isinstance(shared, SharedSpace)
        ctas = where // shared.stride
        far = np.flatnonzero(ctas != self.machine.cta[threads])
        for cta, thread in zip(ctas[far].tolist(), threads[far].tolist(), strict=True):
            if not self.alive(cta):
                self._complain(thread, site)
            self.reached.setdefault(cta, {})[thread] = race.clocks.now, site

    def alive(self, cta: int) -> bool:
        """Whether a CTA has threads that have not ended."""
        first = cta * self.machine.padded
        return bool(self.machine.live[first : first + self.machine.padded].any())

    def _ends(self, cta: int) -> None:
        race = self.machine.race
        if race is None or self.alive(cta):
            return
        own = np.arange(cta * self.machine.padded, (cta + 1) * self.machine.padded)
        for thread, (stamp, site) in self.reached.pop(cta, {}).items():
            if not race.clocks.knows(own, np.full_like(own, thread), np.full_like(own, stamp)).any():
                self._complain(thread, site)

    def _complain(self, thread: int, site: int) -> None:
        message = "a block may have ended when another one accesses its shared memory"
        cure = "barrier.cluster.arrive.release and barrier.cluster.wait.acquire by all threads before they end"
        access = self.machine.access("remote access", site, thread)
        self.machine.find(Finding("missing_barrier", message, access, space="shared", cure=cure))

    def ready(self, cluster: int, threads: Array) -> bool:
        """Whether the phase that these threads arrived for is over."""
        return bool((self.target[threads] <= self.meetings[cluster].phase).all())

    def leave(self, cluster: int, threads: Array) -> None:
        """Threads leave the barrier (acquire)."""
        self.inside[threads] = False
        race = self.machine.race
        if race is not None:
            row = race.rows.get(("cluster", cluster, int(self.target[threads[0]]) - 1))
            if row is not None:
                race.clocks.acquire(threads, row)


@instruction("barrier.cluster.arrive", kind=Kind.WARP, results=0)
def _arrive(ins: Instruction, linker: Linker) -> Decoded:
    site, release = linker.site(ins), "relaxed" not in ins.mods
    return Decoded(lambda m, sel: m.clusters.arrive(sel, site, release), whole_warp)


@instruction("barrier.cluster.wait", kind=Kind.CONTROL, results=0)
def _wait(ins: Instruction, linker: Linker) -> Decoded:
    site = linker.site(ins)

    def run(m: Machine, sel: Sel, pc: int) -> Outcome:
        threads = m.thread[sel]
        if not m.clusters.inside[threads].all():
            message = "barrier.cluster.wait without barrier.cluster.arrive"
            m.find(Finding("barrier_mismatch", message, m.access("wait", site, int(threads[0]))), stop=True)
        goes = []
        for cluster in np.unique(threads // m.clusters.padded).tolist():
            part = threads[threads // m.clusters.padded == cluster]
            if m.clusters.ready(cluster, part):
                m.clusters.leave(cluster, part)
                goes.append(part)
            else:
                _sleep(m, cluster, part, pc)
        if sum(len(part) for part in goes) == len(threads):
            return [(pc + 1, sel)]
        return [(pc + 1, np.concatenate(goes))] if goes else []

    return Decoded(run, whole_warp)


def _sleep(m: Machine, cluster: int, threads: Array, pc: int) -> None:
    def describe() -> str:
        base = cluster * m.clusters.padded
        live = m.live[base : base + m.clusters.padded]
        missing = np.flatnonzero(live & ~m.clusters.meetings[cluster].arrived)
        position, cta = m.thread_position(base + int(missing[0])) if len(missing) else ((0, 0, 0), (0, 0, 0))
        return f"the cluster's barrier; {len(missing)} threads have not arrived, first thread {position} of CTA {cta}"

    waiter = Waiter(
        pc,
        threads,
        lambda: m.clusters.ready(cluster, threads),
        lambda done: m.clusters.leave(cluster, threads),
        describe,
    )
    m.waiters.add(("cluster", cluster), waiter)


@instruction("mapa")
def _map(ins: Instruction, linker: Linker) -> Handler:
    """mapa{.shared::cluster}.type d, a, rank: the address of the same variable in another CTA of the cluster."""
    kind = ins.mods[-1]
    source = ins.operands[1]
    if not isinstance(source, Register | Symbol):
        raise error(ins, "mapa takes a register or a variable")
    base = source if isinstance(source, Symbol) else None
    start = read(source, kind, ins, linker) if base is None else address(Address(base, base.offset), ins, linker)
    rank, target = read(ins.operands[2], "u32", ins, linker), write(ins.operands[0], kind, ins, linker)
    generic = "shared::cluster" not in ins.mods
    site = linker.site(ins)

    def run(m: Machine, sel: Sel) -> None:
        ranks = per_thread(rank(m, sel), sel).astype(np.int64)
        if (ranks >= m.launch.cluster_size).any():
            thread = int(m.thread[sel][np.flatnonzero(ranks >= m.launch.cluster_size)[0]])
            message = f"mapa names a CTA outside the cluster of {m.launch.cluster_size}"
            m.fault("out_of_bounds", message, site, "mapa", thread, "shared", (None, 0))
        addr = per_thread(start(m, sel), sel).astype(np.int64)
        window = SHARED_WINDOW if generic else 0
        plain = (addr - window if generic and base is None else addr) & (1 << RANK_SHIFT) - 1
        mapped = (plain | ranks << RANK_SHIFT) + window
        target(m, sel, mapped.astype(DTYPES[kind]))

    return run


@instruction("getctarank")
def _rank(ins: Instruction, linker: Linker) -> Handler:
    kind = ins.mods[-1]
    source, target = read(ins.operands[1], kind, ins, linker), write(ins.operands[0], "u32", ins, linker)

    def run(m: Machine, sel: Sel) -> None:
        named = per_thread(source(m, sel), sel).astype(np.int64) >> RANK_SHIFT & 0xFF
        target(m, sel, named.astype(np.uint32))

    return run
