"""Pairs of blocks on sm_100a (docs/blackwell.md): a GEMM whose cluster of two shares B is multiplied by both as one,
right and race-free in all schedules, and nothing of the synchronisation is to spare."""

from __future__ import annotations

import re
from typing import Any

import gemm
import gemm_persistent
import ml_dtypes
import numpy as np
import pytest
from mutation_testing import TAKEN_OR_WEAKER, surviving_mutants, with_reasons
from support import error, poisoned, random
from test_blackwell import launch

from minitile.runtime.sim.mutate.ptx import removals

TARGETS = ("sm_100a", pytest.param("sm_103a", marks=pytest.mark.slow))
BF16 = ml_dtypes.bfloat16
SCHEDULES = ("lazy", "eager", "random")
pytestmark = pytest.mark.parametrize("target", TARGETS)


def make(name: str, ta: bool, tb: bool) -> Any:
    """The plain GEMM, with results as it adds them up."""
    dtype, accumulate, _, _ = (gemm.DTYPES | gemm.FP8)[name]
    return gemm.make_gemm(dtype, accumulate, accumulate, ta, tb)


def multiplied(
    target: str,
    m: int,
    n: int,
    k: int,
    name: str = "bf16",
    ta: bool = False,
    tb: bool = True,
    schedule: str = "lazy",
    cluster: tuple[int, int] = (1, 2),
    **tiles: Any,
) -> tuple[float, str]:
    """The relative error, and the PTX."""
    element = (gemm.DTYPES | gemm.FP8)[name][2]
    rng = np.random.default_rng(m + n + k)
    a, b = random(rng, (k, m) if ta else (m, k), element), random(rng, (n, k) if tb else (k, n), element)
    c = poisoned((m, n), np.int32 if name == "int8" else np.float32)
    tiles = {"block_N": 64, "num_stages": 2, "cluster": cluster, **tiles}
    ptx = launch(make(name, ta, tb), (a, b, c), target, schedule, **tiles)
    return error(c, (a.T if ta else a).astype(np.float64) @ (b.T if tb else b).astype(np.float64)), ptx


def pairs(ptx: str) -> bool:
    """Whether all of a kernel's tcgen05 is a pair's, by one issuer."""
    groups = set(re.findall(r"tcgen05\.(?:mma|alloc|dealloc|commit|relinquish_alloc_permit)\.(cta_group::\d)", ptx))
    assert len(groups) == 1
    return groups == {"cta_group::2"}


SIZES = [(256, 64, 32), (1, 17, 264), (300, 72, 0), (131, 136, 104)]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("tb", [False, True])
def test_sizes(target: str, tb: bool, size: tuple[int, int, int], schedule: str) -> None:
    found, ptx = multiplied(target, *size, tb=tb, schedule=schedule, block_N=128)
    assert found <= 1e-5
    assert pairs(ptx) == (tb or size[1] % 8 == 0)  # TMA wants rows of whole 16 bytes


FORMS = [
    ("f16", True, True),
    ("bf16", True, False),
    ("tf32", False, True),
    ("e4m3", False, True),
    ("e5m2", False, False),
    ("int8", False, True),
]


@pytest.mark.parametrize(("name", "ta", "tb"), FORMS)
def test_forms(target: str, name: str, ta: bool, tb: bool) -> None:
    if name == "int8" and target == "sm_103a":
        pytest.skip("ptxas refuses int8 for sm_103a")
    found, ptx = multiplied(target, 200, 144, 144, name, ta, tb, "random", block_N=256, threads=256)
    assert found <= (gemm.DTYPES | gemm.FP8)[name][3]
    assert pairs(ptx)


TILES: list[dict[str, Any]] = [
    {"block_N": 256, "block_K": 64, "threads": 256},
    {"block_M": 256, "threads": 256},
    {"block_N": 96, "threads": 256, "num_stages": 3},
    {"block_N": 32},
]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("tiles", TILES)
def test_tiles(target: str, tiles: dict[str, Any], schedule: str) -> None:
    found, ptx = multiplied(target, 300, 200, 136, schedule=schedule, **tiles)
    assert found <= 1e-5
    assert pairs(ptx)


def test_halves(target: str) -> None:
    """Products of 256 rows; each block copies half of B's rows, and announces nothing but on the even one's barrier."""
    _, ptx = multiplied(target, 256, 128, 64, block_N=128)
    words = {int(each) for each in re.findall(r"mov\.b32 %\w+, (\d{8,});", ptx)}
    assert any(word >> 24 & 31 == 256 >> 4 and word >> 17 & 63 == 128 >> 3 for word in words)
    assert re.search(r"smem\[\d+:\d+\] is B_shared, 2 versions", ptx)
    ((start, end),) = re.findall(r"smem\[(\d+):(\d+)\] is B_shared", ptx)
    assert int(end) - int(start) == 2 * 64 * 32 * 2
    assert re.findall(r"expect_tx\S+ _, \[[^\]]+\], (\d+);", ptx) == [str(2 * (128 + 64) * 32 * 2)]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("size", [(600, 130, 72), (1, 17, 8), (257, 193, 0)])
def test_persistent(target: str, size: tuple[int, int, int], schedule: str) -> None:
    """Epilogues beside the next tile's products: either of two accumulators is free when both blocks have loaded it."""
    m, n, k = size
    rng = np.random.default_rng(m)
    a, b, c = random(rng, (m, k), BF16), random(rng, (n, k), BF16), poisoned((m, n), BF16)
    tiles = {"blocks": 2, "block_N": 64, "cluster": 2}
    ptx = launch(gemm_persistent.gemm_persistent, (a, b, c), target, schedule, **tiles)
    assert pairs(ptx)
    assert error(c, a.astype(np.float64) @ b.astype(np.float64).T) <= 4e-3


NONE: list[tuple[dict[str, Any], str]] = [
    ({"cluster": (2, 1)}, "both blocks of the cluster have the same A_shared, which multiplies from the left"),
    ({"cluster": (1, 4)}, "blocks of a cluster of 4 fill each other's slots"),
    ({"block_M": 64}, "a pair's products have 256 rows"),
    ({"tb": False, "block_N": 16}, "half of 16 columns is not whole panels"),
]


@pytest.mark.parametrize(
    ("given", "why"), [NONE[0], *(pytest.param(*each, marks=pytest.mark.slow) for each in NONE[1:])]
)
def test_what_is_no_pair(target: str, given: dict[str, Any], why: str) -> None:
    """Other clusters, and what has no halves, copy in common as before, and multiply for themselves."""
    tiles = {"block_N": 64, **given}
    found, ptx = multiplied(target, 300, 136, 104, schedule="random", **tiles)
    assert found <= 1e-5
    assert "cta_group::2" not in ptx
    tb = tiles.pop("tb", True)
    shapes = (300, 104), (136, 104) if tb else (104, 136), (300, 136)
    arrays = [poisoned(shape, BF16) for shape in shapes[:2]] + [poisoned(shapes[2])]
    compiled = make("bf16", False, tb).compile(*arrays, target=target, **{"num_stages": 2, "cluster": (1, 2), **tiles})
    assert any(note == f"products are issued by those who load them: {why}" for note in compiled.notes), compiled.notes


# What may be weaker: a commit's arrival is known in any scope, and to relaxed waits; tcgen05's fences compose with
# relaxed operations (docs/blackwell.md).
WEAKER = (
    (".acquire.cta", "slot free"),
    (".relaxed.cluster", "slot free"),
    (".relaxed.cluster", "accumulator loaded"),
)


@pytest.mark.slow
@TAKEN_OR_WEAKER
@pytest.mark.parametrize("persistent", [False, True])
def test_mutants(target: str, persistent: bool, candidates: Any) -> None:
    """Without any one of its waits, fences, barriers, arrivals, commits, or its dealloc, a pair is at fault; and where
    one is weaker, but for what is named."""
    rng = np.random.default_rng(5)
    a, b = (random(rng, (rows, 136), BF16) for rows in (600, 64))
    c = poisoned((600, 64), BF16 if persistent else np.float32)
    kernel = gemm_persistent.gemm_persistent if persistent else make("bf16", False, True)
    tiles = (
        {"blocks": 2, "block_N": 32, "cluster": 2, "num_stages": 2}
        if persistent
        else {"block_N": 32, "cluster": (1, 2), "num_stages": 2}
    )
    compiled = kernel.compile(a, b, c, target=target, **tiles)
    assert pairs(compiled.asm["ptx"])
    survivors, count = surviving_mutants(compiled, (a, b, c), candidates)
    assert count >= 19
    known = () if candidates is removals else WEAKER
    found = with_reasons(compiled, survivors)
    assert [each for each, why in found if not any(word in each and reason in why for word, reason in known)] == []
