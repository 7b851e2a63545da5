"""T.dp4a: four products of bytes and their sum, in one instruction, of arrays, tensors and shared memory."""

from __future__ import annotations

import re

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from tests.language.by_threads import RNG, run, text

DOTS = r"dp4a\.[su]32\.[su]32|v_dot4c?_[iu]32_[iu]8"


@mt.kernel
def rows(X: T.Tensor((1024,), None), W: T.Tensor((8, 1024), None), Y: T.Tensor((8,), None)):
    """A matrix of bytes by a vector, 16 bytes of each thread at once."""
    with T.Kernel(2, threads=(64, 4)) as bx:
        lane = T.get_thread_binding(0)
        row = bx * 4 + T.get_thread_binding(1)
        x = T.alloc_local((16,), X.dtype)
        w = T.alloc_local((16,), X.dtype)
        total = T.alloc_local((1,), Y.dtype)
        sums = T.alloc_shared((4, 64), Y.dtype)
        for k in T.vectorized(16):
            x[k] = X[lane * 16 + k]
            w[k] = W[row, lane * 16 + k]
        total[0] = 1
        for k in T.serial(4):
            T.dp4a(x[k * 4], w[k * 4 : k * 4 + 4], total[0])
        sums[row % 4, lane] = total[0]
        T.sync_threads()
        if lane == 0:
            for k in T.serial(1, 64):
                total[0] += sums[row % 4, k]
            Y[row] = total[0]


@pytest.mark.parametrize(("factor", "sum_"), [(np.int8, np.int32), (np.uint8, np.uint32), (np.uint8, np.int32)])
def test_rows(target, factor, sum_):
    limits = np.iinfo(factor)
    x, w = (RNG.integers(limits.min, limits.max, s, factor, endpoint=True) for s in ((1024,), (8, 1024)))
    y = np.zeros(8, sum_)
    code = text(run(rows, target, x, w, y))
    np.testing.assert_array_equal(y, w.astype(np.int64) @ x.astype(np.int64) + 64)
    kind = "i" if factor is np.int8 else "u"
    name = f"dp4a.{kind.replace('i', 's')}32" if target.startswith("sm") else f"v_dot4_{kind}32"
    found = re.findall(DOTS, code)
    assert len(found) == 4
    assert all(each.replace("dot4c", "dot4").startswith(name) for each in found)
    assert not re.search(r"\b(?:bfe|prmt|\.local)\b|v_perm", code), "words are taken as they were loaded"


@mt.kernel
def computed(X: T.Tensor((64, 4), T.int8), Y: T.Tensor((64,), T.int32)):
    """Factors that are computed, and from memory; the sum in memory."""
    with T.Kernel(1, threads=64):
        t = T.get_thread_binding()
        s = T.alloc_shared((64, 4), T.int8)
        a = T.alloc_local((4,), T.int8)
        for k in T.serial(4):
            a[k] = T.cast(k - 2, T.int8)
            s[t, k] = X[t, k]
        T.dp4a(a[0], s[t, 0], Y[t])
        T.dp4a(X[t, 0], a, Y[t])


def test_wherever_they_are(target):
    """The sum wraps."""
    x, y = RNG.integers(-128, 127, (64, 4), np.int8, endpoint=True), np.full(64, (1 << 31) - 1, np.int32)
    code = text(run(computed, target, x, y))
    total = (1 << 31) - 1 + 2 * (x.astype(np.int64) @ np.arange(-2, 2))
    np.testing.assert_array_equal(y, total.astype(np.uint32).view(np.int32))
    assert len(re.findall(DOTS, code)) == 2


def test_what_is_refused(refuses):
    def kinds():
        with T.Kernel(1, threads=64):
            a = T.alloc_local((8,), T.int8)
            u = T.alloc_local((8,), T.uint8)
            c = T.alloc_local((1,), T.int32)
            T.dp4a(a[0], u[0], c[0])

    def three():
        with T.Kernel(1, threads=64):
            a = T.alloc_local((8,), T.int8)
            c = T.alloc_local((1,), T.int32)
            T.dp4a(a[0:3], a[0], c[0])

    def parallel():
        with T.Kernel(1, threads=64):
            a = T.alloc_local((8,), T.int8)
            c = T.alloc_local((1,), T.int32)
            for _ in T.Parallel(4):
                T.dp4a(a[0], a[0], c[0])

    refuses(kinds, "T.dp4a of i8 by u8 to i32")
    refuses(three, "a slice of 4 of them")
    refuses(parallel, "inside T.Parallel")
