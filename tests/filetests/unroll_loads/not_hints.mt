// Only programs of TileLang's are unrolled.
// pass: unroll_loads
// target: sm_80
tile kernel @plain(%A: tensor<64x1024xf32>, %Y: tensor<64xf32>) attrs {threads = 64} {
  launch 1, 1, 1 {threads = 64} (%bx: i32, %by: i32, %bz: i32) {
    %t = thread_index
    %s = for 0, 16, 1, [0.0] : f32 (%k: i32, %c: f32) {
      %at = mul %k, 4 : i32
      %a, %b, %d, %e = load_run %A[%t, %at] {count = 4, along = 1}
      %f = add %a, %b : f32
      %g = add %c, %f : f32
      yield %g
    }
    store %Y[%t], %s {dims = (none,)}
  }
}

// ----
tile kernel @plain(%A: tensor<64x1024xf32>, %Y: tensor<64xf32>) attrs {threads = 64} {
  launch 1, 1, 1 {threads = 64} (%bx: i32, %by: i32, %bz: i32) {
    %t = thread_index : i32
    %s = for 0, 16, 1, [0.0] : f32 (%k: i32, %c: f32) {
      %at = mul %k, 4 : i32
      %a, %b, %d, %e = load_run %A[%t, %at] {count = 4, along = 1} : f32, f32, f32, f32
      %f = add %a, %b : f32
      %g = add %c, %f : f32
      yield %g
    }
    store %Y[%t], %s {dims = (none,)}
  }
}
