"""The k greatest or least elements of each row, and where they stand.

Each thread reads some elements of a row, chunk by chunk, and keeps the greatest of each chunk. The k-th greatest of
these maxima is a lower bound of the k-th greatest element, which few chunks reach: of random rows hardly more than k.
These are read again; their elements that reach the bound, the candidates, meet in shared memory, and each goes behind
all those that come before it. The maxima are taken in groups, of which each yields its share of the k: the bound is the
least of what they yield, a little lower, but for a fraction of the work.

Where there are fewer candidates than k (rows of NaN or infinities) or more than there is room for (many equal
elements), the k-th element is found bit by bit instead: are k elements still as great if this bit is set? Results do
not depend on which way was taken, nor on the order in which candidates come. Rows that are longer than a block has
them, or so few that their blocks would leave the GPU idle, are done in parts, whose results, in order already, are
merged; those of very many parts are rows anew.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import minitile.language as T
from minitile.driver.dispatch import for_users
from minitile.driver.jit import kernel
from minitile.ir.types import DType, i64
from minitile.ops.memory_bound.arguments import VECTOR, whole
from minitile.ops.memory_bound.launches import room_for
from minitile.ops.memory_bound.rows import H200, Room, RowPlan, row_plan, rows_of

MOST = 64  # of k: each candidate is compared with each other one
PART = 8192  # elements of a row that a block loads at once
LONGEST = 1 << 16  # those that it has at most: 16 bits tell them apart
MOST_EACH = 8  # maxima of a thread, of rows that are not loaded at once
BLOCKS = 2  # of a multiprocessor, so that long rows are not divided further
AHEAD = 8  # candidates that are compared with at once
MERGED = 1024  # elements of all parts of a row: each has a thread
WARP = 64  # threads, on any target
WORD = 32  # bits, one for each element of a row that a thread has
RESIDENT = 1536  # threads of a multiprocessor that hide each other's latencies
LESS_RESIDENT = 1024  # where each needs more registers
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
    parts = parts_of(rows.m, rows.n, rows.room.multiprocessors)
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


def parts_of(m: int, n: int, multiprocessors: int) -> int:
    """Into how many parts m rows of n elements are divided: so few that they keep the GPU busy, a power of two."""
    wanted = math.ceil(BLOCKS * multiprocessors / m)
    least, most = math.ceil(n / LONGEST), 1 if n <= 2 * PART else math.ceil(n / PART)
    return 1 << (max(least, min(wanted, most)) - 1).bit_length()


def part_of(n: int, parts: int, k: int) -> int:
    """How many elements each of about so many parts of n has: a multiple of 8, of which the last part has k left."""
    part = 8 * math.ceil(n / parts / 8)
    while (n - 1) % part + 1 < k:
        part += 8
    return part


class Shares(NamedTuple):
    """How many numbers each dimension of a row's part has: element
    (((a·steps + s)·runs + r)·groups·lanes + g·lanes + t)·vector + v of it is at [a, s, r, g, t, v]. The greatest of
    each [a, :, :, g, t, :], a chunk, is a maximum from which the bound is found."""

    each: int
    steps: int
    runs: int
    groups: int
    lanes: int
    vector: int


def shares_of(plan: RowPlan, part: int, dtype: DType, k: int) -> Shares:
    """A step is what a plan's threads load at once. Where they have too few maxima, each has one for every vector."""
    threads = plan.threads // plan.rows
    lanes = math.gcd(plan.columns, threads if plan.rows == 1 else 1 << max(0, threads.bit_length() - 1))
    while plan.columns // lanes > WORD and plan.columns // lanes % 2 == 0:
        lanes *= 2
    vector = math.gcd(VECTOR // dtype.bytes, plan.columns // lanes)
    runs = plan.columns // (lanes * vector)
    warps = max(1, lanes // LANES)
    groups = max(g for g in range(1, warps + 1) if warps % g == 0 and (g == 1 or 2 * g <= k))
    parts = math.ceil(part / plan.columns)
    steps = math.ceil(parts / MOST_EACH)
    each = math.ceil(parts / steps)
    if each * lanes < 2 * k:
        each, steps, runs = each * steps * runs, 1, 1
    return Shares(each, steps, runs, groups, lanes // groups, vector)


def constants(
    part: int, dtype: DType, k: int, largest: bool, plan: RowPlan | None, room: Room = H200, n: int | None = None
) -> dict[str, Any]:
    """Compile-time arguments of `select` for rows of n elements, or any number, in parts of so many."""
    plan = plan or row_plan(min(part, PART), dtype, room=room)
    assert plan is not None
    space = 1 << (8 * k - 1 if plan.rows == 1 else 4 * k - 1).bit_length()
    space = max(16, min(space, MOST_CANDIDATES))
    plan = plan._replace(rows=max(1, min(plan.rows, BLOCK_CANDIDATES // space)))
    shares = shares_of(plan, part, dtype, k)
    exact = math.prod(shares) == part and n is not None and n % part == 0
    sizes = {"rows": plan.rows, "shares": tuple(shares), "threads": plan.threads}
    light = dtype.bytes == 2 and n is not None and n * dtype.bytes % VECTOR == 0 and shares.each <= MOST_EACH // 2
    sizes |= {"space": space, "exact": exact, "resident": RESIDENT if light else LESS_RESIDENT}
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
    shares=(1, 1, 4, 4, 32, 8),
    space=64,
    exact=False,
    resident=1536,
    threads=128,
):
    M, N = X.shape
    with T.Kernel(T.ceildiv(N, part), T.ceildiv(M, rows), threads=threads) as (at, block):
        room_for(resident // threads)
        if exact:
            T.assume(N % part == 0)
        here = Here(X, block * rows, at * part, Shares(*shares), k, part, bits, largest, exact)
        found = T.alloc_shared((rows, space), T.uint32 if bits == 16 else T.uint64)
        chunks = T.alloc_shared((rows, space), T.uint16)
        total, listed = (T.alloc_shared((rows,), T.int32) for _ in range(2))
        missed = T.alloc_fragment((rows,), T.int32)
        T.clear(found)
        T.clear(chunks)
        T.clear(total)
        T.clear(listed)
        T.fill(missed, 1)
        each, _, _, groups, lanes, _ = shares
        if each * groups * lanes >= 2 * k:
            maxima = maxima_of(here, rows)
            limit = bound(maxima, k)
            for i, a, g, t in T.Parallel(rows, each, groups, lanes):
                if ~(maxima[i, a, g, t] < limit[i]):
                    place = T.atomic_add(listed[i], 1, return_prev=True)
                    if place < space:
                        chunks[i, place] = T.cast((a * groups + g) * lanes + t, T.uint16)
            collect(here, chunks, listed, limit, total, found)
            for i in T.Parallel(rows):
                few = (total[i] < k) | (total[i] > space) | (listed[i] > space)
                missed[i] = T.if_then_else(few, 1, 0)
        if T.any_of(missed):
            T.clear(total)
            T.clear(found)
            exactly(here, total, found)
        i, t, beside = by_row(rows)
        if i < rows:
            many = T.min(total[i], space)  # no more, which proofs of bounds need not derive from what is counted
            for a in range(t, many, beside):
                mine, place = found[i, a], T.int32(0)
                for b in range(T.ceildiv(many, AHEAD)):
                    for c in T.unroll(AHEAD):
                        place += T.if_then_else(found[i, b * AHEAD + c] > mine, 1, 0)
                if place < k:
                    j = here.column + (0xFFFF - T.cast(mine & 0xFFFF, T.int32))
                    Y[here.row + i, at * k + place] = X[here.row + i, j]
                    I[here.row + i, at * k + place] = T.cast(j, T.int64)


class Here(NamedTuple):
    """What a block of `select` has: the first row and column of its part of X, and the compile-time arguments."""

    X: Any
    row: Any
    column: Any
    shares: Shares
    k: int
    part: int
    bits: int
    largest: bool
    exact: bool

    def columns(self):
        """Of the part, as far as the row has them."""
        return self.part if self.exact else T.min(self.part, self.X.shape[1] - self.column)

    def inside(self, j):
        """Whether the part has this column."""
        return True if self.exact else j < self.columns()

    def number(self, i, j):
        """An element as f32, so that the greatest are wanted."""
        return signed(self.X[self.row + i, self.column + j], self.largest)

    def key(self, i, j):
        return ordered(self.number(i, j), self.largest, self.bits)


def signed(x, largest):
    """As f32, so that the greatest are wanted."""
    x = T.cast(x, T.float32)
    return x if largest else -x


def maxima_of(here, rows):
    """The greatest element of each chunk of each row, as f32; NaN where one is NaN."""
    X, (each, steps, runs, groups, lanes, vector), least = here.X, here.shares, -T.infinity(T.float32)
    columns = runs * groups * lanes * vector
    x, top = T.alloc_fragment((rows, columns), X.dtype), T.alloc_fragment((rows, groups, lanes, vector), X.dtype)
    best, maxima = (
        T.alloc_fragment((rows, groups, lanes), X.dtype),
        T.alloc_fragment((rows, each, groups, lanes), T.float32),
    )
    reduce = T.reduce_max if here.largest else T.reduce_min
    for a in [*range(each)]:  # of registers
        T.fill(top, signed(least, here.largest))
        for s in T.serial(steps):
            first = (a * steps + s) * columns
            for i, j in T.Parallel(rows, columns):
                number = X[here.row + i, here.column + first + j]
                outside = T.cast(signed(least, here.largest), X.dtype)
                x[i, j] = T.if_then_else(here.inside(first + j), number, outside)
            y = T.reshape(x, (rows, runs, groups, lanes, vector))
            reduce(y, top, dim=1, clear=steps == 1, nan_propagate=True)
        reduce(top, best, dim=3, nan_propagate=True)
        for i, g, t in T.Parallel(rows, groups, lanes):
            maxima[i, a, g, t] = signed(best[i, g, t], here.largest)
    return maxima


def bound(maxima, k):
    """For each row, a number that k of the maxima are not below, or infinity: a lower bound of the k-th element.

    Of each group of maxima, all different by their last bits, the greatest is taken away so often that together k are.
    """
    rows, each, groups, lanes = maxima.shape
    keys = T.alloc_fragment((rows, each, groups, lanes), T.uint32)
    top, most = T.alloc_fragment((rows, groups, lanes), T.uint32), T.alloc_fragment((rows, groups), T.uint32)
    low, limit = T.alloc_fragment((rows,), T.uint32), T.alloc_fragment((rows,), T.float32)
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


def collect(here, chunks, listed, limit, total, found):
    """The elements of the chunks that are listed, as far as they reach the limit: a thread takes a vector at a time."""
    rows, space = found.shape
    _, steps, runs, groups, lanes, vector = here.shares
    vectors, limits = steps * runs, T.alloc_shared((rows,), T.float32)
    T.copy(limit, limits)
    i, t, beside = by_row(rows)
    with T.assume_disjoint(found):  # each place is of one element
        if i < rows:
            for e in range(t, space * vectors, beside):
                if e // vectors < listed[i]:
                    chunk, x = T.cast(chunks[i, e // vectors], T.int32), T.alloc_local((vector,), here.X.dtype)
                    a, lane = chunk // (groups * lanes), chunk % (groups * lanes)
                    first = ((a * vectors + e % vectors) * groups * lanes + lane) * vector
                    for v in T.vectorized(vector):
                        x[v] = here.X[here.row + i, here.column + first + v]
                    hits = T.uint32(0)
                    for v in T.unroll(vector):
                        number = signed(x[v], here.largest)  # where the least are wanted NaN is none
                        hit = ~(number < limits[i]) if here.largest else number >= limits[i]
                        hits = hits | T.if_then_else(hit & here.inside(first + v), T.uint32(1 << v), 0)
                    while hits != 0:
                        lowest = hits & (~hits + 1)
                        hits = hits ^ lowest
                        v = (T.reinterpret(T.cast(lowest, T.float32), T.int32) >> 23) - 127
                        keep(here, here.key(i, first + v), first + v, total, found, i)


def by_row(rows):
    """For a thread: the row that it has a share of, if there are so many, which share, and of how many."""
    thread, each = T.get_thread_binding(), T.get_thread_extent(0) // rows
    return thread // each, thread % each, each


def keep(here, key, j, total, found, i):
    """An element takes the next place among its row's candidates, as long as there is room."""
    index, word = (16, T.uint32) if here.bits == 16 else (32, T.uint64)
    place = T.atomic_add(total[i], 1, return_prev=True)
    if place < found.shape[1]:
        found[i, place] = (T.cast(key, word) << index) | T.cast(0xFFFF - j, word)


def exactly(here, total, found):
    """The k-th greatest key of each row and, of its equals, the column of the last one that is among the first k, are
    found bit by bit: are k elements still as great with this bit, are fewer than k in front of that column? The
    elements as far as there become candidates."""
    rows, k = found.shape[0], here.k
    least, last = T.alloc_shared((rows,), T.uint32), T.alloc_shared((rows,), T.int32)
    T.clear(least)
    T.clear(last)
    for n in T.serial(here.bits):
        bit = T.uint32(1) << T.cast(here.bits - 1 - n, T.uint32)
        number = count(here, least, bit, last, here.part)
        for i in T.Parallel(rows):
            least[i] = T.if_then_else(number[i] >= k, least[i] | bit, least[i])
    places = (here.part - 1).bit_length()
    for n in T.serial(places):
        column = T.int32(1) << (places - 1 - n)
        number = count(here, least, 0, last, column)
        for i in T.Parallel(rows):
            last[i] = T.if_then_else(number[i] < k, last[i] | column, last[i])
    i, t, beside = by_row(rows)
    if i < rows:
        with T.assume_disjoint(found):
            for j in range(t, here.columns(), beside):
                key = here.key(i, j)
                if in_front(key, j, least[i], last[i] + 1):
                    keep(here, key, j, total, found, i)


def in_front(key, j, least, column):
    return (key > least) | ((key == least) & (j < column))


def count(here, least, bit, last, column):
    """How many elements of each row are `in_front` of its least and last, with these bits set."""
    number = T.alloc_shared(least.shape, T.int32)
    T.clear(number)
    i, t, beside = by_row(least.shape[0])
    if i < least.shape[0]:
        mine = T.int32(0)
        for j in range(t, here.columns(), beside):
            mine += T.if_then_else(in_front(here.key(i, j), j, least[i] | bit, last[i] | column), 1, 0)
        T.atomic_add(number[i], mine)
    return number


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
