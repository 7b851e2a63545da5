"""Candidates for transposes, cumulative sums and column sums, interleaved with a copy of as many bytes.

    python benchmarks/sweep_scans.py [--only rows,vector] [--rounds 15] [--seconds 110]

A problem is an operation at a size; its contenders are the operation as mt.ops does it, marked by a star, and the
kernels of scan_variants.py with what they may be given. Each gets poisoned results, is checked against float64, and
is a CUDA graph that goes through as many sets of tensors as fill 1 GB. Each line is one contender: its share of the
copy's speed, GB/s, the spread of its times, registers a thread and spilled bytes.
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
import numpy as np
import scan_variants
import timing

from minitile import ops
from minitile.backends.base import AssemblerWarning

ROTATED = 1 << 30  # bytes
COPIED = 2 << 20  # copies of a multiple of so many bytes are the fastest
SMS = 132
SHARED = 220 << 10  # bytes on each


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


def scratch(*shape: int, dtype: str = "float32") -> Any:
    """Zeros, where torch is and sees one on the GPU."""
    try:
        import torch
    except ImportError:
        return np.zeros(shape, dtype)
    return torch.zeros(shape, dtype=getattr(torch, dtype), device="cuda" if torch.cuda.is_available() else "cpu")


# Transposes ----------------------------------------------------------------------------------------------------------


def transposes(m: int, n: int) -> Problem:
    def turned(x: Any, y: Any, call: Callable[..., Any]) -> Any:
        return call(x.reshape(1, m, n), y.reshape(1, n, m))

    tiles = [
        (64, 64, 64), (64, 128, 128), (128, 64, 128), (128, 128, 256), (64, 256, 256), (256, 64, 256),
        (256, 32, 128), (512, 32, 256), (128, 256, 512), (256, 128, 512),
    ]  # fmt: skip
    chosen = [
        {"block_M": a, "block_N": b, "threads": threads, "minimum": max(1, 1024 // threads * full)}
        for a, b, threads in tiles
        for full in (0, 1)
    ]
    square = {"block_M": 128, "block_N": 128, "threads": 256}
    chosen += [{**square, "panel": panel, "minimum": 4} for panel in (2, 4, 8, 16)]
    chosen += [
        {"block_M": a, "block_N": b, "threads": t, "panel": p, "minimum": 1024 // t}
        for a, b, t in ((64, 64, 64), (64, 128, 128))
        for p in (8, 16)
    ]
    chosen += [{**square, "minimum": minimum, "blocks": minimum * SMS} for minimum in (2, 3)]
    kernel = scan_variants.turn_squares
    return Problem(
        f"transpose {m}x{n}", (m, n), (n, m), "bfloat16", lambda x: x.double().t(), 4 * m * n, 0.0,
        [Contender("*", lambda x, y: ops.transpose(x, out=y)), *(variant(kernel, turned, c) for c in chosen)],
    )  # fmt: skip


# Cumulative sums -----------------------------------------------------------------------------------------------------


def scans(name: str, m: int, n: int, contenders: Sequence[Contender]) -> Problem:
    def right(x: Any) -> Any:
        return x.double().cumsum(-1)

    own = Contender("*", lambda x, y: ops.cumsum(x, out=y))
    every = {contender.name: contender for contender in (own, *contenders)}
    return Problem(name, (m, n), (m, n), "bfloat16", right, 4 * m * n, 3e-2, [*every.values()])


def plain(x: Any, y: Any, call: Callable[..., Any]) -> Any:
    return call(x, y)


HELD = [
    # elements of a thread, threads of a multiprocessor that registers are to do for (0: one block), in order
    (64, 0, True), (64, 512, True), (32, 0, True), (32, 1024, True), (32, 1024, False), (16, 0, True),
    (16, 1024, True), (16, 1536, True), (16, 2048, True), (8, 2048, True),
]  # fmt: skip
STAGED = [
    # elements of a thread, threads of a multiprocessor, stages
    (64, 512, 2), (64, 512, 3), (32, 512, 3), (32, 1024, 2), (32, 1024, 3), (16, 1024, 3), (16, 1536, 2),
]  # fmt: skip


def rows(n: int) -> Problem:
    """Rows that a block holds: in registers, by a few threads or many, and through shared memory."""
    m = (1 << 26) // n
    fixed = {"rows": 1, "columns": n, "exact": True}
    found = []
    for each, full, ordered in HELD:
        given = {**fixed, "threads": n // each, "minimum": max(1, full * each // n), "ordered": ordered}
        if n // each <= 1024 and (not full or full * each >= n):
            found.append(variant(scan_variants.scan_rows, plain, given))
    for each, full, stages in STAGED:
        beside = full * each // n
        given = {**fixed, "threads": n // each, "minimum": beside, "stages": stages, "blocks": beside * SMS}
        if beside and 2 * n * stages * beside <= SHARED:
            found.append(variant(scan_variants.scan_staged, plain, given))
    return scans(f"rows {m}x{n}", m, n, found)


def by_pieces(kernel: Any, m: int, n: int, constants: Mapping[str, Any]) -> Contender:
    """A kernel of pieces, with the zeros that it starts from."""
    pieces = math.ceil(n / constants["piece"])
    words = 1 + m * (pieces + math.ceil(pieces / constants["threads"]))
    state = scratch(words, dtype="int64")

    def launch(x: Any, y: Any, call: Callable[..., Any]) -> Any:
        state[:] = 0
        return call(x.reshape(m, n), y.reshape(m, n), state)

    return variant(kernel, launch, constants)


PIECES = [
    (8192, 256, 1), (8192, 256, 4), (4096, 128, 8), (4096, 256, 1), (4096, 256, 6), (8192, 512, 3), (16384, 512, 1),
    (16384, 512, 2), (16384, 256, 2), (8192, 128, 4), (16384, 1024, 1), (16384, 1024, 2), (32768, 1024, 1),
]  # fmt: skip
AHEAD = [
    (8192, 256, 2), (8192, 256, 3), (8192, 512, 2), (4096, 256, 4), (4096, 256, 5), (4096, 128, 6), (16384, 512, 1),
    (16384, 1024, 1), (8192, 1024, 2), (8192, 128, 3), (16384, 256, 2),
]  # fmt: skip


def vector() -> Problem:
    n = 1 << 28
    found = [
        by_pieces(scan_variants.scan_pieces, 1, n, {"piece": p, "threads": t, "minimum": minimum})
        for p, t, minimum in PIECES
    ]
    found += [
        by_pieces(scan_variants.scan_ahead, 1, n, {"piece": p, "threads": t, "minimum": b, "blocks": b * SMS})
        for p, t, b in AHEAD
    ]
    found += [
        by_pieces(scan_variants.scan_pieces, 1, n, {"piece": p, "threads": t, "minimum": minimum, "ticket": False})
        for p, t, minimum in ((8192, 256, 4), (16384, 512, 2))
    ]
    return scans("vector 2^28", 1, n, found)


# Sums of columns -----------------------------------------------------------------------------------------------------

STRIPS = [
    # rows, columns, ahead, threads, blocks on each multiprocessor
    (8, 256, 4, 256, 4), (8, 256, 2, 256, 4), (8, 256, 4, 256, 3), (8, 256, 8, 256, 3), (8, 256, 8, 256, 2),
    (16, 128, 4, 256, 4), (4, 256, 4, 128, 8), (4, 512, 4, 256, 4), (16, 256, 4, 512, 2), (8, 256, 2, 256, 5),
    (16, 128, 8, 256, 2), (4, 256, 8, 128, 6),
]  # fmt: skip


def sums(m: int, n: int) -> Problem:
    found: list[Contender] = []

    def apart(parts: int, constants: dict[str, Any]) -> None:
        between = scratch(parts, n)
        last = {"rows": 32, "columns": 32, "ahead": max(1, min(4, parts // 32)), "threads": 256}

        def launch(x: Any, y: Any, call: Callable[..., Any]) -> Any:
            call(x, between)
            return scan_variants.sums_apart(between, y.reshape(1, n), **last)

        found.append(variant(scan_variants.sums_apart, launch, constants))

    for r, c, ahead, threads, beside in STRIPS:
        strips = math.ceil(n / c)
        fixed = {"rows": r, "columns": c, "ahead": ahead, "threads": threads, "minimum": beside}
        apart(max(1, beside * SMS // strips), fixed)
        for cluster in (4, 8, 16):
            if beside * SMS / 2.2 <= cluster * strips <= beside * SMS:
                found.append(variant(scan_variants.sums_together, plain, {**fixed, "cluster": cluster}))
    for deep, stages, beside in ((32, 3, 3), (32, 4, 3), (64, 3, 2), (64, 4, 1), (32, 6, 2)):
        fixed = {"rows": 8, "columns": 256, "threads": 256, "deep": deep, "stages": stages, "minimum": beside}
        strips = math.ceil(n / 256)
        apart(max(1, beside * SMS // strips), fixed)
        for cluster in (4, 8, 16):
            if beside * SMS / 2.2 <= cluster * strips <= beside * SMS:
                found.append(variant(scan_variants.sums_together, plain, {**fixed, "cluster": cluster}))
    for r, c, ahead, threads, beside in ((8, 256, 4, 256, 4), (8, 256, 8, 256, 2), (16, 128, 4, 256, 4)):
        strips = math.ceil(n / c)
        split = max(1, beside * SMS // strips)
        between, done = scratch(split, n), scratch(strips, dtype="int32")
        fixed = {"rows": r, "columns": c, "ahead": ahead, "threads": threads, "minimum": beside, "split": split}
        found.append(variant(scan_variants.sums_last, lambda x, y, call, b=between, d=done: call(x, b, d, y), fixed))
    own = Contender("*", lambda x, y: ops.column_sums(x, out=y))
    return Problem(
        f"sums {m}x{n}", (m, n), (n,), "float32", lambda x: x.double().sum(0), 2 * m * n, 1e-4, [own, *found]
    )


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "sums 8192x8192": lambda: sums(8192, 8192),
    "rows 4096x16384": lambda: rows(16384),
    "transpose 8192x8192": lambda: transposes(8192, 8192),
    "vector 2^28": vector,
    "sums 16384x4096": lambda: sums(16384, 4096),
    "transpose 4096x16384": lambda: transposes(4096, 16384),
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
