"""Products with scales in packs on sm_100a (examples/gemm_mx.py, gemm_mx_packed): copied by TMA, multiplied by a warp
of its own or by a pair of blocks, right and race-free in all schedules, and nothing of the synchronisation is to
spare."""

from __future__ import annotations

import re
from typing import Any

import gemm_mx
import numpy as np
import pytest
from mutation_testing import TAKEN_OR_WEAKER, surviving_mutants, with_reasons
from support import error, poisoned
from test_blackwell_pairs import WEAKER, pairs
from test_blackwell_scaled import FORMS, KINDS, operands

import minitile as mt
import minitile.language as T
from minitile.runtime.sim.mutate.ptx import removals

TARGETS = ("sm_100a", pytest.param("sm_103a", marks=pytest.mark.slow))
SCHEDULES = ("lazy", "eager", "random")
pytestmark = pytest.mark.parametrize("target", TARGETS)


def packed(m: int, n: int, k: int, a: str, b: str, block: int) -> tuple[list[np.ndarray], np.ndarray]:
    """A kernel's arguments, and the exact product."""
    arrays, exact = operands(m, n, k, a, b, block)
    arrays[2:4] = [gemm_mx.pack_scales(scales) for scales in arrays[2:4]]
    return arrays, exact


def run(
    target: str, size: tuple[int, int, int], form: tuple[str, str, int], schedule: str, **tiles: int
) -> tuple[float, Any]:
    """The relative error, and what was compiled."""
    arrays, exact = packed(*size, *form)
    compiled = gemm_mx.gemm_mx_packed(*form).compile(*arrays, target=target, **tiles)
    assert compiled.spills == 0
    assert compiled.assembled.warnings == ()
    compiled.simulate(*arrays, schedule=schedule, seed=3)
    return error(arrays[-1], exact), compiled


def test_packs(target: str) -> None:
    """cuBLAS's layout: of row r and block s the byte 16 · (r % 32) + 4 · (r / 32) + s of a pack."""
    scales = np.arange(200 * 6, dtype=np.int64).reshape(200, 6)
    made = gemm_mx.pack_scales(scales)
    assert made.shape == (2, 2, 32, 16)
    for r, s in ((0, 0), (33, 1), (127, 3), (128, 4), (199, 5)):
        place = 16 * (r % 32) + 4 * (r % 128 // 32) + s % 4
        assert made[r // 128, s // 4].reshape(-1)[place] == scales[r, s]
    assert made.reshape(2, 2, -1)[1, 1].reshape(32, 4, 4)[:, 3].max() == 0  # rows that are not there


SIZES = [(200, 136, 320), (1, 16, 64), (129, 264, 0)]
TILES: list[dict[str, int]] = [
    {"blocks": 2},
    {"blocks": 1, "block_N": 256, "threads": 256},
    {"blocks": 3, "block_M": 256, "threads": 256, "num_stages": 2},
    {"blocks": 2, "block_K": 256, "num_stages": 2},
    {"blocks": 2, "num_stages": 0},
]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("tiles", TILES)
@pytest.mark.parametrize("size", SIZES)
def test_products(
    target: str, size: tuple[int, int, int], tiles: dict[str, int], form: tuple[str, str, int], schedule: str
) -> None:
    found, compiled = run(target, size, form, schedule, **tiles)
    assert found <= 1e-6
    ptx = compiled.asm["ptx"]
    assert f"tcgen05.mma.cta_group::1.kind::{KINDS[form[0], form[2]]}" in ptx
    assert ("issue_apart" in ptx) == (tiles.get("num_stages") != 0)
    assert "tcgen05.st" not in ptx  # no scale goes through registers


PAIRS: list[dict[str, int]] = [
    {"blocks": 2},
    {"blocks": 4, "block_N": 256, "threads": 256},
    {"blocks": 2, "block_M": 256, "threads": 256, "num_stages": 2},
]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("tiles", PAIRS)
@pytest.mark.parametrize("size", [(300, 136, 192), (1, 16, 64), (257, 264, 0)])
def test_pairs(
    target: str, size: tuple[int, int, int], tiles: dict[str, int], form: tuple[str, str, int], schedule: str
) -> None:
    """Each block has its scales of A, and all of B, and the even one's issuer copies those of both."""
    found, compiled = run(target, size, form, schedule, cluster=2, **tiles)
    assert found <= 1e-6
    ptx = compiled.asm["ptx"]
    assert pairs(ptx)
    assert f"tcgen05.mma.cta_group::2.kind::{KINDS[form[0], form[2]]}" in ptx
    assert set(re.findall(r"tcgen05\.cp\.(\S+)", ptx)) == {"cta_group::2.32x128b.warpx4"}


@pytest.mark.parametrize(
    ("tiles", "versions", "columns"),
    [({}, 2, 512), ({"block_N": 256, "threads": 256}, 1, 512), ({"block_M": 256, "threads": 256}, 1, 512)],
)
def test_columns(target: str, tiles: dict[str, int], versions: int, columns: int) -> None:
    """A second accumulator where there is room for it beside the scales, which lie behind both."""
    arrays, _ = packed(512, 512, 256, "e4m3", "e4m3", 32)
    compiled = gemm_mx.gemm_mx_packed("e4m3", "e4m3").compile(*arrays, target=target, **tiles)
    m, n = tiles.get("block_M", 128), tiles.get("block_N", 128)
    assert f"tmem<{'2 versions x ' if versions == 2 else ''}{m}x{n}xf32>" in compiled.asm["tile_ir"]
    assert f"column = {versions * m // 128 * n}, stride = {m // 32}" in compiled.asm["tile_ir"]
    assert re.search(rf"tcgen05\.alloc\S+ \[\S+\], {columns};", compiled.asm["ptx"])


@pytest.mark.slow
@TAKEN_OR_WEAKER
@pytest.mark.parametrize("form", [FORMS[1], FORMS[3]])
@pytest.mark.parametrize("cluster", [1, 2])
def test_mutants(target: str, cluster: int, form: tuple[str, str, int], candidates: Any) -> None:
    """Without any one of its waits, fences, barriers, arrivals, commits, or its dealloc, it is at fault; and where one
    is weaker, but for what is named with pairs."""
    arrays, _ = packed(600, 128, 640, *form)
    tiles = {"blocks": cluster, "cluster": cluster, "num_stages": 2}
    compiled = gemm_mx.gemm_mx_packed(*form).compile(*arrays, target=target, **tiles)
    assert pairs(compiled.asm["ptx"]) == (cluster == 2)
    survivors, count = surviving_mutants(compiled, tuple(arrays), candidates)
    assert count >= (26 if candidates is removals else 14)
    known = () if candidates is removals else WEAKER
    found = with_reasons(compiled, survivors)
    assert [each for each, why in found if not any(word in each and reason in why for word, reason in known)] == []


@mt.kernel
def other_scales(
    A: T.Tensor(("M", "K"), T.float8_e4m3fn),
    B: T.Tensor(("N", "K"), T.float8_e4m3fn),
    SFA: T.Tensor(("MP", "KP", 32, 16), T.uint8),
    SFB: T.Tensor(("NP", "KP", 32, 16), T.uint8),
    C: T.Tensor(("M", "N"), T.float32),
    own=False,
):
    """A cluster of two whose blocks have the same B; with `own` not its scales."""
    M, N = C.shape
    with T.Kernel(T.ceildiv(M, 128), T.ceildiv(N, 128), threads=128, cluster=(2, 1)) as (by, bx):
        A_shared = T.alloc_shared((128, 128), A.dtype)
        B_shared = T.alloc_shared((128, 128), B.dtype)
        SFA_shared = T.alloc_shared((1, 1, 32, 16), T.uint8)
        SFB_shared = T.alloc_shared((1, 1, 32, 16), T.uint8)
        C_local = T.alloc_fragment((128, 128), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(A.shape[1], 128), num_stages=2):
            T.copy(A[by * 128, k * 128], A_shared)
            T.copy(B[bx * 128, k * 128], B_shared)
            T.copy(SFA[by, k, 0, 0], SFA_shared)
            T.copy(SFB[by if own else bx, k, 0, 0], SFB_shared)
            T.gemm_blockscaled(A_shared, B_shared, C_local, SFA_shared, SFB_shared, transpose_B=True)
        T.copy(C_local, C[by * 128, bx * 128])


@pytest.mark.parametrize("own", [False, True])
def test_scales_of_a_pair(target: str, own: bool) -> None:
    """Whose scales a pair takes for the other block's half of B is not documented where they differ: it is no pair."""
    (x, sx), (y, sy) = gemm_mx.operands(256, 128, 256, "e4m3", "e4m3")
    sy = np.concatenate([sy, sy + 1])
    c = poisoned((256, 128))
    arrays = [x, y, gemm_mx.pack_scales(sx), gemm_mx.pack_scales(sy), c]
    compiled = other_scales.compile(*arrays, target=target, own=own)
    assert pairs(compiled.asm["ptx"]) != own
    assert any("the cluster have other scales in SFB_shared" in note for note in compiled.notes) == own
    compiled.simulate(*arrays, schedule="random")
    exact = gemm_mx.exact(x, sx) @ gemm_mx.exact(y, sy[:128]).T
    exact[128:] *= 2 if own else 1
    assert error(c, exact) <= 1e-6


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_rows_of_scales_by_tma(target: str, schedule: str) -> None:
    """Scales in rows that are long enough for TMA lie as it brings them: threads store them."""
    arrays, exact = operands(130, 64, 512, "e2m1", "e2m1", 16)
    kernel = gemm_mx.gemm_mx("e2m1", "e2m1", 16)
    compiled = kernel.compile(*arrays, target=target, block_N=64, block_K=256, threads=128)
    assert "tma_copy %SFA" in compiled.asm["tile_ir"]
    assert "tcgen05.cp" not in compiled.asm["ptx"]
    compiled.simulate(*arrays, schedule=schedule)
    assert error(arrays[-1], exact) <= 1e-6
