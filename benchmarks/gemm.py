"""GEMM in bf16 beside cuBLAS, Triton and TileLang on the GPU's own target, in one process on random data.

    PYTHONPATH=. python benchmarks/gemm.py --out benchmarks/results/gemm_h200
    PYTHONPATH=. python benchmarks/gemm.py --cases 8192x8192x8192 --forms NT --contenders minitile tilelang --rounds 50

Every entry's result is checked before it is timed: a sample of rows against a float64 product, all of it against
cuBLAS. How entries are chosen and timed: contest.py. NT is C = A · Bᵀ with B of N × K, NN is C = A · B. `--out NAME`
writes NAME.md, NAME.json and NAME.svg (report.py), the first two after each case. `--reference DIR` times the
hand-written texts of DIR too (handwritten.py); `--plot NAME.json` only draws.
"""

from __future__ import annotations

import argparse
from typing import Any

import contest
import handwritten
import report
import timing
from compilers import add_cases, fresh_caches, only_plots, options, run
from gemm_peers import CONTENDERS, NT_ONLY, Gemm, parse_shape, random_operands, verifier
from gemm_thin import THIN_CONTENDERS

ALL = {**CONTENDERS, **THIN_CONTENDERS}
SHAPES = (
    (8192, 8192, 8192),
    (4096, 4096, 4096),
    (2048, 2048, 2048),
    (16384, 8192, 8192),
    (4096, 7168, 2048),
    (8192, 28672, 4096),
    (128, 8192, 8192),
    (64, 7168, 18432),
)


def main() -> None:
    args = parse(None)
    if only_plots(args):
        return
    fresh_caches()
    problems = [Gemm(*shape, form == "NT") for form in args.forms for shape in args.cases]
    page = report.Report("GEMM, bf16, C = A · B", "cublas", timing.machine())
    texts = handwritten.read(args.reference) if args.reference else {}
    run(problems, lambda problem: measure(problem, problems, args, texts, page), page, args.out)


def parse(words: list[str] | None) -> argparse.Namespace:
    parser = options("GEMM side by side; TFLOP/s and ratios.", list(ALL), reference=True)
    add_cases(parser, parse_shape, SHAPES, "M[xNxK]")
    parser.add_argument("--forms", nargs="+", choices=("NT", "NN"), default=["NT", "NN"])
    return parser.parse_args(words)


def measure(problem: Gemm, problems: list[Gemm], args: argparse.Namespace, texts: Any, page: report.Report) -> None:
    """Adds one problem's rows to the page."""
    operands = random_operands(problem)

    def entries(make: Any) -> Any:
        return lambda: make(problem, operands, problems)

    contenders = {
        name: entries(ALL[name])
        for name in args.contenders
        if problem.transposed or name not in (*NT_ONLY, *THIN_CONTENDERS)
    }
    if texts:
        a, b, c = operands.a, operands.b, operands.c
        contenders[handwritten.NAME] = lambda: handwritten.gemm(texts, problem.transposed, a, b, c)
    found = contest.gather(contenders)
    page.compiled(found)
    result = contest.hold(
        str(problem), problem.flops, found, verifier(problem, operands), page.base,
        lambda: operands.c.fill_(float("nan")), args.rounds, args.batch_ms,
    )  # fmt: skip
    page.add(str(problem), result)


if __name__ == "__main__":
    main()
