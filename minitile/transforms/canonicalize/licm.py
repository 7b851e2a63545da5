"""Loop-invariant code: a pure operation none of whose operands is made in the loop moves in front of it.

    for … (%k) {                          %r = mul %by, %K
      %r = mul %by, %K                    for … (%k) {
      %a = add %r, %k             ->        %a = add %r, %k
    }                                     }

It moves out of as many loops as it can at once, and out of branches on the way: nothing pure traps. An `if` alone is no
reason to move. Only scalars and a few registers do: what is held through a loop costs registers all the way. One walk:
while a loop's body is being rewritten, the operations in front of it are already in place, and what is hoisted goes
behind them.
"""

from __future__ import annotations

from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import control
from minitile.ir.types import RegsType, ScalarType, Type
from minitile.transforms.manager import PassContext

MOST_WORDS = 8  # 32-bit registers that one hoisted operation may keep busy


def licm(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    _Hoist().block(kernel.body, in_loop=False)


class _Hoist:
    """`blocks` are the operations kept so far of the blocks around, outermost first, each with whether it is a loop's
    body. `level` says in which of them a value is made."""

    def __init__(self) -> None:
        self.blocks: list[tuple[list[Op], bool]] = []
        self.level: dict[Value, int] = {}

    def block(self, block: Block, in_loop: bool) -> None:
        here = len(self.blocks)
        kept: list[Op] = []
        self.blocks.append((kept, in_loop))
        for a in block.args:
            self.level[a] = here
        for op in block.ops:
            target = self.target(op, here) if op.pure and all(_is_cheap(r.type) for r in op.results) else here
            for region in op.regions:
                self.block(region, isinstance(op, control.Loop))
            for r in op.results:
                self.level[r] = target
            self.blocks[target][0].append(op)
        self.blocks.pop()
        block.ops = kept

    def target(self, op: Op, here: int) -> int:
        """In front of the outermost loop that the operation can leave; branches on the way are left with it."""
        needed = max((self.level.get(v, 0) for v in op.operands), default=0)
        best = here
        for level in range(here, needed, -1):
            if self.blocks[level][1]:
                best = level - 1
        return best


def _is_cheap(t: Type) -> bool:
    if isinstance(t, RegsType):
        return t.count * t.dtype.bits <= 32 * MOST_WORDS
    return isinstance(t, ScalarType)
