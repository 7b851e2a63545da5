"""Candidates for transposes, cumulative sums and column sums, interleaved with a copy of as many bytes.

    python benchmarks/sweep_scans.py [--only rows,vector] [--rounds 15] [--seconds 110]

A problem is an operation at a size; its contenders are the operation as mt.ops does it, marked by a star, and with
other plans; for transposes the kernels of scan_variants.py with what they may be given, and torch.compile. Each gets
poisoned results, is checked against float64, and is a CUDA graph that goes through as many sets of tensors as fill
1 GB. Each line is one contender: its share of the copy's speed, GB/s, the spread of its times, and what is known of
its kernel.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import contest
import scan_variants
import timing

from minitile import ops
from minitile.backends.base import AssemblerWarning
from minitile.ops.memory_bound.rows import RowPlan
from minitile.ops.memory_bound.scans import PiecePlan
from minitile.ops.memory_bound.sums import SumPlan

ROTATED = 1 << 30  # bytes
COPIED = 2 << 20  # copies of a multiple of so many bytes are the fastest
SMS = 132


@dataclass(frozen=True)
class Contender:
    """`launch(x, y)` fills y; `facts()`: what is known of the kernel once it was launched."""

    name: str
    launch: Callable[[Any, Any], Any]
    facts: Callable[[], str] = lambda: ""


@dataclass(frozen=True)
class Problem:
    """An operation on an input of `shape`, bf16, with a result of `out` (and its dtype's name). `right(x)`: what it is
    in float64; `moved`: bytes; `bound`: the greatest error."""

    name: str
    shape: tuple[int, ...]
    out: tuple[int, ...]
    dtype: str
    right: Callable[[Any], Any]
    moved: int
    bound: float
    contenders: Sequence[Contender]


def variant(kernel: Any, launch: Callable[..., Any], constants: Mapping[str, Any]) -> Contender:
    """`launch(x, y, call)`, where call(*arrays) launches the kernel with the constants."""
    compiled: list[Any] = []

    def call(*arrays: Any) -> Any:
        if not compiled:
            compiled.append(kernel.compile(*arrays, target="auto", **constants))
        return compiled[0](*arrays)

    def facts() -> str:
        spilled = compiled[0].spills
        registers = int(compiled[0].registers)
        return f"{registers} registers" + f", {spilled} bytes spilled" * (spilled > 0)

    said = " ".join(f"{name}={value}" for name, value in constants.items())
    return Contender(f"{kernel.function.__name__} {said}", lambda x, y: launch(x, y, call), facts)


# Transposes ----------------------------------------------------------------------------------------------------------

ALL = 1 << 20  # rows of tiles: consecutive blocks write consecutive bytes
SQUARES = [
    (128, 128, 256),
    (64, 128, 128),
    (128, 64, 128),
    (64, 64, 64),
    (256, 32, 128),
    (32, 256, 128),
    (16, 512, 128),
]
TILES = [
    (64, 64, 128), (64, 64, 256), (128, 64, 256), (64, 128, 256), (32, 256, 256), (256, 32, 256), (512, 16, 256),
    (128, 128, 512),
]  # fmt: skip
BULK = [(64, 64, 128), (128, 64, 256), (256, 32, 256), (256, 64, 512)]


def transposes(m: int, n: int) -> Problem:
    def turned(x: Any, y: Any, call: Callable[..., Any]) -> Any:
        return call(x.reshape(1, m, n), y.reshape(1, n, m))

    def tile(shape: tuple[int, int, int], panel: int, **more: Any) -> dict[str, Any]:
        return {"block_M": shape[0], "block_N": shape[1], "threads": shape[2], "panel": panel, **more}

    squares, tiles = scan_variants.turn_squares, scan_variants.turn_tile
    found = [(squares, tile(shape, panel, beside=1024 // shape[2])) for shape in SQUARES for panel in (0, ALL)]
    found += [(tiles, tile(shape, panel)) for shape in TILES for panel in (0, ALL)]
    found += [(tiles, tile(shape, ALL, bulk=True)) for shape in BULK]
    for hints in ({"load": "evict_first"}, {"store": "evict_first"}, {"load": "evict_first", "store": "evict_first"}):
        found += [(tiles, tile((64, 64, 128), ALL, **hints))]
    found += [(tiles, tile((64, 64, 128), 16))]
    own = Contender("*", lambda x, y: ops.transpose(x, out=y))
    contenders = [own, torch_compiled(), *(variant(made, turned, constants) for made, constants in found)]
    name = f"transpose {m}x{n}"
    return Problem(name, (m, n), (n, m), "bfloat16", lambda x: x.double().t(), 4 * m * n, 0.0, contenders)


def torch_compiled() -> Contender:
    """What torch.compile makes of it; its copy to y is one with it. facts: the kernel's configuration and accesses."""
    compiled: list[Any] = []

    def launch(x: Any, y: Any) -> Any:
        import torch

        if not compiled:
            torch._dynamo.reset()
            mode = "max-autotune-no-cudagraphs"
            compiled.append(torch.compile(lambda x: x.t().contiguous(), dynamic=False, mode=mode))
        made = compiled[0](x)
        if not torch.cuda.is_current_stream_capturing():
            y.copy_(made)  # to be checked; not timed
        return made

    return Contender("torch.compile", launch, inductor_kernel)


def inductor_kernel() -> str:
    """The last kernel that torch's compiler has made, if it is found: its configuration and its lines on memory."""
    try:
        from torch._inductor.codecache import PyCodeCache

        modules = list(PyCodeCache.modules)
        kernels = [one for module in modules for one in vars(module).values() if hasattr(one, "launchers")]
        made = kernels[-1]
        lines = [line.strip() for line in made.fn.src.splitlines()]
        said = [line for line in lines if any(word in line for word in ("tl.load", "tl.store", "program_id", "arange"))]
        return "\n      ".join([str([launcher.config for launcher in made.launchers]), *said])
    except Exception as error:
        return f"(its kernel is not to be found: {contest.short(error)})"


# What mt.ops has, by several plans ----------------------------------------------------------------------------------


def planned(call: Callable[..., Any], plans: Sequence[Any]) -> list[Contender]:
    """An operation with its own choice, and with each of these plans."""
    found = [Contender("*", lambda x, y: call(x, out=y))]
    return found + [Contender(str(plan), lambda x, y, p=plan: call(x, out=y, plan=p)) for plan in plans]


def scans(name: str, m: int, n: int, plans: Sequence[Any]) -> Problem:
    def right(x: Any) -> Any:
        return x.double().cumsum(-1)

    return Problem(name, (m, n), (m, n), "bfloat16", right, 4 * m * n, 3e-2, planned(ops.cumsum, plans))


def vector() -> Problem:
    plans = [PiecePlan(*plan) for plan in ((16384, 256, 132), (16384, 512, 132), (32768, 512, 132), (12288, 256, 264))]
    return scans("vector 2^28", 1, 1 << 28, plans)


def rows(n: int) -> Problem:
    return scans(f"rows {(1 << 26) // n}x{n}", (1 << 26) // n, n, [RowPlan(1, n, n // each) for each in (16, 64)])


def sums(m: int, n: int) -> Problem:
    strips = n // 256
    plans = [
        SumPlan(8, 256, ahead, 256, beside * SMS // strips)
        for ahead, beside in ((8, 2), (4, 4), (4, 3), (2, 4), (8, 1))
    ]
    name = f"sums {m}x{n}"
    found = planned(ops.column_sums, plans)
    return Problem(name, (m, n), (n,), "float32", lambda x: x.double().sum(0), 2 * m * n, 1e-4, found)


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "transpose 8192x8192": lambda: transposes(8192, 8192),
    "transpose 4096x16384": lambda: transposes(4096, 16384),
    "sums 8192x8192": lambda: sums(8192, 8192),
    "sums 16384x4096": lambda: sums(16384, 4096),
    "vector 2^28": vector,
    "rows 4096x16384": lambda: rows(16384),
    "rows 8192x8192": lambda: rows(8192),
    "rows 16384x4096": lambda: rows(4096),
}


# Measuring -----------------------------------------------------------------------------------------------------------


def error_of(found: Any, right: Any) -> float:
    """The greatest error of an element, beside its own size and that of a typical one."""
    if found.shape != right.shape:
        raise contest.Wrong(f"a result of shape {tuple(found.shape)}")
    return float(((found.double() - right).abs() / (right.abs() + right.abs().mean())).max())


def check(problem: Problem, contender: Contender, x: Any, y: Any, right: Any) -> float:
    """The error of two launches, which give the same bits."""
    import torch

    y.fill_(math.nan)
    contender.launch(x, y)
    contest.synchronize()
    first = y.clone()
    error = error_of(first, right)
    if not error <= problem.bound:
        raise contest.Wrong(f"an error of {error:.1e}")
    y.fill_(math.nan)
    contender.launch(x, y)
    contest.synchronize()
    if not torch.equal(y, first):
        raise contest.Wrong("other bits the second time")
    return error


def measure(problem: Problem, rounds: int, until: float) -> None:
    """Prints a line for each contender, the fastest first. What would begin after `until` is left out."""
    import torch

    torch.cuda.empty_cache()
    count = max(2, -(-ROTATED // problem.moved))
    generator = torch.Generator("cuda").manual_seed(1)
    xs = [torch.randn(problem.shape, device="cuda", generator=generator).bfloat16() for _ in range(count)]
    ys = [torch.empty(problem.out, dtype=getattr(torch, problem.dtype), device="cuda") for _ in range(count)]
    half = -(-problem.moved // (2 * COPIED)) * COPIED
    halves = [[torch.empty(half, dtype=torch.uint8, device="cuda") for _ in range(2)] for _ in range(count)]
    batches = {"copy": contest.record(lambda: [a.copy_(b) for a, b in halves], 1)[0]}
    right, failed = problem.right(xs[0]), list[str]()
    for contender in problem.contenders:
        if time.monotonic() > until:
            failed.append(f"{contender.name}: no time left")
            continue
        try:
            with contest.watched(contender.name):
                check(problem, contender, xs[0], ys[0], right)
                launch = contender.launch
                batches[contender.name] = contest.record(
                    lambda f=launch: [f(x, y) for x, y in zip(xs, ys, strict=True)], 1
                )[0]
        except Exception as error:
            failed.append(f"{contender.name}: {contest.short(error)}")
    del right
    with contest.watched(problem.name):
        times = timing.time_interleaved(batches, rounds, 1)
    copy = times.pop("copy")
    speed = problem.moved * count / statistics.median(copy) * 1e-6
    print(f"{problem.name}: {problem.moved / 1e6:.0f} MB, copy {speed:.0f} GB/s", flush=True)
    shares = {name: timing.ratio(samples, copy) for name, samples in times.items()}
    facts = {contender.name: contender.facts for contender in problem.contenders}
    for name in sorted(shares, key=lambda name: -shares[name]):
        ms = statistics.median(times[name]) / count
        line = f"{shares[name]:7.3f} {problem.moved / ms * 1e-6:6.0f} GB/s {timing.spread(times[name]):6.3f}"
        print(f"  {line}   {name}  {facts[name]()}", flush=True)
    for name in failed:
        print(f"  FAILED {name}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="what names of problems begin with, with commas between")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=110.0)
    options = parser.parse_args()
    until = time.monotonic() + options.seconds
    warnings.simplefilter("ignore", AssemblerWarning)  # a line says what was spilled
    print(", ".join(f"{name}: {value}" for name, value in timing.machine().items()), flush=True)
    wanted = tuple(filter(None, options.only.split(",")))
    for name, make in PROBLEMS.items():
        if not wanted or name.startswith(wanted):
            measure(make(), options.rounds, until)


if __name__ == "__main__":
    main()
