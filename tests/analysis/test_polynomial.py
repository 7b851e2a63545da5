"""Polynomials are what their terms come to: random ones, computed for random numbers of their values."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from random import Random

import pytest

from minitile.analysis.polynomial import Affine, weighted
from minitile.ir.core import Value
from minitile.ir.types import I32

VALUES = [Value(I32) for _ in range(4)]


def some(rng: Random, degree: int) -> Affine:
    monomials = {tuple(sorted(rng.choices(VALUES, k=rng.randint(1, degree)), key=lambda v: v.serial)) for _ in range(3)}
    terms = {m: rng.choice((-3, -1, 1, 2)) for m in monomials}
    return Affine(rng.randint(-2, 2), terms if rng.random() < 0.9 else {})


def number(a: Affine, values: Mapping[Value, int]) -> int:
    return a.const + sum(c * prod(values[v] for v in m) for m, c in a.terms.items())


def checked(a: Affine) -> Affine:
    """In normal form: what is equal has the same terms."""
    assert 0 not in a.terms.values()
    assert all(m and list(m) == sorted(m, key=lambda v: v.serial) for m in a.terms)
    return a


@pytest.mark.parametrize("seed", range(100))
def test_arithmetic(seed: int) -> None:
    rng = Random(seed)
    a, b, c = some(rng, 3), some(rng, 3), some(rng, 2)
    at = {v: rng.randint(-5, 5) for v in VALUES}
    x, y = number(a, at), number(b, at)
    assert number(checked(a + b), at) == x + y
    assert number(checked(a - b), at) == x - y
    assert number(checked(a * b), at) == x * y
    assert number(checked(weighted(a, 2, b, -3)), at) == 2 * x - 3 * y
    v = rng.choice(VALUES)
    assert number(checked(a.substitute({v: c})), at) == number(a, at | {v: number(c, at)})
    assert checked((a + b) * c) == checked(a * c + b * c)
    assert (a * b - b * a) == a - a == Affine()


@pytest.mark.parametrize("seed", range(50))
def test_split(seed: int) -> None:
    a, v = some(Random(seed), 3), VALUES[seed % len(VALUES)]
    parts = a.split(v)
    assert (parts is None) == any(m.count(v) > 1 for m in a.terms)
    if parts is not None:
        assert v not in checked(parts[0]).atoms() | checked(parts[1]).atoms()
        assert parts[0] * Affine.of(v) + parts[1] == a
