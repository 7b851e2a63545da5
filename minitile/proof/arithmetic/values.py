"""What a register holds, seen abstractly.

    value  = int                     the exact bits, 0 … 2^width - 1, the same in all lanes
           | Affine(terms, const)    Σ c·symbol + const, one integer for the whole launch
           | Counter(base, value)    base + value: a loop's counter; base is (terms, counters around it, generation)
           | Lanes (a tuple of 32)   one of the others for each lane
           | Predicate(expression)   a truth that is one for the whole launch, not asked for yet
           | UNIFORM                 unknown, but the same in all lanes of a warp
           | TOP                     unknown
A predicate register holds 0 or 1, or what is unknown of them. An operation is exact on integers. On the others it is
exact where its side condition holds (that sizes do not wrap around is an assumption, docs/proof.md), else the result is
unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from hashlib import sha256
from math import gcd
from typing import Any, Final, TypeAlias, cast

SMALL: Final = 8  # counters may be compared with constants below this, at most
DEEP: Final = 8  # symbols are not nested deeper than this
CUTS: Final = 8  # and not more often named in short
NEAR: Final = 1  # and with a bound plus at most this


@dataclass(frozen=True, slots=True)
class Unknown:
    name: str


class Once:
    """A value of which there is one object for each content, so that equal ones compare by identity, however deeply
    they are nested; its hash is computed once. After `_ONCE` has been emptied there may be two: they compare equal."""

    __slots__ = ("_hash",)
    _hash: int

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(self) is not type(other) or self._hash != hash(other):
            return False
        return all(getattr(self, name) == getattr(other, name) for name in _FIELDS[type(self)])


_ONCE: dict[tuple[type[Any], tuple[Any, ...]], Any] = {}
_FIELDS: dict[type[Any], tuple[str, ...]] = {}
MOST_ONCE: Final = 1 << 18


def _once(cls: type[Any], content: tuple[Any, ...]) -> Any:
    """The value of a class, a Once, with this content."""
    found = _ONCE.get((cls, content))
    if found is None:
        if len(_ONCE) >= MOST_ONCE:
            _ONCE.clear()
        found = object.__new__(cls)
        for name, each in zip(_FIELDS[cls], content, strict=True):
            object.__setattr__(found, name, each)
        object.__setattr__(found, "_hash", hash(content))
        _ONCE[cls, content] = found
    return found


Truths: TypeAlias = tuple[tuple[int, ...], ...]
Base: TypeAlias = "tuple[tuple[tuple[Hashable, int], ...], tuple[Any, ...], int]"


@dataclass(frozen=True, slots=True, init=False, eq=False)
class Affine(Once):
    """Terms are (symbol, coefficient), in the order of their text, without zeros; never empty in a register."""

    terms: tuple[tuple[Hashable, int], ...]
    const: int

    def __new__(cls, terms: tuple[tuple[Hashable, int], ...], const: int) -> Affine:
        return cast(Affine, _once(cls, (terms, const)))


@dataclass(frozen=True, slots=True, init=False, eq=False)
class Counter(Once):
    """base[0] + value; `since`: only value, where base[0] has been subtracted."""

    base: Base
    value: int
    since: bool = False

    def __new__(cls, base: Base, value: int, since: bool = False) -> Counter:
        return cast(Counter, _once(cls, (base, value, since)))

    @property
    def terms(self) -> tuple[tuple[Hashable, int], ...]:
        return () if self.since else self.base[0]


@dataclass(frozen=True, slots=True)
class Stored:
    """What the instruction at `pc` has stored to shared memory the last time, where that is not known."""

    pc: int


@dataclass(frozen=True, slots=True, init=False, eq=False)
class Among(Once):
    """An unknown of each lane, one of low + step·k for 0 <= k < count."""

    low: int
    step: int
    count: int

    def __new__(cls, low: int, step: int, count: int) -> Among:
        return cast(Among, _once(cls, (low, step, count)))


@dataclass(frozen=True, slots=True, init=False, eq=False)
class Ticket(Once):
    """scale·n + offset modulo 2^32, for the n that the atomic addition of `amount` at `pc` gave a lane the last time
    from a word (a unit of shared memory for each bit); that only where all `needs` hold, else unknown (tickets.py)."""

    pc: int
    word: int
    amount: int
    scale: int
    offset: int
    needs: Truths

    def __new__(cls, pc: int, word: int, amount: int, scale: int, offset: int, needs: Truths) -> Ticket:
        return cast(Ticket, _once(cls, (pc, word, amount, scale, offset, needs)))


@dataclass(frozen=True, slots=True, init=False, eq=False)
class Perhaps(Once):
    """An unknown truth of each lane. If it is true all of `truths` are; it is, if all of `needs` are; (): not known of
    which (tickets.py)."""

    truths: Truths
    needs: Truths

    def __new__(cls, truths: Truths, needs: Truths) -> Perhaps:
        return cast(Perhaps, _once(cls, (truths, needs)))


@dataclass(frozen=True, slots=True)
class Token:
    """What `mbarrier.arrive` gives a thread for the phase, of this parity, of the mbarrier at an address."""

    at: int
    parity: int


@dataclass(frozen=True, slots=True, init=False, eq=False)
class Predicate(Once):
    """(operation, kind, a, b) over integers and Affine; ("above", base, value, bound): base + value < bound; or
    ("not", p), ("and", p, q), ("or", p, q) over predicates, 0, 1."""

    expression: tuple[Any, ...]

    def __new__(cls, expression: tuple[Any, ...]) -> Predicate:
        return cast(Predicate, _once(cls, (expression,)))


_FIELDS.update(
    {cls: tuple(each.name for each in fields(cls)) for cls in (Affine, Among, Counter, Perhaps, Predicate, Ticket)}
)
_MADE = (Affine, Counter, Predicate, Stored, tuple)
TOP: Final = Unknown("top")
UNIFORM: Final = Unknown("uniform")
Value: TypeAlias = Any  # one of the above


def symbol(*key: Hashable) -> Affine:
    return Affine(((key, 1),), 0)


def uniform(a: Value) -> bool:
    """The same in all lanes of a warp."""
    return a is not TOP and not isinstance(a, (tuple, Among, Token, Ticket, Perhaps))


def launch_wide(a: Value) -> bool:
    """The same for all threads, for the whole launch."""
    return isinstance(a, (int, Affine))


def symbols_in(value: Any) -> Iterator[tuple[Any, ...]]:
    """Every symbol that a value names, those within symbols too (and other tuples that begin with a word)."""
    if isinstance(value, Affine):
        value = value.terms
    elif isinstance(value, Counter):
        value = value.base
    elif isinstance(value, Predicate):
        value = value.expression
    if isinstance(value, tuple):
        if value and isinstance(value[0], str):
            yield value
        for each in value:
            if not isinstance(each, (int, str)):
                yield from symbols_in(each)


@lru_cache(maxsize=1 << 16)
def variables_in(value: Any) -> frozenset[Counter | Stored]:
    """What a value is made of that is not one for the whole launch."""
    if isinstance(value, Stored):
        return frozenset((value,))
    if isinstance(value, Counter):
        return variables_in(value.base) | {value}
    parts = value.terms if isinstance(value, Affine) else value.expression if isinstance(value, Predicate) else value
    if not isinstance(parts, tuple):
        return frozenset()
    return frozenset().union(*(variables_in(each) for each in parts if not isinstance(each, (int, str))))


def counters_in(value: Any) -> tuple[Counter, ...]:
    """Every counter that a value is made of."""
    return () if isinstance(value, (int, Unknown)) else _counters_in(value)


@lru_cache(maxsize=1 << 16)
def _counters_in(value: Any) -> tuple[Counter, ...]:
    return tuple(each for each in variables_in(value) if isinstance(each, Counter))


def rounds(a: Value) -> Value:
    """A counter as a number that expressions are made of: one for all who count the same."""
    return symbol("counter", a) if isinstance(a, Counter) else a


def divided_round(a: Value) -> tuple[Counter, int, int] | None:
    """(counter, n, c) of a counter from 0 divided by n, rounded down, plus c, which do not wrap; None: it is none."""
    if not isinstance(a, Affine) or not 0 <= a.const < 1 << 30 or len(a.terms) != 1 or a.terms[0][1] != 1:
        return None
    key = a.terms[0][0]
    if not isinstance(key, tuple) or len(key) != 4 or key[0] not in ("shr", "div") or not isinstance(key[3], int):
        return None
    inner, by = key[2], 1 << min(key[3], 32) if key[0] == "shr" else key[3]
    if not isinstance(inner, Affine) or inner.const or len(inner.terms) != 1 or inner.terms[0][1] != 1:
        return None
    root = inner.terms[0][0]
    if not isinstance(root, tuple) or root[0] != "counter" or root[1].terms or root[1].value < 0 or by < 2:
        return None
    return root[1], by, a.const


def counter_in(key: Any) -> tuple[Counter, int, int] | None:
    """(C, k, n) of a symbol that is (C + k) / n, rounded down, of a counter C from 0; None: it is none."""
    if not isinstance(key, tuple):
        return None
    if key[0] == "counter":
        return None if key[1].terms else (key[1], 0, 1)
    if len(key) != 4 or key[0] not in ("shr", "div") or not isinstance(key[3], int) or not 0 < key[3] < 31:
        return None
    inner, by = key[2], 1 << key[3] if key[0] == "shr" else key[3]
    if not isinstance(inner, Affine) or len(inner.terms) != 1 or inner.terms[0][1] != 1:
        return None
    root: Any = inner.terms[0][0]
    whole = isinstance(root, tuple) and root[0] == "counter" and not root[1].terms and root[1].value + inner.const >= 0
    return (root[1], inner.const, by) if whole else None


def quotient_in(value: Affine) -> tuple[Any, Counter, int, int, int] | None:
    """(term, C, k, n, a) of a sum with a·C and -a·n·((C + k) / n), for a counter C from 0, C + k not negative."""
    whole = {key[1]: c for key, c in value.terms if isinstance(key, tuple) and key[0] == "counter"}
    for key, c in value.terms if whole else ():
        if not isinstance(key, tuple) or len(key) != 4 or key[0] != "div" or not isinstance(key[3], int):
            continue
        inner = key[2]
        if not isinstance(inner, Affine) or len(inner.terms) != 1 or inner.terms[0][1] != 1 or inner.const:
            continue
        root = inner.terms[0][0]
        if not isinstance(root, tuple) or root[0] != "counter" or root[1].terms or root[1].value < 0:
            continue
        for counter, a in whole.items():
            if counter.base == root[1].base and not counter.terms and c == -a * key[3]:
                return key, counter, root[1].value - counter.value, key[3], a
    return None


def moved(value: Any, counter: Callable[[Counter], Counter]) -> Any:
    """A value with other counters."""
    if not counters_in(value):
        return value
    if isinstance(value, Counter):
        return counter(replace(value, base=moved(value.base, counter)))
    if isinstance(value, Affine):
        terms = ((moved(key, counter), c) for key, c in value.terms)
        return Affine(tuple(sorted(terms, key=text_of)), value.const)
    if isinstance(value, Predicate):
        return Predicate(moved(value.expression, counter))
    return tuple(moved(each, counter) if isinstance(each, _MADE) else each for each in value)


def signed(bits: int, width: int) -> int:
    return bits - (1 << width) if bits >> (width - 1) & 1 else bits


def lanes_of(a: Value) -> tuple[Value, ...]:
    return a if isinstance(a, tuple) else (a,) * 32


def join(lanes: tuple[Value, ...]) -> Value:
    """A tuple of 32 equal values is that value. UNIFORM must not be among them: two unknowns are not one."""
    first = lanes[0]
    return first if first == lanes[-1] and lanes.count(first) == len(lanes) else lanes


def of_a_lane(a: Value) -> Value:
    """What stands for a value in Lanes: an unknown of the warp is one of the lane only, and counters are whole."""
    return TOP if a is UNIFORM or isinstance(a, Counter) else a


def by_lane(function: Callable[..., Value], *values: Value) -> Value:
    if not any(isinstance(each, tuple) for each in values):
        return function(*values)
    lanes = tuple(function(*each) for each in zip(*map(lanes_of, values), strict=True))
    return join(tuple(map(of_a_lane, lanes)))


def unknown(*values: Value) -> Value:
    return UNIFORM if all(uniform(each) for each in values) else TOP


def affine(a: int | Affine, width: int) -> Affine:
    return a if isinstance(a, Affine) else Affine((), signed(a, width))


def _normal(a: Affine, width: int) -> int | Affine:
    return a if a.terms else a.const % (1 << width)


@lru_cache(maxsize=1 << 16)
def text_of(term: Hashable) -> str:
    return repr(term)


def plus(a: Affine, b: Affine, times: int = 1) -> Affine:
    """a + times·b."""
    if not b.terms:
        return Affine(a.terms, a.const + times * b.const) if b.const else a
    terms = dict(a.terms)
    for key, c in b.terms:
        terms[key] = terms.get(key, 0) + times * c
    kept = sorted(((key, c) for key, c in terms.items() if c), key=text_of)
    return Affine(tuple(kept), a.const + times * b.const)


def _divide(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


_EXACT: dict[str, Callable[[int, int], int]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
    "min": min,
    "max": max,
    "shl": lambda x, y: x << min(y, 64),
    "shr": lambda x, y: x >> min(y, 64),
    "div": _divide,
    "rem": lambda x, y: x - y * _divide(x, y),
}
_TYPE = re.compile(r"[subf]?(8|16|32|64)")


def binary(name: str, kind: str, a: Value, b: Value, modulus: int = 1) -> Value:
    """`name` (see _EXACT) of type `kind` such as s32, on scalars: not on Lanes. Counters that count from 0 are known by
    the modulus."""
    width, is_signed = int(kind[1:]), kind[0] == "s"
    if isinstance(a, Ticket) or isinstance(b, Ticket):
        return ticketed(name, kind, a, b)
    if a is TOP or isinstance(a, Among) or isinstance(b, Among):
        return among(name, kind, a, b)
    if isinstance(a, int) and isinstance(b, int):
        if is_signed:
            a, b = signed(a, width), b if name in ("shl", "shr") else signed(b, width)
        if name in ("div", "rem") and b == 0:
            return UNIFORM
        return _EXACT[name](a, b) % (1 << width)
    if isinstance(b, Counter) and name == "add":
        a, b = b, a
    if isinstance(a, Counter) and isinstance(b, int) and name in ("rem", "and") and not a.terms and a.value >= 0:
        divisor = b if name == "rem" else b + 1
        if divisor > 0 and modulus % divisor == 0 and (name == "rem" or not b & (b + 1)):
            return a.value % divisor
    if isinstance(a, Counter) and isinstance(b, int) and name in ("add", "sub") and width == 32:
        return replace(a, value=_EXACT[name](a.value, signed(b, width)))
    if isinstance(a, Counter) and isinstance(b, Affine) and name == "sub" and width == 32 and b.terms == a.terms:
        return Counter(a.base, a.value - b.const, True)
    a, b = rounds(a), rounds(b)
    if not (launch_wide(a) and launch_wide(b)):
        return unknown(a, b)
    if name in ("add", "sub"):
        return _normal(plus(affine(a, width), affine(b, width), 1 if name == "add" else -1), width)
    if name == "mul" and isinstance(a, int):
        a, b = b, a
    if name == "shl" and isinstance(b, int) and b < 31:
        name, b = "mul", 1 << b
    if name == "mul" and isinstance(b, int):
        return _normal(plus(Affine((), 0), affine(a, width), signed(b, width)), width)
    exact = _by_constant(name, a, b, width, is_signed) if isinstance(a, Affine) and isinstance(b, int) else None
    return made(name, kind, a, b) if exact is None else exact


def ticketed(name: str, kind: str, a: Value, b: Value) -> Value:
    """An operation on a ticket and a number; TOP: any."""
    if name in ("add", "mul") and not isinstance(a, Ticket):
        a, b = b, a
    if not isinstance(a, Ticket) or not isinstance(b, int) or kind[1:] != "32":
        return TOP
    if name in ("add", "sub"):
        return replace(a, offset=_EXACT[name](a.offset, b) % (1 << 32))
    if name in ("mul", "shl"):
        times = b % (1 << 32) if name == "mul" else 1 << min(b, 32)
        return replace(a, scale=a.scale * times % (1 << 32), offset=a.offset * times % (1 << 32))
    return TOP


MOST_AMONG: Final = 1 << 14  # an unknown may be one of so many numbers


def among(name: str, kind: str, a: Value, b: Value) -> Value:
    """An operation of 32 bits on an unknown of each lane, as the numbers that it may give; TOP: any."""
    if name in ("add", "mul") and isinstance(b, Among) and not isinstance(a, Among):
        a, b = b, a
    if kind[1:] != "32":
        return TOP
    found: Among | None = None
    within = name == "and" and isinstance(a, Among) and isinstance(b, int) and a.low >= 0 and not b & (b + 1)
    within = within and a.low + a.step * (a.count - 1) <= b  # the mask leaves it as it is
    if isinstance(b, int) and (a is TOP or (name == "and" and not within)):
        if name == "and" and 0 <= b < 1 << 31:
            step = b & -b or 1
            found = Among(0, step, b // step + 1)
        elif kind[0] == "u" and ((name == "rem" and b) or name == "min"):
            found = Among(0, 1, b + (name == "min"))
        elif kind[0] != "s" and name == "shr":
            found = Among(0, 1, 1 << max(32 - b, 0))
    elif isinstance(a, Among) and isinstance(b, int):
        if name in ("add", "sub"):
            found = Among(_EXACT[name](a.low, signed(b, 32)), a.step, a.count)
        elif name in ("mul", "shl") and b < (1 << 16 if name == "mul" else 31):
            times = b if name == "mul" else 1 << b
            found = Among(a.low * times, a.step * times, a.count) if times else Among(0, 1, 1)
        elif within:
            found = a
    elif isinstance(a, Among) and isinstance(b, Among) and name == "add":
        step = gcd(a.step, b.step)
        found = Among(a.low + b.low, step, ((a.count - 1) * a.step + (b.count - 1) * b.step) // step + 1)
    if found is None or found.count > MOST_AMONG or not -(1 << 31) <= found.low <= 1 << 31:
        return TOP
    return found if found.low + found.step * (found.count - 1) < 1 << 31 else TOP


@lru_cache(maxsize=1 << 16)
def _depth(a: Value) -> tuple[int, int]:
    """How deep symbols are nested, and how often such a depth has been cut off."""
    if isinstance(a, Affine):
        a = a.terms
    elif isinstance(a, Predicate):
        a = a.expression
    if not isinstance(a, tuple):
        return 0, 0
    inner = [_depth(each) for each in a if isinstance(each, _MADE)]
    depth, cut = max((d for d, _ in inner), default=0), max((c for _, c in inner), default=0)
    named = bool(a) and isinstance(a[0], str)
    return depth + named, max(cut, a[1][1]) if named and a[0] == "of" else cut


def made(*key: Any) -> Value:
    """What an operation makes of values that are one for the launch, or for all who count the same: a symbol that
    names it and them. Of one that is nested deeply the text is taken in short, as a function of the counters in it."""
    depth, cut = _depth(key)
    if depth <= DEEP:
        return symbol(*key)
    if cut >= CUTS:
        return UNIFORM
    found: dict[Counter | Stored, Any] = {}
    text = repr(_with_places(key, found))
    return symbol("of", (sha256(text.encode()).hexdigest(), cut + 1), tuple(found))


def _with_places(value: Any, found: dict[Counter | Stored, Any]) -> Any:
    """A value in which what is not one for the launch is numbered as it comes."""
    if isinstance(value, (Counter, Stored)):
        return found.setdefault(value, ("place", len(found)))
    if not variables_in(value):
        return value
    if isinstance(value, Affine):
        return ("sum", value.const, *(_with_places(each, found) for each in value.terms))
    if isinstance(value, Predicate):
        return ("truth", *_with_places(value.expression, found))
    return tuple(_with_places(each, found) if isinstance(each, _MADE) else each for each in value)


def _by_constant(name: str, a: Affine, b: int, width: int, is_signed: bool) -> Value | None:
    """Division, remainder, shift and mask by a constant that divides all coefficients; None: not exact."""
    if b == 0 and name in ("or", "xor", "shr", "and"):
        return 0 if name == "and" else a
    if b == 1 and name == "div":
        return a
    if name == "shr" and b == width - 1 and not_negative(a):
        return 0
    if name == "and" and not b & (b + 1):
        return a.const & b if all(c % (b + 1) == 0 for _, c in a.terms) else None
    divisor = 1 << min(b, 64) if name == "shr" else b
    if name not in ("shr", "div", "rem") or divisor <= 0 or b >= width * (name == "shr") + (1 << 31) * (name != "shr"):
        return None
    floors = name == "shr" and is_signed  # so does the quotient below, of negative numbers too
    if not (floors or not_negative(a)):
        return None
    if any(c % divisor for _, c in a.terms):
        return _divided(name, a, b, divisor, width, is_signed) if name != "rem" else None
    if name == "rem":
        return a.const % divisor
    return _normal(Affine(tuple((key, c // divisor) for key, c in a.terms), a.const // divisor), width)


def _divided(name: str, a: Affine, b: int, divisor: int, width: int, is_signed: bool) -> Value | None:
    """(d·x + y) / d, rounded down, is x + y / d; neither of the sum nor of y is negative. None: nothing to divide."""
    whole = tuple((key, c // divisor) for key, c in a.terms if c % divisor == 0)
    rest = Affine(tuple((key, c) for key, c in a.terms if c % divisor), a.const)
    if not whole or not not_negative(rest) or not not_negative(a):
        return None
    kind = f"{'s' if is_signed else 'u'}{width}"
    return plus(Affine(whole, 0), affine(made(name, kind, rest, b), width))


_KEEPS_SIGN = ("add", "mul", "shr", "div", "rem", "min", "max", "and", "shl", "or")


def without_sign(a: Value) -> Value:
    """32 bits as a number of 64 that is not negative."""
    return made("unsigned", a) if isinstance(a, Affine) and not not_negative(a) else a


@lru_cache(maxsize=1 << 16)
def not_negative(a: Value) -> bool:
    """Whether a value of the launch cannot be negative, if sizes are not."""
    if isinstance(a, int):
        return 0 <= a < 1 << 31
    if not isinstance(a, Affine) or a.const < 0:
        return False
    return all(c > 0 and _no_negative_symbol(key) for key, c in a.terms)


def _no_negative_symbol(key: Any) -> bool:
    if key[0] == "quotient":
        return _no_negative_symbol(key[1])
    if key[0] == "param" or key[0].startswith("%"):
        return True
    if key[0] == "count":
        return True
    return key[0] in _KEEPS_SIGN and not_negative(key[2]) and not_negative(key[3])


def residue_asked(a: Value) -> tuple[Hashable, int] | None:
    """A symbol and a modulus: were its residue known, a value that is not known might be. The innermost such."""
    for key, _ in a.terms if isinstance(a, Affine) else ():
        if not isinstance(key, tuple) or len(key) != 4:
            continue
        name, _, x, y = key
        found = residue_asked(x) or residue_asked(y)
        if found:
            return found
        divisor = 0
        if isinstance(y, int):
            divisor = y + 1 if name == "and" else 1 << min(y, 8) if name == "shr" else y
        if name in ("div", "rem", "and", "shr") and 2 <= divisor <= 8 and isinstance(x, Affine):
            for root, c in x.terms:
                if c % divisor and not variables_in(root):
                    return root, divisor
    return None


def with_residues(a: Value, residues: Mapping[Hashable, tuple[int, int]]) -> Value:
    """Each symbol s of `residues` written as modulus·quotient + residue."""
    if not isinstance(a, Affine) or not any(key in residues for key, _ in a.terms):
        return a
    out = Affine((), a.const)
    for key, c in a.terms:
        if key in residues:
            modulus, residue = residues[key]
            out = plus(out, Affine(((("quotient", key), modulus),), residue), c)
        else:
            out = plus(out, Affine(((key, 1),), 0), c)
    return out if out.terms else out.const % (1 << 32)


def compare(name: str, kind: str, a: Value, b: Value) -> Value:
    """`setp` on scalars that are no counters."""
    if kind == "pred":
        return UNIFORM
    width = int(kind[1:])
    if isinstance(a, int) and isinstance(b, int):
        if kind[0] == "s":
            a, b = signed(a, width), signed(b, width)
        return int({"lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b, "eq": a == b, "ne": a != b}[name])
    if name in ("eq", "ne") and isinstance(b, int) and (found := _chosen(a, b)) is not None:
        return found if name == "eq" else negate(found)
    if launch_wide(a) and launch_wide(b):
        swapped = {"gt": ("lt", b, a), "le": ("lt", b, a), "ge": ("lt", a, b), "lt": ("lt", a, b)}
        operation, x, y = swapped.get(name, ("eq", a, b))
        base = Predicate((operation, kind, x, y))
        return negate(base) if name in ("le", "ge", "ne") else base
    return unknown(a, b)


def _chosen(a: Value, number: int) -> Value | None:
    """The truth by which one of two numbers has been chosen, if the other is not this number; None: not so."""
    if not isinstance(a, Affine) or a.const or len(a.terms) != 1 or a.terms[0][1] != 1:
        return None
    key: Any = a.terms[0][0]
    if not isinstance(key, tuple) or key[0] != "selp" or not all(isinstance(each, int) for each in key[1][1:]):
        return None
    truth, x, y = key[1]
    return None if (x == number) == (y == number) else truth if x == number else negate(truth)


def negate(a: Value) -> Value:
    if isinstance(a, int):
        return 1 - a
    if isinstance(a, Predicate):
        return a.expression[1] if a.expression[0] == "not" else Predicate(("not", a))
    return TOP if isinstance(a, Perhaps) else a


def logic(name: str, a: Value, b: Value) -> Value:
    """and, or, xor of predicates, on scalars. An unknown of a lane is no uniform unknown, whatever it meets."""
    for x, y in ((a, b), (b, a)):
        if isinstance(x, int):
            if name == "and":
                return y if x else 0
            if name == "or":
                return 1 if x else y
            return negate(y) if x else y
    if isinstance(a, Predicate) and isinstance(b, Predicate) and name != "xor":
        return Predicate((name, a, b))
    if name == "and" and (isinstance(a, Perhaps) or isinstance(b, Perhaps)):
        both = [each for each in (a, b) if isinstance(each, Perhaps)]
        known = len(both) == 2 and all(each.needs for each in both)
        return Perhaps(
            tuple(sorted({truth for each in both for truth in each.truths})),
            tuple(sorted({truth for each in both for truth in each.needs})) if known else (),
        )
    return unknown(a, b)
