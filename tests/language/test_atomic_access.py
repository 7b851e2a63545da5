"""T.atomic_load and T.atomic_store: what other blocks have stored, dtypes, orders, errors."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.ir.diagnostics import MinitileError

TARGETS = ("sm_80", "sm_90a", "gfx942", "gfx950")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("fenced", [True, False])
def test_blocks_hand_on(target, fenced):
    """Each block waits for the one before, and adds to what that has written: a race where nothing orders the two."""
    pytest.importorskip("llvmlite") if target.startswith("gfx") else None
    before, behind = ("release", "acquire") if fenced else ("relaxed", "relaxed")

    @mt.kernel
    def chain(X: T.Tensor((64,), T.float32), done: T.Tensor((8,), T.int32)):
        with T.Kernel(8, threads=64) as bx:
            tx = T.get_thread_binding()
            if bx > 0:
                if tx == 0:
                    while T.atomic_load(done[bx - 1], behind) == 0:
                        pass
                T.sync_threads()
            X[tx] = X[tx] + bx
            T.sync_threads()
            if tx == 0:
                T.atomic_store(done[bx], 1, before)

    x, done = np.zeros(64, np.float32), np.zeros(8, np.int32)
    compiled = chain.compile(target=target)
    if not fenced:
        with pytest.raises(mt.RaceError):
            compiled.simulate(x, done)
        return
    for schedule in ("lazy", "random"):
        x[:], done[:] = 0, 0
        compiled.simulate(x, done, schedule=schedule)
        np.testing.assert_array_equal(x, 28)
        np.testing.assert_array_equal(done, 1)


@pytest.mark.parametrize("target", ["sm_80", "gfx942"])
@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "bfloat16", "float16", "float32", "int32", "int64", "uint64", "float64"]
)
def test_dtypes(target, dtype):
    """From a tensor to shared memory and on, under a condition."""
    pytest.importorskip("llvmlite") if target.startswith("gfx") else None
    element = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)

    @mt.kernel
    def moved(A: T.Tensor((64,), dtype), B: T.Tensor((64,), dtype)):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            S = T.alloc_shared((64,), dtype)
            S[tx] = 1
            T.sync_threads()
            if tx % 2 == 0:
                T.atomic_store(S[tx], T.atomic_load(A[63 - tx], "relaxed"), "relaxed")
            for i in T.Parallel(64):
                T.atomic_store(B[i], T.atomic_load(S[i], None), None)

    a = (np.random.default_rng(1).integers(-99, 99, 64) % (200 if dtype[0] == "u" else 128)).astype(element)
    b = np.zeros(64, element)
    moved.compile(target=target).simulate(a, b)
    np.testing.assert_array_equal(b, np.where(np.arange(64) % 2 == 0, a[::-1], np.ones(64, element)))


def test_instructions():
    @mt.kernel
    def copy(A: T.Tensor((64,), T.int32), B: T.Tensor((64,), T.int32)):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            T.atomic_load(A[tx], "relaxed")
            T.atomic_store(B[tx], T.atomic_load(A[tx], "acquire"))

    text = copy.compile(target="sm_80").asm["ptx"]
    assert text.count("ld.relaxed.gpu.global.b32") == text.count("st.relaxed.gpu.global.b32") == 1
    assert text.count("fence.acq_rel.gpu") == 2


def test_what_does_not_fit():
    def traced(statement):
        @mt.kernel
        def kernel(A: T.Tensor((64,), T.int32), B: T.Tensor((64,), T.bool)):
            with T.Kernel(1, threads=64):
                f = T.alloc_fragment((64,), T.int32)
                T.clear(f)
                statement(A, B, f)

        kernel.compile(target="sm_80")

    for wrong, message in (
        (lambda A, B, f: T.atomic_load(A[0:4]), "index one element"),
        (lambda A, B, f: T.atomic_load(f[0]), "one element of a tensor"),
        (lambda A, B, f: T.atomic_load(A[0], "release"), "memory_order='release'"),
        (lambda A, B, f: T.atomic_store(A[0], 1, "acquire"), "memory_order='acquire'"),
        (lambda A, B, f: T.atomic_store(A[0:64], f), "store of a tile"),
        (lambda A, B, f: T.atomic_load(B[0]), "no atomic load on bool"),
    ):
        with pytest.raises(MinitileError) as caught:
            traced(wrong)
        assert message in f"{caught.value.message} ({caught.value.hint})"

    @mt.kernel
    def parallel(A: T.Tensor((64,), T.int32)):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                A[i] = T.atomic_load(A[i], "acquire")

    with pytest.raises(MinitileError, match=r"inside T\.Parallel"):
        parallel.trace()
