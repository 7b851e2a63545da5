"""What `weaker_mutants` makes of each kind of instruction."""

from __future__ import annotations

from minitile.runtime.sim.mutate.ptx_weaken import weaker_mutants
from tests.sim.ptx.hopper import frame

BODY = """    @lead mbarrier.init.shared::cta.b64 [bar], 4;
    fence.mbarrier_init.release.cluster;
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [x2];
    @lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 2048;
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 p, [bar], x1;
    @!p bra WAIT;
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [bar], 0;
    fence.proxy.async.shared::cta;
    bar.sync 2, 128;
    bar.arrive 3, 128;
    bar.sync 0;
    cp.async.bulk.wait_group 0;
    cp.async.bulk.wait_group.read 1;
    wgmma.wait_group.sync.aligned 0;
    fence.acq_rel.gpu;
    ld.acquire.gpu.global.u32 x0, [a0];
    red.global.add.u32 [a0], x0;
    tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [bar+8], mask;
    cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes.cta_group::2 [s], [a0, {x1}], [x8];
    tcgen05.wait::ld.sync.aligned;
    tcgen05.wait::st.sync.aligned;
    tcgen05.fence::before_thread_sync;
    tcgen05.fence::after_thread_sync;
    clusterlaunchcontrol.try_cancel.async.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 [s], [bar];
"""
CHANGES = {
    "@lead mbarrier.init.shared::cta.b64 [bar], 4": ["[bar], 3", "[bar], 5"],
    "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [x2]": ["arrive.release.cta", "arrive.relaxed.cluster"],
    "@lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 2048": ["[bar], 2032", "[bar], 2064"],
    "mbarrier.try_wait.parity.shared::cta.b64 p, [bar], x1": ["xor.b32 %other_phase, x1, 1"],
    "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [bar], 0": ["acquire.cta", "relaxed.cluster", "], 1"],
    "fence.proxy.async.shared::cta": ["async.global", "behind bar.sync 2, 128"],
    "bar.sync 2, 128": ["2, 64", "3, 128"],
    "bar.arrive 3, 128": ["3, 64", "2, 128"],
    "cp.async.bulk.wait_group 0": ["wait_group.read 0", "wait_group 1"],
    "cp.async.bulk.wait_group.read 1": ["read 2"],
    "wgmma.wait_group.sync.aligned 0": ["aligned 1"],
    "fence.acq_rel.gpu": ["acq_rel.cta"],
    "ld.acquire.gpu.global.u32 x0, [a0]": ["acquire.cta", "relaxed.gpu"],
    "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [bar+8], mask": [
        "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 [bar+8]"
    ],
    "cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes.cta_group::2 [s], [a0, {x1}], [x8]": [
        "complete_tx::bytes [s]"
    ],
    "tcgen05.wait::ld.sync.aligned": ["wait::st"],
    "tcgen05.wait::st.sync.aligned": ["wait::ld"],
    "tcgen05.fence::before_thread_sync": ["after_thread_sync"],
    "tcgen05.fence::after_thread_sync": ["before_thread_sync"],
    "clusterlaunchcontrol.try_cancel.async.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 [s], [bar]": [
        "complete_tx::bytes.b128"
    ],
}


def test_each_instruction_is_weakened_in_its_ways() -> None:
    text = frame(BODY, registers=".reg .b16 mask;")
    found: dict[str, list[str]] = {}
    for weaker in weaker_mutants(text, "k"):
        before, _, after = weaker.instruction.partition(" -> ")
        found.setdefault(before, []).append(after)
        assert weaker.text != text
        assert weaker.text.count("\n") == text.count("\n"), "lines stay where they are"
    assert list(found) == list(CHANGES)
    for before, pieces in CHANGES.items():
        assert len(found[before]) == len(pieces), found[before]
        for piece, after in zip(pieces, found[before], strict=True):
            assert piece in after


def test_a_fence_moves_behind_its_barrier() -> None:
    moved = next(
        w.text for w in weaker_mutants(frame(BODY, registers=".reg .b16 mask;"), "k") if "behind" in w.instruction
    )
    assert "bar.sync 2, 128; fence.proxy.async.shared::cta;" in moved
    assert moved.count("fence.proxy.async") == 1
