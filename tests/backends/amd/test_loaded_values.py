"""Page indices, conditions and trip counts that come out of memory, around copies that are under way: what all lanes
share must be scalar where branches and descriptors need it, in every form that a program can give it."""

from __future__ import annotations

from itertools import takewhile

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from tests.examples.thinned import thinned

pytest.importorskip("llvmlite")
BF16 = ml_dtypes.bfloat16
PAGES, ROWS, DEPTH = 7, 32, 64
TABLE, OTHER = [3, 5, 1, 6, 0], [2, 0, 4, 1, 3]


# Each body adds q · pageᵀ of the pages that BODIES gives, by their numbers in the tables t and u.


def serial(cache, t, u, f, q, s, r, acc, stages):
    for i in T.serial(t.shape[0]):
        T.copy(cache[t[i], 0, 0], s)
        T.gemm(q, s, acc, transpose_B=True)


def pipelined(cache, t, u, f, q, s, r, acc, stages):
    for i in T.Pipelined(t.shape[0], num_stages=stages):
        T.copy(cache[t[i], 0, 0], s)
        T.gemm(q, s, acc, transpose_B=True)


def named(cache, t, u, f, q, s, r, acc, stages):
    for i in T.Pipelined(t.shape[0], num_stages=stages):
        p = t[i]
        T.copy(cache[p : p + 1, 0:ROWS, 0:DEPTH], s)
        T.gemm(q, s, acc, transpose_B=True)


def from_shared(cache, t, u, f, q, s, r, acc, stages):
    table = T.alloc_shared((8,), t.dtype)
    T.copy(t, table)
    for i in T.Pipelined(t.shape[0], num_stages=stages):
        T.copy(cache[table[i], 0, 0], s)
        T.gemm(q, s, acc, transpose_B=True)


def two_tables(cache, t, u, f, q, s, r, acc, stages):
    for i in T.Pipelined(t.shape[0], num_stages=stages):
        T.copy(cache[t[i], 0, 0], s)
        T.copy(cache[u[i], 0, 0], r)
        T.gemm(q, s, acc, transpose_B=True)
        T.gemm(q, r, acc, transpose_B=True)


def nested(cache, t, u, f, q, s, r, acc, stages):
    for i in T.Pipelined(t.shape[0], num_stages=stages):
        T.copy(cache[t[u[i]], 0, 0], s)
        T.gemm(q, s, acc, transpose_B=True)


def chain(cache, t, u, f, q, s, r, acc, stages):
    p = t[0]
    for _ in T.serial(t.shape[0]):
        T.copy(cache[p, 0, 0], s)
        T.gemm(q, s, acc, transpose_B=True)
        p = u[p]


def chained(n):
    pages = [TABLE[0]]
    while len(pages) < n:
        pages.append(OTHER[pages[-1]])
    return pages


def until_zero(cache, t, u, f, q, s, r, acc, stages):
    i = 0
    while t[i] != 0:
        T.copy(cache[t[i], 0, 0], s)
        T.gemm(q, s, acc, transpose_B=True)
        i += 1


def while_below(cache, t, u, f, q, s, r, acc, stages):
    i = 0
    while i < t.shape[0]:
        T.copy(cache[t[i], 0, 0], s)
        T.gemm(q, s, acc, transpose_B=True)
        i += 1


def leaves(cache, t, u, f, q, s, r, acc, stages):
    for i in T.serial(t.shape[0]):
        if t[i] == 6:
            break
        if t[i] == 5:
            continue
        T.copy(cache[t[i], 0, 0], s)
        T.gemm(q, s, acc, transpose_B=True)


def sparse(cache, t, u, f, q, s, r, acc, stages):
    for i in T.Pipelined(t.shape[0], num_stages=stages):
        if t[i] > 2:
            T.copy(cache[i, 0, 0], s)
            T.gemm(q, s, acc, transpose_B=True)


def either(cache, t, u, f, q, s, r, acc, stages):
    for i in T.Pipelined(t.shape[0], num_stages=stages):
        T.copy(cache[t[i], 0, 0], s)
        if u[i] % 2 == 0:
            T.copy(cache[u[i], 0, 0], r)
            T.gemm(q, r, acc, transpose_B=True)
        T.gemm(q, s, acc, transpose_B=True)


def loaded_bounds(cache, t, u, f, q, s, r, acc, stages):
    for i in T.Pipelined(T.cast(t[2], T.int32), T.cast(t[1], T.int32), num_stages=stages):
        T.copy(cache[u[i % 5], 0, 0], s)
        T.gemm(q, s, acc, transpose_B=True)


def floats(cache, t, u, f, q, s, r, acc, stages):
    """What goes through vector registers because there is no scalar unit for it."""
    for i in T.Pipelined(t.shape[0], num_stages=stages):
        if f[i] * 2.0 > 3.0:
            T.copy(cache[T.cast(f[i], T.int32), 0, 0], s)
            T.gemm(q, s, acc, transpose_B=True)


def divided(cache, t, u, f, q, s, r, acc, stages):
    for i in T.Pipelined(t.shape[0], num_stages=stages):
        T.copy(cache[t[i] // (u[i] + 1), 0, 0], s)
        T.gemm(q, s, acc, transpose_B=True)


BODIES = {
    serial: lambda: TABLE,
    pipelined: lambda: TABLE,
    named: lambda: TABLE,
    from_shared: lambda: TABLE,
    two_tables: lambda: TABLE + OTHER,
    nested: lambda: [TABLE[i] for i in OTHER],
    chain: lambda: chained(5),
    until_zero: lambda: [*takewhile(bool, TABLE)],
    while_below: lambda: TABLE,
    leaves: lambda: [3, 1],
    sparse: lambda: [i for i, page in enumerate(TABLE) if page > 2],
    either: lambda: TABLE + [page for page in OTHER if page % 2 == 0],
    loaded_bounds: lambda: [OTHER[i % 5] for i in range(1, 5)],
    floats: lambda: [page for page in TABLE if page * 2 > 3],
    divided: lambda: [a // (b + 1) for a, b in zip(TABLE, OTHER, strict=True)],
}


def kernel_of(body, index):
    @mt.kernel
    def kernel(
        cache: T.Tensor(("P", ROWS, DEPTH), T.bfloat16),
        t: T.Tensor(("n",), index),
        u: T.Tensor(("n",), index),
        f: T.Tensor(("n",), T.float32),
        Q: T.Tensor((16, DEPTH), T.bfloat16),
        out: T.Tensor((16, ROWS), T.float32),
        stages=2,
    ):
        with T.Kernel(1, threads=128):
            q = T.alloc_shared((16, DEPTH), T.bfloat16)
            s, r = T.alloc_shared((ROWS, DEPTH), T.bfloat16), T.alloc_shared((ROWS, DEPTH), T.bfloat16)
            acc = T.alloc_fragment((16, ROWS), T.float32)
            T.copy(Q, q)
            T.clear(acc)
            body(cache, t, u, f, q, s, r, acc, stages)
            T.copy(acc, out)

    return kernel


def check(body, index, numpy_index, target, stages, schedules=("lazy", "random")):
    rng = np.random.default_rng(3)
    cache, q = (rng.integers(-3, 4, shape).astype(BF16) for shape in ((PAGES, ROWS, DEPTH), (16, DEPTH)))
    t, u, f = np.array(TABLE, numpy_index), np.array(OTHER, numpy_index), np.array(TABLE, np.float32)
    out = np.zeros((16, ROWS), np.float32)
    kernel = kernel_of(body, index).compile(cache, t, u, f, q, out, target=target, stages=stages)
    want = sum(q.astype(np.float32) @ cache[page].astype(np.float32).T for page in BODIES[body]())
    for schedule in schedules:
        out[:] = np.nan
        kernel.simulate(cache, t, u, f, q, out, schedule=schedule, seed=1)
        assert np.array_equal(out, want)
    return kernel


@pytest.mark.parametrize(
    ("body", "stages"), thinned(BODIES, [1, 2, 4], every=3), ids=lambda x: getattr(x, "__name__", None)
)
def test_on_gfx950(body, stages):
    check(body, T.int32, np.int32, "gfx950", stages, ("lazy",) if stages in (1, 4) else ("lazy", "random"))


@pytest.mark.parametrize(("body", "stages"), thinned(BODIES, [2, 1]), ids=lambda x: getattr(x, "__name__", None))
def test_on_gfx942(body, stages):
    check(body, T.int32, np.int32, "gfx942", stages, ("random",))


@pytest.mark.parametrize(
    ("body", "index"),
    thinned([nested, sparse, leaves, from_shared], ["int64", "uint32", "uint8", "int16"]),
    ids=lambda x: getattr(x, "__name__", None),
)
def test_indices_of_other_widths(body, index):
    check(body, getattr(T, index), index, "gfx950", 2, ("random",))


def test_no_loop_over_lanes():
    """One v_readfirstlane for each half of the descriptor's base, and copies in no loop but the program's."""
    text = check(pipelined, T.int32, np.int32, "gfx950", 1, ()).text
    body = text[text.index("buffer_load_dwordx4") :]
    assert "v_readfirstlane" in text
    assert "s_and_saveexec" not in text
    assert "s_cbranch_execnz" not in body
