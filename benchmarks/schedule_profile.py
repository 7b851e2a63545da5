"""What a turn of a loop costs, as the cost model expects it (transforms/schedule/cost.py) and as the GPU's clock has it
(T.profile): eight loops, one block on each multiprocessor.

    PYTHONPATH=. python benchmarks/schedule_profile.py --out benchmarks/results/schedule_profile_h200
    PYTHONPATH=. python benchmarks/schedule_profile.py --expected          without a GPU: what is expected alone
    PYTHONPATH=. python benchmarks/schedule_profile.py --measured FILE.json --out FILE       … beside what FILE.json has

Measured is the middle half of the loop's turns, of the first block of the grid, in the warp that takes longest, of the
median launch. `--out NAME` writes NAME.md and NAME.json.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import minitile as mt
import minitile.language as T
from minitile.driver.jit import CompiledKernel
from minitile.driver.pipeline import compile_ir
from minitile.transforms.schedule.cost import Turn, draw

ROWS, WARPS, TURNS = 4, 16, 512  # of the clocks
BLOCKS = (11, 12)  # one on each of an H200's 132 multiprocessors
TARGET = "sm_90a"
BOUND = 0.15


@mt.kernel
def product(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.float32),
    clocks: T.Tensor((4, 16, 512), T.int64),
    block_M=128,
    block_N=128,
    block_K=64,
    num_stages=4,
    threads=128,
):
    M, K = A.shape
    with T.Kernel(T.ceildiv(B.shape[0], block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        T.profile(clocks)
        a = T.alloc_shared((block_M, block_K), A.dtype)
        b = T.alloc_shared((block_N, block_K), B.dtype)
        c = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
            T.copy(A[by * block_M, k * block_K], a)
            T.copy(B[bx * block_N, k * block_K], b)
            T.gemm(a, b, c, transpose_B=True)
        T.copy(c, C[by * block_M, bx * block_N])


@mt.kernel
def product_fp8(
    A: T.Tensor(("M", "K"), T.float8_e4m3),
    B: T.Tensor(("N", "K"), T.float8_e4m3),
    C: T.Tensor(("M", "N"), T.float32),
    clocks: T.Tensor((4, 16, 512), T.int64),
    block_M=128,
    block_N=128,
    block_K=128,
    num_stages=4,
    threads=128,
):
    M, K = A.shape
    with T.Kernel(T.ceildiv(B.shape[0], block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        T.profile(clocks)
        a = T.alloc_shared((block_M, block_K), A.dtype)
        b = T.alloc_shared((block_N, block_K), B.dtype)
        c = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
            T.copy(A[by * block_M, k * block_K], a)
            T.copy(B[bx * block_N, k * block_K], b)
            T.gemm(a, b, c, transpose_B=True)
        T.copy(c, C[by * block_M, bx * block_N])


@mt.kernel
def softened(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.float32),
    clocks: T.Tensor((4, 16, 512), T.int64),
    num_stages=4,
    threads=256,
):
    M, K = A.shape
    with T.Kernel(T.ceildiv(B.shape[0], 128), T.ceildiv(M, 128), threads=threads) as (bx, by):
        T.profile(clocks)
        a = T.alloc_shared((128, 64), A.dtype)
        b = T.alloc_shared((128, 64), B.dtype)
        s = T.alloc_fragment((128, 128), T.float32)
        c = T.alloc_fragment((128, 128), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, 64), num_stages=num_stages):
            T.copy(A[by * 128, k * 64], a)
            T.copy(B[bx * 128, k * 64], b)
            T.clear(s)
            T.gemm(a, b, s, transpose_B=True)
            for i, j in T.Parallel(128, 128):
                c[i, j] += T.exp2(s[i, j])
        T.copy(c, C[by * 128, bx * 128])


@mt.kernel
def attention(
    A: T.Tensor(("M", "D"), T.bfloat16),
    B: T.Tensor(("N", "D"), T.bfloat16),
    C: T.Tensor(("M", "D"), T.float32),
    clocks: T.Tensor((4, 16, 512), T.int64),
    D=128,
    block_M=128,
    block_N=128,
    num_stages=2,
    threads=256,
):
    with T.Kernel(T.ceildiv(A.shape[0], block_M), threads=threads) as bx:
        T.profile(clocks)
        q = T.alloc_shared((block_M, D), T.bfloat16)
        b = T.alloc_shared((block_N, D), T.bfloat16)
        v = T.alloc_shared((block_N, D), T.bfloat16)
        scores = T.alloc_fragment((block_M, block_N), T.float32)
        weights = T.alloc_fragment((block_M, block_N), T.bfloat16)
        out = T.alloc_fragment((block_M, D), T.float32)
        largest = T.alloc_fragment((block_M,), T.float32)
        before = T.alloc_fragment((block_M,), T.float32)
        shrink = T.alloc_fragment((block_M,), T.float32)
        sums = T.alloc_fragment((block_M,), T.float32)
        total = T.alloc_fragment((block_M,), T.float32)
        T.copy(A[bx * block_M, 0], q)
        T.clear(out)
        T.clear(total)
        T.fill(largest, -(2.0**99))
        for k in T.Pipelined(T.ceildiv(B.shape[0], block_N), num_stages=num_stages):
            T.copy(B[k * block_N, 0], b)
            T.clear(scores)
            T.gemm(q, b, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
            T.copy(largest, before)
            T.reduce_max(scores, largest, dim=1, clear=False)
            for i in T.Parallel(block_M):
                shrink[i] = T.exp2(before[i] - largest[i])
            for i, j in T.Parallel(block_M, block_N):
                scores[i, j] = T.exp2(scores[i, j] - largest[i])
            T.reduce_sum(scores, sums, dim=1)
            for i in T.Parallel(block_M):
                total[i] = total[i] * shrink[i] + sums[i]
            T.copy(scores, weights)
            for i, j in T.Parallel(block_M, D):
                out[i, j] *= shrink[i]
            T.copy(B[k * block_N, 0], v)
            T.gemm(weights, v, out, policy=T.GemmWarpPolicy.FullRow)
        for i, j in T.Parallel(block_M, D):
            out[i, j] /= total[i]
        T.copy(out, C[bx * block_M, 0])


@dataclass(frozen=True)
class Loop:
    """A kernel with its constants; trips: iterations of its loop; shapes: of A, B and C."""

    make: Any
    constants: dict[str, int]
    trips: int
    shapes: tuple[tuple[int, int], tuple[int, int], tuple[int, int]]
    dtype: str = "bfloat16"

    def compiled(self) -> CompiledKernel:
        a, b, c = self.shapes
        specs = mt.spec(a, self.dtype), mt.spec(b, self.dtype), mt.spec(c, "float32")
        found: CompiledKernel = self.make.compile(
            *specs, mt.spec((ROWS, WARPS, TURNS), "int64"), target=TARGET, **self.constants
        )
        return found


def _product(
    m: int, n: int, k: int, threads: int, stages: int, trips: int = 128, make: Any = product, **more: Any
) -> Loop:
    rows, columns = BLOCKS[0] * m, BLOCKS[1] * n
    constants = {"num_stages": stages, "threads": threads}
    if make is not softened:
        constants |= {"block_M": m, "block_N": n, "block_K": k}
    return Loop(make, constants, trips, ((rows, k * trips), (columns, k * trips), (rows, columns)), **more)


def _attention(d: int, n: int, stages: int, threads: int = 256) -> Loop:
    m, trips = threads // 2, 128
    constants = {"D": d, "block_M": m, "block_N": n, "num_stages": stages, "threads": threads}
    blocks = BLOCKS[0] * BLOCKS[1]
    return Loop(attention, constants, trips, ((blocks * m, d), (n * trips, d), (blocks * m, d)))


LOOPS: dict[str, Loop] = {
    "gemm 128x128x64": _product(128, 128, 64, 128, 4),
    "gemm 128x256x64": _product(128, 256, 64, 256, 4),
    "gemm 256x128x64": _product(256, 128, 64, 256, 4),
    "gemm 64x128x64": _product(64, 128, 64, 128, 6),
    "gemm fp8 128x128x128": _product(128, 128, 128, 128, 4, make=product_fp8, dtype="float8_e4m3fn"),
    "exp2 of gemm 128x128x64": _product(128, 128, 64, 256, 4, make=softened),
    "attention d128": _attention(128, 128, 2),
    "attention d64": _attention(64, 128, 3),
}


# Others, to find what the model lacks.
MORE: dict[str, Loop] = {
    "gemm 128x128x32": _product(128, 128, 32, 128, 8),
    "gemm 128x128x128": _product(128, 128, 128, 128, 3, trips=64),
    "gemm 128x128x64, 256 threads": _product(128, 128, 64, 256, 4),
    "gemm 128x192x64": _product(128, 192, 64, 256, 4),
    "gemm 64x256x64": _product(64, 256, 64, 128, 4),
    "gemm 64x64x64": _product(64, 64, 64, 128, 8),
    "gemm fp8 128x256x128": _product(128, 256, 128, 256, 4, make=product_fp8, dtype="float8_e4m3fn"),
    "exp2 of gemm, 128 threads": _product(128, 128, 64, 128, 4, make=softened),
    "attention d128, tiles of 64": _attention(128, 64, 3),
    "attention d64, tiles of 64": _attention(64, 64, 3),
    "attention d64, 192 rows": _attention(64, 128, 3, threads=384),
    "gemm 192x128x64": _product(192, 128, 64, 384, 4),
    "attention d128, 64 rows": _attention(128, 128, 2, threads=128),
    "attention d64, 64 rows": _attention(64, 128, 3, threads=128),
}


def expected(compiled: CompiledKernel) -> list[Turn]:
    """The turns that the cost model has of a kernel."""
    found: list[Turn] = []
    compile_ir(compiled.case.trace(), compiled.target, compiled.passes, turns=found)
    return found


def interval(line: Any, trips: int) -> float:
    """Cycles of an iteration: of the middle half of the turns of one warp, each of which may be several iterations."""
    seen = [int(clock) for clock in line if clock >= 0]
    if len(seen) < 8:
        return 0.0
    low, high = len(seen) // 4, 3 * len(seen) // 4
    return (seen[high] - seen[low]) / (high - low) / max(1, round(trips / len(seen)))


def measured(loop: Loop, compiled: CompiledKernel, launches: int = 9) -> dict[int, float]:
    """By the line of a loop: cycles of an iteration."""
    import torch

    torch.manual_seed(0)
    arrays = [torch.randn(shape, device="cuda") / 8 for shape in loop.shapes]
    a, b = (x.to(getattr(torch, loop.dtype)) for x in arrays[:2])
    lines = {int(n): int(line) for n, line in re.findall(r"row (\d+) is the loop of line (\d+)", str(compiled.notes))}
    found: dict[int, list[float]] = {}
    for _ in range(launches):
        clocks = torch.full((ROWS, WARPS, TURNS), -1, device="cuda", dtype=torch.int64)
        compiled(a, b, arrays[2], clocks)
        rows = clocks.cpu().numpy()
        once: dict[int, float] = {}
        for row, line in lines.items():
            once[line] = max(once.get(line, 0.0), *(interval(warp, loop.trips) for warp in rows[row]))
        for line, cycles in once.items():
            found.setdefault(line, []).append(cycles)
    return {line: statistics.median(cycles) for line, cycles in found.items()}


def rows_of(
    loops: dict[str, Loop],
    clock: Callable[[Loop, CompiledKernel], dict[int, float]] | None,
    before: dict[str, float] | None = None,
) -> list[dict[str, Any]]:
    """The table's rows: a loop, its expected and measured intervals, and how far the first is from the second. `before`
    has intervals that were measured, where no clock is read."""
    rows = []
    for name, loop in loops.items():
        compiled = loop.compiled()
        hoped = expected(compiled)
        cycles = clock(loop, compiled) if clock is not None else {}
        hope = max((turn.interval for turn in hoped), default=math.nan)
        real = max(cycles.values(), default=(before or {}).get(name, math.nan))
        rows.append({"loop": name, "expected": hope, "measured": real, "off": hope / real - 1})
        rows[-1]["busy"] = {unit: cycles for turn in hoped for unit, cycles in turn.busy().items()}
        for turn in hoped:
            print("\n".join(draw(turn)))
            if turn.line in cycles:
                print(f"  measured: {cycles[turn.line]:.0f} cycles a turn")
        print(f"{name:26} expected {hope:7.0f}  measured {real:7.0f}  {hope / real - 1:+.1%}\n", flush=True)
    return rows


def table(rows: list[dict[str, Any]]) -> list[str]:
    lines = ["| loop | expected | measured | off | |", "|---|---:|---:|---:|---|"]
    for row in rows:
        word = "pass" if abs(row["off"]) <= BOUND else "FAIL"
        lines.append(f"| {row['loop']} | {row['expected']:.0f} | {row['measured']:.0f} | {row['off']:+.1%} | {word} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--expected", action="store_true", help="no GPU: only what is expected")
    parser.add_argument("--out", default="", help="write OUT.md and OUT.json")
    parser.add_argument("--more", action="store_true", help="loops that are not in the table as well")
    parser.add_argument("--measured", default="", help="no GPU: beside what a JSON of an earlier run has")
    options = parser.parse_args()
    before = {}
    if options.measured:
        before = {row["loop"]: row["measured"] for row in json.loads(Path(options.measured).read_text("utf-8"))}
    loops = {**LOOPS, **(MORE if options.more else {})}
    rows = rows_of(loops, None if options.expected or before else measured, before)
    print("\n".join(table(rows)))
    if options.out:
        head = ["# Cycles of a turn: expected, and by the GPU's clock", ""]
        if before:  # the machine is that run's
            said = Path(options.measured).with_suffix(".md").read_text("utf-8").splitlines()
            head += [line for line in said if line.startswith("- ") and not line.startswith("- expected:")]
            head.append("- expected: computed later, by another commit than the one that was measured")
        else:
            import timing

            head += [f"- {name}: {value}" for name, value in timing.machine().items()]
        Path(options.out + ".md").write_text("\n".join([*head, "", *table(rows)]) + "\n", encoding="utf-8")
        Path(options.out + ".json").write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
