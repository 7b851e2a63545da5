"""Matrix instructions: each lane's registers are filled by the published layouts and the result is A x B + C."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from minitile.runtime.sim import SimulationError
from tests.sim.amdgcn.harness import lanes

F8 = {
    "gfx942": {"fp8": ml_dtypes.float8_e4m3fnuz, "bf8": ml_dtypes.float8_e5m2fnuz},
    "gfx950": {"fp8": ml_dtypes.float8_e4m3fn, "bf8": ml_dtypes.float8_e5m2},
}
TYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "i8": np.int8, "f64": np.float64}

SHAPES = [  # (name, M, K, type of A, type of B, architectures)
    ("f32_16x16x16_f16", 16, 16, "f16", "f16", "gfx942 gfx950"),
    ("f32_32x32x8_f16", 32, 8, "f16", "f16", "gfx942 gfx950"),
    ("f32_16x16x16_bf16", 16, 16, "bf16", "bf16", "gfx942"),
    ("f32_32x32x8_bf16", 32, 8, "bf16", "bf16", "gfx942"),
    ("f32_16x16x32_bf16", 16, 32, "bf16", "bf16", "gfx950"),
    ("f32_32x32x16_bf16", 32, 16, "bf16", "bf16", "gfx950"),
    ("f32_16x16x32_f16", 16, 32, "f16", "f16", "gfx950"),
    ("f32_32x32x16_f16", 32, 16, "f16", "f16", "gfx950"),
    ("f32_16x16x4_f32", 16, 4, "f32", "f32", "gfx942 gfx950"),
    ("f32_32x32x2_f32", 32, 2, "f32", "f32", "gfx942 gfx950"),
    ("f32_16x16x32_fp8_fp8", 16, 32, "fp8", "fp8", "gfx942 gfx950"),
    ("f32_16x16x32_bf8_fp8", 16, 32, "bf8", "fp8", "gfx942 gfx950"),
    ("f32_32x32x16_fp8_bf8", 32, 16, "fp8", "bf8", "gfx942 gfx950"),
    ("i32_16x16x32_i8", 16, 32, "i8", "i8", "gfx942"),
    ("i32_32x32x16_i8", 32, 16, "i8", "i8", "gfx942"),
    ("i32_16x16x64_i8", 16, 64, "i8", "i8", "gfx950"),
    ("i32_32x32x32_i8", 32, 32, "i8", "i8", "gfx950"),
    ("f64_16x16x4_f64", 16, 4, "f64", "f64", "gfx942 gfx950"),
]


def matrix(kind, shape, seed, arch):
    rng = np.random.default_rng(seed)
    if kind == "i8":
        return rng.integers(-128, 128, shape, np.int8)
    return rng.standard_normal(shape).astype(TYPES.get(kind) or F8[arch][kind])


def spread(matrix):
    """Rows over lanes: lane l holds row l % M, elements (l / M) * each + j."""
    rows, depth = matrix.shape
    each = depth * rows // 64
    out = np.zeros((64, each), matrix.dtype)
    for lane in range(64):
        for j in range(each):
            out[lane, j] = matrix[lane % rows, lane // rows * each + j]
    return out


def result_rows(size, register, lane):
    """The row of register r in a lane, for f32 and i32."""
    if size == 16:
        return 4 * (lane // 16) + register
    return 8 * (register // 4) + 4 * (lane // 32) + register % 4


def words(values):
    """Elements of a lane as register words, padded to a register."""
    raw = np.ascontiguousarray(values).view(np.uint8)
    return raw.view(np.uint32)


def split_loads(first, array):
    """Inputs of at most four registers each."""
    return {
        (
            f"v[{first + at}:{first + min(at + 4, array.shape[1]) - 1}]"
            if array.shape[1] - at > 1
            else f"v{first + at}"
        ): (array[:, at : at + 4] if array.shape[1] - at > 1 else array[:, at])
        for at in range(0, array.shape[1], 4)
    }


def span(first, count):
    return f"v[{first}:{first + count - 1}]" if count > 1 else f"v{first}"


@pytest.mark.parametrize(("case", "arch"), [(case, arch) for case in SHAPES for arch in case[5].split()])
def test_shapes(case, arch):
    name, size, depth, kind_a, kind_b, _ = case
    a = matrix(kind_a, (size, depth), 1, arch)
    b = matrix(kind_b, (size, depth), 2, arch)
    dtype = {"f": np.float32, "i": np.int32}[name[0]] if not name.startswith("f64") else np.float64
    c = (np.random.default_rng(3).standard_normal((size, size)) * 8).astype(dtype)
    count = size * size // 64
    addend = np.zeros((64, count), dtype)
    rows = np.array([[result_rows(size, r, lane) for r in range(count)] for lane in range(64)])
    if dtype == np.float64:
        rows = np.array([[4 * r + lane // 16 for r in range(count)] for lane in range(64)])
    columns = np.arange(64)[:, None] % size
    addend[:] = c[rows, columns]
    wa, wb, wc = words(spread(a)), words(spread(b)), words(addend)
    inputs = split_loads(16, wa) | split_loads(32, wb) | split_loads(64, wc)
    total = wc.shape[1]
    body = f"v_mfma_{name} {span(64, total)}, {span(16, wa.shape[1])}, {span(32, wb.shape[1])}, {span(64, total)}"
    outputs = {f"v[{64 + at}:{67 + at}]": (np.uint32, 4) for at in range(0, total, 4)}
    results, report = lanes(body + "\ns_nop 15\ns_nop 15", inputs, outputs, arch)
    assert not report.findings
    got = np.concatenate(list(results.values()), axis=1).view(dtype)
    exact = a.astype(np.float64) @ b.astype(np.float64).T + c
    np.testing.assert_allclose(got, exact[rows, columns], rtol=1e-6, atol=1e-5)


SCALED = {
    "fp8": (0, 8, ml_dtypes.float8_e4m3fn),
    "bf8": (1, 8, ml_dtypes.float8_e5m2),
    "fp6": (2, 6, ml_dtypes.float6_e2m3fn),
    "bf6": (3, 6, ml_dtypes.float6_e3m2fn),
    "fp4": (4, 4, ml_dtypes.float4_e2m1fn),
}


def scaled_words(matrix, bits):
    """8-bit elements in two runs of 16, smaller ones in one run of 32, as packed registers."""
    rows = len(matrix)
    groups = 64 // rows
    codes = matrix.view(np.uint8)
    out = np.zeros((64, bits), np.uint32)
    for lane in range(64):
        row, group = lane % rows, lane // rows
        stream = 0
        for j in range(32):
            k = j // 16 * 16 * groups + 16 * group + j % 16 if bits == 8 else 32 * group + j
            stream |= int(codes[row, k]) << bits * j
        for word in range(bits):
            out[lane, word] = stream >> 32 * word & 0xFFFFFFFF
    return out


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize(("kind_a", "kind_b"), [("fp8", "fp8"), ("bf8", "fp4"), ("fp4", "fp4"), ("fp6", "bf6")])
@pytest.mark.parametrize(("size", "depth"), [(16, 128), (32, 64)])
def test_f8f6f4(size, depth, kind_a, kind_b, scaled):
    rng = np.random.default_rng(5)
    (code_a, bits_a, type_a), (code_b, bits_b, type_b) = SCALED[kind_a], SCALED[kind_b]
    a, b = (rng.standard_normal((size, depth)).astype(kind) for kind in (type_a, type_b))
    wa, wb = scaled_words(a, bits_a), scaled_words(b, bits_b)
    scales = rng.integers(120, 134, (2, size, depth // 32))
    lane = np.arange(64)
    # Scale of A in byte 1, of B in byte 2; the other bytes are noise.
    sa = (0x55AA00AA | scales[0, lane % size, lane // size] << 8).astype(np.uint32)
    sb = (0x55005500 | scales[1, lane % size, lane // size] << 16).astype(np.uint32)
    inputs = split_loads(16, wa) | split_loads(32, wb) | {"v48": sa, "v49": sb}
    total = size * size // 64
    head = f"f32_{size}x{size}x{depth}_f8f6f4 {span(64, total)}, {span(16, bits_a)}, {span(32, bits_b)}, 0"
    formats = f"cbsz:{code_a} blgp:{code_b}"
    body = f"v_mfma_{head} {formats}"
    if scaled:
        body = f"v_mfma_scale_{head}, v48, v49 op_sel:[1,0,0] op_sel_hi:[0,1,0] {formats}"
    outputs = {f"v[{64 + at}:{67 + at}]": (np.uint32, 4) for at in range(0, total, 4)}
    results, _ = lanes(body + "\ns_nop 15\ns_nop 15", inputs, outputs)
    got = np.concatenate(list(results.values()), axis=1).view(np.float32)
    x, y = a.astype(np.float64), b.astype(np.float64)
    if scaled:
        x = x * np.repeat(2.0 ** (scales[0] - 127), 32, axis=1)
        y = y * np.repeat(2.0 ** (scales[1] - 127), 32, axis=1)
    rows = np.array([[result_rows(size, r, each) for r in range(total)] for each in range(64)])
    exact = (x @ y.T)[rows, lane[:, None] % size]
    np.testing.assert_allclose(got, exact, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize(("scale", "factor"), [("s80", 2.0**5), ("1.0", 1.0), ("2.0", 2.0), ("0", 0.0)])
def test_scales_from_elsewhere(scale, factor):
    """Of an SGPR or a constant the exponent of the float that it would be is the scale; 0 is the least."""
    a = np.full((64, 4), 0x22222222, np.uint32)  # 1.0 everywhere
    body = (
        f"s_mov_b32 s80, {np.float32(2.0**5).view(np.uint32)}\nv_mov_b32 v48, 0x7f7f7f7f\n"
        f"v_mfma_scale_f32_16x16x128_f8f6f4 v[64:67], v[16:19], v[16:19], 0, {scale}, v48 op_sel:[1,0,0] "
        "op_sel_hi:[1,0,0] cbsz:4 blgp:4\ns_nop 15"
    )
    results, _ = lanes(body, {"v[16:19]": a}, {"v[64:67]": (np.float32, 4)})
    assert np.allclose(results["v[64:67]"], 128 * factor, atol=1e-30)


def test_matrix_instructions_ignore_exec():
    a = np.ones((64, 2), np.uint32) * 0x3C003C00
    body = (
        "s_mov_b64 s[4:5], exec\ns_mov_b64 exec, 0\nv_mfma_f32_16x16x16_f16 v[64:67], v[16:17], v[16:17], 1.0\n"
        "s_mov_b64 exec, s[4:5]\ns_nop 15"
    )
    results, _ = lanes(body, {"v[16:17]": a}, {"v[64:67]": (np.float32, 4)})
    assert (results["v[64:67]"] == 17).all()


def test_not_on_this_architecture():
    a = np.zeros((64, 4), np.uint32)
    body = "v_mfma_f32_16x16x32_f16 v[64:67], v[16:19], v[16:19], 0"
    with pytest.raises(SimulationError, match="gfx942 has no v_mfma_f32_16x16x32_f16"):
        lanes(body, {"v[16:19]": a}, {"v[64:67]": (np.float32, 4)}, "gfx942")
