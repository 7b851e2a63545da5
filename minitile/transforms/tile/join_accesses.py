"""Scalar accesses of each thread to neighbours in memory become runs, which lowering makes wide.

    %x0 = load %A[%i]                             %x0, %x1 = load_run %A[%i] {count = 2, along = 0}
    %j = add %i, 1                                …
    %x1 = load %A[%j]                    →        %y0 = mul %x0, 2.0
    %y0 = mul %x0, 2.0                            %y1 = mul %x1, 2.0
    store %C[%i], %y0                             store_run %C[%i], [%y0, %y1] {along = 0}
    %y1 = mul %x1, 2.0
    store %C[%j], %y1

That is what loops over each thread's own elements look like once they are unrolled. Of a tensor and of shared memory,
accesses are neighbours when their indices differ, as polynomials, by 1 in the last dimension (a tensor's contiguous
one) and by nothing in the others. They must stand in one block, under the same mask.

Loads    go to the first of them, with the arithmetic that their indices need. Nothing in between may write what they
         read, or orders threads. An element that is loaded twice is loaded once.
Stores   go to the last of them. Nothing in between may read or write what they write; of two stores to one element
         neither moves. Sums by atomics whose old values are not asked for are the same.

All of that is meant for any two threads: where one accesses between two accesses of another what that one writes, a
barrier will stand (`thread_barriers`), and inside a run there is none. Two indices never meet, in whichever threads,
when they leave different remainders: `8*i + k` and `8*j + l` for k ≠ l below 8. So `A[8*t + k] = A[8*t + k] * 2` goes
in runs, and `A[t] = 1; A[t + 1] = 2` does not. Tensors of different names are different memory.

Neither crosses a loop or a branch. Runs are as long as the program makes them; how wide the accesses are is decided
when they are lowered.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from minitile.analysis.affine import Affine, Facts
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import arith, tile
from minitile.ir.ops.explicit import Shuffle
from minitile.ir.ops.runs import AtomicRun, LoadRun, StoreRun
from minitile.ir.rewrite import erase_unused, made_by
from minitile.ir.types import BufferType, ScalarType, TensorType, bf16, bool_, f16, f32
from minitile.transforms.manager import PassContext

Access = tile.Load | tile.Store | tile.AtomicRmw
_SUMS = (f16, bf16, f32)  # of which some target adds several at once


def join_accesses(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    if any(isinstance(op, Access) and _along(op) is not None for op in kernel.walk()):
        _Join(kernel).block(kernel.body)
        erase_unused(kernel)


def _along(op: Op) -> int | None:
    """The dimension along which an operation could be part of a run; None where it is no scalar access, or none of
    memory that has such a dimension."""
    if not isinstance(op, Access) or not isinstance(op.moved.type, ScalarType) or op.mem.dtype is bool_:
        return None
    if isinstance(op, tile.AtomicRmw):
        if op.kind != "add" or op.mem.dtype not in _SUMS:
            return None
    elif op.rank is not None or (isinstance(op, tile.Store) and op.tf32):
        return None
    if isinstance(op.mem.type, TensorType):
        return op.mem.type.contiguous_dim
    shared = isinstance(op.mem.type, BufferType) and op.mem.type.space == "shared"
    return len(op.mem.shape) - 1 if shared and op.mem.shape else None


@dataclass(slots=True)
class _Group:
    """Accesses of one kind that differ by constants along one dimension: by the constant, the operations."""

    along: int
    members: dict[int, list[Access]] = field(default_factory=dict)
    passed: list[Access] = field(default_factory=list)  # stores behind the first of a group of loads

    @property
    def mem(self) -> Value:
        return self.all[0].mem

    @property
    def all(self) -> list[Access]:
        return [op for ops in self.members.values() for op in ops]


class _Join:
    def __init__(self, kernel: Kernel) -> None:
        self.facts = Facts(kernel)
        self.used = {v for op in kernel.walk() for v in op.operands}
        self.places: dict[Op, list[Affine]] = {}

    def place(self, op: Access) -> list[Affine]:
        if op not in self.places:
            self.places[op] = [self.facts.affine(v) for v in op.indices]
        return self.places[op]

    def apart(self, a: Access, b: Access) -> bool:
        """Whether two scalar accesses to one memory are to different elements for sure, in any two threads."""
        for x, y in zip(self.place(a), self.place(b), strict=True):
            common = math.gcd(self.period(x), self.period(y))
            if (x.const - y.const) % common:
                return True
        return False

    def period(self, at: Affine) -> int:
        """A number that divides all of an index but its constant, in every thread."""
        return self.facts.multiple(Affine(0, at.terms))

    def runs(self, group: _Group) -> list[list[int]]:
        """The constants of neighbours; of stores only where runs of two threads are the same or do not meet."""
        found: list[list[int]] = []
        for at in sorted(group.members):
            if found and found[-1][-1] == at - 1:
                found[-1].append(at)
            else:
                found.append([at])
        op = group.all[0]
        most = self.period(self.place(op)[group.along]) if isinstance(op, tile.Store) else len(group.members)
        return [run for run in found if 1 < len(run) <= most]

    def block(self, block: Block) -> None:
        for op in block.ops:
            for region in op.regions:
                self.block(region)
        _Loads(self, block).run()
        _Stores(self, block).run()

    def key(self, op: Access, along: int) -> tuple[object, int]:
        """What the accesses of a group have in common, and the constant by which this one differs."""
        at = list(self.place(op))
        constant = at[along].const
        at[along] = Affine(0, at[along].terms)
        dtypes = tuple(v.dtype for v in op.indices)
        how = () if isinstance(op, tile.AtomicRmw) else (op.slot, op.evict)
        return (type(op), op.mem, op.mask, *how, dtypes, tuple(at)), constant


def _stops(op: Op) -> bool:
    """Whether nothing is moved across an operation: all but accesses to known memory, and what touches none."""
    if op.region_fields or op.uniform or op.orders or op.terminator or op.syncs():
        return True
    return not (op.accesses() or isinstance(op, (Shuffle, arith.Assume)))


class _Walk(ABC):
    """One walk over a block: groups that are open, by key, until something may come between their accesses."""

    def __init__(self, join: _Join, block: Block) -> None:
        self.join, self.block = join, block
        self.open: dict[object, _Group] = {}
        self.done: list[_Group] = []

    def run(self) -> None:
        for op in self.block.ops:
            self.visit(op)
        self.done += self.open.values()
        if any(self.join.runs(group) for group in self.done):
            self.rewrite()

    def end(self, op: Op, touched: set[Value | None]) -> None:
        """Ends the groups that an operation with effects may concern: of the memory that it touches, None: of all."""
        everything = _stops(op) or None in touched
        for key in [k for k, g in self.open.items() if everything or g.mem in touched]:
            self.done.append(self.open.pop(key))

    @abstractmethod
    def visit(self, op: Op) -> None:
        """Takes an operation into a group, or ends groups at it."""

    @abstractmethod
    def rewrite(self) -> None:
        """Puts runs in the place of groups' accesses."""


class _Loads(_Walk):
    """Loads, whose groups end where something may write their memory."""

    def visit(self, op: Op) -> None:
        along = _along(op) if isinstance(op, tile.Load) else None
        if isinstance(op, tile.Load) and along is not None:
            self.load(op, along)
        elif isinstance(op, tile.Store) and _along(op) is not None:
            for group in self.open.values():
                if group.mem is op.mem:
                    group.passed.append(op)
        elif not op.pure or op.uniform:
            self.end(op, {a.mem for a in op.accesses() if a.writes})

    def load(self, op: tile.Load, along: int) -> None:
        key, constant = self.join.key(op, along)
        group = self.open.get(key)
        if group is None or not all(self.join.apart(op, store) for store in group.passed):
            if group is not None:
                self.done.append(group)
            group = self.open[key] = _Group(along)
        group.members.setdefault(constant, []).append(op)

    def rewrite(self) -> None:
        first: dict[Op, list[tuple[_Group, list[int]]]] = {}
        order = {op: n for n, op in enumerate(self.block.ops)}
        for group in self.done:
            for run in self.join.runs(group):
                where = min((op for at in run for op in group.members[at]), key=order.__getitem__)
                first.setdefault(where, []).append((group, run))
        ready: dict[Op, None] = {}  # what has been put in its new place
        names: dict[Value, Value] = {}
        inside = set(self.block.ops)
        gone: set[Op] = set()

        def is_placed(v: Value) -> bool:
            return v in names or v.op in ready

        for op in self.block.ops:
            for group, run in first.get(op, ()):
                needed = made_by(group.members[run[0]][0], inside, is_placed)
                if needed is None:
                    continue
                for one in needed:
                    one.replace_operands(lambda v: names.get(v, v))
                    ready[one] = None
                new = _load_run(group, run, names)
                ready[new] = None
                for at, value in zip(run, new.results, strict=True):
                    for old in group.members[at]:
                        names[old.results[0]] = value
                        gone.add(old)
            if op not in gone and op not in ready:
                for inner in op.walk():
                    inner.replace_operands(lambda v: names.get(v, v))
                ready[op] = None
        self.block.ops = list(ready)


def _load_run(group: _Group, run: list[int], names: dict[Value, Value]) -> LoadRun:
    first = group.members[run[0]][0]
    assert isinstance(first, tile.Load)

    def get(v: Value | None) -> Value | None:
        return None if v is None else names.get(v, v)

    indices = tuple(names.get(v, v) for v in first.indices)
    new = LoadRun(
        first.mem,
        indices,
        mask=get(first.mask),
        slot=get(first.slot),
        count=len(run),
        along=group.along,
        evict=first.evict,
    )
    new.loc = first.loc
    for at, value in zip(run, new.results, strict=True):
        value.name = group.members[at][0].results[0].name
    return new


class _Stores(_Walk):
    """Stores and sums, which wait for the last of them; their groups end where something may touch their memory."""

    def visit(self, op: Op) -> None:
        along = _along(op)
        if isinstance(op, tile.Store | tile.AtomicRmw) and along is not None and not self.is_used(op):
            self.store(op, along)
        elif isinstance(op, tile.Load) and along is not None:
            self.meets(op)
        elif not op.pure or op.uniform:
            self.end(op, {a.mem for a in op.accesses()})

    def is_used(self, op: Op) -> bool:
        return not self.join.used.isdisjoint(op.results)

    def store(self, op: Access, along: int) -> None:
        key, constant = self.join.key(op, along)
        self.meets(op, key)
        group = self.open.get(key)
        if group is not None and constant in group.members:
            self.done.append(self.open.pop(key))
        self.open.setdefault(key, _Group(along)).members[constant] = [op]

    def meets(self, op: Access, but: object = None) -> None:
        """Ends the groups, but one, that a scalar access may meet."""
        for key, group in list(self.open.items()):
            if key != but and group.mem is op.mem and not all(self.join.apart(op, one) for one in group.all):
                self.done.append(self.open.pop(key))

    def rewrite(self) -> None:
        order = {op: n for n, op in enumerate(self.block.ops)}
        last: dict[Op, Op] = {}
        gone: set[Op] = set()
        for group in self.done:
            for run in self.join.runs(group):
                stores = [group.members[at][0] for at in run]
                gone.update(stores)
                last[max(stores, key=order.__getitem__)] = _store_run(group, run)
        ops: list[Op] = []
        for op in self.block.ops:
            if op in last:
                ops.append(last[op])
            elif op not in gone:
                ops.append(op)
        self.block.ops = ops


def _store_run(group: _Group, run: list[int]) -> Op:
    stores = [group.members[at][0] for at in run]
    first, values = stores[0], tuple(op.moved for op in stores)
    new: Op
    if isinstance(first, tile.AtomicRmw):
        new = AtomicRun(first.mem, first.indices, values, mask=first.mask, along=group.along)
    else:
        how = {"slot": first.slot, "evict": first.evict}
        new = StoreRun(first.mem, first.indices, values, mask=first.mask, along=group.along, **how)
    new.loc = first.loc
    return new
