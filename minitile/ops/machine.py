"""What the model of a GEMM needs to know of a GPU: one table, with where each number is from.

The H200's rates are fitted to benchmarks/results/matmul_plans_h200.json.xz, 24,400 plans of 999 random problems, so
that what benchmarks/fit_matmul.py calls the loss is least (by gradients, in a copy of the model; fit_matmul.py says how
far the model is off, and can refine the numbers). Its counts are NVIDIA's. Rates are what a kernel gets, not what a
data sheet says: the H200 is at its power limit in every large GEMM, and its clock is what that leaves. Other GPUs have
the H200's numbers, scaled: an H100's memory by what kernels got of both (H100_MEMORY), for few rows as well, while all
else of it is the H200's; the others by data sheets. How many multiprocessors there are a device says itself. What is
chosen for GPUs but the H200 is unmeasured, plan by plan.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from minitile.ops.fitted import FEW


@dataclass(frozen=True, slots=True)
class Machine:
    """Units: bytes, microseconds, bytes per microsecond (1e6 is 1 TB/s), flops per microsecond.

    multiprocessors, shared (of a multiprocessor, for blocks), threads (of a multiprocessor): counts.
    flops: of one multiprocessor, 16-bit operands. power: flops of all of them for long, and what moving data takes of
    it. side, thin: columns that a product costs more than it has, and those of one of few columns, less than 64. By how
    much more time products take in tiles of 64 rows (`low`) and of more than 128 (`tall`), and by mma.sync, where
    threads copy both operands (`by_warps`); turns: by how much less with two ping-pong teams. gap: between the
    products of 64 of K, where no other warpgroup fills it. port: of one multiprocessor's shared memory, in and out.
    line: µs that a line of 128 bytes, or less of it, takes into one multiprocessor's shared memory; one outside of the
    operand takes `outside` times that. eased: the share of it that goes where all others have nothing to do. chunk,
    element: µs of a chunk of 4 or 8 bytes that threads copy, and of one of 2 bytes; all_copy: the share of it that is
    left where all threads copy; in_turn: the share of copies that is not behind their products then.
    latency: of a tile from its request until it is multiplied, which the stages must cover.
    l2, fresh, dram, writing: of the whole chip: into all multiprocessors, what none had in the same wave, memory, and
    results. cached: bytes that L2 keeps from one launch to the next; with `spilling` more it keeps nothing.
    start: of a kernel. block: of a block's set-up, first loads and end; all_at_once: more of it where all
    multiprocessors begin. again: of a further block in the place of another. crowded: by how much blocks of one
    multiprocessor hold up each other. fixed: by how much longer a persistent kernel takes than blocks that come as
    others end, since no multiprocessor does what a slower one was given. tile: between two tiles of a persistent block.
    curve: finding the next one's place in Hilbert order.
    store: of one multiprocessor's results; row: µs of a row's line; box: µs of what is stored together; lone_box: where
    there is one buffer for it; waited: the share of this that a persistent block waits for; drain: of one
    multiprocessor's results, in the long run. By how much more results take where rows of C are no whole 8 bytes
    (`odd`), and where they are no whole 16 and tiles no multiples of 64 columns (`odd_width`), or there are teams
    (`odd_teams`). uneven: by how much more a block takes whose columns are no multiple of 32. blend: the exponent with
    which bounds are added.
    after: a kernel that follows another one; padding: of what it reads and writes. Adding up split-K's sums takes, in a
    second kernel, `part` for each one and the bytes through `adding`; in a cluster `meet`, `meet_each` for each part,
    and a tile of f32 through `meeting`.
    Of what a cluster's blocks share, `multicast` of the time goes; clustered: what such blocks wait for each other.
    cold: whether all comes from memory; missed_again: then, the share of it that comes once more for each further row
    of tiles where they are visited row by row, so that no neighbours ask for the same. few: the numbers for few rows by
    a large matrix (Problem.few).
    By threads, a matrix comes at `dots`, by `dot` longer for each vector; dot_start: besides.
    """

    name: str
    multiprocessors: int
    shared: int
    threads: int
    flops: float
    power: float
    side: float
    thin: float
    low: float
    tall: float
    by_warps: float
    turns: float
    gap: float
    port: float
    line: float
    outside: float
    eased: float
    chunk: float
    element: float
    all_copy: float
    in_turn: float
    latency: float
    l2: float
    fresh: float
    dram: float
    writing: float
    cached: float
    spilling: float
    start: float
    block: float
    all_at_once: float
    again: float
    crowded: float
    fixed: float
    tile: float
    curve: float
    store: float
    row: float
    box: float
    lone_box: float
    waited: float
    drain: float
    odd: float
    odd_width: float
    odd_teams: float
    uneven: float
    blend: float
    after: float
    padding: float
    part: float
    adding: float
    meet: float
    meet_each: float
    meeting: float
    dots: float
    dot: float
    dot_start: float
    multicast: float
    clustered: float
    missed_again: float
    cold: bool = False
    few: Machine | None = None


PLANNED_FOR = "sm_90a"  # the target of the H200, whose numbers these are

_H200 = Machine(
    name="NVIDIA H200",
    multiprocessors=132,
    shared=228 * 1024,
    threads=2048,
    flops=7.356e6,
    power=1.281e9,
    side=2.419,
    thin=19.72,
    low=1.151,
    tall=1.044,
    by_warps=4.705,
    turns=1.101,
    gap=0.02438,
    port=3.5e5,
    line=0.0008888,
    outside=2.183,
    eased=0.3709,
    chunk=0.0001862,
    element=0.000106,
    all_copy=0.4443,
    in_turn=0.552,
    latency=1.009,
    l2=2.265e7,
    fresh=7.163e6,
    dram=5.317e6,
    writing=3.157e6,
    cached=4.127e7,
    spilling=1.938e7,
    start=0.2763,
    block=0.6218,
    all_at_once=0.1933,
    again=0.7958,
    crowded=1.289,
    fixed=1.0,
    tile=0.3279,
    curve=0.3429,
    store=6.845e4,
    row=0.001282,
    box=0.05671,
    lone_box=0.1165,
    waited=0.559,
    drain=3.573e4,
    odd=1.618,
    odd_width=1.389,
    odd_teams=1.17,
    uneven=1.105,
    blend=2.589,
    after=1.028,
    padding=4.412e6,
    part=0.03773,
    adding=2.067e7,
    meet=0.1708,
    meet_each=0.01525,
    meeting=7510,
    dots=4.2e6,
    dot=0.1,
    dot_start=3.0,
    multicast=0.5,
    clustered=0.3,
    missed_again=0.0,
)


def _with_few(machine: Machine, part: str, dram: float = 1.0) -> Machine:
    """The machine with the numbers for few rows of the GPU whose name has this part, if there are any."""
    numbers: dict[str, Any] | None = FEW.get(part)
    if numbers is None:
        return machine
    few = replace(machine, cold=True, few=None, **numbers)
    return replace(machine, few=replace(few, dram=few.dram * dram, dots=few.dots * dram))


H200 = _with_few(_H200, "H200")
H100_MEMORY = 2954 / 4020  # of an H200's rate: both measured, softmax of 131072x512 (benchmarks/results/memory_h100.md)
_H100 = replace(_H200, name="H100", dram=_H200.dram * H100_MEMORY)
_A100 = replace(
    _H200, name="A100", multiprocessors=108, shared=164 * 1024, flops=2.6e6, power=2.8e8, line=2e-3, l2=6e6, dram=1.4e6
)
_OTHERS = (  # part of the device's name, its numbers
    ("H100 PCIe", replace(_H200, name="H100 PCIe", flops=5e6, power=7e8, dram=1.7e6)),
    ("H100", _with_few(_H100, "H100") if "H100" in FEW else _with_few(_H100, "H200", H100_MEMORY)),
    ("GH200", H200),
    ("H200", H200),
    ("A100", _A100),
)


@lru_cache
def machine_for(name: str, multiprocessors: int, capability: tuple[int, int]) -> Machine:
    """The numbers for a device; for one that is not in the table, its nearest relative's."""
    known = next((machine for part, machine in _OTHERS if part in name), H200 if capability >= (9, 0) else _A100)
    few = known.few and replace(known.few, name=name, multiprocessors=multiprocessors)
    return replace(known, name=name, multiprocessors=multiprocessors, few=few)
