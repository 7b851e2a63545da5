"""GEMM of fp8 with scales, and GEMM with an epilogue, beside cuBLAS through torch on the GPU's own target.

    PYTHONPATH=. python benchmarks/gemm_fp8.py --out benchmarks/results/gemm_fp8_h200
    PYTHONPATH=. python benchmarks/gemm_fp8.py --cases fast:8192 blocks:4096x7168x2048 --rounds 50

A case is FORM:SHAPE; C = A · Bᵀ, results in bf16. The forms:

- fast: e4m3, a scale for each matrix, all sums in the tensor cores (torch._scaled_mm, use_fast_accum=True)
- exact: the same with sums of 128 products added in f32 (use_fast_accum=False)
- rows: a scale for each row of A and of B, fast accumulation (torch._scaled_mm with vectors)
- blocks: a scale for each 1 × 128 of A and 128 × 128 of B (torch's own where it has that)
- gelu: bf16, gelu(A · Bᵀ + bias) (torch._addmm_activation, cuBLASLt's epilogue; and two kernels, one after the other)

Every entry's result is checked before it is timed: a sample of rows against float64, all of it against what torch makes
of the same numbers. How entries are chosen and timed: contest.py. What DeepGEMM published of the form `blocks` stands
below the tables, as shares of the chips' peaks: it is not run here.
"""

from __future__ import annotations

import argparse
from typing import Any

import contest
import report
import timing
from compilers import add_cases, fresh_caches, only_plots, options, run
from gemm_fp8_peers import CONTENDERS, FORMS, Problem, random_operands, verifier
from gemm_peers import parse_shape

CASES = (
    "fast:8192",
    "fast:4096",
    "exact:8192",
    "exact:4096",
    "rows:8192",
    "rows:4096",
    "blocks:4096x7168x2048",
    "blocks:4096x4096x7168",
    "gelu:8192",
    "gelu:8192x28672x4096",
)
PEAK = 1979  # TFLOP/s of dense fp8, H100, H200 and H800 SXM (NVIDIA's data sheets)
# deepseek-ai/DeepGEMM, README.md of March 2025, "Normal GEMMs for dense models": TFLOP/s on an H800.
DEEPGEMM = {(4096, 7168, 2048): 1025, (4096, 4096, 7168): 1304, (4096, 7168, 16384): 1358, (4096, 24576, 1536): 990}


def main() -> None:
    args = parse(None)
    if only_plots(args):
        return
    fresh_caches()
    page = report.Report("GEMM, fp8 with scales; bf16 with an epilogue", "cublas", timing.machine())
    run(args.cases, lambda problem: measure(problem, args, page), page, args.out)


def parse(words: list[str] | None) -> argparse.Namespace:
    parser = options("fp8 GEMM side by side; TFLOP/s and ratios.", list(CONTENDERS))
    add_cases(parser, parse_case, map(parse_case, CASES), "FORM:M[xNxK]")
    return parser.parse_args(words)


def parse_case(text: str) -> Problem:
    """ "fast:4096" or "blocks:4096x7168x2048"."""
    form, _, shape = text.partition(":")
    if form not in FORMS:
        raise argparse.ArgumentTypeError(f"{text}: the forms are {', '.join(FORMS)}")
    m, n, k = parse_shape(shape)
    return Problem(form, m, n, k)


def measure(problem: Problem, args: argparse.Namespace, page: report.Report) -> None:
    """Adds one problem's rows to the page."""
    operands = random_operands(problem)

    def entries(make: Any) -> Any:
        return lambda: make(problem, operands)

    found = contest.gather({name: entries(CONTENDERS[name]) for name in args.contenders})
    page.compiled(found)
    result = contest.hold(
        str(problem), problem.flops, found, verifier(problem, operands), page.base,
        lambda: operands.c.fill_(float("nan")), args.rounds, args.batch_ms,
    )  # fmt: skip
    page.add(str(problem), result)
    published = DEEPGEMM.get((problem.m, problem.n, problem.k))
    ours = [row["tflops"] for row in result.rows if row["contender"] == report.OURS]
    if problem.form == "blocks" and published and ours:
        page.remarks.append(
            f"{problem}: minitile {ours[0]:.0f} TFLOP/s, {ours[0] / PEAK:.1%} of the peak of {PEAK}; DeepGEMM's README "
            f"of March 2025 has {published} on an H800, {published / PEAK:.1%}: {ours[0] / published:.2f} of that."
        )


if __name__ == "__main__":
    main()
