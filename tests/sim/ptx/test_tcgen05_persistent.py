"""A persistent program of pairs of CTAs as a whole: TMA onto the even CTA's mbarrier, products of the pair, multicast
commits, tensor memory that is used again, cluster launch control for the next tile. Nothing of it may be missing."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from minitile.runtime.sim import TensorMap
from minitile.runtime.sim.mutate.ptx import removals
from minitile.runtime.sim.mutate.ptx_weaken import weaker_mutants
from tests.sim.ptx.blackwell import assembles, loads, matrix_word, product_word, wait
from tests.sim.ptx.blackwell_pair import COMMIT, MEET, for_blackwell, rows_of, simulate
from tests.sim.ptx.hopper import frame
from tests.sim.ptx.test_hopper_wgmma import Operand

M, N, K = 256, 32, 64
PLACE_B = 16384
SCHEDULES = ("lazy", "eager", "random")


def waits(name: str, at: int, sem: str = "") -> str:
    text = wait(name, "par").replace("[bar]", f"[bar+{at}]")
    return text.replace(".parity", f".parity{sem}")


def program() -> str:
    """Grid: two CTAs for each tile of M rows. `tile`: what is worked on; `par`: the parity of all mbarriers."""
    rows = Operand(np.zeros(0, np.uint8), 16, 1024, 128)
    load = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.cta_group::2"
    cancel = (
        "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128"
    )
    steps = "\n".join(
        f"    setp.ne.u32 q, {min(step, 1)}, 0;\n    tcgen05.mma.cta_group::2.kind::f16 [tm], y2, y3, word, q;\n"
        "    add.u64 y2, y2, 2;\n    add.u64 y3, y3, 2;"
        for step in range(K // 16)
    )
    body = f"""
    @lead mbarrier.init.shared::cta.b64 [bar], 1;
    @lead mbarrier.init.shared::cta.b64 [bar+8], 1;
    @lead mbarrier.init.shared::cta.b64 [bar+16], 1;
    @lead fence.mbarrier_init.release.cluster;
    setp.eq.u32 even, rank, 0;
    and.pred even, even, lead;
    setp.ne.u32 q, warp, 0;
    @q bra A_done;
    tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [slot], 32;
    tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;
A_done:
{MEET}
    mov.u32 x0, slot;
    ld.shared.b32 tm, [x0];
    and.b32 x1, warp, 3;
    shl.b32 x1, x1, 21;
    add.u32 mine, tm, x1;
    mov.b16 mask, 3;
    and.b32 x8, bar, 0xFEFFFFFF;
    add.u32 x7, s, {PLACE_B};
    mov.u32 x5, 0;
    shr.u32 tile, cta, 1;
    mov.u32 par, 0;
    mov.b32 word, {product_word("bf16", "bf16", M, N)};
LOOP:
    @lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar+16], 16;
    fence.proxy.async;
    @even {cancel} [response], [bar+16];
    @even mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {(M + N) * K * 2};
    mul.lo.u32 x6, tile, {M};
    mad.lo.u32 x6, rank, {M // 2}, x6;
    @lead {load} [s], [m0, {{x5, x6}}], [x8];
    mul.lo.u32 x6, rank, {N // 2};
    @lead {load} [x7], [m1, {{x5, x6}}], [x8];
    @!even bra M_done;
{waits("full", 0)}
    and.b32 x0, s, 0x3FFFF;
    shr.u32 x0, x0, 4;
    cvt.u64.u32 y1, x0;
    add.u64 y2, y1, {matrix_word(rows, 0)};
    add.u64 y3, y1, {matrix_word(rows, PLACE_B)};
{steps}
{COMMIT.format(at="+8")}
M_done:
{waits("product", 8)}
    tcgen05.fence::after_thread_sync;
{loads(N)}
    tcgen05.wait::ld.sync.aligned;
    mad.lo.u32 x0, tile, 2, rank;
    shl.b32 x0, x0, 7;
    add.u32 x0, x0, tid;
    mul.wide.u32 y0, x0, {4 * N};
    add.u64 y0, y0, a0;
""" + "\n".join(f"    st.global.b32 [y0+{4 * i}], d{i};" for i in range(N))
    body += f"""
{waits("answer", 16, ".acquire.cluster")}
    ld.shared.b128 answer, [response];
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 r, answer;
    @r clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 tile, answer;
    shr.u32 tile, tile, 1;
    xor.b32 par, par, 1;
    fence.proxy.async.shared::cta;
    tcgen05.fence::before_thread_sync;
{MEET}
    tcgen05.fence::after_thread_sync;
    @r bra LOOP;
    setp.ne.u32 q, warp, 0;
    @q bra F_done;
    tcgen05.dealloc.cta_group::2.sync.aligned.b32 tm, 32;
F_done:"""
    names = (
        ".shared .align 4 .b8 slot[4];\n    .shared .align 16 .b8 response[16];\n    .reg .b128 answer;\n"
        "    .reg .b32 tm, mine, word, tile, par, d<64>;\n    .reg .b16 mask;\n    .reg .pred even;"
    )
    return for_blackwell(frame(body, maps=2, pointers=1, registers=names))


def problem(tiles: int) -> tuple[list[object], np.ndarray, np.ndarray]:
    rng = np.random.default_rng(tiles)
    a, b = (rng.integers(-3, 4, (rows, K)).astype(ml_dtypes.bfloat16) for rows in (tiles * M, N))
    out = np.full((tiles, 2, 128, N), np.float32(-77.5))
    exact = (a.astype(np.float64) @ b.astype(np.float64).T).reshape(tiles, M, N)
    return [TensorMap(a, (M // 2, K), 128), TensorMap(b, (N // 2, K), 128), out], out, exact


@pytest.mark.few_cases
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("tiles", [1, 5])
def test_tiles_by_the_pairs_that_get_them(tiles: int, schedule: str) -> None:
    text = program()
    assembles(text)
    for seed in range(4 if schedule == "random" else 1):
        args, out, exact = problem(tiles)
        report = simulate(text, args, grid=2 * tiles, schedule=schedule, seed=seed)
        assert not report.findings, str(report.findings[0])
        np.testing.assert_array_equal(np.stack([rows_of(each, M) for each in out]), exact)


def test_what_synchronises_is_needed() -> None:
    mutants = list(removals(program(), "k"))
    assert len(mutants) >= 20
    for mutant in mutants:
        report = simulate(mutant.text, problem(3)[0], grid=6, schedule="eager", only_first=True)
        assert report.findings or "fence.mbarrier_init" in mutant.instruction, mutant  # a proxy fence does as well


def test_what_synchronises_is_not_too_strong() -> None:
    """A narrower scope, another direction, one CTA of two: each shows under some schedule."""
    mutants = list(weaker_mutants(program(), "k"))
    assert len(mutants) >= 20
    for mutant in mutants:
        reports = (
            simulate(mutant.text, problem(3)[0], grid=6, schedule=schedule, seed=2, only_first=True)
            for schedule in SCHEDULES
        )
        # That a response has come is no other thread's access: the phase tells it in any scope.
        response = "acquire.cluster.shared::cta.b64 p, [bar+16]" in mutant.instruction
        assert response or any(report.findings for report in reports), mutant
