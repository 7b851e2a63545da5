// pass: peel_remainder
// Of rows of K elements a thread takes two of each 64. Rows are inside by the grid.
tile kernel @whole(%A: tensor<NxKxf16>, %C: tensor<Nxf32>) dims(N = %N: i32, K = %K: i32) facts {K = 2} attrs {threads = 32} {
  launch %N, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %t = thread_index
    %t2 = mul %t, 2
    %more = add %K, 63
    %n = floordiv %more, 64
    %r = for 0, %n, 1, [0.0] : f32 (%k: i32, %c: f32) {
      %at = mul %k, 64
      %i = add %at, %t2
      %x0, %x1 = load_run %A[%bx, %i] {count = 2, along = 1}
      %y = mul %x0, %x1
      %z = cast %y {to = f32}
      %d = add %c, %z
      yield %d
    }
    store %C[%bx], %r {dims = (none,)}
  }
}

// ----
tile kernel @whole(%A: tensor<NxKxf16>, %C: tensor<Nxf32>) dims(N = %N: i32, K = %K: i32) facts {K = 2} attrs {threads = 32} {
  launch %N, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %t = thread_index : i32
    %t2 = mul %t, 2 : i32
    %more = add %K, 63 : i32
    %n = floordiv %more, 64 : i32
    %0 = floordiv %K, 64 : i32
    %r = for 0, %0, 1, [0.0] : f32 (%k: i32, %c: f32) {
      %at = mul %k, 64 : i32
      %i = add %at, %t2 : i32
      %x0, %x1 = load_run %A[%bx, %i] {count = 2, along = 1} : f16, f16
      %y = mul %x0, %x1 : f16
      %z = cast %y {to = f32} : f32
      %d = add %c, %z : f32
      yield %d
    }
    %r_1 = for %0, %n, 1, [%r] : f32 (%k_1: i32, %c_1: f32) {
      %at_1 = mul %k_1, 64 : i32
      %i_1 = add %at_1, %t2 : i32
      %x0_1, %x1_1 = load_run %A[%bx, %i_1] {count = 2, along = 1} : f16, f16
      %y_1 = mul %x0_1, %x1_1 : f16
      %z_1 = cast %y_1 {to = f32} : f32
      %d_1 = add %c_1, %z_1 : f32
      yield %d_1
    }
    store %C[%bx], %r_1 {dims = (none,)}
  }
}
