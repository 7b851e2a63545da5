"""What `proxy_fence` knows at a place of the program: sets of marks, one object for all that are equal.

    Seen    a generic access: its bytes, and which of two memories they are in
    Mark    one that may lie in the past, with the last release behind it and whether a fence stands behind that
    State   the marks at a place, and those of copies in flight

The search for places walks a kernel many times, and much comes back: the same marks at the head of the same loop, moved
by the same step. So `Marks` makes each of them once. Then they are equal only to themselves, sets of them are compared
without looking inside, and what becomes of an access from one iteration to the next is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from minitile.analysis.memory_dependence import MemoryAccess
from minitile.ir.core import Block, Op, Value
from minitile.ir.types import TokenType


@dataclass(slots=True, eq=False)
class Seen:
    """A generic access in a block, of the space "shared", "global" or "cluster". One stands for all of the block that
    touch the same."""

    touch: MemoryAccess
    block: Block
    space: str


@dataclass(slots=True, eq=False)
class Mark:
    """A generic access in the past. `release`: the last operation by which others may know of it, and how many threads
    met there (None: all); `fenced`: there was a fence behind it."""

    seen: Seen
    release: Op | None = None
    count: int | None = None
    fenced: bool = False


Copies = dict[Value, frozenset[Mark]]  # the marks that copies in flight will leave, by their tokens
Known = tuple[frozenset[Mark], frozenset[Mark], frozenset[tuple[Value, frozenset[Mark]]]]
_NONE: frozenset[Mark] = frozenset()


class Marks:
    """All marks of a kernel."""

    def __init__(self) -> None:
        self._seen: dict[tuple[MemoryAccess, Block, str], Seen] = {}
        self._marks: dict[tuple[Seen, Op | None, int | None, bool], Mark] = {}
        self._moved: dict[tuple[Seen, object], Seen] = {}

    def first(self, touch: MemoryAccess, block: Block, space: str) -> Mark:
        """The mark of an access that happens here and now."""
        return self.mark(self._one(touch, block, space), None, None, False)

    def _one(self, touch: MemoryAccess, block: Block, space: str) -> Seen:
        return self._seen.setdefault((touch, block, space), Seen(touch, block, space))

    def mark(self, seen: Seen, release: Op | None, count: int | None, fenced: bool) -> Mark:
        key = seen, release, count, fenced
        known = self._marks.get(key)
        if known is None:
            known = self._marks[key] = Mark(*key)
        return known

    def moved(self, m: Mark, f: Callable[[MemoryAccess], MemoryAccess], name: object) -> Mark:
        """The mark of the access moved by f; `name` stands for f."""
        seen = self._moved.get((m.seen, name))
        if seen is None:
            seen = self._one(f(m.seen.touch), m.seen.block, m.seen.space)
            self._moved[m.seen, name] = seen
        return m if seen is m.seen else self.mark(seen, m.release, m.count, m.fenced)


@dataclass(slots=True)
class State:
    """`mine`: the marks of the threads that are here together; `outer`: those from before they diverged from others;
    `copies`: those of copies in flight."""

    marks: Marks
    mine: frozenset[Mark] = _NONE
    outer: frozenset[Mark] = _NONE
    copies: Copies = field(default_factory=dict)

    def copy(self) -> State:
        return State(self.marks, self.mine, self.outer, dict(self.copies))

    def known(self) -> Known:
        """All of it, as a key."""
        return self.mine, self.outer, frozenset(self.copies.items())

    def put(self, other: State) -> None:
        """Become the other one."""
        self.mine, self.outer, self.copies = other.mine, other.outer, dict(other.copies)

    def forget(self) -> None:
        """Nothing is known of the past; copies stay in flight."""
        self.mine = self.outer = _NONE

    def join(self, other: State) -> None:
        self.mine |= other.mine
        self.outer |= other.outer
        self.start(other.copies.items())

    def start(self, copies: Iterable[tuple[Value, frozenset[Mark]]]) -> None:
        for token, marks in copies:
            if marks:
                self.copies[token] = self.copies.get(token, _NONE) | marks

    def finish(self, token: Value) -> None:
        """A copy is waited for: its accesses lie in the past."""
        self.mine |= self.copies.get(token, _NONE)

    def covers(self, other: State) -> bool:
        return (
            other.mine <= self.mine
            and other.outer <= self.outer
            and all(marks <= self.copies.get(token, _NONE) for token, marks in other.copies.items())
        )

    def carry(self, targets: Iterable[Value], sources: Iterable[Value]) -> None:
        """Tokens that go from sources to targets."""
        pairs = [(t, s) for t, s in zip(targets, sources, strict=True) if isinstance(t.type, TokenType)]
        self.start([(t, self.copies.get(s, _NONE)) for t, s in pairs])

    def map(self, f: Callable[[MemoryAccess], MemoryAccess], name: object) -> State:
        """With the bytes of every access moved by f; `name` stands for f."""
        moved = self.marks.moved

        def each(old: frozenset[Mark]) -> frozenset[Mark]:
            return frozenset([moved(m, f, name) for m in old])

        return State(
            self.marks, each(self.mine), each(self.outer), {token: each(marks) for token, marks in self.copies.items()}
        )

    def apart(self, at: Op) -> State:
        """What threads start with that part from the others at an operation."""
        mark = self.marks.mark
        left = [m if m.release is not None else mark(m.seen, at, m.count, m.fenced) for m in self.mine]
        return State(self.marks, _NONE, self.outer.union(left), dict(self.copies))

    def fence(self, space: str) -> None:
        """All threads that are here fence."""
        mark = self.marks.mark
        kept = [m for m in self.mine if m.seen.space != space or m.release is not None]
        self.mine = frozenset(
            [m if m.fenced or m.seen.space != space else mark(m.seen, m.release, m.count, True) for m in kept]
        )

    def release(self, at: Op, count: int | None) -> None:
        """`count` threads (None: all that are here) tell one another what they have done."""
        marks = []
        for m in self.mine:
            if m.release is not None and count is not None and (m.count is None or m.count > count):
                marks.append(m)
            elif not m.fenced:
                marks.append(self.marks.mark(m.seen, at, count, False))
        self.mine = frozenset(marks)
