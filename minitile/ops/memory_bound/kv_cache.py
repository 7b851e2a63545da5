"""KV cache in pages: the keys and values of new tokens go to their slots.

A cache is pages × page size × heads × d; a slot is a place in it, page · page size + offset, and holds a token's heads
side by side. Keys and values go in one launch, whose threads have vectors of both on their way. A token's slot is
given, or is found by its sequence and its position through the sequence's row of the page table.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import minitile.language as T
from minitile.driver.dispatch import for_users
from minitile.driver.jit import Kernel, kernel
from minitile.ir.types import DType
from minitile.ops.memory_bound.arguments import INDICES, VECTOR, Argument, Tile, argument, tile_for
from minitile.ops.memory_bound.launches import in_order
from minitile.ops.operands import refused

THREADS = 256
VECTORS = 1  # of keys and of values that a thread moves


@lru_cache
def append_kernel(dtype: DType, slots: bool) -> Kernel:
    """Keys[slot of s] = K[s], and values likewise; tokens without a slot in the cache are left out. Table and Positions
    are the page table, N × L, and the tokens' positions, and Sequences are their rows of the table; or with `slots` all
    three are the tokens' slots."""

    @kernel
    def append(
        K: T.Tensor(("S", "C"), dtype),
        V: T.Tensor(("S", "C"), dtype),
        Table: T.Tensor(("S",) if slots else ("N", "L"), None),
        Positions: T.Tensor(("S",), None),
        Sequences: T.Tensor(("S",), None),
        Keys: T.Tensor(("P", "Z", "C"), dtype),
        Values: T.Tensor(("P", "Z", "C"), dtype),
        rows=2,
        columns=1024,
        threads=256,
    ):
        S, C = K.shape
        page_size = Keys.shape[1]
        across = T.ceildiv(C, columns)

        def place_of(s):
            """The page, -1 for none, and the place in it."""
            if slots:
                slot = Table[s]
                page = slot // page_size
                return page, slot - page * page_size
            sequence, position = Sequences[s], T.cast(Positions[s], T.int32)
            if 0 <= sequence < Table.shape[0] and 0 <= position < Table.shape[1] * page_size:
                return T.cast(Table[sequence, position // page_size], T.int64), position % page_size
            return T.int64(-1), position % page_size

        with T.Kernel(across * T.ceildiv(S, rows), threads=threads) as block:
            row, column = block // across * rows, block % across * columns
            in_order()
            for i, j in T.Parallel(rows, columns):
                if row + i < S:
                    key, value = K[row + i, column + j], V[row + i, column + j]
                    page, offset = place_of(row + i)
                    Keys[page, offset, column + j] = key
                    Values[page, offset, column + j] = value

    return append


@lru_cache
def append_plan(columns: int, size: int) -> Tile:
    """For tokens of so many elements of `size` bytes in all heads. To sweep: VECTORS 1, 2, 4; THREADS 128, 256, 512."""
    vector = VECTOR // size
    return tile_for(columns, THREADS * VECTORS * vector, THREADS, vector)


@for_users
def kv_cache_append(
    k: Any,
    v: Any,
    k_cache: Any,
    v_cache: Any,
    slots: Any = None,
    *,
    page_table: Any = None,
    positions: Any = None,
    sequences: Any = None,
    plan: Tile | None = None,
) -> None:
    """Writes the keys and values of new tokens to their slots of a cache in pages.

    Args:
        k: […, heads, d], of any dtype, of torch, CuPy, or NumPy (then the simulator computes); leading dimensions are
            tokens.
        v: of k's shape and dtype.
        k_cache: pages × page size × heads × d of k's dtype, changed in place; a token's heads lie side by side.
        v_cache: likewise, of k_cache's shape.
        slots: of each token, int32 or int64: page · page size + offset. Tokens whose slot the cache has not, such as
            -1, are left out. Slots of tokens differ.
        page_table: instead of `slots`, the pages of each sequence in order, sequences × most pages, int32 or int64;
            with it the next two.
        positions: of each token in its sequence, from 0. Tokens whose position the table has not are left out.
        sequences: of each token the row of the page table.
        plan: instead of the one that `append_plan` chooses.

    Raises:
        LaunchArgumentError: arguments that do not fit.

    Example:
        ```py
        mt.ops.kv_cache_append(k, v, k_cache, v_cache, slots)
        ```
    """
    key = argument("k", k, None)
    value = key.like("v", v)
    if len(key.shape) < 3:
        raise refused(f"k has shape {key.shape}", "it is […, heads, d]: leading dimensions are tokens")
    keys = _cache("k_cache", k_cache, key)
    values = _cache("v_cache", v_cache, key)
    if keys.shape != values.shape:
        raise refused(f"k_cache has shape {keys.shape} and v_cache {values.shape}")
    if k_cache is v_cache:
        raise refused("k_cache and v_cache are one array", "keys and values have a cache each")
    tokens = key.shape[:-2]
    count, columns = math.prod(tokens), math.prod(key.shape[-2:])
    if slots is not None:
        if any(x is not None for x in (page_table, positions, sequences)):
            raise refused("slots, and more that says where tokens go", "pass slots, or page_table with the others")
        where = [_of_tokens("slots", slots, key)] * 3
    elif page_table is None or positions is None or sequences is None:
        raise refused("nothing says where tokens go", "pass slots, or page_table, positions and sequences")
    else:
        table = argument("page_table", page_table, INDICES)
        key.together("page_table", table.device)
        if len(table.shape) != 2:
            raise refused(f"page_table has shape {table.shape}", "it is sequences × pages of one")
        found = [_of_tokens(name, x, key) for name, x in (("positions", positions), ("sequences", sequences))]
        where = [table.given, *found]
    if count and columns and math.prod(keys.shape):
        caches = [cache.view(*keys.shape[:2], columns) for cache in (keys, values)]
        new = [x.view(count, columns) for x in (key, value)]
        chosen = plan or append_plan(columns, key.dtype.bytes)
        append = append_kernel(key.dtype, slots is not None)
        append(*new, *where, *caches, **chosen.constants)


def _cache(name: str, cache: Any, key: Argument) -> Argument:
    """A cache, which is changed in place."""
    given = argument(name, cache, (key.dtype.name,))
    key.together(name, given.device)
    if len(given.shape) != 4 or given.shape[2:] != key.shape[-2:]:
        raise refused(f"{name} has shape {given.shape}", f"it is pages × page size × {key.shape[-2]} × {key.shape[-1]}")
    heads, width = given.shape[2:]
    if (heads > 1 and given.strides[2] != width) or (width > 1 and given.strides[3] != 1):
        raise refused(f"{name} has gaps between a token's elements", "they must lie side by side, heads × d")
    return given


def _of_tokens(name: str, x: Any, key: Argument) -> Any:
    """A number for each token, as a vector."""
    given = argument(name, x, INDICES)
    key.together(name, given.device)
    if given.shape != key.shape[:-2]:
        raise refused(f"{name} has shape {given.shape}", f"it is {key.shape[:-2]}, a number for each token of k")
    return given.view(math.prod(given.shape))
