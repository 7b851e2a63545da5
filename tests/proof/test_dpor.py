"""The prover's verdicts against every schedule of given sizes (`dpor`): kernels, mutants of them, and texts by chance.

Proved must mean that no schedule has a fault; and what is not proved must have one, for some of the sizes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import pytest

from minitile.proof import Fault, Launch, Refused, prove
from minitile.proof.text import parse
from minitile.runtime.sim.mutate.ptx import removals
from minitile.runtime.sim.mutate.ptx_weaken import weaker_mutants
from minitile.tools.proving import launch_facts
from tests.examples.gemm_forms import FORMS
from tests.examples.mutation_cases import CASES, MANY, compiled_case
from tests.proof import dpor
from tests.proof.concrete import Broken, Unsupported, traces


@dataclass(frozen=True)
class Kernel:
    """A kernel, its sizes, and the blocks to look at; `states`: what the prover may take for a mutant."""

    name: str
    target: str
    sizes: tuple[dict[str, int], ...]
    blocks: tuple[tuple[int, int, int], ...] = ((0, 0, 0),)
    states: int = 600
    spare: tuple[str, ...] = field(default=())


def of_gemm(name: str, target: str, step: int, most: int, m: int = 64, n: int = 64, **more: Any) -> Kernel:
    """Steps of K: none, up to `most`; the last one whole and not."""
    sizes = [{"M": m, "N": n, "K": step * k} for k in range(most + 1)]
    return Kernel(name, target, (*sizes, {"M": m, "N": n, "K": step * most - 8}), **more)


def of_tiles(name: str, step: int, most: int, every: int = 1) -> Kernel:
    """Of a persistent kernel with two blocks: up to three tiles for the first."""
    tiles = [{"M": 64, "N": 64 * n, "K": step * k} for n in (1, 3, 5) for k in range(0, most + 1, every)]
    return Kernel(name, "sm_90a", tuple(tiles), states=1500)


KERNELS = {
    "3 stages": of_gemm("gemm", "sm_90a", 32, 12),
    "2 stages, two warpgroups": of_gemm("gemm, 2 stages, wide", "sm_90a", 64, 8, m=128),
    "4 stages, two warpgroups": of_gemm("gemm, 4 stages", "sm_90a", 64, 16, m=128),
    "one role": of_gemm("gemm", "sm_90a, one role", 32, 12),
    "cp.async": of_gemm("gemm", "sm_80", 32, 12),
    "rows of keys": of_gemm("gemm_swapped", "sm_90a", 64, 12),
    "attention": Kernel("attention", "sm_90a", tuple({"S": 32 * n, "H": 1} for n in range(9))),
    "causal, with turns": Kernel(
        "attention, causal", "sm_90a", ({"S": 8, "H": 2}, {"S": 512, "H": 2}), tuple((n, 0, 0) for n in range(4))
    ),
    "attention, cp.async": Kernel("attention", "sm_80", tuple({"S": 32 * n, "H": 1} for n in range(9))),
    "ping-pong": of_tiles("gemm_persistent", 32, 12),
    "fp8": of_tiles("gemm_fp8, tensor", 64, 8),
}
QUICK = ("3 stages", "one role", "2 stages, two warpgroups")


@lru_cache
def text_and_launch(name: str) -> tuple[str, Launch]:
    kernel = KERNELS[name]
    compiled, _ = compiled_case({**CASES, **MANY, **FORMS}[kernel.name], kernel.target)
    return compiled.asm["ptx"], launch_facts(compiled.launch_info)


def provers(text: str, launch: Launch, states: int) -> tuple[str, tuple[int, ...]]:
    """"" or why a text is not proved; the lines of waits that are taken to be left by a warp together."""
    try:
        return "", prove(text, launch, most_states=states).together
    except Fault as fault:
        code = parse(text, launch).code
        return str(fault), tuple(code[pc].line for pc in fault.together)
    except Refused as refused:
        return str(refused), ()


def explorers(text: str, launch: Launch, kernel: Kernel, together: tuple[int, ...], most: int = 50) -> str:
    """"" or a fault in some schedule of some sizes."""
    for sizes in kernel.sizes:
        for block in kernel.blocks:
            try:
                found = dpor.verdict(traces(text, launch, sizes, together, block), most)
            except Broken as broken:
                found = str(broken)
            if found:
                return f"{sizes}: {found}"
    return ""


def mutants(text: str) -> Iterator[tuple[str, str]]:
    entry = re.search(r"\.entry (\w+)", text)
    assert entry
    for each in (*removals(text, entry[1]), *weaker_mutants(text, entry[1])):
        yield str(each), each.text


def compare(name: str, of_mutants: slice) -> list[str]:
    """Where the two do not agree."""
    text, launch = text_and_launch(name)
    kernel, out = KERNELS[name], []
    for what, changed in [("as it is", text), *mutants(text)][of_mutants]:
        why, together = provers(changed, launch, kernel.states)
        try:
            found = explorers(changed, launch, kernel, together)
        except (Unsupported, dpor.TooMany) as not_known:
            found = repr(not_known)
        print(f"{name} | {what[:90]} | {why or 'proved'} | {found or 'no fault'}", flush=True)
        if bool(why) != bool(found):
            out.append(f"{what}: {why or 'proved'}; {found or 'no fault'}")
    return out


@pytest.mark.parametrize("name", QUICK)
def test_quick(name):
    assert compare(name, slice(None, None, 8)) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_every(name):
    assert compare(name, slice(None)) == []
