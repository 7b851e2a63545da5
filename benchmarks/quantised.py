"""Few rows by weights of 4 and 8 bits: many plans of `mt.ops.matmul_quantised` and `matmul_fp8`, beside our bf16.

    PYTHONPATH=. python benchmarks/quantised.py --seconds 150 --out benchmarks/results/quantised_h200
    PYTHONPATH=. python benchmarks/quantised.py --cases w4a16:16 fp8:64 --layers 4096x4096

Whether the plans that plain calls take reach their bars is `python benchmarks/bars.py serving --rows w4a16 fp8`; this
shows what others would give. Cases come in the order of their worth, each a kind of weights (serving_operations.py) and
a number of rows, of every layer. Processes compile all plans in that order, while the GPU measures what is compiled:
each plan is checked, then all of them in a few rounds, which choose; the best one, the default one and bf16 meet in the
rounds that count. What is timed is a CUDA graph of launches that go through weights of more bytes than L2 holds.

Measurements are kept in --state as soon as they are there; the same command goes on where the last one ended. After
--seconds no new case is begun.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import contest
import serving
import timing
from serving_operations import GROUP, OPERATIONS, SHARED

from minitile.ops.machine import Machine
from minitile.ops.multiply import machine_of_device
from minitile.ops.quantised.cost import FP8, H200_FP8, estimate
from minitile.ops.quantised.plans import PARTS, SCALED, Fp8Plan, QuantisedPlan, fp8_plans, rows_of

ORDER = ("fp8:256", "fp8:128", "fp8:64", "w4a16:1", "w4a16:16", "w4a16:32", "fp8:16", "w4a16:8", "fp8:32", "w4a16:64")
BASE = "bf16"


@dataclass(frozen=True)
class Case:
    """A kind of weights, rows, and a layer."""

    kind: str
    m: int
    n: int
    k: int

    def __str__(self) -> str:
        return f"{self.kind} {self.m} × {self.n}x{self.k}"


def parts_of(tiles: int, steps: int, processors: int) -> Iterator[int]:
    """Clusters along K that leave neither most multiprocessors idle nor many more blocks than there is room for."""
    found = [p for p in PARTS if steps >= 2 * p and 0.45 * processors <= tiles * p <= 5 * processors]
    yield from found or [1]


def plans(case: Case, machine: Machine) -> list[Any]:
    """Those to try, the default one first: of fp8, and of W4A16; of other weights that one alone."""
    default = OPERATIONS[case.kind].plan(case.m, case.n, case.k, machine)
    found = {"fp8": plans_fp8, "w4a16": plans_int4}.get(case.kind, lambda *_: iter(()))(case, machine.multiprocessors)
    return list(dict.fromkeys([default, *_variants(default), *found]))


def _variants(plan: Any) -> Iterator[Any]:
    """Otherwise the same, but with a late trigger, without and with other neighbours, with sums that all blocks get."""
    yield plan._replace(early=False)
    if plan.block_M <= 64:
        yield plan._replace(together=0 if plan.together else 2)
    if plan.parts > 1 and plan.block_M <= 16:
        yield plan._replace(all_reduce=True)


# Blocks of a multiprocessor that registers do for, by rows, columns and steps of 128 of K in one; else 0.
TOGETHER = {(8, 64, 1): 6, (16, 64, 1): 5, (32, 64, 1): 4, (64, 64, 1): 3, (8, 128, 1): 3, (16, 128, 1): 3}
TOGETHER |= {(rows, 64, 2): 3 for rows in (8, 16, 32)}


def plans_int4(case: Case, processors: int) -> Iterator[QuantisedPlan]:
    rows = rows_of(case.m)
    forms = [(64, 128, 1), (128, 256, 1), (64, 128, 2)] + (
        [(64, 128, 4), (256, 256, 1), (128, 256, 2)] if rows <= 32 else []
    )
    for wide, threads, groups in forms:
        tiles, deep = -(-case.n // wide) * -(-case.m // rows), GROUP * groups
        for parts in parts_of(tiles, case.k // deep, processors):
            for sums in (True,) if rows <= 32 else (True, False) if rows <= 64 else (False,):
                for stages in (2, 4) if groups > 1 else (3, 5, 8) if rows <= 64 else (3, 5):
                    most = TOGETHER.get((rows, wide, groups), 0) if stages <= 5 and sums else 0
                    room = stages * (wide * 66 + rows * 256) * groups + wide * rows * 4 + 2048
                    for together in {most} if groups == 1 else {0, most}:
                        if room * max(1, together) <= SHARED:
                            yield QuantisedPlan(rows, wide, deep, stages, threads, parts, sums, together=together)


NEAR, LEAST = 1.4, 8  # of the least estimate; plans


def plans_fp8(case: Case, processors: int) -> Iterator[Fp8Plan]:
    """The two of each kind (of few kinds, four) that the model thinks best, where it does not think them much worse
    than others."""
    by: dict[tuple[Any, ...], list[tuple[float, Fp8Plan]]] = {}
    for plan in dict.fromkeys(fp8_plans(case.m, case.n, case.k, processors)):
        us = estimate(plan, SCALED, FP8, case.m, case.n, case.k, processors, H200_FP8, plan.form)
        kind = plan.swap, plan.parts, bool(plan.blocks), bool(plan.together), plan.block_M
        by.setdefault(kind, []).append((us, plan))
    most = 2 if len(by) > 8 else 4
    found = [each for listed in by.values() for each in sorted(listed)[:most]]
    least = min(us for us, _ in found)
    near = [plan for n, (us, plan) in enumerate(sorted(found)) if n < LEAST or us <= least * NEAR]
    yield from near
    for plan in near[:4]:
        if not plan.swap and plan.parts == 1 and not plan.blocks and -(-case.m // plan.block_M) % 2 == 0:
            yield plan._replace(share=2)


def compile_one(kind: str, m: int, n: int, k: int, plan: Any) -> str:
    """In another process: what is worth a word, such as why there is no kernel."""
    try:
        return OPERATIONS[kind].compile(m, n, k, plan)
    except Exception as error:
        return contest.short(error)


# Measuring -----------------------------------------------------------------------------------------------------------


def measure(case: Case, jobs: Mapping[Any, Future[str]], default: Any, rounds: int) -> dict[str, Any]:
    """Rows of the best plan, the default one and bf16: µs, the ratio to bf16; and what all plans took, or why not."""
    import torch

    operation, sets = OPERATIONS[case.kind], serving.layer(case.kind, case.n, case.k)
    x = torch.randn((case.m, case.k), device="cuda", dtype=torch.bfloat16)
    out = torch.empty((case.m, case.n), device="cuda", dtype=torch.bfloat16)
    rows, exact = operation.rows(x)
    batches: dict[str, Any] = {}
    tried: dict[str, Any] = {}
    errors: dict[str, float] = {}
    for plan, job in jobs.items():
        remark = job.result()
        if remark and not remark.startswith("spills"):
            tried[str(plan)] = remark
            continue
        launch = partial(operation.launch, plan=plan)
        try:
            with contest.watched(f"{case} {plan}"):
                errors[str(plan)] = serving.check(operation, rows, exact, sets[-1], out, launch)
                batches[str(plan)] = serving.recorded(launch, rows, sets, out)
        except Exception as error:
            tried[str(plan)] = contest.short(error)
            contest.synchronize()
    others = serving.layer(BASE, case.n, case.k)
    counts = dict.fromkeys(batches, len(sets)) | {BASE: len(others)}
    batches[BASE] = serving.recorded(OPERATIONS[BASE].launch, x, others, out)
    with contest.watched(f"{case}: graphs"):
        times = timing.time_interleaved(batches, contest.CHOOSING_ROUNDS, 1)
    taken = {name: statistics.median(t) / counts[name] * 1e3 for name, t in times.items()}
    tried |= {name: round(us, 3) for name, us in taken.items()}
    best = min((name for name in batches if name != BASE), key=lambda name: taken[name], default=None)
    names = [name for name in dict.fromkeys((best, str(default), BASE)) if name in batches]
    counted = timing.time_interleaved({name: batches[name] for name in names}, rounds, 1)
    each = {name: [t / counts[name] for t in counted[name]] for name in names}
    found = [
        {
            "plan": name,
            "default": name == str(default),
            "us": statistics.median(each[name]) * 1e3,
            "of bf16": timing.ratio(each[name], each[BASE]),
            "spread": timing.spread(each[name]),
            "error": errors.get(name, 0.0),
        }
        for name in names
    ]
    return {"rows": found, "tried": tried}


def line(case: str, found: Mapping[str, Any]) -> str:
    """`case: bf16 13.8 µs | 6.0 µs (2.30) the plan | default 6.4 µs (2.16) its plan`."""
    texts = []
    for row in sorted(found["rows"], key=lambda row: (row["plan"] != BASE, row["us"])):
        ratio = "" if row["plan"] == BASE else f" ({row['of bf16']:.2f})"
        texts.append(f"{'default ' if row['default'] else ''}{row['plan']} {row['us']:.2f} µs{ratio}")
    left_out = sum(isinstance(value, str) for value in found["tried"].values())
    return f"{case}: {' | '.join(texts)}" + (f" | {left_out} without a result" if left_out else "")


def table(known: Mapping[str, Any]) -> list[str]:
    lines = ["| case | plan | | µs | of bf16 | spread | error |", "|---|---|---|---:|---:|---:|---:|"]
    for case, found in known.items():
        for row in found.get("rows", ()):
            numbers = f"{row['us']:.2f} | {row['of bf16']:.3f} | {row['spread']:.1%} | {row['error']:.1e}"
            lines.append(f"| {case} | {row['plan']} | {'default' if row['default'] else ''} | {numbers} |")
    return [*lines, "", *means(known)]


def means(known: Mapping[str, Any]) -> list[str]:
    """Geometric means over the layers by kind and rows, of the best plans and of the default ones; and the worst."""
    by: dict[tuple[str, str], list[float]] = {}
    for case, found in known.items():
        ratios = [(row["default"], row["of bf16"]) for row in found.get("rows", ()) if row["plan"] != BASE]
        if ratios:
            which = case.split(" × ")[0]
            by.setdefault((which, "best"), []).append(max(ratio for _, ratio in ratios))
            by.setdefault((which, "default"), []).extend(ratio for default, ratio in ratios if default)
    lines = ["| weights, rows | plans | of bf16 | worst | layers |", "|---|---|---:|---:|---:|"]
    for (which, plan), values in by.items():
        if values:
            mean = math.exp(math.fsum(map(math.log, values)) / len(values))
            lines.append(f"| {which} | {plan} | {mean:.3f} | {min(values):.3f} | {len(values)} |")
    return lines


def cases_of(kinds: Sequence[str], layers: Sequence[str]) -> list[Case]:
    """Of kinds as `w4a16:16` and layers as `4096x4096`, N × K; every layer for a kind before the next one."""
    found = []
    for text in kinds:
        kind, _, m = text.rpartition(":")
        found += [Case(kind, int(m), *map(int, layer.split("x"))) for layer in layers]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", nargs="+", default=list(ORDER), help="kinds of weights with rows, as w4a16:16")
    parser.add_argument("--layers", nargs="+", default=[f"{n}x{k}" for n, k in serving.LAYERS], help="N × K")
    parser.add_argument("--like", default="", help="a regular expression for the plans, but for the default ones")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=150.0)
    parser.add_argument("--state", default="build/quantised.json")
    parser.add_argument("--out", help="also write OUT.md and OUT.json")
    given = parser.parse_args()
    start, state = time.monotonic(), Path(given.state)
    known: dict[str, Any] = json.loads(state.read_text(encoding="utf-8")) if state.exists() else {}
    cases = [case for case in cases_of(given.cases, given.layers) if str(case) not in known]
    machine = machine_of_device(0)
    jobs = {
        case: {
            plan: serving.pool().submit(compile_one, case.kind, case.m, case.n, case.k, plan)
            for n, plan in enumerate(plans(case, machine))
            if n == 0 or re.search(given.like, str(plan))
        }
        for case in cases
    }
    state.parent.mkdir(parents=True, exist_ok=True)
    for case in cases:
        if time.monotonic() - start > given.seconds:
            print(f"{case}: no time left")
            continue
        state.write_text(json.dumps({**known, str(case): {}}), encoding="utf-8")  # not again, if it hangs
        begun = time.monotonic()
        known[str(case)] = measure(case, jobs[case], next(iter(jobs[case])), given.rounds)
        state.write_text(json.dumps(known, indent=1, ensure_ascii=False), encoding="utf-8")
        print(f"{line(str(case), known[str(case)])}  [{time.monotonic() - begun:.1f} s]", flush=True)
    serving.pool().shutdown(wait=False, cancel_futures=True)
    print("\n".join(["", *means(known)]))
    if given.out:
        head = ["# Weights of 4 and 8 bits", "", *(f"- {name}: {value}" for name, value in timing.machine().items())]
        Path(given.out + ".md").write_text("\n".join([*head, "", *table(known)]) + "\n", encoding="utf-8")
        Path(given.out + ".json").write_text(json.dumps(known, indent=1, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    main()
