"""The ready kernels that memory bounds, beside a copy of as many bytes, torch, torch.compile and Triton.

    python benchmarks/bars.py memory        the bars
    python benchmarks/memory.py --out benchmarks/results/memory_h200_contest [--only softmax] [--seconds 400]

The second runs every case against every contender and writes a table and a plot of the shares of a copy's speed.

A batch goes through as many sets of tensors as fill ROTATED bytes, so that L2 (50 MB on an H200) has nothing of the
next launch, and is recorded in a CUDA graph, so that what a launch costs on the host is no part of it. Contenders come
in turn within each round; a ratio is the median over the rounds. "copy" is `dst.copy_(src)` of as many bytes in all,
read and written together. Results are checked against torch in float64 first, all of them. What torch.compile gets is
torch's own function, mode max-autotune-no-cudagraphs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import contest
import memory_cases
import timing
from bars import Found, Row, cells_table
from memory_cases import Case

TITLE = "Memory-bound kernels of mt.ops"
REMARKS = [
    "Speed as a share of each contender's, medians of ratios round by round; `copy` is a device copy of as many bytes."
]
ROTATED = 1 << 30  # bytes
ROUNDS = 25
CASES = memory_cases.cases()
ROWS = [
    Row(name, title, bar, goal, tuple((case, against) for case in CASES if name in CASES[case].rows), False)
    for name, title, bar, goal, against in memory_cases.ROWS
]
SECOND, FIRST = "compile, second kernel of a process", "compile, first kernel of a process"
ROWS.append(Row("second-compile", SECOND + ", s", 0.12, 0.12, ((SECOND, "seconds"),), at_most=True))
ROWS.append(Row("first-compile", FIRST + ", s", 0.5, 0.5, ((FIRST, "seconds"),), at_most=True))


def measure(name: str, against: Sequence[str]) -> Found:
    """The case `name`: how many times as fast we are, by contender, with the spread of our own times."""
    if name in (FIRST, SECOND):
        return compile_seconds(which=0 if name == FIRST else 1)
    import torch

    torch.cuda.empty_cache()
    case = CASES[name]
    count = max(2, -(-ROTATED // case.moved))
    sets = [case.inputs(seed) for seed in range(count)]
    error = check(case, case.ours, sets[0])
    batches: dict[str, Callable[[], Any]] = {}
    for contender in ["minitile", *against]:
        if contender == "copy":
            half = -(-case.moved // (4 << 20)) * (2 << 20)  # copies of other sizes are slower
            halves = [(_bytes(half), _bytes(half)) for _ in range(count)]
            batches[contender] = contest.record(lambda halves=halves: [a.copy_(b) for a, b in halves], 1)[0]
        else:
            function = _contender(name, contender)
            if contender != "minitile":
                check(case, function, sets[0])
            batches[contender] = contest.record(lambda f=function: [f(*args) for args in sets], 1)[0]
    times = timing.time_interleaved(batches, ROUNDS, 1)
    ms = statistics.median(times["minitile"]) / count
    spread = timing.spread(times["minitile"])
    found: Found = {other: [timing.ratio(times["minitile"], times[other]), spread] for other in against}
    return {**found, "note": f"{case.moved / ms * 1e-6:.0f} GB/s, {ms * 1e3:.1f} µs, error {error:.0e}"}


def _bytes(count: int) -> Any:
    import torch

    return torch.empty(count, dtype=torch.uint8, device="cuda")


def _contender(case_name: str, name: str) -> Callable[..., Any]:
    """What a contender calls for a case. Raises contest.Missing where it has nothing."""
    case = CASES[case_name]
    if name == "minitile":
        return case.ours
    if name == "torch":
        return case.torch
    if name == "torch.compile":
        import torch

        torch._dynamo.reset()
        return torch.compile(case.torch, dynamic=False, mode="max-autotune-no-cudagraphs")
    if name == "triton":
        try:
            import memory_triton
        except ImportError as error:
            raise contest.Missing(str(error)) from None
        function = memory_triton.contender(case_name, memory_cases.EPS)
        if function is None:
            raise contest.Missing(f"no Triton kernel for {case_name}")
        return function
    raise ValueError(f"no contender {name!r}")


def check(case: Case, function: Callable[..., Any], given: Sequence[Any]) -> float:
    """The greatest error of a launch against torch in float64, of its own size or of a typical one if that is more."""
    import torch

    expected = case.torch(*(x.double() if _is_real(x) else x for x in given))
    found = function(*(x.clone() if case.in_place else x for x in given))
    torch.cuda.synchronize()
    greatest = 0.0
    for result, right in zip(_flat(found), _flat(expected), strict=True):
        if tuple(result.shape) != tuple(right.shape):
            raise contest.Wrong(f"a result of shape {tuple(result.shape)}, not {tuple(right.shape)}")
        if not right.is_floating_point():
            if not torch.equal(result.to(right.dtype), right):
                raise contest.Wrong("an integer result differs")
            continue
        size = right.abs().mean()
        error = float(((result.double() - right).abs() / (right.abs() + size)).max())
        if not error <= case.bound:
            raise contest.Wrong(f"an error of {error:.1e}")
        greatest = max(greatest, error)
    return greatest


def _is_real(x: Any) -> bool:
    return hasattr(x, "is_floating_point") and x.is_floating_point()


def _flat(results: Any) -> list[Any]:
    return list(results) if isinstance(results, (tuple, list)) else [results]


SCRIPT = """
import sys, time
sys.path.insert(0, sys.argv[1])
import memory_cases
for kernel, specs, constants in memory_cases.compiled():
    start = time.perf_counter()
    kernel.compile(*specs, target="sm_90a", **constants).binary
    print(time.perf_counter() - start)
"""


def compile_seconds(which: int) -> Found:
    """What compiling the first (0) or second (1) kernel of a fresh process to a cubin takes with the cache off."""
    environment = {**os.environ, "MINITILE_CACHE": "0"}
    command = [sys.executable, "-c", SCRIPT, str(Path(__file__).parent)]
    seconds = []
    for _ in range(7):
        out = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        seconds.append(float(out.stdout.split()[which]))
    return {"seconds": [statistics.median(seconds), timing.spread(seconds)]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="cases whose names contain this")
    parser.add_argument("--seconds", type=float, default=400.0)
    parser.add_argument("--out", default="", help="OUT.md, OUT.json and, where matplotlib is installed, OUT.svg")
    options = parser.parse_args()
    start, known = time.monotonic(), {}
    for name in CASES:
        if options.only not in name or time.monotonic() - start > options.seconds:
            continue
        known[name] = {}
        for other in ("copy", "torch", "torch.compile", "triton"):
            try:
                known[name] |= measure(name, [other])
            except contest.Missing:
                continue
            except Exception as error:
                known[name]["error"] = f"{other}: {contest.short(error)}"
        print(f"{name:40} {known[name]}", flush=True)
    if options.out:
        row = Row("all", TITLE, 0, 0, tuple((name, "copy") for name in known))
        head = [f"# {TITLE}", "", *(f"- {key}: {value}" for key, value in timing.machine().items()), "", *REMARKS, ""]
        Path(options.out + ".md").write_text("\n".join([*head, *cells_table([row], known)]) + "\n", encoding="utf-8")
        Path(options.out + ".json").write_text(json.dumps(known, indent=1, ensure_ascii=False), encoding="utf-8")
        draw(known, options.out + ".svg")


def draw(known: dict[str, Found], path: str) -> None:
    """The shares of a copy's speed, a dot a case, of minitile and of each contender that was held against a copy in the
    same rounds; where matplotlib is installed."""
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "minitile"  # the same numbers make the same file
    from matplotlib import pyplot

    shares = {name: found["copy"][0] for name, found in known.items() if "copy" in found}
    others = dict.fromkeys(other for name in shares for other in known[name] if other not in _WORDS)
    figure, axes = pyplot.subplots(figsize=(7.5, 0.13 * len(shares) + 1.2), layout="constrained")
    places = {name: -k for k, name in enumerate(shares)}
    for other in others:
        there = [name for name in shares if other in known[name]]
        values = [shares[name] / known[name][other][0] for name in there]
        axes.plot(values, [places[name] for name in there], "o", markersize=3, label=other, alpha=0.7)
    axes.plot([*shares.values()], [*places.values()], "D", markersize=3, label="minitile", color="#d1495b")
    axes.set_yticks([*places.values()], [*places], fontsize=5)
    axes.axvline(1.0, color="#8d99ae", linewidth=0.8)
    axes.set_xlabel("share of a device copy's speed", fontsize=8)
    axes.legend(fontsize=7, frameon=False)
    axes.margins(y=0.01)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


_WORDS = ("copy", "note", "error")


if __name__ == "__main__":
    main()
