"""What `attention` chooses among: tiles for the head dims and the target, and how tiles are spread over the GPU."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from minitile.hardware import Target

KEPT = 24 << 20  # bytes of keys and values that the caches are to hold for the blocks that run at the same time
RESERVED = 1024  # bytes of shared memory for barriers and sums
LEAST_ROWS = 64
MOST_GROWTH = 15  # weights up to 2 ** 15 are numbers of f16
EVEN = 3.8  # tiles for a block, of the heads that are worked on at a time


@dataclass(frozen=True, slots=True)
class AttentionPlan:
    """Tiles of block_M rows by block_N keys, `stages` copies of keys and values at a time; threads: of those that
    compute. packed: so many heads of a group are rows of a tile, a power of two; 0: as many as leave the fewest tiles.
    held: the queries stay in registers. growth: a row's maximum is replaced once it is exceeded by so many powers of 2,
    15 at most; results differ by rounding alone, since no weight is more than 2 ** growth. persistent: as many blocks
    as the GPU has room for, each for tile after tile. together: so many blocks of a multiprocessor at a time, none of
    which has warps that copy alone: one's softmax runs beside another's products, and where a tile begins and ends the
    others go on; 1: one block, with warps that copy."""

    block_M: int
    block_N: int
    stages: int = 2
    threads: int = 256
    packed: int = 0
    held: bool = False
    growth: float = 0.0
    persistent: bool = False
    together: int = 1

    def shared(self, d: int, e: int) -> int:
        """Bytes of shared memory for heads of `d` elements in q and k, `e` in v, of 2 bytes each; without barriers."""
        return 2 * (self.block_M * d + self.stages * self.block_N * (d + e))

    def parameters(self, multiprocessors: int) -> dict[str, Any]:
        """The kernel's, on a GPU with so many."""
        blocks = self.together * multiprocessors if self.persistent else 0
        return {
            "block_M": self.block_M, "block_N": self.block_N, "num_stages": self.stages, "threads": self.threads,
            "held": self.held, "growth": self.growth, "persistent": blocks,
            "together": self.together if self.together > 1 else 0,
        }  # fmt: skip

    def __str__(self) -> str:
        more = f", {self.packed} heads packed" * (self.packed > 1) + ", held" * self.held
        more += f", growth {self.growth:g}" * (self.growth > 0)
        more += ", persistent" * self.persistent + f", {self.together} blocks together" * (self.together > 1)
        return f"{self.block_M}x{self.block_N}, {self.stages} stages, {self.threads} threads{more}"


@dataclass(frozen=True, slots=True)
class Choice:
    """A plan for causal calls, or those that are not (None: both), of at most so many rows."""

    plan: AttentionPlan
    causal: bool | None = None
    rows: float = math.inf

    def takes(self, rows: int, causal: bool) -> bool:
        return rows <= self.rows and self.causal in (None, causal)


@dataclass(frozen=True, slots=True)
class Row:
    """Plans for heads of at most so many elements, q and k of `d`, v of `e`. The first of the choices that takes a call
    is its plan, else the first of `plans` that fits; the others are what is worth a try. spare: for calls with more
    options than `causal`, which take registers."""

    d: int
    e: int
    plans: tuple[AttentionPlan, ...]
    choices: tuple[Choice, ...] = ()
    spare: AttentionPlan | None = None

    def ordered(self, rows: int, causal: bool, plain: bool) -> tuple[AttentionPlan, ...]:
        """All plans for calls of so many rows, the choice first."""
        if not plain:
            return (self.spare,) if self.spare else tuple(replace(plan, persistent=False) for plan in self.plans)
        chosen = [choice.plan for choice in self.choices if choice.takes(rows, causal)]
        return tuple(dict.fromkeys((*chosen[:1], *self.plans)))


P = AttentionPlan
SHORT = 5792  # rows: between 2^12 and 2^13, which were measured, and
MIDDLE = 8192  # between 2^12 and 2^14
# Two warpgroups of 64 rows each, or more where a row's registers allow it. Measured on an H200
# (benchmarks/attention_plans.py): persistent blocks hide where tiles begin and end, most of all of short rows of keys.
BY_WARPGROUPS = (
    Row(
        64,
        64,
        (P(192, 128, threads=384), P(192, 96, threads=384, persistent=True)),
        choices=(
            Choice(P(128, 64, 3, held=True, together=2), causal=True, rows=SHORT),
            Choice(P(192, 128, threads=384, held=True, persistent=True), causal=True),
            Choice(P(256, 64, threads=512, persistent=True), rows=SHORT),
        ),
        spare=P(128, 128),
    ),
    Row(
        96,
        96,
        (P(192, 96, threads=384, persistent=True), P(128, 144, held=True, persistent=True)),
        choices=(Choice(P(128, 160, held=True, persistent=True), causal=True, rows=MIDDLE),),
        spare=P(128, 128),
    ),
    Row(
        128, 128, (P(128, 128, held=True, persistent=True), P(128, 112, held=True, persistent=True)), spare=P(128, 112)
    ),
    Row(192, 128, (P(128, 112, held=True, persistent=True), P(128, 96, held=True, persistent=True)), spare=P(128, 96)),
    Row(192, 192, (P(128, 96), P(128, 80)), spare=P(128, 80)),
    Row(256, 256, (P(128, 64), P(128, 80)), spare=P(128, 32)),
)
FEW_BY_WARPGROUPS = (  # for at most 64 rows
    Row(128, 128, (P(64, 128, threads=128),)),
    Row(256, 256, (P(64, 64, threads=128),)),
)
BY_WARPS = (
    Row(64, 64, (P(128, 64), P(128, 128), P(64, 64, threads=128))),
    Row(128, 128, (P(128, 64), P(128, 32), P(64, 64, threads=128), P(64, 64, 1, 128), P(64, 32, threads=128))),
    Row(256, 256, (P(64, 64, threads=128), P(64, 32, threads=128), P(32, 32, 1, 64))),
)


def candidates(
    d: int, e: int, rows: int, target: Target, plain: bool = True, causal: bool = False
) -> tuple[AttentionPlan, ...]:
    """Plans for heads of d and e elements and so many rows, which the target's shared memory holds; the choice first.
    plain: the call has no option but `causal`, and packs no heads."""
    tables: tuple[tuple[Row, ...], ...] = (BY_WARPS,)
    if target.has("wgmma"):
        tables = (FEW_BY_WARPGROUPS, BY_WARPGROUPS) if rows <= LEAST_ROWS else (BY_WARPGROUPS,)
    room = target.max_shared - RESERVED
    found = (next((row for row in table if d <= row.d and e <= row.e), None) for table in tables)
    plans = (plan for row in found if row for plan in row.ordered(rows, causal, plain))
    return tuple(plan for plan in plans if plan.shared(d, e) <= room)


@lru_cache(maxsize=1024)
def choose(
    d: int, e: int, group: int, queries: int, target: Target, plain: bool, causal: bool = False
) -> AttentionPlan | None:
    """The choice for so many queries of a group of heads, with how many of these it packs; None where nothing fits."""
    rows = group * queries if queries <= LEAST_ROWS else queries
    for plan in candidates(d, e, rows, target, plain, causal):
        pack = plan.packed or packed(group, queries, plan.block_M)
        if pack == 1 or not plain:
            return replace(plan, packed=pack)
        return choose(d, e, group, queries, target, False, causal)
    return None


@lru_cache(maxsize=1024)
def packed(group: int, queries: int, block_M: int) -> int:
    """How many heads of a group are rows of a tile: a power of two, the least of those that leave the fewest tiles, if
    that saves an eighth of them; else 1, with which queries and results go by TMA."""
    counts = [1 << n for n in range(block_M.bit_length()) if block_M % (1 << n) == 0 and 1 << n < 2 * group]
    tiles = {p: -(-group // p) * -(-queries // (block_M // p)) for p in counts}
    best = min(counts, key=lambda p: (tiles[p], p))
    return best if 8 * tiles[best] <= 7 * tiles[1] else 1


@lru_cache(maxsize=1024)
def side_by_side(heads: int, keys: int, d: int, e: int, tiles: int = 1, blocks: int = 0, grow: bool = True) -> int:
    """How many of so many heads are worked on at a time: a divisor, for whose keys and values the caches have room.
    blocks: persistent ones. Where the tiles of a head grow, blocks get about four of them each before the next heads:
    they grow in every second group of heads and shrink in the others, and over fewer the blocks would not come out
    even. Where they are alike, neighbours have the same head, and their reads of its keys are made one on the way to
    the L2."""
    if blocks and not grow:
        return 1
    divisors = [n for n in range(1, heads + 1) if heads % n == 0]
    kept = max(1, KEPT // max(1, 2 * keys * (d + e)))
    least = min(heads, math.ceil(EVEN * blocks / tiles))
    return max(max(n for n in divisors if n <= kept), min(n for n in divisors if n >= least))
