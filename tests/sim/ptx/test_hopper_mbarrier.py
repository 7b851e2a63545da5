"""mbarriers: every instruction against what the PTX ISA says, rings of producers and consumers, deadlock reports."""

from __future__ import annotations

import numpy as np
import pytest

from minitile.runtime.sim import Report
from tests.sim.ptx.hopper import assembles, frame, silent, simulate

SCHEDULES = ["eager", "lazy", "random"]


def run(body: str, words: int = 8, block: int = 32, **options: object) -> tuple[np.ndarray, Report]:  # type: ignore[type-arg]
    """Run a body that stores words to a0."""
    out = np.zeros(words, np.uint32)
    text = frame(body)
    assembles(text)
    return out, simulate(text, [out], block=block, **options)


def test_states_and_pending_counts() -> None:
    """One thread arrives twice of three times, without completing, then completes the phase."""
    out, report = run(
        """    @!lead bra END;
    mbarrier.init.shared::cta.b64 [bar], 3;
    mbarrier.arrive.shared::cta.b64 y0, [bar];
    mbarrier.pending_count.b64 x0, y0;
    mbarrier.arrive.noComplete.release.cta.shared::cta.b64 y1, [bar], 1;
    mbarrier.test_wait.shared::cta.b64 p, [bar], y0;
    selp.u32 x1, 1, 0, p;
    mbarrier.test_wait.parity.shared::cta.b64 p, [bar], 1;
    selp.u32 x2, 1, 0, p;
    mbarrier.arrive.shared::cta.b64 _, [bar];
    mbarrier.test_wait.shared::cta.b64 p, [bar], y0;
    selp.u32 x3, 1, 0, p;
    mbarrier.test_wait.parity.shared::cta.b64 p, [bar], 0;
    selp.u32 x4, 1, 0, p;
    mbarrier.test_wait.parity.shared::cta.b64 p, [bar], 1;
    selp.u32 x5, 1, 0, p;
    mbarrier.inval.shared::cta.b64 [bar];
    st.global.v4.u32 [a0], {x1, x2, x3, x4};
    st.global.u32 [a0+16], x5;
END:
"""
    )
    silent(report)
    np.testing.assert_array_equal(out[:5], [0, 1, 1, 1, 0])


def test_transactions() -> None:
    """Bytes hold a phase up, whether they are announced with the arrival or on their own."""
    out, report = run(
        """    @!lead bra END;
    mbarrier.init.shared::cta.b64 [bar], 1;
    mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 16;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 32;
    mbarrier.test_wait.parity.shared::cta.b64 p, [bar], 0;
    selp.u32 x1, 1, 0, p;
    mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 40;
    mbarrier.test_wait.parity.shared::cta.b64 p, [bar], 0;
    selp.u32 x2, 1, 0, p;
    mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 8;
    mbarrier.test_wait.parity.shared::cta.b64 p, [bar], 0;
    selp.u32 x3, 1, 0, p;
    st.global.v4.u32 [a0], {x1, x2, x3, x3};
END:
"""
    )
    silent(report)
    np.testing.assert_array_equal(out[:3], [0, 0, 1])


def test_counts_and_drops() -> None:
    """32 lanes arrive with a count of two; then half of them leave for good."""
    out, report = run(
        """    @lead mbarrier.init.shared::cta.b64 [bar], 64;
    bar.sync 0;
    mbarrier.arrive.release.cta.shared::cta.b64 y0, [bar], 2;
W0:
    mbarrier.try_wait.shared::cta.b64 p, [bar], y0;
    @!p bra W0;
    setp.lt.u32 q, tid, 16;
    @q mbarrier.arrive_drop.release.cta.shared::cta.b64 _, [bar], 2;
    @!q mbarrier.arrive.release.cta.shared::cta.b64 _, [bar], 2;
W1:
    mbarrier.try_wait.parity.shared::cta.b64 p, [bar], 1, 1000;
    @!p bra W1;
    @!q mbarrier.arrive.release.cta.shared::cta.b64 _, [bar], 2;
W2:
    mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [bar], 0;
    @!p bra W2;
    @lead st.global.u32 [a0], 1;
""".replace("[a0], 1", "[a0], x0").replace("    setp.lt.u32 q", "    mov.u32 x0, 7;\n    setp.lt.u32 q")
    )
    silent(report)
    assert out[0] == 7


RING = """    .reg .b32 full, empty, slot, stage, phase, k;
    add.u32 full, bar, 0;
    add.u32 empty, bar, 64;
    @!lead bra READY;
    mbarrier.init.shared::cta.b64 [full], 32;
    mbarrier.init.shared::cta.b64 [full+8], 32;
    mbarrier.init.shared::cta.b64 [empty], 32;
    mbarrier.init.shared::cta.b64 [empty+8], 32;
READY:
    bar.sync 0;
    mov.u32 stage, 0;
    mov.u32 k, 0;
    mov.u32 x5, 0;
    setp.eq.u32 q, warp, 0;
    @!q bra CONSUMER;
    mov.u32 phase, 1;
PRODUCE:
    shl.b32 x0, stage, 3;
    add.u32 x1, x0, empty;
    add.u32 x2, x0, full;
EMPTY:
    mbarrier.try_wait.parity.shared::cta.b64 p, [x1], phase;
    @!p bra EMPTY;
    shl.b32 x3, stage, 7;
    shl.b32 x4, lane, 2;
    add.u32 x3, x3, x4;
    add.u32 x3, x3, s;
    mad.lo.u32 x4, k, 100, lane;
    st.shared.u32 [x3], x4;
    mbarrier.arrive.shared::cta.b64 _, [x2];
    xor.b32 stage, stage, 1;
    setp.eq.u32 r, stage, 0;
    @r xor.b32 phase, phase, 1;
    add.u32 k, k, 1;
    setp.lt.u32 p, k, 7;
    @p bra PRODUCE;
    bra END;
CONSUMER:
    mov.u32 phase, 0;
CONSUME:
    shl.b32 x0, stage, 3;
    add.u32 x1, x0, empty;
    add.u32 x2, x0, full;
FULL:
    mbarrier.try_wait.parity.shared::cta.b64 p, [x2], phase;
    @!p bra FULL;
    shl.b32 x3, stage, 7;
    xor.b32 x4, lane, 31;
    shl.b32 x4, x4, 2;
    add.u32 x3, x3, x4;
    add.u32 x3, x3, s;
    ld.shared.u32 x4, [x3];
    mbarrier.arrive.shared::cta.b64 _, [x1];
    add.u32 x5, x5, x4;
    xor.b32 stage, stage, 1;
    setp.eq.u32 r, stage, 0;
    @r xor.b32 phase, phase, 1;
    add.u32 k, k, 1;
    setp.lt.u32 p, k, 7;
    @p bra CONSUME;
    mul.wide.u32 y0, lane, 4;
    add.u64 y0, y0, a0;
    st.global.u32 [y0], x5;
END:
"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("wait", ["try_wait", "test_wait"])
def test_ring(schedule: str, wait: str) -> None:
    """A warp writes, another reads in a ring of two slots."""
    body = RING.replace("try_wait", wait)
    out, report = run(body, words=32, block=64, schedule=schedule)
    silent(report)
    np.testing.assert_array_equal(out, 7 * (31 - np.arange(32)) + 100 * 21)


FULL = "FULL:\n    mbarrier.try_wait.parity.shared::cta.b64 p, [x2], phase;\n    @!p bra FULL;\n"
EMPTY = "EMPTY:\n    mbarrier.try_wait.parity.shared::cta.b64 p, [x1], phase;\n    @!p bra EMPTY;\n"
ARRIVE_FULL, ARRIVE_EMPTY = (f"    mbarrier.arrive.shared::cta.b64 _, [{register}];\n" for register in ("x2", "x1"))
STORE, LOAD = "    st.shared.u32 [x3], x4;\n", "    ld.shared.u32 x4, [x3];\n"
ONE = "mbarrier.init.shared::cta.b64 [bar], 1;\n"
MUTATIONS = {
    "no wait for data": (FULL, ""),
    "no wait for room": (EMPTY, ""),
    "no arrival of the producer": (ARRIVE_FULL, ""),
    "no arrival of the consumer": (ARRIVE_EMPTY, ""),
    "an arrival before the store": (STORE + ARRIVE_FULL, ARRIVE_FULL + STORE),
    "an arrival before the load": (LOAD + ARRIVE_EMPTY, ARRIVE_EMPTY + LOAD),
    "a relaxed arrival": (ARRIVE_FULL, ARRIVE_FULL.replace("arrive.", "arrive.relaxed.cta.")),
    "a relaxed wait": (FULL, FULL.replace("parity.", "parity.relaxed.cta.")),
    "the phase never flips": ("    mov.u32 phase, 0;\nCONSUME:", "    mov.u32 phase, 1;\nCONSUME:"),
    "no barrier after the initialisation": ("READY:\n    bar.sync 0;\n", "READY:\n"),
    "one arrival too many": ("[full], 32;", "[full], 33;"),
    "one arrival too few": ("[full], 32;", "[full], 31;"),
    "no initialisation": ("    mbarrier.init.shared::cta.b64 [full+8], 32;\n", ""),
}


@pytest.mark.parametrize("name", MUTATIONS)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_mutations_of_the_ring_are_found(name: str, schedule: str) -> None:
    old, new = MUTATIONS[name]
    assert RING.count(old) == 1
    _, report = run(RING.replace(old, new), words=32, block=64, schedule=schedule, gpu=False)
    assert report.findings


def test_a_deadlock_names_the_barrier() -> None:
    """Where it is, its phase, how many arrivals and bytes are missing, and who should have arrived."""
    lost = RING.replace(ARRIVE_EMPTY, f"    setp.lt.u32 r, k, 3;\n    @r {ARRIVE_EMPTY.strip()}\n")
    _, report = run(lost, words=32, block=64, gpu=False)
    finding = report.findings[0]
    assert finding.kind == "deadlock"
    assert report.stopped
    for part in (
        "bars+72",
        "phase 1",
        "32 of 32 arrivals are pending",
        "parity 0",
        "thread (32, 0, 0)",
        "arrived at PTX line",
    ):
        assert part in finding.message, finding.message


def test_a_deadlock_names_missing_bytes() -> None:
    _, report = run(
        """    @lead mbarrier.init.shared::cta.b64 [bar], 1;
    bar.sync 0;
    @lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 64;
W:
    mbarrier.try_wait.parity.shared::cta.b64 p, [bar], 0;
    @!p bra W;
""",
        gpu=False,
    )
    assert report.findings[0].kind == "deadlock"
    assert "64 bytes outstanding" in report.findings[0].message


def test_a_poll_that_does_something_else_goes_on() -> None:
    """try_wait may come back in vain: the thread itself makes the arrival that it polls for."""
    out, report = run(
        """    @!lead bra END;
    mbarrier.init.shared::cta.b64 [bar], 1;
    mov.u32 x0, 0;
W:
    mbarrier.try_wait.parity.shared::cta.b64 p, [bar], 0, 10;
    @p bra DONE;
    add.u32 x0, x0, 1;
    setp.eq.u32 q, x0, 3;
    @q mbarrier.arrive.shared::cta.b64 _, [bar];
    bra W;
DONE:
    st.global.u32 [a0], x0;
END:
"""
    )
    silent(report)
    assert out[0] == 3


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("form", [".noinc", ""])
def test_arrival_when_copies_have_landed(schedule: str, form: str) -> None:
    """cp.async.mbarrier.arrive: the waiter sees the copies of all threads."""
    body = f"""    @lead mbarrier.init.shared::cta.b64 [bar], COUNT;
    bar.sync 0;
    shl.b32 x0, tid, 2;
    add.u32 x1, x0, s;
    cvt.u64.u32 y0, x0;
    add.u64 y0, y0, a1;
    cp.async.ca.shared.global [x1], [y0], 4;
    cp.async.mbarrier.arrive{form}.shared::cta.b64 [bar];
    ARRIVE
W:
    mbarrier.try_wait.parity.shared::cta.b64 p, [bar], 0;
    @!p bra W;
    xor.b32 x2, tid, 63;
    shl.b32 x2, x2, 2;
    add.u32 x2, x2, s;
    ld.shared.u32 v0, [x2];
    cvt.u64.u32 y1, x0;
    add.u64 y1, y1, a0;
    st.global.u32 [y1], v0;
"""
    arrive = "" if form else "mbarrier.arrive.shared::cta.b64 _, [bar];"
    text = frame(body.replace("COUNT", "64").replace("ARRIVE", arrive), pointers=2)
    assembles(text)
    out, data = np.zeros(64, np.uint32), np.arange(64, dtype=np.uint32)
    silent(simulate(text, [out, data], block=64, schedule=schedule))
    np.testing.assert_array_equal(out, data[::-1])
    lost = text.replace("W:\n    mbarrier.try_wait.parity.shared::cta.b64 p, [bar], 0;\n    @!p bra W;\n", "")
    assert simulate(lost, [out, data], block=64, schedule=schedule, gpu=False).findings


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("mbarrier.arrive.shared::cta.b64 _, [bar];", "uninitialised"),
        ("mbarrier.init.shared::cta.b64 [bar], 0;", "barrier_mismatch"),
        ("mbarrier.init.shared::cta.b64 [bar+4], 1;", "misaligned"),
        (f"{ONE}mbarrier.arrive.shared::cta.b64 _, [bar], 2;", "barrier_mismatch"),
        (f"{ONE}mbarrier.inval.shared::cta.b64 [bar];\nmbarrier.arrive.shared::cta.b64 _, [bar];", "uninitialised"),
    ],
)
def test_misuse(body: str, kind: str) -> None:
    report = simulate(frame(f"    @!lead bra END;\n{body}\nEND:\n"), [np.zeros(8, np.uint32)], block=32, gpu=False)
    assert report.findings[0].kind == kind, report.findings
