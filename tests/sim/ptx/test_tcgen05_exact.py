"""tcgen05 on small whole numbers, whose products and sums are exact in any order, of sizes and layouts that are drawn;
and the fields of descriptors as two public sources have them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from minitile.runtime.sim.ptx.tcgen05.descriptors import factors_of, product
from tests.sim.ptx import blackwell, blackwell_pair
from tests.sim.ptx.blackwell import KINDS, lay_out, product_word
from tests.sim.ptx.blackwell_scaled import Format, Problem, one, pair
from tests.sim.ptx.test_hopper_wgmma import DTYPES

SCHEDULES = ("lazy", "eager", "random")
Array = np.ndarray[Any, Any]


def whole(rng: np.random.Generator, shape: tuple[int, int], dtype: Any) -> Array:
    """Numbers that every format has."""
    return rng.choice([-3, -2, -1, 0, 1, 2, 3] if dtype != np.uint8 else [0, 1, 2, 3], shape).astype(dtype)


@pytest.mark.parametrize("seed", range(12))
def test_one_cta(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    kind = str(rng.choice(["f16", "bf16", "e4m3", "e5m2", "s8", "u8", "tf32"]))
    dtype = DTYPES[kind]
    m, n = int(rng.choice([64, 128])), 16 * int(rng.integers(1, 13))
    depth = 32 // np.dtype(dtype).itemsize
    swizzle = int(rng.choice([0, 32, 64, 128]))
    wide = depth if not swizzle else swizzle * depth // 32
    a, b = whole(rng, (m, wide), dtype), whole(rng, (n, wide), dtype)
    left, right = lay_out(a, swizzle, False), lay_out(b, swizzle, False)
    steps = int(rng.integers(1, 4))
    program = blackwell.parts(
        left, right, product_word(kind, kind, m, n), KINDS[kind], n, columns=256, steps=steps, m=m
    )
    args = blackwell.arguments(left.image, right.image, n)
    args[2] = args[2].astype(np.int32) if KINDS[kind] == "i8" else args[2]
    report = blackwell.simulate(blackwell.text_of(program), args, schedule=SCHEDULES[seed % 3], seed=seed)
    assert not report.findings, str(report.findings[0])
    rows = np.arange(m) if m == 128 else np.arange(m) // 16 * 32 + np.arange(m) % 16
    exact = steps * (a[:, :depth].astype(np.float64) @ b[:, :depth].astype(np.float64).T)
    np.testing.assert_array_equal(args[2][rows].astype(np.float64), exact)


@pytest.mark.parametrize("seed", range(12))
def test_pairs(seed: int) -> None:
    rng = np.random.default_rng(200 + seed)
    kind = str(rng.choice(["f16", "bf16", "e4m3", "s8", "tf32"]))
    dtype = DTYPES[kind]
    m, n = int(rng.choice([128, 256])), 32 * int(rng.integers(1, 5))
    depth = 32 // np.dtype(dtype).itemsize
    mn = bool(rng.integers(2)) and kind != "tf32"
    swizzle = 32 if mn else int(rng.choice([32, 64, 128]))
    if mn and n // 2 % (swizzle // np.dtype(dtype).itemsize):
        mn = False
    wide = depth if mn else swizzle * depth // 32
    a, b = whole(rng, (m, wide), dtype), whole(rng, (n, wide), dtype)
    lefts, rights = ([lay_out(half, swizzle, mn) for half in np.split(each, 2)] for each in (a, b))
    word = product_word(kind, kind, m, n, mn, mn)
    text = blackwell_pair.text_of(
        blackwell_pair.filled(lefts[0], rights[0], word, KINDS[kind], m, n, allocated=256, steps=2)
    )
    out = blackwell_pair.result(m, n).astype(np.int32 if KINDS[kind] == "i8" else np.float32)
    args = [*(np.concatenate([each.image for each in halves]) for halves in (lefts, rights)), out]
    report = blackwell_pair.simulate(text, args, schedule=SCHEDULES[seed % 3], seed=seed)
    assert not report.findings, str(report.findings[0])
    exact = 2 * (a[:, :depth].astype(np.float64) @ b[:, :depth].astype(np.float64).T)
    np.testing.assert_array_equal(blackwell_pair.rows_of(out, m).astype(np.float64), exact)


FORMATS = [
    Format("mxf8f6f4", "", "e4m3", "e5m2", "ue8m0", 1),
    Format("mxf4", "", "e2m1", "e2m1", "ue8m0", 2),
    Format("mxf4nvf4", ".block16", "e2m1", "e2m1", "ue4m3", 4),
    Format("mxf4nvf4", ".block32", "e2m1", "e2m1", "ue8m0", 2),
]


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_scales(seed: int, pairs: bool) -> None:
    rng = np.random.default_rng(300 + seed)
    form = FORMATS[seed % 4]
    m = int(rng.choice([128, 256])) if pairs else 128
    problem = Problem(form, m, 32 * int(rng.integers(1, 3)), seed)
    for name in ("a", "b"):
        values = getattr(problem, name)
        setattr(problem, name, whole(rng, values.shape, values.dtype))
        factors = getattr(problem, f"scale_{name}")  # powers of two that both formats have
        powers = np.exp2(rng.integers(-2, 3, factors.shape)).astype(np.float32)
        setattr(problem, f"scale_{name}", powers.astype(factors.dtype))
    program, args = (pair if pairs else one)(problem)
    module = blackwell_pair if pairs else blackwell
    report = module.simulate(module.text_of(program, pointers=4), args, schedule=SCHEDULES[seed % 3], seed=seed)
    assert not report.findings, str(report.findings[0])
    found = blackwell_pair.rows_of(args[2], m) if pairs else args[2]
    np.testing.assert_array_equal(found.astype(np.float64), problem.exact)


# Fields of a scaled product's descriptor: first bit, how many, what their unit is.
PTX_ISA = {  # PTX ISA 9.1, tables 43 and 44
    "b_byte": (4, 2, 1),
    "a": (7, 3, 1),
    "b": (10, 3, 1),
    "negate_a": (13, 1, 1),
    "negate_b": (14, 1, 1),
    "a_mn": (15, 1, 1),
    "b_mn": (16, 1, 1),
    "n": (17, 6, 8),
    "scale": (23, 1, 1),
    "m": (27, 2, 128),
    "a_byte": (29, 2, 1),
}
CUTLASS = PTX_ISA | {"m": (24, 5, 16)}  # mma_sm100_desc.hpp, InstrDescriptorBlockScaled


def encoded(table: dict[str, tuple[int, int, int]], **values: int) -> int:
    total = 0
    for name, value in values.items():
        first, bits, unit = table[name]
        assert value % unit == 0
        assert value // unit < 1 << bits
        total |= value // unit << first
    return total


@pytest.mark.parametrize("seed", range(20))
def test_fields_of_scaled_products(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kind, vector = [("mxf8f6f4", None), ("mxf4", None), ("mxf4nvf4", "block32"), ("mxf4nvf4", "scale_vec::4X")][
        seed % 4
    ]
    factors = factors_of(kind, vector)
    assert factors == (1, 2, 2, 4)[seed % 4]
    small = kind != "mxf8f6f4"
    ctas = int(rng.integers(1, 3))
    places = {1: [0, 1, 2, 3], 2: [0, 2], 4: [0]}[factors]
    values = {
        "a": 1 if small else int(rng.integers(2)),
        "b": 1 if small else int(rng.integers(2)),
        "n": 16 * int(rng.integers(1, 17)),
        "m": 128 * int(rng.integers(1, ctas + 1)),
        "scale": int(rng.integers(2)) if factors == 4 else 1,
        "a_byte": int(rng.choice(places)),
        "b_byte": int(rng.choice(places)),
        "negate_a": int(rng.integers(2)),
        "negate_b": int(rng.integers(2)),
        "a_mn": 0 if small else int(rng.integers(2)),
        "b_mn": 0 if small else int(rng.integers(2)),
    }
    word = encoded(PTX_ISA, **values)
    assert word == encoded(CUTLASS, **values)
    shape = product(word, kind, False, ctas, factors)
    assert shape.scaling is not None
    names = ("e2m1",) * 2 if small else ("e4m3", "e5m2")
    assert (shape.m, shape.n, shape.a, shape.b) == (values["m"], values["n"], names[values["a"]], names[values["b"]])
    assert (shape.a_mn_major, shape.b_mn_major) == (bool(values["a_mn"]), bool(values["b_mn"]))
    assert shape.negative == (values["negate_a"] != values["negate_b"])
    assert (shape.scaling.a_byte, shape.scaling.b_byte) == (values["a_byte"], values["b_byte"])
    assert shape.scaling.kind == ("ue4m3", "ue8m0")[values["scale"]]
    assert shape.k == (64 if small else 32)


@pytest.mark.parametrize("kind", ["f16", "e4m3"])
def test_accumulators_of_f16(kind: str) -> None:
    """Two instructions, each rounded to f16; a column has 16 bits of them."""
    rng = np.random.default_rng(9)
    depth = 32 // np.dtype(DTYPES[kind]).itemsize
    m, n = 128, 32
    a, b = (rng.standard_normal((rows, 4 * depth)).astype(DTYPES[kind]) for rows in (m, n))
    left, right = lay_out(a, 128, False), lay_out(b, 128, False)
    word = product_word(kind, kind, m, n) & ~(3 << 4)
    program = blackwell.parts(left, right, word, KINDS[kind], n, steps=2)
    args = blackwell.arguments(left.image, right.image, n)
    text = blackwell.text_of(program)
    blackwell.assembles(text)
    report = blackwell.simulate(text, args)
    assert not report.findings, str(report.findings[0])
    product = a[:, :depth].astype(np.float32) @ b[:, :depth].astype(np.float32).T
    once = product.astype(np.float16)
    twice = (once.astype(np.float32) + product).astype(np.float16)
    found = (args[2].view(np.uint32) & 0xFFFF).astype(np.uint16).view(np.float16)
    np.testing.assert_allclose(found.astype(np.float64), twice.astype(np.float64), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("pairs", [False, True])
def test_lanes_that_stay_and_scaled_accumulators(pairs: bool) -> None:
    """disable-output-lane of the second product, whose accumulator counts an eighth."""
    rng = np.random.default_rng(10)
    m, n = (256, 32) if pairs else (128, 32)
    a, b = (whole(rng, (rows, 64), DTYPES["bf16"]) for rows in (m, n))
    masks = rng.integers(0, 1 << 32, m // 32, np.uint32)
    word = product_word("bf16", "bf16", m, n)
    if pairs:
        lefts, rights = ([lay_out(half, 128, False) for half in np.split(each, 2)] for each in (a, b))
        program = blackwell_pair.filled(lefts[0], rights[0], word, "f16", m, n, steps=2)
        out = blackwell_pair.result(m, n)
        args = [*(np.concatenate([each.image for each in halves]) for halves in (lefts, rights)), out]
    else:
        left, right = lay_out(a, 128, False), lay_out(b, 128, False)
        program = blackwell.parts(left, right, word, "f16", n, steps=2)
        args = blackwell.arguments(left.image, right.image, n)
    module = blackwell_pair if pairs else blackwell
    names = ", ".join(f"e{i}" for i in range(len(masks)))
    given = f"    .reg .b32 e<{len(masks)}>;\n" + "\n".join(f"    mov.b32 e{i}, {v};" for i, v in enumerate(masks))
    second = program["mma 1"].replace("word, q;", f"word, {{{names}}}, q, 3;")
    assert second != program["mma 1"]
    program["mma 1"] = f"{given}\n{second}"
    text = module.text_of(program)
    blackwell.assembles(text)
    report = module.simulate(text, args)
    assert not report.findings, str(report.findings[0])
    product = a[:, :16].astype(np.float64) @ b[:, :16].astype(np.float64).T
    stays = np.unpackbits(masks.astype("<u4").view(np.uint8), bitorder="little").astype(bool)
    expected = np.where(stays[:, None], product, product + product / 8)
    found = blackwell_pair.rows_of(args[2], m) if pairs else args[2]
    np.testing.assert_array_equal(found.astype(np.float64), expected)


SMALL = {"e2m1": (4, 5, ml_dtypes.float4_e2m1fn), "e2m3": (6, 3, ml_dtypes.float6_e2m3fn)}
SMALL["e3m2"] = (6, 4, ml_dtypes.float6_e3m2fn)


def padded(matrix: Array, bits: int) -> Array:
    """Elements of less than 8 bits [rows, k] as bytes [rows, k]: 16 elements in 16 bytes, packed in front."""
    codes = matrix.view(np.uint8).reshape(len(matrix), -1, 16)
    result = np.zeros(codes.shape, np.uint8)
    for row in range(codes.shape[0]):
        for piece in range(codes.shape[1]):
            number = sum(int(code & (1 << bits) - 1) << bits * i for i, code in enumerate(codes[row, piece]))
            result[row, piece] = np.frombuffer(number.to_bytes(16, "little"), np.uint8)
    return result.reshape(matrix.shape)


@pytest.mark.parametrize("name", SMALL)
def test_small_elements_in_containers(name: str) -> None:
    """e4m3 by elements of four or six bits, of kind f8f6f4."""
    bits, number, dtype = SMALL[name]
    rng = np.random.default_rng(bits)
    m, n = 128, 32
    a = whole(rng, (m, 128), DTYPES["e4m3"])
    b = rng.integers(0, 1 << bits, (n, 128)).astype(np.uint8).view(dtype)  # all codes
    left, right = lay_out(a, 128, False), lay_out(padded(b, bits), 128, False)
    word = product_word("e4m3", "e4m3", m, n) | number << 10
    args = blackwell.arguments(left.image, right.image, n)
    report = blackwell.simulate(blackwell.text_of(blackwell.parts(left, right, word, "f8f6f4", n)), args)
    assert not report.findings, str(report.findings[0])
    np.testing.assert_array_equal(args[2], a[:, :32].astype(np.float64) @ b[:, :32].astype(np.float64).T)
