"""A GEMM with LDS-DMA: right under every schedule, and each wait and each barrier in it is needed.

Each mutation weakens one wait of the assembly or removes one barrier; the simulator must report it whatever the
schedule, whether or not the numbers come out right.
"""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

from minitile.runtime.sim import RaceError, run_gcn
from minitile.runtime.sim.mutate.amdgcn import idle, removals
from minitile.runtime.sim.mutate.ptx import redundant, runner
from tests.sim.amdgcn.gemm_ir import BOTH, VM0, gemm_ir
from tests.sim.amdgcn.harness import SCHEDULES, assemble, lanes, text_of


def multiply(text, steps, schedule="lazy"):
    rng = np.random.default_rng(0)
    depth = 32 * steps
    a, b = (rng.standard_normal((64, depth)).astype(ml_dtypes.bfloat16) for _ in range(2))
    c = np.full((64, 64), np.nan, np.float32)
    report = run_gcn(text, "gemm", (1, 1), (256,), [a, b, c, depth, 64], schedule=schedule, seed=1)
    error = np.abs(c - a.astype(np.float64) @ b.astype(np.float64).T).max()
    return error, report


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_gemm(steps, schedule):
    error, report = multiply(assemble(gemm_ir(steps)), steps, schedule)
    assert [str(finding) for finding in report.findings] == []
    assert error < 1e-4


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_wait_and_barrier_is_needed(schedule):
    text = assemble(gemm_ir(4))
    survived = []
    tried = 0
    for mutant in removals(text, "gemm"):
        _, report = multiply(mutant.text, 4, schedule)
        tried += 1
        if not report.findings:
            survived.append(str(mutant))
    assert tried > 12
    assert survived == []


def kinds(report):
    return {(finding.kind, finding.hazard, finding.space) for finding in report.findings}


def test_barrier_without_waiting_for_reads():
    """vmcnt alone before the barrier: waves may still be reading what others' DMA overwrites."""
    _, report = multiply(assemble(gemm_ir(4, wait=VM0)), 4)
    assert {"WAR"} == {finding.hazard for finding in report.findings}
    finding = next(each for each in report.findings if each.hazard == "WAR")
    assert finding.first.text.endswith("lds")
    assert finding.second.text.startswith("ds_read_b128")
    with pytest.raises(RaceError, match=r"GCN line \d+"):
        report.raise_if_findings()


def test_no_barrier():
    _, report = multiply(assemble(gemm_ir(4, barrier=False)), 4)
    assert kinds(report) >= {("missing_barrier", "RAW", "shared")}


def test_wait_after_the_barrier_is_too_late():
    text = assemble(gemm_ir(4, wait=BOTH))
    swapped = re.sub(r"(\ts_waitcnt vmcnt\(0\) lgkmcnt\(0\)\n)(\ts_barrier\n)", r"\2\1", text)
    assert swapped != text
    _, report = multiply(swapped, 4)
    assert ("missing_barrier", "RAW", "shared") in kinds(report)
    assert any("behind the wait for vmcnt" in finding.cure for finding in report.findings)


ADDRESSES = "v_lshlrev_b32 v1, 2, v0\nv_xor_b32 v2, 0x100, v1\n"
PUT, GET = "ds_write_b32 v1, v3", "ds_read_b32 v4, v2"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        # Two waves exchange their halves of 512 bytes.
        (f"{PUT}\ns_waitcnt lgkmcnt(0)\ns_barrier\n{GET}\ns_waitcnt lgkmcnt(0)", set()),
        (f"{PUT}\ns_barrier\n{GET}\ns_waitcnt lgkmcnt(0)", {("missing_wait", "RAW", "shared")}),
        (f"{PUT}\ns_waitcnt lgkmcnt(0)\n{GET}\ns_waitcnt lgkmcnt(0)", {("missing_barrier", "RAW", "shared")}),
        (f"{PUT}\ns_waitcnt lgkmcnt(0)\ns_barrier\n{GET}\nv_mov_b32 v5, v4", {("missing_wait", "RAW", "register")}),
        (
            f"{PUT}\ns_waitcnt lgkmcnt(0)\ns_barrier\n{GET}\ns_waitcnt lgkmcnt(0)\n{PUT}",
            {("missing_barrier", "WAR", "shared")},
        ),
        (
            f"{PUT}\ns_waitcnt lgkmcnt(0)\ns_barrier\n{GET}\ns_barrier\n{PUT}\ns_waitcnt lgkmcnt(0)",
            {("missing_wait", "WAR", "shared")},
        ),
        (
            f"{PUT}\ns_waitcnt lgkmcnt(0)\ns_barrier\n{GET}\ns_waitcnt lgkmcnt(0)\ns_barrier\n{PUT}",
            set(),
        ),
        (f"{PUT}\nds_write_b32 v2, v3", {("missing_wait", "WAW", "shared")}),
        (f"{GET}\ns_waitcnt lgkmcnt(0)", {("uninitialised", None, "shared")}),
        # A wave's own LDS instructions are in order.
        (f"{PUT}\nds_read_b32 v4, v1\ns_waitcnt lgkmcnt(0)", set()),
        ("v_mov_b32 v1, 0\nds_write_b32 v1, v3", {("missing_barrier", "WAW", "shared")}),
        # Lanes of one wave: 0 and 32 of each have the same place.
        (
            "v_and_b32 v1, 0x5f, v0\nv_lshlrev_b32 v1, 2, v1\nds_write_b32 v1, v3",
            {("missing_barrier", "WAW", "shared")},
        ),
        ("v_mov_b32 v1, 0\nds_add_u32 v1, v3", {("uninitialised", None, "shared")}),
    ],
)
def test_two_waves(body, expected):
    values = np.arange(128, dtype=np.uint32)
    for schedule in SCHEDULES:
        results, report = lanes(
            ADDRESSES + "v_mov_b32 v4, 0\n" + body, {"v3": values}, {"v4": np.uint32}, lds=512, schedule=schedule
        )
        found = kinds(report)
        assert found == expected or (expected and expected <= found and schedule == "random"), (schedule, found)
        if not expected and GET in body:
            np.testing.assert_array_equal(results["v4"], values ^ 64)


# Both waves issue a write in which only wave 0 has active lanes; then they go different ways to a barrier.
ONE_WRITES = """v_readfirstlane_b32 s4, v0
v_cmp_gt_u32 vcc, 64, v0
s_and_saveexec_b64 s[6:7], vcc
v_and_b32 v2, 0xff, v2
ds_write_b32 v1, v3
s_mov_b64 exec, s[6:7]
s_cmp_eq_u32 s4, 0
s_cbranch_scc1 .Lzero
{one}
s_branch .Lend
.Lzero:
{zero}
.Lend:
s_barrier
ds_read_b32 v4, v2
s_waitcnt lgkmcnt(0)"""
WAIT = "s_waitcnt lgkmcnt(0)"
LATE = "s_nop 0\n" * 64 + WAIT


@pytest.mark.parametrize(
    ("zero", "one", "expected"),
    [
        (WAIT, WAIT, set()),
        (WAIT, LATE, set()),
        (LATE, WAIT, set()),
        (WAIT, "s_nop 0", set()),
        ("s_nop 0", WAIT, {"RAW"}),
        ("s_nop 0", LATE, {"RAW"}),
    ],
)
def test_the_wait_of_the_wave_that_writes_counts(zero, one, expected):
    """Not that of one that issued the instruction without active lanes, whichever comes first."""
    values = np.arange(128, dtype=np.uint32)
    body = ADDRESSES + "v_mov_b32 v4, 0\n" + ONE_WRITES.format(zero=zero, one=one)
    for schedule in SCHEDULES:
        for seed in range(10 if schedule == "random" else 1):
            how = {"schedule": schedule, "seed": seed}
            _, report = lanes(body, {"v3": values}, {"v4": np.uint32}, lds=512, **how)
            assert {finding.hazard for finding in report.findings} == expected, how


def test_waves_must_meet_the_same_number_of_barriers():
    body = "v_readfirstlane_b32 s4, v0\ns_cmp_eq_u32 s4, 0\ns_cbranch_scc1 .Lskip\ns_barrier\n.Lskip:"
    _, report = lanes(body, {"v3": np.zeros(128, np.uint32)}, {"v3": np.uint32})
    (finding,) = report.findings
    assert finding.kind == "barrier_mismatch"
    assert "met 0 barriers and wave 1 met 1" in finding.message


def test_a_wave_that_never_comes():
    body = """v_readfirstlane_b32 s4, v0
s_cmp_eq_u32 s4, 0
s_cbranch_scc1 .Lskip
s_barrier
.Lskip:
s_cbranch_scc1 .Lskip"""
    _, report = lanes(body, {"v3": np.zeros(128, np.uint32)}, {"v3": np.uint32})
    assert [finding.kind for finding in report.findings] == ["deadlock"]
    assert report.stopped


def test_a_register_of_a_store_may_be_reused_but_not_that_of_a_load():
    values = np.arange(64, dtype=np.uint32)
    body = "global_load_dword v5, v251, s[92:93]\nv_mov_b32 v5, 1\ns_waitcnt vmcnt(0)"
    _, report = lanes(body, {"v3": values}, {"v5": np.uint32})
    (finding,) = report.findings
    assert (finding.kind, finding.hazard, finding.buffer) == ("missing_wait", "WAW", "v5")
    assert finding.cure == "s_waitcnt vmcnt(0) between them, or less"


@pytest.mark.parametrize("schedule", ["lazy", "eager", "random"])
def test_a_load_may_follow_a_load_into_the_same_register(schedule):
    """They return in order; the second one's value stays."""
    values = np.arange(128, dtype=np.uint32).reshape(64, 2)
    load = "global_load_dword v5, v251, s[92:93]"
    body = f"{load} offset:4\n{load}\ns_waitcnt vmcnt(0)"
    results, report = lanes(body, {"v[6:7]": values}, {"v5": np.uint32}, schedule=schedule)
    assert not report.findings
    assert np.array_equal(results["v5"], values[:, 0])


def test_scalar_loads_need_a_wait_for_all():
    body = "s_load_dword s4, s[90:91], 0\ns_load_dword s5, s[90:91], 4\ns_waitcnt lgkmcnt(1)\nv_mov_b32 v3, s4"
    _, report = lanes(body + "\ns_waitcnt lgkmcnt(0)", {"v3": np.zeros(64, np.uint32)}, {"v3": np.uint32})
    (finding,) = report.findings
    assert (finding.kind, finding.buffer) == ("missing_wait", "s4")


def test_an_unwritten_register_is_stored():
    _, report = lanes("", {"v3": np.zeros(64, np.uint32)}, {"v7": np.uint32})
    (finding,) = report.findings
    assert (finding.kind, finding.buffer) == ("uninitialised", "v7")


# -- global memory -----------------------------------------------------------------------------------------------------

BASE = "s_load_dwordx2 s[4:5], s[0:1], 0\nv_lshlrev_b32 v1, 2, v0\nv_xor_b32 v2, 0x100, v1\ns_waitcnt lgkmcnt(0)\n"
PUT_GLOBAL, GET_GLOBAL = "global_store_dword v1, v0, s[4:5]\n", "global_load_dword v3, v2, s[4:5]\ns_waitcnt vmcnt(0)\n"
SYNC = "s_waitcnt vmcnt(0)\ns_barrier\n"


@pytest.mark.parametrize(
    ("body", "groups", "expected"),
    [
        (PUT_GLOBAL + SYNC + GET_GLOBAL, 1, set()),
        (PUT_GLOBAL + "s_barrier\n" + GET_GLOBAL, 1, {("missing_wait", "RAW")}),
        (PUT_GLOBAL + "s_waitcnt vmcnt(0)\n" + GET_GLOBAL, 1, {("missing_barrier", "RAW")}),
        (GET_GLOBAL + PUT_GLOBAL, 1, {("missing_barrier", "WAR")}),
        (GET_GLOBAL + "s_barrier\n" + PUT_GLOBAL, 1, set()),
        (PUT_GLOBAL, 2, {("missing_barrier", "WAW")}),
        (GET_GLOBAL, 2, set()),
        ("v_mov_b32 v1, 0\n" + PUT_GLOBAL, 1, {("missing_barrier", "WAW")}),
        ("v_mov_b32 v1, 0\nglobal_atomic_add v1, v0, s[4:5]\n", 2, set()),
        # A wave's own accesses are in order.
        (PUT_GLOBAL + "global_load_dword v3, v1, s[4:5]\ns_waitcnt vmcnt(0)\n", 1, set()),
        # Neighbours in pieces that no cell of 16 bytes divides.
        (
            "v_mul_u32_u24 v1, 20, v0\nv_mov_b32 v4, 0\nv_mov_b32 v5, 0\nv_mov_b32 v6, 0\nv_mov_b32 v7, 0\n"
            "global_store_dwordx4 v1, v[4:7], s[4:5]\n",
            1,
            set(),
        ),
    ],
)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_global_memory(body, groups, expected, schedule):
    memory = np.zeros(1024, np.uint32)
    report = run_gcn(text_of(BASE + body, 1), "k", (groups,), (128,), [memory], schedule=schedule)
    assert {(finding.kind, finding.hazard) for finding in report.findings} == expected
    assert {finding.space for finding in report.findings} <= {"global"}


# -- what is to spare --------------------------------------------------------------------------------------------------


def test_redundant_synchronisation():
    """Of two barriers in a row each does for the other; the waits are needed."""
    memory = np.zeros(256, np.uint32)

    def spare(body):
        text = text_of(BASE + body, 1)
        run = runner("k", (1,), (128,), lambda: [memory.copy()], run_gcn)
        found, count = redundant(text, "k", run, removals)
        return [str(each) for each in found], count

    assert spare(PUT_GLOBAL + SYNC + GET_GLOBAL + "global_store_dword v2, v3, s[4:5]") == ([], 4)
    found, count = spare(PUT_GLOBAL + SYNC + "s_barrier\ns_nop 1\n" + GET_GLOBAL + "global_store_dword v2, v3, s[4:5]")
    assert count == 6
    assert [each.partition(": ")[2] for each in found] == ["s_barrier", "s_barrier", "a wait state of s_nop 1"]


def test_staggered_waves():
    """Wave 1 is one barrier behind wave 0, as in ping-pong schedules: what each does between barriers takes turns."""
    turn = "ds_read_b32 v4, v5\ns_waitcnt lgkmcnt(0)\nv_add_u32 v4, 1, v4\nds_write_b32 v5, v4\ns_waitcnt lgkmcnt(0)\n"
    fill = "v_mov_b32 v5, v1\nv_and_b32 v5, 0xff, v5\nv_mov_b32 v4, 0\n"
    first = "v_readfirstlane_b32 s4, v0\ns_cmp_eq_u32 s4, 0\n"
    body = (
        f"{ADDRESSES}{fill}{first}s_cbranch_scc1 .Lzero\ns_barrier\n.Lzero:\n"
        "s_cbranch_scc0 .Lskip\nds_write_b32 v5, v4\ns_waitcnt lgkmcnt(0)\n.Lskip:\n"
        f"{turn}s_barrier\ns_barrier\n{turn}s_barrier\ns_barrier\n{turn}s_barrier\n"
        "s_cbranch_scc0 .Lone\ns_barrier\n.Lone:\n"
    )
    for schedule in SCHEDULES:
        results, report = lanes(body, {"v3": np.zeros(128, np.uint32)}, {"v4": np.uint32}, lds=256, schedule=schedule)
        assert [str(finding) for finding in report.findings] == []
        np.testing.assert_array_equal(results["v4"], np.repeat([5, 6], 64))
    early = body.replace(f"{turn}s_barrier\ns_barrier\n", f"{turn}s_barrier\n", 1)
    early = early.replace("s_cbranch_scc0 .Lone", "s_barrier\ns_cbranch_scc0 .Lone")
    _, report = lanes(early, {"v3": np.zeros(128, np.uint32)}, {"v4": np.uint32}, lds=256)
    assert report.findings


def test_waits_that_find_nothing():
    """Proven by counting: over all paths there is nothing left, or no more than is allowed."""

    def idle_in(body):
        """Of each wait for vmcnt, whether it is idle."""
        text = text_of(BASE + body, 1)
        found = idle(text, "k")
        return [(at, "vmcnt") in found for at, line in enumerate(text.splitlines(), 1) if "vmcnt(" in line]

    load, wait = "global_load_dword v3, v2, s[4:5]\n", "s_waitcnt vmcnt(0)\n"
    assert idle_in(load + wait) == [False]
    assert idle_in(load + wait + wait) == [False, True]
    assert idle_in(load + "s_waitcnt vmcnt(1)\n") == [True]
    assert idle_in(load + load + "s_waitcnt vmcnt(1)\n") == [False]
    assert idle_in(f"s_cbranch_scc1 .Lover\n{load}.Lover:\n{wait}") == [False]
    assert idle_in(f"{wait}.Lagain:\n{wait}{load}s_cbranch_scc1 .Lagain\n{wait}") == [True, False, False]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("store", "size"), [("ds_write_b32", 4), ("ds_write_b64", 8), ("ds_write_b8", 1)])
def test_lanes_of_one_instruction_that_write_one_place(store, size, schedule):
    """Lanes 5 and 9 of the second wave, and no others; both are named."""
    step = 4 if size == 1 else size
    places = np.arange(128, dtype=np.uint32) * step
    places[64 + 9] = places[64 + 5]
    values = np.arange(256, dtype=np.uint32).reshape(128, 2)
    body = f"{store} v5, {'v[6:7]' if size == 8 else 'v6'}\ns_waitcnt lgkmcnt(0)"
    options = {"lds": 1024, "schedule": schedule}
    _, report = lanes(body, {"v5": places, "v[6:7]": values}, {"v6": np.uint32}, **options)
    assert kinds(report) == {("missing_barrier", "WAW", "shared")}
    (finding,) = report.findings
    assert {finding.first.thread, finding.second.thread} == {(69, 0, 0), (73, 0, 0)}


@pytest.mark.parametrize(("offset", "expected"), [(0, set()), (4, {("missing_barrier", "WAW", "global")})])
def test_lanes_that_write_one_place_of_global_memory(offset, expected):
    """Lane 3 stores where lane 4 does, or not."""
    places = np.arange(64, dtype=np.uint32) * 4
    places[3] += offset
    body = "s_load_dwordx2 s[92:93], s[90:91], 8\ns_waitcnt lgkmcnt(0)\n"
    body += "global_store_dword v5, v250, s[92:93]\ns_waitcnt vmcnt(0)"
    _, report = lanes(body, {"v5": places}, {"v250": np.uint32})
    assert kinds(report) == expected
