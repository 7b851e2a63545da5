"""Tile operations: whole tiles at a time.

Memory operands are tensors (global), shared or local buffers. How a tile of rank r lies in memory of rank m is said by
`indices`, one per memory dimension, and `dims`: for each memory dimension the tile dimension that runs along it, or
None. Element (i0, …) of the tile is at memory index  indices[d] + (i_dims[d] if dims[d] is not None else 0)  in
dimension d; an index may be a tile itself (gather, scatter). Loads outside a tensor's bounds give 0, stores outside
vanish; a false mask element likewise. `slot` picks the version of a multi-versioned buffer. `rank`: the shared buffer
is that of the block with this number in the cluster, not the block's own.

`stage="traced"` marks what exists only between tracing and `mem2reg`: operations that write fragments.
"""

from __future__ import annotations

import math
from typing import Any

from minitile.ir.core import Op, Value, attr, maybe, operand, operands
from minitile.ir.effects import Access, Footprint
from minitile.ir.ops.checks import (
    ATOMICS,
    REDUCTIONS,
    require,
    require_dim,
    require_indices,
    require_one_of,
    require_region,
    require_scalar,
    require_shift,
)
from minitile.ir.ops.product import Product
from minitile.ir.relations import Interleaved, Permuted, Quotient, Relation, Repeated, Same
from minitile.ir.types import (
    BULK_TOKEN,
    COUNTERS,
    I32,
    PACKED,
    TOKEN,
    WGMMA_TOKEN,
    BufferType,
    DType,
    ScalarType,
    TileType,
    TokenType,
    Type,
    bool_,
    i32,
    u8,
)

Dims = tuple[int | None, ...]


def tile_or_scalar(shape: tuple[int, ...], dtype: DType) -> Type:
    return TileType(shape, dtype) if shape else ScalarType(dtype)


class Alloc(Op, name="alloc"):
    """Memory of the kernel's own. `layout` is the SharedLayout once inferred, `offset` the place in shared memory once
    placed, `bytes` the size of one version once lowered. `shared_by`: each that many consecutive threads have a part of
    every version to themselves; None: all threads share all of it. `lifetime`: the number of those operations at which
    what it held before is dead; None: there are none."""

    type_: BufferType = attr()
    layout: Any = attr(None)
    offset: int | None = attr(None)
    bytes: int | None = attr(None)
    shared_by: int | None = attr(None)
    lifetime: int | None = attr(None)

    def infer(self) -> tuple[Type, ...]:
        return (self.type_,)

    @property
    def version_bytes(self) -> int:
        """The size of one version, padding and alignment of the next one included."""
        if self.bytes is not None:
            return self.bytes
        if self.layout is not None:
            return int(self.layout.stage_bytes)
        return math.prod(self.type_.shape) * self.type_.dtype.bytes

    def accesses(self) -> tuple[Access, ...]:
        return ()


class Lifetime(Op, name="lifetime"):
    """Buffers whose alloc has this number are new from here on, to the end of the block: what they held in earlier
    iterations of the loops around is dead."""

    number: int = attr()

    def accesses(self) -> tuple[Access, ...]:
        return ()


class Iota(Op, name="iota", stage="tile", pure=True):
    """The i32 tile whose element is its own index in dimension `dim`."""

    shape: tuple[int, ...] = attr()
    dim: int = attr()

    def infer(self) -> tuple[Type, ...]:
        return (TileType(self.shape, i32),)

    def verify(self) -> None:
        require_dim(self.dim, len(self.shape))


class Splat(Op, name="splat", stage="tile", pure=True):
    """A tile whose elements are all `value`."""

    value: Value = operand()
    shape: tuple[int, ...] = attr()

    def infer(self) -> tuple[Type, ...]:
        return (TileType(self.shape, self.value.dtype),)

    def verify(self) -> None:
        require_scalar(self.value, "the value")


class Expand(Op, name="expand", stage="tile", pure=True):
    """A new dimension `dim` of `size`, along which the tile repeats."""

    a: Value = operand()
    dim: int = attr()
    size: int = attr()

    def infer(self) -> tuple[Type, ...]:
        s = self.a.shape
        return (TileType((*s[: self.dim], self.size, *s[self.dim :]), self.a.dtype),)

    def relations(self) -> list[Relation]:
        return [Quotient(self.result, self.dim, self.a)]

    def verify(self) -> None:
        require_dim(self.dim, len(self.a.shape) + 1)


def alike(v: Value, dim: int | None) -> bool:
    """Whether all elements of a tile along one of its dimensions are the same one."""
    if not isinstance(v.type, TileType):
        return True
    if dim is None or v.op is None:
        return False
    if isinstance(v.op, Expand):
        return v.op.dim == dim or alike(v.op.a, dim - (v.op.dim < dim))
    return (v.op.elementwise or isinstance(v.op, Splat)) and all(alike(x, dim) for x in v.op.operands)


class Permute(Op, name="permute", stage="tile", pure=True):
    """Dimension d of the result is dimension order[d] of the operand."""

    a: Value = operand()
    order: tuple[int, ...] = attr()

    def infer(self) -> tuple[Type, ...]:
        return (TileType(tuple(self.a.shape[d] for d in self.order), self.a.dtype),)

    def relations(self) -> list[Relation]:
        return [Permuted(self.a, self.order, self.result)]

    def verify(self) -> None:
        require(sorted(self.order) == list(range(len(self.a.shape))), f"{self.order} permutes no {self.a.type}")


class InterleavedSlice(Op, name="interleaved_slice", stage="tile", pure=True):
    """Slice `index` of the `count` interleaved slices of `a` along `dim`, `run` elements at a time: element n of it is
    element (n // run * count + index) * run + n % run."""

    a: Value = operand()
    dim: int = attr()
    run: int = attr()
    count: int = attr()
    index: int = attr()

    def infer(self) -> tuple[Type, ...]:
        s = self.a.shape
        return (TileType((*s[: self.dim], s[self.dim] // self.count, *s[self.dim + 1 :]), self.a.dtype),)

    def relations(self) -> list[Relation]:
        return [Interleaved(self.a, self.dim, self.run, self.count, self.result)]

    def verify(self) -> None:
        require_dim(self.dim, len(self.a.shape))
        whole = self.a.shape[self.dim] % (self.run * self.count) == 0 and 0 <= self.index < self.count
        require(whole, f"slice {self.index} of {self.count}, {self.run} at a time, of {self.a.type}")

    @staticmethod
    def place(n: Any, run: int, count: int, index: int) -> Any:
        """The element of `a`, along `dim`, that element n is (numbers or arrays of them)."""
        return (n // run * count + index) * run + n % run

    def of_source(self, n: int) -> int:
        return int(self.place(n, self.run, self.count, self.index))


class Repeat(Op, name="repeat", stage="tile", pure=True):
    """Each element of `a` along `dim` `times` over: element n of it is element n // times."""

    a: Value = operand()
    dim: int = attr()
    times: int = attr()

    def infer(self) -> tuple[Type, ...]:
        s = self.a.shape
        return (TileType((*s[: self.dim], s[self.dim] * self.times, *s[self.dim + 1 :]), self.a.dtype),)

    def relations(self) -> list[Relation]:
        return [Repeated(self.a, self.dim, self.times, self.result)]

    def verify(self) -> None:
        require_dim(self.dim, len(self.a.shape))
        require(self.times > 0, f"{self.times} times each element")


def _whole_tile(value: Value) -> int:
    """All of a tile, with room for padding."""
    layout = value.type.layout  # type: ignore[attr-defined]
    size: int = 2 * layout.num_regs * layout.threads * value.dtype.bytes
    return size


class Slice(Op, name="slice", stage="tile", pure=True):
    """The sub-tile of `shape` at constant `offsets`."""

    a: Value = operand()
    offsets: tuple[int, ...] = attr()
    shape: tuple[int, ...] = attr()

    def infer(self) -> tuple[Type, ...]:
        return (TileType(self.shape, self.a.dtype),)

    def relations(self) -> list[Relation]:
        return []  # either side has its own: the part may be spread over more or fewer threads

    def exchange_bytes(self) -> int:
        return _whole_tile(self.a)

    def verify(self) -> None:
        inside = zip(self.offsets, self.shape, self.a.shape, strict=True)
        require(all(o >= 0 and o + n <= m for o, n, m in inside), f"{self.offsets}, {self.shape} leaves {self.a.type}")


class Insert(Op, name="insert", stage="tile", pure=True):
    """The tile with one element (at scalar indices) replaced."""

    a: Value = operand()
    value: Value = operand()
    indices: tuple[Value, ...] = operands()

    def infer(self) -> tuple[Type, ...]:
        return (self.a.type,)

    def verify(self) -> None:
        require_indices(self.indices, len(self.a.shape))
        require_scalar(self.value, "the value")
        require(self.value.dtype is self.a.dtype, f"the value is {self.value.type}, the tile {self.a.type}")


class Extract(Op, name="extract", stage="tile", pure=True, uniform=True):
    """One element of a tile, at scalar indices, known to all threads."""

    a: Value = operand()
    indices: tuple[Value, ...] = operands()

    def infer(self) -> tuple[Type, ...]:
        return (ScalarType(self.a.dtype),)

    def agrees(self) -> bool:
        return True

    def exchange_bytes(self) -> int:
        return _whole_tile(self.a)

    def verify(self) -> None:
        require_indices(self.indices, len(self.a.shape))


class Reduce(Op, name="reduce", stage="tile", pure=True, uniform=True):
    """The reduction along `dim` by `kind`: sum, max, min, absmax, abssum, and, or, xor. The dimension goes away."""

    a: Value = operand()
    dim: int = attr()
    kind: str = attr()

    def infer(self) -> tuple[Type, ...]:
        s = self.a.shape
        return (tile_or_scalar((*s[: self.dim], *s[self.dim + 1 :]), self.a.dtype),)

    @property
    def partial_bytes(self) -> int:
        """What a warp hands on of each element, at most, where several warps share the dimension."""
        return max(self.a.dtype.bytes, 4)

    def agrees(self) -> bool:
        return True

    def meets_along(self) -> tuple[tuple[Value, int, bool], ...]:
        return ((self.a, self.dim, False),)

    def exchange_bytes(self) -> int:
        """Each warp's results."""
        layout = self.a.type.layout  # type: ignore[attr-defined]
        parts = math.prod(digit.size for digit in layout.warp if digit.dim == self.dim)
        return 0 if parts == 1 else parts * math.prod(layout.quotient(self.dim).extents) * self.partial_bytes

    def relations(self) -> list[Relation]:
        return [Quotient(self.a, self.dim, self.result)]

    def verify(self) -> None:
        require_dim(self.dim, len(self.a.shape))
        require_one_of(self.kind, REDUCTIONS, "reduction")


class ArgReduce(Reduce, name="arg_reduce", stage="tile", pure=True, uniform=True):
    """Where along `dim` the greatest ("max") or least ("min") element stands, as i32: of equal ones the first; a
    NaN, the first one, comes before any number. The dimension goes away."""

    def infer(self) -> tuple[Type, ...]:
        s = self.a.shape
        return (tile_or_scalar((*s[: self.dim], *s[self.dim + 1 :]), i32),)

    @property
    def partial_bytes(self) -> int:
        """The element and its index, in two buffers."""
        return super().partial_bytes + i32.bytes

    def verify(self) -> None:
        require_dim(self.dim, len(self.a.shape))
        require_one_of(self.kind, ("max", "min"), "kind")


class ConvertLayout(Op, name="convert_layout", stage="tile", pure=True, uniform=True):
    """The same tile in another layout."""

    a: Value = operand()
    layout: Any = attr()

    def infer(self) -> tuple[Type, ...]:
        return (TileType(self.a.shape, self.a.dtype, self.layout),)

    def exchange_bytes(self) -> int:
        return _whole_tile(self.a)

    def relations(self) -> list[Relation]:
        return []


class MemoryOp(Op):
    """What load, store and atomic have in common: all their tiles lie as the `subject` does. With a `shift` the tile is
    rotated along the tensor's contiguous dimension: position p has element (p - shift) mod size, so that positions
    which are multiples of `vector` are so in memory, too."""

    @property
    def moved(self) -> Value:
        """What goes from or to memory."""
        raise NotImplementedError

    @property
    def subject(self) -> Value | None:
        """The tile whose layout decides the access: what is moved, else a tile of indices; None where all is scalar."""
        return next((v for v in (self.moved, *self.operands) if isinstance(v.type, TileType)), None)

    def relations(self) -> list[Relation]:
        subject, shift = self.subject, getattr(self, "shift", None)
        if subject is None:
            return []
        rotated = [] if shift is None else [Quotient(subject, self.along, shift)]
        return [*(Same(subject, v) for v in (*self.operands, *self.results)), *rotated]

    @property
    def along(self) -> int:
        """The tile dimension that runs along the tensor's contiguous one, of an access that is rotated along it."""
        return self.dims[self.mem.type.contiguous_dim]  # type: ignore[attr-defined,no-any-return]


EVICTIONS = ("", "evict_first", "evict_last")
"""What L2 gives up first or last; "": neither (PTX ISA 8.3, 9.2.2 "Cache Eviction Priority Hints")."""


class Load(MemoryOp, name="load", stage="tile"):
    """A tile (a scalar when shape is ()) from memory; see the module's text for `indices` and `dims`, and `shift`."""

    mem: Value = operand()
    indices: tuple[Value, ...] = operands()
    mask: Value | None = maybe()
    slot: Value | None = maybe()
    rank: Value | None = maybe()
    shift: Value | None = maybe()
    shape: tuple[int, ...] = attr()
    dims: Dims = attr()
    evict: str = attr("")
    vector: int = attr(1)

    def infer(self) -> tuple[Type, ...]:
        return (tile_or_scalar(self.shape, self.mem.dtype),)

    @property
    def moved(self) -> Value:
        return self.result

    def verify(self) -> None:
        require_region(self.mem, self.indices, self.dims, self.shape, self.slot, self.mask)
        if self.shift is not None:
            require_shift(self.shift, self.shape, self.along)

    def accesses(self) -> tuple[Access, ...]:
        return (Access("read", self.mem, self.slot, ctas=_ctas(self.rank)),)

    def footprints(self) -> tuple[Footprint, ...]:
        return (Footprint("read", self.mem, self.indices, self.dims, self.shape),)


class Store(MemoryOp, name="store", stage="tile"):
    """`tf32`: f32 is rounded to tf32 on its way."""

    stored = "value"

    mem: Value = operand()
    indices: tuple[Value, ...] = operands()
    value: Value = operand()
    mask: Value | None = maybe()
    slot: Value | None = maybe()
    rank: Value | None = maybe()
    shift: Value | None = maybe()
    dims: Dims = attr()
    evict: str = attr("")
    tf32: bool = attr(False)
    vector: int = attr(1)

    @property
    def moved(self) -> Value:
        return self.value

    def verify(self) -> None:
        require_region(self.mem, self.indices, self.dims, self.value.shape, self.slot, self.mask)
        if self.shift is not None:
            require_shift(self.shift, self.value.shape, self.along)
        require(self.value.dtype is self.mem.dtype, f"the value is {self.value.type}, the memory {self.mem.type}")

    def accesses(self) -> tuple[Access, ...]:
        return (Access("write", self.mem, self.slot, ctas=_ctas(self.rank)),)

    def footprints(self) -> tuple[Footprint, ...]:
        return (Footprint("write", self.mem, self.indices, self.dims, self.value.shape),)


def _ctas(rank: Value | None) -> str:
    return "own" if rank is None else "cluster"


class AtomicRmw(MemoryOp, name="atomic", stage="tile"):
    """mem[…] = kind(mem[…], value), atomically at GPU scope, relaxed. kind: add, min, max, and, or, xor, exch; store,
    whose result is not used; load, which leaves what is there and takes of the value the type alone. The result is the
    old value, of the value's type."""

    stored = "value"

    mem: Value = operand()
    indices: tuple[Value, ...] = operands()
    value: Value = operand()
    mask: Value | None = maybe()
    kind: str = attr("add")
    dims: Dims = attr()

    def infer(self) -> tuple[Type, ...]:
        return (self.value.type,)

    @property
    def moved(self) -> Value:
        return self.value

    def verify(self) -> None:
        require_region(self.mem, self.indices, self.dims, self.value.shape, mask=self.mask)
        require(self.value.dtype is self.mem.dtype, f"the value is {self.value.type}, the memory {self.mem.type}")
        require_one_of(self.kind, ATOMICS, "atomic")

    def accesses(self) -> tuple[Access, ...]:
        return (Access("atomic", self.mem),)

    def footprints(self) -> tuple[Footprint, ...]:
        return (Footprint("atomic", self.mem, self.indices, self.dims, self.value.shape),)


class Copy(Op, name="copy", stage="tile", uniform=True):
    """A region of `shape` from memory to memory. Traced IR may name fragments on either side. `evict`: how L2 is to
    treat the tensor's lines, one of EVICTIONS. `tf32`: f32 is rounded to tf32 on its way."""

    src: Value = operand()
    src_indices: tuple[Value, ...] = operands()
    dst: Value = operand()
    dst_indices: tuple[Value, ...] = operands()
    src_slot: Value | None = maybe()
    dst_slot: Value | None = maybe()
    shape: tuple[int, ...] = attr()
    src_dims: Dims = attr()
    dst_dims: Dims = attr()
    evict: str = attr("")
    tf32: bool = attr(False)

    def verify(self) -> None:
        require_one_of(self.evict, EVICTIONS, "eviction policy")
        require_region(self.src, self.src_indices, self.src_dims, self.shape, self.src_slot)
        require_region(self.dst, self.dst_indices, self.dst_dims, self.shape, self.dst_slot)

    def accesses(self) -> tuple[Access, ...]:
        return (Access("read", self.src, self.src_slot), Access("write", self.dst, self.dst_slot))

    def footprints(self) -> tuple[Footprint, ...]:
        return (
            Footprint("read", self.src, self.src_indices, self.src_dims, self.shape),
            Footprint("write", self.dst, self.dst_indices, self.dst_dims, self.shape),
        )


class AsyncCopy(Copy, name="async_copy", stage="tile", uniform=True):
    """As copy, from global to shared memory, in flight until the token is waited for."""

    def infer(self) -> tuple[Type, ...]:
        return (TOKEN,)

    def verify(self) -> None:
        super().verify()
        require(self.src.dtype is self.dst.dtype, f"{self.src.type} and {self.dst.type}: no cast on the way")

    def accesses(self) -> tuple[Access, ...]:
        token = self.result
        return (
            Access("read", self.src, self.src_slot, token=token),
            Access("write", self.dst, self.dst_slot, token=token),
        )


class NoToken(Op, name="no_token", pure=True):
    """A token that is complete from the start."""

    counter: str = attr("")

    def verify(self) -> None:
        require(self.counter in COUNTERS, f"there is no counter {self.counter!r}")

    def infer(self) -> tuple[Type, ...]:
        return (TokenType(self.counter),)


class Join(Op, name="join"):
    """One token for several of one kind: a commit group (of cp.async, an empty one, when there are no tokens).
    `program_waits`: not by the token, but by a count of groups (`wait_stores`)."""

    tokens: tuple[Value, ...] = operands()
    program_waits: bool = attr(False)

    def infer(self) -> tuple[Type, ...]:
        return (self.tokens[0].type if self.tokens else TOKEN,)

    def verify(self) -> None:
        kinds = {t.type for t in self.tokens}
        require(
            all(isinstance(t, TokenType) for t in kinds) and len(kinds) < 2, "only tokens of one kind can be joined"
        )

    def accesses(self) -> tuple[Access, ...]:
        return ()

    def stands_for(self) -> tuple[Value, ...]:
        return self.tokens


class Wait(Op, name="wait", orders=True):
    """The token's effects have happened, for this thread; or, with `reads`, only what it reads has been read and may be
    overwritten (copies by TMA out of shared memory). `pending`: how many later groups may still be in flight, once
    tokens are counted."""

    token: Value = operand()
    reads: bool = attr(False)
    pending: int | None = attr(None)

    def verify(self) -> None:
        require(isinstance(self.token.type, TokenType), f"cannot wait for a {self.token.type}")
        require(not self.reads or self.token.type == BULK_TOKEN, f"a {self.token.type} has no reads of its own")

    def accesses(self) -> tuple[Access, ...]:
        return ()

    def reconverges(self) -> bool:
        return self.token.type == WGMMA_TOKEN


class Gemm(Product, name="gemm", stage="tile", uniform=True):
    """c + a @ b. a is M×K (K×M when transpose_a), b is K×N (N×K when transpose_b); each a shared buffer (a region at
    `*_indices` along `*_dims`) or a tile. c is the accumulator, a tile; where `scale_d`, a bool, is false it counts as
    zeros. policy: how warps split the tile ("square", "full_row", "full_col"). `in_flight`: the program asks for wgmma,
    and waits for it by itself. `k`: K, where the operands are less of it than their buffers have; 0: all.

    With a_scale and b_scale, tiles M×K/32 and N×K/32 of bytes, the factors are a and b times 2^(byte - 127), that of
    their row (of a) or column (of b) and block of 32 along K (OCP Microscaling Formats); M×K/16 of e4m3: times those.
    `*_format`: an operand of bytes holds elements of that format (types.PACKED), packed along K; "": of its dtype."""

    a: Value = operand()
    a_indices: tuple[Value, ...] = operands()
    b: Value = operand()
    b_indices: tuple[Value, ...] = operands()
    c: Value = operand()
    a_slot: Value | None = maybe()
    b_slot: Value | None = maybe()
    scale_d: Value | None = maybe()
    a_scale: Value | None = maybe()
    b_scale: Value | None = maybe()
    transpose_a: bool = attr(False)
    transpose_b: bool = attr(False)
    a_dims: Dims = attr((0, 1))
    b_dims: Dims = attr((0, 1))
    policy: str = attr("square")
    in_flight: bool = attr(False)
    k: int = attr(0)
    a_format: str = attr("")
    b_format: str = attr("")

    @property
    def depth(self) -> int:
        """K."""
        along = 0 if self.transpose_a else 1
        whole = self.a.shape[along if isinstance(self.a.type, TileType) else self.a_dims.index(along)]
        return self.k or (whole * 8 // PACKED[self.a_format].bits if self.a_format else whole)

    def infer(self) -> tuple[Type, ...]:
        return (self.c.type,) if isinstance(self.c.type, TileType) else ()

    def relations(self) -> list[Relation]:
        return [Same(self.c, self.results[0], firm=True)]  # a and b are the instruction's business

    def verify(self) -> None:
        for mem, indices, dims, slot in (
            (self.a, self.a_indices, self.a_dims, self.a_slot),
            (self.b, self.b_indices, self.b_dims, self.b_slot),
        ):
            if isinstance(mem.type, TileType):
                require(len(mem.shape) == 2, f"{mem.type} is no matrix")
            else:
                require_region(mem, indices, dims, (0, 0), slot)
                require({0, 1} <= set(dims), f"the matrix lies along dims {dims} of {mem.type}")
        a, b = self.a.dtype, self.b.dtype
        mixed = a.bits == b.bits == 8 and (a.is_float == b.is_float or self.scaled)  # e4m3 by e5m2, i8 by u8
        require(a is b or mixed, f"a is {self.a.type}, b {self.b.type}")
        self._verify_scales()
        require(len(self.c.shape) == 2, f"the accumulator is {self.c.type}, no matrix")
        require(self.scale_d is None or self.scale_d.dtype is bool_, "scale_d is no bool")

    @property
    def scaled(self) -> bool:
        """Whether blocks of the operands have scales."""
        return self.a_scale is not None

    def _verify_scales(self) -> None:
        require((self.a_scale is None) == (self.b_scale is None), "one operand has scales, the other none")
        for factor, scale, packed, rows in (
            (self.a, self.a_scale, self.a_format, self.c.shape[0]),
            (self.b, self.b_scale, self.b_format, self.c.shape[1]),
        ):
            require(not packed or packed in PACKED, f"no format is called {packed!r}")
            require(not packed or factor.dtype is u8, f"an operand of {packed} is {factor.type}, no bytes")
            if scale is None:
                require(not packed, f"an operand of {packed} has no scales")
            else:
                blocks = self.depth // {"u8": 32, "e4m3": 16}.get(scale.dtype.name, 1)
                require(scale.shape == (rows, blocks), f"the scales of {rows}x{self.depth} are {scale.type}")

    def accesses(self) -> tuple[Access, ...]:
        reads = ((self.a, self.a_slot), (self.b, self.b_slot), (self.a_scale, None), (self.b_scale, None))
        return tuple(Access("read", m, s) for m, s in reads if m is not None and isinstance(m.type, BufferType))


class SyncThreads(Op, name="sync_threads", stage="tile", uniform=True, orders=True):
    """All threads of the CTA meet; shared and global memory accessed before is ordered before what comes after."""

    def accesses(self) -> tuple[Access, ...]:
        return ()


class ThreadIndex(Op, name="thread_index", stage="tile", pure=True):
    """The thread's index in the CTA; differs between threads."""

    def infer(self) -> tuple[Type, ...]:
        return (I32,)

    def varies(self) -> bool:
        return True


class Print(Op, name="print", stage="tile"):
    """Print `format` (printf's) with scalars or tiles, for debugging. Scalars: once per CTA; tiles: each element."""

    calls = True

    values: tuple[Value, ...] = operands()
    text: str = attr("")

    def accesses(self) -> tuple[Access, ...]:
        return ()


class DeviceAssert(Op, name="device_assert", stage="tile"):
    """Trap when the condition (a scalar or a tile) is false."""

    condition: Value = operand()
    text: str = attr("")

    def verify(self) -> None:
        require(self.condition.dtype is bool_, f"the condition is {self.condition.type}, not bool")

    def accesses(self) -> tuple[Access, ...]:
        return ()


# Traced IR only: operations that write fragments -------------------------------------------------------------------


class Fill(Op, name="fill", stage="traced", uniform=True):
    """Every element of a buffer's region (all of it when `shape` is its shape) becomes `value`."""

    mem: Value = operand()
    indices: tuple[Value, ...] = operands()
    value: Value = operand()
    shape: tuple[int, ...] = attr()
    dims: Dims = attr()

    def verify(self) -> None:
        require_region(self.mem, self.indices, self.dims, self.shape)
        require_scalar(self.value, "the value")
        require(self.value.dtype is self.mem.dtype, f"the value is {self.value.type}, the memory {self.mem.type}")

    def accesses(self) -> tuple[Access, ...]:
        return (Access("write", self.mem),)

    def footprints(self) -> tuple[Footprint, ...]:
        return (Footprint("write", self.mem, self.indices, self.dims, self.shape),)


class GemmInto(Gemm, name="gemm_into", stage="traced", uniform=True):
    """Traced gemm: c is a fragment, accumulated in place, or overwritten when clear_accum."""

    clear_accum: bool = attr(False)

    def infer(self) -> tuple[Type, ...]:
        return ()

    def accesses(self) -> tuple[Access, ...]:
        return (*super().accesses(), Access("write", self.c))


class ReduceInto(Op, name="reduce_into", stage="traced", uniform=True):
    """Traced reduction: `dst` = reduction of `src` along `dim`, combined with what dst held unless `clear`."""

    src: Value = operand()
    dst: Value = operand()
    dim: int = attr()
    kind: str = attr()
    clear: bool = attr(True)

    def verify(self) -> None:
        require_dim(self.dim, len(self.src.shape))
        require_one_of(self.kind, REDUCTIONS, "reduction")

    def accesses(self) -> tuple[Access, ...]:
        return (Access("read", self.src), Access("write", self.dst))


class ReducerUpdate(Op, name="reducer_update", stage="traced"):
    """In a parallel body: the element's `value` contributes to mem[indices] by `kind`. The reducer's contents are known
    once it is finalised."""

    mem: Value = operand()
    indices: tuple[Value, ...] = operands()
    value: Value = operand()
    kind: str = attr()

    def verify(self) -> None:
        require_one_of(self.kind, REDUCTIONS, "reduction")
        require_indices(self.indices, len(self.mem.shape))
        require(self.value.dtype is self.mem.dtype, f"the value is {self.value.type}, the memory {self.mem.type}")

    def accesses(self) -> tuple[Access, ...]:
        return (Access("write", self.mem),)


class FinalizeReducer(Op, name="finalize_reducer", stage="traced", uniform=True):
    """All contributions so far are in; `dst` gets the reducer's contents."""

    mem: Value = operand()
    dst: Value | None = maybe()

    def accesses(self) -> tuple[Access, ...]:
        written = () if self.dst is None else (Access("write", self.dst),)
        return (Access("read", self.mem), *written)
