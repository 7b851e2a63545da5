"""The race model: for each kind of finding a program that has it and one that does not.

Bodies run with one input `a` (an array) and registers `tid` and `s` (the shared tile's address) ready. Where a case
names what must be found, it also shows the fixed twin next to it, which must be silent.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minitile.runtime.sim import Finding, RaceError, Report, SimulationError, run_ptx
from tests.sim.ptx.harness import assemble

HEADER = """.version 8.0
.target {target}
.address_size 64
.file 1 "kernel.py"
.visible .entry k(.param .u64 pa, .param .u64 pb) {{
    .shared .align 128 .b8 tile[4096];
    .reg .b32 tid, cta, s, own, next, v, w, x<8>, lane, warp;
    .reg .b64 a, b, at, bt, off;
    .reg .pred p, q;
    .loc 1 3 0
    ld.param.u64 a, [pa];
    ld.param.u64 b, [pb];
    mov.u32 tid, %tid.x;
    mov.u32 cta, %ctaid.x;
    mov.u32 s, tile;
    mov.u32 lane, %laneid;
    shr.u32 warp, tid, 5;
    shl.b32 own, tid, 2;
    add.u32 own, own, s;          // this thread's word
    add.u32 next, tid, 1;
    and.b32 next, next, 63;
    shl.b32 next, next, 2;
    add.u32 next, next, s;        // its neighbour's word
    mul.wide.u32 off, tid, 4;
    add.u64 at, a, off;
    add.u64 bt, b, off;
    mov.u32 v, 5;
    .loc 1 7 0
"""


def program(body: str, target: str = "sm_80") -> str:
    return HEADER.format(target=target) + body + "\n    ret;\n}\n"


def execute(body: str, block: int = 64, grid: int = 1, **options: Any) -> Report:
    data = np.arange(4096, dtype=np.uint32)
    return run_ptx(program(body), "k", (grid,), (block,), [data, np.zeros(4096, np.uint32)], **options)


def only(report: Report, kind: str, hazard: str | None = None) -> Finding:
    """The first finding; all of them must be of this kind."""
    assert report.findings, f"nothing found, expected {kind}"
    for finding in report.findings:
        assert finding.kind == kind, str(finding)
    if hazard:
        assert report.findings[0].hazard == hazard, str(report.findings[0])
    return report.findings[0]


COPY = "cp.async.ca.shared.global [own], [at], 4;\n"
PAIRS: dict[str, tuple[str, str, str, str | None]] = {
    # name: (wrong, right, kind, hazard)
    "neighbour read after a write": (
        "st.shared.u32 [own], tid;\nld.shared.u32 v, [next];",
        "st.shared.u32 [own], tid;\nbar.sync 0;\nld.shared.u32 v, [next];",
        "missing_barrier",
        "RAW",
    ),
    "overwrite what the neighbour reads": (
        "st.shared.u32 [own], tid;\nbar.sync 0;\nld.shared.u32 v, [next];\nst.shared.u32 [own], v;",
        "st.shared.u32 [own], tid;\nbar.sync 0;\nld.shared.u32 v, [next];\nbar.sync 0;\nst.shared.u32 [own], v;",
        "missing_barrier",
        "WAR",
    ),
    "two writers": (
        "st.shared.u32 [own], tid;\nst.shared.u32 [next], tid;",
        "st.shared.u32 [own], tid;\nbarrier.sync.aligned 1;\nst.shared.u32 [next], tid;",
        "missing_barrier",
        "WAW",
    ),
    "shfl orders nothing": (
        "st.shared.u32 [own], tid;\nshfl.sync.idx.b32 w, v, 0, 31, -1;\n"
        "xor.b32 next, own, 4;\nld.shared.u32 v, [next];",
        "st.shared.u32 [own], tid;\nbar.warp.sync -1;\nxor.b32 next, own, 4;\nld.shared.u32 v, [next];",
        "missing_barrier",
        "RAW",
    ),
    "bar.warp.sync is for one warp only": (
        "st.shared.u32 [own], tid;\nbar.warp.sync -1;\nxor.b32 next, own, 128;\nld.shared.u32 v, [next];",
        "st.shared.u32 [own], tid;\nbar.warp.sync -1;\nbar.sync 0;\nxor.b32 next, own, 128;\nld.shared.u32 v, [next];",
        "missing_barrier",
        "RAW",
    ),
    "bar.warp.sync of half a warp": (
        "and.b32 x0, lane, 16;\nsetp.eq.u32 p, x0, 0;\nst.shared.u32 [own], tid;\n"
        "@p bar.warp.sync 0xFFFF;\n@!p bar.warp.sync 0xFFFF0000;\nxor.b32 next, own, 64;\nld.shared.u32 v, [next];",
        "and.b32 x0, lane, 16;\nsetp.eq.u32 p, x0, 0;\nst.shared.u32 [own], tid;\n"
        "@p bar.warp.sync 0xFFFF;\n@!p bar.warp.sync 0xFFFF0000;\nxor.b32 next, own, 4;\nld.shared.u32 v, [next];",
        "missing_barrier",
        "RAW",
    ),
    "own copy not waited for": (
        COPY + "cp.async.commit_group;\nld.shared.u32 v, [own];",
        COPY + "cp.async.commit_group;\ncp.async.wait_group 0;\nld.shared.u32 v, [own];",
        "missing_wait",
        "RAW",
    ),
    "a wait that leaves the group in flight": (
        COPY + "cp.async.commit_group;\ncp.async.wait_group 1;\nbar.sync 0;\nld.shared.u32 v, [next];",
        COPY + "cp.async.commit_group;\ncp.async.commit_group;\n"
        "cp.async.wait_group 1;\nbar.sync 0;\nld.shared.u32 v, [next];",
        "missing_wait",
        "RAW",
    ),
    "an uncommitted copy": (
        COPY + "cp.async.wait_group 0;\nld.shared.u32 v, [own];",
        COPY + "cp.async.wait_all;\nld.shared.u32 v, [own];",
        "missing_wait",
        "RAW",
    ),
    "the neighbour's copy without a barrier": (
        COPY + "cp.async.wait_all;\nld.shared.u32 v, [next];",
        COPY + "cp.async.wait_all;\nbar.sync 0;\nld.shared.u32 v, [next];",
        "missing_barrier",
        "RAW",
    ),
    "barrier before the wait": (
        COPY + "bar.sync 0;\ncp.async.wait_all;\nld.shared.u32 v, [next];",
        COPY + "cp.async.wait_all;\nbar.sync 0;\nld.shared.u32 v, [next];",
        "missing_barrier",
        "RAW",
    ),
    "a copy over what is still read": (
        "st.shared.u32 [own], tid;\nbar.sync 0;\nld.shared.u32 v, [next];\n" + COPY + "cp.async.wait_all;",
        "st.shared.u32 [own], tid;\nbar.sync 0;\nld.shared.u32 v, [next];\nbar.sync 0;\n" + COPY + "cp.async.wait_all;",
        "missing_barrier",
        "WAR",
    ),
    "a store into a copy in flight": (
        COPY + "st.shared.u32 [own], tid;\ncp.async.wait_all;",
        COPY + "cp.async.wait_all;\nst.shared.u32 [own], tid;",
        "missing_wait",
        "WAW",
    ),
    "read of shared memory never written": (
        "ld.shared.u32 v, [own];",
        "st.shared.u32 [own], v;\nld.shared.u32 v, [own];",
        "uninitialised",
        None,
    ),
    "atomics and plain stores": (
        "setp.eq.u32 p, tid, 40;\n@p st.shared.u32 [s], v;\nbar.sync 0;\n"
        "atom.shared.add.u32 v, [s], 1;\n@p st.shared.u32 [s], v;",
        "setp.eq.u32 p, tid, 40;\n@p st.shared.u32 [s], v;\nbar.sync 0;\n"
        "atom.shared.add.u32 v, [s], 1;\nred.shared.add.u32 [s], 1;",
        "missing_barrier",
        "WAW",
    ),
    "one instruction, one place": (
        "st.shared.u32 [s], tid;",
        "setp.eq.u32 p, tid, 0;\n@p st.shared.u32 [s], tid;",
        "missing_barrier",
        "WAW",
    ),
    "bytes of one word": (
        "st.shared.u8 [own], tid;\nst.shared.u8 [next], tid;",
        "st.shared.u8 [own], tid;\nst.shared.u8 [next+1], tid;",
        "missing_barrier",
        "WAW",
    ),
    "global memory within a CTA": (
        "xor.b64 bt, bt, 128;\nld.global.u32 v, [bt];\nxor.b64 bt, bt, 128;\nst.global.u32 [bt], v;",
        "xor.b64 bt, bt, 128;\nld.global.u32 v, [bt];\nbar.sync 0;\nxor.b64 bt, bt, 128;\nst.global.u32 [bt], v;",
        "missing_barrier",
        "WAR",
    ),
    "named barrier of one half": (
        "setp.lt.u32 p, tid, 32;\nst.shared.u32 [own], tid;\n@p bar.sync 1, 32;\nxor.b32 next, own, 128;\n"
        "setp.lt.u32 p, tid, 32;\n@p ld.shared.u32 v, [next];",
        "setp.lt.u32 p, tid, 32;\nst.shared.u32 [own], tid;\n"
        "@!p bar.arrive 1, 64;\n@p bar.sync 1, 64;\nxor.b32 next, own, 128;\n"
        "setp.lt.u32 p, tid, 32;\n@p ld.shared.u32 v, [next];",
        "missing_barrier",
        "RAW",
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_pair(name: str) -> None:
    wrong, right, kind, hazard = PAIRS[name]
    finding = only(execute(wrong), kind, hazard)
    assert finding.first.source == "kernel.py:7"
    for schedule in ("eager", "lazy", "random"):
        report = execute(right, schedule=schedule, seed=3)
        assert not report.findings, str(report.findings[0])


@pytest.mark.parametrize("name", PAIRS)
def test_found_under_every_schedule(name: str) -> None:
    wrong, _, kind, _ = PAIRS[name]
    for schedule, seed in (("eager", 0), ("random", 1), ("random", 2)):
        kinds = {finding.kind for finding in execute(wrong, schedule=schedule, seed=seed).findings}
        # Another order may meet the same defect as a read before the write, or before the wait.
        alike = {"missing_wait", "missing_barrier", "uninitialised"} if kind != "uninitialised" else {kind}
        assert kinds, "nothing found"
        assert kinds <= alike


CURES = {
    "bar.sync": "bar.sync 0;",
    "bar.warp.sync": "bar.warp.sync -1;",
    "cp.async.wait_group": "cp.async.wait_all;\nbar.sync 0;",
}


@pytest.mark.parametrize("name", [name for name, pair in PAIRS.items() if pair[2].startswith("missing")])
def test_the_cure_cures(name: str) -> None:
    """What the finding asks for, put before the later of its accesses, leaves nothing to find at that pair."""
    wrong, _, _, _ = PAIRS[name]
    if name == "one instruction, one place":
        assert execute(wrong).findings[0].cure.startswith("let one of them do it, or each on bytes of its own")
        return
    lines = program(wrong).splitlines()
    for _ in range(4):
        data = np.arange(4096, dtype=np.uint32)
        report = run_ptx("\n".join(lines), "k", (1,), (64,), [data, np.zeros(4096, np.uint32)])
        if not report.findings:
            return
        finding = report.findings[0]
        lines.insert(finding.first.line - 1, CURES[finding.cure.split()[0]].replace("\n", " "))
    pytest.fail(f"not cured: {finding}")


def test_bodies_assemble() -> None:
    problems = [assemble(program(body)) for pair in PAIRS.values() for body in pair[:2]]
    assert not [problem for problem in problems if problem]


def test_bar_arrive_gives_no_knowledge() -> None:
    """The arriving half may not read what the waiting half wrote."""
    body = (
        "setp.lt.u32 p, tid, 32;\n@p st.shared.u32 [own], tid;\n@!p bar.arrive 1, 64;\n@p bar.sync 1, 64;\n"
        "xor.b32 next, own, 128;\n@!p ld.shared.u32 v, [next];"
    )
    kinds = {finding.kind for finding in execute(body).findings}
    assert kinds <= {"missing_barrier", "uninitialised"}
    assert kinds


def test_findings_name_both_lines_and_the_bytes() -> None:
    finding = only(execute(PAIRS["neighbour read after a write"][0]), "missing_barrier")
    assert finding.space == "shared"
    assert finding.buffer == "tile"
    assert finding.bytes == (4, 8)
    assert finding.second is not None
    assert "ld.shared" in finding.first.text
    assert "st.shared" in finding.second.text
    assert finding.first.line == finding.second.line + 1
    assert (
        finding.cure
        == f"bar.warp.sync (or bar.sync) between PTX line {finding.second.line} and line {finding.first.line}"
    )
    assert "    bytes 4 to 7 of tile (shared)\n" in str(finding)


def test_comments_name_parts_of_an_array() -> None:
    """As minitile writes them: which bytes are whose; two buffers may share theirs at different times."""
    text = program(PAIRS["neighbour read after a write"][0]).replace(
        "    .shared .align 128 .b8 tile[4096];",
        ".shared .align 128 .b8 first[128]; .extern .shared .align 128 .b8 tile[];\n"
        "// tile[0:32] is A, 8 versions\n// tile[4:36] is B",
    )
    data = np.zeros(64, np.uint32)
    finding = run_ptx(text, "k", (1,), (64,), [data, data.copy()], dynamic_shared=4096).findings[0]
    assert (finding.buffer, finding.bytes) == ("A[1] or B", (0, 4))


def test_raising() -> None:
    with pytest.raises(RaceError, match=r"st\.shared"):
        execute(PAIRS["two writers"][0]).raise_if_findings()
    with pytest.raises(SimulationError) as caught:
        execute("ld.shared.u32 v, [own];").raise_if_findings()
    assert not isinstance(caught.value, RaceError)
    execute(PAIRS["two writers"][1]).raise_if_findings()


def test_check_off_finds_no_races_and_faults_still() -> None:
    assert not execute(PAIRS["two writers"][0], check=False).findings
    only(execute("ld.shared.u32 v, [own+4096];", check=False), "out_of_bounds")


ONE_WROTE = "setp.eq.u32 q, tid, 0;\n@q st.shared.u32 [s], v;\nbar.sync 0;\n"
IN_TURN = """
setp.eq.u32 q, lane, 0;
setp.eq.u32 p, warp, 0;
@!p bra SECOND;
{first}
bra END;
SECOND:
setp.eq.u32 p, warp, 1;
@!p bra LAST;
bar.sync 1, 64;
{read}
bar.arrive 2, 64;
bra END;
LAST:
bar.sync 3, 64;
bar.sync 2, 64;
@q st.{space}.u32 {at}, v;
END:
"""


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
@pytest.mark.parametrize(("space", "at"), [("shared", "[s]"), ("global", "[b]")])
def test_readers_are_told_apart(space: str, at: str, schedule: str) -> None:
    """Two warps read what the third overwrites. The first one hands over to both others, and then the second reads: the
    first is known by its own last read, not by that later one."""
    read, handover = f"ld.{space}.u32 w, {at};\n", "bar.arrive 1, 64;\nbar.arrive 3, 64;\n"
    for first, fine in ((read + handover, True), (handover + read, False), (read + handover + read, False)):
        body = ONE_WROTE + IN_TURN.format(first=first, read=read, space=space, at=at)
        report = execute(body, block=96, schedule=schedule)
        if fine:
            assert not report.findings, str(report.findings[0])
        else:
            only(report, "missing_barrier")


@pytest.mark.parametrize("space", ["shared", "global"])
def test_lanes_are_told_apart(space: str) -> None:
    """Of a warp only those lanes count that have read."""
    at = {"shared": "[s]", "global": "[b]"}[space]
    body = ONE_WROTE + "setp.lt.u32 p, tid, {readers};\n@p ld.{space}.u32 w, {at};\nsetp.lt.u32 p, tid, 2;\n"
    body += "@p bar.warp.sync 3;\nsetp.eq.u32 q, tid, 0;\n@q st.{space}.u32 {at}, v;"
    report = execute(body.format(readers=2, space=space, at=at))
    assert not report.findings, str(report.findings[0])
    only(execute(body.format(readers=3, space=space, at=at)), "missing_barrier", "WAR")


# -- across CTAs --------------------------------------------------------------------------------


@pytest.mark.parametrize("writer", [0, 1])
def test_ctas_read_what_one_of_them_writes(writer: int) -> None:
    """Whichever of them has read last."""
    finding = only(
        execute(f"ld.global.u32 w, [bt];\nsetp.eq.u32 p, cta, {writer};\n@p st.global.u32 [bt], v;", grid=2),
        "missing_barrier",
        "WAR",
    )
    assert "CTAs" in finding.cure


def test_ctas_must_not_share_plain_stores() -> None:
    finding = only(execute("st.global.u32 [bt], v;", grid=2), "missing_barrier", "WAW")
    assert finding.space == "global"
    assert finding.buffer == "pb"
    assert not execute("red.global.add.u32 [bt], v;", grid=2).findings


def test_a_cta_reads_what_another_wrote() -> None:
    body = "setp.eq.u32 p, cta, 0;\n@p st.global.u32 [bt], v;\n@!p ld.global.u32 w, [bt];"
    finding = execute(body, grid=2).findings[0]
    assert finding.kind == "missing_barrier"
    assert "CTAs" in finding.cure


HANDOFF = """
    setp.eq.u32 q, tid, 0;
    setp.eq.u32 p, cta, 0;
    @!p bra CONSUMER;
    st.global.u32 [bt], tid;
    bar.sync 0;
    {release}
    bra DONE;
CONSUMER:
    @!q bra WAITED;
SPIN:
    {acquire}
    setp.eq.u32 p, w, 0;
    @p bra SPIN;
WAITED:
    bar.sync 0;
    ld.global.u32 v, [bt];
DONE:
"""


@pytest.mark.parametrize(
    ("release", "acquire", "fine"),
    [
        ("@q st.release.gpu.global.u32 [b+8192], 1;", "ld.acquire.gpu.global.u32 w, [b+8192];", True),
        (
            "@q fence.acq_rel.gpu;\n@q atom.global.add.u32 w, [b+8192], 1;",
            "ld.volatile.global.u32 w, [b+8192];\nmembar.gl;",
            True,
        ),
        ("@q atom.release.gpu.global.add.u32 w, [b+8192], 1;", "atom.acquire.gpu.global.or.b32 w, [b+8192], 0;", True),
        ("@q st.relaxed.gpu.global.u32 [b+8192], 1;", "ld.acquire.gpu.global.u32 w, [b+8192];", False),
        ("@q st.release.gpu.global.u32 [b+8192], 1;", "ld.relaxed.gpu.global.u32 w, [b+8192];", False),
    ],
)
def test_handoff_between_ctas(release: str, acquire: str, fine: bool) -> None:
    body = HANDOFF.format(release=release, acquire=acquire)
    assert assemble(program(body)) is None
    report = execute(body, grid=2)
    if fine:
        assert not report.findings, str(report.findings[0])
    else:
        only(report, "missing_barrier", "RAW")


# -- barriers --------------------------------------------------------------------------------


def test_divergent_barrier() -> None:
    finding = only(
        execute("setp.lt.u32 p, lane, 7;\n@p bar.sync 0;\n@!p bra L;\nL:\n@!p bar.sync 0;"), "divergent_barrier"
    )
    assert "bar.sync" in finding.message


def test_deadlock_names_who_waits() -> None:
    finding = only(execute("setp.lt.u32 p, tid, 32;\n@p bar.sync 1, 64;\n@!p bar.sync 2, 64;"), "deadlock")
    assert finding.second is not None
    assert {finding.first.text, finding.second.text} == {"@p bar.sync 1, 64", "@!p bar.sync 2, 64"}
    assert "32 threads" in finding.message


def test_waiting_for_memory_that_nobody_changes() -> None:
    finding = only(execute("L:\nld.volatile.global.u32 v, [b];\nsetp.eq.u32 p, v, 0;\n@p bra L;", grid=2), "deadlock")
    assert "no thread changes" in finding.message
    assert finding.first.text == "@p bra L"


def test_exited_threads_do_not_hold_up_barriers() -> None:
    assert not execute("setp.lt.u32 p, tid, 32;\n@p exit;\nbar.sync 0;").findings


TEAMS = """
    setp.lt.u32 p, tid, 64;
    @!p bra OTHERS;
    bar.sync 1, 64;
    {one}
    bra DONE;
OTHERS:
    {two}
DONE:
"""
AHEAD = """
    setp.lt.u32 p, tid, 32;
    @p bar.arrive 1, 64;
    @!p bar.sync 1, 64;
    {between}
    @p bar.arrive 1, 64;
    @!p bar.sync 1, 64;
"""


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
def test_phases_of_a_barrier_are_told_apart(schedule: str) -> None:
    """Two teams with one number, and a warp that arrives again although the phase before may be under way: wrong even
    where the order of this run is a lucky one."""
    wrong = [(TEAMS.format(one="", two="bar.sync 1, 64;"), 128), (AHEAD.format(between=""), 64)]
    for body, block in wrong:
        found = execute(body, block=block, schedule=schedule).findings
        assert {finding.kind for finding in found} <= {"barrier_mismatch", "deadlock"}
        assert found
    assert "may be counted in the phase before" in execute(wrong[0][0], block=128).findings[0].message
    handed_on = TEAMS.format(one="bar.arrive 3, 128;", two="bar.sync 3, 128;\n    bar.sync 1, 64;")
    for body, block in (
        (TEAMS.format(one="", two="bar.sync 2, 64;"), 128),
        (handed_on, 128),
        (AHEAD.format(between="@!p bar.arrive 2, 64;\n    @p bar.sync 2, 64;"), 64),
        (AHEAD.format(between="bar.sync 0;"), 64),
    ):
        report = execute(body, block=block, schedule=schedule)
        assert not report.findings, str(report.findings[0])


def test_barrier_counts() -> None:
    only(execute("bar.sync 0, 48;"), "barrier_mismatch")
    only(execute("setp.lt.u32 p, tid, 32;\n@p bar.sync 1, 64;\n@!p bar.sync 1, 32;"), "barrier_mismatch")
    assert not execute("bar.sync 0, 64;").findings


def test_bar_red() -> None:
    data, out = np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32)
    body = (
        "setp.lt.u32 p, tid, 10;\nbar.red.popc.u32 v, 0, p;\n"
        "bar.red.or.pred q, 1, p;\n@q add.u32 v, v, 100;\nst.global.u32 [bt], v;"
    )
    assert assemble(program(body)) is None
    report = run_ptx(program(body), "k", (1,), (64,), [data, out])
    assert not report.findings
    assert (out == 110).all()


# -- faults --------------------------------------------------------------------------------


def test_out_of_bounds_names_the_buffer() -> None:
    report = execute("st.global.u32 [bt+16384], v;")
    finding = only(report, "out_of_bounds")
    assert report.stopped
    assert finding.buffer == "pb"
    assert "byte 16384 of 16384" in finding.message
    assert finding.first.thread == (0, 0, 0)


def test_out_of_bounds_of_one_thread_only() -> None:
    finding = only(execute("mul.wide.u32 off, tid, 272;\nadd.u64 bt, b, off;\nld.global.u32 v, [bt];"), "out_of_bounds")
    assert finding.first.thread == (61, 0, 0)


def test_misaligned() -> None:
    only(execute("ld.global.v2.u32 {v, w}, [at];"), "misaligned")
    only(execute("ld.shared.u32 v, [own+2];"), "misaligned")


def test_null_pointer() -> None:
    only(execute("mov.u64 at, 0;\nld.global.u32 v, [at];"), "out_of_bounds")
    only(execute("mov.u64 at, 0;\nld.u32 v, [at];"), "out_of_bounds")


def test_unwritten_registers() -> None:
    finding = only(execute("setp.lt.u32 p, tid, 5;\n@p mov.u32 w, 3;\nadd.u32 v, w, 1;"), "uninitialised")
    assert finding.buffer == "w"
    assert finding.first.thread == (5, 0, 0)
    assert not execute("setp.lt.u32 p, tid, 5;\n@p mov.u32 w, 3;\n@p add.u32 v, w, 1;").findings
    assert only(execute("@q add.u32 v, v, 1;"), "uninitialised").buffer == "q"


def test_trap() -> None:
    only(execute("setp.eq.u32 p, tid, 9;\n@p trap;"), "trap")
