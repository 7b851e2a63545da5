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
from compilers import add_options, fresh_caches, run
from gemm_peers import CONTENDERS, NT_ONLY, Gemm, Operands

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
DEVICE = "cuda"
BOUND = 4e-3  # bf16 results: half a unit in the last place of 8 bits, over random values
SAMPLE = 64  # rows


def main() -> None:
    args = parse(None)
    if args.plot:
        print(report.draw_file(args.plot))
        return
    fresh_caches()
    problems = [Gemm(*shape, form == "NT") for form in args.forms for shape in args.cases]
    page = report.Report("GEMM, bf16, C = A · B", "cublas", timing.machine())
    texts = handwritten.read(args.reference) if args.reference else {}
    run(problems, lambda problem: measure(problem, problems, args, texts, page), page, args.out)


def parse(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="GEMM side by side; TFLOP/s and ratios.")
    parser.add_argument("--cases", nargs="+", type=parse_shape, default=list(SHAPES), metavar="M[xNxK]")
    parser.add_argument("--forms", nargs="+", choices=("NT", "NN"), default=["NT", "NN"])
    add_options(parser, list(CONTENDERS))
    return parser.parse_args(words)


def parse_shape(text: str) -> tuple[int, ...]:
    """ "4096" or "8192x4096x1024"."""
    numbers = tuple(int(number) for number in text.split("x"))
    if len(numbers) not in (1, 3):
        raise argparse.ArgumentTypeError(f"{text}: M, or MxNxK")
    return numbers * 3 if len(numbers) == 1 else numbers


def measure(problem: Gemm, problems: list[Gemm], args: argparse.Namespace, texts: Any, page: report.Report) -> None:
    """Adds one problem's rows to the page."""
    import torch

    torch.manual_seed(0)
    a = torch.randn(problem.m, problem.k, device=DEVICE, dtype=torch.bfloat16)
    b = torch.randn(*problem_b(problem), device=DEVICE, dtype=torch.bfloat16)
    c = torch.empty(problem.m, problem.n, device=DEVICE, dtype=torch.bfloat16)
    operands = Operands(a, b, c)

    def entries(make: Any) -> Any:
        return lambda: make(problem, operands, problems)

    contenders = {
        name: entries(CONTENDERS[name]) for name in args.contenders if problem.transposed or name not in NT_ONLY
    }
    if texts:
        contenders[handwritten.NAME] = lambda: handwritten.gemm(texts, problem.transposed, a, b, c)
    found = contest.gather(contenders)
    page.compiled(found)
    result = contest.hold(
        str(problem), problem.flops, found, verifier(problem, operands), page.base,
        lambda: c.fill_(float("nan")), args.rounds, args.batch_ms,
    )  # fmt: skip
    page.add(str(problem), result)


def problem_b(problem: Gemm) -> tuple[int, int]:
    return (problem.n, problem.k) if problem.transposed else (problem.k, problem.n)


def verifier(problem: Gemm, operands: Operands) -> contest.Verify:
    """Against float64 on rows spread over C, the first and the last among them, and against cuBLAS."""
    import torch

    b = operands.b.t() if problem.transposed else operands.b
    count = min(SAMPLE, problem.m)
    rows = torch.linspace(0, problem.m - 1, count, device=b.device, dtype=torch.float64).round().long()
    expected = operands.a[rows].double() @ b.double()
    return contest.checker(expected, lambda c: c[rows], operands.a @ b, BOUND)


if __name__ == "__main__":
    main()
