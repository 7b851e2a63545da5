"""Selects under a mask that cuts rows at their ends: most threads have elements inside only, and test none of them.

    %in = cmp %j, %n {lt}               %all = cmp %own + 15, %n {lt}        the last of the thread's elements
    %x = select %in, %a, %b      →      %x = if %all: %a
                                             else: select %own + k < %n, %a, %b    for each element k

What a mask says is asked of `Masks.whole_claims`: polynomials  c*i + rest  over the coordinate of one dimension that
are at least 0 where it holds. Of a row that is rotated (rotated.py), a mask `index < size` is known by its form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from minitile.ir.core import Block, Value
from minitile.ir.ops import arith, control, thread, tile
from minitile.ir.ops.views import RotatedIota
from minitile.ir.types import TileType, i64
from minitile.layout import Layout
from minitile.lowering.accesses import index_dtype
from minitile.lowering.context import Lowering, layout_of
from minitile.lowering.cut_runs import FAR, all_of, short
from minitile.lowering.rotated import MOST_SHIFT, rotated_iota

LEAST_GUARDED = 8  # registers that a mask is tested for as a whole


@dataclass(frozen=True, slots=True, eq=False)
class _Claim:
    """`base + offsets[r] >= 0` of register r where the mask holds; base: of the thread, in as many bits as it takes."""

    base: Value
    offsets: tuple[int, ...]


def select(low: Lowering, op: arith.Select) -> tuple[Value, ...]:
    """The rule of selects."""
    if not isinstance(op.result.type, TileType) or op.a.type != op.result.type:
        return low.same(op)
    if layout_of(op.result).num_regs < LEAST_GUARDED:
        return low.same(op)
    return _in_rotated_row(low, op) or _inside(low, op) or low.same(op)


def _guarded(low: Lowering, op: arith.Select, inside: Value, mask: Callable[[], Value]) -> tuple[Value, ...]:
    """`a` in threads that are inside; others select by each element's `mask()`."""
    b, a = low.b, low.get(op.a)
    then, orelse = Block(), Block()
    with b.inside(then):
        b.emit(control.Yield((a,)))
    with b.inside(orelse):
        b.emit(control.Yield((b.value(arith.Select(mask(), a, low.get(op.b))),)))
    return b.emit(control.If(inside, then=then, orelse=orelse)).results


def _inside(low: Lowering, op: arith.Select) -> tuple[Value, ...] | None:
    """Of a mask that is claims along one dimension. Not where waits are counts: each way of a branch has its own."""
    if low.target.has("counted_stores"):
        return None
    b, claims = low.b, _claims(low, op.condition, layout_of(op.result))
    if not claims:
        return None

    def holds(claim: _Claim) -> Value:
        least = b.constant(-min(claim.offsets), claim.base.dtype)
        return b.value(arith.Cmp(claim.base, least, "ge"))

    def mask_of(claim: _Claim) -> Value:
        numbers = b.emit(thread.Offsets(short(low, claim.base), claim.offsets)).result
        return b.value(arith.Cmp(numbers, b.constant(0), "ge"))

    inside = all_of(low, [holds(claim) for claim in claims])
    return _guarded(low, op, inside, lambda: all_of(low, [mask_of(claim) for claim in claims]))


def _claims(low: Lowering, mask: Value, layout: Layout) -> list[_Claim]:
    """What a mask says, all of it; none where it is no claims along one dimension."""
    if not isinstance(mask.type, TileType):
        return []
    found: list[_Claim] = []
    along: set[int] = set()
    for claim in low.masks.whole_claims(mask) or ():
        rest, own = claim, []
        for d, size in enumerate(mask.shape):
            parts = rest.split(low.masks.coordinate(d, size))
            if parts is None or not parts[0].is_constant:
                return []
            if parts[0].const:
                along.add(d)
                own.append((d, parts[0].const))
            rest = parts[1]
        if len(along) > 1 or not own or any(isinstance(atom.type, TileType) for atom in rest.atoms()):
            return []
        ((d, step),) = own
        if abs(step) * mask.shape[d] >= FAR:
            return []  # sums with the elements' own parts would not hold in 32 bits
        dtype = index_dtype(low, rest) if all(_is_small(low, atom) for atom in rest.atoms()) else i64
        base, mine = low.emit(rest, dtype), low.thread_coord(layout, d)
        if mine is None and rest.is_constant:
            return []  # known for each register: folding sees to it
        if mine is not None:
            base = low.b.add(base, low.b.mul(low.b.cast(mine, dtype), step))
        found.append(_Claim(base, tuple(step * at[d] for at in layout.register_offsets())))
    return found


def _is_small(low: Lowering, v: Value) -> bool:
    """Whether sums with it hold in 32 bits: it comes from dimensions and indices, and is no number of the caller's."""
    return low.facts.is_index(v) and v not in low.kernel.params


def _in_rotated_row(low: Lowering, op: arith.Select) -> tuple[Value, ...] | None:
    """Of what `index < size` cuts of a rotated row: threads test their first and last elements, in positions, where
    they are in the row whichever way it is rotated."""
    mask = op.condition.op
    if not isinstance(mask, arith.Cmp) or mask.predicate != "lt":
        return None
    index, limit = mask.a.op, mask.b.op.value if isinstance(mask.b.op, tile.Splat) else mask.b
    if not isinstance(index, RotatedIota) or isinstance(limit.type, TileType):
        return None
    b, layout = low.b, layout_of(op.result)
    offsets = [at[index.dim] for at in layout.register_offsets()]
    own = low.thread_coord(layout, index.dim)
    if own is None:
        return None
    size = low.get(limit)
    least, most = b.constant(MOST_SHIFT - min(offsets)), b.constant(max(offsets))
    inside = b.value(arith.Cmp(b.cast(b.add(own, most), size.dtype), size, "lt"))
    inside = b.and_(inside, b.value(arith.Cmp(own, least, "ge")))
    return _guarded(low, op, inside, lambda: b.value(arith.Cmp(rotated_iota(low, index), size, "lt")))
