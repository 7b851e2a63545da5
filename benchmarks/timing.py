"""Timing contenders side by side on one GPU, and saying what machine it was.

A GPU's speed drifts with its temperature and power, so contenders are interleaved: each round times every contender
once, in a new order, by CUDA events around a few launches. A ratio is the median over the rounds of the ratio within a
round.
"""

from __future__ import annotations

import importlib.metadata
import platform
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any


def time_interleaved(
    launches: Mapping[str, Callable[[], Any]], rounds: int = 40, repeat: int = 5, seed: int = 0
) -> dict[str, list[float]]:
    """Milliseconds of one launch, by contender, one number a round; before each stands one launch that is not timed."""
    import torch

    rng = random.Random(seed)
    order = list(launches)
    times: dict[str, list[float]] = {name: [] for name in launches}
    for _ in range(rounds):
        rng.shuffle(order)
        events = []
        for name in order:
            launch = launches[name]
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            launch()
            start.record()
            for _ in range(repeat):
                launch()
            end.record()
            events.append((name, start, end))
        torch.cuda.synchronize()
        for name, start, end in events:
            times[name].append(start.elapsed_time(end) / repeat)
    return times


def ratio(times: Sequence[float], base: Sequence[float]) -> float:
    """How many times as fast as `base`, round by round: the median of base / times."""
    return statistics.median(b / t for t, b in zip(times, base, strict=True))


def spread(times: Sequence[float]) -> float:
    """Half of the distance between the 10th and the 90th percentile, as a share of the median."""
    deciles = statistics.quantiles(times, n=10)
    return (deciles[-1] - deciles[0]) / 2 / statistics.median(times)


def version(*packages: str) -> str:
    """The version of the first of these packages that is installed, else "not installed"."""
    for package in packages:
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "not installed"


def place() -> str:
    """The GPU's name."""
    import torch

    return str(torch.cuda.get_device_name())


def machine() -> dict[str, str]:
    """Date, GPU, driver, Python and the versions of whatever could have a say in the numbers."""
    import torch

    import minitile
    from minitile.backends.nvidia.assemble import assembler_name
    from minitile.runtime.cuda import driver

    _, cuda = driver().cuDriverGetVersion()
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "gpu": place(),
        "cuda driver": f"{cuda // 1000}.{cuda % 1000 // 10}",
        "python": platform.python_version(),
        "minitile": minitile.__version__,
        "assembler": assembler_name("") or "none",
        "torch": torch.__version__,
        "cudnn": str(torch.backends.cudnn.version()),
        "triton": version("triton"),
        "tilelang": version("tilelang"),
    }
