; LLVM 22.1.0, gfx950, block_M=64, block_N=32, block_K=64, num_stages=2, threads=128
gemm__block_M64_block_N32_block_K64_num_stages2:
    s_load_dwordx8 s[4:11], s[0:1], 0x0
    v_and_b32_e32 v2, 7, v0
    v_bfe_u32 v3, v0, 3, 3
    v_mul_u32_u24_e32 v2, 8, v2
    v_mul_u32_u24_e32 v3, 8, v3
    s_waitcnt lgkmcnt(0)  ; LLVM: registers
    s_add_i32 s0, s10, 63
    s_ashr_i32 s13, s0, 6
    s_ashr_i32 s1, s10, 31
    s_mov_b32 s0, s10
    s_lshl_b32 s12, s3, 6
    s_lshl_b32 s15, s10, 1
    s_lshr_b64 s[18:19], s[0:1], 31
    v_xor_b32_e32 v2, v2, v3
    v_lshrrev_b32_e32 v3, 6, v0
    s_ashr_i32 s3, s12, 31
    s_mul_hi_u32 s16, s12, s15
    s_mul_i32 s0, s12, s18
    v_readfirstlane_b32 s14, v3
    s_add_i32 s0, s16, s0
    s_mul_i32 s3, s3, s15
    s_add_i32 s16, s0, s3
    s_mul_i32 s17, s12, s15
    s_lshl_b32 s3, s10, 5
    s_lshl_b32 s14, s14, 10
    v_lshrrev_b32_e32 v1, 3, v0
    s_add_u32 s0, s4, s17
    v_mul_lo_u32 v1, s10, v1
    s_addc_u32 s1, s5, s16
    s_lshl_b32 s10, s2, 5
    s_ashr_i32 s2, s10, 31
    s_mul_hi_u32 s19, s10, s15
    s_mul_i32 s18, s10, s18
    s_add_i32 s18, s19, s18
    s_mul_i32 s2, s2, s15
    s_and_b32 s1, s1, 0xffff
    s_add_i32 s22, s14, 0x800
    s_add_i32 s23, s14, 0x1000
    s_add_i32 s24, s14, 0x1800
    s_add_i32 s18, s18, s2
    s_mul_i32 s19, s10, s15
    v_mul_u32_u24_e32 v2, 2, v2
    s_add_u32 s20, s6, s19
    v_lshl_add_u32 v18, v1, 1, v2
    s_addc_u32 s2, s7, s18
    s_and_b32 s21, s2, 0xffff
    v_add_u32_e32 v19, s3, v18
    s_cmp_gt_i32 s13, 0
    v_add_u32_e32 v20, s3, v19
    s_cselect_b32 s2, 0x80000000, 0
    v_add_u32_e32 v21, s3, v20
    s_mov_b32 s3, 0x27000
    s_mov_b32 m0, s14
    s_add_i32 s15, s14, 0x4000
    buffer_load_dwordx4 v18, s[0:3], 0 offen lds
    s_mov_b32 m0, s22
    s_add_i32 s25, s14, 0x4800
    buffer_load_dwordx4 v19, s[0:3], 0 offen lds
    s_mov_b32 m0, s23
    s_mov_b32 s22, s2
    buffer_load_dwordx4 v20, s[0:3], 0 offen lds
    s_mov_b32 m0, s24
    s_mov_b32 s23, s3
    buffer_load_dwordx4 v21, s[0:3], 0 offen lds
    s_mov_b32 m0, s15
    v_and_b32_e32 v1, 15, v0
    buffer_load_dwordx4 v18, s[20:23], 0 offen lds
    s_mov_b32 m0, s25
    s_mov_b32 s15, 1
    buffer_load_dwordx4 v19, s[20:23], 0 offen lds
    s_cmp_lt_i32 s13, 1
    v_lshl_or_b32 v17, v3, 5, v1
    v_bfe_u32 v16, v0, 4, 2
    s_cbranch_scc1 .LBB0_3
    v_mul_u32_u24_e32 v0, 0x80, v17
    s_add_u32 s0, s4, s17
    v_lshrrev_b32_e32 v3, 3, v0
    s_addc_u32 s1, s5, s16
    v_mul_u32_u24_e32 v2, 16, v16
    v_and_b32_e32 v3, 0x70, v3
    s_add_u32 s4, s0, 0x80
    v_bitop3_b32 v22, v0, v3, v2 bitop3:0x36
    v_mul_u32_u24_e32 v0, 0x80, v1
    s_addc_u32 s5, s1, 0
    v_lshrrev_b32_e32 v1, 3, v0
    s_add_u32 s0, s6, s19
    v_and_b32_e32 v1, 0x70, v1
    s_addc_u32 s1, s7, s18
    v_bitop3_b32 v24, v0, v1, v2 bitop3:0x36
    s_add_u32 s6, s0, 0x80
    v_xor_b32_e32 v23, 64, v22
    v_xor_b32_e32 v25, 64, v24
    s_addc_u32 s7, s1, 0
    v_mov_b32_e32 v0, 0
    v_mov_b32_e32 v1, 0
    v_mov_b32_e32 v2, 0
    v_mov_b32_e32 v3, 0
    v_mov_b32_e32 v8, 0
    v_mov_b32_e32 v9, 0
    v_mov_b32_e32 v10, 0
    v_mov_b32_e32 v11, 0
    v_mov_b32_e32 v12, 0
    v_mov_b32_e32 v13, 0
    v_mov_b32_e32 v14, 0
    v_mov_b32_e32 v15, 0
    v_mov_b32_e32 v4, 0
    v_mov_b32_e32 v5, 0
    v_mov_b32_e32 v6, 0
    v_mov_b32_e32 v7, 0
.LBB0_2:
    s_add_i32 s1, s15, -1
    s_and_b32 s2, s15, 1
    s_and_b32 s1, s1, 1
    s_lshl_b32 s16, s2, 13
    s_add_i32 s18, s14, s16
    s_lshl_b32 s16, s1, 13
    s_lshl_b32 s1, s1, 12
    s_bitset1_b32 s1, 14
    v_add_u32_e32 v26, s16, v22
    s_waitcnt vmcnt(0) lgkmcnt(0)  ; software_pipeline: RAW A_shared, B_shared, gemm.py:66+68 -> gemm.py:71 | thread_barriers: RAW A_shared, gemm.py:66 -> gemm.py:71
    s_barrier  ; thread_barriers: RAW A_shared, gemm.py:66 -> gemm.py:71
    ds_read_b128 v[30:33], v26
    ds_read_b128 v[34:37], v26 offset:2048
    v_or_b32_e32 v26, s1, v24
    s_lshl_b32 s2, s2, 12
    ds_read_b128 v[38:41], v26
    s_sub_i32 s19, s18, s2
    s_cmp_lt_i32 s15, s13
    v_add_u32_e32 v27, s16, v23
    s_cselect_b64 s[16:17], -1, 0
    s_and_b64 vcc, s[16:17], exec
    s_mov_b32 s0, s4
    v_or_b32_e32 v28, s1, v25
    s_cselect_b32 s2, 0x80000000, 0
    s_and_b32 s1, s5, 0xffff
    s_mov_b32 m0, s18
    ds_read_b128 v[42:45], v26 offset:2048
    ds_read_b128 v[46:49], v28
    ds_read_b128 v[50:53], v28 offset:2048
    buffer_load_dwordx4 v18, s[0:3], 0 offen lds
    s_add_i32 m0, s18, 0x800
    s_waitcnt lgkmcnt(3)  ; LLVM: registers
    v_mfma_f32_16x16x32_bf16 v[4:7], v[38:41], v[30:33], v[4:7]
    buffer_load_dwordx4 v19, s[0:3], 0 offen lds
    s_add_i32 m0, s18, 0x1000
    s_add_i32 s15, s15, 1
    buffer_load_dwordx4 v20, s[0:3], 0 offen lds
    s_add_i32 m0, s18, 0x1800
    s_waitcnt lgkmcnt(2)  ; LLVM: registers
    v_mfma_f32_16x16x32_bf16 v[12:15], v[42:45], v[30:33], v[12:15]
    v_mfma_f32_16x16x32_bf16 v[8:11], v[38:41], v[34:37], v[8:11]
    ds_read_b128 v[28:31], v27
    ds_read_b128 v[38:41], v27 offset:2048
    buffer_load_dwordx4 v21, s[0:3], 0 offen lds
    s_and_b32 s1, s7, 0xffff
    s_mov_b32 s0, s6
    s_add_i32 m0, s19, 0x4000
    v_mfma_f32_16x16x32_bf16 v[0:3], v[42:45], v[34:37], v[0:3]
    buffer_load_dwordx4 v18, s[0:3], 0 offen lds
    s_add_i32 m0, s19, 0x4800
    s_add_u32 s4, s4, 0x80
    buffer_load_dwordx4 v19, s[0:3], 0 offen lds
    s_waitcnt lgkmcnt(1)  ; LLVM: registers
    v_mfma_f32_16x16x32_bf16 v[4:7], v[46:49], v[28:31], v[4:7]
    s_addc_u32 s5, s5, 0
    s_add_u32 s6, s6, 0x80
    s_addc_u32 s7, s7, 0
    v_mfma_f32_16x16x32_bf16 v[12:15], v[50:53], v[28:31], v[12:15]
    s_waitcnt lgkmcnt(0)  ; LLVM: registers
    v_mfma_f32_16x16x32_bf16 v[8:11], v[46:49], v[38:41], v[8:11]
    v_mfma_f32_16x16x32_bf16 v[0:3], v[50:53], v[38:41], v[0:3]
    s_cbranch_vccnz .LBB0_2
    s_branch .LBB0_4
.LBB0_3:
    v_mov_b32_e32 v7, 0
    v_mov_b32_e32 v6, 0
    v_mov_b32_e32 v5, 0
    v_mov_b32_e32 v4, 0
    v_mov_b32_e32 v15, 0
    v_mov_b32_e32 v14, 0
    v_mov_b32_e32 v13, 0
    v_mov_b32_e32 v12, 0
    v_mov_b32_e32 v11, 0
    v_mov_b32_e32 v10, 0
    v_mov_b32_e32 v9, 0
    v_mov_b32_e32 v8, 0
    v_mov_b32_e32 v3, 0
    v_mov_b32_e32 v2, 0
    v_mov_b32_e32 v1, 0
    v_mov_b32_e32 v0, 0
.LBB0_4:
    s_nop 5
    v_cvt_pk_bf16_f32 v0, v0, v1
    v_cvt_pk_bf16_f32 v1, v2, v3
    v_mad_u32_u24 v2, v16, 4, s10
    v_cvt_pk_bf16_f32 v8, v8, v9
    v_cvt_pk_bf16_f32 v9, v10, v11
    v_add_u32_e32 v10, s12, v17
    s_ashr_i32 s1, s11, 31
    s_mov_b32 s0, s11
    v_ashrrev_i32_e32 v3, 31, v2
    v_ashrrev_i32_e32 v11, 31, v10
    s_lshl_b32 s4, s11, 1
    v_lshlrev_b64 v[2:3], 1, v[2:3]
    s_lshr_b64 s[0:1], s[0:1], 31
    v_mad_u64_u32 v[2:3], s[2:3], v10, s4, v[2:3]
    v_mul_lo_u32 v11, v11, s4
    v_mul_lo_u32 v10, v10, s0
    v_add3_u32 v3, v11, v3, v10
    v_cvt_pk_bf16_f32 v4, v4, v5
    v_cvt_pk_bf16_f32 v5, v6, v7
    v_lshl_add_u64 v[2:3], s[8:9], 0, v[2:3]
    s_waitcnt vmcnt(0)  ; software_pipeline: WAW A_shared, B_shared: complete before the memory is given back, gemm.py:66+68
    v_cvt_pk_bf16_f32 v6, v12, v13
    v_cvt_pk_bf16_f32 v7, v14, v15
    global_store_dwordx2 v[2:3], v[4:5], off
    global_store_dwordx2 v[2:3], v[6:7], off offset:32
    v_mad_i64_i32 v[2:3], s[0:1], s11, 32, v[2:3]
    global_store_dwordx2 v[2:3], v[8:9], off
    global_store_dwordx2 v[2:3], v[0:1], off offset:32
    s_endpgm
