// For every dimension of memory, which one of the tile runs along it.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  %v = load %A[%n, 0] {shape = (64,), dims = (0,)}  // expect-error: 1 dims for tensor<64x64xf32>
}
