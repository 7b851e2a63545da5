"""Rounding to the floating-point formats of PTX (PTX ISA 8.0, 5.2.3, 9.7.9.21).

`round_to` works on doubles, which hold every value of every smaller format exactly, by scaling so that one unit in
the last place becomes 1. A double that itself is a rounded result must be rounded to odd first (`fma_to_odd`), so
that the second rounding cannot go wrong (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from .scalars import Array, where


@dataclass(frozen=True, slots=True)
class Format:
    """`mantissa` explicit bits, `emin` the exponent of the least normal number, `largest` the largest finite."""

    mantissa: int
    emin: int
    largest: float
    dtype: np.dtype[Any]
    infinite: bool = True


FORMATS: dict[str, Format] = {
    "f16": Format(10, -14, 65504.0, np.dtype(np.float16)),
    "bf16": Format(7, -126, float(ml_dtypes.finfo(ml_dtypes.bfloat16).max), np.dtype(ml_dtypes.bfloat16)),
    "tf32": Format(10, -126, float.fromhex("0x1.ffcp127"), np.dtype(np.float32)),
    "f32": Format(23, -126, float(np.finfo(np.float32).max), np.dtype(np.float32)),
    "f64": Format(52, -1022, float(np.finfo(np.float64).max), np.dtype(np.float64)),
    "e4m3": Format(3, -6, 448.0, np.dtype(ml_dtypes.float8_e4m3fn), infinite=False),
    "e5m2": Format(2, -14, 57344.0, np.dtype(ml_dtypes.float8_e5m2)),
}

_INTEGRAL: dict[str, Callable[[Array], Array]] = {
    "rn": np.rint,
    "rz": np.trunc,
    "rm": np.floor,
    "rp": np.ceil,
    "rna": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
}


def to_integral(value: Array, mode: str) -> Array:
    """Round to an integer, as a float: rn (ties to even), rz, rm, rp, rna (ties away)."""
    return _INTEGRAL[mode](value)


def round_to(value: Array, name: str, mode: str = "rn", satfinite: bool = False) -> Array:
    """Doubles rounded to the named format, still as doubles. Overflow gives infinity, or the largest finite value
    where the mode or `satfinite` says so."""
    form = FORMATS[name]
    _, exponent = np.frexp(value)
    ulp = np.maximum(exponent - 1, form.emin) - form.mantissa
    rounded = np.ldexp(_INTEGRAL[mode](np.ldexp(value, -ulp)), ulp)
    rounded = np.where(np.isfinite(value), rounded, value)
    over = np.abs(rounded) > form.largest
    if over.any():
        beyond: Array = np.full(over.shape, np.inf if form.infinite else np.nan)
        if satfinite:
            beyond = np.full(over.shape, form.largest)
        elif mode != "rn":
            toward_zero = (mode == "rz") | ((mode == "rm") & (rounded > 0)) | ((mode == "rp") & (rounded < 0))
            beyond = np.where(toward_zero & np.isfinite(value), form.largest, beyond)
        rounded = np.where(over, np.copysign(beyond, rounded), rounded)
    return rounded


def encode(value: Array, name: str, mode: str = "rn", satfinite: bool = False) -> Array:
    """Doubles rounded to the named format, in its own NumPy type."""
    if name in ("f32", "f16") and mode == "rn" and not satfinite:  # as NumPy rounds
        return value.astype(FORMATS[name].dtype)
    exact = round_to(value, name, mode, satfinite)
    if name == "bf16" or name.startswith("e"):
        return exact.astype(np.float32).astype(FORMATS[name].dtype)
    return exact.astype(FORMATS[name].dtype)


def sum_to_odd(a: Array, b: Array) -> Array:
    """a + b in doubles, rounded to odd: exact, or with the last bit set."""
    total = a + b
    part = total - a
    rest = (a - (total - part)) + (b - part)
    bits = np.atleast_1d(total).view(np.int64)
    inexact = (rest != 0) & ((bits & 1) == 0) & np.isfinite(total)
    if not inexact.any():
        return total
    away = (rest > 0) == (total > 0)
    return (bits + np.where(inexact, np.where(away, 1, -1), 0)).view(np.float64)


def fma_to_odd(a: Array, b: Array, c: Array) -> Array:
    """a * b + c for factors of at most 26 bits, as a double rounded to odd."""
    return sum_to_odd(a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64))


def fma64(a: Array, b: Array, c: Array) -> Array:
    """a * b + c in doubles with the product's low half kept (Dekker's product, Knuth's sum)."""
    product = a * b
    split = 134217729.0
    ah, bh = a * split - (a * split - a), b * split - (b * split - b)
    al, bl = a - ah, b - bh
    low = ((ah * bh - product) + ah * bl + al * bh) + al * bl
    total = product + c
    part = total - product
    rest = (product - (total - part)) + (c - part)
    exact = total + (low + rest)
    return np.where(np.isfinite(exact), exact, total)


def flush(value: Array) -> Array:
    """Subnormal numbers to zero of the same sign."""
    tiny = np.finfo(np.float32).tiny if value.dtype == np.float32 else np.float16(2.0**-14)
    return where(np.abs(value) < tiny, np.copysign(value.dtype.type(0), value), value)
