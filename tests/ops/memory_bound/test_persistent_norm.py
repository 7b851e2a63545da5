"""Norms of rows that begin anywhere by persistent blocks, against NumPy in float64. In the simulator, or with
MINITILE_GPU=1 on the GPU."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
from examples.support import on_device, on_host, poisoned, random
from minitile.ops.memory_bound.persistent_norm import PersistentPlan, persistent_norm, persistent_plan

RNG = np.random.default_rng(7)
SHARED = 227 * 1024
BOUND = 4e-3
# rows, N, columns, step, threads, blocks, stages
FORMS = [
    (1, 1, 256, 8, 32, 8, 2),
    (9, 17, 256, 8, 32, 8, 2),  # one block has two rows
    (37, 101, 512, 16, 32, 8, 3),
    (33, 505, 512, 16, 32, 16, 2),  # the last vector is of elements beside the row but for one
    (40, 1001, 1024, 16, 64, 8, 2),
    (5, 1003, 1280, 8, 32, 8, 2),
]


def exact(x: Any, w: Any, b: Any, centered: bool) -> np.ndarray:
    x = x.astype(np.float64)
    d = x - x.mean(1, keepdims=True) if centered else x
    y: np.ndarray = d / np.sqrt((d * d).mean(1, keepdims=True) + 1e-5)
    y = y if w is None else y * w.astype(np.float64)
    return y if b is None else y + b.astype(np.float64)


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize(("m", "n", "columns", "step", "threads", "blocks", "stages"), FORMS)
def test_against_float64(
    m: int, n: int, columns: int, step: int, threads: int, blocks: int, stages: int, centered: bool
) -> None:
    x, w, b = random(RNG, (m, n), "bfloat16"), random(RNG, (n,), "bfloat16"), random(RNG, (n,), "float32")
    x = (x.astype(np.float32) * 3 + 2).astype(x.dtype)
    plan = PersistentPlan(columns, step, threads, blocks, 1, stages)
    out = on_device(poisoned((m, n), "bfloat16"))
    norm: Any = mt.ops.layer_norm if centered else mt.ops.rms_norm
    norm(on_device(x), on_device(w), bias=on_device(b), eps=1e-5, out=out, plan=plan)
    np.testing.assert_allclose(on_host(out).astype(np.float64), exact(x, w, b, centered), rtol=BOUND, atol=BOUND * 1e-1)


def test_nan_stays_in_its_row() -> None:
    """What lies beside a row in its vectors is not in its sums."""
    x = random(RNG, (17, 101), "float16")
    x[3, :], x[8, 0], x[9, 100] = np.nan, np.inf, np.nan
    w = random(RNG, (101,), "float16")
    found = on_host(mt.ops.rms_norm(on_device(x), on_device(w), plan=PersistentPlan(256, 8, 32, 8, 1)))
    bad = {int(row) for row in np.argwhere(np.isnan(found.astype(np.float32)))[:, 0]}
    assert bad == {3, 8, 9}


def test_rows_are_copied_by_vectors() -> None:
    """Rows of a matrix of whole vectors: 16 bytes at a time in, and results out but for a row's ends; weights are not
    read in the loop."""
    x, v = mt.spec((64, 1001), "bfloat16"), mt.spec((1001,), "bfloat16")
    plan = persistent_plan(1001, 2, 132, SHARED)
    assert plan is not None
    flat = mt.spec((64 * 1001,), "bfloat16")
    compiled = persistent_norm(True, True, True).compile(flat, v, v, x, 1e-5, target="sm_90a", **plan._asdict())
    loop = compiled.asm["ptx"].split("$L_for0:")[1]
    assert "ld.global" not in loop
    assert loop.count("cp.async.cg.shared.global") == plan.columns // plan.threads // 8
    assert loop.count("st.global.v4") == plan.columns // plan.threads // 8


def test_plans() -> None:
    for n in (1001, 2047, 4001, 8191, 9209):
        plan = persistent_plan(n, 2, 132, SHARED)
        assert plan is not None
        assert n + 7 <= plan.columns <= 1.15 * n
        assert plan.blocks % 8 == 0
        assert plan.columns % (plan.threads * plan.step) == 0
    assert persistent_plan(1000, 2, 132, SHARED) is None  # rows begin at 16 bytes
    assert persistent_plan(1001, 0, 132, SHARED) is None  # nothing to keep
    assert persistent_plan(20001, 2, 132, SHARED) is None


def test_the_dtype_of_ml_dtypes() -> None:
    x = np.ones((8, 9), ml_dtypes.bfloat16)
    found = mt.ops.layer_norm(x, np.ones(9, ml_dtypes.bfloat16), plan=PersistentPlan(256, 8, 32, 8, 1))
    np.testing.assert_array_equal(np.asarray(found, np.float32), 0)
