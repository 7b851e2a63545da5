// The operand is another name of what is made of a sum: its registers are written where that is, and the product before
// is awaited there.
// pass: sink_wgmma_waits
// target: sm_90a
tile kernel @renamed(%A: tensor<16xKxbf16>, %C: tensor<64x16xf32>) dims(K = %K: i32) facts {K = 128} attrs {threads = 128, producer_threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<3 versions x 16x64xbf16>} : shared<3 versions x 16x64xbf16>
    %Ws = alloc {type_ = shared<3 versions x 64x2x32xbf16>} : shared<3 versions x 64x2x32xbf16>
    %0 = floordiv %K, 64 : i32
    %ring = mbarrier_pipeline %As {slots = 3, consumers = 128} : mbarrier_pipeline<3; As: shared<3 versions x 16x64xbf16>>
    warp_specialized {registers = (56, 256)} producer {
      %8, %9 = for 0, %0, 1, [0, 0] : i32, i32 (%k_1: i32, %slot_1: i32, %phase_1: i32) {
        %10 = mul %k_1, 64 : i32
        producer_acquire %ring, %slot_1, %phase_1
        producer_expect_tx %ring, %slot_1
        tma_copy %A[0, %10], %As, %ring, %slot_1 {src_dims = (0, 1)}
        %11 = add %slot_1, 1 : i32
        %12 = cmp %11, 3 {predicate = "eq"} : bool
        %13 = xor %phase_1, 1 : i32
        %14 = select %12, %13, %phase_1 : i32
        %15 = select %12, 0, %11 : i32
        yield %15, %14
      }
    } consumer {
      %z = splat 0.0 {shape = (64, 16)} : tile<64x16xf32>
      %c, %1, %2 = for 0, %0, 1, [%z, 0, 0] : tile<64x16xf32>, i32, i32 (%k: i32, %c_1: tile<64x16xf32>, %slot: i32, %phase: i32) {
        %w = load %Ws[0, 0, 0], slot = %slot {shape = (64, 2, 32), dims = (0, 1, 2)} : tile<64x2x32xbf16>
        %d = add %w, %w : tile<64x2x32xbf16>
        %r = reshape %d {shape = (64, 64)} : tile<64x64xbf16>
        consumer_wait %ring, %slot, %phase
        %c_2, %t = async_gemm %r, %As[0, 0], %c_1, b_slot = %slot {transpose_b = true} : tile<64x16xf32>, token<wgmma>
        %c_3 = await %c_2, %t : tile<64x16xf32>
        consumer_release %ring, %slot
        %3 = add %slot, 1 : i32
        %4 = cmp %3, 3 {predicate = "eq"} : bool
        %5 = xor %phase, 1 : i32
        %6 = select %4, %5, %phase : i32
        %7 = select %4, 0, %3 : i32
        yield %c_3, %7, %6
      }
      store %C[0, 0], %c {dims = (0, 1)}
    }
    yield
  }
}

// ----
tile kernel @renamed(%A: tensor<16xKxbf16>, %C: tensor<64x16xf32>) dims(K = %K: i32) facts {K = 128} attrs {threads = 128, producer_threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<3 versions x 16x64xbf16>} : shared<3 versions x 16x64xbf16>
    %Ws = alloc {type_ = shared<3 versions x 64x2x32xbf16>} : shared<3 versions x 64x2x32xbf16>
    %0 = floordiv %K, 64 : i32
    %ring = mbarrier_pipeline %As {slots = 3, consumers = 128} : mbarrier_pipeline<3; As: shared<3 versions x 16x64xbf16>>
    warp_specialized {registers = (56, 256)} producer {
      %1, %2 = for 0, %0, 1, [0, 0] : i32, i32 (%k_1: i32, %slot_1: i32, %phase_1: i32) {
        %3 = mul %k_1, 64 : i32
        producer_acquire %ring, %slot_1, %phase_1
        producer_expect_tx %ring, %slot_1
        tma_copy %A[0, %3], %As, %ring, %slot_1 {src_dims = (0, 1)}
        %4 = add %slot_1, 1 : i32
        %5 = cmp %4, 3 {predicate = "eq"} : bool
        %6 = xor %phase_1, 1 : i32
        %7 = select %5, %6, %phase_1 : i32
        %8 = select %5, 0, %4 : i32
        yield %8, %7
      }
    } consumer {
      %z = splat 0.0 {shape = (64, 16)} : tile<64x16xf32>
      %c, %9, %10 = for 0, %0, 1, [%z, 0, 0] : tile<64x16xf32>, i32, i32 (%k: i32, %c_1: tile<64x16xf32>, %slot: i32, %phase: i32) {
        %w = load %Ws[0, 0, 0], slot = %slot {shape = (64, 2, 32), dims = (0, 1, 2)} : tile<64x2x32xbf16>
        %d = add %w, %w : tile<64x2x32xbf16>
        %r = reshape %d {shape = (64, 64)} : tile<64x64xbf16>
        consumer_wait %ring, %slot, %phase
        %c_2, %t = async_gemm %r, %As[0, 0], %c_1, b_slot = %slot {transpose_b = true} : tile<64x16xf32>, token<wgmma>
        %11 = add %slot, 1 : i32
        %12 = cmp %11, 3 {predicate = "eq"} : bool
        %13 = xor %phase, 1 : i32
        %14 = select %12, %13, %phase : i32
        %15 = select %12, 0, %11 : i32
        %c_3 = await %c_2, %t : tile<64x16xf32>
        consumer_release %ring, %slot
        yield %c_3, %15, %14
      }
      store %C[0, 0], %c {dims = (0, 1)}
    }
    yield
  }
}
