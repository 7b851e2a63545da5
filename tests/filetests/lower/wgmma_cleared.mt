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
thread kernel @scores(%A: tensor<256x512xbf16>, %B: tensor<64x512xbf16>, %C: tensor<256x64xf32>) attrs {threads = 128, producer_threads = 128, tensor_maps = (("A_map0", "A", (64, 32), 64), ("B_map1", "B", (64, 32), 64)), min_ctas = 1} {
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
  %10 = shr %7, 2 : i32
  %11 = and %tid, 31 : i32
  %12 = cmp %11, 0 {predicate = "eq"} : bool
  %13 = shr %tid, 2 : i32
  %14 = and %13, 7 : i32
  %15 = shr %tid, 5 : i32
  %16 = mul %15, 16 : i32
  %17 = add %14, %16 : i32
  %18 = and %tid, 3 : i32
  %19 = mul %18, 2 : i32
  %20 = global_address %C : i64
  %21 = cmp %7, 4 {predicate = "ge"} : bool
  by_role %21 {consumers = 128} then {
    %22 = cmp %7, 4 {predicate = "eq"} : bool
    if %22 then {
      %23 = elect : bool
      %24, %25 = for 0, 16, 1, [0, 0] : i32, i32 (%k: i32, %slot: i32, %phase: i32) {
        %26 = xor %phase, 1 : i32
        %27 = add %0, 24 : i32
        %28 = mul %slot, 8 : i32
        %29 = add %27, %28 : i32
        mbarrier_wait %29, %ring, %26
        %30 = add %0, %28 : i32
        mbarrier_expect %30, %ring, predicate = %23 {bytes = 8192}
        %31 = mul %slot, 4096 : i32
        %32 = add %8, %31 : i32
        %33 = mul %by, 64 : i32
        %34 = mul %k, 32 : i32
        tma_load %32, %30, [%34, %33], %As, %slot, %ring, predicate = %23 {map = "A_map0"}
        %35 = add %9, %31 : i32
        tma_load %35, %30, [%34, 0], %Bs, %slot, %ring, predicate = %23 {map = "B_map1"}
        %36 = add %slot, 1 : i32
        %37 = cmp %36, 3 {predicate = "eq"} : bool
        %38 = select %37, 0, %36 : i32
        %39 = select %37, %26, %phase : i32
        yield %38, %39
      }
      yield
    } orelse {
      yield
    }
    yield
  } orelse {
    %z = pick 0.0 {indices = (0 * 32,)} : regs<32xf32>
    %r, %40, %41 = for 0, 16, 1, [%z, 0, 0] : regs<32xf32>, i32, i32 (%k_1: i32, %c: regs<32xf32>, %slot_1: i32, %phase_1: i32) {
      %42 = mul %slot_1, 8 : i32
      %43 = add %0, %42 : i32
      mbarrier_wait %43, %ring, %phase_1
      %44 = mul %10, 4096 : i32
      %45 = add %8, %44 : i32
      %46 = mul %slot_1, 4096 : i32
      %47 = add %45, %46 : i32
      %48 = and %47, 262143 : i32
      %49 = shr %48, 4 : i32
      %50 = cast %49 {to = i64} : i64
      %51 = or %50, -9223371899415756800:i64 : i64
      %52 = add %9, %46 : i32
      %53 = and %52, 262143 : i32
      %54 = shr %53, 4 : i32
      %55 = cast %54 {to = i64} : i64
      %56 = or %55, -9223371899415756800:i64 : i64
      %s, %57 = wgmma %51, %56, [%As, %Bs] {dtype = bf16, into = f32, n = 64, k = 16, a_offsets = (0, 2), b_offsets = (0, 2)} : regs<32xf32>, token<wgmma>
      %s_1 = await %s, %57 : regs<32xf32>
      %58 = add %0, 24 : i32
      %59 = add %58, %42 : i32
      mbarrier_arrive %59, %ring, predicate = %12
      %e = max %s_1, %c : regs<32xf32>
      %60 = add %slot_1, 1 : i32
      %61 = cmp %60, 3 {predicate = "eq"} : bool
      %62 = select %61, 0, %60 : i32
      %63 = xor %phase_1, 1 : i32
      %64 = select %61, %63, %phase_1 : i32
      yield %e, %62, %64
    }
    %65 = mul %by, 64 : i32
    %66 = add %65, %17 : i32
    %67 = cast %66 {to = i64} : i64
    %68 = mul %67, 256:i64 : i64
    %69 = add %20, %68 : i64
    %70 = cast %19 {to = i64} : i64
    %71 = mul %70, 4:i64 : i64
    %72 = add %69, %71 : i64
    %73 = pick %r {indices = (0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21, 24, 25, 28, 29, 2, 3, 6, 7, 10, 11, 14, 15, 18, 19, 22, 23, 26, 27, 30, 31)} : regs<32xf32>
    store_mem %72, %73, %C {space = "global", width = 2, address_of = (0 * 16,), offsets = (0, 32, .., 224, 2048, 2080, .., 2272)}
    yield
  }
}
