"""Values as registers of another width hold them, and one of two values by a truth."""

from __future__ import annotations

from minitile.proof.values import (
    TOP,
    UNIFORM,
    Affine,
    Among,
    Predicate,
    Value,
    launch_wide,
    made,
    rounds,
    signed,
    unknown,
    without_sign,
)


def selected(a: Value, b: Value, p: Value) -> Value:
    if p in (0, 1):
        return a if p == 1 else b
    if a == b and a is not TOP and a is not UNIFORM:
        return a
    a, b = rounds(a), rounds(b)
    if isinstance(p, Predicate) and launch_wide(a) and launch_wide(b):
        return made("selp", (p, a, b))
    return unknown(a, b, p)


def low_half(value: Value) -> Value:
    if isinstance(value, int):
        return value % (1 << 32)
    return made("low", value) if isinstance(value, Affine) else unknown(value)


def of_half(kind: str, value: Value) -> Value:
    """A number of 16 bits as one of 32."""
    if isinstance(value, int):
        return (signed(value, 16) if kind == "s" else value) % (1 << 32)
    if isinstance(value, Among) and 0 <= value.low <= value.low + value.step * (value.count - 1) < 1 << 15:
        return value
    return unknown(rounds(value))


def zero_extended(value: Value) -> Value:
    return without_sign(rounds(value))


def sign_extended(value: Value) -> Value:
    if isinstance(value, int):
        return signed(value, 32) % (1 << 64)
    value = rounds(value)
    return value if isinstance(value, Affine) else unknown(value)


__all__ = ["low_half", "of_half", "selected", "sign_extended", "zero_extended"]
