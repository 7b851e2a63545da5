; LLVM 22.1.0, gfx942, block_M=64, block_N=32, block_K=64, num_stages=2, threads=128
gemm__block_M64_block_N32_block_K64_num_stages2:
    s_load_dwordx2 s[8:9], s[0:1], 0x18
    s_load_dwordx4 s[4:7], s[0:1], 0x0
    v_and_b32_e32 v16, 7, v0
    v_mul_u32_u24_e32 v2, 8, v16
    v_lshrrev_b32_e32 v1, 3, v0
    s_waitcnt lgkmcnt(0)  ; LLVM: registers
    s_add_i32 s10, s8, 63
    s_ashr_i32 s16, s10, 6
    s_cmp_gt_i32 s16, 0
    s_cselect_b64 s[10:11], -1, 0
    s_cmp_lt_i32 s16, 1
    v_mul_hi_u32_u24_e32 v15, 2, v2
    v_mul_u32_u24_e32 v14, 2, v2
    s_cbranch_scc0 .LBB0_3
    s_lshl_b32 s14, s3, 6
    s_ashr_i32 s13, s8, 31
    s_mov_b32 s12, s8
    v_or_b32_e32 v2, s14, v1
    s_ashr_i32 s15, s14, 31
    s_lshl_b32 s17, s8, 1
    s_lshr_b64 s[18:19], s[12:13], 31
    v_mul_lo_u32 v4, v2, s18
    s_mul_i32 s15, s15, s17
    v_mad_u64_u32 v[2:3], s[20:21], v2, s17, v[14:15]
    v_add3_u32 v3, s15, v3, v4
    v_mad_i64_i32 v[6:7], s[20:21], s8, 32, v[2:3]
    s_lshl_b64 s[12:13], s[12:13], 5
    v_lshl_add_u64 v[8:9], v[6:7], 0, s[12:13]
    s_lshl_b32 s15, s2, 5
    v_lshl_add_u64 v[10:11], v[8:9], 0, s[12:13]
    v_or_b32_e32 v4, s15, v1
    s_ashr_i32 s12, s15, 31
    v_mul_lo_u32 v12, v4, s18
    s_mul_i32 s18, s12, s17
    v_mad_u64_u32 v[4:5], s[12:13], v4, s17, v[14:15]
    v_add3_u32 v5, s18, v5, v12
    v_mad_i64_i32 v[12:13], s[12:13], s8, 32, v[4:5]
    s_load_dwordx2 s[0:1], s[0:1], 0x10
    s_cbranch_execz .LBB0_4
    v_mov_b32_e32 v40, 0
    v_mov_b32_e32 v41, 0
    v_mov_b32_e32 v42, 0
    v_mov_b32_e32 v43, 0
    v_mov_b32_e32 v52, 0
    v_mov_b32_e32 v53, 0
    v_mov_b32_e32 v54, 0
    v_mov_b32_e32 v55, 0
    v_mov_b32_e32 v36, 0
    v_mov_b32_e32 v37, 0
    v_mov_b32_e32 v38, 0
    v_mov_b32_e32 v39, 0
    v_mov_b32_e32 v48, 0
    v_mov_b32_e32 v49, 0
    v_mov_b32_e32 v50, 0
    v_mov_b32_e32 v51, 0
    v_mov_b32_e32 v44, 0
    v_mov_b32_e32 v45, 0
    v_mov_b32_e32 v46, 0
    v_mov_b32_e32 v47, 0
    v_mov_b32_e32 v56, 0
    v_mov_b32_e32 v57, 0
    v_mov_b32_e32 v58, 0
    v_mov_b32_e32 v59, 0
    s_branch .LBB0_5
.LBB0_3:
    s_load_dwordx2 s[0:1], s[0:1], 0x10
.LBB0_4:
    s_lshl_b32 s14, s3, 6
    s_ashr_i32 s13, s8, 31
    s_mov_b32 s12, s8
    v_or_b32_e32 v2, s14, v1
    s_ashr_i32 s3, s14, 31
    s_lshl_b32 s17, s8, 1
    s_lshr_b64 s[18:19], s[12:13], 31
    v_mul_lo_u32 v4, v2, s18
    s_mul_i32 s3, s3, s17
    v_mad_u64_u32 v[2:3], s[20:21], v2, s17, v[14:15]
    v_add3_u32 v3, s3, v3, v4
    v_lshl_add_u64 v[4:5], s[4:5], 0, v[2:3]
    s_lshl_b64 s[12:13], s[12:13], 5
    v_mad_i64_i32 v[6:7], s[20:21], s8, 32, v[4:5]
    global_load_dwordx4 v[56:59], v[4:5], off
    global_load_dwordx4 v[44:47], v[6:7], off
    v_lshl_add_u64 v[4:5], v[6:7], 0, s[12:13]
    s_lshl_b32 s15, s2, 5
    v_lshl_add_u64 v[6:7], v[4:5], 0, s[12:13]
    global_load_dwordx4 v[48:51], v[4:5], off
    global_load_dwordx4 v[36:39], v[6:7], off
    v_or_b32_e32 v4, s15, v1
    s_ashr_i32 s2, s15, 31
    v_mul_lo_u32 v6, v4, s18
    s_mul_i32 s18, s2, s17
    v_mad_u64_u32 v[4:5], s[2:3], v4, s17, v[14:15]
    v_add3_u32 v5, s18, v5, v6
    v_lshl_add_u64 v[6:7], s[6:7], 0, v[4:5]
    v_mad_i64_i32 v[8:9], s[2:3], s8, 32, v[6:7]
    global_load_dwordx4 v[52:55], v[6:7], off
    global_load_dwordx4 v[40:43], v[8:9], off
    v_mad_i64_i32 v[6:7], s[2:3], s8, 32, v[2:3]
    v_lshl_add_u64 v[8:9], v[6:7], 0, s[12:13]
    v_lshl_add_u64 v[10:11], v[8:9], 0, s[12:13]
    v_mad_i64_i32 v[12:13], s[2:3], s8, 32, v[4:5]
.LBB0_5:
    v_and_b32_e32 v14, 15, v0
    v_lshrrev_b32_e32 v15, 1, v0
    s_mov_b32 s8, 1
    v_and_or_b32 v29, v15, 32, v14
    s_andn2_b64 vcc, exec, s[10:11]
    v_bfe_u32 v28, v0, 4, 2
    s_cbranch_vccnz .LBB0_11
    v_mul_u32_u24_e32 v0, 16, v16
    s_movk_i32 s2, 0x80
    v_mad_u32_u24 v0, v1, s2, v0
    v_lshrrev_b32_e32 v1, 3, v0
    v_and_b32_e32 v1, 0x70, v1
    v_xor_b32_e32 v30, v0, v1
    v_mul_u32_u24_e32 v0, 0x80, v29
    v_mul_u32_u24_e32 v1, 16, v28
    v_or_b32_e32 v15, v0, v1
    v_lshrrev_b32_e32 v0, 3, v0
    v_and_b32_e32 v0, 0x70, v0
    v_xor_b32_e32 v31, v15, v0
    v_mul_u32_u24_e32 v0, 0x80, v14
    v_or_b32_e32 v1, v0, v1
    v_lshrrev_b32_e32 v0, 3, v0
    v_and_b32_e32 v0, 0x70, v0
    v_xor_b32_e32 v33, v1, v0
    v_lshl_add_u64 v[0:1], s[4:5], 0, v[2:3]
    s_mov_b64 s[2:3], 0x80
    v_lshl_add_u64 v[16:17], v[0:1], 0, s[2:3]
    v_lshl_add_u64 v[0:1], s[4:5], 0, v[6:7]
    v_lshl_add_u64 v[18:19], v[0:1], 0, s[2:3]
    v_lshl_add_u64 v[0:1], s[4:5], 0, v[8:9]
    v_lshl_add_u64 v[20:21], v[0:1], 0, s[2:3]
    v_lshl_add_u64 v[0:1], s[4:5], 0, v[10:11]
    v_lshl_add_u64 v[22:23], v[0:1], 0, s[2:3]
    v_lshl_add_u64 v[0:1], s[6:7], 0, v[4:5]
    v_lshl_add_u64 v[24:25], v[0:1], 0, s[2:3]
    v_lshl_add_u64 v[0:1], s[6:7], 0, v[12:13]
    v_xor_b32_e32 v32, 64, v31
    v_xor_b32_e32 v34, 64, v33
    v_lshl_add_u64 v[26:27], v[0:1], 0, s[2:3]
    s_mov_b64 s[2:3], 0
    v_mov_b32_e32 v0, 0
    v_mov_b32_e32 v1, 0
    v_mov_b32_e32 v2, 0
    v_mov_b32_e32 v3, 0
    v_mov_b32_e32 v4, 0
    v_mov_b32_e32 v5, 0
    v_mov_b32_e32 v6, 0
    v_mov_b32_e32 v7, 0
    v_mov_b32_e32 v8, 0
    v_mov_b32_e32 v9, 0
    v_mov_b32_e32 v10, 0
    v_mov_b32_e32 v11, 0
    v_mov_b32_e32 v12, 0
    v_mov_b32_e32 v13, 0
    v_mov_b32_e32 v14, 0
    v_mov_b32_e32 v15, 0
    s_branch .LBB0_9
.LBB0_7:
    v_lshl_add_u64 v[36:37], v[16:17], 0, s[2:3]
    v_lshl_add_u64 v[38:39], v[18:19], 0, s[2:3]
    v_lshl_add_u64 v[40:41], v[20:21], 0, s[2:3]
    v_lshl_add_u64 v[42:43], v[22:23], 0, s[2:3]
    v_lshl_add_u64 v[60:61], v[24:25], 0, s[2:3]
    global_load_dwordx4 v[56:59], v[36:37], off
    global_load_dwordx4 v[44:47], v[38:39], off
    global_load_dwordx4 v[48:51], v[40:41], off
    s_nop 0
    global_load_dwordx4 v[36:39], v[42:43], off
    v_lshl_add_u64 v[62:63], v[26:27], 0, s[2:3]
    global_load_dwordx4 v[52:55], v[60:61], off
    global_load_dwordx4 v[40:43], v[62:63], off
.LBB0_8:
    s_bitset1_b32 s7, 14
    v_or_b32_e32 v35, s7, v33
    s_waitcnt lgkmcnt(0)  ; thread_barriers: RAW A_shared, gemm.py:66 -> gemm.py:71
    s_barrier  ; thread_barriers: RAW A_shared, gemm.py:66 -> gemm.py:71
    ds_read_b128 v[62:65], v35
    v_add_u32_e32 v60, s6, v31
    ds_read_b128 v[66:69], v35 offset:2048
    ds_read_b128 v[70:73], v60
    ds_read_b128 v[74:77], v60 offset:2048
    v_or_b32_e32 v35, s7, v34
    s_waitcnt lgkmcnt(1)  ; LLVM: registers
    v_mfma_f32_16x16x16_bf16 v[8:11], v[66:67], v[70:71], v[8:11]
    v_add_u32_e32 v60, s6, v32
    s_add_i32 s8, s8, 1
    s_add_u32 s2, s2, 0x80
    v_mfma_f32_16x16x16_bf16 v[12:15], v[62:63], v[70:71], v[12:15]
    s_addc_u32 s3, s3, 0
    s_andn2_b64 vcc, exec, s[4:5]
    s_waitcnt lgkmcnt(0)  ; LLVM: registers
    v_mfma_f32_16x16x16_bf16 v[4:7], v[62:63], v[74:75], v[4:7]
    v_mfma_f32_16x16x16_bf16 v[0:3], v[66:67], v[74:75], v[0:3]
    v_mfma_f32_16x16x16_bf16 v[12:15], v[64:65], v[72:73], v[12:15]
    v_mfma_f32_16x16x16_bf16 v[4:7], v[64:65], v[76:77], v[4:7]
    ds_read_b128 v[62:65], v35
    v_mfma_f32_16x16x16_bf16 v[8:11], v[68:69], v[72:73], v[8:11]
    v_mfma_f32_16x16x16_bf16 v[0:3], v[68:69], v[76:77], v[0:3]
    ds_read_b128 v[66:69], v35 offset:2048
    ds_read_b128 v[70:73], v60
    ds_read_b128 v[74:77], v60 offset:2048
    s_waitcnt lgkmcnt(1)  ; LLVM: registers
    v_mfma_f32_16x16x16_bf16 v[12:15], v[62:63], v[70:71], v[12:15]
    v_mfma_f32_16x16x16_bf16 v[8:11], v[66:67], v[70:71], v[8:11]
    s_waitcnt lgkmcnt(0)  ; LLVM: registers
    v_mfma_f32_16x16x16_bf16 v[4:7], v[62:63], v[74:75], v[4:7]
    v_mfma_f32_16x16x16_bf16 v[0:3], v[66:67], v[74:75], v[0:3]
    v_mfma_f32_16x16x16_bf16 v[12:15], v[64:65], v[72:73], v[12:15]
    v_mfma_f32_16x16x16_bf16 v[8:11], v[68:69], v[72:73], v[8:11]
    v_mfma_f32_16x16x16_bf16 v[4:7], v[64:65], v[76:77], v[4:7]
    v_mfma_f32_16x16x16_bf16 v[0:3], v[68:69], v[76:77], v[0:3]
    s_cbranch_vccz .LBB0_12
.LBB0_9:
    s_add_i32 s4, s8, -1
    s_and_b32 s4, s4, 1
    s_lshl_b32 s6, s4, 13
    s_lshl_b32 s7, s4, 12
    s_cmp_ge_i32 s8, s16
    v_or_b32_e32 v35, s6, v30
    s_cselect_b64 s[4:5], -1, 0
    s_waitcnt vmcnt(5)  ; LLVM: registers
    ds_write_b128 v35, v[56:59]
    s_waitcnt vmcnt(4)  ; LLVM: registers
    ds_write_b128 v35, v[44:47] offset:2048
    s_waitcnt vmcnt(3)  ; LLVM: registers
    ds_write_b128 v35, v[48:51] offset:4096
    s_waitcnt vmcnt(2)  ; LLVM: registers
    ds_write_b128 v35, v[36:39] offset:6144
    v_subrev_u32_e32 v35, s7, v35
    s_and_b64 vcc, exec, s[4:5]
    s_waitcnt vmcnt(1)  ; LLVM: registers
    ds_write_b128 v35, v[52:55] offset:16384
    s_waitcnt vmcnt(0)  ; LLVM: registers
    ds_write_b128 v35, v[40:43] offset:18432
    s_cbranch_vccz .LBB0_7
    v_mov_b32_e32 v40, 0
    v_mov_b32_e32 v41, 0
    v_mov_b32_e32 v42, 0
    v_mov_b32_e32 v43, 0
    v_mov_b32_e32 v52, 0
    v_mov_b32_e32 v53, 0
    v_mov_b32_e32 v54, 0
    v_mov_b32_e32 v55, 0
    v_mov_b32_e32 v36, 0
    v_mov_b32_e32 v37, 0
    v_mov_b32_e32 v38, 0
    v_mov_b32_e32 v39, 0
    v_mov_b32_e32 v48, 0
    v_mov_b32_e32 v49, 0
    v_mov_b32_e32 v50, 0
    v_mov_b32_e32 v51, 0
    v_mov_b32_e32 v44, 0
    v_mov_b32_e32 v45, 0
    v_mov_b32_e32 v46, 0
    v_mov_b32_e32 v47, 0
    v_mov_b32_e32 v56, 0
    v_mov_b32_e32 v57, 0
    v_mov_b32_e32 v58, 0
    v_mov_b32_e32 v59, 0
    s_branch .LBB0_8
.LBB0_11:
    v_mov_b32_e32 v15, 0
    v_mov_b32_e32 v14, 0
    v_mov_b32_e32 v13, 0
    v_mov_b32_e32 v12, 0
    v_mov_b32_e32 v11, 0
    v_mov_b32_e32 v10, 0
    v_mov_b32_e32 v9, 0
    v_mov_b32_e32 v8, 0
    v_mov_b32_e32 v7, 0
    v_mov_b32_e32 v6, 0
    v_mov_b32_e32 v5, 0
    v_mov_b32_e32 v4, 0
    v_mov_b32_e32 v3, 0
    v_mov_b32_e32 v2, 0
    v_mov_b32_e32 v1, 0
    v_mov_b32_e32 v0, 0
.LBB0_12:
    s_nop 2
    v_bfe_u32 v16, v12, 16, 1
    s_movk_i32 s2, 0x7fff
    v_add3_u32 v16, v16, v12, s2
    v_or_b32_e32 v17, 0x400000, v12
    v_cmp_u_f32_e32 vcc, v12, v12
    s_ashr_i32 s3, s9, 31
    s_lshl_b32 s6, s9, 1
    v_cndmask_b32_e32 v12, v16, v17, vcc
    v_bfe_u32 v16, v13, 16, 1
    v_add3_u32 v16, v16, v13, s2
    v_or_b32_e32 v17, 0x400000, v13
    v_cmp_u_f32_e32 vcc, v13, v13
    s_nop 1
    v_cndmask_b32_e32 v13, v16, v17, vcc
    v_bfe_u32 v16, v14, 16, 1
    v_add3_u32 v16, v16, v14, s2
    v_or_b32_e32 v17, 0x400000, v14
    v_cmp_u_f32_e32 vcc, v14, v14
    s_nop 1
    v_cndmask_b32_e32 v14, v16, v17, vcc
    v_bfe_u32 v16, v15, 16, 1
    v_add3_u32 v16, v16, v15, s2
    v_or_b32_e32 v17, 0x400000, v15
    v_cmp_u_f32_e32 vcc, v15, v15
    s_nop 1
    v_cndmask_b32_e32 v15, v16, v17, vcc
    v_bfe_u32 v16, v8, 16, 1
    v_add3_u32 v16, v16, v8, s2
    v_or_b32_e32 v17, 0x400000, v8
    v_cmp_u_f32_e32 vcc, v8, v8
    s_nop 1
    v_cndmask_b32_e32 v8, v16, v17, vcc
    v_bfe_u32 v16, v9, 16, 1
    v_add3_u32 v16, v16, v9, s2
    v_or_b32_e32 v17, 0x400000, v9
    v_cmp_u_f32_e32 vcc, v9, v9
    s_nop 1
    v_cndmask_b32_e32 v9, v16, v17, vcc
    v_bfe_u32 v16, v10, 16, 1
    v_add3_u32 v16, v16, v10, s2
    v_or_b32_e32 v17, 0x400000, v10
    v_cmp_u_f32_e32 vcc, v10, v10
    s_nop 1
    v_cndmask_b32_e32 v10, v16, v17, vcc
    v_bfe_u32 v16, v11, 16, 1
    v_add3_u32 v16, v16, v11, s2
    v_or_b32_e32 v17, 0x400000, v11
    v_cmp_u_f32_e32 vcc, v11, v11
    s_nop 1
    v_cndmask_b32_e32 v11, v16, v17, vcc
    v_bfe_u32 v16, v4, 16, 1
    v_add3_u32 v16, v16, v4, s2
    v_or_b32_e32 v17, 0x400000, v4
    v_cmp_u_f32_e32 vcc, v4, v4
    v_bfe_u32 v4, v5, 16, 1
    v_add3_u32 v4, v4, v5, s2
    v_cndmask_b32_e32 v16, v16, v17, vcc
    v_or_b32_e32 v17, 0x400000, v5
    v_cmp_u_f32_e32 vcc, v5, v5
    v_or_b32_e32 v5, 0x400000, v6
    s_nop 0
    v_cndmask_b32_e32 v17, v4, v17, vcc
    v_bfe_u32 v4, v6, 16, 1
    v_add3_u32 v4, v4, v6, s2
    v_cmp_u_f32_e32 vcc, v6, v6
    s_nop 1
    v_cndmask_b32_e32 v6, v4, v5, vcc
    v_bfe_u32 v4, v7, 16, 1
    v_add3_u32 v4, v4, v7, s2
    v_or_b32_e32 v5, 0x400000, v7
    v_cmp_u_f32_e32 vcc, v7, v7
    s_nop 1
    v_cndmask_b32_e32 v7, v4, v5, vcc
    v_bfe_u32 v4, v0, 16, 1
    v_add3_u32 v4, v4, v0, s2
    v_or_b32_e32 v5, 0x400000, v0
    v_cmp_u_f32_e32 vcc, v0, v0
    v_bfe_u32 v0, v1, 16, 1
    v_add3_u32 v0, v0, v1, s2
    v_cndmask_b32_e32 v18, v4, v5, vcc
    v_or_b32_e32 v4, 0x400000, v1
    v_cmp_u_f32_e32 vcc, v1, v1
    v_or_b32_e32 v1, 0x400000, v2
    s_nop 0
    v_cndmask_b32_e32 v19, v0, v4, vcc
    v_bfe_u32 v0, v2, 16, 1
    v_add3_u32 v0, v0, v2, s2
    v_cmp_u_f32_e32 vcc, v2, v2
    v_add_u32_e32 v2, s14, v29
    s_nop 0
    v_cndmask_b32_e32 v20, v0, v1, vcc
    v_bfe_u32 v0, v3, 16, 1
    v_add3_u32 v0, v0, v3, s2
    v_or_b32_e32 v1, 0x400000, v3
    v_cmp_u_f32_e32 vcc, v3, v3
    s_mov_b32 s2, s9
    v_ashrrev_i32_e32 v3, 31, v2
    v_cndmask_b32_e32 v21, v0, v1, vcc
    v_mad_u32_u24 v0, v28, 4, s15
    v_ashrrev_i32_e32 v1, 31, v0
    v_lshlrev_b64 v[0:1], 1, v[0:1]
    s_lshr_b64 s[2:3], s[2:3], 31
    v_mad_u64_u32 v[0:1], s[4:5], v2, s6, v[0:1]
    v_mul_lo_u32 v3, v3, s6
    v_mul_lo_u32 v2, v2, s2
    v_add3_u32 v1, v3, v1, v2
    s_mov_b32 s2, 0x7060302
    v_perm_b32 v3, v15, v14, s2
    v_perm_b32 v2, v13, v12, s2
    s_waitcnt lgkmcnt(0)  ; LLVM: registers
    v_lshl_add_u64 v[0:1], s[0:1], 0, v[0:1]
    v_perm_b32 v5, v11, v10, s2
    v_perm_b32 v4, v9, v8, s2
    v_perm_b32 v7, v7, v6, s2
    v_perm_b32 v6, v17, v16, s2
    global_store_dwordx2 v[0:1], v[2:3], off
    global_store_dwordx2 v[0:1], v[4:5], off offset:32
    v_mad_i64_i32 v[0:1], s[0:1], s9, 32, v[0:1]
    v_perm_b32 v9, v21, v20, s2
    v_perm_b32 v8, v19, v18, s2
    global_store_dwordx2 v[0:1], v[6:7], off
    global_store_dwordx2 v[0:1], v[8:9], off offset:32
    s_endpgm
