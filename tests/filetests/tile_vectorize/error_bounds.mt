// pass: tile_vectorize
traced kernel @k(%A: tensor<64xf32>) {
  launch 1, 1, 1 {threads = 64} (%bx: i32, %by: i32, %bz: i32) {
    parallel {extents = (64,)} (%i: i32) {
      for 0, %i, 1 (%k: i32) { // expect-error: the range of this loop depends on the T.Parallel index 'i'
        store %A[%k], 0.0 {dims = (none,)}
        yield
      }
    }
  }
}
