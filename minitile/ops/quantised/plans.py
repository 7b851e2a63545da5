"""Plans for few rows by weights of 4 and 8 bits, and which one is chosen."""

from __future__ import annotations

from typing import NamedTuple

PARTS = (1, 2, 4, 8)  # blocks of a cluster along K
LEAST = 4  # steps of K that a block has


class QuantisedPlan(NamedTuple):
    """How `matmul_quantised` computes. Tiles: block_M rows of a, block_N of the weights, block_K of the sum.

    stages: steps of K on their way. threads: of those that compute, 128 for each 64 columns, or for 128. parts: of
    split-K, the blocks of a cluster. sums: scales are multiplied with the sums of a group, else with the weights.
    all_reduce: all blocks of a cluster get all sums. early: the next kernel may be set up from the start on. together:
    blocks of a multiprocessor that registers must suffice for, 0: as it comes.
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
        words = f"{self.block_M}x{self.block_N}x{self.block_K}, {self.stages} stages, {self.threads} threads"
        words += f", cluster of {self.parts} along K" if self.parts > 1 else ""
        words += ", all-reduce" if self.all_reduce else ""
        words += "" if self.early else ", trigger late"
        return words + (", scaled sums" if self.sums else ", scaled weights")


class Fp8Plan(NamedTuple):
    """How `matmul_fp8` computes: block_M, block_N, stages, threads, parts, all_reduce, early and together are as of
    QuantisedPlan, a step is 128 of K. overlap: sums are added while the next ones are made."""

    block_M: int
    block_N: int = 64
    stages: int = 4
    threads: int = 128
    parts: int = 1
    overlap: bool = False
    all_reduce: bool = False
    early: bool = True
    together: int = 0

    def __str__(self) -> str:
        words = f"{self.block_M}x{self.block_N}x128, {self.stages} stages, {self.threads} threads"
        words += f", cluster of {self.parts} along K" if self.parts > 1 else ""
        words += ", all-reduce" if self.all_reduce else ""
        words += "" if self.early else ", trigger late"
        return words + (", overlapped" if self.overlap else "")


def rows_of(m: int, most: int = 128) -> int:
    """Rows of a tile: all of a few, else even shares of whole 8."""
    shares = -(-m // most)
    least = -(-m // shares)
    return next((n for n in (8, 16, 32, 64) if n >= least), -(-least // 16) * 16)


def parts_for(tiles: int, steps: int, processors: int, blocks: int, most: int) -> int:
    """As many as give each multiprocessor `blocks`, and each block LEAST steps."""
    best = 1
    for parts in PARTS:
        if parts <= most and tiles * parts <= processors * blocks and steps >= parts * LEAST:
            best = parts
    return best


def choose_quantised(m: int, n: int, k: int, group: int, processors: int, wgmma: bool) -> QuantisedPlan:
    """For M × K rows and N × K weights in groups on so many multiprocessors.

    A block reads as many bytes of the rows as of the weights where it has four times as many columns (int4) as rows:
    so tiles grow with the rows. Scales of groups of 32 go to the weights, and from 65 rows on all do."""
    rows = rows_of(m)
    wide = 64 if rows <= 8 else 128
    sums = group >= 64 and rows <= 64
    deep = max(group, 128) if rows <= 32 or not sums else group
    stages = (6 if wide == 64 else 4) if rows <= 64 else 3
    tiles = -(-n // wide) * -(-m // rows)
    blocks = 3 if wide == 64 else 2 if rows <= 32 else 1
    parts = parts_for(tiles, -(-k // deep), processors, blocks, 8) if wgmma else 1
    return QuantisedPlan(rows, wide, deep, stages, wide * 2, parts, sums)


def choose_fp8(m: int, n: int, k: int, processors: int) -> Fp8Plan:
    """For M × K rows and N × K weights on so many multiprocessors."""
    rows = rows_of(m)
    wide = 128 if rows > 64 else 64
    tiles = -(-n // wide) * -(-m // rows)
    parts = parts_for(tiles, -(-k // 128), processors, 3 if rows <= 64 else 1, 8)
    return Fp8Plan(rows, wide, 4, wide * 2, parts, rows > 64)
