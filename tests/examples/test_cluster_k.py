"""K split over the blocks of a cluster, which store into each other's shared memory; and copies of weights that go
ahead of the wait for the primary grid. In the simulator under each schedule, or with MINITILE_GPU=1 on the GPU."""

from __future__ import annotations

import gemm_cluster_k
import gemm_swapped
import ml_dtypes
import numpy as np
import pytest
from mutation_testing import surviving_mutants
from schedules import each_schedule, schedules
from support import USE_GPU, error, on_device, poisoned, random

import minitile as mt
import minitile.language as T

BF16 = ml_dtypes.bfloat16
needs_simulator = pytest.mark.skipif(USE_GPU, reason="looks for races, or chooses the schedule")


def operands(m: int, n: int, k: int, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [random(rng, (m, k), BF16), random(rng, (n, k), BF16), poisoned((m, n), BF16)]


def check(kernel: mt.Kernel, size: tuple[int, int, int], **tiles: int) -> mt.CompiledKernel:
    a, b, c = operands(*size)
    compiled = kernel.compile(a, b, c, target="auto" if USE_GPU else "sm_90a", **tiles)
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    if USE_GPU:
        result = on_device(c)
        compiled(on_device(a), on_device(b), result)
        assert error(result, exact) <= 4e-3
        return compiled
    for schedule in schedules():
        result = c.copy()
        compiled.simulate(a, b, result, schedule=schedule, seed=7)
        assert error(result, exact) <= 4e-3
    return compiled


@each_schedule
@pytest.mark.parametrize(
    ("size", "tiles"),
    [
        ((1, 1, 1), {"splits": 8}),  # most blocks have no step
        ((17, 67, 131), {"splits": 2}),
        ((3, 72, 0), {"splits": 2}),
        ((0, 8, 8), {"splits": 2}),
        ((70, 72, 520), {"splits": 4, "num_stages": 2}),
        ((128, 112, 520), {"splits": 2, "block_M": 128, "block_N": 112, "threads": 256}),
        ((130, 72, 391), {"splits": 3, "block_M": 192, "block_N": 64, "threads": 384}),  # A's rows are no 16 bytes
    ],
)
def test_blocks_of_a_cluster_add_up(size, tiles):
    compiled = check(gemm_cluster_k.gemm_cluster_k, size, **tiles)
    assert compiled.launch_info.cluster == (tiles["splits"], 1, 1)


def test_sums_travel_in_vectors():
    """The mask is one of rows: along a row two neighbours go together."""
    compiled = gemm_cluster_k.gemm_cluster_k.compile(*operands(64, 64, 256), target="sm_90a")
    sent = [line for line in compiled.text.splitlines() if "st.shared::cluster" in line]
    assert len(sent) == 16
    assert all(".v2.f32" in line for line in sent)


@needs_simulator
def test_every_mutant_is_killed():
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (64, 264)).astype(BF16) for _ in "ab")
    c = poisoned((64, 64), BF16)
    compiled = gemm_cluster_k.gemm_cluster_k.compile(a, b, c, target="sm_90a", num_stages=2)
    found, count = surviving_mutants(compiled, [a, b, c])
    assert count > 10
    assert found == []


@mt.kernel
def exchange(A: T.Tensor((2, 64), T.float32), B: T.Tensor((2, 64), T.float32), meet=True, pull=False, stay=True):
    """Each block's numbers go to the other one: sent, or fetched."""
    with T.Kernel(2, threads=64, cluster=2) as x:
        box = T.alloc_shared((64,), T.float32)
        theirs = T.map_shared_rank(box, 1 - x)
        for i in T.Parallel(64):
            if pull:
                box[i] = A[x, i]
            else:
                theirs[i] = A[x, i]
        if meet:
            T.cluster_sync()
        for i in T.Parallel(64):
            if pull:
                B[x, i] = theirs[63 - i]
            else:
                B[x, i] = box[63 - i]
        if stay:
            T.cluster_sync()


@pytest.mark.parametrize("pull", [False, True])
def test_other_blocks_memory(pull):
    a, b = np.arange(128, dtype=np.float32).reshape(2, 64), poisoned((2, 64))
    compiled = exchange.compile(a, b, target="auto" if USE_GPU else "sm_90a", pull=pull)
    if USE_GPU:
        result = on_device(b)
        compiled(on_device(a), result)
        assert error(result, a[::-1, ::-1]) == 0
    else:
        compiled.simulate(a, b)
        np.testing.assert_array_equal(b, a[::-1, ::-1])


@needs_simulator
@pytest.mark.parametrize(("pull", "missing"), [(False, "meet"), (True, "meet"), (True, "stay")])
def test_blocks_that_do_not_meet_are_found(pull, missing):
    """Before what was sent is read; and before a block ends whose memory others still read."""
    a, b = np.ones((2, 64), np.float32), poisoned((2, 64))
    with pytest.raises(mt.MinitileError):
        exchange.compile(a, b, target="sm_90a", pull=pull, **{missing: False}).simulate(a, b, schedule="random", seed=1)


def test_targets_without_clusters_refuse():
    with pytest.raises(mt.MinitileError, match="sm_80 has no clusters"):
        exchange.compile(np.ones((2, 64), np.float32), poisoned((2, 64)), target="sm_80", meet=False, stay=False)


def wrong(what: str):
    @mt.kernel
    def kernel(A: T.Tensor((2, 64, 64), T.bfloat16)):
        with T.Kernel(2, threads=128, cluster=2) as x:
            box = T.alloc_shared((64, 64), T.bfloat16)
            tile = T.alloc_fragment((64, 64), T.bfloat16)
            T.clear(tile)
            if what == "fragment":
                T.map_shared_rank(tile, 0)
            elif what == "rank":
                T.map_shared_rank(box, 0.5)
            elif what == "whole":
                T.copy(tile, T.map_shared_rank(box, 0))
            elif what == "element":
                for i, j in T.Parallel(64, 64):
                    T.map_shared_rank(box, i // 32)[i, j] = tile[i, j]
            else:
                theirs = T.map_shared_rank(box, 1 - x)
                for i, j in T.Parallel(64, 64):
                    theirs[i, j] = tile[i, j]
                T.cluster_sync()
                T.copy(box, A[x, 0, 0])

    return kernel


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("fragment", "no shared buffer"),
        ("rank", "not an integer"),
        ("whole", "element by element"),
        ("element", "inside T.Parallel"),
        ("copied by TMA", "other blocks of the cluster store to 'box'"),
    ],
)
def test_what_is_no_access_to_other_blocks(what, said):
    with pytest.raises(mt.MinitileError, match=said) as caught:
        wrong(what).compile(poisoned((2, 64, 64), BF16), target="sm_90a")
    assert "test_cluster_k.py" in str(caught.value)


# Ahead of the primary grid --------------------------------------------------------------------------------------------


def places(text: str) -> tuple[list[int], list[int], list[int]]:
    """The lines of the waits for the primary grid, and of the copies of A and of B."""
    lines = text.splitlines()
    waits = [n for n, line in enumerate(lines) if "griddepcontrol.wait" in line]
    a, b = ([n for n, line in enumerate(lines) if f"%{name}_map" in line and "cp.async" in line] for name in "AB")
    return waits, a, b


@each_schedule
@pytest.mark.parametrize("size", [(16, 64, 64), (16, 64, 0), (16, 64, 128), (17, 130, 520)])
def test_weights_go_ahead(size):
    """No step, fewer than stages, more."""
    compiled = check(gemm_swapped.gemm_swapped, size)
    assert compiled.launch_info.early
    if size[2] == 520:
        waits, a, b = places(compiled.text)
        assert [len(lines) for lines in (waits, a, b)] == [2, 2, 2]
        assert b[0] < waits[0] < a[0] < b[1] < waits[1]  # the producer's wait, and behind it the consumers'


@mt.kernel
def twice(
    A: T.Tensor((64, "K"), T.bfloat16), B: T.Tensor((64, "K"), T.bfloat16), C: T.Tensor((64, 64), T.float32), both=False
):
    with T.Kernel(1, threads=128) as _:
        T.pdl_sync(ahead=(A, B) if both else B)
        A_shared = T.alloc_shared((64, 64), A.dtype)
        B_shared = T.alloc_shared((64, 64), B.dtype)
        C_local = T.alloc_fragment((64, 64), T.float32)
        T.clear(C_local)
        for _ in T.serial(1 if both else 2):
            for k in T.Pipelined(T.ceildiv(A.shape[1], 64), num_stages=2):
                T.copy(A[0, k * 64], A_shared)
                T.copy(B[0, k * 64], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
        T.copy(C_local, C)


@pytest.mark.parametrize(("both", "why"), [(False, "those of rings"), (True, "all, or none")])
def test_where_nothing_goes_ahead_all_wait_and_a_note_says_why(both, why):
    a, b, c = operands(64, 64, 256)
    compiled = twice.compile(a, b, c.astype(np.float32), target="sm_90a", both=both)
    waits, copies, _ = places(compiled.text)
    assert len(waits) == 1
    assert waits[0] < copies[0]
    assert any("nothing goes ahead of T.pdl_sync" in note and why in note for note in compiled.notes)


def test_what_is_no_tensor_does_not_go_ahead():
    @mt.kernel
    def kernel(A: T.Tensor((64,), T.float32)):
        with T.Kernel(1, threads=64) as _:
            T.pdl_sync(ahead=1)
            A[0] = 1.0

    with pytest.raises(mt.MinitileError, match="no tensor"):
        kernel.compile(np.zeros(64, np.float32), target="sm_90a")
