"""CUDA programs as nvcc or NVRTC compile them (texts/cuda): a block of two dimensions, scalars in shared memory, loops
of one thread, registers' numbers of some lanes only, waits as inline assembly, `cuda::barrier` and its back-off,
`cuda::pipeline`, loops unrolled by 4 beside rings of 2, 3 and 4 slots, slots by `i % 3`, counters of 64 bits, tiles
that are drawn, loops with a vote, lanes that part in three ways, blocks that stand in front of their loop. Each is
proved; without any one of its synchronising instructions it is not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from minitile.proof import Launch, answer, check, prove
from tests.proof.foreign.schedules import some_schedule

FOLDER = Path(__file__).parent / "texts" / "cuda"
LAUNCHES = {
    "transpose": Launch({}, block=(32, 8)),
    "histogram": Launch({}, 256),
    "compaction": Launch({}, 256),
    "bulk_copies": Launch({}, 128),
    "bulk_stores": Launch({}, 128),
    "roles_by_registers": Launch({}, 160),
    "turns": Launch({"k_param_0": 4096}, 384),
    "products": Launch({"k_param_0": 8192, "k_param_1": 2048}, 256),
    "arrivals": Launch({}, 256),
    "split_arrival": Launch({}, 256),
    "backoff": Launch({}, 256),
    "pipeline": Launch({}, 128),
    "double_buffer": Launch({}, 256),
    "rows": Launch({}, 256),
    "ring_of_threads": Launch({}, 256),
    "ring_of_copies": Launch({}, 160),
    "ring_by_three": Launch({}, 128),
    "alternate": Launch({}, 128),
    "halo": Launch({}, 256),
    "sizes": Launch({}, 128),
    "pointers": Launch({}, 128),
    "drawn": Launch({}, 256),
    "votes": Launch({}, 128),
    "ways": Launch({}, 64),
    "scheduler": Launch({}, 160),
}
QUICK = (
    *("transpose", "histogram", "compaction", "bulk_copies", "arrivals", "split_arrival", "backoff", "pipeline"),
    *("alternate", "halo", "sizes", "pointers", "drawn", "votes", "ways"),
)
FAULTS = [
    ("bulk_copies", "xor.b32", "and.b32", "a parity that is not flipped"),
    ("bulk_copies", ".read 0;", ".read 1;", "a tile is fetched into what is being stored"),
    ("bulk_copies", "_, [%r15], %r18;", "_, [%r15], 512;", "fewer bytes are expected than come"),
    ("histogram", "atom.shared.add.u32 %r17, [%r16], 1;", "st.shared.u32 [%r16], %r17;", "counts that are no atomics"),
    ("compaction", "bar.sync 0;", "bar.warp.sync -1;", "barriers of warps"),
    ("transpose", "bar.sync 0;", "", "no barrier"),
    ("arrivals", "setp.eq.s32 %p7, %r28, 0;", "setp.lt.s32 %p7, %r44, 16;", "a wait that gives up"),
    ("arrivals", "[%r21], %r22;", "[%r21], 2;", "each thread arrives twice"),
    ("split_arrival", "setp.eq.s32 %p6", "setp.ne.s32 %p6", "goes on when the phase is not complete"),
    ("backoff", "mov.u32 %r24, 0;", "mov.u32 %r24, 1;", "is tried again for another phase"),
    ("backoff", "@%p3 bra", "@!%p3 bra", "goes on when the phase is not complete"),
    ("pipeline", "cp.async.wait_group 1;", "cp.async.wait_group 2;", "waits for all but two copies"),
    ("double_buffer", "cp.async.wait_group 1;", "cp.async.wait_group 2;", "waits for all but two groups"),
    ("rows", "barrier.sync 0;", "bar.warp.sync -1;", "barriers of warps"),
    ("ring_of_threads", "[%r41], %r50;", "[%r41], 64;", "a slot is free when half of its readers are done"),
    ("ring_by_three", "cp.async.wait_group 1;", "cp.async.wait_group 2;", "waits for all but two groups"),
    (
        "ring_by_three",
        "add.s32 \t%r165, %r167, 2;",
        "add.s32 \t%r165, %r167, 3;",
        "what is left over goes a slot ahead",
    ),
    ("alternate", "and.b32  \t%r39, %r72, 1;", "mov.u32 \t%r39, 0;", "the first phase is always waited for"),
    ("alternate", "and.b32  \t%r60, %r61, 1;", "and.b32  \t%r60, %r75, 1;", "the last tile's phase is its slot"),
    (
        "pointers",
        "add.s64 \t%rd14, %rd14, 512;",
        "add.s64 \t%rd14, %rd14, %rd4;",
        "each thread goes on by another stride",
    ),
    ("sizes", "cvt.u64.u32 \t%rd3, %r10;", "cvt.u64.u32 \t%rd3, %r1;", "each thread goes on by another stride"),
    ("halo", "bar.sync \t0;", "bar.warp.sync -1;", "barriers of warps"),
    ("drawn", "st.shared.u32 \t[_ZZ1kE4tile], %r20;", "", "no tile is told"),
    ("votes", "bar.red.or.pred \t%p2, 0, %p1;", "mov.pred %p2, %p1;", "each warp votes for itself"),
    ("ways", "setp.lt.s32 \t%p4, %r1, 20;", "setp.lt.s32 \t%p4, %r1, 21;", "a lane writes what another writes"),
    ("ring_of_copies", "mov.u32 %r50, 4;", "mov.u32 %r50, 3;", "a slot is free when three of four warps are done"),
]
SYNCHRONISES = re.compile(
    r"\s*(?:bar(?:rier)?\.|mbarrier\.(?:arrive|try_wait)|fence\.|wgmma\.(?:fence|wait|commit)|cp\.async\.wait|"
    r"cp\.async\.bulk\.(?:wait|commit))"
)
# Such lines that nothing would miss, by their number among these.
SPARE = {
    "turns": {9},  # the other warpgroup's turn lies between what is read and what is written next
    # In the n mod 4 rounds that are left over at the end: what was read there is never written again.
    "ring_of_threads": {20},
    "ring_of_copies": {29, 30, 31},
    # Behind the last of an odd number of tiles there is no next one to fetch, nor anything that uses shared memory.
    "alternate": {11, 13, 14},
}
# Those whose schedules are not run, for some sizes at least: tests/proof/concrete.py does not read them (places or
# branches by data, waits by tokens, registers' numbers of some lanes), or they are too many.
NOT_RUN = (
    *("histogram", "turns", "arrivals", "split_arrival", "rows"),
    *("sizes", "drawn", "votes", "ways", "scheduler"),
)
NO_ROUNDS = ("pointers",)  # its loop goes on up to a pointer, which no size tells


def read(name: str) -> str:
    return (FOLDER / f"{name}.ptx").read_text()


def test_each_text_is_looked_at():
    assert {each.stem for each in FOLDER.glob("*.ptx")} == {*LAUNCHES}


def is_proved(name: str) -> None:
    found = answer(read(name), LAUNCHES[name])
    assert found, str(found)
    assert check(found.certificate, read(name), LAUNCHES[name]) == found.states


@pytest.mark.parametrize("name", QUICK)
def test_a_program(name):
    is_proved(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({*LAUNCHES} - {*QUICK}))
def test_a_larger_program(name):
    is_proved(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", LAUNCHES)
def test_no_schedule_has_a_fault(name):
    together = prove(read(name), LAUNCHES[name]).together
    found = [some_schedule(read(name), LAUNCHES[name], n, together) for n in (1, 2, 5, 9, 64)]
    assert {*found} <= {"", None}
    assert (None in found) == (name in NOT_RUN)


@pytest.mark.parametrize(("name", "old", "new", "what"), FAULTS)
def test_a_fault(name, old, new, what):
    text = read(name)
    assert old in text, what
    assert not answer(text.replace(old, new), LAUNCHES[name]), what


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "old", "new", "what"), [each for each in FAULTS if each[0] not in NOT_RUN + NO_ROUNDS]
)
def test_some_schedule_has_a_fault(name, old, new, what):
    found = [some_schedule(read(name).replace(old, new), LAUNCHES[name], n) for n in (3, 5, 9, 64)]
    assert any(found) or None in found


@pytest.mark.slow
@pytest.mark.parametrize("name", LAUNCHES)
def test_each_synchronising_instruction_counts(name):
    lines = read(name).split("\n")
    places = [n for n, line in enumerate(lines) if SYNCHRONISES.match(line)]
    assert places
    for k, n in enumerate(places):
        without = "\n".join((*lines[:n], *lines[n + 1 :]))
        found = answer(without, LAUNCHES[name], seconds=20)
        assert bool(found) == (k in SPARE.get(name, set())), (n, lines[n])
