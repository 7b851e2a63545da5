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
    mbarrier_init %4, %ring {count = 8}
    %5 = add %0, 32 : i32
    mbarrier_init %5, %ring {count = 8}
    %6 = add %0, 40 : i32
    mbarrier_init %6, %ring {count = 8}
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
  %16 = and %15, 3 : i32
  %17 = mul %16, 16 : i32
  %18 = add %14, %17 : i32
  %19 = and %tid, 3 : i32
  %20 = mul %19, 2 : i32
  %21 = shr %tid, 7 : i32
  %22 = mul %21, 32 : i32
  %23 = add %20, %22 : i32
  %24 = global_address %C : i64
  %25 = cmp %7, 8 {predicate = "ge"} : bool
  by_role %25 {teams = ((0, none), (1, 256))} then {
    %26 = cmp %7, 8 {predicate = "eq"} : bool
    if %26 then {
      %27 = elect : bool
      %28, %29 = for 0, 8, 1, [0, 0] : i32, i32 (%k: i32, %slot: i32, %phase: i32) {
        %30 = xor %phase, 1 : i32
        %31 = add %0, 24 : i32
        %32 = mul %slot, 8 : i32
        %33 = add %31, %32 : i32
        mbarrier_wait %33, %ring, %30
        %34 = add %0, %32 : i32
        mbarrier_expect %34, %ring, predicate = %27 {bytes = 8192}
        %35 = mul %slot, 4096 : i32
        %36 = add %8, %35 : i32
        %37 = mul %k, 64 : i32
        tma_load %36, %34, [%37, 0], %As, %slot, %ring, tensor = %A, predicate = %27 {map = "A_map0"}
        %38 = add %9, %35 : i32
        tma_load %38, %34, [%37, 0], %Bs, %slot, %ring, tensor = %B, predicate = %27 {map = "B_map1"}
        %39 = add %slot, 1 : i32
        %40 = cmp %39, 3 {predicate = "eq"} : bool
        %41 = select %40, %30, %phase : i32
        %42 = select %40, 0, %39 : i32
        yield %42, %41
      }
      yield
    } orelse {
      yield
    }
    yield
  } orelse {
    %z = pick 0.0:f16 {indices = (0 * 16,)} : regs<16xf16>
    %r, %43, %44 = for 0, 8, 1, [%z, 0, 0] : regs<16xf16>, i32, i32 (%k_1: i32, %c: regs<16xf16>, %slot_1: i32, %phase_1: i32) {
      %e = and %k_1, 3 : i32
      %d = cmp %e, 0 {predicate = "gt"} : bool
      %45 = mul %slot_1, 8 : i32
      %46 = add %0, %45 : i32
      mbarrier_wait %46, %ring, %phase_1
      %47 = mul %slot_1, 4096 : i32
      %48 = add %8, %47 : i32
      %49 = and %48, 262143 : i32
      %50 = shr %49, 4 : i32
      %51 = cast %50 {to = i64} : i64
      %52 = or %51, -9223371899415756800:i64 : i64
      %53 = mul %10, 2048 : i32
      %54 = add %9, %53 : i32
      %55 = add %54, %47 : i32
      %56 = and %55, 262143 : i32
      %57 = shr %56, 4 : i32
      %58 = cast %57 {to = i64} : i64
      %59 = or %58, -9223371899415756800:i64 : i64
      %c1, %60 = wgmma %52, %59, [%As, %Bs], c = %c, scale_d = %d {dtypes = (e4m3, e5m2), into = f16, n = 32, k = 32, a_offsets = (0, 2), b_offsets = (0, 2)} : regs<16xf16>, token<wgmma>
      %c1_1 = await %c1, %60 : regs<16xf16>
      %61 = add %0, 24 : i32
      %62 = add %61, %45 : i32
      mbarrier_arrive %62, %ring, predicate = %12
      %63 = add %slot_1, 1 : i32
      %64 = cmp %63, 3 {predicate = "eq"} : bool
      %65 = xor %phase_1, 1 : i32
      %66 = select %64, %65, %phase_1 : i32
      %67 = select %64, 0, %63 : i32
      yield %c1_1, %67, %66
    }
    %68 = cast %18 {to = i64} : i64
    %69 = mul %68, 128:i64 : i64
    %70 = add %24, %69 : i64
    %71 = cast %23 {to = i64} : i64
    %72 = mul %71, 2:i64 : i64
    %73 = add %70, %72 : i64
    %74 = pick %r {indices = (0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15)} : regs<16xf16>
    store_mem %73, %74, %C {space = "global", width = 2, address_of = (0 * 8,), offsets = (0, 16, 32, 48, 1024, 1040, 1056, 1072)}
    yield
  }
}
