"""Every plan of attention's tables and its variants, beside cuDNN: what attention_plans.py is fitted to.

    PYTHONPATH=. python benchmarks/attention_plans.py --cases 4x16x4096x128 1x16x16384x128 --out build/attention_plans

A case is B x H x S x D; 8x64/8x1024x128 has 64 heads of queries for 8 of keys, 4x16x4096x192/128 values of other dims.
Contender and checks are attention_bars.py's. Variants of a plan: queries in registers,
maxima that may be exceeded, an eighth and a quarter of the weights by polynomial, persistent blocks, and waits where
ptxas puts them (`unpinned`). `--out NAME` writes
NAME.json: TFLOP/s by case and plan. Spilling plans are left out.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import attention_bars
import contest
import timing
from attention_bars import Case

GROWTH = 8.0
SHAPES = "4x16x4096x128", "1x16x16384x128", "4x32x4096x64", "1x32x16384x64"
SHARES = 0.0, 1 / 8, 1 / 4
KINDS = "held", "growth", "polynomial", "persistent", "unpinned"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", type=parse_case, default=list(map(parse_case, SHAPES)))
    parser.add_argument("--masks", nargs="+", choices=("full", "causal"), default=["full", "causal"])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=["held"])
    parser.add_argument("--plans", nargs="*", default=[], help="MxN alone")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--out", default="")
    options = parser.parse_args()
    found: dict[str, Any] = {"machine": timing.machine()}
    for case, mask in itertools.product(options.cases, options.masks):
        problem = replace(case, causal=mask == "causal")
        found[str(problem)] = measure(problem, options)
        if options.out:
            Path(options.out + ".json").write_text(json.dumps(found, indent=1), encoding="utf-8")


def parse_case(text: str) -> Case:
    """A full one."""
    pairs = [[int(number) for number in part.split("/")] for part in text.split("x")]
    if len(pairs) != 4 or [len(pair) for pair in pairs[::2]] != [1, 1] or any(len(pair) > 2 for pair in pairs):
        raise argparse.ArgumentTypeError(f"{text}: BxHxSxD")
    (b,), (h, *of_k), (s,), (d, *e) = pairs
    return Case(b, h, s, d, False, *(of_k or [0]), *(e or [0]))


def variants(problem: Case, kinds: list[str], tiles: list[str]) -> Iterator[tuple[Any, bool]]:
    """Plans, and whether waits are pinned."""
    from minitile.ops.attention_plans import candidates
    from minitile.target import parse_target

    def ways(kind: str) -> tuple[Any, ...]:
        ways = SHARES if kind == "polynomial" else (False, True)
        return ways if kind in kinds else ways[:1]

    plans = candidates(problem.d, problem.e or problem.d, problem.s, parse_target("auto"))
    plain = dict.fromkeys(replace(p, held=False, growth=0.0, polynomial=0.0, persistent=False) for p in plans)
    for plan in plain:
        if tiles and f"{plan.block_M}x{plan.block_N}" not in tiles:
            continue
        for held, stale, share, stays, free in itertools.product(*map(ways, KINDS)):
            more = {"growth": GROWTH * stale, "polynomial": share, "persistent": stays}
            yield replace(plan, held=held, **more), not free


@contextmanager
def waits(pinned: bool) -> Iterator[None]:
    """With the kernel in which waits stand where ptxas likes, if not `pinned`."""
    from minitile.ops import attention_op

    ours = attention_op.attention_forward
    if not pinned:
        attention_op.attention_forward = unpinned()
    try:
        yield
    finally:
        attention_op.attention_forward = ours


def unpinned(made: dict[str, Any] = {}) -> Any:  # noqa: B006 - one for all calls
    from minitile.driver.jit import kernel
    from minitile.ops.attention_kernel import attention_forward

    if not made:
        made["kernel"] = kernel(passes={"pin_waits": False})(attention_forward.function)
    return made["kernel"]


def measure(problem: Case, options: argparse.Namespace) -> dict[str, float]:
    """TFLOP/s by plan, best first."""
    import minitile as mt

    q, k, v = attention_bars.operands(problem)
    _, theirs = attention_bars.contender(problem, q, k, v)
    batches = {"cudnn": contest.record(theirs, 2)[0]}
    for plan, pinned in variants(problem, options.kinds, options.plans):
        name = f"{plan}{'' if pinned else ', unpinned'}"

        def launch(plan: Any = plan, pinned: bool = pinned) -> Any:
            with waits(pinned):
                return mt.ops.attention(q, k, v, causal=problem.causal, layout="bhsd", plan=plan)

        try:
            attention_bars.check(problem, q, k, v, launch(), theirs())
            batches[name] = contest.record(launch, 2)[0]
        except Exception as error:
            print(f"{problem}: {name}: {contest.short(error)}", flush=True)
    times = timing.time_interleaved(batches, options.rounds, 1)
    speeds = {name: 2 * problem.flops / statistics.median(t) * 1e-9 for name, t in times.items()}
    base = times["cudnn"]
    for name in sorted(speeds, key=lambda name: -speeds[name]):
        print(f"{problem}: {speeds[name]:6.0f} {timing.ratio(times[name], base):.3f}  {name}", flush=True)
    return speeds


if __name__ == "__main__":
    main()
