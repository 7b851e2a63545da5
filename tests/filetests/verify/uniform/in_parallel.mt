// Tile operations have no place in a loop over elements.
traced kernel @k(%A: tensor<64x64xf32>, %n: i32) {
  %s = alloc {type_ = shared<64x64xf32>}
  parallel {extents = (64,)} (%i: i32) {
    copy %A[0, 0], %s[0, 0] {shape = (64, 64), src_dims = (0, 1), dst_dims = (0, 1)}  // expect-error: but the parallel
  }
}
