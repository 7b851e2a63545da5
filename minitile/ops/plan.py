"""Which kernel multiplies which matrices: problems, plans, and the model that picks a plan for a problem.

`estimate` is the time of a plan, put together from what bounds it, for a problem of M × N × K:

    step    a block's tiles of one block_K: the slowest of multiplying them, bringing them into shared memory, and the
            latency of that, of which `stages` steps share one
    round   all steps of the tiles that a multiprocessor works on at the same time, and what lies between two tiles
    whole   as many rounds as the fullest multiprocessor has (the last one may be nearly empty: the tail), but no less
            than what L2 and DRAM need for all the bytes

and the kernels before and after it: padding operands, adding up the parts of K. `choose` asks it of a few candidates;
there is no search, and nothing is measured when a program runs. The numbers are in machine.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from minitile.ops.machine import Machine

GRAIN = 16  # bytes: the copy engine's
LINE = 128  # bytes: rows that begin within a line of the cache take two requests for each of them
HILBERT = -1  # in place of the height of panels
PRODUCER = 128  # threads besides those that compute
REGISTERS = 65536  # of a multiprocessor
OTHER_REGISTERS = 26  # of a thread, besides its sums
ROOM = {2: 1.0, 3: 0.9, 4: 0.85, 6: 0.75, 8: 0.75}  # of all multiprocessors, for clusters of so many blocks, which lie
# in one part of the GPU each: on an H200, 30 clusters of 4 and 15 of 8 found no room at the same time
MOVING = 16  # flops that take the power that bringing an element takes; a guess
COLD = 0.25  # a guess: the share of operands that fit in L2, and are not there from the kernel before
BLEND = 4  # the exponent with which bounds are added: nearly their maximum


class Problem(NamedTuple):
    """C (m × n) = op(A) · op(B), summed over k; `size` is the bytes of an operand's element, `result` of C's.

    transpose_a: A lies as k × m. transpose_b: B lies as n × k.
    """

    m: int
    n: int
    k: int
    transpose_a: bool = False
    transpose_b: bool = False
    size: int = 2
    result: int = 2

    @property
    def flops(self) -> float:
        return 2.0 * self.m * self.n * self.k

    @property
    def ragged(self) -> tuple[bool, bool]:
        """Whether the rows of A and of B, as they lie, are no whole 16 bytes."""
        a = self.m if self.transpose_a else self.k
        b = self.k if self.transpose_b else self.n
        return a * self.size % GRAIN != 0, b * self.size % GRAIN != 0


class Plan(NamedTuple):
    """How to compute a product. Tiles in elements; threads: of those that compute.

    blocks: how many stay, each for many tiles; 0: a block for each tile. panel: tiles are visited in panels of so many
    rows of tiles; 0: row by row; HILBERT: along that curve. split: parts of K, each with a sum of its own, which the
    blocks of a cluster add up `together` (split.py) or a second kernel does. pad: whether A and B are copied, with
    longer rows, first. teams: of the threads of a block that stays, each with tiles of its own. swap: the product is
    computed transposed, for few rows: block_M may then be less than 64.
    """

    block_M: int
    block_N: int
    block_K: int
    stages: int
    threads: int
    blocks: int = 0
    panel: int = 0
    split: int = 1
    pad: tuple[bool, bool] = (False, False)
    teams: int = 1
    swap: bool = False
    together: bool = False

    def __str__(self) -> str:
        words = [f"{self.block_M}x{self.block_N}x{self.block_K}, {self.stages} stages, {self.threads} threads"]
        words += [f"{self.blocks} blocks"] if self.blocks else []
        words += [f"panels of {self.panel}"] if self.panel > 0 else []
        words += ["along Hilbert's curve"] if self.panel == HILBERT else []
        words += [f"K in {self.split} parts"] if self.split > 1 else []
        words += [f"{name} padded" for name, padded in zip("AB", self.pad, strict=True) if padded]
        words += [f"{self.teams} teams"] if self.teams > 1 else []
        words += ["swapped"] if self.swap else []
        words += ["added together"] if self.together else []
        return ", ".join(words)

    @property
    def apart(self) -> bool:
        """Whether a second kernel adds up the parts of K."""
        return self.split > 1 and not self.together

    def tiles(self, problem: Problem) -> int:
        """How many tiles C has."""
        return -(-problem.m // self.block_M) * -(-problem.n // self.block_N)

    @property
    def constants(self) -> dict[str, int]:
        """The compile-time parameters of `gemm`, or of `gemm_together`."""
        values = self._asdict()
        if self.split > 1 and self.together:
            names = ("block_M", "block_N", "block_K", "stages", "threads", "swap")
            return {**{name: values[name] for name in names}, "parts": self.split}
        return {name: value for name, value in values.items() if name not in ("split", "pad", "together")}


def estimate(problem: Problem, plan: Plan, machine: Machine) -> float:
    """Microseconds that the GPU needs."""
    m, n, k, transpose_a, transpose_b, size, result = problem
    high, wide, deep, stages, threads, blocks, panel, split, pad, teams, swap, together = plan
    processors = int(machine.multiprocessors * ROOM[split]) if together else machine.multiprocessors
    rows, columns = -(-m // high), -(-n // wide)
    tiles = rows * columns * split
    each = -(-tiles // processors)  # tiles of the fullest multiprocessor
    steps = -(-k // (deep * split))

    # A step: wgmma of 64 × n × 16 takes n/2 cycles, and 16 + n/4 to read shared memory: the wider, the better.
    multiply = high * wide * deep * size / machine.flops
    side = high if swap else wide
    if side < 64:
        multiply *= (32.0 + 0.5 * side) / side
    if teams > 1:
        multiply /= machine.turns
    # What both operands cost to bring, in rows (columns) of whole lines.
    pitch_a, pitch_b = (m if transpose_a else k) * size, (k if transpose_b else n) * size
    cost_a = cost_b = 1.0
    if pitch_a % LINE and not pad[0]:
        cost_a = machine.misaligned if pitch_a % GRAIN == 0 else machine.misaligned / machine.ragged
    if pitch_b % LINE and not pad[1]:
        cost_b = machine.misaligned if pitch_b % GRAIN == 0 else machine.misaligned / machine.ragged
    box_a, box_b = cost_a, cost_b
    # Boxes of less than a line cost the same wherever in a line they begin.
    if transpose_a and high * size % LINE:
        box_a = max(box_a, machine.half_lines if high * size * 2 % LINE == 0 else machine.narrow)
    if not transpose_b and wide * size % LINE:
        box_b = max(box_b, machine.half_lines if wide * size * 2 % LINE == 0 else machine.narrow)
    fill = (high * box_a + wide * box_b) * deep * size / machine.fill
    busy = multiply if multiply > fill else fill
    alone = multiply * 128 / threads + machine.gap * deep * size / (LINE * teams)
    step = busy if busy > alone else alone
    if step * (stages - 1) < machine.latency:  # one of them is being multiplied
        step = machine.latency / (stages - 1)

    # What lies between the steps of two tiles.
    store = high * wide * (result if split == 1 else 4) / machine.store
    if split == 1 and n * result % GRAIN:
        store /= machine.ragged_store
    set_up = machine.block + fill
    if blocks:
        whole = each * steps * step + (each - 1) * (machine.tile + store) / teams
        if panel == HILBERT:
            whole += each * machine.curve
    else:
        resident = 1 if each == 1 else _resident(plan, size, result, each, machine)
        whole = -(-each // resident) * (steps * step + set_up + store) - set_up - store
        together_whole = each * (steps * busy + store) - store
        if together_whole > whole:
            whole = together_whole
    whole += set_up + store

    # What all multiprocessors share. Bounds that are near to each other add up in part.
    traffic = tiles * steps * (high * cost_a + wide * cost_b) * deep * size / machine.l2
    read: float = size * k * (m + n)
    if read > machine.cached:
        read = _from_memory(size * k, m, n, (rows, columns), plan, machine)
    else:
        read *= COLD
    memory = (m * n * result + read) / machine.dram
    heat = tiles * steps * deep * (2.0 * high * wide + MOVING * (high + wide)) / machine.power
    time: float = (whole**BLEND + traffic**BLEND + memory**BLEND + heat**BLEND) ** (1 / BLEND) + machine.start

    # The kernels before and after.
    if pad[0]:
        time += machine.after + 2 * m * k * size / machine.dram
    if pad[1]:
        time += machine.after + 2 * k * n * size / machine.dram
    if split > 1 and together:
        time += machine.meet + high * wide * 4 / machine.meeting
    elif split > 1:
        time += machine.after + machine.part * split + m * n * (8 * split + result) / machine.adding
    return time


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
            machine.threads // (threads + PRODUCER),
            REGISTERS // (registers * (threads + PRODUCER)),
        ),
    )


def _by_threads(problem: Problem, pad: tuple[bool, bool]) -> bool:
    """Whether an operand cannot be copied in chunks of 16 bytes."""
    m, n, k, transpose_a, transpose_b, size, _ = problem
    a, b = m if transpose_a else k, k if transpose_b else n
    return (not pad[0] and a * size % GRAIN != 0) or (not pad[1] and b * size % GRAIN != 0)


def _from_memory(deep: int, m: int, n: int, tiles: tuple[int, int], plan: Plan, machine: Machine) -> int:
    """Bytes of the operands, whose vectors along K have `deep` bytes, that come from DRAM: what the tiles of one wave
    have in common, they read once. For operands that do not fit in L2."""
    rows, columns = tiles
    if plan.panel:
        high = min(plan.panel if plan.panel > 0 else SQUARE, rows)
        wide = min(columns, -(-machine.multiprocessors // high))
    else:
        wide = columns
        high = min(rows, -(-machine.multiprocessors // columns))
    waves = -(-rows * columns // (high * wide))
    return max(deep * (m + n), waves * deep * (high * plan.block_M + wide * plan.block_N))


# What there is to choose from ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tile:
    """A block's tile with its stages and computing threads, for operands of 2 bytes. `stays`: in blocks that stay,
    where there are more tiles than multiprocessors; then with so many `teams`."""

    m: int
    n: int
    k: int
    stages: int
    threads: int
    stays: bool = False
    swap: bool = False
    teams: int = 1


ROWS = (  # of a tile for wgmma, threads that compute it, the most columns that their registers hold
    (64, 128, 256),
    (128, 256, 256),
    (192, 384, 192),
    (256, 256, 128),
)
TEAM = 128 * 192  # elements of a tile that one warpgroup's registers hold
USUAL = (64, 128, 192, 256)  # columns
LEAST_STAGES, MOST_STAGES = 3, 8
STAGED = 27 * 1024  # bytes that results may take on their way
AMPERE = (
    Tile(256, 128, 32, 4, 256),
    Tile(128, 128, 64, 3, 128),
    Tile(128, 64, 64, 3, 128),
    Tile(64, 64, 64, 4, 128),
    Tile(64, 32, 64, 4, 128),
)
SQUARE = 12  # tiles: the side of what a wave has of Hilbert's curve
LEAST_PART = 256  # of K
MOST_PARTS = 16
MOST_CLUSTER = 8  # blocks, on any GPU that has clusters
CLUSTERS = {64: (8, 4, 2), 128: (8, 4, 2), 192: (8, 6, 4, 3, 2), 256: (8, 4, 2)}  # by rows, of which each has some 8s
_SMALL = 0.6  # a plan whose tiles are fewer than this share of the multiprocessors may split K


def choose(problem: Problem, machine: Machine, wgmma: bool, shared: int) -> Plan:
    """The plan of the least estimate, for a target with or without wgmma whose blocks have at most `shared` bytes."""
    best, least = None, math.inf
    for plan in candidates(problem, machine, wgmma, shared):
        time = estimate(problem, plan, machine)
        if time < least:
            best, least = plan, time
    assert best is not None
    return best


def candidates(problem: Problem, machine: Machine, wgmma: bool, shared: int) -> Iterator[Plan]:
    """Tiles that are not far larger than C; with K split where that leaves multiprocessors without work. Ragged
    operands are padded where there is enough to multiply."""
    m, n, k = problem.m, problem.n, problem.k
    processors = machine.multiprocessors
    pad = _worth_padding(problem)
    by_threads = _by_threads(problem, pad)
    deeper = 2 // problem.size or 1
    large = problem.size * k * (m + n) > machine.cached
    for tile in hopper_tiles(problem, processors, shared) if wgmma else AMPERE:
        if (m * 2 <= tile.m > 64) or (n * 2 <= tile.n > 32):
            continue
        if (tile.m + tile.n) * tile.k * 2 * tile.stages > shared:
            continue
        count = -(-m // tile.m) * -(-n // tile.n) or 1
        panel = blocks = 0
        teams, threads = 1, tile.threads
        if count > processors:
            panel = 8
            if tile.stays:
                blocks = processors
                if tile.teams > 1 and not by_threads:
                    teams, threads = tile.teams, 128 * tile.teams
                    panel = HILBERT if large else 8
        sizes = tile.m, tile.n, tile.k * deeper, tile.stages, threads
        yield Plan(*sizes, blocks, panel, 1, pad, teams, tile.swap)
        parts = processors // count if count <= processors * _SMALL else 1
        if parts * LEAST_PART > k:
            parts = k // LEAST_PART
        if parts > 1:
            parts = parts if parts < MOST_PARTS else MOST_PARTS
            yield Plan(*sizes, blocks, panel, parts, pad, teams, tile.swap)
            if parts > 3:
                yield Plan(*sizes, blocks, panel, parts // 2, pad, teams, tile.swap)
            if wgmma:
                for cluster in CLUSTERS[tile.n if tile.swap else tile.m]:
                    if cluster <= parts and count * cluster <= processors * ROOM[cluster]:
                        stages = _with_sums(tile.m, tile.n, sizes[2] * problem.size, shared)
                        if stages >= LEAST_STAGES:
                            stages = stages if stages < tile.stages else tile.stages
                            yield Plan(*sizes[:3], stages, threads, 0, 0, cluster, pad, 1, tile.swap, True)
                        break


def _with_sums(high: int, wide: int, deep: int, shared: int) -> int:
    """The stages for which there is room beside the sums that a cluster's blocks send each other, and their results."""
    return (shared - high * wide * 4 - 2048) // ((high + wide) * deep)


def together(plan: Plan, size: int, shared: int) -> Plan | None:
    """The plan with its parts of K added up in a cluster, and no more stages than its sums leave room for; None where
    that does not go. Operands have elements of `size` bytes."""
    stages = min(plan.stages, _with_sums(plan.block_M, plan.block_N, plan.block_K * size, shared))
    return plan._replace(stages=stages, together=True) if shares(plan) and stages >= LEAST_STAGES else None


def shares(plan: Plan) -> bool:
    """Whether so many blocks of a cluster can share a tile's rows, of which each has some 8s."""
    rows = plan.block_N if plan.swap else plan.block_M
    return plan.split <= MOST_CLUSTER and rows % (8 * plan.split) == 0


def hopper_tiles(problem: Problem, processors: int, shared: int) -> Iterator[Tile]:
    """Tiles for wgmma. Their columns divide C's with little waste, or make the tiles just few enough for one or two
    rounds, or are the usual ones. With few rows, columns of C are the tensor cores' rows.

    Where rows of B lie behind one another, the tile's are brought in boxes of 128, 64 or 32 bytes, of which small ones
    are slow: then columns come by 32.
    """
    m, n, k = problem.m, problem.n, problem.k
    grain = 8 if n <= 64 else 16 if problem.transpose_b else 32
    for high, threads, most in ROWS:
        rows = -(-m // high) or 1
        if high > 64 and (m * 2 <= high or (high > 128 and rows * n * 2 < processors * 128)):
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
        many = rows * n > 16 * processors * 128  # rounds of tiles of 128 columns
        for wide in found:
            if many and high * wide < 128 * 128:
                continue
            deep = 128 if high + wide <= 160 and k > 64 else 64
            box = (high + wide) * deep * 2
            stages = (shared - STAGED) // box
            stages = stages if stages < MOST_STAGES else MOST_STAGES
            teams = 2 if high * wide <= TEAM and high <= 128 else 1
            yield Tile(high, wide, deep, stages, threads, True, teams=teams)
            if high == 64 and rows * -(-n // wide) > processors:  # two blocks of a multiprocessor at the same time
                yield Tile(high, wide, deep, stages if stages <= 4 else 4, threads)
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


def _worth_padding(problem: Problem) -> tuple[bool, bool]:
    """Small operands come through the caches however they lie."""
    if problem.flops < WORTH_PADDING:
        return False, False
    return problem.ragged


WORTH_PADDING = 2e8  # flops; a guess: some 30 µs of one kernel that copies element by element
