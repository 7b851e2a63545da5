"""Ping-pong: teams of consumers that share the rounds of a persistent loop, against float64: each takes every second
(third) tile.
Numbers of tiles and steps down to 0, trip counts that differ from tile to tile, buffers of each team's own, and what
cannot be shared. In the simulator under each schedule, or with MINITILE_GPU=1 on the GPU."""

from __future__ import annotations

import numpy as np
import pytest
from gemm_persistent import gemm_persistent, make_gemm_persistent
from mutation_testing import surviving_mutants
from schedules import each_schedule, schedules
from support import poisoned, random

import minitile as mt
import minitile.language as T
from minitile.backends.nvidia.assemble import find_ptxas
from tests.examples.test_roles import BF16, check, inputs, product

SMALL = {"block_M": 64, "block_N": 64, "block_K": 32, "num_stages": 3, "threads": 256, "teams": 2}


def teams_of(kernel: mt.CompiledKernel) -> int:
    return kernel.asm["tile_ir"].count("warp_groups") + 1


def multiplied(m: int, n: int, k: int, **settings) -> mt.CompiledKernel:
    a, b, _ = inputs(m, n, k)
    arrays = (a, b, poisoned((m, n), BF16))
    return check(gemm_persistent, arrays, product(a, b), tma_multistage=False, **{**SMALL, **settings})


@each_schedule
@pytest.mark.parametrize("k", [0, 8, 64, 96, 160])
def test_trip_counts(k: int) -> None:
    """None, one, fewer than the stages, as many, more; an odd number of tiles for one block."""
    kernel = multiplied(192, 64, k, blocks=1)
    assert teams_of(kernel) == 2
    assert kernel.notes == ()


@pytest.mark.slow
def test_b_as_it_lies() -> None:
    """C = A · B."""
    rng = np.random.default_rng(4)
    a, b = random(rng, (136, 104), BF16), random(rng, (104, 200), BF16)
    kernel = make_gemm_persistent(False)
    check(kernel, (a, b, poisoned((136, 200), BF16)), product(a, b.T), blocks=1, **SMALL)


@each_schedule
@pytest.mark.parametrize(("m", "n", "blocks"), [(0, 64, 2), (1, 8, 1), (64, 128, 1), (200, 136, 5), (130, 72, 3)])
def test_numbers_of_tiles(m: int, n: int, blocks: int) -> None:
    """None, one, two, fewer than teams of all blocks; tails in both dimensions."""
    multiplied(m, n, 104, blocks=blocks)


@each_schedule
@pytest.mark.parametrize(
    "settings",
    [
        {"teams": 3, "threads": 384, "num_stages": 2},
        {"teams": 2, "threads": 512, "block_M": 128},
        {"teams": 4, "threads": 512, "block_K": 64},
        {"cluster": 2, "blocks": 2},
        {"block_N": 192, "block_M": 128, "block_K": 64, "num_stages": 2, "panel": 1},
    ],
)
def test_teams_and_tiles(settings: dict[str, int]) -> None:
    assert teams_of(multiplied(264, 200, 72, **{"blocks": 1, **settings})) == settings.get("teams", 2)


def test_other_targets_have_no_teams() -> None:
    a, b, _ = inputs(70, 136, 72)
    c = poisoned((70, 136), BF16)
    kernel = gemm_persistent.compile(a, b, c, target="sm_80", blocks=2, **SMALL)
    kernel.simulate(a, b, c)
    assert np.linalg.norm(c.astype(np.float64) - product(a, b)) < 4e-3 * np.linalg.norm(product(a, b))
    assert kernel.launch_info.block == (256, 1, 1)


@pytest.mark.parametrize(
    "tiles", [(128, 192, 64, 5), (128, 128, 64, 6)], ids=["128x192, 5 stages", "128x128, 6 stages"]
)
@pytest.mark.parametrize("transposed", [True, False], ids=["NT", "NN"])
def test_large_tiles_fit(tiles: tuple[int, int, int, int], transposed: bool) -> None:
    """The tiles that are best on an H200: no spill, no note of ptxas, results by TMA."""
    m, n, k, stages = tiles
    kernel = make_gemm_persistent(transposed).compile(
        *[mt.spec((1024, 1024), "bfloat16")] * 3,
        target="sm_90a", block_M=m, block_N=n, block_K=k, num_stages=stages, threads=256, teams=2,
    )  # fmt: skip
    assert kernel.notes == ()
    assert kernel.asm["ptx"].count("cp.async.bulk.tensor.2d.global") == 2 * (m // 64) * (n // 64)
    if find_ptxas(kernel.asm["ptx"]) is None:
        pytest.skip("needs a ptxas")
    assert kernel.spills == 0
    assert kernel.assembled.warnings == ()


@pytest.mark.slow
def test_every_mutant_is_killed() -> None:
    """All but the wait for one tile's store in front of the next one's: that they go elsewhere is not known."""
    rng = np.random.default_rng(0)
    a, b = random(rng, (128, 200), BF16), random(rng, (192, 200), BF16)
    c = poisoned((128, 192), BF16)
    kernel = gemm_persistent.compile(a, b, c, target="sm_90a", blocks=1, **{**SMALL, "num_stages": 2})
    found, tried = surviving_mutants(kernel, (a, b, c))
    assert tried >= 36
    assert [each for each in found if not each.endswith("cp.async.bulk.wait_group 0")] == []
    assert len(found) <= 2


# Trip counts that differ from tile to tile ----------------------------------------------------------------------------


@mt.kernel
def ragged(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("M", "K"), T.bfloat16),
    L: T.Tensor(("n",), T.int32),
    C: T.Tensor(("M", 64), T.float32),
    teams=2,
):
    """Tile t multiplies its first L[t] blocks of K; nothing is stored where L[t] is negative."""
    with T.Kernel(1, threads=128 * teams) as block:
        A_shared = T.alloc_shared((64, 32), A.dtype)
        B_shared = T.alloc_shared((64, 32), B.dtype)
        C_local = T.alloc_fragment((64, 64), T.float32)
        for (t,) in T.Persistent([L.shape[0]], 1, block, teams=teams):
            if L[t] >= 0:
                T.clear(C_local)
                for k in T.Pipelined(L[t], num_stages=3):
                    T.copy(A[t * 64, k * 32], A_shared)
                    T.copy(B[t * 64, k * 32], B_shared)
                    T.gemm(A_shared, B_shared, C_local, transpose_B=True)
                T.copy(C_local, C[t * 64, 0])


def by_rows(a: np.ndarray, b: np.ndarray, lengths: list[int]) -> np.ndarray:
    """What `ragged` computes; rows that it does not write are NaN."""
    found = np.full((len(a), 64), np.nan)
    for t, n in enumerate(lengths):
        rows = slice(t * 64, t * 64 + 64)
        if n >= 0:
            found[rows] = product(a[rows, : n * 32], b[rows, : n * 32])
    return found


@each_schedule
@pytest.mark.parametrize("lengths", [[1, 4, 0, 3, 2], [5], [-1, 2, -1, -1, 4, 1, 3], [0, 0]])
@pytest.mark.parametrize("teams", [2, 3])
def test_trip_counts_by_tile(lengths: list[int], teams: int) -> None:
    rng = np.random.default_rng(1)
    m = 64 * len(lengths)
    a, b = random(rng, (m, 160), BF16), random(rng, (m, 160), BF16)
    expected = by_rows(a, b, lengths)
    counts, c = np.array(lengths, np.int32), poisoned((m, 64), np.float32)
    kernel = ragged.compile(a, b, counts, c, target="sm_90a", teams=teams)
    assert teams_of(kernel) == teams
    for schedule in schedules():
        c[...] = np.nan
        kernel.simulate(a, b, counts, c, schedule=schedule, seed=1)
        np.testing.assert_allclose(c, expected, rtol=1e-2, atol=1e-2, equal_nan=True)


@mt.kernel
def nested(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    L: T.Tensor(("n",), T.int32),
    C: T.Tensor(("M", 384), T.float32),
):
    """A tile of 64 rows: A once, and L[t] tiles of B one after the other, each in steps of K of their own. All of it
    twice, in a loop around the persistent one."""
    with T.Kernel(1, threads=256) as block:
        A_shared = T.alloc_shared((64, 64), A.dtype)
        B_shared = T.alloc_shared((64, 64), B.dtype)
        C_local = T.alloc_fragment((64, 64), T.float32)
        for half in T.serial(2):
            for (t,) in T.Persistent([T.ceildiv(A.shape[0], 64)], 1, block, teams=2):
                T.copy(A[t * 64, 0], A_shared)
                for j in T.serial(L[t]):
                    T.clear(C_local)
                    for _ in T.Pipelined(2, num_stages=2):
                        T.copy(B[j * 64, 0], B_shared)
                        T.gemm(A_shared, B_shared, C_local, transpose_B=True)
                    T.copy(C_local, C[t * 64, (2 * j + half) * 64])


def test_copies_at_several_depths() -> None:
    """A ring of one slot in the loop's own body, and one in a loop whose turns depend on the tile. The loop starts
    twice, with an odd number of tiles."""
    rng = np.random.default_rng(2)
    lengths = [1, 3, 2]
    a, b = random(rng, (192, 64), BF16), random(rng, (192, 64), BF16)
    c, counts = poisoned((192, 384), np.float32), np.array(lengths, np.int32)
    kernel = nested.compile(a, b, counts, c, target="sm_90a")
    assert teams_of(kernel) == 2
    for schedule in schedules():
        c[...] = np.nan
        kernel.simulate(a, b, counts, c, schedule=schedule, seed=2)
        for t, many in enumerate(lengths):
            for j in range(3):
                both = c[t * 64 : t * 64 + 64, j * 128 : j * 128 + 128]
                if j < many:
                    exact = 2 * product(a[t * 64 : t * 64 + 64], b[j * 64 : j * 64 + 64])
                    np.testing.assert_allclose(both, np.hstack([exact, exact]), rtol=1e-2, atol=1e-2)
                else:
                    assert np.isnan(both).all()


# Buffers, and what turns may not share --------------------------------------------------------------------------------


def make(body: str) -> mt.Kernel:
    """A GEMM whose turns do something besides; `body` says what."""

    @mt.kernel
    def kernel(
        A: T.Tensor(("M", "K"), T.bfloat16),
        B: T.Tensor(("N", "K"), T.bfloat16),
        S: T.Tensor(("N",), T.float32),
        C: T.Tensor(("M", "N"), T.float32),
        threads=256,
    ):
        with T.Kernel(1, threads=threads) as block:
            A_shared = T.alloc_shared((64, 32), A.dtype)
            B_shared = T.alloc_shared((64, 32), B.dtype)
            extra = T.alloc_shared((64, 64), T.float32)
            row = T.alloc_shared((64,), T.float32)
            C_local = T.alloc_fragment((64, 64), T.float32)
            before = 0
            if body == "outside":
                T.copy(S[0], C[0, 0:64])
            if body == "a table":
                T.copy(S[0:64], row)
            if body == "kept":
                T.clear(extra)
            T.clear(C_local)
            for i, j in T.Persistent([T.ceildiv(C.shape[0], 64), T.ceildiv(C.shape[1], 64)], 1, block, teams=2):
                if body != "an accumulator":
                    T.clear(C_local)
                for k in T.Pipelined(T.ceildiv(A.shape[1], 32), num_stages=3):
                    T.copy(A[i * 64, k * 32], A_shared)
                    T.copy(B[j * 64, k * 32], B_shared)
                    T.gemm(A_shared, B_shared, C_local, transpose_B=True)
                if body == "staged":
                    T.copy(C_local, extra)
                    T.copy(S[j * 64], row)
                    for r, q in T.Parallel(64, 64):
                        C[i * 64 + r, j * 64 + q] = extra[r, q] + row[q]
                elif body == "a table":
                    for r, q in T.Parallel(64, 64):
                        C[i * 64 + r, j * 64 + q] = C_local[r, q] + row[q]
                elif body == "kept":
                    for r, q in T.Parallel(64, 64):
                        extra[r, q] = extra[r, q] + C_local[r, q]
                    T.copy(extra, C[i * 64, j * 64])
                else:
                    before = before + 1 if body == "a number" else before
                    T.copy(C_local, C[i * 64, j * 64 + (before // 100 * 8 if body == "a number" else 0)])

    return kernel


@each_schedule
@pytest.mark.parametrize("body", ["staged", "plain"])
def test_buffers_of_each_team(body: str) -> None:
    """A result and a row that go through shared memory in each turn."""
    a, b, c = inputs(192, 128, 72)
    s = random(np.random.default_rng(1), (c.shape[1],), np.float32)
    expected = product(a, b) + (s if body != "plain" else 0)
    kernel = check(make(body), (a, b, s, c), expected)
    assert teams_of(kernel) == 2
    assert kernel.notes == ()


@each_schedule
@pytest.mark.parametrize(
    ("body", "threads", "reason"),
    [
        ("kept", 256, "may find in extra what the last one has left"),
        ("an accumulator", 256, "hands C_local on"),
        ("a number", 256, "hands before on"),
        ("a table", 256, "S is copied outside of the loop"),
        ("plain", 128, "128 threads are not 2 teams"),
    ],
)
def test_one_team_where_turns_depend_on_each_other(body: str, threads: int, reason: str) -> None:
    a, b, c = inputs(128, 64, 40)
    s = np.zeros(64, np.float32)
    expected = product(a, b)
    if body in ("kept", "an accumulator"):
        expected = np.concatenate([expected[:64], expected[:64] + expected[64:]])
    kernel = check(make(body), (a, b, s, c), expected, threads=threads)
    assert teams_of(kernel) == 1
    assert any(note.startswith("one team instead of several") and reason in note for note in kernel.notes), kernel.notes


def test_one_team_where_accumulators_do_not_fit() -> None:
    kernel = gemm_persistent.compile(
        *[mt.spec((512, 512), "bfloat16")] * 3, target="sm_90a", **{**SMALL, "block_M": 128, "block_N": 256}
    )
    assert teams_of(kernel) == 1
    assert any("256 of a thread's 256 registers" in note for note in kernel.notes)


@pytest.mark.parametrize("teams", [0, 5])
def test_numbers_that_are_refused(teams: int) -> None:
    with pytest.raises(mt.MinitileError, match="teams is"):
        gemm_persistent.compile(*[mt.spec((512, 512), "bfloat16")] * 3, target="sm_90a", **{**SMALL, "teams": teams})
