// An index for every dimension.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  %v = load %A[%n] {shape = (), dims = (none, none)}  // expect-error: 1 indices for rank 2
}
