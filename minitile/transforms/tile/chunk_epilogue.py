"""What is computed element by element for a store is computed a strip of registers at a time, right where it is stored.

    %b = add %acc, %bias : regs<64xf32>           %a0 = pick %acc (0..7) ; %b0 = add %a0, … ; %g0 = gelu %b0
    %g = gelu %b                                  … strips 1, 2, 3
    store %x, pick %g (0..31)              →      store %x, concat %g0, %g1, %g2, %g3
    store %y, pick %g (32..63)                    … strips 4 to 7
                                                  store %y, concat %g4, %g5, %g6, %g7

Operation by operation, all of a tile's intermediate values are registers at once, and the assembler does not reorder a
thousand instructions to undo that. Strip by strip only the tile itself stays, and where a tile is staged part by part,
one part is on its way while the next one is computed.

An operation moves down if it works register by register (`Op.elementwise`, or only gives registers other numbers), and
all its results go to such operations and, in the end, into memory (`Op.stored`), in the same block. Nothing moves past
what makes many registers of others or has regions: a multiplication updates its accumulators in place. Strips are
computed once, for all users: those of a value start at multiples of STRIP. Where no value has LEAST registers, all
stays as it is.

What several stores need a part each of is loaded in parts as well: that of the first store where the load stands, the
others each in front of their store's strips.

    %v = load_mem …, %bias : regs<48xf32>         %v0 = load_mem …, %bias : regs<16xf32>
    %acc = await %f                               %acc = await %f
    %b = add %acc, %v                      →      %b0 = add %acc0, %v0 …
    store %x, pick %b (0..31)                     store %x, %b0
    store %y, pick %b (32..63)                    %v1 = load_mem …, %bias : regs<16xf32>
    …                                             %b1 = add %acc1, %v1 …

A load moves if nothing writes its tensor, or, of shared memory, if up to the last of its stores nothing writes there
and no arrival says that it has been read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import groupby

from minitile.ir.builder import Builder
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops.thread import Concat, Pick, count_of
from minitile.ir.rewrite import remake
from minitile.ir.types import RegsType, TensorType
from minitile.transforms.manager import PassContext

STRIP = 8  # registers: what one stmatrix of 16-bit elements stores, and what the legaliser expands functions by
LEAST = 32  # registers

_Writers = dict[
    Value | None, set[Value | None]
]  # by memory, the pipelines that order the writes to it; None: barriers do


def chunk_epilogue(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    users: dict[Value, list[Op]] = {}
    writers: _Writers = {}
    for op in kernel.walk():
        for value in op.operands:
            users.setdefault(value, []).append(op)
        for access in op.accesses() if not op.regions else ():
            if access.writes:
                writers.setdefault(access.mem, set()).add(access.pipeline)
    for block in [kernel.body, *(region for op in kernel.walk() for region in op.regions)]:
        moving = _moving(block, users, writers)
        if any(count_of(op.result.type) >= LEAST for op in moving):
            _Strips(block, moving).run()


def _moving(block: Block, users: dict[Value, list[Op]], writers: _Writers) -> set[Op]:
    """The operations that move down. One walk from the end, so that users come first."""
    moving: set[Op] = set()
    near: dict[Op, set[int]] = {}  # moving operations and stores, with nothing between that stops a move: whose stores
    for n in range(len(block.ops) - 1, -1, -1):
        op = block.ops[n]
        if op.stored:
            near[op] = {n}
            continue
        if _strip_wise(op) or op.grain:
            used = users.get(op.result, ())
            if all(_takes(user, op.result) and user in near for user in used):
                stores = {store for user in used for store in near[user]}
                if not op.grain or (len(stores) > 1 and _may_wait(op, block.ops[n + 1 : max(stores)], writers)):
                    moving.add(op)
                    near[op] = stores
                    continue
        if near and not _strip_wise(op) and _stops(op):
            near = {}
    return moving


def _may_wait(load: Op, ops: Sequence[Op], writers: _Writers) -> bool:
    """Whether a load may be made behind these operations. What it has read of shared memory may be overwritten once
    those have been told what writes there."""
    (read,) = load.accesses()
    if count_of(load.result.type) < STRIP or None in writers:
        return False
    theirs = writers.get(read.mem, set())
    if read.mem is None or isinstance(read.mem.type, TensorType):
        return not theirs
    told = [s for op in ops for s in op.syncs() if s.releases and (s.kind == "meet" or {s.on, None} & theirs)]
    return not told and not any(access.writes and access.mem is read.mem for op in ops for access in op.accesses())


def _strip_wise(op: Op) -> bool:
    wise = op.elementwise or isinstance(op, (Pick, Concat))
    return wise and len(op.results) == 1 and isinstance(op.result.type, RegsType)


def _stops(op: Op) -> bool:
    """Whether nothing moves past: it has regions, or makes many registers of others. What only waits does not."""
    many = any(count_of(v.type) >= STRIP for v in (*op.operands, *op.results))
    return bool(op.region_fields) or (many and (op.pure or bool(op.accesses())))


def _takes(user: Op, value: Value) -> bool:
    """Whether a user asks for a value's elements, not for addresses or conditions of accesses."""
    if user.stored:
        return [v for v in user.operands if v is value] == [getattr(user, user.stored)]
    return not user.grain


class _Strips:
    """A block, rewritten in place: `made` are the strips of values by their first register."""

    def __init__(self, block: Block, moving: set[Op]) -> None:
        self.block, self.moving = block, moving
        self.b = Builder(block)
        self.made: dict[tuple[Value, int], Value] = {}
        self.stores = [op for op in block.ops if op.stored and getattr(op, op.stored).op in moving][::-1]
        self.loads: set[Op] = set()  # those passed

    def run(self) -> None:
        old, self.block.ops = self.block.ops, []
        for op in old:
            if op in self.moving:
                if op.grain:
                    self.loads.add(op)
                    self.fetch({op})
                continue
            if self.stores and op is self.stores[-1]:
                self.fetch(self.loads)
                self.stores.pop()
            if op.stored:
                value = getattr(op, op.stored)
                setattr(op, op.stored, self.registers(value, range(count_of(value.type))))
            self.b.emit(op)

    def fetch(self, loads: set[Op]) -> None:
        """What the store that comes next needs of these loads."""
        if loads and self.stores:
            value = getattr(self.stores[-1], self.stores[-1].stored)
            for op, start in self.needs(value, range(count_of(value.type))):
                if op in loads:
                    self.strip(op, start)

    def registers(self, value: Value, indices: Sequence[int]) -> Value:
        """Registers of a value, by number."""
        op = value.op
        if op is None or op not in self.moving:
            return self.pick(value, indices)
        if isinstance(op, Pick):
            return self.registers(op.a, [op.indices[n] for n in indices])
        if isinstance(op, Concat):
            return self.concat(self.registers(v, numbers) for v, numbers in _of_each(op, indices))
        size = _strip_of(op)
        starts = list(dict.fromkeys(n // size * size for n in indices))
        strips = [self.strip(op, start) for start in starts]
        first = {start: size * k for k, start in enumerate(starts)}
        return self.pick(self.concat(strips), [first[n // size * size] + n % size for n in indices])

    def strip(self, op: Op, start: int) -> Value:
        key = op.result, start
        if key not in self.made:
            count = count_of(op.result.type)
            which = range(start, min(start + _strip_of(op), count))
            if op.grain:
                new = op.part(which.start, which.stop)
            else:
                new = remake(op, lambda v: self.registers(v, which) if count_of(v.type) == count else v)
            new.result.name = op.result.name
            self.made[key] = self.b.emit(new).result
        return self.made[key]

    def needs(self, value: Value, indices: Sequence[int]) -> dict[tuple[Op, int], None]:
        """The strips of loads that registers of a value are made from."""
        found: dict[tuple[Op, int], None] = {}
        seen: set[tuple[Value, tuple[int, ...]]] = set()
        work = [(value, tuple(indices))]
        while work:
            value, numbers = item = work.pop()
            op = value.op
            if op is None or op not in self.moving or item in seen:
                continue
            seen.add(item)
            if isinstance(op, Pick):
                work.append((op.a, tuple(op.indices[n] for n in numbers)))
            elif isinstance(op, Concat):
                work += [(v, tuple(own)) for v, own in _of_each(op, numbers)][::-1]
            elif op.grain:
                found.update(dict.fromkeys((op, n // _strip_of(op) * _strip_of(op)) for n in numbers))
            else:
                count = count_of(value.type)
                work += [(v, numbers) for v in op.operands[::-1] if count_of(v.type) == count]
        return found

    def pick(self, value: Value, indices: Sequence[int]) -> Value:
        if list(indices) == list(range(count_of(value.type))):
            return value
        return self.b.emit(Pick(value, tuple(indices))).result

    def concat(self, values: Iterable[Value]) -> Value:
        found = tuple(values)
        return found[0] if len(found) == 1 else self.b.emit(Concat(found)).result


def _strip_of(op: Op) -> int:
    """How many registers a strip of an operation has: whole accesses of a load."""
    return math.lcm(STRIP, op.grain or 1)


def _of_each(op: Concat, indices: Iterable[int]) -> Iterable[tuple[Value, list[int]]]:
    """Registers of what is put together, by number: of which operand, and which of its own."""
    places = [(v, n) for v in op.values for n in range(count_of(v.type))]
    for v, group in groupby((places[n] for n in indices), key=lambda place: place[0]):
        yield v, [n for _, n in group]
