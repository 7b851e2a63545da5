// Two warpgroups share the columns ("full_col"): both read all of A, and each its half of B. 8-bit operands take 32 of K;
// the accumulator is f16, two to a word. Where scale_d is false, the first step of K replaces it.
// pass: warp_specialize, infer_layouts, lower, simplify, cse, legalize, dead_code
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
thread kernel @columns(%A: tensor<64x512xe4m3>, %B: tensor<64x512xe5m2>, %C: tensor<64x64xf16>) attrs {threads = 256, producer_threads = 128, tensor_maps = (("A_map0", "A", (64, 64), 64, false), ("B_map1", "B", (64, 64), 64, false), ("C_map2", "C", (64, 32), 64, false)), min_ctas = 1} {
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
  %staged = alloc {type_ = shared<128x32xf16>, layout = shared<128x32xb16; 128:512; 32:16; swizzle 64>, bytes = 8192, shared_by = 128} : shared<128x32xf16>
  %14 = and %tid, 127 : i32
  %15 = cmp %14, 0 {predicate = "eq"} : bool
  %16 = and %tid, 15 : i32
  %17 = shr %tid, 5 : i32
  %18 = mul %17, 16 : i32
  %19 = add %16, %18 : i32
  %20 = shr %tid, 4 : i32
  %21 = and %20, 1 : i32
  %22 = buffer_address %staged : i32
  %23 = cmp %7, 8 {predicate = "ge"} : bool
  by_role %23 {teams = ((0, none), (1, 256))} then {
    %24 = cmp %7, 8 {predicate = "eq"} : bool
    if %24 then {
      %25 = elect : bool
      %26, %27 = for 0, 8, 1, [0, 0] : i32, i32 (%k: i32, %slot: i32, %phase: i32) {
        %28 = xor %phase, 1 : i32
        %29 = add %8, 24 : i32
        %30 = mul %slot, 8 : i32
        %31 = add %29, %30 : i32
        mbarrier_wait %31, %ring, %28
        %32 = add %8, %30 : i32
        mbarrier_expect %32, %ring, predicate = %25 {bytes = 8192}
        %33 = mul %slot, 4096 : i32
        %34 = add %9, %33 : i32
        %35 = mul %k, 64 : i32
        tma_load %34, %32, [%35, 0], %As, %slot, %ring, tensor = %A, predicate = %25 {map = "A_map0", free = true}
        %36 = add %10, %33 : i32
        tma_load %36, %32, [%35, 0], %Bs, %slot, %ring, tensor = %B, predicate = %25 {map = "B_map1", free = true}
        %37 = add %slot, 1 : i32
        %38 = cmp %37, 3 {predicate = "eq"} : bool
        %39 = select %38, %28, %phase : i32
        %40 = select %38, 0, %37 : i32
        yield %40, %39
      }
      yield
    } orelse {
      yield
    }
    yield
  } orelse {
    %z = pick 0.0:f16 {indices = (0 * 16,)} : regs<16xf16>
    %r, %41, %42 = for 0, 8, 1, [%z, 0, 0] : regs<16xf16>, i32, i32 (%k_1: i32, %c: regs<16xf16>, %slot_1: i32, %phase_1: i32) {
      %e = and %k_1, 3 : i32
      %d = cmp %e, 0 {predicate = "gt"} : bool
      %43 = mul %slot_1, 8 : i32
      %44 = add %8, %43 : i32
      mbarrier_wait %44, %ring, %phase_1
      %45 = and %9, 262143 : i32
      %46 = shr %45, 4 : i32
      %47 = cast %46 {to = i64} : i64
      %48 = or %47, -9223371899415756800:i64 : i64
      %49 = cast %slot_1 {to = i64} : i64
      %50 = mul %49, 256:i64 : i64
      %51 = add %48, %50 : i64
      %52 = mul %11, 2048 : i32
      %53 = add %10, %52 : i32
      %54 = and %53, 262143 : i32
      %55 = shr %54, 4 : i32
      %56 = cast %55 {to = i64} : i64
      %57 = or %56, -9223371899415756800:i64 : i64
      %58 = add %57, %50 : i64
      %c1, %59 = wgmma %51, %58, [%As, %Bs], c = %c, scale_d = %d {dtypes = (e4m3, e5m2), into = f16, n = 32, k = 32, a_offsets = (0, 2), b_offsets = (0, 2)} : regs<16xf16>, token<wgmma>
      %c1_1 = await %c1, %59 : regs<16xf16>
      %60 = add %8, 24 : i32
      %61 = add %60, %43 : i32
      mbarrier_arrive %61, %ring, predicate = %13
      %62 = add %slot_1, 1 : i32
      %63 = cmp %62, 3 {predicate = "eq"} : bool
      %64 = xor %phase_1, 1 : i32
      %65 = select %63, %64, %phase_1 : i32
      %66 = select %63, 0, %62 : i32
      yield %c1_1, %66, %65
    }
    %67 = mul %11, 4096 : i32
    %68 = mul %11, 32 : i32
    %69 = mul %19, 64 : i32
    %70 = mul %21, 16 : i32
    %71 = add %69, %70 : i32
    %72 = shr %71, 3 : i32
    %73 = and %72, 48 : i32
    %74 = xor %71, %73 : i32
    %75 = add %22, %74 : i32
    %76 = xor %74, 32 : i32
    %77 = add %22, %76 : i32
    %78 = concat %75, %77 : regs<2xi32>
    stmatrix %78, %r, %staged {address_of = (0, 1), offsets = (0, 0)}
    %79 = add %22, %67 : i32
    %80 = tma_store %79, [%68, 0], %staged, %C, [0, 0], predicate = %15 {map = "C_map2", extent = (64, 64), box = (64, 32)} : token<bulk>
    %81 = join %80 : token<bulk>
    wait %81 {reads = true}
    wait %81
    yield
  }
}
