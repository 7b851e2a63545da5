"""The examples on small sizes with tails, and more steps than stages: what the tests of synchronisation run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attention
import gemm
import gemm_batched
import gemm_bias_gelu
import gemm_persistent
import gemm_swapped
import ml_dtypes
import numpy as np
import rms_norm
import softmax
import split_k
import transpose
import vector_add
from support import poisoned

import minitile as mt

BF16 = ml_dtypes.bfloat16
# A kernel; its tensors, as (shape, dtype) of random ones, or as they are to be; its settings.
Case = tuple[Callable[[], mt.Kernel], list[Any], dict[str, Any]]


def of_gemm(name: str, ta: bool, tb: bool, size: tuple[int, int, int], **settings: Any) -> Case:
    """A GEMM's kernel and its tensors; the last tensor is the result."""
    (m, n, k), (dtype, accumulate, element, _) = size, gemm.DTYPES[name]
    exact = accumulate.name == "i32"
    shapes = [((k, m) if ta else (m, k), element), ((n, k) if tb else (k, n), element)]
    result = (accumulate, np.int32) if exact else (dtype, element)
    return (
        lambda: gemm.make_gemm(dtype, accumulate, result[0], ta, tb),
        [*shapes, ((m, n), result[1])],
        settings,
    )


SMALL = {"block_M": 64, "block_N": 64}
WIDE = {"block_M": 128, "block_N": 64, "block_K": 64, "threads": 256}
CASES: dict[str, Case] = {
    "vector_add": (lambda: vector_add.add, [((1100,), np.float32)] * 3, {}),
    "transpose": (lambda: transpose.transpose, [((70, 60), np.float32), ((60, 70), np.float32)], {}),
    "softmax": (lambda: softmax.softmax, [((5, 1000), np.float32)] * 2, {}),
    "rms_norm": (lambda: rms_norm.rms_norm, [((5, 600), BF16), ((600,), BF16), ((5, 600), BF16)], {}),
    "split_k": (lambda: split_k.split_k, [((64, 520), BF16), ((64, 520), BF16), np.zeros((64, 64), np.float32)], {}),
    # The last products come from bytes that rows are staged in, where they are free for that.
    "gemm": of_gemm("bf16", False, True, (72, 72, 104), **SMALL),
    "gemm, 1 stage": of_gemm("bf16", False, True, (64, 64, 104), num_stages=1, **SMALL),
    "gemm, 2 stages, wide": of_gemm("bf16", False, True, (136, 72, 264), num_stages=2, **WIDE),
    "gemm, odd rows": of_gemm("bf16", False, True, (72, 71, 104), **SMALL),
    "attention": (
        lambda: attention.attention,
        [((1, 1, 104, 64), BF16)] * 4,
        {"D": 64, "block_M": 64, "block_N": 32, "threads": 128},
    ),
}
# Trip counts whose last stage lies where rows of the result are staged: with others the barrier between is to spare.
MANY: dict[str, Case] = {
    "gemm_bias_gelu": (
        lambda: gemm_bias_gelu.gemm_bias_gelu,
        [((72, 200), BF16), ((136, 200), BF16), ((136,), np.float32), ((72, 136), BF16)],
        {},
    ),
    "gemm_persistent": (
        lambda: gemm_persistent.gemm_persistent,
        [((136, 104), BF16), ((136, 104), BF16), ((136, 136), BF16)],
        {"blocks": 2, **SMALL},
    ),
    "gemm_batched": (
        lambda: gemm_batched.gemm_batched,
        [((2, 72, 136), BF16), ((2, 72, 136), BF16), ((2, 72, 72), BF16)],
        {},
    ),
    "gemm_swapped": (
        lambda: gemm_swapped.gemm_swapped,
        [((24, 264), BF16), ((72, 264), BF16), ((24, 72), BF16)],
        {},
    ),
    **{
        f"gemm {'T' if ta else 'N'}{'T' if tb else 'N'} {name}": of_gemm(name, ta, tb, (72, 72, 200), **SMALL)
        for name in gemm.DTYPES
        for ta in (False, True)
        for tb in (False, True)
    },
    "gemm, 4 stages": of_gemm("bf16", False, False, (136, 136, 264), num_stages=4, **WIDE),
    "gemm, registers by setmaxnreg": of_gemm(
        "bf16", False, True, (256, 192, 264), block_M=256, block_N=192, block_K=64, threads=256, num_stages=2
    ),
    "attention, causal": (
        lambda: attention.attention,
        [((1, 2, 200, 64), BF16)] * 4,
        {"D": 64, "causal": True, "block_N": 64},
    ),
    "attention, 128": (lambda: attention.attention, [((1, 1, 256, 128), BF16)] * 4, {"block_N": 64}),
}


def compiled_case(case: Case, target: str) -> tuple[mt.CompiledKernel, list[Any]]:
    """The kernel for a target ("sm_90a, one role": without roles of warps), and arguments for it; the last tensor is
    the result."""
    target, _, form = target.partition(", ")
    make, tensors, settings = case
    rng = np.random.default_rng(0)
    values = [each if isinstance(each, np.ndarray) else small(rng, *each) for each in tensors[:-1]]
    kernel, last = make(), tensors[-1]
    values.append(last if isinstance(last, np.ndarray) else poisoned(*last))
    switch = {"warp_specialize": False} if form else {}
    compiled = kernel.compile(*values, target=target, **switch, **settings)
    return compiled, values + [0.5] * (len(kernel.signature.runtime) - len(values))


def small(rng: np.random.Generator, shape: tuple[int, ...], element: Any) -> Any:
    """Small integers, so that no order of additions matters."""
    return rng.integers(-3, 4, shape).astype(element)
