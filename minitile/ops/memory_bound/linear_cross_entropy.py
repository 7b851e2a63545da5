"""Cross entropy of a linear layer's results, which are never there as a whole.

Logits of some rows at a time are computed, give way to their gradient while their losses come about, and are multiplied
into the gradients of x and of the weight. So the memory that they take does not grow with the rows.
"""

from __future__ import annotations

from typing import Any

from minitile.driver.dispatch import for_users
from minitile.ir.types import f32
from minitile.ops.memory_bound.arguments import refused
from minitile.ops.memory_bound.cross_entropy import cross_entropy, cross_entropy_gradient
from minitile.ops.memory_bound.rows import indices_of, rows_of
from minitile.ops.multiply import matmul

ELEMENTS = 1 << 27  # logits that are there at a time
STEP = 128  # rows


@for_users
def linear_cross_entropy(
    x: Any, weight: Any, labels: Any, *, ignore_index: int = -100, gradient: bool = False, chunk: int | None = None
) -> Any:
    """`cross_entropy(x · weightᵀ, labels)`, some rows at a time.

    Args:
        x: bf16 or f16, … × features.
        weight: of x's dtype, classes × features.
        labels: i64 or i32, of the leading dimensions of x.
        ignore_index: the label of rows whose loss is 0, and which count for no mean.
        gradient: also compute those of the mean of the losses.
        chunk: rows at a time, a multiple of 8; by default as many as have 2^27 logits.

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
    rows = rows_of("x", x)
    head = rows_of("weight", weight)
    if len(head.shape) != 2 or head.n != rows.n or head.dtype != rows.dtype or rows.dtype is f32:
        raise refused(
            f"x is {rows.dtype} of shape {rows.shape}, weight {head.dtype} of shape {head.shape}",
            "pass bf16 or f16, x of … × features and weight of classes × features",
        )
    if chunk is not None and (chunk < 8 or chunk % 8):
        raise refused(f"chunk is {chunk}", "it is a multiple of 8")
    label = indices_of("labels", labels, rows.shape[:-1])
    chunk = chunk or max(STEP, ELEMENTS // max(1, head.m) // STEP * STEP)
    losses = rows.empty((rows.m,), f32)
    share, total = rows.empty((rows.m,), f32), None
    dx = rows.empty((rows.m, rows.n), rows.dtype) if gradient else None
    if gradient:
        counts = label != ignore_index
        share[...] = counts / (counts.sum() + (counts.sum() == 0))
    for first in range(0, rows.m, chunk):
        part = slice(first, first + chunk)
        logits = matmul(rows.matrix[part], _transposed(head.matrix))
        if dx is None:
            losses[part] = cross_entropy(logits, label[part], ignore_index=ignore_index)
            continue
        losses[part] = cross_entropy_gradient(logits, label[part], share[part], ignore_index=ignore_index)
        matmul(logits, head.matrix, out=dx[part])
        more = matmul(_transposed(logits), rows.matrix[part], dtype="float32")
        total = more if total is None else total.__iadd__(more)
    losses = losses.reshape(rows.shape[:-1])
    if dx is None:
        return losses
    dweight = rows.empty(head.shape, head.dtype)
    dweight[...] = 0 if total is None else total
    return losses, dx.reshape(rows.shape), dweight


def _transposed(x: Any) -> Any:
    return x.swapaxes(0, 1)
