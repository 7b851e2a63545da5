"""fp8 with scales: fast and promoted sums, scales by tensor, row and block; what becomes of them on sm_90a."""

from __future__ import annotations

import re

import gemm_fp8
import ml_dtypes
import numpy as np
import pytest
from mutation_testing import surviving_mutants
from support import USE_GPU, error, poisoned
from thinned import thinned

import minitile as mt
from minitile.backends.nvidia.assemble import find_ptxas
from tests.auto_target import auto_target

SMALL = {"block_M": 64, "block_N": 64, "num_stages": 3, "threads": 128, "blocks": 3}
F32, FP8, BF16 = np.dtype(np.float32), np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.bfloat16)
simulator_only = pytest.mark.skipif(USE_GPU, reason="the GPU has its own schedule")


each_target = auto_target(*(["auto"] if USE_GPU else ["sm_89", "sm_90a", "gfx950"]), scope="module")


@pytest.mark.parametrize(
    ("size", "per_row", "promote"),
    thinned([(1, 17, 16), (100, 72, 208), (65, 64, 0), (0, 8, 8), (77, 45, 261)], (False, True), (False, True)),
)
def test_sizes(each_target, size, per_row, promote):
    assert gemm_fp8.run(*size, per_row=per_row, promote=promote, **SMALL) <= gemm_fp8.BOUND


@pytest.mark.parametrize("size", [(1, 17, 16), (200, 72, 336), (201, 136, 400), (77, 45, 131), (64, 72, 0)], ids=str)
def test_blocks(each_target, size):
    """201 and 77 rows of scales, or of A, are not TMA's: consumers copy them."""
    assert gemm_fp8.run_blocks(*size, **SMALL) <= gemm_fp8.BOUND


@pytest.mark.parametrize("width", [96, 160, 192, 256])
def test_widths(each_target, width):
    """Tiles whose columns have several scales, and begin within a block of 128."""
    tiles = {**SMALL, "block_N": width, "threads": 256, "num_stages": 2}
    assert gemm_fp8.run_blocks(72, 400, 272, **tiles) <= gemm_fp8.BOUND


@pytest.mark.parametrize(("a", "b"), [("e4m3", "e5m2"), ("e5m2", "e4m3"), ("e5m2", "e5m2")])
def test_dtypes(each_target, a, b):
    assert gemm_fp8.run(72, 80, 160, a, b, promote=True, **SMALL) <= gemm_fp8.BOUND
    assert gemm_fp8.run_blocks(72, 80, 160, a, b, **SMALL) <= gemm_fp8.BOUND


@pytest.mark.parametrize("k", [0, 16, 128, 256, 400, 512, 640])
def test_overlap(each_target, k):
    """No step of K, one, two, an odd and an even number of them."""
    assert gemm_fp8.run(72, 80, k, promote=True, overlap=True, **SMALL) <= gemm_fp8.BOUND
    assert gemm_fp8.run_blocks(136, 80, k, overlap=True, **SMALL) <= gemm_fp8.BOUND


def compiled(name, tile, m=4096, n=4096, k=4096, **constants):
    """One of the kernels for sm_90a and sizes that its tiles divide."""
    scales = {
        "tensor": ((1,), (1,)),
        "row": ((m,), (n,)),
        "block": ((k // 128, m), (n // 128, k // 128)),
    }[name]
    a, b, c = mt.spec((m, k), FP8), mt.spec((n, k), FP8), mt.spec((m, n), BF16)
    kernel = gemm_fp8.gemm_fp8_blocks if name == "block" else gemm_fp8.gemm_fp8
    sides = dict(zip(("block_M", "block_N", "num_stages", "threads"), tile, strict=True))
    if name == "row":
        constants["per_row"] = True
    return kernel.compile(a, b, *(mt.spec(s, F32) for s in scales), c, target="sm_90a", **sides, **constants)


FORMS = [
    *(("tensor", tile, False) for tile in ((128, 128, 6, 256), (128, 256, 4, 256))),
    *(("row", tile, False) for tile in ((128, 128, 6, 256), (128, 256, 4, 256))),
    *(("tensor", tile, True) for tile in ((128, 128, 6, 256), (128, 192, 4, 256), (192, 128, 4, 384))),
    *(("block", tile, True) for tile in ((128, 128, 6, 256), (64, 128, 6, 128), (192, 128, 4, 384))),
    *(("block", tile, True) for tile in ((128, 160, 5, 256), (128, 192, 4, 256))),
]


@pytest.mark.parametrize(("name", "tile", "promote"), FORMS, ids=str)
def test_what_becomes_of_it(name, tile, promote):
    """Roles, wgmma in flight until its partial sum is used, results by TMA; nothing spills. A partial sum is not
    cleared: the first step of each block of K replaces it. Scales of blocks share the barriers of the tiles."""
    kernel = compiled(name, tile, **({} if name == "block" else {"promote": promote}))
    ptx = kernel.asm["ptx"]
    assert kernel.notes == ()
    keeps = re.findall(r"wgmma\.mma_async.*, (\S+), 1, 1;", ptx)
    assert keeps == (["0"] if promote else keeps[:1]) + ["1"] * 3
    loads = ptx.count("cp.async.bulk.tensor.2d.shared")
    assert loads == (3 if name == "block" else 2)
    assert "selp.f32" not in ptx  # which columns have which scale is known for each register
    assert "stmatrix" in ptx
    assert ptx.count("mbarrier.init") == 2 * tile[2]
    if find_ptxas(ptx) is not None:
        assert kernel.spills == 0
        assert kernel.assembled.warnings == ()


def of_blocks(m, n, k, seed=0):
    """Operands, scales, a poisoned result and what it should be."""
    rng = np.random.default_rng(seed)
    a, b = gemm_fp8.matrices(m, n, k, "e4m3", "e4m3", rng)
    steps = -(-k // 128)
    scale_a, scale_b = gemm_fp8.factors(rng, steps, m), gemm_fp8.factors(rng, -(-n // 128), steps)
    along_k, along_n = np.arange(k) // 128, np.arange(n) // 128
    left = a.astype(np.float64) * scale_a.astype(np.float64).T[:, along_k]
    right = b.astype(np.float64) * scale_b.astype(np.float64)[along_n][:, along_k]
    return (a, b, scale_a, scale_b, poisoned((m, n), BF16)), left @ right.T


def test_teams(each_target):
    """Either half of the threads has every second tile: alone, and with sums that are added an iteration behind."""
    tiles = {"block_M": 64, "block_N": 64, "num_stages": 3, "threads": 256, "blocks": 2, "teams": 2}
    assert gemm_fp8.run(200, 136, 272, per_row=True, **tiles) <= gemm_fp8.BOUND
    assert gemm_fp8.run_blocks(200, 136, 400, **tiles) <= gemm_fp8.BOUND
    assert gemm_fp8.run_blocks(200, 136, 400, overlap=True, **tiles) <= gemm_fp8.BOUND


@pytest.mark.parametrize("name", ["tensor", "block"])
def test_overlapped(name):
    """Sums are added under the next product: in a turn of two iterations two products, the wait for both at its end."""
    kernel = compiled(name, (128, 128, 6, 256), overlap=True, **({} if name == "block" else {"promote": True}))
    ptx = kernel.asm["ptx"]
    assert kernel.notes == ()
    steps = re.findall(r"(commit)_group|(wait)_group\S+ (\d)|(add)\.f32|(\$L_for)\d+:", ptx)
    words = ["".join(step) for step in steps]
    words = [each for each, before in zip(words, ["", *words], strict=False) if each != before]
    assert "$L_for commit add commit wait1 add wait0 $L_for" in " ".join(words).replace(
        "wait0 $L_for_end", "wait0 $L_for"
    )
    if find_ptxas(ptx) is not None:
        assert kernel.spills == 0
        assert kernel.assembled.warnings == ()


@simulator_only
@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize(("schedule", "seed"), [("lazy", 0), ("random", 1)])
def test_schedules(schedule, seed, overlap):
    """Two warpgroups, blocks of several tiles, more steps than stages."""
    arguments, exact = of_blocks(256, 136, 528)
    kernel = gemm_fp8.gemm_fp8_blocks.compile(
        *arguments, target="sm_90a", num_stages=2, block_N=64, blocks=4, overlap=overlap
    )
    kernel.simulate(*arguments, schedule=schedule, seed=seed)
    assert error(arguments[-1], exact) <= gemm_fp8.BOUND


@simulator_only
def test_every_mutant_is_killed():
    """The scales are read by ordinary loads, and overwritten by TMA."""
    arguments, _ = of_blocks(64, 128, 400)
    tiles = {**SMALL, "num_stages": 2, "blocks": 1}
    kernel = gemm_fp8.gemm_fp8_blocks.compile(*arguments, target="sm_90a", **tiles)
    found, tried = surviving_mutants(kernel, arguments)
    assert tried >= 20
    # A tile is stored when the one before has been: that they are others, `hazards` does not know of global memory.
    assert [where for where in found if not where.endswith("cp.async.bulk.wait_group 0")] == []
    assert len(found) <= 1
