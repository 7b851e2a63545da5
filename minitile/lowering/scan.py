"""Scans: from a tile to registers, lanes and warps, by the levels of its layout (layout/scan.py).

Upwards, each level joins neighbours: registers one after the other; lanes by butterfly shuffles, of which each step
gives a lane the total of the other half, to which it adds its own, and which stands in front of its elements if that
half does; warps by shared memory, where each thread reads the totals of all. Downwards, what stands in front of a
neighbour is joined with what stands in front of them all, and in the end with the elements: two operations an
element, whatever the layout.

    %s = scan %a {dim = 1, kind = "sum"} : tile<1x128xf32, layout<1x128; reg 4:1@1; lane 32:4@1>>
    →
    inclusive sums of 4 registers; 5 shuffles of the last one; 4 additions of what the lanes in front have
"""

from __future__ import annotations

import math

from minitile.ir.core import Op, Value
from minitile.ir.ops import arith, thread
from minitile.ir.ops.scan import Scan
from minitile.ir.types import DType, f32
from minitile.layout import Layout, Level, scan_levels
from minitile.lowering.context import Lowering, Rule, layout_of
from minitile.lowering.exchange import convert, lane_bit, mask_overhang, neutral


def _identity(kind: str, dtype: DType) -> bool | int | float:
    """What changes nothing, not even a NaN: of a number and a NaN the number is the greater and the lesser one."""
    return math.nan if dtype.is_float and kind in ("max", "min") else neutral(kind, dtype)


class _Scan:
    def __init__(self, low: Lowering, op: Scan, dtype: DType) -> None:
        self.low, self.dim, self.reverse = low, op.dim, op.reverse
        self.combine = arith.COMBINE[op.kind]
        self.identity = low.b.constant(_identity(op.kind, dtype), dtype)

    def joined(self, first: Value | None, second: Value) -> Value:
        return second if first is None else self.low.b.value(self.combine(first, second))

    def neighbours(self, value: Value, fine: Layout, level: Level) -> list[Value]:
        """Registers of `fine`, apart by which neighbour they are, from the first of the scan's order; each in the order
        of the registers of `level.after`."""
        where = {at: reg for reg, at in enumerate(fine.register_offsets())}
        outer = level.after.register_offsets()
        found = []
        for n in range(level.size):
            at = [(*o[: self.dim], o[self.dim] * level.size + n, *o[self.dim + 1 :]) for o in outer]
            found.append(self.low.pick(value, [where[o] for o in at]))
        return found[::-1] if self.reverse else found

    def interleaved(self, parts: list[Value], level: Level) -> Value:
        """The inverse of `neighbours`, for `level.before`."""
        place = {at: n for n, at in enumerate(level.after.register_offsets())}
        count = len(place)
        order = []
        for at in level.before.register_offsets():
            outer, n = divmod(at[self.dim], level.size)
            n = level.size - 1 - n if self.reverse else n
            order.append(n * count + place[(*at[: self.dim], outer, *at[self.dim + 1 :])])
        return self.low.pick(self.low.concat(parts), order)

    def run(self, value: Value, layout: Layout) -> Value:
        total = value
        passed: list[tuple[Level, list[Value]]] = []  # what is in front: a part for each neighbour, or only one's own
        for level in scan_levels(layout, self.dim):
            if level.place == "reg":
                parts = self.neighbours(total, level.before, level)
                for n in range(1, level.size):
                    parts[n] = self.joined(parts[n - 1], parts[n])
                total = parts[-1]
            elif level.place == "lane":
                mine, total = self.over_lanes(total, level)
                parts = [mine]
            else:
                mine, total = self.over_warps(total, level)
                parts = [mine]
            passed.append((level, parts))
        front: Value | None = None
        for n, (level, parts) in reversed([*enumerate(passed)]):
            if level.place != "reg":
                front = self.joined(front, parts[0])
            elif n:
                every = [self.joined(front, part) for part in parts[:-1]]
                first = self.low.pick(self.identity, (0,) * thread.count_of(total.type)) if front is None else front
                front = self.interleaved([self.like(first, every[0]), *every], level)
            else:
                return self.interleaved([self.joined(front, part) for part in parts], level)
        return self.joined(front, value)

    def like(self, value: Value, other: Value) -> Value:
        """As many registers as `other` has."""
        count = thread.count_of(other.type)
        return value if thread.count_of(value.type) == count else self.low.pick(value, (0,) * count)

    def over_lanes(self, total: Value, level: Level) -> tuple[Value, Value]:
        """What the lanes in front have, and what all have."""
        b, front = self.low.b, None
        step = 1
        while step < level.size:
            mask = level.divisor * step
            other = b.emit(thread.ShuffleXor(total, mask)).result
            behind = lane_bit(self.low, mask.bit_length() - 1)
            more = other if front is None else self.joined(other, front)
            less = self.like(self.identity, other) if front is None else front
            front = b.select(behind, less, more) if self.reverse else b.select(behind, more, less)
            total = self.joined(total, other)
            step *= 2
        assert front is not None
        return front, total

    def over_warps(self, total: Value, level: Level) -> tuple[Value, Value]:
        """What the warps in front have, and what all have."""
        b, size, divisor = self.low.b, level.size, level.divisor
        parts = self.neighbours(convert(self.low, total, level.before, level.gathered), level.gathered, level)
        total, front = parts[0], self.like(self.identity, parts[0])
        mine: Value = self.low.in_entry(("part", divisor, size), lambda b: self.low.digit(b, divisor, size))
        for n in range(1, size):
            here = b.value(arith.Cmp(mine, b.constant(size - 1 - n if self.reverse else n), "eq"))
            front = b.select(here, total, front)
            total = self.joined(total, parts[n])
        return front, total


def _scan(low: Lowering, op: Scan) -> Value:
    value, dtype, layout = low.get(op.a), op.a.dtype, layout_of(op.a)
    wide = dtype.is_float and dtype.bits < 32  # 16-bit floats are summed in f32
    if wide:
        value = low.b.cast(value, f32)
    if op.reverse:
        value = mask_overhang(low, value, layout, (op.dim,), _identity(op.kind, value.dtype))
    out = _Scan(low, op, value.dtype).run(value, layout)
    return low.b.cast(out, dtype) if wide else out


SCAN_RULES: dict[type[Op], Rule] = {Scan: _scan}
