// A gather has an index for each element.
tile kernel @k(%A: tensor<64x64xf32>, %n: i32, %x: f32) {
  %i = iota {shape = (32,), dim = 0}
  %v = load %A[%n, %i] {shape = (64,), dims = (0, none)}  // expect-error: a tile of another shape than (64,)
}
