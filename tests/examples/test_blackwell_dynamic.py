"""Tiles by cluster launch control (docs/blackwell.md): each is done once, whichever block takes it, right and race-free
in all schedules, also where requests are refused; and nothing of the synchronisation is to spare."""

from __future__ import annotations

import re
from typing import Any

import gemm_persistent
import ml_dtypes
import numpy as np
import pytest
from mutation_testing import TAKEN_OR_WEAKER, surviving_mutants
from support import error, poisoned, random

import minitile as mt
import minitile.language as T
from minitile.runtime.sim.mutate.ptx import removals

TARGETS = ("sm_100a", pytest.param("sm_103a", marks=pytest.mark.slow))
BF16 = ml_dtypes.bfloat16
SCHEDULES = [("lazy", 0), ("eager", 0), ("random", 0), ("random", 1), ("random", 2)]
ONE_ROLE = {"passes": {"warp_specialize": False}}
TILES: dict[str, dict[str, Any]] = {
    "roles": {"blocks": 3},
    "two warpgroups": {"blocks": 2, "threads": 256},
    "pairs": {"blocks": 4, "cluster": 2},
    "mma.sync in clusters": {"blocks": 4, "cluster": 2, "block_N": 24},
    "one role": {"blocks": 3, **ONE_ROLE},
    "one role in clusters": {"blocks": 4, "cluster": 2, **ONE_ROLE},
    "not pipelined": {"blocks": 3, "num_stages": 0, "threads": 64},
}
pytestmark = pytest.mark.parametrize("target", TARGETS)


def matrices(m: int, n: int, k: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(m + n + k)
    return random(rng, (m, k), BF16), random(rng, (n, k), BF16), poisoned((m, n), BF16)


def compiled(target: str, arrays: Any, **given: Any) -> mt.CompiledKernel:
    tiles = {"block_N": 64, "num_stages": 2, "threads": 128, "teams": 1, **given}
    return gemm_persistent.gemm_persistent.compile(*arrays, target=target, dynamic=True, **tiles)


def asks(kernel: mt.CompiledKernel) -> bool:
    return "clusterlaunchcontrol.try_cancel" in kernel.asm["ptx"]


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
@pytest.mark.parametrize("name", TILES)
def test_gemm(target: str, name: str, schedule: str, seed: int) -> None:
    """No tiles, one, a prime number of them, in one row, and more than there are slots."""
    for m, n, k in ((0, 64, 32), (7, 40, 8), (896, 64, 8), (1, 330, 0), (300, 130, 40)):
        a, b, c = matrices(m, n, k)
        kernel = compiled(target, (a, b, c), **TILES[name])
        assert asks(kernel)
        assert kernel.spills == 0
        assert not any("not taken as they come" in note for note in kernel.notes)
        kernel.simulate(a, b, c, schedule=schedule, seed=seed)
        assert error(c, a.astype(np.float64) @ b.astype(np.float64).T) <= 4e-3


@pytest.mark.parametrize("name", TILES)
def test_who_reads(target: str, name: str) -> None:
    """Each role reads each answer; of a pair the first block asks for both."""
    ptx = compiled(target, matrices(256, 128, 64), **TILES[name]).asm["ptx"]
    reads = len(re.findall(r"query_cancel\.is_canceled", ptx))
    assert reads == (3 if name in ("roles", "two warpgroups", "pairs") else 1)
    (ask,) = re.findall(r"try_cancel\S+", ptx)
    assert ("multicast" in ask) == ("cluster" in TILES[name])
    assert ("cta_group::2" in ptx) == (name == "pairs")


# A proxy fence in front of the first products, or the first answer, makes mbarriers known to the async proxy as well.
BY_PROXY_FENCE = "fence.mbarrier_init"
MUTANTS = {  # how many there are to take away, at least; whether the mbarriers' fence is to spare
    "roles": (44, False),
    "two warpgroups": (44, False),
    "pairs": (44, False),
    "one role": (27, True),
    "one role in clusters": (36, False),
    "not pipelined": (20, True),
}


@pytest.mark.slow
@TAKEN_OR_WEAKER
@pytest.mark.parametrize("name", MUTANTS)
def test_mutants(target: str, name: str, candidates: Any) -> None:
    """Without any one of its waits, fences, barriers, arrivals or commits, or where one is weaker, the GEMM is at
    fault."""
    least, spare = MUTANTS[name]
    arrays = matrices(640, 96, 72)
    kernel = compiled(target, arrays, **TILES[name])
    survivors, count = surviving_mutants(kernel, arrays, candidates)
    assert count >= (least if candidates is removals else 10)
    if name == "not pipelined":  # without K no barrier holds warps together, and only releases keep them in one turn
        found, _ = surviving_mutants(kernel, matrices(640, 96, 0), candidates)
        survivors = [each for each in survivors if each in found]
    assert [each for each in survivors if not (spare and BY_PROXY_FENCE in each)] == []


def test_all_meet_in_each_turn(target: str) -> None:
    """There the ring of tiles has no releases: its mbarriers are those of answers, and no thread waits for a slot."""
    ptx = compiled(target, matrices(640, 96, 72), **TILES["one role"]).asm["ptx"]
    assert not re.search(r"mbarrier\.(?:try_wait|arrive\.shared).*launch_control: WAR", ptx)
    assert len(re.findall(r"mbarrier\.init.*launch_control", ptx)) == 3
    assert (
        "launch_control: WAR tiles: slot free" in added.compile(np.zeros((6, 100), np.int32), target=target).asm["ptx"]
    )


@mt.kernel
def added(Y: T.Tensor(("M", "N"), T.int32), blocks=2, threads=64, cluster=1):
    """Adds the number of its row to each element; no thread waits for another one."""
    M, N = Y.shape
    with T.Kernel(blocks, threads=threads, cluster=cluster) as block:
        tx = T.get_thread_binding()
        for row, column in T.Persistent([M, T.ceildiv(N, threads)], blocks, block, dynamic=True):
            if column * threads + tx < N:
                T.atomic_add(Y[row, column * threads + tx], row)


@pytest.mark.parametrize("cluster", [1, 2])
def test_mutants_in_one_role(target: str, cluster: int) -> None:
    """Where nothing but the ring of tiles holds warps together, all of it is needed."""
    y = np.zeros((6, 100), np.int32)
    kernel = added.compile(y, target=target, cluster=cluster, blocks=2 * cluster)
    survivors, count = surviving_mutants(kernel, (y,))
    assert count >= 8 + 3 * (cluster > 1)
    assert survivors == []


@mt.kernel
def counted(
    X: T.Tensor(("N",), T.int32), Y: T.Tensor(("N",), T.int32), blocks=3, threads=64, cluster=1, rows=0, after=False
):
    """Adds 1 to each element, the tile of the cluster; `after`: the block's number is used, too."""
    (N,) = X.shape
    with T.Kernel(blocks, threads=threads, cluster=cluster) as block:
        x = T.alloc_shared((32,), T.int32)
        for row, tile in T.Persistent([T.ceildiv(N, 32), 1], blocks, block, group_size=1, dynamic=True):
            T.copy(X[row * 32], x)
            for i in T.Parallel(32):
                if row * 32 + i < N:
                    T.atomic_add(Y[row * 32 + i], x[i] + tile)
        if after:
            Y[block] = 0


@pytest.mark.parametrize(("schedule", "seed"), [*SCHEDULES, *(("random", n) for n in range(3, 12))])
@pytest.mark.parametrize("cluster", [1, 2, 4])
@pytest.mark.parametrize("tiles", [0, 1, 7, 13, 64])
def test_once(target: str, tiles: int, cluster: int, schedule: str, seed: int) -> None:
    x, y = np.arange(tiles * 32, dtype=np.int32), np.ones(tiles * 32, np.int32)
    kernel = counted.compile(x, y, target=target, blocks=2 * cluster, cluster=cluster)
    assert asks(kernel)
    kernel.simulate(x, y, schedule=schedule, seed=seed)
    assert np.array_equal(y, x + 1)


@mt.kernel
def in_three_dimensions(A: T.Tensor(("X", "Y", "Z"), T.int32), limit=3, blocks=2, dynamic=True):
    X, Y, Z = A.shape
    with T.Kernel(X, Y, Z, threads=64, persistent=blocks, dynamic=dynamic) as (x, y, z):
        shared = T.alloc_shared((64,), T.int32)
        for i in T.Parallel(64):
            shared[i] = x * 100 + y * 10 + z + i
        if x >= limit:
            return
        if T.get_thread_binding() == 0:
            A[x, y, z] += shared[63]


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_blocks_of_a_grid(target: str, schedule: str, seed: int) -> None:
    """T.Kernel(persistent=…, dynamic=True): as many blocks as tiles are launched."""
    a = np.zeros((5, 3, 2), np.int32)
    kernel = in_three_dimensions.compile(a, target=target)
    assert asks(kernel)
    kernel.simulate(a, schedule=schedule, seed=seed)
    x, y, z = np.indices(a.shape)
    assert np.array_equal(a, np.where(x < 3, x * 100 + y * 10 + z + 63, 0))


@mt.kernel
def otherwise(X: T.Tensor(("N",), T.int32), Y: T.Tensor(("N",), T.int32), form=""):
    """Copies X to Y, in forms whose tiles are shared out as they would be without `dynamic`."""
    (N,) = X.shape
    cluster = 2 if form == "one dimension in clusters" else 1
    grid = (2, 2) if form == "two dimensions" else (4,)
    with T.Kernel(*grid, threads=32, cluster=cluster) as at:
        block = at[1] * 2 + at[0] if form == "two dimensions" else at
        first = 3 - block if form == "another first tile" else block
        step = 2 if form == "fewer" else 4
        total = X[0] if form == "loaded" else T.ceildiv(N, 32)
        if form == "all meet":
            T.sync_grid()
        if form == "two loops":
            for (tile,) in T.Persistent([1], 4, block, dynamic=True):
                Y[tile] = 0
            T.sync_threads()
        for (tile,) in T.Persistent([total], step, first, dynamic=True):
            for i in T.Parallel(32):
                if tile * 32 + i < N:
                    Y[tile * 32 + i] = X[tile * 32 + i] + (block // 8 if form == "which block" else 0)


REASONS = {
    "two dimensions": "more than one dimension",
    "another first tile": "a block's first tile is not that of its number",
    "one dimension in clusters": "a block's first tile is not that of its number",
    "fewer": "not shared out to all blocks",
    "loaded": "the host cannot compute how many there are",
    "all meet": "all blocks meet",
    "two loops": "more than the one loop over tiles",
    "which block": "uses the block's number for something else",
}


@pytest.mark.parametrize("form", REASONS)
def test_why_not(target: str, form: str) -> None:
    """What says more of its blocks than a loop over tiles does is right as it stands, and a note says why."""
    x = np.arange(7 * 32 + 5, dtype=np.int32)
    x[0] = 8
    y = np.full_like(x, -1)
    kernel = otherwise.compile(x, y, target=target, form=form)
    assert not asks(kernel)
    (note,) = [note for note in kernel.notes if "not taken as they come" in note]
    assert REASONS[form] in note
    if form != "fewer":  # blocks that do each other's tiles as well
        kernel.simulate(x, y, schedule="random", seed=1)
        assert np.array_equal(y, x)
