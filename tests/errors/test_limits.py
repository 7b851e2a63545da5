"""What a target cannot do: shared memory, tiles, threads, unknown targets and passes."""

from __future__ import annotations

import pytest

import minitile as mt
import minitile.language as T
from minitile.ir.diagnostics import LanguageError, ResourceError, TargetError, TypeMismatchError


@mt.kernel
def matmul(
    A: T.Tensor(("M", "K"), T.bfloat16),
    B: T.Tensor(("N", "K"), T.bfloat16),
    C: T.Tensor(("M", "N"), T.bfloat16),
    block_M=128,
    block_N=256,
    block_K=64,
    num_stages=4,
    threads=256,
):
    with T.Kernel(T.ceildiv(C.shape[1], block_N), T.ceildiv(C.shape[0], block_M), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), A.dtype)
        B_shared = T.alloc_shared((block_N, block_K), B.dtype)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(A.shape[1], block_K), num_stages=num_stages):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[bx * block_N, k * block_K], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
        T.copy(C_local, C[by * block_M, bx * block_N])


GEMM = "T.gemm(A_shared, B_shared, C_local, transpose_B=True)"
KERNEL = "with T.Kernel(T.ceildiv(C.shape[1], block_N), T.ceildiv(C.shape[0], block_M), threads=threads) as (bx, by):"


@pytest.mark.parametrize(("target", "stages", "limit"), [("sm_80", 4, 163 * 1024), ("sm_89", 3, 99 * 1024)])
def test_too_much_shared_memory(shows, target, stages, limit):
    a, b = stages * 128 * 64 * 2, stages * 256 * 64 * 2
    shows(
        lambda: matmul.compile(target=target, num_stages=stages),
        ResourceError,
        "B_shared = T.alloc_shared((block_N, block_K), B.dtype)",
        [
            f"needs {a + b} bytes of shared memory at once; {target} has {limit}",
            f"A_shared: {a} bytes ({stages} versions of 128x64 bf16, line ",
            f"B_shared: {b} bytes ({stages} versions of 256x64 bf16, line ",
        ],
        "smaller tiles or fewer stages",
        caret="T.alloc_shared((block_N, block_K), B.dtype)",
    )


@mt.kernel
def softened(A: T.Tensor(("N",), T.float32), B: T.Tensor(("N",), T.float32), n=1 << 20):
    with T.Kernel(1, threads=128):
        whole = T.alloc_fragment((n,), T.float32)
        T.copy(A, whole)
        for i in T.Parallel(n):
            whole[i] = T.exp2(whole[i])
        T.copy(whole, B)


@pytest.mark.parametrize(("target", "limit"), [("sm_80", 1 << 18), ("sm_90a", 1 << 18), ("gfx942", 1 << 19)])
def test_a_fragment_beyond_all_registers(shows, target, limit):
    """It is refused before any pass counts its elements; the largest that is not is compiled."""
    for n in (limit // 4 + 1, 1 << 20, 1 << 30):
        shows(
            lambda n=n: softened.compile(target=target, n=n),
            ResourceError,
            "whole = T.alloc_fragment((n,), T.float32)",
            [f"whole is {4 * n} bytes ({n} f32), and all registers of a block are {limit} on {target}"],
            "take a part at a time",
            caret="T.alloc_fragment((n,), T.float32)",
        )


def test_a_fragment_of_all_registers():
    assert softened.compile(target="sm_80", n=1 << 16).text


@pytest.mark.parametrize(
    ("target", "tiles", "texts", "fits", "fewer"),
    [
        ("sm_80", (100, 64, 64, 256), ["gemm of 100x64x64 bf16", "16x8 blocks", "12.5x64"], (112, 64), None),
        ("sm_80", (64, 60, 64, 256), ["gemm of 64x60x64 bf16", "16x8 blocks", "64x7.5"], (64, 64), None),
        ("sm_80", (16, 8, 64, 256), ["8 warps can't share a 16x8 accumulator", "over 256 threads"], (16, 64), 32),
        ("sm_80", (16, 24, 32, 128), ["4 warps can't share a 16x24 accumulator"], (16, 32), 96),
        ("sm_80", (24, 24, 32, 32), ["1 warps can't share a 24x24 accumulator"], (32, 24), None),
        ("gfx942", (24, 24, 32, 64), ["1 warps can't share a 24x24 accumulator"], (32, 32), None),
    ],
)
def test_a_tile_that_the_tensor_cores_cannot_share(shows, target, tiles, texts, fits, fewer):
    """The hint names the next accumulator that fits and the threads that fit this one, if any do; both compile."""

    def compiled(block_M, block_N, block_K, threads):
        sizes = {"block_M": block_M, "block_N": block_N, "block_K": block_K, "threads": threads}
        return matmul.compile(target=target, num_stages=2, **sizes)

    hint = "an accumulator of {}x{} fits these threads".format(*fits) + (f"; threads={fewer} fit" if fewer else "")
    error = shows(lambda: compiled(*tiles), ResourceError, GEMM, texts, hint)
    assert ("threads=" in error.hint) == bool(fewer)
    assert compiled(*fits, *tiles[2:]).text
    assert not fewer or compiled(*tiles[:3], fewer).text


def test_a_depth_that_the_tensor_cores_cannot_take(shows):
    shows(
        lambda: matmul.compile(target="sm_80", num_stages=2, block_M=64, block_N=64, block_K=20, threads=128),
        ResourceError,
        GEMM,
        ["K = 20 is not a multiple of 8"],
        "make K a multiple of 8",
    )


@pytest.mark.parametrize(("threads", "use"), [(100, 128), (0, 32), (2048, 1024)])
def test_threads(shows, threads, use):
    shows(
        lambda: matmul.compile(target="sm_80", threads=threads),
        LanguageError,
        KERNEL,
        [f"threads={threads}: a block has a multiple of 32 threads, from 32 to 1024"],
        f"use threads={use}",
        caret=KERNEL[len("with ") : -len(" as (bx, by):")],
    )


def test_unknown_target(shows):
    shows(
        lambda: matmul.compile(target="sm_12"),
        TargetError,
        'lambda: matmul.compile(target="sm_12"),',
        ["unknown target 'sm_12'"],
        "auto, sm_80, sm_89, sm_90a, sm_100a, sm_103a, gfx942, gfx950",
        caret='matmul.compile(target="sm_12")',
    )

    def decorate():
        @mt.kernel(target="sm_12")
        def kernel(A: T.Tensor((4,), T.float32)):
            with T.Kernel(1):
                A[0] = 1.0

    shows(
        decorate,
        TargetError,
        '@mt.kernel(target="sm_12")',
        ["unknown target 'sm_12'"],
        "known targets",
        caret='mt.kernel(target="sm_12")',
    )


def test_half_a_wave(shows):
    shows(
        lambda: matmul.compile(target="gfx942", threads=96),
        ResourceError,
        KERNEL,
        ["threads=96: on gfx942 a block has a multiple of 64 threads"],
        "use threads=128",
        caret=KERNEL.removeprefix("with ").removesuffix(" as (bx, by):"),
    )


@mt.kernel
def fp8(A: T.Tensor((64, 64), T.float8_e4m3fn), C: T.Tensor((64, 64), T.float32)):
    with T.Kernel(1):
        S = T.alloc_shared((64, 64), A.dtype)
        F = T.alloc_fragment((64, 64), T.float32)
        T.clear(F)
        T.copy(A, S)
        T.gemm(S, S, F, transpose_B=True)
        T.copy(F, C)


def test_a_dtype_that_the_target_cannot_multiply(shows):
    line = "T.gemm(S, S, F, transpose_B=True)"
    shows(
        lambda: fp8.compile(target="sm_80"),
        TypeMismatchError,
        line,
        ["no mma on sm_80", "e4m3"],
        "fp8 products need sm_89 or later (targets sm_89, sm_90a, sm_100a, sm_103a)",
    )


@pytest.mark.parametrize(
    ("name", "text"), [("nope", "there is no pass 'nope'"), ("lower", "the pass 'lower' cannot be left out")]
)
def test_passes(shows, name, text):
    shows(
        lambda: matmul.compile(target="sm_80", passes={name: False}),
        mt.MinitileError,
        'lambda: matmul.compile(target="sm_80", passes={name: False}),',
        [text],
        "passes that can be switched",
        caret='matmul.compile(target="sm_80", passes={name: False})',
    )
