"""How well the model of minitile/ops/model.py knows what was measured, and its numbers fitted anew.

    PYTHONPATH=. python benchmarks/fit_matmul.py [benchmarks/results/NAME …] [--fit | --cross-validate]
    PYTHONPATH=. python benchmarks/fit_matmul.py --few --fit --write H200     # wrote minitile/ops/fitted.py

For each case of matmul_plans.py's results (or of gemm.py's, of matmul.py's; with --few of serving_plans.py's): which of
the measured entries the model would have chosen, and that one's speed as a share of the fastest one's. `--fit` moves
the numbers that there are so that this share grows and the estimates come nearer to what was measured (`loss`), and
prints them; `--cross-validate` says what such numbers are worth on problems that had no part in the fit, of which with
--few there are always some. No GPU is needed; a fit takes a minute.
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from minitile.ops.choice import candidates
from minitile.ops.fitted import FEW
from minitile.ops.machine import H200, Machine
from minitile.ops.model import estimate
from minitile.ops.plan import HILBERT, Plan, Problem

RESULTS = Path(__file__).parent / "results" / "matmul_plans_h200.json.xz"
SHARED = 227 << 10  # bytes of a block
SERVING = RESULTS.with_name("serving_plans_h200.json.xz")
FITTED_FILE = Path(__file__).parents[1] / "minitile" / "ops" / "fitted.py"
WITHIN = 1.35  # of the fastest one's time
_TILES = ((128, 256), (256, 128), (128, 128), (64, 128), (64, 64))
PANELS = {("persistent", 128, 192): 8, ("persistent", 128, 256): 16, ("persistent", 128, 128): 8}  # as in gemm_peers
PANELS |= {("minitile", *tile): 10 for tile in _TILES}
COUNTED = ("name", "multiprocessors", "shared", "threads", "cold", "few")
FITTED = tuple(f.name for f in fields(Machine) if f.name not in COUNTED)
AGAIN = 0.7  # of missed_again, where a fit begins
MUCH = 0.03  # of the logarithm of what a choice loses
DOUBT = 1.05  # times the fastest entry's time: that of a candidate that was not measured
TIE = 0.015  # relative: estimates that differ by less are nearly a tie
NEAR = 0.03  # the same of fit_quantised.py, which has `descended` from here, too
WEIGHT, COMMON = 0.15, 0.3  # of errors beside wrong choices; among them, of those that a problem's plans have in common
STEPS = 8  # of a fit
IN_L2 = 0.3  # how often a problem of few rows counts whose matrix was in L2
DOUBTFUL = 0.98  # a choice's speed, of the fastest one's: what is less is printed
STAY = 0.001  # for each number, of the square of its logarithmic change
REACH, PROBE, DESCENT = (
    0.2,
    1e-3,
    200,
)  # of a step of `fit`: the most logarithms change, by how much slopes are taken, steps


class Measured(NamedTuple):
    """One entry of a case and the microseconds that it took; guessed: or that it is taken to take."""

    problem: Problem
    plan: Plan
    time: float
    guessed: bool = False


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


def offered(problem: Problem, entries: Sequence[Measured]) -> list[bool]:
    """Which entries the model may choose: those of candidates, of which some have one stage more or less now, or all
    where there are none of these."""
    known = {plan._replace(stages=0) for plan in candidates(problem, H200, True, SHARED)}
    found = [e.plan._replace(stages=0) in known for e in entries]
    return found if any(found) else [True] * len(entries)


def unmeasured(problem: Problem, entries: Sequence[Measured]) -> Iterator[Measured]:
    """The candidates that were not measured, as DOUBT slower than the fastest entry: they may be better, but a fit that
    has them chosen knows no more of that."""
    known, least = {e.plan._replace(stages=0) for e in entries}, min(e.time for e in entries)
    for plan in candidates(problem, H200, True, SHARED):
        if plan._replace(stages=0) not in known:
            yield Measured(problem, plan, least * DOUBT, True)


def regrets(measured: Iterable[Measured], machine: Machine) -> dict[Problem, float]:
    """By problem: the speed of the entry that the model chooses, as a share of the fastest one's of all."""
    found = {}
    for problem, entries in by_problem(measured).items():
        choice = [e for e, known in zip(entries, offered(problem, entries), strict=True) if known]
        chosen = min(choice, key=lambda e: estimate(problem, e.plan, machine))
        found[problem] = min(e.time for e in entries) / chosen.time
    return found


def geometric_mean(values: Iterable[float]) -> float:
    logs = [math.log(v) for v in values]
    return math.exp(sum(logs) / len(logs))


class Cases(NamedTuple):
    """Entries one problem after the other, and for each of them, as arrays: the logarithm of its time; whether it is
    one of those that the model may choose. By problem: how often it counts; where its entries begin, and how many they
    are."""

    entries: list[Measured]
    logs: Any
    offered: Any
    counts: Any
    starts: Any
    sizes: Any

    @classmethod
    def of(cls, measured: Iterable[Measured], count: Callable[[Problem], float] = lambda problem: 1.0) -> Cases:
        """Of a plan that was measured more than once, the least time."""
        cases = by_problem(measured)
        cases = {problem: [*found, *unmeasured(problem, found)] for problem, found in cases.items()}
        entries = [entry for found in cases.values() for entry in found]
        sizes = np.array([len(found) for found in cases.values()])
        counts = np.array([count(problem) for problem in cases])
        known = [plan for problem, found in cases.items() for plan in offered(problem, found)]
        return cls(entries, np.log([e.time for e in entries]), np.array(known), counts, np.cumsum(sizes) - sizes, sizes)

    def estimates(self, machine: Machine) -> Any:
        """The logarithms of the estimates."""
        return np.log([estimate(e.problem, e.plan, machine) for e in self.entries])


def loss(cases: Cases, estimates: Any) -> tuple[float, Any]:
    """The mean logarithm of what is lost by choosing, twice as much where that is MUCH, if each entry is chosen with a
    probability that falls by e for each TIE by which its estimate is above the least one. Such a choice changes
    smoothly with the numbers, and does not mind who wins a tie. To it comes, by WEIGHT, how far the estimates of good
    entries are off, beside the problem's others and, by COMMON, altogether: numbers that are fitted to choices alone
    are worth less on other problems; only of problems that count for 1 at least, since others were measured in another
    way. And how the loss changes with each estimate; these are logarithms, as of Cases.estimates."""
    starts, counts = cases.starts, cases.counts

    def each(values: Any) -> Any:
        return np.repeat(values, cases.sizes)

    def summed(values: Any) -> Any:
        return np.add.reduceat(values, starts)

    behind = cases.logs - each(np.minimum.reduceat(cases.logs, starts))  # the fastest entry
    likely = np.where(cases.offered, estimates, np.inf)
    chances = np.exp((each(np.minimum.reduceat(likely, starts)) - likely) / TIE)
    chances /= each(summed(chances))
    lost = summed(chances * behind)
    slope = each(counts / counts.sum() * (1 + 2 * lost / MUCH)) * chances * (each(lost) - behind) / TIE
    good = np.exp(-4 * behind)
    share = good / each(summed(good))
    good *= each(counts * (counts >= 1)) * np.array([not e.guessed for e in cases.entries])
    good /= good.sum()
    off = estimates - cases.logs
    beside = off - each(summed(share * off))
    signs = good * np.sign(beside)
    error = float(good @ (np.abs(beside) + COMMON * np.abs(off)))
    slope += WEIGHT * (signs - share * each(summed(signs)) + COMMON * good * np.sign(off))
    return float(counts @ (lost * (1 + lost / MUCH)) / counts.sum()) + WEIGHT * error, slope


def fit(
    measured: Iterable[Measured],
    machine: Machine,
    steps: int = STEPS,
    count: Callable[[Problem], float] = lambda p: 1.0,
) -> Machine:
    """The numbers, each times some factor, of the least loss that is found in so many steps. In each the logarithms of
    the estimates are taken as linear in those of the factors, their slopes from one estimate more for each number; the
    factors change at most by `reach`, which a step that gains nothing halves. Numbers that nothing measured speaks of
    stay what they are."""
    cases = Cases.of(measured, count)
    start, at, reach = np.array([getattr(machine, name) for name in FITTED]), np.zeros(len(FITTED)), REACH
    now = cases.estimates(machine)
    least = loss(cases, now)[0]
    slopes = None
    for _ in range(steps):
        if slopes is None:
            slopes = np.empty((len(now), len(FITTED)))
            for n in range(len(FITTED)):
                beside = at.copy()
                beside[n] += PROBE
                slopes[:, n] = (cases.estimates(made(machine, start * np.exp(beside))) - now) / PROBE
        move = _descended_linear(cases, now, slopes, at, reach)
        tried = cases.estimates(made(machine, start * np.exp(at + move)))
        found = loss(cases, tried)[0] + STAY * float((at + move) @ (at + move))
        if found < least:
            at, now, least, slopes = at + move, tried, found, None
        else:
            reach /= 2
    return made(machine, start * np.exp(at))


def _descended_linear(cases: Cases, now: Any, slopes: Any, at: Any, reach: float) -> Any:
    """The change of the logarithms, at most by `reach` each, with the least loss of linear estimates: by Adam (Kingma
    and Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015)."""
    move, mean, square, best, least = (
        np.zeros(len(at)),
        np.zeros(len(at)),
        np.zeros(len(at)),
        np.zeros(len(at)),
        math.inf,
    )
    for n in range(1, DESCENT + 1):
        found, slope = loss(cases, now + slopes @ move)
        found += STAY * float((at + move) @ (at + move))
        if found < least:
            best, least = move.copy(), found
        gradient = slopes.T @ slope + 2 * STAY * (at + move)
        mean, square = 0.9 * mean + 0.1 * gradient, 0.99 * square + 0.01 * gradient**2
        pace = reach / 20 * (1 - n / (DESCENT + 1))
        move -= pace * mean / (1 - 0.9**n) / (np.sqrt(square / (1 - 0.99**n)) + 1e-9)
        move = np.clip(move, -reach, reach)
    return best


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
    measured: Sequence[Measured], machine: Machine, folds: int = 4, steps: int = STEPS
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


def of_few_rows() -> tuple[list[Measured], list[Measured], Callable[[Problem], float]]:
    """What the numbers for few rows are fitted to; what they are judged by besides, every third random problem of
    serving_plans.py; and how often a problem counts: the layers by 128 rows and more twice, and little, for what a
    choice loses only, those of matmul_plans.py, whose matrices were in L2."""
    from serving import LAYERS  # it reads this module

    cold = [e for e in read([SERVING]) if e.problem.few]
    warm = [e for e in read([RESULTS]) if e.problem.few]
    others = list(dict.fromkeys(e.problem for e in cold if (e.problem.n, e.problem.k) not in LAYERS))
    kept, in_l2 = set(others[::3]), {e.problem for e in warm}

    def count(problem: Problem) -> float:
        if problem in in_l2:
            return IN_L2
        return 2.0 if problem.m >= 128 and problem not in others else 1.0

    fitted = [e for e in cold if e.problem not in kept]
    return near([*fitted, *warm]), [e for e in cold if e.problem in kept], count


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


def report(measured: Sequence[Measured], machine: Machine, verbose: bool) -> None:
    """Prints what the model's choice among the measured entries is worth."""
    for e in measured if verbose else ():
        off = estimate(e.problem, e.plan, machine) / e.time
        print(f"{e.problem.m}x{e.problem.n}x{e.problem.k} {e.plan}: {e.time:.1f} µs, estimate / measured {off:.3f}")
    found = regrets(measured, machine)
    for problem, share in sorted(found.items(), key=lambda item: item[1]):
        form = "".join("T" if t else "N" for t in (problem.transpose_a, problem.transpose_b))
        if verbose or share < DOUBTFUL:
            print(f"{form} {problem.m}x{problem.n}x{problem.k}: the choice has {share:.3f} of the fastest one's speed")
    print(
        f"{len(found)} problems: geometric mean {geometric_mean(found.values()):.3f}, least {min(found.values()):.3f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="The model of matmul against what was measured.")
    parser.add_argument("results", nargs="*", default=[RESULTS])
    parser.add_argument(
        "--few", action="store_true", help="few rows by a large matrix, which have numbers and results of their own"
    )
    parser.add_argument("--fit", action="store_true", help="fit the model's numbers first")
    parser.add_argument("--steps", type=int, default=STEPS, help="of a fit")
    parser.add_argument("--write", metavar="GPU", help="with --few --fit: into minitile/ops/fitted.py, as those of GPU")
    parser.add_argument("--cross-validate", action="store_true", help="judge fits by problems that they leave out")
    parser.add_argument("--verbose", action="store_true", help="every estimate and every problem")
    args = parser.parse_args()
    if args.write and not (args.few and args.fit):
        parser.error("--write is for what --few --fit finds")
    if args.few:
        measured, kept, count = of_few_rows()
        base = replace(H200.few or replace(H200, missed_again=AGAIN), few=None, cold=True)
    else:
        measured, kept, count = [e for e in read(args.results) if not e.problem.few], [], lambda problem: 1.0
        base = H200
    if args.cross_validate:
        shares = cross_validated(measured, base).values()
        print(f"problems left out: geometric mean {geometric_mean(shares):.3f}, least {min(shares):.3f}")
        return
    machine = fit(measured, base, args.steps, count) if args.fit else base
    if args.write:
        write_few(args.write, machine)
    for name in FITTED if args.fit else ():
        print(f"    {name}={getattr(machine, name):.4g},")
    report([e for e in measured if count(e.problem) >= 1], machine, args.verbose)
    if kept:
        print("Problems that the numbers are not fitted to:")
        report(kept, machine, args.verbose)


if __name__ == "__main__":
    main()
