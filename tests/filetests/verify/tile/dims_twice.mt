// A diagonal is no region.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  %v = load %A[%n, 0] {shape = (64,), dims = (0, 0)}  // expect-error: a tile's dimension lies along two of memory
}
