// A copy by all threads keeps the loop one of all; the parts behind it are split there. A scalar that one role assigns
// has a value in each.
// pass: partition_warpgroups
// target: sm_90a
traced kernel @k(%A: tensor<64x512xbf16>, %C: tensor<64xi32>, %n: i32) attrs {threads = 256} {
  launch 1, 1, 1 {threads = 256} (%bx: i32, %by: i32, %bz: i32) {
    %S = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    %F = alloc {type_ = fragment<64x64xbf16>} : fragment<64x64xbf16>
    %G = alloc {type_ = fragment<64x64xbf16>} : fragment<64x64xbf16>
    %r = for 0, %n, 1, [0] : i32 (%k: i32, %s: i32) {
      %at = mul %k, 64
      copy %A[0, %at], %S[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
      %zero = in_groups {first = 0, count = 1} : bool
      %s1 = warp_groups %zero {first = 0, count = 1} : i32 then {
        copy %S[0, 0], %F[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
        %t = add %s, 1
        yield %t
      } orelse {
        yield %s
      }
      %one = in_groups {first = 1, count = 1} : bool
      warp_groups %one {first = 1, count = 1} then {
        copy %S[0, 0], %G[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
        yield
      } orelse {
        yield
      }
      yield %s1
    }
    store %C[0], %r {dims = (none,)}
    yield
  }
}

// ----
traced kernel @k(%A: tensor<64x512xbf16>, %C: tensor<64xi32>, %n: i32) attrs {threads = 256, explicit_sync = true} {
  launch 1, 1, 1 {threads = 256} (%bx: i32, %by: i32, %bz: i32) {
    %S = alloc {type_ = shared<64x64xbf16>} : shared<64x64xbf16>
    %F = alloc {type_ = fragment<64x64xbf16>} : fragment<64x64xbf16>
    %G = alloc {type_ = fragment<64x64xbf16>} : fragment<64x64xbf16>
    %r = for 0, %n, 1, [0] : i32 (%k: i32, %s: i32) {
      %at = mul %k, 64 : i32
      copy %A[0, %at], %S[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
      %zero = in_groups {first = 0, count = 1} : bool
      %0 = in_groups {first = 0, count = 1} : bool
      %1 = warp_groups %0 {first = 0, count = 1} : i32 then {
        copy %S[0, 0], %F[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
        %t = add %s, 1 : i32
        %one = in_groups {first = 1, count = 1} : bool
        yield %t
      } orelse {
        %one_1 = in_groups {first = 1, count = 1} : bool
        copy %S[0, 0], %G[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}
        yield %s
      }
      yield %1
    }
    store %C[0], %r {dims = (none,)}
    yield
  }
}
