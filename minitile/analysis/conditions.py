"""What a condition says: the parts that hold with it, and the numbers that are not negative then."""

from __future__ import annotations

from minitile.analysis.affine import AT_LEAST_ZERO, OPPOSITE, Affine, Facts
from minitile.ir.builder import constant_of
from minitile.ir.core import Value
from minitile.ir.ops import arith


def conjuncts(condition: Value, holds: bool) -> tuple[Value, ...]:
    """Conditions that are all as this one is: of `a and b` that holds, of `a or b` that does not; lazy ones are
    selects."""
    op = condition.op
    if isinstance(op, arith.And | arith.Or):
        return (op.a, op.b) if holds == isinstance(op, arith.And) else ()
    if isinstance(op, arith.Select) and condition.dtype.kind == "bool":
        if holds and constant_of(op.b) is False:
            return op.condition, op.a
        if not holds and constant_of(op.a) is True:
            return op.condition, op.b
    return ()


def claims(facts: Facts, condition: Value, holds: bool) -> tuple[Affine, ...]:
    """What is not negative where a condition holds, or does not."""
    op = condition.op
    both = conjuncts(condition, holds)
    if both:
        return tuple([claim for part in both for claim in claims(facts, part, holds)])
    if isinstance(op, arith.Not):
        return claims(facts, op.a, not holds)
    if not isinstance(op, arith.Cmp) or not op.a.dtype.is_int:
        return ()
    predicate = op.predicate if holds else OPPOSITE[op.predicate]
    return AT_LEAST_ZERO[predicate](facts.affine(op.a), facts.affine(op.b))
