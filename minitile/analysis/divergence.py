"""Which values differ between the threads of a CTA; and between the blocks of a cluster (`Varying`).

A value diverges when it is the thread's own (its index, its share of a tile, what an atomic returned) or computed from
such a value, or chosen by a branch or loop on such a value:

    %t = special tid.x          diverges
    %c = cmp lt %t, 32          diverges
    %x = if %c { yield 1 } else { yield 2 }      diverges: the choice does

A load at an address that all threads share gives all the same, except from an array of each thread's own to which
such a value has been stored, or not by all threads. A write of other CTAs that comes between would be a data race of
the program's (the simulators report it), one within the CTA is ours to order (`thread_barriers`). What lowering marks
as the same (`pick` with `same`: the result of shuffles that end alike in all lanes) is. In the tile stage, tiles and
futures are not thread values at all, and what `extract` or a full `reduce` makes of them is the same everywhere.

Of the threads of a warp less differs: %c above does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from minitile.analysis.op_places import Places
from minitile.ir.builder import constant_of
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import arith, control
from minitile.ir.types import BufferType


def divergent_values(kernel: Kernel, same: Callable[[Value], bool] | None = None) -> set[Value]:
    """All values of the kernel that may differ between threads of a CTA; with `same`, between those of smaller groups
    of threads, of which it says which values are known to be the same."""
    search = _Search(same)
    known = -1
    while len(search.own) != known:  # an array may be stored to behind where it is read, in a loop around both
        known = len(search.own)
        search.block(kernel.body)
    return search.divergent


class _Search:
    """`own`: the arrays of each thread's own that differ; `under`: how many loops and branches around do."""

    def __init__(self, same: Callable[[Value], bool] | None) -> None:
        self.same = same
        self.divergent: set[Value] = set()
        self.own: set[Value] = set()
        self.under = 0

    def any(self, values: tuple[Value, ...] | list[Value]) -> bool:
        return not self.divergent.isdisjoint(values)

    def mark(self, targets: tuple[Value, ...], sources: tuple[Value, ...] | list[Value], all_of_them: bool) -> bool:
        """Targets whose source diverges do too, or all of them. Whether anything is new."""
        new = {t for t, s in zip(targets, sources, strict=True) if all_of_them or s in self.divergent} - self.divergent
        self.divergent |= new
        return bool(new)

    def block(self, block: Block) -> None:
        for op in block.ops:
            if not op.region_fields:
                self.leaf(op)
            elif isinstance(op, control.For):
                self.loop(op)
            elif isinstance(op, control.While):
                self.repeat(op)
            elif isinstance(op, control.If):
                self.branch(op)
            else:
                if isinstance(op, control.Parallel):
                    self.divergent.update(op.body.args)
                for region in op.regions:
                    self.block(region)

    def leaf(self, op: Op) -> None:
        """An operation without regions."""
        if op.agrees():
            return
        differs = not self.divergent.isdisjoint(op.operands)
        if (self.under or differs) and not op.pure:
            self.own.update(_to_own(op))
        if differs or self.source(op):
            self.divergent.update(op.results if self.same is None else [v for v in op.results if not self.same(v)])

    def source(self, op: Op) -> bool:
        """Whether the results diverge whatever the operands."""
        if op.varies():
            return True
        if op.pure or not op.results:
            return False
        return any(a.writes or a.mem is None or a.mem in self.own for a in op.accesses())

    def branch(self, op: control.If) -> None:
        choice = op.condition in self.divergent or op.varies()
        self.under += choice
        for region in op.regions:
            self.block(region)
            self.mark(op.results, region.yielded, choice)
        self.under -= choice

    def loop(self, op: control.For) -> None:
        trips = self.any([op.lower, op.upper, op.step])
        if trips:
            self.divergent.add(op.iv)
        self.mark(op.carried, op.init, trips)
        changed = True
        self.under += trips
        while changed:
            self.block(op.body)
            changed = self.mark(op.carried, op.body.yielded, trips)
        self.under -= trips
        self.mark(op.results, op.carried, trips)

    def repeat(self, op: control.While) -> None:
        self.mark(op.before.args, op.init, False)
        changed, choice = True, False
        while changed:
            self.under += choice
            self.block(op.before)
            self.under -= choice
            end = op.before.terminator
            assert isinstance(end, control.Condition)
            changed, choice = end.flag in self.divergent and not choice, end.flag in self.divergent
            self.under += choice
            self.mark(op.body.args, end.values, choice)
            self.mark(op.results, end.values, choice)
            self.block(op.body)
            changed |= self.mark(op.before.args, op.body.yielded, choice)
            self.under -= choice


def _to_own(op: Op) -> list[Value]:
    """The arrays of each thread's own that an operation writes."""
    written = [a.mem for a in op.accesses() if a.writes and a.mem is not None]
    return [mem for mem in written if isinstance(mem.type, BufferType) and mem.type.space == "local"]


# Between blocks of a cluster -----------------------------------------------------------------------------------------

Dims = frozenset[int]
NONE: Dims = frozenset()


class Varying:
    """Along which dimensions of the cluster a value differs between blocks; a fixed point over loops. The block's index
    does, and what is computed from it; its quotient by the cluster's size does not."""

    def __init__(self, launch: control.Launch) -> None:
        self.launch = launch
        self.dims: dict[Value, Dims] = {
            arg: frozenset({d} if launch.cluster[d] > 1 else ()) for d, arg in enumerate(launch.body.args)
        }
        self.changed = True
        while self.changed:
            self.changed = False
            self._block(launch.body)

    def of(self, value: Value) -> Dims:
        return self.dims.get(value, NONE)

    def way_to(self, op: Op, places: Places) -> Dims:
        """Along which dimensions blocks differ in how often they come to the operation."""
        return NONE.union(*(self._decides(around) for around in places.all_around(op)))

    def _decides(self, op: Op) -> Dims:
        """What decides which of its regions run, and how often."""
        return self._all(op.decides() if isinstance(op, control.Structured) else op.operands)

    def _all(self, values: Sequence[Value]) -> Dims:
        return NONE.union(*map(self.of, values))

    def _set(self, values: Sequence[Value], dims: Dims) -> None:
        for value in values:
            if not dims <= self.of(value):
                self.dims[value] = self.of(value) | dims
                self.changed = True

    def _block(self, block: Block) -> None:
        for op in block.ops:
            if isinstance(op, control.Structured):
                self._structured(op)
            elif not self._rank_goes(op):
                self._set(op.results, self._all(op.operands))
                for region in op.regions:
                    self._block(region)

    def _rank_goes(self, op: Op) -> bool:
        """A block's index divided by the cluster's size, or a multiple of it."""
        if not isinstance(op, arith.FloorDiv | arith.TruncDiv) or op.a.owner is not self.launch.body:
            return False
        divisor = constant_of(op.b)
        return divisor is not None and int(divisor) % self.launch.cluster[op.a.index] == 0

    def _structured(self, op: control.Structured) -> None:
        """In the same turn of a loop values vary as those do that were handed on; behind it, and behind a branch, also
        as its course does. So does the number of a turn, which is computed from what decides it."""
        course, given = self._decides(op), op.given()
        for region in op.regions:
            self._set([v for v in region.args if v not in given], course)
            self._block(region)
        for t in op.transfers():
            for v, *targets in zip(t.values, *t.targets, strict=True):
                self._set(targets, self.of(v))
        self._set(op.results, course)
