"""simulate(report_masked=True) and `minitile check --masked`: the accesses that bounds cut off, against NumPy."""

from __future__ import annotations

import linecache

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.tools.cli import main

TARGETS = ["sm_90a", "gfx950", *(pytest.param(target, marks=pytest.mark.slow) for target in ("sm_80", "gfx942"))]


@mt.kernel
def product(
    A: T.Tensor(("M", "K"), T.float16),
    B: T.Tensor(("N", "K"), T.float16),
    C: T.Tensor(("M", "N"), T.float32),
):
    with T.Kernel(T.ceildiv(C.shape[1], 64), T.ceildiv(C.shape[0], 64), threads=128) as (bx, by):
        A_shared = T.alloc_shared((64, 32), A.dtype)
        B_shared = T.alloc_shared((64, 32), A.dtype)
        C_local = T.alloc_fragment((64, 64), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(A.shape[1], 32), num_stages=3):
            T.copy(A[by * 64, k * 32], A_shared)
            T.copy(B[bx * 64, k * 32], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
        T.copy(C_local, C[by * 64, bx * 64])


@mt.kernel
def elements(v: T.Tensor(("L",), T.int32), t: T.Tensor((8,), T.int32)):
    with T.Kernel(2) as bx:
        for i in T.Parallel(64):
            if i > 10:
                v[i + 2] = i
        x = v[bx * 100]
        for i in T.Parallel(8):
            v[t[i]] = x
        thread = T.get_thread_binding(0)
        if thread < 5:
            v[thread + 38] = 7
        if thread < 3:
            v[48] = 7
        T.atomic_add(v[bx + 40], 1)
        for i in T.serial(3):
            v[bx + i] = 1
        for i in T.serial(100):
            if v[i] > 1 << 20:
                break


def reported(report):
    """(source line, what, tensor, count) of each."""
    return [(_line(m.source), m.what, m.tensor, m.count) for m in report.masked]


def _line(source):
    file, _, line = source.rpartition(":")
    return linecache.getline(file, int(line)).strip()


@pytest.mark.parametrize("target", TARGETS)
def test_copies(target):
    """Each block's copies, whatever moves them: 2 × 2 blocks of 64 × 64, K in 2 steps of 32."""
    m, n, k = 100, 72, 40
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((rows, k)).astype(np.float16) for rows in (m, n))
    c = np.zeros((m, n), np.float32)
    kernel = product.compile(a, b, c, target=target)
    assert reported(kernel.simulate(a, b, c, report_masked=True)) == [
        ("T.copy(A[by * 64, k * 32], A_shared)", "read", "A", 2 * (128 * 64 - m * k)),
        ("T.copy(B[bx * 64, k * 32], B_shared)", "read", "B", 2 * (128 * 64 - n * k)),
        ("T.copy(C_local, C[by * 64, bx * 64])", "write", "C", 128 * 128 - m * n),
    ]
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32).T, atol=1e-2)
    a, b, c = (np.zeros((128, 128), d) for d in (np.float16, np.float16, np.float32))
    assert kernel.case.kernel.compile(a, b, c, target=target).simulate(a, b, c, report_masked=True).masked == ()


@pytest.mark.parametrize("target", TARGETS)
def test_elements(target):
    v, t = np.zeros(40, np.int32), np.array([3, -1, 40, 39, 1 << 30, -(1 << 31), 0, 41], np.int32)
    kernel = elements.compile(v, t, target=target)
    report = kernel.simulate(v, t, report_masked=True, check=False)
    assert reported(report) == [
        ("v[i + 2] = i", "write", "v", 2 * sum(i + 2 >= 40 for i in range(11, 64))),
        ("x = v[bx * 100]", "read", "v", 1),
        ("v[t[i]] = x", "write", "v", 2 * 5),
        ("v[thread + 38] = 7", "write", "v", 2 * 3),
        ("v[48] = 7", "write", "v", 2 * 3),
        ("T.atomic_add(v[bx + 40], 1)", "atomic", "v", 2 * 128),
        ("if v[i] > 1 << 20:", "read", "v", 2 * 60),
    ]
    assert str(report.masked[0]).endswith(": 52 elements outside of v not written")
    assert str(report.masked[1]).endswith(": 1 element outside of v read as 0")
    assert kernel.simulate(v, t, check=False).masked == ()


@mt.kernel(target="sm_90a")
def explicit_roles(A: T.Tensor(("M", 64), T.float32), B: T.Tensor(("M", 64), T.float32)):
    with T.Kernel(T.ceildiv(A.shape[0], 64), threads=256) as bx:
        rows = T.alloc_shared((64, 64), A.dtype)
        full = T.alloc_barrier(arrive_count=128)
        if T.get_thread_binding(0) >= 128:
            T.tma_copy(A[bx * 64 : bx * 64 + 64, 0:64], rows, barrier=full)
            T.mbarrier_arrive(full)
        else:
            T.mbarrier_wait_parity(full, 0)
            for i, j in T.Parallel(64, 64):
                B[bx * 64 + i, j] = rows[i, j]


def test_roles_explicit_roles():
    a, b = np.ones((100, 64), np.float32), np.zeros((100, 64), np.float32)
    report = explicit_roles.compile(a, b, target="sm_90a").simulate(a, b, report_masked=True)
    assert [m[1:] for m in reported(report)] == [("read", "A", 28 * 64), ("write", "B", 28 * 64)]
    assert (b == a).all()


def test_on_the_command_line(capsys):
    arguments = ["--masked", "--args", "f16[100,40]", "f16[72,40]", "f32[100,72]=0"]
    assert main(["check", f"{__file__}:product", *arguments]) == 0
    out, err = capsys.readouterr()
    assert [line.split(": ")[-1] for line in out.splitlines()] == [
        "8384 elements outside of A read as 0",
        "10624 elements outside of B read as 0",
        "9184 elements outside of C not written",
    ]
    assert "28192 accesses cut off by bounds" in err


def test_not_of_assembly_text(tmp_path, capsys):
    text = tmp_path / "k.ptx"
    text.write_text(product.compile(target="sm_80").asm["ptx"])
    assert main(["check", str(text), "--masked", "--block", "128"]) == 1
    assert "not known of assembly text" in capsys.readouterr().err
