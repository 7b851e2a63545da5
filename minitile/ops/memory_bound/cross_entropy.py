"""Cross entropy of rows of logits.

Rows wait in the shared memory of a cluster's blocks (`long_rows.py`) and are read and written once. Short ones, and
those of targets without clusters, go piece by piece: each thread has the greatest of its own logits so far and the sum
of their powers beside it, and takes in a vector at a time; threads meet once, behind the last piece. Where rows are not
of whole vectors, registers hold short ones (`whole_rows`). For a gradient the row is then read again, out of the cache.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import minitile.language as T
from minitile.driver.dispatch import for_users
from minitile.driver.jit import Kernel, kernel
from minitile.ir.types import f32
from minitile.ops.memory_bound.long_rows import LongPlan, long_cross_entropy
from minitile.ops.memory_bound.pieces import (
    LEAST,
    VECTOR,
    PiecePlan,
    gradient_plan,
    greatest_and_sum,
    piece_plan,
    raised,
    split,
)
from minitile.ops.memory_bound.rows import greatest_of_rows, indices_of, numbers_of, over_rows, rows_of
from minitile.ops.operands import refused


@for_users
def cross_entropy(
    logits: Any,
    labels: Any,
    *,
    ignore_index: int = -100,
    return_lse: bool = False,
    check_labels: bool = False,
    plan: PiecePlan | LongPlan | None = None,
) -> Any:
    """log(sum(exp(logits))) - logits[label] of each row: the loss of each, not their mean.

    Args:
        logits: f32, bf16 or f16, of torch, CuPy, or NumPy (then the simulator computes): … × classes.
        labels: i64 or i32, of the leading dimensions of logits: each is a class or `ignore_index`. Another one counts
            as a class with a logit of 0, so its row's loss is lse, and its gradient that of lse.
        ignore_index: the label of rows whose loss is 0.
        return_lse: also return log(sum(exp(logits))), which the gradient is made of.
        check_labels: stop at a label that is neither, as torch does, by one more launch: `T.device_assert` says which
            rule is broken, and a GPU's context is of no use afterwards.
        plan: how rows are spread over blocks, instead of the table's choice.

    Returns:
        The losses, f32, of the shape of labels; with `return_lse` (losses, lse).

    Raises:
        LaunchArgumentError: arguments that do not fit.

    Example:
        ```py
        loss = mt.ops.cross_entropy(logits, labels).mean()
        ```
    """
    rows = rows_of("logits", logits)
    shape = rows.shape[:-1]
    label = indices_of("labels", labels, shape)
    loss, lse = rows.x.empty(shape, f32), rows.x.empty(shape, f32)
    if not rows.n:
        raise refused("logits have no classes")
    if check_labels:
        demand_classes(label, rows.n, ignore_index)
    plan = plan or rows.waiting_plan(odd=True)
    whole = rows.plan() if plan is None and rows.n % VECTOR else None
    if rows.m and isinstance(plan, LongPlan):
        long_cross_entropy(rows.matrix, label, loss.reshape(-1), ignore_index, lse.reshape(-1), **plan._asdict())
    elif rows.m and whole is not None:
        whole_rows(rows.matrix, label, loss.reshape(-1), lse.reshape(-1), ignore_index, **whole.constants(rows.n))
    elif rows.m:
        x = split(rows.matrix)
        constants = (plan or piece_plan(rows.n, rows.dtype, rows.room.lanes))._asdict()
        cross_entropy_rows(x.shape[2])(x, label, loss.reshape(-1), lse.reshape(-1), ignore_index, **constants)
    return (loss, lse) if return_lse else loss


@for_users
def cross_entropy_backward(
    dloss: Any, logits: Any, labels: Any, lse: Any, *, ignore_index: int = -100, dlse: Any = None, out: Any = None
) -> Any:
    """The gradient of `cross_entropy`: (exp(logits - lse) - [column = label]) · dloss, 0 in rows that are ignored.
    Where lse goes into the loss as well, exp(logits - lse) · dlse is added, in all rows.

    Args:
        dloss: the gradients of the losses, f32.
        logits: as of `cross_entropy`.
        labels: as of `cross_entropy`.
        lse: what `cross_entropy(…, return_lse=True)` gave.
        ignore_index: as of `cross_entropy`.
        dlse: the gradients of lse, f32, if it has any.
        out: where the result goes, of the shape and dtype of logits: logits themselves by default, whose gradient is
            then in their place.

    Returns:
        out.

    Raises:
        LaunchArgumentError: arguments that do not fit.

    Example:
        ```py
        loss, lse = mt.ops.cross_entropy(logits, labels, return_lse=True)
        mt.ops.cross_entropy_backward(dloss, logits, labels, lse)
        ```
    """
    rows = rows_of("logits", logits)
    out, dx = rows.result(logits if out is None else out)
    label = indices_of("labels", labels, rows.shape[:-1])
    scale, lse = numbers_of("dloss", dloss, rows.shape[:-1]), numbers_of("lse", lse, rows.shape[:-1])
    more = None if dlse is None else numbers_of("dlse", dlse, rows.shape[:-1])
    if rows.m * rows.n:
        backward_rows(rows.matrix, label, lse, scale, dx, ignore_index, more)
    return out


@for_users
def cross_entropy_gradient(
    logits: Any,
    labels: Any,
    dloss: Any,
    *,
    ignore_index: int = -100,
    check_labels: bool = False,
    plan: PiecePlan | LongPlan | None = None,
) -> Any:
    """`cross_entropy` and its backward in one: the losses, while logits give way to their gradient.

    Args:
        logits: as of `cross_entropy`, without gaps; overwritten.
        labels: as of `cross_entropy`.
        dloss: the gradients that the losses will have, f32: 1 / rows for their mean.
        ignore_index: as of `cross_entropy`.
        check_labels: as of `cross_entropy`.
        plan: as of `cross_entropy`.

    Returns:
        The losses, f32, of the shape of labels.

    Raises:
        LaunchArgumentError: arguments that do not fit.

    Example:
        ```py
        loss = mt.ops.cross_entropy_gradient(logits, labels, dloss)  # logits is now their gradient
        ```
    """
    rows = rows_of("logits", logits)
    rows.result(logits, what="logits")
    shape = rows.shape[:-1]
    label, scale = indices_of("labels", labels, shape), numbers_of("dloss", dloss, shape)
    loss = rows.x.empty(shape, f32)
    if not rows.n:
        raise refused("logits have no classes")
    if check_labels:
        demand_classes(label, rows.n, ignore_index)
    plan = plan or rows.waiting_plan(odd=True)
    if rows.m and isinstance(plan, LongPlan):
        long_cross_entropy(rows.matrix, label, loss.reshape(-1), ignore_index, DLoss=scale, **plan._asdict())
    elif rows.m:
        x = split(rows.matrix)
        constants = (plan or gradient_plan(rows.n, rows.dtype, rows.room.lanes))._asdict()
        gradient_rows(x.shape[2])(x, label, scale, loss.reshape(-1), ignore_index, **constants)
    return loss


def demand_classes(label: Any, classes: int, ignore_index: int) -> None:
    """Stops, when it is launched, at a label that is neither a class nor `ignore_index`."""
    if label.shape[0]:
        labels_are_classes(label, classes, ignore_index)


@kernel
def labels_are_classes(Label: T.Tensor(("M",), None), classes: T.int32, ignore_index: T.int32, threads=256):
    M = Label.shape[0]
    with T.Kernel(T.ceildiv(M, threads), threads=threads) as block:
        i = block * threads + T.get_thread_binding()
        if i < M:
            label = Label[i]
            fits = (label == ignore_index) | ((label >= 0) & (label < classes))
            T.device_assert(fits, "cross entropy: a label is neither a class nor ignore_index")


@kernel
def whole_rows(
    X: T.Tensor(("M", "N"), None),
    Label: T.Tensor(("M",), None),
    Loss: T.Tensor(("M",), T.float32),
    Lse: T.Tensor(("M",), T.float32),
    ignore_index: T.int32,
    rows=1,
    columns=4096,
    threads=128,
    exact=False,
    stages=0,
    blocks=0,
):
    """As `cross_entropy_rows`, for short rows that no groups of a vector divide: registers hold them."""

    def loss(first, given):
        x, top = greatest_of_rows(given, X.shape[1], rows, columns)
        total = T.alloc_fragment((rows,), T.float32)
        for i, j in T.Parallel(rows, columns):
            x[i, j] = raised(x[i, j] - T.max(top[i], LEAST), X.dtype)
        T.reduce_sum(x, total, dim=1)
        for i in T.Parallel(rows):
            label = Label[first + i]
            lse = T.log(total[i]) + T.max(top[i], LEAST)
            Lse[first + i] = lse
            chosen = T.cast(X[first + i, label], T.float32)
            Loss[first + i] = T.if_then_else(label == ignore_index, 0.0, lse - chosen)

    over_rows(loss, [X], rows, columns, threads, exact, stages, blocks)


@lru_cache
def cross_entropy_rows(V: int) -> Kernel:
    """For rows of groups of V logits. A label that is no class, nor `ignore_index`, counts as a logit of 0."""

    @kernel
    def cross_entropy_rows(
        X: T.Tensor(("M", "G", V), None),
        Label: T.Tensor(("M",), None),
        Loss: T.Tensor(("M",), T.float32),
        Lse: T.Tensor(("M",), T.float32),
        ignore_index: T.int32,
        vectors=2,
        threads=256,
    ):
        with T.Kernel(X.shape[0], threads=threads) as row:
            label = Label[row]
            chosen = T.cast(X[row, label // V, label % V], T.float32)
            top, total = greatest_and_sum(X, row, vectors, threads)
            lse = T.log(total) + top
            Lse[row] = lse
            Loss[row] = T.if_then_else(label == ignore_index, 0.0, lse - chosen)

    return cross_entropy_rows


@kernel
def backward_rows(
    X: T.Tensor(("M", "N"), None),
    Label: T.Tensor(("M",), None),
    Lse: T.Tensor(("M",), T.float32),
    DLoss: T.Tensor(("M",), T.float32),
    DX: T.Tensor(("M", "N"), None),
    ignore_index: T.int32,
    DLse: T.Tensor(("M",), T.float32) | None = None,
    columns=4096,
    threads=256,
):
    M, N = X.shape
    with T.Kernel(T.ceildiv(N, columns), M, threads=threads) as (part, row):
        label, lse, scale = Label[row], Lse[row], DLoss[row]
        for j in T.Parallel(columns):
            at = part * columns + j
            x = T.cast(X[row, at], T.float32) - lse
            d = slope(x, at == label, label != ignore_index, scale, X.dtype)
            DX[row, at] = d if DLse is None else d + raised(x, X.dtype) * DLse[row]


def slope(x, chosen, counts, scale, dtype):
    """The gradient of a logit, from the logarithm of its share."""
    return T.if_then_else(counts, (raised(x, dtype) - T.if_then_else(chosen, 1.0, 0.0)) * scale, 0.0)


@lru_cache
def gradient_rows(V: int) -> Kernel:
    """As `cross_entropy_rows`; then the row goes backwards, since the cache has its end, and becomes its gradient."""

    @kernel
    def gradient_rows(
        X: T.Tensor(("M", "G", V), None),
        Label: T.Tensor(("M",), None),
        DLoss: T.Tensor(("M",), T.float32),
        Loss: T.Tensor(("M",), T.float32),
        ignore_index: T.int32,
        vectors=2,
        threads=512,
    ):
        M, G, _ = X.shape
        groups = vectors * threads
        steps = T.ceildiv(G, groups)
        with T.Kernel(M, threads=threads) as row:
            label, scale = Label[row], DLoss[row]
            chosen = T.cast(X[row, label // V, label % V], T.float32)
            top, total = greatest_and_sum(X, row, vectors, threads)
            lse = T.log(total) + top
            x = T.alloc_fragment((groups, V), T.float32)
            for k in T.serial(steps):
                first = (steps - 1 - k) * groups
                for g, v in T.Parallel(groups, V):
                    x[g, v] = T.cast(X[row, first + g, v], T.float32) - lse
                for g, v in T.Parallel(groups, V):
                    here = (first + g) * V + v == label
                    X[row, first + g, v] = slope(x[g, v], here, label != ignore_index, scale, X.dtype)
            Loss[row] = T.if_then_else(label == ignore_index, 0.0, lse - chosen)

    return gradient_rows
