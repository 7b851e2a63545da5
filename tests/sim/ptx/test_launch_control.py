"""Cluster launch control in the simulator: each cluster's work is done once, by any CTA; programs with a fault."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from minitile.runtime.sim.mutate.ptx import removals
from tests.sim.ptx.blackwell import assembles, changed, inserted
from tests.sim.ptx.launch_control import parts, simulate, text_of

Program = dict[str, str]
SCHEDULES = ("lazy", "eager", "random")


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("cluster", [1, 2])
@pytest.mark.parametrize("shape", [(1, 4), (3, 6), (1, 1)])
def test_each_cluster_is_worked_on_once(shape: tuple[int, int], cluster: int, schedule: str) -> None:
    counts = np.zeros((shape[0], max(shape[1], cluster)), np.uint32)
    text = text_of(parts(cluster))
    assembles(text)
    for seed in range(5 if schedule == "random" else 1):
        counts[:] = 0
        report = simulate(text, counts, cluster, schedule=schedule, seed=seed)
        assert not report.findings, str(report.findings[0])
        np.testing.assert_array_equal(counts, 1)


def asked(schedule: str, seed: int = 0) -> int:
    """How often CTAs have asked for another one of a grid of eight; each has two warps, which execute the request."""
    report = simulate(text_of(parts()), np.zeros((1, 8), np.uint32), schedule=schedule, seed=seed)
    return report.instructions["clusterlaunchcontrol.try_cancel"] // 2


def test_who_gets_what() -> None:
    """Each CTA's work is asked for once, or the CTA starts and is itself refused in the end."""
    assert asked("eager") == 8  # by one CTA
    assert asked("lazy") == 8  # by two
    times = {asked("random", seed) for seed in range(12)}  # a refused CTA's work is for one that starts later
    assert times == {8}


def started(seed: int) -> int:
    """How many CTAs of eight have started under schedule "random"."""
    report = simulate(text_of(parts()), np.zeros((1, 8), np.uint32), schedule="random", seed=seed)
    return report.instructions["mbarrier.init"] // 2


def test_requests_are_refused_before_the_grid_is_done() -> None:
    """One CTA could do all the work, and does under "eager"; under "random" some are refused before."""
    report = simulate(text_of(parts()), np.zeros((1, 8), np.uint32), schedule="eager")
    assert report.instructions["mbarrier.init"] == 2
    assert len({started(seed) for seed in range(12)}) > 2


def test_a_grid_that_runs_together_has_nothing_to_give() -> None:
    counts = np.zeros((1, 8), np.uint32)
    report = simulate(text_of(parts()), counts, schedule="eager", cooperative=True)
    assert not report.findings, str(report.findings[0])
    assert report.instructions["mbarrier.init"] == 16
    np.testing.assert_array_equal(counts, 1)


def test_single_coordinates() -> None:
    program = parts()
    program["first"] = "\n".join(
        f"    clusterlaunchcontrol.query_cancel.get_first_ctaid::{axis}.b32.b128 x{i + 1}, answer;"
        for i, axis in enumerate("xy")
    )
    text = text_of(program)
    assembles(text)
    counts = np.zeros((3, 4), np.uint32)
    report = simulate(text, counts)
    assert not report.findings, str(report.findings[0])
    np.testing.assert_array_equal(counts, 1)


def test_a_response_in_two_words() -> None:
    """128 bits come together from 64-bit registers, and go back to memory."""
    program = changed(
        parts(),
        "read",
        "    ld.shared.v2.b64 {y1, y2}, [response];\n    mov.b128 answer, {y1, y2};\n    mov.b128 {y3, y4}, answer;\n"
        "    mov.b128 answer, {y3, y4};",
    )
    text = text_of(program)
    assembles(text)
    counts = np.zeros((1, 5), np.uint32)
    report = simulate(text, counts)
    assert not report.findings, str(report.findings[0])
    np.testing.assert_array_equal(counts, 1)


def without(*names: str, cluster: int = 1) -> Callable[[], Program]:
    return lambda: {name: text for name, text in parts(cluster).items() if name not in names}


def late_reader() -> Program:
    """A thread of another warp reads the response behind the barrier, when the next one is on its way."""
    program = inserted(
        parts(), "expect", "    setp.eq.u32 r, tid, 40;\n    setp.eq.u32 q, x3, 1;\n    and.pred r, r, q;"
    )
    return inserted(program, "ask", "    @r ld.shared.b128 answer2, [response];", before=False)


def flipped() -> str:
    """The wait of the other phase."""
    return "    xor.b32 x10, x3, 1;\n" + parts()["wait"].replace("x3;", "x10;")


FAULTS: dict[str, tuple[str, Callable[[], Program]]] = {
    "a response read before its phase": ("missing_wait", without("wait")),
    "a response read beside the next request": ("missing_wait", late_reader),
    "a response overwritten while others read": ("missing_barrier", without("turn")),
    "a response overwritten without a proxy fence": ("missing_proxy_fence", without("release")),
    "no bytes expected": (
        "missing_wait",
        lambda: changed(parts(), "expect", "    @lead mbarrier.arrive.shared::cta.b64 _, [bar];"),
    ),
    "bytes of two responses expected": (
        "deadlock",
        lambda: changed(parts(), "expect", parts()["expect"].replace("16;", "32;")),
    ),
    "the other parity": ("missing_wait", lambda: changed(parts(), "wait", flipped())),
    "asked by two threads": (
        "missing_wait",
        lambda: changed(parts(), "ask", parts()["ask"].replace("mov.pred q, lead", "setp.lt.u32 q, tid, 2")),
    ),
    "bytes expected in the first CTA alone": (
        "deadlock",
        lambda: changed(
            parts(2),
            "expect",
            "    setp.eq.u32 q, rank, 0;\n    and.pred q, q, lead;\n" + parts(2)["expect"].replace("@lead", "@q"),
        ),
    ),
    "a response for the first CTA alone": (
        "deadlock",
        lambda: changed(parts(2), "ask", parts(2)["ask"].replace(".multicast::cluster::all", "")),
    ),
    "no request at all": ("deadlock", without("ask")),
    "an mbarrier that is not ready for it": ("missing_proxy_fence", without("init fence")),
    "the first CTA of a failed request": (
        "cluster_launch_control",
        lambda: inserted(
            parts(), "asked", "    clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 x9, answer;"
        ),
    ),
    "asked again after a failure": (
        "cluster_launch_control",
        lambda: inserted(
            parts(),
            "done",
            "    @lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;\n" + parts()["ask"],
            before=False,
        ),
    ),
    "no response at all": (
        "cluster_launch_control",
        lambda: changed(parts(), "read", "    mov.b64 y1, 5;\n    mov.b128 answer, {y1, y1};"),
    ),
    "a response at an odd place": (
        "misaligned",
        lambda: changed(parts(), "ask", parts()["ask"].replace("[response]", "[response+8]")),
    ),
    "a response in another CTA": (
        "cluster_launch_control",
        lambda: changed(
            parts(2),
            "ask",
            "    mov.u32 x8, response;\n    add.u32 x8, x8, 0x1000000;\n"
            + parts(2)["ask"].replace("[response]", "[x8]"),
        ),
    ),
    "a response in the cluster before all have read": ("missing_barrier", without("turn", cluster=2)),
    "a response in the cluster without the reader's proxy fence": (
        "missing_proxy_fence",
        without("release", cluster=2),
    ),
    "a response in the cluster without the writer's proxy fence": (
        "missing_proxy_fence",
        without("acquire", cluster=2),
    ),
    "a response for a CTA that has ended": (
        "missing_barrier",
        lambda: (
            inserted(parts(2), "loop", "    setp.eq.u32 q, rank, 1;\n    @q bra GONE;", before=False)
            | {"gone": "GONE:"}
        ),
    ),
}


def text_with(program: Program) -> str:
    return text_of(program).replace(".reg .b128 answer;", ".reg .b128 answer, answer2;")


@pytest.mark.parametrize("name", FAULTS)
def test_faults(name: str) -> None:
    kind, make = FAULTS[name]
    text = text_with(make())
    assembles(text)
    cluster = 2 if "multicast" in text or "first CTA alone" in name else 1
    report = simulate(text, np.zeros((1, 8), np.uint32), cluster)
    assert kind in [each.kind for each in report.findings], report.findings


SOUND: dict[str, Callable[[], Program]] = {
    "another warp asks": lambda: {
        name: text.replace("@lead", "@r").replace("mov.pred q, lead", "mov.pred q, r")
        if name in ("expect", "ask")
        else text
        for name, text in inserted(parts(), "loop", "    setp.eq.u32 r, tid, 32;", before=False).items()
    },
    "waits in the CTA's scope": lambda: changed(
        parts(), "wait", parts()["wait"].replace("parity.acquire.cluster", "parity")
    ),
    "announced behind the request": lambda: (
        parts() | {"expect": "", "work": parts()["expect"] + "\n" + parts()["work"]}
    ),
    "only a barrier of the CTA between turns": lambda: changed(parts(), "turn", "    bar.sync 0;"),
    "read twice": lambda: inserted(parts(), "asked", parts()["read"]),
}


@pytest.mark.parametrize("name", SOUND)
def test_sound_programs(name: str) -> None:
    text = text_with(SOUND[name]())
    assembles(text)
    for schedule in SCHEDULES:
        counts = np.zeros((1, 8), np.uint32)
        report = simulate(text, counts, schedule=schedule, seed=2)
        assert not report.findings, str(report.findings[0])
        np.testing.assert_array_equal(counts, 1)


@pytest.mark.parametrize("cluster", [1, 2])
def test_what_synchronises_is_needed(cluster: int) -> None:
    text = text_of(parts(cluster))
    mutants = list(removals(text, "k"))
    assert len(mutants) >= 8
    for mutant in mutants:
        report = simulate(mutant.text, np.zeros((1, 8), np.uint32), cluster, only_first=True)
        fenced = cluster == 2 and "fence.mbarrier_init" in mutant.instruction  # a proxy fence does as well
        assert report.findings or fenced, mutant
