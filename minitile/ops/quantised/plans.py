"""Plans for few rows by weights of 4 and 8 bits, and which one is chosen."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

PARTS = (1, 2, 4, 8)  # blocks of a cluster along K
TOGETHER = {(8, 1): 6, (8, 2): 4, (16, 1): 3, (16, 2): 2}  # by rows and groups of a step: what registers do for
LEAST = 4  # steps of K that a block has
GAP, ENDS, MEETING = 110, 4400, 1000  # cycles: between steps, of a tile's begin and end, of a cluster
FROM_L2, ARRIVING = 38.0, 56.0  # bytes a cycle for each multiprocessor


class QuantisedPlan(NamedTuple):
    """How `matmul_quantised` computes. Tiles: block_M rows of a, block_N of the weights, block_K of the sum.

    stages: steps of K on their way. threads: of those that compute, 128 for each 64 columns, or for 128. parts: of
    split-K, the blocks of a cluster. sums: scales are multiplied with the sums of a group, else with the weights.
    all_reduce: all blocks of a cluster get all sums. early: the next kernel may be set up from the start on. together:
    blocks of a multiprocessor that registers must suffice for, whose copies one warp makes; 0: as it comes.
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
        words += f", {self.together} together" if self.together else ""
        return words + (", scaled sums" if self.sums else ", scaled weights")


class Fp8Plan(NamedTuple):
    """How `matmul_fp8` computes: block_M, block_N, stages, threads, parts, all_reduce, early and together are as of
    QuantisedPlan, a step is 128 of K. overlap: sums are added while the next ones are made. share: so many blocks with
    neighbouring rows are a cluster, which reads the weights once; parts is 1 then."""

    block_M: int
    block_N: int = 64
    stages: int = 4
    threads: int = 128
    parts: int = 1
    overlap: bool = False
    all_reduce: bool = False
    early: bool = True
    together: int = 0
    share: int = 1

    def __str__(self) -> str:
        words = f"{self.block_M}x{self.block_N}x128, {self.stages} stages, {self.threads} threads"
        words += f", cluster of {self.parts} along K" if self.parts > 1 else ""
        words += f", cluster of {self.share} along M" if self.share > 1 else ""
        words += ", all-reduce" if self.all_reduce else ""
        words += "" if self.early else ", trigger late"
        words += f", {self.together} together" if self.together else ""
        return words + (", overlapped" if self.overlap else "")


AnyPlan = TypeVar("AnyPlan", QuantisedPlan, Fp8Plan)
SPARE = 4096  # bytes of shared memory: scales, barriers


def within(plan: AnyPlan, clusters: bool, rows: int, shared: int, step: tuple[int, int]) -> AnyPlan:
    """The plan as a target without clusters, whose products come in multiples of so many rows, or with less shared
    memory can do it. step: the bytes of a row of a tile, and of a row of the weights, in a step."""
    if not clusters:
        plan = plan._replace(parts=1, share=1) if isinstance(plan, Fp8Plan) else plan._replace(parts=1)
    plan = plan._replace(block_M=-(-plan.block_M // rows) * rows)
    most = (shared - SPARE) // (plan.block_M * step[0] + plan.block_N * step[1])
    return plan._replace(stages=max(1, min(plan.stages, most)))


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
    so tiles grow with the rows. Scales of groups of 32 go to the weights, and from 65 rows on all do. Of few rows
    twice as many blocks have room as there are, so that those of the next kernel read weights while these end."""
    rows = rows_of(m)
    wide = 64 if rows <= 8 else 128
    sums = group >= 64 and rows <= 64
    deep = max(group, 128) if rows <= 32 or not sums else group
    stages = (5 if wide == 64 else 4) if rows <= 64 else 3
    tiles = -(-n // wide) * -(-m // rows)
    blocks = 3 if wide == 64 else 2 if rows <= 32 else 1
    parts = parts_for(tiles, -(-k // deep), processors, blocks, 8) if wgmma else 1
    together = TOGETHER.get((rows, deep // group), 0) if wgmma and sums else 0
    return QuantisedPlan(rows, wide, deep, stages, wide * 2, parts, sums, together=together)


def choose_fp8(m: int, n: int, k: int, processors: int) -> Fp8Plan:
    """For M × K rows and N × K weights on so many multiprocessors: of up to 64 rows one tile, of which several blocks
    have room in a multiprocessor; of more rows the plan that `cycles` likes best."""
    rows, steps = rows_of(m), -(-k // 128)
    if rows <= 32:
        parts = parts_for(-(-n // 64), steps, processors, 3, 8)
        return Fp8Plan(rows, 64, 4, 128, parts, together=5 if rows <= 16 else 4)
    if rows <= 64:  # as many bytes of the rows would come from L2 as of 64 columns of the weights
        parts = parts_for(-(-n // 128), steps, processors, 2, 4)
        return Fp8Plan(rows, 128, 3, 256, parts, together=2)
    found = []
    for shares in range(-(-m // 128), -(-m // 64) + 1):
        rows = -(-m // shares) + 7 & ~7
        alone = rows > 64
        base = Fp8Plan(rows, 128, 4, 256, overlap=alone, together=0 if alone else 2)
        found += [base] + [base._replace(share=n) for n in (2, 4) if shares % n == 0]
        found += [base._replace(parts=2)] if steps >= 2 * LEAST else []
    return min(found, key=lambda plan: cycles(plan, m, n, steps, processors))


def cycles(plan: Fp8Plan, m: int, n: int, steps: int, processors: int) -> float:
    """What products of many rows take by a plan: in a step the tensor cores, where a wgmma of R columns and 32 of K
    takes R / 2, or what it takes to read its operands, 128 bytes a cycle; or the way of both tiles, out of L2 (a tile
    that a cluster has in common once) and into the multiprocessor. Two blocks of a multiprocessor fill each other's
    gaps: between the steps, and while a tile begins and ends. The gaps and rates are guesses."""
    blocks = max(1, plan.together)
    tiles = -(-n // plan.block_N) * -(-m // plan.block_M) * plan.parts
    waves = -(-tiles // (processors * blocks))
    products = 4 * plan.block_N // 64 * max(plan.block_M / 2, 16 + plan.block_M / 4)
    out = 128 * (plan.block_M + plan.block_N / plan.share) / FROM_L2
    copies = max(out, 128 * (plan.block_M + plan.block_N) / ARRIVING)
    step = max(products + GAP, copies) if blocks == 1 else max(products * 1.1, copies) * blocks
    ends = ENDS if blocks == 1 else ENDS * 0.6
    return waves * (-(-steps // plan.parts) * step + ends + (MEETING if plan.parts * plan.share > 1 else 0))
