// The mask of a gemm's factor stays: a branch would hand it on.
// pass: version_masks
// target: sm_90a
tile kernel @factor(%Y: tensor<64x64xf32>, %n: i32) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %s = alloc {type_ = shared<64x64xf16>} : shared<64x64xf16>
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %o = splat 0.0:f16 {shape = (64, 64)} : tile<64x64xf16>
    %r = for 0, %n, 1, [%z] : tile<64x64xf32> (%k: i32, %c: tile<64x64xf32>) {
      %x = load %s[0, 0] {shape = (64, 64), dims = (0, 1)} : tile<64x64xf16>
      %i = iota {shape = (64, 64), dim = 0} : tile<64x64xi32>
      %j = iota {shape = (64, 64), dim = 1} : tile<64x64xi32>
      %at = add %j, %k : tile<64x64xi32>
      %m = cmp %i, %at {predicate = "ge"} : tile<64x64xbool>
      %f = select %m, %x, %o : tile<64x64xf16>
      %d = gemm %f, %s[0, 0], %c : tile<64x64xf32>
      yield %d
    }
    store %Y[0, 0], %r {dims = (0, 1)}
  }
}

// ----
tile kernel @factor(%Y: tensor<64x64xf32>, %n: i32) attrs {threads = 128} {
  launch 1, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %s = alloc {type_ = shared<64x64xf16>} : shared<64x64xf16>
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %o = splat 0.0:f16 {shape = (64, 64)} : tile<64x64xf16>
    %r = for 0, %n, 1, [%z] : tile<64x64xf32> (%k: i32, %c: tile<64x64xf32>) {
      %x = load %s[0, 0] {shape = (64, 64), dims = (0, 1)} : tile<64x64xf16>
      %i = iota {shape = (64, 64), dim = 0} : tile<64x64xi32>
      %j = iota {shape = (64, 64), dim = 1} : tile<64x64xi32>
      %at = add %j, %k : tile<64x64xi32>
      %m = cmp %i, %at {predicate = "ge"} : tile<64x64xbool>
      %f = select %m, %x, %o : tile<64x64xf16>
      %d = gemm %f, %s[0, 0], %c : tile<64x64xf32>
      yield %d
    }
    store %Y[0, 0], %r {dims = (0, 1)}
  }
}
