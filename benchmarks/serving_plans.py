"""How long many plans of `mt.ops.matmul` take where there are few rows and the weights come from memory.

    PYTHONPATH=. python benchmarks/serving_plans.py --out benchmarks/results/serving_plans_h200.json.xz

The layers and row counts of serving.py, then random ones; of each, all plans that may suit it (`plans_of`), and cuBLAS.
Processes compile, the GPU times one problem after the other as soon as its kernels are there: interleaved, from CUDA
graphs, each batch with as many copies of the weights as L2 does not hold. Each result is compared with torch's first; a
kernel that spills registers is left out. fit_matmul.py reads the file. What is in it already is not measured again, so
the same command goes on where the last one ended.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any

from fit_matmul import plan_of
from matmul import SHARED, Case
from matmul_plans import Times, read, write
from serving import LAYERS, ROTATED

from minitile.ops.choice import candidates
from minitile.ops.gemv import by_threads
from minitile.ops.machine import H200
from minitile.ops.model import estimate
from minitile.ops.plan import Plan, Problem
from minitile.ops.thin import thin_plans

ROW_COUNTS = (200, 96, 1, 160, 64, 256, 8, 128, 48, 512, 32, 16, 2, 4)  # the ones that are worth most come first
WIDTHS = (64, 128, 192, 256, 384, 512, 640, 768, 1024, 1280)  # of hidden layers, times 8, for random ones
BEST = 3  # plans that are tried with B ahead
VECTORS = (
    (4, 512, 128),
    (8, 256, 128),
    (8, 512, 128),
    (2, 1024, 128),
    (4, 256, 64),
    (4, 512, 64),
    (4, 1024, 128),
)  # rows, columns, threads
KNOWN, MOST, EVERY = 8, 56, 1000  # plans of a problem: those that the model liked so far, and all, or really all
ROUNDS = 5
BOUND = 0.01  # relative, of a result against torch's
AHEAD = 48  # problems whose kernels are compiled before they are timed


def cases(count: int, seed: int) -> list[Case]:
    """The layers by all row counts, and random ones."""
    found = [Case(m, n, k, "NT") for m in ROW_COUNTS for n, k in LAYERS]
    rng = random.Random(seed)
    for _ in range(count):
        n, k = (8 * rng.choice(WIDTHS) * rng.choice((1, 1, 2, 3, 4)) for _ in range(2))
        m = max(1, min(512, round(math.exp(rng.uniform(0, math.log(512))))))
        if 2 * n * k >= 8 << 20:
            found.append(Case(m, n, k, rng.choice(("NT", "NT", "NN"))))
    return found


def plans_of(problem: Problem, seed: int = 0, most: int = MOST) -> list[Plan]:
    """What is measured: plans by threads, those of stream-K, the swapped plans of all other kinds, and what the model
    has liked so far."""
    known = candidates(problem, H200, True, SHARED)
    ranked = sorted(known, key=lambda plan: (estimate(problem, plan, H200), plan))[:KNOWN]
    ranked = [p for plan in ranked for p in (plan, *with_neighbours(problem, plan))]
    found = list(dict.fromkeys(swapped(problem)))
    rng = random.Random(f"{problem} {seed}")
    known = [*by_threads_plans(problem), *ranked, *(plan for plan in found if plan.stream)]
    return list(dict.fromkeys([*known, *rng.sample(found, min(len(found), max(most - len(known), 0)))]))


def with_neighbours(problem: Problem, plan: Plan) -> Iterator[Plan]:
    """The same plan, where there are two tiles of rows or four, with these next to each other, and in a cluster."""
    rows = -(-problem.m // plan.block_M)
    if plan.dots or plan.stream or rows not in (2, 4):
        return
    if not plan.together and not plan.panel:
        yield plan._replace(panel=8)
    for share in (2, 4)[: rows // 2]:
        if plan.block_N % (8 * share) == 0 and plan.cluster * share <= 8 and plan.blocks % share == 0:
            yield plan._replace(panel=0 if plan.together else plan.panel or 8, share_rows=share)


def by_threads_plans(problem: Problem) -> list[Plan]:
    """gemv.py's."""
    if by_threads(problem) is None:
        return []
    counts = {min(problem.m, per) for per in (2, 4)}
    return [Plan(per, rows, columns, 1, threads, dots=True) for per in counts for rows, columns, threads in VECTORS]


def swapped(problem: Problem) -> Iterator[Plan]:
    """What thin.py has, and some that it leaves out: in panels, or added up by a second kernel."""
    for plan in thin_plans(problem, H200, SHARED, every=True):
        plan = plan._replace(pad=problem.ragged)
        yield plan
        if plan.stream:
            continue
        tiles = -(-problem.m // plan.block_M) * -(-problem.n // plan.block_N)
        parts = min(H200.multiprocessors // max(tiles, 1), problem.k // 256, 16)
        if plan.split == 1 and not plan.blocks and tiles > H200.multiprocessors:
            yield plan._replace(panel=8)
        if plan.split == 1 and parts > 1 and (plan.block_M <= 128 or plan.block_N == 256):
            yield plan._replace(split=parts)
        if plan.split == plan.share == 1 and not plan.blocks and 1 / 3 < tiles / H200.multiprocessors < 1:
            for parts in (2, 3):  # whole rounds of parts where there is none of tiles
                yield plan._replace(split=parts)


def ahead_of(times: dict[str, float]) -> list[Plan]:
    """The fastest plans, with B before the kernel in front has ended and behind."""
    best = sorted((us, name) for name, us in times.items() if name != "cublas")[:BEST]
    plans = [plan_of(name) for _, name in best]
    return [p for plan in plans for p in (plan, plan._replace(ahead=True))]


def besides(problem: Problem, times: dict[str, float], word: str = "") -> list[Plan]:
    """What of `plans_of` was not measured yet and has this word in its name, and the fastest ones that were."""
    best = sorted((us, name) for name, us in times.items() if name != "cublas")[:BEST]
    every = plans_of(problem, most=EVERY if word else MOST)
    new = [plan for plan in every if word in str(plan) and str(plan) not in times]
    return [*(plan_of(name) for _, name in best), *new]


def assemble(job: tuple[Case, Plan]) -> bool:
    """Puts the kernel into the cache. False where it spills, or does not compile."""
    import warnings

    from minitile.backends.base import AssemblerWarning
    from minitile.language import bfloat16
    from minitile.ops.multiply import assembled

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", ".*spill", AssemblerWarning)
        try:
            assembled(job[0].problem, bfloat16, bfloat16, job[1])
        except Exception:
            return False
    return True


def measure(case: Case, found: Sequence[Plan]) -> dict[str, float | str]:
    """By plan: µs, or what went wrong. And cuBLAS."""
    import contest
    import timing
    import torch

    import minitile as mt

    torch.manual_seed(0)
    a = torch.randn(case.m, case.k, device="cuda", dtype=torch.bfloat16)
    count = ROTATED // (2 * case.n * case.k) + 1
    shape = (case.n, case.k) if case.form[1] == "T" else (case.k, case.n)
    weights = [torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(count)]
    if case.form[1] == "T":
        weights = [w.t() for w in weights]
    out = torch.empty(case.m, case.n, device="cuda", dtype=torch.bfloat16)
    expected = torch.mm(a, weights[-1]).float()
    result: dict[str, float | str] = {}
    batches = {"cublas": contest.record(lambda: [torch.mm(a, w, out=out) for w in weights], 1)[0]}
    for plan in found:
        try:
            with contest.watched(f"{case} {plan}"):
                out.fill_(math.nan)
                error = contest.relative_error(mt.ops.matmul(a, weights[-1], out=out, plan=plan), expected)
            if not error <= BOUND:
                raise contest.Wrong(f"relative error {error:.1e}")
            launch = [(w, plan) for w in weights]
            batches[str(plan)] = contest.record(
                lambda launch=launch: [mt.ops.matmul(a, w, out=out, plan=plan) for w, plan in launch], 1
            )[0]
        except Exception as problem:
            result[str(plan)] = contest.short(problem)
            torch.cuda.synchronize()  # raises where nothing goes on
    with contest.watched(f"{case}, all plans"):
        times = timing.time_interleaved(batches, ROUNDS, 1)
    return {**result, **{name: round(statistics.median(ms) / count * 1e3, 3) for name, ms in times.items()}}


def told(case: Case, times: dict[str, float]) -> str:
    """The best plan in a line."""
    us, plan = min(((us, plan) for plan, us in times.items() if plan != "cublas"), default=(math.nan, "no plan"))
    return f"{case}: {times['cublas'] / us:.3f} of cuBLAS, {us:.1f} µs, {plan}"


def collect(
    todo: Sequence[Case], known: Times, path: Path, seconds: float, plans: Callable[[Case], list[Plan]]
) -> None:
    """Measures what is not known, as far as the time goes."""
    start, waiting = time.monotonic(), [case for case in todo if str(case) not in known]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), context) as pool:
        jobs: list[tuple[Case, list[Plan], Future[Any]]] = []
        while (waiting or jobs) and time.monotonic() - start < seconds:
            while waiting and len(jobs) < AHEAD:
                case = waiting.pop(0)
                found = plans(case)
                jobs.append((case, found, [pool.submit(assemble, (case, plan)) for plan in found]))
            case, found, futures = jobs.pop(0)
            sound = [plan for plan, future in zip(found, futures, strict=True) if future.result()]
            times = measure(case, sound)
            for plan, reason in times.items():
                if isinstance(reason, str):
                    print(f"{case} {plan}: {reason}", flush=True)
            known[str(case)] = {plan: us for plan, us in times.items() if not isinstance(us, str)}
            print(
                f"{time.monotonic() - start:4.0f} s  {told(case, known[str(case)])}  ({len(sound)}/{len(found)})",
                flush=True,
            )
            if len(jobs) % 8 == 0:
                write(path, known)
        write(path, known)
        pool.shutdown(wait=False, cancel_futures=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--random", type=int, default=60, help="problems besides the layers")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=440.0)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--ahead", type=Path, help="a result: its fastest plans, with B ahead and not")
    parser.add_argument(
        "--besides", type=Path, nargs="+", help="results: plans that are not in them, and their fastest ones"
    )
    parser.add_argument("--word", default="", help="with --besides: only plans with this in their names, as stream-K")
    parser.add_argument("--rows", type=int, nargs="*", help="only problems of so many")
    args = parser.parse_args()
    known = read(args.out)
    todo = cases(args.random, args.seed)
    if args.rows:
        todo = [case for case in todo if case.m in args.rows]
    if args.besides:
        before: Times = {}
        for path in args.besides:
            for name, times in read(path).items():
                before[name] = {**times, **before.get(name, {})}

        def plans(case: Case) -> list[Plan]:
            return besides(case.problem, before.get(str(case), {}), args.word)

        collect(todo, known, args.out, args.seconds, plans)
    elif args.ahead:
        before = read(args.ahead)
        todo = [case for case in todo if str(case) in before]
        collect(todo, known, args.out, args.seconds, lambda case: ahead_of(before[str(case)]))
    else:
        collect(todo, known, args.out, args.seconds, lambda case: plans_of(case.problem))
    left = sum(str(case) not in known for case in todo)
    print(f"{len(todo) - left} of {len(todo)} problems, {sum(map(len, known.values()))} times")
    os._exit(0)  # without waiting for what still compiles


if __name__ == "__main__":
    main()
