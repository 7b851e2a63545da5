"""Loops of which some copies are by LDS-DMA and others go through registers (gfx950): right for every number of trips,
each copy by its path, every wait and barrier needed."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.driver.simulate import launch_of
from minitile.runtime.sim import run_gcn
from minitile.runtime.sim.mutate.amdgcn import removals
from minitile.runtime.sim.mutate.ptx import redundant, runner

pytest.importorskip("llvmlite")
SCHEDULES = [("lazy", 0), ("eager", 0), ("random", 0), ("random", 1)]


@mt.kernel
def weighted(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    W: T.Tensor(("G", "M"), T.float32),
    C: T.Tensor((2, "M", "N"), T.float32),
    num_stages=2,
    nested=False,
):
    """The sum over steps g of 32 along K of diag(W[g]) A Bᵀ, in two halves of K: by a block each, or one after the
    other."""
    M, N = C.shape[1], C.shape[2]
    steps = T.ceildiv(A.shape[1], 64)

    def one_half(half, by, bx):
        total = T.alloc_fragment((32, 32), T.float32)
        product = T.alloc_fragment((32, 32), T.float32)
        T.clear(total)
        for k in T.Pipelined(steps, num_stages=num_stages):
            step = half * steps + k
            T.copy(A[by * 32, step * 32], A_shared)
            T.copy(B[bx * 32, step * 32], B_shared)
            T.copy(W[step, by * 32], W_shared)
            T.gemm(A_shared, B_shared, product, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(32, 32):
                total[i, j] = total[i, j] + W_shared[i] * product[i, j]
        T.copy(total, C[half, by * 32, bx * 32])

    with T.Kernel(T.ceildiv(N, 32), T.ceildiv(M, 32), 1 if nested else 2, threads=128) as (bx, by, bz):
        A_shared = T.alloc_shared((32, 32), A.dtype)
        B_shared = T.alloc_shared((32, 32), B.dtype)
        W_shared = T.alloc_shared((32,), T.float32)
        if nested:
            for half in range(2):
                one_half(half, by, bx)
        else:
            one_half(bz, by, bx)


def arguments(steps, m=48, n=40):
    """K is of 2 · steps whole tiles; small integers, so that no order of sums matters."""
    rng = np.random.default_rng(steps)
    a, b = (rng.integers(-3, 4, (rows, 64 * steps)).astype(ml_dtypes.bfloat16) for rows in (m, n))
    w = rng.integers(-3, 4, (2 * steps, m)).astype(np.float32)
    want = np.zeros((2, m, n))
    for g in range(2 * steps):
        at = slice(32 * g, 32 * g + 32)
        product = a[:, at].astype(np.float64) @ b[:, at].astype(np.float64).T
        want[g // steps] += w[g][:, None] * product
    return [a, b, w, np.full((2, m, n), np.nan, np.float32)], want


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_results(stages, nested):
    for steps in (0, 1, 2, 3, 5):
        arrays, want = arguments(steps, 33, 29)
        kernel = weighted.compile(*arrays, target="gfx950", num_stages=stages, nested=nested)
        assert re.search(r"buffer_load_dwordx4 .* lds", kernel.text)
        assert re.search(r"\tds_write_b32", kernel.text)
        for schedule, seed in SCHEDULES if steps == 3 else SCHEDULES[steps % 2 :: 2]:
            arrays[-1][:] = np.nan
            kernel.simulate(*arrays, schedule=schedule, seed=seed)
            assert np.array_equal(arrays[-1], want)


def test_one_barrier_an_iteration():
    arrays, _ = arguments(3)
    kernel = weighted.compile(*arrays, target="gfx950", num_stages=3)
    lines = kernel.asm["thread_ir"].splitlines()
    start = next(n for n, line in enumerate(lines) if " = for " in line)
    indent = re.match(" *", lines[start])[0]
    loop = lines[start : next(n for n in range(start + 1, len(lines)) if lines[n].startswith(indent + "}"))]
    kinds = [
        match[1] for line in loop if (match := re.search(r"^ *(?:%.* = )?(wait|barrier|cp_async|store_mem)\b", line))
    ]
    assert kinds == ["wait", "store_mem", "barrier", "cp_async", "cp_async"]
    assert kernel.spills == 0
    assert not [note for note in kernel.notes if "vmcnt" in note]


def test_every_wait_and_barrier_is_needed():
    """But what stands behind the loop, where nothing reads the copies past the end any more."""
    arrays, _ = arguments(3, 32, 32)
    kernel = weighted.compile(*arrays, target="gfx950", num_stages=3)
    info = kernel.launch_info
    grid, _ = launch_of(info, arrays)

    def values():
        return launch_of(info, [x.copy() for x in arrays])[1]

    def of_waits(text, entry):
        return (each for each in removals(text, entry) if "wait state" not in str(each))

    run = runner(info.entry, grid, info.block, values, simulate=run_gcn)
    found, count = redundant(kernel.text, info.entry, run, of_waits)
    assert count >= 8
    lines = kernel.text.splitlines()
    last = max(n for n, line in enumerate(lines, 1) if "v_mfma" in line)
    assert [each for each in found if each.line < last] == []
