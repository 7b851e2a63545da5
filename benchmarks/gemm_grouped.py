"""Products of groups (mixture of experts) and of batches: mt.ops.grouped_matmul and mt.ops.matmul beside torch's.

    PYTHONPATH=. python benchmarks/gemm_grouped.py --out benchmarks/results/gemm_grouped_h200
    PYTHONPATH=. python benchmarks/gemm_grouped.py --cases rows:8x4096:4096x7168 masked-fp8:4x256:7168x2048 --rounds 9

A case is FORM:GROUPSxROWS:NxK; GROUPS~ROWS are groups of random sizes, so many rows on average, every fifth one empty.
B is G × N × K (each matrix of it column-major). The forms:

- rows: bf16, the groups' rows contiguous (torch._grouped_mm)
- masked: bf16, room for twice as many rows in each group as there are
- rows-fp8, masked-fp8: the same of e4m3, a scale for each 1 × 128 of A and 128 × 128 of B (DeepGEMM's form)
- batch: bf16, all groups alike: torch.bmm
- gradients: bf16, of the matrices of `rows`: N × rows times rows × K for each group (torch._grouped_mm)

"minitile" is a plain call, whose plan the model chose; "tuned" the fastest of several plans. "cublas" is a loop over
the groups, whose sizes the host must know for that: torch.mm, torch._scaled_mm; for batches it is torch.bmm. Every
result is checked before it is timed, on its groups' rows: a sample against float64, all against a product of torch. How
entries are chosen and timed: contest.py. What DeepGEMM published for fp8 stands above the tables: it is not run here.
"""

from __future__ import annotations

import argparse
import os
import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import contest
import report
import timing
from compilers import add_cases, only_plots, options, run
from contest import Entry, Missing, each
from gemm_peers import DEVICE

from minitile.ops.plan import Plan

FORMS = ("rows", "masked", "rows-fp8", "masked-fp8", "batch", "gradients")
SCALED = 128
BOUND = 5e-3  # bf16 results
SAMPLE = 8  # rows of each group
SHAPES = ("4x8192:4096x7168", "4x8192:7168x2048", "8x4096:4096x7168", "8x4096:7168x2048")
MASKED = tuple(f"{groups}:{nk}" for groups in ("1x1024", "2x512", "4x256") for nk in ("4096x7168", "7168x2048"))
CASES = (
    *(f"rows:{shape}" for shape in (*SHAPES, "16~1024:4096x7168", "64~256:7168x2048", "256~64:4096x2048")),
    *(f"rows-fp8:{shape}" for shape in (*SHAPES, "16~1024:4096x7168")),
    *(f"masked:{shape}" for shape in (*MASKED, "32~64:4096x7168")),
    *(f"masked-fp8:{shape}" for shape in (*MASKED, "32~64:4096x7168")),
    *(f"gradients:{shape}" for shape in (*SHAPES[:2], "16~1024:4096x7168")),
    "batch:16x2048:2048x2048",
    "batch:64x512:512x512",
    "batch:256x128:128x1024",
)
PEAK = 1979  # TFLOP/s of dense fp8, H100, H200 and H800 SXM (NVIDIA's data sheets)
# deepseek-ai/DeepGEMM, README.md of March 2025, "Grouped GEMMs for MoE models": TFLOP/s on an H800.
DEEPGEMM = {
    "rows-fp8:4x8192:4096x7168": 1297,
    "rows-fp8:4x8192:7168x2048": 1099,
    "rows-fp8:8x4096:4096x7168": 1288,
    "rows-fp8:8x4096:7168x2048": 1093,
    "masked-fp8:1x1024:4096x7168": 1233,
    "masked-fp8:1x1024:7168x2048": 925,
    "masked-fp8:2x512:4096x7168": 1040,
    "masked-fp8:2x512:7168x2048": 916,
    "masked-fp8:4x256:4096x7168": 932,
    "masked-fp8:4x256:7168x2048": 815,
}
_TWO, _ONE = Plan(128, 192, 64, 5, 256, 132, 8, teams=2), Plan(128, 256, 64, 4, 256, 132, 16)
PLANS = (
    _TWO,
    _TWO._replace(panel=16),
    _TWO._replace(block_N=128, stages=6),
    _ONE,
    Plan(256, 128, 64, 4, 256, 132, 8),
    Plan(64, 128, 64, 8, 256, 132, 8, teams=2),
)
PLANS_ALONG_K = (
    Plan(128, 128, 64, 5, 256, 132, 8, teams=2),
    Plan(128, 128, 64, 5, 256, 132, 16, teams=2),
    Plan(128, 256, 64, 3, 256, 132, 8),
    Plan(64, 128, 64, 6, 256, 132, 8, teams=2),
)
PLANS_FP8 = (
    Plan(128, 128, 128, 4, 256, 132, 8),
    Plan(128, 128, 128, 6, 256, 132, 8),
    Plan(192, 128, 128, 4, 384, 132, 8),
    Plan(64, 128, 128, 6, 256, 132, 8, teams=2),
    Plan(64, 128, 128, 8, 128, 132, 8),
)


@dataclass(frozen=True)
class Case:
    """The rows of each group times its n × k matrix, transposed."""

    form: str
    name: str
    sizes: tuple[int, ...]
    n: int
    k: int

    def __str__(self) -> str:
        return f"{self.form}:{self.name}:{self.n}x{self.k}"

    @property
    def flops(self) -> float:
        return 2.0 * sum(self.sizes) * self.n * self.k

    @property
    def masked(self) -> bool:
        return self.form.startswith("masked")

    @property
    def scaled(self) -> bool:
        return self.form.endswith("fp8")

    @property
    def room(self) -> int:
        """Rows of a group's place, of forms with three dimensions."""
        return self.sizes[0] if self.form == "batch" else 2 * max(self.sizes)


def parse_case(text: str) -> Case:
    """See the file's head."""
    try:
        form, groups, shape = text.split(":")
        even = "x" in groups
        count, rows = (int(x) for x in groups.split("x" if even else "~"))
        n, k = (int(x) for x in shape.split("x"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text}: FORM:GROUPSxROWS:NxK, or GROUPS~ROWS") from None
    if form not in FORMS or (form == "batch" and not even):
        raise argparse.ArgumentTypeError(f"{text}: the forms are {', '.join(FORMS)}; batches are even")
    return Case(form, groups, (rows,) * count if even else uneven(count, rows), n, k)


def uneven(count: int, mean: int, seed: int = 1) -> tuple[int, ...]:
    """Sizes of `mean` on average, exponentially distributed, every fifth of them 0; the same ones each time."""
    rng = random.Random(seed)
    shares = [0.0 if g % 5 == 4 else rng.expovariate(1.0) for g in range(count)]
    ends = [round(end / sum(shares) * count * mean) for end in accumulate(shares, initial=0.0)]
    return tuple(b - a for a, b in pairwise(ends))


@dataclass(frozen=True)
class Operands:
    """`parts`: of each group that has rows its number, and where its rows are in a and c (an index). `b` is G × N × K;
    scales as minitile takes them, None for bf16. Of gradients, a is N × rows and b rows × K; `parts` say where each
    group is in these, and c has its matrix by its number."""

    a: Any
    b: Any
    c: Any
    bounds: Any
    scales: tuple[Any, Any] | None
    parts: tuple[tuple[int, Any], ...]

    @property
    def turned(self) -> Any:
        return self.b.transpose(1, 2) if self.b.ndim == 3 else self.b

    def result(self, c: Any, part: tuple[int, Any]) -> Any:
        """A group's part of a result."""
        return c[part[1] if self.b.ndim == 3 else part[0]]


def random_operands(case: Case) -> Operands:
    """Standard normal matrices, the same ones each time; scales between 1/2 and 2. Where there are no rows, NaN."""
    import torch

    torch.manual_seed(0)
    count, steps = len(case.sizes), -(-case.k // SCALED)
    dtype = torch.float8_e4m3fn if case.scaled else torch.bfloat16
    flat = case.form.startswith("rows") or case.form == "gradients"
    lead = (sum(case.sizes),) if flat else (count, case.room)
    ends = torch.tensor(case.sizes).cumsum(0).tolist()
    a = torch.randn(*lead, case.k, device=DEVICE)
    b = torch.empty(0) if case.form == "gradients" else torch.randn(count, case.n, case.k, device=DEVICE).to(dtype)
    parts = tuple(
        (g, slice(end - size, end) if flat else (g, slice(0, size)))
        for g, (end, size) in enumerate(zip(ends, case.sizes, strict=True))
        if size
    )
    if not flat and case.form != "batch":
        for g, size in enumerate(case.sizes):
            a[g, size:] = float("nan")
    a = a.to(dtype)
    scales = None
    if case.scaled:
        of_a, of_b = (
            2.0 ** (2 * torch.rand(*shape, device=DEVICE) - 1)
            for shape in ((*lead[:-1], steps, lead[-1]), (count, -(-case.n // SCALED), steps))
        )
        scales = of_a.transpose(-1, -2), of_b.transpose(1, 2)
    if case.form == "gradients":
        a, b = torch.randn(*lead, case.n, device=DEVICE).to(dtype).t(), a
        c = torch.empty(count, case.n, case.k, device=DEVICE, dtype=dtype)
        return Operands(a, b, c, torch.tensor(ends, dtype=torch.int32, device=DEVICE), None, parts)
    bounds = torch.tensor(ends if flat else case.sizes, dtype=torch.int32, device=DEVICE)
    c = torch.empty(*lead, case.n, device=DEVICE, dtype=torch.bfloat16)
    return Operands(a, b, c, bounds, scales, parts)


def widened(operands: Operands, group: int, rows: Any, dtype: Any, sample: Any = slice(None)) -> tuple[Any, Any]:
    """A group's rows of A, or a sample of them, and its matrix, which is N × K, with their scales in them. Of
    gradients, the group's columns of A and its rows of B, turned."""
    if operands.b.ndim == 2:
        return operands.a[:, rows][sample].to(dtype), operands.b[rows].t().to(dtype)
    a, b = operands.a[rows][sample].to(dtype), operands.b[group].to(dtype)
    if operands.scales is not None:
        n, k = b.shape
        of_a, of_b = operands.scales[0][rows][sample].to(dtype), operands.scales[1][group].t().to(dtype)
        a = a * of_a.repeat_interleave(SCALED, 1)[:, :k]
        b = b * of_b.repeat_interleave(SCALED, 0)[:n].repeat_interleave(SCALED, 1)[:, :k]
    return a, b


def verifier(operands: Operands) -> contest.Verify:
    """A sample of each group's rows against float64, and all of them against torch's product in float32 (of bf16 in
    bf16)."""
    import torch

    expected, whole, where = [], [], []
    for part in operands.parts:
        size = operands.result(operands.c, part).shape[0]
        sample = torch.linspace(0, size - 1, min(SAMPLE, size), device=DEVICE, dtype=torch.float64).round().long()
        a, b = widened(operands, *part, torch.float32 if operands.scales is not None else torch.bfloat16)
        whole.append((a @ b.t()).to(torch.bfloat16))
        a, b = widened(operands, *part, torch.float64, sample)
        expected.append(a @ b.t())
        where.append(sample)

    def sampled(c: Any) -> Any:
        return torch.cat([operands.result(c, p)[sample] for p, sample in zip(operands.parts, where, strict=True)])

    verify = contest.checker(torch.cat(expected), lambda c: c[0], torch.cat(whole), BOUND)

    class Rows:
        """A result as the checker looks at it: the sample, or all rows."""

        def __init__(self, c: Any) -> None:
            self.c = c

        def __getitem__(self, _: int) -> Any:
            return sampled(self.c)

        def to(self, dtype: Any) -> Any:
            return torch.cat([operands.result(self.c, part) for part in operands.parts]).to(dtype)

    return lambda c: verify(Rows(c))


# Contenders -----------------------------------------------------------------------------------------------------------


def call(case: Case, operands: Operands, plan: Plan | None) -> Callable[[], Any]:
    """Our product into C, by a plan or the model's choice."""
    import minitile as mt

    a, b, c, bounds, scales = operands.a, operands.turned, operands.c, operands.bounds, operands.scales
    if case.form == "batch":
        return lambda: mt.ops.matmul(a, b, out=c, plan=plan)
    if case.masked:
        about = -(-sum(case.sizes) // len(case.sizes))
        return lambda: mt.ops.grouped_matmul(a, b, counts=bounds, scales=scales, out=c, expected=about, plan=plan)
    return lambda: mt.ops.grouped_matmul(a, b, bounds, scales=scales, out=c, plan=plan)


def minitile(case: Case, operands: Operands) -> Iterator[Entry]:
    import minitile as mt

    if case.form == "batch":
        name = "the model's choice"
    else:
        words = {"counts": operands.bounds, "expected": -(-sum(case.sizes) // len(case.sizes))}
        words = words if case.masked else {"offsets": operands.bounds}
        name = str(mt.ops.grouped_plan_for(operands.a, operands.turned, scales=operands.scales, **words))
    yield Entry("minitile", name, call(case, operands, None))


def tuned(case: Case, operands: Operands) -> Iterator[Entry]:
    """An entry for each plan; those that are too large for their groups by far are left out."""
    most = max(case.sizes)
    known: Sequence[Plan] = PLANS_FP8 if case.scaled else PLANS_ALONG_K if case.form == "gradients" else PLANS
    plans = [plan for plan in known if case.form == "gradients" or plan.block_M <= max(64, 2 * most)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # to compile on all cores
        list(pool.map(lambda plan: _quiet(call(case, operands, plan)), plans))
    return each("tuned", plans, lambda plan: Entry("tuned", str(plan), call(case, operands, plan)))


def _quiet(launch: Callable[[], Any]) -> None:
    """Whatever goes wrong here will again, where it is reported."""
    try:
        launch()
    except Exception:
        return


def cublas(case: Case, operands: Operands) -> Iterator[Entry]:
    """A product for each group, one after the other; of batches in one call."""
    import torch

    a, b, c = operands.a, operands.turned, operands.c
    if case.form == "batch":
        yield Entry("cublas", "torch.bmm", lambda: torch.bmm(a, b, out=c))
        return
    if operands.scales is None:
        if case.form == "gradients":
            pairs = [(a[:, rows], b[rows], c[group]) for group, rows in operands.parts]
        else:
            pairs = [(a[rows], b[group], c[rows]) for group, rows in operands.parts]

        def launch() -> Any:
            for left, right, result in pairs:
                torch.mm(left, right, out=result)
            return c

        yield Entry("cublas", "torch.mm for each group", launch)
        return
    of_a, of_b = operands.scales
    scaled = [
        (a[rows], b[group], of_a[rows].t().contiguous().t(), of_b[group], c[rows]) for group, rows in operands.parts
    ]

    def launch_scaled() -> Any:
        for left, right, scale_a, scale_b, result in scaled:
            torch._scaled_mm(
                left,
                right,
                scale_a=scale_a,
                scale_b=scale_b,
                out_dtype=torch.bfloat16,
                use_fast_accum=False,
                out=result,
            )
        return c

    yield Entry("cublas", "torch._scaled_mm for each group", launch_scaled)


def grouped_mm(case: Case, operands: Operands) -> Iterator[Entry]:
    import torch

    if case.form not in ("rows", "gradients"):
        raise Missing("torch._grouped_mm is for bf16, its rows contiguous")
    a, b, bounds = operands.a, operands.turned, operands.bounds
    yield Entry("grouped_mm", "torch._grouped_mm", lambda: torch._grouped_mm(a, b, offs=bounds))


CONTENDERS: dict[str, Callable[[Case, Operands], Iterator[Entry]]] = {
    "minitile": minitile,
    "tuned": tuned,
    "cublas": cublas,
    "grouped_mm": grouped_mm,
}


def measure(case: Case, args: argparse.Namespace, page: report.Report) -> None:
    """Adds one case's rows to the page."""
    operands = random_operands(case)

    def entries(make: Any) -> Any:
        return lambda: make(case, operands)

    found = contest.gather({name: entries(CONTENDERS[name]) for name in args.contenders})
    result = contest.hold(
        str(case), case.flops, found, verifier(operands), page.base,
        lambda: operands.c.fill_(float("nan")), args.rounds, args.batch_ms,
    )  # fmt: skip
    page.add(str(case), result)
    published = DEEPGEMM.get(str(case))
    ours = [row["tflops"] for row in result.rows if row["contender"] == report.OURS]
    if published and ours:
        page.remarks.append(
            f"{case}: minitile {ours[0]:.0f} TFLOP/s, {ours[0] / PEAK:.1%} of the peak of {PEAK}; DeepGEMM's README of "
            f"March 2025 has {published} on an H800, {published / PEAK:.1%}: {ours[0] / published:.2f} of that.  "
        )


def parse(words: list[str] | None) -> argparse.Namespace:
    parser = options("Products of groups and batches; TFLOP/s and ratios.", list(CONTENDERS))
    add_cases(parser, parse_case, map(parse_case, CASES), "FORM:GROUPSxROWS:NxK")
    return parser.parse_args(words)


def main() -> None:
    args = parse(None)
    if only_plots(args):
        return
    page = report.Report("GEMM of groups and of batches", "cublas", timing.machine())
    run(args.cases, lambda case: measure(case, args, page), page, args.out)


if __name__ == "__main__":
    main()
