"""GEMMs whose products a warp of its own issues (docs/blackwell.md): right and race-free in all schedules, and nothing
of their synchronisation is to spare."""

from __future__ import annotations

import re
from typing import Any

import gemm
import ml_dtypes
import numpy as np
import pytest
from mutation_testing import TAKEN_OR_WEAKER, surviving_mutants
from support import error, poisoned, random
from test_blackwell import launch, multiplied

import minitile as mt
import minitile.language as T
from minitile.runtime.sim.mutate.ptx import removals

TARGETS = ("sm_100a", pytest.param("sm_103a", marks=pytest.mark.slow))
BF16 = ml_dtypes.bfloat16
SCHEDULES = ("lazy", "eager", "random")
# Of a warp specialised kernel; the last has three tiles and more for each block, so that accumulators are used anew.
TILES: list[dict[str, Any]] = [
    {"num_stages": 2},
    {"persistent": 1},
    {"persistent": 2, "threads": 256, "block_K": 64},
    {"persistent": 1, "block_M": 256, "block_N": 32},
]
pytestmark = pytest.mark.parametrize("target", TARGETS)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("tiles", TILES)
@pytest.mark.parametrize("k", [8, 136])
def test_in_flight(target: str, k: int, tiles: dict[str, Any], schedule: str) -> None:
    found, ptx = multiplied(target, 130, 200, k, schedule=schedule, **tiles)
    assert found <= 4e-3
    waits = [line for line in ptx.splitlines() if "mbarrier.try_wait" in line]
    assert not any("products are complete" in line for line in waits)  # only for accumulators
    assert len(waits) == (4 if "persistent" in tiles else 3)


FORMS = [("f16", False, False), ("bf16", True, False), ("int8", True, True), ("e4m3", False, True)]


@pytest.mark.parametrize(("name", "ta", "tb"), FORMS)
def test_forms(target: str, name: str, ta: bool, tb: bool) -> None:
    """No K at all is among the sizes: what is loaded then are zeros, and no thread waits for ever."""
    for k in (0, 144):
        found, ptx = multiplied(target, 144, 208, k, name, ta, tb, schedule="random", persistent=2)
        assert found <= (gemm.DTYPES | gemm.FP8)[name][3]
        tensor = name != "int8" or target == "sm_100a"  # ptxas refuses int8 for sm_103a
        assert ("issue_apart" in ptx) == ("tcgen05" in ptx) == tensor


@TAKEN_OR_WEAKER
@pytest.mark.parametrize("tiles", [{}, {"persistent": 1}, {"persistent": 1, "threads": 256}])
def test_mutants(target: str, tiles: dict[str, int], candidates: Any) -> None:
    """Without any one of its waits, fences, barriers, arrivals, commits, or its dealloc, or where one is weaker, the
    GEMM is at fault."""
    rng = np.random.default_rng(5)
    a, b = (random(rng, (rows, 136), BF16) for rows in (129, 96))
    c = poisoned((129, 96), BF16)
    kernel = gemm.gemm_nt_bf16().compile(a, b, c, target=target, block_N=32, block_K=32, num_stages=2, **tiles)
    survivors, count = surviving_mutants(kernel, (a, b, c), candidates)
    assert count >= ((26 if tiles else 19) if candidates is removals else 14)
    assert survivors == []


SIZES = [(128, 128, 1, 256, 2), (128, 256, 1, 512, 2), (256, 128, 1, 512, 2), (128, 256, 0, 256, 1)]


@pytest.mark.parametrize(("m", "n", "persistent", "columns", "versions"), SIZES)
def test_two_accumulators(target: str, m: int, n: int, persistent: int, columns: int, versions: int) -> None:
    """Where tiles follow one another: one is loaded while products add to the other."""
    a, b, c = (poisoned((512, 64), BF16), poisoned((512, 64), BF16), poisoned((512, 512), BF16))
    tiles = {"block_M": m, "block_N": n, "threads": 256, "persistent": persistent}
    compiled = gemm.gemm_nt_bf16().compile(a, b, c, target=target, **tiles)
    assert f"tmem<{'2 versions x ' if versions == 2 else ''}{m}x{n}xf32>" in compiled.asm["tile_ir"]
    assert re.search(rf"tcgen05\.alloc\S+ \[\S+\], {columns};", compiled.asm["ptx"])
    assert compiled.spills == 0


@mt.kernel
def other_forms(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.float32),
    doubled=False,
    over_tiles=False,
):
    M, N = C.shape
    K = A.shape[1]
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 128), threads=128) as (bx, by):
        A_shared = T.alloc_shared((128, 32), A.dtype)
        A_double = T.alloc_shared((128, 32), A.dtype)
        B_shared = T.alloc_shared((64, 32), A.dtype)
        C_local = T.alloc_fragment((128, 64), T.float32)
        T.clear(C_local)
        for _ in T.serial(2):
            if not over_tiles:
                T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
                T.copy(A[by * 128, k * 32], A_shared)
                T.copy(B[bx * 64, k * 32], B_shared)
                if doubled:
                    for i, j in T.Parallel(128, 32):
                        A_double[i, j] = A_shared[i, j] * 2
                    T.gemm(A_double, B_shared, C_local, transpose_B=True)
                else:
                    T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            T.copy(C_local, C[by * 128, bx * 64])


WHYS = [
    ({}, 1, ""),
    ({"doubled": True}, 2, "threads write A_double"),
    ({"over_tiles": True}, 2, "C_local goes on from turn to turn"),
]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("given", "times", "why"), WHYS)
def test_who_issues(target: str, given: dict[str, bool], times: int, why: str, schedule: str) -> None:
    """Products that the issuer could not do alone stay with those who load them, and a note says why."""
    rng = np.random.default_rng(7)
    a, b = random(rng, (130, 72), BF16), random(rng, (40, 72), BF16)
    c = poisoned((130, 40))
    compiled = other_forms.compile(a, b, c, target=target, **given)
    notes = [note.partition("load them: ")[2] for note in compiled.notes if "issued by" in note]
    assert notes == ([why] if why else [])
    assert "tcgen05.mma" in launch(other_forms, (a, b, c), target, schedule, **given)
    assert error(c, times * (a.astype(np.float64) @ b.astype(np.float64).T)) <= 1e-5
