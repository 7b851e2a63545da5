"""mt.ops.attention in bf16 beside cuDNN: the bars, and what a first call costs.

    python benchmarks/bars.py attention                    all rows
    python benchmarks/bars.py attention --rows d64-causal  some

A case is B x H x S x D of q, k and v [B, H, S, D], with more where heads share keys (64/8: 64 heads of queries, 8 of
keys) or values have other dims (192/128). A call is the public one, with the plan that is chosen; `exact` and `stale`
name the plan's maxima (AttentionPlan.growth). Results are checked first: a sample of rows of a few heads against
float64, where our error may be no more than so many times cuDNN's, and all of it against cuDNN. Launches are recorded
in CUDA graphs and timed in turn; a ratio is the median over the rounds.

Contender: torch's scaled_dot_product_attention held to cuDNN, else, where that refuses a case, the first of torch's
own that takes it; the note says which. One row is beside TileLang, where that is installed; else it stays unmeasured.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import contest
import timing
from attention import exact
from bars import Found, Row

import minitile.language as T
from minitile.driver.jit import kernel

TITLE = "Attention forward, bf16"
REMARKS = ["Speed as a share of cuDNN's, medians of ratios round by round."]
DEVICE = "cuda"
ROUNDS = 15
BATCH_MS = 4.0
BOUND = 8e-3  # relative, of the whole result against the contender's
HEADS, ROWS_CHECKED = 4, 48  # of the sample
SETTLED = 1e-5  # a difference of errors that no row of few numbers tells
GROWTH = {"exact": 0.0, "stale": 8.0}
MOST_ERROR = {"exact": 1.05, "stale": 1.12, "": 1.12}  # times the contender's
COLD = "cold compile"
BACKENDS = ("CUDNN_ATTENTION", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "MATH")


@dataclass(frozen=True)
class Case:
    """q is (b, h, s, d), k (b, of_k, s, d), v (b, of_k, s, e). maxima: "exact", "stale" or "", the chosen plan's."""

    b: int
    h: int
    s: int
    d: int
    causal: bool
    of_k: int = 0
    e: int = 0
    maxima: str = ""

    def __str__(self) -> str:
        heads = f"{self.h}/{self.of_k}" if self.of_k else self.h
        dims = f"{self.d}/{self.e}" if self.e else self.d
        words = f"{self.b}x{heads}x{self.s}x{dims}", "causal" if self.causal else "full", self.maxima
        return " ".join(word for word in words if word)

    @property
    def flops(self) -> float:
        """Two multiplications, half of them where causal."""
        return 2.0 * self.b * self.h * self.s * self.s * (self.d + (self.e or self.d)) / (2 if self.causal else 1)


def _lengths(d: int, first: int, **more: Any) -> tuple[Case, ...]:
    """Full cases of 2^14 tokens in all, of 2048 elements each, from `first` on."""
    lengths = [1 << n for n in range(first, 15)]
    return tuple(Case((1 << 14) // s, 2048 // d, s, d, False, **more) for s in lengths)


def _causal(cases: Sequence[Case]) -> tuple[Case, ...]:
    return tuple(replace(case, causal=True) for case in cases)


def _row(name: str, title: str, bar: float, goal: float, cases: Sequence[Case]) -> Row:
    return Row(name, title, bar, goal, tuple((str(case), "cudnn") for case in cases))


EXACT, STALE = _lengths(128, 11, maxima="exact"), _lengths(128, 11, maxima="stale")
D64 = (Case(16, 16, 1024, 64, False), *_lengths(64, 11))
D96, D256 = ((Case(4, 16, 4096, d, False), Case(1, 16, 16384, d, False)) for d in (96, 256))
LATENT = (Case(4, 16, 4096, 192, False, e=128), Case(1, 16, 16384, 192, False, e=128))
GROUPS = (Case(8, 64, 1024, 128, True, of_k=8), Case(4, 64, 2048, 128, True, of_k=8))
_KINDS = {
    "d128": ("d128, 2k to 16k, full, exact maxima", 1.08, 1.12, EXACT),
    "d128-causal": ("d128, 2k to 16k, causal, exact maxima", 1.20, 1.30, _causal(EXACT)),
    "d128-stale": ("d128, 2k to 16k, full, stale maxima", 1.14, 1.20, STALE),
    "d128-stale-causal": ("d128, 2k to 16k, causal, stale maxima", 1.28, 1.35, _causal(STALE)),
    "d64": ("d64, 1k to 16k, full", 1.08, 1.20, D64),
    "d64-causal": ("d64, 1k to 16k, causal", 1.08, 1.20, _causal(D64)),
    "d96": ("d96, full and causal", 1.15, 1.25, (*D96, *_causal(D96))),
    "d256": ("d256, full", 1.06, 1.12, D256),
    "d256-causal": ("d256, causal", 1.12, 1.20, _causal(D256)),
    "latent": ("192/128, full and causal", 1.10, 1.20, (*LATENT, *_causal(LATENT))),
    "groups": ("64 heads of queries for 8 of keys, d128, causal", 1.15, 1.30, GROUPS),
}
ROWS = [_row(name, *kind) for name, kind in _KINDS.items()]
PEERS = {f"{case}, TileLang's": case for case in (Case(4, 16, 4096, 128, False), Case(4, 16, 4096, 128, True))}
_TILELANG = "d128, full and causal, beside TileLang's example at the best of three tiles"
ROWS.append(Row("tilelang", _TILELANG, 1.30, 1.45, tuple((name, "tilelang") for name in PEERS)))
ROWS.append(Row("cold", "seconds to compile d128, nothing cached", 0.5, 0.3, ((COLD, "seconds"),), at_most=True))
CASES = {str(case): case for *_, cases in _KINDS.values() for case in cases}


def measure(name: str, against: Sequence[str]) -> Found:
    """The case `name`: how many times as fast we are, with the spread of our own times. Raises contest.Wrong, Missing
    where the contender is not installed."""
    if name == COLD:
        return measure_cold()
    if name in PEERS:
        return measure_tilelang(PEERS[name])
    case = CASES[name]
    q, k, v = operands(case)
    backend, theirs = contender(case, q, k, v)
    plan, ours = public_call(case, q, k, v)
    errors = check(case, q, k, v, ours(), theirs())
    times = timed(case, {"minitile": ours, "cudnn": theirs})
    note = f"{tflops(case, times['minitile'])}, {plan}, error {errors[0]:.2e}, {backend}'s {errors[1]:.2e}"
    return {"cudnn": compared(times, "cudnn"), "note": note}


def measure_tilelang(case: Case) -> Found:
    """Beside the best of TileLang's example by three tiles (attention_peers.py)."""
    import torch
    from attention_peers import Operands, tilelang

    problems = peers()
    q, k, v = operands(case)
    plan, ours = public_call(case, q, k, v)
    _, reference = contender(case, q, k, v)
    given = Operands(q, k, v, torch.empty_like(q))
    launches = {"minitile": ours}
    for entry in tilelang(problems[list(PEERS.values()).index(case)], given, problems):
        if entry.launch is not None:
            launches[entry.config] = entry.launch
    if len(launches) == 1:
        raise contest.Missing("none of TileLang's kernels compiled")
    for launch in launches.values():
        check(case, q, k, v, launch(), reference())
    times = timed(case, launches)
    best = min(times.keys() - {"minitile"}, key=lambda name: statistics.median(times[name]))
    note = f"{tflops(case, times['minitile'])}, {plan}; TileLang's {tflops(case, times[best])}, {best}"
    return {"tilelang": compared(times, best), "note": note}


@cache
def peers() -> list[Any]:
    """The cases of PEERS as attention_peers.py has them, which TileLang has compiled by three tiles, all at once."""
    from attention_peers import TILELANG, Attention, compile_tilelang

    problems = [Attention(each.b, each.h, each.s, each.d, each.causal) for each in PEERS.values()]
    compile_tilelang(problems, [tiles for tiles in TILELANG if not tiles.scheduled], timed=0)
    return problems


def timed(case: Case, launches: Mapping[str, Callable[[], Any]]) -> dict[str, list[float]]:
    """Milliseconds of one launch, interleaved, by name."""
    count = max(1, min(50, round(BATCH_MS / (case.flops / 600e12 * 1e3))))
    batches = {name: contest.record(launch, count)[0] for name, launch in launches.items()}
    times = timing.time_interleaved(batches, ROUNDS, 1)
    return {name: [t / count for t in each] for name, each in times.items()}


def compared(times: Mapping[str, Sequence[float]], other: str) -> list[float]:
    """How many times as fast as the other we are, and the spread of our times."""
    return [timing.ratio(times["minitile"], times[other]), timing.spread(times["minitile"])]


def tflops(case: Case, times: Sequence[float]) -> str:
    return f"{case.flops / statistics.median(times) * 1e-9:.0f} TFLOP/s"


def operands(case: Case) -> tuple[Any, Any, Any]:
    """Random q, k and v, always the same."""
    import torch

    torch.manual_seed(0)
    sizes = (case.h, case.d), (case.of_k or case.h, case.d), (case.of_k or case.h, case.e or case.d)
    q, k, v = (torch.randn(case.b, h, case.s, d, device=DEVICE, dtype=torch.bfloat16) for h, d in sizes)
    return q, k, v


def public_call(case: Case, q: Any, k: Any, v: Any) -> tuple[str, Callable[[], Any]]:
    """The plan and the call."""
    import minitile as mt

    plan: Any = mt.ops.attention_plan_for(q, k, v, layout="bhsd", causal=case.causal)
    if case.maxima:
        plan = replace(plan, growth=GROWTH[case.maxima])
    given = plan if case.maxima else None
    return str(plan), lambda: mt.ops.attention(q, k, v, causal=case.causal, layout="bhsd", plan=given)


def contender(case: Case, q: Any, k: Any, v: Any) -> tuple[str, Callable[[], Any]]:
    """The first of BACKENDS that takes the case, by torch's name, and its call."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    attend = torch.nn.functional.scaled_dot_product_attention
    refusals = []
    for name in BACKENDS:

        def launch(name: str = name) -> Any:
            with sdpa_kernel(getattr(SDPBackend, name)):
                return attend(q, k, v, is_causal=case.causal, enable_gqa=bool(case.of_k))

        try:
            launch()
            return name.split("_")[0].lower().replace("cudnn", "cuDNN"), launch
        except RuntimeError as error:
            refusals.append(f"{name}: {contest.short(error)}")
    raise contest.Missing("; ".join(refusals))


def check(case: Case, q: Any, k: Any, v: Any, ours: Any, theirs: Any) -> tuple[float, float]:
    """The errors of both on a sample of rows, the first and the last among them; raises contest.Wrong."""
    import torch

    def spread(extent: int, count: int) -> Any:
        points = torch.linspace(0, extent - 1, min(count, extent), device=DEVICE, dtype=torch.float64)
        return points.round().long()

    group = case.h // (case.of_k or case.h)
    heads, rows = spread(case.b * case.h, HEADS), spread(case.s, ROWS_CHECKED)
    of_k = heads // case.h * (case.h // group) + heads % case.h // group
    sample = q.flatten(0, 1)[heads].double(), k.flatten(0, 1)[of_k].double(), v.flatten(0, 1)[of_k].double()
    wanted = exact(*sample, rows, case.causal)
    mine, other = (contest.relative_error(x.flatten(0, 1)[heads][:, rows], wanted) for x in (ours, theirs))
    elsewhere = contest.relative_error(ours, theirs.float())
    if not (mine <= MOST_ERROR[case.maxima] * other + SETTLED and elsewhere <= BOUND):
        raise contest.Wrong(f"relative error {mine:.3e} beside {other:.3e}, {elsewhere:.1e} against the other result")
    return mine, other


# A first call --------------------------------------------------------------------------------------------------------


def measure_cold() -> Found:
    """The longer one of full and causal, each the median of three processes with empty caches. A small kernel has been
    compiled before: imports are no part."""
    longest: list[float] = []
    for mask in ("full", "causal"):
        times = [_in_a_process(mask) for _ in range(3)]
        longest = max(longest, [statistics.median(times), (max(times) - min(times)) / 2 / statistics.median(times)])
    return {"seconds": longest, "note": "from the Python function to machine code"}


def _in_a_process(mask: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "MINITILE_CACHE_DIR": folder, "PYTHONPATH": str(Path(__file__).parents[1])}
        command = [sys.executable, __file__, mask]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return float(done.stdout)


@kernel
def doubled(X: T.Tensor(("N",), T.float32), Y: T.Tensor(("N",), T.float32)):
    """What is compiled first."""
    with T.Kernel(T.ceildiv(X.shape[0], 128), threads=128) as block:
        for i in T.Parallel(128):
            Y[block * 128 + i] = X[block * 128 + i] * 2


def compiled(case: Case, plan: Any, passes: Mapping[str, bool] | None = None, multiprocessors: int = 132) -> Any:
    """The kernel of a case by a plan, for sm_90a: as the public call compiles it for tensors of a GPU, whatever b."""
    import minitile as mt
    from minitile.ops.attention_op import kernel_of
    from minitile.ops.attention_plans import packed

    of_k, e = case.of_k or case.h, case.e or case.d
    group = case.h // of_k
    pack = plan.packed or packed(group, case.s, plan.block_M)

    def queries(d: int) -> Any:
        strides = (case.h * case.s * d, group * case.s * d, d, case.s * d, 1) if group > 1 else None
        return mt.spec(("B", of_k, case.s, group, d), "bfloat16", strides)

    k, v = (mt.spec(("B", of_k, case.s, d), "bfloat16") for d in (case.d, e))
    return kernel_of(plan).compile(
        queries(case.d), k, v, queries(e), *[None] * 4, 1.0, 1.0, 0, 0, 1, target="sm_90a", passes=passes,
        D=case.d, E=e, bounds=(False, case.causal), packed=pack, whole=group <= pack,
        **plan.parameters(multiprocessors),
    )  # fmt: skip


def cold(causal: bool) -> float:
    """Seconds that compiling the chosen plan for heads of 128 takes in this process."""
    import minitile as mt
    import minitile.ops.attention_op
    from minitile.ops.attention_plans import candidates
    from minitile.target import TARGETS

    x = mt.spec((256,), "float32")
    assert doubled.compile(x, x, target="sm_90a").binary
    case = Case(2, 16, 4096, 128, causal)
    plan = candidates(128, 128, case.s, TARGETS["sm_90a"], causal=causal)[0]
    start = time.perf_counter()
    assert compiled(case, plan).binary
    return time.perf_counter() - start


if __name__ == "__main__":
    print(cold(sys.argv[1] == "causal"))
