"""mt.ops.matmul on random problems, beside cuBLAS and beside the best of all plans that there are for each.

    PYTHONPATH=. python benchmarks/matmul.py --out benchmarks/results/matmul_h200
    PYTHONPATH=. python benchmarks/matmul.py --problems 8 --rounds 9

The problems are bf16, of M, N and K drawn log-uniformly from 16 to 16384 (every third a multiple of 128, every third of
8, the others as they come) and of random form (NN, NT, TN, TT). "minitile" is a plain call, whose plan the model chose
without measuring anything; "tuned" is the fastest plan of the tiles, panels and parts of K in `plans`: a few rounds
choose it, and others measure it (contest.py), in turns with all. benchmarks/fit_matmul.py reads the result.
"""

from __future__ import annotations

import argparse
import math
import os
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import contest
import report
import timing
from compilers import run
from gemm_peers import BOUND, DEVICE, SAMPLE

from minitile.ops.plan import Plan, Problem, candidates

SIZES = (16, 16384)
LARGEST = 2.0**41  # flops of a problem: 3 ms, so that an evening suffices
TUNED = "tuned"
HALF = 64  # rows: with no more a tile of 128 is half empty, which took twice the time


@dataclass(frozen=True)
class Case:
    """C (m × n) = A · B; a letter T of `form` says that an operand lies transposed."""

    m: int
    n: int
    k: int
    form: str

    def __str__(self) -> str:
        return f"{self.form} {self.m}x{self.n}x{self.k}"

    @property
    def problem(self) -> Problem:
        return Problem(self.m, self.n, self.k, self.form[0] == "T", self.form[1] == "T")


def draw(count: int, seed: int = 1) -> list[Case]:
    """Random cases, the same ones each time."""
    rng, found = random.Random(seed), []
    low, high = map(math.log, SIZES)
    while len(found) < count:
        grain = (128, 8, 1)[len(found) % 3]
        m, n, k = (max(grain, round(math.exp(rng.uniform(low, high)) / grain) * grain) for _ in range(3))
        if 2.0 * m * n * k <= LARGEST:
            found.append(Case(m, n, k, rng.choice("NT") + rng.choice("NT")))
    return found


def plans(problem: Problem) -> list[Plan]:
    """What the model chooses from, and besides: other panels, more and fewer parts of K, one team or two, blocks
    that do not stay, ragged operands as they lie, and a tile of 128×64 that is no candidate yet."""
    from minitile.ops.multiply import machine_of_device
    from minitile.target import parse_target

    machine, target = machine_of_device(0), parse_target("auto")
    found: dict[Plan, None] = {}
    for plan in candidates(problem, machine, target.has("wgmma"), target.max_shared):
        found[plan] = None
        if plan.panel:
            found[plan._replace(panel=24 - plan.panel)] = None
        if plan.blocks:
            found[plan._replace(blocks=0, teams=1)] = None
            if plan.block_M == 128 and plan.block_N < 256:  # what the registers of one warpgroup hold
                found[plan._replace(teams=3 - plan.teams)] = None
        if plan.split > 1:
            found |= dict.fromkeys(plan._replace(split=s) for s in (1, max(2, plan.split // 2), plan.split * 2))
        if any(plan.pad) and not plan.blocks and plan.split == 1:  # what padding is worth
            found[plan._replace(pad=(False, False))] = None
    if target.has("wgmma") and problem.m > HALF and not any(problem.ragged):
        found |= dict.fromkeys(Plan(128, 64, 128, 4, threads) for threads in (128, 256))
    return list(found)


def operands(case: Case) -> tuple[Any, Any, Any]:
    """Standard normal matrices, and one to write to."""
    import torch

    torch.manual_seed(0)

    def matrix(rows: int, columns: int, transposed: bool) -> Any:
        shape = (columns, rows) if transposed else (rows, columns)
        made = torch.randn(*shape, device=DEVICE, dtype=torch.bfloat16)
        return made.t() if transposed else made

    c = torch.empty(case.m, case.n, device=DEVICE, dtype=torch.bfloat16)
    return matrix(case.m, case.k, case.form[0] == "T"), matrix(case.k, case.n, case.form[1] == "T"), c


def verifier(a: Any, b: Any) -> contest.Verify:
    """As gemm_peers.verifier."""
    import torch

    rows = torch.linspace(0, a.shape[0] - 1, min(SAMPLE, a.shape[0]), device=DEVICE, dtype=torch.float64).round().long()
    return contest.checker(a[rows].double() @ b.double(), lambda c: c[rows], a @ b, BOUND)


def minitile(a: Any, b: Any, c: Any) -> Iterator[contest.Entry]:
    import minitile as mt

    yield contest.Entry("minitile", str(mt.ops.plan_for(a, b)), lambda: mt.ops.matmul(a, b, out=c))


def tuned(case: Case, a: Any, b: Any, c: Any) -> Iterator[contest.Entry]:
    """An entry for each plan; they are compiled on all cores first."""
    import minitile as mt
    from minitile.ops.multiply import compiled

    found = plans(case.problem)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda plan: _quiet(compiled, a, b, c, plan), found))

    def build(plan: Plan) -> contest.Entry:
        mt.ops.matmul(a, b, out=c, plan=plan)
        return contest.Entry(TUNED, str(plan), lambda: mt.ops.matmul(a, b, out=c, plan=plan))

    return contest.each(TUNED, found, build)


def _quiet(function: Any, *args: Any) -> None:
    """Whatever goes wrong here will again, where it is reported."""
    try:
        function(*args)
    except Exception:
        return


def cublas(a: Any, b: Any, c: Any) -> Iterator[contest.Entry]:
    import torch

    yield contest.Entry("cublas", "its own choice", lambda: torch.matmul(a, b, out=c))


def measure(case: Case, args: argparse.Namespace, page: report.Report) -> None:
    """Adds one case's rows to the page."""
    a, b, c = operands(case)
    makers = {
        "minitile": lambda: minitile(a, b, c),
        TUNED: lambda: tuned(case, a, b, c),
        "cublas": lambda: cublas(a, b, c),
    }
    entries = contest.gather({name: makers[name] for name in args.contenders})
    result = contest.hold(
        str(case), case.problem.flops, entries, verifier(a, b), page.base,
        lambda: c.fill_(float("nan")), args.rounds, args.batch_ms,
    )  # fmt: skip
    page.add(str(case), result)
    page.remarks[:] = means(page)


def means(page: report.Report) -> list[str]:
    """Geometric means of ours against the others, so far."""
    ours = [rows[report.OURS]["of"] for rows in page.cases().values() if report.OURS in rows]
    lines = []
    for other in ("cublas", TUNED):
        ratios = [of[other] for of in ours if other in of]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            lines.append(
                f"Against {other}: geometric mean {mean:.3f} over {len(ratios)} problems, least {min(ratios):.3f}."
            )
    return lines


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="matmul on random problems; ratios and their geometric means.")
    parser.add_argument("--problems", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--contenders", nargs="+", choices=("minitile", TUNED, "cublas"), default=["minitile", TUNED, "cublas"]
    )
    parser.add_argument("--rounds", type=int, default=15, help="rounds that count")
    parser.add_argument("--batch-ms", type=float, default=3.0, help="milliseconds that one contender's turn takes")
    parser.add_argument("--out", metavar="NAME", help="write NAME.md, NAME.json, NAME.svg")
    return parser.parse_args(words)


def main() -> None:
    args = parse(None)
    page = report.Report("matmul, bf16, random problems", "cublas", timing.machine())
    run(draw(args.problems, args.seed), lambda case: measure(case, args, page), page, args.out)


if __name__ == "__main__":
    main()
