"""examples/gemm.py in bf16, compiled for sm_80, beside cuBLAS, Triton and TileLang on the same mma.sync path.

    PYTHONPATH=. python benchmarks/gemm_sm80.py [--cases 4096 | MxNxK ...] [--rounds 25] [--out benchmarks/results/NAME]

All contenders come with the same tiles; gemm_sm80_peers.py says how each is held to mma.sync. Every entry's result is
checked before it is timed, as in gemm.py; how entries are chosen and timed: contest.py. `--compile-only ARCH` needs no
GPU: what each entry becomes when it is linked for ARCH.
"""

from __future__ import annotations

import argparse
from typing import Any

import contest
import report
import timing
from compilers import add_cases, fresh_caches, only_plots, options, run
from gemm_peers import Gemm, Operands, parse_shape, random_operands, verifier
from gemm_sm80_peers import CONTENDERS


def main() -> None:
    args = parse(None)
    if only_plots(args):
        return
    fresh_caches()
    problems = [Gemm(*shape) for shape in args.cases]
    if args.compile_only:
        for entry in gather(problems[0], None, args.compile_only, args.contenders):
            known = ", ".join(f"{value} {name}" for name, value in entry.facts.items())
            print(f"{entry}: {entry.failure or known}", flush=True)
        return
    page = report.Report("GEMM, bf16, C = A · Bᵀ, for sm_80", "cublas", timing.machine())
    run(problems, lambda problem: measure(problem, args, page), page, args.out)


def parse(words: list[str] | None) -> argparse.Namespace:
    parser = options("GEMM for sm_80, side by side; TFLOP/s and ratios.", list(CONTENDERS))
    add_cases(parser, parse_shape, [(4096, 4096, 4096)], "M[xNxK]")
    parser.add_argument("--compile-only", metavar="ARCH", help="compile and link for ARCH; time nothing")
    return parser.parse_args(words)


def gather(problem: Gemm, operands: Operands | None, arch: str, names: list[str]) -> list[contest.Entry]:
    def entries(make: Any) -> Any:
        return lambda: make(problem, operands, arch)

    return contest.gather({name: entries(CONTENDERS[name]) for name in names})


def measure(problem: Gemm, args: argparse.Namespace, page: report.Report) -> None:
    """Adds one problem's rows to the page."""
    import torch

    operands = random_operands(problem)
    found = gather(problem, operands, "sm_{}{}".format(*torch.cuda.get_device_capability()), args.contenders)
    page.compiled(found)
    result = contest.hold(
        str(problem), problem.flops, found, verifier(problem, operands), page.base,
        lambda: operands.c.fill_(float("nan")), args.rounds, args.batch_ms,
    )  # fmt: skip
    page.add(str(problem), result)


if __name__ == "__main__":
    main()
