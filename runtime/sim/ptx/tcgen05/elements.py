"""The elements of operands and scales that tcgen05 alone has: four-bit floats, unsigned scale formats (PTX ISA 8.8,
5.2.3 "Alternate Floating-Point Data Formats", 9.7.16.10.4 and 9.7.16.10.7; OCP Microscaling Formats 1.0, section 5).

    e2m1     sign, 2 bits of exponent (bias 1), 1 of mantissa: 0, 0.5, 1, 1.5, 2, 3, 4, 6; two to a byte, the first in
             the lower bits
    ue8m0    2 ** (byte - 127); 255 is NaN
    ue4m3    e4m3 without a sign: bit 7 is not used
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from ...core.scalars import Array
from ..instructions.tensor_core import to_float

_E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def values(words: Array, kind: str) -> Array:
    """Words of 32 bits [rows, n] as the elements [rows, n · 32 / bits] of this kind, exactly."""
    words = np.ascontiguousarray(words)
    if kind != "e2m1":
        return to_float(words, kind)
    small = words.view(np.uint8)
    pairs = np.stack([small & 15, small >> 4], axis=-1)
    found: Array = _E2M1[pairs.reshape(len(words), -1)]
    return found


def scales(small: Array, kind: str) -> Array:
    """Bytes as scale factors of this kind, in double precision."""
    if kind == "ue8m0":
        powers: Array = np.where(small == 255, np.nan, np.ldexp(1.0, small.astype(np.int64) - 127))
        return powers
    found: Array = (small & 127).view(ml_dtypes.float8_e4m3fn).astype(np.float64)
    return found
