"""Scopes: to whom a strong operation speaks (PTX ISA 8.0, chapter 8: "Scope", "Morally Strong Operations", "Release and
Acquire Patterns").

A release and an acquire synchronise only if each one's scope has the other one's thread in it; the same goes for the
accesses by which the one learns of the other, and for two strong accesses that are not to be a race:

    distance between threads    0 the same CTA, 1 another CTA of the cluster, 2 another CTA of the launch
    scope of an operation       0 .cta, 1 .cluster, 2 .gpu, 3 .sys; it reaches whom no greater distance is between

CTAs are numbered by their position in the launch, so that those of a cluster are neighbours.
"""

from __future__ import annotations

from ...core.scalars import Array
from ..syntax import Instruction
from .clocks import Row

WEAK, CTA, CLUSTER, GPU, SYS = -1, 0, 1, 2, 3
_NAMES = {"cta": CTA, "cluster": CLUSTER, "gpu": GPU, "gl": GPU, "sys": SYS}
_DEFAULTS = {"atom": GPU, "red": GPU, "mbarrier": CTA}


def scope_of(ins: Instruction) -> int:
    """The scope of a strong access, a fence or an operation on an mbarrier: what it names, else its default."""
    if "volatile" in ins.mods or "mmio" in ins.mods:  # as relaxed in the widest scope
        return SYS
    return next((_NAMES[mod] for mod in ins.mods if mod in _NAMES), _DEFAULTS.get(ins.name, SYS))


def distance(cta: int, other: int, cluster: int) -> int:
    """Between threads of two CTAs of a launch with clusters of so many."""
    return CTA if cta == other else CLUSTER if cta // cluster == other // cluster else GPU


def distances(cta: Array, other: Array, cluster: int) -> Array:
    """The same, pair by pair."""
    result: Array = (cta != other).astype(int) + (cta // cluster != other // cluster)
    return result


class Releases:
    """What has been released at one place, by threads of which CTA and in which scope."""

    __slots__ = ("rows", "writer")

    def __init__(self, writer: int = -1) -> None:
        self.rows: dict[tuple[int, int], Row] = {}
        self.writer = writer  # for callers that keep it: the thread that wrote the place last

    def add(self, cta: int, scope: int, row: Row) -> None:
        """One more release, by threads of this CTA. The row is kept, and changed by later ones."""
        known = self.rows.get((cta, scope))
        if known is None:
            self.rows[cta, scope] = row
        else:
            known.merge(row)

    def take(self, other: Releases) -> None:
        """All that another one has, which is given up."""
        for (cta, scope), row in other.rows.items():
            self.add(cta, scope, row)

    def heard(self, cta: int, scope: int, cluster: int) -> list[tuple[int, Row]]:
        """(distance, what was released) of those that synchronise with a thread of this CTA, which looks in this
        scope."""
        found = [(distance(cta, other, cluster), released, row) for (other, released), row in self.rows.items()]
        return [(far, row) for far, released, row in found if far <= min(scope, released)]

    def unheard(self, cta: int, scope: int, cluster: int) -> list[Row]:
        """What was released by the others."""
        found = [(distance(cta, other, cluster), released, row) for (other, released), row in self.rows.items()]
        return [row for far, released, row in found if far > min(scope, released)]
