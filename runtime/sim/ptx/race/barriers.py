"""Whether the phases of a CTA's barriers are told apart (PTX ISA 8.0, 9.7.12.1: barrier{.cta}).

A barrier counts warps, whichever they are. A warp that arrives while others are still on their way to the phase before
may be counted in that one: two teams with one number, or an arrival (bar.arrive) that runs ahead. In the order that a
simulation happens to choose nothing need come of it. So every warp that arrives must know that the phase before is
over: it has taken part in that phase, or it knows of each of the arrivals there, as it would of any access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...core.report import Finding
from ...core.scalars import Array
from .clocks import Clocks

if TYPE_CHECKING:
    from ..machine import Machine

Arrivals = list[tuple[Array, int, int]]  # threads, when, at which instruction


class BarrierPhases:
    """The arrivals in the phase under way, and in the one before, of each barrier (CTA, number) of a batch."""

    def __init__(self, machine: Machine, clocks: Clocks) -> None:
        self.machine = machine
        self.clocks = clocks
        self.now: dict[tuple[int, int], Arrivals] = {}
        self.before: dict[tuple[int, int], Arrivals] = {}

    def arrive(self, cta: int, number: int, threads: Array, site: int) -> None:
        """Threads of a CTA are about to arrive."""
        for others, stamp, other_site in self.before.get((cta, number), ()):
            local = others % self.clocks.padded
            if (self.clocks.common(threads)[local] > stamp).all():
                continue
            for warp in np.unique(threads // 32):
                known = self.clocks.known(threads[threads // 32 == warp])[local] > stamp
                late = np.setdiff1d(others[~known] // 32, [warp, *(others[known] // 32)])
                if len(late):
                    self._report(number, int(warp) * 32, site, int(late[0]) * 32, other_site)
                    return
        self.now.setdefault((cta, number), []).append((threads, self.clocks.now, site))

    def complete(self, cta: int, number: int) -> None:
        """The phase is over."""
        self.before[cta, number] = self.now.pop((cta, number), [])

    def forget(self, ctas: Array, number: int) -> None:
        """All threads of these CTAs have met there at once."""
        for cta in ctas.tolist():
            self.before.pop((cta, number), None)

    def _report(self, number: int, thread: int, site: int, other: int, other_site: int) -> None:
        machine = self.machine
        message = f"this arrival at barrier {number} may be counted in the phase before: nothing orders it behind that"
        first, second = machine.access("arrive", site, thread), machine.access("arrive", other_site, other)
        cure = "a number of its own for each group of threads, or order behind the phase before"
        machine.find(Finding("barrier_mismatch", message, first, second, cure=cure))
