"""Examples of a kernel's integers, to refute a claim before a proof of it is tried.

Most claims that a compiler makes are false (`is this index always inside?`), and a search for a proof fails slowly. An
`Example` is one thread of one block of one launch: the dimensions get numbers that the facts allow, block, thread and
loop indices some of theirs, and everything else follows by computing it:

    M = 128 * 4097, %by = M / 128 - 1, %t = 255:      %by * 128 + %t < M        refuted

Examples go by number. The first two have large dimensions, and indices at their first or at their last number, which
refutes most claims; the others are mixed, so that some of them take the branch that a claim is about. What an example
does not know (a loop that is not entered there) it leaves open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from functools import partial

from minitile.analysis.polynomial import Affine
from minitile.ir.builder import COMPARE, INTEGER
from minitile.ir.core import Block, Op, Value
from minitile.ir.ops import arith, control, thread, tile

_DIVISIONS = (arith.FloorDiv, arith.FloorMod, arith.TruncDiv, arith.TruncMod)
_SHIFTS = (arith.Shl, arith.Shr)
_SAME = (arith.Cast, arith.Within, tile.Splat, tile.Expand, tile.Permute, tile.Slice, tile.ConvertLayout, thread.Pick)
_PLAIN, MOST_EXAMPLES, _ENOUGH = 2, 8, 4  # those that are looked at first, and in the end; how many are enough
_SIZES = (4097, 1, 3, 130)  # of dimensions


class Examples:
    """The examples in which some conditions are as they are known to be; looked for as claims need them."""

    def __init__(self, owners: Mapping[Block, Op], factors: Mapping[Value, int], threads: int) -> None:
        self.make = partial(Example, owners, factors, threads)
        self.all: list[Example] = []  # those made so far, whatever the conditions
        self.conditions: list[tuple[Value, bool]] = []
        self.found: list[Example] = []
        self.looked = 0  # at so many of all

    def where(self, condition: Value, holds: bool) -> Examples:
        """Those with one condition more."""
        inner = copy(self)
        inner.conditions = [*self.conditions, (condition, holds)]
        inner.found = [e for e in self.found if e.value(condition) == holds]
        return inner

    def refute(self, a: Affine, harder: bool = False) -> bool:
        """Whether a < 0 in an example: the plain ones, or (`harder`) also in others."""
        while len(self.found) < _ENOUGH and self.looked < (MOST_EXAMPLES if harder else _PLAIN):
            if self.looked == len(self.all):
                self.all.append(self.make(self.looked))
            example = self.all[self.looked]
            self.looked += 1
            if all(example.value(condition) == holds for condition, holds in self.conditions):
                self.found.append(example)
        return self.below(a, 0)

    def below(self, a: Affine, goal: int) -> bool:
        """Whether a < goal in one of the examples found so far."""
        for example in self.found:
            number = example.polynomial(a)
            if number is not None and number < goal:
                return True
        return False


class Example:
    """`owners`: the operations of blocks; `factors`: the dimensions, with what divides them."""

    def __init__(self, owners: Mapping[Block, Op], factors: Mapping[Value, int], threads: int, number: int) -> None:
        self.owners = owners
        self.threads = threads
        self.number = number
        self.seed = number
        self.known: dict[Value, int | None] = {v: f * self.choose((4097,), _SIZES) for v, f in factors.items()}

    def choose(self, plain: Sequence[int], mixed: Sequence[int]) -> int:
        """One of the mixed numbers; in the first two examples, the first or the last of the plain ones."""
        if self.number < 2:
            return plain[-self.number]
        self.seed = (self.seed * 1103515245 + 12345) % (1 << 31)
        return mixed[(self.seed >> 16) % len(mixed)]

    def index(self, count: int) -> int:
        """One of so many numbers from 0 on."""
        return self.choose((0, count - 1), (0, count - 1, count // 2))

    def polynomial(self, a: Affine) -> int | None:
        """The number that a polynomial comes to; None if that is open."""
        total = a.const
        known = self.known
        for m, c in a.terms.items():
            for v in m:
                number = known[v] if v in known else self.value(v)
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
        op = v.op
        number = self.argument(v) if op is None else self.result(v, op)
        if number is not None and not _fits(number, v):
            number = None
        self.known[v] = number
        return number

    def argument(self, v: Value) -> int | None:
        owner = self.owners.get(v.owner) if isinstance(v.owner, Block) else None
        if isinstance(owner, control.Launch):
            extent = self.value(owner.grid[v.index])
            return None if extent is None or extent < 1 else self.index(extent)
        if isinstance(owner, control.Parallel):
            return self.index(owner.extents[v.index])
        if isinstance(owner, control.For) and v.index == 0:
            lower, upper, step = (self.value(o) for o in (owner.lower, owner.upper, owner.step))
            if lower is None or upper is None or step is None or lower >= upper or step < 1:
                return None
            return lower + self.index((upper - 1 - lower) // step + 1) * step
        return self.any(v)

    def result(self, v: Value, op: Op) -> int | None:
        if isinstance(op, (arith.Binary, arith.Cmp)):
            return self.binary(op)
        if isinstance(op, arith.Constant):
            return int(op.value) if v.dtype.is_int or v.dtype.kind == "bool" else None
        if isinstance(op, (tile.ThreadIndex, thread.Special)):
            return self.special(op.register if isinstance(op, thread.Special) else "tid.x")
        if isinstance(op, tile.Iota):
            return self.index(op.shape[op.dim])
        if isinstance(op, control.If):
            condition = self.value(op.condition)
            taken = op.then if condition else op.orelse
            return None if condition is None else self.value(taken.yielded[v.index])
        if isinstance(op, arith.Select):
            condition = self.value(op.condition)
            return None if condition is None else self.value(op.a if condition else op.b)
        if isinstance(op, arith.Neg):
            a = self.value(op.a)
            return None if a is None else -a
        if isinstance(op, _SAME):
            source = op.operands[0]
            return self.value(source) if source.dtype.is_int or source.dtype.kind == "bool" else 1
        return self.any(v)

    def any(self, v: Value) -> int:
        """A number for what may be any; 4 and 8 are the warps that copy, behind those that multiply."""
        return self.choose((1,), (0, 1, -3, 4, 8)) if v.dtype.kind == "int" else 1

    def special(self, register: str) -> int:
        if register == "tid.x":
            warpgroup = max(self.threads - 128, 0)  # the last one: a role of its own may begin there
            return self.choose((0, self.threads - 1), (0, 0, self.threads - 1, warpgroup))
        if register.startswith("ctaid"):
            return self.choose((0, 4096), (0, 1, 5))
        return 0

    def binary(self, op: arith.Binary | arith.Cmp) -> int | None:
        if op.a.dtype.is_float:
            return 1
        a, b = self.value(op.a), self.value(op.b)
        if a is None or b is None:
            return None
        if isinstance(op, arith.Cmp):
            return int(COMPARE[op.predicate](a, b))
        if b == 0 and isinstance(op, _DIVISIONS):
            return None
        if not 0 <= b < 64 and isinstance(op, _SHIFTS):
            return None
        compute = INTEGER.get(type(op))
        return None if compute is None else compute(a, b)


def _fits(number: int, v: Value) -> bool:
    """Whether it is a number of the value's type; i32 and i64 are taken to be as large as needed."""
    d = v.dtype
    return not d.is_int or (d.signed and d.bits >= 32) or number in d.integers
