"""Counts the accesses that bounds cut off: a kernel that adds to a counter of each access what is outside.

    %x = load %A[%i]          →     %out = or (cmp %i, 0 {lt}), (cmp %i, N {ge})
                                    if %out { atomic %counts[7], 1 }
                                    %x = load %A[%i]

A diagnosis: the kernel that results is run beside the one that is meant (see `minitile.driver.masked`), which stays as
it is. It works on traced IR, so that the counts are the program's, whatever the target and the schedule make of it: an
access of each element of a T.Parallel, a copy's elements once for each block, a scalar's once for each block where all
threads have the same indices, else for each thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from minitile.analysis.affine import Facts
from minitile.ir.builder import Builder
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.diagnostics import Location
from minitile.ir.effects import Footprint
from minitile.ir.ops import arith, control, tile
from minitile.ir.types import I32, TensorType, i32, i64

COUNTS = "masked_counts"  # the parameter that is added


@dataclass(frozen=True, slots=True)
class Counted:
    """What one counter stands for."""

    loc: Location | None
    kind: str
    tensor: str


def count_masked(kernel: Kernel) -> list[Counted]:
    """Adds the counters to a traced kernel, in place; what each of them counts. Where there are any, the kernel has one
    more parameter, the last one: a tensor of so many i32, which the caller fills with zeros."""
    counting = _Counting(kernel)
    counting.block(kernel.body, _Where())
    if counting.found:
        # The type is known only now; every use holds the same value.
        counting.counts.type = TensorType((len(counting.found),), i32)
        kernel.params = (*kernel.params, counting.counts)
    return counting.found


@dataclass(frozen=True, slots=True)
class _Where:
    """parallel: in a T.Parallel's body. apart: threads may be here that others are not with."""

    parallel: bool = False
    apart: bool = False


class _Counting:
    def __init__(self, kernel: Kernel) -> None:
        self.facts = Facts(kernel)
        self.counts = Value(TensorType((1,), i32), None, len(kernel.params), COUNTS)
        self.found: list[Counted] = []
        for value in (v for op in kernel.walk() for v in op.results):
            self.facts.uniform(value)  # asked of the kernel as it is, before it is taken apart

    def block(self, block: Block, where: _Where) -> None:
        old, block.ops = block.ops, []
        b = Builder(block)
        for op in old:
            b.loc = op.loc
            for footprint in op.footprints():
                if isinstance(footprint.mem.type, TensorType):
                    self.footprint(b, op, footprint, where)
            for region in op.regions:
                self.block(region, self.inside(op, where))
            b.emit(op)

    def inside(self, op: Op, where: _Where) -> _Where:
        decides = op.decides() if isinstance(op, control.Structured) and not op.by_role else []
        apart = where.apart or not all(self.facts.uniform(v) for v in decides)
        return _Where(where.parallel or isinstance(op, control.Parallel), apart)

    def footprint(self, b: Builder, op: Op, f: Footprint, where: _Where) -> None:
        inside: Value | None = None  # how many elements there are
        total = 1
        for d, (index, extent) in enumerate(zip(f.indices, f.extents, strict=True)):
            total *= extent
            at, size = self.facts.affine(index), self.facts.size(f.mem, d)
            if self.facts.nonnegative(at) and self.facts.less(at + (extent - 1), size):
                part = b.constant(extent, i64)
            else:
                part = self.overlap(b, f, d, extent)
            inside = part if inside is None else b.mul(inside, part)
        if inside is None or (inside.op is not None and isinstance(inside.op, arith.Constant)):
            return
        number = len(self.found)
        self.found.append(Counted(op.loc, f.kind, f.mem.name))
        cut = b.sub(b.constant(total, i64), inside)
        once = not where.parallel and not where.apart and self.happens_once(op, f)
        with self.element(b, once) as alone:
            any_ = b.compare("gt", cut, 0)
            with b.when(any_ if alone is None else b.and_(alone, any_)):
                at_ = (b.constant(number),)
                b.emit(tile.AtomicRmw(self.counts, at_, b.cast(cut, i32), kind="add", dims=(None,)))

    def overlap(self, b: Builder, f: Footprint, d: int, extent: int) -> Value:
        """How many of the `extent` indices of a dimension are in it."""
        start = b.cast(f.indices[d], i64)
        size = f.mem.shape[d]
        end = b.constant(size, i64) if isinstance(size, int) else b.cast(self.facts.kernel.dims[size], i64)
        return b.max(b.sub(b.min(b.add(start, extent), end), b.max(start, 0)), 0)

    def happens_once(self, op: Op, f: Footprint) -> bool:
        """In a block, not in each of its threads: a tile's operation, and a scalar that is the same for all."""
        alike = f.kind != "atomic" and all(self.facts.uniform(v) for v in f.indices)
        return op.uniform or alike

    @contextmanager
    def element(self, b: Builder, once: bool) -> Iterator[Value | None]:
        """Where what is emitted happens `once` in a block: for one element of a T.Parallel of two, to which a condition
        belongs."""
        if not once:
            yield None
            return
        loop = control.Parallel(extents=(2,))
        index = loop.body.add_arg(I32)
        loop.loc = b.loc
        with b.inside(loop.body):
            yield b.compare("eq", index, 0)
            b.emit(control.Yield(()))
        b.emit(loop)
