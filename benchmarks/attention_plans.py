"""Plans of attention beside cuDNN, case by case: what minitile/ops/attention_plans.py is fitted to.

    PYTHONPATH=. python benchmarks/attention_plans.py --minutes 2 --out build/attention_plans.json
    PYTHONPATH=. python benchmarks/attention_plans.py --cases 4x16x4096x128 --kinds held growth --plans 128x128
    python benchmarks/attention_plans.py --compile --cases 16x16x1024x64     no GPU: registers, spills, remarks

A case is B x H x S x D; 8x64/8x1024x128 has 64 heads of queries for 8 of keys, 4x16x4096x192/128 values of other dims.
By default the cases are those of attention_bars.py, those first that are furthest from their bars. Tiles are the
table's and MORE's; variants of each (--kinds): queries in registers, maxima that may be exceeded, persistent blocks,
and waits where ptxas puts them (`unpinned`). The table's own choice is always among them.

Processes on all cores compile what comes next while the GPU times what is there. Each result, in a tensor that was NaN
before, is checked by attention_bars.py; plans that spill are left out. All of a case are timed interleaved with cuDNN
in a few short rounds, and the best of these, with the choice, in longer ones. `--out` keeps what was found after each
case, and the same command goes on from there; after --minutes no new case is begun. A short table comes last.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import attention_bars
import contest
import timing
from attention_bars import Case

from minitile.ops.attention_plans import AttentionPlan, candidates, choose
from minitile.target import TARGETS

GROWTH = 8.0
KINDS = "held", "growth", "persistent", "unpinned"
TARGET = TARGETS["sm_90a"]
FEW_ROUNDS, ROUNDS = 4, 12
FEW_MS, BATCH_MS = 0.6, 3.0  # of a batch of launches
FINALISTS = 5
KEPT = 24  # plans, for lengths between two that were measured
SLOWEST = 60.0  # seconds: a compilation that takes longer is left out
HANGS = 10.0  # seconds, of a first launch with its check

P = AttentionPlan
MORE: dict[tuple[int, int], tuple[AttentionPlan, ...]] = {  # tiles beside the table's, by the dims of keys and values
    (64, 64): (P(128, 128), P(192, 112, threads=384), P(128, 80, together=2), P(128, 64, together=2)),
    (96, 96): (P(128, 128),),
    (128, 128): (P(128, 96), P(128, 160), P(128, 176)),
    (192, 128): (P(128, 128), P(128, 80)),
    (256, 256): (P(128, 48),),
}
VARIED = {  # else PLAIN; queries of 256 fit no registers
    128: ("held", "growth", "persistent"), 256: ("persistent",),
}  # fmt: skip
PLAIN = "held", "persistent"
FIRST = "d64-causal", "d64", "d128-causal", "groups", "d128", "d256-causal", "d96", "latent", "d256"  # rows


class Variant(NamedTuple):
    """pinned: waits stand behind what is to run beside products, not where ptxas puts them."""

    plan: AttentionPlan
    pinned: bool = True

    def __str__(self) -> str:
        return f"{self.plan}{'' if self.pinned else ', unpinned'}"


def main() -> None:
    options = parse(None)
    cases = list(dict.fromkeys(replace(case, maxima="") for case in options.cases))
    state = State(options.out)
    with Compiler(cases, options) as compiler:
        if options.compile:
            for case in cases:
                print_compiled(case, compiler)
            return
        state.begin(timing.machine())
        if options.check:
            import attention_check

            print(attention_check.summary(attention_check.failures()), flush=True)
        for case in cases:
            if time.monotonic() > options.end:
                print(f"{case}: no time left", flush=True)
            elif str(case) not in state.found:
                state.add(case, measure(case, compiler, state))
    state.attempt("")
    print(table(state.found))


def parse(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", type=parse_case, default=[])
    parser.add_argument("--masks", nargs="+", choices=("full", "causal"), default=["full", "causal"])
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=None, help="by default those of the head dim")
    parser.add_argument("--plans", nargs="*", default=[], help="MxN alone")
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--out", default="", help="a JSON file")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    parser.add_argument("--check", action="store_true", help="attention_check.py first")
    parser.add_argument("--compile", action="store_true", help="only compile, without a GPU")
    options = parser.parse_args(words)
    options.end = time.monotonic() + 60 * options.minutes
    given = [replace(case, causal=mask == "causal") for case in options.cases for mask in options.masks]
    rows = {row.name: row for row in attention_bars.ROWS}
    options.cases = given or [attention_bars.CASES[name] for row in FIRST for name in ends_first(rows[row].cells)]
    return options


def ends_first(cells: Sequence[tuple[str, str]]) -> list[str]:
    """The cases of a row, the shortest and the longest one of a mask in front of those between."""
    names = [name for name, _ in cells]
    ends = [name for name in names if names.index(name) in (0, len(names) - 1)]
    return [*ends, *(name for name in names if name not in ends)]


def parse_case(text: str) -> Case:
    """A full one."""
    pairs = [[int(number) for number in part.split("/")] for part in text.split("x")]
    if len(pairs) != 4 or [len(pair) for pair in pairs[::2]] != [1, 1] or any(len(pair) > 2 for pair in pairs):
        raise argparse.ArgumentTypeError(f"{text}: BxHxSxD")
    (b,), (h, *of_k), (s,), (d, *e) = pairs
    return Case(b, h, s, d, False, *(of_k or [0]), *(e or [0]))


# Plans ----------------------------------------------------------------------------------------------------------------


def chosen(case: Case) -> AttentionPlan:
    """The table's."""
    group = case.h // (case.of_k or case.h)
    plan = choose(case.d, case.e or case.d, group, case.s, TARGET, True, case.causal)
    assert plan is not None
    return plan


def variants(case: Case, kinds: Sequence[str] | None, tiles: Sequence[str]) -> list[Variant]:
    """The choice first."""
    kinds = VARIED.get(case.d, PLAIN) if kinds is None else kinds

    def ways(kind: str) -> tuple[bool, ...]:
        return (False, True) if kind in kinds else (False,)

    e = case.e or case.d
    plans = *candidates(case.d, e, case.s, TARGET), *MORE.get((case.d, e), ())
    plain = dict.fromkeys(replace(p, packed=1, held=False, growth=0.0, persistent=False) for p in plans)
    found = {Variant(chosen(case)): None}
    for plan in plain:
        if tiles and f"{plan.block_M}x{plan.block_N}" not in tiles:
            continue
        if plan.shared(case.d, e) * plan.together > TARGET.max_shared:
            continue
        for held, stale, stays, free in itertools.product(*map(ways, KINDS)):
            more = {"growth": GROWTH * stale, "persistent": stays}
            found[Variant(replace(plan, held=held, **more), not free)] = None
    return list(found)


def promising(case: Case, all_: Sequence[Variant], found: Mapping[str, Mapping[str, Any]]) -> list[Variant]:
    """Of a case's variants the choice, and those that were among the first KEPT of another length; all of them where no
    two others have been measured."""
    rankings = [
        [*each["best"], *each["others"]]
        for name, each in found.items()
        if kernels_of(parse_name(name)) == kernels_of(case)
    ]
    names = {name for ranking in rankings for name in ranking[:KEPT]}
    return [v for n, v in enumerate(all_) if n == 0 or len(rankings) < 2 or str(v) in names]


def parse_name(name: str) -> Case:
    """A case by what `found` calls it."""
    shape, mask = name.split()
    return replace(parse_case(shape), causal=mask == "causal")


def kernels_of(case: Case) -> Case:
    """What cases that have their kernels in common have in common."""
    return replace(case, b=0, s=0, h=case.h if case.of_k else 0)


class Made(NamedTuple):
    """What came of compiling a variant: the kernel, or why there is none."""

    kernel: Any = None
    registers: int = 0
    failure: str = ""


def make(case: Case, variant: Variant) -> Made:
    """Compiles a variant; in a process of its own."""
    warnings.simplefilter("ignore")  # spills are told by the result
    try:
        kernel = attention_bars.compiled(case, variant.plan, None if variant.pinned else {"pin_waits": False})
        assert kernel.binary
    except Exception as error:
        return Made(failure=contest.short(error))
    if kernel.spills or kernel.executable.remarks:
        return Made(failure=f"{kernel.spills} bytes spilled; {'; '.join(kernel.executable.remarks)}"[:200])
    return Made(kernel, kernel.registers)


class Compiler:
    """The variants of all cases, compiled ahead by processes in the order in which they are asked for. Cases whose
    sizes differ alone have kernels in common."""

    def __init__(self, cases: Sequence[Case], options: argparse.Namespace) -> None:
        self.variants = {case: variants(case, options.kinds, options.plans) for case in cases}
        self.pool = ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn"))
        self.futures: dict[Any, Future[Made]] = {}
        for case in cases:
            for variant in self.variants[case]:
                key = self._key(case, variant)
                if key not in self.futures:
                    self.futures[key] = self.pool.submit(make, case, variant)

    def _key(self, case: Case, variant: Variant) -> Any:
        return kernels_of(case), variant

    def made(self, case: Case, wanted: Sequence[Variant]) -> Iterator[tuple[Variant, Made]]:
        for variant in wanted:
            try:
                yield variant, self.futures[self._key(case, variant)].result(SLOWEST)
            except TimeoutError:
                yield variant, Made(failure=f"not compiled in {SLOWEST:g} seconds")
            except BrokenExecutor as error:
                yield variant, Made(failure=contest.short(error))

    def __enter__(self) -> Compiler:
        return self

    def __exit__(self, *error: Any) -> None:
        self.pool.shutdown(wait=False, cancel_futures=True)


def print_compiled(case: Case, compiler: Compiler) -> None:
    for variant, made in compiler.made(case, compiler.variants[case]):
        print(f"{case}: {variant}: {made.failure or f'{made.registers} registers'}", flush=True)


# Speed ----------------------------------------------------------------------------------------------------------------


@contextmanager
def running(kernel: Any) -> Iterator[None]:
    """With a compiled kernel as that of the public call, whatever its plan."""
    from minitile.ops import attention_op

    ours = attention_op.kernel_of
    attention_op.kernel_of = lambda plan: lambda *args, **constants: kernel(*[x for x in args if x is not None])
    try:
        yield
    finally:
        attention_op.kernel_of = ours


def measure(case: Case, compiler: Compiler, state: State) -> dict[str, Any]:
    """By variant, best first: [times as fast as the contender, TFLOP/s, registers], or why it has none."""
    import torch

    import minitile as mt

    q, k, v = attention_bars.operands(case)
    backend, theirs = attention_bars.contender(case, q, k, v)
    reference = theirs()
    o = torch.empty_like(reference)
    launches: dict[str, Callable[[], Any]] = {"": theirs}
    registers: dict[str, int] = {}
    failed: dict[str, str] = {}
    for variant, made in compiler.made(case, promising(case, compiler.variants[case], state.found)):
        name = str(variant)
        if made.kernel is None:
            failed[name] = made.failure
            continue

        def launch(plan: Any = variant.plan, kernel: Any = made.kernel) -> Any:
            with running(kernel):
                return mt.ops.attention(q, k, v, causal=case.causal, layout="bhsd", plan=plan, out=o)

        if f"{case}: {name}" in state.ended:
            failed[name] = "ended the process"
            continue
        state.attempt(f"{case}: {name}")
        try:
            with contest.watched(name, HANGS):
                o.fill_(math.nan)
                attention_bars.check(case, q, k, v, launch(), reference)
            launches[name], registers[name] = launch, made.registers
        except Exception as error:
            failed[name] = contest.short(error)
            torch.cuda.synchronize()
    first = str(compiler.variants[case][0])
    ratios, _ = timed(case, launches, FEW_ROUNDS, FEW_MS)
    best = sorted(registers, key=lambda name: -ratios[name])[:FINALISTS]
    names = ["", *dict.fromkeys([*best, *([first] if first in registers else [])])]
    again, speeds = timed(case, {name: launches[name] for name in names}, ROUNDS, BATCH_MS)
    order = sorted(names[1:], key=lambda name: -again[name])
    found = {"contender": backend, "contender TFLOP/s": round(speeds[""]), "choice": first}
    found["best"] = {name: [round(again[name], 4), round(speeds[name]), registers[name]] for name in order}
    found["others"] = {n: round(ratios[n], 3) for n in sorted(registers, key=lambda n: -ratios[n]) if n not in order}
    return {**found, "failed": failed}


def timed(
    case: Case, launches: Mapping[str, Callable[[], Any]], rounds: int, ms: float
) -> tuple[dict[str, float], dict[str, float]]:
    """Times as fast as the launch named "", and TFLOP/s, by name."""
    count = max(1, min(50, round(ms / (case.flops / 600e12 * 1e3))))
    batches = {name: contest.record(launch, count)[0] for name, launch in launches.items()}
    times = timing.time_interleaved(batches, rounds, 1)
    speeds = {name: count * case.flops / statistics.median(t) * 1e-9 for name, t in times.items()}
    return {name: timing.ratio(t, times[""]) for name, t in times.items()}, speeds


class State:
    """What was found, by case, in a file; and, in one beside it, what is being launched for the first time: what has
    `ended` a process is not launched again by the next one."""

    def __init__(self, path: str) -> None:
        self.path = Path(path) if path else None
        self.trying = Path(path + ".trying") if path else None
        self.machine: dict[str, str] = {}
        self.found: dict[str, Any] = {}
        self.ended: list[str] = []

    def begin(self, machine: dict[str, str]) -> None:
        """Goes on from what the file has of this GPU."""
        if self.path and self.path.exists():
            known = json.loads(self.path.read_text(encoding="utf-8"))
            if known["machine"]["gpu"] == machine["gpu"]:
                self.found, self.ended = known["cases"], known["ended"]
        if self.trying and self.trying.exists():
            self.ended += [name for name in [self.trying.read_text(encoding="utf-8")] if name]
        self.machine = machine
        self.write()

    def attempt(self, name: str) -> None:
        if self.trying:
            self.trying.parent.mkdir(parents=True, exist_ok=True)
            self.trying.write_text(name, encoding="utf-8")

    def add(self, case: Case, found: dict[str, Any]) -> None:
        self.found[str(case)] = found
        print("\n".join(lines(str(case), found)), flush=True)
        self.write()

    def write(self) -> None:
        if self.path:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            data = {"machine": self.machine, "ended": self.ended, "cases": self.found}
            self.path.write_text(json.dumps(data, indent=1, ensure_ascii=False), encoding="utf-8")


def lines(case: str, found: Mapping[str, Any]) -> list[str]:
    """The best three of a case, and the choice."""
    best, choice = found["best"], found["choice"]
    shown = dict.fromkeys([*list(best)[:3], *(name for name in best if name == choice)])
    return [f"{case:32} {best[n][0]:.3f} {best[n][1]:4} {'*' if n == choice else ' '} {n}" for n in shown]


def table(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Of each case the choice and the best plan, and how many plans failed."""
    rows = ["", f"{'case':32} choice   best  plan"]
    for case, each in found.items():
        best, choice = next(iter(each["best"]), "none"), each["choice"]
        ratios = [each["best"].get(name, [math.nan])[0] for name in (choice, best)]
        mark, failed = " *" * (best == choice), f"({len(each['failed'])} failed)"
        rows.append(f"{case:32}  {ratios[0]:.3f}  {ratios[1]:.3f}  {best}{mark} {failed}")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
