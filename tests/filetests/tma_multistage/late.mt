// The slot of the gemm before is filled again, while the next gemm runs; behind the loop it is only released, and as
// no role receives it again, not even that.
// pass: tma_multistage, sink_wgmma_waits
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
      %7 = no_token {counter = "wgmma"} : token<wgmma>
      %c, %8, %9, %flight, %last, %10, %11 = for 0, 8, 1, [%z, 0, 0, %7, -1, 0, 0] : tile<128x128xf32>, i32, i32, token<wgmma>, i32, i32, i32 (%k_1: i32, %c_1: tile<128x128xf32>, %slot_1: i32, %phase_1: i32, %flight_1: token<wgmma>, %last_1: i32, %12: i32, %13: i32) {
        %o_1 = mul %k_1, 64 : i32
        consumer_wait %ring, %slot_1, %phase_1
        %c1, %14 = async_gemm %As[0, 0], %Bs[0, 0], %c_1, a_slot = %slot_1, b_slot = %slot_1 {transpose_b = true} : tile<128x128xf32>, token<wgmma>
        wait %flight_1
        %15 = cmp %last_1, 0 {predicate = "ge"} : bool
        refill %ring, %last_1, condition = %15, %12, %13, 8 (%slot_2: i32, %phase_2: i32, %k_2: i32) {
          %o_2 = mul %k_2, 64 : i32
          producer_acquire %ring, %slot_2, %phase_2
          producer_expect_tx %ring, %slot_2
          tma_copy %A[%m, %o_2], %As, %ring, %slot_2 {src_dims = (0, 1)}
          tma_copy %B[%n, %o_2], %Bs, %ring, %slot_2 {src_dims = (0, 1)}
        }
        %16 = add %k_1, 3 : i32
        %17 = xor %phase_1, 1 : i32
        %18 = add %slot_1, 1 : i32
        %19 = cmp %18, 3 {predicate = "eq"} : bool
        %20 = xor %phase_1, 1 : i32
        %21 = select %19, %20, %phase_1 : i32
        %22 = select %19, 0, %18 : i32
        yield %c1, %22, %21, %14, %slot_1, %17, %16
      }
      %r = await %c, %flight : tile<128x128xf32>
      %23 = cmp %last, 0 {predicate = "ge"} : bool
      store %C[%m, %n], %r {dims = (0, 1)}
    }
  }
}
