; softmax for gfx942
target datalayout = "e-m:e-p:64:64-p1:64:64-p2:32:32-p3:32:32-p4:64:64-p5:32:32-p6:32:32-p7:160:256:256:32-p8:128:128:128:48-p9:192:256:256:32-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024-v2048:2048-n32:64-S32-A5-G1-ni:7:8:9"
target triple = "amdgcn-amd-amdhsa"


define amdgpu_kernel void @softmax(ptr addrspace(1) align 16 %X, ptr addrspace(1) align 16 %Y, i32 %N)
    #0 !reqd_work_group_size !0 !dbg !11 {
entry:
  %bx.1 = call i32 @llvm.amdgcn.workgroup.id.x(), !dbg !12
  %tid.2 = call i32 @llvm.amdgcn.workitem.id.x(), !dbg !13
  %v.3 = icmp slt i32 %tid.2, %N, !dbg !14
  %v.4 = sub i32 %N, %tid.2, !dbg !15
  %v.5 = icmp slt i32 0, %v.4, !dbg !15
  %v.6 = and i1 %v.5, %v.3, !dbg !15
  %v.7 = sext i32 %bx.1 to i64, !dbg !15
  %v.8 = sext i32 %N to i64, !dbg !15
  %v.9 = mul i64 %v.8, 4, !dbg !15
  %v.10 = mul i64 %v.7, %v.9, !dbg !15
  %v.11 = add i64 0, %v.10, !dbg !15
  %v.12 = sext i32 %tid.2 to i64, !dbg !15
  %v.13 = mul i64 %v.12, 4, !dbg !15
  %v.14 = add i64 %v.11, %v.13, !dbg !15
  br i1 %v.6, label %load.15, label %loaded.16, !dbg !15
load.15:
  %p.17 = getelementptr i8, ptr addrspace(1) %X, i64 %v.14, !dbg !15
  %l.18 = load float, ptr addrspace(1) %p.17, align 4, !dbg !15
  br label %loaded.16, !dbg !15
loaded.16:
  %l.19 = phi float [0.0, %entry], [%l.18, %load.15], !dbg !15
  %v.20 = select i1 %v.3, float %l.19, float 0xFFF0000000000000, !dbg !17
  %v.21 = bitcast float %v.20 to i32, !dbg !18
  %v.22 = call i32 @llvm.amdgcn.update.dpp.i32(i32 poison, i32 %v.21, i32 177, i32 15, i32 15, i1 true), !dbg !18
  %v.23 = bitcast i32 %v.22 to float, !dbg !18
  %v.24 = call float @llvm.maxnum.f32(float %v.20, float %v.23), !dbg !18
  %v.25 = bitcast float %v.24 to i32, !dbg !18
  %v.26 = call i32 @llvm.amdgcn.update.dpp.i32(i32 poison, i32 %v.25, i32 78, i32 15, i32 15, i1 true), !dbg !18
  %v.27 = bitcast i32 %v.26 to float, !dbg !18
  %v.28 = call float @llvm.maxnum.f32(float %v.24, float %v.27), !dbg !18
  %v.29 = bitcast float %v.28 to i32, !dbg !18
  %v.30 = call i32 @llvm.amdgcn.ds.swizzle(i32 %v.29, i32 4127), !dbg !18
  %v.31 = bitcast i32 %v.30 to float, !dbg !18
  %v.32 = call float @llvm.maxnum.f32(float %v.28, float %v.31), !dbg !18
  %v.33 = bitcast float %v.32 to i32, !dbg !18
  %v.34 = call i32 @llvm.amdgcn.update.dpp.i32(i32 poison, i32 %v.33, i32 296, i32 15, i32 15, i1 true), !dbg !18
  %v.35 = bitcast i32 %v.34 to float, !dbg !18
  %v.36 = call float @llvm.maxnum.f32(float %v.32, float %v.35), !dbg !18
  %v.37 = bitcast float %v.36 to i32, !dbg !18
  %v.38 = call i32 @llvm.amdgcn.ds.swizzle(i32 %v.37, i32 16415), !dbg !18
  %v.39 = bitcast i32 %v.38 to float, !dbg !18
  %v.40 = call float @llvm.maxnum.f32(float %v.36, float %v.39), !dbg !18
  %v.41 = bitcast float %v.40 to i32, !dbg !18
  %v.42 = call i32 @llvm.amdgcn.mbcnt.lo(i32 -1, i32 0), !dbg !18
  %lane.43 = call i32 @llvm.amdgcn.mbcnt.hi(i32 -1, i32 %v.42), !dbg !18
  %v.44 = xor i32 %lane.43, 32, !dbg !18
  %v.45 = shl i32 %v.44, 2, !dbg !18
  %v.46 = call i32 @llvm.amdgcn.ds.bpermute(i32 %v.45, i32 %v.41), !dbg !18
  %v.47 = bitcast i32 %v.46 to float, !dbg !18
  %v.48 = call float @llvm.maxnum.f32(float %v.40, float %v.47), !dbg !18
  %v.49 = bitcast float %v.48 to i32, !dbg !19
  %v.50 = icmp eq i32 0, 0, !dbg !19
  %v.51 = select i1 %v.50, i32 %v.49, i32 0, !dbg !19
  %v.52 = bitcast i32 %v.51 to float, !dbg !19
  %v.53 = fsub contract float %v.20, %v.52, !dbg !20
  %v.54 = fmul contract float %v.53, 0x3FF7154760000000, !dbg !21
  %v.55 = call float @llvm.minnum.f32(float %v.54, float 126.0), !dbg !21
  %v.56 = call float @llvm.maxnum.f32(float %v.55, float 0xC05F800000000000), !dbg !21
  %v.57 = fadd contract float %v.56, 0x4168000000000000, !dbg !21
  %v.58 = fsub contract float 0x4168000000000000, %v.57, !dbg !21
  %v.59 = call float @llvm.fma.f32(float %v.53, float 0x3FF7154760000000, float %v.58), !dbg !21
  %v.60 = call float @llvm.fma.f32(float %v.53, float 0x3E54AE0C00000000, float %v.59), !dbg !21
  %v.61 = bitcast float %v.57 to i32, !dbg !21
  %v.62 = shl i32 %v.61, 23, !dbg !21
  %v.63 = add i32 %v.62, 1065353216, !dbg !21
  %v.64 = bitcast i32 %v.63 to float, !dbg !21
  %v.65 = call float @llvm.amdgcn.exp2.f32(float %v.60), !dbg !21
  %v.66 = fmul contract float %v.65, %v.64, !dbg !21
  %v.67 = bitcast float %v.66 to i32, !dbg !22
  %v.68 = call i32 @llvm.amdgcn.update.dpp.i32(i32 poison, i32 %v.67, i32 177, i32 15, i32 15, i1 true), !dbg !22
  %v.69 = bitcast i32 %v.68 to float, !dbg !22
  %v.70 = fadd contract float %v.66, %v.69, !dbg !22
  %v.71 = bitcast float %v.70 to i32, !dbg !22
  %v.72 = call i32 @llvm.amdgcn.update.dpp.i32(i32 poison, i32 %v.71, i32 78, i32 15, i32 15, i1 true), !dbg !22
  %v.73 = bitcast i32 %v.72 to float, !dbg !22
  %v.74 = fadd contract float %v.70, %v.73, !dbg !22
  %v.75 = bitcast float %v.74 to i32, !dbg !22
  %v.76 = call i32 @llvm.amdgcn.ds.swizzle(i32 %v.75, i32 4127), !dbg !22
  %v.77 = bitcast i32 %v.76 to float, !dbg !22
  %v.78 = fadd contract float %v.74, %v.77, !dbg !22
  %v.79 = bitcast float %v.78 to i32, !dbg !22
  %v.80 = call i32 @llvm.amdgcn.update.dpp.i32(i32 poison, i32 %v.79, i32 296, i32 15, i32 15, i1 true), !dbg !22
  %v.81 = bitcast i32 %v.80 to float, !dbg !22
  %v.82 = fadd contract float %v.78, %v.81, !dbg !22
  %v.83 = bitcast float %v.82 to i32, !dbg !22
  %v.84 = call i32 @llvm.amdgcn.ds.swizzle(i32 %v.83, i32 16415), !dbg !22
  %v.85 = bitcast i32 %v.84 to float, !dbg !22
  %v.86 = fadd contract float %v.82, %v.85, !dbg !22
  %v.87 = bitcast float %v.86 to i32, !dbg !22
  %v.88 = call i32 @llvm.amdgcn.mbcnt.lo(i32 -1, i32 0), !dbg !22
  %lane.89 = call i32 @llvm.amdgcn.mbcnt.hi(i32 -1, i32 %v.88), !dbg !22
  %v.90 = xor i32 %lane.89, 32, !dbg !22
  %v.91 = shl i32 %v.90, 2, !dbg !22
  %v.92 = call i32 @llvm.amdgcn.ds.bpermute(i32 %v.91, i32 %v.87), !dbg !22
  %v.93 = bitcast i32 %v.92 to float, !dbg !22
  %v.94 = fadd contract float %v.86, %v.93, !dbg !22
  %v.95 = bitcast float %v.94 to i32, !dbg !23
  %v.96 = select i1 %v.50, i32 %v.95, i32 0, !dbg !23
  %v.97 = bitcast i32 %v.96 to float, !dbg !23
  %v.98 = fdiv float %v.66, %v.97, !dbg !24
  %v.99 = add i64 0, %v.10, !dbg !25
  %v.100 = add i64 %v.99, %v.13, !dbg !25
  br i1 %v.5, label %do.101, label %done.102, !dbg !25
do.101:
  %p.103 = getelementptr i8, ptr addrspace(1) %Y, i64 %v.100, !dbg !25
  store float %v.98, ptr addrspace(1) %p.103, align 4, !dbg !25
  br label %done.102, !dbg !25
done.102:
  ret void
}

declare float @llvm.amdgcn.exp2.f32(float)
declare float @llvm.fma.f32(float, float, float)
declare float @llvm.maxnum.f32(float, float)
declare float @llvm.minnum.f32(float, float)
declare i32 @llvm.amdgcn.ds.bpermute(i32, i32)
declare i32 @llvm.amdgcn.ds.swizzle(i32, i32)
declare i32 @llvm.amdgcn.mbcnt.hi(i32, i32)
declare i32 @llvm.amdgcn.mbcnt.lo(i32, i32)
declare i32 @llvm.amdgcn.update.dpp.i32(i32, i32, i32, i32, i32, i1)
declare i32 @llvm.amdgcn.workgroup.id.x()
declare i32 @llvm.amdgcn.workitem.id.x()

attributes #0 = { nounwind "amdgpu-agpr-alloc"="0" "amdgpu-flat-work-group-size"="64,64" "uniform-work-group-size"="true" "amdgpu-ieee"="false" "amdgpu-no-implicitarg-ptr" "amdgpu-no-dispatch-ptr" "amdgpu-no-queue-ptr" "amdgpu-no-dispatch-id" "amdgpu-no-default-queue" "amdgpu-no-completion-action" "amdgpu-no-heap-ptr" "amdgpu-no-hostcall-ptr" "amdgpu-no-lds-kernel-id" "amdgpu-no-multigrid-sync-arg" "amdgpu-no-flat-scratch-init" "amdgpu-no-workitem-id-y" "amdgpu-no-workitem-id-z" "amdgpu-no-workgroup-id-y" "amdgpu-no-workgroup-id-z" }
!0 = !{i32 64, i32 1, i32 1}
!1 = !{}
!4 = distinct !{!4, !"shared memory"}
!5 = distinct !{!5, !4, !"copies under way"}
!6 = !{!5}
!2 = !{i32 1, !"amdhsa_code_object_version", i32 500}
!llvm.module.flags = !{!2, !3}
!3 = !{i32 2, !"Debug Info Version", i32 3}
!llvm.dbg.cu = !{!10}
!8 = !DIFile(filename: "examples/softmax.py", directory: "")
!9 = !DISubroutineType(types: !{null})
!10 = distinct !DICompileUnit(language: DW_LANG_C, file: !8, producer: "minitile", isOptimized: true, runtimeVersion: 0, emissionKind: DebugDirectivesOnly)
!11 = distinct !DISubprogram(name: "softmax", scope: !8, file: !8, line: 13, type: !9, scopeLine: 13, spFlags: DISPFlagDefinition, unit: !10)
!12 = !DILocation(line: 13, column: 10, scope: !11)
!13 = !DILocation(line: 17, column: 9, scope: !11)
!14 = !DILocation(line: 18, column: 38, scope: !11)
!15 = !DILocation(line: 18, column: 45, scope: !11)
!16 = !DILocation(line: 18, column: 66, scope: !11)
!17 = !DILocation(line: 18, column: 23, scope: !11)
!18 = !DILocation(line: 19, column: 9, scope: !11)
!19 = !DILocation(line: 21, column: 39, scope: !11)
!20 = !DILocation(line: 21, column: 29, scope: !11)
!21 = !DILocation(line: 21, column: 23, scope: !11)
!22 = !DILocation(line: 22, column: 9, scope: !11)
!23 = !DILocation(line: 24, column: 45, scope: !11)
!24 = !DILocation(line: 24, column: 35, scope: !11)
!25 = !DILocation(line: 24, column: 13, scope: !11)
!26 = !DILocation(line: 23, column: 9, scope: !11)
