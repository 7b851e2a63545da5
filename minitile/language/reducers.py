"""Reducers: sums and extrema that many iterations contribute to, and that threads put together once, at the end.

    acc = T.alloc_reducer((32,), T.float32, op="sum")
    T.reducer_init(acc)
    for k in range(n):
        T.copy(A[0, k * 128], tile)
        for i, j in T.Parallel(32, 128):
            T.reducer_update(acc[i], tile[i, j])
    T.finalize_reducer(acc, result)

TileLang's older form is the same: T.fill(acc, 0), `acc[i] += x` or `acc[i] = T.max(acc[i], x)` in T.Parallel, and
T.finalize_reducer(acc) in place.
"""

from __future__ import annotations

from typing import Any

from minitile.ir.builder import constant_of
from minitile.ir.core import Value
from minitile.ir.diagnostics import TypeMismatchError, shown
from minitile.ir.ops import arith, tile
from minitile.ir.types import DType
from minitile.language.memory import Memory, Region, as_region
from minitile.language.scalars import assign_cast, is_scalar
from minitile.language.tiles import alloc_fragment, fill, regions, tile_scope
from minitile.language.tracing.context import Trace, current

KINDS = {"sum": "sum", "max": "max", "min": "min", "bitand": "and", "bitor": "or", "bitxor": "xor"}


class Reducer(Memory):
    """The handle that T.alloc_reducer gives."""

    def __init__(self, value: Value, trace: Trace, kind: str) -> None:
        super().__init__(value, trace)
        self.kind = kind

    def store(self, index: Any, value: Any) -> None:
        """`acc[i] = acc[i] + x`, or another combination of its own kind, is an update."""
        indices = self.indices(index)
        what = f"a store to the reducer {self.value.name or ''}".rstrip()
        if not is_scalar(value):
            raise TypeMismatchError(f"{what} of {shown(value)}", current().loc, "contribute scalars, in T.Parallel")
        new = self._contribution(indices, assign_cast(value, self.dtype, what))
        if new is None:
            raise current().error(
                f"{what} that is no update", f"a reducer takes contributions by {self.kind}: T.reducer_update"
            )
        emit_update(self, indices, new)

    def _contribution(self, indices: tuple[Value, ...], value: Value) -> Value | None:
        op = value.op
        if not isinstance(op, arith.COMBINE[self.kind]):
            return None
        for old, new in ((op.a, op.b), (op.b, op.a)):
            load = old.op
            if isinstance(load, tile.Load) and load.mem is self.value and _same(load.indices, indices):
                return new
        return None


def _same(a: tuple[Value, ...], b: tuple[Value, ...]) -> bool:
    return all(
        x is y or (constant_of(x) is not None and constant_of(x) == constant_of(y)) for x, y in zip(a, b, strict=True)
    )


def emit_update(reducer: Reducer, indices: tuple[Value, ...], value: Value) -> None:
    """One contribution of each element; outside T.Parallel, one."""
    trace = current()
    if trace.parallel:
        trace.b.emit(tile.ReducerUpdate(reducer.value, indices, value, kind=reducer.kind))
        return
    points = (None,) * reducer.ndim
    old = trace.b.emit(tile.Load(reducer.value, indices, shape=(), dims=points)).result
    trace.b.emit(
        tile.Store(reducer.value, indices, trace.b.value(arith.COMBINE[reducer.kind](old, value)), dims=points)
    )


def alloc_reducer(shape: Any, dtype: Any, op: str = "sum", replication: str | None = None) -> Reducer:
    """Allocates a reducer: a tile that many iterations contribute to, and that threads put together once, at the end.

    `acc[i] += x` in T.Parallel is an update as well.

    Args:
        shape: the sizes: Python ints.
        dtype: a number; integers for the bitwise ones.
        op: "sum", "max", "min", "bitand", "bitor" or "bitxor".
        replication: TileLang's; not looked at.

    Raises:
        LanguageError: another op, another shape; inside T.Parallel.
        TypeMismatchError: a bitwise op on floats.

    Example:
        ```py
        acc = T.alloc_reducer((32,), T.float32, op="sum")
        T.reducer_init(acc)
        for k in T.serial(T.ceildiv(N, 128)):
            T.copy(X[bx * 32, k * 128], x)
            for i, j in T.Parallel(32, 128):
                T.reducer_update(acc[i], x[i, j])
        T.finalize_reducer(acc, row)
        T.copy(row, V[bx * 32])
        ```
    """
    trace = tile_scope("T.alloc_reducer")
    if op not in KINDS:
        raise trace.error(f"T.alloc_reducer with op={op!r}", f"ops are {', '.join(KINDS)}")
    memory = alloc_fragment(shape, dtype)
    if memory.dtype.is_float and KINDS[op] in ("and", "or", "xor"):
        raise TypeMismatchError(f"T.alloc_reducer: {op} of {memory.dtype}", trace.loc, "bitwise ops are for integers")
    return Reducer(memory.value, trace, KINDS[op])


def _reducer(x: Any, what: str) -> Reducer:
    if not isinstance(x, Reducer):
        raise TypeMismatchError(f"{what} of {shown(x)}", current().loc, "it takes what T.alloc_reducer gave")
    return x


def reducer_init(reducer: Any, value: Any = None) -> None:
    """Starts a reducer: T.fill and T.clear do as well.

    Args:
        reducer: what T.alloc_reducer gave.
        value: None: nothing has been contributed; else a scalar that counts once for each element.

    Raises:
        TypeMismatchError: what is no reducer.

    Example:
        ```py
        acc = T.alloc_reducer((32,), T.float32, op="max")
        T.reducer_init(acc, 0.0)
        T.finalize_reducer(acc, row)
        T.copy(row, V[bx * 32])
        ```
    """
    mine = _reducer(reducer, "T.reducer_init")
    fill(mine, neutral(mine.kind, mine.dtype) if value is None else value)


def neutral(kind: str, dtype: DType) -> Any:
    """What contributes nothing."""
    from minitile.language.math import max_value, min_value

    if kind in ("max", "min"):
        if dtype.is_float:
            return -float("inf") if kind == "max" else float("inf")
        return min_value(dtype) if kind == "max" else max_value(dtype)
    return -1 if kind == "and" and dtype.signed else max_value(dtype) if kind == "and" else 0


@regions("element")
def reducer_update(element: Any, value: Any) -> None:
    """A contribution to an element; in T.Parallel once for each index combination.

    Args:
        element: `acc[i, …]`, with indices of T.Parallel, or the same for all elements.
        value: a scalar, cast as by a store.

    Raises:
        LanguageError: no element.
        TypeMismatchError: what is no reducer; a value that is no scalar or not cast silently.

    Example:
        ```py
        acc = T.alloc_reducer((1,), T.float32, op="max")
        T.reducer_init(acc)
        for i in T.Parallel(256):
            T.reducer_update(acc[0], V[i])
        T.finalize_reducer(acc)
        V[bx] = acc[0]
        ```
    """
    trace = current()
    if not isinstance(element, Region) or not element.start:
        raise trace.error("T.reducer_update of no element", "give one: T.reducer_update(acc[i], value)")
    reducer = _reducer(element.memory, "T.reducer_update")
    if not is_scalar(value):
        raise TypeMismatchError(f"T.reducer_update by {shown(value)}", trace.loc, "contribute scalars, in T.Parallel")
    emit_update(reducer, element.offsets, assign_cast(value, reducer.dtype, "T.reducer_update"))


@regions("dst")
def finalize_reducer(reducer: Any, dst: Any = None, batch: int = 1) -> None:
    """All contributions are in: the threads put them together.

    Args:
        reducer: what T.alloc_reducer gave.
        dst: a fragment of the same shape and dtype for the results; None: they are read from the reducer itself.
        batch: not looked at.

    Raises:
        TypeMismatchError: what is no reducer; another fragment.
        LanguageError: inside T.Parallel.

    Example:
        ```py
        acc = T.alloc_reducer((32,), T.float32)
        T.clear(acc)
        for i, j in T.Parallel(32, 128):
            acc[i] += X[bx * 32 + i, j]
        T.finalize_reducer(acc, row)
        T.copy(row, V[bx * 32])
        ```
    """
    trace = tile_scope("T.finalize_reducer")
    mine = _reducer(reducer, "T.finalize_reducer")
    if dst is None:
        trace.b.emit(tile.FinalizeReducer(mine.value))
        return
    to = as_region(dst, "T.finalize_reducer's dst").memory
    if to.space != "fragment" or to.static_shape != mine.static_shape or to.dtype is not mine.dtype:
        raise TypeMismatchError(
            f"T.finalize_reducer from {mine.describe()} to {to.describe()}",
            trace.loc,
            "a fragment of the same shape and dtype takes the results",
        )
    trace.b.emit(tile.FinalizeReducer(mine.value, dst=to.value))
