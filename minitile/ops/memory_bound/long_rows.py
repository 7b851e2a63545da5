"""Rows that one block does not hold: softmax, RMS norm and layer norm, cross entropy, with a row split over the blocks
of a cluster (sm_90a; with a cluster of one block these are kernels for every target).

A block copies its part of the row into shared memory, all of it on its way at once, and reads it from there for each of
the row's reductions and for the result: the row is read and written once. Shared memory rather than registers: two or
three blocks of a multiprocessor then load while another one computes. Threads take the part a few vectors at a time, so
that they need few registers, however long it is.

An exchange between blocks waits for the slowest of the cluster. So each first reduces its own part: to the greatest
element and the sum of powers beside it, or to the mean and the squares around that. They exchange both numbers at once
(`Part.gathered`), and each puts those of all blocks together, in the same order.

Rows that are not of whole vectors begin off multiples of 16 bytes. The first block's part then begins at the last of
these in front of the row, with columns that are none of the row's; so all vectors that are copied and stored lie at
multiples, but for the row's ends.

Weight and bias come out of L2, some 0.7 µs away, and are as many bytes as the row: a thread asks for them two steps
ahead, the first time in front of the reductions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import minitile.language as T
from minitile.driver.jit import Kernel, kernel
from minitile.ir.types import DType
from minitile.ops.memory_bound.launches import in_order

LOG2_E = 1.4426950408889634
WHOLE = 64 * 1024  # bytes of a row that one block takes: three of them are in a multiprocessor's shared memory
PART, PART_ODD = 32 * 1024, 36 * 1024  # bytes of a row that a block of a cluster takes; where rows begin anywhere
MOST_PART = 216 * 1024
VECTOR = 16  # bytes
STEP = 32  # bytes of the row that a thread takes at a time
WARP, FEW, MANY = 32, 128, 256  # threads: up to FEW each has 2 * STEP bytes of the part; MANY where that is large
LARGE = 16 * 1024, 32 * 1024  # bytes of a part above which it is: of a block alone, of one of a cluster
BUSY = 768  # threads of a multiprocessor for whose registers there is room
CLUSTERS = (1, 2, 4, 8, 16)
SHARED, BLOCK_SHARED = 227 * 1024, 2048  # bytes of a multiprocessor; of a block beside its part


class LongPlan(NamedTuple):
    """A row in a cluster of so many blocks of `threads`, each of which has `columns` of it: STEP bytes for each thread,
    or a multiple. exact: they have no columns behind the row, and the kernel no masks. resident: registers must leave
    room for so many blocks of a multiprocessor; 0: for as many as they do. ahead: steps of weight and bias on their
    way. even: all rows begin at multiples of 16 bytes."""

    cluster: int
    columns: int
    threads: int
    exact: bool
    resident: int = 0
    ahead: int = 2
    even: bool = True


@lru_cache
def long_plan(
    n: int, dtype: DType, tensors: int = 1, clusters: tuple[int, ...] = CLUSTERS, factors: int = 0
) -> LongPlan | None:
    """The plan for rows of n elements, of so many tensors at a time, in one of these clusters; None where none of them
    holds a row. With two `factors`, a weight and a bias, a thread of a block alone has more of the row: what waits of
    them takes registers, and so many blocks would not have room. Where rows begin anywhere, weights are two vectors
    each, so that fewer of them wait, and a cap on registers only costs."""
    vector = VECTOR // dtype.bytes
    even = n % vector == 0
    part = PART if even else PART_ODD
    for cluster in clusters:
        share = math.ceil((n if even else n + vector - 1) / cluster)
        if share * dtype.bytes * tensors <= (WHOLE if cluster == 1 else part if cluster < clusters[-1] else MOST_PART):
            bytes_ = share * dtype.bytes
            if not even:
                threads = dividing(bytes_, FEW)
            elif factors > 1 and cluster == 1:
                threads = max(2 * WARP, min(MANY, math.ceil(bytes_ / (4 * STEP * WARP)) * WARP))
            else:
                wish = MANY if bytes_ > LARGE[cluster > 1] else min(FEW, math.ceil(bytes_ / (2 * STEP * WARP)) * WARP)
                threads = dividing(bytes_, wish)
            columns = math.ceil(bytes_ / (threads * STEP)) * threads * STEP // dtype.bytes
            if not even:
                return LongPlan(cluster, columns, threads, False, ahead=1, even=False)
            fit = SHARED // (columns * dtype.bytes * tensors + BLOCK_SHARED)
            resident = max(1, min(fit, BUSY // threads))
            return LongPlan(cluster, columns, threads, columns * cluster == n, resident)
    return None


def dividing(bytes_: int, wish: int) -> int:
    """So many threads, up to three times a wish or a third of it, whose steps reach the least behind a part's end; of
    several the nearest to the wish."""

    def cost(threads: int) -> tuple[int, float]:
        return math.ceil(bytes_ / (threads * STEP)) * threads, abs(math.log2(threads / wish))

    return min((t for t in range(WARP, MANY + 1, WARP) if wish <= 3 * t <= 9 * wish), key=cost)


class Part(NamedTuple):
    """The `columns` of a row, from `first` on, that this block of the cluster has: in shared memory, with 0 behind the
    row's end, which comes after `end` of them; unless `even`, also in front of the row, where `first` is below 0.
    `width`: how many of them the block's threads take at a time."""

    given: Any
    row: Any
    rank: Any
    first: Any
    end: Any
    cluster: int
    columns: int
    width: int
    exact: bool
    even: bool = True

    @property
    def steps(self) -> int:
        return self.columns // self.width

    def inside(self, j: Any, x: Any, otherwise: float) -> Any:
        """x, or the other number in columns that are none of the row's."""
        if self.exact:
            return x
        within = j < self.end if self.even else (self.first + j >= 0) & (j < self.end)
        return T.if_then_else(within, x, otherwise)

    @property
    def count(self) -> Any:
        """How many columns are the row's."""
        end = T.min(T.max(self.end, 0), self.columns)
        return end if self.even else end - T.max(-self.first, 0)

    def total(self, reduce: Any, element: Callable[[Any], Any]) -> Any:
        """element(j) of this block's columns, reduced."""
        mine = T.alloc_fragment((self.width,), T.float32)
        total = T.alloc_fragment((1,), T.float32)
        T.fill(mine, -T.infinity(T.float32) if reduce is T.reduce_max else 0.0)
        for k in T.serial(self.steps):
            for j in T.Parallel(self.width):
                x = element(k * self.width + j)
                mine[j] = T.max(mine[j], x) if reduce is T.reduce_max else mine[j] + x
        reduce(mine, total)
        return total[0]

    def gathered(self, *numbers: Any) -> Any:
        """These numbers of all blocks of the cluster, numbers × blocks."""
        every = T.alloc_fragment((len(numbers), self.cluster), T.float32)
        for i in T.Parallel(self.cluster):
            for at, number in enumerate(numbers):
                every[at, i] = T.if_then_else(i == self.rank, number, 0.0)
        T.all_reduce(every, "sum")
        return every

    def over_blocks(self, reduce: Any, element: Callable[[Any], Any]) -> Any:
        """element(i) of the cluster's blocks, reduced."""
        each = T.alloc_fragment((self.cluster,), T.float32)
        total = T.alloc_fragment((1,), T.float32)
        for i in T.Parallel(self.cluster):
            each[i] = element(i)
        reduce(each, total)
        return total[0]


def over_parts(work, tensors, cluster, columns, threads, exact, resident, ahead, even):
    """A kernel's body: work(part, *others) for each row, in all blocks of a cluster, with the row's part of the first
    tensor and, in shared memory, of the others."""
    M, N = tensors[0].shape
    if exact:
        T.assume(columns * cluster == N)
    with T.Kernel(M * cluster, cluster=cluster, threads=threads) as block:
        if resident:
            T.annotate_min_blocks_per_sm(resident)
        in_order()
        rank, row = block % cluster, block // cluster
        vector = VECTOR // tensors[0].dtype.bytes
        first = rank * columns if even else rank * columns + row * N // vector * vector - row * N
        parts = [T.alloc_shared((columns,), tensor.dtype) for tensor in tensors]
        for tensor, shared in zip(tensors, parts, strict=True):
            T.copy(tensor[row, first], shared)
        width = threads * STEP // tensors[0].dtype.bytes
        work(Part(parts[0], row, rank, first, N - first, cluster, columns, width, exact, even), *parts[1:])


def power(x, top, dtype):
    """exp(x - top) as exactly as a result of that dtype needs it: for 16 bits by one multiplication with addition,
    whose rounding of top · log2(e) all powers of a row have in common."""
    return T.exp(x - top) if dtype == T.float32 else T.exp2(x * LOG2_E - top * LOG2_E)


def greatest_and_sum(part):
    """The greatest element of the row, and the sum of exp(x - that); in a row of -inf, some number and 0 or NaN."""
    dtype = part.given.dtype
    top = part.total(T.reduce_max, lambda j: part.inside(j, T.cast(part.given[j], T.float32), -T.infinity(T.float32)))
    beside = T.if_then_else(top == -T.infinity(T.float32), 0.0, top)

    def of_sum(j):
        return part.inside(j, power(T.cast(part.given[j], T.float32), beside, dtype), 0.0)

    total = part.total(T.reduce_sum, of_sum)
    if part.cluster == 1:
        return beside, total
    every = part.gathered(top, total)
    greatest = part.over_blocks(T.reduce_max, lambda i: every[0, i])
    return greatest, part.over_blocks(T.reduce_sum, lambda i: every[1, i] * power(every[0, i], greatest, dtype))


@kernel
def long_softmax(
    X: T.Tensor(("M", "N"), None),
    Y: T.Tensor(("M", "N"), None),
    cluster=16,
    columns=32768,
    threads=256,
    exact=False,
    resident=0,
    ahead=0,
    even=True,
    log=False,
):
    """Y = softmax(X), or its logarithm."""

    def softmax(part):
        top, total = greatest_and_sum(part)
        scale = T.log(total) if log else 1.0 / total
        for k in T.serial(part.steps):
            for j in T.Parallel(part.width):
                x = T.cast(part.given[k * part.width + j], T.float32)
                y = x - top - scale if log else power(x, top, X.dtype) * scale
                Y[part.row, part.first + k * part.width + j] = y

    over_parts(softmax, [X], cluster, columns, threads, exact, resident, ahead, even)


def write_loss(part, label, ignore_index, lse, Loss):
    """The row's loss: from the block whose part has the label; from the first one, with a logit of 0, if none has."""
    at = label - part.first
    here = (at >= 0) & (at < T.min(part.end, part.columns))
    none = (label < 0) | (at >= part.end)
    if here | (none & (part.rank == 0)):
        logit = T.cast(part.given[T.min(T.max(at, 0), part.columns - 1)], T.float32)
        loss = lse - T.if_then_else(here, logit, 0.0)
        Loss[part.row] = T.if_then_else(label == ignore_index, 0.0, loss)


@kernel
def long_cross_entropy(
    X: T.Tensor(("M", "N"), None),
    Label: T.Tensor(("M",), None),
    Loss: T.Tensor(("M",), T.float32),
    ignore_index: T.int32,
    Lse: T.Tensor(("M",), T.float32) | None = None,
    DLoss: T.Tensor(("M",), T.float32) | None = None,
    cluster=16,
    columns=32768,
    threads=256,
    exact=False,
    resident=0,
    ahead=0,
    even=True,
):
    """Lse = log(sum(exp(X))) of each row; Loss = Lse - X[Label], 0 where the label is `ignore_index`. With DLoss, the
    gradient of the loss, X gives way to its own."""

    def cross_entropy(part):
        label, scale = Label[part.row], 0.0 if DLoss is None else DLoss[part.row]
        top, total = greatest_and_sum(part)
        lse = top + T.log(total)
        if Lse is not None and part.rank == 0:
            Lse[part.row] = lse
        if DLoss is not None:
            for k in T.serial(part.steps):
                for j in T.Parallel(part.width):
                    at = part.first + k * part.width + j
                    share = power(T.cast(part.given[k * part.width + j], T.float32), lse, X.dtype)
                    slope = (share - T.if_then_else(at == label, 1.0, 0.0)) * scale
                    X[part.row, at] = T.if_then_else(label != ignore_index, slope, 0.0)
        write_loss(part, label, ignore_index, lse, Loss)

    over_parts(cross_entropy, [X], cluster, columns, threads, exact, resident, ahead, even)


def mean_and_scale(part, N, eps, centered):
    """The row's mean, 0 unless `centered`, and 1 / sqrt(the mean of the squares around it + eps)."""
    count = T.cast(part.count, T.float32)
    share = 1.0 / T.cast(N, T.float32)
    mean = 0.0
    if centered:
        total = part.total(T.reduce_sum, lambda j: part.inside(j, T.cast(part.given[j], T.float32), 0.0))
        mean = total * share if part.cluster == 1 else total / T.max(count, 1.0)

    def square(j):
        d = T.cast(part.given[j], T.float32) - mean
        return part.inside(j, d * d, 0.0)

    squares = part.total(T.reduce_sum, square)
    if part.cluster > 1 and centered:
        every = part.gathered(mean, squares, count)
        mean = part.over_blocks(T.reduce_sum, lambda i: every[0, i] * every[2, i]) * share

        def around(i):
            d = every[0, i] - mean
            return every[1, i] + d * d * every[2, i]

        squares = part.over_blocks(T.reduce_sum, around)
    elif part.cluster > 1:
        every = part.gathered(squares)
        squares = part.over_blocks(T.reduce_sum, lambda i: every[0, i])
    return mean, T.rsqrt(squares * share + eps)


@lru_cache
def long_norm(centered: bool, weight: bool, bias: bool, residual: bool) -> Kernel:
    """Layer norm (`centered`) or RMS norm, with what it has of weight, bias and residual: Y = norm(X + R) · W + B,
    Z = X + R. For a tensor that it has not, X is passed."""
    matrix, vector = ("M", "N"), ("N",)

    @kernel
    def long_norm(
        X: T.Tensor(matrix, None),
        R: T.Tensor(matrix, None),
        W: T.Tensor(vector if weight else matrix, None),
        B: T.Tensor(vector if bias else matrix, None),
        Y: T.Tensor(matrix, None),
        Z: T.Tensor(matrix, None),
        eps: T.float32,
        cluster=16,
        columns=32768,
        threads=256,
        exact=False,
        resident=0,
        ahead=2,
        even=True,
    ):
        def fetched(part, k):
            found = []
            for tensor, there in ((W, weight), (B, bias)):
                if there:
                    step = T.alloc_fragment((part.width,), tensor.dtype)
                    T.copy(tensor[part.first + k * part.width], step)
                    found.append(step)
            return found

        def norm(part, added=None):
            waiting = []
            for k in T.unroll(min(ahead, part.steps)):
                waiting.append(fetched(part, k))
            if residual:
                for k in T.serial(part.steps):
                    for j in T.Parallel(part.width):
                        at = k * part.width + j
                        part.given[at] = T.cast(part.given[at], T.float32) + T.cast(added[at], T.float32)
                        Z[part.row, part.first + at] = part.given[at]
            mean, scale = mean_and_scale(part, X.shape[1], eps, centered)
            for k in T.unroll(part.steps):
                if k + ahead < part.steps:
                    waiting.append(fetched(part, k + ahead))
                factors = waiting.pop(0)
                for j in T.Parallel(part.width):
                    y = (T.cast(part.given[k * part.width + j], T.float32) - mean) * scale
                    y = y * T.cast(factors[0][j], T.float32) if weight else y
                    y = y + T.cast(factors[-1][j], T.float32) if bias else y
                    Y[part.row, part.first + k * part.width + j] = y

        over_parts(norm, [X, R] if residual else [X], cluster, columns, threads, exact, resident, ahead, even)

    return long_norm
