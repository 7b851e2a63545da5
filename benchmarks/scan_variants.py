"""Candidates for the kernels of scans, transposes and column sums, for benchmarks/sweep_scans.py.

Each stands for one idea beside the kernel of mt.ops that it may replace; all take `minimum`, the number of blocks that
a multiprocessor's registers are to do for (0: what the compiler chooses).
"""

from __future__ import annotations

import minitile.language as T
from minitile.driver.jit import kernel
from minitile.ops.memory_bound.launches import in_order
from minitile.ops.memory_bound.scans import tell, told
from minitile.ops.memory_bound.transpose import tile_of


def at_least(minimum):
    """Room for so many blocks on each multiprocessor."""
    if minimum:
        T.annotate_min_blocks_per_sm(minimum)


# Transposes ----------------------------------------------------------------------------------------------------------


@kernel
def turn_squares(
    A: T.Tensor(("S", "M", "N"), None),
    B: T.Tensor(("S", "N", "M"), None),
    block_M=128,
    block_N=128,
    threads=256,
    panel=0,
    minimum=0,
    blocks=0,
):
    """`transpose_registers`, also by so many persistent blocks."""
    S, M, N = A.shape
    with T.Kernel(T.ceildiv(N, block_N) * T.ceildiv(M, block_M) * S, threads=threads, persistent=blocks) as block:
        at_least(minimum)
        s, row, column = tile_of(block, M, N, block_M, block_N, panel)
        in_order() if not blocks else None
        for i, j in T.Parallel(block_M, block_N):
            B[s, column + j, row + i] = A[s, row + i, column + j]


# Rows of cumulative sums ---------------------------------------------------------------------------------------------


@kernel
def scan_rows(
    X: T.Tensor(("M", "N"), None),
    Y: T.Tensor(("M", "N"), None),
    rows=1,
    columns=4096,
    threads=128,
    exact=False,
    minimum=0,
    ordered=True,
):
    """`cumsum_rows`, whose launches may follow each other at once (`ordered`)."""
    M, N = X.shape
    if exact:
        T.assume(columns == N)
    with T.Kernel(T.ceildiv(M, rows), threads=threads) as block:
        at_least(minimum)
        if ordered:
            in_order()
        x = T.alloc_fragment((rows, columns), T.float32)
        T.copy(X[block * rows, 0], x)
        T.cumsum(x, dim=1)
        T.copy(x, Y[block * rows, 0])


@kernel
def scan_staged(
    X: T.Tensor(("M", "N"), None),
    Y: T.Tensor(("M", "N"), None),
    rows=1,
    columns=4096,
    threads=128,
    exact=False,
    minimum=0,
    stages=2,
    blocks=264,
):
    """Persistent blocks copy rows ahead into shared memory."""
    M, N = X.shape
    if exact:
        T.assume(columns == N)
    with T.Kernel(blocks, threads=threads) as block:
        at_least(minimum)
        in_order()
        tile = T.alloc_shared((rows, columns), X.dtype)
        for k in T.Pipelined(T.ceildiv(M - block * rows, blocks * rows), num_stages=stages):
            first = (block + k * blocks) * rows
            x = T.alloc_fragment((rows, columns), T.float32)
            T.copy(X[first, 0], tile)
            T.copy(tile, x)
            T.cumsum(x, dim=1)
            T.copy(x, Y[first, 0])


# Rows in pieces ------------------------------------------------------------------------------------------------------


def look_back(state, words, number, at, row, pieces, threads, total):
    """The sum of all pieces in front in the row, as `cumsum_pieces` adds them up; told on where a group ends."""
    tx = T.get_thread_binding()
    in_front = T.alloc_shared((threads,), T.float32)
    front = T.alloc_fragment((1,), T.float32)
    group, place = at // threads, at % threads
    told_at = 1 + words + row * T.ceildiv(pieces, threads) + group
    in_front[tx] = 0.0
    last = tx == threads - 1
    if tx < place or (last and group > 0):
        in_front[tx] = told(state, told_at - 1 if last else 1 + number - place + tx)
    T.reduce_sum(in_front, front)
    if place == threads - 1:
        tell(state, told_at, front[0] + total)
    return front[0]


@kernel
def scan_pieces(
    X: T.Tensor(("M", "N"), None),
    Y: T.Tensor(("M", "N"), None),
    state: T.Tensor(("S",), T.int64),
    piece=8192,
    threads=256,
    minimum=0,
    ticket=True,
):
    """`cumsum_pieces`; without `ticket` blocks take pieces by their own numbers, which trusts the order in which the
    GPU starts them."""
    M, N = X.shape
    pieces = T.ceildiv(N, piece)
    with T.Kernel(M * pieces, threads=threads) as block:
        at_least(minimum)
        in_order()
        x = T.alloc_fragment((piece,), T.float32)
        if ticket:
            shared = T.alloc_shared((1,), T.int64)
            if T.get_thread_binding() == 0:
                shared[0] = T.atomic_add(state[0], 1, return_prev=True)
            number = T.cast(shared[0], T.int32)
            T.assume(number >= 0)
        else:
            number = block
        row, at = number // pieces, number % pieces
        T.copy(X[row, at * piece], x)
        T.cumsum(x)
        total = x[piece - 1]
        tell(state, 1 + number, total)
        front = look_back(state, M * pieces, number, at, row, pieces, threads, total)
        for i in T.Parallel(piece):
            x[i] = x[i] + front
        T.copy(x, Y[row, at * piece])


@kernel
def scan_ahead(
    X: T.Tensor(("M", "N"), None),
    Y: T.Tensor(("M", "N"), None),
    state: T.Tensor(("S",), T.int64),
    piece=8192,
    threads=256,
    minimum=0,
    blocks=396,
):
    """Persistent blocks, which have the next piece on its way to registers while they wait for sums in front. A block
    ends its pieces in the order of their numbers, so that the first that is not done never waits for ever."""
    M, N = X.shape
    pieces = T.ceildiv(N, piece)
    with T.Kernel(blocks, threads=threads):
        at_least(minimum)
        in_order()
        shared = T.alloc_shared((1,), T.int64)
        loaded = T.alloc_fragment((piece,), X.dtype)
        x = T.alloc_fragment((piece,), T.float32)
        tx = T.get_thread_binding()
        if tx == 0:
            shared[0] = T.atomic_add(state[0], 1, return_prev=True)
        number = T.cast(shared[0], T.int32)
        T.assume(number >= 0)
        T.copy(X[number // pieces, number % pieces * piece], loaded)
        while number < M * pieces:
            following = T.cast(0, T.int64)
            if tx == 0:
                following = T.atomic_add(state[0], 1, return_prev=True)
            for i in T.Parallel(piece):
                x[i] = T.cast(loaded[i], T.float32)
            T.cumsum(x)
            total = x[piece - 1]
            row, at = number // pieces, number % pieces
            tell(state, 1 + number, total)
            if tx == 0:
                shared[0] = following
            then = T.cast(shared[0], T.int32)
            T.assume(then >= 0)
            T.copy(X[then // pieces, then % pieces * piece], loaded)
            front = look_back(state, M * pieces, number, at, row, pieces, threads, total)
            for i in T.Parallel(piece):
                x[i] = x[i] + front
            T.copy(x, Y[row, at * piece])
            number = then


# Sums of columns -----------------------------------------------------------------------------------------------------


def strip_sums(X, bx, p, P, rows, columns, ahead):
    """The sums of every P-th group of rows · ahead rows of a strip, in shared memory."""
    M = X.shape[0]
    total = T.alloc_fragment((rows, columns), T.float32)
    loaded = [T.alloc_fragment((rows, columns), X.dtype) for _ in range(ahead)]
    T.clear(total)
    for k in T.serial(p, T.ceildiv(M, rows * ahead), P):
        for q in T.unroll(ahead):
            T.copy(X[(k * ahead + q) * rows, bx * columns], loaded[q])
        for q in T.unroll(ahead):
            for i, j in T.Parallel(rows, columns):
                total[i, j] += T.cast(loaded[q][i, j], T.float32)
    shared = T.alloc_shared((rows, columns), T.float32)
    T.copy(total, shared)
    return shared


def staged_sums(X, bx, p, P, rows, columns, deep, stages):
    """The same of every P-th group of `deep` rows, that are copied ahead into shared memory."""
    M = X.shape[0]
    total = T.alloc_fragment((rows, columns), T.float32)
    tile = T.alloc_shared((deep, columns), X.dtype)
    T.clear(total)
    for k in T.Pipelined(T.ceildiv(T.ceildiv(M, deep) - p, P), num_stages=stages):
        T.copy(X[(p + k * P) * deep, bx * columns], tile)
        for q in T.unroll(deep // rows):
            for i, j in T.Parallel(rows, columns):
                total[i, j] += T.cast(tile[q * rows + i, j], T.float32)
    shared = T.alloc_shared((rows, columns), T.float32)
    T.copy(total, shared)
    return shared


def column_of(shared, rows, j):
    column = 0.0
    for i in T.unroll(rows):
        column += shared[i, j]
    return column


@kernel
def sums_apart(
    X: T.Tensor(("M", "N"), None),
    S: T.Tensor(("P", "N"), T.float32),
    rows=8,
    columns=256,
    ahead=4,
    threads=256,
    minimum=0,
    deep=0,
    stages=0,
):
    """`partial_sums`, and the same with copies ahead to shared memory."""
    P = S.shape[0]
    with T.Kernel(T.ceildiv(X.shape[1], columns), P, threads=threads) as (bx, p):
        at_least(minimum)
        in_order()
        if stages:
            shared = staged_sums(X, bx, p, P, rows, columns, deep, stages)
        else:
            shared = strip_sums(X, bx, p, P, rows, columns, ahead)
        for j in T.Parallel(columns):
            S[p, bx * columns + j] = column_of(shared, rows, j)


@kernel
def sums_together(
    X: T.Tensor(("M", "N"), None),
    S: T.Tensor(("N",), T.float32),
    rows=8,
    columns=256,
    ahead=4,
    threads=256,
    minimum=0,
    cluster=8,
    deep=0,
    stages=0,
):
    """A strip's blocks are a cluster, which adds up what they have through each other's shared memory."""
    with T.Kernel(cluster, T.ceildiv(X.shape[1], columns), threads=threads, cluster=cluster) as (p, bx):
        at_least(minimum)
        in_order()
        share = columns // cluster
        parts = T.alloc_shared((cluster, share), T.float32)
        if stages:
            shared = staged_sums(X, bx, p, cluster, rows, columns, deep, stages)
        else:
            shared = strip_sums(X, bx, p, cluster, rows, columns, ahead)
        mine = T.alloc_fragment((columns,), T.float32)
        for j in T.Parallel(columns):
            mine[j] = column_of(shared, rows, j)
        with T.assume_disjoint(parts):  # each block fills its own row of the others
            for there in T.unroll(cluster):
                theirs = T.map_shared_rank(parts, there)
                for j in T.Parallel(columns):
                    if j // share == there:
                        theirs[p, j - there * share] = mine[j]
        T.cluster_sync()
        for j in T.Parallel(share):
            S[bx * columns + p * share + j] = column_of(parts, cluster, j)


@kernel
def sums_last(
    X: T.Tensor(("M", "N"), None),
    parts: T.Tensor(("P", "N"), T.float32),
    done: T.Tensor(("strips",), T.int32),
    S: T.Tensor(("N",), T.float32),
    rows=8,
    columns=256,
    ahead=4,
    threads=256,
    minimum=0,
    split=16,
):
    """The block of a strip that ends last adds up what all have left, in their order. `done`: zeros, as it leaves
    them."""
    with T.Kernel(T.ceildiv(X.shape[1], columns), split, threads=threads) as (bx, p):
        at_least(minimum)
        in_order()
        count = T.alloc_shared((1,), T.int32)
        shared = strip_sums(X, bx, p, split, rows, columns, ahead)
        for j in T.Parallel(columns):
            parts[p, bx * columns + j] = column_of(shared, rows, j)
        T.sync_threads()
        if T.get_thread_binding() == 0:
            T.fence("gpu")
            count[0] = T.atomic_add(done[bx], 1, return_prev=True)
            T.fence("gpu")
        if count[0] == split - 1:
            for j in T.Parallel(columns):
                S[bx * columns + j] = column_of(parts, split, bx * columns + j)
            if T.get_thread_binding() == 0:
                done[bx] = 0
