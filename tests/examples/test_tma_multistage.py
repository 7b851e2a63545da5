"""Single-role TMA pipelines (tma_multistage), warp_specialize=False on sm_90a: GEMM and attention under each schedule
of the simulator (with MINITILE_GPU=1 on the GPU), what the code consists of, and what is left to cp.async. More control
flow: test_roles.py; that each synchronisation is needed: test_mutations.py."""

from __future__ import annotations

import attention
import gemm
import gemm_persistent
import ml_dtypes
import numpy as np
import pytest
from schedules import each_schedule, schedules
from support import USE_GPU, error, on_device, poisoned, random

import minitile as mt
import minitile.language as T
from minitile.backends.nvidia.assemble import find_ptxas

BF16 = ml_dtypes.bfloat16
TILES = {"block_M": 128, "block_N": 64, "block_K": 64, "num_stages": 3, "threads": 256}


def check(kernel, arrays, expected, bound=4e-3, tma=True, **constants) -> mt.CompiledKernel:
    """Compile in one role, run, compare the last array with float64."""
    compiled = kernel.compile(*arrays, target="sm_90a", warp_specialize=False, **constants)
    text = compiled.asm["ptx"]
    if tma:
        assert all(word in text for word in ("cp.async.bulk.tensor", "wgmma.mma_async", "mbarrier.try_wait"))
        assert compiled.launch_info.block[0] == constants.get("threads", 128)
    else:
        assert "mbarrier" not in text
    assert "setmaxnreg" not in text
    if USE_GPU:
        there = [on_device(array) for array in arrays]
        compiled(*there)
        assert error(there[-1], expected) < bound
        return compiled
    for schedule in schedules():
        arrays[-1][...] = np.nan
        compiled.simulate(*arrays, schedule=schedule, seed=5)
        assert error(arrays[-1], expected) < bound, schedule
    return compiled


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(np.float64) @ b.astype(np.float64)


def check_gemm(m, n, k, name="bf16", ta=False, tb=True, seed=0, **tiles) -> mt.CompiledKernel:
    dtype, accumulate, element, bound = gemm.DTYPES[name]
    rng = np.random.default_rng(seed)
    a, b = random(rng, (k, m) if ta else (m, k), element), random(rng, (n, k) if tb else (k, n), element)
    expected = product(a.T if ta else a, b.T if tb else b)
    kernel = gemm.make_gemm(dtype, accumulate, dtype, ta, tb)
    return check(kernel, (a, b, poisoned((m, n), element)), expected, bound, **{**TILES, **tiles})


@each_schedule
@pytest.mark.parametrize("k", [0, 8, 64, 72, 128, 192, 256, 320])
def test_trip_counts(k):
    """None, one, fewer than the stages, as many, more."""
    check_gemm(128, 64, k)


@each_schedule
@pytest.mark.parametrize("size", [(1, 8, 8), (17, 40, 400), (131, 8, 72)])
def test_sizes(size):
    check_gemm(*size)


@each_schedule
@pytest.mark.parametrize(("name", "ta", "tb"), [("bf16", False, False), ("f16", True, False), ("tf32", False, True)])
def test_forms(name, ta, tb):
    check_gemm(136, 72, 136, name, ta, tb)


@each_schedule
@pytest.mark.parametrize(
    "tiles",
    [
        {"block_M": 64, "threads": 128, "num_stages": 2},
        {"block_M": 64, "threads": 128, "num_stages": 4},
        {"block_N": 128, "num_stages": 2},
        {"block_M": 192, "threads": 384, "num_stages": 2},
    ],
)
def test_tiles(tiles):
    check_gemm(72, 72, 264, **tiles)


@each_schedule
@pytest.mark.parametrize(
    ("m", "n", "k", "threads"), [(136, 64, 136, 128), (264, 128, 72, 256), (64, 64, 0, 128), (1, 17, 8, 256)]
)
def test_persistent(m, n, k, threads):
    rng = np.random.default_rng(1)
    a, b, c = random(rng, (m, k), BF16), random(rng, (n, k), BF16), poisoned((m, n), BF16)
    tiles = {"blocks": 2, "block_M": threads // 2, "block_N": 64, "threads": threads}
    check(gemm_persistent.gemm_persistent, (a, b, c), product(a, b.T), **tiles)


@each_schedule
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("rows", "tiles"),
    [
        (1, {"block_M": 64, "block_N": 32, "threads": 128}),
        (72, {"block_M": 64, "block_N": 32, "threads": 128, "num_stages": 3}),
        (136, {"block_M": 128, "block_N": 64, "threads": 256}),
    ],
)
def test_attention(rows, tiles, causal):
    """K and V in rings of their own, the second product an iteration behind the first."""
    rng = np.random.default_rng(2)
    q, k, v, o = (random(rng, (1, 1, rows, 64), BF16) for _ in range(4))
    scores = product(q[0, 0], k[0, 0].T) / 8
    if causal:
        scores[np.triu_indices(rows, 1)] = -np.inf
    weights = np.exp(scores - scores.max(1, keepdims=True))
    expected = (weights / weights.sum(1, keepdims=True) @ v[0, 0].astype(np.float64))[None, None]
    compiled = check(attention.attention, (q, k, v, o), expected, 8e-3, D=64, causal=causal, **tiles)
    assert compiled.asm["tile_ir"].count("refill ") > 1


def test_the_assembler_has_nothing_to_say():
    specs = [mt.spec((8192, 8192), "bfloat16")] * 3
    kernel = gemm.make_gemm(*gemm.DTYPES["bf16"][:2], T.bfloat16, False, True)
    tiles = {"block_M": 128, "block_N": 256, "block_K": 64, "num_stages": 4, "threads": 256}
    compiled = kernel.compile(*specs, target="sm_90a", warp_specialize=False, **tiles)
    if find_ptxas(compiled.asm["ptx"]) is None:
        pytest.skip("needs a ptxas")
    assert compiled.spills == 0
    assert compiled.assembled.warnings == ()


# What prevents it ----------------------------------------------------------------------------------------------------


@mt.kernel(warp_specialize=False)
def turning(
    A: T.Tensor((128, "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor((64, "N"), T.float32),
):
    """A · Bᵀ with A's rows from 0 and from 64, alternating: where the next tile begins is carried through the loop."""
    with T.Kernel(1, threads=128):
        A_shared = T.alloc_shared((64, 32), A.dtype)
        B_shared = T.alloc_shared((64, 32), A.dtype)
        C_local = T.alloc_fragment((64, 64), T.float32)
        T.clear(C_local)
        row = 0
        for k in T.Pipelined(T.ceildiv(A.shape[1], 32), num_stages=3):
            T.copy(A[row, k * 32], A_shared)
            T.copy(B[0, k * 32], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            row = 64 - row
        T.copy(C_local, C[0, 0])


@mt.kernel(warp_specialize=False)
def skipping(
    A: T.Tensor((128, "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor((64, "N"), T.float32),
):
    """Without the third tile of A, which is not copied."""
    with T.Kernel(1, threads=128):
        A_shared = T.alloc_shared((64, 32), A.dtype)
        B_shared = T.alloc_shared((64, 32), A.dtype)
        C_local = T.alloc_fragment((64, 64), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(A.shape[1], 32), num_stages=3):
            T.copy(B[0, k * 32], B_shared)
            if k != 2:
                T.copy(A[0, k * 32], A_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
        T.copy(C_local, C[0, 0])


@pytest.mark.parametrize(
    ("kernel", "why"),
    [
        (turning, "depends on what the iteration before it computes"),
        (skipping, "stands under a condition in a pipelined loop"),
    ],
)
def test_copies_that_cannot_go_ahead(kernel, why):
    """The others do; the decorator's switch is the same as that of `compile`."""
    rng = np.random.default_rng(3)
    a, b, c = random(rng, (128, 192), BF16), random(rng, (64, 192), BF16), poisoned((64, 64), np.float32)
    used = np.copy(a[:64])
    if kernel is turning:
        for k in (1, 3, 5):
            used[:, 32 * k : 32 * k + 32] = a[64:, 32 * k : 32 * k + 32]
    else:
        used[:, 64:96] = 0
    compiled = check(kernel, (a, b, c), product(used, b.T))
    assert any(note == f"copied by all threads: the copy of A {why}" for note in compiled.notes), compiled.notes
    assert kernel.compile(a, b, c, target="sm_90a").asm["ptx"] == compiled.asm["ptx"]


def test_nothing_to_copy_ahead():
    """One stage: the code is that of cp.async, as it is without the pass; a note says why."""
    compiled = check_gemm(64, 64, 96, num_stages=1, tma=False)
    assert any(note.startswith("no TMA ahead in one role: ") for note in compiled.notes)


def test_passes_left_out():
    """Without TMA the gemms are wgmma all the same, where `lower_manual_wgmma` is not left out as well."""
    specs = [mt.spec((128, 128), "bfloat16")] * 3
    kernel = gemm.make_gemm(*gemm.DTYPES["bf16"][:2], T.bfloat16, False, True)
    off = "warp_specialize", "tma_multistage", "lower_manual_wgmma"
    for count, tma, wgmma in ((1, True, True), (2, False, True), (3, False, False)):
        passes = dict.fromkeys(off[:count], False)
        text = kernel.compile(*specs, target="sm_90a", passes=passes, **TILES).asm["ptx"]
        assert ("cp.async.bulk" in text, "wgmma.mma_async" in text, "mma.sync" in text) == (tma, wgmma, not wgmma)


@mt.kernel
def kept(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    D: T.Tensor(("M", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.float32),
    threads=256,
):
    """Each tile of A that has come is stored to D from the ring, too: its slot is not free before that is done."""
    with T.Kernel(1, threads=threads):
        A_shared = T.alloc_shared((128, 64), A.dtype)
        B_shared = T.alloc_shared((64, 64), A.dtype)
        C_local = T.alloc_fragment((128, 64), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(A.shape[1], 64), num_stages=2):
            T.copy(A[0, k * 64], A_shared)
            T.copy(B[0, k * 64], B_shared)
            T.copy(A_shared, D[0, k * 64])
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
        T.copy(C_local, C[0, 0])


@pytest.mark.parametrize("threads", [128, 256])
def test_a_slot_that_is_stored(threads):
    rng = np.random.default_rng(4)
    a, b = random(rng, (128, 456), BF16), random(rng, (64, 456), BF16)
    d, c = poisoned(a.shape, BF16), poisoned((128, 64), np.float32)
    compiled = check(kept, (a, b, d, c), product(a, b.T), threads=threads)
    if not USE_GPU:
        assert (d == a).all()
        assert "cp.async.bulk.wait_group.read" in compiled.asm["ptx"]
