"""Times of launches on an NVIDIA GPU, side by side: contenders are interleaved, since the GPU's speed drifts with its
temperature and power.

Each contender is a CUDA graph of some of its launches, so that what a launch costs on the host is no part of it; one
replay stands before each timed one. L2 holds what the launch before left there. With `flush` it does not: between
launches, which then are single ones, a buffer larger than L2 is written.

Needs cuda-python and no framework. Sources: CUDA driver API reference, Graph Management, Stream Management (capture),
Event Management (resolution 0.5 µs).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from . import cuda

Launch = Callable[..., None]  # of a raw stream, as cuda.Prepared
BATCH_MS = 1.0
MOST_LAUNCHES = 100  # of a batch
FLUSHED = 256 << 20  # bytes


def time_interleaved(
    launches: Mapping[str, Launch], rounds: int = 15, flush: bool = False, seed: int = 0
) -> dict[str, list[float]]:
    """Milliseconds of one launch, by contender, one number a round; in each round every contender once, in a new order.

    `launches` take a raw stream and belong to the current context (as `Executable.prepare` makes them). Raises
    DriverError.
    """
    cuda.call("cuCtxSynchronize")
    with _stream() as stream, _events() as events:
        batches = {
            name: _flushed(launch) if flush else _recorded(launch, stream, events) for name, launch in launches.items()
        }
        rng, order = random.Random(seed), list(batches)
        times: dict[str, list[float]] = {name: [] for name in batches}
        with _scratch(FLUSHED if flush else 0) as scratch:
            for _ in range(rounds):
                rng.shuffle(order)
                for name in order:
                    run, count = batches[name]
                    times[name].append(_timed(run, stream, events, scratch) / count)
    return times


Run = Callable[[int], Any]  # on a raw stream


def _timed(run: Run, stream: int, events: tuple[Any, Any], scratch: int) -> float:
    """Milliseconds of the second of two runs; of the first where L2 is flushed."""
    if scratch:
        cuda.call("cuMemsetD8Async", scratch, 0, FLUSHED, stream)
    else:
        run(stream)
    cuda.call("cuEventRecord", events[0], stream)
    run(stream)
    cuda.call("cuEventRecord", events[1], stream)
    cuda.call("cuEventSynchronize", events[1])
    return float(cuda.call("cuEventElapsedTime", *events))


def _flushed(launch: Launch) -> tuple[Run, int]:
    return launch, 1


def _recorded(launch: Launch, stream: int, events: tuple[Any, Any]) -> tuple[Run, int]:
    """A graph of as many launches as take about BATCH_MS."""
    once = _timed(launch, stream, events, 0)
    count = max(1, min(MOST_LAUNCHES, round(BATCH_MS / max(once, 1e-4))))
    graph = record(launch, stream, count)
    return lambda on: cuda.call("cuGraphLaunch", graph, on), count


def record(launch: Launch, stream: int, count: int) -> Any:
    """`count` launches as an executable graph. Raises DriverError; the stream then is as it was before."""
    mode = cuda.driver().CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
    cuda.call("cuStreamBeginCapture", stream, mode)
    try:
        for _ in range(count):
            launch(stream)
    finally:
        graph = cuda.call("cuStreamEndCapture", stream)
    return cuda.call("cuGraphInstantiate", graph, 0)


@contextmanager
def _stream() -> Iterator[int]:
    stream = cuda.call("cuStreamCreate", 1)  # CU_STREAM_NON_BLOCKING
    try:
        yield int(stream)
    finally:
        cuda.call("cuStreamDestroy", stream)


@contextmanager
def _events() -> Iterator[tuple[Any, Any]]:
    events = cuda.call("cuEventCreate", 0), cuda.call("cuEventCreate", 0)
    try:
        yield events
    finally:
        for event in events:
            cuda.call("cuEventDestroy", event)


@contextmanager
def _scratch(size: int) -> Iterator[int]:
    memory = cuda.call("cuMemAlloc", size) if size else 0
    try:
        yield int(memory)
    finally:
        if size:
            cuda.call("cuMemFree", memory)
