"""Rotary position embedding: each pair of a head's elements (a, b) becomes (a·cos - b·sin, b·cos + a·sin).

A pair is (x[j], x[j + D/2]), or (x[2j], x[2j + 1]) where `interleaved`. All heads of a token turn by the same angles: a
thread loads the cosines and sines of its columns once and has its vectors of several heads on their way. Queries and
keys go in one launch. The inverse, which is the gradient, is the same with sines of the other sign.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import minitile.language as T
from minitile.driver.dispatch import for_users
from minitile.driver.jit import Kernel, kernel
from minitile.ir.types import DType
from minitile.ops.memory_bound.arguments import FLOATS, INDICES, VECTOR, Argument, argument, tile_for
from minitile.ops.memory_bound.launches import in_order
from minitile.ops.operands import refused

THREADS = 256
VECTORS = 4  # that a thread loads, half of them of each side of the pairs
MOST_HEADS = 32


def turned(a, b, cos, sin, inverse):
    """The pair after the rotation, or after its inverse."""
    if inverse:
        return a * cos + b * sin, b * cos - a * sin
    return a * cos - b * sin, b * cos + a * sin


def rotate_halves(X, Y, Cos, Sin, position_of, token, head, tokens, heads, pairs, inverse):
    """X and Y are tokens × heads × 2 × pairs."""
    for h, t, j in T.Parallel(heads, tokens, pairs):
        a = T.cast(X[token + t, head + h, 0, j], T.float32)
        b = T.cast(X[token + t, head + h, 1, j], T.float32)
        cos = T.cast(Cos[position_of(token + t), j], T.float32)
        sin = T.cast(Sin[position_of(token + t), j], T.float32)
        first, second = turned(a, b, cos, sin, inverse)
        Y[token + t, head + h, 0, j] = first
        Y[token + t, head + h, 1, j] = second


def rotate_interleaved(X, Y, Cos, Sin, position_of, token, head, tokens, heads, pairs, inverse):
    """X and Y are tokens × heads × 1 × 2·pairs; they are loaded and stored as they lie, and sorted in registers."""
    x = T.alloc_fragment((heads, tokens, 2 * pairs), X.dtype)
    even = T.alloc_fragment((heads, tokens, pairs), T.float32)
    odd = T.alloc_fragment((heads, tokens, pairs), T.float32)
    for h, t, i in T.Parallel(heads, tokens, 2 * pairs):
        x[h, t, i] = X[token + t, head + h, 0, i]
    for h, t, j in T.Parallel(heads, tokens, pairs):
        cos = T.cast(Cos[position_of(token + t), j], T.float32)
        sin = T.cast(Sin[position_of(token + t), j], T.float32)
        a, b = T.cast(x[h, t, 2 * j], T.float32), T.cast(x[h, t, 2 * j + 1], T.float32)
        first, second = turned(a, b, cos, sin, inverse)
        even[h, t, j] = first
        odd[h, t, j] = second
    for h, t, i in T.Parallel(heads, tokens, 2 * pairs):
        Y[token + t, head + h, 0, i] = T.if_then_else(i % 2 == 0, even[h, t, i // 2], odd[h, t, i // 2])


@lru_cache
def rotary_kernel(dtype: DType, table: DType, positions: DType | None, interleaved: bool, inverse: bool) -> Kernel:
    """RQ and RK: Q and K rotated. Token s has position Positions[s mod length] or, without positions, s mod length (any
    table is passed for them). pairs: a power of two, of which a head has at most so many."""
    rotate = rotate_interleaved if interleaved else rotate_halves
    queries, keys = (("S", heads, "I", "D") for heads in ("H", "G"))
    shape, integer = (("L",), positions) if positions else (("P", "J"), table)

    @kernel
    def rotary(
        Q: T.Tensor(queries, dtype), K: T.Tensor(keys, dtype), Cos: T.Tensor(("P", "J"), table),
        Sin: T.Tensor(("P", "J"), table), Positions: T.Tensor(shape, integer),
        RQ: T.Tensor(queries, dtype), RK: T.Tensor(keys, dtype), length: T.int32,
        tokens=2, heads=32, key_tokens=8, key_heads=8, pairs=64, threads=256,
    ):  # fmt: skip
        S, H, G = Q.shape[0], Q.shape[1], K.shape[1]
        across, key_across = T.ceildiv(H, heads), T.ceildiv(G, key_heads)
        query_blocks = across * T.ceildiv(S, tokens)

        def position_of(s):
            return Positions[s % length] if positions else s % length

        with T.Kernel(query_blocks + key_across * T.ceildiv(S, key_tokens), threads=threads) as block:
            in_order()
            if block < query_blocks:
                token, head = block // across * tokens, block % across * heads
                rotate(Q, RQ, Cos, Sin, position_of, token, head, tokens, heads, pairs, inverse)
            else:
                token = (block - query_blocks) // key_across * key_tokens
                head = (block - query_blocks) % key_across * key_heads
                rotate(K, RK, Cos, Sin, position_of, token, head, key_tokens, key_heads, pairs, inverse)

    return rotary


class RotaryPlan(NamedTuple):
    """A block of `threads` rotates so many tokens of so many heads, of the queries or of the keys; `pairs`: of a head,
    rounded up to a power of two. To sweep: VECTORS 2, 4, 8; MOST_HEADS 4, 8, 16, 32."""

    tokens: int
    heads: int
    key_tokens: int
    key_heads: int
    pairs: int
    threads: int

    @property
    def constants(self) -> dict[str, Any]:
        """As the kernel's compile-time arguments."""
        return self._asdict()


@lru_cache
def rotary_plan(heads: int, key_heads: int, pairs: int, size: int) -> RotaryPlan:
    """For heads of so many pairs of elements of `size` bytes."""
    width = 1 << max(0, pairs - 1).bit_length()
    at_once = max(1, THREADS * VECTORS * VECTOR // (2 * size * width))
    own, key_own = (tile_for(n, min(at_once, MOST_HEADS), THREADS, 1).columns for n in (heads, key_heads))
    return RotaryPlan(max(1, at_once // own), own, max(1, at_once // key_own), key_own, width, THREADS)


@for_users
def rotary(
    q: Any,
    k: Any,
    cos: Any,
    sin: Any,
    positions: Any = None,
    *,
    interleaved: bool = False,
    inverse: bool = False,
    plan: RotaryPlan | None = None,
) -> Any:
    """Rotary position embedding of queries and keys; in f32, rounded once.

    Args:
        q: […, S, H, D] of f32, bf16 or f16, of torch, CuPy, or NumPy (then the simulator computes).
        k: […, S, G, D], the same tokens; or None.
        cos: the cosines of each position, P × D/2, of f32, bf16 or f16.
        sin: the sines, of cos's shape and dtype.
        positions: […, S] or S, int32 or int64, each from 0 to P - 1; without them, a token's position is its place in
            S.
        interleaved: pairs are neighbours (GPT-J); else a pair is an element of a head's first half and one of its
            second (GPT-NeoX, Llama).
        inverse: rotate back; of the gradients of the results, this gives those of q and k.
        plan: instead of the one that `rotary_plan` chooses.

    Returns:
        q and k rotated, new arrays; without k, q rotated.

    Raises:
        LaunchArgumentError: arguments that do not fit.

    Example:
        ```py
        q, k = mt.ops.rotary(q, k, cos, sin)
        ```
    """
    query = argument("q", q)
    if len(query.shape) < 3 or query.shape[-1] % 2:
        raise refused(f"q has shape {query.shape}", "it is […, tokens, heads, an even number of elements]")
    *outer, tokens, _, width = query.shape
    key = None if k is None else argument("k", k, (query.dtype.name,))
    if key is not None:
        query.together("k", key.device)
        if (*key.shape[:-2], *key.shape[-1:]) != (*outer, tokens, width):
            raise refused(f"q has shape {query.shape} and k {key.shape}", "they differ in the number of heads alone")
    cosine = argument("cos", cos, FLOATS)
    query.together("cos", cosine.device)
    if len(cosine.shape) != 2 or 2 * cosine.shape[1] != width:
        raise refused(f"cos has shape {cosine.shape}", f"it is positions × {width // 2}, half of a head's elements")
    sine = cosine.like("sin", sin)
    if positions is None and tokens > cosine.shape[0]:
        raise refused(
            f"cos has {cosine.shape[0]} positions", f"there are {tokens} tokens, each at its place among them"
        )
    place = None if positions is None else _positions(positions, query, (*outer, tokens))
    rotated = [x.empty(x.shape) for x in (query, key) if x is not None]
    if math.prod(query.shape) or (key is not None and math.prod(key.shape)):
        _launch(query, key, cosine, sine, place, rotated, interleaved, inverse, plan)
    return rotated[0] if key is None else tuple(rotated)


def _positions(positions: Any, query: Argument, shape: tuple[int, ...]) -> Argument:
    """One for each token."""
    given = argument("positions", positions, INDICES)
    query.together("positions", given.device)
    if given.shape not in (shape, shape[-1:]):
        raise refused(f"positions has shape {given.shape}", f"it is {shape}, or {shape[-1:]}")
    return given


def _launch(
    query: Argument, key: Argument | None, cosine: Argument, sine: Argument, place: Argument | None, rotated: list[Any],
    interleaved: bool, inverse: bool, plan: RotaryPlan | None,
) -> None:  # fmt: skip
    *outer, tokens, heads, width = query.shape
    total, groups = math.prod((*outer, tokens)), 0 if key is None else key.shape[-2]
    shape = (1, width) if interleaved else (2, width // 2)
    q, rq = query.view(total, heads, *shape), rotated[0].reshape(total, heads, *shape)
    if key is None:
        k, rk = (query.empty((total, 0, *shape)) for _ in range(2))
    else:
        k, rk = key.view(total, groups, *shape), rotated[1].reshape(total, groups, *shape)
    turn = rotary_kernel(query.dtype, cosine.dtype, place.dtype if place else None, interleaved, inverse)
    length = math.prod(place.shape) if place else tokens
    positions = place.view(length) if place else cosine.given
    chosen = plan or rotary_plan(heads, groups, width // 2, query.dtype.bytes)
    turn(q, k, cosine.given, sine.given, positions, rq, rk, length, **chosen.constants)
