"""Plans for many products in one launch: groups of rows, batches. The model is that of one product (model.py).

The kernels are persistent, since only the GPU knows how many tiles there are. What a plan costs is estimated as if the
products stood below each other, each rounded up to whole tiles, and each with a B of its own. Of what
benchmarks/gemm_grouped.py measured on an H200 the choice has 0.99 of the fastest one's speed, in bf16 (0.95 at worst)
as in fp8.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from minitile.analysis.register_budget import PRODUCER_THREADS
from minitile.ops import model
from minitile.ops.choice import AMPERE, Tile
from minitile.ops.grouped_gemm import PART, SLACK
from minitile.ops.machine import Machine
from minitile.ops.operands import MOST_KNOWN, refused
from minitile.ops.plan import Plan, Problem

TILES = {  # by wgmma and kind
    (True, "plain"): (
        Tile(128, 192, 64, 5, 256, True, teams=2),
        Tile(128, 128, 64, 6, 256, True, teams=2),
        Tile(64, 128, 64, 8, 256, True, teams=2),
        Tile(64, 64, 128, 6, 128, True),  # for few columns; a guess
        Tile(64, 32, 128, 8, 128, True),
    ),
    (True, "scaled"): (  # sums of two kinds in registers: those of 128 products, and all
        Tile(192, 128, 64, 4, 384, True),
        Tile(128, 128, 64, 6, 256, True),
        Tile(64, 128, 64, 6, 256, True, teams=2),
    ),
    (True, "along k"): (  # there is less room: the last steps have buffers of their own, of each team
        Tile(128, 128, 64, 5, 256, True, teams=2),
        Tile(64, 128, 64, 6, 256, True, teams=2),
        Tile(64, 64, 64, 8, 128, True),
    ),
    (False, "plain"): AMPERE,
    (False, "along k"): AMPERE[1:],
    (False, "scaled"): tuple(Tile(m, 64, 64, stages, 128) for m, stages in ((128, 3), (64, 4), (64, 2))),
}
# How much faster than the model says tiles with scales are, by their rows, beside the first ones: medians. Those of
# mma.sync are unmeasured.
PACE = {192: 1.0, 128: 0.94, 64: 0.75}
PANEL = 8


class Many(NamedTuple):
    """How many `products` there are, of m × k and k × n matrices; m may be a guess. `size`, `result`: bytes of an
    element of the operands and of C. kind: "scaled" is fp8 with scales by block, "along k" has groups along K, the
    average of k; else "plain". uneven: m is the average of products that differ."""

    products: int
    m: int
    n: int
    k: int
    transpose_a: bool = False
    transpose_b: bool = False
    size: int = 2
    result: int = 2
    kind: str = "plain"
    uneven: bool = False

    @property
    def one(self) -> Problem:
        return Problem(self.m, self.n, self.k, self.transpose_a, self.transpose_b, self.size, self.result)

    def rounded(self, rows: int) -> Problem:
        """All of them below each other, each of whole tiles of so many rows. Uneven ones have as many tiles as if their
        rows were distributed exponentially."""
        tiles = 1 / -math.expm1(-rows / max(1, self.m)) if self.uneven else max(1, -(-self.m // rows))
        return self.one._replace(m=math.ceil(self.products * tiles) * rows, products=max(1, self.products))


@lru_cache(maxsize=MOST_KNOWN)
def choose(problem: Many, machine: Machine, wgmma: bool, shared: int) -> Plan:
    """The plan of the least estimate, for a target with or without wgmma whose blocks have at most `shared` bytes."""
    return min(candidates(problem, machine, wgmma, shared), key=lambda plan: estimate(problem, plan, machine))


def estimate(problem: Many, plan: Plan, machine: Machine) -> float:
    """Microseconds that the GPU needs."""
    # Several blocks share a multiprocessor: the model knows that of blocks that go.
    several = plan.blocks > machine.multiprocessors
    time = model.estimate(problem.rounded(plan.block_M), plan._replace(blocks=0) if several else plan, machine)
    return time / PACE.get(plan.block_M, 1.0) if problem.kind == "scaled" else time


def candidates(problem: Many, machine: Machine, wgmma: bool, shared: int) -> Iterator[Plan]:
    """Every tile that fits into shared memory; as many blocks as there is room for."""
    deep = 2 // problem.size
    by_threads = any(problem.one.ragged)
    if problem.kind == "along k":  # a group begins anywhere in a row
        by_threads |= problem.transpose_b or not problem.transpose_a
    for tile in TILES[wgmma, problem.kind]:
        bytes_ = (tile.m + tile.n) * tile.k * 2 * tile.stages
        if problem.kind == "along k":
            bytes_ += (tile.m + tile.n) * PART * problem.size * tile.teams
        elif problem.kind == "scaled":
            bytes_ += (tile.m + SLACK) * 4 * tile.stages
        if bytes_ > shared:
            continue
        room = min(machine.shared // (bytes_ + 4096), machine.threads // (tile.threads + PRODUCER_THREADS))
        count = problem.products * (problem.m // tile.m + 1) * max(1, -(-problem.n // tile.n))  # at most, of groups
        blocks = max(1, min(count, machine.multiprocessors * max(1, room)))
        teams = 1 if by_threads else tile.teams
        sizes = tile.m, tile.n, tile.k * deep, tile.stages, tile.threads
        yield Plan(*sizes, blocks, PANEL, teams=teams)


def constants(plan: Plan, what: str) -> dict[str, int]:
    """The compile-time parameters of the kernels in grouped_gemm.py, which multiply `what`. Raises LaunchArgumentError
    for a plan that they cannot follow."""
    if not plan.blocks or plan.split > 1 or plan.swap or any(plan.pad) or plan.cluster > 1 or plan.ahead:
        hint = "it is persistent, with neither split-K nor swap nor clusters"
        raise refused(f"the plan {plan} is none for {what}", hint)
    return {
        name: value for name, value in plan.constants.items() if name not in ("swap", "share", "share_rows", "ahead")
    }
