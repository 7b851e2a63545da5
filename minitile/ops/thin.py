"""Plans for few rows by a large matrix of weights, which comes from memory: what serving multiplies all day.

The rows are the columns of the tensor cores, which come by 8: all of them are in one tile, or in two next to each
other, so that the weights come from memory once. A tile has 64 to 256 columns of C. Where there are fewer tiles than
multiprocessors, K is split, and the parts are added up in a cluster, or by a second kernel; blocks with neighbouring
columns may be a cluster that reads the rows once. Two tiles of rows in a cluster that reads the weights once were
measured to gain nothing up to 256 rows, since L2 has what the other one has just read; of more rows they are among the
plans.
"""

from __future__ import annotations

from collections.abc import Iterator

from minitile.analysis.register_budget import PRODUCER_THREADS
from minitile.hardware import BLOCK_REGISTERS
from minitile.ops.machine import Machine
from minitile.ops.model import ROOM
from minitile.ops.plan import EDGE, MOST_CLUSTER, Plan, Problem

WIDTHS = ((64, 128), (128, 256), (192, 384), (256, 256))  # columns of C, threads
IN_ONE = 256  # rows of a tile
MOST_BY_CLASS = 64  # rows of a plan by classes; of 128, 33 µs were measured where other plans take 31
TWO_WARPGROUPS, AT_MOST = 128, 200  # rows of a tile of 256 columns: what was measured, and for what registers do
TEAM = 128 * 192  # elements of a tile that one warpgroup's registers hold
MOST_SUMS, TURNING = 80, 72  # of a thread that turns f32 results, and the registers it needs besides
SPLITS, SHARES = (2, 3, 4, 6, 8), (1, 2, 4)
LEAST_SHARE = 256  # of K
HALVES = 128  # rows, of which more may be in two tiles
APART = 1 / 3  # of the multiprocessors, if more have tiles of one of two rows, a second kernel may add up two parts
DEEP = 160  # rows and columns of a tile whose steps are 128 of K
LEAST_STAGES, MOST_STAGES = 3, 8
STAGED = 27 * 1024  # bytes that results may take on their way
ENOUGH = 5  # stages; where there are fewer, one more is worth less room for results
LONE, BARRIERS = 32, 1024  # elements of a thread in a box of 64 × 64 of its warpgroup; bytes


def thin_plans(problem: Problem, machine: Machine, shared: int, every: bool = False) -> Iterator[Plan]:
    """What may suit a problem, for wgmma and blocks of at most `shared` bytes. every: also what is rarely best:
    clusters that share few rows, the other depth of a step, and clusters that share the weights."""
    yield from _in_tiles(problem, machine, shared, every, -(-problem.m // IN_ONE) or 1)
    if IN_ONE < problem.m <= 2 * IN_ONE:
        yield from _in_pairs(problem, machine, shared)
    if HALVES < problem.m <= IN_ONE:
        for plan in _in_tiles(problem, machine, shared, every, 2):
            if plan.share == 1:
                beside = plan._replace(panel=0 if plan.together else 8)
                yield beside
                if every and plan.blocks % 2 == 0 and plan.split * 2 <= MOST_CLUSTER:
                    yield beside._replace(share_rows=2)
                tiles = -(-problem.m // plan.block_M) * -(-problem.n // plan.block_N)
                if plan.split == 1 and not plan.blocks and APART < tiles / machine.multiprocessors < 1:
                    yield beside._replace(split=2)


def _in_pairs(problem: Problem, machine: Machine, shared: int) -> Iterator[Plan]:
    """Two tiles of rows in a cluster, of more than fit one, where most multiprocessors get one."""
    for plan in _in_tiles(problem, machine, shared, False, 2):
        most = -(-problem.n // plan.block_N) * 4 > machine.multiprocessors
        if plan.share == plan.split == 1 and not plan.blocks and plan.block_N <= 128 and most:
            yield plan._replace(panel=8, share_rows=2)


def plans_by_class(problem: Problem, shared: int, every: bool = False) -> Iterator[Plan]:
    """Plans by classes of rows (ragged.py), for wgmma and blocks of at most `shared` bytes."""
    high = -(-problem.m // 8) * 8 or 8
    if not problem.by_class or high > MOST_BY_CLASS:
        return
    for wide, threads in WIDTHS[:2]:
        for deep in (64, 128) if every or high + wide > DEEP else (128,):
            box, beside = (high + wide) * deep * 2, (high + wide) * (deep + EDGE) * 2 + 2 * BARRIERS
            stages = min(MOST_STAGES, (shared - beside) // box)
            if stages >= LEAST_STAGES:
                yield Plan(high, wide, deep, stages, threads, swap=True, by_class=True)


def _in_tiles(problem: Problem, machine: Machine, shared: int, every: bool, count: int) -> Iterator[Plan]:
    """Plans with so many tiles of rows."""
    m, n, k, processors = problem.m, problem.n, problem.k, machine.multiprocessors
    each = -(-m // count)
    for wide, threads in WIDTHS:
        for share in SHARES:
            grain = 64 if problem.transpose_a else 8 * share  # boxes of 128 bytes where rows lie across
            high = -(-each // grain) * grain or grain
            if high > IN_ONE or (wide == 256 and high > (AT_MOST if every else TWO_WARPGROUPS)):
                continue
            if share > 1 and (high < (32 if every else 64) or 4 * share * wide > n):
                continue
            tiles = -(-m // high) * -(-n // wide)
            depths = (64, 128) if high + wide <= 256 and k > 64 else (64,)
            alone = depths[-1:] if high + wide <= DEEP else (64,)  # where B lies across, either may be the better one
            for deep in depths if every or (high + wide <= DEEP and not problem.transpose_b) else alone:
                base = Plan(high, wide, deep * 2 // problem.size, 0, threads, swap=True, share=share)
                yield from _filled(base, problem, tiles, processors, shared, every)


def _filled(base: Plan, problem: Problem, tiles: int, processors: int, shared: int, every: bool) -> Iterator[Plan]:
    """The plan with stages, and in parts or persistent, as its tiles are fewer or more than multiprocessors."""
    box = (base.block_M + base.block_N) * base.block_K * problem.size
    area, share = base.block_M * base.block_N, base.share
    whole = min(MOST_STAGES, (shared - STAGED) // box)
    if whole < ENOUGH:
        whole = max(whole, min(ENOUGH, (shared - LONE * problem.result * base.threads - BARRIERS) // box))
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
        if share == 1 and whole >= LEAST_STAGES and area <= sums * base.threads:
            yield base._replace(stages=whole, split=split)
