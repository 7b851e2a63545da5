// A gathered tile has two versions: one is written while the product reads the other.
// pass: double_buffer
// target: sm_90a
tile kernel @gathered(%X: tensor<64x64xf16>, %Y: tensor<64x64xf32>) attrs {threads = 512, resources_are_hints = true} {
  launch 1, 1, 1 {threads = 512} (%bx: i32, %by: i32, %bz: i32) {
    %s = alloc {type_ = shared<64x64xf16>} : shared<64x64xf16>
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %r = for 0, 4, 1, [%z] : tile<64x64xf32> (%k: i32, %c: tile<64x64xf32>) {
      %i = iota {shape = (64, 64), dim = 0} : tile<64x64xi32>
      %j = iota {shape = (64, 64), dim = 1} : tile<64x64xi32>
      %at = add %i, %k : tile<64x64xi32>
      %x = load %X[%at, %j] {shape = (64, 64), dims = (none, none)} : tile<64x64xf16>
      store %s[0, 0], %x {dims = (0, 1)}
      %d, %t = async_gemm %s[0, 0], %s[0, 0], %c : tile<64x64xf32>, token<wgmma>
      %e = await %d, %t : tile<64x64xf32>
      yield %e
    }
    store %Y[0, 0], %r {dims = (0, 1)}
  }
}

// ----
tile kernel @gathered(%X: tensor<64x64xf16>, %Y: tensor<64x64xf32>) attrs {threads = 512, resources_are_hints = true} {
  launch 1, 1, 1 {threads = 512} (%bx: i32, %by: i32, %bz: i32) {
    %s = alloc {type_ = shared<2 versions x 64x64xf16>} : shared<2 versions x 64x64xf16>
    %z = splat 0.0 {shape = (64, 64)} : tile<64x64xf32>
    %0 = if true : tile<64x64xf16> then {
      %i = iota {shape = (64, 64), dim = 0} : tile<64x64xi32>
      %at = add %i, 0 : tile<64x64xi32>
      %j = iota {shape = (64, 64), dim = 1} : tile<64x64xi32>
      %x = load %X[%at, %j] {shape = (64, 64), dims = (none, none)} : tile<64x64xf16>
      yield %x
    } orelse {
      %1 = splat 0.0:f16 {shape = (64, 64)} : tile<64x64xf16>
      yield %1
    }
    store %s[0, 0], %0, slot = 0 {dims = (0, 1)}
    %2 = if true : tile<64x64xf16> then {
      %i_1 = iota {shape = (64, 64), dim = 0} : tile<64x64xi32>
      %at_1 = add %i_1, 1 : tile<64x64xi32>
      %j_1 = iota {shape = (64, 64), dim = 1} : tile<64x64xi32>
      %x_1 = load %X[%at_1, %j_1] {shape = (64, 64), dims = (none, none)} : tile<64x64xf16>
      yield %x_1
    } orelse {
      %3 = splat 0.0:f16 {shape = (64, 64)} : tile<64x64xf16>
      yield %3
    }
    %r, %4 = for 0, 4, 1, [%z, %2] : tile<64x64xf32>, tile<64x64xf16> (%k: i32, %c: tile<64x64xf32>, %x_2: tile<64x64xf16>) {
      %5 = add %k, 1 : i32
      %6 = floormod %k, 2 : i32
      %7 = floormod %5, 2 : i32
      %i_2 = iota {shape = (64, 64), dim = 0} : tile<64x64xi32>
      %j_2 = iota {shape = (64, 64), dim = 1} : tile<64x64xi32>
      %at_2 = add %i_2, %k : tile<64x64xi32>
      %d, %t = async_gemm %s[0, 0], %s[0, 0], %c, a_slot = %6, b_slot = %6 : tile<64x64xf32>, token<wgmma>
      store %s[0, 0], %x_2, slot = %7 {dims = (0, 1)}
      %8 = add %k, 2 : i32
      %9 = cmp %8, 4 {predicate = "lt"} : bool
      %10 = if %9 : tile<64x64xf16> then {
        %i_3 = iota {shape = (64, 64), dim = 0} : tile<64x64xi32>
        %at_3 = add %i_3, %8 : tile<64x64xi32>
        %j_3 = iota {shape = (64, 64), dim = 1} : tile<64x64xi32>
        %x_3 = load %X[%at_3, %j_3] {shape = (64, 64), dims = (none, none)} : tile<64x64xf16>
        yield %x_3
      } orelse {
        %11 = splat 0.0:f16 {shape = (64, 64)} : tile<64x64xf16>
        yield %11
      }
      %e = await %d, %t : tile<64x64xf32>
      yield %e, %10
    }
    store %Y[0, 0], %r {dims = (0, 1)}
  }
}
