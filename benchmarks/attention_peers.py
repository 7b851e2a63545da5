"""The contenders of attention.py: O = softmax(Q · Kᵀ / √d) · V in bf16, forward, on tensors of (B, H, S, D).

- minitile: examples/attention.py, for the GPU's own target.
- mt.ops: mt.ops.attention by each plan of its table for the head dim, as many blocks as tiles, and persistent.
- cuDNN and FlashAttention-2: torch's scaled_dot_product_attention held to one backend.
- Triton: the fused attention of its tutorial: tiles through tensor descriptors; where causal, the blocks left of the
  diagonal first and without a mask.
- TileLang: the multi-head attention of its examples; and the same loop with the order and the stages of its statements
  written out, so that one block's weights are multiplied between the next block's scores and their softmax.

A contender is a function of the problem, its operands and all problems of the run; it yields entries.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from compilers import compile_ahead, compile_ours, example
from contest import Entry, Missing, each, synchronize


@dataclass(frozen=True)
class Attention:
    """Q, K, V and O are (b, h, s, d)."""

    b: int
    h: int
    s: int
    d: int
    causal: bool = False

    def __str__(self) -> str:
        return f"{self.b}x{self.h}x{self.s}x{self.d}{' causal' if self.causal else ''}"

    @property
    def flops(self) -> float:
        """Two multiplications; half of them where causal, as is usual."""
        return 4.0 * self.b * self.h * self.s * self.s * self.d / (2 if self.causal else 1)


@dataclass(frozen=True)
class Operands:
    """The tensors of a problem; every contender that can writes into `o`."""

    q: Any
    k: Any
    v: Any
    o: Any


@dataclass(frozen=True)
class Tiles:
    """Rows of Q and of K and V in a block's tile, stages of the pipeline, threads; whether TileLang's statements are
    scheduled by hand."""

    m: int
    n: int
    stages: int
    threads: int
    scheduled: bool = False

    def __str__(self) -> str:
        return f"{self.m}x{self.n}, {self.stages} stages, {self.threads} threads" + ", scheduled" * self.scheduled


Contender = Callable[[Attention, Operands, Sequence[Attention]], Iterator[Entry]]
OURS = (Tiles(128, 128, 2, 256), Tiles(128, 64, 2, 256), Tiles(128, 64, 3, 256))
TILELANG = (
    Tiles(128, 128, 1, 128),
    Tiles(128, 128, 2, 256),
    Tiles(128, 64, 2, 256),
    Tiles(128, 128, 2, 256, scheduled=True),
)
TRITON = (Tiles(128, 128, 2, 256), Tiles(128, 128, 3, 256), Tiles(128, 64, 3, 256), Tiles(64, 64, 3, 128))
LOG2_E = math.log2(math.e)


@cache
def our_kernel() -> Any:
    return example("attention").attention


def minitile(problem: Attention, operands: Operands, problems: Sequence[Attention]) -> Iterator[Entry]:
    kernel = our_kernel()
    tensors = operands.q, operands.k, operands.v, operands.o

    def build(tiles: Tiles) -> Entry:
        ours = compile_ours(
            kernel,
            tensors,
            D=problem.d,
            causal=problem.causal,
            block_M=tiles.m,
            block_N=tiles.n,
            num_stages=tiles.stages,
            threads=tiles.threads,
        )
        run = ours.compiled.prepare(*tensors)

        def launch() -> Any:
            run()
            return operands.o

        return Entry("minitile", str(tiles), launch, ours.facts, "", ours.seconds, ours.stages)

    return each("minitile", OURS, build)


def ready(problem: Attention, operands: Operands, problems: Sequence[Attention]) -> Iterator[Entry]:
    import minitile as mt
    from minitile.ops.attention_plans import candidates
    from minitile.target import parse_target

    q, k, v, o = operands.q, operands.k, operands.v, operands.o
    plans = candidates(problem.d, problem.d, problem.s, parse_target("auto"))

    def build(plan: Any) -> Entry:
        def launch() -> Any:
            return mt.ops.attention(q, k, v, causal=problem.causal, layout="bhsd", out=o, plan=plan)

        start = time.perf_counter()
        launch()
        synchronize()
        return Entry("mt.ops", str(plan), launch, {}, "", time.perf_counter() - start, "the first launch")

    both = [replace(plan, persistent=stays) for plan in plans for stays in (False, True)]
    return each("mt.ops", dict.fromkeys(both), build)


def torch_backend(backend: str, problem: Attention, operands: Operands) -> Callable[[], Any]:
    """The launch of torch's scaled_dot_product_attention on one backend alone."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    attend, only = torch.nn.functional.scaled_dot_product_attention, getattr(SDPBackend, backend)

    def launch() -> Any:
        with sdpa_kernel(only):
            return attend(operands.q, operands.k, operands.v, is_causal=problem.causal)

    return launch


def cudnn(problem: Attention, operands: Operands, problems: Sequence[Attention]) -> Iterator[Entry]:
    yield Entry("cudnn", "its own choice", torch_backend("CUDNN_ATTENTION", problem, operands))


def flash(problem: Attention, operands: Operands, problems: Sequence[Attention]) -> Iterator[Entry]:
    yield Entry("flash2", "torch's", torch_backend("FLASH_ATTENTION", problem, operands))


@cache
def triton_kernel() -> Any:
    global tl  # Triton looks names up in the module
    try:
        import triton
        import triton.language as tl
    except ImportError as error:
        raise Missing(f"not installed ({error})") from None

    @triton.jit
    def fused(
        q, k, v, o, scale, S, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr
    ):  # fmt: skip
        block = tl.program_id(0)
        start = tl.program_id(1) * S  # the first row of this head
        rows = block * BM + tl.arange(0, BM)
        queries = q.load([start + block * BM, 0])
        largest = tl.full((BM,), float("-inf"), tl.float32)
        total = tl.zeros((BM,), tl.float32)
        out = tl.zeros((BM, D), tl.float32)
        whole = S
        if CAUSAL:
            whole = block * BM
        for n in range(0, whole, BN):
            scores = tl.dot(queries, k.load([start + n, 0]).T)
            grown = tl.maximum(largest, tl.max(scores, 1) * scale)
            weights = tl.math.exp2(scores * scale - grown[:, None])
            shrink = tl.math.exp2(largest - grown)
            total = total * shrink + tl.sum(weights, 1)
            out = tl.dot(weights.to(tl.bfloat16), v.load([start + n, 0]), out * shrink[:, None])
            largest = grown
        if CAUSAL:
            for n in range(whole, whole + BM, BN):
                scores = tl.dot(queries, k.load([start + n, 0]).T) * scale
                seen = rows[:, None] >= n + tl.arange(0, BN)[None, :]
                scores = tl.where(seen, scores, -1.0e30)
                grown = tl.maximum(largest, tl.max(scores, 1))
                weights = tl.math.exp2(scores - grown[:, None])
                shrink = tl.math.exp2(largest - grown)
                total = total * shrink + tl.sum(weights, 1)
                out = tl.dot(weights.to(tl.bfloat16), v.load([start + n, 0]), out * shrink[:, None])
                largest = grown
        o.store([start + block * BM, 0], (out / total[:, None]).to(tl.bfloat16))

    return fused


def triton(problem: Attention, operands: Operands, problems: Sequence[Attention]) -> Iterator[Entry]:
    """S must be a multiple of the tiles: a descriptor's rows run on into the next head."""
    kernel = triton_kernel()
    from triton.tools.tensor_descriptor import TensorDescriptor

    flat = [t.view(-1, problem.d) for t in (operands.q, operands.k, operands.v, operands.o)]
    scale = LOG2_E / math.sqrt(problem.d)

    def build(tiles: Tiles) -> Entry:
        if problem.s % tiles.m or problem.s % tiles.n:
            return Entry("triton", str(tiles), None, failure=f"{problem.s} is no multiple of its tiles")
        heights = tiles.m, tiles.n, tiles.n, tiles.m
        q, k, v, o = (TensorDescriptor.from_tensor(t, [m, problem.d]) for t, m in zip(flat, heights, strict=True))
        grid = problem.s // tiles.m, problem.b * problem.h
        warps = tiles.threads // 32

        def launch() -> Any:
            kernel[grid](
                q, k, v, o, scale, problem.s, problem.d, tiles.m, tiles.n, problem.causal,
                num_warps=warps, num_stages=tiles.stages,
            )  # fmt: skip
            return operands.o

        start = time.perf_counter()
        launch()
        synchronize()
        return Entry("triton", str(tiles), launch, {}, "", time.perf_counter() - start, "the first launch")

    return each("triton", TRITON, build)


# The loop's statements below, in order: copy K, clear or mask, multiply, remember the maximum, clear it, find it,
# compare, shrink, exponentials, their sum, the total, weights, rescale, copy V, multiply. Of block j the scores come
# first, then what is left of block j − 1 (rescale and multiply), then the softmax of block j. TileLang 0.1.15 ignores
# the two lists where num_stages is given as well; without it the copies are cp.async and there are no warp roles.
ORDER = (0, 2, 3, 6, 7, 8, 9, 10, 11, 12, 13, 14, 4, 1, 5)
STAGE = (0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 1, 2)


def tilelang_program(problem: Attention, tiles: Tiles) -> Any:
    """TileLang's program for one problem; its sizes are fixed, as they are in TileLang's examples."""
    global T  # TileLang looks names up in the module
    import tilelang.language as T

    B, H, S, D, causal = problem.b, problem.h, problem.s, problem.d, problem.causal
    BM, BN = tiles.m, tiles.n
    scale = LOG2_E / math.sqrt(D)
    schedule = {"order": list(ORDER), "stage": list(STAGE)} if tiles.scheduled else {"num_stages": tiles.stages}

    @T.prim_func
    def attention(
        Q: T.Tensor((B, H, S, D), "bfloat16"),
        K: T.Tensor((B, H, S, D), "bfloat16"),
        V: T.Tensor((B, H, S, D), "bfloat16"),
        O: T.Tensor((B, H, S, D), "bfloat16"),  # noqa: E741 - its name in every paper
    ):
        with T.Kernel(T.ceildiv(S, BM), H, B, threads=tiles.threads) as (bx, by, bz):
            Q_shared = T.alloc_shared([BM, D], "bfloat16")
            K_shared = T.alloc_shared([BN, D], "bfloat16")
            V_shared = T.alloc_shared([BN, D], "bfloat16")
            O_shared = T.alloc_shared([BM, D], "bfloat16")
            scores = T.alloc_fragment([BM, BN], "float32")
            weights = T.alloc_fragment([BM, BN], "bfloat16")
            out = T.alloc_fragment([BM, D], "float32")
            largest = T.alloc_fragment([BM], "float32")
            before = T.alloc_fragment([BM], "float32")
            shrink = T.alloc_fragment([BM], "float32")
            row_sum = T.alloc_fragment([BM], "float32")
            total = T.alloc_fragment([BM], "float32")
            T.copy(Q[bz, by, bx * BM : (bx + 1) * BM, :], Q_shared)
            T.fill(out, 0)
            T.fill(total, 0)
            T.fill(largest, -T.infinity("float32"))
            blocks = T.min(T.ceildiv(S, BN), T.ceildiv((bx + 1) * BM, BN)) if causal else T.ceildiv(S, BN)
            for k in T.Pipelined(blocks, **schedule):
                T.copy(K[bz, by, k * BN : (k + 1) * BN, :], K_shared)
                if causal:
                    for i, j in T.Parallel(BM, BN):
                        scores[i, j] = T.if_then_else(bx * BM + i >= k * BN + j, 0, -T.infinity("float32"))
                else:
                    T.clear(scores)
                T.gemm(Q_shared, K_shared, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(largest, before)
                T.fill(largest, -T.infinity("float32"))
                T.reduce_max(scores, largest, dim=1, clear=False)
                for i in T.Parallel(BM):
                    largest[i] = T.max(largest[i], before[i])
                for i in T.Parallel(BM):
                    shrink[i] = T.exp2(before[i] * scale - largest[i] * scale)
                for i, j in T.Parallel(BM, BN):
                    scores[i, j] = T.exp2(scores[i, j] * scale - largest[i] * scale)
                T.reduce_sum(scores, row_sum, dim=1)
                for i in T.Parallel(BM):
                    total[i] = total[i] * shrink[i] + row_sum[i]
                T.copy(scores, weights)
                for i, j in T.Parallel(BM, D):
                    out[i, j] *= shrink[i]
                T.copy(V[bz, by, k * BN : (k + 1) * BN, :], V_shared)
                T.gemm(weights, V_shared, out, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(BM, D):
                out[i, j] /= total[i]
            T.copy(out, O_shared)
            T.copy(O_shared, O[bz, by, bx * BM : (bx + 1) * BM, :])

    return attention


_tilelang: dict[Any, tuple[Any, float | None, str]] = {}


def compile_tilelang(problems: Sequence[Attention], tiles: Sequence[Tiles] = TILELANG, timed: int = 2) -> None:
    """What `tilelang` launches, as compile_ahead does it."""
    options = {"pass_configs": {"tl.enable_fast_math": True}}  # as its example asks for
    _tilelang.update(compile_ahead([(p, t) for p in problems for t in tiles], tilelang_program, timed, **options))


def tilelang(problem: Attention, operands: Operands, problems: Sequence[Attention]) -> Iterator[Entry]:
    if not _tilelang:
        compile_tilelang(problems)

    def build(tiles: Tiles) -> Entry:
        kernel, seconds, reason = _tilelang[problem, tiles]

        def launch() -> Any:
            kernel(operands.q, operands.k, operands.v, operands.o)
            return operands.o

        return Entry("tilelang", str(tiles), launch if kernel else None, {}, reason, seconds, "")

    return each("tilelang", [tiles for tiles in TILELANG if (problem, tiles) in _tilelang], build)


CONTENDERS: dict[str, Contender] = {
    "minitile": minitile,
    "mt.ops": ready,
    "cudnn": cudnn,
    "flash2": flash,
    "triton": triton,
    "tilelang": tilelang,
}
