"""Integer polynomials over SSA values: what index arithmetic comes to when written out.

`Affine` is  constant + sum of coefficient * monomial, a monomial being a product of values: 128*by + 127, M*k + 4.
Most have degree one, whence the name; strides that are run-time dimensions make products.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from minitile.ir.core import Value

Monomial = tuple[Value, ...]  # a product of values, sorted by serial number; () never occurs


class Affine:
    """const + sum of coefficient * monomial. No coefficient is 0. Immutable by convention."""

    __slots__ = ("_hash", "const", "terms")

    def __init__(self, const: int = 0, terms: Mapping[Monomial, int] | None = None) -> None:
        self.const = const
        self.terms: Mapping[Monomial, int] = {} if terms is None else terms
        self._hash: int | None = None

    @staticmethod
    def of(value: Value) -> Affine:
        """The value itself, as an atom."""
        return Affine(0, {(value,): 1})

    @property
    def is_constant(self) -> bool:
        return not self.terms

    def atoms(self) -> set[Value]:
        return {v for m in self.terms for v in m}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Affine) and self.const == other.const and self.terms == other.terms

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((self.const, frozenset(self.terms.items())))
        return self._hash

    def __add__(self, other: Affine | int) -> Affine:
        if isinstance(other, int):
            return Affine(self.const + other, self.terms)
        if not other.terms:
            return Affine(self.const + other.const, self.terms)
        if not self.terms:
            return Affine(self.const + other.const, other.terms)
        terms = dict(self.terms)
        for m, c in other.terms.items():
            if m in terms:
                c += terms[m]
            if c:
                terms[m] = c
            else:
                del terms[m]
        return Affine(self.const + other.const, terms)

    __radd__ = __add__

    def __neg__(self) -> Affine:
        return self * -1

    def __sub__(self, other: Affine | int) -> Affine:
        return self + (-other)

    def __rsub__(self, other: int) -> Affine:
        return -self + other

    def __mul__(self, other: Affine | int) -> Affine:
        if isinstance(other, Affine):
            if other.terms and self.terms:
                return self._times(other)
            if other.terms:
                return other * self.const
            other = other.const
        if other == 1:
            return self
        if other == 0:
            return Affine()
        return Affine(self.const * other, {m: c * other for m, c in self.terms.items()})

    __rmul__ = __mul__

    def _times(self, other: Affine) -> Affine:
        terms = dict((other * self.const).terms)
        factors = [*other.terms.items(), ((), other.const)] if other.const else other.terms.items()
        for m, c in self.terms.items():
            for n, d in factors:
                # The values in order: most often those of one are all behind those of the other.
                if not n or m[-1].serial <= n[0].serial:
                    each = m + n
                elif n[-1].serial <= m[0].serial:
                    each = n + m
                else:
                    each = tuple(sorted(m + n, key=serial))
                total = c * d
                if each in terms:
                    total += terms[each]
                if total:
                    terms[each] = total
                else:
                    del terms[each]
        return Affine(self.const * other.const, terms)

    def split(self, v: Value) -> tuple[Affine, Affine] | None:
        """(P, R) with self = P*v + R and v in neither; None where v occurs squared."""
        inside: dict[Monomial, int] = {}
        outside: dict[Monomial, int] = {}
        const = 0
        for m, c in self.terms.items():
            if v not in m:
                outside[m] = c
                continue
            at = m.index(v)
            rest = m[:at] + m[at + 1 :]
            if v in rest:
                return None
            if rest:
                inside[rest] = c
            else:
                const = c
        return Affine(const, inside), Affine(self.const, outside)

    def substitute(self, values: Mapping[Value, Affine | int]) -> Affine:
        """With every given value replaced."""
        if values.keys().isdisjoint(self.atoms()):
            return self
        total = Affine(self.const)
        for m, c in self.terms.items():
            product = Affine(c)
            for v in m:
                product = product * values.get(v, Affine.of(v))
            total = total + product
        return total

    def quotient(self, d: int) -> Affine:
        """self / d, which must come out even."""
        return self if d == 1 else Affine(self.const // d, {m: c // d for m, c in self.terms.items()})

    @property
    def content(self) -> int:
        """The greatest common divisor of all coefficients."""
        return math.gcd(self.const, *self.terms.values())

    def __str__(self) -> str:
        parts = []
        for m in sorted(self.terms, key=lambda m: tuple(map(serial, m))):
            c = self.terms[m]
            product = "*".join(v.name or f"v{v.serial}" for v in m)
            parts.append(product if c == 1 else f"-{product}" if c == -1 else f"{c}*{product}")
        if self.const or not parts:
            parts.append(str(self.const))
        return " + ".join(parts).replace("+ -", "- ")

    __repr__ = __str__


def weighted(a: Affine, k: int, b: Affine, n: int) -> Affine:
    """k*a + n*b, for numbers k and n that are not 0."""
    terms = dict(a.terms) if k == 1 else {m: c * k for m, c in a.terms.items()}
    for m, c in b.terms.items():
        total = c * n
        if m in terms:
            total += terms[m]
        if total:
            terms[m] = total
        else:
            del terms[m]
    return Affine(a.const * k + b.const * n, terms)


def serial(v: Value) -> int:
    return v.serial


def divide(a: Affine, d: Affine) -> Affine | None:
    """a / d where d is a number or one monomial, and a factor of every term of a; None otherwise."""
    if d.is_constant:
        return a.quotient(d.const) if d.const and a.content % d.const == 0 else None
    if d.const or len(d.terms) != 1 or a.const:
        return None
    ((factor, c),) = d.terms.items()
    terms: dict[Monomial, int] = {}
    for m, k in a.terms.items():
        rest = list(m)
        for v in factor:
            if v not in rest:
                return None
            rest.remove(v)
        if k % c:
            return None
        terms[tuple(rest)] = k // c
    const = terms.pop((), 0)
    return Affine(const, terms)
