"""What serving calls all day: products of 1 to 4096 rows by the weights of ten layers, beside cuBLAS and a large copy.

    python benchmarks/bars.py serving        the bars
    python benchmarks/bars.py serving --rows cublas-200 memory-large
    python benchmarks/bars.py serving --rows w4a16 fp8 --seconds 150    weights of 4 and 8 bits

A batch goes through copies of a layer's weights that fill more than ROTATED bytes, so that L2 (50 MB on an H200) does
not hold them, and is recorded in a CUDA graph. Contenders come in turn within each round; a ratio is the median over
the rounds. Results are checked first: all rows of some columns against float64, everything against torch.

Contenders: `cublas` is torch.mm; `copy` is a device copy of LARGE bytes, whose rate (read and written together) our
rate of weights' bytes is a share of; `bf16` is our own product of the same sizes; `tuned` is the fastest of many plans
of a random problem (matmul.py). An operation with other weights is a row of OPERATIONS (serving_operations.py), and its
bars are rows of BARS, with the numbers of rows that are worth most first. Processes compile what cases need, while the
GPU measures those before them.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import contest
import matmul
import timing
from bars import Found, Row
from serving_operations import OPERATIONS, Operation

from minitile.ops.choice import choose
from minitile.ops.machine import Machine
from minitile.ops.multiply import machine_of_device
from minitile.ops.plan import Problem

TITLE = "Products of few rows: serving"
REMARKS = [
    "Speed as a share of each contender's, medians of ratios round by round; of `copy`: the weights' bytes per second "
    "as a share of a large copy's, read and written."
]
LAYERS = (  # N × K of the weights
    (6144, 4096),
    (4096, 4096),
    (28672, 4096),
    (4096, 14336),
    (10240, 8192),
    (8192, 28672),
    (24576, 1536),
    (32768, 512),
    (128256, 4096),
    (4099, 4097),
)
ROW_COUNTS = (1, 8, 16, 32, 48, 64, 96, 128, 160, 200, 256, 512, 1000, 4096)
FEW = (1, 2, 4, 8)  # rows that are held against the speed of memory
QUANTISED_ROWS = (16, 64, 256, 32, 128)
ROTATED = 256 << 20  # bytes
LARGE = 1 << 30  # bytes that the copy reads and writes
ROUNDS = 15
PROCESSES = 32  # at most, that compile
COLUMNS = 512  # of a result, checked against float64
MEMORY = 64 << 20  # bytes of weights from which on the bar of memory is the higher one


def cublas(x: Any, weights: tuple[Any, ...], out: Any) -> Any:
    import torch

    return torch.mm(x, weights[0].t(), out=out)


@dataclass(frozen=True)
class Case:
    """One number of rows of one layer, by an operation."""

    operation: str
    rows: int
    n: int
    k: int

    def __str__(self) -> str:
        kind = "" if self.operation == "bf16" else f"{self.operation} "
        return f"{kind}{self.rows} × {self.n}x{self.k}"


@dataclass(frozen=True)
class Bar:
    """`operation` on these rows of all layers (or those whose weights' bytes `layers` takes) against a contender."""

    name: str
    title: str
    bar: float
    goal: float
    operation: str
    rows: tuple[int, ...]
    against: str
    least: float | None = None
    layers: Callable[[int], bool] = lambda size: True


BARS = (
    *(Bar(f"cublas-{m}", f"{m} rows against cuBLAS", 1.05, 1.12, "bf16", (m,), "cublas", 0.94) for m in ROW_COUNTS),
    Bar(
        "memory-large",
        "1 to 8 rows, weights of 64 MB and more, of a copy's rate",
        0.90,
        0.97,
        "bf16",
        FEW,
        "copy",
        layers=lambda size: size >= MEMORY,
    ),
    Bar(
        "memory-small",
        "1 to 8 rows, smaller weights, of a copy's rate",
        0.75,
        0.97,
        "bf16",
        FEW,
        "copy",
        layers=lambda size: size < MEMORY,
    ),
    Bar("w4a16", "W4A16 against our bf16", 2.2, 3.0, "w4a16", (1, 16, 32, 8), "bf16"),
    Bar("fp8", "fp8 with block scales against our bf16", 1.5, 1.8, "fp8", QUANTISED_ROWS, "bf16"),
)
RANDOM = {f"random-{seed}": [f"random {seed}: {case}" for case in matmul.draw(30, seed)] for seed in (1, 2)}
CASES = {
    str(case): case
    for bar in BARS
    for m in bar.rows
    for n, k in LAYERS
    if bar.layers(2 * n * k)
    for case in [Case(bar.operation, m, n, k)]
}
ROWS = [
    Row(
        bar.name,
        bar.title,
        bar.bar,
        bar.goal,
        tuple(
            (str(Case(bar.operation, m, n, k)), bar.against)
            for m in bar.rows
            for n, k in LAYERS
            if bar.layers(2 * n * k)
        ),
        least=bar.least,
    )
    for bar in BARS
]
ROWS += [
    Row(
        name,
        f"30 random problems, {name[7:]}, of tuned",
        0.95,
        0.98,
        tuple((case, "tuned") for case in cases),
        least=0.0,
    )
    for name, cases in RANDOM.items()
]


CONTENDERS = {case: [other for row in ROWS for name, other in row.cells if name == case] for case in CASES}


@lru_cache(maxsize=64)
def layer(operation: str, n: int, k: int) -> list[tuple[Any, ...]]:
    """As many weights as fill more than ROTATED bytes."""
    made = OPERATIONS[operation]
    return [made.weights(n, k, seed) for seed in range(ROTATED // made.bytes(n, k) + 1)]


@lru_cache(maxsize=1)
def copy_of_large() -> Callable[[], Any]:
    """A copy that reads and writes LARGE bytes together."""
    import torch

    a, b = (torch.ones(LARGE // 2, dtype=torch.uint8, device="cuda") for _ in range(2))
    return contest.record(lambda: a.copy_(b), 1)[0]


def measure(name: str, against: Sequence[str]) -> Found:
    """The case `name`: how many times as fast we are, by contender, with the spread of our own times."""
    if name.startswith("random "):
        return measure_random(name)
    import torch

    case = CASES[name]
    compiled(case, against)
    sets, weights_bytes = layer(case.operation, case.n, case.k), OPERATIONS[case.operation].bytes(case.n, case.k)
    x = torch.randn((case.rows, case.k), device="cuda", dtype=torch.bfloat16)
    out = torch.empty((case.rows, case.n), device="cuda", dtype=torch.bfloat16)
    operation = OPERATIONS[case.operation]
    rows, exact = operation.rows(x)
    error = check(operation, rows, exact, sets[-1], out)
    batches = {"minitile": recorded(operation.launch, rows, sets, out)}
    counts = {"minitile": len(sets)}
    for contender in against:
        if contender == "copy":
            batches[contender], counts[contender] = copy_of_large(), 1
        else:
            others = layer("bf16", case.n, case.k)
            launch = cublas if contender == "cublas" else OPERATIONS[contender].launch
            batches[contender], counts[contender] = recorded(launch, x, others, out), len(others)
    times = timing.time_interleaved(batches, ROUNDS, 1)
    each = {contender: [t / counts[contender] for t in samples] for contender, samples in times.items()}
    ms, spread = statistics.median(each["minitile"]), timing.spread(each["minitile"])
    found: Found = {}
    for contender in against:
        share = timing.ratio(each["minitile"], each[contender])
        found[contender] = [share * weights_bytes / LARGE if contender == "copy" else share, spread]
    return {
        **found,
        "note": f"{ms * 1e3:.1f} µs, {weights_bytes / ms * 1e-6:.0f} GB/s, {plan(case)}, error {error:.0e}",
    }


def plan(case: Case) -> str:
    """The plan of our product."""
    if case.operation != "bf16":
        return str(OPERATIONS[case.operation].plan(case.rows, case.n, case.k, machine_of_device(0)))
    import torch

    import minitile as mt

    x, w = (
        torch.empty(shape, device="cuda", dtype=torch.bfloat16) for shape in ((case.rows, case.k), (case.n, case.k))
    )
    return str(mt.ops.plan_for(x, w.t()))


def unchanged(name: str, found: Found, machine: Machine | None = None) -> bool:
    """Whether the plan of a measured case is the one that is chosen now, by this machine's numbers (the device's)."""
    machine = machine or machine_of_device(0)
    if name.startswith("random "):
        case = matmul.Case.of(name.split(": ")[1].replace(" ", ":"))
        return found["note"].startswith(f"{choose(case.problem, machine, True, matmul.SHARED)};")
    if name not in CASES:
        return False
    of = CASES[name]
    if of.operation == "bf16":
        now = str(choose(Problem(of.rows, of.n, of.k, False, True), machine, True, matmul.SHARED))
    else:
        now = str(OPERATIONS[of.operation].plan(of.rows, of.n, of.k, machine))
    return f" GB/s, {now}, error" in found["note"]


def recorded(launch: Callable[[Any, Any, Any], Any], x: Any, sets: Sequence[Any], out: Any) -> Callable[[], Any]:
    """One launch with each of the weights, as a graph."""
    launch(x, sets[0], out)
    return contest.record(lambda: [launch(x, weights, out) for weights in sets], 1)[0]


def check(
    operation: Operation,
    x: Any,
    exact: Any,
    weights: tuple[Any, ...],
    out: Any,
    launch: Callable[[Any, Any, Any], Any] | None = None,
) -> float:
    """The relative error of a launch, all rows of some columns; raises contest.Wrong. Of the others, those far off.
    exact: the rows in float64. launch: instead of the operation's own."""
    import torch

    out.fill_(float("nan"))
    (launch or operation.launch)(x, weights, out)
    n = out.shape[1]
    columns = torch.linspace(0, n - 1, min(COLUMNS, n), device="cuda", dtype=torch.float64).round().long()
    error = contest.relative_error(out[:, columns], exact @ operation.exact(weights, columns).t())
    sums = out.float().sum(1)  # of all columns
    if not (error <= operation.bound and bool(torch.isfinite(sums).all())):
        raise contest.Wrong(f"relative error {error:.1e}, sums {sums[:4].tolist()}")
    if operation is OPERATIONS["bf16"]:
        elsewhere = contest.relative_error(out, torch.mm(x, weights[0].t()).float())
        if not elsewhere <= operation.bound:
            raise contest.Wrong(f"relative error {elsewhere:.1e} against torch's result")
    return error


# Compiling ahead -----------------------------------------------------------------------------------------------------

_jobs: dict[tuple[str, int, int, int], Any] = {}  # by operation and sizes


def ahead(cases: Sequence[str], seconds: float) -> None:
    """What bars.py is going to ask for, in its order: processes begin to compile it."""
    for case in (CASES[name] for name in cases if name in CASES):
        for operation in (case.operation, *CONTENDERS[str(case)]):
            key = operation, case.rows, case.n, case.k
            if operation in OPERATIONS and key not in _jobs:
                _jobs[key] = pool().submit(compile_one, *key, machine_of_device(0))


def compile_one(operation: str, m: int, n: int, k: int, machine: Machine) -> str:
    made = OPERATIONS[operation]
    return made.compile(m, n, k, made.plan(m, n, k, machine))


def compiled(case: Case, against: Sequence[str]) -> None:
    """Waits for what `ahead` has begun of a case. What could not be compiled is no matter of here: a launch says so."""
    for operation in (case.operation, *against):
        job = _jobs.get((operation, case.rows, case.n, case.k))
        if job is not None and (remark := job.exception() or job.result()):
            print(f"{case} {operation}: {remark}"[:200], flush=True)


# Random problems -----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def pool() -> Any:
    """Processes that compile."""
    import multiprocessing
    import os
    from concurrent.futures import ProcessPoolExecutor

    return ProcessPoolExecutor(min(PROCESSES, len(os.sched_getaffinity(0))), multiprocessing.get_context("spawn"))


def measure_random(name: str) -> Found:
    """A plain call against the fastest of many plans, chosen in other rounds than those that count."""
    case = matmul.Case.of(name.split(": ")[1].replace(" ", ":"))
    plans = matmul.plans(case.problem)
    list(pool().map(matmul._assemble, [(case, plan) for plan in plans], chunksize=2))
    a, b, c = matmul.operands(case)
    entries = contest.gather(
        {"minitile": lambda: matmul.minitile(a, b, c), "tuned": lambda: matmul.tuned(a, b, c, plans)}
    )
    verify = matmul.verifier(a, b)
    result = contest.hold(
        name, case.problem.flops, entries, verify, "tuned", lambda: c.fill_(float("nan")), ROUNDS, 1.5
    )
    rows = {row["contender"]: row for row in result.rows}
    ours, tuned = rows["minitile"], rows["tuned"]
    return {"tuned": [ours["of"]["tuned"], ours["spread"]], "note": f"{ours['config']}; tuned {tuned['config']}"}
