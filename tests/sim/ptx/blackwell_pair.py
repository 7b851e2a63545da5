"""Small sm_100a programs of a pair of CTAs for the tests of the simulator's tcgen05, in named parts as in blackwell.py.

`filled`: threads of both CTAs copy their halves of A and B to shared memory. `loaded`: a thread of each CTA loads them
by TMA, all onto the even CTA's mbarrier. The even CTA's first thread multiplies and commits to both CTAs; each CTA
stores its accumulator, 128 lanes of `columns(m, n)` columns, to p2 (p0 where TMA loads).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minitile.runtime.sim import Report, run_ptx
from tests.sim.ptx.blackwell import PLACE_B, for_blackwell, loads, matrix_word, wait
from tests.sim.ptx.hopper import fill, frame
from tests.sim.ptx.test_hopper_wgmma import Operand

MEET = "    barrier.cluster.arrive.release.aligned;\n    barrier.cluster.wait.acquire.aligned;"
COMMIT = "    tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [bar{at}], mask;"


def columns(m: int, n: int) -> int:
    """Columns of an accumulator: a pair that computes 128 rows has the halves of N in its upper and lower lanes."""
    return n // 2 if m == 128 else n


def _first(allocated: int, barriers: int) -> dict[str, str]:
    return {
        "init": "\n".join(f"    @lead mbarrier.init.shared::cta.b64 [bar+{8 * i}], 1;" for i in range(barriers)),
        "init fence": "    @lead fence.mbarrier_init.release.cluster;",
        "alloc": "    setp.ne.u32 q, warp, 0;\n    @q bra A_done;\n"
        f"    tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [slot], {allocated};",
        "relinquish": "    tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;",
        "alloc end": "A_done:",
    }


def _address(a_word: int, b_word: int, word: int) -> dict[str, str]:
    return {
        "address": "    mov.u32 x0, slot;\n    ld.shared.b32 tm, [x0];\n    and.b32 x1, warp, 3;\n"
        "    shl.b32 x1, x1, 21;\n    add.u32 mine, tm, x1;\n    mov.b16 mask, 3;",
        "descriptors": "    and.b32 x0, s, 0x3FFFF;\n    shr.u32 x0, x0, 4;\n    cvt.u64.u32 y1, x0;\n"
        f"    add.u64 y2, y1, {a_word};\n    add.u64 y3, y1, {b_word};\n    mov.b32 word, {word};",
    }


def _last(number: int, allocated: int, pointer: str, at: str) -> dict[str, str]:
    return {
        "wait": wait("product").replace("[bar]", f"[bar{at}]"),
        "after": "    tcgen05.fence::after_thread_sync;",
        "ld": loads(number),
        "ld wait": "    tcgen05.wait::ld.sync.aligned;",
        "store": f"    shl.b32 x0, rank, 7;\n    add.u32 x0, x0, tid;\n    mul.wide.u32 y0, x0, {4 * number};\n"
        f"    add.u64 y0, y0, {pointer};\n"
        + "\n".join(f"    st.global.b32 [y0+{4 * i}], d{i};" for i in range(number)),
        "before": "    tcgen05.fence::before_thread_sync;",
        "last meet": MEET,
        "dealloc": "    setp.ne.u32 q, warp, 0;\n    @q bra F_done;\n"
        f"    tcgen05.dealloc.cta_group::2.sync.aligned.b32 tm, {allocated};\nF_done:",
    }


def filled(
    a: Operand, b: Operand, word: int, kind: str, m: int, n: int, allocated: int = 64, steps: int = 1
) -> dict[str, str]:
    """Operands that threads copy: `a` and `b` are the halves of a CTA, whose images p0 and p1 have in turn."""
    sizes = len(a.image), len(b.image)
    halves = "\n".join(
        f"    mul.wide.u32 y{i}, rank, {size};\n    add.u64 a{i}, a{i}, y{i};" for i, size in enumerate(sizes)
    )
    program = _first(allocated, 1)
    program |= {
        "fill": f"{halves}\n{fill(sizes[0], 'a0', 's')}    add.u32 x12, s, {PLACE_B};\n{fill(sizes[1], 'a1', 'x12')}",
        "proxy fence": "    fence.proxy.async.shared::cta;",
        "meet": MEET,
        "acquire": "    fence.proxy.async;",
    }
    program |= _address(matrix_word(a, 0), matrix_word(b, PLACE_B), word)
    program["start"] = "    setp.ne.u32 q, rank, 0;\n    @q bra M_done;\n    @!lead bra M_done;"
    for step in range(steps):
        program[f"mma {step}"] = (
            f"    setp.ne.u32 q, {min(step, 1)}, 0;\n    tcgen05.mma.cta_group::2.kind::{kind} [tm], y2, y3, word, q;"
        )
    program |= {"commit": COMMIT.format(at=""), "issued": "M_done:"}
    return program | _last(columns(m, n), allocated, "a2", "")


def loaded(m: int, n: int, word: int, allocated: int = 64, bytes_of_k: int = 128) -> dict[str, str]:
    """Operands of 16 bits that TMA loads: 64 of K in swizzled rows of 128 bytes. map0 and map1 cut halves."""
    rows = Operand(np.zeros(0, np.uint8), 16, 1024, 128)
    total = (m + n) * bytes_of_k
    load = "    @lead cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.cta_group::2"
    program = _first(allocated, 2)
    program |= {
        "meet": MEET,
        "leader": "    and.b32 x8, bar, 0xFEFFFFFF;\n    mov.u32 x5, 0;",
        "expect": "    setp.eq.u32 q, rank, 0;\n    and.pred q, q, lead;\n"
        f"    @q mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {total};",
        "load a": f"    mul.lo.u32 x6, rank, {m // 2};\n{load} [s], [m0, {{x5, x6}}], [x8];",
        "load b": f"    mul.lo.u32 x6, rank, {n // 2};\n    add.u32 x7, s, {PLACE_B};\n"
        f"{load} [x7], [m1, {{x5, x6}}], [x8];",
    }
    program |= _address(matrix_word(rows, 0), matrix_word(rows, PLACE_B), word)
    program["start"] = "    setp.ne.u32 q, rank, 0;\n    @q bra M_done;\n    @!lead bra M_done;"
    program["full"] = wait("full")
    for step in range(bytes_of_k // 32):
        program[f"mma {step}"] = (
            f"    setp.ne.u32 q, {min(step, 1)}, 0;\n    tcgen05.mma.cta_group::2.kind::f16 [tm], y2, y3, word, q;\n"
            "    add.u64 y2, y2, 2;\n    add.u64 y3, y3, 2;"
        )
    program |= {"commit": COMMIT.format(at="+8"), "issued": "M_done:"}
    return program | _last(columns(m, n), allocated, "a0", "+8")


def text_of(program: dict[str, str], maps: int = 0, pointers: int = 3) -> str:
    """The PTX of a program's parts."""
    names = ".shared .align 4 .b8 slot[4];\n    .reg .b32 tm, mine, word, d<256>;\n    .reg .b16 mask;"
    text = frame("\n".join(program.values()), maps=maps, pointers=1 if maps else pointers, registers=names)
    return for_blackwell(text)


def simulate(text: str, args: list[Any], grid: int = 2, **options: Any) -> Report:
    """Run pairs of CTAs; findings are in the report."""
    cluster = options.pop("cluster", (2, 1, 1))
    return run_ptx(text, "k", (grid,), (128,), args, cluster=cluster, dynamic_shared=98304, **options)


def result(m: int, n: int) -> np.ndarray[Any, Any]:
    """Poisoned lanes of both CTAs."""
    return np.full((2, 128, columns(m, n)), np.float32(-77.5))


def rows_of(lanes: np.ndarray[Any, Any], m: int) -> np.ndarray[Any, Any]:
    """The accumulator [m, n] from the lanes [2, 128, columns] of both CTAs."""
    if m == 256:
        return lanes.reshape(256, -1)
    return np.concatenate([np.concatenate([each[:64], each[64:]], axis=1) for each in lanes])
