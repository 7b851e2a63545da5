"""Reducers become fragments and reductions: on traced IR, before `tile_vectorize`.

    %acc = alloc fragment<32xf32>                           %acc = alloc fragment<32xf32>
    fill %acc, 0.0                                          %part = alloc fragment<32x128xf32>
    for … {                                                 fill %acc, 0.0 ; fill %part, 0.0
      parallel {extents = (32, 128)} (%i, %k) {             for … {
        reducer_update %acc[%i], %x {kind = "sum"}   →        parallel {extents = (32, 128)} (%i, %k) {
      }                                                         store %part[%i, %k], (load %part[%i, %k]) + %x
    }                                                         }
    finalize_reducer %acc -> %d                             }
                                                            reduce_into %part, %sum {dim = 1}
                                                            parallel (%i) { store %acc[%i], (load %acc[%i]) + %sum[%i] }
                                                            copy %acc, %d

What threads exchange is done once, at the end. The partial results of an update take as many registers as its values;
where that is too much, where the place changes (`acc[%k]`), or no statement finalises the reducer, they are reduced
behind each T.Parallel instead. Every index combination contributes once, whatever the layout repeats."""

from __future__ import annotations

import math

from minitile.ir.builder import Builder, constant_of
from minitile.ir.core import Block, Kernel, Value
from minitile.ir.diagnostics import LanguageError
from minitile.ir.ops import arith, control, tile
from minitile.ir.types import I32, BufferType
from minitile.lowering.exchange import neutral
from minitile.transforms.manager import PassContext

REGISTERS = 64  # of a thread, for the partial results of one update


class _Site:
    """One update: its parallel loop, and its partial results."""

    def __init__(self, update: tile.ReducerUpdate, loop: control.Parallel) -> None:
        self.update, self.loop = update, loop
        self.mem = update.mem
        self.dims = [_index(update, i, loop) for i in update.indices]
        alloc = tile.Alloc(BufferType("fragment", loop.extents, update.mem.dtype))
        alloc.loc, alloc.result.name = update.loc, update.mem.name
        self.alloc, self.part = alloc, alloc.result

    @property
    def moves(self) -> bool:
        """Whether the place that is contributed to may be another one next time."""
        places = zip(self.dims, self.update.indices, strict=True)
        return any(d is None and constant_of(index) is None for d, index in places)

    @property
    def registers(self) -> int:
        return math.prod(self.loop.extents) * self.mem.dtype.bits // 32


def _index(update: tile.ReducerUpdate, index: Value, loop: control.Parallel) -> int | None:
    """The parallel dimension that an index is; None for one that is the same for all elements."""
    if index in loop.body.args:
        d = loop.body.args.index(index)
        place = update.indices.index(index)
        if loop.extents[d] == update.mem.shape[place]:
            return d
    elif constant_of(index) is not None or (index.owner is not loop.body and not _inside(index, loop)):
        return None
    raise LanguageError(
        f"an index of the reducer {update.mem.name!r} is neither a T.Parallel index over the whole dimension nor the "
        "same for all elements",
        update.loc,
        "let T.Parallel run over the reducer's dimensions, with an `if` inside",
    )


def _inside(value: Value, loop: control.Parallel) -> bool:
    return value.op is not None and value.op in set(loop.body.walk())


def expand_reducers(kernel: Kernel, context: PassContext) -> None:
    """The pass."""
    sites: dict[tile.ReducerUpdate, _Site] = {}
    for op in kernel.walk():
        if isinstance(op, control.Parallel):
            for inner in op.body.walk():
                if isinstance(inner, tile.ReducerUpdate):
                    sites[inner] = _Site(inner, op)
    ends = {op.mem for op in kernel.walk() if isinstance(op, tile.FinalizeReducer)}
    if not sites and not ends:
        return
    launch = control.find_launch(kernel)
    most = REGISTERS * launch.threads
    early = {s.loop for s in sites.values() if s.mem not in ends or s.moves or s.registers > most}
    _Expand(list(sites.values()), early).block(kernel.body)


class _Expand:
    def __init__(self, sites: list[_Site], early: set[control.Parallel]) -> None:
        self.sites, self.early = sites, early

    def of(self, mem: Value, early: bool = False) -> list[_Site]:
        """The sites whose partial results wait for the end."""
        return [s for s in self.sites if s.mem is mem and (s.loop in self.early) == early]

    def block(self, block: Block) -> None:
        old, block.ops = block.ops, []
        b = Builder(block)
        for op in old:
            b.loc = op.loc
            mine = [s for s in self.sites if s.loop is op]
            if isinstance(op, control.Parallel) and mine:
                late = [s for s in mine if op in self.early]
                for site in late:
                    self.clear(b, site)
                self.updates(op.body, mine)
                block.ops.append(op)
                for site in late:
                    self.reduce(b, site)
                continue
            for region in op.regions:
                self.block(region)
            if isinstance(op, tile.FinalizeReducer):
                for site in self.of(op.mem):
                    self.reduce(b, site)
                    self.clear(b, site)
                self.finalize(b, op)
                continue
            block.ops.append(op)
            if isinstance(op, tile.Alloc):
                block.ops += [s.alloc for s in self.sites if s.mem is op.result]
            elif isinstance(op, tile.Fill):
                for site in self.of(op.mem):
                    self.clear(b, site)

    def clear(self, b: Builder, site: _Site) -> None:
        """Nothing has contributed."""
        dtype, rank = site.mem.dtype, len(site.loop.extents)
        zero = (b.constant(0),) * rank
        number = b.constant(neutral(site.update.kind, dtype), dtype)
        b.emit(tile.Fill(site.part, zero, number, shape=site.loop.extents, dims=tuple(range(rank))))

    def updates(self, block: Block, mine: list[_Site]) -> None:
        """Contributions go to the partial results, each to a place of its own."""
        old, block.ops = block.ops, []
        b = Builder(block)
        for op in old:
            for region in op.regions:
                self.updates(region, mine)
            site = next((s for s in mine if s.update is op), None)
            if site is None:
                block.ops.append(op)
                continue
            b.loc = op.loc
            at, points = site.loop.body.args, (None,) * len(site.loop.extents)
            before = b.emit(tile.Load(site.part, at, shape=(), dims=points)).result
            b.emit(tile.Store(site.part, at, _combined(b, site.update, before), dims=points))

    def reduce(self, b: Builder, site: _Site) -> None:
        """The partial results join the reducer."""
        value, shape = site.part, list(site.loop.extents)
        kept = list(range(len(shape)))
        for d in reversed(range(len(shape))):
            if d in site.dims:
                continue
            kept.remove(d)
            del shape[d]
            small = b.emit(tile.Alloc(BufferType("fragment", tuple(shape) or (1,), site.mem.dtype))).result
            b.emit(tile.ReduceInto(value, small, dim=d, kind=site.update.kind, clear=True))
            value = small
        loop = control.Parallel(extents=tuple(shape) or (1,))
        with b.inside(loop.body):
            ivs = [loop.body.add_arg(I32) for _ in loop.extents]
            at = tuple(
                ivs[kept.index(d)] if d is not None else _again(b, index)
                for d, index in zip(site.dims, site.update.indices, strict=True)
            )
            points = (None,) * len(at)
            new = b.emit(tile.Load(value, tuple(ivs), shape=(), dims=(None,) * len(ivs))).result
            before = b.emit(tile.Load(site.mem, at, shape=(), dims=points)).result
            joined = b.value(arith.COMBINE[site.update.kind](before, new))
            b.emit(tile.Store(site.mem, at, joined, dims=points))
            b.emit(control.Yield(()))
        b.emit(loop)

    def finalize(self, b: Builder, op: tile.FinalizeReducer) -> None:
        if op.dst is not None:
            rank = len(op.mem.shape)
            zero, dims = (b.constant(0),) * rank, tuple(range(rank))
            b.emit(tile.Copy(op.mem, zero, op.dst, zero, shape=op.mem.shape, src_dims=dims, dst_dims=dims))


def _again(b: Builder, index: Value) -> Value:
    """An index that may stand in a block that has ended."""
    number = constant_of(index)
    return index if number is None else b.constant(number, index.dtype)


def _combined(b: Builder, update: tile.ReducerUpdate, before: Value) -> Value:
    return b.value(arith.COMBINE[update.kind](before, update.value))
