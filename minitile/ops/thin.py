"""Plans for few rows by a large matrix of weights, which comes from memory: what serving multiplies all day.

The rows are the columns of the tensor cores, which come by 8: all of them are in one tile (or two), and the weights are
read once. A tile has 64 to 256 columns of C. Where there are fewer tiles than multiprocessors, K is split, and the
parts are added up in a cluster; blocks with neighbouring columns may be a cluster that reads the rows once.
"""

from __future__ import annotations

from collections.abc import Iterator

from minitile.analysis.register_budget import PRODUCER_THREADS
from minitile.hardware import BLOCK_REGISTERS
from minitile.ops.machine import Machine
from minitile.ops.model import ROOM
from minitile.ops.plan import Plan, Problem

WIDTHS = ((64, 128), (128, 256), (192, 384), (256, 256))  # columns of C, threads
IN_ONE = 256  # rows of a tile
TWO_WARPGROUPS = 128  # rows of a tile of 256 columns
TEAM = 128 * 192  # elements of a tile that one warpgroup's registers hold
MOST_SUMS, TURNING = 80, 72  # of a thread that turns f32 results, and the registers it needs besides
SPLITS, SHARES = (2, 3, 4, 6, 8), (1, 2, 4)
MOST_CLUSTER = 8
LEAST_SHARE = 256  # of K
DEEP = 160  # rows and columns of a tile whose steps are 128 of K
LEAST_STAGES, MOST_STAGES = 3, 8
STAGED = 27 * 1024  # bytes that results may take on their way


def thin_plans(problem: Problem, machine: Machine, shared: int, every: bool = False) -> Iterator[Plan]:
    """What may suit a problem, for wgmma and blocks of at most `shared` bytes. every: also what is rarely best,
    clusters that share few rows and the other depth of a step."""
    m, n, k, processors = problem.m, problem.n, problem.k, machine.multiprocessors
    each = m if m <= IN_ONE else -(-m // -(-m // IN_ONE))
    for wide, threads in WIDTHS:
        for share in SHARES:
            grain = 64 if problem.transpose_a else 8 * share  # boxes of 128 bytes where rows lie across
            high = -(-each // grain) * grain or grain
            if high > IN_ONE or (wide == 256 and high > TWO_WARPGROUPS) or (share > 1 and high < (32 if every else 64)):
                continue
            tiles = -(-m // high) * -(-n // wide)
            depths = (64, 128) if high + wide <= 256 and k > 64 else (64,)
            for deep in depths if every else depths[-1:] if high + wide <= DEEP else (64,):
                base = Plan(high, wide, deep * 2 // problem.size, 0, threads, swap=True, share=share)
                yield from _filled(base, problem, tiles, processors, shared)


def _filled(base: Plan, problem: Problem, tiles: int, processors: int, shared: int) -> Iterator[Plan]:
    """The plan with stages, and in parts or persistent, as its tiles are fewer or more than multiprocessors."""
    box = (base.block_M + base.block_N) * base.block_K * problem.size
    area, share = base.block_M * base.block_N, base.share
    whole = min(MOST_STAGES, (shared - STAGED) // box)
    sums = min(MOST_SUMS, BLOCK_REGISTERS // (base.threads + PRODUCER_THREADS) - TURNING)
    if whole >= LEAST_STAGES and (problem.result == 2 or area <= sums * base.threads):
        yield base._replace(stages=whole)
        if tiles > processors:
            blocks = int(processors * ROOM.get(share, 1.0)) // share * share
            yield base._replace(stages=whole, blocks=blocks, panel=8)
            if area <= TEAM and (problem.result == 2 or area <= MOST_SUMS * 128):
                yield base._replace(stages=whole, blocks=blocks, panel=8, teams=2, threads=256)
            half = min(MOST_STAGES, (shared // 2 - 4096 - area * problem.result) // box)
            if half >= LEAST_STAGES and base.block_N <= 128:  # two blocks of a multiprocessor
                yield base._replace(stages=half)
    for split in SPLITS:
        cluster = split * share
        if base.block_N % (8 * split) or cluster > MOST_CLUSTER or problem.k < split * LEAST_SHARE:
            continue
        if not processors * 0.4 <= tiles * split <= processors * 2.2:
            continue
        room = shared - 2048 - area * 4 * (split - 1) // split - area * problem.result // split
        if room // box >= LEAST_STAGES:
            yield base._replace(stages=min(MOST_STAGES, room // box), split=split, together=True)
