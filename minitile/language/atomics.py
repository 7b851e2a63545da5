"""Atomics on elements and tiles: T.atomic_add, T.atomic_max, …; T.atomic_load and T.atomic_store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from minitile.ir.core import Value
from minitile.ir.diagnostics import TypeMismatchError, shown
from minitile.ir.ops import control, tile
from minitile.ir.ops.fences import MemoryFence
from minitile.ir.types import I32
from minitile.language.memory import (
    Memory,
    Region,
    as_region,
    first_of_run,
    index_in_run,
    load_of_run,
    match_extents,
)
from minitile.language.scalars import (
    Expr,
    Scalar,
    assign_cast,
    check_store_cast,
    is_scalar,
)
from minitile.language.tiles import regions, tile_scope
from minitile.language.tracing.context import current


class Atomic(Protocol):
    """T.atomic_add and its like."""

    def __call__(
        self, dst: Any, value: Any, memory_order: str | None = None, return_prev: bool = False
    ) -> Scalar | None: ...


def _atomic(kind: str, what: str, more: str = "") -> Atomic:
    @regions("dst", slices=("value",))
    def function(dst: Any, value: Any, memory_order: str | None = None, return_prev: bool = False) -> Scalar | None:
        return _emit_atomic(kind, dst, value, f"T.{function.__name__}", return_prev)

    function.__name__ = function.__qualname__ = f"atomic_{kind}"
    whole = kind in ("and", "or", "xor")
    x, one = ("I", "1") if whole else ("V", "1.0")
    function.__doc__ = f"""dst = {what}, atomically, relaxed, for the whole GPU.{more}

An element takes a scalar, in every thread that comes there: outside T.Parallel that is each thread of the block. A tile
takes a tile.

Args:
    dst: an element of a tensor or a shared buffer, or a region of one.{" Integers." if whole else ""}
    value: a scalar, or a tile (a fragment or a shared buffer) of the region's shape.
    memory_order: not looked at: relaxed.
    return_prev: whether to return the old value, of an element only.

Returns:
    The old value with `return_prev`, else None.

Raises:
    LanguageError: other memory, a tile with `return_prev`, a scalar for a region.
    TypeMismatchError: dtypes that are not cast silently.
    TargetError: a dtype that the target has no atomics for.

Example:
    ```py
    T.atomic_{kind}({x}[tx], {one})
    old = T.atomic_{kind}({x}[tx], {one}, return_prev=True)
    ```
"""
    return function


def _emit_atomic(kind: str, dst: Any, value: Any, what: str, return_prev: bool) -> Expr | None:
    trace = current()
    target = as_region(dst, f"{what}'s destination")
    mem = target.memory
    if mem.space not in ("global", "shared"):
        raise trace.error(f"{what} on {mem.describe()}", "atomics are for tensors and shared buffers")
    if isinstance(value, (Memory, Region)):
        if return_prev:
            raise trace.error(f"{what} of a tile returns nothing", "use a loop over elements")
        _atomic_tile(kind, target, as_region(value, f"{what}'s value"), what)
        return None
    if not is_scalar(value):
        raise TypeMismatchError(f"{what} of {shown(value)}, which is no scalar and no tile", trace.loc)
    if not target.start:
        raise trace.error(f"{what} of a scalar to {target.describe()}", "index one element, or give a tile as value")
    number = assign_cast(value, mem.dtype, what)
    op = tile.AtomicRmw(mem.value, target.offsets, number, kind=kind, dims=(None,) * mem.ndim)
    old = trace.b.emit(op).result
    return Expr(old) if return_prev else None


def _atomic_tile(kind: str, target: Region, value: Region, what: str) -> None:
    """A tile of atomics is a parallel loop of single ones."""
    trace = tile_scope(what)
    shape = match_extents(value, target, what)
    check_store_cast(value.memory.dtype, target.memory.dtype, what)
    loop = control.Parallel(extents=shape)
    ivs = [loop.body.add_arg(I32) for _ in shape]
    with trace.b.inside(loop.body):

        def element(r: Region) -> tuple[Value, ...]:
            return tuple(
                o if t is None else trace.b.add(o, trace.b.cast(ivs[t], o.dtype))
                for o, t in zip(r.offsets, r.dims(len(shape)), strict=True)
            )

        points: tuple[None, ...] = (None,) * value.memory.ndim
        x = trace.b.emit(tile.Load(value.memory.value, element(value), shape=(), dims=points)).result
        x = trace.b.cast(x, target.memory.dtype)
        points = (None,) * target.memory.ndim
        trace.b.emit(tile.AtomicRmw(target.memory.value, element(target), x, kind=kind, dims=points))
        trace.b.emit(control.Yield(()))
    trace.b.emit(loop)


atomic_add = _atomic("add", "dst + value")
_NAN = " A value that is NaN changes nothing; a NaN in dst may stay, as may a zero of the other sign."
atomic_max = _atomic("max", "max(dst, value)", _NAN)
atomic_min = _atomic("min", "min(dst, value)", _NAN)
atomic_and = _atomic("and", "dst & value")
atomic_or = _atomic("or", "dst | value")
atomic_xor = _atomic("xor", "dst ^ value")
atomic_exch = _atomic("exch", "value")


def _vector(count: int) -> Callable[..., None]:
    @regions("dst", "value")
    def function(dst: Any, value: Any, return_prev: bool = False) -> None:
        _add_run(dst, value, count, f"T.{function.__name__}", return_prev)

    function.__name__ = function.__qualname__ = f"atomic_addx{count}"
    function.__doc__ = f"""Adds {count} neighbours to {count} others, each atomic by itself: relaxed, for the whole GPU.

In code of single threads it is one instruction where the target has it for the dtype and the place is aligned for sure.
Elsewhere, and in T.Parallel, it is {count} of T.atomic_add.

Args:
    dst: the first element, of a tensor or a shared buffer, or a slice of {count} along the last dimension.
    value: the same of any memory; cast as by a store.
    return_prev: not supported.

Raises:
    LanguageError: other memory, a slice of another size, return_prev.
    TypeMismatchError: dtypes that are not cast silently.
    TargetError: a dtype that the target has no atomics for.

Example:
    ```py
    T.atomic_addx{count}(V[tx], V[tx + 128])
    ```
"""
    return function


def _add_run(dst: Any, value: Any, count: int, what: str, return_prev: bool) -> None:
    trace = current()
    if return_prev:
        raise trace.error(f"{what} with return_prev", f"use T.atomic_add(…, return_prev=True) {count} times")
    target, source = (first_of_run(x, count, f"{what}'s {n}") for x, n in ((dst, "destination"), (value, "value")))
    for n in range(count):
        place = tuple(map(Expr, index_in_run(target, n)))
        _emit_atomic("add", target.memory.region(place), Expr(load_of_run(source, n)), what, False)


atomic_addx2 = _vector(2)
atomic_addx4 = _vector(4)


@regions("src")
def atomic_load(src: Any, memory_order: str | None = "seq_cst") -> Scalar:
    """An element that other threads, of other blocks as well, may be writing by atomics: what it is now.

    Each thread that comes there loads, and two may find different values. Half of what one T.atomic_store has written
    is never seen, and no data race is reported between this and other atomics.

    Args:
        src: an element of a tensor or a shared buffer, of 8 to 64 bits.
        memory_order: "relaxed" or None: it orders nothing else; "acquire" (also "acq_rel" and "seq_cst", TileLang's
            default): T.fence("gpu") behind it, so that what was written before a T.atomic_store with "release", whose
            value this is, is seen from here on.

    Returns:
        A scalar of the element's dtype.

    Raises:
        LanguageError: other memory, a region, another order; an order inside T.Parallel.
        TargetError: bool and fp8.

    Example:
        ```py
        if tx == 0:
            while T.atomic_load(I[bx], "relaxed") == 0:
                pass
        T.fence("gpu")
        ```
    """
    trace = current()
    fences = _fences("T.atomic_load", memory_order, "acquire")
    source = as_region(src, "T.atomic_load's source")
    if not source.start or source.memory.space not in ("global", "shared"):
        raise trace.error(f"T.atomic_load of {source.describe()}", "index one element of a tensor or a shared buffer")
    dtype = source.memory.dtype
    number = trace.b.constant(0.0 if dtype.is_float else False if dtype.kind == "bool" else 0, dtype)
    dims = (None,) * source.memory.ndim
    found = trace.b.emit(tile.AtomicRmw(source.memory.value, source.offsets, number, kind="load", dims=dims)).result
    if fences:
        trace.b.emit(MemoryFence("gpu"))
    return Expr(found)


@regions("dst", slices=("src",))
def atomic_store(dst: Any, src: Any, memory_order: str | None = "seq_cst") -> None:
    """Stores a scalar in one piece, where other threads, of other blocks as well, may look by atomics.

    Args:
        dst: an element of a tensor or a shared buffer, of 8 to 64 bits; in every thread that comes there.
        src: a scalar, cast as by a store.
        memory_order: "relaxed" or None: it orders nothing else; "release" (also "acq_rel" and "seq_cst", TileLang's
            default): T.fence("gpu") in front of it, so that who sees the value by a T.atomic_load with "acquire" sees
            what this thread has written before, and what others have before a T.sync_threads() in front.

    Raises:
        LanguageError: other memory, a region, another order; an order inside T.Parallel.
        TypeMismatchError: what is no scalar, or not cast silently.
        TargetError: bool and fp8.

    Example:
        ```py
        T.sync_threads()
        if tx == 0:
            T.atomic_store(I[bx], 1, "release")
        ```
    """
    if _fences("T.atomic_store", memory_order, "release"):
        current().b.emit(MemoryFence("gpu"))
    if isinstance(src, (Memory, Region)):
        raise TypeMismatchError("T.atomic_store of a tile", current().loc, "store element by element")
    _emit_atomic("store", dst, src, "T.atomic_store", False)


def _fences(what: str, memory_order: str | None, own: str) -> bool:
    """Whether an order takes a fence."""
    if memory_order in (None, "relaxed"):
        return False
    if memory_order not in (own, "acq_rel", "seq_cst"):
        raise current().error(f"{what}: memory_order={memory_order!r}", f"relaxed, {own}, acq_rel or seq_cst")
    tile_scope(f'{what} with memory_order="{memory_order}"')
    return True
