// Traced operations are gone from tile IR.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  parallel {extents = (4,)} (%i: i32) {  // expect-error: parallel has no place in tile IR
  }
}
