"""What atomics, reductions and bulk copies make of what is in memory and an operand; and minima and maxima, which both
simulators' arithmetic has as well (PTX ISA 8.0, 9.7.3.10; CDNA3 ISA, V_MIN_F32 and V_MAX_F32)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .scalars import REDUCTIONS, UNSIGNED, Array, some, where


def minimum(a: Array, b: Array) -> Array:
    """The lesser; a NaN loses against a number; -0 is less than +0."""
    return _signed_zero(np.fmin(a, b), a, b, np.bitwise_or)


def maximum(a: Array, b: Array) -> Array:
    """The greater; a NaN loses against a number; +0 is greater than -0."""
    return _signed_zero(np.fmax(a, b), a, b, np.bitwise_and)


def least(a: Array, b: Array) -> Array:
    """The lesser, NaN if either is NaN (.NaN); -0 is less than +0."""
    return _signed_zero(np.minimum(a, b), a, b, np.bitwise_or)


def greatest(a: Array, b: Array) -> Array:
    """The greater, NaN if either is NaN (.NaN); +0 is greater than -0."""
    return _signed_zero(np.maximum(a, b), a, b, np.bitwise_and)


def _signed_zero(result: Array, a: Array, b: Array, combine: Callable[[Array, Array], Array]) -> Array:
    if result.dtype.kind in "iu":
        return result
    zero = (a == 0) & (b == 0)
    if not some(zero):
        return result
    word = UNSIGNED[result.dtype.itemsize]
    return where(zero, combine(a.view(word), b.view(word)).view(result.dtype), result)


def increment(old: Array, limit: Array) -> Array:
    """One more; 0 from the limit on."""
    return where(old >= limit, old.dtype.type(0), old + old.dtype.type(1))


def decrement(old: Array, limit: Array) -> Array:
    """One less; the limit from 0 and for what is beyond it."""
    return where((old == 0) | (old > limit), limit, old - old.dtype.type(1))


UPDATES: dict[str, Callable[..., Array]] = {  # of (old, operand), integers or floats
    **REDUCTIONS,
    "min": minimum,
    "max": maximum,
    "inc": increment,
    "dec": decrement,
}
