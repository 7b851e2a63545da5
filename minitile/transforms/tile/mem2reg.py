"""Fragments become SSA tile values, local arrays with constant indices scalars; the kernel enters the tile stage.

    %acc = alloc fragment<128x64xf32>
    fill %acc[0, 0], 0.0                              %z = splat 0.0 : tile<128x64xf32>
    for %k = 0 to %n {                                %r = for %k = 0 to %n carry(%c = %z) {
      copy %A[…] -> %As                                 copy %A[…] -> %As
      gemm_into %As, %Bs, %acc                 →        %c1 = gemm %As, %Bs, %c
    }                                                   yield %c1 }
    copy %acc -> %C[%m, %n] {f32 to bf16}             %d = cast %r {to = bf16}
                                                      store %C[%m, %n], %d

A *variable* is a fragment, or one element of a local array all of whose accesses are scalar at constant indices. A
backward walk finds which variables each loop must carry and each branch must give (written inside and live there); a
forward walk then rewrites, with the current value of each variable at hand.

Reading   the whole fragment is its value (permuted, expanded as `dims` say); a constant part is a `slice`; every n-th
          run of elements (`2 * j + 1`, `j // 8 * 16 + j % 8`) is a `deal`; one index of a dimension is picked by
          `reduce(select(iota == index, value, 0))` (a sum, so -0.0 comes out as 0.0); one element is an `extract`;
          neighbours `j // n + m` are a `repeat`. Whatever else is read from a copy in shared memory.
Views     a fragment or shared buffer under another shape (`view`) is read and written as its `reshape`d whole.
Writing   the whole fragment is a new value; a part, or under a mask, is `select(inside, new, old)`; one element is
          `insert`. Every n-th element (`2 * j + 1`) is a part that comes from the value's `repeat`. Any other value of
          fewer elements than the fragment can not be moved to a place in it, except a number (fill) and what comes from
          memory (loaded at its place at once).
Unset     A variable that is read where no path has written it is an error (paths through a loop's body count where the
          read's own part of the body may be skipped in the first round); where only some path has, it starts as zeros.

Also here: `fill` of shared memory is a store of a splat, copies between dtypes are load, cast, store.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from minitile.analysis.variables import Variable, Variables, is_fragment
from minitile.ir.builder import constant_of
from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.diagnostics import InternalError, LanguageError, Location
from minitile.ir.ops import arith, cluster, control, explicit, tile
from minitile.ir.ops.views import Recast, Reshape, View, viewed
from minitile.ir.rewrite import ERASE, Rewriter, erase_unused, recast
from minitile.ir.types import BufferType, ScalarType, TensorType, TileType, Type, bool_, u8
from minitile.transforms.tile.fragment_indices import interleaved_by, numbers_of, repeated_by

if TYPE_CHECKING:
    from minitile.transforms.manager import PassContext

Indices = tuple[Value, ...]
Shape = tuple[int, ...]
New = tuple[Value, ...] | Value | None


def is_view(mem: Value) -> bool:
    return isinstance(mem.op, View)


def mem2reg(kernel: Kernel, context: PassContext) -> None:
    to_values = _ToValues(Variables(kernel))
    to_values.run(kernel)
    if to_values.copies:
        control.find_launch(kernel).body.ops[:0] = to_values.copies
    erase_unused(kernel)
    kernel.stage = "tile"


class _ToValues(Rewriter):
    """`now` holds each variable's value, `written` those that some path to here has written (in the first rounds of
    loops), `inside_of` the operations and their regions around here."""

    def __init__(self, variables: Variables) -> None:
        super().__init__()
        self.variables = variables
        self.now: dict[Variable, Value] = {}
        self.written: set[Variable] = set()
        self.inside_of: list[tuple[Op, Block]] = []
        self.copies: list[Op] = []  # the shared buffers for fragments that are read at other threads' places

    def visit(self, op: Op) -> New:
        handler = _HANDLERS.get(type(op))
        new = None if handler is None else handler(self, op)
        if new is None and any(is_fragment(v) for v in op.operands):
            raise InternalError(f"{op.mnemonic} on a fragment", op.loc)
        return new

    # Variables ------------------------------------------------------------------------------------------------------

    def zero(self, like: Type) -> Value:
        """A number 0 or False of the type's dtype, splat for a tile."""
        dtype = like.dtype  # type: ignore[attr-defined]
        number = self.b.constant(False if dtype is bool_ else 0.0 if dtype.is_float else 0, dtype)
        return self.b.value(tile.Splat(number, like.shape)) if isinstance(like, TileType) else number

    def current(self, variable: Variable) -> Value:
        """Its value, zeros where it may not have one yet."""
        mem = viewed(variable.mem)
        if mem is not variable.mem:
            return self.seen_as(self.current(Variable(mem)), variable.mem)
        value = self.now.get(variable)
        return self.zero(variable.type) if value is None else value

    def read(self, variable: Variable, loc: Location | None) -> Value:
        mem = viewed(variable.mem)
        if mem is not variable.mem:
            return self.seen_as(self.read(Variable(mem), loc), variable.mem)
        if variable not in self.written and not self.variables.comes_around(variable, self.inside_of):
            raise LanguageError(
                f"{variable} is read before it is written", loc, f"T.clear({variable.mem.name}) before, for zeros"
            )
        return self.current(variable)

    def seen_as(self, value: Value, mem: Value) -> Value:
        """The tile as the elements, and in the shape, of a buffer that it is viewed as."""
        if value.dtype.bits != mem.dtype.bits:
            value = self.recast(value, mem)
        elif value.dtype is not mem.dtype:
            value = self.b.value(arith.Reinterpret(value, mem.dtype))
        return value if value.shape == mem.shape else self.b.value(Reshape(value, mem.shape))

    def recast(self, value: Value, mem: Value) -> Value:
        """The tile as elements of the buffer's width: neighbours in the last dimension of the wider one."""
        if value.dtype.bits < mem.dtype.bits:
            *outer, last = mem.shape
            shape = (*outer, last * (mem.dtype.bits // value.dtype.bits))
            value = value if value.shape == shape else self.b.value(Reshape(value, shape))
        return self.b.value(Recast(value, mem.dtype))

    def write(self, variable: Variable, value: Value) -> tuple[Value, ...]:
        mem = viewed(variable.mem)
        if mem is not variable.mem:
            return self.write(Variable(mem), self.seen_as(value, mem))
        value.name = value.name or variable.mem.name
        self.now[variable] = value
        self.written.add(variable)
        return ERASE

    # Regions of fragments -------------------------------------------------------------------------------------------

    def read_region(self, op: Op, mem: Value, indices: Indices, dims: tile.Dims, shape: Shape) -> Value:
        """The tile (a scalar for shape ()) that lies in a fragment at `indices` along `dims`."""
        value = self.read(Variable(mem), op.loc) if is_fragment(mem) else self.whole(op, mem)
        runs_along = list(dims)
        for place, index in enumerate(indices):
            if isinstance(index.type, TileType):
                taken = set(runs_along[:place] + [d for d in dims[place:] if d is not None])
                found = interleaved_by(index, mem.shape[place])
                repeat = None if found is not None else repeated_by(index, mem.shape[place])
                if found is not None and found[0] not in taken:
                    runs_along[place], run, count, number = found
                    value = self.b.value(tile.InterleavedSlice(value, place, run, count, number))
                elif repeat is not None and repeat[0] not in taken:
                    runs_along[place], first, times = repeat
                    value = self.repeated(value, place, first, times, index.shape[repeat[0]])
                else:
                    return self.staged(op, mem, indices, dims, shape)
            elif (d := dims[place]) is not None and constant_of(index) is None and mem.shape[place] > 1:
                return self.staged(op, mem, indices, dims, shape)
        picked = [place for place, (d, runs) in enumerate(zip(dims, runs_along, strict=True)) if d != runs]
        dims = tuple(runs_along)
        if all(d is None for d in dims):
            element = self.b.value(tile.Extract(value, indices))
            return self.b.value(tile.Splat(element, shape)) if shape else element
        offsets, sizes = [0] * len(dims), list(value.shape)
        for place, d in enumerate(dims):
            if d is not None and place not in picked:
                offsets[place] = self.offset(op, mem, place, indices[place], shape[d])
                sizes[place] = shape[d]
        if tuple(sizes) != value.shape:
            value = self.b.value(tile.Slice(value, tuple(offsets), tuple(sizes)))
        for place in reversed(range(len(dims))):
            if dims[place] is None:
                value = self.pick(value, place, indices[place])
        runs = [d for d in dims if d is not None]
        value = self.permute(value, tuple([runs.index(d) for d in sorted(runs)]))
        for d, size in enumerate(shape):
            if d not in runs:
                value = self.b.value(tile.Expand(value, d, size))
        return value

    def repeated(self, value: Value, place: int, first: int, times: int, size: int) -> Value:
        """`size` elements along a dimension from the first one on, each so often."""
        offsets, sizes = [0] * len(value.shape), list(value.shape)
        offsets[place], sizes[place] = first, size // times
        if tuple(sizes) != value.shape:
            value = self.b.value(tile.Slice(value, tuple(offsets), tuple(sizes)))
        return self.b.value(tile.Repeat(value, place, times)) if times > 1 else value

    def staged(self, op: Op, mem: Value, indices: Indices, dims: tile.Dims, shape: Shape) -> Value:
        """Elements that other threads may have: by a copy of the fragment in shared memory."""
        value = self.read(Variable(mem), op.loc)
        dtype = u8 if mem.dtype is bool_ else mem.dtype
        copy = tile.Alloc(type_=BufferType("shared", mem.shape, dtype))
        copy.loc, copy.result.name = op.loc, mem.name and f"{mem.name}_copy"
        self.copies.append(copy)
        self.store(copy.result, self.origin(mem), self.b.cast(value, dtype), tuple(range(len(mem.shape))))
        sizes = [1 if d is None else shape[d] for d in dims]
        at = tuple(self.clamped(op, mem, place, i, n) for place, (i, n) in enumerate(zip(indices, sizes, strict=True)))
        return self.b.cast(self.b.emit(tile.Load(copy.result, at, shape, dims)).result, mem.dtype)

    def clamped(self, op: Op, mem: Value, place: int, index: Value, size: int) -> Value:
        """An index that is inside, as those are that count: others come from elements that an `if` leaves out."""
        numbers, last = numbers_of(index), mem.shape[place] - size
        if numbers is not None:
            low, high = int(np.min(numbers)), int(np.max(numbers))
            if low < 0 or high > last:
                outside = low if low < 0 else high + size - 1
                raise LanguageError(
                    f"element {outside} of {mem.name!r}, which has {mem.shape[place]} in dimension {place}", op.loc
                )
            return index

        def limit(n: int) -> Value:
            number = self.b.constant(n, index.dtype)
            return self.b.value(tile.Splat(number, index.shape)) if isinstance(index.type, TileType) else number

        return self.b.value(arith.Min(self.b.value(arith.Max(index, limit(0))), limit(last)))

    def offset(self, op: Op, mem: Value, place: int, index: Value, size: int) -> int:
        """The constant offset of a region of `size` in dimension `place` of a fragment."""
        offset, extent = constant_of(index), mem.shape[place]
        if offset is None:
            raise LanguageError(
                f"a part of the fragment {mem.name!r} at an offset that only run time knows",
                op.loc,
                "a fragment lies in registers: use constant offsets, or copy it to shared memory for that",
            )
        if offset < 0 or offset + size > extent:
            raise LanguageError(
                f"elements {offset} to {offset + size - 1} of {mem.name!r}, which has {extent} in dimension {place}",
                op.loc,
            )
        return int(offset)

    def pick(self, value: Value, place: int, index: Value) -> Value:
        """The sub-tile at one index of a dimension, which goes away."""
        if value.shape[place] > 1:
            here = self.b.compare("eq", self.iota(value.shape, place, index), index)
            value = self.b.select(here, value, self.zero(ScalarType(value.dtype)))
        return self.b.value(tile.Reduce(value, place, "or" if value.dtype is bool_ else "sum"))

    def iota(self, shape: Shape, dim: int, like: Value) -> Value:
        return self.b.cast(self.b.value(tile.Iota(shape, dim)), like.dtype)

    def permute(self, value: Value, order: tuple[int, ...]) -> Value:
        return value if order == tuple(range(len(order))) else self.b.value(tile.Permute(value, order))

    def within(self, shape: Shape, dim: int, start: Value, size: int) -> Value:
        """The mask of the elements whose index in `dim` is in [start, start + size)."""
        index = self.iota(shape, dim, start)
        if size == 1:
            return self.b.compare("eq", index, start)
        low, high = self.b.compare("ge", index, start), self.b.compare("lt", index, self.b.add(start, size))
        return self.b.and_(low, high)

    def all_of(self, masks: list[Value]) -> Value | None:
        both: Value | None = None
        for mask in masks:
            both = mask if both is None else self.b.and_(both, mask)
        return both

    def write_region(
        self, op: Op, mem: Value, indices: Indices, dims: tile.Dims, value: Value, mask: Value | None = None
    ) -> tuple[Value, ...]:
        """Put a tile, or a scalar as one element, into a fragment. Only a splat may be smaller than the fragment."""
        variable, shape = Variable(mem), mem.shape
        if not isinstance(value.type, TileType):
            if mask is not None:
                value = self.b.select(mask, value, self.b.value(tile.Extract(self.current(variable), indices)))
            return self.write(variable, self.b.value(tile.Insert(self.current(variable), value, indices)))
        masks = []
        for place, index in enumerate(indices):
            if isinstance(index.type, TileType):
                found = interleaved_by(index, shape[place])
                if found is None or found[1] != 1 or found[0] in dims:
                    raise LanguageError(
                        f"an element of the fragment {mem.name!r} is stored where another thread may have it",
                        op.loc,
                        "let T.Parallel run over the whole fragment, or go through shared memory",
                    )
                d, _, times, number = found
                value = self.b.value(tile.Repeat(value, d, times))
                mask = None if mask is None else self.b.value(tile.Repeat(mask, d, times))
                masks.append(self.b.compare("eq", self.b.floormod(self.iota(shape, place, index), times), number))
                dims = (*dims[:place], d, *dims[place + 1 :])
                indices = (*indices[:place], self.b.constant(0), *indices[place + 1 :])
        sizes = [1 if d is None else value.shape[d] for d in dims]
        fits = all(d is None or size == extent for d, size, extent in zip(dims, sizes, shape, strict=True))
        for place, (size, extent) in enumerate(zip(sizes, shape, strict=True)):
            if size != extent:
                masks.append(self.within(shape, place, indices[place], size))
            else:
                self.offset(op, mem, place, indices[place], size)
        if mask is not None and fits:
            masks.append(self.embed(mask, dims, shape))
        if isinstance(value.op, tile.Splat) and (fits or mask is None):
            value = self.b.value(tile.Splat(value.op.value, shape))
        elif fits:
            value = self.embed(value, dims, shape)
        else:
            raise LanguageError(
                f"a tile of {_times(sizes)} elements goes into a part of the fragment {mem.name!r} ({_times(shape)})",
                op.loc,
                "let T.Parallel run over the whole fragment, with an `if` inside, or go through shared memory",
            )
        inside = self.all_of(masks)
        if inside is not None:
            value = self.b.select(inside, value, self.current(variable))
        return self.write(variable, value)

    def embed(self, value: Value, dims: tile.Dims, shape: Shape) -> Value:
        """A tile in the order of memory dimensions, repeated along those that `dims` leaves out."""
        value = self.permute(value, tuple([d for d in dims if d is not None]))
        for place, d in enumerate(dims):
            if d is None:
                value = self.b.value(tile.Expand(value, place, shape[place]))
        return value

    # Whole buffers --------------------------------------------------------------------------------------------------

    def whole(self, op: Op, mem: Value) -> Value:
        if is_fragment(mem):
            return self.read(Variable(mem), op.loc)
        if is_view(mem):
            return self.seen_as(self.whole(op, viewed(mem)), mem)
        dims = tuple(range(len(mem.shape)))
        return self.b.emit(tile.Load(mem, self.origin(mem), mask=None, slot=None, shape=mem.shape, dims=dims)).result

    def put(self, mem: Value, value: Value) -> tuple[Value, ...]:
        if is_fragment(mem):
            return self.write(Variable(mem), value)
        if is_view(mem):
            return self.put(viewed(mem), self.seen_as(value, viewed(mem)))
        return self.store(mem, self.origin(mem), value, tuple(range(len(mem.shape))))

    def origin(self, mem: Value) -> Indices:
        return (self.b.constant(0),) * len(mem.shape)

    def view(self, op: View) -> New:
        return ERASE

    def store(
        self, mem: Value, indices: Indices, value: Value, dims: tile.Dims, slot: Value | None = None, evict: str = ""
    ) -> tuple[Value, ...]:
        if is_view(mem):  # all of it
            return self.put(mem, self.embed(value, dims, mem.shape))
        self.b.emit(tile.Store(mem, indices, value, mask=None, slot=slot, dims=dims, evict=evict))
        return ERASE

    # Operations -----------------------------------------------------------------------------------------------------

    def alloc(self, op: tile.Alloc) -> New:
        return ERASE if self.variables.of(op.result) else None

    def load(self, op: tile.Load) -> New:
        if is_fragment(op.mem) or is_view(op.mem):
            return self.read_region(op, op.mem, op.indices, op.dims, op.shape)
        if op.mem in self.variables.promoted:
            (variable,) = self.variables.at(op.mem, op.indices)
            return self.read(variable, op.loc)
        return None

    def store_(self, op: tile.Store) -> New:
        if is_view(op.mem) and not is_fragment(op.mem):
            return self.store(op.mem, op.indices, op.value, op.dims)
        if is_fragment(op.mem):
            return self.write_region(op, op.mem, op.indices, op.dims, op.value, op.mask)
        if op.mem in self.variables.promoted:
            (variable,) = self.variables.at(op.mem, op.indices)
            value = op.value
            if op.mask is not None:
                value = self.b.select(op.mask, value, self.current(variable))
            return self.write(variable, value)
        return None

    def atomic(self, op: tile.AtomicRmw) -> New:
        if is_fragment(op.mem):
            raise LanguageError(
                f"an atomic operation on the fragment {op.mem.name!r}",
                op.loc,
                "a fragment belongs to this block alone: use a plain assignment or a T.reduce_*",
            )
        return None

    def fill(self, op: tile.Fill) -> New:
        value = self.b.cast(op.value, op.mem.dtype)
        if op.mem in self.variables.promoted:
            for variable in self.variables.of(op.mem):
                self.write(variable, value)
            return ERASE
        if op.shape:
            value = self.b.value(tile.Splat(value, op.shape))
        if is_fragment(op.mem):
            return self.write_region(op, op.mem, op.indices, op.dims, value)
        return self.store(op.mem, op.indices, value, op.dims)

    def copy(self, op: tile.Copy) -> New:
        if is_fragment(op.src) or is_view(op.src):
            value = self.read_region(op, op.src, op.src_indices, op.src_dims, op.shape)
            value = self.b.cast(value, op.dst.dtype)
            if is_fragment(op.dst):
                return self.write_region(op, op.dst, op.dst_indices, op.dst_dims, value)
            return self.store(op.dst, op.dst_indices, value, op.dst_dims, op.dst_slot, op.evict)
        if is_fragment(op.dst):
            return self.copy_in(op)
        if op.src.dtype is op.dst.dtype and not is_view(op.dst):
            return None
        from_tensor, to_tensor = (op.evict if isinstance(m.type, TensorType) else "" for m in (op.src, op.dst))
        load = tile.Load(op.src, op.src_indices, op.shape, op.src_dims, slot=op.src_slot, evict=from_tensor)
        value = self.b.cast(self.b.emit(load).result, op.dst.dtype)
        return self.store(op.dst, op.dst_indices, value, op.dst_dims, op.dst_slot, to_tensor)

    def copy_in(self, op: tile.Copy) -> New:
        """From memory into a fragment. Into a part of it: memory is read as if the region were the whole fragment, with
        all but the part masked."""
        shape, at, to = list(op.shape), list(op.src_indices), list(op.dst_indices)
        parts = []
        for place, d in enumerate(op.dst_dims):
            if d is not None and shape[d] != op.dst.shape[place]:
                start = op.dst_indices[place]
                parts.append((d, start, shape[d]))
                shape[d] = op.dst.shape[place]
                to[place] = self.b.constant(0, start.dtype)
                for i, runs in enumerate(op.src_dims):
                    if runs == d:
                        at[i] = self.b.sub(at[i], self.b.cast(start, at[i].dtype))
        grown = tuple(shape)
        mask = self.all_of([self.within(grown, d, start, size) for d, start, size in parts])
        load = tile.Load(op.src, tuple(at), grown, op.src_dims, mask=mask, slot=op.src_slot, evict=op.evict)
        value = self.b.cast(self.b.emit(load).result, op.dst.dtype)
        return self.write_region(op, op.dst, tuple(to), op.dst_dims, value, mask)

    def gemm(self, op: tile.GemmInto) -> New:
        a, a_indices, a_dims = self.gemm_operand(op, op.a, op.a_indices, op.a_dims)
        b, b_indices, b_dims = self.gemm_operand(op, op.b, op.b_indices, op.b_dims)
        accumulator = Variable(op.c)
        gemm = recast(
            op,
            tile.Gemm,
            a=a,
            a_indices=a_indices,
            a_dims=a_dims,
            b=b,
            b_indices=b_indices,
            b_dims=b_dims,
            c=self.zero(accumulator.type) if op.clear_accum else self.read(accumulator, op.loc),
            a_scale=None if op.a_scale is None else self.whole(op, op.a_scale),
            b_scale=None if op.b_scale is None else self.whole(op, op.b_scale),
        )
        return self.write(accumulator, self.b.emit(gemm).result)

    def gemm_operand(self, op: Op, mem: Value, indices: Indices, dims: tile.Dims) -> tuple[Value, Indices, tile.Dims]:
        if not is_fragment(mem):
            return mem, indices, dims
        runs = {d: size for d, size in zip(dims, mem.shape, strict=True) if d is not None}
        return self.read_region(op, mem, indices, dims, (runs[0], runs[1])), (), (0, 1)

    def reduce(self, op: tile.ReduceInto) -> New:
        return self.joins(op, self.reduced(op))

    def all_reduce(self, op: cluster.AllReduceInto) -> New:
        mine = self.b.cast(self.whole(op, op.src), op.dst.dtype) if op.dim < 0 else self.reduced(op)
        return self.joins(op, self.b.emit(cluster.AllReduce(mine, op.buffer, op.number, op.kind)).result)

    def reduced(self, op: tile.ReduceInto) -> Value:
        """A reduction of the source, in the shape of the destination."""
        source = self.b.cast(self.whole(op, op.src), op.dst.dtype)
        value = self.b.value(tile.Reduce(source, op.dim, op.kind))
        if not value.shape:
            return self.b.value(tile.Splat(value, op.dst.shape))
        return value if value.shape == op.dst.shape else self.b.value(tile.Expand(value, op.dim, 1))

    def joins(self, op: tile.ReduceInto, value: Value) -> New:
        """A reduction goes to its destination."""
        if not op.clear:
            value = self.b.value(arith.COMBINE[op.kind](self.whole(op, op.dst), value))
        return self.put(op.dst, value)

    def print(self, op: tile.Print) -> New:
        op.values = tuple([self.whole(op, v) if is_fragment(v) else v for v in op.values])
        return None

    # Control flow ---------------------------------------------------------------------------------------------------

    def region(self, op: Op, region: Block) -> None:
        self.inside_of.append((op, region))
        self.block(region)
        self.inside_of.pop()

    def enter(self, block: Block, variables: list[Variable]) -> None:
        """The variables get their values from new arguments of the block."""
        for variable in variables:
            self.now[variable] = block.add_arg(variable.type, variable.mem.name)

    def leave(self, block: Block, variables: list[Variable]) -> None:
        """The block's terminator hands the variables on."""
        if variables:
            if block.terminator is None:
                block.ops.append(control.Yield(()))
            end: Any = block.terminator
            with self.b.inside(Block()) as zeros:
                end.values = (*end.values, *[self.current(v) for v in variables])
            block.ops[-1:-1] = zeros.ops

    def after(self, op: Op, before: dict[Variable, Value], variables: list[Variable]) -> tuple[Value, ...]:
        """Emit the operation; its new results are the variables' values from here on."""
        self.now = before
        self.b.emit(op)
        for variable in variables:
            result = Value(variable.type, op, len(op.results), variable.mem.name)
            op.results = (*op.results, result)
            self.now[variable] = result
        return op.results

    def loop(self, op: control.For | control.While) -> New:
        variables = self.variables.carried[op]
        op.init = (*op.init, *[self.current(v) for v in variables])
        before = dict(self.now)
        for region in op.regions:
            self.enter(region, variables)
            self.region(op, region)
            self.leave(region, variables)
        return self.after(op, before, variables)

    def if_(self, op: control.If) -> New:
        variables = self.variables.carried[op]
        before, written = dict(self.now), set(self.written)
        after = set()
        for region in op.regions:
            self.now, self.written = dict(before), set(written)
            self.region(op, region)
            self.leave(region, variables)
            after |= self.written
        self.written = after
        return self.after(op, before, variables)


def _times(shape: list[int] | Shape) -> str:
    return "x".join(map(str, shape))


_HANDLERS: dict[type[Op], Callable[[_ToValues, Any], New]] = {
    tile.Alloc: _ToValues.alloc,
    View: _ToValues.view,
    tile.Load: _ToValues.load,
    tile.Store: _ToValues.store_,
    tile.AtomicRmw: _ToValues.atomic,
    tile.Fill: _ToValues.fill,
    tile.Copy: _ToValues.copy,
    tile.GemmInto: _ToValues.gemm,
    tile.ReduceInto: _ToValues.reduce,
    cluster.AllReduceInto: _ToValues.all_reduce,
    tile.Print: _ToValues.print,
    control.For: _ToValues.loop,
    control.While: _ToValues.loop,
    control.If: _ToValues.if_,
    explicit.WarpGroups: _ToValues.if_,
}
