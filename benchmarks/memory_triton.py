"""Softmax, RMS norm and layer norm of rows in Triton, as its tutorials have them: a row a program, masked at its end.

Contenders of benchmarks/memory.py. A row is one block of the next power of two, up to LONGEST elements; `num_warps` is
the fastest of a few, found by Triton's own autotuner.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl

LONGEST = 65536  # elements of a row: registers of a program hold no more


def tuned(kernel: Any) -> Any:
    """The kernel with the fastest count of warps for each length of rows."""
    configs = [triton.Config({}, num_warps=warps) for warps in (1, 2, 4, 8, 16, 32)]
    return triton.autotune(configs, key=["N"])(triton.jit(kernel))


@tuned
def softmax_kernel(X, Y, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    j = tl.arange(0, BLOCK)
    x = tl.load(X + row * N + j, mask=j < N, other=-float("inf")).to(tl.float32)
    power = tl.exp(x - tl.max(x, 0))
    tl.store(Y + row * N + j, power / tl.sum(power, 0), mask=j < N)


@tuned
def norm_kernel(X, W, B, Y, N, eps, CENTERED: tl.constexpr, BIAS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    j = tl.arange(0, BLOCK)
    x = tl.load(X + row * N + j, mask=j < N, other=0.0).to(tl.float32)
    if CENTERED:
        x = tl.where(j < N, x - tl.sum(x, 0) / N, 0.0)
    y = x * tl.rsqrt(tl.sum(x * x, 0) / N + eps) * tl.load(W + j, mask=j < N).to(tl.float32)
    if BIAS:
        y += tl.load(B + j, mask=j < N).to(tl.float32)
    tl.store(Y + row * N + j, y, mask=j < N)


def softmax(x: Any) -> Any:
    """Of the rows of a matrix."""
    m, n = x.shape
    y = torch.empty_like(x)
    softmax_kernel[(m,)](x, y, n, BLOCK=triton.next_power_of_2(n))
    return y


def norm(eps: float, x: Any, w: Any, b: Any = None) -> Any:
    """Layer norm with a bias, RMS norm without one."""
    m, n = x.shape
    y = torch.empty_like(x)
    there = b is not None
    norm_kernel[(m,)](x, w, b if there else w, y, n, eps, CENTERED=there, BIAS=there, BLOCK=triton.next_power_of_2(n))
    return y


def contender(case: str, eps: float) -> Callable[..., Any] | None:
    """The function for a case of memory_cases.py, by its name; None where there is none."""
    operation, _, shape = case.partition(" ")
    if "x" not in shape or int(shape.split("x")[-1]) > LONGEST:
        return None
    if operation == "softmax":
        return softmax
    return (lambda *args: norm(eps, *args)) if operation in ("rms_norm", "layer_norm") else None
