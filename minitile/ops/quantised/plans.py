"""Plans for few rows by weights of 4 and 8 bits, and which one is chosen."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple, TypeVar

from minitile.hardware import BLOCK_REGISTERS
from minitile.ops.quantised.cost import (
    FP8,
    H200_FP8,
    H200_W4A16,
    KINDS,
    ROOM,
    TAKEN,
    Form,
    Kind,
    estimate,
    shared_bytes,
)

MOST_KNOWN = 4096  # choices that are kept: odd rows are padded in each call, which then looks its plan up
PARTS = (1, 2, 4, 8)  # blocks of a cluster along K
LEAST = 4  # steps of K that a block has
SCALED = 128  # of K, that have one scale
FORMS = (  # columns, threads, of K
    (64, 128, 128),
    (128, 256, 128),
    (256, 256, 128),
    (64, 128, 256),
    (128, 256, 256),
    (64, 128, 512),
)
MOST_OF_A_TILE = 4096  # rows times columns of sums, for which registers do
MOST_SHARED = 227 * 1024
# Blocks of a multiprocessor that registers do for, by rows, columns, and groups of a step.
TOGETHER = {
    (8, 64, 1): 6,
    (8, 64, 2): 4,
    (16, 64, 1): 5,
    (32, 64, 1): 4,
    (8, 128, 1): 3,
    (16, 128, 1): 3,
    (16, 128, 2): 2,
}
TOGETHER_FP8 = {(8, 64): 5, (16, 64): 5, (32, 64): 4, (64, 64): 2}


# Of fp8, rows that come by 64:
ROWS_BY_64 = ((64, 128), (128, 256), (192, 384))  # of a tile, threads
WIDTHS = (64, 80, 96, 112, 128, 160, 192)  # columns of a tile
MOST_OF_A_THREAD = {128: 96, 256: 96, 384: 64}  # sums, and as many products, by threads
MOST_STAGES = 6
ONE_WARP = 32  # threads that copy, where several blocks share a multiprocessor
OTHERS, OF_A_SCALE = 28, 4  # registers of a thread besides, and for each scale of a tile's columns


class QuantisedPlan(NamedTuple):
    """How `matmul_quantised` computes. Tiles: block_M rows of a, block_N of the weights, block_K of the sum.

    stages: steps of K on their way. threads: of those that compute, 128 for each 64 columns, or for 128. parts: of
    split-K, the blocks of a cluster. sums: scales are multiplied with the sums of a group, else with the weights.
    all_reduce: all blocks of a cluster get all sums. early: the next kernel may be set up from the start on. together:
    blocks of a multiprocessor that registers must suffice for, whose copies one warp makes; 0: as it comes.
    """

    block_M: int
    block_N: int = 64
    block_K: int = 128
    stages: int = 4
    threads: int = 128
    parts: int = 1
    sums: bool = True
    all_reduce: bool = False
    early: bool = True
    together: int = 0

    def __str__(self) -> str:
        return _words(self, self.block_K) + (", scaled sums" if self.sums else ", scaled weights")


class Fp8Plan(NamedTuple):
    """How `matmul_fp8` computes: block_M, block_N, stages, threads, parts, all_reduce, early and together are as of
    QuantisedPlan, a step is 128 of K. share: so many blocks with neighbouring rows are a cluster, which reads the
    weights once; parts is 1 then. swap: the weights are what comes by 64, else the rows, and threads are 128 for each
    64 rows, or for more. blocks: so many persistent ones, without clusters, 0: one for each tile."""

    block_M: int
    block_N: int = 64
    stages: int = 4
    threads: int = 128
    parts: int = 1
    all_reduce: bool = False
    early: bool = True
    together: int = 0
    share: int = 1
    swap: bool = True
    blocks: int = 0

    @property
    def form(self) -> Form:
        """What its kernel differs by from others, besides sizes."""
        return Form(self.share, self.swap, self.blocks)

    def __str__(self) -> str:
        words = _words(self, SCALED, self.share) + ("" if self.swap else ", rows by 64")
        return words + (f", {self.blocks} blocks" if self.blocks else "")


def _words(plan: QuantisedPlan | Fp8Plan, deep: int, share: int = 1) -> str:
    """What both kinds have, in steps of `deep`."""
    words = f"{plan.block_M}x{plan.block_N}x{deep}, {plan.stages} stages, {plan.threads} threads"
    words += f", cluster of {plan.parts} along K" if plan.parts > 1 else ""
    words += f", cluster of {share} along M" if share > 1 else ""
    words += ", all-reduce" if plan.all_reduce else ""
    words += "" if plan.early else ", trigger late"
    return words + (f", {plan.together} together" if plan.together else "")


AnyPlan = TypeVar("AnyPlan", QuantisedPlan, Fp8Plan)
SPARE = 4096  # bytes of shared memory: scales, barriers


def within(plan: AnyPlan, clusters: bool, rows: int, shared: int, step: tuple[int, int]) -> AnyPlan:
    """The plan as a target without clusters, whose products come in multiples of so many rows, or with less shared
    memory can do it. step: the bytes of a row of a tile, and of a row of the weights, in a step."""
    if not clusters:
        plan = plan._replace(parts=1, share=1) if isinstance(plan, Fp8Plan) else plan._replace(parts=1)
    plan = plan._replace(block_M=-(-plan.block_M // rows) * rows)
    most = (shared - SPARE) // (plan.block_M * step[0] + plan.block_N * step[1])
    return plan._replace(stages=max(1, min(plan.stages, most)))


def rows_of(m: int, most: int = 128) -> int:
    """Rows of a tile: all of a few, else even shares of whole 8."""
    shares = -(-m // most)
    least = -(-m // shares)
    return next((n for n in (8, 16, 32, 64) if n >= least), -(-least // 16) * 16)


def parts_of(tiles: int, steps: int, processors: int) -> list[int]:
    """Those that leave neither most multiprocessors idle nor many more blocks than there is room for."""
    found = [p for p in PARTS if steps >= 2 * p and 0.45 * processors <= tiles * p <= 5 * processors]
    return found or [1 if tiles > processors else max(p for p in PARTS if p == 1 or steps >= 2 * p)]


def parts_for(tiles: int, steps: int, processors: int, blocks: int, most: int) -> int:
    """As many as give each multiprocessor `blocks`, and each block LEAST steps."""
    best = 1
    for parts in PARTS:
        if parts <= most and tiles * parts <= processors * blocks and steps >= parts * LEAST:
            best = parts
    return best


@lru_cache(maxsize=MOST_KNOWN)
def choose_quantised(
    m: int, n: int, k: int, group: int, processors: int, wgmma: bool, format: str = "int4"
) -> QuantisedPlan:
    """For M × K rows and N × K weights in groups on so many multiprocessors: of up to 32 rows and groups of 128 the
    plan of the least estimate (cost.py), whose numbers are W4A16's; other formats have their bytes and instructions.

    Others by rule. A block reads as many bytes of the rows as of the weights where it has four times as many columns
    (int4) as rows: so tiles grow with the rows. Scales of groups of 32 go to the weights, and from 65 rows on all
    do."""
    rows = rows_of(m)
    if wgmma and group == SCALED and rows <= 32:
        kind = KINDS[format]
        found = quantised_plans(rows, n, k, processors, kind)
        return min(found, key=lambda plan: estimate(plan, plan.block_K, kind, m, n, k, processors, H200_W4A16))
    wide = 64 if rows <= 8 else 128
    sums = group >= 64 and rows <= 64
    deep = max(group, 128) if rows <= 32 or not sums else group
    stages = (5 if wide == 64 else 4) if rows <= 64 else 3
    tiles = -(-n // wide) * -(-m // rows)
    blocks = 3 if wide == 64 else 2 if rows <= 32 else 1
    parts = parts_for(tiles, -(-k // deep), processors, blocks, 8) if wgmma else 1
    together = TOGETHER.get((rows, wide, deep // group), 0) if wgmma and sums else 0
    return QuantisedPlan(rows, wide, deep, stages, wide * 2, parts, sums, together=together)


def quantised_plans(rows: int, n: int, k: int, processors: int, kind: Kind) -> Iterator[QuantisedPlan]:
    """What may suit up to 32 rows by weights in groups of 128."""
    for wide, threads, deep in FORMS:
        if wide * rows > MOST_OF_A_TILE:
            continue
        together = TOGETHER.get((rows, wide, 1), 0) if deep == SCALED else 0
        if (wide, deep) == (64, 256) and not (kind.more and rows > 16):
            together = 3
        for parts in parts_of(-(-n // wide), -(-k // deep), processors):
            for stages in (2, 4) if deep > SCALED else (3, 5, 8):
                plan = QuantisedPlan(rows, wide, deep, stages, threads, parts)
                if shared_bytes(plan, deep, kind) > MOST_SHARED:
                    continue
                yield plan
                if together and together * (shared_bytes(plan, deep, kind) + TAKEN) <= ROOM:
                    yield plan._replace(together=together)


@lru_cache(maxsize=MOST_KNOWN)
def choose_fp8(m: int, n: int, k: int, processors: int, wgmma: bool = True) -> Fp8Plan:
    """For M × K rows and N × K weights on so many multiprocessors: the plan of the least estimate (cost.py). Without
    wgmma the weights come by 64."""
    found = (plan for plan in fp8_plans(m, n, k, processors) if wgmma or plan.swap)
    return min(found, key=lambda plan: estimate(plan, SCALED, FP8, m, n, k, processors, H200_FP8, plan.form))


def fp8_plans(m: int, n: int, k: int, processors: int) -> Iterator[Fp8Plan]:
    """What may suit: the weights by 64, with one tile of up to 64 rows, else tiles of up to 128; of more than 32 rows
    also the rows by 64."""
    steps = -(-k // SCALED)
    for shares in range(-(-m // 128), -(-m // 64) + 1):
        rows = rows_of(m) if shares == 1 else -(-m // shares) + 7 & ~7
        for wide in (64, 128) if rows <= 64 else (128,):
            for parts in parts_of(-(-n // wide) * shares, steps, processors):
                for stages in (3, 4, 6) if rows <= 64 else (4,):
                    plan = Fp8Plan(rows, wide, stages, wide * 2, parts)
                    together = TOGETHER_FP8.get((rows, wide), 2 if wide == 128 and 32 < rows <= 64 else 0)
                    yield from _fitting(plan, plan._replace(together=together))
    if m > 32:
        for high, threads in ROWS_BY_64:
            if high < m + 64 and (high <= 128 or high >= m):
                yield from _straight(high, threads, m, n, steps, processors)


def _straight(high: int, threads: int, m: int, n: int, steps: int, processors: int) -> Iterator[Fp8Plan]:
    """Tiles of any width, those of few rows several to a multiprocessor; persistent ones where there are more of them
    than multiprocessors."""
    for wide in WIDTHS:
        if high * wide > threads * MOST_OF_A_THREAD[threads]:
            continue
        tiles = -(-n // wide) * -(-m // high)
        plan = Fp8Plan(high, wide, 1, threads, swap=False)
        for parts in parts_of(tiles, steps, processors):
            yield from _fitting(*(_deep(plan._replace(parts=parts, together=many)) for many in (0, 2, 3)))
        if tiles > processors:
            yield from _fitting(_deep(plan._replace(blocks=processors)))


def _deep(plan: Fp8Plan) -> Fp8Plan:
    """With as many stages as have room, where it shares a multiprocessor with its like in its part of it."""
    each = shared_bytes(plan._replace(stages=2), SCALED, FP8) - shared_bytes(plan, SCALED, FP8)
    room = (ROOM // plan.together - TAKEN if plan.together else MOST_SHARED) - shared_bytes(plan, SCALED, FP8)
    return plan._replace(stages=min(1 + room // each, MOST_STAGES) if room > 0 else 0)


def _fitting(*plans: Fp8Plan) -> Iterator[Fp8Plan]:
    """Those that have room, with as many of their like as they say, and registers for that."""
    for plan in dict.fromkeys(plans):
        shared, many = shared_bytes(plan, SCALED, FP8), plan.together
        sums = 2 * plan.block_M * plan.block_N // plan.threads
        of_a_thread = sums + OTHERS + OF_A_SCALE * plan.block_N // math.gcd(plan.block_N, SCALED)
        registers = 0 if plan.swap else (plan.threads + ONE_WARP) * of_a_thread
        has_room = shared <= MOST_SHARED and many * (shared + TAKEN) <= ROOM and many * registers <= BLOCK_REGISTERS
        if has_room and plan.stages >= 2 + (many > 0):
            yield plan
