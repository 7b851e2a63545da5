"""The elements of operands and scales that tcgen05 alone has: four-bit floats, unsigned scale formats (PTX ISA 8.8,
5.2.3 "Alternate Floating-Point Data Formats", 9.7.16.10.4 and 9.7.16.10.7; OCP Microscaling Formats 1.0, section 5).

    e2m1       sign, 2 bits of exponent (bias 1), 1 of mantissa: 0, 0.5, 1, 1.5, 2, 3, 4, 6; two to a byte, the first in
               the lower bits
    e2m1/16    the same of kinds f8f6f4 and mxf8f6f4: 16 of them in 16 bytes, packed in the first 8
    e2m3       sign, 2 bits of exponent (bias 1), 3 of mantissa; 16 in 16 bytes, packed in the first 12, low bits first
    e3m2       sign, 3 bits of exponent (bias 3), 2 of mantissa; likewise
    ue8m0      2 ** (byte - 127); 255 is NaN
    ue4m3      e4m3 without a sign: bit 7 is not used

Sixteen elements of less than 8 bits in 16 bytes are as TMA unpacks them (PTX ISA 9.1, 5.5.1.1.1, b4x16_p64 and
b6x16_p32; CUTLASS, include/cute/arch/mma_sm100_desc.hpp, the float_*_unpacksmem_t types).
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from ...core.scalars import Array
from ..instructions.tensor_core import to_float


def _table(bits: int, exponent: int, bias: int) -> Array:
    """The values of all codes of a format without infinities, by code."""
    mantissa = bits - 1 - exponent
    code = np.arange(1 << bits)
    power, fraction = code >> mantissa & (1 << exponent) - 1, (code & (1 << mantissa) - 1) / (1 << mantissa)
    size = np.where(power == 0, fraction * 2.0 ** (1 - bias), (1 + fraction) * 2.0 ** (power - bias))
    values: Array = np.where(code >> bits - 1, -size, size).astype(np.float32)
    return values


_TABLES = {"e2m1": _table(4, 2, 1), "e2m3": _table(6, 2, 1), "e3m2": _table(6, 3, 3)}
PADDED = {"e2m1/16": 4, "e2m3": 6, "e3m2": 6}  # bits of what lies in containers of 16 bytes for 16 elements
K_MAJOR = frozenset(("e2m1", *PADDED))


def values(words: Array, kind: str) -> Array:
    """Words of 32 bits [rows, n] as the elements [rows, n · 32 / bits] of this kind, exactly; `bits` of a container."""
    words = np.ascontiguousarray(words)
    if kind not in K_MAJOR:
        return to_float(words, kind)
    bits = PADDED.get(kind, 4)
    stream = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")
    if kind in PADDED:
        stream = stream.reshape(len(words), -1, 128)[:, :, : 16 * bits].reshape(len(words), -1)
    codes = stream.reshape(len(words), -1, bits) @ (1 << np.arange(bits))
    found: Array = _TABLES[kind.partition("/")[0]][codes]
    return found


def scales(small: Array, kind: str) -> Array:
    """Bytes as scale factors of this kind, in double precision."""
    if kind == "ue8m0":
        powers: Array = np.where(small == 255, np.nan, np.ldexp(1.0, small.astype(np.int64) - 127))
        return powers
    found: Array = (small & 127).view(ml_dtypes.float8_e4m3fn).astype(np.float64)
    return found
