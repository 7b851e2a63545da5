"""Examples of a kernel's integers, to refute a claim before a proof of it is tried.

Most claims that a compiler makes are false (`is this index always inside?`), and a search for a proof fails slowly. An
`Example` is one thread of one block of one launch: the dimensions get large numbers that the facts allow, block, thread
and loop indices their first or their last number, and everything else follows by computing it:

    M = 128 * 4097, %by = M / 128 - 1, %t = 255:      %by * 128 + %t < M        refuted

What an example does not know (a loop that is not entered there) it leaves open.
"""

from __future__ import annotations

from collections.abc import Mapping

from minitile.ir.builder import COMPARE, INTEGER
from minitile.ir.core import Block, Op, Value
from minitile.ir.ops import arith, control, thread, tile
from minitile.passes.polynomial import Affine

_DIVISIONS = (arith.FloorDiv, arith.FloorMod, arith.TruncDiv, arith.TruncMod)
_SHIFTS = (arith.Shl, arith.Shr)


class Example:
    """`last`: indices at their last number rather than their first."""

    def __init__(self, owners: Mapping[Block, Op], factors: Mapping[Value, int], threads: int, last: bool) -> None:
        self.owners = owners
        self.threads = threads
        self.last = last
        self.known: dict[Value, int | None] = {v: f * 4097 for v, f in factors.items()}

    def polynomial(self, a: Affine) -> int | None:
        """The number that a polynomial comes to; None if that is open."""
        total = a.const
        for m, c in a.terms.items():
            for v in m:
                number = self.value(v)
                if number is None:
                    return None
                c *= number
            total += c
        return total

    def value(self, v: Value) -> int | None:
        """The number of an integer or bool."""
        if v in self.known:
            return self.known[v]
        self.known[v] = None
        number = self.known[v] = self.argument(v) if v.op is None else self.result(v, v.op)
        return number

    def argument(self, v: Value) -> int | None:
        owner = self.owners.get(v.owner) if isinstance(v.owner, Block) else None
        if isinstance(owner, control.Launch):
            extent = self.value(owner.grid[v.index])
            return None if extent is None or extent < 1 else (extent - 1) * self.last
        if isinstance(owner, control.Parallel):
            return (owner.extents[v.index] - 1) * self.last
        if isinstance(owner, control.For) and v.index == 0:
            lower, upper, step = (self.value(o) for o in (owner.lower, owner.upper, owner.step))
            if lower is None or upper is None or step is None or lower >= upper or step < 1:
                return None
            return lower + (upper - 1 - lower) // step * step * self.last
        return 1

    def result(self, v: Value, op: Op) -> int | None:
        if isinstance(op, arith.Constant):
            return int(op.value) if v.dtype.is_int or v.dtype.kind == "bool" else None
        if isinstance(op, (tile.ThreadIndex, thread.Special)):
            return self.special(op.register if isinstance(op, thread.Special) else "tid.x")
        if isinstance(op, tile.Iota):
            return (op.shape[op.dim] - 1) * self.last
        if isinstance(op, control.If):
            condition = self.value(op.condition)
            taken = op.then if condition else op.orelse
            return None if condition is None else self.value(taken.yielded[v.index])
        if isinstance(op, arith.Select):
            condition = self.value(op.condition)
            return None if condition is None else self.value(op.a if condition else op.b)
        if isinstance(op, (arith.Binary, arith.Cmp)):
            return self.binary(op)
        if isinstance(op, arith.Neg):
            a = self.value(op.a)
            return None if a is None else -a
        if isinstance(op, (arith.Cast, tile.Splat, tile.Expand, tile.Permute)):
            source = op.operands[0]
            return self.value(source) if source.dtype.is_int or source.dtype.kind == "bool" else 1
        return 1

    def special(self, register: str) -> int:
        if register == "tid.x":
            return (self.threads - 1) * self.last
        if register.startswith("ctaid"):
            return 4096 * self.last
        return 0

    def binary(self, op: arith.Binary | arith.Cmp) -> int | None:
        if op.a.dtype.is_float:
            return 1
        a, b = self.value(op.a), self.value(op.b)
        if a is None or b is None:
            return None
        if isinstance(op, arith.Cmp):
            return int(COMPARE[op.predicate](a, b))
        if isinstance(op, _DIVISIONS) and b == 0:
            return None
        if isinstance(op, _SHIFTS) and not 0 <= b < 64:
            return None
        compute = INTEGER.get(type(op))
        return None if compute is None else compute(a, b)
