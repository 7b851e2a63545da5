"""Which kernel multiplies which matrices: the plans that there are for a problem, of which a model picks one.

There is no search, and nothing is measured when a program runs: `choose` takes the plan of the least estimate.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from minitile.ops.gemv import by_threads
from minitile.ops.machine import Machine
from minitile.ops.model import ROOM, estimate
from minitile.ops.plan import GRAIN, HILBERT, MOST_CLUSTER, Plan, Problem
from minitile.ops.thin import LEAST_STAGES, MOST_STAGES, STAGED, TEAM, plans_by_class, thin_plans


@dataclass(frozen=True, slots=True)
class Tile:
    """A block's tile with its stages and computing threads, for operands of 2 bytes. `persistent`:
    where there are more tiles than multiprocessors; then with so many `teams`."""

    m: int
    n: int
    k: int
    stages: int
    threads: int
    persistent: bool = False
    swap: bool = False
    teams: int = 1


ROWS = (  # of a tile for wgmma, threads that compute it, the most columns that their registers hold
    (64, 128, 256),
    (128, 256, 256),
    (192, 384, 192),
    (256, 256, 128),
)
USUAL = (64, 128, 192, 256)  # columns
SHORT = 4  # steps of K: with so few, results are what takes time, and two buffers of 64 bytes a thread are worth it
AMPERE = (
    Tile(256, 128, 32, 4, 256),
    Tile(128, 128, 64, 3, 128),
    Tile(128, 64, 64, 3, 128),
    Tile(64, 64, 64, 4, 128),
    Tile(64, 32, 64, 4, 128),
)
LEAST_PART, LEAST_SHARE = 256, 128  # of K: where a second kernel adds up the parts, and where a cluster does
MOST_PARTS = 32
CLUSTERS = {64: (8, 4, 2), 128: (8, 4, 2), 192: (6, 3, 2), 256: (8, 4, 2)}  # by rows, of which each has some 8s
ADDED_APART = 128  # rows, of fewer of which no second kernel adds up the parts, but where rows of operands are ragged
SUMS_BESIDE = 128  # of a thread of a swapped tile: with as many, there are no registers left to copy ragged rows by
WHOLE = 7 / 8  # of the rows of tiles, if so many are rows of A
_SMALL = 0.6  # a plan whose tiles are fewer than this share of the multiprocessors may split K
VECTORS = (8, 512, 128), (16, 512, 64)  # of 1 or 2 vectors by threads, of more: the matrix's rows, columns, threads
MOST_AT_ONCE = 2  # vectors of a block by threads


def choose(problem: Problem, machine: Machine, wgmma: bool, shared: int) -> Plan:
    """The plan of the least estimate, for a target with or without wgmma whose blocks have at most `shared` bytes."""
    best, least = None, math.inf
    rates = machine.few if machine.few is not None and problem.few else machine
    for plan in candidates(problem, machine, wgmma, shared):
        time = estimate(problem, plan, rates)
        if time < least:
            best, least = plan, time
    assert best is not None
    return best


def candidates(problem: Problem, machine: Machine, wgmma: bool, shared: int) -> Iterator[Plan]:
    """Tiles that are not far larger than C; with K split where that leaves multiprocessors without work. Ragged
    operands as they lie and, where there is enough to multiply, padded: both, or the smaller one, so that one at least
    comes by the copy engine."""
    known = machine.few is not None  # how long such plans take
    form = by_threads(problem)
    if form is not None and known:
        vectors = problem.n if form.mirrored else problem.m
        rows, columns, threads = VECTORS[vectors > 2]
        yield Plan(max(1, min(vectors, MOST_AT_ONCE)), rows, columns, 1, threads, dots=True)
    few, ragged = problem.few and wgmma and known, problem.ragged
    if few:
        yield from plans_by_class(problem, shared)
        for plan in thin_plans(problem, machine, shared):
            yield plan._replace(pad=ragged) if any(ragged) else plan
            if ragged[1] and plan.block_M * plan.block_N < SUMS_BESIDE * plan.threads:
                yield plan  # padding the weights may take longer than to multiply by them
    for pad in dict.fromkeys([ragged, (False, False)]) if few else _paddings(problem):
        for plan in _padded_so(problem, pad, machine, wgmma, shared, few):
            if not few or (plan.swap if pad != ragged else _besides_thin(problem, plan)):
                yield plan


def _besides_thin(problem: Problem, plan: Plan) -> bool:
    """Whether a plan is one that thin.py has not, and that may be good for few rows."""
    return not plan.swap and (not plan.apart or problem.m >= ADDED_APART)


def _padded_so(
    problem: Problem, pad: tuple[bool, bool], machine: Machine, wgmma: bool, shared: int, few: bool
) -> Iterator[Plan]:
    """The candidates with these operands padded."""
    m, n, k = problem.m, problem.n, problem.k
    processors = machine.multiprocessors
    by_threads = any(ragged and not padded for ragged, padded in zip(problem.ragged, pad, strict=True))
    doubtful = by_threads and problem.flops >= WORTH_PADDING  # the model knows little of them
    deeper = 2 // problem.size or 1
    large = problem.size * k * (m + n) > machine.cached
    for tile in hopper_tiles(problem, processors, shared) if wgmma else AMPERE:
        if (m * 2 <= tile.m > 64) or (n * 2 <= tile.n > 32):
            continue
        if (tile.m + tile.n) * tile.k * 2 * tile.stages > shared or (doubtful and tile.n % 32):
            continue
        count = -(-m // tile.m) * -(-n // tile.n) or 1
        full = -(-m // tile.m) * tile.m * WHOLE <= m
        blocks, panel = 0, 8 if few and full and m > tile.m >= 128 else 0  # what neighbours want comes from memory once
        teams, threads = 1, tile.threads
        if count > processors:
            panel = 8
            if tile.persistent:
                blocks = processors
                if tile.teams > 1 and not by_threads:
                    teams, threads = tile.teams, 128 * tile.teams
                    panel = HILBERT if large else 8
        sizes = tile.m, tile.n, tile.k * deeper, tile.stages, threads
        yield Plan(*sizes, blocks, panel, 1, pad, teams, tile.swap)
        if count > processors * _SMALL:
            continue
        if wgmma:
            stages = _with_sums(tile.m, tile.n, sizes[2] * problem.size, shared)
            stages = stages if stages < tile.stages else tile.stages
            for cluster in CLUSTERS[tile.n if tile.swap else tile.m] if stages >= LEAST_STAGES else ():
                if cluster * LEAST_SHARE <= k and count * cluster <= processors * ROOM[cluster]:
                    yield Plan(*sizes[:3], stages, threads, 0, 0, cluster, pad, 1, tile.swap, True)
        parts = processors // count
        if parts * LEAST_PART > k:
            parts = k // LEAST_PART
        if parts > 1:
            parts = parts if parts < MOST_PARTS else MOST_PARTS
            yield Plan(*sizes, blocks, panel, parts, pad, teams, tile.swap)
            if parts > 3:
                yield Plan(*sizes, blocks, panel, parts // 2, pad, teams, tile.swap)


def _with_sums(high: int, wide: int, deep: int, shared: int) -> int:
    """The stages for which there is room beside the sums that a cluster's blocks send each other, and their results."""
    return (shared - high * wide * 4 - 2048) // ((high + wide) * deep)


def together(plan: Plan, size: int, shared: int) -> Plan | None:
    """The plan with cluster split-K, and no more stages than the partial sums leave room for; None where
    that does not go. Operands have elements of `size` bytes."""
    stages = min(plan.stages, _with_sums(plan.block_M, plan.block_N, plan.block_K * size, shared))
    return plan._replace(stages=stages, together=True) if shares(plan) and stages >= LEAST_STAGES else None


def shares(plan: Plan) -> bool:
    """Whether so many blocks of a cluster can share a tile's rows, of which each has some 8s."""
    rows = plan.block_N if plan.swap else plan.block_M
    return plan.cluster <= MOST_CLUSTER and rows % (8 * plan.split) == 0


def hopper_tiles(problem: Problem, processors: int, shared: int) -> Iterator[Tile]:
    """Tiles for wgmma. Their columns divide C's with little waste, or make the tiles just few enough for one or two
    rounds, or are the usual ones. With few rows, columns of C are the tensor cores' rows.

    Where rows of B are contiguous, the tile's are brought in boxes of 128, 64 or 32 bytes, of which small ones
    are slow, and where rows of C are no whole 16 bytes, warps store them in such pieces: then columns come by 32.
    """
    m, n, k = problem.m, problem.n, problem.k
    whole = n * problem.result % GRAIN == 0  # rows of C
    grain = 8 if n <= 64 else 16 if problem.transpose_b and whole else 32
    for high, threads, most in ROWS:
        rows = -(-m // high) or 1
        if high > 64 and (m * 2 <= high or (high > 128 and rows * n * 4 < processors * 128)):
            break
        least = -(-n // most) or 1
        found = {wide: True for wide in USUAL if wide <= most}
        for columns in (least, least + 1, least + 2, processors // rows, 2 * processors // rows):
            if columns:
                wide = -(-n // (columns * grain)) * grain
                if 16 <= wide <= most:
                    found[wide] = True
        if most == 256 and rows * -(-n // 64) < processors:
            found[32] = True
            if problem.transpose_b:  # else the boxes would be narrow
                found[16] = True
            if n <= 64:
                found[8] = True
        if n <= 8 and most == 256:
            found[8] = True
        many = n > 32 and rows * n > 16 * processors * 128  # rounds of tiles of 128 columns
        for wide in found:
            if many and high * wide < 128 * 128:
                continue
            deep = 128 if high + wide <= 160 and k > 64 else 64
            teams = 2 if high * wide <= TEAM and high <= 128 else 1
            staged = 2048 + 2 * 64 * (threads if threads > 256 or teams == 1 else 256) if k <= SHORT * deep else 0
            stages = (shared - (staged if staged > STAGED else STAGED)) // ((high + wide) * deep * 2)
            stages = stages if stages < MOST_STAGES else MOST_STAGES
            yield Tile(high, wide, deep, stages, threads, True, teams=teams)
    swapped = []
    if m <= 64:
        high = -(-m // 8) * 8 or 8
        swapped = [(high, 64), (high, 128), (high, 192)]
    for high in (8, 16):  # of small problems, the smaller the tiles the better, as long as there are multiprocessors
        if high < m and -(-m // high) * -(-n // 64) <= processors:
            swapped.append((high, 64))
    for high, wide in swapped:
        deep = 128 if high + wide <= 160 and k > 64 else 64
        stages = (shared - STAGED) // ((high + wide) * deep * 2)
        yield Tile(high, wide, deep, stages if stages < MOST_STAGES else MOST_STAGES, wide * 2, swap=True)


def _paddings(problem: Problem) -> Iterator[tuple[bool, bool]]:
    """Small operands come through the caches however they lie."""
    yield False, False
    if problem.flops >= WORTH_PADDING and any(problem.ragged):
        yield problem.ragged
        if all(problem.ragged):
            yield problem.m <= problem.n, problem.n < problem.m


WORTH_PADDING = 2e8  # flops; a guess: some 30 µs of one kernel that copies element by element
