"""mt.ops.matmul on random problems, beside cuBLAS and beside the best of all plans that there are for each.

    PYTHONPATH=. python benchmarks/matmul.py --out benchmarks/results/matmul_h200
    PYTHONPATH=. python benchmarks/matmul.py --problems 8 --rounds 9

The problems are bf16, of M, N and K drawn log-uniformly from 16 to 16384 (every third a multiple of 128, every third of
8, the others as they come) and of random form (NN, NT, TN, TT). "minitile" is a plain call, whose plan the model chose
without measuring anything; "tuned" is the fastest plan of the tiles, panels and split-K factors in `plans`: a few
rounds choose it, and others measure it (contest.py), interleaved with all. benchmarks/fit_matmul.py reads the result.
`--sample 20` draws plans from all that the kernels can do (`drawn`), which shows the model what it has not seen.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import contest
import report
import timing
import workers
from compilers import only_plots, options, run
from gemm_peers import BOUND, DEVICE, SAMPLE

from minitile.ops.choice import TEAM, WORTH_PADDING, candidates, together
from minitile.ops.machine import H200
from minitile.ops.model import estimate
from minitile.ops.plan import HILBERT, Plan, Problem

SIZES = (16, 16384)
LARGEST = 2.0**41  # flops of a problem: 3 ms, so that an evening suffices
TUNED = "tuned"
SHARED = 227 * 1024  # bytes of a block, on Hopper
ALIKE = 3  # plans with one tile among those that the model likes best
CANDIDATES, CHANGED, DRAWN = 20, 8, 8  # of a problem's plans


@dataclass(frozen=True)
class Case:
    """C (m × n) = A · B; a letter T of `form` says that an operand lies transposed."""

    m: int
    n: int
    k: int
    form: str

    def __str__(self) -> str:
        return f"{self.form} {self.m}x{self.n}x{self.k}"

    @classmethod
    def of(cls, words: str) -> Case:
        """ "NT:128x8192x8192"."""
        form, sizes = words.split(":")
        m, n, k = map(int, sizes.split("x"))
        return cls(m, n, k, form)

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
    """Of what the model chooses from, the better ones; of the best of these, others with one thing changed: panels or
    Hilbert order, more and fewer splits of K and how they are added up, one team or two, kernels that are not
    persistent, ragged operands as they lie. And some drawn at random, so that the model's taste is not all there is."""
    from minitile.ops.multiply import machine_of_device
    from minitile.target import parse_target

    machine, target = machine_of_device(0), parse_target("auto")
    known = candidates(problem, machine, target.has("wgmma"), target.max_shared)
    ranked = sorted(known, key=lambda plan: estimate(problem, plan, machine))[:CANDIDATES]
    found = dict.fromkeys(ranked)
    for plan in ranked[:CHANGED]:
        found |= dict.fromkeys(changed(problem, plan))
    if target.has("wgmma"):
        found |= dict.fromkeys(drawn(problem, DRAWN))
    return list(found)


def changed(problem: Problem, plan: Plan) -> Iterator[Plan]:
    """The plan with one thing changed."""
    by_threads = any(ragged and not padded for ragged, padded in zip(problem.ragged, plan.pad, strict=True))
    if plan.panel:
        yield plan._replace(panel=24 - plan.panel)
        yield plan._replace(panel=HILBERT)
    if plan.blocks:
        yield plan._replace(blocks=0, teams=1, threads=_threads(plan))
        if plan.block_M <= 128 and plan.block_M * plan.block_N <= TEAM and not plan.swap and not by_threads:
            yield plan._replace(teams=3 - plan.teams, threads=256 if plan.teams == 1 else _threads(plan))
    if plan.split > 1:
        for split in {max(2, plan.split // 2), plan.split, plan.split + 1, plan.split * 2}:
            yield plan._replace(split=split, together=False)
            if not plan.together:
                yield from filter(None, [together(plan._replace(split=split), 2, SHARED)])
    if any(plan.pad) and not plan.blocks and plan.split == 1:  # what padding is worth
        yield plan._replace(pad=(False, False))


def _threads(plan: Plan) -> int:
    """Of one team: a warpgroup for each 64 rows, but two for 256."""
    rows = plan.block_N if plan.swap else plan.block_M
    return 256 if rows == 256 else rows * 2


def drawn(problem: Problem, count: int, seed: int = 0) -> list[Plan]:
    """`count` random plans: 64 to 256 rows, or few and swapped; columns by 16, with and without much waste; two depths
    of a step; one block of a multiprocessor or two; K whole or in parts, added in one launch or two. Of these and the
    candidates, twenty times as many, two thirds are those that the model likes best, few of one tile; the others come
    from the better half.
    """
    rng = random.Random(f"{problem} {seed}")
    found = set(candidates(problem, H200, True, SHARED))
    for _ in range(count * 40):
        plan = _random_plan(problem, rng)
        if plan is not None:
            found.add(plan)
        if len(found) >= count * 20:
            break
    ranked = sorted(found, key=lambda plan: (estimate(problem, plan, H200), plan))
    best: list[Plan] = []
    for plan in ranked:
        if len(best) < count * 2 // 3 and sum(plan[:2] == other[:2] for other in best) < ALIKE:
            best.append(plan)
    others = [plan for plan in ranked[: max(len(ranked) // 2, count)] if plan not in best]
    return best + rng.sample(others, min(len(others), count - len(best)))


def _random_plan(problem: Problem, rng: random.Random) -> Plan | None:
    """One that fits into shared memory and registers and is not mostly empty."""
    m, n, k = problem.m, problem.n, problem.k
    swap = m <= 128 and rng.random() < 0.3
    if swap:
        wide = rng.choice((64, 128, 192))
        high, threads = rng.choice([r for r in (8, 16, 24, 32, 48, 64, 96, 128) if r < 2 * m + 8]), wide * 2
    else:
        high = rng.choice((64, 64, 128, 128, 128, 192, 256))
        threads = {64: 128, 128: 256, 192: 384, 256: 256}[high]
        most = 128 if high == 256 else 192 if high == 192 else 256
        if rng.random() < 0.5:
            wide = rng.choice((32, 64, 96, 128, 192, 256))
        else:
            grain = 8 if n <= 64 else 16
            wide = -(-n // (rng.randint(1, 6) * grain)) * grain
            if wide > most:
                wide = rng.randrange(16, most + 1, 16)
        if wide > most or wide < 8:
            return None
    if (not swap and high >= 2 * m > 64) or wide >= 2 * n > 32:
        return None
    deep = 128 if high + wide <= 160 and k > 64 else 64
    box = (high + wide) * deep * 2
    stages = min(8, 200 * 1024 // box)
    if rng.random() < 0.3:
        stages = min(stages, 100 * 1024 // box)
    if stages < 3:
        return None
    tiles = -(-m // high) * -(-n // wide)
    blocks = teams = panel = split = 0
    gather = False
    if tiles > H200.multiprocessors:
        panel = rng.choice((4, 8, 8, 16, 16, HILBERT))
        if rng.random() < 0.7 and not swap:
            blocks = H200.multiprocessors
            if high <= 128 and high * wide <= TEAM and not any(problem.ragged) and rng.random() < 0.6:
                teams, threads = 2, 256
    elif k >= 512:
        most = min(16, -(-k // deep) // 3, 2 * H200.multiprocessors // tiles)
        if most > 1 and rng.random() < 0.8:
            split = rng.choice(range(2, most + 1))
            gather = rng.random() < 0.5
    pad = problem.ragged if problem.flops >= WORTH_PADDING and rng.random() < 0.9 else (False, False)
    plan = Plan(high, wide, deep, stages, threads, blocks, panel, max(1, split), pad, max(1, teams), swap)
    return together(plan, 2, SHARED) if gather else plan


def assemble_all(found: Mapping[Case, Sequence[Plan]]) -> None:
    """Puts the kernels into the cache, by processes that know nothing of the GPU."""
    jobs = [(case, plan) for case, of_case in found.items() for plan in of_case]
    with workers.pool() as pool:
        list(pool.map(_assemble, jobs, chunksize=4))


def _assemble(job: tuple[Case, Plan]) -> None:
    from minitile.language import bfloat16
    from minitile.ops.multiply import assembled

    _quiet(assembled, job[0].problem, bfloat16, bfloat16, job[1])


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


def tuned(a: Any, b: Any, c: Any, found: Sequence[Plan]) -> Iterator[contest.Entry]:
    """An entry for each plan."""
    import minitile as mt

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


def measure(case: Case, found: Sequence[Plan], args: argparse.Namespace, page: report.Report) -> None:
    """Adds one case's rows to the page."""
    a, b, c = operands(case)
    makers = {
        "minitile": lambda: minitile(a, b, c),
        TUNED: lambda: tuned(a, b, c, found),
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
    description = "matmul on random problems; ratios and their geometric means."
    parser = options(description, ["minitile", TUNED, "cublas"], rounds=15, batch_ms=3.0)
    parser.add_argument("--problems", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="tune over N plans drawn at random")
    parser.add_argument(
        "--cases", nargs="*", default=[], metavar="FORM:MxNxK", help="these, before the random problems"
    )
    return parser.parse_args(words)


def main() -> None:
    args = parse(None)
    if only_plots(args):
        return
    page = report.Report("matmul, bf16, random problems", "cublas", timing.machine())
    cases = [Case.of(words) for words in args.cases] + draw(args.problems, args.seed)
    found = {
        case: drawn(case.problem, args.sample, args.seed) if args.sample else plans(case.problem) for case in cases
    }
    if TUNED in args.contenders:
        start = time.perf_counter()
        assemble_all(found)
        print(f"{sum(map(len, found.values()))} kernels: {time.perf_counter() - start:.1f} s", flush=True)
    run(cases, lambda case: measure(case, found[case], args, page), page, args.out)


if __name__ == "__main__":
    main()
