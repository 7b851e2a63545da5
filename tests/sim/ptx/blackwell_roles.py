"""A persistent GEMM of sm_100a as CUTLASS and DeepGEMM write one by hand, for the tests of the simulator's tcgen05:
warps with roles, two slots of shared memory, two accumulators, in named parts as in blackwell.py.

    warp 0      a lane loads A (128 rows) and B (32 rows), 64 of K at a time, by TMA, slot by slot
    warp 1      allocates, and frees in the end; a lane multiplies, two slots for each tile
    warps 4-7   load a tile's accumulator, give it back and store it to p0

    mbarriers   bar + 0, 8 full    16, 24 empty    32, 40 acc full    48, 56 acc empty

CUTLASS, include/cutlass/gemm/kernel/sm100_gemm_tma_warpspecialized.hpp; DeepGEMM's kernels for sm_100.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from minitile.runtime.sim import Report, TensorMap, run_ptx
from tests.sim.ptx.blackwell import for_blackwell, loads, matrix_word, product_word
from tests.sim.ptx.hopper import frame
from tests.sim.ptx.test_hopper_wgmma import Operand

TILES, STEPS = 4, 2  # of 128 rows; slots of 64 along K in each
N = 32
PLACE_B = 32768
BYTES = (128 + N) * 128
_ROWS = Operand(np.zeros(0, np.uint8), 16, 1024, 128)
WORD = product_word("bf16", "bf16", 128, N)


def waits(name: str, address: str, parity: str) -> str:
    return f"{name}:\n    mbarrier.try_wait.parity.shared::cta.b64 p, [{address}], {parity};\n    @!p bra {name};"


def slot(count: str, to: str, parity: str) -> str:
    """The slot of a count, 0 or 1, in `to`, and the parity of its turn."""
    return f"    and.b32 {to}, {count}, 1;\n    shr.u32 {parity}, {count}, 1;\n    and.b32 {parity}, {parity}, 1;"


def program() -> dict[str, str]:
    """The parts in order. Names begin with the role: P, M, E."""
    counts = [1, 1, 1, 1, 1, 1, 128, 128]
    load = "    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
    mma = "    tcgen05.mma.cta_group::1.kind::f16 [acc], y2, y3, word, q;"
    commit = "    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [{0}];"
    parts = {
        "init": "\n".join(
            f"    @lead mbarrier.init.shared::cta.b64 [bar+{8 * i}], {count};" for i, count in enumerate(counts)
        ),
        "init fence": "    @lead fence.mbarrier_init.release.cluster;",
        "alloc": "    setp.ne.u32 q, warp, 1;\n    @q bra A_done;\n"
        "    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 64;",
        "relinquish": "    tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;",
        "alloc end": "A_done:",
        "meet": "    bar.sync 0;",
        "address": "    mov.u32 x0, slot;\n    ld.shared.b32 tm, [x0];",
        "roles": "    mov.u32 count, 0;\n    mov.u32 tile, 0;\n    setp.eq.u32 q, warp, 1;\n    @q bra M;\n"
        "    setp.ge.u32 q, warp, 4;\n    @q bra E;\n    setp.ne.u32 q, warp, 0;\n    @q bra END;\n"
        "    setp.ne.u32 q, lane, 0;\n    @q bra END;",
        "P tile": "P_TILE:\n    mov.u32 k, 0;\n    shl.b32 x9, tile, 7;",
        "P step": "P_STEP:\n" + slot("count", "x0", "x1") + "\n    xor.b32 x1, x1, 1;\n    shl.b32 x3, x0, 3;\n"
        "    add.u32 full, bar, x3;\n    add.u32 empty, full, 16;",
        "P wait": waits("P_EMPTY", "empty", "x1"),
        "P expect": f"    mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], {BYTES};",
        "P a": f"    shl.b32 x6, x0, 14;\n    add.u32 x6, s, x6;\n    shl.b32 x8, k, 6;\n"
        f"{load} [x6], [m0, {{x8, x9}}], [full];",
        "P b": f"    shl.b32 x7, x0, 12;\n    add.u32 x7, s, x7;\n    shl.b32 x8, k, 6;\n    mov.u32 x10, 0;\n"
        f"{load} [x7+{PLACE_B}], [m1, {{x8, x10}}], [full];",
        "P next": "    add.u32 count, count, 1;\n    add.u32 k, k, 1;\n"
        f"    setp.lt.u32 q, k, {STEPS};\n    @q bra P_STEP;\n    add.u32 tile, tile, 1;\n"
        f"    setp.lt.u32 q, tile, {TILES};\n    @q bra P_TILE;\n    bra END;",
        "M": "M:\n    setp.ne.u32 q, lane, 0;\n    @q bra M_END;\n    and.b32 x0, s, 0x3FFFF;\n    shr.u32 x0, x0, 4;\n"
        f"    cvt.u64.u32 y1, x0;\n    add.u64 y4, y1, {matrix_word(_ROWS, 0)};\n"
        f"    add.u64 y5, y1, {matrix_word(_ROWS, PLACE_B)};\n    mov.b32 word, {WORD};",
        "M tile": "M_TILE:\n    mov.u32 k, 0;\n" + slot("tile", "x12", "x13") + "\n    shl.b32 x3, x12, 3;\n"
        "    add.u32 x14, bar, x3;\n    add.u32 x14, x14, 32;\n    add.u32 x15, x14, 16;\n    xor.b32 x13, x13, 1;\n"
        "    shl.b32 x3, x12, 5;\n    add.u32 acc, tm, x3;",
        "M wait acc": waits("M_FREE", "x15", "x13"),
        "M after": "    tcgen05.fence::after_thread_sync;",
        "M step": "M_STEP:\n" + slot("count", "x0", "x1") + "\n    shl.b32 x3, x0, 3;\n"
        "    add.u32 full, bar, x3;\n    add.u32 empty, full, 16;",
        "M wait": waits("M_FULL", "full", "x1"),
        "M descriptors": "    shl.b32 x4, x0, 10;\n    cvt.u64.u32 y6, x4;\n    add.u64 y2, y4, y6;\n"
        "    shl.b32 x4, x0, 8;\n    cvt.u64.u32 y6, x4;\n    add.u64 y3, y5, y6;\n    setp.ne.u32 q, k, 0;",
    }
    for i in range(4):
        parts[f"M mma {i}"] = mma + (
            "\n    setp.eq.u32 q, 0, 0;\n    add.u64 y2, y2, 2;\n    add.u64 y3, y3, 2;" if i < 3 else ""
        )
    parts |= {
        "M commit": commit.format("empty"),
        "M next": "    add.u32 count, count, 1;\n    add.u32 k, k, 1;\n"
        f"    setp.lt.u32 q, k, {STEPS};\n    @q bra M_STEP;",
        "M commit acc": commit.format("x14"),
        "M next tile": f"    add.u32 tile, tile, 1;\n    setp.lt.u32 q, tile, {TILES};\n    @q bra M_TILE;",
        "M end": "M_END:\n    bar.warp.sync 0xFFFFFFFF;\n    bra END;",
        "E": "E:\n    and.b32 x1, warp, 3;\n    shl.b32 x1, x1, 21;\n"
        "    add.u32 x11, tm, x1;\n    sub.u32 x10, tid, 128;",
        "E tile": "E_TILE:\n" + slot("tile", "x12", "x13") + "\n    shl.b32 x3, x12, 3;\n    add.u32 x14, bar, x3;\n"
        "    add.u32 x14, x14, 32;\n    add.u32 x15, x14, 16;\n    shl.b32 x3, x12, 5;\n    add.u32 mine, x11, x3;",
        "E wait": waits("E_FULL", "x14", "x13"),
        "E after": "    tcgen05.fence::after_thread_sync;",
        "E ld": loads(N),
        "E ld wait": "    tcgen05.wait::ld.sync.aligned;",
        "E before": "    tcgen05.fence::before_thread_sync;",
        "E arrive": "    mbarrier.arrive.shared::cta.b64 _, [x15];",
        "E store": f"    shl.b32 x0, tile, 7;\n    add.u32 x0, x0, x10;\n    mul.wide.u32 y0, x0, {4 * N};\n"
        "    add.u64 y0, y0, a0;\n" + "\n".join(f"    st.global.b32 [y0+{4 * i}], d{i};" for i in range(N)),
        "E next": f"    add.u32 tile, tile, 1;\n    setp.lt.u32 q, tile, {TILES};\n    @q bra E_TILE;",
        "end": "END:\n    bar.warp.sync 0xFFFFFFFF;\n    bar.sync 0;",
        "dealloc": "    setp.ne.u32 q, warp, 1;\n    @q bra F_done;\n"
        "    tcgen05.dealloc.cta_group::1.sync.aligned.b32 tm, 64;\nF_done:",
    }
    return parts


def text_of(parts: dict[str, str]) -> str:
    names = (
        ".shared .align 4 .b8 slot[16];\n    .reg .b32 tm, mine, acc, word, tile, k, count, full, empty, d<64>;\n"
        "    .reg .b16 mask;"
    )
    return for_blackwell(frame("\n".join(parts.values()), maps=2, pointers=1, registers=names))


def problem() -> tuple[list[Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Arguments, the result among them, and what it must be."""
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-3, 4, (rows, 64 * STEPS)).astype(ml_dtypes.bfloat16) for rows in (TILES * 128, N))
    out = np.full((TILES * 128, N), np.float32(-77.5))
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    return [TensorMap(a, (128, 64), 128), TensorMap(b, (N, 64), 128), out], out, exact


def simulate(text: str, args: list[Any], **options: Any) -> Report:
    return run_ptx(text, "k", (1,), (256,), args, dynamic_shared=49152, **options)
