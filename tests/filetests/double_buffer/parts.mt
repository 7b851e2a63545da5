// Not where the loop writes a part of it besides.
// pass: double_buffer
// target: sm_90a
tile kernel @parts(%X: tensor<64x64xf16>, %Y: tensor<64x64xf32>) attrs {threads = 512, resources_are_hints = true} {
  launch 1, 1, 1 {threads = 512} (%bx: i32, %by: i32, %bz: i32) {
    %s = alloc {type_ = shared<64x64xf16>} : shared<64x64xf16>
    %h = splat 0.0:f16 {shape = (64,)} : tile<64xf16>
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %r = for 0, 4, 1, [%z] : tile<64x64xf32> (%k: i32, %c: tile<64x64xf32>) {
      %i = iota {shape = (64, 64), dim = 0} : tile<64x64xi32>
      %j = iota {shape = (64, 64), dim = 1} : tile<64x64xi32>
      %at = add %i, %k : tile<64x64xi32>
      %x = load %X[%at, %j] {shape = (64, 64), dims = (none, none)} : tile<64x64xf16>
      store %s[0, 0], %x {dims = (0, 1)}
      %d, %t = async_gemm %s[0, 0], %s[0, 0], %c : tile<64x64xf32>, token<wgmma>
      %e = await %d, %t : tile<64x64xf32>
      store %s[0, 0], %h {dims = (none, 0)}
      yield %e
    }
    store %Y[0, 0], %r {dims = (0, 1)}
  }
}

// ----
tile kernel @parts(%X: tensor<64x64xf16>, %Y: tensor<64x64xf32>) attrs {threads = 512, resources_are_hints = true} {
  launch 1, 1, 1 {threads = 512} (%bx: i32, %by: i32, %bz: i32) {
    %s = alloc {type_ = shared<64x64xf16>} : shared<64x64xf16>
    %h = splat 0.0:f16 {shape = (64,)} : tile<64xf16>
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %r = for 0, 4, 1, [%z] : tile<64x64xf32> (%k: i32, %c: tile<64x64xf32>) {
      %i = iota {shape = (64, 64), dim = 0} : tile<64x64xi32>
      %j = iota {shape = (64, 64), dim = 1} : tile<64x64xi32>
      %at = add %i, %k : tile<64x64xi32>
      %x = load %X[%at, %j] {shape = (64, 64), dims = (none, none)} : tile<64x64xf16>
      store %s[0, 0], %x {dims = (0, 1)}
      %d, %t = async_gemm %s[0, 0], %s[0, 0], %c : tile<64x64xf32>, token<wgmma>
      %e = await %d, %t : tile<64x64xf32>
      store %s[0, 0], %h {dims = (none, 0)}
      yield %e
    }
    store %Y[0, 0], %r {dims = (0, 1)}
  }
}
