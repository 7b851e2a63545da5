"""What the host computes at a launch, out of a kernel's IR: a grid, the sizes of results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minitile.ir.core import Op, Value
from minitile.ir.diagnostics import LanguageError, Location
from minitile.ir.ops import arith

_HOST: dict[type[Op], str] = {
    arith.Add: "add",
    arith.Sub: "sub",
    arith.Mul: "mul",
    arith.FloorDiv: "floordiv",
    arith.FloorMod: "mod",
    arith.Min: "min",
    arith.Max: "max",
}


def host_expression(value: Value, known: Mapping[Value, Any], rule: str, loc: Location | None) -> Any:
    """A value as an expression of runtime.launch over those that are known. Raises LanguageError, with the rule, where
    the host could not compute it."""
    if value in known:
        return known[value]
    op = value.op
    if isinstance(op, arith.Constant):
        return int(op.value)
    if isinstance(op, arith.Binary) and type(op) in _HOST:
        a, b = (host_expression(side, known, rule, loc) for side in (op.a, op.b))
        return (_HOST[type(op)], a, b)
    if isinstance(op, arith.Cast):
        return host_expression(op.a, known, rule, loc)
    raise LanguageError(rule, loc if op is None else op.loc or loc)
