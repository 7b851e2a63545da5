"""What serving calls all day: products of 1 to 4096 rows by the weights of ten layers, beside cuBLAS and a large copy.

    python benchmarks/bars.py serving        the bars
    python benchmarks/bars.py serving --rows cublas-200 memory-large

A batch goes through copies of a layer's weights that fill more than ROTATED bytes, so that L2 (50 MB on an H200) does
not hold them, and is recorded in a CUDA graph. Contenders come in turn within each round; a ratio is the median over
the rounds. Results are checked first: all rows of some columns against float64, everything against torch.

Contenders: `cublas` is torch.mm; `copy` is a device copy of LARGE bytes, whose rate (read and written together) our
rate of weights' bytes is a share of; `bf16` is our own product of the same sizes; `tuned` is the fastest of many plans
of a random problem (matmul.py). An operation with other weights is a row of OPERATIONS, and its bars are rows of BARS.
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
QUANTISED_ROWS = (16, 32, 64, 128, 256)
ROTATED = 256 << 20  # bytes
LARGE = 1 << 30  # bytes that the copy reads and writes
ROUNDS = 15
COLUMNS = 512  # of a result, checked against float64
BOUND = 4e-3  # relative
MEMORY = 64 << 20  # bytes of weights from which on the bar of memory is the higher one


@dataclass(frozen=True)
class Operation:
    """How a product with weights of one kind is made and launched.

    weights(n, k, seed): what the layer holds, tensors. launch(x, weights, out): x is m × k bf16, out m × n bf16.
    exact(weights, columns): the weights that it stands for, float64, of these columns of the result, as they lie
    (columns × k). bytes(n, k): of the weights. bound: of the relative error.
    """

    weights: Callable[[int, int, int], tuple[Any, ...]]
    launch: Callable[[Any, tuple[Any, ...], Any], Any]
    exact: Callable[[tuple[Any, ...], Any], Any]
    bytes: Callable[[int, int], int]
    bound: float = BOUND


def random_weights(n: int, k: int, seed: int) -> tuple[Any, ...]:
    """Standard normal numbers, n × k."""
    import torch

    generator = torch.Generator("cuda").manual_seed(seed)
    return (torch.randn((n, k), device="cuda", generator=generator, dtype=torch.bfloat16),)


def multiply(x: Any, weights: tuple[Any, ...], out: Any) -> Any:
    import minitile as mt

    return mt.ops.matmul(x, weights[0].t(), out=out)


def cublas(x: Any, weights: tuple[Any, ...], out: Any) -> Any:
    import torch

    return torch.mm(x, weights[0].t(), out=out)


OPERATIONS: dict[str, Operation] = {
    "bf16": Operation(
        random_weights, multiply, lambda weights, columns: weights[0][columns].double(), lambda n, k: 2 * n * k
    ),
}


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
    Bar("fp8", "fp8 with block scales against our bf16", 1.5, 1.8, "fp8", QUANTISED_ROWS, "bf16"),
    Bar("w4a16", "W4A16 against our bf16", 2.2, 3.0, "w4a16", (1, 8, 16, 32), "bf16"),
)
RANDOM = {f"random-{seed}": [f"random {seed}: {case}" for case in matmul.draw(30, seed)] for seed in (1, 2)}
CASES = {
    str(case): case
    for bar in BARS
    if bar.operation in OPERATIONS
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
    if bar.operation in OPERATIONS
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
    sets, weights_bytes = layer(case.operation, case.n, case.k), OPERATIONS[case.operation].bytes(case.n, case.k)
    x = torch.randn((case.rows, case.k), device="cuda", dtype=torch.bfloat16)
    out = torch.empty((case.rows, case.n), device="cuda", dtype=torch.bfloat16)
    operation = OPERATIONS[case.operation]
    error = check(operation, x, sets[-1], out)
    batches = {"minitile": recorded(operation.launch, x, sets, out)}
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
    """The plan of our product, where the operation is a plain one."""
    if case.operation != "bf16":
        return case.operation
    import torch

    import minitile as mt

    x, w = (
        torch.empty(shape, device="cuda", dtype=torch.bfloat16) for shape in ((case.rows, case.k), (case.n, case.k))
    )
    return str(mt.ops.plan_for(x, w.t()))


def recorded(launch: Callable[[Any, Any, Any], Any], x: Any, sets: Sequence[Any], out: Any) -> Callable[[], Any]:
    """One launch with each of the weights, as a graph."""
    launch(x, sets[0], out)
    return contest.record(lambda: [launch(x, weights, out) for weights in sets], 1)[0]


def check(operation: Operation, x: Any, weights: tuple[Any, ...], out: Any) -> float:
    """The relative error of a launch, all rows of some columns; raises contest.Wrong. Of the others, those far off."""
    import torch

    out.fill_(float("nan"))
    operation.launch(x, weights, out)
    n = out.shape[1]
    columns = torch.linspace(0, n - 1, min(COLUMNS, n), device="cuda", dtype=torch.float64).round().long()
    error = contest.relative_error(out[:, columns], x.double() @ operation.exact(weights, columns).t())
    sums = out.float().sum(1)  # of all columns
    if not (error <= operation.bound and bool(torch.isfinite(sums).all())):
        raise contest.Wrong(f"relative error {error:.1e}, sums {sums[:4].tolist()}")
    if operation is OPERATIONS["bf16"]:
        elsewhere = contest.relative_error(out, torch.mm(x, weights[0].t()).float())
        if not elsewhere <= operation.bound:
            raise contest.Wrong(f"relative error {elsewhere:.1e} against torch's result")
    return error


# Random problems -----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def pool() -> Any:
    """Processes that compile."""
    import multiprocessing
    import os
    from concurrent.futures import ProcessPoolExecutor

    return ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn"))


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
