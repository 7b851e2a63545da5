"""Bugs that others reported of their kernels, as small texts by their descriptions: refused, and proved when mended."""

from __future__ import annotations

import pytest

from tests.proof.test_text import COMMIT, COPY, FENCE, FINISHED, LOOP, MAP, PRODUCT, START, verdict

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
