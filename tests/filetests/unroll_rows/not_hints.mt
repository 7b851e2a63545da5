// Kernels of @minitile.kernel say T.unroll where it is worth it.
// pass: unroll_rows
// target: sm_80
tile kernel @not_hints(%X: tensor<8x12288xf32>, %Y: tensor<8xf32>) attrs {threads = 128} {
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
tile kernel @not_hints(%X: tensor<8x12288xf32>, %Y: tensor<8xf32>) attrs {threads = 128} {
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
