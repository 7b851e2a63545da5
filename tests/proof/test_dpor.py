"""The prover's verdicts against every schedule of given sizes (`dpor`): kernels, mutants of them, and texts by chance.

Proved must mean that no schedule has a fault; and what is not proved must have one, for some of the sizes. Most have
one within `sizes`, each of whose schedules is run. A few need more rounds: a barrier for 7 of 8 warps counts the eighth
arrival in the next phase, so that by the fourth round one warpgroup's arrivals and the other's of the rounds before are
enough. Of what is refused schedules by chance of `deeper` sizes are run too.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import pytest

from minitile.proof import Fault, Launch, Refused, prove
from minitile.proof.text import parse
from minitile.runtime.sim.mutate.ptx import removals
from minitile.runtime.sim.mutate.ptx_weaken import weaker_mutants
from minitile.tools.proving import launch_facts
from tests.examples.gemm_forms import FORMS
from tests.examples.mutation_cases import CASES, MANY, compiled_case
from tests.proof import by_chance, dpor
from tests.proof.concrete import ALL, HOME, LOADED, Broken, Event, Unsupported, traces


@dataclass(frozen=True)
class Kernel:
    """A kernel, its sizes, and the blocks to look at; `deeper`: sizes of up to twice as many rounds; `states`: what the
    prover may take for a mutant."""

    name: str
    target: str
    sizes: tuple[dict[str, int], ...]
    deeper: tuple[dict[str, int], ...]
    blocks: tuple[tuple[int, int, int], ...] = ((0, 0, 0),)
    states: int = 600
    spare: tuple[str, ...] = field(default=())


def of_gemm(
    name: str,
    target: str,
    step: int,
    most: int,
    m: int = 64,
    n: int = 64,
    loaded: tuple[int, ...] = (),
    **more: Any,
) -> Kernel:
    """Steps of K: none, up to `most`; the last one whole and not. `loaded`: what memory may hold that it goes by."""
    data = [{LOADED: each, "tiles": 2} for each in loaded] or [{}]
    depths = (*(step * k for k in range(most + 1)), step * most - 8)
    sizes = tuple({"M": m, "N": n, "K": k, **each} for each in data for k in depths)
    deeper = tuple({"M": m, "N": n, "K": step * k, **each} for each in data for k in (most * 3 // 2, most * 2))
    return Kernel(name, target, sizes, deeper, **more)


def of_tiles(name: str, step: int, most: int, every: int = 1, **more: int) -> Kernel:
    """Of a persistent kernel with two blocks: up to three tiles for the first. `more`: its other sizes."""
    tiles = [{"M": 64, "N": 64 * n, "K": step * k, **more} for n in (1, 3, 5) for k in range(0, most + 1, every)]
    deeper = tuple({"M": 64, "N": 64 * n, "K": step * k, **more} for n, k in ((5, 2 * most), (9, most)))
    return Kernel(name, "sm_90a", tuple(tiles), deeper, states=1500)


KEYS = tuple({"S": 32 * n, "H": 1} for n in range(9))
MORE_KEYS = tuple({"S": 32 * n, "H": 1} for n in (12, 16))
KERNELS = {
    "3 stages": of_gemm("gemm", "sm_90a", 32, 12),
    "2 stages, two warpgroups": of_gemm("gemm, 2 stages, wide", "sm_90a", 64, 8, m=128),
    "4 stages, two warpgroups": of_gemm("gemm, 4 stages", "sm_90a", 64, 16, m=128),
    "one role": of_gemm("gemm", "sm_90a, one role", 32, 12),
    "cp.async": of_gemm("gemm", "sm_80", 32, 12),
    "rows of keys": of_gemm("gemm_swapped", "sm_90a", 64, 12),
    "attention": Kernel("attention", "sm_90a", KEYS, MORE_KEYS),
    "causal, with turns": Kernel(
        "attention, causal",
        "sm_90a",
        ({"S": 8, "H": 2}, {"S": 512, "H": 2}),
        ({"S": 1024, "H": 2},),
        tuple((n, 0, 0) for n in range(4)),
    ),
    "attention, cp.async": Kernel("attention", "sm_80", KEYS, MORE_KEYS),
    "ping-pong": of_tiles("gemm_persistent", 32, 12),
    "fp8": of_tiles("gemm_fp8", 64, 8),
    "transpose": Kernel("transpose", "sm_80", ({"M": 64, "N": 64}, {"M": 10, "N": 20}), ()),
    "1 stage": of_gemm("gemm, 1 stage", "sm_90a", 32, 6),
    "split K": of_gemm("split_k", "sm_90a", 128, 12),
    "split K, the last one adds": of_gemm("gemm_split_k", "sm_90a", 128, 6, m=128, loaded=(0, 1)),
    "groups": of_gemm("gemm_grouped, contiguous", "sm_90a", 64, 8, loaded=(1,)),
    "groups, by their rows": of_gemm("gemm_grouped, masked", "sm_90a", 64, 8, loaded=(0, 40)),
    "bias": of_gemm("gemm_bias_gelu", "sm_90a", 32, 8, n=128),
    "columns of both": of_gemm("gemm TN bf16", "sm_90a", 32, 12),
    "columns of both, cp.async": of_gemm("gemm TN bf16", "sm_80", 32, 12),
    "int8, cp.async": of_gemm("gemm NN int8", "sm_80", 32, 12),
    "ping-pong of rows": of_tiles("gemm_persistent, NN", 32, 12, 3),
    "fp8 that is added up": of_tiles("gemm_fp8, by row, promoted, overlapped", 128, 8, 2, SA=64, SB=64),
    "fp8 with scales, no TMA": of_tiles("gemm_fp8, by block, no TMA", 128, 8, 2, KB=4, NB=4),
    "residual": of_tiles("gemm_epilogues, residual", 64, 8, 2),
}
QUICK = ("3 stages", "one role")


@lru_cache
def text_and_launch(name: str) -> tuple[str, Launch]:
    kernel = KERNELS[name]
    compiled, _ = compiled_case({**CASES, **MANY, **FORMS}[kernel.name], kernel.target)
    return compiled.asm["ptx"], launch_facts(compiled.launch_info)


def provers(text: str, launch: Launch, states: int) -> tuple[str, tuple[int, ...]]:
    """ "" or why a text is not proved; the lines of waits that are taken to be left by a warp together."""
    try:
        return "", prove(text, launch, most_states=states).together
    except Fault as fault:
        code = parse(text, launch).code
        return str(fault), tuple(code[pc].line for pc in fault.together)
    except Refused as refused:
        return str(refused), ()


def explorers(text: str, launch: Launch, kernel: Kernel, together: tuple[int, ...], hopes: bool) -> str:
    """ "" or a fault in some schedule of some sizes; `hopes`: whether one is looked for by chance first."""

    @lru_cache
    def made(size: int, block: tuple[int, int, int]) -> Any:
        return traces(text, launch, (*kernel.sizes, *kernel.deeper)[size], together, block)

    every, deeper = range(len(kernel.sizes)), range(len(kernel.sizes), len(kernel.sizes) + len(kernel.deeper))
    by_chance_first = [(tries, each) for tries in (5, 40, 400) for each in (every, deeper)]
    for tries, sizes in (*by_chance_first, (0, every)) if hopes else ((0, every),):
        for size, block in itertools.product(sizes, kernel.blocks):
            try:
                given = made(size, block)
                found = dpor.chance(given, tries) if tries else dpor.verdict(given)
            except Broken as broken:
                found = str(broken)
            if found:
                return f"{(*kernel.sizes, *kernel.deeper)[size]} {block}: {found}"
    return ""


# The other phase is computed in front of the wait's label: within the loop it would be no wait for the parser.
OTHER_PHASE = re.compile(r"(\$\w+:)\n\s*\{ \.reg \.b32 %other_phase; (xor[^;]*;) (mbarrier[^;]*;) \}")


def mutants(text: str) -> Iterator[tuple[str, str]]:
    entry = re.search(r"\.entry (\w+)", text)
    assert entry
    for each in (*removals(text, entry[1]), *weaker_mutants(text, entry[1])):
        yield str(each), OTHER_PHASE.sub(r"\2 \1\n\3", each.text)


def compare(name: str, of_mutants: slice) -> list[str]:
    """Where the two do not agree."""
    text, launch = text_and_launch(name)
    kernel, out = KERNELS[name], []
    for what, changed in [("as it is", text), *mutants(text)][of_mutants]:
        why, together = provers(changed, launch, kernel.states)
        try:
            found = explorers(changed, launch, kernel, together, bool(why))
        except (Unsupported, dpor.TooMany) as unknown:
            found = repr(unknown)
        print(f"{name} | {what[:90]} | {why or 'proved'} | {found or 'no fault'}", flush=True)
        if bool(why) != bool(found) or found == "TooMany()":
            out.append(f"{what}: {why or 'proved'}; {found or 'no fault'}")
    return out


def events_by_chance(seed: int) -> Any:
    """Barriers, arrivals and waits of two or three warps, without a text: most of such programs are stuck."""
    rng = random.Random(seed)
    warps, expects = rng.choice([2, 2, 3]), rng.random() < 0.3
    bars = [HOME, HOME + 8][: rng.choice([1, 2])]
    events: list[list[Event]] = [[] for _ in range(warps)]
    for at in bars:
        events[0].append(Event("mbarrier_init", ALL, 0, at, 32 * rng.choice([1, 1, 2])))
    for each in events:
        each.append(Event("bar", ALL, 0, 0, 32 * warps, write=True))
    for _ in range(rng.randint(4, 8)):
        each, at = rng.choice(events), rng.choice(bars)
        kind = rng.choice(["arrive"] * 3 + ["try_wait"] * 3 + ["bar"] + ["expect", "complete"] * expects)
        if kind == "bar":
            each.append(Event(kind, ALL, len(each), 1, 64, write=rng.random() < 0.6))
        else:
            number = 1 if kind == "arrive" else rng.randrange(2)
            each.append(Event(kind, ALL, len(each), at, number, 1 if kind == "expect" else 32 * (kind == "complete")))
    return SimpleNamespace(events=events, program=SimpleNamespace(arrays={"smem": (HOME, 4096)}))


def outcomes(block: Any, every: bool) -> Any:
    try:
        return dpor.explore(block, 3000, every=every)[1]
    except dpor.Fault:
        return "fault"
    except dpor.TooMany:
        return None


def all_schedules_are_found(seeds: range) -> int:
    """The reduction leaves out no schedule that differs: against all of them. How many have several outcomes."""
    several = 0
    for seed in seeds:
        expected = outcomes(events_by_chance(seed), True)
        if expected is not None:
            assert outcomes(events_by_chance(seed), False) == expected, seed
            several += expected != "fault" and len(expected) > 1
    return several


def test_the_reduction():
    assert all_schedules_are_found(range(120)) > 3


@pytest.mark.slow
def test_the_reduction_more():
    assert all_schedules_are_found(range(200, 8000)) > 300


def texts_by_chance(seeds: range) -> dict[tuple[bool, bool], int]:
    """How often a text is (proved, sound). None may be proved that has a fault."""
    found: dict[tuple[bool, bool], int] = {}
    for seed in seeds:
        why, fault = by_chance.compared(by_chance.text_of(seed))
        if "unknown" not in fault:
            assert why or not fault, (seed, fault)
            found[not why, not fault] = found.get((not why, not fault), 0) + 1
    return found


@pytest.mark.slow
def test_texts_by_chance():
    found = texts_by_chance(range(8))
    assert found[True, True] > 1
    assert found[False, False] > 1


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_texts_by_chance_more(part):
    found = texts_by_chance(range(100 + 100 * part, 200 + 100 * part))
    assert found[True, True] > 5


@pytest.mark.parametrize("name", QUICK)
def test_quick(name):
    assert compare(name, slice(0, 20, 6)) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_every(name):
    assert compare(name, slice(None)) == []
