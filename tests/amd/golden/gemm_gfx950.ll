; gemm for gfx950
target triple = "amdgcn-amd-amdhsa"

@lds.0.A_shared = internal addrspace(3) global [6144 x i8] poison, align 16
@lds.1.B_shared = internal addrspace(3) global [3072 x i8] poison, align 16

define amdgpu_kernel void @gemm(ptr addrspace(1) align 16 %A, ptr addrspace(1) align 16 %B, ptr addrspace(1) align 16 %C, i32 %M, i32 %K, i32 %N)
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
  %base.40 = getelementptr i8, ptr addrspace(1) %A, i64 %v.31, !dbg !20
  %rsrc.41 = call ptr addrspace(8) @llvm.amdgcn.make.buffer.rsrc.p8.p1(ptr addrspace(1) %base.40, i16 0, i64 2147483648, i32 159744), !dbg !20
  %p.42 = getelementptr i8, ptr addrspace(3) @lds.0.A_shared, i32 %v.39, !dbg !20
  %v.43 = select i1 %v.24, i32 %v.35, i32 -2147483648, !dbg !20
  %v.44 = select i1 %v.5, i32 %v.43, i32 -2147483648, !dbg !20
  call void @llvm.amdgcn.raw.ptr.buffer.load.lds(ptr addrspace(8) %rsrc.41, ptr addrspace(3) %p.42, i32 16, i32 %v.44, i32 0, i32 0, i32 0), !alias.scope !6, !dbg !20
  %p.45 = getelementptr i8, ptr addrspace(3) @lds.0.A_shared, i32 %v.39, !dbg !20
  %p.46 = getelementptr i8, ptr addrspace(3) %p.45, i32 1024, !dbg !20
  %v.47 = select i1 %v.26, i32 %v.37, i32 -2147483648, !dbg !20
  %v.48 = select i1 %v.5, i32 %v.47, i32 -2147483648, !dbg !20
  call void @llvm.amdgcn.raw.ptr.buffer.load.lds(ptr addrspace(8) %rsrc.41, ptr addrspace(3) %p.46, i32 16, i32 %v.48, i32 0, i32 0, i32 0), !alias.scope !6, !dbg !20
  %v.49 = mul i32 %bx.1, 16, !dbg !21
  %v.50 = sext i32 %v.49 to i64, !dbg !21
  %v.51 = mul i64 %v.50, %v.29, !dbg !21
  %v.52 = add i64 0, %v.51, !dbg !21
  %v.53 = add i32 0, %v.38, !dbg !21
  %base.54 = getelementptr i8, ptr addrspace(1) %B, i64 %v.52, !dbg !21
  %rsrc.55 = call ptr addrspace(8) @llvm.amdgcn.make.buffer.rsrc.p8.p1(ptr addrspace(1) %base.54, i16 0, i64 2147483648, i32 159744), !dbg !21
  %p.56 = getelementptr i8, ptr addrspace(3) @lds.1.B_shared, i32 %v.53, !dbg !21
  %v.57 = select i1 %v.23, i32 %v.35, i32 -2147483648, !dbg !21
  %v.58 = select i1 %v.5, i32 %v.57, i32 -2147483648, !dbg !21
  call void @llvm.amdgcn.raw.ptr.buffer.load.lds(ptr addrspace(8) %rsrc.55, ptr addrspace(3) %p.56, i32 16, i32 %v.58, i32 0, i32 0, i32 0), !alias.scope !6, !dbg !21
  %v.59 = icmp slt i32 1, %v.4, !dbg !19
  %v.60 = mul i32 %by.2, 32, !dbg !20
  %v.61 = add i32 %v.60, %v.8, !dbg !20
  %v.62 = sub i32 %M, %v.61, !dbg !20
  %v.63 = add i32 %v.14, 32, !dbg !20
  %v.64 = sub i32 %K, %v.63, !dbg !20
  %v.65 = icmp slt i32 0, %v.62, !dbg !20
  %v.66 = icmp slt i32 0, %v.64, !dbg !20
  %v.67 = and i1 %v.65, %v.66, !dbg !20
  %v.68 = icmp slt i32 16, %v.62, !dbg !20
  %v.69 = and i1 %v.68, %v.66, !dbg !20
  %v.70 = sext i32 %v.60 to i64, !dbg !20
  %v.71 = sext i32 %K to i64, !dbg !20
  %v.72 = mul i64 %v.71, 2, !dbg !20
  %v.73 = mul i64 %v.70, %v.72, !dbg !20
  %v.74 = add i64 0, %v.73, !dbg !20
  %v.75 = add i64 %v.74, 64, !dbg !20
  %v.76 = mul i32 %K, 2, !dbg !20
  %v.77 = mul i32 %v.8, %v.76, !dbg !20
  %v.78 = mul i32 %v.14, 2, !dbg !20
  %v.79 = add i32 %v.77, %v.78, !dbg !20
  %v.80 = mul i32 %K, 32, !dbg !20
  %v.81 = add i32 %v.79, %v.80, !dbg !20
  %v.82 = mul i32 %wave.17, 1024, !dbg !20
  %v.83 = add i32 0, %v.82, !dbg !20
  %v.84 = add i32 %v.83, 2048, !dbg !20
  %base.85 = getelementptr i8, ptr addrspace(1) %A, i64 %v.75, !dbg !20
  %rsrc.86 = call ptr addrspace(8) @llvm.amdgcn.make.buffer.rsrc.p8.p1(ptr addrspace(1) %base.85, i16 0, i64 2147483648, i32 159744), !dbg !20
  %p.87 = getelementptr i8, ptr addrspace(3) @lds.0.A_shared, i32 %v.84, !dbg !20
  %v.88 = select i1 %v.67, i32 %v.79, i32 -2147483648, !dbg !20
  %v.89 = select i1 %v.59, i32 %v.88, i32 -2147483648, !dbg !20
  call void @llvm.amdgcn.raw.ptr.buffer.load.lds(ptr addrspace(8) %rsrc.86, ptr addrspace(3) %p.87, i32 16, i32 %v.89, i32 0, i32 0, i32 0), !alias.scope !6, !dbg !20
  %p.90 = getelementptr i8, ptr addrspace(3) @lds.0.A_shared, i32 %v.84, !dbg !20
  %p.91 = getelementptr i8, ptr addrspace(3) %p.90, i32 1024, !dbg !20
  %v.92 = select i1 %v.69, i32 %v.81, i32 -2147483648, !dbg !20
  %v.93 = select i1 %v.59, i32 %v.92, i32 -2147483648, !dbg !20
  call void @llvm.amdgcn.raw.ptr.buffer.load.lds(ptr addrspace(8) %rsrc.86, ptr addrspace(3) %p.91, i32 16, i32 %v.93, i32 0, i32 0, i32 0), !alias.scope !6, !dbg !20
  %v.94 = mul i32 %bx.1, 16, !dbg !21
  %v.95 = sext i32 %v.94 to i64, !dbg !21
  %v.96 = mul i64 %v.95, %v.72, !dbg !21
  %v.97 = add i64 0, %v.96, !dbg !21
  %v.98 = add i64 %v.97, 64, !dbg !21
  %v.99 = add i32 0, %v.82, !dbg !21
  %v.100 = add i32 %v.99, 1024, !dbg !21
  %base.101 = getelementptr i8, ptr addrspace(1) %B, i64 %v.98, !dbg !21
  %rsrc.102 = call ptr addrspace(8) @llvm.amdgcn.make.buffer.rsrc.p8.p1(ptr addrspace(1) %base.101, i16 0, i64 2147483648, i32 159744), !dbg !21
  %p.103 = getelementptr i8, ptr addrspace(3) @lds.1.B_shared, i32 %v.100, !dbg !21
  %v.104 = select i1 %v.66, i32 %v.79, i32 -2147483648, !dbg !21
  %v.105 = select i1 %v.59, i32 %v.104, i32 -2147483648, !dbg !21
  call void @llvm.amdgcn.raw.ptr.buffer.load.lds(ptr addrspace(8) %rsrc.102, ptr addrspace(3) %p.103, i32 16, i32 %v.105, i32 0, i32 0, i32 0), !alias.scope !6, !dbg !21
  %v.106 = and i32 %tid.6, 15, !dbg !22
  %v.107 = ashr i32 %tid.6, 4, !dbg !22
  %v.108 = mul i32 %by.2, 32, !dbg !20
  %v.109 = add i32 %v.108, %v.8, !dbg !20
  %v.110 = sub i32 %M, %v.109, !dbg !20
  %v.111 = icmp slt i32 0, %v.110, !dbg !20
  %v.112 = icmp slt i32 16, %v.110, !dbg !20
  %v.113 = sext i32 %v.108 to i64, !dbg !20
  %v.114 = sext i32 %K to i64, !dbg !20
  %v.115 = mul i64 %v.114, 2, !dbg !20
  %v.116 = mul i64 %v.113, %v.115, !dbg !20
  %v.117 = add i64 0, %v.116, !dbg !20
  %v.118 = mul i32 %K, 2, !dbg !20
  %v.119 = mul i32 %v.8, %v.118, !dbg !20
  %v.120 = mul i32 %v.14, 2, !dbg !20
  %v.121 = add i32 %v.119, %v.120, !dbg !20
  %v.122 = mul i32 %K, 32, !dbg !20
  %v.123 = add i32 %v.121, %v.122, !dbg !20
  %v.124 = mul i32 %wave.17, 1024, !dbg !20
  %v.125 = add i32 0, %v.124, !dbg !20
  %v.126 = mul i32 %bx.1, 16, !dbg !21
  %v.127 = sext i32 %v.126 to i64, !dbg !21
  %v.128 = mul i64 %v.127, %v.115, !dbg !21
  %v.129 = add i64 0, %v.128, !dbg !21
  %v.130 = add i32 0, %v.124, !dbg !21
  %v.131 = mul i32 %v.106, 64, !dbg !22
  %v.132 = mul i32 %v.107, 16, !dbg !22
  %v.133 = add i32 %v.131, %v.132, !dbg !22
  %v.134 = ashr i32 %v.133, 3, !dbg !22
  %v.135 = and i32 %v.134, 48, !dbg !22
  %v.136 = xor i32 %v.133, %v.135, !dbg !22
  %v.137 = add i32 0, %v.136, !dbg !22
  %v.138 = add i32 0, %v.136, !dbg !22
  %v.141 = icmp slt i32 0, %v.4, !dbg !19
  br i1 %v.141, label %for.139, label %for_end.140, !dbg !19
for.139:
  %k.142 = phi i32 [0, %entry], [%v.199, %for.139], !dbg !19
  %C_local.143 = phi <4 x float> [<float 0.0, float 0.0, float 0.0, float 0.0>, %entry], [%acc.175, %for.139], !dbg !19
  %C_local.144 = phi <4 x float> [<float 0.0, float 0.0, float 0.0, float 0.0>, %entry], [%acc.176, %for.139], !dbg !19
  %slot.145 = phi i32 [0, %entry], [%v.193, %for.139], !dbg !19
  %slot_ahead.146 = phi i32 [2, %entry], [%v.196, %for.139], !dbg !19
  %v.147 = phi i64 [%v.117, %entry], [%v.197, %for.139], !dbg !19
  %v.148 = phi i64 [%v.129, %entry], [%v.198, %for.139], !dbg !19
  call void @llvm.amdgcn.s.waitcnt(i32 3955), !dbg !19
  %v.149 = add i32 %k.142, 2, !dbg !19
  %v.150 = icmp slt i32 %v.149, %v.4, !dbg !19
  %v.151 = mul i32 %k.142, 32, !dbg !20
  %v.152 = add i32 %v.151, 64, !dbg !20
  %v.153 = add i32 %v.152, %v.14, !dbg !20
  %v.154 = sub i32 %K, %v.153, !dbg !20
  %v.155 = icmp slt i32 0, %v.154, !dbg !20
  %v.156 = and i1 %v.111, %v.155, !dbg !20
  %v.157 = and i1 %v.112, %v.155, !dbg !20
  %v.158 = add i64 %v.147, 128, !dbg !20
  %v.159 = mul i32 %slot_ahead.146, 2048, !dbg !20
  %v.160 = add i32 %v.125, %v.159, !dbg !20
  %v.161 = add i64 %v.148, 128, !dbg !21
  %v.162 = mul i32 %slot_ahead.146, 1024, !dbg !21
  %v.163 = add i32 %v.130, %v.162, !dbg !21
  %v.164 = mul i32 %slot.145, 2048, !dbg !22
  %v.165 = add i32 %v.137, %v.164, !dbg !22
  %v.166 = mul i32 %slot.145, 1024, !dbg !22
  %v.167 = add i32 %v.138, %v.166, !dbg !22
  fence syncscope("singlethread") release, !dbg !22
  call void @llvm.amdgcn.s.waitcnt(i32 49279), !dbg !22
  call void @llvm.amdgcn.s.barrier(), !dbg !22
  fence syncscope("singlethread") acquire, !dbg !22
  %p.168 = getelementptr i8, ptr addrspace(3) @lds.0.A_shared, i32 %v.165, !dbg !22
  %l.169 = load <8 x bfloat>, ptr addrspace(3) %p.168, align 16, !noalias !6, !dbg !22
  %p.170 = getelementptr i8, ptr addrspace(3) @lds.0.A_shared, i32 %v.165, !dbg !22
  %p.171 = getelementptr i8, ptr addrspace(3) %p.170, i32 1024, !dbg !22
  %l.172 = load <8 x bfloat>, ptr addrspace(3) %p.171, align 16, !noalias !6, !dbg !22
  %p.173 = getelementptr i8, ptr addrspace(3) @lds.1.B_shared, i32 %v.167, !dbg !22
  %l.174 = load <8 x bfloat>, ptr addrspace(3) %p.173, align 16, !noalias !6, !dbg !22
  %acc.175 = call <4 x float> @llvm.amdgcn.mfma.f32.16x16x32.bf16(<8 x bfloat> %l.174, <8 x bfloat> %l.169, <4 x float> %C_local.143, i32 0, i32 0, i32 0), !dbg !22
  %acc.176 = call <4 x float> @llvm.amdgcn.mfma.f32.16x16x32.bf16(<8 x bfloat> %l.174, <8 x bfloat> %l.172, <4 x float> %C_local.144, i32 0, i32 0, i32 0), !dbg !22
  %base.177 = getelementptr i8, ptr addrspace(1) %A, i64 %v.158, !dbg !20
  %rsrc.178 = call ptr addrspace(8) @llvm.amdgcn.make.buffer.rsrc.p8.p1(ptr addrspace(1) %base.177, i16 0, i64 2147483648, i32 159744), !dbg !20
  %p.179 = getelementptr i8, ptr addrspace(3) @lds.0.A_shared, i32 %v.160, !dbg !20
  %v.180 = select i1 %v.156, i32 %v.121, i32 -2147483648, !dbg !20
  %v.181 = select i1 %v.150, i32 %v.180, i32 -2147483648, !dbg !20
  call void @llvm.amdgcn.raw.ptr.buffer.load.lds(ptr addrspace(8) %rsrc.178, ptr addrspace(3) %p.179, i32 16, i32 %v.181, i32 0, i32 0, i32 0), !alias.scope !6, !dbg !20
  %p.182 = getelementptr i8, ptr addrspace(3) @lds.0.A_shared, i32 %v.160, !dbg !20
  %p.183 = getelementptr i8, ptr addrspace(3) %p.182, i32 1024, !dbg !20
  %v.184 = select i1 %v.157, i32 %v.123, i32 -2147483648, !dbg !20
  %v.185 = select i1 %v.150, i32 %v.184, i32 -2147483648, !dbg !20
  call void @llvm.amdgcn.raw.ptr.buffer.load.lds(ptr addrspace(8) %rsrc.178, ptr addrspace(3) %p.183, i32 16, i32 %v.185, i32 0, i32 0, i32 0), !alias.scope !6, !dbg !20
  %base.186 = getelementptr i8, ptr addrspace(1) %B, i64 %v.161, !dbg !21
  %rsrc.187 = call ptr addrspace(8) @llvm.amdgcn.make.buffer.rsrc.p8.p1(ptr addrspace(1) %base.186, i16 0, i64 2147483648, i32 159744), !dbg !21
  %p.188 = getelementptr i8, ptr addrspace(3) @lds.1.B_shared, i32 %v.163, !dbg !21
  %v.189 = select i1 %v.155, i32 %v.121, i32 -2147483648, !dbg !21
  %v.190 = select i1 %v.150, i32 %v.189, i32 -2147483648, !dbg !21
  call void @llvm.amdgcn.raw.ptr.buffer.load.lds(ptr addrspace(8) %rsrc.187, ptr addrspace(3) %p.188, i32 16, i32 %v.190, i32 0, i32 0, i32 0), !alias.scope !6, !dbg !21
  %v.191 = add i32 %slot.145, 1, !dbg !19
  %v.192 = icmp sge i32 %v.191, 3, !dbg !19
  %v.193 = select i1 %v.192, i32 0, i32 %v.191, !dbg !19
  %v.194 = add i32 %slot_ahead.146, 1, !dbg !19
  %v.195 = icmp sge i32 %v.194, 3, !dbg !19
  %v.196 = select i1 %v.195, i32 0, i32 %v.194, !dbg !19
  %v.197 = add i64 %v.147, 64, !dbg !19
  %v.198 = add i64 %v.148, 64, !dbg !19
  %v.199 = add i32 %k.142, 1, !dbg !19
  %v.200 = icmp slt i32 %v.199, %v.4, !dbg !19
  br i1 %v.200, label %for.139, label %for_end.140, !dbg !19
for_end.140:
  %C_local.201 = phi <4 x float> [<float 0.0, float 0.0, float 0.0, float 0.0>, %entry], [%acc.175, %for.139], !dbg !19
  %C_local.202 = phi <4 x float> [<float 0.0, float 0.0, float 0.0, float 0.0>, %entry], [%acc.176, %for.139], !dbg !19
  %v.203 = phi i32 [0, %entry], [%v.193, %for.139], !dbg !19
  %v.204 = phi i32 [2, %entry], [%v.196, %for.139], !dbg !19
  %v.205 = phi i64 [%v.117, %entry], [%v.197, %for.139], !dbg !19
  %v.206 = phi i64 [%v.129, %entry], [%v.198, %for.139], !dbg !19
  call void @llvm.amdgcn.s.waitcnt(i32 3955), !dbg !19
  call void @llvm.amdgcn.s.waitcnt(i32 3952), !dbg !19
  %v.207 = shufflevector <4 x float> %C_local.201, <4 x float> poison, <2 x i32> <i32 0, i32 1>, !dbg !23
  %v.208 = shufflevector <4 x float> %C_local.201, <4 x float> poison, <2 x i32> <i32 2, i32 3>, !dbg !23
  %v.209 = shufflevector <4 x float> %C_local.202, <4 x float> poison, <2 x i32> <i32 0, i32 1>, !dbg !23
  %v.210 = shufflevector <4 x float> %C_local.202, <4 x float> poison, <2 x i32> <i32 2, i32 3>, !dbg !23
  %v.211 = fptrunc <2 x float> %v.207 to <2 x bfloat>, !dbg !23
  %v.212 = fptrunc <2 x float> %v.208 to <2 x bfloat>, !dbg !23
  %v.213 = fptrunc <2 x float> %v.209 to <2 x bfloat>, !dbg !23
  %v.214 = fptrunc <2 x float> %v.210 to <2 x bfloat>, !dbg !23
  %v.215 = mul i32 %v.107, 4, !dbg !23
  %v.216 = mul i32 %by.2, 32, !dbg !23
  %v.217 = add i32 %v.216, %v.106, !dbg !23
  %v.218 = sub i32 %M, %v.217, !dbg !23
  %v.219 = icmp slt i32 0, %v.218, !dbg !23
  %v.220 = icmp slt i32 16, %v.218, !dbg !23
  %v.221 = sext i32 %v.217 to i64, !dbg !23
  %v.222 = sext i32 %N to i64, !dbg !23
  %v.223 = mul i64 %v.222, 2, !dbg !23
  %v.224 = mul i64 %v.221, %v.223, !dbg !23
  %v.225 = add i64 0, %v.224, !dbg !23
  %v.226 = mul i32 %bx.1, 16, !dbg !23
  %v.227 = add i32 %v.226, %v.215, !dbg !23
  %v.228 = sext i32 %v.227 to i64, !dbg !23
  %v.229 = mul i64 %v.228, 2, !dbg !23
  %v.230 = add i64 %v.225, %v.229, !dbg !23
  %v.231 = mul i64 %v.222, 32, !dbg !23
  %v.232 = add i64 %v.230, %v.231, !dbg !23
  %v.233 = shufflevector <2 x bfloat> %v.211, <2 x bfloat> %v.212, <4 x i32> <i32 0, i32 1, i32 2, i32 3>, !dbg !23
  %v.234 = shufflevector <2 x bfloat> %v.213, <2 x bfloat> %v.214, <4 x i32> <i32 0, i32 1, i32 2, i32 3>, !dbg !23
  br i1 %v.219, label %do.235, label %done.236, !dbg !23
do.235:
  %p.237 = getelementptr i8, ptr addrspace(1) %C, i64 %v.230, !dbg !23
  store <4 x bfloat> %v.233, ptr addrspace(1) %p.237, align 8, !dbg !23
  br label %done.236, !dbg !23
done.236:
  br i1 %v.220, label %do.238, label %done.239, !dbg !23
do.238:
  %p.240 = getelementptr i8, ptr addrspace(1) %C, i64 %v.232, !dbg !23
  store <4 x bfloat> %v.234, ptr addrspace(1) %p.240, align 8, !dbg !23
  br label %done.239, !dbg !23
done.239:
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
declare void @llvm.amdgcn.s.waitcnt(i32)

attributes #0 = { nounwind "amdgpu-agpr-alloc"="0" "amdgpu-flat-work-group-size"="64,64" "uniform-work-group-size"="true" "amdgpu-ieee"="false" "amdgpu-no-implicitarg-ptr" "amdgpu-no-dispatch-ptr" "amdgpu-no-queue-ptr" "amdgpu-no-dispatch-id" "amdgpu-no-default-queue" "amdgpu-no-completion-action" "amdgpu-no-heap-ptr" "amdgpu-no-hostcall-ptr" "amdgpu-no-lds-kernel-id" "amdgpu-no-multigrid-sync-arg" "amdgpu-no-flat-scratch-init" "amdgpu-no-workitem-id-y" "amdgpu-no-workitem-id-z" "amdgpu-no-workgroup-id-z" }
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
!11 = distinct !DISubprogram(name: "gemm", scope: !8, file: !8, line: 50, type: !9, scopeLine: 50, spFlags: DISPFlagDefinition, unit: !10)
!12 = !DILocation(line: 50, column: 46, scope: !11)
!13 = !DILocation(line: 50, column: 14, scope: !11)
!14 = !DILocation(line: 53, column: 24, scope: !11)
!15 = !DILocation(line: 54, column: 24, scope: !11)
!16 = !DILocation(line: 56, column: 13, scope: !11)
!17 = !DILocation(line: 57, column: 34, scope: !11)
!18 = !DILocation(line: 57, column: 22, scope: !11)
!19 = !DILocation(line: 57, column: 13, scope: !11)
!20 = !DILocation(line: 61, column: 21, scope: !11)
!21 = !DILocation(line: 63, column: 21, scope: !11)
!22 = !DILocation(line: 66, column: 17, scope: !11)
!23 = !DILocation(line: 67, column: 13, scope: !11)
