"""What a loop computes from its counter becomes a carried value that steps along: no multiplication, no division.

    for 0, %n, 1 (%k) {                     for 0, %n, 1, [%base, 0] (%k, %p, %w) {
      %o = mul %k, 64:i64                     …                                  %a is %p, %s is %w
      %a = add %base, %o                      %p1 = add %p, 64:i64
      %s = truncmod %k, 3             ->      %w1 = add %w, 1
      …                                       %c = cmp %w1, 3 {predicate = "ge"}
    }                                         %w2 = select %c, 0, %w1
                                              yield %p1, %w2
                                            }

Two shapes: an i64 sum (an address) of something invariant and a multiple of the counter; and (counter + c) mod n, for a
constant lower bound and step. An address that steps in place costs one addition and, once `dead_code` has removed what
it was computed from, no second register. The pass stands behind those that tell slots apart by their modulus.
"""

from __future__ import annotations

from collections.abc import Callable

from minitile.ir.builder import Builder, constant_of
from minitile.ir.core import Kernel, Value
from minitile.ir.ops import arith, control
from minitile.ir.rewrite import rewrite_loops
from minitile.ir.types import I64, i64
from minitile.transforms.manager import PassContext


def strength_reduction(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    rewrite_loops(kernel.body, lambda loop, before: _Stepper(loop, Builder(before, loop.loc)).run())


class _Stepper:
    """One loop; `before` writes in front of it."""

    def __init__(self, loop: control.For, before: Builder) -> None:
        self.loop = loop
        self.before = before
        self.step = constant_of(loop.step)
        self.inside: set[Value] = {v for op in loop.body.walk() for v in op.results} | set(loop.body.args)
        for op in loop.body.walk():
            for region in op.regions:
                self.inside.update(region.args)
        self.lines: dict[Value, tuple[int, int] | None] = {}
        self.renamed: dict[Value, Value] = {}

    def run(self) -> None:
        loop = self.loop
        if self.step is None or loop.body.terminator is None:
            return
        end = loop.body.ops.pop()
        assert isinstance(end, control.Yield)
        after = Builder(loop.body, loop.loc)
        wrapped: dict[tuple[int, int], Value] = {}
        for op in list(loop.body.walk()):
            if isinstance(op, (arith.TruncMod, arith.FloorMod)):
                self.wrap(op, end, after, wrapped)
            elif isinstance(op, arith.Add) and op.result.type == I64:
                self.advance(op, end, after)
        loop.body.ops.append(end)
        for op in loop.body.walk():
            op.replace_operands(lambda v: self.renamed.get(v, v))
        more = [Value(v.type, loop, n) for n, v in enumerate(loop.init) if n >= len(loop.results)]
        loop.results = (*loop.results, *more)

    def carry(self, start: Value, name: str, end: control.Yield, make_next: Callable[[Value], Value]) -> Value:
        """A new carried value."""
        current = self.loop.body.add_arg(start.type, name)
        self.loop.init = (*self.loop.init, start)
        end.values = (*end.values, make_next(current))
        return current

    def wrap(self, op: arith.Binary, end: control.Yield, after: Builder, known: dict[tuple[int, int], Value]) -> None:
        line, modulus, lower = self.line(op.a), constant_of(op.b), constant_of(self.loop.lower)
        step = self.step
        if line is None or line[0] != 1 or not modulus or lower is None or step is None:
            return
        if lower + line[1] < 0 or step >= modulus:
            return
        key = (line[1], modulus)
        if key not in known:
            start = self.before.constant((lower + line[1]) % modulus, op.result.dtype)

            def make_next(current: Value) -> Value:
                moved = after.add(current, step)
                back = after.constant(0, moved.dtype) if step == 1 else after.sub(moved, modulus)
                return after.select(after.compare("ge", moved, modulus), back, moved)

            known[key] = self.carry(start, op.result.name or "slot", end, make_next)
        self.renamed[op.result] = known[key]

    def advance(self, op: arith.Add, end: control.Yield, after: Builder) -> None:
        step = self.step
        for base, moving in ((op.a, op.b), (op.b, op.a)):
            line = self.line(moving)
            if base in self.inside or line is None or not line[0] or step is None:
                continue
            lower = self.before.mul(self.before.cast(self.loop.lower, i64), line[0])
            start = self.before.add(self.before.add(base, lower), line[1])
            self.renamed[op.result] = self.carry(
                start,
                op.result.name,
                end,
                lambda v, by=line[0] * step: after.add(v, by),  # type: ignore[misc]
            )
            return

    def line(self, value: Value) -> tuple[int, int] | None:
        """(a, b) where value is a * counter + b."""
        if value not in self.lines:
            self.lines[value] = self._line(value)
        return self.lines[value]

    def _line(self, value: Value) -> tuple[int, int] | None:
        if value is self.loop.iv:
            return 1, 0
        op = value.op
        if value.dtype.kind == "uint":  # wraps, which a line does not
            return None
        if isinstance(op, arith.Constant):
            return 0, int(op.value)
        if value not in self.inside:
            return None
        if isinstance(op, arith.Cast) and op.a.dtype.is_int and op.to.bits >= op.a.dtype.bits:
            return self.line(op.a)
        if isinstance(op, (arith.Add, arith.Sub, arith.Mul)):
            a, b = self.line(op.a), self.line(op.b)
            if a is None or b is None:
                return None
            if isinstance(op, arith.Mul):
                factor, line = (a[1], b) if not a[0] else (b[1], a)
                return None if a[0] and b[0] else (factor * line[0], factor * line[1])
            sign = 1 if isinstance(op, arith.Add) else -1
            return a[0] + sign * b[0], a[1] + sign * b[1]
        return None
