"""Each line of PTX that synchronises, deleted: the simulator must miss it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import minitile as mt
from minitile.simulate import simulate

SYNCHRONISING = re.compile(
    r"mbarrier\.(init|arrive|try_wait)|wgmma\.(wait_group|fence|commit)|fence\.|bar\.sync|expect_tx"
    r"|cp\.async\.(wait|commit|bulk\.wait|bulk\.commit)"
)
Check = Callable[[Sequence[Any]], bool]


def deletions(kernel: mt.CompiledKernel, arrays: Sequence[Any], holds: Check) -> tuple[int, list[str]]:
    """How many lines were tried, and those that nobody misses: no finding and, by `holds` of the arrays, no wrong
    result in any schedule. The program as it is must be right."""
    lines = kernel.asm["ptx"].splitlines()
    assert _right(lines, kernel, arrays, holds)
    places = [n for n, line in enumerate(lines) if SYNCHRONISING.search(line)]
    unmissed = []
    for n in places:
        behind = n + 2 if "try_wait" in lines[n] else n + 1  # a wait is the test and the branch back to it
        if _right([*lines[:n], *lines[behind:]], kernel, arrays, holds):
            unmissed.append(lines[n].strip())
    return len(places), unmissed


def _right(lines: list[str], kernel: mt.CompiledKernel, arrays: Sequence[Any], holds: Check) -> bool:
    for schedule in ("lazy", "eager", "random"):
        fresh = [a.copy() if isinstance(a, np.ndarray) else a for a in arrays]
        try:
            simulate(kernel.launch_info, "\n".join(lines), fresh, schedule=schedule, seed=1)
        except mt.SimulationError:
            return False
        if not holds(fresh):
            return False
    return True
