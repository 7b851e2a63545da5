"""What the model of a GEMM needs to know of a GPU: one table, with where each number is from.

The H200's rates are fitted to benchmarks/results/gemm_one_team_h200.json by benchmarks/fit_matmul.py, which prints them
and how far the model is off; its counts are NVIDIA's. Rates are what a kernel gets, not what a data sheet says: the
H200 is at its power limit in every large GEMM, and its clock is what that leaves. Other GPUs have the H200's numbers,
scaled by what the data sheets say of both; what is chosen for them is unmeasured.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class Machine:
    """Units: bytes, microseconds, bytes per microsecond (1e6 is 1 TB/s), flops per microsecond.

    multiprocessors, shared (of a multiprocessor, for blocks), threads (of a multiprocessor): counts.
    flops: of one multiprocessor with all of them busy, 16-bit operands. single: the share of it that a block with one
    warpgroup of consumers gets alone (a guess).
    fill: into one multiprocessor's shared memory. ragged: the share of it left where rows are no whole 16 bytes and
    threads copy element by element (a guess).
    latency: of a tile from its request until it is multiplied, which the stages must cover.
    l2, dram: of the whole chip. cached: bytes of L2 that operands find room in.
    start: of a kernel, with its first tiles (too short to be seen in what was measured: a guess).
    tile: between two tiles of a block that stays. block: between two blocks, from the last product of the one to the
    first of the next. after: a kernel that follows another one (a guess).
    """

    name: str
    multiprocessors: int
    shared: int
    threads: int
    flops: float
    single: float
    fill: float
    ragged: float
    latency: float
    l2: float
    dram: float
    cached: float
    start: float
    tile: float
    block: float
    after: float


H200 = Machine(
    name="NVIDIA H200",
    multiprocessors=132,
    shared=228 * 1024,
    threads=2048,
    flops=5.39e6,
    single=0.85,
    fill=87.5e3,
    ragged=0.15,
    latency=1.34,
    l2=10.6e6,
    dram=4.1e6,
    cached=30e6,
    start=1.0,
    tile=0.52,
    block=3.0,
    after=2.0,
)
_A100 = replace(H200, name="A100", multiprocessors=108, shared=164 * 1024, flops=2.4e6, fill=50e3, l2=5e6, dram=1.4e6)
_OTHERS = (  # part of the device's name, its numbers
    ("H100 PCIe", replace(H200, name="H100 PCIe", flops=4.2e6, dram=1.7e6)),
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
