// Beside stores to tensors loads stay where they are, in kernels that are not TileLang's.
// pass: hoist_loads
// target: sm_80
tile kernel @writes(%X: tensor<MxNxf32>, %Y: tensor<MxNxf32>) dims(M = %M: i32, N = %N: i32) facts {N = 8} attrs {threads = 128} {
  launch %M, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %n = floordiv %N, 512 : i32
    for 0, %n, 1 (%k: i32) {
      %at = mul %k, 512 : i32
      %x = load %X[%bx, %at] {shape = (512,), dims = (none, 0)} : tile<512xf32>
      %e = add %x, %x : tile<512xf32>
      store %Y[%bx, %at], %e {dims = (none, 0)}
    }
  }
}

// ----
tile kernel @writes(%X: tensor<MxNxf32>, %Y: tensor<MxNxf32>) dims(M = %M: i32, N = %N: i32) facts {N = 8} attrs {threads = 128} {
  launch %M, 1, 1 {threads = 128} (%bx: i32, %by: i32, %bz: i32) {
    %n = floordiv %N, 512 : i32
    for 0, %n, 1 (%k: i32) {
      %at = mul %k, 512 : i32
      %x = load %X[%bx, %at] {shape = (512,), dims = (none, 0)} : tile<512xf32>
      %e = add %x, %x : tile<512xf32>
      store %Y[%bx, %at], %e {dims = (none, 0)}
    }
  }
}
