; LLVM 22.1.0, gfx950, block_M=64, block_N=32, block_K=64, num_stages=2, threads=128
gemm__block_M64_block_N32_block_K64_num_stages2:
    s_load_dwordx8 s[4:11], s[0:1], 0x0
    s_lshl_b32 s24, s3, 6
    s_ashr_i32 s3, s24, 31
    v_lshrrev_b32_e32 v1, 3, v0
    v_and_b32_e32 v2, 7, v0
    s_waitcnt lgkmcnt(0)  ; LLVM: registers
    s_add_i32 s0, s10, 63
    s_ashr_i32 s25, s0, 6
    s_ashr_i32 s1, s10, 31
    s_mov_b32 s0, s10
    s_lshl_b32 s13, s10, 1
    s_lshr_b64 s[0:1], s[0:1], 31
    s_mul_hi_u32 s14, s24, s13
    s_mul_i32 s1, s24, s0
    v_bfe_u32 v3, v0, 3, 3
    s_add_i32 s1, s14, s1
    s_mul_i32 s3, s3, s13
    v_mul_u32_u24_e32 v2, 8, v2
    v_mul_u32_u24_e32 v3, 8, v3
    s_add_i32 s27, s1, s3
    v_mul_lo_u32 v1, s10, v1
    s_lshl_b32 s3, s10, 5
    s_lshl_b32 s10, s2, 5
    v_xor_b32_e32 v2, v2, v3
    v_lshrrev_b32_e32 v3, 6, v0
    s_ashr_i32 s1, s10, 31
    s_mul_hi_u32 s2, s10, s13
    s_mul_i32 s0, s10, s0
    v_readfirstlane_b32 s12, v3
    s_add_i32 s0, s2, s0
    s_mul_i32 s1, s1, s13
    s_mul_i32 s28, s24, s13
    s_lshl_b32 s26, s12, 10
    s_add_i32 s29, s0, s1
    s_add_u32 s0, s4, s28
    s_mul_i32 s30, s10, s13
    s_addc_u32 s13, s5, s27
    s_and_b32 s1, s13, 0xffff
    s_add_i32 s15, s26, 0x1000
    s_add_u32 s20, s6, s30
    s_addc_u32 s14, s7, s29
    v_mul_u32_u24_e32 v2, 2, v2
    s_and_b32 s21, s14, 0xffff
    v_lshl_add_u32 v18, v1, 1, v2
    s_cmp_gt_i32 s25, 0
    s_cselect_b32 s2, 0x80000000, 0
    s_add_i32 s18, s26, 0x4000
    s_add_i32 s19, s26, 0x800
    s_add_i32 s31, s26, 0x1800
    s_add_i32 s33, s26, 0x4800
    v_add_u32_e32 v19, s3, v18
    s_add_u32 s12, s0, 0x80
    v_add_u32_e32 v20, s3, v19
    s_addc_u32 s13, s13, 0
    v_add_u32_e32 v21, s3, v20
    s_mov_b32 s3, 0x27000
    s_mov_b32 m0, s26
    s_and_b32 s13, s13, 0xffff
    s_add_i32 s34, s26, 0x2000
    s_add_i32 s35, s26, 0x3000
    buffer_load_dwordx4 v18, s[0:3], 0 offen lds
    s_mov_b32 m0, s15
    s_add_u32 s16, s20, 0x80
    buffer_load_dwordx4 v20, s[0:3], 0 offen lds
    s_mov_b32 s22, s2
    s_mov_b32 s23, s3
    s_mov_b32 m0, s18
    s_addc_u32 s14, s14, 0
    buffer_load_dwordx4 v18, s[20:23], 0 offen lds
    s_mov_b32 m0, s19
    s_and_b32 s17, s14, 0xffff
    buffer_load_dwordx4 v19, s[0:3], 0 offen lds
    s_mov_b32 m0, s31
    s_cmp_gt_i32 s25, 1
    buffer_load_dwordx4 v21, s[0:3], 0 offen lds
    s_mov_b32 m0, s33
    s_cselect_b32 s14, 0x80000000, 0
    buffer_load_dwordx4 v19, s[20:23], 0 offen lds
    s_mov_b32 s15, s3
    s_mov_b32 m0, s34
    s_add_i32 s36, s26, 0x5000
    buffer_load_dwordx4 v18, s[12:15], 0 offen lds
    s_mov_b32 m0, s35
    s_add_i32 s37, s26, 0x2800
    buffer_load_dwordx4 v20, s[12:15], 0 offen lds
    s_mov_b32 s18, s14
    s_mov_b32 s19, s3
    s_mov_b32 m0, s36
    s_add_i32 s38, s26, 0x3800
    buffer_load_dwordx4 v18, s[16:19], 0 offen lds
    s_mov_b32 m0, s37
    s_add_i32 s39, s26, 0x5800
    buffer_load_dwordx4 v19, s[12:15], 0 offen lds
    s_mov_b32 m0, s38
    v_and_b32_e32 v1, 15, v0
    buffer_load_dwordx4 v21, s[12:15], 0 offen lds
    s_mov_b32 m0, s39
    s_cmp_lt_i32 s25, 1
    buffer_load_dwordx4 v19, s[16:19], 0 offen lds
    s_mov_b32 s16, 0
    v_lshl_or_b32 v17, v3, 5, v1
    v_bfe_u32 v16, v0, 4, 2
    s_waitcnt vmcnt(9) lgkmcnt(0)  ; cdna4_half_tiles: RAW A_shared, B_shared, gemm.py:66+68 -> gemm.py:71 | thread_barriers: RAW B_shared, gemm.py:68 -> gemm.py:71
    s_barrier  ; thread_barriers: RAW B_shared, gemm.py:68 -> gemm.py:71
    s_cbranch_scc1 .LBB0_3
    v_mul_u32_u24_e32 v0, 0x80, v17
    v_mul_u32_u24_e32 v2, 16, v16
    v_add_u32_e32 v0, v0, v2
    v_mul_u32_u24_e32 v1, 0x80, v1
    v_lshrrev_b32_e32 v3, 3, v0
    s_movk_i32 s0, 0x70
    v_bitop3_b32 v22, v0, v3, s0 bitop3:0x78
    v_add_u32_e32 v0, v1, v2
    v_lshrrev_b32_e32 v1, 3, v0
    v_bitop3_b32 v24, v0, v1, s0 bitop3:0x78
    s_add_u32 s0, s4, s28
    v_xor_b32_e32 v23, 64, v22
    v_xor_b32_e32 v25, 64, v24
    ds_read_b128 v[38:41], v24 offset:16384
    ds_read_b128 v[34:37], v25 offset:16384
    ds_read_b128 v[26:29], v22
    ds_read_b128 v[30:33], v23
    s_addc_u32 s1, s5, s27
    s_add_u32 s12, s0, 0x100
    s_addc_u32 s13, s1, 0
    s_add_u32 s0, s6, s30
    s_addc_u32 s1, s7, s29
    s_add_u32 s14, s0, 0x100
    s_addc_u32 s15, s1, 0
    v_mov_b32_e32 v4, 0
    v_mov_b32_e32 v5, 0
    v_mov_b32_e32 v6, 0
    v_mov_b32_e32 v7, 0
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
.LBB0_2:
    s_add_i32 s17, s16, 1
    s_add_i32 s0, s16, 2
    s_and_b32 s4, s0, 1
    s_lshl_b32 s1, s4, 13
    s_add_i32 s18, s26, s1
    s_cmp_lt_i32 s0, s25
    s_cselect_b32 s2, 0x80000000, 0
    s_and_b32 s1, s13, 0xffff
    s_mov_b32 s0, s12
    s_mov_b32 m0, s18
    s_lshl_b32 s4, s4, 12
    s_waitcnt vmcnt(6) lgkmcnt(0)  ; cdna4_half_tiles: RAW A_shared, B_shared, gemm.py:66+68 -> gemm.py:71 | thread_barriers: WAR A_shared, gemm.py:71 -> gemm.py:66
    s_barrier  ; thread_barriers: WAR A_shared, gemm.py:71 -> gemm.py:66
    buffer_load_dwordx4 v18, s[0:3], 0 offen lds
    s_add_i32 m0, s18, 0x1000
    s_sub_i32 s19, s18, s4
    buffer_load_dwordx4 v20, s[0:3], 0 offen lds
    s_and_b32 s5, s15, 0xffff
    s_mov_b32 s4, s14
    s_mov_b32 s6, s2
    s_mov_b32 s7, s3
    s_add_i32 m0, s19, 0x4000
    s_nop 0
    buffer_load_dwordx4 v18, s[4:7], 0 offen lds
    s_setprio 1
    v_mfma_f32_16x16x32_bf16 v[12:15], v[38:41], v[26:29], v[12:15]
    s_and_b32 s16, s16, 1
    s_lshl_b32 s20, s16, 13
    s_lshl_b32 s16, s16, 12
    v_add_u32_e32 v42, s20, v22
    s_bitset1_b32 s16, 14
    v_add_u32_e32 v43, s20, v23
    ds_read_b128 v[44:47], v42 offset:2048
    ds_read_b128 v[48:51], v43 offset:2048
    v_add_u32_e32 v42, s16, v24
    ds_read_b128 v[52:55], v42 offset:2048
    v_mfma_f32_16x16x32_bf16 v[12:15], v[34:37], v[30:33], v[12:15]
    s_setprio 0
    v_add_u32_e32 v42, s16, v25
    s_waitcnt lgkmcnt(0)  ; cdna4_half_tiles: RAW registers: fragments of A_shared, B_shared before they are multiplied, gemm.py:71 -> gemm.py:71
    ds_read_b128 v[56:59], v42 offset:2048
    s_setprio 1
    v_mfma_f32_16x16x32_bf16 v[0:3], v[38:41], v[44:47], v[0:3]
    v_mfma_f32_16x16x32_bf16 v[0:3], v[34:37], v[48:51], v[0:3]
    s_setprio 0
    s_and_b32 s16, s17, 1
    s_lshl_b32 s20, s16, 12
    s_bitset1_b32 s20, 14
    v_add_u32_e32 v34, s20, v24
    v_add_u32_e32 v35, s20, v25
    s_waitcnt vmcnt(6) lgkmcnt(0)  ; cdna4_half_tiles: RAW A_shared, B_shared, gemm.py:66+68 -> gemm.py:71 | thread_barriers: RAW B_shared, gemm.py:68 -> gemm.py:71
    s_barrier  ; thread_barriers: RAW B_shared, gemm.py:68 -> gemm.py:71
    ds_read_b128 v[38:41], v34
    ds_read_b128 v[34:37], v35
    s_setprio 1
    v_mfma_f32_16x16x32_bf16 v[4:7], v[52:55], v[44:47], v[4:7]
    s_add_i32 m0, s18, 0x800
    s_nop 0
    buffer_load_dwordx4 v19, s[0:3], 0 offen lds
    v_mfma_f32_16x16x32_bf16 v[4:7], v[56:59], v[48:51], v[4:7]
    s_setprio 0
    s_add_i32 m0, s18, 0x1800
    s_nop 0
    buffer_load_dwordx4 v21, s[0:3], 0 offen lds
    s_add_i32 m0, s19, 0x4800
    s_nop 0
    buffer_load_dwordx4 v19, s[4:7], 0 offen lds
    s_setprio 1
    v_mfma_f32_16x16x32_bf16 v[8:11], v[52:55], v[26:29], v[8:11]
    s_lshl_b32 s0, s16, 13
    v_add_u32_e32 v26, s0, v22
    ds_read_b128 v[26:29], v26
    v_mfma_f32_16x16x32_bf16 v[8:11], v[56:59], v[30:33], v[8:11]
    v_add_u32_e32 v30, s0, v23
    ds_read_b128 v[30:33], v30
    s_setprio 0
    s_add_u32 s12, s12, 0x80
    s_addc_u32 s13, s13, 0
    s_add_u32 s14, s14, 0x80
    s_addc_u32 s15, s15, 0
    s_cmp_lt_i32 s17, s25
    s_mov_b32 s16, s17
    s_cbranch_scc1 .LBB0_2
    s_branch .LBB0_4
.LBB0_3:
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
    v_mov_b32_e32 v7, 0
    v_mov_b32_e32 v6, 0
    v_mov_b32_e32 v5, 0
    v_mov_b32_e32 v4, 0
.LBB0_4:
    v_cvt_pk_bf16_f32 v0, v0, v1
    v_cvt_pk_bf16_f32 v1, v2, v3
    v_cvt_pk_bf16_f32 v2, v4, v5
    v_mad_u32_u24 v4, v16, 4, s10
    v_cvt_pk_bf16_f32 v3, v6, v7
    v_add_u32_e32 v6, s24, v17
    s_ashr_i32 s1, s11, 31
    s_mov_b32 s0, s11
    v_ashrrev_i32_e32 v5, 31, v4
    v_ashrrev_i32_e32 v7, 31, v6
    s_lshl_b32 s4, s11, 1
    v_lshlrev_b64 v[4:5], 1, v[4:5]
    s_lshr_b64 s[0:1], s[0:1], 31
    v_mad_u64_u32 v[4:5], s[2:3], v6, s4, v[4:5]
    v_mul_lo_u32 v7, v7, s4
    v_mul_lo_u32 v6, v6, s0
    v_add3_u32 v5, v7, v5, v6
    v_cvt_pk_bf16_f32 v12, v12, v13
    v_cvt_pk_bf16_f32 v13, v14, v15
    v_lshl_add_u64 v[4:5], s[8:9], 0, v[4:5]
    s_waitcnt vmcnt(0)  ; cdna4_half_tiles: WAW A_shared, B_shared: complete before the memory is given back, gemm.py:66+68
    v_cvt_pk_bf16_f32 v8, v8, v9
    v_cvt_pk_bf16_f32 v9, v10, v11
    global_store_dwordx2 v[4:5], v[12:13], off
    global_store_dwordx2 v[4:5], v[8:9], off offset:32
    v_mad_i64_i32 v[4:5], s[0:1], s11, 32, v[4:5]
    global_store_dwordx2 v[4:5], v[0:1], off
    global_store_dwordx2 v[4:5], v[2:3], off offset:32
    s_endpgm
