"""Each form that a foreign text may have: a sound text is proved, and one that only looks like it is not.

Those in WRONG were thought of as an adversary would: by which wrong reading of a form could this be proved?
"""

from __future__ import annotations

import pytest

from minitile.proof import Launch, answer
from minitile.proof.arithmetic.operations import computed
from minitile.proof.arithmetic.values import TOP, UNIFORM, Affine, Among, binary, symbol
from minitile.proof.butterflies import ALL
from minitile.proof.loops.division import divisor
from minitile.proof.text import parse
from tests.proof.test_text import (
    CP,
    DATA,
    HEAD,
    INIT,
    LOAD,
    LOOP,
    NEXT,
    OTHER,
    STORE,
    WAIT,
    verdict,
)

SWAP = f"{OTHER} {LOAD}"
ROUND = f"{STORE} bar.sync 0; {SWAP} bar.sync 0;"
BYTES = (
    "@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [%r1+1024], 1024;\n@%p0 cp.async.bulk.shared::cluster.global."
    "mbarrier::complete_tx::bytes [%r1], [%d1], {}, [%r1+1024];"
)
MANY = "@!%p0 bra $x;\n mbarrier.init.shared.b64 [%r1+1024], 64;\n$x:\n bar.sync 0;"
INDEX = "ld.global.u32 %r3, [%d1]; {} mad.lo.u32 %r3, %r3, 4, %r1;"
BINS = "st.shared.u32 [%r2], 0; bar.sync 0;"
BUTTERFLY = "".join(
    f"shfl.sync.bfly.b32 %r11|%p7, %r10, {by}, 31, 0xffffffff; add.f32 %r10, %r10, %r11;" for by in (16, 8, 4, 2, 1)
)
ONE_PLACE = "shr.u32 %r12, %r0, 5; mad.lo.u32 %r12, %r12, 4, %r1; st.shared.u32 [%r12], %r10;"
SUMS = f"ld.global.u32 %r10, [%d1]; {BUTTERFLY} {ONE_PLACE}"
TURN = "mov.u32 %r5, %ctaid.x; mov.u32 %r6, %nctaid.x;\n$l:\n setp.ge.u32 %p2, %r5, %r9; @%p2 bra $e; {} bra $l;\n$e:"
VOTE = f"{DATA} bar.red.or.pred %p5, 0, %p4;"
DOWN = (
    "mov.u32 %r6, %r9;\n setp.eq.s32 %p2, %r6, 0; @%p2 bra $e;\n$l:\n{}\n"
    " add.s32 %r6, %r6, -1;\n setp.ne.s32 %p2, %r6, 0;\n @%p2 bra $l;\n$e:"
)
MEET = DOWN.format("bar.sync 1, 64;")
ROLES = "setp.lt.u32 %p3, %r0, 32; @%p3 bra $a; {} bra $b;\n$a:\n{}\n$b:"
TWO = DOWN.replace("$l", "$k").replace("$e", "$f").replace("%r6", "%r7")

RIGHT = [
    # Scopes, spelling.
    "{ .reg .b32 %r2; mov.u32 %r2, 5; } " + STORE,
    "{ .reg .b32 t; .reg .pred P<3>; mov.u32 t, %r2; setp.eq.u32 P1, t, 0; st.shared.u32 [ t + 0x0 ], %r0; }",
    f"{STORE} barrier.cta.sync.aligned 0, 64; {SWAP}",
    f"{STORE} barrier.sync 0; {SWAP}",
    f"{STORE} bar.sync 0; {SWAP} exit;",
    # Waits.
    f"{INIT} {BYTES.format(1024)} $w:\n mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r1+1024], 0; "
     f"selp.b32 %r8, 1, 0, %p1;"
    f" setp.eq.s32 %p5, %r8, 0; @%p5 bra $w; mov.u32 %r3, %r2; {LOAD}",
    f"{INIT} {BYTES.format(1024)} {{ .reg .pred P;\n"
    f" L: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 P, [%r1+1024], 0, 20;"
    f" @P bra D; bra L;\n D: }} mov.u32 %r3, %r2; {LOAD}",
    # Loops: down, to !=, at the head, by a stride, doubling, by lanes.
    DOWN.format(ROUND),
    ROLES.format(MEET, TWO.format("bar.sync 1, 64;")),
    "mov.u32 %r6, 0;\n$l:\n setp.lt.u32 %p2, %r6, %r9; @!%p2 bra $e; " + ROUND + " add.u32 %r6, %r6, 1; bra $l;\n$e:",
    TURN.format(f"{ROUND} add.u32 %r5, %r5, %r6;".replace("b32 %r5", "b32 %r15").replace("%r5, 4", "%r15, 4")),
    f"{STORE} bar.sync 0; mov.u32 %r6, 1;\n$l:\n {OTHER} {LOAD} bar.sync 0; {STORE} bar.sync 0; shl.b32 %r6, %r6, 1;"
    " setp.lt.u32 %p2, %r6, 64; @%p2 bra $l;",
    "mov.u32 %r6, %r0;\n$l:\n mad.lo.u32 %r7, %r6, 4, %r1; st.shared.u32 [%r7], 0; add.u32 %r6, %r6, 64;"
    f" setp.lt.u32 %p2, %r6, 100; @%p2 bra $l; bar.sync 0; {OTHER} {LOAD}",
    # Lanes that part: if and else, one within another.
    "and.b32 %r6, %r0, 1; setp.eq.u32 %p2, %r6, 0; @%p2 bra $a; and.b32 %r7, %r0, 2; setp.eq.u32 %p3, %r7, 0; "
     "@%p3 bra $c;"
    " st.shared.u32 [%r2], 1;\n$c: bra $b;\n$a:\n st.shared.u32 [%r2], 2;\n$b: bar.warp.sync -1;",
    # Atomics; places that are not known; generic addresses.
    f"{BINS} {INDEX.format('and.b32 %r3, %r3, 63;')} red.shared.add.u32 [%r3], 1; atom.shared.add.u32 %r4, [%r3], 1;"
    f" bar.sync 0; mov.u32 %r3, %r2; {LOAD}",
    f"{BINS} {INDEX.format('rem.u32 %r3, %r3, 64;')} {LOAD}",
    f"{BINS} {INDEX.format('shr.u32 %r3, %r3, 26;')} {LOAD}",
    "cvt.u64.u32 %d5, %r2; cvta.shared.u64 %d5, %d5; st.u32 [%d5], 0; ld.u32 %r4, [%d5]; ld.param.u64 %d6, [G]; "
     "st.u32 [%d6], 0;",
    # Tokens, sums of a warp, votes of the block, copies of bytes.
    f"{MANY} {STORE} mbarrier.arrive.shared.b64 %d5, [%r1+1024];"
     f"\n$w: mbarrier.try_wait.shared.b64 %p1, [%r1+1024], %d5;"
    f" @!%p1 bra $w; {SWAP}",
    SUMS,
    f"{STORE} {VOTE} {SWAP} @%p5 bra $a; bar.sync 0;\n$a:",
    f"{INIT} {BYTES.format(1024)} {WAIT} mov.u32 %r3, %r2; {LOAD}",
    # Counters taken apart, a quotient by a product.
    LOOP.format("shr.u32 %r7, %r6, 1; and.b32 %r7, %r7, 1; mad.lo.u32 %r7, %r7, 256, %r2; st.shared.u32 [%r7], 0;"),
    "mov.u32 %r5, %r2;"
    + LOOP.format(
        "mul.wide.u32 %d5, %r6, -1431655765; shr.u64 %d6, %d5, 33; cvt.u32.u64 %r7, %d6; "
         "mad.lo.s32 %r7, %r7, -768, %r5;"
        " st.shared.u32 [%r7], 0; add.u32 %r5, %r5, 256;"
    ),
]  # fmt: skip
WRONG = [
    # The scope's register is another one; the outer one is still as it was.
    ("{ .reg .b32 %r2; mov.u32 %r2, %r1; st.shared.u32 [%r2], 0; }", "races"),
    ("{ .reg .b32 %r5; mov.u32 %r5, %r2; } st.shared.u32 [%r5], 0;", "not known: [%r5]"),
    ("{ .reg .b32 t; } mov.u32 t, 5; }", "line"),
    ("{ bar.sync 0;", "does not end"),
    # A wait that goes on when it has not come, or does not wait at all, or that does something in each try.
    (f"{INIT} {BYTES.format(1024)} $w:\n mbarrier.try_wait.parity.shared.b64 %p1, [%r1+1024], 0; "
     f"selp.b32 %r8, 1, 0, %p1;"
     f" setp.eq.s32 %p5, %r8, 1; @%p5 bra $w; mov.u32 %r3, %r2; {LOAD}", "not tried again"),
    (f"{INIT} {BYTES.format(1024)} mbarrier.test_wait.parity.shared.b64 %p1, [%r1+1024], 0; mov.u32 %r3, %r2; "
     f"{LOAD}", "not tried again"),
    (f"{INIT} mov.u32 %r3, %r1; {BYTES.format(1024)}\n$w:\n add.u32 %r3, %r3, 8; "
     f"mbarrier.try_wait.parity.shared.b64 %p1, [%r3+1016], 0;"
     " selp.b32 %r8, 1, 0, %p1; setp.eq.s32 %p5, %r8, 0; @%p5 bra $w;", "not tried again"),
    (f"{INIT} {BYTES.format(1024)} $w:\n mbarrier.try_wait.parity.shared.b64 %p1, [%r1+1024], 0; "
     f"mov.pred %p1, %p0; @!%p1 bra $w;", "line"),
    # Counters that skip a step, roles that count apart, strides that are not one.
    (ROLES.format(MEET, TWO.replace("mov.u32 %r7, %r9", "add.u32 %r7, %r9, 1").format("bar.sync 1, 64;")), "stuck"),
    (ROLES.format(MEET, TWO.replace("-1;", "-2;").format("bar.sync 1, 64;")), "stuck|more than"),
    (ROLES.format(MEET, TWO.replace("ne.s32", "gt.s32").replace("%r7, 0;", "%r7, 1;").format("bar.sync 1, 64;")),
     "stuck"),
    (DOWN.format(f"{DATA} @%p4 bra.uni $s; bar.sync 0;").replace("add.s32 %r6", "$s: add.s32 %r6"), "differ"),
    (DOWN.format("@%p0 add.s32 %r6, %r6, -1; bar.sync 0;"), "not counted"),
    (TURN.format(f"{STORE} {SWAP.replace('%r5', '%r15')} bar.sync 0; add.u32 %r5, %r5, %r6;"), "line"),
    (TURN.format("bar.sync 0; add.u32 %r5, %r5, %r6; add.u32 %r6, %r6, 1;"), "not counted"),
    # Lanes that part, and do not meet in between; a barrier within; a way out of one way.
    ("setp.lt.u32 %p2, %r0, 5; @%p2 bra $a; bar.sync 0; bra $b;\n$a: bar.sync 0;\n$b:", "some lanes"),
    (f"and.b32 %r6, %r0, 1; setp.eq.u32 %p2, %r6, 0; @%p2 bra $a; {STORE} bra $b;"
     f"\n$a: {NEXT} st.shared.u32 [%r3], 0;\n$b:", "races"),
    ("and.b32 %r6, %r0, 1; setp.eq.u32 %p2, %r6, 0; @%p2 bra $a; ret;\n$a: bar.warp.sync -1;", "line"),
    ("mov.u32 %r6, %r0;\n$l:\n bar.warp.sync -1; add.u32 %r6, %r6, 5; setp.lt.u32 %p2, %r6, 40; "
     "@%p2 bra $l;", "some lanes"),
    ("and.b32 %r6, %r0, 1; setp.eq.u32 %p2, %r6, 0; @%p2 bra $a; and.b32 %r7, %r0, 2; setp.eq.u32 %p3, %r7, 0;"
     " @%p3 bra $a; griddepcontrol.wait; bra $b;\n$a:\n st.shared.u32 [%r1], %r0;"
      "\n$b: bar.warp.sync -1;", "two lanes write"),
    # A loop that nothing leaves, and one that is asked anew in each round: neither is known to end.
    ("$l:\n bra $l;", "no way out"),
    ("$l:\n bar.sync 0; bra $l;", "no way out"),
    ("ld.param.u64 %d3, [G]; ld.global.u32 %r7, [%d3]; mov.u32 %r6, 0;\n$l:\n "
     "setp.ge.u32 %p2, %r6, %r7; @%p2 bra $e; bar.sync 0; "
     "add.u32 %r6, %r6, 1; bra $l;\n$e:", "nearer to its end"),
    # A test of what was computed in the round before.
    (ROLES.format(
        "mov.u32 %r6, 0; mov.u32 %r8, -9;\n$l:\n bar.sync 1, 64; setp.lt.s32 %p2, %r8, %r9; add.u32 %r8, %r6, 0;"
        " add.u32 %r6, %r6, 1; "
         "@%p2 bra $l;", LOOP.replace("$l", "$k").replace("%r6", "%r7").format("bar.sync 1, 64;")), "line"),
    # Atomics order nothing, and read what must be there; what does not conflict with them is only them.
    (f"{BINS} red.shared.add.u32 [%r1], 1; ld.shared.u32 %r4, [%r1];", "races"),
    (f"{BINS} red.shared.add.u32 [%r1], 1; bar.sync 0; @%p0 st.shared.u32 [%r1], 1; "
     f"atom.shared.add.u32 %r4, [%r1], 1;", "races"),
    ("red.shared.add.u32 [%r1], 1;", "nothing has written"),
    (f"{BINS} {CP} red.shared.add.u32 [%r2], 1; cp.async.wait_all;", "races"),
    (f"{BINS} @%p0 red.shared.add.u32 [%r1+4], 1; {OTHER} ld.shared.u32 %r4, [%r3];", "races"),
    # An index may be any within its range, and no less.
    (f"{BINS} {INDEX.format('and.b32 %r3, %r3, 127;')} {LOAD}", "nothing has written"),
    (f"{BINS} {INDEX.format('rem.s32 %r3, %r3, 64;')} {LOAD}", "not known: [%r3]"),
    (f"{BINS} {INDEX.format('shr.s32 %r3, %r3, 26;')} {LOAD}", "not known: [%r3]"),
    (f"{BINS} {INDEX.format('min.s32 %r3, %r3, 63;')} {LOAD}", "not known: [%r3]"),
    (f"{BINS} {INDEX.format('and.b32 %r3, %r3, 63; mul.lo.u32 %r3, %r3, 2;')} {LOAD}", "nothing has written"),
    (f"{BINS} {INDEX.format('and.b32 %r3, %r3, 63;')} st.shared.u32 [%r3], 1;", "two lanes"),
    (f"{BINS} {INDEX.format('and.b32 %r3, %r3, 63;')} @%p0 st.shared.u32 [%r3], 1; mov.u32 %r3, %r2; {LOAD}", "races"),
    (f"{INDEX.format('and.b32 %r3, %r3, 63;')} @%p0 st.shared.u32 [%r3], 1; bar.sync 0; {LOAD}", "nothing has written"),
    (f"{INIT} {INDEX.format('and.b32 %r3, %r3, 511;')} @%p0 st.shared.u32 [%r3], 1;", "line"),
    # A generic address that may be of shared memory; a global one that is loaded from elsewhere.
    ("ld.param.u64 %d5, [G]; ld.global.u64 %d6, [%d5]; st.u32 [%d6], 0;", "not known whether"),
    ("cvt.u64.u32 %d5, %r1; cvta.shared.u64 %d5, %d5; st.u32 [%d5], %r0;", "two lanes"),
    ("cvt.u64.u32 %d5, %r1; st.u32 [%d5], 0;", "not known whether"),
    # Tokens of an older phase, of another mbarrier, changed ones.
    (f"{MANY} mbarrier.arrive.shared.b64 %d5, [%r1+1024];"
     f"\n$w: mbarrier.try_wait.shared.b64 %p1, [%r1+1024], %d5; @!%p1 bra $w;"
     " mbarrier.arrive.shared.b64 %d6, [%r1+1024];\n$v: mbarrier.try_wait.shared.b64 %p1, [%r1+1024], %d6; "
      "@!%p1 bra $v;"
     "\n$u: mbarrier.try_wait.shared.b64 %p1, [%r1+1024], %d5; @!%p1 bra $u;", "token"),
    (f"{MANY} mbarrier.arrive.shared.b64 %d5, [%r1+1024]; add.u64 %d5, %d5, 1;"
     f"\n$w: mbarrier.try_wait.shared.b64 %p1, [%r1+1024], %d5;"
     " @!%p1 bra $w;", "not a token"),
    (f"{INIT.replace('+1024], 1;', '+1024], 64; mbarrier.init.shared.b64 [%r1+1032], 64;')}"
     " mbarrier.arrive.shared.b64 %d5, [%r1+1024];\n"
     "$w: mbarrier.try_wait.shared.b64 %p1, [%r1+1032], %d5; @!%p1 bra $w;", "not a token"),
    # Sums that are not the same in all lanes: a step is missing, does not commute, is of another number, by some lanes.
    (SUMS.replace("shfl.sync.bfly.b32 %r11|%p7, %r10, 4", "shfl.sync.bfly.b32 %r11|%p7, %r10, 2"), "two lanes"),
    (SUMS.replace("add.f32", "sub.f32"), "two lanes"),
    (SUMS.replace("bfly.b32 %r11|%p7, %r10, 1,", "down.b32 %r11|%p7, %r10, 1,"), "two lanes"),
    (SUMS.replace("%r10, 1, 31", "%r9, 1, 31"), "two lanes"),
    (SUMS.replace("%r10, 1, 31", "%r10, 1, 7967"), "two lanes"),
    (SUMS.replace(ONE_PLACE, f"add.u32 %r10, %r10, %r0; {ONE_PLACE}"), "two lanes"),
    (SUMS.replace("shr.u32 %r12, %r0, 5;", "mov.u32 %r12, 0;"), "races"),
    (SUMS.replace("0xffffffff", "0x0000ffff"), "some lanes"),
    # Votes: of one warp for itself, of a round before; a barrier's result is no order for those who were not at it.
    (f"{STORE} {DATA} vote.sync.any.pred %p5, %p4, -1; @%p5 bra $a; bar.sync 0;\n$a:", "stuck"),
    (f"{VOTE} and.pred %p6, %p5, %p5; {VOTE} setp.lt.u32 %p3, %r0, 32; @%p3 bra $c; mov.pred %p6, %p5;"
     f"\n$c: @%p6 bra $a; bar.sync 0;\n$a:", "line"),
    # Bytes: other than expected, not aligned, not waited for.
    (f"{INIT} {BYTES.format(512)} {WAIT}", "stuck"),
    (f"{INIT} {BYTES.format(1000)} {WAIT}", "misaligned"),
    (f"{INIT} {BYTES.format(1024)} mov.u32 %r3, %r2; {LOAD}", "nothing has written|races"),
    (f"{INIT.replace('fence.mbarrier_init.release.cluster;', '')} @!%p0 fence.proxy.async.shared::cta; "
     f"{BYTES.format(1024)} {WAIT}", "fence.mbarrier_init"),
    (f"{STORE} bar.sync 0; @%p0 cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r1], 256; "
     f"cp.async.bulk.commit_group;"
     " cp.async.bulk.wait_group.read 0;", "no proxy fence"),
    # An arrival that comes when copies have completed: not those that are begun behind it, nor plain stores.
    (f"{MANY} cp.async.mbarrier.arrive.noinc.shared.b64 [%r1+1024]; {CP} {WAIT} mov.u32 %r3, %r2; "
     f"{LOAD} cp.async.wait_all;", "races"),
    (f"{MANY} {STORE} cp.async.mbarrier.arrive.noinc.shared.b64 [%r1+1024]; {WAIT} {SWAP}", "races"),
    (f"{MANY} {CP} cp.async.mbarrier.arrive.shared.b64 [%r1+1024]; {WAIT} {SWAP}", "not known: cp.async"),
    # Counters taken apart by less than what they are known by; a product that is no quotient.
    (LOOP.format("shr.u32 %r7, %r6, 1; mad.lo.u32 %r7, %r7, 256, %r2; st.shared.u32 [%r7], 0;"), "not known: [%r7]"),
    (LOOP.format("shr.u32 %r7, %r6, 1; and.b32 %r7, %r7, 3; mad.lo.u32 %r7, %r7, 1024, %r2; "
     "st.shared.u32 [%r7+2048], 0;"), "out of bounds"),
    (RIGHT[-1].replace("-1431655765", "-1431655766"), "not known"),
    (RIGHT[-1].replace("-768", "-512"), "not known"),
    (RIGHT[-1].replace("add.u32 %r5, %r5, 256", "@%p0 add.u32 %r5, %r5, 256"), "line"),
    # Another block's memory.
    ("mov.u32 %r3, 1; mapa.shared::cluster.u32 %r4, %r2, %r3; st.shared.u32 [%r4], 0;", "not known: [%r4]"),
]  # fmt: skip


@pytest.mark.parametrize("body", RIGHT)
def test_right(body):
    assert verdict(body) == "proved"


@pytest.mark.parametrize(("body", "why"), WRONG)
def test_wrong(body, why):
    found = verdict(body, most_states=100)
    assert found != "proved"
    assert any(each in found for each in why.split("|")), found


def test_a_comment_and_debug_data_are_left_out():
    text = HEAD.format(threads=64, shared=4096) + f'/* {{ */ {ROUND} ret;\n}}\n\t.file\t1 "a.py"\n'
    text += "\t.section\t.debug_abbrev\n\t{\n.b8 1 // tag\n.b8 17\n\t}\n\t.section\t.debug_macinfo\t{\t}\n"
    assert answer(text, Launch({})).verdict == "proved"
    assert answer(text.replace(".b8 17", "bar.sync 0;"), Launch({})).verdict == "refused"
    assert answer(text.replace(".debug_abbrev", ".text"), Launch({})).verdict == "refused"


@pytest.mark.parametrize(
    ("op", "values", "result"),
    [
        ("bfe.u32", (0xABCD1234, 4, 8), 0x23),
        ("bfe.s32", (0x00000080, 4, 4), 0xFFFFFFF8),
        ("bfe.u32", (0xFFFFFFFF, 28, 8), 0xF),
        ("bfe.s32", (0x80000000, 28, 8), 0xFFFFFFF8),
        ("bfe.u32", (0xFFFFFFFF, 40, 8), 0),
        ("bfi.b32", (0x5, 0xFFFFFFFF, 4, 4), 0xFFFFFF5F),
        ("prmt.b32", (0x03020100, 0x07060504, 0x7531), 0x07050301),
        ("prmt.b32", (0x00000080, 0, 0x8888), 0xFFFFFFFF),
        ("lop3.b32", (0b1100, 0b1010, 0b1110, 0x80), 0b1000),
        ("lop3.b32", (12, 10, 6, 0x96), 12 ^ 10 ^ 6),
        ("shf.l.wrap.b32", (0x80000001, 0x00000002, 4), 0x28),
        ("shf.r.clamp.b32", (0x10, 0x1, 40), 0x1),
        ("not.b32", (5,), 0xFFFFFFFA),
        ("neg.s32", (5,), 0xFFFFFFFB),
        ("abs.s32", (0xFFFFFFFB,), 5),
        ("mul.hi.s32", (0xFFFFFFFF, 2), 0xFFFFFFFF),
        ("mul.hi.u32", (0xFFFFFFFF, 2), 1),
        ("mad.wide.s32", (0xFFFFFFFF, 4, 100), 96),
        ("mad.wide.u32", (0xFFFFFFFF, 4, 0), 0x3FFFFFFFC),
        ("cvt.u16.u32", (0x12345,), 0x2345),
        ("cvt.s64.s16", (0x8000,), 0xFFFFFFFFFFFF8000),
        ("cvt.s32.s8", (0x80,), UNIFORM),  # it depends on the register how far the sign goes
        ("popc.b32", (0xF0F,), 8),
        ("clz.b32", (1,), 31),
        ("brev.b32", (1,), 1 << 31),
        ("add.u16", (0xFFFF, 2), 1),
        ("add.f32", (TOP, 1), TOP),
        ("add.f32", (UNIFORM, 1), UNIFORM),
        ("frob.b32", (1, 2), UNIFORM),
        ("ld.global.u8", (TOP,), Among(0, 1, 256)),
        ("ld.global.u32", (1,), TOP),
        ("mapa.shared::cluster.u32", (4096, 0), 4096),
        ("mapa.shared::cluster.u32", (4096, 1), TOP),
    ],
)
def test_operations(op, values, result):
    assert computed(op, values) == result


def test_operations_on_what_is_one_for_the_launch():
    n = symbol("param", "N")
    assert computed("bfe.u32", (n, 4, 8)) == computed("bfe.u32", (n, 4, 8))
    assert isinstance(computed("bfe.u32", (n, 4, 8)), Affine)
    assert computed("bfe.u32", (n, 4, 8)) != computed("bfe.u32", (n, 4, 9))
    assert computed("bfe.u32", (TOP, 0, 5)) == Among(0, 1, 32)


def test_what_an_unknown_may_be():
    assert binary("and", "b32", TOP, 12) == Among(0, 4, 4)
    assert binary("mul", "u32", Among(0, 1, 8), 4) == Among(0, 4, 8)
    assert binary("add", "s32", 100, Among(0, 4, 8)) == Among(100, 4, 8)
    assert binary("add", "s32", Among(0, 4, 2), Among(0, 6, 2)) == Among(0, 2, 6)
    assert binary("rem", "s32", TOP, 8) is TOP
    assert binary("sub", "s32", 5, Among(0, 1, 2)) is TOP
    assert binary("add", "s64", Among(0, 1, 2), 1) is TOP
    assert binary("and", "b32", Among(-4, 1, 8), 7) == Among(0, 1, 8)
    assert binary("and", "b32", Among(0, 1, 1024), 1020) == Among(0, 4, 256)
    assert binary("and", "b32", Among(0, 4, 2), 7) == Among(0, 4, 2)


def test_divisors():
    for d in (3, 5, 6, 7, 10, 12, 100):
        for shift in range(32, 50):
            factor = -(-(1 << shift) // d)
            if factor >= 1 << 32 or not (found := divisor(factor, shift)):
                continue
            assert found == d
            for x in (0, 1, d - 1, d, d + 1, (1 << 31) - 1, (1 << 32) - 1, (1 << 32) - d):
                assert x * factor >> shift == x // d
    assert not divisor(0xAAAAAAAA, 33)
    assert divisor(0xAAAAAAAB, 33) == 3


def test_what_is_the_same_in_all_lanes():
    program = parse(HEAD.format(threads=64, shared=4096) + SUMS + "\n ret;\n}\n", Launch({}))
    assert [program.code[pc].op for pc in program.same] == ["st.shared.u32"]
    assert ALL == 31
