"""Scalars of 8 and 16 bits that lie side by side are computed side by side, as registers of one value.

    %x0 = pick %r {indices = (0,)}                   %f = cast %r {to = f32}
    %x1 = pick %r {indices = (1,)}                   %f0 = pick %f {indices = (0,)}
    %f0 = cast %x0 {to = f32}                  →     %f1 = pick %f {indices = (1,)}
    %f1 = cast %x1 {to = f32}

    %h0 = cast %f0 {to = f16}                        %f = concat %f0, %f1
    %h1 = cast %f1 {to = f16}                  →     %h = cast %f {to = f16}
    %h = concat %h0, %h1

Elements that an unrolled loop has loaded or will store come as scalars (`lowering/runs.py`), while conversions of fp8
and to 16 bits, arithmetic on halves, and sums of products of bytes are instructions on pairs or words. Of what was
loaded together all elements must be converted to the same type; what is put together must come from one operation on
each, whose results nothing else uses. That stops where operands would have to be packed themselves.
"""

from __future__ import annotations

from collections import Counter

from minitile.ir.builder import exact
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import arith, thread
from minitile.ir.rewrite import Rewriter, remake
from minitile.ir.types import DType, RegsType, ScalarType
from minitile.transforms.manager import PassContext


def pack_scalars(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    concats = [op for op in kernel.walk() if isinstance(op, thread.Concat) and _is_packed(op)]
    picked = {op.a for op in kernel.walk() if isinstance(op, thread.Pick) and len(op.indices) == 1}
    if not concats and not any(isinstance(v.type, RegsType) and _fills_words(v.dtype) for v in picked):
        return
    uses = Counter(v for op in kernel.walk() for v in op.operands)
    _Pack(uses).run(kernel)


def _fills_words(dtype: DType) -> bool:
    """Whether registers of it are parts of words; bools are predicates."""
    return dtype.bits in (8, 16) and dtype.kind != "bool"


def _is_packed(op: thread.Concat) -> bool:
    return _fills_words(op.result.dtype) and all(isinstance(v.type, ScalarType) for v in op.values)


class _Pack(Rewriter):
    """`wide`: of a loaded value, its conversion as a whole, by type, where that has been emitted in this block."""

    def __init__(self, uses: Counter[Value]) -> None:
        super().__init__()
        self.uses = uses
        self.wide: dict[tuple[Value, object], Value] = {}
        self.every: set[tuple[Value, object]] = set()
        self.made: dict[tuple[Value, ...], Value | None] = {}  # of scalars, for one `concat`

    def block(self, block: Block) -> None:
        outer = self.wide, self.every
        self.wide, self.every = {}, _converted(block)
        super().block(block)
        self.wide, self.every = outer

    def visit(self, op: Op) -> Value | None:
        if isinstance(op, arith.Cast):
            return self.cast(op)
        if isinstance(op, thread.Concat) and _is_packed(op):
            self.made = {}
            return self.joined(tuple(op.values))
        return None

    def cast(self, op: arith.Cast) -> Value | None:
        pick = _element(op.a)
        if pick is None or (pick.a, op.to) not in self.every:
            return None
        key = pick.a, op.to
        if key not in self.wide:
            self.wide[key] = self.b.emit(arith.Cast(pick.a, op.to)).result
        return self.b.emit(thread.Pick(self.wide[key], pick.indices)).result

    def joined(self, values: tuple[Value, ...]) -> Value | None:
        """The values as one, of an operation on all of them; None where that is no better than they are."""
        if values not in self.made:
            self.made[values] = self.join(values)
        return self.made[values]

    def join(self, values: tuple[Value, ...]) -> Value | None:
        if len(set(values)) == 1:
            return self.b.emit(thread.Pick(values[0], (0,) * len(values))).result
        picks = [_element(v) for v in values]
        first = picks[0]
        if first is not None and all(p is not None and p.a is first.a for p in picks):
            indices = tuple(p.indices[0] for p in picks if p is not None)
            if indices == tuple(range(thread.count_of(first.a.type))):
                return first.a
            return self.b.emit(thread.Pick(first.a, indices)).result
        if not _fills_words(values[0].dtype):
            return self.b.emit(thread.Concat(values)).result
        return self.together(values)

    def together(self, values: tuple[Value, ...]) -> Value | None:
        """As one operation on the operands of all."""
        ops = [v.op for v in values]
        first = ops[0]
        if first is None or not first.elementwise or len(first.results) > 1 or any(self.uses[v] != 1 for v in values):
            return None
        same = all(op is not None and type(op) is type(first) and _attributes(op) == _attributes(first) for op in ops)
        if not same:
            return None
        found: dict[Value, Value] = {}
        for n, operand in enumerate(first.operands):
            column = tuple(op.operands[n] for op in ops if op is not None)
            part = operand if _is_one_number(column) else self.joined(column)
            if part is None or found.setdefault(operand, part) is not part:
                return None
        new = remake(first, lambda v: found[v])
        if thread.count_of(new.results[0].type) != len(values):
            return None
        return self.b.emit(new).result


def _is_one_number(values: tuple[Value, ...]) -> bool:
    """Whether scalars are the same constant."""
    numbers = {exact(v.op.value) if isinstance(v.op, arith.Constant) else v for v in values}
    return len(numbers) == 1 and isinstance(values[0].op, arith.Constant)


def _attributes(op: Op) -> list[object]:
    return [exact(value) for value in op.attributes().values()]


def _element(value: Value) -> thread.Pick | None:
    """The operation that picks one register of several."""
    op = value.op
    return op if isinstance(op, thread.Pick) and len(op.indices) == 1 and isinstance(op.a.type, RegsType) else None


def _converted(block: Block) -> set[tuple[Value, object]]:
    """Values of less than 32 bits all of whose registers the block converts one by one to a type."""
    found: dict[tuple[Value, object], set[int]] = {}
    for op in block.ops:
        pick = _element(op.a) if isinstance(op, arith.Cast) else None
        if pick is not None and isinstance(op, arith.Cast) and _fills_words(pick.a.dtype):
            found.setdefault((pick.a, op.to), set()).add(pick.indices[0])
    return {key for key, numbers in found.items() if len(numbers) == thread.count_of(key[0].type)}
