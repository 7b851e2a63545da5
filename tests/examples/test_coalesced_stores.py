"""Coalesced stores of fragments, row by row through shared memory: on sm_80, and on sm_90a where TMA cannot store.

Rows of any length, results of 1, 2 and 4 bytes, all schedules, every access checked, nothing outside of the tensor
touched. (test_mutations.py takes the barriers away.) With MINITILE_GPU=1 the same kernels run on the GPU.
"""

from __future__ import annotations

import re

import gemm
import ml_dtypes
import numpy as np
import pytest
from support import USE_GPU, on_device, on_host, random

import minitile as mt
import minitile.language as T

BF16 = ml_dtypes.bfloat16
E4M3 = ml_dtypes.float8_e4m3fn
RESULTS = {
    "e4m3": (T.float8_e4m3fn, E4M3, 5e-2),
    "bf16": (T.bfloat16, BF16, 4e-3),
    "f16": (T.float16, np.float16, 5e-4),
    "f32": (T.float32, np.float32, 1e-6),
}
TILES = {"block_M": 64, "block_N": 64, "block_K": 64, "num_stages": 2, "threads": 128}
TARGETS = ("sm_80", "sm_90a")
EDGE = 64  # elements around a result


def close(got, exact, bound: float) -> bool:
    return bool(np.linalg.norm(got.astype(np.float64) - exact) <= bound * max(np.linalg.norm(exact), 1e-30))


class Result:
    """A matrix of NaN inside of more of it."""

    def __init__(self, m: int, n: int, element) -> None:
        self.around = np.full(2 * EDGE + m * n, np.nan, element)
        self.matrix = self.around[EDGE : EDGE + m * n].reshape(m, n)

    def untouched(self) -> bool:
        edges = self.around[:EDGE], self.around[-EDGE:]
        return all(np.isnan(edge.astype(np.float32)).all() for edge in edges)


def launch(function, arrays, result: Result, target: str, schedule: str = "lazy", **tiles) -> mt.CompiledKernel:
    """Run the kernel, which writes `result`. What its code is."""
    kernel = function.compile(*arrays, result.matrix, target=target, **tiles)
    if not USE_GPU:
        kernel.simulate(*arrays, result.matrix, schedule=schedule, seed=1)
        return kernel
    if schedule != "lazy" or target != "sm_90a":
        pytest.skip("a GPU has a schedule and a target of its own")
    around = on_device(result.around)
    there = around[EDGE : EDGE + result.matrix.size].reshape(result.matrix.shape)
    function(*map(on_device, arrays), there, **tiles)
    result.around[...] = on_host(around)
    return kernel


def multiply(m, n, result: str, target: str, k: int = 64, make=gemm.make_gemm, schedule="lazy", **tiles):
    """A GEMM whose result is right, compiled for the target."""
    dtype, element, bound = RESULTS[result]
    rng = np.random.default_rng(0)
    a, b = random(rng, (m, k), BF16), random(rng, (n, k), BF16)
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    c = Result(m, n, element)
    kernel = launch(make(T.bfloat16, T.float32, dtype, False, True), (a, b), c, target, schedule, **{**TILES, **tiles})
    assert close(c.matrix, exact, bound)
    assert c.untouched()
    return kernel


def stores(kernel: mt.CompiledKernel) -> list[str]:
    """The kinds of its stores to tensors, and how many of each."""
    found = re.findall(r"st\.global\.(\S+) ", kernel.asm["ptx"])
    return sorted(f"{found.count(kind)} {kind}" for kind in set(found))


@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.parametrize(("m", "n", "schedule"), [(1, 1, "lazy"), (17, 17, "eager"), (67, 133, "random")])
def test_odd_rows(m, n, result, schedule):
    """One element at a time, of as many rows as there must be: a thread has 32 of a tile, and neighbours have
    neighbours."""
    kernel = multiply(m, n, result, "sm_90a", schedule=schedule)
    assert stores(kernel) == [f"32 {'f32' if result == 'f32' else 'u8' if result == 'e4m3' else 'b16'}"]
    assert "ld.shared" in kernel.asm["ptx"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("result", "n", "wanted"),
    [
        ("bf16", 2413, "32 b16"),
        ("bf16", 134, "16 b32"),
        ("bf16", 132, "8 v2.b32"),
        ("f32", 133, "32 f32"),
        ("e4m3", 136, "4 v2.b32"),
        ("e4m3", 134, "16 b16"),
    ],
)
def test_as_wide_as_rows_allow(target, result, n, wanted):
    assert stores(multiply(70, n, result, target)) == [wanted]


def test_full_sectors_are_stored_as_they_are():
    """Four lanes with 8 bytes each fill a sector: no detour."""
    kernel = multiply(70, 134, "f32", "sm_80")
    assert stores(kernel) == ["16 v2.f32"]
    assert "ld.shared" not in kernel.asm["ptx"]


def test_sixteen_bytes_on_sm_80():
    """Where there is no TMA, also rows of whole 16 bytes, in the bytes that the operands have had."""
    kernel = multiply(70, 136, "bf16", "sm_80")
    assert stores(kernel) == ["4 v4.b32"]
    assert kernel.launch_info.dynamic_shared == 2 * 2 * 64 * 64 * 2


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "tiles",
    [
        {"block_M": 128, "block_N": 32, "threads": 256},
        {"block_M": 128, "block_N": 32, "threads": 128},  # a warp's rows in two places
        {"block_M": 64, "block_N": 40},  # rows of 80 bytes, no swizzle
        {"block_M": 64, "block_N": 8},
    ],
)
def test_tiles(target, tiles):
    if target == "sm_80" and tiles["block_N"] == 40:
        tiles = {**tiles, "block_N": 48}
    kernel = multiply(131, 37, "bf16", target, schedule="random", **tiles)
    assert stores(kernel) == [f"{tiles['block_M'] * tiles['block_N'] // tiles.get('threads', 128)} b16"]
    assert kernel.spills in (0, None)


@pytest.mark.parametrize("target", TARGETS)
def test_warps_meet_by_themselves(target):
    """Between the blocks of a tile no barrier of many threads."""
    text = multiply(64, 133, "bf16", target, block_N=128).asm["ptx"]
    behind = text[text.index("ld.shared.b16") :]
    blocks = 4  # a warp has 16 rows of 128 columns or 32 of 64, and stages 8 of 64 at a time
    assert behind.count("bar.warp.sync") == 2 * (blocks - 1)  # each is written when the last one is read, and then read
    assert behind.count("bar.sync") == 0


@pytest.mark.parametrize(("teams", "schedule"), [(1, "lazy"), (2, "random"), (2, "eager")])
def test_blocks_that_stay(teams, schedule):
    tiles = {"block_M": 128, "block_N": 64, "threads": 256, "blocks": 2, "teams": teams}
    kernel = multiply(300, 133, "bf16", "sm_90a", make=lambda *_: persistent, schedule=schedule, **tiles)
    assert "cp.async.bulk.tensor.2d.global" not in kernel.asm["ptx"]
    assert "ld.shared.b16" in kernel.asm["ptx"]


@mt.kernel
def persistent(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.bfloat16),
    block_M=128,
    block_N=64,
    block_K=64,
    num_stages=2,
    threads=256,
    blocks=2,
    teams=1,
):
    M, K = A.shape
    N = B.shape[0]
    with T.Kernel(blocks, threads=threads) as block:
        A_shared = T.alloc_shared((block_M, block_K), A.dtype)
        B_shared = T.alloc_shared((block_N, block_K), B.dtype)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        domain = [T.ceildiv(M, block_M), T.ceildiv(N, block_N)]
        for by, bx in T.Persistent(domain, blocks, block, teams=teams):
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[bx * block_N, k * block_K], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            T.copy(C_local, C[by * block_M, bx * block_N])


@mt.kernel
def elementwise(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.bfloat16),
    turned=False,
    masked=False,
):
    """What T.Parallel stores: the product; with `turned` that of B and A, and with `masked` where it is positive."""
    M, K = A.shape
    N = B.shape[0]
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (bx, by):
        A_shared = T.alloc_shared((64, 64), A.dtype)
        B_shared = T.alloc_shared((64, 64), B.dtype)
        C_local = T.alloc_fragment((64, 64), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, 64), num_stages=2):
            T.copy(A[by * 64, k * 64], A_shared)
            T.copy(B[bx * 64, k * 64], B_shared)
            if turned:
                T.gemm(B_shared, A_shared, C_local, transpose_B=True)
            else:
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
        if turned:
            for j, i in T.Parallel(64, 64):
                C[by * 64 + i, bx * 64 + j] = C_local[j, i]
        else:
            for i, j in T.Parallel(64, 64):
                if not masked or C_local[i, j] > 0:
                    C[by * 64 + i, bx * 64 + j] = C_local[i, j]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("turned", [False, True])
def test_element_by_element(target, turned):
    rng = np.random.default_rng(1)
    a, b = random(rng, (70, 72), BF16), random(rng, (133, 72), BF16)
    c = Result(70, 133, BF16)
    kernel = launch(elementwise, (a, b), c, target, turned=turned)
    assert close(c.matrix, a.astype(np.float64) @ b.astype(np.float64).T, 4e-3)
    assert c.untouched()
    assert "ld.shared" in kernel.asm["ptx"]
    assert stores(kernel) == ["32 b16"]


def test_masks_stay_with_the_fragment():
    rng = np.random.default_rng(1)
    a, b = random(rng, (70, 72), BF16), random(rng, (133, 72), BF16)
    c = Result(70, 133, BF16)
    launch(elementwise, (a, b), c, "sm_90a", masked=True)
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    assert (np.isnan(c.matrix.astype(np.float32)) == (exact <= 0)).all()


def test_no_room():
    """Shared memory full of stages: ordinary stores."""
    kernel = multiply(128, 133, "bf16", "sm_90a", block_M=128, block_N=128, threads=256, num_stages=7)
    assert "ld.shared" not in kernel.asm["ptx"]
    assert stores(kernel) == ["64 b16"]
