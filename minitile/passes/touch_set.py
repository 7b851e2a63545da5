"""A set of touches that grows by one and is asked for conflicts, thousands of times, without a walk over all of it.

`TouchSet` is immutable; what it is made of is shared between those that have been made from one another, so that a copy
for a branch costs nothing and the union behind it looks only at what is new. Touches stand in chunks, each at least
about twice as large as the next one; one more touch makes a chunk of its own, which swallows those that are no larger.
A chunk that is asked sorts its touches once: by object, by whether they write, and where the part that they touch lies
between two numbers that can be compared (bytes of a version, boxes whose corners differ by constants), by that.

    near(t)     all touches that may conflict with t, and few others: `hazards.conflict` has the last word
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Any

from minitile.ir.core import Value
from minitile.passes.hazards import Touch, placed

FEW = 8  # touches that are looked at one by one

Interval = tuple[int, int]
Found = tuple[object, tuple[Interval, ...]]  # what makes intervals comparable, and one for each dimension


def _intervals(t: Touch) -> Found | None:
    """Where a touch lies in its object, as far as numbers say it; None where it may lie anywhere."""
    threads = t.reach.threads if t.reach is not None else None
    if t.reach is not None and threads is not None and (found := threads.extent(t.reach)) is not None:
        return ("reach", found[0]), found[1]
    if t.box is not None:
        ends = []
        for span in t.box:
            if span.low is None or span.high is None or span.low.terms != span.high.terms:
                return None
            ends.append((span.low.const, span.high.const))
        return tuple(frozenset(span.low.terms.items()) for span in t.box if span.low is not None), tuple(ends)
    return None if t.region is None else ((), (t.region,))


class _Group:
    """Touches of one object whose intervals can be compared, in the order of where they begin in the dimension in which
    they differ most."""

    __slots__ = ("dim", "longest", "starts", "touches")

    def __init__(self, touches: list[tuple[tuple[Interval, ...], Touch]]) -> None:
        dims = range(len(touches[0][0]))
        self.dim = max(dims, key=lambda d: len({intervals[d][0] for intervals, _ in touches}), default=-1)
        dim = self.dim
        if dim >= 0:
            touches = sorted(touches, key=lambda each: each[0][dim][0])
            self.starts = [intervals[dim][0] for intervals, _ in touches]
            self.longest = max(intervals[dim][1] - intervals[dim][0] for intervals, _ in touches)
        self.touches = [t for _, t in touches]

    def meeting(self, intervals: tuple[Interval, ...]) -> list[Touch]:
        if self.dim < 0 or len(intervals) <= self.dim:
            return self.touches
        low, high = intervals[self.dim]
        return self.touches[bisect_right(self.starts, low - self.longest) : bisect_left(self.starts, high)]


class _Chunk:
    """Some touches, and how to find those near another one."""

    __slots__ = ("index", "items")

    def __init__(self, items: frozenset[Touch]) -> None:
        self.items = items
        self.index: dict[Value | None, tuple[_Of, _Of]] | None = None  # by object: what reads, what writes

    def near(self, t: Touch, found: Found | None) -> Iterator[Touch]:
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
            parts[t.writes].touches.append(t)
        return index


class _Of:
    """The touches of one object that read, or that write."""

    __slots__ = ("groups", "loose", "touches")

    def __init__(self) -> None:
        self.touches: list[Touch] = []
        self.groups: dict[object, _Group] | None = None
        self.loose: list[Touch] = []

    def near(self, found: Found | None) -> Iterator[Touch]:
        if found is None or len(self.touches) <= FEW:
            yield from self.touches
            return
        if self.groups is None:
            self.groups = self.sorted()
        yield from self.loose
        for key, group in self.groups.items():
            yield from group.meeting(found[1]) if key == found[0] else group.touches

    def sorted(self) -> dict[object, _Group]:
        by_key: dict[Any, list[tuple[tuple[Interval, ...], Touch]]] = {}
        for t in self.touches:
            where = _intervals(t)
            if where is None:
                self.loose.append(t)
            else:
                by_key.setdefault(where[0], []).append((where[1], t))
        return {key: _Group(touches) for key, touches in by_key.items()}


def _in_shared(mem: Value | None) -> bool:
    return getattr(mem.type if mem is not None else None, "space", "") == "shared"


class TouchSet:
    """An immutable set of touches."""

    __slots__ = ("chunks",)

    def __init__(self, touches: Iterable[Touch] = ()) -> None:
        items = frozenset(touches)
        self.chunks: tuple[_Chunk, ...] = (_Chunk(items),) if items else ()

    @staticmethod
    def _of(chunks: Iterable[_Chunk]) -> TouchSet:
        made = TouchSet()
        made.chunks = tuple(chunks)
        return made

    def __iter__(self) -> Iterator[Touch]:
        for chunk in self.chunks:
            yield from chunk.items

    def __len__(self) -> int:
        return sum(len(chunk.items) for chunk in self.chunks)

    def __bool__(self) -> bool:
        return bool(self.chunks)

    def __contains__(self, t: Touch) -> bool:
        return any(t in chunk.items for chunk in self.chunks)

    def __or__(self, other: Iterable[Touch]) -> TouchSet:
        if isinstance(other, TouchSet):
            mine = set(map(id, self.chunks))
            if len(other.chunks) > len(self.chunks) and mine <= set(map(id, other.chunks)):
                return other
            other = [t for chunk in other.chunks if id(chunk) not in mine for t in chunk.items]
        new = frozenset([t for t in other if t not in self])
        if not new:
            return self
        chunks = list(self.chunks)
        while chunks and len(chunks[-1].items) <= len(new):
            new |= chunks.pop().items
        return TouchSet._of([*chunks, _Chunk(new)])

    def __and__(self, other: TouchSet) -> TouchSet:
        theirs = set(map(id, other.chunks))
        same = [chunk for chunk in self.chunks if id(chunk) in theirs]
        rest = [t for chunk in self.chunks if id(chunk) not in theirs for t in chunk.items if t in other]
        return TouchSet._of(same) | rest

    def __le__(self, other: TouchSet) -> bool:
        theirs = set(map(id, other.chunks))
        return all(t in other for chunk in self.chunks if id(chunk) not in theirs for t in chunk.items)

    def near(self, t: Touch) -> Iterator[Touch]:
        """Those that may conflict with a touch, in no particular order."""
        where = _intervals(t)
        for chunk in self.chunks:
            yield from chunk.near(t, where)
