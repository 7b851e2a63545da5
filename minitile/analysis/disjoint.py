"""Proofs that different threads reach different memory: what is asked before two accesses are a conflict.

    if %t < %n {                                 rows 0 and 1 never meet
      store P[0, %t] ; store P[1, %t]
    }
    for %k = %t to %n step 32 {                  32 threads: of the same %k is the same thread
      store P[%k, 0] ; … load P[%k, 1]
    }
    if %t < %s { … load S[%t + %s] ; store S[%t] }       below %s and not below it

A `Reach` says where an access goes: per dimension a polynomial (of an index; in shared memory also of each of a few
byte addresses) and how many units from there on. Two accesses by different threads overlap only if all dimensions, or
two addresses, agree for some pair of threads. In the difference of two polynomials

thread's numbers  what is computed from the thread's index alone is a list of numbers, one a thread: compared pair by
                  pair
shared            what is the same for both accesses falls out
free              whatever else (other iterations, values loaded) is a multiple of its factor, within bounds if any are
                  known. Small ones with bounds widen the window in which two places meet, the others leave it modulo
                  their common divisor: of  %t - %t' + 32*m  in a window of 1, only the same thread's is left.

Where that fails, one access may lie below all of the other by the conditions around both (the third example): each has
its own copy of what differs between threads, and `Facts` is asked. All answers are one-sided: False is "not known".
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Set
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from minitile.analysis.affine import Affine, Bounds, Facts
from minitile.analysis.conditions import claims, conjuncts
from minitile.hardware import BLOCK_THREADS
from minitile.ir.builder import ARRAYS, COMPARE, DIVISIONS, constant_of
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.effects import Access
from minitile.ir.ops import arith, control, fences, thread
from minitile.ir.types import BufferType, RegsType

Numbers = npt.NDArray[np.int64]
Condition = tuple[Value, bool]  # a bool, and what it is
Dimension = tuple[Affine, int]  # from where on, and how many units
Dimensions = tuple[Dimension, ...]
Free = tuple[int, int | None, int | None]  # a factor, and the bounds of what it multiplies; None: none known
Window = tuple[int, int, int]  # from one number to before another, and that moved by any multiple of the third one
Shared = tuple[frozenset[tuple[tuple[Value, ...], int]], ...]
_PLACES = 4  # addresses of an access that are told apart
_CHOICES = 64  # numbers of values that all threads share


@dataclass(frozen=True, slots=True)
class Extent:
    """Where an access of all threads lies: in each dimension in a window on top of what is the same for all of
    them (`shared`: the terms of a polynomial)."""

    shared: Shared
    windows: tuple[Window, ...]


@dataclass(frozen=True, slots=True)
class Reach:
    """Where an access goes: by indices of dimensions, and in shared memory by addresses (`bytes`: by each of them; the
    pieces of a swizzled row have addresses of their own). `own`: values that the other access does not share, since
    they may be another iteration's; `earlier`: loop variables that were less by some steps then; `under`: conditions
    that hold."""

    dims: tuple[Dimension, ...]
    bytes: tuple[Dimension, ...] = ()
    own: frozenset[Value] = frozenset()
    earlier: frozenset[tuple[Value, Affine]] = frozenset()
    under: tuple[Condition, ...] = ()
    threads: Threads | None = field(default=None, compare=False, repr=False)

    def __hash__(self) -> int:
        return hash(self.dims)

    def apart(self, other: Reach) -> bool:
        """Whether no two different threads reach the same place, one by this access and one by the other."""
        return self.threads is not None and self.threads.apart(self, other)

    def back(self, iv: Value | None, step: Affine | None, local: Set[Value]) -> Reach:
        """As of an earlier iteration, in this one's terms; without iv, of any iteration."""
        mine = self.values()
        own = (mine & local) - self.own
        earlier = self.earlier
        if iv is not None and step is not None and iv in mine and iv not in self.own:
            own -= {iv}
            earlier |= {(iv, step)}
        elif own:
            earlier = frozenset([e for e in earlier if e[0] not in own])
        if not own and earlier == self.earlier:
            return self
        return replace(self, own=self.own | own, earlier=earlier)

    def moved(self, values: Any) -> Reach:
        """With loop variables replaced; what is computed from them otherwise keeps its name."""
        dims, places = ([(at.substitute(values), size) for at, size in form] for form in (self.dims, self.bytes))
        return replace(self, dims=tuple(dims), bytes=tuple(places))

    def values(self) -> set[Value]:
        """All that it is computed from."""
        assert self.threads is not None
        found = {v for at, _ in (*self.dims, *self.bytes) for v in at.atoms()}
        for condition, _ in self.under:
            found |= self.threads.behind(condition)
        return found


class Threads:
    """What a kernel's threads reach."""

    def __init__(self, kernel: Kernel, facts: Facts) -> None:
        self.facts = facts
        self.count = int(kernel.attrs.get("threads", BLOCK_THREADS)) + int(kernel.attrs.get("producer_threads", 0))
        self.known: dict[Value, Numbers | None] = {}
        self.places: dict[Value, Affine] = {}
        self.answers: dict[tuple[Reach, Reach], bool] = {}
        self.extents: dict[Reach, Extent | None] = {}
        self.gaps: dict[tuple[Shared, Shared], tuple[Window, ...]] = {}
        self.conditions: dict[Value, set[Value]] = {}
        self.under: dict[Op, tuple[Condition, ...]] = {}
        self.owners: dict[Block, Op] = {}
        self.block_of: dict[Op, Block] = {}
        self.said: dict[Op, tuple[fences.Disjoint, ...]] = {}
        self._walk(kernel.body, (), ())

    def _walk(self, block: Block, under: tuple[Condition, ...], said: tuple[fences.Disjoint, ...]) -> None:
        for op in block.ops:
            self.block_of[op] = block
            if isinstance(op, fences.Disjoint):
                said = said[:-1] if op.end else (*said, op)
            if said:
                self.said[op] = said
            if under:
                self.under[op] = under
            for n, region in enumerate(op.regions):
                self.owners[region] = op
                inner = under
                if isinstance(op, control.If) and not self.facts.uniform(op.condition):
                    inner = (*under, (op.condition, n == 0))
                elif isinstance(op, control.While) and region is op.body:
                    end = op.before.terminator
                    assert isinstance(end, control.Condition)
                    inner = (*under, (end.flag, True))
                self._walk(region, inner, said)

    def words(self, op: Op, access: Access) -> frozenset[Value]:
        """Those of the program by which no other thread's access goes where this one does."""
        return frozenset([word.result for word in self.said.get(op, ()) if access.mem in word.mems])

    def coming(self, op: Op) -> npt.NDArray[np.bool_] | None:
        """The threads that come to an operation, where that is known."""
        found = np.ones(self.count, np.bool_)
        for condition, holds in self.under.get(op, ()):
            numbers = self.numbers(condition)
            if numbers is None:
                return None
            found &= (numbers != 0) == holds
        return found

    def told(self, reach: Reach | None) -> bool:
        """Whether something that is loaded, or that an atomic gave, says where each thread goes."""
        atoms = {v for at, _ in (*reach.dims, *reach.bytes) for v in at.atoms()} if reach is not None else set()
        return any(self.varies(v) and v.op is not None and self.numbers(v) is None for v in atoms)

    def comes_to(self, op: Op, other: Op) -> bool:
        """Whether each thread that comes to `op` comes to the block of `other` as well, in the same iteration."""
        block: Block | None = self.block_of[op]
        while block is not None and block is not self.block_of[other]:
            owner = self.owners.get(block)
            block = None if owner is None else self.block_of.get(owner)
        return block is not None

    # Numbers of threads ----------------------------------------------------------------------------------------------

    def numbers(self, v: Value) -> Numbers | None:
        """The number that each thread holds, where the thread's index alone says so (bools are 0 and 1)."""
        if v not in self.known:
            self.known[v] = None
            self.known[v] = self._numbers(v)
        return self.known[v]

    def _numbers(self, v: Value) -> Numbers | None:
        op = v.op
        if isinstance(op, arith.Constant) and isinstance(op.value, (int, bool)):
            return np.full(self.count, int(op.value), np.int64)
        if op is not None and (group := op.counts_threads()) is not None:
            return np.arange(self.count, dtype=np.int64) // group
        if not isinstance(op, (arith.Binary, arith.Cmp, arith.Cast, arith.Select, arith.Not, arith.Neg)):
            return None
        if any(isinstance(o.type, RegsType) or o.dtype.is_float or o.dtype.bits > 32 for o in (*op.operands, v)):
            return self._wide(op, v)
        parts = [self.numbers(o) for o in op.operands]
        if any(p is None for p in parts):
            return None
        found: Numbers | None = _wrapped(_compute(op, parts), v)
        return found

    def _wide(self, op: Op, v: Value) -> Numbers | None:
        """Of 64 bits: sums and products of small numbers only."""
        if any(isinstance(o.type, RegsType) or o.dtype.is_float for o in (*op.operands, v)):
            return None
        parts = [self.numbers(o) for o in op.operands]
        if any(p is None or np.abs(p).max(initial=0) >= 1 << 31 for p in parts):
            return None
        found: Numbers | None = _compute(op, parts)
        return found

    def taking(self, under: tuple[Condition, ...]) -> npt.NDArray[np.bool_]:
        """The threads of which the conditions may hold."""
        found = np.ones(self.count, np.bool_)
        for condition, holds in under:
            found &= self._may(condition, holds)
        return found

    def _may(self, condition: Value, holds: bool) -> npt.NDArray[np.bool_]:
        numbers, op = self.numbers(condition), condition.op
        if numbers is not None:
            found: npt.NDArray[np.bool_] = (numbers != 0) == holds
            return found
        both = conjuncts(condition, holds)
        if both:
            return self._may(both[0], holds) & self._may(both[1], holds)
        if isinstance(op, arith.Not):
            return self._may(op.a, not holds)
        return np.ones(self.count, np.bool_)

    def exactly(self, condition: Value) -> npt.NDArray[np.bool_] | None:
        """The threads of which a condition holds, where that is known."""
        numbers = self.numbers(condition)
        return None if numbers is None else numbers != 0

    # Where an access goes --------------------------------------------------------------------------------------------

    def reach(self, op: Op, access: Access) -> Reach | None:
        """None where each thread's place is not known one by one."""
        dims, places = self._dims(access), self._bytes(access)
        one = bool(dims) and all(size == 1 for _, size in dims)
        if not one and not any(self.varies(v) for at, _ in (*dims, *places) for v in at.atoms()):
            return None
        return Reach(dims, places, under=self.around(op), threads=self)

    def around(self, op: Op) -> tuple[Condition, ...]:
        """The conditions under which a thread makes an operation's accesses, as far as they differ between threads."""
        under, predicate = self.under.get(op, ()), getattr(op, "predicate", None)
        if isinstance(predicate, Value) and not isinstance(predicate.type, RegsType):
            under = (*under, (predicate, True))
        return under

    def single(self, under: tuple[Condition, ...], elected: bool = False) -> object:
        """What singles out the thread for which conditions hold: its number, where they may for no other one; if it is
        known to be one, an `elected` one, those of which it is one, since of the same ones that is always the same.
        None where there may be several."""
        taken = self.taking(under)
        if taken.sum() == 1:
            return int(taken.argmax())
        return taken.tobytes() if elected else None

    def _dims(self, access: Access) -> tuple[Dimension, ...]:
        box = access.box if access.part is None else access.part
        if box is None or access.mem is None or access.ctas != "own":
            return ()
        return tuple([(self.index(v), size) for v, size in box])

    def _bytes(self, access: Access) -> tuple[Dimension, ...]:
        mem, place = access.mem, access.place
        if mem is None or access.ctas != "own" or not isinstance(mem.type, BufferType) or place is None:
            return ()
        addresses, concat = [place.address], place.address.op
        if isinstance(concat, thread.Concat) and access.writes:  # reads meet whole tiles: not worth the search
            addresses = list(concat.values)
        if len(addresses) > _PLACES or any(isinstance(each.type, RegsType) for each in addresses):
            return ()
        runs, size = [], place.bits // 8
        for number, address in enumerate(addresses):
            starts = sorted({at for at, n in zip(place.offsets, place.address_of, strict=True) if n == number})
            runs.append((self.place(address), _runs(starts, size)))
        if sum(len(parts) for _, parts in runs) > _PLACES:
            runs = [(at, [(parts[0][0], parts[-1][1])] if parts else []) for at, parts in runs]
        return tuple([(at + low, high - low) for at, parts in runs for low, high in parts])

    def place(self, address: Value) -> Affine:
        """An address as a polynomial: what lies in memory has not overflowed on the way."""
        known = self.places.get(address)
        if known is None:
            op = address.op
            if isinstance(op, arith.Add):
                known = self.place(op.a) + self.place(op.b)
            elif isinstance(op, arith.Mul) and (factor := constant_of(op.b)) is not None:
                known = self.place(op.a) * int(factor)
            else:
                known = self.index(address)
            self.places[address] = known
        return known

    def index(self, v: Value) -> Affine:
        """An index that is inside, and so no negative number: then a sum or difference of 32 bits of which the first
        part is none either has not wrapped, whatever the other one is. All bits that a number may have are turned by
        taking it from the number of them all."""
        op, at = v.op, self.facts.affine(v)
        while isinstance(op, arith.Cast) and op.a.dtype.kind == "int" and op.to.bits >= op.a.dtype.bits:
            v, op = op.a, op.a.op
        if isinstance(op, arith.Xor) and (ones := int(constant_of(op.b) or 0)) > 0 and not ones & (ones + 1):
            a = self.facts.affine(op.a)
            return ones - a if self.natural(op.a, a) and self.facts.nonnegative(ones - a) else at
        if at != Affine.of(v) or v.dtype.name != "i32" or not isinstance(op, arith.Add | arith.Sub):
            return at
        parts = self.facts.affine(op.a), self.facts.affine(op.b)
        if self.natural(op.a, parts[0]) or (isinstance(op, arith.Add) and self.natural(op.b, parts[1])):
            return parts[0] + parts[1] if isinstance(op, arith.Add) else parts[0] - parts[1]
        return at

    def natural(self, v: Value, at: Affine) -> bool:
        """Whether a value is no negative number."""
        return self.facts.nonnegative(at) or ((numbers := self.numbers(v)) is not None and bool(numbers.min() >= 0))

    def varies(self, v: Value) -> bool:
        return not self.facts.uniform(v)

    def behind(self, condition: Value) -> set[Value]:
        """The values in a condition's comparisons."""
        known = self.conditions.get(condition)
        if known is None:
            op = condition.op
            if isinstance(op, arith.And | arith.Or | arith.Not | arith.Select):
                known = set().union(*[self.behind(o) for o in op.operands])
            elif isinstance(op, arith.Cmp) and op.a.dtype.is_int:
                known = self.facts.affine(op.a).atoms() | self.facts.affine(op.b).atoms()
            else:
                known = {condition}
            self.conditions[condition] = known
        return known

    # Proofs ----------------------------------------------------------------------------------------------------------

    def apart(self, a: Reach, b: Reach) -> bool:
        known = self.answers.get((a, b))
        if known is None:
            dims = [(a.dims, b.dims)] if a.dims and b.dims else []
            places = [((x,), (y,)) for x in a.bytes for y in b.bytes]
            forms = [form for form in (dims, places) if form]
            known = any(all(self._pairs(a, b, x, y) for x, y in form) for form in forms) or self._misses(a, b)
            known = known or any(all(self._ordered(a, b, x, y) for x, y in form) for form in forms)
            self.answers[a, b] = known
        return known

    def _pairs(self, a: Reach, b: Reach, dims_a: Dimensions, dims_b: Dimensions) -> bool:
        """By the numbers of each pair of threads, for each number of the values that all share and that they are
        computed from, where these are few."""
        if self.count > BLOCK_THREADS:
            return False
        first = self._apart_now(a, b, dims_a, dims_b)
        if first or a.own or b.own or a.earlier or b.earlier:  # then such a value may be two different numbers
            return first
        shared = self._shared(a, dims_a) | self._shared(b, dims_b)
        if not shared:
            return False
        known, order = self.known, sorted(shared, key=self.facts.order)
        ranges = [self.facts.range(v) for v in order]
        if any(low is None or high is None for low, high in ranges):
            return False
        choices = [range(low, high + 1) for low, high in ranges if low is not None and high is not None]
        if math.prod(map(len, choices)) > _CHOICES:
            return False
        try:
            for numbers in product(*choices):
                self.known = {v: np.full(self.count, n, np.int64) for v, n in zip(order, numbers, strict=True)}
                if not self._apart_now(a, b, dims_a, dims_b):
                    return False
        finally:
            self.known = known
        return True

    def _shared(self, reach: Reach, dims: Dimensions) -> set[Value]:
        """The values that all threads share behind what differs and is not the thread's index alone: of dimensions and
        conditions (`i % 2 == %color` differs, and of what it compares only the one side does)."""
        found: set[Value] = set()
        atoms = [v for at, _ in dims for v in at.atoms()]
        for condition, holds in reach.under:
            atoms += self._leaves(condition, holds)
        for v in atoms:
            if self.varies(v) and self.numbers(v) is None:
                sources = self._sources(v, set())
                found |= sources or set()
        return found

    def _few(self, v: Value) -> bool:
        low, high = self.facts.range(v)
        return low is not None and high is not None and high - low < _CHOICES

    def _leaves(self, condition: Value, holds: bool) -> list[Value]:
        """The conditions that `_may` takes for themselves."""
        parts = conjuncts(condition, holds)
        if parts:
            return [leaf for part in parts for leaf in self._leaves(part, holds)]
        if isinstance(condition.op, arith.Not):
            return self._leaves(condition.op.a, not holds)
        return [condition]

    def _sources(self, v: Value, seen: set[Value]) -> set[Value] | None:
        """What a value is computed from that all threads share and that is no constant; None where it is not computed
        by integer arithmetic."""
        if v in seen or self.numbers(v) is not None:
            return set()
        seen.add(v)
        op = v.op
        if isinstance(op, arith.Binary | arith.Cmp | arith.Cast | arith.Select | arith.Not | arith.Neg):
            parts = [self._sources(o, seen) for o in op.operands]
            found = None if any(p is None for p in parts) else set().union(*[p for p in parts if p is not None])
            if found and not self.varies(v) and self._few(v) and not all(map(self._few, found)):
                return {v}  # %n % 2
            return found
        return None if self.varies(v) else {v}

    def _apart_now(self, a: Reach, b: Reach, dims_a: Dimensions, dims_b: Dimensions) -> bool:
        meet = self.taking(a.under)[:, None] & self.taking(b.under)[None, :]
        np.fill_diagonal(meet, False)
        for (x, size_x), (y, size_y) in zip(dims_a, dims_b, strict=True):
            if not meet.any():
                return True
            one, other = _Parts(self, a, x), _Parts(self, b, y)
            gap = one.shared - other.shared
            free = [*one.free, *[(-c, low, high) for c, low, high in other.free]]
            free += [(c, *self.facts.interval(Affine(0, {m: 1}))) for m, c in gap.terms.items()]
            low, high = 1 - size_x - gap.const, size_y - 1 - gap.const
            for window, divisor in _splits(free, low, high):
                _narrow(meet, one.numbers, other.numbers, window, divisor)
        return not meet.any()

    def extent(self, reach: Reach) -> Extent | None:
        """Where an access of all threads lies, where it goes by indices."""
        if reach not in self.extents:
            self.extents[reach] = None
            if reach.dims and self.count <= BLOCK_THREADS:
                parts = [(_Parts(self, reach, x), size) for x, size in reach.dims]
                shared = tuple(frozenset(part.shared.terms.items()) for part, _ in parts)
                self.extents[reach] = Extent(shared, tuple(part.window(size) for part, size in parts))
        return self.extents[reach]

    def _misses(self, a: Reach, b: Reach) -> bool:
        """Whether the extents of two accesses miss each other in a dimension."""
        one, other = self.extent(a), self.extent(b)
        if one is None or other is None:
            return False
        gaps = self.between(one.shared, other.shared)
        for (low, high, d), (start, end, e), (least, most, f) in zip(one.windows, other.windows, gaps, strict=True):
            divisor, first, last = math.gcd(d, e, f), low + least - end + 1, high + most - 1 - start
            if -first % divisor >= last - first if divisor else not first <= 0 < last:
                return True
        return False

    def between(self, one: Shared, other: Shared) -> tuple[Window, ...]:
        """What is the same for all threads in one access, less that of another one, in each dimension."""
        known = self.gaps.get((one, other))
        if known is None:
            known = self.gaps[one, other] = tuple(self._gap(dict(x), dict(y)) for x, y in zip(one, other, strict=True))
        return known

    def _gap(self, one: dict[tuple[Value, ...], int], other: dict[tuple[Value, ...], int]) -> Window:
        terms = {m: c for m in one.keys() | other.keys() if (c := one.get(m, 0) - other.get(m, 0))}
        return _window(0, 1, [(c, *self.facts.interval(Affine(0, {m: 1}))) for m, c in terms.items()])

    def _ordered(self, a: Reach, b: Reach, dims_a: Dimensions, dims_b: Dimensions) -> bool:
        """By what the conditions around both say of where each begins and ends."""
        if not (a.under or b.under):
            return False
        mine, others = _Copy(self, a), _Copy(self, b)
        with self.facts.given([*mine.conditions(), *others.conditions()]):
            for (x, size_x), (y, size_y) in zip(dims_a, dims_b, strict=True):
                gap = mine.of(x) - others.of(y)
                if self.facts.nonnegative(gap - size_y) or self.facts.nonnegative(-gap - size_x):
                    return True
        return False


def _runs(starts: list[int], size: int) -> list[tuple[int, int]]:
    """What so many units from each of the starts on, in order, cover: from one to before another."""
    found: list[tuple[int, int]] = []
    for start in starts:
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], start + size
        else:
            found.append((start, start + size))
    return found


def in_whole_groups(taken: npt.NDArray[np.bool_], size: int) -> bool:
    """Whether of each `size` neighbouring threads (a warp, a wave) all are taken or none. The last may be fewer."""
    groups = (taken[first : first + size] for first in range(0, len(taken), size))
    return all(bool(group.any()) == bool(group.all()) for group in groups)


class _Parts:
    """A dimension's polynomial: the threads' numbers, what is shared, what is free."""

    def __init__(self, threads: Threads, reach: Reach, at: Affine) -> None:
        self.threads, self.reach = threads, reach
        self.numbers: Numbers = np.zeros(threads.count, np.int64)
        self.shared = Affine(at.const)
        self.free: list[Free] = []
        self.earlier = dict(reach.earlier)
        for m, c in at.terms.items():
            self.add(m, c)

    def add(self, m: tuple[Value, ...], c: int) -> None:
        threads = self.threads
        numbers = [n for v in m if (n := threads.numbers(v)) is not None]
        if len(numbers) == len(m):
            self.numbers = self.numbers + c * np.prod(np.stack(numbers), axis=0)
        elif all(v not in self.reach.own and not threads.varies(v) for v in m):
            self.shared += Affine(0, {m: c})
            for v in m:
                step = self.earlier.get(v)
                if step is not None and len(m) == 1 and step.is_constant:
                    self.free.append((-c * step.const, 1, None))
                elif step is not None:
                    self.free.append((c * (threads.facts.multiple(step) if len(m) == 1 else 1), None, None))
        elif len(m) > 1:
            self.free.append((c, None, None))
        else:
            self.one(m[0], c)

    def window(self, size: int) -> Window:
        """Where all threads' accesses lie on top of what is shared."""
        at = self.shared.const
        return _window(at + int(self.numbers.min()), at + int(self.numbers.max()) + size, self.free)

    def one(self, v: Value, c: int) -> None:
        """A value of this access alone."""
        owner = self.threads.owners.get(v.owner) if isinstance(v.owner, Block) else None
        facts = self.threads.facts
        if isinstance(owner, control.For) and v.index == 0:
            _, high = facts.interval(facts.affine(owner.upper) - facts.affine(owner.lower) - 1)
            step = facts.multiple(owner.step)
            most = high // step if high is not None and high >= 0 else None
            self.spread(owner.lower, c)
            self.free.append((c * step, 0, most))
            return
        start = self.start(v, owner)
        if start is not None:
            init, step = start
            self.spread(init, c)
            self.free.append((c * step, None, None))
            return
        self.free.append((c, *facts.interval(Affine.of(v))))

    def spread(self, start: Value, c: int) -> None:
        at = self.threads.facts.affine(start)
        self.shared += at.const * c
        for m, factor in at.terms.items():
            self.add(m, c * factor)

    def start(self, v: Value, owner: Op | None) -> tuple[Value, int] | None:
        """Of a value that a loop carries and adds to in each round: its first value, and what divides the rest. Sums
        may wrap, which powers of two survive."""
        if isinstance(owner, control.While):
            passed, yields, first = owner.before.yielded[1:], owner.body.yielded, owner.before.args
            if v.owner is owner.body:
                if passed[v.index] not in first:
                    return None
                v = passed[v.index]
            new, old = yields[v.index], next((a for a, p in zip(owner.body.args, passed, strict=True) if p is v), None)
            init = owner.init[v.index]
        elif isinstance(owner, control.For):
            new, old, init = owner.body.yielded[v.index - 1], v, owner.init[v.index - 1]
        else:
            return None
        op = new.op
        if old is None or not isinstance(op, arith.Add | arith.Sub) or not v.dtype.is_int:
            return None
        step = op.b if op.a is old else op.a if op.b is old and isinstance(op, arith.Add) else None
        if step is None:
            return None
        n = self.threads.facts.multiple(step)
        return init, n & -n


class _Copy:
    """An access's own copy of whatever it does not share with the other one."""

    def __init__(self, threads: Threads, reach: Reach) -> None:
        self.threads, self.reach = threads, reach
        self.names: dict[Value, Affine] = {}
        self.earlier = dict(reach.earlier)

    def of(self, a: Affine) -> Affine:
        return a.substitute({v: self.name(v) for v in a.atoms()})

    def name(self, v: Value) -> Affine:
        known = self.names.get(v)
        if known is not None:
            return known
        facts = self.threads.facts
        step = self.earlier.get(v)
        if step is not None:
            rounds = facts.copy_of(v, Bounds([(1, Affine(1))]))
            self.names[v] = Affine.of(v) - step * Affine.of(rounds)
        elif v not in self.reach.own and not self.threads.varies(v):
            self.names[v] = Affine.of(v)
        else:
            self.names[v] = Affine.of(v)  # for a cycle
            known_of = facts.bounds(v)
            bounds = Bounds(
                [(d, self.of(at)) for d, at in known_of.lower],
                [(d, self.of(at)) for d, at in known_of.upper],
                [self.of(at) for at in known_of.cases],
            )
            self.names[v] = Affine.of(facts.copy_of(v, bounds))
        return self.names[v]

    def conditions(self) -> list[Affine]:
        """What is known not to be negative."""
        return [self.of(a) for c, holds in self.reach.under for a in claims(self.threads.facts, c, holds)]


def _compute(op: Op, parts: list[Any]) -> Any:
    if isinstance(op, arith.Cmp):
        return np.asarray(COMPARE[op.predicate](parts[0], parts[1]), np.int64)
    if isinstance(op, arith.Select):
        return np.where(parts[0] != 0, parts[1], parts[2])
    if isinstance(op, arith.Not):
        return (parts[0] == 0).astype(np.int64) if op.results[0].dtype.kind == "bool" else ~parts[0]
    if isinstance(op, arith.Cast):
        return (parts[0] != 0).astype(np.int64) if op.to.kind == "bool" else parts[0]
    if isinstance(op, arith.Neg):
        return -parts[0]
    compute = ARRAYS.get(type(op))
    if compute is None:
        return None
    if type(op) in DIVISIONS and (parts[1] <= 0).any():
        return None
    if type(op) in (arith.TruncDiv, arith.TruncMod) and (parts[0] < 0).any():
        return None
    if type(op) in _SHIFTS and ((parts[1] < 0) | (parts[1] > 31)).any():
        return None
    return compute(*parts)


def _wrapped(numbers: Any, v: Value) -> Any:
    """As the type holds them."""
    if numbers is None or v.dtype.kind == "bool":
        return numbers
    bits = v.dtype.bits
    low = numbers & ((1 << bits) - 1)
    return np.where(low >> (bits - 1), low - (1 << bits), low) if v.dtype.kind == "int" else low


_SHIFTS = (arith.Shl, arith.Shr)


def _splits(free: list[Free], low: int, high: int) -> Iterator[tuple[tuple[int, int], int]]:
    """Windows in which a difference must be for two places to meet, each modulo a divisor (0: as it is): the parts with
    the smallest factors widen the window as long as they have bounds, the others have a divisor in common."""
    order = sorted(free, key=lambda f: abs(f[0]))
    for n in range(len(order) + 1):
        divisor = math.gcd(*[c for c, _, _ in order[n:]])
        if divisor == 0 or high - low + 1 < divisor:
            yield (low, high), divisor
        if n < len(order):
            c, least, most = order[n]
            if least is None or most is None:
                return
            low, high = low - max(c * least, c * most), high - min(c * least, c * most)


def _window(low: int, high: int, free: list[Free]) -> Window:
    """A window widened by all free parts that have bounds, modulo what the others have in common, and those that have
    bounds but larger factors than one that has none."""
    order = sorted(free, key=lambda f: abs(f[0]))
    for n, (c, least, most) in enumerate(order):
        if least is None or most is None:
            divisor = math.gcd(*[c for c, _, _ in order[n:]])
            return low % divisor, low % divisor + high - low, divisor
        low, high = low + min(c * least, c * most), high + max(c * least, c * most)
    return low, high, 0


def _narrow(meet: npt.NDArray[np.bool_], one: Numbers, other: Numbers, window: tuple[int, int], divisor: int) -> None:
    """Take out the pairs of threads whose difference is not in the window."""
    low, high = window
    above = one[:, None] - other[None, :] - low
    if divisor:
        above %= divisor
    meet &= (above >= 0) & (above <= high - low)


__all__ = ["Condition", "Extent", "Reach", "Threads", "Window", "in_whole_groups"]
