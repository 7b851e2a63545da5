// Kernels of minitile's language keep their copies where they stand.
// pass: hoist_copies
// target: sm_90a
tile kernel @k(%Q: tensor<16x64xf16>, %K: tensor<512x64xf16>, %V: tensor<512x64xf16>, %I: tensor<64xi32>, %O: tensor<16x64xf32>) attrs {threads = 32} {
  launch 64, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %q = alloc {type_ = shared<16x64xf16>}
    %k = alloc {type_ = shared<32x64xf16>}
    %v = alloc {type_ = shared<32x64xf16>}
    copy %Q[0, 0], %q[0, 0] {shape = (16, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    %i = load %I[%bx] {shape = (), dims = (none,)} : i32
    %at = mul %i, 32 : i32
    copy %K[%at, 0], %k[0, 0] {shape = (32, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    %z = splat 0.0 {shape = (16, 32)} : tile<16x32xf32>
    %s = gemm %q[0, 0], %k[0, 0], %z {transpose_b = true}
    %p = cast %s {to = f16} : tile<16x32xf16>
    %y = splat 0.0 {shape = (16, 64)} : tile<16x64xf32>
    %bt = mul %i, 32 : i32
    copy %V[%bt, 0], %v[0, 0] {shape = (32, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    %o = gemm %p, %v[0, 0], %y
    store %O[0, 0], %o {dims = (0, 1)}
  }
}

// ----
tile kernel @k(%Q: tensor<16x64xf16>, %K: tensor<512x64xf16>, %V: tensor<512x64xf16>, %I: tensor<64xi32>, %O: tensor<16x64xf32>) attrs {threads = 32} {
  launch 64, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %q = alloc {type_ = shared<16x64xf16>} : shared<16x64xf16>
    %k = alloc {type_ = shared<32x64xf16>} : shared<32x64xf16>
    %v = alloc {type_ = shared<32x64xf16>} : shared<32x64xf16>
    copy %Q[0, 0], %q[0, 0] {shape = (16, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    %i = load %I[%bx] {shape = (), dims = (none,)} : i32
    %at = mul %i, 32 : i32
    copy %K[%at, 0], %k[0, 0] {shape = (32, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    %z = splat 0.0 {shape = (16, 32)} : tile<16x32xf32>
    %s = gemm %q[0, 0], %k[0, 0], %z {transpose_b = true} : tile<16x32xf32>
    %p = cast %s {to = f16} : tile<16x32xf16>
    %y = splat 0.0 {shape = (16, 64)} : tile<16x64xf32>
    %bt = mul %i, 32 : i32
    copy %V[%bt, 0], %v[0, 0] {shape = (32, 64), src_dims = (0, 1), dst_dims = (0, 1)}
    %o = gemm %p, %v[0, 0], %y : tile<16x64xf32>
    store %O[0, 0], %o {dims = (0, 1)}
  }
}
