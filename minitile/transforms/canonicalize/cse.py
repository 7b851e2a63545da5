"""Common subexpressions: of two equal pure operations the second takes the first one's results.

    %a = mul %by, 128                     %a = mul %by, 128
    for … {                       ->      for … {
      %b = mul %by, 128                     store …[%a]
      store …[%b]                         }
    }

Equal means: same operation, same operands (in any order where it commutes), same attributes and result types. The first
must dominate the second, so what a region computes is forgotten at its end. One walk. A tile that has no layout yet is
left alone: two uses of one value could no longer have layouts of their own.
"""

from __future__ import annotations

from collections.abc import Hashable

from minitile.ir.builder import exact
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import arith
from minitile.ir.rewrite import Rewriter
from minitile.ir.types import TileType
from minitile.transforms.manager import PassContext

_COMMUTES = (arith.Add, arith.Mul, arith.Min, arith.Max, arith.And, arith.Or, arith.Xor)


def cse(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    _Cse().run(kernel)


class _Cse(Rewriter):
    def __init__(self) -> None:
        super().__init__()
        self.known: dict[Hashable, tuple[Value, ...]] = {}

    def block(self, block: Block) -> None:
        outer = self.known
        self.known = dict(outer)
        super().block(block)
        self.known = outer

    def visit(self, op: Op) -> tuple[Value, ...] | None:
        if (
            not op.pure
            or op.region_fields
            or any(isinstance(r.type, TileType) and not r.type.layout for r in op.results)
        ):
            return None
        key = _key(op)
        found = self.known.get(key)
        if found is None:
            self.known[key] = op.results
        return found


def _key(op: Op) -> Hashable:
    if isinstance(op, arith.Constant):
        return exact(op.value), op.dtype
    values = op.operands
    if isinstance(op, _COMMUTES):
        values.sort(key=lambda v: v.serial)
    attributes = [exact(getattr(op, name)) for name, _ in op.attr_fields]
    return type(op), tuple(values), tuple(attributes), tuple([r.type for r in op.results])
