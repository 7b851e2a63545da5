// The carried gemm goes into the next iteration in flight, with the slot to release then; behind the loop nothing waits
// for that any more.
// pass: sink_wgmma_waits
// target: sm_90a
tile kernel @gemm(%A: tensor<256x512xbf16>, %B: tensor<256x512xbf16>, %C: tensor<256x256xf32>) attrs {threads = 128, producer_threads = 128} {
  launch 2, 2, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<3 versions x 128x64xbf16>} : shared<3 versions x 128x64xbf16>
    %Bs = alloc {type_ = shared<3 versions x 128x64xbf16>} : shared<3 versions x 128x64xbf16>
    %m = mul %by, 128 : i32
    %n = mul %bx, 128 : i32
    %ring = mbarrier_pipeline %As, %Bs {slots = 3, consumers = 128} : mbarrier_pipeline<3; As: shared<3 versions x 128x64xbf16>, Bs: shared<3 versions x 128x64xbf16>>
    warp_specialized {registers = (56, 256)} producer {
      %0, %1 = for 0, 8, 1, [0, 0] : i32, i32 (%k: i32, %slot: i32, %phase: i32) {
        %o = mul %k, 64 : i32
        producer_acquire %ring, %slot, %phase
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
    } consumer {
      %z = splat 0.0 {shape = (128, 128)} : tile<128x128xf32>
      %r, %7, %8 = for 0, 8, 1, [%z, 0, 0] : tile<128x128xf32>, i32, i32 (%k_1: i32, %c: tile<128x128xf32>, %slot_1: i32, %phase_1: i32) {
        %o_1 = mul %k_1, 64 : i32
        consumer_wait %ring, %slot_1, %phase_1
        %c1, %9 = async_gemm %As[0, 0], %Bs[0, 0], %c, a_slot = %slot_1, b_slot = %slot_1 {transpose_b = true} : tile<128x128xf32>, token<wgmma>
        %c1_1 = await %c1, %9 : tile<128x128xf32>
        consumer_release %ring, %slot_1
        %10 = add %slot_1, 1 : i32
        %11 = cmp %10, 3 {predicate = "eq"} : bool
        %12 = xor %phase_1, 1 : i32
        %13 = select %11, %12, %phase_1 : i32
        %14 = select %11, 0, %10 : i32
        yield %c1_1, %14, %13
      }
      store %C[%m, %n], %r {dims = (0, 1)}
    }
  }
}

// ----
tile kernel @gemm(%A: tensor<256x512xbf16>, %B: tensor<256x512xbf16>, %C: tensor<256x256xf32>) attrs {threads = 128, producer_threads = 128} {
  launch 2, 2, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<3 versions x 128x64xbf16>} : shared<3 versions x 128x64xbf16>
    %Bs = alloc {type_ = shared<3 versions x 128x64xbf16>} : shared<3 versions x 128x64xbf16>
    %m = mul %by, 128 : i32
    %n = mul %bx, 128 : i32
    %ring = mbarrier_pipeline %As, %Bs {slots = 3, consumers = 128} : mbarrier_pipeline<3; As: shared<3 versions x 128x64xbf16>, Bs: shared<3 versions x 128x64xbf16>>
    warp_specialized {registers = (56, 256)} producer {
      %0, %1 = for 0, 8, 1, [0, 0] : i32, i32 (%k: i32, %slot: i32, %phase: i32) {
        %o = mul %k, 64 : i32
        producer_acquire %ring, %slot, %phase
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
    } consumer {
      %z = splat 0.0 {shape = (128, 128)} : tile<128x128xf32>
      %7 = no_token {counter = "wgmma"} : token<wgmma>
      %c, %8, %9, %flight, %last = for 0, 8, 1, [%z, 0, 0, %7, -1] : tile<128x128xf32>, i32, i32, token<wgmma>, i32 (%k_1: i32, %c_1: tile<128x128xf32>, %slot_1: i32, %phase_1: i32, %flight_1: token<wgmma>, %last_1: i32) {
        %o_1 = mul %k_1, 64 : i32
        consumer_wait %ring, %slot_1, %phase_1
        %c1, %10 = async_gemm %As[0, 0], %Bs[0, 0], %c_1, a_slot = %slot_1, b_slot = %slot_1 {transpose_b = true} : tile<128x128xf32>, token<wgmma>
        wait %flight_1
        %11 = cmp %last_1, 0 {predicate = "ge"} : bool
        consumer_release %ring, %last_1, condition = %11
        %12 = add %slot_1, 1 : i32
        %13 = cmp %12, 3 {predicate = "eq"} : bool
        %14 = xor %phase_1, 1 : i32
        %15 = select %13, %14, %phase_1 : i32
        %16 = select %13, 0, %12 : i32
        yield %c1, %16, %15, %10, %slot_1
      }
      %r = await %c, %flight : tile<128x128xf32>
      %17 = cmp %last, 0 {predicate = "ge"} : bool
      store %C[%m, %n], %r {dims = (0, 1)}
    }
  }
}
