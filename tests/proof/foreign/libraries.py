"""PTX programs by hand in the forms of kernel libraries, mostly with all warps alike, each with one broken variant.
They are written from the libraries' documented structure; none of their code is copied.
"""

from __future__ import annotations

from tests.proof.foreign.library_forms import Program

ALIKE = {
    # CUTLASS for sm_80: multistage by cp.async, indices of the pipe that are read and written, ldmatrix and mma.
    "cutlass_multistage": Program(
        """
    shl.b32 %r6, %r0, 4;
    add.u32 %r10, %r1, %r6;
    mov.u64 %rd12, %rd8;
    CPASYNC %r10, %rd12;
    cp.async.commit_group;
    add.s64 %rd12, %rd12, 4096;
    add.u32 %r11, %r10, 2048;
    CPASYNC %r11, %rd12;
    cp.async.commit_group;
    add.s64 %rd12, %rd12, 4096;
    cp.async.wait_group 1;
    bar.sync 0;
    mov.u32 %r20, 0;                   // pipe read
    mov.u32 %r21, 2;                   // pipe write
    mov.u32 %r22, %r9;
    and.b32 %r7, %r0, 15;
    shl.b32 %r7, %r7, 5;
    shr.u32 %r8, %r2, 4;
    shl.b32 %r8, %r8, 4;
    add.u32 %r7, %r7, %r8;
    shl.b32 %r8, %r3, 8;
    and.b32 %r8, %r8, 256;
    add.u32 %r7, %r7, %r8;
    add.u32 %r7, %r7, %r1;
    setp.lt.s32 %p1, %r22, -1;
    @%p1 bra DONE1;
LOOP:
    shl.b32 %r12, %r20, 11;
    add.u32 %r13, %r7, %r12;
    LDMX4 %r13;
    LDMX2T %r13+1024;
    shl.b32 %r14, %r21, 11;
    add.u32 %r15, %r10, %r14;
    setp.gt.s32 %p2, %r22, 2;
    selp.b32 %r16, 16, 0, %p2;
    cp.async.cg.shared.global [%r15], [%rd12], 16, %r16;
    cp.async.commit_group;
    add.s64 %rd12, %rd12, 4096;
    mov.u32 %r21, %r20;
    add.s32 %r20, %r20, 1;
    setp.eq.s32 %p3, %r20, 3;
    selp.b32 %r20, 0, %r20, %p3;
    MMA;
    cp.async.wait_group 1;
    bar.sync 0;
    add.s32 %r22, %r22, -1;
    setp.gt.s32 %p4, %r22, 0;
    @%p4 bra LOOP;
DONE1:
    cp.async.wait_group 0;
    bar.sync 0;
    st.shared.f32 [%r5], %f10;
    bar.sync 0;
    ld.shared.f32 %f20, [%r5+4];
    st.global.f32 [%rd4], %f20;
""",
        128,
        6144,
        "    MMA;\n    cp.async.wait_group 1;",
        "    MMA;\n    cp.async.wait_group 2;",
    ),
    # A row's softmax: by warp, then by the first warp, which tells all through shared memory; several rows.
    "softmax_rows": Program(
        """
    mov.u32 %r20, %ctaid.x;
    mov.u32 %r21, %nctaid.x;
    setp.ge.s32 %p1, %r20, %r9;
    @%p1 bra END;
    shl.b32 %r10, %r3, 2;
    add.u32 %r10, %r1, %r10;
    shl.b32 %r11, %r2, 2;
    add.u32 %r11, %r1, %r11;
    setp.eq.s32 %p2, %r2, 0;
    setp.ne.s32 %p3, %r3, 0;
    setp.lt.u32 %p4, %r2, 8;
ROW:
    mul.wide.s32 %rd12, %r20, 1024;
    add.s64 %rd13, %rd3, %rd12;
    ld.global.nc.f32 %f10, [%rd13];
    mov.f32 %f11, %f10;
    SHFLMAX %f11, 16;
    SHFLMAX %f11, 8;
    SHFLMAX %f11, 4;
    SHFLMAX %f11, 2;
    SHFLMAX %f11, 1;
    @%p2 st.shared.f32 [%r10], %f11;
    bar.sync 0;
    @%p3 bra MAXED;
    mov.f32 %f12, 0fFF800000;
    @%p4 ld.shared.f32 %f12, [%r11];
    SHFLMAX %f12, 4;
    SHFLMAX %f12, 2;
    SHFLMAX %f12, 1;
    @%p2 st.shared.f32 [%r1+32], %f12;
MAXED:
    bar.sync 0;
    ld.shared.f32 %f13, [%r1+32];
    sub.f32 %f10, %f10, %f13;
    ex2.approx.ftz.f32 %f10, %f10;
    mov.f32 %f11, %f10;
    SHFLADD %f11, 16;
    SHFLADD %f11, 8;
    SHFLADD %f11, 4;
    SHFLADD %f11, 2;
    SHFLADD %f11, 1;
    @%p2 st.shared.f32 [%r10], %f11;
    bar.sync 0;
    @%p3 bra SUMMED;
    mov.f32 %f12, 0f00000000;
    @%p4 ld.shared.f32 %f12, [%r11];
    SHFLADD %f12, 4;
    SHFLADD %f12, 2;
    SHFLADD %f12, 1;
    @%p2 st.shared.f32 [%r1+36], %f12;
SUMMED:
    bar.sync 0;
    ld.shared.f32 %f13, [%r1+36];
    div.approx.ftz.f32 %f10, %f10, %f13;
    add.s64 %rd13, %rd4, %rd12;
    st.global.f32 [%rd13], %f10;
    add.s32 %r20, %r20, %r21;
    setp.lt.s32 %p5, %r20, %r9;
    @%p5 bra ROW;
END:
""",
        256,
        64,
        "SUMMED:\n    bar.sync 0;",
        "SUMMED:",
    ),
    # FlashAttention-2: K and V by cp.async, one buffer each; V comes while the scores are computed, K while V is used.
    "fa2": Program(
        """
    shl.b32 %r6, %r0, 4;
    add.u32 %r10, %r1, %r6;            // Q
    add.u32 %r11, %r10, 2048;          // K
    add.u32 %r12, %r10, 4096;          // V
    and.b32 %r7, %r2, 15;
    shl.b32 %r7, %r7, 5;
    shr.u32 %r8, %r2, 4;
    shl.b32 %r8, %r8, 4;
    or.b32 %r7, %r7, %r8;
    shl.b32 %r8, %r3, 9;
    add.u32 %r8, %r8, %r7;
    add.u32 %r13, %r1, %r8;            // Q of this warp
    add.u32 %r14, %r1, %r7;
    add.u32 %r14, %r14, 2048;
    add.u32 %r15, %r14, 2048;
    CPASYNC %r10, %rd8;
    add.s64 %rd12, %rd8, 2048;
    add.s32 %r20, %r9, -1;
    mad.wide.s32 %rd13, %r20, 4096, %rd12;
    CPASYNC %r11, %rd13;
    cp.async.commit_group;
    setp.lt.s32 %p1, %r20, 0;
    @%p1 bra END;
LOOP:
    cp.async.wait_group 0;
    bar.sync 0;
    CPASYNC %r12, %rd13;
    cp.async.commit_group;
    LDMX4 %r13;
    LDMX2T %r14;
    MMA;
    max.f32 %f20, %f10, %f11;
    SHFLMAX %f20, 2;
    SHFLMAX %f20, 1;
    cp.async.wait_group 0;
    bar.sync 0;
    setp.lt.s32 %p2, %r20, 1;
    @%p2 bra NOK;
    add.s64 %rd13, %rd13, -4096;
    CPASYNC %r11, %rd13;
    cp.async.commit_group;
NOK:
    cvt.rn.bf16x2.f32 %r60, %f10, %f20;
    LDMX2T %r15;
    MMA;
    add.s32 %r20, %r20, -1;
    setp.gt.s32 %p3, %r20, -1;
    @%p3 bra LOOP;
    bar.sync 0;
    shl.b32 %r21, %r2, 2;
    add.u32 %r22, %r8, %r1;
    shl.b32 %r23, %r3, 9;
    add.u32 %r23, %r23, %r1;
    add.u32 %r23, %r23, %r21;
    st.shared.f32 [%r23], %f10;
    bar.sync 0;
    add.u32 %r24, %r1, %r21;
    ld.shared.f32 %f30, [%r24];
    st.global.f32 [%rd4], %f30;
END:
    cp.async.wait_group 0;
""",
        128,
        6144,
        "NOK:\n    cvt",
        "    cp.async.wait_group 0;\nNOK:\n    CPASYNC %r12, %rd13;\n    cp.async.commit_group;\n    cvt",
    ),
    # Epilogue: stmatrix to one of two buffers, a fence, a named barrier of the warpgroup, a store by TMA.
    "store_epilogue": Program(
        """
    MAPS;
    and.b32 %r6, %r0, 31;
    shl.b32 %r6, %r6, 4;
    shl.b32 %r7, %r3, 9;
    add.u32 %r6, %r6, %r7;
    add.u32 %r6, %r6, %r1;
    mov.u32 %r20, 0;
    setp.ne.s32 %p2, %r3, 0;
    setp.eq.s32 %p1, %r9, 0;
    @%p1 bra END;
LOOP:
    and.b32 %r21, %r20, 1;
    shl.b32 %r21, %r21, 11;
    @%p2 bra FREE;
    elect.sync _|%p3, -1;
    @%p3 cp.async.bulk.wait_group.read 1;
FREE:
    bar.sync 1, 128;
    cvt.rn.bf16x2.f32 %r60, %f1, %f2;
    add.u32 %r22, %r6, %r21;
    stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r22], {%r60, %r60, %r60, %r60};
    fence.proxy.async.shared::cta;
    bar.sync 1, 128;
    @%p2 bra STORED;
    elect.sync _|%p3, -1;
    @!%p3 bra STORED;
    add.u32 %r23, %r1, %r21;
    shl.b32 %r24, %r20, 6;
    TMASTORE %r23, %rd10, %r24, 0;
    cp.async.bulk.commit_group;
STORED:
    add.s32 %r20, %r20, 1;
    setp.ne.s32 %p4, %r20, %r9;
    @%p4 bra LOOP;
END:
    @%p2 bra OUT;
    cp.async.bulk.wait_group.read 0;
OUT:
""",
        128,
        4096,
        "wait_group.read 1;",
        "wait_group.read 2;",
        {"ma": 2048},
    ),
    # A pipeline of named barriers, arrived at and waited for apart: full 1, 2; empty 3, 4.
    "split_barriers": Program(
        """
    mov.u32 %r20, 0;
    setp.lt.s32 %p1, %r9, 1;
    @%p1 bra END;
    setp.lt.u32 %p2, %r0, 128;
    @%p2 bra CONSUMER;
    add.u32 %r6, %r5, -512;
PLOOP:
    and.b32 %r21, %r20, 1;
    add.s32 %r22, %r21, 3;
    setp.lt.s32 %p3, %r20, 2;
    @%p3 bra FREE;
    barrier.cta.sync %r22, 256;
FREE:
    shl.b32 %r23, %r21, 9;
    add.u32 %r23, %r23, %r6;
    mul.wide.s32 %rd12, %r20, 512;
    add.s64 %rd12, %rd12, %rd3;
    ld.global.f32 %f10, [%rd12];
    st.shared.f32 [%r23], %f10;
    add.s32 %r24, %r21, 1;
    barrier.cta.arrive %r24, 256;
    add.s32 %r20, %r20, 1;
    setp.lt.s32 %p4, %r20, %r9;
    @%p4 bra PLOOP;
    bra.uni END;
CONSUMER:
    xor.b32 %r30, %r4, 508;
    add.u32 %r30, %r1, %r30;
CLOOP:
    and.b32 %r21, %r20, 1;
    add.s32 %r24, %r21, 1;
    barrier.cta.sync %r24, 256;
    shl.b32 %r23, %r21, 9;
    add.u32 %r23, %r23, %r30;
    ld.shared.f32 %f10, [%r23];
    add.f32 %f11, %f11, %f10;
    add.s32 %r25, %r20, 2;
    setp.ge.s32 %p5, %r25, %r9;
    @%p5 bra NOT;
    add.s32 %r22, %r21, 3;
    barrier.cta.arrive %r22, 256;
NOT:
    add.s32 %r20, %r20, 1;
    setp.lt.s32 %p4, %r20, %r9;
    @%p4 bra CLOOP;
    st.global.f32 [%rd4], %f11;
END:
""",
        256,
        1024,
        "setp.lt.s32 %p3, %r20, 2;",
        "setp.lt.s32 %p3, %r20, 3;",
    ),
    # PipelineAsync: producers copy by cp.async, which arrives at the full barrier when it is done.
    "cpasync_mbarrier": Program(
        """
    add.u32 %r10, %r1, 6144;
    add.u32 %r11, %r1, 6176;
    setp.ne.s32 %p1, %r0, 0;
    @%p1 bra INITED;
    INIT %r10, 128;
    INIT %r10+8, 128;
    INIT %r10+16, 128;
    INIT %r11, 128;
    INIT %r11+8, 128;
    INIT %r11+16, 128;
INITED:
    bar.sync 0;
    mov.u32 %r20, 0;
    mov.u32 %r23, 0;
    setp.lt.s32 %p2, %r9, 1;
    @%p2 bra END;
    setp.ge.u32 %p3, %r0, 128;
    @%p3 bra CONSUMER;
    mov.u32 %r21, 1;
    shl.b32 %r6, %r0, 4;
    add.u32 %r6, %r6, %r1;
    mov.u64 %rd12, %rd8;
PLOOP:
    shl.b32 %r25, %r20, 3;
    add.u32 %r26, %r11, %r25;
    WAIT %r26, %r21;
    shl.b32 %r28, %r20, 11;
    add.u32 %r28, %r6, %r28;
    CPASYNC %r28, %rd12;
    add.u32 %r27, %r10, %r25;
    cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r27];
    add.s64 %rd12, %rd12, 2048;
    ADVANCE %r20, %r21, 3;
    add.s32 %r23, %r23, 1;
    setp.lt.s32 %p7, %r23, %r9;
    @%p7 bra PLOOP;
    cp.async.wait_all;
    bra.uni END;
CONSUMER:
    mov.u32 %r21, 0;
    xor.b32 %r30, %r4, 508;
    and.b32 %r30, %r30, 508;
    add.u32 %r30, %r30, %r1;
CLOOP:
    shl.b32 %r25, %r20, 3;
    add.u32 %r26, %r10, %r25;
    WAIT %r26, %r21;
    shl.b32 %r28, %r20, 11;
    add.u32 %r28, %r30, %r28;
    ld.shared.f32 %f10, [%r28];
    add.f32 %f11, %f11, %f10;
    add.u32 %r27, %r11, %r25;
    ARRIVE %r27;
    ADVANCE %r20, %r21, 3;
    add.s32 %r23, %r23, 1;
    setp.lt.s32 %p7, %r23, %r9;
    @%p7 bra CLOOP;
    st.global.f32 [%rd4], %f11;
END:
""",
        256,
        6272,
        "ld.shared.f32 %f10, [%r28];\n    add.f32 %f11, %f11, %f10;\n    add.u32 %r27, %r11, %r25;\n    ARRIVE %r27;",
        "add.u32 %r27, %r11, %r25;\n    ARRIVE %r27;\n    ld.shared.f32 %f10, [%r28];\n    add.f32 %f11, %f11, %f10;",
    ),
    # Double buffer by bulk copies, in the CUDA guide's form: all wait, work in place, store; one thread refills.
    "bulk_in_place": Program(
        """
    add.u32 %r10, %r1, 1024;
    setp.ne.s32 %p1, %r0, 0;
    @%p1 bra INITED;
    INIT %r10, 1;
    INIT %r10+8, 1;
    fence.mbarrier_init.release.cluster;
INITED:
    bar.sync 0;
    setp.lt.s32 %p2, %r9, 1;
    @%p2 bra END;
    mov.u64 %rd12, %rd0;
    mov.u64 %rd13, %rd1;
    mov.u32 %r20, 0;
    @%p1 bra LOOP;
    EXPECT %r10, 512;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd12], 512, [%r10];
LOOP:
    and.b32 %r21, %r20, 1;
    @%p1 bra COMPUTE;
    add.s32 %r22, %r20, 1;
    setp.ge.s32 %p3, %r22, %r9;
    @%p3 bra COMPUTE;
    cp.async.bulk.wait_group.read 0;
    xor.b32 %r23, %r21, 1;
    shl.b32 %r24, %r23, 9;
    add.u32 %r24, %r24, %r1;
    shl.b32 %r25, %r23, 3;
    add.u32 %r25, %r25, %r10;
    add.s64 %rd12, %rd12, 512;
    EXPECT %r25, 512;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r24], [%rd12], 512, [%r25];
COMPUTE:
    shl.b32 %r25, %r21, 3;
    add.u32 %r25, %r25, %r10;
    shr.u32 %r26, %r20, 1;
    and.b32 %r26, %r26, 1;
    WAIT %r25, %r26;
    shl.b32 %r24, %r21, 9;
    add.u32 %r27, %r24, %r5;
    ld.shared.f32 %f10, [%r27];
    add.f32 %f10, %f10, %f10;
    st.shared.f32 [%r27], %f10;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @%p1 bra NEXT;
    add.u32 %r24, %r24, %r1;
    cp.async.bulk.global.shared::cta.bulk_group [%rd13], [%r24], 512;
    cp.async.bulk.commit_group;
    add.s64 %rd13, %rd13, 512;
NEXT:
    add.s32 %r20, %r20, 1;
    setp.ne.s32 %p4, %r20, %r9;
    @%p4 bra LOOP;
    @%p1 bra END;
    cp.async.bulk.wait_group.read 0;
END:
""",
        128,
        1088,
        "    cp.async.bulk.wait_group.read 0;\n    xor",
        "    xor",
    ),
    # Arrive and wait apart, by token, with work between (cuda::barrier's arrive and wait as PTX has them).
    "token_halves": Program(
        """
    add.u32 %r10, %r1, 1024;
    setp.ne.s32 %p1, %r0, 0;
    @%p1 bra INITED;
    INIT %r10, 128;
    INIT %r10+8, 128;
INITED:
    bar.sync 0;
    setp.lt.s32 %p2, %r9, 1;
    @%p2 bra END;
    mov.u32 %r20, 0;
    xor.b32 %r6, %r4, 508;
    add.u32 %r6, %r6, %r1;
    add.u32 %r11, %r10, 8;
LOOP:
    mul.wide.s32 %rd12, %r20, 512;
    add.s64 %rd13, %rd12, %rd3;
    ld.global.f32 %f10, [%rd13];
    st.shared.f32 [%r5], %f10;
    mbarrier.arrive.shared::cta.b64 %rd14, [%r10];
    mul.f32 %f11, %f10, %f10;
    {
    .reg .pred Q;
AGAIN:
    mbarrier.try_wait.shared::cta.b64 Q, [%r10], %rd14;
    @!Q bra AGAIN;
    }
    ld.shared.f32 %f12, [%r6];
    mbarrier.arrive.shared::cta.b64 %rd15, [%r11];
    add.f32 %f12, %f12, %f11;
    add.s64 %rd13, %rd12, %rd4;
    st.global.f32 [%rd13], %f12;
    {
    .reg .pred Q;
AGAIN:
    mbarrier.test_wait.shared::cta.b64 Q, [%r11], %rd15;
    @!Q bra AGAIN;
    }
    add.s32 %r20, %r20, 1;
    setp.lt.s32 %p4, %r20, %r9;
    @%p4 bra LOOP;
END:
""",
        128,
        1088,
        "test_wait.shared::cta.b64 Q, [%r11], %rd15",
        "test_wait.shared::cta.b64 Q, [%r10], %rd14",
    ),
    # CUTLASS: prologue of at most 3 stages as a loop (min); one thread fills the ring, all compute.
    "prologue_min": Program(
        """
    MAPS;
    add.u32 %r10, %r1, 8192;
    setp.ne.s32 %p1, %r0, 0;
    @%p1 bra INITED;
    INIT %r10, 1;
    INIT %r10+8, 1;
    INIT %r10+16, 1;
    INIT %r10+24, 1;
    fence.mbarrier_init.release.cluster;
INITED:
    bar.sync 0;
    mov.u32 %r30, 0;
    @%p1 bra STARTED;
    min.s32 %r31, %r9, 3;
    setp.lt.s32 %p2, %r31, 1;
    @%p2 bra STARTED;
PRO:
    shl.b32 %r25, %r30, 3;
    add.u32 %r25, %r25, %r10;
    EXPECT %r25, 2048;
    shl.b32 %r26, %r30, 11;
    add.u32 %r26, %r26, %r1;
    shl.b32 %r27, %r30, 4;
    TMA %r26, %rd10, %r27, 0, %r25;
    add.s32 %r30, %r30, 1;
    setp.lt.s32 %p3, %r30, %r31;
    @%p3 bra PRO;
STARTED:
    setp.lt.s32 %p2, %r9, 1;
    @%p2 bra END;
    mov.u32 %r20, 0;
    mov.u32 %r21, 0;
    mov.u32 %r22, 0;                   // round
    xor.b32 %r6, %r4, 508;
    add.u32 %r6, %r6, %r1;
LOOP:
    shl.b32 %r25, %r20, 3;
    add.u32 %r25, %r25, %r10;
    WAIT %r25, %r21;
    shl.b32 %r26, %r20, 11;
    add.u32 %r26, %r26, %r6;
    ld.shared.f32 %f10, [%r26];
    add.f32 %f11, %f11, %f10;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @%p1 bra NEXT;
    add.s32 %r30, %r22, 3;
    setp.ge.s32 %p3, %r30, %r9;
    @%p3 bra NEXT;
    and.b32 %r31, %r30, 3;
    shl.b32 %r32, %r31, 3;
    add.u32 %r32, %r32, %r10;
    EXPECT %r32, 2048;
    shl.b32 %r33, %r31, 11;
    add.u32 %r33, %r33, %r1;
    shl.b32 %r34, %r30, 4;
    TMA %r33, %rd10, %r34, 0, %r32;
NEXT:
    ADVANCE %r20, %r21, 4;
    add.s32 %r22, %r22, 1;
    setp.lt.s32 %p4, %r22, %r9;
    @%p4 bra LOOP;
    st.global.f32 [%rd4], %f11;
END:
""",
        128,
        8256,
        "bar.sync 0;\n    @%p1 bra NEXT;\n    add.s32 %r30, %r22, 3;",
        "@%p1 bra NEXT;\n    add.s32 %r30, %r22, 4;",
        {"ma": 2048},
    ),
}
