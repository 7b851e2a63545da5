"""Cluster launch control: a running CTA takes over clusters that have not started (PTX ISA 8.8, 9.7.13.17 and
9.7.13.18, clusterlaunchcontrol.try_cancel and query_cancel).

try_cancel asks for a cluster. The response, 16 bytes, is written to shared memory in the async proxy, of the own CTA or
of all CTAs of the cluster, and completes on an mbarrier beside it, as a bulk copy does. So all rules of these hold: who
reads it waits for the phase; who lets it be overwritten has read it, and told so, with a proxy fence between.

A request gets the next cluster of the grid that has not started. There is none when all have; under schedule "random"
a request may be refused before, as the hardware may for reasons of its own, and the grid goes on by itself.

The response's bytes are not the hardware's: four words, a mark that says granted or refused, then the first CTA's
x, y, z.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...core.report import Finding
from ...core.scalars import Array, Sel
from ..operands import error, read, write
from ..program import RANK_SHIFT, Linker
from ..syntax import Instruction, Vector
from ..table import Handler, instruction
from .bulk_instructions import start_load
from .mbarrier import shared_address

if TYPE_CHECKING:
    from ..machine import Machine

SIZE = 16
_GRANTED, _REFUSED = 0x6D741ED1, 0x6D741ED0
_REFUSALS = 0.15  # how often a request is refused for no reason, under schedule "random"


class LaunchControl:
    """The requests of a batch: per CTA, the phases of mbarriers by which refusals are known (engine, step)."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.refusals: dict[int, list[tuple[object, int]]] = {}

    def answer(self) -> Array:
        """The response to a request: four words."""
        m, launch = self.machine, self.machine.launch
        random = launch.schedule == "random" and launch.rng.random() < _REFUSALS
        total = launch.grid[0] * launch.grid[1] * launch.grid[2]
        if random or launch.started >= total:
            return np.array([_REFUSED, *np.full(3, 0xA5A5A5A5)], np.uint32)
        number = int(m.number(np.array(launch.started)))
        launch.started += launch.cluster_size
        nx, ny, _ = launch.grid
        return np.array([_GRANTED, number % nx, number // nx % ny, number // (nx * ny)], np.uint32)

    def request(self, thread: int, to: int, bar: int, everywhere: bool, site: int) -> None:
        """A thread asks; `to` and `bar` are addresses of shared memory."""
        m = self.machine
        cta, size = thread // m.padded, m.launch.cluster_size
        own = 0 if m.window is None else int(m.window[thread]) >> RANK_SHIFT
        for address in (to, bar):
            if address >> RANK_SHIFT != own:
                message = "the response and the mbarrier of a try_cancel lie in the executing CTA's shared memory"
                self._find("cluster_launch_control", message, thread, site)
        self._check_observed(cta, thread, site)
        first = cta // size * size
        if everywhere and not all(m.clusters.alive(each) for each in range(first, first + size)):
            message = "a response goes to all CTAs of the cluster, and one of them has ended"
            self._find("missing_barrier", message, thread, site)
        words = self.answer()
        loads = start_load(
            m, thread, site, to, words.view(np.uint8), bar, (1 << size) - 1 if everywhere else None, 0, SIZE
        )
        if words[0] == _REFUSED:
            self.refusals.setdefault(cta, []).extend((load.barrier.key, load.step) for load in loads)

    def _check_observed(self, cta: int, thread: int, site: int) -> None:
        """Who knows of a refusal asks no more: the behaviour is undefined then."""
        race = self.machine.race
        if race is None or race.clocks.async_clocks is None:
            return
        clocks = race.clocks.async_clocks
        domain = thread // race.clocks.padded
        for key, step in self.refusals.get(cta, ()):
            if clocks.matrix[thread, clocks.engine(domain, key)] >= step:
                message = "another try_cancel by a CTA that has seen one fail"
                self._find("cluster_launch_control", message, thread, site)

    def _find(self, kind: str, message: str, thread: int, site: int) -> None:
        access = self.machine.access("try_cancel", site, thread)
        self.machine.find(Finding(kind, message, access, space="shared"), stop=True)


@instruction("clusterlaunchcontrol.try_cancel", results=0)
def _try_cancel(ins: Instruction, linker: Linker) -> Handler:
    to, bar = (shared_address(each, ins, linker) for each in ins.operands)
    everywhere, site = "multicast::cluster::all" in ins.mods, linker.site(ins)

    def run(m: Machine, sel: Sel) -> None:
        rows = zip(m.thread[sel].tolist(), to(m, sel).tolist(), bar(m, sel).tolist(), strict=True)
        for thread, address, barrier in rows:
            m.launch_control.request(thread, address, barrier, everywhere, site)

    return run


@instruction("clusterlaunchcontrol.query_cancel")
def _query(ins: Instruction, linker: Linker) -> Handler:
    """.is_canceled.pred.b128 p, response; .get_first_ctaid.v4.b32.b128 {x, y, z, _}, response, or ::x, ::y, ::z."""
    source, site = read(ins.operands[1], "b128", ins, linker), linker.site(ins)
    question, _, axis = ins.mods[1].partition("::")
    asks = question == "is_canceled"
    items = ins.operands[0].items if isinstance(ins.operands[0], Vector) else (ins.operands[0],)
    if len(items) != (4 if "v4" in ins.mods else 1):
        raise error(ins, "get_first_ctaid.v4 has four results, the other queries one")
    writers = [write(item, "pred" if asks else "b32", ins, linker) for item in items]

    def run(m: Machine, sel: Sel) -> None:
        words = np.ascontiguousarray(source(m, sel)).view(np.uint32).reshape(-1, 4)
        granted = words[:, 0] == _GRANTED
        wrong = ~granted & ((words[:, 0] != _REFUSED) | (not asks))
        if wrong.any():
            thread = int(m.thread[sel][np.flatnonzero(wrong)[0]])
            known = bool((words[np.flatnonzero(wrong)[0], 0] == _REFUSED).all())
            message = "the first CTA of a request that failed" if known else "this is no response of a try_cancel"
            access = m.access("query_cancel", site, thread)
            m.find(Finding("cluster_launch_control", message, access, space="register"))
        if asks:
            writers[0](m, sel, granted)
            return
        chosen = "xyz".index(axis) if axis else None
        for index, writer in enumerate(writers):
            column = index if chosen is None else chosen
            values = words[:, 1 + column] if column < 3 else np.full(len(words), 0xA5A5A5A5, np.uint32)
            writer(m, sel, np.ascontiguousarray(values))

    return run
