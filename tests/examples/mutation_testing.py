"""Mutation testing: each synchronising instruction of a kernel taken away, or weakened; which mutants survive? Of
AMD's waits, those that find nothing to wait for on any path are left out: that they are to spare is proven."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import minitile as mt
from minitile.driver.simulate import launch_of
from minitile.runtime.sim import run_gcn
from minitile.runtime.sim.mutate import amdgcn as gcn
from minitile.runtime.sim.mutate.ptx import Mutant, redundant, removals, runner
from minitile.runtime.sim.mutate.ptx_weaken import weaker_mutants

TAKEN_OR_WEAKER = pytest.mark.parametrize(
    "candidates", [removals, pytest.param(weaker_mutants, marks=pytest.mark.slow)]
)
"""A test's mutants: instructions taken away, and (slow) ones that are there but not enough."""


def surviving_mutants(
    kernel: mt.CompiledKernel,
    values: Sequence[Any],
    candidates: Callable[[str, str], Iterator[Mutant]] = removals,
) -> tuple[list[str], int]:
    """The mutants without a finding, a refusal or another result in any schedule, and how many there are in all.
    `values`: arguments to begin with, each time. `candidates`: what is made of PTX instead."""
    info = kernel.launch_info
    grid, _ = launch_of(info, values)

    def arguments() -> Sequence[Any]:
        return launch_of(info, [v.copy() if isinstance(v, np.ndarray) else v for v in values])[1]

    if kernel.target.backend == "amd":
        run = runner(info.entry, grid, info.block, arguments, run_gcn)
        found, count = redundant(kernel.text, info.entry, run, gcn.removals)
        proven = gcn.idle(kernel.text, info.entry)
        found = [each for each in found if (each.line, each.instruction.partition("(")[0]) not in proven]
        return [str(each) for each in found], count
    run = runner(info.entry, grid, info.block, arguments, cluster=info.cluster, dynamic_shared=info.dynamic_shared)
    found, count = redundant(kernel.asm["ptx"], info.entry, run, candidates)
    return [str(each) for each in found], count


def with_reasons(kernel: mt.CompiledKernel, survivors: Sequence[str]) -> list[tuple[str, str]]:
    """Each with why the compiler has the instruction: the comment behind its line of PTX."""
    lines = kernel.asm["ptx"].splitlines()
    numbers = [re.search(r"PTX line (\d+)", each) for each in survivors]
    return [(s, lines[int(n[1]) - 1].partition("// ")[2]) for s, n in zip(survivors, numbers, strict=True) if n]
