"""Attention on sm_100a, from the same source as elsewhere: both products are tcgen05's; weights are stored in the
columns of the scores that they are made of, and the output is scaled in tensor memory."""

from __future__ import annotations

import re
from typing import Any

import attention
import ml_dtypes
import numpy as np
import pytest
from mutation_testing import surviving_mutants
from support import error, poisoned, random

TARGETS = ("sm_100a", pytest.param("sm_103a", marks=pytest.mark.slow))
SCHEDULES = ("lazy", "eager", "random")
# A block of queries for one warpgroup, for two, and half a block for each of two.
TILES: list[dict[str, Any]] = [
    {"threads": 128, "block_N": 64},
    {"block_M": 256, "block_N": 64},
    {"block_N": 64},
]
pytestmark = pytest.mark.parametrize("target", TARGETS)


def arguments(s: int, d: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(s)
    q, k, v = (random(rng, (1, 1, s, d), ml_dtypes.bfloat16) for _ in range(3))
    return q, k, v, poisoned((1, 1, s, d), ml_dtypes.bfloat16)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("tiles", TILES)
@pytest.mark.parametrize(
    "s", [17, 130, pytest.param(1, marks=pytest.mark.slow), pytest.param(300, marks=pytest.mark.slow)]
)
def test_attention(target: str, s: int, tiles: dict[str, Any], causal: bool, schedule: str) -> None:
    q, k, v, o = arguments(s, 64)
    compiled = attention.attention.compile(q, k, v, o, target=target, D=64, causal=causal, **tiles)
    compiled.simulate(q, k, v, o, schedule=schedule, seed=2)
    assert error(o, attention.reference(q, k, v, causal)) <= 8e-3
    assert "mma.sync" not in compiled.asm["ptx"]


@pytest.mark.parametrize(("tiles", "columns"), [({"threads": 128}, 256), ({"block_M": 256}, 512)])
def test_columns(target: str, tiles: dict[str, Any], columns: int) -> None:
    """Of a head of 128: scores, the output, and no more for the weights."""
    q, k, v, o = arguments(200, 128)
    compiled = attention.attention.compile(q, k, v, o, target=target, **tiles)
    assert re.search(rf"tcgen05\.alloc\S+ \[\S+\], {columns};", compiled.asm["ptx"])
    assert compiled.spills == 0
    assert compiled.assembled.warnings == ()
    compiled.simulate(q, k, v, o)
    assert error(o, attention.reference(q, k, v, False)) <= 8e-3


def test_ping_pong(target: str) -> None:
    """Warpgroups with queries of their own: in the loop neither waits for the other, at a barrier or for products."""
    q, k, v, o = arguments(300, 64)
    ptx = attention.attention.compile(q, k, v, o, target=target, D=64, **TILES[1]).asm["ptx"]
    loop = ptx[ptx.index("tcgen05.mma") : ptx.rindex("tcgen05.mma")]
    assert re.findall(r"bar\.sync .*?;", loop) == ["bar.sync %group, 128;"]
    assert re.findall(r"mbarrier\.init\S+ \[%product\S*\], (\d+);", ptx) == ["5", "5"]  # a commit, and four warps


@pytest.mark.slow
@pytest.mark.parametrize("tiles", TILES[:2])
def test_mutants(target: str, tiles: dict[str, Any]) -> None:
    """Nothing of the synchronisation is to spare, but for a warp's barrier in front of what one lane waits for; and
    one fence: scores overwrite weights that the same thread's product before has read as its A. By the ISA's list of
    pipelined pairs that product must be known to be complete at a fence; the simulator takes the two as in order, as
    CUTLASS and FlashAttention-4 do (order.py). The compiler keeps to the ISA."""
    q, k, v, o = arguments(200, 64)
    compiled = attention.attention.compile(q, k, v, o, target=target, D=64, **tiles)
    survivors, count = surviving_mutants(compiled, (q, k, v, o))
    assert count >= 40
    spare = [each for each in survivors if "bar.warp.sync" not in each]
    assert len(spare) == 1
    assert re.search(r"attention\.py:57\): tcgen05\.fence::after_thread_sync$", spare[0])
