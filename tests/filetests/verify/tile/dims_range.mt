// The tile has that dimension.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  %v = load %A[%n, 0] {shape = (64,), dims = (none, 1)}  // expect-error: dimension 1 of rank 1
}
