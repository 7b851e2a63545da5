"""Every pair of dtypes, in words and one by one; the IR's rules for rounding, saturation and wrapping."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from minitile.ir.builder import Builder
from minitile.ir.core import Value
from minitile.ir.ops import arith
from minitile.ir.types import DTYPES, dtype
from minitile.target import Target, parse_target
from tests.backends.nvidia.harness import SM80, Array, elementwise
from tests.backends.nvidia.test_arith import numbers, run_all, same

pytestmark = pytest.mark.every_case  # an instruction for each dtype

FP8 = ("e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz")
PLAIN = [name for name in DTYPES if name not in FP8]
SM89 = parse_target("sm_89")


def converted(a: Array, to: str) -> Array:
    """What the IR's cast says, from NumPy."""
    d = dtype(to)
    with np.errstate(all="ignore"):
        if d.kind == "bool":
            return a != 0
        is_float = a.dtype.kind not in "iub"
        if d.is_int and is_float:
            info = np.iinfo(d.numpy)
            whole = np.trunc(np.nan_to_num(a.astype(np.float64), posinf=1e300, neginf=-1e300))
            return np.array([min(max(int(x), info.min), info.max) for x in whole], d.numpy)
        if to in FP8:
            return saturated(a, to)
        if d.is_float and not is_float and a.dtype.itemsize == 8 and d.bits < 64:
            # NumPy goes through f64, which rounds 64-bit integers once too often.
            return np.array([rounded(int(x), to) for x in a]).astype(d.numpy)
        return a.astype(d.numpy)


def rounded(x: int, to: str) -> float:
    """An integer to the nearest number of `to`, ties to even; what overflows stays as it is for NumPy to see."""
    digits = {"f32": 24, "f16": 11, "bf16": 8, "e4m3": 4, "e5m2": 3}[to.removesuffix("fnuz")]
    drop = max(0, abs(x).bit_length() - digits)
    quotient, rest = divmod(abs(x), 1 << drop)
    half = (1 << drop) >> 1
    up = drop > 0 and (rest > half or (rest == half and quotient & 1))
    return float((quotient + up) << drop) * (-1 if x < 0 else 1)


def saturated(a: Array, to: str) -> Array:
    top = {"e4m3": 448.0, "e4m3fnuz": 240.0}.get(to, 57344.0)
    whole = a.dtype.kind in "iu"
    wide = np.array([rounded(int(x), to) for x in a]) if whole else a.astype(np.float64)
    return np.clip(wide, -top, top).astype(dtype(to).numpy)


def check(source: str, a: Array, to: Sequence[str], count: int, target: Target = SM80) -> None:
    """One kernel that casts to each dtype."""
    got = run_all(source, {d: (_cast_to(d), d) for d in to}, a, a, count, target)
    for d in to:
        with np.errstate(all="ignore"):
            want = converted(a, d)
        keep = np.full(len(a), True)
        if dtype(source).is_float and dtype(d).is_int:  # what a NaN becomes is left open; GPUs differ by width
            keep = ~np.isnan(a.astype(np.float32))
        assert same(got[d][keep], want[keep]), f"{source} to {d}: {a}\n{got[d]}\n{want}"


def _cast_to(name: str) -> Callable[[Builder, Value, Value], Value]:
    return lambda m, x, _: m.emit(arith.Cast(x, dtype(name))).result


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("source", PLAIN)
def test_cast(source: str, count: int) -> None:
    check(source, numbers(source, 32 * count, 1), PLAIN, count)


@pytest.mark.parametrize("target", [SM80, SM89], ids=str)
@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("source", [n for n in PLAIN if n != "bool"])
def test_cast_to_fp8(source: str, count: int, target: Target) -> None:
    """sm_80 has no instructions for it."""
    check(source, numbers(source, 32 * count, 2), FP8, count, target)


@pytest.mark.few_cases
@pytest.mark.parametrize("target", [SM80, SM89], ids=str)
@pytest.mark.parametrize("count", [1, 4])
def test_every_fp8_number_and_the_midpoints(count: int, target: Target) -> None:
    """Each number, what is half way to the next one, and what is just beside that."""
    for name in FP8:
        exact = np.arange(128, dtype=np.uint8).view(dtype(name).numpy).astype(np.float32)
        exact = exact[np.isfinite(exact)]
        middle = (exact[1:] + exact[:-1]) / 2
        a = np.concatenate([exact, middle, np.nextafter(middle, np.float32(0)), np.nextafter(middle, np.float32(1e9))])
        a = np.concatenate([a, -a, [np.inf, -np.inf, np.nan, 1e-40, 1e30]]).astype(np.float32)
        a = np.resize(a, -(-len(a) // (32 * count)) * 32 * count)
        for part in a.reshape(-1, 32 * count):
            check("f32", part.copy(), [name], count, target)


@pytest.mark.parametrize("target", [SM80, SM89], ids=str)
@pytest.mark.parametrize("source", FP8)
def test_cast_from_fp8(source: str, target: Target) -> None:
    """All 256 of them, in words; and some one by one."""
    a = np.arange(256, dtype=np.uint8).view(dtype(source).numpy)
    to = ["f64", "f32", "f16", "bf16", "i32", "i8", "bool", *(name for name in FP8 if name != source)]
    check(source, a, to, 8, target)
    check(source, a[20::7][:32].copy(), to, 1, target)


def test_ties_round_to_even_once() -> None:
    """Through f32, 2^25 + 2^17 + 1 would become a tie for bf16 and round down; it is above the tie."""
    a = np.full(32, (1 << 25) + (1 << 17) + 1, np.int32)
    got = elementwise(lambda m, x: m.emit(arith.Cast(x, dtype("bf16"))).result, [("i32", a)], "bf16")
    assert np.all(got.astype(np.float32) == (1 << 25) + (1 << 18))


@pytest.mark.parametrize(
    ("source", "to"), [("f32", "i32"), ("u32", "f32"), ("f64", "u64"), ("bf16", "u16"), ("i8", "u8"), ("e4m3", "i8")]
)
@pytest.mark.parametrize("count", [1, 4])
def test_reinterpret(source: str, to: str, count: int) -> None:
    a = np.random.default_rng(3).integers(0, 255, 32 * count * dtype(source).bytes).astype(np.uint8)
    a = a.view(dtype(source).numpy)
    got = elementwise(lambda m, x: m.emit(arith.Reinterpret(x, dtype(to))).result, [(source, a)], to, count)
    assert np.array_equal(got.view(np.uint8), a.view(np.uint8))
