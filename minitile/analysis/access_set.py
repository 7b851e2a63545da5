"""A set of accesses that grows by one and is asked for conflicts, thousands of times, without a walk over all of it.

`AccessSet` is immutable; what it is made of is shared between those that have been made from one another, so that a
copy for a branch costs nothing and the union behind it looks only at what is new. Accesses stand in chunks, each at
least about twice as large as the next one; one more access makes a chunk of its own, which swallows those that are no
larger. A chunk that is asked sorts its accesses once: by object, by whether they write, and where the part that they
touch lies between two numbers that can be compared (bytes of a version, boxes whose starts differ by constants, what
threads reach, modulo the steps of loops around), by that.

Accesses of a chunk have the same barrier behind them (`passed`), or none; the chunk says which.

    near(t)     all accesses that may conflict with t, and few others: `memory_dependence.conflict` has the last word
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass, replace
from math import gcd
from typing import Any

from minitile.analysis.disjoint import Window
from minitile.analysis.memory_dependence import MemoryAccess, placed
from minitile.ir.core import Op, Value

FEW = 8  # accesses that are looked at one by one

Terms = tuple[frozenset[Any], ...]
Gap = Callable[[Terms, Terms], tuple[Window, ...]]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an access lies in its object, as far as numbers say: a window in each dimension, on top of `terms`. `gap`
    says where the terms of one are from those of another; without it, only those on top of the same are compared."""

    terms: Terms
    windows: tuple[Window, ...]
    gap: Gap | None = None


def _place(t: MemoryAccess) -> _Place | None:
    """None where it may lie anywhere."""
    threads = t.reach.threads if t.reach is not None else None
    if t.reach is not None and threads is not None and (found := threads.extent(t.reach)) is not None:
        return _Place(found.shared, found.windows, threads.between)
    if t.box is not None:
        ends = []
        for span in t.box:
            if span.low is None or span.high is None or span.low.terms != span.high.terms:
                return None
            ends.append((span.low.const, span.high.const, 0))
        return _Place(tuple(frozenset(span.low.terms.items()) for span in t.box if span.low is not None), tuple(ends))
    return None if t.region is None else _Place((), ((*t.region, 0),))


class _Group:
    """Accesses of one object on top of the same, in the order of where they begin in the dimension in which they differ
    most; where that is known modulo a number only, of the remainders."""

    __slots__ = ("accesses", "dim", "divisor", "gap", "longest", "orders", "terms")

    def __init__(self, accesses: list[tuple[_Place, MemoryAccess]]) -> None:
        self.terms, self.gap = accesses[0][0].terms, accesses[0][0].gap
        dims = range(len(accesses[0][0].windows))
        self.dim = max(dims, key=lambda d: len({where.windows[d][0] for where, _ in accesses}), default=-1)
        self.orders: dict[int, tuple[list[int], list[MemoryAccess]]] = {}  # by divisor
        self.accesses = accesses
        if self.dim >= 0:
            windows = [where.windows[self.dim] for where, _ in accesses]
            self.divisor = windows[0][2]
            self.longest = max(high - low for low, high, _ in windows)

    def order(self, divisor: int) -> tuple[list[int], list[MemoryAccess]]:
        """Where accesses begin, modulo a divisor, and they."""
        known = self.orders.get(divisor)
        if known is None:
            starts = [(where.windows[self.dim][0], t) for where, t in self.accesses]
            pairs = sorted([(at % divisor if divisor else at, t) for at, t in starts], key=lambda pair: pair[0])
            known = self.orders[divisor] = [at for at, _ in pairs], [t for _, t in pairs]
        return known

    def meeting(self, where: _Place) -> Iterable[MemoryAccess]:
        different = where.terms != self.terms
        alike = where.gap == self.gap and len(where.windows) > self.dim >= 0
        if not alike or (different and where.gap is None):
            return [t for _, t in self.accesses]
        low, high, divisor = where.windows[self.dim]
        if different and where.gap is not None:
            least, most, other = where.gap(where.terms, self.terms)[self.dim]
            low, high, divisor = low + least, high + most - 1, gcd(divisor, other)
        divisor = gcd(divisor, self.divisor)
        starts, accesses = self.order(divisor)
        first = low - self.longest + 1
        if not divisor:
            return accesses[bisect_left(starts, first) : bisect_left(starts, high)]
        if high - first >= divisor:
            return accesses
        first, high = first % divisor, high - first + first % divisor
        found = accesses[bisect_left(starts, first) : bisect_left(starts, high)]
        return found + accesses[: bisect_left(starts, high - divisor)] if high > divisor else found


class _Chunk:
    """Some accesses, and how to find those near another one."""

    __slots__ = ("_values", "index", "items", "passed")

    def __init__(self, items: frozenset[MemoryAccess], passed: Op | None = None) -> None:
        self.items = items
        self.passed = passed  # a barrier behind all of them
        self._values: frozenset[Value] | None = None
        self.index: dict[Value | None, tuple[_Of, _Of]] | None = None  # by object: what reads, what writes

    def accesses(self) -> Iterable[MemoryAccess]:
        return self.items if self.passed is None else [replace(t, passed=self.passed) for t in self.items]

    def behind(self, barrier: Op) -> _Chunk:
        """The same accesses with a barrier behind them."""
        made = _Chunk(self.items, barrier)
        made.index, made._values = self.index, self._values
        return made

    @property
    def values(self) -> frozenset[Value]:
        """What their places are computed from."""
        if self._values is None:
            self._values = frozenset().union(*map(values_of, self.items))
        return self._values

    def near(self, t: MemoryAccess, found: _Place | None) -> Iterator[MemoryAccess]:
        if len(self.items) <= FEW or t.mem is None:
            yield from self.items
            return
        if self.index is None:
            self.index = self.sorted()
        for mem, parts in self.index.items():
            if mem is t.mem:
                for part in parts if t.writes else parts[1:]:
                    yield from part.near(found)
            elif mem is None or (placed(t) is not None and _in_shared(mem)):
                for part in parts if t.writes else parts[1:]:
                    yield from part.near(None)

    def sorted(self) -> dict[Value | None, tuple[_Of, _Of]]:
        index: dict[Value | None, tuple[_Of, _Of]] = {}
        for t in self.items:
            parts = index.get(t.mem)
            if parts is None:
                parts = index[t.mem] = _Of(), _Of()
            parts[t.writes].accesses.append(t)
        return index


class _Of:
    """The accesses of one object that read, or that write."""

    __slots__ = ("accesses", "groups", "loose")

    def __init__(self) -> None:
        self.accesses: list[MemoryAccess] = []
        self.groups: dict[object, _Group] | None = None
        self.loose: list[MemoryAccess] = []

    def near(self, found: _Place | None) -> Iterator[MemoryAccess]:
        if found is None or len(self.accesses) <= FEW:
            yield from self.accesses
            return
        if self.groups is None:
            self.groups = self.sorted()
        yield from self.loose
        for group in self.groups.values():
            yield from group.meeting(found)

    def sorted(self) -> dict[object, _Group]:
        by_key: dict[object, list[tuple[_Place, MemoryAccess]]] = {}
        for t in self.accesses:
            where = _place(t)
            if where is None:
                self.loose.append(t)
            else:
                key = where.terms, tuple(divisor for _, _, divisor in where.windows), where.gap is None
                by_key.setdefault(key, []).append((where, t))
        return {key: _Group(accesses) for key, accesses in by_key.items()}


def _in_shared(mem: Value | None) -> bool:
    return getattr(mem.type if mem is not None else None, "space", "") == "shared"


def values_of(t: MemoryAccess) -> set[Value]:
    """The values that an access's place is computed from."""
    found = set(t.apart) | (t.reach.values() if t.reach is not None else set())
    ends = [end for span in t.box or () for end in (span.low, span.high)]
    return found.union(*[at.atoms() for at in (*ends, t.slot.value) if at is not None])


def _chunks(accesses: Iterable[MemoryAccess]) -> list[_Chunk]:
    """A chunk for each barrier behind some of the accesses."""
    items = frozenset(accesses)
    if {t.passed for t in items} == {None}:
        return [_Chunk(items)]
    by: dict[Op | None, list[MemoryAccess]] = {}
    for t in items:
        by.setdefault(t.passed, []).append(t if t.passed is None else replace(t, passed=None))
    return [_Chunk(frozenset(group), passed) for passed, group in by.items()]


def _merged(chunks: list[_Chunk]) -> list[_Chunk]:
    """Chunks behind the same barrier, each larger than the next one."""
    kept: list[_Chunk] = []
    for chunk in chunks:
        _add(kept, chunk)
    return kept


def _add(chunks: list[_Chunk], chunk: _Chunk) -> None:
    """One more chunk, which swallows those that are no larger."""
    while chunks and chunks[-1].passed is chunk.passed and len(chunks[-1].items) <= len(chunk.items):
        chunk = _Chunk(chunks.pop().items | chunk.items, chunk.passed)
    chunks.append(chunk)


class AccessSet:
    """An immutable set of accesses."""

    __slots__ = ("chunks",)

    def __init__(self, accesses: Iterable[MemoryAccess] = ()) -> None:
        self.chunks: tuple[_Chunk, ...] = tuple(_chunks(accesses)) if accesses else ()

    @staticmethod
    def _of(chunks: Iterable[_Chunk]) -> AccessSet:
        made = AccessSet.__new__(AccessSet)
        made.chunks = tuple(chunks)
        return made

    def __iter__(self) -> Iterator[MemoryAccess]:
        for chunk in self.chunks:
            yield from chunk.accesses()

    def __len__(self) -> int:
        return sum(len(chunk.items) for chunk in self.chunks)

    def __bool__(self) -> bool:
        return bool(self.chunks)

    def __contains__(self, t: MemoryAccess) -> bool:
        plain = t if t.passed is None else replace(t, passed=None)
        return any(chunk.passed is t.passed and plain in chunk.items for chunk in self.chunks)

    def __or__(self, other: Iterable[MemoryAccess]) -> AccessSet:
        if isinstance(other, AccessSet):
            mine, theirs = set(map(id, self.chunks)), set(map(id, other.chunks))
            only = [chunk for chunk in other.chunks if id(chunk) not in mine]
            if sum(len(c.items) for c in only) > sum(len(c.items) for c in self.chunks if id(c) not in theirs):
                return other | self
            other = [t for chunk in only for t in chunk.accesses()]
        new = frozenset([t for t in other if t not in self])
        if not new:
            return self
        chunks = list(self.chunks)
        for chunk in _chunks(new):
            _add(chunks, chunk)
        return AccessSet._of(chunks)

    def __and__(self, other: AccessSet) -> AccessSet:
        theirs = set(map(id, other.chunks))
        same = [chunk for chunk in self.chunks if id(chunk) in theirs]
        rest = [t for chunk in self.chunks if id(chunk) not in theirs for t in chunk.accesses() if t in other]
        return AccessSet._of(same) | rest

    def __le__(self, other: AccessSet) -> bool:
        theirs = set(map(id, other.chunks))
        return all(t in other for chunk in self.chunks if id(chunk) not in theirs for t in chunk.accesses())

    def renamed(
        self, inside: Set[Value], rename: Callable[[Iterable[MemoryAccess]], Iterable[MemoryAccess]]
    ) -> AccessSet:
        """With accesses renamed whose places are computed from values inside of something; no others change."""
        same = [chunk for chunk in self.chunks if len(chunk.items) > FEW and chunk.values.isdisjoint(inside)]
        if not same:
            return AccessSet(rename(self))
        kept = set(map(id, same))
        return AccessSet._of(same) | rename([t for c in self.chunks if id(c) not in kept for t in c.accesses()])

    def passing(self, barrier: Op, keeps: Callable[[Op], bool]) -> AccessSet:
        """What stays pending behind a barrier, with that barrier behind it unless it `keeps` the one it has."""
        return AccessSet._of(
            _merged([c if c.passed is not None and keeps(c.passed) else c.behind(barrier) for c in self.chunks])
        )

    def without(self, barriers: Set[Op]) -> AccessSet:
        """Without the accesses behind which one of the barriers is."""
        if any(chunk.passed in barriers for chunk in self.chunks):
            return AccessSet._of(chunk for chunk in self.chunks if chunk.passed not in barriers)
        return self

    def by_barrier(self) -> Iterator[tuple[Op | None, Callable[[MemoryAccess], Iterator[MemoryAccess]]]]:
        """The barriers behind accesses, each with how to find those accesses that may conflict with one."""
        for chunk in self.chunks:
            yield chunk.passed, lambda t, chunk=chunk: chunk.near(t, _place(t))  # type: ignore[misc]

    def near(self, t: MemoryAccess) -> Iterator[MemoryAccess]:
        """Those that may conflict with an access, in no particular order."""
        where = _place(t)
        for chunk in self.chunks:
            yield from chunk.near(t, where)
