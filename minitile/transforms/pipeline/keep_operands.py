"""A product's operand that a loop leaves as it is stays in its registers until the loop is done.

    for … {                                   for … {
      %s, %t = wgmma %q, …      (registers)     %s, %t = wgmma %q, …
      %p = … %s …                        →      %p = … %s …
      %o, %u = wgmma %p, …                      %o, %u = wgmma %p, …
    }                                         }
                                              fake_use %q

ptxas 13.0 does not see that %q is read again in the next turn where both operands have one shape and %p ends with its
turn: it gives both the same registers, and from the second turn on the first product reads %p. It does so with any
number of registers and without a word. A use behind the loop, though it is never executed, keeps them apart; it costs
nothing in the loop. (LLVM calls it so, too: llvm.fake.use.)
"""

from __future__ import annotations

from collections.abc import Iterator

from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import control, hopper, roles
from minitile.ir.ops.thread import count_of
from minitile.transforms.manager import PassContext


def keep_operands(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    if context.target.has("wgmma"):
        _keep(kernel.body)


def _keep(block: Block) -> list[Op]:
    """Returns all operations of the block, inner ones too."""
    every: list[Op] = []
    for number in reversed(range(len(block.ops))):
        op = block.ops[number]
        inside: list[Op] = []
        for region in op.regions:
            inside += _keep(region)
        if isinstance(op, control.For | control.While) and (kept := _unchanged(inside, op.regions)):
            use = hopper.FakeUse(kept)
            use.loc = op.loc
            block.ops.insert(number + 1, use)
        every += (op, *inside)
    return every


def _unchanged(inside: list[Op], regions: list[Block]) -> tuple[Value, ...]:
    """Operands in registers that come from in front of a loop, if others are made and used up in a turn of it."""
    operands = dict.fromkeys(_in_registers(inside))
    if not operands:
        return ()
    made = {v for op in inside for v in op.results}
    carried = {v for region in (*regions, *(r for op in inside for r in op.regions)) for v in region.args}
    if made.isdisjoint(operands):
        return ()
    return tuple(v for v in operands if v not in made and v not in carried)


def _in_registers(ops: list[Op]) -> Iterator[Value]:
    for op in ops:
        if isinstance(op, hopper.Wgmma) and count_of(op.a.type) > 1:
            a = op.a
            while isinstance(a.op, roles.Fragment):
                a = a.op.a
            yield a
