"""Random loops by random legal schedules of the user's own, through to assembly: right and free of races on every
target, under each schedule of memory that the simulators know.

A loop copies two tiles and then takes five steps, drawn from products in registers and in shared memory, what goes
through a buffer, and arithmetic. Which schedules are legal the compiler says: of those that are drawn the first one
that it does not refuse is run, and the loop as it is written beside it."""

from __future__ import annotations

from contextlib import suppress

import ml_dtypes
import numpy as np
import pytest
from support import poisoned
from targets import AMD

import minitile as mt
import minitile.language as T

BF16 = ml_dtypes.bfloat16
TARGETS = ("sm_80", "sm_90a", *AMD)
STEPS = ("scores", "weights", "add", "sum", "store", "fetch", "late", "decay")


@mt.kernel
def steps_in_a_loop(
    A: T.Tensor(("N", 32), T.bfloat16),
    B: T.Tensor((32, 64), T.bfloat16),
    V: T.Tensor(("N", 64), T.bfloat16),
    O: T.Tensor((64, 64), T.float32),  # noqa: E741
    steps: tuple,
    order: tuple,
    stage: tuple,
    num_stages: int,
):
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((64, 32), T.bfloat16)
        b = T.alloc_shared((32, 64), T.bfloat16)
        v = T.alloc_shared((64, 64), T.bfloat16)
        w = T.alloc_shared((64, 64), T.bfloat16)
        x = T.alloc_fragment((64, 64), T.float32)
        p = T.alloc_fragment((64, 64), T.bfloat16)
        o = T.alloc_fragment((64, 64), T.float32)
        T.clear(x)
        T.clear(o)
        T.clear(p)
        T.copy(B, b)
        T.copy(p, w)

        def step(kind):
            if kind == "scores":
                T.gemm(a, b, x, clear_accum=True)
            elif kind == "weights":
                T.copy(x, p)
            elif kind == "sum":
                T.gemm(p, v, o)
            elif kind == "store":
                T.copy(p, w)
            elif kind == "fetch":
                T.copy(w, p)
            elif kind == "late":
                T.gemm(w, v, o)
            else:
                for i, j in T.Parallel(64, 64):
                    if kind == "add":
                        x[i, j] = x[i, j] + 1
                    else:
                        o[i, j] = o[i, j] * 0.5

        for n in T.Pipelined(T.ceildiv(A.shape[0], 64), num_stages=num_stages, order=order, stage=stage):
            T.copy(A[n * 64, 0], a)
            T.copy(V[n * 64, 0], v)
            step(steps[0])
            step(steps[1])
            step(steps[2])
            step(steps[3])
            step(steps[4])
        T.copy(o, O)


def expected(steps, a, b, v):
    a, b, v = (t.astype(np.float64) for t in (a, b, v))
    x, o, p, w = (np.zeros((64, 64)) for _ in range(4))
    for at in range(0, len(a), 64):
        block, other = a[at : at + 64], v[at : at + 64]
        for kind in steps:
            if kind == "scores":
                x = block @ b
            elif kind == "weights":
                p = x.astype(BF16).astype(np.float64)
            elif kind == "sum":
                o = o + p @ other
            elif kind == "store":
                w = p
            elif kind == "fetch":
                p = w
            elif kind == "late":
                o = o + w @ other
            elif kind == "add":
                x = x + 1
            else:
                o = o * 0.5
    return o


def drawn(rng: np.random.Generator) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Stages that grow, so that some are legal; in the order of the program, the late ones first, or any."""
    stage = np.minimum(np.cumsum(rng.integers(0, 2, 5) * (rng.random(5) < 0.6)), 3).tolist()
    late = sorted(range(5), key=lambda n: (-stage[n], n))
    order = [list(range(5)), late, rng.permutation(5).tolist()][rng.integers(3)]
    return tuple(order.index(n) for n in range(5)), tuple(stage)


@pytest.mark.parametrize(
    ("target", "seed"),
    [pytest.param(t, n, marks=() if n == m else pytest.mark.slow) for n in range(24) for m, t in enumerate(TARGETS)],
)
def test_random_loops(target, seed):
    if target in AMD:
        pytest.importorskip("llvmlite")
    rng = np.random.default_rng(seed)
    steps = ("scores", "weights", *rng.permutation(STEPS)[:2].tolist(), rng.choice(["sum", "late"]).item())
    rows, stages = 64 * int(rng.integers(0, 5)), int(rng.integers(2, 4))
    a, b, v = (rng.integers(-1, 2, shape).astype(BF16) for shape in ((rows, 32), (32, 64), (rows, 64)))
    out = poisoned((64, 64), np.float32)
    tries = [places for places in (drawn(rng) for _ in range(40)) if any(places[1])]
    for order, stage in [*tries, ((0, 1, 2, 3, 4), (0, 0, 0, 0, 0))]:
        places = {"order": (-1, -1, *order), "stage": (-1, -1, *stage), "num_stages": stages}
        with suppress(mt.MinitileError):
            kernel = steps_in_a_loop.compile(a, b, v, out, target=target, steps=steps, **places)
            break
    for how in ("lazy", "eager", "random"):
        out[...] = np.nan
        kernel.simulate(a, b, v, out, schedule=how, seed=seed)
        np.testing.assert_allclose(out, expected(steps, a, b, v), rtol=1e-5)
