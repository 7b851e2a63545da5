// Two warpgroups that copy together are one role; the third has its own, and nested parts are split inside.
// pass: hoist_storage, partition_warpgroups
// target: sm_90a
traced kernel @k(%A: tensor<64x64xbf16>, %n: i32) attrs {threads = 384} {
  launch 1, 1, 1 {threads = 384} (%bx: i32, %by: i32, %bz: i32) {
    %S = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    %b = barriers {counts = (128, 256)} : shared<2xu64>
    for 0, %n, 1 (%k: i32) {
      %two = in_groups {first = 1, count = 2} : bool
      warp_groups %two {first = 1, count = 2} then {
        copy %A[0, 0], %S[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
        %last = in_groups {first = 2, count = 1} : bool
        warp_groups %last {first = 2, count = 1} then {
          barrier_arrive %b, 0
          yield
        } orelse {
          yield
        }
        barrier_arrive %b, 1
        yield
      } orelse {
        barrier_wait %b, 1, 0
        yield
      }
      yield
    }
    yield
  }
}

// ----
traced kernel @k(%A: tensor<64x64xbf16>, %n: i32) attrs {threads = 384, explicit_sync = true} {
  launch 1, 1, 1 {threads = 384} (%bx: i32, %by: i32, %bz: i32) {
    %b = barriers {counts = (128, 256)} : shared<2xu64>
    %S = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    %0 = in_groups {first = 0, count = 1} : bool
    warp_groups %0 {first = 0, count = 1} then {
      for 0, %n, 1 (%k: i32) {
        %two = in_groups {first = 1, count = 2} : bool
        barrier_wait %b, 1, 0
        yield
      }
      yield
    } orelse {
      for 0, %n, 1 (%k_1: i32) {
        %two_1 = in_groups {first = 1, count = 2} : bool
        copy %A[0, 0], %S[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
        %last = in_groups {first = 2, count = 1} : bool
        %1 = in_groups {first = 1, count = 1} : bool
        warp_groups %1 {first = 1, count = 1} then {
          yield
        } orelse {
          barrier_arrive %b, 0
          yield
        }
        barrier_arrive %b, 1
        yield
      }
      yield
    }
    yield
  }
}
