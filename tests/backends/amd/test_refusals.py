"""What an AMD target cannot do is an error at the user's line, before LLVM sees it: LLVM ends its process on such
things. And after each error this very process, and LLVM's, compile what is right."""

from __future__ import annotations

import os

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.backends.amd.assemble import codegen
from minitile.backends.amd.emit.emitter import Emitter
from minitile.ir.diagnostics import ResourceError, TargetError
from minitile.target import TARGETS

pytest.importorskip("llvmlite")
BOTH = ("gfx942", "gfx950")


@pytest.fixture(autouse=True)
def _alive(monkeypatch):
    """The process of the compiler and that of LLVM are the same before and behind, and work."""
    monkeypatch.setenv("MINITILE_CACHE", "0")
    double.compile(target="gfx942")
    worker = codegen._worker()
    before = os.getpid(), worker.process.pid
    yield
    a = np.arange(100, dtype=np.float32)
    b = np.zeros(100, np.float32)
    double.compile(a, b, target="gfx950").simulate(a, b)
    assert np.array_equal(b, 2 * a)
    assert (os.getpid(), worker.process.pid) == before
    assert worker.process.poll() is None


@mt.kernel
def double(A: T.Tensor(("N",), T.float32), B: T.Tensor(("N",), T.float32)):
    with T.Kernel(T.ceildiv(A.shape[0], 128), threads=64) as bx:
        for i in T.Parallel(128):
            B[bx * 128 + i] = A[bx * 128 + i] * 2


@mt.kernel
def through_shared(A: T.Tensor(("N", 256), T.float32), B: T.Tensor(("N", 256), T.float32), rows=64):
    with T.Kernel(1, threads=256):
        S = T.alloc_shared((rows, 256), T.float32)
        R = T.alloc_shared((rows, 256), T.float32)
        T.copy(A[0, 0], S)
        T.copy(A[rows, 0], R)
        for i, j in T.Parallel(rows, 256):
            B[i, j] = S[rows - 1 - i, j] + R[i, 255 - j]


@pytest.mark.parametrize(("target", "rows", "limit"), [("gfx942", 33, 65536), ("gfx950", 81, 163840)])
def test_lds_over_budget(target, rows, limit):
    """One row less fits."""
    said = f"needs {2 * rows * 1024} bytes of shared memory at once; {target} has {limit}"
    with pytest.raises(ResourceError, match=said):
        through_shared.compile(target=target, rows=rows)
    kernel = through_shared.compile(target=target, rows=rows - 1)
    assert kernel.launch_info.dynamic_shared == limit


@pytest.mark.parametrize("function", [T.exp, T.log, T.sin], ids=["exp", "log", "sin"])
@pytest.mark.parametrize("target", BOTH)
def test_functions_in_float64(target, function):
    @mt.kernel
    def kernel(A: T.Tensor((64,), T.float64)):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                A[i] = function(A[i])

    with pytest.raises(TargetError, match="not available in float64") as caught:
        kernel.compile(target=target)
    assert "A[i] = function(A[i])" in str(caught.value)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2fnuz"])
@pytest.mark.parametrize("target", BOTH)
def test_atomics_on_fp8(target, name):
    dtype = getattr(T, name)

    @mt.kernel
    def kernel(A: T.Tensor((64,), dtype)):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                T.atomic_add(A[i], T.cast(1.0, dtype))

    with pytest.raises(TargetError, match="there is no atomic add on"):
        kernel.compile(target=target)


def by_barrier(A, S):
    bar = T.alloc_barrier(1)
    T.copy(A, S)
    T.mbarrier_arrive(bar)
    T.mbarrier_wait_parity(bar, 0)


def by_wgmma(A, S):
    C = T.alloc_fragment((64, 64), T.float32)
    T.copy(A, S)
    T.clear(C)
    T.wgmma_gemm(S, S, C)
    T.wait_wgmma(0)


@pytest.mark.parametrize("body", [by_barrier, by_wgmma], ids=lambda f: f.__name__)
@pytest.mark.parametrize("target", BOTH)
def test_what_is_nvidias(target, body):
    @mt.kernel
    def kernel(A: T.Tensor((64, 64), T.bfloat16), B: T.Tensor((64, 64), T.bfloat16)):
        with T.Kernel(1, threads=256):
            S = T.alloc_shared((64, 64), A.dtype)
            body(A, S)
            T.copy(S, B)

    with pytest.raises(mt.MinitileError, match=f"{target} has no T\\."):
        kernel.compile(target=target)


def test_copies_of_16_bytes_past_the_registers_on_gfx942():
    """Nothing in the language asks for them: a copy goes through registers there. In IR they are refused."""
    wide = through_shared.compile(target="gfx942", rows=32)
    assert " lds" not in wide.text.replace("_lds", "")
    w = Emitter(TARGETS["gfx942"], "k", {})
    with pytest.raises(TargetError, match=r"gfx942 has no llvm\.amdgcn\.raw\.ptr\.buffer\.load\.lds"):
        w.call("llvm.amdgcn.raw.ptr.buffer.load.lds", "void", [("ptr addrspace(8)", "%r"), ("i32", "16")])


@pytest.mark.parametrize(
    "name",
    [
        "llvm.amdgcn.mfma.f32.16x16x8.xf32",
        "llvm.amdgcn.ds.read.tr16.b64.v4f16",
        "llvm.amdgcn.permlane32.swap",
        "llvm.amdgcn.s_barrier",
        "llvm.exp.f64",
    ],
)
def test_only_what_the_table_has(name):
    """gfx950-only, gone from gfx950, misspelt, or without an instruction."""
    w = Emitter(TARGETS["gfx950"], "k", {})
    with pytest.raises(TargetError, match="gfx950 has no"):
        w.call(name, "float", [("float", "%x")])
