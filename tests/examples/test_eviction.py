"""T.copy's eviction_policy: each kind of copy carries it to its instruction, and results are the same."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.ir.parser import parse_kernel
from minitile.ir.printer import print_kernel


@mt.kernel
def gemm(A: T.Tensor(("M", "K"), T.bfloat16), B: T.Tensor(("N", "K"), T.bfloat16), C: T.Tensor(("M", "N"), T.bfloat16)):
    with T.Kernel(T.ceildiv(B.shape[0], 64), T.ceildiv(A.shape[0], 64), threads=128) as (bx, by):
        A_shared = T.alloc_shared((64, 64), T.bfloat16)
        B_shared = T.alloc_shared((64, 64), T.bfloat16)
        C_local = T.alloc_fragment((64, 64), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(A.shape[1], 64), num_stages=3):
            T.copy(A[by * 64, k * 64], A_shared, eviction_policy="evict_last")
            T.copy(B[bx * 64, k * 64], B_shared, eviction_policy="evict_normal")
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
        T.copy(C_local, C[by * 64, bx * 64], eviction_policy="evict_first")


@mt.kernel
def through(X: T.Tensor(("n",), T.float32), Y: T.Tensor(("n",), T.float16)):
    with T.Kernel(T.ceildiv(X.shape[0], 256), threads=64) as b:
        part = T.alloc_fragment((256,), T.float32)
        T.copy(X[b * 256], part, eviction_policy="evict_first")
        for i in T.Parallel(256):
            part[i] = part[i] + 1.0
        T.copy(part, Y[b * 256], eviction_policy="evict_last")


def hinted(text):
    """The instructions that have a hint, by name, with the policy that they name."""
    policies = dict(re.findall(r"createpolicy\.fractional\.L2::(\w+)\.b64 (%\w+)", text))
    names = {register: policy for policy, register in policies.items()}
    found = {}
    for line in text.splitlines():
        if "L2::cache_hint" in line:
            name = re.search(r"(?:cp\.async\.bulk\.tensor\.2d\.\w+|cp\.async|ld|st)\b", line)[0]
            found.setdefault(name, set()).add(names[line.rstrip(" ;").rsplit(" ", 1)[1]])
    return found


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (
            "sm_90a",
            {"cp.async.bulk.tensor.2d.shared": {"evict_last"}, "cp.async.bulk.tensor.2d.global": {"evict_first"}},
        ),
        ("sm_80", {"cp.async": {"evict_last"}, "st": {"evict_first"}}),
    ],
)
def test_a_gemms_copies(target, expected):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(ml_dtypes.bfloat16) for s in ((72, 200), (40, 200)))
    c = np.full((72, 40), np.nan).astype(ml_dtypes.bfloat16)
    compiled = gemm.compile(a, b, c, target=target)
    assert hinted(compiled.text) == expected
    assert sum("L2::cache_hint" in line for line in compiled.text.splitlines()) < compiled.text.count("cp.async") + 64
    compiled.simulate(a, b, c)
    wanted = a.astype(np.float64) @ b.astype(np.float64).T
    assert np.linalg.norm(c.astype(np.float64) - wanted) / np.linalg.norm(wanted) < 4e-3
    traced = gemm.trace(a, b, c)
    assert 'evict = "evict_last"' in print_kernel(traced)
    assert print_kernel(parse_kernel(print_kernel(traced))) == print_kernel(traced)


def test_loads_and_stores():
    x = np.arange(300, dtype=np.float32)
    y = np.full(300, np.nan, np.float16)
    compiled = through.compile(x, y, target="sm_80")
    assert hinted(compiled.text) == {"ld": {"evict_first"}, "st": {"evict_last"}}
    compiled.simulate(x, y)
    assert np.array_equal(y, (x + 1).astype(np.float16))


@mt.kernel
def by_tensor(
    X: T.Tensor(("m", "n"), T.float32),
    W: T.Tensor(("n",), T.float32),
    Y: T.Tensor(("m", "n"), T.float16),
    policy="evict_last",
):
    with T.Kernel(X.shape[0], threads=64) as b:
        T.annotate_eviction_policy({X: "evict_first", Y: "evict_first", W: policy})
        part = T.alloc_fragment((256,), T.float32)
        T.copy(X[b, 256], part, eviction_policy="evict_last")
        for i in T.Parallel(256):
            if i < X.shape[1] - 3:
                Y[b, i] = X[b, i] * W[i] + part[i]


@pytest.mark.parametrize("policy", ["evict_normal", "evict_last"])
def test_all_accesses_of_a_tensor(policy):
    """Element by element and under a mask; a copy's own policy counts."""
    x, w, y = np.ones((3, 512), np.float32), np.full(512, 2, np.float32), np.full((3, 512), np.nan, np.float16)
    compiled = by_tensor.compile(x, w, y, target="sm_90a", policy=policy)
    assert hinted(compiled.text) == {"ld": {"evict_first", "evict_last"}, "st": {"evict_first"}}
    loads = [line for line in compiled.text.splitlines() if "ld.global" in line]
    assert all("L2::cache_hint" in line for line in loads) == (policy == "evict_last")
    compiled.simulate(x, w, y)
    assert (y[:, :256] == 3).all()
    assert "evict_" not in by_tensor.compile(x, w, y, target="gfx942").text


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_the_assembler_takes_it(target):
    s = mt.spec((256, 256), "bfloat16")
    assert gemm.compile(s, s, s, target=target).binary


def test_amd_has_no_such_hints():
    compiled = through.compile(mt.spec(256, "float32"), mt.spec(256, "float16"), target="gfx942")
    assert "cache_hint" not in compiled.text
    assert "evict_" not in compiled.text


def test_what_is_refused():
    @mt.kernel
    def wrong(X: T.Tensor((64,), T.float32)):
        with T.Kernel(1, threads=64):
            part = T.alloc_fragment((64,), T.float32)
            T.copy(X[0], part, eviction_policy="never")

    with pytest.raises(mt.MinitileError, match="never") as caught:
        wrong.compile(target="sm_80")
    assert "evict_first" in caught.value.hint


@pytest.mark.parametrize(("policy", "message"), [("never", "evict_first"), ("evict_last", "tensors of the signature")])
def test_what_is_no_policy(policy, message):
    @mt.kernel
    def wrong(X: T.Tensor((64,), T.float32)):
        with T.Kernel(1, threads=64):
            part = T.alloc_shared((64,), T.float32)
            T.annotate_eviction_policy({X: policy, part: policy})

    with pytest.raises(mt.MinitileError) as caught:
        wrong.compile(target="sm_80")
    assert message in caught.value.hint


def annotated(ratios):
    @mt.kernel
    def add(X: T.Tensor(("n", 4), T.float32), Y: T.Tensor((7,), T.float32)):
        with T.Kernel(1, threads=64):
            T.annotate_l2_hit_ratio(ratios(X, Y, T.alloc_shared((4,), T.float32)))
            for i in T.Parallel(4):
                Y[i] = X[0, i]

    return add


def test_hit_ratios_are_a_window_of_the_launch():
    from minitile.runtime.launch_info import Window

    specs = mt.spec((100, 4), "float32"), mt.spec((7,), "float32")
    compiled = annotated(lambda X, Y, s: {X: 0.5}).compile(*specs, target="sm_80")
    size = ("mul", ("mul", 4, ("dim", "n")), 4)
    assert compiled.launch_info.window == Window(("pointer", "X"), size, 0.5)
    x, y = np.ones((100, 4), np.float32), np.zeros(7, np.float32)
    compiled.simulate(x, y)
    assert y.tolist() == [1, 1, 1, 1, 0, 0, 0]
    assert annotated(lambda X, Y, s: {X: 0.5}).compile(*specs, target="gfx942").launch_info.window is None
    for ratios, words in (
        (lambda X, Y, s: {X: 0.5, Y: 1.0}, "two tensors"),
        (lambda X, Y, s: {X: 1.5}, "hit ratio of 1.5"),
        (lambda X, Y, s: {s: 0.5}, "annotate_l2_hit_ratio of"),
    ):
        with pytest.raises(mt.MinitileError, match=words):
            annotated(ratios).compile(*specs, target="sm_80")
