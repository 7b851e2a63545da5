// Rows that are added up: four rounds at once, their loads first; 6 of 12 rounds would take 48 registers, 12 take 96.
// pass: unroll_rows
// target: sm_80
tile kernel @rounds(%X: tensor<8x12288xf32>, %Y: tensor<8xf32>) attrs {threads = 128, resources_are_hints = true} {
  launch 8, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %s = splat 0.0 {shape = (1024,)} : tile<1024xf32>
    %t = for 0, 12, 1, [%s] : tile<1024xf32> (%k: i32, %a: tile<1024xf32>) {
      %at = mul %k, 1024 : i32
      %x = load %X[%bx, %at] {shape = (1024,), dims = (none, 0)} : tile<1024xf32>
      %b = add %a, %x : tile<1024xf32>
      yield %b
    }
    %u = reduce %t {dim = 0, kind = "sum"} : f32
    store %Y[%bx], %u {dims = (none,)}
  }
}

// ----
tile kernel @rounds(%X: tensor<8x12288xf32>, %Y: tensor<8xf32>) attrs {threads = 128, resources_are_hints = true} {
  launch 8, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %s = splat 0.0 {shape = (1024,)} : tile<1024xf32>
    %t = for 0, 12, 6, [%s] : tile<1024xf32> (%k: i32, %a: tile<1024xf32>) {
      %at = mul %k, 1024 : i32
      %x = load %X[%bx, %at] {shape = (1024,), dims = (none, 0)} : tile<1024xf32>
      %0 = add %k, 1 : i32
      %at_1 = mul %0, 1024 : i32
      %x_1 = load %X[%bx, %at_1] {shape = (1024,), dims = (none, 0)} : tile<1024xf32>
      %1 = add %k, 2 : i32
      %at_2 = mul %1, 1024 : i32
      %x_2 = load %X[%bx, %at_2] {shape = (1024,), dims = (none, 0)} : tile<1024xf32>
      %2 = add %k, 3 : i32
      %at_3 = mul %2, 1024 : i32
      %x_3 = load %X[%bx, %at_3] {shape = (1024,), dims = (none, 0)} : tile<1024xf32>
      %3 = add %k, 4 : i32
      %at_4 = mul %3, 1024 : i32
      %x_4 = load %X[%bx, %at_4] {shape = (1024,), dims = (none, 0)} : tile<1024xf32>
      %4 = add %k, 5 : i32
      %at_5 = mul %4, 1024 : i32
      %x_5 = load %X[%bx, %at_5] {shape = (1024,), dims = (none, 0)} : tile<1024xf32>
      %b = add %a, %x : tile<1024xf32>
      %b_1 = add %b, %x_1 : tile<1024xf32>
      %b_2 = add %b_1, %x_2 : tile<1024xf32>
      %b_3 = add %b_2, %x_3 : tile<1024xf32>
      %b_4 = add %b_3, %x_4 : tile<1024xf32>
      %b_5 = add %b_4, %x_5 : tile<1024xf32>
      yield %b_5
    }
    %u = reduce %t {dim = 0, kind = "sum"} : f32
    store %Y[%bx], %u {dims = (none,)}
  }
}
