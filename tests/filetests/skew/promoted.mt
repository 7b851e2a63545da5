// A partial sum is added an iteration behind: the next product is in flight then and has other registers, so that a turn
// has two iterations; one that is left over has a loop of its own.
// pass: skew
// target: sm_90a
tile kernel @promoted(%A: tensor<64xKxe4m3>, %B: tensor<64xKxe4m3>, %C: tensor<64x64xf32>) dims(K = %K: i32) facts {K = 128} attrs {threads = 128, producer_threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %A_shared = alloc {type_ = shared<3 versions x 64x128xe4m3>} : shared<3 versions x 64x128xe4m3>
    %B_shared = alloc {type_ = shared<3 versions x 64x128xe4m3>} : shared<3 versions x 64x128xe4m3>
    %0 = floordiv %K, 128 : i32
    %ring = mbarrier_pipeline %A_shared, %B_shared {slots = 3, consumers = 128} : mbarrier_pipeline<3; A_shared: shared<3 versions x 64x128xe4m3>, B_shared: shared<3 versions x 64x128xe4m3>>
    warp_specialized {registers = (56, 256)} producer {
      %1, %2 = for 0, %0, 1, [0, 0] : i32, i32 (%k: i32, %slot: i32, %phase: i32) {
        %3 = mul %k, 128 : i32
        %4 = mul %k, 128 : i32
        producer_acquire %ring, %slot, %phase
        producer_expect_tx %ring, %slot
        tma_copy %A[0, %3], %A_shared, %ring, %slot {src_dims = (0, 1)}
        tma_copy %B[0, %4], %B_shared, %ring, %slot {src_dims = (0, 1)}
        %5 = add %slot, 1 : i32
        %6 = cmp %5, 3 {predicate = "eq"} : bool
        %7 = xor %phase, 1 : i32
        %8 = select %6, %7, %phase : i32
        %9 = select %6, 0, %5 : i32
        yield %9, %8
      }
    } consumer {
      %total = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
      %total_1, %10, %11 = for 0, %0, 1, [%total, 0, 0] {order = (-1, -1, 0, 1), stage_of = (-1, -1, 0, 1)} : tile<64x64xf32>, i32, i32 (%k_1: i32, %total_2: tile<64x64xf32>, %slot_1: i32, %phase_1: i32) {
        statement {number = 0}
        %12 = mul %k_1, 128 : i32
        statement {number = 1}
        %13 = mul %k_1, 128 : i32
        statement {number = 2}
        %14 = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
        consumer_wait %ring, %slot_1, %phase_1
        %part, %15 = async_gemm %A_shared[0, 0], %B_shared[0, 0], %14, a_slot = %slot_1, b_slot = %slot_1 {transpose_b = true} : tile<64x64xf32>, token<wgmma>
        %part_1 = await %part, %15 : tile<64x64xf32>
        consumer_release %ring, %slot_1
        statement {number = 3}
        %total_3 = add %total_2, %part_1 : tile<64x64xf32>
        %16 = add %slot_1, 1 : i32
        %17 = cmp %16, 3 {predicate = "eq"} : bool
        %18 = xor %phase_1, 1 : i32
        %19 = select %17, %18, %phase_1 : i32
        %20 = select %17, 0, %16 : i32
        yield %total_3, %20, %19
      }
      store %C[0, 0], %total_1 {dims = (0, 1)}
    }
    yield
  }
}


// ----
tile kernel @promoted(%A: tensor<64xKxe4m3>, %B: tensor<64xKxe4m3>, %C: tensor<64x64xf32>) dims(K = %K: i32) facts {K = 128} attrs {threads = 128, producer_threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %A_shared = alloc {type_ = shared<3 versions x 64x128xe4m3>} : shared<3 versions x 64x128xe4m3>
    %B_shared = alloc {type_ = shared<3 versions x 64x128xe4m3>} : shared<3 versions x 64x128xe4m3>
    %0 = floordiv %K, 128 : i32
    %ring = mbarrier_pipeline %A_shared, %B_shared {slots = 3, consumers = 128} : mbarrier_pipeline<3; A_shared: shared<3 versions x 64x128xe4m3>, B_shared: shared<3 versions x 64x128xe4m3>>
    warp_specialized {registers = (56, 256)} producer {
      %1, %2 = for 0, %0, 1, [0, 0] : i32, i32 (%k: i32, %slot: i32, %phase: i32) {
        %3 = mul %k, 128 : i32
        %4 = mul %k, 128 : i32
        producer_acquire %ring, %slot, %phase
        producer_expect_tx %ring, %slot
        tma_copy %A[0, %3], %A_shared, %ring, %slot {src_dims = (0, 1)}
        tma_copy %B[0, %4], %B_shared, %ring, %slot {src_dims = (0, 1)}
        %5 = add %slot, 1 : i32
        %6 = cmp %5, 3 {predicate = "eq"} : bool
        %7 = xor %phase, 1 : i32
        %8 = select %6, %7, %phase : i32
        %9 = select %6, 0, %5 : i32
        yield %9, %8
      }
    } consumer {
      %total = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
      %10 = cmp 0, %0 {predicate = "lt"} : bool
      %total_1, %11, %12 = if %10 : tile<64x64xf32>, i32, i32 then {
        %13 = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
        consumer_wait %ring, 0, 0
        %part, %14 = async_gemm %A_shared[0, 0], %B_shared[0, 0], %13, a_slot = 0, b_slot = 0 {transpose_b = true} : tile<64x64xf32>, token<wgmma>
        %part_1 = await %part, %14 : tile<64x64xf32>
        consumer_release %ring, 0
        %15 = sub %0, 1 : i32
        %16 = floordiv %15, 2 : i32
        %17 = mul %16, 2 : i32
        %18 = add 1, %17 : i32
        %19, %20, %21, %22 = for 1, %18, 2, [1, 0, %total, %part_1] : i32, i32, tile<64x64xf32>, tile<64x64xf32> (%k_1: i32, %23: i32, %24: i32, %total_2: tile<64x64xf32>, %part_1_1: tile<64x64xf32>) {
          %25 = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
          consumer_wait %ring, %23, %24
          %part_2, %26 = async_gemm %A_shared[0, 0], %B_shared[0, 0], %25, a_slot = %23, b_slot = %23 {transpose_b = true} : tile<64x64xf32>, token<wgmma>
          %part_1_2 = await %part_2, %26 : tile<64x64xf32>
          consumer_release %ring, %23
          %total_3 = add %total_2, %part_1_1 : tile<64x64xf32>
          %27 = add %23, 1 : i32
          %28 = cmp %27, 3 {predicate = "eq"} : bool
          %29 = select %28, 0, %27 : i32
          %30 = xor %24, 1 : i32
          %31 = select %28, %30, %24 : i32
          %32 = add %k_1, 1 : i32
          %33 = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
          consumer_wait %ring, %29, %31
          %part_3, %34 = async_gemm %A_shared[0, 0], %B_shared[0, 0], %33, a_slot = %29, b_slot = %29 {transpose_b = true} : tile<64x64xf32>, token<wgmma>
          %part_1_3 = await %part_3, %34 : tile<64x64xf32>
          consumer_release %ring, %29
          %total_3_1 = add %total_3, %part_1_2 : tile<64x64xf32>
          %35 = add %29, 1 : i32
          %36 = cmp %35, 3 {predicate = "eq"} : bool
          %37 = select %36, 0, %35 : i32
          %38 = xor %31, 1 : i32
          %39 = select %36, %38, %31 : i32
          yield %37, %39, %total_3_1, %part_1_3
        }
        %40, %41, %42, %43 = for %18, %0, 1, [%19, %20, %21, %22] : i32, i32, tile<64x64xf32>, tile<64x64xf32> (%k_1_1: i32, %44: i32, %45: i32, %46: tile<64x64xf32>, %47: tile<64x64xf32>) {
          %48 = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
          consumer_wait %ring, %44, %45
          %part_4, %49 = async_gemm %A_shared[0, 0], %B_shared[0, 0], %48, a_slot = %44, b_slot = %44 {transpose_b = true} : tile<64x64xf32>, token<wgmma>
          %part_1_4 = await %part_4, %49 : tile<64x64xf32>
          consumer_release %ring, %44
          %total_3_2 = add %46, %47 : tile<64x64xf32>
          %50 = add %44, 1 : i32
          %51 = cmp %50, 3 {predicate = "eq"} : bool
          %52 = select %51, 0, %50 : i32
          %53 = xor %45, 1 : i32
          %54 = select %51, %53, %45 : i32
          yield %52, %54, %total_3_2, %part_1_4
        }
        %total_3_3 = add %42, %43 : tile<64x64xf32>
        yield %total_3_3, %40, %41
      } orelse {
        yield %total, 0, 0
      }
      store %C[0, 0], %total_1 {dims = (0, 1)}
    }
    yield
  }
}
