"""Makes scalar arithmetic and control flow smaller, by constants and by what `Facts` knows of ranges.

    %q = floordiv %x, 64           // %x = %k*64 + %t, 0 <= %t < 64       %k
    %c = cmp lt %row, %M           // facts: always                       true
    if true then { A } orelse { B }                                       A
    for %l, %u, %s, [%i] (%k, %a) { B }      // exactly one trip          B with %k = %l, %a = %i
    %r = for … [%i] (%k, %a) { …; yield %a }                              %i for %a and %r
    add (add %x, 3), 4                                                    add %x, 7
    cast (cast %x to i64) to i32                                          %x
    select %mask, (load %A[0], mask = %mask), 0.0                         the load
    select (cmp lt (offsets %l {0, 8}), 8), %a, %b    // 0 <= %l < 8      pick (concat %a, %b) {0, 1}
    floormod (offsets (mul %l, 2) {0, 1, 8, 9}), 2                        pick (concat 0, 1) {0, 1, 0, 1}

In the thread stage division by constants becomes what the hardware has: shifts and masks for powers of two, `truncdiv`
and `truncmod` where the dividend cannot be negative. One forward walk, in which each branch of an `if` knows the
condition, then one backward walk that removes what has become dead. The condition of an `assume` stays as it is: it is
known to be true by itself, and passes that follow are to know it as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from minitile.analysis.affine import Affine, Facts
from minitile.ir.builder import DIVISIONS, INTEGER, constant_of, fold, register_constants, wrap
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import arith, control, roles, thread, tile
from minitile.ir.rewrite import Rewriter
from minitile.ir.types import DType, RegsType, ScalarType, TileType, dtype_of
from minitile.transforms.canonicalize.dead_code import remove_dead
from minitile.transforms.manager import PassContext

Result = Value | tuple[Value, ...] | None


def simplify(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    _Simplify(kernel).run(kernel)
    remove_dead(kernel.body, set())


class _Simplify(Rewriter):
    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.facts = Facts(kernel)
        self.thread_stage = kernel.stage == "thread"
        self.promised = {v for condition, _ in self.facts.assumptions for v in _parts(condition)}

    def visit(self, op: Op) -> Result:
        if not self.promised.isdisjoint(op.results):
            return None
        if op.pure:
            folded = fold(op)
            if isinstance(folded, Value):
                return folded
            if folded is not None:
                return self.number(folded, op)
            each = self.each_constant(op)
            if each is not None:
                return each
        rule = _RULES.get(type(op))
        return rule(self, op) if rule is not None else None

    def each_constant(self, op: Op) -> Value | None:
        """Integer arithmetic on registers that are constants, each its own."""
        kind = type(op)
        if kind not in INTEGER and kind is not arith.Cast:
            return None
        t = op.results[0].type
        if not isinstance(t, RegsType) or not t.dtype.is_int:
            return None
        operands = [register_constants(v) if v.dtype.is_int else None for v in op.operands]
        if any(numbers is None for numbers in operands):
            return None
        count = thread.count_of(t)
        columns = [numbers * count if len(numbers) == 1 else numbers for numbers in operands if numbers is not None]
        if kind in DIVISIONS and 0 in columns[1]:
            return None
        if kind in (arith.Shl, arith.Shr) and not all(0 <= n < t.dtype.bits for n in columns[1]):
            return None
        made = columns[0] if isinstance(op, arith.Cast) else list(map(INTEGER[kind], *columns))
        return self.each([wrap(n, t.dtype) for n in made], t.dtype)

    def each(self, numbers: list[int], dtype: DType) -> Value:
        """Registers of these constants."""
        different = dict.fromkeys(numbers)
        place = {number: n for n, number in enumerate(different)}
        constants = tuple([self.b.constant(number, dtype) for number in different])
        every = self.b.emit(thread.Concat(constants)).result if len(constants) > 1 else constants[0]
        return self.b.emit(thread.Pick(every, tuple([place[number] for number in numbers]))).result

    def regions(self, op: Op) -> None:
        if not isinstance(op, control.If):
            super().regions(op)
            return
        for region, holds in ((op.then, True), (op.orelse, False)):
            with self.facts.assuming(op.condition, holds):
                self.block(region)

    def number(self, value: bool | int | float, op: Op) -> Value | None:
        """A constant in place of an operation's result, all over if that is a tile; None (no change) for registers."""
        t = op.result.type
        if isinstance(t, TileType):
            splat = self.b.emit(tile.Splat(self.b.constant(value, t.dtype), t.shape))
            splat.result.type = t
            return splat.result
        return self.b.constant(value, dtype_of(t)) if isinstance(t, ScalarType) else None

    # Arithmetic ----------------------------------------------------------------------------------------------------

    def collect(self, op: Any) -> Result:
        """(x + c1) + c2 -> x + (c1 + c2), and products alike: for integers, which wrap alike on both sides."""
        kind = type(op)
        c = _integer(op.b)
        if c is None:
            if _integer(op.a) is not None:
                op.a, op.b = op.b, op.a
                return self.collect(op)
            return None
        inner = op.a.op
        if isinstance(inner, kind) and (c1 := _integer(inner.b)) is not None:
            return self.again(kind(inner.a, self.constant(INTEGER[kind](c1, c), op.b)))
        return None

    def sub(self, op: arith.Sub) -> Result:
        """x - c -> x + (-c)"""
        c = _integer(op.b)
        return None if c is None else self.again(arith.Add(op.a, self.constant(-c, op.b)))

    def constant(self, number: int, like: Value) -> Value:
        return self.b.constant(wrap(number, like.dtype), like.dtype)

    def again(self, op: Op) -> Value:
        """A new operation, itself simplified; its value."""
        op.loc = self.b.loc
        new = self.visit(op)
        if new is None:
            self.b.emit(op)
            return op.result
        assert isinstance(new, Value)
        return new

    def remainder_each(self, op: Any, c: int | None) -> Result:
        """floormod, or `and` with 2**n - 1, of registers that differ by constants from what c divides."""
        offsets = op.a.op
        if not isinstance(offsets, thread.Offsets) or c is None or c <= 0:
            return None
        if self.facts.multiple(self.facts.affine(offsets.a)) % c:
            return None
        return self.each([constant % c for constant in offsets.constants], op.result.dtype)

    def mask(self, op: arith.And) -> Result:
        c = _integer(op.b)
        return self.remainder_each(op, c + 1) if c is not None and c > 0 and not c & (c + 1) else None

    def divide(self, op: Any) -> Result:
        """floordiv, truncdiv, floormod, truncmod."""
        c = _integer(op.b)
        if isinstance(op, arith.FloorMod) and (each := self.remainder_each(op, c)) is not None:
            return each
        if op.a.dtype.kind == "uint":
            return self.divide_unsigned(op, c)
        if c is None:
            return self.divide_by_value(op)
        if c <= 0:
            return None
        quotient = isinstance(op, (arith.FloorDiv, arith.TruncDiv))
        floors = isinstance(op, (arith.FloorDiv, arith.FloorMod))
        a = self.facts.affine(op.a)
        found = self.divided(op, a, c, quotient, floors) if isinstance(op.result.type, ScalarType) else None
        if found is not None:
            return found
        if not quotient and self.facts.multiple(a) % c == 0:
            return self.number(0, op)
        if not self.thread_stage:
            return None
        power = c & (c - 1) == 0
        if (floors and power) or (not floors and power and self.facts.nonnegative(a)):
            if quotient:
                return self.again(arith.Shr(op.a, self.constant(c.bit_length() - 1, op.b)))
            return self.again(arith.And(op.a, self.constant(c - 1, op.b)))
        if floors and self.facts.nonnegative(a):
            return self.b.emit(arith.TruncDiv(op.a, op.b) if quotient else arith.TruncMod(op.a, op.b)).result
        return None

    def divide_unsigned(self, op: Any, c: int | None) -> Result:
        if c is None or c <= 0 or c & (c - 1) or not self.thread_stage:
            return None
        if isinstance(op, (arith.FloorDiv, arith.TruncDiv)):
            return self.again(arith.Shr(op.a, self.constant(c.bit_length() - 1, op.b)))
        return self.again(arith.And(op.a, self.constant(c - 1, op.b)))

    def divide_by_value(self, op: Any) -> Result:
        """Python's division of numbers that are not negative is C's. (While the grid is known: in either stage.)"""
        kind = {arith.FloorDiv: arith.TruncDiv, arith.FloorMod: arith.TruncMod}.get(type(op))
        positive = kind and all(self.facts.nonnegative(self.facts.affine(v)) for v in (op.a, op.b))
        return self.b.emit(kind(op.a, op.b)).result if kind and positive else None

    def divided(self, op: Any, a: Affine, c: int, quotient: bool, floors: bool) -> Result:
        """Quotient or remainder of a = whole + rest, where c divides `whole` and 0 <= rest < c."""
        whole = Affine(a.const // c * c, {m: k for m, k in a.terms.items() if k % c == 0})
        rest = a - whole
        wanted = whole.quotient(c) if quotient else rest
        unchanged = not quotient and whole == Affine()
        if not (unchanged or _is_small(wanted)) or not self.within(rest, c):
            return None
        if not floors and not self.facts.nonnegative(whole):
            return None
        return op.a if unchanged else self.build(wanted, op.result.dtype)

    def within(self, a: Affine, c: int) -> bool:
        return self.facts.nonnegative(a) and self.facts.nonnegative(c - 1 - a)

    def build(self, a: Affine, d: DType) -> Value | None:
        """A polynomial of at most one term as operations."""
        if not a.terms:
            return self.b.constant(a.const, d)
        ((m, k),) = a.terms.items()
        value = self.get(m[0])
        if value.dtype is not d:
            return None
        if k != 1:
            value = self.b.mul(value, k)
        return self.b.add(value, a.const) if a.const else value

    def least(self, op: Any) -> Result:
        """min and max that ranges decide."""
        if not (isinstance(op.result.type, ScalarType) and op.a.dtype.is_int):
            return None
        a, b = self.facts.affine(op.a), self.facts.affine(op.b)
        if self.facts.nonnegative(b - a):
            return op.a if isinstance(op, arith.Min) else op.b
        if self.facts.nonnegative(a - b):
            return op.b if isinstance(op, arith.Min) else op.a
        return None

    def compare(self, op: arith.Cmp) -> Result:
        if not op.a.dtype.is_int:
            return None
        if isinstance(op.result.type, RegsType):
            return self.compare_each(op)
        decided = self.decide(op.predicate, self.facts.affine(op.a), self.facts.affine(op.b))
        return None if decided is None else self.number(decided, op)

    def compare_each(self, op: arith.Cmp) -> Result:
        """Registers that differ by constants, where ranges decide for each of them."""
        offsets = op.a.op
        if not isinstance(offsets, thread.Offsets) or not isinstance(op.b.type, ScalarType):
            return None
        base, bound = self.facts.affine(offsets.a), self.facts.affine(op.b)
        decided: list[int] = []
        for constant in offsets.constants:
            holds = self.decide(op.predicate, base + constant, bound)
            if holds is None:
                return None
            decided.append(int(holds))
        sides = self.b.emit(thread.Concat((self.b.constant(False), self.b.constant(True)))).result
        return self.b.emit(thread.Pick(sides, tuple(decided))).result

    def select(self, op: arith.Select) -> Result:
        """One side, where the condition is the same constant all over; registers of both where each one's is known;
        what is loaded under the condition itself, which is 0 where that is false."""
        known = register_constants(op.condition)
        if known is not None and isinstance(op.result.type, RegsType):
            counts = [thread.count_of(v.type) for v in (op.a, op.b)]
            of_each = [n if count > 1 else 0 for n in range(len(known)) for count in counts]
            places = [of_each[2 * n] if holds else counts[0] + of_each[2 * n + 1] for n, holds in enumerate(known)]
            return self.b.emit(thread.Pick(self.b.emit(thread.Concat((op.a, op.b))).result, tuple(places))).result
        if _is_zero(op.b) and op.a.type == op.result.type and _masked_by(op.a) is op.condition:
            return op.a
        splat = op.condition.op
        condition = constant_of(splat.value) if isinstance(splat, tile.Splat) else None
        chosen = op.a if condition else op.b
        return None if condition is None or chosen.type != op.result.type else chosen

    def expand(self, op: tile.Expand) -> Result:
        """A constant tile, wider."""
        splat = op.a.op
        constant = constant_of(splat.value) if isinstance(splat, tile.Splat) else None
        return None if constant is None else self.number(constant, op)

    def decide(self, predicate: str, a: Affine, b: Affine) -> bool | None:
        facts = self.facts
        if predicate in ("gt", "ge"):
            return self.decide("lt" if predicate == "gt" else "le", b, a)
        if predicate == "lt":
            return True if facts.less(a, b) else False if facts.nonnegative(a - b) else None
        if predicate == "le":
            return True if facts.nonnegative(b - a) else False if facts.less(b, a) else None
        if a == b:
            return predicate == "eq"
        return predicate == "ne" if facts.less(a, b) or facts.less(b, a) else None

    def cast(self, op: arith.Cast) -> Result:
        """A cast of a cast that loses nothing."""
        inner = op.a.op
        if not isinstance(inner, arith.Cast) or not _embeds(inner.a.dtype, inner.to):
            return None
        if inner.a.dtype is op.to:
            return inner.a
        return self.again(arith.Cast(inner.a, op.to)) if inner.a.dtype.is_int and op.to.is_int else None

    def awaited(self, op: roles.Await) -> Result:
        """What has surely been written is no question."""
        if op.written is not None and constant_of(op.written) is True:
            op.written = None
        return None

    # Control flow --------------------------------------------------------------------------------------------------

    def branch(self, op: control.If) -> Result:
        condition = constant_of(op.condition)
        if condition is not None:
            return self.inline(op.then if condition else op.orelse)
        return None

    def loop(self, op: control.For) -> Result:
        lower, upper, step = (self.facts.affine(v) for v in (op.lower, op.upper, op.step))
        if self.facts.nonnegative(lower - upper):
            return op.init
        once = self.facts.nonnegative(lower + step - upper) and self.facts.less(lower, upper)
        if once and op.order is None:  # the marks of a schedule stay in its loop
            self.map.update(zip(op.body.args, (op.lower, *op.init), strict=True))
            return self.inline(op.body)
        same = [y is a or y is i for y, a, i in zip(op.body.yielded, op.carried, op.init, strict=True)]
        for a, r, i, s in zip(op.carried, op.results, op.init, same, strict=True):
            if s:
                self.map[a] = self.map[r] = i
        # The now unused carried values go with the dead ones.
        return None

    def inline(self, block: Block) -> tuple[Value, ...]:
        """A block's operations in place of the one that it belongs to; what it yields."""
        for op in block.ops:
            if op.terminator:
                return tuple([self.get(v) for v in op.operands])
            self.op(op)
        return ()


def _parts(condition: Value) -> Iterator[Value]:
    """A condition and, where it is made of others, those."""
    yield condition
    op = condition.op
    for part in op.operands if isinstance(op, (arith.And, arith.Or, arith.Not)) else ():
        yield from _parts(part)


def _integer(v: Value) -> int | None:
    """The number of an integer constant."""
    c = constant_of(v)
    return c if v.dtype.is_int and isinstance(c, int) else None


def _is_small(a: Affine) -> bool:
    """Whether a polynomial is at most c*v + k."""
    return len(a.terms) <= 1 and all(len(m) == 1 for m in a.terms)


def _embeds(a: DType, b: DType) -> bool:
    """Whether every number of dtype a is one of dtype b."""
    if a.is_int and b.is_int:
        return b.bits > a.bits and (b.kind == "int" or a.kind == "uint")
    if a.is_float and b.is_float:
        return b.bits >= 32 and b.bits > a.bits
    return a.kind == "bool" and b.is_int


def _is_zero(v: Value) -> bool:
    """Whether a number, or all of a tile, is 0 and not -0."""
    value = constant_of(v.op.value if isinstance(v.op, tile.Splat) else v)
    return value is not None and repr(float(value)) == "0.0"


def _masked_by(v: Value) -> Value | None:
    """The mask under which a tile was loaded, whatever it was cast to since: where it is false, the tile is 0."""
    op = v.op
    while isinstance(op, arith.Cast):
        op = op.a.op
    return op.mask if isinstance(op, tile.Load) else None


_RULES: dict[type[Op], Callable[[_Simplify, Any], Result]] = {
    arith.Add: _Simplify.collect,
    arith.Sub: _Simplify.sub,
    arith.Mul: _Simplify.collect,
    arith.And: _Simplify.mask,
    arith.FloorDiv: _Simplify.divide,
    arith.TruncDiv: _Simplify.divide,
    arith.FloorMod: _Simplify.divide,
    arith.TruncMod: _Simplify.divide,
    arith.Min: _Simplify.least,
    arith.Max: _Simplify.least,
    arith.Cmp: _Simplify.compare,
    arith.Select: _Simplify.select,
    tile.Expand: _Simplify.expand,
    arith.Cast: _Simplify.cast,
    roles.Await: _Simplify.awaited,
    control.If: _Simplify.branch,
    control.For: _Simplify.loop,
}
