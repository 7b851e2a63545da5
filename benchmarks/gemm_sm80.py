"""examples/gemm.py in bf16, compiled for sm_80, beside cuBLAS, Triton and TileLang on the same mma.sync path.

    PYTHONPATH=. python benchmarks/gemm_sm80.py [--size 4096 | MxNxK ...] [--rounds 40] [--out benchmarks/results/NAME]

Each contender's every tile is compiled, checked against a float64 product of the same random matrices (C is NaN before)
and timed in turns (see timing.py). The table shows each contender's tiles, fastest first; the summary the ratios of the
fastest ones. `--out NAME` writes NAME.md and NAME.json. `--compile-only ARCH` needs no GPU: what is linked for ARCH.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator
from typing import Any

import timing
from gemm_contenders import CONTENDERS, Contender, Missing, Size

LINKED = ("registers", "local", "mma_sync", "wgmma")  # what is known of the code linked for the GPU; -1: not known
BOUND = 4e-3  # bf16 results: half a unit in the last place of 8 bits, over random values


def main() -> None:
    parser = argparse.ArgumentParser(description="GEMM for sm_80, side by side; TFLOP/s and ratios.")
    parser.add_argument("--size", nargs="+", type=parse_size, default=[Size(4096, 4096, 4096)], metavar="M[xNxK]")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--out", help="write OUT.md and OUT.json")
    parser.add_argument("--compile-only", metavar="ARCH", help="compile and link for ARCH; time nothing")
    args = parser.parse_args()
    if args.compile_only:
        for contender, reason in compiled(args.size[0], args.compile_only, args.contenders):
            print(reason or describe(contender), flush=True)
        return

    head = timing.machine()
    lines = ["# GEMM bf16, C = A · Bᵀ, for sm_80", "", *(f"- {name}: {value}" for name, value in head.items())]
    record: dict[str, Any] = {"machine": head, "sizes": {}}
    for size in args.size:
        rows, missing = measure(size, args.contenders, args.rounds)
        record["sizes"][str(size)] = {"rows": rows, "missing": missing}
        lines += ["", f"## {size}", "", *table(rows), "", *summary(rows), *missing]
    text = "\n".join(lines) + "\n"
    print(text)
    if args.out:
        with open(args.out + ".md", "w", encoding="utf-8") as file:
            file.write(text)
        with open(args.out + ".json", "w", encoding="utf-8") as file:
            json.dump(record, file, indent=1)


def parse_size(text: str) -> Size:
    """ "4096" or "8192x4096x1024"."""
    numbers = [int(number) for number in text.split("x")]
    return Size(*(numbers * 3 if len(numbers) == 1 else numbers))


def compiled(size: Size, arch: str, names: list[str]) -> Iterator[tuple[Contender, str]]:
    """The contenders of these names, each with the reason why it cannot be timed ("" if it can)."""
    for name in names:
        try:
            for contender in CONTENDERS[name](size, arch):
                yield contender, f"{contender}: {contender.failure}" if contender.failure else ""
        except Missing as reason:
            yield Contender(name, "", None), f"{name}: {reason}"
        except Exception as error:  # a peer that breaks does not end the comparison
            yield Contender(name, "", None), f"{name}: {type(error).__name__}: {error}".splitlines()[0][:200]


def measure(size: Size, names: list[str], rounds: int) -> tuple[list[dict[str, Any]], list[str]]:
    """A row for each contender and tile, fastest first, and what could not take part."""
    import torch

    torch.manual_seed(0)
    a = torch.randn(size.m, size.k, device="cuda").bfloat16()
    b = torch.randn(size.n, size.k, device="cuda").bfloat16()
    c = torch.empty(size.m, size.n, device="cuda", dtype=torch.bfloat16)
    reference = a.double() @ b.double().t()
    norm = reference.norm()
    arch = "sm_{}{}".format(*torch.cuda.get_device_capability())

    missing, errors, ready = [], {}, {}
    for contender, reason in compiled(size, arch, names):
        if not reason:
            try:
                c.fill_(float("nan"))
                contender.run(a, b, c)
                torch.cuda.synchronize()
                error = float((c.double() - reference).norm() / norm)
                reason = "" if error <= BOUND else f"{contender}: wrong, relative error {error:.1e}"
            except Exception as problem:
                reason = f"{contender}: {type(problem).__name__}: {problem}".splitlines()[0][:200]
        if reason:
            missing.append(f"- {reason}")
            continue
        errors[str(contender)] = error
        ready[str(contender)] = contender

    times = timing.take_turns(
        {name: lambda run=contender.run: run(a, b, c) for name, contender in ready.items()}, rounds
    )
    base = next((times[name] for name, contender in ready.items() if contender.name == "cublas"), None)
    rows = []
    for name, contender in ready.items():
        samples = times[name]
        milliseconds = statistics.median(samples)
        rows.append(
            {
                "name": contender.name,
                "tiles": contender.tiles,
                "tflops": size.flops / milliseconds * 1e-9,
                "spread": timing.spread(samples),
                "of_cublas": timing.ratio(samples, base) if base else None,
                "error": errors[name],
                "registers": contender.registers,
                "local": contender.local,
                "mma_sync": contender.mma[0],
                "wgmma": contender.mma[1],
                "compile_seconds": contender.compile_seconds,
                "ms": milliseconds,
                "samples": samples,
            }
        )
    return sorted(rows, key=lambda row: row["ms"]), missing


def table(rows: list[dict[str, Any]]) -> list[str]:
    """The rows in Markdown."""
    lines = [
        "| | tiles | TFLOP/s | ± | of cuBLAS | error | registers | local bytes | mma.sync | wgmma |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        of_cublas = "" if row["of_cublas"] is None else f"{row['of_cublas']:.2f}"
        known = ["" if row[key] < 0 else str(row[key]) for key in LINKED]
        cells = [row["name"], row["tiles"], f"{row['tflops']:.0f}", f"{row['spread']:.1%}", of_cublas]
        lines.append("| " + " | ".join([*cells, f"{row['error']:.1e}", *known]) + " |")
    return lines


def summary(rows: list[dict[str, Any]]) -> list[str]:
    """The fastest of each contender, and minitile's share of its speed."""
    best: dict[str, dict[str, Any]] = {}
    for row in rows:
        best.setdefault(row["name"], row)
    ours = best.get("minitile")
    if ours is None:
        return []
    lines = []
    for name, row in best.items():
        if name != "minitile":
            share = timing.ratio(ours["samples"], row["samples"])
            lines.append(f"- minitile / {name}: {share:.2f} of the speed ({name}: {row['tiles']})")
    return [f"Fastest of minitile: {ours['tiles']}, {ours['tflops']:.0f} TFLOP/s.", "", *lines]


def describe(contender: Contender) -> str:
    """What was linked, in one line."""
    return (
        f"{contender}: {contender.registers} registers, {contender.local} bytes of local memory, "
        f"{contender.mma[0]} mma.sync, {contender.mma[1]} wgmma, {contender.compile_seconds:.2f} s"
    )


if __name__ == "__main__":
    main()
