"""Where a thread stands: T.get_thread_binding, T.get_block_binding and their kin."""

from __future__ import annotations

import math

from minitile.ir.ops import arith, tile
from minitile.language.scalars import (
    Expr,
    Scalar,
    constant_int,
)
from minitile.language.tiles import tile_scope
from minitile.language.tracing.context import current


def get_thread_binding(dim: int = 0) -> Scalar:
    """The thread's index in its block. In a dimension of one thread it is 0.

    Args:
        dim: 0 (x, which goes fastest), 1 (y) or 2 (z). The launch itself has one dimension: the index is computed.

    Returns:
        i32, or the Python int 0.

    Raises:
        LanguageError: another dimension; outside T.Kernel; inside T.Parallel.

    Example:
        ```py
        V[bx * 128 + T.get_thread_binding()] = 1.0
        ```
    """
    trace = tile_scope("T.get_thread_binding")
    if constant_int(dim, "dim") not in (0, 1, 2):
        raise trace.error(f"T.get_thread_binding({dim}): dimensions are 0, 1, 2")
    size, inner = trace.block[dim], math.prod(trace.block[:dim])
    if size == 1:
        return 0
    index = trace.b.emit(tile.ThreadIndex()).result
    if inner > 1:
        index = trace.b.value(arith.FloorDiv(index, trace.b.constant(inner)))
    if math.prod(trace.block[dim + 1 :]) > 1:
        index = trace.b.value(arith.FloorMod(index, trace.b.constant(size)))
    return Expr(index)


def get_thread_bindings() -> list[Scalar]:
    """The thread's index in x, y and z: [T.get_thread_binding(0), …(1), …(2)].

    Raises:
        LanguageError: outside T.Kernel; inside T.Parallel.

    Example:
        ```py
        i, j, k = T.get_thread_bindings()
        V[bx * 128 + i] = 1.0
        ```
    """
    return [get_thread_binding(dim) for dim in range(3)]


def get_thread_extent(dim: int = 0) -> int:
    """How many threads the block has in a dimension: a Python int.

    Args:
        dim: 0 (x), 1 (y) or 2 (z).

    Raises:
        LanguageError: another dimension; outside T.Kernel; inside T.Parallel.

    Example:
        ```py
        for i in range(tx, 256, T.get_thread_extent()):
            V[i] = 0.0
        ```
    """
    trace = tile_scope("T.get_thread_extent")
    if constant_int(dim, "dim") not in (0, 1, 2):
        raise trace.error(f"T.get_thread_extent({dim}): dimensions are 0, 1, 2")
    if trace.attrs.get("resources_are_hints"):
        trace.attrs["counts_threads"] = True
    return trace.block[dim]


def get_thread_extents() -> list[int]:
    """How many threads the block has in x, y and z.

    Raises:
        LanguageError: outside T.Kernel; inside T.Parallel.

    Example:
        ```py
        x_threads, y_threads, z_threads = T.get_thread_extents()
        V[bx * x_threads + tx] = 1.0
        ```
    """
    return [get_thread_extent(dim) for dim in range(3)]


def get_block_binding(dim: int = 0) -> Scalar:
    """The block's index in the grid: i32.

    Args:
        dim: 0 (x), 1 (y) or 2 (z).

    Raises:
        LanguageError: another dimension; outside T.Kernel.

    Example:
        ```py
        V[T.get_block_binding(0) * 128 + tx] = 1.0
        ```
    """
    trace = current()
    if trace.launch is None:
        raise trace.error("T.get_block_binding outside T.Kernel")
    if constant_int(dim, "dim") not in (0, 1, 2):
        raise trace.error(f"T.get_block_binding({dim}): dimensions are 0, 1, 2")
    return Expr(trace.launch.body.args[dim])


def get_block_bindings() -> list[Scalar]:
    """The block's index in x, y and z.

    Raises:
        LanguageError: outside T.Kernel.

    Example:
        ```py
        x_block, y_block, z_block = T.get_block_bindings()
        V[x_block * 128 + tx] = 1.0
        ```
    """
    return [get_block_binding(dim) for dim in range(3)]
