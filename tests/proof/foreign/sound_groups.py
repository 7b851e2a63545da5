"""More programs by hand (see sound.py): named barriers, and groups of cp.async."""

from __future__ import annotations

from tests.proof.foreign.sound import add

# -- named barriers, roles of warps

add(
    "named_barriers",
    """
    setp.ge.u32 %p0, %r0, 64;
    mov.u32 %r6, 0;
    setp.eq.u32 %p1, %r9, 0;
    @%p1 bra DONE;
    @%p0 bra CONSUMER;
PRODUCE:
    bar.sync 2, 128;                    // free
    st.shared.u32 [%r5], %r6;
    bar.arrive 1, 128;                  // full
    add.u32 %r6, %r6, 1;
    setp.lt.u32 %p2, %r6, %r9;
    @%p2 bra PRODUCE;
    bar.sync 2, 128;
    bra DONE;
CONSUMER:
    bar.arrive 2, 128;
CONSUME:
    bar.sync 1, 128;
    ld.shared.u32 %r7, [%r5+-256];
    st.global.u32 [%rd4], %r7;
    bar.arrive 2, 128;
    add.u32 %r6, %r6, 1;
    setp.lt.u32 %p3, %r6, %r9;
    @%p3 bra CONSUME;
DONE:
""",
)

add(
    "turns_of_two_groups",
    """
    shr.u32 %r6, %r0, 6;                // group 0 or 1
    add.u32 %r7, %r6, 1;                // the barrier of its turn
    sub.u32 %r8, 2, %r6;                // of the other's
    setp.eq.u32 %p0, %r6, 0;
    @%p0 bra BEGIN;
    bar.arrive 1, 128;                  // the first turn is group 0's
BEGIN:
    mov.u32 %r10, %r9;
    setp.eq.u32 %p1, %r10, 0;
    @%p1 bra REST;
TURN:
    bar.sync %r7, 128;
    and.b32 %r11, %r4, 255;
    add.u32 %r11, %r11, %r1;
    st.shared.u32 [%r11], %r0;
    bar.arrive %r8, 128;
    add.s32 %r10, %r10, -1;
    setp.ne.s32 %p2, %r10, 0;
    @%p2 bra TURN;
REST:
    setp.ne.u32 %p3, %r6, 0;
    @%p3 bra DONE;
    bar.sync 1, 128;
DONE:
""",
)

# -- cp.async

add(
    "cp_async_once",
    """
    cp.async.ca.shared.global [%r5], [%rd3], 4;
    cp.async.wait_all;
    bar.sync 0;
    xor.b32 %r6, %r5, 256;
    ld.shared.f32 %f0, [%r6];
    st.global.f32 [%rd4], %f0;
""",
)

_CP16 = """
    shl.b32 %r6, %r0, 4;
    add.u32 %r6, %r6, %r1;              // 16 bytes of each thread in slot 0
    mul.wide.u32 %rd5, %r0, 16;
    add.s64 %rd5, %rd5, %rd0;
"""

add(
    "cp_async_two_stages",
    f"""
{_CP16}
    setp.lt.s32 %p0, %r9, 1;
    @%p0 bra DONE;
    mov.u32 %r7, 0;                     // slot to read
    cp.async.cg.shared.global [%r6], [%rd5], 16;
    cp.async.commit_group;
    mov.u32 %r8, 0;
TILE:
    add.s32 %r10, %r8, 1;
    setp.ge.s32 %p1, %r10, %r9;
    xor.b32 %r11, %r7, 2048;
    add.u32 %r12, %r6, %r11;
    add.s64 %rd5, %rd5, 2048;
    @%p1 bra LAST;
    cp.async.cg.shared.global [%r12], [%rd5], 16;
LAST:
    cp.async.commit_group;
    cp.async.wait_group 1;
    bar.sync 0;
    xor.b32 %r13, %r6, 512;
    add.u32 %r13, %r13, %r7;
    ld.shared.v4.f32 {{%f0, %f1, %f2, %f3}}, [%r13];
    add.f32 %f4, %f4, %f0;
    bar.sync 0;
    mov.u32 %r7, %r11;
    mov.u32 %r8, %r10;
    setp.lt.s32 %p2, %r8, %r9;
    @%p2 bra TILE;
DONE:
    st.global.f32 [%rd4], %f4;
""",
)

add(
    "cp_async_three_stages",
    f"""
{_CP16}
    setp.lt.s32 %p0, %r9, 1;
    @%p0 bra DONE;
    cp.async.cg.shared.global [%r6], [%rd5], 16, 16;
    cp.async.commit_group;
    setp.gt.s32 %p1, %r9, 1;
    selp.b32 %r20, 16, 0, %p1;
    cp.async.cg.shared.global [%r6+2048], [%rd5+2048], 16, %r20;
    cp.async.commit_group;
    mov.u32 %r7, 0;                     // slot to read
    mov.u32 %r10, 2;                    // slot to fill
    mov.u32 %r8, 0;
TILE:
    cp.async.wait_group 1;
    bar.sync 0;
    add.s32 %r14, %r8, 2;
    setp.lt.s32 %p3, %r14, %r9;
    selp.b32 %r20, 16, 0, %p3;          // beyond the end zeros are filled in
    mad.lo.u32 %r11, %r10, 2048, %r6;
    add.s64 %rd5, %rd5, 2048;
    cp.async.cg.shared.global [%r11], [%rd5+2048], 16, %r20;
    cp.async.commit_group;
    mad.lo.u32 %r12, %r7, 2048, %r1;
    xor.b32 %r13, %r0, 64;
    mad.lo.u32 %r12, %r13, 16, %r12;
    ld.shared.v4.f32 {{%f0, %f1, %f2, %f3}}, [%r12];
    add.f32 %f4, %f4, %f0;
    add.u32 %r7, %r7, 1;
    setp.eq.u32 %p4, %r7, 3;
    selp.b32 %r7, 0, %r7, %p4;
    add.u32 %r10, %r10, 1;
    setp.eq.u32 %p4, %r10, 3;
    selp.b32 %r10, 0, %r10, %p4;
    add.s32 %r8, %r8, 1;
    setp.lt.s32 %p2, %r8, %r9;
    @%p2 bra TILE;
    cp.async.wait_all;
DONE:
    st.global.f32 [%rd4], %f4;
""",
    shared=6144,
)

add(
    "mma_tile",
    f"""
{_CP16}
    cp.async.cg.shared.global [%r6], [%rd5], 16;
    cp.async.cg.shared.global [%r6+2048], [%rd5+2048], 16;
    cp.async.commit_group;
    cp.async.wait_group 0;
    bar.sync 0;
    and.b32 %r7, %r0, 15;
    shl.b32 %r7, %r7, 6;
    shr.u32 %r8, %r2, 4;
    shl.b32 %r8, %r8, 4;
    add.u32 %r7, %r7, %r8;
    add.u32 %r7, %r7, %r1;
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r10, %r11, %r12, %r13}}, [%r7];
    ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {{%r14, %r15}}, [%r7+2048];
    mov.f32 %f0, 0f00000000;
    mov.f32 %f3, 0f00000000;
    mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {{%f0, %f1, %f2, %f3}}, {{%r10, %r11, %r12, %r13}},
        {{%r14, %r15}}, {{%f0, %f1, %f2, %f3}};
    st.global.v4.f32 [%rd9], {{%f0, %f1, %f2, %f3}};
""",
)
