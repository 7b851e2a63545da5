"""GEMMs for sm_100a and sm_103a beside the plain one (test_blackwell.py): tf32, blocks of 64 rows, persistent, grouped.

They are tcgen05's, right and race-free in all schedules, and assembled without spill or warning, for the family's
target as well where nothing of them is for one GPU alone.
"""

from __future__ import annotations

import re
from typing import Any

import gemm
import gemm_grouped
import gemm_persistent
import ml_dtypes
import numpy as np
import pytest
from mutation_testing import TAKEN_OR_WEAKER, surviving_mutants
from support import error, poisoned, random
from test_blackwell import BY_CP_ASYNC, ONE_ROLE, launch, multiplied

import minitile as mt
import minitile.language as T
from minitile.backends.nvidia.assemble import assemble, find_ptxas

TARGETS = ("sm_100a", pytest.param("sm_103a", marks=pytest.mark.slow))
BF16 = ml_dtypes.bfloat16
SCHEDULES = ("lazy", "eager", "random")
SIZES = [(128, 128, 64), (1, 17, 104), (131, 72, 0)]
pytestmark = pytest.mark.parametrize("target", TARGETS)

# tf32 ----------------------------------------------------------------------------------------------------------------

ROUNDED = 4e-4  # the error of factors rounded to 11 bits is 2.9e-4; of truncated ones 5.9e-4


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    "tiles", [{}, {"persistent": 2, "block_K": 64}, {"block_M": 64, "block_N": 32}, ONE_ROLE, {"num_stages": 0}]
)
def test_tf32(target: str, tiles: dict[str, Any], schedule: str) -> None:
    for size in SIZES:
        found, ptx = multiplied(target, *size, "tf32", schedule=schedule, **tiles)
        assert found <= ROUNDED
        assert "kind::tf32" in ptx
        assert "mma.sync" not in ptx


@pytest.mark.parametrize(
    ("ta", "tb", "tiles", "why"),
    [
        (False, False, {}, "K is not contiguous in B, which tf32 wants"),
        (True, True, {"block_M": 64}, "K is not contiguous in A, which tf32 wants"),
        (False, True, BY_CP_ASYNC, "nothing rounds A_shared to tf32 on its way to shared memory"),
    ],
)
def test_tf32_that_is_not(target: str, ta: bool, tb: bool, tiles: dict[str, Any], why: str) -> None:
    """What would be truncated, and what no descriptor says, is left to mma.sync, which rounds by itself."""
    dtype, accumulate, element, _ = gemm.DTYPES["tf32"]
    arrays = poisoned((64, 128) if ta else (128, 64), element), poisoned((128, 64), element), poisoned((128, 128))
    if not tb:
        arrays = arrays[0], poisoned((64, 128), element), arrays[2]
    compiled = gemm.make_gemm(dtype, accumulate, dtype, ta, tb).compile(*arrays, target=target, **tiles)
    assert any(note.endswith(f": {why}") for note in compiled.notes)
    assert "tcgen05" not in compiled.asm["ptx"]
    assert multiplied(target, 65, 40, 72, "tf32", ta, tb, **tiles)[0] <= ROUNDED


@mt.kernel
def sums(A: T.Tensor((128, 64), T.float32), B: T.Tensor((32, 64), T.float32), C: T.Tensor((128, 32), T.float32)):
    """(A + A) · Bᵀ, the left factor a tile that threads have computed."""
    with T.Kernel(1, threads=128):
        B_shared = T.alloc_shared((32, 64), B.dtype)
        a = T.alloc_fragment((128, 64), A.dtype)
        c = T.alloc_fragment((128, 32), T.float32)
        T.copy(A, a)
        T.copy(B, B_shared)
        for i, j in T.Parallel(128, 64):
            a[i, j] = a[i, j] + a[i, j]
        T.gemm(a, B_shared, c, transpose_B=True, clear_accum=True)
        T.copy(c, C)


def test_tf32_in_tensor_memory(target: str) -> None:
    rng = np.random.default_rng(3)
    a, b, c = random(rng, (128, 64)), random(rng, (32, 64)), poisoned((128, 32))
    ptx = launch(sums, (a, b, c), target)
    assert re.search(r"tcgen05\.mma\S+ \[%\S+\], \[", ptx)  # A by an address
    assert error(c, 2 * (a.astype(np.float64) @ b.astype(np.float64).T)) <= ROUNDED


# Blocks of 64 rows ---------------------------------------------------------------------------------------------------

HALVES: list[dict[str, Any]] = [
    {"block_N": 128},
    {"block_N": 128, "threads": 256, "persistent": 2},
    {"block_N": 256, "block_K": 64, "num_stages": 2},
    {"block_N": 128, "num_stages": 0},
    {"block_N": 128, **BY_CP_ASYNC},
]
FORMS = [("bf16", ta, tb) for ta in (False, True) for tb in (False, True)] + [
    ("f16", False, True),
    ("int8", False, True),
    ("e4m3", False, True),
    ("e5m2", False, True),
]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("name", "ta", "tb"), FORMS)
def test_half_blocks(target: str, name: str, ta: bool, tb: bool, size: tuple[int, int, int]) -> None:
    found, ptx = multiplied(target, *size, name, ta, tb, "random", block_M=64, block_N=128)
    assert found <= (gemm.DTYPES | gemm.FP8)[name][3]
    assert ("tcgen05.mma" in ptx) == (name != "int8" or target == "sm_100a")  # ptxas refuses int8 for sm_103a


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("tiles", HALVES)
def test_half_blocks_in_flight(target: str, tiles: dict[str, Any], schedule: str) -> None:
    for size in SIZES:
        found, ptx = multiplied(target, *size, schedule=schedule, block_M=64, **tiles)
        assert found <= 4e-3
        assert "mma.sync" not in ptx


@pytest.mark.parametrize(("n", "columns"), [(128, 64), (256, 128), (48, 32)])
def test_half_blocks_fill_all_lanes(target: str, n: int, columns: int) -> None:
    """Half of the columns of the result in either half of the lanes."""
    _, ptx = multiplied(target, 64, n, 64, block_M=64, block_N=n)
    assert re.search(rf"tcgen05\.alloc\S+ \[\S+\], {columns};", ptx)
    targets = re.findall(r"tcgen05\.mma\S+ \[%\w+(\+\d+)?\]", ptx)
    assert targets == ["", "", f"+{16 << 16}", f"+{16 << 16}"]  # two steps of K


def test_half_blocks_without_whole_panels(target: str) -> None:
    """Of an operand that lies MN-major, half of the columns is to be whole panels of the swizzle."""
    found, ptx = multiplied(target, 64, 64, 64, tb=False, block_M=64, block_N=64)
    assert found <= 4e-3
    assert "tcgen05" not in ptx


# Persistent ----------------------------------------------------------------------------------------------------------

PERSISTENT: list[dict[str, Any]] = [
    {"blocks": 3, "block_M": 64, "block_N": 64},
    {"blocks": 2, "block_N": 64, "threads": 128},
    {"blocks": 4, "block_N": 64, "cluster": 2},
]


def arguments(m: int, n: int, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(m + n + k)
    return random(rng, (m, k), BF16), random(rng, (n, k), BF16), poisoned((m, n), BF16)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("tiles", PERSISTENT)
@pytest.mark.parametrize("size", [(300, 130, 72), (1, 17, 8), (131, 193, 0)])
def test_persistent(target: str, size: tuple[int, int, int], tiles: dict[str, Any], schedule: str) -> None:
    a, b, c = arguments(*size)
    ptx = launch(gemm_persistent.gemm_persistent, (a, b, c), target, schedule, **tiles)
    assert "mma.sync" not in ptx
    assert "tcgen05.mma" in ptx
    assert error(c, a.astype(np.float64) @ b.astype(np.float64).T) <= 4e-3


# Groups --------------------------------------------------------------------------------------------------------------


def grouped(form: str, m: int) -> tuple[Any, tuple[np.ndarray, ...], np.ndarray, np.ndarray]:
    """A kernel, its arguments, the rows that count, and what they are to be. Each group has room for m rows."""
    rng = np.random.default_rng(m)
    counts = np.array([0, m - 61, m], np.int32)
    a, b = random(rng, (3, m, 136), BF16), random(rng, (3, 72, 136), BF16)
    real = np.arange(m) < counts[:, None]
    exact = (a.astype(np.float64) @ b.astype(np.float64).transpose(0, 2, 1))[real]
    if form == "masked":
        return gemm_grouped.gemm_masked, (a, b, poisoned((3, m, 72), BF16), counts), real, exact
    if form == "contiguous":
        group_of = np.where(real, np.arange(3)[:, None], -1).ravel().astype(np.int32)
        arrays = a.reshape(-1, 136), b, poisoned((3 * m, 72), BF16), group_of
        return gemm_grouped.gemm_contiguous, arrays, real.ravel(), exact
    ends = np.cumsum(counts, dtype=np.int32)
    c = poisoned((int(ends[-1]), 72), BF16)
    return gemm_grouped.gemm_behind_each_other, (a[real], b, c, ends), np.ones(len(c), bool), exact


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("block_M", [64, 128])
@pytest.mark.parametrize("form", ["contiguous", "masked", "ragged"])
def test_grouped(target: str, form: str, block_M: int, schedule: str) -> None:
    """Products under a condition, which all threads of a block agree on, and in loops over tiles of all groups."""
    kernel, arrays, real, exact = grouped(form, 128)
    given = {"blocks": 2, "panel": 1} if form == "ragged" else {}
    ptx = launch(kernel, arrays, target, schedule, block_M=block_M, **given)
    assert error(arrays[2][real], exact) <= 4e-3
    assert "issue_apart" in ptx
    assert "mma.sync" not in ptx


@mt.kernel
def some_tiles(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.bfloat16),
    wanted: T.Tensor(("tiles",), T.int32),
):
    """The tiles of rows of C that are wanted, by two persistent blocks: some iterations have no accumulator."""
    K = A.shape[1]
    with T.Kernel(2, threads=128) as block:
        A_shared = T.alloc_shared((128, 32), A.dtype)
        B_shared = T.alloc_shared((32, 32), B.dtype)
        C_local = T.alloc_fragment((128, 32), T.float32)
        for by, bx in T.Persistent([wanted.shape[0], T.ceildiv(C.shape[1], 32)], 2, block):
            if wanted[by] > 0:
                T.clear(C_local)
                for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
                    T.copy(A[by * 128, k * 32], A_shared)
                    T.copy(B[bx * 32, k * 32], B_shared)
                    T.gemm(A_shared, B_shared, C_local, transpose_B=True)
                T.copy(C_local, C[by * 128, bx * 32])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_iterations_without_products(target: str, schedule: str) -> None:
    """The slot of accumulators goes on only where one is filled."""
    a, b, c = arguments(640, 72, 72)
    wanted = np.array([1, 0, 1, 1, 0], np.int32)
    ptx = launch(some_tiles, (a, b, c, wanted), target, schedule)
    assert "issue_apart" in ptx
    real = np.repeat(wanted, 128) > 0
    assert error(c[real], (a.astype(np.float64) @ b.astype(np.float64).T)[real]) <= 4e-3
    assert np.isnan(c[~real].astype(np.float32)).all()


# All -----------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@TAKEN_OR_WEAKER
@pytest.mark.parametrize("form", ["half blocks", "masked", "some tiles"])
def test_mutants(target: str, form: str, candidates: Any) -> None:
    """Without any one of its waits, fences, barriers, arrivals, commits, or its dealloc, or where one is weaker, a GEMM
    is at fault."""
    kernel, given = gemm.gemm_nt_bf16(), {"block_M": 64, "block_N": 64, "num_stages": 2, "persistent": 1}
    arrays: tuple[np.ndarray, ...] = arguments(65, 130, 136)
    if form == "masked":
        kernel, arrays, _, _ = grouped("masked", 128)
        given = {"block_M": 128, "num_stages": 2}
    if form == "some tiles":
        kernel, given, arrays = some_tiles, {}, (*arguments(640, 72, 136), np.array([1, 0, 1, 1, 0], np.int32))
    survivors, count = surviving_mutants(kernel.compile(*arrays, target=target, **given), arrays, candidates)
    assert count >= 14
    assert survivors == []


FAMILY = [(gemm.gemm_nt_bf16(), {"persistent": 2}), (gemm_persistent.gemm_persistent, {"block_M": 64})]


@pytest.mark.parametrize(("kernel", "tiles"), FAMILY)
def test_family(target: str, kernel: Any, tiles: dict[str, int]) -> None:
    """What is not for one GPU alone is assembled for all of the family: its features are those of sm_100f."""
    ptx = kernel.compile(*arguments(200, 136, 104), target=target, **tiles).asm["ptx"]
    text = re.sub(r"\.version \S+\n\.target \S+", ".version 8.8\n.target sm_100f", ptx)
    if find_ptxas(text) is None:
        pytest.skip("there is no ptxas that knows it")
    done = assemble(text, "sm_100f")
    assert (done.warnings, done.spill_stores, done.spill_loads) == ((), 0, 0)
