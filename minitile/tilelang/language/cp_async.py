"""TileLang's copies of single threads, T.ptx_cp_async, and what waits for them.

Copies that an arrival at a barrier follows (T.cp_async_barrier_noinc) are in flight until then. Others go through
registers, in accesses as wide as alignment allows, and are over when the next statement runs: so groups need no waiting
for. Where copies are to run ahead, T.copy in a T.Pipelined loop does that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from minitile.ir.diagnostics import TypeMismatchError, shown
from minitile.ir.ops import explicit
from minitile.language.explicit import barrier_of
from minitile.language.memory import Region, as_region
from minitile.language.scalars import constant_int, truth
from minitile.language.tiles import regions, tile_scope


@dataclass(frozen=True, eq=False)
class Pointer:
    """What T.access_ptr gives: the place of an element."""

    region: Region


@regions("base")
def access_ptr(
    base: Any,
    access_type: Any = "r",
    *extents: Any,
    offset: Any = 0,
    extent: Any = None,
    ignore_last_ndim: int = 0,
) -> Pointer:
    """The place of an element, such as KV[i, j], for T.ptx_cp_async. Raises LanguageError with an offset."""
    trace = tile_scope("T.access_ptr")
    if offset != 0 or ignore_last_ndim:
        raise trace.error("T.access_ptr with an offset", "index the element that it is of")
    return Pointer(as_region(base, "T.access_ptr's base"))


def ptx_cp_async(dst: Any, src: Any, num_elems: Any, predicate: Any = None) -> None:
    """Copies neighbours, along the last dimension, from a tensor to shared memory, each thread its own; zeros where the
    predicate does not hold. Raises TypeMismatchError for what is no T.access_ptr, or of another dtype."""
    trace = tile_scope("T.ptx_cp_async")
    for x in (dst, src):
        if not isinstance(x, Pointer):
            raise TypeMismatchError(f"T.ptx_cp_async of {shown(x)}, which is no T.access_ptr", trace.loc)
    to, of, count = dst.region, src.region, constant_int(num_elems, "num_elems")
    if to.memory.space != "shared" or of.memory.space != "global" or to.memory.dtype is not of.memory.dtype:
        raise TypeMismatchError(
            f"T.ptx_cp_async from {of.memory.describe()} to {to.memory.describe()}",
            trace.loc,
            "from a tensor to a shared buffer of the same dtype",
        )
    none: tuple[None, ...] = (None,)
    copy = explicit.ElementCopy(
        of.memory.value,
        of.offsets,
        to.memory.value,
        to.offsets,
        count,
        none * of.memory.ndim,
        none * to.memory.ndim,
        enable=None if predicate is None else truth(predicate),
    )
    trace.copies.append(trace.b.emit(copy))


def cp_async_barrier_noinc(barrier: Any) -> None:
    """An arrival of each thread, when its copies so far have come, which are in flight until then."""
    trace = tile_scope("T.cp_async_barrier_noinc")
    bar = barrier_of(barrier, "T.cp_async_barrier_noinc")
    words = bar.of.value
    for copy in trace.copies:
        copy.barriers = words
    trace.copies.clear()
    trace.b.emit(explicit.BarrierArrive(words, bar.index, copies=True))


def ptx_commit_group() -> None:
    """Nothing: T.ptx_cp_async has copied."""


def ptx_wait_group(num: Any) -> None:
    """Nothing: T.ptx_cp_async has copied."""
