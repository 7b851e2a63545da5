// One warp copies for the first three iterations, then for the one three further on where a slot is released.
// pass: tma_multistage
// target: sm_90a
tile kernel @gemm(%A: tensor<256x512xbf16>, %B: tensor<256x512xbf16>, %C: tensor<256x256xf32>) attrs {threads = 128} {
  launch 2, 2, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<128x64xbf16>} : shared<128x64xbf16>
    %Bs = alloc {type_ = shared<128x64xbf16>} : shared<128x64xbf16>
    %z = splat 0.0 {shape = (128, 128)} : tile<128x128xf32>
    %m = mul %by, 128 : i32
    %n = mul %bx, 128 : i32
    %r = for 0, 8, 1, [%z] {kind = "pipelined", stages = 3} (%k: i32, %c: tile<128x128xf32>) {
      %o = mul %k, 64 : i32
      copy %A[%m, %o], %As[0, 0] {shape = (128, 64), src_dims = (0, 1), dst_dims = (0, 1)}
      copy %B[%n, %o], %Bs[0, 0] {shape = (128, 64), src_dims = (0, 1), dst_dims = (0, 1)}
      %c1 = gemm %As[0, 0], %Bs[0, 0], %c {transpose_b = true} : tile<128x128xf32>
      yield %c1
    }
    store %C[%m, %n], %r {dims = (0, 1)}
  }
}

// ----
tile kernel @gemm(%A: tensor<256x512xbf16>, %B: tensor<256x512xbf16>, %C: tensor<256x256xf32>) attrs {threads = 128} {
  launch 2, 2, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<3 versions x 128x64xbf16>} : shared<3 versions x 128x64xbf16>
    %Bs = alloc {type_ = shared<3 versions x 128x64xbf16>} : shared<3 versions x 128x64xbf16>
    %ring = mbarrier_pipeline %As, %Bs {slots = 3, consumers = 128} : mbarrier_pipeline<3; As: shared<3 versions x 128x64xbf16>, Bs: shared<3 versions x 128x64xbf16>>
    %m = mul %by, 128 : i32
    %n = mul %bx, 128 : i32
    warp_specialized {producer_threads = 0} producer {
    } consumer {
      %z = splat 0.0 {shape = (128, 128)} : tile<128x128xf32>
      pipeline_prologue {
        %0, %1 = for 0, 3, 1, [0, 0] : i32, i32 (%k: i32, %slot: i32, %phase: i32) {
          %o = mul %k, 64 : i32
          producer_expect_tx %ring, %slot
          tma_copy %A[%m, %o], %As, %ring, %slot {src_dims = (0, 1)}
          tma_copy %B[%n, %o], %Bs, %ring, %slot {src_dims = (0, 1)}
          %2 = add %slot, 1 : i32
          %3 = cmp %2, 3 {predicate = "eq"} : bool
          %4 = xor %phase, 1 : i32
          %5 = select %3, %4, %phase : i32
          %6 = select %3, 0, %2 : i32
          yield %6, %5
        }
      }
      %r, %7, %8 = for 0, 8, 1, [%z, 0, 0] : tile<128x128xf32>, i32, i32 (%k_1: i32, %c: tile<128x128xf32>, %slot_1: i32, %phase_1: i32) {
        %o_1 = mul %k_1, 64 : i32
        consumer_wait %ring, %slot_1, %phase_1
        %c1, %9 = async_gemm %As[0, 0], %Bs[0, 0], %c, a_slot = %slot_1, b_slot = %slot_1 {transpose_b = true} : tile<128x128xf32>, token<wgmma>
        %c1_1 = await %c1, %9 : tile<128x128xf32>
        %10 = add %k_1, 3 : i32
        %11 = xor %phase_1, 1 : i32
        refill %ring, %slot_1, %11, %10, 8 (%slot_2: i32, %phase_2: i32, %k_2: i32) {
          %o_2 = mul %k_2, 64 : i32
          producer_acquire %ring, %slot_2, %phase_2
          producer_expect_tx %ring, %slot_2
          tma_copy %A[%m, %o_2], %As, %ring, %slot_2 {src_dims = (0, 1)}
          tma_copy %B[%n, %o_2], %Bs, %ring, %slot_2 {src_dims = (0, 1)}
        }
        %12 = add %slot_1, 1 : i32
        %13 = cmp %12, 3 {predicate = "eq"} : bool
        %14 = xor %phase_1, 1 : i32
        %15 = select %13, %14, %phase_1 : i32
        %16 = select %13, 0, %12 : i32
        yield %c1_1, %16, %15
      }
      store %C[%m, %n], %r {dims = (0, 1)}
    }
  }
}
