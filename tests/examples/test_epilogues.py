"""GEMMs with epilogues of the user's own: right on every target, and still by roles, wgmma and TMA on sm_90a."""

from __future__ import annotations

import gemm_epilogues
import ml_dtypes
import numpy as np
import pytest
from support import USE_GPU, error, poisoned, random
from targets import EVERY

import minitile as mt
import minitile.language as T
from minitile.backends.nvidia.assemble import find_ptxas
from minitile.runtime.launch_info import TensorMapParam
from tests.auto_target import auto_target

SMALL = gemm_epilogues.Tiles(64, 64, 32, 3, 128, 3)
FULL = gemm_epilogues.Tiles(128, 128, 64, 4, 256, 2)
TEAMS = gemm_epilogues.Tiles(128, 192, 64, 3, 256, 2, teams=2)
BF16, F32, FP8 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32), np.dtype(ml_dtypes.float8_e4m3fn)
SIZES = [(1, 17, 13), (65, 144, 40), (64, 72, 0), (0, 8, 8)]
every = auto_target(*EVERY, scope="module")
each_target = pytest.mark.usefixtures("every")


@each_target
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_linear(size):
    assert gemm_epilogues.run_linear(*size, tiles=SMALL) <= gemm_epilogues.BOUND


@each_target
@pytest.mark.parametrize("name", [activation.__name__ for activation in gemm_epilogues.ACTIVATIONS])
def test_activations(name):
    """By name: the module may have been loaded anew since."""
    activation = getattr(gemm_epilogues, name)
    assert gemm_epilogues.run_linear(65, 144, 40, activation, tiles=SMALL) <= gemm_epilogues.BOUND


@each_target
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_residual(size):
    assert gemm_epilogues.run_residual(*size, tiles=SMALL) <= gemm_epilogues.BOUND


@each_target
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_gated(size):
    assert gemm_epilogues.run_gated(*size, tiles=SMALL) <= gemm_epilogues.BOUND


@each_target
@pytest.mark.parametrize("run", [1, 8, 16])
@pytest.mark.parametrize("size", [(1, 16, 13), (65, 144, 40), (64, 80, 0), (0, 16, 8)], ids=str)
def test_interleaved(size, run):
    """Pairs of columns that are neighbours, and in runs, also of as many as matrix instructions keep in other lanes."""
    assert gemm_epilogues.run_interleaved(*size, tiles=SMALL, run=run) <= gemm_epilogues.BOUND


@each_target
@pytest.mark.parametrize(("size", "scale"), [*((size, 16.0) for size in SIZES[:-1]), (SIZES[1], 400.0)], ids=str)
def test_quantized(size, scale):
    """The largest scale saturates."""
    results, largest = gemm_epilogues.run_quantized(*size, scale, tiles=SMALL)
    assert results <= gemm_epilogues.FP8_BOUND
    assert largest <= 1e-6


def specs(kernel, m=4096, n=4096, k=4096):
    """What a kernel takes, as sizes that tiles divide."""
    a, b, c = mt.spec((m, k), BF16), mt.spec((n, k), BF16), mt.spec((m, n), BF16)
    return {
        gemm_epilogues.linear: (a, b, mt.spec((n,), F32), c),
        gemm_epilogues.residual: (a, b, c, c, 1.0, 1.0),
        gemm_epilogues.quantized: (a, b, mt.spec((1,), F32), mt.spec((m, n), FP8), mt.spec((m,), F32), mt.spec(1, F32)),
        gemm_epilogues.gated: (a, b, b, c),
        gemm_epilogues.interleaved: (a, mt.spec((2 * n, k), BF16), c),
    }[kernel]


TWO = {"teams": 2}
# A stored box has columns of 128 bytes, swizzled, where these divide a row of the tile. Rows of 192 bytes leave as two
# boxes of 96, unswizzled: of 8 such rows, two at a time start in the same banks. Of whole rows four would, and swizzled
# panels, of 64 bytes, would be three boxes.
LARGE = {  # kernel, constants, tiles, boxes that TMA loads, columns of one that it stores
    "linear": ("linear", {"activation": gemm_epilogues.gelu}, (128, 128, 64, 4), 2, 64),
    "residual": ("residual", {}, (128, 128, 64, 4), 4, 64),
    "quantized": ("quantized", {}, (128, 128, 64, 4), 2, 128),
    "gated": ("gated", {}, (128, 128, 64, 4), 3, 64),
    "wide linear": ("linear", {"activation": gemm_epilogues.gelu}, (128, 256, 64, 3), 2, 64),
    "wide residual": ("residual", {}, (128, 256, 64, 3), 6, 64),
    "wide quantized": ("quantized", {}, (128, 256, 64, 3), 2, 128),
    "linear of teams": ("linear", {"activation": gemm_epilogues.gelu}, (128, 192, 64, 4, TWO), 2, 64),
    "residual of teams": ("residual", {}, (128, 192, 64, 4, TWO), 5, 64),
    "quantized of teams": ("quantized", {}, (128, 192, 64, 4, TWO), 2, 96),
    "gated of teams": ("gated", {}, (128, 96, 64, 4, TWO), 3, 48),
    "interleaved": ("interleaved", {}, (128, 256, 64, 3), 2, 64),
    "interleaved of teams": ("interleaved", {}, (128, 192, 64, 4, TWO), 2, 48),
}


def large(m, n, k, stages, more=None):
    return gemm_epilogues.Tiles(m, n, k, stages, 256, **(more or {}))


def stored_boxes(name, tiles, columns):
    """How many boxes the code of a kernel stores: each team's code has one for each 64 rows (those of one wgmma) of a
    warpgroup's and each `columns` of the result's. Of interleaved columns, two make one of the result."""
    warpgroups = tiles.threads // 128 // tiles.teams
    across = tiles.n // 2 if name == "interleaved" else tiles.n
    assert tiles.m % (64 * warpgroups) == across % columns == 0
    return tiles.teams * (tiles.m // (64 * warpgroups)) * (across // columns)


MORE = ("wide residual", "wide quantized", "residual of teams", "quantized of teams")  # as others, in another mix


@pytest.mark.parametrize("case", [pytest.param(case, marks=pytest.mark.slow if case in MORE else ()) for case in LARGE])
def test_large_tiles(case):
    """The main loop is what it is without an epilogue: a warp that copies, wgmma, TMA's stores; and nothing spills."""
    name, constants, tile, loads, columns = LARGE[case]
    tiles = large(*tile)
    kernel = getattr(gemm_epilogues, name)
    done = kernel.compile(*specs(kernel), tiles=tiles, target="sm_90a", **constants)
    ptx = done.asm["ptx"]
    assert done.notes == ()
    assert "wgmma.mma_async" in ptx
    assert ptx.count("cp.async.bulk.tensor.2d.shared") == loads
    assert ptx.count("cp.async.bulk.tensor.2d.global") == stored_boxes(name, tiles, columns)
    maps = [p for p in done.launch_info.params if isinstance(p, TensorMapParam) and p.tensor == "C"]
    assert [map_.box for map_ in maps] == [(64, columns)]
    assert ("stmatrix" in ptx) == (name != "quantized")  # 8-bit fragments have two neighbours where stmatrix wants four
    if find_ptxas(ptx) is not None:
        assert done.spills == 0


@each_target
@pytest.mark.parametrize("name", ["linear", "residual", "quantized", "gated", "interleaved"])
def test_teams(name):
    """One half of the threads is at its epilogue while the other one multiplies."""
    tiles = gemm_epilogues.Tiles(64, 48 if name == "gated" else 96, 32, 3, 256, 2, teams=2)
    run = getattr(gemm_epilogues, f"run_{name}")
    if name == "quantized":
        results, largest = run(200, 144, 72, tiles=tiles)
        assert results <= gemm_epilogues.FP8_BOUND
        assert largest <= 1e-6
        return
    assert run(200, 136, 72, tiles=tiles) <= gemm_epilogues.BOUND


def test_too_many_accumulators_for_teams():
    """Two of 128x128 would take all registers of one warpgroup: both share each tile."""
    done = gemm_epilogues.gated.compile(
        *specs(gemm_epilogues.gated), tiles=large(128, 128, 64, 4, TWO), target="sm_90a"
    )
    assert any("one team instead of several: 256 accumulators" in note for note in done.notes)
    if find_ptxas(done.asm["ptx"]) is not None:
        assert done.spills == 0


@pytest.mark.skipif(USE_GPU, reason="the GPU has its own schedule")
@pytest.mark.parametrize("schedule", ["lazy", "random"])
@pytest.mark.parametrize(
    ("name", "tiles"),
    [
        *((name, FULL) for name in ("linear", "residual", "quantized", "gated")),
        *((name, TEAMS) for name in ("linear", "residual", "quantized", "interleaved")),
    ],
    ids=lambda x: x if isinstance(x, str) else f"{x.teams} of {x.m}x{x.n}",
)
def test_roles(name, tiles, schedule):
    """Two consumer warpgroups, blocks of several tiles, tails: whatever lands when."""
    rng = np.random.default_rng(3)
    m, n, k = 264, 136, 136
    a, b, d = (random(rng, shape, BF16) for shape in ((m, k), (n, k), (m, n)))
    product = a.astype(np.float64) @ b.astype(np.float64).T
    bias, c = random(rng, (n,)), poisoned((m, n), FP8 if name == "quantized" else BF16)
    largest = np.zeros(m, np.float32), np.zeros(1, np.float32)
    u = random(rng, (n, k), BF16)
    pairs = np.stack([b.reshape(-1, 8, k), u.reshape(-1, 8, k)], axis=1).reshape(-1, k)
    gate = product / (1 + np.exp(-product)) * (a.astype(np.float64) @ u.astype(np.float64).T)
    arguments, exact, bound = {
        "linear": ((a, b, bias, c), np.maximum(product + bias, 0), 4e-3),
        "residual": ((a, b, d, c, 2.0, -1.0), 2 * product - d.astype(np.float64), 4e-3),
        "quantized": ((a, b, np.ones(1, np.float32), c, *largest), product, 4e-2),
        "interleaved": ((a, pairs, c), gate, 4e-3),
        "gated": ((a, b, u, c), gate, 4e-3),
    }[name]
    constants = {"activation": gemm_epilogues.relu} if name == "linear" else {}
    kernel = getattr(gemm_epilogues, name).compile(*arguments, tiles=tiles, target="sm_90a", **constants)
    kernel.simulate(*arguments, schedule=schedule, seed=1)
    assert error(c, exact) <= bound
    if name == "quantized":
        assert error(largest[0], np.abs(product).max(axis=1)) <= 1e-6
        assert error(largest[1], np.abs(product).max(keepdims=True)) <= 1e-6


@each_target
def test_any_function():
    """An epilogue is whatever a user writes: a lambda with a constant of its own."""
    limit = 0.75
    x = gemm_epilogues.Operands(48, 40, 24, 0)
    bias, c = np.zeros(40, np.float32), poisoned((48, 40), BF16)
    kernel = gemm_epilogues.linear.compile(
        x.a, x.b, bias, c, activation=lambda v: T.min(T.max(v, -limit), limit), tiles=SMALL
    )
    kernel.simulate(x.a, x.b, bias, c)
    assert error(c, np.clip(x.product, -limit, limit)) <= 4e-3
