"""How long a plan of `matmul_quantised` or `matmul_fp8` takes on a GPU: a model with a few numbers, fitted to what
benchmarks/quantised.py measured on an H200 of W4A16 and fp8: 1371 times of 90 problems.

    step     of K: what its threads do one after the other, and not less than the latency of copies by their stages
    block    its steps and its ends; blocks of a multiprocessor work side by side, those beyond come after them
    bounds   what all blocks of the fullest multiprocessor compute and copy, memory, L2; near bounds add up in part

Where more blocks have room than a launch has, those of the next one come early into some multiprocessors' free places
and late into others', so that one may get as many blocks of a launch as it has room for (`unlucky`): room to spare is
no good.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from minitile.hardware import BLOCK_REGISTERS
from minitile.ops.model import ROOM as ROOM_OF_CLUSTERS

ROOM = 228 * 1024  # bytes of a multiprocessor's shared memory
TAKEN = 1024  # of it, that a block takes besides
CLUSTERS = {1: 1.0, **ROOM_OF_CLUSTERS}  # blocks of one, the share of the multiprocessors on which they have room, of
# one block each; of several the rest that is lost is as much smaller
PRODUCER = 128  # threads that copy, where a multiprocessor has as many blocks as it may


class Plan(Protocol):
    """What QuantisedPlan and Fp8Plan have in common."""

    @property
    def block_M(self) -> int: ...
    @property
    def block_N(self) -> int: ...
    @property
    def stages(self) -> int: ...
    @property
    def threads(self) -> int: ...
    @property
    def parts(self) -> int: ...
    @property
    def early(self) -> bool: ...
    @property
    def together(self) -> int: ...


class Kind(NamedTuple):
    """What is multiplied: bits of an element of the weights, and of the rows; instructions that unpack the weights, as
    a share of int4's, and registers of a thread that it takes besides."""

    bits: int = 4
    of_rows: int = 16
    unpacking: float = 1.0
    more: int = 0


FP8 = Kind(8, 8, 0.0)
KINDS = {"int4": Kind(), "int8": Kind(8, 16, 1.27, 16), "e4m3": Kind(8, 16, 1.63)}  # counted in ptxas' code for bf16


class Form(NamedTuple):
    """What plans of fp8 have besides."""

    share: int = 1
    swap: bool = True
    blocks: int = 0


PLAIN = Form()  # what plans of packed weights have: the weights by 64, a block for each tile


@dataclass(frozen=True, slots=True)
class Rates:
    """Units: µs, bytes, bytes per µs.

    start: of a kernel; ends: of a block; bar: of a step of 128. serial: of an element of a weights' tile that a thread
    unpacks, unpacked: where all threads of a multiprocessor do. product: of a product of a step, for a warpgroup; sum:
    of adding one up. latency: of a copy. arriving: bytes into a multiprocessor; memory, l2: of the GPU. blend: the
    exponent with which bounds are added. meet, power: of a cluster of P blocks, meet · P^power; exchange: of the sums
    that they send. shared: by how much longer all takes where blocks of a cluster read the weights together. stored:
    bytes of results. late: what a late trigger costs. unlucky: the share of the room that a launch leaves, that one
    multiprocessor may get. straight: the share of `sum` where rows come by 64; again: the share of `ends` that further
    tiles of a persistent block have; odd: by how much longer results take that the copy engine does not store.
    """

    start: float
    ends: float
    bar: float
    serial: float
    unpacked: float
    product: float
    sum: float
    latency: float
    arriving: float
    memory: float
    l2: float
    blend: float
    meet: float
    power: float
    exchange: float
    shared: float
    stored: float
    late: float
    unlucky: float
    straight: float
    again: float
    odd: float


H200_W4A16 = Rates(
    start=0.3426,
    ends=1.473,
    bar=0.1468,
    serial=2.098e-05,
    unpacked=1.305e-05,
    product=1.96e-07,
    sum=1.571e-06,
    latency=0.5326,
    arriving=331300.0,
    memory=6280000.0,
    l2=38530000.0,
    blend=1.92,
    meet=0.1892,
    power=1.257,
    exchange=6221.0,
    shared=0.0,
    stored=4513.0,
    late=1.661,
    unlucky=0.4997,
    straight=1.0,
    again=1.0,
    odd=1.0,
)
H200_FP8 = Rates(
    start=0.3625,
    ends=1.952,
    bar=0.04246,
    serial=0.0,
    unpacked=0.0,
    product=1.219e-07,
    sum=1.601e-06,
    latency=0.5957,
    arriving=85730.0,
    memory=4735000.0,
    l2=20020000.0,
    blend=2.189,
    meet=0.1037,
    power=1.256,
    exchange=8950.0,
    shared=0.1026,
    stored=15930.0,
    late=0.3939,
    unlucky=0.2195,
    straight=0.4438,
    again=0.1694,
    odd=5.18,
)


def estimate(
    plan: Plan, deep: int, kind: Kind, m: int, n: int, k: int, processors: int, rates: Rates, form: Form = PLAIN
) -> float:
    """Microseconds of M × K rows by N × K weights, in steps of `deep`."""
    high, wide, threads, parts = plan.block_M, plan.block_N, plan.threads, plan.parts
    tiles = -(-m // high) * -(-n // wide) * parts
    room = 1 if form.blocks else blocks_with_room(plan, deep, kind)
    processors = int(processors * (1 - (1 - CLUSTERS.get(parts * form.share, 0.75)) / room))
    all_steps = -(-k // deep)
    steps = -(-all_steps // parts)
    each = -(-tiles // processors)
    rounds = -(-each // min(room, each))
    lucky = tiles > processors * room or not plan.early or form.blocks
    fullest = each if lucky else each + rates.unlucky * (room - each)
    elements = wide * deep * kind.unpacking
    multiply = wide * high * (deep * rates.product + rates.sum * (1 if form.swap else rates.straight))
    step = rates.bar * (deep / 128) ** 0.5 + elements / threads * rates.serial + multiply * 128 / threads
    ragged = not form.swap and n % 8  # rows of results that are no whole 16 bytes
    ends = rates.ends + 2 * high * wide / parts / rates.stored * (rates.odd if ragged else 1)
    all_ends = ends * (1 + (rounds - 1) * rates.again) if form.blocks else ends * rounds
    weights, rows = _step(plan, deep, kind)
    bounds = (
        rounds * steps * max(step, rates.latency / plan.stages) + all_ends,
        fullest * steps * (elements * rates.unpacked + multiply / 2),
        fullest * steps * (weights + rows) / rates.arriving,
        (n * k * weights / (wide * deep) + 2 * m * n) / rates.memory,
        tiles * steps * (weights / form.share + rows) / rates.l2,
    )
    time: float = sum([bound**rates.blend for bound in bounds]) ** (1 / rates.blend) + rates.start
    if parts > 1:
        time += rates.meet * parts**rates.power + high * wide * 4 * (parts - 1) / parts / rates.exchange
    return time * (1 + rates.shared * (form.share > 1)) + (0.0 if plan.early else rates.late)


def _step(plan: Plan, deep: int, kind: Kind) -> tuple[float, int]:
    """Bytes of the weights, with scales of 128 in 16 bits where they are packed, and of the rows that a step brings."""
    scales = 2 / 128 if kind.unpacking else 0
    return plan.block_N * deep * (kind.bits / 8 + scales), plan.block_M * deep * kind.of_rows // 8


def shared_bytes(plan: Plan, deep: int, kind: Kind) -> int:
    """Of a block: its stages; and the others' sums, or its results of 2 bytes on their way."""
    weights, rows = _step(plan, deep, kind)
    scales = 0 if kind.unpacking else -(-plan.block_M // 32) * 128
    tile = plan.block_M * plan.block_N
    return int(plan.stages * (weights + rows + scales) + (tile * 4 * (plan.parts - 1) // plan.parts or tile * 2)) + 256


def blocks_with_room(plan: Plan, deep: int, kind: Kind) -> int:
    """Of a multiprocessor; the registers of a thread are what ptxas uses for such a kernel, or a little more."""
    room = ROOM // (shared_bytes(plan, deep, kind) + TAKEN)
    if plan.together:
        return max(1, min(room, plan.together))
    sums = plan.block_M * plan.block_N / plan.threads
    packed = 3.5 + 55 * plan.block_N * deep / (64 * plan.threads) + 1.4 * sums + kind.more
    used = packed if kind.unpacking else 40 + 2 * sums
    registers = min(-(-int(used) // 8) * 8, BLOCK_REGISTERS // (plan.threads + PRODUCER))
    return max(1, min(room, BLOCK_REGISTERS // (registers * (plan.threads + PRODUCER))))
