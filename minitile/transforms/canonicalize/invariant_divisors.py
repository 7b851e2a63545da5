"""In a persistent block's loop over tiles, a division by what never changes becomes a multiplication.

    for %t = %block, %tiles, %blocks {apart} {       %m = truncdiv 4294967295, max(%d, 1)
      %q = truncdiv %t, %d : u32                     for %t = … {
      %r = truncmod %t, %d : u32               →       %q0 = (%t · %m) >> 32 ;  %r0 = %t - %q0 · %d
                                                       twice: where %r0 >= %d, one more of %q0 and %d less of %r0

A tile's place takes some divisions, each of which needs the one before; a tile cannot begin without. The hardware has
none: a reciprocal in floats, converted there and back, takes some hundred cycles. Here the reciprocal, a whole number,
is made once.

With M = 2^32 - 1 and m = floor(M / d), t · m / 2^32 is more than t / d - 1 / d - 1, so that its floor is short of the
quotient by at most 2 (by 1 for d = 1, where m is M). Constants as well, since ptxas divides a number that is the same
in all threads by a constant's reciprocal in floats, too; but for powers of two.
"""

from __future__ import annotations

from minitile.ir.builder import Builder, constant_of
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import arith, control
from minitile.ir.ops.thread import count_of
from minitile.ir.types import RegsType, u32, u64
from minitile.transforms.manager import PassContext

MOST = (1 << 32) - 1
SHORT = 2  # at most, of the quotient
LARGEST = 96  # registers of a tile: with 128, attention of heads of 256 spilled


def invariant_divisors(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    _block(kernel.body)


def _block(block: Block) -> None:
    for op in [op for op in block.ops if op.region_fields]:
        if isinstance(op, control.For | control.While) and op.apart:
            before = Block()
            _Loop(op, before).run()
            at = block.ops.index(op)
            block.ops[at:at] = before.ops
        else:
            for region in op.regions:
                _block(region)


class _Loop:
    """One loop; `before` is where its reciprocals are made."""

    def __init__(self, loop: control.For | control.While, before: Block) -> None:
        self.loop, self.before = loop, Builder(before, loop.loc)
        self.inside = {v for op in loop.body.walk() for v in op.results} | set(loop.body.args)
        for op in loop.body.walk():
            for region in op.regions:
                self.inside.update(region.args)
        self.reciprocals: dict[Value, Value] = {}

    def run(self) -> None:
        if any(map(self.applies, self.loop.body.walk())) and self.has_room():
            self.rewrite(self.loop.body, {})

    def applies(self, op: Op) -> bool:
        if not isinstance(op, (arith.TruncDiv, arith.TruncMod)) or op.result.type != op.b.type:
            return False
        number = constant_of(op.b)
        power_of_two = isinstance(number, int) and number & (number - 1) == 0
        return op.result.dtype is u32 and not power_of_two and (number is not None or op.b not in self.inside)

    def has_room(self) -> bool:
        """Whether a thread can hold reciprocals all the time besides the loop's tiles."""
        return all(count_of(v.type) <= LARGEST for v in self.inside if isinstance(v.type, RegsType))

    def rewrite(self, block: Block, renamed: dict[Value, Value]) -> None:
        ops, block.ops = block.ops, []
        b = Builder(block)
        known: dict[tuple[Value, Value], tuple[Value, Value]] = {}
        for op in ops:
            applies = self.applies(op)
            op.replace_operands(lambda v: renamed.get(v, v))
            if applies:
                assert isinstance(op, (arith.TruncDiv, arith.TruncMod))
                b.loc = op.loc
                pair = op.a, op.b
                if pair not in known:
                    known[pair] = self.divide(b, *pair)
                renamed[op.result] = known[pair][isinstance(op, arith.TruncMod)]
                continue
            for region in op.regions:
                self.rewrite(region, renamed)
            b.emit(op)

    def divide(self, b: Builder, n: Value, d: Value) -> tuple[Value, Value]:
        """Quotient and remainder."""
        number = constant_of(d)
        if isinstance(number, int):
            self.reciprocals[d] = b.constant(MOST // number, u32)
        elif d not in self.reciprocals:
            least = self.before.value(arith.Max(d, self.before.constant(1, u32)))
            self.reciprocals[d] = self.before.value(arith.TruncDiv(self.before.constant(MOST, u32), least))
        product = b.value(arith.Mul(b.cast(n, u64), b.cast(self.reciprocals[d], u64)))
        q = b.cast(b.value(arith.Shr(product, b.constant(32, u64))), u32)
        r = b.value(arith.Sub(n, b.value(arith.Mul(q, d))))
        for _ in range(SHORT):
            short = b.value(arith.Cmp(r, d, "ge"))
            q = b.value(arith.Select(short, b.value(arith.Add(q, b.constant(1, u32))), q))
            r = b.value(arith.Select(short, b.value(arith.Sub(r, d)), r))
        return q, r
