"""Every second element is accessed together with those between.

    %x = load %X[%r, 2*%j]        shape (64,)       %w = load %X[%r, 0]      shape (128,)
    %y = load %X[%r, 2*%j + 1]    shape (64,)  →    %x = interleaved_slice %w {count = 2, index = 0}
    store %Y[%r, 2*%j], %a                          %y = interleaved_slice %w {count = 2, index = 1}
    store %Y[%r, 2*%j + 1], %b                      store %Y[%r, 0], (interleave %a, %b)

So are pairs of real and imaginary parts, or what a rotary embedding turns, loaded and stored by vectors, and taken
apart in registers. Loads: of a tensor along its contiguous dimension, with steps of 2 or 4 and no mask but the bounds;
those of one place are one, where nothing is written in between; of a tensor that the kernel writes, if all parts
are. Stores: where all parts are stored in one block, with
nothing between them that touches the tensor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from minitile.analysis.affine import Affine, Facts
from minitile.analysis.masks import Masks
from minitile.ir.builder import Builder
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import tile
from minitile.ir.ops.views import Interleave
from minitile.ir.types import TensorType, TileType
from minitile.transforms.canonicalize.dead_code import remove_dead

if TYPE_CHECKING:
    from minitile.transforms.manager import PassContext

STEPS = (2, 4)


def interleave_accesses(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    pairs = _Pairs(kernel)
    pairs.block(kernel.body)
    if pairs.found:
        remove_dead(kernel.body, set())


@dataclass(frozen=True)
class _Place:
    """Part `part` of `count` interleaved ones: elements  start + count*i + part  along tile dimension `dim`, memory
    dimension `along`, of tiles of one shape."""

    mem: Value
    shape: tuple[int, ...]
    others: tuple[Affine, ...]
    dims: tile.Dims
    along: int
    dim: int
    count: int
    start: Affine
    part: int

    @property
    def whole(self) -> object:
        """What all parts have in common."""
        return self.mem, self.shape, self.others, self.dims, self.along, self.dim, self.count, self.start


class _Pairs:
    def __init__(self, kernel: Kernel) -> None:
        self.facts = Facts(kernel)
        self.masks = Masks(self.facts)
        self.written = {a.mem for op in kernel.walk() for a in op.accesses() if a.writes}
        self.found = False

    def block(self, block: Block) -> None:
        loads: dict[object, Value] = {}  # by what is in common
        stores: dict[object, dict[int, tile.Store]] = {}  # those that wait for the other parts
        wanted = self._wanted(block)
        old, block.ops = block.ops, []
        b = Builder(block)
        for op in old:
            for region in op.regions:
                self.block(region)
            b.loc, b.why = op.loc, op.why
            place = self._place(op) if isinstance(op, (tile.Load, tile.Store)) else None
            key = place.whole if place is not None and isinstance(op, tile.Store) else None
            touched, written = self._touched(op)
            loads = {} if None in written else {k: v for k, v in loads.items() if _mem(v.op) not in written}
            if None in touched:
                stores = {}
            stores = {k: v for k, v in stores.items() if k == key or _mem(next(iter(v.values()))) not in touched}
            if isinstance(op, tile.Load) and place is not None and op in wanted:
                self._load(b, op, place, loads)
                continue
            if isinstance(op, tile.Store) and place is not None:
                parts = stores.setdefault(key, {})
                parts[place.part] = op
                if len(parts) == place.count:
                    block.ops = [x for x in block.ops if x not in parts.values()]
                    self._store(b, op, place, stores.pop(key))
                    continue
            block.ops.append(op)

    def _wanted(self, block: Block) -> set[Op]:
        """The loads that may read the other parts, too: of memory that the kernel does not write, or that it reads all
        parts of."""
        found: set[Op] = set()
        open_: dict[object, dict[int, tile.Load]] = {}
        for op in block.ops:
            written = self._touched(op)[1]
            if None in written:
                open_ = {}
            open_ = {k: v for k, v in open_.items() if _mem(next(iter(v.values()))) not in written}
            place = self._place(op) if isinstance(op, tile.Load) else None
            if isinstance(op, tile.Load) and place is not None:
                parts = open_.setdefault(place.whole, {})
                parts[place.part] = op
                if op.mem not in self.written or len(parts) == place.count:
                    found.update(parts.values())
        return found

    def _touched(self, op: Op) -> tuple[set[Value | None], set[Value | None]]:
        """What memory an operation reads or writes, and what it writes; None: any."""
        if op.region_fields or op.orders:
            return {None}, {None}
        accesses = op.accesses()
        return {a.mem for a in accesses}, {a.mem for a in accesses if a.writes}

    def _place(self, op: tile.Load | tile.Store) -> _Place | None:
        kind, tiles = op.mem.type, [n for n, v in enumerate(op.indices) if isinstance(v.type, TileType)]
        if not isinstance(kind, TensorType) or tiles != [kind.contiguous_dim] or op.shift is not None:
            return None
        along, like = tiles[0], op.indices[tiles[0]]
        shape = op.moved.shape
        if kind.dtype.bits < 8 or like.shape != shape or op.dims[along] is not None:
            return None
        index = self.masks.expression(like, tuple(range(len(shape))), like)
        for dim, size in enumerate(shape):
            split = index.split(self.masks.coordinate(dim, size))
            if split is None or split[0].const not in STEPS or not split[0].is_constant or dim in op.dims:
                continue
            count, rest = split[0].const, split[1]
            others = tuple(self.facts.affine(v) for n, v in enumerate(op.indices) if n != along)
            if any(isinstance(v.type, TileType) for v in rest.atoms()):
                return None
            if op.mask is not None or any(d not in op.dims and d != dim for d in range(len(shape))):
                return None
            part = rest.const % count
            return _Place(op.mem, shape, others, op.dims, along, dim, count, rest - part, part)
        return None

    def _load(self, b: Builder, op: tile.Load, place: _Place, loads: dict[object, Value]) -> None:
        self.found = True
        shape = (*op.shape[: place.dim], op.shape[place.dim] * place.count, *op.shape[place.dim + 1 :])
        key = place.whole, op.evict
        if key not in loads:
            indices, dims = self._wide(b, op, place)
            loads[key] = b.emit(tile.Load(op.mem, indices, shape, dims, evict=op.evict)).result
        part = tile.InterleavedSlice(loads[key], place.dim, 1, place.count, place.part)
        part.results = op.results
        op.result.owner = part
        part.loc, part.why = op.loc, op.why
        b.block.ops.append(part)

    def _store(self, b: Builder, op: tile.Store, place: _Place, parts: dict[int, tile.Store]) -> None:
        self.found = True
        indices, dims = self._wide(b, op, place)
        value = b.value(Interleave(tuple(parts[n].value for n in range(place.count)), place.dim))
        b.emit(tile.Store(op.mem, indices, value, dims, evict=op.evict, tf32=op.tf32))

    def _wide(self, b: Builder, op: tile.Load | tile.Store, place: _Place) -> tuple[tuple[Value, ...], tile.Dims]:
        """The indices and dimensions of all parts together."""
        indices, dims = list(op.indices), list(op.dims)
        indices[place.along] = self._emit(b, place.start, op.indices[place.along])
        dims[place.along] = place.dim
        return tuple(indices), tuple(dims)

    def _emit(self, b: Builder, a: Affine, like: Value) -> Value:
        total = b.constant(a.const, like.dtype)
        for monomial, factor in a.terms.items():
            product = b.constant(factor, like.dtype)
            for atom in monomial:
                product = b.mul(product, b.cast(atom, like.dtype))
            total = b.add(total, product)
        return total


def _mem(op: Op | None) -> Value:
    assert isinstance(op, (tile.Load, tile.Store))
    return op.mem
