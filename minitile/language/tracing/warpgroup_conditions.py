"""Conditions that select warpgroups: `if tx < 128:` around tile operations is a role, as `with T.ws(0):` is."""

from __future__ import annotations

from collections.abc import Callable

from minitile.hardware import WARPGROUP
from minitile.ir.builder import constant_of
from minitile.ir.core import Value
from minitile.ir.ops import arith, tile

_BOUNDS: dict[str, Callable[[int, int], tuple[int, int]]] = {
    "lt": lambda c, n: (0, c),
    "le": lambda c, n: (0, c + 1),
    "ge": lambda c, n: (c, n),
    "gt": lambda c, n: (c + 1, n),
    "eq": lambda c, n: (c, c + 1),
}


def selected_warpgroups(condition: Value, threads: int) -> tuple[int, int] | None:
    """The first warpgroup, and how many, in which `condition` holds: it compares the thread's index, or a quotient of
    it, with a constant. None where it is something else, or does not select whole warpgroups."""
    op = condition.op
    if isinstance(op, arith.And):
        parts = [selected_warpgroups(v, threads) for v in (op.a, op.b)]
        (low, count), (low2, count2) = (p or (0, 0) for p in parts)
        first, end = max(low, low2), min(low + count, low2 + count2)
        return (first, end - first) if None not in parts and end > first else None
    if not isinstance(op, arith.Cmp) or op.predicate not in _BOUNDS or threads % WARPGROUP:
        return None
    number, index, unit = constant_of(op.b), op.a.op, 1
    if isinstance(index, arith.FloorDiv):
        unit, index = constant_of(index.b) or 0, index.a.op
    if not isinstance(index, tile.ThreadIndex) or not isinstance(number, int) or unit < 1:
        return None
    low, high = _BOUNDS[op.predicate](number, -(-threads // unit))
    first, end = max(0, low * unit), min(high * unit, threads)
    if first >= end or first % WARPGROUP or end % WARPGROUP:
        return None
    return first // WARPGROUP, (end - first) // WARPGROUP
