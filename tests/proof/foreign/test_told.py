"""Loops that shared memory or an atomic operation tells their end, with loops within (docs/proof.md, "Rounds that are
told"); lanes that part in several ways; blocks in another order. Each sound text is proved, and none of its siblings
with a mistake."""

from __future__ import annotations

import pytest

from minitile.proof import Launch, answer, check
from tests.proof.foreign.sound import HEAD

# Thread 0 draws a tile for all; each tile has n rounds of a loop with barriers. The tile's place is %r5's of thread 0.
DRAWS = """
    mov.u32 %r20, 0;
$TILE:
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra $DRAWN;
    atom.global.add.u32 %r21, [%rd1], 1;
    st.shared.u32 [%r1+512], %r21;
$DRAWN:
    bar.sync 0;
    ld.shared.u32 %r22, [%r1+512];
    setp.ge.u32 %p1, %r22, %r9;
    @%p1 bra $END;
    mov.u32 %r20, 0;
$ROUND:
    st.shared.u32 [%r5], %r22;
    bar.sync 0;
    xor.b32 %r23, %r5, 4;
    ld.shared.u32 %r24, [%r23];
    bar.sync 0;
    add.u32 %r20, %r20, 1;
    setp.lt.u32 %p2, %r20, %r9;
    @%p2 bra $ROUND;
    bra $TILE;
$END:
"""
# Warp 4 draws tiles into a ring of two slots; four warps take them, and each tile has n rounds.
TELLS = """
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra $READY;
    mbarrier.init.shared.b64 [%r1+1024], 1;
    mbarrier.init.shared.b64 [%r1+1032], 1;
    mbarrier.init.shared.b64 [%r1+1040], 128;
    mbarrier.init.shared.b64 [%r1+1048], 128;
$READY:
    bar.sync 0;
    mov.u32 %r10, 0;
    mov.u32 %r11, 0;
    setp.lt.u32 %p1, %r0, 128;
    @%p1 bra $TAKE;
    setp.ne.u32 %p2, %r0, 128;
    @%p2 bra $END;
$DRAW:
    mad.lo.u32 %r12, %r10, 8, %r1;
    xor.b32 %r13, %r11, 1;
$FREE:
    mbarrier.try_wait.parity.shared.b64 %p3, [%r12+1040], %r13;
    @!%p3 bra $FREE;
    atom.global.add.u32 %r14, [%rd1], 1;
    st.shared.u32 [%r12+1056], %r14;
    mbarrier.arrive.shared.b64 _, [%r12+1024];
    xor.b32 %r10, %r10, 1;
    setp.eq.u32 %p4, %r10, 0;
    selp.u32 %r15, 1, 0, %p4;
    xor.b32 %r11, %r11, %r15;
    setp.lt.u32 %p5, %r14, %r9;
    @%p5 bra $DRAW;
    bra $END;
$TAKE:
    mad.lo.u32 %r12, %r10, 8, %r1;
$FULL:
    mbarrier.try_wait.parity.shared.b64 %p3, [%r12+1024], %r11;
    @!%p3 bra $FULL;
    ld.shared.u32 %r14, [%r12+1056];
    mbarrier.arrive.shared.b64 _, [%r12+1040];
    setp.ge.u32 %p5, %r14, %r9;
    @%p5 bra $END;
    xor.b32 %r10, %r10, 1;
    setp.eq.u32 %p4, %r10, 0;
    selp.u32 %r15, 1, 0, %p4;
    xor.b32 %r11, %r11, %r15;
    mov.u32 %r20, 0;
$ROUND:
    st.shared.u32 [%r5], %r14;
    bar.sync 1, 128;
    xor.b32 %r23, %r5, 4;
    ld.shared.u32 %r24, [%r23];
    bar.sync 1, 128;
    add.u32 %r20, %r20, 1;
    setp.lt.u32 %p6, %r20, %r9;
    @%p6 bra $ROUND;
    bra $TAKE;
$END:
"""
# Lanes take one of three ways, of which one has a loop of its own and one a branch by data.
WAYS = """
    ld.global.u32 %r6, [%rd3];
    setp.lt.u32 %p0, %r0, 10;
    @%p0 bra $A;
    setp.lt.u32 %p1, %r0, 20;
    @%p1 bra $B;
    mov.u32 %r7, 0;
$L:
    st.shared.u32 [%r5], %r7;
    add.u32 %r7, %r7, 1;
    setp.lt.u32 %p2, %r7, 3;
    @%p2 bra $L;
    bra $MEET;
$A:
    st.shared.u32 [%r5], %r6;
    bra $MEET;
$B:
    setp.lt.s32 %p3, %r6, 0;
    @%p3 bra $MEET;
    st.shared.u32 [%r5+2048], %r6;
$MEET:
    bar.sync 0;
    setp.lt.u32 %p4, %r0, 10;
    @!%p4 bra $END;
    ld.shared.u32 %r8, [%r5+80];
$END:
"""
SOUND = {"draws": (DRAWS, 128, 1024), "tells": (TELLS, 160, 2048), "ways": (WAYS, 128, 4096)}
BROKEN = {
    "no barrier behind the tile": ("draws", "$DRAWN:\n    bar.sync 0;", "$DRAWN:"),
    "each warp draws for itself": ("draws", "setp.ne.u32 %p0, %r0, 0;", "setp.ne.u32 %p0, %r2, 0;"),
    "one barrier in a round": (
        "draws", "ld.shared.u32 %r24, [%r23];\n    bar.sync 0;", "ld.shared.u32 %r24, [%r23];"
    ),
    "a warp goes by a tile of its own": (
        "draws",
        "setp.ge.u32 %p1, %r22",
        "atom.global.add.u32 %r22, [%rd1], %r3;\n    setp.ge.u32 %p1, %r22",
    ),
    "a round less for warp 0": ("draws", "mov.u32 %r20, 0;\n$ROUND", "min.u32 %r20, %r3, 1;\n$ROUND"),
    "no wait for a free slot": ("tells", "@!%p3 bra $FREE;\n    atom", "atom"),
    "a free slot's parity": ("tells", "xor.b32 %r13, %r11, 1;", "mov.u32 %r13, %r11;"),
    "a full slot's parity": ("tells", "[%r12+1024], %r11;", "[%r12+1024], 0;"),
    "the slot is given back before the tile is read": (
        "tells",
        "ld.shared.u32 %r14, [%r12+1056];\n    mbarrier.arrive.shared.b64 _, [%r12+1040];",
        "mbarrier.arrive.shared.b64 _, [%r12+1040];\n    ld.shared.u32 %r14, [%r12+1056];",
    ),
    "the last tile is told another number": ("tells", "setp.lt.u32 %p5, %r14, %r9;", "setp.le.u32 %p5, %r14, %r9;"),
    "the tile is drawn twice, told once": (
        "tells",
        "    xor.b32 %r10, %r10, 1;\n    setp.eq.u32 %p4, %r10, 0;\n    selp.u32 %r15, 1, 0, %p4;\n"
        "    xor.b32 %r11, %r11, %r15;\n    setp.lt.u32 %p5, %r14",
        "    atom.global.add.u32 %r14, [%rd1], 1;\n    xor.b32 %r10, %r10, 1;\n    setp.eq.u32 %p4, %r10, 0;\n"
        "    selp.u32 %r15, 1, 0, %p4;\n    xor.b32 %r11, %r11, %r15;\n    setp.lt.u32 %p5, %r14",
    ),
    "one barrier in a round of consumers": (
        "tells", "ld.shared.u32 %r24, [%r23];\n    bar.sync 1, 128;", "ld.shared.u32 %r24, [%r23];"
    ),
    "the loop's way writes another's": ("ways", "st.shared.u32 [%r5], %r7;", "st.shared.u32 [%r5+4], %r7;"),
    "no barrier where the ways meet": ("ways", "$MEET:\n    bar.sync 0;", "$MEET:"),
    "a barrier in one way": ("ways", "$A:\n", "$A:\n    bar.sync 0;\n"),
    "what no way has written is read": ("ways", "[%r5+80]", "[%r5+2128]"),
}  # fmt: skip


def asked(name: str, old: str = "", new: str = ""):
    body, threads, shared = SOUND[name]
    assert old in body
    text = HEAD.format(threads=threads) + body.replace(old, new, 1) + "    ret;\n}\n"
    return text, Launch({}, threads=threads, shared=shared)


@pytest.mark.parametrize("name", SOUND)
def test_sound(name):
    text, launch = asked(name)
    found = answer(text, launch)
    assert found, str(found)
    assert check(found.certificate, text, launch) == found.states


@pytest.mark.parametrize("name", BROKEN)
def test_broken(name):
    assert not answer(*asked(*BROKEN[name]), most_states=1000, seconds=20), name
