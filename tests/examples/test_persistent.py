"""T.Kernel(persistent=…): persistent kernels give what a block for each tile gives."""

from __future__ import annotations

from typing import Any

import gemm
import gemm_persistent
import ml_dtypes
import numpy as np
import pytest
from support import USE_GPU, on_device

import minitile as mt
import minitile.language as T

TILES = {"block_M": 64, "block_N": 64, "block_K": 64}


@pytest.mark.usefixtures("target")
@pytest.mark.parametrize(
    ("size", "blocks", "panel"),
    [((130, 200, 200), 3, 2), ((64, 64, 8), 132, 0), ((1, 17, 1000), 1, 0), ((257, 64, 64), 4, 1)],
)
def test_gemm(size: tuple[int, int, int], blocks: int, panel: int) -> None:
    bound = gemm.DTYPES["bf16"][-1]
    assert gemm.run(*size, "bf16", False, True, panel=panel, persistent=blocks, **TILES) <= bound


@pytest.mark.parametrize(("blocks", "panel"), [(8, 0), (5, 2), (11, 1)])
@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_gemm_over_xcds(target: str, blocks: int, panel: int) -> None:
    """In either of the two ways to say it: 5 x 3 tiles, which no number of blocks or XCDs divides."""
    pytest.importorskip("llvmlite")
    rng = np.random.default_rng(blocks)
    a, b = (rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((150, 40), (90, 40)))
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    tiles = {"block_M": 32, "block_N": 32, "block_K": 32, "threads": 64}

    def check(kernel: Any, **options: int) -> None:
        c = np.full((150, 90), np.nan, ml_dtypes.bfloat16)
        kernel.compile(a, b, c, target=target, **options).simulate(a, b, c, schedule="random", seed=panel)
        assert np.linalg.norm(c.astype(np.float64) - exact) <= 4e-3 * np.linalg.norm(exact)

    check(gemm.gemm_nt_bf16(), **tiles, panel=panel, persistent=blocks, xcds=8)
    check(gemm_persistent.gemm_persistent, **tiles, panel=panel or 1, blocks=blocks, xcds=8)


@mt.kernel
def leaves(A: T.Tensor(("X", "Y", "Z"), T.int32), limit=3, blocks=2):
    """In three dimensions, with shared memory and an early return."""
    X, Y, Z = A.shape
    with T.Kernel(X, Y, Z, threads=64, persistent=blocks) as (x, y, z):
        shared = T.alloc_shared((64,), T.int32)
        for i in T.Parallel(64):
            shared[i] = x * 100 + y * 10 + z + i
        if x >= limit:
            return
        if T.get_thread_binding() == 0:
            A[x, y, z] = shared[63]


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(("shape", "blocks"), [((4, 3, 5), 2), ((4, 3, 5), 7), ((5, 1, 1), 132), ((0, 3, 2), 4)])
def test_three_dimensions(shape: tuple[int, int, int], blocks: int, target: str) -> None:
    a = np.full(shape, -1, np.int32)
    compiled = leaves.compile(a, target=target, blocks=blocks)
    if USE_GPU:
        there = on_device(a)
        compiled(there)
        a = np.asarray(there.cpu())
    else:
        for schedule in ("eager", "lazy", "random"):
            compiled.simulate(a, schedule=schedule, seed=1)
    x, y, z = np.indices(shape)
    np.testing.assert_array_equal(a, np.where(x < 3, x * 100 + y * 10 + z + 63, -1))


@mt.kernel
def both(A: T.Tensor(("N",), T.float32), persistent=2, cluster=1, dynamic=False):
    with T.Kernel(A.shape[0], threads=64, persistent=persistent, cluster=cluster, dynamic=dynamic) as x:
        A[x] = 1.0


@pytest.mark.parametrize("constants", [{"persistent": -1}, {"persistent": 2, "cluster": 2}])
def test_what_is_refused(constants: dict[str, int]) -> None:
    with pytest.raises(mt.MinitileError, match="persistent"):
        both.compile(np.zeros(4, np.float32), **constants)


def test_dynamic_says_of_how_many() -> None:
    with pytest.raises(mt.MinitileError, match=r"dynamic=True without persistent="):
        both.compile(np.zeros(4, np.float32), persistent=0, dynamic=True)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942"])
def test_dynamic_where_there_is_no_launch_control(target: str) -> None:
    """The same tiles as without it, and a note."""
    if target == "gfx942":
        pytest.importorskip("llvmlite")
    a = np.zeros(5, np.float32)
    compiled = both.compile(a, target=target, dynamic=True)
    assert f"tiles are not taken as they come: {target} has no cluster launch control" in compiled.notes
    text = "llvm" if target == "gfx942" else "ptx"
    assert compiled.asm[text].replace("both__dynamic", "both") == both.compile(a, target=target).asm[text]
