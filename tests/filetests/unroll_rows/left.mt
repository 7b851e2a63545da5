// Left as they are: rounds of a number that only run time knows, and places that the loop carries.
// pass: unroll_rows
// target: sm_80
tile kernel @left(%X: tensor<8x4096xf32>, %P: tensor<8xi32>, %Y: tensor<8x2048xf32>) attrs {threads = 128, resources_are_hints = true} {
  launch 8, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %s = splat 0.0 {shape = (2048,)} : tile<2048xf32>
    %n = load %P[%bx] {shape = (), dims = (none,)} : i32
    %t = for 0, %n, 1, [%s] : tile<2048xf32> (%k: i32, %a: tile<2048xf32>) {
      %at = mul %k, 2048 : i32
      %x = load %X[%bx, %at] {shape = (2048,), dims = (none, 0)} : tile<2048xf32>
      %b = add %a, %x : tile<2048xf32>
      yield %b
    }
    %u, %v = for 0, 2, 1, [%t, 0] : tile<2048xf32>, i32 (%l: i32, %c: tile<2048xf32>, %p: i32) {
      %from = mul %p, 2048 : i32
      %y = load %X[%bx, %from] {shape = (2048,), dims = (none, 0)} : tile<2048xf32>
      %d = add %c, %y : tile<2048xf32>
      %q = sub 1, %l : i32
      yield %d, %q
    }
    store %Y[%bx, 0], %u {dims = (none, 0)}
  }
}

// ----
tile kernel @left(%X: tensor<8x4096xf32>, %P: tensor<8xi32>, %Y: tensor<8x2048xf32>) attrs {threads = 128, resources_are_hints = true} {
  launch 8, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %s = splat 0.0 {shape = (2048,)} : tile<2048xf32>
    %n = load %P[%bx] {shape = (), dims = (none,)} : i32
    %t = for 0, %n, 1, [%s] : tile<2048xf32> (%k: i32, %a: tile<2048xf32>) {
      %at = mul %k, 2048 : i32
      %x = load %X[%bx, %at] {shape = (2048,), dims = (none, 0)} : tile<2048xf32>
      %b = add %a, %x : tile<2048xf32>
      yield %b
    }
    %u, %v = for 0, 2, 1, [%t, 0] : tile<2048xf32>, i32 (%l: i32, %c: tile<2048xf32>, %p: i32) {
      %from = mul %p, 2048 : i32
      %y = load %X[%bx, %from] {shape = (2048,), dims = (none, 0)} : tile<2048xf32>
      %d = add %c, %y : tile<2048xf32>
      %q = sub 1, %l : i32
      yield %d, %q
    }
    store %Y[%bx, 0], %u {dims = (none, 0)}
  }
}
