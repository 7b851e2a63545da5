"""sm_103a beside sm_100a: the same code but for products of int8, which ptxas refuses there."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.backends.nvidia.assemble import find_ptxas


@mt.kernel
def multiply(A: T.Tensor((128, 32), None), B: T.Tensor((32, 32), None), C: T.Tensor((128, 32), None)):
    with T.Kernel(1, threads=128):
        A_shared = T.alloc_shared((128, 32), A.dtype)
        B_shared = T.alloc_shared((32, 32), A.dtype)
        c = T.alloc_fragment((128, 32), C.dtype)
        T.copy(A, A_shared)
        T.copy(B, B_shared)
        T.gemm(A_shared, B_shared, c, transpose_B=True, clear_accum=True)
        T.copy(c, C)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.int8])
@pytest.mark.parametrize("target", ["sm_100a", "sm_103a"])
def test_products(target: str, dtype: type) -> None:
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-8, 8, (rows, 32)).astype(dtype) for rows in (128, 32))
    c = np.full((128, 32), -77, np.int32 if dtype is np.int8 else np.float32)
    compiled = multiply.compile(a, b, c, target=target)
    compiled.simulate(a, b, c)
    np.testing.assert_array_equal(c, a.astype(np.int32) @ b.astype(np.int32).T)
    ptx = compiled.asm["ptx"]
    assert f".target {target}\n" in ptx
    assert ("tcgen05.mma" in ptx) == (target == "sm_100a" or dtype is not np.int8)
    if find_ptxas(ptx) is not None:
        assert compiled.spills == 0
        assert compiled.assembled.warnings == ()
