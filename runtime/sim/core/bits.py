"""Bits of unsigned words: counted, found, turned around. Numbers of bits are words of 32 bits."""

from __future__ import annotations

import numpy as np

from .scalars import UNSIGNED, Array, where

NONE = np.uint32(0xFFFFFFFF)  # where there is no such bit


def count_ones(a: Array) -> Array:
    return np.bitwise_count(a).astype(np.uint32)


def leading_zeros(a: Array) -> Array:
    """The number of zero bits above the highest one; all bits of a zero."""
    bits = 8 * a.dtype.itemsize
    x = a.copy()
    shift = 1
    while shift < bits:
        x |= x >> a.dtype.type(shift)
        shift *= 2
    return np.uint32(bits) - count_ones(x)


def zeros_above(a: Array) -> Array:
    """How many bits are above the highest one; NONE in a zero."""
    return where(a == 0, NONE, leading_zeros(a))


def zeros_below(a: Array) -> Array:
    """How many bits are below the lowest one; NONE in a zero."""
    return where(a == 0, NONE, count_ones(~a & (a - a.dtype.type(1))))


def without_sign(a: Array) -> Array:
    """Signed words as unsigned ones whose highest one is where the first bit is that differs from the sign."""
    return where(a < 0, ~a, a).view(UNSIGNED[a.dtype.itemsize])


def reverse_bits(a: Array) -> Array:
    """The bits in opposite order."""
    size = a.dtype.itemsize
    raw = np.ascontiguousarray(a).view(np.uint8).reshape(-1, size)
    flipped = np.packbits(np.unpackbits(raw, axis=1, bitorder="little"), axis=1, bitorder="big")[:, ::-1]
    return np.ascontiguousarray(flipped).view(a.dtype).reshape(a.shape)
