"""Candidates for the plans of mt.ops' memory-bound kernels, interleaved with a copy of as many bytes.

    python benchmarks/sweep_memory.py [--only swiglu,transpose] [--rounds 15]

A batch goes through as many sets of tensors as fill 1 GB and is a CUDA graph, as in memory.py. Each line is one plan:
its share of the copy's speed, GB/s, and the spread of its times; the plan that minitile chooses is marked. Results are
compared with those of that plan, which memory.py holds against float64.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import contest
import timing

from minitile import ops
from minitile.ir.types import bf16
from minitile.ops.memory_bound.arguments import Tile
from minitile.ops.memory_bound.gated import gated_plan
from minitile.ops.memory_bound.long_rows import LongPlan
from minitile.ops.memory_bound.norms_backward import GradientPlan
from minitile.ops.memory_bound.rotary import RotaryPlan, rotary_plan
from minitile.ops.memory_bound.rows import RowPlan, row_plans
from minitile.ops.memory_bound.scans import PiecePlan
from minitile.ops.memory_bound.sums import SumPlan, sum_plan
from minitile.ops.memory_bound.transpose import TransposePlan, transpose_plan

ROTATED = 1 << 30  # bytes
COPIED = 2 << 20  # copies of a multiple of so many bytes are the fastest
BOUND = 2.0**-7  # of a result's own size and that of a typical one, between plans: both are rounded to bf16


@dataclass(frozen=True)
class Sweep:
    """`inputs()`: a set of tensors; `call(inputs, plan)`; `moved`: the bytes that must move; `chosen`: the operation's
    own plan, None where it is not asked for."""

    name: str
    inputs: Callable[[], list[Any]]
    call: Callable[..., Any]
    moved: int
    chosen: Any
    plans: list[Any]


def tensor(*shape: int, dtype: str = "bfloat16") -> Any:
    import torch

    return torch.randn(*shape, device="cuda", dtype=torch.float32).to(getattr(torch, dtype))


ELEMENTS = 1 << 26  # of a matrix of rows
LENGTHS = (768, 1024, 4096, 5120, 8192, 16384, 32768, 65536, 131072, 262144, 524288)
ODD = (1001, 2047, 4001, 8191, 12345, 32769, 50257)


def long_plans(n: int) -> Iterator[LongPlan]:
    """Rows of n elements of 2 bytes in shared memory: clusters, threads, blocks that registers leave room for."""
    even = n % 8 == 0
    for cluster in (1, 2, 4, 8, 16):
        share = math.ceil((n if even else n + 7) / cluster)
        for threads in (64, 96, 128, 160, 192, 224, 256):
            columns = math.ceil(share / (threads * 16)) * threads * 16
            fit = 227 * 1024 // (2 * columns + 2048)
            if columns > 1.25 * share or not 16 <= columns // threads <= 160 or (cluster < 16 and fit < 3):
                continue
            for resident in sorted({0, min(fit, 512 // threads), min(fit, 768 // threads)}):
                for ahead in (1, 2):
                    yield LongPlan(cluster, columns, threads, columns * cluster == n, resident, ahead, even)


def row_sweeps() -> Iterator[Sweep]:
    """Operations on rows, by registers and by shared memory: softmax, RMS norm, layer norm."""
    calls: dict[str, Callable[..., Any]] = {
        "softmax": lambda x, w, b, p: ops.softmax(x, plan=p),
        "rms_norm": lambda x, w, b, p: ops.rms_norm(x, w, plan=p),
        "layer_norm": lambda x, w, b, p: ops.layer_norm(x, w, b, plan=p),
    }
    for n in (*LENGTHS, *ODD):
        m = ELEMENTS // n
        plans: list[Any] = [*row_plans(n, bf16), *(long_plans(n) if n >= 2048 else [])]
        for name, call in calls.items():
            inputs = lambda m=m, n=n: [tensor(m, n), tensor(n), tensor(n)]  # noqa: E731
            yield Sweep(f"{name} {m}x{n}", inputs, call, 4 * m * n, None, plans)


def gradient_sweeps() -> Iterator[Sweep]:
    """Gradients of RMS norm and layer norm."""
    for n in (1024, 2048, 4096, 8192, 16384):
        m = ELEMENTS // n
        plans: list[Any] = [
            GradientPlan(cluster, part, threads, True, stages, resident, 132 * resident // cluster)
            for cluster in (1, 2, 4)
            for part in [n // cluster]
            for threads in (64, 128, 256, 512)
            for stages in (2, 3, 4)
            for resident in (1, 2, 3, 4, 6, 8)
            if 8 <= part // threads <= 64
            and resident * (4 * stages * part + 2048) <= 227 * 1024
            and 256 <= resident * threads <= 1024
        ]
        for name, function in (("rms_norm", ops.rms_norm_backward), ("layer_norm", ops.layer_norm_backward)):
            call = lambda dy, x, w, p, f=function: f(dy, x, w, bias=False, plan=p)[:2]  # noqa: E731
            inputs = lambda m=m, n=n: [tensor(m, n), tensor(m, n), tensor(n)]  # noqa: E731
            yield Sweep(f"{name}_backward {m}x{n}", inputs, call, 6 * m * n, None, plans)


def transpose_sweeps() -> Iterator[Sweep]:
    """Transposes, by registers and by shared memory."""
    whole = 1 << 20  # rows of tiles in a panel: consecutive blocks write consecutive bytes
    registers = [
        TransposePlan(True, a, b, threads, panel)
        for a, b, threads in (
            (64, 64, 64), (64, 128, 128), (128, 64, 128), (128, 128, 256), (64, 256, 256), (256, 64, 256),
            (128, 256, 512), (32, 256, 128), (256, 32, 128),
        )
        for panel in (0, 4, 8, whole)
    ]  # fmt: skip
    shared = [
        TransposePlan(False, a, b, threads, panel)
        for a, b, threads in (
            (64, 64, 128), (64, 64, 256), (128, 64, 256), (64, 128, 256), (128, 128, 256), (128, 128, 512),
            (32, 256, 256), (256, 32, 256),
        )
        for panel in (0, whole)
    ]  # fmt: skip
    for m, n in ((8192, 8192), (4096, 16384)):
        yield Sweep(
            f"transpose {m}x{n}", lambda m=m, n=n: [tensor(m, n)], lambda x, p: ops.transpose(x, plan=p), 4 * m * n,
            transpose_plan(m, n, 2), registers + shared,
        )  # fmt: skip
    m = n = 8192
    squares = [
        TransposePlan(True, a, b, threads, panel)
        for a, b, threads in ((32, 64, 128), (64, 64, 256), (64, 128, 256), (128, 64, 256), (64, 64, 128))
        for panel in (0, 8)
    ]
    yield Sweep(
        "transpose_f32", lambda: [tensor(m, n, dtype="float32")], lambda x, p: ops.transpose(x, plan=p), 8 * m * n,
        transpose_plan(m, n, 4), squares,
    )  # fmt: skip


def sum_sweeps() -> Iterator[Sweep]:
    """Sums of columns."""
    for m, n in ((8192, 8192), (16384, 4096)):
        plans = [
            SumPlan(threads // 32 * 256 // columns, columns, ahead, threads, round(blocks * 132 * columns / n))
            for columns in (256, 512)
            for threads in (128, 256)
            for ahead in (2, 4, 8)
            for blocks in (1, 2, 3, 4, 8)
        ]
        yield Sweep(
            f"column_sums {m}x{n}", lambda m=m, n=n: [tensor(m, n)], lambda x, p: ops.column_sums(x, plan=p), 2 * m * n,
            sum_plan(m, n, 2), plans,
        )  # fmt: skip


def scan_sweeps() -> Iterator[Sweep]:
    """Cumulative sums: of a vector piece by piece, of rows that registers hold."""
    n = 1 << 28
    pieces = [PiecePlan(*plan) for plan in ((16384, 256, 132), (16384, 512, 132), (32768, 512, 132), (12288, 256, 264))]
    call = lambda x, p: ops.cumsum(x, plan=p)  # noqa: E731
    yield Sweep("cumsum vector", lambda: [tensor(1, 1 << 28)], call, 4 * n, None, pieces)
    for n in (16384, 8192, 4096):
        m, plans = ELEMENTS // n, [RowPlan(1, n, n // each) for each in (16, 32, 64)]
        yield Sweep(f"cumsum {m}x{n}", lambda m=m, n=n: [tensor(m, n)], call, 4 * m * n, None, plans)


def sweeps() -> Iterator[Sweep]:
    """All, first the ones that bars name."""
    yield from row_sweeps()
    yield from gradient_sweeps()
    m, n = 8192, 14336
    tiles = [
        Tile(rows, columns, threads)
        for threads in (128, 256, 512)
        for vectors in (1, 2, 4)
        for columns in (1024, 2048, 4096)
        for rows in [threads * 8 * vectors // columns]
        if rows and rows * columns == threads * 8 * vectors
    ]
    yield Sweep(
        "swiglu", lambda: [tensor(m, 2 * n)], lambda x, p: ops.swiglu(x, plan=p), 6 * m * n, gated_plan(n, 2), tiles
    )
    yield Sweep(
        "swiglu_backward", lambda: [tensor(m, n), tensor(m, 2 * n)],
        lambda dy, x, p: ops.swiglu_backward(dy, x, plan=p), 10 * m * n, gated_plan(n, 2), tiles,
    )  # fmt: skip
    yield from transpose_sweeps()
    yield from sum_sweeps()
    yield from scan_sweeps()
    s, h, g, d = 16384, 32, 8, 128

    def with_tables() -> list[Any]:
        angle = tensor(s, d // 2, dtype="float32")
        return [tensor(s, h, d), tensor(s, g, d), angle.cos(), angle.sin()]

    turns = [
        RotaryPlan(max(1, 64 * vectors // heads // 2), heads, max(1, 64 * vectors // 16), 8, d // 2, 256)
        for vectors in (2, 4, 8)
        for heads in (8, 16, 32)
    ]
    for interleaved in (False, True):
        yield Sweep(
            f"rotary{'_interleaved' if interleaved else ''}", with_tables,
            lambda q, k, c, z, p, i=interleaved: ops.rotary(q, k, c, z, interleaved=i, plan=p),
            4 * s * (h + g) * d, rotary_plan(h, g, d // 2, 2), turns,
        )  # fmt: skip


def results(sweep: Sweep, inputs: list[Any], plan: Any, like: Sequence[Any] = ()) -> list[Any]:
    """Of a launch; in memory that was full of NaN, where there is as much of it as `like` takes."""
    poison = [one.new_full(one.shape, math.nan) for one in like]
    del poison
    found = sweep.call(*inputs, plan)
    contest.synchronize()
    return list(found) if isinstance(found, (tuple, list)) else [found]


def compare(found: list[Any], right: list[Any]) -> None:
    """Raises Wrong where results differ by more than rounding."""
    for one, other in zip(found, right, strict=True):
        wide = other.double()
        error = float(((one.double() - wide).abs() / (wide.abs() + wide.abs().mean())).max())
        if not error <= BOUND:
            raise contest.Wrong(f"an error of {error:.1e}")


def measure(sweep: Sweep, rounds: int) -> None:
    """Prints a line for each plan, the fastest first."""
    import torch

    count = max(2, -(-ROTATED // sweep.moved))
    sets = [sweep.inputs() for _ in range(count)]
    half = -(-sweep.moved // (2 * COPIED)) * COPIED
    halves = [[torch.empty(half, dtype=torch.uint8, device="cuda") for _ in range(2)] for _ in range(count)]
    batches = {"copy": contest.record(lambda: [a.copy_(b) for a, b in halves], 1)[0]}
    names, right = dict[str, Any](), results(sweep, sets[0], sweep.chosen)
    for plan in dict.fromkeys([sweep.chosen, *sweep.plans]):
        try:
            with contest.watched(str(plan)):
                compare(results(sweep, sets[0], plan, right), right)
            batches[str(plan)] = contest.record(lambda p=plan: [sweep.call(*one, p) for one in sets], 1)[0]
            names[str(plan)] = plan
        except Exception as error:
            print(f"  {plan}: {contest.short(error)}")
    times = timing.time_interleaved(batches, rounds, 1)
    shares = {name: timing.ratio(times[name], times["copy"]) for name in names}
    copy = statistics.median(times["copy"]) / count
    print(f"{sweep.name}: {sweep.moved / 1e6:.0f} MB, copy {sweep.moved / copy * 1e-6:.0f} GB/s")
    for name in sorted(shares, key=lambda name: -shares[name]):
        ms = statistics.median(times[name]) / count
        mark = "*" if names[name] == sweep.chosen else " "
        line = f"{shares[name]:7.3f} {sweep.moved / ms * 1e-6:6.0f} GB/s {timing.spread(times[name]):6.3f}"
        print(f"  {mark}{line}   {name}", flush=True)
    torch.cuda.empty_cache()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="what names of sweeps begin with, with commas between")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    print(", ".join(f"{name}: {value}" for name, value in timing.machine().items()), flush=True)
    wanted = tuple(filter(None, options.only.split(",")))
    for sweep in sweeps():
        if not wanted or sweep.name.startswith(wanted):
            measure(sweep, options.rounds)


if __name__ == "__main__":
    main()
