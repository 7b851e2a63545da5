"""Proofs that a polynomial is not negative, by replacing values with bounds of them.

    128*by + 127 < M  where  by <= m - 1  and  128*m <= M:
        M - 1 - (128*by + 127)  >=  M - 128*m  >=  0

The atom made last goes first: its bounds are in terms of atoms made before. `Facts` knows the bounds. Each step asks
for more than the one before: one that an example refutes (examples.py) leads nowhere, and the search turns back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from minitile.analysis.polynomial import Affine, divide, weighted

if TYPE_CHECKING:
    from minitile.analysis.affine import Facts

Range = tuple[int | None, int | None]  # inclusive; None: not known
_FUEL = 48  # substitutions that one proof may try
_FEW = 4  # bounds of a quotient


Bound = tuple[int, Affine]  # (d, A) with d > 0


@dataclass(slots=True)
class Bounds:
    """Of an atom v: `lower` holds (d, A) with d*v >= A, `upper` with d*v <= A; each holds by itself. `cases`: v equals
    one of these, so what can be proved of each is proved of v. `quotient` (x, D): v = floordiv(x, D), D no number."""

    lower: list[Bound] = field(default_factory=list)
    upper: list[Bound] = field(default_factory=list)
    cases: list[Affine] = field(default_factory=list)
    quotient: tuple[Affine, Affine] | None = None


def between(low: int, high: int) -> Bounds:
    return Bounds([(1, Affine(low))], [(1, Affine(high))])


class Proof:
    """One search, of bounded effort, for a constant that a polynomial never goes below."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.examples = facts.examples
        self.fuel = _FUEL

    def holds(self, a: Affine, goal: int) -> bool:
        least = self.least(a, goal)
        return least is not None and least >= goal

    def least(self, a: Affine, goal: int | None) -> int | None:
        """The best constant found; the first one that reaches the goal, if there is a goal."""
        best, high = self.facts.interval(a)
        if goal is not None and ((best is not None and best >= goal) or (high is not None and high < goal)):
            return best
        for v in self.facts.latest(a.atoms()):
            bounds = self.facts.bounds(v)
            if not (bounds.lower or bounds.upper or bounds.cases or bounds.quotient):
                continue
            parts = a.split(v)
            if parts is None:
                continue
            if bounds.quotient is not None:
                best = _better(best, self._quotient(parts, *bounds.quotient, goal))
                if goal is not None and best is not None and best >= goal:
                    return best
            p = parts[0]
            sign = self._sign(p) if p.terms else p.const
            candidates = bounds.lower if sign > 0 else bounds.upper if sign < 0 else []
            for bound in candidates:
                best = _better(best, self._with(parts, bound, goal))
                if goal is not None and best is not None and best >= goal:
                    return best
            if bounds.cases:
                found = [self._with(parts, (1, case), goal) for case in bounds.cases]
                known = [n for n in found if n is not None]
                best = _better(best, min(known) if len(known) == len(found) else None)
            if candidates or bounds.cases:
                return best  # the atom made last is bounded: other orders do not help
        return best

    def _with(self, parts: tuple[Affine, Affine], bound: Bound, goal: int | None) -> int | None:
        """The least of P*v + R with d*v replaced by its bound, all times d/g."""
        if self.fuel <= 0:
            return None
        self.fuel -= 1
        p, r = parts
        d, limit = bound
        g = 1 if d == 1 else math.gcd(d, p.content if p.terms else p.const)
        scale = d // g
        if not p.terms:
            made = weighted(limit, p.const // g, r, scale)
        else:
            made = p * limit + r if d == 1 else p.quotient(g) * limit + r * scale
        if goal is not None:
            goal = (goal - 1) * scale + 1  # what is rounded up to it
            if self.examples.below(made, goal):
                return None
        found = self.least(made, goal)
        return None if found is None else -(-found // scale)

    def _quotient(self, parts: tuple[Affine, Affine], x: Affine, d: Affine, goal: int | None) -> int | None:
        """The least of P*v + R for v = floordiv(x, d), by  x - d + 1 <= d*v <= x,  where P is a multiple of d. Where d
        is a multiple m*P: it is at least the goal when  m*(P*v + R - goal) >= 1 - m."""
        if self.fuel <= 0:
            return None
        self.fuel -= 1
        p, r = parts
        q = divide(p, d)
        if q is not None:
            sign = self._sign(q)
            limit = x - d + 1 if sign > 0 else x
            return self.least(q * limit + r, goal) if sign else None
        m = divide(d, p)
        if m is None or goal is None:
            return None
        limit = x - d + 1  # of d*v = m*P*v
        if self._sign(m) < 0:
            m, limit = -m, -x
        elif self._sign(m) == 0:
            return None
        return goal if self.holds(m * (r - goal) + limit + m - 1, 0) else None

    def _sign(self, p: Affine) -> int:
        if not p.terms:
            return (p.const > 0) - (p.const < 0)
        low, high = self.facts.interval(p)
        if low is not None and low >= 0:
            return 1
        return -1 if high is not None and high <= 0 else 0


def quotient_limits(facts: Facts, a: Affine, d: Affine, steps: int) -> list[Affine]:
    """What floordiv(a, d) does not exceed, for d > 0: where what bounds `a` is a multiple of d, one less
    than that, or less than that as can be proved."""
    for rest in (0, 1):
        n = divide(a + rest, d)
        if n is not None:
            return [n - rest]
    found: list[Affine] = []
    for v in facts.latest(a.atoms()) if steps else ():
        parts = a.split(v)
        if parts is None or not facts.nonnegative(parts[0]):
            continue
        p, r = parts
        upper = [limit for c, limit in facts.bounds(v).upper if c == 1]
        found = [p for limit in upper if facts.nonnegative(p * (d - limit) - r)]
        if not found:
            found = [n for limit in upper for n in quotient_limits(facts, p * limit + r, d, steps - 1)]
        if found:
            break
    return found[:_FEW]


def _better(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else max(a, b)


def product(a: Range, b: Range) -> Range:
    """The range of a product of two factors."""
    (low_a, high_a), (low_b, high_b) = a, b
    if low_a is None or low_b is None or low_a < 0 or low_b < 0:
        if low_a is None or low_b is None or high_a is None or high_b is None:
            return None, None
        products = (low_a * low_b, low_a * high_b, high_a * low_b, high_a * high_b)
        return min(products), max(products)
    return low_a * low_b, None if high_a is None or high_b is None else high_a * high_b
