"""Reductions of a tile along a dimension: T.reduce, T.reduce_sum, T.reduce_max, …, T.argmax, T.argmin; and over the
blocks of a cluster: scope="cluster", T.all_reduce."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

from minitile.ir.core import Block
from minitile.ir.diagnostics import TypeMismatchError
from minitile.ir.ops import cluster, tile
from minitile.ir.types import BufferType, DType, f32, i32
from minitile.language.memory import Memory, Region, as_region
from minitile.language.scalars import (
    check_store_cast,
    constant_int,
)
from minitile.language.tiles import copy, regions, tile_scope
from minitile.language.tracing.context import Trace

SCOPES = ("block", "cluster")
ALL_REDUCES = ("sum", "max", "min", "and", "or", "xor")


@regions("buffer", "out")
def reduce(buffer: Any, out: Any, reduce_type: str, dim: int = -1, clear: bool = True, scope: str = "block") -> None:
    """Reduces a tile along a dimension; with scope="cluster" the tiles of all blocks of the cluster together.

    Args:
        buffer: a whole fragment or shared buffer; any number, bitwise kinds integers only.
        out: a whole fragment or shared buffer of the shape without that dimension, or with 1 there.
        reduce_type: "sum", "max", "min", "absmax", "abssum", "and", "or" or "xor". Sums of 16-bit floats are carried in
            f32. Of a number and a NaN, "max", "min" and "absmax" take the number, on every target: they give NaN only
            where all elements are NaN. Sums with a NaN are NaN.
        dim: which dimension; negative ones count from the end.
        clear: False combines the result with what `out` holds.
        scope: "block", or "cluster": every block of the cluster has a part of the dimension, and each gets the result,
            the same bits in all of them (sm_90a; clusters of one block on every target). All blocks of the cluster come
            here equally often.

    Raises:
        LanguageError: parts of a buffer, a dimension or a scope that there is not, inside T.Parallel.
        TypeMismatchError: a result of another shape, dtypes that are not cast silently, a bitwise reduction of floats.
        ResourceError: scope="cluster" in clusters of several blocks for a target that has none.

    Example:
        ```py
        T.copy(X[bx * 32, 0], x)
        T.reduce(x, row, "absmax", dim=1)
        T.copy(row, V[bx * 32])
        ```
    """
    what = f"T.reduce_{reduce_type}"
    trace = tile_scope(what)
    src, dst, d = _reduced(trace, what, buffer, out, dim)
    check_store_cast(src.memory.dtype, dst.memory.dtype, what)
    if reduce_type in ("and", "or", "xor") and src.memory.dtype.is_float:
        raise TypeMismatchError(f"{what} on {src.memory.dtype}", trace.loc, "bitwise reductions are for integers")
    if scope not in SCOPES:
        raise trace.error(f"{what} with scope={scope!r}", "a scope is one of: " + ", ".join(map(repr, SCOPES)))
    if scope == "cluster" and _ranks(trace) > 1:
        _over_cluster(trace, src.memory, dst.memory, d, reduce_type, bool(clear))
        return
    trace.b.emit(tile.ReduceInto(src.memory.value, dst.memory.value, dim=d, kind=reduce_type, clear=bool(clear)))


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
        reduce_type: "sum", "max", "min", "and", "or" or "xor"; numbers and NaNs as T.reduce has them.
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
    if reduce_type not in ALL_REDUCES:
        raise trace.error(f"{what} by {reduce_type!r}", "it knows: " + ", ".join(map(repr, ALL_REDUCES)))
    if src.shape != dst.shape or src.memory.dtype is not dst.memory.dtype:
        message = f"{what} from {src.memory.describe()} to {dst.memory.describe()}"
        raise TypeMismatchError(message, trace.loc, "the result has the same shape and dtype")
    if reduce_type in ("and", "or", "xor") and src.memory.dtype.is_float:
        raise TypeMismatchError(f"{what} on {src.memory.dtype}", trace.loc, "bitwise reductions are for integers")
    if _ranks(trace) > 1:
        _over_cluster(trace, src.memory, dst.memory, -1, reduce_type, True)
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

    def __call__(self, buffer: Any, out: Any, dim: int = -1, clear: bool = True, scope: str = "block") -> None: ...


def _reduction(kind: str, what: str, name: str = "") -> Reduction:
    @regions("buffer", "out")
    def function(buffer: Any, out: Any, dim: int = -1, clear: bool = True, scope: str = "block") -> None:
        reduce(buffer, out, kind, dim, clear, scope)

    function.__name__ = function.__qualname__ = f"reduce_{name or kind}"
    of_nan = """
Of a number and a NaN the number is taken, on every target: the result is NaN only where all elements are NaN. T.max and
T.min do the same, T.isnan finds NaNs, T.argmax and T.argmin put them first.
"""
    function.__doc__ = f"""T.reduce of this kind: out = {what} of buffer along `dim`.
{of_nan if kind in ("max", "min", "absmax") else ""}
Args:
    buffer: a whole fragment or shared buffer{" of integers" if name else ""}.
    out: a whole fragment or shared buffer of the shape without that dimension, or with 1 there.
    dim: which dimension; negative ones count from the end.
    clear: False combines the result with what `out` holds.
    scope: "block", or "cluster": of the tiles of all blocks of the cluster together, in each of them, as T.reduce says.

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
