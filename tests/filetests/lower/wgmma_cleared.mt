// A gemm that starts from zeros each time takes no accumulator: its first step of K writes the registers (scale-d).
// pass: specialise, infer_layouts, lower, simplify, cse, legalize, dead_code
// target: sm_90a
tile kernel @scores(%A: tensor<256x512xbf16>, %B: tensor<64x512xbf16>, %C: tensor<256x64xf32>) attrs {threads = 128} {
  launch 1, 4, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<64x32xbf16>} : shared<64x32xbf16>
    %Bs = alloc {type_ = shared<64x32xbf16>} : shared<64x32xbf16>
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %m = mul %by, 64 : i32
    %r = for 0, 16, 1, [%z] {kind = "pipelined", stages = 3} (%k: i32, %c: tile<64x64xf32>) {
      %o = mul %k, 32 : i32
      copy %A[%m, %o], %As[0, 0] {shape = (64, 32), src_dims = (0, 1), dst_dims = (0, 1)}
      copy %B[0, %o], %Bs[0, 0] {shape = (64, 32), src_dims = (0, 1), dst_dims = (0, 1)}
      %s = gemm %As[0, 0], %Bs[0, 0], %z {transpose_b = true} : tile<64x64xf32>
      %e = max %s, %c : tile<64x64xf32>
      yield %e
    }
    store %C[%m, 0], %r {dims = (0, 1)}
  }
}

// ----
thread kernel @scores(%A: tensor<256x512xbf16>, %B: tensor<64x512xbf16>, %C: tensor<256x64xf32>) attrs {threads = 128, producer_threads = 128, tensor_maps = (("A_map0", "A", (64, 32), 64, false), ("B_map1", "B", (64, 32), 64, false), ("C_map2", "C", (64, 32), 128, false)), min_ctas = 1} {
  %by = special {register = "ctaid.y"} : i32
  %As = alloc {type_ = shared<3 versions x 64x32xbf16>, layout = shared<64x32xb16; 64:512; 32:16; swizzle 64>, bytes = 4096} : shared<3 versions x 64x32xbf16>
  %Bs = alloc {type_ = shared<3 versions x 64x32xbf16>, layout = shared<64x32xb16; 64:512; 32:16; swizzle 64>, bytes = 4096} : shared<3 versions x 64x32xbf16>
  %ring = alloc {type_ = shared<6xu64>, layout = shared<6xb64; 6:64>, bytes = 48} : shared<6xu64>
  %0 = buffer_address %ring : i32
  %tid = special {register = "tid.x"} : i32
  %1 = cmp %tid, 0 {predicate = "eq"} : bool
  if %1 then {
    mbarrier_init %0, %ring {count = 1}
    %2 = add %0, 8 : i32
    mbarrier_init %2, %ring {count = 1}
    %3 = add %0, 16 : i32
    mbarrier_init %3, %ring {count = 1}
    %4 = add %0, 24 : i32
    mbarrier_init %4, %ring {count = 4}
    %5 = add %0, 32 : i32
    mbarrier_init %5, %ring {count = 4}
    %6 = add %0, 40 : i32
    mbarrier_init %6, %ring {count = 4}
    mbarrier_init_fence
    yield
  } orelse {
    yield
  }
  barrier
  %7 = warp_index : i32
  %8 = buffer_address %As : i32
  %9 = buffer_address %Bs : i32
  %10 = and %tid, 31 : i32
  %11 = cmp %10, 0 {predicate = "eq"} : bool
  %staged = alloc {type_ = shared<2 versions x 64x32xf32>, layout = shared<64x32xb32; 64:1024; 32:32; swizzle 128>, bytes = 8192, shared_by = 128} : shared<2 versions x 64x32xf32>
  %12 = shr %tid, 2 : i32
  %13 = and %12, 7 : i32
  %14 = shr %tid, 5 : i32
  %15 = mul %14, 16 : i32
  %16 = add %13, %15 : i32
  %17 = and %tid, 3 : i32
  %18 = buffer_address %staged : i32
  %19 = cmp %7, 4 {predicate = "ge"} : bool
  by_role %19 {teams = ((0, none), (1, 128))} then {
    %20 = cmp %7, 4 {predicate = "eq"} : bool
    if %20 then {
      %21 = elect : bool
      %22, %23 = for 0, 16, 1, [0, 0] : i32, i32 (%k: i32, %slot: i32, %phase: i32) {
        %24 = xor %phase, 1 : i32
        %25 = add %0, 24 : i32
        %26 = mul %slot, 8 : i32
        %27 = add %25, %26 : i32
        mbarrier_wait %27, %ring, %24
        %28 = add %0, %26 : i32
        mbarrier_expect %28, %ring, predicate = %21 {bytes = 8192}
        %29 = mul %slot, 4096 : i32
        %30 = add %8, %29 : i32
        %31 = mul %by, 64 : i32
        %32 = mul %k, 32 : i32
        tma_load %30, %28, [%32, %31], %As, %slot, %ring, tensor = %A, predicate = %21 {map = "A_map0"}
        %33 = add %9, %29 : i32
        tma_load %33, %28, [%32, 0], %Bs, %slot, %ring, tensor = %B, predicate = %21 {map = "B_map1"}
        %34 = add %slot, 1 : i32
        %35 = cmp %34, 3 {predicate = "eq"} : bool
        %36 = select %35, %24, %phase : i32
        %37 = select %35, 0, %34 : i32
        yield %37, %36
      }
      yield
    } orelse {
      yield
    }
    yield
  } orelse {
    %z = pick 0.0 {indices = (0 * 32,)} : regs<32xf32>
    %r, %38, %39 = for 0, 16, 1, [%z, 0, 0] : regs<32xf32>, i32, i32 (%k_1: i32, %c: regs<32xf32>, %slot_1: i32, %phase_1: i32) {
      %40 = mul %slot_1, 8 : i32
      %41 = add %0, %40 : i32
      mbarrier_wait %41, %ring, %phase_1
      %42 = mul %slot_1, 4096 : i32
      %43 = add %8, %42 : i32
      %44 = and %43, 262143 : i32
      %45 = shr %44, 4 : i32
      %46 = cast %45 {to = i64} : i64
      %47 = or %46, -9223371899415756800:i64 : i64
      %48 = add %9, %42 : i32
      %49 = and %48, 262143 : i32
      %50 = shr %49, 4 : i32
      %51 = cast %50 {to = i64} : i64
      %52 = or %51, -9223371899415756800:i64 : i64
      %s, %53 = wgmma %47, %52, [%As, %Bs] {dtypes = (bf16, bf16), into = f32, n = 64, k = 16, a_offsets = (0, 2), b_offsets = (0, 2)} : regs<32xf32>, token<wgmma>
      %s_1 = await %s, %53 : regs<32xf32>
      %54 = add %0, 24 : i32
      %55 = add %54, %40 : i32
      mbarrier_arrive %55, %ring, predicate = %11
      %e = max %s_1, %c : regs<32xf32>
      %56 = add %slot_1, 1 : i32
      %57 = cmp %56, 3 {predicate = "eq"} : bool
      %58 = xor %phase_1, 1 : i32
      %59 = select %57, %58, %phase_1 : i32
      %60 = select %57, 0, %56 : i32
      yield %e, %60, %59
    }
    %61 = pick %r {indices = (0, 1, .., 15)} : regs<16xf32>
    %62 = mul %16, 128 : i32
    %63 = mul %17, 8 : i32
    %64 = add %62, %63 : i32
    %65 = shr %64, 3 : i32
    %66 = and %65, 112 : i32
    %67 = xor %64, %66 : i32
    %68 = add %18, %67 : i32
    %69 = xor %67, 32 : i32
    %70 = add %18, %69 : i32
    %71 = xor %67, 64 : i32
    %72 = add %18, %71 : i32
    %73 = xor %67, 96 : i32
    %74 = add %18, %73 : i32
    %75 = concat %68, %70, %72, %74 : regs<4xi32>
    %76 = pick %61 {indices = (0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15)} : regs<16xf32>
    store_mem %75, %76, %staged, slot = 0 {space = "shared", width = 2, address_of = (0, 1, 2, 3, 0, 1, 2, 3), offsets = (0, 0, 0, 0, 1024, 1024, 1024, 1024)}
    %77 = mul %by, 64 : i32
    %78 = tma_store %18, [0, %77], %staged, %C, slot = 0, predicate = %1 {map = "C_map2"} : token<bulk>
    %79 = join %78 : token<bulk>
    wait %79 {reads = true}
    %80 = pick %r {indices = (16, 17, .., 31)} : regs<16xf32>
    %81 = add %68, 8192 : i32
    %82 = add %70, 8192 : i32
    %83 = add %72, 8192 : i32
    %84 = add %74, 8192 : i32
    %85 = concat %81, %82, %83, %84 : regs<4xi32>
    %86 = pick %80 {indices = (0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15)} : regs<16xf32>
    store_mem %85, %86, %staged, slot = 1 {space = "shared", width = 2, address_of = (0, 1, 2, 3, 0, 1, 2, 3), offsets = (0, 0, 0, 0, 1024, 1024, 1024, 1024)}
    %87 = add %18, 8192 : i32
    %88 = tma_store %87, [32, %77], %staged, %C, slot = 1, predicate = %1 {map = "C_map2"} : token<bulk>
    %89 = join %88 : token<bulk>
    wait %89 {reads = true}
    wait %89
    wait %79
    yield
  }
}
