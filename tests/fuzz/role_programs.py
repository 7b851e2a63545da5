"""Random kernels whose warpgroups have explicit roles (`T.ws`): a ring of slots between one that brings tiles and
others that work on them.

`write(seed)` gives a `Program`. Tiles come by TMA or by the threads of their role; they are multiplied, at once or
with a product left in flight, or read element by element, or both; blocks have one tile of the result, or go through
several with the ring running on; results leave from registers, or through shared memory, by TMA or not. Numbers are
small integers, so NumPy's result is exact. Nothing here says which fences the handovers need: the compiler must.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np

import minitile as mt
from tests.fuzz.tile_programs import SCHEDULES, load_text


@dataclass(frozen=True)
class Program:
    """`text` defines `kernel`(A, B, C): C = A · B, and to each element `extra` times the sum of what A holds in the
    first column of each of its blocks of `inner` columns."""

    text: str
    m: int
    n: int
    k: int
    inner: int
    products: bool
    extra: int
    element: object


def write(seed: int) -> Program:
    rng = random.Random(f"roles {seed}")
    pick = rng.choice
    teams = pick((1, 1, 2))
    rows, columns, inner = 64 * teams, pick((16, 32, 64)), pick((16, 32, 64))
    stages, element = pick((1, 2, 2, 3, 4)), pick(("bfloat16", "float16"))
    work = pick(("gemm", "gemm", "in flight", "read", "both"))
    by_threads = pick((None, None, None, "A", "B"))  # the tile that the role's threads bring
    last = pick((False, False, True))  # which role comes last
    arrivals = pick((1, 128)) if by_threads is None else 128  # who says that a slot is full
    tiles_each = pick((1, 1, 2, 3))
    leaves = pick(("registers", "shared", "engine"))
    m, n = pick((rows, rows - 24, rows + 40)), pick((columns, columns + 8, 3 * columns))
    k = pick((inner, 2 * inner, 3 * inner + 8, 5 * inner))
    bringer, workers = (teams, tuple(range(teams))) if last else (0, tuple(range(1, teams + 1)))
    lines: list[str] = []

    def put(indent: int, *more: str) -> None:
        lines.extend("    " * indent + line for line in more)

    put(
        0,
        "import minitile.language as T",
        "",
        f"BM, BN, BK, S, EACH = {rows}, {columns}, {inner}, {stages}, {tiles_each}",
        "",
        "",
        "def kernel(",
        f'    A: T.Tensor(("M", "K"), T.{element}),',
        f'    B: T.Tensor(("K", "N"), T.{element}),',
        '    C: T.Tensor(("M", "N"), T.float32),',
        "):",
    )
    put(1, "M, K = A.shape", "N = B.shape[1]", "across = T.ceildiv(N, BN)", "tiles = across * T.ceildiv(M, BM)")
    put(1, f"with T.Kernel(T.ceildiv(tiles, EACH), threads={128 * (teams + 1)}) as block:")
    put(
        2,
        "A_shared = T.alloc_shared((S, BM, BK), A.dtype)",
        "B_shared = T.alloc_shared((S, BK, BN), A.dtype)",
        "C_shared = T.alloc_shared((BM, BN), C.dtype)",
        "C_local = T.alloc_fragment((BM, BN), T.float32)",
        f"full = T.alloc_barrier([{arrivals}] * S)",
        f"free = T.alloc_barrier([{128 * teams}] * S)",
        "trips = T.ceildiv(K, BK)",
        f"with T.ws({bringer}):",
    )

    def over_tiles() -> int:
        if tiles_each == 1:
            put(3, "by, bx, first = block // across, block % across, 0")
            return 3
        put(3, "for t in range(T.min(EACH, tiles - block * EACH)):")
        put(4, "by, bx = (block * EACH + t) // across, (block * EACH + t) % across", "first = t * trips")
        return 4

    at = over_tiles()
    put(at, "for ko in range(trips):")
    put(at + 1, "slot, turn = (first + ko) % S, (first + ko) // S % 2", "T.barrier_wait(free[slot], turn ^ 1)")
    for name, where, shape in (("A", "by * BM, ko * BK", "BM, BK"), ("B", "ko * BK, bx * BN", "BK, BN")):
        if by_threads == name:
            first, second = (each.strip() for each in where.split(","))
            put(at + 1, f"for i, j in T.Parallel({shape}):")
            put(at + 2, f"{name}_shared[slot, i, j] = {name}[{first} + i, {second} + j]")
        else:
            put(at + 1, f"T.tma_copy({name}[{where}], {name}_shared[slot, :, :], barrier=full[slot])")
    if arrivals == 1:  # for all: a warp that has not come so far could miss a whole round of `free`
        put(at + 1, "T.sync_threads()", "if T.shuffle_elect(128):")
        put(at + 2, "T.barrier_arrive(full[slot])")
    else:
        put(at + 1, "T.barrier_arrive(full[slot])")

    put(2, f"with T.ws({', '.join(map(str, workers))}):")
    at = over_tiles()
    put(at, "T.clear(C_local)", "for ko in range(trips):")
    put(at + 1, "slot, turn = (first + ko) % S, (first + ko) // S % 2", "T.barrier_wait(full[slot], turn)")
    product = "(A_shared[slot, :, :], B_shared[slot, :, :], C_local)"
    if work in ("read", "both"):
        put(at + 1, "for i, j in T.Parallel(BM, BN):")
        put(at + 2, "C_local[i, j] += T.cast(A_shared[slot, i, 0], T.float32)")
    if work == "in flight" and stages > 1:
        put(at + 1, f"T.wgmma_gemm{product}", "T.wait_wgmma(1)", "if ko > 0:")
        put(at + 2, "T.barrier_arrive(free[(first + ko - 1) % S])")
        put(at, "T.wait_wgmma(0)", "if trips > 0:")
        put(at + 1, "T.barrier_arrive(free[(first + trips - 1) % S])")
    else:
        if work != "read":
            put(at + 1, f"T.gemm{product}")
        put(at + 1, "T.barrier_arrive(free[slot])")
    if leaves == "registers":
        put(at, "T.copy(C_local, C[by * BM, bx * BN])")
    else:
        put(at, *(["T.tma_store_wait(0)"] if leaves == "engine" else []), "T.copy(C_local, C_shared)")
        put(at, f"T.{'tma_copy' if leaves == 'engine' else 'copy'}(C_shared, C[by * BM, bx * BN])")
    number = ml_dtypes.bfloat16 if element == "bfloat16" else np.float16
    return Program("\n".join([*lines, ""]), m, n, k, inner, work != "read", int(work in ("read", "both")), number)


def check(program: Program, schedules: Sequence[tuple[str, int]] = SCHEDULES) -> mt.CompiledKernel:
    """Raises what goes wrong: a finding as mt.RaceError or mt.SimulationError, another result as AssertionError."""
    rng = np.random.default_rng(program.m * program.k + program.n)
    a = rng.integers(-2, 3, (program.m, program.k)).astype(program.element)
    b = rng.integers(-2, 3, (program.k, program.n)).astype(program.element)
    wide = a.astype(np.float64)
    expected = wide @ b.astype(np.float64) * program.products
    expected += program.extra * wide[:, :: program.inner].sum(axis=1, keepdims=True)
    with tempfile.TemporaryDirectory() as folder:
        kernel = load_text(program.text, Path(folder))
        compiled = kernel.compile(a, b, np.zeros(expected.shape, np.float32), target="sm_90a")
        for schedule, seed in schedules:
            c = np.full(expected.shape, np.nan, np.float32)
            compiled.simulate(a, b, c, schedule=schedule, seed=seed)
            np.testing.assert_array_equal(c, expected, err_msg=schedule)
        return compiled
