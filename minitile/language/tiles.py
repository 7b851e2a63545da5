"""Storage, copies and fills: T.alloc_*, T.copy, T.transpose, T.fill, T.clear, T.view; and what tile operations share.

`@regions(...)` names the parameters whose argument, when it is an index expression, is a region and not a load; the
interpreter looks for it. "slices" behind a name: only when the index has slices.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, TypeVar

from minitile.ir.diagnostics import TypeMismatchError, shown
from minitile.ir.ops import tile
from minitile.ir.ops.views import VIEWS, recasts
from minitile.ir.types import SPACES, BufferType
from minitile.language.math import dtype_of_name
from minitile.language.memory import Memory, Region, View, as_region, between, match_extents
from minitile.language.results import tensor_view
from minitile.language.scalars import (
    Expr,
    Scalar,
    assign_cast,
    check_store_cast,
    constant_int,
    convert,
    is_scalar,
)
from minitile.language.storage.packed import (
    PackedMemory,
    copy_packed,
    fill_packed,
    nibble_of,
    stored,
    stored_shape,
)
from minitile.language.tracing.context import Trace, current

F = TypeVar("F", bound=Callable[..., Any])


def regions(*names: str, slices: tuple[str, ...] = ()) -> Callable[[F], F]:
    """Marks the parameters that take regions."""

    def mark(function: F) -> F:
        order = list(inspect.signature(function).parameters)
        modes = {**dict.fromkeys(names, "region"), **dict.fromkeys(slices, "slices")}
        function.region_modes = {**modes, **{order.index(n): m for n, m in modes.items()}}  # type: ignore[attr-defined]
        return function

    return mark


def tile_scope(what: str) -> Trace:
    """The trace, when a tile operation is allowed here: inside T.Kernel and outside T.Parallel."""
    trace = current()
    if trace.launch is None:
        raise trace.error(f"{what} outside T.Kernel", "write it inside `with T.Kernel(…) as …:`")
    if trace.parallel:
        raise trace.error(
            f"{what} inside T.Parallel",
            "the body of T.Parallel works on single elements; tile operations go before or after it",
        )
    return trace


# Storage -----------------------------------------------------------------------------------------------------------


def alloc(space: str, shape: Any, dtype: Any, what: str, by: type[tile.Alloc] = tile.Alloc) -> Memory:
    """A buffer of a space of memory, allocated `by` that operation. Raises LanguageError for a shape that is none."""
    trace = tile_scope(what)
    items = shape if isinstance(shape, (tuple, list)) else (shape,)
    dims = tuple(constant_int(d, f"the shape of {what}") for d in items)
    if not dims or any(d < 1 for d in dims):
        raise trace.error(f"{what}: shape {dims} has no elements", "each dimension is at least 1")
    packed = nibble_of(dtype) if space == "shared" else None  # in registers an element has a byte of its own
    sizes = dims if packed is None else stored_shape(dims, f"{what} of {packed}")
    value = trace.b.emit(by(type_=BufferType(space, sizes, stored(dtype)))).result
    return Memory(value, trace) if packed is None else PackedMemory(value, trace, packed)


def alloc_shared(shape: Any, dtype: Any, scope: str = "shared.dyn") -> Memory:
    """Allocates a buffer in shared memory, common to the block's threads. What a loop's body allocates is new in each
    round.

    Args:
        shape: the sizes: Python ints, at least 1 each.
        dtype: any dtype of the table.
        scope: TileLang's; not looked at.

    Returns:
        The buffer. Its contents are undefined until it is written; the simulator reports reads of unwritten elements.

    Raises:
        LanguageError: a size that is not a compile-time int of at least 1; inside T.Parallel.
        ResourceError: more than the target's shared memory, when the kernel is compiled.

    Example:
        ```py
        tile = T.alloc_shared((64, 32), T.bfloat16)
        T.copy(A[bx * 64, 0], tile)
        ```
    """
    return alloc("shared", shape, dtype, "T.alloc_shared")


def alloc_fragment(shape: Any, dtype: Any, scope: str = "local.fragment") -> Memory:
    """Allocates a tile in registers, spread over the block's threads by a layout that the compiler chooses.

    Args:
        shape: the sizes: Python ints, at least 1 each; at most what the block's registers hold.
        dtype: any dtype of the table.
        scope: TileLang's; not looked at.

    Returns:
        The fragment. An element may be read at any index; a constant or T.Parallel index costs nothing or a shuffle,
        another one a copy in shared memory.

    Raises:
        LanguageError: a size that is not a compile-time int of at least 1; inside T.Parallel.
        ResourceError: more registers than a block has.

    Example:
        ```py
        y = T.alloc_fragment((32, 128), T.float32)
        T.copy(X[bx * 32, 0], y)
        ```
    """
    return alloc("fragment", shape, dtype, "T.alloc_fragment")


def alloc_local(shape: Any, dtype: Any, scope: str = "local") -> Memory:
    """Allocates memory of each thread's own: registers where all indices are constants, else local memory.

    Args:
        shape: the sizes: Python ints, at least 1 each.
        dtype: any dtype of the table.
        scope: TileLang's; not looked at.

    Returns:
        The array, to be read and written element by element.

    Raises:
        LanguageError: a size that is not a compile-time int of at least 1; inside T.Parallel.

    Example:
        ```py
        best = T.alloc_local((2,), T.float32)
        best[0] = V[tx]
        best[1] = best[0] * 2
        V[tx] = best[1]
        ```
    """
    return alloc("local", shape, dtype, "T.alloc_local")


class Variable(Expr):
    """What T.alloc_var gives: the name that it is assigned to keeps its dtype."""

    __slots__ = ()


def alloc_var(dtype: Any, init: Any = 0) -> Scalar:
    """A scalar variable of a fixed dtype: what is assigned to its name later is cast to it, as by a store.

    A plain name does as well: `n = 0` is i32, `x = 0.0` is f32, and keeps that dtype in loops.

    Args:
        dtype: any dtype of the table.
        init: its first value.

    Raises:
        TypeMismatchError: an `init` or a later value that is not cast to the dtype silently.

    Example:
        ```py
        count = T.alloc_var(T.int64)
        for k in T.serial(M):
            count = count + k
        if tx == 0:
            I[bx] = T.cast(count, T.int32)
        ```
    """
    return Variable(convert(init, dtype_of_name(dtype)).value)


# Copies and fills --------------------------------------------------------------------------------------------------


@regions("src", "dst")
def copy(
    src: Any,
    dst: Any,
    coalesced_width: int | None = None,
    disable_tma: bool = False,
    eviction_policy: str | None = None,
) -> None:
    """Copies a tile between global, shared and register memory, with a cast if the dtypes differ.

    One side says how large the tile is: a whole buffer, or slices. The other one may be a start (`A[by * 128, k *
    64]`). Reading outside a tensor gives 0, writing outside does nothing. In a T.Pipelined loop a copy from a tensor to
    shared memory is asynchronous (cp.async, TMA, LDS-DMA), and runs ahead.

    Args:
        src: a tensor, buffer or fragment, a start in one, or slices of one. Any dtype.
        dst: likewise. Casts are those of T.cast, except float to integer, which has to be written.
        coalesced_width: a hint that is not needed.
        disable_tma: a hint that is not needed.
        eviction_policy: a hint to L2: the tensor's lines are to go first ("evict_first": read once) or last
            ("evict_last": read again soon). "evict_normal" and None say nothing.

    Raises:
        LanguageError: another policy; shapes that do not match; no side says how large the tile is; inside T.Parallel.
        TypeMismatchError: dtypes that are not cast silently.

    Example:
        ```py
        T.copy(A[bx * 128, 64], A_shared)  # where the tile begins; how large it is says A_shared
        T.copy(X[0:32, 0:128], x)  # slices
        T.copy(x, Y[bx * 32, 0], eviction_policy="evict_first")
        ```
    """
    trace = tile_scope("T.copy")
    evict = "" if eviction_policy in (None, "evict_normal") else str(eviction_policy)
    if evict not in tile.EVICTIONS:
        raise trace.error(f"eviction_policy={eviction_policy!r}", "evict_normal, evict_first or evict_last")
    a, b = as_region(src, "T.copy's source", packed=True), as_region(dst, "T.copy's destination", packed=True)
    shape = match_extents(a, b, "T.copy")
    if a.memory.packed is not None or b.memory.packed is not None:
        _inside(a, shape)
        _inside(b, shape)
        copy_packed(a, b, shape, "T.copy", evict)
        return
    check_store_cast(a.memory.dtype, b.memory.dtype, f"T.copy from {a.memory.describe()} to {b.memory.describe()}")
    _inside(a, shape)
    _inside(b, shape)
    evict = evict if "global" in (a.memory.space, b.memory.space) else ""
    trace.b.emit(tile.Copy(**between(a, b, shape), evict=evict))


@regions("src", "dst")
def transpose(src: Any, dst: Any) -> None:
    """Copies a tile, its last two dimensions exchanged: dst[…, j, i] = src[…, i, j]; with a cast if dtypes differ.

    One side says how large the tile is, as of T.copy. Reading outside a tensor gives 0, writing outside does nothing.

    Args:
        src: a tensor, buffer or fragment, a start in one, or slices of one, of two dimensions or more. Any dtype.
        dst: likewise. Casts are those of T.copy.

    Raises:
        LanguageError: fewer dimensions; no side says how large the tile is; inside T.Parallel.
        TypeMismatchError: shapes that do not match, dtypes that are not cast silently.

    Example:
        ```py
        turned = T.alloc_shared((64, 128), T.bfloat16)
        T.copy(A[bx * 128, 0], A_shared)
        T.transpose(A_shared, turned)
        ```
    """
    what = "T.transpose"
    trace = tile_scope(what)
    a, b = as_region(src, f"{what}'s source"), as_region(dst, f"{what}'s destination")
    shape = turned(b.static(what)) if a.start else a.static(what)
    if len(shape) < 2:
        raise trace.error(f"{what} of {a.describe()}: {len(shape)} dimensions", "it exchanges the last two")
    if not b.start and b.static(what) != turned(shape):
        raise TypeMismatchError(
            f"{what}: {'×'.join(map(str, shape))} from {a.memory.describe()}, "
            f"{'×'.join(map(str, b.shape))} in {b.memory.describe()}",
            trace.loc,
            f"the transpose is {'×'.join(map(str, turned(shape)))}",
        )
    for region in (a, b):
        if region.start and len(shape) > region.memory.ndim:
            raise TypeMismatchError(f"{what}: the tile does not go into {region.memory.describe()}", trace.loc)
    check_store_cast(a.memory.dtype, b.memory.dtype, f"{what} from {a.memory.describe()} to {b.memory.describe()}")
    _inside(a, shape)
    _inside(b, turned(shape))
    fields = between(a, b, shape)
    rank = len(shape)
    exchanged = (*range(rank - 2), rank - 1, rank - 2)
    fields["dst_dims"] = tuple(None if d is None else exchanged[d] for d in b.dims(rank))
    trace.b.emit(tile.Copy(**fields))


def turned(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The last two sizes exchanged."""
    return (*shape[:-2], *shape[:-3:-1])


def _inside(region: Region, shape: tuple[int, ...]) -> None:
    """A start in a buffer (not a tensor) leaves room for the tile."""
    if region.start and region.memory.space != "global":
        for d, t in enumerate(region.dims(len(shape))):
            region.memory.index(Expr(region.offsets[d]), d, 1 if t is None else shape[t])


@regions("buffer")
def fill(buffer: Any, value: Any) -> None:
    """Sets every element of a buffer, or of a region of it, to a value.

    Args:
        buffer: a fragment, a shared buffer, a local array, a scalar variable, or slices of one.
        value: a scalar, run-time or not, that is cast as by a store.

    Raises:
        LanguageError: a tensor (fill a fragment and T.copy it); inside T.Parallel.
        TypeMismatchError: what is no scalar, or not cast silently.

    Example:
        ```py
        T.fill(row, -T.infinity(T.float32))
        T.fill(A_shared[0:16, 0:64], 1)
        ```
    """
    trace = tile_scope("T.fill")
    region = as_region(buffer, "T.fill's buffer", packed=True)
    mem = region.memory
    if mem.space == "global":
        raise trace.error(f"T.fill of {mem.describe()}", "fill a fragment and T.copy it")
    if mem.packed is not None:
        fill_packed(region, value, "T.fill")
        return
    shape = region.static("T.fill") if not region.start else ()
    what = f"T.fill of {mem.describe()}"
    if not is_scalar(value):
        raise TypeMismatchError(f"{what} with {shown(value)}, which is no scalar", trace.loc)
    number = assign_cast(value, mem.dtype, what)
    dims = (None,) * mem.ndim if region.start else region.dims(len(shape))
    trace.b.emit(tile.Fill(mem.value, region.offsets, number, shape=shape, dims=dims))


@regions("buffer")
def clear(buffer: Any) -> None:
    """T.fill with 0.

    Args:
        buffer: a fragment, a shared buffer, a local array, a scalar variable, or slices of one.

    Raises:
        LanguageError: a tensor; inside T.Parallel.

    Example:
        ```py
        T.clear(C_local)
        ```
    """
    fill(buffer, 0)


# Views -------------------------------------------------------------------------------------------------------------


def view(buffer: Any, shape: Any = None, dtype: Any = None) -> Memory:
    """A fragment or a shared buffer under another shape, or as elements of another dtype of as many bits: element n of
    it, counted row by row, is element n of the buffer. Nothing is copied; what is written to either is read from both.

    A fragment's elements of 32 bits may also be seen as two of 16 or four of 8, the lowest bits first, side by side in
    the last dimension; and the other way round. So may those of tensor memory (T.alloc_tmem), whose rows stay rows.

    Args:
        buffer: a whole fragment, shared buffer or one of tensor memory; or a tensor without gaps, of its own dtype (see
            T.reshape).
        shape: sizes, as Python ints, one of which may be -1: what is left; None: the buffer's own.
        dtype: another dtype of as many bits, not bool, of a fragment also words as parts and back; None: its own.

    Returns:
        The view. Tile operations take a view of a shared buffer as a whole; T.gemm takes the buffer itself.

    Raises:
        LanguageError: a local array, another number of elements; of a buffer, inside T.Parallel.
        TypeMismatchError: a dtype of another size, or what is no buffer.

    Example:
        ```py
        heads = T.view(x, (32, 8, 16))
        bits = T.view(x, dtype=T.uint32)
        halves = T.view(x, dtype=T.float16)  # of a fragment, twice as many columns
        ```
    """
    return _view("T.view", buffer, shape, dtype)


def reshape(buffer: Any, shape: Any) -> Memory:
    """T.view with another shape: element n, counted row by row, is element n of the buffer.

    Args:
        buffer: a whole fragment or shared buffer; or a tensor without gaps, whose array the call reshapes, and which
            the kernel does not access besides if it writes one of the two.
        shape: sizes, as Python ints, one of which may be -1: what is left. Of a tensor also run-time sizes, as of
            T.empty, and no -1.

    Returns:
        The view.

    Raises:
        LanguageError: a local array, another number of elements; of a buffer, inside T.Parallel.
        LaunchArgumentError: a call with an array that has no such view.

    Example:
        ```py
        sums = T.alloc_fragment((32, 8), T.float32)
        T.copy(X[bx * 32, 0], x)
        T.reduce_sum(T.reshape(x, (32, 8, 16)), sums, dim=2)
        ```
    """
    return _view("T.reshape", buffer, shape, None)


def _view(what: str, buffer: Any, shape: Any, dtype: Any) -> Memory:
    if isinstance(buffer, Memory) and buffer.packed is not None:
        raise current().error(f"{what} of {buffer.describe()}", "copy it to a buffer of int8")
    if isinstance(buffer, Memory) and buffer.space == "global":
        sizes = buffer.shape if shape is None else shape
        return tensor_view(buffer, sizes if isinstance(sizes, (tuple, list)) else (sizes,), dtype, what)
    trace = tile_scope(what)
    if not isinstance(buffer, Memory):
        raise TypeMismatchError(f"{what} of {shown(buffer)}, which is no whole buffer", trace.loc)
    buffer.check_usable()
    if buffer.space not in VIEWS:
        raise trace.error(
            f"{what} of {buffer.describe()}", f"it is of tensors and: {', '.join(SPACES[each] for each in VIEWS)}"
        )
    to = buffer.dtype if dtype is None else dtype_of_name(dtype)
    other = buffer.space != "shared" and recasts(buffer.dtype, to)
    if (
        to is not buffer.dtype
        and not other
        and (to.bits != buffer.dtype.bits or "bool" in (to.kind, buffer.dtype.kind))
    ):
        raise TypeMismatchError(
            f"{what} of {buffer.describe()} as {to}",
            trace.loc,
            "a view has elements of as many bits, and none of bool; of a fragment also 32 bits as 8 or 16, or back",
        )
    bits = math.prod(buffer.shape) * buffer.dtype.bits
    count = bits // to.bits
    if bits % to.bits or (other and shape is None):
        *outer, last = buffer.shape
        if last * buffer.dtype.bits % to.bits:
            raise trace.error(f"{what} of {buffer.describe()} as {to}", f"its rows are no whole {to.bits} bits")
        shape = (*outer, last * buffer.dtype.bits // to.bits)
    items = buffer.shape if shape is None else shape if isinstance(shape, (tuple, list)) else (shape,)
    dims = [constant_int(d, f"the shape of {what}") for d in items]
    rest = math.prod(d for d in dims if d != -1)
    if dims.count(-1) == 1 and rest > 0:
        dims[dims.index(-1)] = count // rest
    if not dims or any(d < 1 for d in dims) or math.prod(dims) != count:
        raise trace.error(f"{what} of {buffer.describe()} as {'×'.join(map(str, items))}", f"it has {count} elements")
    kind: Any = VIEWS[buffer.space]
    if kind.rows_stay and dims[0] != buffer.shape[0]:
        raise trace.error(
            f"{what} of {buffer.describe()} as {'×'.join(map(str, dims))}", "its rows are lanes, and stay"
        )
    value = trace.b.emit(kind(buffer.value, tuple(dims), to)).result
    value.name = buffer.value.name
    if buffer.space != "shared":
        return Memory(value, trace)
    return View(value, trace, buffer.base if isinstance(buffer, View) else buffer)
