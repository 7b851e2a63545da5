"""The async proxy in the race model: for each rule a program that breaks it and its twin that does not.

128 threads; each has its 16 bytes of shared memory at `x1`, its neighbour's at `x2`, and 16 bytes of `a0` at `y1`.
The tensor map's box is the first 2048 bytes of shared memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minitile.runtime.sim import Report, TensorMap
from minitile.runtime.sim.core.report import RACES
from tests.sim.ptx.hopper import INIT, assembles, frame, silent, simulate, wait

SCHEDULES = ["eager", "lazy", "random"]
HEAD = """    shl.b32 x0, tid, 4;
    add.u32 x1, x0, s;
    xor.b32 x2, x0, 1008;
    add.u32 x2, x2, s;
    cvt.u64.u32 y1, x0;
    add.u64 y1, y1, a0;
    setp.eq.u32 q, warp, 0;
    mov.u32 v0, 1;
    mov.u32 v1, 1;
    mov.u32 v2, 1;
    mov.u32 v3, 1;
    mov.u32 v4, 0;
    mov.u32 v5, 0;
    mov.u32 v6, 16;
    mov.u32 x3, 2048;
"""
STS, LDS = "    st.shared.v4.u32 [x1], {v0, v1, v2, v3};\n", "    ld.shared.v4.u32 {v8, v9, v10, v11}, [x1];\n"
LDS_OTHER = "    ld.shared.v4.u32 {v8, v9, v10, v11}, [x2];\n"
STG, LDG = "    st.global.v4.u32 [y1], {v0, v1, v2, v3};\n", "    ld.global.v4.u32 {v8, v9, v10, v11}, [y1];\n"
BAR, FENCE, LEADER_FENCE = "    bar.sync 0;\n", "    fence.proxy.async.shared::cta;\n", "    @lead fence.proxy.async;\n"
TMA = (
    "    @lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 2048;\n"
    "    @lead cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    " [s], [m0, {v4, v5}], [bar];\n"
)
BULK = (
    "    @lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 2048;\n"
    "    @lead cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [a0], x3, [bar];\n"
)
PUT = "    @lead cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [m0, {v4, v5}], [s];\n"
PUT += "    @lead cp.async.bulk.commit_group;\n"
PUT2 = PUT.replace("v5}", "v6}")  # to another part of the tensor
READ, DONE = "    @lead cp.async.bulk.wait_group.read 0;\n", "    @lead cp.async.bulk.wait_group 0;\n"
MORE = TMA.replace("mbarrier.arrive.expect_tx", "mbarrier.expect_tx.relaxed.cta").replace("_, ", "")
WAIT, WAIT1 = wait(0, "0"), wait(1, "1")
INIT2 = INIT.replace("    @lead fence", "    @lead mbarrier.init.shared::cta.b64 [bar+8], 96;\n    @lead fence")
HANDOFF = """    @q bra PRODUCER;
    {consumer}
    mbarrier.arrive.shared::cta.b64 _, [bar+8];
    bra END;
PRODUCER:
    mbarrier.try_wait.parity.shared::cta.b64 p, [bar+8], 0;
    @!p bra PRODUCER;
    {producer}
END:
    bar.sync 0;
"""
OWN = "    @!q st.shared.v4.u32 [x1], {v0, v1, v2, v3};\n"
ZERO = "    @q st.shared.v4.u32 [x1], {v0, v1, v2, v3};\n    @q fence.proxy.async;\n    bar.sync 0;\n"
LATE = "    cp.async.ca.shared.global [x1], [y1], 16;\n"

PUT_ALL = """    @lead cp.async.bulk.global.shared::cta.bulk_group [a0], [s], x3;
    @lead cp.async.bulk.commit_group;
    @lead cp.async.bulk.wait_group 0;
"""
REDUCE = """    @lead cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [a0], [s], x3;
    @lead cp.async.bulk.commit_group;
"""
UPDATE = "    @lead red.global.add.u32 [a0], 1;\n"
FIRST, SECOND = "    @q ld.global.u32 v8, [a0];\n", "    @r ld.global.u32 v8, [a0];\n"  # warps 0 and 1 read one place
FENCE0, FENCE1 = "    @q fence.proxy.async.global;\n", "    @r fence.proxy.async.global;\n"


def in_turn(behind_first: str, between: str, behind_second: str) -> str:
    """Warp 0 reads, then warp 1 does, and when all have met a bulk store overwrites it."""
    setup = "    setp.eq.u32 r, warp, 1;\n" + STS + FENCE + BAR
    handover = "    @q bar.arrive 1, 64;\n    @r bar.sync 1, 64;\n"
    return setup + FIRST + behind_first + handover + between + SECOND + behind_second + BAR + PUT_ALL


def lanes(between: str) -> str:
    """Lane 0 reads, then lane 1 does and fences, and when all have met a load overwrites it."""
    reads = f"    @lead ld.shared.u32 v8, [s];\n{between}    @q ld.shared.u32 v8, [s];\n"
    fence = "    @q fence.proxy.async.shared::cta;\n"
    return INIT + TMA + WAIT + "    setp.eq.u32 q, tid, 1;\n" + reads + fence + BAR + TMA + WAIT1


PAIRS: dict[str, tuple[str, str, str, str | None]] = {
    # name: (wrong, right, kind, hazard)
    "a store of what threads wrote": (
        STS + BAR + PUT + READ,
        STS + FENCE + BAR + PUT + READ,
        "missing_proxy_fence",
        "RAW",
    ),
    "a fence of the issuing thread alone": (
        STS + BAR + LEADER_FENCE + PUT + READ,
        STS + FENCE + BAR + PUT + READ,
        "missing_proxy_fence",
        "RAW",
    ),
    "a fence behind the barrier": (
        STS + BAR + FENCE + PUT + READ,
        STS + FENCE + BAR + PUT + READ,
        "missing_proxy_fence",
        "RAW",
    ),
    "a fence for the other memory": (
        STS + FENCE.replace("shared::cta", "global") + BAR + PUT + READ,
        STS + FENCE.replace(".shared::cta", "") + BAR + PUT + READ,
        "missing_proxy_fence",
        "RAW",
    ),
    "no barrier before the store": (STS + FENCE + PUT + READ, STS + FENCE + BAR + PUT + READ, "missing_barrier", "RAW"),
    "write, fence, write": (
        STS + FENCE + STS + BAR + PUT + READ,
        STS + FENCE + STS + FENCE + BAR + PUT + READ,
        "missing_proxy_fence",
        "RAW",
    ),
    "a load that is not waited for": (INIT + TMA + LDS + WAIT, INIT + TMA + WAIT + LDS, "missing_wait", "RAW"),
    "a bulk load that is not waited for": (INIT + BULK + LDS + WAIT, INIT + BULK + WAIT + LDS, "missing_wait", "RAW"),
    "only one warp waits": (
        INIT + TMA + "@!q bra SKIP;\n" + WAIT + "SKIP:\n" + LDS + BAR,
        INIT + TMA + "@!q bra SKIP;\n" + WAIT + "SKIP:\n" + BAR + LDS,
        "missing_wait",
        "RAW",
    ),
    "a load over what threads read": (
        INIT + TMA + WAIT + LDS + BAR + TMA + WAIT1,
        INIT + TMA + WAIT + LDS + FENCE + BAR + TMA + WAIT1,
        "missing_proxy_fence",
        "WAR",
    ),
    "a load over what threads still read": (
        INIT + TMA + WAIT + LDS + FENCE + TMA + WAIT1,
        INIT + TMA + WAIT + LDS + FENCE + BAR + TMA + WAIT1,
        "missing_barrier",
        "WAR",
    ),
    "a load over what threads wrote": (
        INIT + STS + BAR + TMA + WAIT,
        INIT + STS + FENCE + BAR + TMA + WAIT,
        "missing_proxy_fence",
        "WAW",
    ),
    "threads overwrite a load in flight": (
        INIT + TMA + STS + WAIT,
        INIT + TMA + WAIT + BAR + STS,
        "missing_wait",
        "WAW",
    ),
    "threads overwrite what a store reads": (
        STS + FENCE + BAR + PUT + BAR + STS + READ,
        STS + FENCE + BAR + PUT + READ + BAR + STS,
        "missing_wait",
        "WAR",
    ),
    "only the issuing thread has waited": (
        STS + FENCE + BAR + PUT + READ + STS,
        STS + FENCE + BAR + PUT + READ + BAR + STS,
        "missing_wait",
        "WAR",
    ),
    "a load over what a store reads": (
        INIT + STS + FENCE + BAR + PUT2 + TMA + WAIT + READ,
        INIT + STS + FENCE + BAR + PUT2 + READ + TMA + WAIT,
        "missing_wait",
        "WAR",
    ),
    "a store of a load in flight": (
        INIT + TMA + PUT2 + WAIT + READ,
        INIT + TMA + WAIT + PUT2 + READ,
        "missing_wait",
        "RAW",
    ),
    "two loads into one place": (INIT + TMA + MORE + WAIT, INIT + TMA + WAIT + TMA + WAIT1, "missing_wait", "WAW"),
    "two stores into one place": (
        STS + FENCE + BAR + PUT + READ + PUT + READ,
        STS + FENCE + BAR + PUT + DONE + PUT + READ,
        "missing_wait",
        "WAW",
    ),
    "the thread ends before its store has read": (
        STS + FENCE + BAR + PUT,
        STS + FENCE + BAR + PUT + READ,
        "missing_wait",
        None,
    ),
    "cp.async without a fence": (
        LATE + "cp.async.wait_all;\n" + BAR + PUT + READ,
        LATE + "cp.async.wait_all;\n" + FENCE + BAR + PUT + READ,
        "missing_proxy_fence",
        "RAW",
    ),
    "cp.async that is not waited for": (
        LATE + "cp.async.commit_group;\n" + FENCE + BAR + PUT + READ + "cp.async.wait_all;\n",
        LATE + "cp.async.wait_all;\n" + FENCE + BAR + PUT + READ,
        "missing_wait",
        "RAW",
    ),
    "the fence belongs to the writing warps": (
        INIT2 + ZERO + HANDOFF.format(consumer=OWN, producer=FENCE + PUT + READ),
        INIT2 + ZERO + HANDOFF.format(consumer=OWN + FENCE, producer=PUT + READ),
        "missing_proxy_fence",
        "RAW",
    ),
    "a fence in one pass of a loop": (
        INIT + STS + FENCE + BAR + PUT + READ + BAR + STS + BAR + PUT2 + READ,
        INIT + STS + FENCE + BAR + PUT + READ + BAR + STS + FENCE + BAR + PUT2 + READ,
        "missing_proxy_fence",
        "RAW",
    ),
    "global memory: a load of what threads wrote": (
        INIT + STG + BAR + BULK + WAIT,
        INIT + STG + "fence.proxy.async.global;\n" + BAR + BULK + WAIT,
        "missing_proxy_fence",
        "RAW",
    ),
    "global memory: a store over what threads have read": (
        STS + FENCE + LDG + BAR + "@lead cp.async.bulk.global.shared::cta.bulk_group [a0], [s], x3;\n"
        "@lead cp.async.bulk.commit_group;\n" + DONE,
        STS + LDG + "fence.proxy.async;\n" + BAR + "@lead cp.async.bulk.global.shared::cta.bulk_group [a0], [s], x3;\n"
        "@lead cp.async.bulk.commit_group;\n" + DONE,
        "missing_proxy_fence",
        "WAR",
    ),
    "global memory: a store over what threads still read": (
        STS + LDG + FENCE + BAR + LDG + "fence.proxy.async;\n"
        "@lead cp.async.bulk.global.shared::cta.bulk_group [a0], [s], x3;\n@lead cp.async.bulk.commit_group;\n" + DONE,
        STS + LDG + "fence.proxy.async;\n" + BAR + "@lead cp.async.bulk.global.shared::cta.bulk_group [a0], [s], x3;\n"
        "@lead cp.async.bulk.commit_group;\n" + DONE,
        "missing_barrier",
        "WAR",
    ),
    "global memory: a load of what threads write": (
        INIT + STG + "fence.proxy.async.global;\n" + BULK + WAIT,
        INIT + STG + "fence.proxy.async.global;\n" + BAR + BULK + WAIT,
        "missing_barrier",
        "RAW",
    ),
    "global memory: a store that is still being written": (
        STS + FENCE + BAR + "@lead cp.async.bulk.global.shared::cta.bulk_group [a0], [s], x3;\n"
        "@lead cp.async.bulk.commit_group;\n" + READ + BAR + LDG,
        STS + FENCE + BAR + "@lead cp.async.bulk.global.shared::cta.bulk_group [a0], [s], x3;\n"
        "@lead cp.async.bulk.commit_group;\n" + DONE + BAR + LDG,
        "missing_wait",
        "RAW",
    ),
    "global memory: each warp that has read fences by itself": (
        in_turn(FENCE0, "", ""),
        in_turn(FENCE0, "", FENCE1),
        "missing_proxy_fence",
        "WAR",
    ),
    "global memory: a later warp's fence does not stand for an earlier one's": (
        in_turn("", "", FENCE1),
        in_turn(FENCE0, "", FENCE1),
        "missing_proxy_fence",
        "WAR",
    ),
    "global memory: a warp reads again behind its fence": (
        in_turn(FENCE0, FIRST, FENCE1),
        in_turn("", FIRST + FENCE0, FENCE1),
        "missing_proxy_fence",
        "WAR",
    ),
    "shared memory: each lane that has read fences by itself": (
        lanes(""),
        lanes(LEADER_FENCE),
        "missing_proxy_fence",
        "WAR",
    ),
    "global memory: a copy reads what its thread has read before": (
        INIT + "    @lead ld.global.u32 v8, [a0];\n" + BULK + WAIT + PUT_ALL,
        INIT + "    @lead ld.global.u32 v8, [a0];\n" + LEADER_FENCE + BULK + WAIT + PUT_ALL,
        "missing_proxy_fence",
        "WAR",
    ),
    "global memory: a copy of what threads have updated": (
        INIT + "    red.global.add.u32 [a0], 1;\n" + BAR + BULK + WAIT,
        INIT + "    red.global.add.u32 [a0], 1;\n    fence.proxy.async.global;\n" + BAR + BULK + WAIT,
        "missing_proxy_fence",
        "RAW",
    ),
    "global memory: a bulk reduction that is still being written": (
        STS + FENCE + BAR + REDUCE + READ + BAR + LDG,
        STS + FENCE + BAR + REDUCE + DONE + BAR + LDG,
        "missing_wait",
        "RAW",
    ),
    "global memory: the second of two bulk reductions is still being written": (
        STS + FENCE + BAR + REDUCE + REDUCE + DONE.replace("0;", "1;") + READ + BAR + LDG,
        STS + FENCE + BAR + REDUCE + REDUCE + DONE + BAR + LDG,
        "missing_wait",
        "RAW",
    ),
    "global memory: a wait for a bulk reduction behind the barrier": (
        STS + FENCE + BAR + REDUCE + BAR + DONE + "    bar.warp.sync 0xffffffff;\n" + LDG,
        STS + FENCE + BAR + REDUCE + DONE + BAR + LDG,
        "missing_barrier",
        "RAW",
    ),
    "global memory: a bulk load of what a bulk reduction is still writing": (
        STS + FENCE + INIT + REDUCE + READ + BULK + WAIT + DONE,
        STS + FENCE + INIT + REDUCE + DONE + BULK + WAIT,
        "missing_wait",
        "RAW",
    ),
    "global memory: a thread overwrites what a bulk reduction is still writing": (
        STS + FENCE + BAR + REDUCE + READ + "    @lead st.global.u32 [a0], v0;\n",
        STS + FENCE + BAR + REDUCE + DONE + "    @lead st.global.u32 [a0], v0;\n",
        "missing_wait",
        "WAW",
    ),
    "global memory: a bulk store over what a bulk reduction is still writing": (
        STS + FENCE + BAR + REDUCE + READ + PUT_ALL,
        STS + FENCE + BAR + REDUCE + DONE + PUT_ALL,
        "missing_wait",
        "WAW",
    ),
    "global memory: a bulk reduction does not stand for an atomic of its thread": (
        STS + FENCE + INIT + UPDATE + REDUCE + DONE + BULK + WAIT,
        STS + FENCE + INIT + UPDATE + "    @lead fence.proxy.async.global;\n" + REDUCE + DONE + BULK + WAIT,
        "missing_proxy_fence",
        "RAW",
    ),
    "an mbarrier that copies do not know": (
        INIT.replace("    @lead fence.mbarrier_init.release.cluster;\n", "") + TMA + WAIT,
        INIT.replace("mbarrier_init.release.cluster", "proxy.async") + TMA + WAIT,
        "missing_proxy_fence",
        "RAW",
    ),
}  # fmt: skip


def run(body: str, **options: Any) -> Report:
    tensor = np.arange(1024, dtype=np.uint32).reshape(32, 32)
    return simulate(program(body), [TensorMap(tensor, (16, 32)), np.zeros(512, np.uint32)], **options)


def program(body: str) -> str:
    return frame(HEAD + body, maps=1, pointers=1)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_pairs(name: str, schedule: str) -> None:
    wrong, right, kind, hazard = PAIRS[name]
    assembles(program(right))
    silent(run(right, schedule=schedule))
    report = run(wrong, schedule=schedule, gpu=False)
    assert report.findings, "nothing was found"
    if schedule == "random":  # other orders of the warps may show the defect from its other side
        assert {finding.kind for finding in report.findings} <= RACES | {"uninitialised"}
        return
    assert {finding.kind for finding in report.findings} <= {kind, "uninitialised"}, str(report.findings)
    assert report.findings[0].kind == kind
    if hazard:
        assert report.findings[0].hazard == hazard, str(report.findings[0])


SILENT = {
    "an async write needs no fence for generic reads": INIT + TMA + WAIT + LDS + LDS_OTHER,
    "nor for async reads": INIT + TMA + WAIT + PUT2 + READ,
    "other bytes need no fence": INIT + TMA + "    st.shared.v4.u32 [x1+4096], {v0, v1, v2, v3};\n" + WAIT + LDS,
    "a fence stays good without writes": STS + FENCE + BAR + PUT + PUT2 + READ,
    "a bulk reduction of several threads is atomic": STS + FENCE + BAR
    + "@lead cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [a0], [s], x3;\n" * 2
    + "@lead cp.async.bulk.commit_group;\n" + READ,
    "bulk reductions in turn, and atomics": STS + FENCE + BAR
    + (REDUCE + READ) * 2 + BAR + UPDATE.replace("@lead", "") + DONE,
    "expect_tx needs no fence": INIT + LDG + TMA + WAIT,
}  # fmt: skip


@pytest.mark.parametrize("name", SILENT)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_silent(name: str, schedule: str) -> None:
    assembles(program(SILENT[name]))
    silent(run(SILENT[name], schedule=schedule))


def test_a_wrong_number_of_bytes() -> None:
    """Too few expected: the phase may end before the copy has landed. Too many: it never ends."""
    for count, kinds in ((1024, {"missing_wait", "deadlock"}), (4096, {"deadlock"})):
        report = run(INIT + TMA.replace("2048", str(count)) + WAIT + LDS, gpu=False)
        assert report.findings[0].kind in kinds, report.findings


def test_the_finding_names_both_sides() -> None:
    report = run(STS + BAR + PUT + READ, gpu=False)
    finding = report.findings[0]
    assert finding.second is not None
    assert "cp.async.bulk.tensor" in finding.first.text
    assert "st.shared" in finding.second.text
    assert finding.buffer == "smem"
    assert finding.space == "shared"
    assert finding.cure.startswith("fence.proxy.async by thread ")
    assert f"between PTX line {finding.second.line} and line {finding.first.line}" in finding.cure
    assert f"    cure: {finding.cure}" in str(finding)


@pytest.mark.parametrize("how", ["[x1]", "[bar]", "[bar+8]"])
def test_an_mbarrier_is_overwritten(how: str) -> None:
    """By a thread's store, or by a copy."""
    body = INIT.replace("[bar]", "[s+64]") + (STS if how == "[x1]" else TMA.replace("[bar]", "[s+4096]"))
    if how != "[x1]":
        body = INIT.replace("[bar]", "[s+4096]") + body.replace("    bar.sync 0;", "", 1).replace(
            "@lead fence", "@!lead fence"
        )
        body = body.replace("@!lead fence.mbarrier_init.release.cluster;", "") + WAIT.replace("[bar]", "[s+4096]")
    report = run(body, gpu=False)
    assert "barrier_mismatch" in {finding.kind for finding in report.findings}, report.findings


def test_a_copy_outlives_its_cta() -> None:
    silent(run(INIT + TMA + WAIT))
    report = run(INIT + TMA, gpu=False)
    assert [finding.kind for finding in report.findings] == ["missing_wait"]
    assert "has ended" in report.findings[0].message


def test_a_lane_that_arrives_for_its_warp() -> None:
    """All lanes read what the first one gives back: it may speak for them only once the warp has met, whatever shfl
    they have executed together."""
    init = INIT.replace("    @lead fence", "    @lead mbarrier.init.shared::cta.b64 [bar+8], 1;\n    @lead fence")
    body = (
        init
        + """    setp.ne.u32 r, warp, 0;
    @lead st.shared.u32 [s], tid;
    @lead mbarrier.arrive.shared::cta.b64 _, [bar];
    setp.ne.u32 q, warp, 1;
    @q bra OTHERS;
FULL:
    mbarrier.try_wait.parity.shared::cta.b64 p, [bar], 0;
    @!p bra FULL;
    ld.shared.u32 v0, [s];
    shfl.sync.idx.b32 v0, v0, 0, 31, 0xffffffff;
{meet}    setp.eq.u32 q, lane, 0;
    @q mbarrier.arrive.shared::cta.b64 _, [bar+8];
OTHERS:
    @r bra END;
FREE:
    mbarrier.try_wait.parity.shared::cta.b64 p, [bar+8], 0;
    @!p bra FREE;
    @lead st.shared.u32 [s], tid;
END:
"""
    )
    silent(run(body.format(meet="    bar.warp.sync 0xffffffff;\n"), gpu=False))
    report = run(body.format(meet=""), gpu=False)
    finding = report.findings[0]
    assert (finding.kind, finding.hazard) == ("missing_barrier", "WAR")
    assert "thread 33 has read" in finding.message, "the first lane has arrived itself"
    assert "bar.warp.sync before the lane arrives" in finding.cure


def test_the_finding_names_the_cta_whose_copy_it_is() -> None:
    """Threads of both CTAs overwrite theirs with one instruction; only the second one's is being read."""
    put = "    setp.eq.and.u32 r, cta, 1, lead;\n" + PUT.replace("@lead", "@r")
    done = READ.replace("@lead", "@r")
    silent(run(STS + FENCE + BAR + put + done + BAR + STS, grid=2))
    finding = run(STS + FENCE + BAR + put + STS + done, grid=2, gpu=False).findings[0]
    assert (finding.kind, finding.hazard) == ("missing_wait", "WAR")
    assert finding.first.cta == (1, 0, 0)
    assert finding.cure.startswith("cp.async.bulk.wait_group.read")


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("elsewhere", ["", "    @lead red.relaxed.cta.global.add.u32 [a0+1024], 1;\n"])
def test_ctas_reduce_into_one_place(schedule: str, elsewhere: str) -> None:
    """They may, even where other atomics do not speak to all of the launch; what they make belongs to no others."""
    elsewhere = "    setp.eq.and.u32 r, cta, 1, lead;\n" + elsewhere.replace("@lead", "@r")
    body = elsewhere + "    mov.u32 x3, 512;\n" + STS + FENCE + BAR + REDUCE
    silent(run(body + DONE, grid=4, schedule=schedule))
    report = run(body + DONE + BAR + LDG, grid=4, schedule=schedule, gpu=False)
    assert {finding.kind for finding in report.findings} <= {"missing_barrier", "missing_wait"}
    assert report.findings


MEETING = """    @lead red.release.gpu.global.add.u32 [a0+1024], 1;
SPIN:
    @lead ld.acquire.gpu.global.u32 v9, [a0+1024];
    @!lead mov.u32 v9, 2;
    setp.lt.u32 p, v9, 2;
    @p bra SPIN;
    bar.sync 0;
    @q ld.global.v4.u32 {v8, v9, v10, v11}, [y1];
"""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_ctas_read_what_all_have_reduced(schedule: str) -> None:
    """When they have met, each having waited for its own; to meet first, or to wait for the reads alone, is wrong."""
    body = "    mov.u32 x3, 512;\n" + STS + FENCE + BAR + REDUCE
    assembles(program(body + DONE + MEETING))
    silent(run(body + DONE + MEETING, grid=2, schedule=schedule))
    for wrong in (READ + MEETING, MEETING + DONE):
        report = run(body + wrong, grid=2, schedule=schedule, gpu=False)
        assert {finding.kind for finding in report.findings} == {"missing_wait"}, report.findings


def test_the_finding_names_the_bulk_reduction() -> None:
    """The one that is still being written, not the one that is over."""
    pair = REDUCE + DONE + REDUCE.replace("[a0]", "[y2]").replace("x3", "32")
    body = "    add.u64 y2, a0, 1024;\n" + STS + FENCE + BAR + pair + READ + BAR + LDG
    finding = run(body, gpu=False).findings[0]
    assert finding.kind == "missing_wait"
    assert finding.second is not None
    assert "[y2]" in finding.second.text
    assert finding.bytes == (1024, 1040)
    assert finding.cure.startswith("cp.async.bulk.wait_group by the thread that issued the copy")
