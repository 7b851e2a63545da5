"""What a walk of `proxy_fence` need not go through again: the parts of a kernel, and which fences stand in each.

The search for places takes a walk for each fence that it tries, and one fence more or less changes little: in front of
it nothing, and behind it nothing once the same is known again. So blocks are cut in halves, down to a few operations,
and each part has a number that says which fences stand in it and inside of its operations:

    block ─┬─ operations 0 to 7     3         what is known in front of a part, and the part's number, say what is
           └─ operations 8 to 15    0         found in it; only the parts around a fence get another number

A change renumbers the parts that hold the place, from the smallest to the whole kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from minitile.ir.core import Block, Op
from minitile.transforms.sync.fence_placement import Fence, Place

FEW = 8  # operations that are walked one by one


class Part:
    """Some neighbouring places of a block: `places` themselves, or two `halves`. `inner`: the blocks inside of the
    operations there. `around`: the part that this one is in."""

    __slots__ = ("around", "halves", "inner", "number", "places")

    def __init__(self, places: Sequence[Place]) -> None:
        self.places: Sequence[Place] = ()
        self.halves: tuple[Part, ...] = ()
        self.inner: list[Part] = []
        self.around: Part | None = None
        self.number = -1
        if len(places) <= FEW:
            self.places = places
            return
        middle = len(places) // 2
        self.halves = Part(places[:middle]), Part(places[middle:])
        for half in self.halves:
            half.around = self


class Parts:
    """All parts of a kernel. `whole`: the one of each block; `placed`: the fences at a place."""

    def __init__(self, blocks: Mapping[Block, Sequence[Op]], around: Mapping[Place, Op | None]) -> None:
        """`blocks`: outer ones first, each with what a walk has to look at; `around`: the operation around each."""
        self.placed: dict[Place, frozenset[str]] = {}
        self.whole = {block: Part([*ops, block]) for block, ops in blocks.items()}
        self.holding: dict[Place, Part] = {}
        self._fences: frozenset[Fence] = frozenset()
        self._numbers: dict[object, int] = {}
        for part in self.whole.values():
            self._hold(part)
        for block, part in self.whole.items():
            outer = around[block]
            if outer in self.holding:
                part.around = self.holding[outer]
                part.around.inner.append(part)
        for part in reversed(self.whole.values()):
            self._count(part)

    def _hold(self, part: Part) -> None:
        self.holding.update(dict.fromkeys(part.places, part))
        for half in part.halves:
            self._hold(half)

    def _count(self, part: Part) -> None:
        for half in part.halves:
            self._count(half)
        part.number = self._number(part)

    def _number(self, part: Part) -> int:
        fences = tuple([self.placed.get(place) for place in part.places])
        inside = tuple([other.number for other in (*part.halves, *part.inner)])
        return self._numbers.setdefault((part, fences, inside), len(self._numbers))

    def change(self, fences: frozenset[Fence]) -> None:
        """These fences stand now."""
        changed = fences ^ self._fences
        self._fences = fences
        for place, kind in changed:
            self.placed[place] = self.placed.get(place, frozenset()) ^ {kind}
            if not self.placed[place]:
                del self.placed[place]
            part = self.holding.get(place)
            while part is not None:
                number, part.number = part.number, self._number(part)
                part = part.around if number != part.number else None

    def inside(self, op: Op) -> tuple[int, ...]:
        """Says which fences stand inside of an operation."""
        return tuple([self.whole[region].number for region in op.regions])
