"""Executes traced and tile IR on NumPy arrays: the reference that passes are tested against.

    arrays = {"A": a, "C": c};  interpret(kernel, arrays, {"n": 3})       # C is changed in place

One thread does everything: a tile is an array, a fragment or shared buffer is an array (one per version), the CTAs run
one after the other. Memory that the kernel owns starts as garbage (NaN, 77), so that nothing may depend on what was
not written.

An asynchronous copy lands when its token is waited for (`landing="late"`: what did not wait sees garbage), or at once
(`"early"`: what was still to be read there is gone); those of one group in the other order. A program is right if all
agree.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from minitile.ir.core import Block, Kernel, Op, Value
from minitile.ir.ops import arith, control, tile
from minitile.ir.ops.random import RandomBits
from minitile.ir.ops.scan import Scan
from minitile.ir.ops.views import Recast, Reshape
from minitile.ir.types import BufferType, DType, TensorType
from tests.language.philox import philox

Array = Any


def interpret(
    kernel: Kernel,
    tensors: Mapping[str, Array],
    scalars: Mapping[str, Any] | None = None,
    landing: str = "late",
) -> None:
    """Run the kernel on arrays by parameter name, in place; run-time dimensions are read off the tensors' types."""
    machine = _Machine(landing)
    sizes: dict[str, int] = {}
    for param in kernel.params:
        if isinstance(param.type, TensorType):
            array = tensors[param.name]
            assert array.dtype == param.dtype.numpy, param.name
            for extent, size in zip(param.type.shape, array.shape, strict=True):
                assert sizes.setdefault(extent, size) == size if isinstance(extent, str) else extent == size
            machine.now[param] = array
        else:
            machine.now[param] = _number((scalars or {})[param.name], param.dtype)
    for name, value in kernel.dims.items():
        machine.now[value] = _number(sizes[name], value.dtype)
    with np.errstate(all="ignore"):
        machine.block(kernel.body)


def _number(value: Any, dtype: DType) -> Any:
    return np.asarray(value).astype(dtype.numpy)


def _garbage(dtype: DType) -> Any:
    return _number(np.nan if dtype.is_float else dtype.kind != "bool" and 77, dtype)


def _nonzero(f: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """Division by zero gives zero, where the hardware gives something."""
    return lambda a, b: np.where(b == 0, 0, f(a, np.where(b == 0, 1, b))).astype(a.dtype)


def _truncdiv(a: Array, b: Array) -> Array:
    return np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))


_BINARY: dict[type[Op], Callable[[Array, Array], Array]] = {
    arith.Add: np.add,
    arith.Sub: np.subtract,
    arith.Mul: np.multiply,
    arith.Div: np.divide,
    arith.FloorDiv: _nonzero(np.floor_divide),
    arith.FloorMod: _nonzero(np.mod),
    arith.TruncDiv: _nonzero(_truncdiv),
    arith.TruncMod: _nonzero(lambda a, b: a - b * _truncdiv(a, b)),
    arith.Min: np.fmin,
    arith.Max: np.fmax,
    arith.And: np.bitwise_and,
    arith.Or: np.bitwise_or,
    arith.Xor: np.bitwise_xor,
    arith.Shl: np.left_shift,
    arith.Shr: np.right_shift,
}
_UNARY: dict[type[Op], Callable[[Array], Array]] = {
    arith.Neg: np.negative,
    arith.Not: np.invert,
    arith.Abs: np.abs,
    arith.Exp: np.exp,
    arith.Exp2: np.exp2,
    arith.Log: np.log,
    arith.Sqrt: np.sqrt,
    arith.Rcp: np.reciprocal,
    arith.Tanh: np.tanh,
    arith.Floor: np.floor,
    arith.Ceil: np.ceil,
}
_COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}
_REDUCE: dict[str, Callable[[Array, int], Array]] = {
    "sum": lambda a, d: a.sum(d, dtype=a.dtype),
    "max": np.fmax.reduce,
    "min": np.fmin.reduce,
    "abssum": lambda a, d: np.abs(a).sum(d, dtype=a.dtype),
    "absmax": lambda a, d: np.fmax.reduce(np.abs(a), d),
    "max_nan": lambda a, d: np.maximum.reduce(a, d),
    "min_nan": lambda a, d: np.minimum.reduce(a, d),
    "absmax_nan": lambda a, d: np.maximum.reduce(np.abs(a), d),
    "and": np.bitwise_and.reduce,
    "or": np.bitwise_or.reduce,
    "xor": np.bitwise_xor.reduce,
}
_SCAN: dict[str, np.ufunc] = {"sum": np.add, "max": np.fmax, "min": np.fmin}
_COMBINE = {"sum": "sum", "abssum": "sum", "absmax": "max", "absmax_nan": "max_nan"}
_ATOMIC: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "min": np.fmin,
    "max": np.fmax,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "exch": lambda old, new: new,
    "store": lambda old, new: new,
    "load": lambda old, new: old,
}


class _Token:
    def __init__(self, *landings: Callable[[], None]) -> None:
        self.landings = list(landings)

    def land(self) -> None:
        landings, self.landings = self.landings, []
        for landing in landings:
            landing()


class _Machine:
    def __init__(self, landing: str) -> None:
        assert landing in ("late", "early")
        self.late = landing == "late"
        self.now: dict[Value, Any] = {}
        self.flying = 0  # asynchronous copies without a wait so far

    def of(self, value: Value | None) -> Any:
        return None if value is None else self.now[value]

    def block(self, block: Block, args: tuple[Any, ...] = ()) -> list[Any]:
        """Execute a block; the values that its terminator hands on."""
        self.now.update(zip(block.args, args, strict=True))
        for op in block.ops:
            if op.terminator:
                return [self.now[v] for v in op.operands]
            self.op(op)
        return []

    def op(self, op: Op) -> None:
        if isinstance(op, arith.Binary):
            results: Any = (_BINARY[type(op)](self.of(op.a), self.of(op.b)),)
        elif isinstance(op, arith.Unary):
            results = (_UNARY[type(op)](self.of(op.a)),)
        else:
            results = getattr(self, type(op).__name__)(op)
        for result, value in zip(op.results, results or (), strict=True):
            dtype = getattr(result.type, "dtype", None)
            in_memory = isinstance(result.type, BufferType)
            self.now[result] = value if dtype is None or in_memory else np.asarray(value).astype(dtype.numpy)

    # Arithmetic -----------------------------------------------------------------------------------------------------

    def Within(self, op: arith.Within) -> tuple[Any]:
        return (self.of(op.a),)

    def Constant(self, op: arith.Constant) -> Any:
        return (_number(op.value, op.dtype),)

    def Cmp(self, op: arith.Cmp) -> Any:
        return (_COMPARE[op.predicate](self.of(op.a), self.of(op.b)),)

    def Select(self, op: arith.Select) -> Any:
        return (np.where(self.of(op.condition), self.of(op.a), self.of(op.b)),)

    def Fma(self, op: arith.Fma) -> Any:
        return (self.of(op.a) * self.of(op.b) + self.of(op.c),)

    def Cast(self, op: arith.Cast) -> Any:
        return (self.of(op.a).astype(op.to.numpy),)

    def Assume(self, op: arith.Assume) -> None:
        assert self.of(op.condition)

    # Control flow ---------------------------------------------------------------------------------------------------

    def Launch(self, op: control.Launch) -> None:
        for bz, by, bx in itertools.product(*(range(int(self.of(g))) for g in reversed(op.grid))):
            self.block(op.body, tuple(np.int32(b) for b in (bx, by, bz)))
            assert self.flying == 0, "copies that were never waited for"

    def For(self, op: control.For) -> Any:
        carried = [self.of(v) for v in op.init]
        for i in range(int(self.of(op.lower)), int(self.of(op.upper)), int(self.of(op.step))):
            carried = self.block(op.body, (_number(i, op.iv.dtype), *carried))
        return carried

    def While(self, op: control.While) -> Any:
        carried = [self.of(v) for v in op.init]
        while True:
            go, *values = self.block(op.before, tuple(carried))
            if not go:
                return values
            carried = self.block(op.body, tuple(values))

    def If(self, op: control.If) -> Any:
        return self.block(op.then if self.of(op.condition) else op.orelse)

    def Parallel(self, op: control.Parallel) -> None:
        for indices in itertools.product(*map(range, op.extents)):
            self.block(op.body, tuple(np.int32(i) for i in indices))

    # Memory ---------------------------------------------------------------------------------------------------------

    def Statement(self, op: control.Statement) -> Any:
        return ()

    def Alloc(self, op: tile.Alloc) -> Any:
        return (np.full((op.type_.versions, *op.type_.shape), _garbage(op.type_.dtype)),)

    def memory(self, mem: Value, slot: Value | None) -> Array:
        array = self.of(mem)
        return array[0 if slot is None else int(self.of(slot))] if isinstance(mem.type, BufferType) else array

    def places(
        self, mem: Value, indices: tuple[Value, ...], dims: tile.Dims, shape: tuple[int, ...], mask: Value | None
    ) -> tuple[tuple[Array, ...], Array]:
        """Index arrays of the tile's elements (0 where there is none), and which elements there are. Outside a tensor
        there are none; outside a buffer is a mistake."""
        elements = np.indices(shape) if shape else ()
        at = [
            np.broadcast_to(self.of(i).astype(np.int64) + (0 if d is None else elements[d]), shape)
            for i, d in zip(indices, dims, strict=True)
        ]
        wanted = np.broadcast_to(True if mask is None else self.of(mask), shape)
        inside = wanted.copy()
        for index, size in zip(at, self.of(mem).shape[isinstance(mem.type, BufferType) :], strict=True):
            inside &= (index >= 0) & (index < size)
        assert isinstance(mem.type, TensorType) or (inside == wanted).all(), f"outside of {mem.name}"
        return tuple(np.where(inside, index, 0) for index in at), inside

    def get(self, mem: Value, indices: Any, dims: Any, shape: Any, mask: Any = None, slot: Any = None) -> Array:
        at, inside = self.places(mem, indices, dims, shape, mask)
        array = self.memory(mem, slot)
        if array.size == 0:
            return np.zeros(shape, array.dtype)
        return np.where(inside, array[at], np.zeros((), array.dtype))

    def put(self, mem: Value, indices: Any, dims: Any, value: Array, mask: Any = None, slot: Any = None) -> None:
        at, inside = self.places(mem, indices, dims, value.shape, mask)
        self.memory(mem, slot)[tuple(index[inside] for index in at)] = value[inside]

    def Load(self, op: tile.Load) -> Any:
        return (self.get(op.mem, op.indices, op.dims, op.shape, op.mask, op.slot),)

    def Store(self, op: tile.Store) -> None:
        self.put(op.mem, op.indices, op.dims, self.of(op.value), op.mask, op.slot)

    def AtomicRmw(self, op: tile.AtomicRmw) -> Any:
        value = self.of(op.value)
        at, inside = self.places(op.mem, op.indices, op.dims, value.shape, op.mask)
        old, array = np.zeros_like(value), self.memory(op.mem, None)
        for element in np.argwhere(inside):
            place = tuple(index[tuple(element)] for index in at)
            old[tuple(element)] = array[place]
            array[place] = _ATOMIC[op.kind](array[place], value[tuple(element)])
        return (old,)

    def Copy(self, op: tile.Copy) -> None:
        value = self.get(op.src, op.src_indices, op.src_dims, op.shape, None, op.src_slot)
        self.put(op.dst, op.dst_indices, op.dst_dims, value.astype(op.dst.dtype.numpy), None, op.dst_slot)

    def AsyncCopy(self, op: tile.AsyncCopy) -> Any:
        value = self.get(op.src, op.src_indices, op.src_dims, op.shape)
        at, _ = self.places(op.dst, op.dst_indices, op.dst_dims, op.shape, None)
        array = self.memory(op.dst, op.dst_slot)
        array[at] = _garbage(op.dst.dtype) if self.late else value
        self.flying += 1

        def land() -> None:
            self.flying -= 1
            if self.late:
                array[at] = value

        return (_Token(land),)

    def NoToken(self, op: tile.NoToken) -> Any:
        return (_Token(),)

    def Join(self, op: tile.Join) -> Any:
        return (_Token(*(t.land for t in map(self.of, reversed(op.tokens)))),)

    def Wait(self, op: tile.Wait) -> None:
        self.of(op.token).land()

    def SyncThreads(self, op: tile.SyncThreads) -> None:
        pass

    # Tiles ----------------------------------------------------------------------------------------------------------

    def Iota(self, op: tile.Iota) -> Any:
        return (np.indices(op.shape)[op.dim],)

    def Splat(self, op: tile.Splat) -> Any:
        return (np.full(op.shape, self.of(op.value)),)

    def Expand(self, op: tile.Expand) -> Any:
        return (np.repeat(np.expand_dims(self.of(op.a), op.dim), op.size, op.dim),)

    def Permute(self, op: tile.Permute) -> Any:
        return (np.transpose(self.of(op.a), op.order),)

    def InterleavedSlice(self, op: tile.InterleavedSlice) -> Any:
        return (np.take(self.of(op.a), [op.of_source(n) for n in range(op.result.shape[op.dim])], op.dim),)

    def Repeat(self, op: tile.Repeat) -> Any:
        return (np.repeat(self.of(op.a), op.times, op.dim),)

    def Slice(self, op: tile.Slice) -> Any:
        return (self.of(op.a)[tuple(slice(o, o + n) for o, n in zip(op.offsets, op.shape, strict=True))],)

    def Insert(self, op: tile.Insert) -> Any:
        new = self.of(op.a).copy()
        new[tuple(int(self.of(i)) for i in op.indices)] = self.of(op.value)
        return (new,)

    def Extract(self, op: tile.Extract) -> Any:
        return (self.of(op.a)[tuple(int(self.of(i)) for i in op.indices)],)

    def Reduce(self, op: tile.Reduce) -> Any:
        return (_REDUCE[op.kind](self.of(op.a), op.dim),)

    def Scan(self, op: Scan) -> Any:
        a = np.flip(self.of(op.a), op.dim) if op.reverse else self.of(op.a)
        a = _SCAN[op.kind].accumulate(a, op.dim, dtype=a.dtype)
        return (np.flip(a, op.dim) if op.reverse else a,)

    def Reshape(self, op: Reshape) -> Any:
        return (self.of(op.a).reshape(op.shape),)

    def Recast(self, op: Recast) -> Any:
        return (np.ascontiguousarray(self.of(op.a)).view(op.to.numpy),)

    def RandomBits(self, op: RandomBits) -> Any:
        words = philox(int(self.of(op.key)), self.of(op.counter), int(self.of(op.stream)))
        *outer, last = op.counter.shape
        return (np.moveaxis(words, 0, -1).reshape(*outer, 4 * last),)

    def ArgReduce(self, op: tile.ArgReduce) -> Any:
        return ((np.argmax if op.kind == "max" else np.argmin)(self.of(op.a).astype(object), op.dim),)

    # Gemm, and what writes fragments --------------------------------------------------------------------------------

    def matrix(self, mem: Value, indices: Any, dims: tile.Dims, slot: Value | None, transpose: bool) -> Array:
        value = self.of(mem)
        if isinstance(mem.type, BufferType):
            runs = {d: n for d, n in zip(dims, mem.shape, strict=True) if d is not None}
            value = self.get(mem, indices, dims, (runs[0], runs[1]), None, slot)
        return (value.T if transpose else value).astype(np.float64)

    def product(self, op: tile.Gemm) -> Array:
        a = self.matrix(op.a, op.a_indices, op.a_dims, op.a_slot, op.transpose_a)
        return a @ self.matrix(op.b, op.b_indices, op.b_dims, op.b_slot, op.transpose_b)

    def Gemm(self, op: tile.Gemm) -> Any:
        return (self.product(op) + (0 if self.clears(op) else self.of(op.c)),)

    def clears(self, op: tile.Gemm) -> bool:
        return op.scale_d is not None and not self.of(op.scale_d)

    def GemmInto(self, op: tile.GemmInto) -> None:
        c = self.memory(op.c, None)
        c[...] = self.product(op) + (0 if op.clear_accum or self.clears(op) else c)

    def Fill(self, op: tile.Fill) -> None:
        self.put(op.mem, op.indices, op.dims, np.full(op.shape, self.of(op.value)))

    def ReduceInto(self, op: tile.ReduceInto) -> None:
        dst = self.memory(op.dst, None)
        value = _REDUCE[op.kind](self.memory(op.src, None).astype(dst.dtype), op.dim).reshape(dst.shape)
        if not op.clear:
            value = _REDUCE[_COMBINE.get(op.kind, op.kind)](np.stack([dst, value]), 0)
        dst[...] = value
