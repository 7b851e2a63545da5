"""Integers of 16 bits, two in a word where no bit of one comes into the other (lowering/packed.py)."""

from __future__ import annotations

import re

import numpy as np
import pytest

import minitile as mt
import minitile.language as T

TARGETS = ("sm_80", "sm_90a", "gfx942", "gfx950")
RNG = np.random.default_rng(4)
OUT = 14


@mt.kernel
def mixed(X: T.Tensor(("N",), T.uint16), Y: T.Tensor(("N",), T.int16), Z: T.Tensor((14, "N"), T.uint16), n: T.int32):
    """What stays within its half, what is masked, what wraps, and what goes by a variable."""
    (N,) = X.shape
    with T.Kernel(T.ceildiv(N, 512), threads=64) as bx:
        for i in T.Parallel(512):
            x, y = X[bx * 512 + i], Y[bx * 512 + i]
            u = T.reinterpret(y, T.uint16)
            by = T.cast(i % 2, T.uint16) * T.uint16(5)
            small, less = x & T.uint16(0x7F), u & T.uint16(0x1FF)
            sign = y & T.int16(0x7FF0)
            Z[0, bx * 512 + i] = (x >> T.uint16(3)) | (x << T.uint16(13))
            Z[1, bx * 512 + i] = ~(x ^ u)
            Z[2, bx * 512 + i] = small + less
            Z[3, bx * 512 + i] = small * T.uint16(129)
            Z[4, bx * 512 + i] = less * T.uint16(129)  # wraps
            Z[5, bx * 512 + i] = x + u  # wraps
            Z[6, bx * 512 + i] = T.reinterpret(y >> T.int16(4), T.uint16)  # by its sign
            Z[7, bx * 512 + i] = T.reinterpret(sign >> T.int16(4), T.uint16)
            Z[8, bx * 512 + i] = (x >> by) & T.uint16(0x1F)
            Z[9, bx * 512 + i] = (x << by) ^ (u >> by)
            Z[10, bx * 512 + i] = x >> T.cast(n, T.uint16)
            Z[11, bx * 512 + i] = ((less >> T.uint16(9)) | (small << T.uint16(9))) - u
            Z[12, bx * 512 + i] = T.cast(T.cast(x, T.uint8), T.uint16) << T.uint16(8)
            Z[13, bx * 512 + i] = T.cast(T.cast(T.cast(x, T.uint8), T.int8), T.uint16) >> T.uint16(1)


def wanted(x: np.ndarray, y: np.ndarray, n: int) -> np.ndarray:
    """In 64 bits, cut off."""
    X, u = x.astype(np.int64), y.view(np.uint16).astype(np.int64)
    by = np.arange(len(x)) % 512 % 2 * 5
    small, less = X & 0x7F, u & 0x1FF
    signed = x.astype(np.uint8).view(np.int8).astype(np.int64) & 0xFFFF
    rows = [X >> 3 | X << 13, ~(X ^ u), small + less, small * 129, less * 129, X + u, y.astype(np.int64) >> 4]
    rows += [(u & 0x7FF0) >> 4, X >> by & 0x1F, X << by & 0xFFFF ^ u >> by, X >> n, (less >> 9 | small << 9) - u]
    rows += [(X & 0xFF) << 8, signed >> 1]
    return (np.stack(rows) & 0xFFFF).astype(np.uint16)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("size", "n"), [(1, 0), (17, 15), (1000, 3), (1024, 7)])
def test_what_comes_out(target: str, size: int, n: int) -> None:
    x = RNG.integers(0, 1 << 16, size, dtype=np.uint16)
    y = RNG.integers(-(1 << 15), 1 << 15, size, dtype=np.int16)
    z = np.full((OUT, size), 0xABCD, np.uint16)
    mixed.compile(x, y, z, n, target=target).simulate(x, y, z, n)
    np.testing.assert_array_equal(z, wanted(x, y, n))


@mt.kernel
def nibbles(X: T.Tensor((64, 64), T.uint8), Y: T.Tensor((64, 128), T.uint16)):
    """Both halves of a byte, the second of which is shifted."""
    with T.Kernel(1, threads=128):
        x = T.alloc_fragment((64, 64), T.uint8)
        y = T.alloc_fragment((64, 128), T.uint16)
        T.copy(X, x)
        for i, j in T.Parallel(64, 128):
            four = (T.cast(x[i, j // 2], T.uint16) >> (T.cast(j % 2, T.uint16) * T.uint16(4))) & T.uint16(15)
            y[i, j] = (((four & T.uint16(6)) >> T.uint16(1)) + T.uint16(14)) << T.uint16(10) | (four & T.uint16(1))
        T.copy(y, Y)


@pytest.mark.parametrize("target", TARGETS)
def test_the_halves_of_bytes(target: str) -> None:
    x = RNG.integers(0, 256, (64, 64), dtype=np.uint8)
    y = np.zeros((64, 128), np.uint16)
    nibbles.compile(target=target).simulate(x, y)
    four = np.stack((x & 15, x >> 4), -1).reshape(64, 128).astype(np.uint16)
    np.testing.assert_array_equal(y, (((four & 6) >> 1) + 14) << 10 | four & 1)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_a_word_is_two_of_them(target: str) -> None:
    """Of 64 elements a thread, 32 words; and nothing is shifted by what only the thread knows."""
    text = nibbles.compile(target=target).asm["ptx"]
    count = {name: len(re.findall(rf"^\s*{name}\S* ", text, re.MULTILINE)) for name in ("shr", "add.s32", "add.u32")}
    assert 64 <= count["shr"] < 80, count
    assert len(re.findall(r"\badd\.u32 \S+ \S+ 917518;", text)) == 32
