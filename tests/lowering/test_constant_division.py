"""Tiles divided by constants: by products with the reciprocal, which are exact."""

from __future__ import annotations

import re

import numpy as np
import pytest

import minitile as mt
import minitile.language as T

DIVISORS = (3, 7, 10, 384, 641, 65537, 2**31 - 1)
CASES = [("sm_80", 3), ("gfx942", 7), ("gfx950", 384), *(("sm_90a", d) for d in DIVISORS)]


@mt.kernel
def divided(
    X: T.Tensor(("N",), T.int32), U: T.Tensor(("N",), T.uint32),
    Q: T.Tensor((4, "N"), T.int32), V: T.Tensor((2, "N"), T.uint32), d=3,
):  # fmt: skip
    (N,) = X.shape
    with T.Kernel(T.ceildiv(N, 256), threads=64) as bx:
        for i in T.Parallel(256):
            at = bx * 256 + i
            Q[0, at] = X[at] // d
            Q[1, at] = X[at] % d
            Q[2, at] = T.truncdiv(X[at], d)
            Q[3, at] = T.truncmod(X[at], d)
            V[0, at] = U[at] // T.uint32(d)
            V[1, at] = U[at] % T.uint32(d)


@pytest.mark.parametrize(("target", "d"), CASES)
def test_quotients_and_remainders(target: str, d: int) -> None:
    edges = [0, 1, -1, d - 1, d, -d, 1 - d, 2**31 - 1, -(2**31), 2**31 - 1 - (2**31 - 1) % d, -(2**31) + 1]
    rng = np.random.default_rng(d)
    x = np.array([*edges, *rng.integers(-(2**31), 2**31, 246)], np.int32)  # 257
    u = x.view(np.uint32).copy()
    q, v = np.full((4, len(x)), 77, np.int32), np.full((2, len(x)), 77, np.uint32)
    compiled = divided.compile(x, u, q, v, target=target, d=d)
    if target.startswith("sm"):
        assert not re.search(r"\b(div|rem)\.[su]32", compiled.asm["ptx"])
    compiled.simulate(x, u, q, v)
    wide, unsigned = x.astype(np.int64), u.astype(np.int64)
    quotient = np.sign(wide) * (np.abs(wide) // d)
    np.testing.assert_array_equal(q, np.stack([wide // d, wide % d, quotient, wide - quotient * d]))
    np.testing.assert_array_equal(v, np.stack([unsigned // d, unsigned % d]))


@mt.kernel
def tile_by_tile(
    U: T.Tensor(("N",), T.uint32), V: T.Tensor((4, "N"), T.uint32), count: T.int32, by: T.uint32, blocks=2, constant=7
):
    """A number of each tile divided by one of run time, and by a constant."""
    with T.Kernel(count, threads=64, persistent=blocks) as tile:
        for _ in T.Parallel(1):
            n = U[tile]
            V[0, tile] = n // by
            V[1, tile] = n % by
            V[2, tile] = (n // by) // T.uint32(constant)
            V[3, tile] = n % T.uint32(constant)


@pytest.mark.parametrize(("target", "by"), [("sm_80", 1), ("sm_90a", 641), ("sm_90a", 2**31 + 1), ("gfx942", 5)])
def test_divisors_that_all_tiles_have(target: str, by: int) -> None:
    edges = [0, 1, by - 1, by, min(by + 1, 2**32 - 1), 2**32 - 1, 2**31, (2**32 - 1) // by * by]
    u = np.array([*edges, *np.random.default_rng(by).integers(0, 2**32, 9)], np.uint32)
    v = np.full((4, len(u)), 77, np.uint32)
    compiled = tile_by_tile.compile(u, v, len(u), by, target=target)
    if target.startswith("sm"):
        text = compiled.asm["ptx"]
        assert len(re.findall(r"\b(div|rem)\.u32", text)) == 1  # the reciprocal
    compiled.simulate(u, v, len(u), by)
    n = u.astype(np.int64)
    np.testing.assert_array_equal(v, np.stack([n // by, n % by, n // by // 7, n % 7]))
