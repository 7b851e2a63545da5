"""GEMMs of a batch and of groups (mixture of experts): empty groups, odd counts, tails; the roles on sm_90a."""

from __future__ import annotations

import gemm_batched
import gemm_grouped
import ml_dtypes
import numpy as np
import pytest
from mutation_testing import surviving_mutants
from support import USE_GPU, error
from targets import EVERY

import minitile as mt

BF16 = ml_dtypes.bfloat16
for_every_target = pytest.mark.parametrize("target", EVERY, indirect=True, scope="module")
COUNTS = [[0, 0], [1], [17, 0, 64, 1, 100], [0, 65, 0]]
SIZES = [(64, 64), (136, 104), (67, 51)]


@for_every_target
@pytest.mark.parametrize("size", [(0, 5, 8, 8), (1, 1, 1, 1), (3, 65, 72, 0), (2, 100, 72, 200), (5, 17, 31, 13)])
def test_batched(target, size):
    assert gemm_batched.run(*size) <= 4e-3


@for_every_target
@pytest.mark.parametrize("counts", COUNTS, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_contiguous(target, counts, size):
    assert gemm_grouped.run_contiguous(counts, *size) <= 4e-3


@for_every_target
@pytest.mark.parametrize("counts", COUNTS, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_masked(target, counts, size):
    assert gemm_grouped.run_masked(counts, 100, *size) <= 4e-3


@for_every_target
@pytest.mark.parametrize("counts", COUNTS, ids=str)
def test_behind_each_other(target, counts):
    assert gemm_grouped.run_behind_each_other(counts, 136, 104, blocks=3, panel=1) <= 4e-3


@pytest.mark.skipif(USE_GPU, reason="looks for races")
@pytest.mark.parametrize("schedule", ["lazy", "eager", "random"])
@pytest.mark.parametrize("form", ["contiguous", "masked"])
def test_both_roles_read_the_group(form, schedule):
    """The copying warp finds its way by itself, also past blocks without work."""
    rng = np.random.default_rng(0)
    counts = np.array([0, 70, 128], np.int32)
    a = rng.integers(-3, 4, (3, 128, 200)).astype(BF16)
    b = rng.integers(-3, 4, (3, 72, 200)).astype(BF16)
    c = np.full((3, 128, 72), np.nan).astype(BF16)
    real = np.arange(128) < counts[:, None]
    kernel, last = gemm_grouped.gemm_masked, counts
    shapes = a, b, c
    if form == "contiguous":
        kernel, last = gemm_grouped.gemm_contiguous, np.where(real, np.arange(3)[:, None], -1).ravel().astype(np.int32)
        shapes = a.reshape(-1, 200), b, c.reshape(-1, 72)
    compiled = kernel.compile(*shapes, last, target="sm_90a", block_K=64, num_stages=2)
    text = compiled.asm["ptx"]
    assert "wgmma" in text
    assert "cp.async.bulk.tensor.3d.shared" in text
    assert "st.global" not in text
    compiled.simulate(*shapes, last, schedule=schedule, seed=1)
    exact = a.astype(np.float64) @ b.astype(np.float64).transpose(0, 2, 1)
    assert error(c[real], exact[real].astype(BF16)) == 0
    assert np.isnan(c[0].astype(np.float32)).all()  # a group without rows is not touched


@pytest.mark.slow
@pytest.mark.skipif(USE_GPU, reason="looks for races")
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_every_mutant_is_killed(target):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (2, 64, 264)).astype(BF16) for _ in range(2))
    values = [a, b, np.full((2, 64, 64), np.nan).astype(BF16), np.array([0, 40], np.int32)]
    compiled: mt.CompiledKernel = gemm_grouped.gemm_masked.compile(*values, target=target, block_K=64, num_stages=2)
    found, tried = surviving_mutants(compiled, values)
    assert tried >= 4
    assert [each for each in found if not each.endswith("cp.async.bulk.commit_group")] == []
