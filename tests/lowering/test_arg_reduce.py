"""T.argmax and T.argmin against NumPy: every target, odd sizes, dtypes, ties and NaN."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.ir.diagnostics import MinitileError

TARGETS = ("sm_80", "sm_90a", "gfx942", "gfx950")
NUMPY = {"bfloat16": ml_dtypes.bfloat16, "float8_e4m3fn": ml_dtypes.float8_e4m3fn}


def element(dtype: str) -> np.dtype:
    return np.dtype(NUMPY.get(dtype, dtype))


def indices(name: str, values: np.ndarray, threads: int, target: str, dim: int = 1, keep: bool = False) -> np.ndarray:
    """What the kernel finds along `dim` of values; `keep`: into a fragment that keeps the dimension, as 1."""
    pytest.importorskip("llvmlite") if target.startswith("gfx") else None
    dtype = values.dtype.name if values.dtype != ml_dtypes.float8_e4m3fn else "float8_e4m3fn"
    rest = tuple(1 if d == dim else n for d, n in enumerate(values.shape) if keep or d != dim)

    @mt.kernel
    def kernel(A: T.Tensor(values.shape, dtype), B: T.Tensor(rest, T.int32)):
        with T.Kernel(1, threads=threads):
            F = T.alloc_fragment(values.shape, dtype)
            R = T.alloc_fragment(rest, T.int32)
            T.copy(A, F)
            getattr(T, name)(F, R, dim=dim)
            T.copy(R, B)

    found = np.full(rest, -99, np.int32)
    kernel.compile(target=target).simulate(values, found)
    return found


def expected(name: str, values: np.ndarray, dim: int) -> np.ndarray:
    return getattr(np, name)(values.astype(np.float64), dim)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32"])
@pytest.mark.parametrize("width", [1, 17, 1000])
def test_rows(target: str, dtype: str, width: int) -> None:
    """Few different numbers, so that most rows have ties; floats with a NaN in some rows, infinities, zeros of both
    signs."""
    rng = np.random.default_rng(width)
    values = rng.integers(-3, 4, (8, width)).astype(element(dtype))
    if dtype != "int32":
        values[5] = rng.choice([0.0, -0.0], width)
        values[1, rng.integers(0, width, 2)] = np.nan
        values[2, rng.integers(0, width)] = -np.nan
        values[3], values[4] = -np.inf, np.inf
    else:
        values[3], values[4] = np.iinfo(np.int32).min, np.iinfo(np.int32).max
    for name in ("argmax", "argmin"):
        np.testing.assert_array_equal(indices(name, values, 128, target), expected(name, values, 1))


@pytest.mark.parametrize("target", ["sm_80", "gfx942"])
@pytest.mark.parametrize("dtype", ["float64", "int64", "uint32", "uint8", "int16", "bool", "float8_e4m3fn"])
def test_other_dtypes(target: str, dtype: str) -> None:
    rng = np.random.default_rng(7)
    whole = rng.integers(0, 2 if dtype == "bool" else 6, (4, 50))
    whole = whole - 3 if dtype[0] in "fi" else whole
    values = whole.astype(element(dtype))
    if dtype == "uint32":
        values[0] += np.uint32(1 << 31)
        values[0, 3] = 5
    for name in ("argmax", "argmin"):
        np.testing.assert_array_equal(indices(name, values, 64, target), getattr(np, name)(values.astype(object), 1))


@pytest.mark.parametrize("target", ["sm_80", "gfx950"])
@pytest.mark.parametrize(("shape", "dim"), [((17, 40), 0), ((3, 5, 8), 1), ((3, 5, 8), -1), ((130,), 0), ((64, 1), 0)])
def test_shapes(target: str, shape: tuple[int, ...], dim: int) -> None:
    values = np.random.default_rng(3).integers(-2, 3, shape).astype(np.float32)
    if len(shape) == 1:
        found = indices("argmax", values, 64, target, 0, keep=True)
        assert found == np.argmax(values)
        return
    for keep in (False, True):
        found = indices("argmin", values, 64, target, dim % len(shape), keep)
        np.testing.assert_array_equal(
            found, np.expand_dims(np.argmin(values, dim), dim) if keep else np.argmin(values, dim)
        )


def test_a_part_of_a_pipeline() -> None:
    """A shared buffer as the source, a wider integer as the result, whose fragment is used by what follows."""

    @mt.kernel
    def kernel(A: T.Tensor((16, 64), T.float16), B: T.Tensor((16, 64), T.int32)):
        with T.Kernel(1, threads=64):
            S = T.alloc_shared((16, 64), T.float16)
            R = T.alloc_fragment((16,), T.int64)
            T.copy(A, S)
            T.argmax(S, R)
            for i, j in T.Parallel(16, 64):
                B[i, j] = T.if_then_else(R[i] == j, 1, 0)

    a = np.random.default_rng(5).integers(-9, 9, (16, 64)).astype(np.float16)
    for target in ("sm_80", "sm_90a"):
        b = np.zeros((16, 64), np.int32)
        kernel.compile(target=target).simulate(a, b)
        np.testing.assert_array_equal(b, np.arange(64) == a.argmax(1)[:, None])


def test_what_does_not_fit() -> None:
    def traced(into: str, shape: tuple[int, ...]) -> None:
        @mt.kernel
        def kernel(A: T.Tensor((16, 64), T.float16)):
            with T.Kernel(1, threads=64):
                F, R = T.alloc_fragment((16, 64), T.float16), T.alloc_fragment(shape, into)
                T.copy(A, F)
                T.argmax(F, R, dim=1)

        kernel.trace()

    with pytest.raises(MinitileError, match="indices are integers"):
        traced("float32", (16,))
    with pytest.raises(MinitileError, match="gives 16, not 64"):
        traced("int32", (64,))


@pytest.mark.parametrize("target", TARGETS)
def test_it_stays_in_registers_and_lanes(target: str) -> None:
    """Rows that one warp has go without shared memory and barriers; a thread's own elements without shuffles."""
    pytest.importorskip("llvmlite") if target.startswith("gfx") else None

    @mt.kernel
    def kernel(A: T.Tensor((64, 32), T.float32), B: T.Tensor((64,), T.int32)):
        with T.Kernel(1, threads=64):
            F, R = T.alloc_fragment((64, 32), T.float32), T.alloc_fragment((64,), T.int32)
            T.copy(A, F)
            T.argmax(F, R, dim=1)
            T.copy(R, B)

    compiled = kernel.compile(target=target)
    text = compiled.asm["thread_ir"]
    assert compiled.launch_info.dynamic_shared == 0
    assert "barrier" not in text
    assert 0 < text.count("shuffle_xor") <= 10
