"""tcgen05 products in the simulator against NumPy: kinds, shapes, layouts, A in tensor memory, schedules."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.sim.ptx.blackwell import (
    KINDS,
    arguments,
    assembles,
    lay_out,
    parts,
    product_word,
    simulate,
    text_of,
)
from tests.sim.ptx.test_hopper_wgmma import DTYPES

SCHEDULES = ("lazy", "eager", "random")


def matrices(rng: np.random.Generator, kind: str, rows: int, depth: int) -> np.ndarray[Any, Any]:
    if kind in ("s8", "u8"):
        return rng.integers(0 if kind == "u8" else -100, 100, (rows, depth)).astype(DTYPES[kind])
    drawn = rng.standard_normal((rows, depth)).astype(np.float32)
    if kind == "tf32":
        return (drawn.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return drawn.astype(DTYPES[kind])


def check(
    a_kind: str, b_kind: str, m: int, n: int, swizzle: int, a_mn: bool, b_mn: bool, schedule: str, steps: int = 1
) -> None:
    rng = np.random.default_rng(m * n + swizzle)
    depth = 32 // np.dtype(DTYPES[a_kind]).itemsize
    wide = depth if not swizzle or (a_mn and b_mn) else swizzle * depth // 32  # a row of the swizzle
    a, b = matrices(rng, a_kind, m, wide), matrices(rng, b_kind, n, wide)
    word = product_word(a_kind, b_kind, m, n, a_mn, b_mn)
    left, right = lay_out(a, swizzle, a_mn), lay_out(b, swizzle, b_mn)
    program = parts(left, right, word, KINDS[a_kind], n, columns=256, steps=steps, m=m)
    text = text_of(program)
    assembles(text)
    args = arguments(left.image, right.image, n)
    if KINDS[a_kind] == "i8":
        args[2] = np.full((128, n), -77, np.int32)
    report = simulate(text, args, schedule=schedule, seed=n)
    assert not report.findings, str(report.findings[0])
    exact = steps * (a[:, :depth].astype(np.float64) @ b[:, :depth].astype(np.float64).T)
    rows = np.arange(m) if m == 128 else np.arange(m) // 16 * 32 + np.arange(m) % 16
    np.testing.assert_allclose(args[2][rows].astype(np.float64), exact, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("kinds", ["f16 f16", "bf16 bf16", "tf32 tf32", "e4m3 e4m3", "e5m2 e4m3", "s8 u8"])
def test_kinds(kinds: str, schedule: str) -> None:
    a, b = kinds.split()
    check(a, b, 128, 32, 128, False, False, schedule)


@pytest.mark.parametrize("shape", [(128, 8), (128, 16), (128, 64), (64, 8), (64, 32), (128, 128)])
def test_shapes(shape: tuple[int, int]) -> None:
    check("bf16", "bf16", *shape, 128, False, False, "lazy")


BOTH = [(False, False), (True, True)]
EACH = [*BOTH, (True, False), (False, True)]  # where the operands' rows are of one length


@pytest.mark.parametrize(
    ("swizzle", "a_mn", "b_mn"),
    [(swizzle, *majors) for swizzle in (0, 32, 64, 128) for majors in (EACH if swizzle in (0, 32) else BOTH)],
)
def test_layouts(swizzle: int, a_mn: bool, b_mn: bool) -> None:
    check("f16", "f16", 128, 64, swizzle, a_mn, b_mn, "lazy")


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_products_of_one_accumulator_chain(schedule: str) -> None:
    check("bf16", "bf16", 128, 32, 128, False, False, schedule, steps=3)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_in_tensor_memory(schedule: str) -> None:
    rng = np.random.default_rng(1)
    a = rng.standard_normal((128, 16)).astype(ml_dtypes.bfloat16)
    b = rng.standard_normal((32, 64)).astype(ml_dtypes.bfloat16)
    right = lay_out(b, 128, False)
    text = text_of(parts(None, right, product_word("bf16", "bf16", 128, 32), "f16", 32))
    assembles(text)
    args = arguments(a, right.image, 32)
    report = simulate(text, args, schedule=schedule, seed=3)
    assert not report.findings, str(report.findings[0])
    exact = a.astype(np.float64) @ b[:, :16].astype(np.float64).T
    np.testing.assert_allclose(args[2], exact, rtol=1e-5, atol=1e-4)
