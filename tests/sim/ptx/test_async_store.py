"""st.async and red.async between the CTAs of a cluster: what arrives, and what races."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minitile.runtime.sim import Report, SimulationError
from tests.sim.ptx.hopper import assembles, frame, silent, simulate

SCHEDULES = ["eager", "lazy", "random"]
SYNC = "    barrier.cluster.arrive.release.aligned;\n    barrier.cluster.wait.acquire.aligned;\n"
# CTA 1's threads send 4 or 16 bytes each to CTA 0, whose thread 0 has announced them at its mbarrier.
SEND = """    @lead mbarrier.init.shared::cta.b64 [bar], 1;
    @lead fence.mbarrier_init.release.cluster;
    @lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {bytes};
    shl.b32 x0, tid, 4;
    add.u32 x1, x0, s;
{before}
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
    setp.eq.u32 q, rank, 0;
    @q bra RECEIVE;
    mapa.shared::cluster.u32 x2, x1, 0;
    mapa.shared::cluster.u32 x3, s, 0;
    mapa.shared::cluster.u32 x4, bar, 0;
    add.u32 v0, tid, 100;
    add.u32 v1, tid, 200;
    add.u32 v2, tid, 300;
    add.u32 v3, tid, 400;
    {send}
    bra END;
RECEIVE:
    {wait}
    ld.shared.v4.u32 {{v4, v5, v6, v7}}, [x1];
    cvt.u64.u32 y0, x0;
    add.u64 y0, y0, a0;
    st.global.v4.u32 [y0], {{v4, v5, v6, v7}};
END:
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
"""
WAIT = """mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [bar], 0;
    @!p bra RECEIVE;"""
FOUR = "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [x2], {v0, v1, v2, v3}, [x4];"
ZERO = "    mov.u32 v8, 0;\n    st.shared.v4.u32 [x1], {v8, v8, v8, v8};"


def run(send: str, size: int, before: str = "", wait: str = WAIT, **options: Any) -> tuple[Report, Any]:
    text = frame(SEND.format(send=send, bytes=size, before=before, wait=wait), limits=".reqnctapercluster 2, 1, 1")
    assembles(text)
    out = np.zeros((64, 4), np.uint32)
    return simulate(text, [out], block=64, grid=2, cluster=(2, 1, 1), **options), out


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_what_arrives(schedule: str) -> None:
    report, out = run(FOUR, 1024, schedule=schedule)
    silent(report)
    np.testing.assert_array_equal(out, np.arange(64)[:, None] + np.array([100, 200, 300, 400]))


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("kind", "values"), [("b32", "v0"), ("f32", "v0"), ("v2.b32", "{v0, v1}"), ("b64", "y3")])
def test_widths(kind: str, values: str, schedule: str) -> None:
    wide = 8 if values != "v0" else 4
    opcode = f"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.{kind}"
    send = f"mov.b64 y3, {{v0, v1}};\n    {opcode} [x2], {values}, [x4];"
    report, out = run(send, 64 * wide, before=ZERO, schedule=schedule)
    silent(report)
    want = np.zeros((64, 4), np.uint32)
    want[:, 0] = np.arange(64) + 100
    if wide == 8:
        want[:, 1] = np.arange(64) + 200
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    ("name", "want"), [("add.u32", sum(range(100, 164))), ("max.s32", 163), ("min.u32", 0), ("inc.u32", 64)]
)
def test_reductions(name: str, want: int, schedule: str) -> None:
    """All threads at one place: they do not conflict."""
    send = f"red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{name} [x3], v0, [x4];"
    report, out = run(send, 256, before=ZERO, schedule=schedule)
    silent(report)
    assert out[0, 0] == want


RACES = {
    # name: (send, before, wait, kind)
    "no wait": (FOUR, ZERO, "", "missing_wait"),
    "two stores to one place": (FOUR.replace("[x2]", "[x3]"), ZERO, WAIT, "missing_wait"),
    "the receiver writes as well": (FOUR, "", ZERO + "\n    " + WAIT, "missing_wait"),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", RACES)
def test_races(name: str, schedule: str) -> None:
    send, before, wait, kind = RACES[name]
    report, _ = run(send, 1024, before=before, wait=wait, schedule=schedule, gpu=False)
    assert kind in {finding.kind for finding in report.findings}, report.findings


def test_other_generic_accesses_need_no_proxy_fence() -> None:
    """The receiver has written the place before: order is enough, since no proxy is crossed."""
    report, _ = run(FOUR, 1024, before=ZERO)
    silent(report)


def test_without_order_before() -> None:
    """The receiver's own writes must be over."""
    text = SEND.format(send=FOUR, bytes=1024, before="", wait=WAIT).replace(
        "    setp.eq.u32 q, rank, 0;", ZERO + "\n    setp.eq.u32 q, rank, 0;", 1
    )
    text = frame(text, limits=".reqnctapercluster 2, 1, 1")
    report = simulate(text, [np.zeros((64, 4), np.uint32)], block=64, grid=2, cluster=(2, 1, 1), gpu=False)
    assert {finding.kind for finding in report.findings} & {"missing_barrier", "missing_wait"}, report.findings


def test_the_barrier_lies_with_the_destination() -> None:
    report, _ = run(FOUR.replace("[x4]", "[bar]"), 1024, gpu=False)
    assert report.findings[0].kind == "barrier_mismatch"
    assert "another CTA" in report.findings[0].message


def test_what_is_refused() -> None:
    with pytest.raises(SimulationError, match="complete on an mbarrier"):
        simulate(frame("    st.async.release.sys.global.u32 [a0], v0;\n"), [np.zeros(4, np.uint32)], gpu=False)


# Every CTA sends a number in each round to both, in `versions` places in turn; all threads add up what has come.
ROUNDS = """    @lead mbarrier.init.shared::cta.b64 [bar], 1;
    @lead mbarrier.init.shared::cta.b64 [bar+8], 1;
    @lead fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
    mov.u32 x5, 0;
    mov.u32 v7, 0;
ROUND:
    rem.u32 x6, x5, {versions};
    div.u32 x7, x5, {versions};
    and.b32 x7, x7, 1;
    shl.b32 x6, x6, 3;
    add.u32 x8, x6, bar;
    add.u32 x9, x6, s;
    {barrier}
    @lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [x8], 8;
    setp.lt.u32 q, tid, 2;
    min.u32 x10, tid, 1;
    shl.b32 x11, rank, 2;
    add.u32 x11, x11, x9;
    mapa.shared::cluster.u32 x11, x11, x10;
    mapa.shared::cluster.u32 x12, x8, x10;
    add.u32 v0, rank, x5;
    @q st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [x11], v0, [x12];
WAIT:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [x8], x7;
    @!p bra WAIT;
    ld.shared.v2.u32 {{v1, v2}}, [x9];
    add.u32 v7, v7, v1;
    add.u32 v7, v7, v2;
    add.u32 x5, x5, 1;
    setp.lt.u32 p, x5, 5;
    @p bra ROUND;
    shl.b32 x1, cta, 6;
    add.u32 x1, x1, tid;
    mul.wide.u32 y0, x1, 4;
    add.u64 y0, y0, a0;
    st.global.u32 [y0], v7;
"""


def rounds(versions: int, barrier: str, **options: Any) -> tuple[Report, Any]:
    text = frame(ROUNDS.format(versions=versions, barrier=barrier), limits=".reqnctapercluster 2, 1, 1")
    assembles(text)
    out = np.zeros((2, 64), np.uint32)
    return simulate(text, [out], block=64, grid=2, cluster=(2, 1, 1), **options), out


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_what_a_sender_knows_goes_along(schedule: str) -> None:
    """In two places in turn no CTA overwrites what another one may still read, nor ends too early: who has been sent
    the next number knows that its sender's threads have read the one before."""
    report, out = rounds(2, "bar.sync 0;", schedule=schedule)
    silent(report)
    assert (out == sum(2 * k + 1 for k in range(5))).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("versions", "barrier"), [(1, "bar.sync 0;"), (2, "")])
def test_what_it_does_not_know(versions: int, barrier: str, schedule: str) -> None:
    """One place alone; or only the sending warp has read."""
    report, _ = rounds(versions, barrier, schedule=schedule, gpu=False)
    assert ("missing_barrier", "WAR") in {(finding.kind, finding.hazard) for finding in report.findings}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_end_of_the_receiver(schedule: str) -> None:
    """A wait is enough for it to end; without one, the bytes may come when it is gone."""
    for wait, found in ((WAIT, set()), ("", {"a block may have ended when another one accesses its shared memory"})):
        text = SEND.format(send=FOUR, bytes=1024, before=ZERO, wait=wait)
        assert text.endswith(SYNC)
        text = frame(text[: -len(SYNC)], limits=".reqnctapercluster 2, 1, 1")
        report = simulate(
            text, [np.zeros((64, 4), np.uint32)], block=64, grid=2, cluster=(2, 1, 1), gpu=False, schedule=schedule
        )
        assert found <= {finding.message for finding in report.findings}
        assert bool(found) == bool(report.findings)


def test_the_barriers_initialisation_is_fenced() -> None:
    text = SEND.format(send=FOUR, bytes=1024, before=ZERO, wait=WAIT)
    text = frame(text.replace("@lead fence.mbarrier_init.release.cluster;", ""), limits=".reqnctapercluster 2, 1, 1")
    report = simulate(text, [np.zeros((64, 4), np.uint32)], block=64, grid=2, cluster=(2, 1, 1), gpu=False)
    assert {finding.kind for finding in report.findings} == {"missing_proxy_fence"}
