"""How long a plan takes: an analytic model of a GEMM M × N × K on a GPU, without measuring anything.

    step    a block's tiles of one block_K: the slowest of multiplying them, bringing them into shared memory, and what
            one warpgroup alone takes; all steps take no less than the latency of copies, `stages` of them under way
    store   a tile of C, from registers: by boxes through a ring of one or two buffers, or row by row
    block   all that a multiprocessor does for the tiles that it gets, the fullest one: the last round may be nearly
            empty. In a persistent kernel, a part of each store is behind the next tile; ping-pong teams alternate

Besides, all multiprocessors share the caches (all that is brought; what is brought for the first time), memory, and
power. Bounds that are near to each other add up in part. At last come the launch, and the kernels before and after it:
padding operands, adding up the sums of split-K. The numbers are in machine.py.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

from minitile.analysis.register_budget import PRODUCER_THREADS
from minitile.hardware import BLOCK_REGISTERS, WARPGROUP
from minitile.ops.machine import Machine
from minitile.ops.plan import GRAIN, LINE, Plan, Problem, classes_of

ROOM = {2: 1.0, 3: 0.9, 4: 0.85, 6: 0.75, 8: 0.75}  # of all multiprocessors, for clusters of so many blocks, which lie
# in one part of the GPU each: on an H200, 30 clusters of 4 and 15 of 8 found no room at the same time
OTHER_REGISTERS = 26  # of a thread, besides its sums
GROUP_ROWS = 64  # that a warpgroup stores at a time
OTHERS = 1200  # bytes of shared memory: barriers
SQUARE = 12  # tiles: the side of what a wave has in Hilbert order
ODD_DOT = 0.12  # by how much longer a matrix by threads comes for each further vector whose elements lie at odd places
READ_AGAIN = 0.35  # of the time that a matrix by threads takes, what it takes once more, with the next vectors
SCATTERED = 2e-5  # µs of an element of C that is stored alone, by a plan by classes
EXPOSED = 1.4  # µs that a step takes at least whose elements of 2 bytes come from memory, through registers
ALONE = 1.35  # by how much longer one warpgroup takes to copy what comes from memory than several
MOVING = 16  # flops that take the power that bringing an element takes; a guess
COLD = 0.05  # a guess: the share of what fits in L2, and is not there from the kernel before


def estimate(problem: Problem, plan: Plan, machine: Machine) -> float:
    """Microseconds that the GPU needs."""
    if machine.few is not None and problem.few:
        machine = machine.few
    m, n, k, *_, size, result, products = problem
    high, wide, deep, stages, threads, blocks, panel, split, pad, teams, swap, together, sharing, *_, dots = plan[:15]
    below = plan.share_rows
    if dots:
        return _dots(problem, plan, machine)
    apart = split > 1 and not together
    cluster = sharing * below * (split if together else 1)
    processors = int(machine.multiprocessors * ROOM.get(cluster, 0.75)) if cluster > 1 else machine.multiprocessors
    classes = classes_of(k) if plan.by_class else 1
    rows, columns = -(-m // high) or 1, -(-n // (wide * classes)) * classes or 1
    tiles = rows * columns * split
    each = -(-tiles // processors)  # tiles of the fullest multiprocessor
    steps = -(-k // (deep * split))
    share = tiles / (each * machine.multiprocessors)  # of the time that multiprocessors have work

    # Bringing the tiles of a step. A line costs the same however little of it is wanted.
    a = _brought(m, k, problem.transpose_a, pad[0] or plan.by_class, high, rows, deep, size, machine)
    b = _brought(n, k, not problem.transpose_b, pad[1] or plan.by_class, wide, columns, deep, size, machine)
    by_warps = a.by_threads and b.by_threads
    fill = a.time * (1 - machine.multicast * (1 - 1 / sharing)) + b.time * (1 - machine.multicast * (1 - 1 / below))
    fill *= 1 - machine.eased * (1 - share)
    if by_warps:
        fill *= machine.all_copy * (ALONE if machine.cold and threads == WARPGROUP else 1.0)

    # Multiplying them: wgmma of 64 × n × 16 takes n/2 cycles and some more, and reads shared memory meanwhile.
    height, side = (wide, high) if swap else (high, wide)
    multiply = high * wide * deep * size / machine.flops
    if side < 64:
        multiply *= (machine.thin + (1 - machine.thin / 64) * side) / side
    multiply *= (machine.by_warps if by_warps else 1.0) * (1 + machine.side / side)
    if height == 64:
        multiply *= machine.low
    elif height > 128:
        multiply *= machine.tall
    gap = machine.gap * deep * size / LINE
    turns = multiply / machine.turns if teams > 1 else multiply
    busy = turns if turns > fill else fill
    if by_warps:
        busy += machine.in_turn * min(turns, fill)
    # What passes through shared memory: copies in, and each wgmma's 64 rows and all columns out. Fitted: by counters it
    # is no limit (decision 212), but the choice is better with it.
    passing = (high + wide + (0 if by_warps else -(-height // 64) * (64 + side))) * deep * size / machine.port
    step = max(busy, passing, turns * WARPGROUP / threads + gap / teams)
    if machine.cold and (a.through_registers or b.through_registers):
        step = max(step, EXPOSED)
    waits = machine.latency / (stages - 1)  # for one of the steps beyond those under way from the start

    # Storing a tile.
    width = 4 if apart else result
    area = m * n * width / (rows * columns)
    ragged = n * result % GRAIN != 0 and split == 1
    store = area / machine.store + m / rows * max(1.0, n / columns * width / LINE) * machine.row
    if ragged or together:
        store += machine.box
        if ragged:
            store *= machine.odd if n * result % 8 else 1.0
            store *= (machine.odd_width if wide % 64 else 1.0) * (machine.odd_teams if teams > 1 else 1.0)
        waited = store
    else:
        across = _across(wide)
        groups = threads // WARPGROUP or 1
        parts = max(1.0, side / GROUP_ROWS) if swap else wide / across  # a swapped tile's columns are rows of C
        parts *= max(1.0, height / GROUP_ROWS / (1 if teams > 1 else groups))
        free = machine.shared - 1024 - OTHERS - stages * (high + wide) * deep * size
        two = parts < 2 or 2 * GROUP_ROWS * across * width * groups <= free
        store += parts * (2 if apart else 1) * (machine.box if two else machine.lone_box)
        waited = store * machine.waited

    # What a multiprocessor does, from the first tile's last copy to the last tile's store.
    between = machine.tile + waited
    if blocks:
        whole = max(each * steps * step, (each * steps - stages + 1) * waits) + (each - 1) * between / teams
        if teams > 1:
            whole = max(whole, -(-each // teams) * (steps * (multiply + gap) + between) - between)
        whole = max(whole, (each - 1) * area / machine.drain)
        if panel < 0:
            whole += each * machine.curve
    else:
        resident = 1 if each == 1 else _resident(plan, size, result, each, machine)
        rounds = -(-each // resident)
        whole = rounds * max(steps * step, (steps - stages + 1) * waits)
        whole += (rounds - 1) * (machine.again + fill + store)
        whole = max(whole, each * steps * busy, (each - 1) * area / machine.drain)
        if resident > 1:
            whole *= machine.crowded
    whole += machine.block + machine.all_at_once * share + fill + store
    if wide % 32 and wide > 24 and not swap:
        whole *= machine.uneven

    # What all multiprocessors share.
    fresh = _fresh(problem, plan, rows, columns, machine)
    again = 0.0 if panel or below > 1 else machine.missed_again * (rows - 1)
    written = m * n * (4 * split if apart else result)
    held = size * k * (m + n * products) + m * n * result + (written if apart else 0)
    held += size * k * ((m if pad[0] else 0) + (n if pad[1] else 0))
    missed = 1.0 if machine.cold else min(1.0, max(COLD, (held - machine.cached) / machine.spilling))
    bounds = (
        whole,
        tiles * steps * (a.lines / sharing + b.lines / below) * LINE / machine.l2,
        fresh / machine.fresh,
        missed * (written + fresh * (1 + again)) / machine.dram,
        written / machine.writing,
        tiles * steps * deep * (2.0 * high * wide + MOVING * (high + wide)) / machine.power,
    )
    time: float = sum([bound**machine.blend for bound in bounds]) ** (1 / machine.blend) + machine.start

    if blocks:
        time *= machine.fixed
    if sharing * below > 1:
        time += machine.clustered

    # The kernels before and after.
    if pad[0] or pad[1]:
        time += machine.after + 2 * size * k * ((m if pad[0] else 0) + (n if pad[1] else 0)) / machine.padding
    if plan.by_class:
        time += machine.after + 2 * size * k * m * classes / machine.padding + SCATTERED * m * n
    if together:
        time += machine.meet + machine.meet_each * split + high * wide * 4 * (1 - 1 / split) / machine.meeting
    elif apart:
        bytes_ = m * n * (4 * split + result)
        time += machine.after + machine.part * split + bytes_ / machine.adding + missed * bytes_ / machine.dram
    return time


def _dots(problem: Problem, plan: Plan, machine: Machine) -> float:
    """A plan by threads: the matrix is read once for each block_M vectors, each of which takes time; the first time it
    comes from memory."""
    few, rows = (problem.m, problem.n) if problem.m <= problem.n else (problem.n, problem.m)
    times = 1 + READ_AGAIN * (-(-few // plan.block_M) - 1)
    bytes_ = rows * problem.k * problem.size
    each = 1 + machine.dot * plan.block_M + (ODD_DOT * (plan.block_M - 1) if any(problem.ragged) else 0.0)
    return machine.start + machine.dot_start + times * bytes_ * each / machine.dots


class _Brought(NamedTuple):
    """An operand's tile of a step: µs that bringing it takes; the lines that are inside of the operand; whether threads
    copy it, and whether through registers, since no copy to shared memory has less than 4 bytes."""

    time: float
    lines: float
    by_threads: bool
    through_registers: bool = False


def _brought(
    mn: int, k: int, along_mn: bool, pad: bool, extent: int, count: int, deep: int, size: int, machine: Machine
) -> _Brought:
    """A tile of `extent` rows of an operand with `mn`, one of `count`; along_mn: these are contiguous."""
    pitch = (mn if along_mn else k) * size
    grain = LINE if pad else math.gcd(pitch, LINE)
    inside = mn / (count * extent)
    if along_mn:
        box = extent * size & -(extent * size)  # the largest power of 2 that divides it
        box = box if box < LINE else LINE
        lines = deep * extent * size / box
    else:
        box, lines = LINE, extent * deep * size / LINE
    if box > grain:  # a row begins anywhere at this grain
        lines *= 1 + (box - grain) / LINE
    if grain < GRAIN:
        chunk = machine.chunk if grain >= 4 else machine.element
        return _Brought(inside * extent * deep * size / grain * chunk, lines * inside, True, grain < 4)
    return _Brought(lines * machine.line * (inside + (1 - inside) * machine.outside), lines * inside, False)


@lru_cache
def _across(wide: int) -> int:
    """How many of a tile's columns are stored together (`widths` in backends/nvidia/hopper/tma_store.py, for 2
    bytes)."""
    if wide % 64 == 0 or wide == 32:
        return min(wide, 64)
    fit = (c for c in range(min(wide, 128), 0, -1) if wide % c == 0 and c % 8 == 0 and math.gcd(2 * c, LINE) <= 32)
    return next(fit, wide)


def _fresh(problem: Problem, plan: Plan, rows: int, columns: int, machine: Machine) -> float:
    """Bytes of the operands that come into the multiprocessors, each counted once for all tiles of one wave."""
    at_once = max(1.0, min(machine.multiprocessors, rows * columns * plan.split) / plan.split)
    high = (plan.panel if plan.panel > 0 else SQUARE) if plan.panel else max(1.0, -(-at_once // columns))
    each = -(-rows // problem.products)
    high = high if high < each else each
    wide = min(columns, -(-at_once // high))
    waves = max(1.0, rows * columns / (high * wide))
    both = min(high * plan.block_M, problem.m) + min(wide * plan.block_N, problem.n)
    return waves * both * problem.k * problem.size


def _resident(plan: Plan, size: int, result: int, each: int, machine: Machine) -> int:
    """How many blocks a multiprocessor has room for, of those that it gets; a part of each one's results waits in
    shared memory to be stored."""
    high, wide, threads = plan.block_M, plan.block_N, plan.threads
    registers = (high * wide // threads + OTHER_REGISTERS + 7) // 8 * 8
    staged = high * wide * result if wide <= 128 else high * 64 * result
    return max(
        1,
        min(
            each,
            machine.shared // (plan.stages * (high + wide) * plan.block_K * size + staged + 1088),
            machine.threads // (threads + PRODUCER_THREADS),
            BLOCK_REGISTERS // (registers * (threads + PRODUCER_THREADS)),
        ),
    )
