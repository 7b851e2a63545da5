"""What `make demo` runs: the GEMM of gemm.py, compiled and executed, on the GPU if there is one, else in the simulator.

Prints what the compiler did (time by stage, registers, spills, where the PTX was put), the error against NumPy, and on
a GPU the speed, beside torch's if that is installed. No framework is needed: on a GPU the arrays are plain allocations.
"""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from gemm import gemm_nt_bf16
from support import error, poisoned, random

import minitile as mt
from minitile.runtime import cuda
from minitile.runtime.buffers import DeviceArray, time_launches

BOUND = 4e-3
BUILD = Path(__file__).parents[1] / "build"
BF16 = np.dtype(ml_dtypes.bfloat16)


def main() -> None:
    device = cuda.current_device_info()
    if device is not None and device.capability >= (8, 0):
        on_gpu(device)
    else:
        in_simulator()


def compiled(m: int, n: int, k: int, target: str, **tiles: int) -> mt.CompiledKernel:
    """The kernel for such sizes, after saying what came out of the compiler."""
    specs = [mt.spec(shape, "bfloat16") for shape in ((m, k), (n, k), (m, n))]
    kernel = gemm_nt_bf16().compile(*specs, target=target, **tiles)
    try:
        costs = (
            f"{kernel.registers} registers a thread, {kernel.spills} bytes spilled, {len(kernel.binary)} bytes of code"
        )
    except mt.MinitileError as problem:  # no nvJitLink for this system: the PTX runs in the simulator all the same
        costs = f"not assembled: {problem.message}"
    BUILD.mkdir(exist_ok=True)
    path = BUILD / f"gemm_{kernel.target.name}.ptx"
    path.write_text(kernel.asm["ptx"], encoding="utf-8")
    stages = ", ".join(f"{stage} {ms:.0f} ms" for stage, ms in kernel.timings.items())
    print(f"  compiled    {stages}")
    print(f"  assembled   for {kernel.target.arch}: {costs}")
    print(f"  PTX         {path} ({kernel.asm['ptx'].count(chr(10))} lines)")
    return kernel


def in_simulator() -> None:
    """A product that does not fit the tiles, on random numbers; the simulator also looks for races and bad accesses."""
    m, n, k = 250, 280, 264
    print(f"minitile demo: C = A · Bᵀ in bf16, {m}x{n}x{k}, for sm_80; no GPU here, so its PTX runs in the simulator")
    kernel = compiled(m, n, k, "sm_80")
    rng = np.random.default_rng()
    a, b, c = random(rng, (m, k), BF16), random(rng, (n, k), BF16), poisoned((m, n), BF16)
    start = time.perf_counter()
    report = kernel.simulate(a, b, c)
    seconds = time.perf_counter() - start
    count = sum(report.instructions.values())
    print(
        f"  simulated   {count} warp instructions in {seconds:.1f} s on {platform.machine()}; no races, no bad accesses"
    )
    judge(error(c, a.astype(np.float64) @ b.astype(np.float64).T), "all of C")


def on_gpu(device: cuda.DeviceInfo) -> None:
    """A large product, timed; some rows of it are checked against NumPy."""
    m = n = k = 4096
    print(f"minitile demo: C = A · Bᵀ in bf16, {m}x{n}x{k}, on {device.name} ({device.arch})")
    kernel = compiled(m, n, k, "auto", block_M=128, block_N=256, block_K=32, num_stages=4, threads=256)
    rng = np.random.default_rng()
    a, b = random(rng, (m, k), BF16), random(rng, (n, k), BF16)
    arrays = [DeviceArray(x) for x in (a, b, poisoned((m, n), BF16))]
    kernel(*arrays)
    rows = rng.integers(0, m, 64)
    want = a[rows].astype(np.float32) @ b.astype(np.float32).T
    judge(error(arrays[2].to_host()[rows], want), "64 rows of C")

    launches: dict[str, Callable[[int], Any]] = {"minitile": kernel.prepare(*arrays)}
    try:
        import torch

        x, y = (torch.from_numpy(z.view(np.int16)).cuda().view(torch.bfloat16) for z in (a, b))
        z = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        launches["torch"] = lambda _: torch.mm(x, y.t(), out=z)
    except (ImportError, RuntimeError, AssertionError) as problem:
        print(f"  torch       not compared: {problem}")
    times: dict[str, list[float]] = {name: [] for name in launches}
    for _ in range(20):  # interleaved, because a GPU slows down as it gets warm
        for name, launch in launches.items():
            times[name] += time_launches(launch, 5)
    for name, found in times.items():
        milliseconds = statistics.median(found)
        print(f"  {name:<11} {2 * m * n * k / milliseconds * 1e-9:.0f} TFLOP/s ({milliseconds:.3f} ms)")


def judge(value: float, of: str) -> None:
    print(f"  error       {value:.1e} of {of} against NumPy (‖C - AB‖ / ‖AB‖; bound {BOUND:.0e})")
    if not value <= BOUND:
        raise SystemExit("wrong result")


if __name__ == "__main__":
    main()
