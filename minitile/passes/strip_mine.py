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
computed once, whoever asks: those of a value start at multiples of STRIP. Where no value has LEAST registers, all stays
as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from minitile.ir.builder import Builder
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops.thread import Concat, Pick, count_of
from minitile.ir.rewrite import remake
from minitile.ir.types import RegsType
from minitile.passes.manager import PassContext

STRIP = 8  # registers: what one stmatrix of 16-bit elements stores, and what the legaliser expands functions by
LEAST = 32  # registers


def strip_mine(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    users: dict[Value, list[Op]] = {}
    for op in kernel.walk():
        for value in op.operands:
            users.setdefault(value, []).append(op)
    for block in [kernel.body, *(region for op in kernel.walk() for region in op.regions)]:
        moving = _moving(block, users)
        if any(count_of(op.result.type) >= LEAST for op in moving):
            _Strips(block, moving).run()


def _moving(block: Block, users: dict[Value, list[Op]]) -> set[Op]:
    """The operations that move down. One walk from the end, so that users come first."""
    moving: set[Op] = set()
    near: set[Op] = set()  # what is in reach: moving operations and stores, with nothing between that stops a move
    for op in reversed(block.ops):
        if op.stored:
            near.add(op)
        elif not _strip_wise(op):
            if _stops(op):
                near = set()
        elif all(_takes(user, op.result) and user in near for user in users.get(op.result, ())):
            moving.add(op)
            near.add(op)
    return moving


def _strip_wise(op: Op) -> bool:
    wise = op.elementwise or isinstance(op, (Pick, Concat))
    return wise and isinstance(op.result.type, RegsType)


def _stops(op: Op) -> bool:
    """Whether nothing moves past: it has regions, or makes many registers of others. What only waits does not."""
    many = any(count_of(v.type) >= STRIP for v in (*op.operands, *op.results))
    return bool(op.region_fields) or (many and (op.pure or bool(op.accesses())))


def _takes(user: Op, value: Value) -> bool:
    """Whether a user asks for a value's elements, not for addresses or conditions of accesses."""
    return not user.stored or [v for v in user.operands if v is value] == [getattr(user, user.stored)]


class _Strips:
    """A block, rewritten in place: `made` are the strips of values by their first register."""

    def __init__(self, block: Block, moving: set[Op]) -> None:
        self.block, self.moving = block, moving
        self.b = Builder(block)
        self.made: dict[tuple[Value, int], Value] = {}

    def run(self) -> None:
        old, self.block.ops = self.block.ops, []
        for op in old:
            if op in self.moving:
                continue
            if op.stored:
                value = getattr(op, op.stored)
                setattr(op, op.stored, self.registers(value, range(count_of(value.type))))
            self.b.emit(op)

    def registers(self, value: Value, indices: Sequence[int]) -> Value:
        """Registers of a value, by number."""
        op = value.op
        if op is None or op not in self.moving:
            return self.pick(value, indices)
        if isinstance(op, Pick):
            return self.registers(op.a, [op.indices[n] for n in indices])
        if isinstance(op, Concat):
            places = [(v, n) for v in op.values for n in range(count_of(v.type))]
            asked = groupby((places[n] for n in indices), key=lambda place: place[0])
            return self.concat(self.registers(v, [n for _, n in group]) for v, group in asked)
        starts = list(dict.fromkeys(n // STRIP * STRIP for n in indices))
        strips = [self.strip(op, start) for start in starts]
        first = {start: STRIP * k for k, start in enumerate(starts)}
        return self.pick(self.concat(strips), [first[n // STRIP * STRIP] + n % STRIP for n in indices])

    def strip(self, op: Op, start: int) -> Value:
        key = op.result, start
        if key not in self.made:
            count = count_of(op.result.type)
            which = range(start, min(start + STRIP, count))
            new = remake(op, lambda v: self.registers(v, which) if count_of(v.type) == count else v)
            new.result.name = op.result.name
            self.made[key] = self.b.emit(new).result
        return self.made[key]

    def pick(self, value: Value, indices: Sequence[int]) -> Value:
        if list(indices) == list(range(count_of(value.type))):
            return value
        return self.b.emit(Pick(value, tuple(indices))).result

    def concat(self, values: Iterable[Value]) -> Value:
        found = tuple(values)
        return found[0] if len(found) == 1 else self.b.emit(Concat(found)).result
