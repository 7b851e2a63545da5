"""A GEMM in LLVM IR with LDS-DMA, as text for a given number of K steps.

C[64 x 64] = A[64 x K] B[64 x K]^T in bf16 per workgroup of four waves; each wave makes a 32 x 32 quarter. A step takes
32 of K: one DMA of 1 KB per wave and matrix, into one of two buffers, each an LDS object of its own. With `double`, the
next step's DMA is in flight while this one is multiplied.
"""

from __future__ import annotations

VM0, BOTH = 0xF70, 0x70

_HEADER = """
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workgroup.id.x()
declare i32 @llvm.amdgcn.workgroup.id.y()
declare i32 @llvm.amdgcn.readfirstlane.i32(i32)
declare void @llvm.amdgcn.s.waitcnt(i32)
declare void @llvm.amdgcn.s.barrier()
declare void @llvm.amdgcn.sched.barrier(i32)
declare ptr addrspace(8) @llvm.amdgcn.make.buffer.rsrc.p8.p1(ptr addrspace(1), i16, i64, i32)
declare void @llvm.amdgcn.raw.ptr.buffer.load.lds(ptr addrspace(8), ptr addrspace(3), i32, i32, i32, i32, i32)
declare <4 x float> @llvm.amdgcn.mfma.f32.16x16x32.bf16(<8 x bfloat>, <8 x bfloat>, <4 x float>, i32, i32, i32)
@A0 = internal addrspace(3) global [4096 x i8] undef, align 16
@A1 = internal addrspace(3) global [4096 x i8] undef, align 16
@B0 = internal addrspace(3) global [4096 x i8] undef, align 16
@B1 = internal addrspace(3) global [4096 x i8] undef, align 16
define amdgpu_kernel void @gemm(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c, i32 %k, i32 %n) #0 {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %gx = call i32 @llvm.amdgcn.workgroup.id.x()
  %gy = call i32 @llvm.amdgcn.workgroup.id.y()
  %wave = lshr i32 %t, 6
  %w = call i32 @llvm.amdgcn.readfirstlane.i32(i32 %wave)
  %lane = and i32 %t, 63
  %rowbytes = shl i32 %k, 1
  %tilebytes = shl i32 %k, 7
  %tilebytes64 = zext i32 %tilebytes to i64
  %ybytes = mul i32 %gy, %tilebytes
  %xbytes = mul i32 %gx, %tilebytes
  %y64 = zext i32 %ybytes to i64
  %x64 = zext i32 %xbytes to i64
  %pa = getelementptr i8, ptr addrspace(1) %a, i64 %y64
  %pb = getelementptr i8, ptr addrspace(1) %b, i64 %x64
  %ra = call ptr addrspace(8) @llvm.amdgcn.make.buffer.rsrc.p8.p1(
    ptr addrspace(1) %pa, i16 0, i64 %tilebytes64, i32 159744)
  %rb = call ptr addrspace(8) @llvm.amdgcn.make.buffer.rsrc.p8.p1(
    ptr addrspace(1) %pb, i16 0, i64 %tilebytes64, i32 159744)
  %row = lshr i32 %t, 2
  %part = and i32 %t, 3
  %partbytes = shl i32 %part, 4
  %rowstart = mul i32 %row, %rowbytes
  %voff = add i32 %rowstart, %partbytes
  %ldswave = shl i32 %w, 10
  %l16 = and i32 %lane, 15
  %g4 = lshr i32 %lane, 4
  %l64 = shl i32 %l16, 6
  %g16 = shl i32 %g4, 4
  %frag = add i32 %l64, %g16
  %wy = lshr i32 %w, 1
  %wx = and i32 %w, 1
  %wyoff = shl i32 %wy, 11
  %wxoff = shl i32 %wx, 11
  %fa = add i32 %frag, %wyoff
  %fb = add i32 %frag, %wxoff
"""


def gemm_ir(steps: int, double: bool = True, wait: int = BOTH, barrier: bool = True) -> str:
    """The text. `wait` is the operand of s_waitcnt before each barrier."""
    lines = [_HEADER]
    for matrix in "AB":
        for index in (0, 1):
            lines.append(f"  %d{matrix}{index} = getelementptr i8, ptr addrspace(3) @{matrix}{index}, i32 %ldswave")

    def load(step: int) -> None:
        for matrix in "AB":
            lines.append(
                f"  call void @llvm.amdgcn.raw.ptr.buffer.load.lds(ptr addrspace(8) %r{matrix.lower()}, "
                f"ptr addrspace(3) %d{matrix}{step % 2}, i32 16, i32 %voff, i32 {64 * step}, i32 0, i32 0)"
            )

    def sync(imm: int = wait) -> None:
        lines.append(f"  call void @llvm.amdgcn.s.waitcnt(i32 {imm})")
        if barrier:
            lines.append("  call void @llvm.amdgcn.s.barrier()")
        lines.append("  call void @llvm.amdgcn.sched.barrier(i32 0)")

    sums = {(i, j): "zeroinitializer" for i in (0, 1) for j in (0, 1)}
    if double:
        load(0)
        sync(VM0)
    for step in range(steps):
        if double and step + 1 < steps:
            load(step + 1)
        if not double:
            load(step)
            sync()
        for matrix, offset in (("A", "%fa"), ("B", "%fb")):
            for index in (0, 1):
                name = f"%{matrix.lower()}{step}_{index}"
                lines.append(f"  {name}o = add i32 {offset}, {1024 * index}")
                lines.append(
                    f"  {name}p = getelementptr i8, ptr addrspace(3) @{matrix}{step % 2}, i32 {name}o\n"
                    f"  {name} = load <8 x bfloat>, ptr addrspace(3) {name}p, align 16"
                )
        for i, j in sums:
            name = f"%s{step}_{i}{j}"
            lines.append(
                f"  {name} = call <4 x float> @llvm.amdgcn.mfma.f32.16x16x32.bf16(<8 x bfloat> %a{step}_{i}, "
                f"<8 x bfloat> %b{step}_{j}, <4 x float> {sums[i, j]}, i32 0, i32 0, i32 0)"
            )
            sums[i, j] = name
        if step + 1 < steps:
            sync()
    lines.append(
        "  %by = shl i32 %gy, 6\n  %bx = shl i32 %gx, 6\n  %qy = shl i32 %wy, 5\n  %qx = shl i32 %wx, 5\n"
        "  %r0 = add i32 %by, %qy\n  %c0 = add i32 %bx, %qx\n  %g4r = shl i32 %g4, 2\n"
        "  %r1 = add i32 %r0, %g4r\n  %c1 = add i32 %c0, %l16"
    )
    for i, j in sums:
        for r in range(4):
            tag = f"{i}{j}{r}"
            lines.append(
                f"  %row{tag} = add i32 %r1, {16 * i + r}\n  %col{tag} = add i32 %c1, {16 * j}\n"
                f"  %m{tag} = mul i32 %row{tag}, %n\n  %at{tag} = add i32 %m{tag}, %col{tag}\n"
                f"  %at64{tag} = zext i32 %at{tag} to i64\n"
                f"  %p{tag} = getelementptr float, ptr addrspace(1) %c, i64 %at64{tag}\n"
                f"  %e{tag} = extractelement <4 x float> {sums[i, j]}, i32 {r}\n"
                f"  store float %e{tag}, ptr addrspace(1) %p{tag}"
            )
    lines.append("  ret void\n}\n")
    return "\n".join(lines)
