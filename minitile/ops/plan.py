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
    blocks of a tile add up `together` (split.py) or a second kernel does. pad: whether A and B are copied with longer
    rows first. teams: of the threads of a block that stays, each with tiles of its own. swap: the product is computed
    transposed, for few rows: block_M may then be less than 64.
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
    m, n, k, _, _, size, result = problem
    high, wide, deep, stages, threads, blocks, _, split, pad, teams, swap, _ = plan
    processors = machine.multiprocessors
    rows, columns = -(-m // high), -(-n // wide)
    tiles = rows * columns * split
    steps = -(-k // (deep * split))
    box = (high + wide) * deep * size  # what is outside of a tensor is written, too

    resident = 1
    if not blocks and tiles > processors:
        room = min(machine.shared // (stages * box + 1024), machine.threads // (threads + PRODUCER))
        resident = max(1, min(room, -(-tiles // processors)))
    rounds = -(-tiles // (processors * resident))

    # wgmma of 64 × n × 16 takes n/2 cycles, and 16 + n/4 to read shared memory: the wider, the better.
    multiply = high * wide * deep * size * resident / machine.flops
    side = high if swap else wide
    if side < 64:
        multiply *= (32.0 + 0.5 * side) / side
    if threads == 128 and resident == 1:
        multiply /= machine.single
    fill = box * resident / machine.fill
    if _by_threads(problem, pad):
        fill /= machine.ragged
    step = max(multiply, fill, machine.latency / stages)
    between = machine.tile / teams if blocks else machine.block / resident
    whole = rounds * steps * step + (rounds - 1) * between

    traffic = size * k * rows * columns * (high + wide)
    memory = m * n * result + _from_memory(size * k, m, n, (rows, columns), plan, machine)
    whole = max(whole, traffic / machine.l2, memory / machine.dram) + machine.start

    # The kernels before and after.
    if pad[0]:
        whole += machine.after + 2 * m * k * size / machine.dram
    if pad[1]:
        whole += machine.after + 2 * k * n * size / machine.dram
    if split > 1:
        whole += machine.after + m * n * (8 * split + result) / machine.dram
    return whole


def _by_threads(problem: Problem, pad: tuple[bool, bool]) -> bool:
    """Whether an operand cannot be copied in chunks of 16 bytes."""
    m, n, k, transpose_a, transpose_b, size, _ = problem
    a, b = m if transpose_a else k, k if transpose_b else n
    return (not pad[0] and a * size % GRAIN != 0) or (not pad[1] and b * size % GRAIN != 0)


def _from_memory(deep: int, m: int, n: int, tiles: tuple[int, int], plan: Plan, machine: Machine) -> int:
    """Bytes of the operands, whose vectors along K have `deep` bytes, that come from DRAM: what the tiles of one wave
    have in common, they read once; from wave to wave, operands that fit in L2 stay there."""
    least = deep * (m + n)
    if least <= machine.cached:
        return least
    rows, columns = tiles
    if plan.panel:
        high = min(plan.panel if plan.panel > 0 else SQUARE, rows)
        wide = min(columns, -(-machine.multiprocessors // high))
    else:
        wide = columns
        high = min(rows, -(-machine.multiprocessors // columns))
    waves = -(-rows * columns // (high * wide))
    return max(least, waves * deep * (high * plan.block_M + wide * plan.block_N))


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


HOPPER = (
    Tile(128, 256, 64, 4, 256, True),
    Tile(256, 128, 64, 4, 256, True),
    Tile(128, 192, 64, 5, 256, True, teams=2),
    Tile(128, 128, 64, 6, 256, True, teams=2),
    Tile(64, 128, 64, 4, 128),
    Tile(64, 128, 64, 8, 128),
    Tile(64, 64, 128, 6, 128),
    Tile(64, 32, 128, 8, 128),
    Tile(16, 64, 128, 8, 128, swap=True),
    Tile(16, 128, 64, 8, 256, swap=True),
)
AMPERE = (
    Tile(256, 128, 32, 4, 256),
    Tile(128, 128, 64, 3, 128),
    Tile(128, 64, 64, 3, 128),
    Tile(64, 64, 64, 4, 128),
    Tile(64, 32, 64, 4, 128),
)
SQUARE = 12  # tiles: the side of what a wave has of Hilbert's curve
LEAST_STEPS = 4  # of each part of K
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
    """Every tile that is not far larger than C; with K split where that leaves multiprocessors without work. Ragged
    operands are padded where there is enough to multiply."""
    m, n, k = problem.m, problem.n, problem.k
    tiles = HOPPER if wgmma else AMPERE
    pad = _worth_padding(problem)
    by_threads = _by_threads(problem, pad)
    deep = 2 // problem.size or 1
    for tile in tiles:
        if (m * 2 <= tile.m > 64) or (n * 2 <= tile.n > 32) or (tile.swap and m > 2 * tile.m):
            continue
        if (tile.m + tile.n) * tile.k * 2 * tile.stages > shared:
            continue
        count = max(1, -(-m // tile.m) * -(-n // tile.n))
        stays = machine.multiprocessors if tile.stays and count > machine.multiprocessors else 0
        teams = tile.teams if stays and not by_threads else 1
        panel = 0
        if count > machine.multiprocessors:
            panel = 16 if tile.n > tile.m else 8
        parts = 1
        if count <= machine.multiprocessors * _SMALL:
            parts = min(machine.multiprocessors // count, -(-k // tile.k) // LEAST_STEPS)
        for split in (1,) if parts < 2 else (1, parts) if parts < 4 else (parts // 2, parts):
            yield Plan(
                tile.m, tile.n, tile.k * deep, tile.stages, tile.threads, stays, panel, split, pad, teams, tile.swap
            )


def _worth_padding(problem: Problem) -> tuple[bool, bool]:
    """Small operands come through the caches however they lie."""
    if problem.flops < WORTH_PADDING:
        return False, False
    return problem.ragged


WORTH_PADDING = 2e8  # flops; a guess: some 30 µs of one kernel that copies element by element
