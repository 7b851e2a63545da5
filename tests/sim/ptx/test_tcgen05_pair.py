"""tcgen05 products of a pair of CTAs in the simulator against NumPy: kinds, shapes, where operands come from."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from minitile.runtime.sim import TensorMap
from minitile.runtime.sim.mutate.ptx import removals
from tests.sim.ptx.blackwell import KINDS, assembles, for_blackwell, lay_out, product_word, wait
from tests.sim.ptx.blackwell_pair import MEET, filled, loaded, result, rows_of, simulate, text_of
from tests.sim.ptx.hopper import dump, frame
from tests.sim.ptx.test_hopper_wgmma import DTYPES
from tests.sim.ptx.test_tcgen05 import SCHEDULES, matrices


def check(a_kind: str, b_kind: str, m: int, n: int, mn: bool, schedule: str, steps: int = 1) -> None:
    rng = np.random.default_rng(m * n)
    depth = 32 // np.dtype(DTYPES[a_kind]).itemsize
    wide = depth if mn else 4 * depth
    a, b = matrices(rng, a_kind, m, wide), matrices(rng, b_kind, n, wide)
    lefts = [lay_out(half, 128 if not mn else 32, mn) for half in np.split(a, 2)]
    rights = [lay_out(half, 128 if not mn else 32, mn) for half in np.split(b, 2)]
    word = product_word(a_kind, b_kind, m, n, mn, mn)
    text = text_of(filled(lefts[0], rights[0], word, KINDS[a_kind], m, n, allocated=256, steps=steps))
    assembles(text)
    out = result(m, n).astype(np.int32 if KINDS[a_kind] == "i8" else np.float32)
    args = [np.concatenate([each.image for each in halves]) for halves in (lefts, rights)]
    report = simulate(text, [*args, out], schedule=schedule, seed=n)
    assert not report.findings, str(report.findings[0])
    exact = steps * (a[:, :depth].astype(np.float64) @ b[:, :depth].astype(np.float64).T)
    np.testing.assert_allclose(rows_of(out, m).astype(np.float64), exact, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("m", [128, 256])
def test_halves_of_both_operands(m: int, schedule: str) -> None:
    check("bf16", "bf16", m, 64, False, schedule, steps=2)


@pytest.mark.parametrize("kinds", ["f16 f16", "tf32 tf32", "e4m3 e5m2", "s8 u8"])
def test_kinds(kinds: str) -> None:
    check(*kinds.split(), 256, 32, False, "lazy")


@pytest.mark.parametrize("shape", [(128, 32), (256, 16), (128, 128), (256, 128)])
def test_shapes(shape: tuple[int, int]) -> None:
    check("f16", "f16", *shape, shape[1] >= 32, "lazy")


def tensors(m: int, n: int) -> tuple[list[object], np.ndarray, np.ndarray]:
    rng = np.random.default_rng(m + n)
    a = rng.standard_normal((m, 64)).astype(ml_dtypes.bfloat16)
    b = rng.standard_normal((n, 64)).astype(ml_dtypes.bfloat16)
    out = result(m, n)
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    return [TensorMap(a, (m // 2, 64), 128), TensorMap(b, (n // 2, 64), 128), out], out, exact


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("m", [128, 256])
def test_loads_of_both_ctas_onto_one_mbarrier(m: int, schedule: str) -> None:
    args, out, exact = tensors(m, 64)
    text = text_of(loaded(m, 64, product_word("bf16", "bf16", m, 64)), maps=2)
    assembles(text)
    report = simulate(text, args, schedule=schedule, seed=5)
    assert not report.findings, str(report.findings[0])
    np.testing.assert_allclose(rows_of(out, m), exact, rtol=1e-5, atol=1e-4)


def test_second_pair_of_a_cluster() -> None:
    """In a cluster of four CTAs the pairs are (0, 1) and (2, 3)."""
    m, n = 256, 32
    args, _, exact = tensors(m, n)
    out = np.full((2, *result(m, n).shape), np.float32(-77.5))
    program = loaded(m, n, product_word("bf16", "bf16", m, n))
    # Both pairs multiply the same; a CTA's place in its pair is the last bit of its rank.
    named = "    mov.u32 x4, rank;\n    and.b32 rank, x4, 1;\n    shr.u32 x4, x4, 1;\n    shl.b32 x3, x4, 1;\n"
    named += f"    mov.u32 x2, 3;\n    shl.b32 x2, x2, x3;\n    mul.wide.u32 y5, x4, {2 * 128 * n * 4};\n"
    program["leader"] += "\n    add.u64 a0, a0, y5;"
    program["address"] = program["address"].replace("mov.b16 mask, 3", "cvt.u16.u32 mask, x2")
    text = text_of({"rank": named} | program, maps=2)
    assembles(text)
    report = simulate(text, [*args[:2], out], grid=4, cluster=(4, 1, 1))
    assert not report.findings, str(report.findings[0])
    for pair in out:
        np.testing.assert_allclose(rows_of(pair, m), exact, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("issuer", [0, 1])
def test_multicast_onto_the_even_ctas(issuer: int, schedule: str) -> None:
    """One CTA loads for the even CTAs of two pairs, or the odd ones; the even CTA of each pair gets the count."""
    load = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.cta_group::2"
    body = f"""    @lead mbarrier.init.shared::cta.b64 [bar], 1;
    @lead fence.mbarrier_init.release.cluster;
    and.b32 x1, rank, 1;
    setp.eq.u32 q, x1, 0;
    and.pred q, q, lead;
    @q mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 1024;
{MEET}
    setp.eq.u32 r, rank, {issuer};
    and.pred r, r, lead;
    mov.u32 x5, 0;
    mov.b16 mask, {5 << issuer};
    and.b32 x8, bar, 0xFEFFFFFF;
    @r {load} [s], [m0, {{x5, x5}}], [x8], mask;
    setp.ne.u32 q, x1, 0;
    @q bra META;
{wait("full")}
META:
{MEET}
    mul.wide.u32 y1, rank, 1024;
    add.u64 a0, a0, y1;
    setp.ne.u32 q, x1, {issuer};
    @q bra LAST;
{dump(1024)}
LAST:"""
    text = for_blackwell(frame(body, maps=1, pointers=1, registers=".reg .b16 mask;"))
    assembles(text)
    data = np.arange(512, dtype=np.uint16).reshape(8, 64)
    out = np.zeros((4, 1024), np.uint8)
    report = simulate(text, [TensorMap(data, (8, 64)), out], grid=4, cluster=(4, 1, 1), schedule=schedule, seed=1)
    assert not report.findings, str(report.findings[0])
    for rank in range(4):
        expected = data.view(np.uint8).ravel() if rank % 2 == issuer else np.zeros(1024, np.uint8)
        np.testing.assert_array_equal(out[rank], expected)


@pytest.mark.parametrize("tma", [False, True])
def test_what_synchronises_is_needed(tma: bool) -> None:
    """Without any one of its waits, fences, barriers, commits, and without its dealloc, a sound program is at fault."""
    m, n = 128, 32
    word = product_word("bf16", "bf16", m, n)
    if tma:
        text = text_of(loaded(m, n, word), maps=2)
    else:
        halves = [np.zeros((rows // 2, 64), ml_dtypes.bfloat16) for rows in (m, n)]
        left, right = (lay_out(half, 128, False) for half in halves)
        text = text_of(filled(left, right, word, "f16", m, n))
    mutants = list(removals(text, "k"))
    assert len(mutants) >= 12
    for mutant in mutants:
        args = tensors(m, n)[0]
        if not tma:
            args = [np.zeros(2 * len(left.image), np.uint8), np.zeros(2 * len(right.image), np.uint8), result(m, n)]
        report = simulate(mutant.text, args, schedule="lazy", only_first=True)
        fences = "fence.mbarrier_init" in mutant.instruction and not tma  # a proxy fence does as well
        assert report.findings or fences, mutant
