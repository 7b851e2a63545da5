"""Races in global memory that a later access of the same kind must not hide.

Several waves access the same word, and only one of them, an earlier one, is not in order with what another wave does
then. Then random programs, against a model that keeps every access.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitile.runtime.sim import run_gcn
from tests.sim.amdgcn.harness import SCHEDULES, text_of

# s3: the wave's number; v1: the lane's word, the same in every wave; v2: one for each work-item.
BASE = """s_load_dwordx2 s[4:5], s[0:1], 0
v_lshlrev_b32 v2, 2, v0
v_and_b32 v1, 0xfc, v2
v_lshrrev_b32 v5, 6, v0
v_readfirstlane_b32 s3, v5
s_mul_i32 s6, s3, 0x100
s_mov_b32 m0, s6
s_waitcnt lgkmcnt(0)
"""
LOAD, STORE, ADD = (
    "global_load_dword v3, v1, s[4:5]\n",
    "global_store_dword v1, v0, s[4:5]\n",
    "global_atomic_add v1, v0, s[4:5]\n",
)
COPY = "global_load_lds_dword v1, s[4:5]\n"
SKEW_LOAD, SKEW_STORE = (lines.replace("\n", " offset:2\n") for lines in (LOAD, STORE))
STRONG_LOAD, STRONG_STORE = LOAD.replace("\n", " sc1\n"), STORE.replace("\n", " sc1\n")
WAIT, BARRIER = "s_waitcnt vmcnt(0)\n", "s_barrier\n"
WAR, WAW, RAW = {("missing_wait", "WAR")}, {("missing_wait", "WAW")}, {("missing_wait", "RAW")}


_LABELS = itertools.count()


def only(register, numbers, lines):
    """Lines for the waves (s3) or workgroups (s2) of these numbers alone."""
    label = f".Lskip{next(_LABELS)}"
    mask = sum(1 << number for number in numbers)
    return f"s_lshr_b32 s7, {mask}, {register}\ns_and_b32 s7, s7, 1\ns_cbranch_scc0 {label}\n{lines}{label}:\n"


def wave(number, lines):
    return only("s3", [number], lines)


def found_in(body, waves=2, groups=1, **how):
    memory = np.zeros(1024, np.uint32)
    report = run_gcn(text_of(BASE + body, 1, lds=8192), "k", (groups,), (64 * waves,), [memory], **how)
    assert {finding.space for finding in report.findings} <= {"global"}
    return {(finding.kind, finding.hazard) for finding in report.findings}


def each_waits(first, last, *, late="", who=(0, 1)):
    """Both waves do `first`; those of `who` wait; after a barrier, and `late`, wave 1 does `last`."""
    return first + only("s3", who, WAIT) + BARRIER + late + wave(1, last)


HIDDEN = {
    # Both waves read a word in one instruction: of one the read is still in flight.
    "wave 0 has not waited": (each_waits(LOAD, STORE, who=(1,)), WAR),
    "wave 1 has not waited, but writes itself": (each_waits(LOAD, STORE, who=(0,)), set()),
    "both have waited": (each_waits(LOAD, STORE), set()),
    "DMA: wave 0 has not waited": (each_waits(COPY, STORE, who=(1,)), WAR),
    "DMA: both have waited": (each_waits(COPY, STORE), set()),
    # Wave 0 waits behind the barrier, which is too late.
    "wave 0 waits too late": (
        each_waits(LOAD, STORE, late=wave(0, WAIT), who=(1,)),
        {("missing_barrier", "WAR")},
    ),
    "wave 0 waits late, for a second barrier": (
        each_waits(LOAD, STORE, late=wave(0, WAIT) + BARRIER, who=(1,)),
        set(),
    ),
    "no lane reads": (each_waits(f"s_mov_b64 exec, 0\n{LOAD}s_mov_b64 exec, -1\n", STORE, who=()), set()),
    # Wave 1 reads once more what it then writes.
    # What is remembered is split while it is in flight, and after that.
    "half of it: wave 0 has not waited": (each_waits(LOAD, SKEW_STORE, who=(1,)), WAR),
    "half of it: both have waited": (each_waits(LOAD, SKEW_STORE), set()),
    "again, after both have waited": (each_waits(LOAD, LOAD + WAIT + STORE), set()),
    "again, though wave 0 has not waited": (each_waits(LOAD, LOAD + WAIT + STORE, who=(1,)), WAR),
    # An atomic of the reader follows its own read in order; that of another wave need not.
    "a read, behind the reader's own atomic": (each_waits(wave(0, LOAD + ADD), ADD, who=()), WAR),
    "the same, with a wait": (each_waits(wave(0, LOAD + ADD), ADD), set()),
    "a store, behind the writer's own atomic": (each_waits(wave(0, STORE + ADD), ADD, who=()), WAW),
    "a store with a wait": (each_waits(wave(0, STORE + ADD), ADD), set()),
    # Atomics do not conflict, but each of them conflicts with a plain access.
    "atomics, then a read": (each_waits(ADD, LOAD + WAIT, who=(1,)), RAW),
    "atomics with waits, then a read": (each_waits(ADD, LOAD + WAIT), set()),
    "atomics, then a store": (each_waits(ADD, STORE, who=(1,)), WAW),
    "atomics with waits, then a store": (each_waits(ADD, STORE), set()),
    "sc1 stores, then a read": (each_waits(STRONG_STORE, LOAD + WAIT, who=(1,)), RAW),
    "sc1 loads, then a store": (each_waits(STRONG_LOAD, STORE, who=(1,)), WAR),
    "sc1 loads with waits, then a store": (each_waits(STRONG_LOAD, STORE), set()),
    "sc1 loads, then an atomic": (each_waits(STRONG_LOAD, ADD, who=()), set()),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", HIDDEN)
def test_an_earlier_access_counts(name, schedule):
    body, expected = HIDDEN[name]
    for seed in range(5 if schedule == "random" else 1):
        found = found_in(body, schedule=schedule, seed=seed)
        if schedule == "random":  # a wave that has ended has waited, though too late
            assert {hazard for _, hazard in found} == {hazard for _, hazard in expected}, seed
        else:
            assert found == expected


@pytest.mark.parametrize("late", [0, 1, 2, None])
def test_the_latest_of_three_waves_counts(late):
    """Wave 3 writes what waves 0, 1 and 2 have read; one of them has waited behind the barrier only."""
    body = LOAD + only("s3", {0, 1, 2} - {late}, WAIT) + BARRIER + WAIT + wave(3, STORE)
    for schedule in SCHEDULES:
        hazards = {hazard for _, hazard in found_in(body, waves=4, schedule=schedule)}
        assert hazards == (set() if late is None else {"WAR"}), schedule


@pytest.mark.parametrize("first", [0, 1])
def test_another_workgroup_with_fewer_barriers_counts(first):
    """Two waves of group 0 read after two barriers, those of group 1 after none, before or behind that."""
    reads = [only("s2", [0], BARRIER + BARRIER + LOAD + WAIT + BARRIER), only("s2", [1], LOAD + WAIT)]
    body = reads[first] + reads[1 - first] + only("s2", [0], wave(0, STORE))
    for schedule in SCHEDULES:
        assert found_in(body, groups=2, schedule=schedule) == {("missing_barrier", "WAR")}, schedule


POLL = "global_load_dword v3, v1, s[4:5] sc1\ns_waitcnt vmcnt(0)\n"


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_flag_may_be_read_before_it_is_set(schedule):
    body = POLL + only("s2", [0], STRONG_STORE) + POLL + only("s2", [1], ADD)
    assert found_in(body, groups=2, schedule=schedule) == set()


# -- random programs ---------------------------------------------------------------------------------------------------

WAVES = 3
ACCESS = {
    "load": LOAD,
    "store": STORE,
    "add": ADD,
    "copy": f"s_add_u32 m0, m0, {WAVES * 0x100}\ns_nop 0\n{COPY}",
    "strong load": STRONG_LOAD,
    "strong store": STRONG_STORE,
    # Into the next word, which splits what is remembered; and with the next one.
    "skew load": SKEW_LOAD,
    "skew store": SKEW_STORE,
    "wide load": "global_load_dwordx2 v[6:7], v1, s[4:5]\n",
}
WRITES, STRONG = {"store", "add", "strong store", "skew store"}, {"add", "strong load", "strong store"}


@dataclass(frozen=True)
class Op:
    """One operation, by the waves of `who` of workgroup `group`, or of each. Accesses are of the lane's word, the same
    for every wave, or, `apart`, of one word for each work-item of the grid."""

    kind: str
    who: tuple[int, ...] = (0, 1, 2)
    apart: bool = False
    group: int | None = None


WHO = st.sampled_from([(0, 1, 2), (0, 1), (0, 2), (1, 2), (0,), (1,), (2,)])
GROUP = st.sampled_from([None, None, 0, 1])
OPS = st.one_of(
    st.builds(Op, st.sampled_from(["load", "load", "copy", "strong load"]), WHO, group=GROUP),
    st.builds(Op, st.sampled_from(["store", "add", "strong store"]), WHO, group=GROUP),
    st.builds(Op, st.sampled_from(["store", "add", "load"]), WHO, st.just(True), group=GROUP),
    st.builds(Op, st.sampled_from(["skew load", "skew store", "wide load"]), WHO, st.booleans(), group=GROUP),
    st.builds(Op, st.just("wait"), WHO, group=GROUP),
    st.builds(Op, st.just("barrier"), group=GROUP),
)


def text_for(ops):
    body = f"s_mul_i32 s8, s2, {WAVES * 0x100}\nv_add_u32 v2, s8, v2\n"
    for op in ops:
        lines = {"wait": WAIT, "barrier": BARRIER, **ACCESS}[op.kind]
        if op.apart:
            lines = lines.replace("v1", "v2")
        if len(op.who) < WAVES:
            lines = only("s3", op.who, lines)
        body += lines if op.group is None else only("s2", [op.group], lines)
    return body


def waited(ops, at, group, wave, before, kind="wait"):
    """Whether what a wave did at `at` is over before a barrier that comes before operation `before`; or, with kind
    "own", before that operation."""
    over = False
    for op in ops[at + 1 : before]:
        mine = op.group in (None, group)
        if over and mine and op.kind == "barrier":
            return True
        over |= mine and op.kind == "wait" and wave in op.who
    return over and kind == "own"


def races(ops, groups):
    """Whether some pair of conflicting accesses is not in order. A wave's own are; of two waves of a workgroup the
    first must have been waited for before a barrier that comes before the second."""
    accesses = []
    for at, op in enumerate(ops):
        for group, wave in itertools.product(range(groups), op.who if op.kind in ACCESS else ()):
            if op.group in (None, group):
                start = ((group * WAVES + wave) * 0x100 if op.apart else 0) + 2 * op.kind.startswith("skew")
                end = start + 0x100 + 4 * op.kind.startswith("wide")
                accesses.append((at, group, wave, op.kind, start, end))
    for number, (at, group, wave, kind, start, end) in enumerate(accesses):
        for later, other_group, other, other_kind, other_start, other_end in accesses[number + 1 :]:
            kinds = {kind, other_kind}
            if start < other_end and other_start < end and kinds & WRITES and not kinds <= STRONG:
                own = (group, wave) == (other_group, other)
                if not own and (group != other_group or not waited(ops, at, group, wave, later)):
                    return True
    return False


@settings(max_examples=150, deadline=None)
@given(st.lists(OPS, min_size=2, max_size=12), OPS, st.sampled_from([1, 1, 2]), st.sampled_from(SCHEDULES))
def test_random_programs(ops, last, groups, schedule):
    """Without what is a race already, so that the last operation decides."""
    program = []
    for op in ops:
        if not races([*program, op], groups):
            program.append(op)
    program.append(last)
    found = found_in(text_for(program), WAVES, groups, schedule=schedule)
    assert bool(found) == races(program, groups)


# -- LDS ---------------------------------------------------------------------------------------------------------------

READ, WRITE, UPDATE = "ds_read_b32 v3, v1\n", "ds_write_b32 v1, v0\n", "ds_add_u32 v1, v0\n"
INTO = "global_load_lds_dword v1, s[4:5]\n"  # every wave to the same bytes
WAIT_BOTH = "s_waitcnt vmcnt(0) lgkmcnt(0)\n"
FILL = f"s_mov_b32 m0, 0\n{wave(0, WRITE)}{WAIT_BOTH}{BARRIER}"


def found_in_lds(body, waves=2, **how):
    text = text_of(BASE + FILL + body.replace(WAIT, WAIT_BOTH), 1, lds=256)
    report = run_gcn(text, "k", (1,), (64 * waves,), [np.zeros(64, np.uint32)], **how)
    assert {finding.space for finding in report.findings} <= {"shared"}
    return {finding.hazard for finding in report.findings}


HIDDEN_IN_LDS = {
    "atomics, then a read": (each_waits(UPDATE, READ, who=(1,)), {"RAW"}),
    "atomics with waits, then a read": (each_waits(UPDATE, READ), set()),
    "atomics, then a write": (each_waits(UPDATE, WRITE, who=(1,)), {"WAW"}),
    "atomics with waits, then a write": (each_waits(UPDATE, WRITE), set()),
    "a read, behind the reader's own atomic": (each_waits(wave(0, READ + UPDATE), UPDATE, who=()), {"WAR"}),
    "the same, with a wait": (each_waits(wave(0, READ + UPDATE), UPDATE), set()),
    "a write, behind the writer's own atomic": (each_waits(wave(0, WRITE + UPDATE), UPDATE, who=()), {"WAW"}),
    "a write with a wait": (each_waits(wave(0, WRITE + UPDATE), UPDATE), set()),
    "a read behind an atomic": (each_waits(wave(0, UPDATE + READ), UPDATE, who=()), {"WAR"}),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", HIDDEN_IN_LDS)
def test_an_earlier_access_of_lds_counts(name, schedule):
    body, expected = HIDDEN_IN_LDS[name]
    assert found_in_lds(body, schedule=schedule) == expected


LDS_ACCESS = {"read": READ, "write": WRITE, "update": UPDATE, "into": INTO}


def races_in_lds(ops):
    """As `races`, of one workgroup. LDS operations of a wave are in order; LDS-DMA is so behind nothing and before
    nothing but what waits."""
    accesses = [(at, wave, op.kind) for at, op in enumerate(ops) if op.kind in LDS_ACCESS for wave in op.who]
    for number, (at, wave, kind) in enumerate(accesses):
        for later, other, other_kind in accesses[number + 1 :]:
            if {kind, other_kind} in ({"read"}, {"update"}):
                continue
            if wave != other:
                ordered = waited(ops, at, 0, wave, later)
            else:
                ordered = "into" not in (kind, other_kind) or waited(ops, at, 0, wave, later, "own")
            if not ordered:
                return True
    return False


LDS_OPS = st.one_of(
    st.builds(Op, st.sampled_from(["read", "read", "update", "update", "write", "into"]), WHO),
    st.builds(Op, st.just("wait"), WHO),
    st.just(Op("barrier")),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(LDS_OPS, min_size=2, max_size=12), LDS_OPS, st.sampled_from(SCHEDULES))
def test_random_programs_in_lds(ops, last, schedule):
    program = []
    for op in ops:
        if not races_in_lds([*program, op]):
            program.append(op)
    program.append(last)
    body = ""
    for register, op in enumerate(program, 10):
        lines = {"wait": WAIT, "barrier": BARRIER, **LDS_ACCESS}[op.kind]
        body += only("s3", op.who, lines.replace("v3", f"v{register}"))
    assert bool(found_in_lds(body, WAVES, schedule=schedule)) == races_in_lds(program)
