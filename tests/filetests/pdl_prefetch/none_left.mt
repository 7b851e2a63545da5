// All that the loop copies may go ahead, so nothing would be left behind the wait: everything waits, and the wait names no
// tensor any more.
// pass: pdl_prefetch
// target: sm_90a
tile kernel @none_left(%A: tensor<64x512xbf16>, %C: tensor<64x64xf32>) attrs {threads = 128, producer_threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<2 versions x 64x64xbf16>} : shared<2 versions x 64x64xbf16>
    %ring = mbarrier_pipeline %As {slots = 2, consumers = 128} : mbarrier_pipeline<2; As: shared<2 versions x 64x64xbf16>>
    pdl_sync %A
    warp_specialized {registers = (56, 256)} producer {
      %1, %2 = for 0, 8, 1, [0, 0] : i32, i32 (%k: i32, %slot: i32, %phase: i32) {
        producer_acquire %ring, %slot, %phase
        producer_expect_tx %ring, %slot
        tma_copy %A[0, %k], %As, %ring, %slot {src_dims = (0, 1)}
        %last = cmp %slot, 1 {predicate = "eq"} : bool
        %flipped = xor %phase, 1 : i32
        %next = select %last, %flipped, %phase : i32
        %other = sub 1, %slot : i32
        yield %other, %next
      }
    } consumer {
      %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
      %3, %4 = for 0, 8, 1, [0, 0] : i32, i32 (%k_1: i32, %slot_1: i32, %phase_1: i32) {
        consumer_wait %ring, %slot_1, %phase_1
        consumer_release %ring, %slot_1
        %last_1 = cmp %slot_1, 1 {predicate = "eq"} : bool
        %flipped_1 = xor %phase_1, 1 : i32
        %next_1 = select %last_1, %flipped_1, %phase_1 : i32
        %other_1 = sub 1, %slot_1 : i32
        yield %other_1, %next_1
      }
      store %C[0, 0], %z {dims = (0, 1)}
    }
    yield
  }
}

// ----
tile kernel @none_left(%A: tensor<64x512xbf16>, %C: tensor<64x64xf32>) attrs {threads = 128, producer_threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %As = alloc {type_ = shared<2 versions x 64x64xbf16>} : shared<2 versions x 64x64xbf16>
    %ring = mbarrier_pipeline %As {slots = 2, consumers = 128} : mbarrier_pipeline<2; As: shared<2 versions x 64x64xbf16>>
    pdl_sync
    warp_specialized {registers = (56, 256)} producer {
      %0, %1 = for 0, 8, 1, [0, 0] : i32, i32 (%k: i32, %slot: i32, %phase: i32) {
        producer_acquire %ring, %slot, %phase
        producer_expect_tx %ring, %slot
        tma_copy %A[0, %k], %As, %ring, %slot {src_dims = (0, 1)}
        %last = cmp %slot, 1 {predicate = "eq"} : bool
        %flipped = xor %phase, 1 : i32
        %next = select %last, %flipped, %phase : i32
        %other = sub 1, %slot : i32
        yield %other, %next
      }
    } consumer {
      %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
      %2, %3 = for 0, 8, 1, [0, 0] : i32, i32 (%k_1: i32, %slot_1: i32, %phase_1: i32) {
        consumer_wait %ring, %slot_1, %phase_1
        consumer_release %ring, %slot_1
        %last_1 = cmp %slot_1, 1 {predicate = "eq"} : bool
        %flipped_1 = xor %phase_1, 1 : i32
        %next_1 = select %last_1, %flipped_1, %phase_1 : i32
        %other_1 = sub 1, %slot_1 : i32
        yield %other_1, %next_1
      }
      store %C[0, 0], %z {dims = (0, 1)}
    }
    yield
  }
}
