"""GEMMs for few rows or uneven waves: A and B swapped, K split over blocks that add up in one launch, stream-K.

In the simulator every access is checked, also between blocks; each fence, wait and barrier is deleted in turn.
"""

from __future__ import annotations

import gemm_split_k
import gemm_stream_k
import gemm_swapped
import ml_dtypes
import numpy as np
import pytest
from mutation_testing import surviving_mutants
from support import USE_GPU, error, poisoned, random

import minitile as mt

BF16 = ml_dtypes.bfloat16
by_target = pytest.mark.usefixtures("target")
needs_simulator = pytest.mark.skipif(USE_GPU, reason="looks for races")
SMALL = {"block_M": 64, "block_N": 64, "threads": 128}


@by_target
@pytest.mark.parametrize("size", [(0, 8, 8), (1, 1, 1), (3, 72, 0), (16, 64, 64), (17, 67, 131), (40, 136, 520)])
@pytest.mark.parametrize("rows", [16, 64])
def test_swapped(size, rows):
    assert gemm_swapped.run(*size, block_M=rows) <= 4e-3


@by_target
@pytest.mark.parametrize("size", [(0, 8, 8), (1, 1, 1), (3, 72, 0), (64, 64, 512), (65, 67, 131), (9, 136, 520)])
@pytest.mark.parametrize("how", [{}, {"share": True, "splits": 3}, {"share": True, "swap": True}], ids=str)
def test_split_k(size, how):
    """Among them fewer steps than splits, and steps that do not divide evenly."""
    assert gemm_split_k.run(*size, **how) <= 4e-3


@by_target
@pytest.mark.parametrize("cluster", [2, 4])
@pytest.mark.parametrize(
    ("kernel", "how"), [(gemm_swapped, {"block_M": 64}), (gemm_split_k, {"splits": 2, "share": True})]
)
def test_blocks_that_share_the_rows(cluster, kernel, how):
    """Four tiles along N, the last one cut off: in clusters each block copies its part of A for all (on sm_90a)."""
    assert kernel.run(70, 250, 392, **how, cluster=cluster) <= 4e-3


@by_target
@pytest.mark.parametrize(
    ("size", "blocks"),
    [
        ((1, 1, 1), 5),  # more blocks than steps
        ((0, 8, 8), 5),
        ((3, 72, 0), 4),
        ((64, 192, 320), 4),  # fewer tiles than blocks
        ((64, 192, 320), 3),  # as many: none is shared
        ((130, 200, 136), 5),  # whole waves, and tiles that are shared
        ((70, 67, 500), 13),  # several blocks for a tile
    ],
)
def test_stream_k(size, blocks):
    assert gemm_stream_k.run(*size, blocks=blocks, **SMALL) <= 4e-3


def case(kind: str, integers: bool = False) -> tuple[mt.Kernel, list[np.ndarray], np.ndarray, dict]:
    """A small problem: a kernel ("last" and "share" of split-K, or "stream"), its arguments, its result, its tiles."""
    m, n, k = (128, 448, 136) if kind == "stream" else (128, 64, 392)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, s).astype(BF16) if integers else random(rng, s, BF16) for s in ((m, k), (n, k)))
    arrays = [a, b, poisoned((m, n), BF16), poisoned((3, m, n)), np.zeros(1, np.int32)]
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    tiles = {"block_M": 128, "block_N": 64, "block_K": 64, "num_stages": 2, "threads": 256, "rows": 32}
    if kind == "stream":
        arrays[3:] = poisoned((7 + 3, 128, 64)), np.zeros(7, np.int32)
        return gemm_stream_k.gemm_stream_k, arrays, exact, {**tiles, "blocks": 3}
    return gemm_split_k.gemm_split_k, arrays, exact, {**tiles, "splits": 3, "share": kind == "share"}


@needs_simulator
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("kind", ["last", "share", "stream"])
def test_the_same_bits_each_time(kind, target):
    """Whichever block comes last; and the workspace and the counters of one launch do for the next one."""
    kernel, arrays, exact, tiles = case(kind)
    compiled = kernel.compile(*arrays, target=target, **tiles)
    results = []
    for schedule, seed in (("lazy", 0), ("eager", 0), ("random", 1)):
        arrays[2].fill(np.nan)
        compiled.simulate(*arrays, schedule=schedule, seed=seed)
        assert not arrays[4].any()
        assert error(arrays[2], exact) <= 4e-3
        results.append(arrays[2].view(np.int16).copy())
    assert all(np.array_equal(each, results[0]) for each in results)


TO_SPARE = {  # what is right all the same, see test_mutations.py
    "cp.async.bulk.commit_group": "a group for each chunk, also where one wait is for all of them",
    "bar.sync 1, 256": "each round of a loop writes other rows of C",
    "bar.sync 0": "each round of a loop writes other rows of C",
    "bar.sync %group, 128": "where K has more steps than the ring has slots, its barriers tell as much",
}


@pytest.mark.slow
@needs_simulator
@pytest.mark.parametrize(
    ("kind", "target"),
    [
        ("last", "sm_80"),
        ("share", "sm_90a"),
        *(
            pytest.param(kind, target, marks=pytest.mark.slow)
            for kind, target in (("share", "sm_80"), ("stream", "sm_80"), ("last", "sm_90a"), ("stream", "sm_90a"))
        ),
    ],
)
def test_every_mutant_is_killed(kind, target):
    kernel, arrays, _, tiles = case(kind, integers=True)
    compiled = kernel.compile(*arrays, target=target, **tiles)
    found, tried = surviving_mutants(compiled, arrays)
    assert tried >= (8 if target == "sm_80" else 24)
    assert sum("fence.acq_rel.gpu" in line for line in compiled.asm["ptx"].splitlines()) == 2
    left = [each for each in found if each.split(": ")[-1] not in TO_SPARE]
    assert left == []
    assert len(found) <= 3


@pytest.mark.slow
@needs_simulator
def test_too_many_blocks_wait_for_each_other():
    """Blocks that share are all there at one time; what happens otherwise is said, not waited for."""
    kernel, arrays, _, tiles = case("stream")
    arrays[:2] = [np.ones((len(x), 64 * 20), BF16) for x in arrays[:2]]
    arrays[3] = poisoned((7 + 40, 128, 64))
    compiled = kernel.compile(*arrays, target="sm_90a", **{**tiles, "blocks": 40})
    with pytest.raises(mt.SimulationError, match="later CTAs of this grid have not started"):
        compiled.simulate(*arrays)
