"""How long many plans of `mt.ops.matmul` take on many random problems: what its model is fitted to.

    PYTHONPATH=. python benchmarks/matmul_plans.py --seeds 401 402 --out benchmarks/results/matmul_plans_h200.json.xz

Processes compile, one for each core; one at a time has the GPU, for all plans of a problem, interleaved (timing.py),
from CUDA graphs as in contest.py. Of each problem these plans are measured: of those that the model chooses from, the
best and some others; some with one thing changed; some drawn at random. Each result is compared with torch's. 300
problems with 8000 plans took three minutes. What is there already is kept, but for problems that are measured anew.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import lzma
import math
import multiprocessing
import os
import queue
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matmul

from minitile.ops.choice import candidates
from minitile.ops.machine import H200
from minitile.ops.model import estimate
from minitile.ops.plan import LINE, Plan

BEST, OTHERS, CHANGED, DRAWN = 26, 6, 4, 4  # plans of a problem
ROUNDS, BATCH_MS = 5, 1.5
BOUND = 0.01  # relative, of a result against torch's
Times = dict[str, dict[str, float]]  # by problem and plan, in µs


def plans_of(case: matmul.Case, seed: int) -> list[Plan]:
    """Which ones are measured."""
    problem, rng = case.problem, random.Random(f"{case} {seed}")
    known = set(candidates(problem, H200, True, matmul.SHARED))
    ranked = sorted(known, key=lambda plan: (estimate(problem, plan, H200), plan))
    rest = ranked[BEST:]
    found = dict.fromkeys([*ranked[:BEST], *rng.sample(rest, min(OTHERS, len(rest)))])
    changed = [new for plan in ranked[:5] for new in matmul.changed(problem, plan) if new not in found]
    found |= dict.fromkeys(rng.sample(changed, min(CHANGED, len(changed))))
    found |= dict.fromkeys(matmul.drawn(problem, DRAWN, seed))
    return list(found)


@contextmanager
def alone(path: str) -> Iterator[None]:
    """While no other process is in here. A process that crashes lets go of it."""
    with Path(path).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def compiled(product: Any, plan: Plan, c: Any) -> None:
    """Compiles and assembles what `matmul` will launch for this plan, without the GPU."""
    from minitile.ops import multiply

    p, frame = product.problem, multiply._workspace(product)
    operands = [product.a, product.b]
    for n, x in enumerate(operands):
        if plan.pad[n]:
            wide = -(-x.shape[1] // (LINE // p.size)) * (LINE // p.size)
            operands[n] = frame.empty((x.shape[0], wide), product.dtype, x)
    out = frame.empty(*multiply._written(p, product.result, plan), c) if plan.apart else c
    kernel = multiply._kernel(product.dtype, product.result, p.transpose_a, p.transpose_b, plan)
    kernel.executable(*operands, out).assemble("sm_90a")


def measure(case: matmul.Case, found: list[Plan], lock: str) -> dict[str, float | str]:
    """By plan: µs, or what went wrong."""
    import contest
    import timing
    import torch

    import minitile as mt
    from minitile.ops import multiply

    result: dict[str, float | str] = {}
    with alone(lock):
        a, b, c = matmul.operands(case)
        expected = (a @ b).float()
        torch.cuda.synchronize()
    product, ready = multiply._read(a, b, c, None), []
    for plan in found:
        try:
            compiled(product, plan, c)
            ready.append(plan)
        except Exception as error:
            result[str(plan)] = contest.short(error)
    count = contest.batch_size(case.problem.flops, BATCH_MS)
    with alone(lock):
        batches = {}
        for plan in ready:

            def launch(plan: Plan = plan) -> Any:
                return mt.ops.matmul(a, b, out=c, plan=plan)

            try:
                c.fill_(math.nan)
                error = contest.relative_error(launch(), expected)
                if not error <= BOUND:
                    raise contest.Wrong(f"relative error {error:.1e}")
                batches[str(plan)] = contest.record(launch, count)[0]
            except Exception as problem:
                result[str(plan)] = contest.short(problem)
        times = timing.time_interleaved(batches, ROUNDS, 1)
    return {**result, **{name: statistics.median(ms) / count * 1e3 for name, ms in times.items()}}


def work(todo: Any, done: Any, lock: str, until: float) -> None:
    """One process: problems, one after the other."""
    while time.time() < until:
        try:
            case, seed = todo.get(timeout=1)
        except queue.Empty:
            return
        done.put((str(case), measure(case, plans_of(case, seed), lock)))


def collect(cases: list[tuple[matmul.Case, int]], seconds: float) -> Times:
    """As many of the cases as go into so many seconds; what went wrong is printed."""
    context = multiprocessing.get_context("spawn")
    todo, done, found = context.Queue(), context.Queue(), {}
    for item in cases:
        todo.put(item)
    with tempfile.NamedTemporaryFile() as lock:
        args = todo, done, lock.name, time.time() + seconds
        processes = [context.Process(target=work, args=args, daemon=True) for _ in range(max(1, os.cpu_count() or 1))]
        for process in processes:
            process.start()
        while any(process.is_alive() for process in processes) or not done.empty():
            try:
                case, times = done.get(timeout=1)
            except queue.Empty:
                continue
            found[case] = {plan: round(us, 3) for plan, us in times.items() if not isinstance(us, str)}
            for plan, reason in times.items():
                if isinstance(reason, str):
                    print(f"{case} {plan}: {reason}", flush=True)
    return found


def read(path: Path) -> Times:
    """What `write` wrote; nothing where there is no such file."""
    if not path.exists():
        return {}
    data = path.read_bytes()
    return json.loads(lzma.decompress(data) if path.suffix == ".xz" else data)


def write(path: Path, times: Times) -> None:
    """As JSON, compressed where the name ends in .xz."""
    data = json.dumps(times, separators=(",", ":"), sort_keys=True).encode()
    path.write_bytes(lzma.compress(data, preset=9) if path.suffix == ".xz" else data)


def main() -> None:
    parser = argparse.ArgumentParser(description="Times of many plans on many problems.")
    parser.add_argument("--seeds", type=int, nargs="+", default=[401])
    parser.add_argument("--problems", type=int, default=100, help="of each seed")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    cases = [(case, seed) for seed in args.seeds for case in matmul.draw(args.problems, seed)]
    found = collect(cases, args.seconds)
    write(args.out, {**read(args.out), **found})
    print(f"{len(found)} of {len(cases)} problems, {sum(map(len, found.values()))} plans")


if __name__ == "__main__":
    main()
