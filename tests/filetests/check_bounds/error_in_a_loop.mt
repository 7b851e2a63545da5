// pass: check_bounds
// The index is 8 or more in each round, and there are some.
traced kernel @k(%A: tensor<8x8xf32>, %n: i32) {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    for 0, 4, 1 (%i: i32) {
      %at = add %i, 8
      store %A[%at, 0], 1.0 {dims = (none, none)} // expect-error: the index is 8 or more
      yield
    }
  }
}
