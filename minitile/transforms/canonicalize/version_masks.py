"""A mask in a loop is applied only in the iterations that it cuts.

    %seen = cmp %column, %row {le}             %all = cmp %column's greatest, %row's least {le}     // scalars
    %y = select %seen, %x, -2.0**99      →     %y = if %all { yield %x } orelse {
                                                 %seen = cmp %column, %row {le}
                                                 yield select %seen, %x, -2.0**99 }

Where a causal loop is left of the diagonal, or a row of blocks inside its tensor, that saves a comparison and a select
for each element. The greatest and least values of a tile follow from how it is made of `iota`s and scalars by sums,
differences, products with constants and quotients by them; other masks stay. So do those of a gemm's factor in
registers: what a branch hands on would be one register for all iterations, written while the gemm of the one before may
still read it, for which ptxas serialises all of them (C7513).
"""

from __future__ import annotations

from minitile.ir.builder import Builder, constant_of
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import arith, control, tile
from minitile.ir.rewrite import clone
from minitile.ir.types import TileType
from minitile.transforms.canonicalize.dead_code import remove_dead
from minitile.transforms.manager import PassContext

_SIDES = {"lt": (False, True), "le": (False, True), "gt": (True, False), "ge": (True, False)}  # which takes its least


def version_masks(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    factors = {v for op in kernel.walk() if isinstance(op, tile.Gemm) for v in (op.a, op.b)}
    if _block(kernel.body, factors, in_loop=False):
        remove_dead(kernel.body, set())


def _block(block: Block, factors: set[Value], in_loop: bool) -> bool:
    found = False
    old, block.ops = block.ops, []
    b = Builder(block)
    for op in old:
        for region in op.regions:
            found |= _block(region, factors, in_loop or isinstance(op, control.Loop))
        b.loc = op.loc
        if in_loop and isinstance(op, arith.Select) and op.result not in factors and _guard(b, op):
            found = True
        else:
            b.emit(op)
    return found


def _guard(b: Builder, op: arith.Select) -> bool:
    """Emit the guarded select, if it is one of a mask with a known range."""
    if (
        not isinstance(op.result.type, TileType)
        or op.a.type != op.result.type
        or not isinstance(op.condition.type, TileType)
    ):
        return False
    trial = Block()
    with b.inside(trial):
        whole = _always(b, op.condition)
    if whole is None or constant_of(whole) is not None:
        return False
    b.block.ops += trial.ops
    then, orelse = Block(), Block()
    with b.inside(then):
        b.emit(control.Yield((op.a,)))
    with b.inside(orelse):
        names: dict[Value, Value] = {}
        for inner in _tree(op.condition):
            b.emit(clone(inner, names))
        b.emit(control.Yield(b.emit(clone(op, names)).results))
    branch = b.emit(control.If(whole, then=then, orelse=orelse))
    branch.results = op.results
    op.result.owner = branch
    return True


def _always(b: Builder, mask: Value) -> Value | None:
    """A scalar that is true only where all of the mask is."""
    op = mask.op
    if isinstance(op, tile.Splat):
        return op.value
    if isinstance(op, tile.Expand):
        return _always(b, op.a)
    if isinstance(op, arith.And):
        left, right = _always(b, op.a), _always(b, op.b)
        return None if left is None or right is None else b.and_(left, right)
    if not isinstance(op, arith.Cmp) or op.predicate not in _SIDES or not op.a.dtype.is_int:
        return None
    a, c = (_extreme(b, v, least) for v, least in zip((op.a, op.b), _SIDES[op.predicate], strict=True))
    return None if a is None or c is None else b.compare(op.predicate, a, c)


def _extreme(b: Builder, v: Value, least: bool) -> Value | None:
    """The least or the greatest element of an integer tile, as a scalar."""
    if not isinstance(v.type, TileType):
        return v
    op = v.op
    if isinstance(op, tile.Iota):
        return b.constant(0 if least else op.shape[op.dim] - 1, v.dtype)
    if isinstance(op, tile.Splat):
        return op.value
    if isinstance(op, (tile.Expand, tile.Permute)):
        return _extreme(b, op.a, least)
    if isinstance(op, (arith.Add, arith.Sub)):
        left = _extreme(b, op.a, least)
        right = _extreme(b, op.b, least == isinstance(op, arith.Add))
        if left is None or right is None:
            return None
        return b.add(left, right) if isinstance(op, arith.Add) else b.sub(left, right)
    if isinstance(op, arith.Mul):
        factor = constant_of(op.b)
        inner = None if factor is None else _extreme(b, op.a, least == (factor >= 0))
        return None if inner is None else b.mul(inner, op.b)
    if isinstance(op, arith.FloorDiv):
        divisor = constant_of(op.b)
        inner = None if divisor is None or divisor <= 0 else _extreme(b, op.a, least)
        return None if inner is None else b.floordiv(inner, b.constant(divisor, v.dtype))
    return None


def _tree(v: Value) -> list[Op]:
    """The operations that make a mask from scalars, in order."""
    op = v.op
    if op is None or not isinstance(v.type, TileType) or not op.pure:
        return []
    found = [inner for operand in op.operands for inner in _tree(operand)]
    return list(dict.fromkeys((*found, op)))
