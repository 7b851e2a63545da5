// Two warpgroups share the columns ("full_col"): both read all of A, and each its half of B. 8-bit operands take 32 of K;
// the accumulator is f16, two to a word. Where scale_d is false, the first step of K replaces it.
// pass: specialise, infer_layouts, lower, simplify, cse, legalize, dead_code
// target: sm_90a
tile kernel @columns(%A: tensor<64x512xe4m3>, %B: tensor<64x512xe5m2>, %C: tensor<64x64xf16>) attrs {threads = 256} {
  launch 1, 1, 1 {threads = 256} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<64x64xe4m3>} : shared<64x64xe4m3>
    %Bs = alloc {type_ = shared<64x64xe5m2>} : shared<64x64xe5m2>
    %z = splat 0.0:f16 {shape = (64, 64)} : tile<64x64xf16>
    %r = for 0, 8, 1, [%z] {kind = "pipelined", stages = 3} (%k: i32, %c: tile<64x64xf16>) {
      %o = mul %k, 64 : i32
      copy %A[0, %o], %As[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
      copy %B[0, %o], %Bs[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
      %e = floormod %k, 4 : i32
      %d = cmp %e, 0 {predicate = "gt"} : bool
      %c1 = gemm %As[0, 0], %Bs[0, 0], %c, scale_d = %d {transpose_b = true, policy = "full_col"} : tile<64x64xf16>
      yield %c1
    }
    store %C[0, 0], %r {dims = (0, 1)}
  }
}

// ----
thread kernel @columns(%A: tensor<64x512xe4m3>, %B: tensor<64x512xe5m2>, %C: tensor<64x64xf16>) attrs {threads = 256, producer_threads = 128, tensor_maps = (("A_map0", "A", (64, 64), 64, false), ("B_map1", "B", (64, 64), 64, false)), min_ctas = 1} {
  %As = alloc {type_ = shared<3 versions x 64x64xe4m3>, layout = shared<64x64xb8; 64:512; 64:8; swizzle 64>, bytes = 4096} : shared<3 versions x 64x64xe4m3>
  %Bs = alloc {type_ = shared<3 versions x 64x64xe5m2>, layout = shared<64x64xb8; 64:512; 64:8; swizzle 64>, bytes = 4096} : shared<3 versions x 64x64xe5m2>
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
    mbarrier_init %4, %ring {count = 8}
    %5 = add %1, 32 : i32
    mbarrier_init %5, %ring {count = 8}
    %6 = add %1, 40 : i32
    mbarrier_init %6, %ring {count = 8}
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
  %11 = shr %7, 2 : i32
  %12 = and %tid, 31 : i32
  %13 = cmp %12, 0 {predicate = "eq"} : bool
  %14 = shr %tid, 2 : i32
  %15 = and %14, 7 : i32
  %16 = shr %tid, 5 : i32
  %17 = and %16, 3 : i32
  %18 = mul %17, 16 : i32
  %19 = add %15, %18 : i32
  %20 = and %tid, 3 : i32
  %21 = mul %20, 2 : i32
  %22 = shr %tid, 7 : i32
  %23 = mul %22, 32 : i32
  %24 = add %21, %23 : i32
  %25 = global_address %C : i64
  %26 = cmp %7, 8 {predicate = "ge"} : bool
  by_role %26 {teams = ((0, none), (1, 256))} then {
    %27 = cmp %7, 8 {predicate = "eq"} : bool
    if %27 then {
      %28 = elect : bool
      %29, %30 = for 0, 8, 1, [0, 0] : i32, i32 (%k: i32, %slot: i32, %phase: i32) {
        %31 = xor %phase, 1 : i32
        %32 = add %8, 24 : i32
        %33 = mul %slot, 8 : i32
        %34 = add %32, %33 : i32
        mbarrier_wait %34, %ring, %31
        %35 = add %8, %33 : i32
        mbarrier_expect %35, %ring, predicate = %28 {bytes = 8192}
        %36 = mul %slot, 4096 : i32
        %37 = add %9, %36 : i32
        %38 = mul %k, 64 : i32
        tma_load %37, %35, [%38, 0], %As, %slot, %ring, tensor = %A, predicate = %28 {map = "A_map0"}
        %39 = add %10, %36 : i32
        tma_load %39, %35, [%38, 0], %Bs, %slot, %ring, tensor = %B, predicate = %28 {map = "B_map1"}
        %40 = add %slot, 1 : i32
        %41 = cmp %40, 3 {predicate = "eq"} : bool
        %42 = select %41, %31, %phase : i32
        %43 = select %41, 0, %40 : i32
        yield %43, %42
      }
      yield
    } orelse {
      yield
    }
    yield
  } orelse {
    %z = pick 0.0:f16 {indices = (0 * 16,)} : regs<16xf16>
    %r, %44, %45 = for 0, 8, 1, [%z, 0, 0] : regs<16xf16>, i32, i32 (%k_1: i32, %c: regs<16xf16>, %slot_1: i32, %phase_1: i32) {
      %e = and %k_1, 3 : i32
      %d = cmp %e, 0 {predicate = "gt"} : bool
      %46 = mul %slot_1, 8 : i32
      %47 = add %8, %46 : i32
      mbarrier_wait %47, %ring, %phase_1
      %48 = mul %slot_1, 4096 : i32
      %49 = add %9, %48 : i32
      %50 = and %49, 262143 : i32
      %51 = shr %50, 4 : i32
      %52 = cast %51 {to = i64} : i64
      %53 = or %52, -9223371899415756800:i64 : i64
      %54 = mul %11, 2048 : i32
      %55 = add %10, %54 : i32
      %56 = add %55, %48 : i32
      %57 = and %56, 262143 : i32
      %58 = shr %57, 4 : i32
      %59 = cast %58 {to = i64} : i64
      %60 = or %59, -9223371899415756800:i64 : i64
      %c1, %61 = wgmma %53, %60, [%As, %Bs], c = %c, scale_d = %d {dtypes = (e4m3, e5m2), into = f16, n = 32, k = 32, a_offsets = (0, 2), b_offsets = (0, 2)} : regs<16xf16>, token<wgmma>
      %c1_1 = await %c1, %61 : regs<16xf16>
      %62 = add %8, 24 : i32
      %63 = add %62, %46 : i32
      mbarrier_arrive %63, %ring, predicate = %13
      %64 = add %slot_1, 1 : i32
      %65 = cmp %64, 3 {predicate = "eq"} : bool
      %66 = xor %phase_1, 1 : i32
      %67 = select %65, %66, %phase_1 : i32
      %68 = select %65, 0, %64 : i32
      yield %c1_1, %68, %67
    }
    %69 = cast %19 {to = i64} : i64
    %70 = mul %69, 128:i64 : i64
    %71 = add %25, %70 : i64
    %72 = cast %24 {to = i64} : i64
    %73 = mul %72, 2:i64 : i64
    %74 = add %71, %73 : i64
    %75 = pick %r {indices = (0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15)} : regs<16xf16>
    store_mem %74, %75, %C {space = "global", width = 2, address_of = (0 * 8,), offsets = (0, 16, 32, 48, 1024, 1040, 1056, 1072)}
    yield
  }
}
