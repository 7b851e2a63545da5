"""The contenders of gemm.py: C = A · B in bf16 by minitile, cuBLAS, Triton and TileLang, each at its best on the GPU.

- minitile: examples/gemm.py, the plain kernel, for the GPU's own target.
- persistent: examples/gemm_persistent.py, the same as a persistent kernel, one block for each multiprocessor; most
  with two teams of threads in each (ping-pong).
- swapped, split_k, stream_k: gemm_thin.py.
- one role: the plain kernel with warp_specialize=False, whose warps copy for themselves.
- cuBLAS: torch.mm.
- Triton: tiles loaded and stored through tensor descriptors (TMA); one tile a block, or persistent blocks as in its
  tutorial, in groups of 8 tile rows. Not with warp_specialize: Triton 3.6 compiles that for Hopper with 64 × 64 tiles
  and fails on larger ones.
- TileLang: the kernel of its examples, the same text as minitile's but for the result's way through shared memory.

A contender is a function of the problem, its operands and all problems of the run (so that a slow compiler can work
ahead on several cores); it yields entries. Their tiles are M × N × K, then come stages and threads.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from compilers import Ours, compile_ahead, compile_ours, example
from contest import Entry, Missing, Verify, checker, each, synchronize


@dataclass(frozen=True)
class Gemm:
    """A is m × k, C is m × n; B is n × k where `transposed` (NT), else k × n (NN)."""

    m: int
    n: int
    k: int
    transposed: bool = True

    def __str__(self) -> str:
        return f"{'NT' if self.transposed else 'NN'} {self.m}x{self.n}x{self.k}"

    @property
    def flops(self) -> float:
        return 2.0 * self.m * self.n * self.k


@dataclass(frozen=True)
class Operands:
    """The tensors of a problem; every contender that can writes into `c`."""

    a: Any
    b: Any
    c: Any


@dataclass(frozen=True)
class Tiles:
    """A block's tile, the stages of its pipeline (versions of the tiles in shared memory), its threads; the blocks are
    visited in panels of so many tiles (0: in the grid's own order). `teams`: of those threads, in persistent
    kernels."""

    m: int
    n: int
    k: int
    stages: int
    threads: int
    panel: int = 10
    teams: int = 1

    def __str__(self) -> str:
        teams = f", {self.teams} teams, panels of {self.panel}" if self.teams > 1 else ""
        return f"{self.m}x{self.n}x{self.k}, {self.stages} stages, {self.threads} threads{teams}"


DEVICE = "cuda"
BOUND = 4e-3  # bf16 results: half a unit in the last place of 8 bits, over random values
SAMPLE = 64  # rows
Contender = Callable[[Gemm, Operands, Sequence[Gemm]], Iterator[Entry]]
OURS = (Tiles(128, 256, 64, 4, 256), Tiles(256, 128, 64, 4, 256), Tiles(128, 128, 64, 4, 256))
TILELANG = (
    Tiles(128, 256, 64, 3, 256),
    Tiles(128, 128, 64, 3, 128),
    Tiles(256, 128, 64, 3, 256),
    Tiles(128, 256, 64, 4, 256),
)
PERSISTENT = (
    Tiles(128, 192, 64, 5, 256, 8, 2),
    Tiles(128, 192, 64, 5, 256, 12, 2),
    Tiles(128, 128, 64, 6, 256, 8, 2),
    Tiles(128, 128, 64, 6, 256, 12, 2),
    Tiles(128, 256, 64, 4, 256, 16),
    Tiles(128, 128, 64, 6, 256, 8),
)
THIN = (Tiles(64, 64, 128, 4, 128), Tiles(64, 128, 64, 4, 128), Tiles(128, 128, 64, 4, 256))  # few rows: for both
OUR_THIN = (*THIN, Tiles(128, 64, 64, 8, 256), Tiles(128, 64, 128, 4, 256), Tiles(64, 64, 64, 8, 128))
# Tile, stages, warps, whether blocks are persistent.
TRITON = (
    (128, 256, 64, 3, 8, False),
    (128, 128, 64, 4, 4, False),
    (128, 256, 64, 3, 8, True),
    (128, 128, 64, 3, 8, True),
    (128, 128, 64, 4, 4, True),
)
TRITON_THIN = ((64, 64, 128, 4, 4, False), (64, 128, 64, 4, 4, False), (128, 128, 64, 4, 4, False))


def parse_shape(text: str) -> tuple[int, ...]:
    """ "4096" or "8192x4096x1024"."""
    numbers = tuple(int(number) for number in text.split("x"))
    if len(numbers) not in (1, 3):
        raise argparse.ArgumentTypeError(f"{text}: M, or MxNxK")
    return numbers * 3 if len(numbers) == 1 else numbers


def random_operands(problem: Gemm) -> Operands:
    """Standard normal matrices, the same ones each time."""
    import torch

    torch.manual_seed(0)
    b_shape = (problem.n, problem.k) if problem.transposed else (problem.k, problem.n)
    shapes = (problem.m, problem.k), b_shape
    a, b = (torch.randn(*shape, device=DEVICE, dtype=torch.bfloat16) for shape in shapes)
    return Operands(a, b, torch.empty(problem.m, problem.n, device=DEVICE, dtype=torch.bfloat16))


def verifier(problem: Gemm, operands: Operands) -> Verify:
    """Against float64 on rows spread over C, the first and the last among them, and against cuBLAS."""
    import torch

    b = operands.b.t() if problem.transposed else operands.b
    count = min(SAMPLE, problem.m)
    rows = torch.linspace(0, problem.m - 1, count, device=b.device, dtype=torch.float64).round().long()
    expected = operands.a[rows].double() @ b.double()
    return checker(expected, lambda c: c[rows], operands.a @ b, BOUND)


def thin(problem: Gemm) -> bool:
    """Whether C has too few rows for the tiles that are best elsewhere."""
    return problem.m <= 128


@cache
def our_kernel(transposed: bool) -> Any:
    import minitile.language as T

    return example("gemm").make_gemm(T.bfloat16, T.float32, T.bfloat16, False, transposed)


_compiled: dict[Any, Ours] = {}


def minitile(problem: Gemm, operands: Operands, problems: Sequence[Gemm]) -> Iterator[Entry]:
    return ours("minitile", our_kernel(problem.transposed), OUR_THIN if thin(problem) else OURS, problem, operands)


def tma_multistage(problem: Gemm, operands: Operands, problems: Sequence[Gemm]) -> Iterator[Entry]:
    candidates = THIN if thin(problem) else OURS
    return ours("one role", our_kernel(problem.transposed), candidates, problem, operands, warp_specialize=False)


def persistent(problem: Gemm, operands: Operands, problems: Sequence[Gemm]) -> Iterator[Entry]:
    import torch

    blocks = torch.cuda.get_device_properties(DEVICE).multi_processor_count
    kernel = example("gemm_persistent").make_gemm_persistent(problem.transposed)
    return ours("persistent", kernel, PERSISTENT, problem, operands, blocks=blocks)


def ours(
    name: str, kernel: Any, candidates: Sequence[Tiles], problem: Gemm, operands: Operands, **constants: Any
) -> Iterator[Entry]:
    """One compiled kernel serves all sizes; it is specialised on what divides them."""
    a, b, c = operands.a, operands.b, operands.c
    divisors = tuple(math.gcd(n, 128) for n in (problem.m, problem.n, problem.k))

    def build(tiles: Tiles) -> Entry:
        key = name, problem.transposed, divisors, tiles
        if key not in _compiled:
            _compiled[key] = compile_ours(
                kernel,
                (a, b, c),
                block_M=tiles.m,
                block_N=tiles.n,
                block_K=tiles.k,
                num_stages=tiles.stages,
                threads=tiles.threads,
                panel=tiles.panel,
                **({"teams": tiles.teams} if "blocks" in constants else {}),
                **constants,
            )
        done = _compiled[key]
        run = done.compiled.prepare(a, b, c)

        def launch() -> Any:
            run()
            return c

        return Entry(name, str(tiles), launch, done.facts, "", done.seconds, done.stages)

    return each(name, candidates, build)


def cublas(problem: Gemm, operands: Operands, problems: Sequence[Gemm]) -> Iterator[Entry]:
    """torch.mm into C."""
    import torch

    a, c = operands.a, operands.c
    b = operands.b.t() if problem.transposed else operands.b
    yield Entry("cublas", "its own choice", lambda: torch.mm(a, b, out=c))


@cache
def triton_kernels() -> tuple[Any, Any]:
    """The kernel with a tile for each block, and the one with persistent blocks."""
    global tl  # Triton looks names up in the module
    try:
        import triton
        import triton.language as tl
    except ImportError as error:
        raise Missing(f"not installed ({error})") from None

    @triton.jit
    def one_tile(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
        tile = tl.program_id(0)
        rows = tl.cdiv(M, BM)
        group = GROUP * tl.cdiv(N, BN)
        first = tile // group * GROUP
        height = min(rows - first, GROUP)
        m = (first + tile % group % height) * BM
        n = tile % group // height * BN
        total = tl.zeros((BM, BN), tl.float32)
        for k in range(tl.cdiv(K, BK)):
            total = tl.dot(a.load([m, k * BK]), b.load([n, k * BK]).T, total)
        c.store([m, n], total.to(tl.bfloat16))

    @triton.jit
    def persistent(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
        rows = tl.cdiv(M, BM)
        columns = tl.cdiv(N, BN)
        group = GROUP * columns
        steps = tl.cdiv(K, BK)
        for tile in tl.range(tl.program_id(0), rows * columns, tl.num_programs(0), flatten=True):
            first = tile // group * GROUP
            height = min(rows - first, GROUP)
            m = (first + tile % group % height) * BM
            n = tile % group // height * BN
            total = tl.zeros((BM, BN), tl.float32)
            for k in range(steps):
                total = tl.dot(a.load([m, k * BK]), b.load([n, k * BK]).T, total)
            c.store([m, n], total.to(tl.bfloat16))

    return one_tile, persistent


def triton(problem: Gemm, operands: Operands, problems: Sequence[Gemm]) -> Iterator[Entry]:
    """NT only."""
    one_tile, persistent = triton_kernels()
    import torch
    from triton.tools.tensor_descriptor import TensorDescriptor

    processors = torch.cuda.get_device_properties(operands.a.device).multi_processor_count

    def build(config: tuple[int, int, int, int, int, bool]) -> Entry:
        m, n, k, num_stages, warps, stays = config
        tiles = -(-problem.m // m) * -(-problem.n // n)
        grid = (min(tiles, processors) if stays else tiles,)
        a = TensorDescriptor.from_tensor(operands.a, [m, k])
        b = TensorDescriptor.from_tensor(operands.b, [n, k])
        c = TensorDescriptor.from_tensor(operands.c, [m, n])
        kernel = persistent if stays else one_tile

        def launch() -> Any:
            kernel[grid](a, b, c, problem.m, problem.n, problem.k, m, n, k, 8, num_warps=warps, num_stages=num_stages)
            return operands.c

        start = time.perf_counter()
        launch()
        synchronize()
        seconds = time.perf_counter() - start
        name = f"{m}x{n}x{k}, {num_stages} stages, {warps * 32} threads{', persistent' if stays else ''}"
        return Entry("triton", name, launch, {}, "", seconds, "the first launch")

    return each("triton", TRITON_THIN if thin(problem) else TRITON, build)


def tilelang_program(problem: Gemm, tiles: Tiles) -> Any:
    """TileLang's program for one problem; its sizes are fixed, as they are in TileLang's examples."""
    global T  # TileLang looks names up in the module
    import tilelang.language as T

    M, N, K = problem.m, problem.n, problem.k
    BM, BN, BK = tiles.m, tiles.n, tiles.k

    @T.prim_func
    def matmul(A: T.Tensor((M, K), "bfloat16"), B: T.Tensor((N, K), "bfloat16"), C: T.Tensor((M, N), "bfloat16")):
        with T.Kernel(T.ceildiv(N, BN), T.ceildiv(M, BM), threads=tiles.threads) as (bx, by):
            A_shared = T.alloc_shared((BM, BK), "bfloat16")
            B_shared = T.alloc_shared((BN, BK), "bfloat16")
            C_local = T.alloc_fragment((BM, BN), "float32")
            C_shared = T.alloc_shared((BM, BN), "bfloat16")
            T.use_swizzle(10)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, BK), num_stages=tiles.stages):
                T.copy(A[by * BM, k * BK], A_shared)
                T.copy(B[bx * BN, k * BK], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            T.copy(C_local, C_shared)
            T.copy(C_shared, C[by * BM, bx * BN])

    return matmul


def tilelang_tiles(problem: Gemm) -> Sequence[Tiles]:
    return THIN if thin(problem) else TILELANG


_tilelang: dict[Any, tuple[Any, float | None, str]] = {}


def tilelang(problem: Gemm, operands: Operands, problems: Sequence[Gemm]) -> Iterator[Entry]:
    """NT only."""
    if not _tilelang:
        wanted = [(p, tiles) for p in problems if p.transposed for tiles in tilelang_tiles(p)]
        _tilelang.update(compile_ahead(wanted, tilelang_program))

    def build(tiles: Tiles) -> Entry:
        kernel, seconds, reason = _tilelang[problem, tiles]

        def launch() -> Any:
            kernel(operands.a, operands.b, operands.c)
            return operands.c

        return Entry("tilelang", str(tiles), launch if kernel else None, {}, reason, seconds, "")

    return each("tilelang", tilelang_tiles(problem), build)


CONTENDERS: dict[str, Contender] = {
    "minitile": minitile,
    "one role": tma_multistage,
    "persistent": persistent,
    "cublas": cublas,
    "triton": triton,
    "tilelang": tilelang,
}
NT_ONLY = ("triton", "tilelang")
