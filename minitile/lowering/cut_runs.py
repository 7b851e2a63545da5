"""Runs that a bound or a mask may cut: one wide access where all of a run is inside, else its elements one by one.

    load %X[%row, %j] by 8, N columns      %whole = cmp %j + 7, N {lt}          for each run, in registers
                                           %x = load_mem … {width = 8}          under %whole
                                    →      %cut = cmp %j, N {lt} and not %whole
                                           while any %cut: the first of these runs
                                             %e = load_mem … {width = 1}        at its address, under each %j + k < N
                                             %x = select it, %e, %x

One row has one cut run, that of one thread, so that one warp in many has a turn of the loop; the wide loads of all are
on their way before. The same for stores, whose turn selects what it stores. So all runs of a thread have one set of
accesses by elements together. Whether a run is cut follows from its ends, where bounds and masks hold of an interval
along it (`Masks.sides`). Under a mask, whose elements differ from run to run, each run has its own, behind a branch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from minitile.ir.core import Block, Value
from minitile.ir.ops import arith, control, thread
from minitile.ir.types import i32, i64
from minitile.lowering.accesses import Addresses, Coord, GuardBuilder, Guards
from minitile.lowering.context import Lowering

MOST_RUNS = 31  # of a thread: one bit each
FAR = 1 << 30  # behind all places of a tile


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """runs: which of the thread's runs are cut, one register for each. ends: what of each is inside; else elements():
    the addresses of all elements, None where they follow each other, and their predicates, true in runs that are cut
    only; it emits where it is called."""

    runs: Value
    elements: Callable[[], tuple[Addresses | None, Guards]]
    ends: Ends | None = None

    def some(self, low: Lowering) -> Value:
        """Whether any run is cut."""
        count = thread.count_of(self.runs.type)
        return any_of(low, [low.pick(self.runs, (n,)) for n in range(count)])


@dataclass(frozen=True, slots=True, eq=False)
class Ends:
    """Of each run: element k is inside where  low - at <= k < high - at  for the numbers here, one for each run; `low`
    None: from the first one on. Those with  k < turn - at  are `jump` elements further on."""

    at: tuple[int, ...]
    high: tuple[Value, ...]
    low: tuple[Value, ...] | None = None
    turn: tuple[Value, ...] | None = None
    jump: int = 0


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
        return any_of(low, [low.pick(self.value, [run[n] for run in self.registers]) for n in places])


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

    def elements() -> tuple[Addresses | None, Guards]:
        places = [tuple(o + (k if d == fast else 0) for d, o in enumerate(at)) for at in runs for k in range(width)]
        found = _registers(low, guards.finish(places), len(places))
        if mask is not None:
            found = _both(low, found, low.pick(mask.value, [r for run in mask.registers for r in run]))
        spread = low.pick(cut, [n for n in every for _ in range(width)])
        found = spread if found is None else low.b.value(arith.And(spread, found))
        return None, Guards(found, tuple(range(len(places))))

    return Guards(whole, every), Cut(cut, elements, None if mask is not None else _ends(low, guards, runs, fast))


def _ends(low: Lowering, guards: GuardBuilder, runs: Sequence[Coord], fast: int) -> Ends | None:
    """What bounds say of runs; None where they say nothing of the elements of a run."""
    limits: dict[str, list[Value]] = {"lt": [], "ge": []}
    for d, predicate, limit in guards.checks:
        if d == fast:
            limits[predicate].append(short(low, limit))
    if not limits["lt"] or len(runs) > MOST_RUNS:
        return None
    every = range(len(runs))
    high = reduce(low.b.min, limits["lt"])
    least = reduce(low.b.max, limits["ge"]) if limits["ge"] else None
    at = tuple(at[fast] for at in runs)
    return Ends(at, tuple(high for _ in every), None if least is None else tuple(least for _ in every))


def short(low: Lowering, limit: Value) -> Value:
    """A limit of places in a tile in 32 bits: what is far outside is outside all the same."""
    return limit if limit.dtype is i32 else low.b.cast(low.b.min(low.b.max(limit, -FAR), FAR), i32)


def any_of(low: Lowering, conditions: Sequence[Value]) -> Value:
    """Whether any of these holds: of registers, of each."""
    return _tree(low, arith.Or, conditions)


def all_of(low: Lowering, conditions: Sequence[Value]) -> Value:
    """Whether all of these hold."""
    return _tree(low, arith.And, conditions)


def _tree(low: Lowering, kind: type[arith.Binary], values: Sequence[Value]) -> Value:
    """All values in one, by halves: of thousands no chain comes about that passes would descend value by value."""
    if len(values) == 1:
        return values[0]
    half = (len(values) + 1) // 2
    return low.b.value(kind(_tree(low, kind, values[:half]), _tree(low, kind, values[half:])))


def _registers(low: Lowering, guards: Guards, count: int) -> Value | None:
    """One register for each access."""
    return None if guards.value is None else low.pick(guards.value, guards.index)


def _both(low: Lowering, a: Value | None, b: Value) -> Value:
    return b if a is None else low.b.value(arith.And(a, b))


# One by one -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """One run that is cut: which of them it is, one bool each, and the accesses of its elements."""

    mine: tuple[Value, ...]
    addresses: Addresses
    guards: Guards


def in_turn(
    low: Lowering,
    cut: Cut,
    addresses: Addresses,
    width: int,
    bytes_: int,
    carried: tuple[Value, ...],
    visit: Callable[[Turn, tuple[Value, ...]], tuple[Value, ...]],
) -> tuple[Value, ...]:
    """A loop over the runs that are cut: what `visit` makes of the carried values in each turn. `addresses`: of the
    runs, of so many elements."""
    b, ends = low.b, cut.ends
    assert ends is not None
    count = len(ends.at)
    flags = [b.select(low.pick(cut.runs, (n,)), b.constant(1 << n), b.constant(0)) for n in range(count)]
    left = any_of(low, flags)  # bits
    before, body = Block(), Block()
    passed = [before.add_arg(v.type, v.name) for v in (left, *carried)]
    with b.inside(before):
        b.emit(control.Condition(b.compare("ne", passed[0], 0), tuple(passed)))
    left_now, *now = [body.add_arg(v.type, v.name) for v in (left, *carried)]
    with b.inside(body):
        first = b.value(arith.And(left_now, b.value(arith.Neg(left_now))))
        mine = tuple(b.compare("eq", first, 1 << n) for n in range(count))
        turn = _turn(low, ends, mine, addresses, width, bytes_)
        b.emit(control.Yield((b.value(arith.Xor(left_now, first)), *visit(turn, tuple(now)))))
    return b.emit(control.While((left, *carried), before=before, body=body)).results[1:]


def chosen(low: Lowering, mine: Sequence[Value], values: Sequence[Value]) -> Value:
    """Of values, one for each run, that of the run whose turn it is."""
    result = values[0]
    for condition, value in zip(mine[1:], values[1:], strict=True):
        result = result if value is values[0] and result is value else low.b.select(condition, value, result)
    return result


def _turn(low: Lowering, ends: Ends, mine: tuple[Value, ...], addresses: Addresses, width: int, bytes_: int) -> Turn:
    b = low.b
    bases = [low.pick(addresses.value, (n,)) for n in addresses.index]
    places = [b.constant(n) for n in addresses.offsets]
    address = b.add(chosen(low, mine, bases), b.cast(chosen(low, mine, places), i64))
    at = chosen(low, mine, [b.constant(n) for n in ends.at])
    high = b.sub(chosen(low, mine, ends.high), at)
    least = None if ends.low is None else b.sub(chosen(low, mine, ends.low), at)
    turn = None if ends.turn is None else b.sub(chosen(low, mine, ends.turn), at)
    inside, values = [], []
    for k in range(width):
        number, top, place = b.constant(k), high, address
        if turn is not None:
            before = b.value(arith.Cmp(number, turn, "lt"))
            top = b.select(before, b.sub(high, ends.jump), high)
            place = b.select(before, b.add(address, ends.jump * bytes_), address)
        here = b.value(arith.Cmp(number, top, "lt"))
        inside.append(here if least is None else b.and_(here, b.value(arith.Cmp(number, least, "ge"))))
        values.append(place)
    every = tuple(range(width))
    offsets = tuple(k * bytes_ for k in every)
    found = Addresses(address, (0,) * width, offsets) if turn is None else Addresses(low.concat(values), every, offsets)
    return Turn(mine, found, Guards(low.concat(inside), every))
