"""Integer arithmetic and comparisons of PTX (ISA 8.3, 9.7.1, 9.7.6), for tests that execute texts: on numbers of any
width, which the caller wraps. Written apart from the prover's (minitile/proof/arithmetic), which it is held against."""

from __future__ import annotations

from collections.abc import Callable


def _quotient(a: int, b: int) -> int:
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


INTEGER: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "min": min,
    "max": max,
    "shl": lambda a, b: a << min(b, 64),
    "shr": lambda a, b: a >> min(b, 64),
    "div": _quotient,
    "rem": lambda a, b: a - b * _quotient(a, b),
}
COMPARE: dict[str, Callable[[int, int], bool]] = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}
COMPARE |= {"lo": COMPARE["lt"], "ls": COMPARE["le"], "hi": COMPARE["gt"], "hs": COMPARE["ge"]}
