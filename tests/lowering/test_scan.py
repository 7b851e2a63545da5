"""T.cumsum, T.cummax and T.cummin against NumPy: every target, odd sizes, dimensions, dtypes, both directions, NaN."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.ir.diagnostics import MinitileError

TARGETS = ("sm_80", "sm_90a", "gfx942", "gfx950")
NUMPY = {"cumsum": np.add, "cummax": np.fmax, "cummin": np.fmin}


def scanned(
    name: str, values: np.ndarray, target: str, dim: int = 1, reverse: bool = False, threads: int = 128, **into: Any
) -> np.ndarray:
    """What the kernel makes of values along `dim`."""
    pytest.importorskip("llvmlite") if target.startswith("gfx") else None
    dtype, result = values.dtype.name, into.get("into", values.dtype.name)

    @mt.kernel
    def kernel(A: T.Tensor(values.shape, dtype), B: T.Tensor(values.shape, result)):
        with T.Kernel(1, threads=threads):
            F, R = T.alloc_fragment(values.shape, dtype), T.alloc_fragment(values.shape, result)
            T.copy(A, F)
            getattr(T, name)(F, R, dim=dim, reverse=reverse)
            T.copy(R, B)

    found = np.zeros(values.shape, ml_dtypes.bfloat16 if result == "bfloat16" else result)
    kernel.compile(target=target).simulate(values, found)
    return found


def expected(name: str, values: np.ndarray, dim: int = 1, reverse: bool = False) -> np.ndarray:
    values = np.flip(values, dim) if reverse else values
    found = NUMPY[name].accumulate(values, dim)
    return np.flip(found, dim) if reverse else found


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("width", [1, 17, 1000, 1024])
def test_rows(target: str, width: int) -> None:
    """Whole numbers, so that all orders of addition agree."""
    values = np.random.default_rng(width).integers(-9, 9, (5, width)).astype(np.float32)
    for reverse in (False, True):
        found = scanned("cumsum", values, target, reverse=reverse)
        np.testing.assert_array_equal(found, expected("cumsum", values, reverse=reverse))
    np.testing.assert_array_equal(scanned("cummax", values, target), expected("cummax", values))


@pytest.mark.parametrize("target", ["sm_80", "gfx942"])
@pytest.mark.parametrize(
    ("shape", "dim", "threads"),
    [
        ((64, 24), 0, 64),
        ((3, 5, 8), 1, 64),
        ((130,), 0, 64),
        ((2, 3000), 1, 384),
        ((1, 4096), 1, 256),
        ((257, 2), 0, 128),
    ],
)
def test_any_dimension(target: str, shape: tuple[int, ...], dim: int, threads: int) -> None:
    """Registers, lanes and warps in other orders, slots outside of the tile, warps that are no power of two."""
    values = np.random.default_rng(3).integers(-5, 6, shape).astype(np.int32)
    for name, reverse in (("cumsum", False), ("cumsum", True), ("cummin", True)):
        found = scanned(name, values, target, dim - len(shape), reverse, threads)
        np.testing.assert_array_equal(found, expected(name, values, dim, reverse))


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int8", "int64", "uint8", "uint32"])
def test_dtypes(dtype: str) -> None:
    """Integers wrap, 16-bit floats are carried in f32 and rounded once."""
    element = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    whole = np.random.default_rng(5).integers(0, 90, (3, 300))
    values = whole.astype(element)
    for target in ("sm_80", "gfx950"):
        for reverse in (False, True):
            exact = expected("cumsum", whole, reverse=reverse).astype(element)
            np.testing.assert_array_equal(scanned("cumsum", values, target, reverse=reverse), exact)
        np.testing.assert_array_equal(scanned("cummin", values, target).astype(np.int64), expected("cummin", whole))


def test_sums_are_made_in_the_wider_dtype() -> None:
    values = np.full((1, 512), 1.0 + 2**-8, np.float32)  # bfloat16 would round each of them
    wide = expected("cumsum", values.astype(np.float64))
    narrow = scanned("cumsum", values, "sm_80", into="bfloat16")
    np.testing.assert_array_equal(narrow, wide.astype(ml_dtypes.bfloat16))
    half = np.ones((1, 4096), np.float16)  # float16 has no odd number above 2048
    np.testing.assert_array_equal(
        scanned("cumsum", half, "sm_80", into="float32"), expected("cumsum", half.astype("f4"))
    )


@pytest.mark.parametrize("target", ["sm_90a", "gfx942"])
def test_nan_and_infinity(target: str) -> None:
    values = np.random.default_rng(9).standard_normal((4, 300)).astype(np.float32)
    values[0, :9] = values[1, 200] = np.nan
    values[2], values[3, 150] = np.nan, np.inf
    for name in ("cummax", "cummin"):
        for reverse in (False, True):
            found = scanned(name, values, target, reverse=reverse)
            np.testing.assert_array_equal(found, expected(name, values, reverse=reverse))
    found = scanned("cumsum", values, target)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected("cumsum", values)))
    np.testing.assert_array_equal(found[3, 150:], np.inf)


@pytest.mark.parametrize("target", TARGETS)
def test_in_place_in_shared_memory(target: str) -> None:
    """Whole, and a part of it; scans of scans."""
    pytest.importorskip("llvmlite") if target.startswith("gfx") else None

    @mt.kernel
    def kernel(A: T.Tensor((32, 48), T.int32), B: T.Tensor((32, 48), T.int32)):
        with T.Kernel(1, threads=64):
            S = T.alloc_shared((32, 48), T.int32)
            T.copy(A, S)
            T.cumsum(S, dim=1)
            T.cumsum(S)
            T.cumsum(S[8:16, 3], dim=0, reverse=True)
            T.copy(S, B)

    a = np.random.default_rng(5).integers(-9, 9, (32, 48)).astype(np.int32)
    b = np.zeros_like(a)
    kernel.compile(target=target).simulate(a, b)
    sums = a.cumsum(1).cumsum(0)
    sums[8:16, 3] = sums[15:7:-1, 3].cumsum()[::-1]
    np.testing.assert_array_equal(b, sums)


@pytest.mark.parametrize("target", TARGETS)
def test_a_row_of_one_warp_needs_no_shared_memory(target: str) -> None:
    """Two operations an element, and a butterfly of one shuffle a step."""
    pytest.importorskip("llvmlite") if target.startswith("gfx") else None

    @mt.kernel
    def kernel(A: T.Tensor((64, 128), T.float32), B: T.Tensor((64, 128), T.float32)):
        with T.Kernel(8, threads=256) as bx:
            F = T.alloc_fragment((8, 128), T.float32)
            T.copy(A[bx * 8, 0], F)
            T.cumsum(F, dim=1)
            T.copy(F, B[bx * 8, 0])

    compiled = kernel.compile(target=target)
    assert compiled.launch_info.dynamic_shared == 0
    assert "barrier" not in compiled.asm["thread_ir"]
    assert compiled.asm["thread_ir"].count("shuffle_xor") == 5


def test_what_does_not_fit() -> None:
    def traced(dim: int = 1, into: str = "float32", shape: tuple[int, ...] = (16, 64), tensor: bool = False) -> None:
        @mt.kernel
        def kernel(A: T.Tensor((16, 64), T.float32)):
            with T.Kernel(1, threads=64):
                F, R = T.alloc_fragment((16, 64), T.float32), T.alloc_fragment(shape, into)
                T.copy(A, F)
                T.cumsum(A if tensor else F, R, dim=dim)

        kernel.trace()

    for wrong, message in (
        ({"dim": 2}, "dim=2 of a tile with 2 dimensions"),
        ({"shape": (16, 32)}, "16×64 elements into 16×32"),
        ({"into": "int32"}, "f32 is not cast to i32 silently"),
        ({"tensor": True}, "copy it to a fragment"),
    ):
        with pytest.raises(MinitileError, match=message):
            traced(**wrong)
