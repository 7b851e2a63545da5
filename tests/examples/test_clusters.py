"""Clusters: blocks that bring each other's operands by multicast, against float64 and with each of their waits, fences
and barriers taken away in turn. In the simulator under each schedule, or with MINITILE_GPU=1 on the GPU."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from gemm_persistent import gemm_persistent
from mutation_testing import surviving_mutants
from schedules import each_schedule
from support import USE_GPU, on_device, on_host

import minitile as mt
import minitile.language as T
from minitile.driver.simulate import launch_of
from minitile.runtime.sim import Finding, run_ptx
from tests.examples.test_roles import check, inputs, product


@mt.kernel
def clustered(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.float32),
    cluster=(2, 1),
    stages=3,
    panel=0,
):
    """One block a tile; blocks side by side have A in common, blocks one above the other B."""
    M, K = A.shape
    N = B.shape[0]
    wide, high = cluster
    with T.Kernel(T.ceildiv(N, 64 * wide) * wide, T.ceildiv(M, 64 * high) * high, threads=128, cluster=cluster) as (
        bx,
        by,
    ):
        if panel:
            T.use_swizzle(panel)
        A_shared = T.alloc_shared((64, 64), A.dtype)
        B_shared = T.alloc_shared((64, 64), B.dtype)
        C_local = T.alloc_fragment((64, 64), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, 64), num_stages=stages):
            T.copy(A[by * 64, k * 64], A_shared)
            T.copy(B[bx * 64, k * 64], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
        T.copy(C_local, C[by * 64, bx * 64])


def copies(compiled: mt.CompiledKernel) -> tuple[int, int]:
    """How many copies go to several blocks, and how many to their own."""
    loads = re.findall(r"cp\.async\.bulk\.tensor\.\dd\.shared.*", compiled.asm["ptx"])
    several = sum("multicast" in line for line in loads)
    return several, len(loads) - several


def findings(compiled: mt.CompiledKernel, values: tuple[Any, ...], text: str) -> list[Finding]:
    """What the race model finds in another text of a kernel."""
    info = compiled.launch_info
    grid, args = launch_of(info, [value.copy() for value in values])
    options = {"cluster": info.cluster, "dynamic_shared": info.dynamic_shared}
    return run_ptx(text, info.entry, grid, info.block, args, **options).findings


@each_schedule
@pytest.mark.parametrize(
    ("cluster", "size", "panel", "shared"),
    [
        ((2, 1), (64, 128, 264), 0, (1, 1)),
        ((1, 2), (130, 72, 8), 0, (1, 1)),
        ((2, 2), (72, 72, 136), 0, (2, 0)),
        ((2, 1), (130, 200, 72), 2, (1, 1)),
        ((8, 1), (1, 17, 8), 0, (1, 1)),
        ((1, 1), (64, 64, 64), 0, (0, 2)),
    ],
)
def test_blocks_bring_each_others_operands(
    cluster: tuple[int, int], size: tuple[int, int, int], panel: int, shared: tuple[int, int]
) -> None:
    a, b, c = inputs(*size)
    compiled = check(clustered, (a, b, c), product(a, b), cluster=cluster, panel=panel)
    assert compiled.launch_info.cluster == (*cluster, 1)
    assert copies(compiled) == shared


@each_schedule
@pytest.mark.parametrize(
    ("size", "cluster", "blocks"),
    [((192, 64, 136), 2, 4), ((64, 64, 8), 2, 2), ((1, 17, 200), 4, 4)],
)
def test_persistent_blocks_in_clusters(size: tuple[int, int, int], cluster: int, blocks: int) -> None:
    """Also with an odd number of rows of tiles, and with more clusters than tiles."""
    a, b, _ = inputs(*size)
    c = np.empty(size[:2], ml_dtypes.bfloat16)
    tiles = {"block_M": 64, "block_N": 64, "block_K": 64, "blocks": blocks}
    compiled = check(gemm_persistent, (a, b, c), product(a, b), cluster=cluster, **tiles)
    assert copies(compiled) == (1, 1)


@mt.kernel
def also_read(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.float32),
):
    """Threads read A, too, which blocks bring each other: C = A · Bᵀ + the sum of A's blocks of 64 columns."""
    K = A.shape[1]
    with T.Kernel(2, threads=128, cluster=2) as x:
        A_shared = T.alloc_shared((64, 64), A.dtype)
        B_shared = T.alloc_shared((64, 64), B.dtype)
        own = T.alloc_fragment((64, 64), A.dtype)
        C_local = T.alloc_fragment((64, 64), T.float32)
        added = T.alloc_fragment((64, 64), T.float32)
        T.clear(C_local)
        T.clear(added)
        for k in T.Pipelined(T.ceildiv(K, 64), num_stages=2):
            T.copy(A[0, k * 64], A_shared)
            T.copy(B[x * 64, k * 64], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            T.copy(A_shared, own)
            for i, j in T.Parallel(64, 64):
                added[i, j] += T.cast(own[i, j], T.float32)
        for i, j in T.Parallel(64, 64):
            C[i, x * 64 + j] = C_local[i, j] + added[i, j]


def test_what_threads_have_read_is_told_in_the_clusters_scope() -> None:
    a, b, c = inputs(64, 128, 256)
    added = a.astype(np.float64).reshape(64, 4, 64).sum(axis=1)
    compiled = check(also_read, (a, b, c), product(a, b) + np.tile(added, 2))
    assert copies(compiled) == (1, 1)
    if USE_GPU:
        return
    for scope in (".release.cluster", ".acquire.cluster"):  # the default is the block's
        assert scope in compiled.asm["ptx"]
        found = findings(compiled, (a, b, c), compiled.asm["ptx"].replace(f"{scope}.shared::c", ".shared::c"))
        assert {finding.kind for finding in found} == {"missing_barrier"}
        assert "of CTA (1, 0, 0)" in str(found[0])
        assert "both of them in the cluster's scope" in found[0].cure


@mt.kernel
def apart(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.float32),
):
    """The blocks of a cluster have B in common, but not how often they need it."""
    M, K = A.shape
    with T.Kernel(T.ceildiv(M, 128) * 2, threads=128, cluster=2) as block:
        A_shared = T.alloc_shared((64, 64), A.dtype)
        B_shared = T.alloc_shared((64, 64), B.dtype)
        C_local = T.alloc_fragment((64, 64), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, 64) - block % 2, num_stages=2):
            T.copy(A[block * 64, k * 64], A_shared)
            T.copy(B[0, k * 64], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
        T.copy(C_local, C[block * 64, 0])


def test_blocks_that_go_other_ways_share_nothing() -> None:
    a, b, c = inputs(128, 64, 256)
    expected = product(a, b)
    expected[64:] = product(a[64:, :192], b[:, :192])
    assert copies(check(apart, (a, b, c), expected)) == (0, 2)


@pytest.mark.skipif(USE_GPU, reason="looks for races, which the GPU does not report")
def test_every_mutant_is_killed() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (n, 264)).astype(ml_dtypes.bfloat16) for n in (256, 64))
    c = np.full((256, 64), np.nan, ml_dtypes.bfloat16)
    tiles = {"block_M": 64, "block_N": 64, "block_K": 64, "num_stages": 2, "threads": 128}
    tiles |= {"blocks": 2, "cluster": 2, "teams": 1}
    found, count = surviving_mutants(gemm_persistent.compile(a, b, c, target="sm_90a", **tiles), [a, b, c])
    assert count > 12
    # The stores of one tile wait for those of the one before: `hazards` does not know that tiles are disjoint.
    assert [each for each in found if "cp.async.bulk.wait_group 0" not in each] == []


def test_other_targets_have_no_clusters() -> None:
    a, b, c = inputs(100, 130, 72)
    compiled = clustered.compile(a, b, c, target="sm_80")
    assert compiled.launch_info.cluster == (1, 1, 1)
    compiled.simulate(a, b, c)
    np.testing.assert_allclose(c, product(a, b), rtol=1e-2, atol=1e-2)


@mt.kernel
def ranks(A: T.Tensor((8, 2), T.int32)):
    with T.Kernel(4, 2, threads=32, cluster=(2, 2)) as (x, y):
        T.cluster_sync()
        if T.get_thread_binding() == 0:
            A[y * 4 + x, 0] = T.block_rank_in_cluster()
            A[y * 4 + x, 1] = 1


def test_ranks() -> None:
    a = np.zeros((8, 2), np.int32)
    ranks.compile(a, target="sm_90a").simulate(a)
    assert a[:, 0].tolist() == [0, 1, 0, 1, 2, 3, 2, 3]
    with pytest.raises(mt.MinitileError, match="sm_80 has no clusters"):
        ranks.compile(a, target="sm_80")


@mt.kernel
def neighbours(X: T.Tensor(("N",), T.float32), Y: T.Tensor(("N",), T.float32), cluster=4, behind=True):
    """Y = each block's own numbers, and those of the next block on top, which are waited for in between."""
    with T.Kernel(cluster, threads=64, cluster=cluster) as x:
        mine = T.alloc_shared((64,), T.float32)
        own = T.alloc_fragment((64,), T.float32)
        T.copy(X[x * 64], mine)
        T.cluster_arrive()
        T.copy(mine, own)
        if behind:
            T.cluster_wait()
        there = T.map_shared_rank(mine, (x + 1) % cluster)
        for i in T.Parallel(64):
            Y[x * 64 + i] = own[i] + there[i]
        if not behind:
            T.cluster_wait()
        T.cluster_sync()


def test_halves_of_the_clusters_barrier() -> None:
    x = np.arange(256, dtype=np.float32)
    compiled = neighbours.compile(x, x, target="sm_90a")
    arrays = [on_device(each) for each in (x, np.full(256, np.nan, np.float32))]
    compiled(*arrays) if USE_GPU else compiled.simulate(*arrays)
    np.testing.assert_array_equal(on_host(arrays[1]), x + np.roll(x, -64))
    with pytest.raises(mt.RaceError, match=r"barrier\.cluster"):
        neighbours.compile(x, x, target="sm_90a", behind=False).simulate(x, x.copy())
    with pytest.raises(mt.MinitileError, match="sm_80 has no clusters"):
        neighbours.compile(x, x, target="sm_80")


@mt.kernel
def of_blocks(A: T.Tensor(("N",), T.float32), cluster=2, blocks=0):
    N = A.shape[0]
    with T.Kernel(blocks or N, threads=32, cluster=cluster) as x:
        A[x] = 1.0


@pytest.mark.parametrize(("cluster", "blocks"), [(3, 4), (0, 4), (17, 34), ((2, 2), 4)])
def test_what_is_no_cluster(cluster: object, blocks: int) -> None:
    with pytest.raises(mt.MinitileError, match="cluster"):
        of_blocks.compile(np.zeros(4, np.float32), target="sm_90a", cluster=cluster, blocks=blocks)


def test_a_grid_that_clusters_do_not_divide() -> None:
    compiled = of_blocks.compile(np.zeros(5, np.float32), target="sm_90a")
    with pytest.raises(mt.MinitileError, match="cluster"):
        compiled.simulate(np.zeros(5, np.float32))
