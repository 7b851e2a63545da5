"""Extents with which a compilation would not end: each is refused at once, and the largest that are not do end."""

from __future__ import annotations

import time

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.ir.diagnostics import LanguageError, LaunchArgumentError, ResourceError

TARGETS = ("sm_80", "sm_90a", "gfx942", "gfx950")


@mt.kernel
def parallel(A: T.Tensor(("N",), T.float32), n=1 << 26, m=1, threads=128):
    with T.Kernel(1, threads=threads):
        for i, j in T.Parallel(n, m):
            A[i + j] = A[i + j] * 2.0


@mt.kernel
def copies(A: T.Tensor(("N",), T.float32), B: T.Tensor(("N",), T.float32), n=1 << 26):
    with T.Kernel(1, threads=128):
        T.copy(A[0:n], B[0:n])


@mt.kernel
def atomics(A: T.Tensor(("N",), T.float32), B: T.Tensor(("N",), T.float32), n=1 << 26):
    with T.Kernel(1, threads=128):
        T.atomic_add(A[0:n], B[0:n])


@mt.kernel
def shares(A: T.Tensor(("N",), T.float32), n=1 << 26):
    with T.Kernel(1, threads=128):
        S = T.alloc_shared((n,), T.float32)
        T.copy(A[0:n], S)


@mt.kernel
def keeps(A: T.Tensor(("N",), T.float32), n=1 << 26):
    with T.Kernel(1, threads=128):
        own = T.alloc_local((n,), T.float32)
        own[0] = A[0]
        A[1] = own[0]


CASES = [
    (
        parallel,
        "for i, j in T.Parallel(n, m):",
        ["67108864 elements at once are 524288 for each of 128 threads"],
        "a part",
    ),
    (copies, "T.copy(A[0:n], B[0:n])", ["67108864 elements at once"], "at most "),
    (atomics, "T.atomic_add(A[0:n], B[0:n])", ["67108864 elements at once"], "at most "),
    (shares, "S = T.alloc_shared((n,), T.float32)", ["S is 268435456 bytes (67108864 f32)", "shared memory"], "a part"),
    (
        keeps,
        "own = T.alloc_local((n,), T.float32)",
        ["own is 268435456 bytes", "a thread's own is 524288"],
        "in a tensor",
    ),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("kernel", "line", "texts", "hint"), CASES, ids=lambda x: getattr(x, "__name__", ""))
def test_too_many_elements(shows, target, kernel, line, texts, hint):
    caret = line.split(" = ")[1] if " = " in line else ""
    start = time.process_time()
    shows(lambda: kernel.compile(target=target), ResourceError, line, texts, hint, caret=caret)
    assert time.process_time() - start < 2
    shows(lambda: kernel.compile(target=target, n=1 << 30), ResourceError, line, [], hint, caret=caret)


@pytest.mark.slow
def test_the_most_elements():
    assert parallel.compile(target="sm_80", n=8192 * 32, threads=32).text
    with pytest.raises(ResourceError):
        parallel.compile(target="sm_80", n=8192 * 32 + 32, threads=32)


@mt.kernel
def unrolls(A: T.Tensor(("N",), T.float32), n=1 << 16):
    with T.Kernel(1):
        for i in T.unroll(n):
            A[i] = 1.0


@mt.kernel
def unrolls_in_each_other(A: T.Tensor(("N",), T.float32)):
    with T.Kernel(1):
        for i in T.unroll(64):
            for j in T.unroll(64):
                for k in T.unroll(64):
                    for m in T.unroll(64):
                        A[i + j + k + m] = 1.0


@mt.kernel
def counts_for_ever(A: T.Tensor(("N",), T.float32)):
    with T.Kernel(1):
        total = 0
        for i in T.unroll(1 << 15):
            for j in T.unroll(1 << 15):
                total = total + i * j
        A[0] = total


@mt.kernel
def lists_for_ever(A: T.Tensor(("N",), T.float32)):
    with T.Kernel(1):
        A[0] = len([2 * i for i in range(1 << 40)])


@pytest.mark.parametrize(
    ("kernel", "line", "text", "hint"),
    [
        (unrolls, "for i in T.unroll(n):", "a kernel of more than 100000 operations", "T.serial(n)"),
        pytest.param(
            unrolls_in_each_other,
            "for m in T.unroll(64):",
            "a kernel of more than 100000 operations",
            "T.serial(n)",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            counts_for_ever,
            "for j in T.unroll(1 << 15):",
            "more than 300000 iterations in all",
            "T.serial(n)",
            marks=pytest.mark.slow,
        ),
        (lists_for_ever, "A[0] = len([2 * i for i in range(1 << 40)])", "more than 300000 iterations in all", ""),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_too_much_at_compile_time(shows, kernel, line, text, hint):
    caret = "range(1 << 40)" if "range" in line else ""
    shows(lambda: kernel.compile(target="sm_80"), LanguageError, line, [text], hint, caret=caret)


@mt.kernel
def by_pairs(A: T.Tensor(("N",), T.float32)):
    with T.Kernel(T.ceildiv(A.shape[0], 128), threads=128, cluster=2) as bx:
        for i in T.Parallel(128):
            A[bx * 128 + i] = 1.0


def test_grid_of_half_a_cluster():
    """Known at launch only; the same on the GPU (runtime/launcher_base.py)."""
    whole = np.zeros(512, np.float32)
    compiled = by_pairs.compile(mt.spec(("N",), "float32"), target="sm_90a")
    compiled.simulate(whole)
    assert whole.all()
    with pytest.raises(
        LaunchArgumentError, match=r"\(3, 1, 1\): clusters of \(2, 1, 1\)(.|\n)*T\.ceildiv\(n, 2\) \* 2"
    ):
        compiled.simulate(np.zeros(384, np.float32))


def test_match_statements():
    @mt.kernel
    def matching(A: T.Tensor((8,), T.float32), kind=0):
        with T.Kernel(1, threads=32):
            match kind:
                case 0:
                    A[0] = 1.0

    with pytest.raises(mt.MinitileError, match=r"`match` statements have no meaning(.|\n)*write if, elif and else"):
        matching(np.zeros(8, np.float32))
