// Of six rounds two go at once.
// pass: unroll_loads
// target: sm_80
tile kernel @odd(%A: tensor<64x1024xf32>, %Y: tensor<64xf32>) attrs {threads = 64, resources_are_hints = true} {
  launch 1, 1, 1 {threads = 64} (%bx: i32, %by: i32, %bz: i32) {
    %t = thread_index
    %s = for 0, 6, 1, [0.0] : f32 (%k: i32, %c: f32) {
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
tile kernel @odd(%A: tensor<64x1024xf32>, %Y: tensor<64xf32>) attrs {threads = 64, resources_are_hints = true} {
  launch 1, 1, 1 {threads = 64} (%bx: i32, %by: i32, %bz: i32) {
    %t = thread_index : i32
    %s = for 0, 6, 2, [0.0] : f32 (%k: i32, %c: f32) {
      %at = mul %k, 4 : i32
      %a, %b, %d, %e = load_run %A[%t, %at] {count = 4, along = 1} : f32, f32, f32, f32
      %0 = add %k, 1 : i32
      %at_1 = mul %0, 4 : i32
      %a_1, %b_1, %d_1, %e_1 = load_run %A[%t, %at_1] {count = 4, along = 1} : f32, f32, f32, f32
      %f = add %a, %b : f32
      %g = add %c, %f : f32
      %f_1 = add %a_1, %b_1 : f32
      %g_1 = add %g, %f_1 : f32
      yield %g_1
    }
    store %Y[%t], %s {dims = (none,)}
  }
}
