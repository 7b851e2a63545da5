"""Texts by an adversary, each of which breaks what a rule took for granted of a text without looking: all were proved
by an earlier version. Beside them sound texts that differ little, which stay proved.
"""

from __future__ import annotations

import pytest

from minitile.proof.arithmetic.values import not_negative
from minitile.proof.loops.division import divisor
from tests.proof import test_tickets as tickets
from tests.proof.test_attacks import MEET, against, found, rounds
from tests.proof.test_text import COPY, HEAD, INIT, LOAD, MAP, NEXT, OTHER, PUT, STORE, WAIT, verdict
from tests.proof.test_values import G, unless

END = "\n  ret;\n}\n"
# -- what an operation hangs on, and how far a number goes
PARTS = f"setp.eq.u32 %p4, %r4, 1; @%p4 bra.uni $s; {STORE} bar.warp.sync -1; {NEXT} {LOAD}\n$s:"  # for whole warps
NOT_32 = "mov.u32 %r3, -1; mul.wide.u32 %d3, %r3, 5; shr.u64 %d3, %d3, 40; cvt.u32.u64 %r4, %d3;"
OPERATIONS = {
    "a carry differs in lanes": "add.cc.u32 %r3, %r0, -1; addc.u32 %r4, 0, 0;" + PARTS,
    "a borrow differs in lanes": "sub.cc.u32 %r3, %r0, 5; subc.u32 %r4, 2, 0;" + PARTS,
    "a carry of a product": "mad.lo.cc.u32 %r3, %r0, -1, -1; madc.hi.u32 %r4, 0, 0, 0;" + PARTS,
    "a divisor beyond 32 bits": NOT_32 + "setp.eq.u32 %p3, %r4, 4;" + unless("%p3"),
    "a shift by more than 16 bits": "shl.b16 %h1, 1, 65536; cvt.u32.u16 %r3, %h1; setp.eq.u32 %p3, %r3, 1;"
    + unless("%p3"),
    "32 bits without a sign, stored for all, are loaded into 64": "ld.global.u32 %r3, [%d1];"
    " @%p0 st.shared.u32 [%r1+512], %r3; bar.sync 0; ld.shared.u32 %r4, [%r1+512];"
    " cvt.s64.s32 %d3, %r4; ld.shared.u32 %d4, [%r1+512]; sub.s64 %d3, %d3, %d4; setp.eq.s64 %p3, %d3, 0;"
    + unless("%p3"),
    "32 bits without a sign are loaded into 64": G + "ld.global.u32 %r3, [%d2]; cvt.s64.s32 %d3, %r3;"
    " ld.global.u32 %d4, [%d2]; sub.s64 %d3, %d3, %d4; setp.eq.s64 %p3, %d3, 0;" + unless("%p3"),
}  # fmt: skip

# -- what all lanes of a warp must come to, although nothing hangs on it
OF_ALL = {
    "a vote by one lane": "@%p0 vote.sync.ballot.b32 %r5, %p1, 0xffffffff;",
    "a reduction by one lane": "@%p0 redux.sync.add.u32 %r5, %r0, 0xffffffff;",
    "a comparison by one lane": "@%p0 match.any.sync.b32 %r5, %r0, 0xffffffff;",
    "a product by all but one lane": "@%p0 bra $m; mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
    " {%f0, %f1, %f2, %f3}, {%r3, %r4, %r5, %r6}, {%r7, %r8}, {%f0, %f1, %f2, %f3};\n$m:",
    "registers asked for by one lane": "@%p0 setmaxnreg.inc.sync.aligned.u32 240;",
    "a number from a lane that is not there": "setp.eq.u32 %p3, %r0, 1; mov.u32 %r6, 0;"
    " @%p3 shfl.sync.idx.b32 %r6, %r1, 0, 31, 2; @%p3 st.shared.u32 [%r6], 0;",
}  # fmt: skip

# -- tickets
START, DRAW, BELOW, SLOT, PUT_ = tickets.START, tickets.DRAW, tickets.BELOW, tickets.SLOT, tickets.PUT
DATA = "ld.global.u32 %r3, [%d1]; setp.eq.u32 %p4|%p7, %r3, 0;"
HALF = "and.b32 %r11, %r0, 31; setp.lt.u32 %p6, %r11, 16;"
FROM_5_BELOW = "setp.lt.s32 %p4, %r4, 32; mad.lo.u32 %r5, %r4, 4, %r1; @%p4 st.shared.u32 [%r5+32], %r0;"
BEGIN = "@%p3 st.shared.u32 [%r2+1024], %r8;"
assert BEGIN in START
TICKETS = {
    "the second result of a test is the contrary": START + DRAW + "setp.lt.u32 _|%p4, %r4, 32;" + SLOT + PUT_,
    "a test by some lanes only": START + DATA + DRAW + HALF + "@%p6 setp.lt.u32 %p4, %r4, 32;" + SLOT + PUT_,
    "a counter that begins below 0, by two lanes": START.replace(BEGIN, BEGIN.replace("%r8", "-5"))
    + DRAW + FROM_5_BELOW,
    "a counter that begins with what is not looked at": START.replace(
        "mov.b32 %r8, 0; ", "bra.uni $q;\n$q: mov.b32 %r8, 5; add.s32 %r8, %r8, -10; "
    ) + DRAW + FROM_5_BELOW,
    **{
        f"another change behind all draws, but not in each schedule: {each}": f"{tickets.WHOLE} @%p0 {each};"
        for each in (
            "atom.shared.exch.b32 %r6, [%r1+1024], 0",
            "atom.shared.add.u32 %r6, [%r1+1024], -3",
            "red.shared.and.b32 [%r1+1024], 0",
            "atom.shared.exch.b64 %d4, [%r1+1024], %d5",
        )
    },
}  # fmt: skip

# -- atomics, which do not conflict with each other, but with what was before
ZEROS = "mad.lo.u32 %r3, %r0, 16, %r1; st.shared.v4.u32 [%r3], {0, 0, 0, 0}; fence.proxy.async;"
SECOND = "setp.eq.u32 %p5, %r0, 32; setp.lt.u32 %p3, %r0, 32; add.u32 %r7, %r2, -128;"
SMALL = COPY.replace("%p0", "%p5").replace("], 1024", "], 128")
BOTH = " red.shared.add.u32 [%r7], 1; bra $b;\n$a: red.shared.add.u32 [%r2], 1;\n$b: bar.sync 0;"
DONE = "cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;"
ATOMICS = {
    "an addition in front of which another stands": f"{ZEROS} {INIT} {MAP} {SECOND} @%p3 bra $a; {SMALL} {WAIT}" + BOTH,
    "an addition to what a copy reads, another one before": f"{MAP} {ZEROS} bar.sync 0; {SECOND} @%p3 bra $a;"
    f" @!%p5 bra $q; {PUT.replace('@%p0', '')} {DONE}\n$q: bar.warp.sync -1;" + BOTH,
}  # fmt: skip

# -- loops
START_BELOW = "mov.u32 %r13, %ctaid.x; sub.s32 %r10, %r9, %r13; mov.u32 %r11, %nctaid.x; mov.u32 %r12, %ctaid.y;"


def other(text: str) -> str:
    """The same with names of its own."""
    return text.replace("$l", "$k").replace("$e", "$f").replace("%r6", "%r7")


def strided(kind: str, bound: str) -> str:
    head = f"mov.u32 %r6, %r10;\n$l: setp.ge.{kind} %p2, %r6, {bound}; @%p2 bra $e;"
    return f"{head} {MEET} add.s32 %r6, %r6, %r11; bra $l;\n$e:"


# In round 30 of the second time a barrier is missing.
ROUND = (
    "mov.u32 %r6, 0;\n$l: bar.sync 0; setp.eq.s32 %p4, %r8, 1; @%p4 add.s32 %r10, %r10, 1; setp.eq.s32 %p6, %r10, 30;"
    f"{STORE} @%p6 bra.uni $t; bar.sync 0;\n$t: {OTHER} {LOAD} add.s32 %r6, %r6, 1;"
    " setp.lt.s32 %p2, %r6, %r9; @%p2 bra $l;"
)
TWICE = "mov.u32 %r8, 0;\n$s: bar.warp.sync -1; {} xor.b32 %r8, %r8, 1; setp.eq.s32 %p5, %r8, 1; @%p5 bra $s;"
TILES = "mov.u32 %r7, 0;\n$o: {} add.s32 %r7, %r7, 1; setp.lt.s32 %p3, %r7, %r9; @%p3 bra $o;"
LATER = ROUND.replace(" @%p4 add", " setp.eq.s32 %p5, %r7, 1; and.pred %p4, %p4, %p5; @%p4 add")
JUMPS = "mov.u32 %r8, 0;\n$s: {} add.s32 %r8, %r8, 1; setp.eq.s32 %p7, %r8, 1; @!%p7 bra.uni $z; bra.uni $s;\n$z:"
LOOPS = {
    "a start below 0, tested without a sign": START_BELOW
    + against(rounds("%r10", 1, "lt.u32", "%r9"), other(rounds("%r10", 1, "lt.s32", "%r9"))),
    "a start below 0, tested without a sign against another number": START_BELOW
    + against(rounds("%r10", 1, "lt.u32", "%r12"), other(rounds("%r10", 1, "lt.s32", "%r12"))),
    "down from below 0, tested without a sign": START_BELOW
    + against(rounds("%r10", -1, "gt.u32", "%r12"), other(rounds("%r10", -1, "gt.s32", "%r12"))),
    "a stride from below 0, tested without a sign": START_BELOW
    + against(strided("u32", "%r9"), other(strided("s32", "%r9"))),
    "a counted loop in one that is not": "mov.u32 %r10, 0;" + TWICE.format(ROUND),
    "a counted loop in one that is not, in a third": "mov.u32 %r10, 0;" + TILES.format(TWICE.format(LATER)),
    "a counted loop that a jump leads back to": "mov.u32 %r10, 0;" + JUMPS.format(ROUND),
}  # fmt: skip

# -- rounds of which it is not known how many there are
WORDS = "st.shared.u32 [%r2], 0; bar.sync 0; ld.global.u32 %r3, [%d1]; setp.eq.u32 %p4, %r3, 0; @%p4 bra $e;"
READ = "mad.lo.u32 %r5, {}, 4, %r1; ld.shared.u32 %r4, [%r5];"
UP = f"mov.u32 %r6, 0;\n$l: {READ.format('%r6')} add.u32 %r6, %r6, 1; {{}} @%p2 bra $l;\n$e:"
PASSED = {
    "a bound of -1": WORDS + UP.format("setp.lt.u32 %p2, %r6, -1;"),
    "a test that is passed by": "setp.eq.u32 %p2, %r0, %r0;"
    + WORDS
    + UP.format("ld.global.u32 %r3, [%d1]; setp.eq.u32 %p5, %r3, 0; @%p5 bra $n; setp.lt.s32 %p2, %r6, 8;\n$n:"),
    "a minimum in some round": WORDS + "mov.u32 %r6, 0;\n$l: mov.u32 %r7, 0;\n$k: ld.shared.u32 %r4, [%r1];"
    " add.s32 %r7, %r7, 1; setp.lt.s32 %p2, %r7, %r9; @%p2 bra $k; sub.s32 %r8, %r9, 100; min.s32 %r8, %r8, 4;"
    f"{READ.format('%r8')} add.s32 %r6, %r6, 1; setp.lt.s32 %p2, %r6, %r9; @%p2 bra $l;\n$e:",
    "lanes that are known not to write": f"@%p0 bra $a; {STORE} bra $b;\n$a: mov.u32 %r7, 0;\n$b: bar.sync 0;"
    f"{OTHER} {LOAD}",
}  # fmt: skip

# -- lanes that wait while others of their warp go around a loop
AROUND = "mov.u32 %r6, 0;\n$l: st.shared.u32 [%r2], %r9; add.s32 %r6, %r6, 1; setp.lt.s32 %p2, %r6, %r9; @%p2 bra $l;"
TRUE = "setp.lt.u32 %p6, %r0, 1000;"
LAST = "ld.shared.u32 %r4, [%r1+2048];"
SKIPPED = f"{TRUE} @%p0 bra $a; {AROUND} bra $b;\n$a: {{}} {LAST}\n$b:"
WAITING = {
    "a guard of those who wait is forgotten": SKIPPED.format("@!%p6 st.shared.u32 [%r1+2048], %r9;"),
    "a branch of those who wait is forgotten": SKIPPED.format("@%p6 bra $s; st.shared.u32 [%r1+2048], %r9;\n$s:"),
    "a guard of those who wait where all meet": f"{TRUE} @%p0 bra $b; {AROUND} {TRUE}\n$b: @!%p0 bra $d;"
    f" @!%p6 st.shared.u32 [%r1+2048], %r9; {LAST}\n$d:",
}
# In round 30 of the loop of the lane that waits; what the others count has been lowered by then.
LATE = f"@%p0 bra $a; {AROUND} bra $b;\n$a: mov.u32 %r7, 0; mov.u32 %r10, 1;\n$k: shl.b32 %r10, %r10, 1;" + (
    " setp.eq.u32 %p5, %r10, 1073741824; @%p5 st.shared.u32 [%r1+8192], %r9; add.s32 %r7, %r7, 1;"
    " setp.lt.s32 %p3, %r7, %r9; @%p3 bra $k;\n$b:"
)
LOOPS["a loop that waiting lanes may yet start"] = LATE

# -- what lanes by data may do or not, beside lanes of which it is known
BY_DATA = "ld.global.u32 %r3, [%d1]; setp.eq.u32 %p4, %r3, 0;"
MINE_ = "ld.shared.u32 %r4, [%r2];"
KNOWN = {
    "a write by data, guards of others": f"{TRUE} {BY_DATA} @%p0 bra $e; @%p4 not.pred %p6, %p6;\n$e: @!%p0 bra $f;"
    f" @!%p6 st.shared.u32 [%r1+2048], 1; {LAST}\n$f:",
    "a write by data of some lanes": f"{TRUE} {BY_DATA} setp.ne.u32 %p5, %r0, 0; and.pred %p4, %p4, %p5;"
    f" @%p4 not.pred %p6, %p6; @!%p6 st.shared.u32 [%r2], 1; @%p0 {MINE_}",
    "a way by data, guards of those who wait": f"{TRUE} {BY_DATA} and.b32 %r8, %r0, 1; setp.eq.u32 %p5, %r8, 1;"
    " @%p5 bra $e; @%p4 bra $m; not.pred %p6, %p6;\n$m: st.shared.u32 [%r2], 1;"
    "\n$e: @!%p6 st.shared.u32 [%r2+512], 1; @%p5 ld.shared.u32 %r4, [%r2+512];",
    "lanes known to skip what others skip by data": f"{BY_DATA} or.pred %p4, %p4, %p0; @%p4 bra $e;"
    f" {STORE}\n$e: @%p0 {MINE_}",
    "the same, with an else": f"{BY_DATA} or.pred %p4, %p4, %p0; @%p4 bra $e; {STORE} bra $f;"
    f"\n$e: st.shared.u32 [%r2+512], 1;\n$f: @%p0 {MINE_}",
    "lanes known to take the first of two ways by data": f"{BY_DATA} setp.ne.u32 %p5, %r0, 0; and.pred %p4, %p4, %p5;"
    f" @%p4 bra $e; st.shared.u32 [%r2+512], 1; bra $f;\n$e: {STORE}\n$f: @%p0 {MINE_}",
    "a known branch, up to where others come in": f"{TRUE} {BY_DATA} @%p4 bra $m; @%p6 bra $e; {STORE}"
    f"\n$m: mov.u32 %r10, 0;\n$e: {MINE_}",
    "a known branch behind one by data": f"{TRUE} {BY_DATA} @%p4 bra $e; @%p6 bra $m; {STORE}\n$m: mov.u32 %r10, 0;"
    f"\n$e: {MINE_}",
}

BROKEN = {**KNOWN, **WAITING, **OPERATIONS, **OF_ALL, **TICKETS, **PASSED}
SOUND = {
    "a guard of those who wait": SKIPPED.format("@%p6 st.shared.u32 [%r1+2048], %r9;"),
    "a carry of the launch": "add.cc.u32 %r3, %r9, -1; addc.u32 %r4, 0, 0; st.shared.u32 [%r2], %r4;",
    "a division by a product": "shr.u32 %r3, %r0, 1; mul.wide.u32 %d3, %r3, -1431655765; shr.u64 %d3, %d3, 33;"
    " cvt.u32.u64 %r4, %d3; setp.lt.u32 %p3, %r4, 11;" + unless("%p3"),
    "a vote by all": "vote.sync.ballot.b32 %r5, %p1, 0xffffffff;",
    "a vote by those that it names": "setp.eq.u32 %p3, %r0, 1; @%p3 vote.sync.ballot.b32 %r5, %p1, 2;",
    "a number from a lane that is there": "@%p0 shfl.sync.idx.b32 %r6, %r1, 0, 31, 1; @%p0 st.shared.u32 [%r6], 0;",
    "the first result of a test": START + DRAW + "setp.lt.u32 %p4|_, %r4, 32;" + SLOT + PUT_,
    "a test by some lanes, for them": START + DATA + DRAW + HALF + "mov.pred %p4, %p4; @%p6 setp.lt.u32 %p8, %r4, 32;"
    + SLOT + "and.pred %p8, %p8, %p6;" + PUT_.replace("%p4", "%p8"),
    "a change behind all draws": tickets.WHOLE + "bar.sync 0; @%p0 atom.shared.exch.b32 %r6, [%r1+1024], 0;",
    "a start that is not below 0": "mov.u32 %r10, %ctaid.x;"
    + against(rounds("%r10", 1, "lt.u32", "%r9"), other(rounds("%r10", 1, "lt.s32", "%r9"))),
    "rounds below a bound": WORDS + UP.format("setp.lt.u32 %p2, %r6, 64;"),
    "lanes that write, in two ways": f"@%p0 bra $a; {STORE} bra $b;\n$a: st.shared.u32 [%r2], 5;\n$b: bar.sync 0;"
    f"{OTHER} {LOAD}",
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken(name: str) -> None:
    assert verdict(BROKEN[name], most_states=60) != "proved"


@pytest.mark.parametrize("name", LOOPS)
def test_loops(name: str) -> None:
    assert verdict(LOOPS[name], most_states=150) != "proved"


@pytest.mark.parametrize("name", ATOMICS)
def test_atomics(name: str) -> None:
    assert "races with line" in verdict(ATOMICS[name], box=128)


def test_a_parameter_that_is_no_size() -> None:
    text = (
        HEAD.format(threads=64, shared=4096).replace(".param .s32 N", ".param .f32 N").replace("param.s32", "param.b32")
    )
    body = f"setp.lt.s32 %p3, %r9, 0; @!%p3 bra.uni $s; {STORE} {OTHER} {LOAD}\n$s:"
    assert "nothing has written" in found(text + body + END)


@pytest.mark.parametrize("name", SOUND)
def test_sound(name: str) -> None:
    assert verdict(SOUND[name], most_states=200) == "proved"


def test_numbers() -> None:
    assert not not_negative(-1)
    assert not_negative(5)
    assert divisor(5, 40) == 0  # x · 5 >> 40 is 0 for all x: the divisor has more than 32 bits
    assert divisor(0xAAAAAAAB, 33) == 3
