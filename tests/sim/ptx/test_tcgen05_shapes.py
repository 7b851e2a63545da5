"""tcgen05.ld and st in all shapes: each element of what they move by a description of the figures in the PTX ISA
(9.7.16.2.3.1), written as loops over lanes and columns; and tcgen05.cp's shapes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.sim.ptx.blackwell import assembles, for_blackwell, matrix_word, simulate
from tests.sim.ptx.hopper import fill, frame
from tests.sim.ptx.test_hopper_wgmma import lay_out
from tests.sim.ptx.test_tcgen05 import SCHEDULES

SPLIT = 24
PER = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}


def elements(shape: str, number: int) -> Iterator[tuple[int, int, int, int]]:
    """(lane, column, thread, register) as the figures have them: row by row, so many bits of each thread beside each
    other."""
    for repeat in range(number):
        if shape == "32x32b":
            yield from ((lane, repeat, lane, repeat) for lane in range(32))
        elif shape == "16x64b":  # thread 4i and 4i + 2 have row i; 4i + 1 and 4i + 3 row i + 8
            for row in range(8):
                for half in (0, 1):
                    for column in (0, 1):
                        yield row + 8 * half, 2 * repeat + column, 4 * row + 2 * column + half, repeat
        elif shape == "16x128b":  # four threads a row, a register for the upper and one for the lower eight rows
            for row in range(16):
                for column in range(4):
                    yield row, 4 * repeat + column, 4 * (row % 8) + column, 2 * repeat + row // 8
        elif shape == "16x256b":  # as 16x128b, but two columns for a thread: the fragments of an 8 × 8 product
            for row in range(16):
                for column in range(8):
                    thread, register = 4 * (row % 8) + column // 2, 2 * (row // 8) + column % 2
                    yield row, 8 * repeat + column, thread, 4 * repeat + register
        else:
            for half in (0, 1):
                for row in range(16):
                    yield row, repeat + SPLIT * half, 16 * half + row, repeat


def text_of(body: str, pointers: int = 2) -> str:
    """A frame that allocates all columns, executes the body by all warps, and frees."""
    free = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 tm, 512;"
    whole = f"""    @lead mbarrier.init.shared::cta.b64 [bar], 1;
    setp.ne.u32 q, warp, 0;
    @q bra A_done;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 512;
A_done:
    bar.sync 0;
    mov.u32 x0, slot;
    ld.shared.b32 tm, [x0];
    and.b32 x1, warp, 3;
    shl.b32 x1, x1, 21;
    add.u32 mine, tm, x1;
{body}
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
    setp.ne.u32 q, warp, 0;
    @q bra F_done;
    {free}
F_done:"""
    names = ".shared .align 4 .b8 slot[4];\n    .reg .b32 tm, mine, z, d<256>, e<128>;"
    return for_blackwell(frame(whole, pointers=pointers, registers=names))


def row_of(pointer: str, registers: int, what: str, name: str) -> str:
    """Loads or stores a thread's registers from or to its row of global memory."""
    lines = [f"    mul.wide.u32 y0, tid, {4 * registers};\n    add.u64 y0, y0, {pointer};"]
    for i in range(registers):
        place, register = f"[y0+{4 * i}]", f"{name}{i}"
        lines.append(
            f"    ld.global.b32 {register}, {place};" if what == "ld" else f"    st.global.b32 {place}, {register};"
        )
    return "\n".join(lines)


def vector(name: str, count: int) -> str:
    return "{" + ", ".join(f"{name}{i}" for i in range(count)) + "}"


CASES = [
    *(("32x32b", number, 0) for number in (1, 4, 32)),
    *(
        (shape, number, lane)
        for shape in ("16x64b", "16x128b", "16x256b", "16x32bx2")
        for number, lane in ((1, 0), (4, 16))
    ),
]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("what", ["ld", "st"])
def test_each_element(what: str, case: tuple[str, int, int], packed: bool, schedule: str) -> None:
    shape, number, lane = case
    registers = PER[shape] * number
    split = f", {2 * SPLIT if packed else SPLIT}" if shape == "16x32bx2" else ""
    mode = {"ld": ".pack::16b", "st": ".unpack::16b"}[what] if packed else ""
    opcode, place = f"tcgen05.{what}.sync.aligned.{shape}.x{number}{mode}.b32", f"[mine+{(lane << 16) + 3}]"
    width = 128  # columns that are filled first
    zero = "\n".join(f"    mov.b32 d{i}, 0;" for i in range(128))
    if what == "ld":
        body = [
            row_of("a0", width, "ld", "d"),
            f"    tcgen05.st.sync.aligned.32x32b.x{width}.b32 [mine], {vector('d', width)};",
            "    tcgen05.wait::st.sync.aligned;",
            f"    {opcode} {vector('e', registers)}, {place}{split};",
            "    tcgen05.wait::ld.sync.aligned;",
            row_of("a1", registers, "st", "e"),
        ]
    else:
        body = [
            zero,
            f"    tcgen05.st.sync.aligned.32x32b.x{width}.b32 [mine], {vector('d', width)};",
            "    tcgen05.wait::st.sync.aligned;",
            row_of("a0", registers, "ld", "e"),
            f"    {opcode} {place}{split}, {vector('e', registers)};",
            "    tcgen05.wait::st.sync.aligned;",
            f"    tcgen05.ld.sync.aligned.32x32b.x{width}.b32 {vector('d', width)}, [mine];",
            "    tcgen05.wait::ld.sync.aligned;",
            row_of("a1", width, "st", "d"),
        ]
    text = text_of("\n".join(body))
    assembles(text)
    rng = np.random.default_rng(number)
    given = rng.integers(0, 1 << 32, (128, width if what == "ld" else registers), np.uint32)
    out = np.zeros((128, registers if what == "ld" else width), np.uint32)
    report = simulate(text, [given, out], schedule=schedule, seed=number)
    assert not report.findings, str(report.findings[0])
    expected = np.zeros_like(out)
    for warp in range(4):
        for row, column, thread, register in elements(shape, number):
            at, who = (32 * warp + lane + row), 32 * warp + thread
            if what == "ld":
                if packed:
                    low, high = given[at, 3 + 2 * column], given[at, 4 + 2 * column]
                    expected[who, register] = (low & 0xFFFF) | (high & 0xFFFF) << 16
                else:
                    expected[who, register] = given[at, 3 + column]
            elif packed:
                expected[at, 3 + 2 * column] = given[who, register] & 0xFFFF
                expected[at, 4 + 2 * column] = given[who, register] >> 16
            else:
                expected[at, 3 + column] = given[who, register]
    np.testing.assert_array_equal(out, expected)


COPIES: dict[str, tuple[int, int]] = {  # rows, bytes of each
    "128x256b": (128, 32),
    "128x128b": (128, 16),
    "64x128b.warpx2::02_13": (64, 16),
    "64x128b.warpx2::01_23": (64, 16),
    "32x128b.warpx4": (32, 16),
}


def source_row(shape: str, lane: int) -> int:
    """The row of the source that a lane of tensor memory gets: warps in pairs get the same half, or all the same."""
    warp, inside = lane // 32, lane % 32
    part = {"02_13": warp % 2, "01_23": warp // 2, "warpx4": 0}.get(shape[-5:] if "warpx2" in shape else shape[8:])
    return lane if part is None else 32 * part + inside


@pytest.mark.parametrize("swizzle", [0, 32])
@pytest.mark.parametrize("shape", COPIES)
def test_copies(shape: str, swizzle: int) -> None:
    rows, size = COPIES[shape]
    rng = np.random.default_rng(rows)
    wide = max(size, swizzle)
    given = rng.integers(0, 256, (rows, wide), np.uint8)
    source = lay_out(given, swizzle, False)
    body = [
        fill(len(source.image), "a0", "s"),
        "    fence.proxy.async.shared::cta;\n    bar.sync 0;",
        "    and.b32 x0, s, 0x3FFFF;\n    shr.u32 x0, x0, 4;\n    cvt.u64.u32 y1, x0;",
        f"    add.u64 y2, y1, {matrix_word(source, 0)};",
        f"    @lead tcgen05.cp.cta_group::1.{shape} [tm+8], y2;",
        "    @lead tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];",
        "W_copy:\n    mbarrier.try_wait.parity.shared::cta.b64 p, [bar], 0;\n    @!p bra W_copy;",
        "    tcgen05.fence::after_thread_sync;",
        f"    tcgen05.ld.sync.aligned.32x32b.x{size // 4}.b32 {vector('d', size // 4)}, [mine+8];",
        "    tcgen05.wait::ld.sync.aligned;",
        row_of("a1", size // 4, "st", "d"),
    ]
    text = text_of("\n".join(body))
    assembles(text)
    out = np.zeros((128, size // 4), np.uint32)
    report = simulate(text, [source.image, out])
    assert not report.findings, str(report.findings[0])
    expected = np.stack([given[source_row(shape, lane), :size] for lane in range(128)])
    np.testing.assert_array_equal(out.view(np.uint8), expected)
