"""What follows from answers that were given, and from the grid: so that questions in two forms get one answer.

Facts are `X < n` (and `X = n`) for numbers of the launch; bounds are `difference > v`. A bound that is a quotient of X
is linked with facts of X, and so are facts and bounds of multiples of one difference. A v that a shifted
counter asks (registers.Registers.above) is the true number or less, so only that the bound is not above it follows for
such a v.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from math import ceil, floor, gcd
from typing import Any

from minitile.proof.arithmetic.values import Affine, Predicate, Value, binary, counters_in, not_negative, plus, symbol

_WHOLE = ("s32", "u32", "b32")  # comparisons of numbers as they are counted
_Terms = tuple[tuple[Any, int], ...]


def below(value: Predicate, truth: int = 1) -> tuple[str, Affine, int, int] | None:
    """(kind, X, n, t): that a predicate has this truth says that X < n has the truth t, for n above 0; None: it is of
    another form."""
    if value.expression[0] != "lt":
        return None
    _, kind, a, b = value.expression
    if isinstance(a, int):  # a < X unless X < a + 1
        a, b, truth = b, a + 1, 1 - truth
    return (kind, a, b, truth) if isinstance(a, Affine) and isinstance(b, int) and 0 < b < 1 << 31 else None


def _limits(facts: Mapping[Predicate, int], kind: str, whole: Affine) -> Iterator[tuple[int, int]]:
    """(n, truth) of each fact whole < n."""
    for other, truth in facts.items():
        known = below(other, truth)
        if known and known[:2] == (kind, whole):
            yield known[2:]


def from_facts(facts: Mapping[Predicate, int], value: Predicate) -> int | None:
    """The truth of X < n, or of the contrary, if that of X < m says it; None: it does not."""
    asked = below(value)
    if asked is None:
        return None
    kind, whole, limit, yes = asked
    for n, truth in _limits(facts, kind, whole):
        if truth and n <= limit:
            return yes
        if not truth and n >= limit:
            return 1 - yes
    return None


def least_of_sizes(least: Mapping[str, int], residues: Mapping[Any, tuple[int, int]]) -> dict[Any, int]:
    """What symbols are at least: sizes as the launch says, and q of a size that is m·q + r."""
    out: dict[Any, int] = {("param", name): n for name, n in least.items()}
    for key, (modulus, residue) in residues.items():
        if key in out:
            out["quotient", key] = max(0, -((residue - out[key]) // modulus))
    return out


def from_least(least: Mapping[Any, int], value: Predicate) -> int | None:
    """The truth of X < n, or of the contrary, if what sizes are at least (`least_of_sizes`) says it; None: it does
    not."""
    asked = below(value)
    if asked is None:
        return None
    _, whole, limit, yes = asked
    lowest = whole.const
    for name, factor in whole.terms:
        if not isinstance(name, tuple) or factor < 0 or (name not in least and name[0] != "param"):
            return None
        lowest += factor * least.get(name, 0)
    return 1 - yes if lowest >= limit else None


def quotient(difference: _Terms) -> tuple[str, Affine, int] | None:
    """(kind, X, c) of X / c rounded to 0 or down, for c above 1: so without a sign it is below 2^31, and one number
    with a sign and without; None: it is none."""
    if len(difference) != 1 or difference[0][1] != 1:
        return None
    key = difference[0][0]
    if not isinstance(key, tuple) or len(key) != 4 or not isinstance(key[3], int) or not isinstance(key[2], Affine):
        return None
    by = 1 << min(key[3], 31) if key[0] == "shr" else key[3] if key[0] == "div" else 0
    return (key[1], key[2], by) if 1 < by < 1 << 31 else None


def above_of_quotient(facts: Mapping[Predicate, int], difference: _Terms, value: int) -> int | None:
    """Whether X / c > value, if facts of X say it. X < n: X / c is (n - 1) / c at most; else n / c at least."""
    found = quotient(difference) if facts and value >= 0 else None
    if found is None:
        return None
    kind, whole, by = found
    for n, truth in _limits(facts, kind, whole):
        if truth and value >= (n - 1) // by:
            return 0
        if not truth and value < n // by:
            return 1
    return None


def from_quotients(oracle: Mapping[Any, tuple[int, int | None]], launch: int, value: Predicate) -> int | None:
    """The truth of X < n, or of the contrary, if answers of X / c > v say it, for true numbers v; None: they do not.
    `launch` stands in the bases of such questions."""
    asked = below(value)
    if asked is None:
        return None
    kind, whole, limit, yes = asked
    for (base, difference), (low, high) in oracle.items():
        found = quotient(difference) if base[2] == launch and not base[0] else None
        if found and found[:2] == (kind, whole):
            if low >= 0 and found[2] * (low + 1) >= limit:
                return 1 - yes
            if high is not None and high >= 0 and found[2] * (high + 1) <= limit:
                return yes
    return None


Ends = tuple[int | None, int | None]


def ends(asked: Iterator[tuple[_Terms, int | None, int | None]], facts: Mapping[Predicate, int], terms: _Terms) -> Ends:
    """What a difference is at least and at most, if true answers on its multiples say it: 4·q > 4, -4·q > -8 and
    4·q < 9 are of one q. `asked`: differences, what they are at least and at most."""
    found = [(each, low, high) for each, low, high in asked]
    unsigned = []
    for predicate, truth in facts.items():
        if truth and (equal := equality(predicate)) and not counters_in(equal[0]):
            found.append((equal[0].terms, equal[1], equal[1]))
        known = below(predicate, truth)
        if known is None or known[0] not in _WHOLE or counters_in(known[1]):
            continue
        kind, whole, limit, yes = known
        low, high = (None, limit - 1 - whole.const) if yes else (limit - whole.const, None)
        if kind[0] == "s" or not_negative(whole):
            found.append((whole.terms, low, high))
        elif yes:
            found.append((whole.terms, -whole.const, high))
        else:
            unsigned.append((whole.terms, -whole.const, low))
    least, most = _ends(found, terms)
    for other, zero, low in unsigned:  # not below 0, so without a sign it is what it is with one
        lowest = _ends(found, other)[0]
        if lowest is not None and lowest >= zero:
            more, less = _ends([(other, low, None)], terms)
            least = max((v for v in (least, more) if v is not None), default=None)
            most = min((v for v in (most, less) if v is not None), default=None)
    return _without(facts, terms, least, most)


def _without(facts: Mapping[Predicate, int], terms: _Terms, least: int | None, most: int | None) -> Ends:
    """What a difference is at least and at most, if it is none of the numbers that it is said not to be."""
    unit, others = gcd(*(c for _, c in terms)), set[Fraction]()
    for predicate, truth in facts.items():
        equal = None if truth else equality(predicate)
        times = _ratio(equal[0].terms, terms) if equal else None
        if equal and times is not None:
            others.add(times * equal[1])
    if least is None and 0 in others and not_negative(Affine(terms, 0)):
        least = 0
    while least is not None and least in others:
        least += unit
    while most is not None and most in others:
        most -= unit
    return least, most


def equality(value: Predicate) -> tuple[Affine, int] | None:
    """(X, n) of the predicate that X, without its constant, is n, for a number n of at most 30 bits."""
    if value.expression[0] != "eq" or value.expression[1] not in _WHOLE:
        return None
    _, _, a, b = value.expression
    a, b = (b, a) if isinstance(a, int) else (a, b)
    if not isinstance(a, Affine) or not isinstance(b, int) or not a.terms or not 0 <= b < 1 << 30:
        return None
    return a, b - a.const


def _ends(found: list[tuple[_Terms, int | None, int | None]], terms: _Terms) -> Ends:
    least: list[Fraction] = []
    most: list[Fraction] = []
    for other, low, high in found:
        times = _ratio(other, terms)
        if times is None:
            continue
        down, up = (low, high) if times > 0 else (high, low)
        least += [] if down is None else [times * down]
        most += [] if up is None else [times * up]
    unit = gcd(*(c for _, c in terms))  # the difference is a multiple of it
    low = max((unit * ceil(v / unit) for v in least), default=None)
    return low, min((unit * floor(v / unit) for v in most), default=None)


def from_ends(least: int | None, most: int | None, value: Predicate) -> int | None:
    """The truth of X < n, or of the contrary, where what X without its constant is at least and at most says it."""
    if equal := equality(value):
        at = equal[1]
        if at % gcd(*(c for _, c in equal[0].terms)) or (least is not None and at < least):
            return 0
        return 0 if most is not None and most < at else 1 if least == most == at else None
    asked = below(value)
    if asked is None or asked[0] not in _WHOLE:
        return None
    kind, whole, limit, yes = asked
    signed = kind[0] == "s" or not_negative(whole) or (least is not None and least + whole.const >= 0)
    if signed and least is not None and least + whole.const >= limit:
        return 1 - yes
    return yes if signed and most is not None and most + whole.const < limit else None


def _ratio(a: _Terms, b: _Terms) -> Fraction | None:
    """b / a, if that is one number for all launches; else None."""
    if len(a) != len(b) or not a or any(x != y for (x, _), (y, _) in zip(a, b, strict=True)):
        return None
    times = Fraction(b[0][1], a[0][1])
    return times if all(c * times == d for (_, c), (_, d) in zip(a, b, strict=True)) else None


def size_of_grid(expression: Any) -> Value:
    """An expression of text.Launch's `grid` as the value that a text computes of it."""
    if isinstance(expression, int):
        return expression
    if expression[0] == "param":
        return symbol(*expression)
    name, a, b = expression[0], *map(size_of_grid, expression[1:])
    if name != "floordiv":
        return binary({"add": "add", "sub": "sub", "mul": "mul"}[name], "s32", a, b)
    if isinstance(b, int) and b > 0 and not b & (b - 1):
        return binary("shr", "s32", a, b.bit_length() - 1)
    return binary("div", "s32", a, b)


def least_by_grid(grid: Mapping[str, Any]) -> dict[_Terms, int]:
    """For each axis its size, and the difference of that and the block's index, and what they are above: a block is in
    the grid, whose sizes are then 1 at least."""
    found: dict[_Terms, int] = {}
    for axis, expression in grid.items():
        size = size_of_grid(expression)
        if isinstance(size, Affine) and size.const >= 0:
            found[size.terms] = -size.const
            found[plus(Affine(size.terms, 0), symbol(f"%ctaid.{axis}"), -1).terms] = -size.const
    return found


__all__ = [
    "above_of_quotient",
    "below",
    "ends",
    "equality",
    "from_ends",
    "from_facts",
    "from_least",
    "from_quotients",
    "least_by_grid",
    "least_of_sizes",
    "size_of_grid",
]
