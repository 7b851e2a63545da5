"""What workgroups know of each other: a release, an atomic that carries it and an acquire order accesses of two
workgroups, and each of them is needed."""

from __future__ import annotations

import re

import pytest

from minitile.runtime.sim.mutate.amdgcn import removals
from tests.sim.amdgcn.harness import SCHEDULES, text_of
from tests.sim.amdgcn.test_access_sets import ADD, BARRIER, LOAD, STORE, WAIT, found_in, only, wave

PLACE = "v_mov_b32 v8, 0x800\nv_mov_b32 v9, 1\n"  # a counter
RELEASE, ACQUIRE = f"buffer_wbl2 sc1\n{WAIT}", "buffer_inv sc1\n"
TELL = "global_atomic_add v8, v9, s[4:5]\n"
RESET = "v_mov_b32 v9, 0\ns_mov_b64 exec, 1\nglobal_store_dword v8, v9, s[4:5]\ns_mov_b64 exec, -1\n"  # by one lane
RACE, WAW = {("missing_barrier", "RAW")}, {("missing_barrier", "WAW")}


def until(count):
    """Adds nothing to the counter until it has been told so often."""
    return (
        f".Luntil{count}:\nv_mov_b32 v9, 0\nglobal_atomic_add v10, v8, v9, s[4:5] sc0\n{WAIT}"
        f"v_readfirstlane_b32 s9, v10\ns_cmp_lt_u32 s9, {64 * count}\ns_cbranch_scc1 .Luntil{count}\n"
    )


def handed(first, then, count=1, flag=TELL):
    """Workgroup 0 does the first and tells; workgroup 1 hears of it and does the second."""
    return PLACE + only("s2", [0], first + flag) + only("s2", [1], until(count) + then)


CASES = {
    "as it should be": (handed(STORE + RELEASE, ACQUIRE + LOAD), set()),
    "for the host": (
        handed(STORE + RELEASE.replace("sc1", "sc0 sc1"), ACQUIRE.replace("sc1", "sc0 sc1") + LOAD),
        set(),
    ),
    "no release": (handed(STORE + WAIT, ACQUIRE + LOAD), RACE),
    "no acquire": (handed(STORE + RELEASE, LOAD), RACE),
    "released for the workgroup": (handed(STORE + RELEASE.replace("sc1", "sc0"), ACQUIRE + LOAD), RACE),
    "acquired for the workgroup": (handed(STORE + RELEASE, ACQUIRE.replace("sc1", "sc0") + LOAD), RACE),
    "told before the release is done": (handed(STORE + "buffer_wbl2 sc1\n", ACQUIRE + LOAD), RACE),
    "released before the store": (handed(RELEASE + STORE + WAIT, ACQUIRE + LOAD), RACE),
    "acquired before it was told": (
        PLACE + only("s2", [0], STORE + RELEASE + TELL) + only("s2", [1], ACQUIRE + until(1) + LOAD),
        RACE,
    ),
    "a load of the counter hears as well": (
        PLACE
        + only("s2", [0], STORE + RELEASE + TELL)
        + only(
            "s2",
            [1],
            f".Lpoll:\nglobal_load_dword v10, v8, s[4:5] sc1\n{WAIT}v_readfirstlane_b32 s9, v10\ns_cmp_lt_u32 s9, 64\n"
            f"s_cbranch_scc1 .Lpoll\n{ACQUIRE}{LOAD}",
        ),
        set(),
    ),
    "a store tells as well": (
        handed(STORE + RELEASE, ACQUIRE + LOAD, flag="v_mov_b32 v9, 64\nglobal_store_dword v8, v9, s[4:5] sc1\n"),
        set(),
    ),
    "what was read is written": (handed(LOAD + RELEASE, ACQUIRE + STORE), set()),
    "what was read is written, no release": (handed(LOAD + WAIT, ACQUIRE + STORE), {("missing_barrier", "WAR")}),
    "the counter itself, by who has heard": (handed("", RESET) + "buffer_wbl2\n", set()),
    "the counter itself, by who has not": (PLACE + only("s2", [0], TELL) + only("s2", [1], RESET + RELEASE), WAW),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", CASES)
def test_between_two_workgroups(name, schedule):
    body, expected = CASES[name]
    assert found_in(body, waves=1, groups=2, schedule=schedule) == expected


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_through_a_third(schedule):
    """Who has acquired releases what it knows, too."""
    counters = {1: until(1), 2: until(2)}
    body = (
        PLACE
        + only("s2", [0], STORE + RELEASE + TELL)
        + only("s2", [1], counters[1] + ACQUIRE + RELEASE + "v_mov_b32 v9, 1\n" + TELL)
        + only("s2", [2], counters[2] + ACQUIRE + LOAD)
    )
    assert found_in(body, waves=1, groups=3, schedule=schedule) == set()
    assert found_in(body.replace(ACQUIRE + RELEASE, RELEASE), waves=1, groups=3, schedule=schedule) <= RACE


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    ("waits", "meets", "joins", "expected"),
    [
        (WAIT, BARRIER, BARRIER, set()),
        ("", BARRIER, BARRIER, RACE),  # the barrier waits for nothing
        (WAIT, "", BARRIER, RACE),
        (WAIT, BARRIER, "", RACE),
    ],
    ids=["whole", "no wait", "no barrier in front", "no barrier behind"],
)
def test_one_wave_speaks_for_all(waits, meets, joins, expected, schedule):
    """All waves store, wait and meet; one releases and tells. There one hears and acquires, and all meet and read."""
    tells, hears = wave(0, RELEASE + TELL), wave(0, until(1) + ACQUIRE)
    swapped = LOAD.replace("v1", "v2")  # of what other waves have written
    apart = STORE.replace("v1", "v2")
    body = PLACE + only("s2", [0], apart + waits + meets + tells)
    body += only("s2", [1], hears + joins + "v_xor_b32 v2, 0x100, v2\n" + swapped)
    found = found_in(body, waves=2, groups=2, schedule=schedule)
    assert found == expected or (expected and found)


def test_each_is_taken_away():
    text = text_of(CASES["as it should be"][0], 1)
    gone = [each.instruction for each in removals(text, "k")]
    assert [re.match(r"buffer_\w+", each)[0] for each in gone if each.startswith("buffer")] == [
        "buffer_wbl2",
        "buffer_inv",
    ]


def test_atomics_order_nothing_by_themselves():
    assert found_in(PLACE + handed(STORE + WAIT, LOAD), waves=1, groups=2) == RACE
    assert found_in(ADD + RELEASE, waves=1, groups=2) == set()
