"""Cross entropy of rows of logits.

A row is read once, piece by piece. Each thread has the greatest of its own logits so far and the sum of their powers
beside it, and takes in a vector at a time; threads meet once, behind the last piece.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import minitile.language as T
from minitile.driver.dispatch import for_users
from minitile.driver.jit import Kernel, kernel
from minitile.ir.types import f32
from minitile.ops.memory_bound.pieces import PiecePlan, greatest_and_sum, piece_plan, split
from minitile.ops.memory_bound.rows import indices_of, refused, rows_of


@for_users
def cross_entropy(
    logits: Any, labels: Any, *, ignore_index: int = -100, return_lse: bool = False, plan: PiecePlan | None = None
) -> Any:
    """log(sum(exp(logits))) - logits[label] of each row: the loss of each, not their mean.

    Args:
        logits: f32, bf16 or f16, of torch, CuPy, or NumPy (then the simulator computes): … × classes.
        labels: i64 or i32, of the leading dimensions of logits: each is a class or `ignore_index`.
        ignore_index: the label of rows whose loss is 0.
        return_lse: also return log(sum(exp(logits))), which the gradient is made of.
        plan: how much of a row a block has at a time, instead of the table's choice.

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
    loss, lse = rows.empty(shape, f32), rows.empty(shape, f32)
    if not rows.n:
        raise refused("logits have no classes")
    if rows.m:
        x = split(rows.matrix)
        constants = (plan or piece_plan(rows.n, rows.dtype))._asdict()
        cross_entropy_rows(x.shape[2])(x, label, loss.reshape(-1), lse.reshape(-1), ignore_index, **constants)
    return (loss, lse) if return_lse else loss


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
