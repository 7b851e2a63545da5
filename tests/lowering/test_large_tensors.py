"""Tensors whose indices 32 bits do not hold: they lie in memory of which only what is touched takes space."""

from __future__ import annotations

import gc
import resource

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.runtime.sim.core.sparse import zeros

TARGETS = ["sm_80", "sm_90a", "gfx942", "gfx950"]
MARGIN = 4096  # elements around each place that is looked at
MANY = [(1 << 31) - 1, 1 << 31, (1 << 31) + 1, 9 << 28, (1 << 32) + 130, (1 << 33) - 3]
SIZES = [(9 << 28) + 17, *(pytest.param(size, marks=pytest.mark.slow) for size in MANY)]
BF16 = ml_dtypes.bfloat16


def tensor(shape, dtype) -> np.ndarray:
    """Zeros."""
    count = int(np.prod(shape, dtype=np.int64))
    return zeros(count, np.uint8 if dtype == "uint8" else np.uint16).view(dtype).reshape(shape)


def run(kernel, target, *arrays, check=True, **constants):
    kernel.compile(*arrays, target=target, **constants).simulate(*arrays, check=check)


@pytest.fixture(autouse=True, scope="module")
def left_alone():
    """What earlier tests keep, millions of objects, is not looked through again by each collection."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def little_memory(left_alone):
    """No test touches more than a part of its tensors."""
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 << 10


# One dimension --------------------------------------------------------------------------------------------------------

STEP = 1 << 28


@mt.kernel
def steps(A: T.Tensor(("N",), T.uint8), step=STEP):
    with T.Kernel(T.ceildiv(A.shape[0], step), threads=64) as b:
        for j in T.Parallel(64):
            A[b * step + j] = T.cast(b + 7, T.uint8)


@pytest.mark.few_cases
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", SIZES)
def test_blocks_far_apart(target, size):
    A = tensor(size, "uint8")
    run(steps, target, A)
    for b in range(-(-size // STEP)):
        at = min(b * STEP + 64, size)
        assert (A[b * STEP : at] == b + 7).all()
        assert not A[at : at + MARGIN].any()


def moved(dtype):
    @mt.kernel
    def kernel(A: T.Tensor(("N",), dtype), C: T.Tensor(("N",), dtype), From: T.Tensor((5,), T.int64), block=256):
        """Copies blocks from loaded places on."""
        with T.Kernel(5, threads=64) as b:
            staged = T.alloc_shared((block,), A.dtype)
            T.copy(A[From[b]], staged)
            T.copy(staged, C[From[b]])

    return kernel


@pytest.mark.few_cases
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["uint8", BF16])
@pytest.mark.parametrize("size", SIZES)
def test_loaded_places(target, dtype, size):
    A, C = tensor(size, dtype), tensor(size, dtype)
    edges = [0, (1 << 31) - 700, (1 << 31) - 100, (1 << 32) - 7, size - 100]
    edges = [at for n, at in enumerate(edges) if all(abs(at - other) > 256 for other in edges[:n])]
    places = np.array([*(at if at < size else size + 5 for at in edges), *[size] * (5 - len(edges))], np.int64)
    wanted = {}
    for at in places.tolist():
        A[at : at + 256] = np.arange(at % 7 + 1, at % 7 + 1 + len(A[at : at + 256]), dtype=np.int64) % 97 + 1
    for at in places.tolist():
        wanted[at] = A[at : at + 256].copy()
    run(moved(T.uint8 if dtype == "uint8" else T.bfloat16), target, A, C, places)
    for at, values in wanted.items():
        np.testing.assert_array_equal(C[at : at + 256].view(np.uint8), values.view(np.uint8))
    assert not C[256 : 256 + MARGIN].view(np.uint8).any()


# Loops ----------------------------------------------------------------------------------------------------------------


@mt.kernel
def loop(A: T.Tensor(("N",), T.uint8), step=STEP):
    with T.Kernel(1, threads=64):
        for i in range(0, A.shape[0], step):
            A[i] = T.cast(i // step + 1, T.uint8)


@mt.kernel
def bumped(A: T.Tensor(("N",), T.uint8), step=STEP):
    with T.Kernel(1, threads=64):
        at = 0
        while at < A.shape[0]:
            A[at] = T.cast(at // step + 1, T.uint8)
            at = at + step


@mt.kernel
def down(A: T.Tensor(("N",), T.uint8), step=STEP):
    with T.Kernel(1, threads=64):
        for i in range(A.shape[0] - 1, -1, -step):
            A[i] = T.cast((A.shape[0] - 1 - i) // step + 1, T.uint8)


@pytest.mark.few_cases
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kernel", [loop, bumped, down])
def test_counters(target, size, kernel):
    A = tensor(size, "uint8")
    run(kernel, target, A)
    places = np.arange(0, size, STEP) if kernel is not down else np.arange(size - 1, -1, -STEP)
    np.testing.assert_array_equal(A[places], np.arange(1, len(places) + 1))
    for at in places.tolist():
        assert A[max(0, at - MARGIN) : at + MARGIN].astype(np.int64).sum() == A[at]
