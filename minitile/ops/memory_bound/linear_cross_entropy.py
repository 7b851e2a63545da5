"""Cross entropy of a linear layer's results, which are never there as a whole.

Logits of some rows at a time are computed, give way to their gradient while their losses come about, and are multiplied
into the gradients of x and of the weight. So the memory that they take does not grow with the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from minitile.driver.dispatch import for_users
from minitile.ir.types import f32
from minitile.ops.memory_bound.cross_entropy import cross_entropy, cross_entropy_gradient, demand_classes
from minitile.ops.memory_bound.rows import Rows, indices_of, numbers_of, rows_of
from minitile.ops.multiply import matmul
from minitile.ops.operands import refused

ELEMENTS = 1 << 27  # logits that are there at a time
STEP = 128  # rows


@for_users
def linear_cross_entropy(
    x: Any,
    weight: Any,
    labels: Any,
    *,
    ignore_index: int = -100,
    gradient: bool = False,
    chunk: int | None = None,
    check_labels: bool = False,
) -> Any:
    """`cross_entropy(x · weightᵀ, labels)`, some rows at a time.

    Args:
        x: bf16 or f16, … × features.
        weight: of x's dtype, classes × features.
        labels: i64 or i32, of the leading dimensions of x; others than classes as in `cross_entropy`.
        ignore_index: the label of rows whose loss is 0, and which count for no mean.
        gradient: also compute those of the mean of the losses.
        chunk: rows at a time, a multiple of 8; by default as many as have 2^27 logits.
        check_labels: as of `cross_entropy`.

    Returns:
        The losses, f32, of the shape of labels; with `gradient` (losses, dx, dweight), these of the dtypes and shapes
        of x and weight, for the mean over the rows that are not ignored.

    Raises:
        LaunchArgumentError: arguments that do not fit.

    Example:
        ```py
        losses, dx, dweight = mt.ops.linear_cross_entropy(x, head, labels, gradient=True)
        ```
    """
    rows, head, label = _read(x, weight, labels, chunk)
    if check_labels:
        demand_classes(label, head.m, ignore_index)
    if gradient:
        counts = label != ignore_index
        share = rows.x.empty((rows.m,), f32)
        share[...] = counts / (counts.sum() + (counts.sum() == 0))
        return _gradients(rows, head, label, share, ignore_index, chunk)
    losses = rows.x.empty((rows.m,), f32)
    for part in _parts(rows, head, chunk):
        logits = matmul(rows.matrix[part], _transposed(head.matrix))
        losses[part] = cross_entropy(logits, label[part], ignore_index=ignore_index)
    return losses.reshape(rows.shape[:-1])


@for_users
def linear_cross_entropy_backward(
    dloss: Any, x: Any, weight: Any, labels: Any, *, ignore_index: int = -100, chunk: int | None = None
) -> Any:
    """The gradients of `linear_cross_entropy`, for which logits are computed again, some rows at a time.

    Args:
        dloss: the gradients of the losses, f32.
        x: as of `linear_cross_entropy`.
        weight: as of `linear_cross_entropy`.
        labels: as of `linear_cross_entropy`.
        ignore_index: as of `linear_cross_entropy`.
        chunk: as of `linear_cross_entropy`.

    Returns:
        (dx, dweight), of the dtypes and shapes of x and weight.

    Raises:
        LaunchArgumentError: arguments that do not fit.
    """
    rows, head, label = _read(x, weight, labels, chunk)
    return _gradients(rows, head, label, numbers_of("dloss", dloss, rows.shape[:-1]), ignore_index, chunk)[1:]


def _read(x: Any, weight: Any, labels: Any, chunk: int | None) -> tuple[Rows, Rows, Any]:
    """The rows, the weight and the labels. Raises LaunchArgumentError."""
    rows = rows_of("x", x)
    head = rows_of("weight", weight)
    if len(head.shape) != 2 or head.n != rows.n or head.dtype != rows.dtype or rows.dtype is f32:
        raise refused(
            f"x is {rows.dtype} of shape {rows.shape}, weight {head.dtype} of shape {head.shape}",
            "pass bf16 or f16, x of … × features and weight of classes × features",
        )
    if chunk is not None and (chunk < 8 or chunk % 8):
        raise refused(f"chunk is {chunk}", "it is a multiple of 8")
    return rows, head, indices_of("labels", labels, rows.shape[:-1])


def _parts(rows: Rows, head: Rows, chunk: int | None) -> Iterator[slice]:
    """Rows that are computed at a time."""
    chunk = chunk or max(STEP, ELEMENTS // max(1, head.m) // STEP * STEP)
    for first in range(0, rows.m, chunk):
        yield slice(first, first + chunk)


def _gradients(rows: Rows, head: Rows, label: Any, share: Any, ignore_index: int, chunk: int | None) -> Any:
    """The losses, and the gradients of x and of the weight where those of the losses are `share`."""
    losses, dx, total = rows.x.empty((rows.m,), f32), rows.x.empty((rows.m, rows.n), rows.dtype), None
    for part in _parts(rows, head, chunk):
        logits = matmul(rows.matrix[part], _transposed(head.matrix))
        losses[part] = cross_entropy_gradient(logits, label[part], share[part], ignore_index=ignore_index)
        matmul(logits, head.matrix, out=dx[part])
        more = matmul(_transposed(logits), rows.matrix[part], dtype="float32")
        total = more if total is None else total.__iadd__(more)
    dweight = rows.x.empty(head.shape, head.dtype)
    dweight[...] = 0 if total is None else total
    return losses.reshape(rows.shape[:-1]), dx.reshape(rows.shape), dweight


def _transposed(x: Any) -> Any:
    return x.swapaxes(0, 1)
