"""Products with scales of blocks on sm_100a: mxf8, mxf4, nvf4 (examples/gemm_mx.py), right and race-free in all
schedules, and nothing of the synchronisation is to spare."""

from __future__ import annotations

import re
from typing import Any

import gemm_mx
import numpy as np
import pytest
from mutation_testing import TAKEN_OR_WEAKER, surviving_mutants
from support import error, poisoned

import minitile as mt
import minitile.language as T
from minitile.backends.nvidia.blackwell.descriptors import SCALED, fields
from minitile.ir.diagnostics import MinitileError

TARGETS = ("sm_100a", pytest.param("sm_103a", marks=pytest.mark.slow))
SCHEDULES = ("lazy", "eager", "random")
pytestmark = pytest.mark.parametrize("target", TARGETS)
FORMS = [("e4m3", "e4m3", 32), ("e5m2", "e4m3", 32), ("e2m1", "e2m1", 32), ("e2m1", "e2m1", 16)]
KINDS = {
    ("e4m3", 32): "mxf8f6f4.block_scale.scale_vec::1X",
    ("e5m2", 32): "mxf8f6f4.block_scale.scale_vec::1X",
    ("e2m1", 32): "mxf4.block_scale.scale_vec::2X",
    ("e2m1", 16): "mxf4nvf4.block_scale.scale_vec::4X",
}


def operands(m: int, n: int, k: int, a: str, b: str, block: int) -> tuple[list[np.ndarray], np.ndarray]:
    """A kernel's arguments, and the exact product. Rows and blocks differ much in size."""
    if block == 32:
        (x, sx), (y, sy) = gemm_mx.operands(m, n, k, a, b)
    else:
        rng = np.random.default_rng(m + n + k)
        (x, sx), (y, sy) = (
            gemm_mx.quantize_nvfp4(
                rng.standard_normal((rows, k)) * np.repeat(2.0 ** rng.integers(-3, 4, (rows, k // 16)), 16, axis=1)
            )
            for rows in (m, n)
        )
    arrays = [gemm_mx.pack(x, a), gemm_mx.pack(y, b), sx, sy, poisoned((m, n))]
    return arrays, gemm_mx.exact(x, sx) @ gemm_mx.exact(y, sy).T


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("a", "b", "block"), FORMS)
@pytest.mark.parametrize(
    ("size", "tiles"),
    [
        ((200, 72, 320), {"block_N": 64, "threads": 128}),
        ((1, 17, 64), {"block_N": 32, "threads": 128}),
        ((129, 200, 384), {"block_N": 256}),
        ((200, 136, 320), {"block_N": 128, "num_stages": 0}),
        ((300, 64, 0), {"block_M": 256, "block_N": 64}),
    ],
)
def test_products(
    target: str, size: tuple[int, int, int], tiles: dict[str, int], a: str, b: str, block: int, schedule: str
) -> None:
    arrays, exact = operands(*size, a, b, block)
    compiled = gemm_mx.gemm_mx(a, b, block).compile(*arrays, target=target, **tiles)
    compiled.simulate(*arrays, schedule=schedule, seed=3)
    assert error(arrays[-1], exact) <= 1e-6
    assert f"tcgen05.mma.cta_group::1.kind::{KINDS[a, block]}" in compiled.asm["ptx"]
    assert compiled.spills == 0
    assert compiled.assembled.warnings == ()


def test_scales_of_each_step(target: str) -> None:
    """Of fp8 four instructions read a word of scales, each its byte; of fp4 two; of nvfp4 each reads its own word."""
    for (a, b, block), bytes_, columns in zip(
        FORMS[1:], ([0, 1, 2, 3], [0, 2, 0, 2], [0] * 4), ([0, 0, 0, 0], [0, 0, 4, 4], [0, 4, 8, 12]), strict=True
    ):
        arrays, _ = operands(128, 64, 256, a, b, block)
        given = {"block_N": 64, "block_K": 128 if a != "e2m1" else 256, "threads": 128}
        ptx = gemm_mx.gemm_mx(a, b, block).compile(*arrays, target=target, **given).asm["ptx"]
        registers = dict(re.findall(r"mov\.b32 (%\w+), (-?\d+);", ptx))
        products = re.findall(r"tcgen05\.mma\S+ \S+ \S+ \S+ (%\w+), \[%\w+(?:\+(\d+))?\], \[%\w+(?:\+(\d+))?\],", ptx)
        words = [fields(SCALED, int(registers[word]) & 0xFFFFFFFF) for word, _, _ in products]
        assert [(each["a_scale_byte"], each["b_scale_byte"]) for each in words] == [(n, n) for n in bytes_]
        assert {each["scale_format"] for each in words} == {int(block == 32)}
        assert [int(of_a or 0) for _, of_a, _ in products] == columns  # 128 rows: 4 columns a word
        assert [int(of_b or 0) for _, _, of_b in products] == [at // 2 for at in columns]  # 64 rows: 2


@pytest.mark.parametrize(
    ("n", "copies", "stores"), [(32, 1, 1), (96, 1, 2), (128, 2, 0), (256, 3, 0)]
)  # of A, of B: 256 columns are two images, and three columns of words two stores
def test_how_scales_get_there(target: str, n: int, copies: int, stores: int) -> None:
    """By tcgen05.cp where rows are whole images of 128; else threads store them."""
    arrays, exact = operands(128, n, 256, "e4m3", "e4m3", 32)
    compiled = gemm_mx.gemm_mx("e4m3", "e4m3").compile(*arrays, target=target, block_N=n)
    ptx = compiled.asm["ptx"]
    assert (ptx.count("tcgen05.cp.cta_group::1.32x128b.warpx4"), ptx.count("tcgen05.st")) == (copies, stores)
    compiled.simulate(*arrays)
    assert error(arrays[-1], exact) <= 1e-6


@mt.kernel
def doubled(
    A: T.Tensor((128, 128), T.float8_e4m3fn),
    S: T.Tensor((128, 4), T.uint8),
    C: T.Tensor((128, 128), T.float32),
    read=False,
):
    """(2 · A) · Aᵀ: scales that threads compute, or only read."""
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((128, 128), A.dtype)
        plain, twice = T.alloc_shared((128, 4), T.uint8), T.alloc_fragment((128, 4), T.uint8)
        c = T.alloc_fragment((128, 128), T.float32)
        T.copy(A, a)
        T.copy(S, plain)
        if read:
            T.copy(plain, twice)
            T.copy(twice, S)
        for i, j in T.Parallel(128, 4):
            twice[i, j] = plain[i, j] + T.uint8(1)
        T.gemm_blockscaled(a, a, c, twice, plain, transpose_B=True, clear_accum=True)
        T.copy(c, C)


@pytest.mark.parametrize("read", [False, True])
def test_scales_that_threads_compute(target: str, read: bool) -> None:
    """Those are stored by threads; and so is what a buffer holds that threads read as well."""
    (a, s), _ = gemm_mx.operands(128, 1, 128, "e4m3", "e4m3")
    c = poisoned((128, 128))
    compiled = doubled.compile(a, s, c, target=target, read=read)
    assert "tcgen05.cp" not in compiled.asm["ptx"]
    compiled.simulate(a, s, c, schedule="random")
    assert error(c, 2 * gemm_mx.exact(a, s) @ gemm_mx.exact(a, s).T) <= 1e-6


@pytest.mark.slow
@TAKEN_OR_WEAKER
@pytest.mark.parametrize("n", [32, 128])
@pytest.mark.parametrize(("a", "b", "block"), FORMS[1:])
def test_mutants(target: str, a: str, b: str, block: int, n: int, candidates: Any) -> None:
    """Without any one of its waits, fences, barriers, arrivals, commits, or its dealloc, it is at fault; but for the
    fence of the mbarriers' initialisation, which a proxy fence behind it does as well. Also where one is weaker; but
    three arrivals for the four of a slot's readers, who have met at the products' mbarrier, make a phase too many in
    the fourth round only."""
    arrays, _ = operands(129, n, 512, a, b, block)
    compiled = gemm_mx.gemm_mx(a, b, block).compile(*arrays, target=target, block_N=n, threads=128)
    survivors, count = surviving_mutants(compiled, tuple(arrays), candidates)
    assert count >= 14
    spare = ("bar.warp.sync", "fence.mbarrier_init", "], 4 -> mbarrier.init")
    assert [each for each in survivors if not any(word in each for word in spare)] == []


@mt.kernel
def faulty(A: T.Tensor((128, 128), T.float8_e4m3fn), C: T.Tensor((128, 128), T.float32), what=""):
    rows, depth = 64 if what == "rows" else 128, 96 if what == "depth" else 128
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((rows, depth), A.dtype)
        b = T.alloc_shared((128, depth), A.dtype)
        packed = T.alloc_shared((128, depth // 2), T.uint8)
        c = T.alloc_fragment((rows, 128), T.float32)
        s, t = T.alloc_shared((rows, depth // 32), T.uint8), T.alloc_shared((128, depth // 32), T.uint8)
        T.fill(s, 127)
        T.fill(t, 127)
        T.copy(A[0:rows, 0:depth], a)
        if what == "formats":
            T.gemm_blockscaled(a, packed, c, s, t, transpose_B=True, clear_accum=True, b_format=T.float4_e2m1fn)
        elif what == "blocks":
            T.gemm_blockscaled(
                a, b, c, s, t, transpose_B=True, clear_accum=True, sf_a_granularity_k=16, sf_b_granularity_k=16
            )
        else:
            T.gemm_blockscaled(a, b, c, s, t, transpose_B=True, clear_accum=True)
        T.copy(c, C[0:rows, 0:128])


FAULTS = {
    "rows": "M is 64 or 128",
    "depth": "words of four scales want K in steps of 128",
    "formats": "e4m3 by e2m1 into f32 with scales of u8 is not among its types",
    "blocks": "is of u8",
}


@pytest.mark.parametrize("what", FAULTS)
def test_what_is_not(target: str, what: str) -> None:
    with pytest.raises(MinitileError, match=FAULTS[what]):
        faulty.compile(target=target, what=what)
