"""A matrix by a vector, y = W · x in fp16: examples/gemv.py thread by thread and as tiles, beside torch.

    python benchmarks/gemv.py [--only 8192x8192] [--rounds 25] [--out benchmarks/results/gemv_h200]

All that counts is how fast W is read. A batch goes through as many matrices as fill ROTATED bytes, so that L2 has
nothing of the next launch, and is recorded in a CUDA graph. Of a contender with several sizes of block a few rounds
choose one, others measure (timing.py). torch is `x @ W.T`; `copy` is a device copy that reads and writes as many bytes
together. Results are checked against float64 first, all entries'.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import contest
import timing
from compilers import example
from memory import ROTATED

CASES = [(4096, 4096), (8192, 8192), (14336, 4096), (4096, 14336), (28672, 8192), (16384, 16384), (8192, 1000)]
THREADS = [{"rows": rows, "warps": warps} for rows in (1, 2, 4) for warps in (1, 2, 4, 8)]
TILES = [
    {"rows": rows, "columns": columns, "threads": threads}
    for rows, columns, threads in ((4, 1024, 128), (8, 512, 128), (8, 1024, 128), (4, 1024, 256), (16, 512, 256))
]
BOUND = 2e-3


def entries(gemv: Any) -> Iterator[tuple[str, str, Callable[[Any, Any, Any], Any]]]:
    """Contender, configuration, and what it calls on x, W and y."""
    import torch

    yield "torch", "", lambda x, w, y: torch.matmul(x, w.T, out=y)
    for contender, kernel, configs in (("threads", gemv.by_threads, THREADS), ("tiles", gemv.by_tiles, TILES)):
        for config in configs:
            shown = ", ".join(f"{name} {number}" for name, number in config.items())
            yield contender, shown, lambda x, w, y, k=kernel, c=config: k(x, w, y, **c)


def error(launch: Callable[[Any, Any, Any], Any], x: Any, w: Any, y: Any) -> float:
    """The relative error of a launch; raises contest.Wrong."""
    y.fill_(float("nan"))
    launch(x, w, y)
    contest.synchronize()
    found = contest.relative_error(y, w.double() @ x.double())
    if not found <= BOUND:
        raise contest.Wrong(f"an error of {found:.1e}")
    return found


def measure(n: int, k: int, rounds: int) -> list[dict[str, Any]]:
    """One row a contender, the fastest first."""
    import torch

    torch.cuda.empty_cache()
    moved = 2 * (n * k + n + k)
    count = max(2, -(-ROTATED // moved))
    sets = []
    for seed in range(count):
        generator = torch.Generator("cuda").manual_seed(seed)
        x, w = (torch.randn(s, device="cuda", generator=generator, dtype=torch.float16) for s in ((k,), (n, k)))
        sets.append((x, w, torch.empty(n, device="cuda", dtype=torch.float16)))
    batches, errors, of = {}, {}, {}
    for contender, config, launch in entries(example("gemv")):
        name = f"{contender} {config}".rstrip()
        errors[name] = error(launch, *sets[0])
        batches[name] = contest.record(lambda f=launch: [f(*args) for args in sets], 1)[0]
        of[name] = contender
    half = -(-moved // (4 << 20)) * (2 << 20)
    halves = [tuple(torch.empty(half, dtype=torch.uint8, device="cuda") for _ in range(2)) for _ in range(count)]
    batches["copy"], of["copy"] = contest.record(lambda: [a.copy_(b) for a, b in halves], 1)[0], "copy"
    chosen = contest.choose(of, timing.time_interleaved(batches, contest.CHOOSING_ROUNDS, 1))
    times = timing.time_interleaved({name: batches[name] for name in chosen}, rounds, 1)
    base = next(name for name in chosen if of[name] == "torch")
    rows = [
        {
            "case": f"{n}x{k}",
            "contender": name,
            "us": statistics.median(samples) / count * 1e3,
            "gbs": moved * count / statistics.median(samples) * 1e-6,
            "of torch": timing.ratio(samples, times[base]),
            "of copy": timing.ratio(samples, times["copy"]),
            "spread": timing.spread(samples),
            "error": errors.get(name),
        }
        for name, samples in times.items()
    ]
    return sorted(rows, key=lambda row: row["us"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[], help="cases, as 8192x8192")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--out", type=Path, help="a file without its suffix, for .json")
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for n, k in CASES:
        if given.only and f"{n}x{k}" not in given.only:
            continue
        for row in measure(n, k, given.rounds):
            rows.append(row)
            print(
                f"{row['case']:>13} {row['contender']:36} {row['us']:8.1f} µs {row['gbs']:6.0f} GB/s  "
                f"of torch {row['of torch']:.3f}  of copy {row['of copy']:.3f}  ± {row['spread']:.1%}",
                flush=True,
            )
    if given.out is not None:
        result = {"machine": timing.machine(), "rows": rows}
        given.out.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
