// pass: check_bounds
// Half of the rounds are inside; a buffer has no bounds that would cut off the others.
traced kernel @k(%A: tensor<16xf32>) {
  launch 1, 1, 1 {threads = 32} (%bx: i32, %by: i32, %bz: i32) {
    %S = alloc {type_ = shared<8xf32>}
    parallel {extents = (16,)} (%i: i32) {
      %x = load %A[%i] {shape = (), dims = (none,)}
      store %S[%i], %x {dims = (none,)} // expect-error: the index goes from 0 to 15
      yield
    }
  }
}
