// A loop with parts for two roles becomes a loop in each; what comes behind joins its role, and scalars are computed by
// either.
// pass: hoist_storage, partition_warpgroups
// target: sm_90a
traced kernel @k(%A: tensor<64x512xbf16>, %C: tensor<64x64xbf16>, %n: i32) attrs {threads = 256} {
  launch 1, 1, 1 {threads = 256} (%bx: i32, %by: i32, %bz: i32) {
    %S = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    %F = alloc {type_ = fragment<64x64xbf16>} : fragment<64x64xbf16>
    %full = barriers {counts = (128,)} : shared<1xu64>
    %free = barriers {counts = (128,)} : shared<1xu64>
    for 0, %n, 1 {kind = "pipelined", stages = 3} (%k: i32) {
      %p = floormod %k, 2
      %one = in_groups {first = 1, count = 1} : bool
      warp_groups %one {first = 1, count = 1} then {
        %q = xor %p, 1
        barrier_wait %free, 0, %q
        %at = mul %k, 64
        bulk_load %A[0, %at], %S[0, 0], %full, 0 {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
        barrier_arrive %full, 0
        yield
      } orelse {
        yield
      }
      %zero = in_groups {first = 0, count = 1} : bool
      warp_groups %zero {first = 0, count = 1} then {
        barrier_wait %full, 0, %p
        copy %S[0, 0], %F[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
        barrier_arrive %free, 0
        yield
      } orelse {
        yield
      }
      yield
    }
    %zero = in_groups {first = 0, count = 1} : bool
    warp_groups %zero {first = 0, count = 1} then {
      copy %F[0, 0], %C[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
      yield
    } orelse {
      yield
    }
    yield
  }
}

// ----
traced kernel @k(%A: tensor<64x512xbf16>, %C: tensor<64x64xbf16>, %n: i32) attrs {threads = 256, explicit_sync = true} {
  launch 1, 1, 1 {threads = 256} (%bx: i32, %by: i32, %bz: i32) {
    %full = barriers {counts = (128,)} : shared<1xu64>
    %free = barriers {counts = (128,)} : shared<1xu64>
    %S = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    %F = alloc {type_ = fragment<64x64xbf16>} : fragment<64x64xbf16>
    %0 = in_groups {first = 0, count = 1} : bool
    warp_groups %0 {first = 0, count = 1} then {
      for 0, %n, 1 (%k: i32) {
        %p = floormod %k, 2 : i32
        %one = in_groups {first = 1, count = 1} : bool
        %zero = in_groups {first = 0, count = 1} : bool
        barrier_wait %full, 0, %p
        copy %S[0, 0], %F[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
        barrier_arrive %free, 0
        yield
      }
      %zero_1 = in_groups {first = 0, count = 1} : bool
      copy %F[0, 0], %C[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
      yield
    } orelse {
      for 0, %n, 1 (%k_1: i32) {
        %p_1 = floormod %k_1, 2 : i32
        %one_1 = in_groups {first = 1, count = 1} : bool
        %q = xor %p_1, 1 : i32
        barrier_wait %free, 0, %q
        %at = mul %k_1, 64 : i32
        bulk_load %A[0, %at], %S[0, 0], %full, 0 {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
        barrier_arrive %full, 0
        %zero_2 = in_groups {first = 0, count = 1} : bool
        yield
      }
      %zero_3 = in_groups {first = 0, count = 1} : bool
      yield
    }
    yield
  }
}
