"""Attention in float64 NumPy, and how a result of `mt.ops.attention` is compared with it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import minitile as mt
from tests.ops.memory_bound.frames import HALF_ULP, bf16, exact, given, random


def reference(
    q, k, v, *, causal=False, window=(-1, -1), softcap=None, scale=None, sinks=None, q_lengths=None, k_lengths=None
):
    """Result and lse; q, k, v and the result are [batch, length, heads, d]."""
    (b, s, h, d), n = q.shape, k.shape[1]
    q, k, v = (exact(x) for x in (q, k, v))
    k, v = (np.repeat(x, h // x.shape[2], axis=2) for x in (k, v))
    out, lse = np.zeros((b, s, h, v.shape[3])), np.full((b, h, s), -np.inf)
    left, right = window
    right = 0 if causal else right
    for i in range(b):
        queries = s if q_lengths is None else int(q_lengths[i])
        keys = n if k_lengths is None else int(k_lengths[i])
        scores = np.einsum("shd,nhd->hsn", q[i, :queries], k[i, :keys]) * (scale or 1 / math.sqrt(d))
        scores = scores if softcap is None else softcap * np.tanh(scores / softcap)
        ahead = np.arange(keys)[None] - (np.arange(queries)[:, None] + keys - queries)
        scores[:, (ahead > right) & (right >= 0) | (ahead < -left) & (left >= 0)] = -np.inf
        if sinks is not None:
            extra = np.broadcast_to(exact(sinks)[:, None, None], (h, queries, 1))
            scores = np.concatenate((scores, extra), axis=2)
        if not scores.size or not scores.shape[2]:
            continue
        most = scores.max(-1, keepdims=True)
        most = np.where(np.isinf(most), 0, most)
        weights = np.exp(scores - most)
        sums = weights.sum(-1, keepdims=True)
        weights = weights / np.where(sums == 0, 1, sums)
        out[i, :queries] = np.einsum("hsn,nhd->shd", weights[:, :, :keys], v[i, :keys])
        with np.errstate(divide="ignore"):
            lse[i, :, :queries] = (np.log(sums) + most)[..., 0]
    return out, lse


def strided(x: Any, layout: str) -> Any:
    """[batch, length, heads, d] as an array of that layout in which others lie between its rows; those are NaN."""
    x = x if layout == "bshd" else x.swapaxes(1, 2)
    room = np.full((x.shape[0], x.shape[1] + 1, x.shape[2] + 2, x.shape[3]), np.nan, x.dtype)
    room[:, : x.shape[1], 1:-1] = x
    return given(room)[:, : x.shape[1], 1:-1]


def check(b, s, n, h, kv, d, e=None, *, dtype=bf16, layout="bshd", gaps=False, plan=None, packed=0, **options):
    """One call against float64: the result to what rounding weights and result leaves, lse to f32."""
    e = d if e is None else e
    q, k, v = (
        random(seed, *shape, dtype=dtype) for seed, shape in enumerate(((b, s, h, d), (b, n, kv, d), (b, n, kv, e)))
    )
    wanted, lse = reference(q, k, v, **options)
    named = {name: given(x) if isinstance(x, np.ndarray) else x for name, x in options.items()}
    views = [
        strided(x, layout) if gaps else given(x if layout == "bshd" else np.ascontiguousarray(x.swapaxes(1, 2)))
        for x in (q, k, v)
    ]
    found, sums = mt.ops.attention(*views, layout=layout, return_lse=True, plan=plan, **named)
    found = exact(found) if layout == "bshd" else exact(found).swapaxes(1, 2)
    assert found.shape == wanted.shape
    size = np.abs(wanted).max(initial=1e-3)
    assert np.abs(found - wanted).max(initial=0) <= 2.5 * HALF_ULP[dtype] * max(size, 1.0)
    assert not found[~np.isfinite(lse).swapaxes(1, 2)].any()
    np.testing.assert_array_equal(np.isfinite(exact(sums)), np.isfinite(lse))
    np.testing.assert_allclose(exact(sums), lse, rtol=2e-6, atol=2e-5)
