"""Fragments are stored at every n-th element, from registers; other places that are computed are refused."""

from __future__ import annotations

import numpy as np
import pytest

import minitile as mt
import minitile.language as T


@mt.kernel
def spread(X: T.Tensor((4, 2, 32), T.float32), Y: T.Tensor((4, 2, 32), T.float32), every=2, guarded=False, threads=64):
    with T.Kernel(1, threads=threads):
        x = T.alloc_fragment((4, 2, 32), T.float32)
        y = T.alloc_fragment((4, 2, 32), T.float32)
        T.copy(X, x)
        T.clear(y)
        for h, t, j in T.Parallel(2, 4, 32 // every):
            if not guarded:
                y[t, h, every * j] = x[t, h, every * j + 1]
                y[t, h, every * j + 1] = -x[t, h, every * j]
            else:
                if j % 3 == 1:
                    y[t, h, every * j + 1] = 5.0
                if j < 3:
                    y[t, h, every * j] = x[t, h, j]
        T.copy(y, Y)


@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize("every", [2, 8])
def test_every_nth_element(every, guarded):
    x = np.random.default_rng(0).standard_normal((4, 2, 32)).astype(np.float32)
    y, expected = np.full_like(x, np.nan), np.zeros_like(x)
    spread(x, y, every=every, guarded=guarded)
    for j in range(32 // every):
        if not guarded:
            expected[..., every * j] = x[..., every * j + 1]
            expected[..., every * j + 1] = -x[..., every * j]
        else:
            if j % 3 == 1:
                expected[..., every * j + 1] = 5
            if j < 3:
                expected[..., every * j] = x[..., j]
    np.testing.assert_array_equal(y, expected)


def test_in_registers():
    assert "shared" not in spread.compile(*[mt.spec((4, 2, 32), "float32")] * 2, target="sm_90a").asm["ptx"]


@pytest.mark.parametrize("place", [lambda i, j: (i, j ^ 1), lambda i, j: (j % 4, j), lambda i, j: (i, (j + 5) % 32)])
def test_other_places_are_refused(place):
    @mt.kernel
    def kernel(Y: T.Tensor((4, 32), T.float32)):
        with T.Kernel(1, threads=32):
            y = T.alloc_fragment((4, 32), T.float32)
            T.clear(y)
            for i, j in T.Parallel(4, 32):
                y[place(i, j)] = 1.0
            T.copy(y, Y)

    with pytest.raises(mt.MinitileError, match="where another thread may have it"):
        kernel.compile(mt.spec((4, 32), "float32"), target="sm_90a")
