; softmax__rows1_columns64_threads64 for gfx942
target datalayout = "e-m:e-p:64:64-p1:64:64-p2:32:32-p3:32:32-p4:64:64-p5:32:32-p6:32:32-p7:160:256:256:32-p8:128:128:128:48-p9:192:256:256:32-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024-v2048:2048-n32:64-S32-A5-G1-ni:7:8:9"
target triple = "amdgcn-amd-amdhsa"


define amdgpu_kernel void @softmax__rows1_columns64_threads64(ptr addrspace(1) align 16 %X, ptr addrspace(1) align 16 %Y, i32 %N)
    #0 !reqd_work_group_size !0 !dbg !11 {
entry:
  %bx.1 = call i32 @llvm.amdgcn.workgroup.id.x(), !dbg !12
  %tid.2 = call i32 @llvm.amdgcn.workitem.id.x(), !dbg !13
  %v.3 = icmp slt i32 %tid.2, %N, !dbg !14
  %v.4 = sext i32 %bx.1 to i64, !dbg !15
  %v.5 = sext i32 %N to i64, !dbg !15
  %v.6 = mul i64 %v.5, 4, !dbg !15
  %v.7 = mul i64 %v.4, %v.6, !dbg !15
  %v.8 = add i64 0, %v.7, !dbg !15
  %v.9 = sext i32 %tid.2 to i64, !dbg !15
  %v.10 = mul i64 %v.9, 4, !dbg !15
  %v.11 = add i64 %v.8, %v.10, !dbg !15
  br i1 %v.3, label %load.12, label %loaded.13, !dbg !15
load.12:
  %p.14 = getelementptr i8, ptr addrspace(1) %X, i64 %v.11, !dbg !15
  %l.15 = load float, ptr addrspace(1) %p.14, align 4, !dbg !15
  br label %loaded.13, !dbg !15
loaded.13:
  %l.16 = phi float [0.0, %entry], [%l.15, %load.12], !dbg !15
  %v.17 = select i1 %v.3, float %l.16, float 0xFFF0000000000000, !dbg !17
  %v.18 = bitcast float %v.17 to i32, !dbg !18
  %v.19 = call i32 @llvm.amdgcn.update.dpp.i32(i32 poison, i32 %v.18, i32 177, i32 15, i32 15, i1 true), !dbg !18
  %v.20 = bitcast i32 %v.19 to float, !dbg !18
  %v.21 = call float @llvm.maxnum.f32(float %v.17, float %v.20), !dbg !18
  %v.22 = bitcast float %v.21 to i32, !dbg !18
  %v.23 = call i32 @llvm.amdgcn.update.dpp.i32(i32 poison, i32 %v.22, i32 78, i32 15, i32 15, i1 true), !dbg !18
  %v.24 = bitcast i32 %v.23 to float, !dbg !18
  %v.25 = call float @llvm.maxnum.f32(float %v.21, float %v.24), !dbg !18
  %v.26 = bitcast float %v.25 to i32, !dbg !18
  %v.27 = call i32 @llvm.amdgcn.ds.swizzle(i32 %v.26, i32 4127), !dbg !18
  %v.28 = bitcast i32 %v.27 to float, !dbg !18
  %v.29 = call float @llvm.maxnum.f32(float %v.25, float %v.28), !dbg !18
  %v.30 = bitcast float %v.29 to i32, !dbg !18
  %v.31 = call i32 @llvm.amdgcn.update.dpp.i32(i32 poison, i32 %v.30, i32 296, i32 15, i32 15, i1 true), !dbg !18
  %v.32 = bitcast i32 %v.31 to float, !dbg !18
  %v.33 = call float @llvm.maxnum.f32(float %v.29, float %v.32), !dbg !18
  %v.34 = bitcast float %v.33 to i32, !dbg !18
  %v.35 = call i32 @llvm.amdgcn.ds.swizzle(i32 %v.34, i32 16415), !dbg !18
  %v.36 = bitcast i32 %v.35 to float, !dbg !18
  %v.37 = call float @llvm.maxnum.f32(float %v.33, float %v.36), !dbg !18
  %v.38 = bitcast float %v.37 to i32, !dbg !18
  %v.39 = call i32 @llvm.amdgcn.mbcnt.lo(i32 -1, i32 0), !dbg !18
  %lane.40 = call i32 @llvm.amdgcn.mbcnt.hi(i32 -1, i32 %v.39), !dbg !18
  %v.41 = xor i32 %lane.40, 32, !dbg !18
  %v.42 = shl i32 %v.41, 2, !dbg !18
  %v.43 = call i32 @llvm.amdgcn.ds.bpermute(i32 %v.42, i32 %v.38), !dbg !18
  %v.44 = bitcast i32 %v.43 to float, !dbg !18
  %v.45 = call float @llvm.maxnum.f32(float %v.37, float %v.44), !dbg !18
  %v.46 = fsub contract float %v.17, %v.45, !dbg !20
  %v.47 = fmul contract float %v.46, 0x3FF7154760000000, !dbg !21
  %v.48 = call float @llvm.minnum.f32(float %v.47, float 126.0), !dbg !21
  %v.49 = call float @llvm.maxnum.f32(float %v.48, float 0xC05F800000000000), !dbg !21
  %v.50 = fadd contract float %v.49, 0x4168000000000000, !dbg !21
  %v.51 = fsub contract float 0x4168000000000000, %v.50, !dbg !21
  %v.52 = call float @llvm.fma.f32(float %v.46, float 0x3FF7154760000000, float %v.51), !dbg !21
  %v.53 = call float @llvm.fma.f32(float %v.46, float 0x3E54AE0C00000000, float %v.52), !dbg !21
  %v.54 = bitcast float %v.50 to i32, !dbg !21
  %v.55 = shl i32 %v.54, 23, !dbg !21
  %v.56 = add i32 %v.55, 1065353216, !dbg !21
  %v.57 = bitcast i32 %v.56 to float, !dbg !21
  %v.58 = call float @llvm.amdgcn.exp2.f32(float %v.53), !dbg !21
  %v.59 = fmul contract float %v.58, %v.57, !dbg !21
  %v.60 = bitcast float %v.59 to i32, !dbg !22
  %v.61 = call i32 @llvm.amdgcn.update.dpp.i32(i32 poison, i32 %v.60, i32 177, i32 15, i32 15, i1 true), !dbg !22
  %v.62 = bitcast i32 %v.61 to float, !dbg !22
  %v.63 = fadd contract float %v.59, %v.62, !dbg !22
  %v.64 = bitcast float %v.63 to i32, !dbg !22
  %v.65 = call i32 @llvm.amdgcn.update.dpp.i32(i32 poison, i32 %v.64, i32 78, i32 15, i32 15, i1 true), !dbg !22
  %v.66 = bitcast i32 %v.65 to float, !dbg !22
  %v.67 = fadd contract float %v.63, %v.66, !dbg !22
  %v.68 = bitcast float %v.67 to i32, !dbg !22
  %v.69 = call i32 @llvm.amdgcn.ds.swizzle(i32 %v.68, i32 4127), !dbg !22
  %v.70 = bitcast i32 %v.69 to float, !dbg !22
  %v.71 = fadd contract float %v.67, %v.70, !dbg !22
  %v.72 = bitcast float %v.71 to i32, !dbg !22
  %v.73 = call i32 @llvm.amdgcn.update.dpp.i32(i32 poison, i32 %v.72, i32 296, i32 15, i32 15, i1 true), !dbg !22
  %v.74 = bitcast i32 %v.73 to float, !dbg !22
  %v.75 = fadd contract float %v.71, %v.74, !dbg !22
  %v.76 = bitcast float %v.75 to i32, !dbg !22
  %v.77 = call i32 @llvm.amdgcn.ds.swizzle(i32 %v.76, i32 16415), !dbg !22
  %v.78 = bitcast i32 %v.77 to float, !dbg !22
  %v.79 = fadd contract float %v.75, %v.78, !dbg !22
  %v.80 = bitcast float %v.79 to i32, !dbg !22
  %v.81 = call i32 @llvm.amdgcn.mbcnt.lo(i32 -1, i32 0), !dbg !22
  %lane.82 = call i32 @llvm.amdgcn.mbcnt.hi(i32 -1, i32 %v.81), !dbg !22
  %v.83 = xor i32 %lane.82, 32, !dbg !22
  %v.84 = shl i32 %v.83, 2, !dbg !22
  %v.85 = call i32 @llvm.amdgcn.ds.bpermute(i32 %v.84, i32 %v.80), !dbg !22
  %v.86 = bitcast i32 %v.85 to float, !dbg !22
  %v.87 = fadd contract float %v.79, %v.86, !dbg !22
  %v.88 = fdiv float %v.59, %v.87, !dbg !24
  %v.89 = sub i32 %N, %tid.2, !dbg !25
  %v.90 = icmp slt i32 0, %v.89, !dbg !25
  %v.91 = add i64 0, %v.7, !dbg !25
  %v.92 = add i64 %v.91, %v.10, !dbg !25
  br i1 %v.90, label %do.93, label %done.94, !dbg !25
do.93:
  %p.95 = getelementptr i8, ptr addrspace(1) %Y, i64 %v.92, !dbg !25
  store float %v.88, ptr addrspace(1) %p.95, align 4, !dbg !25
  br label %done.94, !dbg !25
done.94:
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
!11 = distinct !DISubprogram(name: "softmax__rows1_columns64_threads64", scope: !8, file: !8, line: 13, type: !9, scopeLine: 13, spFlags: DISPFlagDefinition, unit: !10)
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
