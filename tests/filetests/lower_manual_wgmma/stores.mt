// Stores by the copy engine that the program leaves in flight have read shared memory before their role ends; the second
// role waits for all of its own itself.
// pass: lower_manual_wgmma
// target: sm_90a
tile kernel @stores(%C: tensor<64x64xf32>, %D: tensor<64x64xf32>) attrs {threads = 256, explicit_sync = true} {
  launch 1, 1, 1 {threads = 256} (%bx: i32, %by: i32, %bz: i32) {
    %S = alloc {type_ = shared<64x64xf32>} : shared<64x64xf32>
    %first = in_groups {first = 0, count = 1}
    warp_groups %first {first = 0, count = 1} then {
      bulk_store %S[0, 0], %C[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
      yield
    } orelse {
      bulk_store %S[0, 0], %D[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
      wait_stores {pending = 0, reads = true}
      yield
    }
    yield
  }
}

// ----
tile kernel @stores(%C: tensor<64x64xf32>, %D: tensor<64x64xf32>) attrs {threads = 256, explicit_sync = true} {
  launch 1, 1, 1 {threads = 256} (%bx: i32, %by: i32, %bz: i32) {
    %S = alloc {type_ = shared<64x64xf32>} : shared<64x64xf32>
    %first = in_groups {first = 0, count = 1} : bool
    warp_groups %first {first = 0, count = 1} then {
      bulk_store %S[0, 0], %C[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
      wait_stores {pending = 0}
      yield
    } orelse {
      bulk_store %S[0, 0], %D[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
      wait_stores {pending = 0}
      yield
    }
    yield
  }
}
