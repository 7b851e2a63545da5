"""Sums by atomics on several neighbours at once: T.atomic_addx2, T.atomic_addx4, T.atomic_add in unrolled loops."""

from __future__ import annotations

import re

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from tests.language.by_threads import DTYPES, RNG, run


def atomics(compiled):
    """What the text has of atomics, in order."""
    if "ptx" in compiled.asm:
        return re.findall(r"(?<![\w.])(?:red|atom)\.[\w.]+", compiled.asm["ptx"])
    return re.findall(r"(?:global_atomic|ds)_(?:pk_|cmp|add)\w+", compiled.asm["gcn"])


FLOATS = ("float16", "bfloat16", "float32")


def integers(shape, dtype):
    """Sums of few of these are exact in every dtype, in any order."""
    return RNG.integers(-8, 8, shape).astype(DTYPES[dtype])


@mt.kernel
def added(X: T.Tensor((4, 256), None), Y: T.Tensor((256,), None), Z: T.Tensor((4, 256), None), count=2):
    with T.Kernel(4, threads=64) as bx:
        t = T.get_thread_binding()
        s = T.alloc_shared((256,), X.dtype)
        for k in T.vectorized(4):
            s[t * 4 + k] = 1.0
        T.sync_threads()
        for n in T.serial(4 // count):
            at = t * 4 + n * count
            if count == 2:
                T.atomic_addx2(Y[at], X[bx, at])
                T.atomic_addx2(s[at : at + 2], X[bx, at : at + 2])
            else:
                T.atomic_addx4(Y[at : at + 4], X[bx, at])
                T.atomic_addx4(s[at], X[bx, at])
        T.sync_threads()
        for k in T.vectorized(4):
            Z[bx, t * 4 + k] = s[t * 4 + k]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("count", [2, 4])
def test_neighbours(target, dtype, count):
    x, y, z = integers((4, 256), dtype), integers((256,), dtype), integers((4, 256), dtype)
    expected = (y + x.astype(np.float32).sum(0)).astype(x.dtype)
    compiled = run(added, target, x, y, z, count=count)
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(z, x + np.ones_like(x))
    found = atomics(compiled)
    if target == "sm_90a":
        n = {2: "", 4: "v2."}[count] if dtype != "float32" else f"v{count}."
        kind = {"float16": "noftz.{}f16x2", "bfloat16": "noftz.{}bf16x2", "float32": "{}f32"}[dtype].format(n)
        assert [name for name in found if "global" in name] == [f"red.global.add.{kind}"]
        assert len([name for name in found if "shared" in name]) == (count if dtype == "float32" else count // 2)
    elif target == "sm_80" and dtype == "float16":
        assert sorted(set(found)) == ["red.global.add.noftz.f16x2", "red.shared.add.noftz.f16x2"]
    elif target in ("gfx942", "gfx950") and dtype != "float32":
        kind = dtype.replace("bfloat", "bf").replace("float", "f")
        times = count // 2
        assert sorted(found) == [f"ds_pk_add_{kind}"] * times + [f"global_atomic_pk_add_{kind}"] * times


@mt.kernel
def split_k(
    X: T.Tensor(("K",), T.float16), W: T.Tensor(("K", "N"), T.float16), Y: T.Tensor(("N",), T.float16), rows=16
):
    with T.Kernel(T.ceildiv(Y.shape[0], 256), T.ceildiv(X.shape[0], rows), threads=64) as (bx, by):
        at = (bx * 64 + T.get_thread_binding()) * 4
        w = T.alloc_local((4,), T.float16)
        total = T.alloc_local((4,), T.float32)
        T.clear(total)
        for row in T.serial(rows):
            for k in T.vectorized(4):
                w[k] = W[by * rows + row, at + k]
            for k in T.serial(4):
                total[k] += T.cast(X[by * rows + row], T.float32) * T.cast(w[k], T.float32)
        for k in T.vectorized(4):
            T.atomic_add(Y[at + k], T.cast(total[k], T.float16))


@pytest.mark.parametrize(("k", "n"), [(40, 256), (17, 300), (3, 2), (16, 130)])
def test_split_k(target, k, n):
    """Past the end of rows too; those that are no multiple of 8 bytes in pairs."""
    x, w, y = integers((k,), "float16"), integers((k, n), "float16"), integers((n,), "float16")
    expected = y + x.astype(np.float32) @ w.astype(np.float32)
    compiled = run(split_k, target, x, w, y)
    np.testing.assert_array_equal(y, expected)
    if n == 256:
        wide = {"sm_80": "red.global.add.noftz.f16x2", "sm_90a": "red.global.add.noftz.v2.f16x2"}
        assert set(atomics(compiled)) == {wide.get(target, "global_atomic_pk_add_f16")}


@mt.kernel
def in_parallel(X: T.Tensor((8, 64), T.float32), Y: T.Tensor((8, 64), T.float32)):
    with T.Kernel(1, threads=64):
        for i, j in T.Parallel(8, 32):
            T.atomic_addx2(Y[i, j * 2], X[i, j * 2])


def test_in_parallel(target):
    x, y = integers((8, 64), "float32"), integers((8, 64), "float32")
    expected = x + y
    run(in_parallel, target, x, y)
    np.testing.assert_array_equal(y, expected)


def test_what_is_refused(refuses):
    def old():
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((8,), T.float32)
            T.atomic_addx2(s[0], s[2], return_prev=True)

    def three():
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((8,), T.float32)
            T.atomic_addx2(s[0:3], s[2])

    def local():
        with T.Kernel(1, threads=64):
            s = T.alloc_local((8,), T.float32)
            T.atomic_addx4(s[0], s[4])

    refuses(old, "T.atomic_addx2 with return_prev")
    refuses(three, "a slice of 2 of them")
    refuses(local, "T.atomic_addx4 on")


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942"])
def test_tile_of_one_element(target):
    """A tile of one element is added once for the block, not by every thread, in T.Parallel(1) as well."""
    pytest.importorskip("llvmlite") if target.startswith("gfx") else None

    @mt.kernel
    def ones(Y: T.Tensor((8,), T.float32)):
        with T.Kernel(1, threads=64):
            x, one = T.alloc_fragment((64,), T.float32), T.alloc_fragment((1,), T.float32)
            s = T.alloc_shared((1,), T.float32)
            T.fill(x, 1.0)
            T.reduce_sum(x, one)
            T.atomic_add(Y[0], one)
            T.clear(s)
            T.atomic_add(s, one)
            T.copy(s, Y[1:2])
            for i in T.Parallel(1):
                T.atomic_add(Y[2 + i], 1.0)
                old = T.atomic_add(Y[3], 5.0, return_prev=True)
                Y[4] = old + 1
                if Y[3] > 100:
                    T.atomic_max(Y[5], 1.0)
                else:
                    T.atomic_max(Y[6], 1.0)

    y = np.array([1, 0, 0, 2, 0, 0, 0, 0], np.float32)
    ones.compile(y, target=target).simulate(y)
    np.testing.assert_array_equal(y, [65, 64, 1, 7, 3, 0, 1, 0])


@pytest.mark.parametrize("shape", [(1,), (64, 1)])
def test_one_column_through_shared_memory(shape):
    """A buffer whose last dimension is 1 has no digits there: on sm_90a its copy is no store by TMA."""

    @mt.kernel
    def through(X: T.Tensor(shape, T.float32), Y: T.Tensor(shape, T.float32)):
        with T.Kernel(1, threads=128):
            s = T.alloc_shared(shape, T.float32)
            T.copy(X, s)
            T.copy(s, Y)

    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    y = np.full(shape, np.nan, np.float32)
    through.compile(x, y, target="sm_90a").simulate(x, y)
    np.testing.assert_array_equal(y, x)


@mt.kernel
def scattered(X: T.Tensor(("S", "D"), None), I: T.Tensor(("S",), T.int32), Y: T.Tensor(("V", "D"), None), wanted=True):  # noqa: E741
    S, _ = X.shape
    with T.Kernel(T.ceildiv(S, 4), threads=64) as bx:
        old = T.alloc_fragment((4, 256), X.dtype)
        for i, j in T.Parallel(4, 256):
            if (bx * 4 + i < S) & (I[bx * 4 + i] >= 0):
                if wanted:
                    T.atomic_add(Y[I[bx * 4 + i], j], X[bx * 4 + i, j])
                else:
                    old[i, j] = T.atomic_add(Y[I[bx * 4 + i], j], X[bx * 4 + i, j], return_prev=True)
        if not wanted:
            T.copy(old, X[bx * 4, 0])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("s", "d"), [(8, 256), (7, 256), (13, 100), (5, 255)])
def test_rows_where_numbers_say(target, dtype, s, d):
    """Rows that are left out by a mask, or by what the table has, and rows that end inside of a block's columns."""
    x, y = integers((s, d), dtype), integers((10, d), dtype)
    number = RNG.integers(-2, 12, s).astype(np.int32)
    expected = y.astype(np.float32)
    for n, row in zip(number, x, strict=True):
        if 0 <= n < 10:
            expected[n] += row.astype(np.float32)
    compiled = run(scattered, target, x, number, y)
    np.testing.assert_array_equal(y.astype(np.float32), expected)
    if target == "sm_90a" and d == 256:
        width = {"float16": "v4.f16x2", "bfloat16": "v4.bf16x2", "float32": "v4.f32"}[dtype]
        assert all(width in text for text in atomics(compiled)), atomics(compiled)


def test_old_values_come_one_by_one():
    specs = mt.spec((8, 256), "float32"), mt.spec((8,), "int32"), mt.spec((9, 256), "float32")
    compiled = scattered.compile(*specs, target="sm_90a", wanted=False)
    assert not any("v4" in text for text in atomics(compiled))
