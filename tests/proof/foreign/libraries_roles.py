"""PTX programs by hand in the forms of kernel libraries (CUTLASS, DeepGEMM, ThunderKittens, FlashAttention-3), whose
warps have roles, each with one broken variant. They are written from the libraries' documented structure; none of
their code is copied.
"""

from __future__ import annotations

from tests.proof.foreign.library_forms import Program

ROLES = {
    # CUTLASS: mainloop with a producer warpgroup, 4 stages, the state of a pipeline as index and phase; a stage is
    # released one product late.
    "cutlass_ws_gemm": Program(
        """
    MAPS;
    add.u32 %r10, %r1, 16384;          // full
    add.u32 %r11, %r1, 16448;          // empty
    setp.ne.s32 %p1, %r3, 0;
    @%p1 bra INITED;
    elect.sync _|%p2, -1;
    @!%p2 bra INITED;
    INIT %r10, 1;
    INIT %r10+8, 1;
    INIT %r10+16, 1;
    INIT %r10+24, 1;
    INIT %r11, 4;
    INIT %r11+8, 4;
    INIT %r11+16, 4;
    INIT %r11+24, 4;
    fence.mbarrier_init.release.cluster;
INITED:
    bar.sync 0;
    mov.u32 %r20, 0;                   // index
    shr.u32 %r22, %r0, 7;
    setp.ne.u32 %p3, %r22, 0;
    @%p3 bra CONSUMER;
    setmaxnreg.dec.sync.aligned.u32 40;
    setp.ne.s32 %p4, %r3, 0;
    @%p4 bra END;
    elect.sync _|%p5, -1;
    @!%p5 bra END;
    mov.u32 %r21, 1;                   // phase of a producer
    setp.lt.s32 %p6, %r9, 1;
    @%p6 bra END;
    mov.u32 %r23, %r9;
    mov.u32 %r24, 0;
PLOOP:
    shl.b32 %r25, %r20, 3;
    add.u32 %r26, %r11, %r25;
    WAIT %r26, %r21;
    add.u32 %r27, %r10, %r25;
    EXPECT %r27, 2304;
    shl.b32 %r28, %r20, 12;
    add.u32 %r28, %r1, %r28;
    add.u32 %r29, %r28, 2048;
    TMA %r28, %rd10, %r24, 0, %r27;
    TMA %r29, %rd11, %r24, 0, %r27;
    add.s32 %r24, %r24, 16;
    ADVANCE %r20, %r21, 4;
    add.s32 %r23, %r23, -1;
    setp.gt.s32 %p7, %r23, 0;
    @%p7 bra PLOOP;
    bra.uni END;
CONSUMER:
    setmaxnreg.inc.sync.aligned.u32 232;
    mov.u32 %r21, 0;
    mov.u32 %r30, 0;                   // index of the release
    setp.lt.s32 %p6, %r9, 1;
    @%p6 bra STORE;
    setp.eq.s32 %p9, %r2, 0;
    WAIT %r10, 0;
    GFENCE;
    DESC %rd12, %r1;
    add.u32 %r29, %r1, 2048;
    DESC %rd13, %r29;
    WGMMA %rd12, %rd13;
    GCOMMIT;
    ADVANCE %r20, %r21, 4;
    add.s32 %r23, %r9, -1;
    setp.lt.s32 %p6, %r23, 1;
    @%p6 bra TAIL;
CLOOP:
    shl.b32 %r25, %r20, 3;
    add.u32 %r26, %r10, %r25;
    WAIT %r26, %r21;
    GFENCE;
    shl.b32 %r28, %r20, 12;
    add.u32 %r28, %r1, %r28;
    DESC %rd12, %r28;
    add.u32 %r29, %r28, 2048;
    DESC %rd13, %r29;
    WGMMA %rd12, %rd13;
    GCOMMIT;
    GWAIT 1;
    shl.b32 %r31, %r30, 3;
    add.u32 %r31, %r11, %r31;
    @%p9 ARRIVE %r31;
    add.s32 %r30, %r30, 1;
    setp.eq.s32 %p8, %r30, 4;
    selp.b32 %r30, 0, %r30, %p8;
    ADVANCE %r20, %r21, 4;
    add.s32 %r23, %r23, -1;
    setp.gt.s32 %p7, %r23, 0;
    @%p7 bra CLOOP;
TAIL:
    GWAIT 0;
STORE:
    st.global.f32 [%rd4], %f10;
END:
""",
        256,
        16512,
        "GWAIT 1",
        "GWAIT 2",
        {"ma": 2048, "mb": 256},
    ),
    # DeepGEMM: the stages of a round are unrolled; parity by the number of the round; two warpgroups that multiply.
    "deepgemm_unrolled": Program(
        """
    MAPS;
    add.u32 %r10, %r1, 16384;          // full
    add.u32 %r11, %r1, 16416;          // empty
    setp.ne.s32 %p1, %r0, 256;
    @%p1 bra INITED;
    INIT %r10, 1;
    INIT %r11, 8;
    INIT %r10+8, 1;
    INIT %r11+8, 8;
    INIT %r10+16, 1;
    INIT %r11+16, 8;
    fence.proxy.async;
    fence.mbarrier_init.release.cluster;
INITED:
    bar.sync 0;
    mov.u32 %r20, 0;                   // round
    mov.u32 %r24, 0;
    setp.lt.u32 %p3, %r0, 256;
    @%p3 bra MATH;
    setp.ne.u32 %p4, %r0, 256;
    @%p4 bra END;
    setp.eq.s32 %p5, %r9, 0;
    @%p5 bra END;
PLOOP:
    and.b32 %r21, %r20, 1;
    xor.b32 %r22, %r21, 1;
    WAIT %r11, %r22;
    add.u32 %r25, %r1, 2048;
    add.u32 %r26, %r1, 4096;
    TMA %r1, %rd10, %r24, 0, %r10;
    TMA %r25, %rd10, %r24, 64, %r10;
    TMA %r26, %rd11, %r24, 0, %r10;
    EXPECT %r10, 4352;
    add.u32 %r27, %r11, 8;
    add.u32 %r28, %r10, 8;
    WAIT %r27, %r22;
    add.u32 %r25, %r1, 5120;
    add.u32 %r26, %r1, 7168;
    add.u32 %r29, %r1, 9216;
    add.s32 %r24, %r24, 16;
    EXPECT %r28, 4352;
    TMA %r25, %rd10, %r24, 0, %r28;
    TMA %r26, %rd10, %r24, 64, %r28;
    TMA %r29, %rd11, %r24, 0, %r28;
    add.u32 %r27, %r11, 16;
    add.u32 %r28, %r10, 16;
    WAIT %r27, %r22;
    add.u32 %r25, %r1, 10240;
    add.u32 %r26, %r1, 12288;
    add.u32 %r29, %r1, 14336;
    add.s32 %r24, %r24, 16;
    EXPECT %r28, 4352;
    TMA %r25, %rd10, %r24, 0, %r28;
    TMA %r26, %rd10, %r24, 64, %r28;
    TMA %r29, %rd11, %r24, 0, %r28;
    add.s32 %r24, %r24, 16;
    add.s32 %r20, %r20, 1;
    setp.lt.u32 %p6, %r20, %r9;
    @%p6 bra PLOOP;
    bra.uni END;
MATH:
    setp.eq.s32 %p9, %r2, 0;
    shr.u32 %r40, %r0, 7;
    shl.b32 %r40, %r40, 11;            // the half of A of this warpgroup
    add.u32 %r40, %r40, %r1;
    setp.eq.s32 %p5, %r9, 0;
    @%p5 bra STORE;
CLOOP:
    and.b32 %r21, %r20, 1;
    WAIT %r10, %r21;
    GFENCE;
    DESC %rd12, %r40;
    add.u32 %r41, %r1, 4096;
    DESC %rd13, %r41;
    WGMMA %rd12, %rd13;
    GCOMMIT;
    GWAIT 0;
    @%p9 ARRIVE %r11;
    add.u32 %r28, %r10, 8;
    WAIT %r28, %r21;
    GFENCE;
    add.u32 %r41, %r40, 5120;
    DESC %rd12, %r41;
    add.u32 %r41, %r1, 9216;
    DESC %rd13, %r41;
    WGMMA %rd12, %rd13;
    GCOMMIT;
    GWAIT 0;
    @%p9 ARRIVE %r11+8;
    add.u32 %r28, %r10, 16;
    WAIT %r28, %r21;
    GFENCE;
    add.u32 %r41, %r40, 10240;
    DESC %rd12, %r41;
    add.u32 %r41, %r1, 14336;
    DESC %rd13, %r41;
    WGMMA %rd12, %rd13;
    GCOMMIT;
    GWAIT 0;
    @%p9 ARRIVE %r11+16;
    add.s32 %r20, %r20, 1;
    setp.lt.u32 %p6, %r20, %r9;
    @%p6 bra CLOOP;
STORE:
    st.global.f32 [%rd4], %f10;
END:
""",
        384,
        16512,
        "INIT %r11+16, 8",
        "INIT %r11+16, 4",
        {"ma": 2048, "mb": 256},
    ),
    # ThunderKittens: phase bits of all slots in one register, full ones in the lower half and empty ones in the upper.
    "kittens_bitfield": Program(
        """
    MAPS;
    add.u32 %r10, %r1, 8192;
    add.u32 %r11, %r1, 8224;
    setp.ne.s32 %p1, %r0, 0;
    @%p1 bra INITED;
    INIT %r10, 1;
    INIT %r10+8, 1;
    INIT %r10+16, 1;
    INIT %r11, 4;
    INIT %r11+8, 4;
    INIT %r11+16, 4;
    fence.mbarrier_init.release.cluster;
INITED:
    bar.sync 0;
    mov.u32 %r20, -65536;              // bits: empty ones begin with 1
    mov.u32 %r21, 0;                   // slot
    mov.u32 %r23, 0;
    setp.lt.s32 %p2, %r9, 1;
    @%p2 bra END;
    setp.lt.u32 %p3, %r0, 128;
    @%p3 bra CONSUMER;
    setp.ne.u32 %p4, %r0, 128;
    @%p4 bra END;
PLOOP:
    add.s32 %r22, %r21, 16;
    shr.u32 %r25, %r20, %r22;
    and.b32 %r25, %r25, 1;
    shl.b32 %r26, %r21, 3;
    add.u32 %r27, %r11, %r26;
    WAIT %r27, %r25;
    mov.u32 %r28, 1;
    shl.b32 %r28, %r28, %r22;
    xor.b32 %r20, %r20, %r28;
    add.u32 %r29, %r10, %r26;
    EXPECT %r29, 2048;
    shl.b32 %r30, %r21, 11;
    add.u32 %r30, %r1, %r30;
    shl.b32 %r31, %r23, 6;
    TMA %r30, %rd10, %r31, 0, %r29;
    add.s32 %r21, %r21, 1;
    rem.u32 %r21, %r21, 3;
    add.s32 %r23, %r23, 1;
    setp.lt.s32 %p5, %r23, %r9;
    @%p5 bra PLOOP;
    bra.uni END;
CONSUMER:
    setp.eq.s32 %p9, %r2, 0;
CLOOP:
    shr.u32 %r25, %r20, %r21;
    and.b32 %r25, %r25, 1;
    shl.b32 %r26, %r21, 3;
    add.u32 %r27, %r10, %r26;
    WAIT %r27, %r25;
    mov.u32 %r28, 1;
    shl.b32 %r28, %r28, %r21;
    xor.b32 %r20, %r20, %r28;
    shl.b32 %r30, %r21, 11;
    add.u32 %r30, %r5, %r30;
    ld.shared.f32 %f20, [%r30];
    add.f32 %f10, %f10, %f20;
    fence.proxy.async.shared::cta;
    bar.warp.sync -1;
    add.u32 %r29, %r11, %r26;
    @%p9 ARRIVE %r29;
    add.s32 %r21, %r21, 1;
    rem.u32 %r21, %r21, 3;
    add.s32 %r23, %r23, 1;
    setp.lt.s32 %p5, %r23, %r9;
    @%p5 bra CLOOP;
    st.global.f32 [%rd4], %f10;
END:
""",
        160,
        8256,
        "mov.u32 %r20, -65536;",
        "mov.u32 %r20, -131072;",
        {"ma": 2048},
    ),
    # FlashAttention-3: Q once, K and V in rings of their own, softmax in registers, two warpgroups that alternate by
    # named barriers.
    "fa3_turns": Program(
        """
    MAPS;
    add.u32 %r10, %r1, 16384;          // K full, V full: 2 slots each; empty behind
    setp.ne.s32 %p1, %r0, 0;
    @%p1 bra INITED;
    INIT %r10, 1;
    INIT %r10+8, 1;
    INIT %r10+16, 1;
    INIT %r10+24, 1;
    INIT %r10+32, 256;
    INIT %r10+40, 256;
    INIT %r10+48, 256;
    INIT %r10+56, 256;
    INIT %r10+64, 1;                   // Q
    fence.mbarrier_init.release.cluster;
INITED:
    bar.sync 0;
    mov.u32 %r20, 0;                   // index
    add.u32 %r13, %r10, 64;
    setp.lt.s32 %p2, %r9, 1;
    @%p2 bra END;
    mov.u32 %r23, %r9;
    shr.u32 %r22, %r0, 7;
    setp.ne.u32 %p3, %r22, 0;
    @%p3 bra MATH;
    setmaxnreg.dec.sync.aligned.u32 24;
    setp.ne.s32 %p4, %r0, 0;
    @%p4 bra END;
    mov.u32 %r21, 1;
    EXPECT %r13, 4096;
    add.u32 %r14, %r1, 2048;
    TMA %r1, %rd10, 0, 0, %r13;
    TMA %r14, %rd10, 0, 64, %r13;
    mov.u32 %r24, 0;
PLOOP:
    shl.b32 %r25, %r20, 3;
    add.u32 %r26, %r10, %r25;
    add.u32 %r27, %r26, 32;
    WAIT %r27, %r21;
    EXPECT %r26, 256;
    shl.b32 %r28, %r20, 10;
    add.u32 %r28, %r1, %r28;
    add.u32 %r29, %r28, 4096;
    TMA %r29, %rd11, 0, %r24, %r26;
    add.u32 %r26, %r26, 16;
    add.u32 %r27, %r26, 32;
    WAIT %r27, %r21;
    EXPECT %r26, 256;
    add.u32 %r29, %r28, 8192;
    TMA %r29, %rd11, 0, %r24, %r26;
    add.s32 %r24, %r24, 8;
    ADVANCE %r20, %r21, 2;
    add.s32 %r23, %r23, -1;
    setp.ne.s32 %p5, %r23, 0;
    @%p5 bra PLOOP;
    bra.uni END;
MATH:
    setmaxnreg.inc.sync.aligned.u32 240;
    mov.u32 %r21, 0;
    add.s32 %r40, %r22, 1;             // own barrier: 2, 3
    sub.s32 %r41, 4, %r22;             // the other's: 3, 2
    shl.b32 %r42, %r22, 11;
    add.u32 %r42, %r42, %r1;
    add.u32 %r42, %r42, -2048;         // its Q
    setp.eq.s32 %p8, %r22, 2;
    @%p8 bar.arrive 2, 256;
    WAIT %r13, 0;
CLOOP:
    shl.b32 %r25, %r20, 3;
    add.u32 %r26, %r10, %r25;
    WAIT %r26, %r21;
    bar.sync %r40, 256;
    GFENCE;
    DESC %rd12, %r42;
    shl.b32 %r28, %r20, 10;
    add.u32 %r28, %r1, %r28;
    add.u32 %r29, %r28, 4096;
    DESC %rd13, %r29;
    WGMMA %rd12, %rd13;
    GCOMMIT;
    bar.arrive %r41, 256;
    GWAIT 0;
    add.u32 %r27, %r26, 32;
    ARRIVE %r27;
    max.f32 %f20, %f10, %f11;
    SHFLMAX %f20, 2;
    SHFLMAX %f20, 1;
    sub.f32 %f10, %f10, %f20;
    ex2.approx.ftz.f32 %f10, %f10;
    cvt.rn.bf16x2.f32 %r50, %f11, %f10;
    add.u32 %r26, %r26, 16;
    WAIT %r26, %r21;
    GFENCE;
    add.u32 %r29, %r28, 8192;
    DESC %rd13, %r29;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f30, %f31, %f32, %f33},
        {%r50, %r50, %r50, %r50}, %rd13, 1, 1, 1, 0;
    GCOMMIT;
    GWAIT 0;
    add.u32 %r27, %r26, 32;
    ARRIVE %r27;
    ADVANCE %r20, %r21, 2;
    add.s32 %r23, %r23, -1;
    setp.ne.s32 %p5, %r23, 0;
    @%p5 bra CLOOP;
    setp.eq.s32 %p8, %r22, 1;
    @%p8 bar.sync 2, 256;
    st.global.f32 [%rd4], %f30;
END:
""",
        384,
        16512,
        "setp.eq.s32 %p8, %r22, 2;",
        "setp.eq.s32 %p8, %r22, 1;",
        {"ma": 2048, "mb": 256},
    ),
    # CUTLASS ping-pong: two warpgroups with tiles of their own, which alternate by mbarriers (OrderedSequenceBarrier).
    "cutlass_pingpong": Program(
        """
    MAPS;
    add.u32 %r10, %r1, 8192;           // full: 2
    add.u32 %r11, %r1, 8208;           // empty: 2
    add.u32 %r12, %r1, 8224;           // order: one of each warpgroup
    setp.ne.s32 %p1, %r0, 0;
    @%p1 bra INITED;
    INIT %r10, 1;
    INIT %r10+8, 1;
    INIT %r11, 128;
    INIT %r11+8, 128;
    INIT %r12, 128;
    INIT %r12+8, 128;
    fence.mbarrier_init.release.cluster;
INITED:
    bar.sync 0;
    shr.u32 %r22, %r0, 7;
    mov.u32 %r20, 0;
    mov.u32 %r24, 0;
    setp.lt.s32 %p2, %r9, 1;
    @%p2 bra END;
    setp.ne.u32 %p3, %r22, 0;
    @%p3 bra MATH;
    setp.ne.s32 %p4, %r0, 0;
    @%p4 bra END;
    mov.u32 %r21, 1;
    shl.b32 %r23, %r9, 1;
PLOOP:
    shl.b32 %r25, %r20, 3;
    add.u32 %r26, %r11, %r25;
    WAIT %r26, %r21;
    add.u32 %r27, %r10, %r25;
    EXPECT %r27, 2304;
    shl.b32 %r28, %r20, 12;
    add.u32 %r28, %r1, %r28;
    add.u32 %r29, %r28, 2048;
    TMA %r28, %rd10, %r24, 0, %r27;
    TMA %r29, %rd11, %r24, 0, %r27;
    ADVANCE %r20, %r21, 2;
    add.s32 %r24, %r24, 1;
    setp.lt.s32 %p7, %r24, %r23;
    @%p7 bra PLOOP;
    bra.uni END;
MATH:
    // A tile has one step here: slot 0 is of the tiles of the first warpgroup, slot 1 of those of the second.
    add.s32 %r30, %r22, -1;
    shl.b32 %r31, %r30, 3;
    add.u32 %r32, %r12, %r31;          // own turn
    xor.b32 %r33, %r31, 8;
    add.u32 %r33, %r12, %r33;          // the other's
    add.u32 %r34, %r10, %r31;
    add.u32 %r35, %r11, %r31;
    shl.b32 %r36, %r30, 12;
    add.u32 %r36, %r36, %r1;
    xor.b32 %r37, %r30, 1;             // phase of the order: the first need not wait
    mov.u32 %r21, 0;
TILE:
    WAIT %r32, %r37;
    WAIT %r34, %r21;
    GFENCE;
    DESC %rd12, %r36;
    add.u32 %r29, %r36, 2048;
    DESC %rd13, %r29;
    WGMMA %rd12, %rd13;
    GCOMMIT;
    ARRIVE %r33;
    GWAIT 0;
    ARRIVE %r35;
    st.global.f32 [%rd4], %f10;
    xor.b32 %r37, %r37, 1;
    xor.b32 %r21, %r21, 1;
    add.s32 %r24, %r24, 1;
    setp.lt.s32 %p7, %r24, %r9;
    @%p7 bra TILE;
END:
""",
        384,
        8256,
        "GWAIT 0;\n    ARRIVE %r35;",
        "ARRIVE %r35;\n    GWAIT 0;",
        {"ma": 2048, "mb": 256},
    ),
    # ThunderKittens, load-compute-store-finish: tiles come in, one warpgroup scales them, a storer sends them out.
    "kittens_lcsf": Program(
        """
    MAPS;
    add.u32 %r10, %r1, 8192;           // in full 2, in empty 2, out full 2, out empty 2
    setp.ne.s32 %p1, %r0, 0;
    @%p1 bra INITED;
    INIT %r10, 1;
    INIT %r10+8, 1;
    INIT %r10+16, 4;
    INIT %r10+24, 4;
    INIT %r10+32, 4;
    INIT %r10+40, 4;
    INIT %r10+48, 1;
    INIT %r10+56, 1;
    fence.mbarrier_init.release.cluster;
INITED:
    bar.sync 0;
    mov.u32 %r20, 0;
    setp.eq.s32 %p2, %r9, 0;
    @%p2 bra END;
    setp.lt.u32 %p3, %r3, 4;
    @%p3 bra MATH;
    setp.ne.s32 %p4, %r2, 0;
    @%p4 bra END;
    setp.eq.s32 %p5, %r3, 5;
    @%p5 bra STORER;
LOADER:
    and.b32 %r21, %r20, 1;
    shl.b32 %r22, %r21, 3;
    add.u32 %r22, %r22, %r10;
    shr.u32 %r23, %r20, 1;
    not.b32 %r23, %r23;
    and.b32 %r23, %r23, 1;
    add.u32 %r24, %r22, 16;
    WAIT %r24, %r23;
    EXPECT %r22, 2048;
    shl.b32 %r25, %r21, 11;
    add.u32 %r25, %r25, %r1;
    shl.b32 %r26, %r20, 6;
    TMA %r25, %rd10, %r26, 0, %r22;
    add.s32 %r20, %r20, 1;
    setp.lt.u32 %p6, %r20, %r9;
    @%p6 bra LOADER;
    bra.uni END;
STORER:
    and.b32 %r21, %r20, 1;
    shl.b32 %r22, %r21, 3;
    add.u32 %r22, %r22, %r10;
    shr.u32 %r23, %r20, 1;
    and.b32 %r23, %r23, 1;
    add.u32 %r24, %r22, 32;
    WAIT %r24, %r23;
    shl.b32 %r25, %r21, 11;
    add.u32 %r25, %r25, %r1;
    add.u32 %r25, %r25, 4096;
    shl.b32 %r26, %r20, 6;
    TMASTORE %r25, %rd11, %r26, 0;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group.read 0;
    add.u32 %r24, %r22, 48;
    ARRIVE %r24;
    add.s32 %r20, %r20, 1;
    setp.lt.u32 %p6, %r20, %r9;
    @%p6 bra STORER;
    cp.async.bulk.wait_group 0;
    bra.uni END;
MATH:
    setp.eq.s32 %p9, %r2, 0;
    shl.b32 %r30, %r0, 4;
    add.u32 %r30, %r30, %r1;
ROUND:
    and.b32 %r21, %r20, 1;
    shl.b32 %r22, %r21, 3;
    add.u32 %r22, %r22, %r10;
    shr.u32 %r23, %r20, 1;
    and.b32 %r23, %r23, 1;
    WAIT %r22, %r23;
    shl.b32 %r25, %r21, 11;
    add.u32 %r25, %r25, %r30;
    ld.shared.v4.f32 {%f10, %f11, %f12, %f13}, [%r25];
    fence.proxy.async.shared::cta;
    bar.warp.sync -1;
    @%p9 ARRIVE %r22+16;
    xor.b32 %r24, %r23, 1;
    add.u32 %r27, %r22, 48;
    WAIT %r27, %r24;
    st.shared.v4.f32 [%r25+4096], {%f11, %f10, %f13, %f12};
    fence.proxy.async.shared::cta;
    bar.warp.sync -1;
    @%p9 ARRIVE %r22+32;
    add.s32 %r20, %r20, 1;
    setp.lt.u32 %p6, %r20, %r9;
    @%p6 bra ROUND;
END:
""",
        192,
        8256,
        "{%f11, %f10, %f13, %f12};\n    fence.proxy.async.shared::cta;",
        "{%f11, %f10, %f13, %f12};",
        {"ma": 2048, "mb": 2048},
    ),
}
