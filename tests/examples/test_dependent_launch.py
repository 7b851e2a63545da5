"""T.pdl_sync and T.pdl_trigger: where the waits stand, what the launch says, and right results."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from tests.comments import bare


def make(sync="first", trigger=True):
    @mt.kernel
    def gemm(
        A: T.Tensor(("M", "K"), T.bfloat16), B: T.Tensor(("N", "K"), T.bfloat16), C: T.Tensor(("M", "N"), T.bfloat16)
    ):
        M, K = A.shape
        with T.Kernel(T.ceildiv(B.shape[0], 64), T.ceildiv(M, 64), threads=128) as (bx, by):
            A_shared = T.alloc_shared((64, 64), T.bfloat16)
            B_shared = T.alloc_shared((64, 64), T.bfloat16)
            C_local = T.alloc_fragment((64, 64), T.float32)
            T.clear(C_local)
            if trigger == "if short" and K <= 192:
                T.pdl_trigger()
            if sync == "first":
                T.pdl_sync()
            for k in T.Pipelined(T.ceildiv(K, 64), num_stages=3):
                T.copy(A[by * 64, k * 64], A_shared)
                T.copy(B[bx * 64, k * 64], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            if trigger:
                T.pdl_trigger()
            if sync == "behind":
                T.pdl_sync()
            T.copy(C_local, C[by * 64, bx * 64])

    return gemm


def lines(compiled):
    return [line.strip() for line in bare(compiled.text).splitlines()]


def test_all_threads_wait_before_anything_is_copied():
    specs = [mt.spec((128, 128), "bfloat16")] * 3
    compiled = make().compile(*specs, target="sm_90a")
    text = lines(compiled)
    assert compiled.notes == ()
    assert compiled.launch_info.early
    assert text.count("griddepcontrol.wait;") == 1
    wait, roles = text.index("griddepcontrol.wait;"), next(n for n, line in enumerate(text) if "elect.sync" in line)
    setup = max(n for n, line in enumerate(text) if "mbarrier.init" in line)
    assert setup < wait < roles, "behind what needs no tensor, in front of the branch to the roles: both wait"
    assert text.index("griddepcontrol.launch_dependents;") > roles
    # Who only lets the next one start is launched as ever.
    assert not make(sync="never").compile(*specs, target="sm_90a").launch_info.early


def test_a_trigger_on_a_condition_goes_to_all_roles_and_stays_before_the_wait():
    text = lines(make(trigger="if short").compile(*[mt.spec((128, 128), "bfloat16")] * 3, target="sm_90a"))
    triggers = [n for n, line in enumerate(text) if line == "griddepcontrol.launch_dependents;"]
    assert len(triggers) == 2
    assert triggers[0] < text.index("griddepcontrol.wait;") < triggers[1]


@mt.kernel
def triggered_and_told(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    Most: T.Tensor((1,), T.int32),
    C: T.Tensor(("M", "N"), T.float32),
):
    """A branch that lets the next grid start and hands on what only the consumers know."""
    with T.Kernel(T.ceildiv(A.shape[0], 64), threads=128) as by:
        A_shared = T.alloc_shared((64, 64), T.bfloat16)
        B_shared = T.alloc_shared((64, 64), T.bfloat16)
        C_local = T.alloc_fragment((64, 64), T.float32)
        T.clear(C_local)
        before = T.atomic_max(Most[0], 3, return_prev=True)
        added = by * 0
        if by > 0:
            added = before
            T.pdl_trigger()
        T.pdl_sync()
        for k in T.Pipelined(T.ceildiv(A.shape[1], 64), num_stages=2):
            T.copy(A[by * 64, k * 64], A_shared)
            T.copy(B[0, k * 64], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
        for i, j in T.Parallel(64, 64):
            C_local[i, j] = C_local[i, j] + T.cast(added, T.float32)
        T.copy(C_local, C[by * 64, 0])


def test_a_branch_that_also_hands_on_values_stays_with_the_consumers():
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(s).astype(ml_dtypes.bfloat16) for s in ((128, 192), (64, 192)))
    c = np.full((128, 64), np.nan, np.float32)
    compiled = triggered_and_told.compile(a, b, np.full(1, 9, np.int32), c, target="sm_90a")
    assert compiled.launch_info.block == (256, 1, 1)
    compiled.simulate(a, b, np.full(1, 9, np.int32), c)
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    exact[64:] += 9
    assert np.linalg.norm(c - exact) <= 1e-3 * np.linalg.norm(exact)


def test_a_wait_behind_the_copies_keeps_them_behind_it():
    """No role goes ahead of it: so there are none."""
    compiled = make(sync="behind").compile(*[mt.spec((128, 128), "bfloat16")] * 3, target="sm_90a")
    assert any("pdl_sync stands behind" in note for note in compiled.notes)
    assert compiled.launch_info.block == (128, 1, 1)


@pytest.mark.parametrize("target", ["sm_80", "sm_89", "gfx942", "gfx950"])
def test_other_targets_have_no_such_launches(target):
    compiled = make().compile(*[mt.spec((128, 128), "bfloat16")] * 3, target=target)
    assert "griddepcontrol" not in compiled.text
    assert not compiled.launch_info.early


@pytest.mark.parametrize("schedule", ["lazy", "random"])
@pytest.mark.parametrize("sync", ["first", "behind"])
def test_right_results(schedule, sync):
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(s).astype(ml_dtypes.bfloat16) for s in ((72, 136), (40, 136)))
    c = np.full((72, 40), np.nan).astype(ml_dtypes.bfloat16)
    make(sync).compile(a, b, c, target="sm_90a").simulate(a, b, c, schedule=schedule, seed=1)
    expected = a.astype(np.float64) @ b.astype(np.float64).T
    assert np.linalg.norm(c.astype(np.float64) - expected) / np.linalg.norm(expected) < 4e-3


def test_not_under_run_time_control():
    @mt.kernel
    def sometimes(X: T.Tensor(("n",), T.float32)):
        with T.Kernel(1, threads=32):
            if X.shape[0] > 3:
                T.pdl_sync()

    with pytest.raises(mt.MinitileError, match="pdl_sync in") as caught:
        sometimes.compile(target="sm_90a")
    assert "T.pdl_sync()" in str(caught.value)
