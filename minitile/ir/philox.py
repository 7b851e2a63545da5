"""The random function Philox4x32-10, as operations on whatever a builder builds: scalars, or registers.

Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011: of a counter of four words of 32
bits and a key of two, four random words. Ten rounds

    c = high(M1·c2) ^ c1 ^ k0, low(M1·c2), high(M0·c0) ^ c3 ^ k1, low(M0·c0)        k = k + W  behind each
"""

from __future__ import annotations

from minitile.ir.builder import Builder
from minitile.ir.core import Value
from minitile.ir.ops import arith
from minitile.ir.types import u32, u64

ROUNDS = 10
FACTORS = 0xD2511F53, 0xCD9E8D57
WEYL = 0x9E3779B9, 0xBB67AE85

Words = tuple[Value, Value, Value, Value]


def halves(b: Builder, value: Value) -> tuple[Value, Value]:
    """The low and the high word of a u64."""
    return b.cast(value, u32), b.cast(b.value(arith.Shr(value, b.constant(32, u64))), u32)


def philox(b: Builder, key: Value, counter: Value, stream: Value) -> Words:
    """The random words of a counter; all operands are u64, `stream` the counter's upper half."""
    (c0, c1), (c2, c3), (k0, k1) = (halves(b, v) for v in (counter, stream, key))
    for _ in range(ROUNDS):
        products = (
            b.value(arith.Mul(b.cast(c, u64), b.constant(m, u64))) for c, m in zip((c0, c2), FACTORS, strict=True)
        )
        (low0, high0), (low1, high1) = (halves(b, p) for p in products)
        c0, c1 = b.value(arith.Xor(high1, b.value(arith.Xor(c1, k0)))), low1
        c2, c3 = b.value(arith.Xor(high0, b.value(arith.Xor(c3, k1)))), low0
        k0, k1 = (b.value(arith.Add(k, b.constant(w, u32))) for k, w in zip((k0, k1), WEYL, strict=True))
    return c0, c1, c2, c3
