// Indices are integers.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  %v = load %A[%n, %x] {shape = (), dims = (none, none)}  // expect-error: an index is f32, not an integer
}
