"""The k greatest or least elements of each row, and where they stand.

Each thread has some elements of a row, and keeps the greatest of them. The k-th greatest of these maxima is a lower
bound of the k-th greatest element, which few elements reach: of random rows hardly more than k. These candidates meet
in shared memory, and each goes behind all those that come before it. The maxima are taken in groups, of which each
yields its share of the k: the bound is the least of what they yield, a little lower, but for a fraction of the work.

Where there are fewer candidates than k (rows of NaN or infinities) or more than there is room for (many equal
elements), the k-th element is found bit by bit instead: are k elements still as great if this bit is set? Results do
not depend on which way was taken, nor on the order in which candidates come. Rows that registers do not hold are done
in parts, whose results, in order already, are merged; those of very many parts are rows anew.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import minitile.language as T
from minitile.driver.dispatch import for_users
from minitile.driver.jit import kernel
from minitile.ir.types import DType, i64
from minitile.ops.memory_bound.arguments import VECTOR, whole
from minitile.ops.memory_bound.rows import H200, Room, RowPlan, row_plan, rows_of

MOST = 64  # of k: each candidate is compared with each other one
PART = 8192  # elements of a row
MERGED = 1024  # elements of all parts of a row: each has a thread
WARP = 64  # threads, on any target
WORD = 32  # bits, one for each element of a row that a thread has
RESIDENT = 1024  # threads of a multiprocessor that hide each other's latencies
LANES = 32  # threads whose maxima are a group
MOST_CANDIDATES, BLOCK_CANDIDATES = 256, 2048  # of a row, of a block
BITS = {"bf16": 16, "f16": 19, "f32": 32}  # of an f32, that tell numbers of this dtype apart


@for_users
def top_k(x: Any, k: int, *, largest: bool = True, plan: RowPlan | None = None) -> tuple[Any, Any]:
    """The k greatest elements of each row along the last dimension, in their order, and their indices (i64).

    Of equal elements the first ones come first; a NaN is greater than any number, as in torch.topk.

    Args:
        x: f32, bf16 or f16, of torch, CuPy, or NumPy (then the simulator computes); any leading dimensions.
        k: how many: 1 to 64, and no more than a row has.
        largest: False: the k least elements.
        plan: how rows are spread over blocks, instead of the table's choice.

    Returns:
        Values and indices, of x's shape but for the last dimension, which is k.

    Raises:
        LaunchArgumentError: arguments that do not fit.

    Example:
        ```py
        weights, experts = mt.ops.top_k(scores, 8)
        ```
    """
    rows = rows_of("x", x)
    k = whole("k", k, 1, min(MOST, rows.n), f", for rows of {rows.n} elements")
    values, indices = (rows.x.empty((*rows.shape[:-1], k), d) for d in (rows.dtype, i64))
    if not rows.m:
        return values, indices
    y, at = values.reshape(rows.m, k), indices.reshape(rows.m, k)
    parts = 1 if rows.n <= 2 * PART else math.ceil(rows.n / PART)
    if parts == 1:
        select(rows.matrix, y, at, **constants(rows.n, rows.dtype, k, largest, plan, rows.room, rows.n))
        return values, indices
    part = part_of(rows.n, parts, k)
    parts = math.ceil(rows.n / part)
    some, there = (rows.x.empty((rows.m, parts * k), d) for d in (rows.dtype, i64))
    select(rows.matrix, some, there, **constants(part, rows.dtype, k, largest, plan, rows.room, rows.n))
    if parts * k <= MERGED:
        threads = WARP * math.ceil(parts * k / WARP)
        merge(some, there, y, at, k=k, parts=parts, largest=largest, threads=threads)
        return values, indices
    found, chosen = top_k(some, k, largest=largest)
    gather(found, chosen, there, y, at)
    return values, indices


def part_of(n: int, parts: int, k: int) -> int:
    """How many elements each of about so many parts of n has: a multiple of 8, of which the last part has k left."""
    part = 8 * math.ceil(n / parts / 8)
    while (n - 1) % part + 1 < k:
        part += 8
    return part


class Shares(NamedTuple):
    """How many numbers each dimension of a row's tile has: element (((a·runs + b)·groups + g)·lanes + t)·vector + v of
    the row is at [a, b, g, t, v]. The greatest of each [a, :, g, t, :] is a maximum from which the bound is found."""

    each: int
    runs: int
    groups: int
    lanes: int
    vector: int


def shares_of(plan: RowPlan, dtype: DType, k: int) -> Shares:
    """Where threads have too few maxima, each has one for every `vector` elements."""
    threads = plan.threads // plan.rows
    lanes = math.gcd(plan.columns, threads if plan.rows == 1 else 1 << max(0, threads.bit_length() - 1))
    while plan.columns // lanes > WORD and plan.columns // lanes % 2 == 0:
        lanes *= 2
    vector = math.gcd(VECTOR // dtype.bytes, plan.columns // lanes)
    runs = plan.columns // (lanes * vector)
    warps = max(1, lanes // LANES)
    groups = max(g for g in range(1, warps + 1) if warps % g == 0 and (g == 1 or 2 * g <= k))
    each = 1 if lanes >= 2 * k else runs
    return Shares(each, runs // each, groups, lanes // groups, vector)


def constants(
    part: int, dtype: DType, k: int, largest: bool, plan: RowPlan | None, room: Room = H200, n: int | None = None
) -> dict[str, Any]:
    """Compile-time arguments of `select` for rows of n elements, or any number, in parts of so many."""
    plan = plan or row_plan(part, dtype, room=room)
    assert plan is not None
    space = 1 << (8 * k - 1 if plan.rows == 1 else 4 * k - 1).bit_length()
    space = max(16, min(space, MOST_CANDIDATES))
    plan = plan._replace(rows=max(1, min(plan.rows, BLOCK_CANDIDATES // space)))
    exact = plan.columns == part and n is not None and n % part == 0
    sizes = {"rows": plan.rows, "shares": tuple(shares_of(plan, dtype, k)), "threads": plan.threads}
    sizes |= {"space": space, "exact": exact}
    return {"k": k, "part": part, "bits": BITS[dtype.name], "largest": largest, **sizes}


@kernel
def select(
    X: T.Tensor(("M", "N"), None),
    Y: T.Tensor(("M", "R"), None),
    I: T.Tensor(("M", "R"), T.int64),  # noqa: E741
    k=8,
    part=4096,
    bits=32,
    largest=True,
    rows=1,
    shares=(1, 4, 4, 32, 8),
    space=64,
    exact=False,
    threads=128,
):
    M, N = X.shape
    each, runs, groups, lanes, vector = shares
    columns = math.prod(shares)
    with T.Kernel(T.ceildiv(N, part), T.ceildiv(M, rows), threads=threads) as (at, block):
        T.annotate_min_blocks_per_sm(max(1, RESIDENT // threads))
        if exact:
            T.assume(N % part == 0)
        first = block * rows, at * part
        found = T.alloc_shared((rows, space), T.uint32 if bits == 16 else T.uint64)
        words = T.alloc_shared((rows, groups * lanes), T.uint32)
        total, missed = T.alloc_shared((rows,), T.int32), T.alloc_fragment((rows,), T.int32)
        T.fill(missed, 1)
        if each * groups * lanes >= 2 * k:
            x = T.alloc_fragment((rows, columns), T.float32)
            for i, j in T.Parallel(rows, columns):
                given = signed(X[first[0] + i, first[1] + j], largest)
                inside = True if exact else (j < part) & (first[1] + j < N)
                x[i, j] = T.if_then_else(inside, given, -T.infinity(T.float32))
            y = T.reshape(x, (rows, *shares))
            limit, hits = bound(y, k), T.alloc_fragment((rows, *shares), T.uint32)
            for i, a, b, g, t, v in T.Parallel(rows, *shares):
                number = y[i, a, b, g, t, v]
                hit = ~(number < limit[i]) if largest else number >= limit[i]  # where the least are wanted NaN is none
                hits[i, a, b, g, t, v] = T.if_then_else(hit, bit_of(shares, a, b, v), 0)
            collect(X, first, shares, hits, words, total, found, bits, largest)
            for i in T.Parallel(rows):
                missed[i] = T.if_then_else((total[i] < k) | (total[i] > space), 1, 0)
        if T.any_of(missed):
            keys, taken = T.alloc_fragment((rows, columns), T.uint32), T.alloc_fragment((rows, *shares), T.uint32)
            for i, j in T.Parallel(rows, columns):
                key = ordered(signed(X[first[0] + i, first[1] + j], largest), largest, bits)
                keys[i, j] = T.if_then_else((j < part) & (first[1] + j < N), key, 0)
            least, last = kth(keys, k, bits)
            z = T.reshape(keys, (rows, *shares))
            for i, a, b, g, t, v in T.Parallel(rows, *shares):
                key, j = z[i, a, b, g, t, v], ((a * runs + b) * groups * lanes + g * lanes + t) * vector + v
                hit = (key > least[i]) | ((key == least[i]) & (j <= last[i]))
                taken[i, a, b, g, t, v] = T.if_then_else(hit, bit_of(shares, a, b, v), 0)
            collect(X, first, shares, taken, words, total, found, bits, largest)
        for e in range(T.get_thread_binding(), rows * space, threads):
            i, a = e // space, e % space
            if a < total[i]:
                mine, place = found[i, a], T.int32(0)
                for b in range(total[i]):
                    place += T.if_then_else(found[i, b] > mine, 1, 0)
                if place < k:
                    j = first[1] + (0xFFFF - T.cast(mine & 0xFFFF, T.int32))
                    Y[first[0] + i, at * k + place] = X[first[0] + i, j]
                    I[first[0] + i, at * k + place] = T.cast(j, T.int64)


def signed(x, largest):
    """As f32, so that the greatest are wanted."""
    x = T.cast(x, T.float32)
    return x if largest else -x


def bit_of(shares, a, b, v):
    """In the word of thread (g, t), of element [a, b, g, t, v]."""
    _, runs, _, _, vector = shares
    return T.uint32(1) << T.cast((a * runs + b) * vector + v, T.uint32)


def collect(X, first, shares, hits, words, total, found, bits, largest):
    """Each element whose bit is set takes the next place among its row's candidates, as long as there is room."""
    rows, space = found.shape
    _, _, groups, lanes, vector = shares
    index, word = (16, T.uint32) if bits == 16 else (32, T.uint64)
    by_run, by_share, all_ = (T.alloc_fragment((rows, *rest), T.uint32) for rest in narrower(shares))
    T.reduce(hits, by_run, "bitor", dim=5)
    T.reduce(by_run, by_share, "bitor", dim=2)
    T.reduce(by_share, all_, "bitor", dim=1)
    T.clear(total)
    T.copy(T.reshape(all_, (rows, groups * lanes)), words)
    for e in range(T.get_thread_binding(), rows * groups * lanes, T.get_thread_extent()):
        i, t = e // (groups * lanes), e % (groups * lanes)
        left = words[i, t]
        while left != 0:
            lowest = left & (~left + 1)
            left = left ^ lowest
            n = (T.reinterpret(T.cast(lowest, T.float32), T.int32) >> 23) - 127
            j = (n // vector * (groups * lanes) + t) * vector + n % vector
            key = ordered(signed(X[first[0] + i, first[1] + j], largest), largest, bits)
            p = T.atomic_add(total[i], 1, return_prev=True)
            if p < space:
                found[i, p] = (T.cast(key, word) << index) | T.cast(0xFFFF - j, word)


def narrower(shares):
    """Shapes of what is left when a thread's elements are joined: vectors, runs, and what a maximum is from."""
    each, runs, groups, lanes, _ = shares
    return (each, runs, groups, lanes), (each, groups, lanes), (groups, lanes)


def bound(x, k):
    """For each row, a number that k of the maxima are not below, or infinity: a lower bound of the k-th element.

    Of each group of maxima, all different by their last bits, the greatest is taken away so often that together k are.
    """
    rows, each, _, groups, lanes, _ = x.shape
    some = T.alloc_fragment(x.shape[:-1], T.float32)
    maxima = T.alloc_fragment((rows, each, groups, lanes), T.float32)
    keys = T.alloc_fragment((rows, each, groups, lanes), T.uint32)
    top, most = T.alloc_fragment((rows, groups, lanes), T.uint32), T.alloc_fragment((rows, groups), T.uint32)
    low, limit = T.alloc_fragment((rows,), T.uint32), T.alloc_fragment((rows,), T.float32)
    T.reduce_max(x, some, dim=5)
    T.reduce_max(some, maxima, dim=2)
    mask = (1 << (each * lanes - 1).bit_length()) - 1
    for i, a, g, t in T.Parallel(rows, each, groups, lanes):
        key = ordered(T.max(maxima[i, a, g, t], -T.infinity(T.float32)), True, 32)
        keys[i, a, g, t] = (key & (0xFFFFFFFF - mask)) | T.cast(a * lanes + t, T.uint32)
    for _ in T.serial(math.ceil(k / groups)):
        T.reduce_max(keys, top, dim=1)
        T.reduce_max(top, most, dim=2)
        for i, a, g, t in T.Parallel(rows, each, groups, lanes):
            keys[i, a, g, t] = T.if_then_else(keys[i, a, g, t] == most[i, g], 0, keys[i, a, g, t])
    T.reduce_min(most, low, dim=1)
    for i in T.Parallel(rows):
        key = low[i] & (0xFFFFFFFF - mask)
        number = T.reinterpret(T.if_then_else(key >> 31 == 1, key ^ 0x80000000, ~key), T.float32)
        limit[i] = T.if_then_else(number > -T.infinity(T.float32), number, T.infinity(T.float32))
    return limit


def kth(keys, k, bits):
    """The k-th greatest key of each row and, of its equals, the column of the last one that is among the first k.

    Both are found bit by bit: are k elements still as great with this bit, are fewer than k in front of that column?
    """
    rows, columns = keys.shape
    least, last = T.alloc_fragment((rows,), T.uint32), T.alloc_fragment((rows,), T.int32)
    ones, number = T.alloc_fragment((rows, columns), T.int32), T.alloc_fragment((rows,), T.int32)
    T.clear(least)
    T.clear(last)
    for n in T.serial(bits):
        bit = T.uint32(1) << T.cast(bits - 1 - n, T.uint32)
        for i, j in T.Parallel(rows, columns):
            ones[i, j] = T.if_then_else(keys[i, j] >= (least[i] | bit), 1, 0)
        T.reduce_sum(ones, number, dim=1)
        for i in T.Parallel(rows):
            least[i] = T.if_then_else(number[i] >= k, least[i] | bit, least[i])
    places = (columns - 1).bit_length()
    for n in T.serial(places):
        column = T.int32(1) << (places - 1 - n)
        for i, j in T.Parallel(rows, columns):
            equal = (keys[i, j] == least[i]) & (j < (last[i] | column))
            ones[i, j] = T.if_then_else((keys[i, j] > least[i]) | equal, 1, 0)
        T.reduce_sum(ones, number, dim=1)
        for i in T.Parallel(rows):
            last[i] = T.if_then_else(number[i] < k, last[i] | column, last[i])
    return least, last


def ordered(x, largest, bits):
    """An f32 as an integer over 0 that compares likewise, zeros of both signs alike, NaN after or before all."""
    number = T.reinterpret(x + 0.0, T.int32)
    key = T.reinterpret(number ^ ((number >> 31) | T.min_value(T.int32)), T.uint32)
    key = T.if_then_else(x == x, key, T.uint32(0xFFFFFFFE if largest else 1 << 16))
    return key >> (32 - bits)


@kernel
def merge(
    V: T.Tensor(("M", "R"), None),
    A: T.Tensor(("M", "R"), T.int64),
    Y: T.Tensor(("M", "K"), None),
    I: T.Tensor(("M", "K"), T.int64),  # noqa: E741
    k=8,
    parts=2,
    largest=True,
    threads=64,
):
    """Of k elements of each part, in order, and their indices, the first k: in front of an element are those before it
    in its part, and of each other part as many as a binary search finds."""
    M, _ = V.shape
    with T.Kernel(M, threads=threads) as row:
        keys = T.alloc_shared((parts, k), T.uint32)
        for p, n in T.Parallel(parts, k):
            keys[p, n] = ordered(signed(V[row, p * k + n], largest), largest, 32)
        t = T.get_thread_binding()
        if t < parts * k:
            p, place = t // k, t % k
            mine = keys[p, place]
            for q in range(parts):
                behind = T.if_then_else(q < p, mine - 1, mine)  # equal ones of earlier parts are in front
                before = T.int32(0)
                for step in T.unroll(k.bit_length()):
                    after = before + (1 << (k.bit_length() - 1 - step))
                    if after <= k:
                        before = T.if_then_else(keys[q, after - 1] > behind, after, before)
                place += T.if_then_else(q == p, 0, before)
            if place < k:
                Y[row, place] = V[row, t]
                I[row, place] = A[row, t]


@kernel
def gather(
    V: T.Tensor(("M", "K"), None),
    C: T.Tensor(("M", "K"), T.int64),
    A: T.Tensor(("M", "R"), T.int64),
    Y: T.Tensor(("M", "K"), None),
    I: T.Tensor(("M", "K"), T.int64),  # noqa: E741
    threads=64,
):
    """Values as they are; of their indices among parts' results, those in the row."""
    M, K = V.shape
    with T.Kernel(M, threads=threads) as row:
        for j in T.Parallel(threads):
            if j < K:
                Y[row, j] = V[row, j]
                I[row, j] = A[row, C[row, j]]
