"""What the model of a GEMM needs to know of a GPU: one table, with where each number is from.

The H200's rates are fitted by benchmarks/fit_matmul.py, which prints them and how far the model is off, to
gemm_one_team_h200.json and matmul_sample_h200.json in benchmarks/results, and to an earlier sample of that kind; its
counts are NVIDIA's. Rates are what a kernel gets, not what a data sheet says: the H200 is at its power limit in every
large GEMM, and its clock is what that leaves. Other GPUs have the H200's numbers, scaled by what the data sheets say of
both; what is chosen for them is unmeasured.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class Machine:
    """Units: bytes, microseconds, bytes per microsecond (1e6 is 1 TB/s), flops per microsecond.

    multiprocessors, shared (of a multiprocessor, for blocks), threads (of a multiprocessor): counts.
    flops: of one multiprocessor, 16-bit operands. power: flops of all of them for long, and what moving data takes of
    it. turns: by how much more flops are where two teams take turns (from the large problems of benchmarks/results/
    gemm_persistent_h200.json, not fitted). gap: between the products of 64 of K, where no other warpgroup fills it.
    fill: into one multiprocessor's shared memory. By how much more this costs where rows begin within a line
    (`misaligned`), where a tile's rows are half a line or an odd number of halves (`half_lines`) or less (`narrow`).
    ragged: the share left where rows are no whole 16 bytes and threads copy element by element.
    latency: of a tile from its request until it is multiplied, which the stages must cover.
    l2, dram: of the whole chip. cached: bytes of L2 that operands find room in.
    start: of a kernel. block: of a block's set-up, first loads and end. tile: between two tiles of a block that stays.
    curve: finding the next tile's place on Hilbert's curve.
    store: of one multiprocessor's results; ragged_store: the share of it left where rows of C are no whole 16 bytes
    (fitted: 0.18, before such rows went through shared memory; since then a guess).
    after: a kernel that follows another one. Adding up the parts of K takes, in a second kernel, `part` for each one
    and the bytes through `adding`; in a cluster, `meet` and a tile of f32 through `meeting`.
    """

    name: str
    multiprocessors: int
    shared: int
    threads: int
    flops: float
    power: float
    turns: float
    gap: float
    fill: float
    misaligned: float
    half_lines: float
    narrow: float
    ragged: float
    latency: float
    l2: float
    dram: float
    cached: float
    start: float
    block: float
    tile: float
    curve: float
    store: float
    ragged_store: float
    after: float
    part: float
    adding: float
    meet: float
    meeting: float


H200 = Machine(
    name="NVIDIA H200",
    multiprocessors=132,
    shared=228 * 1024,
    threads=2048,
    flops=6.78e6,
    power=1.06e9,
    turns=1.03,
    gap=0.0894,
    fill=121e3,
    misaligned=1.83,
    half_lines=1.61,
    narrow=2.8,
    ragged=0.564,
    latency=1.1,
    l2=17.7e6,
    dram=4.74e6,
    cached=46.4e6,
    start=0.336,
    block=0.785,
    tile=0.551,
    curve=0.458,
    store=28.2e3,
    ragged_store=0.5,
    after=0.694,
    part=0.0508,
    adding=7.37e6,
    meet=0.397,
    meeting=12.1e3,
)
_A100 = replace(
    H200, name="A100", multiprocessors=108, shared=164 * 1024, flops=2.6e6, power=2.8e8, fill=50e3, l2=6e6, dram=1.4e6
)
_OTHERS = (  # part of the device's name, its numbers
    ("H100 PCIe", replace(H200, name="H100 PCIe", flops=5e6, power=7e8, dram=1.7e6)),
    ("H100", replace(H200, name="H100", dram=2.8e6)),
    ("GH200", H200),
    ("H200", H200),
    ("A100", _A100),
)


@lru_cache
def machine_for(name: str, multiprocessors: int, capability: tuple[int, int]) -> Machine:
    """The numbers for a device; for one that is not in the table, its nearest relative's."""
    known = next((machine for part, machine in _OTHERS if part in name), H200 if capability >= (9, 0) else _A100)
    return replace(known, name=name, multiprocessors=multiprocessors)
