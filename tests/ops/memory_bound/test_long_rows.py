"""Rows over the blocks of a cluster: softmax, norms, cross entropy against NumPy in float64, rows of any length, in
clusters of one block and of several. In the simulator, or with MINITILE_GPU=1 on the GPU."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
from examples.support import USE_GPU, on_device, on_host, poisoned, random
from minitile.language.math import dtype_of_name
from minitile.ops.memory_bound.long_rows import (
    CLUSTERS,
    LongPlan,
    long_cross_entropy,
    long_norm,
    long_plan,
    long_softmax,
)
from minitile.ops.memory_bound.rows import RowPlan, rows_of

ROWS = 3
BOUNDS = {"float32": 2e-6, "float16": 2e-3, "bfloat16": 1.2e-2}
# N, cluster, threads
FORMS = [
    (1, 1, 32),
    (17, 2, 32),
    (1000, 2, 64),
    (1001, 3, 32),
    (2048, 4, 32),
    (4096, 4, 64),
    (2200, 2, 32),
]


def plan_of(n: int, cluster: int, threads: int, size: int) -> dict[str, Any]:
    width, vector = threads * 32 // size, 16 // size
    even = n % vector == 0
    columns = -(-(n if even else n + vector - 1) // (cluster * width)) * width
    return LongPlan(cluster, columns, threads, columns * cluster == n, even=even)._asdict()


def run(kernel: Any, *arrays: Any, **constants: Any) -> list[Any]:
    """The arguments as the kernel leaves them."""
    there = [on_device(x) if isinstance(x, np.ndarray) else x for x in arrays]
    compiled = kernel.compile(*there, target="sm_90a", **constants)
    compiled(*there) if USE_GPU else compiled.simulate(*there, schedule="lazy")
    return [x if x is None or isinstance(x, int | float) else on_host(x) for x in there]


def near(found: np.ndarray, exact: np.ndarray) -> None:
    bound = BOUNDS[str(found.dtype)]
    np.testing.assert_allclose(found.astype(np.float64), exact, rtol=bound, atol=bound * 1e-2 + 1e-7)


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x.astype(np.float64) - x.astype(np.float64).max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize(("n", "cluster", "threads"), FORMS)
def test_softmax(n: int, cluster: int, threads: int, dtype: Any) -> None:
    x = random(np.random.default_rng(n), (ROWS, n), dtype)
    plan = plan_of(n, cluster, threads, x.dtype.itemsize)
    near(run(long_softmax, x, poisoned(x.shape, dtype), **plan)[1], softmax(x))


def test_log_softmax() -> None:
    x = random(np.random.default_rng(0), (ROWS, 500), np.float16)
    found = run(long_softmax, x, poisoned(x.shape, np.float16), log=True, **plan_of(500, 2, 32, 2))[1]
    near(found, np.log(softmax(x)))


@pytest.mark.parametrize("cluster", [1, 2])
def test_what_is_not_finite(cluster: int) -> None:
    """As torch has it: a NaN, an infinity, or nothing but -inf makes a row of NaN; -inf beside numbers is 0, also all
    that a block has."""
    x = random(np.random.default_rng(0), (6, 300))
    x[0, 7], x[1, 290], x[2], x[3, 5], x[4, :256] = np.nan, np.inf, -np.inf, -np.inf, -np.inf
    found = run(long_softmax, x, poisoned(x.shape), **plan_of(300, cluster, 32, 4))[1]
    assert np.isnan(found[:3]).all()
    near(found[3:], softmax(x[3:]))
    assert found[3, 5] == 0
    assert not found[4, :256].any()


@pytest.mark.parametrize(
    ("centered", "bias", "residual"), [(False, False, False), (True, True, False), (True, False, True)]
)
@pytest.mark.parametrize(("n", "cluster", "threads"), FORMS[1:])
def test_norms(n: int, cluster: int, threads: int, centered: bool, bias: bool, residual: bool) -> None:
    dtype = ml_dtypes.bfloat16 if bias else np.float32
    rng = np.random.default_rng(n)
    x, r = random(rng, (ROWS, n), dtype) + 1, random(rng, (ROWS, n), dtype)
    w, b = random(rng, (n,), dtype), random(rng, (n,), dtype)
    plan = plan_of(n, cluster, threads, x.dtype.itemsize)
    kernel = long_norm(centered, True, bias, residual)
    y, z = poisoned(x.shape, dtype), poisoned(x.shape, dtype)
    found = run(kernel, x, r if residual else x, w, b if bias else x, y, z if residual else x, 1e-5, **plan)
    summed = (x + r).astype(np.float64) if residual else x.astype(np.float64)
    if residual:
        assert (found[5] == x + r).all()
    d = summed - summed.mean(1, keepdims=True) * centered
    exact = d / np.sqrt((d * d).mean(1, keepdims=True) + 1e-5) * w.astype(np.float64)
    exact = exact + b.astype(np.float64) if bias else exact
    bound = BOUNDS[str(np.dtype(dtype))]
    np.testing.assert_allclose(found[4].astype(np.float64), exact, rtol=bound, atol=bound * 2)


@pytest.mark.parametrize(("n", "cluster", "threads"), [(17, 2, 32), (1001, 1, 32), (4096, 4, 64)])
def test_cross_entropy(n: int, cluster: int, threads: int) -> None:
    rng = np.random.default_rng(n)
    x = random(rng, (4, n), ml_dtypes.bfloat16)
    label = np.array([0, n - 1, -100, n // 2], np.int64)
    plan = plan_of(n, cluster, threads, 2)
    _, _, loss, _, lse = run(long_cross_entropy, x, label, poisoned((4,)), -100, poisoned((4,)), **plan)
    exact = x.astype(np.float64)
    sums = np.log(np.exp(exact).sum(1))
    np.testing.assert_allclose(lse, sums, rtol=1e-5)
    chosen = np.where(label == -100, sums, exact[np.arange(4), np.maximum(label, 0)])
    np.testing.assert_allclose(loss, sums - chosen, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("n", "cluster", "threads"), [(17, 2, 32), (1001, 1, 32), (1000, 3, 32), (4096, 4, 64)])
def test_gradient_of_cross_entropy(n: int, cluster: int, threads: int) -> None:
    """Labels of the first and the last part, a row that is ignored, one whose label is no class: a logit of 0."""
    rng = np.random.default_rng(n)
    x, scale = random(rng, (5, n), ml_dtypes.bfloat16), random(rng, (5,))
    label = np.array([0, n - 1, -100, n // 2, n + 3], np.int64)
    plan = plan_of(n, cluster, threads, 2)
    found, _, loss, *_ = run(long_cross_entropy, x.copy(), label, poisoned((5,)), -100, None, scale, **plan)
    exact, real = x.astype(np.float64), np.isin(label, (0, n - 1, n // 2))
    sums = np.log(np.exp(exact).sum(1))
    chosen = np.where(real, exact[np.arange(5), np.where(real, label, 0)], 0.0)
    np.testing.assert_allclose(loss, np.where(label == -100, 0.0, sums - chosen), rtol=1e-4, atol=1e-5)
    slope = softmax(x)
    slope[np.arange(5)[real], label[real]] -= 1
    slope *= scale[:, None].astype(np.float64) * (label != -100)[:, None]
    np.testing.assert_allclose(found.astype(np.float64), slope, rtol=1.2e-2, atol=1e-4)


def test_what_mt_ops_takes_them_for() -> None:
    """Rows that no block holds: 130 kB, and 256 kB with a residual."""
    rng = np.random.default_rng(9)
    x, r = random(rng, (2, 70000), ml_dtypes.bfloat16), random(rng, (2, 70000), ml_dtypes.bfloat16)
    near(on_host(mt.ops.softmax(on_device(x))), softmax(x))
    near(on_host(mt.ops.log_softmax(on_device(x))), np.log(softmax(x)))
    y, z = (on_host(each) for each in mt.ops.layer_norm(on_device(x), residual=on_device(r)))
    assert (z == x + r).all()
    d = z.astype(np.float64) - z.astype(np.float64).mean(1, keepdims=True)
    exact = d / np.sqrt((d * d).mean(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(y.astype(np.float64), exact, rtol=1.2e-2, atol=1.2e-2)


@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_plans(dtype: str) -> None:
    """Every row up to 512k elements has one, which holds it, in as few blocks as have room."""
    kind = dtype_of_name(dtype)
    for n in (1, 7, 1000, 32768, 32769, 65536, 100003, 1 << 18, (1 << 19) - 1, 1 << 19):
        plan = long_plan(n, kind)
        assert plan is not None
        assert plan.cluster in CLUSTERS
        assert plan.cluster * plan.columns >= n
        assert plan.columns * kind.bytes % (plan.threads * 32) == 0
        assert plan.exact == (plan.cluster * plan.columns == n)
    assert long_plan(1 << 19, kind).cluster == 16
    assert long_plan(1 << 22, kind) is None
    assert long_plan(1 << 19, kind, clusters=(1, 2)) is None
    assert long_plan(1 << 16, kind, 2).cluster == 2 * long_plan(1 << 16, kind).cluster


@pytest.mark.skipif(USE_GPU, reason="looks at texts")
def test_no_spills_where_three_blocks_share_a_multiprocessor() -> None:
    """512k elements in clusters of 16."""
    x = mt.spec((64, 1 << 19), "bfloat16")
    compiled = long_softmax.compile(x, x, target="sm_90a", **long_plan(1 << 19, dtype_of_name("bf16"))._asdict())
    assert compiled.launch_info.cluster == (16, 1, 1)
    assert 3 * (compiled.launch_info.dynamic_shared + 1024) <= 228 * 1024
    assert compiled.asm["ptx"].count("cp.async.cg.shared.global") == 16
    assert "ld.global" not in compiled.asm["ptx"]


@pytest.mark.skipif(USE_GPU, reason="of this machine's own target")
def test_rows_from_4_kb_on_wait_in_shared_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """But not rows of odd bytes, and not two tensors at a time."""
    monkeypatch.setenv("MINITILE_TARGET", "sm_90a")
    kinds = {n: type(rows_of("x", np.zeros((2, n), np.float32)).choose()) for n in (512, 1024, 1025, 4096)}
    assert kinds == {512: RowPlan, 1024: LongPlan, 1025: RowPlan, 4096: LongPlan}
    assert isinstance(rows_of("x", np.zeros((2, 1024), np.float32)).choose(tensors=2), RowPlan)


def test_rows_that_begin_anywhere_have_room_in_front() -> None:
    """Up to a vector less one element, as the kernel is told."""
    for n in (1001, 32769, 50257, 100003):
        plan = long_plan(n, dtype_of_name("bf16"))
        assert not plan.even
        assert plan.cluster * plan.columns >= n + 7
    assert long_plan(50264, dtype_of_name("bf16")).even


def test_plans_of_rows_that_begin_anywhere():
    """Their parts hold a vector more; and without spilling, which of 6 blocks' registers the norms would."""
    kind = dtype_of_name("bf16")
    for n in (4001, 32769, 50257):
        plan = long_plan(n, kind)
        assert not plan.even
        assert plan.columns * plan.cluster >= n + 7
    x, w = mt.spec((64, 50257), "bfloat16"), mt.spec((50257,), "bfloat16")
    compiled = long_norm(True, True, True, False).compile(
        x, x, w, w, x, x, 1e-5, target="sm_90a", **long_plan(50257, kind)._asdict()
    )
    assert compiled.spills == 0
    text = compiled.asm["ptx"]
    assert "cp.async.cg.shared.global" in text
    assert text.count("st.global.v4") == 10  # of five steps, two vectors of a thread each
