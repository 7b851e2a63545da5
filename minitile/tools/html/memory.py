"""The shared memory of a block: which bytes each buffer has, when it needs them, and with which others it shares them.

Time is the order of the program, counted in operations of the thread IR in front of the pass that places the buffers:
a buffer that is used in a loop lives through all of it. The places are those that the pass has given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from minitile.ir.core import Kernel, Op
from minitile.ir.diagnostics import Location
from minitile.ir.ops import control
from minitile.transforms.sync.allocate_shared_memory import Life, walk_lives


@dataclass
class Lives:
    """The buffers of a kernel before they are placed; `ops` by number, `loops` as (name, location, first, last)."""

    lives: list[Life] = field(default_factory=list)
    loops: list[tuple[str, Location | None, int, int]] = field(default_factory=list)
    locations: dict[int, Location | None] = field(default_factory=dict)
    operations: int = 0


@dataclass
class Buffer:
    """Bytes `offset` to `end`: `versions` of `version_bytes` each. Lives from operation `first` to `last`; `places`
    are those of its allocation and of its first and last use. `shares`: the names of buffers with some of its bytes."""

    name: str
    offset: int
    version_bytes: int
    versions: int
    what: str
    first: int
    last: int
    places: tuple[int | None, int | None, int | None]
    shares: list[str] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.offset + self.versions * self.version_bytes


@dataclass
class MemoryMap:
    """The buffers, of `total` bytes together, over `operations`; loops as (name, place, first, last)."""

    buffers: list[Buffer]
    loops: list[tuple[str, int | None, int, int]]
    total: int
    operations: int


def lives_in(kernel: Kernel | None) -> Lives:
    """When the buffers of a kernel live whose places are not yet given; of no kernel, none."""
    if kernel is None:
        return Lives()
    walk = walk_lives(kernel)
    loops = [
        (_name(op), op.loc, *walk.spans[op])
        for op in kernel.walk()
        if isinstance(op, control.Loop) and op in walk.spans
    ]
    starts = {first: op.loc for op, (first, _) in walk.spans.items()}
    return Lives([life for life in walk.lives.values() if life.last >= 0], loops, starts, walk.number)


def _name(op: Op) -> str:
    return f"for {op.iv.name}" if isinstance(op, control.For) and op.iv.name else op.mnemonic


def memory_map(lives: Lives, total: int, at: Callable[[Location | None], int | None]) -> MemoryMap:
    """The map, once the buffers have their places; `at` gives the number of a place in the source."""
    buffers = []
    taken: dict[str, int] = {}
    for life in lives.lives:
        alloc, kind = life.alloc, life.alloc.type_
        shape = "×".join(map(str, kind.shape))
        kept = life.sent and not life.given_up  # what a pipeline hands over is in use at any time
        first, last = (1, lives.operations) if kept else (max(1, life.first), life.last)
        uses = (at(lives.locations.get(life.first)), at(lives.locations.get(life.last)))
        name = alloc.result.name or "scratch"
        taken[name] = taken.get(name, -1) + 1
        name += f"_{taken[name]}" if taken[name] else ""
        buffers.append(
            Buffer(
                name,
                alloc.offset or 0,
                alloc.version_bytes,
                kind.versions,
                f"{shape} {kind.dtype}",
                first,
                last,
                (at(alloc.loc), *uses),
            )
        )
    for one in buffers:
        one.shares = [o.name for o in buffers if o is not one and one.offset < o.end and o.offset < one.end]
    loops = [(name, at(loc), first, last) for name, loc, first, last in lives.loops]
    return MemoryMap(sorted(buffers, key=lambda b: (b.offset, b.first)), loops, total, lives.operations)
