"""memory_kernels.py against a copy of the same bytes and torch.compile, interleaved on one GPU.

    python benchmarks/memory_bound.py [--only softmax,rms_norm] [--seconds 85] [--rounds 15]

For each case: GB/s of the bytes that must move, the share of what `dst.copy_(src)` of as many bytes in all reaches in
the same rounds, and how many times as fast as torch.compile it is. A batch goes once through as many sets of tensors
as fill 512 MB, so that nothing is found in L2 (50 MB on an H200), recorded in a CUDA graph, so that what a launch
costs on the host is no part of it. Results are checked against torch in float64 first. Of each kernel the cases come
in turn, the first one of all kernels first; when `--seconds` are nearly over, torch.compile is left out (it takes
seconds to compile), then the cases that are left.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import contest
import memory_kernels as kernels
import timing

ROTATED = 512 << 20  # bytes
COMPILING = 8.0  # seconds that torch.compile may take for a case
EPS = 1e-5


@dataclass(frozen=True)
class Case:
    """A kernel on tensors of these shapes ((shape, dtype) each, `outputs` of them from the end are written).
    `reference` is what torch computes on the inputs; `moved` the bytes that must move."""

    kernel: str
    label: str
    tensors: tuple[tuple[tuple[int, ...], str], ...]
    reference: Callable[..., Any]
    moved: int
    constants: dict[str, Any]
    scalars: tuple[float, ...] = ()


def power_of_two(n: int) -> int:
    return 1 << (n - 1).bit_length()


def cases() -> Iterator[list[Case]]:
    """Of each kernel."""
    import torch
    from torch.nn import functional as f

    b16 = "bfloat16"
    yield [Case("add", "2^27", (((1 << 27,), b16),) * 3, torch.add, 6 << 27, {})]
    rows = [(8192, 8192), (16384, 1024), (8192, 4096), (4096, 16384), (8192, 5000)]
    for name in ("softmax", "rms_norm", "layer_norm"):
        found = []
        for m, n in rows:
            x, w = ((m, n), b16), ((n,), b16)
            tensors = {"softmax": (x, x), "rms_norm": (x, w, x), "layer_norm": (x, w, w, x)}[name]
            reference = {
                "softmax": lambda x: torch.softmax(x, 1),
                "rms_norm": lambda x, w, n=n: f.rms_norm(x, (n,), w, EPS),
                "layer_norm": lambda x, w, b, n=n: f.layer_norm(x, (n,), w, b, EPS),
            }[name]
            scalars = () if name == "softmax" else (EPS,)
            found.append(Case(name, f"{m}x{n}", tensors, reference, 4 * m * n, {"columns": power_of_two(n)}, scalars))
        yield found
    m, n = 8192, 14336

    def swiglu(x: Any) -> Any:
        gate, up = x.chunk(2, 1)
        return f.silu(gate) * up

    yield [Case("swiglu", f"{m}x{n}", (((m, 2 * n), b16), ((m, n), b16)), swiglu, 6 * m * n, {})]
    m, n = 4096, 131072

    def loss(x: Any, label: Any) -> Any:
        return f.cross_entropy(x.float() if x.dtype is torch.bfloat16 else x, label, reduction="none")

    given = (((m, n), b16), ((m,), "int64"), ((m,), "float32"))
    yield [Case("cross_entropy", f"{m}x{n}", given, loss, 2 * m * n, {})]
    square = ((8192, 8192), b16)
    yield [Case("transpose", "8192x8192", (square, square), lambda x: x.t().contiguous(), 4 << 26, {})]
    # The kernel adds to what is there: its result is not that of one launch, when a batch has gone through it.
    sums = (square, ((8192,), "float32"))
    yield [Case("column_sum", "8192x8192", sums, lambda x: x.sum(0, dtype=max_precision(x)), 2 << 26, {})]


def max_precision(x: Any) -> Any:
    import torch

    return torch.float64 if x.dtype is torch.float64 else torch.float32


def tensors_of(case: Case, seed: int) -> list[Any]:
    import torch

    generator = torch.Generator("cuda").manual_seed(seed)
    out = []
    for shape, name in case.tensors:
        if name == "int64":
            classes = case.tensors[0][0][1]
            out.append(torch.randint(classes, shape, device="cuda", generator=generator))
        else:
            out.append(
                torch.randn(shape, device="cuda", generator=generator, dtype=torch.float32).to(getattr(torch, name))
            )
    out[-1].zero_()
    return out


def checked(case: Case, args: Sequence[Any]) -> float:
    """The relative error of one launch against torch in float64, on the first rows where rows are independent."""
    import torch

    getattr(kernels, case.kernel)(*args, *case.scalars, **case.constants)
    torch.cuda.synchronize()
    *inputs, output = args
    if case.kernel in ("transpose", "column_sum", "add"):
        expected = case.reference(*(x.double() if x.is_floating_point() else x for x in inputs))
    else:
        some = [x[:64] if x.dim() == 2 or case.kernel == "cross_entropy" else x for x in inputs]
        expected = case.reference(*(x.double() if x.is_floating_point() else x for x in some))
        output = output[:64]
    error = contest.relative_error(output, expected.double())
    if not error < 1e-2:
        raise contest.Wrong(f"relative error {error:.1e}")
    output.zero_()
    return error


def measure(case: Case, rounds: int, with_compile: bool) -> str:
    """One line of the table."""
    import torch

    count = max(2, -(-ROTATED // case.moved))
    sets = [tensors_of(case, seed) for seed in range(count)]
    error = checked(case, sets[0])
    kernel = getattr(kernels, case.kernel)
    half = case.moved // 2
    sources = [torch.empty(half, dtype=torch.uint8, device="cuda") for _ in range(2 * count)]

    def ours() -> Any:
        for args in sets:
            kernel(*args, *case.scalars, **case.constants)
        return args[-1]

    def copy() -> Any:
        for n in range(count):
            sources[2 * n].copy_(sources[2 * n + 1])
        return sources[0]

    batches = {"ours": contest.record(ours, 1)[0], "copy": contest.record(copy, 1)[0]}
    if with_compile:
        compiled = torch.compile(case.reference, dynamic=False)

        def inductor() -> Any:
            for args in sets:
                result = compiled(*args[:-1])
            return result

        inductor()
        batches["torch.compile"] = contest.record(inductor, 1)[0]
    times = timing.time_interleaved(batches, rounds, 1)
    ms = statistics.median(times["ours"]) / count
    share = timing.ratio(times["ours"], times["copy"])
    against = f"{timing.ratio(times['ours'], times['torch.compile']):8.2f}" if with_compile else f"{'-':>8}"
    return (
        f"{case.kernel:14}{case.label:>14}{case.moved / ms * 1e-6:9.0f}{share:8.3f}{against}"
        f"{ms * 1e3:9.1f}{timing.spread(times['ours']):8.3f}   {error:.1e}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="kernels, with commas between")
    parser.add_argument("--seconds", type=float, default=85.0)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    start = time.monotonic()
    import torch

    wanted = set(filter(None, options.only.split(",")))
    print(", ".join(f"{name}: {value}" for name, value in timing.machine().items()))
    print(f"{'kernel':14}{'case':>14}{'GB/s':>9}{'of copy':>8}{'of t.c.':>8}{'us':>9}{'spread':>8}   error", flush=True)
    longest = 2.0
    for turn in zip_longest(*([c for c in some if not wanted or c.kernel in wanted] for some in cases())):
        for case in filter(None, turn):
            began = time.monotonic()
            left = options.seconds - (began - start)
            if left < longest:
                print(f"{case.kernel:14}{case.label:>14}   no time left")
                continue
            with_compile = left > longest + COMPILING
            try:
                print(measure(case, options.rounds, with_compile), flush=True)
            except Exception as error:
                print(f"{case.kernel:14}{case.label:>14}   {contest.short(error)}", flush=True)
            torch.cuda.empty_cache()
            if not with_compile:
                longest = max(longest, time.monotonic() - began)


if __name__ == "__main__":
    main()
