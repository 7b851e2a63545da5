// Four rounds at once, their loads first: 16 is a multiple of 4.
// pass: unroll_loads
// target: sm_80
tile kernel @rounds(%A: tensor<64x1024xf32>, %Y: tensor<64xf32>) attrs {threads = 64, resources_are_hints = true} {
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
tile kernel @rounds(%A: tensor<64x1024xf32>, %Y: tensor<64xf32>) attrs {threads = 64, resources_are_hints = true} {
  launch 1, 1, 1 {threads = 64} (%bx: i32, %by: i32, %bz: i32) {
    %t = thread_index : i32
    %s = for 0, 16, 4, [0.0] : f32 (%k: i32, %c: f32) {
      %at = mul %k, 4 : i32
      %a, %b, %d, %e = load_run %A[%t, %at] {count = 4, along = 1} : f32, f32, f32, f32
      %0 = add %k, 1 : i32
      %at_1 = mul %0, 4 : i32
      %a_1, %b_1, %d_1, %e_1 = load_run %A[%t, %at_1] {count = 4, along = 1} : f32, f32, f32, f32
      %1 = add %k, 2 : i32
      %at_2 = mul %1, 4 : i32
      %a_2, %b_2, %d_2, %e_2 = load_run %A[%t, %at_2] {count = 4, along = 1} : f32, f32, f32, f32
      %2 = add %k, 3 : i32
      %at_3 = mul %2, 4 : i32
      %a_3, %b_3, %d_3, %e_3 = load_run %A[%t, %at_3] {count = 4, along = 1} : f32, f32, f32, f32
      %f = add %a, %b : f32
      %g = add %c, %f : f32
      %f_1 = add %a_1, %b_1 : f32
      %g_1 = add %g, %f_1 : f32
      %f_2 = add %a_2, %b_2 : f32
      %g_2 = add %g_1, %f_2 : f32
      %f_3 = add %a_3, %b_3 : f32
      %g_3 = add %g_2, %f_3 : f32
      yield %g_3
    }
    store %Y[%t], %s {dims = (none,)}
  }
}
