// A loop that reads the buffer is waited in front of; in its body neither a barrier of the program's nor its end is passed.
// pass: hoist_copies
// target: sm_80
tile kernel @k(%Q: tensor<16x64xf16>, %K: tensor<512x64xf16>, %V: tensor<512x64xf16>, %I: tensor<64xi32>, %O: tensor<16x64xf32>) attrs {threads = 32, resources_are_hints = true} {
  launch 64, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %q = alloc {type_ = shared<16x64xf16>}
    %k = alloc {type_ = shared<32x64xf16>}
    %v = alloc {type_ = shared<32x64xf16>}
    copy %Q[0, 0], %q[0, 0] {shape = (16, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    %z = splat 0.0 {shape = (16, 64)} : tile<16x64xf32>
    %r = for 0, 4, 1, [%z] (%n: i32, %c: tile<16x64xf32>) {
      %m = load %q[0, 0] {shape = (16, 32), dims = (0, 1)} : tile<16x32xf16>
      %at = mul %n, 32 : i32
      copy %V[%at, 0], %v[0, 0] {shape = (32, 64), src_dims = (0, 1), dst_dims = (0, 1)}
      sync_threads
      %d = gemm %m, %v[0, 0], %c
      copy %Q[0, 0], %q[0, 0] {shape = (16, 64), src_dims = (0, 1), dst_dims = (0, 1)}
      yield %d
    }
    store %O[0, 0], %r {dims = (0, 1)}
  }
}

// ----
tile kernel @k(%Q: tensor<16x64xf16>, %K: tensor<512x64xf16>, %V: tensor<512x64xf16>, %I: tensor<64xi32>, %O: tensor<16x64xf32>) attrs {threads = 32, resources_are_hints = true} {
  launch 64, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %q = alloc {type_ = shared<16x64xf16>} : shared<16x64xf16>
    %k = alloc {type_ = shared<32x64xf16>} : shared<32x64xf16>
    %v = alloc {type_ = shared<32x64xf16>} : shared<32x64xf16>
    %0 = async_copy %Q[0, 0], %q[0, 0] {shape = (16, 64), src_dims = (0, 1), dst_dims = (0, 1)} : token
    %1 = join %0 : token
    %z = splat 0.0 {shape = (16, 64)} : tile<16x64xf32>
    wait %1
    %r = for 0, 4, 1, [%z] : tile<16x64xf32> (%n: i32, %c: tile<16x64xf32>) {
      %at = mul %n, 32 : i32
      %2 = async_copy %V[%at, 0], %v[0, 0] {shape = (32, 64), src_dims = (0, 1), dst_dims = (0, 1)} : token
      %3 = join %2 : token
      %m = load %q[0, 0] {shape = (16, 32), dims = (0, 1)} : tile<16x32xf16>
      wait %3
      sync_threads
      %4 = async_copy %Q[0, 0], %q[0, 0] {shape = (16, 64), src_dims = (0, 1), dst_dims = (0, 1)} : token
      %5 = join %4 : token
      %d = gemm %m, %v[0, 0], %c : tile<16x64xf32>
      wait %5
      yield %d
    }
    store %O[0, 0], %r {dims = (0, 1)}
  }
}
