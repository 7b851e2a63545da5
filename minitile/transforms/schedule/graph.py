"""What a loop allows: its operations by the entries of a schedule, and what must come before what.

    %s = load %S[0, 0] ; %c1 = add %c, %s      load → add      value, distance 0
    store %W[0, 0], %c1                        add → add       carried, distance 1 (%c is %c1 of the iteration before)
    %w = load %W[0, 0]                         store → load    read of W, distance 0
    yield %c1                                  load → store    overwrite of W, distance 1

An edge says that its target, `distance` iterations later, comes after its source. The same for both stages of IR: it
asks operations what they use and what they access (ir/effects.py), and knows by name only what orders accesses: tokens
and the slots of rings. Of a buffer with versions, an access meets those of the same version alone, iterations apart.

Operations are *fixed* to the entry of the statement that they come from, or *free*: scalars and scalar loads of memory
that the loop does not write are computed where they are needed. Copies from tensors to shared memory that the rest of
the loop only reads, after them, *feed* it: they may run ahead, and are put in front of their first reader.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import NamedTuple

from minitile.analysis.affine import divisor_of
from minitile.ir.builder import constant_of
from minitile.ir.core import Op, Value
from minitile.ir.diagnostics import Location
from minitile.ir.effects import Access, Footprint
from minitile.ir.ops import arith, control, roles, tile
from minitile.ir.types import BufferType, ScalarType, TensorType

Path = frozenset[tuple[Value, bool]]  # conditions of the enclosing ifs and which branch of each
Box = tuple[tuple[int, int], ...]
Apart = Callable[[Op, Op], bool]
ORDERS = Access("atomic", None, proxy="any")  # of what touches no memory and may order others' accesses
RING = (roles.ConsumerWait, roles.ConsumerRelease)


@dataclass(frozen=True, slots=True, eq=False)
class Edge:
    """`target`, `distance` iterations later, comes after `source`.

    kind      "value", "carried": it uses what the source makes; "feed": it reads what the source copies; "read",
              "overwrite", "rewrite": of memory, after a write, a read, a write; "receive", "release": of a ring's slot,
              before and behind its uses
    what      the memory or ring, for messages
    """

    source: Op
    target: Op
    distance: int
    kind: str
    what: str = ""


def never(a: Op, b: Op) -> bool:
    return False


def inside(op: Op) -> Iterator[Op]:
    """The operations in an operation's regions."""
    for region in op.regions:
        yield from region.walk()


def used(op: Op) -> list[Value]:
    """The values that an operation or one inside it uses."""
    return [v for inner in op.walk() for v in inner.operands] if op.region_fields else op.operands


def writes(op: Op, mem: Value | None) -> bool:
    return any(a.writes and a.mem is mem for inner in op.walk() for a in inner.accesses())


class Body:
    """A loop's body. `unit`: the entry of each fixed operation; `feeders`: the copies, and branches of nothing but
    copies, that may run ahead; `ahead`: those of them whose entry has nothing else. `each`: without marks, where each
    operation is an entry, but constants and those that are `free`; what only orders threads stays in its order then,
    and holds no other. `apart`: operations that do not touch the same bytes, which only who made them knows."""

    def __init__(self, loop: control.For, each: bool = False, free: Container[Op] = (), apart: Apart = never) -> None:
        self.loop, self.each, self.apart = loop, each, apart
        self.ops: list[Op] = []
        self.unit: dict[Op, int] = {}
        self.free: set[Op] = set()
        self.written = {a.mem for op in loop.body.walk() for a in op.accesses() if a.writes}
        self.next_of = dict(zip(loop.carried, loop.body.yielded, strict=True))
        at = 0
        for op in loop.body.ops:
            if isinstance(op, control.Statement):
                at = op.number
            elif not op.terminator:
                self.ops.append(op)
                if op in free or isinstance(op, arith.Constant) if each else self._is_free(op):
                    self.free.add(op)
                else:
                    self.unit[op] = len(self.unit) if each else at
        self.number = {op: n for n, op in enumerate(self.ops)}
        self.fixed = list(self.unit)
        self.units = set(self.unit.values())
        self.feeders = set() if each else self._feeders()
        self.ahead = {op for op in self.feeders if self.feeds(self.unit[op])}
        self._versions: dict[Value, tuple[int, int] | None] = {}

    def _is_free(self, op: Op) -> bool:
        if not all(isinstance(r.type, ScalarType) for r in op.results) or not op.results:
            return False
        if op.region_fields:
            return all(inner.terminator or self._is_free(inner) for inner in inside(op))
        if op.pure:
            return True
        accesses = op.accesses()
        return bool(accesses) and all(
            a.kind == "read" and a.mem is not None and a.mem not in self.written for a in accesses
        )

    def _feeders(self) -> set[Op]:
        found = {op: buffers for op in self.fixed if (buffers := self._fed(op)) and not any(self.needs(op))}
        for op in self.fixed:
            for mem in {a.mem for inner in op.walk() for a in inner.accesses()}:
                for copy, buffers in list(found.items()):
                    late = op not in found and (self.number[op] < self.number[copy] or writes(op, mem))
                    if copy is not op and (mem is None or (mem in buffers and late)):
                        del found[copy]
        return set(found)

    def _fed(self, op: Op) -> set[Value]:
        """The shared buffers that an operation fills, if it does nothing but copy tensors to shared memory."""
        leaves = [inner for inner in op.walk() if not (inner.terminator or inner.region_fields)]
        copies = [c for c in leaves if type(c) is tile.Copy]
        if op.results or any(c not in copies and not self._is_free(c) for c in leaves):
            return set()
        if any(not isinstance(c.src.type, TensorType) or c.src in self.written for c in copies):
            return set()
        buffers = {c.dst for c in copies}
        own = any(b.op is not None and b.op in self.loop.body.ops for b in buffers)
        shared = all(isinstance(b.type, BufferType) and b.type.space == "shared" for b in buffers)
        return buffers if shared and not own else set()

    # For messages ----------------------------------------------------------------------------------------------------

    def feeds(self, unit: int) -> bool:
        """Whether an entry is nothing but copies that may run ahead."""
        return all(op in self.feeders for op, u in self.unit.items() if u == unit)

    def loc(self, unit: int) -> Location | None:
        marks = [op for op in self.loop.body.ops if isinstance(op, control.Statement) and op.number == unit]
        return marks[0].loc if marks else None

    def name(self, unit: int) -> str:
        loc = self.loc(unit)
        return f"entry {unit} of the schedule" + ("" if loc is None else f" (line {loc.line})")

    def name_of(self, op: Op) -> str:
        line = "" if op.loc is None else f" at line {op.loc.line}"
        return f"`{op.mnemonic}`{line} (entry {self.unit[op]})"

    # What operations need ---------------------------------------------------------------------------------------------

    def readers(self, copy: Op) -> list[Op]:
        """The fixed operations that read what a feeder copies."""
        buffers = self._fed(copy)
        return [op for op in self.fixed if op not in self.feeders and not buffers.isdisjoint(used(op))]

    def needs(self, op: Op) -> Iterator[tuple[Op, int]]:
        """The fixed operations whose results an operation uses, directly or through free ones, each with how many
        iterations before, at the least."""
        level, later = list(used(op)), 0
        seen = set(level)
        while level:
            following: list[Value] = []
            for value in level:
                made = value.op
                if made in self.free:
                    new = [v for v in used(made) if v not in seen]
                    level += new  # of the same iteration
                    seen.update(new)
                elif made in self.unit:
                    yield made, later
                elif value in self.next_of and self.next_of[value] not in seen:
                    following.append(self.next_of[value])
            seen.update(following)
            level, later = following, later + 1

    # Edges -----------------------------------------------------------------------------------------------------------

    @cached_property
    def edges(self) -> list[Edge]:
        """All of them, those of values first."""
        return [*self._values(), *self._feeds(), *self._memory(), *self._rings()]

    def _values(self) -> Iterator[Edge]:
        for op in self.fixed:
            for need, later in self.needs(op):
                yield Edge(need, op, later, "carried" if later else "value")

    def _feeds(self) -> Iterator[Edge]:
        for copy in self.fixed:
            if copy in self.feeders:
                for op in self.readers(copy):
                    yield Edge(copy, op, 0, "feed")

    def _memory(self) -> Iterator[Edge]:
        """Of operations that access the same memory, one of which writes: the earlier one first, and the later one
        before the earlier one of the next iteration; or, of versions, of the iteration that has its turn."""
        touching: dict[Value | None, list[tuple[Op, AccessInside]]] = {}
        for op in self.fixed:
            if op in self.ahead:
                continue
            found = [t for t in touches(op) if not self.each or t.access is not ORDERS]
            both: dict[Op, list[tuple[AccessInside, AccessInside]]] = {}
            for mine in found:
                mem = mine.access.mem
                some = touching.values() if mem is None else (touching.get(mem, ()), touching.get(None, ()))
                for earlier, theirs in itertools.chain.from_iterable(some):
                    if self.apart(earlier, op):
                        continue
                    if (mine.access.writes or theirs.access.writes) and boxes_meet(mine.box, theirs.box):
                        both.setdefault(earlier, []).append((theirs, mine))
            for earlier in sorted(both, key=self.number.__getitem__):
                yield from self._pair(earlier, op, both[earlier])
            for mine in found:
                touching.setdefault(mine.access.mem, []).append((op, mine))

    def _pair(self, earlier: Op, op: Op, both: list[tuple[AccessInside, AccessInside]]) -> Iterator[Edge]:
        mem = both[0][0].access.mem or both[0][1].access.mem
        name = "memory" if mem is None else mem.name or "a buffer"
        forth = [(self._apart(a.access, b.access, 0), a, b) for a, b in both if not contradict(a.path, b.path)]
        back = [(self._apart(b.access, a.access, 1), b, a) for a, b in both]
        for source, target, some in ((earlier, op, forth), (op, earlier, back)):
            if some:
                distance, first, second = min(some, key=itemgetter(0))
                yield from self._edges(source, target, distance, _kind(first.access, second.access), name)

    def _edges(self, source: Op, target: Op, distance: int, kind: str, what: str) -> Iterator[Edge]:
        """What is asynchronous is over where its token is waited for, which may be iterations later; where the loop
        waits after the target, that is no condition."""
        for end, later in self.waits.get(source, ()) or [(source, 0)]:
            left = distance - later
            if left < 0 or (not left and self.number[end] > self.number[target]):
                end, left = source, distance
            if end is not target:
                yield Edge(end, target, left, kind, what)

    @cached_property
    def waits(self) -> dict[Op, list[tuple[Op, int]]]:
        """For each asynchronous operation of the loop the waits for it, and how many iterations later they are."""
        found: dict[Op, list[tuple[Op, int]]] = {}
        for wait in self.fixed:
            tokens = [(wait.token, 0)] if isinstance(wait, tile.Wait) else []
            for token, later in tokens:  # those of a join, and of the iteration before, are appended
                if isinstance(token.op, tile.Join):
                    tokens += [(each, later) for each in token.op.tokens]
                elif token.op in self.unit:
                    found.setdefault(token.op, []).append((wait, later))
                elif token in self.next_of and later <= len(self.next_of):
                    tokens.append((self.next_of[token], later + 1))
        return found

    def _apart(self, one: Access, other: Access, least: int) -> int:
        """How many iterations later, `least` or more, an access may meet another one's version."""
        if one.slot is None or other.slot is None:
            return least
        mine, theirs = self.version(one.slot), self.version(other.slot)
        if mine is None or theirs is None or mine[0] != theirs[0]:
            return least
        versions = mine[0]
        return (mine[1] - theirs[1] - least) % versions + least

    def version(self, slot: Value) -> tuple[int, int] | None:
        """(versions, offset) of a slot that is (the iteration's number + offset) modulo versions."""
        if slot not in self._versions:
            self._versions[slot] = self._find_version(slot)
        return self._versions[slot]

    def _find_version(self, slot: Value) -> tuple[int, int] | None:
        while isinstance(slot.op, arith.Cast):
            slot = slot.op.a
        if not isinstance(slot.op, arith.FloorMod | arith.TruncMod | arith.And):
            return None
        versions, number, offset = divisor_of(slot.op), slot.op.a, 0
        while isinstance(add := number.op, arith.Add) and constant_of(add.b) is not None:
            number, offset = add.a, offset + int(constant_of(add.b))
        if versions is None or not self.counts(number):
            return None
        return versions, offset % versions

    def counts(self, number: Value) -> bool:
        """Whether a value is the iteration's number: it grows by one from each iteration to the next."""
        loop, op = self.loop, number.op
        if isinstance(op, arith.FloorDiv) and op.b is loop.step:
            number, op = op.a, op.a.op
        elif constant_of(loop.step) != 1:
            return False
        return number is loop.iv or (isinstance(op, arith.Sub) and op.a is loop.iv and op.b is loop.lower)

    def _rings(self) -> Iterator[Edge]:
        for op in self.fixed:
            if not isinstance(op, RING):
                continue
            name = op.pipeline.name or "a ring"
            for user in self.ring_users(op):
                if isinstance(op, roles.ConsumerWait):
                    yield Edge(op, user, 0, "receive", name)
                else:
                    yield Edge(user, op, 0, "release", name)

    def ring_users(self, op: roles.ConsumerWait | roles.ConsumerRelease) -> list[Op]:
        """The operations that use a slot's payload, and what waits for these."""
        assert op.pipeline.op is not None
        payload = set(op.pipeline.op.operands)
        users = [o for o in self.fixed if o is not op and not payload.isdisjoint(used(o))]
        made = set(users)
        return users + [o for o in self.fixed if isinstance(o, roles.Await) and o.token.op in made and o not in made]


class AccessInside(NamedTuple):
    """An access in an operation; the elements that it may touch, from and to in each dimension (None: only run time
    knows); the conditions inside of the operation under which it does."""

    access: Access
    box: Box | None
    path: Path


def touches(op: Op, path: Path = frozenset()) -> Iterator[AccessInside]:
    """What an operation accesses, with all that is in it; one that may order others, all memory. Slots of rings have an
    order of their own, and a token is for what has it."""
    if isinstance(op, (*RING, tile.Wait, control.Statement)):
        return
    boxes = {(f.mem, f.kind): box_of(op, f) for f in op.footprints()}
    accesses = op.accesses()
    if not accesses and not (op.results or op.pure or op.terminator or op.region_fields):
        accesses = (ORDERS,)
    for access in accesses:
        yield AccessInside(access, None if access.mem is None else boxes.get((access.mem, access.kind)), path)
    for number, region in enumerate(op.regions):
        inside = path | {(op.condition, number == 0)} if isinstance(op, control.If) else path
        for inner in region.ops:
            yield from touches(inner, inside)


def box_of(op: Op, footprint: Footprint) -> Box | None:
    """The elements of a footprint, where they are known."""
    offsets = [constant_of(i) for i in footprint.indices]
    if None in offsets or getattr(op, "shift", None) is not None:
        return None
    return tuple([(int(o), int(o) + size) for o, size in zip(offsets, footprint.extents, strict=True)])


def contradict(a: Path, b: Path) -> bool:
    """Whether no iteration goes both ways."""
    return any((condition, not taken) in b for condition, taken in a)


def boxes_meet(a: Box | None, b: Box | None) -> bool:
    if a is None or b is None:
        return True
    return all(lo < hi2 and lo2 < hi for (lo, hi), (lo2, hi2) in zip(a, b, strict=True))


def _kind(first: Access, second: Access) -> str:
    if not first.writes:
        return "overwrite"
    return "rewrite" if second.writes else "read"
