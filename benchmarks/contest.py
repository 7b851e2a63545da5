"""A contest: several compiled kernels for one problem, checked, then timed interleaved on one GPU.

A contender (minitile, cuBLAS, Triton, …) comes to a case with one entry or several, which differ in tiles, stages and
threads. All of them are run once and checked; the sound ones are timed in a few short rounds, which choose the fastest
entry of each contender; these alone meet in the rounds that count. So no contender gains by having more entries: the
number that chose an entry is not the number that is reported.

What is timed is a batch of launches, recorded in a CUDA graph where that works: what a launch costs on the host, which
differs by contender, is then no part of it (benchmarks/launch.py shows that). A graph's result is checked as well.
Where recording fails, the same launches are made one by one, and the row says so.
"""

from __future__ import annotations

import math
import os
import statistics
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import timing

Row = dict[str, Any]
Verify = Callable[[Any], float]
CHOOSING_ROUNDS = 6
LAUNCHES = (3, 60)  # the least and the most launches of a batch


class Missing(Exception):
    """A contender that cannot take part here, and why."""


class Wrong(Exception):
    """A result that is not what was asked for."""


class Crashed(Exception):
    """An entry after which the GPU answers nothing any more in this process, by name."""


@dataclass
class Entry:
    """One way to do a case. `launch` launches it once on torch's current stream and returns the result tensor; None
    where `failure` says why there is none. facts: what else is known of it (registers, spilled bytes).
    compile_seconds: what compiling it took, by itself and with nothing cached, where that was measured;
    compile_stages: of what these seconds consist."""

    contender: str
    config: str
    launch: Callable[[], Any] | None
    facts: dict[str, Any] = field(default_factory=dict)
    failure: str = ""
    compile_seconds: float | None = None
    compile_stages: str = ""

    def __str__(self) -> str:
        return f"{self.contender} {self.config}".rstrip()


@dataclass
class CaseResult:
    """The rows of the entries that met in the end; every entry that was tried, with its speed in the choosing rounds
    (None: not timed) and why it was left out."""

    rows: list[Row]
    tried: list[Row]


def each(contender: str, configs: Iterable[Any], build: Callable[[Any], Entry]) -> Iterator[Entry]:
    """`build` for all configs; the reason where it fails: whatever a compiler raises, the others go on."""
    for config in configs:
        try:
            yield build(config)
        except Missing:
            raise
        except Exception as error:
            failed = Entry(contender, str(config), None, failure=short(error))
            still_there(failed, failed.failure)
            yield failed


def gather(contenders: Mapping[str, Callable[[], Iterable[Entry]]]) -> list[Entry]:
    """The entries of all contenders; one that is missing or breaks leaves an entry that says so."""
    entries: list[Entry] = []
    for name, make in contenders.items():
        try:
            entries += make()
        except Crashed:
            raise
        except Missing as reason:
            entries.append(Entry(name, "", None, failure=str(reason)))
        except Exception as error:
            entries.append(Entry(name, "", None, failure=short(error)))
    return entries


def short(error: Exception) -> str:
    """What an error says in one line of at most 200 characters: the line of a compiler's complaint, else the first."""
    lines = str(error).splitlines() or [""]
    complaint = next((line.strip() for line in lines if " error: " in line), lines[0])
    return f"{type(error).__name__}: {complaint}"[:200]


def hold(
    case: str,
    flops: float,
    entries: Iterable[Entry],
    verify: Verify,
    base: str,
    poison: Callable[[], Any],
    rounds: int = 25,
    batch_ms: float = 5.0,
) -> CaseResult:
    """Holds one case. `verify` gives the relative error of a result or raises Wrong; `poison` fills with NaN what the
    entries write to; `base` is the contender that the ratios are of; a batch takes about `batch_ms` milliseconds."""
    tried: list[Row] = []
    ready: dict[str, tuple[Entry, float]] = {}
    for entry in entries:
        error, reason = math.nan, entry.failure
        if entry.launch is not None:
            try:
                with watched(str(entry)):
                    poison()
                    error = verify(entry.launch())
            except Exception as problem:
                reason = short(problem)
                still_there(entry, reason)
        row = {"contender": entry.contender, "config": entry.config, "tflops": None, "failure": reason}
        tried.append({**row, "facts": entry.facts})
        if not reason:
            ready[str(entry)] = entry, error
    if not ready:
        return CaseResult([], tried)

    count = batch_size(flops, batch_ms)
    batches, notes = {}, {}
    for name, (entry, _) in ready.items():
        batches[name], notes[name] = batch(entry.launch, count, verify)
    with watched(f"a repeated launch in {case}"):
        timed = timing.time_interleaved(batches, CHOOSING_ROUNDS, 1)
    for row in tried:
        name = f"{row['contender']} {row['config']}".rstrip()
        if name in timed:
            row["tflops"] = flops * count / statistics.median(timed[name]) * 1e-9
    chosen = choose({name: entry.contender for name, (entry, _) in ready.items()}, timed)

    times = {
        name: [t / count for t in samples]
        for name, samples in timing.time_interleaved({name: batches[name] for name in chosen}, rounds, 1).items()
    }
    by_contender = {ready[name][0].contender: samples for name, samples in times.items()}
    rows = []
    for name in chosen:
        entry, error = ready[name]
        ms = statistics.median(times[name])
        rows.append(
            {
                "case": case,
                "contender": entry.contender,
                "config": entry.config,
                "tflops": flops / ms * 1e-9,
                "spread": timing.spread(times[name]),
                "ratio": timing.ratio(times[name], by_contender[base]) if base in by_contender else None,
                "of": {
                    other: timing.ratio(times[name], samples)
                    for other, samples in by_contender.items()
                    if other != entry.contender
                },
                "error": error,
                "note": notes[name],
                "facts": entry.facts,
                "ms": ms,
                "launches": count,
                "samples": times[name],
            }
        )
    return CaseResult(sorted(rows, key=lambda row: row["ms"]), tried)


@contextmanager
def watched(name: str, seconds: float = 60.0) -> Iterator[None]:
    """Ends the process when what stands in the block takes longer: a kernel that hangs can't be ended otherwise."""

    def end() -> None:
        print(f"{name} hangs: still running after {seconds:.0f} s", flush=True)
        os._exit(3)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def still_there(entry: Entry, reason: str) -> None:
    """Raises Crashed when the GPU refuses everything, as it does after an access outside of any memory."""
    try:
        synchronize()
    except Exception:
        raise Crashed(f"{entry}: {reason}") from None


def synchronize() -> None:
    """Waits for the GPU, where torch uses one."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.synchronize()


def batch_size(flops: float, batch_ms: float) -> int:
    """How many launches take about `batch_ms` milliseconds at 600 TFLOP/s, within LAUNCHES."""
    return max(LAUNCHES[0], min(LAUNCHES[1], round(batch_ms * 1e-3 * 600e12 / flops)))


def choose(contenders: Mapping[str, str], times: Mapping[str, list[float]]) -> list[str]:
    """The name of the fastest entry of each contender, in the contenders' order."""
    best: dict[str, str] = {}
    for name, contender in contenders.items():
        if contender not in best or statistics.median(times[name]) < statistics.median(times[best[contender]]):
            best[contender] = name
    return list(best.values())


def batch(launch: Callable[[], Any], count: int, verify: Verify) -> tuple[Callable[[], Any], str]:
    """`count` launches as one call: the replay of a graph, if its result is right, else a loop; and a note on which."""
    try:
        replay, result = record(launch, count)
        result.fill_(math.nan)
        replay()
        verify(result)
        return replay, ""
    except Exception as error:

        def loop() -> None:
            for _ in range(count):
                launch()

        return loop, f"launched one by one ({short(error)})"


def record(launch: Callable[[], Any], count: int) -> tuple[Callable[[], Any], Any]:
    """`count` launches in a CUDA graph: its replay, and the tensor that the last one writes."""

    def launches() -> Any:
        for _ in range(count):
            result = launch()
        return result

    return record_all(launches)


def record_all(launches: Callable[[], Any]) -> tuple[Callable[[], Any], Any]:
    """What `launches` launches, in a CUDA graph: its replay, and what it gave back."""
    import torch

    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            result = launches()
        finally:
            graph.capture_end()
    torch.cuda.synchronize()
    return graph.replay, result


def relative_error(result: Any, expected: Any) -> float:
    """‖result − expected‖ / ‖expected‖ of two tensors, in the type of `expected`; NaN if any element is."""
    return float((result.to(expected.dtype) - expected).norm() / expected.norm())


def checker(expected_rows: Any, take: Callable[[Any], Any], whole: Any, bound: float) -> Verify:
    """Checks a result twice: `take(result)` against `expected_rows`, a float64 reference of a sample of rows, whose
    error is what is reported; and all of it against `whole`, another implementation's result, so that no wrong tile
    hides between the sampled rows."""

    def verify(result: Any) -> float:
        synchronize()
        error = relative_error(take(result), expected_rows)
        elsewhere = relative_error(result, whole.float())
        if not (error <= bound and elsewhere <= bound):
            raise Wrong(f"relative error {error:.1e} on the sampled rows, {elsewhere:.1e} against torch's result")
        return error

    return verify
