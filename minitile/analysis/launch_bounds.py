"""How large an integer of a kernel may become, as an expression that the launch can evaluate.

    kernel(A: tensor<N>, n: i32)     launch grid(ceildiv(n, 4))  ->  %b       for %k in 0..N
        n*%b + %k      from  -(n * (ceildiv(n, 4) - 1)) - 1 …  to  max(n, -n) * (ceildiv(n, 4) - 1) + (N - 1)

Where the compiler cannot prove that 32 bits hold an index, the launch compares such an expression with the limit
(`fit_conditions`): then the kernel that does it in 32 bits runs, else one that does it in 64. Expressions are those of
minitile.runtime.launch_info, over dimensions and scalar arguments; a number is one that is known now. An interval is
(lowest, highest), inclusive; None: not to be said by dimensions and scalars.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitile.analysis.affine import HIGHEST, LOWEST, Affine, Facts, divisor_of
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import arith, control

Expr = Any  # of minitile.runtime.launch_info: an int or nested tuples
Interval = tuple[Expr, Expr]
_NUMBERS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "min": min,
    "max": max,
}
_LITTLE = 1 << 20  # a number that is not worth an expression
_HUGE = 1 << 32
_MOST = 64  # operations of an expression: what is longer takes the launch longer than it is worth


def combine(operation: str, a: Expr, b: Expr) -> Expr:
    """The operation on two expressions; a number where both are."""
    if isinstance(a, int) and isinstance(b, int):
        return _NUMBERS[operation](a, b)
    if operation == "mul" and 0 in (a, b):
        return 0
    if operation in ("add", "mul") and isinstance(a, int):
        a, b = b, a
    if (operation, b) in (("add", 0), ("sub", 0), ("mul", 1), ("floordiv", 1)):
        return a
    return a if a == b and operation in ("min", "max") else (operation, a, b)


def length(e: Expr) -> int:
    return 1 + sum(map(length, e[1:])) if isinstance(e, tuple) and len(e) == 3 else 0


class LaunchBounds:
    """Of one kernel's integers; `facts` are bounded ones."""

    def __init__(self, kernel: Kernel, facts: Facts) -> None:
        self.facts = facts
        self._known: dict[Value, Interval | None] = {
            **{v: (0, ("dim", name)) for name, v in kernel.dims.items()},
            **{v: (("scalar", v.name), ("scalar", v.name)) for v in kernel.params if not v.shape and v.dtype.is_int},
        }

    def fit_conditions(self, a: Affine) -> tuple[Expr, ...] | None:
        """Under which conditions 32 bits hold `a`, as `Facts.fits` has it: ("less", …) to be checked by the launch,
        none where it is proved; None where it does not hold, or the launch cannot say."""
        if self.facts.fits(a):
            return ()
        up: list[Expr] = [max(a.const, 0)]
        down: list[Expr] = [max(-a.const, 0)]
        for m, c in a.terms.items():
            low, high = self.facts.interval(Affine(0, {m: c}))
            if low is None or high is None or low < -_LITTLE or high > _LITTLE:
                found = self.monomial(m)
                if found is not None:
                    low, high = (combine("mul", each, c) for each in (found if c > 0 else found[::-1]))
            if low is None or high is None:
                return None
            # Where the lowest is a number of that sign, and the highest of the other one, nothing runs.
            up.append(high if isinstance(low, int) and low >= 0 else combine("max", high, 0))
            down.append(combine("sub", 0, low) if isinstance(high, int) and high <= 0 else _below(low))
        conditions = [_at_most(up, HIGHEST), _at_most(down, -LOWEST)]
        if False in conditions or any(length(each) > _MOST for each in conditions):
            return None
        return tuple(each for each in conditions if each is not True)

    def monomial(self, atoms: tuple[Value, ...]) -> Interval | None:
        less = self._cancelled(atoms) if len(atoms) > 1 else None
        if less is not None and (found := self.polynomial(less)) is not None:
            return 0, found[1]
        total: Interval | None = (1, 1)
        for v in atoms:
            found = self.atom(v)
            total = None if total is None or found is None else _product(total, found)
        return total

    def _cancelled(self, atoms: tuple[Value, ...]) -> Affine | None:
        """What a product does not exceed that has a divisor beside its quotient, or beside a max of that: the dividend
        instead of both. All are positive."""
        if not all(self.facts.nonnegative(Affine.of(v)) for v in atoms):
            return None
        for n, v in enumerate(atoms):
            cases = {q for a in self.facts.bounds(v).cases for q in a.atoms()}
            for q in (v, *self.facts.latest(cases)):
                quotient = self.facts.bounds(q).quotient
                if quotient is None or not self.facts.nonnegative(Affine.of(q) - Affine.of(v)):
                    continue
                rest = Affine(0, {atoms[:n] + atoms[n + 1 :]: 1})
                for d in atoms:
                    parts = rest.split(d) if quotient[1] == Affine.of(d) else None
                    if parts is not None and parts[0] != Affine() and self.facts.nonnegative(quotient[0]):
                        return parts[0] * quotient[0]
        return None

    def value(self, v: Value) -> Interval | None:
        return self.polynomial(self.facts.affine(v))

    def polynomial(self, a: Affine) -> Interval | None:
        found = self._sum(self._shortened(a))
        least = found if len(a.terms) < 2 else self._sum(-self._shortened(-a))
        return None if found is None or least is None else (least[0], found[1])

    def _shortened(self, a: Affine) -> Affine:
        """What `a` does not exceed: what cancels when a value gives way to a bound of it is gone."""
        for v in self.facts.latest(a.atoms()) if len(a.terms) > 1 else ():
            parts = a.split(v)
            if parts is None:
                continue
            known = self.facts.bounds(v)
            limits = known.upper if self.facts.nonnegative(parts[0]) else []
            limits = known.lower if not limits and self.facts.nonnegative(-parts[0]) else limits
            for c, limit in limits:
                made = parts[0] * limit + parts[1]
                if c == 1 and len(made.terms) < len(a.terms) and not limit.is_constant:
                    return self._shortened(made)
        return a

    def _sum(self, a: Affine) -> Interval | None:
        low, high = a.const, a.const
        for m, c in a.terms.items():
            found = self.monomial(m)
            if found is None:
                return None
            bottom, top = (combine("mul", each, c) for each in (found if c > 0 else found[::-1]))
            low, high = combine("add", low, bottom), combine("add", high, top)
        return low, high

    def atom(self, v: Value) -> Interval | None:
        if v not in self._known:
            self._known[v] = None  # for a cycle through carried values
            known = self._numbers(v)
            found = known if known is not None and known[0] >= -_LITTLE and known[1] <= _LITTLE else self._look(v)
            if found is not None and (1, Affine(0)) in self.facts.bounds(v).lower:
                found = 0, found[1]
            if found is None or length(found[0]) + length(found[1]) > _MOST:
                found = self._numbers(v)
            self._known[v] = found
        return self._known[v]

    def _numbers(self, v: Value) -> tuple[int, int] | None:
        """What is known now; beyond all that a kernel computes it says nothing."""
        low, high = self.facts.interval(Affine.of(v))
        return None if low is None or high is None or low < -_HUGE or high > _HUGE else (low, high)

    def _look(self, v: Value) -> Interval | None:
        op = v.op
        if op is None:
            owner = self.facts.owner(v.owner) if isinstance(v.owner, Block) else None
            return None if owner is None else self._argument(v, owner)
        rule = _RULES.get(type(op))
        return None if rule is None else rule(self, op)

    def _argument(self, v: Value, owner: Op) -> Interval | None:
        if isinstance(owner, control.Launch):
            blocks = self.value(owner.grid[v.index])
            return None if blocks is None else (0, combine("sub", blocks[1], 1))
        if isinstance(owner, control.For) and v.index == 0:
            lower, upper = self.value(owner.lower), self.value(owner.upper)
            return None if lower is None or upper is None else (lower[0], combine("sub", upper[1], 1))
        return None

    def _quotient(self, op: Any) -> Interval | None:
        a, d = self.value(op.a), divisor_of(op)
        if a is None:
            return None
        if d is not None and (isinstance(op, arith.FloorDiv) or _positive(a)):
            return combine("floordiv", a[0], d), combine("floordiv", a[1], d)
        known = self.facts.bounds(op.results[0])
        if (1, Affine(0)) in known.lower:
            return 0, self.least([limit for c, limit in known.upper if c == 1], a[1])
        size = _size(a)
        return combine("sub", -1, size), size

    def least(self, limits: list[Affine], known: Expr) -> Expr:
        """The most that is as little as all of these, as far as lengths tell."""
        found = [each[1] for a in limits if (each := self.polynomial(a)) is not None]
        return min((known, *found), key=self.worth)

    def worth(self, e: Expr) -> int:
        return length(e)

    def _remainder(self, op: Any) -> Interval | None:
        d = divisor_of(op)
        if d is not None and isinstance(op, arith.FloorMod):
            return 0, d - 1
        a, b = self.value(op.a), self.value(op.b)
        if a is None or b is None:
            return None
        if isinstance(op, arith.FloorMod):
            return (0, b[1]) if _positive(b) else _around(_size(b))
        return (0, a[1]) if _positive(a) else _around(_size(a))

    def _least(self, op: Any) -> Interval | None:
        return self._both(op, "min", "min")

    def _greatest(self, op: Any) -> Interval | None:
        return self._both(op, "max", "max")

    def _either(self, op: Any) -> Interval | None:
        return self._both(op, "min", "max")

    def _both(self, op: Any, below: str, above: str) -> Interval | None:
        a, b = self.value(op.a), self.value(op.b)
        return None if a is None or b is None else (combine(below, a[0], b[0]), combine(above, a[1], b[1]))

    def _within(self, op: arith.Within) -> Interval | None:
        limit = self.value(op.limit)
        return None if limit is None else (0, limit[1])

    def _distance(self, op: Any) -> Interval | None:
        a = self.value(op.a)
        return None if a is None else (0, _size(a))

    def _cast(self, op: Any) -> Interval | None:
        return self.value(op.a) if op.a.dtype.kind == "int" and op.a.dtype.bits >= 32 else None


def _below(low: Expr) -> Expr:
    """How far below 0 it is."""
    return combine("max", combine("sub", 0, low), 0)


def _at_most(terms: list[Expr], limit: int) -> Expr | bool:
    """Whether the sum is at most the limit: known, or a condition. Little numbers count as one that is less little, so
    that few conditions differ by numbers alone."""
    number = sum(each for each in terms if isinstance(each, int))
    others = [each for each in terms if not isinstance(each, int)]
    if not others or number > limit:
        return number <= limit
    number = max(number, min(_LITTLE, limit))
    if len(others) == 1 and others[0][0] == "max" and others[0][2] == 0:
        others = [others[0][1]]
    total = others[0]
    for each in others[1:]:
        total = combine("add", total, each)
    return _plain(total, limit - number)


def _plain(e: Expr, most: int) -> Expr:
    """e <= most, without factors and addends that are numbers."""
    while isinstance(e, tuple) and len(e) == 3:
        operation, a, b = e
        if operation == "mul" and isinstance(b, int) and b:
            e, most = (a if b > 0 else combine("sub", 0, a)), most // abs(b)
        elif operation == "sub" and a == 0 and isinstance(b, tuple) and b[0] in ("sub", "mul") and _signed(b):
            e = _signed(b)
        elif operation in ("sub", "add") and isinstance(b, int):
            e, most = a, most + b if operation == "sub" else most - b
        else:
            break
    return ("less", e, most + 1)


def _signed(e: Expr) -> Expr:
    """0 - e, where that is as short; else None."""
    operation, a, b = e
    if operation == "sub":
        return combine("sub", b, a)
    return combine("mul", a, -b) if isinstance(b, int) else None


def _positive(a: Interval) -> bool:
    return isinstance(a[0], int) and a[0] >= 0


def _size(a: Interval) -> Expr:
    """The greatest distance from 0."""
    return a[1] if _positive(a) else combine("max", a[1], combine("sub", 0, a[0]))


def _around(size: Expr) -> Interval:
    return combine("sub", 0, size), size


def _product(a: Interval, b: Interval) -> Interval:
    if a == (1, 1):
        return b
    if _positive(a) and _positive(b):
        return combine("mul", a[0], b[0]), combine("mul", a[1], b[1])
    return _around(combine("mul", _size(a), _size(b)))


_RULES: dict[type[Op], Callable[[LaunchBounds, Any], Interval | None]] = {
    **dict.fromkeys((arith.FloorDiv, arith.TruncDiv, arith.Shr), LaunchBounds._quotient),
    **dict.fromkeys((arith.FloorMod, arith.TruncMod), LaunchBounds._remainder),
    arith.Min: LaunchBounds._least,
    arith.Max: LaunchBounds._greatest,
    arith.Select: LaunchBounds._either,
    arith.Abs: LaunchBounds._distance,
    arith.Within: LaunchBounds._within,
    arith.Cast: LaunchBounds._cast,
}
