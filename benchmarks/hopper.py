"""The GEMM and attention examples on the GPU's own target, beside cuBLAS and cuDNN (through torch), in one process.

    PYTHONPATH=. python benchmarks/hopper.py [--rounds 30] [--out benchmarks/results/NAME]

Random bf16 data; each result is checked against torch's in the same run; contenders take turns (see timing.py) and the
numbers are medians of ratios round by round. `--out NAME` writes NAME.md and NAME.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import timing

os.environ["MINITILE_GPU"] = "1"
sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

GEMMS = [(8192, 8192, 8192), (4096, 4096, 4096), (4096, 7168, 2048)]
TILES = [(128, 256, 64, 4, 256), (128, 256, 64, 3, 256), (256, 128, 64, 4, 256), (128, 128, 64, 4, 256)]
ATTENTIONS = [(4, 16, 4096, 128), (2, 16, 8192, 128), (4, 32, 4096, 64)]
BOUND = 8e-3

Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description="GEMM and attention beside cuBLAS and cuDNN; TFLOP/s and ratios.")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--out", help="write OUT.md and OUT.json")
    args = parser.parse_args()
    head = timing.machine()
    rows = [row for shape in GEMMS for transposed in (True, False) for row in gemm(*shape, transposed, args.rounds)]
    for shape in ATTENTIONS:
        for causal in (False, True):
            rows += attention(*shape, causal, args.rounds)
    lines = ["# GEMM and attention, bf16, on the GPU's own target", "", *(f"- {k}: {v}" for k, v in head.items()), ""]
    lines += ["| case | contender | TFLOP/s | of torch | error |", "|---|---|---:|---:|---:|"]
    lines += ["| {case} | {name} | {tflops:.0f} | {ratio:.3f} | {error:.1e} |".format(**row) for row in rows]
    text = "\n".join(lines) + "\n"
    print(text)
    if args.out:
        Path(args.out + ".md").write_text(text, encoding="utf-8")
        Path(args.out + ".json").write_text(json.dumps({"machine": head, "rows": rows}, indent=1), encoding="utf-8")


def gemm(m: int, n: int, k: int, transposed: bool, rounds: int) -> list[Row]:
    import torch
    from gemm import make_gemm

    import minitile.language as T

    a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
    b = torch.randn((n, k) if transposed else (k, n), device="cuda", dtype=torch.bfloat16)
    expected = a @ (b.t() if transposed else b)
    kernel = make_gemm(T.bfloat16, T.float32, T.bfloat16, False, transposed)
    launches: dict[str, Callable[[], Any]] = {"cuBLAS": lambda: torch.matmul(a, b.t() if transposed else b)}
    errors = {"cuBLAS": 0.0}
    for bm, bn, bk, stages, threads in TILES:
        c = torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16)
        tiles = {"block_M": bm, "block_N": bn, "block_K": bk, "num_stages": stages, "threads": threads}
        name = f"minitile {bm}x{bn}x{bk}, {stages} stages"
        compiled = kernel.compile(a, b, c, target="auto", **tiles)
        launches[name] = lambda c=c, compiled=compiled: compiled(a, b, c)
        errors[name] = checked(launches[name], c, expected)
    return table(f"gemm {'NT' if transposed else 'NN'} {m}x{n}x{k}", 2 * m * n * k, launches, errors, rounds)


def attention(b: int, h: int, s: int, d: int, causal: bool, rounds: int) -> list[Row]:
    import torch
    from attention import attention as kernel
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q, k, v = (torch.randn(b, h, s, d, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    o = torch.full_like(q, float("nan"))

    def cudnn() -> Any:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    compiled = kernel.compile(q, k, v, o, D=d, causal=causal, target="auto")
    launches: dict[str, Callable[[], Any]] = {"cuDNN": cudnn, "minitile": lambda: compiled(q, k, v, o)}
    errors = {"cuDNN": 0.0, "minitile": checked(launches["minitile"], o, cudnn())}
    flops = 4 * b * h * s * s * d // (2 if causal else 1)
    return table(f"attention {b}x{h}x{s}x{d}{' causal' if causal else ''}", flops, launches, errors, rounds)


def checked(launch: Callable[[], Any], result: Any, expected: Any) -> float:
    """The relative error against torch's result. Raises SystemExit where it is too large or NaN."""
    import torch

    launch()
    torch.cuda.synchronize()
    error = float((result.double() - expected.double()).norm() / expected.double().norm())
    if not error <= BOUND:
        raise SystemExit(f"wrong result: relative error {error}")
    return error


def table(
    case: str, flops: int, launches: dict[str, Callable[[], Any]], errors: dict[str, float], rounds: int
) -> list[Row]:
    times = timing.take_turns(launches, rounds)
    base = times[next(iter(launches))]
    return [
        {
            "case": case,
            "name": name,
            "tflops": flops / statistics.median(times[name]) * 1e-9,
            "ratio": timing.ratio(times[name], base),
            "error": errors[name],
        }
        for name in launches
    ]


if __name__ == "__main__":
    main()
