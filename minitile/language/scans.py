"""Scans of a tile along a dimension: T.cumsum, T.cummax, T.cummin."""

from __future__ import annotations

from typing import Any, Protocol

from minitile.ir.diagnostics import TypeMismatchError
from minitile.ir.ops import tile
from minitile.ir.ops.scan import Scan
from minitile.language.memory import as_region
from minitile.language.scalars import check_store_cast, constant_int
from minitile.language.tiles import regions, tile_scope


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
