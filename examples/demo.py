"""What `make demo` runs: the GEMM of gemm.py, compiled and executed, on the GPU if there is one, else in the simulator.

Prints what the compiler did (time by stage, registers, spills, where the PTX was put), the error against NumPy, and on
a GPU the speed, beside torch's if that is installed. No framework is needed: on a GPU the arrays are plain allocations.
"""

from __future__ import annotations

import importlib
import math
import platform
import statistics
import time
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from gemm import gemm_nt_bf16
from support import error, poisoned, random

import minitile as mt
from minitile.runtime import cuda

BOUND = 4e-3
BUILD = Path(__file__).parents[1] / "build"
COMPILER = ("minitile.pipeline", "minitile.backends.nvidia.lowering", "minitile.backends.nvidia.writer")  # lazy ones
BF16 = np.dtype(ml_dtypes.bfloat16)


def main() -> None:
    device = cuda.current_device_info()
    if device is not None and device.capability >= (8, 0):
        on_gpu(device)
    else:
        in_simulator()


def compiled(m: int, n: int, k: int, target: str, **tiles: int) -> mt.CompiledKernel:
    """The kernel for such sizes, after saying what came out of the compiler."""
    start = time.perf_counter()
    for module in COMPILER:
        importlib.import_module(module)
    imported = (time.perf_counter() - start) * 1e3
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
    print(f"  compiled    {stages} (modules were imported in {imported:.0f} ms)")
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

    launches: dict[str, Any] = {"minitile": kernel.prepare(*arrays)}
    try:
        import torch

        x, y = (torch.from_numpy(z.view(np.int16)).cuda().view(torch.bfloat16) for z in (a, b))
        z = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        launches["torch"] = lambda: torch.mm(x, y.t(), out=z)
    except (ImportError, RuntimeError, AssertionError) as problem:
        print(f"  torch       not compared: {problem}")
    for name, milliseconds in timed(launches).items():
        print(f"  {name:<11} {2 * m * n * k / milliseconds * 1e-9:.0f} TFLOP/s ({milliseconds:.3f} ms)")


def judge(value: float, of: str) -> None:
    print(f"  error       {value:.1e} of {of} against NumPy (‖C - AB‖ / ‖AB‖; bound {BOUND:.0e})")
    if not value <= BOUND:
        raise SystemExit("wrong result")


class DeviceArray:
    """A copy of a NumPy array in device memory, for as long as the process lives."""

    def __init__(self, array: np.ndarray) -> None:
        self.dtype, self.shape, self.size = array.dtype, array.shape, array.nbytes
        self._driver = driver = cuda.driver()
        context = checked(driver.cuDevicePrimaryCtxRetain(checked(driver.cuDeviceGet(0))))
        checked(driver.cuCtxSetCurrent(context))
        self._at = checked(driver.cuMemAlloc(self.size))
        checked(driver.cuMemcpyHtoD(self._at, array.ctypes.data, self.size))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": self.shape, "typestr": "<V2", "data": (int(self._at), False), "version": 3, "strides": None}

    def to_host(self) -> np.ndarray:
        array = np.empty(self.shape, self.dtype)
        checked(self._driver.cuMemcpyDtoH(array.ctypes.data, self._at, self.size))
        return array


def checked(result: tuple[Any, ...]) -> Any:
    """What a driver call returned beside its status."""
    status, *rest = result
    if int(status):
        raise SystemExit(f"the CUDA driver says: {status}")
    return rest[0] if rest else None


def timed(launches: dict[str, Any], rounds: int = 20, repeat: int = 5) -> dict[str, float]:
    """Median milliseconds of a launch; the contenders take turns, because a GPU slows down as it gets warm."""
    driver = cuda.driver()
    start, end = checked(driver.cuEventCreate(0)), checked(driver.cuEventCreate(0))
    times: dict[str, list[float]] = {name: [] for name in launches}
    for _ in range(rounds):
        for name, launch in launches.items():
            launch()
            checked(driver.cuEventRecord(start, 0))
            for _ in range(repeat):
                launch()
            checked(driver.cuEventRecord(end, 0))
            checked(driver.cuEventSynchronize(end))
            times[name].append(checked(driver.cuEventElapsedTime(start, end)) / repeat)
    return {name: statistics.median(found) if found else math.nan for name, found in times.items()}


if __name__ == "__main__":
    main()
