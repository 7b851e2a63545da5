; add__block256_threads64 for gfx942
target datalayout = "e-m:e-p:64:64-p1:64:64-p2:32:32-p3:32:32-p4:64:64-p5:32:32-p6:32:32-p7:160:256:256:32-p8:128:128:128:48-p9:192:256:256:32-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024-v2048:2048-n32:64-S32-A5-G1-ni:7:8:9"
target triple = "amdgcn-amd-amdhsa"


define amdgpu_kernel void @add__block256_threads64(ptr addrspace(1) align 16 %A, ptr addrspace(1) align 16 %B, ptr addrspace(1) align 16 %C, i32 %N)
    #0 !reqd_work_group_size !0 !dbg !11 {
entry:
  %bx.1 = call i32 @llvm.amdgcn.workgroup.id.x(), !dbg !12
  %tid.2 = call i32 @llvm.amdgcn.workitem.id.x(), !dbg !13
  %v.3 = mul i32 %tid.2, 4, !dbg !13
  %v.4 = mul i32 %bx.1, 256, !dbg !13
  %v.5 = add i32 %v.4, %v.3, !dbg !13
  %v.6 = sub i32 %N, %v.5, !dbg !13
  %v.7 = icmp slt i32 0, %v.6, !dbg !13
  %v.8 = sext i32 %v.5 to i64, !dbg !13
  %v.9 = mul i64 %v.8, 4, !dbg !13
  %v.10 = add i64 0, %v.9, !dbg !13
  br i1 %v.7, label %load.11, label %loaded.12, !dbg !13
load.11:
  %p.13 = getelementptr i8, ptr addrspace(1) %A, i64 %v.10, !dbg !13
  %l.14 = load <4 x float>, ptr addrspace(1) %p.13, align 16, !dbg !13
  br label %loaded.12, !dbg !13
loaded.12:
  %l.15 = phi <4 x float> [zeroinitializer, %entry], [%l.14, %load.11], !dbg !13
  %v.16 = add i64 0, %v.9, !dbg !14
  br i1 %v.7, label %load.17, label %loaded.18, !dbg !14
load.17:
  %p.19 = getelementptr i8, ptr addrspace(1) %B, i64 %v.16, !dbg !14
  %l.20 = load <4 x float>, ptr addrspace(1) %p.19, align 16, !dbg !14
  br label %loaded.18, !dbg !14
loaded.18:
  %l.21 = phi <4 x float> [zeroinitializer, %loaded.12], [%l.20, %load.17], !dbg !14
  %v.22 = extractelement <4 x float> %l.15, i64 0, !dbg !13
  %v.23 = extractelement <4 x float> %l.15, i64 1, !dbg !13
  %v.24 = extractelement <4 x float> %l.15, i64 2, !dbg !13
  %v.25 = extractelement <4 x float> %l.15, i64 3, !dbg !13
  %v.26 = extractelement <4 x float> %l.21, i64 0, !dbg !13
  %v.27 = extractelement <4 x float> %l.21, i64 1, !dbg !13
  %v.28 = extractelement <4 x float> %l.21, i64 2, !dbg !13
  %v.29 = extractelement <4 x float> %l.21, i64 3, !dbg !13
  %v.30 = fadd contract float %v.22, %v.26, !dbg !13
  %v.31 = fadd contract float %v.23, %v.27, !dbg !13
  %v.32 = fadd contract float %v.24, %v.28, !dbg !13
  %v.33 = fadd contract float %v.25, %v.29, !dbg !13
  %v.34 = add i64 0, %v.9, !dbg !15
  %v.35 = insertelement <4 x float> poison, float %v.30, i64 0, !dbg !15
  %v.36 = insertelement <4 x float> %v.35, float %v.31, i64 1, !dbg !15
  %v.37 = insertelement <4 x float> %v.36, float %v.32, i64 2, !dbg !15
  %v.38 = insertelement <4 x float> %v.37, float %v.33, i64 3, !dbg !15
  br i1 %v.7, label %do.39, label %done.40, !dbg !15
do.39:
  %p.41 = getelementptr i8, ptr addrspace(1) %C, i64 %v.34, !dbg !15
  store <4 x float> %v.38, ptr addrspace(1) %p.41, align 16, !dbg !15
  br label %done.40, !dbg !15
done.40:
  ret void
}

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
!8 = !DIFile(filename: "examples/vector_add.py", directory: "")
!9 = !DISubroutineType(types: !{null})
!10 = distinct !DICompileUnit(language: DW_LANG_C, file: !8, producer: "minitile", isOptimized: true, runtimeVersion: 0, emissionKind: DebugDirectivesOnly)
!11 = distinct !DISubprogram(name: "add__block256_threads64", scope: !8, file: !8, line: 19, type: !9, scopeLine: 19, spFlags: DISPFlagDefinition, unit: !10)
!12 = !DILocation(line: 19, column: 10, scope: !11)
!13 = !DILocation(line: 21, column: 33, scope: !11)
!14 = !DILocation(line: 21, column: 53, scope: !11)
!15 = !DILocation(line: 21, column: 13, scope: !11)
!16 = !DILocation(line: 20, column: 9, scope: !11)
