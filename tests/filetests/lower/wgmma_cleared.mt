// A gemm that starts from zeros each time takes no accumulator: its first step of K writes the registers (scale-d).
// pass: warp_specialize, infer_layouts, lower, simplify, cse, legalize, dead_code
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
  %tid = special {register = "tid.x"} : i32
  %0 = cmp %tid, 0 {predicate = "eq"} : bool
  %ring = alloc {type_ = shared<6xu64>, layout = shared<6xb64; 6:64>, bytes = 48} : shared<6xu64>
  if %0 then {
    %1 = buffer_address %ring : i32
    mbarrier_init %1, %ring {count = 1}
    %2 = add %1, 8 : i32
    mbarrier_init %2, %ring {count = 1}
    %3 = add %1, 16 : i32
    mbarrier_init %3, %ring {count = 1}
    %4 = add %1, 24 : i32
    mbarrier_init %4, %ring {count = 4}
    %5 = add %1, 32 : i32
    mbarrier_init %5, %ring {count = 4}
    %6 = add %1, 40 : i32
    mbarrier_init %6, %ring {count = 4}
    mbarrier_init_fence
    yield
  } orelse {
    yield
  }
  barrier
  %7 = warp_index : i32
  %8 = buffer_address %ring : i32
  %9 = buffer_address %As : i32
  %10 = buffer_address %Bs : i32
  %11 = and %tid, 31 : i32
  %12 = cmp %11, 0 {predicate = "eq"} : bool
  %staged = alloc {type_ = shared<2 versions x 64x32xf32>, layout = shared<64x32xb32; 64:1024; 32:32; swizzle 128>, bytes = 8192, shared_by = 128} : shared<2 versions x 64x32xf32>
  %13 = shr %tid, 2 : i32
  %14 = and %13, 7 : i32
  %15 = shr %tid, 5 : i32
  %16 = mul %15, 16 : i32
  %17 = add %14, %16 : i32
  %18 = and %tid, 3 : i32
  %19 = buffer_address %staged : i32
  %20 = cmp %7, 4 {predicate = "ge"} : bool
  by_role %20 {teams = ((0, none), (1, 128))} then {
    %21 = cmp %7, 4 {predicate = "eq"} : bool
    if %21 then {
      %22 = elect : bool
      %23, %24 = for 0, 16, 1, [0, 0] : i32, i32 (%k: i32, %slot: i32, %phase: i32) {
        %25 = xor %phase, 1 : i32
        %26 = add %8, 24 : i32
        %27 = mul %slot, 8 : i32
        %28 = add %26, %27 : i32
        mbarrier_wait %28, %ring, %25
        %29 = add %8, %27 : i32
        mbarrier_expect %29, %ring, predicate = %22 {bytes = 8192}
        %30 = mul %slot, 4096 : i32
        %31 = add %9, %30 : i32
        %32 = mul %by, 64 : i32
        %33 = mul %k, 32 : i32
        tma_load %31, %29, [%33, %32], %As, %slot, %ring, tensor = %A, predicate = %22 {map = "A_map0", free = true}
        %34 = add %10, %30 : i32
        tma_load %34, %29, [%33, 0], %Bs, %slot, %ring, tensor = %B, predicate = %22 {map = "B_map1", free = true}
        %35 = add %slot, 1 : i32
        %36 = cmp %35, 3 {predicate = "eq"} : bool
        %37 = select %36, %25, %phase : i32
        %38 = select %36, 0, %35 : i32
        yield %38, %37
      }
      yield
    } orelse {
      yield
    }
    yield
  } orelse {
    %z = pick 0.0 {indices = (0 * 32,)} : regs<32xf32>
    %r, %39, %40 = for 0, 16, 1, [%z, 0, 0] : regs<32xf32>, i32, i32 (%k_1: i32, %c: regs<32xf32>, %slot_1: i32, %phase_1: i32) {
      %41 = mul %slot_1, 8 : i32
      %42 = add %8, %41 : i32
      mbarrier_wait %42, %ring, %phase_1
      %43 = and %9, 262143 : i32
      %44 = shr %43, 4 : i32
      %45 = cast %44 {to = i64} : i64
      %46 = or %45, -9223371899415756800:i64 : i64
      %47 = cast %slot_1 {to = i64} : i64
      %48 = mul %47, 256:i64 : i64
      %49 = add %46, %48 : i64
      %50 = and %10, 262143 : i32
      %51 = shr %50, 4 : i32
      %52 = cast %51 {to = i64} : i64
      %53 = or %52, -9223371899415756800:i64 : i64
      %54 = add %53, %48 : i64
      %s, %55 = wgmma %49, %54, [%As, %Bs] {dtypes = (bf16, bf16), into = f32, n = 64, k = 16, a_offsets = (0, 2), b_offsets = (0, 2)} : regs<32xf32>, token<wgmma>
      %s_1 = await %s, %55 : regs<32xf32>
      %56 = add %8, 24 : i32
      %57 = add %56, %41 : i32
      mbarrier_arrive %57, %ring, predicate = %12
      %e = max %s_1, %c : regs<32xf32>
      %58 = add %slot_1, 1 : i32
      %59 = cmp %58, 3 {predicate = "eq"} : bool
      %60 = xor %phase_1, 1 : i32
      %61 = select %59, %60, %phase_1 : i32
      %62 = select %59, 0, %58 : i32
      yield %e, %62, %61
    }
    %63 = pick %r {indices = (0, 1, .., 15)} : regs<16xf32>
    %64 = mul %17, 128 : i32
    %65 = mul %18, 8 : i32
    %66 = add %64, %65 : i32
    %67 = shr %66, 3 : i32
    %68 = and %67, 112 : i32
    %69 = xor %66, %68 : i32
    %70 = add %19, %69 : i32
    %71 = xor %69, 32 : i32
    %72 = add %19, %71 : i32
    %73 = xor %69, 64 : i32
    %74 = add %19, %73 : i32
    %75 = xor %69, 96 : i32
    %76 = add %19, %75 : i32
    %77 = concat %70, %72, %74, %76 : regs<4xi32>
    %78 = pick %63 {indices = (0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15)} : regs<16xf32>
    store_mem %77, %78, %staged, slot = 0 {space = "shared", width = 2, address_of = (0, 1, 2, 3, 0, 1, 2, 3), offsets = (0, 0, 0, 0, 1024, 1024, 1024, 1024)}
    %79 = mul %by, 64 : i32
    %80 = tma_store %19, [0, %79], %staged, %C, [%79, 0], slot = 0, predicate = %0 {map = "C_map2", extent = (64, 64)} : token<bulk>
    %81 = join %80 : token<bulk>
    wait %81 {reads = true}
    %82 = pick %r {indices = (16, 17, .., 31)} : regs<16xf32>
    %83 = add %70, 8192 : i32
    %84 = add %72, 8192 : i32
    %85 = add %74, 8192 : i32
    %86 = add %76, 8192 : i32
    %87 = concat %83, %84, %85, %86 : regs<4xi32>
    %88 = pick %82 {indices = (0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15)} : regs<16xf32>
    store_mem %87, %88, %staged, slot = 1 {space = "shared", width = 2, address_of = (0, 1, 2, 3, 0, 1, 2, 3), offsets = (0, 0, 0, 0, 1024, 1024, 1024, 1024)}
    %89 = add %19, 8192 : i32
    %90 = tma_store %89, [32, %79], %staged, %C, [%79, 0], slot = 1, predicate = %0 {map = "C_map2", extent = (64, 64)} : token<bulk>
    %91 = join %90 : token<bulk>
    wait %91 {reads = true}
    wait %91
    wait %81
    yield
  }
}
