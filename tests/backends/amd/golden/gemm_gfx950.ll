; gemm__block_M32_block_N16_threads64 for gfx950
target datalayout = "e-m:e-p:64:64-p1:64:64-p2:32:32-p3:32:32-p4:64:64-p5:32:32-p6:32:32-p7:160:256:256:32-p8:128:128:128:48-p9:192:256:256:32-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024-v2048:2048-n32:64-S32-A5-G1-ni:7:8:9"
target triple = "amdgcn-amd-amdhsa"

@lds.0.A_shared = internal addrspace(3) global [6144 x i8] poison, align 16
@lds.1.B_shared = internal addrspace(3) global [3072 x i8] poison, align 16

define amdgpu_kernel void @gemm__block_M32_block_N16_threads64(ptr addrspace(1) align 16 %A, ptr addrspace(1) align 16 %B, ptr addrspace(1) align 16 %C, i32 %M, i32 %K, i32 %N)
    #0 !reqd_work_group_size !0 !dbg !11 {
entry:
  %bx.1 = call i32 @llvm.amdgcn.workgroup.id.x(), !dbg !13
  %by.2 = call i32 @llvm.amdgcn.workgroup.id.y(), !dbg !13
  %v.3 = add i32 %K, 31, !dbg !17
  %v.4 = ashr i32 %v.3, 5, !dbg !17
  %v.5 = icmp slt i32 0, %v.4, !dbg !19
  %tid.6 = call i32 @llvm.amdgcn.workitem.id.x(), !dbg !20
  %v.7 = ashr i32 %tid.6, 2, !dbg !20
  %v.8 = and i32 %v.7, 15, !dbg !20
  %v.9 = and i32 %tid.6, 3, !dbg !20
  %v.10 = mul i32 %v.9, 8, !dbg !20
  %v.11 = ashr i32 %tid.6, 3, !dbg !20
  %v.12 = and i32 %v.11, 3, !dbg !20
  %v.13 = mul i32 %v.12, 8, !dbg !20
  %v.14 = xor i32 %v.10, %v.13, !dbg !20
  %v.15 = call i32 @llvm.amdgcn.workitem.id.x(), !dbg !20
  %v.16 = lshr i32 %v.15, 6, !dbg !20
  %wave.17 = call i32 @llvm.amdgcn.readfirstlane.i32(i32 %v.16), !dbg !20
  %v.18 = mul i32 %by.2, 32, !dbg !20
  %v.19 = add i32 %v.18, %v.8, !dbg !20
  %v.20 = sub i32 %M, %v.19, !dbg !20
  %v.21 = sub i32 %K, %v.14, !dbg !20
  %v.22 = icmp slt i32 0, %v.20, !dbg !20
  %v.23 = icmp slt i32 0, %v.21, !dbg !20
  %v.24 = and i1 %v.22, %v.23, !dbg !20
  %v.25 = icmp slt i32 16, %v.20, !dbg !20
  %v.26 = and i1 %v.25, %v.23, !dbg !20
  %v.27 = sext i32 %v.18 to i64, !dbg !20
  %v.28 = sext i32 %K to i64, !dbg !20
  %v.29 = mul i64 %v.28, 2, !dbg !20
  %v.30 = mul i64 %v.27, %v.29, !dbg !20
  %v.31 = add i64 0, %v.30, !dbg !20
  %v.32 = mul i32 %K, 2, !dbg !20
  %v.33 = mul i32 %v.8, %v.32, !dbg !20
  %v.34 = mul i32 %v.14, 2, !dbg !20
  %v.35 = add i32 %v.33, %v.34, !dbg !20
  %v.36 = mul i32 %K, 32, !dbg !20
  %v.37 = add i32 %v.35, %v.36, !dbg !20
  %v.38 = mul i32 %wave.17, 1024, !dbg !20
  %v.39 = add i32 0, %v.38, !dbg !20
  %v.40 = mul i32 %bx.1, 16, !dbg !21
  %v.41 = sext i32 %v.40 to i64, !dbg !21
  %v.42 = mul i64 %v.41, %v.29, !dbg !21
  %v.43 = add i64 0, %v.42, !dbg !21
  %v.44 = add i32 0, %v.38, !dbg !21
  %v.45 = icmp slt i32 1, %v.4, !dbg !19
  %v.46 = mul i32 %by.2, 32, !dbg !20
  %v.47 = add i32 %v.46, %v.8, !dbg !20
  %v.48 = sub i32 %M, %v.47, !dbg !20
  %v.49 = add i32 %v.14, 32, !dbg !20
  %v.50 = sub i32 %K, %v.49, !dbg !20
  %v.51 = icmp slt i32 0, %v.48, !dbg !20
  %v.52 = icmp slt i32 0, %v.50, !dbg !20
  %v.53 = and i1 %v.51, %v.52, !dbg !20
  %v.54 = icmp slt i32 16, %v.48, !dbg !20
  %v.55 = and i1 %v.54, %v.52, !dbg !20
  %v.56 = sext i32 %v.46 to i64, !dbg !20
  %v.57 = sext i32 %K to i64, !dbg !20
  %v.58 = mul i64 %v.57, 2, !dbg !20
  %v.59 = mul i64 %v.56, %v.58, !dbg !20
  %v.60 = add i64 0, %v.59, !dbg !20
  %v.61 = add i64 %v.60, 64, !dbg !20
  %v.62 = mul i32 %K, 2, !dbg !20
  %v.63 = mul i32 %v.8, %v.62, !dbg !20
  %v.64 = mul i32 %v.14, 2, !dbg !20
  %v.65 = add i32 %v.63, %v.64, !dbg !20
  %v.66 = mul i32 %K, 32, !dbg !20
  %v.67 = add i32 %v.65, %v.66, !dbg !20
  %v.68 = mul i32 %wave.17, 1024, !dbg !20
  %v.69 = add i32 0, %v.68, !dbg !20
  %v.70 = add i32 %v.69, 2048, !dbg !20
  %v.71 = mul i32 %bx.1, 16, !dbg !21
  %v.72 = sext i32 %v.71 to i64, !dbg !21
  %v.73 = mul i64 %v.72, %v.58, !dbg !21
  %v.74 = add i64 0, %v.73, !dbg !21
  %v.75 = add i64 %v.74, 64, !dbg !21
  %v.76 = add i32 0, %v.68, !dbg !21
  %v.77 = add i32 %v.76, 1024, !dbg !21
  %v.78 = and i32 %tid.6, 15, !dbg !22
  %v.79 = ashr i32 %tid.6, 4, !dbg !22
  %v.80 = mul i32 %by.2, 32, !dbg !20
  %v.81 = add i32 %v.80, %v.8, !dbg !20
  %v.82 = sub i32 %M, %v.81, !dbg !20
  %v.83 = icmp slt i32 0, %v.82, !dbg !20
  %v.84 = icmp slt i32 16, %v.82, !dbg !20
  %v.85 = sext i32 %v.80 to i64, !dbg !20
  %v.86 = sext i32 %K to i64, !dbg !20
  %v.87 = mul i64 %v.86, 2, !dbg !20
  %v.88 = mul i64 %v.85, %v.87, !dbg !20
  %v.89 = add i64 0, %v.88, !dbg !20
  %v.90 = mul i32 %K, 2, !dbg !20
  %v.91 = mul i32 %v.8, %v.90, !dbg !20
  %v.92 = mul i32 %v.14, 2, !dbg !20
  %v.93 = add i32 %v.91, %v.92, !dbg !20
  %v.94 = mul i32 %K, 32, !dbg !20
  %v.95 = add i32 %v.93, %v.94, !dbg !20
  %v.96 = mul i32 %wave.17, 1024, !dbg !20
  %v.97 = add i32 0, %v.96, !dbg !20
  %v.98 = mul i32 %bx.1, 16, !dbg !21
  %v.99 = sext i32 %v.98 to i64, !dbg !21
  %v.100 = mul i64 %v.99, %v.87, !dbg !21
  %v.101 = add i64 0, %v.100, !dbg !21
  %v.102 = add i32 0, %v.96, !dbg !21
  %v.103 = mul i32 %v.78, 64, !dbg !22
  %v.104 = mul i32 %v.79, 16, !dbg !22
  %v.105 = add i32 %v.103, %v.104, !dbg !22
  %v.106 = ashr i32 %v.105, 3, !dbg !22
  %v.107 = and i32 %v.106, 48, !dbg !22
  %v.108 = xor i32 %v.105, %v.107, !dbg !22
  %v.109 = add i32 0, %v.108, !dbg !22
  %v.110 = add i32 0, %v.108, !dbg !22
  %base.111 = getelementptr i8, ptr addrspace(1) %A, i64 %v.31, !dbg !20
  %bytes.112 = select i1 %v.5, i64 2147483648, i64 0, !dbg !20
  %rsrc.113 = call ptr addrspace(8) @llvm.amdgcn.make.buffer.rsrc.p8.p1(ptr addrspace(1) %base.111, i16 0, i64 %bytes.112, i32 159744), !dbg !20
  %p.114 = getelementptr i8, ptr addrspace(3) @lds.0.A_shared, i32 %v.39, !dbg !20
  %v.115 = select i1 %v.24, i32 %v.35, i32 -2147483648, !dbg !20
  call void @llvm.amdgcn.raw.ptr.buffer.load.lds(ptr addrspace(8) %rsrc.113, ptr addrspace(3) %p.114, i32 16, i32 %v.115, i32 0, i32 0, i32 0), !alias.scope !6, !dbg !20
  %base.116 = getelementptr i8, ptr addrspace(1) %A, i64 %v.31, !dbg !20
  %bytes.117 = select i1 %v.5, i64 2147483648, i64 0, !dbg !20
  %rsrc.118 = call ptr addrspace(8) @llvm.amdgcn.make.buffer.rsrc.p8.p1(ptr addrspace(1) %base.116, i16 0, i64 %bytes.117, i32 159744), !dbg !20
  %p.119 = getelementptr i8, ptr addrspace(3) @lds.0.A_shared, i32 %v.39, !dbg !20
  %p.120 = getelementptr i8, ptr addrspace(3) %p.119, i32 1024, !dbg !20
  %v.121 = select i1 %v.26, i32 %v.37, i32 -2147483648, !dbg !20
  call void @llvm.amdgcn.raw.ptr.buffer.load.lds(ptr addrspace(8) %rsrc.118, ptr addrspace(3) %p.120, i32 16, i32 %v.121, i32 0, i32 0, i32 0), !alias.scope !6, !dbg !20
  %base.122 = getelementptr i8, ptr addrspace(1) %B, i64 %v.43, !dbg !21
  %bytes.123 = select i1 %v.5, i64 2147483648, i64 0, !dbg !21
  %rsrc.124 = call ptr addrspace(8) @llvm.amdgcn.make.buffer.rsrc.p8.p1(ptr addrspace(1) %base.122, i16 0, i64 %bytes.123, i32 159744), !dbg !21
  %p.125 = getelementptr i8, ptr addrspace(3) @lds.1.B_shared, i32 %v.44, !dbg !21
  %v.126 = select i1 %v.23, i32 %v.35, i32 -2147483648, !dbg !21
  call void @llvm.amdgcn.raw.ptr.buffer.load.lds(ptr addrspace(8) %rsrc.124, ptr addrspace(3) %p.125, i32 16, i32 %v.126, i32 0, i32 0, i32 0), !alias.scope !6, !dbg !21
  %base.127 = getelementptr i8, ptr addrspace(1) %A, i64 %v.61, !dbg !20
  %bytes.128 = select i1 %v.45, i64 2147483648, i64 0, !dbg !20
  %rsrc.129 = call ptr addrspace(8) @llvm.amdgcn.make.buffer.rsrc.p8.p1(ptr addrspace(1) %base.127, i16 0, i64 %bytes.128, i32 159744), !dbg !20
  %p.130 = getelementptr i8, ptr addrspace(3) @lds.0.A_shared, i32 %v.70, !dbg !20
  %v.131 = select i1 %v.53, i32 %v.65, i32 -2147483648, !dbg !20
  call void @llvm.amdgcn.raw.ptr.buffer.load.lds(ptr addrspace(8) %rsrc.129, ptr addrspace(3) %p.130, i32 16, i32 %v.131, i32 0, i32 0, i32 0), !alias.scope !6, !dbg !20
  %base.132 = getelementptr i8, ptr addrspace(1) %A, i64 %v.61, !dbg !20
  %bytes.133 = select i1 %v.45, i64 2147483648, i64 0, !dbg !20
  %rsrc.134 = call ptr addrspace(8) @llvm.amdgcn.make.buffer.rsrc.p8.p1(ptr addrspace(1) %base.132, i16 0, i64 %bytes.133, i32 159744), !dbg !20
  %p.135 = getelementptr i8, ptr addrspace(3) @lds.0.A_shared, i32 %v.70, !dbg !20
  %p.136 = getelementptr i8, ptr addrspace(3) %p.135, i32 1024, !dbg !20
  %v.137 = select i1 %v.55, i32 %v.67, i32 -2147483648, !dbg !20
  call void @llvm.amdgcn.raw.ptr.buffer.load.lds(ptr addrspace(8) %rsrc.134, ptr addrspace(3) %p.136, i32 16, i32 %v.137, i32 0, i32 0, i32 0), !alias.scope !6, !dbg !20
  %base.138 = getelementptr i8, ptr addrspace(1) %B, i64 %v.75, !dbg !21
  %bytes.139 = select i1 %v.45, i64 2147483648, i64 0, !dbg !21
  %rsrc.140 = call ptr addrspace(8) @llvm.amdgcn.make.buffer.rsrc.p8.p1(ptr addrspace(1) %base.138, i16 0, i64 %bytes.139, i32 159744), !dbg !21
  %p.141 = getelementptr i8, ptr addrspace(3) @lds.1.B_shared, i32 %v.77, !dbg !21
  %v.142 = select i1 %v.52, i32 %v.65, i32 -2147483648, !dbg !21
  call void @llvm.amdgcn.raw.ptr.buffer.load.lds(ptr addrspace(8) %rsrc.140, ptr addrspace(3) %p.141, i32 16, i32 %v.142, i32 0, i32 0, i32 0), !alias.scope !6, !dbg !21
  %v.143 = add i32 %v.97, 4096, !dbg !20
  %v.144 = add i64 %v.89, 128, !dbg !20
  %v.145 = add i32 64, %v.14, !dbg !20
  %v.146 = sub i32 %K, %v.145, !dbg !20
  %v.147 = icmp slt i32 0, %v.146, !dbg !20
  %v.148 = and i1 %v.83, %v.147, !dbg !20
  %v.149 = and i1 %v.84, %v.147, !dbg !20
  %v.150 = icmp slt i32 2, %v.4, !dbg !19
  %base.151 = getelementptr i8, ptr addrspace(1) %A, i64 %v.144, !dbg !20
  %bytes.152 = select i1 %v.150, i64 2147483648, i64 0, !dbg !20
  %rsrc.153 = call ptr addrspace(8) @llvm.amdgcn.make.buffer.rsrc.p8.p1(ptr addrspace(1) %base.151, i16 0, i64 %bytes.152, i32 159744), !dbg !20
  %p.154 = getelementptr i8, ptr addrspace(3) @lds.0.A_shared, i32 %v.143, !dbg !20
  %v.155 = select i1 %v.148, i32 %v.93, i32 -2147483648, !dbg !20
  call void @llvm.amdgcn.raw.ptr.buffer.load.lds(ptr addrspace(8) %rsrc.153, ptr addrspace(3) %p.154, i32 16, i32 %v.155, i32 0, i32 0, i32 0), !alias.scope !6, !dbg !20
  %base.156 = getelementptr i8, ptr addrspace(1) %A, i64 %v.144, !dbg !20
  %bytes.157 = select i1 %v.150, i64 2147483648, i64 0, !dbg !20
  %rsrc.158 = call ptr addrspace(8) @llvm.amdgcn.make.buffer.rsrc.p8.p1(ptr addrspace(1) %base.156, i16 0, i64 %bytes.157, i32 159744), !dbg !20
  %p.159 = getelementptr i8, ptr addrspace(3) @lds.0.A_shared, i32 %v.143, !dbg !20
  %p.160 = getelementptr i8, ptr addrspace(3) %p.159, i32 1024, !dbg !20
  %v.161 = select i1 %v.149, i32 %v.95, i32 -2147483648, !dbg !20
  call void @llvm.amdgcn.raw.ptr.buffer.load.lds(ptr addrspace(8) %rsrc.158, ptr addrspace(3) %p.160, i32 16, i32 %v.161, i32 0, i32 0, i32 0), !alias.scope !6, !dbg !20
  %v.162 = add i32 %v.102, 2048, !dbg !21
  %v.163 = add i64 %v.101, 128, !dbg !21
  %base.164 = getelementptr i8, ptr addrspace(1) %B, i64 %v.163, !dbg !21
  %bytes.165 = select i1 %v.150, i64 2147483648, i64 0, !dbg !21
  %rsrc.166 = call ptr addrspace(8) @llvm.amdgcn.make.buffer.rsrc.p8.p1(ptr addrspace(1) %base.164, i16 0, i64 %bytes.165, i32 159744), !dbg !21
  %p.167 = getelementptr i8, ptr addrspace(3) @lds.1.B_shared, i32 %v.162, !dbg !21
  %v.168 = select i1 %v.147, i32 %v.93, i32 -2147483648, !dbg !21
  call void @llvm.amdgcn.raw.ptr.buffer.load.lds(ptr addrspace(8) %rsrc.166, ptr addrspace(3) %p.167, i32 16, i32 %v.168, i32 0, i32 0, i32 0), !alias.scope !6, !dbg !21
  call void @llvm.amdgcn.s.waitcnt(i32 3958), !dbg !22  ; cdna4_interleave: RAW A_shared, B_shared, gemm.py:66+68 -> gemm.py:71
  fence syncscope("singlethread") release, !dbg !22  ; thread_barriers: RAW A_shared, gemm.py:66 -> gemm.py:71
  call void @llvm.amdgcn.s.waitcnt(i32 49279), !dbg !22  ; thread_barriers: RAW A_shared, gemm.py:66 -> gemm.py:71
  call void @llvm.amdgcn.s.barrier(), !dbg !22  ; thread_barriers: RAW A_shared, gemm.py:66 -> gemm.py:71
  fence syncscope("singlethread") acquire, !dbg !22  ; thread_barriers: RAW A_shared, gemm.py:66 -> gemm.py:71
  %p.169 = getelementptr i8, ptr addrspace(3) @lds.0.A_shared, i32 %v.109, !dbg !22
  %l.170 = load <8 x bfloat>, ptr addrspace(3) %p.169, align 16, !noalias !6, !dbg !22
  %p.171 = getelementptr i8, ptr addrspace(3) @lds.1.B_shared, i32 %v.110, !dbg !22
  %l.172 = load <8 x bfloat>, ptr addrspace(3) %p.171, align 16, !noalias !6, !dbg !22
  %v.173 = add i64 %v.89, 64, !dbg !19
  %v.174 = add i64 %v.101, 64, !dbg !19
  %v.177 = icmp slt i32 0, %v.4, !dbg !19
  br i1 %v.177, label %for.175, label %for_end.176, !dbg !19
for.175:
  %k.178 = phi i32 [0, %entry], [%v.246, %for.175], !dbg !19
  %C_local.179 = phi <4 x float> [<float 0.0, float 0.0, float 0.0, float 0.0>, %entry], [%acc.194, %for.175], !dbg !19
  %C_local.180 = phi <4 x float> [<float 0.0, float 0.0, float 0.0, float 0.0>, %entry], [%acc.230, %for.175], !dbg !19
  %v.181 = phi <8 x bfloat> [%l.170, %entry], [%l.198, %for.175], !dbg !19
  %v.182 = phi <8 x bfloat> [%l.172, %entry], [%l.234, %for.175], !dbg !19
  %slot.183 = phi i32 [0, %entry], [%v.237, %for.175], !dbg !19
  %slot_ahead.184 = phi i32 [1, %entry], [%v.240, %for.175], !dbg !19
  %slot_ahead_ahead.185 = phi i32 [0, %entry], [%v.243, %for.175], !dbg !19
  %v.186 = phi i64 [%v.173, %entry], [%v.244, %for.175], !dbg !19
  %v.187 = phi i64 [%v.174, %entry], [%v.245, %for.175], !dbg !19
  %v.188 = add i32 %k.178, 1, !dbg !19
  call void @llvm.amdgcn.sched.barrier(i32 0), !dbg !19
  call void @llvm.amdgcn.s.waitcnt(i32 49279), !dbg !19  ; cdna4_interleave: RAW registers: fragments of A_shared, B_shared before they are multiplied, gemm.py:71 -> gemm.py:71
  %v.189 = mul i32 %slot.183, 2048, !dbg !22
  %v.190 = add i32 %v.109, %v.189, !dbg !22
  %p.191 = getelementptr i8, ptr addrspace(3) @lds.0.A_shared, i32 %v.190, !dbg !22
  %p.192 = getelementptr i8, ptr addrspace(3) %p.191, i32 1024, !dbg !22
  %l.193 = load <8 x bfloat>, ptr addrspace(3) %p.192, align 16, !noalias !6, !dbg !22
  call void @llvm.amdgcn.s.setprio(i16 1), !dbg !22
  call void @llvm.amdgcn.sched.barrier(i32 0), !dbg !22
  %acc.194 = call <4 x float> @llvm.amdgcn.mfma.f32.16x16x32.bf16(<8 x bfloat> %v.182, <8 x bfloat> %v.181, <4 x float> %C_local.179, i32 0, i32 0, i32 0), !dbg !22
  call void @llvm.amdgcn.sched.barrier(i32 0), !dbg !22
  call void @llvm.amdgcn.s.setprio(i16 0), !dbg !22
  call void @llvm.amdgcn.sched.barrier(i32 0), !dbg !22
  call void @llvm.amdgcn.s.waitcnt(i32 3955), !dbg !22  ; cdna4_interleave: RAW A_shared, B_shared, gemm.py:66+68 -> gemm.py:71
  %v.195 = mul i32 %slot_ahead.184, 2048, !dbg !22
  %v.196 = add i32 %v.109, %v.195, !dbg !22
  fence syncscope("singlethread") release, !dbg !22  ; thread_barriers: RAW A_shared, gemm.py:66 -> gemm.py:71
  call void @llvm.amdgcn.s.waitcnt(i32 49279), !dbg !22  ; thread_barriers: RAW A_shared, gemm.py:66 -> gemm.py:71
  call void @llvm.amdgcn.s.barrier(), !dbg !22  ; thread_barriers: RAW A_shared, gemm.py:66 -> gemm.py:71
  fence syncscope("singlethread") acquire, !dbg !22  ; thread_barriers: RAW A_shared, gemm.py:66 -> gemm.py:71
  %p.197 = getelementptr i8, ptr addrspace(3) @lds.0.A_shared, i32 %v.196, !dbg !22
  %l.198 = load <8 x bfloat>, ptr addrspace(3) %p.197, align 16, !noalias !6, !dbg !22
  %v.199 = add i32 %v.188, 2, !dbg !19
  %v.200 = mul i32 %slot_ahead_ahead.185, 2048, !dbg !20
  %v.201 = add i32 %v.97, %v.200, !dbg !20
  %v.202 = mul i32 %v.188, 32, !dbg !20
  %v.203 = add i64 %v.186, 128, !dbg !20
  %v.204 = add i32 %v.202, 64, !dbg !20
  %v.205 = add i32 %v.204, %v.14, !dbg !20
  %v.206 = sub i32 %K, %v.205, !dbg !20
  %v.207 = icmp slt i32 0, %v.206, !dbg !20
  %v.208 = and i1 %v.83, %v.207, !dbg !20
  %v.209 = and i1 %v.84, %v.207, !dbg !20
  %v.210 = icmp slt i32 %v.199, %v.4, !dbg !19
  %base.211 = getelementptr i8, ptr addrspace(1) %A, i64 %v.203, !dbg !20
  %bytes.212 = select i1 %v.210, i64 2147483648, i64 0, !dbg !20
  %rsrc.213 = call ptr addrspace(8) @llvm.amdgcn.make.buffer.rsrc.p8.p1(ptr addrspace(1) %base.211, i16 0, i64 %bytes.212, i32 159744), !dbg !20
  %p.214 = getelementptr i8, ptr addrspace(3) @lds.0.A_shared, i32 %v.201, !dbg !20
  %v.215 = select i1 %v.208, i32 %v.93, i32 -2147483648, !dbg !20
  call void @llvm.amdgcn.raw.ptr.buffer.load.lds(ptr addrspace(8) %rsrc.213, ptr addrspace(3) %p.214, i32 16, i32 %v.215, i32 0, i32 0, i32 0), !alias.scope !6, !dbg !20
  %base.216 = getelementptr i8, ptr addrspace(1) %A, i64 %v.203, !dbg !20
  %bytes.217 = select i1 %v.210, i64 2147483648, i64 0, !dbg !20
  %rsrc.218 = call ptr addrspace(8) @llvm.amdgcn.make.buffer.rsrc.p8.p1(ptr addrspace(1) %base.216, i16 0, i64 %bytes.217, i32 159744), !dbg !20
  %p.219 = getelementptr i8, ptr addrspace(3) @lds.0.A_shared, i32 %v.201, !dbg !20
  %p.220 = getelementptr i8, ptr addrspace(3) %p.219, i32 1024, !dbg !20
  %v.221 = select i1 %v.209, i32 %v.95, i32 -2147483648, !dbg !20
  call void @llvm.amdgcn.raw.ptr.buffer.load.lds(ptr addrspace(8) %rsrc.218, ptr addrspace(3) %p.220, i32 16, i32 %v.221, i32 0, i32 0, i32 0), !alias.scope !6, !dbg !20
  %v.222 = mul i32 %slot_ahead_ahead.185, 1024, !dbg !21
  %v.223 = add i32 %v.102, %v.222, !dbg !21
  %v.224 = add i64 %v.187, 128, !dbg !21
  %base.225 = getelementptr i8, ptr addrspace(1) %B, i64 %v.224, !dbg !21
  %bytes.226 = select i1 %v.210, i64 2147483648, i64 0, !dbg !21
  %rsrc.227 = call ptr addrspace(8) @llvm.amdgcn.make.buffer.rsrc.p8.p1(ptr addrspace(1) %base.225, i16 0, i64 %bytes.226, i32 159744), !dbg !21
  %p.228 = getelementptr i8, ptr addrspace(3) @lds.1.B_shared, i32 %v.223, !dbg !21
  %v.229 = select i1 %v.207, i32 %v.93, i32 -2147483648, !dbg !21
  call void @llvm.amdgcn.raw.ptr.buffer.load.lds(ptr addrspace(8) %rsrc.227, ptr addrspace(3) %p.228, i32 16, i32 %v.229, i32 0, i32 0, i32 0), !alias.scope !6, !dbg !21
  call void @llvm.amdgcn.s.setprio(i16 1), !dbg !21
  call void @llvm.amdgcn.sched.barrier(i32 0), !dbg !22
  %acc.230 = call <4 x float> @llvm.amdgcn.mfma.f32.16x16x32.bf16(<8 x bfloat> %v.182, <8 x bfloat> %l.193, <4 x float> %C_local.180, i32 0, i32 0, i32 0), !dbg !22
  call void @llvm.amdgcn.sched.barrier(i32 0), !dbg !22
  %v.231 = mul i32 %slot_ahead.184, 1024, !dbg !22
  %v.232 = add i32 %v.110, %v.231, !dbg !22
  %p.233 = getelementptr i8, ptr addrspace(3) @lds.1.B_shared, i32 %v.232, !dbg !22
  %l.234 = load <8 x bfloat>, ptr addrspace(3) %p.233, align 16, !noalias !6, !dbg !22
  call void @llvm.amdgcn.s.setprio(i16 0), !dbg !22
  call void @llvm.amdgcn.sched.barrier(i32 0), !dbg !22
  %v.235 = add i32 %slot.183, 1, !dbg !19
  %v.236 = icmp sge i32 %v.235, 3, !dbg !19
  %v.237 = select i1 %v.236, i32 0, i32 %v.235, !dbg !19
  %v.238 = add i32 %slot_ahead.184, 1, !dbg !19
  %v.239 = icmp sge i32 %v.238, 3, !dbg !19
  %v.240 = select i1 %v.239, i32 0, i32 %v.238, !dbg !19
  %v.241 = add i32 %slot_ahead_ahead.185, 1, !dbg !19
  %v.242 = icmp sge i32 %v.241, 3, !dbg !19
  %v.243 = select i1 %v.242, i32 0, i32 %v.241, !dbg !19
  %v.244 = add i64 %v.186, 64, !dbg !19
  %v.245 = add i64 %v.187, 64, !dbg !19
  %v.246 = add i32 %k.178, 1, !dbg !19
  %v.247 = icmp slt i32 %v.246, %v.4, !dbg !19
  br i1 %v.247, label %for.175, label %for_end.176, !dbg !19
for_end.176:
  %C_local.248 = phi <4 x float> [<float 0.0, float 0.0, float 0.0, float 0.0>, %entry], [%acc.194, %for.175], !dbg !19
  %C_local.249 = phi <4 x float> [<float 0.0, float 0.0, float 0.0, float 0.0>, %entry], [%acc.230, %for.175], !dbg !19
  %v.250 = phi <8 x bfloat> [%l.170, %entry], [%l.198, %for.175], !dbg !19
  %v.251 = phi <8 x bfloat> [%l.172, %entry], [%l.234, %for.175], !dbg !19
  %v.252 = phi i32 [0, %entry], [%v.237, %for.175], !dbg !19
  %v.253 = phi i32 [1, %entry], [%v.240, %for.175], !dbg !19
  %v.254 = phi i32 [0, %entry], [%v.243, %for.175], !dbg !19
  %v.255 = phi i64 [%v.173, %entry], [%v.244, %for.175], !dbg !19
  %v.256 = phi i64 [%v.174, %entry], [%v.245, %for.175], !dbg !19
  call void @llvm.amdgcn.s.waitcnt(i32 3952), !dbg !19  ; cdna4_interleave: WAW A_shared, B_shared: complete before the memory is given back, gemm.py:66+68
  %v.257 = shufflevector <4 x float> %C_local.248, <4 x float> poison, <2 x i32> <i32 0, i32 1>, !dbg !23
  %v.258 = shufflevector <4 x float> %C_local.248, <4 x float> poison, <2 x i32> <i32 2, i32 3>, !dbg !23
  %v.259 = shufflevector <4 x float> %C_local.249, <4 x float> poison, <2 x i32> <i32 0, i32 1>, !dbg !23
  %v.260 = shufflevector <4 x float> %C_local.249, <4 x float> poison, <2 x i32> <i32 2, i32 3>, !dbg !23
  %v.261 = fptrunc <2 x float> %v.257 to <2 x bfloat>, !dbg !23
  %v.262 = fptrunc <2 x float> %v.258 to <2 x bfloat>, !dbg !23
  %v.263 = fptrunc <2 x float> %v.259 to <2 x bfloat>, !dbg !23
  %v.264 = fptrunc <2 x float> %v.260 to <2 x bfloat>, !dbg !23
  %v.265 = mul i32 %v.79, 4, !dbg !23
  %v.266 = mul i32 %by.2, 32, !dbg !23
  %v.267 = add i32 %v.266, %v.78, !dbg !23
  %v.268 = sub i32 %M, %v.267, !dbg !23
  %v.269 = icmp slt i32 0, %v.268, !dbg !23
  %v.270 = icmp slt i32 16, %v.268, !dbg !23
  %v.271 = sext i32 %v.267 to i64, !dbg !23
  %v.272 = sext i32 %N to i64, !dbg !23
  %v.273 = mul i64 %v.272, 2, !dbg !23
  %v.274 = mul i64 %v.271, %v.273, !dbg !23
  %v.275 = add i64 0, %v.274, !dbg !23
  %v.276 = mul i32 %bx.1, 16, !dbg !23
  %v.277 = add i32 %v.276, %v.265, !dbg !23
  %v.278 = sext i32 %v.277 to i64, !dbg !23
  %v.279 = mul i64 %v.278, 2, !dbg !23
  %v.280 = add i64 %v.275, %v.279, !dbg !23
  %v.281 = mul i64 %v.272, 32, !dbg !23
  %v.282 = add i64 %v.280, %v.281, !dbg !23
  %v.283 = shufflevector <2 x bfloat> %v.261, <2 x bfloat> %v.262, <4 x i32> <i32 0, i32 1, i32 2, i32 3>, !dbg !23
  %v.284 = shufflevector <2 x bfloat> %v.263, <2 x bfloat> %v.264, <4 x i32> <i32 0, i32 1, i32 2, i32 3>, !dbg !23
  br i1 %v.269, label %do.285, label %done.286, !dbg !23
do.285:
  %p.287 = getelementptr i8, ptr addrspace(1) %C, i64 %v.280, !dbg !23
  store <4 x bfloat> %v.283, ptr addrspace(1) %p.287, align 8, !dbg !23
  br label %done.286, !dbg !23
done.286:
  br i1 %v.270, label %do.288, label %done.289, !dbg !23
do.288:
  %p.290 = getelementptr i8, ptr addrspace(1) %C, i64 %v.282, !dbg !23
  store <4 x bfloat> %v.284, ptr addrspace(1) %p.290, align 8, !dbg !23
  br label %done.289, !dbg !23
done.289:
  ret void
}

declare <4 x float> @llvm.amdgcn.mfma.f32.16x16x32.bf16(<8 x bfloat>, <8 x bfloat>, <4 x float>, i32, i32, i32)
declare i32 @llvm.amdgcn.readfirstlane.i32(i32)
declare i32 @llvm.amdgcn.workgroup.id.x()
declare i32 @llvm.amdgcn.workgroup.id.y()
declare i32 @llvm.amdgcn.workitem.id.x()
declare ptr addrspace(8) @llvm.amdgcn.make.buffer.rsrc.p8.p1(ptr addrspace(1), i16, i64, i32)
declare void @llvm.amdgcn.raw.ptr.buffer.load.lds(ptr addrspace(8), ptr addrspace(3), i32, i32, i32, i32, i32)
declare void @llvm.amdgcn.s.barrier()
declare void @llvm.amdgcn.s.setprio(i16)
declare void @llvm.amdgcn.s.waitcnt(i32)
declare void @llvm.amdgcn.sched.barrier(i32)

attributes #0 = { nounwind "amdgpu-agpr-alloc"="0" "amdgpu-flat-work-group-size"="64,64" "uniform-work-group-size"="true" "amdgpu-ieee"="false" "target-features"="-packed-fp32-ops" "amdgpu-no-implicitarg-ptr" "amdgpu-no-dispatch-ptr" "amdgpu-no-queue-ptr" "amdgpu-no-dispatch-id" "amdgpu-no-default-queue" "amdgpu-no-completion-action" "amdgpu-no-heap-ptr" "amdgpu-no-hostcall-ptr" "amdgpu-no-lds-kernel-id" "amdgpu-no-multigrid-sync-arg" "amdgpu-no-flat-scratch-init" "amdgpu-no-workitem-id-y" "amdgpu-no-workitem-id-z" "amdgpu-no-workgroup-id-z" }
!0 = !{i32 64, i32 1, i32 1}
!1 = !{}
!4 = distinct !{!4, !"shared memory"}
!5 = distinct !{!5, !4, !"copies under way"}
!6 = !{!5}
!2 = !{i32 1, !"amdhsa_code_object_version", i32 500}
!llvm.module.flags = !{!2, !3}
!3 = !{i32 2, !"Debug Info Version", i32 3}
!llvm.dbg.cu = !{!10}
!8 = !DIFile(filename: "examples/gemm.py", directory: "")
!9 = !DISubroutineType(types: !{null})
!10 = distinct !DICompileUnit(language: DW_LANG_C, file: !8, producer: "minitile", isOptimized: true, runtimeVersion: 0, emissionKind: DebugDirectivesOnly)
!11 = distinct !DISubprogram(name: "gemm__block_M32_block_N16_threads64", scope: !8, file: !8, line: 53, type: !9, scopeLine: 53, spFlags: DISPFlagDefinition, unit: !10)
!12 = !DILocation(line: 53, column: 40, scope: !11)
!13 = !DILocation(line: 55, column: 14, scope: !11)
!14 = !DILocation(line: 58, column: 24, scope: !11)
!15 = !DILocation(line: 59, column: 24, scope: !11)
!16 = !DILocation(line: 61, column: 13, scope: !11)
!17 = !DILocation(line: 62, column: 34, scope: !11)
!18 = !DILocation(line: 62, column: 22, scope: !11)
!19 = !DILocation(line: 62, column: 13, scope: !11)
!20 = !DILocation(line: 66, column: 21, scope: !11)
!21 = !DILocation(line: 68, column: 21, scope: !11)
!22 = !DILocation(line: 71, column: 17, scope: !11)
!23 = !DILocation(line: 72, column: 13, scope: !11)
