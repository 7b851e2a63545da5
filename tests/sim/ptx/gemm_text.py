"""A pipelined GEMM written by hand in PTX, as a function of its tile: the simulator's main test subject.

C[M, N] (f32) = A[M, K] @ B[N, K]^T in bf16, 128 threads as 2 x 2 warps, cp.async into a ring of `stages` tiles whose
rows are padded by 16 bytes, ldmatrix, mma.sync.m16n8k16. Sizes must divide by the tile.
"""

from __future__ import annotations


def gemm_text(tile: int = 64, depth: int = 32, stages: int = 3, target: str = "sm_80") -> str:
    """The PTX text; its entry is `gemm(A, B, C, N, K)`, its dynamic shared memory `gemm_shared_bytes`."""
    pitch = 2 * depth + 16
    part = tile * pitch
    warp_tile = tile // 2
    rows, cols = warp_tile // 16, warp_tile // 8
    out: list[str] = []
    emit = out.append
    emit(f""".version 8.0
.target {target}
.address_size 64
.file 1 "gemm.py"
.extern .shared .align 128 .b8 ring[];
.visible .entry gemm(.param .u64 pA, .param .u64 pB, .param .u64 pC, .param .u32 pN, .param .u32 pK)
.reqntid 128, 1, 1
{{
    .reg .pred %p<4>;
    .reg .b32 %r<64>;
    .reg .b64 %rd<32>;
    .reg .f32 %acc<{rows * cols * 4}>;
    .reg .b32 %a<{rows * 4}>;
    .reg .b32 %b<{cols * 2}>;
    .loc 1 1 0
    ld.param.u64 %rd0, [pA];
    ld.param.u64 %rd1, [pB];
    ld.param.u64 %rd2, [pC];
    ld.param.u32 %r0, [pN];
    ld.param.u32 %r1, [pK];
    cvta.to.global.u64 %rd0, %rd0;
    cvta.to.global.u64 %rd1, %rd1;
    cvta.to.global.u64 %rd2, %rd2;
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ctaid.y;
    mov.u32 %r5, ring;
    // this thread copies 16 bytes of row tid / (depth/8) + i * 128 / (depth/8)
    div.u32 %r6, %r2, {depth // 8};
    rem.u32 %r7, %r2, {depth // 8};
    mad.lo.u32 %r8, %r4, {tile}, %r6;
    mad.lo.u32 %r9, %r3, {tile}, %r6;
    mul.wide.u32 %rd3, %r8, %r1;
    mul.wide.u32 %rd4, %r9, %r1;
    cvt.u64.u32 %rd5, %r7;
    shl.b64 %rd5, %rd5, 4;
    shl.b64 %rd3, %rd3, 1;
    shl.b64 %rd4, %rd4, 1;
    add.s64 %rd3, %rd3, %rd5;
    add.s64 %rd4, %rd4, %rd5;
    add.s64 %rd6, %rd0, %rd3;   // A source
    add.s64 %rd7, %rd1, %rd4;   // B source
    mul.wide.u32 %rd8, %r1, {2 * 128 * 8 // depth};   // bytes between this thread's rows
    mad.lo.u32 %r10, %r6, {pitch}, %r5;
    shl.b32 %r11, %r7, 4;
    add.u32 %r10, %r10, %r11;   // destination in slot 0
    div.u32 %r12, %r1, {depth}; // number of K tiles
    and.b32 %r13, %r2, 31;      // lane
    shr.u32 %r14, %r2, 5;       // warp
    and.b32 %r15, %r14, 1;      // warp column
    shr.u32 %r16, %r14, 1;      // warp row
    // ldmatrix A: row = lane % 16, column half = lane / 16
    and.b32 %r17, %r13, 15;
    shr.u32 %r18, %r13, 4;
    mad.lo.u32 %r19, %r16, {warp_tile}, %r17;
    mad.lo.u32 %r20, %r19, {pitch}, %r5;
    shl.b32 %r21, %r18, 4;
    add.u32 %r20, %r20, %r21;
    // ldmatrix B: row = lane % 8 + 8 * (lane / 16), half = lane / 8 % 2
    and.b32 %r22, %r13, 7;
    shl.b32 %r23, %r18, 3;
    add.u32 %r22, %r22, %r23;
    shr.u32 %r24, %r13, 3;
    and.b32 %r24, %r24, 1;
    mad.lo.u32 %r25, %r15, {warp_tile}, %r22;
    mad.lo.u32 %r26, %r25, {pitch}, %r5;
    shl.b32 %r27, %r24, 4;
    add.u32 %r26, %r26, %r27;
    add.u32 %r26, %r26, {part};""")
    for i in range(rows * cols * 4):
        emit(f"    mov.f32 %acc{i}, 0f00000000;")
    emit("    mov.u32 %r30, 0;   // next tile to fetch")
    emit("    mov.u32 %r31, 0;   // its slot's byte offset")
    rounds = tile * depth // 8 // 128

    def fetch(label: str, line: int) -> None:
        emit(f"    .loc 1 {line} 0")
        emit("    setp.ge.u32 %p0, %r30, %r12;")
        emit(f"    @%p0 bra {label};")
        emit("    add.u32 %r32, %r10, %r31;")
        for source, base in ((6, 0), (7, part)):
            emit(f"    mov.u64 %rd10, %rd{source};")
            for i in range(rounds):
                to = base + i * (128 * 8 // depth) * pitch
                emit(f"    cp.async.cg.shared.global [%r32+{to}], [%rd10], 16;")
                emit("    add.s64 %rd10, %rd10, %rd8;")
            emit(f"    add.s64 %rd{source}, %rd{source}, {2 * depth};")
        emit(f"{label}:")
        emit("    cp.async.commit_group;")
        emit("    add.u32 %r30, %r30, 1;")
        emit(f"    add.u32 %r31, %r31, {2 * part};")
        emit(f"    setp.eq.u32 %p1, %r31, {2 * part * stages};")
        emit("    @%p1 mov.u32 %r31, 0;")

    for stage in range(stages - 1):
        fetch(f"PRO{stage}", 10)
    emit("    mov.u32 %r33, 0;   // k")
    emit("    mov.u32 %r34, 0;   // slot offset to read")
    emit("LOOP:")
    emit("    .loc 1 20 0")
    emit(f"    cp.async.wait_group {stages - 2};")
    emit("    bar.sync 0;")
    fetch("NEXT", 21)
    emit("    add.u32 %r35, %r20, %r34;")
    emit("    add.u32 %r36, %r26, %r34;")
    for k in range(depth // 16):
        emit("    .loc 1 22 0")
        for i in range(rows):
            regs = ", ".join(f"%a{4 * i + j}" for j in range(4))
            emit(f"    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{regs}}}, [%r35+{i * 16 * pitch + 32 * k}];")
        for j in range(cols // 2):
            regs = ", ".join(f"%b{4 * j + i}" for i in range(4))
            emit(f"    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{regs}}}, [%r36+{j * 16 * pitch + 32 * k}];")
        emit("    .loc 1 23 0")
        for i in range(rows):
            for j in range(cols):
                acc = ", ".join(f"%acc{(i * cols + j) * 4 + e}" for e in range(4))
                a = ", ".join(f"%a{4 * i + e}" for e in range(4))
                emit(
                    "    mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                    f"{{{acc}}}, {{{a}}}, {{%b{2 * j}, %b{2 * j + 1}}}, {{{acc}}};"
                )
    emit(f"""    add.u32 %r34, %r34, {2 * part};
    setp.eq.u32 %p2, %r34, {2 * part * stages};
    @%p2 mov.u32 %r34, 0;
    add.u32 %r33, %r33, 1;
    setp.lt.u32 %p3, %r33, %r12;
    @%p3 bra LOOP;
    .loc 1 30 0
    shr.u32 %r40, %r13, 2;
    and.b32 %r41, %r13, 3;
    mad.lo.u32 %r42, %r4, {tile}, %r40;
    mad.lo.u32 %r42, %r16, {warp_tile}, %r42;
    shl.b32 %r43, %r41, 1;
    mad.lo.u32 %r43, %r3, {tile}, %r43;
    mad.lo.u32 %r43, %r15, {warp_tile}, %r43;
    mul.wide.u32 %rd12, %r42, %r0;
    cvt.u64.u32 %rd13, %r43;
    add.s64 %rd12, %rd12, %rd13;
    shl.b64 %rd12, %rd12, 2;
    add.s64 %rd14, %rd2, %rd12;
    mul.wide.u32 %rd15, %r0, 32;""")
    for i in range(rows):
        for half in range(2):
            for j in range(cols):
                base = (i * cols + j) * 4 + 2 * half
                emit(f"    st.global.v2.f32 [%rd14+{32 * j}], {{%acc{base}, %acc{base + 1}}};")
            emit("    add.s64 %rd14, %rd14, %rd15;")
    emit("    ret;\n}")
    return "\n".join(out) + "\n"


def gemm_shared_bytes(tile: int = 64, depth: int = 32, stages: int = 3) -> int:
    """Dynamic shared memory of `gemm_text`."""
    return stages * 2 * tile * (2 * depth + 16)
