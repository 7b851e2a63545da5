"""Whole kernels for gfx942 and gfx950: attention, what they cost, what is refused."""

from __future__ import annotations

import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
import minitile.language as T

pytest.importorskip("llvmlite")
sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))

import attention
import gemm

BOTH = ("gfx942", "gfx950")
SMALL = {"block_M": 64, "block_N": 32, "num_stages": 2, "threads": 128}


@pytest.mark.few_cases
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", [(1, 1, 64, 64), (1, 2, 100, 64), (2, 1, 33, 96), (1, 1, 7, 128)], ids=str)
@pytest.mark.parametrize("target", BOTH)
def test_attention(target, shape, causal):
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for _ in range(3))
    o = np.full(shape, np.nan, ml_dtypes.bfloat16)
    kernel = attention.attention.compile(q, k, v, o, D=shape[3], causal=causal, target=target, **SMALL)
    kernel.simulate(q, k, v, o, schedule="random", seed=1)
    want = attention.reference(q, k, v, causal)
    assert np.linalg.norm(o.astype(np.float64) - want) <= 8e-3 * np.linalg.norm(want)
    assert kernel.spills == 0


@pytest.mark.slow
def test_one_version_where_there_is_no_room_for_two():
    """K and V of 64 x 128 twice, and Q, are 80 KB."""
    shape = (1, 1, 130, 128)
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for _ in range(3))
    o = np.full(shape, np.nan, ml_dtypes.bfloat16)
    tiles = {"block_M": 64, "block_N": 64, "num_stages": 2, "threads": 128}
    kernel = attention.attention.compile(q, k, v, o, D=128, target="gfx942", **tiles)
    assert kernel.launch_info.dynamic_shared == 3 * 64 * 128 * 2
    for seed in range(2):
        o[:] = np.nan
        kernel.simulate(q, k, v, o, schedule="random", seed=seed)
        want = attention.reference(q, k, v, False)
        assert np.linalg.norm(o.astype(np.float64) - want) <= 8e-3 * np.linalg.norm(want)


@pytest.mark.parametrize(("target", "threads"), [("gfx942", 256), ("gfx950", 256), ("gfx950", 512)])
def test_a_large_gemm_keeps_its_accumulators(target, threads):
    """No spills, no scratch; all of the inner loop's reads are 16 bytes wide."""
    specs = [mt.spec((1024, 1024), "bfloat16")] * 3
    tiles = {"block_M": 256 if threads == 512 else 128, "block_N": 128, "block_K": 64, "num_stages": 2}
    kernel = gemm.gemm_nt_bf16().compile(*specs, target=target, threads=threads, **tiles)
    assert kernel.spills == 0
    assert kernel.registers <= 256
    assert "ds_read_b128" in kernel.text
    assert "ds_read_u16" not in kernel.text
    assert "accvgpr" not in kernel.text


def test_texts():
    kernel = gemm.gemm_nt_bf16().compile(target="gfx942")
    assert list(kernel.asm) == ["traced_ir", "tile_ir", "thread_ir", "llvm", "gcn"]
    assert "amdgpu_kernel void @gemm" in kernel.asm["llvm"]
    assert ".amdhsa_kernel gemm" in kernel.asm["gcn"]
    assert kernel.asm["thread_ir"].startswith("thread kernel @gemm")
    assert {"trace", "passes", "llvm", "gcn"} == set(kernel.timings)
    with pytest.raises(KeyError, match="ptx"):
        kernel.asm["ptx"]


@mt.kernel
def says(A: T.Tensor((4,), T.int32)):
    with T.Kernel(1, threads=64):
        T.print(A[0])


def test_printing_is_refused():
    with pytest.raises(mt.MinitileError, match="no printing on gfx942"):
        says.compile(target="gfx942")


@mt.kernel
def positive(A: T.Tensor(("N",), T.int32), B: T.Tensor(("N",), T.int32)):
    with T.Kernel(1, threads=64):
        for i in T.Parallel(64):
            T.device_assert(A[i] > 0)
            B[i] = A[i]


def test_assertions_trap_in_silence():
    kernel = positive.compile(target="gfx942")
    a, b = np.arange(1, 65, dtype=np.int32), np.zeros(64, np.int32)
    kernel.simulate(a, b)
    assert np.array_equal(a, b)
    a[5] = 0
    with pytest.raises(mt.SimulationError):
        kernel.simulate(a, b)
