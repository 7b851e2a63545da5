"""Fragments read at other places than the T.Parallel index: divided, shifted, swapped, gathered; from registers where
the layout gives it, else by a copy in shared memory. On every target, beside NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from tests.examples.thinned import thinned

TARGETS = ("sm_80", "sm_90a", "gfx950")
ROWS, COLUMNS = np.indices((64, 64))

# index expressions, the same in NumPy, the fragment's shape, and a condition around
READS = {
    "half": (lambda i, j, x, k: (i, j // 2), (64, 32), None),
    "quarter": (lambda i, j, x, k: (i // 4, j), (16, 64), None),
    "both": (lambda i, j, x, k: (i // 4, j // 2), (16, 32), None),
    "third": (lambda i, j, x, k: (i, j // 3), (64, 22), None),
    "part": (lambda i, j, x, k: (i, j // 2 + 3), (64, 48), None),
    "remainder": (lambda i, j, x, k: (i % 8, j % 2), (8, 2), None),
    "swapped": (lambda i, j, x, k: (j // 2, i), (32, 64), None),
    "shifted": (lambda i, j, x, k: (i, j + 4), (64, 68), None),
    "run_time": (lambda i, j, x, k: (i, j + k), (64, 70), None),
    "reversed": (lambda i, j, x, k: (63 - i, 63 - j), (64, 64), None),
    "neighbours": (lambda i, j, x, k: (i ^ 1, j), (64, 64), None),
    "diagonal": (lambda i, j, x, k: ((i + j) % 64, j), (64, 64), None),
    "gathered": (lambda i, j, x, k: (i, x[j]), (64, 64), None),
    "reshaped": (lambda i, j, x, k: (i * 64 + j,), (4096,), None),
    "before": (lambda i, j, x, k: (i, j - 1), (64, 64), lambda i, j: j > 0),
    "behind": (lambda i, j, x, k: (i, j + 32), (64, 64), lambda i, j: j < 32),
}


@mt.kernel
def reads(
    A: T.Tensor(("P", "Q"), None),
    X: T.Tensor((64,), T.int32),
    C: T.Tensor((64, 64), None),
    k: T.int32,
    place=None,
    shape=(64, 64),
    guard=None,
):
    with T.Kernel(1, threads=128):
        f, out = T.alloc_fragment(shape, A.dtype), T.alloc_fragment((64, 64), C.dtype)
        x = T.alloc_fragment((64,), T.int32)
        if len(shape) == 2:
            T.copy(A, f)
        else:
            for n in T.Parallel(shape[0]):
                f[n] = A[0, n]
        T.copy(X, x)
        T.clear(out)
        for i, j in T.Parallel(64, 64):
            if guard is None:
                out[i, j] = f[place(i, j, x, k)]
            else:
                if guard(i, j):
                    out[i, j] = f[place(i, j, x, k)]
        T.copy(out, C)


@pytest.mark.parametrize(("name", "target"), thinned(READS, TARGETS))
def test_a_fragment_is_read_at_any_place(name, target):
    if target.startswith("gfx"):
        pytest.importorskip("llvmlite")
    place, shape, guard = READS[name]
    dtype = np.uint8 if name in ("half", "diagonal") else np.float32
    rng = np.random.default_rng(0)
    a = rng.integers(0, 99, shape).astype(dtype)
    x = rng.integers(0, 64, 64).astype(np.int32)
    want = np.zeros((64, 64), dtype)
    at = np.broadcast_arrays(*(np.clip(p, 0, n - 1) for p, n in zip(place(ROWS, COLUMNS, x, 3), shape, strict=True)))
    want[...] = a[tuple(at)]
    if guard is not None:
        want[~guard(ROWS, COLUMNS)] = 0
    c = np.full((64, 64), 7, dtype)
    given = a if a.ndim == 2 else a[None]
    compiled = reads.compile(given, x, c, target=target, place=place, shape=shape, guard=guard)
    compiled.simulate(given, x, c, 3, schedule="random", seed=2)
    assert np.array_equal(c, want)


def test_repeated_neighbours_need_no_shared_memory():
    place, shape, _ = READS["half"]
    a = mt.spec(shape, "uint8")
    compiled = reads.compile(
        a, mt.spec(64, "int32"), mt.spec((64, 64), "uint8"), target="sm_80", place=place, shape=shape
    )
    assert compiled.launch_info.dynamic_shared == 0
    assert "repeat" in compiled.asm["tile_ir"]


@mt.kernel
def dequantised(
    B: T.Tensor(("N", "K2"), T.uint8),
    S: T.Tensor(("N", "G"), T.float16),
    A: T.Tensor(("M", "K"), T.float16),
    C: T.Tensor(("M", "N"), T.float32),
):
    with T.Kernel(T.ceildiv(C.shape[1], 64), T.ceildiv(C.shape[0], 64), threads=128) as (bx, by):
        packed_shared, A_shared = T.alloc_shared((64, 32), T.uint8), T.alloc_shared((64, 64), T.float16)
        packed, scales = T.alloc_fragment((64, 32), T.uint8), T.alloc_fragment((64, 2), T.float16)
        B_local, B_shared = T.alloc_fragment((64, 64), T.float16), T.alloc_shared((64, 64), T.float16)
        acc = T.alloc_fragment((64, 64), T.float32)
        T.clear(acc)
        for k in T.Pipelined(A.shape[1] // 64, num_stages=2):
            T.copy(A[by * 64, k * 64], A_shared)
            T.copy(B[bx * 64, k * 32], packed_shared)
            T.copy(packed_shared, packed)
            T.copy(S[bx * 64, k * 2], scales)
            for i, j in T.Parallel(64, 64):
                four = (packed[i, j // 2] >> T.cast(4 * (j % 2), T.uint8)) & 15
                B_local[i, j] = T.cast(four, T.float16) * scales[i, j // 32]
            T.copy(B_local, B_shared)
            T.gemm(A_shared, B_shared, acc, transpose_B=True)
        T.copy(acc, C[by * 64, bx * 64])


@pytest.mark.parametrize("target", TARGETS)
def test_weights_of_four_bits_in_a_pipelined_loop(target):
    if target.startswith("gfx"):
        pytest.importorskip("llvmlite")
    rng = np.random.default_rng(0)
    b, s = rng.integers(0, 256, (64, 64)).astype(np.uint8), rng.integers(0, 3, (64, 4)).astype(np.float16)
    a, c = rng.integers(-3, 4, (64, 128)).astype(np.float16), np.zeros((64, 64), np.float32)
    dequantised.compile(b, s, a, c, target=target).simulate(b, s, a, c, schedule="random", seed=1)
    wide = np.stack([b & 15, b >> 4], -1).reshape(64, 128).astype(np.float32) * np.repeat(s.astype(np.float32), 32, 1)
    assert np.array_equal(c, a.astype(np.float32) @ wide.T)


@mt.kernel
def smoothed(X: T.Tensor((128,), T.float32), Y: T.Tensor((128,), T.float32), n: T.int32):
    with T.Kernel(1, threads=128):
        f, g = T.alloc_fragment((128,), T.float32), T.alloc_fragment((128,), T.float32)
        T.copy(X, f)
        for _ in range(n):
            for i in T.Parallel(128):
                g[i] = f[i]
                if i > 0:
                    g[i] += f[i - 1]
                if i < 127:
                    g[i] += f[i + 1]
            for i in T.Parallel(128):
                f[i] = g[i]
        T.copy(f, Y)


@pytest.mark.parametrize("target", TARGETS)
def test_neighbours_round_after_round(target):
    if target.startswith("gfx"):
        pytest.importorskip("llvmlite")
    x, y = np.random.default_rng(0).integers(0, 9, 128).astype(np.float32), np.zeros(128, np.float32)
    smoothed.compile(x, y, target=target).simulate(x, y, 4)
    want = x
    for _ in range(4):
        p = np.pad(want, 1)
        want = p[:-2] + p[1:-1] + p[2:]
    assert np.array_equal(y, want)
