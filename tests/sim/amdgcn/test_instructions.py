"""Lane movement, LDS, buffers, atomics, constants: single instructions and LLVM's code for intrinsics."""

from __future__ import annotations

import numpy as np
import pytest

from minitile.runtime.sim import run_gcn
from tests.sim.amdgcn.harness import SCHEDULES, assemble, lanes, text_of

LANE = np.arange(64)


def vector(body, inputs=None, outputs=None, **options):
    inputs = inputs or {"v3": np.arange(100, 164, dtype=np.uint32)}
    outputs = outputs or {"v4": np.uint32}
    results, report = lanes(body, inputs, outputs, **options)
    assert [str(finding) for finding in report.findings] == []
    return results[next(iter(outputs))]


DPP = {  # modifiers: (source lane or -1, per lane)
    "quad_perm:[3,2,1,0]": LANE // 4 * 4 + 3 - LANE % 4,
    "row_shl:3": np.where(LANE % 16 < 13, LANE + 3, -1),
    "row_shr:1": np.where(LANE % 16 >= 1, LANE - 1, -1),
    "row_ror:5": LANE // 16 * 16 + (LANE % 16 - 5) % 16,
    "row_mirror": LANE // 16 * 16 + 15 - LANE % 16,
    "row_half_mirror": LANE // 8 * 8 + 7 - LANE % 8,
    "row_newbcast:6": LANE // 16 * 16 + 6,
    "row_bcast:15": np.where(LANE >= 16, LANE // 16 * 16 - 1, -1),
    "row_bcast:31": np.where(LANE >= 32, 31, -1),
    "wave_shr:1": LANE - 1,
    "wave_ror:1": (LANE - 1) % 64,
}


@pytest.mark.parametrize("modifier", DPP)
def test_dpp(modifier):
    values = np.arange(100, 164, dtype=np.uint32)
    lane = DPP[modifier]
    masks = "row_mask:0xf bank_mask:0xf"
    kept = vector(f"v_mov_b32 v4, 7\nv_mov_b32_dpp v4, v3 {modifier} {masks}")
    np.testing.assert_array_equal(kept, np.where(lane >= 0, values[lane], 7))
    zeroed = vector(f"v_mov_b32 v4, 7\nv_mov_b32_dpp v4, v3 {modifier} {masks} bound_ctrl:1")
    np.testing.assert_array_equal(zeroed, np.where(lane >= 0, values[lane], 0))
    some = vector(f"v_mov_b32 v4, 7\nv_add_u32_dpp v4, v3, v3 {modifier} row_mask:0x5 bank_mask:0x3 bound_ctrl:1")
    written = (LANE // 16 % 2 == 0) & (LANE // 4 % 4 < 2)
    moved = np.where(lane >= 0, values[lane], 0)
    np.testing.assert_array_equal(some, np.where(written, moved + values, 7))


def test_dpp_from_an_inactive_lane():
    body = """v_mov_b32 v4, 7
v_mov_b32 v5, 7
s_mov_b64 s[4:5], exec
s_mov_b32 exec_lo, 0xfffffffe
v_mov_b32_dpp v4, v3 row_shr:1 row_mask:0xf bank_mask:0xf
v_mov_b32_dpp v5, v3 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:1
s_mov_b64 exec, s[4:5]
v_lshl_or_b32 v4, v5, 16, v4"""
    result = vector(body)
    assert (result[1] & 0xFFFF, result[1] >> 16, result[2]) == (7, 0, 101 << 16 | 101)


@pytest.mark.parametrize(
    ("offset", "source"),
    [
        ("swizzle(SWAP,8)", LANE ^ 8),
        ("swizzle(REVERSE,16)", LANE ^ 15),
        ("swizzle(BROADCAST,8,3)", LANE // 8 * 8 + 3),
        ("swizzle(QUAD_PERM,1,0,3,2)", LANE ^ 1),
        ('swizzle(BITMASK_PERM,"01pip")', LANE // 32 * 32 + (8 | LANE & 5 | ~LANE & 2)),
        ("0x401f", LANE ^ 16),
    ],
)
def test_swizzle(offset, source):
    result = vector(f"ds_swizzle_b32 v4, v3 offset:{offset}\ns_waitcnt lgkmcnt(0)")
    np.testing.assert_array_equal(result, 100 + source)


def test_lane_moves():
    where = ((LANE * 5 + 3) % 64).astype(np.uint32)
    inputs = {"v3": np.arange(100, 164, dtype=np.uint32), "v5": 4 * where}
    pulled = vector("ds_bpermute_b32 v4, v5, v3\ns_waitcnt lgkmcnt(0)", inputs)
    np.testing.assert_array_equal(pulled, 100 + where)
    pushed = vector("ds_permute_b32 v4, v5, v3\ns_waitcnt lgkmcnt(0)", inputs)
    np.testing.assert_array_equal(pushed[where], 100 + LANE)
    read = vector("v_readlane_b32 s4, v3, 17\nv_mov_b32 v4, 0\ns_nop 0\nv_writelane_b32 v4, s4, 5")
    np.testing.assert_array_equal(read, np.where(LANE == 5, 117, 0))
    first = vector(
        "s_mov_b64 s[6:7], exec\ns_lshl_b64 exec, s[6:7], 9\nv_readfirstlane_b32 s4, v3\n"
        "s_mov_b64 exec, s[6:7]\ns_nop 0\nv_mov_b32 v4, s4"
    )
    np.testing.assert_array_equal(first, 109)
    count = vector("v_mbcnt_lo_u32_b32 v4, -1, 0\nv_mbcnt_hi_u32_b32 v4, -1, v4")
    np.testing.assert_array_equal(count, LANE)


@pytest.mark.parametrize("step", [16, 32])
def test_permlane_swap(step):
    a, b = np.arange(64, dtype=np.uint32), np.arange(100, 164, dtype=np.uint32)
    outputs = {"v3": np.uint32, "v4": np.uint32}
    results, _ = lanes(f"v_permlane{step}_swap_b32 v3, v4", {"v3": a, "v4": b}, outputs)
    odd = LANE // step % 2 == 1
    np.testing.assert_array_equal(results["v3"], np.where(odd, 100 + LANE - step, LANE))
    np.testing.assert_array_equal(results["v4"], np.where(odd, 100 + LANE, LANE + step))


REDUCE = """
declare i32 @llvm.amdgcn.workitem.id.x()
define amdgpu_kernel void @k(ptr addrspace(1) %a, ptr addrspace(1) %c) #0 {{
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %p = getelementptr i32, ptr addrspace(1) %a, i32 %i
  %x = load i32, ptr addrspace(1) %p
  %r = atomicrmw {operation} ptr addrspace({space}) {target}, i32 %x syncscope("agent") monotonic
  {after}
  %q = getelementptr i32, ptr addrspace(1) %c, i32 %i
  store i32 %r, ptr addrspace(1) %q
  ret void
}}
"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("operation", ["add", "max", "umin", "or", "xor"])
def test_atomics(operation, schedule):
    """LLVM combines the lanes of a wave by DPP first."""
    rng = np.random.default_rng(2)
    a = rng.integers(-1000, 1000, 200, np.int32)
    start = np.int32({"add": 5, "max": -2000, "umin": -1, "or": 0, "xor": 9}[operation])
    cell = np.array([start])
    text = assemble(
        REDUCE.format(operation=operation, space=1, target="%c", after="").replace(
            "%q = getelementptr i32, ptr addrspace(1) %c, i32 %i", "%q = getelementptr i32, ptr addrspace(1) %p, i32 0"
        )
    )
    old = a.copy()
    report = run_gcn(text, "k", (1,), (200,), [old, cell], schedule=schedule)
    assert not report.findings
    unsigned = a.view(np.uint32)
    expected = {
        "add": start + a.sum(),
        "max": a.max(),
        "umin": unsigned.min().view(np.int32),
        "or": np.bitwise_or.reduce(a),
        "xor": start ^ np.bitwise_xor.reduce(a),
    }[operation]
    assert cell[0] == expected
    if operation == "add":
        assert sorted(old - start) != sorted(a)
        assert {int(each) for each in old + a} >= {int(cell[0])}


ATOMIC_FORMS = [  # (instruction, bytes, data of a lane, result in memory, what is returned)
    ("global_atomic_add", np.uint32, np.add),
    ("global_atomic_smax", np.int32, np.maximum),
    ("global_atomic_and", np.uint32, np.bitwise_and),
    ("global_atomic_swap", np.uint32, lambda old, new: new),
    ("global_atomic_add_f32", np.float32, np.add),
    ("global_atomic_add_x2", np.uint64, np.add),
    ("global_atomic_add_f64", np.float64, np.add),
]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("name", "dtype", "function"), ATOMIC_FORMS)
def test_atomic_forms(name, dtype, function, schedule):
    """Each lane on its own element: the second input of `lanes`, at s[92:93] after loading."""
    rng = np.random.default_rng(4)
    wide = np.dtype(dtype).itemsize == 8
    data, memory = (rng.integers(1, 1000, 64).astype(dtype) for _ in range(2))
    register = "v[6:7]" if wide else "v6"
    result = "v[8:9]" if wide else "v8"
    before = memory.copy()
    body = f"{name} {result}, v251, {register}, s[92:93] sc0\ns_waitcnt vmcnt(0)"
    results, report = lanes(
        body, {register: data, ("v[10:11]" if wide else "v10"): memory}, {result: dtype}, schedule=schedule
    )
    assert not report.findings
    np.testing.assert_array_equal(results[result], before)
    np.testing.assert_array_equal(memory, function(before, data).astype(dtype))


EDGES = np.array([0.0, -0.0, 1, -2, 3, np.inf, -np.inf, np.nan])
FIRST, SECOND = (np.ascontiguousarray(each).ravel() for each in np.meshgrid(EDGES, EDGES, indexing="ij"))
SOME = ~(np.isnan(FIRST) & np.isnan(SECOND))


def same_bits(a, b):
    bits = f"u{a.dtype.itemsize}"
    np.testing.assert_array_equal(a[SOME].view(bits), b[SOME].view(bits))


@pytest.mark.parametrize("kind", ["f16", "f32", "f64"])
@pytest.mark.parametrize("name", ["min", "max"])
def test_extremes_of_special_values(kind, name):
    """A NaN loses, and -0 is less than +0 (CDNA3 ISA, V_MIN_F32)."""
    better = SECOND < FIRST if name == "min" else SECOND > FIRST
    zeros = (FIRST == 0) & (SECOND == 0) & (np.signbit(SECOND) == (name == "min"))
    expected = np.where(better | zeros | np.isnan(FIRST), SECOND, FIRST)
    dtype = np.dtype(f"f{int(kind[1:]) // 8}")
    held = np.uint32 if kind == "f16" else dtype
    a, b = (
        each.astype(dtype).view(f"u{dtype.itemsize}").astype(np.uint32 if kind != "f64" else np.uint64)
        for each in (FIRST, SECOND)
    )
    one, two, to = ("v[4:5]", "v[6:7]", "v[8:9]") if kind == "f64" else ("v4", "v6", "v8")
    result = vector(f"v_{name}_{kind} {to}, {one}, {two}", {one: a, two: b}, {to: held})
    if kind == "f16":
        result = result.astype(np.uint16).view(np.float16)
    same_bits(result, expected.astype(dtype))


def test_the_middle_of_zeros():
    """What is left of -0, -0 and +0 without the first that is as large as the largest (CDNA3 ISA, V_MED3_F32)."""
    signs = np.array([[0 if lane >> bit & 1 else -0.0 for bit in range(3)] for lane in LANE], np.float32)
    inputs = {f"v{4 + n}": signs[:, n].copy() for n in range(3)}
    result = vector("v_med3_f32 v8, v4, v5, v6", inputs, {"v8": np.float32})
    np.testing.assert_array_equal(np.signbit(result), np.signbit(signs[:, 1]) & np.signbit(signs[:, 2]))
    for name, function in (("minimum3", np.any), ("maximum3", np.all)):
        result = vector(f"v_{name}_f32 v8, v4, v5, v6", inputs, {"v8": np.float32})
        np.testing.assert_array_equal(np.signbit(result), function(np.signbit(signs), axis=1))


@pytest.mark.parametrize(
    ("name", "space"),
    [
        *((f"{name}_{kind}", "lds") for name in ("min", "max") for kind in ("f32", "f64")),
        ("min_f64", "global"),
        ("max_f64", "global"),
    ],
)
def test_atomic_extremes_of_special_values(name, space):
    """Memory stays as it is for a NaN in either, and for a zero of the other sign."""
    dtype = np.dtype(f"f{int(name[5:]) // 8}")
    old, new = FIRST.astype(dtype), SECOND.astype(dtype)
    expected = np.where(new < old if name[:3] == "min" else new > old, new, old)
    r = ["v[4:5]", "v[6:7]", "v[8:9]", "v[10:11]"] if dtype.itemsize == 8 else ["v4", "v6", "v8", "v10"]
    bits, wait = 8 * dtype.itemsize, "s_waitcnt lgkmcnt(0)\n"
    memory = old.copy()
    body = f"global_atomic_{name} {r[2]}, v251, {r[1]}, s[92:93] sc0\ns_waitcnt vmcnt(0)"
    outputs = {r[2]: dtype}
    if space == "lds":
        body = f"v_lshlrev_b32 v1, 3, v250\nds_write_b{bits} v1, {r[0]}\n{wait}"
        body += f"ds_{name[:3]}_rtn_{name[4:]} {r[2]}, v1, {r[1]}\n{wait}ds_read_b{bits} {r[3]}, v1\n{wait}"
        outputs[r[3]] = dtype
    results, report = lanes(body, {r[1]: new, r[0]: memory}, outputs, lds=512)
    assert not report.findings
    same_bits(results[r[2]], old)
    same_bits(results[r[3]] if space == "lds" else memory, expected)


def test_lds_atomics_return_in_some_order():
    body = """v_mov_b32 v1, 0
s_mov_b64 s[6:7], exec
s_mov_b64 exec, 1
ds_write_b32 v1, v1
s_mov_b64 exec, s[6:7]
v_mov_b32 v2, 3
ds_add_rtn_u32 v4, v1, v2
s_waitcnt lgkmcnt(0)"""
    result = vector(body, lds=64)
    assert sorted(result.tolist()) == [3 * each for each in range(64)]


LDS = [  # (write, read, words)
    ("ds_write_b32 v1, v4", "ds_read_b32 v8, v1", 1),
    ("ds_write_b64 v1, v[4:5]", "ds_read_b64 v[8:9], v1", 2),
    ("ds_write_b96 v1, v[4:6]", "ds_read_b96 v[8:10], v1", 3),
    ("ds_write_b128 v1, v[4:7]", "ds_read_b128 v[8:11], v1", 4),
    ("ds_write2_b32 v1, v4, v5 offset0:1 offset1:3", "ds_read2_b32 v[8:9], v1 offset0:1 offset1:3", 2),
    ("ds_write2_b64 v1, v[4:5], v[6:7] offset1:1", "ds_read2_b64 v[8:11], v1 offset1:1", 4),
    ("ds_write2st64_b32 v1, v4, v5 offset1:4", "ds_read2st64_b32 v[8:9], v1 offset1:4", 2),
    ("ds_write_b128 v1, v[4:7] offset:1024", "ds_read_b128 v[8:11], v1 offset:1024", 4),
]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("write", "read", "words"), LDS)
def test_lds(write, read, words, schedule):
    values = np.random.default_rng(0).integers(0, 1 << 32, (64, 4), np.uint32)
    register = f"v[8:{7 + words}]" if words > 1 else "v8"
    body = f"v_lshlrev_b32 v1, 4, v0\n{write}\n{read}\ns_waitcnt lgkmcnt(0)"
    outputs = {register: (np.uint32, words) if words > 1 else np.uint32}
    result = vector(body, {"v[4:7]": values}, outputs, lds=4096, schedule=schedule)
    np.testing.assert_array_equal(result.reshape(64, words), values[:, :words])


@pytest.mark.parametrize(
    ("write", "read", "expected"),
    [
        ("ds_write_b8 v1, v3", "ds_read_u8 v4, v1", lambda x: x & 0xFF),
        ("ds_write_b8 v1, v3", "ds_read_i8 v4, v1", lambda x: x.astype(np.int8).astype(np.int32).view(np.uint32)),
        ("ds_write_b16 v1, v3", "ds_read_u16 v4, v1", lambda x: x & 0xFFFF),
        ("ds_write_b16 v1, v3", "ds_read_i16 v4, v1", lambda x: x.astype(np.int16).astype(np.int32).view(np.uint32)),
        ("ds_write_b16_d16_hi v1, v3", "ds_read_u16 v4, v1", lambda x: x >> 16),
        ("ds_write_b16 v1, v3", "ds_read_u16_d16 v4, v1", lambda x: x & 0xFFFF | 0x12340000),
        ("ds_write_b16 v1, v3", "ds_read_u16_d16_hi v4, v1", lambda x: x << 16 | 0x5678),
    ],
)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_small_lds(write, read, expected, schedule):
    values = np.random.default_rng(1).integers(0, 1 << 32, 64, np.uint32)
    body = f"v_mov_b32 v4, 0x12345678\nv_lshlrev_b32 v1, 2, v0\n{write}\n{read}\ns_waitcnt lgkmcnt(0)"
    result = vector(body, {"v3": values}, lds=256, schedule=schedule)
    np.testing.assert_array_equal(result, expected(values))


@pytest.mark.parametrize("bits", [8, 16])
def test_transposing_reads(bits):
    """Sixteen lanes hold a block of 64 / bits rows of 16 elements, row by row; lane l gets column l."""
    size = bits // 8
    rows = 8 // size
    block = np.random.default_rng(0).integers(0, 1 << bits, (4, rows, 16)).astype(np.dtype(f"u{size}"))
    words = block.reshape(64, -1).view(np.uint32).reshape(64, 2)
    body = f"v_lshlrev_b32 v1, 3, v0\nds_write_b64 v1, v[4:5]\nds_read_b64_tr_b{bits} v[8:9], v1\ns_waitcnt lgkmcnt(0)"
    result = vector(body, {"v[4:5]": words}, {"v[8:9]": (np.uint32, 2)}, lds=512)
    got = result.view(np.dtype(f"u{size}")).reshape(4, 16, rows)
    np.testing.assert_array_equal(got, block.transpose(0, 2, 1))


# -- buffers -----------------------------------------------------------------------------------------------------------

DESCRIPTOR = """s_load_dwordx2 s[4:5], s[0:1], 0
s_mov_b32 s6, {size}
s_mov_b32 s7, 0x27000
v_lshlrev_b32 v1, 4, v0
s_waitcnt lgkmcnt(0)
s_and_b32 s5, s5, 0xffff
"""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_buffer_bounds(schedule):
    """Dwords beyond the size load as 0 and are not stored; soffset counts."""
    size = 16 * 40 + 8 + 100
    a = np.arange(1, 1025, dtype=np.uint32)
    c = np.full(1024, 7, np.uint32)
    body = DESCRIPTOR.format(size=size) + (
        "s_load_dwordx2 s[8:9], s[0:1], 8\ns_movk_i32 s12, 100\nbuffer_load_dwordx4 v[4:7], v1, s[4:7], s12 offen\n"
        "s_mov_b32 s10, 24\ns_mov_b32 s11, 0x27000\ns_waitcnt vmcnt(0) lgkmcnt(0)\n"
        "global_store_dwordx4 v1, v[4:7], s[8:9]\n"
    )
    report = run_gcn(text_of(body, 2), "k", (1,), (64,), [a, c], schedule=schedule)
    assert not report.findings
    inside = np.arange(256) * 4 < size - 100
    np.testing.assert_array_equal(c[:256], np.where(inside, np.arange(26, 282), 0))
    body = (
        DESCRIPTOR.format(size=size) + "v_mov_b32 v2, v1\nbuffer_store_dwordx2 v[1:2], v1, s[4:7], 0 offen offset:4\n"
    )
    c[:] = 7
    report = run_gcn(text_of(body, 1), "k", (1,), (64,), [c], schedule=schedule)
    expected = np.full(1024, 7, np.uint32)
    for lane in range(64):
        for word in (1, 2):
            if 16 * lane + 4 * word + 4 <= size:
                expected[4 * lane + word] = 16 * lane
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_dma_out_of_bounds_writes_zeros(schedule):
    body = DESCRIPTOR.format(size=16 * 60) + (
        "s_load_dwordx2 s[8:9], s[0:1], 8\nv_sub_u32 v2, 0x3f0, v1\ns_mov_b32 m0, 256\ns_nop 0\n"
        "buffer_load_dwordx4 v2, s[4:7], 0 offen lds\ns_waitcnt vmcnt(0) lgkmcnt(0)\n"
        "ds_read_b128 v[4:7], v1 offset:256\ns_waitcnt lgkmcnt(0)\nglobal_store_dwordx4 v1, v[4:7], s[8:9]\n"
    )
    a, c = np.arange(1, 257, dtype=np.uint32), np.zeros(256, np.uint32)
    report = run_gcn(text_of(body, 2, lds=2048), "k", (1,), (64,), [a, c], schedule=schedule)
    assert [str(finding) for finding in report.findings] == []
    expected = a.reshape(64, 4)[::-1].copy()
    expected[:4] = 0
    np.testing.assert_array_equal(c.reshape(64, 4), expected)


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize("level", [0, 3])
def test_constants_positions_and_dynamic_lds(arch, level):
    ir = """
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workitem.id.y()
declare i32 @llvm.amdgcn.workitem.id.z()
declare i32 @llvm.amdgcn.workgroup.id.x()
declare i32 @llvm.amdgcn.workgroup.id.y()
declare i32 @llvm.amdgcn.workgroup.id.z()
declare ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()
@table = internal addrspace(4) constant [4 x i32] [i32 10, i32 20, i32 30, i32 40]
@room = external addrspace(3) global [0 x i32]
define amdgpu_kernel void @k(ptr addrspace(1) %c, i16 %s, float %f) #0 {
  %x = call i32 @llvm.amdgcn.workitem.id.x()
  %y = call i32 @llvm.amdgcn.workitem.id.y()
  %z = call i32 @llvm.amdgcn.workitem.id.z()
  %gx = call i32 @llvm.amdgcn.workgroup.id.x()
  %gy = call i32 @llvm.amdgcn.workgroup.id.y()
  %gz = call i32 @llvm.amdgcn.workgroup.id.z()
  %imp = call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()
  %bc = load i32, ptr addrspace(4) %imp
  %y2 = mul i32 %y, 4
  %z2 = mul i32 %z, 12
  %i0 = add i32 %x, %y2
  %i = add i32 %i0, %z2
  %g1 = mul i32 %gy, 2
  %g2 = mul i32 %gz, 6
  %g0 = add i32 %gx, %g1
  %g = add i32 %g0, %g2
  %gi = mul i32 %g, 24
  %at = add i32 %gi, %i
  %m = and i32 %i, 3
  %pt = getelementptr i32, ptr addrspace(4) @table, i32 %m
  %v = load i32, ptr addrspace(4) %pt
  %l = getelementptr i32, ptr addrspace(3) @room, i32 %i
  store i32 %v, ptr addrspace(3) %l
  %w = load volatile i32, ptr addrspace(3) %l
  %s32 = sext i16 %s to i32
  %fi = fptosi float %f to i32
  %v1 = add i32 %w, %s32
  %v2 = add i32 %v1, %fi
  %v3 = add i32 %v2, %bc
  %p = getelementptr i32, ptr addrspace(1) %c, i32 %at
  store i32 %v3, ptr addrspace(1) %p
  ret void
}
"""
    text = assemble(ir, arch, level)
    c = np.zeros(12 * 24, np.int32)
    args = [c, np.int16(-3), np.float32(5.5)]
    report = run_gcn(text, "k", (2, 3, 2), (4, 3, 2), args, dynamic_shared=96)
    assert [str(finding) for finding in report.findings] == []
    np.testing.assert_array_equal(c, np.tile([14, 24, 34, 44], 72))


def test_preloaded_arguments():
    ir = """
define amdgpu_kernel void @k(ptr addrspace(1) inreg %c, i32 inreg %x) #0 {
  store i32 %x, ptr addrspace(1) %c
  ret void
}
"""
    text = assemble(ir)
    assert ".amdhsa_user_sgpr_kernarg_preload_length 3" in text
    c = np.zeros(1, np.int32)
    run_gcn(text, "k", (1,), (64,), [c, np.int32(77)])
    assert c[0] == 77


def test_sdwa():
    values = np.random.default_rng(1).integers(0, 1 << 32, 64, np.uint32)
    word = vector(
        "v_add_u32_sdwa v4, v3, v3 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_2 src1_sel:WORD_1", {"v3": values}
    )
    np.testing.assert_array_equal(word, (values >> 16 & 0xFF) + (values >> 16))
    kept = vector(
        "v_mov_b32 v4, -1\nv_mov_b32_sdwa v4, v3 dst_sel:BYTE_1 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_3",
        {"v3": values},
    )
    np.testing.assert_array_equal(kept, values >> 24 << 8 | 0xFFFF00FF)
    signed = vector("v_mov_b32_sdwa v4, sext(v3) dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_0", {"v3": values})
    np.testing.assert_array_equal(signed, values.astype(np.int8).astype(np.int32).view(np.uint32))


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_private_memory(arch, schedule):
    ir = """
declare i32 @llvm.amdgcn.workitem.id.x()
define amdgpu_kernel void @k(ptr addrspace(1) %a, i32 %n) #0 {
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %s = alloca [64 x i32], addrspace(5)
  br label %l
l:
  %j = phi i32 [0, %0], [%j1, %l]
  %p = getelementptr [64 x i32], ptr addrspace(5) %s, i32 0, i32 %j
  %y = mul i32 %j, 100
  %x = add i32 %y, %i
  store i32 %x, ptr addrspace(5) %p
  %j1 = add i32 %j, 1
  %c = icmp slt i32 %j1, %n
  br i1 %c, label %l, label %e
e:
  %m = and i32 %i, 15
  %p2 = getelementptr [64 x i32], ptr addrspace(5) %s, i32 0, i32 %m
  %v = load i32, ptr addrspace(5) %p2
  %q = getelementptr i32, ptr addrspace(1) %a, i32 %i
  store i32 %v, ptr addrspace(1) %q
  ret void
}
"""
    text = assemble(ir, arch)
    assert "scratch_store_dword" in text
    a = np.zeros(200, np.int32)
    report = run_gcn(text, "k", (1,), (200,), [a, np.int32(17)], schedule=schedule)
    assert [str(finding) for finding in report.findings] == []
    each = np.arange(200)
    np.testing.assert_array_equal(a, each % 16 * 100 + each)
    report = run_gcn(text, "k", (1,), (200,), [a, np.int32(100)], schedule=schedule)
    assert [(finding.kind, finding.space) for finding in report.findings] == [("out_of_bounds", "local")]


def signed(x, bits):
    return (x & (1 << bits) - 1) - ((x >> bits - 1 & 1) << bits)


def permuted(a, b, c):
    both = (a << 32 | b).to_bytes(8, "little")
    result = 0
    for index in range(4):
        which = c >> 8 * index & 0xFF
        if which > 12:
            byte = 0xFF
        elif which == 12:
            byte = 0
        elif which >= 8:
            byte = 0xFF * (both[2 * (which - 8) + 1] >> 7)
        else:
            byte = both[which]
        result |= byte << 8 * index
    return result


BITWISE = {  # three sources a, b, c as Python integers
    "v_perm_b32 v4, v5, v6, v7": permuted,
    "v_alignbit_b32 v4, v5, v6, v7": lambda a, b, c: (a << 32 | b) >> (c & 31),
    "v_alignbyte_b32 v4, v5, v6, v7": lambda a, b, c: (a << 32 | b) >> 8 * (c & 3),
    "v_bfi_b32 v4, v5, v6, v7": lambda a, b, c: a & b | ~a & c,
    "v_bfe_u32 v4, v5, v6, v7": lambda a, b, c: a >> (b & 31) & (1 << (c & 31)) - 1,
    "v_bfe_i32 v4, v5, v6, v7": lambda a, b, c: signed(signed(a, 32) >> (b & 31), c & 31) if c & 31 else 0,
    "v_bitop3_b32 v4, v5, v6, v7 bitop3:0x96": lambda a, b, c: a ^ b ^ c,
    "v_bitop3_b32 v4, v5, v6, v7 bitop3:0xca": lambda a, b, c: a & b | ~a & c,
    "v_med3_i32 v4, v5, v6, v7": lambda a, b, c: sorted(signed(x, 32) for x in (a, b, c))[1],
    "v_max3_u32 v4, v5, v6, v7": lambda a, b, c: max(a, b, c),
    "v_mad_u32_u24 v4, v5, v6, v7": lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c,
    "v_mad_i32_i24 v4, v5, v6, v7": lambda a, b, c: signed(a, 24) * signed(b, 24) + c,
    "v_mul_hi_i32 v4, v5, v6": lambda a, b, c: signed(a, 32) * signed(b, 32) >> 32,
    "v_lshl_add_u32 v4, v5, v6, v7": lambda a, b, c: (a << (b & 31)) + c,
    "v_add_lshl_u32 v4, v5, v6, v7": lambda a, b, c: (a + b) << (c & 31),
    "v_xad_u32 v4, v5, v6, v7": lambda a, b, c: (a ^ b) + c,
    "v_sad_u32 v4, v5, v6, v7": lambda a, b, c: abs(a - b) + c,
    "v_dot4_i32_i8 v4, v5, v6, v7": lambda a, b, c: (
        sum(signed(a >> s, 8) * signed(b >> s, 8) for s in (0, 8, 16, 24)) + c
    ),
    "v_dot2_u32_u16 v4, v5, v6, v7": lambda a, b, c: (a & 0xFFFF) * (b & 0xFFFF) + (a >> 16) * (b >> 16) + c,
    "v_bcnt_u32_b32 v4, v5, v6": lambda a, b, c: a.bit_count() + b,
    "v_bfm_b32 v4, v5, v6": lambda a, b, c: ((1 << (a & 31)) - 1) << (b & 31),
    "v_pack_b32_f16 v4, v5, v6 op_sel:[1,0]": lambda a, b, c: a >> 16 | (b & 0xFFFF) << 16,
    "v_pk_mov_b32 v[4:5], v[6:7], v[5:6] op_sel:[1,0]": lambda a, b, c: c,
    "v_add_u32 v4, v5, v6 clamp": lambda a, b, c: min(a + b, 0xFFFFFFFF),
}


@pytest.mark.parametrize("text", BITWISE)
def test_bitwise(text):
    rng = np.random.default_rng(9)
    a, b, c = (rng.integers(0, 1 << 32, 64, np.uint32) for _ in range(3))
    b[:32] %= 40  # shift counts and small selectors
    c[16:48] = c[16:48] & 0x0F0F0F0F
    result = vector(text, {"v5": a, "v6": b, "v7": c}, {"v4": np.uint32})
    expected = [BITWISE[text](int(x), int(y), int(z)) & 0xFFFFFFFF for x, y, z in zip(a, b, c, strict=True)]
    assert result.tolist() == expected


def test_accumulation_registers():
    body = """v_accvgpr_write_b32 a5, v3
v_lshlrev_b32 v1, 2, v0
ds_write_b32 v1, a5
ds_read_b32 a7, v1
s_waitcnt lgkmcnt(0)
v_accvgpr_read_b32 v4, a7"""
    np.testing.assert_array_equal(vector(body, lds=256), np.arange(100, 164))
    body = "v_mfma_f32_16x16x16_f16 a[4:7], v[8:9], v[8:9], 0\ns_nop 9\nv_accvgpr_read_b32 v4, a6"
    ones = np.full((64, 2), 0x3C003C00, np.uint32)
    np.testing.assert_array_equal(vector(body, {"v[8:9]": ones}, {"v4": np.float32}), 16)
