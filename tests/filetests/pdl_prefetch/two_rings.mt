// Two rings, which their consumers release at different times: of both the first rounds need no slot to become free.
// pass: pdl_prefetch
// target: sm_90a
tile kernel @gemm(%A: tensor<64xKxbf16>, %B: tensor<64xKxbf16>, %C: tensor<64x64xf32>) dims(K = %K: i32) attrs {threads = 128, producer_threads = 128} {
  %0 = add %K, 63 : i32
  %n = floordiv %0, 64 : i32
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<3 versions x 64x64xbf16>} : shared<3 versions x 64x64xbf16>
    %Bs = alloc {type_ = shared<3 versions x 64x64xbf16>} : shared<3 versions x 64x64xbf16>
    %ring = mbarrier_pipeline %As {slots = 3, consumers = 128} : mbarrier_pipeline<3; As: shared<3 versions x 64x64xbf16>>
    %other = mbarrier_pipeline %Bs {slots = 3, consumers = 128} : mbarrier_pipeline<3; Bs: shared<3 versions x 64x64xbf16>>
    pdl_sync %B
    pdl_trigger
    warp_specialized {registers = (56, 256)} producer {
      %1, %2 = for 0, %n, 1, [0, 0] : i32, i32 (%k: i32, %slot: i32, %phase: i32) {
        %3 = mul %k, 64 : i32
        producer_acquire %ring, %slot, %phase
        producer_expect_tx %ring, %slot
        tma_copy %A[0, %3], %As, %ring, %slot {src_dims = (0, 1)}
        producer_acquire %other, %slot, %phase
        producer_expect_tx %other, %slot
        tma_copy %B[0, %3], %Bs, %other, %slot {src_dims = (0, 1)}
        %4 = add %slot, 1 : i32
        %5 = cmp %4, 3 {predicate = "eq"} : bool
        %6 = xor %phase, 1 : i32
        %7 = select %5, %6, %phase : i32
        %8 = select %5, 0, %4 : i32
        yield %8, %7
      }
    } consumer {
      %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
      %9, %10 = for 0, %n, 1, [0, 0] : i32, i32 (%k_1: i32, %slot_1: i32, %phase_1: i32) {
        consumer_wait %ring, %slot_1, %phase_1
        consumer_release %ring, %slot_1
        consumer_wait %other, %slot_1, %phase_1
        consumer_release %other, %slot_1
        %11 = add %slot_1, 1 : i32
        %12 = cmp %11, 3 {predicate = "eq"} : bool
        %13 = xor %phase_1, 1 : i32
        %14 = select %12, %13, %phase_1 : i32
        %15 = select %12, 0, %11 : i32
        yield %15, %14
      }
      store %C[0, 0], %z {dims = (0, 1)}
    }
    yield
  }
}

// ----
tile kernel @gemm(%A: tensor<64xKxbf16>, %B: tensor<64xKxbf16>, %C: tensor<64x64xf32>) dims(K = %K: i32) attrs {threads = 128, producer_threads = 128} {
  %0 = add %K, 63 : i32
  %n = floordiv %0, 64 : i32
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<3 versions x 64x64xbf16>} : shared<3 versions x 64x64xbf16>
    %Bs = alloc {type_ = shared<3 versions x 64x64xbf16>} : shared<3 versions x 64x64xbf16>
    %ring = mbarrier_pipeline %As {slots = 3, consumers = 128} : mbarrier_pipeline<3; As: shared<3 versions x 64x64xbf16>>
    %other = mbarrier_pipeline %Bs {slots = 3, consumers = 128} : mbarrier_pipeline<3; Bs: shared<3 versions x 64x64xbf16>>
    warp_specialized {registers = (56, 256)} producer {
      %1 = min %n, 3 : i32
      %2, %3 = for 0, %1, 1, [0, 0] : i32, i32 (%k: i32, %slot: i32, %phase: i32) {
        %4 = mul %k, 64 : i32
        producer_expect_tx %ring, %slot
        producer_expect_tx %other, %slot
        tma_copy %B[0, %4], %Bs, %other, %slot {src_dims = (0, 1)}
        %5 = add %slot, 1 : i32
        %6 = cmp %5, 3 {predicate = "eq"} : bool
        %7 = xor %phase, 1 : i32
        %8 = select %6, %7, %phase : i32
        %9 = select %6, 0, %5 : i32
        yield %9, %8
      }
      pdl_sync
      %10, %11 = for 0, %1, 1, [0, 0] : i32, i32 (%k_1: i32, %slot_1: i32, %phase_1: i32) {
        %12 = mul %k_1, 64 : i32
        tma_copy %A[0, %12], %As, %ring, %slot_1 {src_dims = (0, 1)}
        %13 = add %slot_1, 1 : i32
        %14 = cmp %13, 3 {predicate = "eq"} : bool
        %15 = xor %phase_1, 1 : i32
        %16 = select %14, %15, %phase_1 : i32
        %17 = select %14, 0, %13 : i32
        yield %17, %16
      }
      %18, %19 = for %1, %n, 1, [%2, %3] : i32, i32 (%k_2: i32, %slot_2: i32, %phase_2: i32) {
        %20 = mul %k_2, 64 : i32
        producer_acquire %ring, %slot_2, %phase_2
        producer_expect_tx %ring, %slot_2
        tma_copy %A[0, %20], %As, %ring, %slot_2 {src_dims = (0, 1)}
        producer_acquire %other, %slot_2, %phase_2
        producer_expect_tx %other, %slot_2
        tma_copy %B[0, %20], %Bs, %other, %slot_2 {src_dims = (0, 1)}
        %21 = add %slot_2, 1 : i32
        %22 = cmp %21, 3 {predicate = "eq"} : bool
        %23 = xor %phase_2, 1 : i32
        %24 = select %22, %23, %phase_2 : i32
        %25 = select %22, 0, %21 : i32
        yield %25, %24
      }
    } consumer {
      pdl_sync
      pdl_trigger
      %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
      %26, %27 = for 0, %n, 1, [0, 0] : i32, i32 (%k_1_1: i32, %slot_1_1: i32, %phase_1_1: i32) {
        consumer_wait %ring, %slot_1_1, %phase_1_1
        consumer_release %ring, %slot_1_1
        consumer_wait %other, %slot_1_1, %phase_1_1
        consumer_release %other, %slot_1_1
        %28 = add %slot_1_1, 1 : i32
        %29 = cmp %28, 3 {predicate = "eq"} : bool
        %30 = xor %phase_1_1, 1 : i32
        %31 = select %29, %30, %phase_1_1 : i32
        %32 = select %29, 0, %28 : i32
        yield %32, %31
      }
      store %C[0, 0], %z {dims = (0, 1)}
    }
    yield
  }
}
