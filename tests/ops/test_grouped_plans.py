"""Plans of groups and batches: what is chosen, and that every tile there is to choose compiles without a spill and
stores by TMA."""

from __future__ import annotations

import pytest

import minitile as mt
import minitile.language as T
from minitile.backends.nvidia.assemble import find_ptxas
from minitile.ops.grouped_gemm import grouped, grouped_along_k, grouped_scaled
from minitile.ops.grouped_plans import TILES, Many, choose
from minitile.ops.machine import H200

SHARED = 227 * 1024


@pytest.mark.parametrize(
    "problem",
    [
        Many(8, 4096, 7168, 2048),
        Many(64, 16, 4096, 7168),
        Many(1, 1, 1, 1),
        Many(4, 100, 17, 31, kind="along k", transpose_a=True),
        Many(1000, 64, 64, 64),
        Many(3, 200, 40, 4096, size=1, kind="scaled"),
        Many(0, 0, 8, 8),
    ],
    ids=str,
)
@pytest.mark.parametrize("wgmma", [True, False])
def test_there_is_a_plan(problem, wgmma):
    plan = choose(problem, H200, wgmma, SHARED)
    assert (plan.block_M + plan.block_N) * plan.block_K * plan.stages * problem.size <= SHARED
    assert 0 < plan.blocks <= H200.multiprocessors * 8
    if any(problem.one.ragged):
        assert plan.teams == 1


@pytest.mark.parametrize("kind", ["plain", "scaled", "along k"])
def test_there_is_a_plan_for_little_shared_memory(kind):
    for size in (1, 40, 4000):
        assert choose(Many(2, size, size, size, size=1 if kind == "scaled" else 2, kind=kind), H200, False, 64 * 1024)


def test_few_rows_take_low_tiles_and_many_rows_high_ones():
    assert choose(Many(8, 4096, 4096, 7168), H200, True, SHARED).block_M == 128
    assert choose(Many(8, 4096, 4096, 7168, size=1, kind="scaled"), H200, True, SHARED).block_M == 192
    assert choose(Many(8, 30, 4096, 7168), H200, True, SHARED).block_M == 64
    assert choose(Many(8, 30, 4096, 7168, size=1, kind="scaled"), H200, True, SHARED).block_M == 64
    assert choose(Many(8, 400, 24, 7168), H200, True, SHARED).block_N == 32


def test_many_uneven_groups_take_tiles_that_most_of_them_fill_once():
    """Each row of tiles reads its B: with 64 rows on average, many groups have two such rows of 64."""
    assert choose(Many(256, 64, 4096, 2048, uneven=True), H200, True, SHARED).block_M == 128
    assert choose(Many(256, 64, 4096, 2048), H200, True, SHARED).block_M == 64


def test_as_many_blocks_as_there_can_be_tiles():
    """Uneven groups have up to one row of tiles more, each."""
    plan = choose(Many(2, 100, 64, 64), H200, True, SHARED)
    assert plan.blocks == 2 * (100 // plan.block_M + 1) * -(-64 // plan.block_N)


@pytest.mark.slow
def test_the_widest_tile_compiles_without_spills():
    compiled_tiles("plain", "bfloat16", 1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "scaled", "along k"])
@pytest.mark.parametrize("result", ["bfloat16", "float32"])
def test_every_tile_compiles_without_spills(kind, result):
    compiled_tiles(kind, result, None)


def compiled_tiles(kind, result, count):
    """The first `count` tiles of a kind: whole tiles are stored by TMA, teams alternate, nothing is spilled."""
    g, m, n, k = 8, 4096, 4096, 2048
    dtype, made = "float8_e4m3fn" if kind == "scaled" else "bfloat16", getattr(T, result)
    if kind == "along k":
        kernel, shapes = grouped_along_k(T.bfloat16, made, True, False), [((k, m), dtype), ((k, n), dtype)]
        shapes += [((g, m, n), result)]
    elif kind == "scaled":
        kernel, shapes = grouped_scaled(T.float8_e4m3, made, True), [((g, m, k), dtype), ((g, n, k), dtype)]
        shapes += [((g, k // 128, m), "float32"), ((g, n // 128, k // 128), "float32"), ((g, m, n), result)]
    else:
        kernel, shapes = grouped(T.bfloat16, made, False, True), [((m, k), dtype), ((g, n, k), dtype)]
        shapes += [((m, n), result)]
    for tile in TILES[True, kind][:count]:
        settings = {"block_M": tile.m, "block_N": tile.n, "stages": tile.stages, "threads": tile.threads}
        settings |= {"teams": tile.teams} | ({} if kind == "scaled" else {"block_K": tile.k})
        specs = [mt.spec(shape, of) for shape, of in (*shapes, ((g,), "int32"))]
        compiled = kernel.compile(*specs, target="sm_90a", **settings)
        assert [note for note in compiled.notes if not note.endswith("it has a mask")] == []
        assert compiled.asm["tile_ir"].count("warp_groups") == tile.teams - 1
        if find_ptxas(compiled.asm["ptx"]) is not None:
            assert compiled.spills == 0
