"""More programs by hand (see sound.py): mbarriers, bulk copies, products of warpgroups."""

from __future__ import annotations

import tests.proof.foreign.sound_groups  # noqa: F401  # adds its programs first
from tests.proof.foreign.sound import add


def wait(bar: str, parity: str, number: int) -> str:
    """A wait as CUTLASS writes it in line."""
    return f"""
    {{
    .reg .pred P1;
    LAB_WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 P1, [{bar}], {parity};
    @P1 bra DONE;
    bra LAB_WAIT;
    DONE:
    }}
"""


def tma(to: str, what: str, bar: str, guard: str = "") -> str:
    return (
        f"    {guard} cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [{to}], "
        f"[{what}, {{%r40, %r41}}], [{bar}];"
    )


_MAP = """
    mov.b64 %rd10, ma;
    mov.b64 %rd11, mb;
    mov.u32 %r40, 0;
    mov.u32 %r41, 0;
"""

add(
    "tma_once",
    f"""
{_MAP}
    add.u32 %r6, %r1, 2048;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra READY;
    mbarrier.init.shared::cta.b64 [%r6], 1;
    fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r6], 2048;
{tma("%r1", "%rd10", "%r6")}
READY:
    bar.sync 0;
{wait("%r6", "0", 1)}
    ld.shared.f32 %f0, [%r5];
    st.global.f32 [%rd4], %f0;
""",
    boxes={"ma": 2048},
    shared=2056,
)

add(
    "bulk_copy_without_a_map",
    f"""
    add.u32 %r6, %r1, 1024;
    setp.eq.u32 %p0, %r0, 0;
    @%p0 mbarrier.init.shared.b64 [%r6], 1;
    @%p0 fence.proxy.async.shared::cta;
    bar.sync 0;
    @!%p0 bra WAIT;
    mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 %rd20, [%r6], 512;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd0], 512, [%r6];
WAIT:
{wait("%r6", "0", 1)}
    ld.shared.f32 %f0, [%r5];
    st.global.f32 [%rd4], %f0;
""",
    shared=1032,
)

add(
    "two_operands_one_mbarrier",
    f"""
{_MAP}
    add.u32 %r6, %r1, 4096;
    elect.sync %r7|%p0, 0xffffffff;
    setp.lt.u32 %p1, %r0, 32;
    and.pred %p0, %p0, %p1;
    @!%p0 bra READY;
    mbarrier.init.shared::cta.b64 [%r6], 1;
    fence.mbarrier_init.release.cluster;
READY:
    bar.sync 0;
    @!%p0 bra WAIT;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r6], 3072;
{tma("%r1", "%rd10", "%r6")}
{tma("%r1+2048", "%rd11", "%r6")}
WAIT:
{wait("%r6", "0", 1)}
    ld.shared.f32 %f0, [%r5];
    ld.shared.f32 %f1, [%r5+2048];
    add.f32 %f0, %f0, %f1;
    st.global.f32 [%rd4], %f0;
""",
    boxes={"ma": 2048, "mb": 1024},
    shared=4104,
)

_RING = """
    // full[s] at 8192 + 8 s, empty[s] at 8224 + 8 s
    add.u32 %r6, %r1, 8192;
    add.u32 %r7, %r1, 8224;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra READY;
    mov.u32 %r8, 0;
INIT:
    shl.b32 %r10, %r8, 3;
    add.u32 %r11, %r6, %r10;
    mbarrier.init.shared::cta.b64 [%r11], 1;
    add.u32 %r11, %r7, %r10;
    mbarrier.init.shared::cta.b64 [%r11], {consumers};
    add.u32 %r8, %r8, 1;
    setp.lt.u32 %p1, %r8, {stages};
    @%p1 bra INIT;
    fence.mbarrier_init.release.cluster;
READY:
    bar.sync 0;
"""


def ring(stages: int, consumers: int, consume: str, box: int, warps: int = 4, more: str = "") -> str:
    """A warp that loads, and others that consume, over a ring."""
    return f"""
{_MAP}
{_RING.format(stages=stages, consumers=consumers)}
{more}
    mov.u32 %r12, 0;                    // stage
    mov.u32 %r13, 0;                    // phase
    mov.u32 %r14, 0;                    // tile
    setp.eq.u32 %p2, %r9, 0;
    @%p2 bra END;
    setp.lt.u32 %p3, %r3, {warps};
    @%p3 bra CONSUMER;
    elect.sync _|%p4, 0xffffffff;
LOAD:
    shl.b32 %r15, %r12, 3;
    add.u32 %r16, %r6, %r15;
    add.u32 %r17, %r7, %r15;
    xor.b32 %r18, %r13, 1;
{wait("%r17", "%r18", 1)}
    @%p4 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r16], {box};
    mad.lo.u32 %r19, %r12, {box}, %r1;
{tma("%r19", "%rd10", "%r16", "@%p4")}
    add.u32 %r40, %r40, 64;
    add.u32 %r12, %r12, 1;
    setp.eq.u32 %p5, %r12, {stages};
    @%p5 mov.u32 %r12, 0;
    @%p5 xor.b32 %r13, %r13, 1;
    add.u32 %r14, %r14, 1;
    setp.lt.u32 %p6, %r14, %r9;
    @%p6 bra LOAD;
    bra END;
CONSUMER:
CONSUME:
    shl.b32 %r15, %r12, 3;
    add.u32 %r16, %r6, %r15;
    add.u32 %r17, %r7, %r15;
{wait("%r16", "%r13", 2)}
    mad.lo.u32 %r19, %r12, {box}, %r1;
{consume}
    add.u32 %r12, %r12, 1;
    setp.eq.u32 %p5, %r12, {stages};
    selp.b32 %r12, 0, %r12, %p5;
    selp.u32 %r20, 1, 0, %p5;
    xor.b32 %r13, %r13, %r20;
    add.u32 %r14, %r14, 1;
    setp.lt.u32 %p6, %r14, %r9;
    @%p6 bra CONSUME;
END:
"""


READ = """
    add.u32 %r21, %r19, %r4;
    ld.shared.f32 %f0, [%r21];
    add.f32 %f1, %f1, %f0;
    fence.proxy.async.shared::cta;      // the next copy into the slot is behind this read
    mbarrier.arrive.shared::cta.b64 _, [%r17];
"""
READ_BY_WARPS = """
    add.u32 %r21, %r19, %r4;
    ld.shared.f32 %f0, [%r21];
    add.f32 %f1, %f1, %f0;
    fence.proxy.async.shared::cta;
    bar.warp.sync 0xffffffff;
    setp.eq.u32 %p7, %r2, 0;
    @%p7 mbarrier.arrive.release.cta.shared::cta.b64 %rd20, [%r17];
"""
add("tma_ring_each_thread_arrives", ring(3, 128, READ, 1024), threads=160, boxes={"ma": 1024}, shared=8256)
add("tma_ring_each_warp_arrives", ring(4, 4, READ_BY_WARPS, 2048), threads=160, boxes={"ma": 2048}, shared=8256)

_DESCRIPTOR = """
    // 64 rows of 128 bytes, swizzled by 128: 8 rows are 1024 bytes
    mov.b64 %rd12, 0x4000004000010000;
    shr.u32 %r30, %r19, 4;
    cvt.u64.u32 %rd13, %r30;
    or.b64 %rd14, %rd12, %rd13;
    add.s64 %rd15, %rd14, {b};
"""
_SUMS = "{%f10, %f11, %f12, %f13}"
_PRODUCT = (
    f"    wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {_SUMS}, %rd14, %rd15, 1, 1, 1, 0, 0;\n"
    "    add.s64 %rd14, %rd14, 2;\n    add.s64 %rd15, %rd15, 2;\n"
)
_ZERO = "".join(f"    mov.f32 %f{n}, 0f00000000;\n" for n in range(10, 14))
MULTIPLY = f"""
{_DESCRIPTOR.format(b=512)}
{_ZERO}
    wgmma.fence.sync.aligned;
{_PRODUCT * 4}
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    setp.eq.u32 %p7, %r2, 0;
    @%p7 mbarrier.arrive.shared::cta.b64 _, [%r17];
"""
add(
    "wgmma_ring",
    ring(2, 4, MULTIPLY, 9216).replace("8192", "20480").replace("8224", "20512"),
    threads=160,
    boxes={"ma": 9216},
    shared=20544,
)

LATE = f"""
{_DESCRIPTOR.format(b=512)}
    wgmma.fence.sync.aligned;
{_PRODUCT * 4}
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 1;    // the product before this one is done: its slot is free
    setp.eq.u32 %p7, %r2, 0;
    setp.ne.u32 %p8, %r14, 0;
    and.pred %p7, %p7, %p8;
    @%p7 mbarrier.arrive.shared::cta.b64 _, [%r31];
    mov.u32 %r31, %r17;
"""
add(
    "wgmma_ring_released_late",
    ring(3, 4, LATE, 9216, more="    mov.u32 %r31, %r7;\n" + _ZERO).replace("8192", "28672").replace("8224", "28704")
    + "    wgmma.wait_group.sync.aligned 0;\n",
    threads=160,
    boxes={"ma": 9216},
    shared=28736,
)

add(
    "wgmma_from_plain_stores",
    f"""
    shl.b32 %r6, %r0, 4;
    add.u32 %r6, %r6, %r1;
    mov.u32 %r19, %r1;
    mov.u32 %r14, 0;
{_ZERO}
    setp.eq.u32 %p0, %r9, 0;
    @%p0 bra DONE;
TILE:
    ld.global.v4.u32 {{%r20, %r21, %r22, %r23}}, [%rd8];
    st.shared.v4.u32 [%r6], {{%r20, %r21, %r22, %r23}};
    st.shared.v4.u32 [%r6+2048], {{%r20, %r21, %r22, %r23}};
    st.shared.v4.u32 [%r6+4096], {{%r20, %r21, %r22, %r23}};
    st.shared.v4.u32 [%r6+6144], {{%r20, %r21, %r22, %r23}};
    st.shared.v4.u32 [%r6+8192], {{%r20, %r21, %r22, %r23}};
    fence.proxy.async.shared::cta;
    bar.sync 0;
{_DESCRIPTOR.format(b=512)}
{_ZERO}
    wgmma.fence.sync.aligned;
{_PRODUCT * 4}
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    bar.sync 0;
    add.u32 %r14, %r14, 1;
    setp.lt.u32 %p1, %r14, %r9;
    @%p1 bra TILE;
DONE:
    st.global.v4.f32 [%rd9], {_SUMS};
""",
    shared=10240,
)

add(
    "tma_one_role",
    f"""
{_MAP}
{_RING.format(stages=2, consumers=1)}
    setp.eq.u32 %p2, %r9, 0;
    @%p2 bra END;
    @%p0 bra FIRST;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r6], 2048;
{tma("%r1", "%rd10", "%r6")}
FIRST:
    mov.u32 %r14, 0;
TILE:
    and.b32 %r12, %r14, 1;
    shr.u32 %r13, %r14, 1;
    and.b32 %r13, %r13, 1;
    add.u32 %r15, %r14, 1;
    xor.b32 %r16, %r12, 1;
    setp.ge.u32 %p3, %r15, %r9;
    or.pred %p3, %p3, %p0;
    @%p3 bra LOADED;
    mad.lo.u32 %r17, %r16, 8, %r6;
    mad.lo.u32 %r18, %r16, 2048, %r1;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r17], 2048;
{tma("%r18", "%rd10", "%r17")}
LOADED:
    mad.lo.u32 %r19, %r12, 8, %r6;
{wait("%r19", "%r13", 1)}
    mad.lo.u32 %r20, %r12, 2048, %r5;
    ld.shared.f32 %f0, [%r20];
    add.f32 %f1, %f1, %f0;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    mov.u32 %r14, %r15;
    setp.lt.u32 %p4, %r14, %r9;
    @%p4 bra TILE;
END:
    st.global.f32 [%rd4], %f1;
""",
    boxes={"ma": 2048},
    shared=8256,
)

add(
    "tma_store",
    f"""
{_MAP}
    ld.global.f32 %f0, [%rd3];
    st.shared.f32 [%r5], %f0;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra DONE;
    cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd10, {{%r40, %r41}}], [%r1];
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
DONE:
""",
    boxes={"ma": 512},
)

add(
    "bulk_store_loop",
    """
    setp.eq.u32 %p0, %r0, 0;
    mov.u32 %r6, 0;
    setp.eq.u32 %p1, %r9, 0;
    @%p1 bra DONE;
TILE:
    @%p0 cp.async.bulk.wait_group.read 0;   // the store before has read the buffer
    bar.sync 0;
    st.shared.u32 [%r5], %r6;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 512;
    @%p0 cp.async.bulk.commit_group;
    add.s64 %rd1, %rd1, 512;
    add.u32 %r6, %r6, 1;
    setp.lt.u32 %p2, %r6, %r9;
    @%p2 bra TILE;
    @%p0 cp.async.bulk.wait_group 0;
DONE:
""",
)

add(
    "bulk_reduction",
    """
    setp.eq.u32 %p0, %r0, 0;
    ld.global.f32 %f0, [%rd3];
    st.shared.f32 [%r5], %f0;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @%p0 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%rd1], [%r1], 512;
    @%p0 cp.async.bulk.commit_group;
    @%p0 cp.async.bulk.wait_group.read 0;
""",
)

add(
    "mbarrier_as_a_barrier",
    f"""
    add.u32 %r6, %r1, 1024;
    setp.eq.u32 %p0, %r0, 0;
    @%p0 mbarrier.init.shared.b64 [%r6], 128;
    mov.u32 %r7, 0;
    mov.u32 %r8, 0;
    setp.eq.u32 %p1, %r9, 0;
    bar.sync 0;
    @%p1 bra DONE;
ROUND:
    and.b32 %r10, %r8, 1;
    mad.lo.u32 %r11, %r10, 512, %r5;
    st.shared.u32 [%r11], %r8;
    mbarrier.arrive.shared.b64 %rd20, [%r6];
{wait("%r6", "%r7", 1)}
    xor.b32 %r12, %r11, 128;
    ld.shared.u32 %r13, [%r12];
    xor.b32 %r7, %r7, 1;
    add.u32 %r8, %r8, 1;
    setp.lt.u32 %p2, %r8, %r9;
    @%p2 bra ROUND;
DONE:
""",
)

add(
    "mbarrier_by_tokens",
    """
    add.u32 %r6, %r1, 1024;
    setp.eq.u32 %p0, %r0, 0;
    @%p0 mbarrier.init.shared.b64 [%r6], 128;
    bar.sync 0;
    st.shared.u32 [%r5], %r0;
    mbarrier.arrive.shared.b64 %rd20, [%r6];
SPIN:
    mbarrier.test_wait.shared.b64 %p1, [%r6], %rd20;
    @!%p1 bra SPIN;
    xor.b32 %r7, %r5, 256;
    ld.shared.u32 %r8, [%r7];
    st.global.u32 [%rd4], %r8;
""",
    shared=1032,
)

add(
    "cp_async_into_a_ring",
    f"""
    // warps 0 to 3 copy, warps 4 to 7 read: full of 128 arrivals, empty of 128
    add.u32 %r6, %r1, 8192;
    add.u32 %r7, %r1, 8224;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra READY;
    mbarrier.init.shared::cta.b64 [%r6], 128;
    mbarrier.init.shared::cta.b64 [%r6+8], 128;
    mbarrier.init.shared::cta.b64 [%r7], 128;
    mbarrier.init.shared::cta.b64 [%r7+8], 128;
READY:
    bar.sync 0;
    mov.u32 %r12, 0;
    mov.u32 %r13, 0;
    mov.u32 %r14, 0;
    setp.eq.u32 %p2, %r9, 0;
    @%p2 bra END;
    setp.ge.u32 %p3, %r0, 128;
    and.b32 %r30, %r0, 127;
    shl.b32 %r31, %r30, 4;
    mul.wide.u32 %rd5, %r30, 16;
    add.s64 %rd5, %rd5, %rd0;
    @%p3 bra READ;
COPY:
    mad.lo.u32 %r16, %r12, 8, %r6;
    mad.lo.u32 %r17, %r12, 8, %r7;
    xor.b32 %r18, %r13, 1;
{wait("%r17", "%r18", 1)}
    mad.lo.u32 %r19, %r12, 2048, %r1;
    add.u32 %r19, %r19, %r31;
    cp.async.cg.shared.global [%r19], [%rd5], 16;
    cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r16];
    add.s64 %rd5, %rd5, 2048;
    xor.b32 %r12, %r12, 1;
    setp.eq.u32 %p5, %r12, 0;
    @%p5 xor.b32 %r13, %r13, 1;
    add.u32 %r14, %r14, 1;
    setp.lt.u32 %p6, %r14, %r9;
    @%p6 bra COPY;
    cp.async.wait_all;
    bra END;
READ:
    mad.lo.u32 %r16, %r12, 8, %r6;
    mad.lo.u32 %r17, %r12, 8, %r7;
{wait("%r16", "%r13", 2)}
    mad.lo.u32 %r19, %r12, 2048, %r1;
    add.u32 %r19, %r19, %r31;
    xor.b32 %r19, %r19, 512;
    ld.shared.v4.f32 {{%f0, %f1, %f2, %f3}}, [%r19];
    mbarrier.arrive.shared::cta.b64 _, [%r17];
    xor.b32 %r12, %r12, 1;
    setp.eq.u32 %p5, %r12, 0;
    @%p5 xor.b32 %r13, %r13, 1;
    add.u32 %r14, %r14, 1;
    setp.lt.u32 %p6, %r14, %r9;
    @%p6 bra READ;
END:
""",
    threads=256,
    shared=8256,
)

add(
    "st_async",
    f"""
    add.u32 %r6, %r1, 1024;
    setp.eq.u32 %p0, %r0, 0;
    @!%p0 bra READY;
    mbarrier.init.shared::cta.b64 [%r6], 1;
    fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r6], 512;
READY:
    bar.sync 0;
    st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r5], %r0, [%r6];
{wait("%r6", "0", 1)}
    xor.b32 %r11, %r5, 64;
    ld.shared.u32 %r12, [%r11];
    st.global.u32 [%rd4], %r12;
""",
    shared=1032,
)

add(
    "epilogue_reuses_a_stage",
    ring(2, 4, READ_BY_WARPS, 2048)
    + """
    bar.sync 0;                         // the loop is over for all
    st.shared.f32 [%r5], %f1;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    setp.ne.u32 %p10, %r0, 0;
    @%p10 bra FINISHED;
    cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd11, {%r40, %r41}], [%r1];
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group.read 0;
FINISHED:
""",
    threads=160,
    boxes={"ma": 2048, "mb": 512},
    shared=8256,
)
