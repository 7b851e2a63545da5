; gemm__block_M32_block_N16_threads64 for gfx942
target datalayout = "e-m:e-p:64:64-p1:64:64-p2:32:32-p3:32:32-p4:64:64-p5:32:32-p6:32:32-p7:160:256:256:32-p8:128:128:128:48-p9:192:256:256:32-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024-v2048:2048-n32:64-S32-A5-G1-ni:7:8:9"
target triple = "amdgcn-amd-amdhsa"

@lds.0.A_shared = internal addrspace(3) global [4096 x i8] poison, align 16
@lds.1.B_shared = internal addrspace(3) global [2048 x i8] poison, align 16

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
  %v.8 = and i32 %tid.6, 3, !dbg !20
  %v.9 = mul i32 %v.8, 8, !dbg !20
  br i1 %v.5, label %then.10, label %else.11, !dbg !19
then.10:
  %v.13 = mul i32 %by.2, 32, !dbg !20
  %v.14 = add i32 %v.13, %v.7, !dbg !20
  %v.15 = sub i32 %M, %v.14, !dbg !20
  %v.16 = sub i32 %K, %v.9, !dbg !20
  %v.17 = icmp slt i32 0, %v.15, !dbg !20
  %v.18 = icmp slt i32 0, %v.16, !dbg !20
  %v.19 = and i1 %v.17, %v.18, !dbg !20
  %v.20 = icmp slt i32 16, %v.15, !dbg !20
  %v.21 = and i1 %v.20, %v.18, !dbg !20
  %v.22 = sext i32 %v.14 to i64, !dbg !20
  %v.23 = sext i32 %K to i64, !dbg !20
  %v.24 = mul i64 %v.23, 2, !dbg !20
  %v.25 = mul i64 %v.22, %v.24, !dbg !20
  %v.26 = add i64 0, %v.25, !dbg !20
  %v.27 = sext i32 %v.9 to i64, !dbg !20
  %v.28 = mul i64 %v.27, 2, !dbg !20
  %v.29 = add i64 %v.26, %v.28, !dbg !20
  %v.30 = mul i64 %v.23, 32, !dbg !20
  %v.31 = add i64 %v.29, %v.30, !dbg !20
  br i1 %v.19, label %load.32, label %loaded.33, !dbg !20
load.32:
  %p.34 = getelementptr i8, ptr addrspace(1) %A, i64 %v.29, !dbg !20
  %l.35 = load <8 x bfloat>, ptr addrspace(1) %p.34, align 16, !dbg !20
  br label %loaded.33, !dbg !20
loaded.33:
  %l.36 = phi <8 x bfloat> [zeroinitializer, %then.10], [%l.35, %load.32], !dbg !20
  br i1 %v.21, label %load.37, label %loaded.38, !dbg !20
load.37:
  %p.39 = getelementptr i8, ptr addrspace(1) %A, i64 %v.31, !dbg !20
  %l.40 = load <8 x bfloat>, ptr addrspace(1) %p.39, align 16, !dbg !20
  br label %loaded.38, !dbg !20
loaded.38:
  %l.41 = phi <8 x bfloat> [zeroinitializer, %loaded.33], [%l.40, %load.37], !dbg !20
  %v.42 = mul i32 %bx.1, 16, !dbg !21
  %v.43 = add i32 %v.42, %v.7, !dbg !21
  %v.44 = sext i32 %v.43 to i64, !dbg !21
  %v.45 = mul i64 %v.44, %v.24, !dbg !21
  %v.46 = add i64 0, %v.45, !dbg !21
  %v.47 = add i64 %v.46, %v.28, !dbg !21
  br i1 %v.18, label %load.48, label %loaded.49, !dbg !21
load.48:
  %p.50 = getelementptr i8, ptr addrspace(1) %B, i64 %v.47, !dbg !21
  %l.51 = load <8 x bfloat>, ptr addrspace(1) %p.50, align 16, !dbg !21
  br label %loaded.49, !dbg !21
loaded.49:
  %l.52 = phi <8 x bfloat> [zeroinitializer, %loaded.38], [%l.51, %load.48], !dbg !21
  br label %endif.12, !dbg !19
else.11:
  br label %endif.12, !dbg !19
endif.12:
  %v.53 = phi <8 x bfloat> [%l.36, %loaded.49], [<bfloat 0xR0000, bfloat 0xR0000, bfloat 0xR0000, bfloat 0xR0000, bfloat 0xR0000, bfloat 0xR0000, bfloat 0xR0000, bfloat 0xR0000>, %else.11], !dbg !19
  %v.54 = phi <8 x bfloat> [%l.41, %loaded.49], [<bfloat 0xR0000, bfloat 0xR0000, bfloat 0xR0000, bfloat 0xR0000, bfloat 0xR0000, bfloat 0xR0000, bfloat 0xR0000, bfloat 0xR0000>, %else.11], !dbg !19
  %v.55 = phi <8 x bfloat> [%l.52, %loaded.49], [<bfloat 0xR0000, bfloat 0xR0000, bfloat 0xR0000, bfloat 0xR0000, bfloat 0xR0000, bfloat 0xR0000, bfloat 0xR0000, bfloat 0xR0000>, %else.11], !dbg !19
  %v.56 = and i32 %tid.6, 15, !dbg !22
  %v.57 = ashr i32 %tid.6, 4, !dbg !22
  %v.58 = mul i32 %v.7, 64, !dbg !20
  %v.59 = mul i32 %v.8, 16, !dbg !20
  %v.60 = add i32 %v.58, %v.59, !dbg !20
  %v.61 = ashr i32 %v.60, 3, !dbg !20
  %v.62 = and i32 %v.61, 48, !dbg !20
  %v.63 = xor i32 %v.60, %v.62, !dbg !20
  %v.64 = add i32 0, %v.63, !dbg !20
  %v.65 = add i32 0, %v.63, !dbg !21
  %v.66 = mul i32 %by.2, 32, !dbg !20
  %v.67 = add i32 %v.66, %v.7, !dbg !20
  %v.68 = sub i32 %M, %v.67, !dbg !20
  %v.69 = icmp slt i32 0, %v.68, !dbg !20
  %v.70 = icmp slt i32 16, %v.68, !dbg !20
  %v.71 = sext i32 %v.67 to i64, !dbg !20
  %v.72 = sext i32 %K to i64, !dbg !20
  %v.73 = mul i64 %v.72, 2, !dbg !20
  %v.74 = mul i64 %v.71, %v.73, !dbg !20
  %v.75 = add i64 0, %v.74, !dbg !20
  %v.76 = sext i32 %v.9 to i64, !dbg !20
  %v.77 = mul i64 %v.76, 2, !dbg !20
  %v.78 = add i64 %v.75, %v.77, !dbg !20
  %v.79 = mul i64 %v.72, 32, !dbg !20
  %v.80 = add i64 %v.78, %v.79, !dbg !20
  %v.81 = mul i32 %bx.1, 16, !dbg !21
  %v.82 = add i32 %v.81, %v.7, !dbg !21
  %v.83 = sext i32 %v.82 to i64, !dbg !21
  %v.84 = mul i64 %v.83, %v.73, !dbg !21
  %v.85 = add i64 0, %v.84, !dbg !21
  %v.86 = add i64 %v.85, %v.77, !dbg !21
  %v.87 = mul i32 %v.56, 64, !dbg !22
  %v.88 = mul i32 %v.57, 16, !dbg !22
  %v.89 = add i32 %v.87, %v.88, !dbg !22
  %v.90 = ashr i32 %v.89, 3, !dbg !22
  %v.91 = and i32 %v.90, 48, !dbg !22
  %v.92 = xor i32 %v.89, %v.91, !dbg !22
  %v.93 = add i32 0, %v.92, !dbg !22
  %v.94 = add i32 0, %v.92, !dbg !22
  %v.97 = icmp slt i32 0, %v.4, !dbg !19
  br i1 %v.97, label %for.95, label %for_end.96, !dbg !19
for.95:
  %k.98 = phi i32 [0, %endif.12], [%v.177, %endif.120], !dbg !19
  %C_local.99 = phi <4 x float> [<float 0.0, float 0.0, float 0.0, float 0.0>, %endif.12], [%acc.172, %endif.120], !dbg !19
  %C_local.100 = phi <4 x float> [<float 0.0, float 0.0, float 0.0, float 0.0>, %endif.12], [%acc.173, %endif.120], !dbg !19
  %ahead.101 = phi <8 x bfloat> [%v.53, %endif.12], [%v.146, %endif.120], !dbg !19
  %ahead.102 = phi <8 x bfloat> [%v.54, %endif.12], [%v.147, %endif.120], !dbg !19
  %ahead.103 = phi <8 x bfloat> [%v.55, %endif.12], [%v.148, %endif.120], !dbg !19
  %v.104 = phi i64 [%v.78, %endif.12], [%v.174, %endif.120], !dbg !19
  %v.105 = phi i64 [%v.80, %endif.12], [%v.175, %endif.120], !dbg !19
  %v.106 = phi i64 [%v.86, %endif.12], [%v.176, %endif.120], !dbg !19
  %v.107 = and i32 %k.98, 1, !dbg !19
  %v.108 = mul i32 %v.107, 2048, !dbg !20
  %v.109 = add i32 %v.64, %v.108, !dbg !20
  %p.110 = getelementptr i8, ptr addrspace(3) @lds.0.A_shared, i32 %v.109, !dbg !20
  store <8 x bfloat> %ahead.101, ptr addrspace(3) %p.110, align 16, !dbg !20
  %p.111 = getelementptr i8, ptr addrspace(3) @lds.0.A_shared, i32 %v.109, !dbg !20
  %p.112 = getelementptr i8, ptr addrspace(3) %p.111, i32 1024, !dbg !20
  store <8 x bfloat> %ahead.102, ptr addrspace(3) %p.112, align 16, !dbg !20
  %v.113 = mul i32 %v.107, 1024, !dbg !21
  %v.114 = add i32 %v.65, %v.113, !dbg !21
  %p.115 = getelementptr i8, ptr addrspace(3) @lds.1.B_shared, i32 %v.114, !dbg !21
  store <8 x bfloat> %ahead.103, ptr addrspace(3) %p.115, align 16, !dbg !21
  %v.116 = add i32 %k.98, 1, !dbg !19
  %v.117 = icmp slt i32 %v.116, %v.4, !dbg !19
  br i1 %v.117, label %then.118, label %else.119, !dbg !19
then.118:
  %v.121 = mul i32 %k.98, 32, !dbg !20
  %v.122 = add i32 %v.121, 32, !dbg !20
  %v.123 = add i32 %v.122, %v.9, !dbg !20
  %v.124 = sub i32 %K, %v.123, !dbg !20
  %v.125 = icmp slt i32 0, %v.124, !dbg !20
  %v.126 = and i1 %v.69, %v.125, !dbg !20
  %v.127 = and i1 %v.70, %v.125, !dbg !20
  br i1 %v.126, label %load.128, label %loaded.129, !dbg !20
load.128:
  %p.130 = getelementptr i8, ptr addrspace(1) %A, i64 %v.104, !dbg !20
  %p.131 = getelementptr i8, ptr addrspace(1) %p.130, i64 64, !dbg !20
  %l.132 = load <8 x bfloat>, ptr addrspace(1) %p.131, align 16, !dbg !20
  br label %loaded.129, !dbg !20
loaded.129:
  %l.133 = phi <8 x bfloat> [zeroinitializer, %then.118], [%l.132, %load.128], !dbg !20
  br i1 %v.127, label %load.134, label %loaded.135, !dbg !20
load.134:
  %p.136 = getelementptr i8, ptr addrspace(1) %A, i64 %v.105, !dbg !20
  %p.137 = getelementptr i8, ptr addrspace(1) %p.136, i64 64, !dbg !20
  %l.138 = load <8 x bfloat>, ptr addrspace(1) %p.137, align 16, !dbg !20
  br label %loaded.135, !dbg !20
loaded.135:
  %l.139 = phi <8 x bfloat> [zeroinitializer, %loaded.129], [%l.138, %load.134], !dbg !20
  br i1 %v.125, label %load.140, label %loaded.141, !dbg !21
load.140:
  %p.142 = getelementptr i8, ptr addrspace(1) %B, i64 %v.106, !dbg !21
  %p.143 = getelementptr i8, ptr addrspace(1) %p.142, i64 64, !dbg !21
  %l.144 = load <8 x bfloat>, ptr addrspace(1) %p.143, align 16, !dbg !21
  br label %loaded.141, !dbg !21
loaded.141:
  %l.145 = phi <8 x bfloat> [zeroinitializer, %loaded.135], [%l.144, %load.140], !dbg !21
  br label %endif.120, !dbg !19
else.119:
  br label %endif.120, !dbg !19
endif.120:
  %v.146 = phi <8 x bfloat> [%l.133, %loaded.141], [<bfloat 0xR0000, bfloat 0xR0000, bfloat 0xR0000, bfloat 0xR0000, bfloat 0xR0000, bfloat 0xR0000, bfloat 0xR0000, bfloat 0xR0000>, %else.119], !dbg !19
  %v.147 = phi <8 x bfloat> [%l.139, %loaded.141], [<bfloat 0xR0000, bfloat 0xR0000, bfloat 0xR0000, bfloat 0xR0000, bfloat 0xR0000, bfloat 0xR0000, bfloat 0xR0000, bfloat 0xR0000>, %else.119], !dbg !19
  %v.148 = phi <8 x bfloat> [%l.145, %loaded.141], [<bfloat 0xR0000, bfloat 0xR0000, bfloat 0xR0000, bfloat 0xR0000, bfloat 0xR0000, bfloat 0xR0000, bfloat 0xR0000, bfloat 0xR0000>, %else.119], !dbg !19
  %v.149 = add i32 %v.93, %v.108, !dbg !22
  %v.150 = add i32 %v.94, %v.113, !dbg !22
  fence syncscope("singlethread") release, !dbg !22  ; thread_barriers: RAW A_shared, gemm.py:66 -> gemm.py:71
  call void @llvm.amdgcn.s.waitcnt(i32 49279), !dbg !22  ; thread_barriers: RAW A_shared, gemm.py:66 -> gemm.py:71
  call void @llvm.amdgcn.s.barrier(), !dbg !22  ; thread_barriers: RAW A_shared, gemm.py:66 -> gemm.py:71
  fence syncscope("singlethread") acquire, !dbg !22  ; thread_barriers: RAW A_shared, gemm.py:66 -> gemm.py:71
  %p.151 = getelementptr i8, ptr addrspace(3) @lds.0.A_shared, i32 %v.149, !dbg !22
  %l.152 = load <8 x bfloat>, ptr addrspace(3) %p.151, align 16, !dbg !22
  %p.153 = getelementptr i8, ptr addrspace(3) @lds.0.A_shared, i32 %v.149, !dbg !22
  %p.154 = getelementptr i8, ptr addrspace(3) %p.153, i32 1024, !dbg !22
  %l.155 = load <8 x bfloat>, ptr addrspace(3) %p.154, align 16, !dbg !22
  %p.156 = getelementptr i8, ptr addrspace(3) @lds.1.B_shared, i32 %v.150, !dbg !22
  %l.157 = load <8 x bfloat>, ptr addrspace(3) %p.156, align 16, !dbg !22
  %v.158 = shufflevector <8 x bfloat> %l.152, <8 x bfloat> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>, !dbg !22
  %v.159 = shufflevector <8 x bfloat> %l.152, <8 x bfloat> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>, !dbg !22
  %v.160 = shufflevector <8 x bfloat> %l.155, <8 x bfloat> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>, !dbg !22
  %v.161 = shufflevector <8 x bfloat> %l.155, <8 x bfloat> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>, !dbg !22
  %v.162 = bitcast <4 x bfloat> %v.158 to <4 x i16>, !dbg !22
  %v.163 = bitcast <4 x bfloat> %v.159 to <4 x i16>, !dbg !22
  %v.164 = bitcast <4 x bfloat> %v.160 to <4 x i16>, !dbg !22
  %v.165 = bitcast <4 x bfloat> %v.161 to <4 x i16>, !dbg !22
  %v.166 = shufflevector <8 x bfloat> %l.157, <8 x bfloat> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>, !dbg !22
  %v.167 = shufflevector <8 x bfloat> %l.157, <8 x bfloat> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>, !dbg !22
  %v.168 = bitcast <4 x bfloat> %v.166 to <4 x i16>, !dbg !22
  %v.169 = bitcast <4 x bfloat> %v.167 to <4 x i16>, !dbg !22
  %acc.170 = call <4 x float> @llvm.amdgcn.mfma.f32.16x16x16bf16.1k(<4 x i16> %v.168, <4 x i16> %v.162, <4 x float> %C_local.99, i32 0, i32 0, i32 0), !dbg !22
  %acc.171 = call <4 x float> @llvm.amdgcn.mfma.f32.16x16x16bf16.1k(<4 x i16> %v.168, <4 x i16> %v.164, <4 x float> %C_local.100, i32 0, i32 0, i32 0), !dbg !22
  %acc.172 = call <4 x float> @llvm.amdgcn.mfma.f32.16x16x16bf16.1k(<4 x i16> %v.169, <4 x i16> %v.163, <4 x float> %acc.170, i32 0, i32 0, i32 0), !dbg !22
  %acc.173 = call <4 x float> @llvm.amdgcn.mfma.f32.16x16x16bf16.1k(<4 x i16> %v.169, <4 x i16> %v.165, <4 x float> %acc.171, i32 0, i32 0, i32 0), !dbg !22
  %v.174 = add i64 %v.104, 64, !dbg !19
  %v.175 = add i64 %v.105, 64, !dbg !19
  %v.176 = add i64 %v.106, 64, !dbg !19
  %v.177 = add i32 %k.98, 1, !dbg !19
  %v.178 = icmp slt i32 %v.177, %v.4, !dbg !19
  br i1 %v.178, label %for.95, label %for_end.96, !dbg !19
for_end.96:
  %C_local.179 = phi <4 x float> [<float 0.0, float 0.0, float 0.0, float 0.0>, %endif.12], [%acc.172, %endif.120], !dbg !19
  %C_local.180 = phi <4 x float> [<float 0.0, float 0.0, float 0.0, float 0.0>, %endif.12], [%acc.173, %endif.120], !dbg !19
  %v.181 = phi <8 x bfloat> [%v.53, %endif.12], [%v.146, %endif.120], !dbg !19
  %v.182 = phi <8 x bfloat> [%v.54, %endif.12], [%v.147, %endif.120], !dbg !19
  %v.183 = phi <8 x bfloat> [%v.55, %endif.12], [%v.148, %endif.120], !dbg !19
  %v.184 = phi i64 [%v.78, %endif.12], [%v.174, %endif.120], !dbg !19
  %v.185 = phi i64 [%v.80, %endif.12], [%v.175, %endif.120], !dbg !19
  %v.186 = phi i64 [%v.86, %endif.12], [%v.176, %endif.120], !dbg !19
  %v.187 = shufflevector <4 x float> %C_local.179, <4 x float> poison, <2 x i32> <i32 0, i32 1>, !dbg !23
  %v.188 = shufflevector <4 x float> %C_local.179, <4 x float> poison, <2 x i32> <i32 2, i32 3>, !dbg !23
  %v.189 = shufflevector <4 x float> %C_local.180, <4 x float> poison, <2 x i32> <i32 0, i32 1>, !dbg !23
  %v.190 = shufflevector <4 x float> %C_local.180, <4 x float> poison, <2 x i32> <i32 2, i32 3>, !dbg !23
  %v.191 = fptrunc <2 x float> %v.187 to <2 x bfloat>, !dbg !23
  %v.192 = fptrunc <2 x float> %v.188 to <2 x bfloat>, !dbg !23
  %v.193 = fptrunc <2 x float> %v.189 to <2 x bfloat>, !dbg !23
  %v.194 = fptrunc <2 x float> %v.190 to <2 x bfloat>, !dbg !23
  %v.195 = mul i32 %v.57, 4, !dbg !23
  %v.196 = mul i32 %by.2, 32, !dbg !23
  %v.197 = add i32 %v.196, %v.56, !dbg !23
  %v.198 = sub i32 %M, %v.197, !dbg !23
  %v.199 = icmp slt i32 0, %v.198, !dbg !23
  %v.200 = icmp slt i32 16, %v.198, !dbg !23
  %v.201 = sext i32 %v.197 to i64, !dbg !23
  %v.202 = sext i32 %N to i64, !dbg !23
  %v.203 = mul i64 %v.202, 2, !dbg !23
  %v.204 = mul i64 %v.201, %v.203, !dbg !23
  %v.205 = add i64 0, %v.204, !dbg !23
  %v.206 = mul i32 %bx.1, 16, !dbg !23
  %v.207 = add i32 %v.206, %v.195, !dbg !23
  %v.208 = sext i32 %v.207 to i64, !dbg !23
  %v.209 = mul i64 %v.208, 2, !dbg !23
  %v.210 = add i64 %v.205, %v.209, !dbg !23
  %v.211 = mul i64 %v.202, 32, !dbg !23
  %v.212 = add i64 %v.210, %v.211, !dbg !23
  %v.213 = shufflevector <2 x bfloat> %v.191, <2 x bfloat> %v.192, <4 x i32> <i32 0, i32 1, i32 2, i32 3>, !dbg !23
  %v.214 = shufflevector <2 x bfloat> %v.193, <2 x bfloat> %v.194, <4 x i32> <i32 0, i32 1, i32 2, i32 3>, !dbg !23
  br i1 %v.199, label %do.215, label %done.216, !dbg !23
do.215:
  %p.217 = getelementptr i8, ptr addrspace(1) %C, i64 %v.210, !dbg !23
  store <4 x bfloat> %v.213, ptr addrspace(1) %p.217, align 8, !dbg !23
  br label %done.216, !dbg !23
done.216:
  br i1 %v.200, label %do.218, label %done.219, !dbg !23
do.218:
  %p.220 = getelementptr i8, ptr addrspace(1) %C, i64 %v.212, !dbg !23
  store <4 x bfloat> %v.214, ptr addrspace(1) %p.220, align 8, !dbg !23
  br label %done.219, !dbg !23
done.219:
  ret void
}

declare <4 x float> @llvm.amdgcn.mfma.f32.16x16x16bf16.1k(<4 x i16>, <4 x i16>, <4 x float>, i32, i32, i32)
declare i32 @llvm.amdgcn.workgroup.id.x()
declare i32 @llvm.amdgcn.workgroup.id.y()
declare i32 @llvm.amdgcn.workitem.id.x()
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
