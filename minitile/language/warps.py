"""Threads of a warp: T.get_lane_idx, T.shfl_*, T.warp_reduce_* and their kin."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from minitile.ir.diagnostics import TypeMismatchError, shown
from minitile.ir.ops import explicit, tile
from minitile.ir.types import i32
from minitile.language import math
from minitile.language.scalars import Expr, Scalar, constant_int, convert, is_scalar, operand_value
from minitile.language.tiles import tile_scope
from minitile.language.tracing.context import current

FULL_WARP = 0xFFFFFFFF


def _thread(what: str) -> Expr:
    return Expr(tile_scope(what).b.emit(tile.ThreadIndex()).result)


def get_lane_idx(warp_size: Any = 32) -> Scalar:
    """The thread's number in its warp of 32 threads: i32. On AMD each half of a wave is a warp.

    Args:
        warp_size: another size of a warp.

    Raises:
        LanguageError: outside T.Kernel; inside T.Parallel.

    Example:
        ```py
        V[tx] = V[tx] * T.get_lane_idx()
        ```
    """
    return _thread("T.get_lane_idx") % warp_size


def get_warp_idx(warp_size: Any = 32) -> Scalar:
    """The number of the thread's warp in the block: i32.

    Args:
        warp_size: another size of a warp.

    Raises:
        LanguageError: outside T.Kernel; inside T.Parallel.

    Example:
        ```py
        I[tx] = T.get_warp_idx()
        ```
    """
    return _thread("T.get_warp_idx") // warp_size


def get_warp_idx_sync(warp_size: Any = 32) -> Scalar:
    """The same as T.get_warp_idx.

    Args:
        warp_size: another size of a warp.
    """
    return get_warp_idx(warp_size)


def get_warp_group_idx(warp_size: Any = 32, warps_per_group: Any = 4) -> Scalar:
    """The number of the thread's warpgroup in the block: i32.

    Args:
        warp_size: another size of a warp.
        warps_per_group: another size of a warpgroup.

    Raises:
        LanguageError: outside T.Kernel; inside T.Parallel.

    Example:
        ```py
        I[tx] = T.get_warp_group_idx()
        ```
    """
    return _thread("T.get_warp_group_idx") // (warp_size * warps_per_group)


def shuffle_elect(thread_extent: Any) -> Scalar:
    """True in one thread of each `thread_extent` threads, the first one.

    Args:
        thread_extent: a Python int; 0: of the block.

    Returns:
        A bool.

    Raises:
        LanguageError: outside T.Kernel; inside T.Parallel.

    Example:
        ```py
        if T.shuffle_elect(32):
            T.atomic_add(V[0], 1.0)
        ```
    """
    extent = constant_int(thread_extent, "thread_extent")
    index = _thread("T.shuffle_elect")
    return (index if extent == 0 else index % extent) == 0


def lane_mask(mask: Any) -> int:
    """The lanes of a warp that take part: a constant of 32 bits."""
    number = constant_int(mask, "the mask of lanes")
    if not 0 < number <= FULL_WARP:
        raise current().error(f"the mask {number:#x}", "32 bits, one a lane")
    return number


def _shuffle(kind: str, value: Any, lane: Any, width: Any, mask: Any, what: str) -> Expr:
    trace = tile_scope(what)
    if not is_scalar(value) or not is_scalar(lane):
        raise TypeMismatchError(f"{what} of {shown(value)}, {shown(lane)}", trace.loc, "it exchanges scalars")
    segment = constant_int(width, f"the width of {what}")
    if segment not in (1, 2, 4, 8, 16, 32, 64):
        raise trace.error(
            f"{what} with width={segment}", "a power of two up to 32; 64 on targets with waves of 64 lanes"
        )
    number = convert(lane, i32).value
    op = explicit.Shuffle(operand_value(value), number, kind, width=segment, mask=lane_mask(mask))
    return Expr(trace.b.emit(op).result)


def shfl_sync(value: Any, srcLane: Any, width: Any = 32, mask: Any = FULL_WARP) -> Scalar:
    """The value of lane `srcLane` of each segment of `width` lanes.

    A warp has 32 threads on every target, also where a wave has 64 lanes. It orders no memory.

    Args:
        value: a scalar of 8 to 64 bits.
        srcLane: a lane of the segment: an integer, run-time or not.
        width: threads of a segment: a power of two up to 32; 64 on gfx942 and gfx950.
        mask: the lanes that take part; not looked at on AMD.

    Raises:
        LanguageError: another width or mask; inside T.Parallel.
        TypeMismatchError: what is no scalar.

    Example:
        ```py
        V[tx] = T.shfl_sync(V[tx], 1)
        ```
    """
    return _shuffle("idx", value, srcLane, width, mask, "T.shfl_sync")


def shfl_xor(value: Any, delta: Any, width: Any = 32, mask: Any = FULL_WARP) -> Scalar:
    """The value of the lane whose number is this one's xor `delta`.

    A warp has 32 threads on every target, also where a wave has 64 lanes. It orders no memory.

    Args:
        value: a scalar of 8 to 64 bits.
        delta: what the lane's number is combined with: an integer, run-time or not.
        width: threads of a segment: a power of two up to 32; 64 on gfx942 and gfx950.
        mask: the lanes that take part; not looked at on AMD.

    Raises:
        LanguageError: another width or mask; inside T.Parallel.
        TypeMismatchError: what is no scalar.

    Example:
        ```py
        V[tx] = T.shfl_xor(V[tx], 1)
        ```
    """
    return _shuffle("bfly", value, delta, width, mask, "T.shfl_xor")


def shfl_down(value: Any, delta: Any, width: Any = 32, mask: Any = FULL_WARP) -> Scalar:
    """The value of the lane `delta` above, or the thread's own at the end of the segment.

    A warp has 32 threads on every target, also where a wave has 64 lanes. It orders no memory.

    Args:
        value: a scalar of 8 to 64 bits.
        delta: how many lanes further: an integer, run-time or not.
        width: threads of a segment: a power of two up to 32; 64 on gfx942 and gfx950.
        mask: the lanes that take part; not looked at on AMD.

    Raises:
        LanguageError: another width or mask; inside T.Parallel.
        TypeMismatchError: what is no scalar.

    Example:
        ```py
        V[tx] = T.shfl_down(V[tx], 1)
        ```
    """
    return _shuffle("down", value, delta, width, mask, "T.shfl_down")


def shfl_up(value: Any, delta: Any, width: Any = 32, mask: Any = FULL_WARP) -> Scalar:
    """The value of the lane `delta` below, or the thread's own at the start of the segment.

    A warp has 32 threads on every target, also where a wave has 64 lanes. It orders no memory.

    Args:
        value: a scalar of 8 to 64 bits.
        delta: how many lanes back: an integer, run-time or not.
        width: threads of a segment: a power of two up to 32; 64 on gfx942 and gfx950.
        mask: the lanes that take part; not looked at on AMD.

    Raises:
        LanguageError: another width or mask; inside T.Parallel.
        TypeMismatchError: what is no scalar.

    Example:
        ```py
        V[tx] = T.shfl_up(V[tx], 1)
        ```
    """
    return _shuffle("up", value, delta, width, mask, "T.shfl_up")


def _warp_reduced(value: Any, combine: Callable[[Any, Any], Any], what: str) -> Expr:
    tile_scope(what)
    reduced = Expr(operand_value(value))
    for delta in (16, 8, 4, 2, 1):
        reduced = combine(reduced, _shuffle("bfly", reduced, delta, 32, FULL_WARP, what))
    return reduced


def warp_reduce_sum(value: Any) -> Scalar:
    """The sum over the warp's 32 threads, in all of them.

    Args:
        value: a number.

    Raises:
        LanguageError: outside T.Kernel; inside T.Parallel.
        TypeMismatchError: what is no such scalar.

    Example:
        ```py
        V[tx] = T.warp_reduce_sum(V[tx])
        ```
    """
    return _warp_reduced(value, operator.add, "T.warp_reduce_sum")


def warp_reduce_max(value: Any) -> Scalar:
    """The maximum over the warp's 32 threads, in all of them.

    Args:
        value: a number.

    Raises:
        LanguageError: outside T.Kernel; inside T.Parallel.
        TypeMismatchError: what is no such scalar.

    Example:
        ```py
        V[tx] = T.warp_reduce_max(V[tx])
        ```
    """
    return _warp_reduced(value, math.max, "T.warp_reduce_max")


def warp_reduce_min(value: Any) -> Scalar:
    """The minimum over the warp's 32 threads, in all of them.

    Args:
        value: a number.

    Raises:
        LanguageError: outside T.Kernel; inside T.Parallel.
        TypeMismatchError: what is no such scalar.

    Example:
        ```py
        V[tx] = T.warp_reduce_min(V[tx])
        ```
    """
    return _warp_reduced(value, math.min, "T.warp_reduce_min")


def warp_reduce_bitand(value: Any) -> Scalar:
    """The bitwise and over the warp's 32 threads, in all of them.

    Args:
        value: an integer.

    Raises:
        LanguageError: outside T.Kernel; inside T.Parallel.
        TypeMismatchError: what is no such scalar.

    Example:
        ```py
        I[tx] = T.warp_reduce_bitand(I[tx])
        ```
    """
    return _warp_reduced(value, operator.and_, "T.warp_reduce_bitand")


def warp_reduce_bitor(value: Any) -> Scalar:
    """The bitwise or over the warp's 32 threads, in all of them.

    Args:
        value: an integer.

    Raises:
        LanguageError: outside T.Kernel; inside T.Parallel.
        TypeMismatchError: what is no such scalar.

    Example:
        ```py
        I[tx] = T.warp_reduce_bitor(I[tx])
        ```
    """
    return _warp_reduced(value, operator.or_, "T.warp_reduce_bitor")
