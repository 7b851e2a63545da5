"""Texts by an adversary: each races, waits for ever or is read in another way than it looks. None is proved."""

from __future__ import annotations

import pytest

from minitile.proof import Launch, Refused, prove
from tests.proof.test_text import COPY, HEAD, INIT, LOAD, MAP, OTHER, STORE, WAIT, verdict
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
END = "\n  ret;\n}\n"
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
}  # fmt: skip
SOUND = {
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


@pytest.mark.parametrize("name", TEXTS)
def test_a_text(name: str) -> None:
    assert found(TEXTS[name]) != "proved"


@pytest.mark.parametrize("name", SOUND)
def test_what_is_sound(name: str) -> None:
    assert verdict(SOUND[name]) == "proved"
