"""Bugs that others reported of their kernels, as small texts by their descriptions: refused, and proved when mended."""

from __future__ import annotations

import pytest

from tests.proof.test_text import COMMIT, COPY, DONE, FENCE, FINISHED, LOOP, MAP, PRODUCT, PUT, START, verdict

# github.com/tile-ai/tilelang/issues/2613: two warp groups multiply from a tile that all threads write in each round;
# no barrier stands between the products of a round and the writes of the next.
SHARED_OPERAND = f"mad.lo.u32 %r3, %r0, 16, %r1; mov.b64 %d3, {START}; mov.b64 %d4, {START + 128};" + LOOP.format(
    "st.shared.v4.u32 [%r3], {0, 0, 0, 0}; fence.proxy.async.shared::cta; bar.sync 0;"
    f"{FENCE} {PRODUCT} {COMMIT} {FINISHED} <>"
)
# github.com/Dao-AILab/flash-attention/pull/2462: what a copy has brought is read by plain loads; no proxy fence stands
# between them and the arrival that lets the next copy write there.
SETUP = (
    "@!%p0 bra $x;\n mbarrier.init.shared.b64 [%r1+1024], 1; mbarrier.init.shared.b64 [%r1+1032], 1;\n"
    " fence.mbarrier_init.release.cluster;\n$x:\n bar.sync 0;"
)
TRY = "${0}:\n mbarrier.try_wait.parity.shared.b64 %p1, [%r1+{1}], %r7; @!%p1 bra ${0}; xor.b32 %r7, %r7, 1;"
PRODUCER = "mov.b32 %r7, 1;" + LOOP.format(TRY.format("w", 1032) + COPY)
CONSUMER = "mov.b32 %r7, 0; and.b32 %r8, %r0, 31; mad.lo.u32 %r3, %r8, 4, %r1; setp.eq.u32 %p5, %r0, 32;" + (
    LOOP.replace("%r6", "%r10").replace("$l", "$k").replace("$e", "$f")
).format(
    TRY.format("v", 1024) + "ld.shared.u32 %r4, [%r3]; <> bar.warp.sync 0xffffffff;"
    "@%p5 mbarrier.arrive.shared.b64 _, [%r1+1032];"
)
LOADED = f"{SETUP} {MAP} setp.lt.u32 %p3, %r0, 32; @%p3 bra $a; {CONSUMER} bra $b;\n$a:\n{PRODUCER}\n$b:"


@pytest.mark.parametrize(
    ("text", "mended", "why", "threads"),
    [
        (SHARED_OPERAND, "bar.sync 0;", "races with line", 256),
        (LOADED, "fence.proxy.async.shared::cta;", "no proxy fence", 64),
    ],
)
def test_bugs_of_others(text, mended, why, threads):
    assert verdict(text.replace("<>", mended), threads=threads) == "proved"
    assert why in verdict(text.replace("<>", ""), threads=threads)


# github.com/NVIDIA/TensorRT-LLM/pull/18339: all threads read what a leader has stored for them (a bracket of the
# search), and the leader stores the next one with no barrier between.
LEADER = "@%p0 st.shared.u32 [%r1+512], %r9; bar.sync 0;" + LOOP.format(
    "ld.shared.u32 %r4, [%r1+512]; st.global.u32 [%d1], %r4; <> @%p0 st.shared.u32 [%r1+512], %r6; bar.sync 0;"
)
# github.com/NVIDIA/cutlass/issues/3643: operands and their scales come by copies on mbarriers of their own, and the
# product is begun when the operands' has completed: no thread waits for the scales'.
OTHER_COPY = COPY.replace("%r1+1024", "%r1+1032").replace("[%r1],", "[%r1+2048],")
SCALES = (
    f"{SETUP} {MAP} {COPY} {OTHER_COPY}\n$w:\n mbarrier.try_wait.parity.shared.b64 %p1, [%r1+1024], 0; @!%p1 bra $w;"
    "<> mad.lo.u32 %r3, %r0, 4, %r1; ld.shared.u32 %r4, [%r3]; ld.shared.u32 %r5, [%r3+2048];"
)
WAIT_FOR_SCALES = "$s:\n mbarrier.try_wait.parity.shared.b64 %p1, [%r1+1032], 0; @!%p1 bra $s;"
# github.com/NVIDIA/TensorRT-LLM/pull/15338: a consumer polls the mbarrier of the stage that it began with, and not that
# of the stage it reads.
FOUR = "1032], 1; mbarrier.init.shared.b64 [%r1+1040], 1; mbarrier.init.shared.b64 [%r1+1048], 1"
STAGES = (
    SETUP.replace("1032], 1", FOUR)
    + f" {MAP} mov.b32 %r10, 0; mov.b32 %r11, 0; mov.b32 %r7, 0; mov.b32 %r8, %r1; and.b32 %r12, %r0, 31;"
    "mad.lo.u32 %r12, %r12, 4, %r1; setp.eq.u32 %p5, %r0, 32; setp.lt.u32 %p3, %r0, 32; @%p3 bra $p;"
    + LOOP.format(
        "mad.lo.u32 %r13, %r10, 8, %r1;\n$v:\n mbarrier.try_wait.parity.shared.b64 %p1, [<>+1024], %r11; @!%p1 bra $v;"
        "mad.lo.u32 %r3, %r10, 2048, %r12; ld.shared.u32 %r4, [%r3]; fence.proxy.async.shared::cta;"
        "bar.warp.sync 0xffffffff; @%p5 mbarrier.arrive.shared.b64 _, [%r13+1040];"
        "xor.b32 %r10, %r10, 1; setp.eq.u32 %p6, %r10, 0; @%p6 xor.b32 %r11, %r11, 1;"
    )
    + "bra $q;\n$p:\n"
    + LOOP.replace("$l", "$k")
    .replace("$e", "$f")
    .format(
        "mad.lo.u32 %r13, %r10, 8, %r1; mad.lo.u32 %r14, %r10, 2048, %r1; xor.b32 %r15, %r11, 1;\n"
        "$w:\n mbarrier.try_wait.parity.shared.b64 %p1, [%r13+1040], %r15; @!%p1 bra $w;"
        + COPY.replace("%r1+1024", "%r13+1024").replace("[%r1],", "[%r14],")
        + "xor.b32 %r10, %r10, 1; setp.eq.u32 %p6, %r10, 0; @%p6 xor.b32 %r11, %r11, 1;"
    )
    + "\n$q:"
)
# github.com/sgl-project/sglang/pull/37663: prefix sums are stored by each thread, and then searched by all.
SEARCH = (
    "st.shared.u32 [%r2], %r9; <> ld.global.u32 %r3, [%d1]; and.b32 %r3, %r3, 63; mad.lo.u32 %r3, %r3, 4, %r1; {}"
).format("ld.shared.u32 %r4, [%r3];")
# github.com/tile-ai/tilelang/issues/2556: a barrier for 48 threads cannot be, and is left out; it must be one for all.
PARTIAL = (
    "setp.ge.u32 %p3, %r0, 48; @%p3 bra $a; st.shared.u32 [%r2], %r0;\n$a: <> setp.ge.u32 %p3, %r0, 48; @%p3 bra $b;"
    " xor.b32 %r5, %r0, 32; and.b32 %r5, %r5, 47; mad.lo.u32 %r3, %r5, 4, %r1; ld.shared.u32 %r4, [%r3];\n$b:"
)
# github.com/NVIDIA/cudnn-frontend/pull/784: results are stored by plain stores and copied out behind a barrier only.
EPILOGUE = f"{MAP} st.shared.u32 [%r2], %r0; <> bar.sync 1, 64; {PUT} {DONE}"


@pytest.mark.parametrize(
    ("text", "mended", "wrong", "why", "box"),
    [
        (LEADER, "bar.sync 0;", "", "races with line", 1024),
        (SCALES, WAIT_FOR_SCALES, "", "races with line", 1024),
        (STAGES, "%r13", "%r8", "line", 1024),
        (SEARCH, "bar.sync 0;", "", "nothing has written", 1024),
        (PARTIAL, "bar.sync 0;", "", "nothing has written", 1024),
        (EPILOGUE, "fence.proxy.async.shared::cta;", "", "no proxy fence", 256),
    ],
)
def test_more_bugs_of_others(text, mended, wrong, why, box):
    assert verdict(text.replace("<>", mended), box=box) == "proved"
    assert why in verdict(text.replace("<>", wrong), box=box)


# github.com/NVIDIA/cutlass/pull/2835: the warp that multiplies stores an address for others; what lets them read it are
# the barriers of each tile, and a block may have none. Mended, both do so only where there is a tile.
MEET = "bar.sync 1, 64;"
NO_TILE = (
    "setp.lt.u32 %p3, %r0, 32; @%p3 bra $a;"
    + LOOP.format(MEET)
    + "<1> ld.shared.u32 %r4, [%r1+512];\n$c: bra $b;\n$a: <2> @%p0 st.shared.u32 [%r1+512], %r9;\n$d:\n"
    + LOOP.replace("$l", "$k").replace("$e", "$f").replace("%r6", "%r7").format(MEET)
    + "\n$b:"
)
# github.com/flashinfer-ai/flashinfer/pull/4732: who computes a tile arrives at a named barrier and goes on, up to two
# tiles ahead of who waits there; its next arrival may come before the barrier has completed. Mended, by turns at two.
AHEAD = (
    SETUP.replace("], 1;", "], 32;")
    + "mov.b32 %r10, 1; setp.lt.u32 %p3, %r0, 32; @%p3 bra $a;"
    + LOOP.format(
        "and.b32 %r11, %r6, 1; <> bar.sync %r12, 64; mad.lo.u32 %r3, %r11, 8, %r1;"
        " mbarrier.arrive.shared.b64 _, [%r3+1024];"
    )
    + "bra $b;\n$a:\n"
    + LOOP.replace("$l", "$k")
    .replace("$e", "$f")
    .format(
        "and.b32 %r11, %r6, 1; <> mad.lo.u32 %r3, %r11, 8, %r1;\n$w:\n mbarrier.try_wait.parity.shared.b64 %p1,"
        " [%r3+1024], %r10; @!%p1 bra $w; setp.eq.u32 %p6, %r11, 1; @%p6 xor.b32 %r10, %r10, 1; bar.arrive %r12, 64;"
    )
    + "\n$b:"
)
# github.com/NVIDIA/cutlass/pull/3636: a tile's four parts are stored by way of three stages, and each tile begins with
# the first stage, since who counts the tiles is another warp: a stage is written while the copy before it may read it.
PART = (
    "@%p0 cp.async.bulk.wait_group.read 2; bar.sync 0; mad.lo.u32 %r3, %r10, 256, %r2; st.shared.u32 [%r3], %r0;"
    " fence.proxy.async.shared::cta; bar.sync 0; mad.lo.u32 %r4, %r10, 256, %r1;"
    + PUT.replace("[%r1]", "[%r4]")
    + "@%p0 cp.async.bulk.commit_group; add.u32 %r10, %r10, 1; setp.eq.u32 %p6, %r10, 3; @%p6 mov.b32 %r10, 0;"
)
ROTATION = f"{MAP} mov.b32 %r10, 0;" + LOOP.format("<>" + PART * 4) + "@%p0 cp.async.bulk.wait_group.read 0;"


ONLY_WITH_A_TILE = NO_TILE.replace("<1>", "setp.lt.s32 %p4, %r9, 1; @%p4 bra.uni $c;").replace(
    "<2>", "setp.lt.s32 %p4, %r9, 1; @%p4 bra.uni $d;"
)


@pytest.mark.parametrize(
    ("mended", "wrong", "why"),
    [
        (ONLY_WITH_A_TILE, NO_TILE.replace("<1>", "").replace("<2>", ""), "races with line"),
        (AHEAD.replace("<>", "add.u32 %r12, %r11, 1;"), AHEAD.replace("<>", "mov.b32 %r12, 1;"), "A: arrives"),
        (ROTATION.replace("<>", ""), ROTATION.replace("<>", "mov.b32 %r10, 0;"), "races with line"),
    ],
    ids=["cutlass 2835", "flashinfer 4732", "cutlass 3636"],
)
def test_bugs_of_some_rounds(mended, wrong, why):
    assert verdict(mended, box=256) == "proved"
    assert why in verdict(wrong, box=256)
