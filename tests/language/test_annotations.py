"""T.annotate_min_blocks_per_sm: what reaches the assembler."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
import minitile.language as T


@mt.kernel
def twice(X: T.Tensor((256,), T.float32), blocks=2):
    with T.Kernel(1, threads=128):
        T.annotate_min_blocks_per_sm(blocks)
        for i in T.Parallel(256):
            X[i] = 2 * X[i]


def test_it_bounds_registers() -> None:
    x = np.ones(256, np.float32)
    compiled = twice.compile(target="sm_90a")
    assert re.search(r"\.reqntid 128\n\.minnctapersm 2\n", compiled.asm["ptx"])
    assert compiled.binary
    compiled.simulate(x)
    assert (x == 2).all()
    twice.compile(target="gfx942").simulate(x)
    assert (x == 4).all()


@mt.kernel
def product(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.float32),
    blocks=0,
    high=64,
    wide=160,
):
    with T.Kernel(T.ceildiv(C.shape[1], wide), T.ceildiv(C.shape[0], high), threads=high * 2) as (bx, by):
        if blocks:
            T.annotate_min_blocks_per_sm(blocks)
        A_shared = T.alloc_shared((high, 64), A.dtype)
        B_shared = T.alloc_shared((wide, 64), B.dtype)
        C_local = T.alloc_fragment((high, wide), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(A.shape[1], 64), num_stages=3):
            T.copy(A[by * high, k * 64], A_shared)
            T.copy(B[bx * wide, k * 64], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
        T.copy(C_local, C[by * high, bx * wide])


def compiled_product(**config):
    shapes = ((72, 328), "bfloat16"), ((200, 328), "bfloat16"), ((72, 200), "float32")
    return product.compile(*(mt.spec(*each) for each in shapes), target="sm_90a", **config)


@pytest.mark.parametrize(("blocks", "threads"), [(0, 256), (1, 256), (2, 160), (3, 160)])
def test_copies_of_several_blocks_are_by_one_warp_each(blocks, threads):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((n, 328)).astype(ml_dtypes.bfloat16) for n in (72, 200))
    compiled = compiled_product(blocks=blocks)
    assert compiled.launch_info.block == (threads, 1, 1)
    assert f".reqntid {threads}\n.minnctapersm {blocks or 1}\n" in compiled.asm["ptx"]
    assert compiled.spills == 0
    c = np.full((72, 200), np.nan, np.float32)
    compiled.simulate(a, b, c)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64).T, rtol=1e-3, atol=1e-3)


def test_one_warp_moves_no_registers():
    """setmaxnreg is for whole warpgroups."""
    texts = [compiled_product(blocks=blocks, high=128, wide=384).asm["ptx"] for blocks in (1, 2)]
    assert ["setmaxnreg" in text for text in texts] == [True, False]


@pytest.mark.parametrize("blocks", [0, 33])
def test_counts_that_no_multiprocessor_has(blocks: int) -> None:
    with pytest.raises(mt.MinitileError, match=f"annotate_min_blocks_per_sm.{blocks}") as found:
        twice.compile(target="sm_80", blocks=blocks)
    assert "1 to 32" in found.value.hint
