"""Texts by an adversary: each races, waits for ever or is read in another way than it looks. None is proved."""

from __future__ import annotations

import pytest

from minitile.proof import Launch, Refused, prove
from tests.proof.foreign.test_forms import BINS, BYTES, INDEX, MANY, ROLES
from tests.proof.test_text import COPY, DONE, HEAD, INIT, LOAD, LOOP, MAP, OTHER, PUT, STORE, WAIT, verdict
from tests.proof.test_values import G, unless

WHOLE = HEAD.format(threads=64, shared=4096)
SKIP = "@%p6 bra.uni $z; bar.sync 0;\n$z:"  # a barrier that a warp must not miss alone
SEARCH = (  # leaves %r10 = 5, or what it was before
    "\n$m: ld.global.u32 %r3,[%d2]; setp.eq.s32 %p4,%r3,0; @%p4 bra.uni $s1; mov.b32 %r10, 5;\n"
    "$s1: add.s64 %d2,%d2,4; setp.ne.s32 %p5,%r3,7; @%p5 bra.uni $m; setp.eq.s32 %p6, %r10, 1;"
)
EQUAL = "sub.s64 %d3, %d3, %d4; setp.eq.s64 %p3, %d3, 0;" + unless("%p3")
TELL = "@%p0 st.shared.u32 [%r1+2048], {}; bar.sync 0;"
ROWS = (
    "mad.lo.u32 %r3,%r0,16,%r1; st.shared.v4.u32 [%r3],{{0,0,0,0}}; bar.sync 0; setp.lt.u32 %p3,%r0,32; @!%p3 bra $z;"
    "ldmatrix.sync.aligned.{}.shared.b8 {{%r4,%r5}}, [%r3]; bra $y;\n$z: setp.eq.u32 %p4,%r0,{};"
    "@%p4 st.shared.v4.u32 [%r1+128],{{0,0,0,0}};\n$y:"
)
FENCED_BY = (
    "@!%p0 bra $x;\n mbarrier.init.shared.b64 [%r1+1024], 1;\n$x:\n bar.sync 0; setp.eq.u32 %p0,%r0,{}; @!%p0 bra $y;"
    f"fence.mbarrier_init.release.cluster;\n$y: {MAP} {COPY} {WAIT} mov.u32 %r3,%r2; {LOAD}"
)

BODIES = {
    "a passed loop leaves what a register was before": f"{G} shr.u32 %r10, %r0, 5;" + SEARCH + SKIP,
    "a register without %": ".reg .u32 x;\n mov.u32 x, %tid.x; shr.u32 x, x, 5; setp.eq.u32 %p6, x, 1;" + SKIP,
    "an instruction behind .reg": ".reg .b32 %q; st.shared.u32 [%r1], %r0;",
    "an instruction behind .loc": ".loc 1 2 3 st.shared.u32 [%r1], %r0;",
    "a guard behind .loc": f"{STORE}\n.loc 1 2 3 @%p0\n bar.sync 0; {OTHER} {LOAD}",
    "an instruction behind .pragma": '.pragma "nounroll"; st.shared.u32 [%r1], %r0;',
    "an instruction behind .shared": ".shared .b8 zz[16]; st.shared.u32 [%r1], %r0;",
    "the address of a parameter is not its value": "mov.b32 %r8, N; sub.s32 %r8, %r8, %r9; setp.eq.s32 %p3, %r8, 0;"
    + unless("%p3"),
    "half of a parameter": "ld.param.u64 %d4,[G]; ld.param.u32 %r8,[G]; cvt.u64.u32 %d3,%r8;" + EQUAL,
    "half of a register is stored": f"{G} {TELL.format('%d2')} ld.shared.u32 %r8,[%r1+2048]; cvt.u64.u32 %d3,%r8;"
    + EQUAL.replace("%d4", "%d2"),
    "a number below 0 is loaded into 64 bits": f"sub.s32 %r8,%r9,5; {TELL.format('%r8')} ld.shared.u32 %d3,[%r1+2048];"
    "cvt.s64.s32 %d4,%r8;" + EQUAL,
    "a register of two parts": ".reg .v2 .u32 %v;\n mov.u32 %v.x, 0; mov.u32 %v.y, 0; ld.global.v2.u32 %v, [%d1];"
    "setp.eq.u32 %p6, %v.x, 0;" + SKIP,
    "matrices of 16 rows": ROWS.format("m16n16.x1.trans", 40),
    "the fence of an mbarrier by another thread": FENCED_BY.replace("%r0,{}", "%r0,32"),
    "a count below 1": f"{INIT} @%p0 mbarrier.arrive.shared.b64 _, [%r1+1024], -1; bar.sync 0;"
    f"@%p0 mbarrier.arrive.shared.b64 _, [%r1+1024], 2; {WAIT}",
    **{
        f"a barrier behind a comment that {char!r} does not end": f"{STORE}\n //{char} bar.sync 0;\n {OTHER} {LOAD}"
        for char in "\x0b\x0c\x1c\x85\u2028\r"
    },
}
MEET = "bar.sync 1, 64;"
TIMES = LOOP.replace("$l", "$k").replace("$e", "$f").replace("%r6", "%r7").format(MEET)  # n times
ONCE = f"setp.lt.s32 %p4, %r9, 1; @%p4 bra $q; {TIMES} bra $b;\n$q: {MEET}"  # n times, at least once


def against(one: str, other: str) -> str:
    """One warp meets the other so often as a loop says."""
    return ROLES.format(one, other)


def rounds(start: object, step: int, test: str, bound: object) -> str:
    return f"mov.u32 %r6, {start};\n$l: {MEET} add.s32 %r6, %r6, {step}; setp.{test} %p2, %r6, {bound}; @%p2 bra $l;"


ENTERED = "mov.u32 %r6, 5; setp.lt.u32 %p3, %r0, 32; @%p3 bra.uni $l; mov.u32 %r6, 0;\n$l:\n" + MEET
AGAIN = (
    f"mov.u32 %r6, 0; mov.u32 %r8, 0;\n$o: bar.warp.sync -1;\n$l: {MEET} add.s32 %r6, %r6, 1; setp.le.s32 %p2, %r6, 3;"
    " @%p2 bra $l; add.s32 %r8, %r8, 1; setp.lt.s32 %p5, %r8, 2; @%p5 bra $o;"
)
TRIES = (
    "\n$w: selp.b32 %r8, {}, {}, %p1; {} mbarrier.try_wait.parity.shared.b64 %p1, [%r3], %r10;"
    " selp.b32 %r7, 1, 0, %p1; setp.eq.s32 %p5, %r7, 0; @%p5 bra $w; mov.u32 %r3, %r2;" + LOAD
)
ARRIVE = "@%p0 mbarrier.arrive.shared.b64 _, [%r1+1024]; mbarrier.arrive.shared.b64 %d{}, [%r1+1024];"
TOKEN = "\n${0}: mbarrier.try_wait.shared.b64 %p1, [%r1+1024], %d{1}; @!%p1 bra ${0};"
LATER = "cp.async.mbarrier.arrive.noinc.shared.b64 [%r1+1024];"
TWO_MBARRIERS = INIT.replace("+1024], 1;", "+1024], 1; mbarrier.init.shared.b64 [%r1+1032], 1;")
UNLESS_IT_IS = " setp.eq.u32 %p6, {}, {}; @%p6 bra.uni $t; st.shared.u32 [%r1], %r0;\n$t:"
TRY_AND = (
    "\n$w: mbarrier.try_wait.parity.shared.b64 %p1, [%r1+1024], 0; {} selp.b32 %r8, 1, 0, %p1;"
    " setp.eq.s32 %p5, %r8, 0; @%p5 bra $w;"
)
GENERIC = "cvt.u64.u32 %d5, %r1; cvta.shared.u64 %d5, %d5;"  # one address for all
SENT = (
    "@!%p0 bra $x;\n mbarrier.init.shared.b64 [%r1+1024], 1;\n fence.mbarrier_init.release.cluster;\n$x:\n bar.sync 0;"
    " @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [%r1+1024], 1024; bar.sync 0; add.u32 %r6, %r1, 1024;"
    " mad.lo.u32 %r7, %r0, 16, %r1;"
    " st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%r7], {%r0,%r0,%r0,%r0}, [%r6];" + WAIT
)
FORMS = {
    # Loops that step over their bound, begin beyond it, or compare with what no number is beyond.
    "!= steps over": against(rounds(0, 2, "ne.s32", 7), MEET * 4),
    "!= steps over a register": against("mov.u32 %r8, 7;" + rounds(0, 2, "ne.s32", "%r8"), MEET * 4),
    "!= begins beyond": against(rounds(5, 1, "ne.s32", 3), MEET),
    "!= goes all the way round": against(rounds(0, 1, "ne.s32", -1), MEET),
    "!= of a size that may be 0": against(rounds(0, 1, "ne.s32", "%r9"), ONCE),
    "!= down, steps over": against(rounds(5, -2, "ne.s32", 0), MEET * 3),
    "below the largest": against(rounds(0, 1, "le.u32", "0xffffffff"), MEET),
    "below the largest with a sign": against(rounds(0, 1, "le.s32", "0x7fffffff"), MEET),
    "unsigned and not below 0": against(rounds("%r9", -1, "ge.u32", 0), TIMES + MEET),
    "unsigned, below 0 by two": against(rounds(5, -2, "gt.u32", 0), MEET * 3),
    "unsigned, below 0 from 0": against("mov.u32 %r8, 2;" + rounds(0, -1, "gt.u32", "%r8"), MEET),
    # Counters whose start hangs on the way into the loop.
    "a start by another way": ENTERED + "add.s32 %r6, %r6, 1; setp.le.s32 %p2, %r6, 7; @%p2 bra $l;",
    "a start by another way, !=": ENTERED + "add.s32 %r6, %r6, 1; setp.ne.s32 %p2, %r6, 8; @%p2 bra $l;",
    "a loop that begins again where it was": against(AGAIN, MEET * 8),
    "a loop with two ways back": against(AGAIN.replace("$o: bar.warp.sync -1;\n", "").replace("$o", "$l"), MEET * 8),
    "the second result of a test": against(
        f"mov.u32 %r6, 0;\n$l: {MEET} add.s32 %r6, %r6, 1; setp.ne.s32 %p2|%p5, %r6, 4; @%p5 bra $l;", MEET * 4
    ),
    "a sum of 64 bits": "mov.u64 %d5, 0; mov.u32 %r6, 0;\n$l: bar.warp.sync -1; add.s64 %d5, %d5, 4294967295;"
    " add.s32 %r6, %r6, 1; setp.lt.s32 %p2, %r6, 2; @%p2 bra $l; setp.gt.s64 %p4, %d5, 0; @!%p4 bra.uni $s;"
    " st.shared.u32 [%r1], %r0;\n$s:",
    # Waits that are for something else when they are tried again.
    "another mbarrier at the second try": f"{TWO_MBARRIERS} {BYTES.format(1024)}"
    " setp.eq.u32 %p1, 0, 0; mov.u32 %r10, 0;" + TRIES.format(1024, 1032, "add.u32 %r3, %r8, %r1;"),
    "another parity at the second try": f"{INIT} {BYTES.format(1024)} setp.eq.u32 %p1, 0, 1; add.u32 %r3, %r1, 1024;"
    + TRIES.format(1, 0, "mov.u32 %r10, %r8;"),
    "a register by the number of tries": f"{INIT} {BYTES.format(1024)} mov.u32 %r7, 0;"
    + TRY_AND.format("xor.b32 %r7, %r7, 1;")
    + UNLESS_IT_IS.format("%r7", 1),
    "what the try before has left": f"{INIT} {BYTES.format(1024)} mov.u32 %r8, 1;"
    + TRY_AND.format("mov.b32 %r7, %r8;")
    + UNLESS_IT_IS.format("%r7", 1),
    # Numbers.
    "a loop to != that only computes steps over": "mov.u32 %r6, 0;\n$l: add.u32 %r6, %r6, 3; setp.ne.u32 %p2, %r6, 7;"
    " @%p2 bra $l;" + UNLESS_IT_IS.format("%r6", 9),
    "a loop that nothing ends": "setp.eq.s32 %p2, %r9, 3;\n$l: add.u32 %r6, %r6, 1; @%p2 bra $l;",
    "a loop that nothing leaves": "setp.eq.s32 %p2, %r9, 3; @!%p2 bra $e;\n$l: bra $l;\n$e:",
    "a loop that nothing ends in another": "setp.eq.s32 %p2, %r9, 3;\n$l: ld.global.u32 %r3, [%d1];"
    " setp.eq.s32 %p4, %r3, 0;\n$k: @%p2 bra $k; @%p4 bra $l;",
    "a product over its own factor": "mov.u32 %r3, 9; mul.hi.u32 %r3, %r3, -1431655765; shr.u32 %r4, %r3, 1;"
    + UNLESS_IT_IS.format("%r4", 2),
    # Names and numbers.
    "a scope's register by the name of another": "mov.u32 %q__1, 1; { .reg .b32 q; mov.u32 q, 0; }"
    " setp.eq.u32 %p6, %q__1, 1; @!%p6 bra.uni $t; st.shared.u32 [%r1], %r0;\n$t:",
    "registers with and without %": "{ .reg .b32 t, %t; mov.u32 %t, 1; mov.u32 t, 0; setp.eq.u32 %p6, %t, 1; }"
    " @!%p6 bra.uni $t; st.shared.u32 [%r1], %r0;\n$t:",
    "registers with $ and _": ".reg .b32 a$b, a_b; mov.u32 a$b, 1; mov.u32 a_b, 0; setp.eq.u32 %p6, a$b, 1;"
    " @!%p6 bra.uni $t; st.shared.u32 [%r1], %r0;\n$t:",
    "an octal offset": "@%p0 st.shared.u32 [%r1+0100], 1; setp.eq.u32 %p6, %r0, 33; @%p6 st.shared.u32 [%r1+64], 1;",
    "an octal number": "add.u32 %r3, %r1, 0100;",
    "a comment that goes on": f"{STORE} // \\\n bar.sync 0;\n {OTHER} {LOAD}",
    "the prover's own name": "mov.u32 %_generic, 5; cvt.u64.u32 %d5, %r2; cvta.shared.u64 %d5, %d5;"
    " st.u32 [%d5], %_generic; setp.eq.u32 %p4, %_generic, 5; @!%p4 bra.uni $s; st.shared.u32 [%r1], %r0;\n$s:",
    # Tokens, reductions by a barrier.
    "a token of two phases before, after an arrival that comes later": MANY.replace("], 64;", "], 65;")
    + (ARRIVE.format(5) + TOKEN.format("w", 5) + ARRIVE.format(6) + TOKEN.format("v", 6))
    + f"bar.sync 0; @%p0 {LATER} {LATER} bar.sync 0;"
    + TOKEN.format("u", 5),
    "some reduce at a barrier": against("bar.red.popc.u32 %r8, 0, %p0;", "bar.sync 0;"),
    "some reduce at a barrier, others arrive": against("bar.red.popc.u32 %r8, 1, 64, %p0;", "bar.arrive 1, 64;"),
    "two reductions at a barrier": against("bar.red.and.pred %p8, 1, 64, %p0;", "bar.red.or.pred %p8, 1, 64, %p0;"),
    "a stride below 0": "mov.u32 %r6, 7; mov.u32 %r7, -1; mov.u32 %r8, 5;"
    + against(
        f"mov.u32 %r5, %r6;\n$l: setp.ge.s32 %p2, %r5, %r8; @%p2 bra $z; {MEET} add.s32 %r5, %r5, %r7; bra $l;\n$z:",
        MEET * 4,
    ),
    "an unsigned bound below 0": "mov.u32 %r6, 7; mov.u32 %r7, 2; mov.u32 %r8, -1;"
    + against(
        f"mov.u32 %r5, %r6;\n$l: setp.ge.u32 %p2, %r5, %r8; @%p2 bra $z; {MEET} add.s32 %r5, %r5, %r7; bra $l;\n$z:",
        "",
    ),
    # Others, which were never proved.
    "an arrival for the copies of others": f"{MANY} cp.async.ca.shared.global [%r2], [%d1], 4; @%p0 {LATER}"
    f" mbarrier.arrive.shared.b64 _, [%r1+1024]; {WAIT}",
    "an arrival that is not the copies'": f"{MANY} cp.async.ca.shared.global [%r2], [%d1], 4;"
    f" mbarrier.arrive.shared.b64 _, [%r1+1024]; {WAIT} {OTHER} {LOAD} cp.async.wait_all;",
    "a wait in one arm, a read in both": f"{INIT} {BYTES.format(1024)} and.b32 %r6, %r0, 1; setp.eq.u32 %p4, %r6, 0;"
    f" @%p4 bra $a; {WAIT}\n$a: mov.u32 %r3, %r2; {LOAD}",
    "an atomic decides": f"{BINS} atom.shared.add.u32 %r4, [%r1], 1; setp.eq.u32 %p4, %r4, 0; @%p4 bra.uni $s;"
    " bar.sync 0;\n$s:",
    "shared or global": "ld.param.u64 %d6, [G]; cvt.u64.u32 %d5, %r1; cvta.shared.u64 %d5, %d5;"
    " setp.eq.s32 %p4, %r9, 3; selp.b64 %d7, %d5, %d6, %p4; st.u32 [%d7], %r0;",
    # Shared memory by addresses of global memory, and a copy that may be of either proxy.
    "a global store into shared memory": f"{GENERIC} st.global.u32 [%d5], %r0;",
    "a global store into shared memory, by another register": f"{GENERIC} add.s64 %d6, %d5, 4; mov.b64 %d7, %d6;"
    " st.global.u32 [%d7+-4], %r0;",
    "a global atomic in shared memory": f"{STORE} {GENERIC} atom.global.add.u32 %r7, [%d5], 1;",
    "a global load from shared memory": f"{STORE} {GENERIC} ld.global.u32 %r7, [%d5+4];",
    "a copy from shared memory": f"{STORE} {GENERIC} cp.async.ca.shared.global [%r2+1024], [%d5], 4;"
    " cp.async.wait_all;",
    "a global store by an address that is kept in shared memory": f"{GENERIC} mad.lo.u32 %r7, %r0, 8, %r1;"
    " st.shared.u64 [%r7], %d5; bar.sync 0; ld.shared.u64 %d6, [%r7]; st.global.u32 [%d6+2048], 0;",
    "a global store by an address of the block": "cvt.u64.u32 %d5, %r1; mapa.u64 %d5, %d5, 0;"
    " st.global.u32 [%d5], %r0;",
    "stores that count, then a bulk copy without a fence": SENT + MAP + PUT + DONE,
    "a range below its array": f"{BINS} {INDEX.format('and.b32 %r3, %r3, 63; sub.u32 %r3, %r3, 1;')} {LOAD}",
}
BULK = COPY.replace("cp.async.bulk.tensor.1d", "cp.async.bulk").replace("[%d0, {%r9}]", "[%d1], 1024")
END = "\n  ret;\n}\n"
DYNAMIC = ".extern .shared .align 1024 .b8 smem[];  // 4096 bytes\n"
assert DYNAMIC in WHOLE
TEXTS = {
    "an instruction before the body": WHOLE.rstrip().replace(
        "\n{\n", " { .reg .u32 %z; mov.u32 %z, smem; st.shared.u32 [%z], %z;\n{\n"
    )
    + END + "ret; }\n",
    "two dynamic arrays": WHOLE.replace(".visible", ".extern .shared .align 16 .b8 more[]; // 4096 bytes\n.visible")
    + f"{STORE} mov.u32 %r5, more; xor.b32 %r6, %r0, 32; mad.lo.u32 %r5, %r6, 4, %r5; st.shared.u32 [%r5], %r0;" + END,
    "a name that stands for another": "#define bar.sync membar\n" + WHOLE + f"{STORE} bar.sync 0; {OTHER} {LOAD}" + END,
    "threads in a comment": WHOLE.replace(".reqntid 64", "// .reqntid 32\n.reqntid 64")
    + "setp.lt.u32 %p3, %r0, 32; @!%p3 st.shared.u32 [%r1], %r0;" + END,
    "an array in a comment": WHOLE.replace(".extern", ".shared .b8 a[4]; // 4\n// .shared .b8 a[64];\n.extern", 1)
    + "@%p0 st.shared.u8 [a+32], 0;" + END,
    "another array in a comment": WHOLE.replace(DYNAMIC, ".shared .align 16 .b8 smem[256]; // .shared .b8 b[4096];\n")
    + "st.shared.u32 [%r2+256], %r0;" + END,
    "beyond one array in another": WHOLE.replace(
        DYNAMIC, ".shared .align 16 .b8 smem[256];\n.shared .align 16 .b8 more[256];\n")
    + "st.shared.u32 [%r2+256], %r0;" + END,
    "an array in two dimensions hides another": WHOLE + ".shared .align 4 .b8 smem[4][4];\n" + STORE + END,
    "a variable hides an array": WHOLE + ".shared .b32 smem[1], b[1];\n" + STORE + END,
    "local memory hides an array": WHOLE + ".local .b8 smem[4096];\n" + STORE + END,
    "a parameter hides an array": WHOLE.replace(".param .s32 N", ".param .s32 smem").replace("[N]", "[smem]")
    + STORE + END,
    **{
        f"an address aligned to {align} for {what}": WHOLE.replace("align 1024", f"align {align}") + body + END
        for align, what, body in (
            (64, "a tensor's copy", INIT + MAP + COPY + WAIT),
            (8, "a bulk copy", INIT + BULK + WAIT),
            (8, "a vector", "mad.lo.u32 %r7, %r0, 16, %r1; st.shared.v4.u32 [%r7], {%r0,%r0,%r0,%r0};"),
            (4, "an mbarrier", INIT),
            (2, "a word", STORE),
        )
    },
    "an array without an alignment": WHOLE.replace(".align 1024 ", "") + STORE + END,
    "an array that ends within a word": WHOLE.replace(DYNAMIC, ".shared .align 4 .b8 smem[255];\n") + STORE + END,
    "an octal size": WHOLE.replace(DYNAMIC, ".shared .align 16 .b8 smem[0500];\n")
    + "st.shared.u32 [%r2+64], %r0;" + END,
}  # fmt: skip
SOUND = {
    "stores that count, then a bulk copy behind a fence": f"{SENT} fence.proxy.async; bar.sync 0; {MAP} {PUT} {DONE}",
    "a generic store into shared memory": f"{GENERIC} @%p0 st.u32 [%d5], 1; ld.param.u64 %d6, [G];"
    " st.global.u32 [%d6], %r0;",
    "a passed loop leaves what all had before": f"{G} mov.b32 %r10, 1;" + SEARCH + SKIP,
    "the fence of an mbarrier by its thread": FENCED_BY.replace("%r0,{}", "%r0,0"),
    "all of a register is stored": f"{G} {TELL.format('%r9')} ld.shared.u32 %r8,[%r1+2048]; cvt.u64.u32 %d3,%r8;"
    "cvt.u64.u32 %d4, %r9;" + EQUAL,
}


def found(text: str) -> str:
    try:
        prove(text, Launch({"T": 1024}), most_states=300)
    except Refused as refused:
        return str(refused)
    return "proved"


@pytest.mark.parametrize("name", BODIES)
def test_a_body(name: str) -> None:
    assert verdict(BODIES[name]) != "proved"


@pytest.mark.parametrize("name", FORMS)
def test_a_form(name: str) -> None:
    assert verdict(FORMS[name], most_states=200) != "proved"


def test_a_shift_of_a_range() -> None:
    index = INDEX.format("and.b32 %r3, %r3, 1; shl.b32 %r3, %r3, 20;").replace(
        "mad.lo.u32 %r3, %r3, 4,", "add.u32 %r3, %r3,"
    )
    assert verdict(f"{BINS} @%p0 st.shared.u32 [%r1+65536], 0; bar.sync 0; {index} {LOAD}", shared=131072) != "proved"


def test_a_launch_without_dynamic_shared_memory() -> None:
    with pytest.raises(Refused, match="out of bounds"):
        prove(WHOLE + STORE + END, Launch({"T": 1024}, shared=0))


@pytest.mark.parametrize("kind", ["s32", "u32"])
@pytest.mark.parametrize("test", ["lt", "le", "gt", "ge", "ne"])
@pytest.mark.parametrize("step", [1, 2, -1, -3])
@pytest.mark.parametrize(("start", "bound"), [(0, 6), (7, 3), (5, 0), (3, -1)])
def test_a_loop_has_the_rounds_that_it_has(start: int, bound: int, step: int, test: str, kind: str) -> None:
    """Proved beside a warp that meets the loop so often just if it has so many rounds."""
    compare = {"lt": int.__lt__, "le": int.__le__, "gt": int.__gt__, "ge": int.__ge__, "ne": int.__ne__}[test]
    low = 1 << 31 if kind == "s32" else 0

    def number(value: int) -> int:
        return (value + low) % (1 << 32) - low

    count, value = 1, start + step
    while count < 9 and compare(number(value), number(bound)):
        count, value = count + 1, value + step
    loop = "mov.u32 %r8, {};" + rounds(start, step, f"{test}.{kind}", "%r8")
    proved = [n for n in range(9) if verdict(against(loop.format(bound), MEET * n), most_states=60) == "proved"]
    assert proved in ([], [count])
    assert proved or not (kind == "s32" and test != "ne" and count < 9)


@pytest.mark.parametrize("name", TEXTS)
def test_a_text(name: str) -> None:
    assert found(TEXTS[name]) != "proved"


@pytest.mark.parametrize("name", SOUND)
def test_what_is_sound(name: str) -> None:
    assert verdict(SOUND[name]) == "proved"
