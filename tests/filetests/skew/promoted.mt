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
        %15 = add 0, 1 : i32
        %16 = cmp %15, 3 {predicate = "eq"} : bool
        %17 = xor 0, 1 : i32
        %18 = select %16, %17, 0 : i32
        %19 = select %16, 0, %15 : i32
        %20 = sub %0, 1 : i32
        %21 = floordiv %20, 2 : i32
        %22 = mul %21, 2 : i32
        %23 = add 1, %22 : i32
        %24, %25, %26, %27 = for 1, %23, 2, [%19, %18, %total, %part_1] : i32, i32, tile<64x64xf32>, tile<64x64xf32> (%k_1: i32, %28: i32, %29: i32, %total_2: tile<64x64xf32>, %part_1_1: tile<64x64xf32>) {
          %30 = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
          consumer_wait %ring, %28, %29
          %part_2, %31 = async_gemm %A_shared[0, 0], %B_shared[0, 0], %30, a_slot = %28, b_slot = %28 {transpose_b = true} : tile<64x64xf32>, token<wgmma>
          %part_1_2 = await %part_2, %31 : tile<64x64xf32>
          consumer_release %ring, %28
          %total_3 = add %total_2, %part_1_1 : tile<64x64xf32>
          %32 = add %28, 1 : i32
          %33 = cmp %32, 3 {predicate = "eq"} : bool
          %34 = xor %29, 1 : i32
          %35 = select %33, %34, %29 : i32
          %36 = select %33, 0, %32 : i32
          %37 = add %k_1, 1 : i32
          %38 = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
          consumer_wait %ring, %36, %35
          %part_3, %39 = async_gemm %A_shared[0, 0], %B_shared[0, 0], %38, a_slot = %36, b_slot = %36 {transpose_b = true} : tile<64x64xf32>, token<wgmma>
          %part_1_3 = await %part_3, %39 : tile<64x64xf32>
          consumer_release %ring, %36
          %total_3_1 = add %total_3, %part_1_2 : tile<64x64xf32>
          %40 = add %36, 1 : i32
          %41 = cmp %40, 3 {predicate = "eq"} : bool
          %42 = xor %35, 1 : i32
          %43 = select %41, %42, %35 : i32
          %44 = select %41, 0, %40 : i32
          yield %44, %43, %total_3_1, %part_1_3
        }
        %45, %46, %47, %48 = for %23, %0, 1, [%24, %25, %26, %27] : i32, i32, tile<64x64xf32>, tile<64x64xf32> (%k_1_1: i32, %49: i32, %50: i32, %51: tile<64x64xf32>, %52: tile<64x64xf32>) {
          %53 = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
          consumer_wait %ring, %49, %50
          %part_4, %54 = async_gemm %A_shared[0, 0], %B_shared[0, 0], %53, a_slot = %49, b_slot = %49 {transpose_b = true} : tile<64x64xf32>, token<wgmma>
          %part_1_4 = await %part_4, %54 : tile<64x64xf32>
          consumer_release %ring, %49
          %total_3_2 = add %51, %52 : tile<64x64xf32>
          %55 = add %49, 1 : i32
          %56 = cmp %55, 3 {predicate = "eq"} : bool
          %57 = xor %50, 1 : i32
          %58 = select %56, %57, %50 : i32
          %59 = select %56, 0, %55 : i32
          yield %59, %58, %total_3_2, %part_1_4
        }
        %total_3_3 = add %47, %48 : tile<64x64xf32>
        yield %total_3_3, %45, %46
      } orelse {
        yield %total, 0, 0
      }
      store %C[0, 0], %total_1 {dims = (0, 1)}
    }
    yield
  }
}
