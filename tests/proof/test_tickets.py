"""Slots by what an atomic addition gives: proved where each is of one thread, and not where two may share one."""

from __future__ import annotations

import pytest

from tests.proof.test_text import verdict

# Words at 0 … 255 are written, two counters at 1024 and 1028 are 0, those at 512 … 767 are written too.
START = (
    "st.shared.u32 [%r2], 0; st.shared.u32 [%r2+512], 0; mov.b32 %r8, 0; setp.lt.u32 %p3, %r0, 2;"
    " @%p3 st.shared.u32 [%r2+1024], %r8; bar.sync 0;"
)
DRAW = "atom.shared.add.u32 %r4, [%r1+1024], 1;"
BELOW = "setp.lt.u32 %p4, %r4, 64;"
SLOT = "mad.lo.u32 %r5, %r4, 4, %r1;"
PUT = "@%p4 st.shared.u32 [%r5], %r0;"
WHOLE = START + DRAW + BELOW + SLOT + PUT
SIGNED = WHOLE.replace("lt.u32 %p4", "lt.s32 %p4")
BEHIND = WHOLE.removeprefix(START)
RESET = "@%p0 st.shared.u32 [%r1+1024], 0;"
BY_DATA = "ld.global.u32 %r3, [%d1]; setp.eq.u32 %p5, %r3, 0;"
SOME = f"{BY_DATA} mov.b32 %r4, 0; @%p5 {DRAW} {BELOW} {SLOT}"
OTHER = (
    "atom.shared.add.u32 %r6, [%r1+{}], 1; setp.lt.u32 %p6, %r6, 64; mad.lo.u32 %r7, %r6, 4, %r1;"
    " @%p6 st.shared.u32 [%r7{}], %r0;"
)
BRANCH = f"{DRAW} {BELOW} @!%p4 bra $s; {SLOT} st.shared.u32 [%r5], %r0;\n$s:"
ROUNDS = (
    "ld.global.u32 %r10, [%d1]; bra.uni $t;\n$l: {} add.u32 %r10, %r10, -1;\n$t: setp.ne.u32 %p7, %r10, 0; @%p7 bra $l;"
)
TURN = "@%p7 bra.uni $e; bar.sync 0;\n$e:"
OVER = (
    "@!%p0 bra $x;\n mbarrier.init.shared.b64 [%r1+2048], 1; fence.mbarrier_init.release.cluster;\n$x:"
    " fence.proxy.async.shared::cta; bar.sync 0; @!%p0 bra $y;\n"
    " mbarrier.arrive.expect_tx.shared.b64 _, [%r1+2048], 1280;\n"
    " cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d1], 1280, [%r1+2048];\n"
    "$y: mbarrier.try_wait.parity.shared.b64 %p1, [%r1+2048], 0; @!%p1 bra $y; ld.shared.u32 %r7, [%r2];"
)
SOUND = {
    "a slot for each thread": WHOLE,
    "by a signed test": SIGNED,
    "by a test against the number itself": WHOLE.replace(BELOW, "setp.le.u32 %p4, %r4, 63;"),
    "the other way round": WHOLE.replace(BELOW, "setp.gt.u32 %p4, 64, %r4;"),
    "shared by halves of words": WHOLE.replace("%r4, 4,", "%r4, 2,").replace(
        "st.shared.u32 [%r5], %r0", "st.shared.u16 [%r5], %h0"
    ),
    "in steps of 2": WHOLE.replace("1024], 1;", "1024], 2;").replace("%r4, 64", "%r4, 32"),
    "read behind a barrier": WHOLE + "bar.sync 0; ld.shared.u32 %r7, [%r2];",
    "by some threads": f"{START} {SOME} and.pred %p4, %p4, %p5; {PUT}",
    "by some threads, tested in another order": f"{START} {SOME} and.pred %p6, %p5, %p4; and.pred %p4, %p6, %p0; {PUT}",
    "behind a branch": START + BRANCH,
    "behind a barrier": START + DRAW + BELOW + SLOT + "bar.sync 0;" + PUT,
    "two counters with slots of their own": WHOLE + OTHER.format(1028, "+512"),
    "two draws from one counter": WHOLE + OTHER.format(1024, ""),
    "again behind a barrier": WHOLE + "bar.sync 0;" + RESET + "bar.sync 0;" + DRAW + BELOW + SLOT + PUT,
    "another addition before, behind a barrier": START + "atom.shared.add.u32 %r6, [%r1+1024], 3; bar.sync 0;" + BEHIND,
    "in rounds": START + ROUNDS.format(BRANCH),
    "a copy over the counter and its slots": WHOLE + OVER,
    "what has been counted, one number for all": WHOLE + "bar.sync 0; ld.shared.u32 %r7, [%r1+1024];"
    " setp.gt.s32 %p7, %r7, 32; @%p7 bra.uni $e; bar.sync 0;\n$e:",
    "so many rounds as have been counted": WHOLE + "bar.sync 0; ld.shared.u32 %r7, [%r1+1024]; min.s32 %r7, %r7, 64;"
    " mov.b32 %r6, %r0; setp.ge.s32 %p7, %r6, %r7; @%p7 bra $e;\n$l: mad.lo.u32 %r5, %r6, 4, %r1;"
    " ld.shared.u32 %r9, [%r5]; add.s32 %r6, %r6, 1; setp.lt.s32 %p7, %r6, %r7; @%p7 bra $l;\n$e:",
}
BROKEN = {
    "no test": START + DRAW + SLOT + "st.shared.u32 [%r5], %r0;",
    "a test that lets too many in": WHOLE.replace("%r4, 64", "%r4, 1200"),
    "slots reach the counter": WHOLE.replace("%r4, 64", "%r4, 257"),
    "the contrary of the test": WHOLE.replace("@%p4 st", "@!%p4 st"),
    "or, not and": f"{START} {SOME} or.pred %p4, %p4, %p5; {PUT}",
    "a test of another draw": START
    + DRAW
    + "mov.b32 %r6, %r4;"
    + DRAW.replace("%r4", "%r7")
    + "setp.lt.u32 %p4, %r7, 64;"
    " mad.lo.u32 %r5, %r6, 4, %r1;" + PUT,
    "a test before the number is drawn anew": START + DRAW + BELOW + DRAW + SLOT + PUT,
    "a test before it is drawn anew, in rounds": START + DRAW + BELOW + ROUNDS.format(DRAW + SLOT + PUT),
    "the number of the round before": START
    + DRAW
    + ROUNDS.format(f"mov.b32 %r6, %r4; {DRAW} setp.lt.u32 %p4, %r6, 64; mad.lo.u32 %r5, %r6, 4, %r1;" + PUT),
    "by threads that have drawn none": f"{START} {SOME} {PUT}",
    "by threads that have drawn none, the contrary": f"{START} {SOME} not.pred %p6, %p5; and.pred %p4, %p4, %p6; {PUT}",
    "drawn by another truth": f"{START} {SOME} {BY_DATA.replace('%p5', '%p6')} and.pred %p4, %p4, %p6; {PUT}",
    "drawn by a truth of before": f"{START} {SOME} {BY_DATA} and.pred %p4, %p4, %p5; {PUT}",
    "a label behind the branch": START
    + BRANCH.replace("@!%p4 bra $s;", "@!%p4 bra $s;\n$m: ")
    + BY_DATA
    + "@%p5 bra $m;",
    "places that overlap": WHOLE.replace("%r4, 4,", "%r4, 2,").replace("u32 [%r5], %r0", "u8 [%r5+1], %h0")
    + DRAW
    + BELOW
    + "mad.lo.u32 %r5, %r4, 2, %r1;"
    + "@%p4 st.shared.u16 [%r5], %h0;",
    "one place": WHOLE.replace("%r4, 4,", "%r4, 0,"),
    "places that come around": WHOLE.replace("%r4, 4,", "%r4, 2147483648,"),
    "places that go down, to one of another lane": START
    + DRAW
    + "mad.lo.u32 %r5, %r4, -4, %r1; setp.lt.u32 %p4, %r4, 1; @%p4 st.shared.u32 [%r5+100], %r0;"
    " setp.lt.u32 %p6, %r4, 64; @%p6 st.shared.u32 [%r5+252], %r0;",
    "pairs of slots": WHOLE.replace(PUT, PUT + "@%p4 st.shared.u32 [%r5+4], %r0;"),
    "two counters, slots of both": WHOLE + OTHER.format(1028, ""),
    "two counters, slots that overlap": WHOLE + OTHER.format(1028, "+252"),
    "another thread's number": START + DRAW + "shfl.sync.idx.b32 %r4, %r4, 0, 31, -1;" + BELOW + SLOT + PUT,
    "a neighbour's number": START
    + DRAW
    + "shfl.sync.bfly.b32 %r6, %r4, 1, 31, -1;"
    + BELOW
    + SLOT
    + PUT
    + "setp.lt.u32 %p6, %r6, 64; mad.lo.u32 %r7, %r6, 4, %r1; @%p6 st.shared.u32 [%r7], 0;",
    "a slot of another": WHOLE + "@%p0 st.shared.u32 [%r1+8], 0;",
    "read without a barrier": WHOLE + "ld.shared.u32 %r7, [%r2];",
    "a counter that begins anywhere": SIGNED.replace("mov.b32 %r8, 0", "ld.global.u32 %r8, [%d1]"),
    "a counter that begins below 0": SIGNED.replace("mov.b32 %r8, 0", "mov.b32 %r8, -5"),
    "a counter that is never written": WHOLE.replace("1024", "2048").replace("[%r2+2048]", "[%r2+3072]"),
    "slots that is never written": WHOLE.replace("st.shared.u32 [%r2], 0;", ""),
    "a reset at the same time": START + RESET + BEHIND,
    "a reset behind it": WHOLE + RESET,
    "slots of before a reset": START
    + DRAW
    + BELOW
    + SLOT
    + "bar.sync 0;"
    + RESET
    + "bar.sync 0;"
    + PUT
    + OTHER.format(1024, ""),
    "slots of before and behind a reset": WHOLE + "bar.sync 0;" + RESET + "bar.sync 0;" + OTHER.format(1024, "") + PUT,
    "a reset that is no barrier's": WHOLE.replace(PUT, "")
    + "bar.sync 0;"
    + RESET
    + "bar.sync 0;"
    + PUT
    + OTHER.format(1024, ""),
    "another amount at the same time": START + "@%p0 red.shared.add.u32 [%r1+1024], 2;" + BEHIND,
    "another amount behind it": START + DRAW + BELOW + "@%p0 atom.shared.add.u32 %r6, [%r1+1024], 2;" + SLOT + PUT,
    "an amount below 0": START + "@%p0 atom.shared.add.u32 %r6, [%r1+1024], -1;" + BEHIND,
    "an amount that is not known": START + BY_DATA + "@%p0 red.shared.add.u32 [%r1+1024], %r3;" + BEHIND,
    "no amount": WHOLE.replace("1024], 1;", "1024], 0;"),
    "another operation at the same time": START + "@%p0 atom.shared.exch.b32 %r6, [%r1+1024], 0;" + BEHIND,
    "another operation": WHOLE.replace("atom.shared.add", "atom.shared.or"),
    "a number that comes around": WHOLE.replace(
        "atom.shared.add.u32 %r4, [%r1+1024], 1", "atom.shared.inc.u32 %r4, [%r1+1024], 7"
    ),
    "an addition to half of the counter": START + "@%p0 atom.shared.add.u64 %d5, [%r1+1024], 1;" + BEHIND,
    "a race in rounds": START + ROUNDS.format(BRANCH + "ld.shared.u32 %r7, [%r2];"),
    "a race with another round": START + ROUNDS.format("ld.shared.u32 %r7, [%r2]; " + BRANCH),
    "what has been counted, while it is": WHOLE + "ld.shared.u32 %r7, [%r1+1024]; setp.gt.s32 %p7, %r7, 32;" + TURN,
    "what has been counted, before and behind more": WHOLE
    + "bar.sync 0; ld.shared.u32 %r7, [%r1+1024]; bar.sync 0;"
    + DRAW
    + "bar.sync 0;"
    " setp.lt.u32 %p6, %r0, 32; @%p6 ld.shared.u32 %r7, [%r1+1024]; setp.gt.s32 %p7, %r7, 32;" + TURN,
    "more rounds than there are words": WHOLE + "bar.sync 0; ld.shared.u32 %r7, [%r1+1024]; min.s32 %r7, %r7, 2000;"
    " mov.b32 %r6, %r0; setp.ge.s32 %p7, %r6, %r7; @%p7 bra $e;\n$l: mad.lo.u32 %r5, %r6, 4, %r1;"
    " ld.shared.u32 %r9, [%r5]; add.s32 %r6, %r6, 1; setp.lt.s32 %p7, %r6, %r7; @%p7 bra $l;\n$e:",
    "another address where a loop is entered": START + "ld.global.u32 %r10, [%d1]; mov.b32 %r5, %r1;"
    " bra.uni $t; mov.b32 %r5, %r2;\n"
    "$l: st.shared.u32 [%r5], %r0; add.u32 %r10, %r10, -1;\n$t: setp.ne.u32 %p7, %r10, 0; @%p7 bra $l;",
}


@pytest.mark.parametrize("name", SOUND)
def test_sound(name: str) -> None:
    assert verdict(SOUND[name]) == "proved"


@pytest.mark.parametrize("name", BROKEN)
def test_broken(name: str) -> None:
    assert verdict(BROKEN[name]) != "proved"
