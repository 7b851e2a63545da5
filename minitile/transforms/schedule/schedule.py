"""A schedule of a loop, as data.

    for %lo, %hi, 1 {order = (-1, 0, 2, 1), stage_of = (-1, 0, 0, 1)} (%k: i32) {
      statement {number = 0} … copies                          entry 0: goes ahead, however far versions allow
      statement {number = 1} … a product                       entry 1: (stage 0, order 0)
      statement {number = 2} … what is made of it              entry 2: (stage 0, order 2)
      statement {number = 3} … a product of an iteration before  entry 3: (stage 1, order 1)

The new loop runs in *turns*. An entry of stage s runs iteration t - s in turn t, in the order of `order`. So what comes
of A is there for B of the iteration that is `distance` later if (stage A, order A) < (stage B + distance, order B):
that is the whole of what `verify` checks (verify.py), and what `expand` relies on.

Entries are numbered by the `statement` marks of the body; what a user writes as order= and stage= is this attribute, of
any number of stages. Passes that find a schedule themselves give each operation a place of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from minitile.ir.core import Op
from minitile.ir.ops import control, thread

AHEAD = -1  # both order and stage of an entry of copies that go ahead
ENDS = ("peeled", "guarded", "kept", "clamped")
STEADY = "steady"  # how a step ends that is in the steady loop alone


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where an operation runs.

    stage   turns behind the turn in which its iteration begins; negative: ahead of it
    order   its place in the turn
    end     where its iteration is none: "peeled", it is not written there; "guarded", it stands under a condition, and
            what it makes is a token that is complete, or zeros; "kept", it runs on what is there; "clamped", in front
            of the loop it is guarded, and in it kept, with this iteration's slot of a buffer where no other follows
    """

    stage: int
    order: int
    end: str = "peeled"

    @property
    def ahead(self) -> bool:
        return self.order == AHEAD


class Step(NamedTuple):
    """An operation of a turn, its stage, and how it ends."""

    op: Op
    stage: int = 0
    end: str = "peeled"


Line = list[Step]  # a turn, in order


def computed_anywhere(op: Op) -> bool:
    """Whether an operation of thread IR is computed where it is needed: a product is pure, and has a place."""
    return op.pure and not isinstance(op, thread.MmaSync)


@dataclass(frozen=True, slots=True)
class Schedule:
    """A loop's schedule.

    places     for each entry of the loop
    versions   of the buffers that copies ahead fill: so many iterations' copies are there at once
    unroll     turns that one round of the new loop has; 0: as many as products that are in flight need registers
    """

    places: tuple[Place, ...]
    versions: int = 1
    unroll: int = 0

    @property
    def stages(self) -> int:
        """How many stages there are, but for those of copies ahead."""
        own = [place.stage for place in self.places if not place.ahead]
        return max(own) - min(own) + 1 if own else 1

    def normal(self) -> Schedule:
        """The same, its least stage 0."""
        least = min((place.stage for place in self.places if not place.ahead), default=0)
        shifted = tuple(p if p.ahead else replace(p, stage=p.stage - least) for p in self.places)
        return replace(self, places=shifted)

    def with_ahead(self, entries: set[int]) -> Schedule:
        """The same with these entries going ahead."""
        places = tuple(Place(AHEAD, AHEAD) if n in entries else place for n, place in enumerate(self.places))
        return replace(self, places=places)

    def put(self, loop: control.For) -> None:
        """Make it the loop's own."""
        loop.order = tuple([place.order for place in self.places])
        loop.stage_of = tuple([place.stage for place in self.places])
        loop.stages = self.versions


def schedule_of(loop: control.For) -> Schedule | None:
    """The schedule that a loop's attributes say; None where they say none."""
    if loop.order is None or loop.stage_of is None:
        return None
    places = tuple([Place(stage, order) for stage, order in zip(loop.stage_of, loop.order, strict=True)])
    return Schedule(places, loop.stages)


def forget(loop: control.For) -> None:
    """The loop is written by its schedule now."""
    loop.kind, loop.stages, loop.order, loop.stage_of = "serial", 1, None, None
