"""Index arithmetic that 32 bits do not hold is done in 64.

Dimensions, block indices and loop variables are i32, and so is what Python computes from them. That arithmetic never
overflows: for each sum and product of them, and for each index of memory, this pass sees to one of three things.

    proved      from how large dimensions are (each is less than 2^30, unless it is one of kernel.attrs["large"]),
                grids, loops and constants: `Facts.fits`. Nothing changes.
    checked     where the launch can say how large it becomes, no dimension is large and kernel.attrs["exact"] is not
                set: what it has to compare is left in kernel.attrs["fits"]. Nothing else changes; a call for which it
                does not hold runs the kernel compiled as "exact".
    done in 64  otherwise, with all that is computed from it, until that is proved to fit again:

        %n = mul %b, 268435456 : i32                    %b1 = cast %b {to = i64}
        %i = add %n, %j                                 %n = mul %b1, 268435456 : i64
        store %x, %A[%i]                        →       %j1 = cast %j {to = i64}
        %r = floormod %i, 32                            %i = add %n, %j1
        ...                                             store %x, %A[%i]
                                                        %r1 = floormod %i, 32
                                                        %r = cast %r1 {to = i32}

Limits leave room (`LOWEST`, `HIGHEST`) for what later passes add, index + place in the tile and size - index, so that
these fit as well. Sums wrap in two's complement, so that only their ends matter; but the parts of a sum are extended
apart (by loop depth), so that the positive and the negative ones have to fit by themselves.

In a kernel with large dimensions, or an exact one, numbers that a loop or a branch carries on are in 64 bits where
everything they come from is such arithmetic. Else they keep their type, and wrap, as do numbers loaded from memory,
counters of loops to an end that is loaded, and unsigned ones: bounds are checked with what they are. What is loaded
takes part in 64 bits beside what is in 64.
A kernel in which anything is done in 64 bits is "wide": then code for its indices is chosen by proofs alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from minitile.analysis.affine import Affine, Facts
from minitile.analysis.launch_bounds import LaunchBounds
from minitile.ir.builder import Builder, constant_of
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import arith, control
from minitile.ir.rewrite import Rewriter, erase_unused
from minitile.ir.types import I32, I64, i32, i64

if TYPE_CHECKING:
    from minitile.transforms.manager import PassContext

_GROW = (arith.Add, arith.Sub, arith.Mul, arith.Neg, arith.Shl, arith.Abs)  # more than either operand, maybe
_ARITHMETIC = (arith.Binary, arith.Unary, arith.Select)


def index_widths(kernel: Kernel, context: PassContext) -> None:
    facts = Facts(kernel, bounded=True)
    wide: set[Value] = {v for name, v in kernel.dims.items() if name in kernel.attrs.get("large", ())}
    exact = bool(wide or kernel.attrs.get("exact"))
    fits = Conditions(kernel, facts, exact)
    ways = {op: _way(op) for op in kernel.walk() if isinstance(op, arith.Within)}
    known = set().union(*ways.values())
    for op in kernel.walk():
        if op in known:
            continue
        for v, needed in _limits(op, ways[op], facts) if isinstance(op, arith.Within) else _needs(op, facts):
            if not fits.holds(needed) and v.type == I32 and not isinstance(v.op, arith.Cast):
                wide.add(v)
    if fits.found:
        kernel.attrs["fits"] = tuple(("less", each, limit) for each, limit in fits.found.items())
    if known:
        _forget(kernel)
    if not wide and not fits.failed and not exact:
        return
    if exact:
        wide |= _carried(kernel)
    _spread(kernel, facts, wide)
    kernel.attrs["wide"] = True
    if wide:
        _Widen(wide).run(kernel)
        erase_unused(kernel)


def _way(op: arith.Within) -> set[Op]:
    """The operations from its inputs to a number that is known to be within a limit."""
    found: set[Op] = set()
    left = [op.a]
    while left:
        v = left.pop()
        if v not in op.inputs and v.op is not None and v.op not in found:
            found.add(v.op)
            left += v.op.operands
    return found


def _limits(op: arith.Within, way: set[Op], facts: Facts) -> Iterator[tuple[Value, Affine]]:
    """All on the way fits, or none of it."""
    for needed in (facts.affine(op.most), facts.affine(op.limit)):
        yield from ((v, needed) for each in way for v in each.results)


def _forget(kernel: Kernel) -> None:
    """Of what is `within` a limit, only the number stays."""

    class Forget(Rewriter):
        def visit(self, op: Op) -> Value | None:
            return op.a if isinstance(op, arith.Within) else None

    Forget().run(kernel)
    erase_unused(kernel)


def _needs(op: Op, facts: Facts) -> Iterator[tuple[Value, Affine]]:
    """What has to fit 32 bits, or is to be done in 64: values, and the polynomials that say so."""
    if isinstance(op, control.For) and op.iv.dtype.kind == "int":
        if facts.is_index(op.iv):
            past = facts.affine(op.step) * max(1, op.stages)
            yield op.iv, facts.affine(op.upper) + past
    elif op.elementwise:
        v = op.results[0]
        if v.type == I32 and isinstance(op, (*_GROW, arith.Cast)) and facts.is_index(v):
            yield v, facts.affine(op.a if isinstance(op, arith.Cast) and op.a.dtype is i64 else v)
        return
    for v in op.operands:
        if v.type in (I32, I64) and not isinstance(v.op, arith.Constant) and facts.is_index(v):
            yield v, facts.affine(v)


class Conditions:
    """What the launch has to find true, each once; `failed`: something is proved by nothing."""

    def __init__(self, kernel: Kernel, facts: Facts, exact: bool) -> None:
        self.facts = facts
        self.bounds = None if exact else LaunchBounds(kernel, facts)
        self.found: dict[Any, int] = {}  # what has to be less than which number
        self.failed = False
        self._known: dict[Affine, bool] = {}

    def holds(self, a: Affine) -> bool:
        known = self._known.get(a)
        if known is None:
            known = self._known[a] = self._look(a)
            self.failed |= not known
        return known

    def _look(self, a: Affine) -> bool:
        if self.bounds is None:
            return self.facts.fits(a)
        conditions = self.bounds.fit_conditions(a)
        for _, each, limit in conditions or ():
            self.found[each] = min(limit, self.found.get(each, limit))
        return conditions is not None


def _carried(kernel: Kernel) -> set[Value]:
    """What loops and branches hand on that comes from constants, dimensions, block indices and the like alone: the most
    that agrees with itself."""
    blocks: set[Value] = {*kernel.dims.values(), *kernel.params}
    rows: list[tuple[Value, list[Value]]] = []
    for op in kernel.walk():
        given: set[Value] = set()
        if isinstance(op, control.Structured):
            for t in op.transfers():
                for row in t.targets:
                    rows += [(to, [v]) for v, to in zip(t.values, row, strict=True)]
                    given.update(row)
            if isinstance(op, control.For):
                rows.append((op.iv, [op.lower, op.upper, op.step]))
        elif isinstance(op, (control.Launch, control.Parallel)):
            blocks.update(op.body.args)
        elif isinstance(op, _ARITHMETIC) and op.results[0].type in (I32, I64):
            rows.append((op.results[0], [o for o in op.operands if o.dtype.is_int]))
        elif isinstance(op, arith.Cast) and op.a.dtype.kind in ("int", "bool"):
            rows.append((op.results[0], [op.a] if op.a.dtype.is_int else []))
        elif isinstance(op, arith.Constant):
            blocks.update(op.results)
    # All that has a row is taken for exact, until one of its sources is not.
    possible = blocks | {v for v, _ in rows}
    while True:
        wrong = {v for v, sources in rows if v in possible and not possible.issuperset(sources)}
        if not wrong:
            break
        possible -= wrong
    return {
        v for op in kernel.walk() if isinstance(op, control.Loop) for v in op.given() if v in possible and v.type == I32
    }


def _spread(kernel: Kernel, facts: Facts, wide: set[Value]) -> None:
    """What is computed from wide values is wide, unless it is proved to fit; what is handed on as one value is one."""
    count = -1
    while count != len(wide):
        count = len(wide)
        for op in kernel.walk():
            if isinstance(op, control.Structured):
                if isinstance(op, control.For) and not wide.isdisjoint((op.lower, op.upper, op.step)):
                    wide.add(op.iv)
                for t in op.transfers():
                    for each in zip(t.values, *t.targets, strict=True):
                        if not wide.isdisjoint(each):
                            wide.update(v for v in each[1:] if v.type == I32)
            elif isinstance(op, _ARITHMETIC) and op.results[0].type == I32 and not wide.isdisjoint(op.operands):
                v = op.results[0]
                if v not in wide and not (facts.is_index(v) and facts.fits(facts.affine(v))):
                    wide.add(v)


class _Widen:
    """Rewrites in place. `long` has the i64 value of each wide one, `short` an i32 one of each that has become i64."""

    def __init__(self, wide: set[Value]) -> None:
        self.wide = wide
        self.long: dict[Value, Value] = {}
        self.short: dict[Value, Value] = {}
        self.b = Builder(Block())

    def run(self, kernel: Kernel) -> None:
        old, kernel.body.ops = kernel.body.ops, []
        with self.b.inside(kernel.body):
            for v in kernel.dims.values():
                if v in self.wide:
                    self.lengthen(v)
            for v in kernel.params:
                if v in self.wide:
                    self.long[v] = self.b.cast(v, i64)
            self.ops(old, [])

    def lengthen(self, v: Value) -> None:
        """A value becomes i64."""
        v.type = I64
        self.long[v] = v
        self.short[v] = self.b.cast(v, i32)

    def get(self, v: Value) -> Value:
        """In 32 bits, if it was."""
        return self.short.get(v, v)

    def get_long(self, v: Value) -> Value:
        if v in self.long:
            return self.long[v]
        if v.type != I32:
            return self.get(v)
        number = constant_of(v)
        return self.b.cast(self.get(v), i64) if number is None else self.b.constant(number, i64)

    def region(self, block: Block, sinks: list[Value], given: bool) -> None:
        """`sinks`: what takes the values of the terminator; given: the arguments may change their types."""
        old, block.ops = block.ops, []
        with self.b.inside(block):
            for v in block.args:
                if v in self.wide and given:
                    self.lengthen(v)
                elif v in self.wide:
                    self.long[v] = self.b.cast(v, i64)
            self.ops(old, sinks)

    def ops(self, ops: list[Op], sinks: list[Value]) -> None:
        for op in ops:
            loc, self.b.loc = self.b.loc, op.loc
            self.op(op, sinks)
            self.b.loc = loc

    def op(self, op: Op, sinks: list[Value]) -> None:
        if isinstance(op, control.Structured):
            self.structured(op)
        elif op.terminator:
            flags = len(op.operands) - len(sinks)
            takers = iter([None] * flags + list(sinks))
            op.replace_operands(lambda v: self.handed(v, next(takers)))
            self.b.block.ops.append(op)
        elif isinstance(op, (*_ARITHMETIC, arith.Cmp)) and not self.wide.isdisjoint((*op.operands, *op.results)):
            op.replace_operands(self.get_long)
            self.b.block.ops.append(op)
            v = op.results[0]
            if v.type == I32:
                self.lengthen(v)
        elif isinstance(op, arith.Cast) and op.a in self.wide:
            op.a = self.long[op.a]
            self.b.block.ops.append(op)
        else:
            for name, mark in op.operand_fields:
                value = getattr(op, name)
                if mark == "operands":
                    get = self.index if name.endswith("indices") else self.get
                    setattr(op, name, tuple(map(get, value)))
                elif value is not None:
                    setattr(op, name, self.get(value))
            self.b.block.ops.append(op)
            for region in op.regions:
                self.region(region, [], False)

    def index(self, v: Value) -> Value:
        """Memory takes indices of either width."""
        return self.long.get(v, v)

    def handed(self, v: Value, taker: Value | None) -> Value:
        return self.get_long(v) if taker in self.wide else self.get(v)

    def structured(self, op: control.Structured) -> None:
        transfers = {t.source: [row[0] for row in zip(*t.targets, strict=True)] for t in op.transfers()}
        takers = iter(transfers.get(None, []))
        deciding = len(op.operands) - len(transfers.get(None, []))
        bounds = isinstance(op, control.For) and op.iv in self.wide
        numbers = iter(range(len(op.operands)))

        def replaced(v: Value) -> Value:
            if next(numbers) < deciding:
                return self.get_long(v) if bounds else self.get(v)
            return self.handed(v, next(takers))

        op.replace_operands(replaced)
        self.b.block.ops.append(op)
        for region in op.regions:
            self.region(region, transfers.get(region, []), True)
        for v in op.results:
            if v in self.wide:
                self.lengthen(v)
