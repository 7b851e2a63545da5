"""Scopes: a release and an acquire synchronise only where each one's scope has the other one's thread in it.

Four blocks in clusters of two. Thread 0 of block 0 writes and releases, thread 32 of block 0, 1 or 2 acquires and
reads: they are in one block, in one cluster, or in one launch, and need .cta, .cluster and .gpu.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minitile.runtime.sim import Report
from tests.sim.ptx.hopper import assembles, frame, silent, simulate

SCHEDULES = ["eager", "lazy", "random"]
SCOPES = ["cta", "cluster", "gpu", "sys"]
HEAD = """    setp.eq.u32 q, cta, 0;
    and.pred q, q, lead;              // who writes
    setp.eq.u32 r, cta, {reader};
    setp.eq.u32 p, tid, 32;
    and.pred r, r, p;                 // who reads
    mov.u32 v0, 1;
    mov.u32 v1, 2;
"""
HANDOFF = """    @q st.global.u32 [a0], v0;
{release}
    @!r bra END;
SPIN:
{acquire}
    setp.eq.u32 p, x0, 0;
    @p bra SPIN;
{behind}
    ld.global.u32 x1, [a0];
END:
"""
FLAG = "[a0+64]"


def lines(text: str, guard: str = "") -> str:
    """The instructions of a text that has one in each line, or several between semicolons."""
    return "\n".join(f"    {guard}{each.strip()};" for each in text.split(";") if each.strip())


def handoff(reader: int, release: str, acquire: str, behind: str = "") -> str:
    body = HANDOFF.format(release=lines(release, "@q "), acquire=lines(acquire), behind=lines(behind))
    return HEAD.format(reader=reader) + body


def run(body: str, schedule: str = "lazy", check: bool = True, **options: Any) -> Report:
    text = frame(body, limits=".reqnctapercluster 2, 1, 1")
    if check:
        assembles(text)
    args = options.pop("args", [np.zeros(64, np.uint32)])
    return simulate(text, args, block=64, grid=4, cluster=(2, 1, 1), schedule=schedule, **options)


FORMS = {
    "operations": (f"st.release.{{0}}.global.u32 {FLAG}, v0", f"ld.acquire.{{1}}.global.u32 x0, {FLAG}", ""),
    "fences": (
        f"fence.acq_rel.{{0}}; st.relaxed.sys.global.u32 {FLAG}, v0",
        f"ld.relaxed.sys.global.u32 x0, {FLAG}",
        "fence.acq_rel.{1}",
    ),
    "the accesses": (
        f"fence.acq_rel.gpu; st.relaxed.{{0}}.global.u32 {FLAG}, v0",
        f"ld.relaxed.{{1}}.global.u32 x0, {FLAG}",
        "fence.acq_rel.gpu",
    ),
    "atomics": (
        f"red.release.{{0}}.global.add.u32 {FLAG}, v0",
        f"mov.u32 x2, 0; atom.acquire.{{1}}.global.add.u32 x0, {FLAG}, x2",
        "",
    ),
}


@pytest.mark.parametrize("reader", [0, 1, 2])
@pytest.mark.parametrize("form", FORMS)
def test_both_scopes_reach_the_other_thread(form: str, reader: int) -> None:
    for mine, release in enumerate(SCOPES):
        for theirs, acquire in enumerate(SCOPES):
            body = handoff(reader, *(each.format(release, acquire) for each in FORMS[form]))
            report = run(body, gpu=False)
            if reader <= min(mine, theirs):
                silent(report)
            else:
                assert {f.kind for f in report.findings} == {"missing_barrier"}, (release, acquire)
                assert {f.hazard for f in report.findings} <= {"RAW", "WAW", "WAR"}


PAIRS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    # name: (wrong, right), each what `handoff` takes
    "a release at another place": (
        (f"st.release.gpu.global.u32 [a0+128], v0; st.relaxed.gpu.global.u32 {FLAG}, v0",
         f"ld.acquire.gpu.global.u32 x0, {FLAG}"),
        (f"st.relaxed.gpu.global.u32 [a0+128], v0; st.release.gpu.global.u32 {FLAG}, v0",
         f"ld.acquire.gpu.global.u32 x0, {FLAG}"),
    ),
    "an acquire at another place": (
        (f"st.release.gpu.global.u32 {FLAG}, v0", f"ld.relaxed.gpu.global.u32 x0, {FLAG}",
         "ld.acquire.gpu.global.u32 x2, [a0+128]"),
        (f"st.release.gpu.global.u32 {FLAG}, v0", f"ld.relaxed.gpu.global.u32 x0, {FLAG}", "fence.acq_rel.gpu"),
    ),
    "a fence behind the flag": (
        (f"st.relaxed.gpu.global.u32 {FLAG}, v0; fence.acq_rel.gpu", f"ld.acquire.gpu.global.u32 x0, {FLAG}"),
        (f"fence.acq_rel.gpu; st.relaxed.gpu.global.u32 {FLAG}, v0", f"ld.acquire.gpu.global.u32 x0, {FLAG}"),
    ),
    "a narrow fence behind a wide one": (
        (f"fence.acq_rel.cta; st.relaxed.gpu.global.u32 {FLAG}, v0", f"ld.acquire.gpu.global.u32 x0, {FLAG}"),
        (f"fence.acq_rel.gpu; fence.acq_rel.cta; st.relaxed.gpu.global.u32 {FLAG}, v0",
         f"ld.acquire.gpu.global.u32 x0, {FLAG}"),
    ),
    "a narrow fence behind a wide one, on the other side": (
        (f"st.release.gpu.global.u32 {FLAG}, v0", f"ld.relaxed.gpu.global.u32 x0, {FLAG}", "fence.acq_rel.cta"),
        (f"st.release.gpu.global.u32 {FLAG}, v0", f"ld.relaxed.gpu.global.u32 x0, {FLAG}",
         "fence.acq_rel.cta; fence.acq_rel.gpu"),
    ),
    "an atomic that does not release": (
        (f"red.relaxed.gpu.global.add.u32 {FLAG}, v0", f"ld.acquire.gpu.global.u32 x0, {FLAG}"),
        (f"red.release.gpu.global.add.u32 {FLAG}, v0", f"ld.acquire.gpu.global.u32 x0, {FLAG}"),
    ),
    "an atomic is of the GPU's scope by itself": (
        (f"fence.acq_rel.gpu; red.cta.global.add.u32 {FLAG}, v0", f"ld.acquire.gpu.global.u32 x0, {FLAG}"),
        (f"fence.acq_rel.gpu; red.global.add.u32 {FLAG}, v0", f"ld.acquire.gpu.global.u32 x0, {FLAG}"),
    ),
    "a membar of the block": (
        (f"membar.cta; st.volatile.global.u32 {FLAG}, v0", f"ld.volatile.global.u32 x0, {FLAG}", "membar.gl"),
        (f"membar.gl; st.volatile.global.u32 {FLAG}, v0", f"ld.volatile.global.u32 x0, {FLAG}", "membar.gl"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_pairs(name: str, schedule: str) -> None:
    wrong, right = PAIRS[name]
    silent(run(handoff(2, *right), schedule))
    report = run(handoff(2, *wrong), schedule, gpu=False)
    assert {f.kind for f in report.findings} == {"missing_barrier"}, report.findings


def test_a_flag_that_others_have_overwritten() -> None:
    """Who reads 2 has read the second writer's store, not the first one's; an atomic hands on what it has found."""
    second = """    setp.eq.u32 q, cta, 1;
    and.pred q, q, lead;
    @!q bra READER;
SECOND:
    ld.relaxed.gpu.global.u32 x0, [a0+64];
    setp.eq.u32 p, x0, 0;
    @p bra SECOND;
    {update};
READER:
"""
    body = handoff(2, f"st.release.gpu.global.u32 {FLAG}, v0", f"ld.acquire.gpu.global.u32 x0, {FLAG}")
    body = body.replace("    @!r bra END;\n", second + "    @!r bra END;\n").replace(
        "p, x0, 0;\n    @p bra SPIN", "p, x0, 2;\n    @!p bra SPIN"
    )
    stored = body.format(update=f"st.relaxed.gpu.global.u32 {FLAG}, v1")
    added = body.format(update=f"red.relaxed.gpu.global.add.u32 {FLAG}, v0")
    silent(run(added))
    assert {f.hazard for f in run(stored, gpu=False).findings} == {"RAW"}


@pytest.mark.parametrize(("scope", "blocks"), [("cta", 1), ("cluster", 2), ("gpu", 4)])
def test_atomics_reach_as_far_as_their_scope(scope: str, blocks: int) -> None:
    """`blocks` blocks add at one place; more than the scope has in it are a race, as with plain stores."""
    for count in (1, 2, 4):
        body = f"    setp.lt.u32 p, cta, {count};\n    @p red.relaxed.{scope}.global.add.u32 [a0], tid;\n"
        found = {(f.kind, f.hazard) for f in run(body, gpu=False).findings}
        assert found == (set() if count <= blocks else {("missing_barrier", "WAW")}), (scope, count)


def test_atomics_in_a_clusters_shared_memory() -> None:
    body = """    @lead st.shared.u32 [s], tid;
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
    mapa.shared::cluster.u32 x1, s, 0;
    atom.relaxed.{scope}.shared::cluster.add.u32 x2, [x1], 3;
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
"""
    silent(run(body.format(scope="cluster")))
    assert {f.hazard for f in run(body.format(scope="cta"), gpu=False).findings} == {"WAW"}


REMOTE = """    @lead mbarrier.init.shared::cta.b64 [bar], 1;
    @lead fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
    setp.eq.u32 q, rank, 1;
    and.pred q, q, lead;
    mapa.shared::cluster.u32 x1, s, 0;
    mapa.shared::cluster.u32 x2, bar, 0;
    @q st.shared::cluster.u32 [x1], v0;
{arrive}
    setp.eq.u32 r, rank, 0;
    setp.eq.u32 p, tid, 32;
    and.pred r, r, p;
    @!r bra END;
SPIN:
{wait}
    @!p bra SPIN;
{behind}
    ld.shared.u32 x3, [s];
END:
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
"""


def remote(arrive: str, wait: str, behind: str = "") -> str:
    arrive, wait = arrive.format("mbarrier.arrive"), wait.format("mbarrier.try_wait.parity")
    return "    mov.u32 v0, 1;\n" + REMOTE.format(arrive=lines(arrive, "@q "), wait=lines(wait), behind=lines(behind))


ARRIVE, WAIT = "{{0}}{}.shared::cluster.b64 _, [x2]", "{{0}}{}.shared::cta.b64 p, [bar], 0"


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    ("arrive", "wait", "behind", "fine"),
    [
        (ARRIVE.format(".release.cluster"), WAIT.format(".acquire.cluster"), "", True),
        (ARRIVE.format(".release.cluster"), WAIT.format(""), "", False),
        (ARRIVE.format(".release.cluster"), WAIT.format(".acquire.cta"), "", False),
        (ARRIVE.format(""), WAIT.format(".acquire.cluster"), "", False),
        (ARRIVE.format(".release.cta"), WAIT.format(".acquire.cluster"), "", False),
        (ARRIVE.format(""), WAIT.format(""), "", False),
        ("fence.acq_rel.cluster; " + ARRIVE.format(".relaxed.cluster"), WAIT.format(".acquire.cluster"), "", True),
        ("fence.acq_rel.cta; " + ARRIVE.format(".relaxed.cluster"), WAIT.format(".acquire.cluster"), "", False),
        (ARRIVE.format(".release.cluster"), WAIT.format(".relaxed.cluster"), "fence.acq_rel.cluster", True),
        (ARRIVE.format(".release.cluster"), WAIT.format(".relaxed.cluster"), "fence.acq_rel.cta", False),
        (ARRIVE.format(".release.cluster"), WAIT.format(".relaxed.cluster"), "", False),
    ],
)  # fmt: skip
def test_arrivals_from_another_block(arrive: str, wait: str, behind: str, fine: bool, schedule: str) -> None:
    report = run(remote(arrive, wait, behind), schedule, gpu=fine)
    if fine:
        silent(report)
    else:
        assert {f.kind for f in report.findings} <= {"missing_barrier", "uninitialised"}
        assert report.findings


def test_what_another_block_sends_is_awaited_in_the_clusters_scope() -> None:
    send = "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [x1], v0, [x2]"
    expect = "    @lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 4;\n"
    for scope, fine in ((".acquire.cluster", True), (".acquire.cta", False), ("", False)):
        body = remote(send, WAIT.format(scope)).replace("    @q st.shared::cluster.u32 [x1], v0;\n", "")
        body = body.replace(
            "    @lead fence.mbarrier_init", expect.replace("@lead", "@lead") + "    @lead fence.mbarrier_init"
        )
        report = run(body, gpu=fine)
        assert {f.kind for f in report.findings} == (set() if fine else {"missing_wait"}), scope
        assert fine or "cluster's scope" in report.findings[0].cure
