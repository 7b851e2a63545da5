"""What a loop changes in some rows of a tile alone is computed by warps that have such a row.

    %some = cmp %factor, 1.0 {ne}                      %any = some_in_warp %some          // one answer for each warp
    %y = select %some, %x * %factor, %x      →         %y = if %any { %z = %x * %factor
                                                                      yield select %some, %z, %x } orelse { yield %x }

`%some` has a dimension less than the tile, so that a thread has few elements of it. Attention's accumulators are so:
their factors are 1 once a row's maximum grows no more. A factor that is not 1 in just those rows needs no select, since
the product with 1 is what was there. Computed under the branch is what nothing else needs. AMD's loops stay as they
are: waits there are counts, of which each way of a branch has its own.
"""

from __future__ import annotations

import math

from minitile.ir.builder import Builder, constant_of
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import arith, control, tile, warp
from minitile.ir.rewrite import clone
from minitile.ir.types import TileType
from minitile.transforms.canonicalize.dead_code import remove_dead
from minitile.transforms.manager import PassContext

LEAST = 16  # elements of the tile for one of the mask


def skip_rows(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    if context.target.has("counted_stores"):
        return
    found = _found(kernel.body, in_loop=False)
    if not found:
        return
    uses: dict[Value, int] = {}
    for op in kernel.walk():
        for v in op.operands:
            uses[v] = uses.get(v, 0) + 1
    for block, selects in found:
        old, block.ops = block.ops, []
        b = Builder(block)
        for op in old:
            b.loc = op.loc
            if op in selects:
                _guard(b, op, selects[op], uses)
            else:
                block.ops.append(op)
    remove_dead(kernel.body, set())


def _found(block: Block, in_loop: bool) -> list[tuple[Block, dict[Op, Value]]]:
    """The blocks in loops that have such selects, which with their masks of rows."""
    here: dict[Op, Value] = {}
    found = [(block, here)]
    for op in block.ops:
        if op.region_fields:
            for region in op.regions:
                found += _found(region, in_loop or isinstance(op, control.Loop))
        elif in_loop and type(op) is arith.Select and (mask := _rows(op)) is not None:
            here[op] = mask
    return found if here else found[1:]


def _rows(op: arith.Select) -> Value | None:
    """The mask of rows of a select that keeps other rows as they are."""
    wide = op.condition.op
    if not isinstance(op.result.type, TileType) or not isinstance(wide, tile.Expand):
        return None
    if op.a.type != op.result.type or op.b.type != op.result.type or not isinstance(wide.a.type, TileType):
        return None
    return wide.a if math.prod(op.result.shape) >= LEAST * math.prod(wide.a.shape) else None


def _guard(b: Builder, op: Op, mask: Value, uses: dict[Value, int]) -> None:
    assert isinstance(op, arith.Select)
    some = b.emit(warp.SomeInWarp(mask)).result
    then, orelse = Block(), Block()
    with b.inside(then):
        names: dict[Value, Value] = {}
        for inner in _alone(op.a, uses):
            b.emit(clone(inner, names))
        new = names.get(op.a, op.a)
        if not _is_product(op, mask):
            new = b.value(arith.Select(op.condition, new, op.b))
        b.emit(control.Yield((new,)))
    with b.inside(orelse):
        b.emit(control.Yield((op.b,)))
    branch = b.emit(control.If(some, then=then, orelse=orelse))
    branch.results = op.results
    op.result.owner = branch


def _alone(v: Value, uses: dict[Value, int]) -> list[Op]:
    """The elementwise operations that make `v` and nothing else, in order."""
    op = v.op
    if op is None or uses.get(v) != 1 or not (op.elementwise or isinstance(op, tile.Expand)) or op.regions:
        return []
    return [*(inner for operand in op.operands for inner in _alone(operand, uses)), op]


def _is_product(op: arith.Select, mask: Value) -> bool:
    """Whether `a` is `b` times a factor that is 1 exactly where the mask is false."""
    differs, product = mask.op, op.a.op
    if not isinstance(differs, arith.Cmp) or differs.predicate != "ne" or not isinstance(product, arith.Mul):
        return False
    if constant_of(differs.b) != 1.0 or op.b not in product.operands:
        return False
    other = product.b if product.a is op.b else product.a
    return isinstance(other.op, tile.Expand) and other.op.a is differs.a
