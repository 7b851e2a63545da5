"""Programs in the forms of kernel libraries: sound ones are proved but for those named, no broken one is."""

from __future__ import annotations

import pytest

from minitile.proof import Launch, answer, check
from tests.proof.foreign.libraries import ALIKE
from tests.proof.foreign.libraries_roles import ROLES
from tests.proof.foreign.library_forms import expanded
from tests.proof.foreign.sound import Text

PROGRAMS = ALIKE | ROLES
# Sound ones that are not proved, with the reason.
REFUSED = {
    "deepgemm_unrolled": "a copy of more bytes than are known to be expected",  # rule E: expect_tx is to come first
    "cutlass_pingpong": "more than 300 states",  # loops to n and to 2 n
    "prologue_min": "not known: [%r25]",  # a loop to min(n, 3), on registers that are used again
}


def asked(text: Text, **least: int):
    launch = Launch(text.boxes, threads=text.threads, shared=text.shared, least=least)
    return answer(text.ptx, launch, most_states=300, seconds=30), launch


@pytest.mark.parametrize("name", PROGRAMS)
def test_sound(name):
    found, launch = asked(PROGRAMS[name].sound)
    assert found.reason == REFUSED.get(name, "")
    if found:
        assert check(found.certificate, PROGRAMS[name].sound.ptx, launch) == found.states


@pytest.mark.parametrize("name", PROGRAMS)
def test_broken(name):
    found, _ = asked(PROGRAMS[name].broken)
    assert not found
    if name not in REFUSED:
        assert found.verdict == "fault"


# Two slots, and n / 16 tiles: the first copies are guarded by n itself, the loop by the quotient.
TILES = """
    shl.b32 %r6, %r0, 4;
    add.u32 %r10, %r1, %r6;
    setp.lt.s32 %p1, %r9, FIRST;
    @%p1 bra A;
    CPASYNC %r10, %rd8;
A:
    cp.async.commit_group;
    setp.lt.s32 %p2, %r9, SECOND;
    @%p2 bra B;
    CPASYNC %r10+2048, %rd8;
B:
    cp.async.commit_group;
    shr.s32 %r11, %r9, 31;
    shr.u32 %r11, %r11, 28;
    add.s32 %r11, %r9, %r11;
    shr.s32 %r12, %r11, 4;
    mov.u32 %r20, 0;
    setp.lt.s32 %p3, %r12, 1;
    @%p3 bra END;
LOOP:
    cp.async.wait_group 1;
    bar.sync 0;
    and.b32 %r21, %r20, 1;
    shl.b32 %r21, %r21, 11;
    add.u32 %r22, %r5, %r21;
    ld.shared.f32 %f10, [%r22];
    bar.sync 0;
    add.s32 %r23, %r20, 2;
    setp.ge.s32 %p4, %r23, %r12;
    @%p4 bra C;
    add.u32 %r24, %r10, %r21;
    CPASYNC %r24, %rd8;
C:
    cp.async.commit_group;
    add.s32 %r20, %r20, 1;
    setp.lt.s32 %p5, %r20, %r12;
    @%p5 bra LOOP;
END:
"""


@pytest.mark.parametrize(
    ("first", "second", "proved"),
    [(16, 32, True), (15, 32, False), (17, 32, False), (16, 31, False), (16, 33, False), (16, 48, False)],
)
def test_quotients(first, second, proved):
    """A size is compared, and a quotient of it is a loop's bound: both tests are of one number."""
    body = expanded(TILES.replace("FIRST", str(first)).replace("SECOND", str(second)))
    assert bool(asked(Text(body))[0]) == proved


@pytest.mark.parametrize(("least", "proved"), [(16, True), (15, False), (0, False)])
def test_least(least, proved):
    """What a size is at least answers tests of it: here a copy that a small size would leave under way."""
    body = """
    shl.b32 %r6, %r0, 4;
    add.u32 %r10, %r1, %r6;
    CPASYNC %r10, %rd8;
    cp.async.commit_group;
    setp.gt.s32 %p1, %r9, 15;
    @!%p1 bra END;
    cp.async.wait_group 0;
END:
"""
    assert bool(asked(Text(expanded(body)), n=least)[0]) == proved


BOTH = """setp.lt.s32 %p10, %r50, %r9;
    setp.lt.u32 %p11, %r50, LIMIT;
    and.pred %p3, %p10, %p11;
    @%p3 bra PRO;"""


@pytest.mark.parametrize(
    ("form", "limit", "proved"),
    [
        *(("min", "3", True), ("min", "2", False), ("min", "4", False)),
        *(("and", "3", True), ("and", "2", False), ("and", "4", False), ("and", "4294967295", False)),
    ],
)
def test_prologue(form, limit, proved):
    """A ring is filled by a loop to n and to a number: as many rounds as the ring has free slots."""
    program = PROGRAMS["prologue_min"]
    prologue, started, rest = program.body.partition("\nSTARTED:")
    prologue = prologue.replace("%r30", "%r50").replace("%r31", "%r51").replace("%r9, 3;", f"%r9, {limit};")
    if form == "and":
        prologue = prologue.replace(f"min.s32 %r51, %r9, {limit};", "mov.b32 %r51, %r9;")
        test = "setp.lt.s32 %p3, %r50, %r51;\n    @%p3 bra PRO;"
        assert prologue.count(test) == 1
        prologue = prologue.replace(test, BOTH.replace("LIMIT", limit))
    text = Text(expanded(prologue + started + rest), program.threads, program.shared, program.boxes)
    assert bool(asked(text)[0]) == proved
