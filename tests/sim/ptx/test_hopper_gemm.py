"""The hand-written warp-specialised GEMM: right under every schedule, and every synchronisation in it is needed."""

from __future__ import annotations

import re
import time

import ml_dtypes
import numpy as np
import pytest

from minitile.runtime.sim import Report, TensorMap
from tests.sim.ptx.hopper import assembles, silent, simulate
from tests.sim.ptx.hopper_gemm import hopper_gemm, hopper_gemm_shared


def multiply(
    text: str, size: tuple[int, int, int], stages: int = 2, grid: int = 2, **options: object
) -> tuple[float, Report]:
    """Run on random data; returns the largest error, in units of the result's rounding, and the report."""
    rows, columns, depth = size
    rng = np.random.default_rng(0)
    a = rng.standard_normal((rows, depth)).astype(ml_dtypes.bfloat16)
    b = rng.standard_normal((columns, depth)).astype(ml_dtypes.bfloat16)
    c = np.zeros((rows, columns), ml_dtypes.bfloat16)
    maps = [TensorMap(each, (64, 64), 128) for each in (a, b, c)]
    across, blocks = -(-columns // 64), -(-depth // 64)
    sizes = np.array([across, across * -(-rows // 64), blocks, 0], np.uint32)
    shared = hopper_gemm_shared(stages)
    report = simulate(text, [*maps, sizes], 256, grid, shared=shared, **options)
    want = a.astype(np.float32) @ b.astype(np.float32).T
    error = np.abs(c.astype(np.float32) - want) / np.maximum(np.abs(want), 1)
    return float(error.max() * 256), report


@pytest.mark.parametrize(("schedule", "seed"), [("eager", 0), ("lazy", 0), ("random", 1), ("random", 2)])
@pytest.mark.parametrize("size", [(128, 128, 192), (72, 136, 72), (64, 192, 64)])
def test_right_and_silent(size: tuple[int, int, int], schedule: str, seed: int) -> None:
    error, report = multiply(hopper_gemm(), size, schedule=schedule, seed=seed, gpu=False)
    silent(report)
    assert error < 1.01


def test_assembles_and_agrees_with_the_gpu() -> None:
    """The hardware sums in another order: no bit for bit comparison here, so only that it assembles and is right."""
    assembles(hopper_gemm(3))
    error, report = multiply(hopper_gemm(3), (128, 192, 256), stages=3, gpu=False)
    silent(report)
    assert error < 1.01


def test_without_the_race_model() -> None:
    error, report = multiply(hopper_gemm(), (128, 128, 192), check=False, gpu=False)
    silent(report)
    assert error < 1.01


def synchronisations() -> list[tuple[int, str]]:
    """The lines of the text that only order things; of equal neighbours one."""
    wanted = re.compile(
        r"\s*(@\w+ )?(fence\.|bar\.|mbarrier\.(init|arrive|try_wait)|wgmma\.(fence|commit|wait)"
        r"|cp\.async\.bulk\.(commit|wait))"
    )
    lines = hopper_gemm().split("\n")
    return [(number, line.strip()) for number, line in enumerate(lines) if wanted.match(line)]


@pytest.mark.parametrize(("number", "line"), synchronisations(), ids=lambda value: str(value)[:40])
@pytest.mark.parametrize("schedule", ["eager", "lazy"])
def test_every_mutant_is_found(number: int, line: str, schedule: str) -> None:
    """Three tiles on one CTA with three blocks of K each, so that every slot is used again."""
    lines = hopper_gemm().split("\n")
    assert lines[number].strip() == line
    lines[number] = ""
    if "try_wait" in line:
        lines[number + 1] = ""  # the branch back to it
    _, report = multiply("\n".join(lines), (128, 128, 192), grid=1, schedule=schedule, gpu=False)
    assert report.findings, line


def test_speed() -> None:
    """256 x 256 x 256 with the race model on, on a slow core."""
    begin = time.perf_counter()
    error, report = multiply(hopper_gemm(4), (256, 256, 256), stages=4, grid=16, gpu=False)
    assert time.perf_counter() - begin < 10
    silent(report)
    assert error < 1.01
