"""Every example's synchronisation is needed, and its lack is noticed: each wait, arrival, fence and barrier of the
emitted PTX is taken away in turn, and the simulator must miss it (a finding, a refusal, another result) in some
schedule.

Sizes are small, with a tail and more steps than stages, so that each round of a ring comes up. What nothing misses is
either to spare, then the pass that inserts it is at fault, or the race model has a hole. What is right all the same
stands in EXCEPTIONS with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import attention
import gemm
import gemm_bias_gelu
import ml_dtypes
import numpy as np
import pytest
import rms_norm
import softmax
import split_k
import transpose
import vector_add
from support import poisoned

import minitile as mt
from minitile.runtime.sim.deletions import redundant, runner
from minitile.simulate import launch_of

BF16 = ml_dtypes.bfloat16
Case = tuple[Callable[[], mt.Kernel], list[tuple[tuple[int, ...], Any]], dict[str, Any]]


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
    "split_k": (lambda: split_k.split_k, [((64, 520), BF16), ((64, 520), BF16), ((64, 64), np.float32)], {}),
    "gemm": of_gemm("bf16", False, True, (72, 72, 168), **SMALL),
    "gemm, 1 stage": of_gemm("bf16", False, True, (64, 64, 104), num_stages=1, **SMALL),
    "gemm, 2 stages, wide": of_gemm("bf16", False, True, (136, 72, 328), num_stages=2, **WIDE),
    "attention": (
        lambda: attention.attention,
        [((1, 1, 136, 64), BF16)] * 4,
        {"D": 64, "block_M": 64, "block_N": 32, "threads": 128},
    ),
}
MANY: dict[str, Case] = {
    "gemm_bias_gelu": (
        lambda: gemm_bias_gelu.gemm_bias_gelu,
        [((72, 200), BF16), ((136, 200), BF16), ((136,), np.float32), ((72, 136), BF16)],
        {},
    ),
    **{
        f"gemm {'T' if ta else 'N'}{'T' if tb else 'N'} {name}": of_gemm(name, ta, tb, (72, 72, 168), **SMALL)
        for name in gemm.DTYPES
        for ta in (False, True)
        for tb in (False, True)
    },
    "gemm, 4 stages": of_gemm("bf16", False, False, (136, 136, 392), num_stages=4, **WIDE),
    "gemm, registers by setmaxnreg": of_gemm(
        "bf16", False, True, (256, 192, 328), block_M=256, block_N=192, block_K=64, threads=256, num_stages=2
    ),
    "attention, causal": (
        lambda: attention.attention,
        [((1, 2, 200, 64), BF16)] * 4,
        {"D": 64, "causal": True, "block_N": 64},
    ),
    "attention, 128": (lambda: attention.attention, [((1, 1, 256, 128), BF16)] * 4, {"block_N": 64}),
}
# case, target, instruction, how many of them, and why that is right all the same
EXCEPTIONS = [
    (
        "rms_norm",
        "sm_80|sm_90a",
        "bar.sync 0",
        1,
        "each round of the loop writes other columns, which `hazards` does not know of global memory",
    ),
    (
        "gemm, 1 stage",
        "sm_80|sm_90a",
        r"cp\.async\.(commit_group|wait_group 0)",
        2,
        "one stage is one copy at a time, each with its own group; the wait for the last one would do for both",
    ),
    (
        "attention.*",
        "sm_80",
        r"cp\.async\.(commit_group|wait_group 0)",
        2,
        "Q is waited for by itself before the loop; the wait for the first K would do for it",
    ),
    (
        "split_k|gemm.*|attention.*",
        "sm_90a",
        r"cp\.async\.bulk\.commit_group",
        2,
        "a group for each chunk, also where one wait is for all of them",
    ),
    (
        "attention.*",
        "sm_90a",
        r"wgmma\.fence\.sync\.aligned",
        1,
        "a fence stands before each batch of products, as ptxas wants it (C7519); here the one before would do",
    ),
]


def nothing_misses(case: Case, target: str) -> tuple[list[str], int]:
    make, tensors, settings = case
    rng = np.random.default_rng(0)
    values: list[Any] = [rng.integers(-3, 4, shape).astype(element) for shape, element in tensors[:-1]]
    kernel = make()
    shape, element = tensors[-1]
    adds = kernel.__name__ == "split_k"
    values.append(np.zeros(shape, element) if adds else poisoned(shape, element))
    compiled = kernel.compile(*values, target=target, **settings)
    values += [1e-5] * (len(kernel.signature.runtime) - len(values))
    info = compiled.launch_info
    grid, _ = launch_of(info, values)

    def arguments() -> Sequence[Any]:
        return launch_of(info, [v.copy() if isinstance(v, np.ndarray) else v for v in values])[1]

    run = runner(info.entry, grid, info.block, arguments, cluster=info.cluster, dynamic_shared=info.dynamic_shared)
    found, count = redundant(compiled.asm["ptx"], info.entry, run)
    return [str(each) for each in found], count


def check(name: str, case: Case, target: str) -> None:
    found, count = nothing_misses(case, target)
    assert count or name in ("vector_add", "softmax")  # where each warp has rows of its own
    for cases, targets, instruction, most, _ in EXCEPTIONS:
        if re.fullmatch(cases, name) and re.fullmatch(targets, target):
            known = [each for each in found if re.search(f": {instruction}$", each)]
            found = [each for each in found if each not in known[:most]]
    assert found == []


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", CASES)
def test_every_deletion_is_missed(name: str, target: str) -> None:
    check(name, CASES[name], target)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", MANY)
def test_every_deletion_of_more(name: str, target: str) -> None:
    check(name, MANY[name], target)
