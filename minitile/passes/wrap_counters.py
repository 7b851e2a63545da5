"""A loop counter modulo a constant becomes a counter that wraps: no division in the loop.

    for 0, %n, 1 (%k) {                     for 0, %n, 1, [0] (%k, %w) {
      %s = truncmod %k, 3             ->      …                                     %s is %w
      …                                       %w1 = add %w, 1
                                              %c = cmp %w1, 3 {predicate = "eq"}
                                              %w2 = select %c, 0, %w1
    }                                         yield %w2
                                            }

For `(iv + c) mod n`, constant lower bound and step, n no power of two (else it is an `and` already). Stands behind the passes
that tell slots apart by their modulus.
"""

from __future__ import annotations

from minitile.ir.builder import Builder, constant_of
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import arith, control
from minitile.passes.manager import PassContext


def wrap_counters(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    _block(kernel.body)


def _block(block: Block) -> None:
    ops: list[Op] = []
    for op in block.ops:
        for region in op.regions:
            _block(region)
        if isinstance(op, control.For):
            ops += _wrap(op)
        ops.append(op)
    block.ops = ops


def _wrap(loop: control.For) -> list[Op]:
    """Wrap the counters of one loop; the constants that they start from, to stand in front of it."""
    lower, step = constant_of(loop.lower), constant_of(loop.step)
    if lower is None or step is None or lower < 0:
        return []
    found: dict[tuple[int, int], list[Op]] = {}
    for op in loop.body.walk():
        if isinstance(op, (arith.TruncMod, arith.FloorMod)):
            shift, modulus = _distance(op.a, loop.iv), constant_of(op.b)
            if shift is not None and modulus and lower + shift >= 0 and step < modulus:
                found.setdefault((shift, modulus), []).append(op)
    if not found:
        return []
    end = loop.body.ops.pop()
    assert isinstance(end, control.Yield)
    b = Builder(loop.body, loop.loc)
    renamed: dict[Value, Value] = {}
    starts: list[Op] = []
    for (shift, modulus), ops in found.items():
        start = arith.Constant((lower + shift) % modulus, loop.iv.dtype)
        counter = loop.body.add_arg(loop.iv.type, ops[0].results[0].name or "slot")
        moved = b.add(counter, step)
        back = b.sub(moved, modulus) if step > 1 else b.constant(0, counter.dtype)
        end.values = (*end.values, b.select(b.compare("ge", moved, modulus), back, moved))
        loop.init = (*loop.init, start.result)
        starts.append(start)
        renamed.update({op.results[0]: counter for op in ops})
    loop.body.ops.append(end)
    for op in loop.body.walk():
        op.replace_operands(lambda v: renamed.get(v, v))
    last = [Value(v.type, loop, n) for n, v in enumerate(loop.init) if n >= len(loop.results)]
    loop.results = (*loop.results, *last)
    return starts


def _distance(value: Value, iv: Value) -> int | None:
    """c where value is iv + c."""
    if value is iv:
        return 0
    op = value.op
    if isinstance(op, arith.Add) and op.a is iv:
        found: int | None = constant_of(op.b)
        return found
    return None
