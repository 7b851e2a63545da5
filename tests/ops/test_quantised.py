"""mt.ops.matmul_quantised and matmul_fp8 in the simulator, against float64 of the dequantised weights."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.ops import Fp8Plan, QuantisedPlan, matmul_fp8, matmul_quantised, pack_weights, quantise_weights
from minitile.ops.quantised.cost import FP8, H200_W4A16, KINDS, ROOM, TAKEN, blocks_with_room, estimate
from minitile.ops.quantised.fp8_gemm import gemm_fp8_blocks
from minitile.ops.quantised.gemm import gemm_quantised
from minitile.ops.quantised.pack import FORMATS
from minitile.ops.quantised.plans import choose_fp8, choose_quantised

bf16, f16, e4m3 = ml_dtypes.bfloat16, np.float16, ml_dtypes.float8_e4m3fn
BOUND = {bf16: 4e-3, f16: 1e-3}
EXACT = {bf16: 2.5e-3, f16: 4e-4}  # of scaled sums: what rounding the result leaves
FORMS = [("int4", 64, False), ("int4", 128, True), ("int8", 128, False), ("e4m3", 64, False), ("mxfp4", 32, False)]


def weights(n, k, format="int4", group=128, zeros=False, dtype=bf16, seed=0):
    w = np.random.default_rng(seed).standard_normal((n, k)).astype(np.float32) + (0.5 if zeros else 0)
    return quantise_weights(
        w, format=format, group=group, zero_points=zeros, dtype="f16" if dtype is f16 else "bf16"
    ), w


def check(m, packed, dtype=bf16, plan=None, bound=None, seed=1):
    a = np.random.default_rng(seed).standard_normal((m, packed.k)).astype(dtype)
    out = np.full((m, packed.n), np.nan).astype(dtype)
    assert matmul_quantised(a, packed, out=out, plan=plan) is out
    expected = a.astype(np.float64) @ packed.dequantise().T
    error = np.linalg.norm(out.astype(np.float64) - expected) / np.linalg.norm(expected)
    assert error < (bound or BOUND[dtype])


@pytest.mark.parametrize(("format", "group", "zeros"), FORMS)
def test_packing(format, group, zeros):
    """What is unpacked is what was packed: every code, and rows beyond the last whole tile."""
    form = FORMATS[format]
    rng = np.random.default_rng(2)
    n, k = 72, 256
    codes = rng.integers(0, 1 << form.bits, (n, k))
    if format == "e4m3":
        codes[codes % 128 == 127] = 0
        numbers = codes.astype(np.uint8).view(e4m3).astype(np.float64)
    elif format == "mxfp4":
        numbers = codes.astype(np.uint8).view(ml_dtypes.float4_e2m1fn).astype(np.float64)
    elif not zeros:
        codes = codes - (1 << form.bits - 1)
        numbers = codes.astype(np.float64)
    else:
        numbers = codes.astype(np.float64)
    if format == "mxfp4":
        scales = rng.integers(100, 150, (n, k // group)).astype(np.uint8)
        steps = 2.0 ** (scales.astype(np.float64) - 127)
    else:
        scales = rng.uniform(0.5, 2, (n, k // group)).astype(bf16)
        steps = scales.astype(np.float64)
    points = rng.integers(0, 16, (n, k // group)) if zeros else None
    packed = pack_weights(codes, scales, points, format=format)
    expected = numbers.reshape(n, -1, group) - (0 if points is None else points[..., None])
    np.testing.assert_array_equal(packed.dequantise(), (expected * steps[..., None]).reshape(n, k))
    assert packed.shape == (n, k)
    assert packed.words.nbytes == 128 * k * form.bits // 8


@pytest.mark.parametrize(("format", "group", "zeros"), FORMS)
def test_quantising(format, group, zeros):
    """By rounding to the nearest: 4 bits of normal numbers are some 10% off, 8 bits less."""
    packed, w = weights(64, 512, format, group, zeros)
    error = np.linalg.norm(packed.dequantise() - w) / np.linalg.norm(w)
    assert error < {"int4": 0.13, "int8": 0.01, "e4m3": 0.03, "mxfp4": 0.14}[format]


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(("format", "group", "zeros"), FORMS)
def test_each_format(target, format, group, zeros, monkeypatch):
    monkeypatch.setenv("MINITILE_TARGET", target)
    dtype = f16 if (target == "sm_80") == (format == "int8") and format != "mxfp4" else bf16
    packed, _ = weights(72, 256, format, group, zeros, dtype)
    check(17, packed, dtype)


@pytest.mark.parametrize(("rows", "n", "k"), [(3, 72, 256), (101, 67, 1008)])
@pytest.mark.parametrize("target", ["sm_89", "gfx942", "gfx950"])
def test_targets_with_other_tiles_and_less_memory(target, rows, n, k, monkeypatch):
    if target.startswith("gfx"):
        pytest.importorskip("llvmlite")
    monkeypatch.setenv("MINITILE_TARGET", target)
    for format, group, zeros in FORMS if rows == 3 else FORMS[:1]:
        check(rows, weights(n, k, format, group, zeros)[0])


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("dtype", [bf16, f16])
@pytest.mark.parametrize(
    ("format", "group", "zeros"), [*FORMS, ("int4", 128, False), ("int4", 64, True), ("e4m3", 128, False)]
)
def test_each_format_and_dtype(target, dtype, format, group, zeros, monkeypatch):
    monkeypatch.setenv("MINITILE_TARGET", target)
    if format == "mxfp4" and dtype is f16:
        return
    packed, _ = weights(136, 3 * group, format, group, zeros, dtype)
    for rows in (1, 31, 200):
        check(rows, packed, dtype)


@pytest.mark.parametrize(("k", "format", "group", "zeros"), [(71, "int4", 64, True), (201, "mxfp4", 32, False)])
def test_odd_sizes(k, format, group, zeros, monkeypatch):
    """K that no group divides, in rows that the copy engine does not take."""
    monkeypatch.setenv("MINITILE_TARGET", "sm_90a")
    packed, _ = weights(67, k, format, group, zeros)
    assert packed.scales.shape == (-(-k // group), 128)
    check(5, packed)


@pytest.mark.parametrize("rows", [1, 3, 31, 200])
def test_rows(rows, monkeypatch):
    monkeypatch.setenv("MINITILE_TARGET", "sm_90a")
    packed, _ = weights(24, 192, "int4", 64, True)
    check(rows, packed)


@pytest.mark.parametrize(
    "plan",
    [
        QuantisedPlan(16, 64, 128, 3, 128, parts=2),
        pytest.param(QuantisedPlan(16, 128, 128, 3, 256, parts=4, sums=False), marks=pytest.mark.slow),
        QuantisedPlan(32, 128, 128, 4, 128),
        QuantisedPlan(24, 64, 256, 2, 128),
        QuantisedPlan(8, 64, 512, 2, 128, parts=2),
        QuantisedPlan(24, 64, 128, 2, 128, parts=2, all_reduce=True, early=False),
        QuantisedPlan(8, 64, 256, 2, 128, sums=False),
    ],
    ids=str,
)
def test_plans(plan, monkeypatch):
    """Tiles larger and smaller than the rows; split-K whose blocks have not all as many steps."""
    monkeypatch.setenv("MINITILE_TARGET", "sm_90a")
    packed, _ = weights(136, 640, "int4", 128, True)
    check(17, packed, plan=plan, bound=EXACT[bf16] if plan.sums else None)


def test_scaled_sums_are_exact(monkeypatch):
    """Scales with all bits of their dtype, on sums in f32: no more is lost than by the result's own rounding."""
    monkeypatch.setenv("MINITILE_TARGET", "sm_90a")
    packed, _ = weights(64, 256, "int8", 128, False, f16)
    check(8, packed, f16, QuantisedPlan(8, 64, 128, 2, 128), EXACT[f16])


def test_results(monkeypatch):
    monkeypatch.setenv("MINITILE_TARGET", "sm_90a")
    packed, _ = weights(72, 128)
    a = np.random.default_rng(1).standard_normal((3, 128)).astype(bf16)
    c = matmul_quantised(a, packed, dtype="f32")
    expected = a.astype(np.float64) @ packed.dequantise().T
    assert c.dtype == np.float32
    assert np.linalg.norm(c - expected) / np.linalg.norm(expected) < 1e-5
    assert matmul_quantised(a[:0], packed).shape == (0, 72)


# fp8 -----------------------------------------------------------------------------------------------------------------


def fp8_operands(m, n, k, seed=0):
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((m, k)).astype(e4m3), rng.standard_normal((n, k)).astype(e4m3)
    scale_a = (2.0 ** rng.uniform(-2, 2, (m, -(-k // 128)))).astype(np.float32)
    scale_b = (2.0 ** rng.uniform(-2, 2, (-(-n // 128), -(-k // 128)))).astype(np.float32)
    blocks, tiles = np.arange(k) // 128, np.arange(n) // 128
    expected = (a.astype(np.float64) * scale_a[:, blocks]) @ (b.astype(np.float64) * scale_b[tiles][:, blocks]).T
    return a, b, (scale_a, scale_b), expected


@pytest.mark.parametrize(
    ("target", "shape"),
    [("sm_90a", s) for s in ((1, 24, 128), (17, 72, 208), (5, 67, 201), (31, 200, 384), (200, 136, 256))]
    + [(target, s) for target in ("sm_89", "gfx950") for s in ((17, 40, 1100), (101, 67, 1008))],
)
def test_fp8(target, shape, monkeypatch):
    if target.startswith("gfx"):
        pytest.importorskip("llvmlite")
    monkeypatch.setenv("MINITILE_TARGET", target)
    a, b, scales, expected = fp8_operands(*shape)
    c = matmul_fp8(a, b, scales)
    assert c.dtype == bf16
    assert np.linalg.norm(c.astype(np.float64) - expected) / np.linalg.norm(expected) < BOUND[bf16]


@pytest.mark.parametrize(
    "plan",
    [
        Fp8Plan(32, 64, 3, 128, 2),
        Fp8Plan(16, 128, 3, 256),
        Fp8Plan(32, 64, 3, 128, 4),
        Fp8Plan(8, 64, 3, 128, share=2, together=2),
        Fp8Plan(8, 64, 3, 128, blocks=3),
    ],
    ids=str,
)
def test_fp8_plans(plan, monkeypatch):
    monkeypatch.setenv("MINITILE_TARGET", "sm_90a")
    a, b, scales, expected = fp8_operands(24, 136, 896)
    out = np.full((24, 136), np.nan).astype(np.float32)
    columns = np.asfortranarray(scales[0])
    assert matmul_fp8(a, b, (columns, scales[1]), out=out, ahead=plan.share > 1, plan=plan) is out
    assert np.linalg.norm(out - expected) / np.linalg.norm(expected) < 1e-5


@pytest.mark.parametrize(
    "plan",
    [
        Fp8Plan(64, 160, 3, 128, swap=False),
        Fp8Plan(64, 96, 3, 128, 2, swap=False),
        Fp8Plan(128, 80, 3, 256, swap=False, blocks=2),
        Fp8Plan(64, 192, 2, 128, swap=False, blocks=2),
        Fp8Plan(64, 64, 2, 128, swap=False, share=2),
        pytest.param(Fp8Plan(192, 112, 3, 384, swap=False), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_fp8_rows_by_64(plan, monkeypatch):
    """Tiles with columns of several scales, at the edges of what they cover: rows, columns and steps that are odd."""
    monkeypatch.setenv("MINITILE_TARGET", "sm_90a")
    a, b, scales, expected = fp8_operands(130, 331, 400)
    out = np.full((130, 331), np.nan).astype(np.float32)
    matmul_fp8(a, b, scales, out=out, plan=plan)
    assert np.linalg.norm(out - expected) / np.linalg.norm(expected) < 1e-5


# Choices and refusals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 8, 9, 31, 64, 65, 129, 200, 256, 1000])
def test_choices_are_possible(rows):
    """Whole shares of 8 columns in clusters, steps for each part, all in shared memory."""
    for n, k in ((24, 128), (6144, 4096), (4096, 14336), (32768, 512), (128256, 4096)):
        for format, group, _ in FORMS:
            plan = choose_quantised(rows, n, k, group, 132, True)
            assert plan.block_N // plan.parts % 8 == 0
            assert plan.block_K % group == 0
            assert plan.block_K % FORMATS[format].unit == 0
            assert plan.parts == 1 or k // plan.block_K >= plan.parts
            assert plan.stages * (plan.block_M * plan.block_K * 2 + plan.block_N * plan.block_K) < 200 * 1024
        fp8 = choose_fp8(rows, n, k, 132)
        assert (fp8.block_N if fp8.swap else fp8.block_M) // fp8.parts % 8 == 0
        assert fp8.stages * (fp8.block_M + fp8.block_N) * 132 < 200 * 1024


@pytest.mark.parametrize(
    ("format", "plan"),
    [
        ("fp8", Fp8Plan(64, 128, 3, 256, 4, together=2)),
        ("fp8", Fp8Plan(64, 128, 4, 256)),  # some bytes too many for two
        ("fp8", Fp8Plan(128, 128, 4, 256, 2)),
        ("fp8", Fp8Plan(64, 96, 3, 128, swap=False, together=3)),
        ("int4", QuantisedPlan(8, 64, 256, 4, 128, 2)),
        ("int4", QuantisedPlan(16, 64, 128, 3, 128, 8, together=5)),
        ("int4", QuantisedPlan(16, 128, 128, 5, 256)),
        ("int8", QuantisedPlan(16, 128, 128, 4, 256)),  # twice the bytes: room for two
    ],
    ids=str,
)
def test_blocks_with_room_are_known(format, plan):
    """As many as registers and shared memory of the compiled kernel leave."""
    if format == "fp8":
        kernel, deep, kind = gemm_fp8_blocks(T.float8_e4m3, T.float8_e4m3, T.bfloat16), 128, FP8
        specs = (
            mt.spec((64, 1024), "e4m3"),
            mt.spec((1024, 1024), "e4m3"),
            mt.spec((8, 64), "f32"),
            mt.spec((8, 8), "f32"),
            mt.spec((64, 1024), "bf16"),
        )
    else:
        kernel, deep, kind = (
            gemm_quantised(T.bfloat16, T.bfloat16, format, 128, T.bfloat16),
            plan.block_K,
            KINDS[format],
        )
        words, table = mt.spec((64, 64, 128), "i32"), mt.spec((8, 1024), "bf16")
        specs = mt.spec((64, 1024), "bf16"), words, table, None, mt.spec((64, 1024), "bf16")
    made = kernel.configured(**plan._asdict()).compile(*specs, target="sm_90a")
    info = made.launch_info
    assert made.spills == 0
    by_registers = 65536 // (-(-made.registers // 8) * 8 * info.block[0])
    assert blocks_with_room(plan, deep, kind) == min(by_registers, ROOM // (info.dynamic_shared + TAKEN))


def test_eight_bits_cost_more_than_four():
    """The bytes of the weights, and the instructions that unpack them."""
    plan = QuantisedPlan(8, 64, 128, 4, 128)
    us = {format: estimate(plan, 128, kind, 8, 28672, 4096, 132, H200_W4A16) for format, kind in KINDS.items()}
    assert us["int4"] * 1.3 < us["int8"] < us["e4m3"]


def test_what_does_not_fit():
    packed, w = weights(64, 256)
    codes, scales = np.zeros((64, 256), np.int8), np.ones((64, 2), bf16)
    a = np.zeros((4, 256), bf16)
    fp8, b, pair, _ = fp8_operands(4, 64, 256)
    for call, message in (
        (lambda: pack_weights(codes, scales, format="int5"), "no format 'int5'"),
        (lambda: pack_weights(codes, np.ones((64, 3), bf16)), "64×256 weights of int4 with 64×3 scales"),
        (lambda: pack_weights(codes + 8, scales), "from -8 to 7"),
        (lambda: pack_weights(codes + 16, scales, np.zeros((64, 2))), "from 0 to 15"),
        (lambda: pack_weights(codes, scales.astype(np.float32)), "scales of float32"),
        (lambda: pack_weights(codes, scales, np.zeros((64, 2)), format="int8"), "zero points are for int4"),
        (lambda: pack_weights(codes + 127, scales, format="e4m3"), "NaN"),
        (lambda: quantise_weights(w, group=96), "it takes 64 or 128 of an N × K matrix"),
        (lambda: quantise_weights(w, format="int5"), "it takes int4, int8, e4m3, mxfp4"),
        (lambda: quantise_weights(w, format="e4m3", zero_points=True), "zero points are for int4"),
        (lambda: matmul_quantised(a[:, :128], packed), "a is 4×128 and the weights are 64×256"),
        (lambda: matmul_quantised(a.astype(f16), packed), "pack the weights with a's dtype"),
        (lambda: matmul_quantised(a.astype(f16), weights(64, 256, "mxfp4", 32)[0]), "the range of bf16"),
        (lambda: matmul_quantised(a.astype(np.float32), packed), "takes matrices of bf16 and f16"),
        (lambda: matmul_quantised(a, packed, plan=QuantisedPlan(8, block_K=64)), "no plan for groups of 128"),
        (lambda: matmul_quantised(a, packed, out=np.zeros((4, 60), bf16)), "it must be (4, 64)"),
        (lambda: matmul_fp8(a, b, pair), "takes matrices of e4m3 and e5m2"),
        (lambda: matmul_fp8(fp8[:, :128].copy(), b, pair), "both have K columns"),
        (lambda: matmul_fp8(fp8, b, (pair[1], pair[1])), "they are f32 of (4, 2)"),
        (lambda: matmul_fp8(fp8, b, pair[0]), "pass a pair"),
        (lambda: matmul_fp8(fp8, b, (1.0, 2.0)), "scales[0]: float is no array"),
        (lambda: matmul_fp8(fp8, b, 2.0), "pass a pair"),
        (lambda: matmul_fp8(fp8, b, pair, plan=QuantisedPlan(8)), "pass mt.ops.Fp8Plan(…)"),
        (lambda: matmul_fp8(fp8, b, pair, plan=Fp8Plan(8, 160)), "block_N divides 128, or swap=False"),
        (lambda: matmul_fp8(fp8, b, pair, plan=Fp8Plan(8, parts=2, blocks=7)), "blocks=0, or parts=1 and share=1"),
        (lambda: matmul_fp8(fp8, b, pair, plan=Fp8Plan(8, parts=2, share=2)), "parts=1 or share=1"),
        (lambda: matmul_fp8(fp8, b, pair, plan=Fp8Plan(8, parts=3)), "shares are whole 8"),
        (lambda: matmul_fp8(fp8, b, pair, plan=Fp8Plan(64, 96, parts=5, swap=False)), "shares are whole 8"),
        (lambda: matmul_quantised(a, packed, plan=QuantisedPlan(8, parts=3)), "shares are whole 8"),
        (lambda: matmul_quantised(a, packed, plan=Fp8Plan(8)), "pass mt.ops.QuantisedPlan(…)"),
        (
            lambda: matmul_quantised(a, weights(64, 256, "mxfp4", 32)[0], plan=QuantisedPlan(8)),
            "sums=False: scales go to the weights",
        ),
        (lambda: matmul_quantised(a, w), "weights is of type ndarray"),
        (lambda: matmul_quantised(a, packed, dtype="bfloat"), "dtype is 'bfloat'"),
        (lambda: pack_weights(codes, scales, np.full((64, 2), 16)), "zero_points from 16 to 16"),
        (lambda: pack_weights(codes, scales, np.full((64, 2), 1.5)), "zero_points that are not whole"),
        (lambda: pack_weights(codes + 0.5, scales), "codes of int4 that are not whole"),
        (lambda: pack_weights(codes[0], scales), "codes has shape (256,)"),
        (lambda: pack_weights(codes.astype(ml_dtypes.float8_e5m2), scales, format="e4m3"), "are of float8_e5m2"),
        (lambda: pack_weights(codes, np.ones((64, 8), bf16), format="mxfp4"), "the bytes of e8m0"),
        (lambda: pack_weights(codes, np.full((64, 8), 255), format="mxfp4"), "from 255 to 255"),
        (lambda: quantise_weights(w.tolist()), "w is of type list"),
        (lambda: quantise_weights(w, dtype="f32"), "scales are of bf16 or f16"),
        (lambda: quantise_weights(w * np.inf), "only finite numbers are quantised"),
    ):
        with pytest.raises(mt.MinitileError) as caught:
            call()
        assert message in f"{caught.value.message} ({caught.value.hint})"
