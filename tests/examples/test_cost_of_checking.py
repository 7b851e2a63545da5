"""What the race model costs: at most five times the plain simulation, and the GEMM of 256 × 256 × 256 with roles and
four stages takes less than 20 seconds. Processor time, the least of three runs.

    python -m pytest tests/examples/test_cost_of_checking.py -m slow -s     prints the times
"""

from __future__ import annotations

import time
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
from tests.examples.mutation_cases import CASES, compiled_case, of_gemm

LARGE = of_gemm("bf16", False, True, (256, 256, 256), block_M=128, block_N=128, block_K=64, num_stages=4, threads=256)


def seconds(kernel: mt.CompiledKernel, values: list[Any], check: bool, runs: int) -> float:
    times = []
    for _ in range(runs):
        given = [value.copy() if isinstance(value, np.ndarray) else value for value in values]
        start = time.process_time()
        kernel.simulate(*given, check=check)
        times.append(time.process_time() - start)
    return min(times)


def test_the_gemm_is_checked_in_time() -> None:
    kernel, values = compiled_case(LARGE, "sm_90a")
    assert "wgmma.mma_async" in kernel.asm["ptx"]
    assert kernel.launch_info.block[0] > 256, "one of the roles copies"
    assert values[0].dtype == ml_dtypes.bfloat16
    assert seconds(kernel, values, True, 1) < 20


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", ["large gemm", *CASES])
def test_at_most_five_times(name: str, target: str) -> None:
    kernel, values = compiled_case(CASES.get(name, LARGE), target)
    seconds(kernel, values, True, 1)  # what is made once
    plain, checked = (seconds(kernel, values, check, 3) for check in (False, True))
    print(f"{name}, {target}: {plain:.2f} s plain, {checked:.2f} s checked, {checked / plain:.1f} times")
    assert checked <= 5 * plain
