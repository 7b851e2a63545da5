"""No instruction is guarded by a constant: what surely holds is no condition, and the writer refuses it as one."""

from __future__ import annotations

import re

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.backends.nvidia.emit.ptx import reads_constant_predicate
from tests.examples.thinned import thinned

TRIPS = {
    "block": lambda bx, n: bx + 1,
    "at least one": lambda bx, n: T.max(n, 1),
    "assumed": lambda bx, n: n,
    "under if": lambda bx, n: n,
    "outer loop": lambda w, n: w + 1,
    "constant": lambda bx, n: 2,
}


@pytest.mark.parametrize(("form", "roles", "simplified"), thinned(TRIPS, [True, False], [True, False]))
def test_trips_of_at_least_one(form, roles, simplified):
    trips = TRIPS[form]

    def product(L, B, C, row, count):
        left, right = T.alloc_shared((64, 64), T.float16), T.alloc_shared((64, 64), T.float16)
        sums = T.alloc_fragment((64, 64), T.float32)
        T.clear(sums)
        for k in T.Pipelined(count, num_stages=2):
            T.copy(L[row, k * 64], left)
            T.copy(B[k * 64, 0], right)
            T.gemm(left, right, sums)
        T.copy(sums, C[row, 0])

    @mt.kernel
    def kernel(
        L: T.Tensor((128, 128), T.float16),
        B: T.Tensor((128, 64), T.float16),
        C: T.Tensor((128, 64), T.float32),
        n: T.int32,
    ):
        with T.Kernel(1 if form == "outer loop" else 2, threads=128) as bx:
            if form == "assumed":
                T.assume(n > 0)
            if form == "outer loop":
                for w in range(2):
                    product(L, B, C, w * 64, trips(w, n))
            elif form == "under if":
                if n > 0:
                    product(L, B, C, bx * 64, trips(bx, n))
            else:
                product(L, B, C, bx * 64, trips(bx, n))

    random = np.random.default_rng(0)
    left, right = ((random.integers(-4, 5, s) / 4).astype(np.float16) for s in ((128, 128), (128, 64)))
    out = np.full((128, 64), np.nan, np.float32)
    wide = left.astype(np.float32)
    if form in ("block", "outer loop"):
        wide[:64, 64:] = 0
    passes = {} if simplified else {"simplify": False}
    compiled = kernel.compile(left, right, out, 2, target="sm_90a", warp_specialize=roles, passes=passes)
    assert not re.search(r"@!?\d", compiled.asm["ptx"])
    compiled.simulate(left, right, out, 2)
    np.testing.assert_allclose(out, wide @ right.astype(np.float32), atol=1e-3)


@pytest.mark.parametrize(
    "line",
    [
        "@1 bra $L_end;",
        "@!0 bra.uni $L_end;",
        "@1 st.global.b32 [%rd1], %r1;",
        "selp.b32 %r1, %r2, 0, 1;",
        "@%p1 selp.b32 %r1, %r2, 0, 0;",
        "setp.num.and.f32 %p1, %f1, %f1, 1;",
        "and.pred %p1, 1, %p2;",
        "or.pred %p1, %p2, 0;",
        "not.pred %p1, 1;",
    ],
)
def test_constant_predicates_are_seen(line):
    assert reads_constant_predicate(line)


@pytest.mark.parametrize(
    "line",
    [
        "@%p1 bra $L_end;",
        "@!%p1 bra $L_end;",
        "selp.b32 %r1, 1, 0, %p1;",
        "setp.lt.s32 %p1, %r1, 7;",
        "setp.num.and.f32 %p1, %f1, %f1, %p2;",
        "setp.ge.and.s32 %p1, %r1, 0, !%p2;",
        "and.pred %p1, %p2, %p3;",
        "not.pred %p1, %p2;",
        "mov.pred %p1, 1;",
        "and.b32 %r1, %r2, 7;",
    ],
)
def test_others_are_not(line):
    assert not reads_constant_predicate(line)
