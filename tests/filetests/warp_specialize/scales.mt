// Scales have a ring of their own beside tiles that blocks of a cluster have in common (B): threads read them, and would
// have to tell all these blocks by a fence of the GPU. Elsewhere such few bytes join the ring of the tiles.
// pass: warp_specialize
// target: sm_90a
tile kernel @cluster(%A: tensor<256x512xe4m3>, %B: tensor<256x512xe4m3>, %S: tensor<4x256xf32>, %C: tensor<256x256xf32>) attrs {threads = 128} {
  launch 2, 4, 1 {threads = 128, cluster = (1, 2, 1)} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<64x128xe4m3>} : shared<64x128xe4m3>
    %Bs = alloc {type_ = shared<64x128xe4m3>} : shared<64x128xe4m3>
    %Ss = alloc {type_ = shared<64xf32>} : shared<64xf32>
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %m = mul %by, 64 : i32
    %n = mul %bx, 64 : i32
    %r = for 0, 4, 1, [%z] {kind = "pipelined", stages = 3} (%k: i32, %c: tile<64x64xf32>) {
      %o = mul %k, 128 : i32
      copy %A[%m, %o], %As[0, 0] {shape = (64, 128), src_dims = (0, 1), dst_dims = (0, 1)}
      copy %B[%n, %o], %Bs[0, 0] {shape = (64, 128), src_dims = (0, 1), dst_dims = (0, 1)}
      copy %S[%k, %m], %Ss[0] {shape = (64,), src_dims = (none, 0), dst_dims = (0,)}
      %p = gemm %As[0, 0], %Bs[0, 0], %z {transpose_b = true} : tile<64x64xf32>
      %s = load %Ss[0] {shape = (64,), dims = (0,)} : tile<64xf32>
      %e = expand %s {dim = 1, size = 64} : tile<64x64xf32>
      %t = mul %p, %e : tile<64x64xf32>
      %c1 = add %c, %t : tile<64x64xf32>
      yield %c1
    }
    store %C[%m, %n], %r {dims = (0, 1)}
  }
}

// ----
tile kernel @cluster(%A: tensor<256x512xe4m3>, %B: tensor<256x512xe4m3>, %S: tensor<4x256xf32>, %C: tensor<256x256xf32>) attrs {threads = 128, producer_threads = 128} {
  launch 2, 4, 1 {threads = 128, cluster = (1, 2, 1)} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<3 versions x 64x128xe4m3>} : shared<3 versions x 64x128xe4m3>
    %Bs = alloc {type_ = shared<3 versions x 64x128xe4m3>} : shared<3 versions x 64x128xe4m3>
    %Ss = alloc {type_ = shared<3 versions x 64xf32>} : shared<3 versions x 64xf32>
    %ring = mbarrier_pipeline %As, %Bs {slots = 3, consumers = 128, common = (1,)} : mbarrier_pipeline<3; As: shared<3 versions x 64x128xe4m3>, Bs: shared<3 versions x 64x128xe4m3>>
    %ring_1 = mbarrier_pipeline %Ss {slots = 3, consumers = 128} : mbarrier_pipeline<3; Ss: shared<3 versions x 64xf32>>
    %m = mul %by, 64 : i32
    %n = mul %bx, 64 : i32
    warp_specialized {registers = (56, 256)} producer {
      %0, %1 = for 0, 4, 1, [0, 0] : i32, i32 (%k: i32, %slot: i32, %phase: i32) {
        %o = mul %k, 128 : i32
        producer_acquire %ring, %slot, %phase
        producer_expect_tx %ring, %slot
        tma_copy %A[%m, %o], %As, %ring, %slot {src_dims = (0, 1)}
        tma_copy %B[%n, %o], %Bs, %ring, %slot {src_dims = (0, 1), common = (1,)}
        producer_acquire %ring_1, %slot, %phase
        producer_expect_tx %ring_1, %slot
        tma_copy %S[%k, %m], %Ss, %ring_1, %slot {src_dims = (none, 0)}
        %2 = add %slot, 1 : i32
        %3 = cmp %2, 3 {predicate = "eq"} : bool
        %4 = xor %phase, 1 : i32
        %5 = select %3, %4, %phase : i32
        %6 = select %3, 0, %2 : i32
        yield %6, %5
      }
    } consumer {
      %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
      %r, %7, %8 = for 0, 4, 1, [%z, 0, 0] : tile<64x64xf32>, i32, i32 (%k_1: i32, %c: tile<64x64xf32>, %slot_1: i32, %phase_1: i32) {
        %o_1 = mul %k_1, 128 : i32
        consumer_wait %ring, %slot_1, %phase_1
        %p, %9 = async_gemm %As[0, 0], %Bs[0, 0], %z, a_slot = %slot_1, b_slot = %slot_1 {transpose_b = true} : tile<64x64xf32>, token<wgmma>
        %p_1 = await %p, %9 : tile<64x64xf32>
        consumer_release %ring, %slot_1
        consumer_wait %ring_1, %slot_1, %phase_1
        %s = load %Ss[0], slot = %slot_1 {shape = (64,), dims = (0,)} : tile<64xf32>
        consumer_release %ring_1, %slot_1 {generic = true}
        %e = expand %s {dim = 1, size = 64} : tile<64x64xf32>
        %t = mul %p_1, %e : tile<64x64xf32>
        %c1 = add %c, %t : tile<64x64xf32>
        %10 = add %slot_1, 1 : i32
        %11 = cmp %10, 3 {predicate = "eq"} : bool
        %12 = xor %phase_1, 1 : i32
        %13 = select %11, %12, %phase_1 : i32
        %14 = select %11, 0, %10 : i32
        yield %c1, %14, %13
      }
      store %C[%m, %n], %r {dims = (0, 1)}
    }
  }
}
