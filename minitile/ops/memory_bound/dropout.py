"""Dropout: each element is kept with probability 1 - p, and scaled so that its mean stays.

No mask is stored: element n of the array is kept or not by word n % 4 of Philox4x32-10 of the counter n // 4, so that
the backward pass, with the same seed, computes the same mask again. Reads and writes each element once.
"""

from __future__ import annotations

from typing import Any

import minitile.language as T
from minitile.driver.dispatch import for_users
from minitile.driver.jit import kernel
from minitile.ops.memory_bound.arguments import whole
from minitile.ops.memory_bound.rows import rows_of
from minitile.ops.operands import refused

BLOCK = 4096  # elements
THREADS = 256
WORDS = 1 << 32


@for_users
def dropout(x: Any, p: float, seed: int, *, offset: int = 0, out: Any = None) -> Any:
    """x / (1 - p) where an element is kept, which it is with probability 1 - p, else 0.

    Which are kept depends on seed, offset and an element's place in the array alone.

    Args:
        x: f32, bf16 or f16, of torch, CuPy, or NumPy (then the simulator computes); of one dimension or more.
        p: the probability of 0: 0 to 1, in steps of 2^-32.
        seed: an integer of 64 bits.
        offset: another one: calls with one seed and different offsets are independent.
        out: where the result goes, of x's shape and dtype, without gaps; may be x. Without it, a new array.

    Raises:
        LaunchArgumentError: arguments that do not fit.

    Example:
        ```py
        y = mt.ops.dropout(x, 0.1, seed=42)
        ```
    """
    try:
        probable = 0 <= p <= 1
    except TypeError:
        probable = False
    if not probable:
        raise refused(f"p is {p!r}", "it is a probability, from 0 to 1")
    seed, offset = (whole(what, x, -(1 << 63), (1 << 64) - 1) for what, x in (("seed", seed), ("offset", offset)))
    rows = rows_of("x", x)
    out, y = rows.result(out)
    count = rows.m * rows.n
    if count:
        limit = round(p * WORDS)
        scale = 0.0 if limit >= WORDS else 1 / (1 - limit / WORDS)
        mask = (1 << 64) - 1
        numbers = seed & mask, offset & mask, min(limit, WORDS - 1), scale
        drop(rows.matrix.reshape(count), y.reshape(count), *numbers, nothing=limit >= WORDS)
    return out


@for_users
def dropout_backward(gradient: Any, p: float, seed: int, *, offset: int = 0, out: Any = None) -> Any:
    """The gradient of x from that of `dropout(x, p, seed, offset=offset)`: the same mask and the same scale.

    Args:
        gradient: of the result; as x of `dropout`.
        p: as of `dropout`.
        seed: as of `dropout`.
        offset: as of `dropout`.
        out: where it goes, of the gradient's shape and dtype; may be the gradient. Without it, a new array.

    Raises:
        LaunchArgumentError: arguments that do not fit.
    """
    return dropout(gradient, p, seed, offset=offset, out=out)


@kernel
def drop(
    X: T.Tensor(("N",), None),
    Y: T.Tensor(("N",), None),
    seed: T.uint64,
    offset: T.uint64,
    limit: T.uint32,
    scale: T.float32,
    nothing=False,
    block=BLOCK,
    threads=THREADS,
):
    """Elements whose word is below `limit` become 0; with `nothing`, all do."""
    with T.Kernel(T.ceildiv(X.shape[0], block), threads=threads) as bx:
        x = T.alloc_fragment((block,), T.float32)
        bits = T.alloc_fragment((block,), T.uint32)
        T.copy(X[bx * block], x)
        T.random_bits(bits, seed, bx * (block // 4), offset)
        for i in T.Parallel(block):
            x[i] = 0.0 if nothing else T.if_then_else(bits[i] < limit, 0.0, x[i] * scale)
        T.copy(x, Y[bx * block])
