"""Each synchronising instruction of the persistent kernels of groups and batches taken away: the simulator notices.

Left out is what orders stores of one tile and another one: that tiles do not overlap is not known. Between tiles stored
by TMA that is the wait for the copy, before a partial tile that and a barrier, behind it a fence. And the barrier
behind a warpgroup's wait for its products, before it writes over their operands: to the simulator the wait is that of
all.
"""

from __future__ import annotations

import inspect
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from mutation_testing import surviving_mutants
from support import USE_GPU

import minitile as mt
import minitile.language as T
from minitile.ops.grouped_gemm import batched, grouped, grouped_along_k, grouped_scaled, store_rows

BF16, E4M3 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
pytestmark = [pytest.mark.slow, pytest.mark.skipif(USE_GPU, reason="looks for races")]
SETTINGS = {"block_M": 64, "block_N": 64, "stages": 2, "threads": 256, "teams": 2, "blocks": 1, "panel": 1}
SIZES = [64, 0, 70, 64, 64]  # tiles: whole, whole, partial, whole, whole


def operands(name: str) -> tuple[mt.Kernel, list[Any], dict[str, int]]:
    """A kernel of two teams with four or five tiles for one block, and small integers for it."""
    rng = np.random.default_rng(0)
    rows, groups = sum(SIZES), len(SIZES)

    def integers(*shape: int, dtype: Any = BF16) -> np.ndarray:
        return rng.integers(-3, 4, shape).astype(dtype)

    def result(*shape: int) -> np.ndarray:
        return np.full(shape, np.nan).astype(BF16)

    ends, counts = np.cumsum(SIZES).astype(np.int32), np.array(SIZES, np.int32)
    if name == "offsets":
        values = [integers(rows, 200), integers(groups, 64, 200), result(rows, 64), ends]
        return grouped(T.bfloat16, T.bfloat16, False, True), values, {"block_K": 64}
    if name == "counts":
        values = [integers(groups, 80, 200), integers(groups, 64, 200), result(groups, 80, 64), counts]
        return grouped(T.bfloat16, T.bfloat16, True, True), values, {"block_K": 64}
    if name == "scales":
        scales = integers(3, 264, dtype=np.float32), integers(groups, 1, 3, dtype=np.float32)
        a, b = integers(rows, 384, dtype=E4M3), integers(groups, 64, 384, dtype=E4M3)
        values = [a, b, *scales, result(rows, 64), ends]
        return grouped_scaled(T.float8_e4m3, T.bfloat16, False), values, {}
    if name == "along k":
        bounds = np.cumsum([228, 230, 64, 133, 40, 5]).astype(np.int32)  # also two parts of a step, and no step
        values = [integers(700, 64), integers(700, 64), result(6, 64, 64), bounds]
        return grouped_along_k(T.bfloat16, T.bfloat16, True, False), values, {"block_K": 64}
    values = [integers(4, 64, 200), integers(1, 64, 200), result(4, 64, 64)]
    return batched(T.bfloat16, T.bfloat16, False, True, False, True), values, {"block_K": 64}


@pytest.mark.parametrize("name", ["offsets", "counts", "scales", "along k", "batches"])
def test_every_mutant_is_killed(name: str) -> None:
    kernel, values, more = operands(name)
    compiled = kernel.compile(*values, target="sm_90a", **SETTINGS, **more)
    assert compiled.asm["tile_ir"].count("warp_groups") == 1
    found, tried = surviving_mutants(compiled, values)
    assert tried >= 36
    left = [each for each in found if not each.endswith(("cp.async.bulk.wait_group 0", "fence.proxy.async.global"))]
    allowed = [
        line_of(store_rows, "if row + block_M <= end"),
        line_of(grouped_along_k, "A_rest[i, j] = A[at + i, m + j]"),
    ]
    assert [each for each in left if not any(f":{line}): bar.sync" in each for line in allowed)] == []
    assert len(found) <= (2 if name == "batches" else 6)


def line_of(function: Any, text: str) -> int:
    lines, start = inspect.getsourcelines(inspect.unwrap(function))
    return start + next(n for n, line in enumerate(lines) if text in line)
