"""Loops of kind "unroll" with a constant trip count become straight-line code.

    %r = for 0, 4, 1, [%z] {kind = "unroll"} (%k, %a) {       %x0 = load %x[0]
      %x = load %x[%k]                                   →    %a0 = add %z, %x0
      %b = add %a, %x                                         %x1 = load %x[1]
      yield %b }                                              …

Constants fold on the way, so indices into local arrays are numbers afterwards, inner loops whose bounds depend on the
outer index unroll too, and of a branch on the index only the side that is taken is left. Loops of more than LIMIT
rounds, or of a number that only run time knows, stay loops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from minitile.ir.builder import Builder, constant_of
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import control
from minitile.ir.rewrite import Rewriter, remake
from minitile.ir.types import ScalarType

if TYPE_CHECKING:
    from minitile.transforms.manager import PassContext

LIMIT = 64


def unroll(kernel: Kernel, context: PassContext) -> None:
    _Unroll().run(kernel)


class _Unroll(Rewriter):
    def visit(self, op: Op) -> tuple[Value, ...] | None:
        rounds = _rounds(op)
        if rounds is None:
            return None
        assert isinstance(op, control.For)
        return _repeat(self.b, op, op.init, rounds, self.map)


def _rounds(op: Op) -> range | None:
    """The values of the induction variable of a loop that shall be unrolled; None for every other operation."""
    if not isinstance(op, control.For) or op.kind != "unroll":
        return None
    lower, upper, step = (constant_of(v) for v in (op.lower, op.upper, op.step))
    if lower is None or upper is None or step is None:
        return None
    rounds = range(lower, upper, step)
    return rounds if len(rounds) <= LIMIT else None


def _repeat(
    b: Builder, op: control.For, init: tuple[Value, ...], rounds: range, map: dict[Value, Value]
) -> tuple[Value, ...]:
    """Emit the body once per round; the values carried out at the end. Values from outside go through `map`."""
    carried = init
    for i in rounds:
        inner = {**map, op.iv: b.constant(i, op.iv.dtype), **dict(zip(op.carried, carried, strict=True))}
        carried = _body(b, op.body, inner)
    return carried


def _body(b: Builder, block: Block, map: dict[Value, Value]) -> tuple[Value, ...]:
    """Emit a copy of a block without its terminator; what that yields. `map` learns the new values."""
    for op in block.ops:
        if isinstance(op, control.Yield):
            return tuple([map.get(v, v) for v in op.values])
        outer, b.loc = b.loc, op.loc
        map.update(zip(op.results, _copy(b, op, map), strict=True))
        b.loc = outer
    return ()


def _copy(b: Builder, op: Op, map: dict[Value, Value]) -> tuple[Value, ...]:
    """Emit a copy of an operation, folded or unrolled where that can be; what stands for its results."""
    new = remake(op, lambda v: map.get(v, v))
    if new.pure and len(new.results) == 1 and isinstance(new.result.type, ScalarType):
        return (b.value(new, op.result.name),)
    rounds = _rounds(new)
    if rounds is not None:
        assert isinstance(op, control.For)
        assert isinstance(new, control.For)
        return _repeat(b, op, new.init, rounds, map)
    if type(new) is control.If and (taken := constant_of(new.condition)) is not None:
        return _body(b, op.then if taken else op.orelse, map)  # type: ignore[attr-defined]
    for name in op.region_fields:
        setattr(new, name, _region(b, getattr(op, name), map))
    new.set_results(tuple(r.type for r in op.results), tuple(r.name for r in op.results))
    return b.emit(new).results


def _region(b: Builder, block: Block, map: dict[Value, Value]) -> Block:
    new = Block()
    for arg in block.args:
        map[arg] = new.add_arg(arg.type, arg.name)
    with b.inside(new):
        for op in block.ops:
            outer, b.loc = b.loc, op.loc
            map.update(zip(op.results, _copy(b, op, map), strict=True))
            b.loc = outer
    return new
