"""Small sm_100a programs for the tests of the simulator's tcgen05: a product of one CTA in named parts, any of which a
test may leave out, replace or move.

The program copies images of A and B from p0 and p1 to shared memory, lets thread 0 multiply them `steps` times into
tensor memory, and stores the accumulator to p2, a row a thread. `tm` is the address of the tensor memory, `mine` that
of the warp's own lanes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minitile.runtime.sim import Report, run_ptx
from tests.sim.ptx.harness import assemble
from tests.sim.ptx.hopper import fill, frame
from tests.sim.ptx.test_hopper_wgmma import Operand, lay_out

TARGET = "sm_100a"
PLACE_B = 32768
MODES = {0: 0, 128: 2, 64: 4, 32: 6}
ITEM = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1}
KINDS = {"f16": "f16", "bf16": "f16", "tf32": "tf32", "e4m3": "f8f6f4", "e5m2": "f8f6f4", "s8": "i8", "u8": "i8"}
FORMATS = {"f16": 0, "bf16": 1, "tf32": 2, "e4m3": 0, "e5m2": 1, "s8": 1, "u8": 0}


def matrix_word(operand: Operand, start: int) -> int:
    """A matrix descriptor without the shared memory's own address, from the fields' places in the ISA."""
    fields = start >> 4 | (operand.leading >> 4) << 16 | (operand.stride >> 4) << 32
    return fields | 1 << 46 | operand.base << 49 | MODES[operand.swizzle] << 61


def product_word(a: str, b: str, m: int, n: int, a_mn: bool = False, b_mn: bool = False) -> int:
    """An instruction descriptor, from the fields' places in the ISA."""
    d = 2 if KINDS[a] == "i8" else 1
    return d << 4 | FORMATS[a] << 7 | FORMATS[b] << 10 | a_mn << 15 | b_mn << 16 | n >> 3 << 17 | m >> 4 << 24


def wait(name: str, parity: int | str = 0) -> str:
    """All threads that come here wait for the first mbarrier."""
    return f"W_{name}:\n    mbarrier.try_wait.parity.shared::cta.b64 p, [bar], {parity};\n    @!p bra W_{name};"


def loads(n: int) -> str:
    """Loads of n columns of the warp's lanes into d0 and behind, each as many as a power of two."""
    lines, at = [], 0
    while at < n:
        number = 1 << (n - at).bit_length() - 1
        registers = ", ".join(f"d{i}" for i in range(at, at + number))
        place = f"[mine+{at}]" if at else "[mine]"
        lines.append(f"    tcgen05.ld.sync.aligned.32x32b.x{number}.b32 {{{registers}}}, {place};")
        at += number
    return "\n".join(lines)


def parts(
    a: Operand | None,
    b: Operand,
    word: int,
    kind: str,
    n: int,
    columns: int = 64,
    steps: int = 1,
    accumulate: int = 0,
    m: int = 128,
) -> dict[str, str]:
    """The program's parts in order. Without `a` the first operand is taken from tensor memory, where threads have put
    8 columns of p0 behind the accumulator."""
    first, place = ("y2", "") if a else ("[am]", f"add.u32 am, tm, {columns // 2};")
    filled = (fill(len(a.image), "a0", "s") if a else "") + f"    add.u32 x12, s, {PLACE_B};\n"
    program = {
        "init": "    @lead mbarrier.init.shared::cta.b64 [bar], 1;",
        "init fence": "    @lead fence.mbarrier_init.release.cluster;",
        "alloc": "    setp.ne.u32 q, warp, 0;\n    @q bra A_done;\n"
        f"    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], {columns};",
        "relinquish": "    tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;",
        "alloc end": "A_done:",
        "fill": filled + fill(len(b.image), "a1", "x12"),
        "proxy fence": "    fence.proxy.async.shared::cta;",
        "meet": "    bar.sync 0;",
        "address": "    mov.u32 x0, slot;\n    ld.shared.b32 tm, [x0];\n    and.b32 x1, warp, 3;\n"
        f"    shl.b32 x1, x1, 21;\n    add.u32 mine, tm, x1;\n    {place}",
        "descriptors": "    and.b32 x0, s, 0x3FFFF;\n    shr.u32 x0, x0, 4;\n    cvt.u64.u32 y1, x0;\n"
        + (f"    add.u64 y2, y1, {matrix_word(a, 0)};\n" if a else "")
        + f"    add.u64 y3, y1, {matrix_word(b, PLACE_B)};\n    mov.b32 word, {word};",
    }
    if a is None:
        program |= {
            "a": "    shl.b32 x4, tid, 5;\n    cvt.u64.u32 y4, x4;\n    add.u64 y4, y4, a0;\n"
            "    ld.global.v4.u32 {v0, v1, v2, v3}, [y4];\n    ld.global.v4.u32 {v4, v5, v6, v7}, [y4+16];",
            "a st": f"    add.u32 x5, mine, {columns // 2};\n"
            "    tcgen05.st.sync.aligned.32x32b.x8.b32 [x5], {v0, v1, v2, v3, v4, v5, v6, v7};",
            "a wait": "    tcgen05.wait::st.sync.aligned;",
            "a before": "    tcgen05.fence::before_thread_sync;",
            "a meet": "    bar.sync 0;",
            "a after": "    tcgen05.fence::after_thread_sync;",
        }
    program["start"] = "    @!lead bra M_done;"
    for step in range(steps):
        adds = accumulate if step == 0 else 1
        program[f"mma {step}"] = (
            f"    setp.ne.u32 q, {adds}, 0;\n    tcgen05.mma.cta_group::1.kind::{kind} [tm], {first}, y3, word, q;"
        )
    return program | {
        "commit": "    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];",
        "issued": "M_done:",
        "wait": wait("product"),
        "after": "    tcgen05.fence::after_thread_sync;",
        "ld": loads(n),
        "ld wait": "    tcgen05.wait::ld.sync.aligned;",
        "store": f"    mul.wide.u32 y0, tid, {4 * n};\n    add.u64 y0, y0, a2;\n"
        + "\n".join(f"    st.global.b32 [y0+{4 * i}], d{i};" for i in range(n)),
        "before": "    tcgen05.fence::before_thread_sync;",
        "last meet": "    bar.sync 0;",
        "dealloc": "    setp.ne.u32 q, warp, 0;\n    @q bra F_done;\n"
        f"    tcgen05.dealloc.cta_group::1.sync.aligned.b32 tm, {columns};\nF_done:",
    }


def text_of(program: dict[str, str], pointers: int = 3) -> str:
    """The PTX of a program's parts."""
    names = ".shared .align 4 .b8 slot[4];\n    .reg .b32 tm, mine, am, word, d<256>;"
    text = frame("\n".join(program.values()), pointers=pointers, registers=names)
    return for_blackwell(text)


def for_blackwell(text: str) -> str:
    """A frame's text for this target."""
    return text.replace(".version 8.6\n.target sm_90a", f".version 8.8\n.target {TARGET}")


def arguments(a: Any, b: Any, n: int) -> list[Any]:
    """Images or rows of A and B, and a poisoned result."""
    return [np.ascontiguousarray(a), np.ascontiguousarray(b), np.full((128, n), np.float32(-77.5))]


def simulate(text: str, args: list[Any], block: int = 128, **options: Any) -> Report:
    """Run; findings are in the report."""
    return run_ptx(text, "k", (1,), (block,), args, dynamic_shared=98304, **options)


def assembles(text: str) -> None:
    """Assert that the assembler takes the text, where there is one, for both targets that have its instructions."""
    for target in (TARGET,) if "kind::i8" in text else (TARGET, "sm_103a"):
        complaint = assemble(text.replace(f".target {TARGET}", f".target {target}"), target)
        assert complaint is None, complaint


def changed(program: dict[str, str], name: str, instead: str = "") -> dict[str, str]:
    """The program with one part replaced."""
    assert name in program
    return program | {name: instead}


def inserted(program: dict[str, str], name: str, more: str, before: bool = True) -> dict[str, str]:
    """The program with something in front of a part, or behind it."""
    old = program[name]
    return program | {name: f"{more}\n{old}" if before else f"{old}\n{more}"}


__all__ = ["Operand", "arguments", "assembles", "changed", "inserted", "lay_out", "parts", "product_word", "simulate"]
