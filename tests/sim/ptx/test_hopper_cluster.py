"""Clusters, distributed shared memory, multicast, setmaxnreg: against what the PTX ISA says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minitile.runtime.sim import Report, SimulationError, TensorMap, run_ptx
from tests.sim.ptx.hopper import INIT, assembles, dump, frame, silent, simulate, wait

SCHEDULES = ["eager", "lazy", "random"]
PAIR = ".reqnctapercluster 2, 1, 1"
ARRIVE, SYNC_WAIT = "    barrier.cluster.arrive.release.aligned;\n", "    barrier.cluster.wait.acquire.aligned;\n"
SYNC = ARRIVE + SYNC_WAIT


def run(body: str, args: list[Any], grid: int = 2, maps: int = 0, **options: Any) -> Report:
    text = frame(body, maps=maps, pointers=len(args) - maps, limits=PAIR)
    assembles(text)
    return simulate(text, args, block=options.pop("block", 64), grid=grid, cluster=(2, 1, 1), **options)


EXCHANGE = """    shl.b32 x0, tid, 2;
    add.u32 x1, x0, s;
    mad.lo.u32 x2, cta, 1000, tid;
    st.shared.u32 [x1], x2;
{first}    xor.b32 x3, rank, 1;
    mapa.shared::cluster.u32 x4, x1, x3;
    ld.shared::cluster.u32 x5, [x4];
    mul.lo.u32 x6, cta, 256;
    add.u32 x6, x6, x0;
    cvt.u64.u32 y0, x6;
    add.u64 y0, y0, a0;
    st.global.u32 [y0], x5;
{second}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_distributed_shared_memory(schedule: str) -> None:
    out = np.zeros((4, 64), np.uint32)
    silent(run(EXCHANGE.format(first=SYNC, second=SYNC), [out], grid=4, schedule=schedule))
    want = np.array([1, 0, 3, 2])[:, None] * 1000 + np.arange(64)
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("first", ["    bar.sync 0;\n", "", SYNC.replace("release", "relaxed")])
def test_the_cluster_barrier_is_needed(first: str, schedule: str) -> None:
    report = run(
        EXCHANGE.format(first=first, second=SYNC), [np.zeros((2, 64), np.uint32)], schedule=schedule, gpu=False
    )
    assert {finding.kind for finding in report.findings} <= {"missing_barrier", "uninitialised"}
    assert report.findings


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("last", ["", ARRIVE])
def test_a_block_waits_for_those_who_read_its_memory(last: str, schedule: str) -> None:
    body = EXCHANGE.format(first=SYNC, second=last)
    report = run(body, [np.zeros((2, 64), np.uint32)], schedule=schedule, gpu=False)
    assert {finding.kind for finding in report.findings} == {"missing_barrier"}
    assert "may have ended" in report.findings[0].message


def test_generic_addresses_and_ranks() -> None:
    body = """    cvta.shared.u64 y0, bars;
    mapa.u64 y1, y0, 1;
    getctarank.u64 x0, y1;
    getctarank.shared::cluster.u32 x1, bar;
    mov.u32 v0, %cluster_nctarank;
    mov.u32 v1, %cluster_ctaid.x;
    mov.u32 v2, %clusterid.x;
    mov.u32 v3, %nclusterid.x;
    mul.wide.u32 y2, cta, 32;
    add.u64 y2, y2, a0;
    @lead st.global.v4.u32 [y2], {v0, v1, v2, v3};
    @lead st.global.v2.u32 [y2+16], {x0, x1};
""".replace("cvta.shared.u64 y0, bars;", "cvt.u64.u32 y0, bar;\n    cvta.shared.u64 y0, y0;")
    out = np.zeros((4, 8), np.uint32)
    silent(run(body, [out], grid=4))
    np.testing.assert_array_equal(out[:, :6], [[2, c % 2, c // 2, 2, 1, c % 2] for c in range(4)])


def test_clusters_in_two_dimensions() -> None:
    """Clusters of 2 x 2 in a grid of 4 x 2: the ranks go along x first."""
    body = """    mov.u32 x0, %ctaid.y;
    mad.lo.u32 x1, x0, 4, cta;
    mul.wide.u32 y0, x1, 16;
    add.u64 y0, y0, a0;
    mov.u32 v0, %cluster_ctarank;
    mov.u32 v1, %clusterid.x;
    mov.u32 v2, %cluster_ctaid.y;
    mov.u32 v3, %ctaid.x;
    @lead st.global.v4.u32 [y0], {v0, v1, v2, v3};
"""
    text = frame(body, limits=".reqnctapercluster 2, 2, 1")
    assembles(text)
    out = np.zeros((2, 4, 4), np.uint32)
    silent(run_ptx(text, "k", (4, 2), (32,), [out], cluster=(2, 2, 1)))
    for y, x in np.ndindex(2, 4):
        np.testing.assert_array_equal(out[y, x], [x % 2 + 2 * (y % 2), x // 2, y % 2, x])


REMOTE = """    @lead mbarrier.init.shared::cta.b64 [bar], 64;
    @lead fence.mbarrier_init.release.cluster;
{sync}    setp.eq.u32 q, rank, 0;
    @q bra WAITING;
    shl.b32 x0, tid, 2;
    add.u32 x0, x0, s;
    mapa.shared::cluster.u32 x1, x0, 0;
    st.shared::cluster.u32 [x1], tid;
    mapa.shared::cluster.u32 x2, bar, 0;
    {arrive}
    bra END;
WAITING:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [bar], 0;
    @!p bra WAITING;
    shl.b32 x0, tid, 2;
    add.u32 x1, x0, s;
    xor.b32 x1, x1, 252;
    ld.shared.u32 x3, [x1];
    cvt.u64.u32 y0, x0;
    add.u64 y0, y0, a0;
    st.global.u32 [y0], x3;
END:
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
"""
REMOTE_ARRIVE = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [x2];"


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_remote_arrival(schedule: str) -> None:
    out = np.zeros(64, np.uint32)
    silent(run(REMOTE.format(sync=SYNC, arrive=REMOTE_ARRIVE), [out], schedule=schedule))
    np.testing.assert_array_equal(out, np.arange(64)[::-1])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_remote_arrival_mutations(schedule: str) -> None:
    """Without the arrival, with a relaxed one, and with an initialisation that the other CTA does not know."""
    relaxed = REMOTE_ARRIVE.replace("release", "relaxed")
    for sync, arrive in ((SYNC, ""), (SYNC, relaxed), ("    bar.sync 0;\n", REMOTE_ARRIVE)):
        report = run(REMOTE.format(sync=sync, arrive=arrive), [np.zeros(64, np.uint32)], schedule=schedule, gpu=False)
        assert report.findings


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_multicast(schedule: str) -> None:
    """CTA 0 loads a box into both CTAs; each waits for its own barrier."""
    body = f"""    @lead mbarrier.init.shared::cta.b64 [bar], 1;
    @lead fence.mbarrier_init.release.cluster;
    @lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 1024;
{SYNC}
    mov.u32 v4, 0;
    setp.eq.u32 q, rank, 0;
    and.pred q, q, lead;
    .reg .b16 mask;
    mov.u16 mask, 3;
    @q cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"""
    body += f""" [s], [m0, {{v4, v4}}], [bar], mask;
{wait()}
    mul.wide.u32 y7, cta, 1024;
    add.u64 y7, y7, a0;
{dump(1024, target="y7", threads=64)}{SYNC}"""
    source, out = np.arange(512, dtype=np.uint32).reshape(16, 32), np.zeros((2, 8, 32), np.uint32)
    silent(run(body, [TensorMap(source, (8, 32)), out], maps=1, schedule=schedule))
    np.testing.assert_array_equal(out, np.stack([source[:8]] * 2))
    lost = body.replace(SYNC, "    bar.sync 0;\n", 1)
    out = np.zeros_like(out)
    assert run(lost, [TensorMap(source, (8, 32)), out], maps=1, schedule=schedule, gpu=False).findings


TWICE = """    @lead mbarrier.init.shared::cta.b64 [bar], 1;
    @lead fence.mbarrier_init.release.cluster;
{sync}    mov.u32 x7, 1024;
    mov.u16 mask, 3;
    setp.eq.u32 q, rank, 0;
    and.pred q, q, lead;
    @lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 1024;
{sync}{copy}{first}
    shl.b32 x0, tid, 4;
    add.u32 x0, x0, s;
    ld.shared.v4.u32 {{v0, v1, v2, v3}}, [x0];
    {fence}
    @lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 1024;
{between}{copy}{second}{sync}"""
COPY = (
    "    @q cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
    " [s], [a0], x7, [bar], mask;\n"
)
RELEASE = "fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;"
ACQUIRE = "    fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;\n"


def twice(fence: str, between: str) -> str:
    body = TWICE.format(sync=SYNC, copy=COPY, first=wait(0, "0"), second=wait(1, "1"), fence=fence, between=between)
    return frame(body, registers=".reg .b16 mask;", limits=PAIR)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("fence", [RELEASE, "fence.proxy.async.shared::cta;"])
def test_multicast_over_what_the_other_cta_has_read(fence: str, schedule: str) -> None:
    """The reader fences before the synchronisation, the issuer behind it; neither does without the other."""
    args = [np.arange(256, dtype=np.uint32)]
    options = {"block": 64, "grid": 2, "cluster": (2, 1, 1), "schedule": schedule}
    assembles(twice(fence, SYNC + ACQUIRE))
    silent(simulate(twice(fence, SYNC + ACQUIRE), args, **options))
    silent(simulate(twice(fence, SYNC + "    fence.proxy.async;\n"), args, **options))
    for wrong, kind in (
        (twice("", SYNC + ACQUIRE), "missing_proxy_fence"),
        (twice("", SYNC + f"    {RELEASE}\n"), "missing_proxy_fence"),
        (twice(fence, "    bar.sync 0;\n"), "missing_barrier"),
        (twice(fence, SYNC), "missing_proxy_fence"),
        (twice(fence, ACQUIRE + SYNC), "missing_proxy_fence"),
        (twice(fence, SYNC + "    fence.proxy.async.shared::cta;\n"), "missing_proxy_fence"),
    ):
        report = simulate(wrong, args, gpu=False, **options)
        assert kind in {finding.kind for finding in report.findings}, report.findings


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_bulk_copy_to_another_cta(schedule: str) -> None:
    body = f"""    @lead mbarrier.init.shared::cta.b64 [bar], 1;
    @lead fence.mbarrier_init.release.cluster;
    @lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
    shl.b32 x0, tid, 2;
    add.u32 x1, x0, s;
    mad.lo.u32 x2, cta, 1000, tid;
    st.shared.u32 [x1], x2;
    fence.proxy.async;
{SYNC}
    xor.b32 x3, rank, 1;
    add.u32 x4, s, 1024;
    mapa.shared::cluster.u32 x5, x4, x3;
    mapa.shared::cluster.u32 x6, bar, x3;
    mov.u32 x7, 256;
    @lead cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [x5], [s], x7, [x6];
{wait()}
    ld.shared.u32 x8, [x1+1024];
    mad.lo.u32 x9, cta, 256, x0;
    cvt.u64.u32 y0, x9;
    add.u64 y0, y0, a0;
    st.global.u32 [y0], x8;
{SYNC}"""
    out = np.zeros((2, 64), np.uint32)
    silent(run(body, [out], schedule=schedule))
    np.testing.assert_array_equal(out, np.array([1, 0])[:, None] * 1000 + np.arange(64))


def test_remote_atomics() -> None:
    body = f"""    @lead st.shared.u32 [s], 0;
{SYNC}
    mapa.shared::cluster.u32 x1, s, 0;
    atom.relaxed.cluster.shared::cluster.add.u32 x2, [x1], 3;
{SYNC}
    setp.eq.u32 q, cta, 0;
    and.pred q, q, lead;
    @q ld.shared.u32 x3, [s];
    @q st.global.u32 [a0], x3;
""".replace("[s], 0;", "[s], x0;").replace("    @lead st", "    mov.u32 x0, 0;\n    @lead st")
    out = np.zeros(1, np.uint32)
    silent(run(body, [out]))
    assert out[0] == 3 * 128


def lines(*instructions: str) -> str:
    return "".join(f"    {each};\n" for each in instructions)


ONE_SIDE = ("setp.eq.u32 q, rank, 1", "@q bra W", "barrier.cluster.arrive", "barrier.cluster.wait")


def test_the_cluster_barrier_does_not_wait_for_the_dead() -> None:
    silent(run(lines(*ONE_SIDE) + "W:\n", [np.zeros(4, np.uint32)], gpu=False))


def test_a_cluster_deadlock_names_who_is_missing() -> None:
    never = INIT + lines("setp.eq.u32 r, rank, 1", "@!r bra OTHER") + wait() + "OTHER:\n"
    report = run(never + SYNC, [np.zeros(4, np.uint32)], gpu=False)
    assert report.findings[0].kind == "deadlock"
    assert "the cluster's barrier; 64 threads have not arrived" in report.findings[0].message
    assert "the mbarrier at shared address" in report.findings[0].message


def test_misuse() -> None:
    report = run(lines("barrier.cluster.wait"), [np.zeros(4, np.uint32)], gpu=False)
    assert report.findings[0].kind == "barrier_mismatch"
    report = run(lines("barrier.cluster.arrive", "barrier.cluster.arrive"), [np.zeros(4, np.uint32)], gpu=False)
    assert report.findings[0].kind == "barrier_mismatch"
    report = run(lines("mapa.shared::cluster.u32 x0, s, 2"), [np.zeros(4, np.uint32)], gpu=False)
    assert report.findings[0].kind == "out_of_bounds"


def test_the_grid_must_divide() -> None:
    text = frame("", limits=PAIR)
    with pytest.raises(SimulationError, match="requires clusters"):
        run_ptx(text, "k", (2,), (32,), [np.zeros(1)])
    with pytest.raises(SimulationError, match="do not divide"):
        run_ptx(text, "k", (3,), (32,), [np.zeros(1)], cluster=(2,))


LIMITS = ".maxntid 256, 1, 1 .minnctapersm 1"
ASK = "    setmaxnreg.dec.sync.aligned.u32 {};\n"
ROLES = """    setp.lt.u32 q, tid, 128;
    @q bra PRODUCER;
    setmaxnreg.inc.sync.aligned.u32 {inc};
    bra END;
PRODUCER:
    setmaxnreg.dec.sync.aligned.u32 {dec};
END:
    griddepcontrol.launch_dependents;
    griddepcontrol.wait;
"""


def roles(inc: int, dec: int) -> Report:
    return simulate(
        frame(ROLES.format(inc=inc, dec=dec), limits=LIMITS), [np.zeros(1, np.uint32)], block=256, gpu=False
    )


def test_setmaxnreg() -> None:
    assembles(frame(ROLES.format(inc=256, dec=40), limits=LIMITS))
    silent(simulate(frame(ROLES.format(inc=256, dec=40), limits=LIMITS), [np.zeros(1, np.uint32)], block=256))
    text = frame(ROLES.format(inc=240, dec=40).replace("setp.lt.u32 q, tid, 128", "setp.lt.u32 q, tid, 0"))
    report = simulate(text, [np.zeros(1, np.uint32)], block=384, gpu=False)
    assert report.findings[0].kind == "register_budget"
    assert "65536" in report.findings[0].message
    report = simulate(frame(ROLES.format(inc=40, dec=24), limits=LIMITS), [np.zeros(1)], block=256, gpu=False)
    assert "but the warp has" in report.findings[0].message
    for number in (20, 100, 264):
        with pytest.raises(SimulationError, match="multiple of 8"):
            roles(240, number)


@pytest.mark.parametrize(
    ("body", "block"),
    [
        ("    setp.ge.u32 q, tid, 32;\n    @q bra END;\n" + ASK.format(40) + "END:\n", 128),  # by one warp
        ("    setp.ge.u32 q, tid, 32;\n    @q bra END;\n" + ASK.format(40) + "END:\n" + ASK.format(40), 128),
        (ASK.format(56) + "    setp.ge.u32 q, tid, 32;\n    @q bra B;\n" + ASK.format(40) + "    bra END;\nB:\n"
         + ASK.format(48) + "END:\n", 128),
        (ASK.format(40), 96),
        (ASK.format(48), 160),  # the last warp is in no whole warpgroup
    ],
)  # fmt: skip
def test_a_warpgroup_asks_alike(body: str, block: int) -> None:
    limits = f".maxntid {block}, 1, 1 .minnctapersm 1"
    report = simulate(frame(body, limits=limits), [np.zeros(1, np.uint32)], block=block, gpu=False)
    assert [each.kind for each in report.findings] == ["divergent_barrier"]
    assert "same setmaxnreg" in report.findings[0].message
