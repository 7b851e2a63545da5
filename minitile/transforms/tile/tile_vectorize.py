"""`parallel` becomes whole-tile operations.

    parallel {extents = (128, 64)} (%i, %j) {          %r = iota {shape = (128,), dim = 0}
      %r = add %i, %m0                                 %r1 = add %r, %m0
      %x = load %A[%r, %j]                             %x = load %A[%m0, 0] {shape = (128, 64), dims = (0, 1)}
      %s = load %scale[%i]                     →       %s = load %scale[0] {shape = (128,), dims = (0,)}
      %y = mul %x, %s                                  %s1 = expand %s {dim = 1, size = 64}
      %c = cmp %r, %n {predicate = "lt"}               %y = mul %x, %s1
      if %c { store %F[%i, %j], %y }                   %c = cmp %r1, %n {predicate = "lt"}
    }                                                  store %F[0, 0], %y, mask = (%c expanded) {dims = (0, 1)}

Each scalar of the body becomes a tile over exactly those parallel dimensions that it depends on (in their order); what
depends on none stays a scalar. Tiles of different rank meet by `expand`. An index of extent 1 is the constant 0.

Memory   An index `base + i_d` becomes `base`, and `dims` says that tile dimension d runs along it (which covers missing
         and transposed dimensions); any other index that depends on a parallel index is a tile: a gather or scatter.
if       On a condition that is the same for all elements: an `if` around tile operations. Else predication: the
         condition (nested: and) becomes the mask of stores, atomics and loads, and results become `select`. Loads of
         tensors are safe without (out of bounds gives 0), so they take a mask only if it has no more dimensions than
         they have; other loads are widened to the mask's dimensions. Fragments are values and need none.
for      Stays a loop, carrying tiles; its bounds must be the same for all elements.
store    Must be of one value for each place: if value and mask do not depend on a parallel dimension that is not in the
         indices, the tile of lower rank is written; otherwise it is an error, unless a mask picks the element.
         `x[i] = x[i] + 1` for every j too is such an error: the value depends on how many elements came before.
atomic   Happens once for every element of the rectangle, so it always has all its dimensions. For a rectangle of one
         element it is that of a tile of one: that of a scalar happens in every thread.

Order: every statement is done for all elements before the next one starts, and reads all its elements before it writes
any. So an element sees its own earlier writes, and `A[i] = A[i + 1]` moves the row as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from minitile.analysis.variables import is_fragment
from minitile.ir.builder import Builder
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.diagnostics import LanguageError
from minitile.ir.ops import arith, control, tile
from minitile.ir.rewrite import ERASE, Rewriter, erase_unused, remake
from minitile.ir.types import BufferType, TileType, dtype_of
from minitile.transforms.tile.fragment_indices import numbers_of

if TYPE_CHECKING:
    from minitile.transforms.manager import PassContext

Dims = tuple[int, ...]


def tile_vectorize(kernel: Kernel, context: PassContext) -> None:
    _ParallelToTiles().run(kernel)
    erase_unused(kernel)


class _ParallelToTiles(Rewriter):
    def visit(self, op: Op) -> tuple[Value, ...] | None:
        if not isinstance(op, control.Parallel):
            return None
        if 0 not in op.extents:
            _Body(self.b, op).block(op.body)
        return ERASE


@dataclass(frozen=True, slots=True)
class Lifted:
    """What a scalar of the body became: a scalar when `dims` is empty, else a tile over those parallel dimensions
    (ascending). `base` and `along` when it is base + the index of dimension `along`, with base a scalar."""

    value: Value
    dims: Dims = ()
    base: Value | None = None
    along: int = -1


def _union(*parts: Dims) -> Dims:
    return tuple(sorted({d for dims in parts for d in dims}))


class _Body:
    """Emits one parallel body through `b`."""

    def __init__(self, b: Builder, op: control.Parallel) -> None:
        self.b = b
        self.extents = op.extents
        self.names = [arg.name or f"#{d}" for d, arg in enumerate(op.body.args)]
        self.all_dims = tuple(d for d, extent in enumerate(op.extents) if extent > 1)
        self.mask: Lifted | None = None
        zero = b.constant(0)
        self.map: dict[Value, Lifted] = {arg: Lifted(zero) for arg in op.body.args}
        for d in self.all_dims:
            iota = b.value(tile.Iota((op.extents[d],), 0), self.names[d])
            self.map[op.body.args[d]] = Lifted(iota, (d,), zero, d)

    # Values ---------------------------------------------------------------------------------------------------------

    def of(self, value: Value) -> Lifted:
        return self.map.get(value) or Lifted(value)

    def dims_of(self, values: tuple[Value, ...]) -> Dims:
        return _union(*[self.of(v).dims for v in values])

    def scalar(self, value: Value, what: str, op: Op) -> Value:
        lifted = self.of(value)
        if lifted.dims:
            raise LanguageError(
                f"{what} depends on the T.Parallel index {self.names[lifted.dims[0]]!r}",
                op.loc,
                "inside T.Parallel only `if` may differ between elements: loop over the whole range, `if` inside",
            )
        return lifted.value

    def shape(self, dims: Dims) -> tuple[int, ...]:
        return tuple(self.extents[d] for d in dims)

    def expand(self, lifted: Lifted, dims: Dims) -> Value:
        """The value as a tile over `dims`, which include its own; a scalar stays one."""
        value, own = lifted.value, lifted.dims
        if not own or own == dims:
            return value
        if isinstance(value.op, tile.Iota):
            return self.b.value(tile.Iota(self.shape(dims), dims.index(own[0])), value.name)
        for place, d in enumerate(dims):
            if d not in own:
                value = self.b.value(tile.Expand(value, place, self.extents[d]), value.name)
        return value

    def spread(self, lifted: Lifted, dims: Dims) -> Value:
        """As expand, but a scalar is splat; a scalar when `dims` is empty."""
        if dims and not lifted.dims:
            return self.b.value(tile.Splat(lifted.value, self.shape(dims)))
        return self.expand(lifted, dims)

    def both(self, a: Lifted | None, b: Lifted) -> Lifted:
        """a and b, for conditions."""
        if a is None:
            return b
        dims = _union(a.dims, b.dims)
        return Lifted(self.b.value(arith.And(self.expand(a, dims), self.expand(b, dims))), dims)

    # Operations -----------------------------------------------------------------------------------------------------

    def block(self, block: Block) -> list[Lifted]:
        """Emit a block's operations; what its terminator yields."""
        for op in block.ops:
            if isinstance(op, control.Yield):
                return [self.of(v) for v in op.values]
            outer, self.b.loc = self.b.loc, op.loc
            handler = _HANDLERS.get(type(op))
            if handler is not None:
                handler(self, op)
            elif op.pure and not op.uniform and not isinstance(op, tile.ThreadIndex):
                self.elementwise(op)
            else:
                raise LanguageError(f"{op.mnemonic} can not stand inside T.Parallel", op.loc)
            self.b.loc = outer
        return []

    def elementwise(self, op: Op) -> None:
        parts = [self.of(v) for v in op.operands]
        dims = _union(*[p.dims for p in parts])
        new = remake(op, lambda v: self.expand(self.of(v), dims))
        if len(op.results) == 1:
            value = self.b.value(new, op.result.name)
            self.map[op.result] = Lifted(value, dims, *self.affine(op, parts))
            return
        for old, value in zip(op.results, self.b.emit(new).results, strict=True):
            value.name = old.name
            self.map[old] = Lifted(value, dims)

    def affine(self, op: Op, parts: list[Lifted]) -> tuple[Value | None, int]:
        """The base and dimension of `base + i_d` where the result has that form. Unsigned numbers wrap one by one."""
        if dtype_of(op.result.type).kind == "uint":
            return None, -1
        if isinstance(op, arith.Cast):
            (a,) = parts
            if a.base is not None and op.to.is_int and op.to.bits >= op.a.dtype.bits:
                return self.b.cast(a.base, op.to), a.along
        elif isinstance(op, arith.Add | arith.Sub):
            a, b = parts
            if a.base is not None and not b.dims:
                return self.b.value(type(op)(a.base, b.value)), a.along
            if isinstance(op, arith.Add) and b.base is not None and not a.dims:
                return self.b.add(b.base, a.value), b.along
        return None, -1

    def place(self, indices: tuple[Value, ...], dims: Dims) -> tuple[tuple[Value, ...], tuple[int | None, ...]]:
        """Indices and `dims` of a memory operation on a tile over the parallel dimensions `dims`. Of two indices along
        the same dimension the last one is the affine one. If some dimension is in no index, then one index is a tile.
        """
        at: list[Value] = []
        runs: list[int | None] = []
        taken: set[int] = set()
        for lifted in map(self.of, reversed(indices)):
            if lifted.base is not None and lifted.along not in taken:
                taken.add(lifted.along)
                at.append(lifted.base)
                runs.append(dims.index(lifted.along))
            else:
                at.append(self.expand(lifted, dims))
                runs.append(None)
        if set(range(len(dims))) - set(runs) and not any(index.shape for index in at):
            # Elements along a dimension without index share a place: that takes an address for each.
            at[-1], runs[-1] = self.spread(self.of(indices[0]), dims), None
        return tuple(at[::-1]), tuple(runs[::-1])

    def guard(self, mask: Value | None) -> Lifted | None:
        """The mask here, and the operation's own."""
        return self.mask if mask is None else self.both(self.mask, self.of(mask))

    def inside(self, index: Value, extent: int) -> Value:
        """An index of a fragment under a condition: one that leaves the fragment is that of its nearest element, where
        the condition does not hold."""
        lifted = self.of(index)
        numbers = numbers_of(lifted.value) if lifted.dims else None
        if numbers is None or (numbers.min() >= 0 and numbers.max() < extent):
            return index
        low, high = (self.spread(Lifted(self.b.constant(n, index.dtype)), lifted.dims) for n in (0, extent - 1))
        near = self.b.value(arith.Min(self.b.value(arith.Max(lifted.value, low)), high))
        self.map[near] = Lifted(near, lifted.dims)
        return near

    def load(self, op: tile.Load) -> None:
        if self.mask is not None and is_fragment(op.mem):
            op.indices = tuple(self.inside(i, size) for i, size in zip(op.indices, op.mem.shape, strict=True))
        dims = self.dims_of(op.indices)
        mask = self.guard(op.mask)
        if isinstance(op.mem.type, BufferType):
            mask = None if op.mem.type.space == "fragment" else mask
            dims = dims if mask is None else _union(dims, mask.dims)
        elif mask is not None and not set(mask.dims) <= set(dims):
            mask = None
        at, runs = self.place(op.indices, dims)
        load = tile.Load(
            op.mem,
            at,
            mask=None if mask is None else self.spread(mask, dims),
            slot=op.slot,
            rank=op.rank,
            shape=self.shape(dims),
            dims=runs,
            evict=op.evict,
        )
        self.map[op.result] = Lifted(self.b.emit(load).result, dims)
        load.result.name = op.result.name

    def store(self, op: tile.Store) -> None:
        places = self.dims_of(op.indices)
        value, mask = self.of(op.value), self.guard(op.mask)
        extra = set(value.dims) - set(places)
        picked = set(mask.dims) - set(places) if mask is not None else set()
        dims = places
        missing = set(self.all_dims) - set(places)
        if missing and _reads(op.value, op.mem):
            extra |= missing
        if extra - picked:
            self.many_values(op, min(extra - picked), "")
        elif picked and is_fragment(op.mem):
            if extra:
                self.many_values(op, min(extra), "copy the fragment to shared memory and store there; or ")
            assert mask is not None
            mask = self.any(mask, places)
        else:
            dims = _union(places, tuple(picked))
        at, runs = self.place(op.indices, dims)
        masked = None if mask is None else self.spread(mask, dims)
        moved = self.spread(value, dims)
        self.b.emit(tile.Store(op.mem, at, moved, mask=masked, slot=op.slot, rank=op.rank, dims=runs, evict=op.evict))

    def many_values(self, op: tile.Store, d: int, hint: str) -> None:
        raise LanguageError(
            f"all elements along the T.Parallel index {self.names[d]!r} write the same place of "
            f"{op.mem.name or 'memory'!r}, each its own value: which one stays is undefined",
            op.loc,
            f"{hint}use the index {self.names[d]!r} in the destination, T.atomic_add, or a T.reduce_*",
        )

    def any(self, mask: Lifted, dims: Dims) -> Lifted:
        """Whether the mask holds anywhere along the dimensions that are not in `dims`."""
        value, own = mask.value, list(mask.dims)
        for d in sorted(set(mask.dims) - set(dims), reverse=True):
            value = self.b.value(tile.Reduce(value, own.index(d), "or"))
            own.remove(d)
        return Lifted(value, tuple(own))

    def atomic(self, op: tile.AtomicRmw) -> None:
        if not self.all_dims:
            self.single_atomic(op)
            return
        at, runs = self.place(op.indices, self.all_dims)
        mask = self.guard(op.mask)
        new = tile.AtomicRmw(
            op.mem,
            at,
            self.spread(self.of(op.value), self.all_dims),
            mask=None if mask is None else self.spread(mask, self.all_dims),
            kind=op.kind,
            dims=runs,
        )
        self.map[op.result] = Lifted(self.b.emit(new).result, self.all_dims)

    def single_atomic(self, op: tile.AtomicRmw) -> None:
        def one(value: Value) -> Value:
            return self.b.value(tile.Splat(self.of(value).value, (1,)))

        *first, last = op.indices
        mask = self.guard(op.mask)
        masked = None if mask is None else self.b.value(tile.Splat(mask.value, (1,)))
        at = (*(self.of(i).value for i in first), one(last))
        new = tile.AtomicRmw(op.mem, at, one(op.value), mask=masked, kind=op.kind, dims=(None,) * len(at))
        self.map[op.result] = Lifted(self.b.value(tile.Reduce(self.b.emit(new).result, 0, "sum")))

    def if_(self, op: control.If) -> None:
        condition = self.of(op.condition)
        if condition.dims:
            self.predicate(op, condition)
            return
        new = [Block(), Block()]
        yields = []
        for block, old in zip(new, op.regions, strict=True):
            with self.b.inside(block):
                yields.append(self.block(old))
        for result, parts in zip(op.results, zip(*yields, strict=True), strict=True):
            self.map[result] = Lifted(result, _union(*[p.dims for p in parts]))
        for block, lifted in zip(new, yields, strict=True):
            with self.b.inside(block):
                values = [self.spread(p, self.of(r).dims) for p, r in zip(lifted, op.results, strict=True)]
                self.b.emit(control.Yield(tuple(values)))
        branch = self.b.emit(control.If(condition.value, then=new[0], orelse=new[1]))
        self.results(op, branch)

    def predicate(self, op: control.If, condition: Lifted) -> None:
        """Both branches one after the other, each under its mask."""
        outer = self.mask
        self.mask = self.both(outer, condition)
        then = self.block(op.then)
        self.mask = self.both(outer, Lifted(self.b.value(arith.Not(condition.value)), condition.dims))
        orelse = self.block(op.orelse)
        self.mask = outer
        for result, a, b in zip(op.results, then, orelse, strict=True):
            dims = _union(condition.dims, a.dims, b.dims)
            select = arith.Select(self.expand(condition, dims), self.expand(a, dims), self.expand(b, dims))
            self.map[result] = Lifted(self.b.value(select, result.name), dims)

    def for_(self, op: control.For) -> None:
        lower, upper, step = (self.scalar(v, "the range of this loop", op) for v in (op.lower, op.upper, op.step))
        carried = [self.of(v).dims for v in op.init]
        while True:  # until the carried values' dimensions hold for the next round, too
            body = Block()
            self.map[op.iv] = Lifted(body.add_arg(op.iv.type, op.iv.name))
            for arg, dims in zip(op.carried, carried, strict=True):
                kind = TileType(self.shape(dims), arg.dtype) if dims else arg.type
                self.map[arg] = Lifted(body.add_arg(kind, arg.name), dims)
            with self.b.inside(body):
                yields = self.block(op.body)
                needed = [_union(dims, y.dims) for dims, y in zip(carried, yields, strict=True)]
                if needed == carried:
                    values = [self.spread(y, dims) for y, dims in zip(yields, carried, strict=True)]
                    self.b.emit(control.Yield(tuple(values)))
                    break
                carried = needed
        init = tuple([self.spread(self.of(v), dims) for v, dims in zip(op.init, carried, strict=True)])
        loop = self.b.emit(
            control.For(
                lower,
                upper,
                step,
                init,
                kind=op.kind,
                stages=op.stages,
                order=op.order,
                stage_of=op.stage_of,
                body=body,
            )
        )
        for result, dims in zip(op.results, carried, strict=True):
            self.map[result] = Lifted(result, dims)
        self.results(op, loop)

    def results(self, op: Op, new: Op) -> None:
        """The new operation's results stand for the old one's, over the dimensions already noted."""
        for old, value in zip(op.results, new.results, strict=True):
            value.name = old.name
            self.map[old] = Lifted(value, self.map[old].dims)

    def assume(self, op: arith.Assume) -> None:
        condition = self.of(op.condition)
        if not condition.dims and self.mask is None:
            self.b.emit(arith.Assume(condition.value))

    def device_assert(self, op: tile.DeviceAssert) -> None:
        condition = self.of(op.condition)
        if self.mask is not None:
            dims = _union(condition.dims, self.mask.dims)
            off = self.b.value(arith.Not(self.expand(self.mask, dims)))
            condition = Lifted(self.b.value(arith.Or(self.expand(condition, dims), off)), dims)
        self.b.emit(tile.DeviceAssert(condition.value, text=op.text))

    def print(self, op: tile.Print) -> None:
        if self.mask is not None:
            raise LanguageError(
                "T.print under a condition that differs between elements is planned", op.loc, "print a T.if_then_else"
            )
        dims = self.dims_of(op.values)
        self.b.emit(tile.Print(tuple([self.spread(self.of(v), dims) for v in op.values]), text=op.text))

    def while_(self, op: control.While) -> None:
        raise LanguageError("`while` inside T.Parallel", op.loc, "use a `for` with uniform bounds and no `break`")


def _reads(value: Value, mem: Value) -> bool:
    """Whether a value of the body is computed from what lies in `mem`."""
    todo, seen = [value], {value}
    while todo:
        op = todo.pop().op
        if op is None:
            continue
        if getattr(op, "mem", None) is mem:
            return True
        inside = [v for region in op.regions for inner in region.walk() for v in inner.operands]
        new = {*op.operands, *inside} - seen
        seen |= new
        todo += new
    return False


_HANDLERS: dict[type[Op], Callable[[_Body, Any], None]] = {
    tile.Load: _Body.load,
    tile.Store: _Body.store,
    tile.AtomicRmw: _Body.atomic,
    tile.DeviceAssert: _Body.device_assert,
    tile.Print: _Body.print,
    control.If: _Body.if_,
    control.For: _Body.for_,
    control.While: _Body.while_,
    arith.Assume: _Body.assume,
}
