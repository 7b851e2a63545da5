"""Every example on sizes that do not fit its tiles, against float64; each within the bound that the example states.

In the simulator, which also looks for races, out-of-bounds accesses and uninitialised reads; with MINITILE_GPU=1 on the
GPU. All of it for each target of targets.py.
"""

from __future__ import annotations

import itertools

import gemm
import gemm_bias_gelu
import gemm_persistent
import gemv
import ml_dtypes
import numpy as np
import pytest
import rms_norm
import softmax
import split_k
import transpose
import vector_add
from support import USE_GPU, error, on_device, poisoned, random
from targets import AMD, EVERY
from thinned import thinned

import minitile as mt

pytestmark = [
    pytest.mark.usefixtures("target"),
    pytest.mark.parametrize("target", EVERY, indirect=True, scope="module"),
]
BOTH = (False, True)
TRANSPOSES = list(itertools.product(BOTH, repeat=2))
simulator_only = pytest.mark.skipif(USE_GPU, reason="the GPU has its own schedule")


@pytest.mark.parametrize("n", [0, 1, 17, 1000, 1024, 1025, 7919])
def test_vector_add(n):
    assert vector_add.run(n) <= 1e-7


@pytest.mark.parametrize("shape", [(0, 5), (1, 1), (17, 1), (1, 17), (64, 64), (65, 63), (127, 211), (8, 1000)])
def test_transpose(shape):
    assert transpose.run(*shape) == 0


@pytest.mark.parametrize("shape", [(0, 9), (1, 1), (1, 1000), (4, 1024), (5, 1023), (13, 17), (7, 2)])
def test_softmax(shape):
    assert softmax.run(*shape) <= 1e-6


@pytest.mark.parametrize("shape", [(0, 9), (1, 1), (1, 511), (4, 512), (5, 513), (13, 17), (3, 1031)])
def test_rms_norm(shape):
    assert rms_norm.run(*shape) <= 4e-3


@pytest.mark.parametrize("shape", [(0, 5), (1, 0), (5, 17), (9, 1000)])
@pytest.mark.parametrize("kernel", ["by_threads", "by_tiles"])
def test_gemv(kernel, shape):
    assert gemv.run(*shape, kernel=getattr(gemv, kernel)) <= 2e-3


@pytest.mark.parametrize("size", [(1, 1, 1), (17, 31, 13), (64, 128, 96), (65, 129, 33), (3, 257, 1000)])
def test_gemm_bias_gelu(size):
    assert gemm_bias_gelu.run(*size) <= 4e-3


@pytest.mark.parametrize("size", [(1, 1, 1), (17, 31, 13), (64, 128, 96), (200, 129, 40)])
def test_gemm_persistent(size):
    assert gemm_persistent.run(*size, block_M=64, block_N=64, blocks=3) <= 4e-3


@pytest.mark.parametrize("size", [(1, 1, 1), (17, 31, 13), (64, 64, 512), (65, 67, 131), (1, 64, 1000), (9, 5, 0)])
def test_split_k(size):
    """Fewer steps than splits, and steps that do not divide evenly, are among them."""
    assert split_k.run(*size) <= 1e-6


@pytest.mark.parametrize(("size", "name", "ta", "tb"), thinned([(136, 72, 96), (77, 45, 51)], gemm.DTYPES, *[BOTH] * 2))
def test_gemm_forms(name, ta, tb, size):
    assert gemm.run(*size, name, ta, tb) <= gemm.DTYPES[name][-1]


@pytest.mark.parametrize(
    ("size", "name", "form"), thinned([(136, 80, 96), (77, 45, 51), (1, 16, 400)], gemm.FP8, ["NT", "NN", "TT"])
)
def test_gemm_fp8(target, name, form, size):
    """NT goes to wgmma on sm_90a, the other forms to mma.sync."""
    ta, tb = (letter == "T" for letter in form)
    if target in ("sm_80", "gfx942"):  # gfx942's fp8 formats are others
        with pytest.raises(mt.MinitileError, match=f"no mf?ma on {target}"):
            gemm.run(*size, name, ta, tb)
    else:
        assert gemm.run(*size, name, ta, tb) <= gemm.FP8[name][-1]


@pytest.mark.parametrize(
    ("size", "ta", "tb"), thinned([(1, 1, 1), (17, 31, 13), (129, 127, 97), (0, 8, 8), (1, 1000, 17)], BOTH, BOTH)
)
def test_gemm_sizes(size, ta, tb):
    assert gemm.run(*size, "bf16", ta, tb) <= 4e-3


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize("k", [0, 1, 31, 32, 33, 64, 96, 97, 160])
def test_gemm_trips(k, stages):
    """From no step at all to more steps than stages."""
    assert gemm.run(64, 48, k, num_stages=stages, block_M=64, block_N=64) <= 4e-3


TILES = [  # block_M, block_N, block_K, num_stages, threads
    (16, 8, 16, 2, 32),
    (16, 16, 32, 1, 32),
    (32, 64, 16, 4, 64),
    (64, 32, 64, 2, 128),
    (48, 80, 48, 2, 96),
    (96, 96, 32, 3, 128),
    (128, 128, 64, 3, 256),
    (128, 256, 32, 4, 256),
    (256, 128, 32, 3, 256),
]


def fitted(target, tiles):
    """Tiles for warps of 32 as tiles for waves of 64: as many of them, and no less than 16 columns each."""
    names = ("block_M", "block_N", "block_K", "num_stages", "threads")
    named = dict(zip(names, tiles, strict=True))
    if target in AMD:
        named["block_N"] = max(16, named["block_N"])
        named["threads"] *= 2 if named["threads"] % 64 else 1
    return named


@pytest.mark.parametrize("tiles", TILES, ids=str)
def test_gemm_tiles(target, tiles):
    assert gemm.run(131, 150, 117, **fitted(target, tiles)) <= 4e-3


@pytest.mark.parametrize(("ta", "tb"), TRANSPOSES)
@pytest.mark.parametrize("name", ["bf16", "tf32", "int8"])
def test_gemm_small_tiles(target, name, ta, tb):
    tiles = fitted(target, (32, 16, 32, 2, 32))
    assert gemm.run(40, 24, 72, name, ta, tb, **tiles) <= gemm.DTYPES[name][-1]


def test_one_compiled_gemm_serves_every_size():
    kernel = gemm.gemm_nt_bf16().compile(block_M=64, block_N=64)
    rng = np.random.default_rng(0)
    for m, n, k in ((64, 64, 64), (1, 1, 1), (65, 63, 31), (7, 200, 0)):
        a, b = (random(rng, shape, ml_dtypes.bfloat16) for shape in ((m, k), (n, k)))
        c = on_device(poisoned((m, n), ml_dtypes.bfloat16))
        kernel(on_device(a), on_device(b), c)
        assert error(c, a.astype(np.float64) @ b.astype(np.float64).T) <= 4e-3


@simulator_only
@pytest.mark.parametrize(
    "schedule",
    [("eager", 0), ("lazy", 0), ("random", 0), *(pytest.param(("random", n), marks=pytest.mark.slow) for n in (1, 2))],
    ids=str,
)
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_gemm_schedules(stages, schedule):
    """Asynchronous copies may land at once, when waited for, or at any time between."""
    kernel = gemm.gemm_nt_bf16().compile(num_stages=stages, block_M=64, block_N=32)
    rng = np.random.default_rng(0)
    a, b = (random(rng, shape, ml_dtypes.bfloat16) for shape in ((70, 170), (40, 170)))
    c = poisoned((70, 40), ml_dtypes.bfloat16)
    kernel.simulate(a, b, c, schedule=schedule[0], seed=schedule[1])
    assert error(c, a.astype(np.float64) @ b.astype(np.float64).T) <= 4e-3


@simulator_only
@pytest.mark.parametrize("name", ["bf16", "f16", "int8"])
def test_the_checks_can_fail(name):
    """A result that is a little off is out of bounds: the bounds are no wider than rounding."""
    _, _, element, bound = gemm.DTYPES[name]
    rng = np.random.default_rng(0)
    a, b = random(rng, (32, 64), element), random(rng, (32, 64), element)
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    off = exact.copy()
    off[0, 0] += max(1.0, 0.01 * np.linalg.norm(exact))
    assert error(exact.astype(element if bound else np.int32), exact) <= bound < error(off, exact)


def test_the_target_is_the_one_meant(target):
    """Hopper's instructions are there when it is meant, and not when it is not; so are AMD's."""
    specs = [mt.spec((1024, 1024), "bfloat16")] * 3
    kernel = gemm.gemm_nt_bf16().compile(*specs)
    assert target in (kernel.target.name, "auto")
    assert ("wgmma.mma_async" in kernel.text) == (kernel.target.name == "sm_90a")
    assert ("v_mfma_f32_16x16x16_bf16" in kernel.text) == (kernel.target.name == "gfx942")
    assert ("v_mfma_f32_16x16x32_bf16" in kernel.text) == (kernel.target.name == "gfx950")
