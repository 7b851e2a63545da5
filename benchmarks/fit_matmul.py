"""How well the model of minitile/ops/model.py knows what was measured, and its numbers fitted anew.

    PYTHONPATH=. python benchmarks/fit_matmul.py [benchmarks/results/NAME …] [--fit | --cross-validate]

For each case of matmul_plans.py's results (or of gemm.py's, of matmul.py's): which of the measured entries the model
would have chosen, and that one's speed as a share of the fastest one's. `--fit` moves the numbers of machine.py so that
this share grows and the estimates come nearer to what was measured (`loss`), and prints them; `--cross-validate` says
what such numbers are worth on problems that had no part in the fit. No GPU is needed.
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from minitile.ops.fitted import FEW
from minitile.ops.machine import H200, Machine
from minitile.ops.model import estimate
from minitile.ops.plan import HILBERT, Plan, Problem

RESULTS = Path(__file__).parent / "results" / "matmul_plans_h200.json.xz"
FITTED_FILE = Path(__file__).parents[1] / "minitile" / "ops" / "fitted.py"
WITHIN = 1.7  # of the fastest one's time
_TILES = ((128, 256), (256, 128), (128, 128), (64, 128), (64, 64))
PANELS = {("persistent", 128, 192): 8, ("persistent", 128, 256): 16, ("persistent", 128, 128): 8}  # as in gemm_peers
PANELS |= {("minitile", *tile): 10 for tile in _TILES}
COUNTED = ("name", "multiprocessors", "shared", "threads", "cold", "few")
FITTED = tuple(f.name for f in fields(Machine) if f.name not in COUNTED)
AGAIN = 0.7  # of missed_again, where a fit begins
NEAR = 0.03  # relative: estimates that differ by less are nearly a tie
WEIGHT, COMMON = 1.0, 0.3  # of errors beside wrong choices; among them, of those that a problem's plans have in common
STAY = 0.001  # for each number, of the square of its logarithmic change


class Measured(NamedTuple):
    """One entry of a case and the microseconds that it took."""

    problem: Problem
    plan: Plan
    time: float


def read(paths: Iterable[str | Path]) -> list[Measured]:
    """Our own entries in the results of gemm.py, matmul.py and matmul_plans.py, in µs."""
    found = []
    for path in map(Path, paths):
        if path.suffix == ".xz":
            plans = json.loads(lzma.decompress(path.read_bytes()))
            found += [
                Measured(problem_of(case), plan_of(p), t)
                for case, times in plans.items()
                for p, t in times.items()
                if p != "cublas"
            ]
            continue
        data = json.loads(path.read_text(encoding="utf-8"))
        implied = data["title"].startswith("GEMM")
        for row in data["tried"]:
            if row["tflops"] and row["contender"] in ("minitile", "persistent", "tuned"):
                problem = problem_of(row["case"])
                plan = plan_of(row["config"], row["contender"] if implied else "")
                found.append(Measured(problem, plan, problem.flops / row["tflops"] * 1e-6))
    return found


def problem_of(case: str) -> Problem:
    """ "NT 128x8192x8192"."""
    form, sizes = case.split()[:2]
    m, n, k = map(int, sizes.split("x"))
    return Problem(m, n, k, form[0] == "T", form[1] == "T")


def plan_of(config: str, of: str = "") -> Plan:
    """The inverse of `str(plan)`. gemm.py's configurations do not say their blocks and panels, which are those `of` its
    contender."""
    numbers = re.match(r"(\d+)x(\d+)x(\d+), (\d+) stages, (\d+)", config)
    assert numbers is not None, config
    m, n, k, stages, threads = map(int, numbers.groups())

    def number(pattern: str, otherwise: int) -> int:
        found = re.search(pattern, config)
        return int(found.group(1)) if found else otherwise

    blocks = number(r"(\d+) blocks", 132 if of == "persistent" else 0)
    panel = HILBERT if "Hilbert" in config else number(r"panels of (\d+)", PANELS.get((of, m, n), 0))
    pad = ("A padded" in config, "B padded" in config)
    return Plan(
        m,
        n,
        k,
        stages,
        threads,
        blocks,
        panel,
        number(r"(?:K in|split-K by) (\d+)", 1),
        pad,
        number(r"(\d+) teams", 1),
        "swapped" in config,
        "together" in config,
        number(r"A shared by (\d+)", 1),
        "B ahead" in config,
        "by threads" in config,
        number(r"B shared by (\d+)", 1),
        "B by classes" in config,
    )


def by_problem(measured: Iterable[Measured]) -> dict[Problem, list[Measured]]:
    """The entries of each problem; of a plan that was measured more than once, the least time."""
    cases: dict[Problem, dict[Plan, Measured]] = {}
    for entry in measured:
        plans = cases.setdefault(entry.problem, {})
        if entry.plan not in plans or entry.time < plans[entry.plan].time:
            plans[entry.plan] = entry
    return {problem: list(plans.values()) for problem, plans in cases.items()}


def regrets(measured: Iterable[Measured], machine: Machine) -> dict[Problem, float]:
    """By problem: the speed of the entry that the model chooses, as a share of the fastest one's."""
    found = {}
    for problem, entries in by_problem(measured).items():
        chosen = min(entries, key=lambda e: estimate(problem, e.plan, machine))
        found[problem] = min(e.time for e in entries) / chosen.time
    return found


def geometric_mean(values: Iterable[float]) -> float:
    logs = [math.log(v) for v in values]
    return math.exp(sum(logs) / len(logs))


def loss(cases: Mapping[Problem, Sequence[Measured]], machine: Machine) -> float:
    """The mean logarithm of what is lost by choosing, if each entry is chosen with a probability that falls by e for
    each NEAR by which its estimate is above the least one. Such a choice changes smoothly with the numbers, and does
    not mind who wins a tie. To it comes, by WEIGHT, how far the estimates of good entries are off, beside the problem's
    others and, by COMMON, altogether: numbers that are fitted to choices alone are worth less on other problems."""
    lost = error = weights = 0.0
    for problem, entries in cases.items():
        fastest = min(e.time for e in entries)
        estimates = [math.log(estimate(problem, e.plan, machine)) for e in entries]
        least = min(estimates)
        chances = [math.exp((least - x) / NEAR) for x in estimates]
        lost += sum(c * math.log(e.time / fastest) for c, e in zip(chances, entries, strict=True)) / sum(chances)
        off = [x - math.log(e.time) for x, e in zip(estimates, entries, strict=True)]
        good = [(fastest / e.time) ** 4 for e in entries]
        mean = sum(w * x for w, x in zip(good, off, strict=True)) / sum(good)
        weights += sum(good)
        error += sum(w * (abs(x - mean) + COMMON * abs(x)) for w, x in zip(good, off, strict=True))
    return lost / len(cases) + WEIGHT * error / weights


def fit(measured: Sequence[Measured], machine: Machine, steps: int = 100, seed: int = 0) -> Machine:
    """The numbers, each times some factor, of the least loss that an evolution strategy finds in so many generations:
    separable CMA-ES (Ros and Hansen, "A Simple Modification in CMA-ES Achieving Linear Time and Space Complexity",
    PPSN 2008), of the factors' logarithms."""
    cases = by_problem(measured)

    def judged(factors: Any) -> float:
        """Numbers that nothing measured speaks of stay what they are."""
        return loss(cases, made(machine, start * np.exp(factors))) + STAY * float(factors @ factors)

    start = np.array([getattr(machine, name) for name in FITTED])
    found = descended(judged, len(FITTED), steps, seed)
    best = made(machine, start * np.exp(found))
    return best if loss(cases, best) < loss(cases, machine) else machine


def descended(judged: Callable[[Any], float], n: int, steps: int, seed: int = 0) -> Any:
    """Of n logarithms, those that are judged least in so many generations."""
    rng = np.random.default_rng(seed)
    size, parents = 14, 7
    weights = np.log(parents + 0.5) - np.log(np.arange(1, parents + 1))
    weights /= weights.sum()
    mass = 1 / (weights**2).sum()
    path_rate, shape_rate = (mass + 2) / (n + mass + 5), 4 / (n + 4)
    damping = 1 + path_rate + 2 * max(0.0, math.sqrt((mass - 1) / (n + 1)) - 1)
    one = 2 / ((n + 1.3) ** 2 + mass) * (n + 2) / 3
    many = min(1 - one, 2 * (mass - 2 + 1 / mass) / ((n + 2) ** 2 + mass) * (n + 2) / 3)
    expected = math.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n))
    mean, spread, sigma, path, shape = np.zeros(n), np.ones(n), 0.15, np.zeros(n), np.zeros(n)
    best, least = mean.copy(), judged(mean)
    for _ in range(steps):
        normal = rng.standard_normal((size, n))
        tried = mean + sigma * normal * np.sqrt(spread)
        losses = [judged(factors) for factors in tried]
        order = np.argsort(losses)
        if losses[order[0]] < least:
            best, least = tried[order[0]], losses[order[0]]
        chosen = normal[order[:parents]]
        step = weights @ chosen
        mean += sigma * step * np.sqrt(spread)
        path = (1 - path_rate) * path + math.sqrt(path_rate * (2 - path_rate) * mass) * step
        shape = (1 - shape_rate) * shape + math.sqrt(shape_rate * (2 - shape_rate) * mass) * step * np.sqrt(spread)
        spread = (1 - one - many) * spread + one * shape**2 + many * (weights @ chosen**2) * spread
        sigma *= math.exp(path_rate / damping * (np.linalg.norm(path) / expected - 1))
    return best


def made(machine: Machine, numbers: Iterable[float]) -> Machine:
    """The machine with these numbers for FITTED."""
    return replace(machine, **{name: float(x) for name, x in zip(FITTED, numbers, strict=True)})


def cross_validated(
    measured: Sequence[Measured], machine: Machine, folds: int = 4, steps: int = 60
) -> dict[Problem, float]:
    """`regrets`, each problem's by numbers that were fitted to other problems: what a fit is worth elsewhere."""
    problems = list(by_problem(measured))
    random.Random(0).shuffle(problems)
    found = {}
    for fold in range(folds):
        out = set(problems[fold::folds])
        made = fit([e for e in measured if e.problem not in out], machine, steps)
        found |= regrets([e for e in measured if e.problem in out], made)
    return found


def near(measured: Iterable[Measured]) -> list[Measured]:
    """Those that take at most WITHIN times as long as their problem's fastest: of others, it is enough that they are
    others."""
    cases = by_problem(measured).values()
    return [e for entries in cases for e in entries if e.time <= WITHIN * min(other.time for other in entries)]


def write_few(gpu: str, machine: Machine) -> None:
    """Puts the numbers into fitted.py, beside those of other GPUs."""
    text = FITTED_FILE.read_text(encoding="utf-8")
    head = text[: text.index("FEW:")]
    known = {**FEW, gpu: {name: float(f"{getattr(machine, name):.4g}") for name in FITTED}}
    lines = ["FEW: dict[str, dict[str, float]] = {"]
    for name, numbers in sorted(known.items()):
        lines += [f'    "{name}": {{', *(f'        "{key}": {value!r},' for key, value in numbers.items()), "    },"]
    FITTED_FILE.write_text(head + "\n".join([*lines, "}"]) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="The model of matmul against what was measured.")
    parser.add_argument("results", nargs="*", default=[RESULTS])
    parser.add_argument(
        "--few", action="store_true", help="few rows by a large matrix, which have numbers of their own"
    )
    parser.add_argument("--fit", action="store_true", help="fit the model's numbers first")
    parser.add_argument("--steps", type=int, default=100, help="generations of a fit")
    parser.add_argument("--write", metavar="GPU", help="with --few --fit: into minitile/ops/fitted.py, as those of GPU")
    parser.add_argument("--cross-validate", action="store_true", help="judge fits by problems that they leave out")
    args = parser.parse_args()
    if args.write and not (args.few and args.fit):
        parser.error("--write is for what --few --fit finds")
    measured = [e for e in read(args.results) if e.problem.few == args.few]
    base = replace(H200.few or replace(H200, missed_again=AGAIN), few=None, cold=True) if args.few else H200
    if args.cross_validate:
        shares = cross_validated(measured, base).values()
        print(f"problems left out: geometric mean {geometric_mean(shares):.3f}, least {min(shares):.3f}")
        return
    good = near(measured) if args.few else measured
    machine: Any = fit(good, base, args.steps) if args.fit else base
    if args.write:
        write_few(args.write, machine)
    for name in FITTED if args.fit else ():
        print(f"    {name}={getattr(machine, name):.4g},")
    for e in measured:
        off = estimate(e.problem, e.plan, machine) / e.time
        print(f"{e.problem.m}x{e.problem.n}x{e.problem.k} {e.plan}: {e.time:.1f} µs, estimate / measured {off:.3f}")
    found = regrets(measured, machine)
    for problem, share in found.items():
        form = "".join("T" if t else "N" for t in (problem.transpose_a, problem.transpose_b))
        print(
            f"{form} {problem.m}x{problem.n}x{problem.k}: the model's choice has {share:.3f} of the fastest one's speed"
        )
    print(f"geometric mean {geometric_mean(found.values()):.3f}, least {min(found.values()):.3f}")


if __name__ == "__main__":
    main()
