"""Runs that a bound or a mask may cut: one wide access where all of a run is inside, else its elements one by one.

    load %X[%row, %j] by 8, N columns      %whole = cmp %j + 7, N {lt}          for each run, in registers
                                           %x = load_mem … {width = 8}          under %whole
                                    →      %cut = cmp %j, N {lt} and not %whole
                                           %y = if any %cut { %e = load_mem … {width = 1}    under %cut, each %j + k < N
                                                              yield select %cut, %e, %x
                                                            } orelse { yield %x }

One row has one cut run, that of one thread, so that one warp in many takes the branch; the wide loads of all are on
their way before. The same for stores, without the select. Whether a run is cut follows from its ends, where bounds and
masks hold of an interval along it (`Masks.sides`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from minitile.ir.core import Value
from minitile.ir.ops import arith
from minitile.lowering.accesses import Addresses, Coord, GuardBuilder, Guards
from minitile.lowering.context import Lowering


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """some: whether any run of the thread is cut. runs: which are, one register for each. elements(): the addresses of
    all elements, None where they follow each other, and their predicates, true in runs that are cut only; it emits where
    it is called."""

    some: Value
    runs: Value
    elements: Callable[[], tuple[Addresses | None, Guards]]


@dataclass(frozen=True, slots=True, eq=False)
class RunMask:
    """A mask over runs: its registers, those of each run in order, of which each `alike` neighbours are equal; and on
    how many `sides` of a run it may end."""

    value: Value
    registers: tuple[tuple[int, ...], ...]
    alike: int
    sides: int

    def ends(self, low: Lowering) -> tuple[Value, Value]:
        """Of the first and the last elements."""
        return tuple(low.pick(self.value, [run[n] for run in self.registers]) for n in (0, -1))  # type: ignore[return-value]

    def somewhere(self, low: Lowering) -> Value:
        """Whether it holds of any element of each run."""
        width = len(self.registers[0])
        places = (0, width - 1) if self.sides <= 1 else range(0, width, self.alike)
        found = [low.pick(self.value, [run[n] for run in self.registers]) for n in places]
        for other in found[1:]:
            found[0] = low.b.value(arith.Or(found[0], other))
        return found[0]


def cut_guards(
    low: Lowering, guards: GuardBuilder, runs: Sequence[Coord], fast: int, width: int, mask: RunMask | None
) -> tuple[Guards, Cut | None]:
    """The predicates under which runs, that start at these offsets, are accessed as a whole, and those which are cut;
    None where none ever is."""
    b, count = low.b, len(runs)
    every = tuple(range(count))
    last = tuple(width - 1 if d == fast else 0 for d in range(len(runs[0])))
    whole = _registers(low, guards.finish(runs, upper=last), count)
    touched = _registers(low, guards.finish(runs, lower=last), count)
    if mask is not None:
        first_end, last_end = mask.ends(low)
        whole = _both(low, whole, b.value(arith.And(first_end, last_end)))
        touched = _both(low, touched, mask.somewhere(low))
    if whole is None or touched is None:
        return Guards(None, ()), None
    cut = b.value(arith.And(touched, b.value(arith.Not(whole))))
    some = any_of(low, [low.pick(cut, (n,)) for n in every])

    def elements() -> tuple[Addresses | None, Guards]:
        places = [tuple(o + (k if d == fast else 0) for d, o in enumerate(at)) for at in runs for k in range(width)]
        found = _registers(low, guards.finish(places), len(places))
        if mask is not None:
            found = _both(low, found, low.pick(mask.value, [r for run in mask.registers for r in run]))
        spread = low.pick(cut, [n for n in every for _ in range(width)])
        found = spread if found is None else low.b.value(arith.And(spread, found))
        return None, Guards(found, tuple(range(len(places))))

    return Guards(whole, every), Cut(some, cut, elements)


def any_of(low: Lowering, conditions: Sequence[Value]) -> Value:
    """Whether any of these single ones holds."""
    return reduce(lambda a, b: low.b.value(arith.Or(a, b)), conditions)


def _registers(low: Lowering, guards: Guards, count: int) -> Value | None:
    """One register for each access."""
    return None if guards.value is None else low.pick(guards.value, guards.index)


def _both(low: Lowering, a: Value | None, b: Value) -> Value:
    return b if a is None else low.b.value(arith.And(a, b))
