"""Attention forward in bf16 beside cuDNN, FlashAttention-2, Triton and TileLang, in one process on random data.

    PYTHONPATH=. python benchmarks/attention.py --out benchmarks/results/attention_h200
    PYTHONPATH=. python benchmarks/attention.py --cases 4x16x4096x128 --masks causal --contenders minitile cudnn

A case is B x H x S x D; the multiplications of a causal one count half. Every entry's result is checked before it is
timed: a sample of rows of a few heads against float64, all of it against torch. How entries are chosen and timed:
contest.py. `--out NAME` writes NAME.md, NAME.json and NAME.svg (report.py), the first two after each case.
`--reference DIR` times the hand-written texts of DIR too (handwritten.py); `--plot NAME.json` only draws.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import contest
import handwritten
import report
import timing
from attention_peers import CONTENDERS, Attention, Operands
from compilers import add_cases, fresh_caches, only_plots, options, run

SHAPES = ((4, 16, 4096, 128), (1, 16, 16384, 128), (4, 32, 4096, 64), (1, 32, 16384, 64))
DEVICE = "cuda"
BOUND = 8e-3  # the weights are rounded to bf16, and so is the result
HEADS, ROWS = 4, 48  # of the sample


def main() -> None:
    args = parse(None)
    if only_plots(args):
        return
    fresh_caches()
    problems = [Attention(*shape, mask == "causal") for shape in args.cases for mask in args.masks]
    page = report.Report("Attention forward, bf16", "cudnn", timing.machine())
    texts = handwritten.read(args.reference) if args.reference else {}
    run(problems, lambda problem: measure(problem, problems, args, texts, page), page, args.out)


def parse(words: list[str] | None) -> argparse.Namespace:
    parser = options("Attention forward side by side; TFLOP/s and ratios.", list(CONTENDERS), reference=True)
    add_cases(parser, parse_shape, SHAPES, "BxHxSxD")
    parser.add_argument("--masks", nargs="+", choices=("full", "causal"), default=["full", "causal"])
    return parser.parse_args(words)


def parse_shape(text: str) -> tuple[int, ...]:
    """ "4x16x4096x128"."""
    numbers = tuple(int(number) for number in text.split("x"))
    if len(numbers) != 4:
        raise argparse.ArgumentTypeError(f"{text}: BxHxSxD")
    return numbers


def measure(
    problem: Attention, problems: list[Attention], args: argparse.Namespace, texts: Any, page: report.Report
) -> None:
    """Adds one problem's rows to the page."""
    import torch

    torch.manual_seed(0)
    shape = problem.b, problem.h, problem.s, problem.d
    q, k, v = (torch.randn(*shape, device=DEVICE, dtype=torch.bfloat16) for _ in range(3))
    operands = Operands(q, k, v, torch.empty_like(q))

    def entries(make: Any) -> Any:
        return lambda: make(problem, operands, problems)

    contenders = {name: entries(CONTENDERS[name]) for name in args.contenders}
    if texts:
        contenders[handwritten.NAME] = lambda: handwritten.attention(texts, problem.causal, q, k, v, operands.o)
    found = contest.gather(contenders)
    page.compiled(found)
    result = contest.hold(
        str(problem), problem.flops, found, verifier(problem, operands), page.base,
        lambda: operands.o.fill_(math.nan), args.rounds, args.batch_ms,
    )  # fmt: skip
    page.add(str(problem), result)


def verifier(problem: Attention, operands: Operands) -> contest.Verify:
    """Against float64 on rows of a few heads, the first and the last among them, and against torch's own choice."""
    import torch

    def spread(extent: int, count: int) -> Any:
        points = torch.linspace(0, extent - 1, min(count, extent), device=operands.q.device, dtype=torch.float64)
        return points.round().long()

    heads, rows = spread(problem.b * problem.h, HEADS), spread(problem.s, ROWS)
    q, k, v = (t.flatten(0, 1)[heads].double() for t in (operands.q, operands.k, operands.v))
    expected = exact(q, k, v, rows, problem.causal)

    def take(o: Any) -> Any:
        return o.flatten(0, 1)[heads][:, rows]

    attend = torch.nn.functional.scaled_dot_product_attention
    whole = attend(operands.q, operands.k, operands.v, is_causal=problem.causal)
    return contest.checker(expected, take, whole, BOUND)


def exact(q: Any, k: Any, v: Any, rows: Any, causal: bool) -> Any:
    """These rows of softmax(q · kᵀ / √d) · v, for tensors (heads, s, d)."""
    import torch

    scores = q[:, rows] @ k.transpose(1, 2) / math.sqrt(q.shape[-1])
    if causal:
        unseen = torch.arange(k.shape[1], device=q.device)[None, :] > rows[:, None]
        scores = scores.masked_fill(unseen, -math.inf)
    return torch.softmax(scores, -1) @ v


if __name__ == "__main__":
    main()
