// Memory is a tensor or a buffer.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  %v = load %x[] {shape = (), dims = ()}  // expect-error: f32 is no memory
}
