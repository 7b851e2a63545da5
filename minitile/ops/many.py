"""Plans for many products in one launch: groups of rows, batches. The model is that of one product (plan.py).

Blocks stay, since only the GPU knows how many tiles there are. What a plan costs is estimated as if the products stood
below each other, each rounded up to whole tiles: that has the right number of tiles and steps, and reads B less often.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from minitile.ops.machine import Machine
from minitile.ops.plan import AMPERE, HOPPER, PRODUCER, Plan, Problem, Tile, estimate

# With sums of two kinds in registers: those of 128 products, and all.
SCALED_HOPPER = (
    Tile(192, 128, 64, 4, 384, True),
    Tile(128, 128, 64, 4, 256, True),
    Tile(64, 128, 64, 6, 128, True),
)
SCALED_AMPERE = (Tile(128, 64, 64, 3, 128), Tile(64, 64, 64, 4, 128))


class Many(NamedTuple):
    """How many `products` there are, of m × k and k × n matrices; m may be a guess. `size`, `result`: bytes of an
    element of the operands and of C. scaled: fp8 with scales by block."""

    products: int
    m: int
    n: int
    k: int
    transpose_a: bool = False
    transpose_b: bool = False
    size: int = 2
    result: int = 2
    scaled: bool = False

    def rounded(self, rows: int) -> Problem:
        """All of them as one product, each of whole tiles of so many rows."""
        high = self.products * max(1, -(-self.m // rows)) * rows
        return Problem(high, self.n, self.k, self.transpose_a, self.transpose_b, self.size, self.result)


def choose(problem: Many, machine: Machine, wgmma: bool, shared: int) -> Plan:
    """The plan of the least estimate, for a target with or without wgmma whose blocks have at most `shared` bytes."""
    best, least = None, math.inf
    for plan in candidates(problem, machine, wgmma, shared):
        one = plan._replace(blocks=0) if plan.blocks > machine.multiprocessors else plan
        time = estimate(problem.rounded(plan.block_M), one, machine)
        if time < least:
            best, least = plan, time
    assert best is not None
    return best


def candidates(problem: Many, machine: Machine, wgmma: bool, shared: int) -> Iterator[Plan]:
    """Every tile that is not far larger than a product; as many blocks as there is room for."""
    tiles: tuple[Tile, ...]
    if problem.scaled:
        tiles = SCALED_HOPPER if wgmma else SCALED_AMPERE
    else:
        tiles = tuple(tile for tile in (HOPPER if wgmma else AMPERE) if not tile.swap)
    deep = 2 // problem.size
    by_threads = any(problem.rounded(1).ragged)
    for tile in tiles:
        if (problem.m * 2 <= tile.m > 64) or (problem.n * 2 <= tile.n > (128 if problem.scaled else 32)):
            continue
        box = (tile.m + tile.n) * tile.k * 2
        if box * tile.stages > shared:
            continue
        room = min(machine.shared // (tile.stages * box + 4096), machine.threads // (tile.threads + PRODUCER))
        count = problem.rounded(tile.m).m // tile.m * max(1, -(-problem.n // tile.n))
        blocks = max(1, min(count, machine.multiprocessors * max(1, room)))
        teams = 1 if by_threads else tile.teams
        panel = 16 if tile.n > tile.m else 8
        plan = replace(tile, k=tile.k * deep)
        yield Plan(plan.m, plan.n, plan.k, plan.stages, plan.threads, blocks, panel, teams=teams)
