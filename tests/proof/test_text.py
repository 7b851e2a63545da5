"""Small texts by hand: sound ones are proved, broken ones and what is not known are refused, with the line."""

from __future__ import annotations

import pytest

from minitile.proof import Launch, Refused, answer, prove
from minitile.proof.arithmetic.values import (
    TOP,
    UNIFORM,
    Affine,
    Counter,
    binary,
    by_lane,
    compare,
    logic,
    negate,
    symbol,
)
from minitile.proof.explore import Explorer
from minitile.proof.products import rows_of_16
from minitile.proof.state import Warp
from minitile.proof.text import parse

HEAD = """.version 8.4
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 smem[];  // {shared} bytes
.visible .entry f(.param .s32 N, .param .u64 G, .param .align 64 .b8 T[128])
.reqntid {threads}
{{
  .reg .b32 %r<20>;
  .reg .b64 %d<9>;
  .reg .pred %p<9>;
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, smem;
  mad.lo.u32 %r2, %r0, 4, %r1;
  ld.param.s32 %r9, [N];
  setp.eq.u32 %p0, %r0, 0;
"""


def verdict(body: str, threads: int = 64, shared: int = 4096, box: int = 1024, most_states: int = 1000) -> str:
    text = HEAD.format(threads=threads, shared=shared) + body + "\n  ret;\n}\n"
    try:
        prove(text, Launch({"T": box}), most_states=most_states)
    except Refused as found:
        return str(found)
    return "proved"


STORE, LOAD = "st.shared.u32 [%r2], %r0;", "ld.shared.u32 %r4, [%r3];"
OTHER = "xor.b32 %r5, %r0, 32; mad.lo.u32 %r3, %r5, 4, %r1;"
NEXT = "xor.b32 %r5, %r0, 1; mad.lo.u32 %r3, %r5, 4, %r1;"
INIT = (
    "@!%p0 bra $x;\n mbarrier.init.shared.b64 [%r1+1024], 1;\n fence.mbarrier_init.release.cluster;\n$x:\n bar.sync 0;"
)
COPY = (
    "@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [%r1+1024], 1024;\n@%p0 cp.async.bulk.tensor.1d.shared::cluster."
    "global.mbarrier::complete_tx::bytes [%r1], [%d0, {%r9}], [%r1+1024];"
)
WAIT = "$w:\n mbarrier.try_wait.parity.shared.b64 %p1, [%r1+1024], 0;\n @!%p1 bra $w;"
TICKET = "atom.shared.add.u32 %r4, [%r1+1024], 1; mad.lo.u32 %r5, %r4, 4, %r1; st.shared.u32 [%r5], %r0;"
CP = "cp.async.ca.shared.global [%r2], [%d1], 4, %r9;"
MAP = "mov.b64 %d0, T;"
PUT = "@%p0 cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%d0, {%r9}], [%r1];"
DONE = "cp.async.bulk.commit_group;\n cp.async.bulk.wait_group.read 0;"
DATA = "ld.global.u32 %r3, [%d1]; setp.eq.u32 %p4, %r3, 0;"
MINE = "ld.param.u64 %d2, [G]; ld.global.u32 %r3, [%d2]; setp.eq.u32 %p4, %r3, 0;"
LOOP = (
    "mov.b32 %r6, 0;\n setp.ge.s32 %p2, %r6, %r9;\n @%p2 bra.uni $e;\n$l:\n{}\n add.s32 %r6, %r6, 1;\n"
    " setp.lt.s32 %p2, %r6, %r9;\n @%p2 bra.uni $l;\n$e:"
)


@pytest.mark.parametrize(
    "body",
    [
        "",
        f"{STORE} mov.u32 %r3, %r2; {LOAD}",
        # Lanes that end before others.
        "@%p0 bra $a; ret;\n$a:",
        f"@%p0 ret; {STORE}",
        f"setp.ge.u32 %p3, %r0, %r9; @%p3 ret; {STORE} mov.u32 %r3, %r2; {LOAD}",
        "elect.sync _|%p4, 0xffffffff; bar.sync 0;",
        f"{STORE} bar.sync 0; {OTHER} {LOAD}",
        f"$l:\n {DATA} {STORE} @%p4 bra $l;",
        f"{STORE} bar.sync 0; ld.shared.u32 %r4, [%r1];",
        "st.shared.u16 [%r2], %r0; add.u32 %r3, %r2, 2; st.shared.u16 [%r3], %r0; bar.sync 0;",
        # What nothing depends on may go either way.
        f"{STORE} {DATA} @%p4 bra $a; st.global.u32 [%d1], %r3;\n$a: bar.sync 0;",
        "ld.global.u32 %r3, [%d1]; setp.eq.u32 %p4, %r3, 0; @%p4 st.global.u32 [%d1], %r3; bar.sync 0;",
        f"{STORE} bar.warp.sync 0xffffffff; {NEXT} {LOAD}",
        f"{CP} cp.async.commit_group; cp.async.wait_group 0; mov.u32 %r3, %r2; {LOAD}",
        f"{CP} cp.async.commit_group; cp.async.commit_group; cp.async.wait_group 1; bar.sync 0; {OTHER} {LOAD}",
        f"{CP} cp.async.wait_all; fence.proxy.async.shared::cta; bar.sync 0; {MAP} {PUT} {DONE}",
        f"{STORE} bar.red.popc.u32 %r8, 0, %p0; {OTHER} {LOAD}",
        # Accesses that some lanes may execute, and others not.
        f"{DATA} @%p4 st.shared.u32 [%r2], %r0; bar.sync 0; {OTHER} {LOAD}",
        f"{STORE} bar.sync 0; {OTHER} {DATA.replace('r3', 'r8')} @%p4 bra $a; {LOAD} bra $b;"
        f"\n$a:\n {LOAD}\n$b: bar.sync 0; {STORE}",
        # Loops that wait for global memory; a truth of memory that is only read is one for the block.
        f"{STORE} $l:\n {DATA} @%p4 bra $l; bar.sync 0; {OTHER} {LOAD}",
        f"{MINE} @%p4 bra.uni $a; {STORE} bar.sync 0; {OTHER} {LOAD}\n$a:",
        # Two loops by one bound, one after the other; a slot that is the counter's remainder; a bound of at most 3.
        f"{LOOP.format('')} {LOOP.format('bar.sync 0;').replace('$l', '$k').replace('$e', '$f').replace('%r6', '%r7')}",
        LOOP.format("rem.s32 %r8, %r6, 3; mul.lo.s32 %r8, %r8, 256; add.s32 %r8, %r8, %r2; st.shared.u32 [%r8], %r0;"),
        "min.s32 %r8, %r9, 3;"
        + LOOP.format("mul.lo.s32 %r5, %r6, 256; add.s32 %r5, %r5, %r2; st.shared.u32 [%r5], 0;").replace("%r9", "%r8"),
        f"{STORE} bar.sync 0; {LOOP.format(f'{OTHER} {LOAD} bar.sync 0; {STORE} bar.sync 0;')}",
        "setp.lt.u32 %p3, %r0, 32; @%p3 bra $a; bar.sync 1, 64; bra $b;\n$a:\n bar.arrive 1, 64;\n$b:",
        f"{INIT} {MAP} {COPY} {WAIT} mov.u32 %r3, %r2; {LOAD}",
        "add.u32 %r3, %r2, %r0; add.u32 %r3, %r3, %r0; add.u32 %r3, %r3, %r0; add.u32 %r3, %r3, %r0; "
        "st.shared.v2.u32 [%r3], {%r0, %r0};",
        f"{MAP} st.shared.u32 [%r2], %r0; fence.proxy.async.shared::cta; bar.sync 0; {PUT} {DONE}",
    ],
)
def test_sound(body):
    assert verdict(body, box=256 if "bulk_group" in body else 1024) == "proved"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (f"{STORE} {OTHER} {LOAD}", "nothing has written"),
        (f"{STORE} @%p0 st.shared.u32 [%r1+1024], 0; bar.sync 0; {TICKET}", "not known: [%r5]"),
        (f"{STORE} bar.sync 0; {OTHER} {LOAD} {STORE}", "races with line"),
        (f"{STORE} {NEXT} {LOAD}", "have not met"),
        (f"{STORE} bar.warp.sync 0xffffffff; {OTHER} {LOAD}", "nothing has written"),
        ("st.shared.u32 [%r1], %r0;", "two lanes write the same bytes"),
        ("mov.u32 %r3, %r2; " + LOAD, "nothing has written"),
        ("st.shared.u32 [%r2+4096], %r0;", "out of bounds"),
        ("st.shared.u32 [%r2+2], %r0;", "misaligned"),
        ("st.shared.u16 [%r2+1], %r0;", "misaligned"),
        ("st.shared.u16 [%r1], %r0;", "two lanes write the same bytes"),
        ("ld.u32 %r3, [%d1];", "not known"),
        (
            "ld.global.u32 %r3, [%d1]; setp.eq.u32 %p4, %r3, 0; @%p4 bra $a; mov.u32 %r2, %r1;\n$a: " + STORE,
            "not known: [%r2]",
        ),
        (f"{STORE} bar.sync 0; {LOOP.format(f'{OTHER} {LOAD} bar.sync 0; {STORE}')}", "races with line"),
        (f"{STORE} bar.sync 0; {LOOP.format(f'{OTHER} {LOAD} {STORE} bar.sync 0;')}", "races with line"),
        ("@%p0 bar.sync 0;", "some lanes"),
        ("bar.sync 0, 32;\n bar.sync 0, 64;", "A: arrives at a barrier"),
        ("setp.lt.u32 %p3, %r0, 32; @%p3 bra $a; bar.sync 1, 64;\n$a:", "stuck"),
        (f"{INIT} {WAIT}", "stuck"),
        (f"{INIT.replace('fence.mbarrier_init.release.cluster;', '')} {MAP} {COPY} {WAIT}", "fence.mbarrier_init"),
        (f"{INIT} {MAP} {COPY} mov.u32 %r3, %r2; {LOAD} {WAIT}", "nothing has written"),
        (f"{INIT} {MAP} {COPY}", "under way when the block ends"),
        (f"{INIT} {MAP} {COPY.replace('], 1024;', '], 512;', 1)} {WAIT}", "more bytes"),
        (f"{INIT} {MAP} {COPY.replace('], 1024;', '], 2048;', 1)} {WAIT}", "stuck"),
        (f"{INIT} {MAP} {COPY} {WAIT} {COPY}", "W: waits"),
        (f"{INIT} {COPY} {WAIT}", "a tensor map that is not known"),
        (f"{INIT} st.shared.u32 [%r2+1020], %r0;", "touches an mbarrier"),
        (f"{MAP} {STORE} bar.sync 0; {PUT} {DONE}", "no proxy fence"),
        (f"{MAP} {STORE} bar.sync 0; fence.proxy.async.shared::cta; bar.sync 0; {PUT}", "ends while"),
        (f"{MAP} {STORE} fence.proxy.async.shared::cta; {PUT} {DONE}", "nothing has written"),
        ("ld.global.u32 %r3, [%d1]; setp.eq.u32 %p4, %r3, 0; @%p4 bra $a; bar.sync 0;\n$a:", "may differ in the warp"),
        ("ld.global.u32 %r3, [%d1]; st.shared.u32 [%r3], %r0;", "not known: [%r3]"),
        (f"$l:\n {DATA} bar.sync 0; @%p4 bra $l;", "not counted"),
        (f"$l:\n {DATA} add.u32 %r2, %r2, 4; @%p4 bra $l; {STORE}", "not known: [%r2]"),
        # A load by a pointer that the kernel stores by may give another value each time.
        (f"{MINE} @%p4 bra.uni $a; bar.sync 0;\n$a: st.global.u32 [%d2], %r3;", "may differ in the warp"),
        (
            f"{MINE.replace('[%d2]', '[%d2+4]')} red.global.add.u32 [%d2], 1; @%p4 bra.uni $a; bar.sync 0;\n$a:",
            "differ",
        ),
        ("red.shared.add.u32 [%r1], 1;", "nothing has written"),
        ("tcgen05.fence::before_thread_sync;", "not known"),
        ("cp.async.mbarrier.arrive.shared.b64 [%r1];", "not known"),
        ("ld.relaxed.cta.shared.u32 %r3, [%r2];", "nothing has written"),
        # Fences of global memory order nothing here.
        (f"{STORE} membar.cta; {OTHER} {LOAD}", "nothing has written"),
        (f"{STORE} bar.sync 0; fence.acq_rel.cta; {OTHER} {LOAD} {STORE}", "races with line"),
        (f"{MAP} {STORE} fence.proxy.async.global; bar.sync 0; {PUT} {DONE}", "no proxy fence"),
        # cp.async: complete for the thread that waits, for others behind a barrier; complete before the end.
        (f"{CP} cp.async.commit_group; mov.u32 %r3, %r2; {LOAD}", "races with line"),
        (f"{CP} cp.async.wait_group 0; mov.u32 %r3, %r2; {LOAD}", "races with line"),
        (f"{CP} cp.async.commit_group; cp.async.wait_group 1; mov.u32 %r3, %r2; {LOAD}", "races with line"),
        (f"{CP} cp.async.wait_all; {NEXT} {LOAD}", "have not met"),
        (f"{CP} bar.sync 0; cp.async.wait_all; {OTHER} {LOAD}", "races with line"),
        (f"{CP} cp.async.wait_all; bar.sync 0; {OTHER} {LOAD} {CP} cp.async.wait_all;", "races with line"),
        (f"{CP} cp.async.commit_group;", "under way when the block ends"),
        (f"{CP} {CP} cp.async.wait_all;", "races with line"),
        (f"{CP} fence.proxy.async.shared::cta; cp.async.wait_all; bar.sync 0; {MAP} {PUT} {DONE}", "no proxy fence"),
        ("@%p0 cp.async.commit_group;", "by some lanes"),
        # What may have been stored counts as stored.
        (f"{DATA} @%p4 st.shared.u32 [%r2], %r0; {OTHER} {LOAD}", "nothing has written"),
        (f"{STORE} bar.sync 0; {OTHER} {LOAD} {DATA} @%p4 st.shared.u32 [%r2], %r0;", "races with line"),
        (f"{STORE} bar.sync 0; {OTHER} {LOAD} {DATA} @%p4 bra $a; {STORE}\n$a:", "races with line"),
        ("mbarrier.try_wait.parity.shared.b64 %p1, [%r1+1024], 0;", "not tried again"),
        ("mbarrier.init.shared.b64 [%r1+1024], 1;", "by several lanes"),
        ("call foo;", "not known"),
        *(
            (f"{op};", "operands are missing")
            for op in ("mad.lo.u32 %r3, %r0", "st.shared.u32 [%r2]", "bar.sync", "mov.u32")
        ),
        ("st.shared.u32 [%r1+-8192], %r0;", "out of bounds"),
        ("@%p0 wgmma.wait_group.sync.aligned;", "operands are missing"),
    ],
)
def test_refused(body, why):
    found = verdict(body, box=256 if "bulk_group" in body else 1024)
    assert found != "proved"
    assert why in found


ARRIVE = "mbarrier.arrive.shared.b64 _, [%r1+1024];"
EXPECT = "@%p0 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1+1024], 1024;"
FENCE_OF_64 = (
    "mov.b64 %d3, 0; wgmma.fence.sync.aligned; wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "
    "{%f0, %f1, %f2, %f3}, %d3, %d3, 1, 1, 1, 0, 0;"
)
EXPECT_AND_COPY = EXPECT + COPY[COPY.index("@%p0 cp") :]
ROLE = "setp.eq.u32 %p5, %r0, 32; setp.lt.u32 %p3, %r0, 32; @!%p3 bra $z; {}\n bra $y;\n$z:\n{}\n$y:"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (f"{INIT} @%p0 {ARRIVE} @%p0 {ARRIVE}", "A: arrives, but"),
        (f"{INIT} @%p0 {ARRIVE.replace('];', '], 2;')}", "more arrivals"),
        (f"{INIT} setp.eq.u32 %p5, %r0, 32; @%p5 {ARRIVE} {WAIT} @%p0 {ARRIVE}", "L: completes"),
        (INIT + ROLE.format(WAIT.replace("], 0;", "], 1;"), "@%p5 " + ARRIVE), "W: waits for a phase, or"),
        (INIT + ROLE.format("", WAIT + "@%p5 " + ARRIVE), "stuck"),
        (ROLE.format("bar.sync 1, 64;", "bar.arrive 1, 32;"), "different numbers"),
        (ROLE.format("", "bar.arrive 1, 64; bar.arrive 1, 64;"), "arrives at a barrier twice"),
        ("bar.sync 16;", "a barrier 16 of"),
        ("bar.sync 1, 128;", "of 128 threads"),
        ("st.shared.v2.u32 [%r2], {%r0, %r0};", "misaligned"),
        ("bar.sync 1, 48;", "of 48 threads"),
        ("ld.global.u32 %r3, [%d1]; bar.sync %r3;", "not known: %r3"),
        ("bar.red.popc.s32 %r3, 0, %p0;", "not known: bar.red"),
        ("@%p0 bar.red.popc.u32 %r3, 0, %p0;", "some lanes"),
        ("barrier.cluster.arrive;", "not known: barrier.cluster.arrive"),
        ("@%p0 barrier.sync 0;", "some lanes"),
        (f"{INIT} {WAIT.replace('], 0;', '], 2;')}", "a parity of 2"),
        (INIT.replace("+1024], 1;", "+1024], 0;"), "an mbarrier of 0 arrivals"),
        (f"{INIT} @%p0 mbarrier.init.shared.b64 [%r1+1024], 1;", "initialised twice"),
        (f"{INIT} {ARRIVE.replace('%r1', '%r2')}", "addresses that differ"),
        (f"{INIT} @%p0 {ARRIVE.replace('_', '{%d1}')}", "not known: @%p0 mbarrier.arrive"),
        (f"{INIT} @%p0 {ARRIVE.replace('arrive', 'arrive.relaxed.cta')}", "not known: @%p0 mbarrier.arrive.relaxed"),
        (f"{INIT} @%p0 {ARRIVE.replace('arrive', 'arrive_drop')}", "not known: @%p0 mbarrier.arrive_drop"),
        (f"{MAP} {COPY}", "no mbarrier has been initialised"),
        (f"{MAP} {STORE} fence.proxy.async.shared::cta; bar.sync 0; {PUT[5:]}", "a bulk copy by several lanes"),
        # Bytes expected without an arrival: some arrival for the same phase must be behind them.
        (
            f"{INIT} {MAP} " + ROLE.format("@%p0 " + ARRIVE, EXPECT_AND_COPY.replace("%p0", "%p5")) + WAIT,
            "E: the phase may",
        ),
        (f"{INIT} {MAP} {COPY} {EXPECT}", "A: expects bytes"),
        (
            "setp.eq.u32 %p2, %r1, 0; @%p2 bra.uni $b; @%p0 bra $a; bar.arrive 1, 64;\n$b: bar.arrive 2, 64;\n$a:",
            "a barrier by some lanes of a warp",
        ),
        (f"{FENCE_OF_64} {INIT}", "less than four warps"),
        ("fence.proxy.alias;", "not known: fence"),
        ("@%p0 elect.sync _|%p4, 0xffffffff;", "by some lanes of a warp"),
        ("elect.sync _|%p4, 0x0000ffff;", "by some lanes of a warp"),
        ("@%p0 stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r1], {%r0};", "a matrix by some lanes"),
        ("st.shared.b256 [%r2], %r0;", "not known: st.shared.b256"),
        ("@%p0 wgmma.fence.sync.aligned;", "wgmma by some lanes"),
        ("wgmma.unknown.sync.aligned;", "not known: wgmma.unknown"),
    ],
)
def test_each_rule(body, why):
    """For each rule a text that only this rule refuses."""
    found = verdict(body, box=256 if "bulk_group" in body else 1024)
    assert why in found


START = 5120 >> 4 | 128 >> 4 << 16 | 256 >> 4 << 32  # rows of 16 bytes, by 8: 128 bytes along K, 256 along M or N
FILLED = (
    "mad.lo.u32 %r3, %r0, 16, %r1; st.shared.v4.u32 [%r3], {0, 0, 0, 0}; st.shared.v4.u32 [%r3+2048], {0, 0, 0, 0};\n"
    f"fence.proxy.async.shared::cta; bar.sync 0; mov.b64 %d3, {START}; mov.b64 %d4, {START + 128};\n"
)
FENCE = "wgmma.fence.sync.aligned;"
INSTRUCTION = "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16"
PRODUCT = f"{INSTRUCTION} {{%f0, %f1, %f2, %f3}}, %d3, %d4, 1, 1, 1, 0, 0;"
FROM_REGISTERS = f"{INSTRUCTION} {{%f0, %f1, %f2, %f3}}, {{%r10, %r11, %r12, %r13}}, %d4, 1, 1, 1, 0;"
COMMIT, FINISHED = "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"
OTHERS = PRODUCT.replace("%f0, %f1, %f2, %f3", "%f4, %f5, %f6, %f7")
OF_RESULTS = FROM_REGISTERS.replace("{%f0, %f1, %f2, %f3}", "{%f4, %f5, %f6, %f7}").replace("%r10", "%f0")
WARPGROUP = [  # of 128 threads: what is found, "" for proved
    (f"{FENCE} {PRODUCT} {COMMIT} {FINISHED} add.f32 %f4, %f0, %f1;", ""),
    (f"{FENCE} {PRODUCT} {PRODUCT} {COMMIT} {FINISHED}", ""),
    (f"{FENCE} {PRODUCT} {OTHERS} {COMMIT} {FINISHED}", ""),
    (f"{FENCE} {FROM_REGISTERS} {COMMIT} {FINISHED} mov.b32 %r10, 0;", ""),
    (f"{PRODUCT} {COMMIT} {FINISHED}", "no wgmma.fence"),
    (f"{FENCE} mov.b32 %f0, 0; {PRODUCT} {COMMIT} {FINISHED}", "no wgmma.fence"),
    (f"{FENCE} {PRODUCT} {COMMIT} add.f32 %f4, %f0, %f1; {FINISHED}", "accesses registers of a product"),
    (f"{FENCE} {FROM_REGISTERS} {COMMIT} mov.b32 %r10, 0; {FINISHED}", "accesses registers of a product"),
    (f"{FENCE} {PRODUCT} {COMMIT}", "ends while"),
    (f"{FENCE} {PRODUCT}", "ends while"),
    (
        f"{FENCE} {PRODUCT} {COMMIT} {PRODUCT.replace('%f3', '%f4')} {COMMIT} {FINISHED}",
        "accesses registers of a product",
    ),
    (
        f"{FENCE} {PRODUCT} {OF_RESULTS} {COMMIT} {FINISHED}",
        "accesses registers of a product",
    ),
    (
        f"{FENCE} {FROM_REGISTERS} {OTHERS.replace('%f4', '%r10')} {COMMIT} {FINISHED}",
        "accesses registers of a product",
    ),
    (f"{FENCE} {PRODUCT} {COMMIT} st.shared.u32 [%r3], 0; {FINISHED}", "races with line"),
    (f"{FENCE} {PRODUCT} {COMMIT} {FINISHED} st.shared.u32 [%r3], 0;", ""),  # a warp's wait speaks for its warpgroup
    (f"{FENCE} {PRODUCT} {COMMIT} {FINISHED} bar.sync 0; st.shared.u32 [%r3], 0;", ""),
    (f"or.b64 %d3, %d3, {1 << 49}; {FENCE} {PRODUCT} {COMMIT} {FINISHED}", "a descriptor that is not known"),
    (
        f"setp.lt.u32 %p3, %r0, 32; selp.b64 %d3, %d3, %d4, %p3; {FENCE} {PRODUCT} {COMMIT} {FINISHED}",
        "different products",
    ),
    (f"setp.lt.u32 %p3, %r0, 32; @%p3 bra $a; {FENCE} {PRODUCT} {COMMIT}\n$a: {FINISHED}", "stuck"),
    (f"{FENCE} {PRODUCT.replace('k16', 'k8')} {COMMIT} {FINISHED}", "not known: wgmma"),
    (f"{FENCE} {PRODUCT.replace('bf16.bf16', 'b1.b1')} {COMMIT} {FINISHED}", "not known: wgmma"),
    (f"{FENCE} {PRODUCT.replace('{%f0, %f1, %f2, %f3}', '%f0')} {COMMIT} {FINISHED}", "not known: wgmma"),
    (f"{FENCE} {PRODUCT.replace(', 0, 0;', ', 0;')} {COMMIT} {FINISHED}", "not known: wgmma"),
    (f"{FENCE} {PRODUCT.replace('%d3', '%d5')} {COMMIT} {FINISHED}", "not known: %d5"),
]


@pytest.mark.parametrize(("body", "why"), WARPGROUP)
def test_products(body, why):
    found = verdict(FILLED + body, threads=128)
    assert found == "proved" if not why else why in found


WHOLE = HEAD.format(threads=64, shared=4096) + "$l: bar.sync 0;\n  ret;\n}\n"
COUNTED = WHOLE.replace("$l: bar.sync 0;", LOOP.format("bar.sync 0;"))
STEP, TEST = "add.s32 %r6, %r6, 1;", " setp.lt.s32 %p2, %r6, %r9;\n @%p2 bra.uni $l;"
AGAIN = LOOP.format("").replace("$l", "$k").replace("$e", "$f")
READ = [  # whole texts: what is changed, and what is found
    (WHOLE, ".align 1024", ".align 48", "not a power of two"),
    (WHOLE, ".align 1024", ".align 2097152", "more shared memory than there is"),
    (WHOLE, ".align 1024 .b8 smem[];", f".b8 big[{1 << 50}];", "more shared memory than there is"),
    (WHOLE, "bar.sync 0;", "bar.sync 0; st.shared.v4.u32 [%r1+2147400000], {{0,0,0,0}};", "out of bounds"),
    (WHOLE, "bar.sync 0;", "cvt.u64.u32 %d5, %r1; st.global.u32 [%d5], 0;", "as one of global memory"),
    (WHOLE, "bar.sync 0;", "/* * // { */ bar.sync 0;", ""),
    (WHOLE, "bar.sync 0;", "/* bar.sync 0;", "a comment that does not end"),
    (WHOLE, "bar.sync 0;", "@%p0 /*\n*/ bar.sync 0;", "some lanes"),
    (WHOLE, "bar.sync 0;", "// /*\n @%p0 bar.sync 0; // */", "some lanes"),
    (WHOLE, "bar.sync 0;", '.pragma "//"; @%p0 bar.sync 0;', "not known: $l: .pragma"),
    (WHOLE, "bar.sync 0;", '.pragma "nounroll";', ""),
    (WHOLE, ".visible .entry f", ".visible .entry g()\n.visible .entry f", "not exactly one entry"),
    (WHOLE, ".visible .entry f", ".func g()\n.visible .entry f", "not exactly one entry"),
    (WHOLE, ".visible .entry f", ".visible .other f", "not exactly one entry"),
    (WHOLE, "\n{\n", "\n", "no body"),
    (WHOLE, "ret;\n}", "ret;\n", "no body"),
    (WHOLE, ".reqntid 64", ".reqntid 64\n.reqnctapercluster 2", "clusters"),
    (WHOLE, ".reqntid 64", ".reqntid 33", "threads: 33"),
    (WHOLE, ".reqntid 64", ".reqntid 2048", "threads: 2048"),
    (WHOLE, ".reqntid 64", ".reqntid 0", "threads: 0"),
    (WHOLE, ".reqntid 64", "", "how many threads a block has is not said"),
    (WHOLE, ".reqntid 64", ".reqntid 64, 32", "threads: 2048"),
    (WHOLE, "  ret;", "", "control runs out"),
    (WHOLE, "  ret;", "  @%p0 ret;", "control runs out"),
    (WHOLE, "  ret;", "$l: ret;", "label twice"),
    (WHOLE, "  ret;", "  bra $nowhere;\n  ret;", "not known: bra"),
    (WHOLE, "  ret;", "  bra.far $x;\n$x: ret;", "not known: bra"),
    (WHOLE, "  ret;", "  bra $x, $x;\n$x: ret;", "not known: bra"),
    (WHOLE, "  ret;", "  12;\n  ret;", "not an instruction"),
    (WHOLE, "  ret;", "  frobnicate.b32 %r0;\n  ret;", "not known: frobnicate"),
    (WHOLE, "  ret;", "  @%p0\nbar.sync\n 0;\n  ret;", "some lanes"),
    (WHOLE, "  ret;", "  { bar.sync 0;\n  ret;", "a scope that does not end"),
    (COUNTED, STEP, f"@%p0 {STEP}", "does not grow by a constant"),
    (COUNTED, STEP, "add.s32 %r6, %r6, 0;", "does not grow by a constant"),
    (COUNTED, STEP, "add.s32 %r6, %r6, %r6;", "does not grow by a constant"),
    (COUNTED, STEP, "add.s32 %r6, %r7, 1;", "does not grow by a constant"),
    (COUNTED, STEP, "sub.s32 %r6, %r6, 1;", "does not grow by a constant"),
    (COUNTED, STEP, f"{STEP} {STEP}", "does not grow by a constant"),
    (COUNTED, STEP, f"{STEP} add.s32 %r9, %r9, 1;", "changes"),
    (COUNTED, TEST, TEST.replace("@%p2", "@!%p2"), "not counted"),
    (COUNTED, TEST, TEST.replace(" setp", "@%p0 setp"), "not counted"),
    (COUNTED, TEST, TEST.replace("setp.lt", "setp.ne"), ""),
    (COUNTED, TEST, " @%p3 bra.uni $l;", "not counted"),
    (COUNTED, "  ret;", AGAIN.replace("add.s32", "bar.sync 0; add.s32") + "\n  ret;", ""),
    (COUNTED, "", "", ""),
    (WHOLE, "", "", ""),
]


@pytest.mark.parametrize(("text", "old", "new", "why"), READ)
def test_read(text, old, new, why):
    try:
        prove(text.replace(old, new, 1), Launch({"T": 1024}))
        found = ""
    except Refused as refused:
        found = str(refused)
    assert found == "" if not why else why in found


def test_threads_of_the_launch():
    with pytest.raises(Refused, match="threads of the launch"):
        prove(WHOLE, Launch({"T": 1024}, threads=128))
    assert prove(WHOLE.replace(".reqntid 64", ""), Launch({"T": 1024}, threads=64))


def test_bytes_expected_without_an_arrival():
    copy = COPY[COPY.index("@%p0 cp") :]
    read = f"{WAIT} mov.u32 %r3, %r2; {LOAD}"
    assert verdict(f"{INIT} {MAP} {EXPECT} {copy} @%p0 {ARRIVE} {read}") == "proved"
    assert verdict(f"{INIT} {MAP} {EXPECT} @%p0 {ARRIVE} {copy} {read}") == "proved"
    assert "stuck" in verdict(f"{INIT} {MAP} {EXPECT} @%p0 {ARRIVE} {read}")
    assert "more bytes" in verdict(f"{INIT} {MAP} {copy} {EXPECT} @%p0 {ARRIVE} {read}")


def test_a_barrier_that_only_some_trips_of_a_loop_need():
    """The trips of two roles go by one bound: any number is proved; by another bound it is refused."""
    roles = "setp.lt.u32 %p3, %r0, 32; @%p3 bra $a; {} bra $b;\n$a:\n{}\n$b:"
    one = LOOP.format("bar.sync 1, 64;")
    other = one.replace("$l", "$k").replace("$e", "$f").replace("%r6", "%r7")
    assert verdict(roles.format(one, other)) == "proved"
    assert "stuck" in verdict("add.s32 %r8, %r9, 1;" + roles.format(one, other.replace("%r9", "%r8")))


def test_what_a_loop_will_begin_with_is_known_only_if_it_is_not_written_again():
    again = "mov.b32 %r7, 1; add.s32 %r8, %r7, 0; mov.b32 %r7, 2;"
    for set_again, start in (("mov.b32 %r7, 1;", 1), (again, None)):
        text = LOOP.format("").replace("mov.b32 %r6, 0;", f"{set_again} bar.sync 0; mov.b32 %r6, %r7;", 1)
        program = parse(HEAD.format(threads=64, shared=4096) + text + "\n  ret;\n}\n", Launch({}))
        explorer = Explorer(program, Launch({}), frozenset(), {}, 0, 60)
        warp = Warp(0, next(each.pc for each in program.code if each.args[:1] == ("%r7",)) + 1, {"%r7": 1})
        found = explorer._start(warp, "%r7")
        assert (found and found.const) == start


@pytest.mark.parametrize("far", [1, 3, 20, 100])
@pytest.mark.parametrize("how", ["sub.s32 %r7, %r6, {};", "add.s32 %r7, %r6, -{};", "mad.lo.s32 %r7, 1, -{}, %r6;"])
def test_a_counter_less_a_number(far, how):
    """A barrier is missing from round `far` on."""
    skip = how.format(far) + " setp.ge.s32 %p3, %r7, 0; @%p3 bra.uni $s;\n bar.sync 0;\n$s:\n"
    assert verdict(f"{STORE} bar.sync 0; " + LOOP.format(f"{OTHER} {LOAD} {skip} {STORE} bar.sync 0;")) != "proved"
    never = skip.replace("setp.ge.s32 %p3, %r7, 0", "setp.lt.s32 %p3, %r7, -200")
    assert verdict(f"{STORE} bar.sync 0; " + LOOP.format(f"{OTHER} {LOAD} {never} {STORE} bar.sync 0;")) != "proved"
    both = skip.replace("@%p3 bra.uni $s;", "")
    assert verdict(f"{STORE} bar.sync 0; " + LOOP.format(f"{OTHER} {LOAD} {both} {STORE} bar.sync 0;")) == "proved"


@pytest.mark.parametrize(
    "commit", ["cp.async.commit_group;", "wgmma.commit_group.sync.aligned;", "cp.async.bulk.commit_group;"]
)
def test_empty_groups_are_not_counted(commit):
    assert verdict(LOOP.format(commit)) == "proved"


def test_empty_groups_behind_others_are_counted():
    group = f"{CP} cp.async.commit_group;"
    read = f"bar.sync 0; {OTHER} {LOAD} bar.sync 0;"
    loop = LOOP.format(f"{group} cp.async.commit_group; cp.async.wait_group {{}}; {read} ")
    assert verdict(loop.format(1)) == "proved"
    assert "races with line" in verdict(loop.format(2))


SUM = (
    "ld.param.u64 %d{0}, [G]; mov.b32 %r1{0}, 0; mov.b32 %g{0}, 0;\n$m{0}:\n ld.global.u32 %r3, [%d{0}];\n"
    " add.s32 %r1{0}, %r1{0}, %r3; add.s64 %d{0}, %d{0}, 4; add.s32 %g{0}, %g{0}, 1;\n"
    " setp.lt.s32 %p2, %g{0}, %r9; @%p2 bra.uni $m{0};\n"
)
TURNS = (
    "mov.b32 %t{0}, 0;\n setp.ge.s32 %p2, %t{0}, %r1{0};\n @%p2 bra.uni $e{0};\n$l{0}:\n bar.sync 1, 64;\n"
    " add.s32 %t{0}, %t{0}, 1;\n setp.lt.s32 %p2, %t{0}, %r1{0};\n @%p2 bra.uni $l{0};\n$e{0}:"
)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("", "", ""),
        # The two do not compute the same: of another begin, by another operation, from other data.
        ("mov.b32 %r13, 0;", "mov.b32 %r13, 1;", "stuck"),
        ("add.s32 %r13, %r13, %r3;", "max.s32 %r13, %r13, %r3;", "stuck"),
        ("add.s64 %d3, %d3, 4;", "add.s64 %d3, %d3, 8;", "stuck"),
        ("ld.param.u64 %d3, [G];", "ld.param.u64 %d3, [G]; add.s64 %d3, %d3, 4;", "stuck"),
        (" setp.lt.s32 %p2, %g3, %r9;", " setp.le.s32 %p2, %g3, %r9;", "stuck"),
        # What is loaded may change, or is not the same for all.
        ("$e2:", "$e2: st.global.u32 [%d2], 0;", "differ in the warp"),
        ("ld.global.u32 %r3, [%d3];", "ld.acquire.gpu.global.u32 %r3, [%d3];", "more than"),
        ("mov.b32 %r13, 0;", "mov.b32 %r13, %r0;", "differ in the warp"),
        ("mov.b32 %r13, 0;", "ld.global.u32 %r13, [%d1];", "differ in the warp"),
        ("ld.global.u32 %r3, [%d3];", "ld.global.u64 %d4, [%d3]; ld.global.u32 %r3, [%d4];", "differ in the warp"),
    ],
)
def test_loops_that_only_compute(old, new, why):
    """Each of two roles adds up what lies in memory, and meets the other so many times."""
    body = "setp.lt.u32 %p3, %r0, 32; @%p3 bra $a;" + SUM.format(2) + TURNS.format(2)
    body += " bra $b;\n$a:" + SUM.format(3) + TURNS.format(3) + "\n$b:"
    assert body.count(old) >= 1
    found = verdict(body.replace(old, new, 1))
    assert found == "proved" if not why else why in found


def test_a_loop_of_which_nothing_is_used():
    """Its trips are not asked for: they may be more in one round than in another."""
    inner = (
        "ld.global.u32 %r3, [%d1]; mov.b32 %r7, 0;\n$i: add.s32 %r7, %r7, 1; setp.lt.s32 %p3, %r7, %r3; @%p3 bra $i;"
    )
    assert verdict(LOOP.format(f"{inner} bar.sync 0;")) == "proved"
    used = inner + "setp.eq.s32 %p4, %r7, 3; @%p4 bra.uni $s; bar.sync 0;\n$s:"
    assert verdict(LOOP.format(used)) != "proved"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("", ""),
        ("shr.u32 %r5, %r0, 5; add.s32 %r8, %r8, %r5;", "stuck"),  # of this round in one warp, of the next in another
        ("ld.global.u32 %r5, [%d1]; add.s32 %r8, %r8, %r5;", "differ in the warp"),
    ],
)
@pytest.mark.parametrize(
    "how", ["rem.s32 %r8, %r9, %r8;", "rem.s32 %r8, %r9, %r8; setp.lt.s32 %p4, %r8, 7; selp.b32 %r8, %r8, 9, %p4;"]
)
def test_what_is_computed_of_a_round(how, change, why):
    """A barrier in some rounds only: all warps must agree in which."""
    skip = "setp.eq.s32 %p3, %r8, 5; @%p3 bra.uni $s; bar.sync 0;\n$s:"
    found = verdict(LOOP.format(f"add.s32 %r8, %r6, 1; {change} {how} {skip}"))
    assert found == "proved" if not why else why in found


def test_what_was_computed_of_the_round_before():
    """A warp that goes by the last round's value, where another goes by this round's."""
    skip = "@%p3 bra.uni $s; bar.sync 0;\n$s:"
    start = "mov.b32 %r7, 0; mov.b32 %r8, 0; setp.lt.u32 %p5, %r0, 32; "
    step = "mov.b32 %r7, %r8; rem.s32 %r8, %r9, %r6; {} setp.eq.s32 %p3, %r5, 5;"
    assert verdict(start + LOOP.format(step.format("mov.b32 %r5, %r7;") + skip)) == "proved"
    apart = start + LOOP.format(step.format("selp.b32 %r5, %r7, %r8, %p5;") + skip)
    assert verdict(apart, most_states=60) == "more than 60 states"  # one warp runs ahead until it ends


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        ("bar.sync 0;", "proved"),
        (f"{STORE} {OTHER} {LOAD}", "fault"),
        ("st.shared.u32 [%r1], %r0;", "fault"),
        # Data may choose one lane.
        (f"{DATA} @%p4 st.shared.u32 [%r1], %r0;", "refused"),
        (f"{DATA} @%p4 bra $a; st.shared.u32 [%r1], %r0;\n$a:", "refused"),
        ("ld.global.u32 %r3, [%d1]; st.shared.u32 [%r3], %r0;", "refused"),
    ],
)
def test_what_is_called_a_fault(body, verdict):
    found = answer(HEAD.format(threads=64, shared=4096) + body + "\n  ret;\n}\n", Launch({"T": 1024}))
    assert found.verdict == verdict
    assert bool(found) == (verdict == "proved")


def test_values():
    n = symbol("param", "N")
    assert binary("add", "s32", 0xFFFFFFFF, 1) == 0
    assert binary("shr", "s32", 0x80000000, 4) == 0xF8000000
    assert binary("shr", "u32", 0x80000000, 4) == 0x08000000
    assert binary("rem", "s32", 0xFFFFFFF9, 4) == 0xFFFFFFFD
    assert binary("div", "s32", 7, 0) is UNIFORM
    assert binary("sub", "s32", binary("add", "s32", n, 5), n) == 5
    assert binary("add", "s32", Counter((), 4), 0xFFFFFFFF) == Counter((), 3)
    assert binary("mul", "s32", Counter((), 4), 2) == binary("mul", "s32", Counter((), 4), 2)
    assert binary("mul", "s32", Counter((), 4), 2) != binary("mul", "s32", Counter((), 5), 2)
    assert isinstance(binary("shr", "s32", n, 5), Affine)
    assert compare("lt", "s32", 0xFFFFFFFF, 0) == 1
    assert compare("lt", "u32", 0xFFFFFFFF, 0) == 0
    assert negate(negate(compare("lt", "s32", n, 8))) == compare("lt", "s32", n, 8)
    assert logic("and", 0, TOP) == 0
    # An unknown of some lanes is not one of the warp.
    assert (
        by_lane(lambda x, y: logic("and", x, y), tuple(int(k < 9) for k in range(32)), UNIFORM)
        == (TOP,) * 9 + (0,) * 23
    )


def test_descriptors_are_those_of_the_simulator():
    from minitile.runtime.sim.ptx.instructions.wgmma_layout import Descriptor

    for mode in range(4):
        word = 0x1400 >> 4 | (32 << 16) | (64 << 32) | (mode << 62)
        parsed = Descriptor.decode(word)
        mine = rows_of_16(word, 0, 64, 32)
        assert mine is not None
        assert set(mine) == {int(x) for x in parsed.k_major(64, 2).ravel()}
        mine = rows_of_16(word, 1, 16, 128)
        assert mine is not None
        assert set(mine) == {int(x) for x in parsed.mn_major(16, 8).ravel()}
        for start, major in ((32, 0), (32, 1), (112, 0), (128, 0), (512, 0), (1024, 1)):  # along K; within the pattern
            shifted = rows_of_16(word + (start >> 4), major, 16 if major else 64, 128 if major else 32)
            width = (0, 128, 64, 32)[mode]
            assert (shifted is None) == bool(width and start % (8 * width) + (width if major else 32) > width)
