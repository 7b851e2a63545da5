"""TileLang's copies of single threads: T.ptx_cp_async with T.access_ptr, its groups and its arrival."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minitile.tilelang as tilelang
import minitile.tilelang.language as T
from minitile.driver.simulate import RaceError, simulate
from minitile.ir.diagnostics import LanguageError, TypeMismatchError

RNG = np.random.default_rng()


def gather(rows: int, target: str) -> Any:
    """Rows by their numbers, 8 elements a thread; past the end of the tensor there are zeros."""

    @T.prim_func
    def main(
        X: T.Tensor((rows, 64), "float16"),  # type: ignore[valid-type]
        N: T.Tensor((32,), "int32"),  # type: ignore[valid-type]
        Y: T.Tensor((32, 64), "float16"),  # type: ignore[valid-type]
    ):
        with T.Kernel(1, threads=128):
            s = T.alloc_shared((2, 32, 64), "float16")
            tx = T.get_thread_binding()
            for r in T.serial(2):
                row, column = r * 16 + tx // 8, tx % 8 * 8
                T.ptx_cp_async(
                    T.access_ptr(s[1, row, column], "w", 8), T.access_ptr(X[N[row], column], "r", 8), 8, N[row] != 3
                )
            T.ptx_commit_group()
            T.ptx_wait_group(0)
            T.copy(s[1, :, :], Y)

    return tilelang.compile(main, target=target)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx950"])
@pytest.mark.parametrize("rows", [1, 17, 40])
def test_copies_of_threads(target: str, rows: int) -> None:
    if target.startswith("gfx"):
        pytest.importorskip("llvmlite")
    x, i = RNG.standard_normal((rows, 64)).astype("float16"), RNG.integers(0, 40, 32).astype("int32")
    i[:2] = 3, 0
    y = np.full((32, 64), np.nan, "float16")
    (compiled,) = gather(rows, target).compiled(target)
    compiled.simulate(x, i, y)
    padded = np.zeros((40, 64), "float16")
    padded[:rows] = x
    padded[3] = 0
    np.testing.assert_array_equal(y, padded[i])
    if target.startswith("sm"):
        assert "st.shared.v4.b32" in compiled.text
        assert "ld.global.v4.b32" in compiled.text


@T.macro
def brought(X, s, ready, free, bx, tx):
    """The tiles of a block, by the role that copies."""
    for k in T.serial(2):
        T.barrier_wait(free[k], 1)
        for r in T.serial(4):
            row, column = r * 16 + tx // 8, tx % 8 * 8
            there = T.access_ptr(s[k, row, column], "w", 8)
            T.ptx_cp_async(there, T.access_ptr(X[bx * 128 + k * 64 + row, column], "r", 8), 8)
        T.cp_async_barrier_noinc(ready[k])


@T.prim_func
def handed(X: T.Tensor((256, 64), "float16"), Y: T.Tensor((256, 64), "float16")):  # type: ignore[valid-type]
    """A role copies, and arrives; the other one takes the tile."""
    with T.Kernel(2, threads=256) as bx:
        s = T.alloc_shared((2, 64, 64), "float16")
        ready, free = T.alloc_barrier([128, 128]), T.alloc_barrier([128, 128])
        tx = T.get_thread_binding()
        if tx < 128:
            for k in T.serial(2):
                T.barrier_wait(ready[k], 0)
                T.copy(s[k, :, :], Y[bx * 128 + k * 64, 0])
                T.barrier_arrive(free[k])
        else:
            brought(X, s, ready, free, bx, tx - 128)


@T.prim_func
def multiplied(
    X: T.Tensor((256, 64), "float16"),  # type: ignore[valid-type]
    W: T.Tensor((64, 64), "float16"),  # type: ignore[valid-type]
    Y: T.Tensor((256, 64), "float32"),  # type: ignore[valid-type]
):
    """The other one multiplies it, by wgmma."""
    with T.Kernel(2, threads=256) as bx:
        s, w = T.alloc_shared((2, 64, 64), "float16"), T.alloc_shared((64, 64), "float16")
        c = T.alloc_fragment((64, 64), "float32")
        ready, free, there = T.alloc_barrier([128, 128]), T.alloc_barrier([128, 128]), T.alloc_barrier(256)
        tx = T.get_thread_binding()
        T.copy(W, w)
        T.barrier_arrive(there)
        if tx < 128:
            T.barrier_wait(there, 0)
            for k in T.serial(2):
                T.barrier_wait(ready[k], 0)
                T.clear(c)
                T.wgmma_gemm(s[k, :, :], w, c)
                T.wait_wgmma(0)
                T.barrier_arrive(free[k])
                T.copy(c, Y[bx * 128 + k * 64, 0])
        else:
            brought(X, s, ready, free, bx, tx - 128)


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
def test_an_arrival(schedule: str) -> None:
    """Copies are in flight, and waited for in front of the arrival."""
    x = RNG.standard_normal((256, 64)).astype("float16")
    y = np.full_like(x, np.nan)
    (compiled,) = tilelang.compile(handed).compiled("sm_90a")
    compiled.simulate(x, y, schedule=schedule)
    np.testing.assert_array_equal(y, x)
    assert "cp.async.cg.shared.global" in compiled.text
    w, z = RNG.standard_normal((64, 64)).astype("float16"), np.full((256, 64), np.nan, "float32")
    (compiled,) = tilelang.compile(multiplied).compiled("sm_90a")
    compiled.simulate(x, w, z, schedule=schedule)
    np.testing.assert_allclose(z, x.astype(np.float64) @ w.astype(np.float64), rtol=1e-5, atol=1e-4)


def test_the_wait_in_front_of_an_arrival_is_needed() -> None:
    x, y = np.ones((256, 64), "float16"), np.zeros((256, 64), "float16")
    (compiled,) = tilelang.compile(handed).compiled("sm_90a")
    wait = next(line for line in compiled.text.splitlines() if "cp.async.wait_all" in line)
    with pytest.raises(RaceError):
        simulate(compiled.launch_info, compiled.text.replace(wait, ""), (x, y))


def test_what_is_refused() -> None:
    @T.prim_func
    def dtypes(X: T.Tensor((64,), "float32")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((64,), "float16")
            T.ptx_cp_async(T.access_ptr(s[0], "w", 4), T.access_ptr(X[0], "r", 4), 4)

    @T.prim_func
    def offset(X: T.Tensor((64,), "float32")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=32):
            T.access_ptr(X[0], "r", offset=4)

    with pytest.raises(TypeMismatchError, match="from a tensor to a shared buffer of the same dtype"):
        tilelang.compile(dtypes).compiled("sm_80")
    with pytest.raises(LanguageError, match="index the element"):
        tilelang.compile(offset).compiled("sm_80")
