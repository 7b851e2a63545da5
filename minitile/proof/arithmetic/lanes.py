"""What addresses, conversions, selections and comparisons of lanes give: functions of values alone."""

from __future__ import annotations

import re
from functools import lru_cache

from minitile.proof.arithmetic.values import (
    TOP,
    UNIFORM,
    Affine,
    Among,
    Counter,
    Predicate,
    Value,
    by_lane,
    compare,
    join,
    lanes_of,
    launch_wide,
    made,
    rounds,
    signed,
    unknown,
    without_sign,
)
from minitile.proof.state import lanes_in


@lru_cache(maxsize=1024)
def threads(warp: int, shape: tuple[int, int, int], axis: int) -> Value:
    """A thread's index along an axis, of a warp's lanes: threads are numbered along x, then y, then z."""
    inner = (1, shape[0], shape[0] * shape[1])[axis]
    return join(tuple((warp * 32 + lane) // inner % shape[axis] for lane in range(32)))


@lru_cache(maxsize=1 << 16)
def located(values: Value, offset: int, lanes: int) -> tuple[int, ...] | None:
    """An address for each of these lanes; of others 0; None: not all are known, or one has more than 32 bits."""
    each_lane, found = lanes_of(values), [0] * 32
    for lane in lanes_in(lanes):
        value = each_lane[lane]
        if not isinstance(value, int):
            return None
        found[lane] = (value + offset) % (1 << 32)
        if value >> 32 and (value + offset) % (1 << 64) >> 32:
            return None  # of a register of 64 bits
    return tuple(found)


@lru_cache(maxsize=4096)
def operand_of_address(arg: str) -> tuple[str, int]:
    """[%r+4]: register or name, and offset; ("", 0) of another form."""
    match = re.fullmatch(r"\[(%?~?\w+)(?:\+(-?\d+))?\]", arg)
    return (match[1], int(match[2] or 0)) if match else ("", 0)


@lru_cache(maxsize=1 << 14)
def truths_of(values: tuple[Value, ...]) -> tuple[int, int, tuple[tuple[Predicate, int], ...]]:
    """Lanes in which a predicate is false, and is true; what is asked of the launch in others, in which."""
    found: dict[Value, int] = {}
    for n, value in enumerate(values):
        found[value] = found.get(value, 0) | 1 << n
    asked = tuple((value, whose) for value, whose in found.items() if isinstance(value, Predicate))
    return found.get(0, 0), found.get(1, 0), asked


@lru_cache(maxsize=1 << 14)
def compared(name: str, kind: str, a: Value, b: Value) -> Value:
    return by_lane(lambda x, y: _of_lanes(name, kind, x, y), a, b)


def _of_lanes(name: str, kind: str, a: Value, b: Value) -> Value:
    return unknown(a, b) if isinstance(a, Counter) or isinstance(b, Counter) else compare(name, kind, a, b)


def select(a: Value, b: Value, p: Value) -> Value:
    if p in (0, 1):
        return a if p == 1 else b
    if a == b and a is not TOP and a is not UNIFORM:
        return a
    a, b = rounds(a), rounds(b)
    if isinstance(p, Predicate) and launch_wide(a) and launch_wide(b):
        return made("selp", (p, a, b))
    return unknown(a, b, p)


def lower_half(value: Value) -> Value:
    if isinstance(value, int):
        return value % (1 << 32)
    return made("low", value) if isinstance(value, Affine) else unknown(value)


def half(kind: str, value: Value) -> Value:
    """A number of 16 bits as one of 32."""
    if isinstance(value, int):
        return (signed(value, 16) if kind == "s" else value) % (1 << 32)
    if isinstance(value, Among) and 0 <= value.low <= value.low + value.step * (value.count - 1) < 1 << 15:
        return value
    return unknown(rounds(value))


def zero_extended(value: Value) -> Value:
    return without_sign(rounds(value))


def extended(value: Value) -> Value:
    if isinstance(value, int):
        return signed(value, 32) % (1 << 64)
    value = rounds(value)
    return value if isinstance(value, Affine) else unknown(value)


__all__ = [
    "compared",
    "extended",
    "half",
    "located",
    "lower_half",
    "operand_of_address",
    "select",
    "threads",
    "truths_of",
    "zero_extended",
]
