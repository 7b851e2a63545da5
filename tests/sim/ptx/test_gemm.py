"""The hand-written pipelined GEMM: right under every schedule, and every synchronisation in it is needed.

Each mutation removes or weakens one barrier or wait; the simulator must find it, under every schedule.
"""

from __future__ import annotations

import time

import ml_dtypes
import numpy as np
import pytest

from minitile.runtime.sim import Report, run_ptx
from tests.sim.ptx.gemm_text import gemm_shared_bytes, gemm_text
from tests.sim.ptx.harness import assemble


def multiply(
    text: str, size: int, tile: int, depth: int = 32, stages: int = 3, **options: object
) -> tuple[float, Report]:
    """Run the GEMM on random data; returns the largest error and the report."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((size, size)).astype(ml_dtypes.bfloat16) for _ in range(2))
    c = np.zeros((size, size), np.float32)
    sizes = [np.uint32(size), np.uint32(size)]
    shared = gemm_shared_bytes(tile, depth, stages)
    grid = (size // tile, size // tile)
    report = run_ptx(text, "gemm", grid, (128,), [a, b, c, *sizes], dynamic_shared=shared, **options)  # type: ignore[arg-type]
    return float(np.abs(c - a.astype(np.float32) @ b.astype(np.float32).T).max()), report


@pytest.mark.parametrize(("schedule", "seed"), [("eager", 0), ("lazy", 0), ("random", 1), ("random", 2)])
@pytest.mark.parametrize("stages", [2, 4])
def test_right_and_silent(schedule: str, seed: int, stages: int) -> None:
    text = gemm_text(64, 32, stages)
    error, report = multiply(text, 128, 64, 32, stages, schedule=schedule, seed=seed)
    assert not report.findings, str(report.findings[0])
    assert error < 1e-4
    assert report.instructions["mma.sync"] == 4 * 4 * 4 * 64 // 4


def test_assembles() -> None:
    assert assemble(gemm_text()) is None


MUTATIONS = {
    "no barrier": ("    bar.sync 0;\n", "", {"missing_barrier", "missing_wait"}),
    "no wait": ("    cp.async.wait_group 1;\n", "", {"missing_wait"}),
    "a wait one group short": ("wait_group 1;", "wait_group 2;", {"missing_wait"}),
    "a warp barrier instead": ("bar.sync 0;", "bar.warp.sync -1;", {"missing_barrier", "missing_wait"}),
    "barrier before the wait": (
        "    cp.async.wait_group 1;\n    bar.sync 0;\n",
        "    bar.sync 0;\n    cp.async.wait_group 1;\n",
        {"missing_barrier"},
    ),
    "one slot too few": (
        "setp.eq.u32 %p1, %r31, 30720",
        "setp.eq.u32 %p1, %r31, 20480",
        {"missing_barrier", "missing_wait"},
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
def test_mutations_are_found(name: str, schedule: str) -> None:
    old, new, kinds = MUTATIONS[name]
    text = gemm_text(64)
    assert old in text
    _, report = multiply(text.replace(old, new), 128, 64, schedule=schedule)
    found = {finding.kind for finding in report.findings}
    assert found
    assert found <= kinds | {"missing_barrier", "missing_wait", "uninitialised"}
    if schedule != "random":
        assert found & kinds


def test_speed() -> None:
    """256 x 256 x 256 with 128 x 128 tiles and the race model on: a second on one slow core, ten allowed."""
    text = gemm_text(128)
    begin = time.perf_counter()
    error, report = multiply(text, 256, 128)
    assert time.perf_counter() - begin < 10
    assert not report.findings
    assert error < 1e-4
