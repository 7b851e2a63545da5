// Loads pass stores of other tensors (the first loop), not those of the tensor that is loaded (the second).
// pass: unroll_rows
// target: sm_80
tile kernel @stores(%X: tensor<8x4096xf32>, %Y: tensor<8x4096xf32>) attrs {threads = 128, resources_are_hints = true} {
  launch 8, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    for 0, 2, 1 (%k: i32) {
      %at = mul %k, 2048 : i32
      %x = load %X[%bx, %at] {shape = (2048,), dims = (none, 0)} : tile<2048xf32>
      %e = add %x, %x : tile<2048xf32>
      store %Y[%bx, %at], %e {dims = (none, 0)}
      yield
    }
    for 0, 2, 1 (%l: i32) {
      %from = mul %l, 2048 : i32
      %y = load %Y[%bx, %from] {shape = (2048,), dims = (none, 0)} : tile<2048xf32>
      %f = add %y, %y : tile<2048xf32>
      store %Y[%bx, %from], %f {dims = (none, 0)}
      yield
    }
  }
}

// ----
tile kernel @stores(%X: tensor<8x4096xf32>, %Y: tensor<8x4096xf32>) attrs {threads = 128, resources_are_hints = true} {
  launch 8, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    for 0, 2, 2 (%k: i32) {
      %at = mul %k, 2048 : i32
      %x = load %X[%bx, %at] {shape = (2048,), dims = (none, 0)} : tile<2048xf32>
      %0 = add %k, 1 : i32
      %at_1 = mul %0, 2048 : i32
      %x_1 = load %X[%bx, %at_1] {shape = (2048,), dims = (none, 0)} : tile<2048xf32>
      %e = add %x, %x : tile<2048xf32>
      store %Y[%bx, %at], %e {dims = (none, 0)}
      %e_1 = add %x_1, %x_1 : tile<2048xf32>
      store %Y[%bx, %at_1], %e_1 {dims = (none, 0)}
      yield
    }
    for 0, 2, 1 (%l: i32) {
      %from = mul %l, 2048 : i32
      %y = load %Y[%bx, %from] {shape = (2048,), dims = (none, 0)} : tile<2048xf32>
      %f = add %y, %y : tile<2048xf32>
      store %Y[%bx, %from], %f {dims = (none, 0)}
      yield
    }
  }
}
