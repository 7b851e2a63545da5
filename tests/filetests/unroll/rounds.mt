// pass: unroll
// Steps of 2 and counting down; a loop without a round gives what it starts from; loops of other kinds stay.
traced kernel @rounds(%A: tensor<64xf32>, %n: i32) {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    for 1, 6, 2 {kind = "unroll"} (%i: i32) {
      store %A[%i], 1.0 {dims = (none,)}
      yield
    }
    for 2, 0, -1 {kind = "unroll"} (%j: i32) {
      store %A[%j], 2.0 {dims = (none,)}
      yield
    }
    %r = for 3, 3, 1, [4.0] {kind = "unroll"} : f32 (%k: i32, %c: f32) {
      %d = add %c, 1.0
      yield %d
    }
    store %A[0], %r {dims = (none,)}
    for 0, 2, 1 (%s: i32) {
      store %A[%s], 5.0 {dims = (none,)}
      yield
    }
  }
}

// ----
traced kernel @rounds(%A: tensor<64xf32>, %n: i32) {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    store %A[1], 1.0 {dims = (none,)}
    store %A[3], 1.0 {dims = (none,)}
    store %A[5], 1.0 {dims = (none,)}
    store %A[2], 2.0 {dims = (none,)}
    store %A[1], 2.0 {dims = (none,)}
    store %A[0], 4.0 {dims = (none,)}
    for 0, 2, 1 (%s: i32) {
      store %A[%s], 5.0 {dims = (none,)}
      yield
    }
  }
}
