"""wgmma: types, shapes, layouts and descriptors against NumPy; registers and groups.

The tests lay the operands out byte by byte by the canonical layouts of the PTX ISA (9.7.14.5), given here as nested
strides, and the kernel copies these images to shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from minitile.runtime.sim import SimulationError
from tests.sim.ptx.hopper import assembles, fill, frame, silent, simulate

Array = np.ndarray[Any, Any]
DTYPES: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "s8": np.int8,
    "u8": np.uint8,
}
MODES = {0: 0, 128: 1, 64: 2, 32: 3}


@dataclass
class Operand:
    """A matrix [rows, k] in shared memory: its bytes, and the descriptor's fields in bytes."""

    image: Array
    leading: int
    stride: int
    swizzle: int
    base: int = 0

    def descriptor(self, start: int) -> int:
        """The descriptor's word without the shared memory's own address."""
        fields = start >> 4 | (self.leading >> 4) << 16 | (self.stride >> 4) << 32
        return fields | self.base << 49 | MODES[self.swizzle] << 62


def lay_out(matrix: Array, swizzle: int, mn_major: bool) -> Operand:
    """A matrix [rows, k] in one of the canonical layouts, with strides chosen so that every field matters."""
    item = matrix.dtype.itemsize
    rows, depth = matrix.shape
    width, per = swizzle or 16, 16 // item  # bytes of a line, elements of a piece
    span = width // item  # elements of a line
    if mn_major:
        blocks, groups = rows // span, depth // 8  # lines of `span` rows; each block holds 8 k
        if swizzle:
            stride, leading = 8 * width, 8 * width * groups
            at = [
                [r // span * leading + k // 8 * stride + k % 8 * width + r % span * item for k in range(depth)]
                for r in range(rows)
            ]
        else:
            leading, stride = 128, 128 * groups
            at = [
                [r // per * stride + k // 8 * leading + k % 8 * 16 + r % per * item for k in range(depth)]
                for r in range(rows)
            ]
        size = blocks * groups * 8 * width
    elif swizzle:
        stride, leading = 8 * width, 16
        at = [[r // 8 * stride + r % 8 * width + k * item for k in range(depth)] for r in range(rows)]
        size = rows * width
    else:
        leading, stride = 128, 128 * (depth // per)
        at = [
            [r // 8 * stride + k // per * leading + r % 8 * 16 + k % per * item for k in range(depth)]
            for r in range(rows)
        ]
        size = rows * depth * item
    image = np.zeros(size, np.uint8)
    raw = np.ascontiguousarray(matrix).view(np.uint8).reshape(rows, depth, item)
    for r in range(rows):
        for k in range(depth):
            place = at[r][k]
            line = place // 128
            place ^= {0: 0, 32: line % 2, 64: line % 4, 128: line % 8}[swizzle] * 16
            image[place : place + item] = raw[r, k]
    return Operand(image, leading, stride, swizzle)


def product_text(
    kind: str,
    result: str,
    columns: int,
    a: Operand | None,
    b: Operand,
    constants: str,
    accumulate: int,
    repeats: int = 1,
    b_kind: str = "",
    shift: int = 0,
) -> str:
    """D = A B (+ C): A and B from images p0 and p1 (A from registers if `a` is None), C and D in p2 as each thread's
    registers. A lies `shift` lines of 128 bytes behind an aligned address."""
    depth = 32 // DTYPES_BYTES[kind]
    number = columns // (4 if result == "f16" else 2)
    place_b = 16384
    size = len(a.image) if a else 64 * depth * DTYPES_BYTES[kind]
    lines = [f"    add.u32 x11, s, {128 * shift};\n" + fill(size, "a0", "x11")]
    lines.append(f"    add.u32 x12, s, {place_b};\n" + fill(len(b.image), "a1", "x12"))
    lines.append("    fence.proxy.async.shared::cta;\n    bar.sync 0;")
    lines.append(f"    mul.wide.u32 y0, tid, {4 * number};\n    add.u64 y0, y0, a2;")
    lines += [f"    ld.global.b32 d{i}, [y0+{4 * i}];" for i in range(number)]
    lines.append("    and.b32 x0, s, 0x3FFFF;\n    shr.u32 x0, x0, 4;\n    cvt.u64.u32 y1, x0;")
    if a:
        lines.append(f"    add.u64 y2, y1, {a.descriptor(128 * shift)};")
    else:  # the fragment's rows are 32 bytes long in shared memory
        lines.append("    shr.u32 x1, lane, 2;\n    and.b32 x2, lane, 3;\n    shl.b32 x3, warp, 4;")
        lines.append("    add.u32 x1, x1, x3;\n    shl.b32 x1, x1, 5;\n    shl.b32 x2, x2, 2;")
        lines.append("    add.u32 x1, x1, x2;\n    add.u32 x1, x1, s;")
        lines += [f"    ld.shared.b32 f{i}, [x1+{256 * (i % 2) + 16 * (i // 2)}];" for i in range(4)]
    lines.append(f"    add.u64 y3, y1, {b.descriptor(place_b)};\n    setp.ne.u32 p, {accumulate}, 0;")
    lines.append("    wgmma.fence.sync.aligned;")
    left = "y2" if a else "{f0, f1, f2, f3}"
    registers = ", ".join(f"d{i}" for i in range(number))
    opcode = f"wgmma.mma_async.sync.aligned.m64n{columns}k{depth}.{result}.{kind}.{b_kind or kind}"
    lines += [f"    {opcode} {{{registers}}}, {left}, y3, p{constants};"] * repeats
    lines.append("    wgmma.commit_group.sync.aligned;\n    wgmma.wait_group.sync.aligned 0;")
    lines += [f"    st.global.b32 [y0+{4 * i}], d{i};" for i in range(number)]
    return frame("\n".join(lines), pointers=3, registers=f".reg .b32 d<{number}>, f<4>;")


DTYPES_BYTES = {name: np.dtype(dtype).itemsize for name, dtype in DTYPES.items()}


def to_threads(matrix: Array) -> Array:
    """A result [64, n] as each thread's elements [128, n / 2]."""
    columns = matrix.shape[1]
    out = np.zeros((128, columns // 2), matrix.dtype)
    for thread in range(128):
        warp, lane = divmod(thread, 32)
        for i in range(columns // 2):
            row = 16 * warp + lane // 4 + 8 * (i // 2 % 2)
            out[thread, i] = matrix[row, 8 * (i // 4) + 2 * (lane % 4) + i % 2]
    return out


def values(shape: tuple[int, ...], kind: str, seed: int) -> Array:
    """Small integers: every sum is exact, whatever its order."""
    low = 0 if kind == "u8" else -4
    return np.random.default_rng(seed).integers(low, 5, shape).astype(DTYPES[kind])


CASES = [
    # a, b, d, columns, swizzle of A, of B, A mn-major, B mn-major, A in registers
    *[("bf16", "bf16", "f32", n, 128, 128, False, False, False) for n in (8, 24, 64, 192, 256)],
    *[("f16", "f16", d, 32, 128, 128, False, False, False) for d in ("f16", "f32")],
    *[("bf16", "bf16", "f32", 64, s, s, False, False, False) for s in (0, 32, 64)],
    *[("bf16", "bf16", "f32", 64, s, s, True, True, False) for s in (0, 32, 64, 128)],
    ("f16", "f16", "f32", 128, 64, 128, True, False, False),
    ("f16", "f16", "f32", 128, 128, 64, False, True, False),
    ("bf16", "bf16", "f32", 64, 0, 128, False, False, True),
    ("f16", "f16", "f16", 64, 0, 128, False, True, True),
    ("tf32", "tf32", "f32", 40, 128, 32, False, False, False),
    ("tf32", "tf32", "f32", 40, 0, 0, False, False, True),
    ("e4m3", "e4m3", "f32", 64, 128, 128, False, False, False),
    ("e4m3", "e5m2", "f32", 64, 64, 0, False, False, False),
    ("e5m2", "e4m3", "f16", 16, 32, 32, False, False, True),
    ("s8", "s8", "s32", 64, 128, 128, False, False, False),
    ("u8", "s8", "s32", 32, 64, 32, False, False, True),
]


def run_case(
    case: tuple[Any, ...], accumulate: int = 1, repeats: int = 1, scales: str = "1, 1", **options: Any
) -> None:
    """One product against NumPy; `repeats` chains it."""
    kind, b_kind, result, columns, a_swizzle, b_swizzle, a_mn, b_mn, in_registers = case
    depth = 32 // DTYPES_BYTES[kind]
    a_matrix, b_matrix = values((64, depth), kind, 1), values((columns, depth), b_kind, 2)
    a = None if in_registers else lay_out(a_matrix, a_swizzle, a_mn)
    b = lay_out(b_matrix, b_swizzle, b_mn)
    constants = "" if result == "s32" else f", {scales}"
    if DTYPES_BYTES[kind] == 2:
        constants += f", {int(b_mn)}" if in_registers else f", {int(a_mn)}, {int(b_mn)}"
    text = product_text(kind, result, columns, a, b, constants, accumulate, repeats, b_kind)
    assembles(text)
    dtype = {"f32": np.float32, "f16": np.float16, "s32": np.int32}[result]
    start = np.random.default_rng(3).integers(-50, 50, (64, columns)).astype(dtype)
    image = a.image if a else np.ascontiguousarray(a_matrix).view(np.uint8).ravel()
    registers = np.ascontiguousarray(to_threads(start)).view(np.uint32)
    silent(simulate(text, [image, b.image, registers], shared=65536, **options))
    sign = np.prod([int(each) for each in scales.split(",")])
    exact = sign * (a_matrix.astype(np.float64) @ b_matrix.astype(np.float64).T)
    want = (exact * repeats + start) if accumulate else exact
    np.testing.assert_array_equal(registers.view(dtype), to_threads(want.astype(dtype)))


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(str(each) for each in case))
def test_product(case: tuple[Any, ...]) -> None:
    run_case(case)


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
def test_schedules_and_chains(schedule: str) -> None:
    run_case(CASES[2], repeats=3, schedule=schedule)


@pytest.mark.parametrize("scales", ["1, -1", "-1, 1", "-1, -1"])
def test_scales(scales: str) -> None:
    run_case(CASES[2], scales=scales)


def test_without_the_accumulator() -> None:
    run_case(CASES[2], accumulate=0)


@pytest.mark.parametrize("based", [False, True])
@pytest.mark.parametrize("swizzle", [32, 64, 128])
def test_patterns_that_start_askew(swizzle: int, based: bool) -> None:
    """A at an address in the middle of the swizzle's pattern: with a base offset the pattern starts there, too."""
    shift = 3
    a_matrix, b_matrix = values((64, 16), "bf16", 1), values((16, 16), "bf16", 2)
    image, b = lay_out(a_matrix, swizzle, False).image, lay_out(b_matrix, 128, False)
    if not based:  # exchange the pieces as the address, not the position in the matrix, says
        plain = swizzled_lines(image, swizzle, 0)
        image = swizzled_lines(plain, swizzle, shift)
    a = Operand(image, 16, 8 * swizzle, swizzle, shift if based else 0)
    text = product_text("bf16", "f32", 16, a, b, ", 1, 1, 0, 0", 0, shift=shift)
    assembles(text)
    registers = np.zeros((128, 8), np.uint32)
    silent(simulate(text, [image, b.image, registers], shared=65536))
    want = a_matrix.astype(np.float32) @ b_matrix.astype(np.float32).T
    np.testing.assert_array_equal(registers.view(np.float32), to_threads(want))


def swizzled_lines(image: Array, swizzle: int, first: int) -> Array:
    """Exchange the 16-byte pieces of an image whose first line of 128 bytes is line `first` of the pattern. Its own
    inverse."""
    pieces = image.reshape(-1, 8, 16)
    result = np.zeros_like(pieces)
    for line, piece in np.ndindex(len(pieces), 8):
        result[line, piece ^ (line + first) % (swizzle // 16)] = pieces[line, piece]
    return result.ravel()


# -- registers, groups, fences ------------------------------------------------------------------------------------


def small(body: str) -> str:
    """m64n8k16 on zeroed shared memory; the body has `y2`, `y3` as descriptors and d<4>, e<4>, f<4>."""
    return frame(
        f"""    shl.b32 x0, tid, 4;
    add.u32 x0, x0, s;
    mov.u32 v0, 0;
    st.shared.v4.u32 [x0], {{v0, v0, v0, v0}};
    st.shared.v4.u32 [x0+2048], {{v0, v0, v0, v0}};
    fence.proxy.async.shared::cta;
    bar.sync 0;
    and.b32 x0, s, 0x3FFFF;
    shr.u32 x0, x0, 4;
    cvt.u64.u32 y1, x0;
    add.u64 y2, y1, {Operand(np.zeros(0), 128, 256, 0).descriptor(0)};
    add.u64 y3, y1, {Operand(np.zeros(0), 128, 256, 0).descriptor(2048)};
    mov.b32 d0, 0;
    mov.b32 d1, 0;
    mov.b32 d2, 0;
    mov.b32 d3, 0;
    mov.b32 f0, 0;
    mov.b32 f1, 0;
    mov.b32 f2, 0;
    mov.b32 f3, 0;
    setp.eq.u32 p, v0, 0;
{body}""",
        registers=".reg .b32 d<4>, e<4>, f<4>;",
    )


COMMIT = "    wgmma.commit_group.sync.aligned;\n"
OPCODE = "    wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16"
MMA = f"{OPCODE} {{d0, d1, d2, d3}}, y2, y3, p, 1, 1, 0, 0;\n" + COMMIT
MMA_REGISTERS = f"{OPCODE} {{d0, d1, d2, d3}}, {{f0, f1, f2, f3}}, y3, p, 1, 1, 0;\n" + COMMIT
MMA_OF_RESULT = f"{OPCODE} {{e0, e1, e2, e3}}, {{d0, d1, d2, d3}}, y3, q, 1, 1, 0;\n" + COMMIT
FENCE, WAIT0 = "    wgmma.fence.sync.aligned;\n", "    wgmma.wait_group.sync.aligned 0;\n"
READ = "    mov.b32 e0, d1;\n"

PAIRS = {
    # name: (wrong, right, kind)
    "an accumulator is read too early": (FENCE + MMA + READ + WAIT0, FENCE + MMA + WAIT0 + READ, "missing_wait"),
    "an accumulator is written too early": (
        FENCE + MMA + "mov.b32 d2, 1;\n" + WAIT0,
        FENCE + MMA + WAIT0 + "mov.b32 d2, 1;\n",
        "missing_wait",
    ),
    "a wait that leaves the group in flight": (
        FENCE + MMA + WAIT0.replace("0;", "1;") + READ + WAIT0,
        FENCE + MMA + "wgmma.commit_group.sync.aligned;\n" + WAIT0.replace("0;", "1;") + READ,
        "missing_wait",
    ),
    "a product that no group holds": (
        FENCE + MMA.replace(COMMIT, "") + WAIT0 + READ + COMMIT,
        FENCE + MMA + WAIT0 + READ,
        "missing_wait",
    ),
    "an A register changes in flight": (
        FENCE + MMA_REGISTERS + "mov.b32 f2, 1;\n" + WAIT0,
        FENCE + MMA_REGISTERS + WAIT0 + "mov.b32 f2, 1;\n",
        "missing_wait",
    ),
    "an accumulator in flight is used as A": (
        FENCE + MMA + MMA_OF_RESULT + WAIT0,
        FENCE + MMA + WAIT0 + FENCE + MMA_OF_RESULT + WAIT0,
        "missing_wait",
    ),
    "no fence before the first product": (MMA + WAIT0, FENCE + MMA + WAIT0, "missing_fence"),
    "no fence after the accumulator was written": (
        FENCE + MMA + WAIT0 + "mov.b32 d0, 0;\n" + MMA + WAIT0,
        FENCE + MMA + WAIT0 + "mov.b32 d0, 0;\n" + FENCE + MMA + WAIT0,
        "missing_fence",
    ),
    "no fence after A was written": (
        FENCE + MMA_REGISTERS + WAIT0 + "mov.b32 f0, 0;\n" + MMA_REGISTERS + WAIT0,
        FENCE + MMA_REGISTERS + WAIT0 + "mov.b32 f0, 0;\n" + FENCE + MMA_REGISTERS + WAIT0,
        "missing_fence",
    ),
    "the operand is overwritten too early": (
        FENCE + MMA + "st.shared.u32 [x1], v0;\n" + WAIT0,
        FENCE + MMA + WAIT0 + "bar.sync 0;\nst.shared.u32 [x1], v0;\n",
        "missing_wait",
    ),
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
def test_pairs(name: str, schedule: str) -> None:
    wrong, right, kind = PAIRS[name]
    head = "    shl.b32 x1, tid, 2;\n    add.u32 x1, x1, s;\n    setp.ne.u32 q, v0, 0;\n"
    out = np.zeros(4, np.uint32)
    assembles(small(head + right))
    silent(simulate(small(head + right), [out], schedule=schedule, gpu=False))
    report = simulate(small(head + wrong), [out], schedule=schedule, gpu=False)
    assert {finding.kind for finding in report.findings} == {kind}, str(report.findings)


ONE_WARP = "    setp.eq.u32 q, warp, 0;\n    @q st.shared.u32 [x1], v0;\n"
PLACE = "    shl.b32 x1, tid, 2;\n    add.u32 x1, x1, s;\n"


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
def test_a_warp_waits_for_its_warpgroup(schedule: str) -> None:
    """A group is the warpgroup's (PTX ISA 9.0, 9.7.15.7.2): once one warp has waited, the product is over for all four.
    So FlashAttention-3 lets one thread of 128 give a slot back. That of another warpgroup is not over."""
    body = small(PLACE + FENCE + MMA + WAIT0 + ONE_WARP)
    silent(simulate(body, [np.zeros(4, np.uint32)], schedule=schedule, gpu=False))
    wide = body.replace("    st.shared.v4.u32 [x0+2048], {v0, v0, v0, v0};\n", "")  # 256 threads fill all of it
    report = simulate(wide, [np.zeros(4, np.uint32)], block=256, schedule=schedule, gpu=False)
    kinds = {finding.kind for finding in report.findings}
    if schedule == "random":  # the other warpgroup may come later than this warp
        assert kinds & {"missing_wait", "missing_barrier"}
    else:
        assert kinds == {"missing_wait"}
        assert report.findings[0].hazard == "WAR"
    right = wide.replace(ONE_WARP, "    bar.sync 0;\n" + ONE_WARP)
    silent(simulate(right, [np.zeros(4, np.uint32)], block=256, schedule=schedule, gpu=False))


def test_an_accumulator_without_a_value() -> None:
    body = small(FENCE + MMA + WAIT0).replace("    mov.b32 d2, 0;\n", "")
    report = simulate(body, [np.zeros(4, np.uint32)], gpu=False)
    assert [finding.kind for finding in report.findings] == ["uninitialised"]
    assert report.findings[0].buffer == "d2"
    silent(simulate(body.replace("setp.eq.u32 p", "setp.ne.u32 p"), [np.zeros(4, np.uint32)], gpu=False))


def test_part_of_a_warpgroup() -> None:
    """Three of four warps issue a product: the hardware would hang or worse."""
    body = "    setp.eq.u32 q, warp, 3;\n    @q bra SKIP;\n" + FENCE + MMA + WAIT0 + "SKIP:\n"
    report = simulate(small(body), [np.zeros(4, np.uint32)], gpu=False)
    assert report.findings[0].kind in ("deadlock", "divergent_barrier")
    assert "warpgroup" in report.findings[0].message
    report = simulate(small(FENCE + MMA + WAIT0), [np.zeros(4, np.uint32)], block=96, gpu=False)
    assert report.findings[0].kind == "divergent_barrier"


@pytest.mark.parametrize("seed", range(4))
def test_a_warp_ends_before_others_issue(seed: int) -> None:
    """All four warps issue the product, in schedule "random" some when others have ended. No wait is for it."""
    body = small(FENCE + MMA)
    silent(simulate(body, [np.zeros(4, np.uint32)], schedule="random", seed=seed, gpu=False))
    one_less = small(FENCE + "    setp.eq.u32 q, warp, 3;\n    @q ret;\n" + MMA)
    report = simulate(one_less, [np.zeros(4, np.uint32)], schedule="random", seed=seed, gpu=False)
    assert report.findings[0].kind == "divergent_barrier"


def test_what_the_isa_refuses() -> None:
    """Transposed tf32, an accumulator of the wrong length, a depth that does not exist."""
    for old, new in [
        ("f32.bf16.bf16", "f32.tf32.tf32"),
        ("m64n8k16", "m64n16k16"),
        ("m64n8k16", "m64n8k32"),
        ("p, 1, 1, 0, 0", "p, 1, 2, 0, 0"),
        ("p, 1, 1, 0, 0", "p, 1, 1, 0"),
    ]:
        with pytest.raises(SimulationError, match="PTX line"):
            simulate(small(FENCE + MMA.replace(old, new) + WAIT0), [np.zeros(4, np.uint32)], gpu=False)
