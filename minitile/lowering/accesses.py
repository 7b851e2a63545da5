"""What memory accesses are made of: places, addresses, and predicates: inside the tensor, inside the tile, where the
mask says so, by one thread of several.

A *run* is what one access moves, neighbours along the memory's contiguous dimension. A condition of an element is
`offset < limit` or `offset >= limit` with limits of the thread, so that of a run it holds

    all over      where it holds at both ends
    somewhere     where it holds at one end at least

(`GuardBuilder.finish` with `lower` and `upper`: where in a run the conditions of either kind are asked.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from minitile.analysis.affine import Affine
from minitile.ir.core import Value
from minitile.ir.ops import arith
from minitile.ir.types import DType, i32, i64
from minitile.layout import Layout
from minitile.lowering.context import Lowering

Coord = tuple[int, ...]
_I32 = 1 << 31


@dataclass(frozen=True, slots=True)
class Place:
    """Where in one memory dimension a thread's accesses start: scalars of the program plus a value of the thread.
    `reach` is how far thread and constant offsets may lead from `start`, `bits` which bits of the sum may be set."""

    start: Affine
    thread: Value | None
    reach: int
    bits: int


@dataclass(frozen=True, slots=True)
class Addresses:
    """`values` are few; access n goes to values[index[n]] + offsets[n]."""

    value: Value
    index: tuple[int, ...]
    offsets: tuple[int, ...]

    def of_elements(self, width: int, bytes_: int) -> Addresses:
        """Of the elements, of so many bytes, of accesses that have `width` of them."""
        index = tuple(n for n in self.index for _ in range(width))
        return Addresses(self.value, index, tuple(n + k * bytes_ for n in self.offsets for k in range(width)))


@dataclass(frozen=True, slots=True)
class Guards:
    """Predicate of access n: value[index[n]]; value None: no access needs one."""

    value: Value | None
    index: tuple[int, ...]


# Indices that 32 bits may not hold -----------------------------------------------------------------------------------


def index_dtype(low: Lowering, *numbers: Affine) -> DType:
    """i64 where 32 bits may not hold a start or a size, or the sums that are made of it: cut off, an index far outside
    would be one inside. In a kernel that is not wide they hold what comes from dimensions and block indices
    (index_widths.py). Where loaded numbers are summed up here, that was in 64 bits: i32 sums of them wrap, and are
    atoms."""
    return i32 if all(_is_short(low, a) for a in numbers) else i64


def _is_short(low: Lowering, a: Affine) -> bool:
    if low.facts.bounded:
        return low.facts.fits(a)
    parts = a.atoms()
    numbers = (a.const, *a.terms.values())
    if a.terms and not any(v.dtype.bits == 64 for v in parts) and all(-_I32 <= n < _I32 for n in numbers):
        alone = len(a.terms) == len(parts) == 1 and numbers == (0, 1)
        if alone or all(map(low.facts.is_index, parts)):
            return True
    least, most = low.facts.interval(a)
    return least is not None and most is not None and 2 * least >= -_I32 and 2 * most < _I32


def may_wrap(low: Lowering, start: Affine) -> bool:
    """Whether a loaded start of 32 bits may be so large that with the place in the tile it is negative."""
    most = low.facts.interval(start)[1]
    return not all(map(low.facts.is_index, start.atoms())) and (most is None or 2 * most >= _I32)


# Predicates ----------------------------------------------------------------------------------------------------------


class GuardBuilder:
    """Collects the conditions under which accesses happen; equal ones are computed once."""

    def __init__(self, low: Lowering) -> None:
        self.low = low
        self.always: list[Value] = []  # for every access alike
        self.checks: list[tuple[int, str, Value]] = []  # memory dimension, predicate, limit: offset `predicate` limit

    def bounds(
        self,
        tensor: Value,
        where: Sequence[Place],
        below_for_sure: Sequence[int] = (),
        above_for_sure: Sequence[int] = (),
    ) -> None:
        """Index inside the tensor; in some dimensions that is known."""
        low, b = self.low, self.low.b
        for d, place in enumerate(where):
            size = low.facts.size(tensor, d)
            below = d in below_for_sure or low.facts.less(place.start + place.reach, size)
            dtype = index_dtype(low, place.start, size)
            above = d in above_for_sure or low.facts.nonnegative(place.start)
            if below and above:
                continue
            at = low.emit(place.start, dtype)
            if place.thread is not None:
                if above and dtype is i32 and may_wrap(low, place.start):
                    at = b.min(at, low.emit(size))  # from there on, all is outside
                at = b.add(at, b.cast(place.thread, dtype))
            if not below:
                self.checks.append((d, "lt", b.sub(low.emit(size, dtype), at)))
            if not above:
                self.checks.append((d, "ge", b.sub(b.constant(0, dtype), at)))

    def overhang(self, layout: Layout) -> None:
        for d, (extent, size) in enumerate(zip(layout.extents, layout.shape, strict=True)):
            base = self.low.thread_coord(layout, d)
            if extent > size:
                limit = self.low.b.constant(size)
                self.checks.append((d, "lt", limit if base is None else self.low.b.sub(limit, base)))

    def finish(self, offsets: Sequence[Coord], lower: Coord | None = None, upper: Coord | None = None) -> Guards:
        """The predicates of accesses at these offsets. Of a run that starts there: `lower` and `upper` lead to the
        elements that the conditions `>=` and `<` are asked of."""
        if not self.checks and not self.always:
            return Guards(None, ())
        b = self.low.b
        single: dict[tuple[int, int], Value] = {}
        joined: dict[Coord, int] = {}
        values: list[Value] = []
        index = []
        for at in offsets:
            key = tuple(at[d] + _moved(lower if predicate == "ge" else upper, d) for d, predicate, _ in self.checks)
            if key not in joined:
                terms = list(self.always)
                for n, (place, (_, predicate, limit)) in enumerate(zip(key, self.checks, strict=True)):
                    if (n, place) not in single:
                        single[n, place] = b.value(arith.Cmp(b.constant(place, limit.dtype), limit, predicate))
                    terms.append(single[n, place])
                total = terms[0]
                for term in terms[1:]:
                    total = b.and_(total, term)
                joined[key] = len(values)
                values.append(total)
            index.append(joined[key])
        return Guards(self.low.concat(values), tuple(index))


def _moved(by: Coord | None, d: int) -> int:
    return 0 if by is None else by[d]
