"""Attention forward, one kernel for all forms: O = softmax(scale · Q · Kᵀ) · V over the keys that each query sees.

A block has block_M rows: so many queries, each with the `packed` heads that share a head of keys (GQA, MQA). Keys and
values pass by in blocks of block_N, with running maxima and sums (online softmax). The queries are the last of the N
keys: query s of S has the place s + N - S among them, and sees from `left` places before its own to `right` behind it.
A tile visits the blocks of keys that some row sees; where all rows see all of a block, none of its elements is tested:
the compiler puts the mask under a branch (transforms/canonicalize/version_masks.py).

    keys        0                                          N
    first row   . . . . x x x x x x x x x x . . . . . . . .
    last row    . . . . . . . x x x x x x x x x x . . . . .
    blocks            |masked|  full |masked|
                      begin                 end

What a row does not see counts as -∞. Maxima begin at a finite number below all scores, so that a row that has seen
nothing yet needs no test: exp2(-∞) is 0, and what is 0 to the end gives 0.
"""

from __future__ import annotations

from typing import Any

import minitile.language as T
from minitile.driver.jit import kernel
from minitile.ops.memory_bound.launches import in_order, room_for

LOWEST = -(2.0**99)  # below all scores
PARTS = 8  # of a row's sum, every eighth weight each, which threads put together in the end alone
LN_2 = 0.6931471805599453
LOG2_E = 1.4426950408889634


def unsigned(x: Any) -> Any:
    """In 32 bits: divisions by numbers of run time are quicker so."""
    return T.cast(x, T.uint32)


def there_and_back(number: Any, blocks: int, tiles: Any) -> Any:
    """Which of so many tiles a persistent block takes, whose `number` goes up by `blocks`: in every second turn the
    last block takes the first tile. Where tiles grow and shrink from group to group, all blocks get as many keys."""
    first = number // blocks * blocks
    behind = T.min(tiles - first, blocks) - 1 - (number - first)
    return T.if_then_else(number // blocks % 2 == 0, number, first + behind)


@kernel
def attention_forward(
    Q: T.Tensor(("B", "H", "S", "G", "D"), None),
    K: T.Tensor(("B", "H", "N", "D"), None),
    V: T.Tensor(("B", "H", "N", "E"), None),
    O: T.Tensor(("B", "H", "S", "G", "E"), None),  # noqa: E741 - its name in every paper
    Lse: T.Tensor(("B", "H", "S", "G"), T.float32) | None,
    Sinks: T.Tensor(("H", "G"), None) | None,
    QLengths: T.Tensor(("B",), None) | None,
    KLengths: T.Tensor(("B",), None) | None,
    factor: T.float32,
    inner: T.float32,
    left: T.int32,
    right: T.int32,
    side_by_side: T.int32,
    D=128,
    E=128,
    bounds=(False, False),
    capped=False,
    packed=1,
    whole=False,
    block_M=128,
    block_N=128,
    num_stages=2,
    threads=256,
    held=False,
    growth=0.0,
    persistent=0,
    together=0,
):
    """H heads of keys with G heads of queries each; `whole`: all of these are in one tile. A weight is
    exp2(factor · score), capped: of tanh(inner · score). bounds: whether `left` and `right` count. So many heads are
    worked on `side_by_side`, whose keys the caches hold. held: the queries stay in registers. growth: by so much, in
    powers of 2, a maximum may be exceeded before it is replaced, and what has been summed up is scaled anew; no weight
    is greater than 2 ** growth. persistent: so many blocks take tile after tile; 0: a block for each tile. together: so
    many blocks are to have room on a multiprocessor."""
    B, H, S, G, _ = Q.shape
    rows = block_M // packed  # queries of a tile
    parts, tiles = 1 if whole else T.ceildiv(G, packed), T.ceildiv(S, rows)
    groups = T.ceildiv(B * H * parts, side_by_side)
    grid = (side_by_side * tiles * groups,) if persistent else (side_by_side, tiles, groups)
    with T.Kernel(*grid, threads=threads, persistent=persistent) as place:
        in_order()
        room_for(together)
        if persistent:
            number = there_and_back(unsigned(place), persistent, unsigned(grid[0]))
            line = number // unsigned(side_by_side)
            beside, tile, behind = number % unsigned(side_by_side), line % unsigned(tiles), line // unsigned(tiles)
            tile = T.cast(tile, T.int32)
        else:
            beside, tile, behind = place
        which = unsigned(behind) * unsigned(side_by_side) + unsigned(beside)
        if bounds[1]:  # tiles of most keys first, so that the short ones fill the gaps at the end
            last = tiles - 1 - tile
            tile = T.if_then_else((unsigned(groups) - behind) % 2 == 0, tile, last) if persistent else last
        first = T.max(tile * rows, 0)  # bounds that the compiler sees: O goes by TMA
        of_k, g = which, 0
        if not whole:
            of_k, g = which // unsigned(parts), T.max(T.cast(which % unsigned(parts), T.int32), 0) * packed
        batch, head = T.cast(of_k // unsigned(H), T.int32), T.cast(of_k % unsigned(H), T.int32)
        batch, head = T.max(batch, 0), T.max(head, 0)

        queries = S if QLengths is None else T.clamp(T.cast(QLengths[batch], T.int32), 0, S)
        keys = K.shape[2] if KLengths is None else T.clamp(T.cast(KLengths[batch], T.int32), 0, K.shape[2])
        place = first + keys - queries  # of the first row
        begin, end = 0, T.ceildiv(keys, block_N)
        if bounds[0]:
            begin = T.max(place - left, 0) // block_N
        if bounds[1]:
            end = T.min(end, T.ceildiv(T.max(place + rows + right, 0), block_N))

        Q_shared = T.alloc_shared((block_M, D), Q.dtype)
        K_shared = T.alloc_shared((block_N, D), K.dtype)
        V_shared = T.alloc_shared((block_N, E), V.dtype)
        scores = T.alloc_fragment((block_M, block_N), T.float32)
        weights = T.alloc_fragment((block_M, block_N), Q.dtype)
        out = T.alloc_fragment((block_M, E), T.float32)
        largest, before, shrink, total = (T.alloc_fragment((block_M,), T.float32) for _ in range(4))
        sums, added = (T.alloc_fragment((block_M, PARTS), T.float32) for _ in range(2))
        if packed == 1:
            T.copy(Q[batch, head, first : first + rows, g, :], Q_shared)
        else:
            T.copy(Q[batch, head, first, g, 0], T.reshape(Q_shared, (rows, packed, D)))
        queries_held = Q_shared
        if held:
            queries_held = T.alloc_fragment((block_M, D), Q.dtype)
            T.copy(Q_shared, queries_held)
        T.clear(out)
        T.clear(sums)
        T.fill(largest, LOWEST)
        if Sinks is not None:  # a key with this score, and no value
            for i in T.Parallel(block_M):
                if g + i % packed < G:
                    largest[i] = T.max(T.cast(Sinks[head, g + i % packed], T.float32) * (LOG2_E / factor), LOWEST)
            T.fill(sums, 1.0 / PARTS)

        for k in T.Pipelined(begin, end, num_stages=num_stages):
            T.copy(K[batch, head, k * block_N, 0], K_shared)
            T.clear(scores)
            T.gemm(queries_held, K_shared, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
            if capped:
                for i, j in T.Parallel(block_M, block_N):  # tanh
                    scores[i, j] = 1 - 2 * T.rcp(T.exp2(scores[i, j] * inner) + 1)
            for i, j in T.Parallel(block_M, block_N):  # nothing where all rows see the block
                key = k * block_N + j
                seen = key < keys
                if bounds[0]:
                    seen = seen and key >= place + i // packed - left
                if bounds[1]:
                    seen = seen and key <= place + i // packed + right
                scores[i, j] = T.if_then_else(seen, scores[i, j], -T.infinity(T.float32))
            T.copy(largest, before)
            T.reduce_max(scores, largest, dim=1, clear=False)
            if growth:
                for i in T.Parallel(block_M):
                    grown = (largest[i] - before[i]) * factor > growth
                    largest[i] = T.if_then_else(grown, largest[i], before[i])
            for i in T.Parallel(block_M):
                shrink[i] = T.exp2((before[i] - largest[i]) * factor)
            for i, j in T.Parallel(block_M, block_N):
                scores[i, j] = T.exp2(scores[i, j] * factor - largest[i] * factor)
            T.reduce_sum(T.reshape(scores, (block_M, block_N // PARTS, PARTS)), added, dim=1)
            for i, j in T.Parallel(block_M, PARTS):
                sums[i, j] = sums[i, j] * shrink[i] + added[i, j]
            T.copy(scores, weights)
            for i, j in T.Parallel(block_M, E):
                if shrink[i] != 1:  # of few rows, later on
                    out[i, j] *= shrink[i]
            T.copy(V[batch, head, k * block_N, 0], V_shared)
            T.gemm(weights, V_shared, out, policy=T.GemmWarpPolicy.FullRow)

        T.reduce_sum(sums, total, dim=1)
        for i in T.Parallel(block_M):
            if first + i // packed >= queries:
                total[i] = 0.0
            shrink[i] = T.if_then_else(total[i] == 0, 0.0, T.rcp(total[i]))
        if Lse is not None:
            for i in T.Parallel(block_M):
                if first + i // packed < S and g + i % packed < G:
                    Lse[batch, head, first + i // packed, g + i % packed] = largest[i] * factor * LN_2 + T.log(total[i])
        for i, j in T.Parallel(block_M, E):
            if QLengths is None:
                out[i, j] *= shrink[i]
            else:  # queries that do not count may be NaN
                out[i, j] = T.if_then_else(shrink[i] == 0, 0.0, out[i, j] * shrink[i])
        if packed == 1:
            T.copy(out, O[batch, head, first : first + rows, g, :])
        else:
            T.copy(T.reshape(out, (rows, packed, E)), O[batch, head, first, g, 0])


attention_forward_one_role = kernel(warp_specialize=False)(attention_forward.function)
