// pass: tile_vectorize
traced kernel @k(%A: tensor<64x64xf32>, %C: tensor<64xf32>) {
  launch 1, 1, 1 {threads = 64} (%bx: i32, %by: i32, %bz: i32) {
    parallel {extents = (64, 64)} (%i: i32, %j: i32) {
      %a = load %A[%i, %j] {shape = (), dims = (none, none)}
      store %C[%i], %a {dims = (none,)} // expect-error: all elements along the T.Parallel index 'j' write the same place of 'C'
    }
  }
}
