"""Accesses that are outside of their tensor or buffer as a whole; what may be inside, or may not happen, is none."""

from __future__ import annotations

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.ir.diagnostics import TypeMismatchError

TARGETS = ("sm_80", "sm_90a", "gfx942", "gfx950")


@mt.kernel
def negative(A: T.Tensor((8,), T.float32)):
    with T.Kernel(1):
        A[-1] = 5.0


@mt.kernel
def negative_of_any_size(A: T.Tensor(("N",), T.float32), n: T.int32):
    with T.Kernel(1):
        for _ in range(n):
            A[-1] = 5.0


@mt.kernel
def beyond(A: T.Tensor((8,), T.float32)):
    with T.Kernel(1):
        A[9] = 7.0


@mt.kernel
def beyond_read(A: T.Tensor((8,), T.float32)):
    with T.Kernel(1):
        A[0] = A[9]


@mt.kernel
def beyond_atomic(A: T.Tensor((8,), T.float32)):
    with T.Kernel(1):
        T.atomic_add(A[8], 1.0)


@mt.kernel
def copies_from_beyond(A: T.Tensor((8, 8), T.float32), B: T.Tensor((8, 8), T.float32)):
    with T.Kernel(1):
        s = T.alloc_shared((8, 8), T.float32)
        T.copy(A[100, 0], s)
        T.copy(s, B)


@mt.kernel
def copies_to_beyond(A: T.Tensor((8, 8), T.float32), B: T.Tensor((8, "N"), T.float32)):
    with T.Kernel(1):
        s = T.alloc_shared((8, 8), T.float32)
        T.copy(A, s)
        T.copy(s, B[0, -8])


@mt.kernel
def before_in_each_block(A: T.Tensor(("N",), T.float32)):
    with T.Kernel(4) as bx:
        A[bx - 4] = 5.0


@mt.kernel
def behind_run_time_size(A: T.Tensor(("N",), T.float32)):
    with T.Kernel(1):
        for i in T.Parallel(8):
            A[A.shape[0] + i] = 5.0


@mt.kernel
def behind_shared(A: T.Tensor((8,), T.float32)):
    with T.Kernel(1):
        s = T.alloc_shared((8,), T.float32)
        for i in range(8):
            s[i + 8] = A[i]


@mt.kernel
def behind_fragment(A: T.Tensor((8,), T.float32)):
    with T.Kernel(1):
        f = T.alloc_fragment((8,), T.float32)
        for i in T.Parallel(8):
            f[i + 8] = A[i]


@mt.kernel
def behind_local(A: T.Tensor((8,), T.float32)):
    with T.Kernel(1):
        x = T.alloc_local((4,), T.float32)
        for i in T.serial(4):
            x[i - 4] = A[i]


@mt.kernel
def unrolled(A: T.Tensor((4,), T.float32)):
    with T.Kernel(1):
        for i in T.unroll(4, 6):
            A[i] = 1.0


CASES = [
    (negative, "A[-1] = 5.0", "A[-1]", "writes any element of the tensor A (8 f32)", "is -1", "shape[d] - n"),
    (
        negative_of_any_size,
        "A[-1] = 5.0",
        "A[-1]",
        "writes any element of the tensor A (N f32)",
        "is -1",
        "shape[d] - n",
    ),
    (beyond, "A[9] = 7.0", "A[9]", "in dimension 0 (size 8)", "is 9", "the last index is 7"),
    (beyond_read, "A[0] = A[9]", "A[9]", "reads any element of the tensor A", "is 9", "the last index is 7"),
    (beyond_atomic, "T.atomic_add(A[8], 1.0)", "", "accesses any element of the tensor A", "is 8", "is 7"),
    (
        copies_from_beyond,
        "T.copy(A[100, 0], s)",
        "",
        "reads any element of the tensor A (8×8 f32)",
        "is 100 … 107",
        "7",
    ),
    (copies_to_beyond, "T.copy(s, B[0, -8])", "", "in dimension 1 (size N)", "is -8 … -1", "shape[d] - n"),
    (before_in_each_block, "A[bx - 4] = 5.0", "A[bx - 4]", "A (N f32)", "is -1 or less", "shape[d] - n"),
    (
        behind_run_time_size,
        "A[A.shape[0] + i] = 5.0",
        "A[A.shape[0] + i]",
        "in dimension 0 (size N)",
        "is never less than the size",
        "the last index is N - 1",
    ),
    (
        behind_shared,
        "s[i + 8] = A[i]",
        "s[i + 8]",
        "the shared buffer s (8 f32)",
        "is 8 or more",
        "the last index is 7",
    ),
    (behind_fragment, "f[i + 8] = A[i]", "f[i + 8]", "the fragment buffer f", "is 8 or more", "the last index is 7"),
    (behind_local, "x[i - 4] = A[i]", "x[i - 4]", "the local buffer x (4 f32)", "is -1 or less", "shape[d] - n"),
    (unrolled, "A[i] = 1.0", "A[i]", "the tensor A (4 f32)", "is 4", "the last index is 3"),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("kernel", "line", "caret", "what", "index", "hint"), CASES, ids=lambda x: getattr(x, "__name__", "")
)
def test_wholly_outside(shows, target, kernel, line, caret, what, index, hint):
    compile = lambda: kernel.compile(target=target)  # noqa: E731
    shows(compile, TypeMismatchError, line, ["this never ", what, f"the index {index}"], hint, caret=caret)


@mt.kernel
def may_be_inside(A: T.Tensor((8,), T.int32), E: T.Tensor((0,), T.int32), n: T.int32, extra=0):
    with T.Kernel(4) as bx:
        if n > 100:  # not for this size
            A[9] = 1
        x = A[9] if n > 100 else 3
        for i in range(n):  # has no rounds
            A[8 + i] = 2
        k = n
        while k > 0:
            A[10] = 4
            k -= 1
        for i in T.Parallel(8):
            if i >= 8 - n * 8:  # never
                A[i + 8] = 5
        for r in range(extra):
            A[8 + r] = 6
        A[bx * 4] = x  # two of four are outside
        E[0] = 1
        if n > 50:
            return
        A[bx * 2 + n + 1] = x + 1


@pytest.mark.parametrize("target", TARGETS)
def test_what_may_be_inside_or_may_not_happen(target):
    a, e = np.zeros(8, np.int32), np.zeros(0, np.int32)
    may_be_inside.compile(target=target).simulate(a, e, 0, check=False)
    assert a.tolist() == [3, 4, 0, 4, 3, 4, 0, 4]


def test_an_unrolled_statement_is_judged_as_a_whole():
    """Its last rounds may be past the end of a tensor; all of them may not, and none past the end of a buffer."""

    @mt.kernel
    def rounds(A: T.Tensor((6,), T.float32), first=0):
        with T.Kernel(1):
            for i in T.unroll(8):
                A[first + i] = 1.0

    a = np.zeros(6, np.float32)
    rounds.compile(a, target="sm_80").simulate(a)
    assert (a == 1).all()
    with pytest.raises(TypeMismatchError, match="never writes any element of the tensor A"):
        rounds.compile(a, target="sm_80", first=6)

    @mt.kernel
    def buffer(A: T.Tensor((8,), T.float32)):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((6,), T.float32)
            for i in T.unroll(8):
                s[i] = 1.0
            A[0] = s[0]

    with pytest.raises(TypeMismatchError, match="the shared buffer s"):
        buffer.compile(target="sm_80")
