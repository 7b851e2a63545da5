"""Reductions of a tile along a dimension: T.reduce, T.reduce_sum, T.reduce_max, …, T.argmax, T.argmin; over the blocks
of a cluster: scope="cluster", T.all_reduce; of all of a tile: T.any_of, T.all_of; and scans: T.cumsum, T.cummax,
T.cummin."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, Protocol

from minitile.ir.core import Block, Value
from minitile.ir.diagnostics import TypeMismatchError
from minitile.ir.ops import arith, cluster, tile
from minitile.ir.ops.checks import PROPAGATING
from minitile.ir.ops.scan import Scan
from minitile.ir.types import BufferType, DType, f32, i32
from minitile.language.memory import Memory, Region, as_region
from minitile.language.scalars import (
    Expr,
    Scalar,
    check_store_cast,
    constant_int,
)
from minitile.language.tiles import copy, regions, tile_scope
from minitile.language.tracing.context import Trace

SCOPES = ("block", "cluster")
ALL_REDUCES = ("sum", "max", "min", "bitand", "bitor", "bitxor")
REDUCES = ("sum", "max", "min", "absmax", "abssum", "bitand", "bitor", "bitxor")
_BITWISE = {"bitand": "and", "bitor": "or", "bitxor": "xor"}  # the IR's names, which are taken as well
_NAMES = {kind: name for name, kind in _BITWISE.items()}


@regions("buffer", "out")
def reduce(
    buffer: Any,
    out: Any,
    reduce_type: str,
    dim: int = -1,
    clear: bool = True,
    scope: str = "block",
    nan_propagate: bool = False,
) -> None:
    """Reduces a tile along a dimension; with scope="cluster" the tiles of all blocks of the cluster together.

    Args:
        buffer: a whole fragment or shared buffer; any number, bitwise kinds integers only.
        out: a whole fragment or shared buffer of the shape without that dimension, or with 1 there.
        reduce_type: "sum", "max", "min", "absmax", "abssum", "bitand", "bitor" or "bitxor" (also "and", "or", "xor").
            Sums of 16-bit floats are carried in f32. Of a number and a NaN, "max", "min" and "absmax" take the number,
            on every target: they give NaN only where all elements are NaN. Sums with a NaN are NaN.
        dim: which dimension; negative ones count from the end.
        clear: False combines the result with what `out` holds.
        scope: "block", or "cluster": every block of the cluster has a part of the dimension, and each gets the result,
            the same bits in all of them (sm_90a; clusters of one block on every target). All blocks of the cluster come
            here equally often.
        nan_propagate: True: "max", "min" and "absmax" of floats give NaN where some element is NaN.

    Raises:
        LanguageError: parts of a buffer, a kind, a dimension or a scope that there is not, inside T.Parallel.
        TypeMismatchError: a result of another shape, dtypes that are not cast silently, a bitwise reduction of floats.
        ResourceError: scope="cluster" in clusters of several blocks for a target that has none.

    Example:
        ```py
        T.copy(X[bx * 32, 0], x)
        T.reduce(x, row, "absmax", dim=1)
        T.copy(row, V[bx * 32])
        ```
    """
    kind = _kind("T.reduce", reduce_type, REDUCES)
    what = f"T.reduce_{_NAMES.get(kind, kind)}"
    trace = tile_scope(what)
    src, dst, d = _reduced(trace, what, buffer, out, dim)
    check_store_cast(src.memory.dtype, dst.memory.dtype, what)
    _check_bitwise(trace, what, kind, src.memory)
    if nan_propagate and src.memory.dtype.is_float and f"{kind}_nan" in PROPAGATING:
        kind += "_nan"
    if scope not in SCOPES:
        raise trace.error(f"{what} with scope={scope!r}", "a scope is one of: " + ", ".join(map(repr, SCOPES)))
    if scope == "cluster" and _ranks(trace) > 1:
        _over_cluster(trace, src.memory, dst.memory, d, kind, bool(clear))
        return
    trace.b.emit(tile.ReduceInto(src.memory.value, dst.memory.value, dim=d, kind=kind, clear=bool(clear)))


def _kind(what: str, given: Any, known: tuple[str, ...]) -> str:
    """The IR's name of a kind of reduction; raises LanguageError for what is none of those that are known."""
    name = _NAMES.get(given, given) if isinstance(given, str) else None
    if name not in known:
        raise tile_scope(what).error(f"{what} by {given!r}", "it knows: " + ", ".join(map(repr, known)))
    return _BITWISE.get(name, name)


def _check_bitwise(trace: Trace, what: str, kind: str, memory: Memory) -> None:
    if kind in _NAMES and memory.dtype.is_float:
        raise TypeMismatchError(f"{what} on {memory.dtype}", trace.loc, "bitwise reductions are for integers")


def _ranks(trace: Trace) -> int:
    assert trace.launch is not None
    return math.prod(trace.launch.cluster)


def _over_cluster(trace: Trace, src: Memory, dst: Memory, dim: int, kind: str, clear: bool) -> None:
    """A reduction whose parts, one of each block, meet in shared memory. Those of equal parts share a buffer; how many
    came before is counted where they are executed."""
    shape, carried = dst.static_shape, _carried(dst.dtype)
    b, key = trace.b, (shape, carried)
    if key not in trace.all_reduces:
        assert trace.launch is not None
        with b.inside(Block()) as first:
            buffer = b.emit(cluster.AllReduceBuffer(shape, carried, _ranks(trace))).result
            count = b.emit(tile.Alloc(BufferType("local", (1,), i32))).result
            b.emit(tile.Store(count, (b.constant(0),), b.constant(0), dims=(None,)))
        trace.launch.body.ops[:0] = first.ops
        buffer.name, count.name = "slots", "reduced"
        trace.all_reduces[key] = buffer, count
    buffer, count = trace.all_reduces[key]
    at, points = (b.constant(0),), (None,)
    number = b.emit(tile.Load(count, at, shape=(), dims=points)).result
    all_reduced = cluster.AllReduceInto(
        src=src.value, dst=dst.value, dim=dim, kind=kind, clear=clear, buffer=buffer, number=number
    )
    b.emit(all_reduced)
    b.emit(tile.Store(count, at, b.add(number, 1), dims=points))


def _carried(dtype: DType) -> DType:
    """What elements travel as: 32 or 64 bits."""
    if dtype.bits >= 32:
        return dtype
    return f32 if dtype.is_float else i32


@regions("buffer", "out")
def all_reduce(buffer: Any, reduce_type: str, out: Any = None) -> None:
    """Combines a fragment's elements with those of the same place in the other blocks of the cluster: every block gets
    the result, the same bits in all of them (sm_90a; clusters of one block on every target).

    All blocks of the cluster come here equally often. A number that all threads have is a fragment of one element.

    Args:
        buffer: a whole fragment or shared buffer.
        reduce_type: "sum", "max", "min", "bitand", "bitor" or "bitxor"; numbers and NaNs as T.reduce has them.
        out: a whole fragment or shared buffer of the same shape and dtype for the result; None: the buffer itself.

    Raises:
        LanguageError: parts of a buffer, another kind, inside T.Parallel.
        TypeMismatchError: another shape or dtype, a bitwise reduction of floats.
        ResourceError: in clusters of several blocks for a target that has none.

    Example:
        ```py
        @mt.kernel
        def total(X: T.Tensor((8, 256), T.float32), Y: T.Tensor((8,), T.float32)):
            with T.Kernel(8, threads=128, cluster=8) as bx:
                x = T.alloc_fragment((256,), T.float32)
                s = T.alloc_fragment((1,), T.float32)
                T.copy(X[bx, 0], x)
                T.reduce_sum(x, s)
                T.all_reduce(s, "sum")
                T.copy(s, Y[bx])
        ```
    """
    what = "T.all_reduce"
    trace = tile_scope(what)
    src, dst = as_region(buffer, f"{what}'s buffer"), as_region(buffer if out is None else out, f"{what}'s result")
    for r in (src, dst):
        if r.memory.space not in ("fragment", "shared") or r.shape != r.memory.static_shape:
            raise trace.error(f"{what} on {r.describe()}", "give a whole fragment or shared buffer")
    kind = _kind(what, reduce_type, ALL_REDUCES)
    if src.shape != dst.shape or src.memory.dtype is not dst.memory.dtype:
        message = f"{what} from {src.memory.describe()} to {dst.memory.describe()}"
        raise TypeMismatchError(message, trace.loc, "the result has the same shape and dtype")
    _check_bitwise(trace, what, kind, src.memory)
    if _ranks(trace) > 1:
        _over_cluster(trace, src.memory, dst.memory, -1, kind, True)
    elif out is not None:
        copy(src.memory, dst.memory)


def _reduced(trace: Trace, what: str, buffer: Any, out: Any, dim: int) -> tuple[Region, Region, int]:
    """The regions of a reduction, and its dimension, if these fit together."""
    src, dst = as_region(buffer, f"{what}'s source"), as_region(out, f"{what}'s result")
    for r in (src, dst):
        if r.memory.space not in ("fragment", "shared") or r.shape != r.memory.static_shape:
            raise trace.error(f"{what} on {r.describe()}", "reduce a whole fragment into a whole fragment")
    rank = len(src.shape)
    d = constant_int(dim, "dim")
    if not -rank <= d < rank:
        raise trace.error(f"{what}: dim={d} of a buffer with {rank} dimensions")
    d %= rank
    rest = (*src.shape[:d], *src.shape[d + 1 :])
    kept = (*src.shape[:d], 1, *src.shape[d + 1 :])
    if dst.shape not in (rest, kept):
        raise TypeMismatchError(
            f"{what} along dimension {d} of {src.memory.describe()} gives {'×'.join(map(str, rest or (1,)))}, "
            f"not {'×'.join(map(str, dst.shape))}",
            trace.loc,
        )
    return src, dst, d


class Reduction(Protocol):
    """T.reduce_sum and its like."""

    def __call__(
        self,
        buffer: Any,
        out: Any,
        dim: int = -1,
        clear: bool = True,
        scope: str = "block",
        nan_propagate: bool = False,
    ) -> None: ...


def _reduction(kind: str, what: str, name: str = "") -> Reduction:
    @regions("buffer", "out")
    def function(
        buffer: Any,
        out: Any,
        dim: int = -1,
        clear: bool = True,
        scope: str = "block",
        nan_propagate: bool = False,
    ) -> None:
        reduce(buffer, out, kind, dim, clear, scope, nan_propagate)

    function.__name__ = function.__qualname__ = f"reduce_{name or kind}"
    of_nan = """
Of a number and a NaN the number is taken, on every target: the result is NaN only where all elements are NaN, or, with
nan_propagate=True, where some element is. T.max and T.min do as the former, T.isnan finds NaNs, T.argmax and T.argmin
put them first.
"""
    function.__doc__ = f"""T.reduce of this kind: out = {what} of buffer along `dim`.
{of_nan if kind in ("max", "min", "absmax") else ""}
Args:
    buffer: a whole fragment or shared buffer{" of integers" if name else ""}.
    out: a whole fragment or shared buffer of the shape without that dimension, or with 1 there.
    dim: which dimension; negative ones count from the end.
    clear: False combines the result with what `out` holds.
    scope: "block", or "cluster": of the tiles of all blocks of the cluster together, in each of them, as T.reduce says.
    nan_propagate: what becomes of NaNs where the greatest or least is taken, as T.reduce says.

Raises:
    LanguageError: parts of a buffer, a dimension or a scope that there is not, inside T.Parallel.
    TypeMismatchError: a result of another shape, dtypes that are not cast silently.
    ResourceError: scope="cluster" in clusters of several blocks for a target that has none.

Example:
    ```py
    {
        "flags, both = T.alloc_fragment((32, 128), T.int32), T.alloc_fragment((32,), T.int32)"
        if name
        else "T.copy(X[bx * 32, 0], x)"
    }
    {"T.fill(flags, I[bx])" if name else f"T.reduce_{kind}(x, row, dim=1)"}
    {f"T.reduce_{name}(flags, both)" if name else "T.copy(row, V[bx * 32])"}{
        '''
    T.copy(both, I[bx * 32])'''
        if name
        else ""
    }
    ```
"""
    return function


reduce_sum = _reduction("sum", "the sum")
reduce_max = _reduction("max", "the maximum")
reduce_min = _reduction("min", "the minimum")
reduce_abssum = _reduction("abssum", "the sum of absolute values")
reduce_absmax = _reduction("absmax", "the maximum of absolute values")
reduce_bitand = _reduction("and", "the bitwise and", "bitand")
reduce_bitor = _reduction("or", "the bitwise or", "bitor")
reduce_bitxor = _reduction("xor", "the bitwise exclusive or", "bitxor")


def _arg_reduction(kind: str, what: str) -> Callable[..., None]:
    @regions("buffer", "out")
    def function(buffer: Any, out: Any, dim: int = -1) -> None:
        name = f"T.arg{kind}"
        trace = tile_scope(name)
        src, dst, d = _reduced(trace, name, buffer, out, dim)
        if not dst.memory.dtype.is_int:
            raise TypeMismatchError(f"{name} into {dst.memory.dtype}", trace.loc, "indices are integers: int32")
        rank, zero = len(src.shape), trace.b.constant(0)
        load = tile.Load(src.memory.value, (zero,) * rank, shape=src.shape, dims=tuple(range(rank)))
        found = trace.b.emit(tile.ArgReduce(trace.b.emit(load).result, d, kind)).result
        found = trace.b.cast(found, dst.memory.dtype)
        kept: list[int | None] = [n - (n > d) for n in range(rank)]
        if len(dst.shape) == rank:
            kept[d] = None
        else:
            del kept[d]
        dims = tuple(kept) or (None,)
        trace.b.emit(tile.Store(dst.memory.value, (zero,) * len(dst.shape), found, dims=dims))

    function.__name__ = function.__qualname__ = f"arg{kind}"
    function.__doc__ = f"""Where along a dimension {what} stands: of equal ones the first.

A NaN, the first one, comes before any number, as in NumPy.

Args:
    buffer: a whole fragment or shared buffer.
    out: a whole fragment or shared buffer of integers, of the shape without that dimension, or with 1 there.
    dim: which dimension; negative ones count from the end.

Raises:
    LanguageError: parts of a buffer, a dimension that there is not, inside T.Parallel.
    TypeMismatchError: a result of another shape, or of floats.

Example:
    ```py
    found = T.alloc_fragment((32,), T.int32)
    T.copy(X[bx * 32, 0], x)
    T.arg{kind}(x, found, dim=1)
    T.copy(found, I[bx * 32])
    ```
"""
    return function


argmax = _arg_reduction("max", "the greatest element")
argmin = _arg_reduction("min", "the least element")


@regions("buffer")
def any_of(buffer: Any) -> Scalar:
    """Whether some element is not 0 (or is True): the same answer in all threads, so that tile operations may stand
    under it. A NaN is not 0.

    Args:
        buffer: a fragment, a shared buffer or a tensor, or slices of one of constant size. Outside of a tensor all
            is 0. Of an array of T.alloc_local each thread gets its own answer.

    Returns:
        A bool.

    Raises:
        LanguageError: a run-time extent; inside T.Parallel.

    Example:
        ```py
        if T.any_of(I[bx * 128 : bx * 128 + 128]):
            T.copy(A[bx * 128, 0], A_shared)
        ```
    """
    return _quantified("or", "T.any_of", buffer)


@regions("buffer")
def all_of(buffer: Any) -> Scalar:
    """Whether no element is 0 (or False): the same answer in all threads, so that tile operations may stand under it.
    A NaN is not 0.

    Args:
        buffer: a fragment, a shared buffer or a tensor, or slices of one of constant size. Outside of a tensor all
            is 0. Of an array of T.alloc_local each thread gets its own answer.

    Returns:
        A bool.

    Raises:
        LanguageError: a run-time extent; inside T.Parallel.

    Example:
        ```py
        T.copy(X[bx * 32, 0], x)
        if T.all_of(x):
            T.copy(x, Y[bx * 32, 0])
        ```
    """
    return _quantified("and", "T.all_of", buffer)


def _quantified(kind: str, what: str, buffer: Any) -> Scalar:
    trace = tile_scope(what)
    region = as_region(buffer, f"{what}'s buffer")
    memory, b = region.memory, trace.b
    shape = () if region.start else region.static(what)

    def truth(value: Value) -> Value:
        if memory.dtype.kind == "bool":
            return value
        zero = b.constant(0.0 if memory.dtype.is_float else 0, memory.dtype)
        return b.value(arith.Cmp(value, b.value(tile.Splat(zero, value.shape)) if value.shape else zero, "ne"))

    if memory.space == "local":
        found: Value | None = None
        dims = region.dims(len(shape))
        for at in itertools.product(*map(range, shape)):
            place = [o if d is None else b.add(o, at[d]) for o, d in zip(region.offsets, dims, strict=True)]
            one = truth(b.emit(tile.Load(memory.value, tuple(place), shape=(), dims=(None,) * memory.ndim)).result)
            found = one if found is None else b.value(arith.COMBINE[kind](found, one))
        assert found is not None
        return Expr(found)
    value = truth(b.emit(tile.Load(memory.value, region.offsets, shape=shape, dims=region.dims(len(shape)))).result)
    for _ in shape:
        value = b.emit(tile.Reduce(value, len(value.shape) - 1, kind)).result
    return Expr(value)


# Scans --------------------------------------------------------------------------------------------------------------


class TileScan(Protocol):
    """T.cumsum and its like."""

    def __call__(self, src: Any, dst: Any = None, dim: int = 0, reverse: bool = False) -> None: ...


def _tile_scan(kind: str, what: str, of_nan: str) -> TileScan:
    name = f"cum{kind}"

    @regions("src", "dst")
    def function(src: Any, dst: Any = None, dim: int = 0, reverse: bool = False) -> None:
        _emit_scan(kind, f"T.{name}", src, src if dst is None else dst, dim, bool(reverse))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Each element becomes {what} of all up to it along a dimension, itself included.

{of_nan}

Args:
    src: a fragment or a shared buffer, or slices of one. Any number.
    dst: likewise, of the same shape; None: the source itself.
    dim: which dimension of the tile; negative ones count from the end. Like TileLang's, the default is the first.
    reverse: from the last element on: all behind it, itself included.

Raises:
    LanguageError: a tensor (copy it first), a dimension that there is not, inside T.Parallel.
    TypeMismatchError: a result of another shape or of bool, dtypes that are not cast silently.

Example:
    ```py
    T.copy(X[bx * 32, 0], x)
    T.{name}(x, dim=1)
    T.copy(x, Y[bx * 32, 0])
    ```
"""
    return function


def _emit_scan(kind: str, what: str, source: Any, result: Any, dim: int, reverse: bool) -> None:
    trace = tile_scope(what)
    src, dst = as_region(source, f"{what}'s source"), as_region(result, f"{what}'s result")
    for r in (src, dst):
        if r.memory.space not in ("fragment", "shared"):
            raise trace.error(f"{what} on {r.describe()}", "copy it to a fragment or a shared buffer first")
    shape = src.static(what)
    if dst.static(what) != shape:
        raise TypeMismatchError(
            f"{what} of {'×'.join(map(str, shape))} elements into {'×'.join(map(str, dst.shape))}", trace.loc
        )
    d, rank = constant_int(dim, "dim"), len(shape)
    if not -rank <= d < rank:
        raise trace.error(f"{what}: dim={d} of a tile with {rank} dimensions")
    into, of = dst.memory.dtype, src.memory.dtype
    check_store_cast(of, into, what)
    if into.kind == "bool":
        raise TypeMismatchError(f"{what} into bool", trace.loc, "use a buffer of int32")
    wide = of.is_float and into.is_float and of.bits > into.bits
    load = tile.Load(src.memory.value, src.offsets, shape=shape, dims=src.dims(rank))
    value = trace.b.emit(load).result
    value = trace.b.emit(Scan(value if wide else trace.b.cast(value, into), d % rank, kind, reverse=reverse)).result
    trace.b.emit(tile.Store(dst.memory.value, dst.offsets, trace.b.cast(value, into), dims=dst.dims(rank)))


cumsum = _tile_scan("sum", "the sum", "Sums of 16-bit floats are carried in f32. A NaN makes all behind it NaN.")
_NUMBERS = "Of a number and a NaN the number is taken, as by T.max and T.reduce_max."
cummax = _tile_scan("max", "the maximum", _NUMBERS)
cummin = _tile_scan("min", "the minimum", _NUMBERS)
