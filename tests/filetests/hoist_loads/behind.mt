// What a loop gathers is loaded for the next turn behind its last use, and behind the products that are not waited for at
// once.
// pass: hoist_loads
// target: sm_90a
tile kernel @behind(%X: tensor<64x64xf16>, %Y: tensor<64x64xf32>) attrs {threads = 512, resources_are_hints = true} {
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
tile kernel @behind(%X: tensor<64x64xf16>, %Y: tensor<64x64xf32>) attrs {threads = 512, resources_are_hints = true} {
  launch 1, 1, 1 {threads = 512} (%bx: i32, %by: i32, %bz: i32) {
    %s = alloc {type_ = shared<64x64xf16>} : shared<64x64xf16>
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
    %r, %2 = for 0, 4, 1, [%z, %0] : tile<64x64xf32>, tile<64x64xf16> (%k: i32, %c: tile<64x64xf32>, %x_1: tile<64x64xf16>) {
      %i_1 = iota {shape = (64, 64), dim = 0} : tile<64x64xi32>
      %j_1 = iota {shape = (64, 64), dim = 1} : tile<64x64xi32>
      %at_1 = add %i_1, %k : tile<64x64xi32>
      store %s[0, 0], %x_1 {dims = (0, 1)}
      %d, %t = async_gemm %s[0, 0], %s[0, 0], %c : tile<64x64xf32>, token<wgmma>
      %3 = add %k, 1 : i32
      %4 = cmp %3, 4 {predicate = "lt"} : bool
      %5 = if %4 : tile<64x64xf16> then {
        %i_2 = iota {shape = (64, 64), dim = 0} : tile<64x64xi32>
        %at_2 = add %i_2, %3 : tile<64x64xi32>
        %j_2 = iota {shape = (64, 64), dim = 1} : tile<64x64xi32>
        %x_2 = load %X[%at_2, %j_2] {shape = (64, 64), dims = (none, none)} : tile<64x64xf16>
        yield %x_2
      } orelse {
        %6 = splat 0.0:f16 {shape = (64, 64)} : tile<64x64xf16>
        yield %6
      }
      %e = await %d, %t : tile<64x64xf32>
      yield %e, %5
    }
    store %Y[0, 0], %r {dims = (0, 1)}
  }
}
