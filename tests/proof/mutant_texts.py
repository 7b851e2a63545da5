"""Texts that only some rule of the prover tells apart: found by mutants of it that survived all others. Each
with what is found ("" for proved)."""

from __future__ import annotations

from minitile.proof import Launch
from tests.proof import test_tickets as tickets
from tests.proof.test_text import (
    COMMIT,
    DATA,
    DONE,
    FILLED,
    FINISHED,
    FROM_REGISTERS,
    HEAD,
    INIT,
    MAP,
    PRODUCT,
    PUT,
    ROLE,
)
from tests.proof.test_text import FENCE as ORDERED
from tests.proof.test_text import WHOLE as PLAIN

FENCE = "fence.proxy.async;"
PARTS = "setp.gt.u32 %p4, %r0, 5; setp.gt.u32 %p5, %r0, 3;"
TWO_WAYS = f"{PARTS} @%p4 bra $a; {FENCE} {{}} {FENCE} bra $b;\n$a: {FENCE}\n$b: bar.sync 0;"
EXPECTS = "@%p0 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1+1024], {};"
INIT_64 = INIT.replace("[%r1+1024], 1;", "[%r1+1024], 64; mbarrier.init.shared.b64 [%r1+1032], 64;")
TAKE = "mbarrier.arrive.shared.b64 %d5, [%r1+1024];"
NEXT = TAKE.replace("%d5", "%d6")
WAIT = "$w:\n mbarrier.try_wait.shared.b64 %p1, [%r1+1024], %d5;\n @!%p1 bra $w;\n"
WAIT_NEXT, WAIT_AGAIN = WAIT.replace("$w", "$v").replace("%d5", "%d6"), WAIT.replace("$w", "$u")
SOMEWHERE = "ld.global.u32 %r3, [%d1]; and.b32 %r3, %r3, 252; add.u32 %r3, %r3, %r1;"
WRITTEN = "st.shared.u32 [%r2], %r0; bar.sync 0;"
EXPECTED = "@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [%r1+1024], 4;"
ASYNC = "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r3], %r0, [%r1+1024];"
MIDDLE = (
    "mov.b32 %r6, 0; bra.uni ${1};\n${0}: bar.warp.sync -1;\n"
    "${1}: add.s32 %r6, %r6, 1; setp.lt.s32 %p2, %r6, %r9; @%p2 bra.uni ${0};"
)
# Bodies for `test_text.HEAD`, of 64 threads.
TEXTS: list[tuple[str, str]] = [
    # Counts of arrivals and bytes.
    (INIT + "@%p0 mbarrier.arrive.shared.b64 _, [%r1+1024], 0;", "0 arrivals"),
    (INIT + "@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [%r1+1024], -16;", "1 arrivals, -16 bytes"),
    (INIT + "@%p0 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1+1024], -16;", "-16 bytes"),
    (INIT + "mov.b32 %r4, -16; @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [%r1+1024], %r4;", "an mbarrier counts"),
    (INIT + EXPECTS.format(1 << 19) + EXPECTS.format((1 << 19) - 1), ""),
    (INIT + EXPECTS.format(1 << 19) + EXPECTS.format(1 << 19), "expects 1048576 bytes, more than an mbarrier counts"),
    # Tokens: of another mbarrier, none at all, of a phase that is over; waits before and behind a phase's end.
    (INIT_64 + TAKE + WAIT, ""),
    (INIT_64 + TAKE + "mov.b64 %d6, 0;" + WAIT_NEXT, "not a token of this mbarrier"),
    (INIT_64 + TAKE + NEXT.replace("1024", "1032") + WAIT_NEXT, "not a token of this mbarrier"),
    (INIT_64 + TAKE + WAIT + NEXT + WAIT_NEXT + WAIT_AGAIN, "waits by a token of a phase that is over"),
    # Operands that are missing; an operation that there is not.
    (INIT + "@%p0 mbarrier.arrive.shared.b64 [%r1+1024];", "not known: @%p0 mbarrier.arrive"),
    (INIT + "@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [%r1+1024];", "not known: @%p0 mbarrier.arrive"),
    (
        INIT + "$w:\n mbarrier.try_wait.parity.shared.b64 %p1, [%r1+1024];\n @!%p1 bra $w;",
        "not known: mbarrier.try_wait",
    ),
    ("cp.async.bulk.wait_groups 0;", "not known: cp.async.bulk.wait_groups"),
    # Somewhere among bytes; anywhere.
    (f"{SOMEWHERE} @%p0 st.shared.u32 [%r3], %r0;", "not known where, among bytes"),
    (f"{WRITTEN} {SOMEWHERE} @%p0 st.shared.u32 [%r3], %r0;", ""),
    (f"{SOMEWHERE} ld.shared.u32 %r4, [%r3];", "reads bytes that nothing has written"),
    ("ld.global.u32 %r3, [%d1]; st.shared.u32 [%r3], %r0;", "not known: [%r3]"),
    (f"{INIT} {WRITTEN} {SOMEWHERE} {EXPECTED} @%p0 {ASYNC}", "not known: [%r3]"),
    (
        "setp.lt.u32 %p4, %r0, 16; @!%p4 bra $a; elect.sync _|%p5, 0xffffffff;\n$a: bar.sync 0;",
        "by some lanes of a warp: elect",
    ),
    (
        "setp.lt.u32 %p4, %r0, 16; @!%p4 bra $a; elect.sync _|%p5, 0x0000ffff;\n$a: bar.sync 0;",
        "by some lanes of a warp: elect",
    ),
    # A loop that goes on for ever, whatever the data.
    (
        f"mov.b32 %r6, 0;\n$l: {DATA} bar.red.or.pred %p5, 0, %p4; @%p5 bra.uni $s; bar.sync 0;\n"
        "$s: xor.b32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, 2; @%p2 bra.uni $l;",
        "a cycle in which no loop is known to come nearer",
    ),
    # Matrices: two rows at one place.
    ("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r1], {%r4};", "two lanes write the same bytes"),
    (
        "and.b32 %r3, %r0, 39; mad.lo.u32 %r3, %r3, 16, %r1;"
        " stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r3], {%r4, %r5};",
        "two lanes write the same bytes",
    ),
    # Operations that are not known: behind a branch, of a value that nothing uses, of global memory by another scope.
    ("bra.uni $x; frobnicate.b32 %r0;\n$x: bar.sync 0;", "not known: frobnicate"),
    ("ld.volatile.u32 %r3, [%d5];", "not known: ld.volatile"),
    ("ld.relaxed.gpu.global.u32 %r3, [%d1]; setp.eq.u32 %p4, %r3, 0; @%p4 bra.uni $a;\n$a:", "not known: ld.relaxed"),
    # What some lanes load that is known.
    ("@%p0 ld.param.s32 %r4, [N]; and.b32 %r4, %r4, 0; add.u32 %r5, %r1, %r4; @%p0 st.shared.u32 [%r5], 1;", ""),
    # One lane somewhere among bytes, the others anywhere.
    (
        f"{WRITTEN} {SOMEWHERE} ld.global.u32 %r4, [%d1]; @%p0 mov.b32 %r4, %r3; setp.lt.u32 %p4, %r0, 32;"
        " @%p4 ld.shared.u32 %r5, [%r4];",
        "not known: [%r4]",
    ),
    ("setmaxnreg.inc.sync.aligned.u32 40;", "a product, or setmaxnreg, by less than four warps"),
    ("@%p0 setmaxnreg.inc.sync.aligned.u32 40;", "by some lanes of a warp: @%p0 setmaxnreg"),
    # Places that go down by tickets (a mutant that goes on with large ones needs much memory: this one comes before).
    (tickets.BROKEN["places that go down, to one of another lane"], "not known: [%r5+100]"),
    # Loops: without a way out; two that are entered in the middle, with one counter.
    ("$l: bar.sync 0; bra $l;", "a loop with no way out"),
    (MIDDLE.format("l", "m") + MIDDLE.format("k", "n"), ""),
    # Lanes of a warp that go by what all of them have read in one place: the warp as one is asked.
    (
        "st.shared.u32 [%r2], %r0; bar.sync 0; ld.shared.u32 %r4, [%r1]; setp.eq.u32 %p4, %r4, 0;"
        " @%p4 bar.warp.sync -1;",
        "",
    ),
    # Reductions at barriers.
    (ROLE.format("bar.red.popc.u32 %r4, 0, %p0;", "bar.red.popc.u32 %r4, 0, %p0;"), ""),
    (ROLE.format("bar.red.popc.u32 %r4, 0, %p0;", "bar.sync 0;"), "some reduce and others do not"),
    # What lanes write to the same bytes is the same.
    (ROLE.format("st.shared.u32 [%r1], 0;", ""), ""),
    # Branches within branches that lanes take differently, with something else than accesses within.
    (f"{PARTS} @%p4 bra $a; {FENCE} @%p5 bra $b; {FENCE}\n$b: {FENCE}\n$a: bar.sync 0;", ""),
    (f"{PARTS} @%p4 bra $a; {FENCE} @%p5 bra $c; {FENCE}\n$c: bra $b;\n$a: {FENCE}\n$b: bar.sync 0;", ""),
    (
        f"{PARTS} @%p4 bra $a; {FENCE} @%p5 bra $c; {FENCE} bra $b;\n$a: {FENCE}\n$c: {FENCE}\n$b: bar.sync 0;",
        "",
    ),
    (f"{PARTS} @%p4 bra $a; {FENCE} @%p5 bra $c; {FENCE}\n$a: {FENCE}\n$c: bar.sync 0;", ""),
    (f"{PARTS} @%p4 bra $a; {FENCE} ret;\n$a: bar.sync 0;", "a barrier by some lanes"),
    (f"{PARTS} @%p4 bra $a; {FENCE} ret;\n$a: {FENCE}", ""),
    (TWO_WAYS.format("@%p0 ret;"), "a barrier by some lanes"),
    (TWO_WAYS.format("@%p0 bra $b;"), ""),
    (TWO_WAYS.format("") + " setp.eq.s32 %p6, %r9, 3; @%p6 bra.uni $z; bar.sync 0;\n$z: bar.sync 0;", ""),
    (f"{PARTS} setp.eq.u32 %p6, %r9, 3; @%p6 bra $c; @%p4 bra $a; {FENCE}\n$c: {FENCE}\n$a: bar.sync 0;", ""),
    (
        f"{PARTS} setp.eq.u32 %p6, %r9, 3; @%p6 bra $c; @%p4 bra $a; {FENCE} bra $b;\n$a: {FENCE}\n$c: {FENCE}\n"
        "$b: bar.sync 0;",
        "",
    ),
]
# Of 128 threads. One lane stores; its warp hands that on to the others, but its own lanes need not know of it.
STORED = "@%p0 st.shared.u32 [%r1], 0; fence.proxy.async.shared::cta; setp.lt.u32 %p3, %r0, 32; @%p3 bra $a;"
HANDED_ON = f"{STORED} bar.sync 1, 128; bra $b;\n$a: bar.arrive 1, 128; {{}}\n$b:"
MULTIPLIED = f"{ORDERED} {PRODUCT} {COMMIT} {FINISHED}"
REGISTERS = "setmaxnreg.dec.sync.aligned.u32 {};"
ON_ITSELF = FROM_REGISTERS.replace("{%f0, %f1, %f2, %f3}", "{%r10, %r11, %r12, %r13}")
OF_WARPGROUPS = [
    (FILLED + HANDED_ON.format("") + MULTIPLIED, "that need not be complete"),
    (FILLED + HANDED_ON.format("bar.warp.sync 0xffffffff;") + MULTIPLIED, ""),
    (f"setp.lt.u32 %p3, %r0, 32; @%p3 {REGISTERS.format(24)}", "by less than four warps"),
    (f"setp.lt.u32 %p3, %r0, 32; @%p3 bra $a; {REGISTERS.format(24)} bra $b;\n$a: {REGISTERS.format(32)}\n$b:",
     "execute different"),
    (REGISTERS.format(24), ""),
    (
        FILLED + MULTIPLIED.replace(PRODUCT, ON_ITSELF),
        "writes registers which it reads as a matrix",
    ),
]  # fmt: skip

# Whole texts. Rows of 32 bytes, swizzled, which repeats after 256: the array must be aligned so.
SWIZZLED = (
    FILLED[: FILLED.index("mov.b64 %d3")]
    + f"shr.u32 %r4, %r1, 4; cvt.u64.u32 %d3, %r4; or.b64 %d3, %d3, {16 << 16 | 256 >> 4 << 32 | 3 << 62};"
    + f" add.u64 %d4, %d3, 128; {MULTIPLIED}"
)
OF_SWIZZLED = HEAD.format(threads=128, shared=4096) + SWIZZLED + "\n  ret;\n}\n"
WHOLE = [
    (OF_SWIZZLED.replace(".align 1024", ".align 256"), ""),
    (OF_SWIZZLED.replace(".align 1024", ".align 128"), "a descriptor that is not known"),
    (
        OF_SWIZZLED.replace(".align 1024", ".align 128")
        .replace("4096 bytes", "8192 bytes")
        .replace("mov.u32 %r1, smem;", "mov.u32 %r1, smem;\n  add.u32 %r1, %r1, 128;"),
        "a descriptor that is not known",  # the pattern begins there where the proof has the array, not wherever it is
    ),
]


def with_(new: str) -> str:
    """A whole text that holds this."""
    return PLAIN.replace("bar.sync 0;", new, 1)


LAST = HEAD.format(threads=64, shared=4096) + "bra.uni $x;\n$y: ret;\n$x: @%p0 ret; bra.uni $y;\n}\n"
ROUND_THREE = (
    "mov.b32 %r6, 0; bra.uni $h;\n$k: add.u32 %r6, %r6, 1;\n$h: setp.ge.u32 %p4, %r6, 3; @%p4 bra.uni $e;"
    " st.shared.u32 [%r2], %r6; bra.uni $k;\n$e:"
)
WHOLE += [
    (LAST, "some lanes of a warp end before others"),
    (HEAD.format(threads=64, shared=4096) + ROUND_THREE + "\n  ret;\n}\n", "a loop that is not counted: bra.uni $k"),
    (with_("add.s32 %r6, %r0, \u0663; bar.sync 0;"), "\u0663"),  # a digit, but none of PTX
]
DEBUG = ".section .debug_str\n{\n.b8 1,2\n"
WHOLE += [
    # What is read, and how.
    (with_(".reg %a; bar.sync 0;"), "not known: .reg"),
    (with_(".reg .b32 1x; bar.sync 0;"), "not known: .reg"),
    (with_("{ .reg .b32 t; .reg .b32 t; bar.sync 0; }"), "a register twice: t"),
    (with_("{ .reg .b32 t; mov.b32 %t__1, 0; bar.sync 0; }"), "a name that stands for another: %t__1"),
    (with_("@q bar.sync 0;"), "not an instruction: @q"),
    (PLAIN + DEBUG + "}\n", ""),
    (PLAIN + DEBUG + "bar.sync 0;\n}\n", "not known: bar.sync"),
    (PLAIN.replace("ret;", "ret"), "does not end: ret"),
    (with_("{ bar.sync 0 }"), "does not end: bar.sync"),
    (with_("bar.sync 0; } ret; {"), "a scope ends that has not begun"),
    (with_("{ .shared .align 16 .b8 x[64]; bar.sync 0; }"), "within a scope: .shared"),
    (with_(".shared .align 16 .b8 x[64]; bar.sync 0;"), ""),
    (with_(".shared .align 4 .b8 x[4][64]; bar.sync 0;"), ""),
    (with_('{ .pragma "nounroll"; bar.sync 0; }'), ""),
    (with_(".weird 1; bar.sync 0;"), "not known: .weird"),
    (PLAIN.replace(".align 1024", ".align 0"), "not a power of two: 0"),
    (PLAIN + "bar.sync 0;\n", "text behind the entry"),
    (PLAIN[: PLAIN.index("{") + 1] + "\n}\n", "control runs out"),
    (PLAIN.replace("smem[];", "smem[][4];"), "not known: .shared"),
    (
        ".reg .v2 .u32 %v;\n" + with_("mov.u32 %v.x, 0; ld.global.v2.u32 %v, [%d1]; st.shared.u32 [%r2], %v.x;"),
        "registers of several parts",
    ),
    (with_("\n.loc 1 2 3; @%p0 bar.sync 0;"), "not known: .loc"),
    (with_("\n.loc 1 2 3\n bar.sync 0;"), ""),
    (with_('\n.file 1 "x.py"\n bar.sync 0;'), ""),
]
# Bulk stores of a tensor map's box: of no bytes, of a number that 16 does not divide, or not at a multiple of 128.
STORE = f"{MAP} st.shared.u32 [%r2], %r0; fence.proxy.async.shared::cta; bar.sync 0; {PUT} {DONE}"
OF_BOXES = [
    (STORE, "", 64),
    (STORE, "misaligned: 0 bytes", 0),
    (STORE, "misaligned: 24 bytes", 24),
    (STORE.replace("[%r1]", "[%r1+16]"), "misaligned: 64 bytes at 5136", 64),
]


# Blocks that a launch tells, and that a text may tell too.
ANY = PLAIN.replace(".reqntid 64", "")
LAUNCHED: list[tuple[str, str, Launch]] = [
    (ANY, "", Launch({}, block=(32, 2))),
    (ANY, "", Launch({}, 64, block=(32, 2))),
    (ANY, "a block of other extents than threads", Launch({}, 64, block=(32, 4))),
    (ANY, "a block of (-8, -8) threads", Launch({}, block=(-8, -8))),
    (ANY, "a block of (8, 2, 2, 2) threads", Launch({}, block=(8, 2, 2, 2))),
    (PLAIN, "threads of the launch are not .reqntid", Launch({}, 128)),
    (PLAIN, "", Launch({}, block=(64,))),
    (PLAIN, "threads of the launch are not .reqntid", Launch({}, block=(32, 2))),
]


def whole(body: str, threads: int = 64) -> str:
    return HEAD.format(threads=threads, shared=4096) + body + "\n  ret;\n}\n"


# (text, what is found, the bytes of a box)
ALL = [
    *((whole(body), why, 1024) for body, why in TEXTS),
    *((whole(body, 128), why, 1024) for body, why in OF_WARPGROUPS),
    *((text, why, 1024) for text, why in WHOLE),
    *((whole(body), why, box) for body, why, box in OF_BOXES),
]
