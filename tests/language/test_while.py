"""`while` whose condition is known at first and not later: the same as in Python, on every target."""

from __future__ import annotations

import numpy as np
import pytest

import minitile as mt
import minitile.language as T

TARGETS = ["sm_80", "sm_90a", "gfx942", "gfx950"]


def until_flag(limit):
    n, go = 0, True
    while go:
        n = n + 1
        go = n < limit
    return n


def flag_and_bound(limit):
    n, go = 0, True
    while go and n < 5:
        n += 1
        go = n < limit
    return n


def by_break(limit):
    n = 0
    while n < 5:
        n = n + 1
        if n >= limit:
            break
        n = n + 1
    return n


def later(limit):
    """Two rounds are known."""
    n, go = 0, True
    while go:
        n += 1
        if n % 3 == 0:
            continue
        if n > 3:
            go = n < limit
    return n


def nested(limit):
    total, outer = 0, True
    while outer:
        inner, n = True, 0
        while inner:
            n += 1
            inner = n < limit
        total += n
        outer = total < 3 * limit
    return total


def never(limit):
    n = 7
    while n < 5:
        n += limit
    return n


LOOPS = [until_flag, flag_and_bound, by_break, later, nested, never]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("loop", LOOPS, ids=lambda f: f.__name__)
def test_known_at_first(loop, target):
    @mt.kernel
    def kernel(limit: T.int32, C: T.Tensor((1,), T.int32)):
        with T.Kernel(1, threads=64):
            n = loop(limit)
            if T.get_thread_binding() == 0:
                C[0] = n

    out = np.zeros(1, np.int32)
    compiled = kernel.compile(out, target=target)
    for limit in (-1, 0, 1, 2, 4, 9):
        if loop is nested and limit < 1:
            continue
        compiled.simulate(limit, out)
        assert out[0] == loop(limit), limit


@mt.kernel
def halved(X: T.Tensor(("M", 96), T.float32), N: T.Tensor(("M",), T.int32), most: T.float32, typed=False):
    with T.Kernel(X.shape[0], threads=64) as b:
        x, s = T.alloc_fragment((96,), T.float32), T.alloc_shared((96,), T.float32)
        T.copy(X[b, 0], x)
        rounds = T.alloc_var(T.int32, 0) if typed else 0
        more = T.alloc_var(T.bool, True) if typed else True
        while more and rounds < 20:
            large = T.alloc_fragment((96,), T.bool)  # new in each round
            for i in T.Parallel(96):
                s[i] = x[i] * 0.5
            for i in T.Parallel(96):
                x[i] = s[95 - i]
                large[i] = T.abs(x[i]) > most
            rounds += 1
            more = T.any_of(large)
        T.copy(x, X[b, 0])
        N[b] = rounds


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("target", TARGETS)
def test_tiles_until_they_are_small(target, typed):
    x = np.random.default_rng(3).standard_normal((5, 96)).astype(np.float32)
    x *= np.array([1, 0, 1000, 1e-4, 30], np.float32)[:, None]
    n, exact = np.full(5, -1, np.int32), x.copy()
    rounds = []
    for row in exact:
        count = 0
        while count == 0 or (np.abs(row) > 0.25).any():
            row[:] = row[::-1] * np.float32(0.5)
            count += 1
        rounds.append(count)
    halved.compile(x, n, target=target, typed=typed).simulate(x, n, 0.25, schedule="random", seed=4)
    assert n.tolist() == rounds
    assert (x == exact).all()


def test_outside_of_the_launch():
    @mt.kernel
    def kernel(limit: T.int32, C: T.Tensor((1,), T.int32)):
        n, go = 0, True
        while go:
            n += 1
            go = n < limit
        with T.Kernel(1, threads=32):
            C[0] = n

    with pytest.raises(mt.MinitileError, match=r"a `while` on run-time values outside T\.Kernel"):
        kernel.compile(target="sm_80")


def test_what_it_cannot_have():
    @mt.kernel
    def kernel(limit: T.int32, C: T.Tensor((1,), T.int32)):
        with T.Kernel(1, threads=32):
            n, go = 0, True
            while go:
                n += 1
                go = n < limit
            else:
                n = 0
            C[0] = n

    with pytest.raises(mt.MinitileError, match="`else` of a `while` on run-time values"):
        kernel.compile(target="sm_80")
