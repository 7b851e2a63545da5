"""How well the model of minitile/ops/quantised/cost.py knows what was measured, and its numbers fitted anew.

    PYTHONPATH=. python benchmarks/fit_quantised.py w4a16 [--fit --steps 300]
    PYTHONPATH=. python benchmarks/fit_quantised.py fp8 --add build/quantised.json benchmarks/results/serving_h200.json

benchmarks/results/quantised_plans_h200.json.xz has µs by case and plan, as quantised.py measured them, and of other
numbers of rows the plan that was the default one; `--add` puts into it what quantised.py or the bars of serving have
measured since. `--fit` moves the numbers by the evolution strategy of fit_matmul.py,
and prints them. No GPU is needed.
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from fit_matmul import NEAR, STAY, descended, geometric_mean

from minitile.ops.quantised.cost import FP8, H200_FP8, H200_W4A16, PLAIN, Kind, Rates, estimate
from minitile.ops.quantised.cost import KINDS as PACKED
from minitile.ops.quantised.plans import Fp8Plan, QuantisedPlan

RESULTS = Path(__file__).parent / "results" / "quantised_plans_h200.json.xz"
PROCESSORS = 132
KINDS = {"w4a16": (PACKED["int4"], H200_W4A16), "fp8": (FP8, H200_FP8)}  # with the numbers as they are
PADDING = 3.4  # µs: of 16-bit rows that are no multiples of 16 bytes, as 8 to 32 rows of 4097 have beside 4096
ERRORS = 0.5  # of errors beside wrong choices


class Measured(NamedTuple):
    """One plan of a case and the µs that it took."""

    m: int
    n: int
    k: int
    plan: Any
    time: float


def read(kind: str, path: Path = RESULTS) -> list[list[Measured]]:
    """The plans of each case, but those that reduce everywhere, and of forms that are gone: they never were best."""
    found = []
    for case, times in json.loads(lzma.decompress(path.read_bytes())).items():
        of, m, _, layer = case.split()
        if of == kind:
            n, k = map(int, layer.split("x"))
            names = [name for name in times if name != "bf16" and not re.search("all-reduce|overlapped|teams", name)]
            found.append([Measured(int(m), n, k, plan_of(kind, name), times[name]) for name in names])
    return found


def added(paths: Sequence[Path], known: Path = RESULTS) -> dict[str, dict[str, float]]:
    """Times by case and plan: those that are known, and newer ones of states of quantised.py and of bars, whose notes
    are `5.7 µs, 1527 GB/s, the plan, error 2e-03`."""
    times: dict[str, dict[str, float]] = json.loads(lzma.decompress(known.read_bytes()))
    for path in paths:
        for case, found in json.loads(path.read_text(encoding="utf-8")).items():
            if case.split()[0] not in KINDS:
                continue
            of_case = times.setdefault(case, {})
            of_case |= {name: us for name, us in found.get("tried", {}).items() if isinstance(us, float)}
            note = re.match(r"([\d.]+) µs, \d+ GB/s, (.*), error", found.get("note", ""))
            if note is not None:
                of_case[note.group(2)] = float(note.group(1))
    return times


def plan_of(kind: str, name: str) -> QuantisedPlan | Fp8Plan:
    """The inverse of `str(plan)`."""
    numbers = re.match(r"(\d+)x(\d+)x(\d+), (\d+) stages, (\d+)", name)
    assert numbers is not None, name
    m, n, k, stages, threads = map(int, numbers.groups())

    def number(pattern: str, otherwise: int) -> int:
        found = re.search(pattern, name)
        return int(found.group(1)) if found else otherwise

    parts, early, together = number(r"of (\d+) along K", 1), "late" not in name, number(r"(\d+) together", 0)
    if kind == "fp8":
        form = number(r"of (\d+) along M", 1), "by 64" not in name, number(r"(\d+) blocks", 0)
        return Fp8Plan(m, n, stages, threads, parts, False, early, together, *form)
    return QuantisedPlan(m, n, k, stages, threads, parts, "scaled sums" in name, False, early, together)


def estimated(e: Measured, kind: Kind, rates: Rates) -> float:
    """µs of what was measured."""
    deep, form = getattr(e.plan, "block_K", 128), getattr(e.plan, "form", PLAIN)
    time = estimate(e.plan, deep, kind, e.m, e.n, e.k, PROCESSORS, rates, form)
    return time + PADDING if kind.of_rows == 16 and e.k % 8 else time


def loss(cases: Sequence[Sequence[Measured]], kind: Kind, rates: Rates) -> float:
    """As fit_matmul.loss: what is lost by a choice that changes smoothly with the numbers, and errors of good plans."""
    lost, error, weights = [], 0.0, 0.0
    for entries in cases:
        fastest = min(e.time for e in entries)
        estimates = [math.log(estimated(e, kind, rates)) for e in entries]
        chances = [math.exp((min(estimates) - x) / NEAR) for x in estimates]
        if len(entries) > 1:
            of_all = sum(c * math.log(e.time / fastest) for c, e in zip(chances, entries, strict=True))
            lost.append(of_all / sum(chances))
        good = [(fastest / e.time) ** 4 for e in entries]
        weights += sum(good)
        error += sum(w * abs(x - math.log(e.time)) for w, x, e in zip(good, estimates, entries, strict=True))
    return sum(lost) / len(lost) + ERRORS * error / weights


def fit(cases: Sequence[Sequence[Measured]], kind: Kind, rates: Rates, steps: int) -> Rates:
    """The numbers of the least loss that is found."""
    start: Mapping[str, float] = asdict(rates)

    def made(factors: Any) -> Rates:
        return replace(rates, **{name: x * math.exp(f) for (name, x), f in zip(start.items(), factors, strict=True)})

    return made(descended(lambda f: loss(cases, kind, made(f)) + STAY * float(np.dot(f, f)), len(start), steps))


def shares(cases: Sequence[Sequence[Measured]], kind: Kind, rates: Rates) -> list[float]:
    """The speed of the plan that the model chooses of each case's measured ones, as a share of the fastest one's."""
    found = []
    for entries in cases:
        if len(entries) > 1:
            chosen = min(entries, key=lambda e: estimated(e, kind, rates))
            found.append(min(e.time for e in entries) / chosen.time)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--add", nargs="+", type=Path, default=[], help="files of measurements")
    parser.add_argument("--steps", type=int, default=300, help="generations of a fit")
    args = parser.parse_args()
    if args.add:
        RESULTS.write_bytes(lzma.compress(json.dumps(added(args.add), ensure_ascii=False).encode()))
    (kind, rates), cases = KINDS[args.kind], read(args.kind)
    if args.fit:
        rates = fit(cases, kind, rates, args.steps)
        for name, number in asdict(rates).items():
            print(f"    {name}={number:.4g},")
    for entries in cases:
        best = min(entries, key=lambda e: e.time)
        chosen = min(entries, key=lambda e: estimated(e, kind, rates))
        print(f"{best.m} × {best.n}x{best.k}: best {best.time:.2f} µs, {best.plan}; estimated ", end="")
        print(f"{estimated(best, kind, rates):.2f}; chosen {chosen.time:.2f}, {chosen.plan}")
    found = shares(cases, kind, rates)
    print(f"geometric mean {geometric_mean(found):.3f}, least {min(found):.3f}")


if __name__ == "__main__":
    main()
