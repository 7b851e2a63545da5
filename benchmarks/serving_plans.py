"""How long many plans of `mt.ops.matmul` take where there are few rows and the weights come from memory.

    PYTHONPATH=. python benchmarks/serving_plans.py --out benchmarks/results/serving_plans_h200.json.xz
    python benchmarks/serving_plans.py --weak benchmarks/results/serving_h200.json --minutes 2 --out weak.json
    python benchmarks/serving_plans.py --weak … --compile-only      # no GPU: which plans spill or fail

The layers and row counts of serving.py, then random ones; of each, all plans that may suit it (`plans_of`), and cuBLAS.
With --weak: the cells that bars.py found furthest below what they must reach come first; of each, today's choice, the
fastest plans so far and the most promising new ones of each kind (`promising`).

Processes compile, the GPU times one problem after the other as soon as its kernels are there: interleaved, from CUDA
graphs, each batch with as many copies of the weights as L2 does not hold. Each result is compared with an f32 product
before a plan is timed and once more after; a kernel that spills registers is left out. fit_matmul.py reads the file.
What is in it already is not measured again, so the same command goes on where the last one ended; it ends by itself. A
kernel that hangs ends it with 3; the next time it is left out.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

import workers
from bars import SLACK
from fit_matmul import plan_of
from matmul import SHARED, Case
from matmul_plans import Times, read, write
from serving import CASES, LAYERS, ROTATED, ROWS

from minitile.ops.choice import candidates, choose
from minitile.ops.gemv import by_threads
from minitile.ops.machine import H200
from minitile.ops.model import estimate
from minitile.ops.plan import Plan, Problem
from minitile.ops.thin import AT_MOST, TEAM, plans_by_class, thin_plans

ROW_COUNTS = (200, 96, 1, 160, 64, 256, 8, 128, 48, 512, 32, 16, 2, 4)  # the ones that are worth most come first
WIDTHS = (64, 128, 192, 256, 384, 512, 640, 768, 1024, 1280)  # of hidden layers, times 8, for random ones
BEST = 3  # plans that are tried with B ahead
VECTORS = (
    (8, 512, 64),
    (8, 512, 128),
    (16, 512, 128),
    (16, 256, 64),
    (4, 512, 64),
    (8, 256, 64),
    (16, 512, 64),
    (4, 512, 128),
    (4, 1024, 128),
    (16, 256, 128),
    (8, 256, 128),
    (4, 256, 64),
    (2, 1024, 128),
)  # rows, columns, threads
LIKELY = 1.4  # times the least estimate: what may still be the fastest
OF_A_KIND, VECTORS_OF_A_KIND = 2, 4  # plans
ROOM = 16 << 10  # bytes of shared memory beside the stages
WEAK_PLANS, OTHER_PLANS = 26, 8  # of a cell below what it must reach, and of another one
RESULT = Path(__file__).parent / "results" / "serving_plans_h200.json.xz"
HANGS = 8.0  # seconds: what takes longer
KNOWN, MOST, EVERY = 8, 56, 1000  # plans of a problem: those that the model liked so far, and all, or really all
ROUNDS = 7
BOUND = 0.01  # relative, of a result against torch's
AHEAD = 6  # kernels for each process that are compiled before they are timed


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


def weak(path: Path, below: float) -> list[tuple[Case, float]]:
    """Cells of bars.py's result whose speed, as a share of the least that a cell may have, is below this; with that
    share, the least first."""
    measured = json.loads(path.read_text(encoding="utf-8"))
    found: dict[Case, float] = {}
    for row in ROWS:
        for name, against in row.cells:
            value = measured.get(name, {}).get(against)
            if value is None or name not in CASES or CASES[name].operation != "bf16":
                continue
            case = Case(CASES[name].rows, CASES[name].n, CASES[name].k, "NT")
            share = value[0] / (row.bar - SLACK if row.least is None else row.least)
            if share < below:
                found[case] = min(share, found.get(case, share))
    return sorted(found.items(), key=lambda item: item[1])


def promising(problem: Problem, before: dict[str, float], count: int) -> list[Plan]:
    """Today's choice, the fastest plans so far, and new ones: those that the model likes best, of all mechanisms in
    turn."""
    found = [choose(problem, H200, True, SHARED), *(plan_of(name) for _, name in fastest(before)[: BEST - 1])]
    every = {*plans_of(problem, most=EVERY), *candidates(problem, H200, True, SHARED)}
    every |= {p for plan in every for p in (*with_clusters(problem, plan), *deeper(plan), *with_teams(plan))}
    ranked = sorted((estimate(problem, plan, H200), plan) for plan in every if str(plan) not in before)
    kinds: Counter[object] = Counter()
    turns: Counter[object] = Counter()
    new: list[tuple[int, Plan]] = []
    for time_, plan in ranked:
        kind, mechanism = kind_of(plan)
        most = VECTORS_OF_A_KIND if plan.dots else OF_A_KIND
        if kinds[kind] < most and (time_ <= LIKELY * ranked[0][0] or plan.dots):
            kinds[kind] += 1
            turns[mechanism] += 1
            new.append((turns[mechanism] // OF_A_KIND, plan))
    return list(dict.fromkeys([*found, *(plan for _, plan in sorted(new, key=lambda item: item[0]))]))[:count]


def kind_of(plan: Plan) -> tuple[object, object]:
    """A tile's size with a mechanism, and the mechanism: what a plan does to keep all multiprocessors at work."""
    if plan.dots:
        return plan[:2], plan.block_M
    mechanism = plan.split > 1, plan.together, plan.blocks > 0, plan.share > 1, plan.share_rows > 1
    return (plan.block_M * plan.block_N, plan[7:]), mechanism


def fastest(times: dict[str, float]) -> list[tuple[float, str]]:
    """The times of our own plans, the least first."""
    return sorted((us, name) for name, us in times.items() if name != "cublas")


def plans_of(problem: Problem, seed: int = 0, most: int = MOST) -> list[Plan]:
    """What is measured: plans by threads, the swapped plans of all other kinds, and what the model
    has liked so far."""
    known = candidates(problem, H200, True, SHARED)
    ranked = sorted(known, key=lambda plan: (estimate(problem, plan, H200), plan))[:KNOWN]
    ranked = [p for plan in ranked for p in (plan, *with_neighbours(problem, plan))]
    found = list(dict.fromkeys(swapped(problem)))
    rng = random.Random(f"{problem} {seed}")
    known = [*by_threads_plans(problem), *plans_by_class(problem, SHARED, every=True), *ranked]
    return list(dict.fromkeys([*known, *rng.sample(found, min(len(found), max(most - len(known), 0)))]))


def with_neighbours(problem: Problem, plan: Plan) -> Iterator[Plan]:
    """The same plan, where there are two tiles of rows or four, with these next to each other, and in a cluster."""
    rows = -(-problem.m // plan.block_M)
    if plan.dots or rows not in (2, 4):
        return
    if not plan.together and not plan.panel:
        yield plan._replace(panel=8)
    for share in (2, 4)[: rows // 2]:
        if plan.block_N % (8 * share) == 0 and plan.cluster * share <= 8 and plan.blocks % share == 0:
            yield plan._replace(panel=0 if plan.together else plan.panel or 8, share_rows=share)


def with_clusters(problem: Problem, plan: Plan) -> Iterator[Plan]:
    """The same plan in clusters that bring the rows of A once."""
    if plan.dots or plan.cluster > 1 or plan.swap or plan.panel < 0:
        return
    if -(-problem.n // plan.block_N) % 2 == 0 and plan.block_M % 16 == 0:
        yield plan._replace(share=2)


def deeper(plan: Plan) -> Iterator[Plan]:
    """One more stage than thin.py leaves room for beside the results, which may do."""
    box = (plan.block_M + plan.block_N) * plan.block_K * 2
    if not plan.dots and not plan.together and (plan.stages + 1) * box + ROOM <= SHARED:
        yield plan._replace(stages=plan.stages + 1)


def with_teams(plan: Plan) -> Iterator[Plan]:
    """A persistent kernel of two warpgroups, with a tile of its own for each, where registers just do."""
    area = plan.block_M * plan.block_N
    if plan.swap and plan.blocks and plan.teams == 1 and TEAM < area <= AT_MOST * 128:
        yield plan._replace(teams=2, threads=256)


def by_threads_plans(problem: Problem) -> list[Plan]:
    """gemv.py's, the most likely ones first."""
    if by_threads(problem) is None:
        return []
    counts = {min(problem.m, per) for per in ((2, 4) if problem.m <= 4 else (4, 8))}
    return [Plan(per, rows, columns, 1, threads, dots=True) for per in counts for rows, columns, threads in VECTORS]


def swapped(problem: Problem) -> Iterator[Plan]:
    """What thin.py has, and some that it leaves out: in panels, or added up by a second kernel."""
    for plan in thin_plans(problem, H200, SHARED, every=True):
        plan = plan._replace(pad=problem.ragged)
        yield plan
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
    plans = [plan_of(name) for _, name in fastest(times)[:BEST]]
    return [p for plan in plans for p in (plan, plan._replace(ahead=True))]


def besides(problem: Problem, times: dict[str, float], word: str = "") -> list[Plan]:
    """What of `plans_of` was not measured yet and has this word in its name, and the fastest ones that were."""
    every = plans_of(problem, most=EVERY if word else MOST)
    new = [plan for plan in every if word in str(plan) and str(plan) not in times]
    return [*(plan_of(name) for _, name in fastest(times)[:BEST]), *new]


def assemble(job: tuple[Case, Plan]) -> str:
    """Puts the kernel into the cache. What is wrong with it: that it spills, or does not compile; else nothing."""
    import warnings

    import contest

    from minitile.backends.base import AssemblerWarning
    from minitile.language import bfloat16
    from minitile.ops.multiply import assembled

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", ".*spill", AssemblerWarning)
        try:
            assembled(job[0].problem, bfloat16, bfloat16, job[1])
        except Exception as error:
            return contest.short(error)
    return ""


@contextmanager
def noted(words: str, path: Path) -> Iterator[None]:
    """While the block runs, the file says what runs. If that hangs the process ends, and the file stays (`hung`)."""
    import contest

    path.write_text(words, encoding="utf-8")
    with contest.watched(words, HANGS):
        yield
    path.unlink()


def hung(path: Path) -> set[str]:
    """What the processes that wrote this result hung in: a case and a plan, or a case."""
    running, list_ = path.with_suffix(".running"), path.with_suffix(".hung")
    if running.exists():
        with list_.open("a", encoding="utf-8") as file:
            file.write(running.read_text(encoding="utf-8") + "\n")
        running.unlink()
    return set(list_.read_text(encoding="utf-8").splitlines()) if list_.exists() else set()


def measure(case: Case, found: Iterable[Plan], until: float, running: Path) -> dict[str, float | str]:
    """By plan: µs, or what went wrong. And cuBLAS. until: after this time.monotonic() no further plan is begun.
    running: of `noted`."""
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
    torch.backends.cuda.matmul.allow_tf32 = False
    expected = torch.mm(a.float(), weights[-1].float())
    result: dict[str, float | str] = {}

    def checked(launch: Callable[[], object]) -> None:
        out.fill_(math.nan)
        launch()
        error = contest.relative_error(out, expected)
        if not error <= BOUND:
            raise contest.Wrong(f"relative error {error:.1e}")

    checked(lambda: torch.mm(a, weights[-1], out=out))
    batches = {"cublas": contest.record(lambda: [torch.mm(a, w, out=out) for w in weights], 1)[0]}
    for plan in found:
        if time.monotonic() > until:
            break

        def launch(plan: Plan = plan) -> list[object]:
            return [mt.ops.matmul(a, w, out=out, plan=plan) for w in weights]

        with noted(f"{case} {plan}", running):
            try:
                checked(lambda: mt.ops.matmul(a, weights[-1], out=out, plan=plan))  # noqa: B023
                batches[str(plan)] = contest.record(launch, 1)[0]
            except Exception as problem:
                result[str(plan)] = contest.short(problem)
                torch.cuda.synchronize()  # raises where nothing goes on
    with noted(str(case), running):
        times = timing.time_interleaved(batches, ROUNDS, 1)
    result |= {name: round(statistics.median(ms) / count * 1e3, 3) for name, ms in times.items()}
    for name, replay in batches.items():
        try:
            checked(replay)
        except contest.Wrong as problem:
            result[name] = f"after {2 * ROUNDS} launches: {problem}"
    return result


def told(case: Case, times: dict[str, float]) -> str:
    """Today's choice and the best plan in a line."""
    today = str(choose(case.problem, H200, True, SHARED))
    us, plan = min(fastest(times), default=(math.nan, "no plan"))
    first = times["cublas"] / times[today] if today in times else math.nan
    ratios = f"today's {first:.3f}, best {times['cublas'] / us:.3f} of cuBLAS' {times['cublas']:.1f} µs"
    return f"{case}: {ratios}, {plan}"


def ready(case: Case, found: Sequence[Plan], futures: Sequence[Future[str]]) -> Iterator[Plan]:
    """The plans whose kernels are sound, each as soon as it is there."""
    for plan, future in zip(found, futures, strict=True):
        if wrong := future.result():
            print(f"{case} {plan}: {wrong}", flush=True)
        else:
            yield plan


def collect(todo: Sequence[Case], known: Times, path: Path, until: float, plans: Callable[[Case], list[Plan]]) -> None:
    """Measures what is not known, as far as the time goes."""
    left_out, running = hung(path), path.with_suffix(".running")
    waiting = [case for case in todo if str(case) not in known and str(case) not in left_out]
    processes = os.cpu_count() or 1
    with workers.pool(processes) as pool:
        jobs: list[tuple[Case, list[Plan], list[Future[str]]]] = []

        def begin() -> None:
            while waiting and sum(not job.done() for _, _, futures in jobs for job in futures) < AHEAD * processes:
                case = waiting.pop(0)
                found = [plan for plan in plans(case) if f"{case} {plan}" not in left_out]
                jobs.append((case, found, [pool.submit(assemble, (case, plan)) for plan in found]))

        begin()
        while jobs and time.monotonic() < until:
            case, found, futures = jobs.pop(0)
            times = measure(case, ready(case, found, futures), until, running)
            for plan, reason in times.items():
                if isinstance(reason, str):
                    print(f"{case} {plan}: {reason}", flush=True)
            known[str(case)] = {plan: us for plan, us in times.items() if not isinstance(us, str)}
            write(path, known)
            print(f"{until - time.monotonic():4.0f} s left  {told(case, known[str(case)])}", flush=True)
            begin()
        pool.shutdown(wait=False, cancel_futures=True)


def compile_all(todo: Sequence[Case], plans: Callable[[Case], list[Plan]], processes: int) -> None:
    """Says which plans spill, or do not compile."""
    jobs = [(case, plan) for case in todo for plan in plans(case)]
    failed = 0
    with workers.pool(processes) as pool:
        for (case, plan), wrong in zip(jobs, pool.map(assemble, jobs), strict=True):
            if wrong:
                failed += 1
                print(f"{case} {plan}: {wrong}", flush=True)
    print(f"{len(jobs)} plans of {len(todo)} problems, {failed} left out")


def main() -> None:
    begun = time.monotonic()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--random", type=int, default=60, help="problems besides the layers")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=7.0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--weak", type=Path, help="bars.py's result: its weakest cells, and their most promising plans")
    parser.add_argument(
        "--below", type=float, default=1.12, help="of the least that a cell may have: which ones are weak"
    )
    parser.add_argument("--known", type=Path, nargs="*", default=[RESULT], help="with --weak: times so far")
    parser.add_argument("--ahead", type=Path, help="a result: its fastest plans, with B ahead and not")
    parser.add_argument(
        "--besides", type=Path, nargs="+", help="results: plans that are not in them, and their fastest ones"
    )
    parser.add_argument("--word", default="", help="with --besides: only plans with this in their names, as teams")
    parser.add_argument("--rows", type=int, nargs="*", help="only problems of so many")
    parser.add_argument("--layers", nargs="*", help="only problems of these N×K, as 4096x14336")
    parser.add_argument("--compile-only", action="store_true", help="needs no GPU: which plans spill or do not compile")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="with --compile-only")
    args = parser.parse_args()
    todo, plans = cases(args.random, args.seed), lambda case: plans_of(case.problem)
    if args.weak:
        before, found = together(args.known), dict(weak(args.weak, args.below))
        todo = list(found)

        def plans(case: Case) -> list[Plan]:
            count = WEAK_PLANS if found[case] < 1 else OTHER_PLANS
            return promising(case.problem, before.get(str(case), {}), count)
    elif args.besides:
        before = together(args.besides)

        def plans(case: Case) -> list[Plan]:
            return besides(case.problem, before.get(str(case), {}), args.word)
    elif args.ahead:
        before = read(args.ahead)
        todo = [case for case in todo if str(case) in before]

        def plans(case: Case) -> list[Plan]:
            return ahead_of(before[str(case)])

    if args.rows:
        todo = [case for case in todo if case.m in args.rows]
    if args.layers:
        todo = [case for case in todo if f"{case.n}x{case.k}" in args.layers]
    if args.compile_only:
        compile_all(todo, plans, args.processes)
        return
    known = read(args.out)
    collect(todo, known, args.out, begun + 60 * args.minutes, plans)
    for case in todo:
        if str(case) in known:
            print(told(case, known[str(case)]))
    left = sum(str(case) not in known for case in todo)
    print(f"{len(todo) - left} of {len(todo)} problems, {sum(map(len, known.values()))} times", flush=True)
    os._exit(0)  # without waiting for what still compiles


def together(paths: Iterable[Path]) -> Times:
    """The times of several results; where they have the same, those of the first."""
    found: Times = {}
    for path in paths:
        for name, times in read(path).items():
            found[name] = {**times, **found.get(name, {})}
    return found


if __name__ == "__main__":
    main()
